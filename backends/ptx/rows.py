"""Kernel programs as PTX: a table with one row an operation, which chooses nothing.

Rows call the parts beside this module, which hold what threads do by hand within an operation: where boxes lie,
instructions along k, how registers become rows of C. Waits, arrivals, loops over tiles and stages are the program's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from legalsat.backends.known_stages import require_whole_turns
from legalsat.backends.lacking import Asked, row_of
from legalsat.backends.ptx.consumer import LANES, Consumer, OfTile, Warps
from legalsat.backends.ptx.cta import Cta, Ring, Tile
from legalsat.backends.ptx.groups import find_groups
from legalsat.backends.ptx.lines import align_lines, load_lines
from legalsat.backends.ptx.realign import Realigner
from legalsat.backends.ptx.store import Store
from legalsat.backends.ptx.store_elements import ByElements
from legalsat.backends.ptx.store_split import BySums
from legalsat.backends.ptx.store_warps import ByBoxes, ByColumns, ByRows
from legalsat.backends.ptx.tensor_memory import Fetcher, Issuer, allocate, free
from legalsat.backends.ptx.text import EVERY_LANE, Text, Value, wait
from legalsat.extract.kernels.kernel_steps import NUMBERS
from legalsat.extract.kernels.product_maps import stored_type
from legalsat.operators.gemm import Gemm
from legalsat.plans.product_kernel import WARPGROUP, ProductKernel
from legalsat.program import kernel as k
from legalsat.program import pipeline as p

STORES: dict[str, Callable[[OfTile, str], Store]] = {
    "tma": ByBoxes,
    "turned": ByColumns,
    "rows": ByRows,
    "elements": ByElements,
    "sums": BySums,
}
# Barriers of the CTA: the number of the first consumer's, by how many the next one's is further, and how many consumers
# meet there; all of them where that is None.
NAMED = {
    "consumers": (NUMBERS["consumers"], 0, None),
    "turn {i}": (NUMBERS["turn 0"], 1, 2),
    "turn {other}": (NUMBERS["turn 1"], -1, 2),
    "rows {i}": (NUMBERS["rows 0"], 1, 1),
    "turned {i}": (NUMBERS["turned 0"], 1, 1),
}


BY_ALL = p.Sync | p.Registers | p.Fence | p.Allocate | p.Relinquish | p.Free  # though one thread acts for its role


@dataclass
class Warpgroup:
    """What the threads of a role keep: rings, the k-tile of the tile that they have got to, and a consumer's more.

    That is its accumulators, its rows of A, and C on its way out; or what an issuer knows.
    """

    group: Value
    thread: str
    first: str  # the predicate of its first thread
    rings: dict[str, Ring] = field(default_factory=dict)
    k_tile: Value = 0
    warps: Warps | None = None
    consumer: OfTile | None = None
    issuer: Issuer | None = None
    out: Store | None = None
    rows: Realigner | None = None


@dataclass(frozen=True)
class Scope:
    """Where an operation stands.

    Attributes:
        cta: whose text it is. kernel, gemm: what is printed. role: that it is of, and own: what its threads keep.
        counts: of cursors whose items lie in stages that are known here, so far.
        part: of C. tile: that is worked on. steps: of a k-tile that are multiplied.
        set: of registers for fragments. following: the number of the tile that the other consumer multiplies next.
    """

    cta: Cta
    kernel: ProductKernel
    gemm: Gemm
    role: k.KernelRole
    own: Warpgroup
    counts: dict[str, int] = field(default_factory=dict)
    part: int = 0
    tile: Tile | None = None
    steps: Value = 0
    set: int = 0
    following: Value = 0

    @property
    def text(self) -> Text:
        """Where instructions go."""
        return self.cta.text

    @property
    def program(self) -> k.KernelProgram:
        """That is printed."""
        return self.cta.program

    @property
    def mine(self) -> Consumer:
        """The consumer that multiplies."""
        assert isinstance(self.own.consumer, Consumer)
        return self.own.consumer

    @property
    def warps(self) -> Warps:
        """Those of a role that is not one thread's."""
        assert self.own.warps is not None
        return self.own.warps

    @property
    def out(self) -> Store:
        """C on its way out."""
        assert self.own.out is not None
        return self.own.out

    @property
    def rows(self) -> Realigner:
        """Rows of A that are shifted."""
        assert self.own.rows is not None
        return self.own.rows

    def body(self, body: k.Body) -> None:
        """Add the instructions of operations, in order.

        Raises:
            LegalSatError: an operation has no row.
        """
        for op in body:
            row_of("ptx", ROWS, op)(op, self)

    @contextmanager
    def around(self, body: k.Body) -> Iterator[None]:
        """Have what is added meanwhile done any number of times: cursors with known stages are then where they were."""
        before = dict(self.counts)
        yield
        require_whole_turns(body, self.program, before, self.counts, "ptx")

    def only(self, predicate: str, body: k.Body) -> None:
        """Add operations that are done where a predicate holds."""
        with self.text.only(predicate), self.around(body):
            self.body(body)

    def item(self, at: p.At) -> Ring:
        """Return the item of a ring."""
        ring = self.own.rings[at.cursor]
        return {0: lambda: ring, 1: ring.next}[at.offset]()

    def of_c(self, op: p.Write | p.Read | p.Store | k.ReadPeers | k.StoreElements) -> tuple[int, int]:
        """Return the part of C, and the stage of the buffer that it passes through."""
        if isinstance(op, k.ReadPeers) or not op.at.cursor:
            return self.part, 0
        return self.part, self.counts[op.at.cursor] % self.program.stages(op.buffer)


