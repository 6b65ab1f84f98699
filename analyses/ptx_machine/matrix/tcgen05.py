"""tcgen05 on the machine: what its multiplications and copies read, what they write, and whom they tell."""

from __future__ import annotations

import re
from typing import Any

from legalsat.analyses.ptx.findings import ARRIVAL, Undecided
from legalsat.analyses.ptx.instruction import Instruction
from legalsat.analyses.ptx_machine import copies, fences, units
from legalsat.analyses.ptx_machine.guards import active, guard_of
from legalsat.analyses.ptx_machine.machine import Operation, Part, Run, Warp
from legalsat.analyses.ptx_machine.matrix import pairs, sums, tensor_memory
from legalsat.analyses.ptx_machine.matrix.operands import STEP_BYTES, cells_of, let_read
from legalsat.analyses.ptx_machine.matrix.tensor_memory import STRIP_LANES, STRIPS, columns_of
from legalsat.analyses.ptx_machine.memory import SHARED_BYTES
from legalsat.analyses.ptx_machine.shadow import Cells
from legalsat.options import MAJORS

COLUMN = 0xFFFF  # of an address of tensor memory, whose upper half is a lane
SCALED_ROWS = 32  # whose scales a column of tensor memory has, in all strips (FACTS TC-30)
KIND_BITS = {"f16": 16, "tf32": 32, "f8f6f4": 8, "i8": 8, "mxf8f6f4": 8, "mxf4": 4, "mxf4nvf4": 4}


def steering(i: Instruction) -> tuple[str, ...]:
    """Return the operands that must be known."""
    what = i.parts[1]
    if what == "ld":
        return i.operands[1:2]
    if what == "st":
        return i.operands[:1]
    return (*i.operands[:4], *_scales(i), adding(i)) if what == "mma" else i.operands


def _scales(i: Instruction) -> tuple[str, ...]:
    """Return where in tensor memory a multiplication has the scales of A and of B."""
    return tuple(one for one in i.operands[4:] if one.startswith("["))


def adding(i: Instruction) -> str:
    """Return the predicate that says whether a multiplication adds to what its columns hold."""
    return next(one for one in i.operands[4:] if not one.startswith(("[", "{")))


def make(program: Any, i: Instruction) -> Operation:
    """Return what an instruction of tcgen05 does."""
    makers = {
        "alloc": tensor_memory.allocate,
        "dealloc": tensor_memory.free,
        "relinquish_alloc_permit": _nothing,
        "fence": fences.make_tensor_fence,
        "mma": _issue,
        "commit": _commit_to,
        "ld": tensor_memory.fetch,
        "st": tensor_memory.put,
        "wait": tensor_memory.wait,
        "cp": _copy,
    }
    return makers.get(i.parts[1].split("::")[0], units.refused)(program, i)


def _nothing(program: Any, i: Instruction) -> Operation:
    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        return None

    return operation


def _pair(run: Run, warp: Warp, i: Instruction) -> tuple[int, ...]:
    """Return the CTAs in which an instruction works: that of the warp, or with cta_group::2 both of its pair."""
    if "cta_group::2" not in i.parts:
        return (warp.rank,)
    pair = warp.rank & ~1, warp.rank | 1
    if pair[1] >= len(run.living):
        raise Undecided(i.line, f"cta_group::2 in a cluster of {len(run.living)}")
    return pair


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
    added = program.source(adding(i), 1, line)
    scales: list[tuple[int, int]] = [program.address(one, line) for one in _scales(i)]

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        lanes = active(part, guard, line)
        if not lanes:
            return None
        if lanes & (lanes - 1):
            said = "threads issue this multiplication, each of which is one of its own; let one do it (elect.sync)"
            run.note(line, f"{lanes.bit_count()} {said}")
        order, agent = run.order, _unit(run, warp)
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
        lane, target = divmod(units.one_address(part, *to, lanes, line), COLUMN + 1)
        first = units.one_address(part, *a, lanes, line)
        second = units.one_address(part, b, 0, lanes, line)
        pair = _pair(run, warp, i)
        # A pair shares rows of A and columns of B evenly; of 128 rows each CTA holds 64, in half the columns.
        rows, of_b = (m or 128 * len(pair)) // len(pair), n // len(pair)
        held = n // 2 if len(pair) == 2 and rows == 64 else n
        strips = _strips(m, len(pair), lane)
        known = part.registers[added]
        adds = known & lanes if type(known) is int else None
        lies = [(first & COLUMN, STEP_BYTES // 4, strips)] if a_in_tensor else []
        for (place, offset), count in zip(scales, (rows, n), strict=False):
            lies.append(
                (units.one_address(part, place, offset, lanes, line) & COLUMN, -(-count // SCALED_ROWS), STRIPS)
            )
        for rank in pair:
            for column, count, those in lies:
                _read_columns(run, warp, columns_of(column, count, rank, those), time, line)
            cells = None if a_in_tensor else cells_of(run, "tcgen05", first, majors[0], rows, bits, line, rank)
            of_both = cells, cells_of(run, "tcgen05", second, majors[1], of_b, bits, line, rank)
            came = [let_read(run, warp, "tcgen05", operand, agent, time, line) for operand in of_both]
            if adds == 0:
                pairs.begin(run, (rank, target))
            pairs.check_pair(run, (rank, target), [*zip((first, second), came, strict=True)], majors, line)
            spans = [(t, t + width) for (r, t), (width, _) in run.allocated.items() if r == rank]
            if not any(begin <= target and target + held <= end for begin, end in spans):
                message = f"sums in columns {target} to {target + held - 1}, which are not allocated"
                order.find("tensor_memory_misused", line, message)
            _sum_up(run, warp, columns_of(target, held, rank, strips), (target, held), adds, time, line)
        return None

    return operation


def _read_columns(run: Run, warp: Warp, cells: Cells, time: int, line: int) -> None:
    """Let a multiplication read A, or scales, from tensor memory."""
    agent = _unit(run, warp)
    fences.check_fences(run, warp, cells, agent, "tcgen05", line)
    writers = run.order.read(run.tensor, cells, warp.worker, agent, time, "tcgen05", line)
    sums.check_read(run, cells, writers, line, "a multiplication")


def _sum_up(  # noqa: PLR0917
    run: Run, warp: Warp, cells: Cells, to: sums.Accumulator, adds: int | None, time: int, line: int
) -> None:
    """Let a multiplication write its columns."""
    agent = _unit(run, warp)
    run.program.tensor_use.summed.setdefault(id(cells), (cells, line))
    fences.check_fences(run, warp, cells, agent, "tcgen05", line)
    if adds != 0:
        sums.check_added(run, cells, to, adds, line)
    else:
        sums.check_begun(run, cells, line)
    run.summed[run.order.write(run.tensor, cells, warp.worker, agent, time, "tcgen05", line)] = to


def _strips(m: int, ctas: int, lane: int) -> tuple[int, ...]:
    """Return the strips of lanes that sums lie in: of 64 rows of one CTA every other one (FACTS TC-27, layout F)."""
    halves = m == 64 and ctas == 1 and lane in {0, STRIP_LANES}
    return STRIPS[lane // STRIP_LANES :: 2] if halves else STRIPS


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
        target = units.one_address(part, *to, lanes, line) & COLUMN
        for rank in _pair(run, warp, i):
            scales = cells_of(run, "tcgen05", held, "K", rows, 8, line, rank, step)
            let_read(run, warp, "tcgen05", scales, agent, time, line)
            cells = columns_of(target, step // 4, rank)
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
