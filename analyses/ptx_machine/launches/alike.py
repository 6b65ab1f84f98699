"""Launches that a kernel cannot tell apart: they give the same values to all that steers it, and so the same run.

What is computed from the launch alone, by instructions without a guard each of which is the only one to write its
register, is a function of the launch, whatever way a run takes. The other instructions see nothing of the launch but
the registers of these that they read. Where two launches agree on those in every warp, the runs are the same, step by
step; so one is enough. Many sizes are one launch to a kernel: all those with as many tiles.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np

from legalsat.analyses.ptx.findings import Undecided
from legalsat.analyses.ptx.instruction import Instruction, names_in, results_of
from legalsat.analyses.ptx_machine import copies, units
from legalsat.analyses.ptx_machine.alu import FULL, LANES, DividesByZero, Value
from legalsat.analyses.ptx_machine.launches.data import CANCELLED, UNDEFINED
from legalsat.analyses.ptx_machine.launches.loads import keys_of_load
from legalsat.analyses.ptx_machine.launches.records import RECORDS
from legalsat.analyses.ptx_machine.machine import Operation, Part
from legalsat.analyses.ptx_machine.order import BRANCHES
from legalsat.analyses.ptx_machine.slice import LANE_OPERATIONS, touches
from legalsat.analyses.ptx_machine.tickets import TICKETS, draws

_OF_THREAD = ("%tid.", "%laneid", "%warpid", "%lanemask_")
LAUNCH = ("%ctaid.", "%nctaid.", "%clusterid.", "%nclusterid.")
OTHERS = units.EFFECTS | BRANCHES | LANE_OPERATIONS | {"bar", "barrier"}


@dataclass(frozen=True, slots=True)
class Told:
    """What a kernel can see of a launch.

    Attributes:
        columns: of each register that is told apart, its values in all warps; of each word taken, that.
        divides: places of divisions by zero.
    """

    columns: tuple[object, ...]
    divides: frozenset[int]


@dataclass(frozen=True, slots=True)
class Followed:
    """An instruction as it is followed for several launches.

    Attributes:
        at: its place. reads: registers that it may look at. results: those that it writes.
        names: the former, and the latter too where a guard may keep them as they are.
        taken: what it takes from the launch by itself.
        computes: it only computes registers, so that it can be followed for each launch by itself.
    """

    at: int
    reads: frozenset[str]
    results: tuple[str, ...]
    names: frozenset[str]
    taken: tuple[str, ...]
    computes: bool


class Alike:
    """What tells launches of a kernel apart.

    Args:
        program: whose instructions are taken, once it is made.
    """

    def __init__(self, program: Any) -> None:
        self.program, slots = program, program.slots
        chosen: dict[int, Instruction] = dict(zip(program.places, program.chosen, strict=True))
        computed = _computed(program, chosen)
        pure = list(computed.values())
        specials = {name for name in slots if name.startswith(LAUNCH)}
        given = _reached(specials | {n for i in pure if i.base == "ld" for n in results_of(i)}, pure)
        reads = {at: {slots[n] for n in self.read(i) if n in slots} for at, i in chosen.items() if at not in computed}
        for watch in program.watches:
            reads.setdefault(watch.at, set()).update((watch.place, *(watch.compared or ())[:2]))
        read = set().union(*reads.values())
        told = sorted(name for name in given if name in slots and slots[name] in read)
        self._raw = sorted({key for at, i in chosen.items() if at not in computed for key in self.taken(i)})
        column = {slots[name]: n + len(self._raw) for n, name in enumerate(told)}
        self._places = list(column)
        raw = {key: n for n, key in enumerate(self._raw)}
        self._columns: list[frozenset[int]] = [frozenset()] * len(program.code)
        for at, places in reads.items():
            self._columns[at] = frozenset(column[one] for one in places if one in column)
        for at, i in chosen.items():
            if at not in computed:
                self._columns[at] |= {raw[key] for key in self.taken(i)}
        by_thread = _by_thread(pure)
        self._warps = 1 if by_thread.isdisjoint(told) else -(-program.threads // LANES)
        needed = _behind(set(told), pure)
        steps = [(at, i) for at, i in computed.items() if not needed.isdisjoint(results_of(i))]
        # What does not hang on the thread is the same in all warps of a CTA, and computed once.
        self._steps: list[tuple[int, Operation]] = [
            (at, program.bare[at]) for at, i in steps if by_thread.isdisjoint(results_of(i))
        ]
        self._steps_of_warps: list[tuple[int, Operation]] = [
            (at, program.bare[at]) for at, i in steps if not by_thread.isdisjoint(results_of(i))
        ]
        self._computed = [
            slots[n] for at, i in steps if by_thread.isdisjoint(results_of(i)) for n in results_of(i) if n in slots
        ]

    def read(self, i: Instruction) -> list[str]:
        """Return the registers that an instruction may look at; of some it is known that they are not looked at."""
        operands = i.operands
        if (
            i.base == "ld"
            and units.space_of(i) not in {"shared", "param", ""}
            and id(i) not in self.program.roles.words
        ):
            operands = ()
        elif i.base == "cp" and "tensor" in i.parts:
            operands = copies.steering(i)
        return [*(name for one in operands for name in names_in(one)), i.guard]

    def taken(self, i: Instruction) -> list[str]:
        """Return what an instruction takes from the launch by itself."""
        if i.base == "clusterlaunchcontrol":
            return [CANCELLED] if "try_cancel" in i.parts else [UNDEFINED, *(f"%ctaid.{axis}" for axis in "xyz")]
        if draws(i):
            return [TICKETS]
        if i.base != "ld" or self.program.needed.isdisjoint(results_of(i)):
            return []
        pointer = self.program.roles.words.get(id(i))
        if pointer is not None:
            roles = self.program.roles
            return [pointer, *roles.names[id(i)], *([RECORDS] if pointer in roles.tables.records else ())]
        return keys_of_load(i) if units.space_of(i) == "param" else []

    @cached_property
    def followed(self) -> list[Followed]:
        """All instructions."""
        program, found = self.program, []
        for at, i in zip(program.places, program.chosen, strict=True):
            reads, results = frozenset(self.read(i)), results_of(i)
            names = reads.union(results) if i.guard else reads
            found.append(Followed(at, reads, results, names, tuple(self.taken(i)), self._computes(i)))
        return found

    def _computes(self, i: Instruction) -> bool:
        program = self.program
        if i.base in OTHERS or not results_of(i) or touches(i, program.sums | program.fetched):
            return False
        return i.base != "ld" or units.space_of(i) == "param" or id(i) in program.roles.words

    def looked_at(self, ways: Iterable[tuple[int, int]]) -> tuple[int, ...]:
        """Return the columns that a run has looked at; `ways`: first and last places of what it has followed."""
        return tuple(sorted(frozenset().union(*(one for a, b in ways for one in self._columns[a : b + 1]))))

    def of(self, values: Mapping[str, int]) -> Told | None:
        """Return what a kernel can see of a launch with these values; None where that cannot be computed."""
        run: Any = SimpleNamespace(parameters=values)
        rows: list[list[object]] = []
        divides: set[int] = set()

        def follow(part: Part, steps: list[tuple[int, Operation]]) -> None:
            for at, operation in steps:
                try:
                    operation(run, run, part)
                except DividesByZero:
                    divides.add(at)

        try:
            for rank in range(self.program.ranks):
                part = Part(0, FULL, self.program.initial(run, rank, 0))
                follow(part, self._steps)
                shared = [(place, part.registers[place]) for place in self._computed]
                for warp in range(self._warps):
                    if warp:
                        part = Part(0, FULL, self.program.initial(run, rank, warp))
                        held = part.registers
                        for place, value in shared:
                            held[place] = value
                    follow(part, self._steps_of_warps)
                    held = part.registers
                    rows.append([_plain(held[place]) for place in self._places])
        except (Undecided, TypeError, ValueError, OverflowError):
            return None
        raw = [values.get(name) for name in self._raw]
        return Told((*raw, *zip(*rows, strict=True)), frozenset(divides))


def _plain(value: Value) -> object:
    return value.tobytes() if isinstance(value, np.ndarray) else value


def _computed(program: Any, chosen: Mapping[int, Instruction]) -> dict[int, Instruction]:
    """Return the instructions, by place, that compute from the launch alone, in an order in which they can."""
    written = program.sums | program.fetched
    left = {
        at: i
        for at, i in chosen.items()
        if i.base not in OTHERS and not i.guard and results_of(i) and program.written_once.issuperset(results_of(i))
        and (i.base != "ld" or units.space_of(i) == "param" or id(i) in program.roles.words)
        and not touches(i, written)
    }  # fmt: skip
    names = {at: [*i.reads] for at, i in left.items()}
    open_ = {n for i in chosen.values() for n in results_of(i)}
    by_thread: set[str] = set()
    found: dict[int, Instruction] = {}
    moved = True
    while moved:
        program.bounds.check()
        moved = False
        for at, i in list(left.items()):
            # Where some lanes alone come to a choice, others may keep what they do not choose.
            if open_.isdisjoint(names[at]) and not (i.base == "selp" and i.operands[3] in by_thread):
                moved, found[at] = True, left.pop(at)
                open_.difference_update(results_of(i))
                if any(n in by_thread or n.startswith(_OF_THREAD) for n in names[at]):
                    by_thread.update(results_of(i))
    return found


def _by_thread(pure: list[Instruction]) -> set[str]:
    """Return registers that lanes may find different, by instructions in order."""
    names = {name for i in pure for one in i.operands[1:] for name in names_in(one)}
    return _reached({name for name in names if name.startswith(_OF_THREAD)}, pure)


def _reached(names: set[str], instructions: Iterable[Instruction]) -> set[str]:
    """Return registers with those that are computed from them, by instructions in order."""
    found = set(names)
    for i in instructions:
        if any(name in found for one in i.operands[1:] for name in names_in(one)):
            found.update(results_of(i))
    return found


def _behind(names: set[str], instructions: list[Instruction]) -> set[str]:
    """Return registers with those from which they are computed, by instructions in order."""
    found = set(names)
    for i in reversed(instructions):
        if not found.isdisjoint(results_of(i)):
            found.update(i.reads)
    return found
