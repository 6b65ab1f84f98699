"""Where a run of a pipeline stands: processes, barriers, stages, and who knows what of whom.

An *event* is something that others may have to know to be over: the last read of a stage by a process, the end of a
phase, the fence after a write. Each has a place where it is kept, its *slot*, and a bit; a newer event of the slot
replaces the older one, since whoever knows it knows that too. *Knowledge* is a set of bits: of a process, of a
barrier's phase (which hands it on to all who wait), of a group of operations (which hands it on to whoever waits for
the group). So two sets are joined by `|`, and an event that nobody can doubt any more loses its slot.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from legalsat.analyses.protocol.typestate_program import Machine

Events: TypeAlias = dict[int, int]  # the bit of the last event, by part (who does it)


class Process:
    """Where one process stands.

    `known` is over, as far as it knows; `seen` was at its last tcgen05 fence after a wait. `loops` has the turn of each
    loop that it is in. Of each family of asynchronous operations: `groups` that are open, oldest first, what is `loose`
    since the last of them, `all` that was issued, and the `last` of it. `sums` has the last multiplication into each in
    registers, `touched` those that need a fence.
    """

    __slots__ = (
        "all",
        "at",
        "cursors",
        "ended",
        "groups",
        "known",
        "last",
        "loops",
        "loose",
        "meets",
        "seen",
        "sums",
        "touched",
    )

    def __init__(self, touched: Iterable[str]) -> None:
        self.at = self.known = 0
        self.seen: int | None = None
        self.ended = False
        self.cursors: dict[str, int] = {}
        self.loops: dict[int, int] = {}
        self.groups: dict[str, list[int]] = {}
        self.loose: dict[str, int] = {}
        self.all: dict[str, int] = {}
        self.last: dict[str, int] = {}
        self.sums: dict[str, int] = {}
        self.meets: tuple[int, str] | None = None
        self.touched = frozenset(touched)

    def copy(self) -> Process:
        """Return a copy that may go its own way."""
        new = Process.__new__(Process)
        new.at, new.known, new.seen, new.ended = self.at, self.known, self.seen, self.ended
        new.meets, new.touched = self.meets, self.touched
        new.cursors, new.loops, new.loose = self.cursors.copy(), self.loops.copy(), self.loose.copy()
        new.groups = {family: groups[:] for family, groups in self.groups.items()}
        new.all, new.last, new.sums = self.all.copy(), self.last.copy(), self.sums.copy()
        return new


class BarrierState:
    """One barrier: its phase, what that still needs, and knowledge.

    `arrived` is known to those who have arrived in this phase, `coming` will be over when it ends, `done` was known
    when the phase before ended. `marks` are events: its initialisation ("start", then "met" and "fence"), the ends of
    the last two phases ("over", "older") and the last copy ("loads"). `waits` and `armed` are those of this phase, by
    process.
    """

    __slots__ = ("armed", "arrived", "by", "coming", "done", "expected", "marks", "pending", "phase", "tx", "waits")

    def __init__(self, pending: int) -> None:
        self.phase = self.tx = self.expected = self.arrived = self.coming = self.done = 0
        self.pending = pending
        self.by = -1  # who initialised it
        self.marks: dict[str, int] = {}
        self.waits: Events = {}
        self.armed: Events = {}

    def copy(self) -> BarrierState:
        """Return a copy that may go its own way."""
        new = BarrierState.__new__(BarrierState)
        new.phase, new.pending, new.tx, new.expected, new.by = self.phase, self.pending, self.tx, self.expected, self.by
        new.arrived, new.coming, new.done = self.arrived, self.coming, self.done
        new.marks, new.waits, new.armed = self.marks.copy(), self.waits.copy(), self.armed.copy()
        return new


class Stage:
    """A stage of a buffer, or of sums: its item; who wrote, fenced and read that, and who used the item before.

    `read_fences` and `write_fences`: of threads that have read or written it, that a proxy fence of anybody followed.
    """

    __slots__ = ("before", "fenced", "item", "read_fences", "reads", "write_fences", "writes")

    def __init__(self) -> None:
        self.item: int | None = None
        self.writes: Events = {}
        self.fenced: Events = {}
        self.reads: Events = {}
        self.before: Events = {}
        self.read_fences: Events = {}
        self.write_fences: Events = {}

    def copy(self) -> Stage:
        """Return a copy that may go its own way."""
        new = Stage.__new__(Stage)
        new.item, new.writes, new.fenced = self.item, self.writes.copy(), self.fenced.copy()
        new.reads, new.before = self.reads.copy(), self.before.copy()
        new.read_fences, new.write_fences = self.read_fences.copy(), self.write_fences.copy()
        return new


class Allocation:
    """Columns of tensor memory: for what, whether they are freed, and the event of their allocation."""

    __slots__ = ("columns", "events", "holds", "live")

    def __init__(self, columns: int, holds: tuple[str, ...], events: Events) -> None:
        self.columns, self.holds, self.events, self.live = columns, holds, events, True

    def copy(self) -> Allocation:
        """Return a copy that may go its own way."""
        new = Allocation(self.columns, self.holds, self.events.copy())
        new.live = self.live
        return new


class Value:
    """What is known of a trip count: at least `low`, at most `high` (None: nobody asked yet)."""

    __slots__ = ("high", "low")

    def __init__(self, low: int = 0, high: int | None = None) -> None:
        self.low, self.high = low, high

    def __str__(self) -> str:
        if self.high is None:
            return f">= {self.low}"
        return f"= {self.low}" if self.low == self.high else f"in {self.low}..{self.high}"


# A name, the turns of the loops around, and which of the symbol's loops it is asked for.
Symbol: TypeAlias = tuple[str, tuple[int, ...], int]


@dataclass(frozen=True, slots=True)
class Arrived:
    """Who has come to a meeting and gone on: what it knew then, and where the cursor was that it hands over."""

    known: int
    cursor: int


class State:
    """Where everything stands.

    `early` has who came to a meeting and went on, by process. `widened` if it stands for several states, of which it
    knows what all of them know.
    """

    __slots__ = (
        "allocations",
        "barriers",
        "bits",
        "early",
        "processes",
        "promised",
        "remote",
        "stages",
        "sums",
        "values",
        "widened",
    )

    def __init__(self, machine: Machine) -> None:
        names = [name for name in machine.sums if name not in machine.tensor_sums]
        self.bits = 0
        self.widened = False
        self.processes = [Process(names) for _ in machine.actors]
        self.barriers = [BarrierState(ring.arrivals) for ring, _ in machine.barrier_rings]
        self.stages = [Stage() for _ in machine.stage_names]
        self.sums = [Stage() for _ in machine.tensor_names]
        self.allocations: list[list[Allocation]] = [[] for _ in range(machine.pipeline.cluster)]
        self.promised = [False] * machine.pipeline.cluster
        self.remote: list[Events] = [{} for _ in range(machine.pipeline.cluster)]
        self.values: dict[Symbol, Value] = {}
        self.early: dict[tuple[int, str], dict[int, Arrived]] = {}

    def event(self) -> int:
        """Return the bit of a new event."""
        self.bits += 1
        return 1 << self.bits

    def copy(self) -> State:
        """Return a copy that may go its own way."""
        new = State.__new__(State)
        new.bits, new.widened = self.bits, self.widened
        new.processes = [p.copy() for p in self.processes]
        new.barriers = [b.copy() for b in self.barriers]
        new.stages = [s.copy() for s in self.stages]
        new.sums = [s.copy() for s in self.sums]
        new.allocations = [[a.copy() for a in allocations] for allocations in self.allocations]
        new.promised = self.promised[:]
        new.early = {key: came.copy() for key, came in self.early.items() if came}
        new.remote = [events.copy() for events in self.remote]
        new.values = {symbol: Value(v.low, v.high) for symbol, v in self.values.items()}
        return new
