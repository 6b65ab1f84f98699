"""Explicit-state model checking of a pipeline for given trip counts: all orders of all steps.

Each load, product, store and arrival of the matrix unit lands in a step of its own, at any later time. Courses that
differ only in the order of steps that commute are visited once: dynamic partial-order reduction (C. Flanagan and
P. Godefroid, POPL 2005) with sleep sets. A course that reverses two clashing steps is added wherever nothing orders
them. A right pipeline orders all that clashes, so that one course stands for all; a wrong one branches. With
`reduced=False` every state is visited, which is slow and trusts no notion of commuting; counterexamples are shortest.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from legalsat.analyses.protocol.pipeline_faults import deadlock, fault
from legalsat.analyses.protocol.pipeline_machine import Machine, PipelineError, State
from legalsat.analyses.protocol.pipeline_order import Touch, relation, touches
from legalsat.analyses.protocol.pipeline_words import engine, instruction, landing
from legalsat.program.pipeline import Pipeline

LIMIT: Final = 50_000


@dataclass(frozen=True, slots=True)
class Event:
    """One step of a course: who makes it, and what it is; `wrong` where it is not made, as it is what goes wrong."""

    lane: str
    text: str
    wrong: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a search has found.

    Attributes:
        error: what goes wrong in some course; None if nothing does in those visited.
        states: how many were visited. complete: whether no course is left out; with an error, whether one is found.
        trace: the course that ends in the error, without steps that it does not need; then what cannot or must not
            come next.
        lanes: role instances, then engines; columns of a timeline.
    """

    error: PipelineError | None
    states: int
    complete: bool
    trace: tuple[Event, ...] = ()
    lanes: tuple[str, ...] = ()

    @property
    def proven(self) -> bool:
        """Tell whether every course ends well."""
        return self.complete and self.error is None


def explore(
    pipeline: Pipeline,
    values: Mapping[str, int],
    *,
    limit_states: int = LIMIT,
    reduced: bool = True,
    seed: int | None = None,
    strict: bool = False,
) -> Verdict:
    """Visit every course of a pipeline, up to a number of states.

    Args:
        pipeline: what to check.
        values: of its symbols, such as {"K tiles": 4}.
        limit_states: after so many states the search gives up.
        reduced: whether courses that differ in the order of commuting steps are visited once.
        seed: draws which courses are visited first. When left out, engines are as late as they can be, since most
            faults show at once in such a course.
        strict: whether to ask for what documents do, but hardware and compilers at large do not: a fence between the
            start of a barrier and its use by engines of the same block (FACTS FN-05).

    Raises:
        InvalidInput: a symbol without a value, or a name that the pipeline has not.
    """
    machine = Machine(pipeline, values, strict=strict)
    draw = None if seed is None else random.Random(seed)
    return (_Reduced(machine, limit_states, draw) if reduced else _Plain(machine, limit_states)).verdict()


def _told(machine: Machine, keys: Iterable[int], error: PipelineError) -> tuple[Event, ...]:
    state, found = machine.start, []
    for key in keys:
        found.append(event(machine, state, key))
        state, _ = machine.apply(state, key)
    stuck = error.also if error.kind == "deadlock" else error.also[:1]
    last = [event(machine, state, key) for key in stuck if key < machine.first_flight]
    return (*found, *(replace(one, wrong=True) for one in last))


def event(machine: Machine, state: State, key: int) -> Event:
    """Return a step in words."""
    if key < machine.first_flight:
        todo = machine.next(state, key)
        return Event(machine.processes[key].label, instruction(machine.tables, todo) if todo else "ends")
    flight = machine.flight(key)
    if flight is None:
        cta = key - machine.first_exit
        return Event(f"cta {cta}" if len(state.gone) > 1 else "block", "ends")
    return Event(engine(machine.tables, flight), landing(machine.tables, flight))


def lanes(machine: Machine) -> tuple[str, ...]:
    """Return role instances, then engines that have anything to do."""
    engines = dict.fromkeys(engine(machine.tables, flight) for flight in machine.flights)
    return (*(process.label for process in machine.processes), *engines)


def _judged(machine: Machine, state: State, moves: list[int]) -> PipelineError | None:
    return fault(machine, state) or (deadlock(machine, state) if not moves and not machine.over(state) else None)


class _Plain:
    """Breadth-first search of all states."""

    def __init__(self, machine: Machine, limit: int) -> None:
        self.machine, self.limit = machine, limit

    def verdict(self) -> Verdict:
        machine = self.machine
        came: dict[State, tuple[State, int] | None] = {machine.start: None}
        waiting = deque([machine.start])
        while waiting:
            state = waiting.popleft()
            moves = machine.moves(state)
            if error := _judged(machine, state, moves):
                return self.failed(came, state, (), error)
            for key in moves:
                after, error = machine.apply(state, key)
                if error:
                    return self.failed(came, state, (key,), error)
                if after not in came:
                    came[after] = (state, key)
                    waiting.append(after)
            if len(came) > self.limit:
                return Verdict(None, len(came), complete=False)
        return Verdict(None, len(came), complete=True)

    def failed(
        self,
        came: dict[State, tuple[State, int] | None],
        state: State,
        last: tuple[int, ...],
        error: PipelineError,
    ) -> Verdict:
        keys = list(last)
        while step := came[state]:
            state, key = step
            keys.insert(0, key)
        return Verdict(error, len(came), True, _told(self.machine, keys, error), lanes(self.machine))


@dataclass(slots=True)
class _Frame:
    """A state of the course under way, and what is still to be tried in it. Sets of earlier steps are bit masks."""

    state: State
    moves: list[int]
    todo: list[int] = field(default_factory=list)
    tried: set[int] = field(default_factory=set)
    sleeping: dict[int, list[Touch]] = field(default_factory=dict)
    key: int = -1
    past: int = 0  # steps of the course that must come before this frame's
    touched: list[Touch] = field(default_factory=list)


