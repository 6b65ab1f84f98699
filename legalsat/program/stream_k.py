"""Stream-K: clusters have as many k-tiles each, and give sums of tiles that others store to these.

What is given travels through a workspace as registers hold it, and a number there says that it has come. A cluster
gives before it does anything else, and those of higher numbers alone wait for it: so all go on even where they are
launched one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from legalsat.program.kernel import Own
from legalsat.program.pipeline import Operation, UseSums


@dataclass(frozen=True, slots=True)
class GiveSums(Own):
    """Write the accumulator to the tile's place in the workspace, and say that it is there."""

    sums: str

    def words(self) -> str:
        """Return what it does, in words."""
        return "give accumulator i to the CTA that stores the tile"

    def effects(self, number: int) -> Iterable[Operation]:
        """Return that registers are read."""
        return (UseSums(self.sums.format(i=number)),)

    def run(self, warps: Any) -> None:
        """Keep the accumulator for the CTA that asks for it."""
        cta = warps.cta
        cta.launched.given[warps.tile.place, cta.rank, warps.number] = cta.sums[warps.number].copy()


@dataclass(frozen=True, slots=True)
class AddGiven(Own):
    """Add to the accumulator what others have given of the tile, once it is there."""

    sums: str

    def words(self) -> str:
        """Return what it does, in words."""
        return "add to accumulator i what others have given of the tile, once it is there"

    def effects(self, number: int) -> Iterable[Operation]:
        """Return that registers are read, and written."""
        return (UseSums(self.sums.format(i=number)),)

    def run(self, warps: Any) -> Iterator[Callable[[], bool]]:
        """Wait until all is there, and add it."""
        cta, given = warps.cta, warps.cta.launched.given
        wanted = [(place, cta.rank, warps.number) for place in warps.tile.adds]
        yield lambda: all(one in given for one in wanted)
        for one in wanted:
            cta.sums[warps.number] += given.pop(one)
