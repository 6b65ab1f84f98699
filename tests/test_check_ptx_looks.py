"""Looks at a phase: one that sees it ended, and one that does not, go on in different ways, and both happen."""

from __future__ import annotations

import pytest

from legalsat.extract.check.check_ptx import KernelCheck, check_ptx

FIRST, SECOND = "[%r1+2048]", "[%r1+2056]"
COPY = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"


def look(barrier: str) -> str:
    return f"mbarrier.try_wait.parity.shared::cta.b64 %p1, {barrier}, 0;"


def checked(*looks: str, last: bool = True) -> KernelCheck:
    """Check a kernel that reads what a copy brings once one of some looks has seen its barrier's phase ended.

    `last`: if none has, it looks until it does.
    """
    wait = f"FIRST:\n{look(FIRST)}\n@!%p1 bra FIRST;" if last else ""
    (found,) = check_ptx(f"""
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 from)
.reqntid 64
{{
.reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %d<3>;
.shared .align 128 .b8 held[2064];
mov.u32 %r0, %tid.x; mov.u32 %r1, held; shl.b32 %r2, %r0, 4; add.u32 %r2, %r2, %r1;
ld.param.u64 %d0, [from]; cvta.to.global.u64 %d1, %d0;
setp.eq.u32 %p0, %r0, 0;
@%p0 mbarrier.init.shared::cta.b64 {FIRST}, 1;
@%p0 mbarrier.init.shared::cta.b64 {SECOND}, 1;
@%p0 fence.mbarrier_init.release.cluster;
bar.sync 0;
@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, {FIRST}, 1024;
@%p0 {COPY} [%r1], [%d1], 1024, {FIRST};
@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, {SECOND}, 1024;
@%p0 {COPY} [%r1+1024], [%d1], 1024, {SECOND};
{"".join(f"{look(one)} @%p1 bra GO;" for one in looks)}
{wait}
GO:
ld.shared.v4.b32 {{%r3, %r4, %r5, %r6}}, [%r2];
SECOND:
{look(SECOND)}
@!%p1 bra SECOND;
ld.shared.v4.b32 {{%r3, %r4, %r5, %r6}}, [%r2+1024];
ret;
}}
""").kernels
    return found


@pytest.mark.parametrize("looks", [(), (FIRST,), (FIRST, FIRST, FIRST)])
def test_who_looks_at_the_barrier_of_what_is_read_is_proven(looks: tuple[str, ...]) -> None:
    found = checked(*looks)
    assert found.proven, (found.findings, found.unproven)


@pytest.mark.parametrize("looks", [(SECOND,), (FIRST, SECOND), (SECOND, FIRST)])
def test_who_has_seen_another_phase_end_has_not_waited(looks: tuple[str, ...]) -> None:
    """However quickly the other copy comes, and whether the first look fails or not."""
    assert "may read before the copy engine's load is done" in str(checked(*looks).findings)


@pytest.mark.parametrize("looks", [(FIRST,), (FIRST, FIRST)])
def test_who_looks_in_vain_and_does_not_wait_has_not_waited(looks: tuple[str, ...]) -> None:
    assert checked(*looks, last=False).findings
