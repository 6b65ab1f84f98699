"""Changes of a movement other than its source's layout: its tile, its reader, its padding, or parts of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from legalsat.explanation import Snippet
from legalsat.extract.explain.tensor_layouts import GRANULE_BITS, alignment, by_stride
from legalsat.extract.search.rows import axes_of
from legalsat.logic import round_up
from legalsat.operators import MATRIX_CONSUMERS, Move, dense_like
from legalsat.targets import Target
from legalsat.tensor import Tensor, plain
from legalsat.view.snippets import made_text, slice_snippets, tile_snippets

MOST_TILES = 8  # that are worth planning
ROWS_OF_TILE = 8
EXTENT_LIMIT = 2**31  # coordinates are signed (TMA028)


@dataclass(frozen=True, slots=True)
class Change:
    """A change worth trying: its kind, what to do, the operator after it, and how many of those do the whole."""

    kind: str
    message: str
    after: Move
    parts: int = 1
    snippets: tuple[Snippet, ...] = ()


Tries: TypeAlias = "Callable[[Move, Target], Iterator[Change]]"


def rounded_tile(operator: Move, target: Target) -> Iterator[Change]:
    """Yield the copy whose box reads whole granules along the fastest axis: a little more than the tile."""
    if not operator.by_rows or operator.tile is None:
        return
    source, tile = operator.source, operator.tile
    axis = next(iter(axes_of(source, tile)), None)
    if axis is None:
        return
    bits, shape = source.dtype.bits, plain(source.shape)
    granule = math.lcm(GRANULE_BITS, bits) // bits
    extent = round_up(tile[axis], granule)
    if extent == tile[axis]:
        return
    wider = (*tile[:axis], extent, *tile[axis + 1 :])
    after = operator.but(tile=wider)
    more = f"{extent - tile[axis]} elements more of axis {axis} than it holds, zeros past its end"
    if tile[axis] < shape[axis]:
        more = f"{extent - tile[axis]} elements more of axis {axis} a tile"
    message = f"round the box up to {_by(wider)} (now {_by(tile)}), which brings {more}"
    yield Change("tile", message, after, 1, tile_snippets(after, target.name))


def other_tiles(operator: Move, target: Target) -> Iterator[Change]:
    """Yield other tiles, the nearest in elements first: whole granules along the fastest axis, eights along others."""
    source, tile = operator.source, operator.axis_tile
    if tile is None:
        return
    bits, strides = source.dtype.bits, plain(source.strides)
    options = []
    for axis, extent in enumerate(tile):
        unit = math.lcm(GRANULE_BITS, bits) // bits if strides[axis] == 1 else ROWS_OF_TILE
        power = 1 << (extent - 1).bit_length()
        wanted = {extent, round_up(extent, unit), extent // unit * unit, power, power // 2, min(power, 64 * 16 // bits)}
        # A box has whole granules along the fastest axis, unless all of it merges with the next one.
        fits = extent >= plain(source.shape)[axis] or strides[axis] != 1
        options.append(sorted(n for n in wanted if n > 0 and (fits or n * bits % GRANULE_BITS == 0)))
    whole = math.prod(tile)
    changed: dict[tuple[int, ...], float] = {}
    for axis, extents in enumerate(options):  # one axis, then it and the next
        for extent in extents:
            one = (*tile[:axis], extent, *tile[axis + 1 :])
            changed[one] = abs(math.log(math.prod(one) / whole))
            for other in range(axis + 1, len(tile)):
                for second in options[other]:
                    two = (*one[:other], second, *one[other + 1 :])
                    changed[two] = abs(math.log(math.prod(two) / whole)) + (
                        second != tile[other] and extent != tile[axis]
                    )
    changed.pop(tile, None)
    for wanted_tile in sorted(changed, key=lambda one: (changed[one], one))[:MOST_TILES]:
        after = operator.but(tile=wanted_tile)
        message = f"take tile {_by(wanted_tile)} instead of {_by(tile)}"
        yield Change("tile", message, after, 1, tile_snippets(after, target.name))


def other_readers(operator: Move, target: Target) -> Iterator[Change]:
    """Yield the copy for threads, which read any type."""
    if operator.by_rows and operator.consumer in MATRIX_CONSUMERS:
        after = operator.but(consumer="threads")
        message = f"have threads read the tiles instead of {operator.consumer}, or convert them to a type that it takes"
        yield Change("consumer", message, after, 1, tile_snippets(after, target.name))


def no_tile(operator: Move, target: Target) -> Iterator[Change]:
    """Yield the operator without its tile."""
    if operator.axis_tile is not None:
        free = operator.but(tile=None)
        message = f"leave the tile {_by(operator.axis_tile)} out, and have one chosen"
        yield Change("tile", message, free, 1, tile_snippets(free, target.name))


def wider_fronts(operator: Move, target: Target) -> Iterator[Change]:
    """Yield a padding whose front is whole granules of rows, which the result is then a slice of."""
    strides, bits = plain(operator.source.strides), operator.source.dtype.bits
    granule = math.lcm(GRANULE_BITS, bits) // bits
    for axis, (before, _) in enumerate(operator.around):
        wider = round_up(before, granule)
        if strides[axis] == 1 and wider != before and (made := operator.fronted(axis, wider)) is not None:
            message = (
                f"pad {wider} elements in front of axis {axis} instead of {before}, and use the result from element "
                f"{wider - before} of that axis on"
            )
            text = f"import legalsat as ls\n\noperator = {made_text(made)}"
            yield Change("padding", message, made, 1, (Snippet("legalsat", text),))


def parts_of(operator: Move, target: Target) -> Iterator[Change]:
    """Yield parts of a copy: without its slowest axis where it has too many axes, shorter ones where it is too long."""
    if not operator.by_rows:
        return
    source = operator.source
    shape, strides = plain(source.shape), plain(source.strides)
    slow = [a for a in reversed(by_stride(source)) if operator.tile is None or operator.tile[a] == 1]
    if target.tma is not None and len(by_stride(source)) > target.tma.max_rank and slow:
        axis = slow[0]
        part = _without(source, axis)
        tile = None if operator.tile is None else (*operator.tile[:axis], *operator.tile[axis + 1 :])
        after = operator.but(source=part, target=dense_like(part), tile=tile)
        message = f"take each of the {shape[axis]} slices along axis {axis} by a tensor map of its own"
        yield Change("split", message, after, shape[axis], slice_snippets(axis, shape[axis], 1))
    for axis in range(source.rank):
        if shape[axis] >= EXTENT_LIMIT:
            unit = 1 if operator.tile is None else operator.tile[axis]
            parts = -(-shape[axis] // (EXTENT_LIMIT - 1))
            extent = round_up(-(-shape[axis] // parts), unit)
            extent = extent if extent < EXTENT_LIMIT else extent - unit
            cut = Tensor(
                (*shape[:axis], extent, *shape[axis + 1 :]), source.dtype, strides, source.align, source.offset
            )
            message = f"cut axis {axis} into parts of {extent} elements, each with a tensor map of its own"
            count = -(-shape[axis] // extent)
            after = operator.but(source=cut, target=dense_like(cut))
            yield Change("split", message, after, count, slice_snippets(axis, count, extent))


def _without(tensor: Tensor, axis: int) -> Tensor:
    """Return any slice at one index of an axis; its base is as aligned as those of all of them are."""
    shape, strides = plain(tensor.shape), plain(tensor.strides)
    align = alignment(tensor)
    step = strides[axis] * tensor.dtype.bits // 8
    common = math.gcd(align, step) if step else align
    kept = [a for a in range(tensor.rank) if a != axis]
    return Tensor([shape[a] for a in kept], tensor.dtype, [strides[a] for a in kept], common)


def _by(numbers: Iterable[int]) -> str:
    return " x ".join(map(str, numbers))
