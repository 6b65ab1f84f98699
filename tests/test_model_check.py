"""The model checker: right pipelines are proven, planted faults are found, and the reduction leaves nothing out."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise

import pytest
from faulty_pipelines import faulty

from bench.kernels.example_pipelines import EXAMPLES, one_buffer, simple_wgmma, single_copy, threads_ring
from legalsat.analyses.protocol.model_check import explore
from legalsat.errors import InvalidInput
from legalsat.program.pipeline import (
    Advance,
    Allocate,
    Arrive,
    At,
    BarrierRing,
    BufferRing,
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
    Role,
    Start,
    Store,
    Sync,
    UseSums,
    Wait,
    WaitGroup,
    Write,
)
from legalsat.view.show_pipeline import timeline

Ops = tuple[Operation, ...]


def without_last(example: str) -> Pipeline:
    """Return an example in which every role lacks its last operation."""
    pipeline = EXAMPLES[example]
    return replace(pipeline, roles=tuple(replace(role, body=role.body[:-1]) for role in pipeline.roles))


def settings(pipeline: Pipeline, trips: int) -> dict[str, int]:
    return {name: min(trips, 3) if name == "tiles" else trips for name in pipeline.symbols}


@pytest.mark.parametrize("name", EXAMPLES)
def test_right_pipelines_are_proven(name: str) -> None:
    pipeline = EXAMPLES[name]
    for trips in range(5):
        verdict = explore(pipeline, settings(pipeline, trips))
        assert verdict.proven, timeline(verdict)


C, T = At("c"), At("t")
BEFORE = At("c", -1)
A, B = Load("A", C, "full", 16384), Load("B", C, "full", 8192)
HALF = Load("B", C, "full", 4096, mask=0b11)
EXPECT = Expect("full", C, 24576)
MULTIPLY = Multiply("wgmma", (("A", C), ("B", C)), "sums")
ISSUE = Multiply("tcgen05", (("A", C), ("B", C)), "sums")
STORE = Store("C", At(""), 2048)
IN_FLIGHT = faulty("simple wgmma", "consumer", WaitGroup("wgmma", 0), WaitGroup("wgmma", 2))
RELEASED_IN_FLIGHT = faulty(IN_FLIGHT, "consumer", Arrive("empty", C), Arrive("empty", C), WaitGroup("wgmma", 0))
RELEASED_EARLY = faulty("threads ring", "reader", Arrive("empty", C, 128))

# What is planted into which role of which example, and what it leads to.
FAULTS: list[tuple[str, Pipeline]] = [
    ("deadlock", faulty("simple wgmma", "consumer", Arrive("empty", C))),
    ("bytes differ", faulty("simple wgmma", "producer", EXPECT, Expect("full", C, 24576 + 16))),
    ("bytes differ", faulty("simple wgmma", "producer", EXPECT, Expect("full", C, 16384))),
    ("bytes differ", faulty("simple wgmma", "producer", B)),
    ("early read", faulty("simple wgmma", "producer", EXPECT, Arrive("full", C))),
    ("two phases back", faulty("simple wgmma, 1 stage", "consumer", Arrive("empty", C), *[Arrive("empty", C)] * 2)),
    ("too many arrivals", faulty("simple wgmma", "producer", EXPECT, EXPECT, Arrive("full", C))),
    ("too many arrivals", faulty("simple wgmma", "producer", Wait("empty", C, before=True))),
    ("overwrite", faulty("simple wgmma", "consumer", WaitGroup("wgmma", 0), WaitGroup("wgmma", 1))),
    ("overwrite", RELEASED_IN_FLIGHT),
    ("deadlock", faulty("wgmma in flight, 1 consumer", "consumer", Arrive("empty", BEFORE), Arrive("empty", C))),
    ("overwrite", faulty(RELEASED_EARLY, "reader", Read("B", C), Arrive("empty", C, 128), Read("B", C))),
    ("overwrite", faulty("stored sums", "consumer", Sync("keepers"))),
    ("overwrite", faulty("persistent wgmma", "consumer", WaitGroup("bulk", 1, read=True))),
    ("early read", faulty("simple wgmma", "consumer", Wait("full", C))),
    ("early read", faulty("copied operands", "producer", WaitGroup("cp.async", 1))),
    ("early read", faulty("tcgen05 once", "epilogue", Wait("sums done"))),
    ("early read", faulty("loads ahead", "all", WaitGroup("wgmma", 0))),
    ("unfenced", faulty("stored sums", "consumer", Fence("proxy.async"))),
    ("unfenced", faulty("converted operand", "converter", Fence("proxy.async"))),
    ("unfenced", faulty("simple wgmma", "consumer", Fence("wgmma"))),
    ("unfenced", faulty("multicast", "producer", Fence("mbarrier_init"))),
    ("unfenced", faulty("tcgen05 once", "epilogue", Fence("tcgen05.after"))),
    ("unfenced", faulty("persistent tcgen05", "epilogue", Fence("tcgen05.before"))),
    ("unfenced", faulty("persistent tcgen05", "issuer", Fence("tcgen05.after"))),
    ("groups not balanced", faulty("stored sums", "consumer", Commit("bulk"))),
    ("not drained", faulty("stored sums", "consumer", WaitGroup("bulk", 0, read=True))),
    ("not drained", faulty(faulty("single copy", "copy", Wait("full")), "copy", Read("A"))),
    ("remote not alive", without_last("multicast")),
    (
        "mask outside cluster",
        faulty("multicast", "producer", HALF, replace(HALF, mask=7)),
    ),
    ("tensor memory not freed", faulty("tcgen05 once", "issuer", Free(128))),
    ("tensor memory not allocated", faulty("tcgen05 once", "issuer", Allocate(128, ("sums",)))),
    ("tensor memory not allocated", faulty("tcgen05 once", "issuer", Free(128), Free(128), Free(128))),
    ("use before init", faulty("simple wgmma", "producer", Start("empty"))),
    ("use before init", faulty("simple wgmma", "consumer", Sync("block"))),
]


@pytest.mark.parametrize(("kind", "pipeline"), FAULTS, ids=[f"{i} {kind}" for i, (kind, _) in enumerate(FAULTS)])
def test_planted_faults_are_found(kind: str, pipeline: Pipeline) -> None:
    errors = [explore(pipeline, settings(pipeline, trips)).error for trips in range(5)]
    assert kind in [error.kind for error in errors if error]


def test_the_trip_counts_that_a_fault_needs_are_those_that_show_it() -> None:
    """A ring of 3 stages that is released too early is overwritten once a stage is used again."""
    found = [explore(RELEASED_IN_FLIGHT, {"K tiles": trips}).error for trips in range(6)]
    assert [bool(error) for error in found] == [False] * 4 + [True] * 2


def test_who_has_ended_is_waited_for_no_more_and_ends_no_meeting_of_others() -> None:
    """One that has ended stands for none of those who have yet to come to a meeting before."""
    setup = Role("setup", 1, (Sync("cluster"),))
    writer = Role("writer", 4, (Sync("cluster"), Write("C"), Sync("cluster"), Read("C", cta=1), Sync("cluster")))
    met = Pipeline((), (BufferRing("C", 1, 1024),), (setup, writer), cluster=2)
    assert explore(met, {}).proven
    body = (*writer.body[:2], *writer.body[3:])
    error = explore(replace(met, roles=(setup, replace(writer, body=body))), {}).error
    assert error is not None and error.kind == "early read"


def test_a_fence_of_barriers_for_engines_of_the_block_is_asked_for_only_by_the_letter() -> None:
    pipeline = faulty("simple wgmma", "producer", Fence("mbarrier_init"))
    error = explore(pipeline, {"K tiles": 1}, strict=True).error
    assert error is not None
    assert (error.kind, error.where) == ("unfenced", ("producer", A))
    assert explore(pipeline, {"K tiles": 1}).proven
    assert all(explore(p, settings(p, 2), strict=True).proven for p in EXAMPLES.values())


def test_a_wait_ahead_of_its_phase_passes_by_parity() -> None:
    """Phase 1 of a fresh barrier has the parity of the phase before 0, which counts as over."""
    pipeline = faulty("one buffer", "copy", Wait("full", C), Wait("full", At("c", 1)))
    error = explore(pipeline, {"K tiles": 1}).error
    assert error is not None
    assert (error.kind, error.where) == ("two phases back", ("copy", Wait("full", At("c", 1))))


# The reduction against a search that knows nothing of what commutes.

_RANDOM: tuple[Callable[[random.Random], Ops], ...] = (
    lambda d: (Wait("x", At("c", d.choice((-1, 0, 0, 1))), d.random() < 0.3),),
    lambda d: (Arrive("x", C, d.choice((1, 1, 2))),),
    lambda d: (Expect("x", C, d.choice((16, 32)), d.random() < 0.6),),
    lambda d: (Load(d.choice("PQ"), C, "x", d.choice((16, 32))),),
    lambda d: (Expect("x", C, 16), Load(d.choice("PQ"), C, "x", 16)),
    lambda d: (Read(d.choice("PQ"), C),),
    lambda d: (Write(d.choice("PQ"), C),),
    lambda d: (Write("P", C), Fence("proxy.async")),
    lambda d: (Fence("proxy.async"),),
    lambda d: (Store("P", C, 16), Commit("bulk"), WaitGroup("bulk", d.choice((0, 1)), d.random() < 0.5)),
    lambda d: (CopyIn("Q", C, 16), CopyArrive("x", C)),
    lambda d: (CopyIn("Q", C, 16), Commit("cp.async"), WaitGroup("cp.async", 0)),
    lambda d: (Fence("wgmma"), Multiply("wgmma", (("P", C),), "s"), Commit("wgmma"), WaitGroup("wgmma", 0)),
    lambda d: (Multiply("tcgen05", (("P", C),), "t"), CommitTo("x", C)),
    lambda d: (Fence("tcgen05.after"), UseSums("t"), Fence("tcgen05.before")),
    lambda d: (Sync("both"),),
    lambda d: (Advance("c"),),
)


def random_pipeline(seed: int) -> Pipeline:
    """Return two or three roles that do a few things at random; one of ten or so is right."""
    draw = random.Random(seed)
    barriers = (BarrierRing("x", draw.choice((1, 2)), draw.choice((1, 1, 2))),)
    buffers = BufferRing("P", draw.choice((1, 2)), 32), BufferRing("Q", 1, 32, ("P",) if draw.random() < 0.2 else ())
    start: Ops = (Start("x"), Fence("mbarrier_init"), Allocate(32, ("t",)), Sync("block"))
    roles = [Role("setup", 1, (*start, Sync("end"), Free(32)))]
    for name in range(draw.choice((1, 2, 2))):
        body = tuple(op for _ in range(draw.randint(1, 4)) for op in draw.choice(_RANDOM)(draw))
        roles.append(Role(str(name), 1, (Sync("block"), *body, Sync("end")), draw.choice((1, 1, 1, 2))))
    return Pipeline(barriers, buffers, tuple(roles), ("s", "t"))


def mutants(pipeline: Pipeline) -> Iterator[Pipeline]:
    """Yield the pipeline with each operation dropped, doubled, or moved behind the next one."""
    for number, role in enumerate(pipeline.roles):
        for body in _bodies(role.body):
            roles = (*pipeline.roles[:number], replace(role, body=body), *pipeline.roles[number + 1 :])
            yield replace(pipeline, roles=roles)


def _bodies(body: Ops) -> Iterator[Ops]:
    for i, op in enumerate(body):
        yield (*body[:i], *body[i + 1 :])
        if isinstance(op, Loop | Guard):
            yield from ((*body[:i], replace(op, body=inner), *body[i + 1 :]) for inner in _bodies(op.body))
        else:
            yield (*body[: i + 1], *body[i:])
        if i + 1 < len(body):
            yield (*body[:i], body[i + 1], op, *body[i + 2 :])


def agree(pipeline: Pipeline, values: dict[str, int], seed: int) -> bool | None:
    """Tell whether both searches find an error or both find none; None if there are too many states to tell."""
    plain = explore(pipeline, values, limit_states=2500, reduced=False)
    return (explore(pipeline, values, seed=seed).error is None) == (plain.error is None) if plain.complete else None


def test_the_reduction_leaves_no_error_out_of_random_pipelines() -> None:
    told = [agree(random_pipeline(seed), {}, seed) for seed in range(130)]
    assert False not in told
    assert told.count(True) > 115
    assert 5 < sum(explore(random_pipeline(seed), {}).proven for seed in range(130)) < 65


def test_the_reduction_leaves_no_error_out_of_mutants() -> None:
    draw = random.Random(4)
    every = [mutant for pipeline in EXAMPLES.values() for mutant in mutants(pipeline)]
    told = [
        agree(mutant, settings(mutant, draw.choice((1, 2))), number)
        for number, mutant in enumerate(draw.sample(every, 35))
    ]
    assert False not in told
    assert told.count(True) > 20


def test_one_course_stands_for_all_of_a_right_pipeline() -> None:
    """Nothing clashes, so the number of states is that of one course: linear in the trips."""
    states = [explore(EXAMPLES["wgmma in flight"], {"K tiles": trips}).states for trips in (4, 5, 6, 7)]
    assert len({after - before for before, after in pairwise(states)}) == 1
    plain = explore(simple_wgmma(1), {"K tiles": 1}, reduced=False)
    assert plain.proven
    assert plain.states > explore(simple_wgmma(1), {"K tiles": 1}).states


# What is said.


def test_a_timeline_ends_with_what_is_wrong() -> None:
    pipeline = faulty(single_copy(), "copy", Wait("full"))
    assert (
        timeline(explore(pipeline, {}))
        == """\
   copy
