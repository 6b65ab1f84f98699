"""Printed kernels of products against their programs: equal as they are, and told apart when either one is changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import pytest

from bench.conformance.kernel_launches import Launch, launches
from bench.conformance.printed_kernel import PrintedKernel, Recorded
from bench.kernels.conformance import Classes, classes, judged, ptx_of
from bench.kernels.pipeline_mutants import Mutant, mutants
from legalsat.analyses.protocol.pipeline_unroll import Value, unroll
from legalsat.backends.cute.compile import CompilationFailed, headers, nvcc
from legalsat.backends.cute.product import emit
from legalsat.backends.cute.program import program_for
from legalsat.errors import InvalidInput, LegalSatError
from legalsat.operators.gemm import Gemm
from legalsat.program.pipeline import Advance, At, BarrierRing, Fence, Guard, Loop, Pipeline, Role, Trips, UseSums, Wait
from legalsat.targets import target

FIRST = (
    "C by tma, ping-pong, cluster 2x1",
    "C by tma, 2 consumers, overlapped epilogue, cluster 1x2, A realigned in tiles",
    "C by sums, 1 consumer, split 2, A realigned in registers",
    "C by tma, 2 consumers, cluster 1x2, slices of k, A realigned in registers",
    "C by tma, 2 consumers, overlapped epilogue, cluster 2x1, slices of k, B realigned in sums",
)
# Three consumers change the heads of their rows, and meet at a barrier each.
OF_THREE = "C by tma, 3 consumers, overlapped epilogue, A realigned in tiles"
OF_MANY = (
    "C by tma, 1 consumer, overlapped epilogue, cluster 2x2, a batch",
    "C by tma, 2 consumers, overlapped epilogue, A realigned in tiles, a batch",
)
# Warps of one role move several lines each, others one.
OF_LINES = "C by tma, 3 consumers, A and B aligned"
OF_GROUPS = (
    "C by tma, 2 consumers, overlapped epilogue, groups of rows",
    "C by rows, ping-pong, groups of rows",
    "C by tma, 2 consumers, overlapped epilogue, cluster 2x1, groups along k",
)
CLASSES: Classes = classes()


@cache
def printed(name: str, old: str = "", new: str = "") -> PrintedKernel:
    """Return a kernel's text made ready, with something in it replaced."""
    try:
        nvcc()
        headers()
    except CompilationFailed as error:
        pytest.skip(str(error))
    gemm, kernel = CLASSES[name]
    text = emit(gemm, kernel)
    assert old in text
    return PrintedKernel(ptx_of(text.replace(old, new) if old else text), gemm, kernel)


def few(name: str) -> list[Launch]:
    gemm, kernel = CLASSES[name]
    return list(launches(kernel, gemm.dtype.bytes, few=True))


@cache
def recorded(name: str) -> tuple[Recorded, ...]:
    return tuple(printed(name).run(launch) for launch in few(name))


@pytest.mark.parametrize("name", [*FIRST, OF_THREE, *OF_MANY, OF_LINES, *OF_GROUPS])
def test_the_text_does_what_the_program_says(name: str) -> None:
    for one in recorded(name):
        assert not printed(name).differences(one), one.launch
        assert not one.findings
        assert one.events > 100


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("min(cta.sizes.ends[number], extent)", "min(cta.sizes.ends[0], extent)"),
        ("if (lane >= distance) end = max(end, other);", ""),
        ("(end - begin + rows - 1) / rows", "(end - begin) / rows"),
        ("all[number + 1] = {end, tiles}", "all[number + 1] = {end, tiles + 1}"),
    ],
)
def test_tiles_that_are_other_groups_are_told(old: str, new: str) -> None:
    """Where groups end is read from global memory, of which the machine is told, and lies in shared memory then."""
    kernel = printed(OF_GROUPS[0], old, new)
    assert any(kernel.differences(kernel.run(launch)) for launch in few(OF_GROUPS[0]))


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSES)
def test_every_class_does_what_its_program_says_in_all_launches(name: str) -> None:
    found = judged(*CLASSES[name], few=False)
    assert not found["differences"]
    assert found["launches"] > 1


