"""From an operator to a plan: tiles, candidates, solved fields, the cheapest; or a refusal with its reasons."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from legalsat.diagnostics import Diagnostic
from legalsat.errors import LegalSatError, SolverGaveUp
from legalsat.extract.check.recheck import CHOSEN_TILE, RELAID, recheck
from legalsat.extract.cost.cost import dominates, in_a_row, order
from legalsat.extract.kernels.movement_pipeline import granules_pipeline, movement_pipeline
from legalsat.extract.moved.tile_operand import row_axes, tile_operand
from legalsat.extract.search import search
from legalsat.extract.search.columns import column_of, suits, window_of
from legalsat.extract.search.delivery import Delivered, Question, solver_of
from legalsat.extract.search.facts import barred
from legalsat.extract.search.schedule import granules_launch, launch
from legalsat.extract.search.tiles import proposals, window_proposals
from legalsat.extract.search.views import map_type
from legalsat.extract.solve.fields import Conflict
from legalsat.law import Law
from legalsat.operators import MATRIX_CONSUMERS, Copy, Move, access_of, padded
from legalsat.operators.access import Access
from legalsat.plans.movement_plan import Candidate, MovementCost, MovementPlan, Step
from legalsat.rules.rewrites.words import recast_to_wider_words
from legalsat.rules.windows import COLUMNS
from legalsat.targets import Target
from legalsat.tensor import Tensor
from legalsat.units.means import ANY, MEANS

TOP = 4
MOST_SOLVED = 12  # candidates solved after the cheapest is known, for those that trade time for something else
ONE_AT_A_TIME = threading.RLock()  # z3, isl and egglog keep one context each, and none is safe for threads
BYTE = 8
COMMON_WORDS = (8, 16, 32)  # Triton's copies take no 64-bit words (FACTS, triton_tensor_descriptor), and none smaller
RELAYOUT = "relayout"
EVERY_MEANS = (*MEANS, RELAYOUT)
# Those that are considered where none are named. What brings no tiles lies in front of products: one backend prints it.
USUAL_MEANS = (*(one.name for one in MEANS.values() if one.tiled), RELAYOUT)
BOXES = ("tma",)


class NoLegalLayout(LegalSatError):
    """No plan satisfies the rules. `diagnostics` say why, the nearest candidate's; `explain` adds repairs.

    `title` is the message without them.
    """

    def __init__(self, message: str, diagnostics: tuple[Diagnostic, ...]) -> None:
        super().__init__("\n".join((message, *map(str, diagnostics))))
        self.title, self.diagnostics = message, diagnostics


@dataclass(frozen=True, slots=True)
class _Start:
    """A tiled access and the steps that led to it."""

    access: Access
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class _Candidate:
    """What could be solved: a question, the start that it equals, and a cost that no solution is below."""

    question: Question
    start: _Start
    bound: MovementCost


@dataclass(frozen=True)
class _Solved:
    """A candidate with its fields."""

    start: _Start
    fields: Delivered


@dataclass(frozen=True, slots=True)
class Limits:
    """What a search may use.

    Attributes:
        means: the means of delivery to consider.
        laws: the laws of rewriting; the operator's own when left out.
        rewrite: whether laws may change modes; without, axes are taken just as they are.
        deadline: `time.monotonic()` at which to stop, None for none: then only work is limited, and the answer is
            the same on every machine.
        prune: whether candidates that facts bar are passed over.
    """

    means: tuple[str, ...] = USUAL_MEANS
    laws: tuple[Law, ...] | None = None
    rewrite: bool = True
    deadline: float | None = None
    prune: bool = True


AS_IT_IS = Limits(means=BOXES, rewrite=False)  # boxes of the axes just as they are


def plan(operator: Move, target: Target, limits: Limits = Limits()) -> MovementPlan:
    """Return the cheapest plan for `operator` on `target`.

    Raises:
        NoLegalLayout: no candidate satisfies the rules.
        SolverGaveUp: no candidate was solved, and on one of them the solver ran out of time.
        SearchGaveUp: no solved candidate's derivation was found again within its budget.
    """
    with ONE_AT_A_TIME:
        try:
            direct, refusal = _plan(operator, target, limits), None
        except (NoLegalLayout, SolverGaveUp) as error:
            direct, refusal = None, error
        relaid = _relaid(operator, target, limits, direct)
        if relaid is None and refusal is not None:
            raise refusal
    found = relaid or direct
    assert found is not None
    return found


def _relaid(operator: Move, target: Target, limits: Limits, direct: MovementPlan | None) -> MovementPlan | None:
    """Return the cheapest plan that first copies the source to where boxes reach it, if it is cheaper than `direct`."""
    if RELAYOUT not in limits.means or operator.reader is None or operator.sweeps:
        return None
    if direct is not None and direct.access.by in BOXES:
        return None
    best = None
    for scratch in dict.fromkeys(
        (padded(operator.source), padded(Tensor(operator.source.shape, operator.source.dtype)))
    ):
        found = _through(operator, scratch, target, limits, best or direct) if scratch != operator.source else None
        if found is not None and (best is None or order(found.cost) < order(best.cost)):
            best = found
    if best is None or (direct is not None and order(direct.cost) <= order(best.cost)):
        return None
    others = direct.candidates if direct is not None else ()
    best = replace(best, candidates=(*best.candidates, *others)[:TOP])
    recheck(best)
    return best


def _through(
    operator: Move, scratch: Tensor, target: Target, limits: Limits, other: MovementPlan | None
) -> MovementPlan | None:
    """Return the plan that copies the source to `scratch` first and delivers that by boxes.

    None if that is illegal, or if the copy alone takes as long as the `other` plan.
    """
    try:
        relayout = Copy(operator.source, scratch)
        usual = limits == Limits(means=limits.means)  # then many operands share it
        first = cached_plan(relayout, target, limits.means) if usual else _plan(relayout, target, limits)
        if other is not None and not operator.constant and first.cost.nanoseconds >= other.cost.nanoseconds:
            return None
        then = _plan(operator.but(source=scratch), target, replace(limits, means=BOXES))
    except LegalSatError:
        return None
    cost = in_a_row(first.cost, then.cost, -(-scratch.span_bits // 8), constant=operator.constant)
    derivation = (Step(RELAID, access_of(then.operator, operator.tile)), *then.derivation)
    own = Candidate(then.access, derivation, cost, then.store)
    return replace(then, operator=operator, derivation=derivation, before=(first,), cost=cost, candidates=(own,))


def _plan(operator: Move, target: Target, limits: Limits) -> MovementPlan:
    if limits.deadline is not None and time.monotonic() >= limits.deadline:
        raise SolverGaveUp("time was up before the search began; give it more seconds")
    search_ = _Search(limits)
    # Merged axes may exceed an extent's limit where the axes as they are do not.
    attempts = (True, False) if limits.rewrite and operator.tile is None else (limits.rewrite,)
    for rewrite in attempts:
        if not search_.front:
            search_.run(_candidates(operator, target, limits, rewrite=rewrite))
    if not search_.front:
        if not search_.conflicts and search_.late is None:  # all were barred, so one is asked for its reasons
            search_.run(_candidates(operator, target, replace(limits, prune=False, rewrite=False), rewrite=False)[:1])
        raise search_.late or _refusal(operator, target, search_.conflicts)
    found = _finished(operator, target, _derived(search_.best_first(), _laws(operator, limits)))
    recheck(found)
    return found


def _unread(question: Question, found: Delivered) -> tuple[Diagnostic, ...]:
    """Return what the rules say of a tile that no descriptor reads as it arrives, which rows of several axes may be."""
    rows = len(row_axes(question.operator))
    if rows < 2 or not found.shared or question.operator.consumer not in MATRIX_CONSUMERS:
        return ()
    tm = found.tensor_maps[0] if found.tensor_maps else None
    read = tile_operand(question.operator, found.access, found.views[0], tm, found.shared[0])
    return question.judged(scattered=rows) if read is None else ()


class _Search:
    """Solves candidates, most promising first, until nothing that is left could be better than what was found."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.front: list[_Solved] = []  # none of them is dominated
        self.conflicts: list[Conflict] = []
        self.late: SolverGaveUp | None = None

    def run(self, candidates: Iterable[_Candidate]) -> None:
        beyond = 0
        for candidate in sorted(candidates, key=lambda c: order(c.bound)):
            if self._limits.deadline is not None and time.monotonic() > self._limits.deadline:
                self.late = SolverGaveUp("time was up before any candidate was solved; give it more seconds")
                return
            if self.front:
                if order(candidate.bound) >= min(order(one.fields.cost) for one in self.front):
                    beyond += 1
                    if beyond > MOST_SOLVED or len(self.front) >= TOP:
                        return
                if any(dominates(one.fields.cost, candidate.bound) for one in self.front):
                    continue
            self._solve(candidate)

    def _solve(self, candidate: _Candidate) -> None:
        try:
            outcome = solver_of(candidate.question.access.by).solve(candidate.question)
        except SolverGaveUp as error:
            self.late = error
            return
        if isinstance(outcome, Conflict):
            self.conflicts.append(outcome)
            return
        if broken := _unread(candidate.question, outcome):
            self.conflicts.append(Conflict(broken))
            return
        cost = outcome.cost
        if any(dominates(one.fields.cost, cost) or order(one.fields.cost) == order(cost) for one in self.front):
            return
        self.front = [one for one in self.front if not dominates(cost, one.fields.cost)]
        self.front.append(_Solved(candidate.start, outcome))

    def best_first(self) -> list[_Solved]:
        return sorted(self.front, key=lambda one: (order(one.fields.cost), len(one.fields.access.modes)))


