"""A tensor map's box in its tensor: what it covers, what overhangs, where rows start, which pixels a column takes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from legalsat.checks import instance, integer, integers
from legalsat.errors import InvalidInput
from legalsat.units.tensor_map import INT32_MAX, INT32_MIN, TensorMap
from legalsat.view.svg import BLUE, GREEN, HUES, RED, Canvas, Drawing

GRANULE_BYTES = 16
_WIDTH, _LEFT, _TOP = 360, 38, 34
_BREAK = 22  # units that what is left out takes
_MOST_ROWS = 256
_MOST_PIXELS = 1024  # as many as the hardware takes
_THIN = 7  # units that the thinnest piece takes, however few elements it has


def corner(tm: TensorMap) -> tuple[int, ...]:
    """Return the coordinate of the last box where boxes overhang the tensor, along those dimensions; else of the first.

    Of im2col, of the first pixel.
    """
    if tm.mode != "tiled":
        return (0, *tm.lower_corner, 0)[: tm.rank]
    return tuple(
        (n - 1) // b * b if b and n % b and n > b and (n - 1) // b * b <= INT32_MAX else 0
        for n, b in zip(tm.global_dim, tm.box, strict=True)
    )


def filled_elements(tm: TensorMap, coordinate: tuple[int, ...]) -> int:
    """Return how many elements of a tiled map's box at a coordinate lie outside the tensor, and are filled in."""
    taken = [_taken(tm, d, start) for d, start in enumerate(coordinate)]
    return math.prod(map(len, taken)) - math.prod(
        _within(places, n) for places, n in zip(taken, tm.global_dim, strict=True)
    )


def draw_box(tm: TensorMap, coordinate: Any = None) -> Drawing:
    """Return the two fastest dimensions of a tensor with the box of a map in it, as SVG.

    Boxes lie side by side from the first element on; of many, those at both ends and around the coordinate are shown.
    Hatched: the padding between a row's end and the next row's start, and what of the box lies outside the tensor.

    Args:
        tm: a tiled map, legal or not.
        coordinate: of the box, `rank` numbers, fastest dimension first; the last box that overhangs when left out.

    Raises:
        InvalidInput: an im2col map, no dimensions, one or a box of no elements, or a coordinate of another length.
    """
    instance(tm, "tm", TensorMap)
    if tm.mode != "tiled":
        raise InvalidInput("an im2col map has no box; draw its pixels")
    if not tm.rank:
        raise InvalidInput("the map has no dimensions, so no box; give it 1 to 5")
    start = _coordinate(tm, coordinate)
    integers(tm.global_dim, "global_dim", low=1)
    integers(tm.box, "box", low=1)
    flat = tm.rank == 1
    bits = tm.map_type.bits
    pitch = tm.global_dim[0] if flat else tm.global_stride[0] * 8 / bits
    extent, box = (tm.global_dim[0], 1 if flat else tm.global_dim[1]), (tm.box[0], 1 if flat else tm.box[1])
    at = (start[0], 0 if flat else start[1])
    x = _Axis(extent[0], box[0], at[0], pitch, (_LEFT, _WIDTH - _LEFT - 8))
    y = _Axis(extent[1], box[1], at[1], extent[1], (_TOP, 34 if flat else 170))
    name = f"{tm.box[0]}" if flat else f"{tm.box[0]} x {tm.box[1]}"
    title = f"box {name} at {_tuple(start)} in a tensor of {_by(tm.global_dim)} elements"
    filled = filled_elements(tm, start)
    canvas = Canvas(_WIDTH, title, f"{_row_words(tm)}; {_outside_words(tm, start, filled)}")
    _tensor(canvas, x, y)
    _boxes(canvas, x, y)
    _this_box(canvas, x, y)
    _edges(canvas, x, y, bits)
    return canvas.svg(_legend(canvas, y.end + 20, tm, start, filled, padded=pitch > extent[0]))


