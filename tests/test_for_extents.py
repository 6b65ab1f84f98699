"""What extents decide of kernels beside their text: what L2 fetches at a time, and the order of tiles."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import legalsat as ls
from bench.kernels.interpreted import drawn_numbers, exact
from legalsat.backends import program
from legalsat.backends.cute.program import program_for
from legalsat.extract.cost.kernel_cost import kernel_cost
from legalsat.extract.kernels.interpreted_memory import Launched
from legalsat.extract.kernels.interpreter import interpret
from legalsat.extract.kernels.kernel_tiles import Tile
from legalsat.extract.kernels.product_kernels import best_kernels, each_kernel, product_kernels
from legalsat.extract.kernels.product_maps import extents, result_lies, source_maps
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.plans.product_kernel import ProductKernel
from legalsat.runtime.program import NumberArgument
from legalsat.targets import target

H200 = target("h200")
Gemm, T = ls.Gemm, ls.Tensor
PRODUCTS = {
    "few rows": Gemm(72, 1024, 512, "bf16"),
    "few columns": Gemm(1024, 100, 512, "bf16"),
    "one tile": Gemm(64, 64, 2048, "fp16"),
    "many": Gemm(1000, 1000, 256, "bf16"),
    "odd k": Gemm(100, 600, 501, "bf16", b=T((600, 501), "bf16", (1, 600))),
    "odd n": Gemm(100, 601, 512, "bf16", b=T((601, 512), "bf16", (1, 601))),
    "bytes": Gemm(64, 512, 1024, "e4m3", out_dtype="fp32"),
    "batch": Gemm(64, 256, 256, "bf16", batch=3),
}


def tiles_of(gemm: ls.Gemm, kernel: ProductKernel) -> list[Tile]:
    """All tiles, in the order of the first CTAs of clusters."""
    launched = Launched(gemm, kernel, *drawn_numbers(gemm, 0), clusters=1)
    return [launched.scheduler.tile(number, 0) for number in range(launched.tiles)]


def brought_once(gemm: ls.Gemm, kernel: ProductKernel) -> tuple[bool, bool]:
    """Whether no two clusters bring the same rows of A, or of B, of the same part of k, over all tiles."""
    tiles = tiles_of(gemm, kernel)
    of_a = Counter((one.a_m, one.phase, one.first_k) for one in tiles)
    of_b = Counter((one.n, one.first_k) for one in tiles)
    return max(of_a.values()) == 1, max(of_b.values()) == 1


@pytest.mark.parametrize("name", PRODUCTS)
def test_l2_fetches_twice_as_much_of_what_one_cluster_reads_alone(name: str) -> None:
    """By counting, over all tiles, how many clusters bring the same rows of the same part of k by whole boxes."""
    gemm, seen = PRODUCTS[name], set[tuple[bool, ...]]()
    for kernel in {(one.tile, one.swapped): one for _, one in product_kernels(gemm, H200, 200)}.values():
        plain = kernel.realign == "none", not kernel.slides
        alone = tuple(
            boxed and lines is None and once and not gemm.batch
            for boxed, lines, once in zip(plain, kernel.lines, brought_once(gemm, kernel), strict=True)
        )
        assert tuple({one.map.l2_promotion for one in of} == {"256B"} for of in source_maps(gemm, kernel)) == alone
        seen.add(alone)
    assert (seen == {(False, False)}) == (name in {"many", "batch"})


POLICIES = {0x1000000000000000: "normal", 0x12F0000000000000: "first", 0x14F0000000000000: "last"}  # CuTe's values


@pytest.mark.parametrize("name", PRODUCTS)
def test_l2_drops_first_what_is_read_once_and_keeps_the_other_operand(name: str) -> None:
    """By counting clusters that bring the same rows of the same part of k; of members nothing is known."""
    gemm, seen = PRODUCTS[name], set[tuple[str, ...]]()
    for kernel in {(one.tile, one.swapped): one for _, one in product_kernels(gemm, H200, 200)}.values():
        once = brought_once(gemm, kernel)
        expected = (
            tuple("first" if one else "last" for one in once) if any(once) and not gemm.batch else ("normal",) * 2
        )
        recipe = program_for(gemm, kernel, H200).recipes[0]
        numbers = [one.value for one in recipe.arguments if isinstance(one, NumberArgument)]
        assert tuple(POLICIES[one] for one in numbers if one in POLICIES) == expected, kernel
        seen.add(expected)
    assert (seen == {("normal", "normal")}) == (name in {"many", "batch"})


PARTED = {
    "odd n": (Gemm(1000, 1001, 128, "bf16"), True),
    "n in granules": (Gemm(1000, 1000, 128, "bf16"), True),
    "n in lines": (Gemm(1000, 1024, 128, "bf16"), False),
    "a wide pitch": (Gemm(1000, 1000, 128, "bf16", c=T((1000, 1000), "bf16", (1024, 1))), False),
    "C by columns": (Gemm(1001, 1000, 128, "bf16", c=T((1001, 1000), "bf16", (1, 1001))), True),
    "a batch": (Gemm(1000, 1001, 64, "bf16", batch=2), True),
    "large operands": (Gemm(4097, 4097, 1024, "bf16"), False),
}


@pytest.mark.parametrize("name", PARTED)
def test_tiles_that_share_lines_of_c_follow_each_other(name: str) -> None:
    """Of the kernels along whose tiles' columns C lies; others have such neighbours in turn anyway."""
    gemm, follow = PARTED[name]
    for _, kernel in product_kernels(gemm, H200, 60):
        parted = follow and kernel.slices == 1 and result_lies(gemm, kernel)[0] is False
        assert kernel.group == (2 if parted else 8), kernel
        made = program_for(gemm, kernel, H200)
        numbers = [one.value for one in made.recipes[0].arguments if isinstance(one, NumberArgument)]
        assert numbers[5] == kernel.group
        rows, columns = kernel.clusters(*extents(gemm, kernel))
        if kernel.split > 1 or gemm.k > 128 or columns < 2:
            continue
        place = {(one.m, one.n, (one.phase, one.member)): number for number, one in enumerate(tiles_of(gemm, kernel))}
        wide = kernel.step * kernel.cluster[1]
        apart = [place[m, n + wide, rest] - at for (m, n, rest), at in place.items() if (m, n + wide, rest) in place]
        assert max(apart) == min(rows, kernel.group)


