"""From sums in registers to C: into shared memory as the plan places it, then out by boxes or by threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from legalsat.backends.ptx.blocks.ring import Block, map_address
from legalsat.backends.ptx.sums import packed
from legalsat.backends.ptx.text import Text, address, braced, grouped

LANES = 32
CHUNK_BITS = 4  # a swizzle moves chunks of 16 bytes
LINE_BITS = 7  # by the number of the line of 128 bytes in which they lie (M-09)
KEEPERS_BARRIER = 1
WIDTHS = {"st.b128": 16, "st.b64": 8, "st.b32": 4, "st.u16": 2}
_VECTORS = {16: "v4.b32", 8: "v2.b32", 4: "b32"}


class Staging:
    """C's tile in shared memory."""

    def __init__(self, block: Block) -> None:
        self._text, self._c = block.text, block.product.c
        self._tile = block.product.tile
        self.base = block.text.put("add.u32", block.base, block.shared.c)

    def boxes(self) -> Iterator[tuple[int, int, int]]:
        """Yield for each box its offset in bytes, and the row and the column of the tile that it begins with."""
        rows, columns = self._c.box
        starts = ((row, column) for row in range(0, self._tile[0], rows) for column in range(0, self._tile[1], columns))
        for i, (row, column) in enumerate(starts):
            yield i * self._c.box_bytes, row, column

    def row(self, row: str) -> tuple[str, str]:
        """Return registers with the address of a row of the tile, and with what the swizzle changes of it."""
        text, c = self._text, self._c
        begin = self.base
        if c.box[0] < self._tile[0]:
            down = text.put("div.u32", row, c.box[0])
            row = text.put("rem.u32", row, c.box[0])
            begin = text.put("mad.lo.u32", down, -(-self._tile[1] // c.box[1]) * c.box_bytes, begin)
        at = text.put("mad.lo.u32", row, c.pitch, begin)
        if not c.swizzle:
            return at, ""
        # A row of a box fills the swizzle's span, so that all of it lies in one line.
        line = text.put("bfe.u32", at, LINE_BITS, c.swizzle)
        return at, text.put("shl.b32", line, CHUNK_BITS)

    def column(self, column: int) -> int:
        """Return the bytes from a row's address to a column, the swizzle left aside."""
        across, within = divmod(column, self._c.box[1])
        return across * self._c.box_bytes + within * self._c.size

    def right(self, column: str) -> str:
        """Return a register with what `column` returns for a register."""
        text, c = self._text, self._c
        across = text.put("div.u32", column, c.box[1])
        within = text.put("rem.u32", column, c.box[1])
        return text.put("mad.lo.u32", across, c.box_bytes, text.put("mul.lo.u32", within, c.size))

    def place(self, row: tuple[str, str], *offsets: str | int) -> str:
        """Return a register with the address of what lies `offsets` bytes after a row's start."""
        text, at = self._text, row[0]
        for offset in offsets:
            if offset:
                at = text.put("add.u32", at, offset)
        return text.put("xor.b32", at, row[1]) if row[1] else at


def stage_row(block: Block, staging: Staging, at: tuple[tuple[str, str], int], sums: Sequence[str], only: str) -> None:
    """Write neighbouring columns that one thread holds, as wide as the plan says, under the predicate `only` if any.

    `at` is the row, as `Staging.row` returns it, and the first column.
    """
    text, c = block.text, block.product.c
    row, column = at
    registers = packed(text, sums, (block.product.types[2], c.type))
    width = min(WIDTHS[c.copy], len(sums) * c.size)
    for number, several in enumerate(grouped(registers, width // 4)):
        to = staging.place(row, staging.column(column + number * width // c.size))
        write(text, address(to), several, width, only)


def write(text: Text, to: str, registers: Sequence[str], width: int, only: str = "") -> None:
    """Write `width` bytes from registers of 32 bits to shared memory, under a predicate if there is one."""
    guard = f"@{only} " if only else ""
    if width == 2:
        text.do(f"{guard}st.shared.b16 {to}, {text.put('cvt.u16.u32', registers[0], kind='h')}")
        return
    operand = braced(registers) if len(registers) > 1 else registers[0]
    text.do(f"{guard}st.shared.{_VECTORS[width]} {to}, {operand}")


def synchronise(block: Block) -> None:
    """Wait for all warps that keep sums."""
    block.text.do(f"bar.sync {KEEPERS_BARRIER}, {LANES * block.product.keepers}")


def store(block: Block, staging: Staging) -> None:
    """Store the staged tile; for all warps that keep sums."""
    text = block.text
    if block.product.c.store == "tma":
        text.do("fence.proxy.async.shared::cta")
        synchronise(block)
        _store_boxes(block, staging)
    else:
        synchronise(block)
        _store_elements(block, staging)


def _store_boxes(block: Block, staging: Staging) -> None:
    text, (rows, columns, _) = block.text, block.product.tile
    skip = text.label("STORED")
    other = text.when("ne.u32", text.put("or.b32", block.warp, block.lane), 0)
    text.do(f"@{other} bra {skip}")
    to = map_address(text, "c_map")
    corner = [
        text.put("mul.lo.u32", tile, size) for tile, size in zip(reversed(block.corner), (columns, rows), strict=True)
    ]
    for offset, row, column in staging.boxes():
        at = [text.put("add.u32", start, begin) for start, begin in zip(corner, (column, row), strict=True)]
        text.do(
            "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group "
            f"[{to}, {{{', '.join(at)}}}], [{staging.place((staging.base, ''), offset)}]"
        )
    text.do("cp.async.bulk.commit_group")
    text.do("cp.async.bulk.wait_group.read 0")
    text.place(skip)


def _store_elements(block: Block, staging: Staging) -> None:
    """Store row by row, a warp a row and a lane a column, and nothing outside C."""
    text, product, c = block.text, block.product, block.product.c
    rows, columns = (
        text.put("min.u32", text.put("sub.u32", extent, text.put("mul.lo.u32", tile, size)), size)
        for extent, tile, size in zip((c.rows, c.columns), block.corner, product.tile, strict=False)
    )
    pointer = text.put("cvta.to.global.u64", text.put("ld.param.u64", "[c]", kind="d"), kind="d")
    for tile, size, stride in zip(block.corner, product.tile, c.strides, strict=False):
        wide = text.put("mul.wide.u32", tile, size, kind="d")
        pointer = text.put("mad.lo.u64", wide, stride * c.size, pointer, kind="d")
    lanes = [_lane_column(block, staging, first, columns) for first in range(0, product.tile[1], LANES)]
    step = 8 * c.size
    row = text.put("mov.b32", block.warp)
    done, loop = text.label("STORED"), text.label("STORE")
    text.do(f"@{text.when('ge.u32', row, rows)} bra {done}")
    text.place(loop)
    start = staging.row(row)
    to = text.put("mad.lo.u64", text.put("cvt.u64.u32", row, kind="d"), c.strides[0] * c.size, pointer, kind="d")
    for inside, at, beyond in lanes:
        element = text.new("h" if step <= 16 else "r")
        text.do(f"@{inside} ld.shared.{_word(step)} {element}, {address(staging.place(start, at))}")
        target = text.put("add.u64", to, beyond, kind="d")
        text.do(f"@{inside} st.global.{_word(step)} {address(target)}, {element}")
    text.do(f"add.u32 {row}, {row}, {product.keepers}")
    text.do(f"@{text.when('lt.u32', row, rows)} bra {loop}")
    text.place(done)


def _word(bits: int) -> str:
    return "u8" if bits == 8 else f"b{bits}"


def _lane_column(block: Block, staging: Staging, first: int, columns: str) -> tuple[str, str, str]:
    """Return for a lane's column, lane 0's being `first`: whether C has it, its bytes in a staged row and in C's."""
    text, c = block.text, block.product.c
    column = text.put("add.u32", block.lane, first)
    inside = text.when("lt.u32", column, columns)
    at = staging.right(column)
    wide = text.put("cvt.u64.u32", column, kind="d")
    return inside, at, text.put("mul.lo.u64", wide, c.strides[1] * c.size, kind="d")
