"""Rules of a tile that tcgen05 is to read from shared memory: types, rows, which axis runs fastest, the swizzle."""

from __future__ import annotations

from legalsat.logic import among, implies
from legalsat.rule import Requirements, Source, Unit, require
from legalsat.rules.tma import TMA
from legalsat.rules.wgmma import require_rows, require_type
from legalsat.targets import GRANULE_BYTES, Tcgen05Limits, TmaLimits
from legalsat.units.sites import Movement, TmaCopy
from legalsat.units.tensor_map import SWIZZLES

TCGEN05 = Unit("tcgen05", lambda target: target.tcgen05)
_PTX = "PTX ISA 9.1, 9.7.16, tcgen05"
# Codes of swizzles that keep 16 bytes together, and 32.
_NARROW = tuple(code for code, name in enumerate(SWIZZLES) if "atom" not in name)
_WIDE = (SWIZZLES.index("128B_atom_32B"),)
ROWS = {"tcgen05.a": 64, "tcgen05.b": 8}


@TCGEN05.rule(
    "TILE001",
    Source(_PTX, "dtype").saying(".kind::f16, .kind::tf32, .kind::f8f6f4, .kind::i8"),
    refused_by="hardware",
)
def tile_type_unsupported(movement: Movement, tcgen05: Tcgen05Limits) -> Requirements:
    """Tiles for tcgen05 hold fp16, bf16, tf32, e4m3, e5m2, or 8-bit integers.

    Narrower types need scales or padding in shared memory, which no plan brings yet.
    """
    if movement.feeds_tcgen05:
        yield from require_type(movement, "tcgen05")


@TCGEN05.rule("TILE002", Source(_PTX, "tile").saying("M is 64 or 128, N a multiple of 8"), refused_by="hardware")
def tile_rows_ragged(movement: Movement, tcgen05: Tcgen05Limits) -> Requirements:
    """A tile for operand A has a multiple of 64 rows, one for B a multiple of 8, along all axes but the last."""
    if movement.feeds_tcgen05:
        yield from require_rows(movement, ROWS[movement.consumer or ""])


@TMA.rule(
    "TILE003",
    Source(_PTX, "swizzle").saying("128-byte swizzling with 32-byte atomicity is for transposed .tf32 alone"),
    refused_by="hardware",
)
def tile_atom_differs(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """A matrix unit reads swizzles of 16-byte atoms; of 32-bit elements that are not K-major, of 32-byte ones alone."""
    if copy.stores:
        return
    for bytes_, swizzles in ((GRANULE_BYTES, _NARROW), (2 * GRANULE_BYTES, _WIDE)):
        yield require(
            implies(copy.atom_bytes == bytes_, among(copy.swizzle, swizzles)),
            "the matrix unit reads this type and major in atoms of {bytes} bytes, and the swizzle has others",
            help="set the swizzle to one of {names}",
            names=", ".join(SWIZZLES[code] for code in swizzles),
            bytes=bytes_,
        )


@TCGEN05.rule(
    "TILE004",
    Source(_PTX, "swizzle").saying("128-byte swizzling with 32-byte atomicity is for transposed .tf32 alone"),
    refused_by="hardware",
)
def tile_rows_miss_wide_atoms(movement: Movement, tcgen05: Tcgen05Limits) -> Requirements:
    """Rows of 32-bit elements that are not K-major are laid out by threads in multiples of 128 bytes, swizzled.

    Bulk copies cannot swizzle, so they bring no such rows.
    """
    if movement.feeds_tcgen05 and movement.row_bytes and not movement.k_major and movement.element in {"tf32", "fp32"}:
        yield require(
            movement.row_bytes % 128 == 0 and movement.by != "bulk",
            "{consumer} reads no rows of {bytes} bytes of {element} that are not K-major",
            help="give the tile rows that are a multiple of 128 bytes, or store the tensor with K fastest",
            consumer=movement.consumer,
            bytes=movement.row_bytes,
            element=movement.element,
        )
