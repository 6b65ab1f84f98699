"""What a candidate is predicted to cost, in named terms."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from legalsat.operators.access import Access
from legalsat.operators.operator import Move
from legalsat.plans.movement_plan import MovementCost, View
from legalsat.targets import GRANULE_BYTES, MIB, Device, Target
from legalsat.tensor import Tensor, plain

# A chip without a product name is taken for a middling one; only ratios between candidates matter.
NOMINAL = Device(processors=132, memory_bandwidth=3e12, l2_bytes=50 * MIB, bf16_flops=500e12)
SHARED_BYTES_PER_NANOSECOND = 200.0  # one processor: 128 bytes a clock at about 1.6 GHz
SHARED_BYTES_PER_WAVEFRONT = 128
NANOSECONDS_PER_BOX = 8.0  # one processor's copy engine, from one box to the next
# One processor's memory instructions of a warp: a copy of 16384 x 16320 bf16 in vectors of 2 bytes, 127,100 of them a
# processor, took 292 us on an H200 (bench/gpu/results/vectors.json). Vectors of 16 bytes were as fast as boxes there.
NANOSECONDS_PER_INSTRUCTION = 2.3
LAUNCH_NANOSECONDS = 3000.0
# Stores from registers of a tile that lay in shared memory, against stores by boxes: no thread stores before all has
# arrived. Not measured by itself. In a ring the next tile arrives meanwhile.
WAITING_STORE = 1.15
SECTOR_BYTES = 32
DRAM_BYTES = 64  # DRAM is read in units of this; shorter runs waste the rest
L2_FACTOR = 2.0  # how much faster L2 is than DRAM
# Of a movement in front of a product, or between two, fitted to times of both together (kernel_cost.py): nanoseconds,
# and the share of DRAM's bandwidth. By themselves pads moved 2.8 to 3.7 TB/s and transposes 2.0 to 2.5 (an H100); with
# one for both, 30 products' choices among 251 kernels of every form were 0.968 of the best. These, and what the second
# of two takes less, since it runs beside the first, were fitted to 560 kernels of 89 random products on an H200.
PADDED, TRANSPOSED = (2000.0, 0.93), (2450.0, 0.82)
RELAID_BESIDE = 1300.0  # nanoseconds


@dataclass(frozen=True, slots=True)
class Work:
    """What one tile asks of the chip.

    Attributes:
        boxes: copies by the copy engine, both sides.
        instructions: memory instructions of warps, global and shared.
        conflicts: how often a shared-memory access of threads repeats; 1 is none.
        passes: times that the tile's bytes go through shared memory's port.
        store_factor: how much longer a store takes than one by boxes; 0 where nothing is stored.
        stages, shared_bytes: of a block.
        times: how often every tile is delivered.
    """

    boxes: int = 0
    instructions: int = 0
    conflicts: int = 1
    passes: int = 2
    store_factor: float = 1.0
    stages: int = 1
    shared_bytes: int = 0
    times: int = 1


def cost_of(access: Access, views: tuple[View, View], work: Work, target: Target) -> MovementCost:
    """Return the predicted cost of moving the whole access.

    Args:
        access: the movement.
        views: how the source and the target see it.
        work: what one tile asks for.
        target: the GPU.
    """
    elements = math.prod(m.extent for m in access.modes)
    tiles = math.prod(-(-m.extent // m.tile) for m in access.modes) * work.times
    payload = -(-elements * access.word // 8)
    tile_bytes = -(-math.prod(m.tile for m in access.modes) * access.word // 8)
    again = (work.times - 1) / L2_FACTOR  # what is delivered again comes from L2
    read = math.prod(views[0].extent) / elements  # less than all of a padding
    waste = read * (1 + again) * _waste(access, views[0]) + work.store_factor * _waste(access, views[1])
    device = target.device or NOMINAL
    processors = device.processors
    memory = payload * waste / device.memory_bandwidth * 1e9
    engine = tiles * work.boxes * NANOSECONDS_PER_BOX / processors
    shared = tiles * tile_bytes * work.passes * work.conflicts / SHARED_BYTES_PER_NANOSECOND / processors
    issue = tiles * work.instructions * NANOSECONDS_PER_INSTRUCTION / processors
    return MovementCost(
        nanoseconds=round(LAUNCH_NANOSECONDS + max(memory, engine, shared, issue), 1),
        global_bytes=payload * (work.store_factor > 0) + math.ceil(payload * read),
        transactions=math.ceil(payload * waste / SECTOR_BYTES),
        boxes=tiles * work.boxes,
        instructions=tiles * work.instructions,
        wavefronts=math.ceil(tiles * tile_bytes * work.passes * work.conflicts / SHARED_BYTES_PER_WAVEFRONT),
        overhang_bytes=tiles * tile_bytes - payload * work.times,
        padding_bytes=0,
        launches=1,
        conflicts=work.conflicts,
        stages=work.stages,
        shared_bytes=work.shared_bytes,
        blocks=max(1, target.shared_bytes_per_processor // max(1, work.shared_bytes)),
    )


def relayout_nanoseconds(moved: Any, bandwidth: float, exchanged: Any = False) -> Any:
    """Return what a movement takes among other kernels that reads and writes bytes once, a number or an array.

    Args:
        moved: bytes read and bytes written, together.
        bandwidth: of DRAM, in bytes a nanosecond.
        exchanged: whether it exchanges the axes, one or one for each.
    """
    padded, transposed = (moved / (bandwidth * share) + launch for launch, share in (PADDED, TRANSPOSED))
    return np.where(exchanged, transposed, padded)


def among_others(nanoseconds: float, *, exchanged: bool, beside: bool = False) -> float:
    """Return what a movement takes among other kernels, of what it takes alone, as its plan's cost says.

    Args:
        nanoseconds: that it takes alone.
        exchanged: whether it exchanges the axes.
        beside: whether it runs beside the one in front of it.
    """
    launch, share = TRANSPOSED if exchanged else PADDED
    return round((nanoseconds - LAUNCH_NANOSECONDS) / share + launch - RELAID_BESIDE * beside, 1)


def exchanges(operator: Move) -> bool:
    """Whether another axis is the fastest of a movement's target than of its source."""
    first, second = map(_fastest, (operator.source, operator.target))
    return first != (second if operator.order is None else operator.order[second])


