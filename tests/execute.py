"""Runs a plan on numpy bytes, whatever its means of delivery; and the movement itself, by definition.

The copy engine is `legalsat.analyses.copy_engine`; threads and bulk copies move vectors and runs (`in_vectors`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from in_boxes import Placement, boxes, load_boxes, load_phases, placed_boxes
from in_vectors import load_asynchronously, load_runs, load_vectors, store_vectors
from tiles import Tile

from bench.kernels.moved import POISON, Bytes, places
from legalsat.analyses.copy_engine import smem_bytes, store_footprint
from legalsat.operators import Pad
from legalsat.plans.movement_plan import MovementPlan

LOADS: dict[str, Callable[[Tile, Bytes], Bytes]] = {
    "tma": load_boxes,
    "tma.phases": load_phases,
    "bulk": load_runs,
    "cp.async": load_asynchronously,
    "threads": load_vectors,
    "fragments": load_vectors,
}


NUMPY = {"fp16": "f2", "fp32": "f4", "fp64": "f8", "bool": "?"}
NUMPY |= {f"{kind}{8 * size}": f"{kind}{size}" for kind in "ui" for size in (1, 2, 4, 8)}


def padded(operator: Pad, source: Bytes, target: Bytes) -> Bytes:
    """Return the target's bytes after a padding, by numpy's: of numbers, or of the bits of zeros."""
    element = operator.source.dtype
    width, whole = np.arange(element.bits), (*operator.padding, (0, 0))
    inside, after = (np.unpackbits(memory, bitorder="little") for memory in (source, target))
    values = inside[element.bits * places(operator.source)[..., None] + width]
    result: Any = np.pad(values, whole)
    if operator.value:
        number = np.array([operator.value]).astype(NUMPY.get(element.name, "f4"))
        value = np.unpackbits(number.view(np.uint8), bitorder="little")[-element.bits :]  # bf16 is half of fp32
        result = np.where(np.pad(np.ones_like(values), whole), result, value)
    after[element.bits * places(operator.target)[..., None] + width] = result
    return np.packbits(after, bitorder="little")


def execute(plan: MovementPlan, source: Bytes, target: Bytes) -> Bytes:
    """Return the target's bytes after the plan has run; every check on the way raises AssertionError.

    Shared memory starts at address 0, and the tensors hold just their own bytes, so that a load or store past them is
    an IndexError, and a misplaced or misaligned box an InvalidInput of the model.
    """
    after = target.copy()
    access = plan.access
    starts = itertools.product(*(range(0, mode.extent, mode.tile) for mode in access.modes))
    for start in starts:
        tile = Tile(plan, start)
        words = LOADS[access.by](tile, source)
        if plan.store == "tma":
            store_boxes(tile, words, after)
        else:
            size = plan.copies[-1].bytes if plan.copies else access.word // 8
            store_vectors(tile, plan.views[1], size, words, after)
    return after


def store_boxes(tile: Tile, words: Bytes, after: Bytes) -> None:
    """Store a tile by boxes of the target's map, from where it came in or from where threads turned it to."""
    plan, word = tile.plan, tile.plan.access.word // 8
    place = Placement(plan, len(plan.shared) - 1)
    count = len(list(boxes(plan, 1)))
    shared = np.full(smem_bytes(plan.tensor_maps[1]) * count, POISON, dtype=np.uint8)
    assert plan.shared[-1].bytes == shared.size, "the buffer is as large as its boxes"
    assert plan.shared[-1].boxes == count, "the plan counts its boxes"
    shared[place.address[:, None] + np.arange(word)] = words
    for base, coordinate in placed_boxes(plan, 1, tile.start):
        written = store_footprint(plan.tensor_maps[1], coordinate, base)
        after[written[:, 0]] = shared[written[:, 1]]
