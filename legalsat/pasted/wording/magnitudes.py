"""How large the numbers of a report are: past what 32 bits count, past a grid's or a block's limits, or wrapped.

Reports of offsets that overflow, of launches that are too large and of shared memory that is exceeded seldom say so in
words; they give a shape, a size or what a counter showed. Which of these a number is says more than its digits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod

PREFIX = ">"  # of the names, which no word and no concept has
_INT, _LARGE, _UINT = 2**31 - 200, 2**29, 2**32 - 10
_THREADS, _BLOCKS, _SEEN_BLOCKS = 1024, 65535, 10**6  # limits of a block, of a grid along y and z; more are no blocks
# What a block has of shared memory: without asking, and at most, on one chip or another.
_SHARED = frozenset({48 << 10, 64 << 10, 99 << 10, 100 << 10, 160 << 10, 163 << 10, 164 << 10, 227 << 10})
_WHOLE = re.compile(r"(?<![\w.])\d[\d,_]{0,24}(?![\w.])")
_TWO_TO = re.compile(
    r"2 ?\*\* ?3[0-3]\b|2 ?\^ ?3[0-3]\b|1 ?<< ?3[0-3]\b|INT_MAX|numeric_limits<int>|\bint maximum|\b[24] ?G[iB]",
    re.IGNORECASE,
)
_EXTENTS = re.compile(
    r"[(\[{](?P<listed>(?:\s{0,4}\d[\d_]{0,12}\s{0,4}[,x]){1,7}\s{0,4}\d[\d_]{0,12}\s{0,4})[)\]},]"
    r"|(?<![\w.])(?P<times>(?:\d{1,12} ?[x×*] ?){1,6}\d{1,12})"
)
_WRAPPED = re.compile(r"(?<![\w.])-(?:[12]\d{9}|\d{7,9})\b|\b1844674407\d+")
_SPACED = re.compile(r"[,_]")


def magnitudes(text: str) -> dict[str, str]:
    """Return what the numbers of a text are as large as, by names, each with a number that is."""
    found: dict[str, str] = {}
    for name, said in _magnitudes(text):
        found.setdefault(f"{PREFIX}{name}", said)
    return found


def _magnitudes(text: str) -> Iterator[tuple[str, str]]:
    for match in _WHOLE.finditer(text):
        number = int(_SPACED.sub("", match[0]))
        if number >= _INT:
            yield "32 bits", match[0]
        if number >= _UINT:
            yield "32 bits without a sign", match[0]
        if _BLOCKS <= number < _SEEN_BLOCKS:
            yield "a grid", match[0]
        elif _THREADS < number < _BLOCKS:
            yield "a block", match[0]
        if number in _SHARED:
            yield "shared memory", match[0]
    for match in _TWO_TO.finditer(text):
        yield "32 bits", match[0]
    for match in _EXTENTS.finditer(text):
        elements = prod(int(one) for one in re.findall(r"\d+", (match["listed"] or match["times"]).replace("_", "")))
        if elements >= _INT:
            yield "32 bits of elements", match[0]
        elif elements >= _LARGE:
            yield "large", match[0]
        elif _THREADS < elements <= _BLOCKS:
            yield "more than a block", match[0]
    for match in _WRAPPED.finditer(text):
        yield "wrapped", match[0]
