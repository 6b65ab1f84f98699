"""Clusters in the PTX check: multicast, remote arrivals, the cluster's barrier, pairs of CTAs; and faults in each."""

from __future__ import annotations

import pytest

from legalsat.analyses.ptx_machine.memory import MOST_RANKS, NOWHERE, SHARED_BASE, SHARED_BYTES, in_words, place_of
from legalsat.errors import InvalidInput
from legalsat.extract.check import ptx_least
from legalsat.extract.check.check_ptx import PtxCheck, check_ptx
from legalsat.extract.check.check_words import assumptions_of

MULTICAST = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
BOX, STAGES = 1024, 2


def ring(ranks: int, **changes: str) -> str:
    """Return a kernel in which each CTA loads its share of a stage for all, and all say when they have read it.

    A stage is `ranks` boxes; the first warp loads, the second reads. `changes` replaces lines, by name.
    """
    lines = {
        "init_full": "@%p0 mbarrier.init.shared::cta.b64 [%r10], 1;\n@%p0 mbarrier.init.shared::cta.b64 [%r10+8], 1;",
        "init_empty": f"@%p0 mbarrier.init.shared::cta.b64 [%r10+16], {ranks};\n"
        f"@%p0 mbarrier.init.shared::cta.b64 [%r10+24], {ranks};",
        "fence": "@%p0 fence.mbarrier_init.release.cluster;",
        "begin": "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;",
        "expect": f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r15], {ranks * BOX};",
        "load": f"{MULTICAST} [%r17], [map, {{%r20, %r20}}], [%r15], {(1 << ranks) - 1:#x};",
        "wait_full": "mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r15], %r14;",
        "read": "\n".join(f"ld.shared.b32 %r21, [%r18+{rank * BOX}];" for rank in range(ranks)),
        "arrive": "mapa.shared::cluster.u32 %r24, %r16, %r23;\n"
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r24];",
        "drain": "",
        "end": "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;",
        "cluster": f".reqnctapercluster {ranks}",
        **changes,
    }
    return f"""
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u32 n)
.explicitcluster
{lines["cluster"]}
.reqntid 64
{{
.reg .pred %p<9>; .reg .b32 %r<40>; .reg .b64 %d<4>;
.shared .align 128 .b8 memory[{STAGES * ranks * BOX}];
.shared .align 8 .b64 barriers[4];
mov.u32 %r0, %tid.x;
mov.u32 %r1, %cluster_ctarank;
ld.param.u32 %r2, [n];
mov.u32 %r10, barriers;
mov.u32 %r11, memory;
mov.u32 %r20, 0;
setp.eq.u32 %p0, %r0, 0;
{lines["init_full"]}
{lines["init_empty"]}
{lines["fence"]}
bar.sync 0;
{lines["begin"]}
mov.u32 %r12, 0;
setp.ge.u32 %p1, %r0, 32;
@%p1 bra CONSUMER;
setp.ne.u32 %p2, %r0, 0;
@%p2 bra END;
PRODUCER:
setp.ge.u32 %p3, %r12, %r2;
@%p3 bra DRAIN;
and.b32 %r13, %r12, 1;
shr.u32 %r14, %r12, 1;
and.b32 %r14, %r14, 1;
xor.b32 %r14, %r14, 1;
shl.b32 %r15, %r13, 3;
add.u32 %r15, %r10, %r15;
PWAIT:
mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r15+16], %r14;
@!%p4 bra PWAIT;
{lines["expect"]}
mul.lo.u32 %r17, %r13, {ranks * BOX};
mad.lo.u32 %r17, %r1, {BOX}, %r17;
add.u32 %r17, %r17, %r11;
{lines["load"]}
add.u32 %r12, %r12, 1;
bra PRODUCER;
DRAIN:
{lines["drain"]}
bra END;
CONSUMER:
setp.ge.u32 %p3, %r12, %r2;
@%p3 bra END;
and.b32 %r13, %r12, 1;
shr.u32 %r14, %r12, 1;
and.b32 %r14, %r14, 1;
shl.b32 %r15, %r13, 3;
add.u32 %r15, %r10, %r15;
add.u32 %r16, %r15, 16;
CWAIT:
{lines["wait_full"]}
@!%p5 bra CWAIT;
mul.lo.u32 %r18, %r13, {ranks * BOX};
add.u32 %r18, %r18, %r11;
sub.u32 %r19, %r0, 32;
shl.b32 %r22, %r19, 2;
add.u32 %r18, %r18, %r22;
{lines["read"]}
bar.warp.sync 0xffffffff;
mov.u32 %r23, 0;
setp.eq.u32 %p6, %r19, 0;
@!%p6 bra NEXT;
EACH:
{lines["arrive"]}
add.u32 %r23, %r23, 1;
setp.lt.u32 %p7, %r23, {ranks};
@%p7 bra EACH;
NEXT:
bar.warp.sync 0xffffffff;
add.u32 %r12, %r12, 1;
bra CONSUMER;
END:
bar.warp.sync 0xffffffff;
{lines["end"]}
ret;
}}
"""


