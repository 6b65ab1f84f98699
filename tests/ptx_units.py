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
from ptx_machine import (
    LANES,
    LONG,
    MAP_BYTES,
    PARAMETER_BASE,
    RANK_BITS,
    SHARED_BASE,
    WORD,
    Block,
    Instruction,
    MemoryBarrier,
    Stuck,
    registers_of,
    words,
)

from legalsat.analyses.matrix_layout import read_addresses
from legalsat.options import Major
from legalsat.units.matrix_descriptor import MatrixDescriptor

Handler = Callable[[Block, int, Instruction], None]
_NAMES = {"f16": "fp16", "s8": "i8", "f32": "fp32", "s32": "i32"}
_COMPARED = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "ge": operator.ge,
    "gt": operator.gt,
}


def _computed(work: Callable[..., int], mask: int = WORD) -> Handler:
    def handler(block: Block, thread: int, i: Instruction) -> None:
        values = [block.value(thread, o) for o in i.operands[1:]]
        block.registers[thread][i.operands[0]] = work(*values) & mask

    return handler


def _signed_work(work: Callable[..., int], mask: int = WORD) -> Handler:
    return _computed(lambda *values: work(*map(_signed, values)), mask)


def _compare(block: Block, thread: int, i: Instruction) -> None:
    comparison, *joined, kind = i.operation.split(".")[1:]
    a, b = (block.value(thread, o) for o in i.operands[1:3])
    if kind == "s32":
        a, b = _signed(a), _signed(b)
    found = int(_COMPARED[comparison](a, b))
    if joined:
        assert joined == ["and"]
        found &= block.value(thread, i.operands[3])
    block.registers[thread][i.operands[0]] = found


def _select(block: Block, thread: int, i: Instruction) -> None:
    one, other, chooses = (block.value(thread, o) for o in i.operands[1:])
    block.registers[thread][i.operands[0]] = (one if chooses else other) & WORD


def _move(block: Block, thread: int, i: Instruction) -> None:
    to, source = i.operands
    if to.startswith("{"):
        low, high = registers_of(to)
        value = block.value(thread, source)
        block.registers[thread].update({low: value & 0xFFFF, high: value >> 16})
        return
    if source.startswith("{"):
        low, high = registers_of(source)
        value = block.value(thread, low) | block.value(thread, high) << 16
    elif source in block.given.parameters:
        value = block.given.parameters[source]
    else:
        value = block.value(thread, source) & LONG
    block.registers[thread][to] = value


def _parameter(block: Block, thread: int, i: Instruction) -> None:
    block.registers[thread][i.operands[0]] = block.given.parameters[i.operands[1].strip("[]")]


def _float(work: Callable[[Any, Any], Any]) -> Handler:
    """Return arithmetic on two floats of 32 bits."""

    def handler(block: Block, thread: int, i: Instruction) -> None:
        a, b = (np.uint32(block.value(thread, o)).view(np.float32) for o in i.operands[1:])
        block.registers[thread][i.operands[0]] = int(np.float32(work(a, b)).view(np.uint32))

    return handler


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
        place = int(i.operands[2])
        for number, lane in enumerate(lanes):
            before = number - place if number >= place else number  # of the first lanes their own
            block.registers[lane][i.operands[0]] = values[place if ".idx" in i.operation else before]

    block.together(thread, i, work)


def _warp_barrier(block: Block, thread: int, i: Instruction) -> None:
    block.together(thread, i, lambda _: None)


def _block_barrier(block: Block, thread: int, i: Instruction) -> None:
    count = int(i.operands[1]) if len(i.operands) > 1 else block.program.threads
    waits = i.operation.split(".")[1] == "sync"
    block.meet(str(block.value(thread, i.operands[0])), thread, count, waits=waits)


def _cluster_arrive(block: Block, thread: int, i: Instruction) -> None:
    first = block.cluster[0]
    here = first.arrived.setdefault("cluster", [])
    here.append(thread)
    if len(here) == block.program.threads * len(block.cluster):
        del first.arrived["cluster"]
    block.registers[thread]["cluster"] = here


def _cluster_wait(block: Block, thread: int, i: Instruction) -> None:
    here = block.registers[thread].pop("cluster")
    block.waiting[thread] = lambda: block.cluster[0].arrived.get("cluster") is not here


def _map_address(block: Block, thread: int, i: Instruction) -> None:
    at, rank = (block.value(thread, o) for o in i.operands[1:])
    block.registers[thread][i.operands[0]] = at % (1 << RANK_BITS) + (rank + 1 << RANK_BITS)


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
    to, barrier = block.address(thread, i.operands[0]), block.address(thread, i.operands[2])
    mask = block.value(thread, i.operands[3]) if "multicast" in i.operation else 1 << block.rank
    for rank, one in enumerate(block.cluster):
        if mask >> rank & 1:
            one.load_box(tensor, coordinate, to, one.barrier_at(barrier))


