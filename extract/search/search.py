"""Candidates: what the laws make of an access, found in an e-graph; and how each came about."""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from legalsat.analyses.sets import canonical as functions
from legalsat.errors import LegalSatError
from legalsat.extract.search.facts import FACTS
from legalsat.law import Law
from legalsat.operators.access import Access, Mode
from legalsat.plans.movement_plan import Step
from legalsat.rules.rewrites import LAWS
from legalsat.rules.rewrites.modes import drop_unit_mode, merge_adjacent_modes
from legalsat.terms.accesses import Classes, Graph

# Budgets count work and not time, so that the same question has the same answer on a busy machine.
MAX_NODES = 5000
MAX_ITERATIONS = 12
MAX_LISTS = 256  # lists of modes kept of one class
MAX_STATES = 5000  # of a derivation, of up to 7 modes each; fewer where there are more modes
# Beyond this many modes the orders alone fill the graph, and a tensor map has room for five.
MOST_REORDERED = 7

Modes: TypeAlias = tuple[Mode, ...]
Facts: TypeAlias = Mapping[str, int]


# The name of a step that no law makes: two accesses are shown equal as functions (`legalsat.analyses.sets.canonical`).
EQUAL_AS_FUNCTIONS = "equal_as_functions"


class SearchGaveUp(LegalSatError):
    """A derivation was not found within its budget; the message says for which access. Simplify the tensor."""


@dataclass(frozen=True, slots=True)
class Found:
    """An access that equals the start, and what the e-graph knows of its modes (`legalsat.extract.search.facts`)."""

    access: Access
    facts: Facts


def canonical(access: Access) -> Access:
    """Return the access with its modes in the one order that stands for all orders, fastest in the source first."""
    return Access(access.word, tuple(sorted(access.modes, key=_fastest_first)), access.by)


def function_form(access: Access) -> Access | None:
    """Return the access in the modes that its function alone gives, None if these are no other or cannot be found.

    Laws rewrite modes next to each other; some movements are equal although no law leads from one to the other, those
    of which words of both sides lie on one another. Of others laws find the form too, and forms of every class after
    each round show nothing more (`bench.search.functions`). The tile must keep its volume, since whoever reads it
    counts on what overhangs.
    """
    try:
        found = _in_words_of(functions.canonical(access), access)
        if found is None or found == canonical(access) or _tile(found) != _tile(access):
            return None
        return found if functions.same_movement(access, found) else None
    except LegalSatError:
        return None  # too hard for isl within its limit, so the laws are left alone with it


def _in_words_of(found: Access, access: Access) -> Access | None:
    """Return `found` in the narrower words of `access`."""
    if found.word % access.word:
        return None
    count, word = found.word // access.word, access.word
    modes = list(found.modes)
    at = next((i for i, m in enumerate(modes) if m.source == m.target == found.word), None)
    if count > 1 and at is None:
        modes.append(Mode(count, word, word, count))
    elif at is not None:
        modes[at] = Mode(modes[at].extent * count, word, word, modes[at].tile * count)
    return canonical(Access(word, tuple(modes), access.by))


def _tile(access: Access) -> int:
    return math.prod(mode.tile for mode in access.modes) * access.word


def _fastest_first(mode: Mode) -> tuple[bool, Mode]:
    return mode.source == 0, Mode(mode.source, mode.target, mode.extent, mode.tile)


def candidates(starts: Sequence[Access], laws: tuple[Law, ...] = LAWS) -> list[list[Found]]:
    """Return for each start every access that the laws make of it, each in canonical order, without duplicates.

    Saturation stops at 5,000 nodes; past that, and past 256 lists of modes of one class, some are missing.
    """
    widest = max((len(start.modes) for start in starts), default=0)
    if widest > MOST_REORDERED:
        laws = tuple(law for law in laws if not law.reorders)
    with Graph(laws, FACTS) as graph:
        for number, start in enumerate(starts):
            graph.add(number, start)
        _saturate(graph)
        merged = False
        for start in starts:
            found = function_form(start)
            if found is not None and not graph.equal(start, found):
                graph.union(start, found)
                merged = True
        if merged:
            _saturate(graph)
        graph.learn()
        held = graph.read()
    lists = _Lists(held)
    return [_of_root(held, lists, number) for number in range(len(starts))]


