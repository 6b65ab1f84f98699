"""Who knows what has happened: vector clocks over warps and asynchronous units, and who touched shared memory last.

A *line of work* is a warp, or something that finishes by itself in order: the multiplications of a warpgroup, the
copies of a warp, the phases of a barrier. A warp's clock says of each how far it knows it to have come, whatever the
order in which things happen: it learns by barriers and waits alone. An access is ordered before what a warp does now
if its line's time is behind the warp's clock. So one execution tells of all its interleavings.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from legalsat.analyses.ptx.clocks import Clocks, Worker
from legalsat.analyses.ptx.findings import HELP, UNWRITTEN, Finding, Undecided
from legalsat.analyses.ptx.loads import BY_THREADS, FETCHED, Loads, Written
from legalsat.analyses.ptx_machine.memory import in_words
from legalsat.analyses.ptx_machine.shadow import Cells, Regions, Shadow

_MOST_BY_PEERS = 256  # reads of matrix units that are kept for other warps of their warpgroups
CAPACITY = 512  # lines of work of one or two CTAs
LANES = 32


class Access(NamedTuple):
    """A use of memory: by which line of work, when by its time, where in the text, and what kind of use."""

    agent: int
    epoch: int
    line: int
    kind: str


def access_of(agent: int, epoch: int, line: int, kind: str) -> Access:
    """Return a use of memory, quicker than by its class: there are many."""
    return tuple.__new__(Access, (agent, epoch, line, kind))


class ByPeers(NamedTuple):
    """What a warp of a warpgroup has read, as its peers do: see `Order.read_by_peers`."""

    operands: Sequence[tuple[Cells, list[int]]]
    writers: frozenset[int]
    writes: int
    trail: int


class Order:
    """Clocks, accesses and findings of one execution.

    Args:
        warps: of all CTAs. ranks: how many these are.
        shared_bytes, granule, regions: of their shared memory.
        most: lines of work, if it is known that there are few; `agents` are all that there have been so far.

    Attributes:
        seen: cells of shared memory that threads have read and nobody had written.
        unwritten: by line, how threads or stores have read such memory: the use, the first byte, whether nothing of it
            was written by anybody.
        blind: somebody has written where is not known.
        filled: lines at which something that is read has been written.
        tensor: lines of work on tensor memory. traced: warps keep a trail of their accesses.
        doubts: lines and reasons of what is wrong if boxes are as large as is guessed.
        maps: of accesses that are loads by tensor maps, the map. mixed: by line, maps that fill one operand together.
        loads: what has become of what the copy engine loads. written: of what threads write, in all runs.
    """

    def __init__(
        self, warps: int, shared_bytes: int, granule: int, regions: Regions | None = None, ranks: int = 1,
        *, most: int = 0,
    ) -> None:  # fmt: skip
        self.warps, self.granule = warps, granule
        self.capacity = most or CAPACITY * max(1, ranks // 2)
        nothing = self.clocks()
        self.workers = [Worker(i, warps + i, 2 * warps + i, self.clocks(), nothing) for i in range(warps)]
        for worker in self.workers:
            worker.known[worker.index] = worker.known[worker.single] = 1
        self.agents = 3 * warps
        self.tensor: list[int] = []
        self.traced = False
        self.accesses: list[Access] = [Access(0, -1, 0, "none")]
        self._multiplied: dict[int, tuple[tuple[int, int, int, int], list[int]]] = {}
        self._by_peers: dict[tuple[int, tuple[int, ...]], ByPeers] = {}
        self.shared = Shadow(regions or Regions(shared_bytes // granule + 1))
        self.shared_bytes = shared_bytes
        self.findings: dict[tuple[str, int], Finding] = {}
        self.seen = np.zeros(self.shared.regions.cells, dtype=bool)
        self.unwritten: dict[int, tuple[str, int, bool]] = {}
        self.blind = False
        self.filled: set[int] = set()
        self.doubts: dict[tuple[int, str], None] = {}
        self.maps: dict[int, str] = {}
        self.loads, self.written, self.mixed = Loads(), Written(), dict[int, frozenset[str]]()

    def clocks(self) -> Clocks:
        """Return clocks that know of nothing."""
        return np.zeros((2, self.capacity), dtype=np.int32)

    def agent(self) -> int:
        """Return a new line of work."""
        if self.agents >= self.capacity:
            raise Undecided(0, f"more than {self.capacity} barriers and units")
        self.agents += 1
        return self.agents - 1

    def find(self, kind: str, line: int, message: str, note: str = "", help_: str = "", *, sure: bool = True) -> None:
        """Add a finding, once for each kind and line; of what is only guessed, that it is open."""
        if not sure:
            unknown = "how many bytes its box has is not known (--box-bytes MAP=BYTES says it)"
            self.doubts[line, f"{message} ({note}); {unknown}"] = None
            return
        if (kind, line) not in self.findings:
            self.findings[kind, line] = Finding(kind, line, message, note, help_ or HELP[kind])

    def actor(self, worker: Worker, lanes: int) -> int:
        """Return the line of work to which an access by some lanes belongs, and note that they have made one."""
        if lanes & lanes - 1 or lanes == worker.live:
            worker.alone |= lanes
            return worker.index
        return worker.single

    def release(self, worker: Worker, lanes: int) -> None:
        """Let some lanes release what they know by a fence, for barriers that release nothing."""
        worker.released = np.maximum(worker.released, worker.passed_on(lanes))

    def relaxed(self, worker: Worker) -> Clocks:
        """Return the clocks that a warp passes on without a release: who has been where, and what fences released.

        What is done to tensor memory needs fences of its own, and arrivals that release nothing (PTX ISA, 9.7.16.6.4).
        """
        worker.meet()
        passed = slice(2 * self.warps, 3 * self.warps)
        found = np.maximum(worker.released, self.of_tensor_memory(worker))
        found[0, passed] = worker.clock[passed]
        return found

    def of_tensor_memory(self, worker: Worker) -> Clocks:
        """Return what a warp knows to be done to tensor memory, and nothing else."""
        found = self.clocks()
        found[0, self.tensor] = worker.clock[self.tensor]
        return found

    def fence(self, worker: Worker, lanes: int) -> None:
        """Let all that a warp knows be seen by asynchronous units too."""
        passed, fenced = worker.passed_on(lanes), worker.clocks[1]
        np.maximum(fenced, passed[0], out=fenced)

    def meet(self, arrivals: Iterable[tuple[Worker, Clocks]], *, of_all: bool = True) -> None:
        """Let warps meet at a barrier of the block, `of_all` or of some."""
        listed = list(arrivals)
        clocks = listed[0][1].copy()
        for _, passed in listed[1:]:
            np.maximum(clocks, passed, out=clocks)
        for worker, _ in listed:
            worker.learn(clocks)
            worker.turns.meet(of_all=of_all)

    def cells(self, addresses: Any, size: int) -> Cells:
        """Return the cells of `size` bytes from each address."""
        granule = self.granule
        if isinstance(addresses, int):
            return slice(addresses // granule, -(-(addresses + size) // granule))
        first = addresses.astype(np.int64) // granule
        count = max(1, size // granule)
        return first if count == 1 else (first[:, None] + np.arange(count)).ravel()

    def ordered(self, access: Access, worker: Worker, own: int = -1) -> bool:
        """Is an access before what a warp does now, however things interleave?"""
        agent = access.agent
        if worker.known[agent] > access.epoch or agent in (worker.index, worker.single, own):
            return True
        if worker.likely is None or worker.likely[agent] <= access.epoch:
            return False
        message = f"{self.use_of(access)} is passed on by an arrival at the cluster's barrier that releases nothing"
        self.find("arrival_without_release", access.line, message)
        return True

    def read(  # noqa: PLR0917
        self, memory: Shadow, cells: Cells, worker: Worker, agent: int, epoch: int, kind: str, line: int
    ) -> list[int]:
        """Record a read, and check that it follows the writes; return these, 0 among them if some cells have none."""
        if kind != "barrier":
            worker.turns.work()
            if self.traced:
                _trace(worker, cells, line if memory is self.shared else -line)
        regions = memory.of(cells)
        # The warps of a warpgroup read the same one after the other, as one line of work at one time.
        before = self._multiplied.get(id(cells)) if kind == "wgmma" else None
        same = before is not None and before[0] == (memory.writes, agent, epoch, line)
        writers = before[1] if before is not None and same else memory.writers_of(regions)
        if memory is self.shared:
            self.loads.note_read(writers, self.accesses, worker.known, line)
            self._note_read(cells, regions, writers, kind, line)
            if kind in _READS and writers != [0]:
                self.filled.add(line)
            if 0 in writers or (kind in _MATRIX and len(writers) > 1):
                self._note_writers(cells, kind, line, writers)
        to_fence = _TO_FENCE if kind in _ASYNCHRONOUS else _NO_KINDS
        if not (worker.fenced_behind if to_fence else worker.behind).issuperset(writers):
            for access, late in self._suspects(writers, worker, agent, to_fence):
                if late:
                    self._read_early(access, kind, line)
                elif access.kind == "st" and (kind == "guess" or self.new("write_not_fenced", line)):
                    self.find(
                        "write_not_fenced",
                        line,
                        f"{_USES[kind]} reads shared memory that ordinary stores wrote, with no proxy fence between",
                        f"written at line {access.line}",
                        sure=kind != "guess",
                    )
                elif access.kind == "cp.async" and (kind == "guess" or self.new("copies_not_fenced", line)):
                    self.find(
                        "copies_not_fenced",
                        line,
                        f"{_USES[kind]} reads shared memory that cp.async wrote, with no proxy fence between",
                        f"written at line {access.line}",
                        sure=kind != "guess",
                    )
        if not same:
            self.accesses.append(access_of(agent, epoch, line, kind))
            memory.has_read(regions, agent, len(self.accesses) - 1)
            if kind == "wgmma":
                self._multiplied[id(cells)] = (memory.writes, agent, epoch, line), writers
        return writers

    def read_by_peers(self, key: tuple[int, ...], worker: Worker, line: int) -> bool:
        """Has another warp of the warpgroup recorded these very reads, of what a warp knows to be written before?

        `key`: the line of work, its time, and the descriptors.
        """
        before = self._by_peers.get((line, key))
        if before is None:
            return False
        if not worker.fenced_behind.issuperset(before.writers) and any(
            True for _ in self._suspects(before.writers, worker, key[0], _TO_FENCE)
        ):
            return False  # who reads them says what is wrong
        shared = self.shared
        if before.writes != shared.writes and any(  # what else has been written is of no account
            shared.writers_of(shared.of(cells)) != writers for cells, writers in before.operands
        ):
            return False
        worker.turns.work()
        worker.trail[line] += before.trail
        return True

    def _note_read(self, cells: Cells, regions: list[int], writers: list[int], kind: str, line: int) -> None:
        """Note a read, and whether others like it have read a part of that since it was written, and not the rest."""
        by_unit = kind in _WHOLE
        self.written.note_read(cells, writers, self, by_unit=by_unit, sent=kind in _SENT)
        if by_unit and len(regions) > 1:
            accesses, kinds = self.accesses, next(one for one in _ALIKE if kind in one)
            if self.shared.partly(regions, lambda number: accesses[number].kind in kinds):
                self.loads.stale[line] = None
        if kind in FETCHED and len(writers) > 1:
            self.loads.note_mixed(regions, writers, self.shared, self, line)

    def let_peers_know(
        self, key: tuple[int, ...], operands: Sequence[tuple[Cells, list[int]]], trail: int, line: int
    ) -> None:
        """Note what a warp of a warpgroup has read: cells with who wrote them, and what its trail grew by there."""
        writers = frozenset[int]().union(*(one for _, one in operands))
        if len(self._by_peers) >= _MOST_BY_PEERS:  # peers are a few groups apart
            self._by_peers.clear()
        self._by_peers[line, key] = ByPeers(operands, writers, self.shared.writes, trail)

    def new(self, kind: str, line: int) -> bool:
        """Has nothing of a kind been found at a line yet?"""
        return (kind, line) not in self.findings

    def write(  # noqa: PLR0917
        self,
        memory: Shadow,
        cells: Cells,
        worker: Worker,
        agent: int,
        epoch: int,
        kind: str,
        line: int,
        same: bool = True,
    ) -> int:
        """Record a write, and check that it follows all uses of what it overwrites.

        `same`: nothing is known to differ between what is written and what is there, so that one store by several warps
        is taken to write one value.
        """
        worker.turns.work()
        if self.traced:
            _trace(worker, cells, line if memory is self.shared else -line)
        own, to_fence = agent if kind in _IN_ORDER else -1, _TO_FENCE if kind == "load" else _NO_KINDS
        behind = worker.fenced_behind if to_fence else worker.behind
        regions = memory.of(cells)
        writers = memory.writers_of(regions)
        if not behind.issuperset(writers):
            for access, late in self._suspects(writers, worker, own, to_fence):
                if late:
                    if not (kind == access.kind == "st" and line == access.line and same):
                        self._overwritten(access, kind, line)
                elif access.kind == "st" and self.new("overwrite_not_fenced", line):
                    self.find(
                        "overwrite_not_fenced",
                        line,
                        "a load writes where ordinary stores wrote, with no proxy fence between",
                        f"written at line {access.line}",
                    )
        readers = memory.readers_of(regions)
        if not behind.issuperset(readers):
            for access, late in self._suspects(readers, worker, agent, to_fence):
                if late:
                    self._overwritten(access, kind, line)
                elif access.kind in {"ld", "ldmatrix"} and self.new("reads_not_fenced", line):
                    self.find(
                        "reads_not_fenced",
                        line,
                        "a load writes where threads have read, with no proxy fence between",
                        f"read at line {access.line}",
                    )
        number = self._add(agent, epoch, kind, line)
        if memory is self.shared:
            if kind == "st" and self.loads.brought(writers, self.accesses) and memory.all_read_by(regions, agent):
                self.loads.change(number, writers)
            self.loads.note_lost(writers, memory.unread(regions), self.accesses, line)
            self._note_write(cells, kind, line, worker.turns.now)
        memory.wrote(regions, number)
        return number

    def _note_write(self, cells: Cells, kind: str, line: int, turn: int) -> None:
        """Note the last write."""
        if kind in BY_THREADS:
            self.loads.turns[len(self.accesses) - 1] = turn
            self.written.note(cells, line, stored=kind == "st")
        elif kind == "load":
            self.loads.spans[len(self.accesses) - 1] = cells.start, cells.stop

    def _suspects(
        self, numbers: Iterable[int], worker: Worker, own: int, to_fence: Collection[str]
    ) -> Iterator[tuple[Access, bool]]:
        """Yield accesses that are not before what a warp does now, and with False those that lack a fence alone.

        A warp forgets nothing, so what is behind it once stays so, and is not looked at again.
        """
        ordered = worker.behind
        behind = worker.fenced_behind if to_fence else ordered
        accesses, known, fenced = self.accesses, worker.known, worker.fenced
        for number in numbers:
            if number in behind:
                continue
            access = accesses[number]
            agent, epoch = access.agent, access.epoch
            lacks_fence = bool(to_fence) and access.kind in to_fence and fenced[agent] <= epoch
            if number not in ordered:
                if known[agent] > epoch or agent in (worker.index, worker.single):
                    ordered.add(number)
                elif agent != own and not self.ordered(access, worker):
                    yield access, True
                    continue
                elif not lacks_fence:
                    continue
            if lacks_fence:
                yield access, False
            else:
                behind.add(number)

    def _note_writers(self, cells: Cells, kind: str, line: int, writers: list[int]) -> None:
        """Note a read of what nobody has written, or of an operand that loads by several maps have filled."""
        if kind in _MATRIX:
            filled = frozenset(self.maps[number] for number in writers if number in self.maps)
            if len(filled) > 1:
                self.mixed[line] = filled
        elif 0 in writers and kind in _READS:
            chosen = self.shared.unwritten(cells)
            if all(not number or self.accesses[number].kind == "load" for number in writers):
                self.seen[chosen] = True
            _, first, whole = self.unwritten.get(line, (kind, int(chosen[0]) * self.granule, False))
            self.unwritten[line] = kind, first, whole or len(writers) == 1

    def judge_reads(self, *, ended: bool) -> dict[tuple[int, str], None]:
        """Add findings on reads of shared memory that nobody has written; return what is not decided about them.

        A warp reads at an address for each lane, and may drop what some lanes have read. So only what nobody has
        written any part of is an error. `ended`: the run has come to its end, and what was not read by now never is.
        """
        if ended:
            every = range(self.shared.up_to_date())
            self.loads.note_end(self.shared.all_writers(every), self.shared.unread(every), self.accesses)
        open_: dict[tuple[int, str], None] = self.doubts | self.loads.doubts(self.accesses)
        for line, (kind, first, whole) in self.unwritten.items():
            what = f"{_USES[kind]} reads shared byte {in_words(first)}"
            if whole and not self.blind:
                self.find("read_before_full", line, f"{what}, {UNWRITTEN}")
            else:
                open_[line, f"{what}, which nothing is known to have written"] = None
        return open_

    def _add(self, agent: int, epoch: int, kind: str, line: int) -> int:
        self.accesses.append(access_of(agent, epoch, line, kind))
        return len(self.accesses) - 1

    @staticmethod
    def use_of(access: Access) -> str:
        """Return what an access is, in words."""
        return _USES[access.kind]

    def _read_early(self, access: Access, kind: str, line: int) -> None:
        if kind == "barrier":
            found = "barrier_not_initialised"
            message = f"{_USES[kind]} may come before the write that it needs"
        else:
            found, message = "read_before_full", f"{_USES[kind]} may read before {_USES[access.kind]} is done"
        self.find(found, line, message, f"written at line {access.line}", sure=kind != "guess")

    def _overwritten(self, access: Access, kind: str, line: int) -> None:
        found = {
            "store": "store_source_reused",
            "wgmma": "operands_released_early",
            "tcgen05": "operands_released_early",
            "barrier": "barrier_destroyed",
        }.get(access.kind, "stage_overwritten")
        if kind == "free":
            found = "tensor_memory_misused"
        self.find(
            found,
            line,
            f"{_USES[kind]} may overwrite memory while {_USES[access.kind]} still uses it",
            f"used at line {access.line}",
            sure=access.kind != "guess",
        )


_MATRIX = {"wgmma", "tcgen05"}
_READS = {"ld", "ldmatrix", "store"}
_SENT = {"store", "guess"}
_ALIKE = _MATRIX, _SENT, {"ldmatrix"}


def _trace(worker: Worker, cells: Cells, place: int) -> None:
    """Add an access to a warp's trail, so that rounds of a loop are not alike that touch other places."""
    worker.trail[place] += trail_of(cells, place)


