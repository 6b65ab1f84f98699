"""From an operator to a plan: tiles, candidates, solved fields, the cheapest; or a refusal with its reasons."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from legalsat.access import Access
from legalsat.diagnostics import Diagnostic
from legalsat.errors import LegalSatError
from legalsat.extract import search
from legalsat.extract.cost import cost_of
from legalsat.extract.fields import MAX_STAGES, Conflict, Solution, SolverGaveUp, solve
from legalsat.extract.recheck import recheck
from legalsat.extract.schedule import block_bytes, buffers, launch, pipeline
from legalsat.extract.tiles import proposals
from legalsat.extract.views import map_type, storable, turned, view_of
from legalsat.operators import Operator, access_of
from legalsat.plan import Candidate, Cost, Plan, Step, View
from legalsat.rules import MOVEMENT_RULES
from legalsat.rules.rewrites.words import recast_to_wider_words
from legalsat.sites import Movement
from legalsat.targets import Target

TOP = 4
BYTE = 8
# Who works on a stage while the next ones load. A movement has nothing to work on: one block a tile, several blocks on
# a processor, beat every persistent ring that was measured (bench/gpu/results, transpose of 16384 x 16384).
RING_CONSUMERS = ("wgmma.a", "wgmma.b")
COMMON_WORDS = (8, 16, 32)  # Triton's copies take no 64-bit words (FACTS, triton_tensor_descriptor), and none smaller
CHOSEN_TILE = "choose_tile"


class NoLegalLayout(LegalSatError):
    """No plan satisfies the rules. `diagnostics` say why, the nearest candidate's; `explain` adds repairs."""

    def __init__(self, message: str, diagnostics: tuple[Diagnostic, ...]) -> None:
        super().__init__("\n".join((message, *map(str, diagnostics))))
        self.diagnostics = diagnostics


@dataclass(frozen=True, slots=True)
class _Solved:
    """A candidate with its fields."""

    start: Access
    before: tuple[Step, ...]
    access: Access
    views: tuple[View, ...]
    solution: Solution
    cost: Cost

    @property
    def store(self) -> str:
        return "tma" if len(self.views) > 1 else "threads"


def plan(operator: Operator, target: Target, *, rewrite: bool = True) -> Plan:
    """Return the cheapest plan for `operator` on `target`; without `rewrite`, of the axes just as they are.

    Raises:
        NoLegalLayout: no candidate satisfies the rules.
        SolverGaveUp: no candidate was solved, and on one of them the solver ran out of time.
    """
    missing = _judge(Movement(BYTE, operator.consumer), target)
    if missing:
        raise NoLegalLayout(f"no legal {operator} on {target}", missing)
    solved: list[_Solved] = []
    conflicts: list[Conflict] = []
    late: SolverGaveUp | None = None
    # Merged axes may exceed an extent's limit where the axes as they are do not.
    for rewritten in (True, False) if rewrite and operator.tile is None else (rewrite,):
        for start, before, access in _attempts(operator, rewrite=rewritten) if not solved else ():
            try:
                outcome = _solution(operator, start, before, access, target)
            except SolverGaveUp as error:
                late = error
                continue
            if isinstance(outcome, _Solved):
                solved.append(outcome)
            else:
                conflicts.append(outcome)
    if not solved:
        raise late or _refusal(operator, target, conflicts)
    solved.sort(key=lambda s: (s.cost.nanoseconds, s.cost.boxes, s.cost.overhang_bytes, s.cost.shared_bytes))
    best = _distinct(solved)[:TOP]
    found = _finished(operator, target, best)
    recheck(found)
    return found


def _attempts(operator: Operator, *, rewrite: bool) -> Iterator[tuple[Access, tuple[Step, ...], Access]]:
    """Yield what to solve: the tiled access, the steps that led to it, and an equal access."""
    for start, before in _starts(operator, rewrite=rewrite):
        for access in _movable(search.candidates(start) if rewrite else [start], operator):
            yield start, before, access


