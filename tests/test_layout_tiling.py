"""Divides and products: laws over all coordinates, and the shapes that CuTe's documentation promises."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_layouts import POWERS, by_definition, divisible, layouts

from legalsat.errors import InvalidInput, NoSuchLayout
from legalsat.layout import Layout, make_layout
from legalsat.layout.algebra import Tiler, complement, composition
from legalsat.layout.swizzle import ComposedLayout, Swizzle
from legalsat.layout.tiling import (
    blocked_product,
    flat_divide,
    flat_product,
    logical_divide,
    logical_product,
    raked_product,
    tile_to_shape,
    tiled_divide,
    tiled_product,
    zipped_divide,
    zipped_product,
)


@given(layouts(), divisible(most=16))
def test_divide_is_composition_with_the_tiler_and_its_complement(layout: Layout, tiler: Layout) -> None:
    try:
        found = logical_divide(layout, tiler)
    except NoSuchLayout:
        return
    rest = complement(tiler, layout.size)
    assert found.rank == 2
    assert found[0].size == tiler.size
    expected = [layout(a + b) for b in by_definition(rest)[: found[1].size] for a in by_definition(tiler)]
    assert by_definition(found) == expected


@given(divisible(extents=POWERS, gaps=(1, 2)), st.sampled_from([1, 2, 4]))
def test_a_dividing_tile_rearranges_the_elements(layout: Layout, tile: int) -> None:
    if layout.size % tile:
        return
    found = logical_divide(layout, tile)
    assert found[0].size == tile
    assert by_definition(found) == by_definition(layout)
    spread = logical_divide(layout, Layout(tile, layout.size // tile))
    assert sorted(by_definition(spread)) == sorted(by_definition(layout))


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4), st.booleans()), min_size=1, max_size=3))
def test_divides_by_mode_differ_in_grouping_only(parts: list[tuple[int, int, bool]]) -> None:
    extents = tuple(tile * rest for tile, rest, _ in parts)
    layout = Layout((*extents, 5))
    tiler: Tiler = tuple(tile if plain else Layout(tile, rest) for tile, rest, plain in parts)
    logical, zipped = logical_divide(layout, tiler), zipped_divide(layout, tiler)
    tiled, flat = tiled_divide(layout, tiler), flat_divide(layout, tiler)
    count = len(parts)
    assert [m.rank for m in logical] == [2] * count + [1]
    assert list(zipped[0]) == [logical[i, 0] for i in range(count)]
    assert list(zipped[1]) == [*(logical[i, 1] for i in range(count)), logical[count]]
    assert list(tiled) == [zipped[0], *zipped[1]]
    assert list(flat) == ([*zipped[0]] if count > 1 else [zipped[0]]) + [*zipped[1]]
    assert sorted(by_definition(zipped)) == list(range(layout.size))


def test_none_leaves_a_mode_as_it_is() -> None:
    layout = Layout((4, 6))
    assert logical_divide(layout, (None, 2)) == make_layout(layout[0], Layout((2, 3), (4, 8)))
    assert composition(layout, (2, None)) == Layout((2, 6), (1, 4))
    assert logical_product(layout, (None, 2))[0] == layout[0]


@given(divisible(most=24), divisible(most=12))
def test_product_repeats_the_block(block: Layout, tiler: Layout) -> None:
    try:
        found = logical_product(block, tiler)
    except NoSuchLayout:
        return
    assert found[0] == block
    places = complement(block, block.size * tiler.cosize)
    repeats = [places(i) for i in by_definition(tiler)]
    assert by_definition(found) == [start + i for start in repeats for i in by_definition(block)]
    assert len(set(by_definition(found))) == found.size


@given(divisible(gaps=(1,), most=24), divisible(gaps=(1,), most=12))
def test_products_of_permutations_are_permutations(block: Layout, tiler: Layout) -> None:
    assert sorted(by_definition(logical_product(block, tiler))) == list(range(block.size * tiler.size))


def test_products_by_mode_differ_in_grouping_only() -> None:
    block, tiler = Layout((2, 5), (1, 100)), (Layout(3, 1), 4)
    logical, zipped = logical_product(block, tiler), zipped_product(block, tiler)
    assert logical == Layout("((2,3),(5,4)):((1,2),(100,1))")
    assert zipped == Layout("((2,5),(3,4)):((1,100),(2,1))")
    assert list(tiled_product(block, tiler)) == [zipped[0], *zipped[1]]
    assert list(flat_product(block, tiler)) == [*zipped[0], *zipped[1]]
    assert tiled_product(block[0], 3) == Layout("(2,3):(1,2)")


@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=2).map(tuple),
    st.lists(st.integers(1, 3), min_size=1, max_size=3).map(tuple),
    st.booleans(),
)
def test_blocked_and_raked_products(inner: tuple[int, ...], outer: tuple[int, ...], row_major: bool) -> None:
    block = Layout(inner)
    tiler = Layout(outer, tuple(3**i for i in reversed(range(len(outer))))) if row_major else Layout(outer)
    rank = max(len(inner), len(outer))
    within, of = (t + (1,) * (rank - len(t)) for t in (inner, outer))
    blocked, raked = blocked_product(block, tiler), raked_product(block, tiler)
    assert [m.size for m in blocked] == [m.size for m in raked] == [a * b for a, b in zip(within, of, strict=True)]
    for at in product(*(range(n) for n in within)):
        for tile in product(*(range(n) for n in of)):
            offset = block(at[: len(inner)]) + block.size * tiler(tile[: len(outer)])
            assert blocked(tuple(a + n * t for a, n, t in zip(at, within, tile, strict=True))) == offset
            assert raked(tuple(t + n * a for a, n, t in zip(at, of, tile, strict=True))) == offset


def test_integral_modes_in_a_product_stay_one_mode() -> None:
    assert blocked_product(Layout(3, 2), Layout(4)) == Layout("((3,(2,2))):((2,(1,6)))")
    assert raked_product(Layout(3, 2), Layout(4)) == Layout("(((2,2),3)):(((1,6),2))")


@pytest.mark.parametrize(("order", "first"), [(None, 8), ((0, 1), 8), ((1, 0), 1)])
def test_tile_to_shape(order: tuple[int, ...] | None, first: int) -> None:
    atom = Layout("(8,4):(4,1)")
    found = tile_to_shape(atom, (16, 12), order)
    assert [m.size for m in found] == [16, 12]
    assert sorted(by_definition(found)) == list(range(192))
    for i, j in product(range(8), range(4)):
        assert found(i, j) == atom(i, j)
    assert found(8, 0) == 32 * (1 if first == 8 else 3)
    assert found(0, 4) == 32 * (2 if first == 8 else 1)


def test_a_swizzled_atom_tiles_as_its_layout_does() -> None:
    atom = ComposedLayout(Swizzle(3, 3, 3), 0, Layout("(8,64):(64,1)"))
    found = tile_to_shape(atom, (128, 64))
    assert sorted(found.offsets().tolist()) == list(range(128 * 64))
    assert zipped_divide(found, (8, 64))[1].size == 16


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: logical_divide(Layout((4, 6)), (2, 2, 2)), "tiler has 3 modes"),
        (lambda: logical_divide(Layout(4), 0), "tiler is 0"),
        (lambda: logical_divide(Layout(4), "2"), "tiler is '2'"),  # type: ignore[call-overload]
        (lambda: zipped_divide(Layout((4, 6)), (None, 2)), "give a tiler for every mode"),
        (lambda: logical_product(Layout(4), False), "tiler is False"),
        (
            lambda: tile_to_shape(Layout((8, 4)), (12, 4)),
            "extent 12 of mode 0 is no multiple of the block's 8; pad it to 16",
        ),
        (lambda: tile_to_shape(Layout((8, 4)), 32), "has 2 modes, the shape 1"),
        (lambda: tile_to_shape(Layout((8, 4)), (8, 4), (1, 1)), "names a place twice"),
        (lambda: blocked_product(Layout(4), 4), "give a Layout"),  # type: ignore[call-overload]
    ],
)
def test_refused(make: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        make()


def test_a_tile_that_does_not_divide_is_refused() -> None:
    with pytest.raises(NoSuchLayout, match=r"mode 1 .* step 3 does not divide extent 4"):
        logical_divide(Layout("(4,4):(8,1)"), 3)
