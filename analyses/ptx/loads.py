"""What speaks against where shared memory is written and read, though all is in order: nobody reads what was written.

Boxes have sizes that are often only assumed, and a load at a wrong place may lie where nothing is in use. Then those
who wait for it read what is older. A descriptor or a store that begins at a wrong place reads what others have written.
So what loads bring is followed byte by byte: whether anybody reads it before it is overwritten, or at all, and whether
what is read came in the last phase of its barrier that its reader knows to be over; and whether any run reads what
threads write for asynchronous units. No kernel of other people's that is right does otherwise; what may still be meant
is left open, not wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from legalsat.analyses.ptx.brought import MISPLACED, Brought, Open
from legalsat.analyses.ptx.fragments import Fragments, listed, unread
from legalsat.analyses.ptx_machine.memory import SHARED_BYTES, in_words
from legalsat.analyses.ptx_machine.shadow import Cells, Shadow, key_of

if TYPE_CHECKING:
    from legalsat.analyses.ptx.contract import Access, Order

BY_THREADS = frozenset({"st", "cp.async"})
FETCHED = frozenset({"ld", "ldmatrix"})  # kinds of reads by threads
AT_THE_END = 0  # instead of the line that overwrites
_FOLLOWED = BY_THREADS | {"load"}  # accesses of which all must be read before it is overwritten


@dataclass
class Loads:
    """What has become of the copy engine's loads, and of what threads write, in one execution.

    Attributes:
        begun: where the time of a barrier's line of work begins since its last init.
        read: numbers of accesses that somebody has read. spans: of all loads, first cells and those behind the last.
        lost: lines of loads that nobody has read, and at which others have overwritten them.
        old: lines at which is read what was loaded before the last phase, and of these loads.
        over: how often a line has overwritten what threads wrote at another one, or loads of which some was read.
        cut: numbers of accesses of which some has been overwritten that nobody had read, and at which lines, with how
            often that line had overwritten such by then.
        twice: lines of copies by threads to a place to which their warp copies anew in the same group, with that line.
        stale: lines at which units, or threads, read what was written anew and, beside it, what was read before.
        changed: of stores by threads in the place of what these have read, the loads that brought it.
        turns: in which turn of its warp each of the accesses was that are writes by threads.
    """

    begun: dict[int, int] = field(default_factory=dict)
    read: set[int] = field(default_factory=set)
    spans: dict[int, tuple[int, int]] = field(default_factory=dict)
    lost: dict[tuple[int, int], None] = field(default_factory=dict)
    old: dict[tuple[int, int], None] = field(default_factory=dict)
    over: dict[tuple[int, int], int] = field(default_factory=dict)
    cut: dict[tuple[int, int], int] = field(default_factory=dict)
    twice: dict[tuple[int, int], None] = field(default_factory=dict)
    stale: dict[int, None] = field(default_factory=dict)
    changed: dict[int, frozenset[int]] = field(default_factory=dict)
    turns: dict[int, int] = field(default_factory=dict)

    def brought(self, writers: Iterable[int], accesses: Sequence[Access]) -> bool:
        """Have loads brought all that some accesses wrote, be it as it came or changed in its place?"""
        return all(accesses[number].kind == "load" or number in self.changed for number in writers)

    def change(self, number: int, writers: Iterable[int]) -> None:
        """Note a store that changes what others wrote in its place: it belongs to what came there."""
        self.changed[number] = frozenset(self.origins(writers))

    def origins(self, writers: Iterable[int]) -> list[int]:
        """Return who wrote first what some accesses did, or changed in its place."""
        changed = self.changed
        return sorted({one for number in writers for one in changed.get(number, (number,))}) if changed else [*writers]

    def note_read(self, writers: Iterable[int], accesses: Sequence[Access], known: Sequence[int], line: int) -> None:
        """Note who wrote what a warp reads that knows so much."""
        for number in writers:
            _, epoch, _, kind = access = accesses[number]
            if kind == "load":
                self.read.add(number)
                if known[access.agent] > epoch + 1 and epoch >= self.begun.get(access.agent, 0):
                    self.old[line, access.line] = None
            elif kind in BY_THREADS:
                self.read.add(number)

    def note_mixed(self, regions: list[int], writers: Sequence[int], shared: Shadow, order: Order, line: int) -> None:
        """Note a read by threads of what threads wrote in several turns, if some was read before the rest was written.

        What has been read belongs to what others of its turn wrote, and not to what takes their place.
        """
        turns = [self.turns.get(number, -1) for number in writers]
        if len(set(turns)) == 1 or min(turns) < 0:
            return
        newest, accesses = writers[-1], order.accesses
        older = {number for number, turn in zip(writers, turns, strict=True) if turn != turns[-1]}
        read = shared.readers_where(regions, older)
        if any(number < newest and accesses[number].kind in FETCHED for number in read):
            self.stale[line] = None

    def note_lost(self, writers: Iterable[int], unread: Iterable[int], accesses: Sequence[Access], line: int) -> None:
        """Note who wrote what the last access overwrites at a line, and of whose data nobody has read what is."""
        latest, unread = accesses[-1], {*unread}
        for number in unread if latest.kind == "cp.async" else ():
            if accesses[number][:2] == latest[:2] and accesses[number].line != line:  # a warp, in one group
                self.twice[accesses[number].line, line] = None
        for number in writers:
            if accesses[number].kind == "load" and number not in self.read:
                self.lost[accesses[number].line, line] = None
            elif accesses[number].kind in _FOLLOWED:
                pair = accesses[number].line, line
                self.over[pair] = self.over.get(pair, 0) + 1
        for number in unread:
            self.cut.setdefault((number, line), self.over.get((accesses[number].line, line), 0))

    def note_end(self, writers: Iterable[int], unread: Iterable[int], accesses: Sequence[Access]) -> None:
        """Note whose data are left when a run ends, and of whose nobody has read some."""
        for number in writers:
            if accesses[number].kind == "load":
                self.over[accesses[number].line, AT_THE_END] = 1
        for number in unread:
            if accesses[number].kind == "load" and number in self.read:  # what is loaded ahead may be left
                self.cut.setdefault((number, AT_THE_END), 1)

    def doubts(self, accesses: Sequence[Access]) -> Open:
        """Return what speaks against loads and reads, by what any run has shown of who reads them.

        Where nothing is multiplied, all that a line loads may be left unread.
        """
        found: Open = {}
        for line, loaded in self.old:
            reason = f"this reads what the load at line {loaded} brought, whose barrier has ended a later phase"
            found[line, f"{reason}, {MISPLACED}"] = None
        read = {accesses[number].line for number in self.read} if self.lost else set()
        for line, by in self.lost:
            if line in read:
                reason = f"nobody reads what this brings before line {by} overwrites it, {MISPLACED}"
                found[line, reason] = None
        for line, by in self.twice:
            reason = f"line {by} copies to where this does, and nobody can read it between, {MISPLACED}"
            found[line, reason] = None
        for line in self.stale:
            reason = f"some of what this reads has been written since it was read before, and some has not, {MISPLACED}"
            found[line, reason] = None
        return found


@dataclass
class Written:
    """What threads have written to shared memory in all runs of a kernel, and what was read of that, by line.

    Some of it nobody reads in one run: the last stages that cp.async has filled, or rows beyond a tensor's end.

    Attributes:
        made: cells by what they are known by. read: those that anybody has read while some of them were of a line.
        stored: lines of ordinary stores, whose values threads had in registers. guarded: lines of what some lanes of a
            warp have read while others read nothing: who stops at a tensor's end leaves what lies beyond.
        taken: lines of which asynchronous units, or ldmatrix, have read some. matrices: lines of stmatrix.
        sent: lines of which stores of the copy engine have read some.
        beside: lines of what threads have written right behind what a store takes, at the same time, with its line.
        brought: the same of loads by the copy engine. fragments: what ldmatrix has read, stretch by stretch.
        cut: lines of which some is overwritten that nobody has read, with the line that does, and how often it had
            overwritten such when it last did, the most in any run. whole: how often it has in runs in which all is
            read that is overwritten.
    """

    made: dict[int, dict[object, Cells]] = field(default_factory=dict)
    read: dict[int, dict[object, Cells]] = field(default_factory=dict)
    stored: set[int] = field(default_factory=set)
    guarded: set[int] = field(default_factory=set)
    taken: set[int] = field(default_factory=set)
    matrices: set[int] = field(default_factory=set)
    sent: set[int] = field(default_factory=set)
    beside: dict[int, int] = field(default_factory=dict)
    brought: Brought = field(default_factory=Brought)
    fragments: Fragments = field(default_factory=Fragments)
    cut: dict[tuple[int, int], int] = field(default_factory=dict)
    whole: dict[tuple[int, int], int] = field(default_factory=dict)

    def add(self, other: Written) -> None:
        """Add what another run has noted by itself."""
        for own, more in ((self.made, other.made), (self.read, other.read)):
            for line, held in more.items():
                own.setdefault(line, {}).update(held)
        self.stored |= other.stored
        self.guarded |= other.guarded
        self.taken |= other.taken
        self.matrices |= other.matrices
        self.sent |= other.sent
        self.beside = other.beside | self.beside
        self.brought.add(other.brought)
        self.fragments.add(other.fragments)
        _raise(self.cut, other.cut.items())
        _raise(self.whole, other.whole.items())

    def note_run(self, loads: Loads, accesses: Sequence[Access], *, whole: bool) -> None:
        """Note what has been overwritten in a run; `whole`: it has come to its end.

        A run of which something is overwritten that nobody reads at all says nothing for what is left of others.
        """
        read = ((pair, count) for pair, count in loads.cut.items() if pair[0] in loads.read)
        _raise(self.cut, (((accesses[number].line, by), count) for (number, by), count in read))
        if whole and not loads.cut:
            _raise(self.whole, loads.over.items())

    def note(self, cells: Cells, line: int, *, stored: bool) -> None:
        """Note what is written at a line, stored or copied."""
        if stored:
            self.stored.add(line)
        self.made.setdefault(line, {}).setdefault(key_of(cells), cells)

    def note_read(
        self, cells: Cells, writers: Iterable[int], order: Order, *, by_unit: bool, sent: bool = False
    ) -> None:
        """Note a read of what some accesses have written; `sent`: by a store of the copy engine."""
        lines = set()
        for number in writers:
            access = order.accesses[number]
            if access.kind in BY_THREADS:
                lines.add(access.line)
            elif number in order.loads.spans:
                self.brought.note_read(access.line, *order.loads.spans[number], cells)
                if by_unit:
                    self.brought.taken.add(access.line)
        if lines:
            key = key_of(cells)
            for line in lines:
                self.read.setdefault(line, {}).setdefault(key, cells)
            self.taken |= lines if by_unit else lines & self.matrices
            self.sent |= lines if sent else set()

    def unread(
        self, cells: int, granule: int, together: Mapping[int, int], copied: Mapping[int, tuple[int, int]]
    ) -> Open:
        """Return what speaks against lines of which somebody reads some, and nobody the rest.

        What units read none of tells less: compilers copy ahead what no round reads, and warps write what others need,
        the last one too. So of copies made together all lines are read or none, and of a warp's store all or nothing,
        but where its readers are guarded.

        Args:
            cells: how many there are.
            granule: bytes of each.
            together: by line that writes, the stretch of code that it is in.
            copied: by line of cp.async, the group of copies.
        """
        found: Open = {}
        for line in self.taken:
            first = unread(self.made.get(line, {}), self.read.get(line, {}), cells)
            if first >= 0:
                where = in_words(first * granule)
                found[line, f"nobody reads shared byte {where} that this writes, {MISPLACED}"] = None
        left_out = self.fragments.left_out(self.made, self.read.keys(), together, cells, granule)
        by_threads = self._unread_by_threads(cells, granule, together, copied)
        return found | by_threads | self._never_sent(cells) | self._cut_short() | left_out

    def _unread_by_threads(
        self, cells: int, granule: int, together: Mapping[int, int], copied: Mapping[int, tuple[int, int]]
    ) -> Open:
        """Return what speaks against lines of which units read nothing: threads alone, or nobody."""
        found: Open = {}
        used = {copied[line] for line in self.read.keys() & copied.keys()}
        # Where threads read nothing of what is stored, nobody is known to want it.
        fetched = (self.read.keys() & self.stored & together.keys()) - self.taken
        for line in sorted((self.made.keys() & together.keys()) - self.taken):
            if line not in self.read:
                if (line in self.stored and fetched) or copied.get(line) in used:
                    found[line, f"nobody reads anything that this writes, {MISPLACED}"] = None
                continue
            if line not in self.stored or line in self.guarded:  # copies have 16 bytes at least
                continue
            read = np.zeros(cells, dtype=bool)
            for one in self.read[line].values():
                read[one] = True
            for one in self.made[line].values():
                left = ~read[one]
                if left.any() and not left.all():
                    where = in_words(int(listed(one)[np.argmax(left)]) * granule)
                    found[line, f"nobody reads shared byte {where} that this writes, {MISPLACED}"] = None
                    break
        return found

    def _never_sent(self, cells: int) -> Open:
        """Return what speaks against lines of which nobody reads anything, though stores read what is written there.

        Either what others write to the same places is stored, or what is written right before, at the same time: a
        store at a wrong place lets boxes of unknown size look smaller than they are.
        """
        found: Open = {}
        for line, by in self.beside.items():
            if line not in self.read:
                reason = f"nobody reads what this writes with what line {by} stores, right behind that, {MISPLACED}"
                found[line, reason] = None
        staged = np.zeros(cells, dtype=bool)
        for line in self.sent:
            for one in self.read.get(line, {}).values():
                staged[one] = True
        for line in self.made.keys() - self.read.keys() if self.sent else ():
            if all(staged[one].all() for one in self.made[line].values()):
                found[line, f"nobody reads what this writes to where others write what is stored, {MISPLACED}"] = None
        return found

    def _cut_short(self) -> Open:
        """Return what speaks against lines of which some is overwritten that nobody has read, of threads and of loads.

        Who copies a tile stops at the tensor's end, and leaves what lies beyond unread. Of whole tiles all is read, as
        often as some of another run is left: what is written to a wrong place is not read there, either.
        """
        reason = "nobody reads some of what this writes before line {} overwrites it, " + MISPLACED
        taken = self.taken | (self.read.keys() & self.stored - self.guarded) | self.brought.taken
        short = [pair for pair, count in self.cut.items() if pair[0] in taken and self.whole.get(pair, 0) < count]
        left = "nobody reads some of what this brings last, " + MISPLACED
        return {(line, reason.format(by) if by != AT_THE_END else left): None for line, by in short}


@dataclass
class Stores:
    """Where stores of the copy engine have begun in any run: bytes of shared memory, with their maps."""

    places: set[tuple[int, str]] = field(default_factory=set)
    _room: dict[tuple[str, int], int] = field(default_factory=dict)

    def add(self, map_: str, begin: int) -> None:
        """Add a place."""
        if (begin, map_) not in self.places:
            self.places.add((begin, map_))
            self._room.clear()

    def room(self, map_: str, begin: int) -> int:
        """Return how many bytes stores by a map have at most, one of them here, before another store begins."""
        found = self._room.get((map_, begin))
        if found is None:
            begins = sorted({at for at, _ in self.places} | {begin})
            mine = {begin, *(at for at, name in self.places if name == map_)}
            found = min((after - at for at, after in pairwise(begins) if at in mine), default=SHARED_BYTES)
            self._room[map_, begin] = found
        return found


def _raise(counts: dict[tuple[int, int], int], seen: Iterable[tuple[tuple[int, int], int]]) -> None:
    """Let counts be the greatest that were seen."""
    for pair, count in seen:
        counts[pair] = max(count, counts.get(pair, 0))


def never_read(made: Collection[tuple[str, int]], read: Collection[tuple[str, int]]) -> Open:
    """Return what speaks against loads, by map and line, of which no run reads any, though it reads others of a map."""
    maps = {name for name, _ in read}
    reason = f"nobody reads what this brings, {MISPLACED}"
    return {(line, reason): None for name, line in set(made) - set(read) if name in maps}


def mixed_stores(sources: Mapping[tuple[str, bool], int]) -> Open:
    """Return what speaks against stores by one map, some of what loads have brought, others of what threads wrote.

    Args:
        sources: lines by map, and whether it is what loads have brought.
    """
    reason = f"this stores what a load has brought, and other stores by its map what threads wrote, {MISPLACED}"
    return {(line, reason): None for (name, loaded), line in sources.items() if loaded and (name, False) in sources}


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
