"""What one step of one process, or one landing of something asynchronous, does to a block's or a cluster's state.

States are hashable values. A step is named by its key: a number below the number of processes is that process's next
instruction, then come the flights, then the CTAs, which end once all their processes have. A step does what hardware
does, even where that is wrong: what a contract forbids is told by `pipeline_faults`, so that a run may go on past it.

Sources: FACTS MB-04 to MB-11 (barriers), BG-01 to BG-06 (groups), FN-01 to FN-12 (fences), TC-22 to TC-36.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

from legalsat.analyses.protocol.pipeline_tables import Flight, Instruction
from legalsat.analyses.protocol.pipeline_unroll import unroll
from legalsat.analyses.protocol.pipeline_words import barrier_name
from legalsat.program.pipeline import (
    Allocate,
    Arrive,
    CopyIn,
    Expect,
    Fence,
    Free,
    Load,
    Multiply,
    Operation,
    Pipeline,
    Relinquish,
    Start,
    UseSums,
    Wait,
    Write,
)

TENSOR_COLUMNS: Final = 512  # FACTS TC-22
OVERLAID: Final = -(1 << 30)  # in place of an item, where another buffer's data lie on a stage


@dataclass(frozen=True, slots=True)
class PipelineError:
    """What goes wrong in one possible course of a pipeline.

    Attributes:
        kind: one of "deadlock", "bytes differ", "two phases back", "too many arrivals", "use before init", "overwrite",
            "early read", "unfenced", "groups not balanced", "not drained", "remote not alive", "mask outside cluster",
            "tensor memory not allocated", "tensor memory not freed".
        where: the role instance at fault and its operation, None at its end.
        message: what is wrong, with numbers and units.
        also: keys of other steps that it takes, for the timeline.
    """

    kind: str
    where: tuple[str, Operation | None]
    message: str
    also: tuple[int, ...] = ()


class Barrier(NamedTuple):
    """A barrier: how many phases are over, arrivals and bytes still awaited, who must still fence its start or -1."""

    phase: int
    pending: int
    tx: int
    unfenced_by: int


class Mark(NamedTuple):
    """A use of sums in tensor memory.

    Attributes:
        process, place: the instruction that it is of. wrote: whether it is a product.
        released: fenced, so that a signal from now on tells of it; a product is once it is done.
        seen: who has fenced behind such a signal.
    """

    process: int
    place: int
    wrote: bool
    released: bool
    seen: frozenset[int]


def fences(todo: Instruction, mark: tuple[int, int, int], maps: frozenset[int]) -> bool:
    """Tell whether a proxy.async fence is for a write; `maps`: cells that are tensor maps, which have their own."""
    return mark[0] not in maps and mark[1] == todo.process and (mark[2] < 0 or mark[2] in todo.covers)


def releases(mark: Mark, process: int, index: int, *, wrote: bool) -> bool:
    """Tell whether a fence or signal of a process at an instruction releases what the mark is of."""
    return not mark.released and mark.process == process and mark.wrote == wrote and mark.place <= index


class State(NamedTuple):
    """Everything that a step may depend on.

    Attributes:
        at: the next instruction of each process. flying: flights under way, sorted.
        barriers: by cell; None before its start. items: what each cell holds; None for nothing that can be read.
        unfenced: (cell, process, flight) of generic writes that the async proxy need not see; -1 if not by cp.async.
        marks: of each cell of sums. allocated: live allocations. relinquished: CTAs that allocate no more.
        met: arrivals at each meeting. gone: CTAs that have ended.
    """

    at: tuple[int, ...]
    flying: tuple[int, ...]
    barriers: tuple[Barrier | None, ...]
    items: tuple[int | None, ...]
    unfenced: frozenset[tuple[int, int, int]]
    marks: tuple[frozenset[Mark], ...]
    allocated: frozenset[int]
    relinquished: frozenset[int]
    met: tuple[int, ...]
    gone: tuple[bool, ...]


class _Draft:
    """A state that a step may change."""

    def __init__(self, state: State) -> None:
        self.at, self.flying = list(state.at), set(state.flying)
        self.barriers, self.items = list(state.barriers), list(state.items)
        self.unfenced, self.marks = state.unfenced, list(state.marks)
        self.allocated, self.relinquished = state.allocated, state.relinquished
        self.met, self.gone = list(state.met), list(state.gone)

    def frozen(self) -> State:
        return State(
            tuple(self.at),
            tuple(sorted(self.flying)),
            tuple(self.barriers),
            tuple(self.items),
            self.unfenced,
            tuple(self.marks),
            self.allocated,
            self.relinquished,
            tuple(self.met),
            tuple(self.gone),
        )


class Machine:
    """A pipeline for given trip counts, as a transition system. `strict` is for `pipeline_faults`.

    Raises:
        InvalidInput: as `unroll`.
    """

    def __init__(self, pipeline: Pipeline, values: Mapping[str, int], *, strict: bool = False) -> None:
        self.strict = strict
        self.tables = tables = unroll(pipeline, values)
        self.processes, self.programs, self.flights = tables.processes, tables.programs, tables.flights
        self.first_flight = len(self.processes)
        self.first_exit = self.first_flight + len(self.flights)
        self.start = State(
            at=(0,) * len(self.processes),
            flying=(),
            barriers=(None,) * len(tables.barriers),
            items=(None,) * len(tables.cells),
            unfenced=frozenset(),
            marks=(frozenset(),) * len(tables.cells),
            allocated=frozenset(),
            relinquished=frozenset(),
            met=(0,) * len(tables.meetings),
            gone=(False,) * pipeline.cluster,
        )

    def next(self, state: State, process: int) -> Instruction | None:
        """Return what a process does next, None at its end."""
        program, at = self.programs[process], state.at[process]
        return program[at] if at < len(program) else None

    @cached_property
    def maps(self) -> frozenset[int]:
        """Cells that are tensor maps."""
        names = self.tables.pipeline.maps
        return frozenset(number for number, cell in enumerate(self.tables.cells) if cell.name in names)

    def maps_of(self, cta: int) -> frozenset[int]:
        """Return the cells that are tensor maps of a CTA."""
        return frozenset(number for number in self.maps if self.tables.cells[number].cta == cta)

    def flight(self, key: int) -> Flight | None:
        """Return the flight that a key lands."""
        return self.flights[key - self.first_flight] if self.first_flight <= key < self.first_exit else None

    def moves(self, state: State) -> list[int]:
        """Return the keys of all steps that are possible."""
        found = []
        for process in range(self.first_flight):
            todo = self.next(state, process)
            if todo is not None and self.passes(state, todo):
                found.append(process)
        flying = set(state.flying)
        found += [self.first_flight + f for f in state.flying if flying.isdisjoint(self.flights[f].after)]
        return found + [self.first_exit + cta for cta in range(len(state.gone)) if self._ends(state, cta)]

    def over(self, state: State) -> bool:
        """Tell whether all CTAs have ended."""
        return all(state.gone)

    def passes(self, state: State, todo: Instruction) -> bool:
        """Tell whether an instruction has nothing to wait for."""
        if isinstance(todo.op, Wait):
            barrier = state.barriers[todo.barriers[0]]
            return barrier is not None and (barrier.phase - todo.phase) & 1 == 1
        if todo.after:
            return not any(f in todo.after for f in state.flying)
        if todo.need:
            return state.met[todo.meeting] >= todo.need
        if isinstance(todo.op, Allocate):
            return self.columns(state, todo.cta) + todo.op.columns <= TENSOR_COLUMNS
        return True

    def columns(self, state: State, cta: int) -> int:
        """Return how many columns of tensor memory are allocated."""
        found = 0
        for allocation in state.allocated:
            made = self.programs[allocation >> 20][allocation & 0xFFFFF]
            if made.cta == cta and isinstance(made.op, Allocate):
                found += made.op.columns
        return found

    def apply(self, state: State, key: int) -> tuple[State, PipelineError | None]:
        """Return the state after a step, and what is wrong if it ends a phase whose bytes are still on their way."""
        draft = _Draft(state)
        if key < self.first_flight:
            process, todo = key, self.programs[key][state.at[key]]
            draft.at[key] += 1
            error = self._run(draft, todo)
        elif key < self.first_exit:
            flight = self.flights[key - self.first_flight]
            process, todo = flight.process, self.programs[flight.process][flight.index]
            draft.flying.discard(flight.number)
            error = self._land(draft, flight)
        else:
            draft.gone[key - self.first_exit] = True
            return draft.frozen(), None
        found = PipelineError("bytes differ", (self.processes[process].label, todo.op), error) if error else None
        return draft.frozen(), found

    def _ends(self, state: State, cta: int) -> bool:
        ended = (state.at[i] >= self.tables.ends[i] for i, p in enumerate(self.processes) if p.cta == cta)
        return not state.gone[cta] and all(ended)

    def _run(self, draft: _Draft, todo: Instruction) -> str:
        if todo.meeting >= 0:
            draft.met[todo.meeting] += not todo.need
            return ""
        draft.flying.update(todo.flights)
        handler = _RUN.get(type(todo.op))
        return handler(self, draft, todo) if handler else ""

    def _land(self, draft: _Draft, flight: Flight) -> str:
        if flight.fills:
            self._fill(draft, flight.fills.cell, flight.fills.item)
        if flight.kind == "copy":
            draft.unfenced |= {(flight.accesses[0].cell, flight.process, flight.number)}
        elif flight.kind == "multiply":
            # Whoever learns of this learns it of a commit, which fences (FACTS TC-34).
            self._release(draft, flight.process, flight.index, wrote=True)
        if flight.barrier >= 0:
            return self._count(draft, flight.barrier, flight.arrivals, -flight.bytes)
        return ""

    def _fill(self, draft: _Draft, cell: int, item: int | None) -> None:
        draft.items[cell] = item
        for other in self.tables.aliases[cell]:
            draft.items[other] = OVERLAID

    def _count(self, draft: _Draft, cell: int, arrivals: int, tx: int) -> str:
        """Count arrivals and bytes; return what is wrong if a phase ends while its bytes are on their way."""
        barrier = draft.barriers[cell]
        if barrier is None:
            return ""
        barrier = barrier._replace(pending=barrier.pending - arrivals, tx=barrier.tx + tx)
        if barrier.pending or barrier.tx:
            draft.barriers[cell] = barrier
            return ""
        draft.barriers[cell] = barrier._replace(phase=barrier.phase + 1, pending=self.tables.arrivals[cell])
        late = [f for f in (self.flights[n] for n in sorted(draft.flying)) if f.barrier == cell and f.kind == "load"]
        if not late:
            return ""
        count = sum(f.bytes for f in late)
        name = barrier_name(self.tables, cell)
        return f"phase {barrier.phase} of {name} ends while {count} bytes that it should wait for are on their way"

    def _start(self, draft: _Draft, todo: Instruction) -> str:
        for cell in todo.barriers:
            draft.barriers[cell] = Barrier(0, self.tables.arrivals[cell], 0, todo.process)
        return ""

    def _arrive(self, draft: _Draft, todo: Instruction) -> str:
        return self._count(draft, todo.barriers[0], getattr(todo.op, "count", 1), 0)

    def _expect(self, draft: _Draft, todo: Instruction) -> str:
        assert isinstance(todo.op, Expect)
        return self._count(draft, todo.barriers[0], int(todo.op.arrives), todo.op.bytes)

    def _load(self, draft: _Draft, todo: Instruction) -> str:
        for access in (one for one in todo.accesses if one.writes):
            self._fill(draft, access.cell, None)
            draft.unfenced = frozenset(mark for mark in draft.unfenced if mark[0] != access.cell)
        return ""

    def _write(self, draft: _Draft, todo: Instruction) -> str:
        cell = todo.accesses[0].cell
        self._fill(draft, cell, todo.item)
        draft.unfenced |= {(cell, todo.process, -1)}
        return ""

    def _fence(self, draft: _Draft, todo: Instruction) -> str:
        kind = getattr(todo.op, "kind", "")
        if kind == "proxy.async":
            draft.unfenced = frozenset(m for m in draft.unfenced if not fences(todo, m, self.maps))
        elif kind == "tensormap":
            draft.unfenced = frozenset(m for m in draft.unfenced if m[0] not in self.maps_of(todo.cta))
        elif kind == "mbarrier_init":
            for cell, barrier in enumerate(draft.barriers):
                if barrier and barrier.unfenced_by == todo.process:
                    draft.barriers[cell] = barrier._replace(unfenced_by=-1)
        elif kind == "tcgen05.before":
            self._release(draft, todo.process, todo.index, wrote=False)
        elif kind == "tcgen05.after":
            for cell, wrote in todo.guards:
                draft.marks[cell] = frozenset(
                    m._replace(seen=m.seen | {todo.process}) if m.released and m.wrote == wrote else m
                    for m in draft.marks[cell]
                )
        return ""

    def _release(self, draft: _Draft, process: int, index: int, *, wrote: bool) -> None:
        """Release what a process has used up to an instruction."""
        for cell, marks in enumerate(draft.marks):
            if marks:
                draft.marks[cell] = frozenset(
                    m._replace(released=True) if releases(m, process, index, wrote=wrote) else m for m in marks
                )

    def _multiply(self, draft: _Draft, todo: Instruction) -> str:
        sums = todo.accesses[-1]
        self._fill(draft, sums.cell, sums.item)
        for cell in todo.sums:
            draft.marks[cell] = frozenset({Mark(todo.process, todo.index, True, False, frozenset())})
        return ""

    def _use(self, draft: _Draft, todo: Instruction) -> str:
        for cell in todo.sums:
            draft.marks[cell] |= {Mark(todo.process, todo.index, False, False, frozenset())}
        return ""

    def _allocate(self, draft: _Draft, todo: Instruction) -> str:
        for access in todo.accesses:
            draft.items[access.cell] = None
            draft.marks[access.cell] = frozenset()
        if isinstance(todo.op, Allocate):
            draft.allocated |= {todo.allocation}
        else:
            draft.allocated -= {todo.allocation}
        return ""

    def _relinquish(self, draft: _Draft, todo: Instruction) -> str:
        draft.relinquished |= {todo.cta}
        return ""


_RUN: dict[type, Callable[[Machine, _Draft, Any], str]] = {
    Start: Machine._start,
    Arrive: Machine._arrive,
    Expect: Machine._expect,
    Load: Machine._load,
    CopyIn: Machine._load,
    Write: Machine._write,
    Fence: Machine._fence,
    Multiply: Machine._multiply,
    UseSums: Machine._use,
    Allocate: Machine._allocate,
    Free: Machine._allocate,
    Relinquish: Machine._relinquish,
}
