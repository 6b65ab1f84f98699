"""The cheapest change of a tile's place in shared memory that relieves its banks: a swizzle, or padding.

What is tried is what everyone who touches the tile can express. The copy engine swizzles by a few fixed modes, rows of
a box lie one span apart (FACTS M-08) and are never padded; a matrix unit reads boxes as wide as the span. Threads
compute their addresses, so that they alone may use any XOR of address bits, and any pitch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from legalsat.analyses.banks.bank_wavefronts import shared_access
from legalsat.analyses.banks.layout_banks import RegisterLayout, layout_wavefronts
from legalsat.checks import integers, one_of
from legalsat.dtypes import DType
from legalsat.dtypes import dtype as element_type
from legalsat.errors import InvalidInput
from legalsat.layout import Layout
from legalsat.layout.swizzle import Swizzle
from legalsat.operators import MATRIX_CONSUMERS, TCGEN05_CONSUMERS, WGMMA_CONSUMERS
from legalsat.printable import shown
from legalsat.targets import GRANULE_BYTES, MAX_BOX_EXTENT, Target
from legalsat.targets import target as target_called
from legalsat.units.sites import SWIZZLE_SPANS
from legalsat.units.tensor_map import SWIZZLES

FILLERS = ("threads", "tma")
READERS = ("threads", "tma", *MATRIX_CONSUMERS)
# Modes that a matrix descriptor names, of those of the copy engine (FACTS WG-08, TC-09), and rows of a core matrix.
MATRIX_SWIZZLES = ("none", "32B", "64B", "128B")
CORE_ROWS = 8
LINE_BYTES = 128
NO_SWIZZLE = Swizzle(0, 4, 3)
# The single swizzles among the copy engine's; "128B_atom_32B_flip_8B" is none (FACTS SW-06).
_ENGINE = {name: span for name, span in zip(SWIZZLES, SWIZZLE_SPANS, strict=True) if name != "128B_atom_32B_flip_8B"}


@dataclass(frozen=True, slots=True)
class BankRepair:
    """Where a tile should lie in shared memory, and the proof that it helps.

    Attributes:
        kind: "none" where rows one after the other are already best, "swizzle", "padding", or "boxes" where nothing is
            swizzled, but the tile is cut into boxes that its units can take.
        name: the copy engine's name of the swizzle; "none" without one, "" for one that only threads can apply.
        swizzle: of byte addresses, absolute ones; base it at multiples of `alignment` and offsets will do.
        shared: layout from (row, column) of the tile to an offset in elements, before the swizzle.
        box: rows and columns of one box of the copy engine or the matrix unit; the whole tile for threads alone.
        pitch: bytes between rows of a box.
        alignment: bytes that the tile's address must be a multiple of.
        before: wavefronts of all accesses with rows one after the other; None where their vectors are misaligned so.
        after: wavefronts as repaired.
        least: wavefronts that no layout goes below.
        bytes_added: shared memory beyond the tile's own bytes.
    """

    kind: str
    name: str
    swizzle: Swizzle
    shared: Layout
    box: tuple[int, int]
    pitch: int
    alignment: int
    before: int | None
    after: int
    least: int
    bytes_added: int

    def __str__(self) -> str:
        what = {
            "none": "no change is needed: rows one after the other",
            "swizzle": f"swizzle {self.name or self.swizzle}, rows {self.pitch} bytes apart:",
            "padding": f"rows padded to {self.pitch} bytes:",
            "boxes": f"boxes of {self.box[0]} x {self.box[1]}, rows {self.pitch} bytes apart:",
        }[self.kind]
        was = "which misaligns vectors" if self.before is None else f"which takes {self.before}"
        instead = "" if self.kind == "none" else f" instead of rows one after the other, {was}"
        best = "no layout takes fewer" if self.after == self.least else f"no layout takes fewer than {self.least}"
        return f"{what} {self.after} wavefronts{instead}; {best}; {self.bytes_added} bytes added"


@dataclass(frozen=True, slots=True)
class _Place:
    """One way to lay out the tile: rows of boxes of `width` bytes, `pitch` apart, and `bytes` altogether."""

    kind: str
    name: str
    swizzle: Swizzle
    width: int
    pitch: int
    bytes: int
    alignment: int
    shared: Layout
    boxes: int = 1

    @property
    def cost(self) -> tuple[int, ...]:
        """What decides between places of as many wavefronts: bytes, then boxes, then how simple the swizzle is."""
        bits, base, shift = self.swizzle.bits, self.swizzle.base, self.swizzle.shift
        return (self.bytes, self.boxes, bits, not self.name, base, shift, self.pitch)


@dataclass(frozen=True, slots=True)
class _Problem:
    """A tile, who touches it, and how."""

    accesses: tuple[tuple[str, RegisterLayout], ...]
    rows: int
    columns: int
    bits: int
    target: Target
    filled_by: str
    read_by: str

    @property
    def row_bytes(self) -> int:
        return self.columns * self.bits // 8

    @property
    def by_engine(self) -> bool:
        return "tma" in {self.filled_by, self.read_by}

    def places(self) -> Iterator[_Place]:
        """Yield the places that everyone who touches the tile can express."""
        if self.by_engine or self.read_by in MATRIX_CONSUMERS:
            yield from self._boxes()
        else:
            yield from self._by_threads()

    def row_major(self, kind: str, pitch: int, name: str = "none", swizzle: Swizzle = NO_SWIZZLE) -> _Place:
        """Return rows that lie `pitch` bytes apart; a swizzle moves bytes within their 128-byte line."""
        size = self.rows * pitch
        if swizzle.bits:
            size = -(-size // LINE_BYTES) * LINE_BYTES
        alignment = max(GRANULE_BYTES, swizzle.period)
        shared = Layout((self.rows, self.columns), (pitch * 8 // self.bits, 1))
        return _Place(kind, name, swizzle, self.row_bytes, pitch, size, alignment, shared)

    def _by_threads(self) -> Iterator[_Place]:
        """Yield every pitch up to one turn of the banks more, and every XOR into the bits of a 128-byte line."""
        yield self.row_major("none", self.row_bytes)
        step = max(shared_access(op, self.target).alignment for op, _ in self.accesses)
        step = max(step, self.bits // 8, 1)
        turn = self.target.banks.count * self.target.banks.bytes
        first = (self.row_bytes // step + 1) * step
        for pitch in range(first, self.row_bytes + turn + 1, step):
            yield self.row_major("padding", pitch)
        names = {Swizzle.tma(name): name for name in _ENGINE if name != "none"}
        line, reach = LINE_BYTES.bit_length() - 1, (self.rows * self.row_bytes - 1).bit_length()
        for base in range(2, line):
            for bits in range(1, line - base + 1):
                for shift in range(max(bits, line - base), reach - base - bits + 1):
                    swizzle = Swizzle(bits, base, shift)
                    yield self.row_major("swizzle", self.row_bytes, names.get(swizzle, ""), swizzle)

    def _boxes(self) -> Iterator[_Place]:
        """Yield what the copy engine and the matrix unit both support: boxes side by side, each as wide as the span."""
        engine = self.target.tma
        matrix = self.read_by in MATRIX_CONSUMERS
        known = SWIZZLES[: engine.swizzles] if self.by_engine and engine else SWIZZLES
        for name in known:
            if name not in _ENGINE or (matrix and name not in MATRIX_SWIZZLES):
                continue
            span = _ENGINE[name] if name != "none" or matrix else self._widest()
            if not span or (matrix and self.row_bytes % span):
                continue
            width = min(span, self.row_bytes)
            pitch = span if name != "none" else width
            yield self._side_by_side(name, width, pitch)

    def _widest(self) -> int:
        """Return the bytes of the widest unswizzled boxes that cut rows evenly; 0 if there are none."""
        widths = (n for n in range(min(self.columns, MAX_BOX_EXTENT), 0, -1) if self.columns % n == 0)
        return next((n * self.bits // 8 for n in widths if n * self.bits % (8 * GRANULE_BYTES) == 0), 0)

    def _side_by_side(self, name: str, width: int, pitch: int) -> _Place:
        swizzle = Swizzle.tma(name) if name != "none" else NO_SWIZZLE
        count = -(-self.row_bytes // width)
        # Each box starts where the copy engine may write one (FACTS M-11).
        box = self.rows * pitch
        apart = -(-box // LINE_BYTES) * LINE_BYTES if count > 1 or swizzle.bits else box
        elements = [n * 8 // self.bits for n in (width, pitch, apart)]
        shared = Layout((self.rows, (elements[0], count)), (elements[1], (1, elements[2])))
        kind = "swizzle" if swizzle.bits else "boxes" if count > 1 else "none"
        alignment = max(LINE_BYTES, swizzle.period)
        return _Place(kind, name, swizzle, width, pitch, count * apart, alignment, shared, count)

    def wavefronts(self, place: _Place) -> tuple[int, int] | InvalidInput:
        """Return the wavefronts of all accesses and the least there are, or why they cannot be moved so."""
        total = least = 0
        try:
            for op, registers in self.accesses:
                found = layout_wavefronts(
                    op, registers, place.shared, self.target, element_bits=self.bits, swizzle=place.swizzle
                )
                total, least = total + found.total, least + found.least
        except InvalidInput as refusal:
            return refusal
        return total, least


def repair_banks(
    accesses: Sequence[tuple[str, RegisterLayout]],
    tile: Sequence[int],
    dtype: str | DType,
    target: str | Target,
    *,
    filled_by: str = "threads",
    read_by: str = "threads",
) -> BankRepair:
    """Return the cheapest place of a tile in shared memory: fewest wavefronts, bytes, boxes, then bits swizzled.

    Of the copy engine's swizzles all are tried but "128B_atom_32B_flip_8B", which exchanges bits at two distances
    (FACTS SW-06): no matrix unit reads it, and threads that do would need a second XOR.

    Args:
        accesses: what threads do to the tile, each an instruction of `bank_wavefronts` and the layout of the registers:
            (thread, value) to the coordinate (row, column), as `layout_wavefronts` takes it.
        tile: rows and columns; the elements of a row lie side by side.
        dtype: element type.
        target: a target or its name.
        filled_by: "threads", or "tma" for the copy engine.
        read_by: "threads", "tma" (a store by the copy engine), "wgmma.a", "wgmma.b", "tcgen05.a" or "tcgen05.b".

    Raises:
        InvalidInput: no access, a unit that the target lacks, rows that these units cannot take, or a tile that is too
            large or that no instruction can move.
        UnknownPhases: nobody has published how the chip serves an instruction.

    Source: FACTS SW-01 to SW-14, M-08, M-11, WG-08 to WG-18, HW-09 to HW-12.
    """
    problem = _problem(accesses, tile, dtype, target, filled_by=filled_by, read_by=read_by)
    room = problem.target.shared_bytes_per_block
    rows = problem.row_major("none", problem.row_bytes)
    if rows.bytes > room:
        raise _nowhere(problem)
    plain = problem.wavefronts(rows)
    refusal = plain if isinstance(plain, InvalidInput) else None
    best: tuple[int, int, _Place] | None = None
    for place in sorted((p for p in problem.places() if p.bytes <= room), key=lambda p: p.cost):
        found = problem.wavefronts(place)
        if isinstance(found, InvalidInput):
            refusal = refusal or found
            continue
        if best is None or found[0] < best[0]:
            best = (*found, place)
        if best[0] == best[1]:
            break
    if best is None:
        raise refusal or _nowhere(problem)
    after, least, place = best
    return BankRepair(
        kind=place.kind,
        name=place.name,
        swizzle=place.swizzle,
        shared=place.shared,
        box=(problem.rows, place.width * 8 // problem.bits),
        pitch=place.pitch,
        alignment=place.alignment,
        before=None if isinstance(plain, InvalidInput) else plain[0],
        after=after,
        least=least,
        bytes_added=place.bytes - problem.rows * problem.row_bytes,
    )


def _nowhere(problem: _Problem) -> InvalidInput:
    return InvalidInput(
        f"tile {problem.rows} x {problem.columns} of {problem.bits} bits fits nowhere: rows of {problem.row_bytes} "
        f"bytes for {problem.filled_by} and {problem.read_by}, {problem.target.shared_bytes_per_block} bytes a block; "
        "give rows of whole spans, or fewer"
    )


def _problem(
    accesses: Sequence[tuple[str, RegisterLayout]],
    tile: Sequence[int],
    dtype: str | DType,
    target: str | Target,
    *,
    filled_by: str,
    read_by: str,
) -> _Problem:
    """Return the arguments, checked."""
    chip = target_called(target)
    rows, columns = integers(tile, "tile", low=1, length=2)
    bits = element_type(dtype).bits
    one_of(filled_by, "filled_by", FILLERS)
    one_of(read_by, "read_by", READERS)
    if isinstance(accesses, str) or not isinstance(accesses, Sequence) or not accesses:
        raise InvalidInput(
            f"accesses are {shown(accesses)}; give at least one (instruction, registers): threads touch no tile else"
        )
    pairs = []
    for pair in accesses:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise InvalidInput(f"access is {shown(pair)}; give an instruction and a register layout")
        shared_access(pair[0], chip)
        pairs.append(pair)
    if columns * bits % 8:
        raise InvalidInput(f"rows of {columns} elements of {bits} bits are no whole bytes; pad the tile")
    if filled_by != "threads" and read_by != "threads":
        raise InvalidInput(f"threads access no tile that {filled_by} fills and {read_by} reads; name who does")
    units: dict[str, object] = {"tma": chip.tma}
    units |= dict.fromkeys(WGMMA_CONSUMERS, chip.wgmma) | dict.fromkeys(TCGEN05_CONSUMERS, chip.tcgen05)
    for who in (filled_by, read_by):
        if who in units and units[who] is None:
            raise InvalidInput(f"target {chip} has no {who.split('.')[0]}; let threads do it, or choose another target")
    row_bits = columns * bits
    if (filled_by, read_by) != ("threads", "threads") and row_bits % (8 * GRANULE_BYTES):
        raise InvalidInput(
            f"rows of {row_bits // 8} bytes are no multiple of {GRANULE_BYTES}, which {filled_by} and {read_by} move; "
            "pad the columns"
        )
    if read_by in MATRIX_CONSUMERS and rows % CORE_ROWS:
        raise InvalidInput(f"{read_by} reads rows in groups of {CORE_ROWS}, and the tile has {rows}; pad the rows")
    return _Problem(tuple(pairs), rows, columns, bits, chip, filled_by, read_by)
