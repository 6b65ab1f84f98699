"""An executable model of barriers, copy engine and matrix unit: runs a pipeline on the CPU with real data.

It does what hardware does, right or wrong: waits go by parity, a stage that is being filled holds poison, products and
stores read their operands when they land, and what threads write is seen by the async proxy only after a fence. So a
wrong pipeline hangs or gives wrong data on some schedule. What the data are is the caller's: see `Hooks`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from legalsat.analyses.protocol.model_check import Event, event
from legalsat.analyses.protocol.pipeline_faults import fault
from legalsat.analyses.protocol.pipeline_machine import Machine, PipelineError, State
from legalsat.analyses.protocol.pipeline_tables import Access, Flight, Instruction
from legalsat.program.pipeline import CopyIn, Load, Operation, Pipeline, Read, UseSums, Write

Bytes: TypeAlias = npt.NDArray[np.uint8]
Sums: TypeAlias = npt.NDArray[Any]
Schedule: TypeAlias = Literal["random", "late", "early", "starving"]
SCHEDULES: Final[tuple[Schedule, ...]] = ("random", "late", "early", "starving")
POISON: Final = 0xFF  # NaN in every floating-point type
LIMIT: Final = 1_000_000
CHANGES: Final = 1 / 100  # of steps, after which another one starves


@dataclass(frozen=True, slots=True)
class Now:
    """Which operation of whom asks a hook. `item` is the operation's, `offset` that of its bytes in the stage."""

    role: str
    instance: int
    cta: int
    op: Operation
    item: int
    offset: int = 0


def _no_bytes(now: Now, count: int) -> Bytes:
    return np.zeros(count, np.uint8)


def _no_sums(now: Now, operands: Sequence[Bytes], sums: Sums | None) -> Sums:
    return np.zeros(0)


def _no_write(now: Now, stage: Bytes, sums: Mapping[str, Sums | None]) -> None:
    return None


def _no_use(now: Now, data: Bytes) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Hooks:
    """What the data are.

    Attributes:
        load: returns so many bytes that a load or a cp.async brings.
        multiply: returns sums from operands' stages and the sums before, None at first.
        read: is given a stage. write: fills a stage in place, given what the process has read by `UseSums`.
        store: is given the bytes that a store writes to global memory.
    """

    load: Callable[[Now, int], Bytes] = _no_bytes
    multiply: Callable[[Now, Sequence[Bytes], Sums | None], Sums] = _no_sums
    read: Callable[[Now, Bytes], None] = _no_use
    write: Callable[[Now, Bytes, Mapping[str, Sums | None]], None] = _no_write
    store: Callable[[Now, Bytes], None] = _no_use


@dataclass(frozen=True, slots=True)
class Run:
    """How a run went.

    Attributes:
        finished: whether all blocks ended; if not, the pipeline hangs. error: the first thing that the contract forbids
            in the states that were passed, if these were checked. steps: how many. events: they, if they were kept.
    """

    finished: bool
    error: PipelineError | None
    steps: int
    events: tuple[Event, ...] = ()


def run(
    pipeline: Pipeline,
    values: Mapping[str, int],
    hooks: Hooks | None = None,
    *,
    seed: int = 0,
    schedule: Schedule = "random",
    checks: bool = False,
    keeps: bool = False,
    limit: int = LIMIT,
) -> Run:
    """Run a pipeline once.

    Args:
        pipeline: what to run.
        values: of its symbols.
        hooks: the data; zeros when left out.
        seed: of every choice.
        schedule: "random"; engines as "late" or as "early" as can be; "starving", in which one process, or what it has
            started of one kind, waits for all others, and now and then another one.
        checks: whether to judge each state by the contract, which is slower.
        keeps: whether to keep the events.
        limit: steps after which a run counts as hanging.

    Raises:
        InvalidInput: a symbol without a value, or a name that the pipeline has not.
    """
    machine = Machine(pipeline, values)
    memory, pick = Memory(machine, hooks or Hooks()), _Picker(machine, schedule, seed)
    state, steps, error, events = machine.start, 0, None, []
    while steps < limit and (moves := machine.moves(state)):
        if checks and error is None:
            error = fault(machine, state)
        key = pick(moves)
        if keeps:
            events.append(event(machine, state, key))
        memory.step(state, key)
        state, late = machine.apply(state, key)
        error = error or (late if checks else None)
        steps += 1
    return Run(machine.over(state), error, steps, tuple(events))


