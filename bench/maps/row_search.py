"""What the encode call asks of a tensor's rows, and the least memory with which it can be had, by trying everything.

Nothing here comes from the library but the element types: the rules are those of cuTensorMapEncodeTiled, in plain
numbers, and every layout that spans less than an offered one is tried.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise
from typing import NamedTuple

GRANULE = 16  # bytes of a base, of every pitch and of a row of a box
MOST_RANK, MOST_EXTENT, MOST_PITCH = 5, 2**31, 2**40

Numbers = tuple[int, ...]


def inner_axis(shape: Numbers, strides: Numbers, tile: Numbers | None) -> int | None:
    """Return the axis that is dimension 0: the last dense one; an axis of one element where no other has neighbours.

    None where no axis may be.
    """
    long = [a for a in range(len(shape)) if shape[a] > 1 or (tile is not None and tile[a] > 1 and strides[a] == 1)]
    dense = [a for a in long if strides[a] == 1]
    units = [a for a in range(len(shape)) if a not in long]
    if dense:
        return dense[-1]
    return next((a for a in units if strides[a] == 1), units[-1] if units else None)


class Lies(NamedTuple):
    """A tensor: extents, strides in elements, bytes of an element, address, and the elements of a tile, None for any.

    Strides of axes of one element may be written as one likes.
    """

    shape: Numbers
    strides: Numbers
    size: int
    address: int
    tile: Numbers | None

    @property
    def encodes(self) -> bool:
        """Whether the driver takes a map with a dimension for each axis, and a row of a box is whole granules."""
        shape, strides, size, address, tile = self
        inner = inner_axis(shape, strides, tile)
        if shape and inner is None:
            return False
        pitches = [strides[a] * size for a in range(len(shape)) if a != inner and shape[a] > 1]
        rows = True if tile is None or inner is None else tile[inner] * size % GRANULE == 0
        return (
            rows
            and address % GRANULE == 0
            and len(shape) <= MOST_RANK
            and all(n < MOST_EXTENT for n in shape)
            and all(pitch % GRANULE == 0 and pitch < MOST_PITCH for pitch in pitches)
        )


def span(shape: Numbers, strides: Numbers) -> int:
    """Return elements from the first to the last, both counted."""
    return 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))


def paddings(shape: Numbers, strides: Numbers, step: int, below: int) -> Iterator[Numbers]:
    """Yield all strides that span less than `below` elements, each a multiple of `step`, or 1 as it was.

    None is shorter than it was, axes stay in their order, and one that changes steps over all that lies inside it.
    """
    order = sorted((a for a in range(len(shape)) if shape[a] > 1 and strides[a]), key=lambda a: (strides[a], shape[a]))

    def at_least(place: int, held: int, *, kept: bool) -> int:
        """Return what all axes span at least where those before a place span so much."""
        for axis in order[place:]:
            held += (shape[axis] - 1) * (strides[axis] if kept else max(strides[axis], held))
        return held

    def longer(pitch: Numbers, place: int, held: int, *, kept: bool) -> Iterator[Numbers]:
        if at_least(place, held, kept=kept) >= below:
            return
        if place == len(order):
            yield pitch
            return
        axis = order[place]
        low, rows = strides[axis], shape[axis] - 1
        if (low % step == 0 or low == 1) and (kept or low >= held):
            yield from longer(pitch, place + 1, held + rows * low, kept=kept)
        for stride in range(-(-max(low + 1, held) // step) * step, (below - held) // rows + 1, step):
            if at_least(place + 1, held + rows * stride, kept=False) >= below:
                break
            made = (*pitch[:axis], stride, *pitch[axis + 1 :])
            yield from longer(made, place + 1, held + rows * stride, kept=False)

    yield from longer(strides, 0, 1, kept=True)


def smaller_padding(lies: Lies, below: int) -> tuple[Numbers | None, int]:
    """Return legal pitches that span less than `below` elements, None if there are none, and how many were tried."""
    tried = 0
    for pitch in paddings(lies.shape, lies.strides, math.lcm(GRANULE, lies.size) // lies.size, below):
        tried += 1
        if lies._replace(strides=pitch).encodes:
            return pitch, tried
    return None, tried


def views(shape: Numbers, strides: Numbers, tile: Numbers | None) -> Iterator[tuple[Numbers, Numbers, Numbers | None]]:
    """Yield all ways to see the same elements with fewer axes: extents, strides and tile of each.

    Any axes of one element may be left out that a tile does not go beyond, and neighbours in memory that follow each
    other may be one axis where a tile holds whole rows of the inner ones.
    """
    units = [a for a in range(len(shape)) if shape[a] == 1 and (tile is None or tile[a] == 1)]
    for count in range(len(units) + 1):
        for dropped in combinations(units, count):
            kept = [a for a in range(len(shape)) if a not in dropped]
            order = sorted(kept, key=lambda a: (strides[a] == 0, strides[a], shape[a] == 1, -a))
            for groups in _runs(order, shape, strides, tile):
                if len(groups) == len(shape):
                    continue
                listed = sorted(groups, key=min)
                whole = tuple(math.prod(shape[a] for a in group) for group in listed)
                steps = tuple(strides[group[0]] for group in listed)
                spans = None if tile is None else tuple(math.prod(tile[a] for a in group) for group in listed)
                yield whole, steps, spans


def _runs(order: Sequence[int], shape: Numbers, strides: Numbers, tile: Numbers | None) -> Iterator[list[list[int]]]:
    if not order:
        yield []
        return
    for end in range(1, len(order) + 1):
        run = list(order[:end])
        if all(_follows(a, b, shape, strides, tile) for a, b in pairwise(run)):
            for rest in _runs(order[end:], shape, strides, tile):
                yield [run, *rest]


def _follows(inner: int, outer: int, shape: Numbers, strides: Numbers, tile: Numbers | None) -> bool:
    whole = tile is None or tile[inner] == shape[inner]
    return whole and strides[outer] == shape[inner] * strides[inner] and strides[outer] > 0 and shape[outer] > 1


def smaller_view(lies: Lies, added: int) -> tuple[str, int]:
    """Return a legal view that adds fewer bytes than so many, "" if there is none, and how many were tried."""
    tried = 0
    for extents, steps, spans in views(lies.shape, lies.strides, lies.tile):
        tried += 1
        seen = Lies(extents, steps, lies.size, lies.address, spans)
        if seen.encodes:
            if added:
                return f"{extents} strides {steps} as it lies", tried
            continue
        pitch, more = smaller_padding(seen, span(extents, steps) + -(-added // lies.size))
        tried += more
        if pitch is not None:
            return f"{extents} strides {pitch}", tried
    return "", tried


def least_dense(lies: Lies) -> int | None:
    """Return the fewest elements that a packed copy spans, its axes row-major or as they were; None if none is legal.

    What a stride of 0 repeats is stored once.
    """
    shape, strides = lies.shape, lies.strides
    step = math.lcm(GRANULE, lies.size) // lies.size
    held = [a for a in range(len(shape)) if not (shape[a] > 1 and strides[a] == 0)]
    orders = (held[::-1], sorted(held, key=lambda a: (strides[a] == 0, strides[a], -a)))
    found = (pitch for order in orders for pitch in _packed(shape, order, step, (0,) * len(shape)))
    legal = [span(shape, pitch) for pitch in found if lies._replace(strides=pitch, address=0).encodes]
    return min(legal, default=None)


def _packed(shape: Numbers, order: Sequence[int], step: int, strides: Numbers, covered: int = 1) -> Iterator[Numbers]:
    """Yield strides of axes from the first of `order` on: each as short as can be, or the next multiple of a step."""
    if not order:
        yield strides
        return
    axis, *outer = order
    for stride in dict.fromkeys((covered, -(-covered // step) * step)):
        made = (*strides[:axis], stride, *strides[axis + 1 :])
        yield from _packed(shape, outer, step, made, stride * shape[axis])
