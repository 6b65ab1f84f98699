"""How long do the steps of a pipeline take on this GPU: loads by the copy engine, boxes in a row, wgmma, barriers?

    python -m bench.gpu.chip.latencies    # where the GPU is: torch, numpy and a driver are enough

One block alone, times by its clock, medians of many. Writes latencies.json into $OUT, else here.
"""

from __future__ import annotations

import json
import os
import statistics
import struct
from ctypes import c_uint32
from pathlib import Path
from typing import Any

from bench.gpu.driver import Device
from bench.gpu.machine import machine

ROWS, COLUMNS, BOXES, REPEATS = 128, 64, 12, 200
BOX_BYTES = ROWS * COLUMNS * 2
WGMMAS, WIDTHS = 32, (64, 128, 256)
SHARED = 200 * 1024
BF16 = 9  # of CUtensorMapDataType
SWIZZLE_128B, L2_128B = 3, 2

_LOADS = """
.visible .entry loads(.param .align 64 .b8 map[128], .param .u64 out, .param .u32 repeats, .param .u32 boxes,
                      .param .u32 step)
{
    .reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %d<12>;
    ld.param.u64 %d0, [out]; ld.param.u32 %r0, [repeats]; ld.param.u32 %r1, [boxes]; ld.param.u32 %r2, [step];
    mov.b64 %d1, map; cvta.param.u64 %d2, %d1;
    mov.u32 %r3, memory; add.u32 %r4, %r3, BARRIER;
    mbarrier.init.shared::cta.b64 [%r4], 1;
    fence.mbarrier_init.release.cluster;
    mov.b32 %r5, 0; mov.b32 %r6, 0; mov.b32 %r7, 0;
AGAIN:
    mul.lo.u32 %r8, %r1, BOX_BYTES;
    mov.u64 %d3, %clock64;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], %r8;
    mov.b32 %r9, 0; mov.b32 %r10, %r3;
MORE:
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r10], [%d2, {%r7, %r6}], [%r4];
    add.u32 %r10, %r10, BOX_BYTES; add.u32 %r6, %r6, %r2; add.u32 %r9, %r9, 1;
    setp.lt.u32 %p0, %r9, %r1; @%p0 bra MORE;
    mov.u64 %d4, %clock64;
WAIT:
    and.b32 %r11, %r5, 1;
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r4], %r11; @!%p1 bra WAIT;
    mov.u64 %d5, %clock64;
    sub.u64 %d6, %d4, %d3; sub.u64 %d7, %d5, %d3;
    st.global.u64 [%d0], %d6; st.global.u64 [%d0+8], %d7; add.u64 %d0, %d0, 16;
    add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, %r0; @%p2 bra AGAIN;
    ret;
}
"""
_MULTIPLY = """
.visible .entry multiply_WIDTH(.param .u64 out)
.reqntid 128
{
    .reg .b32 %r<4>; .reg .b64 %d<12>; .reg .b32 %s<SUMS>; .reg .pred %p<2>;
    ld.param.u64 %d0, [out];
    mov.u32 %r0, memory; shr.u32 %r1, %r0, 4; cvt.u64.u32 %d1, %r1;
    add.u64 %d2, %d1, 0x4000004000000000; add.u64 %d3, %d2, 2048;
    setp.eq.u32 %p0, 0, 0;
ZEROS
    wgmma.fence.sync.aligned;
MULTIPLIES
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    wgmma.fence.sync.aligned;
    mov.u64 %d4, %clock64;
MULTIPLIES
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    mov.u64 %d5, %clock64;
    sub.u64 %d6, %d5, %d4;
    st.global.u64 [%d0], %d6;
STORES
    ret;
}
"""
_BARRIER = """
.visible .entry barrier(.param .u64 out, .param .u32 repeats)
.reqntid 64
{
    .reg .pred %p<5>; .reg .b32 %r<12>; .reg .b64 %d<8>;
    ld.param.u64 %d0, [out]; ld.param.u32 %r0, [repeats];
    mov.u32 %r1, %tid.x; mov.u32 %r2, memory; add.u32 %r3, %r2, 64;
    setp.ne.u32 %p0, %r1, 0; @%p0 bra STARTED;
    mbarrier.init.shared::cta.b64 [%r2], 1; mbarrier.init.shared::cta.b64 [%r3], 1;
STARTED:
    bar.sync 0;
    and.b32 %r4, %r1, 31; setp.ne.u32 %p1, %r4, 0; @%p1 bra DONE;
    mov.b32 %r5, 0;
    setp.eq.u32 %p0, %r1, 32; @%p0 bra ANSWER;
ASK:
    mov.u64 %d1, %clock64;
    mbarrier.arrive.shared::cta.b64 _, [%r2];
    and.b32 %r6, %r5, 1;
ASKED:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], %r6; @!%p2 bra ASKED;
    mov.u64 %d2, %clock64; sub.u64 %d3, %d2, %d1; st.global.u64 [%d0], %d3; add.u64 %d0, %d0, 8;
    add.u32 %r5, %r5, 1; setp.lt.u32 %p3, %r5, %r0; @%p3 bra ASK;
    bra DONE;
ANSWER:
    and.b32 %r6, %r5, 1;
ANSWERED:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], %r6; @!%p2 bra ANSWERED;
    mbarrier.arrive.shared::cta.b64 _, [%r3];
    add.u32 %r5, %r5, 1; setp.lt.u32 %p3, %r5, %r0; @%p3 bra ANSWER;
DONE:
    bar.sync 1;
    ret;
}
"""
_CLOCK = """
.visible .entry clock_rate(.param .u64 out)
{
    .reg .pred %p<2>; .reg .b64 %d<8>;
    ld.param.u64 %d0, [out];
    mov.u64 %d1, %globaltimer; mov.u64 %d2, %clock64;
SPIN:
    mov.u64 %d3, %globaltimer; sub.u64 %d4, %d3, %d1; setp.lt.u64 %p0, %d4, 20000000; @%p0 bra SPIN;
    mov.u64 %d5, %clock64; sub.u64 %d6, %d5, %d2;
    st.global.u64 [%d0], %d6; st.global.u64 [%d0+8], %d4;
    ret;
}
"""


