"""Of how many public reports `explain` names the cause first or second: when first read, and now.

python -m bench.reported                # every set of tests/data/reported_*.jsonl
python -m bench.reported --part tables  # one part of the reports that were drawn blind, with each that is missed
python -m bench.reported --folds        # reports that no sentence was mended for, by what is learned of all others

Figures of now are of texts that were mended for: only "when first read" measures reports that nobody has seen, and
"--folds" what may be expected of such (minutes: what words say is learned anew for each sixth of the libraries).
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import legalsat as ls
from bench import fit_evidence
from legalsat.pasted.sentences import OWN_LIMIT, RULE_OF
from legalsat.pasted.wording import likely, ranking
from legalsat.targets import target_of_text

SETS = (
    *(
        "texts",
        "with_code",
        "gathered",
        "fresh",
        "blind",
        "recent",
        "later",
        "drawn",
        "further",
        "wider",
        "latest",
        "newest",
        "faults",
        "current",
        "present",
        "found",
        "gleaned",
        "searched",
        "sought",
        "noted",
    ),
    *(
        "sealed",
        "sealed_further",
        "sealed_wider",
        "sealed_latest",
        "sealed_newest",
        "sealed_current",
        "sealed_present",
        "sealed_found",
        "sealed_gleaned",
        "sealed_searched",
        "sealed_sought",
        "sealed_noted",
    ),  # which nobody who mends anything reads; the first eight are learned from (`fit_evidence.UNREAD`)
)
NOT_MENDED_FOR = ("wider", "latest", "newest")  # but for what words say
FIRST = 2  # diagnostics among which the cause must be


def told(text: str, target: str) -> tuple[str, ...]:
    """Return the codes of what is said of a text, none where nothing in it is understood."""
    try:
        return tuple(one.code for one in ls.explain(text, target).diagnostics)
    except ls.InvalidInput:
        return ()


def named(report: dict[str, Any], codes: Sequence[str]) -> bool:
    """Whether one of the first codes is the report's cause; a program asks what is no rule of the target's units."""
    target = target_of_text(report["target"])
    lacks = any(RULE_OF[code].unit.limits(target) is None for code in report["codes"] if code in RULE_OF)
    return not {*codes[:FIRST]}.isdisjoint({*report["codes"], *((OWN_LIMIT,) if lacks else ())})


def answered(report: dict[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what is told of a report's text, and of the text with what else the reporter had."""
    return told(report["text"], report["target"]), told(f"{report['text']}\n{report.get('had', '')}", report["target"])


def _sets(part: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    for name in SETS:
        reports = fit_evidence.labelled((name,))
        of = {"texts": "half", "with_code": "set", "gathered": "batch", "fresh": "batch"}.get(name, "part")
        for value in dict.fromkeys(report.get(of, "") for report in reports):
            if not part or part == value:
                yield f"{name} {value}".strip(), [report for report in reports if report.get(of, "") == value]


def _share(reports: Sequence[dict[str, Any]], run: str) -> str:
    """Return how many were named in a recorded run, from the text and with the rest."""
    runs = [report[run] for report in reports if run in report]
    if not runs:
        return "not recorded"
    if isinstance(runs[0], bool):
        return f"{sum(runs)} from the text"
    return f"{sum(one['text'] for one in runs)}, {sum(one['had'] for one in runs)}"


def folds() -> None:
    """Print how many reports are named, and what unrelated texts are told, by what other libraries' texts teach."""
    every, asked, others = fit_evidence.labelled(), fit_evidence.labelled(NOT_MENDED_FOR), fit_evidence.unrelated()
    elsewhere = [other for other in others if other["asked"]]
    right, told_as, kept = [0, 0], Counter[str](), ranking.COUNTS
    with tempfile.TemporaryDirectory() as folder:
        for fold in range(fit_evidence.FOLDS):
            learned = [[text for text in texts if fit_evidence.fold_of(text) != fold] for texts in (every, others)]
            ranking.COUNTS = Path(folder) / f"{fold}.json"
            ranking.COUNTS.write_text(json.dumps(fit_evidence.evidence(*learned)), encoding="utf-8")
            ranking.evidence.cache_clear()
            for report in (report for report in asked if fit_evidence.fold_of(report) == fold):
                for at, codes in enumerate(answered(report)):
                    right[at] += named(report, codes)
            of = (other for other in elsewhere if fit_evidence.fold_of(other) == fold)
            told_as.update(_guessed_as(fit_evidence.whole(other), other["target"]) for other in of)
    ranking.COUNTS = kept
    ranking.evidence.cache_clear()
    print(f"reports: {right[0]} from the text, {right[1]} with the rest; of {len(asked)}")
    print(f"unrelated texts: {told_as['likely']} are told likely causes, {told_as['possible']} possible ones; ", end="")
    print(f"of {len(elsewhere)}")


def _guessed_as(text: str, target: str) -> str:
    """Return what causes are told as that a text's words name; "" where none are."""
    try:
        return max((one.basis for one in ls.explain(text, target).diagnostics if one.where == likely.WHERE), default="")
    except ls.InvalidInput:
        return ""


def main() -> None:
    """Print a line for each set, and what was missed of one that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", default="", help="one part, half, set or batch alone, with what it misses")
    parser.add_argument("--folds", action="store_true", help="answer reports by what is learned of the others")
    options = parser.parse_args()
    if options.folds:
        folds()
        return
    part = options.part
    print("set: when first read; now, from the text and with the rest; of how many")
    for name, reports in _sets(part):
        found = [answered(report) for report in reports]
        by = [[named(report, codes[at]) for report, codes in zip(reports, found, strict=True)] for at in (0, 1)]
        print(f"{name}: {_share(reports, 'first_run')}; {sum(by[0])}, {sum(by[1])}; of {len(reports)}", flush=True)
        for report, (text, rest), *was in zip(reports, found, *by, strict=True) if part else ():
            if not all(was):
                print(f"  {report['id']}: {'/'.join(report['codes'])}; text {text[:3]}, with the rest {rest[:3]}")


if __name__ == "__main__":
    main()
