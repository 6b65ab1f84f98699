"""Builds the pipeline of a movement: a tile in, perhaps turned, and out; or a ring of tiles."""

from __future__ import annotations

from legalsat.extract.search.views import turned
from legalsat.plan import Launch, SharedTile, View
from legalsat.program.pipeline import (
    FIRST,
    Advance,
    At,
    BarrierRing,
    BufferRing,
    Commit,
    CopyIn,
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
)
from legalsat.rules.movement import COPY_ENGINE

FULL, TILES, MEET = "full", "tiles", Sync("block")
LOADED, DONE = "loaded", "done"


def movement_pipeline(means: str, views: tuple[View, ...], shared: tuple[SharedTile, ...], launch: Launch) -> Pipeline:
    """Return what a block does: one tile, or with a ring a tile a turn while others load.

    Args:
        means: how tiles arrive, one of `legalsat.access.MEANS`.
        views: of the load, and of the store where the copy engine does that.
        shared: the buffers of a block; none where a tile stays in registers.
        launch: of the kernel.
    """
    if not shared:  # from global memory to registers and back
        return Pipeline((), (), (Role("block", launch.warps, ()),))
    source, stages = shared[0], shared[0].stages
    engine = means in COPY_ENGINE
    barriers = (BarrierRing(FULL, stages, 1, source.bytes),) if engine else ()
    buffers = [BufferRing(source.name, stages, source.bytes)]
    buffers += [BufferRing(b.name, b.stages, b.bytes, (source.name,) if b.overlays else ()) for b in shared[1:]]
    start = (Start(FULL), Fence("mbarrier_init"), MEET) if engine else ()
    tile = _one if stages == 1 else _ring
    body = (*start, *tile(means, views, shared))
    return Pipeline(barriers, tuple(buffers), (Role("block", launch.warps, body),))


def _load(means: str, source: SharedTile, at: At) -> tuple[Operation, ...]:
    """Start to bring a tile."""
    if means in COPY_ENGINE:
        return Expect(FULL, at, source.bytes), Load(source.name, at, FULL, source.bytes)
    if means == "cp.async":
        return CopyIn(source.name, at, source.bytes), Commit("cp.async")
    return (Write(source.name, at),)


def _ready(means: str, at: At, ahead: int) -> tuple[Operation, ...]:
    """Wait until a tile is there, `ahead` younger ones perhaps not."""
    if means in COPY_ENGINE:
        return (Wait(FULL, at),)
    return (WaitGroup("cp.async", ahead), MEET) if means == "cp.async" else (MEET,)


def _use(views: tuple[View, ...], shared: tuple[SharedTile, ...], at: At) -> tuple[Operation, ...]:
    """Take a tile out of its buffer: by the copy engine, or by threads, which may turn it."""
    source = shared[0]
    if len(views) > 1 and not turned(*views):
        return Store(source.name, at, source.bytes), Commit("bulk")
    read: tuple[Operation, ...] = (Read(source.name, at), MEET)
    if len(shared) == 1:
        return read
    target = shared[1]
    # A second tile may be turned once the copy engine has read the first one.
    free = (WaitGroup("bulk", 0, read=True), MEET) if source.stages > 1 else ()
    write = (Write(target.name), Fence("proxy.async"), MEET)
    return (*read, *free, *write, Store(target.name, FIRST, target.bytes), Commit("bulk"))


def _one(means: str, views: tuple[View, ...], shared: tuple[SharedTile, ...]) -> tuple[Operation, ...]:
    used = _use(views, shared, FIRST)
    drained = (WaitGroup("bulk", 0, read=True),) if Commit("bulk") in used else ()
    return (*_load(means, shared[0], FIRST), *_ready(means, FIRST, 0), *used, *drained)


def _ring(means: str, views: tuple[View, ...], shared: tuple[SharedTile, ...]) -> tuple[Operation, ...]:
    """Load some tiles ahead; then for each take it out, and load another one into a buffer that is free.

    A tile that the copy engine stores from its own buffer is still being read when the next one is ready, so one stage
    fewer runs ahead.
    """
    source = shared[0]
    direct = len(views) > 1 and not turned(*views)
    ahead = source.stages - 1 if direct else source.stages
    load = (*_load(means, source, At(LOADED)), Advance(LOADED))
    at = At(DONE)
    free: tuple[Operation, ...] = (WaitGroup("bulk", 1, read=True),) if direct else ()

    def turn(younger: int, then: tuple[Operation, ...]) -> tuple[Operation, ...]:
        return (*_ready(means, at, younger), *_use(views, shared, at), *then, Advance(DONE))

    first = tuple(Guard(Trips(TILES, -i), load) for i in range(ahead))
    steady = Loop(Trips(TILES, -ahead), turn(ahead - 1, (*free, *load)))
    last = tuple(Guard(Trips(TILES, -i), turn(0, ())) for i in range(ahead))
    stored = Commit("bulk") in _use(views, shared, at)
    drained = (WaitGroup("bulk", 0, read=True),) if stored else ()
    return (*first, steady, *last, *drained)
