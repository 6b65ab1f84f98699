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
from typing import Any

import pytest
from lying import product_of

import legalsat as ls
from bench.conformance.kernel_launches import launches
from bench.kernels.interpreted import drawn_numbers, exact
from legalsat.backends import program
from legalsat.errors import LegalSatError
from legalsat.extract.kernels.interpreter import Stuck, interpret
from legalsat.extract.kernels.kernel_program import SUMS
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


class Elsewhere(GiveSums):
    """Gives by the place of the cluster behind."""

    def run(self, warps: Any) -> None:
        cta = warps.cta
        cta.launched.given[warps.tile.place + 1, cta.rank, warps.number] = cta.sums[warps.number].copy()


class Hasty(AddGiven):
    """Adds what is there, and waits for nothing."""

    def run(self, warps: Any) -> Iterator[Any]:
        cta = warps.cta
        for place in warps.tile.adds:
            cta.sums[warps.number] += cta.launched.given.get((place, cta.rank, warps.number), 0)
        yield from ()


class Nearest(AddGiven):
    """Adds what the nearest cluster has given, and leaves the others' out."""

    def run(self, warps: Any) -> Iterator[Any]:
        warps.tile = replace(warps.tile, adds=warps.tile.adds[:1])
        yield from super().run(warps)


def having(body: Body, own: GiveSums | AddGiven) -> Body:
    """Return operations with another one in place of that of the kind it is derived of."""
    kind = type(own).__bases__[0]
    kept = (replace(op, body=having(op.body, own)) if hasattr(op, "body") else op for op in body)  # type: ignore[type-var]
    return tuple(own if type(op) is kind else op for op in kept)


def of_one_consumer_alone() -> GemmPlan:
    gemm = ls.Gemm(120, 264, 2112, "bf16")  # of three tiles
    return GemmPlan(gemm, H200, next(k for k in shared_out(gemm) if k.cluster == (1, 1) and k.tile[:2] == (128, 128)))


@pytest.mark.parametrize("own", [Elsewhere(SUMS), Hasty(SUMS), Nearest(SUMS)], ids=lambda own: type(own).__name__)
def test_faults_of_who_gives_and_who_waits_are_found(own: GiveSums | AddGiven) -> None:
    """With clusters that begin in any order: by some of them, if not by each."""
    plan = of_one_consumer_alone()
    consumer, *others = plan.program.roles
    broken: KernelProgram = replace(plan.program, roles=(replace(consumer, body=having(consumer.body, own)), *others))
    a, b = drawn_numbers(plan.operator, 1)
    right = exact(plan.operator, a, b)

    def told(program: KernelProgram, seed: int) -> bool:
        try:
            return bool((interpret(plan, a, b, clusters=8, seed=seed, program=program, together=True) != right).any())
        except LegalSatError:
            return True

    assert not any(told(plan.program, seed) for seed in range(2))
    assert any(told(broken, seed) for seed in range(2))


def test_an_owner_that_is_launched_before_others_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its kernel is stuck where a GPU has no room for those behind, though not where all run at once."""
    plan = of_one_consumer_alone()
    a, b = drawn_numbers(plan.operator, 1)
    parts = Shares.parts
    monkeypatch.setattr(Shares, "parts", lambda self, cluster: parts(self, self.clusters - 1 - cluster))
    assert (interpret(plan, a, b, clusters=4, together=True) == exact(plan.operator, a, b)).all()
    with pytest.raises(Stuck, match="consumer 0 of CTA 0"):
        interpret(plan, a, b, clusters=4)


@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
@pytest.mark.parametrize("extents", [(128, 128), (192, 136), (256, 176)], ids=str)
def test_the_text_gives_each_thread_memory_of_its_own(extents: tuple[int, int], tmp_path: Path) -> None:
    """All places of all CTAs, warps and lanes lie apart, and fill what a launch has for them."""
    kernel = replace(next(shared_out(LONG)), tile=(*extents, 64), warpgroups=extents[0] // 64, cluster=(1, 2))
    clusters, atoms = 5, 1
    text = (files("legalsat.backends.cute") / "stream_k.cuh").read_text(encoding="utf-8")
    found = re.findall(r"^CUTLASS_DEVICE [^\n]*given_(?:sums|flag)\(.*?^\}", text, re.MULTILINE | re.DOTALL)
    head = f"""#include <cstdint>
