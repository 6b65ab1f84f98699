"""What a candidate is predicted to cost, in named terms."""

from __future__ import annotations

import math
from dataclasses import dataclass

from legalsat.access import Access
from legalsat.plan import Cost, View
from legalsat.targets import Target

# A chip without a product name is taken for a middling one; only ratios between candidates matter.
NOMINAL_BANDWIDTH = 3e12  # bytes a second
NOMINAL_PROCESSORS = 132
SHARED_BYTES_PER_NANOSECOND = 200.0  # one processor: 128 bytes a clock at about 1.6 GHz
SHARED_BYTES_PER_WAVEFRONT = 128
NANOSECONDS_PER_BOX = 8.0  # one processor's copy engine, from one box to the next
# One processor's memory instructions of a warp. torch's pad of 16384 x 16383 bf16 issues 63,550 loads and as many
# stores a processor in 763 us (FACTS M-18), 6 ns each; half of that is taken to be its own arithmetic.
NANOSECONDS_PER_INSTRUCTION = 3.0
LAUNCH_NANOSECONDS = 3000.0
SECTOR_BYTES = 32
DRAM_BYTES = 64  # DRAM is read in units of this; shorter runs waste the rest
THREAD_STORE_FACTOR = 1.15  # stores from registers against stores by the copy engine


@dataclass(frozen=True, slots=True)
class Work:
    """What one tile asks of the chip.

    Attributes:
        boxes: copies by the copy engine, both sides.
        instructions: memory instructions of warps, global and shared.
        conflicts: how often a shared-memory access of threads repeats; 1 is none.
        passes: times that the tile's bytes go through shared memory's port.
        thread_store: whether threads store to global memory.
        stages, shared_bytes: of a block.
        launches: kernels, this one and those before it.
    """

    boxes: int = 0
    instructions: int = 0
    conflicts: int = 1
    passes: int = 2
    thread_store: bool = False
    stages: int = 1
    shared_bytes: int = 0
    launches: int = 1


def cost_of(access: Access, views: tuple[View, ...], work: Work, target: Target) -> Cost:
    """Return the predicted cost of moving the whole access.

    Args:
        access: the movement.
        views: how each side sees it that moves whole rows.
        work: what one tile asks for.
        target: the GPU.
    """
    elements = math.prod(m.extent for m in access.modes)
    tiles = math.prod(-(-m.extent // m.tile) for m in access.modes)
    payload = -(-elements * access.word // 8)
    tile_bytes = -(-math.prod(m.tile for m in access.modes) * access.word // 8)
    waste = sum(_waste(access, view) for view in views) + THREAD_STORE_FACTOR * work.thread_store
    device = target.device
    bandwidth = device.memory_bandwidth if device else NOMINAL_BANDWIDTH
    processors = device.processors if device else NOMINAL_PROCESSORS
    memory = payload * waste / bandwidth * 1e9
    engine = tiles * work.boxes * NANOSECONDS_PER_BOX / processors
    shared = tiles * tile_bytes * work.passes * work.conflicts / SHARED_BYTES_PER_NANOSECOND / processors
    issue = tiles * work.instructions * NANOSECONDS_PER_INSTRUCTION / processors
    return Cost(
        nanoseconds=round(work.launches * LAUNCH_NANOSECONDS + max(memory, engine, shared, issue), 1),
        global_bytes=2 * payload,
        transactions=math.ceil(payload * waste / SECTOR_BYTES),
        boxes=tiles * work.boxes,
        instructions=tiles * work.instructions,
        wavefronts=math.ceil(tiles * tile_bytes * work.passes * work.conflicts / SHARED_BYTES_PER_WAVEFRONT),
        overhang_bytes=tiles * tile_bytes - payload,
        padding_bytes=0,
        launches=work.launches,
        conflicts=work.conflicts,
        stages=work.stages,
        shared_bytes=work.shared_bytes,
        blocks=max(1, target.shared_bytes_per_processor // max(1, work.shared_bytes)),
    )


def _waste(access: Access, view: View) -> float:
    """Return bytes that DRAM moves for each byte wanted."""
    run = min(view.tile[0], view.extent[0]) * access.word / 8 if view.tile else DRAM_BYTES
    return max(1.0, DRAM_BYTES / run)


def order(cost: Cost) -> tuple[float, ...]:
    """Return what costs are compared by: time first, then what is scarce."""
    return (
        cost.nanoseconds,
        cost.conflicts,
        cost.boxes + cost.instructions,
        -cost.stages,
        cost.padding_bytes,
        cost.overhang_bytes,
        cost.shared_bytes,
    )


def dominates(one: Cost, other: Cost) -> bool:
    """Whether `one` is at least as good as `other` in every respect that a user may have to trade, and not equal."""
    mine, theirs = _respects(one), _respects(other)
    return mine != theirs and all(a <= b for a, b in zip(mine, theirs, strict=True))


def _respects(cost: Cost) -> tuple[float, ...]:
    return (
        cost.nanoseconds,
        cost.shared_bytes,
        cost.padding_bytes,
        cost.overhang_bytes,
        cost.launches,
        cost.boxes + cost.instructions,
    )
