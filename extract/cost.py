"""What a candidate is predicted to cost, in named terms."""

from __future__ import annotations

import math

from legalsat.access import Access
from legalsat.plan import Cost, View
from legalsat.targets import Target
from legalsat.tensor_map import TensorMap

# A chip without a product name is taken for a middling one; only ratios between candidates matter.
NOMINAL_BANDWIDTH = 3e12  # bytes a second
NOMINAL_PROCESSORS = 132
SHARED_BYTES_PER_NANOSECOND = 200.0  # one processor: 128 bytes a clock at about 1.6 GHz
NANOSECONDS_PER_BOX = 8.0  # one processor's copy engine, from one box to the next
LAUNCH_NANOSECONDS = 3000.0
SECTOR_BYTES = 64  # DRAM is read in units of this; shorter runs waste the rest
THREAD_STORE_FACTOR = 1.15  # stores from registers against stores by the copy engine


def cost_of(
    access: Access,
    views: tuple[View, ...],
    maps: tuple[TensorMap, ...],
    *,
    conflicts: int,
    shared_bytes: int,
    thread_store: bool,
    target: Target,
) -> Cost:
    """Return the predicted cost of moving the whole access.

    Args:
        access: the movement.
        views: how each tensor map sees it.
        maps: the tensor maps, in the views' order.
        conflicts: how often the threads' shared accesses repeat; 1 is none.
        shared_bytes: shared memory of a block, all stages.
        thread_store: whether threads store from registers.
        target: the GPU.
    """
    elements = math.prod(m.extent for m in access.modes)
    tiles = math.prod(-(-m.extent // m.tile) for m in access.modes)
    payload = -(-elements * access.word // 8)
    tile_bytes = -(-math.prod(m.tile for m in access.modes) * access.word // 8)
    boxes = sum(_boxes(view, tm) for view, tm in zip(views, maps, strict=True)) * tiles
    waste = sum(_sector_waste(access, view) for view in views) + THREAD_STORE_FACTOR * thread_store
    device = target.device
    bandwidth = device.memory_bandwidth if device else NOMINAL_BANDWIDTH
    processors = device.processors if device else NOMINAL_PROCESSORS
    memory = payload * waste / bandwidth * 1e9
    engine = boxes * NANOSECONDS_PER_BOX / processors
    shared = tiles * tile_bytes * 2 * conflicts / SHARED_BYTES_PER_NANOSECOND / processors
    return Cost(
        nanoseconds=round(LAUNCH_NANOSECONDS + max(memory, engine, shared), 1),
        global_bytes=2 * payload,
        boxes=boxes,
        overhang_bytes=tiles * tile_bytes - payload,
        conflicts=conflicts,
        shared_bytes=shared_bytes,
    )


def _boxes(view: View, tm: TensorMap) -> int:
    return math.prod(-(-tile // box) for tile, box in zip(view.tile, tm.box, strict=True))


def _sector_waste(access: Access, view: View) -> float:
    """Return bytes that DRAM moves for each byte wanted."""
    run = min(view.tile[0], view.extent[0]) * access.word / 8 if view.tile else SECTOR_BYTES
    return max(1.0, SECTOR_BYTES / run)
