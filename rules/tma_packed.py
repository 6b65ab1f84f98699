"""Rules of the packed 4- and 6-bit data types (compute capability 10.0 and later; documents only)."""

from __future__ import annotations

from legalsat.logic import all_of, among, implies, multiple_of
from legalsat.rule import Requirements, require
from legalsat.rules.tma import ADDRESS, BOX_DIM, GLOBAL_DIM, GLOBAL_STRIDE, INTERLEAVE, INTERLEAVE_NONE, SWIZZLE, TMA
from legalsat.targets import TmaLimits
from legalsat.units.sites import TmaCopy

ALIGN8_4BIT, ALIGN16_4BIT, ALIGN16_6BIT = 13, 14, 15
ALIGN16 = (ALIGN16_4BIT, ALIGN16_6BIT)
PACKED_BOX = 128  # elements
# Shared memory of a CTA cannot tell a load from a store here, so the store-only 64-byte atom of 6-bit types counts.
SWIZZLES_OF_4BIT = (0, 3, 4)
SWIZZLES_OF_6BIT = (0, 3, 4, 6)


@TMA.rule("TMA030", GLOBAL_DIM.saying("globalDim[0] must be a multiple of 128"), refused_by="driver")
def packed_inner_extent_ragged(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """The innermost extent of a packed type is whole groups: 128 elements with 16-byte groups, 2 with 8-byte ones."""
    if copy.rank < 1:
        return
    inner = copy.global_dim[0]
    yield require(
        all_of(
            implies(among(copy.dtype, ALIGN16), multiple_of(inner, PACKED_BOX)),
            implies(copy.dtype == ALIGN8_4BIT, multiple_of(inner, 2)),
        ),
        "innermost extent of {inner} packed elements is not whole groups",
        help="pad the innermost extent to a multiple of 128 elements (2 for 16u4_align8b)",
        inner=inner,
    )


@TMA.rule("TMA031", ADDRESS.saying("must be 32 byte aligned"), refused_by="driver")
def packed_address_misaligned(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """The base address of a type with 16-byte groups is a multiple of 32 bytes."""
    yield require(
        implies(among(copy.dtype, ALIGN16), multiple_of(copy.address, 32)),
        "address {address} of a packed tensor is no multiple of 32 bytes",
        help="start the slice at a multiple of 32 bytes, or copy it to a fresh allocation",
        address=copy.address,
    )


@TMA.rule("TMA032", GLOBAL_STRIDE.saying("the strides must be a multiple of 32"), refused_by="driver")
def packed_stride_misaligned(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """The strides of a type with 16-byte groups are multiples of 32 bytes."""
    for axis, stride in enumerate(copy.global_stride, start=1):
        yield require(
            implies(among(copy.dtype, ALIGN16), multiple_of(stride, 32)),
            "stride of {axis} is {stride} bytes, no multiple of 32, with a packed data type",
            help="pad {axis} to a stride that is a multiple of 32 bytes",
            axis=copy.named(axis),
            stride=stride,
        )


@TMA.rule("TMA033", BOX_DIM.saying("boxDim[0] must be 128"), refused_by="driver")
def packed_box_not_128(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """The innermost box dimension of a type with 16-byte groups is 128 elements."""
    yield require(
        implies(among(copy.dtype, ALIGN16), copy.inner_extent == PACKED_BOX),
        "innermost box dimension has {extent} packed elements, not 128",
        help="set the innermost box dimension to 128",
        extent=copy.inner_extent,
    )


@TMA.rule("TMA034", SWIZZLE.saying("only the following swizzle modes are supported"), refused_by="driver")
def packed_swizzle_unsupported(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """Types with 16-byte groups allow no swizzle, 128B and 128B_atom_32B; six-bit stores also 128B_atom_64B."""
    yield require(
        all_of(
            implies(copy.dtype == ALIGN16_4BIT, among(copy.swizzle, SWIZZLES_OF_4BIT)),
            implies(copy.dtype == ALIGN16_6BIT, among(copy.swizzle, SWIZZLES_OF_6BIT)),
        ),
        "swizzle {swizzle} with packed data type {dtype}",
        help="use swizzle none, 128B or 128B_atom_32B",
        swizzle=copy.swizzle,
        dtype=copy.dtype,
    )


@TMA.rule("TMA035", INTERLEAVE.saying("requires interleave to be CU_TENSOR_MAP_INTERLEAVE_NONE"), refused_by="driver")
def packed_6bit_interleaved(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """The six-bit type has no interleaved layout."""
    yield require(
        implies(copy.dtype == ALIGN16_6BIT, copy.interleave == INTERLEAVE_NONE),
        "interleave {interleave} with the packed six-bit type",
        help="use interleave none",
        interleave=copy.interleave,
    )
