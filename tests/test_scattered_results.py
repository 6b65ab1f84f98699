"""Products whose C has no elements side by side: stored one by one, exact, proven, costed by what memory moves."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest

import legalsat as ls
from bench.conformance.kernel_launches import RESULT, RESULT_PITCH, RESULT_STEP, launches
from bench.kernels.conformance import judged, printed
from bench.kernels.interpreted import drawn_numbers
from legalsat.analyses.protocol.typestate import check
from legalsat.backends import program
from legalsat.errors import LegalSatError
from legalsat.extract.cost.cost import SECTOR_BYTES
from legalsat.extract.kernels.encoded import decoded, encoded
from legalsat.extract.kernels.interpreter import interpret
from legalsat.extract.kernels.kernel_program import kernel_program
from legalsat.extract.kernels.product_kernels import is_kernel, product_kernels
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.plans.product_kernel import ProductKernel
from legalsat.targets import target

H200 = target("h200")
M, N, K = 150, 88, 200


def c_in(strides: tuple[int, int], dtype: str = "bf16", out: str | None = None, k: int = K) -> ls.Gemm:
    return ls.Gemm(M, N, k, dtype, out_dtype=out, c=ls.Tensor((M, N), out or dtype, strides))


PRODUCTS = {
    "every third along n": c_in((3 * N + 1, 3)),
    "every other row": c_in((2, 2 * M), "fp16"),
    "bytes": c_in((5 * N, 5), "bf16", "e4m3"),
    "words": c_in((2, 2 * M + 3), "tf32", "fp32"),
    "integers": c_in((2 * N, 2), "i8", "i32"),
    "integers in bytes": c_in((7, 7 * M), "u8", "i8"),
    "odd k": c_in((2 * N, 2), k=K - 1),
    "a single row": ls.Gemm(1, N, K, "bf16", c=ls.Tensor((1, N), "bf16", (9 * N, 3))),
    "rows that lie in each other": ls.Gemm(3, N, K, "bf16", c=ls.Tensor((3, N), "bf16", (2, 7))),
    "a and b too": ls.Gemm(
        *(M, N, K, "bf16"),
        a=ls.Tensor((M, K), "bf16", (2 * K, 2)),
        b=ls.Tensor((N, K), "bf16", (4, 4 * N), align=2),
        c=ls.Tensor((M, N), "bf16", (2 * N, 2)),
    ),
    "long k": c_in((3 * N, 3), k=2100),
    "members": ls.Gemm(M, N, K, "bf16", batch=3, c=ls.Tensor((3, M, N), "bf16", (2 * M * N, 2 * N, 2))),
    "members side by side": ls.Gemm(M, N, K, "bf16", batch=3, c=ls.Tensor((3, M, N), "bf16", (1, 3 * N, 3))),
    "two axes": ls.Gemm(M, N, K, "bf16", batch=(2, 3), c=ls.Tensor((2, 3, M, N), "bf16", (2, 4 * M * N, 4 * N, 4))),
    "groups of rows": ls.GroupedGemm(M, N, K, "bf16", groups=3, c=ls.Tensor((M, N), "bf16", (2 * N, 2))),
    "groups along k": ls.GroupedGemm(
        M, N, K, "e4m3", groups=3, along="k", c=ls.Tensor((3, M, N), "bf16", (2 * M * N, 2 * N, 2))
    ),
}


def sampled(gemm: ls.Gemm, count: int) -> list[ProductKernel]:
    """Return the first kernel of a product, and others of as many kinds as there are."""
    kernels = [one for _, one in product_kernels(gemm, H200) if one.k_tiles(gemm.k) >= one.least_k_tiles]
    drawn = random.Random(5).sample(kernels, len(kernels))
    kinds = {(one.realign, one.swapped, one.ping_pong, one.overlapped > 0, one.aligned): one for one in drawn}
    return [kernels[0], *kinds.values()][:count]


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_exact_and_proven_and_say_which_law_stores(name: str) -> None:
    gemm = PRODUCTS[name]
    plan = ls.synthesize(gemm, "h200")
    assert plan.kernel is not None and is_kernel(gemm, plan.kernel, H200)
    assert "store_by_elements" in {step.law for step in plan.derivation}
    for seed, kernel in enumerate(sampled(gemm, 3)):
        assert kernel.store == "elements" and kernel.slices == kernel.split == 1
        assert check(kernel_program(kernel, gemm.out_dtype.bytes), H200).proven
        a, b = (one.astype(float) for one in drawn_numbers(gemm, seed))
        ends = {"m": (70, 70, M), "k": (33, 101, K)}.get(gemm.members.ragged, ())
        summed = gemm.meaning(a, b, *([np.array(ends, np.int32)] if ends else []))
        expected = decoded(encoded(summed.astype(np.float64), gemm.out_dtype.name), gemm.out_dtype.name)
        found = interpret(GemmPlan(gemm, H200, kernel), a, b, ends=ends, clusters=2, seed=seed)
        assert np.array_equal(found, expected), kernel


@pytest.mark.parametrize("backend", ["cute", "ptx"])
@pytest.mark.parametrize("swapped", [False, True])
def test_a_printed_kernel_does_what_its_program_says(backend: str, swapped: bool) -> None:
    gemm = c_in((3 * N + 1, 3), out="fp32", k=600)
    kernel = next(
        one
        for _, one in product_kernels(gemm, H200)
        if (one.swapped, one.cluster, one.overlapped > 0) == (swapped, (1, 1), True)
    )
    assert not judged(gemm, kernel, few=True, backend=backend)["differences"]


@pytest.mark.parametrize("backend", ["cute", "ptx"])
def test_a_printed_kernel_stores_every_element_where_it_belongs_and_nothing_else(backend: str) -> None:
    gemm = c_in((3 * N + 1, 3))
    kernel = next(one for _, one in product_kernels(gemm, H200) if one.cluster == (1, 1) and one.tile[1] > 32)
    launch = next(one for one in launches(kernel, 2, few=True) if one.tiles == 2 and one.clusters == 1)
    recorded = printed(gemm, kernel, backend).run(launch)
    rows, columns, _ = launch.extents
    stored = [
        first
        for stream in recorded.streams.values()
        for event in stream
        if event.what == "global write"
        for first, last in event.spans
        for first in range(first, last, 2)
    ]
    places = (row * RESULT_PITCH + column * RESULT_STEP for row in range(rows) for column in range(columns))
    wanted = {RESULT + 2 * place for place in places}
    assert len(stored) == len(wanted) and set(stored) == wanted


def test_memory_is_told_apart_by_what_it_moves() -> None:
    def cost(step: int, *, down: bool = False) -> tuple[float, bool]:
        strides = (step, 2048 * step) if down else (2048 * step, step)
        plan = ls.synthesize(ls.Gemm(2048, 2048, 256, "bf16", c=ls.Tensor((2048, 2048), "bf16", strides)), "h200")
        assert plan.kernel is not None
        return plan.cost.nanoseconds, plan.kernel.swapped

    steps = (2, 4, SECTOR_BYTES // 2, SECTOR_BYTES)
    costs = [cost(step)[0] for step in steps]
    assert all(one < other for one, other in pairwise(costs))
    beside = ls.synthesize(ls.Gemm(2048, 2048, 256, "bf16"), "h200").cost.nanoseconds
    assert beside < costs[0]
    # What is computed has C's nearer elements in its rows, which lanes store together.
    assert (cost(2)[1], cost(2, down=True)[1]) == (False, True)
    assert cost(2)[0] == pytest.approx(cost(2, down=True)[0], rel=0.01)


def test_a_matrix_whose_lines_are_contiguous_is_not_stored_so() -> None:
    for strides in ((N, 1), (1, M), (N + 1, 1)):
        gemm = c_in(strides)
        assert all(one.store != "elements" for _, one in product_kernels(gemm, H200))


def test_backends_print_it_or_name_what_they_lack() -> None:
    plan = ls.synthesize(PRODUCTS["every third along n"], "h200")
    for backend in ("cute", "ptx"):
        (recipe,) = program(plan, backend).recipes
        assert [getattr(one, "value", None) for one in recipe.arguments][-1] in {3, 3 * N + 1}
    with pytest.raises(LegalSatError, match="may be taken, the cheapest since triton has no row for"):
        ls.synthesize(PRODUCTS["every third along n"], "h200", backend="triton")


def test_three_axes_of_a_batch_leave_no_room_and_it_says_what_to_do() -> None:
    gemm = ls.Gemm(
        *(M, N, K, "bf16"),
        batch=(2, 2, 2),
        a=ls.Tensor((2, 2, 2, M, K), "bf16", (0, M * K, 0, K, 1)),
        c=ls.Tensor((2, 2, 2, M, N), "bf16", (8 * M * N, 4 * M * N, 2 * M * N, 2 * N, 2)),
    )
    with pytest.raises(LegalSatError, match="of two axes"):
        ls.synthesize(gemm, "h200")