def _candidates(operator: Move, target: Target, limits: Limits, *, rewrite: bool) -> list[_Candidate]:
    means = tuple(m for m in limits.means if m != RELAYOUT and (suits(m, operator) or not limits.prune))
    laws = tuple(law for law in _laws(operator, limits) if _allowed(law, means))
    if limits.rewrite:
        reached = {equation.means[1] for law in laws for equation in law.equations if equation.means}
        means = tuple(m for m in means if m in reached)
    tiled = tuple(m for m in means if MEANS[m].tiled)
    laws = tuple(law for law in laws if _allowed(law, tiled))
    if operator.fills or not tiled:
        starts, found = [], []
    elif rewrite:
        starts = _starts(operator, rewrite=True)
        found = search.candidates([start.access for start in starts], laws)
    else:
        starts = _starts(operator, rewrite=False)
        found = [[search.Found(replace(s.access, by=m), {}) for m in tiled] for s in starts]
    for start, access in _as_it_is(operator, means):
        starts.append(start)
        found.append([search.Found(access, {})])
    candidates = []
    for start, accesses in zip(starts, found, strict=True):
        for one in accesses:
            access = one.access
            if access.by == ANY or not _movable(access, operator):
                continue
            if limits.prune and one.facts and barred(access.by, one.facts):
                continue
            if limits.deadline is not None and time.monotonic() > limits.deadline:
                raise SolverGaveUp("time was up before any candidate was solved; give it more seconds")
            question = Question(operator, access, target, limits.deadline)
            sights = len(question.sights) if limits.rewrite else 1  # each side in its own rows merges modes too
            for asked in (question, *(replace(question, seen=number) for number in range(1, sights))):
                candidates.append(_Candidate(asked, start, solver_of(access.by).bound(asked)))
    return candidates


