"""Which ways the conditions of a launch turn out in runs, noted where they are computed and where they are used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from legalsat.analyses.ptx.instruction import Instruction, names_in
from legalsat.analyses.ptx.local import CHOSEN
from legalsat.analyses.ptx_machine.alu import LANES, lanes_of, signed, whole_type
from legalsat.analyses.ptx_machine.launches.conditions import FALSE, TRUE, Condition
from legalsat.analyses.ptx_machine.machine import APART, Operation, Part, Run, Warp


@dataclass
class Watch:
    """A condition, where it is looked at, which outcomes must be seen, and which all runs have seen, as bits.

    `compared`: pairs of registers by which loops decide it, with their bits, below 0 for signed ones.
    `effective`: what has an effect may depend on it.
    """

    condition: Condition
    at: int
    place: int
    needed: int
    compared: tuple[tuple[int, int, int], ...] = ()
    effective: bool = True
    seen: int = 0

    @property
    def ended(self) -> bool:
        """Has it turned out both ways?"""
        return self.seen == TRUE | FALSE


def watch_all(program: Any, chosen: list[tuple[str, Instruction | None]]) -> None:
    """Note the conditions of a program, and let its operations note how they turn out."""
    found, asserted = program.conditions, _asserted(program)
    for at, (_, i) in enumerate(chosen):
        if i is None:
            continue
        program.bounds.check()
        if i.base == "brx":
            keys = found.depends.get(i.operands[0])
            if keys:
                program.tables[at] = len(program.kernel.tables[i.operands[1]]), keys
        for condition in (found.used(i), found.defined(i)):
            if condition is not None and condition.name in program.slots and not condition.name.startswith(CHOSEN):
                both = TRUE | FALSE
                if condition.used:
                    needed = program.ways.get(id(i), both)
                else:
                    needed = asserted.get(condition.name, both) if condition.name in program.firm else 0
                compared = () if condition.used else _compared(program, found.compared(i))
                effective = not condition.used or id(i) in program.effective
                watch = Watch(condition, at, program.slots[condition.name], needed, compared, effective)
                program.watches_at.setdefault(at, []).append((len(program.watches), watch))
                program.watches.append(watch)
    for at in program.watches_at:
        program.watch(at)


def _asserted(program: Any) -> dict[str, int]:
    """Return predicates by which alone assertions are made, with the outcome for which none fails."""
    found: dict[str, int] = {}
    others: set[str] = set()
    for i in program.chosen:
        if id(i) in program.asserted:
            found[i.guard] = found.get(i.guard, 0) | program.asserted[id(i)]
        else:
            others.update(n for one in (*i.operands[1:], i.guard) for n in names_in(one))
    return {name: needed for name, needed in found.items() if name not in others}


def _compared(program: Any, comparisons: list[Instruction]) -> tuple[tuple[int, int, int], ...]:
    """Return the registers of comparisons; none where one is not of whole numbers."""
    found = []
    for i in comparisons:
        letter, bits = whole_type(i.parts) or ("", 0)
        if not bits:
            return ()
        first, second = (program.source(one, bits, i.line) for one in i.operands[1:3])
        # Whether two are the same does not depend on the sign: a count that begins at 0 is near -4, and goes away.
        found.append((first, second, -bits if letter == "s" or i.parts[1] in {"eq", "ne"} else bits))
    return tuple(found)


Noted = tuple[int, int, tuple[tuple[int, int, int], ...]]  # a watch's number, its place, and what it compares


def note(run: Run, part: Part, listed: list[Noted]) -> None:
    """Note how conditions have turned out, and how near their comparisons are to turning round."""
    for number, place, compared in listed:
        value = part.registers[place]
        if value is not None:
            taken = value & part.mask
            run.outcomes[number] |= (TRUE if taken else 0) | (FALSE if taken != part.mask else 0)
            for pair in compared:
                key = number, pair
                run.closest[key] = min(run.closest.get(key, 1 << 64), _apart(part, *pair))


def watching(
    inner: Operation, listed: list[tuple[int, Watch]], noting: Callable[[Run, Part, list[Noted]], None] = note
) -> Operation:
    """Return an operation that notes how conditions turn out, before it uses or after it computes them.

    How near comparisons are to turning round is noted until they have.
    """
    noted = [(number, watch.place, () if watch.ended else watch.compared, watch) for number, watch in listed]
    before, after = ([one[:3] for one in noted if one[3].condition.used is used] for used in (True, False))

    if len(listed) == 1 and noting is note and not noted[0][2]:
        return _watching_one(inner, *noted[0][:2], used=bool(before))

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        if before:
            noting(run, part, before)
        signal = inner(run, warp, part)
        if after and signal != APART:
            noting(run, part, after)
        return signal

    return operation


def _watching_one(inner: Operation, number: int, place: int, *, used: bool) -> Operation:
    """Return the same of one condition that compares nothing, which is what there is most of."""

    def using(run: Run, warp: Warp, part: Part) -> int | None:
        value = part.registers[place]
        if value is not None:
            taken = value & part.mask
            run.outcomes[number] |= FALSE if not taken else TRUE if taken == part.mask else TRUE | FALSE
        return inner(run, warp, part)

    def computing(run: Run, warp: Warp, part: Part) -> int | None:
        signal = inner(run, warp, part)
        value = part.registers[place]
        if value is not None and signal != APART:
            taken = value & part.mask
            run.outcomes[number] |= FALSE if not taken else TRUE if taken == part.mask else TRUE | FALSE
        return signal

    return using if used else computing


def _apart(part: Part, first: int, second: int, bits: int) -> int:
    """Return how far two registers are apart, in the lane where they are nearest; -1 where that is not known."""
    a, b = (part.registers[place] for place in (first, second))
    if a is None or b is None:
        return -1
    if bits < 0:
        a, b = signed(a, -bits), signed(b, -bits)
    if isinstance(a, int) and isinstance(b, int):
        return abs(a - b)
    chosen = lanes_of(part.mask)
    wide = [np.full(LANES, one, dtype=np.float64) if isinstance(one, int) else one.astype(np.float64) for one in (a, b)]
    return int(np.abs(wide[0] - wide[1])[chosen].min())
