"""What operations on barriers do to a state, and which rules they violate."""

from __future__ import annotations

from legalsat.analyses.protocol.typestate_program import Actor
from legalsat.analyses.protocol.typestate_run import Run
from legalsat.analyses.protocol.typestate_state import BarrierState, Process
from legalsat.program.pipeline import Arrive, At, BarrierRing, CommitTo, CopyArrive, Expect, Start, Wait
from legalsat.program.pipeline_sites import BarrierPhase, BarrierRange, BarrierUse, Exit, Multicast, PhaseWait


def barrier_of(run: Run, actor: Actor, name: str, at: At, cta: int = 0) -> tuple[BarrierRing, int, int, BarrierState]:
    """Return the ring, the item, the barrier's number and its state."""
    ring = run.machine.barriers[name]
    item = run.state.processes[actor.number].cursors.get(at.cursor, 0) + at.offset
    where = (actor.cta + cta) % run.machine.pipeline.cluster
    index = run.machine.barrier_at[where, name] + item % ring.stages
    return ring, item, index, run.state.barriers[index]


def usable(run: Run, actor: Actor, p: Process, b: BarrierState, what: str, *, proxy: bool, remote: bool) -> None:
    """Require that a barrier is initialised, met, and fenced where need be."""
    met, marks = b.by >= 0, b.marks
    for mark in ("start", "met"):
        met = met and not marks.get(mark, 0) & ~p.known
    fenced = not marks.get("fence", 0) & ~p.known
    if not met:
        run.violate(BarrierUse(run.where(actor, f"use of {what}"), what, met=False))
    if not fenced and (proxy or remote):
        where = run.where(actor, f"use of {what}")
        run.violate(BarrierUse(where, what, fenced=False, proxy=proxy, remote=remote), stop=False)


def land(run: Run, actor: Actor, index: int, name: str, *, count: int, known: int) -> None:
    """Let arrivals come, which may happen at any later time."""
    b = run.state.barriers[index]
    ring = run.machine.barrier_rings[index][0]
    if b.marks.get("over", 0) & ~known:
        run.violate(BarrierPhase(run.where(actor, f"arrival at {name}"), name, ordered=False), stop=False)
    b.pending -= count
    if b.pending < 0:
        arrived = ring.arrivals - b.pending
        run.violate(BarrierPhase(run.where(actor, f"arrival at {name}"), name, ring.arrivals, arrived))
    b.arrived |= known
    if not b.pending and not b.tx:
        over(run, index, name)


def over(run: Run, index: int, name: str) -> None:
    """End the barrier's phase."""
    b, actors, marks = run.state.barriers[index], run.machine.actors, run.state.barriers[index].marks
    for number, bit in b.waits.items():
        if not b.arrived & bit:
            where = run.where(actors[number], f"wait for {name}")
            run.violate(PhaseWait(where, name, b.phase - 1, b.phase + 1))
    for number, bit in b.armed.items():
        if not b.arrived & bit:
            where = run.where(actors[number], f"expectation on {name}")
            run.violate(BarrierPhase(where, name, armed=False))
    b.phase += 1
    marks.pop("older", None)
    if "over" in marks:
        marks["older"] = marks["over"]
    marks["over"] = run.state.event()
    b.done = b.arrived | b.coming | marks["over"]
    b.arrived = b.coming = b.expected = 0
    b.pending = run.machine.barrier_rings[index][0].arrivals
    b.waits, b.armed = {}, {}


def reaches(run: Run, actor: Actor, p: Process, cta: int) -> None:
    """Remember when a process last touched another CTA's memory, which must still be there."""
    if all(run.state.processes[a.number].ended for a in run.machine.actors if a.cta == cta):
        where = run.where(actor, f"use of CTA {cta}")
        run.violate(Exit(where, f"CTA {actor.cta} has done with its memory", remote=True))
    run.state.remote[cta][actor.number] = bit = run.state.event()
    p.known |= bit


