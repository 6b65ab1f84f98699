"""Which steps of a pipeline may be swapped without a difference: what each touches, and which touches clash.

A touch is a resource, a mode, and a number. Two touches of one resource are *free* (either order gives the same state
and the same faults), *ordered* (one waits for the other, so that no course has them the other way round), or they
*clash*. `tests/test_model_check.py` compares searches that rely on this with searches that rely on nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

from legalsat.analyses.protocol.pipeline_faults import remote
from legalsat.analyses.protocol.pipeline_machine import Barrier, Machine, State, fences, releases
from legalsat.analyses.protocol.pipeline_tables import Access, Flight, Instruction
from legalsat.program.pipeline import Allocate, Arrive, Expect, Fence, Free, Relinquish, Start, Wait

Touch: TypeAlias = tuple[tuple[str, int], str, int]
Relation: TypeAlias = Literal["free", "ordered", "clash"]

# Resources: "b" a barrier, "c" a cell, "m" marks of sums, "s" a meeting, "f" a flight, "x" a CTA's end, "t" tensor
# memory, "p" a copy that the async proxy must be told of.
_USES: Final = {(False, "generic"): "r", (False, "async"): "R", (False, "sums"): "r"}


def touches(machine: Machine, state: State, key: int) -> list[Touch]:
    """Return what a step touches if it is made in a state; a process may still be waiting for it."""
    if key < machine.first_flight:
        todo = machine.next(state, key)
        return list(_of_instruction(machine, state, todo)) if todo else []
    flight = machine.flight(key)
    if flight is None:
        return [(("x", key - machine.first_exit), "end", 0)]
    return list(_of_flight(machine, state, flight))


def relation(one: Touch, other: Touch) -> Relation:
    """Return how two touches of the same resource relate."""
    (resource, _), mode, number = one
    return _RELATIONS[resource](mode, number, other[1], other[2])


def _of_instruction(machine: Machine, state: State, todo: Instruction) -> Iterator[Touch]:
    op = todo.op
    yield from (_of_barrier(state, todo, cell) for cell in todo.barriers)
    for access in todo.accesses:
        yield from _of_access(machine, access)
    if todo.meeting >= 0:
        number = todo.need if todo.need else state.met[todo.meeting]
        yield ("s", todo.meeting), "wait" if todo.need else "arrive", number
    yield from ((("f", number), "wait", 0) for number in todo.after)
    yield from ((("x", cta), "use", 0) for cta in remote(machine, todo))
    if isinstance(op, Allocate | Free | Relinquish):
        yield ("t", todo.cta), "use", 0
    elif isinstance(op, Fence):
        yield from _of_fence(machine, state, todo, op.kind)


def _of_barrier(state: State, todo: Instruction, cell: int) -> Touch:
    barrier = state.barriers[cell]
    phase = barrier.phase if barrier else 0
    if isinstance(todo.op, Start):
        return ("b", cell), "start", 0
    if isinstance(todo.op, Wait):
        return ("b", cell), "wait", todo.phase
    if isinstance(todo.op, Arrive):
        return ("b", cell), _arrival(barrier, todo.op.count), phase
    if isinstance(todo.op, Expect):
        return ("b", cell), _arrival(barrier, 1) if todo.op.arrives else "expect", phase
    return ("b", cell), "name", phase


def _arrival(barrier: Barrier | None, count: int) -> str:
    return "last" if barrier and barrier.pending <= count else "arrive"


def _of_access(machine: Machine, access: Access) -> Iterator[Touch]:
    mode = _USES.get((access.writes, access.through), "w" if access.through != "alloc" else "a")
    yield ("c", access.cell), mode, access.item
    for other in machine.tables.aliases[access.cell]:
        yield ("c", other), "covers" if access.writes else "shares", access.item


def _of_fence(machine: Machine, state: State, todo: Instruction, kind: str) -> Iterator[Touch]:
    if kind == "proxy.async":
        marks = [mark for mark in state.unfenced if fences(todo, mark, machine.maps)]
        yield from ((("c", cell), "fence", 0) for cell in sorted({mark[0] for mark in marks}))
        copies = {*(mark[2] for mark in marks), *state.flying} & set(todo.covers)
        yield from ((("p", number), "fence", 0) for number in sorted(copies))
    elif kind == "tensormap":
        yield from ((("c", cell), "acquire", 0) for cell in sorted(machine.maps_of(todo.cta)))
    elif kind == "mbarrier_init":
        for cell, barrier in enumerate(state.barriers):
            if barrier and barrier.unfenced_by == todo.process:
                yield ("b", cell), "start", 0
    elif kind == "tcgen05.before":
        yield from _releases(state, todo, wrote=False)
    elif kind == "tcgen05.after":
        for cell, wrote in todo.guards:
            if any(todo.process not in mark.seen and mark.wrote == wrote for mark in state.marks[cell]):
                yield ("m", 2 * cell + wrote), "after", 0


def _releases(state: State, source: Instruction | Flight, *, wrote: bool) -> Iterator[Touch]:
    for cell, marks in enumerate(state.marks):
        if any(releases(mark, source.process, source.index, wrote=wrote) for mark in marks):
            yield ("m", 2 * cell + wrote), "before", 0


def _of_flight(machine: Machine, state: State, flight: Flight) -> Iterator[Touch]:
    for access in flight.accesses:
        yield from _of_access(machine, access)
    if flight.barrier >= 0:
        barrier = state.barriers[flight.barrier]
        mode = _arrival(barrier, flight.arrivals) if flight.arrivals else "complete"
        yield ("b", flight.barrier), mode, barrier.phase if barrier else 0
    yield ("f", flight.number), "land", 0
    yield from ((("f", number), "wait", 0) for number in flight.after)
    if flight.kind not in ("signal", "put"):
        yield ("x", flight.cta), "use", 0
    if flight.kind == "copy":
        yield ("p", flight.number), "land", 0
    if flight.kind == "multiply":
        yield from _releases(state, flight, wrote=True)


def _barrier(mode: str, number: int, other: str, other_number: int) -> Relation:
    modes = {mode, other}
    if "start" in modes:
        return "clash"
    if "name" in modes or modes == {"wait"}:
        return "free"
    if number != other_number:
        return "clash"
    if "wait" in modes:
        return "ordered"
    # A phase ends once nothing is missing, so bytes must be announced before the last arrival.
    return "clash" if modes == {"expect", "last"} else "free"


def _cell(mode: str, number: int, other: str, other_number: int) -> Relation:
    modes = {mode, other}
    if "fence" in modes:
        return "clash" if "R" in modes else "free"
    if "acquire" in modes:
        return "clash" if modes & {"w", "R", "a"} else "free"
    aliases = modes & {"shares", "covers"}
    if aliases:
        # One of them uses a buffer that lies on this cell's memory: "covers" writes there, "shares" reads.
        own = modes - aliases
        return "clash" if own and (aliases == {"covers"} or own & {"w", "a"}) else "free"
    if "a" in modes:
        return "clash"
    if modes == {"w"}:
        return "free" if number == other_number else "clash"
    return "clash" if "w" in modes else "free"


def _marks(mode: str, number: int, other: str, other_number: int) -> Relation:
    return "free" if mode == other else "clash"


def _meeting(mode: str, number: int, other: str, other_number: int) -> Relation:
    if mode == other:
        return "free"
    arrived, needed = (number, other_number) if mode == "arrive" else (other_number, number)
    return "ordered" if arrived < needed else "free"


def _flight(mode: str, number: int, other: str, other_number: int) -> Relation:
    return "free" if mode == other else "ordered"


def _end(mode: str, number: int, other: str, other_number: int) -> Relation:
    return "free" if mode == other else "clash"


def _tensor(mode: str, number: int, other: str, other_number: int) -> Relation:
    return "clash"


_RELATIONS: Final = {
    "b": _barrier,
    "c": _cell,
    "m": _marks,
    "p": _marks,
    "s": _meeting,
    "f": _flight,
    "x": _end,
    "t": _tensor,
}
