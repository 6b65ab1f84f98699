"""What multiplications, and who reads sums or holds tensor memory, do to a state; which rules they violate."""

from __future__ import annotations

from legalsat.analyses.protocol.typestate_program import Actor
from legalsat.analyses.protocol.typestate_run import Run
from legalsat.analyses.protocol.typestate_stages import issued, read_stage
from legalsat.analyses.protocol.typestate_state import Allocation, Events, Process, Stage
from legalsat.program.pipeline import Allocate, At, Free, Multiply, Relinquish, UseSums
from legalsat.program.pipeline_sites import SumsUse, TensorMemoryLife


def multiply(run: Run, actor: Actor, p: Process, op: Multiply) -> bool:
    """Multiply stages, and add to sums."""
    part, bits = actor.parts[op.unit], 0
    for name, at in op.reads:
        if name in run.machine.buffers:
            bits |= read_stage(run, actor, p, (name, at), part=part, proxy=True)
    result = run.state.event()
    if op.unit == "wgmma":
        if op.sums in p.touched:
            where = run.where(actor, f"multiply into {op.sums}")
            run.violate(SumsUse(where, op.sums, fenced=False, fence="wgmma.fence"), stop=False)
        p.sums[op.sums] = result
    else:
        _allocated(run, actor, p, op.sums, f"multiplies into {op.sums}")
        item, sums = _sums(run, actor, p, op.sums, op.at)
        _ordered(run, actor, p, op.sums, events=sums.reads, fences=sums.fenced)
        _ordered(run, actor, p, op.sums, events=sums.writes, fences={})
        sums.item, sums.writes[part] = item, result
    issued(run, p, op.unit, bits | result)
    return True


def use_sums(run: Run, actor: Actor, p: Process, op: UseSums) -> bool:
    """Read sums."""
    if op.sums not in run.machine.tensor_sums:
        if p.sums.get(op.sums, 0) & ~p.known:
            where = run.where(actor, f"use of {op.sums}")
            run.ungrouped(where, p.sums[op.sums])
            run.violate(SumsUse(where, op.sums, done=False))
        p.touched |= {op.sums}
        return True
    _allocated(run, actor, p, op.sums, f"reads {op.sums}")
    item, sums = _sums(run, actor, p, op.sums, op.at)
    if sums.item != item:
        run.violate(SumsUse(run.where(actor, f"use of {op.sums}"), op.sums, holds=False))
    for bit in sums.writes.values():
        _since(run, actor, p, op.sums, event=bit, fence=bit)
    part = actor.parts["threads"]
    sums.reads[part], sums.fenced[part] = run.state.event(), run.state.event()
    p.known |= sums.reads[part]
    return True


def _sums(run: Run, actor: Actor, p: Process, name: str, at: At) -> tuple[int, Stage]:
    item = p.cursors.get(at.cursor, 0) + at.offset
    return item, run.state.sums[run.machine.tensor_at[actor.cta, name] + item % run.machine.sums[name]]


def _ordered(run: Run, actor: Actor, p: Process, name: str, *, events: Events, fences: Events) -> None:
    """Require that what others did to sums is known to be over, and that tcgen05 fences say so too."""
    for part, bit in events.items():
        if part not in actor.parts.values():
            _since(run, actor, p, name, event=bit, fence=fences.get(part, bit))
    for part, bit in fences.items():
        if part not in events and part not in actor.parts.values():
            _since(run, actor, p, name, event=0, fence=bit)


def _since(run: Run, actor: Actor, p: Process, name: str, *, event: int, fence: int) -> None:
    """Require that an event of sums is known to be over, and seen by a fence since."""
    if event & ~p.known:
        run.violate(SumsUse(run.where(actor, f"use of {name}"), name, done=False))
    missing = ""
    if fence & ~p.known:
        missing = "tcgen05.fence::before_thread_sync"
    elif fence & ~(p.seen or 0):
        missing = "tcgen05.fence::after_thread_sync"
    if missing:
        where = run.where(actor, f"use of {name}")
        run.violate(SumsUse(where, name, fenced=False, fence=missing), stop=False)


def _allocated(run: Run, actor: Actor, p: Process, name: str, action: str) -> None:
    """Require that tensor memory holds a name."""
    fault = "it was never allocated"
    for a in run.state.allocations[actor.cta]:
        if name in a.holds:
            if a.live and all(p.known & bit for bit in a.events.values()):
                return
            fault = "its allocation may come later" if a.live else "it was freed before"
    _tensor_memory(run, actor, action, fault)


def _tensor_memory(run: Run, actor: Actor, action: str, fault: str) -> None:
    run.violate(TensorMemoryLife(run.where(actor, action), action, fault))


def allocate(run: Run, actor: Actor, p: Process, op: Allocate) -> bool:
    """Allocate."""
    if run.state.promised[actor.cta]:
        _tensor_memory(run, actor, f"allocates {op.columns} columns", "the block promised to allocate no more")
    bit = run.state.event()
    p.known |= bit
    run.state.allocations[actor.cta].append(Allocation(op.columns, op.holds, {actor.number: bit}))
    return True


def relinquish(run: Run, actor: Actor, p: Process, op: Relinquish) -> bool:
    """Promise to allocate no more."""
    run.state.promised[actor.cta] = True
    return True


def free(run: Run, actor: Actor, p: Process, op: Free) -> bool:
    """Free the oldest allocation of so many columns."""
    action = f"frees {op.columns} columns"
    mine = [a for a in run.state.allocations[actor.cta] if a.live and a.columns == op.columns]
    if not mine:
        _tensor_memory(run, actor, action, "no allocation of as many is left")
    a = mine[0]
    if any(not p.known & bit for bit in a.events.values()):
        _tensor_memory(run, actor, action, "their allocation may come later")
    for name in a.holds:
        if name not in run.machine.tensor_sums:
            continue
        first = run.machine.tensor_at[actor.cta, name]
        for sums in run.state.sums[first : first + run.machine.sums[name]]:
            if any(not p.known & bit for bit in (*sums.reads.values(), *sums.writes.values())):
                _tensor_memory(run, actor, action, f"{name} may still be in use")
    a.live = False
    return True
