"""Runs a plan on numpy bytes, whatever its means of delivery; and the movement itself, by definition.

The copy engine is `legalsat.analyses.copy_engine`; threads and bulk copies move vectors and runs (`in_vectors`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
from in_boxes import Placement, boxes, load_boxes, load_phases, placed_boxes
from in_vectors import load_asynchronously, load_runs, load_vectors, store_vectors
from numpy.typing import NDArray
from tiles import Tile, coordinates, offsets

from legalsat.analyses.copy_engine import smem_bytes, store_footprint
from legalsat.extract.views import views_of
from legalsat.operators import Operator, access_of
from legalsat.plan import Plan
from legalsat.tensor import Tensor

POISON = 0xA5

Bytes = NDArray[np.uint8]

LOADS: dict[str, Callable[[Tile, Bytes], Bytes]] = {
    "tma": load_boxes,
    "tma.phases": load_phases,
    "bulk": load_runs,
    "cp.async": load_asynchronously,
    "threads": load_vectors,
    "fragments": load_vectors,
}


def memory_of(tensor: Tensor, seed: int | None = None) -> Bytes:
    """Return memory that just holds the tensor: random bytes, or `POISON` without a seed."""
    size = -(-tensor.span_bits // 8)
    if seed is None:
        return np.full(size, POISON, dtype=np.uint8)
    return np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)


def moved(operator: Operator, source: Bytes, target: Bytes) -> Bytes:
    """Return the target's bytes after the movement, by its definition: element by element, bit by bit."""
    access = access_of(operator)
    after = np.unpackbits(target, bitorder="little")
    bits = np.unpackbits(source, bitorder="little")
    at = coordinates([mode.extent for mode in access.modes])
    for bit in range(access.word):
        after[offsets(access, at, "target") + bit] = bits[offsets(access, at, "source") + bit]
    return np.packbits(after, bitorder="little")


def execute(plan: Plan, source: Bytes, target: Bytes) -> Bytes:
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
            store_vectors(tile, views_of(access)[1], size, words, after)
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
