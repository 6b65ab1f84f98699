"""Tilings of layouts, under CuTe's names: divides cut a layout into tiles, products repeat one.

A tiler is a layout, an extent n for n:1, or a tuple of those for the modes one by one, where None leaves a mode as it
is. The reference is CuTe C++ 4.2 (`cute/layout.hpp`).
"""

from __future__ import annotations

from typing import Any

from legalsat.checks import integer, integers
from legalsat.errors import InvalidInput
from legalsat.layout import Layout, make_layout
from legalsat.layout.algebra import Tiler, append, by_mode, checked_layout, coalesce, complement, composition, on_domain
from legalsat.layout.int_tuple import IntTuple, as_shape, as_tuple, product


@on_domain
def logical_divide(layout: Layout, tiler: Tiler) -> Layout:
    """Return the layout as (tile, rest): the elements that `tiler` picks, and the repeats of that pick.

    By a tuple, every mode becomes (tile, rest).

    Args:
        layout: a `Layout`, or a `ComposedLayout`, which changes as its inner layout does.
        tiler: a `Layout`, an extent, or a tuple of these, one a mode.

    Raises:
        NoSuchLayout: the tiler does not divide the layout.
    """
    return by_mode(layout, tiler, _divided)


@on_domain
def zipped_divide(layout: Layout, tiler: Tiler) -> Layout:
    """Return `logical_divide` with all tiles in mode 0 and all rests in mode 1.

    Args:
        layout: a `Layout`, or a `ComposedLayout`, which changes as its inner layout does.
        tiler: a `Layout`, an extent, or a tuple of these, one a mode.

    Raises:
        NoSuchLayout: the tiler does not divide the layout.
    """
    return make_layout(*_unzipped(logical_divide(layout, tiler), tiler))


@on_domain
def tiled_divide(layout: Layout, tiler: Tiler) -> Layout:
    """Return `zipped_divide` with the rests as modes of their own: ((tiles), rest, rest, ...).

    Args:
        layout: a `Layout`, or a `ComposedLayout`, which changes as its inner layout does.
        tiler: a `Layout`, an extent, or a tuple of these, one a mode.

    Raises:
        NoSuchLayout: the tiler does not divide the layout.
    """
    tile, rest = _unzipped(logical_divide(layout, tiler), tiler)
    return make_layout(tile, *_unpacked(rest))


@on_domain
def flat_divide(layout: Layout, tiler: Tiler) -> Layout:
    """Return `zipped_divide` with tiles and rests as modes of their own: (tile, tile, ..., rest, rest, ...).

    Args:
        layout: a `Layout`, or a `ComposedLayout`, which changes as its inner layout does.
        tiler: a `Layout`, an extent, or a tuple of these, one a mode.

    Raises:
        NoSuchLayout: the tiler does not divide the layout.
    """
    tile, rest = _unzipped(logical_divide(layout, tiler), tiler)
    return make_layout(*_unpacked(tile), *_unpacked(rest))


@on_domain
def logical_product(block: Layout, tiler: Tiler) -> Layout:
    """Return (block, repeats): the block, and `tiler` laid over the offsets between and behind it.

    By a tuple, every mode becomes (block, repeats).

    Args:
        block: the `Layout` to repeat.
        tiler: a `Layout`, an extent, or a tuple of these, one a mode.

    Raises:
        NoSuchLayout: the block has no complement, or the tiler does not compose with it.
    """
    return by_mode(block, tiler, _multiplied)


@on_domain
def zipped_product(block: Layout, tiler: Tiler) -> Layout:
    """Return `logical_product` with all blocks in mode 0 and all repeats in mode 1.

    Args:
        block: the `Layout` to repeat.
        tiler: a `Layout`, an extent, or a tuple of these, one a mode.

    Raises:
        NoSuchLayout: the block has no complement, or the tiler does not compose with it.
    """
    return make_layout(*_unzipped(logical_product(block, tiler), tiler))


@on_domain
def tiled_product(block: Layout, tiler: Tiler) -> Layout:
    """Return `zipped_product` with the repeats as modes of their own: ((blocks), repeat, repeat, ...).

    Args:
        block: the `Layout` to repeat.
        tiler: a `Layout`, an extent, or a tuple of these, one a mode.

    Raises:
        NoSuchLayout: the block has no complement, or the tiler does not compose with it.
    """
    tile, rest = _unzipped(logical_product(block, tiler), tiler)
    return make_layout(tile, *_unpacked(rest))


@on_domain
def flat_product(block: Layout, tiler: Tiler) -> Layout:
    """Return `zipped_product` with blocks and repeats as modes of their own.

    Args:
        block: the `Layout` to repeat.
        tiler: a `Layout`, an extent, or a tuple of these, one a mode.

    Raises:
        NoSuchLayout: the block has no complement, or the tiler does not compose with it.
    """
    tile, rest = _unzipped(logical_product(block, tiler), tiler)
    return make_layout(*_unpacked(tile), *_unpacked(rest))


