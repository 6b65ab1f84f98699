"""Tiles for a matrix unit where the user names none: rows and K of whole instructions, that overhang little."""

from __future__ import annotations

import math
from collections.abc import Iterator

from legalsat.errors import LegalSatError
from legalsat.extract.search.planner import NoLegalLayout, cached_plan
from legalsat.operators import MATRIX_CONSUMERS, Move, k_major
from legalsat.targets import MAX_BOX_EXTENT, Target

DEPTH_BYTES = (128, 64, 32)  # of K: spans of swizzles, of which the smallest is one instruction
ROWS = {"a": (128, 64), "b": (256, 128, 64, 32, 16, 8)}
LONG = 2**20  # elements that an axis with a dim is taken to have
MOST_TRIED = 8


def with_tile(operator: Move, target: Target) -> Move:
    """Return the movement with a tile for the matrix unit that reads it; as it is where it names one, or none reads it.

    Of the tiles that overhang least the first is taken that has a plan. Where none has, the plainest one stands for all
    in the refusal.
    """
    if operator.consumer not in MATRIX_CONSUMERS or operator.tile is not None:
        return operator
    tried = sorted(_proposals(operator), key=lambda tile: _held(operator, tile))[:MOST_TRIED]
    for tile in tried:
        try:
            tiled = operator.but(tile=tile)
            if operator.source.dims or operator.target.dims:
                from legalsat.extract.solve.symbolic import symbolic_plan  # noqa: PLC0415 - it plans at samples

                symbolic_plan(tiled, target)
            else:
                cached_plan(tiled, target)
        except NoLegalLayout:
            continue
        except LegalSatError:
            break
        return tiled
    return operator.but(tile=tried[0]) if tried else operator


def _proposals(operator: Move) -> Iterator[tuple[int, ...]]:
    """Yield tiles, the deepest and largest first."""
    side, extents = operator.consumer.partition(".")[2] if operator.consumer else "", _extents(operator)
    bits = operator.source.dtype.bits
    for depth in (8 * size // bits for size in DEPTH_BYTES):
        for rows in ROWS[side]:
            if operator.sweeps:
                yield rows, depth
            elif len(extents) > 1:
                yield from ((*split, depth) for split in _splits(operator, extents, rows))


def _splits(operator: Move, extents: tuple[int, ...], rows: int) -> Iterator[tuple[int, ...]]:
    """Yield how rows are spread over all axes but the last: along one, or two of a K-major operand, none too long."""
    strides = [stride if isinstance(stride, int) else LONG for stride in operator.source.strides[:-1]]
    fast = sorted(range(len(strides)), key=lambda axis: (extents[axis] == 1, strides[axis], -axis))
    several = fast[1:2] if k_major(operator.source) and extents[fast[0]] < LONG else []
    for inner in range(rows.bit_length()):
        along, across = rows >> inner, 1 << inner
        if (across > 1 and not several) or max(along, across) > MAX_BOX_EXTENT:
            continue
        tile = [1] * len(strides)
        tile[fast[0]] = along
        for axis in several:
            tile[axis] = across
        yield tuple(tile)


def _extents(operator: Move) -> tuple[int, ...]:
    return tuple(n if isinstance(n, int) else LONG for n in operator.source.shape)


def _held(operator: Move, tile: tuple[int, ...]) -> int:
    """Return the elements of all tiles, those that overhang included."""
    extents = _extents(operator)
    if operator.sweeps:
        extents = (extents[0] * math.prod(sweep.windows for sweep in operator.sweeps), extents[-1])
    return math.prod(-(-extent // t) * t for extent, t in zip(extents, tile, strict=True))
