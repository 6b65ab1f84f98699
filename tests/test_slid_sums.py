"""Sums that slide between phases of k: right in any order of roles, proven, and for every way in which lines begin."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from lacking import proven_without, without
from lying import product_of

import legalsat as ls
from bench.kernels.interpreted import drawn_numbers, exact
from legalsat.analyses.protocol.typestate import check
from legalsat.backends.lacking import require_rows
from legalsat.errors import LegalSatError
from legalsat.extract.kernels.interpreter import interpret
from legalsat.extract.kernels.kernel_program import kernel_program, printed_program
from legalsat.extract.kernels.kernel_tiles import TileScheduler
from legalsat.extract.kernels.product_kernels import product_kernels
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.plans.product_kernel import ProductKernel
from legalsat.program.kernel import NESTS, Phases, Release, SlideSums, every
from legalsat.program.pipeline import Wait
from legalsat.targets import target

H200 = target("h200")


def slid(gemm: ls.Gemm) -> list[ProductKernel]:
    return [one for _, one in product_kernels(gemm, H200) if one.slides and one.k_tiles(gemm.k) >= one.least_k_tiles]


@lru_cache
def one_of_each() -> list[tuple[ls.Gemm, ProductKernel]]:
    """Return a kernel for each number of phases, each way to share and to store and each relayout, with a product."""
    r, found = random.Random(5), dict[object, tuple[ls.Gemm, ProductKernel]]()
    for lies, extents in (
        ("KM", (133, 201, 1095)),
        ("MM", (77, 131, 700)),
        ("MM", (206, 72, 331)),
        ("KM", (70, 204, 259)),
    ):
        gemm = product_of(*extents, lies)
        kernels = slid(gemm)
        for one in r.sample(kernels, len(kernels)):
            found.setdefault((one.slides, one.relayouts, one.swapped), (gemm, one))
            found.setdefault((one.cluster != (1, 1), one.ping_pong, one.store, one.overlapped > 0), (gemm, one))
    return list(found.values())


def test_products_are_exact_whatever_lies_beside_their_elements() -> None:
    """What ends a line is infinite in some, and in columns beside a tile: none reaches the sums of others."""
    kinds = one_of_each()
    assert {one.slides for _, one in kinds} == {2, 4, 8} and {one.swapped for _, one in kinds} == {False, True}
    assert {one.store for _, one in kinds} == {"rows", "columns", "turned", "sums"}
    for seed, (gemm, kernel) in enumerate(kinds):
        a, b = (one.astype(float) for one in drawn_numbers(gemm, seed))
        a[3::17, -1], b[5::19, 0], b[-1, 7::31] = np.inf, -np.inf, np.nan
        with np.errstate(invalid="ignore"):
            found = interpret(GemmPlan(gemm, H200, kernel), a, b, clusters=2, seed=seed)
            assert np.array_equal(found, exact(gemm, a, b), equal_nan=True), f"{gemm}: {kernel}"


def test_members_whose_starts_are_alike() -> None:
    """Members of a batch begin at whole granules, so that their lines have the same phases."""
    a = ls.Tensor((3, 77, 299), "bf16", (299 * 80, 1, 80))
    b = ls.Tensor((3, 91, 299), "bf16", (299 * 91 + 7, 1, 91))
    gemm = ls.Gemm(77, 91, 299, "bf16", batch=3, a=a, b=b)
    kernel = slid(gemm)[0]
    one, other = (x.astype(float) for x in drawn_numbers(gemm, 1))
    found = interpret(GemmPlan(gemm, H200, kernel), one, other, clusters=2, seed=1)
    assert np.array_equal(found, exact(gemm, one, other))


def test_lines_of_a_phase_begin_as_many_columns_earlier_than_those_before() -> None:
    """By the starts themselves: of all pitches and addresses that leave some line at a granule's beginning."""
    kernel = one_of_each()[0][1]
    for slides in (2, 4, 8):
        step = 16 // slides
        for pitch in range(step, 256, 2 * step):
            for address in range(0, 64, step):
                one = replace(kernel, phases=slides)
                scheduler = TileScheduler(one, 64, 2, 1, 1, 1, 0, 16, 1, b_address=address, b_pitch=pitch)
                starts = [(address + scheduler.phase(turn) * pitch) % 16 for turn in range(slides)]
                assert starts[-1] == 0 and all(late - early == step for late, early in pairwise(starts))


def test_every_kernel_keeps_its_contract() -> None:
    for _, kernel in one_of_each():
        assert check(kernel_program(kernel, 2), H200).proven, str(kernel)


def test_a_program_that_lacks_an_operation_is_not_proven() -> None:
    """Between phases too each wait and release is needed."""
    kernel = next(one for _, one in one_of_each() if not one.ping_pong and one.cluster == (1, 1))
    program = printed_program(kernel, 2)
    inside = [
        {id(op) for one in every(role.body) if isinstance(one, Phases) for op in every(one.body)}
        for role in program.roles
    ]

    def chosen(role: int, ops: tuple[Any, ...], number: int) -> bool:
        return id(ops[number]) in inside[role] and isinstance(ops[number], Wait | Release)

    kinds, lacking = proven_without(program, H200, chosen)
    assert kinds == {Wait, Release}
    assert not lacking


def test_a_program_that_does_not_slide_is_wrong() -> None:
    gemm, kernel = next((gemm, one) for gemm, one in one_of_each() if not one.ping_pong)
    program = printed_program(kernel, 2)
    consumer, *others = program.roles
    plain = [op for op in every(consumer.body) if not isinstance(op, NESTS)]
    (number,) = (i for i, op in enumerate(plain) if isinstance(op, SlideSums))
    still = replace(program, roles=(replace(consumer, body=without(consumer.body, number)), *others))
    a, b = (one.astype(float) for one in drawn_numbers(gemm, 3))
    found = interpret(GemmPlan(gemm, H200, kernel), a, b, seed=3, program=still)
    assert not np.array_equal(found, exact(gemm, a, b))


def test_what_does_not_slide() -> None:
    """Lines along k, types that the matrix unit does not transpose, lines of which none begins with a granule."""
    assert not slid(product_of(200, 304, 1095, "KK"))
    assert not slid(product_of(200, 304, 1095, "KM"))  # B is legal
    single = ls.Gemm(200, 301, 512, "fp32", b=ls.Tensor((301, 512), "fp32", (1, 301)))
    assert not slid(single)
    late, even = (ls.Tensor((300, 1095), "bf16", (1, 302), offset=offset) for offset in (2, 4))  # bytes
    assert not slid(product_of(200, 300, 1095, "KM", b=late))
    assert slid(product_of(200, 300, 1095, "KM", b=even))


def test_other_backends_name_what_they_lack() -> None:
    gemm, kernel = one_of_each()[0]
    with pytest.raises(LegalSatError, match="ptx has no row for Phases"):
        require_rows("ptx", gemm, kernel)
    for backend in ("ptx", "triton"):
        plan = ls.synthesize(gemm, "h200", backend=backend)
        assert plan.kernel is None or not plan.kernel.slides
