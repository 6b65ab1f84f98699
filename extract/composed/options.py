"""How a matrix comes to lie in a place: the ways that its class's nodes leave open, and what each is known to cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from legalsat.extract.composed.classes import VIEWS, Matrices, Node, matrices_of
from legalsat.extract.composed.places import Home, State, part, places_of, plainness, seen
from legalsat.extract.composed.works import Work, cost_of, least_of
from legalsat.operators import Copy, Pad
from legalsat.operators.gemm import Gemm
from legalsat.operators.program import Program
from legalsat.targets import Target
from legalsat.tensor import Tensor, plain
from legalsat.terms.trees import TermLaw

TENTHS, STEP = 1 << 12, 1  # of weights: a tenth of a nanosecond, and a launch, which breaks ties


@dataclass(frozen=True, slots=True)
class Option:
    """One way to make a state of others.

    Attributes:
        node: of the class; None for the class in another place, from which a pass brings it, or which is a result.
        operands: states that must be there.
        runs: whether it takes a step, and no view or concatenation, whose parts are written where they belong.
        least: a weight that it is not below.
    """

    node: Node | None
    operands: tuple[State, ...]
    runs: bool
    least: int


class Options:
    """The ways to make each state of a program on a target."""

    def __init__(self, program: Program, target: Target, laws: tuple[TermLaw, ...] | None = None) -> None:
        self.program, self.target = program, target
        self.matrices: Matrices = matrices_of(program, program.laws() if laws is None else laws)
        self._written, self._read = places_of(program, self.matrices)
        self._inputs = {one.name: one for one in program.inputs}
        self._found: dict[State, tuple[Option, ...]] = {}
        self._least: dict[tuple[object, ...], int] = {}
        self.solved = 0
        self.refused: Work | None = None  # something that has no legal plan

    @cached_property
    def goals(self) -> tuple[State, ...]:
        """What is wanted: each result in its place."""
        classes = self.matrices.values
        return tuple(
            State(classes[one.value], one.tensor, Home(classes[one.value], one.tensor, result=number))
            for number, one in enumerate(self.program.results)
        )

    def of(self, state: State) -> tuple[Option, ...]:
        """Return the ways to make a state."""
        if state not in self._found:
            self._found[state] = tuple(dict.fromkeys(self._ways(state)))
        return self._found[state]

    def _ways(self, state: State) -> Iterator[Option]:
        for node in self.matrices.nodes[state.value]:
            yield from self._seen(state, node)
        if state.home is None and not self.matrices.constant[state.value]:  # a result is another one at every call
            yield from (Option(None, (goal,), runs=False, least=0) for goal in self.goals if _same(goal, state))
        if state.home is not None or state.tensor in self._written[state.value]:
            for node in self.matrices.nodes[state.value]:
                yield from self._made(state, node)
            for source in self._places(state.value):
                if source != state.tensor or state.home is not None:
                    yield self._pass(state, None, source)

    def _seen(self, state: State, node: Node) -> Iterator[Option]:
        """Yield how a state is there without being written: as an input, or as a view."""
        if node.operator == "source":
            if state.home is None and self._inputs[node.name].tensor == state.tensor:
                yield Option(node, (), runs=False, least=0)
        elif node.operator == "transpose" and state.home is not None:
            whole = State(node.operands[0], state.tensor.transposed((1, 0)), state.home)
            yield Option(node, (whole,), runs=False, least=0)
        elif node.operator in VIEWS and state.home is None:
            for place in self._places(node.operands[0]):
                if seen(node, place) == state.tensor:
                    yield Option(node, (State(node.operands[0], place),), runs=False, least=0)

    def _made(self, state: State, node: Node) -> Iterator[Option]:
        """Yield how a state is written by what a node does."""
        if node.operator == "concat":
            yield self._parts(node, state)
        elif node.operator == "product":
            yield from self._products(state, node)
        elif node.operator == "pad":
            yield from (self._pass(state, node, source) for source in self._places(node.operands[0]))

    def _places(self, value: int) -> list[Tensor]:
        return sorted(self._read[value], key=plainness)

    def _parts(self, node: Node, state: State) -> Option:
        axis, n, m = node.numbers
        home = state.home or Home(state.value, state.tensor, 0)
        found = []
        for operand, first, count in zip(node.operands, (0, n), (n, m), strict=True):
            tensor, start = part(state.tensor, axis, first, count)
            found.append(State(operand, tensor, replace(home, start=home.start + start)))
        return Option(node, tuple(found), runs=False, least=0)

    def _products(self, state: State, node: Node) -> Iterator[Option]:
        places = [[one for one in self._places(operand) if _has_lines(one)] for operand in node.operands]
        least = None
        for a in places[0]:
            for b in places[1]:
                option = Option(node, (State(node.operands[0], a), State(node.operands[1], b)), runs=True, least=0)
                if least is None:  # which does not hang on places
                    least = self._weight(state, least_of(self.work(state, option), self.target))
                yield replace(option, least=least)

    def _pass(self, state: State, node: Node | None, source: Tensor) -> Option:
        value = state.value if node is None else node.operands[0]
        option = Option(node, (State(value, source),), runs=True, least=0)
        key = state.value, node, self.once(state)
        if key not in self._least:
            self._least[key] = self._weight(state, least_of(self.work(state, option), self.target))
        return replace(option, least=self._least[key])

    def work(self, state: State, option: Option) -> Work:
        """Return what runs."""
        node, tensors = option.node, [one.tensor for one in option.operands]
        if node is None:
            return Copy(tensors[0], state.tensor, constant=self.matrices.constant[state.value])
        if node.operator == "pad":
            axis, before, extent, whole = node.numbers
            padding = [(0, 0), (0, 0)]
            padding[axis] = before, whole - extent - before
            return Pad(tensors[0], padding, target=state.tensor)
        m, n = self.matrices.shapes[state.value]
        a, b = tensors
        constant = self.matrices.constant[option.operands[1].value]
        k, to = plain(a.shape)[1], state.tensor
        return Gemm(m, n, k, a.dtype, out_dtype=to.dtype, a=a, b=b, c=to, constant_b=constant)

    def weight(self, state: State, option: Option) -> int | None:
        """Return what an option weighs, None where it is not legal."""
        if not option.runs:
            return 0
        self.solved += 1
        work = self.work(state, option)
        found = cost_of(work, self.target)
        if found is None:
            self.refused = self.refused or work
            return None
        return self._weight(state, found)

    def once(self, state: State) -> bool:
        """Whether a state is made at the first call alone: of constants, and in memory that stays."""
        return self.matrices.constant[state.value] and (state.home is None or state.home.result < 0)

    def _weight(self, state: State, nanoseconds: float) -> int:
        """Return a weight; what is made once takes nothing."""
        return STEP + (0 if self.once(state) else int(nanoseconds * 10 + 0.5) * TENTHS)


def _same(one: State, other: State) -> bool:
    return (one.value, one.tensor) == (other.value, other.tensor)


def _has_lines(tensor: Tensor) -> bool:
    """Whether elements lie side by side along an axis, as kernels of products read them."""
    return 1 in plain(tensor.strides) or 1 in plain(tensor.shape)
