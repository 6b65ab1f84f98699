"""Columns of pixels: how im2col loads see the windows of a convolution.

An im2col load brings some channels of so many windows' pixels under one tap of the filter. It walks the windows of a
batch as an odometer does, so a column of pixels goes on from row to row and from image to image, and it fills in zeros
where a tap lies outside an image. A tile is made of columns, for each tap and each block of channels in it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from legalsat.logic import ceil_div, round_up
from legalsat.operators import Move, window_modes
from legalsat.operators.access import Access, Mode
from legalsat.plans.movement_plan import View
from legalsat.rules.padding import FILLS, FILLS_ZEROS
from legalsat.rules.windows import COLUMNS, FILLING
from legalsat.targets import GRANULE_BYTES
from legalsat.tensor import plain
from legalsat.units.means import MEANS
from legalsat.units.windows import Window


@dataclass(frozen=True, slots=True)
class Column:
    """What windows fix of an im2col map: fields of `TensorMap`, fastest dimension first, and the last tap's offsets."""

    global_dim: tuple[int, ...]
    global_stride: tuple[int, ...]
    element_stride: tuple[int, ...]
    lower_corner: tuple[int, ...]
    upper_corner: tuple[int, ...]
    offsets: tuple[int, ...]


def suits(means: str, operator: Move) -> bool:
    """Whether a means can be right for an operator: columns for windows alone, and only fillers where those are.

    Fragments end in registers, and rows that arrive shifted are put right by threads that store them: where nothing is
    stored, neither is what the reader wants. Granules leave no tile for a reader.
    """
    if not MEANS[means].tiled and (operator.tile is not None or operator.reader is not None or operator.sweeps):
        return False
    if operator.loads_only and not MEANS[means].shared:
        return False
    if operator.sweeps:
        return means in FILLING or not operator.fills
    if operator.fills:
        return means in FILLS or (means in FILLS_ZEROS and operator.pattern == 0)
    return means != COLUMNS


def window_of(operator: Move, access: Access) -> Window | None:
    """Return the window of an access that needs to know it; None if it does not, or the access lost the modes of it."""
    if not operator.sweeps or (access.by != COLUMNS and not operator.fills):
        return None
    at = _places(operator, access)
    if at is None:
        return None
    axes = len(operator.sweeps)
    return Window(
        sweeps=operator.sweeps[::-1],
        channel=at[0],
        taps=at[1 : axes + 1],
        pixels=at[axes + 1 :],
        lead=lead_bits(operator),
    )


def column_of(operator: Move, access: Access) -> Column | None:
    """Return what the windows fix of an access by columns; None where its tiles are no runs of pixels of whole taps."""
    window = window_of(operator, access)
    if window is None or access.by != COLUMNS:
        return None
    taps = [access.modes[i] for i in window.taps]
    if not _is_run([access.modes[i] for i in window.pixels]) or any(tap.extent % tap.tile for tap in taps):
        return None
    shape, strides, bits = plain(operator.source.shape), plain(operator.source.strides), operator.source.dtype.bits
    steps, spanned = [], ceil_div(shape[-1] * bits, 8)
    for extent, stride in zip(shape[-2::-1], strides[-2::-1], strict=True):
        # Nothing is a stride away along an axis of one element, so one stands there that is legal.
        steps.append(stride * bits // 8 if extent > 1 else round_up(spanned, GRANULE_BYTES))
        spanned = extent * steps[-1]
    return Column(
        global_dim=shape[::-1],
        global_stride=tuple(steps),
        element_stride=(1, *(sweep.step for sweep in window.sweeps), 1),
        lower_corner=tuple(-sweep.before for sweep in window.sweeps),
        upper_corner=tuple(sweep.upper_corner for sweep in window.sweeps),
        offsets=tuple(sweep.reach for sweep in window.sweeps),
    )


def column_views(access: Access, window: Window) -> tuple[View, View | None]:
    """Return how columns see either side: channels, taps of each axis, pixels. In the source, pixels in a row are even.

    None for the target where its pixels are no run of memory that a stride describes.
    """
    groups = ((window.channel,), *((tap,) for tap in window.taps), window.pixels)
    pixels = [access.modes[i] for i in window.pixels]
    load, store = (
        View(
            side,
            groups,
            extent=tuple(math.prod(access.modes[i].extent for i in group) for group in groups),
            stride=tuple(getattr(_widest(access.modes[i] for i in group), side) for group in groups),
            tile=tuple(math.prod(access.modes[i].tile for i in group) for group in groups),
        )
        for side in ("source", "target")
    )
    rows = [mode for mode in pixels if mode.extent > 1]
    even = all(outer.target == inner.extent * inner.target for inner, outer in pairwise(rows))
    return load, store if even else None


def lead_bits(operator: Move) -> int:
    """Return bits from the first tap of the first window to the first image, which lies behind its padding."""
    if not operator.sweeps:
        return 0
    strides, bits = plain(operator.source.strides), operator.source.dtype.bits
    return bits * sum(s.before * stride for s, stride in zip(operator.sweeps, strides[1:-1], strict=True))


def pixel_bits(operator: Move) -> int:
    """Return bits that lie side by side and are of one pixel, where some pixels are missing; 0 where none are."""
    if not operator.sweeps or not operator.fills:
        return 0
    shape, strides = plain(operator.source.shape), plain(operator.source.strides)
    apart = all(stride >= shape[-1] for extent, stride in zip(shape[:-1], strides, strict=False) if extent > 1)
    return operator.source.dtype.bits * (shape[-1] if strides[-1] == 1 and apart else 1)


def walked(access: Access, window: Window | None) -> Access:
    """Return the access as its tiles are counted: by columns, the pixels are one mode."""
    if window is None or access.by != COLUMNS:
        return access
    pixels = [access.modes[i] for i in window.pixels]
    extent, tile = math.prod(mode.extent for mode in pixels), math.prod(mode.tile for mode in pixels)
    others = (mode for i, mode in enumerate(access.modes) if i not in window.pixels)
    return replace(access, modes=(*others, _widest(pixels)._replace(extent=extent, tile=tile)))


def _widest(modes: Iterable[Mode]) -> Mode:
    """Return the first mode of more than one element, which says how far neighbours lie apart; else the first."""
    found = list(modes)
    return next((mode for mode in found if mode.extent > 1), found[0])


def _is_run(modes: Sequence[Mode]) -> bool:
    """Whether a tile of these modes, fastest first, holds elements that follow each other."""
    cut = next((i for i, mode in enumerate(modes) if mode.tile != mode.extent), len(modes))
    return all(mode.tile == 1 for mode in modes[cut + 1 :])


def _places(operator: Move, access: Access) -> tuple[int, ...] | None:
    """Return where the operator's modes stand in the access, in the order of `window_modes`; None if one is missing."""
    free = dict(enumerate(access.modes))
    found = []
    for mode in window_modes(operator):
        at = next((i for i, other in free.items() if other[:3] == mode[:3]), None)
        if at is None:
            return None
        found.append(at)
        del free[at]
    return None if free or access.word != operator.source.dtype.bits else tuple(found)
