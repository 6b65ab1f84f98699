"""Layouts as grids of cells: each coloured by the bank that its offset falls into, or by the thread that owns it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from legalsat.checks import integer, integers, sequence
from legalsat.errors import InvalidInput
from legalsat.layout import Layout
from legalsat.layout.linear_layout import LinearLayout
from legalsat.layout.swizzle import AnyLayout, ComposedLayout
from legalsat.view.svg import HUES, Canvas, Drawing, fits

ROWS, COLUMNS = 16, 16  # shown of a grid: as many as a phone has room for
BANKS, BANK_BYTES = 32, 4
MOST_OWNED = 2**20  # elements and owners that are listed to find out who has what

_CELL, _TALL, _LEFT, _TOP = 21, 25, 24, 14
_NOTHING = np.iinfo(np.int64).min  # where the last line of indices is not full
_TINTS = (0.16, 0.26, 0.36, 0.46)
Grid = NDArray[np.int64]


def bank_look(bank: int) -> tuple[str, float]:
    """Return colour and opacity of one of 32 banks: a colour for each four, which hold 16 bytes, and four tints."""
    return HUES[bank // len(_TINTS) % len(HUES)].fill, _TINTS[bank % len(_TINTS)]


def owner_look(thread: int) -> tuple[str, float]:
    """Return colour and opacity of a thread: its eight neighbours look different, warps alike."""
    return HUES[thread % len(HUES)].fill, 0.3


def draw_layout(layout: AnyLayout, *, element_bits: int = 32, rows: int = ROWS, columns: int = COLUMNS) -> Drawing:
    """Return a grid of a layout's offsets, each cell coloured by the bank of shared memory that it falls into, as SVG.

    Mode 0 runs down and mode 1 across, as CuTe prints layouts; of one mode the indices run along the lines.
    Each cell says its offset and its bank; where the banks in a column are the same, reading it conflicts.

    Args:
        layout: strided or swizzled; offsets count elements.
        element_bits: size of an element.
        rows: shown of a larger one, which is cut and said to be.
        columns: shown, likewise.

    Raises:
        InvalidInput: a layout of coordinates, which has no offsets, or a number that has no meaning.
    """
    if not isinstance(layout, Layout | ComposedLayout):
        raise InvalidInput(f"a grid of offsets is of a layout, not of {type(layout).__name__}; give a Layout")
    bits = integer(element_bits, "element_bits", low=1, high=1024)
    shown_rows, shown_columns = (
        integer(n, what, low=1, high=256) for n, what in ((rows, "rows"), (columns, "columns"))
    )
    offsets, extents, rest = _offsets(layout, shown_rows, shown_columns)
    every = layout.size if layout.rank == 1 else layout[0].size * layout[1].size
    size = f"{bits // 8} byte{'s' * (bits > 8)}" if bits % 8 == 0 else f"{bits} bits"
    canvas = _canvas(
        offsets.shape[1],
        f"layout {layout}, coloured by bank",
        f"{extents}; each cell holds an offset in elements of {size} and, below it, the bank of shared memory that its "
        f"first byte lies in",
    )
    banks = offsets * bits // 8 // BANK_BYTES % BANKS
    for (row, column), offset in np.ndenumerate(offsets):
        if offset == _NOTHING:
            continue
        bank = int(banks[row, column])
        _cell(canvas, (row, column), bank_look(bank), (str(offset), f"b{bank}"), f"bank {bank}")
    bottom = _frame(canvas, offsets, flat=layout.rank == 1)
    bottom = canvas.lines(bottom, f"offset in elements of {size}, and its bank b0 to b{BANKS - 1} of 4 bytes")
    cut = _cut(extents, offsets.shape, whole=every == np.count_nonzero(offsets != _NOTHING))
    bottom = canvas.lines(bottom, "; ".join(filter(None, (cut, rest))), faint=True) if cut or rest else bottom
    return canvas.svg(bottom)


def draw_owners(
    layout: LinearLayout | Layout, shape: Sequence[int] = (), *, rows: int = ROWS, columns: int = COLUMNS
) -> Drawing:
    """Return a grid of elements, each coloured by the thread that holds it and naming thread and value, as SVG.

    Args:
        layout: Triton's, from "register", "lane" and perhaps "warp" to a tensor's dimensions; or CuTe's
            (thread, value) -> row + rows x column of a tile.
        shape: rows and columns of that tile, for CuTe's alone.
        rows: shown of a larger one, which is cut and said to be.
        columns: shown, likewise.

    Raises:
        InvalidInput: no such layout, a shape that does not go with it, or too many elements.
    """
    most = [integer(n, what, low=1, high=256) for n, what in ((rows, "rows"), (columns, "columns"))]
    shape = sequence(shape, "shape", "integers")
    if isinstance(layout, LinearLayout) and not shape:
        owned = _linearly_owned(layout)
    elif isinstance(layout, Layout):
        owned = _owned(layout, shape)
    else:
        raise InvalidInput("owners are those of a LinearLayout alone, or of a Layout and the shape of its tile")
    grid = tuple(min(n, m) for n, m in zip(owned.extents, most, strict=True))
    held: dict[tuple[int, int], list[tuple[int, int]]] = {}
    shown = (owned.rows < grid[0]) & (owned.columns < grid[1])
    columns_of = (owned.rows, owned.columns, owned.threads, owned.values)
    for row, column, thread, value in zip(*(part[shown].tolist() for part in columns_of), strict=True):
        held.setdefault((row, column), []).append((thread, value))
    extents = f"{owned.extents[0]} x {owned.extents[1]} elements"
    canvas = _canvas(
        grid[1],
        f"{extents}, coloured by the thread that holds them",
        f"{owned.names[0]} runs down and {owned.names[1]} across; each cell names its thread T and value V",
    )
    for at, owners in sorted(held.items()):
        thread, value = min(owners)
        _cell(canvas, at, owner_look(thread), (f"T{thread}", f"V{value}"), f"thread {thread}")
    bottom = _frame(canvas, np.zeros(grid, dtype=np.int64))
    threads = int(owned.threads.max()) + 1
    bottom = canvas.lines(
        bottom, f"T: one of {threads} threads; V: which of its values; colour: thread mod {len(HUES)}"
    )
    copies = max(map(len, held.values()), default=1)
    more = f"each element has up to {copies} owners, of which the first is named" if copies > 1 else ""
    cut = _cut(extents, grid, whole=grid == owned.extents)
    bottom = canvas.lines(bottom, "; ".join(filter(None, (cut, more))), faint=True) if cut or more else bottom
    return canvas.svg(bottom)


def _offsets(layout: AnyLayout, rows: int, columns: int) -> tuple[Grid, str, str]:
    """Return the offsets that are shown, the extents in words, and what is left out of a rank above 2."""
    if layout.rank == 1:
        count = min(layout.size, rows * columns)
        found = np.asarray(layout(np.arange(count, dtype=np.int64)))
        across = min(count, columns)
        grid = np.full(-(-count // across) * across, _NOTHING, dtype=np.int64)
        grid[:count] = found
        return grid.reshape(-1, across), f"{layout.size} indices", ""
    first, second = layout[0].size, layout[1].size
    row, column = np.meshgrid(np.arange(min(first, rows)), np.arange(min(second, columns)), indexing="ij")
    found = np.asarray(layout((row + first * column).reshape(-1).astype(np.int64)))
    rest = "" if layout.rank == 2 else f"of modes 2 to {layout.rank - 1} the first index"
    return found.reshape(row.shape), f"{first} rows x {second} columns", rest


class _Owned(NamedTuple):
    """Rows and columns of elements, the thread and the value that each belongs to; and the grid's extents and names."""

    rows: Grid
    columns: Grid
    threads: Grid
    values: Grid
    extents: tuple[int, int]
    names: tuple[str, str]


