"""Rules of one execution of a bulk copy: coordinates, shared memory, the barrier, and whether the map is the right one.

No call checks any of this. Ids as M-12 are those of the project's measured facts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from legalsat.analyses.copy_engine import smem_bytes, tx_bytes
from legalsat.analyses.described_memory import unlike
from legalsat.errors import InvalidInput
from legalsat.logic import multiple_of, pick, within
from legalsat.rule import Requirements, Source, require
from legalsat.rules.tma import TMA
from legalsat.targets import TmaLimits
from legalsat.units.blobs import MAP_BYTES
from legalsat.units.sites import TYPE_BITS, TmaCopy
from legalsat.units.tensor_copy import BulkCopy, TensorCopy
from legalsat.units.tensor_map import TensorMap, driver_value

_BULK = "PTX ISA 9.1, 9.7.9.25.4, cp.async.bulk"
_MAP_ALIGNMENT = 64  # bytes (FACTS TI-03)
_WORDS = frozenset({"u32", "s32", "u64", "s64"})
# Map types that each reduction takes (FACTS TI-19).
REDUCED = {
    "add": frozenset({"u32", "s32", "u64", "f32", "f32_ftz", "f16", "bf16"}),
    **dict.fromkeys(("min", "max"), _WORDS | {"f16", "bf16"}),
    **dict.fromkeys(("inc", "dec"), frozenset({"u32"})),
    **dict.fromkeys(("and", "or", "xor"), _WORDS),
}


def _measured(fact: str, field: str, quote: str) -> Source:
    return Source(f"measured on an H200, FACTS {fact}", field, quote)


def counted(count: Callable[[TensorMap], int], tm: TensorMap) -> int | None:
    """Return what the copy engine counts of a map's box; None for a map that has no meaning to it, or to our model."""
    try:
        return count(tm)
    except InvalidInput:
        return None


def bits_of(tm: TensorMap) -> int:
    """Return the bits of an element in global memory; those of the last type where the driver knows no such type."""
    bits: int = pick(TYPE_BITS, driver_value("dtype", tm.dtype))
    return bits


def step_of(tm: TensorMap, tma: TmaLimits) -> int:
    """Return the elements that innermost coordinates must be multiples of; 1 with interleave, which counts slices."""
    return 8 * tma.alignment // bits_of(tm) if tm.interleave == "none" else 1


def past_the_end(tm: TensorMap, tma: TmaLimits) -> int:
    """Return how many elements a store that reaches the inner extent's end writes past it."""
    if not tm.global_dim or tm.interleave != "none":
        return 0
    extent: int = tm.global_dim[0]
    return -extent * bits_of(tm) % (8 * tma.store_granule) // bits_of(tm)


@TMA.rule(
    "COPY001",
    _measured("M-12", "coordinate", "innermost coordinate whose bytes are not a multiple of 16: illegal instruction"),
    refused_by="hardware",
)
def inner_coordinate_misaligned(copy: TensorCopy, tma: TmaLimits) -> Requirements:
    """A copy begins at a multiple of 16 bytes within the innermost dimension, loads and stores alike.

    The kernel faults with "an illegal instruction was encountered". Other coordinates may be any.
    """
    if copy.coordinate:
        step = step_of(copy.tensor_map, tma)
        yield require(
            multiple_of(copy.coordinate[0], step),
            "innermost coordinate {first} begins inside {granule} bytes, which hold {step} elements",
            help="start at a multiple of {step} elements, or shift what is left over in registers",
            first=copy.coordinate[0],
            granule=tma.alignment,
            step=step,
        )


@TMA.rule(
    "COPY002",
    _measured("M-12", "coordinate", "negative coordinates: fine on loads, the same fault on stores in any dimension"),
    refused_by="hardware",
)
def stored_at_negative_coordinate(copy: TensorCopy, tma: TmaLimits) -> Requirements:
    """A store begins inside the tensor: coordinates below 0 are an illegal instruction, in any dimension.

    Loads may begin there and get zeros. Past the upper end a store is cut off.
    """
    if not copy.stores:
        return
    for dimension, first in enumerate(copy.coordinate or ()):
        yield require(
            first >= 0,
            "a store at coordinate {first} of dimension {dimension}",
            help="start stores at 0 or later, and shift the tile so that what lies before the tensor is left out",
            first=first,
            dimension=dimension,
        )


