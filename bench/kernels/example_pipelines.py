"""Correct pipelines of many shapes: `EXAMPLES`, by name. All of them are right for every trip count from 0 on.

Set-up: the first role initialises all barriers and meets the others; nobody touches a barrier before that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from legalsat.program.pipeline import (
    FIRST,
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
    Registers,
    Relinquish,
    Role,
    Start,
    Store,
    SumsRing,
    Sync,
    Trips,
    UseSums,
    Wait,
    WaitGroup,
    Write,
)

Ops: TypeAlias = tuple[Operation, ...]
K, TILES = Trips("K tiles"), Trips("tiles")
ANY = Trips("", 1)
A_BYTES, B_BYTES, C_BYTES = 16384, 8192, 4096
C, T, N = At("c"), At("t"), At("n")


def ahead(cursor: At, offset: int) -> At:
    """Return the item so many after (or before) another."""
    return At(cursor.cursor, cursor.offset + offset)


def start(*barriers: str, meet: str = "block") -> Ops:
    """Initialise barriers and meet everybody."""
    return (*(Start(b) for b in barriers), Fence("mbarrier_init"), Sync(meet))


# Between reads by threads and the load over what they read.
READ = Fence("proxy.async")


def fill(
    at: At = C, *, buffers: Sequence[tuple[str, int]] = (("A", A_BYTES), ("B", B_BYTES)), full: str = "full"
) -> Ops:
    """Expect and load a stage."""
    return (Expect(full, at, sum(b for _, b in buffers)), *(Load(name, at, full, b) for name, b in buffers))


def refill(at: At = C, *, empty: str = "empty", full: str = "full", read: bool = False) -> Ops:
    """Wait until the stage is free, and load it; `read`: threads have read it."""
    return (Wait(empty, at, before=True), *(READ,) * read, *fill(at, full=full), Advance(at.cursor))


def multiply(at: At = C, unit: str = "wgmma", sums: str = "sums", to: At = FIRST) -> Operation:
    """Multiply a stage of A by one of B."""
    return Multiply(unit, (("A", at), ("B", at)), sums, to)


def rings(stages: int, releases: int, arrivals: int = 1) -> tuple[BarrierRing, ...]:
    """Return the barriers full and empty."""
    return BarrierRing("full", stages, arrivals), BarrierRing("empty", stages, releases)


def operands(stages: int) -> tuple[BufferRing, ...]:
    """Return the rings of A and B."""
    return BufferRing("A", stages, A_BYTES), BufferRing("B", stages, B_BYTES)


def producer(body: Ops, *, registers: int = 0, barriers: Iterable[str] = ("full", "empty")) -> Role:
    """Return a warp that sets up and then runs `body`."""
    less: Ops = (Registers(registers, more=False),) if registers else ()
    return Role("producer", 4 if registers else 1, (*start(*barriers), *less, *body))


def single_copy() -> Pipeline:
    """One load into one buffer, used once."""
    body: Ops = (*start("full"), *fill(FIRST, buffers=(("A", A_BYTES),)), Wait("full"), Read("A"))
    return Pipeline((BarrierRing("full", 1, 1),), (BufferRing("A", 1, A_BYTES),), (Role("copy", 4, body),))


def one_buffer() -> Pipeline:
    """One role that loads, waits and reads one buffer again and again."""
    body: Ops = (
        *start("full"),
        Loop(K, (*fill(C, buffers=(("A", A_BYTES),)), Wait("full", C), Read("A", C), READ, Advance("c"))),
    )
    return Pipeline((BarrierRing("full", 1, 1),), (BufferRing("A", 1, A_BYTES),), (Role("copy", 4, body),))


def simple_wgmma(stages: int = 3, consumers: int = 1) -> Pipeline:
    """TMA to wgmma; a stage is released when its own multiplication is done."""
    turn: Ops = (
        Wait("full", C),
        Fence("wgmma"),
        multiply(),
        Commit("wgmma"),
        WaitGroup("wgmma", 0),
        Arrive("empty", C),
        Advance("c"),
    )
    consumer = Role("consumer", 4, (Sync("block"), Loop(K, turn), UseSums("sums")), consumers)
    return Pipeline(rings(stages, consumers), operands(stages), (producer((Loop(K, refill()),)), consumer), ("sums",))


def wgmma_in_flight(stages: int = 4, consumers: int = 2) -> Pipeline:
    """TMA to wgmma with one group under way: an item is released in the turn after its own, the last one never."""
    turn: Ops = (
        Wait("full", C),
        Fence("wgmma"),
        multiply(),
        Commit("wgmma"),
        WaitGroup("wgmma", 1),
        Guard(ANY, (Arrive("empty", ahead(C, -1)),), cursor="c"),
        Advance("c"),
    )
    body: Ops = (Sync("block"), Registers(240, more=True), Loop(K, turn), WaitGroup("wgmma", 0), UseSums("sums"))
    roles = producer((Loop(K, refill()),), registers=40), Role("consumer", 4, body, consumers)
    return Pipeline(rings(stages, consumers), operands(stages), roles, ("sums",))


def peeled(stages: int = 3) -> Pipeline:
    """The producer fills the ring without waiting; the consumer's first and last turns stand outside of its loop."""
    first: Ops = tuple(Guard(Trips(K.name, -i), (*fill(), Advance("c"))) for i in range(stages))
    enter: Ops = (Wait("full", C), Fence("wgmma"), multiply(), Commit("wgmma"), Advance("c"))
    turn: Ops = (
        Wait("full", C),
        multiply(),
        Commit("wgmma"),
        WaitGroup("wgmma", 1),
        Arrive("empty", ahead(C, -1)),
        Advance("c"),
    )
    leave: Ops = (WaitGroup("wgmma", 0), Arrive("empty", ahead(C, -1)))
    body: Ops = (Sync("block"), Guard(K, enter), Loop(Trips(K.name, -1), turn), Guard(K, leave), UseSums("sums"))
    roles = producer((*first, Loop(Trips(K.name, -stages), refill()))), Role("consumer", 4, body)
    return Pipeline(rings(stages, 1), operands(stages), roles, ("sums",))