#include <cstdio>
#define CUTLASS_DEVICE
struct uint4 {{ unsigned x, y, z, w; }};
struct Sizes {{ unsigned long long sums; unsigned *given; }};
struct Cta {{ Sizes sizes; int rank; }};
namespace plan {{ constexpr int warpgroups = {kernel.warpgroups}, summed = {kernel.summed}; }}
constexpr int cluster_ctas = 2, atoms = {atoms}, warpgroup_threads = 128, warp_lanes = 32;
"""
    main = f"""int main() {{
    for (int place = 0; place < {clusters}; ++place) for (int rank = 0; rank < 2; ++rank)
    for (int group = 0; group < plan::warpgroups; ++group) for (int warp = 0; warp < 4; ++warp) {{
        Cta const cta{{{{0, nullptr}}, rank}};
        printf("%llu", (unsigned long long)given_flag(cta, place, group, warp));
        for (int lane = 0; lane < 32; ++lane) for (int four = 0; four < atoms * plan::summed / 8; ++four)
            printf(" %llu", (unsigned long long)(given_sums(cta, place, group, warp, lane) + four * warpgroup_threads));
        puts("");
    }}
}}
"""
    (tmp_path / "given.cpp").write_text(head + "\n".join(found) + "\n" + main, encoding="utf-8")
    subprocess.run(["g++", "-o", tmp_path / "given", tmp_path / "given.cpp"], check=True)
    said = subprocess.run([tmp_path / "given"], capture_output=True, text=True, check=True).stdout
    lines = [[int(word) for word in line.split()] for line in said.splitlines()]
    assert sorted(flag for flag, *_ in lines) == [4 * i for i in range(clusters * 2 * kernel.warpgroups * 4)]
    places = sorted(place for _, *sums in lines for place in sums)
    assert places == list(range(0, clusters * 2 * kernel.given_bytes, 16))


def test_sums_are_released_and_acquired() -> None:
    """What says that they are there is written behind them all, and read in front: else others add what was before."""
    text = (files("legalsat.backends.cute") / "stream_k.cuh").read_text(encoding="utf-8")
    give, add = (text.split(f"void {name}(")[1].split("\n}")[0] for name in ("give_sums", "add_given"))
    written = [give.index(words) for words in ("*to = {", "__syncwarp()", "st.release.gpu.global.u32")]
    read = [add.index(words) for words in ("ld.acquire.gpu.global.u32", "__all_sync", "= *from")]
    assert written == sorted(written) and read == sorted(read)


def test_a_plan_says_so_and_has_memory_for_what_is_given(tmp_path: Path) -> None:
    kernel = next(shared_out(LONG))
    plan = GemmPlan(LONG, H200, kernel)
    assert re.search(r"stream-K +\d+\.\d+ MiB +of a workspace", str(plan))
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


@pytest.mark.parametrize(
    ("gemm", "realign"),
    [(LONG, "none"), (product_of(1392, 4663, 16321, "KM"), "tiles")],
    ids=["boxes", "rows of a phase"],
)
def test_launches_reach_every_part_of_the_program(gemm: ls.Gemm, realign: str) -> None:
    """Those too in which a cluster in front has nothing to do."""
    kernel = next(one for one in shared_out(gemm) if one.realign == realign)
    reached = {tuple(sorted(one.values.items())) for one in launches(kernel, 2)}
    names = [dict(values) for values in reached]
    assert {values["tile that another CTA stores"] for values in names} == {0, 1}
    assert {values["tiles"] for values in names} >= {0, 1, 2}