@TMA.rule(
    "COPY003",
    Source(
        "measured on an H200 (copy_engine_h200)",
        "coordinate",
        "an im2col start outside the pixel box is an illegal instruction",
    ),
    refused_by="hardware",
)
def columns_start_outside_pixel_box(copy: TensorCopy, tma: TmaLimits) -> Requirements:
    """A column of pixels begins inside the box that the corners span: from `lower` to extent - 1 + `upper`."""
    tm = copy.tensor_map
    if tm.mode == "tiled" or not copy.coordinate:
        return
    first = 0 if tm.interleave != "none" else 1
    for dimension, (lower, upper) in enumerate(zip(tm.lower_corner, tm.upper_corner, strict=True), start=first):
        last = tm.global_dim[dimension] - 1 + upper
        yield require(
            within(lower, copy.coordinate[dimension], last),
            "coordinate {start} of dimension {dimension} lies outside the pixel box, {lower} to {last}",
            help="start columns at pixels from {lower} to {last}",
            start=copy.coordinate[dimension],
            dimension=dimension,
            lower=lower,
            last=last,
        )


@TMA.rule(
    "COPY004",
    _measured("M-11", "shared_address", "destination or source in shared memory not 128-byte aligned: fault at launch"),
    refused_by="hardware",
)
def shared_address_misaligned(copy: TensorCopy, tma: TmaLimits) -> Requirements:
    """A box lies at a multiple of 128 bytes of shared memory; else the kernel ends in "misaligned address"."""
    if copy.shared_address is not None:
        yield require(
            multiple_of(copy.shared_address, tma.shared_alignment),
            "shared address {address} is no multiple of {alignment} bytes",
            help="move the buffer to a multiple of {wanted} bytes, as alignas({wanted}) does, and give every stage a "
            "multiple of that",
            address=copy.shared_address,
            alignment=tma.shared_alignment,
            wanted=max(tma.shared_alignment, 1 if copy.by_address else copy.pattern_bytes),
        )


@TMA.rule(
    "COPY005",
    _measured(
        "M-09",
        "shared_address",
        "the swizzle XOR follows the absolute shared address: a ^ (((a >> 7) & (2^b - 1)) << 4)",
    ),
    refused_by="hardware",
)
def tile_starts_inside_swizzle_pattern(copy: TensorCopy, tma: TmaLimits) -> Requirements:
    """A swizzled box begins where the swizzle's pattern does: at a multiple of 256, 512 or 1024 bytes.

    The copy engine swizzles absolute addresses. Whoever reckons the swizzle from the tile's start, as most kernels and
    matrix descriptors with base offset 0 do, finds other elements there, and nothing fails.
    """
    if copy.shared_address is not None and not copy.by_address:
        yield require(
            multiple_of(copy.shared_address, copy.pattern_bytes),
            "the tile begins {past} bytes inside the pattern of swizzle {swizzle}, which repeats every {period} bytes "
            "of absolute addresses: readers that swizzle from the tile's start find other elements",
            help="move the buffer to a multiple of {period} bytes, and give every stage a multiple of that",
            past=copy.shared_address % copy.pattern_bytes,
            swizzle=copy.tensor_map.swizzle,
            period=copy.pattern_bytes,
        )


