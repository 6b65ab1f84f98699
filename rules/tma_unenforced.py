"""What the encode call lets pass: rules of documents alone, and accepted maps that fail later on the hardware."""

from __future__ import annotations

from legalsat.logic import ceil_div, choose, implies, pick, product
from legalsat.rule import Requirements, Source, Unit, require
from legalsat.rules.tma import (
    ELEMENT_STRIDE,
    GLOBAL_STRIDE,
    INTERLEAVE_32B,
    INTERLEAVE_NONE,
    SWIZZLE,
    TMA,
)
from legalsat.targets import Target, TmaLimits
from legalsat.units.sites import SWIZZLE_SPANS, TmaCopy
from legalsat.units.tensor_map import SWIZZLES

SHARED_MEMORY = Unit("shared memory", lambda target: target if target.tma else None)
SWIZZLE_32B = SWIZZLES.index("32B")
DOCUMENTED_EXTENT = 2**31


@TMA.rule(
    "TMA018",
    Source("cuda.h 13.5, cuTensorMapEncodeTiled", "global_dim").saying("less than or equal to 2^31"),
    refused_by="document",
    level="warning",
)
def global_extent_beyond_2_31(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """An extent above 2^31 cannot be reached: coordinates are signed 32-bit numbers.

    Drivers up to 13.4 accept extents up to 2^32; the document of 13.5 lowers the limit to 2^31.
    """
    for axis, extent in enumerate(copy.global_dim):
        yield require(
            extent <= DOCUMENTED_EXTENT,
            "global extent of {axis} is {extent} elements, but coordinates end at 2^31 - 1",
            help="split {axis}, so that every coordinate fits 31 bits",
            axis=copy.named(axis),
            extent=extent,
        )


@TMA.rule(
    "TMA019",
    Source("cuda.h 13.0, cuTensorMapEncodeTiled", "map_offset").saying("tensorMap address must be aligned to 64 bytes"),
    refused_by="hardware",
)
def map_object_misaligned(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """The CUtensorMap object itself lies at a multiple of 64 bytes where copies read it.

    The encode call writes it anywhere and says nothing (FACTS M-03). The copy instruction, which reads it from a kernel
    parameter, constant or global memory, faults on an object that lies elsewhere.
    """
    yield require(
        copy.map_offset % 64 == 0,
        "CUtensorMap object is {offset} bytes off 128-byte alignment",
        help="declare it alignas(128), as cuda.h 13.0 does",
        offset=copy.map_offset,
    )


@TMA.rule(
    "TMA020",
    SWIZZLE.saying("when interleave is CU_TENSOR_MAP_INTERLEAVE_32B, swizzle must be CU_TENSOR_MAP_SWIZZLE_32B"),
    refused_by="document",
    level="warning",
)
def interleave_32b_without_swizzle_32b(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """Documents tie interleave 32B to swizzle 32B; the measured driver accepts every swizzle with it."""
    if tma.measured:
        yield require(
            implies(copy.interleave == INTERLEAVE_32B, copy.swizzle == SWIZZLE_32B),
            "interleave 32B with swizzle {swizzle}; documents allow swizzle 32B alone",
            help="use swizzle 32B, which every driver must accept",
            swizzle=copy.swizzle,
        )


@TMA.rule(
    "TMA036",
    SWIZZLE.saying("when interleave is CU_TENSOR_MAP_INTERLEAVE_32B, swizzle must be CU_TENSOR_MAP_SWIZZLE_32B"),
    refused_by="driver",
)
def interleave_32b_needs_swizzle_32b(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """Interleave 32B needs swizzle 32B, where nobody measured the driver and the document is all there is."""
    if not tma.measured:
        yield require(
            implies(copy.interleave == INTERLEAVE_32B, copy.swizzle == SWIZZLE_32B),
            "interleave 32B with swizzle {swizzle}",
            help="use swizzle 32B",
            swizzle=copy.swizzle,
        )


@SHARED_MEMORY.rule(
    "TMA021",
    Source("measured on an H200 (smem_images), FACTS M-08", "box").saying(
        "rows of the box lie one swizzle span apart in shared memory, whatever the inner extent"
    ),
    refused_by="hardware",
)
def box_overflows_shared_memory(copy: TmaCopy, target: Target) -> Requirements:
    """The box needs more shared memory than a block can have, although the encode call accepts it.

    With a swizzle each row takes a whole span of 32, 64 or 128 bytes; the barrier counts the inner bytes alone. An
    element stride of s moves ceil(extent / s) elements.
    """
    if copy.rank < 1:
        return
    if copy.tiled:
        steps = [choose(step == 0, 1, step) for step in copy.element_stride[1:]]
        rows = product([ceil_div(extent, step) for extent, step in zip(copy.box[1:], steps, strict=True)])
    else:
        rows = copy.pixels
    span = pick(SWIZZLE_SPANS, copy.swizzle)
    padded = (copy.swizzle != 0) & (copy.inner_bytes <= span) & (copy.interleave == INTERLEAVE_NONE)
    needed = rows * choose(padded, span, copy.inner_bytes)
    yield require(
        needed <= target.shared_bytes_per_block,
        "box takes {bytes} bytes of shared memory, more than the {limit} bytes of a block",
        help="split the box so that rows times row pitch is at most {limit} bytes",
        bytes=needed,
        limit=target.shared_bytes_per_block,
    )


@TMA.rule(
    "TMA022",
    ELEMENT_STRIDE.saying("when interleave is none, the first element of this array is ignored"),
    refused_by="document",
    level="warning",
)
def inner_element_stride_ignored(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """An element stride in dimension 0 does nothing without interleave: the copy takes every element."""
    if copy.rank < 1:
        return
    yield require(
        implies(copy.interleave == INTERLEAVE_NONE, copy.element_stride[0] == 1),
        "element stride of dimension 0 is {step}, but it is ignored without interleave",
        help="set it to 1; to skip elements, make the step a dimension of its own",
        step=copy.element_stride[0],
    )


@TMA.rule(
    "TMA023",
    GLOBAL_STRIDE.saying("each following dimension specified includes previous dimension stride"),
    refused_by="document",
    level="warning",
)
def elements_overlap(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """Elements share memory because a stride is smaller than what it steps over (stride 0 broadcasts).

    Loads are well defined and the driver accepts them; stores and reductions race.
    """
    if copy.rank < 1:
        return
    for axis, (stride, covered) in enumerate(zip(copy.global_stride, copy.stepped_over, strict=True), start=1):
        yield require(
            (stride >= covered) | (copy.global_dim[axis] == 1),
            "stride of {axis} is {stride} bytes, less than the {covered} bytes it steps over",
            help="load only; before storing, give every element memory of its own",
            axis=copy.named(axis),
            stride=stride,
            covered=covered,
        )