class _Reduced:
    """Depth-first search of one course of each class of courses that differ in the order of commuting steps."""

    def __init__(self, machine: Machine, limit: int, draw: random.Random | None) -> None:
        self.machine, self.limit, self.draw, self.states = machine, limit, draw, 0
        self.course: list[_Frame] = []
        self.history: dict[tuple[str, int], list[tuple[int, Touch]]] = {}
        self.last: dict[int, list[int]] = {}  # of each process, its steps; of each flight, the step that starts it

    def verdict(self) -> Verdict:
        if error := self.enter(self.machine.start, {}):
            return self.failed(error)
        while self.course:
            frame = self.course[-1]
            self.undo(frame)
            while frame.todo and (frame.todo[-1] in frame.sleeping or frame.todo[-1] in frame.tried):
                frame.todo.pop()
            if not frame.todo:
                self.course.pop()
                continue
            if self.states >= self.limit:
                return Verdict(None, self.states, complete=False)
            if error := self.step(frame, frame.todo.pop()):
                return self.failed(error)
        return Verdict(None, self.states, complete=True)

    def undo(self, frame: _Frame) -> None:
        """Take back the step that was tried in a frame, and let it sleep."""
        if frame.key < 0:
            return
        for touch in frame.touched:
            self.history[touch[0]].pop()
        for key in self.moved(frame):
            self.last[key].pop()
        frame.sleeping[frame.key] = frame.touched
        frame.key = -1

    def moved(self, frame: _Frame) -> list[int]:
        todo = self.machine.next(frame.state, frame.key) if frame.key < self.machine.first_flight else None
        return [frame.key, *(self.machine.first_flight + f for f in (todo.flights if todo else ()))]

    def step(self, frame: _Frame, key: int) -> PipelineError | None:
        """Make a step of the last frame, and enter the state that it leads to."""
        frame.tried.add(key)
        frame.key, frame.touched = key, touches(self.machine, frame.state, key)
        here, frame.past = len(self.course) - 1, self.before(key)
        for touch in frame.touched:
            for index, other in self.history.get(touch[0], ()):
                if relation(other, touch) != "free":
                    frame.past |= self.course[index].past | 1 << index
        for touch in frame.touched:
            self.history.setdefault(touch[0], []).append((here, touch))
        for moved in self.moved(frame):
            self.last.setdefault(moved, []).append(here)
        after, error = self.machine.apply(frame.state, key)
        if error:
            return error
        awake = {k: t for k, t in frame.sleeping.items() if not _clash(t, frame.touched)}
        return self.enter(after, awake)

    def before(self, key: int) -> int:
        """Return the steps that must come before the next one of a process or flight, as far as is known yet."""
        machine = self.machine
        if key >= machine.first_exit:
            cta = key - machine.first_exit
            keys = [i for i, process in enumerate(machine.processes) if process.cta == cta]
        else:
            keys = [key]
        found = 0
        for one in keys:
            if steps := self.last.get(one):
                found |= self.course[steps[-1]].past | 1 << steps[-1]
        return found

    def enter(self, state: State, sleeping: dict[int, list[Touch]]) -> PipelineError | None:
        self.states += 1
        moves = self.machine.moves(state)
        frame = _Frame(state, moves, sleeping=sleeping)
        if error := _judged(self.machine, state, moves):
            self.course.append(frame)
            return error
        for key in dict.fromkeys((*moves, *range(self.machine.first_flight), *self.flying(state))):
            self.reverse(state, key)
        self.course.append(frame)
        awake = [key for key in moves if key not in sleeping]
        if awake:
            frame.todo = [self.draw.choice(awake) if self.draw else awake[0]]
        return None

    def flying(self, state: State) -> Iterable[int]:
        return (self.machine.first_flight + number for number in state.flying)

    def reverse(self, state: State, key: int) -> None:
        """Where the next step of a process or flight clashes with one of the course, have them tried in reverse."""
        before = self.before(key)
        last = -1
        for touch in touches(self.machine, state, key):
            for index, other in reversed(self.history.get(touch[0], ())):
                if index <= last:
                    break
                if not before >> index & 1 and relation(other, touch) == "clash":
                    last = index
        if last < 0:
            return
        frame = self.course[last]
        steps = [(i, self.course[i].key) for i in range(last + 1, len(self.course)) if before >> i & 1]
        leading = {key} | {other for _, other in steps}
        found = [move for move in frame.moves if move in leading]
        if not found:
            frame.todo[:0] = [move for move in frame.moves if move not in frame.tried]
        elif not any(move in frame.tried or move in frame.todo for move in found):
            frame.todo.append(found[0])

    def failed(self, error: PipelineError) -> Verdict:
        keys = [frame.key for frame in self.course if frame.key >= 0]
        keys = self.needed(error, keys) or keys
        return Verdict(error, self.states, True, _told(self.machine, keys, error), lanes(self.machine))

    def needed(self, error: PipelineError, keys: list[int]) -> list[int]:
        """Return the steps without which the error would not come about, if these alone lead to it."""
        mask = 0
        for key in error.also:
            mask |= self.before(key)
        kept = [key for index, key in enumerate(keys) if mask >> index & 1]
        state = self.machine.start
        for key in kept:
            if key not in self.machine.moves(state) or fault(self.machine, state):
                return []
            state, _ = self.machine.apply(state, key)
        found = fault(self.machine, state)
        return kept if found and found.kind == error.kind and found.where == error.where else []


def _clash(one: list[Touch], other: list[Touch]) -> bool:
    return any(a[0] == b[0] and relation(a, b) != "free" for a in one for b in other)
