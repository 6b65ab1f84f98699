"""What an analysis of functions on e-classes finds each round of saturation that laws do not, and what it costs.

`python -m bench.ablation` prints this table. Movements are saturated in three ways: by laws alone; with the start's
canonical form joined at the end, as the planner does (`legalsat.extract.search.search.function_form`); and with every
class of lists of modes and of movements made canonical after each round, equal ones merged. Programs' classes are
worked out on numbers modulo a prime, which tells all that any analysis of functions could merge.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.search.programs import drawn, programs
from bench.search.random_problems import problem
from bench.speed_problems import tiles
from legalsat.analyses.sets.canonical import canonical
from legalsat.errors import LegalSatError
from legalsat.extract.composed.classes import Matrices, Node, matrices_of
from legalsat.extract.composed.recheck import PRIME, RANK, Matrix
from legalsat.extract.cost.cost import order
from legalsat.extract.search import planner, search
from legalsat.extract.search.facts import FACTS
from legalsat.operators import Move
from legalsat.operators.access import Access
from legalsat.operators.program import Program
from legalsat.rules.rewrites import LAWS
from legalsat.targets import target
from legalsat.tensor import plain
from legalsat.terms.accesses import Classes, Graph, links, term
from legalsat.units.means import ANY

PROBLEMS, SEED = 150, 5
LISTS = 4  # of one class that are made canonical, the shortest


@dataclass(slots=True)
class Joined:
    """What one way of saturating finds.

    Attributes:
        way: laws alone, the start at the end, or every class each round.
        starts, found: accesses before and after. merges: unions that functions made. rounds: of laws.
        milliseconds: of processor time, all starts together.
        cheaper, dearer: of plans, beside the planner's own way.
    """

    way: str
    starts: int = 0
    found: int = 0
    merges: int = 0
    rounds: int = 0
    milliseconds: float = 0.0
    cheaper: int = 0
    dearer: int = 0

    def __str__(self) -> str:
        return (
            f"{self.way:34} {self.starts:,} starts, {self.found:,} accesses, {self.merges:,} merges by functions, "
            f"{self.rounds:,} rounds, {self.milliseconds:,.0f} ms; plans: {self.cheaper} cheaper, {self.dearer} dearer"
        )


Between = Callable[[Graph, Sequence[Access], bool], int]


def nothing(graph: Graph, starts: Sequence[Access], last: bool) -> int:
    """Leave all to laws."""
    del graph, starts, last
    return 0


def start_at_the_end(graph: Graph, starts: Sequence[Access], last: bool) -> int:
    """Join each start's canonical form once laws find no more."""
    if not last:
        return 0
    found = [(start, search.function_form(start)) for start in starts]
    new = [(start, form) for start, form in found if form is not None and not graph.equal(start, form)]
    for start, form in new:
        graph.union(start, form)
    return len(new)


def every_class(graph: Graph, starts: Sequence[Access], last: bool) -> int:
    """Join classes of lists and of movements whose canonical forms are equal, and these forms themselves."""
    del starts, last
    held, merges = graph.read(), 0
    lists = search._Lists(held)
    known: dict[object, str] = {}
    for text, form, there in _classes(held, lists):
        if form is None:
            continue
        other = known.setdefault(form, text)
        if other != text and not graph.holds(f"(= {other} {text})"):
            graph.run(f"(union {other} {text})")
            merges += 1
        if not graph.holds(f"(= {there} {text})"):
            graph.run(f"(union {there} {text})")
            merges += 1
    return merges


def _classes(held: Classes, lists: search._Lists) -> Iterator[tuple[str, object, str]]:
    """Yield a term of each class, its canonical form (None where tiles would change), and the term of that."""
    for eclass in held.links:
        for modes in lists.of(eclass)[:LISTS]:
            if modes:
                form = _form(Access(1, modes))
                yield links(modes), form and ("list", form), links(form.modes) if form else ""
    seen = set()
    for some in held.moves.values():
        for means, word, eclass in some:
            for chain in lists.of(eclass)[:LISTS]:
                one = Access(word, chain, means)
                if means == ANY and chain and one not in seen:
                    seen.add(one)
                    form = search.function_form(one) or search.canonical(one)
                    yield term(one), form, term(form)


def _form(access: Access) -> Access | None:
    """Return a list of modes in the canonical one, None where its tiles hold another number of words."""
    try:
        found = canonical(access)
    except LegalSatError:
        return None
    return found if found.word == 1 and search._tile(found) == search._tile(access) else None


def saturated(starts: Sequence[Access], between: Between, tally: Joined) -> list[list[search.Found]]:
    """Return what laws make of starts, as `legalsat.extract.search.search.candidates`, functions joined in between."""
    begun = time.process_time()
    laws = LAWS
    if max((len(start.modes) for start in starts), default=0) > search.MOST_REORDERED:
        laws = tuple(law for law in laws if not law.reorders)
    with Graph(laws, FACTS) as graph:
        for number, start in enumerate(starts):
            graph.add(number, start)
        for _ in range(2 * search.MAX_ITERATIONS):
            changed = graph.size <= search.MAX_NODES and graph.step()
            tally.rounds += 1
            merged = between(graph, starts, not changed)
            tally.merges += merged
            if not changed and not merged:
                break
        graph.learn()
        held = graph.read()
    lists = search._Lists(held)
    found = [search._of_root(held, lists, number) for number in range(len(starts))]
    tally.milliseconds += 1e3 * (time.process_time() - begun)
    tally.starts += len(starts)
    tally.found += sum(map(len, found))
    return found


