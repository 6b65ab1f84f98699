"""Count and weigh the words of texts whose cause is known, which rank causes (`legalsat/pasted/wording/evidence.json`).

python -m bench.fit_evidence            # writes the file
python -m bench.fit_evidence --curve    # the first by a quarter, a half and all of the other libraries' reports
python -m bench.fit_evidence --folds    # how often a report's cause is first or second by what other libraries' say

What `explain` as a whole answers by what is learned of other reports measures `python -m bench.reported --folds`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.relabelled import LABELLED_SINCE, codes_of
from legalsat.pasted.sentences import RULE_OF, SENTENCES
from legalsat.pasted.tables.evidence import TOLD
from legalsat.pasted.tables.more_tellings import MORE_TELLINGS
from legalsat.pasted.tables.tellings import TELLINGS
from legalsat.pasted.wording import likely, ranking, scope
from legalsat.targets import target_of_text

DATA = Path(__file__).parent.parent / "tests" / "data"
SETS = (
    *("texts", "with_code", "unseen", "developed", "held", "gathered"),
    *("fresh", "blind", "recent", "later", "drawn", "further", "wider", "latest", "newest", "faults", "current"),
    *("present", "found", "gleaned", "searched", "sought", "noted"),
)
# Reports that nobody who mends anything reads, and that the fit alone learns from; newer ones are kept from it as well.
UNREAD = (
    *("sealed", "sealed_further", "sealed_wider", "sealed_latest", "sealed_newest"),
    *("sealed_current", "sealed_present", "sealed_found"),
)
ELSEWHERE = ("texts", "learned")  # of which the first are asked about, and the others only learned from
# How many reports count a report with its cause, its text without what else the reporter had, what is told of a cause
# at length, and each telling, message or rule, which were written by people who had read the reports: of others they
# know half of what reports know. What is written down as such reports read counts as one.
WITH_CAUSE, ITS_TEXT, AS_TOLD, AS_TELLING, AS_WRITTEN = 0.5, 0.5, 0.4, 0.4, 1.0
LEAST_WEIGHED, LEAST_PAIRED = 3, 5  # documents with a word, and with a pair of words, that is weighed
LEAST_WEIGHT = 0.25  # what is less than that is none
SHRINK, STEPS = 0.1, 50  # of the linear model's fit
SCOPE_SHRINK, SCOPE_STEPS, LEAST_IN_SCOPE, LEAST_PAIRED_IN_SCOPE = 0.3, 150, 2, 3
FOLDS = 6
# Of texts about something else that are asked about, held out by where they are from, so many at most are told likely
# causes, and so many any: who asks has mostly a kernel that fails.
MOST_SURE, MOST_GUESSED = 0.05, 0.3
_features = lru_cache(maxsize=1 << 13)(ranking.features)
# Of a pattern what it stands for, what may not be beside it, and its signs.
_PATTERN = re.compile(
    r"\(\?P<\w+>[^()]*\)|\(\?<?!(?:[^()]|\([^()]*\))*\)|\\[a-zA-Z]|\(\?[:=!]|\[[^\]]*\]|\{[^}]*\}|[\\?*+()|.^$]"
)


class Document(NamedTuple):
    """A text, the causes that it tells of in shares, how many reports it counts like, and of whose GPU it tells."""

    text: str
    causes: dict[str, float]
    often: float
    vendor: str = ""


def labelled(names: Sequence[str] = (*SETS, *UNREAD)) -> list[dict[str, Any]]:
    """Return the reports whose codes are known, with those that their causes have today."""
    found: list[dict[str, Any]] = []
    for name in names:
        lines = (DATA / f"reported_{name}.jsonl").read_text(encoding="utf-8").splitlines()
        of = [report for line in lines if (report := json.loads(line)).get("codes")]
        found += of if name in LABELLED_SINCE else [{**report, "codes": codes_of(report)} for report in of]
    return found


def unrelated(names: Sequence[str] = ELSEWHERE) -> list[dict[str, Any]]:
    """Return texts of which no cause is to be named, and of each whether it is `asked` about or only learned from."""
    found = []
    for name in names:
        text = (DATA / f"unrelated_{name}.jsonl").read_text(encoding="utf-8")
        found += [json.loads(line) | {"asked": name == ELSEWHERE[0]} for line in text.splitlines()]
    return found


@lru_cache(maxsize=1)
def written() -> list[dict[str, Any]]:
    """Return what is written down as reports of each cause read, which are none."""
    return [json.loads(line) for line in (DATA / "told_reports.jsonl").read_text(encoding="utf-8").splitlines()]


def whole(report: Mapping[str, Any]) -> str:
    """Return all that a reporter had."""
    return f"{report['text']}\n{report.get('had', '')}".rstrip()


def documents(reports: Iterable[Mapping[str, Any]]) -> list[Document]:
    """Return reports, alone and with the cause that their threads name, and whatever else is told of causes."""
    return [*reported(reports), *told()]


def reported(reports: Iterable[Mapping[str, Any]]) -> list[Document]:
    """Return reports, alone, with the cause that their threads name, and without what else the reporter had."""
    found: list[Document] = []
    for report in reports:
        had, cause = whole(report), report.get("cause") or report.get("why", "")
        shares, vendor = _shared(report["codes"]), target_of_text(report["target"]).vendor
        found.append(Document(had, shares, 1.0, vendor))
        found += [Document(f"{had}\n{cause}", shares, WITH_CAUSE, vendor)] if cause else []
        found += [Document(report["text"], shares, ITS_TEXT, vendor)] if report.get("had") else []
    return found


def told() -> Iterator[Document]:
    """Yield what is told of each cause: by these tables, by programs' own sentences, and by the rules."""
    for code, one in TOLD.items():
        yield Document(one, {code: 1.0}, AS_TOLD)
    for table in (TELLINGS, MORE_TELLINGS):
        for code, tellings in table.items():
            yield from (Document(one, {code: 1.0}, AS_TELLING) for one in tellings)
    for text in written():
        yield Document(text["text"], _shared(text["codes"]), AS_WRITTEN)
    for line in (DATA / "printed_messages.jsonl").read_text(encoding="utf-8").splitlines():
        printed = json.loads(line)
        if printed["codes"]:
            yield Document(printed["text"], _shared(printed["codes"]), AS_TELLING)
    for sentence in SENTENCES:
        words = f"{_PATTERN.sub(' ', sentence.pattern)}\n{sentence.message}"
        yield Document(words, _shared(sentence.code.split("/")), AS_TELLING)
    gpus = [target_of_text(name) for name in ("b200", "h200")]
    for code, rule in RULE_OF.items():
        if any(ranking.may_be(code, gpu) for gpu in gpus):
            yield Document(f"{rule.name.replace('_', ' ')} {rule.docs}", {code: 1.0}, AS_TELLING)


