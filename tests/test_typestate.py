"""The typestate check: right pipelines are proven for all trip counts, planted faults are found and named rightly."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from bench.kernels import example_pipelines as pipelines
from bench.kernels.pipeline_mutants import Mutant, mutants
from legalsat.analyses.protocol.model_check import explore
from legalsat.analyses.protocol.typestate import TypestateResult, check
from legalsat.analyses.protocol.typestate_program import InvalidPipeline
from legalsat.program.pipeline import (
    FIRST,
    Advance,
    Arrive,
    At,
    BarrierRing,
    BufferRing,
    Commit,
    Expect,
    Fence,
    Guard,
    Load,
    Loop,
    Operation,
    Pipeline,
    Read,
    Role,
    Start,
    Store,
    Sync,
    Trips,
    Wait,
    WaitGroup,
    Write,
    walk,
)
from legalsat.targets import target

EXAMPLES = pipelines.EXAMPLES
C = At("c")
K = Trips("K tiles")
EVERY = 53  # of the mutants is compared with the model checker; bench.kernels.typestate_agreement compares all


def judged(pipeline: Pipeline, max_forks: int = 4096) -> TypestateResult:
    """Return the result on a chip that has the pipeline's matrix unit."""
    ops = (op for role in pipeline.roles for op in walk(role.body))
    return check(pipeline, target("b200" if any("tcgen05" in str(op) for op in ops) else "h200"), max_forks=max_forks)


def codes(pipeline: Pipeline) -> set[str]:
    """Return the codes of the rules that a pipeline violates."""
    return {d.code for d in judged(pipeline).diagnostics}


def harmful(pipeline: Pipeline) -> bool:
    """Return whether the model checker finds an error for small trip counts."""
    tops = {"tiles": 3}
    for values in product(*(range(tops.get(symbol, 6)) for symbol in pipeline.symbols)):
        verdict = explore(pipeline, dict(zip(pipeline.symbols, values, strict=True)), limit_states=5000)
        if verdict.error:
            return True
    return False


def one(name: str, kind: str, where: str = "") -> Pipeline:
    """Return the first mutant of a kind, at a place whose description has the words."""
    return next(m.pipeline for m in mutants(EXAMPLES[name]) if m.kind == kind and where in m.where)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_right_pipeline_is_proven(name: str) -> None:
    result = judged(EXAMPLES[name])
    assert result.diagnostics == ()
    assert result.proven
    assert result.unproven == ()


@pytest.mark.parametrize("stages", [1, 2, 3, 5, 8])
def test_a_ring_of_any_depth_is_proven(stages: int) -> None:
    assert judged(pipelines.simple_wgmma(stages, 2)).proven
    assert judged(pipelines.tcgen05_once(stages)).proven
    # A group in flight is released a turn late, for which one stage is too few: the loader never gets it back.
    assert judged(pipelines.wgmma_in_flight(stages, 1)).proven == (stages > 1)


@pytest.mark.parametrize(("stages", "accumulators", "warpgroups"), [(2, 1, 1), (3, 2, 2), (5, 3, 1)])
def test_persistent_pipelines_are_proven(stages: int, accumulators: int, warpgroups: int) -> None:
    assert judged(pipelines.persistent_tcgen05(stages, accumulators, warpgroups)).proven
    assert judged(pipelines.persistent_wgmma(stages, warpgroups)).proven