def trail_of(cells: Cells, place: int) -> int:
    """Return what a warp's trail grows by when it uses cells; `place`: the line, below 0 for tensor memory."""
    ends = (cells.start, cells.stop) if isinstance(cells, slice) else (int(cells[0]), int(cells[-1]))
    return hash((place, *ends)) & 2**32 - 1


_ASYNCHRONOUS = {*_MATRIX, "store", "guess"}
_WHOLE = {*_ASYNCHRONOUS, "ldmatrix"}  # who reads all that was written for them
_NO_KINDS = frozenset[str]()
# Accesses by threads: what asynchronous units do next is behind their fence.
_TO_FENCE = {"st", "cp.async", "ld", "ldmatrix"}
_IN_ORDER = {"tcgen05", "st.tensor", "ld.tensor", "cp.async"}
_USES = {
    "ld": "a load by threads",
    "ldmatrix": "an ldmatrix",
    "st": "a store by threads",
    "load": "the copy engine's load",
    "wgmma": "a wgmma",
    "tcgen05": "a tcgen05 multiplication",
    "store": "the copy engine's store",
    "guess": "a store of as many bytes as are written there",
    "cp.async": "cp.async",
    "barrier": "an operation on a barrier",
    "init": "mbarrier.init",
    "inval": "mbarrier.inval",
    "alloc": "tcgen05.alloc",
    "free": "tcgen05.dealloc",
    "ld.tensor": "tcgen05.ld",
    "st.tensor": "tcgen05.st",
}
