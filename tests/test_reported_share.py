"""How many of the public reports have their root cause named first or second, and which do not."""

from __future__ import annotations

from reported_failures import FAILURES
from test_pasted_reports import LISTED, NAMED, TENSORS
from test_reported_failures import BROKEN, REPLAYED
from test_reported_protocols import PROGRAMS, TEXTS

# Why the cause is not named, though something may be said.
MISSED = {
    "fuser-3963": "one compiler's own 16 x 16 tile of stmatrix, which neither a map nor a descriptor tells",
    "vllm-48587": "one library has no kernel for part of a block of scales; its text is that of a misaligned pitch",
}
# A result or a sanitizer's line alone, where the first diagnostic names the cause among few others.
BY_TEXT_ALONE = {"pytorch-133334"}


def test_the_cause_of_95_percent_of_the_reports_is_named_first_or_second() -> None:
    broken = {name for name, entry in FAILURES.items() if entry["verdict_expected"] in BROKEN}
    named = {*NAMED, *TENSORS, *REPLAYED, *TEXTS, *PROGRAMS, *BY_TEXT_ALONE} & broken
    assert named | set(MISSED) == broken and not named & set(MISSED)
    assert set(LISTED) <= named, "what a result lists is named alone where its numbers are known"
    assert len(named) >= 0.95 * len(broken)


def test_every_legal_report_is_replayed() -> None:
    legal = {name for name, entry in FAILURES.items() if entry["verdict_expected"] == "legal"}
    assert legal <= {*NAMED, *TENSORS, *REPLAYED}
