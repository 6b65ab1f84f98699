"""What each instruction does on the machine of `ptx_machine`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ptx_formats import BITS, decode, encode
from ptx_machine import LANES, LONG, WORD, Block, Instruction, MemoryBarrier, Stuck, registers_of, words

from legalsat.analyses.matrix_layout import read_addresses
from legalsat.options import Major
from legalsat.units.matrix_descriptor import MatrixDescriptor

Handler = Callable[[Block, int, Instruction], None]
PARAMETER_BASE, C_ADDRESS = 1 << 32, 1 << 33
_NAMES = {"f16": "fp16", "s8": "i8", "f32": "fp32", "s32": "i32"}
_COMPARED = {"eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "ge": operator.ge}


def _computed(work: Callable[..., int], mask: int = WORD) -> Handler:
    def handler(block: Block, thread: int, i: Instruction) -> None:
        values = [block.value(thread, o) for o in i.operands[1:]]
        block.registers[thread][i.operands[0]] = work(*values) & mask

    return handler


def _compare(block: Block, thread: int, i: Instruction) -> None:
    a, b = (block.value(thread, o) for o in i.operands[1:])
    block.registers[thread][i.operands[0]] = int(_COMPARED[i.operation.split(".")[1]](a, b))


def _move(block: Block, thread: int, i: Instruction) -> None:
    to, source = i.operands
    if source.startswith("{"):
        low, high = registers_of(source)
        value = block.value(thread, low) | block.value(thread, high) << 16
    elif source.endswith("_map"):
        value = PARAMETER_BASE + sorted(block.tensors).index(source)
    else:
        value = block.value(thread, source)
    block.registers[thread][to] = value


def _parameter(block: Block, thread: int, i: Instruction) -> None:
    assert i.operands[1] == "[c]"
    block.registers[thread][i.operands[0]] = C_ADDRESS


def _convert(kind: str, size: int) -> Handler:
    """Return the conversion of two floats; the first operand is the upper element."""

    def handler(block: Block, thread: int, i: Instruction) -> None:
        raw = np.array([block.value(thread, o) for o in i.operands[1:]], dtype=np.uint32)
        high, low = map(int, encode(decode(raw, "fp32"), kind))
        block.registers[thread][i.operands[0]] = high << size | low

    return handler


def _pack(block: Block, thread: int, i: Instruction) -> None:
    raw = np.array([block.value(thread, o) for o in i.operands[1:3]], dtype=np.uint32)
    high, low = map(int, encode(decode(raw, "i32"), "i8"))
    block.registers[thread][i.operands[0]] = block.value(thread, i.operands[3]) << 16 & WORD | high << 8 | low


def _shuffle(block: Block, thread: int, i: Instruction) -> None:
    def work(lanes: list[int]) -> None:
        values = [block.value(lane, i.operands[1]) for lane in lanes]
        for lane in lanes:
            block.registers[lane][i.operands[0]] = values[int(i.operands[2])]

    block.together(thread, i, work)


def _warp_barrier(block: Block, thread: int, i: Instruction) -> None:
    block.together(thread, i, lambda _: None)


def _block_barrier(block: Block, thread: int, i: Instruction) -> None:
    count = int(i.operands[1]) if len(i.operands) > 1 else block.program.threads
    block.meet(i.operands[0], thread, count)


def _start(block: Block, thread: int, i: Instruction) -> None:
    at, count = block.address(thread, i.operands[0]), int(i.operands[1])
    if at % 8 or at + 8 > block.shared.size or any(abs(at - b) < 8 for b in block.barriers):
        raise Stuck(f"a barrier at {at} lies badly")
    block.barriers[at] = MemoryBarrier(count, count)


def _expect(block: Block, thread: int, i: Instruction) -> None:
    barrier = block.barrier(thread, i.operands[1])
    barrier.bytes += int(i.operands[2])
    barrier.pending -= 1
    barrier.settle()


def _arrive(block: Block, thread: int, i: Instruction) -> None:
    barrier = block.barrier(thread, i.operands[1])
    barrier.pending -= 1
    barrier.settle()


def _try_wait(block: Block, thread: int, i: Instruction) -> None:
    barrier, parity = block.barrier(thread, i.operands[1]), block.value(thread, i.operands[2])
    block.registers[thread][i.operands[0]] = 1
    block.waiting[thread] = lambda: barrier.phase & 1 != parity


def _load_box(block: Block, thread: int, i: Instruction) -> None:
    found = re.fullmatch(r"\[(\S+), \{(.*)\}\]", i.operands[1])
    assert found is not None
    coordinate = tuple(_signed(block.value(thread, c)) for c in registers_of(found.group(2)))
    tensor = _tensor(block, thread, found.group(1))
    block.load_box(tensor, coordinate, block.address(thread, i.operands[0]), block.barrier(thread, i.operands[2]))


def _store_box(block: Block, thread: int, i: Instruction) -> None:
    found = re.fullmatch(r"\[(\S+), \{(.*)\}\]", i.operands[0])
    assert found is not None
    coordinate = tuple(_signed(block.value(thread, c)) for c in registers_of(found.group(2)))
    tensor = _tensor(block, thread, found.group(1))
    block.groups[thread].append(block.store_box(tensor, coordinate, block.address(thread, i.operands[1])))


def _tensor(block: Block, thread: int, register: str) -> Any:
    return block.tensors[sorted(block.tensors)[block.value(thread, register) - PARAMETER_BASE]]


def _signed(value: int) -> int:
    return value - 2**32 if value >= 2**31 else value


def _wait_stores(block: Block, thread: int, i: Instruction) -> None:
    for store in block.groups[thread]:
        store()
    block.groups[thread] = []


def _fence(block: Block, thread: int, i: Instruction) -> None:
    block.unfenced[block.unfenced == thread + 1] = 0


def _width(i: Instruction) -> int:
    found = re.search(r"[bu](\d+)$", i.operation)
    assert found is not None
    return int(found.group(1)) // 8


def _write(block: Block, thread: int, i: Instruction) -> None:
    at, size, names = block.address(thread, i.operands[0]), _width(i), registers_of(i.operands[1])
    if at % (size * len(names)):
        raise Stuck(f"{i.text} to {at}")
    block.write_shared(thread, at, b"".join(block.value(thread, n).to_bytes(size, "little") for n in names))


def _read(block: Block, thread: int, i: Instruction) -> None:
    at, size = block.address(thread, i.operands[1]), _width(i)
    block.registers[thread][i.operands[0]] = int.from_bytes(block.shared[at : at + size].tobytes(), "little")


def _write_global(block: Block, thread: int, i: Instruction) -> None:
    at, size = block.address(thread, i.operands[0]) - C_ADDRESS, _width(i)
    memory = block.tensors["c"].memory
    if at < 0 or at + size > memory.size:
        raise Stuck(f"a store to byte {at} of C")
    memory[at : at + size] = list(block.value(thread, i.operands[1]).to_bytes(size, "little"))


def _store_matrices(block: Block, thread: int, i: Instruction) -> None:
    names = registers_of(i.operands[1])

    def work(lanes: list[int]) -> None:
        for matrix, name in enumerate(names):
            for lane, one in enumerate(lanes):
                # Lane 4r + c holds elements 2c and 2c + 1 of row r, whose address lane 8 * matrix + r gives.
                at = block.address(lanes[8 * matrix + lane // 4], i.operands[0])
                if at % 16:
                    raise Stuck(f"{i.text} to {at}")
                block.write_shared(one, at + 4 * (lane % 4), block.value(one, name).to_bytes(4, "little"))

    block.together(thread, i, work)


@lru_cache(maxsize=4096)
def _addresses(unit: str, word: int, major: Major, mn: int, k: int, bits: int) -> NDArray[np.int64]:  # noqa: PLR0917
    return read_addresses(MatrixDescriptor.from_word(unit, word), major, mn, k, bits)


def _matrix(block: Block, places: NDArray[np.int64], kind: str) -> NDArray[np.float64]:
    size = BITS[kind] // 8
    return decode(words(block.shared[places[..., None] + np.arange(size)], size), kind)


def _multiply(block: Block, thread: int, i: Instruction) -> None:
    found = re.fullmatch(r"wgmma.*\.m64n(\d+)k(\d+)\.(\w+)\.(\w+)\.(\w+)", i.operation)
    assert found is not None
    n, k = int(found.group(1)), int(found.group(2))
    sums, a_kind, b_kind = (_NAMES.get(name, name) for name in found.groups()[2:])
    names, flags = registers_of(i.operands[0]), i.operands[4:]
    majors = [("K", "MN")[int(f)] for f in flags[2:4]] if len(flags) == 4 else ["K", "K"]

    def work(lanes: list[int]) -> None:
        (a_word,), (b_word,), (adds,) = ({block.value(t, i.operands[x]) for t in lanes} for x in (1, 2, 3))
        rows = 16 * (lanes[0] // LANES % 4)

        def multiply() -> None:
            a = _matrix(block, _addresses("wgmma", a_word, majors[0], 64, k, BITS[a_kind])[rows : rows + 16], a_kind)
            b = _matrix(block, _addresses("wgmma", b_word, majors[1], n, k, BITS[b_kind]), b_kind)
            lane, r = np.arange(LANES)[:, None], np.arange(len(names))[None, :]
            row, column = lane // 4 + 8 * (r // 2 % 2), 8 * (r // 4) + 2 * (lane % 4) + r % 2  # WG-15
            held = np.array([[block.registers[t][name] for name in names] for t in lanes], dtype=np.uint32)
            result = encode((decode(held, sums) if adds else 0.0) + (a @ b.T)[row, column], sums).tolist()
            for t, values in zip(lanes, result, strict=True):
                block.registers[t].update(zip(names, values, strict=True))

        groups = block.warp_work.get(lanes[0] // LANES)
        if not groups:
            raise Stuck("wgmma without a fence")
        groups[-1].append(multiply)

    block.together(thread, i, work)


def _wgmma_fence(block: Block, thread: int, i: Instruction) -> None:
    def work(lanes: list[int]) -> None:
        block.warp_work.setdefault(lanes[0] // LANES, [[]])

    block.together(thread, i, work)


def _wgmma_commit(block: Block, thread: int, i: Instruction) -> None:
    block.together(thread, i, lambda lanes: block.warp_work[lanes[0] // LANES].append([]))


def _wgmma_wait(block: Block, thread: int, i: Instruction) -> None:
    def work(lanes: list[int]) -> None:
        groups = block.warp_work[lanes[0] // LANES]
        while len(groups) - 1 > int(i.operands[0]):
            for multiply in groups.pop(0):
                multiply()

    block.together(thread, i, work)


def _allocate(block: Block, thread: int, i: Instruction) -> None:
    def work(lanes: list[int]) -> None:
        count = int(i.operands[1])
        if count not in {32, 64, 128, 256, 512} or block.allocated:
            raise Stuck(f"{count} columns of tensor memory")
        first = (512 - count) // 32 * 32  # anywhere but where a kernel that forgets the address would look
        block.allocated = first, count
        at = block.address(lanes[0], i.operands[0])
        block.shared[at : at + 4] = list(first.to_bytes(4, "little"))

    block.together(thread, i, work)


def _free(block: Block, thread: int, i: Instruction) -> None:
    def work(lanes: list[int]) -> None:
        if block.allocated != (block.value(lanes[0], i.operands[0]), int(i.operands[1])) or block.queue:
            raise Stuck("tensor memory is freed that is in use, or another one")
        block.allocated = None

    block.together(thread, i, work)


_FORMATS = {"f16": ("fp16", "bf16"), "tf32": ("", "", "tf32"), "f8f6f4": ("e4m3", "e5m2"), "i8": ("u8", "i8")}


def _issue(block: Block, thread: int, i: Instruction) -> None:
    kind = i.operation.split("::")[-1]
    to, a_word, b_word, word, adds = (
        block.address(thread, o) if o.startswith("[") else block.value(thread, o) for o in i.operands
    )
    m, n, k = 16 * (word >> 24 & 31), 8 * (word >> 17 & 63), 256 // BITS[_FORMATS[kind][-1]]
    a_kind, b_kind = (_FORMATS[kind][word >> bit & 7] for bit in (7, 10))
    sums = ("fp16", "fp32", "i32")[word >> 4 & 3]
    majors = [("K", "MN")[word >> bit & 1] for bit in (15, 16)]
    row = np.arange(m)
    lanes = row if m == 128 else 32 * (row // 16) + row % 16  # TC-27
    columns = (to & 0xFFFF) + np.arange(n)

    def multiply() -> None:
        if block.allocated is None or not 0 <= columns[0] - block.allocated[0] <= block.allocated[1] - n:
            raise Stuck("sums leave the allocated columns")
        a = _matrix(block, _addresses("tcgen05", a_word, majors[0], m, k, BITS[a_kind]), a_kind)
        b = _matrix(block, _addresses("tcgen05", b_word, majors[1], n, k, BITS[b_kind]), b_kind)
        place = np.ix_(lanes, columns)
        old = decode(block.tensor_memory[place], sums) if adds else 0.0
        block.tensor_memory[place] = encode(old + a @ b.T, sums)

    block.queue.append(multiply)


def _commit(block: Block, thread: int, i: Instruction) -> None:
    barrier = block.barrier(thread, i.operands[0])

    def arrive() -> None:
        barrier.pending -= 1
        barrier.settle()

    block.queue.append(arrive)


def _fetch(block: Block, thread: int, i: Instruction) -> None:
    names = registers_of(i.operands[0])

    def work(lanes: list[int]) -> None:
        (at,) = {block.address(t, i.operands[1]) for t in lanes}
        first = at >> 16
        if first != 32 * (lanes[0] // LANES % 4):
            raise Stuck("a warp fetches lanes of another one")
        for lane, t in enumerate(lanes):
            for j, name in enumerate(names):
                block.registers[t][name] = int(block.tensor_memory[first + lane, (at & 0xFFFF) + j])

    block.together(thread, i, work)


def _nothing(block: Block, thread: int, i: Instruction) -> None:
    pass


def _trap(block: Block, thread: int, i: Instruction) -> None:
    raise Stuck("trap")


HANDLERS: dict[str, Handler] = {
    "add.u32": _computed(operator.add),
    "add.u64": _computed(operator.add, LONG),
    "sub.u32": _computed(operator.sub),
    "mul.lo.u32": _computed(operator.mul),
    "mul.lo.u64": _computed(operator.mul, LONG),
    "mul.wide.u32": _computed(operator.mul, LONG),
    "mad.lo.u32": _computed(lambda a, b, c: a * b + c),
    "mad.lo.u64": _computed(lambda a, b, c: a * b + c, LONG),
    "div.u32": _computed(operator.floordiv),
    "rem.u32": _computed(operator.mod),
    "min.u32": _computed(min),
    "and.b32": _computed(operator.and_),
    "and.pred": _computed(operator.and_),
    "or.b32": _computed(operator.or_),
    "xor.b32": _computed(operator.xor),
    "shl.b32": _computed(operator.lshift),
    "shr.u32": _computed(operator.rshift),
    "bfe.u32": _computed(lambda a, at, count: a >> at & (1 << count) - 1),
    "cvt.u64.u32": _computed(lambda a: a),
    "cvt.u32.u16": _computed(lambda a: a),
    "cvt.u16.u32": _computed(lambda a: a, 0xFFFF),
    "cvta.param.u64": _computed(lambda a: a, LONG),
    "cvta.to.global.u64": _computed(lambda a: a, LONG),
    "cvt.rn.bf16x2.f32": _convert("bf16", 16),
    "cvt.rn.f16x2.f32": _convert("fp16", 16),
    "cvt.rn.satfinite.e4m3x2.f32": _convert("e4m3", 8),
    "cvt.rn.satfinite.e5m2x2.f32": _convert("e5m2", 8),
    "cvt.pack.sat.s8.s32.b32": _pack,
    "setp": _compare,
    "mov": _move,
    "ld.param": _parameter,
    "ld.shared": _read,
    "st.shared": _write,
    "st.global": _write_global,
    "stmatrix": _store_matrices,
    "shfl.sync.idx": _shuffle,
    "bar.warp.sync": _warp_barrier,
    "bar.sync": _block_barrier,
    "fence.proxy.async.shared::cta": _fence,
    "fence.mbarrier_init": _nothing,
    "setmaxnreg": _nothing,
    "trap": _trap,
    "mbarrier.init": _start,
    "mbarrier.arrive.expect_tx": _expect,
    "mbarrier.arrive": _arrive,
    "mbarrier.try_wait": _try_wait,
    "cp.async.bulk.tensor.2d.shared::cluster": _load_box,
    "cp.async.bulk.tensor.2d.global": _store_box,
    "cp.async.bulk.commit_group": _nothing,
    "cp.async.bulk.wait_group": _wait_stores,
    "wgmma.fence": _wgmma_fence,
    "wgmma.mma_async": _multiply,
    "wgmma.commit_group": _wgmma_commit,
    "wgmma.wait_group": _wgmma_wait,
    "tcgen05.alloc": _allocate,
    "tcgen05.dealloc": _free,
    "tcgen05.relinquish_alloc_permit": _nothing,
    "tcgen05.fence::before_thread_sync": _nothing,
    "tcgen05.fence::after_thread_sync": _nothing,
    "tcgen05.mma": _issue,
    "tcgen05.commit": _commit,
    "tcgen05.ld": _fetch,
    "tcgen05.wait::ld": _nothing,
}
