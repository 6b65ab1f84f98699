"""Where things lie in tensor memory, as layouts: sums, scale factors, and what a thread's registers load.

Offsets are tensor memory's own addresses: a lane is 65536, a column of 32 bits is 1 (FACTS TC-22). Of a pair of CTAs
the second one's are `PEER` further on. Layouts of scale factors count bytes: four times as much, and 1 for a byte.
"""

from __future__ import annotations

from dataclasses import dataclass

from legalsat.checks import choice, flag, integer, one_of
from legalsat.errors import InvalidInput
from legalsat.layout import Layout

LANE = 1 << 16
LANES = 128
PARTITION = 32  # lanes that one warp of a warpgroup reaches
PEER = LANES * LANE
# Scale factors come in atoms of 128 rows by 4 factors, which are 512 bytes and 4 columns (FACTS TC-30).
ATOM_ROWS, ATOM_FACTORS, ATOM_BYTES, ATOM_COLUMNS = 128, 4, 512, 4


@dataclass(frozen=True, slots=True)
class Datapath:
    """How D spreads over lanes (FACTS TC-27; letters are PTX's).

    Attributes:
        letter: A to G.
        rows: rows of D that a CTA's lanes hold.
        parts: how many parts of D's columns lie below each other, so that it takes that many times fewer columns.
        half: whether rows take 16 lanes of every 32 alone, beginning at lane 0 or 16.
    """

    letter: str
    rows: int
    parts: int = 1
    half: bool = False


_DATAPATHS = {
    "A": Datapath("A", 128),
    "B": Datapath("B", 64, parts=2),
    "C": Datapath("C", 64, half=True),
    "D": Datapath("D", 128),
    "E": Datapath("E", 64, parts=2),
    "F": Datapath("F", 64, half=True),
    "G": Datapath("G", 32, parts=4),
}
# By rows of D, CTAs that multiply together, and whether the multiply is weight-stationary.
_LETTERS = {
    (256, 2, False): "A",
    (128, 2, False): "B",
    (128, 1, False): "D",
    (64, 1, False): "F",
    (128, 1, True): "D",
    (64, 1, True): "E",
    (32, 1, True): "G",
}


def datapath(m: int, cta_group: int, *, ws: bool = False, sparse: bool = False) -> Datapath:
    """Return how the sums of an instruction of `m` rows spread over lanes.

    Raises:
        InvalidInput: no instruction has so many rows.
    """
    m, cta_group = integer(m, "m"), choice(cta_group, "cta_group", (1, 2))
    letter = _LETTERS.get((m, cta_group, flag(ws, "ws")))
    if letter is None:
        raise InvalidInput(f"no multiply of {cta_group} CTAs{' and .ws' * ws} has {m} rows; give 32, 64, 128 or 256")
    return _DATAPATHS["C" if flag(sparse, "sparse") and letter == "B" else letter]