@TMA.rule(
    "COPY006",
    _measured("M-10", "transaction_bytes", "bytes counted by the mbarrier are those of the full box"),
    refused_by="hardware",
)
def barrier_expects_other_bytes(copy: TensorCopy, tma: TmaLimits) -> Requirements:
    """A phase expects the bytes that its copies bring: the whole box, also where it lies outside the tensor.

    With more, it never ends: the kernel hangs. With fewer, it ends early, and readers find what lay there before. The
    padding of rows to the swizzle's span does not count. Stores signal no barrier: they complete in bulk groups.
    """
    one = counted(tx_bytes, copy.tensor_map)
    if copy.transaction_bytes is None or one is None:
        return
    told, real = copy.transaction_bytes, 0 if copy.stores else one * copy.copies
    brought = "stores bring none" if copy.stores else f"a copy brings {one}"
    brought += f", {copy.copies} of them {real}" if copy.copies > 1 and not copy.stores else ""
    yield require(
        told <= real,
        "the barrier expects {told} bytes, but {brought}: the phase never ends",
        help="wait for the store's bulk group instead" if copy.stores else "set the expected bytes to {real} a phase",
        told=told,
        brought=brought,
        real=real,
    )
    yield require(
        told >= real,
        "the barrier expects {told} bytes, but {brought}: the phase ends before the data are there",
        help="set the expected bytes to {real} a phase",
        told=told,
        brought=brought,
        real=real,
    )


@TMA.rule(
    "COPY007",
    _measured("M-08", "shared_bytes", "with a swizzle, rows of the box lie one swizzle span apart in shared memory"),
    refused_by="hardware",
)
def shared_buffer_too_small(copy: TensorCopy, tma: TmaLimits) -> Requirements:
    """The buffer in shared memory holds the whole box, with rows as far apart as the swizzle's span.

    With a swizzle, rows shorter than 32, 64 or 128 bytes are padded to that, although the barrier counts their own
    bytes alone. What the buffer lacks, the copy takes from whatever lies behind it.
    """
    needed, brought = counted(smem_bytes, copy.tensor_map), counted(tx_bytes, copy.tensor_map)
    if copy.shared_bytes is None or needed is None:
        return
    yield require(
        copy.shared_bytes >= needed,
        "the box takes {needed} bytes of shared memory{rows}, and its buffer has {held}: the copy {does} the {over} "
        "bytes behind it",
        help="give the buffer {needed} bytes",
        needed=needed,
        rows=f", in rows padded to the span of swizzle {copy.tensor_map.swizzle}" if needed != brought else "",
        held=copy.shared_bytes,
        does="stores" if copy.stores else "overwrites",
        over=needed - copy.shared_bytes,
    )


@TMA.rule(
    "COPY008",
    _measured(
        "M-13", "global_dim", "a store past the inner extent of the tensor writes up to the next 16-byte boundary"
    ),
    refused_by="hardware",
)
def store_overwrites_past_inner_extent(copy: TensorCopy, tma: TmaLimits) -> Requirements:
    """A store that reaches the end of a row overwrites what lies between there and the next multiple of 16 bytes.

    Rows past the end are dropped, but columns are cut in granules of 16 bytes alone. See TMA025 for movements.
    """
    tm = copy.tensor_map
    if not copy.stores or not tm.global_dim:
        return
    past = past_the_end(tm, tma) if _reaches_the_end(copy) else 0
    yield require(
        past == 0,
        "rows of {extent} elements end inside a {granule}-byte granule, so the store overwrites the {past} elements "
        "({bytes} bytes) behind each",
        help="give rows a multiple of {granule} bytes of their own, or store the last {tail} elements from registers",
        extent=tm.global_dim[0],
        granule=tma.store_granule,
        past=past,
        bytes=past * bits_of(tm) // 8,
        tail=8 * tma.store_granule // bits_of(tm) - past,
    )


def _reaches_the_end(copy: TensorCopy) -> bool:
    """Whether a store writes the last granule of a row, as far as its coordinate is known."""
    tm, start = copy.tensor_map, copy.coordinate
    if start is None:
        return True
    tiled = tm.mode == "tiled"
    if not start[0] < tm.global_dim[0] < start[0] + (tm.box[0] if tiled else tm.channels):
        return False
    return not tiled or all(first < extent for first, extent in zip(start, tm.global_dim, strict=True))


