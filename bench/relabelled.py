"""Codes of reports whose rule was renamed, split or made after they were labelled: one table, by the written cause.

Whoever gathered a report wrote down its cause, and the code that such causes had then. A row says which codes became
which, and of which written causes; it was found on reports that are learned from, so that nobody need read those kept
apart, and sees neither what a report says nor what is answered to it. Files keep the codes that were written first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple


class Renamed(NamedTuple):
    """Causes that had one of some codes and have another now, instead of these or beside them."""

    before: str
    code: str
    cause: str
    instead: bool
    why: str


# Sets whose labels know these rules.
LABELLED_SINCE = (
    *("newest", "sealed_newest", "faults", "current", "sealed_current"),
    *("present", "sealed_present", "found", "sealed_found", "gleaned", "sealed_gleaned"),
    *("searched", "sealed_searched", "sought", "sealed_sought", "noted", "sealed_noted"),
)
_BESIDE = "the rule is newer than the label, which stays true in general words"
RENAMED = tuple(
    Renamed(*row)
    for row in (
        ("CUDA701", "TOOL003", "", True, "too few registers for a block have one rule, whatever call says so"),
        (
            "TOOL004",
            "CUDA222",
            r"\bnewer\b.{0,40}\b(?:driver|ptxas)|(?:driver|ptxas)\b.{0,40}\bolder|unsupported toolchain",
            True,
            "split: the code is for this GPU, and its PTX of a version that driver or ptxas do not know",
        ),
        (
            "TOOL008|TOOL011",
            "CUDA720",
            r"co-?operative (?:grid|launch).{0,60}(?:\bmore\b|larger|fit|at once|same time)|\bresident\b",
            True,
            "split: the grid is no larger than a grid may be, but more than runs at the same time",
        ),
        ("PIPE004|PIPE018", "CUDA720", r"\bresident\b", False, _BESIDE),
        ("PIPE008|PIPE009|CUDA700", "TOOL017", r"\bstreams?\b(?!-k)|\bhost reads\b.{0,60}\bbefore\b", False, _BESIDE),
        ("TOOL003|REG001", "TOOL015", r"\bspill", False, _BESIDE),
        (
            "PIPE008|PIPE009|CUDA700|COPY010",
            "TOOL016",
            r"uninitiali[sz]ed|nobody (?:wrote|initiali)|never (?:zeroed|cleared|initiali)|not (?:zeroed|reset)",
            False,
            _BESIDE,
        ),
        (
            "PIPE008|PIPE009|PIPE018|TOOL010|CUDA700",
            "TOOL018",
            r"wavefronts? of 64|\bwarp ?size|warps? of 64|64 lanes",
            False,
            _BESIDE,
        ),
        ("CUDA700|CUDA719", "TOOL019", r"\bstack\b.{0,40}\boverflow|heap of malloc", False, _BESIDE),
        (
            "CUDA700|TMA004",
            "TOOL020",
            r"\bhost (?:pointer|memory)|pointers? to memory of device|\b(?:another|other) device",
            False,
            _BESIDE,
        ),
        ("TOOL010", "TOOL014", r"(?:fault|bug) (?:of|in) the compiler|compiler crash|miscompil", False, _BESIDE),
    )
)


def codes_of(report: Mapping[str, Any]) -> list[str]:
    """Return the codes of a report's cause by today's rules."""
    codes = list(report.get("codes", ()))
    cause = report.get("cause") or report.get("why", "")
    for row in RENAMED:
        if any(re.fullmatch(row.before, code) for code in codes) and re.search(row.cause, cause, re.IGNORECASE):
            kept = [code for code in codes if not (row.instead and re.fullmatch(row.before, code))]
            codes = list(dict.fromkeys((row.code, *kept)))
    return codes
