"""How long does a processor multiply, by the width of wgmma, how operands lie, and who multiplies beside loads?

    python -m bench.gpu.chip.matrix_rates           # where the GPU is: a driver, ptxas and torch are enough
    python -m bench.gpu.chip.matrix_rates judge [FILE]

Each case is a kernel of its own on every processor at once: warpgroups that multiply from a ring in shared memory, four
wgmma along k for each of their blocks of 64 rows, one group of them in flight as in a product's mainloop, and at the
same time, if asked, a thread that fills other stages from L2 as fast as that goes. Cycles are by the processor's clock,
so that it does not matter where that falls: the median of processors, of a turn along k. Writes matrix_rates.json into
$OUT, else here.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from ctypes import c_uint32
from pathlib import Path
from typing import Any, NamedTuple

from bench.gpu.driver import Device
from bench.gpu.machine import machine

TURNS = 400
ROW_BYTES, STEPS = 128, 4  # of a k-tile: a row of it, and wgmma along k
STAGES = 2  # that are multiplied from, in turns
SHARED = 220 * 1024
CHUNK, CHUNKS = 4096, 4  # what is loaded meanwhile: bytes of a copy, and copies under way
SOURCE = 64 * 1024  # bytes of L2 for each processor
TEAMS = ((1, 1), (2, 1), (3, 1), (2, 2))  # warpgroups, and blocks of 64 rows of each
MOST_SUMS = {1: 128, 2: 200, 3: 96}  # registers a thread, by warpgroups
HANDED = {2: (240, 24), 3: (160, 32)}  # registers of those that multiply, and of those that load
_SHAPE = "wgmma.mma_async.sync.aligned.m64n{n}k16.f32.bf16.bf16"

_KERNEL = """
.visible .entry {name}(.param .u64 out, .param .u64 source, .param .u32 turns, .param .u32 loading)
.reqntid {threads}
.minnctapersm 1
{{
    .reg .pred %p<8>; .reg .b32 %r<20>; .reg .b64 %d<40>; .reg .b32 %s<{sums}>;
    ld.param.u32 %r0, [turns]; mov.u32 %r1, %tid.x; mov.u32 %r2, memory;
    add.u32 %r3, %r2, {flag};
    setp.ne.u32 %p0, %r1, 0; @%p0 bra READY;
    st.shared.u32 [%r3], 0;
{init}
READY:
    bar.sync 0;
    setp.ge.u32 %p1, %r1, {consumers}; @%p1 bra LOADER;
    {more}
    shr.u32 %r4, %r1, 7; mul.lo.u32 %r4, %r4, {own_bytes}; add.u32 %r4, %r4, %r2;
    shr.u32 %r5, %r4, 4; cvt.u64.u32 %d0, %r5; add.u64 %d0, %d0, {a_fields};
    add.u32 %r6, %r2, {a_bytes}; shr.u32 %r6, %r6, 4; cvt.u64.u32 %d1, %r6; add.u64 %d1, %d1, {b_fields};
    setp.eq.u32 %p2, 0, 0;
{zeros}
    mov.u64 %d2, 0; mov.u64 %d10, %clock64;
TURN:
    add.u64 %d3, %d0, %d2; add.u64 %d4, %d1, %d2;
    wgmma.fence.sync.aligned;
{multiplies}
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 1;
    xor.b64 %d2, %d2, {stage};
    sub.u32 %r0, %r0, 1; setp.ne.u32 %p3, %r0, 0; @%p3 bra TURN;
    wgmma.wait_group.sync.aligned 0;
    mov.u64 %d11, %clock64; sub.u64 %d12, %d11, %d10;
    bar.sync 1, {consumers};
    @%p0 bra KEEP;
    st.volatile.shared.u32 [%r3], 1;
    ld.param.u64 %d13, [out]; mov.u32 %r7, %ctaid.x; mul.wide.u32 %d14, %r7, 16; add.u64 %d13, %d13, %d14;
    st.global.u64 [%d13], %d12;
KEEP:
    setp.ne.u32 %p4, %r0, 0; ld.param.u64 %d13, [out];
{stores}
    ret;
LOADER:
    {fewer}
    setp.ne.u32 %p5, %r1, {consumers}; @%p5 bra DONE;
    ld.param.u32 %r8, [loading]; setp.eq.u32 %p5, %r8, 0; @%p5 bra DONE;
    ld.param.u64 %d20, [source]; mov.u32 %r7, %ctaid.x; mul.wide.u32 %d21, %r7, {source}; add.u64 %d20, %d20, %d21;
    mov.u64 %d22, 0; mov.b32 %r9, 0; mov.b32 %r15, 0;
AGAIN:
    and.b32 %r10, %r9, {last_chunk}; shl.b32 %r11, %r10, 3; add.u32 %r11, %r11, %r3; add.u32 %r11, %r11, 8;
    setp.lt.u32 %p6, %r9, {chunks}; @%p6 bra FIRST;
    sub.u32 %r12, %r9, {chunks}; shr.u32 %r12, %r12, {chunk_bits}; and.b32 %r12, %r12, 1;
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p7, [%r11], %r12; @!%p7 bra WAIT;
FIRST:
    ld.volatile.shared.u32 %r13, [%r3]; setp.ne.u32 %p6, %r13, 0; @%p6 bra LOADED;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r11], {chunk};
    mul.lo.u32 %r14, %r10, {chunk}; add.u32 %r14, %r14, %r2; add.u32 %r14, %r14, {free};
    and.b64 %d23, %d22, {source_last}; add.u64 %d24, %d20, %d23;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r14], [%d24], {chunk}, [%r11];
    add.u64 %d22, %d22, {chunk}; add.u32 %r9, %r9, 1;
    bra AGAIN;