def entry(cta: Cta, kernel: ProductKernel, gemm: Gemm) -> None:
    """Add the instructions of a kernel.

    Raises:
        LegalSatError: an operation has no row here.
    """
    text, program = cta.text, cta.program
    thread = text.put("mov.u32", "%tid.x")
    alone = text.when("eq.s32", thread, 0)
    whole = Scope(cta, kernel, gemm, program.roles[0], Warpgroup(0, thread, alone))
    whole.only(alone, program.setup)
    whole.body(program.everybody)
    # The same in all lanes, which the assembler cannot know without being told.
    number = text.put("shfl.sync.idx.b32", text.div(thread, WARPGROUP), 0, 31, EVERY_LANE)
    within = str(text.rem(thread, WARPGROUP))
    first, end = 0, text.label("END")
    for role in program.roles:
        others = text.label("OTHERS")
        text.do(f"@{text.when('ge.s32', number, first + role.count)} bra {others}")
        one = text.when("eq.s32", within, 0)
        _role(Scope(cta, kernel, gemm, role, Warpgroup(text.sub(number, first), within, one)))
        text.do(f"bra {end}")
        text.place(others)
        first += role.count
    text.place(end)


def _role(scope: Scope) -> None:
    role, own, cta, text = scope.role, scope.own, scope.cta, scope.text
    text.say(role.name)
    ops = list(k.every(role.body))
    stages = {ring.name: ring.stages for ring in scope.program.barriers}
    runtime = {op.at.cursor: stages[op.barrier] for op in ops if isinstance(op, p.Wait)}
    for name in dict.fromkeys(op.cursor for op in ops if isinstance(op, p.Advance)):
        if name in runtime:
            own.rings[name] = Ring(text, runtime[name])
        else:
            scope.counts[name] = 0
    if role.one_thread:
        _by_one(scope)
        return
    if role.name == "consumer":
        kind = Fetcher if scope.kernel.issues else Consumer
        own.warps = own.consumer = kind(cta, scope.kernel, scope.gemm.dtype.name, str(own.group), own.thread)
    else:
        own.warps = Warps(cta, own.thread)
    own.warps.speak("".join({op.operands for op in ops if isinstance(op, k.Release)}))
    if own.consumer is not None:
        own.out = STORES[scope.kernel.store](own.consumer, stored_type(scope.gemm, scope.kernel).name)
    scope.body(role.body)


def _by_one(scope: Scope) -> None:
    """Add what one thread of a role does; all of them meet others, and do what whole warps do."""
    alone: list[k.KernelOperation] = []
    for op in (*scope.role.body, None):
        if op is not None and not isinstance(op, BY_ALL):
            alone.append(op)
            continue
        if alone:
            scope.only(scope.own.first, tuple(alone))
            alone.clear()
        if isinstance(op, p.Fence):  # of what whole warps do
            scope.only(scope.text.when("lt.s32", scope.own.thread, LANES), (op,))
        elif op is not None:
            scope.body((op,))


