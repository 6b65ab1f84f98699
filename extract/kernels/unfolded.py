"""What each role of each CTA of a cluster does by a kernel's program: what is proven, and compared with printed texts.

Tiles become a loop with a symbol for its trips, k-tiles one with a symbol of the tile's; consumers that take turns with
tiles have pairs of them, and perhaps a last one. CTAs that do the same are one role.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import singledispatchmethod
from typing import Any

from legalsat.plans.product_kernel import WARPS
from legalsat.program import kernel as k
from legalsat.program.pipeline import (
    Arrive,
    AwaitGrid,
    CommitTo,
    Guard,
    LaunchDependents,
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
    Write,
)

TILES, PAIRS, ODD = Trips("tiles"), Trips("tiles of each consumer"), Trips("last tile")
GIVEN, OF_GIVEN = Trips("tile that another CTA stores", most=1), " of the tile that another CTA stores"
OF_PAIR, OF_LAST = ("", " of the second tile"), " of the last tile"  # tiles of consumers that take turns
LATER = " of later phases"  # k-tiles

Operations = tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """CTAs of a cluster that do the same.

    Attributes:
        ranks: of the CTAs. masks: whom their loads of A and of B go to, as masks of distances.
        share: which of the shares of A they load, where shares differ in the buffer that they lie in.
    """

    ranks: tuple[int, ...]
    masks: tuple[int, int]
    share: int = 0

    def shares(self, operands: str) -> list[int]:
        """Return who shares some of "A" and "B", itself among them, by distance."""
        masks = [1, *(mask for name, mask in zip("AB", self.masks, strict=True) if name in operands)]
        return [distance for distance in range(max(masks).bit_length()) if any(mask >> distance & 1 for mask in masks)]


def unfolded(program: k.KernelProgram) -> Pipeline:
    """Return what each role of each CTA does."""
    places = _places(program)
    consumers, *others = program.roles
    setup = _Unfolding(program, places[0], 0).body(program.setup + program.everybody)
    return Pipeline(
        barriers=program.barriers,
        buffers=program.buffers,
        roles=(
            Role("setup", 0, setup),
            *(_role(program, consumers, place, i) for place in places for i in range(consumers.count)),
            *(_role(program, other, place) for other in others for place in places),
        ),
        sums=program.sums or tuple(f"accumulator {i}" for i in range(consumers.count)),
        cluster=program.ctas,
    )


def _role(program: k.KernelProgram, role: k.KernelRole, place: Place, number: int = 0) -> Role:
    """Return a role, of the CTAs of a place alone where CTAs differ."""
    body = _Unfolding(program, place, number).body(program.everybody + role.body)
    every = len(place.ranks) == program.ctas
    return Role(
        f"{role.name} {number}" if role.count > 1 or role.name == "consumer" else role.name,
        WARPS,
        body,
        ctas=() if every else place.ranks,
    )


def _places(program: k.KernelProgram) -> list[Place]:
    """Return what the CTAs of a cluster do, those together that do the same; CTAs of a split have their own k-tiles."""
    along_m, _, split = program.cluster
    if split > 1:
        return [Place((rank,), (1, 1)) for rank in range(split)]
    shares_differ = len(_parts(program)) > 1
    found: dict[tuple[tuple[int, int], int], list[int]] = {}
    for rank in range(program.ctas):
        share_a, share_b = ([(one - rank) % program.ctas for one in group] for group in program.sharing(rank))
        a_mask, b_mask = (sum(1 << distance for distance in group) for group in (share_a, share_b))
        key = (a_mask, b_mask), rank // along_m if shares_differ else 0
        found.setdefault(key, []).append(rank)
    return [Place(tuple(ranks), *key) for key, ranks in found.items()]


def _parts(program: k.KernelProgram) -> dict[str, int]:
    """Return the buffers in which A lies, with the bytes of a stage of each."""
    return {ring.name: ring.bytes for ring in program.buffers if ring.name.startswith("A")}


class _Unfolding:
    """The operations of one consumer, or of the producer, of the CTAs of a place."""

    def __init__(self, program: k.KernelProgram, place: Place, number: int) -> None:
        self.program, self.place, self.number = program, place, number
        self.tile = OF_PAIR[0]  # the words behind the symbols of the tile
        self.ping_pong = any(isinstance(op, k.Tiles) and op.turns > 1 for role in program.roles for op in role.body)

    def body(self, body: k.Body) -> Operations:
        return tuple(found for op in body for found in self.each(op))

    def of_tile(self, tile: str, body: k.Body) -> Operations:
        self.tile = tile
        return self.body(body)

    def named(self, name: str) -> str:
        return name.format(i=self.number, other=1 - self.number) if "{" in name else name

    @singledispatchmethod
    def each(self, op: Any) -> Iterator[Operation]:
        """Yield what an operation is, all names resolved."""
        yield op

    @each.register
    def _(self, op: k.Own) -> Iterator[Operation]:
        yield from op.effects(self.number)

    @each.register
    def _(self, op: k.Tiles) -> Iterator[Operation]:
        if op.once:
            yield from self.body(op.body)
        elif self.program.stream_k:
            yield Guard(GIVEN, self.of_tile(OF_GIVEN, op.body))
            yield Loop(TILES, self.of_tile(OF_PAIR[0], op.body))
        elif not self.ping_pong:
            yield Loop(TILES, self.body(op.body))
        elif op.turns > 1:
            yield Loop(PAIRS, self.of_tile(OF_PAIR[self.number], op.body))
            if self.number == 0:
                yield Guard(ODD, self.of_tile(OF_LAST, op.body))
        else:
            yield Loop(PAIRS, (*self.of_tile(OF_PAIR[0], op.body), *self.of_tile(OF_PAIR[1], op.body)))
            yield Guard(ODD, self.of_tile(OF_LAST, op.body))

    @each.register
    def _(self, op: k.KTiles) -> Iterator[Operation]:
        body = self.body(op.body)
        yield Loop(Trips(f"further k-tiles{self.tile}", self.program.least_k_tiles - op.after - op.before), body)
        if self.program.cluster[2] > 1:  # the first CTAs have one more
            yield Guard(Trips("k-tiles left over", -self.place.ranks[0]), body)

    @each.register
    def _(self, op: k.Phases) -> Iterator[Operation]:
        around, self.tile = self.tile, f"{LATER}{self.tile}"
        yield Loop(Trips(f"later phases{around}"), self.body(op.body))
        self.tile = around

    @each.register
    def _(self, op: k.SlideSums) -> Iterator[Operation]:
        yield UseSums(self.named(op.sums))

    @each.register
    def _(self, op: k.IfLate) -> Iterator[Operation]:
        yield Guard(Trips(f"rows that start late{self.tile}"), self.body(op.body))

    @each.register
    def _(self, op: k.IfWhole) -> Iterator[Operation]:
        if op.whole == (self.tile != OF_GIVEN):
            yield from self.body(op.body)

    @each.register
    def _(self, op: k.Only) -> Iterator[Operation]:
        if op.consumer == self.number:
            yield from self.body(op.body)

    @each.register
    def _(self, op: k.Parts) -> Iterator[Operation]:
        body = self.body(op.body)
        if op.count > 1:
            yield Loop(Trips("", op.count), body)
        else:
            yield from body * op.count

    @each.register
    def _(self, op: k.LoadShare) -> Iterator[Operation]:
        along_m, along_n, _ = self.program.cluster
        if op.lines:
            (whole,) = (ring.bytes for ring in self.program.buffers if ring.name == op.lines)
            side = "AB".index(op.operand)
            yield Load(op.lines, op.at, op.barrier, whole // (along_n, along_m)[side], self.place.masks[side])
            return
        if op.operand == "B":
            (whole,) = (ring.bytes for ring in self.program.buffers if ring.name == "B")
            yield Load("B", op.at, op.barrier, whole // along_m, self.place.masks[1])
            return
        parts = _parts(self.program)
        share, first = sum(parts.values()) // along_n, 0
        for name, size in parts.items():  # those in which the CTA's share of the rows lies
            count = min((self.place.share + 1) * share, first + size) - max(self.place.share * share, first)
            if count > 0:
                yield Load(name, op.at, op.barrier, count, self.place.masks[0])
            first += size

    @each.register
    def _(self, op: k.Release) -> Iterator[Operation]:
        yield from (Arrive(op.barrier, op.at, WARPS, cta=cta) for cta in self.place.shares(op.operands))

    @each.register
    def _(self, op: k.ReleaseDone) -> Iterator[Operation]:
        yield CommitTo(op.barrier, op.at, sum(1 << distance for distance in self.place.shares(op.operands)))

    @each.register
    def _(self, op: k.AlignLines) -> Iterator[Operation]:
        yield Read(op.lines, op.at)
        yield Write(op.operand, op.at)

    @each.register
    def _(self, op: k.ClearOthers) -> Iterator[Operation]:
        yield from (Write(name, op.at) for name in "AB")

    @each.register
    def _(self, op: k.ReadRows) -> Iterator[Operation]:
        yield Read("A", op.at)
        if op.last:
            yield Read("A", replace(op.at, offset=op.at.offset + 1))

    @each.register
    def _(self, op: k.MultiplyRows) -> Iterator[Operation]:
        yield Multiply("wgmma", (("B", op.at),), f"accumulator {self.number}")

    @each.register
    def _(self, op: k.ReadPeers) -> Iterator[Operation]:
        yield from (Read(op.buffer, cta=cta) for cta in range(self.program.cluster[2]))

    @each.register
    def _(self, op: k.StoreColumns | k.StoreSectors | k.StoreElements) -> Iterator[Operation]:
        yield Read(self.named(op.buffer), op.at)

    @each.register
    def _(self, op: k.MeetSetup) -> Iterator[Operation]:
        yield Sync("cluster" if self.program.ctas > 1 else "block")

    @each.register
    def _(self, op: k.FindGroups) -> Iterator[Operation]:
        yield Sync("block")

    @each.register
    def _(self, op: k.FetchSums) -> Iterator[Operation]:
        yield UseSums(op.sums, op.at)

    @each.register(k.Clear)
    @each.register(k.FindColumns)
    @each.register(k.FindRows)
    @each.register(AwaitGrid)
    @each.register(LaunchDependents)
    def _(self, op: k.Clear | k.FindColumns | k.FindRows | AwaitGrid | LaunchDependents) -> Iterator[Operation]:
        yield from ()  # what the proof need not know

    @each.register
    def _(self, op: Loop) -> Iterator[Operation]:
        yield replace(op, body=self.body(op.body))

    @each.register(Write)
    @each.register(Read)
    @each.register(Store)
    def _(self, op: Write | Read | Store) -> Iterator[Operation]:
        yield replace(op, buffer=self.named(op.buffer))

    @each.register
    def _(self, op: Multiply) -> Iterator[Operation]:
        yield replace(op, reads=tuple((self.named(name), at) for name, at in op.reads), sums=self.named(op.sums))

    @each.register
    def _(self, op: UseSums) -> Iterator[Operation]:
        yield replace(op, sums=self.named(op.sums))

    @each.register
    def _(self, op: Sync) -> Iterator[Operation]:
        yield replace(op, name=self.named(op.name))
