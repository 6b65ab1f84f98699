"""Runs the program of a movement by granules on numpy memory: what its leaf means, block by block.

A tile begins as junk, and holds what was copied only once that was waited for, so that a program that forgets to wait
moves junk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from legalsat.errors import InvalidInput
from legalsat.plans.movement_plan import Granules, MovementPlan
from legalsat.program.leaves import GRANULE, SECTOR, THREADS, ShiftRows, TurnTile, named
from legalsat.program.pipeline import (
    AwaitGrid,
    Commit,
    CopyIn,
    LaunchDependents,
    Operation,
    Pipeline,
    Read,
    Sync,
    WaitGroup,
    Write,
)

Bytes: TypeAlias = NDArray[np.uint8]
Numbers: TypeAlias = NDArray[np.int64]
JUNK = 0xEE
FILLED = -2  # in memory that says where a byte is from: it is from nowhere
Copied: TypeAlias = tuple[Numbers, Numbers]
"""Bytes of a tile, and the bytes of the source that are copied there."""


@dataclass
class Ends:
    """The memory of both sides, and how far into it the tensors begin: addresses that the program is launched with.

    Memory may hold bytes, or numbers that say where a byte is from.
    """

    source: NDArray[Any]
    target: NDArray[Any]
    source_at: int = 0
    target_at: int = 0


@dataclass
class Block:
    """What a block has done: its tile, and copies by bytes of the tile and of the source, issued and in groups."""

    number: int
    tile: NDArray[Any]
    issued: list[Copied] = field(default_factory=list)
    groups: list[list[Copied]] = field(default_factory=list)
    copied: list[Copied] = field(default_factory=list)


def run_granules(plan: MovementPlan, ends: Ends) -> None:
    """Run a plan by granules, which writes the target's memory.

    Args:
        plan: by granules.
        ends: memory, whose addresses modulo 256 are those in it.

    Raises:
        InvalidInput: the plan is by other means, or its program has operations that mean nothing here.
    """
    if plan.granules is None:
        raise InvalidInput(f"plan is by {plan.access.by}; give one by granules")
    for number in range(plan.granules.blocks):
        run_block(plan.pipeline, plan.granules, number, ends)


def run_block(program: Pipeline, granules: Granules, number: int, ends: Ends) -> Block:
    """Run a block of a program, and return what it has done.

    Args:
        program: around the kernel.
        granules: the kernel and its numbers.
        number: of the block.
        ends: memory.

    Raises:
        InvalidInput: an operation means nothing here.
    """
    values = named(granules.kernel, granules.numbers)
    (role,) = program.roles
    size = program.buffers[0].bytes if program.buffers else 0
    block = Block(number, np.full(size, JUNK, ends.source.dtype))
    for op in role.body:
        _run(op, block, granules.kernel, values, ends)
    return block


def _run(op: Operation, block: Block, kernel: Any, values: dict[str, int], ends: Ends) -> None:
    match op:
        case ShiftRows():
            _shift_rows(op, block, values, ends)
        case CopyIn():
            _copy_in(kernel, block, values, ends)
        case Commit():
            block.groups.append(block.issued)
            block.issued = []
        case WaitGroup():
            while len(block.groups) > op.pending:
                for at, taken in block.groups.pop(0):
                    # Bytes beside the tensor may be no memory of ours; nobody picks them.
                    held = (taken >= 0) & (taken < ends.source.size)
                    block.tile[at] = np.where(held, ends.source[np.where(held, taken, 0)], JUNK)
        case TurnTile():
            _turn_tile(op, block, values, ends)
        case AwaitGrid() | LaunchDependents() | Write() | Read() | Sync():
            pass
        case _:
            raise InvalidInput(f"{type(op).__name__} means nothing beside granules; give the program of a plan")


def _walked(index: Numbers, name: str, count: int, values: dict[str, int]) -> list[Numbers]:
    """Return where an index stands along axes of this name, fastest first; the last one takes what is left."""
    found = []
    for axis in range(count):
        extent = values[f"{name}{axis}_number"]
        found.append(index % extent if axis + 1 < count else index)
        index = index // extent
    return found


def _offset(at: Sequence[Numbers], name: str, side: str, values: dict[str, int]) -> Any:
    """Return the bytes to a place along axes."""
    return sum((along * values[f"{name}{axis}_{side}"] for axis, along in enumerate(at)), np.int64(0))


def _shift_rows(op: ShiftRows, block: Block, values: dict[str, int], ends: Ends) -> None:
    """Store the granules of a block that lie in rows, byte by byte."""
    parts, by_row = values["parts_number"], 0
    if op.alone:
        by_row = block.number // parts
    unit = (block.number - by_row * parts) * THREADS + np.arange(THREADS)
    unit = unit[unit < values["units"]]
    row, number = (np.full_like(unit, by_row), unit) if op.alone else (unit // parts, unit % parts)
    at = _walked(row, "axis", op.axes, values)
    none = np.zeros_like(row)
    target = none + ends.target_at + _offset(at, "axis", "target", values)
    there = np.ones(len(unit), bool)
    if op.fills:
        at = [along - values[f"first{axis}"] for axis, along in enumerate(at)]
        for axis, along in enumerate(at):
            there &= (along >= 0) & (along < values[f"lines{axis}"])
    source = none + ends.source_at + _offset(at, "axis", "source", values)
    # Bytes of each granule, counted from where its row begins.
    place = (number * GRANULE - (target % GRANULE if op.element < GRANULE else 0))[:, None] + np.arange(GRANULE)
    inside = (place >= 0) & (place < values["bytes"])
    taken = place
    if op.joins:
        taken = place + place // values["joined_number"] * _signed(values["gap"])
    if op.fills:
        taken = place - values["head"]
        has = inside & there[:, None] & (taken >= 0) & (taken < values["filled_bytes"])
        pattern = np.frombuffer(values["pattern"].to_bytes(8, "little"), np.uint8)
        # An element begins at a multiple of its bytes in its row; the pattern repeats with a period of 8 of them.
        around = pattern[(target[:, None] + place) % 8]
        filled = around[inside & ~has] if ends.target.dtype == np.uint8 else FILLED
        ends.target[(target[:, None] + place)[inside & ~has]] = filled
        inside = has
    ends.target[(target[:, None] + place)[inside]] = ends.source[(source[:, None] + taken)[inside]]


def _signed(gap: int) -> int:
    """Return a number of 32 bits that may be below 0."""
    return gap - 2**32 if gap >= 2**31 else gap


@dataclass(frozen=True)
class _Corner:
    """Where a block's tile begins: bytes on both sides, the first of its i and j, and how many of i it has."""

    source: int
    target: int
    first_i: int
    first_j: int
    lines: int