LOADED:
    ld.param.u64 %d13, [out]; mul.wide.u32 %d14, %r7, 16; add.u64 %d13, %d13, %d14;
    st.global.u64 [%d13+8], %d22;
    // All that is under way has to come before the block ends.
    mov.b32 %r16, 1;
REST:
    setp.ge.u32 %p6, %r16, {chunks}; @%p6 bra DONE;
    setp.gt.u32 %p6, %r16, %r9; @%p6 bra DONE;
    sub.u32 %r17, %r9, %r16; and.b32 %r10, %r17, {last_chunk}; shl.b32 %r11, %r10, 3; add.u32 %r11, %r11, %r3;
    add.u32 %r11, %r11, 8; shr.u32 %r12, %r17, {chunk_bits}; and.b32 %r12, %r12, 1;
ENDED:
    mbarrier.try_wait.parity.shared::cta.b64 %p7, [%r11], %r12; @!%p7 bra ENDED;
    add.u32 %r16, %r16, 1; bra REST;
DONE:
    ret;
}}
"""


class Case(NamedTuple):
    """Who multiplies what: columns, warpgroups, blocks of 64 rows of each, and whether A and B are MN-major."""

    columns: int
    warpgroups: int
    blocks: int
    a_across: bool
    b_across: bool

    @property
    def name(self) -> str:
        """Its kernel's name."""
        return "multiply_" + "_".join(str(int(one)) for one in self)

    @property
    def ideal(self) -> float:
        """Cycles of a turn if all multipliers were always busy: 1,024 products of bf16 a cycle and quarter."""
        return self.warpgroups * self.blocks * STEPS * self.columns / 2


def cases() -> Iterator[Case]:
    """Yield all cases whose sums fit into registers."""
    for columns in range(8, 257, 8):
        for warpgroups, blocks in TEAMS:
            if blocks * columns // 2 <= MOST_SUMS[warpgroups]:
                for a_across in (False, True):
                    for b_across in (False, True):
                        yield Case(columns, warpgroups, blocks, a_across, b_across)


