"""Kernels of products on numpy: right for any order of roles, and wrong where the program, a map or a descriptor is."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from lacking import without

import legalsat as ls
from bench.kernels.conformance import classes
from bench.kernels.interpreted import drawn_numbers, drawn_plan, exact, small
from legalsat.errors import LegalSatError
from legalsat.extract.kernels.interpreter import Stuck, interpret
from legalsat.extract.kernels.kernel_program import printed_program
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.program.kernel import NESTS, KernelOperation, KernelProgram, LoadShare, MultiplyRows, Release, every
from legalsat.program.pipeline import Expect, Multiply, Store, UseSums, Wait
from legalsat.targets import target

H200 = target("h200")
CLASSES = {name: one for name, one in classes().items() if not one[1].ragged}  # tests/test_members.py has groups


def right(plan: GemmPlan, seed: int, program: KernelProgram | None = None, clusters: int = 2) -> bool:
    a, b = drawn_numbers(plan.operator, seed)
    return bool(
        (interpret(plan, a, b, clusters=clusters, seed=seed, program=program) == exact(plan.operator, a, b)).all()
    )


ONE_BUFFER = [name for name in CLASSES if "one buffer" in name]
SLOW = set(ONE_BUFFER) - set(ONE_BUFFER[::8])  # which are as those of two buffers but for the waits of stores


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in CLASSES]
)
def test_every_class_computes_the_product(name: str) -> None:
    gemm, kernel = CLASSES[name]
    number = sorted(CLASSES).index(name)
    assert right(GemmPlan(small(gemm, kernel, random.Random(number)), H200, kernel), number)


def test_random_products_by_random_kernels() -> None:
    r = random.Random(5)
    for seed in range(12):
        plan = drawn_plan(r)
        assert right(plan, seed), f"{plan.operator}: {plan.kernel}"


# Faults.

FIRST = (
    "C by tma, ping-pong, cluster 2x1",
    "C by tma, 2 consumers, overlapped epilogue, cluster 1x2, A realigned in tiles",
    "C by sums, 1 consumer, split 2, A realigned in registers",
)


def faults(program: KernelProgram, kinds: tuple[type, ...]) -> Iterator[tuple[KernelOperation, KernelProgram]]:
    """Yield an operation of one of these kinds, and the program without it."""
    for index, role in enumerate(program.roles):
        plain = [op for op in every(role.body) if not isinstance(op, NESTS)]
        for number, op in enumerate(plain):
            if isinstance(op, kinds):
                roles = list(program.roles)
                roles[index] = replace(role, body=without(role.body, number))
                yield op, replace(program, roles=tuple(roles))


def found(plan: GemmPlan, program: KernelProgram, seeds: int) -> bool:
    """Return whether some order shows that a program is wrong."""
    for seed in range(seeds):
        try:
            if not right(plan, seed, program, clusters=1):
                return True
        except LegalSatError:
            return True
    return False


@pytest.mark.parametrize("name", [FIRST[0], *(pytest.param(one, marks=pytest.mark.slow) for one in FIRST[1:])])
def test_a_program_that_lacks_an_operation_is_found_wrong(name: str) -> None:
    """Of the waits those for what is loaded: without one for a free stage only a slow reader is overtaken."""
    gemm, kernel = CLASSES[name]
    drawn = (small(gemm, kernel, random.Random(seed)) for seed in range(1, 99))
    whole = next(one for one in drawn if one.n >= kernel.tile[1])  # of which every part of a tile is stored
    plan, program = GemmPlan(whole, H200, kernel), printed_program(kernel, gemm.out_dtype.bytes)
    kinds = (Expect, LoadShare, Multiply, MultiplyRows, Release, Store, UseSums, Wait)
    broken = [(op, one) for op, one in faults(program, kinds) if not (isinstance(op, Wait) and op.before)]
    assert len(broken) >= 8
    assert not [op for op, one in broken if not found(plan, one, 4)]


def test_a_wait_for_a_free_stage_is_needed() -> None:
    gemm, kernel = CLASSES["C by tma, 2 consumers"]
    kernel = replace(kernel, stages=2)
    one = ls.Gemm(128, 256, 20 * kernel.tile[2], gemm.dtype)
    plan, program = GemmPlan(one, H200, kernel), printed_program(kernel, one.out_dtype.bytes)
    broken = [one for op, one in faults(program, (Wait,)) if isinstance(op, Wait) and op.before]
    assert right(plan, 1) and found(plan, broken[0], 4)


def test_wrong_fields_of_a_plan_are_found() -> None:
    gemm, kernel = CLASSES["C by tma, 2 consumers"]
    one = small(gemm, kernel, random.Random(2))
    assert kernel.a is not None
    offsets = tuple(tuple(reversed(row)) for row in kernel.a.offsets)
    wrong = (
        replace(kernel, a=replace(kernel.a, offsets=offsets)),
        replace(kernel, b=replace(kernel.b, descriptor=replace(kernel.b.descriptor, stride=512))),
    )
    assert right(GemmPlan(one, H200, kernel), 0)
    for other in wrong:
        assert not right(GemmPlan(one, H200, other), 0)
    narrow = replace(kernel, b=replace(kernel.b, descriptor=replace(kernel.b.descriptor, swizzle="64B")))
    with pytest.raises(LegalSatError, match="span of swizzle 64B"):  # boxes go by it, and have twice the bytes
        right(GemmPlan(one, H200, narrow), 0)


def test_a_kernel_that_waits_for_ever_is_told() -> None:
    gemm, kernel = CLASSES["C by tma, 2 consumers"]
    plan = GemmPlan(small(gemm, kernel, random.Random(2)), H200, kernel)
    a, b = drawn_numbers(plan.operator, 0)
    broken = next(one for op, one in faults(printed_program(kernel, 4), (LoadShare,)))
    with pytest.raises(
        Stuck, match="consumer 0 of CTA 0, consumer 1 of CTA 0, producer 0 of CTA 0 wait for what never"
    ):
        interpret(plan, a, b, program=broken)
