"""Loads of a tile by boxes of one tensor map, or of several that share its rows out, by the copy engine's model."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from tiles import Numbers, Tile, coordinates, dimension_of

from legalsat.analyses.copy_engine import FILLED, smem_bytes, smem_image, tx_bytes
from legalsat.plans.movement_plan import MovementPlan, View
from legalsat.units.tensor_map import TensorMap

POISON = 0xA5
GRANULE, SHARED_ALIGNMENT = 16, 128

Bytes = NDArray[np.uint8]


class Placement:
    """Where the words of a tile lie in one side's buffer: `at` by coordinate in the tile, `address` in bytes."""

    def __init__(self, plan: MovementPlan, side: int) -> None:
        view, tm = plan.views[side], plan.tensor_maps[side]
        self.at = coordinates([mode.tile for mode in plan.access.modes])
        along = [dimension_of(plan.access, group, self.at) for group in view.groups]
        self.address = addresses(tm, plan.access.word // 8, boxes(plan, side), along)
        assert np.all(self.address >= 0), "the boxes cover the tile"
        assert np.unique(self.address).size == self.address.size, "every word has a place of its own"


def addresses(tm: TensorMap, word: int, placed: Iterator[tuple[int, tuple[int, ...]]], along: list[Numbers]) -> Numbers:
    """Return the shared address of the words at coordinates `along` the dimensions of a map, -1 outside all boxes."""
    found = np.full(along[0].shape, -1, dtype=np.int64)
    pitches = [word * math.prod(tm.box[:d]) for d in range(tm.rank)]
    dense = replace(tm, global_dim=tm.box, global_stride=tuple(pitches[1:]))
    for base, begin in placed:
        image = smem_image(dense, (0,) * tm.rank, base)
        taken = np.flatnonzero(image >= 0)
        address = np.empty(word * math.prod(tm.box), dtype=np.int64)
        address[image[taken]] = taken
        here = np.all([(c >= b) & (c < b + n) for c, b, n in zip(along, begin, tm.box, strict=True)], axis=0)
        offset = sum((c[here] - b) * p for c, b, p in zip(along, begin, pitches, strict=True))
        found[here] = address[offset]
    return found


def boxes(plan: MovementPlan, side: int) -> Iterator[tuple[int, tuple[int, ...]]]:
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


def placed_boxes(plan: MovementPlan, side: int, start: tuple[int, ...]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield for each box of the tile that begins at `start` its shared address and its coordinate in the tensor map."""
    view: View = plan.views[side]
    origin = [int(dimension_of(plan.access, group, np.array(start))) for group in view.groups]
    origin = [o - b for o, b in zip(origin, view.before or (0,) * len(origin), strict=True)]
    for base, begin in boxes(plan, side):
        yield base, tuple(o + b for o, b in zip(origin, begin, strict=True))


def fill(shared: Bytes, image: Numbers, memory: Bytes) -> None:
    """Let one box arrive from the memory that its map's base begins; `image` is what `smem_image` says of it."""
    read, filled = np.flatnonzero(image >= 0), np.flatnonzero(image == FILLED)
    shared[read] = memory[image[read]]
    shared[filled] = 0


def load_boxes(tile: Tile, source: Bytes) -> Bytes:
    """Return a tile's words after its boxes have arrived, from the buffer that they fill."""
    plan = tile.plan
    tm, word = plan.tensor_maps[0], plan.access.word // 8
    placed = list(placed_boxes(plan, 0, tile.start))
    shared = np.full(smem_bytes(tm) * len(placed), POISON, dtype=np.uint8)
    assert plan.shared[0].bytes == shared.size, "the buffer is as large as its boxes"
    assert plan.shared[0].boxes == len(placed), "the plan counts its boxes"
    assert plan.pipeline.barriers[0].transaction_bytes == len(placed) * tx_bytes(tm)
    for base, coordinate in placed:
        fill(shared, smem_image(tm, coordinate, base), source)
    found: Bytes = shared[Placement(plan, 0).address[:, None] + np.arange(word)]
    return found


def load_phases(tile: Tile, source: Bytes) -> Bytes:
    """Return a tile's words after every phase's boxes have arrived, each phase in a part of the buffer of its own.

    Row n is row n // phases of phase n % phases, and starts the phase's shift into its place.
    """
    plan, word = tile.plan, tile.plan.access.word // 8
    view, count = plan.views[0], len(plan.phases)
    wild = [d for d in range(len(view.extent)) if d and view.extent[d] > 1 and view.stride[d] % (8 * GRANULE)]
    at = wild[0] if wild else len(view.extent) - 1
    assert len(wild) == (count > 1)
    # A map may begin in the granule in which the tensor does, before the tensor: an allocation holds whole granules.
    lead = plan.source.address % GRANULE
    source = np.concatenate([np.full(lead, POISON, dtype=np.uint8), source])
    assert len(plan.tensor_maps) == count and plan.shared[0].boxes % count == 0
    part = plan.shared[0].bytes // count
    assert plan.shared[0].bytes % count == 0 and part % SHARED_ALIGNMENT == 0
    origin = [int(dimension_of(plan.access, group, np.array(tile.start))) for group in view.groups]
    assert origin[at] % count == 0, "a tile begins with a row of the first phase"
    origin[at] //= count
    along = [dimension_of(plan.access, group, tile.within) for group in view.groups]
    shared = np.full(plan.shared[0].bytes, POISON, dtype=np.uint8)
    address = np.full(along[0].shape, -1, dtype=np.int64)
    arrived = 0
    for number, (phase, tm) in enumerate(zip(plan.phases, plan.tensor_maps, strict=True)):
        assert (lead + phase.offset) % GRANULE == 0 <= lead + phase.offset and phase.shift % word == 0
        # Boxes fill the phase's rows, which are as long as shift and padding make them.
        shape = list(reversed(plan.shared[0].shape[1:]))
        steps = [range(0, n, b) for n, b in zip(shape, tm.box, strict=True)]
        begins = [tuple(reversed(chosen)) for chosen in itertools.product(*reversed(steps))]
        assert len(begins) == plan.shared[0].boxes // count, "the plan counts its boxes"
        bases = [number * part + i * smem_bytes(tm) for i in range(len(begins))]
        assert bases[-1] + smem_bytes(tm) <= (number + 1) * part, "a phase keeps to its part of the buffer"
        for base, begin in zip(bases, begins, strict=True):
            coordinate = tuple(o + b for o, b in zip(origin, begin, strict=True))
            fill(shared, smem_image(tm, coordinate, base), source[lead + phase.offset :])
            arrived += tx_bytes(tm)
        mine = along[at] % count == number
        places = [c[mine] for c in along]
        places[0] = places[0] + phase.shift // word
        places[at] = places[at] // count
        address[mine] = addresses(tm, word, iter(zip(bases, begins, strict=True)), places)
    assert arrived == plan.pipeline.barriers[0].transaction_bytes
    assert np.all(address >= 0), "the boxes cover the tile"
    assert np.unique(address).size == address.size, "every word has a place of its own"
    _check_reads(tile, address)
    found: Bytes = shared[address[:, None] + np.arange(word)]
    return found


def _check_reads(tile: Tile, address: Numbers) -> None:
    """Threads read as many bytes at once as all shifts are multiples of; these lie together, at a multiple."""
    view, _ = tile.plan.views
    word = tile.plan.access.word // 8
    size = math.gcd(GRANULE, word * view.tile[0], *(phase.shift for phase in tile.plan.phases))
    chunks = address[tile.rows(view).words].reshape(-1, size // word)
    assert not np.any(chunks[:, 0] % size), "threads read at multiples of what they read"
    assert np.all(np.diff(chunks, axis=1) == word), "what threads read at once lies together"
