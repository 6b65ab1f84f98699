"""Kernels whose tiles lap over those beside them, so that each stores whole sectors of C's rows."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from interpreted_kernels import assert_exact
from lying import product_of

import legalsat as ls
from bench.kernels.conformance import judged
from bench.kernels.interpreted import drawn_numbers, exact
from legalsat.analyses.protocol.typestate import check
from legalsat.backends.lacking import require_rows
from legalsat.errors import LegalSatError
from legalsat.extract.cost.kernel_cost import kernel_cost
from legalsat.extract.kernels.interpreter import interpret
from legalsat.extract.kernels.kernel_program import kernel_program, printed_program
from legalsat.extract.kernels.kernel_tiles import Tile, own_columns
from legalsat.extract.kernels.product_kernels import product_kernels
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.plans.product_kernel import ProductKernel
from legalsat.program.kernel import StoreSectors, every
from legalsat.targets import target

H200 = target("h200")
SECTOR = 32  # bytes


@lru_cache
def lapped(gemm: ls.Gemm) -> list[ProductKernel]:
    return [one for _, one in product_kernels(gemm, H200) if one.store == "lapped"]


@lru_cache
def one_of_each() -> dict[object, tuple[ls.Gemm, ProductKernel]]:
    """Return a kernel for each way to mend operands, to share and to store, with C of one tile's width and of more."""
    r, found = random.Random(4), dict[object, tuple[ls.Gemm, ProductKernel]]()
    drawn = ("KK", (133, 403, 97)), ("KK", (70, 333, 330)), ("MK", (77, 531, 70)), ("KK", (300, 130, 96))
    for lies, extents in drawn:
        gemm = product_of(*extents, lies)
        for one in r.sample(lapped(gemm), len(lapped(gemm))):
            found.setdefault((one.realign, one.aligned, one.cluster == (1, 1)), (gemm, one))
            found.setdefault((one.ping_pong, one.overlapped > 0, one.swapped), (gemm, one))
            found.setdefault((one.cluster, extents), (gemm, one))
    return found


def test_products_are_exact_and_no_byte_beside_c_is_written() -> None:
    kinds = list(dict.fromkeys(one_of_each().values()))
    assert {one.realign for _, one in kinds} == {"none", "tiles", "woven"}
    assert {one.ping_pong for _, one in kinds} == {one.overlapped > 0 for _, one in kinds} == {False, True}
    assert_exact(kinds)


def test_elements_of_four_bytes() -> None:
    gemm = product_of(133, 331, 64, "KK", out_dtype="fp32")
    for seed, kernel in enumerate(random.Random(2).sample(lapped(gemm), 3)):
        a, b = (one.astype(float) for one in drawn_numbers(gemm, seed))
        assert kernel.lap == SECTOR // 4
        assert np.array_equal(interpret(GemmPlan(gemm, H200, kernel), a, b, seed=seed), exact(gemm, a, b))


@pytest.mark.parametrize("columns", [128, 208, 256])
def test_each_column_is_stored_by_one_tile_and_sectors_inside_of_rows_whole(columns: int) -> None:
    """For rows that begin anywhere in a sector, of as many columns as there are, by tiles of every cluster."""
    r, kernel = random.Random(columns), lapped(product_of(133, 403, 97, "KK"))[0]
    kernel = replace(kernel, tile=(128, columns, 64), cluster=(1, 2))
    for n in (*range(129, 131), columns, columns + 1, columns + 16, columns + 17, *r.sample(range(130, 2000), 40)):
        row = r.randrange(1000)
        _, along = kernel.clusters(1, n)
        tiles = [Tile(0, 0, i * kernel.step, 0, 0, 1, 0, 1) for i in range(along * 2)]
        stored = [(tile.n, own_columns(kernel, tile, n, row)) for tile in tiles]
        columns_of = [first + column for first, own in stored for column in own]
        assert columns_of == list(range(n))
        ends = [row + first + own.start for first, own in stored if own][1:]
        assert all(end % kernel.lap == 0 for end in ends)
        assert all(not own or own.stop <= columns for _, own in stored)


def test_every_kernel_keeps_its_contract() -> None:
    for _, kernel in dict.fromkeys(one_of_each().values()):
        assert check(kernel_program(kernel, 2), H200).proven, str(kernel)
        assert any(isinstance(op, StoreSectors) for op in every(printed_program(kernel, 2).roles[0].body))


@pytest.mark.parametrize(("realign", "aligned"), [("none", False), ("none", True), ("tiles", False)])
def test_a_printed_kernel_does_what_its_program_says(realign: str, *, aligned: bool) -> None:
    gemm, kernel = next(
        (gemm, one)
        for gemm, one in one_of_each().values()
        if (one.realign, any(one.aligned), one.cluster) == (realign, aligned, (1, 1))
    )
    assert not judged(gemm, kernel, few=True)["differences"]


def test_tiles_lap_where_rows_of_c_are_no_whole_granules_and_k_is_short() -> None:
    assert lapped(product_of(300, 331, 96, "KK"))
    assert not lapped(product_of(300, 328, 96, "KK"))  # boxes store whole rows
    assert not lapped(product_of(300, 331, 960, "KK"))
    assert not lapped(product_of(300, 107, 96, "KK"))  # one tile has all columns


def test_whole_sectors_are_cheaper_and_columns_that_are_computed_twice_dearer() -> None:
    gemm = ls.Gemm(20001, 20001, 72, "bf16")
    wide = next(one for one in lapped(gemm) if one.tile[:2] == (128, 256) and not one.relayouts.count("pad"))
    whole = replace(wide, store="rows", lap=0)
    assert kernel_cost(gemm, wide, H200).memory < kernel_cost(gemm, whole, H200).memory
    assert kernel_cost(gemm, wide, H200).compute > kernel_cost(gemm, whole, H200).compute


def test_other_backends_name_what_they_lack() -> None:
    gemm, kernel = next((gemm, one) for gemm, one in one_of_each().values() if not any(one.aligned))
    with pytest.raises(LegalSatError, match="ptx has no row for StoreSectors"):
        require_rows("ptx", gemm, kernel)
