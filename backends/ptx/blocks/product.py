"""`Product`: the numbers that a kernel of a product is printed from. Bytes unless said otherwise."""

from __future__ import annotations

from dataclasses import dataclass

from legalsat.logic import round_up
from legalsat.options import Major

BARRIER_BYTES = 8
SMALLEST_ALIGNMENT = 128  # of anything that the copy engine touches


@dataclass(frozen=True, slots=True)
class Box:
    """One box of a tile.

    Attributes:
        offset: bytes from the start of the tile's buffer.
        begin: where in the tile it begins, elements along each dimension of the tensor map, fastest first.
    """

    offset: int
    begin: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Operand:
    """How A or B comes in, and where the matrix unit finds it.

    Attributes:
        boxes: of one tile, in the order in which they lie.
        tile_step, k_step: elements that the next tile of C, and the next tile along K, lie further on along each
            dimension of the tensor map, fastest first.
        bytes: of one stage. alignment: that its address must be a multiple of.
        transaction_bytes: what the barrier counts for one tile.
        major: "K" or "MN", the axis whose elements lie side by side.
        word: the matrix descriptor of a tile at address 0.
        offsets: bytes to add to the tile's address: `offsets[b][s]` for block b and step s along K.
    """

    boxes: tuple[Box, ...]
    tile_step: tuple[int, int]
    k_step: tuple[int, int]
    bytes: int
    alignment: int
    transaction_bytes: int
    major: Major
    word: int
    offsets: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Result:
    """How C goes out: through shared memory, where it lies in boxes, the fastest along a row.

    Attributes:
        type: element type. size: bytes of an element.
        rows, columns: elements of C.
        strides: elements between rows and between columns of C in global memory.
        store: "tma" or "threads".
        copy: what writes shared memory: "st.b128" or its kin.
        box: rows and columns of a box in shared memory. pitch: bytes between its rows.
        swizzle: bits of a chunk's address that the swizzle changes: 0 for none, 1 to 3 for 32B to 128B.
        overlays: whether the tile lies on the ring.
        alignment: bytes that the tile's address must be a multiple of.
    """

    type: str
    size: int
    rows: int
    columns: int
    strides: tuple[int, int]
    store: str
    copy: str
    box: tuple[int, int]
    pitch: int
    swizzle: int
    overlays: bool
    alignment: int

    @property
    def box_bytes(self) -> int:
        """Bytes from one box to the next, so that each begins where the swizzle's pattern does."""
        size: int = round_up(self.box[0] * self.pitch, self.alignment)
        return size


@dataclass(frozen=True, slots=True)
class Product:
    """A kernel on tcgen05: C = A B^T, a tile of C a block, loads and multiplication in different warps.

    Attributes:
        about: lines to begin the text with. architecture: what the text is for, such as "sm_90a".
        extent: m, n and k elements. tile: of a block.
        shape: m, n and k elements of one instruction.
        types: element types of A, of B and of the sums.
        stages: of the ring. warps: of a block, those that fetch sums first. warpgroups: that fetch sums.
        blocks: blocks that are to fit on a processor.
        a, b, c: the operands.
        instruction: the instruction descriptor. accumulators: the first column of each, by rows of blocks.
        allocated: columns of tensor memory.
    """

    about: tuple[str, ...]
    architecture: str
    extent: tuple[int, int, int]
    tile: tuple[int, int, int]
    shape: tuple[int, int, int]
    types: tuple[str, str, str]
    stages: int
    warps: int
    warpgroups: int
    blocks: int
    a: Operand
    b: Operand
    c: Result
    instruction: int
    accumulators: tuple[int, ...]
    allocated: int

    @property
    def tiles(self) -> tuple[int, int, int]:
        """Tiles along m, n and k; the last ones may overhang."""
        m, n, k = (-(-e // t) for e, t in zip(self.extent, self.tile, strict=True))
        return m, n, k

    @property
    def blocks_of_sums(self) -> tuple[int, int]:
        """Instructions along m and n that one step along K of a whole tile takes."""
        return self.tile[0] // self.shape[0], self.tile[1] // self.shape[1]

    @property
    def steps(self) -> int:
        """Instructions along K of a stage."""
        return self.tile[2] // self.shape[2]

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * self.warps

    @property
    def keepers(self) -> int:
        """Warps that fetch sums, which come first."""
        return 4 * self.warpgroups


@dataclass(frozen=True, slots=True)
class SharedMap:
    """Where a block keeps what, in bytes from the start of its shared memory.

    Attributes:
        b: of B's tile in a stage, whose A begins it. stage: bytes from one stage to the next.
        c: of C's tile. full, empty: of the barriers of the first stage; the next ones follow.
        sums: of the barrier that says that all sums are there. columns: of the address of tensor memory.
        bytes: altogether. alignment: that the whole must start at a multiple of.
    """

    b: int
    stage: int
    c: int
    full: int
    empty: int
    sums: int
    columns: int
    bytes: int
    alignment: int


def shared_map(product: Product) -> SharedMap:
    """Return the shared memory of a block: the ring, C's tile on it or behind it, the barriers."""
    a, b, c = product.a, product.b, product.c
    b_at = round_up(a.bytes, b.alignment)
    stage = round_up(b_at + b.bytes, max(a.alignment, b.alignment))
    ring = stage * product.stages
    boxes = -(-product.tile[0] // c.box[0]) * -(-product.tile[1] // c.box[1])
    c_at = 0 if c.overlays else round_up(ring, c.alignment)
    full = round_up(max(ring, c_at + boxes * c.box_bytes), BARRIER_BYTES)
    empty = full + BARRIER_BYTES * product.stages
    sums = empty + BARRIER_BYTES * product.stages
    columns = sums + BARRIER_BYTES
    return SharedMap(
        b=b_at,
        stage=stage,
        c=c_at,
        full=full,
        empty=empty,
        sums=sums,
        columns=columns,
        bytes=columns + BARRIER_BYTES,
        alignment=max(a.alignment, b.alignment, c.alignment, SMALLEST_ALIGNMENT),
    )
