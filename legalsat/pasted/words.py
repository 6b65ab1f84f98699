"""Descriptors pasted as words: 64 bits say where a tile lies in shared memory, 32 bits what tcgen05 multiplies.

A text that is a word is that descriptor; within a report a word is one where it is called so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from legalsat.errors import InvalidInput
from legalsat.units.tcgen05 import KINDS, InstructionDescriptor

INSTRUCTION_BITS = 32
LEAST_INSTRUCTION = 1 << 24  # with fewer bits it would have no rows
_MOST = 1000  # characters of a text that is a word and little else
_SAID = (  # what it is of
    r"(?:the|my|an?|b|of|for|is|was|smem|shared|memory|matrix|operands?|instruction|wgmma|tcgen05|gmma|umma)"
)
_NAME = rf"(?:{_SAID}[\s:.]+)*(?:[\w:.]*desc\w*(?:\s+{_SAID})*\s*[:=]?\s*)?"
_WORD = re.compile(
    _NAME + rf"(?P<word>0x[0-9a-f]{{9,16}}|[0-9a-f]{{16}}|[1-9]\d{{9,19}})[ul]*[;.]?(?:\s+(?:{_SAID}|desc\w*))*",
    re.IGNORECASE,
)
_INSTRUCTION = re.compile(
    r"(?:\.?(?:kind::)?(?P<kind>"
    + "|".join(sorted(KINDS, key=len, reverse=True))
    + r")\b[\s,:;]*)?"
    + _NAME
    + r"(?P<word>0x[0-9a-f]{7,8}|[1-9]\d{7,9})u?;?",
    re.IGNORECASE,
)
# What CuTe prints below a descriptor's word, whose fields it is.
_FIELDS = re.compile(r"^[ \t]*(?:start_addr|leading_off|stride_off|base_offset|layout_type)[ \t]*:.*$", re.MULTILINE)
# A word that a report calls a descriptor: 64 bits with a swizzle or a version have 15 or 16 digits, and addresses 12.
_CALLED = re.compile(
    r"(?<!tma[ _])(?<!map[ _])\b\w{0,16}desc(?:riptor)?s?(?:[ _]?[ab])?\b[^\S\n]{0,3}(?:[:=]|is|was|of|value|word){0,2}"
    r"[^\S\n]{0,3}(?P<word>0x[0-9a-f]{15,16}|0x[0-9a-f]{7,8})\b",
    re.IGNORECASE,
)
_KIND = re.compile(rf"\bkind::(?P<kind>{'|'.join(sorted(KINDS, key=len, reverse=True))})\b")
_MOST_CALLED = 16  # words of one report
_GROUPED = re.compile(r"0x[0-9a-f]+(?:[_'][0-9a-f]+)+", re.IGNORECASE)


def _bare(text: str) -> str:
    """Return a text that may be a word without what stands around and within one; "" if it is too long."""
    if len(text) > _MOST:
        return ""
    return _GROUPED.sub(lambda found: re.sub("[_']", "", found[0]), _FIELDS.sub("", text)).strip()


def pasted_word(text: str) -> int | None:
    """Return the 64-bit word that the text is, in hexadecimal or decimal, after `desc =` or alone; None if none."""
    match = _WORD.fullmatch(_bare(text))
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
    match = _INSTRUCTION.fullmatch(_bare(text))
    if match is None:
        return None
    word = int(match["word"], 0)
    kind = match["kind"] and match["kind"].lower()
    return InstructionWord(word, kind) if LEAST_INSTRUCTION <= word < 1 << INSTRUCTION_BITS else None


def _called(text: str, *, wide: bool) -> list[int]:
    """Return the words that a report calls descriptors, each once: those of 64 bits, or of 32."""
    found = (match["word"] for match in islice(_CALLED.finditer(text), _MOST_CALLED))
    return [*dict.fromkeys(int(word, 16) for word in found if (len(word) > INSTRUCTION_BITS // 4 + 2) == wide)]


def called_words(text: str) -> list[int]:
    """Return the 64-bit words that a report calls descriptors, each once."""
    return _called(text, wide=True)


def called_instructions(text: str) -> Iterator[InstructionWord]:
    """Yield the 32-bit words that a report calls descriptors, where it names one kind of multiplication alone."""
    kinds = {match["kind"] for match in _KIND.finditer(text)}
    for word in _called(text, wide=False) if len(kinds) == 1 else ():
        if word >= LEAST_INSTRUCTION:
            yield InstructionWord(word, *kinds)


def read_instruction(pasted: InstructionWord) -> tuple[list[InstructionDescriptor], list[str]]:
    """Return what the word is to an instruction of its kind, or of each kind that it fits, in the order of `KINDS`.

    And why it fits no other of these kinds, in words.
    """
    found: list[InstructionDescriptor] = []
    refusals: dict[str, list[str]] = {}
    for kind in [pasted.kind] if pasted.kind else list(KINDS):
        try:
            found.append(InstructionDescriptor.from_word(kind, pasted.word))
        except InvalidInput as error:
            reason = str(error).partition("; ")[0].removeprefix(f"word {pasted.word:#010x} ")
            refusals.setdefault(reason.replace(f"kind::{kind}", "it"), []).append(f"kind::{kind}")
    return found, [f"as {', '.join(kinds)} it {reason}" for reason, kinds in refusals.items()]
