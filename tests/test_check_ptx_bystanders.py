"""Warps that wait only to look on: they hang if two phases pass them by, and nobody else does.

Producers of ThunderKittens wait with all warps of a warpgroup, of which one loads, and meet when a tile is done.
"""

from __future__ import annotations

import pytest

from legalsat.extract.check.check_ptx import KernelCheck, check_ptx


def producers(*, each_round: str = "", end: str = "bar.sync 1, 64;", looking: str = "") -> str:
    """Two warps wait for an empty stage round after round, of which the first fills it; a third one reads.

    `each_round`: at its end. `end`: where the two are done. `looking`: what the second does besides.
    """
    return f"""
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n)
.reqntid 96
{{
.reg .pred %p<9>; .reg .b32 %r<20>;
.shared .align 8 .b64 barriers[2];
.shared .align 4 .b32 word;
mov.u32 %r0, %tid.x;
ld.param.u32 %r1, [n];
mov.u32 %r2, barriers;
mov.u32 %r3, word;
setp.ne.u32 %p0, %r0, 0;
@%p0 bra BEGIN;
mbarrier.init.shared::cta.b64 [%r2], 1;
mbarrier.init.shared::cta.b64 [%r2+8], 1;
BEGIN:
bar.sync 0;
mov.u32 %r4, 0;
setp.ge.u32 %p1, %r0, 64;
@%p1 bra READER;
LOAD:
setp.ge.u32 %p2, %r4, %r1;
@%p2 bra DONE;
and.b32 %r5, %r4, 1;
xor.b32 %r5, %r5, 1;
EMPTY: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r2+8], %r5;
@!%p3 bra EMPTY;
@%p0 bra NEXT;
st.shared.b32 [%r3], %r4;
mbarrier.arrive.shared::cta.b64 _, [%r2];
NEXT:
{each_round}
add.u32 %r4, %r4, 1;
bra LOAD;
DONE:
{end}
setp.lt.u32 %p5, %r0, 32;
@%p5 bra END;
{looking}
bra END;
READER:
setp.ge.u32 %p2, %r4, %r1;
@%p2 bra LEAVE;
and.b32 %r5, %r4, 1;
FULL: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r2], %r5;
@!%p3 bra FULL;
ld.shared.b32 %r6, [%r3];
bar.warp.sync 0xffffffff;
setp.ne.u32 %p4, %r0, 64;
@%p4 bra READ;
mbarrier.arrive.shared::cta.b64 _, [%r2+8];
READ:
add.u32 %r4, %r4, 1;
bra READER;
LEAVE:
{end if end == "bar.sync 0;" else ""}
END:
ret;
}}
"""


def only(text: str) -> KernelCheck:
    (found,) = check_ptx(text).kernels
    return found


def test_who_waits_for_several_phases_and_then_meets_some_looks_on() -> None:
    found = only(producers())
    assert found.proven, (found.findings, found.unproven)
    assert {one.kind for one in found.warnings} == {"bystander_overtaken"}
    # With a single round the other one waits for both: so much is a condition.
    (condition,) = found.conditions
    assert (condition.name, condition.least) == ("n", 2) and "can end before this wait" in condition.below


@pytest.mark.parametrize(
    "changes",
    [
        {"each_round": "bar.sync 1, 64;"},  # the first waits for it in each round
        {"end": "bar.sync 0;"},  # all wait for it
        {"looking": "ld.shared.b32 %r6, [%r3];"},  # it reads what it has waited for
        {"looking": "mbarrier.arrive.shared::cta.b64 _, [%r2];"},
    ],
    ids=" ".join,
)
def test_who_does_more_does_not(changes: dict[str, str]) -> None:
    found = only(producers(**changes))
    assert not found.proven
    assert "phase_missed" in {one.kind for one in found.findings}, (found.findings, found.unproven)