def _tiles(op: k.Tiles, scope: Scope) -> None:
    text, cta = scope.text, scope.cta
    step = text.mul(cta.tile_step, op.turns)
    first = cta.first_tile
    if op.turns > 1:
        first = text.put("mad.lo.s32", scope.own.group, cta.tile_step, first)
    number = text.held(first)
    again = text.only(text.when("lt.s32", number, cta.tiles)) if op.once else text.loop(number, cta.tiles, step)
    with again, scope.around(op.body):
        tile = cta.tile(number)
        inner = replace(scope, tile=tile, steps=cta.plan.steps)
        if any(isinstance(one, p.Sync) and one.cursor for one in op.body):
            inner = replace(inner, following=text.add(number, cta.tile_step))
        inner.body(op.body)


def _k_tiles(op: k.KTiles, scope: Scope) -> None:
    text, tile = scope.text, scope.tile
    assert tile is not None
    scope.own.k_tile = k_tile = text.held(op.after)
    if op.sets > 1:  # sets of registers have names of their own

        def turn(number: int) -> None:
            with scope.around(op.body):
                replace(scope, set=(op.after + number) % op.sets).body(op.body)

        with text.loop(k_tile, text.sub(tile.k_tiles, op.sets - 1), op.sets):
            for number in range(op.sets):
                turn(number)
        for number in range(op.sets - 1):
            with text.only(text.when("lt.s32", text.add(k_tile, number), tile.k_tiles)):
                turn(number)
        return
    with text.loop(k_tile, text.sub(tile.k_tiles, int(op.short))), scope.around(op.body):
        scope.body(op.body)
    if op.short:
        replace(scope, steps=tile.last_steps).only(text.when("lt.s32", k_tile, tile.k_tiles), op.body)


def _parts(op: k.Parts, scope: Scope) -> None:
    for part in range(op.first, op.first + op.count):
        replace(scope, part=part).body(op.body)


def _loop(op: p.Loop, scope: Scope) -> None:
    with scope.text.loop(scope.text.held(0), op.trips.value({})), scope.around(op.body):
        scope.body(op.body)


def _if_late(op: k.IfLate, scope: Scope) -> None:
    assert scope.tile is not None
    scope.only(scope.text.when("ne.s32", scope.tile.shift, 0), op.body)


def _advance(op: p.Advance, scope: Scope) -> None:
    if op.cursor in scope.counts:
        scope.counts[op.cursor] += op.by
        return
    for _ in range(op.by):
        scope.own.rings[op.cursor].advance()


def _start(op: p.Start, scope: Scope) -> None:
    for ring in scope.program.barriers:
        for stage in range(ring.stages if ring.name == op.barrier else 0):
            scope.text.do(f"mbarrier.init.shared::cta.b64 {scope.cta.barrier(ring.name, stage)}, {ring.arrivals}")


def _wait(op: p.Wait, scope: Scope) -> None:
    item = scope.item(op.at)
    parity = scope.text.xor(item.parity, int(op.before))
    wait(scope.text, scope.cta.barrier(op.barrier, item.stage), parity)


def _expect(op: p.Expect, scope: Scope) -> None:
    at = scope.cta.barrier(op.barrier, scope.item(op.at).stage)
    scope.text.do(f"mbarrier.arrive.expect_tx.shared::cta.b64 _, {at}, {op.bytes}")


def _load(op: k.LoadShare, scope: Scope) -> None:
    assert scope.tile is not None
    ring, k_tile = scope.item(op.at), scope.own.k_tile
    if op.lines:
        load_lines(scope.cta, scope.kernel, op.operand, ring, op.barrier, scope.tile, k_tile)
    else:
        scope.cta.load(op.operand, ring, op.barrier, scope.tile, k_tile)


def _align(op: k.AlignLines, scope: Scope) -> None:
    assert scope.tile is not None
    align_lines(scope.cta, scope.kernel, op.operand, scope.item(op.at), scope.tile, scope.own.thread)


def _release(op: k.Release, scope: Scope) -> None:
    ring = scope.own.rings[op.at.cursor]
    scope.warps.release(op.barrier, ring.before if op.at.offset else ring.stage)