@TMA.rule(
    "COPY009",
    Source("PTX ISA 9.1, 9.7.9.27", "global_stride", "the order of overlapping writes is undefined"),
    refused_by="hardware",
)
def stored_elements_overlap(copy: TensorCopy, tma: TmaLimits) -> Requirements:
    """A store's elements each have memory of their own; where a stride is 0 or too small, writes race."""
    if not copy.stores or not copy.tensor_map.global_dim:
        return
    site = TmaCopy.of(copy.tensor_map)
    strides = site.global_stride
    outer = sorted(range(1, site.rank), key=lambda axis: strides[axis - 1])
    for axis, covered in enumerate(replace(site, by_stride=(0, *outer)).stepped_over, start=1):
        yield require(
            strides[axis - 1] >= covered or site.global_dim[axis] == 1,
            "stride of dimension {axis} is {stride} bytes, less than the {covered} it steps over, so stores overlap",
            help="give every element memory of its own before storing",
            axis=axis,
            stride=strides[axis - 1],
            covered=covered,
        )


@TMA.rule(
    "COPY010",
    Source(
        "cuda.h 13.0, cuTensorMapEncodeTiled",
        "global_stride",
        "specifies tensor stride of each of the lower tensorRank - 1 dimensions in bytes",
    ),
    refused_by="document",
)
def map_describes_other_memory(copy: TensorCopy, tma: TmaLimits) -> Requirements:
    """The map's extents and strides are those of the tensor, in any order, merged or split.

    Strides that were made up from the shape, as if the tensor were dense, miss a transposed or sliced view: the map is
    legal, and every copy brings other elements.
    """
    if copy.tensor is not None and copy.tensor_map.interleave == "none" and isinstance(copy.tensor_map.dtype, str):
        differs = unlike(copy.tensor_map, copy.tensor)
        yield require(
            not differs,
            "{differs}",
            help="take extents and strides from the tensor: tensor.size(), and tensor.stride() times the element size",
            differs=differs,
        )


@TMA.rule(
    "COPY011",
    Source("cuda.h 13.0, CUtensorMap", "map_pitch", "alignas(128) cuuint64_t opaque[CU_TENSOR_MAP_NUM_QWORDS]"),
    refused_by="document",
)
def maps_overlap(copy: TensorCopy, tma: TmaLimits) -> Requirements:
    """CUtensorMap objects in an array lie 128 bytes apart or more, as each takes 16 words of 8 bytes.

    Closer, each map overwrites the end of the one before it. The copy instruction wants multiples of 64 bytes.
    """
    if copy.map_pitch is not None:
        yield require(
            copy.map_pitch >= MAP_BYTES,
            "maps lie {pitch} bytes apart and take {size} each, so each overwrites {over} bytes of the one before it",
            help="give each map {size} bytes, sizeof(CUtensorMap)",
            pitch=copy.map_pitch,
            size=MAP_BYTES,
            over=MAP_BYTES - copy.map_pitch,
        )
        yield require(
            copy.map_pitch < MAP_BYTES or multiple_of(copy.map_pitch, _MAP_ALIGNMENT),
            "maps lie {pitch} bytes apart, no multiple of {alignment}",
            help="give each map {size} bytes, sizeof(CUtensorMap)",
            pitch=copy.map_pitch,
            alignment=_MAP_ALIGNMENT,
            size=MAP_BYTES,
        )


@TMA.rule(
    "COPY012",
    Source(
        "PTX ISA 9.1, 9.7.15.5 and 9.7.16.4, matrix descriptor", "read_as", "the swizzling mode used for the matrix"
    ),
    refused_by="hardware",
)
def read_with_other_swizzle(copy: TensorCopy, tma: TmaLimits) -> Requirements:
    """Whoever reads the tile undoes the swizzle that the map did, and whoever writes one for a store does the map's.

    Nothing fails where they differ: a matrix descriptor, or ldmatrix by addresses of another swizzle, takes elements
    from elsewhere in the tile.
    """
    if copy.read_as is not None:
        yield require(
            copy.read_as == copy.tensor_map.swizzle,
            "the map has swizzle {swizzle}, and the tile is {done} as swizzle {other}",
            help="set both to one swizzle: the map's, and the matrix descriptor's or that of the kernel's addresses",
            swizzle=copy.tensor_map.swizzle,
            done="written" if copy.stores else "read",
            other=copy.read_as,
        )