@pytest.mark.parametrize("n", [328, 329])
def test_products_are_right_in_that_order(n: int) -> None:
    gemm = Gemm(700, n, 72, "bf16")
    kernel = next(one for _, one in each_kernel(gemm, H200) if one.group == 2 and one.tile[:2] == (128, 96))
    a, b = drawn_numbers(gemm, n)
    assert np.array_equal(interpret(GemmPlan(gemm, H200, kernel), a, b, clusters=3, seed=n), exact(gemm, a, b))


def test_neither_is_known_to_a_text_or_a_proof(tmp_path: Path) -> None:
    """So a plan of one's own may have others, as a measurement finds them best; no order is of three tiles."""
    gemm = Gemm(72, 4097, 1024, "bf16")
    kernel = next(one for _, one in each_kernel(gemm, H200) if not one.swapped and any(one.streamed))
    assert kernel.group == 2
    other = replace(kernel, group=8, streamed=(False, False))
    ours, others = (GemmPlan(gemm, H200, one) for one in (kernel, other))
    assert ours.pipeline is others.pipeline and ours.program is others.program
    made, usual = program(ours), program(others)
    assert made.text == usual.text and made.recipes != usual.recipes
    for plan in (ours, others):
        plan.save(tmp_path / "p.json")
        assert GemmPlan.load(tmp_path / "p.json") == plan
    GemmPlan(gemm, H200, replace(kernel, group=3)).save(tmp_path / "p.json")
    with pytest.raises(ls.InvalidPlan, match="is none that computes"):
        GemmPlan.load(tmp_path / "p.json")


def test_one_product_s_kernel_is_the_one_of_many_s() -> None:
    gemms = [gemm for gemm, _ in PARTED.values()] + list(PRODUCTS.values())
    assert best_kernels(gemms, H200) == [product_kernels(gemm, H200, 1)[0] for gemm in gemms]


def test_lines_of_c_that_are_written_in_turn_are_predicted_to_cost_less() -> None:
    """Where C is most of what moves, and in no other place."""
    short, lines = Gemm(8192, 8191, 128, "bf16"), Gemm(8192, 8192, 128, "bf16")
    for gemm, less in ((short, True), (lines, False)):
        _, kernel = product_kernels(gemm, H200, 1)[0]
        in_turn, usual = (kernel_cost(gemm, replace(kernel, group=group), H200).nanoseconds for group in (2, 8))
        assert (in_turn < usual) == less


def test_open_products_ask_for_the_maps_and_the_order_of_closed_ones() -> None:
    m = ls.Dim("M", max=64)
    plan = ls.synthesize(Gemm(m, 4096, 4096, "bf16"), H200)
    closed = ls.synthesize(Gemm(16, 4096, 4096, "bf16"), H200)
    assert "256B" in {one.l2_promotion for one in closed.tensor_maps}
    made = program(plan)
    at = plan.choices[made.choice({"M": 16})].kernel
    assert at == closed.kernel
    assert [one.l2_promotion for one in GemmPlan(plan.operator, H200, at).tensor_maps] == [
        one.l2_promotion for one in closed.tensor_maps
    ]
    odd = ls.synthesize(Gemm(ls.Dim("M", typical=4096), 8191, 128, "bf16"), H200)
    bound = program(odd).bind({"M": 4096})
    assert bound.recipes == program(ls.synthesize(Gemm(4096, 8191, 128, "bf16"), H200)).recipes
    numbers = [one.value for one in bound.recipes[0].arguments if isinstance(one, NumberArgument)]
    assert numbers[5] == 2
