"""Matrix units on the machine: which shared memory wgmma and tcgen05 read, when they are done, and tensor memory."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legalsat.analyses.matrix_layout import read_addresses
from legalsat.analyses.ptx.contract import ARRIVAL, UNWRITTEN, Undecided
from legalsat.analyses.ptx.instruction import Instruction, immediate, vector
from legalsat.analyses.ptx_machine import copies, fences, units
from legalsat.analyses.ptx_machine.guards import active, guard_of
from legalsat.analyses.ptx_machine.machine import (
    BLOCK,
    PARK,
    TENSOR_COLUMNS,
    TENSOR_STRIPS,
    Operation,
    Part,
    Run,
    Wait,
    Warp,
)
from legalsat.analyses.ptx_machine.memory import SHARED_BYTES, distinct, in_words
from legalsat.analyses.ptx_machine.shadow import Cells
from legalsat.errors import InvalidInput, LegalSatError
from legalsat.options import MAJORS, Major
from legalsat.units.matrix_descriptor import MatrixDescriptor

BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8}  # of operands of wgmma
KIND_BITS = {"f16": 16, "tf32": 32, "f8f6f4": 8, "i8": 8, "mxf8f6f4": 8, "mxf4": 4, "mxf4nvf4": 4}
STRIP_LANES = 16

_STEP_BYTES = 32  # of K that one instruction takes
_ROWS, _ROWS_OF_WARP = 64, 16  # of A of a wgmma, and those that a warp's sums are of
# Registers of a lane for each repetition, and so columns (FACTS TC-25).
_COLUMNS = {"32x32b": 1, "16x64b": 2, "16x128b": 4, "16x256b": 8, "16x32bx2": 1}


def steering(i: Instruction) -> tuple[str, ...]:
    """Return the operands that must be known."""
    what = i.parts[1]
    if i.base == "wgmma":
        if what != "mma_async":
            return i.operands
        return tuple(one for one in i.operands[1:3] if not one.startswith("{"))
    known = {"ld": slice(1, 2), "st": slice(1), "mma": slice(4)}
    return i.operands[known.get(what, slice(None))]


def make(program: Any, i: Instruction) -> Operation:
    """Return what an instruction of a matrix unit does."""
    what = i.parts[1]
    if i.base == "wgmma":
        makers = {"fence": _fence, "mma_async": _multiply, "commit_group": _commit, "wait_group": _wait}
        return makers[what](program, i) if what in makers else units.refused(program, i)
    what = what.split("::")[0]
    makers = {
        "alloc": _allocate,
        "dealloc": _free,
        "relinquish_alloc_permit": _nothing,
        "fence": fences.make_tensor_fence,
        "mma": _issue,
        "commit": _commit_to,
        "ld": _fetch,
        "st": _put,
        "wait": _wait_tensor,
        "cp": _copy,
    }
    return makers[what](program, i) if what in makers else units.refused(program, i)


def _nothing(program: Any, i: Instruction) -> Operation:
    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        return None

    return operation


def _meets(warp: Warp, part: Part) -> bool:
    return part.mask == warp.live


def _pair(run: Run, warp: Warp, i: Instruction) -> tuple[int, ...]:
    """Return the CTAs in which an instruction works: that of the warp, or with cta_group::2 both of its pair."""
    if "cta_group::2" not in i.parts:
        return (warp.rank,)
    pair = warp.rank & ~1, warp.rank | 1
    if pair[1] >= len(run.living):
        raise Undecided(i.line, f"cta_group::2 in a cluster of {len(run.living)}")
    return pair


_Rows = tuple[int, int]  # of an operand: the first, and the one behind the last


@lru_cache(maxsize=512)
def _cells(  # noqa: PLR0917
    unit: str, word: int, major: Major, mn: int, bits: int, granule: int, rank: int, step: int, rows: _Rows
) -> NDArray[np.int64]:
    read = read_addresses(MatrixDescriptor.from_word(unit, word), major, mn, 8 * step // bits, bits)
    found: NDArray[np.int64] = distinct(read[slice(*rows)] // granule)
    if found[-1] >= SHARED_BYTES // granule:
        raise InvalidInput("it reads outside shared memory")
    found += rank * (SHARED_BYTES // granule)
    found.flags.writeable = False
    return found


def _operand(  # noqa: PLR0917
    run: Run, unit: str, word: int, major: Major, mn: int, bits: int, line: int, rank: int, step: int = _STEP_BYTES,
    rows: _Rows = (0, -1),
) -> Cells | None:  # fmt: skip
    """Return what a descriptor says in the shared memory of a CTA, `step` bytes of each row, of all rows or of some."""
    held, rows = run.program.operands, rows if rows[1] > 0 else (0, mn)
    key = word, rank, unit, major, mn, bits, step, rows
    cells = held.get(key)
    if cells is None:
        try:
            cells = held[key] = _cells(unit, word, major, mn, bits, run.order.granule, rank, step, rows)
        except LegalSatError as error:
            run.note(line, f"the matrix descriptor {word:#x} is not understood: {error}")
    return cells


def _read(  # noqa: PLR0917
    run: Run, warp: Warp, unit: str, cells: Cells | None, agent: int, epoch: int, line: int
) -> tuple[Cells, list[int]] | None:
    """Let a matrix unit read an operand.

    Returns:
        The cells, and the accesses that wrote them, 0 among them where nobody did; None where it is not understood.
    """
    if cells is None:
        return None
    order = run.order
    writers = order.read(order.shared, cells, warp.worker, agent, epoch, unit, line)
    if 0 not in writers or not (run.measures or run.sized):
        return cells, writers
    empty = order.shared.unwritten(cells)
    run.touched[empty] = True
    if run.sized:
        byte = in_words(int(empty[0]) * order.granule)
        order.find("read_before_full", line, f"a multiplication reads shared byte {byte}, {UNWRITTEN}")
    return cells, writers


# wgmma.


def _fence(program: Any, i: Instruction) -> Operation:
    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        if not _meets(warp, part):
            return PARK
        warp.wgmma_fenced = True
        warp.worker.meet()
        return None

    return operation


def _multiply(program: Any, i: Instruction) -> Operation:
    line, guard, operands = i.line, guard_of(program, i), i.operands
    shape = re.search(r"\.m64n(\d+)k\d+\.", i.name + ".")
    if shape is None or "sp" in i.parts:
        return units.refused(program, i)
    n = int(shape[1])
    bits = BITS.get(i.parts[-2], 0), BITS.get(i.parts[-1], 0)
    if not all(bits):
        return units.refused(program, i)
    sums = vector(operands[0])
    in_registers = operands[1].startswith("{")
    words = [program.source(one, 64, line) for one in operands[1:3] if not one.startswith("{")]
    flags = operands[4:]
    transposed = [f == "1" for f in flags[-2:]] if len(flags) >= 4 else [False, False]
    if in_registers:
        transposed = [False, len(flags) >= 3 and flags[-1] == "1"]
    majors = [MAJORS[t] for t in transposed]

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        if guard[0] >= 0 and not active(part, guard, line):
            return None
        if part.mask != warp.live:
            return PARK
        group = warp.groups["wgmma"]
        if not warp.wgmma_fenced:
            run.order.find("sums_not_fenced", line, "wgmma without a wgmma.fence since its sums were touched")
            warp.wgmma_fenced = True
        agent, rank = run.agent("wgmma", warp.group), warp.rank
        held = part.registers
        found = [one if type(one := held[w]) is int else units.one_address(part, w, 0, part.mask, line) for w in words]
        order, worker = run.order, warp.worker
        key = agent, group, *found
        if not order.read_by_peers(key, worker, line):
            trail, read, alone = worker.trail[line], [], False
            if not in_registers:
                a = _operand(run, "wgmma", found[0], majors[0], _ROWS, bits[0], line, rank)
                alone = a is not None and majors[0] == "K" and _reads_alone(run, warp, a, line)
                if alone:
                    first = _ROWS_OF_WARP * (warp.local % 4)
                    rows = first, first + _ROWS_OF_WARP
                    a = _operand(run, "wgmma", found[0], majors[0], _ROWS, bits[0], line, rank, rows=rows)
                read.append(_read(run, warp, "wgmma", a, agent, group, line))
            b = _operand(run, "wgmma", found[-1], majors[1], n, bits[1], line, rank)
            read.append(_read(run, warp, "wgmma", b, agent, group, line))
            operands = [one for one in read if one is not None]
            if len(operands) == len(read) and not alone:
                order.let_peers_know(key, operands, worker.trail[line] - trail, line)
        warp.open["wgmma"] = True
        sums_of = warp.sums
        if sums_of.get(sums[0]) != group:
            sums_of.update(dict.fromkeys(sums, group))
        warp.worker.meet()
        return None

    return operation


def _reads_alone(run: Run, warp: Warp, a: Cells, line: int) -> bool:
    """Do warps of a warpgroup store to A and not meet, so that each is taken to read its own 16 rows of it alone?

    FlashAttention-3 lets each warp multiply the rows of P that it has written, and only its lanes meet before
    (FACTS WG-04: the sums of a warp are those of its rows).
    """
    order, peers, alone = run.order, [one.worker for one in run.warpgroups[warp.group]], False
    agents = {agent: one for one in peers for agent in (one.index, one.single)}
    for number in order.shared.writers_of(order.shared.of(a)):
        access = order.accesses[number]
        agent, epoch = access.agent, access.epoch
        writer = agents.get(agent) if access.kind == "st" else None
        if writer is not None and any(one.known[agent] <= epoch for one in peers if one is not writer):
            alone = True
            if writer is not warp.worker and warp.worker.known[agent] <= epoch:
                message = "a wgmma reads rows of A that another warp of its warpgroup wrote, with no meeting between"
                order.find("rows_not_met", line, message, f"written at line {access.line}")
    return alone


def _commit(program: Any, i: Instruction) -> Operation:
    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        if not _meets(warp, part):
            return PARK
        warp.groups["wgmma"] += 1
        warp.open["wgmma"] = False
        warp.worker.meet()
        warp.closed.append(warp.worker.passed_on(warp.live))
        return None

    return operation


def _wait(program: Any, i: Instruction) -> Operation:
    line = i.line
    pending = program.source(i.operands[0], 32, line)

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        if not _meets(warp, part):
            return PARK
        left = units.one_address(part, pending, 0, part.mask, line)
        done = max(warp.retired["wgmma"], warp.groups["wgmma"] - left)
        others = run.warpgroups[warp.group]
        if any(other.groups["wgmma"] < done for other in others):
            # A warpgroup multiplies together: what one warp sees done, all have begun.
            part.blocked = Wait(done, warps=others)
            return BLOCK
        for other in others if done else ():
            if other is not warp:
                warp.worker.learn(other.closed[done - 1])
        warp.retired["wgmma"] = done
        if warp.sums:
            left_over = max(warp.sums.values()) >= done
            warp.sums = {name: group for name, group in warp.sums.items() if group >= done} if left_over else {}
        agent, clock = run.agent("wgmma", warp.group), warp.worker.known
        clock[agent] = max(clock[agent], done)
        warp.worker.meet()
        return None

    return operation


# tcgen05.


def _allocate(program: Any, i: Instruction) -> Operation:
    line, guard = i.line, guard_of(program, i)
    place: tuple[int, int] = program.address(i.operands[0], line)
    columns = program.source(i.operands[1], 32, line)

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        lanes = active(part, guard, line)
        if not lanes:
            return None
        if not _meets(warp, part):
            return PARK
        count = units.one_address(part, columns, 0, part.mask, line)
        if count not in {32, 64, 128, 256, 512}:
            run.order.find("tensor_memory_misused", line, f"{count} columns of tensor memory, no power of two from 32")
        taken: set[int] = set()
        for (rank, begin), (width, _) in run.allocated.items():
            taken.update(range(begin, begin + width) if rank == warp.rank else ())
        free = [b for b in range(0, TENSOR_COLUMNS - count + 1, 32) if not taken & set(range(b, b + count))]
        if not free:
            raise Undecided(line, f"{count} columns of tensor memory are not free")
        begin = free[0]
        run.allocated[warp.rank, begin] = count, line
        address = units.shared_place(part, *place, lanes, line)
        if not 0 <= address <= run.shared_bytes - 4:
            raise Undecided(line, "an address lies outside shared memory")
        order, worker = run.order, warp.worker
        order.write(order.shared, order.cells(address, 4), worker, worker.index, worker.time, "st", line)
        run.store_values(address, 4, begin, part.mask)
        worker.meet()
        return None

    return operation


def _free(program: Any, i: Instruction) -> Operation:
    line, guard = i.line, guard_of(program, i)
    place = program.source(i.operands[0], 32, line)
    columns = program.source(i.operands[1], 32, line)

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        lanes = active(part, guard, line)
        if not lanes:
            return None
        if not _meets(warp, part):
            return PARK
        begin = units.one_address(part, place, 0, part.mask, line)
        count = units.one_address(part, columns, 0, part.mask, line)
        if run.allocated.get((warp.rank, begin), (0, 0))[0] != count:
            run.order.find(
                "tensor_memory_misused", line, f"{count} columns from {begin} are freed, which were not allocated"
            )
            return None
        order, worker = run.order, warp.worker
        cells = _columns(begin, count, warp.rank)
        fences.check_fences(run, warp, cells, worker.index, fences.FREED, line)
        order.write(run.tensor, cells, worker, worker.index, worker.time, "free", line)
        del run.allocated[warp.rank, begin]
        worker.meet()
        return None

    return operation


_ALL_STRIPS = tuple(range(TENSOR_STRIPS))


@lru_cache(maxsize=512)
def _columns(first: int, count: int, rank: int, strips: tuple[int, ...] = _ALL_STRIPS) -> NDArray[np.int64]:
    """Return the cells of a CTA's tensor memory in these columns and strips of 16 lanes."""
    columns = np.arange(first, min(first + count, TENSOR_COLUMNS)) + rank * TENSOR_STRIPS * TENSOR_COLUMNS
    found = np.concatenate([TENSOR_COLUMNS * strip + columns for strip in strips])
    found.flags.writeable = False
    return found


