"""A text explained together with what else there is of the same failure: tensors, products, maps, PTX, other texts.

One cause is told once, in the words that have numbers; what the driver refuses comes first, results of calls last. That
something beside a failure is legal never makes the failure legal, and no repair is offered that does not cure what the
text says failed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from legalsat.diagnostics import Diagnostic, worst_first
from legalsat.errors import InvalidInput
from legalsat.explanation import Explanation
from legalsat.pasted.grammar import FAILED

# What a call or a kernel returns that was given an illegal map.
OF_ILLEGAL_MAPS = frozenset({"CUDA001", "CUDA700", "CUDA715", "CUDA716", "CUDA719"})
# Constants of a program, which no other layout of a tensor changes.
_AT_COMPILE_TIME = re.compile(r"static[ _]assert", re.IGNORECASE)
_WITHHELD = "no repair is offered: what the text says failed is not known to be cured by one"
_OPEN = "what is beside the text breaks no rule, and no cause in the text is understood"
_LEGAL = "the text tells of a failure, and what is beside it breaks no rule"


def joined(text: str, explain_text: Callable[[], Explanation], others: Sequence[Explanation]) -> Explanation:
    """Return one explanation of a text and of what is beside it.

    Args:
        text: what was printed.
        explain_text: explains it; may raise `InvalidInput` where nothing in it is understood.
        others: the explanations of what is beside it, at least one.
    """
    try:
        said: Explanation | None = explain_text()
        why = ""
    except InvalidInput as error:
        said, why = None, f"of the text nothing is told: {str(error).partition(';')[0]}"
    told = () if said is None else said.diagnostics
    numbers = {found.code: found for other in reversed(others) for found in reversed(other.diagnostics)}
    results = [one for one in told if one.code in OF_ILLEGAL_MAPS]
    causes = [numbers.get(one.code, one) for one in told if one.code not in OF_ILLEGAL_MAPS]
    more = [one for code, one in numbers.items() if code not in {cause.code for cause in causes}]
    found = (*worst_first([*causes, *more]), *results)
    cured = [curing(other, told, text) for other in others]
    first = next((one for one in cured if not one.legal), cured[0])
    lines = [why, *(() if said is None else said.values), *(_line(one) for one in cured)]
    fields = (
        ("repairs", "of", "uses") if first.legal else ("repairs", "of", "uses", "plan", "way", "derivation", "parts")
    )
    kept = {name: getattr(first, name) for name in fields}
    return Explanation(
        subject=" beside ".join(dict.fromkeys(["the pasted text", *(one.subject for one in others)])),
        target=first.target,
        legal=False,
        diagnostics=found,
        values=tuple(dict.fromkeys(filter(None, (*lines, *(value for one in cured for value in one.values))))),
        undecided=_undecided(found, said),
        **kept,
    )


def _line(one: Explanation) -> str:
    return f"{one.subject}: {one.verdict}"


def _undecided(found: Sequence[Diagnostic], said: Explanation | None) -> str:
    if any(one.level == "error" for one in found):
        return ""
    return _OPEN if said is None else said.undecided or _LEGAL


def curing(found: Explanation, said: Iterable[Diagnostic], text: str) -> Explanation:
    """Return an explanation without its repairs where they do not cure what a text says failed.

    Args:
        found: of the tensor or map that the text tells of, by itself.
        said: what the text says besides, results of calls too.
        text: the text.
    """
    if not any(repair.mends for repair in found.repairs):
        return found
    told = list(said)
    left = {one.code for one in told if one.level == "error"} - {one.code for one in found.diagnostics}
    understood = bool(told) or not FAILED.search(text)
    if left <= OF_ILLEGAL_MAPS and understood and not _AT_COMPILE_TIME.search(text):
        return found
    return replace(found, repairs=(), values=(*found.values, _WITHHELD))