def _shared(codes: Sequence[str]) -> dict[str, float]:
    return dict.fromkeys(codes, 1 / len(codes))


def evidence(reports: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return counts and weights, as the file has them; `others` are unrelated texts."""
    texts = documents(reports)
    causes = {**counted(texts), **weighed(texts)}
    return {**causes, "scope": scoped(reports, others, ranking.evidence_of(causes))}


def counted(texts: Sequence[Document]) -> dict[str, Any]:
    """Return how often texts of each cause have each word; one of several causes counts for each in part."""
    by_cause: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    number: defaultdict[str, float] = defaultdict(float)
    overall: defaultdict[str, float] = defaultdict(float)
    often: Counter[str] = Counter()
    for text in texts:
        words = _features(text.text, text.vendor)
        often.update(words.keys())
        for word in words:
            overall[word] += text.often
        for code, share in text.causes.items():
            number[code] += share * text.often
            for word in words:
                by_cause[code][word] += share * text.often
    kept = {word for word, count in often.items() if count >= _least(word)}
    return {
        "reports": _rounded(number),
        "words": {
            code: _rounded({word: count for word, count in words.items() if word in kept})
            for code, words in sorted(by_cause.items())
        },
        "overall": _rounded({word: count for word, count in overall.items() if word in kept}),
    }


def _least(word: str) -> int:
    return LEAST_WEIGHED if ranking.is_term(word) else LEAST_PAIRED


def weighed(texts: Sequence[Document]) -> dict[str, Any]:
    """Return the weights of a linear model, in steps, that tells the causes of texts apart by their words.

    A softmax over causes, regularised by the sum of squares.
    """
    said = [_features(text.text, text.vendor) for text in texts]
    often = Counter(word for words in said for word in words)
    words = {word: at for at, word in enumerate(sorted(w for w, count in often.items() if count >= _least(w)))}
    codes = {code: at for at, code in enumerate(sorted({code for text in texts for code in text.causes}))}
    x = np.zeros((len(texts), len(words)), np.float32)
    t = np.zeros((len(texts), len(codes)), np.float32)
    for row, text in enumerate(texts):
        there = [word for word in said[row] if word in words]
        x[row, [words[word] for word in there]] = ranking.values_of(there)
        for code, portion in text.causes.items():
            t[row, codes[code]] = portion
    weights, bias = _fit(x, t, np.array([[text.often] for text in texts], np.float32), SHRINK, STEPS)
    return {
        "weights": {
            code: ranking.in_steps({word: float(weights[at, column]) for word, at in words.items()}, LEAST_WEIGHT)
            for code, column in codes.items()
        },
        "bias": {code: ranking.steps_of(float(bias[column])) for code, column in codes.items()},
    }


def scoped(
    reports: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]], causes: ranking.Evidence
) -> dict[str, Any]:
    """Return the weights by which reports and unrelated texts are told apart, and the scores of what is told.

    These are the lowest at which no more than a share of the unrelated texts is guessed about, each scored by what was
    fitted to texts from elsewhere, and by how surely its words name one of the causes.
    """
    weights, bias = _scope_of(reports, others)
    scores = sorted(held_out(others, reports, causes), reverse=True)
    sure, least = (scores[int(share * len(scores))] if scores else 0.0 for share in (MOST_SURE, MOST_GUESSED))
    return {
        "weights": ranking.in_steps(weights),
        "bias": ranking.in_steps({"": bias}).get("", 0),
        "least": ranking.steps_of(least),
        "sure": ranking.steps_of(sure),
    }


def held_out(
    others: Sequence[Mapping[str, Any]], reports: Sequence[Mapping[str, Any]], causes: ranking.Evidence
) -> list[float]:
    """Return the score of each unrelated text that is asked about by what is fitted to texts of other libraries."""
    found: list[float] = []
    for fold in range(FOLDS):
        model = _scope_of(
            [r for r in reports if fold_of(r) != fold], [other for other in others if fold_of(other) != fold]
        )
        asked = [other for other in others if other["asked"] and fold_of(other) == fold]
        found += [_score(whole(one), *model) + scope.SURELY * _surety(one, causes) for one in asked]
    return found


def _surety(text: Mapping[str, Any], causes: ranking.Evidence) -> float:
    gpu = target_of_text(text["target"])
    scores = ranking.scored(_features(scope.ends(whole(text)), gpu.vendor), causes, gpu)
    return ranking.surety(scores, likely.MOST)


def _scope_of(
    reports: Iterable[Mapping[str, Any]], others: Iterable[Mapping[str, Any]]
) -> tuple[dict[str, float], float]:
    """Return weights and bias of a logistic model; reports and unrelated texts count alike as a whole."""
    texts: list[tuple[str, int, float]] = []
    for report in reports:
        texts.append((whole(report), 1, 1.0))
        texts += [(report["text"], 1, 0.5)] if report.get("had") else []
    texts += [(text.text, 1, 0.5) for table in (TELLINGS, MORE_TELLINGS) for text in _tellings(table)]
    texts += [(one["text"], 1, 0.5) for one in written()]
    for other in others:
        texts.append((whole(other), 0, 1.0))
        texts += [(other["text"], 0, 0.5)] if other.get("had") else []
    said = [_in_scope(text) for text, _, _ in texts]
    often = Counter(word for words, signs in said for word in (*words, *signs))
    kept = {word for word, count in often.items() if count >= _least_in_scope(word)}
    names = {word: at for at, word in enumerate(sorted(kept))}
    x, t = np.zeros((len(texts), len(names)), np.float32), np.zeros((len(texts), 2), np.float32)
    for row, (words, signs) in enumerate(said):
        there = [names[word] for word in words if word in names]
        x[row, there] = 1 / np.sqrt(max(len(there), 1))
        x[row, [names[sign] for sign in signs if sign in names]] = scope.SIGN
        t[row, texts[row][1]] = 1
    sums = [sum(weight for _, about, weight in texts if about == side) for side in (0, 1)]
    count = np.array([[weight * len(texts) / (2 * sums[about])] for _, about, weight in texts], np.float32)
    weights, bias = _fit(x, t, count, SCOPE_SHRINK, SCOPE_STEPS)
    apart = weights[:, 1] - weights[:, 0]
    return {word: float(apart[at]) for word, at in names.items()}, float(bias[1] - bias[0])


def _least_in_scope(word: str) -> int:
    return LEAST_IN_SCOPE if ranking.is_term(word) or word.startswith("%") else LEAST_PAIRED_IN_SCOPE


@lru_cache(maxsize=1 << 12)
def _in_scope(text: str) -> tuple[list[str], list[str]]:
    read = scope.ends(text)
    return scope.words(read), scope.signs(read)


def _tellings(table: Mapping[str, Sequence[str]]) -> Iterator[Document]:
    return (Document(one, {code: 1.0}, 1.0) for code, tellings in table.items() for one in tellings)


def _score(text: str, weights: Mapping[str, float], bias: float) -> float:
    words, signs = _in_scope(text)
    told = [weights[word] for word in words if word in weights]
    shown = scope.SIGN * sum(weights.get(sign, 0.0) for sign in signs)
    return bias + sum(told) / float(np.sqrt(max(len(told), 1))) + shown


def _fit(x: np.ndarray, t: np.ndarray, often: np.ndarray, shrink: float, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights (words x causes) and biases that fit shares `t` of causes to documents `x`, by Adam."""
    w, b = np.zeros((x.shape[1], t.shape[1]), x.dtype), np.zeros(t.shape[1], x.dtype)
    moments = [np.zeros_like(one) for one in (w, w, b, b)]
    for step in range(1, steps + 1):
        z = x @ w + b
        p = np.exp(z - z.max(axis=1, keepdims=True))
        d = often * (p / p.sum(axis=1, keepdims=True) - t)
        for at, gradient in ((0, x.T @ d + shrink * w), (2, d.sum(axis=0))):
            moments[at] = 0.9 * moments[at] + 0.1 * gradient
            moments[at + 1] = 0.99 * moments[at + 1] + 0.01 * gradient**2
        rate = 0.3 * (1 - step / (steps + 1))
        w -= rate * (moments[0] / (1 - 0.9**step)) / (np.sqrt(moments[1] / (1 - 0.99**step)) + 1e-8)
        b -= rate * (moments[2] / (1 - 0.9**step)) / (np.sqrt(moments[3] / (1 - 0.99**step)) + 1e-8)
    return w, b


def _rounded(counts: Mapping[str, float]) -> dict[str, float]:
    return {name: int(count) if count == int(count) else round(count, 2) for name, count in sorted(counts.items())}


def library(report: Mapping[str, Any]) -> str:
    """Return the library that a text is from, by its address or its name."""
    found = re.match(r"https://github\.com/[^/]+/([^/]+)", report.get("url", ""))
    return (found[1] if found else re.sub(r"[-_]?\d+\w?$", "", report["id"])).lower()


def fold_of(report: Mapping[str, Any]) -> int:
    """Return the part that a text's library is in: what is learned of others is asked about it."""
    return int(hashlib.sha256(library(report).encode()).hexdigest(), 16) % FOLDS


def _part_of(report: Mapping[str, Any]) -> float:
    """Return where a report's library stands among all, from 0 to 1, in an order that has nothing to do with folds."""
    return int(hashlib.sha256(f"part of {library(report)}".encode()).hexdigest(), 16) / 2**256


def named(reports: Sequence[Mapping[str, Any]], share: float = 1.0) -> int:
    """Return of how many reports a cause is first or second by the words of a share of other libraries' reports.

    What is told of causes was written by people who had read all reports, so it measures nothing of new ones.
    """
    found = 0
    for fold in range(FOLDS):
        texts = reported(report for report in reports if fold_of(report) != fold and _part_of(report) < share)
        known = ranking.evidence_of({**counted(texts), **weighed(texts)})
        for report in (report for report in reports if fold_of(report) == fold):
            gpu = target_of_text(report["target"])
            first = ranking.ranked(_features(whole(report), gpu.vendor), known, gpu)
            found += not set(report["codes"]).isdisjoint(first[: likely.MOST])
    return found


def main() -> None:
    """Write the counts, or measure the ranking."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folds", action="store_true", help="measure by leaving out parts of the libraries in turn")
    parser.add_argument("--curve", action="store_true", help="measure what more reports bring")
    reports, others = labelled(), unrelated()
    options = parser.parse_args()
    if not (options.folds or options.curve):
        made = json.dumps(evidence(reports, others), separators=(",", ":"))
        ranking.COUNTS.write_text(made + "\n", encoding="utf-8")
        return
    asked = [r for r in reports if any(ranking.may_be(code, target_of_text(r["target"])) for code in r["codes"])]
    for share in (0.25, 0.5, 1.0) if options.curve else (1.0,):
        known = sum(_part_of(report) < share for report in asked)
        print(f"{named(asked, share)} of {len(asked)} by those of {known} that are of other libraries", flush=True)


if __name__ == "__main__":
    main()
