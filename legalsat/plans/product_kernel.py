"""`ProductKernel`: a persistent kernel of a product, its tile, how blocks share it, and how odd operands are mended."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd
from typing import Any

from legalsat.dims import Extent
from legalsat.logic import ceil_div
from legalsat.operators.members import Ragged
from legalsat.options import Major
from legalsat.units.matrix_descriptor import MatrixOperand

WARPS, WARPGROUP = 4, 128  # of a warpgroup: warps, and threads
BLOCK_ROWS = 64  # of A, of one wgmma
ISSUED_ROWS = 128  # of A, of one tcgen05.mma; a consumer fetches those of one
LEAST_COLUMNS = 32  # of tensor memory that may be allocated, as are powers of two alone (FACTS TC-22)
LEAST_BOX = 8  # rows of a box of an operand that is K-major: those of a swizzle's pattern
BOXED = frozenset({"tma", "turned"})  # ways out of C by the copy engine
TURNED = frozenset({"turned", "columns"})  # of tiles that are turned
# In words, how rows of A, or lines of B, are multiplied that start anywhere in a granule.
REALIGNED = {
    "tiles": "phase-shifted along K",
    "registers": "realigned in registers",
    "woven": "woven in registers",
    "sums": "in phases of K",
}
THROUGH_REGISTERS = frozenset({"registers", "woven"})  # of these, what has A go through registers
# In words, how C leaves, where that is not the name of the way.
STORED = {"turned": "tma, turned", "rows": "unaligned rows", "lapped": "unaligned rows that lap", "sums": "whole tiles"}
IN_ROWS = frozenset({"rows", "lapped", "elements"})  # by threads, of rows one behind the other in shared memory
WIDE_BOX = 64  # rows of a box of lines that are aligned, or elements side by side where they lie across k
GROUP_ENTRY_BYTES = 8  # a group's first row and its first tile
SLID = 8  # columns of sums beyond a tile's: lines begin less than a granule early, whose elements have 2 bytes
LINES_ALIKE = 8  # lines after which starts lie alike, of an operand that is aligned in shared memory
SPAN_BYTES, GRANULE = 128, 16  # of a line that a stage holds; bytes of a granule
WOVEN_BESIDE = 64  # bytes of a line that is woven, beside its spans: so far apart two lanes read two lines of a phase
SUM_BYTES = 4  # of an element of what is summed up
LEAST_SHARE = 4  # k-tiles of a part of a tile by stream-K: what a shorter one spares, giving it away takes
MOST_SPANS = 3  # side by side in a box, which has 256 elements at most (TM-09)
ISSUER_REGISTERS = 40  # a thread of the warpgroup that issues multiplications
ALIGNER_REGISTERS = 88  # a thread of the warpgroup that aligns: a line's granules, and where they go


@dataclass(frozen=True, slots=True)
class Lines:
    """Boxes of granules that hold the lines of a tile that is aligned in shared memory, or woven in registers.

    Attributes:
        boxes: of which each has lines of one phase. count: lines of each. spans: of 128 bytes, side by side in a line.
        beside: bytes of a line beside them, which hold its end.
    """

    boxes: int
    count: int
    spans: int
    beside: int = GRANULE

    @staticmethod
    def of(extent: int, major: Major) -> Lines:
        """Return the boxes of a tile of so many rows: lines along k are its rows, those across lie 64 rows wide."""
        if major == "K":
            return Lines(LINES_ALIKE, extent // LINES_ALIKE, 1)
        spans = int(spans_of(extent))
        return Lines(LINES_ALIKE * boxes_of_phase(extent), WIDE_BOX // LINES_ALIKE, spans)

    @property
    def pitch(self) -> int:
        """Bytes from line to line: an odd number of granules, so that lines lie in different banks.

        Of lines that are woven, which four lanes read at once, two by two of one phase, half of all banks further on.
        """
        return SPAN_BYTES * self.spans + self.beside

    def early(self, phase: int) -> int:
        """Return the bytes by which a box begins in front of its lines, so that two phases lie in different banks."""
        return 2 * GRANULE * (phase % 4 // 2) if self.beside > GRANULE else 0

    @property
    def bytes(self) -> int:
        """Bytes of all boxes."""
        return self.boxes * self.count * self.pitch


def row_pitch(columns: Any, size: Any) -> Any:
    """Return the bytes from row to row in shared memory of rows of C that threads store, of numbers or columns.

    A row begins anywhere in its first granule; an odd number of granules lays eight rows in different banks.
    """
    return GRANULE * (columns * size // GRANULE + 1 | 1)


def spans_of(extent: Any) -> Any:
    """Return how many spans of 64 rows lie side by side in boxes of a tile that lies across k, of numbers or columns.

    The more there are, the fewer granules hold parts of two lines.
    """
    spans = extent // WIDE_BOX
    return 1 + (spans % 2 == 0) * (spans % MOST_SPANS != 0) + 2 * (spans % MOST_SPANS == 0)


def boxes_of_phase(extent: Any) -> Any:
    """Return how many boxes bring the lines of a phase of a tile of so many rows that lies across k; as `spans_of`."""
    return extent // WIDE_BOX // spans_of(extent)


def tensor_bytes(accumulators: Any) -> Any:
    """Return the bytes of shared memory of so many accumulators in tensor memory: two barriers each, and its address.

    Of numbers or columns.
    """
    return 16 * accumulators + 8 * (accumulators > 0)


@dataclass(frozen=True, slots=True)
class ProductKernel:
    """How blocks compute C = A B^T on wgmma or tcgen05, tile after tile.

    Attributes:
        swapped: whether it computes C^T = B A^T; A, B, m and n below are those of what it computes.
        tile: elements along m, n and k. stages: of the ring.
        cluster: blocks along m and along n that share loads: those along m share B, those along n share A.
        split: blocks of a cluster that share a tile's k and add their sums up.
        slices: of k, each a product of its own, whose C lies in memory of its own; a kernel behind adds them up.
        warpgroups: that multiply; one more loads. ping_pong: whether they take turns with whole tiles.
        blocks: that fit on a processor. group: tiles along m that neighbours in time share.
        majors: "K" or "MN", of A and of B as they are multiplied.
        relayouts: what a kernel in front does to A and to B: "pad" gives rows a pitch of whole granules of 16 bytes,
            "transpose" makes the other axis the fast one as well. means: by which these travel.
        realign: how rows of A that start anywhere in a granule are multiplied. "tiles": a tile has rows of one phase,
            whose starts lie alike, and B is loaded as many rows further up. "registers": A goes through registers,
            where it is shifted. "woven": so do lines of A, which lie across k and start anywhere, element by element.
            "sums": lines of B, which lie across k, start anywhere; a k-tile has lines of one phase, and between phases
            sums slide to the columns in which the next one's lines have theirs.
        phases: rows, or lines, after which starts lie alike again; 1 where all do.
        store: how C leaves: "tma" by boxes, "turned" by boxes of C^T, "rows" by granules of 16 bytes but for the ends
            of rows, "lapped" the same of tiles that lap over the next one, so that each stores whole sectors of L2 but
            at the ends of C's rows, "columns" by those of C^T, or by elements where a tile's rows are of one phase,
            "elements" row by row, where no elements of C lie side by side, "sums" through sums of the whole tile in
            shared memory, which split needs.
        buffers: through which C leaves by boxes, in turns; one leaves room for another stage.
        overlapped: stages of a tile during whose multiplication the tile before is stored; 0 where it is stored first.
        registers: a thread of warpgroups that multiply, and of the one that loads.
        a, b: how the matrix unit reads the tiles; A None where it comes from registers.
        shared_bytes: of a block.
        batch: axes of the batch whose members it computes, at coordinates of their own in the maps; 0 of one product.
        groups: at most, whose ends a block keeps in shared memory; 0 where there are none.
        ragged: the axis that groups cut: "m" of rows, "k" of both operands, "" where there are none.
        aligned: whether A, and B, are aligned in shared memory: a warpgroup of its own moves each line from the
            granules in which it lies to where a whole one would.
        clipped: whether tiles of groups along k have the k-tiles of no groups, and a warpgroup of its own clears what
            is others' in shared memory; else maps end with a group.
        loose: whether members of A, and of B, begin anywhere in a granule: an axis of their maps has granules, and each
            start within one has maps of its own.
        streamed: whether A, and B, are read from memory once, by few: L2 fetches twice as many bytes of whole rows of
            them at a time, drops them first, and keeps the other operand.
        lap: columns that a tile computes as the next one along n does, as many as a sector has.
        accumulators: of tiles in tensor memory, in turns: a warpgroup of its own has tcgen05 multiply, and consumers
            fetch what it summed. 0 where consumers multiply by wgmma, and keep accumulators in registers.
        stream_k: whether clusters have as many k-tiles each, of tiles that are cut where their shares end: one gives
            its sums to the next, by memory of their own.
    """

    swapped: bool
    tile: tuple[int, int, int]
    stages: int
    cluster: tuple[int, int]
    split: int
    slices: int
    warpgroups: int
    ping_pong: bool
    blocks: int
    group: int
    majors: tuple[Major, Major]
    relayouts: tuple[str, str]
    realign: str
    phases: int
    store: str
    overlapped: int
    registers: tuple[int, int]
    a: MatrixOperand | None
    b: MatrixOperand
    shared_bytes: int
    batch: int = 0
    groups: int = 0
    ragged: Ragged = ""
    aligned: tuple[bool, bool] = (False, False)
    buffers: int = 2
    loose: tuple[bool, bool] = (False, False)
    clipped: bool = False
    streamed: tuple[bool, bool] = (False, False)
    lap: int = 0
    accumulators: int = 0
    means: tuple[str, ...] = ("granules",)
    stream_k: bool = False

    @property
    def cuts(self) -> str:
        """What groups cut of what is computed: "m" and "n" of rows and columns, "k", "" where there are none."""
        return "n" if self.ragged == "m" and self.swapped else self.ragged

    @property
    def mends(self) -> bool:
        """Whether a warpgroup of its own mends in shared memory what boxes brought."""
        return any(self.aligned) or self.clipped

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return WARPGROUP * (self.warpgroups + 1 + self.mends + self.issues)

    @property
    def woven(self) -> bool:
        """Whether lines of A are woven in registers."""
        return self.realign == "woven"

    @property
    def through_registers(self) -> bool:
        """Whether A goes through registers, rows that are realigned or lines that are woven."""
        return self.realign in THROUGH_REGISTERS

    @property
    def tile_bytes(self) -> tuple[int, int]:
        """Bytes of A and of B in a stage, as they are multiplied."""
        (rows, columns), (lines, _) = self.loaded, self.lines
        return lines.bytes if self.woven and lines is not None else rows * SPAN_BYTES, columns * SPAN_BYTES

    @property
    def issues(self) -> bool:
        """Whether a warpgroup of its own issues multiplications, whose accumulators are in tensor memory."""
        return self.accumulators > 0

    @property
    def unit(self) -> str:
        """The matrix unit."""
        return "tcgen05" if self.issues else "wgmma"

    @property
    def instruction_rows(self) -> int:
        """Rows of A of one instruction."""
        return ISSUED_ROWS if self.issues else BLOCK_ROWS

    @property
    def summed_columns(self) -> int:
        """Columns of tensor memory of one tile's accumulators, those of its instructions side by side."""
        return self.tile[0] // ISSUED_ROWS * self.summed if self.issues else 0

    @property
    def tensor_columns(self) -> int:
        """Columns of tensor memory that a block allocates."""
        needed = self.accumulators * self.summed_columns
        return max(LEAST_COLUMNS, 1 << (needed - 1).bit_length()) if self.issues else 0

    @property
    def tensor_bytes(self) -> int:
        """Bytes of shared memory that say where tensor memory is, and of barriers of the accumulators in it."""
        return int(tensor_bytes(self.accumulators))

    @property
    def fewest_k_tiles(self) -> int:
        """K-tiles that a block's tile has at least, though some be empty: the last is cleared as the first is."""
        return 1 + max(self.overlapped, self.clipped)

    @property
    def cluster_blocks(self) -> int:
        """Blocks of a cluster."""
        return self.cluster[0] * self.cluster[1] * self.split

    @property
    def operands(self) -> tuple[str, str]:
        """Which of A and B the kernel takes for its A, and which for its B."""
        return ("B", "A") if self.swapped else ("A", "B")

    @property
    def least_k_tiles(self) -> int:
        """K-tiles that a product, or a phase of one, needs: for slices, blocks that split k, an overlapped epilogue."""
        return max(self.split, self.slices * self.fewest_k_tiles, 2 * LEAST_SHARE * self.stream_k)

    @property
    def given_bytes(self) -> int:
        """Bytes of the sums that a CTA gives away by stream-K: those of all that its consumers multiply."""
        return self.tile[0] * self.summed * SUM_BYTES * self.stream_k

    @property
    def slides(self) -> int:
        """Phases of k between which sums slide; 0 where they do not."""
        return self.phases if self.realign == "sums" else 0

    @property
    def summed(self) -> int:
        """Columns of an accumulator: those of the tile, and of sums that slide as many more as they do."""
        return self.tile[1] + SLID * (self.slides > 0)

    @property
    def loaded(self) -> tuple[int, int]:
        """Rows of A and of B that a stage has: of B, whole boxes of all blocks that share it, of which C needs some."""
        rows, columns = self.tile[0], self.summed
        # Of lines that are aligned, blocks share boxes of their own; of those across k, parts along k if they must.
        unit = WIDE_BOX if self.aligned[1] else LEAST_BOX * self.cluster[0]
        unit = self.span if self.majors[1] == "MN" else unit
        return rows, -(-columns // unit) * unit

    @property
    def span(self) -> int:
        """Elements side by side in a box of an operand that lies across k: what fills a swizzle, as a k-tile does."""
        return self.tile[2]

    @property
    def k_parts(self) -> tuple[int, int]:
        """In how many parts along k boxes of A and of B are: of those across k, as many as let all that share load."""
        a, b = (
            sharing // gcd(sharing, extent // self.span) if major == "MN" and lines is None else 1
            for sharing, extent, major, lines in zip(
                self.cluster[::-1], self.loaded, self.majors, self.lines, strict=True
            )
        )
        return a, b

    @property
    def boxes(self) -> tuple[int, int]:
        """Boxes of a tile of A and of B, part after part along k; blocks that share a tile load as many each."""
        (rows, columns), parts = self.loaded, self.k_parts
        a = self.cluster[1] if self.majors[0] == "K" else rows // self.span * parts[0]
        b = self.cluster[0] if self.majors[1] == "K" else columns // self.span * parts[1]
        a, b = (many if one is None else one.boxes for many, one in zip((a, b), self.lines, strict=True))
        return self.phases if self.realign == "registers" else a, b

    @property
    def turns(self) -> bool:
        """Whether warps of a consumer turn what they store, and lay it down together."""
        return self.store in TURNED

    @property
    def in_rows(self) -> bool:
        """Whether threads store C row by row, each warp its own."""
        return self.store in IN_ROWS

    @property
    def by_boxes(self) -> bool:
        """Whether the copy engine stores C."""
        return self.store in BOXED

    @property
    def lines(self) -> tuple[Lines | None, Lines | None]:
        """Boxes of lines of A and of B, where these are aligned in shared memory, or woven in registers."""
        a, b = (
            Lines.of(extent, major) if one else None
            for extent, major, one in zip(self.loaded, self.majors, self.aligned, strict=True)
        )
        return replace(Lines.of(self.tile[0], "MN"), beside=WOVEN_BESIDE) if self.woven else a, b

    @property
    def group_bytes(self) -> int:
        """Bytes of shared memory that say where groups begin, and which tiles are those of groups of rows."""
        return GROUP_ENTRY_BYTES * (self.groups + 1) if self.groups else 0

    @property
    def alike(self) -> tuple[int, int]:
        """Lines of A and of B that have maps of their own, since they begin otherwise than those between them."""
        a = LINES_ALIKE if self.aligned[0] or self.woven else self.phases if self.realign != "none" else 1
        return a, LINES_ALIKE if self.aligned[1] else max(1, self.slides)

    @property
    def step(self) -> int:
        """Columns from a tile to the next one along n."""
        return self.tile[1] - self.lap

    @property
    def tile_phases(self) -> int:
        """Phases of rows that tiles are of one of; 1 where they have rows of all."""
        return self.phases if self.realign == "tiles" else 1

    def clusters(self, m: Extent, n: Extent) -> tuple[Any, Any]:
        """Return how many clusters' tiles cover m rows of each slice, and n columns; those of a phase, its rows."""
        of_phase = ceil_div(m, self.tile_phases)  # rows
        rows, columns = self.tile[0] * self.cluster[0], self.step * self.cluster[1]
        beyond = n - self.lap if self.lap else n  # which the first tile has as well
        return self.slices * self.tile_phases * ceil_div(of_phase, rows), ceil_div(beyond, columns)

    def k_tiles(self, k: Extent) -> Any:
        """Return the k-tiles of so many elements along k, or of those of each phase of k where sums slide."""
        return ceil_div(ceil_div(k, max(1, self.slides)), self.tile[2])

    def slice_rows(self, m: int) -> int:
        """Return the rows of C that tiles of one slice cover."""
        return int(self.clusters(m, 1)[0]) // self.slices * self.tile[0] * self.cluster[0]

    def __str__(self) -> str:
        words = ["x".join(map(str, self.tile)), f"{self.stages} stages"]
        if self.issues:
            words.append(f"{self.accumulators} accumulator{'s' * (self.accumulators > 1)} in tensor memory")
        if self.cluster != (1, 1):
            words.append("cluster {}x{}".format(*self.cluster))
        if self.split > 1:
            words.append(f"k split {self.split} ways")
        if self.slices > 1:
            words.append(f"k in {self.slices} slices")
        if self.stream_k:
            words.append("stream-K")
        if self.ping_pong:
            words.append("ping-pong")
        if self.blocks > 1:
            words.append(f"{self.blocks} CTAs an SM")
        words += [f"{one} {name} first" for one, name in zip(self.relayouts, "AB", strict=True) if one != "none"]
        if self.realign != "none":
            words.append(f"{'B' if self.slides else 'A'} {REALIGNED[self.realign]}")
        words += [f"{name} aligned in shared memory" for name, one in zip("AB", self.aligned, strict=True) if one]
        words += ["others' k cleared in shared memory"] * self.clipped
        words += [f"members of {name} anywhere" for name, one in zip("AB", self.loose, strict=True) if one]
        if self.swapped:
            words.append("as C^T")
        if self.groups:
            words.append(f"up to {self.groups} groups {'along k' if self.ragged == 'k' else 'of rows'}")
        through = " through one buffer" if self.by_boxes and self.buffers == 1 else ""
        store = "split-K reduction" if self.split > 1 else STORED.get(self.store, self.store)
        return ", ".join([*words, f"C by {store}{through}", *["overlapped epilogue"] * (self.overlapped > 0)])
