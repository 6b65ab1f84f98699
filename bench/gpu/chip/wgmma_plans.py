"""What `bench.gpu.chip.wgmma` runs: every legal combination, wrong descriptors that rules refuse, and single reads.

All of it is written down here as plain numbers, so that the machine with the GPU needs no LegalSAT. Every tile is
checked first against the copy engine's model (`legalsat.smem_image`), every wrong descriptor against the address
function, which must say that it reads something else.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import legalsat as ls
from bench.gpu.chip.wgmma_kernels import IMAGE, STEPS
from bench.gpu.driver import map_arguments
from legalsat.analyses.matrix_layout import matrix_operand, read_addresses, tile_layout
from legalsat.dtypes import dtype
from legalsat.layout import Layout
from legalsat.layout.swizzle import Swizzle
from legalsat.options import MAJORS, Major
from legalsat.rules import MATRIX_RULES, WGMMA_RULES
from legalsat.targets import target
from legalsat.units.matrix_descriptor import PERIODS, SPANS, MatrixDescriptor, MatrixOperand
from legalsat.units.sites import MatrixRead, WgmmaMultiply
from legalsat.units.tensor_map import SWIZZLES
from legalsat.units.wgmma import K_BYTES, TURNED, Wgmma

TARGET = "h200"
NAMES = ("none", "32B", "64B", "128B")
N = (8, 64, 96, 128, 256)
PAIRS = (
    *(("fp16", "fp16", "fp32"), ("bf16", "bf16", "fp32"), ("tf32", "tf32", "fp32"), ("e4m3", "e4m3", "fp32")),
    *(("e5m2", "e5m2", "fp32"), ("i8", "i8", "i32"), ("e4m3", "e5m2", "fp32"), ("e5m2", "e4m3", "fp32")),
    *(("fp16", "fp16", "fp16"), ("e4m3", "e4m3", "fp16")),
)
ROWS_A, ROWS_B = 128, 256  # of the matrices in global memory
PLACE_A, PLACE_B = IMAGE, IMAGE + 32 * 1024  # of the tiles in the window
SEED = 4


def depth(bits: int) -> int:
    """Return the elements of K: eight steps."""
    return STEPS * K_BYTES * 8 // bits


@dataclass(frozen=True)
class Tile:
    """A tile in shared memory, and how wgmma reads one block of it.

    Attributes:
        layout: (mn, k) -> offset in elements, before the swizzle.
        operand: the descriptors. block: which block of rows is read, from row `first` on.
        arguments: of the tensor map, its address left open. boxes: offset in bytes and coordinates of each.
        transaction_bytes: that the barrier counts.
    """

    layout: Layout
    operand: MatrixOperand
    block: int
    first: int
    arguments: dict[str, Any]
    boxes: tuple[tuple[int, int, int], ...]
    transaction_bytes: int

    def words(self, place: int) -> list[int]:
        """Return the words of all steps, for a tile that begins at byte `place` of the window."""
        return [self.operand.word(self.block, step, place) for step in range(STEPS)]


@cache
def tile(element: str, major: Major, swizzle: str, count: int, rows: int, *, odd: bool = False) -> Tile:
    """Return a tile of which an instruction reads `count` rows, from a matrix of `rows`; `odd` takes the last block."""
    bits = dtype(element).bits
    span, k = SPANS[swizzle] * 8 // bits, depth(bits)
    # Twice what one instruction reads, for two blocks; MN-major in whole spans, of which blocks are parts.
    held = 2 * count if 2 * count <= rows else count
    read = held
    if major == "MN" and count % span:
        held = -(-count // span) * span
        read = held // count * count
    layout = tile_layout(held, k, bits, swizzle, major)
    operand = matrix_operand(layout, swizzle, bits, unit="wgmma", major=major, block=count, mn=read)
    block = len(operand.offsets) - 1 if odd else 0
    along, across = (k, held) if major == "K" else (held, k)
    extent = (k, rows) if major == "K" else (rows, k)
    tm = ls.TensorMap(
        dtype=dtype(element).map_type,
        global_dim=extent,
        global_stride=(extent[0] * bits // 8,),
        box=(span, across),
        swizzle=swizzle,  # type: ignore[arg-type]
    )
    refused = [d for d in ls.violations(tm, TARGET) if d.level == "error"]
    assert not refused, refused
    boxes = tuple((number * across * SPANS[swizzle], column, 0) for number, column in enumerate(range(0, along, span)))
    found = Tile(layout, operand, block, block * count, map_arguments(tm), boxes, len(boxes) * ls.tx_bytes(tm))
    _check_brought(found, tm, extent, bits)
    return found


def _check_brought(found: Tile, tm: ls.TensorMap, extent: tuple[int, int], bits: int) -> None:
    """Check by the copy engine's model that every element that is read is the matrix's."""
    image = np.concatenate([ls.smem_image(tm, (column, row)) for _, column, row in found.boxes])
    major, count = found.operand.major, found.operand.block
    k = depth(bits)
    rows = extent[1] if major == "K" else extent[0]
    matrix = np.arange(rows * k).reshape((rows, k), order="C" if major == "K" else "F") * bits // 8
    step = K_BYTES * 8 // bits
    for s, word in enumerate(found.words(0)):
        descriptor = MatrixDescriptor.from_word("wgmma", word)
        read = image[read_addresses(descriptor, major, count, step, bits)]
        assert np.array_equal(read, matrix[found.first :, s * step :][:count, :step]), (found, s)


def name_of(pair: tuple[str, str, str], majors: tuple[Major, Major], n: int, from_registers: bool) -> str:
    """Return a kernel's name."""
    return f"k_{'_'.join(pair)}_{majors[0]}_{majors[1]}_{'rs' if from_registers else 'ss'}_{n}"


