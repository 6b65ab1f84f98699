"""The reduced search leaves no error out where tensor memory, its fences and meetings are removed, moved or wrong.

Small right pipelines are changed at one operation each, and searched with and without the reduction. That this can fail
is shown too: with a wrong relation between steps the two searches differ.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pytest

from legalsat.analyses.protocol import pipeline_order
from legalsat.analyses.protocol.model_check import explore
from legalsat.program.pipeline import (
    Allocate,
    Arrive,
    At,
    BarrierRing,
    BufferRing,
    CommitTo,
    Fence,
    Free,
    Multiply,
    Operation,
    Pipeline,
    Read,
    Relinquish,
    Role,
    Start,
    Sync,
    UseSums,
    Wait,
    Write,
)

Body = tuple[Operation, ...]
MULTIPLY, USE = Multiply("tcgen05", (), "t"), UseSums("t")
BEFORE, AFTER = Fence("tcgen05.before"), Fence("tcgen05.after")
BLOCK, END, A, B = Sync("block"), Sync("end"), Sync("a"), Sync("b")
DONE, FREE = Wait("done"), Wait("free")
NEXT = At("c", 1)


def built(*roles: Body) -> Pipeline:
    barriers = (BarrierRing("done", 1, 1), BarrierRing("free", 1, 1))
    set_up = (Start("done"), Start("free"), Fence("mbarrier_init"), BLOCK, END)
    bodies = (set_up, *roles)
    return Pipeline(barriers, (), tuple(Role(str(n), 1, body) for n, body in enumerate(bodies)), ("t", "u"))


RIGHT: Final = {
    "sums once": built(
        (Allocate(128, ("t",)), Relinquish(), BEFORE, BLOCK, AFTER, MULTIPLY, CommitTo("done"), END, AFTER, Free(128)),
        (BLOCK, AFTER, DONE, AFTER, USE, BEFORE, END),
    ),
    "sums twice": built(
        (
            *(Allocate(128, ("t",)), BLOCK, MULTIPLY, CommitTo("done")),
            *(FREE, AFTER, MULTIPLY, CommitTo("done"), END, Free(128)),
        ),
        (
            *(BLOCK, DONE, AFTER, USE, BEFORE, Arrive("free")),
            *(Wait("done", NEXT), AFTER, USE, BEFORE, END),
        ),
    ),
    "handed over by meetings": built(
        (
            *(Allocate(128, ("t",)), BLOCK, MULTIPLY, CommitTo("done"), DONE, AFTER, BEFORE, A),
            *(B, AFTER, MULTIPLY, CommitTo("done"), Wait("done", NEXT), END, Free(128)),
        ),
        (BLOCK, A, AFTER, USE, BEFORE, B, END),
    ),
    "one allocates when the other has freed": built(
        (BLOCK, Allocate(512, ("t",)), MULTIPLY, CommitTo("done"), DONE, AFTER, USE, Free(512), END),
        (BLOCK, Allocate(256, ("u",)), Free(256), END),
    ),
    "both allocate": built(
        (Allocate(256, ("t",)), BLOCK, END, Free(256)),
        (BLOCK, Allocate(256, ("u",)), Relinquish(), END, Free(256)),
    ),
    "meetings in turn": Pipeline(
        (),
        (BufferRing("P", 1, 32),),
        (Role("fast", 1, (A, Write("P"), A, A)), Role("slow", 1, (A, A, Read("P"), A))),
    ),
}


def changed(pipeline: Pipeline) -> Iterator[Pipeline]:
    """Yield the pipeline with each fence, meeting, allocation or freeing dropped, doubled, moved, or made another."""
    for number, role in enumerate(pipeline.roles):
        for body in dict.fromkeys(_bodies(role.body)):
            if body != role.body:
                roles = (*pipeline.roles[:number], replace(role, body=body), *pipeline.roles[number + 1 :])
                yield replace(pipeline, roles=roles)


def _bodies(body: Body) -> Iterator[Body]:
    for i, op in enumerate(body):
        if not isinstance(op, Fence | Sync | Allocate | Free | Relinquish):
            continue
        rest = (*body[:i], *body[i + 1 :])
        yield rest
        yield (*body[:i], op, *body[i:])
        yield from ((*rest[:j], op, *rest[j:]) for j in range(len(body)))
        yield from ((*body[:i], other, *body[i + 1 :]) for other in _others(op))


def _others(op: Operation) -> tuple[Operation, ...]:
    match op:
        case Allocate():
            return replace(op, columns=512), replace(op, columns=256)
        case Free():
            return (replace(op, columns=256),)
        case Sync():
            return (Sync("odd"),)
        case Fence():
            return (AFTER if op == BEFORE else BEFORE,)
    return ()


def agree(pipeline: Pipeline, seed: int | None) -> bool:
    """Do both searches find an error, or both none? The seed draws which courses come first."""
    plain = explore(pipeline, {}, limit_states=4000, reduced=False)
    assert plain.complete
    return (explore(pipeline, {}, seed=seed).error is None) == (plain.error is None)


@pytest.mark.parametrize("name", RIGHT)
def test_the_pipelines_are_right_before_they_are_changed(name: str) -> None:
    assert explore(RIGHT[name], {}, reduced=False).proven
    assert explore(RIGHT[name], {}).proven


@pytest.mark.parametrize("name", RIGHT)
def test_the_reduction_leaves_no_error_out(name: str) -> None:
    every = list(changed(RIGHT[name]))
    some = random.Random(name).sample(every, min(len(every), 45))
    assert all(agree(pipeline, seed or None) for seed, pipeline in enumerate(some))
    assert len({explore(pipeline, {}).error is None for pipeline in some}) == 2  # some changes do harm, some do not


@pytest.mark.parametrize(
    ("resource", "relation", "name", "seed"),
    [
        ("m", "free", "one allocates when the other has freed", 3),  # fences of sums and uses of sums
        ("m", "ordered", "handed over by meetings", 3),
        ("t", "free", "both allocate", None),  # allocations, freeing, and the promise to allocate no more
        ("t", "ordered", "both allocate", None),
        ("s", "ordered", "meetings in turn", None),  # an arrival at a meeting, and who leaves the one before
    ],
)
def test_a_wrong_relation_of_steps_would_be_noticed(
    resource: str, relation: str, name: str, seed: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(pipeline_order._RELATIONS, resource, lambda *_: relation)
    assert not all(agree(pipeline, seed) for pipeline in changed(RIGHT[name]))
