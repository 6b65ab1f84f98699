"""Rules that every tensor map obeys, tiled and im2col alike: type, address, extents, strides, steps, swizzle."""

from __future__ import annotations

from legalsat.logic import among, choose, implies, multiple_of, pick, within
from legalsat.rule import Requirements, Source, Unit, require
from legalsat.targets import TmaLimits
from legalsat.units.sites import SWIZZLE_SPANS, TmaCopy
from legalsat.units.tensor_map import INTERLEAVES, L2_PROMOTIONS, MAP_TYPES, OOB_FILLS, SWIZZLES

TMA = Unit("tma", lambda target: target.tma)
MEASURED = "measured on an H200, driver API 13.0 (tensor_map_verdicts)"
_ENCODE = "cuda.h 13.0, cuTensorMapEncodeTiled"
DATA_TYPE = Source(_ENCODE, "dtype")
RANK = Source(_ENCODE, "rank")
ADDRESS = Source(_ENCODE, "address")
GLOBAL_DIM = Source(_ENCODE, "global_dim")
GLOBAL_STRIDE = Source(_ENCODE, "global_stride")
BOX_DIM = Source(_ENCODE, "box")
ELEMENT_STRIDE = Source(_ENCODE, "element_stride")
INTERLEAVE = Source(_ENCODE, "interleave")
SWIZZLE = Source(_ENCODE, "swizzle")
L2_PROMOTION = Source(_ENCODE, "l2_promotion")
OOB_FILL = Source(_ENCODE, "oob_fill")

INTERLEAVE_NONE, INTERLEAVE_32B = INTERLEAVES.index("none"), INTERLEAVES.index("32B")
FILL_NAN = OOB_FILLS.index("nan")
FLOAT_TYPES = [i for i, t in enumerate(MAP_TYPES) if t.is_float]


def granule(copy: TmaCopy, tma: TmaLimits) -> object:
    """Return the bytes that addresses and strides must be multiples of: twice as many with interleave 32B."""
    return choose(copy.interleave == INTERLEAVE_32B, 2 * tma.alignment, tma.alignment)


