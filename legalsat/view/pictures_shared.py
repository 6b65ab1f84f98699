"""A tensor map's box in shared memory: which columns lie in which banks, and what reading a column costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legalsat.analyses.banks.bank_wavefronts import bank_wavefronts
from legalsat.analyses.copy_engine import FILLED, smem_image, tx_bytes
from legalsat.checks import instance, integer, one_of
from legalsat.errors import InvalidInput
from legalsat.options import ColumnReadName
from legalsat.targets import Target
from legalsat.units.tensor_map import TensorMap
from legalsat.view.pictures_box import corner
from legalsat.view.svg import GREEN, HUES, RED, Canvas, Drawing, fits

LINE_BYTES = 128  # of all 32 banks
CHUNK_BYTES = 16
_CHUNKS = LINE_BYTES // CHUNK_BYTES
# Instructions whose lanes can read down a column: rows that they take, and bytes of each.
COLUMN_READS: dict[ColumnReadName, tuple[int, int]] = {"ldmatrix.x1": (8, 16), "ld.b32": (32, 4)}
_MOST_LINES = 2048  # 256 KiB, more than any block has
LINES = 8  # shown: the swizzles repeat after as many

_LEFT, _TOP, _CELL, _TALL = 40, 44, 40, 24


@dataclass(frozen=True, slots=True)
class ColumnRead:
    """One warp's access down a column of a box in shared memory.

    Attributes:
        op: the instruction.
        column: its first byte within a row.
        addresses: shared byte addresses, one a row, from row 0 on.
        bytes: of each.
        wavefronts: passes through the banks.
    """

    op: str
    column: int
    addresses: tuple[int, ...]
    bytes: int
    wavefronts: int


def column_read(
    tm: TensorMap, op: ColumnReadName = "ldmatrix.x1", *, column: int = 0, base: int = 0, target: str | Target = "h200"
) -> ColumnRead:
    """Return what one warp pays to read down a column of a box: rows 0, 1, 2, ... at the same place in each.

    Args:
        tm: a map that the copy engine has a meaning for, without interleave.
        op: "ldmatrix.x1", eight rows of 16 bytes, or "ld.b32", 32 rows of 4 bytes.
        column: byte within a row, a multiple of the bytes that are read.
        base: shared address of the box, a multiple of 128 bytes.
        target: the GPU whose banks count.

    Raises:
        InvalidInput: another instruction, a column outside the row, fewer rows than are read, or no such map.
    """
    one_of(op, "instruction", COLUMN_READS)
    rows, size = COLUMN_READS[op]
    places = shared_places(tm, base)
    if len(places) < rows:
        raise InvalidInput(f"the box has {len(places)} rows, and {op} reads {rows}; give a box with more rows")
    at = integer(column, "column", low=0, high=places.shape[1] - size)
    if at % size:
        raise InvalidInput(f"column is byte {at}, no multiple of the {size} bytes that {op} reads; move it")
    addresses = tuple(int(a) for a in places[:rows, at])
    return ColumnRead(op, at, addresses, size, bank_wavefronts(op, addresses, target))


def shared_places(tm: TensorMap, base: int = 0) -> NDArray[np.int64]:
    """Return the shared address of each byte of a map's box, shape (rows, bytes of a row).

    They are those at which `smem_image` finds the bytes of a dense tensor as large as the box.

    Raises:
        InvalidInput: a map with interleave, or one that the copy engine has no meaning for.
    """
    if instance(tm, "tm", TensorMap).interleave != "none":
        raise InvalidInput("boxes with interleave hold slices instead of rows; give a map with interleave none")
    if not tm.rank:
        raise InvalidInput("the map has no dimensions, so no box; give it 1 to 5")
    if tm.mode == "im2col":
        taken = (tm.channels, tm.pixels)
    else:
        taken = (tm.box[0], tx_bytes(tm) * 8 // tm.map_type.bits // tm.box[0])
    row = taken[0] * tm.map_type.bits // 8
    dense = TensorMap(tm.dtype, taken, (row,), taken, swizzle=tm.swizzle)
    image = smem_image(dense, (0, 0), base)
    places = np.full(taken[1] * row, -1, dtype=np.int64)
    held = np.flatnonzero(image >= 0)
    places[image[held]] = held
    return places.reshape(taken[1], row)


def draw_shared(
    tm: TensorMap,
    coordinate: Any = None,
    *,
    op: ColumnReadName = "ldmatrix.x1",
    column: int = 0,
    base: int = 0,
    target: str | Target = "h200",
    lines: int = LINES,
) -> Drawing:
    """Return the box of a map in shared memory, 128 bytes a line so that banks run across, as SVG.

    Each chunk of 16 bytes is coloured by the columns of the box that it holds and says its row and chunk; what one
    warp's access down a column touches is outlined, and the words that it asks of each bank are counted below.

    Args:
        tm: a map that the copy engine has a meaning for, without interleave.
        coordinate: of the box; the last box that overhangs when left out.
        op: the access, "ldmatrix.x1" or "ld.b32"; not marked where the box has too few rows for it.
        column: byte within a row that it reads.
        base: shared address of the box.
        target: the GPU whose banks count.
        lines: of 128 bytes, drawn; more where the access reaches further.

    Raises:
        InvalidInput: as `shared_places` and `column_read`.
    """
    one_of(op, "instruction", COLUMN_READS)
    integer(lines, "lines", low=1, high=_MOST_LINES)
    places = shared_places(tm, base)
    try:
        read = column_read(tm, op, column=column, base=base, target=target)
    except InvalidInput:
        if len(places) >= COLUMN_READS[op][0]:
            raise
        read = None
    reach = max(read.addresses) // LINE_BYTES + 1 - base // LINE_BYTES if read else 0
    every = (int(places.max()) - base) // LINE_BYTES + 1
    shown = min(max(lines, reach), every)
    holder = _holders(places, base, shown)
    words = _words(tm, read)
    canvas = Canvas(_LEFT + _CHUNKS * _CELL, f"shared memory, {_swizzle(tm)}: {words}", _described(tm, places))
    canvas.text(0, 12, f"{_swizzle(tm)}", size=11, bold=True)
    if read:
        mark = "✓" if read.wavefronts == _least(read) else "✗"
        hue = GREEN if mark == "✓" else RED
        plural = "s" * (read.wavefronts != 1)
        canvas.text(canvas.width, 12, f"{mark} {read.wavefronts} wavefront{plural}", size=11, anchor="end", bold=True)
        canvas.line([(0, 18), (canvas.width, 18)], colour=hue, thick=2)
    _banks(canvas)
    filled = _filled(tm, coordinate, base, shown)
    for line in range(shown):
        y = _TOP + line * _TALL
        label = f"+{line * LINE_BYTES}"
        canvas.text(_LEFT - 5, y + 15, label, size=9, anchor="end", faint=True)
        for chunk in range(_CHUNKS):
            row, piece = (int(v) for v in holder[line, chunk])
            _chunk(canvas, chunk, y, row, piece, filled=bool(filled[line, chunk]))
    if read:
        _mark(canvas, read, base)
    bottom: float = _TOP + shown * _TALL
    if read:
        bottom = _counts(canvas, read, bottom)
    bottom = _legend(canvas, tm, bottom + 16, read, filled=bool(filled.any()))
    if shown < every:
        bottom = canvas.lines(bottom, f"cut: the first {shown} of {every} lines", faint=True)
    return canvas.svg(bottom)


def _least(read: ColumnRead) -> int:
    """Return the wavefronts that no layout goes below: one for each 128 bytes that lanes ask for."""
    return -(-len(read.addresses) * read.bytes // LINE_BYTES)


def _swizzle(tm: TensorMap) -> str:
    return "no swizzle" if tm.swizzle == "none" else f"swizzle {tm.swizzle}"


def _words(tm: TensorMap, read: ColumnRead | None) -> str:
    if read is None:
        return "the box has too few rows to read down a column"
    first = read.column * 8 // tm.map_type.bits
    count = read.wavefronts
    return (
        f"{read.op} of {len(read.addresses)} rows, {read.bytes} bytes each from column {first} on, "
        f"takes {count} wavefront{'s' * (count != 1)}"
    )


def _described(tm: TensorMap, places: NDArray[np.int64]) -> str:
    rows, size = places.shape
    return (
        f"{rows} rows of {size} bytes, drawn as lines of {LINE_BYTES} bytes, eight chunks of {CHUNK_BYTES} bytes each, "
        f"with {_swizzle(tm)}; a chunk says which row it belongs to and which chunk of the row it is"
    )


def _holders(places: NDArray[np.int64], base: int, lines: int) -> NDArray[np.int64]:
    """Return row and chunk of the row that each chunk of shared memory holds, -1 for none, (lines, 8, 2)."""
    found = np.full((lines, _CHUNKS, 2), -1, dtype=np.int64)
    line, chunk = np.divmod((places[:, ::CHUNK_BYTES] - base) // CHUNK_BYTES, _CHUNKS)
    kept = line < lines
    found[line[kept], chunk[kept]] = np.argwhere(kept)
    return found


def _filled(tm: TensorMap, coordinate: Any, base: int, lines: int) -> NDArray[np.bool_]:
    """Return which chunks hold bytes that are filled in because they lie outside the tensor, (lines, 8)."""
    image = np.zeros(lines * LINE_BYTES, dtype=np.int64)
    try:
        held = smem_image(tm, corner(tm) if coordinate is None else coordinate, base)[base:][: len(image)]
    except InvalidInput:
        if coordinate is not None:
            raise
        return np.zeros((lines, _CHUNKS), dtype=np.bool_)
    image[: len(held)] = held
    found: NDArray[np.bool_] = (image == FILLED).reshape(lines, _CHUNKS, CHUNK_BYTES).any(axis=2)
    return found


def _banks(canvas: Canvas) -> None:
    for chunk in range(_CHUNKS):
        middle = _LEFT + (chunk + 0.5) * _CELL
        canvas.text(middle, _TOP - 5, f"{4 * chunk}–{4 * chunk + 3}", size=8.5, anchor="middle", faint=True)
    canvas.text(_LEFT - 5, _TOP - 5, "banks", size=8.5, anchor="end", faint=True)
    canvas.text(_LEFT - 5, _TOP - 15, "bytes", size=8.5, anchor="end", faint=True)


def _chunk(canvas: Canvas, chunk: int, y: float, row: int, piece: int, *, filled: bool) -> None:
    x = _LEFT + chunk * _CELL
    if row < 0:
        canvas.rect(x, y, _CELL - 1, _TALL - 1, stroke="currentColor", thick=0.4, dash="2 2", kind="untouched")
        return
    hue = HUES[piece % len(HUES)].fill
    kind = f"row {row} chunk {piece}"
    canvas.rect(x, y, _CELL - 1, _TALL - 1, fill=hue, opacity=0.3, kind=kind + " filled" * filled)
    if filled:
        canvas.hatch(x, y, _CELL - 1, _TALL - 1, RED, step=5)
    label = f"r{row} c{piece}"
    size = 10.0 if fits(label, 10, _CELL) else 8.5
    canvas.text(x + (_CELL - 1) / 2, y + _TALL / 2 + 3, label, size=size, anchor="middle")


def _mark(canvas: Canvas, read: ColumnRead, base: int) -> None:
    """Outline what the access touches."""
    for address in read.addresses:
        line, byte = divmod(address - base, LINE_BYTES)
        x = _LEFT + byte * _CELL / CHUNK_BYTES
        width = read.bytes * _CELL / CHUNK_BYTES
        y = _TOP + line * _TALL
        canvas.rect(x, y, width - 1, _TALL - 1, stroke="currentColor", thick=2, kind="read")


def _counts(canvas: Canvas, read: ColumnRead, y: float) -> float:
    """Write below each bank, or four that are asked alike, how many words it is asked for; return where it ends."""
    asked = np.zeros(32, dtype=np.int64)
    words = {address + byte for address in read.addresses for byte in range(0, read.bytes, 4)}
    for word in words:
        asked[word // 4 % 32] += 1
    canvas.text(_LEFT - 5, y + 15, "words", size=9, anchor="end", faint=True)
    wide = 4 if read.bytes == CHUNK_BYTES else 1
    for bank in range(0, 32, wide):
        count = int(asked[bank])
        x, width = _LEFT + bank * _CELL / 4, wide * _CELL / 4
        hue = RED if count > _least(read) else GREEN if count else "currentColor"
        looks = 0.35 if count else 0.05
        canvas.rect(x, y + 3, width - 1, 16, fill=hue, opacity=looks, kind=f"bank {bank} words {count}")
        canvas.text(
            x + (width - 1) / 2, y + 15, str(count), size=10 if wide == 4 else 8, anchor="middle", bold=count > 1
        )
    return y + 22


def _legend(canvas: Canvas, tm: TensorMap, bottom: float, read: ColumnRead | None, *, filled: bool) -> float:
    per_chunk = CHUNK_BYTES * 8 / tm.map_type.bits
    said = f"r: row of the box; c: chunk of 16 bytes, columns {per_chunk:g}c to {per_chunk:g}c + {per_chunk - 1:g}"
    bottom = canvas.lines(bottom, said)
    if read:
        bottom = canvas.lines(bottom, f"outlined: {_words(tm, read)}; below, the words asked of each bank")
    if filled:
        bottom = canvas.lines(bottom, "hatched: holds bytes outside the tensor, filled in")
    return bottom
