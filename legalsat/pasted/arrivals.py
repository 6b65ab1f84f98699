"""Counts that barriers of shared memory are made with, as code and messages write them, judged by the barrier's range.

PTX takes them last, `mbarrier.init.shared.b64 [bar], 1` and `mbarrier.expect_tx [bar], 2048`; libraries call it what
they like, `mbarrier_init(&bar, 1)`, `bar[0].init(1)`, `alloc_barrier(1)`, `init_barrier(arrive_count=1)`, and people
write "expect_tx of 2048 bytes". A count that is a name or an expression says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from legalsat.diagnostics import Diagnostic
from legalsat.pasted.sentences import RULE_OF
from legalsat.rule import require
from legalsat.targets import Target

MOST_BARRIERS = 128  # calls of one text
MOST_COUNTED = (1 << 20) - 1  # arrivals and pending bytes of an mbarrier: PTX, mbarrier object
_COUNT = r"(?P<{0}>-?\d{{1,12}}|0x[0-9a-fA-F]{{1,8}})"
_OBJECT = r"(?:(?:[^\n(),]|\([^\n()]{0,40}\)){1,80}?, *)?"  # the barrier, which an object's own method leaves out
# What makes a barrier, and what announces bytes to one. Of three arguments and more nobody knows which is the count.
_MADE = re.compile(
    r"\b(?:mbarrier\.init(?:\.[\w:]{1,24}){0,3} +\[[^\]\n]{1,60}\] *, *"
    rf"|(?:alloc_)?m?bar(?:rier)?s?(?:_\w{{1,12}})?(?:\[[^\]\n]{{1,24}}\])?(?:\.|->)init\({_OBJECT}"
    r"|(?:mbarrier_?init|init_?m?barriers?|alloc(?:ate)?_?m?barriers?|mbar_?init|initialize_?m?barriers?)\w{0,20}"
    rf"(?:<[^>\n]{{0,30}}>)?\({_OBJECT})"
    rf"(?:\b(?:arrive_?|arrival_?|thread_?)?(?:count|cnt)(?:=| = ))?{_COUNT.format('count')} *(?=[);\"]|$)",
    re.MULTILINE,
)
_EXPECTED = re.compile(
    r"\bmbarrier\.(?:arrive\.)?expect_tx(?:\.[\w:]{1,24}){0,3} +(?:[\w%]{1,12} *, *)?\[[^\]\n]{1,60}\] *, *"
    rf"{_COUNT.format('bytes')}"
    rf"|\b\w{{0,24}}(?:expect_?tx|expect_transaction|expect_bytes|barrier_expect|mbarrier_expect)\w{{0,16}}\({_OBJECT}"
    rf"{_COUNT.format('bytes_too')} *\)"
    r"|\b\w{0,24}expect_?(?:tx|transaction)\w{0,8}(?: of | with | is | ?= ?| )(?P<bytes_told>\d{1,12})\b",
    re.IGNORECASE,
)


def explain_arrivals(text: str, target: Target) -> Iterator[Diagnostic]:
    """Yield barriers whose arrivals or bytes are outside of what they count, each finding once.

    Nothing of a GPU that has no such barriers.
    """
    told = set()
    for code, what, least, match, count in _counts(text):
        if least <= count <= MOST_COUNTED or not target.mbarrier or (code, count) in told:
            continue
        told.add((code, count))
        message = "a barrier counts {least} to {most} {what}, and {count} are given"
        help_ = "initialise it with the number of arrivals of each phase, and announce the bytes of one phase at a time"
        numbers = {"least": least, "most": MOST_COUNTED, "what": what, "count": count}
        yield RULE_OF[code].diagnostic(
            require(False, message, help=help_, **numbers), f'text "{" ".join(match[0].split())[:97]}"'
        )


def within_counts(text: str) -> set[str]:
    """Return the rules of counts that a text gives, all of them in order."""
    given = [(code, least <= count <= MOST_COUNTED) for code, _, least, _, count in _counts(text)]
    return {code for code, _ in given} - {code for code, in_order in given if not in_order}


def _counts(text: str) -> Iterator[tuple[str, str, int, re.Match[str], int]]:
    for match in islice(_MADE.finditer(text), MOST_BARRIERS):
        yield "PIPE021", "arrivals", 1, match, _number(match["count"])
    for match in islice(_EXPECTED.finditer(text), MOST_BARRIERS):
        yield "PIPE022", "bytes", 0, match, _number(match["bytes"] or match["bytes_too"] or match["bytes_told"])


def _number(word: str) -> int:
    return int(word, 0 if word.startswith("0x") else 10)