def _laws(operator: Move, limits: Limits) -> tuple[Law, ...]:
    return operator.laws() if limits.laws is None else limits.laws


def _as_it_is(operator: Move, means: Iterable[str]) -> Iterator[tuple[_Start, Access]]:
    """Yield tiles by the means that take the operator's modes as they are, and the starts that they equal.

    Those are columns of windows; what knows no tile but its own; and every means where something is filled in.
    """
    whole = access_of(operator, operator.tile)
    for name in means:
        if not MEANS[name].tiled:
            yield _Start(whole, ()), replace(whole, by=name)
    tiled = [name for name in means if MEANS[name].tiled]
    if not tiled or (not operator.fills and not operator.sweeps):
        return
    if operator.tile is not None:
        starts = [_Start(access_of(operator, operator.tile), ())]
    else:
        tiles = window_proposals(operator) if operator.sweeps else proposals(access_of(operator))
        starts = [_Start(tiled, (Step(CHOSEN_TILE, tiled),)) for tiled in tiles]
    for start in starts:
        for name in tiled if operator.fills else (COLUMNS,) if COLUMNS in tiled else ():
            access = replace(start.access, by=name)
            if name != COLUMNS or not operator.sweeps or column_of(operator, access) is not None:
                yield start, access


def _allowed(law: Law, means: tuple[str, ...]) -> bool:
    return all(equation.means is None or equation.means[1] in means for equation in law.equations)


