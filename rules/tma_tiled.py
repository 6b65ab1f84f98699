"""Rules of tiled tensor maps alone: the box."""

from __future__ import annotations

from legalsat.logic import ceil_div, choose, product, within
from legalsat.rule import Requirements, Source, require
from legalsat.rules.tma import BOX_DIM, MEASURED, TMA
from legalsat.targets import TmaLimits
from legalsat.units.sites import TmaCopy


@TMA.rule("TMA003", BOX_DIM.saying("must be non-zero and less than or equal to 256"), refused_by="driver")
def box_extent_out_of_range(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """A TMA box spans 1 to 256 elements on every axis.

    The limit counts elements, not bytes. A larger tile is legal as several boxes.
    """
    for axis, extent in enumerate(copy.box):
        yield require(
            within(1, extent, tma.max_box_extent),
            "box axis {axis} has {extent} elements, outside 1 to {limit}",
            help="split axis {axis} into boxes of at most {limit} elements",
            axis=copy.numbered(axis),
            extent=extent,
            limit=tma.max_box_extent,
        )


@TMA.rule(
    "TMA017",
    Source(MEASURED, "box").saying(
        "accepted only if element bytes times the product of floor(boxDim[i] / elementStrides[i]) is at most 233472"
    ),
    refused_by="driver",
)
def box_too_large(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """The driver refuses boxes of more than 228 KiB, counted in a way of its own; no document says so.

    It rounds box extent over element stride *down*, in dimension 0 too, so that an element stride beyond its box
    extent makes any box pass. What the copy really moves is more (rounded up, dimension 0 whole): see TMA021.
    """
    if tma.max_box_bytes is None or not copy.tiled:
        return
    # A step of 0 is for TMA007 to refuse; here it must not divide.
    steps = [extent // choose(step == 0, 1, step) for extent, step in zip(copy.box, copy.element_stride, strict=True)]
    volume = ceil_div(product(steps) * copy.element_bits, 8)
    yield require(
        volume <= tma.max_box_bytes,
        "box has {bytes} bytes by the driver's count, more than {limit} bytes",
        help="split the box so that it takes at most {limit} bytes",
        bytes=volume,
        limit=tma.max_box_bytes,
    )
