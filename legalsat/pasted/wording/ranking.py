"""Ranks causes by the words of a report: by how often reports of each cause have them, and by learned weights.

Two ways agree on more than either alone. Naive Bayes counts the texts of each cause that have a word: reports, what is
told of the cause (`legalsat.pasted.tables.evidence`, `tellings`), what programs print of it and what its rule says; it
knows causes of few reports. A linear model weighs words by how far they tell causes apart. Two words that stand side by
side count as one more, and so does how large numbers are. The more words a text has the less counts each of them, but
what it names of a kernel and of its failure (concepts) counts the same in any text. Both are made by
`bench/fit_evidence.py`. A cause's score is the sum of both as logarithms of how likely it is, naive Bayes at a quarter,
for its words are anything but independent.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from legalsat.pasted.sentences import RULE_OF
from legalsat.pasted.tables.evidence import CONCEPTS
from legalsat.pasted.wording.magnitudes import PREFIX, magnitudes
from legalsat.targets import Target

COUNTS = Path(__file__).parent / "evidence.json"
_SMOOTHING, _SPREAD = 4.0, 2.0  # pseudo-counts
_TRUST = 0.25  # of naive Bayes, whose words are counted as if they were independent
_BESIDE = 0.3  # what naive Bayes counts beside the linear model
_NAMED = 0.5  # what each concept counts in the linear model; all words together count 1, as the sum of their squares
_STEP = 100  # steps of a weight in the file that make 1
# What a program returned, and which unit a GPU lacks, is told where it is printed; but that a kernel reads or writes
# what is not its own (CUDA700), runs for too long (CUDA702), or waits for blocks that never start (CUDA720), is a cause
# too.
_TOLD_ELSEWHERE = re.compile(r"CUDA(?!70[02]|720)\d|PROD|UNIT")
# Addresses, and what compilers count of what there is none.
_SAYS_NOTHING = re.compile(
    r"https?://\S+|\b0 bytes (?:stack frame|cumulative stack size|spill (?:stores|loads)|lmem)\b"
)
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])(?<!\bNa(?=N\b))(?<!\bNa(?=Ns\b))")
_BETWEEN = " "  # the two words of a pair
_WORD = re.compile(r"[a-z]{2,}")
_ENDINGS = re.compile(
    r"(?<=[a-z]{4})(?:ization|isation|ations?|ments?|ings?|ers?|ed|ies|es|ly|al|s)$",
)
_COMMON = re.compile(
    r"(?:at|of|to|in|on|is|it|as|an|be|or|so|we|the|and|for|with|that|this|but|not|from|are|was|has|have|which|its"
    r"|than|only|when|what|into|all|any|can|may|"
    r"will|does|did|get|got|use|used|using|our|your|they|them|there|here|been|being|were|would|should|could|also|just|"
    r"same|some|more|most)"
)
_PATTERNS = {
    name: re.compile(rf"(?<![a-z\d])(?:{pattern})(?![a-z\d])", re.IGNORECASE) for name, pattern in CONCEPTS.items()
}


class Scope(NamedTuple):
    """Weights of words and signs by which a text is about a kernel that failed, and the scores it may and must have."""

    weights: Mapping[str, float]
    bias: float
    least: float
    sure: float


class Evidence(NamedTuple):
    """How often texts of a cause have each word, how many there are, how often a word is at all, and their sum.

    `weights` are those of the linear model by cause and word, `bias` those of the causes; both may be empty.
    """

    by_cause: Mapping[str, Mapping[str, float]]
    reports: Mapping[str, float]
    overall: Mapping[str, float]
    total: float
    weights: Mapping[str, Mapping[str, float]]
    bias: Mapping[str, float]
    scope: Scope


def features(text: str, vendor: str = "") -> dict[str, str]:
    """Return what counts of a text: its terms, its pairs and its magnitudes, each with a place where it is said.

    Of a report whose GPU is known that GPU's vendor counts too.
    """
    of = {f"{PREFIX}on {vendor}": vendor} if vendor else {}
    return terms(text) | pairs_of(text) | magnitudes(text) | of


def terms(text: str) -> dict[str, str]:
    """Return the concepts, as "@name", and the stems of the words of a text, each with a place where it is said."""
    return {f"@{name}": said for name, said in concepts(text).items()} | words_of(text)


def is_term(feature: str) -> bool:
    """Whether a feature is a concept or a word, and neither two words nor a magnitude."""
    return _BETWEEN not in feature and not feature.startswith(PREFIX)


def _is_concept(feature: str) -> bool:
    return feature.startswith("@")


def concepts(text: str) -> dict[str, str]:
    """Return what is said of each concept that a text names."""
    found = ((name, pattern.search(split)) for split in (_split(text),) for name, pattern in _PATTERNS.items())
    return {name: " ".join(match[0].split()) for name, match in found if match is not None}


def names_any(text: str, names: Iterable[str]) -> bool:
    """Whether a text names one of some concepts, as `concepts` finds them."""
    split = _split(text)
    return any(_PATTERNS[name].search(split) is not None for name in names)


def words_of(text: str) -> dict[str, str]:
    """Return the stems of a text's words, without the most common ones, each with the word itself."""
    words = (match[0] for match in _WORD.finditer(_split(text).lower()) if not _COMMON.fullmatch(match[0]))
    return {_ENDINGS.sub("", word): word for word in words}


