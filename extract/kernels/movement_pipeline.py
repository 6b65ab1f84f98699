"""Builds the pipeline of a movement: a tile in, perhaps turned, and out; or a ring of tiles. Backends print that."""

from __future__ import annotations

import math
from dataclasses import dataclass

from legalsat.extract.search.views import turned
from legalsat.operators.access import Access
from legalsat.plans.movement_plan import Phase, SharedTile, VectorCopy, View
from legalsat.plans.plan import Launch
from legalsat.program.leaves import GRANULE, THREADS, Leaf
from legalsat.program.pipeline import (
    FIRST,
    Advance,
    Affine,
    At,
    AwaitGrid,
    BarrierRing,
    BufferRing,
    Commit,
    CopyIn,
    Corner,
    Expect,
    Fence,
    LaunchDependents,
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
    Vectors,
    Wait,
    WaitGroup,
    Write,
)
from legalsat.rules.windows import COLUMNS
from legalsat.targets import GRANULE_BYTES
from legalsat.units.means import MEANS

LANES = 32
FULL, TILES, MEET = "full", "tiles", Sync("block")
LOADED, DONE = "loaded", "done"
PLACES = "places"
SOURCE, TARGET = "source", "target"
_GRANULE = 8 * GRANULE_BYTES

Body = tuple[Operation, ...]


def movement_pipeline(
    access: Access,
    views: tuple[View, View],
    shared: tuple[SharedTile, ...],
    copies: tuple[VectorCopy, ...],
    phases: tuple[Phase, ...],
    *,
    store: str,
    launch: Launch,
) -> Pipeline:
    """Return what a block does: one tile, or in a persistent grid a tile a turn while others load.

    Args:
        access: what is moved, and by which of `legalsat.units.means`.
        views: of the load, and of the store.
        shared: the buffers of a block; none where a tile stays in registers.
        copies: what is moved without tensor maps.
        phases: where a load takes several maps.
        store: "tma", "threads", or "none" where a tile is read in shared memory, and no more.
        launch: of the kernel.
    """
    return _Program(access, views, store, shared, copies, phases, launch).pipeline()


