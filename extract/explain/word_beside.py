"""A matrix descriptor beside the tile that it is to describe: where it departs from the one that reads the tile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from legalsat.analyses.matrix_layout import NoSuchDescriptor, matrix_operand
from legalsat.diagnostics import Diagnostic
from legalsat.errors import InvalidInput
from legalsat.rule import require
from legalsat.rules import judge
from legalsat.rules.matrix import matrix_pattern_misaligned
from legalsat.rules.tcgen05 import narrow_operand_transposed, swizzle_atom_differs
from legalsat.rules.wgmma import wgmma_not_k_major
from legalsat.targets import Target
from legalsat.units.matrix_descriptor import PERIODS, MatrixDescriptor, MatrixOperand
from legalsat.units.shared_tile import SharedTile, UnreadTile
from legalsat.units.sites import Movement, descriptor_site
from legalsat.units.tcgen05 import InstructionDescriptor, kind_of, operand_type
from legalsat.units.tcgen05_sites import Tcgen05Mma
from legalsat.units.tensor_map import driver_value

ROWS_OF_A = {"wgmma": (64,), "tcgen05": (128, 64)}  # that one instruction of one CTA reads
_MOST_COLUMNS = 256


def operand_of(tile: SharedTile, unit: str, block: int) -> MatrixOperand:
    """Return how a unit reads a tile.

    Raises:
        NoSuchDescriptor: no descriptor reads it.
        InvalidInput: it is not made of whole instructions.
    """
    return matrix_operand(tile.layout, tile.swizzle, tile.bits, unit=unit, major=tile.major, block=block)


def block_of(tile: SharedTile, unit: str, consumer: str | None) -> int:
    """Return how many rows of A, or columns of B, one instruction reads; without a consumer all, up to 256."""
    rows = tile.layout[0].size
    if consumer is not None and consumer.partition(".")[0] != unit:
        raise InvalidInput(f"consumer is {consumer}, and the descriptor is of {unit}; give {unit}.a or {unit}.b")
    if consumer == f"{unit}.a":
        return next((m for m in ROWS_OF_A[unit] if rows % m == 0), ROWS_OF_A[unit][-1])
    return next((n for n in range(min(rows, _MOST_COLUMNS) // 8 * 8, 0, -8) if rows % n == 0), min(rows, 8))


def differences(told: MatrixDescriptor, operand: MatrixOperand, tile: SharedTile, target: Target) -> list[Diagnostic]:
    """Return where a descriptor departs from the one that reads the tile."""
    found = judge(descriptor_site(told, operand, tile.bits), target)
    period = PERIODS[tile.swizzle]
    steps = sorted({offset % period for row in operand.offsets for offset in row})
    into = require(
        told.start % period in steps or told.swizzle != tile.swizzle,
        "the start, {start}, is byte {into} of a pattern of {period} bytes, where no instruction's step begins",
        help="set the start to a multiple of {period} bytes plus one of {steps}",
        start=told.start,
        into=told.start % period,
        period=period,
        steps=", ".join(map(str, steps)),
    )
    if not into.condition:
        found.append(replace(matrix_pattern_misaligned.diagnostic(into, f"layout {tile}"), level="warning"))
    return found


def as_a(told: MatrixDescriptor, tile: SharedTile, target: Target) -> Iterator[str]:
    """Yield that the tile would do as A, of which one instruction reads fewer rows, if it would."""
    block = next((m for m in ROWS_OF_A[told.unit] if tile.layout[0].size % m == 0), 0)
    if block and not judge(descriptor_site(told, operand_of(tile, told.unit, block), tile.bits), target):
        yield f"as operand A, of which one instruction reads {block} rows, it is legal: give the consumer {told.unit}.a"


def unread(told: MatrixDescriptor, tile: SharedTile, block: int, reason: str, target: Target) -> Iterator[Diagnostic]:
    """Yield that no descriptor reads a layout; or that it has another swizzle, if with the told one some would."""
    if told.swizzle != tile.swizzle:
        try:
            other = operand_of(replace(tile, swizzle=told.swizzle), told.unit, block)
        except NoSuchDescriptor:
            pass
        else:
            site = replace(descriptor_site(told, other, tile.bits), tile_swizzle=driver_value("swizzle", tile.swizzle))
            wanted = f"{_CUTE[told.swizzle]} o {tile.layout}"
            advice = f"write the tile with swizzle {told.swizzle}; if it is, say so in the layout: {wanted}"
            for said in judge(site, target):
                yield replace(said, help=advice) if said.code == "MDESC003" else said
            return
    yield from judge(UnreadTile(told.unit, str(tile), reason.partition("; ")[0]), target)


_CUTE = {
    "none": "Sw<0,4,3>",
    "32B": "Sw<1,4,3>",
    "64B": "Sw<2,4,3>",
    "128B": "Sw<3,4,3>",
    "128B_atom_32B": "Sw<2,5,2>",
}


def type_violations(unit: str, tile: SharedTile, consumer: str | None, target: Target) -> Iterator[Diagnostic]:
    """Yield what the element type forbids of the major axis."""
    if unit == "wgmma":
        if tile.bits != 16:  # which alone may be MN-major
            name = tile.element or f"{tile.bits}-bit"
            site = Movement(tile.bits, consumer or "wgmma.b", name, k_major=tile.major == "K")
            yield from wgmma_not_k_major.check(site, target)
        return
    if not tile.element:
        return
    try:
        kind = kind_of(tile.element, tile.element)
    except InvalidInput:
        return
    if kind.k != 64:  # the others have no field for the major
        element = operand_type(tile.element)
        word = InstructionDescriptor(kind.name, element, element, 128, 128, b_major=tile.major)
        for rule in (narrow_operand_transposed, swizzle_atom_differs):
            yield from rule.check(Tcgen05Mma(word, b_swizzle=tile.swizzle), target)
