"""Runs a plan on numpy bytes, box by box, with the model of the copy engine; and the movement itself, by definition."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from legalsat.access import Access
from legalsat.analyses.copy_engine import FILLED, smem_bytes, smem_image, store_footprint, tx_bytes
from legalsat.operators import Operator, access_of
from legalsat.plan import Plan, View
from legalsat.tensor import Tensor
from legalsat.tensor_map import TensorMap

POISON = 0xA5

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.int64]


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


def coordinates(extents: list[int]) -> Numbers:
    """Return every coordinate below the extents: one row a mode, one column a coordinate."""
    return np.indices(extents, dtype=np.int64).reshape(len(extents), -1)


def offsets(access: Access, at: Numbers, side: str) -> Numbers:
    """Return the bit offset of each coordinate on one side."""
    strides = np.array([getattr(mode, side) for mode in access.modes], dtype=np.int64)
    found: Numbers = strides @ at
    return found


def execute(plan: Plan, source: Bytes, target: Bytes) -> Bytes:
    """Return the target's bytes after the plan has run; every check on the way raises AssertionError.

    Shared memory starts at address 0, boxes lie one after another, and the tensors hold just their own bytes, so that
    a load or store past them is an IndexError, and a misplaced or misaligned box an InvalidInput of the model.
    """
    after = target.copy()
    access = plan.access
    extents, tiles = ([getattr(mode, name) for mode in access.modes] for name in ("extent", "tile"))
    starts = [range(0, extent, tile) for extent, tile in zip(extents, tiles, strict=True)]
    assert sum(tx_bytes(plan.tensor_maps[0]) for _ in boxes(plan, 0)) == plan.pipeline.barriers[0].transaction_bytes
    places = [Placement(plan, side) for side in range(len(plan.views))]
    for start in itertools.product(*starts):
        shared = load(plan, source, start)
        if plan.store == "threads":
            inside = np.all(np.array(start)[:, None] + places[0].at < np.array(extents)[:, None], axis=0)
            to = offsets(access, places[0].at + np.array(start)[:, None], "target")[inside]
            assert not np.any(to % access.word), "a register is stored at a multiple of its size"
            for byte in range(access.word // 8):
                after[to // 8 + byte] = shared[places[0].address[inside] + byte]
            continue
        if len(plan.shared) > 1:  # threads turn the tile from one buffer into the other
            turned = np.full(smem_bytes(plan.tensor_maps[1]) * len(list(boxes(plan, 1))), POISON, dtype=np.uint8)
            for byte in range(access.word // 8):
                turned[places[1].address + byte] = shared[places[0].address + byte]
            shared = turned
        for base, coordinate in placed_boxes(plan, 1, start):
            written = store_footprint(plan.tensor_maps[1], coordinate, base)
            after[written[:, 0]] = shared[written[:, 1]]
    return after


class Placement:
    """Where the words of a tile lie in one side's buffer: `at` by coordinate in the tile, `address` in bytes."""

    def __init__(self, plan: Plan, side: int) -> None:
        view, tm = plan.views[side], plan.tensor_maps[side]
        word = plan.access.word // 8
        self.at = coordinates([mode.tile for mode in plan.access.modes])
        self.address = np.full(self.at.shape[1], -1, dtype=np.int64)
        along = [dimension_of(plan.access, group, self.at) for group in view.groups]
        pitches = [word * math.prod(tm.box[:d]) for d in range(tm.rank)]
        dense = replace(tm, global_dim=tm.box, global_stride=tuple(pitches[1:]))
        for base, begin in boxes(plan, side):
            image = smem_image(dense, (0,) * tm.rank, base)
            taken = np.flatnonzero(image >= 0)
            address = np.empty(word * math.prod(tm.box), dtype=np.int64)
            address[image[taken]] = taken
            here = np.all([(c >= b) & (c < b + n) for c, b, n in zip(along, begin, tm.box, strict=True)], axis=0)
            offset = sum((c[here] - b) * p for c, b, p in zip(along, begin, pitches, strict=True))
            self.address[here] = address[offset]
        assert np.all(self.address >= 0), "the boxes cover the tile"
        assert len(set(self.address.tolist())) == self.address.size, "every word has a place of its own"


def dimension_of(access: Access, group: tuple[int, ...], at: Numbers) -> Numbers:
    """Return the coordinate along one dimension of a view, made of modes, fastest first."""
    found, step = np.zeros(at.shape[1:], dtype=np.int64), 1
    for i in group:
        found = found + at[i] * step
        step *= access.modes[i].extent
    return found


def boxes(plan: Plan, side: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield for each box of a tile its shared address and where in the tile it begins, by dimension of the view.

    Boxes are counted by modes, so that both sides count them alike.
    """
    view, tm = plan.views[side], plan.tensor_maps[side]
    first = plan.views[0]
    order = [view.groups.index(g) for g in first.groups] if set(first.groups) == set(view.groups) else range(tm.rank)
    steps = [range(0, view.tile[d], tm.box[d]) for d in order]
    for i, chosen in enumerate(itertools.product(*reversed(steps))):
        begin = [0] * tm.rank
        for d, number in zip(order, reversed(chosen), strict=True):
            begin[d] = number
        yield i * smem_bytes(tm), tuple(begin)


def placed_boxes(plan: Plan, side: int, start: tuple[int, ...]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield for each box of the tile that begins at `start` its shared address and its coordinate in the tensor map."""
    view: View = plan.views[side]
    origin = [int(dimension_of(plan.access, group, np.array(start))) for group in view.groups]
    for base, begin in boxes(plan, side):
        yield base, tuple(o + b for o, b in zip(origin, begin, strict=True))


def load(plan: Plan, source: Bytes, start: tuple[int, ...]) -> Bytes:
    """Return shared memory after all boxes of one tile have arrived."""
    tm: TensorMap = plan.tensor_maps[0]
    shared = np.full(smem_bytes(tm) * len(list(boxes(plan, 0))), POISON, dtype=np.uint8)
    assert shared.size == plan.shared[0].bytes, "the buffer is as large as its boxes"
    for base, coordinate in placed_boxes(plan, 0, start):
        image = smem_image(tm, coordinate, base)
        read, filled = np.flatnonzero(image >= 0), np.flatnonzero(image == FILLED)
        shared[read] = source[image[read]]
        shared[filled] = 0
    return shared
