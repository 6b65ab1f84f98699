"""What reads and writes of stages do to a state, and which rules they violate."""

from __future__ import annotations

from typing import TypeAlias

from legalsat.analyses.protocol.typestate_barriers import barrier_of, over, reaches, usable
from legalsat.analyses.protocol.typestate_program import Actor
from legalsat.analyses.protocol.typestate_run import Run
from legalsat.analyses.protocol.typestate_state import Events, Process, Stage
from legalsat.program.pipeline import At, CopyIn, Load, Read, Store, Write
from legalsat.program.pipeline_sites import BarrierPhase, MapEdit, Multicast, StageRead, StageWrite

What: TypeAlias = tuple[str, At]
USERS = {"cp.async": "copies", "bulk": "stores"}


def _stage(run: Run, actor: Actor, p: Process, what: What, *, cta: int = 0) -> tuple[int, Stage]:
    name, at = what
    item = p.cursors.get(at.cursor, 0) + at.offset
    where = (actor.cta + cta) % run.machine.pipeline.cluster
    first = run.machine.stage_at[where, name]
    return item, run.state.stages[first + item % run.machine.buffers[name].stages]


def _released(run: Run, actor: Actor, p: Process, events: Events, what: str) -> None:
    """Require that all these events are known to be over."""
    for part, bit in events.items():
        if not p.known & bit:
            user = run.machine.users[part] if part < run.machine.first_part else "copies"
            where = run.where(actor, f"write of {what}")
            run.ungrouped(where, bit)
            if what.partition("[")[0] in run.machine.pipeline.maps:
                run.violate(MapEdit(where, what, idle=False))
            run.violate(StageWrite(where, what, USERS.get(user, user), done=False))


def _fenced(run: Run, actor: Actor, p: Process, stage: Stage, what: str) -> None:
    """Require that fences stand between what threads did to a stage and a write of the copy engine."""
    where = run.where(actor, f"write of {what}")
    if any(not p.known & bit for bit in stage.write_fences.values()):
        run.violate(StageWrite(where, what, "threads", done=True, fenced=False), stop=False)
    if any(not p.known & bit for bit in stage.read_fences.values()):
        run.violate(StageWrite(where, what, "threads", done=True, reads_fenced=False), stop=False)


def _write(
    run: Run, actor: Actor, p: Process, of: What, *, part: int, bit: int, cta: int = 0, proxy: bool = False
) -> Stage:
    """Write a part of an item into its stage; the event says when that is done."""
    item, stage = _stage(run, actor, p, of, cta=cta)
    what = f"{of[0]}[{of[1]}]"
    if stage.reads:
        _released(run, actor, p, stage.reads, what)
    if stage.item != item:
        if stage.writes:
            _released(run, actor, p, stage.writes, what)
        if proxy:
            _fenced(run, actor, p, stage, what)
        stage.before = {**stage.writes, **stage.reads}
        stage.item, stage.writes, stage.reads, stage.fenced = item, {}, {}, {}
        stage.read_fences, stage.write_fences = {}, {}
    elif stage.before:
        _released(run, actor, p, stage.before, what)
    for other in run.machine.overlaps[of[0]]:
        first = run.machine.stage_at[(actor.cta + cta) % run.machine.pipeline.cluster, other]
        for covered in run.state.stages[first : first + run.machine.buffers[other].stages]:
            for events in (covered.before, covered.reads, covered.writes):
                _released(run, actor, p, events, what)
            if proxy:
                _fenced(run, actor, p, covered, what)
            covered.item = None
    stage.writes[part] = bit
    return stage


def read_stage(run: Run, actor: Actor, p: Process, of: What, *, part: int, proxy: bool, cta: int = 0) -> int:
    """Read an item; return the event that says when that is done."""
    item, stage = _stage(run, actor, p, of, cta=cta)
    what = f"{of[0]}[{of[1]}]"
    if stage.item != item:
        run.violate(StageRead(run.where(actor, f"read of {what}"), what, holds=False))
    for bit in stage.writes.values():
        if not p.known & bit:
            run.violate(StageRead(run.where(actor, f"read of {what}"), what, full=False))
    if proxy and any(not p.known & bit for bit in stage.fenced.values()):
        run.violate(StageRead(run.where(actor, f"read of {what}"), what, fenced=False), stop=False)
    stage.reads[part] = bit = run.state.event()
    if not proxy:
        stage.read_fences[part] = run.state.event()
    return bit


