"""Programs of tensor memory: what a CTA allocates, multiplies, moves and frees, in order; and the sites they make.

A program is one order in which things happen, of both CTAs where two multiply together. It says who does them, so that
`legalsat.extract.tensor_memory.tensor_memory_violations` can say which rules of the hardware they break. Whether one
thing has ended before the next begins is the pipeline's business, and not told here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, TypeAlias

from legalsat.errors import InvalidInput
from legalsat.tcgen05 import InstructionDescriptor, Scales
from legalsat.tcgen05_sites import (
    Accumulator,
    IssuedOnce,
    KernelGroups,
    PeerUse,
    ScaleFactors,
    Tcgen05Mma,
    TensorMemoryAllocation,
    TensorMemoryCopy,
    TensorMemoryExit,
    TensorMemoryFree,
    TensorMemoryPair,
    TensorMemoryTransfer,
    TensorMemoryUse,
    WarpWide,
)
from legalsat.tensor_memory_layouts import (
    LANES,
    PARTITION,
    TRANSFERS,
    Datapath,
    columns_of_sums,
    datapath,
    operand_columns,
)

# Of tcgen05.cp, by shape: lanes that one copy reaches and columns; and the warps that .warpx2 and .warpx4 reach.
COPIES = {"128x256b": (128, 8), "4x256b": (4, 8), "128x128b": (128, 4), "64x128b": (64, 4), "32x128b": (32, 4)}
MULTICASTS = {"128x256b": ("",), "4x256b": ("",), "128x128b": ("",)} | {
    "64x128b": ("warpx2::02_13", "warpx2::01_23"),
    "32x128b": ("warpx4",),
}


@dataclass(frozen=True, slots=True)
class Region:
    """Columns of an allocation, by its name, counted from its first; and the first lane."""

    allocation: str
    column: int
    columns: int
    lane: int = 0


@dataclass(frozen=True, slots=True)
class Allocate:
    """tcgen05.alloc of columns, which the program calls `name`."""

    name: str
    columns: int
    cta_group: int = 1
    cta: int = 0
    converged: bool = True


@dataclass(frozen=True, slots=True)
class Free:
    """tcgen05.dealloc of an allocation; `columns` as the instruction says, those allocated when left out."""

    name: str
    columns: int | None = None
    cta_group: int = 1
    cta: int = 0
    converged: bool = True


@dataclass(frozen=True, slots=True)
class Relinquish:
    """tcgen05.relinquish_alloc_permit."""

    cta_group: int = 1
    cta: int = 0
    converged: bool = True


@dataclass(frozen=True, slots=True)
class Multiply:
    """tcgen05.mma into the region `d`, with A from `a` (None: from shared memory) and the scale factors' regions."""

    instruction: InstructionDescriptor
    d: Region
    a: Region | None = None
    a_scales: Region | None = None
    b_scales: Region | None = None
    scales: Scales | None = None
    cta_group: int = 1
    ws: bool = False
    cta: int = 0
    threads: int = 1


@dataclass(frozen=True, slots=True)
class Transfer:
    """tcgen05.ld or .st by one warp; `registers` of a thread, as many as needed when left out."""

    instruction: str
    allocation: str
    shape: str
    num: int
    warp: int
    lane: int
    column: int
    registers: int | None = None
    split: int = 0
    cta: int = 0
    converged: bool = True
    same_address: bool = True


@dataclass(frozen=True, slots=True)
class CopyIn:
    """tcgen05.cp from shared memory; `multicast` is "", "warpx4", "warpx2::02_13" or "warpx2::01_23"."""

    shape: str
    multicast: str
    allocation: str
    column: int
    lane: int = 0
    cta_group: int = 1
    cta: int = 0
    threads: int = 1


@dataclass(frozen=True, slots=True)
class Commit:
    """tcgen05.commit."""

    cta_group: int = 1
    cta: int = 0
    threads: int = 1


@dataclass(frozen=True, slots=True)
class Meet:
    """A barrier of both CTAs of a pair."""

    cta: int = 0


@dataclass(frozen=True, slots=True)
class Exit:
    """The end of a CTA."""

    cta: int = 0


Event: TypeAlias = Allocate | Free | Relinquish | Multiply | Transfer | CopyIn | Commit | Meet | Exit


@dataclass(frozen=True, slots=True)
class Program:
    """Events of one CTA, or of the two of a pair, in an order in which they may happen; and the cluster's CTAs."""

    events: tuple[Event, ...]
    cluster: int = 1