def _saturate(graph: Graph) -> None:
    for _ in range(MAX_ITERATIONS):
        if graph.size > MAX_NODES or not graph.step():
            break


def _of_root(held: Classes, lists: _Lists, number: int) -> list[Found]:
    found: dict[Access, Found] = {}
    for means, word, modes in held.moves[held.roots[number]]:
        facts = {name: values[modes] for name, values in held.facts.items() if modes in values}
        for chain in lists.of(modes):
            access = canonical(Access(word, chain, means))
            found.setdefault(access, Found(access, facts))
    return sorted(found.values(), key=lambda f: (f.access.by, f.access.word, len(f.access.modes), f.access.modes))


class _Lists:
    """The lists of modes that each class stands for, as multisets: the graph holds every order, and modes commute."""

    def __init__(self, held: Classes) -> None:
        self._links = held.links
        self._found: dict[str, list[Modes]] = {}

    def of(self, eclass: str) -> list[Modes]:
        if eclass in self._found:
            return self._found[eclass]
        self._found[eclass] = []  # a class within itself adds unit modes only, which say nothing
        found: dict[Modes, None] = {}
        for link in sorted(self._links[eclass], key=str):
            if link is None:
                found[()] = None
                continue
            mode, rest = link
            for tail in self.of(rest):
                found[_without_units((mode, *tail))] = None
        if list(found) == [()]:  # a scalar stays a tensor, of the unit modes that say so
            found |= dict.fromkeys((link[0],) for link in self._links[eclass] if link is not None)
        kept = sorted(found, key=lambda modes: (len(modes), modes))[:MAX_LISTS]
        self._found[eclass] = kept
        return kept


def _without_units(modes: Modes) -> Modes:
    """Return the modes without those of one element and a tile of one; the last stays, so that a scalar is a tensor."""
    said = [mode for mode in modes if not mode.extent == mode.tile == 1]
    return tuple(sorted(said)) or modes[-1:]


def coalesced(start: Access) -> tuple[Access, tuple[Step, ...]]:
    """Return the access with unit modes dropped and whole neighbours merged, and the steps to it."""
    steps: list[Step] = []
    access = start
    while len(access.modes) > 1:
        found = next(
            ((law.name, after) for law in (drop_unit_mode, merge_adjacent_modes) for after in law.steps(access)), None
        )
        if found is None:
            break
        access = found[1]
        steps.append(Step(*found))
    return access, tuple(steps)


def derivation(start: Access, goal: Access, laws: Iterable[Law] = LAWS) -> tuple[Step, ...]:
    """Return few law applications that lead from `start` to `goal`, with the reorderings that they need.

    egglog gives no proofs, so the path is found again on plain values, with the same laws: from both ends, since laws
    are equations and may be read from right to left. Orders of modes do not count as different on the way.

    Raises:
        SearchGaveUp: no path within 5,000 states.
    """
    laws = tuple(laws)
    # Laws of modes hold by any means, so the choice of means can wait until the modes are there.
    chosen = next((law for law in laws if any(e.means == (start.by, goal.by) for e in law.equations)), None)
    if chosen is not None:
        there = replace(goal, by=start.by)
        laws = tuple(law for law in laws if all(e.means is None for e in law.equations))
        return (*derivation(start, there, laws), Step(chosen.name, goal))
    try:
        return _derivation(start, goal, laws, None)
    except SearchGaveUp:
        equal = function_form(start)
        if equal is None:
            raise
        return _derivation(start, goal, laws, equal)


