"""Windows of convolutions: the matrix that they make by definition, and plans of it run on numpy bytes.

Columns of pixels are `legalsat.analyses.copy_engine`'s im2col loads; threads load vectors where the window is inside.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from in_vectors import store_vectors
from numpy.typing import NDArray
from tiles import Numbers, Tile

from legalsat.analyses.copy_engine import FILLED, smem_bytes, smem_image, store_footprint, tx_bytes
from legalsat.operators import Im2col
from legalsat.plans.movement_plan import MovementPlan
from legalsat.tensor import Tensor, plain

POISON = 0xA5
GRANULE = 16
SPANS = {"none": 0, "32B": 32, "64B": 64, "128B": 128}
SIZES = {"ld.global": (1, 2, 4, 8, 16), "cp.async": (4, 8, 16)}

Bytes = NDArray[np.uint8]


def places(tensor: Tensor) -> Numbers:
    """Return the byte offset of each element, in the tensor's shape."""
    size = tensor.dtype.bits // 8
    at = np.indices(plain(tensor.shape), dtype=np.int64)
    found: Numbers = np.tensordot(np.array(plain(tensor.strides), dtype=np.int64) * size, at, axes=1)
    return found


def windows_by_definition(operator: Im2col, source: Bytes, target: Bytes) -> Bytes:
    """Return the target's bytes after im2col as textbooks have it: pad the images, then slice them tap by tap."""
    size = np.arange(operator.source.dtype.bits // 8)
    images = source[places(operator.source)[..., None] + size]
    padded = np.pad(images, [(0, 0), *operator.padding, (0, 0), (0, 0)])
    axes = range(len(operator.filter))
    counts = plain(operator.target.shape)[1 : 1 + len(axes)]
    after, where = target.copy(), places(operator.target)
    batch: tuple[Any, ...] = (slice(None),)
    for taps in itertools.product(*map(range, operator.filter)):
        for pixel in itertools.product(*map(range, counts)):
            met = tuple(operator.stride[a] * pixel[a] + operator.dilation[a] * taps[a] for a in axes)
            after[where[(*batch, *pixel, *taps)][..., None] + size] = padded[(*batch, *met)]
    return after


def execute_columns(plan: MovementPlan, source: Bytes, target: Bytes) -> Bytes:
    """Return the target's bytes after a plan by im2col has run; every check on the way raises AssertionError."""
    assert plan.access.by == "im2col" and plan.window is not None
    after = target.copy()
    view = plan.views[0]
    counts = [-(-extent // tile) for extent, tile in zip(view.extent, view.tile, strict=True)]
    for number in itertools.product(*map(range, counts)):
        start = tuple(n * tile for n, tile in zip(number, view.tile, strict=True))
        shared = _load_columns(plan, start, source)
        (_store_boxes if plan.store == "tma" else _store_words)(plan, start, shared, after)
    return after


def _columns(plan: MovementPlan, start: tuple[int, ...]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield each column of the tile that begins at `start`: its shared address, and channel, taps and pixel."""
    view, tm = plan.views[0], plan.tensor_maps[0]
    box = (tm.channels, *(1 for _ in view.tile[1:-1]), tm.pixels)
    assert all(tile % n == 0 for tile, n in zip(view.tile, box, strict=True)), "columns fill the tile"
    steps = [range(0, tile, n) for tile, n in zip(view.tile, box, strict=True)]
    for i, chosen in enumerate(itertools.product(*reversed(steps))):
        yield i * smem_bytes(tm), tuple(s + c for s, c in zip(start, reversed(chosen), strict=True))


def _load_columns(plan: MovementPlan, start: tuple[int, ...], source: Bytes) -> Bytes:
    """Return shared memory after the tile's columns have arrived."""
    tm, window = plan.tensor_maps[0], plan.window
    assert window is not None
    columns = list(_columns(plan, start))
    shared = np.full(len(columns) * smem_bytes(tm), POISON, dtype=np.uint8)
    assert plan.shared[0].bytes == shared.size and plan.shared[0].boxes == len(columns)
    assert plan.pipeline.barriers[0].transaction_bytes == len(columns) * tx_bytes(tm)
    for base, (channel, *taps, pixel) in columns:
        coordinate, rest = [channel], pixel
        for sweep in window.sweeps:
            rest, number = divmod(rest, sweep.windows)
            coordinate.append(sweep.step * number - sweep.before)
        offsets = [sweep.dilation * tap for sweep, tap in zip(window.sweeps, taps, strict=True)]
        image = smem_image(tm, (*coordinate, rest), base, offsets)
        read, filled = np.flatnonzero(image >= 0), np.flatnonzero(image == FILLED)
        shared[read], shared[filled] = source[image[read]], 0
    return shared


def _store_boxes(plan: MovementPlan, start: tuple[int, ...], shared: Bytes, after: Bytes) -> None:
    """Store the tile from where it came in, a box for each column."""
    load, store = plan.tensor_maps
    assert store.box == (load.channels, *(1 for _ in store.box[1:-1]), load.pixels) and store.swizzle == load.swizzle
    for base, coordinate in _columns(plan, start):
        written = store_footprint(store, coordinate, base)
        after[written[:, 0]] = shared[written[:, 1]]


def _store_words(plan: MovementPlan, start: tuple[int, ...], shared: Bytes, after: Bytes) -> None:
    """Store the tile's words from registers, those outside the result masked off."""
    operator, tm = plan.operator, plan.tensor_maps[0]
    assert isinstance(operator, Im2col)
    size, axes = plan.access.word // 8, len(operator.filter)
    where, counts = places(operator.target), plain(operator.target.shape)
    span = SPANS[str(tm.swizzle)]
    for base, (channel, *taps, pixel) in _columns(plan, start):
        if any(tap >= count for tap, count in zip(taps, reversed(operator.filter), strict=True)):
            continue
        for row in range(tm.pixels):
            if pixel + row >= math.prod(counts[: 1 + axes]):
                break
            at = np.unravel_index(pixel + row, counts[: 1 + axes])
            words = np.arange(channel, min(channel + tm.channels, counts[-1]))
            linear = base + row * tm.channels * size + (words - channel) * size
            linear ^= (linear >> 7) % (max(span, GRANULE) // GRANULE) << 4
            line = where[(*at, *reversed(taps))]
            after[line[words][:, None] + np.arange(size)] = shared[linear[:, None] + np.arange(size)]


def load_masked(tile: Tile, source: Bytes) -> Bytes:
    """Return a tile's words, loaded in vectors where the window is inside its image, and zeros elsewhere."""
    plan, word = tile.plan, tile.plan.access.word // 8
    copy, window = plan.copies[0], plan.window
    assert window is not None and copy.bytes in SIZES[copy.instruction] and copy.bytes % word == 0
    rows = tile.rows(plan.views[0]).words
    assert rows.shape[1] * word % copy.bytes == 0, "vectors fill the tile's rows"
    vectors = rows.reshape(-1, copy.bytes // word)
    vectors = vectors[tile.inside[vectors[:, 0]]]
    assert np.all(tile.inside[vectors]), "no vector is partly outside the result"
    address = tile.address("source") - window.lead // 8
    seen = np.ones(tile.inside.shape, dtype=np.bool_)
    for sweep, tap, pixel in zip(window.sweeps, window.taps, window.pixels, strict=False):
        at = sweep.step * tile.at[pixel] + sweep.dilation * tile.at[tap] - sweep.before
        seen &= (at >= 0) & (at < sweep.extent)
    assert np.all(seen[vectors] == seen[vectors][:, :1]), "no vector is partly outside the image"
    found = np.full((tile.inside.size, word), POISON, dtype=np.uint8)
    found[vectors] = 0
    vectors = vectors[seen[vectors[:, 0]]]
    assert not np.any(address[vectors[:, 0]] % copy.bytes), "a vector lies at a multiple of its size"
    assert plan.source.align % copy.bytes == 0
    assert np.all(np.diff(address[vectors], axis=1) == word), "a vector's words lie side by side"
    assert np.all(address[vectors] >= 0), "nothing is read before the tensor"
    found[vectors] = source[address[vectors][..., None] + np.arange(word)]
    for buffer in plan.shared:
        assert buffer.bytes == rows.size * word, "the buffer just holds the tile"
    return found


def execute_masked(plan: MovementPlan, source: Bytes, target: Bytes) -> Bytes:
    """Return the target's bytes after a plan by threads or cp.async has run over windows that leave images."""
    after = target.copy()
    for start in itertools.product(*(range(0, mode.extent, mode.tile) for mode in plan.access.modes)):
        tile = Tile(plan, start)
        store_vectors(tile, plan.views[1], plan.copies[-1].bytes, load_masked(tile, source), after)
    return after