def program() -> str:
    """Return the PTX of all kernels."""
    parts = [_LOADS.replace("BOX_BYTES", str(BOX_BYTES)).replace("BARRIER", str(BOXES * BOX_BYTES)), _BARRIER, _CLOCK]
    for width in WIDTHS:
        sums = [f"%s{i}" for i in range(width // 2)]
        name = f"wgmma.mma_async.sync.aligned.m64n{width}k16.f32.bf16.bf16"
        one = f"    {name} {{{', '.join(sums)}}}, %d2, %d3, %p0, 1, 1, 0, 0;"
        stores = "\n".join(f"    st.global.b32 [%d0+{8 + 4 * i}], {register};" for i, register in enumerate(sums))
        parts.append(
            _MULTIPLY.replace("WIDTH", str(width))
            .replace("SUMS", str(width // 2))
            .replace("ZEROS", "\n".join(f"    mov.b32 {register}, 0;" for register in sums))
            .replace("MULTIPLIES", "\n".join([one] * WGMMAS))
            .replace("STORES", stores)
        )
    head = ".version 8.6\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 memory[];\n"
    return head + "\n".join(parts)


def run() -> dict[str, Any]:
    """Measure, and return nanoseconds."""
    import torch  # noqa: PLC0415 - there is none where plans are made

    device = Device()
    module = device.load(program().encode())
    out = device.allocate(1 << 16)

    def numbers(count: int) -> list[int]:
        device.synchronize()
        return list(struct.unpack(f"<{count}Q", device.read(out, 8 * count)))

    torch.zeros(1, device="cuda")
    module.kernel("clock_rate")(out, grid=(1,), block=(1,))
    ticks, passed = numbers(2)
    nanoseconds = passed / ticks

    rows = ROWS * BOXES * (REPEATS + 1)
    data = torch.randn(rows, COLUMNS, device="cuda", dtype=torch.bfloat16)
    tensor_map = device.encode(
        {
            "dtype": BF16,
            "address": data.data_ptr(),
            "global_dim": (COLUMNS, rows),
            "global_stride": (2 * COLUMNS,),
            "box": (COLUMNS, ROWS),
            "element_stride": (1, 1),
            "interleave": 0,
            "swizzle": SWIZZLE_128B,
            "l2_promotion": L2_128B,
            "oob_fill": 0,
        }
    )
    flush = torch.empty(256 << 20, device="cuda", dtype=torch.uint8)
    loads: dict[str, Any] = {}
    for where, step in (("L2", 0), ("DRAM", ROWS)):
        for boxes in (1, 2, 4, 8, BOXES):
            flush.zero_()  # twice what L2 holds, so that DRAM is read
            torch.cuda.synchronize()
            arguments = (tensor_map, out, c_uint32(REPEATS), c_uint32(boxes), c_uint32(step))
            module.kernel("loads")(*arguments, grid=(1,), block=(1,), shared=SHARED)
            found = numbers(2 * REPEATS)[4:]
            loads[f"{boxes} boxes from {where}"] = {
                "issued": round(statistics.median(found[::2]) * nanoseconds, 1),
                "there": round(statistics.median(found[1::2]) * nanoseconds, 1),
                "there, 95 of 100": round(sorted(found[1::2])[int(0.95 * len(found) / 2)] * nanoseconds, 1),
            }
    multiplies = {}
    for width in WIDTHS:
        times = []
        for _ in range(20):
            module.kernel(f"multiply_{width}")(out, grid=(1,), block=(128,), shared=SHARED)
            times += numbers(1)
        multiplies[f"m64n{width}k16 bf16"] = round(statistics.median(times) / WGMMAS * nanoseconds, 2)
    module.kernel("barrier")(out, c_uint32(REPEATS), grid=(1,), block=(64,), shared=1024)
    there_and_back = statistics.median(numbers(REPEATS)[10:]) * nanoseconds
    return {
        "question": "how long do the steps of a pipeline take, one block alone",
        "machine": machine(),
        "clock_ghz": round(1 / nanoseconds, 3),
        "box": f"{ROWS} x {COLUMNS} bf16, {BOX_BYTES} bytes, swizzle 128B",
        "loads_ns": loads,
        f"wgmma_ns, each of {WGMMAS} in a row": multiplies,
        "arrive_until_another_warp_is_through_ns": round(there_and_back / 2, 1),
    }


if __name__ == "__main__":
    found = run()
    text = json.dumps(found, indent=1)
    print(text)
    Path(os.environ.get("OUT", "."), "latencies.json").write_text(text + "\n", encoding="utf-8")