@TMA.rule(
    "COPY013",
    Source(
        "PTX ISA 9.1, 9.7.9.27, cp.reduce.async.bulk.tensor",
        "reduces",
        "the valid combinations of .redOp and element type",
    ),
    refused_by="document",
)
def reduction_of_unsupported_type(copy: TensorCopy, tma: TmaLimits) -> Requirements:
    """A reduction exists for some element types alone: there is none of 8-bit and of 16-bit integers.

    Add takes u32, s32, u64, f32, f16 and bf16; min and max the integers of 32 and 64 bits, f16 and bf16; inc and dec
    u32; and, or and xor words of 32 and 64 bits.
    """
    if copy.reduces is not None:
        types = REDUCED[copy.reduces]
        yield require(
            copy.tensor_map.dtype in types,
            "no {operation} reduction of {dtype}; there is one of {types}",
            help="convert to one of these types first, or store and reduce with atomic instructions",
            operation=copy.reduces,
            dtype=copy.tensor_map.dtype,
            types=", ".join(sorted(types)),
        )


@TMA.rule(
    "BULK001",
    Source(_BULK, "global_address", "The addresses dstMem and srcMem must be aligned to 16 bytes"),
    refused_by="hardware",
)
def bulk_address_misaligned(copy: BulkCopy, tma: TmaLimits) -> Requirements:
    """A bulk copy begins at multiples of 16 bytes on both sides; else the kernel ends in "misaligned address".

    An array in global memory is aligned to its elements alone unless it is declared otherwise or allocated.
    """
    for side, address in (("global", copy.global_address), ("shared", copy.shared_address)):
        yield require(
            address is None or multiple_of(address, tma.alignment),
            "{side} address {address} is no multiple of {alignment} bytes",
            help="declare the buffer alignas({alignment}), or start at a multiple of {alignment} bytes",
            side=side,
            address=address,
            alignment=tma.alignment,
        )


@TMA.rule(
    "BULK002",
    Source(_BULK, "bytes", "If the value is not a multiple of 16, then the behavior is undefined"),
    refused_by="document",
)
def bulk_size_misaligned(copy: BulkCopy, tma: TmaLimits) -> Requirements:
    """A bulk copy moves a multiple of 16 bytes; at other sizes its behaviour is undefined."""
    yield require(
        copy.bytes is None or multiple_of(copy.bytes, tma.alignment),
        "a bulk copy of {bytes} bytes, no multiple of {granule}",
        help="round the size down to a multiple of {granule} bytes, and copy the rest with loads and stores",
        bytes=copy.bytes,
        granule=tma.alignment,
    )


@TMA.rule(
    "BULK003",
    Source(
        _BULK,
        "swizzle",
        "from the location specified by source address operand srcMem to the location specified by destination address "
        "operand dstMem",
    ),
    refused_by="hardware",
)
def bulk_copy_of_swizzled_tile(copy: BulkCopy, tma: TmaLimits) -> Requirements:
    """A bulk copy without a tensor map knows no swizzle: a swizzled tile arrives in the order of its addresses.

    Reductions are no exception. The result is a tile whose 16-byte chunks are exchanged, and nothing fails.
    """
    yield require(
        copy.swizzle == "none",
        "the tile has swizzle {swizzle}, which a bulk copy without a tensor map moves as it lies",
        help="use cp{reduce}.async.bulk.tensor, whose map names swizzle {swizzle}, or keep the tile without a swizzle",
        swizzle=copy.swizzle,
        reduce=".reduce" if copy.reduces else "",
    )
