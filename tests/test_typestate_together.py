"""Buffers that warps of a role lay down together: they meet before each stores a part, and before they write anew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import pytest
from lacking import without

import legalsat as ls
from legalsat.analyses.protocol.typestate import check
from legalsat.extract.kernels.kernel_program import printed_program
from legalsat.extract.kernels.product_kernels import each_kernel
from legalsat.extract.kernels.unfolded import unfolded
from legalsat.plans.product_kernel import ProductKernel
from legalsat.program.kernel import NESTS, KernelProgram, every
from legalsat.program.pipeline import Sync, WaitGroup
from legalsat.targets import target

H200 = target("h200")
PRODUCTS = (ls.Gemm(777, 4096, 4096, "bf16"), ls.Gemm(4096, 4096, 128, "bf16"))


def kinds() -> dict[str, tuple[ls.Gemm, ProductKernel]]:
    """Return kernels that turn tiles, of one buffer and of two, with odd and even numbers of parts."""
    found: dict[str, tuple[ls.Gemm, ProductKernel]] = {}
    for gemm in PRODUCTS:
        for _, kernel in islice(each_kernel(gemm, H200), 3000):
            if kernel.store == "turned":
                how = "in turns" if kernel.ping_pong else "overlapped" if kernel.overlapped else "apart"
                parts = len(range(0, kernel.tile[1], 64)) % 2
                found.setdefault(f"{how}, {kernel.buffers} buffers, parts odd {parts}", (gemm, kernel))
    return found


KINDS = kinds()


def is_meeting(op: object) -> bool:
    return isinstance(op, Sync) and op.name.startswith("turned")


def is_wait(op: object) -> bool:
    return isinstance(op, WaitGroup) and op.family == "bulk"


def lacking(program: KernelProgram) -> Iterator[KernelProgram]:
    """Yield the program without one meeting of a consumer's warps, each in turn; then without waits for stores."""
    consumer, *others = program.roles
    plain = [op for op in every(consumer.body) if not isinstance(op, NESTS)]
    for number, op in enumerate(plain):
        if is_meeting(op):
            yield replace(program, roles=(replace(consumer, body=without(consumer.body, number)), *others))
    body = consumer.body
    for number in reversed([number for number, op in enumerate(plain) if is_wait(op)]):
        body = without(body, number)
    yield replace(program, roles=(replace(consumer, body=body), *others))


@pytest.mark.parametrize("kind", KINDS)
def test_each_meeting_is_needed_and_so_are_waits(kind: str) -> None:
    gemm, kernel = KINDS[kind]
    program = printed_program(kernel, gemm.out_dtype.bytes)
    assert check(unfolded(program), H200).proven
    faults = list(lacking(program))
    assert len(faults) >= 2
    for fault in faults:
        result = check(unfolded(fault), H200)
        assert not result.proven
        assert {said.code for said in result.diagnostics} & {"PIPE010", "PIPE013", "PIPE014"}


def test_buffers_of_one_and_of_two_are_among_them() -> None:
    assert {kernel.buffers for _, kernel in KINDS.values()} == {1, 2}
