"""Who wrote each place of a memory last and who has read it since, kept for regions instead of single cells.

Kernels touch the same sets of cells again and again: stages, barriers, rows of lanes. Cells that no access has told
apart so far share a region, and so one entry. Regions are only ever split, and are kept for all runs of a kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Cells: TypeAlias = Any  # a slice, or an array of indices
Indices: TypeAlias = NDArray[np.intp]
_WINDOW = 4096  # cells that are looked at together


class Regions:
    """The partition of a memory's cells by the accesses seen so far.

    Args:
        cells: how many cells the memory has.
    """

    def __init__(self, cells: int) -> None:
        self.cells = cells
        self.label = np.zeros(cells, dtype=np.int32)
        self.parents = [0]
        self._sizes = [cells]
        self._known: dict[object, Indices] = {}
        self._users: list[list[object]] = [[]]
        self._held: list[Cells] = []

    def of(self, cells: Cells) -> Indices:
        """Return the regions of which these cells consist. Arrays that cannot be written to are known by identity."""
        key: object
        if isinstance(cells, slice):
            key = cells.start, cells.stop
        elif cells.flags.writeable:
            key = cells.tobytes()
        else:
            key = id(cells)
        found = self._known.get(key)
        if found is not None:
            return found
        if not isinstance(cells, slice) and not cells.flags.writeable:
            self._held.append(cells)
        listed = np.arange(self.cells)[cells] if isinstance(cells, slice) else np.unique(cells)
        labels = self.label[listed]
        regions, counts = np.unique(labels, return_counts=True)
        chosen = []
        for region, count in zip(regions.tolist(), counts.tolist(), strict=True):
            chosen.append(region if count == self._sizes[region] else self._split(region, listed[labels == region]))
        for region in chosen:
            self._users[region].append(key)
        found = self._known[key] = np.array(chosen, dtype=np.intp)
        return found

    def _split(self, region: int, inside: Indices) -> int:
        new = len(self.parents)
        self.label[inside] = new
        self.parents.append(region)
        self._sizes[region] -= inside.size
        self._sizes.append(inside.size)
        self._users.append(list(self._users[region]))
        for key in self._users[region]:
            self._known[key] = np.append(self._known[key], new)
        return new


class Shadow:
    """Who wrote each cell of a memory last, and who has read it since: numbers of accesses, 0 for none.

    Args:
        regions: the cells, told apart as far as needed.
    """

    def __init__(self, regions: Regions) -> None:
        self.regions = regions
        room = len(regions.parents) + 64
        self._count = len(regions.parents)
        self._writer = np.zeros(room, dtype=np.int32)
        self._readers = np.zeros((8, room), dtype=np.int32)
        self._slots: dict[int, int] = {}
        self._last: tuple[Cells, Indices] = (None, np.empty(0, dtype=np.intp))

    def _of(self, cells: Cells) -> Indices:
        if cells is self._last[0] and self._count == len(self.regions.parents):
            return self._last[1]  # an access looks several times at its cells
        found = self.regions.of(cells)
        if self._count < len(self.regions.parents):
            self._follow()
        self._last = cells, found
        return found

    def _follow(self) -> None:
        """Let regions that were split off have the history of those that they came from."""
        parents = self.regions.parents
        if len(parents) > self._writer.size:
            more = 2 * len(parents) - self._writer.size
            self._writer = np.concatenate([self._writer, np.zeros(more, dtype=np.int32)])
            self._readers = np.pad(self._readers, ((0, 0), (0, more)))
        for new in range(self._count, len(parents)):
            self._writer[new] = self._writer[parents[new]]
            self._readers[:, new] = self._readers[:, parents[new]]
        self._count = len(parents)

    def writers_of(self, cells: Cells) -> list[int]:
        """Return the accesses that wrote cells last; among them 0 if nobody has written some of them."""
        regions = self._of(cells)
        held: list[int] = self._writer[regions].tolist()
        return held if len(held) == 1 else sorted(set(held))

    def readers_of(self, cells: Cells) -> list[int]:
        """Return the last access of each agent that has read cells since they were written."""
        if not self._slots:
            return []
        regions = self._of(cells)
        if regions.size == 1:
            return [one for one in self._readers[: len(self._slots), regions[0]].tolist() if one]
        held = self._readers[: len(self._slots), regions].max(axis=1, initial=0).tolist()
        return [one for one in held if one]

    def wrote(self, cells: Cells, access: int) -> None:
        """Note the access that wrote cells: nobody has read them since."""
        regions = self._of(cells)
        self._writer[regions] = access
        self._readers[:, regions] = 0

    def has_read(self, cells: Cells, agent: int, access: int) -> None:
        """Note the access by which an agent read cells."""
        regions = self._of(cells)
        slot = self._slots.setdefault(agent, len(self._slots))
        if slot >= self._readers.shape[0]:
            self._readers = np.concatenate([self._readers, np.zeros_like(self._readers)])
        self._readers[slot, regions] = access

    def unwritten(self, cells: Cells) -> Indices:
        """Return those of the cells that nothing has written."""
        regions = self._of(cells)
        if self._writer[regions].all():
            return np.empty(0, dtype=np.intp)
        listed: Indices = np.arange(cells.start, cells.stop) if isinstance(cells, slice) else cells
        empty: Indices = listed[self._writer[self.regions.label[cells]] == 0]
        return empty

    def join(self, other: Shadow) -> None:
        """Take what another one of the same regions knows to be written for written here too."""
        for one in (self, other):
            if one._count < len(one.regions.parents):
                one._follow()
        np.maximum(self._writer[: self._count], other._writer[: self._count], out=self._writer[: self._count])

    def length(self, begin: int, most: int, good: Callable[[int], bool]) -> int:
        """Return how many cells from one on, at most so many, were last written by accesses that are good."""
        if self._count < len(self.regions.parents):
            self._follow()
        numbers, of_region = np.unique(self._writer[: self._count], return_inverse=True)
        which = np.array([bool(number) and good(number) for number in numbers.tolist()])[of_region]
        label, at, end = self.regions.label, begin, min(begin + most, self.regions.cells)
        while at < end:
            found = which[label[at : min(at + _WINDOW, end)]]
            if not found.all():
                return at + int(np.argmin(found)) - begin
            at += found.size
        return end - begin
