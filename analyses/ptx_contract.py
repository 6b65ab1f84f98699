"""Who knows what has happened: vector clocks over warps and asynchronous units, and who touched shared memory last.

A *line of work* is a warp, or something that finishes by itself in order: the multiplications of a warpgroup, the
copies of a warp, the phases of a barrier. A warp's clock says of each how far it knows it to have come, whatever the
order in which things happen: it learns by barriers and waits alone. An access is ordered before what a warp does now
if its line's time is behind the warp's clock. So one execution tells of all its interleavings.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

CAPACITY = 512
LANES = 32
EVERY_LANE = 2**LANES - 1
Clock: TypeAlias = NDArray[np.int32]
Cells: TypeAlias = Any  # a slice, or an array of indices

# What a finding is about; where a rule of `legalsat.rules.pipeline` is, by the rule's name.
KINDS = {
    "barrier_not_initialised": "a barrier is used before its init, or where the init is not known",
    "barrier_destroyed": "a barrier is overwritten or invalidated while it is in use",
    "arrivals_missing": "a phase gets fewer arrivals than its barrier expects",
    "arrivals_in_excess": "a phase gets more arrivals than its barrier expects, or those of another phase",
    "arrival_count_out_of_range": "a barrier expects a number of arrivals that none can expect",
    "bytes_differ": "bytes expected of a phase are not those that come",
    "phase_missed": "a barrier can be two phases ahead of a wait",
    "stage_overwritten": "memory is overwritten before those who use it are done",
    "read_before_full": "memory is read before it is known to be written",
    "write_not_fenced": "ordinary writes are read by an asynchronous unit without a proxy fence",
    "operands_released_early": "operands of a multiplication are overwritten before it is waited for",
    "sums_not_ready": "sums are used before the multiplication is waited for",
    "sums_not_fenced": "a multiplication begins without its fence",
    "group_not_committed": "asynchronous work is waited for that belongs to no group",
    "store_source_reused": "the source of a store is overwritten before the store has read it",
    "not_drained": "a block ends while asynchronous work on its memory is under way",
    "tensor_memory_misused": "tensor memory is not freed, or in use when it is",
    "deadlock": "nothing moves any more",
    "trap": "the kernel stops itself",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One break of the contract.

    Attributes:
        kind: one of `KINDS`.
        line: of the text, from 1.
        message: what is wrong, with numbers.
        note: the other place involved, or the source of the rule.
        help: what to change.
    """

    kind: str
    line: int
    message: str
    note: str
    help: str


class Undecided(Exception):
    """Something that the machine cannot decide: a line and why."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line, self.reason = line, reason


_HELP = {
    "barrier_not_initialised": "initialise the barrier before, and let a block barrier stand between",
    "barrier_destroyed": "wait for all users of the barrier first",
    "arrivals_missing": "let the initial count equal the arrivals of a phase",
    "arrivals_in_excess": "let the initial count equal the arrivals of a phase, and wait between those of two phases",
    "arrival_count_out_of_range": "expect 1 to 1048575 arrivals",
    "bytes_differ": "expect the bytes of the boxes that complete on the barrier in this phase",
    "phase_missed": "let an arrival of the next phase follow this wait",
    "stage_overwritten": "wait until the readers have released the memory",
    "read_before_full": "wait for the write first",
    "write_not_fenced": "put fence.proxy.async after the writes, before the barrier that the reader waits at",
    "operands_released_early": "wait for the group of the multiplication before the stage is released",
    "sums_not_ready": "wait for the multiplication's group first",
    "sums_not_fenced": "put wgmma.fence before the first multiplication after the sums were touched",
    "group_not_committed": "commit the group before waiting for it",
    "store_source_reused": "wait for the group of the store (.read) and meet the others before writing again",
    "not_drained": "wait for all groups and phases before the end",
    "tensor_memory_misused": "wait for all its users, then free it",
    "deadlock": "compare arrivals, parities and bytes of the barriers that are waited for",
    "trap": "launch the kernel as it asks",
}


@dataclass(slots=True)
class Access:
    """A use of memory: by which line of work, when by its time, where in the text, and what kind of use."""

    agent: int
    epoch: int
    line: int
    kind: str


class Shadow:
    """Who wrote each cell of a memory last, and who has read it since."""

    def __init__(self, cells: int) -> None:
        self.writer = np.zeros(cells, dtype=np.int32)
        self.readers = np.zeros((cells, 8), dtype=np.int32)
        self.slots: dict[int, int] = {}

    def slot(self, agent: int) -> int:
        """Return the column of an agent's reads."""
        found = self.slots.setdefault(agent, len(self.slots))
        if found >= self.readers.shape[1]:
            self.readers = np.concatenate([self.readers, np.zeros_like(self.readers)], axis=1)
        return found

    def writers_of(self, cells: Cells) -> list[int]:
        """Return the accesses that wrote cells last."""
        held = self.writer[cells]
        if held.size == 0:
            return []
        first = held[0]
        found = [int(first)] if (held == first).all() else np.unique(held).tolist()
        return [one for one in found if one]

    def readers_of(self, cells: Cells) -> list[int]:
        """Return the last access of each agent that has read cells since they were written."""
        return [int(one) for one in self.readers[cells].max(axis=0, initial=0) if one]


