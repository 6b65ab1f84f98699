"""The executable model: right pipelines give right data on every schedule, wrong ones hang or err on some."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from faulty_pipelines import faulty

from bench.kernels.example_pipelines import EXAMPLES, fill, handed_to_storer, one_buffer, single_copy, start
from legalsat.analyses.protocol.pipeline_run import POISON, SCHEDULES, Bytes, Hooks, Now, Schedule, Sums, run
from legalsat.errors import InvalidInput
from legalsat.program.pipeline import (
    Advance,
    Arrive,
    At,
    BarrierRing,
    BufferRing,
    Commit,
    CommitTo,
    Expect,
    Fence,
    Load,
    Loop,
    Multiply,
    Operation,
    Pipeline,
    Read,
    Role,
    Store,
    Sync,
    Trips,
    UseSums,
    Wait,
    WaitGroup,
    Write,
)

M, N, K = 4, 3, 2  # a tile of A is M x K, of B K x N, of 4-byte numbers
A_BYTES, B_BYTES, C_BYTES = 4 * M * K, 4 * K * N, 4 * M * N
C, T = At("c"), At("t")
Numbers = npt.NDArray[np.float32]


def numbers(data: Bytes, rows: int, columns: int) -> Numbers:
    return data[: 4 * rows * columns].copy().view(np.float32).reshape(rows, columns)


@dataclass
class Product:
    """C = A B by tiles along K, for a number of tiles of rows."""

    tiles: int
    depth: int
    seed: int = 0
    a: Numbers = field(init=False)
    b: Numbers = field(init=False)
    c: Numbers = field(init=False)

    def __post_init__(self) -> None:
        draw = np.random.default_rng(self.seed)
        self.a = draw.integers(-4, 5, (self.tiles, M, max(1, self.depth) * K)).astype(np.float32)
        self.b = draw.integers(-4, 5, (max(1, self.depth) * K, N)).astype(np.float32)
        self.c = np.full((self.tiles, M, N), np.nan, np.float32)

    def load(self, now: Now, count: int) -> Bytes:
        assert isinstance(now.op, Load)
        tile, step = divmod(now.item, self.depth)
        along = slice(step * K, step * K + K)
        part = self.a[tile][:, along] if now.op.buffer == "A" else self.b[along]
        data = np.frombuffer(part.tobytes(), np.uint8)
        assert len(data) == count
        return data

    def multiply(self, now: Now, operands: Sequence[Bytes], sums: Sums | None) -> Sums:
        a, b = numbers(operands[0], M, K), numbers(operands[1], K, N)
        fresh = now.item % self.depth == 0 or sums is None
        return a @ b if fresh or sums is None else sums + a @ b

    def write(self, now: Now, stage: Bytes, sums: Mapping[str, Sums | None]) -> None:
        found = sums.get("sums")
        value = np.zeros((M, N), np.float32) if found is None or not self.depth else found.astype(np.float32)
        stage[:C_BYTES] = np.frombuffer(value.tobytes(), np.uint8)

    def store(self, now: Now, data: Bytes) -> None:
        self.c[now.item] = numbers(data, M, N)

    def hooks(self) -> Hooks:
        return Hooks(load=self.load, multiply=self.multiply, write=self.write, store=self.store)

    def right(self) -> bool:
        expected = self.a @ self.b if self.depth else np.zeros_like(self.c)
        return bool(np.array_equal(self.c, expected))


TURN = (
    Wait("full", C),
    Fence("wgmma"),
    Multiply("wgmma", (("A", C), ("B", C)), "sums"),
    Commit("wgmma"),
    WaitGroup("wgmma", 0),
    Arrive("empty", C),
    Advance("c"),
)
LOADS = (
    Wait("empty", C, before=True),
    *fill(C, buffers=(("A", A_BYTES), ("B", B_BYTES))),
    Advance("c"),
)
TILE = (
    Loop(Trips("k"), TURN),
    UseSums("sums"),
    WaitGroup("bulk", 1, read=True),
    Write("C", T),
    Fence("proxy.async"),
    Store("C", T, C_BYTES),
    Commit("bulk"),
    Advance("t"),
)


def wgmma_product(stages: int) -> Pipeline:
    consumer = (Sync("block"), Loop(Trips("tiles"), TILE), WaitGroup("bulk", 0, read=True))
    producer = (*start("full", "empty"), Loop(Trips("tiles"), (Loop(Trips("k"), LOADS),)))
    return Pipeline(
        (BarrierRing("full", stages, 1), BarrierRing("empty", stages, 1)),
        (BufferRing("A", stages, A_BYTES), BufferRing("B", stages, B_BYTES), BufferRing("C", 2, C_BYTES)),
        (Role("producer", 1, producer), Role("consumer", 4, consumer)),
        ("sums",),
    )


def outcomes(pipeline: Pipeline, tiles: int, depth: int, seeds: int) -> Iterator[str]:
    for seed, schedule in product(range(seeds), SCHEDULES):
        problem = Product(tiles, depth, seed)
        went = run(pipeline, {"tiles": tiles, "k": depth}, problem.hooks(), seed=seed, schedule=schedule)
        yield "hang" if not went.finished else "right" if problem.right() else "wrong"


@pytest.mark.parametrize(
    ("stages", "tiles", "depth"), [(1, 1, 1), (1, 2, 3), (2, 1, 5), (3, 2, 4), (3, 3, 0), (2, 0, 3)]
)
def test_a_right_product_is_right_on_every_schedule(stages: int, tiles: int, depth: int) -> None:
    assert set(outcomes(wgmma_product(stages), tiles, depth, 4)) == {"right"}


ALTERED: list[tuple[str, str, Operation, tuple[Operation, ...]]] = [
    ("hang", "consumer", Arrive("empty", C), ()),
    ("hang", "producer", Expect("full", C, A_BYTES + B_BYTES), (Expect("full", C, A_BYTES + B_BYTES + 16),)),
    ("hang", "producer", Load("B", C, "full", B_BYTES), ()),
    ("hang", "producer", Expect("full", C, A_BYTES + B_BYTES), (Expect("full", C, A_BYTES),)),
    ("hang", "producer", Wait("empty", C, before=True), ()),
    ("wrong", "consumer", Wait("full", C), ()),
    ("hang", "consumer", Wait("full", C), (Wait("full", C, before=True),)),
    ("wrong", "consumer", WaitGroup("wgmma", 0), (WaitGroup("wgmma", 1),)),
    ("wrong", "consumer", Fence("proxy.async"), ()),
    ("wrong", "consumer", WaitGroup("bulk", 1, read=True), ()),
    ("wrong", "consumer", Multiply("wgmma", (("A", C), ("B", C)), "sums"), ()),
]


@pytest.mark.parametrize(("outcome", "role", "op", "instead"), ALTERED, ids=[f"{i}" for i in range(len(ALTERED))])
def test_a_wrong_product_fails_on_some_schedule(
    outcome: str, role: str, op: Operation, instead: tuple[Operation, ...]
) -> None:
    assert outcome in outcomes(faulty(wgmma_product(2), role, op, *instead), 4, 2, 8)


def test_some_schedules_hide_what_others_show() -> None:
    """Without its wait, the consumer is right as long as loads are faster than it is."""
    pipeline = faulty(wgmma_product(2), "consumer", Wait("full", C))

    def outcome(schedule: Schedule, seed: int) -> bool:
        problem = Product(1, 2)
        went = run(pipeline, {"tiles": 1, "k": 2}, problem.hooks(), seed=seed, schedule=schedule)
        return went.finished and problem.right()

    assert {outcome(schedule, seed) for schedule in SCHEDULES for seed in range(8)} == {True, False}


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_ends_on_every_schedule_and_breaks_no_rule(name: str) -> None:
    pipeline = EXAMPLES[name]
    for seed, schedule in enumerate(SCHEDULES):
        went = run(pipeline, dict.fromkeys(pipeline.symbols, 2), seed=seed, schedule=schedule, checks=True)
        assert (went.finished, went.error) == (True, None)


def _reads(into: list[Bytes]) -> Callable[[Now, Bytes], None]:
    return lambda now, data: into.append(data.copy())


def test_a_stage_holds_poison_until_its_load_lands() -> None:
    data = np.arange(16384, dtype=np.uint8) % 251
    seen: list[Bytes] = []
    hooks = Hooks(load=lambda now, count: data, read=_reads(seen))
    assert run(single_copy(), {}, hooks).finished
    assert run(faulty(single_copy(), "copy", Wait("full")), {}, hooks, schedule="late").finished
    assert np.array_equal(seen[0], data)
    assert set(seen[1].tolist()) == {POISON}


def test_boxes_and_shares_lie_one_behind_the_other() -> None:
    """Two boxes of one load and two instances that copy a part each fill a stage together."""
    seen: list[Bytes] = []
    asked: list[tuple[int, int]] = []

    def load(now: Now, count: int) -> Bytes:
        asked.append((now.instance, now.offset))
        return np.full(count, now.offset // count, np.uint8)

    boxes = faulty(
        single_copy(),
        "copy",
        Load("A", At(""), "full", 16384),
        Load("A", At(""), "full", 8192),
        Load("A", At(""), "full", 8192),
    )
    assert run(boxes, {}, Hooks(load=load, read=_reads(seen))).finished
    assert run(EXAMPLES["copy arrive ring"], {"K tiles": 1}, Hooks(load=load, read=_reads(seen))).finished
    assert [set(part.tolist()) for one in seen for part in np.split(one, 2)] == [{0}, {1}] * 2
    assert sorted(asked) == [(0, 0), (0, 0), (0, 8192), (1, 8192)]


def test_halves_that_two_blocks_load_for_each_other_make_a_whole() -> None:
    seen: list[set[int]] = []

    def load(now: Now, count: int) -> Bytes:
        return np.full(count, 10 * now.cta + 1, np.uint8)

    def multiply(now: Now, operands: Sequence[Bytes], sums: Sums | None) -> Sums:
        halves = np.split(operands[1], 2)
        seen.append({int(half.min()) for half in halves} | {int(half.max()) for half in halves})
        return np.zeros(0)

    assert run(EXAMPLES["multicast"], {"K tiles": 4}, Hooks(load=load, multiply=multiply)).finished
    assert seen == [{1, 11}] * 8


def test_the_async_proxy_sees_what_threads_wrote_only_after_their_fence() -> None:
    stored: dict[int, int] = {}

    def write(now: Now, stage: Bytes, sums: Mapping[str, Sums | None]) -> None:
        stage[:] = now.item

    hooks = Hooks(write=write, store=lambda now, data: stored.update({now.item: int(data[0])}))
    assert run(handed_to_storer(), {"K tiles": 4}, hooks, schedule="late").finished
    assert stored == {item: item for item in range(4)}
    assert run(
        faulty(handed_to_storer(), "writer", Fence("proxy.async")), {"K tiles": 4}, hooks, schedule="late"
    ).finished
    assert stored[0] == POISON


def test_products_of_tcgen05_are_right_and_read_too_early_without_their_wait() -> None:
    issue = Multiply("tcgen05", (("A", C), ("B", C)), "sums")
    issues = (Wait("full", C), issue, CommitTo("empty", C), Advance("c"))
    base = wgmma_product(2)
    fetch = (Wait("done"), Fence("tcgen05.after"), UseSums("sums"), *TILE[3:-1], WaitGroup("bulk", 0, read=True))
    roles = (
        Role("producer", 1, (*start("full", "empty", "done"), Loop(Trips("k"), LOADS))),
        Role("issuer", 1, (Sync("block"), Loop(Trips("k"), issues), CommitTo("done"))),
        Role("epilogue", 4, (Sync("block"), *fetch)),
    )
    right = Pipeline((*base.barriers, BarrierRing("done", 1, 1)), base.buffers, roles, ("sums",))
    assert set(outcomes(right, 1, 4, 3)) == {"right"}
    assert "wrong" in outcomes(faulty(right, "epilogue", Wait("done")), 1, 4, 3)


def test_a_seed_is_a_schedule() -> None:
    def events(seed: int) -> list[str]:
        went = run(EXAMPLES["persistent wgmma"], {"tiles": 2, "K tiles": 2}, seed=seed, keeps=True)
        assert len(went.events) == went.steps
        return [event.text for event in went.events]

    assert events(1) == events(1)
    assert events(1) != events(2)
    assert sorted(events(1)) == sorted(events(2))


def test_a_run_tells_what_it_breaks() -> None:
    error = run(faulty(one_buffer(), "copy", Wait("full", C)), {"K tiles": 1}, schedule="late", checks=True).error
    assert error is not None
    assert (error.kind, error.where) == ("early read", ("copy", Read("A", C)))


def test_a_run_that_takes_too_long_counts_as_hanging() -> None:
    assert not run(one_buffer(), {"K tiles": 100}, limit=50).finished


def test_bad_input_is_refused() -> None:
    with pytest.raises(InvalidInput, match="K tiles"):
        run(one_buffer(), {})
