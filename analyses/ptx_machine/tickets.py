"""Tickets: numbers that a block draws from a counter in global memory, by which persistent kernels share out work.

One thread adds one and gets what was there before: numbers that grow, and of which other blocks may draw some between.
The n-th one, from 0, is n + gap * n * n, where `%tickets` of a run is the gap: without one nobody else draws. What
another thread draws from the same counter stays unknown.
"""

from __future__ import annotations

from typing import Any

from legalsat.analyses.ptx.instruction import Instruction, immediate, names_in
from legalsat.analyses.ptx_machine.guards import active, assign, guard_of
from legalsat.analyses.ptx_machine.machine import Operation, Part, Run, Warp

TICKETS = "%tickets"
GAPS = (1, 2)  # with which runs are made besides


def draws(i: Instruction) -> bool:
    """Does an instruction draw a ticket?"""
    kind = i.base == "atom" and i.parts[-1] in {"u32", "s32", "u64"} and {"global", "add"} <= set(i.parts)
    return kind and len(i.operands) == 3 and immediate(i.operands[2]) == 1


def are_in(program: Any, name: str) -> bool:
    """Is a register computed from a ticket, as far as runs have shown what loads of shared memory have read?"""
    stores = {i.line: [n for one in i.operands[1:] for n in names_in(one)] for i in program.chosen if i.base == "st"}
    definitions, seen, work = program.conditions.definitions, {name}, [name]
    while work:
        for i in definitions.get(work.pop(), ()):
            if draws(i):
                return True
            stored = [n for to, by in program.flows if by == i.line for n in stores.get(to, ())]
            more = {*i.reads, *stored} - seen
            seen |= more
            work += more
    return False


def make(program: Any, i: Instruction) -> Operation:
    """Return what draws a ticket."""
    line, guard, bits = i.line, guard_of(program, i), int(i.parts[-1][1:])
    base, offset = program.address(i.operands[1], line)
    name = i.operands[0]
    to, once = program.slot(name, line) if name in program.needed else -1, name in program.written_once

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        lanes = active(part, guard, line)
        at = part.registers[base]
        value = None
        if lanes and not lanes & lanes - 1 and isinstance(at, int):
            who = warp.index, lanes
            first, count = run.drawn.get(at + offset, (who, 0))
            if who == first:
                value = count + run.parameters.get(TICKETS, 0) * count * count & (1 << bits) - 1
                run.drawn[at + offset] = who, count + 1
        if to >= 0 and lanes:
            assign(part, to, value, guard, line, once=once)
        return None

    return operation
