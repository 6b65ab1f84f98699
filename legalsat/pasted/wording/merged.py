"""What is known of a report together with the causes that its words make likely: which two come first.

What numbers, known programs and code show stands as it is. What lines of unknown programs seem to name, and what a call
returned, is ordered among the causes that the words of the whole report make likely, by one score: of reports that were
not seen before, a line of prose names the cause of every other one, and a result hardly ever does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from legalsat.diagnostics import Diagnostic
from legalsat.explanation import Explanation
from legalsat.pasted.wording.kinds import effects, is_by_code, is_by_line, weight_of
from legalsat.pasted.wording.likely import MOST, likely_causes, says_more, tells_of_failure
from legalsat.targets import Target

TEXT = "the pasted text"
AS_RESULT = -5.0  # the score of a result that is no cause of its own, before what it counts for being told


def with_likely(known: Explanation | None, whole: str, target: Target) -> Explanation | None:
    """Return what is known of a report with the causes that its words make likely, where no cause is known for sure.

    Args:
        known: what is known; None if nothing is.
        whole: the report.
        target: the GPU.
    """
    told = () if known is None else known.diagnostics
    seen = effects(told)
    causes = [one for one in told if one.code not in seen]
    sure = [one for one in causes if not is_by_line(one)]
    if known is not None and sure and _is_open(told, causes, seen):
        return _with_what_is_likely_too(known, causes[0], whole, target)
    if known is not None and (known.subject != TEXT or sure):
        return known
    # A result, or what a program printed of its own check, and numbers that are in order, are told as what they are.
    fits = known is not None and not told
    if not says_more(whole, told, fits=fits) or (fits and not tells_of_failure(whole)):
        return known
    likely = likely_causes(whole, target, told=bool(told))
    if likely is None:
        return known
    said = {one.code: one for one in told}
    least = min(likely.scores.values(), default=0.0)
    scores = {**likely.scores, **{one.code: least for one in causes if one.code not in likely.scores}}
    scores = {**{code: AS_RESULT for code in seen if code not in scores}, **scores}
    scores = {code: score + (weight_of(said[code]) if code in said else 0.0) for code, score in scores.items()}
    first = sorted(scores, key=scores.__getitem__, reverse=True)
    lines = {one.code for one in causes}
    named = [said[code] if code in said else likely.diagnostic(code) for code in first[:MOST]]
    codes = {one.code for one in named}
    rest = [said[code] for code in first[MOST:] if code in lines]
    results = [one for one in told if one.code not in codes | lines]
    if known is not None:
        return replace(known, diagnostics=(*named, *results, *rest))
    says = "what is likely is told from words alone, and is not proven"
    return Explanation(TEXT, str(target), False, tuple(named), undecided=says)


def _is_open(told: Iterable[Diagnostic], causes: Sequence[Diagnostic], seen: set[str]) -> bool:
    """Whether all that is named is one cause that code may have, beside which words may make another likely."""
    by_code = len(causes) == 1 and is_by_code(causes[0])
    return by_code and all(one.level == "warning" for one in told if one.code not in seen)


def _with_what_is_likely_too(known: Explanation, cause: Diagnostic, whole: str, target: Target) -> Explanation:
    """Return what is known with the likeliest other cause by the text's words after the one that is named."""
    likely = likely_causes(whole, target, told=True)
    codes = {one.code for one in known.diagnostics}
    other = None if likely is None else next((code for code in likely.scores if code not in codes), None)
    if likely is None or other is None:
        return known
    at = known.diagnostics.index(cause) + 1
    return replace(known, diagnostics=(*known.diagnostics[:at], likely.diagnostic(other), *known.diagnostics[at:]))
