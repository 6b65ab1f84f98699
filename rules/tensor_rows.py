"""Rules of tensors as frameworks encode them: an axis of one element has a stride too, which reaches the driver."""

from __future__ import annotations

from legalsat.logic import all_of, multiple_of
from legalsat.rule import Requirements, require
from legalsat.rules.tma import GLOBAL_STRIDE, TMA
from legalsat.targets import TmaLimits
from legalsat.units.sites import UnitAxes


@TMA.rule(
    "TMA037",
    GLOBAL_STRIDE.saying(
        "must be a multiple of 16 and less than 2^40, for a dimension of one element as for any other"
    ),
    refused_by="document",
    level="warning",
)
def unit_axis_stride_misaligned(rows: UnitAxes, tma: TmaLimits) -> Requirements:
    """An axis of one element may have any stride, which means nothing; the driver judges it like any other.

    Frameworks leave such strides as slicing and `unsqueeze` made them, often 1 element, and most encoders hand them on:
    the encode call then fails for a tensor that no copy could misread. Whoever encodes the map is free to write another
    stride there; a tensor whose stride is a multiple of 16 bytes is safe with every encoder.
    """
    for axis, stride in zip(rows.axes, rows.strides, strict=True):
        yield require(
            all_of(multiple_of(stride, 8 * tma.alignment), stride < 8 * tma.max_stride),
            "stride of axis {axis}, which has 1 element, is {bytes} bytes: refused where it reaches the encode call",
            help="give axis {axis} a stride of a multiple of {granule} bytes, which moves nothing",
            axis=axis,
            bytes=stride // 8 if stride % 8 == 0 else stride / 8,
            granule=tma.alignment,
        )