def _store_box(block: Block, thread: int, i: Instruction) -> None:
    found = re.fullmatch(r"\[(\S+), \{(.*)\}\]", i.operands[0])
    assert found is not None
    coordinate = tuple(_signed(block.value(thread, c)) for c in registers_of(found.group(2)))
    tensor = _tensor(block, thread, found.group(1))
    block.groups[thread][-1].append(block.store_box(tensor, coordinate, block.address(thread, i.operands[1])))


def _tensor(block: Block, thread: int, register: str) -> Any:
    number, within = divmod(block.value(thread, register) - PARAMETER_BASE, MAP_BYTES)
    assert not within
    return block.given.maps[number]


def _signed(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def _commit_stores(block: Block, thread: int, i: Instruction) -> None:
    block.groups[thread].append([])


def _wait_stores(block: Block, thread: int, i: Instruction) -> None:
    groups = block.groups[thread]
    while len(groups) - 1 > int(i.operands[0]):
        for store in groups.pop(0):
            store()


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
    names, size = registers_of(i.operands[0]), _width(i)
    owner, at = block.owner(block.address(thread, i.operands[1]))
    if at % (size * len(names)) or at < SHARED_BASE or at + size * len(names) > owner.shared.size:
        raise Stuck(f"{i.text} from {at}")
    for number, name in enumerate(names):
        one = owner.shared[at + number * size :][:size]
        block.registers[thread][name] = int.from_bytes(one.tobytes(), "little")


def _read_global(block: Block, thread: int, i: Instruction) -> None:
    size = _width(i)
    memory, at = block.given.memory(block.address(thread, i.operands[1]), size)
    block.registers[thread][i.operands[0]] = int.from_bytes(memory[at : at + size].tobytes(), "little")


def _write_global(block: Block, thread: int, i: Instruction) -> None:
    names, size = registers_of(i.operands[1]), _width(i)
    to = block.address(thread, i.operands[0])
    if to % (size * len(names)):
        raise Stuck(f"{i.text} to {to:#x}")
    memory, at = block.given.memory(to, size * len(names))
    data = b"".join((block.value(thread, name) & (1 << 8 * size) - 1).to_bytes(size, "little") for name in names)
    memory[at : at + len(data)] = list(data)


def _store_matrices(block: Block, thread: int, i: Instruction) -> None:
    names, turned = registers_of(i.operands[1]), ".trans." in i.text

    def work(lanes: list[int]) -> None:
        for matrix, name in enumerate(names):
            for lane, one in enumerate(lanes):
                if turned:  # lane 4c + r holds elements c of rows 2r and 2r + 1
                    value = block.value(one, name).to_bytes(4, "little")
                    for n in range(2):
                        at = block.address(lanes[8 * matrix + lane % 4 * 2 + n], i.operands[0])
                        if at % 16:
                            raise Stuck(f"{i.text} to {at}")
                        block.write_shared(one, at + lane // 4 * 2, value[2 * n : 2 * n + 2])
                    continue
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
    names, flags, held = registers_of(i.operands[0]), i.operands[4:], i.operands[1].startswith("{")
    majors: list[Major] = ["K", "K"]
    if len(flags) > 2:
        majors = (["K"] if held else []) + [("K", "MN")[int(f)] for f in flags[2:]]  # type: ignore[assignment]

    def work(lanes: list[int]) -> None:
        (b_word,), (adds,) = ({block.value(t, i.operands[x]) for t in lanes} for x in (2, 3))
        (a_word,) = {0} if held else {block.value(t, i.operands[1]) for t in lanes}
        rows = 16 * (lanes[0] // LANES % 4)

        def multiply() -> None:
            if held:
                a = _fragment(block, lanes, registers_of(i.operands[1]), a_kind)
            else:
                a = _matrix(
                    block, _addresses("wgmma", a_word, majors[0], 64, k, BITS[a_kind])[rows : rows + 16], a_kind
                )
            b = _matrix(block, _addresses("wgmma", b_word, majors[1], n, k, BITS[b_kind]), b_kind)
            lane, r = np.arange(LANES)[:, None], np.arange(len(names))[None, :]
            row, column = lane // 4 + 8 * (r // 2 % 2), 8 * (r // 4) + 2 * (lane % 4) + r % 2  # WG-15
            old = np.array([[block.registers[t][name] for name in names] for t in lanes], dtype=np.uint32)
            with np.errstate(invalid="ignore"):
                result = encode((decode(old, sums) if adds else 0.0) + (a @ b.T)[row, column], sums).tolist()
            for t, values in zip(lanes, result, strict=True):
                block.registers[t].update(zip(names, values, strict=True))

        groups = block.warp_work.get(lanes[0] // LANES)
        if not groups:
            raise Stuck("wgmma without a fence")
        groups[-1].append(multiply)

    block.together(thread, i, work)


def _fragment(block: Block, lanes: list[int], names: list[str], kind: str) -> NDArray[np.float64]:
    """Return 16 rows of A that a warp holds in registers: words of row lane / 4 and of that eight rows further down."""
    size = BITS[kind] // 8
    held = np.array([[block.registers[t][name] for name in names] for t in lanes], dtype=np.uint32)
    raw = np.zeros((16, 8), dtype=np.uint32)  # eight words a row (WG-16)
    for lane in range(LANES):
        for j in range(4):
            raw[lane // 4 + 8 * (j % 2), lane % 4 + 4 * (j // 2)] = held[lane, j]
    return decode(words(raw.view(np.uint8).reshape(16, -1, size), size), kind)


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
        with np.errstate(invalid="ignore"):
            old = decode(block.tensor_memory[place], sums) if adds else 0.0
            block.tensor_memory[place] = encode(old + a @ b.T, sums)

    block.queue.append(multiply)


def _commit(block: Block, thread: int, i: Instruction) -> None:
    at = block.address(thread, i.operands[0])
    mask = block.value(thread, i.operands[1]) if "multicast" in i.operation else 1 << block.rank
    barriers = [one.barrier_at(at) for rank, one in enumerate(block.cluster) if mask >> rank & 1]

    def arrive() -> None:
        for barrier in barriers:
            barrier.pending -= 1
            barrier.settle()

    block.queue.append(arrive)


# Which row and column of tensor memory a lane's register holds (TC-26).
FETCHED: dict[str, Callable[[int, int], tuple[int, int]]] = {
    "32x32b": lambda lane, register: (lane, register),
    "16x256b": lambda lane, register: (
        lane // 4 + register // 2 % 2 * 8,
        register // 4 * 8 + lane % 4 * 2 + register % 2,
    ),
}


def _fetch(block: Block, thread: int, i: Instruction) -> None:
    names = registers_of(i.operands[0])
    shape = next(one for one in FETCHED if f".{one}." in f"{i.operation}.")
    place = FETCHED[shape]

    def work(lanes: list[int]) -> None:
        (at,) = {block.address(t, i.operands[1]) for t in lanes}
        first = at >> 16
        half = shape.startswith("16x") and first & 16  # of a warp's lanes, which shapes of 16 fetch
        if first - half != 32 * (lanes[0] // LANES % 4):
            raise Stuck("a warp fetches lanes of another one")
        for lane, t in enumerate(lanes):
            for j, name in enumerate(names):
                row, column = place(lane, j)
                block.registers[t][name] = int(block.tensor_memory[first + row, (at & 0xFFFF) + column])

    block.together(thread, i, work)


def _nothing(block: Block, thread: int, i: Instruction) -> None:
    pass


def _trap(block: Block, thread: int, i: Instruction) -> None:
    raise Stuck("trap")


HANDLERS: dict[str, Handler] = {
    "add.u32": _computed(operator.add),
    "add.s32": _computed(operator.add),
    "add.s64": _computed(operator.add, LONG),
    "add.f32": _float(operator.add),
    "mul.f32": _float(operator.mul),
    "sub.s32": _computed(operator.sub),
    "sub.s64": _computed(operator.sub, LONG),
    "mul.lo.s32": _computed(operator.mul),
    "mul.lo.s64": _computed(operator.mul, LONG),
    "mul.wide.s32": _signed_work(operator.mul, LONG),
    "mad.lo.s32": _computed(lambda a, b, c: a * b + c),
    "mad.wide.s32": _computed(lambda a, b, c: _signed(a) * _signed(b) + c, LONG),
    "mad.lo.s64": _computed(lambda a, b, c: a * b + c, LONG),
    "min.s32": _signed_work(min),
    "max.s32": _signed_work(max),
    "shr.u64": _computed(lambda a, by: a >> min(by, 64), LONG),
    "shl.b64": _computed(lambda a, by: a << min(by, 64), LONG),
    "shf.r.wrap.b32": _computed(lambda low, high, by: (high << 32 | low) >> (by & 31)),
    "cvt.s64.s32": _signed_work(lambda a: a, LONG),
    "cvt.u32.u64": _computed(lambda a: a),
    "selp": _select,
    "mapa.shared::cluster.u32": _map_address,
    "barrier.cluster.arrive": _cluster_arrive,
    "barrier.cluster.wait": _cluster_wait,
    "bar.arrive": _block_barrier,
    "griddepcontrol.wait": lambda block, thread, i: None,
    "griddepcontrol.launch_dependents": lambda block, thread, i: None,
    "ld.global": _read_global,
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
    "shr.b32": _computed(operator.rshift),
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
    "ld.shared::cluster": _read,
    "st.shared": _write,
    "st.global": _write_global,
    "stmatrix": _store_matrices,
    "shfl.sync.idx": _shuffle,
    "shfl.sync.up": _shuffle,
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
    **{f"cp.async.bulk.tensor.{rank}d.shared::cluster": _load_box for rank in range(2, 6)},
    **{f"cp.async.bulk.tensor.{rank}d.global": _store_box for rank in range(2, 6)},
    "cp.async.bulk.commit_group": _commit_stores,
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
