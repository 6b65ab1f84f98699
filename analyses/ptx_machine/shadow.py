"""Who wrote each place of a memory last and who has read it since, kept for regions instead of single cells.

Kernels touch the same sets of cells again and again: stages, barriers, rows of lanes. Cells that no access has told
apart so far share a region, and so one entry. Regions are only ever split, and are kept for all runs of a kernel. Most
sets are one region or a few, for which plain lists are quicker than arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from legalsat.analyses.ptx_machine.memory import distinct

Cells: TypeAlias = Any  # a slice, or an array of indices
Indices: TypeAlias = NDArray[np.intp]
_WINDOW = 4096  # cells that are looked at together


def key_of(cells: Cells) -> object:
    """Return by what cells are known: arrays that cannot be written to by identity."""
    if type(cells) is slice:
        return cells.start, cells.stop
    return cells.tobytes() if cells.flags.writeable else id(cells)


class Regions:
    """The partition of a memory's cells by the accesses seen so far.

    Args:
        cells: how many cells the memory has.

    Attributes:
        known: the regions of sets of cells that have been asked for.
    """

    def __init__(self, cells: int) -> None:
        self.cells = cells
        self.label = np.zeros(cells, dtype=np.int32)
        self.parents = [0]
        self._sizes = [cells]
        self.known: dict[object, list[int]] = {}
        self._users: list[list[object]] = [[]]
        self._held: list[Cells] = []

    def of(self, cells: Cells) -> list[int]:
        """Return the regions of which these cells consist; the list grows when one of them is split.

        Arrays that cannot be written to are known by identity, and hold each cell once.
        """
        key = key_of(cells)
        found = self.known.get(key)
        if found is not None:
            return found
        begin = 0
        if isinstance(cells, slice):
            begin = cells.start
        elif cells.flags.writeable:
            cells = distinct(cells)
        else:
            self._held.append(cells)
        labels = self.label[cells]
        counts = np.bincount(labels)
        chosen = []
        for region in np.flatnonzero(counts).tolist():
            if counts[region] == self._sizes[region]:
                chosen.append(region)
                continue
            inside = np.flatnonzero(labels == region)
            chosen.append(self._split(region, inside + begin if isinstance(cells, slice) else cells[inside]))
        for region in chosen:
            self._users[region].append(key)
        self.known[key] = chosen
        return chosen

    def _split(self, region: int, inside: Indices) -> int:
        new = len(self.parents)
        self.label[inside] = new
        self.parents.append(region)
        self._sizes[region] -= inside.size
        self._sizes.append(inside.size)
        self._users.append(list(self._users[region]))
        for key in self._users[region]:
            self.known[key].append(new)
        return new


class Shadow:
    """Who wrote each cell of a memory last, and who has read it since: numbers of accesses, 0 for none.

    Args:
        regions: the cells, told apart as far as needed.

    Attributes:
        writes: how many there have been.
    """

    def __init__(self, regions: Regions) -> None:
        self.regions = regions
        self._writer = [0] * len(regions.parents)
        self._readers: list[dict[int, int] | None] = [None] * len(regions.parents)  # None: nobody
        self._slots: dict[int, int] = {}
        self._changes = 0
        self._asked: tuple[list[int], int, list[int]] = [], -1, []
        self.writes = 0

    def copy(self) -> Shadow:
        """Return a copy that goes on by itself, of the same regions."""
        found = Shadow(self.regions)
        self._follow()
        found._writer, found._slots, found.writes = list(self._writer), dict(self._slots), self.writes
        found._readers = [held and dict(held) for held in self._readers]
        return found

    def of(self, cells: Cells) -> list[int]:
        """Return the regions of which cells consist, which have the history of those from which they were split."""
        regions = self.regions
        # Arrays that are known by identity are kept, so that no other one has it.
        key = (cells.start, cells.stop) if type(cells) is slice else id(cells)
        found = regions.known.get(key) or regions.of(cells)
        if len(self._writer) < len(regions.parents):
            self._follow()
        return found

    def _follow(self) -> None:
        self._changes += 1
        for parent in self.regions.parents[len(self._writer) :]:
            self._writer.append(self._writer[parent])
            readers = self._readers[parent]
            self._readers.append(readers and dict(readers))

    def writers_of(self, regions: list[int]) -> list[int]:
        """Return the accesses that wrote regions last; among them 0 if nobody has written some of them."""
        writer = self._writer
        if len(regions) == 1:
            return [writer[regions[0]]]
        found = set(map(writer.__getitem__, regions))
        return list(found) if len(found) == 1 else sorted(found)

    def readers_of(self, regions: list[int]) -> list[int]:
        """Return the last access of each agent that has read regions since they were written."""
        asked = self._asked  # whether a fence is missing, and whether it may be overwritten, are asked together
        if asked[0] is regions and asked[1] == self._changes:
            return asked[2]
        readers = self._readers
        latest, owned = readers[regions[0]], False
        for one in regions[1:]:
            held = readers[one]
            if not held or held == latest:
                continue
            if not latest:
                latest = held
                continue
            if not owned:
                latest, owned = dict(latest), True
            for slot, access in held.items():
                if access > latest.get(slot, 0):
                    latest[slot] = access
        found = [latest[slot] for slot in sorted(latest)] if latest else []
        self._asked = regions, self._changes, found
        return found

    def up_to_date(self) -> int:
        """Take over regions that have been split; return how many there are."""
        if len(self._writer) < len(self.regions.parents):
            self._follow()
        return len(self._writer)

    def all_writers(self, regions: Iterable[int]) -> set[int]:
        """Return the accesses that wrote regions last, with 0 if nobody has written some of them."""
        return set(map(self._writer.__getitem__, regions))

    def writer(self, cell: int) -> int:
        """Return the access that wrote a cell last, 0 where there is none."""
        self.up_to_date()
        return self._writer[int(self.regions.label[cell])]

    def all_readers(self, regions: Iterable[int]) -> set[int] | None:
        """Return the last access of each agent that has read one of the regions; None if what is there was not read."""
        writer, readers, found = self._writer, self._readers, set[int]()
        for one in regions:
            held = readers[one]
            if held is not None:
                found.update(held.values())
            elif writer[one]:
                return None
        return found

    def readers_where(self, regions: Iterable[int], accesses: Container[int]) -> set[int]:
        """Return the last access of each agent that has read what some accesses wrote last in the regions."""
        writer, readers, found = self._writer, self._readers, set[int]()
        for one in regions:
            held = readers[one]
            if held and writer[one] in accesses:
                found.update(held.values())
        return found

    def unread(self, regions: Iterable[int]) -> set[int]:
        """Return the accesses that wrote some of the regions last, and that nobody has read there."""
        writer, readers = self._writer, self._readers
        return {writer[one] for one in regions if writer[one] and readers[one] is None}

    def all_read_by(self, regions: Iterable[int], agent: int) -> bool:
        """Has an agent read all of some regions since they were written?"""
        readers, slot = self._readers, self._slots.get(agent)
        return slot is not None and all(slot in (readers[one] or ()) for one in regions)

    def partly(self, regions: Iterable[int], chosen: Callable[[int], bool]) -> bool:
        """Have chosen accesses read some of the regions since they were written, and others not?"""
        writer, readers = self._writer, self._readers
        found = {any(map(chosen, (readers[one] or {}).values())) for one in regions if writer[one]}
        return len(found) > 1

    def wrote(self, regions: list[int], access: int) -> None:
        """Note the access that wrote regions: nobody has read them since."""
        self.writes += 1
        self._changes += 1
        writer, readers = self._writer, self._readers
        for one in regions:
            writer[one] = access
            readers[one] = None

    def has_read(self, regions: list[int], agent: int, access: int) -> None:
        """Note the access by which an agent read regions."""
        self._changes += 1
        readers, slot = self._readers, self._slots.get(agent)
        if slot is None:
            slot = self._slots[agent] = len(self._slots)
        for one in regions:
            held = readers[one]
            if held is not None:
                held[slot] = access
            else:
                readers[one] = {slot: access}

    def unwritten(self, cells: Cells) -> Indices:
        """Return those of the cells that nothing has written."""
        return self.written_by(cells, {0})

    def written_by(self, cells: Cells, accesses: Container[int]) -> Indices:
        """Return those of the cells that one of some accesses has written last."""
        regions = self.of(cells)
        found = [one for one in regions if self._writer[one] in accesses]
        listed: Indices = np.arange(cells.start, cells.stop) if isinstance(cells, slice) else cells
        if len(found) == len(regions):
            return listed
        chosen = np.zeros(len(self.regions.parents), dtype=bool)
        chosen[found] = True
        return listed[chosen[self.regions.label[cells]]]

    def join(self, other: Shadow) -> None:
        """Take what another one of the same regions knows to be written for written here too."""
        self._follow()
        other._follow()
        self._writer = list(map(max, self._writer, other._writer))

    def length(self, begin: int, most: int, good: Callable[[int], bool]) -> int:
        """Return how many cells from one on, at most so many, were last written by accesses that are good."""
        if len(self._writer) < len(self.regions.parents):
            self._follow()
        writer = self._writer
        label, at, end = self.regions.label, begin, min(begin + most, self.regions.cells)
        while at < end:
            found = label[at : min(at + _WINDOW, end)]
            regions = np.flatnonzero(np.bincount(found)).tolist()
            others = [one for one in regions if not (writer[one] and good(writer[one]))]
            if others:
                return at + int(np.argmax(np.isin(found, others))) - begin
            at += found.size
        return end - begin
