"""How an operand that no tensor map takes is stored anew: the fewest bytes that are legal, in the words of its row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from legalsat.logic import round_up
from legalsat.operators import Move
from legalsat.sweeps.axis_names import axis_name
from legalsat.sweeps.classes import Judged, granule_of, is_legal, smallest_equal
from legalsat.sweeps.problem import Problem
from legalsat.targets import Target
from legalsat.tensor import Tensor, plain

# Kinds of repairs in words, those that change least first, for what no other storage of the same order mends.
_WORDS = {
    "align": "copy to an aligned allocation",
    "pad": "copy to rows of whole granules",
    "order": "store another axis fastest",
    "dense": "copy to dense row-major memory",
    "tile": "take other tiles",
    "padding": "pad whole granules in front, and use a slice",
    "split": "split it",
    "relayout": "copy it to a legal layout before each use",
}


class Sides(NamedTuple):
    """The operands of a problem, as movements by name, and the operands that a repair stores anew."""

    operands: Mapping[str, Move]
    stored: Mapping[str, Tensor]


class Mended(NamedTuple):
    """A repair in words, and the operand stored so; None where its storage stays or is not of the same order."""

    words: str
    tensor: Tensor | None


def class_of(operand: Move) -> Move:
    """Return what is judged for an operand."""
    return smallest_equal(operand) if operand.by_rows else operand


def mended(row: Problem, name: str, sides: Sides, found: Judged, target: Target) -> Mended:
    """Return the repair of an illegal operand that adds the fewest bytes.

    Args:
        row: the problem, which names the axes.
        name: of the operand.
        sides: all operands.
        found: what was judged of this one.
        target: the GPU.
    """
    operand, tensor = sides.operands[name], sides.stored[name]
    order = _order(operand.source, tensor)
    for one in _stored(tensor):
        if is_legal(class_of(operand.but(source=one.transposed(order))), target):
            return Mended(_storage(row, name, tensor, one), one)
    return Mended(next((_WORDS[kind] for kind in _WORDS if kind in found.repairs), found.repairs[0]), None)


def _order(view: Tensor, tensor: Tensor) -> list[int]:
    """Return which axis of a tensor each axis of its view is."""
    axes = list(zip(plain(tensor.shape), plain(tensor.strides), strict=True))
    order: list[int] = []
    for one in zip(plain(view.shape), plain(view.strides), strict=True):
        order.append(next(axis for axis, other in enumerate(axes) if other == one and axis not in order))
    return order


def _stored(tensor: Tensor) -> Iterator[Tensor]:
    """Yield a tensor stored otherwise, its axes in the same order: aligned; then packed and padded, smallest first."""
    shape, strides = plain(tensor.shape), plain(tensor.strides)
    if tensor.offset:
        yield Tensor(tensor.shape, tensor.dtype, strides)
    granule = granule_of(tensor.dtype)
    order = sorted(range(tensor.rank), key=lambda axis: (strides[axis] == 0, strides[axis], -axis))
    found: dict[tuple[int, ...], int] = {}
    for rounded in range(tensor.rank):  # the axis whose end is a whole granule; of the last one it does not matter
        steps, step = [1] * tensor.rank, 1
        for position, axis in enumerate(order):
            steps[axis] = step
            step *= shape[axis]
            if position == rounded:
                step = round_up(step, granule)
        found[tuple(steps)] = sum((extent - 1) * pitch for extent, pitch in zip(shape, steps, strict=True))
    found.pop(strides, None)
    for steps_of in sorted(found, key=found.__getitem__):
        yield Tensor(tensor.shape, tensor.dtype, steps_of)


def _storage(row: Problem, name: str, was: Tensor, now: Tensor) -> str:
    """Return what changes of a tensor's storage: which extent is padded to which, or whose pitch if none ends there."""
    shape, before, after = plain(was.shape), plain(was.strides), plain(now.strides)
    moved = [axis for axis, step in enumerate(before) if step != after[axis] and shape[axis] > 1]
    if not moved:
        return _WORDS["align"]
    axis = min(moved, key=lambda axis: after[axis])
    below = [other for other in range(was.rank) if shape[other] > 1 and after[other] < after[axis]]
    inner = max(below, key=lambda other: after[other], default=None)
    if inner is not None and before[inner] == after[inner] and not after[axis] % after[inner]:
        extent, longer = shape[inner], after[axis] // after[inner]
        if before[axis] == extent * before[inner] and longer > extent:
            return f"pad {axis_name(row, name, inner)} {extent} to {longer}"
    whose = f" of {axis_name(row, name, axis)}" if was.rank > 2 else ""
    return f"{'pad' if after[axis] > before[axis] else 'set'} pitch{whose} {before[axis]} to {after[axis]} elements"
