"""Rows of A that the warps of a warpgroup store themselves, each its own 16 or others: FlashAttention-3 does so with P.

A has 64 rows of 16 numbers in core matrices of 8 rows, 256 bytes from one eight rows to the next: a thread's 16 bytes
in the order of the threads are rows of its own warp.
"""

from __future__ import annotations

import pytest

from legalsat.extract.check.check_ptx import KernelCheck, check_ptx

OWN, NEXT = "", "add.u32 %r3, %r2, 32; and.b32 %r2, %r3, 127;"
LANES, WARPGROUP = "bar.warp.sync -1;", "bar.sync 0;"
FENCE, WAIT = "fence.proxy.async.shared::cta;", "wgmma.wait_group.sync.aligned 0;"
B_BEHIND = 2048  # bytes of A


def checked(rows: str = OWN, meeting: str = LANES, fence: str = FENCE, wait: str = WAIT) -> KernelCheck:
    """Check rounds of a store to A, a meeting and a multiplication."""
    (found,) = check_ptx(f"""
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n)
.reqntid 128
{{
.reg .pred %p<9>; .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .f32 %f<9>;
.shared .align 128 .b8 memory[{B_BEHIND + 256}];
mov.u32 %r1, memory;
mov.u32 %r2, %tid.x;
setp.lt.u32 %p1, %r2, 16;
shl.b32 %r4, %r2, 4;
add.u32 %r5, %r1, %r4;
mov.b32 %r6, 0;
@%p1 st.shared.v4.b32 [%r5+{B_BEHIND}], {{%r6,%r6,%r6,%r6}};
fence.proxy.async.shared::cta;
bar.sync 0;
{rows}
shl.b32 %r4, %r2, 4;
add.u32 %r5, %r1, %r4;
cvt.u64.u32 %rd1, %r1;
shr.u64 %rd2, %rd1, 4;
or.b64 %rd3, %rd2, {128 >> 4 << 16 | 256 >> 4 << 32};
add.s64 %rd4, %rd3, {B_BEHIND >> 4};
ld.param.u32 %r7, [n];
mov.u32 %r8, 0;
setp.ge.s32 %p2, %r8, %r7;
@%p2 bra END;
mov.b32 %f0, 0; mov.b32 %f1, 0; mov.b32 %f2, 0; mov.b32 %f3, 0;
ROUND:
st.shared.v4.b32 [%r5], {{%r6,%r6,%r6,%r6}};
{fence}
{meeting}
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {{%f0,%f1,%f2,%f3}}, %rd3, %rd4, 1, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned;
{wait}
add.s32 %r8, %r8, 1;
setp.lt.s32 %p3, %r8, %r7;
@%p3 bra ROUND;
wgmma.wait_group.sync.aligned 0;
END:
ret;
}}
""").kernels
    return found


@pytest.mark.parametrize(
    ("rows", "meeting", "warned"), [(OWN, LANES, True), (OWN, WARPGROUP, False), (NEXT, WARPGROUP, False)]
)
def test_warps_multiply_their_own_rows_or_meet(rows: str, meeting: str, warned: bool) -> None:
    found = checked(rows, meeting)
    assert found.proven, (found.findings, found.unproven)
    assert ("rows_not_met" in {one.kind for one in found.warnings}) is warned


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({"rows": NEXT}, "read_before_full"),
        ({"fence": ""}, "write_not_fenced"),
        ({"wait": ""}, "operands_released_early"),
        ({"rows": NEXT, "meeting": WARPGROUP, "wait": ""}, "operands_released_early"),
    ],
)
def test_rows_of_other_warps_fences_and_waits_are_asked_for(changed: dict[str, str], kind: str) -> None:
    assert kind in {one.kind for one in checked(**changed).findings}
