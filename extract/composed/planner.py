"""From a program to its plan: laws, places, the cheapest choice, and what runs for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from legalsat.extract.composed.derivations import derived
from legalsat.extract.composed.extraction import Extracted, extract
from legalsat.extract.composed.options import Option, Options
from legalsat.extract.composed.places import State, part
from legalsat.extract.composed.works import nanoseconds_of, planned
from legalsat.extract.search.planner import ONE_AT_A_TIME
from legalsat.operators.program import Program, expression
from legalsat.plans.program_plan import Buffer, Place, ProgramPlan, ProgramStep
from legalsat.targets import Target
from legalsat.tensor import plain


def program_plan(program: Program, target: Target) -> ProgramPlan:
    """Return the cheapest plan of a program.

    Raises:
        NoLegalLayout: a product or a pass has no legal plan however its operands lie.
        SolverGaveUp: none was found within the limit.
    """
    with ONE_AT_A_TIME:
        options = Options(program, target)
        return scheduled(options, extract(options))


@lru_cache(maxsize=64)
def cached_program_plan(program: Program, target: Target) -> ProgramPlan:
    """Return `program_plan(program, target)`, remembered."""
    return program_plan(program, target)


def scheduled(options: Options, found: Extracted) -> ProgramPlan:
    """Return the plan of a choice of options."""
    layout = _Layout(options, found.options)
    for goal in options.goals:
        layout.make(goal)
    return ProgramPlan(
        options.program,
        options.target,
        tuple(layout.buffers()),
        tuple(layout.steps),
        derived(options, found.options),
        found.exact,
    )


@dataclass
class _Layout:
    """Gives every state that is made a place, and lists what runs."""

    options: Options
    chosen: dict[State, Option]
    scratch: list[Buffer] = field(default_factory=list)
    steps: list[ProgramStep] = field(default_factory=list)
    _made: dict[State, Place] = field(default_factory=dict)
    _buffers: dict[State, str] = field(default_factory=dict)

    def make(self, state: State) -> Place:
        """Return where a state is, after all that it needs."""
        if state not in self._made:
            option = self.chosen[state]
            reads = tuple(self.make(operand) for operand in option.operands)
            self._made[state] = self._own(state, option) or self._view(state, option, reads)
            if option.runs:
                self.steps.append(self._step(state, option, reads))
        return self._made[state]

    def _own(self, state: State, option: Option) -> Place | None:
        """Return where a state is written; None for a view."""
        home = state.home
        if home is not None:
            if home.result >= 0:
                return Place(self.options.program.results[home.result].name, home.start, state.tensor)
            return Place(self._buffer(State(home.value, home.tensor)), home.start, state.tensor)
        if option.node is not None and option.node.operator == "source":
            return Place(option.node.name, 0, state.tensor)
        written = option.runs or (option.node is not None and option.node.operator == "concat")
        return Place(self._buffer(state), 0, state.tensor) if written else None

    def _buffer(self, state: State) -> str:
        if state not in self._buffers:
            names = set(self.options.program.tensors)
            free = (f"t{i}" for i in range(1, 10**6) if f"t{i}" not in names)
            self._buffers[state] = next(name for name in free if name not in self._buffers.values())
            self.scratch.append(Buffer(self._buffers[state], state.tensor, "scratch"))
        return self._buffers[state]

    def _view(self, state: State, option: Option, reads: tuple[Place, ...]) -> Place:
        (whole,), node = reads, option.node
        start = whole.start
        if node is not None and node.operator == "slice":
            axis, first, count, _ = node.numbers
            start += part(whole.tensor, axis, first, count)[1]
        return Place(whole.buffer, start, state.tensor)

    def _step(self, state: State, option: Option, reads: tuple[Place, ...]) -> ProgramStep:
        plan = planned(self.options.work(state, option), self.options.target)
        once = self.options.once(state)
        what = "relayout" if option.node is None else {"pad": "padding"}.get(option.node.operator, option.node.operator)
        words = expression(what, [self._words(one) for one in reads], ())
        return ProgramStep(words, reads, self._made[state], plan, once, 0.0 if once else round(nanoseconds_of(plan), 1))

    def _words(self, place: Place) -> str:
        """Return a place in words: its buffer, turned or a part of it where it is not the whole."""
        whole = next(one.tensor for one in self.buffers() if one.name == place.buffer)
        if place.tensor.shape == whole.shape and place.tensor.strides == whole.strides:
            return place.buffer
        turned = place.tensor.strides == whole.strides[::-1] != whole.strides
        if turned and place.tensor.shape == whole.shape[::-1]:
            return f"{place.buffer}.T"
        shape = plain(place.tensor.shape)
        rows, columns = shape[::-1] if turned else shape
        first = place.start // whole.dtype.bytes
        across, along = plain(whole.strides)
        if across >= along:
            row, column = divmod(first, across) if across else (0, first)
        else:
            column, row = divmod(first, along)
        return f"{place.buffer}[{row}:{row + rows}, {column}:{column + columns}]{'.T' * turned}"

    def buffers(self) -> Iterator[Buffer]:
        """Yield all buffers that there are so far, inputs and results first."""
        program = self.options.program
        yield from (Buffer(one.name, one.tensor, "input") for one in program.inputs)
        yield from (Buffer(one.name, one.tensor, "result") for one in program.results)
        yield from self.scratch
