"""Slices of k that are products of their own: what they give, and the kernel behind that adds it up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from lying import product_of

import legalsat as ls
from bench.conformance.kernel_launches import launches
from bench.kernels.interpreted import drawn_numbers, exact
from legalsat.backends import program
from legalsat.extract.kernels.interpreter import interpret
from legalsat.extract.kernels.product_kernels import each_kernel, is_kernel
from legalsat.extract.kernels.slices import added_of, added_up
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.plans.product_kernel import ProductKernel
from legalsat.runtime.program import MapsArgument
from legalsat.targets import target

H200 = target("h200")
LONG = ls.Gemm(512, 512, 16384, "bf16")


def sliced(gemm: ls.Gemm) -> Iterator[ProductKernel]:
    return (kernel for _, kernel in each_kernel(gemm, H200) if kernel.slices > 1)


def odd(m: int, n: int, k: int) -> ls.Gemm:
    """A product whose A and C have rows at any element, and whose B lies along n."""
    b = ls.Tensor((n, k), "bf16", (1, -(-n // 8) * 8))
    return ls.Gemm(m, n, k, "bf16", a=ls.Tensor((m, k), "bf16", (k | 1, 1)), b=b)


@pytest.mark.parametrize(
    ("gemm", "chosen"),
    [
        (ls.Gemm(133, 72, 1100, "bf16"), {"swapped": False, "realign": "none"}),
        (ls.Gemm(133, 72, 1100, "bf16", c=ls.Tensor((133, 72), "bf16", (1, 137))), {"swapped": True}),
        (ls.Gemm(70, 131, 1090, "fp16", out_dtype="fp32"), {"swapped": True}),
        (ls.Gemm(96, 48, 2100, "e4m3", out_dtype="bf16"), {"swapped": False}),
        (odd(90, 57, 1101), {"realign": "tiles"}),
        (ls.Gemm(203, 130, 1537, "bf16"), {"realign": "registers", "swapped": False}),
        (ls.Gemm(203, 130, 1537, "fp16"), {"realign": "registers", "swapped": True}),
        (product_of(77, 131, 8200, "MM"), {"realign": "sums"}),
    ],
    ids=[
        *("C in rows", "C in columns", "C^T turned", "8 bits", "rows that start anywhere"),
        *("rows shifted in registers", "columns shifted in registers", "sums that slide"),
    ],
)
def test_slices_add_up_to_the_product(gemm: ls.Gemm, chosen: dict[str, object]) -> None:
    """Wherever C lies; three slices do not share k-tiles out evenly."""
    listed = (k for k in sliced(gemm) if all(getattr(k, name) == value for name, value in chosen.items()))
    kernel = min(listed, key=lambda kernel: (kernel.tile[0] * kernel.tile[1], kernel.slices))
    plan = GemmPlan(gemm, H200, replace(kernel, slices=3))
    a, b = drawn_numbers(gemm, 1)
    assert (interpret(plan, a, b, clusters=2, seed=1) == exact(gemm, a, b)).all()
    assert ls.check_pipeline(plan).proven


def test_what_lies_beside_a_slice_is_not_added() -> None:
    kernel = next(k for k in sliced(LONG) if k.tile[0] == 128)
    added = added_of(ls.Gemm(5, 3, 4096, "bf16"), replace(kernel, slices=2, swapped=False))
    assert added is not None
    parts = np.full((2 * 128 * kernel.cluster[0], 3), 7.0)
    parts[:5], parts[128 * kernel.cluster[0] :][:5] = 2.0**-20, 1.0
    assert (added_up(added, parts) == 1 + 2.0**-20).all()


def test_a_plan_has_a_workspace_and_two_launches(tmp_path: Path) -> None:
    plan = ls.synthesize(LONG, "h200")
    assert plan.kernel is not None and plan.kernel.slices > 1 and plan.behind is not None
    made = program(plan, "cute")
    first, behind = made.recipes
    (space,) = made.workspaces
    # Each slice has rows for whole clusters' tiles.
    assert space.bytes == plan.kernel.slices * 512 * 512 * 4 == plan.behind.bytes
    (maps,) = (one for one in first.arguments if isinstance(one, MapsArgument))
    assert [one.operand for one in maps.maps] == ["a", "b", space.name]
    assert maps.maps[-1].map.dtype == "f32" and maps.maps[-1].map.global_dim == (512, plan.kernel.slices * 512)
    assert behind.entry == "add_slices_bf16" and f"void __launch_bounds__(256) {behind.entry}" in made.text
    plan.save(tmp_path / "plan.json")
    assert GemmPlan.load(tmp_path / "plan.json") == plan
    text = str(plan)
    assert "wait for what kernels in front have written" in text.split("behind", 1)[1].split("operands", 1)[0]
    assert "workspace: " in plan.emit("cute") and "none; calls" not in plan.emit("cute")
    assert ls.check_pipeline(plan).proven


@pytest.mark.parametrize("gemm", [ls.Gemm(16, 4096, 8192, "bf16"), odd(24, 1777, 8193)], ids=["legal", "odd"])
def test_a_workspace_has_64_mib_at_most(gemm: ls.Gemm) -> None:
    """Each slice has rows for whole clusters' tiles, so that many slices of few rows may take gigabytes."""
    listed = set(sliced(gemm))
    bytes_of = {one: GemmPlan(gemm, H200, one).behind.bytes for one in listed}  # type: ignore[union-attr]
    assert 0 < min(bytes_of.values()) < max(bytes_of.values()) <= 64 << 20
    # Those of the same tiles in 16 slices are listed too, but for what they take.
    large = {replace(one, slices=16) for one, size in bytes_of.items() if size * 16 // one.slices > 64 << 20}
    assert large and not large & listed
    assert not is_kernel(gemm, min(large, key=str), H200)


def test_what_adds_up_comes_in_early_where_that_crowds_no_processor() -> None:
    """Blocks that wait on the few processors that a product leaves idle do all of the work there."""
    seen = set[bool]()
    for gemm in (ls.Gemm(147, 336, 8000, "bf16"), ls.Gemm(303, 568, 7008, "bf16")):
        for kernel in list(sliced(gemm))[:60]:
            product, behind = program(GemmPlan(gemm, H200, kernel), "cute").recipes
            idle = 132 - product.grid[0]
            assert behind.dependent == (behind.grid[0] <= 3 * idle)
            seen.add(behind.dependent)
    assert seen == {True, False}


def test_a_backend_without_a_row_says_so() -> None:
    plan = ls.synthesize(LONG, "h200")
    with pytest.raises(ls.LegalSatError, match="triton has no row for AddSlices"):
        plan.emit("triton")
    other = ls.synthesize(LONG, "h200", backend="triton")
    assert other.behind is None and "add_slices" not in other.emit("triton")
    assert all("add_slices" in plan.emit(backend) for backend in ("cute", "ptx", "host"))


def test_open_products_are_not_sliced() -> None:
    plan = ls.synthesize(ls.Gemm(ls.Dim("M", typical=512), 512, 16384, "bf16"), "h200")
    assert all(one.kernel.slices == 1 for one in plan.choices)


def test_launches_have_slices_of_unlike_lengths() -> None:
    kernel = next(sliced(LONG))
    tried = list(launches(kernel, 2))
    lengths = [{one.k_tiles(tile) for tile in range(one.tiles)} for one in tried]
    assert any(len(one) == 2 for one in lengths)
    for launch in tried:
        starts = [launch.scheduler.tile(number, 0) for number in range(launch.tiles)]
        assert [tile.first_k for tile in starts] == [
            sum(tile.k_tiles for tile in starts[:number]) for number in range(launch.tiles)
        ]
        assert sum(tile.k_tiles for tile in starts) == -(-launch.k // kernel.tile[2])
        assert {tile.a_m for tile in starts} <= {0}
