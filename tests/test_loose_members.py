"""Members that begin anywhere in a granule: right in any order of roles, proven, by maps that reach no other line."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import lru_cache
from itertools import product

import numpy as np
import pytest

import legalsat as ls
from bench.kernels.interpreted import drawn_numbers, exact
from legalsat.analyses.protocol.typestate import check
from legalsat.backends.lacking import require_rows
from legalsat.errors import LegalSatError
from legalsat.extract.cost.kernel_columns import KernelColumns
from legalsat.extract.kernels.interpreted_memory import Launched
from legalsat.extract.kernels.interpreter import interpret
from legalsat.extract.kernels.kernel_program import kernel_program
from legalsat.extract.kernels.kernel_tiles import TileScheduler
from legalsat.extract.kernels.product_kernels import best_kernel, is_kernel, product_kernels
from legalsat.extract.kernels.product_maps import maps_of
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.plans.product_kernel import ProductKernel
from legalsat.targets import target
from legalsat.tensor import plain

H100 = target("h100")


def batch_of(extents: tuple[int, int, int], lies: str, batch: tuple[int, ...] = (3,), apart: int = 0) -> ls.Gemm:
    """Return a batch whose members lie one behind the other, or so many elements further."""
    (m, n, k), tensors = extents, {}
    for name, rows, axis in (("a", m, lies[0]), ("b", n, lies[1])):
        steps = [rows * k + apart]
        for extent in batch[:0:-1]:
            steps.insert(0, steps[0] * extent + apart)
        tensors[name] = ls.Tensor((*batch, rows, k), "bf16", (*steps, *((k, 1) if axis == "K" else (1, rows))))
    return ls.Gemm(m, n, k, "bf16", batch=batch, a=tensors["a"], b=tensors["b"])


def loose(gemm: ls.Gemm) -> list[ProductKernel]:
    kernels = [one for _, one in product_kernels(gemm, H100) if any(one.loose)]
    return [one for one in kernels if one.k_tiles(gemm.k) >= one.least_k_tiles]


@lru_cache
def one_of_each() -> list[tuple[ls.Gemm, ProductKernel]]:
    """Return a kernel for each way to lie, to be mended and to share, with a product."""
    r, found = random.Random(7), dict[object, tuple[ls.Gemm, ProductKernel]]()
    for lies, extents, batch, apart in (
        ("KM", (77, 131, 181), (3,), 0),
        ("MM", (69, 134, 333), (2, 2), 1),
        ("KK", (133, 72, 199), (3,), 2),
        ("MK", (70, 75, 129), (5,), 0),
        ("KM", (200, 64, 259), (3,), 0),
    ):
        gemm = batch_of(extents, lies, batch, apart)
        kernels = loose(gemm)
        for one in r.sample(kernels, len(kernels)):
            found.setdefault((one.majors, one.loose, one.aligned, one.realign), (gemm, one))
            found.setdefault((one.cluster != (1, 1), one.store, one.swapped), (gemm, one))
    return list(found.values())


def test_products_are_exact_whatever_lies_beside_their_elements() -> None:
    """What ends a line is infinite in some, which must not reach the sums of others, whose granules it shares."""
    kinds = one_of_each()
    assert {one.realign for _, one in kinds} == {"none", "tiles", "sums", "registers", "woven"}
    assert {one.loose for _, one in kinds} == {(True, False), (False, True), (True, True)}
    for seed, (gemm, kernel) in enumerate(kinds):
        a, b = (one.astype(float) for one in drawn_numbers(gemm, seed))
        a[..., 3::17, -1], b[..., 5::19, 0] = np.inf, -np.inf
        with np.errstate(invalid="ignore"):
            found = interpret(GemmPlan(gemm, H100, kernel), a, b, clusters=2, seed=seed)
            assert np.array_equal(found, exact(gemm, a, b).reshape(found.shape), equal_nan=True), f"{gemm}: {kernel}"


def test_every_kernel_keeps_its_contract_and_says_which_law_found_it() -> None:
    for gemm, kernel in one_of_each():
        assert check(kernel_program(kernel, 2), H100).proven, str(kernel)
        assert "begin_in_granules" in [step.law for step in GemmPlan(gemm, H100, kernel).derivation]


def test_maps_reach_the_lines_of_each_member_and_nothing_else() -> None:
    """By brute force: where a line's first and last element are, by its map, its granule and its place among others."""
    for gemm, kernel in one_of_each():
        for number, name in enumerate("AB"):
            if not kernel.loose[number]:
                continue
            tensor = {"A": gemm.a, "B": gemm.b}[kernel.operands[number]]
            across, along = (step * 2 for step in plain(tensor.strides)[-2:])
            rows, k = plain(tensor.shape)[-2:]
            by_rows = kernel.majors[number] == "K"
            lines, length, pitch = (rows, k, across) if by_rows else (k, rows, along)
            merged = gemm.members.of(kernel.operands[number])
            scheduler = TileScheduler(
                *(kernel, gemm.k, 2, 1, 1, 1, 0, pitch, 1),
                b_pitch=pitch,
                steps=(tuple(2 * step for step in merged),) * 2,
                lines=(lines, lines),
            )
            maps, alike = maps_of(gemm, kernel)[name], kernel.alike[number]
            for member in product(*map(range, gemm.members.extents)):
                begin = sum(2 * i * step for i, step in zip(member, merged, strict=True))
                seen = set[int]()
                for phase in range(alike):
                    map_, granule = scheduler.placed(number, phase, member)
                    one = maps[map_].map
                    ours = [line for line in range(lines) if line % alike == phase]
                    assert one.global_dim[1] == len(ours) and granule < one.global_dim[2]
                    for place, line in enumerate(ours):
                        first = granule * one.global_stride[1] + place * one.global_stride[0]
                        last = first + 2 * one.global_dim[0]
                        assert 0 <= begin + line * pitch - first < 16 and last == begin + line * pitch + 2 * length
                        seen.add(line)
                assert seen == set(range(lines))