def _starts(operator: Operator, *, rewrite: bool) -> Iterator[tuple[Access, tuple[Step, ...]]]:
    """Yield the access with each tile worth trying, and the steps that led to it."""
    if operator.tile is not None:
        yield access_of(operator, operator.tile), ()
        return
    whole = access_of(operator)
    steps: tuple[Step, ...] = ()
    if rewrite:
        whole, steps = search.coalesced(whole)
        for recast in recast_to_wider_words.steps(whole) if whole.word < BYTE else ():
            whole, steps = recast, (*steps, Step(recast_to_wider_words.name, recast))
            break  # packed elements first become bytes, so that tiles are powers of two in bytes
    for tiled in proposals(whole):
        yield tiled, (*steps, Step(CHOSEN_TILE, tiled))


def _movable(accesses: list[Access], operator: Operator) -> list[Access]:
    """Keep words that every backend moves; if there are none, whatever has a data type, to say what forbids it.

    Words wider than the element gain nothing that a second dimension does not, and arrays can rarely be viewed so.
    """
    element = operator.source.dtype.bits
    common = [a for a in accesses if a.word in COMMON_WORDS and a.modes and (a.word <= element or a.word == 8)]
    return common or [a for a in accesses if a.modes and map_type(a.word, operator.source.dtype)]


def _solution(
    operator: Operator, start: Access, before: tuple[Step, ...], access: Access, target: Target
) -> _Solved | Conflict:
    """Return the candidate solved with a store by the copy engine, or failing that by threads; or why neither works."""
    element = operator.source.dtype
    load, store = view_of(access, "source"), view_of(access, "target")
    align = (operator.source.align, operator.target.align)
    turns = turned(load, store)
    threads = turns or operator.consumer is not None
    stages = MAX_STAGES if operator.consumer in RING_CONSUMERS else 1
    views: tuple[View, ...] = (load, store)
    outcome = solve(access, views, element, align, target, threads_read=threads, turned=turns, max_stages=stages)
    if isinstance(outcome, Conflict):
        views = (load,)
        only_load = solve(access, views, element, align[:1], target, threads_read=True, turned=turns, max_stages=stages)
        if isinstance(only_load, Conflict) or not storable(store, access.word, align[1]):
            return only_load if isinstance(only_load, Conflict) else outcome
        outcome = only_load
    cost = cost_of(
        access,
        views,
        outcome.tensor_maps,
        conflicts=outcome.conflicts,
        shared_bytes=block_bytes(buffers(access, views, outcome)),
        thread_store=len(views) == 1,
        target=target,
    )
    return _Solved(start, before, access, views, outcome, cost)


def _distinct(solved: list[_Solved]) -> list[_Solved]:
    seen: dict[tuple[Access, str], _Solved] = {}
    for one in solved:
        seen.setdefault((one.access, one.store), one)
    return list(seen.values())


def _finished(operator: Operator, target: Target, best: list[_Solved]) -> Plan:
    winner = best[0]
    shared = buffers(winner.access, winner.views, winner.solution)
    stages = winner.solution.stages
    return Plan(
        operator=operator,
        target=target,
        access=winner.access,
        derivation=_derivation(winner),
        views=winner.views,
        tensor_maps=winner.solution.tensor_maps,
        store=winner.store,
        shared=shared,
        pipeline=pipeline(winner.views, shared, stages),
        launch=launch(winner.access, winner.views, stages, target),
        cost=winner.cost,
        candidates=tuple(Candidate(one.access, _derivation(one), one.cost, one.store) for one in best),
    )


def _derivation(solved: _Solved) -> tuple[Step, ...]:
    return solved.before + search.derivation(solved.start, solved.access)


def _refusal(operator: Operator, target: Target, conflicts: list[Conflict]) -> NoLegalLayout:
    found = [c.diagnostics for c in conflicts if c.diagnostics]
    found = found or [_judge(Movement(operator.source.dtype.bits), target)]
    nearest = min(found, key=len)
    return NoLegalLayout(f"no legal {operator} on {target}", nearest)


def _judge(movement: Movement, target: Target) -> tuple[Diagnostic, ...]:
    return tuple(diagnostic for rule in MOVEMENT_RULES for diagnostic in rule.check(movement, target))


@lru_cache(maxsize=4096)
def cached_plan(operator: Operator, target: Target) -> Plan:
    """Return `plan(operator, target)`, remembered."""
    return plan(operator, target)