def _arrive(op: p.Arrive, scope: Scope) -> None:
    if scope.own.consumer is not None:  # others' lanes have met behind a fence
        scope.text.meet_lanes()
    at = scope.cta.barrier(op.barrier, scope.item(op.at).stage)
    scope.text.do(f"@{scope.warps.leader} mbarrier.arrive.shared::cta.b64 _, {at}")


def _multiply(op: p.Multiply, scope: Scope) -> None:
    stage = scope.item(op.reads[0][1])
    if scope.own.issuer is None:
        scope.mine.multiply(stage, scope.steps)
    else:
        scope.own.issuer.multiply(stage, scope.item(op.at).stage, scope.own.k_tile)


def _commit_to(op: p.CommitTo, scope: Scope) -> None:
    assert scope.own.issuer is not None
    scope.own.issuer.commit(scope.cta.barrier(op.barrier, scope.item(op.at).stage))


def _release_done(op: k.ReleaseDone, scope: Scope) -> None:
    assert scope.own.issuer is not None
    scope.own.issuer.commit(scope.cta.barrier(op.barrier, scope.item(op.at).stage), to_all=True)


def _find_columns(op: k.FindColumns, scope: Scope) -> None:
    if isinstance(scope.own.consumer, Fetcher):
        scope.own.consumer.find()
    else:
        cta, sent = scope.cta, {one.operands for one in k.every(scope.role.body) if isinstance(one, k.ReleaseDone)}
        sharers = cta.sharers("".join(sent))
        scope.own.issuer = Issuer(cta, scope.kernel, scope.gemm.dtype.name, cta.columns(), sharers)


def _fetch(op: k.FetchSums, scope: Scope) -> None:
    assert scope.tile is not None
    scope.out.fetch(scope.tile, scope.item(op.at).stage, scope.part)


def _by_a_warp(do: Callable[[Scope], None]) -> Callable[[Any, Scope], None]:
    """Return a row of what the first warp of a role does, all lanes together."""

    def row(op: Any, scope: Scope) -> None:
        with scope.text.only(scope.text.when("lt.s32", scope.own.thread, LANES)):
            do(scope)

    return row


def _relinquish(scope: Scope) -> None:
    scope.text.do("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned")


def _commit(op: p.Commit, scope: Scope) -> None:
    if op.family == "wgmma":
        scope.text.do("wgmma.commit_group.sync.aligned")
    else:
        scope.text.do(f"@{scope.warps.leader} cp.async.bulk.commit_group")


def _wait_group(op: p.WaitGroup, scope: Scope) -> None:
    if op.family == "wgmma":
        scope.text.do(f"wgmma.wait_group.sync.aligned {op.pending}")
    else:
        scope.text.do(f"@{scope.warps.leader} cp.async.bulk.wait_group{'.read' * op.read} {op.pending}")
        scope.text.meet_lanes()


FENCES = {
    "proxy.async": "fence.proxy.async.shared::cta",
    "mbarrier_init": "fence.mbarrier_init.release.cluster",
    "wgmma": "wgmma.fence.sync.aligned",
    "tcgen05.before": "tcgen05.fence::before_thread_sync",
    "tcgen05.after": "tcgen05.fence::after_thread_sync",
}


def _fence(op: p.Fence, scope: Scope) -> None:
    scope.text.do(FENCES[op.kind])
    if op.kind == "proxy.async":
        scope.text.meet_lanes()


def _meet(scope: Scope, how: str = "", *, alone: bool = False) -> None:
    """Meet all of the CTA, or of the cluster unless it is to be the CTA `alone`."""
    if alone or scope.program.ctas == 1:
        scope.text.do("bar.sync 0")
    else:
        scope.text.do(f"barrier.cluster.arrive{how}.aligned")
        scope.text.do("barrier.cluster.wait.aligned")


def _sync(op: p.Sync, scope: Scope) -> None:
    text = scope.text
    if op.name in p.MEETINGS:
        text.meet_lanes()
        _meet(scope, alone=op.name == "block")
        return
    first, further, groups = NAMED[op.name]
    number = text.mad(scope.own.group, further, first)
    threads = WARPGROUP * (scope.role.count if groups is None else groups)
    text.do(f"bar.{'sync' if op.waits else 'arrive'} {number}, {threads}")
    if op.cursor and not op.waits:  # what the other one takes of the ring before it gives the turn back
        following = scope.following if scope.tile is not None else scope.cta.first_tile
        scope.own.rings[op.cursor].skip(scope.cta.stages(following))