# The example, the kind of mutant, a word of the place, and the rule that names it.
FAULTS = (
    ("simple wgmma", "start dropped", "", "PIPE001"),
    ("simple wgmma", "start doubled", "", "PIPE001"),
    ("simple wgmma", "fence mbarrier_init dropped", "", "PIPE002"),
    ("multicast", "fence mbarrier_init dropped", "", "PIPE003"),
    ("simple wgmma, 2 consumers", "fewer instances", "", "PIPE004"),
    ("simple wgmma", "more arrivals initialised", "empty", "PIPE004"),
    ("simple wgmma", "arrival doubled", "", "PIPE005"),
    ("simple wgmma", "fewer arrivals initialised", "empty", "PIPE021"),
    ("simple wgmma", "a box too many expected", "", "PIPE006"),
    ("simple wgmma", "a box too few expected", "", "PIPE006"),
    ("simple wgmma", "load dropped", "", "PIPE006"),
    ("simple wgmma", "arrival without expectation", "", "PIPE006"),
    ("simple wgmma", "wait a stage early", "consumer", "PIPE009"),
    ("simple wgmma", "wait dropped", "producer", "PIPE011"),
    ("threads ring", "wait dropped", "producer", "PIPE008"),
    ("threads ring", "release before the read", "", "PIPE008"),
    ("simple wgmma", "parity flipped", "consumer", "PIPE007"),
    ("simple wgmma", "load a stage late", "", "PIPE009"),
    ("stored sums", "fence proxy.async dropped", "", "PIPE010"),
    ("copied operands", "fence proxy.async dropped", "", "PIPE010"),
    ("simple wgmma", "one group more left pending", "", "PIPE011"),
    ("simple wgmma", "release before the group's wait", "", "PIPE011"),
    ("tcgen05 once", "commit before the multiplication", "", "PIPE011"),
    ("simple wgmma", "commit wgmma dropped", "", "PIPE012"),
    ("persistent wgmma", "one group more left pending", "1.4: WaitGroup", "PIPE013"),
    ("stored sums", "group's wait dropped", "consumer 11", "PIPE014"),
    ("stored sums", "commit bulk dropped", "", "PIPE012"),
    ("simple wgmma", "one turn more", "producer", "PIPE014"),
    ("multicast", "mask with a wrong bit", "", "PIPE006"),
    ("tcgen05 once", "free dropped", "", "PIPE016"),
    ("tcgen05 once", "free doubled", "", "PIPE016"),
    ("tcgen05 once", "freed before the fence", "", ""),
    ("tcgen05 once", "allocation after the promise", "", "PIPE016"),
    ("multicast", "mask outside of the cluster", "", "PIPE017"),
    ("simple wgmma", "role left out", "producer", "PIPE001"),
    ("simple wgmma", "meeting dropped", "consumer", "PIPE001"),
    ("simple wgmma", "meeting doubled", "consumer", "PIPE018"),
    ("simple wgmma", "one turn fewer", "producer", "PIPE018"),
    ("stored sums", "sums used before the wait", "", "PIPE019"),
    ("tcgen05 once", "guard forgotten", "epilogue", "PIPE019"),
    ("simple wgmma", "fence wgmma dropped", "", "PIPE020"),
    ("tcgen05 once", "fence tcgen05.after dropped", "epilogue 5", "PIPE020"),
    ("persistent tcgen05", "fence tcgen05.before dropped", "epilogue 4", "PIPE020"),
    ("peeled", "guard forgotten", "producer 5", "PIPE014"),
    ("simple wgmma", "fewer stages of a barrier", "full", "PIPE005"),
    ("simple wgmma", "fewer stages of a buffer", "A", "PIPE011"),
    ("simple wgmma", "fewer stages of a barrier", "empty", ""),
)


@pytest.mark.parametrize(("name", "kind", "where", "code"), FAULTS)
def test_a_fault_is_named(name: str, kind: str, where: str, code: str) -> None:
    found = codes(one(name, kind, where))
    assert code in found if code else not found


def test_a_block_of_a_cluster_waits_for_the_others_before_it_ends() -> None:
    alone = EXAMPLES["multicast"]
    roles = tuple(replace(role, body=role.body[:-1]) for role in alone.roles)
    assert "PIPE015" in codes(replace(alone, roles=roles))


def test_more_bytes_than_a_barrier_counts() -> None:
    loads: tuple[Operation, ...] = tuple(Load("A", FIRST, "full", 2**18) for _ in range(4))
    body: tuple[Operation, ...] = (
        *pipelines.start("full"),
        Expect("full", FIRST, 2**20),
        *loads,
        Wait("full"),
        Read("A"),
    )
    pipeline = replace(EXAMPLES["single copy"], roles=(Role("copy", 4, body),))
    assert codes(pipeline) == {"PIPE022"}


def test_a_chip_without_the_unit() -> None:
    assert {d.code for d in check(EXAMPLES["simple wgmma"], target("b200")).diagnostics} == {"PIPE023"}
    assert {d.code for d in check(EXAMPLES["copy groups ring"], target("a100")).diagnostics} == set()


