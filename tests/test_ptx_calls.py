"""What compilers leave in kernels that are not optimised: calls, arrays of a thread, output, assertions, odd addresses.

Each right kernel has a fault beside it, at the same place, that must be found.
"""

from __future__ import annotations

import pytest

from legalsat.extract.check.check_ptx import KernelCheck, check_ptx

STAGES, BOX = 2, 1024
HEAD = "\n.version 8.7\n.target sm_90a\n.address_size 64\n"
ENTRY = """
.visible .entry k(.param .align 64 .b8 map[128], .param .u32 n, .param .u64 out)
.reqntid 64
{
.reg .pred %p<9>; .reg .b32 %r<40>; .reg .b64 %rd<9>; .reg .f32 %f<9>;
.shared .align 128 .b8 ring[2048];
.shared .align 8 .b64 full[2];
"""
BEGIN = """
mov.u32 %r0, %tid.x; mov.u32 %r9, full; mov.u32 %r8, ring; mov.u32 %r7, 0;
ld.param.u32 %r6, [n]; ld.param.u64 %rd1, [out]; mov.b64 %rd2, map; mov.u32 %r20, 0;
setp.ne.u32 %p0, %r0, 0;
@%p0 bra READY;
mbarrier.init.shared::cta.b64 [%r9], 1;
mbarrier.init.shared::cta.b64 [%r9+8], 1;
fence.mbarrier_init.release.cluster;
READY: bar.sync 0;
setp.lt.s32 %p1, %r6, 1;
@%p1 bra END;
"""
LOOP = "ROUND: and.b32 %r1, %r7, 1; shl.b32 %r2, %r1, 3; add.u32 %r3, %r9, %r2;\n"
AGAIN = """
add.s32 %r7, %r7, 1; setp.lt.s32 %p2, %r7, %r6;
@%p2 bra ROUND;
END: ret;
}
"""
LOAD = """
@%p0 bra LOADED;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 1024;
shl.b32 %r4, %r1, 10; add.u32 %r5, %r8, %r4;
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r5], [%rd2, {%r20, %r20}], [%r3];
LOADED:
"""
PARITY = "shr.u32 %r10, %r7, 1; and.b32 %r10, %r10, 1;"
WAIT = "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r3], %r10;\n@!%p3 bra WAIT;\n"
READ = "shl.b32 %r12, %r1, 10; add.u32 %r12, %r8, %r12; ld.shared.f32 %f1, [%r12]; st.global.f32 [%rd1], %f1;"
MEET = "bar.sync 0;"


def kernel(*body: str, functions: str = "", variables: str = "", before: str = "") -> str:
    """Return a kernel that fills a ring of two stages round by round, one thread the producer of all."""
    return HEAD + functions + ENTRY + variables + BEGIN + before + LOOP + "\n".join(body) + AGAIN


def check(text: str) -> KernelCheck:
    (found,) = check_ptx(text, box_bytes={"map": BOX}).kernels
    return found


# A function that waits for a phase, and says what it read: its parameters, and registers of the same names.
FUNCTION = f"""
.func (.param .b32 result) wait_and_read(.param .b32 barrier, .param .b32 round, .param .b32 stage)
{{
.reg .pred %p<9>; .reg .b32 %r<40>; .reg .f32 %f<9>;
ld.param.u32 %r3, [barrier]; ld.param.u32 %r7, [round]; ld.param.u32 %r8, [stage];
PARITY
{WAIT}
ld.shared.f32 %f1, [%r8];
setp.lt.f32 %p1, %f1, 0f00000000;
st.param.f32 [result+0], %f1;
ret;
}}
"""
CALL = """
shl.b32 %r12, %r1, 10; add.u32 %r12, %r8, %r12;
{
.param .b32 param0; st.param.b32 [param0+0], %r3;
.param .b32 param1; st.param.b32 [param1+0], %r7;
.param .b32 param2; st.param.b32 [param2+0], %r12;
.param .b32 retval0;
call.uni (retval0), wait_and_read, (param0, param1, param2);
ld.param.f32 %f1, [retval0+0];
}
st.global.f32 [%rd1], %f1;
"""