@dataclass(slots=True)
class Worker:
    """A warp's clocks.

    Attributes:
        clock: how far it knows each line of work to be. fenced: the same for what a proxy fence follows.
        time: its own time. met: its time when its lanes last met. alone: lanes that touched memory since, together.
        single: the line of work of what one lane does by itself.
    """

    index: int
    single: int
    clock: Clock
    fenced: Clock
    time: int = 1
    met: int = 1
    alone: int = 0
    live: int = EVERY_LANE


class Order:
    """Clocks, accesses and findings of one execution."""

    def __init__(self, warps: int, shared_bytes: int, granule: int) -> None:
        self.warps, self.granule = warps, granule
        self.workers = [Worker(i, warps + i, _clock(), _clock()) for i in range(warps)]
        for worker in self.workers:
            worker.clock[worker.index] = worker.clock[worker.single] = 1
        self.agents = 2 * warps
        self.accesses: list[Access] = [Access(0, -1, 0, "none")]
        self.shared = Shadow(shared_bytes // granule + 1)
        self.shared_bytes = shared_bytes
        self.findings: dict[tuple[str, int], Finding] = {}

    def agent(self) -> int:
        """Return a new line of work."""
        if self.agents >= CAPACITY:
            raise Undecided(0, f"more than {CAPACITY} barriers and units")
        self.agents += 1
        return self.agents - 1

    def find(self, kind: str, line: int, message: str, note: str = "") -> None:
        """Add a finding, once for each kind and line."""
        self.findings.setdefault((kind, line), Finding(kind, line, message, note, _HELP[kind]))

    def meet_lanes(self, worker: Worker) -> None:
        """Let a warp's lanes meet: what each has done so far, all have."""
        worker.time += 1
        worker.clock[worker.index] = worker.clock[worker.single] = worker.met = worker.time
        worker.alone = 0

    def actor(self, worker: Worker, lanes: int) -> int:
        """Return the line of work to which an access by some lanes belongs, and note that they have made one."""
        if lanes & lanes - 1 or lanes == worker.live:
            worker.alone |= lanes
            return worker.index
        return worker.single

    def released(self, worker: Worker, lanes: int) -> tuple[Clock, Clock]:
        """Return the clocks that some lanes pass on now: without what other lanes did since they last met."""
        if worker.alone & ~lanes:
            worker.time += 1
            worker.clock[worker.single] = worker.time
            clock = worker.clock.copy()
            clock[worker.index] = worker.met
            return clock, worker.fenced.copy()
        self.meet_lanes(worker)
        return worker.clock.copy(), worker.fenced.copy()

    def learn(self, worker: Worker, clocks: tuple[Clock, Clock]) -> None:
        """Let a warp learn what another one passed on."""
        np.maximum(worker.clock, clocks[0], out=worker.clock)
        np.maximum(worker.fenced, clocks[1], out=worker.fenced)

    def fence(self, worker: Worker, lanes: int) -> None:
        """Let all that a warp knows be seen by asynchronous units too."""
        clock, _ = self.released(worker, lanes)
        np.maximum(worker.fenced, clock, out=worker.fenced)

    def meet(self, arrivals: Iterable[tuple[Worker, tuple[Clock, Clock]]]) -> None:
        """Let warps meet at a barrier of the block."""
        listed = list(arrivals)
        clock = np.maximum.reduce([c for _, (c, _) in listed])
        fenced = np.maximum.reduce([f for _, (_, f) in listed])
        for worker, _ in listed:
            self.learn(worker, (clock, fenced))

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
        return agent in (worker.index, worker.single, own) or bool(worker.clock[agent] > access.epoch)

    def read(  # noqa: PLR0917
        self, memory: Shadow, cells: Cells, worker: Worker, agent: int, epoch: int, kind: str, line: int
    ) -> None:
        """Record a read, and check that it follows the writes."""
        for number in memory.writers_of(cells):
            access = self.accesses[number]
            if not self.ordered(access, worker, agent):
                self._read_early(access, kind, line)
            elif access.kind == "st" and kind in _ASYNCHRONOUS and worker.fenced[access.agent] <= access.epoch:
                self.find(
                    "write_not_fenced",
                    line,
                    f"{_USES[kind]} reads shared memory that ordinary stores wrote, with no proxy fence between",
                    f"written at line {access.line}",
                )
        slot = memory.slot(agent)
        memory.readers[cells, slot] = self._add(agent, epoch, kind, line)

    def write(  # noqa: PLR0917
        self, memory: Shadow, cells: Cells, worker: Worker, agent: int, epoch: int, kind: str, line: int
    ) -> int:
        """Record a write, and check that it follows all uses of what it overwrites."""
        for number in memory.writers_of(cells):
            access = self.accesses[number]
            # The same store by several warps writes the same value.
            twice = kind == access.kind == "st" and line == access.line
            if not twice and not self.ordered(access, worker, agent if kind in _IN_ORDER else -1):
                self._overwritten(access, kind, line)
        for number in memory.readers_of(cells):
            access = self.accesses[number]
            if not self.ordered(access, worker, agent):
                self._overwritten(access, kind, line)
        number = self._add(agent, epoch, kind, line)
        memory.writer[cells] = number
        memory.readers[cells] = 0
        return number

    def _add(self, agent: int, epoch: int, kind: str, line: int) -> int:
        self.accesses.append(Access(agent, epoch, line, kind))
        return len(self.accesses) - 1

    def _read_early(self, access: Access, kind: str, line: int) -> None:
        if kind == "barrier":
            found = "barrier_not_initialised"
            message = f"{_USES[kind]} may come before the write that it needs"
        else:
            found, message = "read_before_full", f"{_USES[kind]} may read before {_USES[access.kind]} is done"
        self.find(found, line, message, f"written at line {access.line}")

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
        )


_ASYNCHRONOUS = {"wgmma", "tcgen05", "store"}
_IN_ORDER = {"tcgen05", "st.tensor", "ld.tensor", "cp.async"}
_USES = {
    "ld": "a load by threads",
    "st": "a store by threads",
    "load": "the copy engine's load",
    "wgmma": "a wgmma",
    "tcgen05": "a tcgen05 multiplication",
    "store": "the copy engine's store",
    "cp.async": "cp.async",
    "barrier": "an operation on a barrier",
    "init": "mbarrier.init",
    "inval": "mbarrier.inval",
    "alloc": "tcgen05.alloc",
    "free": "tcgen05.dealloc",
    "ld.tensor": "tcgen05.ld",
    "st.tensor": "tcgen05.st",
    "map": "an edit of a tensor map",
}


def _clock() -> Clock:
    return np.zeros(CAPACITY, dtype=np.int32)
