"""Protocols that failed in public reports, replayed: the root cause comes first or second, and the fix has no error.

Real PTX where one block says it all; a program where blocks of a cluster work together, where what goes wrong is which
item is read, or in tensor memory.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from reported_failures import FAILURES

import legalsat as ls
from legalsat.program.pipeline import (
    FIRST,
    Advance,
    Arrive,
    At,
    BarrierRing,
    BufferRing,
    Commit,
    CopyIn,
    Expect,
    Fence,
    Load,
    Loop,
    Operation,
    Pipeline,
    Read,
    Role,
    Start,
    Sync,
    Trips,
    Wait,
    WaitGroup,
    Write,
)
from legalsat.units.tensor_memory import Allocate, Event, Exit, Free, Meet, Program

PTX = Path(__file__).parent / "data" / "reported"
Ops = tuple[Operation, ...]
C = At("c")

# By hand from each entry's root cause: the rules that name it.
TEXTS = {
    "tilelang-3087": {"PIPE007", "PIPE011"},  # a wait for another phase than the barrier's; operands overwritten
    "triton-10035": {"PIPE007"},  # a phase ends twice before a slow warp has seen it
    "deepep-642": {"PIPE027"},  # reads by threads, no proxy fence before the next load
    "flashkda-24": {"PIPE010"},  # writes by threads, no proxy fence before the store
    "fa-1860": {"PIPE021"},  # 32 / 128 arrivals
    "cutlass-2364": {"PIPE001"},  # a barrier that was never initialised
}
DOCUMENTED = {"deepep-642"}  # only documents ask for it, so that it is a warning


def text_of(name: str, *, right: bool) -> str:
    return (PTX / f"{name}{'-right' * right}.ptx").read_text(encoding="utf-8")


def first_codes(subject: Any, target: str) -> list[str]:
    return [d.code for d in ls.explain(subject, target).diagnostics[:2]]


def chip(name: str) -> str:
    return "b200" if name == "tilelang-3087" else "h200"


@pytest.mark.parametrize("name", TEXTS)
def test_the_root_cause_of_a_kernel_comes_first_or_second(name: str) -> None:
    found = ls.explain(text_of(name, right=False), chip(name))
    assert TEXTS[name] & {d.code for d in found.diagnostics[:2]}
    assert found.legal == (name in DOCUMENTED)
    assert all(d.where.startswith("line ") and ": " in d.note for d in found.diagnostics)


@pytest.mark.parametrize("name", TEXTS)
def test_the_kernel_with_its_fix_is_proven(name: str) -> None:
    found = ls.explain(text_of(name, right=True), chip(name))
    assert found.legal and found.diagnostics == ()
    assert found.values[0].startswith("proven")


def test_both_fences_of_a_report_are_missed() -> None:
    found = ls.explain(text_of("flashkda-24", right=False), "h200").diagnostics
    assert [(d.code, d.level) for d in found] == [("PIPE010", "error"), ("PIPE002", "warning")]
    assert "= 0" in found[0].where, "the empty sequence skips the only fence"


def test_a_count_of_arrivals_is_the_reports() -> None:
    params = FAILURES["fa-1860"]["params"]
    arrivals = params["num_consumers"] // params["NumThreadsPerWarpGroup"]
    (found,) = ls.explain(text_of("fa-1860", right=False), "h200").diagnostics
    assert f"expects {arrivals} arrivals" in found.message


def reordered_copy(*, right: bool) -> Pipeline:
    """tilelang-2668: a loop that takes S and then overwrites it; item n of S is what turn n takes."""
    size = FAILURES["tilelang-2668"]["params"]["W"] * 4  # int32
    take: Ops = (Read("S", C),)
    copy: Ops = (CopyIn("S", At("c", 1), size), Commit("cp.async"), WaitGroup("cp.async", 0), Sync("block"))
    turn: Ops = (*take, Sync("block"), *copy) if right else (*copy, *take)
    body: Ops = (Write("S", C), Sync("block"), Loop(Trips("tiles"), (*turn, Advance("c"))))
    return Pipeline((), (BufferRing("S", 1, size),), (Role("warp", 1, body),))


def cancelled_cluster(*, right: bool) -> Pipeline:
    """fbtriton-1024: CTA 0 asks for the next cluster; the 16 bytes of the answer come to the barriers of both CTAs."""
    answer: Ops = (Wait("full", C), Read("response", C), Fence("proxy.async"))
    expects: Ops = (Expect("full", C, 16),)
    asks: Ops = (Wait("empty", C, before=True), *expects, Load("response", C, "full", 16, mask=0b11))
    first: Ops = (*asks, *answer, Arrive("empty", C), Advance("c"))
    peer: Ops = (*(expects if right else ()), *answer, Arrive("empty", C, cta=1), Advance("c"))
    begin: Ops = (Start("full"), Start("empty"), Fence("mbarrier_init"), Sync("cluster"))
    roles = tuple(
        Role(f"scheduler of CTA {cta}", 1, (*begin, Loop(Trips("tiles"), turn), Sync("cluster")), ctas=(cta,))
        for cta, turn in enumerate((first, peer))
    )
    barriers = BarrierRing("full", 1, 1), BarrierRing("empty", 1, 2)
    return Pipeline(barriers, (BufferRing("response", 1, 16),), roles, cluster=2)


def pairs(expected: int, cluster: int) -> Pipeline:
    """tilelang-2644: each CTA loads its 128 x 64 of bf16, and the barrier of its pair's first CTA counts it.

    What counts is where the bytes count, so the peer's tile lies beside that of the first CTA here.
    """
    params = FAILURES["tilelang-2644-cluster4"]["params"]
    size = params["M"] * params["K"] * 2
    begin: Ops = (Start("full"), Fence("mbarrier_init"), Sync("cluster"))
    expects: Ops = (Expect("full", FIRST, expected),)
    takes: Ops = (Wait("full"), Read("A"))
    roles = []
    for rank in range(cluster):
        leads = rank % params["cta_group"] == 0
        load = Load("A", FIRST, "full", size, mask=1 if leads else 1 << cluster - 1)  # to the rank before
        body: Ops = (*begin, *(expects if leads else ()), load, *(takes if leads else ()), Sync("cluster"))
        roles.append(Role(f"loader {rank}", 1, body, ctas=(rank,)))
    return Pipeline((BarrierRing("full", 1, 1),), (BufferRing("A", 1, 2 * size),), tuple(roles), cluster=cluster)


def pair_of_blocks(*events: Event) -> Program:
    """cutlass-3435: tensor memory of a pair of blocks, which have met before, as CUTLASS lets them."""
    return Program((Meet(0), *events, Exit(0), Exit(1)), cluster=2)


CLUSTER4 = FAILURES["tilelang-2644-cluster4"]["params"]
TAKEN = Allocate("sums", 32, 2, 0), Allocate("sums", 32, 2, 1)
FREED = Free("sums", None, 2, 0), Free("sums", None, 2, 1)
# What is replayed as a program: the wrong one, the right one, and the rules that name the cause, by hand.
PROGRAMS: dict[str, tuple[Any, Any, set[str]]] = {
    "tilelang-2668": (reordered_copy(right=False), reordered_copy(right=True), {"PIPE009"}),
    "fbtriton-1024": (cancelled_cluster(right=False), cancelled_cluster(right=True), {"PIPE006"}),
    "tilelang-2644-cluster4": (
        pairs(CLUSTER4["expect_tx_emitted"], 4),
        pairs(CLUSTER4["expect_tx_correct"], 4),
        {"PIPE006"},
    ),
    "cutlass-3435": (
        pair_of_blocks(TAKEN[0], FREED[0], TAKEN[1], FREED[1]),
        pair_of_blocks(*TAKEN, Meet(0), Meet(1), *FREED),
        {"TMEM018"},
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_root_cause_of_a_program_comes_first_or_second(name: str) -> None:
    wrong, right, codes = PROGRAMS[name]
    assert codes & set(first_codes(wrong, "b200"))
    assert not ls.explain(wrong, "b200").legal
    assert FAILURES[name]["verdict_expected"] != "legal"
    control = ls.explain(right, "b200")
    assert control.legal and control.diagnostics == ()


@pytest.mark.parametrize("name", [name for name, (wrong, *_) in PROGRAMS.items() if isinstance(wrong, Pipeline)])
def test_both_checkers_agree_on_a_program(name: str) -> None:
    wrong, right, _ = PROGRAMS[name]
    assert any(said.startswith("goes wrong in some interleaving") for said in ls.explain(wrong, "b200").values)
    first, second = ls.explain(right, "b200").values
    assert first.startswith("proven for all trip counts")
    assert second.startswith("no interleaving")


def test_a_pair_alone_is_right_as_the_report_says() -> None:
    control = CLUSTER4["control"]
    assert ls.explain(pairs(control["expect_tx"], 2), "b200").legal


def test_a_role_runs_in_blocks_of_its_cluster_alone() -> None:
    stray = Role("stray", 1, (Sync("cluster"),), ctas=(2,))
    with pytest.raises(ls.InvalidInput, match="CTA 2; the cluster has 0 to 1"):
        ls.explain(Pipeline((), (), (stray,), cluster=2), "b200")
