"""Is a pipeline right for all trip counts and all speeds of its roles? The typestate check.

One run stands for all interleavings: each process knows what is surely over, and every conflicting pair of operations
must be ordered by that (`typestate_run`). The runs for all trip counts are one tree, since nothing but trip counts
decides anything: the processes go on until all of them wait or ask whether a loop goes on that nobody asked about yet;
there the tree forks. A fork that is no harder than one met before, counted from the newest items, has nothing new below
it (`typestate_form`). So a loop is run until it repeats, and its end is tried after every turn.

A symbol within outer loops may have another value in each of their turns, which proves more than was asked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from legalsat.analyses.protocol.typestate_form import Knowledge, View, covers, met, symbol_of, value_of
from legalsat.analyses.protocol.typestate_pairs import paired
from legalsat.analyses.protocol.typestate_program import Actor, Back, Enter, Head, Machine, Skip
from legalsat.analyses.protocol.typestate_run import Run, Stuck
from legalsat.analyses.protocol.typestate_state import Process, State, Symbol
from legalsat.analyses.protocol.typestate_steps import DOES
from legalsat.analyses.protocol.typestate_together import check_together
from legalsat.diagnostics import Diagnostic, worst_first
from legalsat.program.pipeline import (
    CopyIn,
    Expect,
    Load,
    Multiply,
    Pipeline,
    Store,
    Sync,
    Trips,
    Wait,
    walk,
)
from legalsat.program.pipeline_sites import BarrierPhase, BarrierRange, Exit, Meeting, TensorMemoryLife, UnitUse
from legalsat.targets import Target

MAX_FORKS = 4096
MAX_STEPS = 2_000_000
ENOUGH = 128  # forks to look at once something has been found
UNDER_WAY = {
    "bulk": "stores",
    "wgmma": "wgmma multiplications",
    "cp.async": "cp.async copies",
    "tcgen05": "tcgen05 multiplications",
}


@dataclass(frozen=True, slots=True)
class TypestateResult:
    """What the check found.

    Attributes:
        diagnostics: violated rules, errors first. Each names the first trip counts found for which it happens.
        proven: whether there are no errors, for all trip counts and all speeds of the roles.
        unproven: what could not be decided, in words; empty where everything was.
        forks: how many different states a loop's end was tried in.
    """

    diagnostics: tuple[Diagnostic, ...]
    proven: bool
    unproven: tuple[str, ...] = ()
    forks: int = 0


@dataclass(frozen=True, slots=True)
class _Question:
    """Somebody asks whether a symbol is at least so much, which nobody knows yet."""

    symbol: Symbol
    least: int


def check(
    pipeline: Pipeline, target: Target, *, at_least: Mapping[str, int] | None = None, max_forks: int = MAX_FORKS
) -> TypestateResult:
    """Return which rules a pipeline violates for any trip counts, and whether that is all.

    Args:
        pipeline: what a block does.
        target: the chip that it is to run on.
        at_least: the least values of symbols that the launch guarantees, by name; 0 where none is given.
        max_forks: how many states in which somebody asks for a trip count are looked at before giving up.

    Raises:
        InvalidPipeline: it names what it does not declare.
    """
    machine = Machine(paired(pipeline), at_least or {})
    first = Run(machine, target, State(machine))
    _check_declarations(first)
    check_together(first)
    search = _Search(machine, target, max_forks)
    search.explore(first.state, widen=True)
    certain = search.found
    if {code for code, _ in search.doubtful} - {code for code, _ in certain}:
        # What was found lies in states that stand for several, so that it may happen in none: look at each on its own.
        search = _Search(machine, target, min(ENOUGH, max_forks) if certain else max_forks)
        search.explore(State(machine), widen=False)
        search.found = {**certain, **search.found}
    diagnostics = tuple(worst_first({**first.found, **search.found}.values()))
    errors = any(d.level == "error" for d in diagnostics)
    return TypestateResult(diagnostics, not errors and not search.unproven, tuple(search.unproven), search.forks)


class _Fork:
    """A state in which somebody asks for a trip count."""

    __slots__ = ("knowledge", "question", "queued", "state")

    def __init__(self, state: State, question: _Question, knowledge: Knowledge) -> None:
        self.state, self.question, self.knowledge, self.queued = state, question, knowledge, False


class _Search:
    """The tree of runs for all trip counts.

    Attributes:
        found: violations that happen for certain. doubtful: those in states that stand for several.
        unproven: what was not looked at. forks: how many forks were.
    """

    def __init__(self, machine: Machine, target: Target, max_forks: int) -> None:
        self.machine, self.target, self.max_forks = machine, target, max_forks
        self.found: dict[tuple[str, str], Diagnostic] = {}
        self.doubtful: dict[tuple[str, str], Diagnostic] = {}
        self.unproven: list[str] = []
        self.forks = self.steps = 0

    def explore(self, state: State, *, widen: bool) -> None:
        """Follow the tree from a state on; `widen`: take what is known in all states of a form for known in each."""
        forks: dict[Any, list[_Fork]] = {}
        queue: deque[_Fork] = deque()
        self._reach(state, forks, queue, widen=widen)
        while queue:
            fork = queue.popleft()
            fork.queued = False
            self.forks += 1
            if self.steps > MAX_STEPS or self.forks > (min(ENOUGH, self.max_forks) if self.found else self.max_forks):
                name, least = fork.question.symbol[0], fork.question.least
                self.unproven.append(f"{name} from {least} on: no state repeats in {self.forks} turns")
                return
            for more in (False, True):
                state = fork.state.copy() if not more else fork.state
                value = state.values[fork.question.symbol]
                if more:
                    value.low = fork.question.least
                else:
                    value.high = fork.question.least - 1
                self._reach(state, forks, queue, widen=widen)

    def _reach(self, state: State, forks: dict[Any, list[_Fork]], queue: deque[_Fork], *, widen: bool) -> None:
        """Run a state on to its next fork, and queue that unless a harder one of its form is there."""
        run = Run(self.machine, self.target, state)
        run.found = self.doubtful if state.widened else self.found
        try:
            question, done = _settle(run)
        except Stuck:
            return
        self.steps += done
        if question is None:
            return
        view = View(self.machine, state)
        knowledge = view.knowledge()
        others = forks.setdefault(view.form(), [])
        if any(covers(other.knowledge, knowledge) for other in others):
            return
        if widen and others:
            fork = others[0]
            view.meet(knowledge, fork.knowledge)
            fork.state, fork.question, fork.knowledge = state, question, met(knowledge, fork.knowledge)
            if fork.queued:
                return
        else:
            fork = _Fork(state, question, knowledge)
            others.append(fork)
        fork.queued = True
        queue.append(fork)


def _check_declarations(run: Run) -> None:
    """Check what needs no run: counts of barriers, and that the chip has the units."""
    pipeline, target = run.machine.pipeline, run.target
    for ring in pipeline.barriers:
        run.violate(BarrierRange(f"barrier {ring.name}", arrivals=ring.arrivals), stop=False)
    ops = [op for role in pipeline.roles for op in walk(role.body)]
    needs = (
        ("tensor memory accelerator", target.tma, any(isinstance(op, Load | Store) for op in ops)),
        ("wgmma", target.wgmma, any(isinstance(op, Multiply) and op.unit == "wgmma" for op in ops)),
        ("tcgen05", target.tcgen05, any(isinstance(op, Multiply) and op.unit == "tcgen05" for op in ops)),
        ("cp.async", target.cp_async or None, any(isinstance(op, CopyIn) for op in ops)),
        ("mbarrier that counts bytes", target.mbarrier or None, any(isinstance(op, Expect) for op in ops)),
    )
    for unit, limits, used in needs:
        run.violate(UnitUse("pipeline", unit, not used or limits is not None), stop=False)


def _settle(run: Run) -> tuple[_Question | None, int]:
    """Run all processes until nobody can go on; return a question that one of them waits for, and the steps done."""
    actors, processes = run.machine.actors, run.state.processes
    steps, moved = 0, True
    question: _Question | None = None
    while moved:
        moved, question = False, None
        for actor in actors:
            p = processes[actor.number]
            if p.ended:
                continue
            asked, done = _go(run, actor, p)
            steps += done
            moved = moved or done > 0
            question = question or asked
    if question is not None:
        return question, steps
    if not all(p.ended for p in processes):
        _dead(run)
    return None, steps


def _go(run: Run, actor: Actor, p: Process) -> tuple[_Question | None, int]:
    """Run one process until it must wait, asks, or ends."""
    steps, done = actor.program.steps, 0
    while p.at < len(steps):
        step = steps[p.at]
        does = DOES.get(type(step))
        if does is not None:
            at = p.at
            if not does(run, actor, p, step):
                return None, done
            if p.at == at:
                p.at += 1
        elif isinstance(step, Enter):
            p.loops[step.loop] = 0
            p.at += 1
        elif isinstance(step, Back):
            p.loops[step.loop] += 1
            p.at = step.head
        elif isinstance(step, Head):
            goes_on = _more(run, actor, p, step.trips, p.loops[step.loop] + 1)
            if isinstance(goes_on, _Question):
                return goes_on, done
            if goes_on:
                p.at += 1
            else:
                del p.loops[step.loop]
                p.at = step.end
        elif isinstance(step, Skip):
            goes_on = _guard(run, actor, p, step)
            if isinstance(goes_on, _Question):
                return goes_on, done
            p.at = p.at + 1 if goes_on else step.end
        done += 1
    _end(run, actor, p)
    return None, done + 1


def _guard(run: Run, actor: Actor, p: Process, step: Skip) -> bool | _Question:
    """Return whether a guard lets its body run."""
    if not step.cursor:
        return _more(run, actor, p, step.trips, 1)
    count = p.cursors.get(step.cursor, 0)
    more = _more(run, actor, p, step.trips, count + 1)
    return more if isinstance(more, _Question) else not more


def _more(run: Run, actor: Actor, p: Process, trips: Trips, least: int) -> bool | _Question:
    """Return whether a loop has at least so many trips, at least one."""
    if trips.most and least > trips.most:
        return False
    if not trips.name:
        return trips.plus >= least
    needed = least - trips.plus
    symbol = symbol_of(run.machine, actor.number, run.state, trips.name, p.at)
    value = value_of(run.machine, run.state, symbol)
    if value.low >= needed:
        return True
    if value.high is not None and value.high < needed:
        return False
    return _Question(symbol, needed)


def _dead(run: Run) -> None:
    """Say why nobody can go on: bytes that never match, arrivals that are missing, or somebody who never comes."""
    machine, state = run.machine, run.state
    found: list[tuple[int, BarrierPhase | Meeting]] = []
    for actor, p in zip(machine.actors, state.processes, strict=True):
        if p.ended:
            continue
        step = actor.program.steps[p.at]
        if isinstance(step, Sync):
            where = run.where(actor, f"meeting {step.name}")
            found.append((2, Meeting(where, f"others at {step.name}", comes=False)))
        if not isinstance(step, Wait):
            continue
        ring = machine.barriers[step.barrier]
        item = p.cursors.get(step.at.cursor, 0) + step.at.offset
        b = state.barriers[machine.barrier_at[actor.cta, step.barrier] + item % ring.stages]
        name = f"{step.barrier}[{step.at}]"
        where, arrived = run.where(actor, f"wait for {name}"), ring.arrivals - b.pending
        if b.tx:
            completed = b.expected - b.tx
            rank = 0 if not b.pending else 1
            found.append((rank, BarrierPhase(where, name, expected=b.expected, completed=completed)))
        elif arrived:
            found.append((1, BarrierPhase(where, name, ring.arrivals, arrived)))
        else:
            found.append((3, Meeting(where, name, comes=False)))
    worst = min(rank for rank, _ in found)
    for rank, site in found:
        if rank == worst:
            run.violate(site, stop=False)


def _leave(run: Run, cta: int) -> None:
    """Check that nothing is under way any more when the last role of a block has ended."""
    machine, state = run.machine, run.state
    members = [(a, state.processes[a.number]) for a in machine.actors if a.cta == cta]
    known = 0
    for _, p in members:
        known |= p.known
    first = members[0][0]
    for index, b in enumerate(state.barriers):
        if machine.barrier_cta[index] == cta and b.marks.get("loads", 0) & ~known:
            _unfinished(run, first, f"loads on {machine.barrier_rings[index][0].name}")
    for actor, p in members:
        for family in ("cp.async", "tcgen05"):
            if p.last.get(family, 0) & ~known:
                _unfinished(run, actor, UNDER_WAY[family])
    for number, bit in state.remote[cta].items():
        if bit & ~known:
            what = f"CTA {machine.actors[number].cta} has done with its memory"
            run.violate(Exit(run.where(first, "end"), what, remote=True), stop=False)
    for a in state.allocations[cta]:
        if a.live:
            action = f"leaves {a.columns} columns of tensor memory"
            run.violate(TensorMemoryLife(run.where(first, "end"), action, "they were not freed"), stop=False)


def _end(run: Run, actor: Actor, p: Process) -> None:
    """Check that a process has waited for what nobody else can, and that the last one of a block leaves nothing."""
    p.ended = True
    for family in ("bulk", "wgmma"):
        if p.last.get(family, 0) & ~p.known:
            run.ungrouped(run.where(actor, "end"), p.last[family])
            _unfinished(run, actor, UNDER_WAY[family])
    if all(run.state.processes[a.number].ended for a in run.machine.actors if a.cta == actor.cta):
        _leave(run, actor.cta)


def _unfinished(run: Run, actor: Actor, what: str) -> None:
    run.violate(Exit(run.where(actor, "end"), what), stop=False)