class _Axis:
    """Where elements along one dimension are drawn: pieces to scale, none of them too thin, and breaks between some.

    Shown are the ends of the dimension and what surrounds the coordinate; pieces end where something begins or ends.
    """

    def __init__(self, extent: int, box: int, start: int, pitch: float, span: tuple[float, float]) -> None:
        place, room = span
        self.extent, self.box, self.start, self.pitch = extent, box, start, pitch
        last = (extent - 1) // box * box
        grid = min(start, max(start // box * box, 0))
        wanted = [
            (min(0, start), min(2 * box, extent)),
            (grid, start + box),
            (max(last - box, 0), max(last + box, extent)),
            (extent, min(pitch, extent + box)),
            (max(pitch - box / 2, extent), pitch),
        ]
        stretches: list[tuple[float, float]] = []
        for low, high in sorted((low, high) for low, high in wanted if low < high):
            if stretches and low - stretches[-1][1] < box:
                stretches[-1] = (stretches[-1][0], max(high, stretches[-1][1]))
            else:
                stretches.append((low, high))
        ends = {0, extent, start, start + box, last + box, pitch}
        pieces = [
            pair
            for low, high in stretches
            for pair in pairwise(sorted({low, high} | {end for end in ends if low < end < high}))
        ]
        room -= _BREAK * (len(stretches) - 1)
        # What thin pieces take beyond their share, the others give.
        thin: set[tuple[float, float]] = set()
        while True:
            rest = sum(high - low for low, high in pieces if (low, high) not in thin)
            self.scale = (room - _THIN * len(thin)) / rest if rest else 0.0
            more = {(low, high) for low, high in pieces if (high - low) * self.scale < _THIN} - thin
            if not more:
                break
            thin |= more
        self.pieces: list[tuple[float, float, float, float]] = []
        for low, high in pieces:
            if self.pieces and self.pieces[-1][1] < low:
                place += _BREAK
            width = _THIN if (low, high) in thin else (high - low) * self.scale
            self.pieces.append((low, high, place, width))
            place += width
        self.end = place

    def __call__(self, element: float) -> float:
        """Return where an element begins, of those left out where the break after them ends."""
        for low, high, place, width in self.pieces:
            if element < high:
                return place + max(element - low, 0) / (high - low) * width
        return self.end

    def parts(self, low: float, high: float) -> Iterator[tuple[float, float]]:
        """Yield where each unbroken part of what is shown of [low, high) begins, and how long it is."""
        begin = end = 0.0
        for first, last, place, width in self.pieces:
            if max(first, low) >= min(last, high):
                continue
            left = place + (max(first, low) - first) / (last - first) * width
            if left > end + 0.01 and end > begin:
                yield begin, end - begin
            if left > end + 0.01 or end <= begin:
                begin = left
            end = place + (min(last, high) - first) / (last - first) * width
        if end > begin:
            yield begin, end - begin

    def breaks(self) -> Iterator[float]:
        """Yield the middle of each break."""
        for (_, before, place, width), (after, *_) in pairwise(self.pieces):
            if before < after:
                yield place + width + _BREAK / 2

    def marks(self, low: float, high: float) -> Iterator[float]:
        """Yield where boxes side by side begin within [low, high] and what is shown; nothing if they are too small."""
        if self.box * self.scale < 4:
            return
        found = set()
        for first, last, place, width in self.pieces:
            at = -(-max(first, low) // self.box) * self.box
            while at <= min(last, high):
                found.add(round(place + (at - first) / (last - first) * width, 2))
                at += self.box
        yield from sorted(found)


def _tensor(canvas: Canvas, x: _Axis, y: _Axis) -> None:
    for top, height in y.parts(0, y.extent):
        for left, width in x.parts(0, x.extent):
            canvas.rect(left, top, width, height, fill="currentColor", opacity=0.08, kind="tensor")
        for left, width in x.parts(x.extent, x.pitch):
            canvas.hatch(left, top, width, height, "currentColor")
            canvas.rect(left, top, width, height, stroke="currentColor", thick=0.5, kind="padding")


def _boxes(canvas: Canvas, x: _Axis, y: _Axis) -> None:
    """Draw where boxes that lie side by side meet, also beyond the tensor's end."""
    right, below = (-(-axis.extent // axis.box) * axis.box for axis in (x, y))
    for top, height in y.parts(0, below):
        for at in x.marks(0, right):
            canvas.line([(at, top), (at, top + height)], thick=0.7, faint=True)
    for left, width in x.parts(0, right):
        for at in y.marks(0, below):
            canvas.line([(left, at), (left + width, at)], thick=0.7, faint=True)


def _this_box(canvas: Canvas, x: _Axis, y: _Axis) -> None:
    inside = [(max(axis.start, 0), min(axis.start + axis.box, axis.extent)) for axis in (x, y)]
    for top, height in y.parts(*inside[1]):
        for left, width in x.parts(*inside[0]):
            canvas.rect(left, top, width, height, fill=BLUE, opacity=0.45, kind="box")
    for columns, rows in _outside(x, y):
        for top, height in y.parts(*rows):
            for left, width in x.parts(*columns):
                canvas.rect(left, top, width, height, fill=RED, opacity=0.3, kind="filled")
                canvas.hatch(left, top, width, height, RED, step=5)
    ((left, width),) = x.parts(x.start, x.start + x.box)
    ((top, height),) = y.parts(y.start, y.start + y.box)
    canvas.rect(left, top, width, height, stroke=BLUE, thick=2, kind="edge")


def _outside(x: _Axis, y: _Axis) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield the rectangles of a box outside the tensor, as ranges of columns and of rows that do not overlap."""
    right, below = x.start + x.box, y.start + y.box
    for rows in ((y.start, min(0, below)), (max(y.extent, y.start), below)):
        if rows[0] < rows[1]:
            yield (x.start, right), rows
    rows = (max(y.start, 0), min(below, y.extent))
    for columns in ((x.start, min(0, right)), (max(x.extent, x.start), right)):
        if columns[0] < columns[1] and rows[0] < rows[1]:
            yield columns, rows


def _edges(canvas: Canvas, x: _Axis, y: _Axis, bits: int) -> None:
    """Write the extents along the edges, and dots where something is left out."""
    ends = x(0), max(left + width for left, width in x.parts(0, x.extent))
    canvas.line([(end, _TOP - 6) for end in ends])
    for end in ends:
        canvas.line([(end, _TOP - 9), (end, _TOP - 3)])
    size = f" = {x.extent * bits // 8} bytes" if x.extent * bits % 8 == 0 else ""
    canvas.text(x(0), _TOP - 14, f"{x.extent} elements{size}")
    middle = (y(0) + y.end) / 2
    canvas.text(_LEFT - 6, middle - 2, str(y.extent), anchor="end")
    canvas.text(_LEFT - 6, middle + 10, "rows" if y.extent > 1 else "row", anchor="end")
    for at in x.breaks():
        for top, height in y.parts(-math.inf, math.inf):
            canvas.text(at, top + height / 2 + 5, "⋯", size=16, anchor="middle")
    for at in y.breaks():
        for left, width in x.parts(-math.inf, math.inf):
            canvas.text(left + width / 2, at + 6, "⋮", size=16, anchor="middle")


def _legend(
    canvas: Canvas, bottom: float, tm: TensorMap, start: tuple[int, ...], filled: int, *, padded: bool
) -> float:
    right = canvas.key(0, bottom, "the box", fill=BLUE, opacity=0.45)
    if filled:
        right = canvas.key(right, bottom, "filled in", fill=RED, opacity=0.3, hatched=True)
    if padded:
        canvas.key(right, bottom, "padding", fill="currentColor", opacity=0, hatched=True)
    bottom = canvas.lines(bottom + 17, _row_words(tm))
    return canvas.lines(bottom, _outside_words(tm, start, filled))


def _row_words(tm: TensorMap) -> str:
    if tm.rank == 1:
        return "one row"
    row, pitch = tm.global_dim[0] * tm.map_type.bits / 8, tm.global_stride[0]
    said = f"rows of {row:.10g} bytes start every {pitch} bytes"
    if pitch > row:
        return f"{said}: {pitch - row:.10g} bytes of padding each"
    return f"{said}: they overlap" if pitch < row else f"{said}: no padding"


def _outside_words(tm: TensorMap, start: tuple[int, ...], filled: int) -> str:
    if not filled:
        return f"the box at {_tuple(start)} lies inside the tensor"
    every = math.prod(len(_taken(tm, d, at)) for d, at in enumerate(start))
    value = "zeros" if tm.oob_fill == "zero" or not tm.map_type.is_float else "NaN"
    return f"of the box at {_tuple(start)}, {filled} of {every} elements lie outside, and are filled with {value}"


def draw_rows(tm: TensorMap, *, rows: int = 8, dimension: int = 1) -> Drawing:
    """Return where the first rows start, against granules of 16 bytes, as SVG.

    The copy engine takes rows that start at granules. Each line of the picture shows the granule in which a row starts
    and the next two; where rows are no multiple of a granule apart, their starts drift over it.

    Args:
        tm: a map with at least two dimensions.
        rows: how many to draw, 256 at most.
        dimension: whose neighbours to draw, from 1 on.

    Raises:
        InvalidInput: no map, no such dimension, or too many rows.
    """
    if instance(tm, "tm", TensorMap).rank < 2:
        raise InvalidInput(f"the map has {tm.rank} dimensions, so no rows; give one of at least 2")
    integer(dimension, "dimension", low=1, high=tm.rank - 1)
    integer(rows, "rows", low=1, high=_MOST_ROWS)
    stride, granule = tm.global_stride[dimension - 1], granule_bytes(tm)
    what = "rows" if dimension == 1 else f"neighbours in dimension {dimension}"
    period = granule // math.gcd(stride, granule)
    starts = [(tm.address + row * stride) % granule for row in range(rows)]
    # The starts repeat with the period, whose rows all start elsewhere: one of them at most at a granule.
    reached = any((tm.address + row * stride) % granule == 0 for row in range(period))
    if not reached:
        said = f"none starts at a granule of {granule} bytes"
    else:
        said = f"all start at granules of {granule} bytes" if period == 1 else f"one in {period} starts at a granule"
    canvas = Canvas(_WIDTH, f"where {what} start: every {stride} bytes", f"{said}, of {granule} bytes: {starts}")
    canvas.text(0, 12, f"{what} start every {stride} bytes = {stride // granule} x {granule} + {stride % granule}")
    left, top, tall = 40, 34, 17
    shown = 3 * granule
    scale = (_WIDTH - left - 76) / shown
    for byte in range(0, shown, granule):
        label = ("its granule", "the next", "")[byte // granule]
        canvas.text(left + byte * scale + 2, top - 5, label, size=8, faint=True)
    for row, start in enumerate(starts):
        y, x = top + row * tall, left + start * scale
        canvas.text(left - 6, y + 11, f"row {row}" if dimension == 1 else f"{row}", size=9, anchor="end")
        canvas.rect(left, y + 2, start * scale, tall - 5, fill="currentColor", opacity=0.1, kind="before")
        hue = GREEN if start == 0 else RED
        canvas.rect(x, y + 2, shown * scale - start * scale, tall - 5, fill=hue, opacity=0.35, kind="row")
        canvas.rect(x - 1, y, 2.5, tall - 1, fill=hue, kind=f"start {start}")
        canvas.text(left + shown * scale + 6, y + 11, "at a granule" if start == 0 else f"{start} bytes in", size=9)
    bottom: float = top + len(starts) * tall
    for edge in range(0, shown + 1, granule):
        x = left + edge * scale
        canvas.line([(x, top - 2), (x, bottom)], thick=1.2)
    bottom = canvas.lines(
        bottom + 16, f"{said}; the copy engine takes rows that start at a multiple of {granule} bytes"
    )
    return canvas.svg(bottom)


def granule_bytes(tm: TensorMap) -> int:
    """Return what a map's address and strides must be multiples of: 16 bytes, 32 with interleave 32B or types 16B."""
    return 32 if tm.interleave == "32B" or tm.dtype in {"16u4_align16b", "16u6_align16b"} else GRANULE_BYTES


def draw_pixels(tm: TensorMap, coordinate: Any = None) -> Drawing:
    """Return the pixels that one load by an im2col map takes, numbered in order, in one image, as SVG.

    The load walks the pixel box, from its first pixel along a row, then row by row, and image by image.

    Args:
        tm: an im2col map of rank 3 to 5; of rank 5 the first slice along the slowest axis of an image is drawn.
        coordinate: of the first pixel, `rank` numbers, fastest dimension first; the lower corner when left out.

    Raises:
        InvalidInput: a tiled map, another rank, more pixels than the hardware takes, an empty pixel box, or a
            coordinate outside it.
    """
    if instance(tm, "tm", TensorMap).mode != "im2col" or not 3 <= tm.rank <= 5:
        raise InvalidInput("pixels are those of an im2col map of rank 3 to 5; draw the box of a tiled one")
    if tm.pixels > _MOST_PIXELS:
        raise InvalidInput(f"one load takes {tm.pixels} pixels; draw at most {_MOST_PIXELS}")
    start = _coordinate(tm, coordinate)
    walked = list(_walk(tm, start))
    width, height = tm.global_dim[1], tm.global_dim[2] if tm.rank > 3 else 1
    low = (tm.lower_corner[0], tm.lower_corner[1] if tm.rank > 3 else 0)
    high = (width - 1 + tm.upper_corner[0], height - 1 + tm.upper_corner[1] if tm.rank > 3 else 0)
    here = {at[:2]: n for n, at in reversed(list(enumerate(walked))) if at[2:] == walked[0][2:]}
    left, top = min(0, low[0]), min(0, low[1])
    columns = min(max(width, high[0] + 1) - left, 24)
    rows = min(max(height, high[1] + 1) - top, 24)
    cell = min(24.0, (_WIDTH - 2) / columns)
    title = f"pixels of an im2col load from {_tuple(start)}"
    elsewhere = len(walked) - len(here)
    size = f"{width} x {height}" if tm.rank > 3 else f"{width}"
    said = f"{len(walked)} pixels of {tm.channels} channels; pixel box from {_tuple(low)} to {_tuple(high)} of {size}"
    canvas = Canvas(_WIDTH, title, said)
    for row in range(rows):
        for column in range(columns):
            at = (column + left, row + top)
            inside = 0 <= at[0] < width and 0 <= at[1] < height
            x, y = 1 + column * cell, 6 + row * cell
            taken = here.get(at)
            if inside:
                canvas.rect(x, y, cell - 1, cell - 1, fill="currentColor", opacity=0.08, kind="pixel")
            if taken is not None:
                hue = BLUE if inside else RED
                canvas.rect(x, y, cell - 1, cell - 1, fill=hue, opacity=0.4, kind="taken" if inside else "filled")
                if not inside:
                    canvas.hatch(x, y, cell - 1, cell - 1, RED, step=5)
                canvas.text(x + cell / 2, y + cell / 2 + 3, str(taken), size=min(9.0, cell * 0.45), anchor="middle")
    edge = [(low[0] - left) * cell + 0.5, (low[1] - top) * cell + 5.5]
    spans = [(h - lo + 1) * cell for lo, h in zip(low, high, strict=True)]
    canvas.rect(*edge, *spans, stroke=HUES[7].fill, thick=2, dash="4 2", kind="pixel box")
    bottom = 6 + rows * cell + 16
    right = canvas.key(0, bottom, "taken, in this order", fill=BLUE, opacity=0.4)
    if any(not (0 <= c < width and 0 <= r < height) for c, r in here):
        canvas.key(right, bottom, "outside: filled", fill=RED, opacity=0.3, hatched=True)
    bottom = canvas.lines(bottom + 17, f"{said} pixels, dashed")
    if elsewhere:
        bottom = canvas.lines(bottom, f"{elsewhere} more pixels lie in the images or slices that follow", faint=True)
    return canvas.svg(bottom)


def _walk(tm: TensorMap, start: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the pixels that a load takes in order, as (W, H, ..., N): an odometer over the pixel box."""
    steps = tm.element_stride[1:]
    corners = list(zip(tm.lower_corner, tm.upper_corner, tm.global_dim[1:-1], strict=True))
    at = list(start[1:])
    for low, upper, extent in corners:
        if low > extent - 1 + upper or any(s < 1 for s in steps):
            raise InvalidInput(f"the pixel box has no pixel between {low} and {extent - 1 + upper}; widen its corners")
    for place, (low, upper, extent) in zip(at, corners, strict=False):
        if not low <= place <= extent - 1 + upper:
            raise InvalidInput(f"the first pixel lies at {place}, outside {low} to {extent - 1 + upper}; start inside")
    for _ in range(tm.pixels):
        yield tuple(at)
        for axis, step in enumerate(steps):
            at[axis] += step
            if axis == len(corners) or at[axis] <= corners[axis][2] - 1 + corners[axis][1]:
                break
            at[axis] = corners[axis][0]


def _taken(tm: TensorMap, d: int, start: int) -> range:
    """Return the positions along a dimension that a tiled load takes; dimension 0 ignores its step (FACTS M-04)."""
    return range(start, start + tm.box[d], max(tm.element_stride[d], 1) if d else 1)


def _within(places: range, extent: int) -> int:
    """Return how many of the places lie in [0, extent)."""
    before, past = (min(max(-(-(end - places.start) // places.step), 0), len(places)) for end in (0, extent))
    return past - before


def _coordinate(tm: TensorMap, coordinate: Any) -> tuple[int, ...]:
    if coordinate is None:
        return corner(tm)
    return integers(coordinate, "coordinate", low=INT32_MIN, high=INT32_MAX, length=tm.rank)


def _by(numbers: tuple[int, ...]) -> str:
    return " x ".join(map(str, numbers))


def _tuple(numbers: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, numbers))})"