def pairs_of(text: str) -> dict[str, str]:
    """Return the stems of any two words that follow one another, with both words."""
    words = [match[0] for match in _WORD.finditer(_split(text).lower())]
    stems = [_ENDINGS.sub("", word) for word in words]
    said = (_BETWEEN.join(pair) for pair in pairwise(words))
    return dict(zip((_BETWEEN.join(pair) for pair in pairwise(stems)), said, strict=True))


def _split(text: str) -> str:
    return _CAMEL.sub(" ", _SAYS_NOTHING.sub(" ", text))


def scored(
    words: Iterable[str],
    known: Evidence,
    target: Target,
    returned: Collection[str] = (),
    ruled_out: Collection[str] = (),
) -> dict[str, float]:
    """Return a score for each cause that there may be on a target, the one first for which a text's words speak most.

    The scores are logarithms of how likely each is; of reports that were not seen before, as many as that have it.
    What calls `returned` counts as a cause too, as it does where a report tells no more; what is `ruled_out` has none.
    """
    possible = [code for code in known.reports if code in returned or (may_be(code, target) and code not in ruled_out)]
    counted = [word for word in dict.fromkeys(words) if word in known.overall]
    sums = _shares({code: _TRUST * _score(known, code, counted) for code in possible})
    if known.weights:
        sums = {code: _BESIDE * share for code, share in sums.items()}
        values = dict(zip(counted, values_of(counted), strict=True))
        of: dict[str, float] = {}
        for code in possible:
            weights = known.weights.get(code, {})
            said = sum(weights.get(word, 0) * value for word, value in values.items())
            of[code] = known.bias.get(code, min(known.bias.values())) + said
        sums = _shares({code: sums[code] + share for code, share in _shares(of).items()})
    return dict(sorted(sums.items(), key=lambda one: one[1], reverse=True))


def values_of(features: Sequence[str]) -> list[float]:
    """Return what each feature of a text counts in the linear model."""
    rest = 1 / math.sqrt(max(sum(not _is_concept(one) for one in features), 1))
    return [_NAMED if _is_concept(one) else rest for one in features]


def ranked(words: Iterable[str], known: Evidence, target: Target) -> list[str]:
    """Return the causes that there may be on a target, the one first for which a text's features speak most."""
    return list(scored(words, known, target))


def surety(scores: Mapping[str, float], first: int) -> float:
    """Return the logarithm of the share that the likeliest causes have of all, which `scored` gives."""
    shares = sorted(scores.values(), reverse=True)
    return math.log(min(sum(map(math.exp, shares[:first])), 1.0)) if shares else 0.0


def _shares(scores: Mapping[str, float]) -> dict[str, float]:
    """Return scores as logarithms of shares of one."""
    if not scores:
        return {}
    most = max(scores.values())
    total = most + math.log(sum(math.exp(score - most) for score in scores.values()))
    return {code: score - total for code, score in scores.items()}


@lru_cache(maxsize=1)
def evidence() -> Evidence:
    """Return what is known of reports, as the file beside this module has it."""
    return evidence_of(json.loads(COUNTS.read_text(encoding="utf-8")))


def evidence_of(known: Mapping[str, Any]) -> Evidence:
    """Return what `bench/fit_evidence.py` counts and weighs."""
    reports = {code: _SMOOTHING + number for code, number in known["reports"].items()}
    weights = {
        code: {word: steps / _STEP for word, steps in of.items()} for code, of in known.get("weights", {}).items()
    }
    bias = {code: steps / _STEP for code, steps in known.get("bias", {}).items()}
    scope = known.get("scope", {})
    of_scope = Scope(
        {word: steps / _STEP for word, steps in scope.get("weights", {}).items()},
        scope.get("bias", 0) / _STEP,
        scope.get("least", 0) / _STEP,
        scope.get("sure", 0) / _STEP,
    )
    return Evidence(known["words"], reports, known["overall"], sum(reports.values()), weights, bias, of_scope)


def in_steps(weights: Mapping[str, float], least: float = 0.0) -> dict[str, int]:
    """Return weights as whole steps, without those below `least`, as the file keeps them."""
    return {name: steps_of(weight) for name, weight in weights.items() if abs(weight) >= max(least, 0.5 / _STEP)}


def steps_of(weight: float) -> int:
    """Return a weight as whole steps, as the file keeps it."""
    return round(weight * _STEP)


def may_be(code: str, target: Target) -> bool:
    """Whether a cause is told from words: no result of a call, and no rule of a unit that the target lacks."""
    return code in RULE_OF and _TOLD_ELSEWHERE.match(code) is None and RULE_OF[code].unit.limits(target) is not None


def _score(known: Evidence, code: str, words: list[str]) -> float:
    """Return the logarithm of how likely a cause is by words, up to what is common to all."""
    return math.log(known.reports[code]) + sum(weight(known, code, word) for word in words)


def weight(known: Evidence, code: str, word: str) -> float:
    """Return by how much a word speaks for a cause, as a logarithm; negative where it speaks against it."""
    common = known.overall[word] / known.total
    count = known.by_cause.get(code, {}).get(word, 0)
    return math.log((count + _SPREAD * common) / ((known.reports[code] + _SPREAD) * common))
