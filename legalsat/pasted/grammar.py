"""What a recogniser of texts is made of: a sentence's pattern, what it means, and how texts are made even.

Programs print through loggers, terminals and test runners, which colour lines, indent and wrap them. `even` undoes
that, so that a pattern's single space stands for any white space. All of it takes time linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from legalsat.diagnostics import Level
from legalsat.targets import Target

_ESCAPES = re.compile(
    r"\x1b(?:\[[0-9;:?]{0,40}[ -/]?[@-~]|\][^\x07\x1b\n]{0,400}(?:\x07|\x1b\\)?)|[\x00-\x08\x0e-\x1f]"
)
_MARGIN = re.compile(
    r"^[ \t]*(?:E[ \t]{2,}|[>|\u2502][ \t])"
)  # what pytest, quotations and drawn boxes put before a line
# What loggers and launchers put there: a rank, a process, a time, a level before a time, the file that logs.
_LOGGED = re.compile(
    r"^[ \t]*(?:(?:\[(?:rank|default|R)\d{1,5}\]:|\(\w{1,40} pid=\d{1,9}(?:, ip=[\d.]{1,15})?\)|"
    r"\[?(?:\d{4}-)?(?:\d\d-\d\d[ T])?\d\d:\d\d:\d\d(?:[.,]\d{1,6})?Z?\]?|"
    r"[EWIFV]\d{4} \d\d:\d\d:\d\d\.\d{1,6} +\d{1,9} [\w./-]{1,200}:\d{1,6}\]|\[\d{1,4}/\d{1,4}\](?= )|"
    r"(?:INFO|WARNING|ERROR|DEBUG|CRITICAL)(?= \[?\d\d[-:])|\[[\w./-]{1,200}\.(?:py|cpp|cc):\d{1,6}\])[ \t]*)+"
)
_ESCAPED = re.compile(r"\\[nrt]")  # as logs print the text of an exception


# By which a text says that anything failed at all.
FAILED = re.compile(
    r"\b\w*(?:Error|Exception)\b|\b[Aa]ssert(?:ion)?\b|\bfail(?:s|ed|ure)?\b|\bFAILED\b|\bcrash\w*|CUBLAS_STATUS|CUDNN_STATUS|"
    r"[Mm]isaligned"
)
_ASSIGNED = re.compile(r"%\w+ = (?=[a-z_]\w*\.)")  # of compilers' IR, whose % is no remainder
_LAYOUT = re.compile(
    r"(?:tensor<)?(?:\w*ptr(?:<[^<>\n]{0,80}(?:<[^<>\n]{0,40}>[^<>\n]{0,40}){0,3}>|"
    r"\[[^\]\n]{0,40}\])|Sw<[\d, -]{0,20}>)[^(\n]{0,60}"
    r"|[(\d,_)]{3,400}:[(\d,_)]{3,400}>?"
    r"|#\w+\.\w+<\{[^{}\n]{0,400}\}>|!\w+(?:\.\w+)+<[^<>\n]{0,200}(?:<[^<>\n]{0,200}>[^<>\n]{0,200}){0,4}>"
    r"|\{\w+\.\w+ = [^{}\n]{0,120}\}"
)


class Sentence(NamedTuple):
    """One error text: who raises it, how it reads, the rule that it is about, what it means and what to change.

    The named groups of `pattern` are the fields of `message` and `help`; a group `..._too` is another place of the
    same number. A space in `pattern` is any white space, a line's end too.
    """

    program: str
    pattern: str
    code: str
    message: str
    help: str
    level: Level = "error"


def _nothing(target: Target, line: str) -> str:
    return ""


class Cause(NamedTuple):
    """One cause: the rule, what a line must be about, what it must ask, what it must not be about, and what to say.

    In `message` may stand `{asked}`, what the line asks of a quantity and was given, else it follows the message, and
    `{hardware}`, which says what of it a target's hardware asks too.
    """

    code: str
    about: str
    asks: str
    message: str
    help: str
    unless: str = r"(?!)"
    hardware: Callable[[Target, str], str] = _nothing


def plain(text: str) -> str:
    """Return `text` without colours, margins and what loggers put before a line, with escaped line ends as such."""
    lines = _ESCAPES.sub("", _ESCAPED.sub("\n", text)).splitlines(keepends=True)
    return "".join(_LOGGED.sub("", _MARGIN.sub("", line)) for line in lines)


def even(text: str) -> str:
    """Return plain `text` with one space for each run of blanks, and no empty lines."""
    lines = (" ".join(_ASSIGNED.sub("", line).split()) for line in text.splitlines())
    return "\n".join(line for line in lines if line)


def without_layouts(line: str) -> str:
    """Return a line without layouts, whose numbers are no sizes: CuTe's `ptr<i8, smem> o (8,4):(4,1)`, and IR's."""
    return _LAYOUT.sub(" ", line)


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> re.Pattern[str]:
    """Return a sentence's pattern, whose spaces match a line's end as well."""
    return re.compile("".join(r"[ \n]" if part == " " else part for part in _parts(pattern)))


def _parts(pattern: str) -> list[str]:
    """Return the pieces of a pattern: escapes and classes whole, other characters one by one."""
    return re.findall(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[\s\S]", pattern)


@lru_cache(maxsize=1024)
def needles(pattern: str) -> tuple[str, ...]:
    """Return words of which every match of `pattern` holds one as it stands: the longest of each alternative.

    A text with none of them is not searched for the pattern, which makes many sentences cheap.
    """
    longest = []
    for outside in _outside_groups(pattern).split("|"):
        words = re.findall(r"[A-Za-z0-9_]{3,}(?![?*{\w])", re.sub(r"\{[\d,]+\}", " ", outside))
        longest.append(max(words, key=len, default=""))
    return tuple(longest)


def _outside_groups(pattern: str) -> str:
    """Return what of `pattern` lies outside groups and classes, with blanks for these."""
    kept, depth, in_class, chars = [], 0, False, iter(pattern)
    for char in chars:
        if char == "\\":
            escaped = next(chars, "")
            kept.append(escaped if depth == 0 and not in_class and not escaped.isalnum() else " ")
        elif in_class:
            in_class = char != "]"
        elif char in "[()":
            in_class = char == "["
            depth += (char == "(") - (char == ")")
            kept.append(" ")
        elif depth == 0:
            kept.append(char)
    return "".join(kept)
