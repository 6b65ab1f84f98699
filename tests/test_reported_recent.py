"""Reports that were gathered last, with their causes written down first, and texts that are about something else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import legalsat as ls
from bench.relabelled import RENAMED, codes_of
from bench.reported import answered, named
from legalsat.pasted.sentences import RULE_OF
from legalsat.pasted.wording import likely

DATA = Path(__file__).parent / "data"
RECENT, LATER, DRAWN = (
    [json.loads(line) for line in (DATA / f"reported_{name}.jsonl").read_text(encoding="utf-8").splitlines()]
    for name in ("recent", "later", "drawn")
)
UNRELATED: list[dict[str, Any]] = [
    json.loads(line) for line in (DATA / "unrelated_texts.jsonl").read_text(encoding="utf-8").splitlines()
]
# From the text and with the rest: before anything was mended for any of them, when first read after that, how many.
AT_ONCE = {"mended": ((6, 17), None, 36), "kept": ((12, 18), (13, 20), 33), "last": ((6, 8), (6, 8), 14)}
# The same of those gathered after them: "kept" was answered once after mending for "mended", though collected by the
# same hand before it, "last" was drawn and answered after that, "after" once more was mended for both.
AT_ONCE_LATER = {
    "mended": ((9, 16), None, 28),
    "kept": ((3, 18), (4, 20), 29),
    "last": ((5, 9), (5, 9), 13),
    "after": ((0, 4), (0, 4), 7),
}
# Gathered after those, by somebody who did not know the code, when a text's scope was learned: before that.
AT_ONCE_DRAWN = {"developed": ((23, 31), None, 51)}
# Of which the answers now name the cause, with the rest; what is missed is missed as the reports say.
NOW = {"mended": 33, "kept": 31, "last": 13}
NOW_LATER = {"mended": 26, "kept": 26, "last": 12, "after": 4}
NOW_DRAWN = {"developed": 43}
# Named once, until more reports were learned from, whose causes their words speak for more.
LOST = {"SparseConvNet-211", "turbo-12", "paddock-6", "tilelang-2200", "cuda.jl-3135"}
# The share of texts about other things of which causes are called likely at most, and of which any is told.
LIKELY, GUESSED = 0.03, 0.25
# What a program prints of itself, which is told as it is: that a check or a launch of its own failed.
SAYS_SO = {"TOOL004", "TOOL010", "TOOL011", "TOOL014"}


@pytest.mark.parametrize(
    ("of", "at_once", "part"),
    [
        *((RECENT, AT_ONCE, part) for part in AT_ONCE),
        *((LATER, AT_ONCE_LATER, part) for part in AT_ONCE_LATER),
        *((DRAWN, AT_ONCE_DRAWN, part) for part in AT_ONCE_DRAWN),
    ],
)
def test_recent_reports_say_how_often_they_were_named_before_and_at_first(
    of: list[dict[str, Any]], at_once: dict[str, Any], part: str
) -> None:
    reports = [report for report in of if report["part"] == part]
    before, first, number = at_once[part]
    for shares, run in ((before, "before"), (first, "first_run")):
        if shares is not None:
            assert tuple(sum(report[run][by] for report in reports) for by in ("text", "had")) == shares
    assert len(reports) == number == len({report["id"] for report in reports})


@pytest.mark.parametrize(
    ("of", "now", "part"),
    [
        *((RECENT, NOW, part) for part in NOW),
        *((LATER, NOW_LATER, part) for part in NOW_LATER),
        *((DRAWN, NOW_DRAWN, part) for part in NOW_DRAWN),
    ],
)
def test_what_was_named_once_of_recent_reports_stays_named(
    of: list[dict[str, Any]], now: dict[str, int], part: str
) -> None:
    reports = [report for report in of if report["part"] == part]
    found = {report["id"] for report in reports if named(report, answered(report)[1])}
    once = {report["id"] for report in reports if report["before"]["had"] or report.get("first_run", {}).get("had")}
    assert once - LOST <= found and len(found) >= now[part]


@pytest.mark.parametrize("report", [*RECENT, *LATER, *DRAWN], ids=lambda report: report["id"])
def test_no_recent_report_is_called_legal(report: dict[str, Any]) -> None:
    for text in (report["text"], f"{report['text']}\n{report['had']}"):
        try:
            assert not ls.explain(text, report["target"]).legal
        except ls.InvalidInput:
            continue


@pytest.mark.parametrize("report", UNRELATED, ids=lambda report: report["id"])
def test_of_unrelated_texts_nothing_is_claimed_but_what_they_say(report: dict[str, Any]) -> None:
    found = explained(report)
    if found is None:
        return
    assert not found.legal and found.repairs == ()
    errors = {one.code for one in found.diagnostics if one.level == "error"}
    assert {code for code in errors if not code.startswith("CUDA")} <= SAYS_SO
    assert all(one.where == likely.WHERE and "not proven" in one.message for one in guesses(found))


def test_of_few_unrelated_texts_a_cause_is_guessed() -> None:
    told = [{one.basis for one in guesses(explained(report))} for report in UNRELATED]
    assert len(UNRELATED) >= 300 and sum(map(bool, told)) <= GUESSED * len(UNRELATED)
    assert sum("likely" in bases for bases in told) <= LIKELY * len(UNRELATED)


@pytest.mark.parametrize(
    ("before", "cause", "now"),
    [
        (["CUDA701", "TOOL003"], "registers", ["TOOL003"]),
        (["TOOL004"], "The driver is older than the PTX.", ["CUDA222"]),
        (["TOOL004"], "The binary has no code for the GPU.", ["TOOL004"]),
        (["PIPE009"], "The host reads the flag before the copy is done.", ["TOOL017", "PIPE009"]),
        (["PIPE009"], "stream-k: partial sums are read too early", ["PIPE009"]),
        (["PIPE004"], "The blocks are not all resident.", ["CUDA720", "PIPE004"]),
    ],
)
def test_labels_follow_rules_by_the_written_cause(before: list[str], cause: str, now: list[str]) -> None:
    assert codes_of({"codes": before, "cause": cause, "text": "streams, the driver is older, resident"}) == now
    assert {row.code for row in RENAMED} <= RULE_OF.keys()


def explained(report: dict[str, Any]) -> ls.Explanation | None:
    try:
        return ls.explain(f"{report['text']}\n{report.get('had', '')}", report["target"])
    except ls.InvalidInput:
        return None


def guesses(found: ls.Explanation | None) -> list[ls.Diagnostic]:
    """Return what is said of a text and is no error, which is a guess."""
    return [] if found is None else [one for one in found.diagnostics if one.level != "error"]