def _corner(op: TurnTile, block: Block, values: dict[str, int], ends: Ends) -> _Corner:
    by_j, j_tile = divmod(block.number, values["tiles_j_number"])
    batch, i_tile = divmod(by_j, values["tiles_i_number"])
    at = _walked(np.array(batch), "axis", op.axes, values)
    source, target = (int(_offset(at, "axis", side, values)) for side in ("source", "target"))
    first_i = i_tile * op.tile_i
    lines = min(op.tile_i, values["along_i"] - first_i)
    source += ends.source_at + first_i * op.element
    return _Corner(source, ends.target_at + target, first_i, j_tile * op.tile_j, lines)


def _row_begins(op: TurnTile, corner: _Corner, j: Numbers, values: dict[str, int]) -> Numbers:
    """Return the byte of the source at which rows of the tile begin."""
    begins: Numbers = corner.source + _offset(_walked(j, "j", op.axes_j, values), "j", "source", values)
    return begins


def _tile_rows(op: TurnTile, row: Numbers) -> Numbers:
    """Return the byte of the tile at which each row's first granule lies: rows in groups, a granule between groups."""
    per_granule = GRANULE // op.element
    apart = per_granule > 1
    pitch = op.granules * GRANULE + (0 if apart else GRANULE)
    return row * pitch + row // per_granule * (GRANULE * apart)


def _copy_in(op: TurnTile, block: Block, values: dict[str, int], ends: Ends) -> None:
    """Issue copies of the granules that hold bytes of the tile's rows."""
    corner = _corner(op, block, values, ends)
    for row in range(op.rows):
        j = corner.first_j - op.reach + row
        if not 0 <= j < values["along_j"]:
            continue
        start = int(_row_begins(op, corner, np.array(j), values))
        shift = start % GRANULE if op.straddles else 0
        count = min(op.granules, -(-(shift + corner.lines * op.element) // GRANULE))
        at = int(_tile_rows(op, np.array(row))) + np.arange(count * GRANULE)
        block.issued.append((at, start - shift + np.arange(count * GRANULE)))
    block.copied += block.issued


def _turn_tile(op: TurnTile, block: Block, values: dict[str, int], ends: Ends) -> None:
    """Pick the elements out of the tile that this block stores of each line, and store them."""
    corner = _corner(op, block, values, ends)
    along_j = values["along_j"]
    for line in range(corner.lines):
        walked = _walked(np.array(corner.first_i + line), "i", op.axes_i, values)
        begins = corner.target + int(_offset(walked, "i", "target", values))
        # What is stored of a line begins where a sector does, and in the last block goes on to the line's end.
        back = (begins + corner.first_j * op.element) % SECTOR // op.element if op.skewed else 0
        end = corner.first_j - back + op.tile_j
        last = corner.first_j + op.tile_j >= along_j
        j = np.arange(max(0, corner.first_j - back), along_j if last else end)
        start = _row_begins(op, corner, j, values)
        shift = start % GRANULE if op.straddles else np.zeros_like(start)
        picked = _tile_rows(op, j - corner.first_j + op.reach) + shift + line * op.element
        width = np.arange(op.element)
        ends.target[(begins + j * op.element)[:, None] + width] = block.tile[picked[:, None] + width]


def run_plan(plan: MovementPlan, source: Bytes, target: Bytes) -> Bytes:
    """Return the target's bytes after a plan by granules has run, both tensors at addresses that they may have.

    Args:
        plan: by granules.
        source: bytes of the source, from the first to the last.
        target: the target's, as they were before.
    """
    ends = []
    for memory, end in ((source, plan.operator.source), (target, plan.operator.target)):
        at = end.address % 256
        ends.append((np.concatenate([np.full(at, JUNK, np.uint8), memory]), at))
    (first, source_at), (then, target_at) = ends
    run_granules(plan, Ends(first, then, source_at, target_at))
    return then[target_at:]