def called(parity: str = PARITY, meet: str = MEET) -> str:
    return kernel(LOAD, CALL, meet, functions=FUNCTION.replace("PARITY", parity))


# A phase for each stage, in an array that the stage indexes.
PHASES = ".local .align 8 .b8 phases[8]; .reg .b64 %SPL; .reg .b64 %a<4>;"
ZEROS = "mov.u64 %SPL, phases; add.u64 %a0, %SPL, 0; st.local.v2.u32 [%a0], {%r20, %r20};\n"
INDEXED = "mul.wide.u32 %a1, %r1, 4; add.s64 %a2, %a0, %a1; ld.local.u32 %r10, [%a2];"
FLIP = "xor.b32 %r11, %r10, 1; st.local.u32 [%a2], %r11;"


def indexed(flip: str = FLIP, zeros: str = ZEROS) -> str:
    return kernel(LOAD, INDEXED, WAIT, READ, flip, MEET, variables=PHASES, before=zeros)


# Output, and an assertion, of what was read.
SAID = """
setp.gt.f32 %p4, %f1, 0f3F800000;
@%p4 bra QUIET;
{ .param .b64 param0; st.param.b64 [param0+0], %rd1; .param .b32 retval0;
call.uni (retval0), vprintf, (param0, param0); ld.param.b32 %r13, [retval0+0]; }
QUIET: setp.lt.f32 %p5, %f1, 0f7F000000;
@%p5 bra FINE;
{ .param .b64 param0; st.param.b64 [param0+0], %rd1; call.uni __assertfail, (param0, param0, param0, param0, param0); }
FINE:
"""


def said(meet: str = MEET) -> str:
    return kernel(LOAD, PARITY, WAIT, READ, SAID, meet)


# An address that is below zero without its offset: 32 bits wrap round.
BELOW = "sub.u32 %r12, %r12, 4096; ld.shared.f32 %f2, [%r12+4096];"


def below(offset: int = 4096) -> str:
    return kernel(LOAD, PARITY, WAIT, READ, BELOW.replace("+4096", f"+{offset}"), MEET)


@pytest.mark.parametrize("text", [called(), indexed(), said(), below()], ids=["call", "array", "output", "address"])
def test_what_is_not_optimised_is_proven(text: str) -> None:
    found = check(text)
    reached, there = found.reached
    assert found.proven and reached == there, (found.findings, found.unproven)


@pytest.mark.parametrize(
    "text",
    [
        called(parity="mov.u32 %r10, 0;"),
        called(meet=""),
        indexed(flip=""),
        indexed(flip=FLIP.replace("[%a2]", "[%a0]")),
        said(meet=""),
        below(offset=5120),
    ],
    ids=["one parity", "no meeting behind a call", "one phase", "another phase", "no meeting", "an address beyond"],
)
def test_faults_in_what_is_not_optimised_are_not_proven(text: str) -> None:
    found = check(text)
    assert not found.proven and (found.findings or "reads shared byte 1024" in found.unproven[0].reason)


def test_an_array_that_nobody_has_begun_with_is_not_known() -> None:
    found = check(indexed(zeros=ZEROS.split("st.local", maxsplit=1)[0] + "\n"))
    assert not found.proven and not found.findings


@pytest.mark.parametrize("callee", ["elsewhere", "%rd1", "wait_and_read"])
def test_calls_that_cannot_be_followed_are_said(callee: str) -> None:
    """Of functions that are not in the text, of pointers, and of what calls itself."""
    text = called()
    if callee == "wait_and_read":
        text = text.replace(
            "st.param.f32 [result+0]", f"call.uni {callee}, (barrier, round, stage);\nst.param.f32 [result+0]"
        )
    else:
        text = text.replace("(retval0), wait_and_read", f"(retval0), {callee}")
    found = check(text)
    assert not found.proven and any("a call is not followed" in one.reason for one in found.unproven)
