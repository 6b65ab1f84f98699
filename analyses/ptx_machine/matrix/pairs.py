"""Which part of A is multiplied with which of B: a descriptor that is off by a step reads what another one reads, too.

All of an operand may be read all the same, where several accumulators share it. But into one accumulator each byte of A
goes with one part of B of those that came in the same phase, or were written at the same time. And what came together,
or was written at the same lines, is read together: a multiplication that reads some of it, and with that what others
have written, reads over the end of its operand. What threads change where it lies belongs to what came there. What one
line brings is A of all that goes into the same sums, or B of all, and is read by the same strides, swizzle and order of
axes as all that comes by the same map.

Where boxes bring more than is multiplied, none of this shows that a descriptor is off by some rows. But what a part of
one operand goes with lies at the same place in each round of a ring, or at quite another one, never across both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from legalsat.analyses.ptx_machine.machine import Run
from legalsat.analyses.ptx_machine.shadow import Cells
from legalsat.options import Major

Came = frozenset[tuple[int, int]]  # lines of work, and when
Lines = frozenset[int]  # of the text, at which an operand was written
Sources = tuple[Came, Lines, frozenset[str]]  # and by which maps loads have brought it
Read = tuple[Cells, list[int]]  # what a descriptor reads, and who wrote it
Part = tuple[Cells, object, Came]  # what was read, with which other operand, and when that came if it did
_PLACE = 16  # bits of a descriptor in which only the place stands
_WAY = ~(7 << 49 - _PLACE)  # of the others, all but the three of the base offset, which follows from the place
_MOST = 1024  # arrivals of operands that are kept
_TWICE = "a part of an operand is multiplied with two parts of another that came together"
_BEYOND = "this reads some of what other multiplications into the same sums read with something else"
_IN_TWO_WAYS = "this reads what others into the same sums do with other strides, swizzle or order of axes"
_EXCHANGED = (
    "this reads as A what others into the same sums read as B",
    "this reads as B what others into the same sums read as A",
)
_ELSE = "as if a descriptor were another one"


@dataclass
class Partners:
    """What each operand has been multiplied with in all runs, by cells that the program keeps: known by identity.

    Attributes:
        others: of an operand, A or B, what it has gone with. across: by line, that it lies across another of these.
    """

    others: dict[tuple[int, int], list[Cells]] = field(default_factory=dict)
    across: dict[tuple[int, str], None] = field(default_factory=dict)
    _known: set[tuple[int, int]] = field(default_factory=set)

    def note(self, a: Cells, b: Cells, line: int) -> None:
        """Note a multiplication."""
        if (id(a), id(b)) in self._known:
            return
        self._known.add((id(a), id(b)))
        for key, other in (((0, id(a)), b), ((1, id(b)), a)):
            listed = self.others.setdefault(key, [])
            if any(len(one) == len(other) and 0 < np.isin(one, other).sum() < len(one) for one in listed):
                reason = "a part of an operand is multiplied with what lies across a part that goes with it elsewhere"
                self.across[line, f"{reason}, {_ELSE}"] = None
            listed.append(other)


def check_pair(
    run: Run, sums: object, operands: Sequence[tuple[object, Read | None]], majors: Sequence[Major], line: int
) -> None:
    """Check A and B of a multiplication into an accumulator.

    Args:
        run: with what was multiplied before.
        sums: where it adds.
        operands: of both the descriptor, or registers, with what it reads; None where that is no shared memory, or not
            understood.
        majors: how both lie.
        line: of the text.
    """
    nothing: Sources = frozenset(), frozenset(), frozenset()
    sources = [
        nothing if read is None else _sources(run, (sums, n), read[1], line) for n, (_, read) in enumerate(operands)
    ]
    came = [one for one, *_ in sources]
    for n, (_, lines, maps) in enumerate(sources):
        word, alone = operands[n][0], lines - sources[1 - n][1]
        if isinstance(word, int):
            way = word >> _PLACE & _WAY, majors[n]
            if any(run.paired.setdefault(((sums, n), ("way", one)), way) != way for one in maps or lines):
                run.order.doubts[line, f"{_IN_TWO_WAYS}, {_ELSE}"] = None
        if any(((sums, 1 - n), one) in run.paired for one in alone):
            run.order.doubts[line, f"{_EXCHANGED[n]}, {_ELSE}"] = None
    (_, a), (_, b) = operands
    if a is not None and b is not None:
        run.program.partners.note(a[0], b[0], line)
    for n, (_, read) in enumerate(operands):
        word, other = operands[1 - n]
        if read is None or not came[n] or (other is not None and not came[1 - n]):
            continue
        if _twice(run, (sums, n), came[n], (read[0], word, came[1 - n])):
            run.order.doubts[line, f"{_TWICE}, {_ELSE}"] = None


def begin(run: Run, sums: object) -> None:
    """Forget what was multiplied into sums that begin anew."""
    for key in [key for key in run.paired if key[0][0] == sums]:
        del run.paired[key]


def _sources(run: Run, place: tuple[object, int], writers: list[int], line: int) -> Sources:
    """Return when an operand came, and from where; check that it was read with the same others before, or not."""
    last = run.paired.get((place, "last"))
    if last is not None and last[0] == writers:  # the next step of a stage
        known: Sources = last[1:]
        return known
    accesses, origins = run.order.accesses, run.order.loads.origins(writers)
    came = _came(accesses, origins)
    lines = frozenset(accesses[number].line for number in origins if number)
    before = [run.paired.setdefault((place, one), sources) == sources for sources in (came, lines) for one in sources]
    if not all(before):
        run.order.doubts[line, f"{_BEYOND}, {_ELSE}"] = None
    maps = frozenset(run.order.maps[number] for number in origins if number in run.order.maps)
    run.paired[place, "last"] = writers, came, lines, maps
    return came, lines, maps


def _twice(run: Run, place: tuple[object, int], came: Came, part: Part) -> bool:
    """Note a part of an operand; return whether some of it has gone with another part that came with this one."""
    cells, word, other = part
    found = False
    for arrival in came:
        key = place, ("with", arrival)
        parts: tuple[Part, ...] = run.paired.get(key, ())
        known = False
        for one, with_, then in parts:
            if with_ == word:
                known |= one is cells
            elif not (other and then and then.isdisjoint(other)) and _meet(run, one, cells):
                found = True
        if not known:
            if len(run.paired) >= _MOST:
                del run.paired[next(iter(run.paired))]
            run.paired[key] = *parts, part
    return found


def _meet(run: Run, one: Cells, two: Cells) -> bool:
    """Have two parts some cells in common? Both are kept by the program, so that they are known by identity."""
    if one is two:
        return True
    held, key = run.program.meeting, (id(one), id(two))
    found: bool | None = held.get(key)
    if found is None:
        found = held[key] = bool(np.isin(one, two).any())
    return found


def _came(accesses: Sequence[Any], writers: Sequence[int]) -> Came:
    """Return when an operand was written, and by whom; of cp.async in which groups, which warps number alike."""
    listed = [accesses[one] for one in writers if one]
    return frozenset((-1 if one.kind == "cp.async" else one.agent, one.epoch) for one in listed)
