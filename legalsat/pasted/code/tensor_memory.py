"""Numbers of tcgen05's allocations, loads and stores in pasted code, judged by the rules of tensor memory.

`tcgen05.alloc` is given its columns as the last operand, in PTX itself or among the operands of `asm`; a call of that
name has them among its arguments, and people write "alloc of 48 columns". `tcgen05.ld` and `.st` say their shape and
how often it repeats. The lane is in the upper half of an address: `(warp * 32) << 16` is the warp's own,
`(warp * 16) << 16` another one's for every shape that begins at the first of a warp's 32 lanes. Each is a fact of the
text's own numbers; that it is the cause is likely where the text says that something fails, so it is a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice

from legalsat.diagnostics import Diagnostic
from legalsat.pasted.code.host_code import arguments_of, constants, whole_number
from legalsat.pasted.wording.likely import hints_at_failure
from legalsat.rules import judge
from legalsat.targets import Target
from legalsat.units.tcgen05_sites import TensorMemoryAllocation, TensorMemoryTransfer
from legalsat.units.tensor_memory_layouts import TRANSFERS

MOST_FOUND, LONGEST_OPERANDS = 64, 400
_ALLOCATES = re.compile(
    r"\btcgen05\.alloc(?:\.[\w:]{1,24}){0,6} {1,4}\[[^\]\n]{1,60}\] ?, ?(?P<columns>%?\w{1,40})"
    r"|\b(?:tcgen05_?alloc|tmem_?alloc(?:ate)?|alloc(?:ate)?_tmem)(?:<[^<>;\n]{0,40}>)?(?P<call>\()"
)
_ALLOCATED = re.compile(
    r"\balloc\w{0,8}(?:\.[\w:]{1,24}){0,6}[^\n\d;]{0,24}?\b(?P<columns>\d{1,4})(?: tmem| tensor[- ]memory)? columns?\b",
    re.IGNORECASE,
)
_OPERAND = re.compile(r"\"[=+]?[a-z]{1,2}\" ?\(")
_MOVES = re.compile(
    r"\btcgen05\.(?P<instruction>ld|st)\.sync\.aligned\.(?P<shape>\d{2}x\d{2,3}b(?:x2)?)\.x(?P<num>\d{1,4})\b"
)
# The lane that a warp adds to an address: a multiple of its number, from bit 16 on.
_LANE = re.compile(
    r"\b\w{0,20}warp\w{0,20}(?: ?(?:%|&) ?[34])?\)? ?\* ?(?P<lanes>\d{1,3})[uU]?\){0,3} ?<< ?16\b"
    r"|\b\w{0,20}warp\w{0,20}(?: ?(?:%|&) ?[34])?\){0,3} ?<< ?(?P<shift>1[6-9]|2[0-3])\b"
)


def explain_tensor_memory(text: str, target: Target) -> Iterator[Diagnostic]:
    """Yield what numbers of a text's tcgen05 instructions break, each rule once, where it says that something fails.

    Args:
        text: the report, code among it.
        target: the GPU; nothing of one without tensor memory.
    """
    if target.tcgen05 is None or ("tcgen05" not in text and "tmem" not in text) or not hints_at_failure(text):
        return
    sites = (*_allocations(text), *_transfers(text))
    told: set[str] = set()
    for site, where in sites:
        for found in judge(site, target):
            # What an allocation holds beside, and the registers of a transfer, are not read.
            if found.code in ("TMEM001", "TMEM010", "TMEM012") and found.code not in told:
                told.add(found.code)
                yield replace(found, level="warning", where=f'text "{where}"')


def _allocations(text: str) -> Iterator[tuple[TensorMemoryAllocation, str]]:
    names = constants(text)
    for match in islice(_ALLOCATES.finditer(text), MOST_FOUND):
        after = text[match.end() : match.end() + LONGEST_OPERANDS]
        # Of a call nobody knows which argument it is but where one alone is a number.
        given = arguments_of(after) if match["call"] else [_operand(match["columns"], after)]
        columns = [value for words in given if (value := _count(words, names)) is not None]
        if len(columns) == 1:
            shown = f"{match[0]}{','.join(given)})" if match["call"] else match[0]
            yield TensorMemoryAllocation(columns[0]), " ".join(shown.split())[:97]
    for match in islice(_ALLOCATED.finditer(text), MOST_FOUND):  # as people write it
        if int(match["columns"]):
            yield TensorMemoryAllocation(int(match["columns"])), match[0]


def _operand(word: str, after: str) -> str:
    """Return what stands for `%1` among the operands of `asm`, and anything else as it is."""
    if not re.fullmatch(r"%\d{1,2}", word):
        return word
    operands = list(islice(_OPERAND.finditer(after), int(word[1:]) + 1))
    return arguments_of(after[operands[-1].end() :])[0] if len(operands) == int(word[1:]) + 1 else word


def _count(words: str, names: Mapping[str, int]) -> int | None:
    value = whole_number(words, names) if words.strip() else None
    return value if value is not None and 0 < value < 1 << 16 else None


def _transfers(text: str) -> Iterator[tuple[TensorMemoryTransfer, str]]:
    moves = [match for match in islice(_MOVES.finditer(text), MOST_FOUND) if match["shape"] in TRANSFERS]
    for move in moves:
        shape, num = TRANSFERS[move["shape"]], int(move["num"])
        yield _transfer(move, warp=0, lane=0), move[0]
        # A shape of 16 lanes begins at the first of a warp's lanes or at the 17th.
        for match in islice(_LANE.finditer(text), MOST_FOUND) if shape.lanes == 32 and num else ():
            lanes = int(match["lanes"]) if match["lanes"] else 1 << (int(match["shift"]) - 16)
            yield _transfer(move, warp=1, lane=lanes), " ".join(match[0].split())


def _transfer(move: re.Match[str], *, warp: int, lane: int) -> TensorMemoryTransfer:
    shape, num = TRANSFERS[move["shape"]], int(move["num"])
    return TensorMemoryTransfer(move["instruction"], move["shape"], num, warp, lane, shape.registers * num)
