"""Checks the plan of a program again: each step by the rules, and that together they compute what was asked.

What every place holds is followed through the steps as numbers modulo a prime, each matrix as the product of two narrow
ones, so that matrices of any size are compared whole: by their product with a random vector.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legalsat.extract.check.recheck import recheck
from legalsat.extract.check.recheck_gemm import recheck_gemm
from legalsat.extract.composed.works import nanoseconds_of
from legalsat.operators.program import CONCAT, PAD, PRODUCT, SLICE, Program
from legalsat.plans.codec import InvalidPlan
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.plans.program_plan import Place, ProgramPlan, ProgramStep
from legalsat.tensor import plain

PRIME = 32749
RANK = 2  # of an input
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Matrix:
    """The matrix `left` @ `right`^T modulo the prime."""

    left: Numbers
    right: Numbers

    @property
    def transposed(self) -> Matrix:
        """The transpose."""
        return Matrix(self.right, self.left)

    def product(self, other: Matrix) -> Matrix:
        """Return A B^T."""
        return Matrix(self.left @ (self.right.T @ other.right % PRIME) % PRIME, other.left)

    def part(self, axis: int, first: int, count: int) -> Matrix:
        """Return some rows or columns."""
        if axis:
            return Matrix(self.left, self.right[first : first + count])
        return Matrix(self.left[first : first + count], self.right)

    def within(self, shape: tuple[int, int], row: int, column: int) -> Matrix:
        """Return the matrix at a place in a larger one of zeros."""
        sides = []
        for extent, first, held in zip(shape, (row, column), (self.left, self.right), strict=True):
            side = np.zeros((extent, held.shape[1]), np.int64)
            side[first : first + len(held)] = held
            sides.append(side)
        return Matrix(*sides)

    def plus(self, other: Matrix) -> Matrix:
        """Return the sum."""
        return Matrix(np.hstack([self.left, other.left]), np.hstack([self.right, other.right]))


def recheck_program(plan: ProgramPlan) -> None:
    """Raise `InvalidPlan` unless every step holds and together they compute the program."""
    for step in plan.steps:
        _recheck_step(plan, step)
    drawn = np.random.default_rng(0)
    inputs = {
        one.name: Matrix(*(drawn.integers(0, PRIME, (extent, RANK)) for extent in plain(one.tensor.shape)))
        for one in plan.operator.inputs
    }
    made = _followed(plan, inputs)
    wanted = _meant(plan.operator, inputs)
    for result in plan.operator.results:
        found, asked = made.read(Place(result.name, 0, result.tensor)), wanted[result.value]
        vector = drawn.integers(0, PRIME, (len(found.right), 1))
        one, other = (m.left @ (m.right.T @ vector % PRIME) % PRIME for m in (found, asked))
        if not np.array_equal(one, other):
            raise InvalidPlan(f"steps do not compute {result.name}; synthesise the plan again")


def _recheck_step(plan: ProgramPlan, step: ProgramStep) -> None:
    own: Any = step.plan.operator
    tensors = [one.tensor for one in (*step.reads, step.writes)]
    if list(own.tensors.values()) != tensors or step.plan.target != plan.target:
        raise InvalidPlan(f"step {step.what} reads or writes others than its plan; synthesise the plan again")
    if isinstance(step.plan, GemmPlan):
        recheck_gemm(step.plan)
    else:
        recheck(step.plan)
    if step.nanoseconds != (0.0 if step.once else round(nanoseconds_of(step.plan), 1)):
        raise InvalidPlan(f"step {step.what} takes others than its plan says; synthesise the plan again")
    constant = {one.name for one in plan.operator.inputs if one.constant}
    before = plan.steps[: plan.steps.index(step)]
    constant |= {one.writes.buffer for one in before if one.once}
    varies = {one.writes.buffer for one in before if not one.once}
    if step.once and not all(one.buffer in constant - varies for one in step.reads):
        raise InvalidPlan(f"step {step.what} runs once, and reads what changes; synthesise the plan again")
    if step.once and plan.buffer(step.writes.buffer).kind == "result":
        raise InvalidPlan(f"step {step.what} runs once, and writes a result of every call; synthesise the plan again")


class _Memory:
    """What was written where, every matrix in lines of its last axis."""

    def __init__(self, plan: ProgramPlan) -> None:
        self._plan = plan
        self._held: dict[str, list[tuple[Place, Matrix]]] = {one.name: [] for one in plan.buffers}

    def write(self, place: Place, matrix: Matrix) -> None:
        """Hold a matrix; raises `InvalidPlan` where it does not fit, or where something is already."""
        lined, turned = self._lined(place)
        if any(True for _ in self._overlaps(lined)):
            raise InvalidPlan(f"two steps write the same part of {place.buffer}; synthesise the plan again")
        self._held[place.buffer].append((lined, matrix.transposed if turned else matrix))

    def read(self, place: Place) -> Matrix:
        """Return what lies in a place; raises `InvalidPlan` where some of it was not written."""
        lined, turned = self._lined(place)
        rows, columns = plain(lined.tensor.shape)
        found, covered = None, 0
        for matrix, row, column in self._overlaps(lined):
            part = matrix.within((rows, columns), row, column)
            found = part if found is None else found.plus(part)
            covered += len(matrix.left) * len(matrix.right)
        if found is None or covered != rows * columns:
            raise InvalidPlan(f"a step reads of {place.buffer} what no step writes; synthesise the plan again")
        return found.transposed if turned else found

    def _lined(self, place: Place) -> tuple[Place, bool]:
        """Return a place with its lines along the last axis, and whether it was turned; it must be in its buffer."""
        whole, tensor = self._plan.buffer(place.buffer).tensor, place.tensor
        if place.start < 0 or 8 * place.start + tensor.span_bits > whole.span_bits:
            raise InvalidPlan(f"a step goes beyond {place.buffer}; synthesise the plan again")
        if tensor.align > whole.align or (whole.offset + place.start - tensor.offset) % tensor.align:
            raise InvalidPlan(f"a part of {place.buffer} begins elsewhere than it says; synthesise the plan again")
        turned = plain(tensor.strides)[1] != 1
        return (Place(place.buffer, place.start, tensor.transposed((1, 0))), True) if turned else (place, False)

    def _overlaps(self, place: Place) -> Iterator[tuple[Matrix, int, int]]:
        """Yield the parts of what is held that lie in a place, and where in it each begins."""
        shape = plain(place.tensor.shape)
        for there, matrix in self._held[place.buffer]:
            at = _begins(place, there)
            if at is None:
                continue
            found = matrix
            for axis in (0, 1):
                held = plain(there.tensor.shape)[axis]
                first, end = max(0, -at[axis]), min(held, shape[axis] - at[axis])
                if first >= end:
                    break
                found = found.part(axis, first, end - first)
            else:
                yield found, max(0, at[0]), max(0, at[1])


def _begins(place: Place, there: Place) -> tuple[int, int] | None:
    """Return the row and column of a place at which another one begins; None where they do not meet."""
    pitch, along = plain(place.tensor.strides)
    other = plain(there.tensor.strides)
    elements, ragged = divmod(there.start - place.start, place.tensor.dtype.bytes)
    if ragged or other[1] != along or (other[0] != pitch and 1 not in (place.tensor.shape[0], there.tensor.shape[0])):
        raise InvalidPlan(f"{place.buffer} is read otherwise than it is written; synthesise the plan again")
    pitch = max(pitch, other[0], 1)
    row, column = divmod(elements, pitch)
    wide, held = plain(place.tensor.shape)[1], plain(there.tensor.shape)[1]
    for begin in ((row, column), (row + 1, column - pitch)):
        if begin[1] < wide and begin[1] + held > 0:
            return begin
    return None


def _followed(plan: ProgramPlan, inputs: dict[str, Matrix]) -> _Memory:
    """Return what all buffers hold after the steps."""
    memory = _Memory(plan)
    for one in plan.operator.inputs:
        memory.write(Place(one.name, 0, one.tensor), inputs[one.name])
    for step in plan.steps:
        first, *others = (memory.read(place) for place in step.reads)
        own: Any = step.plan.operator
        if isinstance(step.plan, GemmPlan):
            made = first.product(*others)
        else:
            rows, columns = own.target.shape
            if own.order != (0, 1) or own.pattern:
                raise InvalidPlan(f"step {step.what} is no pass that programs take; synthesise the plan again")
            made = first.within((rows, columns), *(before for before, _ in own.around))
        memory.write(step.writes, made)
    return memory


def _meant(program: Program, inputs: dict[str, Matrix]) -> list[Matrix]:
    values = [inputs[one.name] for one in program.inputs]
    for one in program.steps:
        first, *others = (values[operand] for operand in one.operands)
        if one.operator == PRODUCT:
            made = first.product(others[0])
        elif one.operator == SLICE:
            made = first.part(*one.numbers)
        elif one.operator in {PAD, CONCAT}:
            axis, before, *_ = (*one.numbers, 0)
            begin = before if one.operator == PAD else 0
            made = first.within(one.shape, *((begin, 0) if axis == 0 else (0, begin)))
            for other in others:
                along = one.shape[axis] - len((other.left, other.right)[axis])
                made = made.plus(other.within(one.shape, *((along, 0) if axis == 0 else (0, along))))
        else:
            made = first.transposed
        values.append(made)
    return values