def threads_ring(stages: int = 2, consumers: int = 2, every: int = 128) -> Pipeline:
    """TMA to ordinary instructions; every thread arrives."""
    turn: Ops = (Wait("full", C), Read("A", C), Read("B", C), Arrive("empty", C, every), Advance("c"))
    roles = producer((Loop(K, refill(read=True)),)), Role("reader", 4, (Sync("block"), Loop(K, turn)), consumers)
    return Pipeline(rings(stages, consumers * every), operands(stages), roles)


def two_producers(stages: int = 3) -> Pipeline:
    """One warp loads A, another one B; both arrive on the same barrier, the latter apart from its expectation."""

    def load(name: str, size: int, *, apart: bool) -> Ops:
        at = At("c")
        arms: Ops = (Expect("full", at, size, arrives=not apart),)
        return (
            Wait("empty", at, before=True),
            *arms,
            Load(name, at, "full", size),
            *((Arrive("full", at),) if apart else ()),
            Advance("c"),
        )

    one = Role("loads A", 1, (*start("full", "empty"), Loop(K, load("A", A_BYTES, apart=False))))
    other = Role("loads B", 1, (Sync("block"), Loop(K, load("B", B_BYTES, apart=True))))
    turn: Ops = (Wait("full", C), Read("A", C), Read("B", C), READ, Arrive("empty", C), Advance("c"))
    reader = Role("reader", 8, (Sync("block"), Loop(K, turn)))
    return Pipeline(rings(stages, 1, arrivals=2), operands(stages), (one, other, reader))


