"""Do the warps of a role meet between what they lay down together and what each of them stores of it?

A process stands for all warps of a role, which is right where each uses its own part of a buffer. Where they lay a
buffer down together, each stores, or reads, what others wrote: they meet before that, and again once each has read it
or has waited for its own store, before any of them writes there anew. Every way through the role's program is
followed at once, as states of the buffer's stages, until there are no new ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from legalsat.analyses.protocol.typestate_run import Run
from legalsat.program.pipeline import Advance, BufferRing, Guard, Loop, Operation, Read, Store, Sync, WaitGroup, Write
from legalsat.program.pipeline_sites import StageRead, StageWrite

FREE, LAID, MET, STORED, READ = range(5)  # what the warps know of a stage: READ by a warp or its store, FREE by all
_AFTER_MEETING = {LAID: MET, READ: FREE}


@dataclass(frozen=True, slots=True)
class _State:
    """How far a cursor is, modulo the stages; what is known of each; which have stores under way, the oldest first."""

    cursor: int
    stages: tuple[int, ...]
    stores: tuple[int, ...] = ()

    def having(self, stage: int, known: int) -> _State:
        return replace(self, stages=(*self.stages[:stage], known, *self.stages[stage + 1 :]))


def check_together(run: Run) -> None:
    """Record what roles do to buffers that their warps lay down together without having met."""
    for ring in run.machine.pipeline.buffers:
        if not ring.together:
            continue
        for actor in run.machine.actors:
            body = actor.program.role.body
            _Walk(run, ring, str(actor)).through(body, {_State(0, (FREE,) * ring.stages)})


@dataclass(frozen=True, slots=True)
class _Walk:
    run: Run
    ring: BufferRing
    role: str

    def through(self, body: Iterable[Operation], states: set[_State]) -> set[_State]:
        """Return the states behind operations, from those before them."""
        for op in body:
            if isinstance(op, Loop):
                states = self._turns(op, states)
            elif isinstance(op, Guard):
                states = states | self.through(op.body, states)
            else:
                states = {self._after(op, state) for state in states}
        return states

    def _turns(self, loop: Loop, states: set[_State]) -> set[_State]:
        if not loop.trips.name:
            for _ in range(loop.trips.value({})):
                states = self.through(loop.body, states)
            return states
        found, new = set(states), set(states)
        while new:
            new = self.through(loop.body, new) - found
            found |= new
        return found

    def _after(self, op: Operation, state: _State) -> _State:
        if isinstance(op, Write | Store | Read) and op.buffer == self.ring.name:
            return self._used(op, state)
        if isinstance(op, WaitGroup) and op.family == "bulk":
            done = state.stores[: max(0, len(state.stores) - op.pending)]
            for stage in done:
                state = state.having(stage, READ)
            return replace(state, stores=state.stores[len(done) :])
        if isinstance(op, Sync) and op.waits:
            return replace(state, stages=tuple(_AFTER_MEETING.get(known, known) for known in state.stages))
        if isinstance(op, Advance) and op.cursor == self.ring.together:
            return replace(state, cursor=(state.cursor + op.by) % self.ring.stages)
        return state

    def _used(self, op: Write | Store | Read, state: _State) -> _State:
        """Return the state behind an operation on the buffer."""
        stage = (state.cursor + op.at.offset) % self.ring.stages
        what, known = f"{op.buffer}[{op.at}]", state.stages[stage]
        if isinstance(op, Write):
            if known not in {FREE, LAID}:
                site = StageWrite(f"{self.role}: write of {what}", what, "stores", done=True, met=False)
                self.run.violate(site, stop=False)
            return state.having(stage, LAID)
        reads = isinstance(op, Read)
        if known != MET and not (reads and known == READ):
            which = "read" if reads else "store"
            self.run.violate(StageRead(f"{self.role}: {which} of {what}", what, met=False), stop=False)
        if reads:  # which threads are done with when they go on
            return state.having(stage, READ)
        others = tuple(one for one in state.stores if one != stage)  # an older one of the stage is over no later
        return replace(state.having(stage, STORED), stores=(*others, stage))