def _use_map(run: Run, actor: Actor, p: Process, op: Load | Store, done: tuple[int, int]) -> None:
    """Read the tensor map that a copy names, if it names one, until a part's event."""
    if not op.map:
        return
    item, stage = _stage(run, actor, p, (op.map, op.map_at))
    what = f"{op.map}[{op.map_at}]"
    ready = all(p.known & known for known in (*stage.writes.values(), *stage.fenced.values()))
    made = stage.item == item or op.map not in run.machine.pipeline.edited_maps
    if not ready or not made:
        run.violate(MapEdit(run.where(actor, f"copy by {what}"), what, acquired=False))
    stage.reads[done[0]] = done[1]


def issued(run: Run, p: Process, family: str, bits: int) -> None:
    """Note that operations of a family are under way."""
    p.last[family] = last = run.state.event()
    p.all[family] = p.all.get(family, 0) | bits | last
    p.loose[family] = p.loose.get(family, 0) | bits | last


def load(run: Run, actor: Actor, p: Process, op: Load) -> bool:
    """Load into every destination; each barrier's phase says when that is done."""
    cluster = run.machine.pipeline.cluster
    if not 0 < op.mask < 2**cluster:
        run.violate(Multicast(run.where(actor, f"load of {op.buffer}[{op.at}]"), op.mask, cluster))
    name = f"{op.barrier}[{op.at}]"
    for cta in range(cluster):
        if not op.mask >> cta & 1:
            continue
        _, _, index, b = barrier_of(run, actor, op.barrier, op.at, cta)
        if "fence" in b.marks or b.by < 0:
            usable(run, actor, p, b, name, proxy=True, remote=cta > 0)
        if cta:
            reaches(run, actor, p, (actor.cta + cta) % cluster)
        bit = run.state.event()
        _write(run, actor, p, (op.buffer, op.at), part=run.machine.first_part + index, bit=bit, cta=cta, proxy=True)
        if b.marks.get("over", 0) & ~p.known:
            run.violate(BarrierPhase(run.where(actor, f"load on {name}"), name, timely=False))
        b.tx -= op.bytes
        _use_map(run, actor, p, op, (run.machine.first_part + index, bit))
        b.marks["loads"] = run.state.event()
        b.coming |= bit | b.marks["loads"]
        b.arrived |= p.known
        if not b.pending and not b.tx:
            over(run, index, name)
    return True


def copy_in(run: Run, actor: Actor, p: Process, op: CopyIn) -> bool:
    """Copy by cp.async."""
    part, bit = actor.parts["cp.async"], run.state.event()
    _write(run, actor, p, (op.buffer, op.at), part=part, bit=bit).fenced[part] = run.state.event()
    issued(run, p, "cp.async", bit)
    return True


def store(run: Run, actor: Actor, p: Process, op: Store) -> bool:
    """Store; the group says when the source has been read."""
    part = actor.parts["bulk"]
    bit = read_stage(run, actor, p, (op.buffer, op.at), part=part, proxy=True)
    _use_map(run, actor, p, op, (part, bit))
    issued(run, p, "bulk", bit)
    return True


def read(run: Run, actor: Actor, p: Process, op: Read) -> bool:
    """Read by threads, also what another CTA of the cluster holds."""
    cluster = run.machine.pipeline.cluster
    if op.cta % cluster:
        reaches(run, actor, p, (actor.cta + op.cta) % cluster)
    p.known |= read_stage(run, actor, p, (op.buffer, op.at), part=actor.parts["threads"], proxy=False, cta=op.cta)
    return True


def write(run: Run, actor: Actor, p: Process, op: Write) -> bool:
    """Write by threads."""
    part, bit = actor.parts["threads"], run.state.event()
    stage = _write(run, actor, p, (op.buffer, op.at), part=part, bit=bit)
    stage.fenced[part], stage.write_fences[part] = run.state.event(), run.state.event()
    p.known |= bit
    return True