def _derivation(start: Access, goal: Access, laws: tuple[Law, ...], equal: Access | None) -> tuple[Step, ...]:
    ends = _Reach(start, laws, equal), _Reach(goal, laws)
    if max(len(start.modes), len(goal.modes)) > MOST_REORDERED:
        for end in ends:
            end.descend(goal)
    while not (met := ends[0].paths.keys() & ends[1].paths.keys()):
        for end in sorted(ends, key=lambda e: len(e.paths)):
            if end.grow():
                break
        else:
            raise SearchGaveUp(f"no derivation of {goal} from {start}, though they are equal; merge axes before asking")
        if sum(end.size for end in ends) > MAX_STATES:
            raise SearchGaveUp(f"no derivation of {goal} within {MAX_STATES} states; merge axes before asking")
    middle = min(met, key=lambda m: (len(ends[0].way(m)) + len(ends[1].way(m)), str(m)))
    listed = _Listing(start, next((law.name for law in laws if law.reorders), None))
    for law, before, after in ends[0].way(middle):
        listed.apply(law, before, after)
    for law, before, after in reversed(ends[1].way(middle)):
        listed.apply(law, after, before)
    listed.reorder(goal)
    return tuple(listed.steps)


class _Reach:
    """What the laws make of an access, breadth first, and how: where a state came from, by which law, before, after."""

    def __init__(self, start: Access, laws: tuple[Law, ...], equal: Access | None = None) -> None:
        first = canonical(start)
        self._laws = tuple(law for law in laws if not law.reorders)
        self._queue = deque([first])
        self.paths: dict[Access, tuple[Access, str, Access, Access] | None] = {first: None}
        self.size = 1.0  # states, those of many modes counted as often as they take longer
        if equal is not None:
            self.paths[equal] = (first, EQUAL_AS_FUNCTIONS, first, equal)
            self._queue.append(equal)

    def grow(self) -> bool:
        """Apply every law to the next state; return whether there was one."""
        if not self._queue:
            return False
        access = self._queue.popleft()
        for law in self._laws:
            for before, after in law.unordered_steps(access):
                self._add(access, law, before, after)
        return True

    def _add(self, access: Access, law: Law, before: Access, after: Access) -> Access:
        if (state := canonical(after)) not in self.paths:
            self.paths[state] = (access, law.name, before, after)
            self._queue.append(state)
            self.size += max(1.0, len(state.modes) / MOST_REORDERED) ** 2
        return state

    def descend(self, goal: Access) -> None:
        """Follow steps that make modes fewer and plainer until there are none: the way of many modes, few of them new.

        Where steps do not hinder each other both ends come down to the same modes, and breadth first is far too wide.
        """
        access = self._queue[-1]
        while True:
            steps = itertools.chain(
                ((law, access, after) for law in self._laws for after in law.steps(access)),
                ((law, *step) for law in self._laws for step in law.unordered_steps(access)),
            )
            plainer = (step for step in steps if _plainness(step[2], goal) < _plainness(access, goal))
            if (found := next(plainer, None)) is None:
                return
            access = self._add(access, *found)

    def way(self, state: Access) -> list[tuple[str, Access, Access]]:
        """Return the steps from the start to a state: law, before and after, in the orders of modes that it needs."""
        steps = []
        while (came := self.paths[state]) is not None:
            state, law, before, after = came
            steps.append((law, before, after))
        return steps[::-1]


def _plainness(access: Access, goal: Access) -> tuple[bool, bool, int, int]:
    strided = sum(mode.extent == 1 and (mode.source, mode.target) != (0, 0) for mode in access.modes)
    return access.by != goal.by, access.word != goal.word, len(access.modes) or MAX_STATES, strided


class _Listing:
    """Writes steps between states down as steps between lists of modes, reordering where one needs it."""

    def __init__(self, start: Access, reorder: str | None) -> None:
        self._at, self._reorder = start, reorder
        self.steps: list[Step] = []

    def apply(self, law: str, before: Access, after: Access) -> None:
        self.reorder(before)
        self.steps.append(Step(law, after))
        self._at = after

    def reorder(self, wanted: Access) -> None:
        if self._at == wanted:
            return
        if self._reorder is None:
            raise SearchGaveUp(f"{wanted} lists its modes in another order, and no law reorders them")
        if self.steps and self.steps[-1].law == self._reorder:
            self.steps.pop()
        self.steps.append(Step(self._reorder, wanted))
        self._at = wanted
