"""Prints the kernel behind a product of slices of k as PTX: a table with one row an operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from legalsat.backends.lacking import row_of
from legalsat.backends.ptx.sums import AS_THEY_ARE, packed
from legalsat.backends.ptx.text import INDENT, Text, Value, address
from legalsat.dtypes import dtype
from legalsat.extract.kernels.slices import ROW, SQUARE, Added
from legalsat.program.leaves import THREADS, AddSlices
from legalsat.program.pipeline import AwaitGrid

LANES = 32
EACH = 4  # elements of a thread, and slices whose elements it asks for at a time
WORD = 4  # bytes of a sum
SQUARE_PITCH = SQUARE + 1  # elements from row to row of a square, so that lines lie in different banks


class Elements(NamedTuple):
    """Four elements of a thread: the first's byte offset, bytes from one to the next, and which of them there are."""

    offset: str
    step: str
    present: list[str]


def emit(added: Added) -> str:
    """Return the text of a kernel, an entry that stands behind another one's in a module.

    Raises:
        LegalSatError: an operation has no row here.
    """
    text, kernel = Text(), added.kernel
    for op in added.pipeline.roles[0].body:
        row_of("ptx", ROWS, op)(op, text)
    text.do("ret")
    parameters = [f"{INDENT}.param .{_type(kind)} {name}" for kind, name in kernel.parameters]
    square = [f"{INDENT}.shared .align {WORD} .b8 square[{SQUARE * SQUARE_PITCH * WORD}];"] * kernel.turned
    head = [f".visible .entry {kernel.entry}(", ",\n".join(parameters), ")", f".reqntid {THREADS}, 1, 1", "{"]
    return "\n".join([*head, *square, *text.declarations(), *text.lines(), "}", ""])


def _type(kind: str) -> str:
    """Return the type of a parameter, of which all but numbers of 32 bits are addresses and pitches."""
    return "u32" if kind == "u32" else "u64"