def _use_sums(op: p.UseSums, scope: Scope) -> None:
    assert scope.tile is not None
    scope.mine.scale(scope.tile)
    scope.out.take(scope.tile)


def _write(op: p.Write, scope: Scope) -> None:
    if op.at.cursor in scope.counts or not op.at.cursor:
        scope.out.write(*scope.of_c(op))
        return
    assert scope.tile is not None
    scope.mine.drop_heads(scope.item(op.at), scope.tile)


def _find_rows(op: k.FindRows, scope: Scope) -> None:
    assert scope.tile is not None
    scope.own.rows = Realigner(scope.mine, scope.tile)


def _read_rows(op: k.ReadRows, scope: Scope) -> None:
    scope.rows.read(scope.item(op.at), op.steps, scope.set if op.set < 0 else op.set)


def _multiply_rows(op: k.MultiplyRows, scope: Scope) -> None:
    scope.rows.multiply(scope.item(op.at), op.steps, scope.set if op.set < 0 else op.set)


ROWS: dict[type, Callable[[Any, Scope], None]] = {
    k.Tiles: _tiles,
    k.KTiles: _k_tiles,
    k.Parts: _parts,
    k.IfLate: _if_late,
    k.Only: lambda op, scope: scope.only(scope.text.when("eq.s32", scope.own.group, op.consumer), op.body),
    p.Loop: _loop,
    k.MeetSetup: lambda op, scope: _meet(scope, ".relaxed"),
    p.AwaitGrid: lambda op, scope: scope.text.do("griddepcontrol.wait"),
    p.LaunchDependents: lambda op, scope: scope.text.do("griddepcontrol.launch_dependents"),
    k.Clear: lambda op, scope: scope.mine.clear(),
    k.FindGroups: lambda op, scope: find_groups(scope.cta),
    k.FindRows: _find_rows,
    k.ReadRows: _read_rows,
    k.MultiplyRows: _multiply_rows,
    k.LoadShare: _load,
    k.AlignLines: _align,
    k.Release: _release,
    k.StoreElements: lambda op, scope: scope.out.read(*scope.of_c(op)),
    k.ReadPeers: lambda op, scope: scope.out.read(*scope.of_c(op)),
    p.Start: _start,
    p.Wait: _wait,
    p.Expect: _expect,
    p.Multiply: _multiply,
    p.CommitTo: _commit_to,
    k.ReleaseDone: _release_done,
    p.Arrive: _arrive,
    p.Allocate: _by_a_warp(lambda scope: allocate(scope.cta, scope.kernel.tensor_columns)),
    p.Relinquish: _by_a_warp(_relinquish),
    p.Free: _by_a_warp(lambda scope: free(scope.cta, scope.kernel.tensor_columns)),
    k.FindColumns: _find_columns,
    k.FetchSums: _fetch,
    p.Commit: _commit,
    p.WaitGroup: _wait_group,
    p.Fence: _fence,
    p.Sync: _sync,
    p.Advance: _advance,
    p.Registers: lambda op, scope: scope.text.do(
        f"setmaxnreg.{'inc' if op.more else 'dec'}.sync.aligned.u32 {op.count}"
    ),
    p.UseSums: _use_sums,
    p.Write: _write,
    p.Read: lambda op, scope: scope.out.read(*scope.of_c(op)),
    p.Store: lambda op, scope: scope.out.send(*scope.of_c(op)),
}


def _use_lacks(op: p.UseSums, asked: Asked) -> str:
    return "by scales of rows" if asked.gemm.scaled == "rows" else ""


def _of_slices(op: Any, asked: Asked) -> str:
    return "of slices of k" if asked.kernel.slices > 1 else ""


LACKS: dict[type, Callable[[Any, Asked], str]] = {
    k.IfLate: _of_slices,
    k.FindRows: lambda op, asked: "of lines that are woven" if asked.kernel.woven else _of_slices(op, asked),
    k.FindGroups: lambda op, asked: "of columns" if asked.kernel.cuts == "n" else "",
    p.UseSums: _use_lacks,
}
