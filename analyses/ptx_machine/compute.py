"""Arithmetic, selection and moves on the machine; what is not understood makes its result unknown."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

from legalsat.analyses.ptx.findings import Undecided
from legalsat.analyses.ptx.instruction import Instruction, results_of, vector
from legalsat.analyses.ptx_machine import units
from legalsat.analyses.ptx_machine.alu import (
    FULL,
    MOST_BITS,
    Value,
    Work,
    arithmetic,
    blend,
    compare,
    remembered,
    remembered_of_two,
)
from legalsat.analyses.ptx_machine.guards import assign, guard_of
from legalsat.analyses.ptx_machine.machine import MAP_BASE, Operation, Part, Run, Warp
from legalsat.analyses.ptx_machine.making.quick import quick


def _of_parameters(place: Value) -> Value:
    """Return the address of a place among the parameters, of which 32 bits may be all that a register held."""
    return MAP_BASE | place & (1 << 32) - 1 if isinstance(place, int) else place


def compute(program: Any, i: Instruction) -> Operation:
    """Return arithmetic, or what makes the result unknown."""
    base, parts, line, guard = i.base, i.parts, i.line, guard_of(program, i)
    results = results_of(i)
    if base == "ld":
        return units.make_load(program, i)
    if (
        base == "mov"
        and _operand_bits(parts) <= 2 * MOST_BITS
        and (i.operands[0].startswith("{") or i.operands[1].startswith("{"))
    ):
        return _pack(program, i, guard)
    if base == "selp":
        return _select(program, i, guard)
    work = compare(parts) if base == "setp" else arithmetic(parts, i.operands)
    if base == "cvta" and "param" in parts and "to" not in parts:
        work = _of_parameters
    if work is None:
        return _unknown(program, results, guard, line)
    bits = _operand_bits(parts)
    extra = {"bfe": (bits, 32, 32), "bfi": (bits, bits, 32, 32), "shl": (bits, 32), "shr": (bits, 32)}
    if base == "setp":
        widths: tuple[int, ...] = (bits, bits, 1)
    elif base in {"mul", "mad"} and "wide" in parts:
        widths = (bits, bits, 2 * bits)
    elif base in {"cvt", "cvta"}:
        widths = (64,)
    else:
        widths = extra.get(base, (bits,) * 4)
    sources = [program.source(one, width, line) for one, width in zip(i.operands[1:], widths, strict=False)]
    place = program.slot(results[0], line)
    second = program.slot(results[1], line) if base == "setp" and len(results) > 1 else -1
    predicate = base == "setp" or parts[-1] == "pred"
    once = guard[0] >= 0 and results[0] in program.written_once
    result = _Result(place, second, guard, line, predicate, once)
    found = _worked(work, quick(parts) or work, base in {"mov", "cvta"}, sources, result, program.kept)
    return _for_all_lanes(found, place, line) if id(i) in program.roles.tables.lanewise else found


def _for_all_lanes(inner: Operation, place: int, line: int) -> Operation:
    """Return a comparison of what lanes have read for themselves, by which a warp goes one way as a whole."""

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        signal = inner(run, warp, part)
        held = part.registers[place]
        if held is not None and held & part.mask not in {0, part.mask}:
            raise Undecided(line, "lanes of a warp go different ways by what each has read in memory")
        return signal

    return operation


class _Result(NamedTuple):
    """Where a result goes, and of a comparison its opposite, if that is not below 0."""

    place: int
    second: int
    guard: tuple[int, int]
    line: int
    predicate: bool
    once: bool

    def assign(self, part: Part, value: Value) -> None:
        """Write it in the lanes for which the guard holds."""
        assign(part, self.place, value, self.guard, self.line, predicate=self.predicate, once=self.once)
        if self.second >= 0:
            turned = None if value is None else value ^ FULL
            assign(part, self.second, turned, self.guard, self.line, predicate=True)


def _worked(work: Work, short: Work, copies: bool, sources: list[int], result: _Result, kept: int) -> Operation:  # noqa: PLR0917
    """Return what computes a result.

    `short`: computes it where all lanes agree on each source. `copies`: it is one of the sources. `kept`: of so many,
    what they gave.
    """
    place, plain = result.place, result.guard[0] < 0 and result.second < 0
    if len(sources) == 2:
        return _of_two(short, remembered_of_two(work, kept), sources, result)
    again = work if copies else remembered(work, kept)
    if len(sources) == 1:
        only = sources[0]

        def of_one(run: Run, warp: Warp, part: Part) -> int | None:
            x = part.registers[only]
            value = short(x) if type(x) is int else again(x)
            if plain:
                part.registers[place] = value
            else:
                result.assign(part, value)
            return None

        return of_one
    if len(sources) == 3:
        return _of_three(short, again, sources, result)

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        values = [part.registers[s] for s in sources]
        value = again(*values) if np.ndarray in map(type, values) else work(*values)
        if plain:
            part.registers[place] = value
        else:
            result.assign(part, value)
        return None

    return operation


def _of_two(short: Work, again: Work, sources: list[int], result: _Result) -> Operation:
    """Return what computes a result from two sources; `short` does where all lanes agree on both, `again` else."""
    a, b = sources
    place, plain = result.place, result.guard[0] < 0 and result.second < 0

    def plainly(run: Run, warp: Warp, part: Part) -> int | None:
        registers = part.registers
        x, y = registers[a], registers[b]
        registers[place] = short(x, y) if type(x) is int and type(y) is int else again(x, y)
        return None

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        x, y = part.registers[a], part.registers[b]
        result.assign(part, short(x, y) if type(x) is int and type(y) is int else again(x, y))
        return None

    return plainly if plain else operation


def _of_three(short: Work, again: Work, sources: list[int], result: _Result) -> Operation:
    """Return what computes a result from three sources."""
    a, b, c = sources
    place, plain = result.place, result.guard[0] < 0 and result.second < 0

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        registers = part.registers
        x, y, z = registers[a], registers[b], registers[c]
        agreed = type(x) is int and type(y) is int and type(z) is int
        value = short(x, y, z) if agreed else again(x, y, z)
        if plain:
            registers[place] = value
        else:
            result.assign(part, value)
        return None

    return operation


def _operand_bits(parts: tuple[str, ...]) -> int:
    if parts[-1] == "pred":
        return 1
    found = re.search(r"(\d+)$", parts[-1])
    return int(found[1]) if found else 32


def _unknown(program: Any, results: tuple[str, ...], guard: tuple[int, int], line: int) -> Operation:
    places = [program.slot(r, line) for r in results if r in program.needed and r != "_"]

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        for place in places:
            assign(part, place, None, guard, line)
        return None

    return operation


def _select(program: Any, i: Instruction, guard: tuple[int, int]) -> Operation:
    bits = _operand_bits(i.parts)
    a, b = (program.source(one, bits, i.line) for one in i.operands[1:3])
    predicate, place, line = program.source(i.operands[3], 1, i.line), program.slot(i.operands[0], i.line), i.line
    again = remembered(blend, program.kept)

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        registers = part.registers
        held = registers[predicate]
        value: Value
        if held is None:
            same = registers[a] if isinstance(registers[a], int) else None
            value = same if same is not None and same == registers[b] else None
        else:
            chosen = held & part.mask
            value = registers[a] if chosen == part.mask else registers[b] if not chosen else None
            if value is None and chosen not in (0, part.mask):
                value = again(registers[a], registers[b], held)
        assign(part, place, value, guard, line)
        return None

    return operation


def _pack(program: Any, i: Instruction, guard: tuple[int, int]) -> Operation:
    """Return a move between a register and a vector of smaller ones."""
    to, source, line = i.operands[0], i.operands[1], i.line
    whole = int(re.sub(r"\D", "", i.parts[-1]))
    if to.startswith("{"):
        names = vector(to)
        bits = whole // len(names)
        place = program.source(source, whole, line)
        places = [program.slot(n, line) for n in names]

        def unpack(run: Run, warp: Warp, part: Part) -> int | None:
            value = part.registers[place]
            for j, one in enumerate(places):
                field_: Value = None
                if isinstance(value, int):
                    field_ = value >> bits * j & (1 << bits) - 1
                elif value is not None and whole <= MOST_BITS:
                    field_ = value >> np.uint64(bits * j) & np.uint64((1 << bits) - 1)
                assign(part, one, field_, guard, line)
            return None

        return unpack
    names = vector(source)
    bits = whole // len(names)
    sources = [program.source(n, bits, line) for n in names]
    target = program.slot(to, line)

    def joined(*values: Value) -> Value:
        total: Value = 0
        for j, value in enumerate(values):
            if value is None or (whole > MOST_BITS and not isinstance(value, int)):
                return None
            total = total | (value << (bits * j if isinstance(value, int) else np.uint64(bits * j)))
        return total

    again = remembered(joined, program.kept)

    def pack_two(run: Run, warp: Warp, part: Part) -> int | None:
        held = part.registers
        low, high = held[first], held[second]
        held[target] = low | high << bits if type(low) is int and type(high) is int else again(low, high)
        return None

    def pack(run: Run, warp: Warp, part: Part) -> int | None:
        values = [part.registers[one] for one in sources]
        value = again(*values) if np.ndarray in map(type, values) else joined(*values)
        assign(part, target, value, guard, line)
        return None

    if len(sources) == 2 and guard[0] < 0:
        first, second = sources
        return pack_two
    return pack
