"""Stream-K: who multiplies which k-tiles, what is given away and added, and that text and program agree."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest
from lying import product_of

import legalsat as ls
from bench.conformance.kernel_launches import launches
from bench.kernels.interpreted import drawn_numbers, exact
from legalsat.backends import program
from legalsat.errors import LegalSatError
from legalsat.extract.kernels.interpreter import Stuck, interpret
from legalsat.extract.kernels.product_kernels import each_kernel, is_kernel
from legalsat.extract.kernels.shares import Shares
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.plans.product_kernel import LEAST_SHARE, ProductKernel
from legalsat.program.kernel import Body, IfWhole, KernelProgram, every
from legalsat.program.stream_k import AddGiven, GiveSums
from legalsat.targets import target

H200 = target("h200")
LONG = ls.Gemm(1392, 4664, 16320, "bf16")  # 1.3 rounds of large tiles


def shared_out(gemm: ls.Gemm) -> Iterator[ProductKernel]:
    return (kernel for _, kernel in each_kernel(gemm, H200) if kernel.stream_k)


def drawn_shares() -> list[Shares]:
    rng = random.Random(0)
    found = []
    for _ in range(300):
        tiles, k_tiles = rng.randint(1, 300), rng.randint(1, 120)
        found.append(Shares(rng.randint(1, max(1, min(140, tiles * (k_tiles // LEAST_SHARE)))), tiles, k_tiles))
    return found


def test_every_k_tile_is_multiplied_once_and_every_sum_added_once() -> None:
    for shares in drawn_shares():
        seen: set[tuple[int, int]] = set()
        given: dict[int, int] = {}
        parts = [shares.parts(cluster) for cluster in range(shares.clusters)]
        for cluster, own in enumerate(parts):
            for turn, part in enumerate(own):
                k_tiles = {(part.tile, k) for k in range(part.first, part.end)}
                assert k_tiles and not k_tiles & seen
                seen |= k_tiles
                assert len(k_tiles) >= min(LEAST_SHARE, shares.k_tiles)
                if part.place >= 0:
                    assert (part.place, turn) == (cluster, 0)  # ahead of all that may wait
                    given[part.place] = part.tile
        assert len(seen) == shares.tiles * shares.k_tiles
        added = [
            (place, part.tile, cluster) for cluster, own in enumerate(parts) for part in own for place in part.adds
        ]
        assert len(added) == len(given) and all(given[place] == tile for place, tile, _ in added)
        assert all(place < cluster for place, _, cluster in added)  # which those launched first never wait for


def test_clusters_have_as_many_k_tiles() -> None:
    """But for the parts that are too short."""
    shares = Shares(132, 150, 64)
    counts = [sum(part.end - part.first for part in shares.parts(cluster)) for cluster in range(132)]
    assert max(counts) - min(counts) <= 1 + 2 * LEAST_SHARE
    assert shares.whole == 0 and Shares(132, 500, 64).whole == 2


@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
def test_the_text_shares_out_what_the_scheduler_does(tmp_path: Path) -> None:
    text = (files("legalsat.backends.cute") / "cta.cuh").read_text(encoding="utf-8")
    (found,) = re.findall(r"^struct Shares \{.*?^\};", text, re.MULTILINE | re.DOTALL)
    main = """int main() {
    int clusters, tiles, k_tiles;
    while (scanf("%d %d %d", &clusters, &tiles, &k_tiles) == 3) {
        Shares const shares = Shares::of(clusters, tiles, k_tiles);
        printf("%d %d", shares.whole, shares.cut);
        for (int i = 0; i <= clusters; ++i) printf(" %d", shares.begin(i));
        puts("");
    }
}
"""
    head = "#include <algorithm>\n#include <cstdio>\n#define CUTLASS_DEVICE\nusing std::max; using std::min;\n"
    (tmp_path / "shares.cpp").write_text(head + found + "\n" + main, encoding="utf-8")
    subprocess.run(["g++", "-o", tmp_path / "shares", tmp_path / "shares.cpp"], check=True)
    drawn = drawn_shares()
    asked = "\n".join(f"{one.clusters} {one.tiles} {one.k_tiles}" for one in drawn)
    said = subprocess.run([tmp_path / "shares"], input=asked, capture_output=True, text=True, check=True).stdout
    for one, line in zip(drawn, said.splitlines(), strict=True):
        begins = [one.begin(cluster) for cluster in range(one.clusters + 1)]
        assert [int(word) for word in line.split()] == [one.whole, one.cut, *begins]


@pytest.mark.parametrize("clusters", [2, 7])
@pytest.mark.parametrize(
    ("gemm", "chosen"),
    [
        (ls.Gemm(300, 264, 2112, "bf16"), {"store": "tma"}),
        (ls.Gemm(300, 264, 2112, "bf16"), {"swapped": True, "store": "turned"}),
        (ls.Gemm(300, 333, 2100, "fp16"), {"realign": "none", "store": "rows"}),
        (ls.Gemm(300, 333, 2101, "bf16"), {"realign": "registers", "store": "rows"}),
        (ls.Gemm(333, 300, 2101, "bf16"), {"realign": "registers", "store": "columns", "swapped": True}),
        (product_of(299, 263, 2101, "KM"), {"realign": "tiles"}),
        (product_of(299, 263, 2101, "MK"), {"realign": "woven"}),
        (ls.Gemm(300, 264, 4192, "e4m3", out_dtype="bf16"), {"store": "tma"}),
    ],
    ids=["boxes", "C^T turned", "rows", "shifted", "columns of shifted", "rows of a phase", "woven", "8 bits"],
)
def test_shared_out_k_gives_the_product(gemm: ls.Gemm, chosen: dict[str, object], clusters: int) -> None:
    """Whatever the number of clusters, of which some have parts of one tile, and some of several."""
    listed = (k for k in shared_out(gemm) if all(getattr(k, name) == value for name, value in chosen.items()))
    kernel = min(listed, key=lambda kernel: kernel.tile[0] * kernel.tile[1])
    plan = GemmPlan(gemm, H200, kernel)
    a, b = drawn_numbers(gemm, 1)
    assert (interpret(plan, a, b, clusters=clusters, seed=1) == exact(gemm, a, b)).all()
    assert ls.check_pipeline(plan).proven


def without(body: Body, kind: type) -> Body:
    """Return operations without those of a kind."""
    kept = (replace(op, body=without(op.body, kind)) if hasattr(op, "body") else op for op in body)  # type: ignore[type-var]
    return tuple(op for op in kept if not isinstance(op, kind))


@pytest.mark.parametrize("kind", [GiveSums, AddGiven])
def test_who_gives_nothing_or_adds_nothing_is_found(kind: type) -> None:
    """A tile whose sums nobody gives is waited for in vain; those that nobody adds are left over."""
    gemm = ls.Gemm(300, 264, 2112, "bf16")
    alone = next(k for k in shared_out(gemm) if k.cluster == (1, 1) and k.tile[:2] == (128, 128))
    plan = GemmPlan(gemm, H200, alone)  # of nine tiles
    consumer, *others = plan.program.roles
    broken: KernelProgram = replace(plan.program, roles=(replace(consumer, body=without(consumer.body, kind)), *others))
    a, b = drawn_numbers(gemm, 1)
    with pytest.raises(Stuck if kind is GiveSums else LegalSatError):
        interpret(plan, a, b, clusters=4, program=broken)


def test_a_plan_says_so_and_has_memory_for_what_is_given(tmp_path: Path) -> None:
    kernel = next(shared_out(LONG))
    plan = GemmPlan(LONG, H200, kernel)
    assert "stream-K" in str(kernel) and is_kernel(LONG, kernel, H200)
    assert any(isinstance(op, IfWhole) for op in every(plan.program.roles[0].body))
    made = program(plan, "cute")
    given, flags = made.workspaces
    (launch,) = made.recipes
    ctas = launch.grid[0]
    assert given.bytes == ctas * kernel.tile[0] * kernel.tile[1] * 4
    assert flags.zeroed and flags.bytes == ctas * kernel.warpgroups * 4 * 4
    plan.save(tmp_path / "plan.json")
    assert ls.Plan.load(tmp_path / "plan.json") == plan
    with pytest.raises(LegalSatError, match="ptx has no row for IfWhole"):
        plan.emit("ptx")


def test_short_products_are_not_cut() -> None:
    """What cutting spares, giving sums away takes; so do those of many tiles, of which hardly any are cut."""
    assert not list(shared_out(ls.Gemm(1392, 4664, 1024, "bf16")))
    first = ls.synthesize(ls.Gemm(8192, 8192, 8192, "bf16"), "h200")
    assert not first.kernel.stream_k


def test_launches_reach_every_part_of_the_program() -> None:
    kernel = next(shared_out(LONG))
    reached = {tuple(sorted(one.values.items())) for one in launches(kernel, 2)}
    names = [dict(values) for values in reached]
    assert {values["tile that another CTA stores"] for values in names} == {0, 1}
    assert {values["tiles"] for values in names} >= {0, 1, 2}
