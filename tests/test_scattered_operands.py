"""Operands of which no elements lie side by side: copied to lines first, exact, proven, costed by what DRAM moves."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import legalsat as ls
from bench.kernels.interpreted import drawn_numbers
from bench.kernels.moved import memory_of, moved
from legalsat.analyses.protocol.typestate import check
from legalsat.backends import program
from legalsat.extract.cost.cost import DRAM_BYTES, among_others
from legalsat.extract.kernels.encoded import decoded, encoded
from legalsat.extract.kernels.interpreter import interpret
from legalsat.extract.kernels.product_kernels import is_kernel, product_kernels
from legalsat.extract.moved.granules import run_plan
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.targets import target

H200 = target("h200")
M, N, K = 150, 88, 200


def a_in(dtype: str, strides: tuple[int, int]) -> ls.Gemm:
    return ls.Gemm(M, N, K, dtype, a=ls.Tensor((M, K), dtype, strides))


PRODUCTS = {
    "every third along k": a_in("bf16", (3 * K + 1, 3)),
    "every other row": a_in("fp16", (2, 2 * M)),
    "bytes, nearer along k": a_in("e4m3", (5 * K, 5)),
    "bytes, nearer across": a_in("i8", (2, 2 * M + 3)),
    "words, nearer across": a_in("tf32", (2, 2 * M)),
    "both": ls.Gemm(
        M, N, K, "bf16", a=ls.Tensor((M, K), "bf16", (2 * K, 2)), b=ls.Tensor((N, K), "bf16", (4, 4 * N), align=2)
    ),
    "a weight": ls.Gemm(M, N, K, "bf16", b=ls.Tensor((N, K), "bf16", (2 * K, 2)), constant_b=True),
    "beside lines that begin anywhere": ls.Gemm(M, N, K - 1, "bf16", b=ls.Tensor((N, K - 1), "bf16", (2 * K, 2))),
    "members": ls.Gemm(M, N, K, "bf16", batch=3, a=ls.Tensor((3, M, K), "bf16", (1, 3 * K, 3))),
    "groups of rows": ls.GroupedGemm(M, N, K, "bf16", groups=3, a=ls.Tensor((M, K), "bf16", (2 * K, 2))),
    "groups along k": ls.GroupedGemm(M, N, K, "e4m3", groups=3, along="k", a=ls.Tensor((M, K), "e4m3", (2 * K, 2))),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_exact_and_proven_and_say_which_law_collects(name: str) -> None:
    gemm = PRODUCTS[name]
    plan = ls.synthesize(gemm, "h200")
    assert plan.kernel is not None and is_kernel(gemm, plan.kernel, H200)
    collected = sum(1 not in gemm.matrices[name].strides for name in "AB")
    assert [step.law for step in plan.derivation].count("collect_first") == collected >= 1
    assert len(plan.before) >= collected and check(plan.pipeline, H200).proven
    for seed, (_, kernel) in enumerate(product_kernels(gemm, H200)[:40:13]):
        own = GemmPlan(gemm, H200, kernel)
        a, b = (one.astype(float) for one in drawn_numbers(gemm, seed))
        members = gemm.members
        ends = {"m": (70, 70, M), "k": (33, 101, K)}.get(members.ragged, ())
        summed = gemm.meaning(a, b, *([np.array(ends, np.int32)] if ends else []))
        expected = decoded(encoded(summed.astype(np.float64), gemm.out_dtype.name), gemm.out_dtype.name)
        assert np.array_equal(interpret(own, a, b, ends=ends, clusters=2, seed=seed), expected), kernel


@pytest.mark.parametrize("name", PRODUCTS)
def test_what_runs_in_front_moves_every_element_and_is_printed_and_counted(name: str) -> None:
    plan = ls.synthesize(PRODUCTS[name], "h200")
    for one in plan.before:
        source, to = (memory_of(end, 3) for end in (one.plan.operator.source, one.plan.operator.target))
        assert np.array_equal(run_plan(one.plan, source, to.copy()), moved(one.plan.operator, source, to))
    each = [
        among_others(one.plan.cost.nanoseconds, exchanged=one.exchanged, beside=number > 0)
        for number, one in enumerate(one for one in plan.before if not one.constant)
    ]
    assert plan.cost.relayouts == pytest.approx(sum(each), abs=0.2 * len(each) + 0.01)
    made = program(plan, "cute")
    assert [one.operand for one in made.before] == [one.operand for one in plan.before]


def cost_of(strides: tuple[int, int], dtype: str = "bf16") -> float:
    shape = (2048, 2048)
    gemm = ls.Gemm(2048, 256, 2048, dtype, a=ls.Tensor(shape, dtype, strides))
    return float(ls.synthesize(gemm, "h200").cost.relayouts)


def test_the_further_elements_lie_apart_the_more_of_dram_is_read_until_each_has_a_unit_of_its_own() -> None:
    unit = DRAM_BYTES // 2
    costs = [cost_of((2048 * step, step)) for step in (2, 3, 7, unit, 2 * unit)]
    assert all(one < other for one, other in pairwise(costs[:-1])) and costs[-1] == costs[-2]
    # Read and written bytes, of which the first grow with the step.
    assert costs[1] - costs[0] == pytest.approx((costs[2] - costs[0]) / 5, rel=0.01)


def test_elements_are_read_along_the_axis_on_which_they_are_nearest_where_lines_may_lie_so() -> None:
    across = (2, 2 * 2048)
    assert cost_of(across) == cost_of(across[::-1])
    assert cost_of(across, "e4m3") > cost_of(across[::-1], "e4m3"), "bytes are read along k alone"


def test_a_matrix_whose_other_axis_is_contiguous_is_not_collected() -> None:
    for strides in ((K, 1), (1, M)):
        plan = ls.synthesize(a_in("bf16", strides), "h200")
        assert "collect_first" not in {step.law for step in plan.derivation}


def test_a_kernel_that_reads_what_lies_apart_as_it_lies_is_none() -> None:
    gemm = PRODUCTS["every third along k"]
    kernel = product_kernels(gemm, H200, 1)[0][1]
    assert not is_kernel(gemm, replace(kernel, relayouts=("none", "none")), H200)