def copy_arrive_ring(stages: int = 3) -> Pipeline:
    """cp.async whose completion arrives on the barrier, two warps of copiers, to ordinary instructions."""
    turn: Ops = (Wait("empty", C, before=True), CopyIn("A", C, A_BYTES // 2), CopyArrive("full", C), Advance("c"))
    reads: Ops = (Wait("full", C), Read("A", C), Arrive("empty", C), Advance("c"))
    setup = Role("setup", 1, start("full", "empty"))
    copier = Role("copier", 1, (Sync("block"), Loop(K, turn)), 2)
    reader = Role("reader", 4, (Sync("block"), Loop(K, reads)))
    return Pipeline(rings(stages, 1, arrivals=2), (BufferRing("A", stages, A_BYTES),), (setup, copier, reader))


def copy_groups_ring(stages: int = 3, warps: int = 2) -> Pipeline:
    """cp.async in groups, no barrier but that of the block: each warp copies a part and reads everything."""
    copies: Ops = (CopyIn("A", N, A_BYTES // warps), Advance("n"))
    reads: Ops = (WaitGroup("cp.async", stages - 2), Sync("block"))
    used: Ops = (Read("A", C), Advance("c"))
    enter: Ops = tuple(op for i in range(stages - 1) for op in (Guard(Trips(K.name, -i), copies), Commit("cp.async")))
    turn: Ops = (*reads, *copies, Commit("cp.async"), *used)
    leave: Ops = tuple(Guard(Trips(K.name, -i), (*reads, Commit("cp.async"), *used)) for i in range(stages - 1))
    body: Ops = (*enter, Loop(Trips(K.name, 1 - stages), turn), *leave)
    return Pipeline((), (BufferRing("A", stages, A_BYTES),), (Role("warp", 1, body, warps),))


def copied_operands(stages: int = 4) -> Pipeline:
    """cp.async to wgmma: the copier keeps a group under way, fences what is there for the async proxy, and arrives."""
    hands_on: Ops = (Fence("proxy.async"), Arrive("full", ahead(C, -1)))
    turn: Ops = (
        Wait("empty", C, before=True),
        CopyIn("A", C, A_BYTES),
        CopyIn("B", C, B_BYTES),
        Commit("cp.async"),
        Guard(ANY, (WaitGroup("cp.async", 1), *hands_on), cursor="c"),
        Advance("c"),
    )
    copies: Ops = (Loop(K, turn), Guard(K, (WaitGroup("cp.async", 0), *hands_on)))
    consumer = simple_wgmma().roles[1]
    return Pipeline(rings(stages, 1), operands(stages), (producer(copies), consumer), ("sums",))


def converted_operand(stages: int = 2) -> Pipeline:
    """Threads read what TMA brought, write it in another type, and wgmma reads that."""
    buffers = BufferRing("A", stages, A_BYTES), BufferRing("B", stages, B_BYTES), BufferRing("A16", stages, 2 * A_BYTES)
    barriers = *rings(stages, 2), BarrierRing("ready", stages, 1), BarrierRing("used", stages, 1)
    converts: Ops = (
        Wait("full", C),
        Wait("used", C, before=True),
        Read("A", C),
        Write("A16", C),
        Arrive("empty", C),
        Fence("proxy.async"),
        Arrive("ready", C),
        Advance("c"),
    )
    multiplies: Ops = (
        Wait("full", C),
        Wait("ready", C),
        Fence("wgmma"),
        Multiply("wgmma", (("A16", C), ("B", C)), "sums"),
        Commit("wgmma"),
        WaitGroup("wgmma", 0),
        Arrive("used", C),
        Arrive("empty", C),
        Advance("c"),
    )
    roles = (
        producer((Loop(K, refill()),), barriers=("full", "empty", "ready", "used")),
        Role("converter", 4, (Sync("block"), Loop(K, converts))),
        Role("consumer", 4, (Sync("block"), Loop(K, multiplies), UseSums("sums"))),
    )
    return Pipeline(barriers, buffers, roles, ("sums",))


def stage_and_store(at: At = FIRST, *, meet: str = "keepers", buffer: str = "C", share: int = 1) -> Ops:
    """Write C's tile into shared memory, and store it."""
    return (
        Write(buffer, at),
        Fence("proxy.async"),
        Sync(meet),
        Store(buffer, at, C_BYTES // share),
        Commit("bulk"),
    )


def stored_sums(stages: int = 3, consumers: int = 2, *, overlays: bool = True) -> Pipeline:
    """wgmma, then C through shared memory, where it may lie on A and B."""
    loop = wgmma_in_flight(stages, consumers)
    meets: Ops = (Sync("keepers"),) if overlays else ()
    tail: Ops = (*meets, *stage_and_store(share=consumers), WaitGroup("bulk", 0, read=True))
    consumer = Role("consumer", 4, (*loop.roles[1].body, *tail), consumers)
    c = BufferRing("C", 1, C_BYTES, ("A", "B") if overlays else ())
    return Pipeline(loop.barriers, (*loop.buffers, c), (loop.roles[0], consumer), ("sums",))


def persistent_wgmma(stages: int = 4, consumers: int = 2) -> Pipeline:
    """Tile after tile: the ring goes on over all tiles; C has two stages whose stores go on during the next tile."""
    turn: Ops = (
        Wait("full", C),
        multiply(),
        Commit("wgmma"),
        WaitGroup("wgmma", 1),
        Arrive("empty", ahead(C, -1)),
        Advance("c"),
    )
    enter: Ops = (Wait("full", C), Fence("wgmma"), multiply(), Commit("wgmma"), Advance("c"))
    leave: Ops = (WaitGroup("wgmma", 0), Arrive("empty", ahead(C, -1)))
    tile: Ops = (
        Guard(K, enter),
        Loop(Trips(K.name, -1), turn),
        Guard(K, leave),
        UseSums("sums"),
        WaitGroup("bulk", 1, read=True),
        Sync("keepers"),
        *stage_and_store(T, share=consumers),
        Advance("t"),
    )
    body: Ops = (Sync("block"), Loop(TILES, tile), WaitGroup("bulk", 0, read=True))
    roles = producer((Loop(TILES, (Loop(K, refill()),)),)), Role("consumer", 4, body, consumers)
    return Pipeline(rings(stages, consumers), (*operands(stages), BufferRing("C", 2, C_BYTES)), roles, ("sums",))


def handed_to_storer(stages: int = 2) -> Pipeline:
    """Threads write C's stages, another warp stores them, over barriers both ways."""
    writes: Ops = (
        Wait("free", C, before=True),
        Write("C", C),
        Fence("proxy.async"),
        Arrive("ready", C),
        Advance("c"),
    )
    stores: Ops = (
        Wait("ready", C),
        Store("C", C, C_BYTES),
        Commit("bulk"),
        WaitGroup("bulk", 1, read=True),
        Guard(ANY, (Arrive("free", ahead(C, -1)),), cursor="c"),
        Advance("c"),
    )
    roles = (
        Role("writer", 4, (*start("ready", "free"), Loop(K, writes)), 1),
        Role("storer", 1, (Sync("block"), Loop(K, stores), WaitGroup("bulk", 0, read=True))),
    )
    return Pipeline(
        (BarrierRing("ready", stages, 1), BarrierRing("free", stages, 1)), (BufferRing("C", stages, C_BYTES),), roles
    )


def copied_through(stages: int = 3, *, reduces: bool = False) -> Pipeline:
    """TMA in, TMA out (or added), by one role that loads ahead."""
    loads: Ops = (*fill(N, buffers=(("A", A_BYTES),)), Advance("n"))
    stores: Ops = (Wait("full", C), Store("A", C, A_BYTES, reduces), Commit("bulk"), Advance("c"))
    enter: Ops = tuple(Guard(Trips(K.name, -i), loads) for i in range(stages - 1))
    # All stores so far have read, so the stage of the newest one may be loaded next.
    turn: Ops = (WaitGroup("bulk", 0, read=True), *loads, *stores)
    leave: Ops = tuple(Guard(Trips(K.name, -i), stores) for i in range(stages - 1))
    body: Ops = (*start("full"), *enter, Loop(Trips(K.name, 1 - stages), turn), *leave, WaitGroup("bulk", 0))
    return Pipeline((BarrierRing("full", stages, 1),), (BufferRing("A", stages, A_BYTES),), (Role("mover", 1, body),))


def attention(stages: int = 2) -> Pipeline:
    """Q once, then K and V in rings of their own; the second product reads what threads wrote into shared memory."""
    buffers = (
        BufferRing("Q", 1, A_BYTES),
        BufferRing("Kt", stages, B_BYTES),
        BufferRing("V", stages, B_BYTES),
        BufferRing("P", 1, A_BYTES),
    )
    barriers = (
        BarrierRing("q full", 1, 1),
        *(BarrierRing(name, stages, 1) for name in ("k full", "k empty", "v full", "v empty")),
    )
    loads: Ops = tuple(
        op
        for name, full, empty in (("Kt", "k full", "k empty"), ("V", "v full", "v empty"))
        for op in (Wait(empty, C, before=True), *fill(C, buffers=((name, B_BYTES),), full=full))
    )
    turn: Ops = (
        Wait("k full", C),
        Fence("wgmma"),
        Multiply("wgmma", (("Q", FIRST), ("Kt", C)), "scores"),
        Commit("wgmma"),
        WaitGroup("wgmma", 0),
        Arrive("k empty", C),
        UseSums("scores"),
        Write("P"),
        Fence("proxy.async"),
        Sync("softmax"),
        Wait("v full", C),
        Fence("wgmma"),
        Multiply("wgmma", (("P", FIRST), ("V", C)), "sums"),
        Commit("wgmma"),
        WaitGroup("wgmma", 0),
        Arrive("v empty", C),
        Advance("c"),
    )
    once: Ops = fill(FIRST, buffers=(("Q", A_BYTES),), full="q full")
    roles = (
        producer((*once, Loop(K, (*loads, Advance("c")))), barriers=[b.name for b in barriers]),
        Role("consumer", 4, (Sync("block"), Wait("q full"), Loop(K, turn), UseSums("sums"))),
    )
    return Pipeline(barriers, buffers, roles, ("scores", "sums"))


def multicast(stages: int = 3) -> Pipeline:
    """Two blocks of a cluster: each loads its own A, and half of B for both."""
    turn: Ops = (
        Wait("empty", C, before=True),
        Expect("full", C, A_BYTES + B_BYTES),
        Load("A", C, "full", A_BYTES),
        Load("B", C, "full", B_BYTES // 2, mask=0b11),
        Advance("c"),
    )
    uses: Ops = (
        Wait("full", C),
        Fence("wgmma"),
        multiply(),
        Commit("wgmma"),
        WaitGroup("wgmma", 0),
        Arrive("empty", C),
        Arrive("empty", C, cta=1),
        Advance("c"),
    )
    roles = (
        Role("producer", 1, (*start("full", "empty", meet="cluster"), Loop(K, turn), Sync("cluster"))),
        Role("consumer", 4, (Sync("cluster"), Loop(K, uses), UseSums("sums"), Sync("cluster"))),
    )
    return Pipeline(rings(stages, 2), operands(stages), roles, ("sums",), cluster=2)


def _allocates(columns: int, *holds: str) -> Ops:
    """Allocate, and let everybody know."""
    return (Allocate(columns, holds), Relinquish(), Fence("tcgen05.before"), Sync("block"), Fence("tcgen05.after"))


_ALLOCATED: Ops = (Sync("block"), Fence("tcgen05.before"), Sync("block"), Fence("tcgen05.after"))
_FREES: Ops = (Sync("block"), Fence("tcgen05.after"))


def tcgen05_once(stages: int = 4, warpgroups: int = 1) -> Pipeline:
    """One tile: a warp loads, one issues, and warpgroups fetch the sums and store them."""
    loads: Ops = (*start("full", "empty", "sums done"), *_ALLOCATED[1:], Loop(K, refill()), Sync("block"))
    issues: Ops = (
        Wait("full", C),
        Fence("tcgen05.after"),
        multiply(C, "tcgen05"),
        CommitTo("empty", C),
        Advance("c"),
    )
    done: Ops = (Loop(K, issues), CommitTo("sums done"), *_FREES, Free(128))
    fetches: Ops = (
        Wait("sums done"),
        Fence("tcgen05.after"),
        Guard(K, (UseSums("sums"),)),
        Fence("tcgen05.before"),
        *stage_and_store(share=warpgroups),
        WaitGroup("bulk", 0, read=True),
        Sync("block"),
    )
    roles = (
        Role("producer", 1, loads),
        Role("issuer", 1, (Sync("block"), *_allocates(128, "sums"), *done)),
        Role("epilogue", 4, (*_ALLOCATED, *fetches), warpgroups),
    )
    buffers = *operands(stages), BufferRing("C", 1, C_BYTES)
    return Pipeline((*rings(stages, 1), BarrierRing("sums done", 1, 1)), buffers, roles, ("sums",))


def persistent_tcgen05(stages: int = 4, accumulators: int = 2, warpgroups: int = 1) -> Pipeline:
    """Tile after tile with a ring of accumulators, so that a tile is fetched while the next one is multiplied."""
    inner: Ops = (Wait("full", C), multiply(C, "tcgen05", to=T), CommitTo("empty", C), Advance("c"))
    tile: Ops = (
        Wait("sums free", T, before=True),
        Fence("tcgen05.after"),
        Loop(K, inner),
        CommitTo("sums done", T),
        Advance("t"),
    )
    fetch: Ops = (
        Wait("sums done", T),
        Fence("tcgen05.after"),
        Guard(K, (UseSums("sums", T),)),
        Fence("tcgen05.before"),
        Arrive("sums free", T),
        WaitGroup("bulk", 1, read=True),
        Sync("keepers"),
        *stage_and_store(T, share=warpgroups),
        Advance("t"),
    )
    columns = 128 * accumulators
    barriers = ("full", "empty", "sums done", "sums free")
    roles = (
        Role("producer", 1, (*start(*barriers), Sync("block"), Loop(TILES, (Loop(K, refill()),)), Sync("block"))),
        Role("issuer", 1, (Sync("block"), *_allocates(columns, "sums"), Loop(TILES, tile), *_FREES, Free(columns))),
        Role(
            "epilogue",
            4,
            (*_ALLOCATED, Loop(TILES, fetch), WaitGroup("bulk", 0, read=True), Fence("tcgen05.before"), Sync("block")),
            warpgroups,
        ),
    )
    rings_of_sums = (
        BarrierRing("sums done", accumulators, 1),
        BarrierRing("sums free", accumulators, warpgroups),
    )
    buffers = *operands(stages), BufferRing("C", 2, C_BYTES)
    return Pipeline((*rings(stages, 1), *rings_of_sums), buffers, roles, (SumsRing("sums", accumulators),))


def loads_ahead(stages: int = 3) -> Pipeline:
    """One role, as a compiler without specialised warps makes it: load stages ahead, multiply, load the next one."""
    loads: Ops = (*fill(N), Advance("n"))
    enter: Ops = tuple(Guard(Trips(K.name, -i), loads) for i in range(stages - 1))
    uses: Ops = (Wait("full", C), Fence("wgmma"), multiply(), Commit("wgmma"), Advance("c"))
    # The group before is done, so its stage, which is the next to be loaded, is free.
    turn: Ops = (*uses, WaitGroup("wgmma", 1), *loads)
    leave: Ops = tuple(Guard(Trips(K.name, -i), uses) for i in range(stages - 1))
    body: Ops = (
        *start("full"),
        *enter,
        Loop(Trips(K.name, 1 - stages), turn),
        *leave,
        WaitGroup("wgmma", 0),
        UseSums("sums"),
    )
    return Pipeline((BarrierRing("full", stages, 1),), operands(stages), (Role("all", 4, body),), ("sums",))


def ping_pong(stages: int = 4) -> Pipeline:
    """Two warpgroups take turns over the tiles of a row; the ring serves both, each skips what is the other's."""
    uses: Ops = (
        Wait("full", C),
        Fence("wgmma"),
        multiply(),
        Commit("wgmma"),
        WaitGroup("wgmma", 0),
        Arrive("empty", C),
        Advance("c", 2),
    )
    pairs = Trips("pairs")

    def consumer(name: str, skipped: int) -> Role:
        skip: Ops = (Advance("c", skipped),) if skipped else ()
        return Role(name, 4, (Sync("block"), *skip, Loop(pairs, uses), UseSums("sums")))

    roles = (
        producer((Loop(pairs, (*refill(), *refill())),)),
        consumer("even", 0),
        consumer("odd", 1),
    )
    return Pipeline(rings(stages, 1), operands(stages), roles, ("sums",))


EXAMPLES: dict[str, Pipeline] = {
    "single copy": single_copy(),
    "one buffer": one_buffer(),
    "simple wgmma": simple_wgmma(),
    "simple wgmma, 1 stage": simple_wgmma(1),
    "simple wgmma, 2 consumers": simple_wgmma(2, 2),
    "wgmma in flight": wgmma_in_flight(),
    "wgmma in flight, 1 consumer": wgmma_in_flight(2, 1),
    "peeled": peeled(),
    "threads ring": threads_ring(),
    "two producers": two_producers(),
    "copy arrive ring": copy_arrive_ring(),
    "copy groups ring": copy_groups_ring(),
    "copied operands": copied_operands(),
    "converted operand": converted_operand(),
    "stored sums": stored_sums(),
    "stored sums, own memory": stored_sums(2, 1, overlays=False),
    "persistent wgmma": persistent_wgmma(),
    "handed to storer": handed_to_storer(),
    "copied through": copied_through(),
    "added through": copied_through(2, reduces=True),
    "attention": attention(),
    "multicast": multicast(),
    "tcgen05 once": tcgen05_once(),
    "tcgen05 once, 2 warpgroups": tcgen05_once(3, 2),
    "persistent tcgen05": persistent_tcgen05(),
    "persistent tcgen05, 1 accumulator": persistent_tcgen05(3, 1, 2),
    "loads ahead": loads_ahead(),
    "ping pong": ping_pong(),
}