@dataclass
class _Block:
    """What one CTA has done so far: columns of what it allocated, what of it lives, who wrote what."""

    columns: dict[str, int] = field(default_factory=dict)
    live: set[str] = field(default_factory=set)
    previous: int = 0
    relinquished: bool = False
    exited: bool = False
    written: dict[tuple[str, int], set[int]] = field(default_factory=dict)
    unread: dict[Region, bool] = field(
        default_factory=dict
    )  # sums that nobody loaded yet; whether they fill half lanes

    def use(self, what: str, region: Region, lanes: int = LANES) -> TensorMemoryUse:
        name = region.allocation
        allocated, live = self.columns.get(name, 0), name in self.live
        return TensorMemoryUse(what, region.column, region.columns, allocated, live, region.lane, lanes)

    def overwrite(self, what: str, region: Region, half: bool = False) -> Iterator[TensorMemoryPair]:
        """Yield what a write shares columns with: sums that are still to be loaded, but for itself to add to."""
        for sums, halves in self.unread.items():
            apart = half and halves and sums.lane != region.lane
            if sums.allocation == region.allocation and sums != region and not apart:  # a rule says if they overlap
                yield TensorMemoryPair("sums", what, sums.column, sums.columns, region.column, region.columns)

    def load(self, region: Region) -> None:
        for sums in [sums for sums in self.unread if _share(sums, region)]:
            del self.unread[sums]

    def write(self, name: str, column: int, columns: int, partitions: set[int]) -> None:
        for at in range(column, column + columns):
            self.written.setdefault((name, at), set()).update(partitions)

    def holders(self, region: Region) -> int:
        """Return how many partitions hold every column of a region."""
        found = set(range(LANES // PARTITION))
        for at in range(region.column, region.column + region.columns):
            found &= self.written.get((region.allocation, at), set())
        return len(found)


class _Walk:
    """The state of both CTAs as a program goes on."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.blocks = (_Block(), _Block())
        self.met = False
        self.groups: list[int] = []

    def sites(self) -> Iterator[Any]:
        for event in self.program.events:
            if event.cta not in (0, 1):
                raise InvalidInput(f"event is of CTA {event.cta}; give 0 or 1, its rank in the pair")
            yield from self._of(event)
            self.groups += [group] if (group := getattr(event, "cta_group", 0)) else []
            if not isinstance(event, Free | Relinquish | Exit):
                self.met = isinstance(event, Meet)
        for cta, block in enumerate(self.blocks):
            if block.live and not block.exited:
                yield TensorMemoryExit(cta, tuple(sorted(block.live)))
        yield KernelGroups(tuple(dict.fromkeys(self.groups)))

    def _of(self, event: Event) -> Iterator[Any]:
        block, other = self.blocks[event.cta], self.blocks[1 - event.cta]
        yield from self._together(event, other)
        if isinstance(event, Allocate):
            yield from self._allocate(event, block)
        elif isinstance(event, Free):
            allocated = block.columns.get(event.name, 0)
            columns = allocated if event.columns is None else event.columns
            yield TensorMemoryFree(event.name, allocated, event.name in block.live, columns)
            block.live.discard(event.name)
            block.unread = {sums: half for sums, half in block.unread.items() if sums.allocation != event.name}
        elif isinstance(event, Relinquish):
            block.relinquished = True
        elif isinstance(event, Multiply):
            yield from _multiply(event, (block, other)[: event.cta_group])
        elif isinstance(event, Transfer):
            yield from _transfer(event, block)
        elif isinstance(event, CopyIn):
            yield from _copy(event, (block, other)[: event.cta_group])
        elif isinstance(event, Exit):
            yield TensorMemoryExit(event.cta, tuple(sorted(block.live)))
            block.exited = True

    def _together(self, event: Event, other: _Block) -> Iterator[Any]:
        """Yield what rules judge of how threads and CTAs do something together."""
        said = f"tcgen05.{_NAMES.get(type(event), '')}"
        if isinstance(event, Free) and event.cta_group == 2:
            yield PeerUse(said, self.program.cluster, other.exited, self.met, event.name in other.columns)
        elif getattr(event, "cta_group", 1) == 2:
            yield PeerUse(said, self.program.cluster, other.exited)
        if isinstance(event, Allocate | Free | Relinquish):
            yield WarpWide(said, event.converged)
        elif isinstance(event, Multiply | CopyIn | Commit):
            yield IssuedOnce(said, event.threads)

    def _allocate(self, event: Allocate, block: _Block) -> Iterator[Any]:
        if event.name in block.live:
            raise InvalidInput(f"CTA {event.cta} allocates {event.name} twice; give the second allocation its own name")
        held = sum(block.columns[name] for name in block.live)
        yield TensorMemoryAllocation(event.columns, held, block.previous, block.relinquished)
        block.columns[event.name] = block.previous = event.columns
        block.live.add(event.name)
        block.written = {key: held for key, held in block.written.items() if key[0] != event.name}


_NAMES = {
    Allocate: "alloc",
    Free: "dealloc",
    Relinquish: "relinquish_alloc_permit",
    Multiply: "mma",
    CopyIn: "cp",
    Commit: "commit",
}


def sites(program: Program) -> Iterator[Any]:
    """Yield what rules judge of a program, in its order.

    Raises:
        InvalidInput: a name is allocated while it is, or a CTA is none of the pair.
    """
    return _Walk(program).sites()


def _share(one: Region, other: Region) -> bool:
    begin, end = max(one.column, other.column), min(one.column + one.columns, other.column + other.columns)
    return one.allocation == other.allocation and begin < end


def _multiply(event: Multiply, blocks: tuple[_Block, ...]) -> Iterator[Any]:
    word = event.instruction
    yield Tcgen05Mma(word, event.cta_group, event.a is not None, event.ws, event.scales)
    regions = {"sums": event.d, "operand A": event.a, "scales of A": event.a_scales, "scales of B": event.b_scales}
    there = {name: region for name, region in regions.items() if region is not None}
    path = _path(event)
    half = path is not None and path.half
    for block in blocks:
        for name, region in there.items():
            split = half and region.lane and name in {"sums", "operand A"}
            yield block.use(name, region, LANES - 16 if split else LANES)
        yield from block.overwrite("new sums", event.d, half)
        block.unread[event.d] = half
    for (one, first), (other, second) in combinations(there.items(), 2):
        if first.allocation == second.allocation:
            yield TensorMemoryPair(one, other, first.column, first.columns, second.column, second.columns)
    if path is not None:
        yield Accumulator(
            half=half,
            lane=event.d.lane,
            columns=event.d.columns,
            needed=columns_of_sums(word.m, word.n, event.cta_group, ws=event.ws, sparse=word.sparse),
            a_lane=event.a.lane if event.a else None,
            a_columns=event.a.columns if event.a else 0,
            a_needed=operand_columns(word.k, word.table.element_bits, sparse=word.sparse),
        )
    if word.table.scales:
        for name, at, rows in (("A", event.a_scales, word.m // event.cta_group), ("B", event.b_scales, word.n)):
            partitions = min(block.holders(at) for block in blocks) if at else 0
            yield ScaleFactors(name, at.columns if at else 0, -(-rows // PARTITION), partitions)


def _path(event: Multiply) -> Datapath | None:
    """Return how D spreads over lanes, None where no instruction has such rows, of which its own rule speaks."""
    try:
        return datapath(event.instruction.m, event.cta_group, ws=event.ws, sparse=event.instruction.sparse)
    except InvalidInput:
        return None


def _transfer(event: Transfer, block: _Block) -> Iterator[Any]:
    yield WarpWide(f"tcgen05.{event.instruction}", event.converged, event.same_address)
    shape = TRANSFERS.get(event.shape)
    needed = shape.registers * event.num if shape else 0
    registers = needed if event.registers is None else event.registers
    yield TensorMemoryTransfer(event.instruction, event.shape, event.num, event.warp, event.lane, registers)
    if shape is None:
        return
    columns = shape.columns * event.num + (event.split if event.shape == "16x32bx2" else 0)
    region = Region(event.allocation, event.column, columns, event.lane)
    yield block.use(f"tcgen05.{event.instruction}", region, shape.lanes)
    if event.instruction == "ld":
        block.load(region)
        return
    yield from block.overwrite("what tcgen05.st writes", region)
    if shape.lanes == PARTITION:
        block.write(event.allocation, event.column, columns, {event.warp % (LANES // PARTITION)})


def _copy(event: CopyIn, blocks: tuple[_Block, ...]) -> Iterator[Any]:
    yield TensorMemoryCopy(event.shape, event.multicast)
    known = COPIES.get(event.shape)
    if known is None or event.multicast not in MULTICASTS[event.shape]:
        return
    lanes, columns = known
    reached = LANES if event.multicast else lanes
    region = Region(event.allocation, event.column, columns, event.lane)
    for block in blocks:
        yield block.use("tcgen05.cp", region, reached)
        yield from block.overwrite("what tcgen05.cp writes", region)
        if reached == LANES:
            block.write(event.allocation, event.column, columns, set(range(LANES // PARTITION)))
