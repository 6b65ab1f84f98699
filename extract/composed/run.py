"""A program on numpy: what its results hold by what operators mean, and what the steps of a plan make of bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legalsat.errors import InvalidInput
from legalsat.extract.kernels.encoded import decoded, encoded
from legalsat.extract.kernels.interpreted_memory import JUNK
from legalsat.extract.kernels.interpreter import interpret
from legalsat.operators.program import CONCAT, PAD, PRODUCT, SLICE, Program
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.plans.program_plan import Place, ProgramPlan
from legalsat.tensor import Tensor, plain

Numbers = NDArray[Any]


def rounded(values: Numbers, name: str) -> Numbers:
    """Return numbers as a type holds them."""
    return decoded(encoded(values, name), name)


def meant(program: Program, operands: Sequence[Numbers]) -> tuple[Numbers, ...]:
    """Return what the results hold, each product rounded to its type."""
    values = [rounded(x, one.tensor.dtype.name) for x, one in zip(operands, program.inputs, strict=True)]
    for one in program.steps:
        first, *others = (values[operand] for operand in one.operands)
        if one.operator == PRODUCT:
            made = rounded(first @ others[0].T, one.dtype.name)
        elif one.operator == SLICE:
            axis, begin, count = one.numbers
            made = first[begin : begin + count] if axis == 0 else first[:, begin : begin + count]
        elif one.operator == PAD:
            axis, *sides = one.numbers
            made = np.pad(first, [sides if i == axis else (0, 0) for i in range(2)])
        else:
            made = np.concatenate([first, *others], axis=one.numbers[0]) if one.operator == CONCAT else first.T
        values.append(made)
    return tuple(values[one.value] for one in program.results)


def run(plan: ProgramPlan, operands: Sequence[Numbers], seed: int = 0) -> tuple[Numbers, ...]:
    """Return the results as a plan's steps compute them."""
    inputs = plan.operator.inputs
    if [getattr(one, "shape", None) for one in operands] != [one.tensor.shape for one in inputs]:
        raise InvalidInput(f"operands are others; give arrays of shapes {[one.tensor.shape for one in inputs]}")
    memory = {one.name: np.full(-(-one.tensor.span_bits // 8), JUNK, np.uint8) for one in plan.buffers}
    for one, values in zip(inputs, operands, strict=True):
        place = Place(one.name, 0, one.tensor)
        memory[one.name][_bytes(place)] = encoded(values, one.tensor.dtype.name)
    for step in plan.steps:
        reads = [memory[place.buffer][_bytes(place)] for place in step.reads]
        name = step.writes.tensor.dtype.name
        if isinstance(step.plan, GemmPlan):
            a, b = (decoded(x, place.tensor.dtype.name) for x, place in zip(reads, step.reads, strict=True))
            interpreted = step.plan.kernel is not None
            found = interpret(step.plan, a, b, seed=seed) if interpreted else step.plan.operator.meaning(a, b)
            memory[step.writes.buffer][_bytes(step.writes)] = encoded(found, name)
        else:
            size = step.writes.tensor.dtype.bytes
            words = reads[0].view(f"u{size}")[..., 0]
            moved = np.ascontiguousarray(step.plan.operator.meaning(words))
            memory[step.writes.buffer][_bytes(step.writes)] = moved[..., None].view(np.uint8)
    results = plan.operator.results
    return tuple(
        decoded(memory[one.name][_bytes(Place(one.name, 0, one.tensor))], one.tensor.dtype.name) for one in results
    )


def _bytes(place: Place) -> Numbers:
    """Return which byte of its buffer each byte of a place is, those of an element along the last axis."""
    return place.start + offsets(place.tensor)[..., None] + np.arange(place.tensor.dtype.bytes)


def offsets(tensor: Tensor) -> Numbers:
    """Return the bytes from a tensor's first element to each."""
    rows, columns = (np.arange(extent, dtype=np.int64) for extent in plain(tensor.shape))
    across, along = plain(tensor.strides)
    return (rows[:, None] * across + columns[None, :] * along) * tensor.dtype.bytes
