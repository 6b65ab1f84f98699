"""Faults planted into the pipelines of `pipelines.py` by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from bench.kernels.example_pipelines import EXAMPLES, Ops
from legalsat.program.pipeline import Guard, Loop, Operation, Pipeline


def edited(body: Ops, wanted: Callable[[Operation], bool], change: Callable[[Operation], Ops]) -> Ops:
    """Return a body in which every operation that is wanted is changed, inside of loops too."""
    found: list[Operation] = []
    for op in body:
        inner = replace(op, body=edited(op.body, wanted, change)) if isinstance(op, Loop | Guard) else op
        found += change(op) if wanted(op) else (inner,)
    return tuple(found)


def faulty(example: str | Pipeline, role: str, op: Operation, *instead: Operation) -> Pipeline:
    """Return an example in which an operation of a role is replaced."""
    pipeline = EXAMPLES[example] if isinstance(example, str) else example
    roles = [
        replace(r, body=edited(r.body, lambda o: o == op, lambda _: instead)) if r.name == role else r
        for r in pipeline.roles
    ]
    assert tuple(roles) != pipeline.roles, f"{role} has no {op}"
    return replace(pipeline, roles=tuple(roles))
