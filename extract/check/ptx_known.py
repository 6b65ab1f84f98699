"""Runs that are not made again: what one showed holds for all launches that the kernel cannot tell from its own.

They are kept for all sweeps of a kernel: one that begins at greater sizes comes to many launches of the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from legalsat.analyses.ptx.findings import Finding
from legalsat.analyses.ptx_machine.launches.alike import Alike, Told
from legalsat.analyses.ptx_machine.launches.watch import Watch
from legalsat.analyses.ptx_machine.machine import Run
from legalsat.analyses.ptx_machine.periods import Period

NOT_NOTED = -2  # how near a comparison is to turning round, where that was known to matter no longer


@dataclass
class Shown:
    """What one run showed of loops: how often each warp came to each head, and how many accesses there were.

    `closest`: how near comparisons of conditions, by number, came to turning round; below 0 where that is not known.
    `outcomes`: of each condition, as bits. `beside`: the run was made beside others.
    """

    visits: dict[tuple[int, int], int]
    accesses: int
    work: int
    closest: dict[tuple[int, tuple[int, int, int]], int]
    outcomes: bytes
    beside: bool = False

    @classmethod
    def of(cls, run: Run) -> Shown:
        """Return what a run that has ended shows."""
        ended = ((n, one) for n, one in enumerate(run.program.watches) if one.ended)
        closest = run.closest | {(n, pair): NOT_NOTED for n, one in ended for pair in one.compared}
        return cls(run.visits, len(run.order.accesses), run.work, closest, bytes(run.outcomes), run.beside)

    def is_like(self, other: Shown) -> bool:
        """Did another run come to the same heads as often, make as many accesses, and see the same outcomes?"""
        same = self.visits == other.visits and self.accesses == other.accesses
        return same and self.outcomes == other.outcomes


@dataclass(frozen=True, slots=True)
class Taken:
    """What a sweep takes over from a run.

    Attributes:
        outcomes: of each condition, as bits, and `cases` of tables of branches; none where it did not come to its end.
        reached: places of operations. visits: of warps to heads of loops.
        empty: by line, a byte of shared memory that was read and that nobody had written.
        findings: what was wrong. open: what is not decided.
    """

    outcomes: bytes
    cases: frozenset[tuple[int, int]]
    reached: frozenset[int]
    visits: Mapping[tuple[int, int], int]
    empty: Mapping[int, int]
    findings: Mapping[tuple[str, int], Finding]
    open: Mapping[tuple[int, str], None]


@dataclass(frozen=True, slots=True)
class Known:
    """What a run showed.

    Attributes:
        shown: of loops, None where it was too long.
        taken: the rest, None where it lacks the bytes of boxes that are not known yet.
        run: itself, which is kept only where it lacks these. wrong: it broke the contract.
        sized: it lacks none. periods: of heads of loops, if it looked for them.
        work: instructions that were followed, `limit` how many might have been. ways: what was followed, by places.
        sweep: the number of that which made the run.
    """

    shown: Shown | None
    taken: Taken | None
    run: Run | None
    sized: bool
    wrong: bool
    periods: Mapping[int, Period] | None
    work: int
    limit: int
    ways: frozenset[tuple[int, int]]
    sweep: int

    @property
    def visits(self) -> Mapping[tuple[int, int], int]:
        """Return how often each warp came to each head."""
        return self.taken.visits if self.taken is not None else {}

    def lacks(self, watches: Sequence[Watch]) -> bool:
        """Had its sweep seen a condition both ways that this one has not, so that less of it was noted?"""
        closest = self.shown.closest if self.shown is not None else {}
        return any(apart == NOT_NOTED and not watches[n].ended for (n, _), apart in closest.items())

    def goes_for(self, told: Told, limit: int) -> bool:
        """Would a run that sees the same have gone the same way, with so many instructions to follow?"""
        ended = self.work <= limit if self.shown is not None else self.limit == limit
        return ended and not any(a <= at <= b for at in told.divides for a, b in self.ways)


Earlier = tuple[Mapping[str, int], bytes | None]  # a run's values, and the ways of its conditions; None: it was dropped
_Seen = dict[tuple[object, ...], Known]  # by what runs saw where they looked


@dataclass
class KnownRuns:
    """Runs by what else decides how they go, by which columns they have looked at, and by what they saw there."""

    _held: dict[tuple[object, ...], dict[tuple[int, ...], _Seen]] = field(default_factory=dict)

    def find(self, told: Told, way: tuple[object, ...], limit: int) -> Known | None:
        """Return a run that has looked at nothing in which a launch differs from its own."""
        for columns, seen in self._held.get(way, {}).items():
            known = seen.get(tuple(told.columns[n] for n in columns))
            if known is not None and known.goes_for(told, limit):
                return known
        return None

    def keep(self, alike: Alike, told: Told | None, way: tuple[object, ...], known: Known) -> None:
        """Keep what a run showed, of a launch of which it is known what the kernel can see."""
        if told is None:
            return
        columns = alike.looked_at(known.ways)
        self._held.setdefault(way, {}).setdefault(columns, {})[tuple(told.columns[n] for n in columns)] = known

    def forget_runs(self, but: Iterable[Run]) -> None:
        """Keep no whole run any longer, but those by which boxes were sized: the next sweep sizes them by the same."""
        kept = {id(run.order) for run in but}
        for held in self._held.values():
            for seen in held.values():
                for told, known in seen.items():
                    if known.run is not None and id(known.run.order) not in kept:
                        seen[told] = replace(known, run=None)


def key_of(values: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Return the values of a launch as a key."""
    return tuple(sorted(values.items()))


def closed(run: Run) -> dict[tuple[int, str], None]:
    """Judge what the end of a run decides; return lines and reasons of what is not proven."""
    if not run.cut:  # else nobody knows what those who waited would have gone on to do
        run.barriers.judge_overtaken()
    late = {
        (line, f"arrivals may still come when the barrier of line {started} is invalidated"): None
        for line, started in run.barriers.late.items()
    }
    return late | run.notes


def growing(run: Known, few: Shown | None, more: Shown | None) -> list[tuple[int, int]]:
    """Return the heads of loops to which warps come more often in a long run than in short ones."""
    shown = [one.visits for one in (few, more) if one is not None]
    return [place for place, count in run.visits.items() if count > max((v.get(place, 0) for v in shown), default=0)]


def last_same(least: int, most: int, differs: Callable[[int], bool]) -> int:
    """Return the greatest number that does not differ, of which these are the bounds."""
    while least < most and differs(most):
        middle = (least + most) // 2
        if differs(middle + 1):
            most = middle
        else:
            least = middle + 1
    return most
