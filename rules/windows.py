"""Rules of convolution windows: who fills in zeros where they leave an image, and who walks them."""

from __future__ import annotations

from legalsat.logic import multiple_of
from legalsat.rule import Requirements, Source, require
from legalsat.rules.movement import CHIP
from legalsat.targets import Target
from legalsat.units.means import MEANS
from legalsat.units.sites import Movement, VectorAccess

COLUMNS = "im2col"
# The means that fill in zeros: the copy engine under a window, and threads, which load nothing there.
FILLING = tuple(one.name for one in MEANS.values() if one.windowed)
_IM2COL = "PTX ISA 9.1, 5.5.4, im2col mode"


@CHIP.rule(
    "WIN001",
    Source(_IM2COL, "padding").saying("zero fill or OOB-NaN fill can be performed based on the Fill-Mode specified"),
    refused_by="hardware",
)
def window_leaves_image(movement: Movement, target: Target) -> Requirements:
    """Where a window leaves its image, zeros are filled in: by im2col loads, or by threads that load nothing there.

    Every other means moves what lies at each word's place in memory, which is another row of the image or another
    image there, or no memory of the tensor at all.
    """
    yield require(
        not movement.leaves or movement.by in FILLING,
        "window leaves the image, and {means} reads what lies there",
        help="deliver by {filling}, or copy the images into padded ones first",
        means=movement.by,
        filling=" or ".join(FILLING),
    )


@CHIP.rule(
    "WIN002",
    Source("PTX ISA 9.1, 9.3, predicated execution", "channels").saying(
        "all instructions have an optional guard predicate which controls conditional execution of the instruction"
    ),
    refused_by="hardware",
)
def vector_straddles_pixels(access: VectorAccess, target: Target) -> Requirements:
    """A vector lies in an image or outside as a whole, since its load is carried out as a whole or not at all.

    So it holds channels of one pixel alone, where a window leaves the image.
    """
    if access.pixel_bits:
        yield require(
            multiple_of(access.pixel_bits, 8 * access.bytes),
            "vectors of {bytes} bytes straddle pixels of {pixel} bits, of which one may lie outside the image",
            help="move fewer bytes at a time, or pad the channels",
            bytes=access.bytes,
            pixel=access.pixel_bits,
        )


@CHIP.rule(
    "WIN003",
    Source(_IM2COL, "means").saying("the tensor data is treated as a batch of images"),
    refused_by="hardware",
)
def columns_without_window(movement: Movement, target: Target) -> Requirements:
    """Im2col loads walk the windows of a convolution over a batch of images, and nothing else."""
    yield require(
        movement.windows or movement.by != COLUMNS,
        "movement runs over no windows, and im2col walks nothing else",
        help="deliver the tile by other means",
    )
