"""Rules of movements by granules: kernels that read a tensor once and write it once, whatever their rows begin at."""

from __future__ import annotations

from legalsat.rule import Requirements, Source, require
from legalsat.rules.movement import CHIP
from legalsat.targets import Target
from legalsat.units.sites import GranuleMove, Movement

GRANULES = "granules"
MOST_AXES = 5  # besides those that run fastest
SPAN_LIMIT = 2**31  # of what the kernels divide
_PTX = Source("PTX ISA 9.1, 9.7.1, mul", "shape")


@CHIP.rule(
    "GRAN001",
    Source("PTX ISA 9.1, 9.7.9.25.3, cp.async", "tile").saying("cp-size can only be 4, 8 and 16"),
    refused_by="document",
)
def granules_kept_for_nobody(movement: Movement, target: Target) -> Requirements:
    """Granules go on to the target as soon as they are there, in blocks of their own: no tile is left for a reader.

    In shared memory they lie as in the source, wherever rows begin, which is no place that a reader could name.
    """
    yield require(
        movement.by != GRANULES or not (movement.read or movement.tile or movement.windows),
        "granules of 16 bytes lie in shared memory as in the source, and no tile is kept there",
        help="deliver by other means, or leave out tile, consumer and windows",
    )


@CHIP.rule("GRAN002", _PTX.saying("either the upper or lower half of the result is written"), refused_by="document")
def granules_uncounted(move: GranuleMove, target: Target) -> Requirements:
    """Kernels that move granules divide numbers below 2^31, along up to 5 axes besides those that run fastest.

    They divide by a product's upper half, exact below 2^31; a padding keeps the axis that runs fastest.
    """
    yield require(
        move.axes <= MOST_AXES,
        "{axes} axes do not merge with those that run fastest, more than {most}",
        help="split the movement along an axis, or deliver by other means",
        axes=move.axes,
        most=MOST_AXES,
    )
    yield require(
        move.units < SPAN_LIMIT,
        "{units} units of work, and the kernel counts below {limit}",
        help="split the movement in two",
        units=move.units,
        limit=SPAN_LIMIT,
    )
    yield require(
        not move.turned_padding,
        "padding runs fastest along another axis than its source",
        help="transpose first, then pad",
    )