@on_domain
def blocked_product(block: Layout, tiler: Layout) -> Layout:
    """Return the block repeated over the tiler, mode by mode: every mode is (within block, block).

    Args:
        block: the `Layout` to repeat.
        tiler: a `Layout` that says how often, and at which offsets in blocks.

    Raises:
        NoSuchLayout: the block has no complement, or the tiler does not compose with it.
    """
    inner, outer = _padded_product(block, tiler)
    return make_layout(*map(make_layout, inner, outer))


@on_domain
def raked_product(block: Layout, tiler: Layout) -> Layout:
    """Return the block repeated over the tiler with blocks interleaved: every mode is (block, within block).

    Args:
        block: the `Layout` to repeat.
        tiler: a `Layout` that says how often, and at which offsets in blocks.

    Raises:
        NoSuchLayout: the block has no complement, or the tiler does not compose with it.
    """
    inner, outer = _padded_product(block, tiler)
    return make_layout(*map(make_layout, outer, inner))


@on_domain
def tile_to_shape(block: Layout, shape: IntTuple, order: tuple[int, ...] | None = None) -> Layout:
    """Return the block repeated until the modes have the sizes of `shape`'s.

    Args:
        block: what to repeat, of at most the shape's rank.
        shape: extents to reach, multiples of the block's.
        order: one number per mode; modes with smaller numbers are repeated first. Left to right when left out.

    Raises:
        InvalidInput: ranks differ or an extent is no multiple of the block's.
    """
    targets = [product(n) for n in as_tuple(as_shape(shape))]  # type: ignore[arg-type]
    if block.rank > len(targets):
        raise InvalidInput(f"block {block} has {block.rank} modes, the shape {len(targets)}; give a shape of its rank")
    block = _padded(block, len(targets))
    counts = []
    for axis, (target, mode) in enumerate(zip(targets, block, strict=True)):
        if target % mode.size:
            raise InvalidInput(
                f"extent {target} of mode {axis} is no multiple of the block's {mode.size}; "
                f"pad it to {-(-target // mode.size) * mode.size}"
            )
        counts.append(target // mode.size)
    ranks = tuple(range(len(targets))) if order is None else integers(order, "order", length=len(targets))
    if len(set(ranks)) < len(ranks):
        raise InvalidInput(f"order {ranks} names a place twice; give each mode its own")
    strides, current = [0] * len(counts), 1
    for axis in sorted(range(len(counts)), key=lambda a: ranks[a]):
        strides[axis] = 0 if counts[axis] == 1 else current
        current *= counts[axis]
    return blocked_product(block, Layout(tuple(counts), tuple(strides)))


def _divided(layout: Layout, tiler: Any) -> Layout:
    if tiler is None:
        return layout
    tile = _tile(tiler)
    return composition(layout, make_layout(tile, complement(tile, coalesce(layout).shape)))


def _multiplied(block: Layout, tiler: Any) -> Layout:
    if tiler is None:
        return block
    tile = _tile(tiler)
    return make_layout(block, composition(complement(block, block.size * tile.cosize), tile))


def _tile(tiler: Any) -> Layout:
    return tiler if isinstance(tiler, Layout) else Layout(integer(tiler, "tiler", low=1))


def _unzipped(layout: Layout, tiler: Any) -> tuple[Layout, Layout]:
    """Return the tiles and the rests of a layout whose modes at the tiler's leaves are (tile, rest) pairs."""
    if not isinstance(tiler, tuple):
        if layout.rank != 2:
            raise InvalidInput(f"mode {layout} is left as it is and has no tile and rest; give a tiler for every mode")
        return layout[0], layout[1]
    modes = tuple(layout)
    tiles, rests = zip(*map(_unzipped, modes, tiler), strict=True)
    return make_layout(*tiles), make_layout(*rests, *modes[len(tiler) :])


def _unpacked(layout: Layout) -> tuple[Layout, ...]:
    return tuple(layout) if layout.rank > 1 else (layout,)


def _padded(layout: Layout, rank: int) -> Layout:
    while layout.rank < rank:
        layout = append(layout, Layout(1, 0))
    return layout


def _padded_product(block: Layout, tiler: Layout) -> tuple[Layout, Layout]:
    rank = max(block.rank, checked_layout(tiler, "tiler").rank)
    # Rank-1 tuples, so that a mode that the product takes apart stays one mode.
    one, other = (make_layout(*_padded(part, rank)) for part in (block, tiler))
    product_layout = logical_product(one, other)
    return product_layout[0], product_layout[1]
