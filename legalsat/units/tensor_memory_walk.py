"""What rules judge of a program of tensor memory: its events one by one, against what came before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, TypeAlias

from legalsat.errors import InvalidInput
from legalsat.units.tcgen05_sites import (
    Accumulator,
    Executed,
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
from legalsat.units.tensor_memory import (
    COPIES,
    CTAS,
    MULTICASTS,
    SPLIT_SHAPE,
    Allocate,
    Commit,
    CopyIn,
    Event,
    Exit,
    Free,
    Meet,
    Multiply,
    Program,
    Region,
    Relinquish,
    Transfer,
)
from legalsat.units.tensor_memory_layouts import (
    LANES,
    PARTITION,
    TRANSFERS,
    Datapath,
    columns_of_sums,
    datapath,
    operand_columns,
)

STRIP = 16  # lanes that are always touched together
STRIPS = LANES // STRIP

Cells: TypeAlias = list[int]
"""Cells of an allocation: for each strip of 16 lanes, columns as the bits of an int."""


def _cells(strips: Iterable[int], column: int, columns: int) -> Cells:
    bits = ((1 << columns) - 1) << column
    return [bits if strip in strips else 0 for strip in range(STRIPS)]


def _strips(lane: int, lanes: int) -> range:
    return range(lane // STRIP, min(STRIPS, -(-(lane + lanes) // STRIP)))


def _runs(bits: int) -> Iterator[tuple[int, int]]:
    """Yield first bit and length of every run of ones."""
    at = 0
    while bits:
        zeros = (bits & -bits).bit_length() - 1
        bits, at = bits >> zeros, at + zeros
        ones = (~bits & bits + 1).bit_length() - 1
        yield at, ones
        bits, at = bits >> ones, at + ones


@dataclass
class _Block:
    """What one CTA has done so far: columns of what it allocated, what of it lives, who wrote what."""

    columns: dict[str, int] = field(default_factory=dict)
    live: set[str] = field(default_factory=set)
    previous: int = 0
    relinquished: bool = False
    exited: bool = False
    written: dict[tuple[str, int], set[int]] = field(default_factory=dict)
    # Sums that nobody loaded yet, by the region of the multiply.
    unread: dict[Region, Cells] = field(default_factory=dict)

    def use(self, what: str, region: Region, lanes: int = LANES) -> TensorMemoryUse:
        name = region.allocation
        allocated, live = self.columns.get(name, 0), name in self.live
        return TensorMemoryUse(what, region.column, region.columns, allocated, live, region.lane, lanes)

    def overwrite(self, what: str, region: Region, cells: Cells, *, adds: bool = False) -> Iterator[TensorMemoryPair]:
        """Yield what a write destroys: sums that are still to be loaded, but for those that it adds to."""
        for sums, held in [*self.unread.items()]:
            if sums.allocation != region.allocation or (adds and sums == region):
                continue
            lost = 0
            for one, other in zip(held, cells, strict=True):
                lost |= one & other
            for first, count in _runs(lost):
                yield TensorMemoryPair("sums", what, first, count, region.column, region.columns)
            self._keep(sums, cells)

    def load(self, name: str, cells: Cells) -> None:
        for sums in [sums for sums in self.unread if sums.allocation == name]:
            self._keep(sums, cells)

    def _keep(self, sums: Region, gone: Cells) -> None:
        """Forget cells of sums that were loaded or lost."""
        left = [one & ~other for one, other in zip(self.unread[sums], gone, strict=True)]
        self.unread[sums] = left
        if not any(left):
            del self.unread[sums]

    def write(self, name: str, column: int, columns: int, partitions: set[int]) -> None:
        for at in range(column, column + columns):
            self.written.setdefault((name, at), set()).update(partitions)

    def forget(self, region: Region) -> None:
        for at in range(region.column, region.column + region.columns):
            self.written.pop((region.allocation, at), None)

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
        self.blocks = tuple(_Block() for _ in CTAS)
        self.met = self.begun = False
        self.groups: list[int] = []

    def sites(self) -> Iterator[Any]:
        for event in self.program.events:
            yield from self._of(event)
            self.groups += [group] if (group := getattr(event, "cta_group", 0)) else []
            if not isinstance(event, Free | Relinquish | Exit):
                self.met = isinstance(event, Meet)
            self.begun |= isinstance(event, Meet)
        for cta, block in enumerate(self.blocks):
            if block.live and not block.exited:
                yield TensorMemoryExit(cta, tuple(sorted(block.live)))
        yield KernelGroups(tuple(dict.fromkeys(self.groups)))

    def _of(self, event: Event) -> Iterator[Any]:
        block, other = self.blocks[event.cta], self.blocks[1 - event.cta]
        if not isinstance(event, Exit):
            yield Executed(_named(event), event.cta, block.exited)
        yield from self._together(event, other)
        if isinstance(event, Allocate):
            yield from self._allocate(event, block)
        elif isinstance(event, Free):
            allocated = block.columns.get(event.name, 0)
            columns = allocated if event.columns is None else event.columns
            yield TensorMemoryFree(event.name, allocated, event.name in block.live, columns)
            block.live.discard(event.name)
            block.unread = {sums: cells for sums, cells in block.unread.items() if sums.allocation != event.name}
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
        said = _named(event)
        if isinstance(event, Free) and event.cta_group == 2:
            yield PeerUse(said, self.program.cluster, other.exited, self.met, event.name in other.columns)
        elif isinstance(event, Allocate) and event.cta_group == 2:
            yield PeerUse(said, self.program.cluster, other.exited, begun=self.begun)
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
    Allocate: "tcgen05.alloc",
    Free: "tcgen05.dealloc",
    Relinquish: "tcgen05.relinquish_alloc_permit",
    Multiply: "tcgen05.mma",
    CopyIn: "tcgen05.cp",
    Commit: "tcgen05.commit",
    Meet: "barrier of the pair",
    Exit: "exit",
}


def _named(event: Event) -> str:
    return f"tcgen05.{event.instruction}" if isinstance(event, Transfer) else _NAMES[type(event)]


def sites(program: Program) -> Iterator[Any]:
    """Yield what rules judge of a program, in its order.

    Raises:
        InvalidInput: a name is allocated while it is.
    """
    return _Walk(program).sites()


def _multiply(event: Multiply, blocks: tuple[_Block, ...]) -> Iterator[Any]:
    word = event.instruction
    yield Tcgen05Mma(word, event.cta_group, event.a is not None, event.ws, event.scales)
    regions = {"sums": event.d, "operand A": event.a, "scales of A": event.a_scales, "scales of B": event.b_scales}
    there = {name: region for name, region in regions.items() if region is not None}
    path = _path(event)
    half = path is not None and path.half
    needed = event.d.columns
    if path is not None:
        needed = columns_of_sums(word.m, word.n, event.cta_group, ws=event.ws, sparse=word.sparse)
    sums = replace(event.d, columns=needed)
    first_strip = event.d.lane // STRIP
    cells = _cells(range(first_strip, STRIPS, 2 if half else 1), sums.column, needed)
    for block in blocks:
        for name, region in there.items():
            split = half and region.lane and name in {"sums", "operand A"}
            yield block.use(name, region, LANES - 16 if split else LANES)
        yield from block.overwrite("new sums", sums, cells, adds=True)
        block.unread[sums] = cells
    for (one, first), (other, second) in combinations(there.items(), 2):
        if first.allocation == second.allocation:
            yield TensorMemoryPair(one, other, first.column, first.columns, second.column, second.columns)
    if path is not None:
        yield Accumulator(
            half=half,
            lane=event.d.lane,
            columns=event.d.columns,
            needed=needed,
            a_lane=event.a.lane if event.a else None,
            a_columns=event.a.columns if event.a else 0,
            a_needed=operand_columns(word.k, word.table.element_bits, sparse=word.sparse),
        )
    if word.table.scales:
        for name, at, rows in (("A", event.a_scales, word.m // event.cta_group), ("B", event.b_scales, word.n)):
            partitions = min(block.holders(at) for block in blocks) if at else 0
            yield ScaleFactors(name, at.columns if at else 0, -(-rows // PARTITION), partitions)
    for block in blocks:  # scale factors that lay where the sums now do are gone
        block.forget(sums)


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
    moved = shape.columns * event.num
    split = event.shape == SPLIT_SHAPE
    region = Region(event.allocation, event.column, moved + (event.split if split else 0), event.lane)
    yield block.use(f"tcgen05.{event.instruction}", region, shape.lanes)
    for first in (event.column, event.column + event.split) if split else (event.column,):
        cells = _cells(_strips(event.lane, shape.lanes), first, moved)
        if event.instruction == "ld":
            block.load(event.allocation, cells)
        else:
            part = replace(region, column=first, columns=moved)
            yield from block.overwrite("what tcgen05.st writes", part, cells)
    if event.instruction == "st" and shape.lanes == PARTITION:
        block.write(event.allocation, event.column, moved, {event.warp % (LANES // PARTITION)})


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
        cells = _cells(_strips(event.lane, reached), event.column, columns)
        yield from block.overwrite("what tcgen05.cp writes", region, cells)
        if reached == LANES:
            block.write(event.allocation, event.column, columns, set(range(LANES // PARTITION)))