class _Picker:
    """Chooses the next step."""

    def __init__(self, machine: Machine, schedule: Schedule, seed: int) -> None:
        self.machine, self.schedule, self.draw = machine, schedule, random.Random(seed)
        flights = {(flight.kind, flight.process) for flight in machine.flights}
        self.groups = [*(("", process) for process in range(machine.first_flight)), *sorted(flights)]
        self.starved = self.draw.choice(self.groups) if self.groups else ("", 0)

    def __call__(self, moves: list[int]) -> int:
        if self.schedule == "starving":
            if self.draw.random() < CHANGES:
                self.starved = self.draw.choice(self.groups)
            moves = [key for key in moves if self.group(key) != self.starved] or moves
        elif self.schedule != "random":
            late = self.schedule == "late"
            moves = [key for key in moves if (key < self.machine.first_flight) == late] or moves
        return self.draw.choice(moves)

    def group(self, key: int) -> tuple[str, int]:
        """Return who is starved together: a process, or all its flights of a kind."""
        flight = self.machine.flight(key)
        return (flight.kind, flight.process) if flight else ("", key)


class Memory:
    """Shared memory, sums, and what is on its way."""

    def __init__(self, machine: Machine, hooks: Hooks) -> None:
        self.machine, self.hooks, tables = machine, hooks, machine.tables
        sizes = {ring.name: ring.bytes for ring in tables.pipeline.buffers}
        self.stages = [np.full(sizes.get(cell.name, 0), POISON, np.uint8) for cell in tables.cells]
        self.stale: dict[int, Bytes] = {}  # what the async proxy still sees of a stage
        self.sums: dict[int, Sums] = {}
        self.used: dict[int, dict[str, Sums | None]] = {}  # by process
        self.fetched: dict[int, Bytes] = {}

    def step(self, state: State, key: int) -> None:
        """Do to the data what a step does."""
        if key < self.machine.first_flight:
            todo = self.machine.next(state, key)
            if todo is not None:
                self._instruction(state, todo)
        elif (flight := self.machine.flight(key)) and (flight.kind == "put" or not state.gone[flight.cta]):
            self._landing(state, flight)

    def _now(self, todo: Instruction, offset: int = 0) -> Now:
        process = self.machine.processes[todo.process]
        return Now(process.role.name, process.instance, process.cta, todo.op, todo.item, offset)

    def _instruction(self, state: State, todo: Instruction) -> None:
        match todo.op:
            case Load() | CopyIn():
                for flight in (self.machine.flights[f] for f in todo.flights):
                    self._put(flight.accesses[0].cell, flight.offset, np.full(flight.bytes, POISON, np.uint8))
            case Read():
                self.hooks.read(self._now(todo), self.stages[todo.accesses[0].cell])
            case Write():
                cell = todo.accesses[0].cell
                if not any(mark[0] == cell for mark in state.unfenced):
                    self.stale[cell] = self.stages[cell].copy()
                self.hooks.write(self._now(todo), self.stages[cell], self.used.get(todo.process, {}))
                self._overlay(cell)
            case UseSums():
                self.used.setdefault(todo.process, {})[todo.op.sums] = self.sums.get(todo.accesses[0].cell)

    def _landing(self, state: State, flight: Flight) -> None:
        todo = self.machine.programs[flight.process][flight.index]
        now = self._now(todo, flight.offset)
        if flight.kind in ("load", "copy"):
            self._put(flight.accesses[0].cell, flight.offset, self.hooks.load(now, flight.bytes))
        elif flight.kind == "multiply":
            *reads, sums = flight.accesses
            operands = [self._seen(state, access) for access in reads]
            self.sums[sums.cell] = self.hooks.multiply(now, operands, self.sums.get(sums.cell))
        elif flight.kind == "fetch":
            whole = self._seen(state, flight.accesses[0])
            self.fetched[flight.number] = whole[flight.offset : flight.offset + flight.bytes].copy()
        elif flight.kind == "put":
            (source,) = flight.after
            first = self.machine.flights[source].offset
            self.hooks.store(self._now(todo, first), self.fetched.pop(source))

    def _seen(self, state: State, access: Access) -> Bytes:
        """Return a stage as the async proxy sees it."""
        unfenced = any(mark[0] == access.cell and mark[2] < 0 for mark in state.unfenced)
        return self.stale[access.cell] if unfenced else self.stages[access.cell]

    def _put(self, cell: int, offset: int, data: Bytes) -> None:
        stage = self.stages[cell]
        part = stage[offset : offset + len(data)]
        part[:] = data[: len(part)]
        self._overlay(cell)

    def _overlay(self, cell: int) -> None:
        for other in self.machine.tables.aliases[cell]:
            self.stages[other][:] = POISON
