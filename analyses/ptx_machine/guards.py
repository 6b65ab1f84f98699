"""Predicates in front of instructions, and results of lanes for which they hold."""

from __future__ import annotations

from typing import Any

from legalsat.analyses.ptx.findings import Undecided
from legalsat.analyses.ptx.instruction import Instruction
from legalsat.analyses.ptx_machine.alu import FULL, Value, blend
from legalsat.analyses.ptx_machine.machine import Part


def guard_of(program: Any, i: Instruction) -> tuple[int, int]:
    """Return the place of an instruction's predicate, -1 for none, and what turns it round."""
    return (program.slot(i.guard, i.line), FULL if i.negated else 0) if i.guard else (-1, 0)


def active(part: Part, guard: tuple[int, int], line: int) -> int:
    """Return the lanes for which an instruction's predicate holds."""
    if guard[0] < 0:
        return part.mask
    held = part.registers[guard[0]]
    return (held ^ guard[1] if type(held) is int else _lanes(held, guard, line)) & part.mask


def assign(
    part: Part, place: int, value: Value, guard: tuple[int, int], line: int, *, predicate: bool = False,
    once: bool = False,
) -> None:  # fmt: skip
    """Write a result, which may be a predicate itself, in the lanes for which an instruction's predicate holds.

    `once`: nothing else writes the register, so that what other lanes hold before it is written is of no account.
    """
    if guard[0] < 0:
        part.registers[place] = value
        return
    held = part.registers[guard[0]]
    if held is None:
        part.registers[place] = None
        return
    active = _lanes(held, guard, line) & part.mask
    if active == part.mask or (once and active and part.registers[place] is None):
        part.registers[place] = value
    elif active:
        part.registers[place] = blend(value, part.registers[place], active, lanewise=predicate)


def _lanes(held: Value, guard: tuple[int, int], line: int) -> int:
    if held is None:
        raise Undecided(line, "a predicate depends on data")
    if not isinstance(held, int):
        raise Undecided(line, "what stands before this instruction is no predicate")
    return held ^ guard[1]