def granules_pipeline(kernel: Leaf, *, beside: bool = False) -> Pipeline:
    """Return what a block does around a leaf: a tile in where one is turned, then the leaf.

    Args:
        kernel: the leaf.
        beside: whether it waits last for what is in front, which it needs nothing of; who waits for it has waited for
            that too then.
    """
    names = (SOURCE, PLACES)[: len(kernel.buffers)]
    comes: Body = ()
    if names:
        table, size = names[1:], kernel.buffers[0]
        comes = (CopyIn(SOURCE, FIRST, size, GRANULE), *map(Write, table), Commit("cp.async"))
        comes += (WaitGroup("cp.async", 0), MEET, *map(Read, reversed(names)))
    buffers = tuple(BufferRing(name, 1, size) for name, size in zip(names, kernel.buffers, strict=True))
    does = (LaunchDependents(), *comes, kernel)
    body: Body = (*does, AwaitGrid()) if beside else (AwaitGrid(), *does)
    return Pipeline((), buffers, (Role("block", THREADS // LANES, body),))


@dataclass(frozen=True)
class _Program:
    access: Access
    views: tuple[View, View]
    store: str
    shared: tuple[SharedTile, ...]
    copies: tuple[VectorCopy, ...]
    phases: tuple[Phase, ...]
    launch: Launch

    @property
    def engine(self) -> bool:
        """Whether the copy engine loads."""
        return MEANS[self.access.by].arrives == "barrier"

    @property
    def grouped(self) -> bool:
        """Whether threads ask for copies, and wait for groups of them."""
        return MEANS[self.access.by].arrives == "group"

    @property
    def direct(self) -> bool:
        """Whether the copy engine stores a tile from where it came in."""
        return self.store == "tma" and not turned(*self.views)

    def bytes_of(self, side: str) -> int:
        """Return what is moved at a time on a side, 0 by tensor maps."""
        return next((copy.bytes for copy in self.copies if copy.side == side), 0)

    def at(self, cursor: str) -> At:
        """Return the item of a cursor; a block of one tile has none."""
        return At(cursor) if self.launch.programs else FIRST

    def pipeline(self) -> Pipeline:
        if not self.shared:  # from global memory to registers and back
            moved = tuple(Vectors(side, self.bytes_of(side)) for side in (SOURCE, TARGET))
            return Pipeline((), (), (Role("block", self.launch.warps, moved),))
        source = self.shared[0]
        barriers = (BarrierRing(FULL, source.stages, 1, source.bytes),) if self.engine else ()
        buffers = [BufferRing(source.name, source.stages, source.bytes)]
        buffers += [BufferRing(b.name, b.stages, b.bytes, (source.name,) * b.overlays) for b in self.shared[1:]]
        start = (Start(FULL), Fence("mbarrier_init"), MEET) if self.engine else ()
        tiles = self.turns() if self.launch.programs else (*self.load(), *self.ready(0), *self.use())
        drained = (WaitGroup("bulk", 0, read=True),) if self.store == "tma" else ()
        return Pipeline(barriers, tuple(buffers), (Role("block", self.launch.warps, (*start, *tiles, *drained)),))

    def turns(self) -> Body:
        """Load some tiles ahead; then for each take it out, and load another one into a buffer that is free.

        Of tiles that the copy engine stores from where they came in, half of the ring is being stored meanwhile.
        """
        stages = self.shared[0].stages
        pending = stages // 2 if self.direct else 0
        ahead = stages - pending
        free: Body = (WaitGroup("bulk", pending, read=True),) if self.direct else ()
        if self.store != "tma":
            free = (MEET,)  # all threads have read the buffer
        load, use, moves = self.load(), self.use(), Advance(DONE)
        return (
            Loop(Trips(TILES, most=ahead), (*load, Advance(LOADED))),
            Loop(Trips(TILES, -ahead), (*self.ready(ahead - 1), *use, *free, *load, Advance(LOADED), moves)),
            Loop(Trips(TILES, most=ahead), (*self.ready(0), *use, moves)),
        )

    def load(self) -> Body:
        """Start to bring a tile."""
        source, at, each = self.shared[0], self.at(LOADED), self.bytes_of(SOURCE)
        if self.engine:
            corner, count = self.corner(self.views[0]), len(self.phases) or 1
            part = source.bytes // count
            loads = (Load(source.name, at, FULL, part, number=n, corner=corner, each=each) for n in range(count))
            return Expect(FULL, at, source.bytes), *loads
        if self.grouped:
            return CopyIn(source.name, at, source.bytes, each), Commit("cp.async")
        return Vectors(SOURCE, each, at), Write(source.name, at)

    def ready(self, younger: int) -> Body:
        """Wait until a tile is there, `younger` ones perhaps not."""
        if self.engine:
            return (Wait(FULL, self.at(DONE)),)
        return (WaitGroup("cp.async", younger), MEET) if self.grouped else (MEET,)

    def use(self) -> Body:
        """Take a tile out of its buffer: by the copy engine, or by threads, which may turn it; or read it there."""
        source, at = self.shared[0], self.at(DONE)
        if self.store == "none":
            return (Read(source.name, at),)
        if self.store == "threads":
            return Read(source.name, at), Vectors(TARGET, self.bytes_of(TARGET) or self.widest(), at)
        corner = self.corner(self.views[1])
        if self.direct:
            return Store(source.name, at, source.bytes, number=1, corner=corner), Commit("bulk")
        target = self.shared[1]
        # A tile may be turned once all have read the one that its buffer holds, or the copy engine has.
        free = (WaitGroup("bulk", target.stages - 1, read=True),) if self.launch.programs else ()
        write = (*free, MEET, Write(target.name, at), Fence("proxy.async"), MEET)
        return (
            Read(source.name, at),
            *write,
            Store(target.name, at, target.bytes, number=1, corner=corner),
            Commit("bulk"),
        )

    def corner(self, view: View) -> Corner:
        """Return where a tile begins in a tensor map of this view; in phases, in each."""
        found, grid = [], dict(self.launch.grid)
        for dimension, group in enumerate(view.groups):
            terms, scale = [], 1
            # Maps of phases share out the rows that do not begin at granules: each has every so many.
            shares = len(self.phases) if self.phases and view.stride[dimension] % _GRANULE and dimension else 1
            for mode in group:
                tile = view.tile[dimension] if self.access.by == COLUMNS else self.access.modes[mode].tile
                if mode in grid:
                    terms.append((mode, tile * scale // shares))
                scale *= self.access.modes[mode].extent
            found.append(Affine(tuple(terms), -view.before[dimension] if view.before else 0))
        return tuple(found)

    def widest(self) -> int:
        """Return the bytes of the widest vectors that threads store: there is one for each of them at least.

        Rows of the target begin at multiples of them.
        """
        access = self.access
        word = access.word // 8
        spread = [mode for mode in access.modes if mode.tile > 1]
        inner = min(spread, key=lambda mode: (mode.target, mode.extent), default=None)
        if inner is None or inner.target != access.word:
            return word
        steps = (m.target // access.word for m in access.modes if m is not inner and m.extent > 1)
        words = math.gcd(GRANULE_BYTES // word, inner.extent, inner.tile, *steps)
        each = math.prod(mode.tile for mode in access.modes) // (LANES * self.launch.warps)
        return word * min(words, 1 << max(0, each.bit_length() - 1))
