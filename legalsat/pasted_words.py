"""Descriptors pasted as words: 64 bits say where a tile lies in shared memory, 32 bits what tcgen05 multiplies.

A matrix descriptor alone does not say what the tile is, so what is certain is an error and what most likely is none is
a warning; `legalsat.violations` judges a descriptor beside its tile. An instruction descriptor does not say its kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from legalsat.diagnostics import Diagnostic
from legalsat.errors import InvalidInput
from legalsat.matrix_descriptor import PERIODS, SPANS, UNITS, MatrixDescriptor
from legalsat.rule import Requirement, Rule, require
from legalsat.rules.matrix import (
    matrix_offset_differs,
    matrix_pattern_misaligned,
    matrix_start_misaligned,
)
from legalsat.rules.movement import no_tensor_memory, no_warpgroup_matrix_multiply
from legalsat.sites import Movement
from legalsat.targets import Target
from legalsat.tcgen05 import KINDS, InstructionDescriptor

INSTRUCTION_BITS = 32
LEAST_INSTRUCTION = 1 << 24  # with fewer bits it would have no rows
_WORD = re.compile(r"(?:\w*desc\w*\s*[:=]?\s*)?(?P<word>0[xX][0-9a-fA-F]{9,16}|[0-9a-fA-F]{16}|[1-9]\d{9,19})[uUlL]*;?")
_INSTRUCTION = re.compile(
    r"(?:\.?(?:kind::)?(?P<kind>"
    + "|".join(sorted(KINDS, key=len, reverse=True))
    + r")\b[\s,:;]*)?(?:\w*desc\w*\s*[:=]?\s*)?(?P<word>0[xX][0-9a-fA-F]{7,8}|[1-9]\d{7,9})[uU]?;?"
)
_CORE_BYTES = 128  # of the 8 rows of 16 bytes that a matrix unit reads as one
_UNIT_RULES = {"wgmma": no_warpgroup_matrix_multiply, "tcgen05": no_tensor_memory}


def pasted_word(text: str) -> int | None:
    """Return the 64-bit word that the text is, in hexadecimal or decimal, after `desc =` or alone; None if none."""
    match = _WORD.fullmatch(text.strip())
    if match is None:
        return None
    word = match["word"]
    decimal = word.isdigit() and len(word) != 16 and word[:1] != "0"
    return int(word, 10 if decimal else 16)


class InstructionWord(NamedTuple):
    """A 32-bit instruction descriptor, and its kind if anybody says it."""

    word: int
    kind: str | None


def pasted_instruction(text: str) -> InstructionWord | None:
    """Return the 32-bit word that the text is, after its kind and `idesc =` or alone; None if it is none."""
    match = _INSTRUCTION.fullmatch(text.strip())
    if match is None:
        return None
    word = int(match["word"], 0)
    return InstructionWord(word, match["kind"]) if LEAST_INSTRUCTION <= word < 1 << INSTRUCTION_BITS else None


def read_instruction(pasted: InstructionWord) -> list[InstructionDescriptor]:
    """Return what the word is to an instruction of its kind, or of each kind that it fits, in the order of `KINDS`.

    Raises:
        InvalidInput: it fits none.
    """
    found, refusals = [], []
    for kind in [pasted.kind] if pasted.kind else list(KINDS):
        try:
            found.append(InstructionDescriptor.from_word(kind, pasted.word))
        except InvalidInput as error:
            refusals.append(f"of kind::{kind}, {error}")
    if not found:
        raise InvalidInput(f"{pasted.word:#010x} is no instruction descriptor: {'; '.join(refusals)}")
    return found


def read_word(word: int, target: Target) -> MatrixDescriptor:
    """Return the descriptor that `word` is to the target's matrix unit, or else to the other one.

    Raises:
        InvalidInput: it is a descriptor of neither.
    """
    own = [unit for unit in UNITS if getattr(target, unit) is not None]
    refusal = None
    for unit in (*own, *(unit for unit in UNITS if unit not in own)):
        try:
            return MatrixDescriptor.from_word(unit, word)
        except InvalidInput as error:
            refusal = refusal or error
    raise InvalidInput(f"{word:#018x} is no matrix descriptor: {refusal}")


def describe(descriptor: MatrixDescriptor) -> str:
    """Return the fields of a descriptor in words."""
    return (
        f"{descriptor.unit} matrix descriptor {descriptor.word:#018x}: start {descriptor.start}, leading offset "
        f"{descriptor.leading}, stride offset {descriptor.stride} bytes, swizzle {descriptor.swizzle}, base offset "
        f"{descriptor.base_offset}"
    )


def unit_lacking(unit: str, target: Target) -> Iterator[Diagnostic]:
    """Yield an error where the target has no such matrix unit, "wgmma" or "tcgen05"."""
    if getattr(target, unit) is None:
        yield from _UNIT_RULES[unit].check(Movement(8, consumer=f"{unit}.a"), target)


def explain_word(descriptor: MatrixDescriptor, target: Target) -> Iterator[Diagnostic]:
    """Yield what is wrong with a descriptor, whatever the tile, and what is suspicious."""
    yield from unit_lacking(descriptor.unit, target)
    limit = target.shared_bytes_per_block
    yield from _told(
        matrix_start_misaligned,
        require(
            descriptor.start < limit,
            "the tile starts at byte {start}, beyond the {limit} bytes of shared memory",
            help="take the shared address (cvta.to.shared), not the generic one, and its bits 4 to 17",
            start=descriptor.start,
            limit=limit,
        ),
    )
    yield from _suspicions(descriptor)


def _suspicions(descriptor: MatrixDescriptor) -> Iterator[Diagnostic]:
    period, span = PERIODS[descriptor.swizzle], SPANS[descriptor.swizzle]
    if descriptor.swizzle == "none":
        for name, offset in (("leading", descriptor.leading), ("stride", descriptor.stride)):
            yield from _doubted(
                matrix_offset_differs,
                require(
                    offset >= _CORE_BYTES,
                    "{name} offset of {offset} bytes, less than the {core} bytes of a core matrix",
                    help="set it to the distance of core matrices in bytes over 16, unless one instruction takes no "
                    "step of it",
                    name=name,
                    offset=offset,
                    core=_CORE_BYTES,
                ),
            )
        return
    yield from _doubted(
        matrix_offset_differs,
        require(
            descriptor.stride >= period or descriptor.swizzle == "128B_atom_32B",
            "stride offset of {stride} bytes, less than the {period} bytes of 8 rows of swizzle {swizzle}",
            help="set it to the distance of groups of 8 rows in bytes over 16: {field} where they lie side by side",
            stride=descriptor.stride,
            period=period,
            swizzle=descriptor.swizzle,
            field=period // 16,
        ),
    )
    into = descriptor.start % period
    yield from _doubted(
        matrix_pattern_misaligned,
        # A step along K of a K-major tile starts within the first row.
        require(
            into < span or descriptor.base_offset != 0,
            "the tile starts {into} bytes into a pattern of {period} bytes, with base offset 0",
            help="move the buffer to a multiple of {period} bytes, unless it was swizzled by its address, as the copy "
            "engine does",
            into=into,
            period=period,
        ),
    )


def _told(rule: Rule, requirement: Requirement) -> Iterator[Diagnostic]:
    if not requirement.condition:
        yield rule.diagnostic(requirement, "matrix descriptor")


def _doubted(rule: Rule, requirement: Requirement) -> Iterator[Diagnostic]:
    for diagnostic in _told(rule, requirement):
        yield replace(diagnostic, level="warning")
