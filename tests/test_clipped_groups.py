"""Groups along k whose tiles begin at a group's granule, and lose what is others' in shared memory."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import islice
from typing import Any

import numpy as np
import pytest
from lacking import proven_without, without

import legalsat as ls
from bench.conformance.kernel_launches import launches
from bench.conformance.printed_kernel import PrintedKernel
from bench.kernels.conformance import ptx_of
from legalsat.analyses.protocol.typestate import check
from legalsat.backends.cute.compile import CompilationFailed, headers, nvcc
from legalsat.backends.cute.product import emit
from legalsat.extract.kernels.interpreter import interpret
from legalsat.extract.kernels.kernel_program import printed_program
from legalsat.extract.kernels.product_kernels import each_kernel
from legalsat.extract.kernels.unfolded import unfolded
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.plans.product_kernel import ProductKernel
from legalsat.program.kernel import NESTS, ClearOthers, every
from legalsat.program.pipeline import Arrive, Fence, Wait
from legalsat.targets import target

H200 = target("h200")
GEMM = ls.GroupedGemm(128, 128, 800, "e4m3", groups=4, along="k")
ENDS = [5, 5, 405, 790]


@cache
def kernels() -> list[ProductKernel]:
    found = [kernel for _, kernel in islice(each_kernel(GEMM, H200), 2000)]
    assert all(one.clipped for one in found)  # 8 bits lie along k alone
    return found


def test_every_kernel_keeps_its_contract() -> None:
    kinds = {(one.cluster, one.ping_pong, one.store, one.overlapped > 0): one for one in kernels()}
    assert len(kinds) > 20
    for kernel in list(kinds.values())[::4]:
        assert check(unfolded(printed_program(kernel, 2)), H200).proven, str(kernel)


@pytest.mark.parametrize("shares", [False, True])
def test_a_program_that_lacks_an_operation_is_not_proven(shares: bool) -> None:
    """Of what the clearer does, and the producer for it, each wait, fence before others read, and arrival is needed."""
    kernel = next(one for one in kernels() if (one.cluster != (1, 1)) == shares and not one.ping_pong)
    program = printed_program(kernel, 2)

    def chosen(_: int, ops: tuple[Any, ...], number: int) -> bool:
        clears = number > 0 and isinstance(ops[number - 1], ClearOthers)
        return isinstance(ops[number], Wait | Arrive) or (isinstance(ops[number], Fence) and clears)

    kinds, lacking = proven_without(program, H200, chosen, first=1)
    assert kinds == {Wait, Fence, Arrive}
    assert not lacking


@pytest.mark.parametrize("last", [False, True])
def test_without_clearing_neighbours_are_counted(last: bool) -> None:
    kernel = next(one for one in kernels() if not one.ping_pong)
    plan, drawn = GemmPlan(GEMM, H200, kernel), np.random.default_rng(7)
    a, b = (drawn.integers(-1, 2, (128, 800)).astype(float) for _ in "AB")
    expected = GEMM.meaning(a, b, np.array(ENDS))
    assert np.array_equal(interpret(plan, a, b, ends=ENDS), expected)
    program = plan.program
    *others, clearer = program.roles
    plain = [op for op in every(clearer.body) if not isinstance(op, NESTS)]
    (number,) = (i for i, op in enumerate(plain) if isinstance(op, ClearOthers) and op.last == last)
    left = replace(program, roles=(*others, replace(clearer, body=without(clearer.body, number))))
    assert not np.array_equal(interpret(plan, a, b, ends=ENDS, program=left), expected)


def test_short_groups_have_k_tiles_behind_everything() -> None:
    """An overlapped epilogue asks for more k-tiles than a short group has; no neighbour's are brought for them."""
    gemm = ls.GroupedGemm(128, 128, 800, "fp32", groups=4, along="k")
    kernel = next(one for _, one in each_kernel(gemm, H200) if one.overlapped)
    drawn = np.random.default_rng(9)
    a, b = (drawn.integers(-1, 2, (128, 800)).astype(float) for _ in "AB")
    for ends in (ENDS, [33, 100, 101, 800]):
        found = interpret(GemmPlan(gemm, H200, kernel), a, b, ends=ends, clusters=1)
        assert np.array_equal(found, gemm.meaning(a, b, np.array(ends)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("clear_others(cta, cleared, tile, 0, thread);", ""),
        ("clear_others(cta, cleared, tile, tile.k_tiles - 1, thread);", ""),
        ("clear_others(cta, cleared, tile, 0, thread);", "clear_others(cta, cleared.next(), tile, 0, thread);"),
        ("constexpr int rows = (plan::a_bytes + plan::b_bytes) / swizzle_row;", "constexpr int rows = plan::tile_m;"),
    ],
)
def test_the_text_does_what_the_program_says(old: str, new: str) -> None:
    try:
        nvcc()
        headers()
    except CompilationFailed as error:
        pytest.skip(str(error))
    kernel = next(one for one in kernels() if one.cluster == (1, 1) and not one.ping_pong)
    text = emit(GEMM, kernel)
    assert old in text
    ready = PrintedKernel(ptx_of(text.replace(old, new) if old else text), GEMM, kernel)
    found: list[str] = []
    for launch in launches(kernel, 1, few=True):
        recorded = ready.run(launch)
        found += [*ready.differences(recorded), *recorded.findings]
    assert bool(found) == bool(old), found
