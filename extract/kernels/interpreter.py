"""Kernels on numpy: every role of every CTA runs its program, in any order that barriers allow.

Loads land, multiplications read and stores leave at any time between their issue and the wait that is for them, as
chance has it. So a kernel whose result is right for many seeds has a program, maps and descriptors that compute it; one
that lacks a wait is found wrong.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from legalsat.errors import LegalSatError
from legalsat.extract.kernels.interpreted_memory import Cta, Launched
from legalsat.extract.kernels.kernel_tiles import Tile
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.plans.product_kernel import WARPS
from legalsat.program import kernel as k
from legalsat.program.kernel import KernelProgram
from legalsat.program.pipeline import (
    Advance,
    Allocate,
    Arrive,
    At,
    AwaitGrid,
    Commit,
    CommitTo,
    Expect,
    Fence,
    Free,
    LaunchDependents,
    Loop,
    Multiply,
    Read,
    Registers,
    Relinquish,
    Start,
    Store,
    Sync,
    UseSums,
    Wait,
    WaitGroup,
    Write,
)

Running = Generator[Callable[[], bool], None, None]  # what it waits for


class Stuck(LegalSatError, RuntimeError):
    """No role can go on: the message says what each waits for."""


def interpret(
    plan: GemmPlan,
    a: Any,
    b: Any,
    *,
    ends: Sequence[int] = (),
    scales: Sequence[Any] = (),
    clusters: int = 0,
    seed: int = 0,
    program: KernelProgram | None = None,
    together: bool = False,
) -> Any:
    """Return C = A B^T as a plan's kernel computes it: float64, shape (m, n), each element as C's type holds it.

    Of a batch it is what all members are; of groups of rows, those up to the last one's end.

    Args:
        plan: of a product with a kernel.
        a: elements, shape (m, k): numbers that its type holds.
        b: the same, shape (n, k).
        ends: of groups, where the plan has them.
        scales: of A and of B, where it has these; sums are as they are when left out.
        clusters: that are launched, each of which takes its tiles in turn; as many as there are tiles when left out.
        seed: of the order in which roles go on, and memory changes.
        program: to run in place of the kernel's own.
        together: whether clusters begin in any order, and one that waits for another goes on later, as on a GPU that
            has room for all; one runs behind the other else, so that none may wait for those of higher numbers.

    Raises:
        Stuck: a role waits for what never comes.
        LegalSatError: the plan has no kernel; or the program writes beside C, or not all of C.
    """
    if len(ends) != plan.operator.members.groups:
        raise LegalSatError(f"{len(ends)} groups end; give {plan.operator.members.groups} ends")
    own = plan.program
    assert plan.kernel is not None
    launched = Launched(plan.operator, plan.kernel, a, b, clusters, ends=tuple(map(int, ends)), scales=tuple(scales))
    drawn = random.Random(seed)
    numbers = drawn.sample(range(launched.clusters), launched.clusters) if together else range(launched.clusters)
    waiting = list[_Cluster]()
    for number in numbers:
        cluster = _Cluster(launched, program or own, number, drawn)
        if not cluster.run():
            waiting.append(cluster)
            if not together:
                break
    while waiting:
        left = [cluster for cluster in waiting if not cluster.run()]
        if len(left) == len(waiting):
            raise Stuck(f"{', '.join(left[0].left)} wait for what never comes; see what should arrive")
        waiting = left
    return launched.result()


@dataclass
class _Barrier:
    arrivals: int
    pending: int = 0
    bytes: int = 0
    phase: int = 0  # that is under way

    def change(self, *, arrived: int = 0, expected: int = 0) -> None:
        self.pending -= arrived
        self.bytes += expected
        if self.pending < 0:
            raise LegalSatError("a barrier has more arrivals than it was initialised for")
        if not self.pending and not self.bytes:
            self.phase, self.pending = self.phase + 1, self.arrivals


@dataclass
class _Meeting:
    here: int = 0
    round: int = 0
    cursor: int = 0


@dataclass
class _Warps:
    """A warpgroup, or the one thread that loads.

    Attributes:
        cta: where it is. role: what it does. number: which consumer it is. counts: of its cursors.
        tile: that it is at. k_tile, part, short: where in it. groups: under way, by family. open: not committed yet.
    """

    cta: Cta
    role: k.KernelRole
    number: int
    counts: dict[str, int] = field(default_factory=dict)
    tile: Tile | None = None
    k_tile: int = 0
    part: int = 0
    short: bool = False
    groups: dict[str, deque[list[Callable[[], None]]]] = field(
        default_factory=lambda: {"wgmma": deque(), "bulk": deque(), "tcgen05": deque()}
    )
    open: dict[str, list[Callable[[], None]]] = field(default_factory=lambda: {"wgmma": [], "bulk": [], "tcgen05": []})

    def item(self, at: At) -> int:
        return self.counts.get(at.cursor, 0) + at.offset

    def finish(self, family: str) -> None:
        """Do the oldest group that is under way."""
        for work in self.groups[family].popleft():
            work()


class _Cluster:
    def __init__(self, launched: Launched, program: k.KernelProgram, number: int, drawn: random.Random) -> None:
        self.launched, self.program, self.number, self.drawn = launched, program, number, drawn
        self.stages = {ring.name: ring.stages for ring in program.barriers}
        self.stages |= {ring.name: ring.stages for ring in program.buffers}
        self.stages |= {ring.name: ring.stages for ring in program.sums}
        self.ctas = [Cta(launched, program, rank) for rank in range(program.ctas)]
        self.barriers = {
            (cta.rank, ring.name, stage): _Barrier(ring.arrivals, ring.arrivals)
            for cta in self.ctas
            for ring in program.barriers
            for stage in range(ring.stages)
        }
        self.meetings: dict[tuple[int, str], _Meeting] = {}
        self.landing: list[Callable[[], None]] = []  # loads under way
        self.warps = [_Warps(cta, role, i) for cta in self.ctas for role in program.roles for i in range(role.count)]
        self.running = {i: self.body(warps, warps.role.body) for i, warps in enumerate(self.warps)}
        self.waits = {i: next(one, None) for i, one in self.running.items()}

    @property
    def left(self) -> list[str]:
        """Names of roles that are not at their ends."""
        left = [self.warps[i] for i, wait in self.waits.items() if wait is not None]
        return [f"{one.role.name} {one.number} of CTA {one.cta.rank}" for one in left]

    def run(self) -> bool:
        """Run all roles as far as they go by themselves, and return whether those are their ends."""
        running, waits = self.running, self.waits
        while True:
            ready = [i for i, wait in waits.items() if wait is not None and wait()]
            late = [(one, name) for one in self.warps for name, groups in one.groups.items() if groups]
            choices = len(ready) + len(self.landing) + len(late)
            if not choices:
                break
            chosen = self.drawn.randrange(choices)
            if chosen < len(ready):
                waits[ready[chosen]] = next(running[ready[chosen]], None)
            elif chosen < len(ready) + len(self.landing):
                self.landing.pop(chosen - len(ready))()
            else:
                one, name = late[chosen - len(ready) - len(self.landing)]
                one.finish(name)
        return not self.left

    def body(self, warps: _Warps, body: k.Body) -> Running:
        for op in body:
            row = op.run(warps) if isinstance(op, k.Own) else ROWS[type(op)](self, warps, op)
            if row is not None:
                yield from row

    def barrier(self, warps: _Warps, name: str, at: At, cta: int | None = None) -> _Barrier:
        rank = warps.cta.rank if cta is None else cta
        return self.barriers[rank, name, warps.item(at) % self.stages[name]]

    # Rows: what an operation does; those that wait yield until when.

    def tiles(self, warps: _Warps, op: k.Tiles) -> Running:
        step = self.launched.clusters
        first = self.number + (warps.number * step if op.turns > 1 else 0)
        numbers = range(first, self.launched.scheduler.end(self.number), op.turns * step)
        for number in numbers[:1] if op.once else numbers:
            warps.tile, warps.k_tile = warps.cta.tile(number), 0
            yield from self.body(warps, op.body)

    def k_tiles(self, warps: _Warps, op: k.KTiles) -> Running:
        assert warps.tile is not None
        last = warps.tile.k_tiles - op.before
        for number in range(op.after, last):
            warps.k_tile, warps.short = number, op.short and number + 1 == last
            yield from self.body(warps, op.body)
        warps.k_tile, warps.short = last, False

    def phases(self, warps: _Warps, op: k.Phases) -> Running:
        assert warps.tile is not None
        whole = warps.tile
        for turn in range(1, op.count):
            warps.tile = replace(whole, lines=self.launched.scheduler.phase(turn, whole.member))
            yield from self.body(warps, op.body)
        warps.tile = whole

    def parts(self, warps: _Warps, op: k.Parts) -> Running:
        for part in range(op.first, op.first + op.count):
            warps.part = part
            yield from self.body(warps, op.body)
        warps.part = 0

    def loop(self, warps: _Warps, op: Loop) -> Running:
        for _ in range(op.trips.value({})):
            yield from self.body(warps, op.body)

    def if_late(self, warps: _Warps, op: k.IfLate) -> Running:
        assert warps.tile is not None
        if warps.tile.starts_late:
            yield from self.body(warps, op.body)

    def if_whole(self, warps: _Warps, op: k.IfWhole) -> Running:
        assert warps.tile is not None
        if (warps.tile.place < 0) == op.whole:
            yield from self.body(warps, op.body)

    def only(self, warps: _Warps, op: k.Only) -> Running:
        if warps.number == op.consumer:
            yield from self.body(warps, op.body)

    def wait(self, warps: _Warps, op: Wait) -> Running:
        lap = warps.item(op.at) // self.stages[op.barrier] - op.before
        barrier = self.barrier(warps, op.barrier, op.at)
        yield lambda: barrier.phase % 2 != lap % 2

    def expect(self, warps: _Warps, op: Expect) -> None:
        self.barrier(warps, op.barrier, op.at).change(arrived=int(op.arrives), expected=op.bytes)

    def release(self, warps: _Warps, op: k.Release) -> None:
        for cta in warps.cta.shares(op.operands):
            self.barrier(warps, op.barrier, op.at, cta).change(arrived=WARPS)

    def arrive(self, warps: _Warps, op: Arrive) -> None:
        self.barrier(warps, op.barrier, op.at).change(arrived=op.count)

    def load(self, warps: _Warps, op: k.LoadShare) -> None:
        assert warps.tile is not None
        stage = warps.item(op.at) % self.stages["B"]
        name = op.barrier
        for box in warps.cta.boxes(op.operand, warps.tile, warps.k_tile):
            for rank in box.ctas:

                def land(box: Any = box, rank: int = rank) -> None:
                    self.ctas[rank].put(box, stage)
                    self.barriers[rank, name, stage].change(expected=-box.bytes)

                self.landing.append(land)

    def align(self, warps: _Warps, op: k.AlignLines) -> None:
        assert warps.tile is not None
        warps.cta.align(op.operand, warps.tile, warps.item(op.at) % self.stages[op.lines])

    def clear_others(self, warps: _Warps, op: k.ClearOthers) -> None:
        assert warps.tile is not None
        k_tile = warps.tile.k_tiles - 1 if op.last else 0
        warps.cta.clear_others(warps.tile, k_tile, warps.item(op.at) % self.stages["A"])

    def multiply(self, warps: _Warps, op: Multiply) -> None:
        assert warps.tile is not None
        stage = warps.item(op.reads[0][1]) % self.stages["B"]
        steps = warps.tile.last_steps if warps.short else len(self.launched.kernel.b.offsets[0])
        if op.unit == "wgmma":
            warps.open["wgmma"].append(lambda: warps.cta.multiply(warps.number, stage, steps))
            return
        to, begins = warps.item(op.at) % self.stages[op.sums], warps.k_tile == 0
        warps.open["tcgen05"].append(lambda: warps.cta.sum_up(to, stage, begins=begins))

    def read_rows(self, warps: _Warps, op: k.ReadRows) -> None:
        stages = self.stages["A"]
        stage, after = (warps.item(op.at) % stages, (warps.item(op.at) + 1) % stages)
        assert warps.tile is not None
        warps.cta.read_rows(warps.number, (stage, after), op.steps, warps.tile.member)

    def multiply_rows(self, warps: _Warps, op: k.MultiplyRows) -> None:
        stage, fragments = warps.item(op.at) % self.stages["B"], warps.cta.fragments[warps.number]
        warps.open["wgmma"].append(lambda: warps.cta.multiply_rows(warps.number, fragments, stage, op.steps))

    def commit(self, warps: _Warps, op: Commit) -> None:
        warps.groups[op.family].append(warps.open[op.family])
        warps.open[op.family] = []

    def commit_to(self, warps: _Warps, op: CommitTo | k.ReleaseDone) -> None:
        ctas = [warps.cta.rank] if isinstance(op, CommitTo) else warps.cta.shares(op.operands)
        told = [partial(self.barrier(warps, op.barrier, op.at, cta).change, arrived=1) for cta in ctas]
        warps.groups["tcgen05"].append([*warps.open["tcgen05"], *told])
        warps.open["tcgen05"] = []

    def fetch(self, warps: _Warps, op: k.FetchSums) -> None:
        assert warps.tile is not None
        warps.cta.fetch(warps.number, warps.item(op.at) % self.stages[op.sums], warps.tile)

    def wait_group(self, warps: _Warps, op: WaitGroup) -> None:
        while len(warps.groups[op.family]) > op.pending:
            warps.finish(op.family)

    def sync(self, warps: _Warps, op: Sync) -> Running:
        name = op.name.format(i=warps.number, other=1 - warps.number)
        everywhere = name == "cluster"
        meeting = self.meetings.setdefault((-1 if everywhere else warps.cta.rank, name), _Meeting())
        roles = self.program.roles
        wanted = {"cluster": len(self.warps), "block": sum(role.count for role in roles), "consumers": roles[0].count}
        if op.cursor and not op.waits:
            meeting.cursor = warps.counts.get(op.cursor, 0)
        mine, meeting.here = meeting.round, meeting.here + 1
        if meeting.here == wanted.get(name, 2 if op.cursor else 1):
            meeting.round, meeting.here = mine + 1, 0
        if op.waits:
            yield lambda: meeting.round > mine
            if op.cursor:
                warps.counts[op.cursor] = meeting.cursor

    def advance(self, warps: _Warps, op: Advance) -> None:
        warps.counts[op.cursor] = warps.counts.get(op.cursor, 0) + op.by

    def take(self, warps: _Warps, op: UseSums) -> None:
        assert warps.tile is not None
        warps.cta.take(warps.number, warps.tile)

    def write(self, warps: _Warps, op: Write) -> None:
        stage = warps.item(op.at) % self.stages[op.buffer.format(i=warps.number)]
        if op.buffer.startswith("C"):
            warps.cta.write_c(warps.number, warps.part, stage)
        else:
            assert warps.tile is not None
            warps.cta.drop_heads(warps.number, stage, warps.tile.shift)

    def store(self, warps: _Warps, op: Store) -> None:
        stage = warps.item(op.at) % self.stages[op.buffer.format(i=warps.number)]
        part, tile = warps.part, warps.cta.taken[warps.number]
        warps.open["bulk"].append(lambda: warps.cta.store_c(warps.number, part, stage, tile))

    def read(self, warps: _Warps, op: Read | k.StoreSectors | k.StoreElements) -> None:
        stage = warps.item(op.at) % self.stages[op.buffer.format(i=warps.number)]
        warps.cta.read_c(warps.number, warps.part, stage)

    def store_columns(self, warps: _Warps, op: k.StoreColumns) -> None:
        stage = warps.item(op.at) % self.stages[op.buffer.format(i=warps.number)]
        warps.cta.store_columns(warps.number, warps.part, stage)

    def read_peers(self, warps: _Warps, op: k.ReadPeers) -> None:
        warps.cta.add_up(warps.number, self.ctas)


def _nothing(cluster: _Cluster, warps: _Warps, op: object) -> None:
    """Do nothing: what orders memory that is in order here, or is no memory."""


ROWS: dict[type, Callable[[_Cluster, _Warps, Any], Running | None]] = {
    k.Tiles: _Cluster.tiles,
    k.KTiles: _Cluster.k_tiles,
    k.Phases: _Cluster.phases,
    k.Parts: _Cluster.parts,
    k.IfLate: _Cluster.if_late,
    k.IfWhole: _Cluster.if_whole,
    k.Only: _Cluster.only,
    Loop: _Cluster.loop,
    k.LoadShare: _Cluster.load,
    k.AlignLines: _Cluster.align,
    k.ClearOthers: _Cluster.clear_others,
    k.Release: _Cluster.release,
    k.Clear: lambda _, warps, op: warps.cta.clear(warps.number),
    k.SlideSums: lambda _, warps, op: warps.cta.slide(warps.number),
    k.ReadRows: _Cluster.read_rows,
    k.MultiplyRows: _Cluster.multiply_rows,
    k.ReadPeers: _Cluster.read_peers,
    k.StoreColumns: _Cluster.store_columns,
    k.StoreElements: _Cluster.read,
    k.StoreSectors: _Cluster.read,
    Wait: _Cluster.wait,
    Expect: _Cluster.expect,
    Arrive: _Cluster.arrive,
    Multiply: _Cluster.multiply,
    Commit: _Cluster.commit,
    CommitTo: _Cluster.commit_to,
    k.ReleaseDone: _Cluster.commit_to,
    k.FetchSums: _Cluster.fetch,
    WaitGroup: _Cluster.wait_group,
    Sync: _Cluster.sync,
    Advance: _Cluster.advance,
    UseSums: _Cluster.take,
    Write: _Cluster.write,
    Store: _Cluster.store,
    Read: _Cluster.read,
    **dict.fromkeys(
        (k.FindRows, k.FindGroups, k.FindColumns, AwaitGrid, LaunchDependents, k.MeetSetup, Start, Fence, Registers),
        _nothing,
    ),
    **dict.fromkeys((Allocate, Relinquish, Free), _nothing),  # a CTA has all of its tensor memory
}
