"""Where tiles and elements lie along the modes of a plan's access, given where they lie along the user's axes.

A law merges axes into modes and takes them apart, so a tile's number along a mode says little to who gave the axes. The
target's strides tell an element's coordinate along each mode: its offset there is one number, written in digits of the
axes and in digits of the modes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from legalsat.operators import Move, back
from legalsat.operators.access import Access
from legalsat.tensor import plain

Coordinates = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Axes:
    """The axes of a movement's result, in the source's order.

    Attributes:
        extent: elements along each, margins included. stride: bits between neighbours in the target.
    """

    extent: tuple[int, ...]
    stride: tuple[int, ...]


def axes_of(operator: Move) -> Axes | None:
    """Return the axes; None of a movement that does not keep them, as columns of windows do not."""
    if operator.order is None or operator.sweeps:
        return None
    target, at = operator.target, back(operator)
    shape, strides, bits = plain(target.shape), plain(target.strides), target.dtype.bits
    return Axes(tuple(shape[a] for a in at), tuple(strides[a] * bits for a in at))


def digits(access: Access, offsets: Coordinates) -> Coordinates | None:
    """Return the coordinate along each mode of what lies at these bits of the target: shape (offsets, modes).

    None where a bit is no word's first, or the modes' words overlap in the target, so that a bit has no coordinate.
    """
    found = np.zeros((len(offsets), len(access.modes)), np.int64)
    spanned = access.word
    apart = [m for m, mode in enumerate(access.modes) if mode.extent > 1]
    inner_first = sorted(apart, key=lambda m: access.modes[m].target)
    for m in inner_first:
        mode = access.modes[m]
        if mode.target < spanned:
            return None
        spanned += (mode.extent - 1) * mode.target
    rest = offsets.copy()
    for m in reversed(inner_first):
        found[:, m] = np.minimum(rest // access.modes[m].target, access.modes[m].extent - 1)
        rest -= found[:, m] * access.modes[m].target
    return None if rest.any() else found


@dataclass(frozen=True, slots=True)
class AxisTiles:
    """Tiles counted along the user's axes.

    Attributes:
        tile: elements of a tile along each axis. count: tiles.
        steps: for each axis, how many tiles further along each mode of the access its next tile is.
    """

    tile: tuple[int, ...]
    count: tuple[int, ...]
    steps: tuple[tuple[int, ...], ...]


def axis_tiles(operator: Move, access: Access) -> AxisTiles | None:
    """Return how an access's tiles are counted along the axes; None where they do not follow each other along these."""
    axes = axes_of(operator)
    if axes is None:
        return None
    tile = operator.tile or _tile(axes, access)
    if tile is None:
        return None
    count = tuple(-(-n // t) for n, t in zip(axes.extent, tile, strict=True))
    first = [t * stride if n > 1 else 0 for t, stride, n in zip(tile, axes.stride, count, strict=True)]
    places = digits(access, np.array(first, np.int64))
    if places is None:
        return None
    last = [sum((n - 1) * int(place) for n, place in zip(count, along, strict=True)) for along in places.T]
    extents, wide = ([getattr(mode, what) for mode in access.modes] for what in ("extent", "tile"))
    # No digit overflows up to the last tile, so the digits of all between are such sums.
    within = all(place < extent for place, extent in zip(last, extents, strict=True))
    several = math.prod(-(-extent // tile) for extent, tile in zip(extents, wide, strict=True))
    if not within or (places % np.array(wide, np.int64)).any() or math.prod(count) != several:
        return None
    steps = places // np.array(wide, np.int64)
    return AxisTiles(tuple(tile), count, tuple(tuple(int(step) for step in row) for row in steps))


def _tile(axes: Axes, access: Access) -> tuple[int, ...] | None:
    """Return a chosen tile along the axes: of the mode in which an axis's neighbours differ."""
    found = []
    for extent, stride in zip(axes.extent, axes.stride, strict=True):
        at = _mode_of(extent, stride, 1, access)
        if at is None:
            return None
        mode = access.modes[at]
        if extent > 1 and mode.tile * mode.target % stride:
            return None
        found.append(1 if extent == 1 else min(mode.tile * mode.target // stride, 1 << (extent - 1).bit_length()))
    return tuple(found)


def _mode_of(extent: int, stride: int, tile: int, access: Access) -> int | None:
    """Return the mode in which an axis's neighbours differ; of an axis of one element, one of one that has its tile."""
    modes = range(len(access.modes))
    if extent == 1:
        alone = (m for m in modes if access.modes[m].extent == 1 and access.modes[m].tile == tile)
        return next(alone, 0 if tile == 1 else None)
    inside = [m for m in modes if access.modes[m].extent > 1 and access.modes[m].target <= max(stride, access.word)]
    return max(inside, key=lambda m: access.modes[m].target, default=None)


def tile_words(operator: Move, access: Access) -> Coordinates | None:
    """Return the coordinate along each mode of every element of a tile, from its corner: shape (elements, modes).

    None where the operator names no tile along its axes, or elements of it have no place along the modes.
    """
    axes, tile = axes_of(operator), operator.tile
    if axes is None or tile is None:
        return None
    found: Coordinates = np.zeros((1, len(access.modes)), np.int64)
    for extent, stride, t in zip(axes.extent, axes.stride, tile, strict=True):
        along = np.arange(t, dtype=np.int64)
        at = _mode_of(extent, stride, t, access)
        if at is None:
            return None
        step, torn = (1, 0) if extent == 1 else divmod(stride, access.modes[at].target)
        if not torn and (t - 1) * step < access.modes[at].tile:  # what overhangs goes on in the same mode
            places: Coordinates | None = np.zeros((t, len(access.modes)), np.int64)
            assert places is not None
            places[:, at] = along * step
        else:
            places = digits(access, along * stride) if t <= extent else None
        if places is None:
            return None
        found = (found[:, None, :] + places[None, :, :]).reshape(-1, len(access.modes))
    if (found >= np.array([mode.tile for mode in access.modes], np.int64)).any():
        return None
    return found
