"""Causes that the words of a report make likely, where no sentence and no number in it names one.

Most reports say what is seen, a hang or wrong values, and what the kernel does, and quote no message of a program. Each
word speaks for some causes more than for others: by how many reports with a known cause have it, and by what is told of
each cause (`legalsat.pasted.wording.ranking`). It proves nothing: what is found so is a warning that says by which
words and with which odds, and never makes anything legal.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from legalsat.diagnostics import Basis, Diagnostic
from legalsat.pasted.causes import A_RESULT
from legalsat.pasted.sentences import RULE_OF
from legalsat.pasted.wording.excluded import excluded
from legalsat.pasted.wording.ranking import (
    Evidence,
    evidence,
    features,
    is_term,
    names_any,
    scored,
    surety,
    weight,
    words_of,
)
from legalsat.pasted.wording.scope import SEEN, ends, seen_in, told_as
from legalsat.rule import require
from legalsat.targets import Target

WHERE = "the words of the text"
MOST = 2  # causes that are told, of those for which the words speak most
# Words that so many reports have, and how many of them a text must have: fewer say no more than a result does,
# and one in which nothing is known is told of with fewer, if it clearly says that something fails.
_OFTEN, _LEAST_KNOWN, _LEAST_ALONE = 8, 7, 4
_NOT_IN_EVERY_KERNEL = frozenset({"tma", "wgmma", "tcgen05", "matrix descriptor"})  # units
_IN_ALL = frozenset({"fails"})  # what every error says
_SHOWN = 4  # words by which a cause is found
_HINTS = re.compile(r"differ|swapp|permut|match|rel(?:ative|_)\W?err|uninitiali[sz]|\btrap|abort", re.IGNORECASE)
_LEAST_ODDS, _MOST_ODDS = 1, 9  # of 10: rarer and surer than that is not told from words


class Likely(NamedTuple):
    """What the words of a report make likely: the logarithm of each cause's share, and what is said of each feature.

    `basis` is what these causes are told as; `judged` are the rules that are none of them, since their numbers were.
    """

    scores: Mapping[str, float]
    said: Mapping[str, str]
    basis: Basis
    judged: Collection[str] = ()

    def diagnostic(self, code: str) -> Diagnostic:
        """Return a cause as a warning that says by which words it is likely, and how likely."""
        odds = min(max(round(10 * math.exp(self.scores[code])), _LEAST_ODDS), _MOST_ODDS)
        return _likely(code, [self.said[word] for word in _telling(evidence(), code, self.said)], odds, self.basis)


def tells_of_failure(text: str) -> bool:
    """Whether a text says that something failed, in whatever way."""
    return names_any(text, SEEN)


@lru_cache(maxsize=2)
def hints_at_failure(text: str) -> bool:
    """Whether a text says that something failed, or is other than it should be: enough where code shows the cause."""
    return _HINTS.search(text) is not None or tells_of_failure(text)


def tells_of_hang(text: str) -> bool:
    """Whether a text says that something never ends."""
    return names_any(text, ("hang",))


def likely_causes(
    text: str,
    target: Target,
    in_order: Callable[[], Collection[str]] = tuple,
    returned: Collection[str] | None = None,
) -> Likely | None:
    """Return how likely the words of a plain text make each cause, the likeliest first.

    Args:
        text: the whole report.
        target: the GPU. Rules of units that it lacks are no causes.
        in_order: which rules are none, since their numbers were judged.
        returned: codes of what calls returned; None where nothing is known of the text.

    Returns:
        None if the text is plainly not about a failure of a GPU's kernel (`legalsat.pasted.wording.scope`), or says
        too little.
    """
    text = ends(text)
    count = _known_words(text)
    few = count < _LEAST_KNOWN
    seen = seen_in(text) if few else frozenset()
    if few and (returned is not None or count < _LEAST_ALONE or not seen):
        return None
    said = features(text, target.vendor)
    scores = scored(said, evidence(), target, returned or (), excluded(text))
    basis = told_as(text, surety(scores, MOST))
    if basis is None or (few and basis == "possible" and seen <= _IN_ALL):
        return None
    judged = in_order()
    left = {code: score for code, score in scores.items() if code not in judged}
    return Likely(left, said, "possible" if few else basis, judged) if left else None


def _known_words(text: str) -> int:
    """Return how many words of a text are known, beside those of results."""
    overall = evidence().overall
    return sum(overall.get(word, 0) >= _OFTEN for word in words_of(A_RESULT.sub(" ", text)))


def _telling(known: Evidence, code: str, words: Iterable[str]) -> list[str]:
    """Return the words that speak most for a cause."""
    counted = (word for word in words if word in known.overall and is_term(word))
    by_weight = sorted(counted, key=lambda word: weight(known, code, word), reverse=True)
    return [word for word in by_weight[: 2 * _SHOWN] if weight(known, code, word) > 0]


def _likely(code: str, words: list[str], odds: int, basis: Basis) -> Diagnostic:
    rule = RULE_OF[code]
    apart = [one for at, one in enumerate(words) if not any(one.lower() in two.lower() for two in words[:at])]
    shown = ", ".join(f'"{word}"' for word in apart[:_SHOWN]).replace("{", "(").replace("}", ")")
    uses = f" that uses {rule.unit.name}" if rule.unit.name in _NOT_IN_EVERY_KERNEL else ""
    where = "" if basis == "likely" else f" if a kernel{uses} fails"
    found = rule.diagnostic(
        require(
            False,
            f"{basis} from words alone, and not proven: {rule.name.replace('_', ' ')}, the cause of about {odds} in 10 "
            f"reports{'' if basis == 'likely' else ' of kernels'} that read so; the text says {shown}",
            help=f"read `legalsat rule {code}`{where}, and paste the numbers, the code or the PTX that could prove it",
        ),
        WHERE,
    )
    return replace(found, level="warning", basis=basis, odds=odds)