@contextmanager
def planned_by(between: Between, tally: Joined) -> Iterator[None]:
    """Have the planner saturate in another way."""
    own = search.candidates
    search.candidates = lambda starts, laws=LAWS: saturated(starts, between, tally) if laws else own(starts, laws)
    try:
        yield
    finally:
        search.candidates = own


def movements(count: int = PROBLEMS, seed: int = SEED) -> list[tuple[Move, str]]:
    """Return the tiles of `bench.speed`, and random movements with and without tiles."""
    r = random.Random(seed)
    own = [(one.operator, "h200") for one in tiles()]
    return own + [(one.operator, one.target) for one in (problem(r) for _ in range(count))]


def compared(count: int = PROBLEMS) -> list[Joined]:
    """Plan movements in the three ways."""
    asked, ways = movements(count), []
    costs: dict[str, list[tuple[float, ...] | None]] = {}
    for name, between in (
        ("laws and the start at the end", start_at_the_end),
        ("laws alone", nothing),
        ("laws and every class each round", every_class),
    ):
        ways.append(tally := Joined(name))
        with planned_by(between, tally):
            costs[name] = [_cost(*one) for one in asked]
        for mine, own in zip(costs[name], costs[ways[0].way], strict=True):
            tally.cheaper += mine is not None and (own is None or mine < own)
            tally.dearer += own is not None and (mine is None or mine > own)
    return ways


def _cost(operator: Move, gpu: str) -> tuple[float, ...] | None:
    try:
        return order(planner.plan(operator, target(gpu), planner.Limits(means=planner.EVERY_MEANS[:-1])).cost)
    except LegalSatError:
        return None


@dataclass(frozen=True, slots=True)
class Values:
    """Classes of programs: how many there are, and pairs that hold the same matrix whatever the inputs hold."""

    programs: int
    classes: int
    equal: int
    milliseconds: float

    def __str__(self) -> str:
        return (
            f"{self.programs} programs: {self.classes:,} classes of matrices, {self.equal} pairs of them equal as "
            f"functions of the inputs; to work that out takes {self.milliseconds:,.0f} ms"
        )


def compared_values(count: int = 60, seed: int = SEED) -> Values:
    """Work out the classes of programs on numbers."""
    r = random.Random(seed)
    asked = [*programs().values(), *(drawn(r) for _ in range(count))]
    classes = equal = 0
    spent = 0.0
    for program in asked:
        matrices = matrices_of(program)
        begun = time.process_time()
        prints = fingerprints(program, matrices)
        spent += time.process_time() - begun
        classes += len(prints)
        equal += len(prints) - len(set(prints))
    return Values(len(asked), classes, equal, round(1e3 * spent, 1))


def fingerprints(program: Program, matrices: Matrices) -> list[bytes]:
    """Return for each class its matrix times a vector, on random inputs modulo a prime; shape and type in front."""
    numbers = np.random.default_rng(0)
    inputs = {
        one.name: Matrix(*(numbers.integers(0, PRIME, (extent, RANK)) for extent in plain(one.tensor.shape)))
        for one in program.inputs
    }
    found: dict[int, Matrix] = {}
    while len(found) < len(matrices.nodes):
        before = len(found)
        for number, nodes in enumerate(matrices.nodes):
            ready = next((n for n in nodes if number not in found and all(o in found for o in n.operands)), None)
            if ready is not None:
                found[number] = _value(ready, [found[o] for o in ready.operands], inputs, matrices.shapes[number])
        assert len(found) > before, "every class has a node whose operands are made without it"
    vectors: dict[int, Any] = {}
    prints = []
    for number, one in sorted(found.items()):
        width = len(one.right)
        vector = vectors.setdefault(width, numbers.integers(0, PRIME, (width, 1)))
        value = one.left @ (one.right.T @ vector % PRIME) % PRIME
        prints.append(f"{matrices.shapes[number]} {matrices.types[number]} ".encode() + value.tobytes())
    return prints


def _value(node: Node, operands: list[Matrix], inputs: dict[str, Matrix], shape: tuple[int, int]) -> Matrix:
    name, numbers = node.operator, node.numbers
    if name == "source":
        return inputs[node.name]
    if name == "product":
        return operands[0].product(operands[1])
    if name == "transpose":
        return operands[0].transposed
    if name == "slice":
        axis, first, count, _ = numbers
        return operands[0].part(axis, first, count)
    if name == "pad":
        axis, before, *_ = numbers
        return operands[0].within(shape, *((before, 0) if axis == 0 else (0, before)))
    axis, first, _ = numbers
    second = operands[1].within(shape, *((first, 0) if axis == 0 else (0, first)))
    return operands[0].within(shape, 0, 0).plus(second)