class _Adder:
    """A thread that adds up four elements of all slices.

    Args:
        text: its instructions. op: what is printed.
    """

    def __init__(self, text: Text, op: AddSlices) -> None:
        self.text, self.op = text, op
        self.numbers = {
            name: text.put(f"ld.param.{_type(kind)}", f"[{name}]", kind="rd"[kind != "u32"])
            for kind, name in op.parameters
        }
        thread = text.put("mov.u32", "%tid.x")
        self.lane, self.warp = text.rem(thread, LANES), text.div(thread, LANES)
        self.block = text.put("mov.u32", "%ctaid.x")

    def places(
        self, side: str, at: tuple[Value, Value], step: tuple[str, int], limits: list[tuple[Value, str]]
    ) -> Elements:
        """Return elements of a side: from a line and a place in it on, so many lines or places apart."""
        text, pitch = self.text, self.numbers[f"{side}_pitch"]
        size = WORD if side == "source" else dtype(self.op.result).bytes
        line, place = (text.put("cvt.u64.u32", one, kind="d") for one in at)
        first = text.put("mad.lo.u64", line, pitch, place, kind="d")
        offset = text.put("mul.lo.u64", first, size, kind="d")
        across, count = step
        apart = text.put("mov.b64", count, kind="d") if across == "places" else pitch
        apart = text.put("mul.lo.u64", apart, size * (count if across == "lines" else 1), kind="d")
        (begin, end), *others = limits
        present = []
        for number in range(EACH):
            found = text.when("lt.u32", text.add(begin, number * count), end)
            for one, limit in others:
                found = text.put("and.pred", found, text.when("lt.u32", one, limit), kind="p")
            present.append(found)
        return Elements(offset, apart, present)

    def address(self, base: str, elements: Elements, number: int) -> str:
        """Return where an element lies."""
        moved = self.text.put("mad.lo.u64", elements.step, number, base, kind="d") if number else base
        return address(moved)

    def sums(self, elements: Elements) -> list[str]:
        """Return the sums of elements, slice after slice; several slices' are asked for before the first is added."""
        text, numbers, kind = self.text, self.numbers, "f32" if self.op.sums == "fp32" else "s32"
        found = [text.held(0) for _ in range(EACH)]
        from_ = text.put("cvta.to.global.u64", numbers["source"], kind="d")
        base = text.put("add.u64", from_, elements.offset, kind="d")
        further = text.put("mul.lo.u64", numbers["slice_pitch"], WORD, kind="d")
        counter = text.held(0)
        with text.loop(counter, numbers["slices"], EACH):
            asked = []
            for ahead in range(EACH):
                there = text.when("lt.u32", text.add(counter, ahead), numbers["slices"])
                for number, present in enumerate(elements.present):
                    one, wanted = text.held(0), text.put("and.pred", present, there, kind="p")
                    text.do(f"@{wanted} ld.global.cs.b32 {one}, {self.address(base, elements, number)}")
                    asked.append((found[number], one))
                text.do(f"add.u64 {base}, {base}, {further}")
            for to, one in asked:
                text.do(f"add.{kind} {to}, {to}, {one}")
        return found

    def store(self, sums: list[str], elements: Elements) -> None:
        """Store sums as elements of C."""
        text, pair = self.text, (self.op.sums, self.op.result)
        to = text.put("cvta.to.global.u64", self.numbers["target"], kind="d")
        base = text.put("add.u64", to, elements.offset, kind="d")
        bits = dtype(self.op.result).bits
        for number, (one, present) in enumerate(zip(sums, elements.present, strict=True)):
            (word,) = [one] if pair in AS_THEY_ARE else packed(text, [one, one], pair)
            value = word if bits == 32 else text.put("cvt.u16.u32", word, kind="h")
            text.do(f"@{present} st.global.b{bits} {self.address(base, elements, number)}, {value}")

    def rows(self) -> None:
        """Rows of the slices are rows of C: a warp adds up `ROW` elements of one."""
        text, (rows, columns) = self.text, (self.numbers["rows"], self.numbers["columns"])
        unit = text.mad(self.block, THREADS // LANES, self.warp)
        across = text.div(text.add(columns, ROW - 1), ROW)
        row, column = text.div(unit, across), text.mad(text.rem(unit, across), ROW, self.lane)
        limits = [(column, columns), (row, rows)]
        sums = self.sums(self.places("source", (row, column), ("places", LANES), limits))
        self.store(sums, self.places("target", (row, column), ("places", LANES), limits))

    def turned(self) -> None:
        """Rows of the slices are columns of C: a block turns a square of sums, so that lines are whole."""
        text, (rows, columns) = self.text, (self.numbers["rows"], self.numbers["columns"])
        across, warps = text.div(text.add(columns, SQUARE - 1), SQUARE), THREADS // LANES
        first_row, first_column = (
            text.mul(one, SQUARE) for one in (text.div(self.block, across), text.rem(self.block, across))
        )
        row, column = text.add(first_row, self.warp), text.add(first_column, self.lane)
        sums = self.sums(self.places("source", (row, column), ("lines", warps), [(row, rows), (column, columns)]))
        square = text.put("mov.u32", "square")
        lies = text.mad(text.mad(self.warp, SQUARE_PITCH, self.lane), WORD, square)
        for number, one in enumerate(sums):
            text.do(f"st.shared.b32 {address(str(lies), number * warps * SQUARE_PITCH * WORD)}, {one}")
        text.do("bar.sync 0")
        lies = text.mad(text.mad(self.lane, SQUARE_PITCH, self.warp), WORD, square)
        read = [text.put("ld.shared.b32", address(str(lies), number * warps * WORD)) for number in range(EACH)]
        along, down = text.add(first_row, self.lane), text.add(first_column, self.warp)
        limits = [(down, columns), (along, rows)]
        self.store(read, self.places("target", (down, along), ("lines", warps), limits))


def _add(op: AddSlices, text: Text) -> None:
    one = _Adder(text, op)
    (one.turned if op.turned else one.rows)()


ROWS: dict[type, Callable[[Any, Text], None]] = {
    AwaitGrid: lambda op, text: text.do("griddepcontrol.wait"),
    AddSlices: _add,
}
