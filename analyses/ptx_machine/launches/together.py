"""Several launches of a kernel run as one, until they part: what they share is followed once.

What launches do not agree on, a parameter and what is computed from it, is held once for each of them (`Fan`). Whatever
is more than arithmetic needs one value: there lanes wait until nothing else can move, as they may on hardware, and then
the run is forked (`fork`). Each of the copies goes on with those launches that agree there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from copy import copy
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from legalsat.analyses.ptx.findings import Undecided
from legalsat.analyses.ptx_machine.alu import NoLaunch
from legalsat.analyses.ptx_machine.launches.alike import LAUNCH, Followed
from legalsat.analyses.ptx_machine.launches.data import CANCELLED
from legalsat.analyses.ptx_machine.launches.fan import Fan, fanned, same
from legalsat.analyses.ptx_machine.launches.fork import fork
from legalsat.analyses.ptx_machine.launches.watch import Noted, note, watching
from legalsat.analyses.ptx_machine.machine import APART, Operation, Part, Run, Warp

Values = Mapping[str, int]
MISSED = (Undecided, NoLaunch, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class Forked:
    """How instructions are followed for launches that differ in some parameters.

    Attributes:
        code: a function for each instruction. needs: of each that needs one value of all launches, the registers.
        takes: of those that take something from the launch by themselves, what. spread: registers that may be `Fan`s.
    """

    code: list[Operation]
    spread: list[int]
    needs: dict[int, list[int]]
    takes: dict[int, list[str]]


@dataclass
class Group:
    """Launches that have gone the same way so far, in one run, which holds them.

    Attributes:
        launches: their values, by number. noted: what each alone has shown of conditions.
    """

    forked: Forked
    launches: list[tuple[int, Values]]
    noted: list[tuple[bytearray, dict[Any, int]]]

    def among(self, chosen: Sequence[int], run: Run) -> Run:
        """Let some of the launches go on in a run."""
        noted = [(bytearray(outcomes), dict(closest)) for outcomes, closest in (self.noted[n] for n in chosen)]
        found = Group(self.forked, [self.launches[n] for n in chosen], noted)
        run.parameters, run.group = found.launches[0][1], found
        run.apart = []
        for part in (part for warp in run.warps for part in warp.parts):
            if part.blocked is not None and part.blocked.apart:
                part.blocked = None
            held = part.registers
            for place in self.forked.spread:
                value = held[place]
                if type(value) is Fan:
                    held[place] = fanned([value.values[n] for n in chosen])
        if len(chosen) == 1:
            run.code = run.program.code
        return run

    def parted(self, run: Run, first: int = -1) -> list[Run]:
        """Return the launches by what they have where lanes wait for one value: those who part the fewest go on.

        `first`: the number of a launch whose group goes on in this run, and comes first; the largest one when left out.
        """
        listed = [
            sorted(self._classes(run, part), key=lambda one: (self._has(one, first), len(one))) for part in run.apart
        ]
        classes = max(listed, key=lambda one: len(one[-1]))
        return [self.among(one, run if one is classes[-1] else fork(run)) for one in classes][::-1]

    def keep_with(self, run: Run, first: int) -> None:
        """Let those launches go on that agree with one of a number where lanes wait; the others are given up."""
        chosen = next(one for one in self._classes(run, run.apart[0]) if self._has(one, first))
        self.among(chosen, run)

    def _has(self, chosen: Sequence[int], number: int) -> bool:
        return any(self.launches[n][0] == number for n in chosen)

    def _classes(self, run: Run, part: Part) -> list[list[int]]:
        places = [place for place in self.forked.needs[part.pc] if type(part.registers[place]) is Fan]
        taken = self.forked.takes.get(part.pc, ())
        found: list[list[int]] = []
        for n in range(len(self.launches)):
            for one in found:
                agree = all(_agree(run, part, p, n, one[0]) for p in places)
                if agree and all(self._taken(run, key, n) == self._taken(run, key, one[0]) for key in taken):
                    one.append(n)
                    break
            else:
                found.append([n])
        return found

    def _taken(self, run: Run, key: str, n: int) -> int | None:
        """Return what an instruction takes from a launch: of work that it asks for, whether there is more."""
        held = self.launches[n][1].get(key)
        return held if key != CANCELLED or held is None else min(held, run.cancelled + 1)

    def are_one(self, run: Run, part: Part) -> bool:
        """Do all launches agree on what lanes need? Then they have one value from now on."""
        if len(self._classes(run, part)) > 1:
            return False
        held = part.registers
        for place in self.forked.needs[part.pc]:
            if type(held[place]) is Fan:
                held[place] = held[place].values[0]
        return True

    def runs(self, run: Run) -> dict[int, Run]:
        """Return the run of each launch by its number, with what it alone has shown."""
        found = {}
        for (number, values), (outcomes, closest) in zip(self.launches, self.noted, strict=True):
            own = found[number] = copy(run)
            own.parameters, own.group, own.beside = values, None, True
            own.outcomes = bytearray(a | b for a, b in zip(run.outcomes, outcomes, strict=True))
            own.closest = dict(run.closest)
            for key, apart in closest.items():
                own.closest[key] = min(own.closest.get(key, apart), apart)
        return found


def _agree(run: Run, part: Part, place: int, a: int, b: int) -> bool:
    x, y = (part.registers[place].values[n] for n in (a, b))
    if type(x) is int and type(y) is int and place in run.program.predicates:
        return not (x ^ y) & part.mask
    return same(x, y)


def run_together(first: Run, launches: Sequence[Values]) -> tuple[dict[int, Run], int]:
    """Run launches until each has ended, or something is wrong or undecided.

    Args:
        first: a run of the first launch that has not begun.
        launches: the values of all.

    Returns:
        The runs that have ended, and in which all is right, by the number of the launch, and how many instructions were
        followed.
    """
    return go_on([_grouped(first, launches)])


def run_leader(first: Run, launches: Sequence[Values]) -> tuple[Run | None, list[Run], int]:
    """Run the first of several launches to its end, or until the states of its loops have repeated.

    Args:
        first: a run of that launch that has not begun, with what compares the states.
        launches: the values of all.

    Returns:
        Its run, None where something is wrong or undecided; runs of groups of those that have parted from it, which
        have not gone on (`go_on`); and how many instructions were followed.
    """
    periods, waiting = first.periods, list[Run]()
    _grouped(first, launches)
    while True:
        try:
            first.run()
        except MISSED:
            return None, [], first.work
        if first.cut or not first.apart:
            break
        _, *others = first.group.parted(first, 0)
        for one in others:
            one.periods = None
        waiting += others
    if _wrong(first):
        return None, [], first.work
    found = first.group.runs(first)[0]
    found.periods = periods
    return found, waiting, first.work


def going_alike(first: Run, launches: Sequence[Values]) -> tuple[set[int], int]:
    """Run the first of several launches to its end, right or wrong, and the others as long as they go the same way.

    Args:
        first: a run of that launch that has not begun.
        launches: the values of all.

    Returns:
        The numbers of those that go the same way to the end, and how many instructions were followed.
    """
    _grouped(first, launches)
    try:
        first.run()
        while first.apart:
            first.group.keep_with(first, 0)
            first.run()
    except MISSED:
        pass  # in which all of them end that have come so far
    return {number for number, _ in first.group.launches}, first.work


def _grouped(first: Run, launches: Sequence[Values]) -> Run:
    """Let a run of the first of several launches, which has not begun, be that of all of them."""
    forked = _forked(first.program, launches)
    first.code = forked.code
    noted: list[tuple[bytearray, dict[Any, int]]] = [(bytearray(len(first.outcomes)), {}) for _ in launches]
    first.group = Group(forked, [*enumerate(launches)], noted)
    _begin(first, launches)
    return first


def go_on(runs: Sequence[Run]) -> tuple[dict[int, Run], int]:
    """Run launches of groups on, until each has ended, or something is wrong or undecided; return them as above."""
    open_, found, work = list(runs), dict[int, Run](), 0
    while open_:
        run = open_.pop()
        before = run.work
        try:
            run.run()
        except MISSED:
            continue
        finally:
            work += run.work - before
        if run.apart:
            open_ += run.group.parted(run)
        elif not _wrong(run):
            found |= run.group.runs(run)
    return found, work


def _wrong(run: Run) -> bool:
    """Is something wrong or undecided? Then each launch is run by itself, so that it is said of the smallest one."""
    order, barriers = run.order, run.barriers
    barriers.judge_overtaken()
    open_ = bool(run.notes or order.doubts or barriers.late)
    return open_ or any(one.level == "error" for one in order.findings.values())


def _begin(run: Run, launches: Sequence[Values]) -> None:
    """Let registers begin with what each launch gives them."""
    program: Any = run.program
    for warp in run.warps:
        found = warp.parts[0].registers = program.initial(
            SimpleNamespace(parameters=launches[0]), warp.rank, warp.local
        )
        for name, place in program.of_launch({key for values in launches for key in values}):
            found[place] = fanned([program.special(values, name, warp.local, warp.rank) for values in launches])


def _forked(program: Any, launches: Sequence[Values]) -> Forked:
    """Return how a kernel is followed for launches."""
    keys = {key for values in launches for key, value in values.items() if launches[0].get(key) != value}
    followed: list[Followed] = program.alike.followed
    spread = _spread(program, followed, keys)
    slots = program.slots
    found = Forked(list(program.code), sorted(slots[name] for name in spread if name in slots), {}, {})
    for one in followed:
        at, taken = one.at, [key for key in one.taken if key in keys]
        places = [] if spread.isdisjoint(one.names) else sorted({slots[n] for n in one.names & spread if n in slots})
        if not places and not taken:
            continue
        operation = program.bare[at]
        if one.computes:
            results = [slots[name] for name in one.results if name in slots]
            operation = _for_each(operation, places, results, always=bool(taken))
        else:
            found.needs[at], found.takes[at] = places, taken
            operation = _for_all(operation, places, always=bool(taken))
        listed = program.watches_at.get(at)
        found.code[at] = watching(operation, listed, _note_each) if listed else operation
    for at, listed in program.watches_at.items():
        if found.code[at] is program.code[at]:
            found.code[at] = watching(program.bare[at], listed, _note_each)
    return found


def _spread(program: Any, followed: Sequence[Followed], keys: Set[str]) -> set[str]:
    """Return the registers on which launches may not agree that differ in some values."""
    grid = any(key.startswith("%") for key in keys)
    found = {name for name in program.slots if grid and name.startswith(LAUNCH)}
    listed = [(one.reads, one.results, not keys.isdisjoint(one.taken)) for one in followed if one.computes]
    moved = True
    while moved:
        program.bounds.check()
        moved = False
        for reads, results, always in listed:
            if (always or not reads.isdisjoint(found)) and not found.issuperset(results):
                moved = True
                found.update(results)
    return found


def _for_each(inner: Operation, places: list[int], results: list[int], *, always: bool) -> Operation:
    """Return what computes registers for each launch, where these do not agree on the sources."""

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        held = part.registers
        fans = [place for place in places if type(held[place]) is Fan]
        if not fans and not always:
            return inner(run, warp, part)
        before = [(place, held[place]) for place in {*fans, *results}]
        sources = [(place, held[place].values) for place in fans]
        found = []
        for n, (_, values) in enumerate(run.group.launches):
            for place, value in before:
                held[place] = value
            for place, several in sources:
                held[place] = several[n]
            run.parameters = values
            inner(run, warp, part)
            found.append([held[place] for place in results])
        for place, value in before:
            held[place] = value
        for place, column in zip(results, zip(*found, strict=True), strict=True):
            held[place] = fanned(column)
        run.parameters = run.group.launches[0][1]
        return None

    return operation


def _for_all(inner: Operation, places: list[int], *, always: bool) -> Operation:
    """Return what lets lanes wait where launches do not agree on what an instruction needs."""

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        held = part.registers
        if (always or any(type(held[place]) is Fan for place in places)) and not run.group.are_one(run, part):
            return APART
        return inner(run, warp, part)

    return operation


def _note_each(run: Run, part: Part, listed: list[Noted]) -> None:
    """Note how conditions turn out, for each launch by itself where they do not agree."""
    held, group = part.registers, run.group
    for one in listed:
        places = {one[1], *(place for first, second, _ in one[2] for place in (first, second))}
        fans = [(place, held[place]) for place in places if type(held[place]) is Fan]
        if not fans:
            note(run, part, [one])
            continue
        shared = run.outcomes, run.closest
        for n, own in enumerate(group.noted):
            for place, fan in fans:
                held[place] = fan.values[n]
            run.outcomes, run.closest = own
            note(run, part, [one])
        for place, fan in fans:
            held[place] = fan
        run.outcomes, run.closest = shared