@TMA.rule(
    "TMA001", RANK.saying("must be non-zero and less than or equal to the maximum supported"), refused_by="driver"
)
def rank_out_of_range(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """A tensor map has 1 to 5 dimensions, and 3 to 5 for im2col.

    Modes that are contiguous can be merged and modes of extent 1 dropped, so a tensor of higher rank often has a
    legal map all the same.
    """
    low = 1 if copy.tiled else 3
    yield require(
        low <= copy.rank <= tma.max_rank,
        "map has {rank} dimensions, outside {low} to {high}",
        help="merge contiguous dimensions or drop those of extent 1, to get {low} to {high}",
        rank=copy.rank,
        low=low,
        high=tma.max_rank,
    )


@TMA.rule("TMA002", GLOBAL_DIM.saying("must be non-zero and less than or equal to 2^32"), refused_by="driver")
def global_extent_out_of_range(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """A global extent lies in 1 to 2^32 elements.

    An empty tensor needs no copy; a larger one is cut into pieces with an address each.
    """
    for axis, extent in enumerate(copy.global_dim):
        yield require(
            within(1, extent, tma.max_extent),
            "global extent of {axis} is {extent} elements, outside 1 to {limit}",
            help="split {axis} into tensors of at most {limit} elements, and skip empty ones",
            axis=copy.named(axis),
            extent=extent,
            limit=tma.max_extent,
        )


@TMA.rule("TMA004", ADDRESS.saying("must be 16 byte aligned; 32 with interleave 32B"), refused_by="driver")
def address_misaligned(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """The tensor's base address is a multiple of 16 bytes, of 32 with interleave 32B.

    Slices such as `x[1:]` or `x[:, 3:]` often break this. A null address is accepted, to be replaced later.
    """
    yield require(
        multiple_of(copy.address, granule(copy, tma)),
        "address {address} is no multiple of {granule} bytes",
        help="start the slice at a multiple of {granule} bytes, or copy it to a fresh allocation",
        address=copy.address,
        granule=granule(copy, tma),
    )


@TMA.rule("TMA005", GLOBAL_STRIDE.saying("must be a multiple of 16; 32 with interleave 32B"), refused_by="driver")
def stride_misaligned(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """Every stride but the innermost is a multiple of 16 bytes, of 32 with interleave 32B.

    This is the usual reason why a row-major matrix with an odd number of columns has no tensor map. Padding each
    row to the next multiple makes it legal.
    """
    for axis, stride in enumerate(copy.global_stride, start=1):
        yield require(
            multiple_of(stride, granule(copy, tma)),
            "stride of {axis} is {stride} bytes, no multiple of {granule}",
            help="pad {axis} to a stride that is a multiple of {granule} bytes",
            axis=copy.named(axis),
            stride=stride,
            granule=granule(copy, tma),
        )


@TMA.rule("TMA006", GLOBAL_STRIDE.saying("must be less than 2^40"), refused_by="driver")
def stride_too_large(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """A stride is less than 2^40 bytes."""
    for axis, stride in enumerate(copy.global_stride, start=1):
        yield require(
            stride < tma.max_stride,
            "stride of {axis} is {stride} bytes, not below {limit}",
            help="split {axis} into tensors with an address each",
            axis=copy.named(axis),
            stride=stride,
            limit=tma.max_stride,
        )


@TMA.rule("TMA007", ELEMENT_STRIDE.saying("must be non-zero and less than or equal to 8"), refused_by="driver")
def element_stride_out_of_range(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """An element stride lies in 1 to 8, in dimension 0 too although it is ignored there without interleave.

    A larger step fits into the global stride of its dimension instead.
    """
    for axis, step in enumerate(copy.element_stride):
        yield require(
            within(1, step, tma.max_element_stride),
            "element stride of dimension {axis} is {step}, outside 1 to {limit}",
            help="set element stride {axis} to 1 and multiply the global stride instead"
            if copy.tiled
            else "move windows by {limit} pixels at most, or load columns without im2col",
            axis=axis,
            step=step,
            limit=tma.max_element_stride,
        )


@TMA.rule("TMA008", BOX_DIM.saying("boxDim[0] times element size must be a multiple of 16 bytes"), refused_by="driver")
def inner_box_not_whole_granules(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """The innermost box dimension takes a multiple of 16 bytes.

    The document asks this only without interleave; the driver asks it always, and no more than that with interleave.
    """
    applies = True if tma.measured else copy.interleave == INTERLEAVE_NONE
    yield require(
        implies(applies, multiple_of(copy.inner_bits, 8 * tma.alignment)),
        "innermost box dimension takes {bytes} bytes, no multiple of {granule} bytes",
        help="round the innermost box dimension up to a multiple of {granule} bytes; what lies outside is filled",
        bytes=copy.inner_bytes,
        granule=tma.alignment,
    )


@TMA.rule(
    "TMA009", SWIZZLE.saying("inner dimension must be less than or equal to the swizzle size"), refused_by="driver"
)
def inner_box_exceeds_swizzle_span(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """Without interleave, the innermost box dimension fits into the swizzle's span of 32, 64 or 128 bytes.

    A wider tile is legal as several boxes side by side.
    """
    span = pick(SWIZZLE_SPANS, copy.swizzle)
    yield require(
        implies((copy.interleave == INTERLEAVE_NONE) & (copy.swizzle != 0), copy.inner_bits <= 8 * span),
        "innermost box dimension takes {bytes} bytes, more than the swizzle span of {span} bytes",
        help="split the innermost dimension into boxes of {span} bytes, or take a wider swizzle",
        bytes=copy.inner_bytes,
        span=span,
    )


@TMA.rule("TMA010", DATA_TYPE.saying("has to be an enum from CUtensorMapDataType"), refused_by="driver")
def data_type_unsupported(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """The data type exists on the target: the packed 4- and 6-bit types need compute capability 10.0.

    Bytes can always be moved as u8.
    """
    yield require(
        within(0, copy.dtype, tma.map_types - 1),
        "data type {dtype} does not exist here; the last is {last}",
        help="move the bytes as u8, two 4-bit elements to each",
        dtype=copy.dtype,
        last=MAP_TYPES[tma.map_types - 1].name,
    )


@TMA.rule("TMA011", SWIZZLE.saying("has to be of type CUtensorMapSwizzle"), refused_by="driver")
def swizzle_unsupported(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """The swizzle exists on the target: 128B swizzles with atoms of 32 or 64 bytes need compute capability 10.0."""
    yield require(
        within(0, copy.swizzle, tma.swizzles - 1),
        "swizzle {swizzle} does not exist here; the last is {last}",
        help="use swizzle {last} or a narrower one",
        swizzle=copy.swizzle,
        last=SWIZZLES[tma.swizzles - 1],
    )


@TMA.rule(
    "TMA012", INTERLEAVE.saying("specifies the interleaved layout of type CUtensorMapInterleave"), refused_by="driver"
)
def interleave_unknown(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """The interleave is none, 16B or 32B."""
    yield require(
        within(0, copy.interleave, len(INTERLEAVES) - 1),
        "interleave {interleave} does not exist",
        help="use none, 16B or 32B",
        interleave=copy.interleave,
    )


@TMA.rule("TMA013", L2_PROMOTION.saying("must be of type CUtensorMapL2promotion"), refused_by="driver")
def l2_promotion_unknown(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """The L2 promotion is none, 64B, 128B or 256B."""
    yield require(
        within(0, copy.l2_promotion, len(L2_PROMOTIONS) - 1),
        "L2 promotion {promotion} does not exist",
        help="use none, 64B, 128B or 256B",
        promotion=copy.l2_promotion,
    )


@TMA.rule("TMA014", OOB_FILL.saying("must be of type CUtensorMapFloatOOBfill"), refused_by="driver")
def oob_fill_unknown(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """The fill of out-of-bounds elements is zero or NaN."""
    yield require(
        within(0, copy.oob_fill, len(OOB_FILLS) - 1),
        "out-of-bounds fill {fill} does not exist",
        help="use zero or nan",
        fill=copy.oob_fill,
    )


@TMA.rule(
    "TMA015",
    OOB_FILL.saying("can only be used when tensorDataType represents a floating-point type"),
    refused_by="driver",
)
def nan_fill_of_integers(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """NaN fill needs a floating-point data type; fp8 travels as u8 and so cannot have it."""
    yield require(
        implies(copy.oob_fill == FILL_NAN, among(copy.dtype, FLOAT_TYPES)),
        "NaN fill with data type {dtype}, which is no floating-point type",
        help="fill with zero, or pick a floating-point data type",
        dtype=copy.dtype,
    )


@TMA.rule(
    "TMA016",
    RANK.saying("if interleave is not none, must additionally be greater than or equal to 3"),
    refused_by="driver",
)
def interleave_below_rank_3(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """Interleaved layouts (NC/8HWC8 and the like) have at least 3 dimensions."""
    yield require(
        implies(copy.interleave != INTERLEAVE_NONE, copy.rank >= 3),
        "interleave {interleave} with {rank} dimensions, fewer than 3",
        help="use interleave none, or split a dimension to get 3",
        interleave=copy.interleave,
        rank=copy.rank,
    )