def ways(pair: tuple[str, str, str]) -> Iterator[tuple[tuple[Major, Major], bool, int]]:
    """Yield majors of A and B, whether A comes from registers, and n: what an instruction is made for."""
    majors = MAJORS if pair[0] in TURNED else MAJORS[:1]
    for n in N:
        for b in majors:
            for a in majors:
                yield (a, b), False, n
            yield ("K", b), True, n


def combinations() -> Iterator[dict[str, Any]]:
    """Yield every legal combination, as a launch."""
    number = 0
    for pair in PAIRS:
        for majors, from_registers, n in ways(pair):
            assert not refusals(pair, majors, from_registers, n)
            for sa in ("",) if from_registers else NAMES:
                for sb in NAMES:
                    if pair[2] == "fp16" and sa not in {sb, ""}:
                        continue  # what sums are made of does not change how A and B are read
                    number += 1
                    yield combination(pair, majors, (sa, sb), n, odd=number % 2 == 1)


def refusals(pair: tuple[str, str, str], majors: tuple[Major, Major], from_registers: bool, n: int) -> set[str]:
    """Return the codes of the rules that refuse an instruction."""
    a, b, sums = pair
    site = WgmmaMultiply(64, n, K_BYTES * 8 // dtype(a).bits, a, b, sums, *majors, from_registers)
    return {rule.code for rule in WGMMA_RULES for _ in rule.check(site, target(TARGET))}


def combination(
    pair: tuple[str, str, str], majors: tuple[Major, Major], swizzles: tuple[str, str], n: int, *, odd: bool
) -> dict[str, Any]:
    """Return one launch as plain numbers; without a swizzle for A, that comes from registers."""
    from_registers = not swizzles[0]
    b = tile(pair[1], majors[1], swizzles[1], n, ROWS_B, odd=odd)
    launch: dict[str, Any] = {
        "kernel": name_of(pair, majors, n, from_registers),
        "types": list(pair),
        "majors": list(majors),
        "swizzles": list(swizzles),
        "n": n,
        "rows": [64 * odd if from_registers else 0, b.first],
        "b": brought(b, PLACE_B),
    }
    if not from_registers:
        a = tile(pair[0], majors[0], swizzles[0], 64, ROWS_A, odd=odd)
        launch["rows"][0] = a.first
        launch["a"] = brought(a, PLACE_A)
    return launch


def brought(one: Tile, place: int) -> dict[str, Any]:
    """Return how an operand comes in and is read, as plain numbers."""
    return {
        "map": one.arguments,
        "boxes": [[place + offset, *at] for offset, *at in one.boxes],
        "bytes": one.transaction_bytes,
        "words": one.words(place),
    }


def raw_word(start: int, leading: int, stride: int, swizzle: str, base_offset: int = 0) -> int:
    """Return the word of any numbers, right or wrong, encoded as the document says (FACTS WG-08)."""
    low = sum((value & 0x3FFFF) >> 4 << shift for value, shift in ((start, 0), (leading, 16), (stride, 32)))
    return low | (base_offset & 7) << 49 | {"none": 0, "128B": 1, "64B": 2, "32B": 3}[swizzle] << 62


@dataclass(frozen=True)
class Wrong:
    """A wrong descriptor of B: a legal tile, and what is told about it instead.

    Attributes:
        what: in words.
        element, major, swizzle, n: of the tile.
        told: fields of the descriptor that differ from the tile's.
        told_major: what the instruction is told.
        shift: bytes from a multiple of 1024 at which threads wrote the tile, its pattern beginning with it; None where
            the copy engine brings it to one.
    """

    what: str
    element: str
    major: Major
    swizzle: str
    n: int
    told: dict[str, Any]
    told_major: Major | None = None
    shift: int | None = None


def wrong_descriptors() -> Iterator[Wrong]:
    """Yield descriptors that rules refuse."""
    yield from _exchanged()
    yield from _off()
    for element, real, told in (
        *(("bf16", real, told) for real in NAMES for told in NAMES if real != told),
        ("i8", "128B", "64B"),
        ("tf32", "32B", "128B"),
    ):
        yield Wrong("swizzle differs", element, "K", real, 128, {"swizzle": told})
    for real, told in (("128B", "32B"), ("64B", "128B"), ("32B", "none")):
        yield Wrong("swizzle differs", "fp16", "MN", real, 128, {"swizzle": told})
    for swizzle in NAMES:
        yield Wrong("read as MN-major", "fp16", "K", swizzle, 64, {}, told_major="MN")
        yield Wrong("read as K-major", "bf16", "MN", swizzle, 64, {}, told_major="K")
    for swizzle, shift in (("128B", 128), ("128B", 512), ("128B", 896), ("64B", 128), ("64B", 384), ("32B", 128)):
        yield Wrong("pattern begins inside a period, base offset 0", "bf16", "K", swizzle, 128, {}, shift=shift)
    for swizzle, shift in (("128B", 256), ("64B", 256), ("32B", 128)):
        yield Wrong("pattern begins inside a period, base offset 0", "fp16", "MN", swizzle, 64, {}, shift=shift)
    yield Wrong("base offset of an aligned pattern", "bf16", "K", "128B", 128, {"base_offset": 4})
    yield Wrong("base offset of an aligned pattern", "i8", "K", "64B", 128, {"base_offset": 1})
    yield Wrong("base offset of an aligned pattern", "fp16", "MN", "128B", 128, {"base_offset": 3})
    yield Wrong("start is no multiple of 16", "bf16", "K", "none", 64, {}, shift=8)
    yield Wrong("start is no multiple of 16", "i8", "K", "none", 64, {}, shift=4)


def _exchanged() -> Iterator[Wrong]:
    tiles: tuple[tuple[str, Major, str, int], ...] = (
        *((element, "K", "none", 128) for element in ("fp16", "bf16", "tf32", "e4m3", "i8")),
        *(("fp16", "MN", swizzle, 256) for swizzle in NAMES),
        ("bf16", "K", "128B", 64),
    )
    for element, major, swizzle, n in tiles:
        found = tile(element, major, swizzle, n, ROWS_B).operand.descriptor
        yield Wrong("offsets exchanged", element, major, swizzle, n, {"leading": found.stride, "stride": found.leading})


def _off() -> Iterator[Wrong]:
    for swizzle in NAMES:
        stride = tile("bf16", "K", swizzle, 128, ROWS_B).operand.descriptor.stride
        for other in (0, stride // 2, stride + 16):
            yield Wrong("stride offset differs", "bf16", "K", swizzle, 128, {"stride": other})
    for swizzle in ("32B", "64B", "128B"):
        leading = tile("fp16", "MN", swizzle, 128, ROWS_B).operand.descriptor.leading
        for other in (0, leading // 2, 8 * SPANS[swizzle]):
            yield Wrong("leading offset differs", "fp16", "MN", swizzle, 128, {"leading": other})
    yield Wrong("leading offset differs", "tf32", "K", "none", 128, {"leading": 256})


def wrong_launch(case: Wrong) -> tuple[dict[str, Any], NDArray[np.int64] | None]:
    """Return the launch with a wrong descriptor and the codes that refuse it; and where threads write the tile."""
    pair = (case.element, case.element, "i32" if case.element == "i8" else "fp32")
    bits = dtype(case.element).bits
    found = tile(case.element, case.major, case.swizzle, case.n, ROWS_B)
    told_major, place = case.told_major or case.major, PLACE_B + (case.shift or 0)
    launch = combination(pair, ("K", told_major), ("", case.swizzle), case.n, odd=False)
    real = found.operand.descriptor
    fields = {"leading": real.leading, "stride": real.stride, "swizzle": real.swizzle, "base_offset": 0, **case.told}
    launch["b"] = brought(found, PLACE_B)
    launch["b"]["words"] = [raw_word(place + found.operand.offsets[0][s], **fields) for s in range(STEPS)]
    launch["rows"] = [0, 0]
    launch["what"] = case.what
    launch["told"], launch["tile"] = dict(fields), {"major": case.major, "swizzle": case.swizzle}
    written = None
    stored = Swizzle.tma(case.swizzle)(found.layout.offsets() * bits // 8).reshape(
        (found.layout[0].size, -1), order="F"
    )
    if case.shift is not None:
        written = place + stored
        launch["b"].update(boxes=[], bytes=0)
    site = MatrixRead(
        start=place,
        leading=fields["leading"],
        stride=fields["stride"],
        swizzle=SWIZZLES.index(fields["swizzle"]),
        base_offset=fields["base_offset"],
        tile_leading=real.leading,
        tile_stride=real.stride,
        tile_swizzle=SWIZZLES.index(real.swizzle),
        block=case.n,
        element_bits=bits,
        pattern=place,
        major=told_major,
        tile_major=case.major,
    )
    launch["codes"] = sorted({rule.code for rule in MATRIX_RULES for _ in rule.check(site, target(TARGET))})
    assert launch["codes"], case
    step = K_BYTES * 8 // bits
    differ = [
        (
            read_addresses(MatrixDescriptor.from_word("wgmma", word), told_major, case.n, step, bits)
            != place + stored[: case.n, s * step :][:, :step]
        ).any()
        for s, word in enumerate(launch["b"]["words"])
    ]
    assert any(differ), f"the address function finds nothing wrong with {case}"
    return launch, written


def kernels() -> dict[str, list[tuple[str, Wgmma, tuple[Major, Major], bool]]]:
    """Return what kernels each module has, by the module's name: one a pair of types."""
    return {
        "_".join(pair): [
            (name_of(pair, majors, n, from_registers), Wgmma(n, *pair), majors, from_registers)
            for majors, from_registers, n in ways(pair)
        ]
        for pair in PAIRS
    }


DATA_BYTES = 64 * 1024  # of distinct elements, which single reads are made from
PROBE = (64, 16)  # elements of one read
OUTSIDE = 65535


def probes(per_kind: int = 8) -> dict[str, NDArray[Any]]:
    """Return single reads of fp16: random fields, and which element of the data should arrive where.

    Returns:
        Arrays of one row a read: `operand` (0 A, 1 B), `major` (0 K, 1 MN), `kind` (an index into `KINDS`), `word`,
        `expected` of shape (reads, 64, 16), and `fields`: start, leading, stride, swizzle, base offset.
    """
    rng = random.Random(SEED)
    rows: list[tuple[int, int, int, int, tuple[int, ...]]] = []
    expected = []
    for operand in range(2):
        for major in range(2):
            for swizzle in range(4):
                for kind, draw in enumerate(KINDS.values()):
                    kept = tried = 0
                    while kept < per_kind and tried < 200:
                        tried += 1
                        fields = draw(rng, NAMES[swizzle], major == 1)
                        start, leading, stride, base_offset, extra = fields
                        descriptor = MatrixDescriptor("wgmma", leading, stride, NAMES[swizzle], start, base_offset)
                        read = read_addresses(descriptor, "MN" if major else "K", *PROBE, 16)
                        if read.max() >= IMAGE + DATA_BYTES - 1024 or (swizzle == 0 and base_offset and kind < 4):
                            continue
                        kept += 1
                        rows.append(
                            (
                                operand,
                                major,
                                kind,
                                descriptor.word | extra,
                                (start, leading, stride, swizzle, base_offset),
                            )
                        )
                        expected.append(((read - IMAGE) // 2).astype(np.uint16))
    return {
        "operand": np.array([row[0] for row in rows]),
        "major": np.array([row[1] for row in rows]),
        "kind": np.array([row[2] for row in rows]),
        "word": np.array([row[3] for row in rows], dtype=np.uint64),
        "fields": np.array([row[4] for row in rows]),
        "expected": np.array(expected),
    }


def _dense(swizzle: str, turned: bool) -> tuple[int, int]:
    """Return offsets of a tile of 128 rows as boxes bring it."""
    if swizzle == "none":
        return 1024, 128
    group = 8 * SPANS[swizzle]
    return (8 * group, group) if turned else (16, group)


def _some(rng: random.Random, least: int, most: int, step: int = 16) -> int:
    return rng.randrange(least, most + 1, step)


def _inside(rng: random.Random, swizzle: str, turned: bool) -> tuple[int, ...]:
    return (IMAGE + 1024 * rng.randrange(8) + _some(rng, 0, SPANS[swizzle] - 16), *_dense(swizzle, turned), 0, 0)


def _line(rng: random.Random, swizzle: str, turned: bool) -> tuple[int, ...]:
    return (IMAGE + 1024 * rng.randrange(8) + 128 * rng.randrange(1, 8), *_dense(swizzle, turned), 0, 0)


def _formula(rng: random.Random, swizzle: str, turned: bool) -> tuple[int, ...]:
    line = rng.randrange(1, 8)
    return (IMAGE + 1024 * rng.randrange(8) + 128 * line, *_dense(swizzle, turned), line, 0)


def _based(rng: random.Random, swizzle: str, turned: bool) -> tuple[int, ...]:
    return (IMAGE + 1024 * rng.randrange(8), *_dense(swizzle, turned), rng.randrange(1, 8), 0)


def _led(rng: random.Random, swizzle: str, turned: bool) -> tuple[int, ...]:
    leading = rng.choice((0, 16, 32, 48, 256, 1024, 2048, 4096, _some(rng, 0, 16384)))
    return (IMAGE + 1024 * rng.randrange(8), leading, _dense(swizzle, turned)[1], 0, 0)


def _spaced(rng: random.Random, swizzle: str, turned: bool) -> tuple[int, ...]:
    step = PERIODS[swizzle]
    return (IMAGE + 1024 * rng.randrange(4), _some(rng, 0, 8192, step), _some(rng, 0, 8192, step), 0, 0)


def _anything(rng: random.Random, swizzle: str, turned: bool) -> tuple[int, ...]:
    return (IMAGE + _some(rng, 0, 8192), _some(rng, 0, 8192), _some(rng, 0, 6144), rng.randrange(8), 0)


def _unaligned(rng: random.Random, swizzle: str, turned: bool) -> tuple[int, ...]:
    return (IMAGE + _some(rng, 0, 8192), _some(rng, 0, 8192), _some(rng, 0, 6144), 0, 0)


def _reserved(rng: random.Random, swizzle: str, turned: bool) -> tuple[int, ...]:
    bit = rng.choice((14, 15, 30, 31, 46, 47, 48, *range(52, 62)))
    return (IMAGE + 1024 * rng.randrange(8), *_dense(swizzle, turned), 0, 1 << bit)


KINDS = {
    "start inside a row of the pattern": _inside,
    "start at another row, base offset 0": _line,
    "start at another row, base offset by the formula": _formula,
    "aligned start, base offset not 0": _based,
    "any leading offset": _led,
    "offsets of any number of periods": _spaced,
    "any start and offsets, base offset 0": _unaligned,
    "any start, offsets and base offset": _anything,
    "a bit outside the fields set": _reserved,
}