def _starts(operator: Move, *, rewrite: bool) -> list[_Start]:
    """Return the access with each tile worth trying, and the steps that led to it."""
    if operator.tile is not None:
        return [_Start(access_of(operator, operator.tile), ())]
    whole = access_of(operator)
    steps: tuple[Step, ...] = ()
    if rewrite:
        whole, steps = search.coalesced(whole)
        for recast in recast_to_wider_words.steps(whole) if whole.word < BYTE else ():
            whole, steps = recast, (*steps, Step(recast_to_wider_words.name, recast))
            break  # packed elements first become bytes, so that tiles are powers of two in bytes
    return [_Start(tiled, (*steps, Step(CHOSEN_TILE, tiled))) for tiled in proposals(whole)]


def _movable(access: Access, operator: Move) -> bool:
    """Whether every backend moves such words; the tensor's own always pass, to say what forbids them."""
    element = operator.source.dtype.bits
    common = access.word in COMMON_WORDS and (access.word <= element or access.word == BYTE)
    return bool(access.modes) and (
        common or (access.word == element and map_type(access.word, operator.source.dtype) is not None)
    )


def _derived(solved: list[_Solved], laws: tuple[Law, ...]) -> list[tuple[_Solved, tuple[Step, ...]]]:
    """Return the best few with their derivations; a candidate whose derivation is not found again is passed over."""
    found: list[tuple[_Solved, tuple[Step, ...]]] = []
    late: search.SearchGaveUp | None = None
    for one in solved:
        try:
            found.append((one, one.start.steps + search.derivation(one.start.access, one.fields.access, laws)))
        except search.SearchGaveUp as error:
            late = error
        if len(found) == TOP:
            break
    if late is not None and not found:
        raise late
    return found


def _finished(operator: Move, target: Target, best: list[tuple[_Solved, tuple[Step, ...]]]) -> MovementPlan:
    winner, derivation = best[0][0].fields, best[0][1]
    window = window_of(operator, winner.access)
    if winner.granules is not None:
        how = granules_launch(winner.granules)
        program = granules_pipeline(winner.granules.kernel)
    else:
        how = launch(winner.access, winner.views, winner.store, winner.stages, target)
        program = movement_pipeline(
            winner.access,
            winner.views,
            winner.shared,
            winner.copies,
            winner.phases,
            store=winner.store,
            launch=how,
        )
    return MovementPlan(
        operator=operator,
        target=target,
        access=winner.access,
        derivation=derivation,
        views=winner.views,
        tensor_maps=winner.tensor_maps,
        store=winner.store,
        shared=winner.shared,
        pipeline=program,
        launch=how,
        cost=winner.cost,
        candidates=tuple(Candidate(one.fields.access, steps, one.fields.cost, one.fields.store) for one, steps in best),
        copies=winner.copies,
        phases=winner.phases,
        granules=winner.granules,
        window=window,
    )


def _refusal(operator: Move, target: Target, conflicts: list[Conflict]) -> NoLegalLayout:
    found = [c.diagnostics for c in conflicts if c.diagnostics]
    if not found:
        access = access_of(operator, operator.tile)
        found = [Question(operator, replace(access, by=BOXES[0]), target).judged()]
    nearest = min(found, key=len)
    return NoLegalLayout(f"no legal {operator} on {target}", nearest)


@lru_cache(maxsize=1024)
def cached_plan(operator: Move, target: Target, means: tuple[str, ...] = USUAL_MEANS) -> MovementPlan:
    """Return `plan(operator, target)` with every law and no deadline, remembered."""
    return plan(operator, target, Limits(means=means))
