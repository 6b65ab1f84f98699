"""Which groups are legal: every one, tried element by element, and proven of all; and kernels that are not so."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest

import legalsat as ls
from legalsat.analyses.sets.groups import reaches
from legalsat.extract.kernels.kernel_tiles import window_of
from legalsat.extract.kernels.product_kernels import each_kernel
from legalsat.extract.region import groups
from legalsat.extract.region.groups import GroupRegion, group_region, unproven
from legalsat.operators.gemm import MOST_EXTENT
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.targets import target

H200 = target("h200")


def across(rows: int, k: int) -> ls.Tensor:
    return ls.Tensor((rows, k), "bf16", (1, rows))


GEMMS = {
    "windows": ls.GroupedGemm(900, 64, 64, "bf16", groups=3),
    "rows by threads": ls.GroupedGemm(900, 63, 64, "bf16", groups=3),
    "windows of columns": ls.GroupedGemm(900, 64, 63, "bf16", groups=3),
    "columns by threads": ls.GroupedGemm(
        900, 129, 200, "bf16", groups=3, b=ls.Tensor((3, 129, 200), "bf16", (26000, 201, 1))
    ),
    "maps that wrap": ls.GroupedGemm(64, 96, 900, "bf16", groups=3, along="k", a=across(64, 900), b=across(96, 900)),
    "cleared, 8 bits": ls.GroupedGemm(64, 96, 900, "e4m3", groups=3, along="k"),
    "cleared, 32 bits": ls.GroupedGemm(64, 96, 900, "fp32", groups=3, along="k"),
}


def some_plans(name: str) -> list[GemmPlan]:
    kernels = [kernel for _, kernel in islice(each_kernel(GEMMS[name], H200), 1500)]
    return [GemmPlan(GEMMS[name], H200, kernel) for kernel in kernels[:: len(kernels) // 12 + 1]]


@pytest.mark.parametrize("name", GEMMS)
def test_every_group_gets_what_is_its(name: str) -> None:
    region = ls.legal_region(GEMMS[name], "h200")
    assert isinstance(region, GroupRegion)
    assert "every size" in region.sentence and region.holds(begin=899, end=900)
    for number, plan in enumerate(some_plans(name)):
        proof = group_region(plan).prove(60, seed=number)
        assert proof.holds, (plan.kernel, str(proof))


@pytest.mark.parametrize("name", GEMMS)
def test_what_isl_is_told_is_what_tiles_do(name: str) -> None:
    """The relation, at single groups, beside the tile scheduler: with another granule, depth or tile they differ."""
    for plan in some_plans(name)[::4]:
        gemm, kernel = groups.parts_of(plan)
        said, _ = groups.rows_of(gemm, kernel) if gemm.members.ragged == "m" else groups.depths_of(gemm, kernel)
        for begin, end in ((0, 0), (0, 1), (5, 5), (7, 300), (13, 14), (899, 900), (0, 900), (129, 386)):
            assert reaches(said, begin, end, set(groups.theirs_of(gemm, kernel, begin, end))), (begin, end)
        assert not reaches(said, 7, 300, set(range(7, 299)))


def test_a_tile_of_which_boxes_leave_rows_out_is_not_proven() -> None:
    plan = some_plans("windows")[0]
    gemm, kernel = groups.parts_of(plan)
    bad = replace(kernel, tile=(kernel.tile[0] + 8, *kernel.tile[1:]))
    assert "a group gets what is its, and nothing else" in list(unproven(gemm, bad))
    with pytest.raises(ls.LegalSatError, match="not proven"):
        group_region(GemmPlan(gemm, H200, bad))


def test_a_map_that_has_too_few_lines_is_not_proven_and_not_planned() -> None:
    """Of more than 2^30 k in a group: boxes would begin in front of the map's first line, which brings zeros."""
    k = 2**30 + 8
    gemm = ls.GroupedGemm(8, 8, k, "bf16", groups=2, along="k", a=across(8, k), b=across(8, k))
    kernel = groups.parts_of(some_plans("maps that wrap")[0])[1]
    assert list(unproven(gemm, kernel))
    assert not any(one.ragged == "k" and not one.clipped for _, one in islice(each_kernel(gemm, H200), 50))


def test_coordinates_stay_within_31_bits() -> None:
    with pytest.raises(ls.InvalidInput, match="at most"):
        ls.GroupedGemm(MOST_EXTENT + 1, 8, 8, "bf16", groups=2)
    for plan in some_plans("windows"):
        gemm = ls.GroupedGemm(MOST_EXTENT, 8, 8, "bf16", groups=2)
        assert not list(unproven(gemm, groups.parts_of(plan)[1]))
        large = replace(groups.parts_of(plan)[1], cluster=(64, 1))  # 2^13 rows and more
        if large.tile[0] >= 256:
            assert list(unproven(gemm, large))


def test_windows_that_begin_a_row_late_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = some_plans("windows")[0]
    honest = window_of

    def late(tile: object, row: int, count: int) -> tuple[int, int] | None:
        found = honest(tile, row, count)  # type: ignore[arg-type]
        return None if found is None else (found[0], found[1] + 1)

    region = group_region(plan)
    monkeypatch.setattr(groups, "window_of", late)
    proof = region.prove(50)
    assert not proof.holds and "do not get what is theirs" in str(proof)


def test_a_group_is_asked_for_by_numbers() -> None:
    region = ls.legal_region(GEMMS["windows"], "h200")
    with pytest.raises(ls.InvalidInput, match="begin"):
        region.holds(begin="a", end=3)  # type: ignore[arg-type]
    assert region.to_json()["dims"] == ["begin", "end"]
    assert str(region).startswith("gemm of bf16")
