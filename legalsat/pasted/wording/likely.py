"""Causes that the words of a report make likely, where no sentence and no number in it names one.

Most reports say what is seen, a hang or wrong values, and what the kernel does, and quote no message of a program. Each
word speaks for some causes more than for others: by how many reports with a known cause have it, and by what is told of
each cause (`legalsat.pasted.wording.ranking`). It proves nothing: what is found so is a warning that says by which
words, and never makes anything legal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from legalsat.diagnostics import Diagnostic
from legalsat.pasted.causes import A_RESULT
from legalsat.pasted.extents import CALL
from legalsat.pasted.sentences import RULE_OF
from legalsat.pasted.wording.kinds import EFFECTS, LINE, is_by_line, is_prose
from legalsat.pasted.wording.ranking import (
    Evidence,
    concepts,
    evidence,
    features,
    is_term,
    scored,
    surety,
    weight,
    words_of,
)
from legalsat.pasted.wording.scope import OFTEN_BESIDE, SEEN, concerns, denies, ends, seen_in
from legalsat.rule import require
from legalsat.targets import Target

WHERE = "the words of the text"
MOST = 2  # causes that are told, of those for which the words speak most
_SHOWN = 4  # words by which a cause is found
# What numbers decide is judged where they are, and in order where nothing was found.
_DECIDED_BY_NUMBERS = re.compile(r"TMA(?!037|006)|BULK|VEC|WGMMA|TCGEN|MDESC|COPY0(?!1[02])|TOOL0(?!03|13)")
_HAS_NUMBERS = re.compile(
    r"torch\.Size\(|\b(?:torch|jnp|np|cp)\.(?:randn?|empty|zeros|ones|rand\w*)\(|"
    r"\b(?:make_tensor_descriptor|from_tensor|TensorDescriptor)\(|" + CALL.pattern
)
_OF_ARGUMENTS = frozenset({"invalid", "misaddr"})  # what numbers show themselves by
_ANY = re.compile("")
# What alone can show itself so, where nothing else is seen of a failure.
_SHOWN_AS = {
    "misaddr": re.compile(r"VEC|BULK|MDESC|COPY00[145]|TMA0(?:04|05|19|27|37)|SMEM002"),
    "illinst": re.compile(r"TMA|COPY|BULK|MDESC|TCGEN|TMEM|UNIT|PIPE0(?:0[1-3]|15|17|33)|TOOL004"),
    "launchfail": re.compile(r"TMEM|PIPE|COPY|TMA|BULK|MDESC|TOOL0(?:03|08)|SMEM|TCGEN"),
    "invalid": re.compile(r"TMA|SMEM|TOOL0(?:03|08|11|13)"),
    "illegal": re.compile(r"(?!TMA0(?:0|1|24|3)|BULK|TOOL0(?:04|08|11))"),
    "compile": re.compile(r"TOOL|WGMMA|TCGEN|TMEM00|SMEM|MDESC|TILE|VEC|COPY0(?:07|12)|TMA0(?:0|10|24)"),
    "hang": re.compile(r"PIPE|TMEM|COPY0(?:06|12)|TMA0(?:03|19)|TOOL0(?:03|08|13)"),
}
_RESULT = "CUDA"  # codes of what calls return
_OF_LINE = 60  # characters by which a line is known again
# Of words that are known, in all and outside of code: fewer say nothing; more where a call failed, which says
# little of why, or nothing is said to; and much where numbers that decide were judged.
_LEAST_WORDS, _MORE_WORDS, _MUCH_WORDS = (5, 3), (8, 3), (20, 4)
_OFTEN = 8  # how often a word is in reports and what is told, so that it says something
_CLAUSE = re.compile(r"[.;:,]\s|\n")
_CODE = re.compile(r"[{}]|\w ?=[^=]|^\s*(?:def|for|if|else|import|from|@\w+)\b|\w\([^ )]|^\s*[\w.:]+\(\);?\s*$")
# What every failure is called says nothing of it.
_CALLED = re.compile(
    r"\b(?:\w*Error|\w*Exception|Traceback|CUDA|Triton|torch|error|failed)\b|^[ \t]*(?:#|//|raise\b|assert\b)[^\n]*",
    re.MULTILINE,
)


class Likely(NamedTuple):
    """What the words of a report make likely: a score for each cause, and what is said of each feature."""

    scores: Mapping[str, float]
    said: Mapping[str, str]

    def diagnostic(self, code: str) -> Diagnostic:
        """Return a cause as a warning that says by which words it is likely."""
        return _likely(code, [self.said[word] for word in _telling(evidence(), code, self.said)])


def tells_of_failure(text: str) -> bool:
    """Whether a text says that something failed, in whatever way."""
    return not SEEN.isdisjoint(concepts(text))


def likely_causes(text: str, target: Target, *, told: bool) -> Likely | None:
    """Return how likely the words of a plain text make each cause, the likeliest first.

    Args:
        text: the whole report.
        target: the GPU. Rules of units that it lacks are no causes.
        told: whether something is known of the text already, as what a call returned.

    Returns:
        None if the text is not likely about a failure of a GPU's kernel (`legalsat.pasted.wording.scope`).
    """
    text = ends(text)
    if denies(text):
        return None
    said = features(text)
    scores = scored(said, evidence(), target)
    if not concerns(text, surety(scores, MOST)):
        return None
    seen = seen_in(text) - OFTEN_BESIDE
    possible = _SHOWN_AS.get(next(iter(seen)), _ANY) if len(seen) == 1 else _ANY
    judged = told and _are_judged(text)
    return Likely(
        {
            code: score
            for code, score in scores.items()
            if possible.match(code) and not (judged and _DECIDED_BY_NUMBERS.match(code))
        },
        said,
    )


def _are_judged(text: str) -> bool:
    """Whether a text of refused arguments has numbers by which tensors are judged, in order where nothing was found."""
    return seen_in(text) - OFTEN_BESIDE <= _OF_ARGUMENTS and _HAS_NUMBERS.search(A_RESULT.sub(" ", text)) is not None


def says_more(text: str, told: Sequence[Diagnostic], *, fits: bool) -> bool:
    """Whether a text says enough beside results and what is told of it, in all and outside of code.

    Args:
        text: the whole report.
        told: what is known of it. Lines that programs printed say nothing more; what prose seems to name, it may.
        fits: whether numbers of the text were judged and are in order.
    """
    printed = (one.where for one in told if is_by_line(one) and not is_prose(one) and one.code not in EFFECTS)
    lines = [where.removeprefix(LINE).rstrip('"')[:_OF_LINE] for where in printed]
    rest = [line for line in ends(text).splitlines() if not any(one in " ".join(line.split()) for one in lines)]
    returned = any(one.code.startswith(_RESULT) for one in told)
    least = _MORE_WORDS if returned or not tells_of_failure(text) else _LEAST_WORDS
    least = _MUCH_WORDS if fits or (told and _are_judged(text)) else least
    said = _CALLED.sub(" ", A_RESULT.sub(" ", "\n".join(rest)))
    prose = "\n".join(clause for clause in _CLAUSE.split(said) if not _CODE.search(clause))
    overall = evidence().overall
    known = (sum(overall.get(word, 0) >= _OFTEN for word in words_of(part)) for part in (said, prose))
    return all(number >= one for number, one in zip(known, least, strict=True))


def _telling(known: Evidence, code: str, words: Iterable[str]) -> list[str]:
    """Return the words that speak most for a cause."""
    counted = (word for word in words if word in known.overall and is_term(word))
    by_weight = sorted(counted, key=lambda word: weight(known, code, word), reverse=True)
    return [word for word in by_weight[: 2 * _SHOWN] if weight(known, code, word) > 0]


def _likely(code: str, words: list[str]) -> Diagnostic:
    rule = RULE_OF[code]
    apart = [one for at, one in enumerate(words) if not any(one.lower() in two.lower() for two in words[:at])]
    shown = ", ".join(f'"{word}"' for word in apart[:_SHOWN]).replace("{", "(").replace("}", ")")
    found = rule.diagnostic(
        require(
            False,
            f"likely from words alone, and not proven: {rule.name.replace('_', ' ')}; the text says {shown}",
            help=f"read `legalsat rule {code}`, and paste the numbers, the code or the PTX that could prove it",
        ),
        WHERE,
    )
    return replace(found, level="warning")
