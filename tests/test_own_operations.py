"""An operation of somebody's own is a class in a module of its own, and a row in each printer, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import legalsat as ls
from bench.kernels.interpreted import drawn_numbers
from legalsat.analyses.protocol.typestate import check
from legalsat.backends.cute import rows as cute
from legalsat.errors import LegalSatError
from legalsat.extract.kernels.interpreter import interpret
from legalsat.extract.kernels.unfolded import unfolded
from legalsat.program.kernel import Body, KernelProgram, Own, Tiles, every
from legalsat.program.kernel_text import program_lines
from legalsat.program.pipeline import Operation, UseSums, WaitGroup

GEMM = ls.Gemm(200, 96, 400, "bf16")


@dataclass(frozen=True, slots=True)
class Negate(Own):
    """Negate the accumulator of a consumer."""

    def words(self) -> str:
        return "negate accumulator i"

    def effects(self, number: int) -> Iterator[Operation]:
        yield UseSums(f"accumulator {number}")

    def run(self, warps: Any) -> None:
        warps.cta.sums[warps.number] *= -1


@dataclass(frozen=True, slots=True)
class Mute(Own):
    """Says nothing of itself."""


def with_own(program: KernelProgram, own: Own, *, late: bool = True) -> KernelProgram:
    """Return a program in which consumers do one thing more for each tile: in front of what takes its accumulator.

    Args:
        program: of a kernel.
        own: what they do.
        late: whether the multiplications of the tile are over by then.
    """

    def tile(body: Body) -> Body:
        at = next(i for i, op in enumerate(body) if isinstance(op, UseSums if late else WaitGroup))
        return (*body[:at], own, *body[at:])

    first, *others = program.roles
    assert first.name == "consumer"
    body = tuple(replace(op, body=tile(op.body)) if isinstance(op, Tiles) else op for op in first.body)
    return replace(program, roles=(replace(first, body=body), *others))


@cache
def plain() -> ls.GemmPlan:
    """Return a plan whose consumers multiply a tile, and store it then."""
    plan = ls.synthesize(GEMM, "h200")
    kernels = (one.kernel for one in plan.candidates if one.kernel.store == "tma" and one.kernel.slices == 1)
    return replace(plan, kernel=next(one for one in kernels if not (one.overlapped or one.ping_pong or one.swapped)))


def test_it_is_interpreted_proven_and_told() -> None:
    plan, (a, b) = plain(), drawn_numbers(GEMM, 3)
    program = with_own(plan.program, Negate())
    assert np.array_equal(interpret(plan, a, b, program=program, seed=2), -interpret(plan, a, b, seed=1))
    assert check(unfolded(program), plan.target).proven
    assert any("negate accumulator i" in line for _, lines in program_lines(program) for line in lines)
    assert sum(isinstance(op, Negate) for role in program.roles for op in every(role.body)) == 1


def test_what_it_does_counts_in_the_proof() -> None:
    """An accumulator is not touched while it is multiplied into."""
    program = with_own(plain().program, Negate(), late=False)
    assert not check(unfolded(program), plain().target).proven


def test_a_row_prints_it(monkeypatch: pytest.MonkeyPatch) -> None:
    program = with_own(plain().program, Negate())
    with pytest.raises(LegalSatError, match="cute has no row for Negate"):
        cute.functions(program)
    monkeypatch.setitem(cute.ROWS, Negate, lambda op, scope: "negate(accumulators);")
    assert "negate(accumulators);" in cute.functions(program)


def test_what_says_nothing_is_refused() -> None:
    plan, (a, b) = plain(), drawn_numbers(GEMM, 3)
    with pytest.raises(LegalSatError, match="Mute does not say what it does"):
        interpret(plan, a, b, program=with_own(plan.program, Mute()))
