"""Tensor memory on the machine: who holds which columns, and who reads and writes them."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legalsat.analyses.ptx.findings import Undecided
from legalsat.analyses.ptx.instruction import Instruction, immediate, vector
from legalsat.analyses.ptx_machine import fences, units
from legalsat.analyses.ptx_machine.guards import active, guard_of
from legalsat.analyses.ptx_machine.machine import PARK, TENSOR_COLUMNS, TENSOR_STRIPS, Operation, Part, Run, Warp
from legalsat.analyses.ptx_machine.matrix import sums
from legalsat.analyses.ptx_machine.matrix.operands import meets
from legalsat.analyses.ptx_machine.memory import distinct

STRIP_LANES = 16
STRIPS = tuple(range(TENSOR_STRIPS))
# Registers of a lane for each repetition, and so columns (FACTS TC-25).
_COLUMNS = {"32x32b": 1, "16x64b": 2, "16x128b": 4, "16x256b": 8, "16x32bx2": 1}


def allocate(program: Any, i: Instruction) -> Operation:
    """Return tcgen05.alloc: the first columns that are free, whose address it writes to shared memory."""
    line, guard = i.line, guard_of(program, i)
    place: tuple[int, int] = program.address(i.operands[0], line)
    columns = program.source(i.operands[1], 32, line)

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        lanes = active(part, guard, line)
        if not lanes:
            return None
        if not meets(warp, part):
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


def free(program: Any, i: Instruction) -> Operation:
    """Return tcgen05.dealloc, after which columns hold nothing."""
    line, guard = i.line, guard_of(program, i)
    place = program.source(i.operands[0], 32, line)
    columns = program.source(i.operands[1], 32, line)

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        lanes = active(part, guard, line)
        if not lanes:
            return None
        if not meets(warp, part):
            return PARK
        begin = units.one_address(part, place, 0, part.mask, line)
        count = units.one_address(part, columns, 0, part.mask, line)
        if run.allocated.get((warp.rank, begin), (0, 0))[0] != count:
            run.order.find(
                "tensor_memory_misused", line, f"{count} columns from {begin} are freed, which were not allocated"
            )
            return None
        order, worker = run.order, warp.worker
        cells = columns_of(begin, count, warp.rank)
        fences.check_fences(run, warp, cells, worker.index, fences.FREED, line)
        order.write(run.tensor, cells, worker, worker.index, worker.time, "free", line)
        del run.allocated[warp.rank, begin]
        worker.meet()
        return None

    return operation


@lru_cache(maxsize=512)
def columns_of(first: int, count: int, rank: int, strips: tuple[int, ...] = STRIPS) -> NDArray[np.int64]:
    """Return the cells of a CTA's tensor memory in these columns and strips of 16 lanes."""
    columns = np.arange(first, min(first + count, TENSOR_COLUMNS)) + rank * TENSOR_STRIPS * TENSOR_COLUMNS
    found = np.concatenate([TENSOR_COLUMNS * strip + columns for strip in strips])
    found.flags.writeable = False
    return found


@lru_cache(maxsize=512)
def _halves(first: int, count: int, half: int, rank: int, strips: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the cells in some columns and in as many others, `half` columns on."""
    found: NDArray[np.int64] = distinct(
        np.concatenate([columns_of(one, count, rank, strips) for one in (first, first + half)])
    )
    found.flags.writeable = False
    return found


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


def fetch(program: Any, i: Instruction) -> Operation:
    """Return tcgen05.ld, whose registers are there after its wait."""
    line, guard, count = i.line, guard_of(program, i), _span(i)
    place: tuple[int, int] = program.address(i.operands[1], line)
    names = vector(i.operands[0])
    places = [program.slot(n, line) for n in names if n in program.needed]
    extent = count, _second_half(i, 2), _lanes(i)

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        if not active(part, guard, line):
            return None
        if not meets(warp, part):
            return PARK
        warp.fetches.update(dict.fromkeys(names, warp.counts.get("ld.tensor", 0)))
        _use_tensor(run, warp, part, place, extent, "ld.tensor", line)
        for to in places:
            part.registers[to] = None
        return None

    return operation


def put(program: Any, i: Instruction) -> Operation:
    """Return tcgen05.st."""
    line, guard, count = i.line, guard_of(program, i), _span(i)
    place: tuple[int, int] = program.address(i.operands[0], line)
    extent = count, _second_half(i, 1), _lanes(i)
    computed = not program.computed.isdisjoint(vector(i.operands[-1]))

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        if not active(part, guard, line):
            return None
        if not meets(warp, part):
            return PARK
        _use_tensor(run, warp, part, place, extent, "st.tensor", line, computed=computed)
        return None

    return operation


def _use_tensor(  # noqa: PLR0917
    run: Run, warp: Warp, part: Part, place: tuple[int, int], extent: tuple[int, int, int], kind: str, line: int,
    *, computed: bool = False,
) -> None:  # fmt: skip
    """Note that a warp reads or writes tensor memory: so many columns, again `half` columns on, of so many lanes.

    `computed`: it writes what is computed from what it has read there.
    """
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
        writers = order.read(run.tensor, cells, worker, agent, time, kind, line)
        sums.check_read(run, cells, writers, line, "tcgen05.ld")
    else:
        run.program.tensor_use.stored.setdefault(id(cells), (cells, line))
        sums.check_begun(run, cells, line)
        before = run.tensor.writers_of(run.tensor.of(cells)) if computed else []
        sums.put_back(run, order.write(run.tensor, cells, worker, agent, time, kind, line), before)
    worker.meet()


def wait(program: Any, i: Instruction) -> Operation:
    """Return tcgen05.wait: the warp's own loads or stores are done."""
    kind = "ld.tensor" if i.parts[1].endswith("ld") else "st.tensor"

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        if not meets(warp, part):
            return PARK
        worker = warp.worker
        worker.known[run.agent(kind, warp.index)] = warp.counts.get(kind, 0)
        if kind == "ld.tensor":
            warp.fetched = warp.counts.get(kind, 0)
            warp.fetches.clear()
        worker.meet()
        return None

    return operation