def test_grouped_rows_begin_anywhere_too() -> None:
    """Rows of a group begin in any phase; of groups' weights any begins in its granule as it likes."""
    gemm = ls.GroupedGemm(300, 71, 201, "bf16", groups=4)
    kernels = [one for _, one in product_kernels(gemm, H100) if any(one.aligned)]
    r, found = random.Random(1), dict[object, ProductKernel]()
    for one in r.sample(kernels, len(kernels)):
        found.setdefault((one.aligned, one.loose, one.store, one.relayouts), one)
    assert {one.aligned for one in found.values()} == {(True, False), (False, True), (True, True)}
    assert any(one.loose == (False, True) for one in found.values())
    for seed, kernel in enumerate(found.values()):
        a, b = (one.astype(float) for one in drawn_numbers(gemm, seed))
        a[3::17, -1] = np.inf
        ends = (77, 77, 210, 300)
        wanted, row = np.full((300, 71), 0.0), 0
        with np.errstate(invalid="ignore"):
            for group, end in enumerate(ends):
                wanted[row:end], row = exact(gemm, a[row:end], b[group]), end
            got = interpret(GemmPlan(gemm, H100, kernel), a, b, ends=ends, clusters=2, seed=seed)
        assert np.array_equal(got, wanted, equal_nan=True), str(kernel)
        assert check(kernel_program(kernel, 2), H100).proven


def test_where_members_begin_alike_no_granules_are_asked_for() -> None:
    whole = ls.Tensor((3, 80, 77), "bf16")
    assert not loose(ls.Gemm(80, 80, 77, "bf16", batch=3, a=whole, b=whole))
    assert not loose(batch_of((80, 64, 77), "KM"))
    for _, kernel in one_of_each():  # copies lie whole
        assert not any(one and first != "none" for one, first in zip(kernel.loose, kernel.relayouts, strict=True))


def test_a_kernel_that_takes_members_for_alike_is_none() -> None:
    """No axis of members describes them, and lines that are moved as the first member's are others."""
    gemm, kernel = next((gemm, one) for gemm, one in one_of_each() if one.loose == one.aligned == (True, True))
    assert is_kernel(gemm, kernel, H100)
    assert not is_kernel(gemm, replace(kernel, loose=(False, False)), H100)
    a, b = (one.astype(float) for one in drawn_numbers(gemm, 3))
    launched = Launched(gemm, kernel, a, b, 1)
    launched.scheduler = replace(launched.scheduler, steps=((0,), (0,)))
    assert launched.scheduler.placed(0, 0, (1,)) != Launched(gemm, kernel, a, b, 1).scheduler.placed(0, 0, (1,))


def test_granules_beyond_what_coordinates_name_are_not_asked_for() -> None:
    """The same product with members further apart than 2^31 granules has none, since copies would count as far."""
    near, far = (batch_of((577, 64, 577), "KM", (batch,)) for batch in (50_000, 60_000))
    assert 577 * 577 * 2 * 50_000 // 16 < 2**31 <= 577 * 577 * 2 * 60_000 // 16
    kernel = best_kernel(near, H100)
    assert kernel is not None and any(kernel.loose)
    assert best_kernel(far, H100) is None and not is_kernel(far, kernel, H100)
    with pytest.raises(ls.NoLegalLayout, match="GRAN002"):
        ls.synthesize(far, H100.name)


def test_other_backends_name_what_they_lack() -> None:
    gemm, kernel = one_of_each()[0]
    with pytest.raises(LegalSatError, match=r"triton has no row for .*, and cute has one"):
        require_rows("triton", gemm, kernel)


@pytest.mark.parametrize("m", [40, 577, 1024])
def test_share_of_rows_that_tiles_of_a_phase_fetch(m: int) -> None:
    """Phase by phase: every cluster's tiles have rows of one, and the last of them fewer than they may."""
    gemm = batch_of((m, 64, 577), "KM")
    kernels = [one for _, one in product_kernels(gemm, H100)]
    assert any(one.realign == "tiles" for one in kernels)
    filled = KernelColumns.of(kernels).filled(np.array([[m]]))[0]
    for one, share in zip(kernels, filled, strict=True):
        if one.realign != "tiles":
            assert share == 1
        elif not one.swapped:
            phases = [len(range(phase, m, one.phases)) for phase in range(one.phases)]
            high = one.tile[0] * one.cluster[0]
            fetched = sum(min(high, rows - done) for rows in phases for done in range(0, rows, high))
            tiles = one.phases * len(range(0, max(phases), high))
            assert share == pytest.approx(fetched / (tiles * high))
