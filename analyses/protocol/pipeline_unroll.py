"""A pipeline for given trip counts, unrolled: each role instance of each CTA is a straight list of instructions.

Loops, guards and cursors are gone, and every stage, item and phase is a number. Nothing here knows an order between
processes: that is `pipeline_machine`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from legalsat.analyses.protocol.pipeline_tables import Access, Cell, Flight, FlightKind, Instruction, Process, Unrolled
from legalsat.errors import InvalidInput
from legalsat.printable import shown
from legalsat.program.pipeline import (
    MEETINGS,
    Advance,
    Allocate,
    Arrive,
    At,
    Commit,
    CommitTo,
    CopyArrive,
    CopyIn,
    Expect,
    Fence,
    Free,
    Guard,
    Load,
    Loop,
    Multiply,
    Operation,
    Pipeline,
    Read,
    Start,
    Store,
    Sync,
    UseSums,
    Vectors,
    Wait,
    WaitGroup,
    Write,
    walk,
)

Value: TypeAlias = int | tuple[int, ...]
"""Of a symbol: one number, or one for each turn of the outermost loop around it."""


def unroll(pipeline: Pipeline, values: Mapping[str, Value]) -> Unrolled:
    """Return the pipeline for these values of its symbols.

    Raises:
        InvalidInput: a symbol without a value or with one that is no number of turns, or a name of a ring that the
            pipeline has not.
    """
    missing = [name for name in pipeline.symbols if name not in values]
    if missing:
        raise InvalidInput(f"no value for {', '.join(missing)}; give every symbol of the pipeline one")
    for name in pipeline.symbols:
        value: Any = values[name]
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, bool) or not hasattr(one, "__index__") or one < 0:
                raise InvalidInput(f"{name} is {shown(value)}; give a whole number from 0 on")
    tensor = {op.sums for op in _operations(pipeline) if isinstance(op, Multiply) and op.unit == "tcgen05"}
    tensor |= {name for op in _operations(pipeline) if isinstance(op, Allocate) for name in op.holds}
    processes = tuple(_processes(pipeline))
    cells = tuple(_cells(pipeline, processes, tensor))
    barriers = [(c, ring, s) for c in range(pipeline.cluster) for ring in pipeline.barriers for s in range(ring.stages)]
    names = dict.fromkeys(op.name for op in _operations(pipeline) if isinstance(op, Sync))
    meetings = tuple((c, name) for name in names for c in range(1 if name == "cluster" else pipeline.cluster))
    result = Unrolled(
        pipeline,
        processes,
        cells,
        tuple(_aliases(pipeline, cells)),
        tuple((c, ring.name, s) for c, ring, s in barriers),
        tuple(ring.arrivals for _, ring, _ in barriers),
        meetings,
    )
    writers = [_Writer(result, number, values) for number in range(len(processes))]
    _write(writers)
    for writer in writers:
        result.ends.append(len(writer.program))
        writer.end(writers)
        result.programs.append(tuple(writer.program))
        result.left.append(writer.left())
    _match_frees(result)
    result.programs = [_with_guards(program) for program in result.programs]
    return result


def _write(writers: Sequence[_Writer]) -> None:
    """Unroll all; whoever takes a cursor over goes on when it is handed over, or where it is if nobody does."""
    handed: dict[tuple[int, int], int] = {}
    courses = {writer: writer.run(writer.process.role.body, handed) for writer in writers}
    while courses:
        before = len(handed), len(courses)
        courses = {writer: course for writer, course in courses.items() if next(course, True) is None}
        if before == (len(handed), len(courses)):
            for writer in courses:
                writer.alone = True


def _operations(pipeline: Pipeline) -> Iterator[Operation]:
    for role in pipeline.roles:
        yield from walk(role.body)


def _processes(pipeline: Pipeline) -> Iterator[Process]:
    for cta in range(pipeline.cluster):
        for role in pipeline.roles:
            for i in range(role.instances if role.runs_in(cta) else 0):
                label = role.name + (f" {i}" if role.instances > 1 else "")
                yield Process(role, i, cta, f"cta {cta} {label}" if pipeline.cluster > 1 else label)


def _cells(pipeline: Pipeline, processes: tuple[Process, ...], tensor: set[str]) -> Iterator[Cell]:
    for cta in range(pipeline.cluster):
        for ring in pipeline.buffers:
            for stage in range(ring.stages):
                yield Cell(cta, ring.name, stage)
        for name, stages in pipeline.sums_stages.items():
            if name in tensor:
                yield from (Cell(cta, name, stage, sums=True, tensor=True) for stage in range(stages))
    for number, process in enumerate(processes):
        for name, stages in pipeline.sums_stages.items():
            if name not in tensor:
                yield from (Cell(process.cta, name, stage, sums=True, owner=number) for stage in range(stages))


def _aliases(pipeline: Pipeline, cells: tuple[Cell, ...]) -> Iterator[tuple[int, ...]]:
    """Yield for each cell the others that share memory with it."""
    pairs = {(ring.name, other) for ring in pipeline.buffers for other in ring.overlays}
    pairs |= {(b, a) for a, b in pairs}
    for cell in cells:
        yield tuple(
            number
            for number, other in enumerate(cells)
            if other.cta == cell.cta and (cell.name, other.name) in pairs and not cell.sums and not other.sums
        )


MOST_STEPS = 100_000  # of one role: a course of more is too long to follow
MOST_WORK = 2_000_000  # of one role: turns of loops, and what its waits wait for
_STARTED = {"wgmma": "product", "bulk": "store", "cp.async": "cp.async"}


class _Writer:
    """Unrolls the body of one process."""

    def __init__(self, result: Unrolled, number: int, values: Mapping[str, Value]) -> None:
        pipeline, self.process = result.pipeline, result.processes[number]
        self.result, self.number, self.values, self.cta = result, number, values, result.processes[number].cta
        self.program: list[Instruction] = []
        self.cursors: dict[str, int] = {}
        self.groups: dict[str, list[tuple[Flight, ...]]] = {}
        self.open: dict[str, list[Flight]] = {}
        self.issued: list[int] = []  # to tcgen05
        self.multiplied: tuple[int, ...] = ()  # the newest product: a process has them done in order (FACTS TC-32)
        self.copied: list[int] = []  # by cp.async
        self.landed: list[int] = []  # of these, those that were waited for
        self.arrives = any(isinstance(op, CopyArrive) for op in walk(self.process.role.body))
        self.fenced: set[int] = set()  # sums that wgmma may add to
        self.loaded: dict[tuple[int, int, bool], int] = {}
        self.rings = {ring.name: ring.stages for ring in pipeline.buffers} | pipeline.sums_stages
        self.bytes = {ring.name: ring.bytes for ring in pipeline.buffers}
        self.barrier_stages = {ring.name: ring.stages for ring in pipeline.barriers}
        self.barrier_numbers = {key: i for i, key in enumerate(result.barriers)}
        self.cell_numbers = {(c.cta, c.name, c.stage): i for i, c in enumerate(result.cells) if c.owner in (-1, number)}
        self.meeting_numbers = {key: i for i, key in enumerate(result.meetings)}
        self.met: dict[int, int] = {}
        self.worked = 0
        self.turn = -1  # of the outermost loop
        self.alone = False  # whether nobody is left who could hand a cursor over

    def left(self) -> str:
        """Return what is started but in no group, in words."""
        counts = {family: sum(f.kind != "put" for f in flights) for family, flights in self.open.items()}
        return ", ".join(f"{count} {_STARTED[family]}{'s' * (count > 1)}" for family, count in counts.items() if count)

    def run(self, body: Iterable[Operation], handed: dict[tuple[int, int], int]) -> Iterator[None]:
        """Unroll operations; yields where a cursor is to be taken over that nobody has handed over yet."""
        for op in body:
            if isinstance(op, Loop):
                inside = self.turn >= 0
                for turn in range(self.trips(op)):
                    self.turn = self.turn if inside else turn
                    self.work(1)
                    yield from self.run(op.body, handed)
                self.turn = self.turn if inside else -1
            elif isinstance(op, Guard):
                wanted = self.trips(op)
                if self.cursors.get(op.cursor, 0) >= wanted if op.cursor else wanted >= 1:
                    yield from self.run(op.body, handed)
            elif isinstance(op, Sync) and op.cursor:
                self.sync(op)
                meeting = self.program[-1].meeting
                met = meeting, self.met[meeting]
                if op.waits:
                    while met not in handed and not self.alone:
                        yield
                    self.cursors[op.cursor] = handed.get(met, self.cursors.get(op.cursor, 0))
                else:
                    handed[met] = max(handed.get(met, 0), self.cursors.get(op.cursor, 0))
            elif isinstance(op, Advance):
                self.cursors[op.cursor] = self.cursors.get(op.cursor, 0) + op.by
            else:
                _ADD.get(type(op), _Writer.plain)(self, op)

    def trips(self, op: Loop | Guard) -> int:
        """Return how often a loop runs in this turn of the one around it."""
        value = self.values[op.trips.name] if op.trips.name else 0
        if isinstance(value, tuple):
            if not 0 <= self.turn < len(value):
                raise InvalidInput(
                    f"{op.trips.name} has {len(value)} values; give one for each turn of the loop around it"
                )
            value = value[self.turn]
        return op.trips.value({op.trips.name: value})

    # Tables.

    def item(self, at: At) -> int:
        return self.cursors.get(at.cursor, 0) + at.offset

    def cell(self, name: str, at: At, cta: int) -> int:
        if name not in self.rings:
            raise InvalidInput(f"{self.process.role.name} names {name}, which is no buffer and no sums of the pipeline")
        return self.cell_numbers[cta, name, self.item(at) % self.rings[name]]

    def barrier(self, name: str, at: At, cta: int) -> int:
        if name not in self.barrier_stages:
            raise InvalidInput(f"{self.process.role.name} names {name}, which is no barrier of the pipeline")
        return self.barrier_numbers[cta, name, self.item(at) % self.barrier_stages[name]]

    def other(self, distance: int) -> int:
        return (self.cta + distance) % self.result.pipeline.cluster

    def access(self, name: str, at: At, writes: bool, through: str, cta: int | None = None) -> Access:
        return Access(self.cell(name, at, self.cta if cta is None else cta), self.item(at), writes, through)

    def work(self, much: int) -> None:
        """Count what following the role takes, and give up where that is too much."""
        self.worked += much
        if self.worked > MOST_WORK:
            raise InvalidInput(f"{self.process.role.name} takes too long to follow; give fewer trips")

    def add(self, op: Operation, **found: Any) -> None:
        if len(self.program) >= MOST_STEPS:
            raise InvalidInput(f"{self.process.role.name} takes more than {MOST_STEPS} steps; give fewer trips")
        self.work(len(found.get("after", ())) + len(found.get("covers", ())))
        self.program.append(Instruction(op, self.number, len(self.program), self.cta, **found))

    def fly(self, kind: FlightKind, **found: Any) -> Flight:
        self.work(len(found.get("after", ())))
        found.setdefault("cta", self.cta)
        flight = Flight(len(self.result.flights), kind, self.number, len(self.program), **found)
        self.result.flights.append(flight)
        return flight

    # One method an operation.

    def plain(self, op: Operation) -> None:
        self.add(op)

    def vectors(self, op: Vectors) -> None:
        self.add(op, item=self.item(op.at))

    def start(self, op: Start) -> None:
        stages = range(self.barrier_stages.get(op.barrier, 1))
        self.add(op, barriers=tuple(self.barrier(op.barrier, At("", stage), self.cta) for stage in stages))

    def wait(self, op: Wait) -> None:
        cell = self.barrier(op.barrier, op.at, self.cta)
        phase = self.item(op.at) // self.barrier_stages[op.barrier] - op.before
        self.add(op, item=self.item(op.at), barriers=(cell,), phase=phase)

    def arrive(self, op: Arrive) -> None:
        self.add(op, item=self.item(op.at), barriers=(self.barrier(op.barrier, op.at, self.other(op.cta)),))

    def expect(self, op: Expect) -> None:
        self.add(op, item=self.item(op.at), barriers=(self.barrier(op.barrier, op.at, self.cta),))

    def load(self, op: Load) -> None:
        maps = self.map_of(op)
        fault = self.outside(op)
        flights, accesses, barriers = [], [], []
        for cta in self.reached(op):
            access = self.access(op.buffer, op.at, True, "async", cta)
            barriers.append(self.barrier(op.barrier, op.at, cta))
            offset = self.place(op, access, self.cta if op.mask & op.mask - 1 else self.process.instance)
            flight = self.fly(
                "load",
                cta=cta,
                accesses=(access, *maps),
                fills=access,
                barrier=barriers[-1],
                bytes=op.bytes,
                offset=offset,
            )
            flights.append(flight.number)
            accesses.append(access)
        self.add(
            op,
            item=self.item(op.at),
            accesses=(*accesses, *maps),
            flights=tuple(flights),
            barriers=tuple(barriers),
            fault=fault,
        )

    def place(self, op: Load | CopyIn | Store, access: Access, share: int) -> int:
        """Return where in a stage the bytes lie: behind those that this process has moved for the item.

        Processes that share the work begin at a share each: instances, or CTAs that load for one another.
        """
        key = (access.cell, access.item, isinstance(op, Store))
        offset = self.loaded.get(key, 0)
        self.loaded[key] = offset + op.bytes
        return (offset + share * op.bytes) % max(1, self.bytes[op.buffer])

    def copy_in(self, op: CopyIn) -> None:
        access = self.access(op.buffer, op.at, True, "generic")
        offset = self.place(op, access, self.process.instance)
        flight = self.fly("copy", accesses=(access,), fills=access, bytes=op.bytes, offset=offset)
        self.open.setdefault("cp.async", []).append(flight)
        self.copied.append(flight.number)
        self.add(op, item=access.item, accesses=(access,), flights=(flight.number,))

    def reached(self, op: Load | CommitTo) -> list[int]:
        """Return the CTAs that a mask names."""
        return [self.other(d) for d in range(self.result.pipeline.cluster) if op.mask >> d & 1]

    def outside(self, op: Load | CommitTo) -> str:
        """Return in words what of a mask the cluster has not."""
        cluster = self.result.pipeline.cluster
        return "" if 0 < op.mask < 1 << cluster else f"mask {op.mask:#b} names CTAs outside the cluster of {cluster}"

    def signal(self, op: CopyArrive | CommitTo) -> None:
        before, ctas, fault = self.copied, [self.cta], ""
        if isinstance(op, CommitTo):
            before, ctas, fault = self.issued, self.reached(op), self.outside(op)
        cells = tuple(self.barrier(op.barrier, op.at, cta) for cta in ctas)
        flights = [self.fly("signal", barrier=cell, arrivals=1, after=tuple(before)) for cell in cells]
        numbers = tuple(one.number for one in flights)
        self.add(op, item=self.item(op.at), flights=numbers, barriers=cells, fault=fault)
        if isinstance(op, CopyArrive):
            # The barrier is told of these, so that no group is needed to wait for them.
            self.open["cp.async"] = []

    def store(self, op: Store) -> None:
        access = self.access(op.buffer, op.at, False, "async")
        offset = self.place(op, access, self.process.instance)
        accesses = (access, *self.map_of(op))
        fetch = self.fly("fetch", accesses=accesses, bytes=op.bytes, offset=offset)
        put = self.fly("put", after=(fetch.number,), bytes=op.bytes)
        self.open.setdefault("bulk", []).extend((fetch, put))
        self.add(op, item=access.item, accesses=accesses, flights=(fetch.number, put.number))

    def map_of(self, op: Load | Store) -> tuple[Access, ...]:
        """Return the reading of the tensor map that a copy names."""
        return (self.access(op.map, op.map_at, False, "async"),) if op.map else ()

    def read(self, op: Read | Write) -> None:
        cta = self.other(op.cta) if isinstance(op, Read) else None
        access = self.access(op.buffer, op.at, isinstance(op, Write), "generic", cta)
        self.add(op, item=access.item, accesses=(access,))

    def multiply(self, op: Multiply) -> None:
        sums = self.access(op.sums, op.at, True, "sums")
        accesses = (*(self.access(name, at, False, "async") for name, at in op.reads), sums)
        flight = self.fly("multiply", accesses=accesses, after=self.multiplied)
        self.multiplied = (flight.number,)
        fault = ""
        if op.unit == "wgmma":
            self.open.setdefault("wgmma", []).append(flight)
            if sums.cell not in self.fenced:
                fault = f"no wgmma fence since {op.sums} were last touched by other instructions"
        else:
            self.issued.append(flight.number)
        tensor = (sums.cell,) if self.result.cells[sums.cell].tensor else ()
        item = self.item(op.reads[0][1]) if op.reads else 0
        self.add(op, item=item, accesses=accesses, flights=(flight.number,), sums=tensor, fault=fault)

    def use_sums(self, op: UseSums) -> None:
        access = self.access(op.sums, op.at, False, "sums")
        self.fenced.discard(access.cell)
        tensor = (access.cell,) if self.result.cells[access.cell].tensor else ()
        self.add(op, item=access.item, accesses=(access,), sums=tensor)

    def commit(self, op: Commit) -> None:
        self.groups.setdefault(op.family, []).append(tuple(self.open.get(op.family, ())))
        self.open[op.family] = []
        self.add(op)

    def wait_group(self, op: WaitGroup) -> None:
        groups = self.groups.get(op.family, [])
        older = groups[: max(0, len(groups) - op.pending)]
        after = tuple(f.number for group in older for f in group if not (op.read and f.kind == "put"))
        if op.family == "cp.async":
            self.landed = list(after)
        self.add(op, after=after)

    def fence(self, op: Fence) -> None:
        if op.kind == "proxy.async":
            # Groups that were waited for have landed for sure. Who has copies arrive may learn it of that barrier.
            self.add(op, covers=tuple(self.copied if self.arrives else self.landed))
            return
        if op.kind == "wgmma":
            self.fenced |= {number for number, cell in enumerate(self.result.cells) if cell.owner == self.number}
        self.add(op)

    def sync(self, op: Sync) -> None:
        meeting = self.meeting_numbers[0 if op.name == "cluster" else self.cta, op.name]
        turn = self.met.get(meeting, 0) + 1
        self.met[meeting] = turn
        self.add(op, meeting=meeting)
        if op.waits:
            self.add(op, meeting=meeting, need=turn * self.present(op.name))

    def present(self, name: str) -> int:
        """Return how many processes a meeting waits for."""
        return sum(
            p.cta == self.cta or name == "cluster"
            for p in self.result.processes
            if name in MEETINGS or any(isinstance(o, Sync) and o.name == name for o in walk(p.role.body))
        )

    def end(self, writers: Sequence[_Writer]) -> None:
        """Let barriers of the block and of the cluster wait no more for who has ended.

        It counts as there at each of the others in turn: were it at all of them at once, the first would be over before
        others had come.
        """
        for name in sorted(MEETINGS):
            meeting = self.meeting_numbers.get((0 if name == "cluster" else self.cta, name))
            if meeting is not None:
                most = max(writer.met.get(meeting, 0) for writer in writers)
                for turn in range(self.met.get(meeting, 0), most):
                    if turn:
                        self.add(Sync(name), meeting=meeting, need=turn * self.present(name))
                    self.add(Sync(name), meeting=meeting)

    def allocate(self, op: Allocate) -> None:
        held = [cell for name in op.holds for cell in self.held(name)]
        accesses = tuple(Access(cell, 0, True, "alloc") for cell in held)
        self.add(op, accesses=accesses, allocation=self.number << 20 | len(self.program))

    def held(self, name: str) -> Iterator[int]:
        """Yield the cells of sums of a name; operands in tensor memory have none."""
        for stage in range(self.result.pipeline.sums_stages.get(name, 0)):
            yield self.cell_numbers[self.cta, name, stage]


def _match_frees(result: Unrolled) -> None:
    """Tell each `Free` which allocation it means: the newest of its own process, else the first of another."""
    freed: set[int] = set()
    for number, program in enumerate(result.programs):
        found = list(program)
        for here, free in enumerate(program):
            if isinstance(free.op, Free):
                same = [a for p in result.programs for a in p if _fits(a, free) and a.allocation not in freed]
                own = [a for a in same if a.process == number and a.index < here]
                meant = own[-1:] or [a for a in same if a.process != number][:1]
                if meant:
                    freed.add(meant[0].allocation)
                    found[here] = replace(free, accesses=meant[0].accesses, allocation=meant[0].allocation)
                else:
                    fault = f"{free.op.columns} columns are freed that nobody has allocated"
                    found[here] = replace(free, fault=fault)
        result.programs[number] = tuple(found)


def _with_guards(program: tuple[Instruction, ...]) -> tuple[Instruction, ...]:
    """Tell each tcgen05.after fence what it is for: a later one does all that an earlier one does."""
    found = list(program)
    guarded: dict[tuple[int, bool], None] = {}
    for index in reversed(range(len(program))):
        todo = program[index]
        if isinstance(todo.op, Fence) and todo.op.kind == "tcgen05.after":
            found[index] = replace(todo, guards=tuple(guarded))
            guarded.clear()
        else:
            guarded.update(dict.fromkeys((cell, isinstance(todo.op, UseSums)) for cell in todo.sums))
    return tuple(found)


def _fits(allocate: Instruction, free: Instruction) -> bool:
    sizes = (allocate.op.columns if isinstance(allocate.op, Allocate) else 0), getattr(free.op, "columns", 0)
    return sizes[0] == sizes[1] and allocate.cta == free.cta


_ADD: dict[type, Callable[[_Writer, Any], None]] = {
    Vectors: _Writer.vectors,
    Start: _Writer.start,
    Wait: _Writer.wait,
    Arrive: _Writer.arrive,
    Expect: _Writer.expect,
    Load: _Writer.load,
    CopyIn: _Writer.copy_in,
    CopyArrive: _Writer.signal,
    CommitTo: _Writer.signal,
    Store: _Writer.store,
    Read: _Writer.read,
    Write: _Writer.read,
    Multiply: _Writer.multiply,
    UseSums: _Writer.use_sums,
    Commit: _Writer.commit,
    WaitGroup: _Writer.wait_group,
    Fence: _Writer.fence,
    Sync: _Writer.sync,
    Allocate: _Writer.allocate,
}