def start(run: Run, actor: Actor, p: Process, op: Start) -> bool:
    """Initialise all stages."""
    first = run.machine.barrier_at[actor.cta, op.barrier]
    for b in run.state.barriers[first : first + run.machine.barriers[op.barrier].stages]:
        if b.by >= 0:
            run.violate(BarrierUse(run.where(actor, f"start of {op.barrier}"), op.barrier, again=True))
        b.by = actor.number
        if (actor.cta, op.barrier) in run.machine.used_barriers:
            b.marks = {mark: run.state.event() for mark in ("start", "met", "fence")}
            p.known |= b.marks["start"]
    return True


def wait(run: Run, actor: Actor, p: Process, op: Wait) -> bool:
    """Pass if the phase is over."""
    ring, item, _, b = barrier_of(run, actor, op.barrier, op.at)
    waited = item // ring.stages - op.before
    if "start" in b.marks or b.by < 0:
        usable(run, actor, p, b, f"{op.barrier}[{op.at}]", proxy=False, remote=False)
    # The phase ahead of the one waited for must be known to be over: parities repeat.
    unsure = b.marks.get("over" if waited == b.phase else "older", 0) & ~p.known
    if unsure or not waited <= b.phase <= waited + 1:
        current = waited - 1 if unsure else b.phase
        name = f"{op.barrier}[{op.at}]"
        run.violate(PhaseWait(run.where(actor, f"wait for {name}"), name, waited, current))
    if b.phase == waited:
        return False
    p.known |= b.done
    b.waits[actor.number] = bit = run.state.event()
    p.known |= bit
    return True


def arrive(run: Run, actor: Actor, p: Process, op: Arrive) -> bool:
    """Arrive here or in another CTA."""
    _, _, index, b = barrier_of(run, actor, op.barrier, op.at, op.cta)
    remote = op.cta % run.machine.pipeline.cluster != 0
    name = f"{op.barrier}[{op.at}]"
    if b.marks or b.by < 0:
        usable(run, actor, p, b, name, proxy=False, remote=remote)
    if remote:
        reaches(run, actor, p, (actor.cta + op.cta) % run.machine.pipeline.cluster)
    land(run, actor, index, name, count=op.count, known=p.known)
    return True


def expect(run: Run, actor: Actor, p: Process, op: Expect) -> bool:
    """Add bytes, and arrive unless told not to."""
    _, _, index, b = barrier_of(run, actor, op.barrier, op.at)
    name = f"{op.barrier}[{op.at}]"
    if "start" in b.marks or b.by < 0:
        usable(run, actor, p, b, name, proxy=False, remote=False)
    if b.marks.get("over", 0) & ~p.known:
        run.violate(BarrierPhase(run.where(actor, f"expectation on {name}"), name, ordered=False), stop=False)
    b.tx += op.bytes
    b.expected += op.bytes
    if abs(b.tx) >= 2**20:
        run.violate(BarrierRange(run.where(actor, f"expectation on {name}"), bytes=b.tx), stop=False)
    if op.arrives:
        land(run, actor, index, name, count=1, known=p.known)
    else:
        b.armed[actor.number] = bit = run.state.event()
        p.known |= bit
    return True


def copy_arrive(run: Run, actor: Actor, p: Process, op: CopyArrive) -> bool:
    """Arrive once all copies so far are done."""
    _, _, index, b = barrier_of(run, actor, op.barrier, op.at)
    name = f"{op.barrier}[{op.at}]"
    usable(run, actor, p, b, name, proxy=True, remote=False)
    land(run, actor, index, name, count=1, known=p.known | p.all.get("cp.async", 0))
    return True


def commit_to(run: Run, actor: Actor, p: Process, op: CommitTo) -> bool:
    """Arrive once all multiplications so far are done, here or in other CTAs."""
    cluster = run.machine.pipeline.cluster
    name = f"{op.barrier}[{op.at}]"
    if not 0 < op.mask < 2**cluster:
        run.violate(Multicast(run.where(actor, f"arrival at {name}"), op.mask, cluster))
    for cta in range(cluster):
        if not op.mask >> cta & 1:
            continue
        _, _, index, b = barrier_of(run, actor, op.barrier, op.at, cta)
        usable(run, actor, p, b, name, proxy=True, remote=cta > 0)
        if cta:
            reaches(run, actor, p, (actor.cta + cta) % cluster)
        land(run, actor, index, name, count=1, known=p.known | p.all.get("tcgen05", 0))
    return True