@pytest.mark.parametrize("name", [FIRST[1], "C by sums, 2 consumers, split 6"])
def test_a_kernel_is_launched_with_as_many_k_tiles_as_it_takes(name: str) -> None:
    """With fewer a CTA would wait for a stage that nobody loads, as launches of few k-tiles show that are none."""
    gemm, kernel = CLASSES[name]
    least, depth = max(1 + kernel.overlapped, kernel.split), kernel.tile[2]
    assert Launch(kernel, 2, 1, depth * (least - 1) + 1).legal
    assert not Launch(kernel, 2, 1, depth * (least - 1)).legal
    program_for(Gemm(gemm.m, gemm.n, depth * (least - 1) + 1, gemm.dtype), kernel, target("h200"))
    with pytest.raises(LegalSatError, match=f"{least} stages along k at least"):
        program_for(Gemm(gemm.m, gemm.n, depth * (least - 1), gemm.dtype), kernel, target("h200"))


def test_each_turn_of_the_loop_over_tiles_may_have_its_own_count() -> None:
    turns = Loop(Trips("k-tiles"), (Wait("full", At("n")), Advance("n")))
    late = Guard(Trips("late"), (Fence("proxy.async"),))
    role = Role("reader", 1, (Loop(Trips("tiles"), (late, turns)),))
    program = Pipeline((BarrierRing("full", 2, 1),), (), (role,))
    (course,) = unroll(program, {"tiles": 3, "k-tiles": (2, 0, 1), "late": (1, 1, 0)}).programs
    assert [one.phase if isinstance(one.op, Wait) else "fence" for one in course] == ["fence", 0, 0, "fence", 1]
    with pytest.raises(InvalidInput, match="k-tiles has 2 values; give one for each turn"):
        unroll(program, {"tiles": 3, "k-tiles": (2, 0), "late": 0})
    with pytest.raises(InvalidInput, match=r"late is \(0, -1\); give a whole number"):
        unroll(program, {"tiles": 2, "k-tiles": 1, "late": (0, -1)})


# Programs with a fault.


def straight(pipeline: Pipeline, values: dict[str, Value]) -> list[list[tuple[object, ...]]]:
    """Return what all roles do but uses of accumulators, with items as stages: a fault may change nothing of it."""
    found = unroll(pipeline, values)
    names = ("bytes", "count", "arrives", "family", "pending", "read", "kind", "more", "name", "waits")
    return [
        [
            (type(i.op), [getattr(i.op, name, 0) for name in names], i.barriers, i.phase % 2, i.need, i.fault,
             [(found.cells[a.cell], a.writes) for a in i.accesses])
            for i in program
            if not isinstance(i.op, UseSums)
        ]
        for program in found.programs
    ]  # fmt: skip


def unseen(kernel: PrintedKernel, runs: Sequence[Recorded], mutant: Mutant) -> str:
    """Return a mutant in words if it does something else than the text, and is not told apart."""
    other = False
    for one in runs:
        try:
            if kernel.differences(one, mutant.pipeline):
                return ""
            values = one.launch.values
            other |= straight(mutant.pipeline, values) != straight(kernel.program, values)
        except (InvalidInput, KeyError):
            return ""  # it names what is not there
    return f"{mutant.kind}, {mutant.where}" if other else ""


@pytest.mark.parametrize("name", FIRST[:1])
def test_faults_in_a_program_are_told(name: str) -> None:
    chosen = list(mutants(printed(name).program))[::12]
    assert len(chosen) > 30
    assert not [found for mutant in chosen if (found := unseen(printed(name), recorded(name), mutant))]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*FIRST, OF_LINES])
def test_all_faults_in_programs_are_told(name: str) -> None:
    kernel, runs = printed(name), recorded(name)
    assert not [found for mutant in mutants(kernel.program) if (found := unseen(kernel, runs, mutant))]


def test_a_difference_says_who_where_and_what() -> None:
    name = FIRST[0]
    mutant = next(one for one in mutants(printed(name).program) if one.kind == "wait a stage late")
    found = printed(name).differences(recorded(name)[2], mutant.pipeline)
    assert "consumer 0 of CTA 0, warp 0, step 6: the program says wait full[1] parity 0, the text does wait" in found[0]
    assert "full[0] parity 0 (line " in found[0]


# Texts with a fault.


@dataclass(frozen=True)
class Fault:
    """What is replaced in the text of one of the kernels above, and words of the difference that is told."""

    kernel: int
    old: str
    new: str
    words: str


