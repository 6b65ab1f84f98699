"""wgmma on the machine: which shared memory it reads, and when its groups are done."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from legalsat.analyses.ptx.instruction import Instruction, vector
from legalsat.analyses.ptx_machine import units
from legalsat.analyses.ptx_machine.guards import active, guard_of
from legalsat.analyses.ptx_machine.machine import BLOCK, PARK, Operation, Part, Run, Warp
from legalsat.analyses.ptx_machine.matrix import pairs, results
from legalsat.analyses.ptx_machine.matrix.operands import cells_of, let_read, meets
from legalsat.analyses.ptx_machine.shadow import Cells
from legalsat.analyses.ptx_machine.waits import Wait
from legalsat.options import MAJORS, Major

BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8}  # of operands

_ROWS, _ROWS_OF_WARP = 64, 16  # of A, and those that a warp's sums are of


def steering(i: Instruction) -> tuple[str, ...]:
    """Return the operands that must be known."""
    if i.parts[1] != "mma_async":
        return i.operands
    return tuple(one for one in i.operands[1:4] if not one.startswith("{"))


def make(program: Any, i: Instruction) -> Operation:
    """Return what an instruction of wgmma does."""
    makers = {"fence": _fence, "mma_async": _multiply, "commit_group": _commit, "wait_group": _wait}
    return makers.get(i.parts[1], units.refused)(program, i)


def _fence(program: Any, i: Instruction) -> Operation:
    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        if not meets(warp, part):
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
    held_in = results.Sums(program, i)
    majors = _majors(operands[4:], in_registers=in_registers)

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
        adds = held_in.multiply(run, warp, part)
        key = agent, group, *found
        if not order.read_by_peers(key, worker, line):
            trail, read, alone = worker.trail[line], [], False
            if not in_registers:
                a = cells_of(run, "wgmma", found[0], majors[0], _ROWS, bits[0], line, rank)
                alone = a is not None and majors[0] == "K" and _reads_alone(run, warp, a, line)
                if alone:
                    first = _ROWS_OF_WARP * (warp.local % 4)
                    rows = first, first + _ROWS_OF_WARP
                    a = cells_of(run, "wgmma", found[0], majors[0], _ROWS, bits[0], line, rank, rows=rows)
                read.append(let_read(run, warp, "wgmma", a, agent, group, line))
            b = cells_of(run, "wgmma", found[-1], majors[1], n, bits[1], line, rank)
            read.append(let_read(run, warp, "wgmma", b, agent, group, line))
            if adds is False:
                pairs.begin(run, (warp.group, sums[0]))
            by_registers = [(operands[1], None)] * in_registers
            pairs.check_pair(run, (warp.group, sums[0]), [*by_registers, *zip(found, read, strict=True)], majors, line)
            known = [one for one in read if one is not None]
            if len(known) == len(read) and not alone:
                order.let_peers_know(key, known, worker.trail[line] - trail, line)
        warp.open["wgmma"] = True
        sums_of = warp.sums
        if sums_of.get(sums[0]) != group:
            sums_of.update(dict.fromkeys(sums, group))
        warp.worker.meet()
        return None

    return operation


def _majors(flags: Sequence[str], *, in_registers: bool) -> list[Major]:
    """Return how A and B lie in shared memory, by what stands behind the predicate of a wgmma."""
    transposed = [f == "1" for f in flags[-2:]] if len(flags) >= 4 else [False, False]
    if in_registers:
        transposed = [False, len(flags) >= 3 and flags[-1] == "1"]
    return [MAJORS[t] for t in transposed]


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
        if not meets(warp, part):
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
        if not meets(warp, part):
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
