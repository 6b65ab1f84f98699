"""For which extents, strides and bases a movement by boxes is legal, one number at a time.

Rules ask of an extent only what they ask of the strides that follow from it: whole granules, one row of an axis
excepted. Where a law of the e-graph saves what is judged by any view, and its strides do not, nothing is said.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from legalsat.diagnostics import Diagnostic
from legalsat.errors import LegalSatError
from legalsat.explanation import Repair
from legalsat.extract.explain.tensor_layouts import GRANULE_BITS
from legalsat.extract.explain.tensor_repair import MADE, mended
from legalsat.extract.explain.values import Works, in_words
from legalsat.operators import Move, dense_like
from legalsat.targets import GRANULE_BYTES, Target
from legalsat.tensor import Tensor, plain, row_major

LEAST = 2  # an axis of one element has no stride that matters
MOST_SPAN_BITS = 2**40  # far from every limit
OF_LAYOUTS = {"TMA004", "TMA005"}  # bases and strides that are no whole granules


def tensor_values(
    operator: Move, target: Target, reasons: Iterable[Diagnostic] = (), repairs: Iterable[Repair] = ()
) -> tuple[str, ...]:
    """Return sentences about the extents, the stride or the base of an operator's source that decide.

    Args:
        operator: a movement without dims.
        target: the GPU.
        reasons: why it is illegal; none if it is legal.
        repairs: those of an illegal operator.
    """
    source = operator.source
    if target.tma is None or source.dtype.bits % 8 or not operator.permutes:
        return ()
    codes, made = {reason.code for reason in reasons}, {repair.kind for repair in repairs}
    if source.span_bits > MOST_SPAN_BITS or (codes and (not codes <= OF_LAYOUTS or made.isdisjoint(MADE))):
        return ()  # layouts do not decide
    if source.address % GRANULE_BYTES:
        return _of_base(source) if "align" in made else ()
    return in_words(tensor_works(operator, target, legal=not codes))


def tensor_works(operator: Move, target: Target, *, legal: bool) -> list[Works]:
    """Return for which extents a dense tensor is legal, or for which values of the one stride that is at fault.

    Of an illegal operator it is taken for granted that strides alone are at fault.
    """
    if dense_like(operator.source).strides == operator.source.strides:
        return _of_extents(operator, target, legal=legal)
    return [] if legal else _of_stride(operator.source)


def _of_extents(operator: Move, target: Target, *, legal: bool) -> list[Works]:
    """Return what is true of each extent of a dense tensor, whose strides follow from the extents."""
    shape, strides = plain(operator.source.shape), plain(operator.source.strides)
    bits, tile = operator.source.dtype.bits, operator.tile
    by_rows = operator.by_rows  # whose axes never merge
    found = []
    for axis, extent in enumerate(shape):
        slower = [a for a in range(len(shape)) if shape[a] > 1 and strides[a] > strides[axis]]
        steps = [strides[a] // extent for a in slower]  # for each element of this axis
        period = math.lcm(1, *(GRANULE_BITS // math.gcd(GRANULE_BITS, step * bits) for step in steps))
        works = Works(f"shape[{axis}]", extent, period, (0,), LEAST)
        if extent < LEAST or not (by_rows or tile is None or tile[axis] % period == 0):
            continue  # a tile as long as its axis, whatever that is, might merge with the next
        rest = (a for a in range(len(shape)) if shape[a] > 1 and strides[a] != 1 and a not in slower)
        if period == 1:
            found.append(works)
            continue
        suited = all(strides[a] * bits % GRANULE_BITS == 0 for a in rest)
        if (
            suited
            and works.holds(extent) == legal
            and (by_rows or tile or not legal or _refused_at(operator, axis, works, target))
        ):
            found.append(works)
    return found


def _refused_at(operator: Move, axis: int, works: Works, target: Target) -> bool:
    """Whether the planner refuses the extent that is no multiple of the period and yet the most aligned."""
    try:
        other = resized(operator, axis, works.nearest[-1] + works.period // 2)
    except LegalSatError:
        return False
    return other is not None and mended(other, target) is None


def resized(operator: Move, axis: int, extent: int) -> Move | None:
    """Return a movement with another extent, its strides following; None where its target is no dense one.

    Args:
        operator: a movement whose source is dense, its axes in any order.
        axis: of the source.
        extent: in elements, at least 1.
    """
    source = operator.source
    shape = (*plain(source.shape[:axis]), extent, *plain(source.shape[axis + 1 :]))
    order = sorted(range(source.rank), key=lambda a: (plain(source.strides)[a], -a))
    strides, step = [1] * source.rank, 1
    for a in order:
        strides[a] = step
        step *= shape[a]
    tensor = Tensor(shape, source.dtype, strides, source.align, source.offset)
    if operator.by_rows and operator.target.strides == dense_like(source).strides:
        result = dense_like(tensor)
    elif operator.target.strides == row_major(operator.target.shape):
        result = Tensor([shape[a] for a in operator.order or ()], source.dtype)
    else:
        return None
    return operator.but(source=tensor, target=result)


def _of_stride(source: Tensor) -> list[Works]:
    """Return what is true of the one stride that is at fault, if it is one: which values of it are legal."""
    shape, strides, bits = plain(source.shape), plain(source.strides), source.dtype.bits
    unit = GRANULE_BITS // math.gcd(GRANULE_BITS, bits)
    axes = [a for a in range(source.rank) if shape[a] > 1 and strides[a]]
    faulty = [a for a in axes if strides[a] > 1 and strides[a] % unit]
    if len(faulty) != 1 or not any(strides[a] == 1 for a in axes):
        return []
    axis = faulty[0]
    inside = [a for a in axes if strides[a] < strides[axis]]
    if any(strides[a] == shape[axis] * strides[axis] for a in axes):
        return []  # another axis follows on it, and would not on a longer one
    # A stride at which the axis follows on another one may merge with it.
    low = max(1 + sum((shape[a] - 1) * strides[a] for a in inside), *(shape[a] * strides[a] + 1 for a in inside))
    return [Works(f"strides[{axis}]", strides[axis], unit, (0,), low)] if strides[axis] >= low else []


def _of_base(source: Tensor) -> tuple[str, ...]:
    """Return the sentence about the base, where that alone is at fault."""
    count = GRANULE_BYTES // math.gcd(GRANULE_BYTES, source.dtype.bytes)
    return (f"works where the first element lies at a multiple of {GRANULE_BYTES} bytes: 1 of {count} elements",)