def _owned(layout: Layout, shape: Sequence[int]) -> _Owned:
    """Return the owners that CuTe's (thread, value) layout over a tile of this shape names."""
    rows, columns = integers(shape, "shape", low=1, length=2)
    if layout.rank != 2 or layout.size > MOST_OWNED:
        raise InvalidInput(f"layout {layout} is no (thread, value) layout of at most {MOST_OWNED} elements; give one")
    flat = layout.offsets()
    if int(flat.min()) < 0 or int(flat.max()) >= rows * columns:
        raise InvalidInput(f"layout {layout} reaches beyond a tile of {rows} x {columns}; give its shape")
    values, threads = np.divmod(np.arange(layout.size, dtype=np.int64), layout[0].size)
    return _Owned(flat % rows, flat // rows, threads, values, (rows, columns), ("the row", "the column"))


def _linearly_owned(layout: LinearLayout) -> _Owned:
    """Return the owners that Triton's layout names; of a rank above 2 those of the first slice."""
    sizes, outs = layout.in_sizes, layout.outs
    if "lane" not in sizes or not outs:
        raise InvalidInput(f"linear layout has inputs {', '.join(sizes)}; give one with input lane and an output")
    count = 1 << len(layout.columns)
    if count > MOST_OWNED:
        raise InvalidInput(f"linear layout has {count} inputs; give at most {MOST_OWNED}")
    index, places = np.arange(count, dtype=np.int64), layout.table()
    at: dict[str, Grid] = {}
    for name, size in sizes.items():
        index, at[name] = np.divmod(index, size)
    nothing = np.zeros_like(places)
    threads, values = at["lane"] + sizes["lane"] * at.get("warp", nothing), at.get("register", nothing)
    first = outs[0][1]
    if len(outs) == 1:
        across = min(first, COLUMNS)
        extents, names = (-(-first // across), across), ("the line", outs[0][0])
        rows, columns = np.divmod(places, across)
    else:
        extents, names = (first, outs[1][1]), (outs[0][0], outs[1][0])
        columns, rows = np.divmod(places, first)
    # What else tells owners apart, such as blocks of a cluster, is left out: the first has what is drawn.
    kept = columns < extents[1]
    for name in sizes.keys() - {"lane", "warp", "register"}:
        kept &= at[name] == 0
    return _Owned(rows[kept], columns[kept], threads[kept], values[kept], extents, names)


def _canvas(columns: int, title: str, description: str) -> Canvas:
    canvas = Canvas(max(_LEFT + columns * _CELL + 1, 220), title, description)
    canvas.parts.append('<g text-anchor="middle">')
    return canvas


def _cell(canvas: Canvas, at: tuple[int, int], look: tuple[str, float], words: tuple[str, str], kind: str) -> None:
    (row, column), (upper, lower) = at, words
    x, y = _LEFT + column * _CELL, _TOP + row * _TALL
    canvas.rect(x, y, _CELL - 1, _TALL - 1, fill=look[0], opacity=look[1], kind=kind)
    middle = x + (_CELL - 1) / 2
    size = next((s for s in (9.0, 8.0, 7.0, 6.0) if fits(upper, s, _CELL)), 5.0)
    canvas.text(middle, y + 11, upper, size=size)
    canvas.text(middle, y + 21, lower, size=7.5, faint=True)


def _frame(canvas: Canvas, grid: Grid, *, flat: bool = False) -> float:
    """Number rows and columns; return the baseline of what comes below."""
    canvas.parts.append("</g>")
    rows, columns = grid.shape
    for column in range(columns):
        x = _LEFT + column * _CELL + (_CELL - 1) / 2
        canvas.text(x, _TOP - 4, str(column), size=8, anchor="middle", faint=True)
    for row in range(rows):
        label = str(row * columns if flat else row)
        canvas.text(_LEFT - 5, _TOP + row * _TALL + 15, label, size=8, anchor="end", faint=True)
    return float(_TOP + rows * _TALL + 14)


def _cut(extents: str, shown: tuple[int, ...], *, whole: bool) -> str:
    return "" if whole else f"cut: the first {shown[0]} x {shown[1]} of {extents}"