def check(text: str) -> PtxCheck:
    return check_ptx(text, box_bytes={"map": BOX})


def needs(least: int, ranks: int) -> str:
    """A ring whose reader runs at least once, but whose loader leaves for less than so many rounds."""
    begin = "setp.ne.u32 %p2, %r0, 0;"
    text = ring(ranks).replace(begin, f"{begin}\nsetp.lt.or.u32 %p2, %r2, {least}, %p2;")
    return text.replace("CONSUMER:\n", "CONSUMER:\nmax.u32 %r2, %r2, 1;\n")


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("least", [1, 3, 5])
def test_few_rounds_that_are_too_few_for_all_of_a_cluster_are_a_condition(least: int, ranks: int) -> None:
    (found,) = check(needs(least, ranks)).kernels
    assert found.proven, (found.findings, found.unproven)
    assert [(one.name, one.least, one.multiple) for one in found.conditions] == [("n", least, 1)]
    whole = least + STAGES * 2  # of the ring with both parities
    assert set(range(least, whole)) <= set(found.parameters["n"])


def test_launches_that_take_too_long_do_not_tell_that_each_cta_needs_as_many_rounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Eight rounds are tried, and right; eighteen, which would show that no multiple of eight is asked for, are not."""
    monkeypatch.setattr(ptx_least, "_PROBE_WORK", 2000)
    (found,) = check(needs(3, 4)).kernels
    assert found.proven, (found.findings, found.unproven)
    assert [(one.name, one.least, one.multiple) for one in found.conditions] == [("n", 3, 1)]


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_a_ring_whose_stages_a_cluster_shares_is_proven(ranks: int) -> None:
    found = check(ring(ranks))
    assert found.proven, (found.findings, found.unproven)


# A fault of the cluster protocol, and how the check must name it. Each is a real way to hang or to read wrong data.
FAULTS = {
    "nobody waits for the other CTA to begin": ({"begin": ""}, {"barrier_not_initialised"}),
    "a CTA may end before others arrive": ({"end": ""}, {"remote_block_gone"}),
    "an arrival less": (
        {"arrive": "mbarrier.arrive.shared::cta.b64 _, [%r16];\nmov.u32 %r23, 2;"},
        {"arrivals_missing"},
    ),
    "only the own CTA's empty barrier": (
        {
            "init_empty": "@%p0 mbarrier.init.shared::cta.b64 [%r10+16], 1;\n"
            "@%p0 mbarrier.init.shared::cta.b64 [%r10+24], 1;",
            "arrive": "mbarrier.arrive.shared::cta.b64 _, [%r16];\nmov.u32 %r23, 2;",
        },
        {"arrivals_in_excess", "stage_overwritten", "phase_missed"},
    ),
    "always the first CTA's barrier": ({"arrive": ring(2).split("EACH:\n")[1].split("\nadd")[0].replace("%r23", "0")},
                                       {"arrivals_missing", "arrivals_in_excess"}),
    "a mask without the other CTA": (
        {"load": f"{MULTICAST} [%r17], [map, {{%r20, %r20}}], [%r15], 0x1;"}, {"bytes_differ", "read_before_full"}
    ),
    "a mask beyond the cluster": (
        {"load": f"{MULTICAST} [%r17], [map, {{%r20, %r20}}], [%r15], 0x7;"}, {"multicast_outside_cluster"}
    ),
    "the bytes of the own load alone": (
        {"expect": f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r15], {BOX};"},
        {"bytes_differ", "phase_missed", "arrivals_in_excess", "stage_overwritten"},
    ),
    "nobody waits for the load": ({"wait_full": "setp.eq.u32 %p5, 0, 0;"}, {"read_before_full"}),
    "an init that neither a fence nor the cluster's barrier releases": (
        {"fence": "", "begin": "barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;"},
        {"barrier_not_initialised"},
    ),
    "a wait for the cluster alone": (
        {"end": "barrier.cluster.wait.aligned;"},
        {"roles_disagree", "remote_block_gone"},
    ),
}  # fmt: skip


def test_a_fence_after_the_init_lets_the_cluster_meet_relaxed() -> None:
    meeting = "barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;"
    assert check(ring(2, begin=meeting)).proven
    assert check(ring(2, fence="")).proven  # the cluster's barrier releases the init


def test_an_arrival_that_releases_nothing_is_not_followed() -> None:
    arrive = ring(2).split("EACH:\n")[1].split("\nadd")[0].replace("release", "relaxed")
    (reason,) = {u.reason for u in check(ring(2, arrive=arrive)).unproven if "relaxed" in u.reason}
    assert reason.endswith("is not followed")


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_the_cluster_protocol_are_found(fault: str) -> None:
    changes, expected = FAULTS[fault]
    text = ring(2, **changes)
    assert text != ring(2)
    found = check(text)
    assert not found.proven
    late = any("may end before this arrival" in one.reason for one in found.unproven)
    kinds = {f.kind for f in found.findings} | ({"remote_block_gone"} if late else set())
    assert kinds & expected, [(f.kind, f.message) for f in found.findings]


def test_a_cluster_whose_size_the_launch_decides_is_tried_and_stated() -> None:
    text = ring(2, cluster="")
    (found,) = check(text).kernels
    assert found.proven and found.cluster == (2, 1, 1)
    assert "clusters have 2 x 1 x 1 CTAs, which the text does not say" in assumptions_of(found)
    (wrong,) = check(ring(2, cluster="", begin="")).kernels
    (reason,) = [one.reason for one in wrong.unproven]
    assert not wrong.proven and not wrong.findings  # another launch may be right
    assert "in one of 2 x 1 x 1 CTAs" in reason and "at line" in reason


def test_what_a_text_does_in_the_cluster_it_asks_for_is_not_proven_by_another_one() -> None:
    """A kernel for clusters of four, which takes another way in smaller ones: only the launch says which is meant."""
    asks = """