def text_of(case: Case) -> str:
    """Return the kernel of a case."""
    rows = 64 * case.warpgroups * case.blocks
    loaded = -(-case.columns // 64) * 64 if case.b_across else case.columns
    stage = -(-(rows + loaded) * ROW_BYTES // 1024) * 1024
    stage_units = 1 << (stage // 16 - 1).bit_length()  # xor goes between the two
    consumers, half = 128 * case.warpgroups, case.columns // 2
    flag = SHARED - 64
    free = flag - CHUNK * CHUNKS

    def fields(across: bool) -> int:
        # 128-byte swizzle; a pattern is 1,024 bytes, boxes of 64 elements across k have 64 lines of 128 bytes
        leading = 64 * ROW_BYTES // 16 if across else 1
        return 1 << 62 | (1024 // 16) << 32 | leading << 16

    more = fewer = ""
    if case.warpgroups in HANDED:
        inner, outer = HANDED[case.warpgroups]
        more, fewer = f"setmaxnreg.inc.sync.aligned.u32 {inner};", f"setmaxnreg.dec.sync.aligned.u32 {outer};"
    multiplies = []
    for step in range(STEPS):
        for block in range(case.blocks):
            a = block * 64 * ROW_BYTES // 16 + step * (2048 if case.a_across else 32) // 16
            b = step * (2048 if case.b_across else 32) // 16
            sums = ", ".join(f"%s{block * half + i}" for i in range(half))
            multiplies += [
                f"    add.u64 %d5, %d3, {a}; add.u64 %d6, %d4, {b};",
                f"    {_SHAPE.format(n=case.columns)} {{{sums}}}, %d5, %d6, %p2, 1, 1, "
                f"{int(case.a_across)}, {int(case.b_across)};",
            ]
    registers = [f"%s{i}" for i in range(case.blocks * half)]
    return _KERNEL.format(
        name=case.name,
        threads=consumers + 128,
        more=more,
        fewer=fewer,
        sums=len(registers),
        flag=flag,
        init="\n".join(f"    mbarrier.init.shared::cta.b64 [%r3+{8 + 8 * i}], 1;" for i in range(CHUNKS)),
        consumers=consumers,
        own_bytes=case.blocks * 64 * ROW_BYTES,
        a_fields=fields(case.a_across),
        b_fields=fields(case.b_across),
        a_bytes=rows * ROW_BYTES,
        zeros="\n".join(f"    mov.b32 {one}, 0;" for one in registers),
        multiplies="\n".join(multiplies),
        stage=stage_units,
        stores="\n".join(f"    @%p4 st.global.b32 [%d13], {one};" for one in registers),
        source=SOURCE,
        source_last=SOURCE - 1,
        last_chunk=CHUNKS - 1,
        chunks=CHUNKS,
        chunk_bits=CHUNKS.bit_length() - 1,
        chunk=CHUNK,
        free=free,
    )


HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 memory[];\n"


def assembled(case: Case) -> bytes:
    """Return the cubin of a case, by the ptxas on the path."""
    with tempfile.TemporaryDirectory() as folder:
        text, cubin = Path(folder, "case.ptx"), Path(folder, "case.cubin")
        text.write_text(HEAD + text_of(case), encoding="utf-8")
        subprocess.run(["ptxas", "-arch=sm_90a", str(text), "-o", str(cubin)], check=True)
        return cubin.read_bytes()


def run() -> dict[str, Any]:
    """Measure all cases, and return cycles of a turn and bytes loaded a cycle."""
    import torch  # noqa: PLC0415 - there is none where plans are made

    device = Device()
    processors = torch.cuda.get_device_properties(0).multi_processor_count
    out, source = device.allocate(16 * processors), device.allocate(SOURCE * processors)
    device.write(source, bytes(SOURCE * processors))
    rows = []
    with ThreadPoolExecutor() as pool:
        cubins = list(zip(cases(), pool.map(assembled, cases()), strict=True))
    for case, cubin in cubins:
        kernel = device.load(cubin).kernel(case.name)
        row: dict[str, Any] = {**case._asdict(), "ideal": case.ideal}
        for loading in (0, 1):
            device.write(out, bytes(16 * processors))
            threads = 128 * (case.warpgroups + 1)
            for _ in range(2):
                arguments = (out, source, c_uint32(TURNS), c_uint32(loading))
                kernel(*arguments, grid=(processors,), block=(threads,), shared=SHARED)
            device.synchronize()
            found = struct.unpack(f"<{2 * processors}Q", device.read(out, 16 * processors))
            cycles, moved = statistics.median(found[::2]), statistics.median(found[1::2])
            row["loading" if loading else "alone"] = round(cycles / TURNS, 2)
            if loading:
                row["bytes a cycle"] = round(moved / cycles, 2)
        rows.append(row)
    return {"machine": machine(), "question": __doc__.splitlines()[0], "rows": rows}


def judge(file: Path) -> None:
    """Print how many times as long as the ideal turns take."""
    rows = json.loads(file.read_text(encoding="utf-8"))["rows"]
    for a in (False, True):
        for b in (False, True):
            print(f"A {'MN' if a else 'K'}-major, B {'MN' if b else 'K'}-major: alone / beside loads (bytes a cycle)")
            for columns in range(8, 257, 8):
                some = [one for one in rows if (one["columns"], one["a_across"], one["b_across"]) == (columns, a, b)]
                words = (
                    f"{one['warpgroups']}x{one['blocks']}: {one['alone'] / one['ideal']:.2f} / "
                    f"{one['loading'] / one['ideal']:.2f} ({one['bytes a cycle']:.0f})"
                    for one in some
                )
                print(f"  {columns:3}  " + "   ".join(words))


def main() -> None:
    """Measure, or print what was measured."""
    parser = argparse.ArgumentParser(prog="python -m bench.gpu.chip.matrix_rates")
    parser.add_argument("command", nargs="?", choices=("judge",))
    kept = Path(__file__).parents[1] / "results" / "matrix_rates.json"
    parser.add_argument("file", nargs="?", type=Path, default=kept)
    asked = parser.parse_args()
    if asked.command == "judge":
        judge(asked.file)
        return
    file = Path(os.environ.get("OUT", kept.parent), kept.name)
    file.write_text(json.dumps(run(), indent=1) + "\n", encoding="utf-8")
    judge(file)


if __name__ == "__main__":
    main()