def columns_of_sums(m: int, n: int, cta_group: int, *, ws: bool = False, sparse: bool = False) -> int:
    """Return the columns of tensor memory, in each CTA, that the sums of one instruction take.

    Sums of 16 bits take as many as those of 32, since they are not packed (FACTS TC-28).

    Raises:
        InvalidInput: no instruction has so many rows.
    """
    return -(-integer(n, "n", low=1) // datapath(m, cta_group, ws=ws, sparse=sparse).parts)


def sums_layout(m: int, n: int, cta_group: int, *, ws: bool = False, sparse: bool = False) -> Layout:
    """Return the layout of D: (row, column) -> address, from that of its first lane and column on.

    Source: FACTS TC-27; CUTLASS `cute/atom/mma_traits_sm100_frag.hpp`, tmem_frg and tmem_frg_ws.

    Args:
        m: rows of D, those of both CTAs where two multiply together.
        n: columns of D.
        cta_group: CTAs that multiply together, 1 or 2.
        ws: whether the multiply is weight-stationary.
        sparse: whether A is sparse.

    Raises:
        InvalidInput: no instruction has so many rows, or its columns do not split into the parts that lie below each
            other.
    """
    path = datapath(m, cta_group, ws=ws, sparse=sparse)
    if integer(n, "n", low=1) % path.parts:
        raise InvalidInput(f"n is {n}, whose {path.parts} parts are not alike; give a multiple of {path.parts}")
    rows: list[tuple[int, int]] = [(16, LANE), (4, 2 * 16 * LANE)] if path.half else [(path.rows, LANE)]
    if cta_group == 2:
        rows.append((2, PEER))
    columns = [(n // path.parts, 1)]
    if path.parts > 1:
        columns.append((path.parts, path.rows * LANE))
    (row_shape, row_stride), (column_shape, column_stride) = (
        tuple(zip(*modes, strict=True)) for modes in (rows, columns)
    )
    return Layout((row_shape, column_shape), (row_stride, column_stride))


def operand_columns(k: int, element_bits: int, *, sparse: bool = False) -> int:
    """Return the columns of tensor memory that A takes for `k` elements along K: it is packed (FACTS TC-28)."""
    k, bits = integer(k, "k", low=1), integer(element_bits, "element_bits", low=1, high=32)
    return -(-(k // 2 if flag(sparse, "sparse") else k) * bits // 32)


@dataclass(frozen=True, slots=True)
class Transfer:
    """A shape of tcgen05.ld and .st (FACTS TC-25, TC-26).

    Attributes:
        lanes: lanes that a warp reaches.
        columns, registers: of 32 bits, by repetition: what `.x1` moves.
        most: the largest repetition.
    """

    lanes: int
    columns: int
    registers: int
    most: int


TRANSFERS = {
    "32x32b": Transfer(32, 1, 1, 128),
    "16x64b": Transfer(16, 2, 1, 128),
    "16x128b": Transfer(16, 4, 2, 64),
    "16x256b": Transfer(16, 8, 4, 32),
    "16x32bx2": Transfer(16, 1, 1, 128),  # and as many columns again, `split` further on
}


def repetitions(shape: str) -> tuple[int, ...]:
    """Return what `.num` may be for a shape of tcgen05.ld or .st; none for a shape that does not exist."""
    known = TRANSFERS.get(shape) if isinstance(shape, str) else None
    return tuple(1 << i for i in range(8) if known and 1 << i <= known.most)


def transfer_layout(shape: str, num: int, split: int = 0) -> Layout:
    """Return which word each register of tcgen05.ld or .st moves: (thread of the warp, register) -> address.

    Addresses count from the instruction's, whose lane is the first of the warp's 32, or the 17th for shapes of 16.
    Source: FACTS TC-26; CUTLASS `cute/atom/copy_traits_sm100.hpp`.

    Args:
        shape: "32x32b", "16x64b", "16x128b", "16x256b" or "16x32bx2".
        num: the repetition, `.x1` to `.x128`.
        split: of 16x32bx2, columns from the first half warp's words to the second's.

    Raises:
        InvalidInput: PTX has no such shape or repetition, or the shape has no halves to split.
    """
    one_of(shape, "shape", TRANSFERS)
    num = choice(num, "num", repetitions(shape))
    if integer(split, "split", low=0, high=LANE - 1) and shape != "16x32bx2":
        raise InvalidInput(f"split is {split}, and {shape} has none; leave it out, or use 16x32bx2")
    if shape == "32x32b":
        return Layout((32, num), (LANE, 1))
    if shape == "16x32bx2":
        return Layout(((16, 2), num), ((LANE, split), 1))
    if shape == "16x64b":
        return Layout(((2, 2, 8), num), ((8 * LANE, 1, LANE), 2))
    if shape == "16x128b":
        return Layout(((4, 8), (2, num)), ((1, LANE), (8 * LANE, 4)))
    return Layout(((4, 8), (2, 2, num)), ((2, LANE), (1, 8 * LANE, 8)))


def _atoms(rows: int, factors: int) -> tuple[int, int]:
    most = 2**24  # what a layout's numbers hold with room to spare
    rows, factors = (integer(n, what, low=1, high=most) for n, what in ((rows, "rows"), (factors, "factors")))
    return -(-rows // ATOM_ROWS), -(-factors // ATOM_FACTORS)


def scale_layout(rows: int, factors: int, *, along_k: bool = False) -> Layout:
    """Return the layout of a tile of scale factors in shared or global memory: (row, factor) -> byte.

    Rows and factors are rounded up to whole atoms. Within one, a row's 4 factors lie side by side, and so do rows 32
    apart. Source: FACTS TC-30; CUTLASS `detail/sm100_blockscaled_layout.hpp`.

    Args:
        rows: rows of A, or columns of D for B.
        factors: scale factors of a row: elements along K over elements of a block.
        along_k: whether atoms follow each other along K first, as CUTLASS has them in global memory, rather than along
            rows, as a stage in shared memory has them.

    Raises:
        InvalidInput: a number has no meaning.
    """
    blocks, groups = _atoms(rows, factors)
    block, group = (groups * ATOM_BYTES, ATOM_BYTES) if flag(along_k, "along_k") else (ATOM_BYTES, blocks * ATOM_BYTES)
    return Layout(((32, 4, blocks), (ATOM_FACTORS, groups)), ((16, 4, block), (1, group)))


def scale_columns(rows: int, factors: int) -> int:
    """Return the columns of tensor memory that a tile of scale factors takes: 4 an atom."""
    blocks, groups = _atoms(rows, factors)
    return blocks * groups * ATOM_COLUMNS


def scale_memory_layout(rows: int, factors: int) -> Layout:
    """Return the layout of scale factors in tensor memory: (row, factor, copy) -> byte, 4 bytes a word.

    Copies are the 4 partitions of 32 lanes, which must all hold the factors. An atom of 128 rows by 4 factors is what
    one tcgen05.cp.32x128b.warpx4 brings; those of more rows follow each other, then those of more factors, so that an
    instruction finds the factors of all its rows in neighbouring columns.
    Source: FACTS TC-30; CUTLASS `cute/atom/mma_traits_sm100_frag.hpp`, tmem_sf_frg.

    Raises:
        InvalidInput: a number has no meaning.
    """
    blocks, groups = _atoms(rows, factors)
    word, lane = 4, 4 * LANE
    return Layout(
        ((32, 4 * blocks), (ATOM_FACTORS, groups), LANES // PARTITION),
        ((lane, word), (1, blocks * ATOM_COLUMNS * word), PARTITION * lane),
    )
