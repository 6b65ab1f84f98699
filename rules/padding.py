"""Rules of paddings: who fills in what the source does not have, and where a box may begin in front of it."""

from __future__ import annotations

from legalsat.logic import multiple_of
from legalsat.rule import Requirements, Source, require
from legalsat.rules.movement import CHIP
from legalsat.rules.tma import TMA
from legalsat.targets import Target, TmaLimits
from legalsat.units.means import MEANS
from legalsat.units.sites import Movement, TmaCopy

FILLS_ZEROS, FILLS = (tuple(one.name for one in MEANS.values() if one.pads == what) for what in ("zeros", "anything"))
_OUTSIDE = Source("measured on an H200, FACTS M-10", "padding")


@CHIP.rule(
    "PAD001",
    _OUTSIDE.saying("outside elements arrive as zero, or as 0x7ff7_7ff7 (f32, NaN fill)"),
    refused_by="hardware",
)
def padding_read_from_memory(movement: Movement, target: Target) -> Requirements:
    """What lies around a padding's source is filled in: by the copy engine beyond its tensor map, or by threads.

    Every other means moves what lies at each word's place in memory, which is another row of the source there, or no
    memory of the tensor at all.
    """
    yield require(
        not movement.padding or movement.by in (*FILLS_ZEROS, *FILLS),
        "padding is no memory of the source, and {means} reads what lies there",
        help="deliver by {zeros} or {fills}",
        means=movement.by,
        zeros=" or ".join(FILLS_ZEROS),
        fills=" or ".join(FILLS),
    )


@CHIP.rule(
    "PAD002",
    _OUTSIDE.saying("outside elements arrive as zero, or as 0x7ff7_7ff7 (f32, NaN fill)"),
    refused_by="hardware",
)
def padding_of_no_zeros(movement: Movement, target: Target) -> Requirements:
    """The copy engine fills in zeros beyond a tensor, so that a padding with another value is stored by threads."""
    yield require(
        movement.zeros or movement.by not in FILLS_ZEROS,
        "padding is not with zeros, which {means} fills in",
        help="deliver by {fills}, or pad with 0",
        means=movement.by,
        fills=FILLS,
    )


@TMA.rule(
    "TMA029",
    Source("measured on an H200, FACTS M-12", "padding").saying(
        "innermost coordinate whose bytes are not a multiple of 16: an illegal instruction was encountered"
    ),
    refused_by="hardware",
)
def box_begins_inside_granule(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """A box begins at a multiple of 16 bytes of a row, counted from the tensor's first element, also in front of it.

    So a padding by boxes has a multiple of 16 bytes in front of each row. What it has behind does not matter.
    """
    if copy.before:
        yield require(
            multiple_of(copy.before[0] * copy.element_bits, 8 * tma.alignment),
            "boxes begin {before} elements of {bits} bits in front of rows, which is no multiple of {granule} bytes",
            help="pad the front of rows by a multiple of {granule} bytes, or move them by threads",
            before=copy.before[0],
            bits=copy.element_bits,
            granule=tma.alignment,
        )