1  start full
2  fence mbarrier_init
3  reach sync block
4  leave sync block
5  expect full[0] 16384 B
6  load A[0]: item 0
7  ! read A[0]: item 0

early read: a load of copy still writes item 0 of A[0] while copy reads item 0 of A[0]"""
    )


def test_a_timeline_has_a_column_for_each_role_and_engine() -> None:
    lines = timeline(
        explore(faulty(threads_ring(2, 1), "reader", Arrive("empty", C, 128)), {"K tiles": 3})
    ).splitlines()
    columns = [lines[0].index(name) for name in ("producer", "reader", "copy engine")]
    assert columns == sorted(columns)
    assert sum(line[columns[2] :].startswith("fills") for line in lines) == 4
    assert [line.split("! ")[1] for line in lines if "! " in line] == ["wait empty[0] phase 0", "wait full[0] phase 1"]
    assert " ".join(lines[-2:]).startswith(
        "deadlock: producer waits for ever: wait empty[0] phase 0, where 128 arrivals"
    )


def test_steps_that_an_error_does_not_need_are_left_out() -> None:
    """The second reader and the producer's way ahead have no part in the first reader's early read."""
    two = faulty(threads_ring(2, 2), "reader", Wait("full", C))
    text = timeline(explore(two, {"K tiles": 4}))
    assert "item 1" not in text
    assert "early read" in text


def test_a_wide_timeline_names_who_in_each_row() -> None:
    lines = timeline(
        explore(faulty("persistent tcgen05", "issuer", Free(256)), {"tiles": 1, "K tiles": 1})
    ).splitlines()
    assert max(map(len, lines)) <= 120
    assert lines[0].split()[:2] == ["1", "producer"]
    assert lines[-1] == "tensor memory not freed: the block ends with 256 columns allocated"


def test_right_pipelines_and_unfinished_searches_say_so() -> None:
    assert timeline(explore(one_buffer(), {"K tiles": 2})) == "nothing goes wrong, whatever the order of steps"
    cut = explore(one_buffer(), {"K tiles": 50}, limit_states=20)
    assert (cut.complete, cut.error) == (False, None)
    assert timeline(cut) == "nothing goes wrong in the 20 states that were visited"


def test_bad_input_is_refused() -> None:
    with pytest.raises(InvalidInput, match="K tiles"):
        explore(one_buffer(), {})
    with pytest.raises(InvalidInput, match="no buffer"):
        explore(Pipeline((), (), (Role("r", 1, (Read("A"),)),)), {})
    with pytest.raises(InvalidInput, match="no barrier"):
        explore(Pipeline((), (), (Role("r", 1, (Wait("full"),)),)), {})
