"""Faults planted into a pipeline: every kind that makes sense, at every place where it can be.

`bench.kernels.typestate_agreement` counts what the typestate check and the model checker find of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from legalsat.program.pipeline import (
    Advance,
    Allocate,
    Arrive,
    At,
    BarrierRing,
    Commit,
    CommitTo,
    CopyArrive,
    CopyIn,
    Expect,
    Fence,
    Free,
    Guard,
    Load,
    Loop,
    Multiply,
    Operation,
    Pipeline,
    Read,
    Relinquish,
    Role,
    Start,
    Store,
    Sync,
    Trips,
    UseSums,
    Wait,
    WaitGroup,
    Write,
    walk,
)

Body: TypeAlias = tuple[Operation, ...]
Place: TypeAlias = tuple[int, ...]  # indices into bodies, from the role's inwards
Change: TypeAlias = tuple[str, Body]  # a kind, and what stands in place of an operation


@dataclass(frozen=True, slots=True)
class Mutant:
    """A pipeline with one fault: its kind, where it is, and the pipeline."""

    kind: str
    where: str
    pipeline: Pipeline


def mutants(pipeline: Pipeline) -> Iterator[Mutant]:
    """Yield every mutant; those that equal the pipeline or each other are left out."""
    seen = {pipeline}
    for mutant in (*_of_operations(pipeline), *_of_orders(pipeline), *_of_rings(pipeline), *_of_roles(pipeline)):
        if mutant.pipeline not in seen:
            seen.add(mutant.pipeline)
            yield mutant


def places(body: Body, at: Place = ()) -> Iterator[tuple[Place, Operation]]:
    """Yield every operation and its place, loops before their bodies."""
    for i, op in enumerate(body):
        yield (*at, i), op
        if isinstance(op, Loop | Guard):
            yield from places(op.body, (*at, i))


def replaced(body: Body, at: Place, new: Body, length: int = 1) -> Body:
    """Return a body with `length` operations from a place on replaced."""
    i = at[0]
    if len(at) == 1:
        return (*body[:i], *new, *body[i + length :])
    op = body[i]
    assert isinstance(op, Loop | Guard)
    return (*body[:i], replace(op, body=replaced(op.body, at[1:], new, length)), *body[i + 1 :])


def _with_body(pipeline: Pipeline, number: int, body: Body) -> Pipeline:
    roles = list(pipeline.roles)
    roles[number] = replace(roles[number], body=body)
    return replace(pipeline, roles=tuple(roles))


def _of_operations(pipeline: Pipeline) -> Iterator[Mutant]:
    for number, role in enumerate(pipeline.roles):
        for at, op in places(role.body):
            for kind, new in changes(op, pipeline):
                where = f"{role.name} {'.'.join(map(str, at))}: {type(op).__name__}"
                yield Mutant(kind, where, _with_body(pipeline, number, replaced(role.body, at, new)))


def _of_orders(pipeline: Pipeline) -> Iterator[Mutant]:
    """Swap neighbours whose order may matter, and move what frees or fetches ahead of what it waits for."""
    for number, role in enumerate(pipeline.roles):
        found = dict(places(role.body))
        for at, op in found.items():
            following = (*at[:-1], at[-1] + 1)
            other = found.get(following)
            if other is None:
                continue
            for (first, second), kind in _ORDERS.items():
                if isinstance(op, first) and isinstance(other, second):
                    where = f"{role.name} {'.'.join(map(str, at))}: {type(op).__name__}, {type(other).__name__}"
                    body = replaced(role.body, at, (other, op), 2)
                    yield Mutant(kind, where, _with_body(pipeline, number, body))


_ORDERS: dict[tuple[Any, Any], str] = {
    (WaitGroup, Arrive): "release before the group's wait",
    (WaitGroup, Guard): "release before the group's wait",
    (Read, Arrive): "release before the read",
    (Wait, Expect): "expectation before the wait",
    (Wait, Load | CopyIn | Write): "write before the wait",
    (Wait, Read | Multiply | Store): "read before the wait",
    (Wait, Fence): "fence before the wait",
    (Expect, Load): "expectation after the load",
    (Fence, Sync): "fence after the meeting",
    (Fence, Arrive): "fence after the arrival",
    (Write, Fence): "write after the fence",
    (Sync, Store): "store before the meeting",
    (Sync, Write): "write before the meeting",
    (Commit, WaitGroup): "commit after the wait",
    (WaitGroup, UseSums): "sums used before the wait",
    (UseSums, Fence): "sums used after the fence",
    (Sync, Fence): "fence before the meeting",
    (Sync, Free): "freed before the meeting",
    (Fence, Free): "freed before the fence",
    (Arrive, Advance): "arrival after the advance",
    (Multiply, CommitTo): "commit before the multiplication",
    (CommitTo, Advance): "commit after the advance",
    (CopyIn, CopyArrive): "arrival before the copy",
    (Allocate, Relinquish): "allocation after the promise",
    (UseSums, Arrive): "release before the sums are used",
}


def _shifted(at: At, by: int) -> At:
    return At(at.cursor, at.offset + by)


def _box(barrier: str, pipeline: Pipeline) -> int:
    """Return the bytes of the smallest copy that a barrier counts."""
    ops = (op for role in pipeline.roles for op in walk(role.body))
    return min((op.bytes for op in ops if isinstance(op, Load) and op.barrier == barrier), default=16)


def changes(op: Operation, pipeline: Pipeline) -> Iterator[Change]:
    """Yield what a fault makes of an operation."""
    name = _NAMES.get(type(op))
    if name is not None:
        yield f"{name} dropped", ()
        if name not in _ONCE:
            yield f"{name} doubled", (op, op)
    if isinstance(op, Fence):
        yield f"fence {op.kind} dropped", ()
    if isinstance(op, Commit):
        yield f"commit {op.family} dropped", ()
        yield f"commit {op.family} doubled", (op, op)
    if isinstance(op, _STAGED) and op.at.cursor:
        yield f"{name} a stage late", (replace(op, at=_shifted(op.at, 1)),)
        yield f"{name} a stage early", (replace(op, at=_shifted(op.at, -1)),)
    change = _CHANGES.get(type(op))
    if change is not None:
        yield from change(op, pipeline)


_STAGED = Wait | Arrive | Expect | CopyArrive | CommitTo | Load | CopyIn | Store | Read | Write
_NAMES: dict[type, str] = {
    Wait: "wait",
    Arrive: "arrival",
    Expect: "expectation",
    Load: "load",
    CopyIn: "copy",
    CopyArrive: "copies' arrival",
    Store: "store",
    Read: "read",
    Write: "write",
    Multiply: "multiplication",
    WaitGroup: "group's wait",
    CommitTo: "tcgen05 commit",
    Sync: "meeting",
    Start: "start",
    Advance: "advance",
    Allocate: "allocation",
    Free: "free",
    UseSums: "use of sums",
}
# What nobody minds twice in a row, or what is a fault of another kind.
_ONCE = {"wait", "group's wait", "read", "write", "use of sums", "multiplication"}


def _of_wait(op: Wait, pipeline: Pipeline) -> Iterator[Change]:
    yield "parity flipped", (replace(op, before=not op.before),)
    for ring in pipeline.barriers:
        if ring.name != op.barrier:
            yield "wait for another barrier", (replace(op, barrier=ring.name),)


def _of_arrive(op: Arrive, pipeline: Pipeline) -> Iterator[Change]:
    yield "one arrival more", (replace(op, count=op.count + 1),)
    if op.count > 1:
        yield "one arrival fewer", (replace(op, count=op.count - 1),)
    if pipeline.cluster > 1:
        yield "arrival at the wrong block", (replace(op, cta=(op.cta + 1) % pipeline.cluster),)
    for ring in pipeline.barriers:
        if ring.name != op.barrier:
            yield "arrival at another barrier", (replace(op, barrier=ring.name),)


def _of_expect(op: Expect, pipeline: Pipeline) -> Iterator[Change]:
    box = _box(op.barrier, pipeline)
    yield "a box too many expected", (replace(op, bytes=op.bytes + box),)
    yield "a box too few expected", (replace(op, bytes=op.bytes - box),)
    yield "bytes off by 16", (replace(op, bytes=op.bytes - 16),)
    yield (
        "expectation without arrival" if op.arrives else "expectation arrives too",
        (replace(op, arrives=not op.arrives),),
    )
    if op.arrives:
        yield "arrival without expectation", (Arrive(op.barrier, op.at),)


def _of_load(op: Load, pipeline: Pipeline) -> Iterator[Change]:
    yield "half of the bytes loaded", (replace(op, bytes=op.bytes // 2),)
    for cta in range(pipeline.cluster):
        if op.mask ^ 1 << cta:
            yield "mask with a wrong bit", (replace(op, mask=op.mask ^ 1 << cta),)
    yield "mask outside of the cluster", (replace(op, mask=op.mask | 1 << pipeline.cluster),)
    for ring in pipeline.barriers:
        if ring.name != op.barrier:
            yield "load counted on another barrier", (replace(op, barrier=ring.name),)


def _of_read(op: Read, pipeline: Pipeline) -> Iterator[Change]:
    if pipeline.cluster > 1:
        yield "read of the wrong CTA", (replace(op, cta=(op.cta + 1) % pipeline.cluster),)


def _of_multiply(op: Multiply, pipeline: Pipeline) -> Iterator[Change]:
    for by, kind in ((1, "multiplication of a later stage"), (-1, "multiplication of an earlier stage")):
        for i, (name, at) in enumerate(op.reads):
            if at.cursor:
                reads = (*op.reads[:i], (name, _shifted(at, by)), *op.reads[i + 1 :])
                yield kind, (replace(op, reads=reads),)
    if op.at.cursor:
        yield "multiplication into another accumulator", (replace(op, at=_shifted(op.at, 1)),)


def _of_use_sums(op: UseSums, pipeline: Pipeline) -> Iterator[Change]:
    if op.at.cursor:
        yield "use of another accumulator", (replace(op, at=_shifted(op.at, 1)),)


def _of_wait_group(op: WaitGroup, pipeline: Pipeline) -> Iterator[Change]:
    yield "one group more left pending", (replace(op, pending=op.pending + 1),)
    if op.pending:
        yield "one group fewer left pending", (replace(op, pending=op.pending - 1),)


def _of_advance(op: Advance, pipeline: Pipeline) -> Iterator[Change]:
    yield "advance too far", (replace(op, by=op.by + 2),)


def _of_free(op: Free, pipeline: Pipeline) -> Iterator[Change]:
    yield "fewer columns freed", (Free(op.columns // 2),)


def _of_loop(op: Loop, pipeline: Pipeline) -> Iterator[Change]:
    yield "one turn more", (replace(op, trips=_more(op.trips, 1)),)
    yield "one turn fewer", (replace(op, trips=_more(op.trips, -1)),)


def _of_guard(op: Guard, pipeline: Pipeline) -> Iterator[Change]:
    yield "guard forgotten", op.body
    yield "guarded operations dropped", ()
    yield "guard too late", (replace(op, trips=_more(op.trips, 1 if op.cursor else -1)),)
    yield "guard too early", (replace(op, trips=_more(op.trips, -1 if op.cursor else 1)),)


def _more(trips: Trips, by: int) -> Trips:
    return replace(trips, plus=trips.plus + by)


_CHANGES: dict[type, Callable[[Any, Pipeline], Iterator[Change]]] = {
    Wait: _of_wait,
    Arrive: _of_arrive,
    Expect: _of_expect,
    Load: _of_load,
    Read: _of_read,
    Multiply: _of_multiply,
    UseSums: _of_use_sums,
    WaitGroup: _of_wait_group,
    Advance: _of_advance,
    Free: _of_free,
    Loop: _of_loop,
    Guard: _of_guard,
}


def _of_rings(pipeline: Pipeline) -> Iterator[Mutant]:
    """Change counts of barriers, and the stages of one ring alone."""
    for i, ring in enumerate(pipeline.barriers):
        for by in (1, -1):
            less = "more" if by > 0 else "fewer"
            changed = (
                (f"{less} arrivals initialised", replace(ring, arrivals=ring.arrivals + by)),
                (f"{less} stages of a barrier", replace(ring, stages=ring.stages + by)),
            )
            for kind, new in changed:
                if new.stages:
                    barriers: tuple[BarrierRing, ...] = (*pipeline.barriers[:i], new, *pipeline.barriers[i + 1 :])
                    yield Mutant(kind, ring.name, replace(pipeline, barriers=barriers))
    for i, buffer in enumerate(pipeline.buffers):
        for by in (1, -1):
            if buffer.stages + by:
                changed_buffer = replace(buffer, stages=buffer.stages + by)
                buffers = (*pipeline.buffers[:i], changed_buffer, *pipeline.buffers[i + 1 :])
                kind = f"{'more' if by > 0 else 'fewer'} stages of a buffer"
                yield Mutant(kind, buffer.name, replace(pipeline, buffers=buffers))


def _of_roles(pipeline: Pipeline) -> Iterator[Mutant]:
    """Change how many instances a role has, or leave it out."""
    for i, role in enumerate(pipeline.roles):
        others: tuple[Role, ...] = (*pipeline.roles[:i], *pipeline.roles[i + 1 :])
        if others:
            yield Mutant("role left out", role.name, replace(pipeline, roles=others))
        for by in (1, -1):
            if role.instances + by:
                new = (*pipeline.roles[:i], replace(role, instances=role.instances + by), *pipeline.roles[i + 1 :])
                kind = f"{'more' if by > 0 else 'fewer'} instances"
                yield Mutant(kind, role.name, replace(pipeline, roles=new))
