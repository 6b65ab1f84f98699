"""Count and weigh the words of reports whose cause is known, which rank causes (`legalsat/pasted/evidence.json`).

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

import numpy as np

from legalsat.pasted import likely, ranking
from legalsat.pasted.tables.evidence import TOLD
from legalsat.pasted.tables.tellings import TELLINGS
from legalsat.targets import target_of_text

DATA = Path(__file__).parent.parent / "tests" / "data"
SETS = ("texts", "with_code", "gathered", "fresh", "blind", "recent", "later")
WITH_CAUSE, AS_TOLD = 0.5, 2.0  # reports that a report with its cause counts like, and what is told of a cause
LEAST_WEIGHED, LEAST_WEIGHT = 3, 0.25  # documents with a word that is weighed; what is less than that is none
SHRINK, STEPS = 0.02, 150  # of the linear model's fit
LEAST_OVERALL, LEAST_OF_CAUSE = 5, 1  # reports with a word, of all and of one cause


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
        words = ranking.features(f"{report['text']}\n{report.get('had', '')}\n{cause}")
        overall.update(words.keys())
        for code in report["codes"]:
            number[code] += 1 / len(report["codes"])
            for word in words:
                by_cause[code][word] += 1 / len(report["codes"])
    told = [*TOLD.values(), *(one for tellings in TELLINGS.values() for one in tellings)]
    known = {word for one in told for word in ranking.features(one)}
    kept = {word for word, count in overall.items() if count >= LEAST_OVERALL or word in known}
    return {
        "reports": _rounded(number),
        "words": {
            code: _rounded({word: n for word, n in words.items() if word in kept and n >= LEAST_OF_CAUSE})
            for code, words in sorted(by_cause.items())
        },
        "overall": _rounded({word: n for word, n in overall.items() if word in kept}),
    }


def weighed(reports: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the weights of a linear model, in steps, that tells the causes of reports apart by their words.

    A softmax over causes, regularised by the sum of squares, fitted to what reports have, to the same with the cause
    that their threads name, and to what is told of each cause. A report of several causes counts for each in part.
    """
    documents: list[tuple[dict[str, str], dict[str, float], float]] = []
    for report in reports:
        had, cause = f"{report['text']}\n{report.get('had', '')}", report.get("cause") or report.get("why", "")
        shares = {code: 1 / len(report["codes"]) for code in report["codes"]}
        documents.append((ranking.features(had), shares, 1.0))
        documents += [(ranking.features(f"{had}\n{cause}"), shares, WITH_CAUSE)] if cause else []
    documents += [(ranking.features(told), {code: 1.0}, AS_TOLD) for code, told in TOLD.items()]
    documents += [(ranking.features(one), {code: 1.0}, 1.0) for code, tellings in TELLINGS.items() for one in tellings]
    often = Counter(word for words, _, _ in documents for word in words)
    # Ranking counts the words that are counted, and no others.
    known = ranking.evidence_of(counted(reports)).overall
    words = {word: at for at, word in enumerate(sorted(w for w in known if often[w] >= LEAST_WEIGHED))}
    codes = {code: at for at, code in enumerate(sorted({code for _, of, _ in documents for code in of}))}
    x, t = np.zeros((len(documents), len(words))), np.zeros((len(documents), len(codes)))
    for row, (said, of, _) in enumerate(documents):
        there = [words[word] for word in said if word in words]
        x[row, there] = 1 / np.sqrt(max(sum(word in known for word in said), 1))
        for code, portion in of.items():
            t[row, codes[code]] = portion
    fitted, bias = _fit(x, t, np.array([one[2] for one in documents])[:, None])
    return {
        "weights": {
            code: ranking.in_steps({word: float(fitted[at, column]) for word, at in words.items()}, LEAST_WEIGHT)
            for code, column in codes.items()
        },
        "bias": ranking.in_steps({code: float(bias[column]) for code, column in codes.items()}),
    }


def _fit(x: np.ndarray, t: np.ndarray, often: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights (words x causes) and biases that fit shares `t` of causes to documents `x`, by Adam."""
    w, b = np.zeros((x.shape[1], t.shape[1])), np.zeros(t.shape[1])
    moments = [np.zeros_like(one) for one in (w, w, b, b)]
    for step in range(1, STEPS + 1):
        z = x @ w + b
        p = np.exp(z - z.max(axis=1, keepdims=True))
        d = often * (p / p.sum(axis=1, keepdims=True) - t)
        for at, gradient in ((0, x.T @ d + SHRINK * w), (2, d.sum(axis=0))):
            moments[at] = 0.9 * moments[at] + 0.1 * gradient
            moments[at + 1] = 0.99 * moments[at + 1] + 0.01 * gradient**2
        rate = 0.3 * (1 - step / (STEPS + 1))
        w -= rate * (moments[0] / (1 - 0.9**step)) / (np.sqrt(moments[1] / (1 - 0.99**step)) + 1e-8)
        b -= rate * (moments[2] / (1 - 0.9**step)) / (np.sqrt(moments[3] / (1 - 0.99**step)) + 1e-8)
    return w, b


def evidence(reports: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return counts and weights, as the file has them."""
    return {**counted(reports), **weighed(reports)}


def _rounded(counts: Mapping[str, float]) -> dict[str, float]:
    return {name: int(count) if count == int(count) else round(count, 2) for name, count in sorted(counts.items())}


def named(reports: Sequence[dict[str, Any]], folds: int) -> int:
    """Return of how many reports a cause is first or second by the words of those in other folds."""
    found = 0
    for fold in range(folds):
        known = ranking.evidence_of(evidence([r for at, r in enumerate(reports) if at % folds != fold]))
        for report in reports[fold::folds]:
            words = ranking.features(f"{report['text']}\n{report.get('had', '')}")
            first = ranking.ranked(words, known, target_of_text(report["target"]))[: likely.MOST]
            found += not set(report["codes"]).isdisjoint(first)
    return found


def main() -> None:
    """Write the counts, or measure the ranking."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folds", type=int, default=0, help="measure by leaving out so many parts in turn")
    folds = parser.parse_args().folds
    reports = labelled()
    if folds:
        asked = [r for r in reports if any(ranking.may_be(code, target_of_text(r["target"])) for code in r["codes"])]
        print(f"{named(asked, folds)} of {len(asked)}")
    else:
        ranking.COUNTS.write_text(json.dumps(evidence(reports), separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