def test_a_phase_may_not_pass_somebody_who_waits_for_it() -> None:
    # A second reader waits for each stage but nobody waits for its release, so the ring may lap it.
    ring = EXAMPLES["simple wgmma"]
    turn = (Wait("full", C), Advance("c"))
    watcher = Role("watcher", 1, (Sync("block"), Loop(pipelines.K, turn)))
    found = judged(replace(ring, roles=(*ring.roles, watcher))).diagnostics
    assert {d.code for d in found} == {"PIPE007"}
    assert "watcher" in found[0].where


def test_an_error_names_the_trip_counts() -> None:
    (found,) = (d for d in judged(one("tcgen05 once", "guard forgotten", "epilogue")).diagnostics)
    assert "(K tiles = 0)" in found.where


def test_a_guaranteed_least_trip_count_is_taken_for_granted() -> None:
    pipeline = one("tcgen05 once", "guard forgotten", "epilogue")
    assert check(pipeline, target("b200"), at_least={"K tiles": 1}).proven


def test_trip_counts_that_never_repeat_are_not_proven() -> None:
    # The reader begins when the loader has counted one symbol, and runs by another.
    ring = pipelines.threads_ring(2, 1, 1)
    skip = Guard(Trips("more"), (Read("A", C),), cursor="c")
    roles = ring.roles[0], replace(ring.roles[1], body=(*ring.roles[1].body, skip))
    result = judged(replace(ring, roles=roles), max_forks=8)
    assert not result.proven
    assert result.unproven or result.diagnostics


def test_two_loops_over_one_symbol_are_proven() -> None:
    ring = pipelines.threads_ring()
    roles = tuple(replace(role, body=(*role.body, role.body[-1])) for role in ring.roles)
    assert judged(replace(ring, roles=roles)).proven


def stored_ring(stages: int, first: int, between: int, last: int, pending: int) -> Pipeline:
    """Return a ring of loads and stores whose loops run at most `first` times, `between` times less, at most `last`."""
    loaded, done, tiles = At("loaded"), At("done"), K.name
    load: tuple[Operation, ...] = (Expect("full", loaded, 64), Load("A", loaded, "full", 64), Advance("loaded"))
    store: tuple[Operation, ...] = (Wait("full", done), Store("A", done, 64), Commit("bulk"), Advance("done"))
    body: tuple[Operation, ...] = (
        *(Start("full"), Fence("mbarrier_init"), Sync("block")),
        Loop(Trips(tiles, most=first), load),
        Loop(Trips(tiles, -between), (*store, WaitGroup("bulk", pending, read=True), *load)),
        Loop(Trips(tiles, most=last), store),
        WaitGroup("bulk", 0, read=True),
    )
    rings = (BarrierRing("full", stages, 1, 64),), (BufferRing("A", stages, 64),)
    return Pipeline(*rings, (Role("block", 1, body),))


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_loops_of_at_most_so_many_turns_are_judged_as_all_trip_counts_are(stages: int) -> None:
    """A ring whose loops begin, go on and end with as many loads ahead is proven, if its stages suffice."""
    right = set()
    for first, between, last, pending in product(range(1, 4), range(1, 4), range(1, 4), range(3)):
        ring = stored_ring(stages, first, between, last, pending)
        verdict = judged(ring)
        assert verdict.proven == (not harmful(ring)), (first, between, last, pending)
        assert verdict.proven or verdict.diagnostics
        right |= {(first, between, last, pending)} if verdict.proven else set()
    assert {(n, n, n, stages - n) for n in range(max(1, stages - 2), stages + 1)} <= right
    assert (stages, stages, stages, 1) not in right


def test_what_is_not_declared_is_refused() -> None:
    ring = EXAMPLES["simple wgmma"]
    with pytest.raises(InvalidPipeline, match="declare it"):
        judged(replace(ring, barriers=ring.barriers[:1]))
    with pytest.raises(InvalidPipeline, match="0 stages"):
        judged(replace(ring, barriers=(*ring.barriers, BarrierRing("none", 0, 1))))
    back = Role("back", 1, (Advance("c", -1),))
    with pytest.raises(InvalidPipeline, match="at least 0"):
        judged(replace(ring, roles=(*ring.roles, back)))


