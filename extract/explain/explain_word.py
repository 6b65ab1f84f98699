"""Explanations of matrix descriptors: what their bits say, what each offset counts, and whether they fit a tile.

A word alone does not say what the tile is, so what is certain is an error and what most likely is none is a warning.
Beside a layout it is compared with the descriptor that reads that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from legalsat.analyses.matrix_layout import NoSuchDescriptor
from legalsat.diagnostics import Diagnostic, worst_first
from legalsat.explanation import Explanation, Repair
from legalsat.extract.explain.word_beside import (
    ROWS_OF_A,
    as_a,
    block_of,
    differences,
    operand_of,
    type_violations,
    unread,
)
from legalsat.options import MAJORS, Major
from legalsat.rule import Requirement, Rule, require
from legalsat.rules import judge
from legalsat.rules.matrix import matrix_offset_differs, matrix_pattern_misaligned, matrix_start_misaligned
from legalsat.rules.movement import no_tensor_memory, no_warpgroup_matrix_multiply
from legalsat.targets import Target
from legalsat.units.matrix_descriptor import PERIODS, SPANS, UNITS, MatrixDescriptor, MatrixWord
from legalsat.units.shared_tile import SharedTile
from legalsat.units.sites import Movement

_CORE_BYTES = 128  # of the 8 rows of 16 bytes that a matrix unit reads as one
_UNIT_RULES = {"wgmma": no_warpgroup_matrix_multiply, "tcgen05": no_tensor_memory}
_WHERE = "matrix descriptor"
_MN = "rows of A (columns of B)"


def word_of(bits: int, target: Target) -> MatrixWord:
    """Return 64 bits as the target's matrix unit takes them; where it has none, as bit 46 says.

    Raises:
        InvalidInput: they are more than 64.
    """
    own = [unit for unit in UNITS if getattr(target, unit) is not None]
    return MatrixWord(own[0] if own else UNITS[bits >> 46 & 1], bits)


def explain_word(
    subject: MatrixWord | MatrixDescriptor, target: Target, tile: SharedTile | None = None, consumer: str | None = None
) -> Explanation:
    """Return what is wrong with a descriptor, what its offsets count, and whether it reads a tile.

    Args:
        subject: a descriptor, or bits that are to be one.
        target: the GPU.
        tile: how the tile lies that it is to describe; None if nobody says.
        consumer: which operand the tile is, such as "wgmma.a"; None if nobody says. Needs a tile.

    Raises:
        InvalidInput: the tile is not made of whole instructions, or `consumer` is another unit's.
    """
    word = MatrixWord(subject.unit, subject.word) if isinstance(subject, MatrixDescriptor) else subject
    told, said = word.descriptor, f"{word}: {_fields(word)}"
    found = [*unit_lacking(word.unit, target, str(word)), *judge(word, target)]
    values: tuple[str, ...] = ()
    repairs: tuple[Repair, ...] = ()
    if told is not None and not word.absolute:  # else what its other fields say is not certain
        found += _within_shared(told, target)
        if tile is None:
            found += _alone(told)
            values, repairs = meanings(told), _repairs(word, told, found)
        else:
            said = f"{said}, of a tile {tile}"
            values, repairs = _beside(word, told, _Read(tile, consumer), target, found)
    legal = not any(d.level == "error" for d in found)
    return Explanation(said, str(target), legal, tuple(worst_first(found)), repairs, values=values, of=told)


def _fields(word: MatrixWord) -> str:
    told = word.descriptor or MatrixWord(word.unit, word.word & (1 << 61) - 1).descriptor
    assert told is not None, "code 0 is no swizzle"
    swizzle = f"swizzle {word.swizzle}" if word.swizzle else f"swizzle code {word.swizzle_code}"
    leading = f"leading address {told.leading}" if word.absolute else f"leading offset {told.leading}"
    return (
        f"start {told.start}, {leading}, stride offset {told.stride} bytes, {swizzle}, base offset {told.base_offset}"
    )


def unit_lacking(unit: str, target: Target, what: str) -> Iterator[Diagnostic]:
    """Yield an error where the target has no such matrix unit, "wgmma" or "tcgen05", for `what` to be given to."""
    for diagnostic in _UNIT_RULES[unit].check(Movement(8, consumer=f"{unit}.a"), target):
        needs = {"wgmma": "sm_90a (Hopper)", "tcgen05": "sm_100a, sm_103a or sm_110a"}[unit]
        yield replace(diagnostic, message=f"{target} has no {unit}", where=what, help=f"give it to {needs} alone")


# What the fields mean


def meanings(told: MatrixDescriptor, majors: tuple[Major, ...] = MAJORS) -> tuple[str, ...]:
    """Return, a sentence for each major, what the offsets count and which of the two is ignored (FACTS WG-12, TC-10).

    The word does not say the major: the instruction does.
    """
    sentences = [_meaning(told, major) for major in majors]
    if told.base_offset and told.swizzle == "none":
        sentences.append(f"the base offset, {told.base_offset}, is ignored without a swizzle")
    elif told.base_offset:
        sentences.append(
            f"base offset {told.base_offset}: the swizzle's pattern begins {128 * told.base_offset} bytes after a "
            f"multiple of {PERIODS['128B']}"
        )
    return tuple(sentences)


def _meaning(told: MatrixDescriptor, major: Major) -> str:
    leading, stride = (
        f"the leading offset (LBO), {told.leading} bytes,",
        f"the stride offset (SBO), {told.stride} bytes,",
    )
    span, rows = SPANS[told.swizzle], PERIODS[told.swizzle] // SPANS[told.swizzle]
    groups, chunks = f"one group of 8 {_MN} to the next", f"one chunk of 16 bytes along the {_MN} to the next"
    match major, told.swizzle:
        case "K", "none":
            counts = f"{leading} counts from one chunk of 16 bytes along K to the next; {stride} from {groups}"
        case "K", "128B_atom_32B":
            counts = "swizzle 128B_atom_32B has no meaning"
        case "K", _:
            counts = f"{leading} is ignored; {stride} counts from {groups}"
        case _, "none":
            counts = f"{leading} counts from one group of 8 elements of K to the next; {stride} from {chunks}"
        case _:
            counts = (
                f"{leading} counts from one run of {span} bytes along the {_MN} to the next, and is ignored where one "
                f"instruction reads a single run; {stride} counts from one group of {rows} elements of K to the next"
            )
    return f"{major}-major tile: {counts}"


# Alone


def _alone(told: MatrixDescriptor) -> Iterator[Diagnostic]:
    """Yield what is wrong with a descriptor, whatever the tile, and what is suspicious."""
    period, span = PERIODS[told.swizzle], SPANS[told.swizzle]
    if told.swizzle == "none":
        for name, offset in (("leading", told.leading), ("stride", told.stride)):
            yield from _doubted(
                matrix_offset_differs,
                require(
                    offset >= _CORE_BYTES,
                    "{name} offset of {offset} bytes, less than the {core} bytes of a core matrix",
                    help="set its field to the distance of core matrices in bytes divided by 16, unless one "
                    "instruction takes no step of it",
                    name=name,
                    offset=offset,
                    core=_CORE_BYTES,
                ),
            )
        return
    yield from _doubted(
        matrix_offset_differs,
        require(
            told.stride >= period or told.swizzle == "128B_atom_32B",
            "stride offset of {stride} bytes, less than the {period} bytes of 8 rows of swizzle {swizzle}",
            help="set its field to the distance of groups of 8 rows in bytes divided by 16: {field} where they are "
            "neighbours",
            stride=told.stride,
            period=period,
            swizzle=told.swizzle,
            field=period // 16,
        ),
    )
    yield from _doubted(
        matrix_pattern_misaligned,
        # A step along K of a K-major tile starts within the first row.
        require(
            told.start % period < span or told.base_offset != 0,
            "the tile starts {into} bytes into a pattern of {period} bytes, with base offset 0",
            help="move the buffer to a multiple of {period} bytes, unless it was swizzled by its address, as the copy "
            "engine does",
            into=told.start % period,
            period=period,
        ),
    )


def _within_shared(told: MatrixDescriptor, target: Target) -> Iterator[Diagnostic]:
    limit = target.shared_bytes_per_block
    yield from _told(
        matrix_start_misaligned,
        require(
            told.start < limit,
            "the tile starts at byte {start}, beyond the {limit} bytes of shared memory",
            help="take the shared address (cvta.to.shared), not the generic one, and its bits 4 to 17",
            start=told.start,
            limit=limit,
        ),
    )


def _told(rule: Rule, requirement: Requirement) -> Iterator[Diagnostic]:
    if not requirement.condition:
        yield rule.diagnostic(requirement, _WHERE)


def _doubted(rule: Rule, requirement: Requirement) -> Iterator[Diagnostic]:
    for diagnostic in _told(rule, requirement):
        yield replace(diagnostic, level="warning")


class _Read(NamedTuple):
    """A tile and the operand that it is, None if nobody says."""

    tile: SharedTile
    consumer: str | None


def _beside(
    word: MatrixWord, told: MatrixDescriptor, read: _Read, target: Target, found: list[Diagnostic]
) -> tuple[tuple[str, ...], tuple[Repair, ...]]:
    """Add to what was found what is wrong beside a tile; return what the offsets count in it, and the right word."""
    tile, consumer = read
    found += type_violations(told.unit, tile, consumer, target)
    block = block_of(tile, told.unit, consumer)
    try:
        operand = operand_of(tile, told.unit, block)
    except NoSuchDescriptor as refusal:
        found += unread(told, tile, block, str(refusal), target)
        return (), ()
    more = differences(told, operand, tile, target)
    found += more
    values = [*meanings(told, (tile.major,)), _reader(block, told.unit, consumer)]
    if consumer is None and more and block not in ROWS_OF_A[told.unit]:
        values += as_a(told, tile, target)
    ignored = told.ignored(tile.major, block=block, element_bits=tile.bits) if told.swizzle == tile.swizzle else ()
    kept: dict[str, Any] = {name: getattr(told, name) for name in ignored}
    right = replace(operand.descriptor, start=told.start, **kept)
    return tuple(values), _repairs(word, right, found, ("MDESC003", "MDESC004", "MDESC005"))


def _reader(block: int, unit: str, consumer: str | None) -> str:
    """Return which operand the tile is taken for."""
    if consumer is None:
        return (
            f"the tile is taken for operand B, of which one instruction reads {block} columns; the consumer {unit}.a "
            "or .b says which it is"
        )
    return f"one instruction reads {block} {'rows of A' if consumer.endswith('a') else 'columns of B'}"


# Repairs


def _repairs(
    word: MatrixWord, right: MatrixDescriptor, found: list[Diagnostic], mended: Collection[str] = ()
) -> tuple[Repair, ...]:
    """Return the word that is right, where every error is one that the right word does not have."""
    errors = {d.code for d in found if d.level == "error"}
    if not errors or right.word == word.word or not errors <= {"MDESC007", "MDESC008", *mended}:
        return ()
    message = f"write {right.word:#018x}: {_fields(MatrixWord(right.unit, right.word))}"
    return (Repair("descriptor", message, right, 0),)
