"""CTAs of a cluster that are all alike: two of them stand for any number.

Where no CTA loads into, or arrives at, another one, they share nothing but the cluster's barrier and what they read of
each other's buffers. What the rules judge is then of one CTA or of two: whether each comes to the barrier, and whether
a read of one is ordered after a write of the other, which a barrier that more take part in orders as well. So a cluster
of any two of them is judged: the first, and the one after it, of which either may do more where a count that all share
says how many of the first ones do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from legalsat.program.pipeline import Arrive, CommitTo, Guard, Load, Loop, Operation, Pipeline, Read, Role, Trips, walk

Body = tuple[Operation, ...]


def paired(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline of two CTAs that stand for all of a pipeline's, or the pipeline where they are not alike."""
    count = pipeline.cluster
    if count <= 2 or any(_reaches(op) for role in pipeline.roles for op in walk(role.body)):
        return pipeline
    each = [[role for role in pipeline.roles if role.runs_in(rank) and role.ctas] for rank in range(count)]
    alike = {tuple(_seen_from(rank, role, count) for role in roles) for rank, roles in enumerate(each)}
    shared = [role for role in pipeline.roles if not role.ctas]
    counted = any(isinstance(op, Guard) and op.trips.plus for role in shared for op in walk(role.body))
    if len(alike) != 1 or counted or any(len(role.ctas) > 1 for role in pipeline.roles):
        return pipeline
    reads = [replace(role, body=tuple(_near(role.body))) for role in pipeline.roles if not set(role.ctas) - {0, 1}]
    return replace(pipeline, roles=tuple(reads), cluster=2)


def _reaches(op: Operation) -> bool:
    """Whether an operation touches barriers of another CTA, or lets the copy engine write there."""
    return (isinstance(op, Arrive) and op.cta != 0) or (isinstance(op, Load | CommitTo) and op.mask != 1)


def _seen_from(rank: int, role: Role, count: int) -> tuple[str, int, int, Body]:
    """Return what a role is but for the CTA that it runs in."""
    return role.name, role.warps, role.instances, tuple(_ranked(role.body, rank, count))


def _ranked(body: Body, rank: int, count: int) -> Iterator[Operation]:
    """Yield operations with guards as the first CTA has them: rank r has those of a count from r + 1 on."""
    for op in body:
        if isinstance(op, Guard):
            trips = Trips(op.trips.name, op.trips.plus + rank) if op.trips.name else op.trips
            yield Guard(trips, tuple(_ranked(op.body, rank, count)), op.cursor)
        elif isinstance(op, Loop):
            yield Loop(op.trips, tuple(_ranked(op.body, rank, count)))
        elif isinstance(op, Read):
            yield replace(op, cta=op.cta % count)
        else:
            yield op


def _near(body: Body) -> Iterator[Operation]:
    """Yield operations that read the CTA itself, and the other one where they read any other."""
    before: Operation | None = None
    for op in body:
        found = op
        if isinstance(op, Guard | Loop):
            found = replace(op, body=tuple(_near(op.body)))
        elif isinstance(op, Read) and op.cta:
            found = replace(op, cta=1)
        if found != before or not isinstance(found, Read):
            yield found
        before = found
