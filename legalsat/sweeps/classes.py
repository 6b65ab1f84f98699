"""Legality classes: an operand's smallest equal, which is judged once for all of them.

Whether boxes of a tensor map reach an operand hangs on its type, the order of its axes, the powers of two in its
extents, strides and address up to a granule's, and on which extents one tile spans; not on the extents themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import count

from legalsat.dtypes import DType
from legalsat.extract.explain.explain import refused
from legalsat.extract.explain.tensor_repair import repairs
from legalsat.operators import Copy, Move
from legalsat.options import Consumer
from legalsat.rules import RULES
from legalsat.targets import GRANULE_BYTES, Target
from legalsat.tensor import ALLOCATOR_ALIGNMENT, Tensor, plain

PACKED = 128
SPAN = 256  # elements: a box is no longer along any axis
OFF_THE_UNIT = "consumer"  # a kind of repair that gives the matrix unit up, which is no repair of a product
LARGE = 2**31  # extents and strides from here on are near limits of their own


_NAMES = {rule.code: rule.name for rule in RULES}


@dataclass(frozen=True, slots=True)
class Judged:
    """What was found about a class: the rules that its operand breaks, in words, and the kinds of repairs that work."""

    codes: tuple[str, ...]
    reasons: tuple[str, ...]
    repairs: tuple[str, ...]

    @property
    def legal(self) -> bool:
        """Whether boxes of a tensor map reach the operand as it is."""
        return not self.codes


@lru_cache(maxsize=2048)
def is_legal(equal: Move, target: Target) -> bool:
    """Return whether boxes of a tensor map reach a class, given by its smallest operand."""
    broken, view = refused(equal, target)
    return broken is None or bool(view and equal.tile is None)  # what has no tile may be copied by any view of it


@lru_cache(maxsize=2048)
def judged(equal: Move, target: Target) -> Judged:
    """Return what is found about a class, given by its smallest operand."""
    broken, _ = refused(equal, target)
    if broken is None or is_legal(equal, target):
        return Judged((), (), ())
    codes = dict.fromkeys(d.code for d in broken if d.level == "error")
    kinds = dict.fromkeys(one.kind for one in repairs(equal, target, None, broken) if one.kind != OFF_THE_UNIT)
    return Judged(tuple(codes), tuple(_NAMES[code].replace("_", " ") for code in codes), tuple(kinds))


def smallest_equal(operand: Move) -> Move:
    """Return the smallest operand of the same legality class; the operand itself where it is near a limit."""
    source, target = operand.source, operand.target
    shape, sides = plain(source.shape), (plain(source.strides), plain(target.strides))
    orders = [_order(shape, strides) for strides in sides]
    if max(*shape, *sides[0], *sides[1]) >= LARGE or any(map(partial(_overlaps, shape), sides, orders)):
        return operand.but(passes=1)
    tile = operand.tile or (SPAN,) * source.rank
    granule = granule_of(source.dtype)
    # Rows that a tile spans may be one long row together, whose end counts; else the axis that is outermost on both
    # sides may end anywhere. A relayout makes the last axis the fastest one, so that its powers always count.
    spanned = any(order and shape[order[0]] <= tile[order[0]] for order in orders)
    outermost = {order[-1] if order and not spanned else None for order in orders} - {source.rank - 1}
    extents = []
    for axis, extent in enumerate(shape):
        # Strides above an axis begin at granules already if its own stride does, whatever its extent is.
        step = min(_power(strides[axis], granule) for strides in sides)
        most = 1 if outermost == {axis} else granule if axis == source.rank - 1 else granule // step
        extents.append(_extent(extent, tile[axis], most, whole=spanned))
    steps = [_steps(shape, strides, order, extents, granule) for strides, order in zip(sides, orders, strict=True)]
    return _made(
        operand.tile,
        operand.consumer,
        operand.constant,
        source.dtype,
        tuple(extents),
        *steps,
        _offset(source),
        _offset(target),
    )


@lru_cache(maxsize=2048)
def _made(  # noqa: PLR0917 - what is remembered by
    tile: tuple[int, ...] | None,
    consumer: Consumer | None,
    constant: bool,
    dtype: DType,
    extents: tuple[int, ...],
    source: tuple[int, ...],
    target: tuple[int, ...],
    source_offset: int,
    target_offset: int,
) -> Copy:
    ends = (
        Tensor(extents, dtype, strides, ALLOCATOR_ALIGNMENT, offset)
        for strides, offset in ((source, source_offset), (target, target_offset))
    )
    return Copy(*ends, tile=tile, consumer=consumer, constant=constant)


def granule_of(dtype: DType) -> int:
    """Return the elements of a granule; types of fewer than 8 bits come in 64 bytes."""
    return 8 * GRANULE_BYTES // dtype.bits if dtype.bits >= 8 else PACKED


def _extent(extent: int, tile: int, most: int, *, whole: bool) -> int:
    """Return the smallest extent with the same powers of two up to `most`, on the same side of 1 and of the tile.

    Where it counts whether tiles are `whole`, that stays too.
    """
    power = _power(extent, most)
    if extent > tile:
        beyond = count(_beyond(tile, power, most), power)
        ends = extent % tile == 0
        return next(n for n in beyond if _power(n, most) == power and (not whole or (n % tile == 0) == ends))
    return extent if extent in (1, tile) or 3 * power > tile else 3 * power


def _beyond(least: int, power: int, most: int) -> int:
    """Return the smallest number above `least` that holds this power of two, and no higher one below `most`."""
    times = least // power + 1
    return power * (times if power == most else times | 1)


def _power(number: int, most: int) -> int:
    return min(number & -number, most) if number else most


def _order(shape: tuple[int, ...], strides: tuple[int, ...]) -> list[int]:
    """Return the axes that step through memory, fastest first."""
    axes = [a for a, extent in enumerate(shape) if extent > 1 and strides[a]]
    return sorted(axes, key=lambda a: (strides[a], shape[a]))


def _overlaps(shape: tuple[int, ...], strides: tuple[int, ...], order: list[int]) -> bool:
    reach = 1
    for axis in order:
        if strides[axis] < reach:
            return True
        reach = strides[axis] * shape[axis]
    return any(e > 1 and s == 0 for e, s in zip(shape, strides, strict=True))


def _steps(
    shape: tuple[int, ...], strides: tuple[int, ...], order: list[int], extents: list[int], granule: int
) -> tuple[int, ...]:
    """Return strides for other extents, each with the same powers of two, dense where it was dense."""
    # An axis of one element whose stride is 1 may be taken for the dense one.
    steps = [1 if s == 1 else max(_power(s, granule), 3 * (s % 2)) if s else 0 for s in strides]
    reach, covered = 1, 1
    for axis in order:
        dense = strides[axis] == reach
        steps[axis] = covered if dense else _beyond(covered, _power(strides[axis], granule), granule)
        reach, covered = strides[axis] * shape[axis], steps[axis] * extents[axis]
    return tuple(steps)


def _offset(tensor: Tensor) -> int:
    """Return the bytes past a multiple of an allocator's alignment, as many of them as count."""
    low = tensor.address & -tensor.address
    return low if low < ALLOCATOR_ALIGNMENT else 0
