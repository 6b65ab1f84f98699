"""Count the words of reports whose cause is known, which rank likely causes (`legalsat/pasted/evidence.json`).

python -m bench.fit_evidence            # writes the file
python -m bench.fit_evidence --folds 5  # how often a report's cause is first or second by the others' words
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from legalsat.pasted import likely
from legalsat.pasted.tables.evidence import TOLD
from legalsat.targets import target_of_text

DATA = Path(__file__).parent.parent / "tests" / "data"
SETS = ("texts", "with_code", "gathered", "fresh", "blind", "recent")
LEAST_OVERALL, LEAST_OF_CAUSE = 12, 1  # reports with a word, of all and of one cause


def labelled(names: Sequence[str] = SETS) -> list[dict[str, Any]]:
    """Return the reports whose codes are known."""
    found = []
    for name in names:
        lines = (DATA / f"reported_{name}.jsonl").read_text(encoding="utf-8").splitlines()
        found += [report for line in lines if (report := json.loads(line)).get("codes")]
    return found


def counted(reports: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return how often reports of each cause have each word; a report of several causes counts for each in part."""
    by_cause: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    number: defaultdict[str, float] = defaultdict(float)
    overall: Counter[str] = Counter()
    for report in reports:
        cause = report.get("cause") or report.get("why", "")
        words = likely.features(f"{report['text']}\n{report.get('had', '')}\n{cause}")
        overall.update(words.keys())
        for code in report["codes"]:
            number[code] += 1 / len(report["codes"])
            for word in words:
                by_cause[code][word] += 1 / len(report["codes"])
    known = {word for told in TOLD.values() for word in likely.features(told)}
    kept = {word for word, count in overall.items() if count >= LEAST_OVERALL or word in known}
    return {
        "reports": _rounded(number),
        "words": {
            code: _rounded({word: n for word, n in words.items() if word in kept and n >= LEAST_OF_CAUSE})
            for code, words in sorted(by_cause.items())
        },
        "overall": _rounded({word: n for word, n in overall.items() if word in kept}),
    }


def _rounded(counts: Mapping[str, float]) -> dict[str, float]:
    return {name: int(count) if count == int(count) else round(count, 2) for name, count in sorted(counts.items())}


def named(reports: Sequence[dict[str, Any]], folds: int) -> int:
    """Return of how many reports a cause is first or second by the words of those in other folds."""
    found = 0
    for fold in range(folds):
        evidence = likely.evidence_of(counted(r for at, r in enumerate(reports) if at % folds != fold))
        for report in reports[fold::folds]:
            words = likely.features(f"{report['text']}\n{report.get('had', '')}")
            first = likely.ranked(words, evidence, target_of_text(report["target"]))[: likely.MOST]
            found += not set(report["codes"]).isdisjoint(first)
    return found


def main() -> None:
    """Write the counts, or measure the ranking."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folds", type=int, default=0, help="measure by leaving out so many parts in turn")
    folds = parser.parse_args().folds
    reports = labelled()
    if folds:
        asked = [r for r in reports if any(likely.may_be(code, target_of_text(r["target"])) for code in r["codes"])]
        print(f"{named(asked, folds)} of {len(asked)}")
    else:
        likely.COUNTS.write_text(json.dumps(counted(reports), separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
