"""Repairs of pipelines: one number of a barrier set right, where nothing else was wrong.

Setting the bytes expected to those that come ends every wait, and gives wrong data where a copy is missing. So a repair
is applied and judged by the whole contract, and kept only if every stage that is loaded is still filled to its last
byte. Roles move and compute what they did: no other operation is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from legalsat.analyses.protocol.typestate import check
from legalsat.explanation import Repair
from legalsat.program.pipeline import Arrive, CommitTo, Expect, Guard, Load, Loop, Operation, Pipeline, walk
from legalsat.targets import Target

_FORKS = 256  # of trip counts, in the judgement of one candidate


def pipeline_repairs(pipeline: Pipeline, target: Target) -> tuple[Repair, ...]:
    """Return changes of one number of a barrier after which the contract is proven, the bytes expected first.

    Args:
        pipeline: that breaks the contract.
        target: the chip that it is to run on.
    """
    if not _filled(pipeline):
        return ()
    return tuple(
        repair
        for repair in (*_of_bytes(pipeline), *_of_arrivals(pipeline))
        if check(repair.after, target, max_forks=_FORKS).proven
    )


def _filled(pipeline: Pipeline) -> bool:
    """Return whether all stages that are loaded get all of their bytes, as far as the loads' own numbers say."""
    brought: dict[str, int] = {}
    for op in _operations(pipeline):
        if isinstance(op, Load):
            brought[op.buffer] = brought.get(op.buffer, 0) + op.bytes
    sizes = {ring.name: ring.bytes for ring in pipeline.buffers}
    return all(count >= sizes.get(name, 0) for name, count in brought.items())


def _of_bytes(pipeline: Pipeline) -> Iterator[Repair]:
    """Yield pipelines in which a barrier expects what the loads on it bring."""
    for ring in pipeline.barriers:
        brought = sum(op.bytes for op in _operations(pipeline) if isinstance(op, Load) and op.barrier == ring.name)
        expects = [op for op in _operations(pipeline) if isinstance(op, Expect) and op.barrier == ring.name]
        if brought and len(expects) == 1 and expects[0].bytes != brought:
            after = _changed(pipeline, lambda op: replace(op, bytes=brought) if op is expects[0] else op)  # noqa: B023
            yield Repair("bytes", f"expect {brought} bytes on {ring.name} instead of {expects[0].bytes}", after, 0)


def _of_arrivals(pipeline: Pipeline) -> Iterator[Repair]:
    """Yield pipelines in which a barrier waits for as many arrivals as there are in all, or one more or fewer."""
    for n, ring in enumerate(pipeline.barriers):
        together = sum(role.instances * _arrivals(op, ring.name) for role in pipeline.roles for op in walk(role.body))
        for arrivals in dict.fromkeys((together, ring.arrivals - 1, ring.arrivals + 1)):
            if arrivals not in {0, ring.arrivals}:
                rings = (*pipeline.barriers[:n], replace(ring, arrivals=arrivals), *pipeline.barriers[n + 1 :])
                message = f"let {arrivals} arrivals end a phase of {ring.name} instead of {ring.arrivals}"
                yield Repair("arrivals", message, replace(pipeline, barriers=rings), 0)


def _arrivals(op: Operation, barrier: str) -> int:
    """Return how often an operation arrives at a barrier."""
    if isinstance(op, Arrive):
        return op.count * (op.barrier == barrier)
    if isinstance(op, CommitTo):
        return op.mask.bit_count() * (op.barrier == barrier)
    return int(isinstance(op, Expect) and op.barrier == barrier and op.arrives)


def _operations(pipeline: Pipeline) -> Iterator[Operation]:
    for role in pipeline.roles:
        yield from walk(role.body)


def _changed(pipeline: Pipeline, change: Callable[[Operation], Operation]) -> Pipeline:
    """Return a pipeline with its operations changed, inside loops and guards too."""

    def of(body: tuple[Operation, ...]) -> tuple[Operation, ...]:
        return tuple(replace(op, body=of(op.body)) if isinstance(op, Loop | Guard) else change(op) for op in body)

    return replace(pipeline, roles=tuple(replace(role, body=of(role.body)) for role in pipeline.roles))
