"""What code in a pasted text breaks, beside what the rest of the text says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from legalsat.diagnostics import Diagnostic, worst_first
from legalsat.explanation import Explanation
from legalsat.pasted.expressions import Followed
from legalsat.pasted.extents import explain_extents
from legalsat.pasted.repairs import OF_ILLEGAL_MAPS, curing
from legalsat.pasted.sentences import OWN_LIMIT
from legalsat.pasted.tensors import explain_array
from legalsat.pasted.uses import Judged, judged_uses
from legalsat.targets import Target

_FOLLOWED = "the text's code was followed and not run"


class Pasted(NamedTuple):
    """A text, what its words say (results of calls too), and for which GPU and how many uses it is explained."""

    text: str
    said: Sequence[Diagnostic]
    target: Target
    uses: int


def with_code(base: Explanation | None, followed: Followed, pasted: Pasted, *, failed: bool) -> Explanation | None:
    """Return what a text says together with what its code breaks; None if neither says anything.

    A cause that the text names comes first, then what the code breaks, then results of calls, each cause once and in
    the words that have numbers. That code breaks nothing never makes it legal.

    Args:
        base: what the rest of the text says; None if nothing in it is understood.
        followed: the code.
        pasted: the text.
        failed: whether the text says that something failed.
    """
    target = pasted.target
    judged = list(judged_uses(followed.calls, target, failed=failed))
    broken = {found.code: found for one in reversed(judged) for found in reversed(one.found)}
    extents = Judged("a product that failed", tuple(explain_extents(pasted.text, followed.calls, target)))
    for one in extents.found:
        if one.code not in broken:
            judged, broken = [*judged, extents], {**broken, one.code: one}
    if judged and base is None and not broken:
        why = f"{_FOLLOWED}; {len(judged)} descriptors and products in it break no rule, and no failure is understood"
        return Explanation("the pasted code", str(target), False, (), undecided=why)
    return _joined(base, broken, judged, pasted) if broken else base


def _joined(
    base: Explanation | None, broken: dict[str, Diagnostic], judged: Sequence[Judged], pasted: Pasted
) -> Explanation:
    told = () if base is None else base.diagnostics
    # What a program refuses of its own accord explains less than what its operands break.
    less = {*OF_ILLEGAL_MAPS, *({OWN_LIMIT} if any(one.level == "error" for one in broken.values()) else ())}
    causes = [broken.get(one.code, one) for one in told if one.code not in less]
    named = {one.code for one in causes}
    more = worst_first(one for code, one in broken.items() if code not in named)
    found = (*causes, *more, *(one for one in told if one.code in OF_ILLEGAL_MAPS))
    values = (*(() if base is None else base.values), _FOLLOWED)
    errors = [one for one in judged if any(d.level == "error" for d in one.found)]
    if base is not None and (base.of is not None or not errors):
        legal = base.legal and not errors
        return replace(base, diagnostics=found, legal=legal, values=values, undecided="" if errors else base.undecided)
    of = errors[0] if errors else judged[0]
    alone = None if of.array is None else explain_array(of.array, of.block, pasted.target, pasted.uses)
    kept = () if alone is None or alone.legal else curing(alone, pasted.said, pasted.text).repairs
    subject = of.said if base is None else base.subject
    undecided = "" if errors else "what the code may break is a warning; whether it fails is not said"
    return Explanation(
        subject, str(pasted.target), False, found, kept, values=values, undecided=undecided, uses=pasted.uses
    )
