"""Branches on the machine: lanes that part, tables, ends and traps."""

from __future__ import annotations

from typing import Any

from legalsat.analyses.ptx.findings import Undecided
from legalsat.analyses.ptx.instruction import Instruction
from legalsat.analyses.ptx_machine.alu import NoLaunch, Value
from legalsat.analyses.ptx_machine.guards import active, guard_of
from legalsat.analyses.ptx_machine.launches.conditions import TRUE
from legalsat.analyses.ptx_machine.launches.fan import in_lane
from legalsat.analyses.ptx_machine.machine import EXIT, JUMP, Operation, Part, Run, Warp

# Functions of every GPU: those that touch no shared memory and no barrier (CUDA C++ Programming Guide, 10.35 to 10.36),
# and those after which no thread goes on.
_HARMLESS = frozenset({"vprintf", "malloc", "free"})
_FAILING = frozenset({"__assertfail", "__assert_fail"})


def is_harmless(i: Instruction) -> bool:
    """Does an instruction call what does nothing to shared memory or barriers?"""
    return i.base == "call" and not _HARMLESS.isdisjoint(i.operands)


def fails(i: Instruction) -> bool:
    """Does an instruction say that an assertion of the kernel has failed? Who launches it so has made a mistake."""
    return i.base == "call" and not i.guard and not _FAILING.isdisjoint(i.operands)


def make_branch(program: Any, i: Instruction, places: dict[str, int]) -> Operation:
    """Return a branch, which parts the lanes of a warp that do not agree."""
    if i.operands[0] not in places:
        raise Undecided(i.line, f"no label is called {i.operands[0]}")
    target, guard, line = places[i.operands[0]], guard_of(program, i), i.line
    holds = program.asserted.get(id(i))  # the outcome for which no assertion fails: launches that fail one are left out
    passes = holds is not None and (holds == TRUE) != i.negated

    decides, turned = guard

    def always(run: Run, warp: Warp, part: Part) -> int | None:
        part.pc = target
        return JUMP

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        held = part.registers[decides]
        if type(held) is int:
            taken = (held ^ turned) & part.mask
        elif held is None and holds is not None:
            taken = part.mask if passes else 0
        else:
            taken = active(part, guard, line)
        if not taken:
            return None
        if taken == part.mask:
            part.pc = target
            return JUMP
        rest = part.mask & ~taken
        part.pc += 1
        warp.parts.append(Part(target, taken, _narrowed(program, part.registers, taken, target)))
        part.mask = rest
        part.registers = _narrowed(program, part.registers, rest, part.pc)
        return JUMP

    return operation if decides >= 0 else always


def _narrowed(program: Any, registers: list[Value], mask: int, at: int) -> list[Value]:
    """Return the registers of some lanes, which go on at a place: where it is one lane, plain numbers."""
    found = list(registers)
    if not mask & mask - 1:
        lane = mask.bit_length() - 1
        for place in program.alive(at):
            value = found[place]
            if value is not None and type(value) is not int:
                found[place] = in_lane(value, lane)
    return found


def make_table(program: Any, i: Instruction, places: dict[str, int]) -> Operation:
    """Return a branch to one of a table of places."""
    index, line = program.slot(i.operands[0], i.line), i.line
    table = [places[name] for name in program.kernel.tables[i.operands[1]]]

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        value = part.registers[index]
        if not isinstance(value, int):
            raise Undecided(line, "a branch depends on data or parts the lanes of a warp")
        if value >= len(table):
            raise Undecided(line, f"branch {value} of a table of {len(table)}")
        run.cases.add((part.pc, value))
        part.pc = table[value]
        return JUMP

    return operation


def make_end(program: Any, i: Instruction) -> Operation:
    """Return the end of the kernel for some lanes."""
    guard, line = guard_of(program, i), i.line

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        leaving = active(part, guard, line)
        if not leaving:
            return None
        if leaving != part.mask:
            warp.parts.append(Part(part.pc, leaving, _narrowed(program, part.registers, leaving, part.pc)))
            part.mask &= ~leaving
            return JUMP
        return EXIT

    return operation


def make_stop(program: Any, i: Instruction) -> Operation:
    """Return what stops a run: a trap, a failed assertion, or a call of a function that is not known."""
    guard, line, failed = guard_of(program, i), i.line, fails(i)
    harmless = is_harmless(i)
    reason = "the kernel stops itself here (trap)" if i.base == "trap" else "a call is not followed"

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        if harmless or not active(part, guard, line):
            return None
        raise NoLaunch("fail an assertion") if failed else Undecided(line, reason)

    return operation
