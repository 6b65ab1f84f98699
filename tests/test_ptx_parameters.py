"""Parameters that are read through registers, as nvcc prints for large ones."""

from __future__ import annotations

import pytest

from legalsat.analyses.ptx.text import parse
from legalsat.analyses.ptx_machine.program import compile_kernel
from legalsat.extract.check.check_ptx import PtxCheck, check_ptx

ROUNDS = 8  # where the count of rounds lies in the parameter


def kernel(reads: str, *, parity: str = "and.b32 %r4, %r1, 1;") -> str:
    """Return a kernel of as many rounds as a part of its parameter says, in each of which all wait for one barrier."""
    return f"""
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 other, .param .align 64 .b8 p[128])
.reqntid 64
{{
.reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %d<9>;
.shared .align 8 .b64 barrier;
mov.u32 %r0, %tid.x;
setp.eq.u32 %p0, %r0, 0;
@%p0 mbarrier.init.shared::cta.b64 [barrier], 64;
bar.sync 0;
{reads}
mov.u32 %r1, 0;
L:
setp.ge.s32 %p1, %r1, %r2;
@%p1 bra END;
mbarrier.arrive.shared::cta.b64 _, [barrier];
{parity}
W:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [barrier], %r4;
@!%p2 bra W;
add.u32 %r1, %r1, 1;
bra L;
END:
ret;
}}
"""


READS = {
    "by name": "ld.param.u32 %r2, [p+8];",
    "by a register": "mov.b64 %d0, p; ld.param.u32 %r2, [%d0+8];",
    "before the parameter's end": "mov.u64 %d0, p; add.s64 %d1, %d0, 24; ld.param.u32 %r2, [%d1+-16];",
    "by a difference": "mov.u64 %d0, p; add.s64 %d1, %d0, 24; sub.s64 %d2, %d1, 0x10; ld.param.u32 %r2, [%d2];",
    "by a generic address": "cvta.param.u64 %d0, p; add.s64 %d1, %d0, 8; mov.b64 %d2, %d1; ld.u32 %r2, [%d2];",
    "as the second of a vector": "mov.b64 %d0, p; ld.param.v2.u32 {%r5, %r2}, [%d0+4];",
    "on both ways": "setp.eq.u32 %p3, %r0, 1; @%p3 bra A; mov.b64 %d0, p; bra B; A: mov.b64 %d0, p; B:"
    " ld.param.u32 %r2, [%d0+8];",
}


def swept(found: PtxCheck) -> set[str]:
    return set(found.kernels[0].parameters)


@pytest.mark.parametrize("how", READS)
def test_a_parameter_is_the_same_however_it_is_read(how: str) -> None:
    found = check_ptx(kernel(READS[how]))
    assert found.proven and swept(found) == {f"p+{ROUNDS}"}, (found.findings, found.unproven)
    wrong = check_ptx(kernel(READS[how], parity="mov.b32 %r4, 0;"))
    assert wrong.findings and swept(wrong) == {f"p+{ROUNDS}"}


def test_parameters_that_are_read_together_decide_each_for_itself() -> None:
    reads = "mov.b64 %d0, p; ld.param.v4.u32 {%r6, %r5, %r2, _}, [%d0]; setp.lt.u32 %p4, %r5, 3; @%p4 bar.sync 1;"
    module = parse(kernel(reads))
    program = compile_kernel(module, module.kernels[0])
    decided = {watch.condition.name: set(watch.condition.keys) for watch in program.watches}
    assert decided["%p4"] == {"p+4"} and decided["%p1"] == {"p+8"}


def test_what_only_sums_hang_on_steers_no_loop() -> None:
    fetch = """tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r6}, [%r5];
tcgen05.wait::ld.sync.aligned;
setp.eq.u32 %p4, %r7, 0;
@%p4 bra NONE;
add.u32 %r6, %r6, 1;
NONE:"""
    reads = "mov.b64 %d0, p; mov.u32 %r5, 0; ld.param.v2.u32 {%r7, %r2}, [%d0+4];"
    module = parse(kernel(reads).replace("sm_90a", "sm_100a").replace("END:", f"END: {fetch}"))
    program = compile_kernel(module, module.kernels[0])
    assert program.decisive == {"p+4", "p+8"}
    assert program.looping == {"p+8"}


def test_a_parameter_at_an_address_that_differs_is_left_open() -> None:
    # Which of both a thread reads, no single name says.
    reads = "setp.eq.u32 %p3, %r0, 1; mov.b64 %d0, p; @%p3 add.s64 %d0, %d0, 4; ld.param.u32 %r2, [%d0+8];"
    found = check_ptx(kernel(reads))
    assert not found.proven and not found.findings


LOAD = "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes"
EXPECTS = f"""
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 p[256])
.reqntid 32
{{
.reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %d<9>;
.shared .align 1024 .b8 stage[8192];
.shared .align 8 .b64 barrier;
mov.b64 %d0, p;
add.s64 %d1, %d0, 64;
ld.param.u32 %r1, [%d0+8];
mov.u32 %r0, %tid.x;
setp.eq.u32 %p0, %r0, 0;
@%p0 mbarrier.init.shared::cta.b64 [barrier], 1;
@%p0 fence.mbarrier_init.release.cluster;
bar.sync 0;
mov.u32 %r2, 0;
@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [barrier], %r1;
@%p0 {LOAD} [stage], [%d1, {{%r2, %r2}}], [barrier];
W:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [barrier], %r2;
@!%p2 bra W;
ld.shared.b32 %r3, [stage+4092];
ret;
}}
"""


def test_bytes_that_a_launch_gives_are_no_fault_of_the_kernel() -> None:
    found = check_ptx(EXPECTS)
    assert not found.findings
    assert not found.kernels[0].boxes
    assert any("p+8 decides how many bytes are expected here" in one.reason for one in found.unproven)
    assert check_ptx(EXPECTS, parameters={"p+8": 4096}).kernels[0].boxes == {"p+64": 4096}
    right = check_ptx(EXPECTS, parameters={"p+8": 4096}, box_bytes={"p+64": 4096})
    assert right.proven, (right.findings, right.unproven)
    wrong = check_ptx(EXPECTS, parameters={"p+8": 2048}, box_bytes={"p+64": 4096})
    assert {f.kind for f in wrong.findings} == {"bytes_differ"}