mov.u32 %r30, %cluster_nctaid.x; setp.ne.u32 %p7, %r30, 4; @%p7 bra SMALL;
bar.sync 1;
SMALL:
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;"""
    text = ring(2, cluster="", begin=asks)
    (found,) = check(text).kernels
    (open_,) = found.unproven
    assert not found.proven and found.cluster == (2, 1, 1) and found.unreached == (open_.line,)
    assert "1 of " in open_.reason and "in clusters of 2 x 1 x 1 CTAs" in open_.reason, open_.reason
    assert "the text asks for 4 x 1 x 1" in open_.reason
    (given,) = check_ptx(text, parameters={"%cluster_nctaid.x": 2}, box_bytes={"map": BOX}).kernels
    assert given.proven and given.cluster is None and given.unreached  # the launch is said, and never comes there
    with pytest.raises(InvalidInput, match="a cluster of 64 x 1 x 1 CTAs"):
        check_ptx(text, parameters={"%cluster_nctaid.x": 64})
    with pytest.raises(InvalidInput, match="the text fixes its clusters"):
        check_ptx(ring(2), parameters={"%cluster_nctaid.x": 4})


def test_a_drained_producer_needs_no_meeting_at_the_end() -> None:
    """The producer waits until all have said that they have read what it has sent, as CUTLASS's producer_tail does."""
    waits = "".join(
        f"""
and.b32 %r13, %r12, 1; shr.u32 %r14, %r12, 1; and.b32 %r14, %r14, 1; xor.b32 %r14, %r14, 1;
shl.b32 %r15, %r13, 3; add.u32 %r15, %r10, %r15;
TAIL{n}: mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r15+16], %r14;
@!%p4 bra TAIL{n};
add.u32 %r12, %r12, 1;"""
        for n in range(STAGES)
    )
    assert check(ring(2, drain=waits, end="")).proven


