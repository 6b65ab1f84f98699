"""Rules of a tile that wgmma is to read: types, rows, which axis runs fastest, and the layout in shared memory."""

from __future__ import annotations

import math

from legalsat.logic import all_of, implies
from legalsat.rule import Requirements, Source, Unit, require
from legalsat.rules.movement import CHIP
from legalsat.rules.tma import TMA
from legalsat.targets import Target, TmaLimits, WgmmaLimits
from legalsat.units.sites import Movement, TmaCopy

WGMMA = Unit("wgmma", lambda target: target.wgmma)
_PTX = "PTX ISA 9.1, 9.7.15, wgmma"
# fp32 stands for tf32, whose bits it holds.
TYPES = ("fp16", "bf16", "tf32", "fp32", "e4m3", "e5m2", "i8", "u8")
ROW_BITS = 128  # of a core matrix, which is what rows are without a swizzle


def require_type(movement: Movement, unit: str) -> Requirements:
    """Require what a matrix unit reads to be of one of `TYPES`, which are those of wgmma and of plain tcgen05."""
    yield require(
        movement.element in TYPES,
        "{unit} takes no {element}",
        help="convert the operand to one of {types}",
        unit=unit,
        element=movement.element,
        types=", ".join(TYPES),
    )


def require_rows(movement: Movement, step: int) -> Requirements:
    """Require a tile, whose rows are all its axes but the last, to have a multiple of `step` of them."""
    rows = math.prod(movement.tile[:-1]) if len(movement.tile) > 1 else 0
    yield require(
        rows >= step and rows % step == 0,
        "tile {tile} gives {consumer} {rows} rows, no multiple of {step}",
        help="give a tile of rows x columns whose rows, along all axes but the last, are a multiple of {step}",
        tile=movement.tile,
        consumer=movement.consumer,
        rows=rows,
        step=step,
    )


@WGMMA.rule(
    "WGMMA001", Source(_PTX, "dtype").saying("floating point: .f16, .bf16, .tf32, .e4m3, .e5m2"), refused_by="hardware"
)
def wgmma_type_unsupported(movement: Movement, wgmma: WgmmaLimits) -> Requirements:
    """Operands of wgmma are fp16, bf16, tf32, e4m3, e5m2, or 8-bit integers."""
    if movement.feeds_wgmma:
        yield from require_type(movement, "wgmma")


@WGMMA.rule("WGMMA002", Source(_PTX, "tile").saying("the shape .m64nNk, N a multiple of 8"), refused_by="hardware")
def wgmma_rows_ragged(movement: Movement, wgmma: WgmmaLimits) -> Requirements:
    """A tile for operand A has a multiple of 64 rows, one for B a multiple of 8, along all axes but the last."""
    if movement.feeds_wgmma:
        yield from require_rows(movement, wgmma.m if movement.consumer == "wgmma.a" else wgmma.n_step)


@WGMMA.rule(
    "WGMMA003", Source(_PTX, "strides").saying("transpose is supported only for .f16 and .bf16"), refused_by="hardware"
)
def wgmma_not_k_major(movement: Movement, wgmma: WgmmaLimits) -> Requirements:
    """Operands of 8 and 32 bits are K-major: the last axis, which is K, runs fastest in memory."""
    if movement.feeds_wgmma:
        yield require(
            movement.k_major or movement.element in {"fp16", "bf16"},
            "{element} operand is not K-major",
            help="store the tensor with its last axis fastest, or transpose it first",
            element=movement.element,
        )


@CHIP.rule(
    "WGMMA006",
    Source(_PTX, "consumer").saying("matrix A: registers or shared memory; matrix B: shared memory"),
    refused_by="hardware",
)
def fragments_without_owner(movement: Movement, target: Target) -> Requirements:
    """Only operand A of wgmma is read from registers, so only its tiles can be loaded as fragments."""
    if movement.by == "fragments":
        yield require(
            movement.consumer == "wgmma.a",
            "nobody reads fragments of this tile from registers",
            help="name wgmma.a as the consumer, or deliver the tile by other means",
        )


@CHIP.rule(
    "WGMMA012",
    Source(_PTX, "tile").saying("stride dimension byte offset: from the first 8 rows to the next"),
    refused_by="hardware",
)
def wgmma_rows_scattered(movement: Movement, target: Target) -> Requirements:
    """A matrix descriptor knows one distance between groups of rows, and one between groups along the other axis.

    Rows that run along several axes of a K-major tensor arrive one after another, so that there is one distance. Of a
    tensor that is not K-major each axis brings a distance of its own.
    """
    if movement.feeds_matrix:
        yield require(
            movement.scattered == 0,
            "rows of tile {tile} run along {axes} axes, and no descriptor of {consumer} reads them as they arrive",
            help="give a tile whose rows run along one axis, or store the last axis fastest",
            tile=movement.tile,
            axes=movement.scattered,
            consumer=movement.consumer,
        )


@TMA.rule("WGMMA004", Source(_PTX, "swizzle").saying("core matrices of 8 rows of 16 bytes"), refused_by="hardware")
def wgmma_rows_unswizzled(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """Rows that a matrix unit reads fill a swizzle's span, or are 16 bytes; wider plain rows fit no descriptor."""
    if not copy.stores:
        yield require(
            implies(all_of(copy.atom_bytes > 0, copy.swizzle == 0), copy.inner_bits == ROW_BITS),
            "the matrix unit reads no rows of {bytes} bytes without a swizzle",
            help="give the tile rows that are a multiple of 32, 64 or 128 bytes",
            bytes=copy.inner_bytes,
        )


@CHIP.rule("WGMMA005", Source(_PTX, "swizzle").saying("core matrices of 8 rows of 16 bytes"), refused_by="hardware")
def wgmma_rows_fit_no_swizzle(movement: Movement, target: Target) -> Requirements:
    """Rows that threads lay out for a matrix unit are 16 bytes, or a multiple of a swizzle's span: 32, 64 or 128.

    All of them begin at the same place in the pattern, so rows that arrive shifted by a few bytes cannot be read.
    """
    if movement.feeds_matrix and movement.row_bytes:
        yield require(
            not movement.shifted,
            "rows arrive in shared memory at different offsets, and {consumer} reads them at one",
            help="deliver the tile by other means, or give rows a pitch that is a multiple of 16 bytes",
            consumer=movement.consumer,
        )
        yield require(
            movement.row_bytes == ROW_BITS // 8 or movement.row_bytes % 32 == 0,
            "{consumer} reads no rows of {bytes} bytes",
            help="give the tile rows that are a multiple of 32, 64 or 128 bytes",
            consumer=movement.consumer,
            bytes=movement.row_bytes,
        )