MEET, FENCE = "            __syncwarp();\n", "            cute::tma_store_fence();\n"
WAIT, RELEASE = (
    "            cute::warpgroup_wait<1>();\n",
    "            release(cta, cta.empty, multiplied.before, lane);\n",
)
GROUPS, TURN = "if (lane == 0) cute::tma_store_wait<1>();\n", "cutlass::arch::NamedBarrier::arrive(256, 2 - group);\n"
BOX, AT = "int const box = cta.rank_m * share + i;\n", "        int const part = plan::b_parts"
DONE, ARRIVES, WAITS = (
    "write_c<0, 0>(cta, held, accumulators, group, warp, lane);\n        __syncwarp();\n",
    "        cute::cluster_arrive();\n",
    "        cute::cluster_wait();\n",
)
BYTES, FREE = "cta.full + loaded.stage, 32768", "loaded.parity ^ 1);\n                ClusterTransaction"
MASK, HEADS = "mask |= 1 << (i + cta.rank_n * plan::cluster_m)", "tile.shift, group, thread);\n"
ARRIVAL = "ClusterBarrier::arrive(empty + stage, m + n * plan::cluster_m, 1);"
BUFFER = "((group * 4 + warp) * plan::buffers + buffer)"
TEXTS = {
    "no arrival": Fault(0, ARRIVAL, "", "says arrive"),
    "no fence of a store": Fault(0, FENCE, "", "says fence proxy.async"),
    "another mask": Fault(0, MASK, "mask |= 1 << cta.rank_m", "for CTA 0, 1"),
    "a group more under way": Fault(0, WAIT, WAIT.replace("1", "2"), "wait group wgmma (1)"),
    "bytes that nobody brings": Fault(0, BYTES, f"{BYTES} + 16", "expect full[0] (32784)"),
    "the wrong parity": Fault(0, FREE, FREE.replace(" ^ 1", ""), "empty[0] parity 1"),
    "released too early": Fault(0, WAIT + RELEASE, RELEASE + WAIT, "the text does arrive"),
    "shares in one place": Fault(0, BOX + AT, "int const box = i;\n" + AT, "loads of k-tile 0"),
    "no turn given": Fault(0, f"        {TURN}        multiplied", "        multiplied", "arrive barrier 10"),
    "lanes that do not wait": Fault(0, GROUPS + MEET, GROUPS, "follows a wait by one lane"),
    "a store for lanes that are not done": Fault(0, FENCE + MEET, FENCE, "speaks for lanes"),
    "another lane's groups": Fault(
        0, "if (lane == 0) cute::tma_store_wait<0>", "if (lane == 1) cute::tma_store_wait<0>", "not by the one"
    ),
    "a buffer too early": Fault(0, GROUPS, GROUPS.replace("1", "2"), "bulk.read (1)"),
    "few arrivals wanted": Fault(0, "init(cta.empty + i, 8)", "init(cta.empty + i, 4)", "empty[0] (8)"),
    "other registers": Fault(0, "warpgroup_reg_alloc<232>", "warpgroup_reg_alloc<224>", "registers inc"),
    "C through one buffer": Fault(0, BUFFER, BUFFER.replace(" + buffer", ""), "write C0[1]"),
    "A of another stage": Fault(
        0, "(plan::a_word, stage +", "(plan::a_word, shared_address(cta.memory) +", "says multiply A[1]"
    ),
    "no mending": Fault(1, "if (tile.shift)", "if (false)", "says fence proxy.async"),
    "no fence behind mending": Fault(1, HEADS + FENCE, HEADS, "says fence proxy.async"),
    "the end of rows kept": Fault(2, "release(cta, cta.empty, multiplied.stage, lane);", "", "says arrive"),
    "accumulators of others not waited for": Fault(2, DONE + ARRIVES + WAITS, DONE + ARRIVES, "cluster wait"),
    "accumulators of one CTA alone": Fault(
        2, "cute::set_block_rank(address, rank)", "cute::set_block_rank(address, 0)", "no warp does C[0]"
    ),
}
TEXTS |= {
    "rows of B that are others": Fault(0, "tile.n + block * plan::b_box_rows,", "tile.n + 8,", "alone has B by map"),
    "the next k-tile": Fault(
        1, "(tile.first_k + k_tile) * plan::tile_k - tile.shift", "k_tile * 8", "alone has B by map"
    ),
}
QUICK = (
    "rows of B that are others",
    "no arrival",
    "no fence of a store",
    "shares in one place",
    "lanes that do not wait",
)


def told(fault: str) -> None:
    one, found = TEXTS[fault], list[str]()
    kernel = printed(FIRST[one.kernel], one.old, one.new)
    for launch in few(FIRST[one.kernel]):
        found += kernel.differences(kernel.run(launch))
    assert any(one.words in said for said in found), found[:5]


@pytest.mark.parametrize("fault", QUICK)
def test_faults_in_a_text_are_told(fault: str) -> None:
    told(fault)


@pytest.mark.slow
@pytest.mark.parametrize("fault", [fault for fault in TEXTS if fault not in QUICK])
def test_further_faults_in_texts_are_told(fault: str) -> None:
    told(fault)
