"""Kernels of C^T whose columns threads store: those that begin anywhere, and elements of tiles of one phase of rows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from interpreted_kernels import assert_exact
from lacking import without
from lying import product_of

import legalsat as ls
from bench.kernels.conformance import judged
from bench.kernels.interpreted import drawn_numbers, exact
from legalsat.analyses.protocol.typestate import check
from legalsat.backends.lacking import require_rows
from legalsat.errors import LegalSatError
from legalsat.extract.kernels.interpreter import interpret
from legalsat.extract.kernels.kernel_program import kernel_program, printed_program
from legalsat.extract.kernels.product_kernels import product_kernels
from legalsat.extract.kernels.unfolded import unfolded
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.plans.product_kernel import ProductKernel, row_pitch
from legalsat.program.kernel import NESTS, KernelProgram, StoreColumns, every
from legalsat.program.pipeline import Sync, Write
from legalsat.targets import target

H200 = target("h200")


def by_columns(gemm: ls.Gemm) -> list[ProductKernel]:
    kernels = (one for _, one in product_kernels(gemm, H200))
    return [one for one in kernels if one.store == "columns" and one.k_tiles(gemm.k) >= one.least_k_tiles]


@lru_cache
def one_of_each() -> dict[object, tuple[ls.Gemm, ProductKernel]]:
    """Return a kernel for each way to mend operands, to share and to store, and for odd and even numbers of parts."""
    r, found = random.Random(6), dict[object, tuple[ls.Gemm, ProductKernel]]()
    drawn = ("KK", (133, 203, 597)), ("KK", (70, 136, 330)), ("MM", (77, 131, 700)), ("KK", (133, 203, 600))
    for lies, extents in drawn:
        gemm = product_of(*extents, lies)
        kernels = by_columns(gemm)
        for one in r.sample(kernels, len(kernels)):
            parts = len(range(0, one.tile[1], 64)) % 2
            found.setdefault((one.realign, one.phases, one.aligned, one.cluster == (1, 1)), (gemm, one))
            found.setdefault((one.realign, one.ping_pong, one.overlapped > 0, parts), (gemm, one))
            found.setdefault((one.cluster != (1, 1), one.tile[0]), (gemm, one))
    return found


def test_products_are_exact_and_no_byte_beside_c_is_written() -> None:
    kinds = list(dict.fromkeys(one_of_each().values()))
    assert {(one.realign, one.phases) for _, one in kinds} >= {("tiles", 8), ("tiles", 4), ("sums", 8), ("none", 1)}
    assert {one.aligned for _, one in kinds if one.realign == "none"} >= {(False, False), (True, True)}
    assert {one.ping_pong for _, one in kinds} == {one.overlapped > 0 for _, one in kinds} == {False, True}
    assert_exact(kinds)


def test_elements_of_four_bytes() -> None:
    gemm = product_of(70, 131, 330, "KK", out_dtype="fp32")
    kernels = by_columns(gemm)
    for seed, kernel in enumerate(random.Random(2).sample(kernels, 3)):
        a, b = (one.astype(float) for one in drawn_numbers(gemm, seed))
        assert np.array_equal(interpret(GemmPlan(gemm, H200, kernel), a, b, seed=seed), exact(gemm, a, b))


def test_every_kernel_keeps_its_contract() -> None:
    for _, kernel in dict.fromkeys(one_of_each().values()):
        assert check(kernel_program(kernel, 2), H200).proven, str(kernel)


def lacking(program: KernelProgram) -> Iterator[KernelProgram]:
    """Yield the program without one meeting of a consumer's warps, each in turn."""
    consumer, *others = program.roles
    plain = [op for op in every(consumer.body) if not isinstance(op, NESTS)]
    for number, op in enumerate(plain):
        if isinstance(op, Sync) and op.name.startswith("turned"):
            yield replace(program, roles=(replace(consumer, body=without(consumer.body, number)), *others))


def test_each_meeting_is_needed() -> None:
    parts = set[int]()
    for _, kernel in dict.fromkeys(one_of_each().values()):
        program = printed_program(kernel, 2)
        faults = list(lacking(program))
        parts.add(len(faults))
        for fault in faults:
            result = check(unfolded(fault), H200)
            assert not result.proven
            assert {said.code for said in result.diagnostics} & {"PIPE010", "PIPE013", "PIPE014"}
    assert min(parts) >= 1 and max(parts) > 1


@pytest.mark.parametrize(("realign", "aligned"), [("tiles", False), ("sums", False), ("none", False), ("none", True)])
def test_a_printed_kernel_does_what_its_program_says(realign: str, *, aligned: bool) -> None:
    gemm, kernel = next(
        (gemm, one)
        for gemm, one in one_of_each().values()
        if (one.realign, any(one.aligned), one.cluster) == (realign, aligned, (1, 1))
    )
    assert not judged(gemm, kernel, few=True)["differences"]


def test_columns_are_stored_so_where_nothing_else_does() -> None:
    """Boxes store whole columns, rows are stored as rows, and rows of one phase are no neighbours in C."""
    assert not by_columns(product_of(200, 304, 1095, "KM"))  # rows of C are whole granules, and so are those of B
    assert by_columns(product_of(200, 301, 1096, "KK"))
    assert {one.realign for one in by_columns(product_of(201, 304, 1095, "KK"))} == {"tiles"}
    for kernel in by_columns(product_of(201, 301, 1095, "MM")):
        assert kernel.swapped and kernel.realign in {"none", "sums", "woven"}


def test_other_backends_name_what_they_lack() -> None:
    gemm, kernel = next(one for one in one_of_each().values() if one[1].realign == "tiles")
    with pytest.raises(LegalSatError, match="ptx has no row for StoreColumns"):
        require_rows("ptx", gemm, kernel)


def test_rows_that_threads_store_lie_in_different_banks() -> None:
    for columns in range(8, 257, 8):
        for size in (2, 4):
            pitch = row_pitch(columns, size)
            assert pitch % 32 == 16 and columns * size + 16 <= pitch <= columns * size + 32


def test_the_program_says_who_reads_what_all_have_laid_down() -> None:
    gemm, kernel = next(iter(one_of_each().values()))
    ops = list(every(printed_program(kernel, gemm.out_dtype.bytes).roles[0].body))
    stored = [op.buffer for op in ops if isinstance(op, StoreColumns)]
    assert stored and {op.buffer for op in ops if isinstance(op, Write) and op.buffer.startswith("C")} == set(stored)
