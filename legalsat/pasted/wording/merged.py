"""What is known of a report together with the causes that its words make likely: which two come first.

What numbers and known programs show stands as it is. Beside what a program printed, or code may have, words tell
another cause if that is as likely as three in ten. What a call returned, what prose seems to name, and checks of
unknown programs, are ordered among the causes that the words of the whole report make likely, by one score.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from legalsat.diagnostics import Diagnostic
from legalsat.explanation import Explanation
from legalsat.pasted.wording.apart import told_apart
from legalsat.pasted.wording.kinds import (
    effects,
    is_by_code,
    is_by_line,
    is_doubtful,
    is_no_more_than_prose,
    is_result,
    names,
    weight_of,
)
from legalsat.pasted.wording.likely import MOST, WHERE, Likely, likely_causes, tells_of_failure
from legalsat.targets import Target

TEXT = "the pasted text"
_WORTH_TELLING = math.log(0.3)  # beside a cause that is named
_SAYS = {
    "likely": "what is likely is told from words alone, and is not proven",
    "possible": "nothing in the text is sure to be about a kernel on a GPU; if one fails, look at these causes first",
}


def with_likely(
    known: Explanation | None, whole: str, target: Target, in_order: Callable[[], Collection[str]] = tuple
) -> Explanation | None:
    """Return what is known of a report with the causes that its words make likely, where no cause is known for sure.

    Args:
        known: what is known; None if nothing is.
        whole: the report.
        target: the GPU.
        in_order: which rules have numbers in the report that are all in order: none of them is guessed.
    """
    found = _with_likely(known, whole, target, in_order)
    return found if found is None else _as_sure(replace(found, diagnostics=told_apart(found.diagnostics, WHERE, whole)))


def _as_sure(found: Explanation) -> Explanation:
    """Return an answer whose causes that only prose seems to name are told as likely: nothing was printed of them."""
    told = tuple(replace(one, basis="likely") if is_no_more_than_prose(one) else one for one in found.diagnostics)
    return replace(found, diagnostics=told)


def _with_likely(
    known: Explanation | None, whole: str, target: Target, in_order: Callable[[], Collection[str]]
) -> Explanation | None:
    if known is None:
        likely = likely_causes(whole, target, in_order)
        return None if likely is None else _of_words(likely, target)
    told = known.diagnostics
    seen = effects(told)
    causes = [one for one in told if one.code not in seen]
    beside = _beside(causes, told, seen)
    open_ = not told and bool(known.undecided) and tells_of_failure(whole)  # what was judged breaks nothing
    sure = known.subject != TEXT or not told or any(not is_by_line(one) for one in causes)
    if beside is None and sure and not open_:
        return known  # what is sure, and numbers that are in order
    likely = likely_causes(whole, target, in_order, [one.code for one in told if is_result(one)])
    if likely is None:
        return known
    return _merged(known, likely) if beside is None else _with_another(known, beside, likely)


def _beside(causes: Sequence[Diagnostic], told: Iterable[Diagnostic], seen: set[str]) -> Diagnostic | None:
    """Return the cause that was printed, or is the one that code may have, beside which words may tell another."""
    if len(causes) == 1 and is_by_code(causes[0]):
        return causes[0] if all(one.level == "warning" for one in told if one.code not in seen) else None
    by_line = causes if all(map(is_by_line, causes)) else ()
    return next((one for one in by_line if not is_doubtful(one)), None)


def _of_words(likely: Likely, target: Target) -> Explanation:
    """Return what is likely of a text of which nothing is known."""
    named = tuple(map(likely.diagnostic, list(likely.scores)[:MOST]))
    says = _SAYS[likely.basis]
    return Explanation(TEXT, str(target), False, named, undecided=says)


def _merged(known: Explanation, likely: Likely) -> Explanation:
    """Return what is known with what is likely, ordered by one score."""
    said = {one.code: one for one in known.diagnostics}
    scores = dict(likely.scores)
    least = min(scores.values(), default=0.0)
    scores.update({code: scores.get(code, least) + weight_of(one) for code, one in said.items()})
    guessed = likely.basis == "possible"
    certain = (code for code, one in said.items() if is_result(one) and (guessed or names(one)))
    scores.update(dict.fromkeys(certain, 1.0))
    # What a program printed is there to read; of a text that may be about something else words prove little.
    printed = (code for code, one in said.items() if guessed and is_by_line(one) and not is_no_more_than_prose(one))
    scores.update(dict.fromkeys(printed, 2.0))
    likeliest, *rest = sorted(scores, key=scores.__getitem__, reverse=True)
    # What the text names though its numbers are in order is not the likeliest, and yet told before other guesses.
    first = [likeliest, *sorted(rest, key=lambda code: code not in said or code not in likely.judged)]
    named = [said[code] if code in said else likely.diagnostic(code) for code in first[:MOST]]
    behind = [said[code] for code in first[MOST:] if code in said]
    return replace(known, diagnostics=(*named, *behind))


def _with_another(known: Explanation, cause: Diagnostic, likely: Likely) -> Explanation:
    """Return what is known with another cause after the one that is named, if that is likely enough."""
    codes = {one.code for one in known.diagnostics}
    other = next((code for code, score in likely.scores.items() if score >= _WORTH_TELLING and code not in codes), None)
    if other is None:
        return known
    at = known.diagnostics.index(cause) + 1
    return replace(known, diagnostics=(*known.diagnostics[:at], likely.diagnostic(other), *known.diagnostics[at:]))