@lru_cache(maxsize=512)
def _halves(first: int, count: int, half: int, rank: int, strips: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the cells in some columns and in as many others, `half` columns on."""
    found: NDArray[np.int64] = distinct(
        np.concatenate([_columns(one, count, rank, strips) for one in (first, first + half)])
    )
    found.flags.writeable = False
    return found


def _unit(run: Run, warp: Warp) -> int:
    return run.agent("tcgen05", warp.index)


def _issue(program: Any, i: Instruction) -> Operation:
    line, guard, operands = i.line, guard_of(program, i), i.operands
    kind = next((p.split("::")[1] for p in i.parts if p.startswith("kind::")), "")
    if kind not in KIND_BITS or "sp" in i.parts or "ws" in i.parts:
        return units.refused(program, i)
    bits, scaled = KIND_BITS[kind], kind.startswith("mx")
    to: tuple[int, int] = program.address(operands[0], line)
    a_in_tensor = operands[1].startswith("[")
    a: tuple[int, int] = (
        program.address(operands[1], line) if a_in_tensor else (program.source(operands[1], 64, line), 0)
    )
    b, idesc = program.source(operands[2], 64, line), program.source(operands[3], 32, line)

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        lanes = active(part, guard, line)
        if not lanes:
            return None
        order, worker, agent = run.order, warp.worker, _unit(run, warp)
        word = units.one_address(part, idesc, 0, lanes, line)
        n = 8 * (word >> 17 & 63)
        m = 128 * (word >> 27 & 3) if scaled else 16 * (word >> 24 & 31)
        if not n:
            keys = program.conditions.computed_from(operands[3])
            whose = f"{', '.join(sorted(keys))} decides the instruction descriptor, not given: it" if keys else ""
            run.note(line, f"{whose or 'the instruction descriptor'} is {word:#x}, which has no columns")
            return None
        majors = [MAJORS[word >> bit & 1] for bit in (15, 16)]
        time = warp.counts.get("tcgen05", 0)
        warp.counts["tcgen05"] = time + 1
        lane, target = divmod(units.one_address(part, *to, lanes, line), 1 << 16)
        first = units.one_address(part, *a, lanes, line)
        second = units.one_address(part, b, 0, lanes, line)
        pair = _pair(run, warp, i)
        # A pair shares rows of A and columns of B evenly; of 128 rows each CTA holds 64, in half the columns.
        rows, of_b = (m or 128 * len(pair)) // len(pair), n // len(pair)
        held = n // 2 if len(pair) == 2 and rows == 64 else n
        for rank in pair:
            if a_in_tensor:
                cells = _columns(first & 0xFFFF, _STEP_BYTES // 4, rank)
                fences.check_fences(run, warp, cells, agent, "tcgen05", line)
                order.read(run.tensor, cells, worker, agent, time, "tcgen05", line)
            else:
                operand = _operand(run, "tcgen05", first, majors[0], rows, bits, line, rank)
                _read(run, warp, "tcgen05", operand, agent, time, line)
            operand = _operand(run, "tcgen05", second, majors[1], of_b, bits, line, rank)
            _read(run, warp, "tcgen05", operand, agent, time, line)
            spans = [(t, t + width) for (r, t), (width, _) in run.allocated.items() if r == rank]
            if not any(begin <= target and target + held <= end for begin, end in spans):
                message = f"sums in columns {target} to {target + held - 1}, which are not allocated"
                order.find("tensor_memory_misused", line, message)
            program.summed.add((target, held))
            cells = _columns(target, held, rank, _strips(m, len(pair), lane))
            fences.check_fences(run, warp, cells, agent, "tcgen05", line)
            order.write(run.tensor, cells, worker, agent, time, "tcgen05", line)
        return None

    return operation


def _strips(m: int, ctas: int, lane: int) -> tuple[int, ...]:
    """Return the strips of lanes that sums lie in: of 64 rows of one CTA every other one (FACTS TC-27, layout F)."""
    halves = m == 64 and ctas == 1 and lane in {0, STRIP_LANES}
    return tuple(range(lane // STRIP_LANES, TENSOR_STRIPS, 2)) if halves else _ALL_STRIPS


def _copy(program: Any, i: Instruction) -> Operation:
    """Return tcgen05.cp: it reads rows of 16 or 32 bytes by a descriptor into columns of 4 bytes (FACTS TC-29)."""
    line, guard = i.line, guard_of(program, i)
    shape = next((found for p in i.parts if (found := re.fullmatch(r"(\d+)x(128|256)b", p))), None)
    if shape is None or any(p.startswith("b8x16") for p in i.parts):
        return units.refused(program, i)
    rows, step = int(shape[1]), int(shape[2]) // 8
    to: tuple[int, int] = program.address(i.operands[0], line)
    word = program.source(i.operands[1], 64, line)

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        lanes = active(part, guard, line)
        if not lanes:
            return None
        order, agent = run.order, _unit(run, warp)
        time = warp.counts.get("tcgen05", 0)
        warp.counts["tcgen05"] = time + 1
        held = units.one_address(part, word, 0, lanes, line)
        target = units.one_address(part, *to, lanes, line) & 0xFFFF
        for rank in _pair(run, warp, i):
            scales = _operand(run, "tcgen05", held, "K", rows, 8, line, rank, step)
            _read(run, warp, "tcgen05", scales, agent, time, line)
            cells = _columns(target, step // 4, rank)
            fences.check_fences(run, warp, cells, agent, "tcgen05", line)
            order.write(run.tensor, cells, warp.worker, agent, time, "tcgen05", line)
        return None

    return operation


def committed_to(  # noqa: PLR0917 - an instruction's operands, and who executes it
    run: Run, part: Part, place: tuple[int, int], mask: int, lanes: int, line: int
) -> list[int]:
    """Return the places of the barriers that tcgen05.commit arrives at: one's own, or those of a mask's CTAs."""
    address = units.shared_place(part, *place, lanes, line)
    if mask < 0:
        return [address]
    ranks = copies.ranks_of(run, units.one_address(part, mask, 0, lanes, line), line)
    return [rank * SHARED_BYTES + address % SHARED_BYTES for rank in ranks]


def _commit_to(program: Any, i: Instruction) -> Operation:
    line, guard = i.line, guard_of(program, i)
    place: tuple[int, int] = program.address(i.operands[0], line)
    mask = program.source(i.operands[1], 16, line) if "multicast::cluster" in i.parts else -1

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        lanes = active(part, guard, line)
        if not lanes:
            return None
        targets = committed_to(run, part, place, mask, lanes, line)
        clocks = warp.worker.passed_on(lanes)
        clocks[0, _unit(run, warp)] = warp.counts.get("tcgen05", 0)
        for target in targets:
            run.barriers.reaches(run, warp, target, line, ARRIVAL)
            run.barriers.owe(warp.worker, clocks, target, lanes, line, lanes.bit_count(), by_unit=True)
        return None

    return operation


def _span(i: Instruction) -> int:
    """Return the columns that tcgen05.ld or st reaches."""
    shape = next((p for p in i.parts if p in _COLUMNS), "32x32b")
    count = next((int(p[1:]) for p in i.parts if re.fullmatch(r"x\d+", p)), 1)
    packed = 2 if "pack::16b" in i.parts or "unpack::16b" in i.parts else 1
    return _COLUMNS[shape] * count * packed


def _lanes(i: Instruction) -> int:
    """Return the lanes of tensor memory that tcgen05.ld or st reaches: 16 or 32 (FACTS TC-26)."""
    return STRIP_LANES if any(p.startswith("16x") for p in i.parts) else 2 * STRIP_LANES


def _second_half(i: Instruction, operand: int) -> int:
    """Return by how many columns the upper lanes of the shape 16x32bx2 are further, 0 for other shapes."""
    return immediate(i.operands[operand]) or 0 if "16x32bx2" in i.parts else 0


def _fetch(program: Any, i: Instruction) -> Operation:
    line, guard, count = i.line, guard_of(program, i), _span(i)
    place: tuple[int, int] = program.address(i.operands[1], line)
    names = vector(i.operands[0])
    places = [program.slot(n, line) for n in names if n in program.needed]
    extent = count, _second_half(i, 2), _lanes(i)

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        if not active(part, guard, line):
            return None
        if not _meets(warp, part):
            return PARK
        warp.fetches.update(dict.fromkeys(names, warp.counts.get("ld.tensor", 0)))
        _use_tensor(run, warp, part, place, extent, "ld.tensor", line)
        for to in places:
            part.registers[to] = None
        return None

    return operation


def _put(program: Any, i: Instruction) -> Operation:
    line, guard, count = i.line, guard_of(program, i), _span(i)
    place: tuple[int, int] = program.address(i.operands[0], line)
    extent = count, _second_half(i, 1), _lanes(i)

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        if not active(part, guard, line):
            return None
        if not _meets(warp, part):
            return PARK
        _use_tensor(run, warp, part, place, extent, "st.tensor", line)
        return None

    return operation


def _use_tensor(  # noqa: PLR0917
    run: Run, warp: Warp, part: Part, place: tuple[int, int], extent: tuple[int, int, int], kind: str, line: int
) -> None:
    """Note that a warp reads or writes tensor memory: so many columns, again `half` columns on, of so many lanes."""
    count, half, lanes = extent
    order, worker = run.order, warp.worker
    address = units.one_address(part, *place, part.mask, line)
    lane, column = address >> 16, address & 0xFFFF
    # A warp reaches its own quarter, whatever quarter the address names (DeepGEMM, tilelang name the first one).
    quarter = 2 * (warp.local % 4)
    strips = (quarter + lane // STRIP_LANES % 2,) if lanes == STRIP_LANES else (quarter, quarter + 1)
    held, key = run.program.operands, (column, count, half, warp.rank, strips)
    cells = held.get(key)
    if cells is None:  # epilogues fetch a few columns at a time, so that there are many of these
        cells = held[key] = _halves(column, count, half, warp.rank, strips)
    agent, time = run.agent(kind, warp.index), warp.counts.get(kind, 0)
    warp.counts[kind] = time + 1
    fences.check_fences(run, warp, cells, agent, kind, line)
    if kind == "ld.tensor":
        run.program.read_sums.add((column, count))
        order.read(run.tensor, cells, worker, agent, time, kind, line)
    else:
        run.program.summed.add((column, count))
        order.write(run.tensor, cells, worker, agent, time, kind, line)
    worker.meet()


def _wait_tensor(program: Any, i: Instruction) -> Operation:
    kind = "ld.tensor" if i.parts[1].endswith("ld") else "st.tensor"

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        if not _meets(warp, part):
            return PARK
        worker = warp.worker
        worker.known[run.agent(kind, warp.index)] = warp.counts.get(kind, 0)
        if kind == "ld.tensor":
            warp.fetched = warp.counts.get(kind, 0)
            warp.fetches.clear()
        worker.meet()
        return None

    return operation
