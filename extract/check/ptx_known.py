"""Runs that are not made again: what one showed holds for all launches that the kernel cannot tell from its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from legalsat.analyses.ptx.contract import Finding
from legalsat.analyses.ptx_machine.alike import Alike, Told
from legalsat.analyses.ptx_machine.machine import Run


@dataclass
class Shown:
    """What one run showed of loops: how often each warp came to each head, and how many accesses there were."""

    visits: dict[tuple[int, int], int]
    accesses: int
    work: int
    closest: dict[tuple[int, tuple[int, int, int]], int]


@dataclass(frozen=True, slots=True)
class Known:
    """What a run showed.

    Attributes:
        shown: of loops, None where it did not come to its end. findings: what was wrong.
        run: itself, while boxes are not known.
        work: instructions that were followed, `limit` how many might have been. ways: what was followed, by places.
    """

    shown: Shown | None
    findings: Mapping[tuple[str, int], Finding]
    run: Run | None
    work: int
    limit: int
    ways: frozenset[tuple[int, int]]

    def goes_for(self, told: Told, limit: int) -> bool:
        """Would a run that sees the same have gone the same way, with so many instructions to follow?"""
        ended = self.work <= limit and (self.shown is not None or self.limit == limit)
        return ended and not any(a <= at <= b for at in told.divides for a, b in self.ways)


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

    def keep(self, alike: Alike, told: Told, way: tuple[object, ...], known: Known) -> None:
        """Keep what a run showed."""
        columns = alike.looked_at(known.ways)
        self._held.setdefault(way, {}).setdefault(columns, {})[tuple(told.columns[n] for n in columns)] = known

    def forget_runs(self) -> None:
        """Forget those of which the whole run is kept."""
        for held in self._held.values():
            for columns, seen in held.items():
                held[columns] = {told: known for told, known in seen.items() if known.run is None}