def test_addresses_of_a_cluster_are_places_of_its_memories() -> None:
    assert place_of(SHARED_BASE) == SHARED_BASE
    assert place_of((3 << 24) + 5000) == 3 * SHARED_BYTES + 5000
    assert place_of(SHARED_BYTES) == NOWHERE + SHARED_BYTES
    assert place_of(MOST_RANKS << 24) > NOWHERE
    assert in_words(3 * SHARED_BYTES + SHARED_BASE + 8) == "8 of CTA 3"


LEAVING = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k()
.explicitcluster
.reqnctapercluster 2
.reqntid 64
{
.reg .pred %p<9>; .reg .b32 %r<9>;
.shared .align 8 .b64 barriers[1];
mov.u32 %r0, %tid.x;
mov.u32 %r1, %cluster_ctarank;
mov.u32 %r2, barriers;
setp.eq.u32 %p0, %r0, 0;
INIT
barrier.cluster.arrive.aligned;
setp.ge.u32 %p1, %r0, 32;
@%p1 bra END;
and.b32 %r3, %r0, 31;
setp.ne.u32 %p2, %r3, 0;
@%p2 bra END;
barrier.cluster.wait;
mapa.shared::cluster.u32 %r4, %r2, 0;
mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4];
setp.ne.u32 %p3, %r1, 0;
@%p3 bra END;
AGAIN:
mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r2], 0;
@!%p4 bra AGAIN;
END:
ret;
}
"""


def test_who_ends_after_its_arrival_at_the_clusters_barrier_is_counted_once() -> None:
    """One thread of each CTA waits for the cluster; the others have ended, some before the other CTA begins."""
    init = "@%p0 mbarrier.init.shared::cta.b64 [%r2], 2;\n@%p0 fence.mbarrier_init.release.cluster;"
    found = check_ptx(LEAVING.replace("INIT", init))
    assert found.proven, (found.findings, found.unproven)
    assert not check_ptx(LEAVING.replace("INIT", "")).proven
    one_less = check_ptx(LEAVING.replace("INIT", init.replace(", 2;", ", 3;")))
    assert {f.kind for f in one_less.findings} == {"arrivals_missing"}
    unmet = LEAVING.replace("barrier.cluster.arrive.aligned;\n", "").replace("barrier.cluster.wait;\n", "")
    assert not check_ptx(unmet.replace("INIT", init)).proven  # the other CTA may arrive before the init


def freed_at_the_end(meet: str = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;",
                     wait: str = "tcgen05.wait::ld.sync.aligned;") -> str:  # fmt: skip
    """Return a kernel whose second warp reads tensor memory and ends; the first one frees it, after the cluster met."""
    return f"""
.version 8.7
.target sm_100a
.address_size 64
.visible .entry k()
.explicitcluster
.reqnctapercluster 2
.reqntid 64
{{
.reg .pred %p<9>; .reg .b32 %r<9>;
.shared .align 8 .b32 place[1];
mov.u32 %r0, %tid.x;
mov.u32 %r2, place;
setp.lt.u32 %p0, %r0, 32;
@!%p0 bra LOOK;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2], 32;
tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
LOOK:
tcgen05.fence::before_thread_sync;
bar.sync 0;
tcgen05.fence::after_thread_sync;
ld.shared.b32 %r3, [%r2];
@!%p0 bra READ;
tcgen05.st.sync.aligned.32x32b.x1.b32 [%r3], {{%r0}};
tcgen05.wait::st.sync.aligned;
bra STORED;
READ:
STORED:
tcgen05.st.sync.aligned.32x32b.x1.b32 [%r3], {{%r0}};
tcgen05.wait::st.sync.aligned;
tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r4}}, [%r3];
{wait}
@%p0 bra FREE;
ret;
FREE:
{meet}
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 32;
ret;
}}
"""


def test_who_has_ended_has_done_what_it_waited_for_when_the_cluster_has_met() -> None:
    """So tensor memory may be freed; what it has not waited for may still be under way."""
    found = check_ptx(freed_at_the_end())
    assert found.proven and {f.kind for f in found.warnings} == {"tensor_memory_not_fenced"}
    for text in (freed_at_the_end(meet=""), freed_at_the_end(wait="")):
        assert "tensor_memory_misused" in {f.kind for f in check_ptx(text).findings}
