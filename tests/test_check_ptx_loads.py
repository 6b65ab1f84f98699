"""Loads whose order is right and whose places are not: who waits for them reads what is older."""

from __future__ import annotations

import pytest

from legalsat.extract.check.check_ptx import KernelCheck, check_ptx

LOAD = "@%p0 cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r7], [m, {0, %r2}], [full];"
EXPECT = "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 2048;"
WRITE_BACK = """
st.shared.v4.b32 [%r5], {%r10, %r11, %r12, %r13};
fence.proxy.async.shared::cta;
"""


READ = "ld.shared.v4.b32 {%r10, %r11, %r12, %r13}, [%r5];"


def check(
    *, later: int = 0, after: str = "", brings: str = LOAD, expects: str = EXPECT, reads: str = READ
) -> KernelCheck:
    """Check a kernel that loads a box for each of n tiles, all but the first so many bytes on, and reads each."""
    (found,) = check_ptx(f"""
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 m[128], .param .u32 n)
.reqntid 128
{{
.reg .pred %p<9>; .reg .b32 %r<20>;
.shared .align 1024 .b8 stage[8192];
.shared .align 8 .b64 full;
ld.param.u32 %r1, [n];
mov.u32 %r0, %tid.x;
setp.eq.u32 %p0, %r0, 0;
mov.u32 %r4, stage;
shl.b32 %r5, %r0, 4;
add.u32 %r5, %r5, %r4;
@%p0 mbarrier.init.shared::cta.b64 [full], 1;
@%p0 fence.mbarrier_init.release.cluster;
bar.sync 0;
mov.u32 %r2, 0;
mov.u32 %r3, 0;
L:
setp.ge.s32 %p1, %r2, %r1;
@%p1 bra D;
setp.eq.u32 %p3, %r2, 0;
selp.b32 %r6, 0, {later}, %p3;
add.u32 %r7, %r4, %r6;
{expects}
{brings}
W:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], %r3;
@!%p2 bra W;
{reads}
{after}
fence.proxy.async.shared::cta;
bar.sync 0;
xor.b32 %r3, %r3, 1;
add.u32 %r2, %r2, 1;
bra L;
D:
ret;
}}
""").kernels
    return found


@pytest.mark.parametrize("after", ["", WRITE_BACK])
def test_what_each_load_brings_is_read(after: str) -> None:
    found = check(after=after)
    assert found.proven
    assert found.boxes == {"m": 2048}


@pytest.mark.parametrize("at", ["0", "%r16"])
@pytest.mark.parametrize(("half", "right"), [("%r5", True), ("%r14", False)])
def test_all_that_a_load_brings_is_read_each_time(at: str, half: str, right: bool) -> None:
    """In the first round, or the last, lanes of the upper half of each warp read what those of the lower one do."""
    reads = f"""and.b32 %r14, %r5, -257;
sub.u32 %r16, %r1, 1;
setp.eq.u32 %p5, %r2, {at};
selp.b32 %r15, {half}, %r5, %p5;
ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r10, %r11, %r12, %r13}}, [%r15];"""
    found = check(reads=reads)
    assert not found.findings and found.proven is right, (found.findings, found.unproven)
    reason = "nobody reads some of what this " + ("writes before" if at == "0" else "brings last")
    assert right or any(reason in one.reason for one in found.unproven)


@pytest.mark.parametrize("after", ["", WRITE_BACK])
@pytest.mark.parametrize(
    ("later", "reason"), [(128, "lie in each other, 128 bytes apart"), (4096, "nobody reads what this brings")]
)
def test_a_load_at_another_place_in_later_rounds_is_not_proven(later: int, reason: str, after: str) -> None:
    found = check(later=later, after=after)
    assert not found.proven
    assert any(reason in one.reason for one in found.unproven)


def test_a_phase_that_brings_nothing_new_is_not_proven() -> None:
    arrives = "@%p4 mbarrier.arrive.shared::cta.b64 _, [full];"
    first = f"not.pred %p4, %p3;\nand.pred %p4, %p4, %p0;\n{arrives}\nand.pred %p5, %p3, %p0;\n"
    found = check(expects=first + EXPECT.replace("%p0", "%p5"), brings=LOAD.replace("%p0", "%p5"))
    assert not found.proven
    assert any("ended a later phase" in one.reason for one in found.unproven)


def test_what_was_loaded_before_a_barrier_began_anew_may_be_read() -> None:
    # As Triton prints loads one after the other: the place of one's barrier is that of the next one's too.
    anew = "bar.sync 0;\n@%p0 mbarrier.inval.shared::cta.b64 [full];\nbar.sync 0;\n"
    anew += "@%p0 mbarrier.init.shared::cta.b64 [full], 1;\n@%p0 fence.mbarrier_init.release.cluster;\nbar.sync 0;\n"
    other = f"add.u32 %r7, %r4, 4096;\n{EXPECT}\n{LOAD}\n"
    waits = "V{0}: mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], 0;\n@!%p2 bra V{0};\n"
    reads = "".join(f"ld.shared.v4.b32 {{%r10, %r11, %r12, %r13}}, [%r5{at}];\n" for at in ("+4096", ""))
    again = "mov.u32 %r3, 1;\n"  # which the end of a round turns into the parity that the next one waits for
    assert check(after=anew + other + waits.format(1) + reads + "bar.sync 0;\n" + anew + again).proven


def test_a_load_that_nobody_ever_reads_is_not_proven() -> None:
    aside = LOAD.replace("%r7", "%r8")
    twice = f"add.u32 %r8, %r4, 4096;\n{LOAD}\n{aside}"
    found = check(expects=EXPECT.replace("2048", "4096"), brings=twice)
    assert not found.proven
    assert any("nobody reads what this brings" in one.reason for one in found.unproven)
