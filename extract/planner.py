"""From an operator to a plan: tiles, candidates, solved fields, the cheapest; or a refusal with its reasons."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from legalsat.access import Access
from legalsat.diagnostics import Diagnostic
from legalsat.errors import LegalSatError
from legalsat.extract import search
from legalsat.extract.cost import cost_of
from legalsat.extract.fields import MAX_STAGES, Conflict, Solution, SolverGaveUp, solve
from legalsat.extract.recheck import judge_movement, recheck
from legalsat.extract.schedule import block_bytes, buffers, launch, pipeline
from legalsat.extract.tiles import proposals
from legalsat.extract.views import map_type, storable, turned, views_of
from legalsat.operators import WGMMA_CONSUMERS, Operator, access_of
from legalsat.plan import Candidate, Cost, Plan, Step, View
from legalsat.rules.rewrites.words import recast_to_wider_words
from legalsat.targets import Target

TOP = 4
ONE_AT_A_TIME = threading.RLock()  # z3 and isl keep one context for the whole process, and neither is safe for threads
BYTE = 8
# Who works on a stage while the next ones load. A movement has nothing to work on: one block a tile, several blocks on
# a processor, was as fast as every ring or faster (bench/gpu/results/copies.json, ring_of_*).
RING_CONSUMERS = WGMMA_CONSUMERS
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
        SearchGaveUp: no solved candidate's derivation was found again within its budget.
    """
    broken = judge_movement(operator, BYTE, target)
    if broken:
        raise NoLegalLayout(f"no legal {operator} on {target}", broken)
    with ONE_AT_A_TIME:
        return _plan(operator, target, rewrite=rewrite)


def _plan(operator: Operator, target: Target, *, rewrite: bool) -> Plan:
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
    found = _finished(operator, target, _derived(_distinct(solved)))
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
    broken = judge_movement(operator, access.word, target)
    if broken:
        return Conflict(broken)
    load, store = views_of(access)
    align = (operator.source.align, operator.target.align)
    turns = turned(load, store)
    stages = MAX_STAGES if operator.consumer in RING_CONSUMERS else 1

    def fields_of(views: tuple[View, ...], *, threads_read: bool) -> Solution | Conflict:
        return solve(
            access,
            views,
            element,
            align[: len(views)],
            target,
            threads_read=threads_read,
            turned=turns,
            consumer=operator.consumer,
            max_stages=stages,
        )

    views: tuple[View, ...] = (load, store)
    outcome = fields_of(views, threads_read=turns or operator.consumer is not None)
    if isinstance(outcome, Conflict):
        views = (load,)
        only_load = fields_of(views, threads_read=True)
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


def _derived(solved: list[_Solved]) -> list[tuple[_Solved, tuple[Step, ...]]]:
    """Return the best few with their derivations; a candidate whose derivation is not found again is passed over."""
    found: list[tuple[_Solved, tuple[Step, ...]]] = []
    late: search.SearchGaveUp | None = None
    for one in solved:
        try:
            found.append((one, one.before + search.derivation(one.start, one.access)))
        except search.SearchGaveUp as error:
            late = error
        if len(found) == TOP:
            break
    if late is not None and not found:
        raise late
    return found


def _finished(operator: Operator, target: Target, best: list[tuple[_Solved, tuple[Step, ...]]]) -> Plan:
    winner, derivation = best[0]
    shared = buffers(winner.access, winner.views, winner.solution)
    stages = winner.solution.stages
    return Plan(
        operator=operator,
        target=target,
        access=winner.access,
        derivation=derivation,
        views=winner.views,
        tensor_maps=winner.solution.tensor_maps,
        store=winner.store,
        shared=shared,
        pipeline=pipeline(winner.views, shared, stages),
        launch=launch(winner.access, winner.views, stages, target),
        cost=winner.cost,
        candidates=tuple(Candidate(one.access, steps, one.cost, one.store) for one, steps in best),
    )


def _refusal(operator: Operator, target: Target, conflicts: list[Conflict]) -> NoLegalLayout:
    found = [c.diagnostics for c in conflicts if c.diagnostics]
    found = found or [judge_movement(operator, operator.source.dtype.bits, target)]
    nearest = min(found, key=len)
    return NoLegalLayout(f"no legal {operator} on {target}", nearest)


@lru_cache(maxsize=4096)
def cached_plan(operator: Operator, target: Target) -> Plan:
    """Return `plan(operator, target)`, remembered."""
    return plan(operator, target)