SAMPLE = [
    (name, mutant)
    for number, (name, mutant) in enumerate((n, m) for n, p in EXAMPLES.items() for m in mutants(p))
    if number % EVERY == 0
]


@pytest.mark.parametrize(("name", "mutant"), SAMPLE, ids=lambda value: getattr(value, "kind", value))
def test_every_harmful_mutant_is_flagged(name: str, mutant: Mutant) -> None:
    if not judged(mutant.pipeline, max_forks=300).diagnostics:
        assert not harmful(mutant.pipeline), f"{name}: {mutant.kind} at {mutant.where}"


def test_there_are_many_kinds_of_mutants_and_no_two_are_equal() -> None:
    made = [m for p in EXAMPLES.values() for m in mutants(p)]
    assert len({m.kind for m in made}) >= 40
    for pipeline in EXAMPLES.values():
        of_it = [m.pipeline for m in mutants(pipeline)]
        assert len(set(of_it)) == len(of_it)
        assert pipeline not in of_it


def test_an_arrival_for_another_block_needs_that_block() -> None:
    ring = EXAMPLES["simple wgmma"]
    consumer = ring.roles[1]
    body = (*consumer.body, Arrive("empty", FIRST, cta=1))
    assert codes(replace(ring, roles=(ring.roles[0], replace(consumer, body=body)), cluster=2))


@pytest.mark.parametrize("name", ["block", "cluster", "named"])
@pytest.mark.parametrize("comes", [True, False])
@pytest.mark.parametrize("stays", [True, False])
def test_barriers_of_the_block_and_of_the_cluster_wait_for_every_role(name: str, comes: bool, stays: bool) -> None:
    """Both checkers let only a role that has ended be missed there; a named barrier is of those who name it."""
    starts: tuple[Operation, ...] = (Start("full"), Fence("mbarrier_init"), Sync("block"))
    waits: tuple[Operation, ...] = (Sync(name),) * comes + (Wait("full", FIRST),) * stays
    pipeline = Pipeline(
        (BarrierRing("full", 1, 1),),
        (),
        (
            Role("first", 1, (*starts, Sync(name), Arrive("full", FIRST), Wait("full", FIRST))),
            Role("second", 1, (Sync("block"), *waits)),
        ),
        cluster=2,
    )
    hangs = stays and not comes and name != "named"
    assert codes(pipeline) == ({"PIPE018"} if hangs else set())
    assert judged(pipeline).proven != hangs
    assert harmful(pipeline) == hangs


def by_threads(*, fence: str, writes: bool) -> Pipeline:
    """A warp that loads a stage which another one has read, or written, fenced by either or by none."""
    fenced = Fence("proxy.async")
    empties: tuple[Operation, ...] = (Wait("empty", C, before=True), *(fenced,) * (fence == "loader"))
    loads: tuple[Operation, ...] = (*empties, Expect("full", C, 64), Load("A", C, "full", 64), Advance("c"))
    uses: list[Operation] = [Wait("full", C), Read("A", C), *([Write("A", C)] if writes else [])]
    turn = (*uses, *(fenced,) * (fence == "user"), Arrive("empty", C), Advance("c"))
    start: tuple[Operation, ...] = (Start("full"), Start("empty"), Fence("mbarrier_init"), Sync("block"))
    return Pipeline(
        (BarrierRing("full", 2, 1), BarrierRing("empty", 2, 1)),
        (BufferRing("A", 2, 64),),
        (Role("loader", 1, (*start, Loop(K, loads))), Role("user", 4, (Sync("block"), Loop(K, turn)))),
    )


@pytest.mark.parametrize("writes", [True, False])
@pytest.mark.parametrize("fence", ["user", "loader", ""])
def test_documents_want_a_fence_before_the_copy_engine_overwrites(fence: str, writes: bool) -> None:
    """Warnings of the check of PTX, asked of programs too; nobody but a document is known to want them."""
    found = judged(by_threads(fence=fence, writes=writes))
    wanted = {"PIPE026", "PIPE027"} if writes else {"PIPE027"}
    assert {d.code for d in found.diagnostics} == (set() if fence else wanted)
    assert {d.level for d in found.diagnostics} <= {"warning"}
    assert found.proven
