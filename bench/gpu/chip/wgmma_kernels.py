"""PTX kernels that multiply one pair of tiles with wgmma, told everything else at run time.

One warpgroup fills its shared memory with an image, then has the copy engine bring boxes, then multiplies eight steps
of 32 bytes of K with descriptors that it is given, and writes its registers out as they are. So one kernel serves
every descriptor, and a descriptor that is wrong runs the very same instructions.

Addresses are those of a window of shared memory that begins at a multiple of 1024; its first 1024 bytes hold the
barrier, and the image follows.
"""

from __future__ import annotations

from legalsat.options import Major
from legalsat.units.wgmma import Wgmma

STEPS = 8
IMAGE = 1024  # where in the window it begins
IMAGE_BYTES = 100 * 1024
SHARED_BYTES = 1024 + IMAGE + IMAGE_BYTES  # with what aligning the window takes
THREADS = 128
# The table: boxes of A, boxes of B, bytes that the barrier counts, words of A, words of B, then offset and coordinates
# of each box.
HEAD = 3
WORDS_A, WORDS_B, BOXES = HEAD, HEAD + STEPS, HEAD + 2 * STEPS
_HEADER = ".version 8.4\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 pool[];\n"


def module(kernels: list[str]) -> str:
    """Return the text of a module."""
    return _HEADER + "\n".join(kernels)


def kernel(name: str, instruction: Wgmma, majors: tuple[Major, Major], *, from_registers: bool) -> str:
    """Return the text of one kernel.

    Its parameters: two tensor maps, and pointers to the table, the image, the fragments of A (words: step, thread,
    register) and the result (words: thread, register).
    """
    registers = instruction.d_registers
    kind = {"fp32": "f32", "fp16": "b32", "i32": "s32"}[instruction.sums]
    sums = "{" + ", ".join(f"%d{i}" for i in range(registers)) + "}"
    rest = "".join(f", {value}" for value in instruction.immediates(*majors, from_registers=from_registers))
    loads, multiplies = [], []
    for step in range(STEPS):
        loads.append(f"ld.global.b64 %wb{step}, [%table+{8 * (WORDS_B + step)}]; add.s64 %wb{step}, %wb{step}, %low;")
        if from_registers:
            four = ", ".join(f"%a{4 * step + i}" for i in range(4))
            loads.append(f"ld.global.v4.b32 {{{four}}}, [%from+{16 * THREADS * step}];")
            a = f"{{{four}}}"
        else:
            loads.append(f"ld.global.b64 %wa{step}, [%table+{8 * (WORDS_A + step)}];")
            loads.append(f"add.s64 %wa{step}, %wa{step}, %low;")
            a = f"%wa{step}"
        scale = "%never" if step == 0 else "%always"
        multiplies.append(f"{instruction} {sums}, {a}, %wb{step}, {scale}{rest};")
    zero = "0f00000000" if kind == "f32" else "0"
    lines = [
        f".visible .entry {name}(",
        "  .param .align 64 .b8 map_a[128], .param .align 64 .b8 map_b[128],",
        "  .param .u64 table, .param .u64 image, .param .u64 fragments, .param .u64 result)",
        "{",
        ".reg .pred %p, %first, %never, %always;",
        ".reg .b32 %t, %window, %at, %end, %count, %other, %bar, %dst, %c0, %c1, %bytes, %x<4>;",
        ".reg .b64 %table, %image, %from, %to, %low, %map, %box, %wide;",
        f".reg .b64 %wa<{STEPS}>, %wb<{STEPS}>;",
        f".reg .b32 %a<{4 * STEPS}>;",
        f".reg .{kind} %d<{registers}>;",
        "mov.u32 %t, %tid.x;",
        "setp.eq.u32 %first, %t, 0;",
        "setp.ne.u32 %never, %t, %t;",
        "setp.eq.u32 %always, %t, %t;",
        "mov.u32 %window, pool; add.u32 %window, %window, 1023; and.b32 %window, %window, -1024;",
        "mov.u32 %bar, %window;",
        "ld.param.u64 %table, [table]; ld.param.u64 %image, [image]; cvta.to.global.u64 %table, %table;",
        "cvta.to.global.u64 %image, %image;",
        # Fill.
        "mul.wide.u32 %wide, %t, 16; add.s64 %image, %image, %wide;",
        f"shl.b32 %at, %t, 4; add.u32 %at, %at, %window; add.u32 %at, %at, {IMAGE};",
        f"add.u32 %end, %window, {IMAGE + IMAGE_BYTES};",
        "fill: ld.global.v4.b32 {%x0, %x1, %x2, %x3}, [%image];",
        "st.shared.v4.b32 [%at], {%x0, %x1, %x2, %x3};",
        f"add.s64 %image, %image, {16 * THREADS}; add.u32 %at, %at, {16 * THREADS};",
        "setp.lt.u32 %p, %at, %end; @%p bra fill;",
        "@%first mbarrier.init.shared::cta.b64 [%bar], 1;",
        "@%first fence.mbarrier_init.release.cluster;",
        "fence.proxy.async;",
        "bar.sync 0;",
        # Load.
        "@!%first bra wait;",
        "ld.global.u32 %bytes, [%table+16];",
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], %bytes;",
        f"add.s64 %box, %table, {8 * BOXES};",
        *_boxes("a", 0),
        *_boxes("b", 8),
        "wait: mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 0; @!%p bra wait;",
        "bar.sync 0;",
        # Multiply.
        "cvt.u64.u32 %low, %window; shr.u64 %low, %low, 4;",
        "ld.param.u64 %from, [fragments]; cvta.to.global.u64 %from, %from; add.s64 %from, %from, %wide;",
        *loads,
        *(f"mov.{kind} %d{i}, {zero};" for i in range(registers)),
        "wgmma.fence.sync.aligned;",
        *multiplies,
        "wgmma.commit_group.sync.aligned;",
        "wgmma.wait_group.sync.aligned 0;",
        "ld.param.u64 %to, [result]; cvta.to.global.u64 %to, %to;",
        f"mul.wide.u32 %wide, %t, {4 * registers}; add.s64 %to, %to, %wide;",
        *(f"st.global.{kind} [%to+{4 * i}], %d{i};" for i in range(registers)),
        "ret;",
        "}",
    ]
    return "\n".join(lines)


def _boxes(operand: str, count_at: int) -> list[str]:
    """Return the lines with which the first thread asks for the boxes of one operand."""
    return [
        f"mov.b64 %map, map_{operand}; cvta.param.u64 %map, %map;",
        f"ld.global.u32 %count, [%table+{count_at}];",
        f"boxes_{operand}: setp.eq.u32 %p, %count, 0; @%p bra boxes_{operand}_done;",
        "ld.global.u32 %dst, [%box]; ld.global.u32 %c0, [%box+8]; ld.global.u32 %c1, [%box+16];",
        "add.u32 %dst, %dst, %window;",
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%dst], [%map, {%c0, %c1}], [%bar];",
        f"add.s64 %box, %box, 24; sub.u32 %count, %count, 1; bra boxes_{operand};",
        f"boxes_{operand}_done:",
    ]
