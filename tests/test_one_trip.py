"""Faults of exactly one trip of a loop: with none and with two or more everything is right."""

from __future__ import annotations

import pytest

import legalsat as ls
from legalsat.extract.check.check_ptx import check_ptx
from legalsat.program.pipeline import (
    Advance,
    Arrive,
    At,
    BarrierRing,
    BufferRing,
    Expect,
    Fence,
    Guard,
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
)

K = Trips("K")
C, E = At("c"), At("e")


def kernel(trip: str, epilogue: str) -> str:
    """Return a kernel of n trips, and what follows them."""
    return f"""
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n)
.reqntid 64
{{
.reg .pred %p<9>; .reg .b32 %r<9>;
.shared .align 8 .b64 barrier;
ld.param.u32 %r0, [n];
mov.u32 %r2, %tid.x;
setp.eq.u32 %p0, %r2, 0;
@%p0 mbarrier.init.shared::cta.b64 [barrier], 1;
bar.sync 0;
mov.u32 %r1, 0;
L:
setp.ge.s32 %p1, %r1, %r0;
@%p1 bra DONE;
{trip}
add.u32 %r1, %r1, 1;
bra L;
DONE:
{epilogue}
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [barrier], %r4;
@!%p2 bra WAIT;
END:
ret;
}}
"""


SECOND = "setp.eq.u32 %p3, %r1, 1; and.pred %p3, %p3, %p0; @%p3 mbarrier.arrive.shared::cta.b64 _, [barrier];"
EACH = """
@%p0 mbarrier.arrive.shared::cta.b64 _, [barrier];
and.b32 %r4, %r1, 1;
W:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [barrier], %r4;
@!%p2 bra W;
bar.sync 0;
"""
# What a trip does, what follows, and what does so rightly.
KERNELS = {
    "only the second trip arrives": (
        SECOND,
        "mov.u32 %r4, 0; setp.le.s32 %p4, %r0, 0; @%p4 bra END;",
        "mov.u32 %r4, 0; setp.le.s32 %p4, %r0, 1; @%p4 bra END;",
    ),
    "a phase of a second trip is waited for": (
        EACH,
        "setp.le.s32 %p4, %r0, 0; @%p4 bra END; sub.u32 %r4, %r0, 1; max.u32 %r4, %r4, 1; and.b32 %r4, %r4, 1;",
        "setp.le.s32 %p4, %r0, 0; @%p4 bra END; sub.u32 %r4, %r0, 1; and.b32 %r4, %r4, 1;",
    ),
}


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_that_hangs_with_one_trip_is_found_with_that_number(name: str) -> None:
    trip, wrong, right = KERNELS[name]
    found = check_ptx(kernel(trip, wrong))
    assert [(one.kind, one.launch) for one in found.findings] == [("arrivals_missing", "n = 1")]
    assert found.kernels[0].reached[0]
    for count in (0, 2, 3, 5):
        # With no trip nothing is wrong either, but too little is reached for a proof.
        assert not (told := check_ptx(kernel(trip, wrong), parameters={"n": count})).findings
        assert told.proven or not count
    assert check_ptx(kernel(trip, right)).proven


def handshake(*, right: bool) -> Pipeline:
    """From the second trip on one role arrives, and the other waits as often; or once at least, however many trips."""
    arrives = (Arrive("b", E), Wait("back", E), Advance("e"))
    waits = (Wait("b", C), Arrive("back", C), Advance("c"))
    begin: tuple[Operation, ...] = (Start("b"), Start("back"), Sync("block"))
    giver = Role("giver", 1, (*begin, Loop(K, (Guard(Trips("", 1), arrives, cursor="t"), Advance("t")))))
    taker = Role("taker", 1, (Sync("block"), Guard(Trips("K", -right), waits), Loop(Trips("K", -2), waits)))
    return Pipeline((BarrierRing("b", 1, 1), BarrierRing("back", 1, 1)), (), (giver, taker))


def last_two(*, right: bool) -> Pipeline:
    """After K loads into two stages the last two are read: also when there was one alone."""
    size = 1024
    turn = (Wait("empty", C, before=True), Expect("full", C, size), Load("A", C, "full", size), Advance("c"))
    begin: tuple[Operation, ...] = (Start("full"), Start("empty"), Fence("mbarrier_init"), Sync("block"))
    loader = Role("loader", 1, (*begin, Loop(K, turn)))
    frees = (Wait("full", C), Arrive("empty", C), Advance("c"))
    reads = (Wait("full", C), Read("A", C), Advance("c"))
    # All but the last two are only waited for.
    others = Loop(Trips("K", -2), frees)
    end = (Guard(Trips("K", -1), reads), Guard(K, reads))
    wrong = (Guard(K, (*reads, *reads)),)
    reader = Role("reader", 1, (Sync("block"), others, *(end if right else wrong)))
    return Pipeline(
        (BarrierRing("full", 2, 1), BarrierRing("empty", 2, 1)), (BufferRing("A", 2, size),), (loader, reader)
    )


@pytest.mark.parametrize("program", [handshake, last_two])
def test_a_program_that_hangs_with_one_trip_is_found(program: object) -> None:
    assert callable(program)
    found = ls.explain(program(right=False), "h200")
    errors = [one for one in found.diagnostics if one.level == "error"]
    assert [one.code for one in errors] == ["PIPE018"] and "K = 1" in str(errors[0]), errors
    assert any("K = 1" in one and one.startswith("goes wrong in some interleaving") for one in found.values), (
        found.values
    )
    assert ls.explain(program(right=True), "h200").legal
