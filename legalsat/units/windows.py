"""Windows of a convolution: how a filter moves over an image, and what a plan says of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from legalsat.checks import counted, integers, sequence
from legalsat.errors import InvalidInput

MAX_PIXELS = 2**31 - 1  # along an axis, as coordinates of the copy engine


@dataclass(frozen=True, slots=True)
class Sweep:
    """How a window moves along one axis of an image: tap r of window p meets pixel step * p + dilation * r - before.

    Attributes:
        extent: pixels of the image.
        taps: of the filter.
        step: pixels between neighbouring windows.
        dilation: pixels between neighbouring taps.
        before, after: pixels of zeros on either side of the image.
    """

    extent: int
    taps: int
    step: int
    dilation: int
    before: int
    after: int

    @property
    def reach(self) -> int:
        """Pixels from a window's first tap to its last."""
        return self.dilation * (self.taps - 1)

    @property
    def windows(self) -> int:
        """How many windows lie in the image and its padding, less than 1 where the filter is too wide."""
        return (self.extent + self.before + self.after - self.reach - 1) // self.step + 1

    @property
    def upper_corner(self) -> int:
        """How far after the image's last pixel a window may begin, most often before it and so negative."""
        return self.after - self.reach

    @property
    def leaves(self) -> bool:
        """Whether some tap of some window meets no pixel of the image."""
        last = self.step * (self.windows - 1) + self.reach - self.before
        return self.before > 0 or last >= self.extent


@dataclass(frozen=True, slots=True)
class Window:
    """The windows that a plan's access runs over: what lies outside the image under them is zero, and is not read.

    Offsets of the access on the source's side count from the first tap of the first window, which may be padding.

    Attributes:
        sweeps: of each spatial axis, fastest first.
        channel: the mode of the access that runs over channels.
        taps: for each axis the mode that runs over its taps.
        pixels: for each axis the mode that runs over its windows; then that of the batch. By im2col, tiles count
            windows as an odometer of these modes does: where a tile is longer than its row, it goes on in the next.
        lead: bits from the first tap of the first window to the image's first pixel.
    """

    sweeps: tuple[Sweep, ...]
    channel: int
    taps: tuple[int, ...]
    pixels: tuple[int, ...]
    lead: int


def per_axis(value: Any, what: str, axes: int) -> tuple[int, ...]:
    """Return a positive number for each of `axes` spatial axes; one alone stands for all."""
    values = value if isinstance(value, Iterable) else (value,) * axes
    return integers(values, what, low=1, high=MAX_PIXELS, length=axes)


def paddings(value: Any, axes: int) -> tuple[tuple[int, int], ...]:
    """Return the padding before and after each of `axes` axes; one number stands for both sides, or for all."""
    each = sequence(value, "padding", "pairs") if isinstance(value, Iterable) else (value,) * axes
    if len(each) != axes:
        raise InvalidInput(f"padding has {counted(len(each))}; give {axes}, one for each axis")
    found = []
    for axis, side in enumerate(each):
        pair = side if isinstance(side, Iterable) else (side, side)
        before, after = integers(pair, f"padding[{axis}]", low=0, high=MAX_PIXELS, length=2)
        found.append((before, after))
    return tuple(found)


def sides(number: int | tuple[int, int]) -> str:
    """Return the padding of an axis in words, as one number where both sides have the same."""
    if isinstance(number, int):
        return str(number)
    return str(number[0]) if number[0] == number[1] else f"{number[0]} and {number[1]}"


def spread_over(count: int, extents: Sequence[int]) -> tuple[int, ...]:
    """Return `count` elements in the order of axes of these extents, fastest first, as elements along each axis.

    Whole axes as long as that comes out even; then the axis that the count cuts or goes beyond, and 1 along the rest.
    """
    found = []
    for axis, extent in enumerate(extents):
        whole = count % extent == 0 and axis < len(extents) - 1
        found.append(extent if whole else count)
        count = count // extent if whole else 1
    return tuple(found)
