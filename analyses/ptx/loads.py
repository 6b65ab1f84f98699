"""What speaks against where the copy engine's loads go, though all is in order: nobody reads what they bring.

Boxes have sizes that are often only assumed, and a load at a wrong place may lie where nothing is in use. Then those
who wait for it read what is older. So what loads bring is followed: whether anybody reads it before it is overwritten,
or at all, and whether what is read came in the last phase of its barrier that its reader knows to be over. No kernel of
other people's that is right does otherwise; what may still be meant is left open, not wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from legalsat.analyses.ptx.contract import Access

Open = dict[tuple[int, str], None]  # lines and reasons
MISPLACED = "as if a load lay at a wrong place"


@dataclass
class Loads:
    """What has become of the loads of one execution.

    Attributes:
        begun: where the time of a barrier's line of work begins since its last init.
        read: numbers of accesses that somebody has read.
        lost: lines of loads that nobody has read, and at which others have overwritten them.
        old: lines at which is read what was loaded before the last phase, and of these loads.
    """

    begun: dict[int, int] = field(default_factory=dict)
    read: set[int] = field(default_factory=set)
    lost: dict[tuple[int, int], None] = field(default_factory=dict)
    old: dict[tuple[int, int], None] = field(default_factory=dict)

    def note_read(self, writers: Iterable[int], accesses: Sequence[Access], known: Sequence[int], line: int) -> None:
        """Note who wrote what a warp reads that knows so much."""
        for number in writers:
            _, epoch, _, kind = access = accesses[number]
            if kind == "load":
                self.read.add(number)
                if known[access.agent] > epoch + 1 and epoch >= self.begun.get(access.agent, 0):
                    self.old[line, access.line] = None

    def note_lost(self, writers: Iterable[int], accesses: Sequence[Access], line: int) -> None:
        """Note who wrote what is overwritten at a line."""
        for number in writers:
            if accesses[number].kind == "load" and number not in self.read:
                self.lost[accesses[number].line, line] = None

    def doubts(self, accesses: Sequence[Access]) -> Open:
        """Return what speaks against loads. Where nothing is multiplied, all that a line loads may be left unread."""
        found: Open = {}
        for line, loaded in self.old:
            reason = f"this reads what the load at line {loaded} brought, whose barrier has ended a later phase"
            found[line, f"{reason}, {MISPLACED}"] = None
        read = {accesses[number].line for number in self.read} if self.lost else set()
        for line, by in self.lost:
            if line in read:
                reason = f"nobody reads what this brings before line {by} overwrites it, {MISPLACED}"
                found[line, reason] = None
        return found


def never_read(made: Collection[tuple[str, int]], read: Collection[tuple[str, int]]) -> Open:
    """Return what speaks against loads, by map and line, of which no run reads any, though it reads others of a map."""
    maps = {name for name, _ in read}
    reason = f"nobody reads what this brings, {MISPLACED}"
    return {(line, reason): None for name, line in set(made) - set(read) if name in maps}


def overlapping(places: Mapping[str, Mapping[int, tuple[int, int]]], boxes: Mapping[str, int]) -> Open:
    """Return what speaks against boxes of one map that lie in each other.

    Args:
        places: by map and byte of shared memory, how many boxes a load there has, and its line.
        boxes: bytes of boxes by map, where known.
    """
    found: Open = {}
    for name, held in places.items():
        for (at, (count, line)), (after, (_, other)) in pairwise(sorted(held.items())):
            if after < at + count * boxes.get(name, 0):
                reason = f"boxes of {name} lie in each other, {after - at} bytes apart (line {min(line, other)})"
                found[max(line, other), f"{reason}, {MISPLACED}"] = None
    return found
