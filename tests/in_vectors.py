"""Loads of a tile in vectors, by threads or asynchronously, and in runs by bulk copies; stores in vectors."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from tiles import Numbers, Tile

from legalsat.plans.movement_plan import View

POISON = 0xA5
GRANULE = 16
SPANS = {"none": 0, "32B": 32, "64B": 64, "128B": 128}
SIZES = {
    "ld.global": (1, 2, 4, 8, 16),
    "st.global": (1, 2, 4, 8, 16),
    "cp.async": (4, 8, 16),
    "ld.global.fragment": (1, 2, 4),
}

Bytes = NDArray[np.uint8]


def load_vectors(tile: Tile, source: Bytes) -> Bytes:
    """Return a tile's words, loaded by threads; outside the tensor they are poison, in a padding its value."""
    plan, word = tile.plan, tile.plan.access.word // 8
    load = plan.copies[0]
    assert load.bytes in SIZES[load.instruction]
    if plan.access.by == "fragments":
        wide = load.bytes * 8 > plan.operator.source.dtype.bits
        assert not wide or plan.operator.source.strides[-1] == 1, "a fragment's pairs are neighbours along K"
    found = np.full((tile.inside.size, word), POISON, dtype=np.uint8)
    if plan.operator.fills:
        found[...] = np.frombuffer(plan.operator.pattern.to_bytes(word, "little"), np.uint8)
    for words, address in _vectors(tile, plan.views[0], load.bytes, "source"):
        found[words] = source[address[:, None] + np.arange(word)]
    # What lies in shared memory for a reader, or to be turned, must have room there.
    return _through_shared(tile, found) if plan.shared else found


def load_asynchronously(tile: Tile, source: Bytes) -> Bytes:
    """Return a tile's words after asynchronous copies brought them to shared memory."""
    plan, word = tile.plan, tile.plan.access.word // 8
    copy = plan.copies[0]
    assert copy.bytes in SIZES[copy.instruction] and not plan.pipeline.barriers
    shared, place = _buffer(tile)
    for words, address in _vectors(tile, plan.views[0], copy.bytes, "source"):
        to = place[words]
        assert to[0] % copy.bytes == 0, "an asynchronous copy writes at a multiple of its size"
        assert np.all(np.diff(to) == word), "an asynchronous copy writes bytes that lie together"
        shared[to[:, None] + np.arange(word)] = source[address[:, None] + np.arange(word)]
    found: Bytes = shared[place[:, None] + np.arange(word)]
    return found


def load_runs(tile: Tile, source: Bytes) -> Bytes:
    """Return a tile's words after bulk copies brought its rows; a copy lands as it lay, so nothing is swizzled."""
    plan, word = tile.plan, tile.plan.access.word // 8
    view, _ = plan.views
    rows = tile.rows(view).words
    assert plan.copies[0].bytes == rows.shape[1] * word, "a run is a row"
    assert plan.shared[0].boxes == len(rows), "the plan counts its runs"
    assert plan.shared[0].swizzle == "none", "a bulk copy swizzles nothing"
    shared, place = _buffer(tile)
    address, arrived = tile.address("source"), 0
    for row in rows:
        kept = row[tile.inside[row]]
        if not kept.size:
            continue
        first, size = int(address[kept[0]]), kept.size * word
        assert kept[0] == row[0] and np.all(np.diff(address[kept]) == word), "a run lies together, from the row's start"
        assert first % GRANULE == 0 and size % GRANULE == 0 and place[row[0]] % GRANULE == 0
        assert np.all(np.diff(place[row]) == word), "a run lands together"
        assert first + size <= source.size
        shared[place[row[0]] : place[row[0]] + size] = source[first : first + size]
        arrived += size
    (barrier,) = plan.pipeline.barriers
    assert arrived == barrier.transaction_bytes if np.all(tile.inside) else arrived < barrier.transaction_bytes
    found: Bytes = shared[place[:, None] + np.arange(word)]
    return found


def store_vectors(tile: Tile, view: View, size: int, words: Bytes, after: Bytes) -> None:
    """Store a tile's words, `size` bytes at once."""
    word = tile.plan.access.word // 8
    assert size in SIZES["st.global"]
    for vector, address in _vectors(tile, view, size, "target"):
        after[address[:, None] + np.arange(word)] = words[vector]


def _vectors(tile: Tile, view: View, size: int, side: str) -> list[tuple[Numbers, Numbers]]:
    """Return the vectors of a tile that lie in the tensor: which words, and their byte addresses.

    Each is aligned to its size, as is the tensor's base; its words lie side by side, and none of them outside.
    """
    plan, word = tile.plan, tile.plan.access.word // 8
    end = plan.source if side == "source" else plan.operator.target
    assert size % word == 0 and end.align % size == 0
    rows = tile.rows(view)
    assert rows.words.shape[1] * word % size == 0, "vectors fill the tile's rows"
    words = rows.words.reshape(-1, size // word)
    along = rows.along.reshape(words.shape)
    assert np.all(along[:, 0] * word % size == 0) and np.all(np.diff(along, axis=1) == 1)
    inside = (tile.there if side == "source" else tile.inside)[words]
    assert np.all(inside.all(axis=1) == inside.any(axis=1)), "no vector is partly outside"
    words = words[inside[:, 0]]
    address = tile.address(side)[words]
    assert np.all(address >= 0), "nothing lies before the tensor"
    assert not np.any(address[:, 0] % size), "a vector lies at a multiple of its size"
    assert np.all(np.diff(address, axis=1) == word), "a vector's words lie side by side"
    return list(zip(words, address, strict=True))


def _buffer(tile: Tile) -> tuple[Bytes, Numbers]:
    """Return the shared buffer, and the address of each of the tile's words in it.

    Rows lie one after another; with a swizzle, columns of its span do, each of which holds all rows. Rows for wgmma
    are those of its operand: the user's tile along the fastest axis.
    """
    plan = tile.plan
    (buffer,), word, operator = plan.shared, plan.access.word // 8, plan.operator
    rows = tile.rows(plan.views[0]).words
    if operator.consumer in {"wgmma.a", "wgmma.b"}:
        fastest = max(i for i, stride in enumerate(operator.source.strides) if stride == 1)
        assert operator.tile is not None
        rows = rows.reshape(-1, operator.tile[fastest] * operator.source.dtype.bits // (8 * word))
        assert buffer.swizzle != "none" or rows.shape[1] * word == GRANULE, "wgmma has a descriptor for the rows"
    assert buffer.bytes == rows.size * word, "the buffer just holds the tile"
    assert (buffer.shape[-1], math.prod(buffer.shape), buffer.word) == (rows.shape[1], rows.size, 8 * word)
    row, column = np.divmod(np.arange(rows.size, dtype=np.int64) * word, rows.shape[1] * word)
    if span := SPANS[buffer.swizzle]:
        assert rows.shape[1] * word % span == 0 and buffer.alignment % (8 * span) == 0
        linear = column // span * span * len(rows) + row * span + column % span
        linear ^= (linear >> 7) % (span // GRANULE) << 4
    else:
        linear = row * rows.shape[1] * word + column
    place = np.empty(rows.size, dtype=np.int64)
    place[rows.reshape(-1)] = linear
    assert np.unique(place).size == place.size and place.max() + word <= buffer.bytes
    return np.full(buffer.bytes, POISON, dtype=np.uint8), place


def _through_shared(tile: Tile, words: Bytes) -> Bytes:
    shared, place = _buffer(tile)
    at = place[:, None] + np.arange(words.shape[1])
    shared[at] = words
    found: Bytes = shared[at]
    return found
