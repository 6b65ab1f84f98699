"""What groups, fences and meetings do to a state, and which function does each operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from legalsat.analyses.protocol import typestate_barriers, typestate_stages, typestate_sums
from legalsat.analyses.protocol.typestate_program import Actor, meeting
from legalsat.analyses.protocol.typestate_run import Run
from legalsat.analyses.protocol.typestate_state import Arrived, Process
from legalsat.program.leaves import AddSlices, ShiftRows, TurnTile
from legalsat.program.pipeline import (
    MEETINGS,
    Advance,
    Allocate,
    Arrive,
    AwaitGrid,
    Commit,
    CommitTo,
    CopyArrive,
    CopyIn,
    Expect,
    Fence,
    Free,
    LaunchDependents,
    Load,
    Multiply,
    Read,
    Registers,
    Relinquish,
    Start,
    Store,
    Sync,
    UseSums,
    Vectors,
    Wait,
    WaitGroup,
    Write,
)
from legalsat.program.pipeline_sites import Meeting


def commit(run: Run, actor: Actor, p: Process, op: Commit) -> bool:
    """Close a group."""
    if op.family in actor.parts:
        groups = p.groups.setdefault(op.family, [])
        groups.append(p.loose.get(op.family, 0))
        p.loose[op.family] = 0
        keeps = actor.program.keeps.get(op.family, 1)
        if len(groups) > keeps:  # no wait can tell the older ones apart
            oldest = groups.pop(0)
            groups[0] |= oldest
    return True


def wait_group(run: Run, actor: Actor, p: Process, op: WaitGroup) -> bool:
    """Know that all but the newest groups are done."""
    groups = p.groups.get(op.family, [])
    while len(groups) > op.pending:
        p.known |= groups.pop(0)
    return True


def fence(run: Run, actor: Actor, p: Process, op: Fence) -> bool:
    """Know that what was done before is fenced."""
    state = run.state
    if op.kind == "proxy.async":
        _proxy(run, actor, p)
    elif op.kind == "tensormap":
        _acquire(run, actor, p)
    elif op.kind == "wgmma":
        p.touched = frozenset()
    elif op.kind == "tcgen05.before":
        part = actor.parts["threads"]
        for stage in state.sums:
            p.known |= stage.fenced.get(part, 0)
    elif op.kind == "tcgen05.after":
        p.seen = p.known
    elif op.kind == "mbarrier_init":
        _mark(run, actor, p, "fence")
    return True


def _proxy(run: Run, actor: Actor, p: Process) -> None:
    """Fence what threads wrote and read; tensor maps have a proxy of their own."""
    users, own = run.machine.users, actor.parts["threads"]
    for number, stage in enumerate(run.state.stages):
        if number in run.machine.map_stages:
            continue
        for part, bit in stage.fenced.items():
            # Whoever has waited for a copy may fence it.
            mine = part == own or users[part] == "cp.async"
            if mine and not stage.writes.get(part, 0) & ~p.known:
                p.known |= bit
        for fences, done in ((stage.write_fences, stage.writes), (stage.read_fences, stage.reads)):
            for part, bit in fences.items():
                if not done.get(part, 0) & ~p.known:
                    p.known |= bit


def _acquire(run: Run, actor: Actor, p: Process) -> None:
    """Acquire the edits of the block's tensor maps of which it knows."""
    machine = run.machine
    for name in machine.pipeline.maps & machine.buffers.keys():
        first = machine.stage_at[actor.cta, name]
        for stage in run.state.stages[first : first + machine.buffers[name].stages]:
            for part, bit in stage.fenced.items():
                if not stage.writes.get(part, 0) & ~p.known:
                    p.known |= bit


def _mark(run: Run, actor: Actor, p: Process, mark: str) -> None:
    for b in run.state.barriers:
        if b.by == actor.number:
            p.known |= b.marks.get(mark, 0)


def sync(run: Run, actor: Actor, p: Process, op: Sync) -> bool:
    """Wait until all are there whom the barrier waits for; the last one lets all go who wait."""
    key = meeting(actor.cta, op.name)
    early = run.state.early.setdefault(key, {})
    if not op.waits:
        if actor.number in early:
            run.violate(Meeting(run.where(actor, f"arrival at {op.name}"), f"others at {op.name}", comes=False))
        early[actor.number] = Arrived(p.known, p.cursors.get(op.cursor, 0))
    elif p.meets is None:
        p.meets = key
        if op.name in MEETINGS:
            _mark(run, actor, p, "met")
    members = {number: run.state.processes[number] for number in run.machine.meetings[key]}
    if op.name in MEETINGS:
        members = {n: member for n, member in members.items() if not member.ended}  # nobody waits for the others
    if any(member.meets != key for n, member in members.items() if n not in early):
        return not op.waits
    known = 0
    for n, member in members.items():
        known |= early[n].known if n in early else member.known
    for n, member in members.items():
        if n not in early:
            taken = run.machine.actors[n].program.steps[member.at]
            if early and isinstance(taken, Sync) and taken.cursor:
                member.cursors[taken.cursor] = max(came.cursor for came in early.values())
            member.known, member.meets = known, None
            member.at += member is not p
    early.clear()
    return True


def advance(run: Run, actor: Actor, p: Process, op: Advance) -> bool:
    """Move a cursor on."""
    p.cursors[op.cursor] = p.cursors.get(op.cursor, 0) + op.by
    return True


def nothing(run: Run, actor: Actor, p: Process, op: Any) -> bool:
    """Change nothing that matters here."""
    return True


DOES: dict[type, Callable[[Run, Actor, Process, Any], bool]] = {
    Start: typestate_barriers.start,
    Wait: typestate_barriers.wait,
    Arrive: typestate_barriers.arrive,
    Expect: typestate_barriers.expect,
    Load: typestate_stages.load,
    CopyIn: typestate_stages.copy_in,
    CopyArrive: typestate_barriers.copy_arrive,
    Store: typestate_stages.store,
    Read: typestate_stages.read,
    Write: typestate_stages.write,
    Multiply: typestate_sums.multiply,
    Commit: commit,
    WaitGroup: wait_group,
    CommitTo: typestate_barriers.commit_to,
    UseSums: typestate_sums.use_sums,
    Fence: fence,
    Sync: sync,
    Registers: nothing,
    Vectors: nothing,
    LaunchDependents: nothing,
    AwaitGrid: nothing,
    AddSlices: nothing,
    ShiftRows: nothing,
    TurnTile: nothing,
    Allocate: typestate_sums.allocate,
    Relinquish: typestate_sums.relinquish,
    Free: typestate_sums.free,
    Advance: advance,
}