def _fastest(tensor: Tensor) -> int:
    steps = [
        abs(step) if extent > 1 else math.inf
        for step, extent in zip(*map(plain, (tensor.strides, tensor.shape)), strict=True)
    ]
    return steps.index(min(steps))


def moved_beside(step: int, element: int) -> float:
    """Return bytes that DRAM moves for each one of elements that follow each other so many bytes apart.

    Args:
        step: bytes from one to the next; less than an element, or 0, where they share memory.
        element: bytes of one.
    """
    return max(1.0, min(step, DRAM_BYTES) / element)


def scattered(access: Access) -> tuple[float, float]:
    """Return bytes that DRAM moves for each one of a source, and of a target, whose elements move one by one.

    Neighbours in time are neighbours in the target, as far as it has any. A single line of elements is too short to
    matter, whatever is between them.
    """
    modes = [mode for mode in access.modes if mode.extent > 1]
    if len(modes) < 2 or any(mode.source == access.word for mode in modes):
        return 1.0, 1.0
    first = min(modes, key=lambda mode: (mode.target, mode.source))
    return moved_beside(first.source // 8, access.word // 8), moved_beside(first.target // 8, access.word // 8)


def granules_cost(
    access: Access,
    load: View,
    buffers: tuple[int, ...],
    target: Target,
    waste: tuple[float, float] = (1.0, 1.0),
) -> MovementCost:
    """Return the predicted cost of a movement by granules, which reads and writes every byte once.

    Args:
        access: the movement.
        load: how the source sees it.
        buffers: bytes of the buffers of a block.
        target: the GPU.
        waste: bytes that DRAM moves for each one that is read, and for each that is written.
    """
    payload = math.prod(mode.extent for mode in access.modes) * access.word // 8
    read = math.prod(load.extent) * access.word // 8
    shared, moved, fetched = sum(buffers), payload + read, math.ceil(read * waste[0] + payload * waste[1])
    return MovementCost(
        nanoseconds=round(LAUNCH_NANOSECONDS + fetched / (target.device or NOMINAL).memory_bandwidth * 1e9, 1),
        global_bytes=moved,
        transactions=-(-fetched // SECTOR_BYTES),
        boxes=0,
        instructions=-(-moved // (GRANULE_BYTES * target.lanes)),
        wavefronts=-(-2 * payload // SHARED_BYTES_PER_WAVEFRONT) if buffers else 0,
        overhang_bytes=0,
        padding_bytes=0,
        launches=1,
        conflicts=1,
        stages=1,
        shared_bytes=shared,
        blocks=max(1, target.shared_bytes_per_processor // max(1, shared)),
    )


def _waste(access: Access, view: View) -> float:
    """Return bytes that DRAM moves for each byte wanted.

    What lies between neighbours is moved with them where it is shorter than what DRAM moves at once: every other
    element, three channels of four. Farther ones are runs of their own, each rounded up to that at both ends; ends
    where a tile cuts a longer run are another tile's too, which is left to L2. A dimension that continues a whole one
    is of its run, so that nothing hangs on how modes are cut.
    """
    wanted = moved = access.word / 8
    cut, following = False, 0.0
    for extent, stride, tile in zip(view.extent, view.stride, view.tile, strict=True):
        if extent == 1:
            continue
        step, count = stride / 8, min(tile, extent)
        if step > moved and step >= DRAM_BYTES and step != following:
            moved = moved if cut else _touched(moved, step)
            break
        following = step * extent if count == extent else 0.0
        wanted, moved, cut = wanted * count, moved + (count - 1) * step, cut or count < extent
    return max(1.0, max(moved, DRAM_BYTES) / wanted)


def _touched(run: float, step: float) -> float:
    """Return how many bytes DRAM moves for runs of bytes so many apart, of each on average."""
    begins = range(0, DRAM_BYTES, math.gcd(int(step), DRAM_BYTES))
    return DRAM_BYTES * sum(math.ceil((begin + run) / DRAM_BYTES) for begin in begins) / len(begins)


def in_a_row(first: MovementCost, then: MovementCost, scratch_bytes: int, *, constant: bool) -> MovementCost:
    """Return the cost of one movement after another; of the second alone where the first runs once for many."""
    once = 0 if constant else 1
    return replace(
        then,
        nanoseconds=round(then.nanoseconds + once * first.nanoseconds, 1),
        global_bytes=then.global_bytes + once * first.global_bytes,
        transactions=then.transactions + once * first.transactions,
        boxes=then.boxes + once * first.boxes,
        instructions=then.instructions + once * first.instructions,
        wavefronts=then.wavefronts + once * first.wavefronts,
        padding_bytes=scratch_bytes,
        launches=then.launches + once * first.launches,
    )


def order(cost: MovementCost) -> tuple[float, ...]:
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


def dominates(one: MovementCost, other: MovementCost) -> bool:
    """Whether `one` is at least as good as `other` in every respect that a user may have to trade, and not equal.

    What `order` compares is among these, so that nothing is dominated by what is dearer.
    """
    mine, theirs = ((*order(cost), cost.launches) for cost in (one, other))
    return mine != theirs and all(a <= b for a, b in zip(mine, theirs, strict=True))
