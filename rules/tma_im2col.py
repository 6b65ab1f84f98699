"""Rules of im2col tensor maps alone: the column of pixels and the corners of the pixel box."""

from __future__ import annotations

from legalsat.logic import Value, ceil_div, choose, within
from legalsat.rule import Requirement, Requirements, Source, require
from legalsat.rules.tma import INTERLEAVE_NONE, MEASURED, TMA
from legalsat.targets import TmaLimits
from legalsat.units.sites import TmaCopy

_ENCODE = "cuda.h 13.0, cuTensorMapEncodeIm2col"
CORNER_BITS = {3: 16, 4: 8, 5: 5}  # of corners, signed, and of offsets, unsigned (FACTS IC-02, IC-06)


def wrap_int32(number: Value) -> Value:
    """Return the number's low 32 bits read as a signed integer."""
    return (number + 2**31) % 2**32 - 2**31


@TMA.rule("TMA040", Source(_ENCODE, "channels").saying("must be less than or equal to 256"), refused_by="driver")
def channels_out_of_range(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """An im2col copy takes 1 to 256 channels of each pixel."""
    if copy.tiled:
        return
    yield require(
        within(1, copy.channels, tma.max_channels),
        "{channels} channels per pixel, outside 1 to {limit}",
        help="copy the channels in slices of at most {limit}",
        channels=copy.channels,
        limit=tma.max_channels,
    )


@TMA.rule("TMA041", Source(_ENCODE, "pixels").saying("must be less than or equal to 1024"), refused_by="driver")
def pixels_out_of_range(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """An im2col copy takes 1 to 1024 pixels."""
    if copy.tiled:
        return
    yield require(
        within(1, copy.pixels, tma.max_pixels),
        "{pixels} pixels per column, outside 1 to {limit}",
        help="copy the column in pieces of at most {limit} pixels",
        pixels=copy.pixels,
        limit=tma.max_pixels,
    )


@TMA.rule(
    "TMA042",
    Source(MEASURED, "pixels").saying("accepted only if channels times pixels times element bytes is at most 233472"),
    refused_by="driver",
)
def column_too_large(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """The driver refuses im2col columns of more than 228 KiB; element strides play no part. No document says so."""
    if copy.tiled or tma.max_box_bytes is None:
        return
    volume = ceil_div(copy.channels * copy.pixels * copy.element_bits, 8)
    yield require(
        volume <= tma.max_box_bytes,
        "column has {bytes} bytes, more than {limit} bytes",
        help="take fewer pixels or channels, at most {limit} bytes",
        bytes=volume,
        limit=tma.max_box_bytes,
    )


@TMA.rule(
    "TMA043",
    Source(_ENCODE, "lower_corner").saying("must be in [-32768, 32767], [-128, 127], [-16, 15] for ranks 3, 4, 5"),
    refused_by="driver",
)
def corner_out_of_range(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """A corner coordinate fits into 16, 8 or 5 signed bits for ranks 3, 4 and 5."""
    if copy.rank not in CORNER_BITS:
        return
    half = 1 << (CORNER_BITS[copy.rank] - 1)
    for name, corner in (("lower", copy.lower_corner), ("upper", copy.upper_corner)):
        for axis, offset in enumerate(corner):
            yield require(
                within(-half, offset, half - 1),
                "{name} corner {axis} is {offset} pixels, outside {low} to {high}",
                help="bring the {name} corner into {low} to {high}; at rank {rank} wider padding needs an explicit pad",
                name=name,
                axis=axis,
                offset=offset,
                low=-half,
                high=half - 1,
                rank=copy.rank,
            )


@TMA.rule(
    "TMA046",
    Source("PTX ISA 9.1, 5.5.4.1", "offsets").saying("im2col offsets range: [0, 2^16-1], [0, 2^8-1], [0, 2^5-1]"),
    refused_by="document",
)
def offset_out_of_range(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """A tap's offset from the window's first one fits into 16, 8 or 5 bits for ranks 3, 4 and 5.

    The last tap lies dilation * (taps - 1) pixels from the first.
    """
    for axis, offset in enumerate(copy.offsets):
        largest = (1 << CORNER_BITS[copy.rank]) - 1
        yield require(
            within(0, offset, largest),
            "offset {axis} of the last tap is {offset} pixels, more than {largest}",
            help="take a smaller dilation or filter, so that no tap is more than {largest} pixels from the first",
            axis=axis,
            offset=offset,
            largest=largest,
        )


@TMA.rule(
    "TMA044",
    Source(_ENCODE, "upper_corner").saying("must have non-zero area"),
    refused_by="driver",
)
def pixel_box_empty(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """The corners leave at least one pixel in every spatial dimension: extent + upper corner > lower corner.

    Corners run from the fastest spatial dimension to the slowest (measured; the document lists D, H, W). Where the
    driver was measured, TMA045 says exactly what it computes.
    """
    if copy.rank not in CORNER_BITS or tma.measured:
        return
    for axis, (lower, upper) in enumerate(zip(copy.lower_corner, copy.upper_corner, strict=True)):
        extent = copy.global_dim[axis + 1]
        yield _wider(axis, extent, extent + upper, lower, upper)


@TMA.rule(
    "TMA045",
    Source(MEASURED, "upper_corner").saying(
        "accepted only if int32(extent + upper) > lower; with an interleave the extent is of one dimension further in"
    ),
    refused_by="driver",
)
def pixel_box_empty_as_computed(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """The driver's own test that the pixel box is not empty.

    It adds extent and upper corner in 32 bits, with wrap-around, so an extent of 2^31 - 1 with a positive upper corner
    counts as empty. With an interleave it compares the extent of the wrong dimension, one further in.
    """
    if copy.rank not in CORNER_BITS or not tma.measured:
        return
    for axis, (lower, upper) in enumerate(zip(copy.lower_corner, copy.upper_corner, strict=True)):
        extent = choose(copy.interleave == INTERLEAVE_NONE, copy.global_dim[axis + 1], copy.global_dim[axis])
        yield _wider(axis, extent, wrap_int32(extent + upper), lower, upper)


def _wider(axis: int, extent: Value, end: Value, lower: Value, upper: Value) -> Requirement:
    return require(
        end > lower,
        "pixel box is empty: extent {extent} with upper corner {upper} ends at {end}, not beyond lower corner {lower}",
        help="raise upper corner {axis} or reduce lower corner {axis}, so that at least one pixel remains",
        axis=axis,
        extent=extent,
        end=end,
        upper=upper,
        lower=lower,
    )
