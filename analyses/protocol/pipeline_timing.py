"""When each step of a pipeline happens, given how long each takes: the executable model with a clock.

One course, the one in which everything happens as soon as it can. Loads overlap but share the way into shared memory;
products of a block take turns on the matrix unit, stores on the way out. Nothing here knows about other blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from legalsat.analyses.protocol.pipeline_machine import Machine, State
from legalsat.analyses.protocol.pipeline_tables import Flight, Instruction
from legalsat.analyses.protocol.pipeline_words import instruction
from legalsat.errors import InvalidInput
from legalsat.program.pipeline import Pipeline, Sync, Wait, WaitGroup

LATENCIES: Final[Mapping[str, float]] = {
    # One block alone on an H200 (bench/gpu/chip/latencies.py): a box of 16 KiB from DRAM after 616 ns, the next 60 to
    # 80 ns apart; m64n256k16 in 66 ns, so 263 ns for 64 elements along K; 95 ns from an arrival to another warp's next
    # step.
    "Load": 550.0,
    "CopyIn": 600.0,
    "bytes per ns": 240.0,
    "Multiply": 263.0,
    "wake": 95.0,
    # Not measured: only for the look of a chart.
    "Store": 400.0,
    "Read": 60.0,
    "Write": 150.0,
    "UseSums": 60.0,
    "issue": 10.0,
}
"""Default times in ns: of flights by the operation that starts them, of steps that take a process longer than "issue",
of the way from a barrier to who waits for it ("wake"), and the rate into and out of shared memory."""

Kind: TypeAlias = Literal["step", "wait", "flight"]


@dataclass(frozen=True, slots=True)
class Span:
    """Something that takes time in a lane, from `start` to `end` in ns. `stage` is -1 where there is none."""

    lane: str
    start: float
    end: float
    text: str
    stage: int
    kind: Kind


@dataclass(frozen=True, slots=True)
class Tick:
    """A use of a barrier at a time in ns; `passes` if it is a wait that is over, else it arrives or expects."""

    lane: str
    time: float
    text: str
    passes: bool


@dataclass(frozen=True, slots=True)
class Timing:
    """A course in time.

    Attributes:
        spans, ticks: what happens. lanes: role instances, then engines. end: in ns. stages: most of any ring.
        stuck: what each process waits for that never comes; empty if the pipeline ends.
    """

    spans: tuple[Span, ...]
    ticks: tuple[Tick, ...]
    lanes: tuple[str, ...]
    end: float
    stages: int
    stuck: tuple[str, ...] = ()


def timed(pipeline: Pipeline, values: Mapping[str, int], latencies: Mapping[str, float] | None = None) -> Timing:
    """Run a pipeline with a clock.

    Args:
        pipeline: what to run.
        values: of its symbols.
        latencies: times in ns, by the names of `LATENCIES`, which holds those left out.

    Raises:
        InvalidInput: an unknown name, a negative time, or no value for a symbol.
    """
    unknown = [name for name in latencies or {} if name not in LATENCIES]
    if unknown:
        raise InvalidInput(f"no latency is called {', '.join(map(str, unknown))}; use {', '.join(LATENCIES)}")
    times = {**LATENCIES, **(latencies or {})}
    if wrong := [name for name, time in times.items() if isinstance(time, bool) or not isinstance(time, int | float)]:
        raise InvalidInput(f"the latency {wrong[0]} is {times[wrong[0]]!r}; give a number of ns")
    if min(times.values()) < 0 or not times["bytes per ns"]:
        raise InvalidInput("latencies are in ns and must not be negative, bytes per ns must be positive")
    return _Clock(Machine(pipeline, values), times).run()


_LANES: Final = {"load": "loads", "copy": "loads", "fetch": "stores", "put": "stores"}


@dataclass(slots=True)
class _Clock:
    machine: Machine
    times: Mapping[str, float]
    spans: list[Span] = field(default_factory=list)
    ticks: list[Tick] = field(default_factory=list)
    due: dict[int, float] = field(default_factory=dict)  # when each process or flight goes on, if nothing holds it up
    held: set[int] = field(default_factory=set)  # processes that something holds up
    free: dict[tuple[int, str], float] = field(default_factory=dict)  # when each engine of a CTA has time

    def run(self) -> Timing:
        machine, state, now = self.machine, self.machine.start, 0.0
        while moves := machine.moves(state):
            self.wake(state, moves, now)
            key = min(moves, key=lambda k: (self.due.get(k, now), k))
            now = max(now, self.due.get(key, now))
            if key < machine.first_flight:
                self.step(state, key, now)
            state, _ = machine.apply(state, key)
        blocked = [todo for p in range(machine.first_flight) if (todo := machine.next(state, p))]
        stuck = tuple(f"{self.label(todo)} waits for ever: {instruction(machine.tables, todo)}" for todo in blocked)
        for todo in blocked:
            start = self.due.get(todo.process, 0.0)
            self.spans.append(Span(self.label(todo), start, max(now, start), "waits for ever", -1, "wait"))
        engines = sorted({span.lane for span in self.spans if span.kind == "flight"})
        lanes = (*(process.label for process in machine.processes), *engines)
        stages = max((ring.stages for ring in machine.tables.pipeline.buffers), default=1)
        end = max([now, *(span.end for span in self.spans)])
        return Timing(tuple(self.spans), tuple(self.ticks), lanes, end, stages, stuck)

    def wake(self, state: State, moves: list[int], now: float) -> None:
        """Let processes that nothing holds up any more go on, and note which are held up."""
        for process in range(self.machine.first_flight):
            todo = self.machine.next(state, process)
            if todo is None:
                continue
            if process not in moves:
                self.held.add(process)
            elif process in self.held:
                self.held.discard(process)
                since = self.due.get(process, 0.0)
                delay = self.times["wake"] if isinstance(todo.op, Wait | Sync | WaitGroup) else 0.0
                self.due[process] = max(since, now + delay)
                if self.due[process] > since:
                    text = instruction(self.machine.tables, todo)
                    self.spans.append(Span(self.label(todo), since, self.due[process], text, self.stage(todo), "wait"))

    def label(self, todo: Instruction) -> str:
        return self.machine.processes[todo.process].label

    def stage(self, todo: Instruction) -> int:
        if todo.barriers:
            return self.machine.tables.barriers[todo.barriers[0]][2]
        cells = [self.machine.tables.cells[access.cell] for access in todo.accesses]
        return next((cell.stage for cell in cells if not cell.sums), -1)

    def step(self, state: State, process: int, now: float) -> None:
        """Make an instruction of a process, and start what it starts."""
        todo = self.machine.programs[process][state.at[process]]
        name, text = type(todo.op).__name__, instruction(self.machine.tables, todo)
        starts = bool(todo.flights)
        took = (
            self.times["issue"] if starts else self.times.get(name, 0.0 if todo.meeting >= 0 else self.times["issue"])
        )
        self.due[process] = now + took
        if took:
            self.spans.append(Span(self.label(todo), now, now + took, text, self.stage(todo), "step"))
        if todo.barriers and not todo.accesses:
            self.ticks.append(Tick(self.label(todo), now + took, text, isinstance(todo.op, Wait)))
        for number in todo.flights:
            self.launch(self.machine.flights[number], todo, now + took)

    def launch(self, flight: Flight, todo: Instruction, now: float) -> None:
        lane, key = _LANES.get(flight.kind, "matrix unit"), self.machine.first_flight + flight.number
        way = (flight.cta, lane)
        if self.machine.tables.pipeline.cluster > 1:
            lane = f"cta {flight.cta} {lane}"
        ready = max([now, *(self.due[self.machine.first_flight + number] for number in flight.after)])
        moved, start = flight.bytes / self.times["bytes per ns"], now
        if flight.kind in ("load", "copy"):
            end = max(ready + self.times[type(todo.op).__name__], self.free.get(way, 0.0)) + moved
        elif flight.kind == "signal":
            end = ready
        else:
            # One after the other; a store has fetched its source long before it has written all.
            took = self.times["Multiply"] if flight.kind == "multiply" else moved
            start = max(ready, self.free.get(way, 0.0)) if flight.kind != "put" else ready
            end = start + (self.times["Store"] if flight.kind == "put" else took)
        if flight.kind not in ("put", "signal"):
            self.free[way] = end
        self.due[key] = end
        if flight.kind != "signal":
            text = instruction(self.machine.tables, todo)
            self.spans.append(Span(lane, start, end, text, self.stage(todo), "flight"))
