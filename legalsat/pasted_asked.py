"""What a line asks of a number and which one it was given, as far as it prints them: "a multiple of 128", "19"."""

from __future__ import annotations

import re
from typing import NamedTuple

_NUMBER = r"(?<![A-Za-z_\d.])(\d{1,7})\b(?!\.\d)"
_MANY = r"(\d{1,6}(?:(?:\s*,\s*(?:and |or )?|\s+(?:and|or)\s+|\s*/\s*|\s*\|\s*)\d{1,6})+)"
_VERBS = (
    r"only supports?|supports? only|supported|must be|should be|has to be|have to be|needs? to be|expects?|expected|"
    r"one of|not in|be in|are|allowed|valid|available|requires?|required"
)
_ASKED = (
    (re.compile(rf"(?:multiples? of|divisib\w+ by|aligned to|%)\W{{0,3}}{_NUMBER}", re.I), "a multiple of {0}"),
    (re.compile(rf"\b{_NUMBER} ?<=? ?[A-Za-z_]\w* ?<=? ?{_NUMBER}", re.I), "{0} to {1}"),
    (re.compile(rf"\bbetween {_NUMBER} and {_NUMBER}", re.I), "{0} to {1}"),
    (re.compile(rf"\b(?:{_VERBS})\b[^\d\n]{{0,40}}?{_MANY}", re.I), "{0}"),
    (re.compile(rf"\bonly\b[^\d\n]{{0,30}}?{_MANY}", re.I), "{0}"),
    (
        re.compile(rf"==\W{{0,2}}{_NUMBER}\W{{0,12}}(?:\bor\b|\|\|)[^\d\n]{{0,40}}==\W{{0,2}}{_NUMBER}", re.I),
        "{0} or {1}",
    ),
    (
        re.compile(
            rf"(?:at most|<=|up to|less than or equal to|no (?:more|larger|greater) than|maximum(?: of)?|"
            rf"not exceed|not be (?:larger|greater) than|limit(?:ed)? (?:of|to)|\bmax(?:imum)?(?: is| =|:)?)\W{{0,3}}"
            rf"{_NUMBER}",
            re.I,
        ),
        "at most {0}",
    ),
    (
        re.compile(
            rf"\b(?:must|only|should|requires?|expect\w*|assert\w*)\b[^\d\n]{{0,40}}?"
            rf"(?:>|greater than|more than|larger than|above) ?{_NUMBER}",
            re.I,
        ),
        "more than {0}",
    ),
    (re.compile(rf"(?:exceed\w*|larger than|greater than|more than|above)\W{{0,3}}{_NUMBER}", re.I), "at most {0}"),
    (re.compile(rf"(?:at least|>=|minimum(?: of)?|no less than)\W{{0,3}}{_NUMBER}", re.I), "at least {0}"),
    (re.compile(r"power of (?:2|two)", re.I), "a power of two"),
    (re.compile(rf"(?:\b(?:{_VERBS})|==)[^\d\n]{{0,24}}?(?!0\b){_NUMBER}", re.I), "{0}"),
)
_GIVEN = re.compile(
    r"(?:\bbut|\bgot|\bgiven|\breceived|\bfound|\bactual(?:ly)?|\binstead)\b[^\d(\[\n]{0,40}?"
    r"(?P<given>(?:torch\.Size\()?[(\[]\d+(?:, ?\d+)*,?[)\]]\)?|-?\d{1,9}\b)"
    r"|(?:unsupported|dispatch|invalid|for)\b[^\d\n=,]{0,30}(?:size|dim\w*|recipe|rank|heads?)\w*\W{1,3}(?P<named>\d{1,6})\b"
    r"|\b(?:head_?dim\w*|head_?size|page_?size|block_?size|group_?size|dim|hidden_size)\s?[=:]\s?(?P<equals>\d{1,6})\b",
    re.I,
)


class Asked(NamedTuple):
    """What a line asks and was given, in words; "" for what it does not print."""

    asks: str
    given: str

    def __str__(self) -> str:
        asks = f": it asks for {self.asks}" if self.asks else ""
        given = f"{',' if asks else ':'} given {self.given}" if self.given else ""
        return asks + given


def asked(line: str) -> Asked:
    """Return what a line asks of a number, and the number that it was given."""
    given = _GIVEN.search(line)
    got = next(filter(None, given.groups()), "") if given is not None else ""
    before = line if given is None or not given["given"] else line[: given.start()]
    for pattern, words in _ASKED:
        match = pattern.search(before)
        if match is not None:
            asks = words.format(*match.groups())
            return Asked(asks, "" if asks == got else got)
    return Asked("", got)
