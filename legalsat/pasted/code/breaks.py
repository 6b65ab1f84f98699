"""What code in a pasted text breaks, beside what the rest of the text says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from legalsat.diagnostics import Diagnostic, Level, worst_first
from legalsat.explanation import Explanation
from legalsat.pasted.beside import OF_ILLEGAL_MAPS, curing
from legalsat.pasted.code.constants import explain_constants
from legalsat.pasted.code.counts import explain_counts
from legalsat.pasted.code.elected import explain_elected
from legalsat.pasted.code.elements import explain_elements
from legalsat.pasted.code.expressions import Followed
from legalsat.pasted.code.hazards import explain_hazards
from legalsat.pasted.code.lanes import explain_lanes
from legalsat.pasted.code.launches import launched
from legalsat.pasted.code.layouts import tensors_of_maps
from legalsat.pasted.code.order import explain_order
from legalsat.pasted.code.stages import explain_stages
from legalsat.pasted.code.tensor_memory import explain_tensor_memory
from legalsat.pasted.code.unwritten import explain_unwritten
from legalsat.pasted.code.uses import Judged, judged_uses, of_map
from legalsat.pasted.code.waits import explain_waits
from legalsat.pasted.extents import explain_extents
from legalsat.pasted.sentences import OWN_LIMIT, RULE_OF
from legalsat.pasted.tensors import explain_array
from legalsat.pasted.wording.kinds import effects, is_doubtful
from legalsat.pasted.wording.likely import tells_of_hang
from legalsat.rule import require
from legalsat.targets import Target

MOST_BRANCHES, LONGEST_BRANCH = 64, 4000
_BY_THREAD = r"(?:threadIdx|warp_?id|lane|\btid|elect_one|\btx\b)"
_BRANCH = re.compile(
    rf"\bif ?\([^{{}};\n]{{0,200}}?{_BY_THREAD}[^{{}};]{{0,200}}\)\s{{0,9}}(?:(?P<leaves>\{{?\s{{0,9}}return\b)|\{{)"
    rf"|(?P<prose>(?:__syncthreads|bar\.sync|barrier)[^.\n]{{0,40}}\binside\b[^.\n]{{0,40}}{_BY_THREAD})"
    r"|(?P<early>[Ee]arly[- ]return)"
)
_OF_BLOCKS = re.compile(r"__syncthreads\(\)|\bbar\.sync 0\b|barrier\.sync(?:\.aligned)? 0\b|cuda\.syncthreads\(\)")
_BLOCKS, _STAGES = "a barrier of a block", "tiles of a pipelined loop"
_FOLLOWED = "the text's code was followed and not run"


class Pasted(NamedTuple):
    """A text, what its words say (results of calls too), and for which GPU and how many uses it is explained."""

    text: str
    said: Sequence[Diagnostic]
    target: Target
    uses: int


def _branches(text: str) -> Iterator[Diagnostic]:
    """Yield the first barrier of a whole block that only some of its threads reach, by the text's code or its words.

    Threads that have left are not waited for on recent GPUs of NVIDIA, and words are no code: a warning then.
    """
    if not tells_of_hang(text) and "synccheck" not in text:
        return
    for branch in islice(_BRANCH.finditer(text), MOST_BRANCHES):
        depth, at = 1, branch.end()
        while depth and at < min(len(text), branch.end() + LONGEST_BRANCH):
            depth += (text[at] == "{") - (text[at] == "}")
            at += 1
        barrier = _OF_BLOCKS.search(text, branch.end(), at)
        if barrier is not None or branch["prose"]:
            leaves = branch["leaves"] or branch["early"]
            stands = "some return before it" if leaves else "stands in a branch that only some take"
            message = "{barrier} waits for every thread of the block, and {stands}"
            help_ = "let every thread reach it, with nothing to do if need be, or take a named barrier of those that do"
            named = "the barrier" if barrier is None else barrier[0]
            found = require(False, message, help=help_, barrier=named, stands=stands)
            where = f'text "{" ".join(branch[0].split())[:97]}"'
            level: Level = "warning" if leaves or branch["prose"] else "error"
            yield replace(RULE_OF["PIPE018"].diagnostic(found, where), level=level)
            return


# What reads code as text, by what is said of its findings; of two of one code the first one's is told.
READERS: Mapping[str, Callable[[str, Target], Iterable[Diagnostic]]] = {
    _BLOCKS: lambda text, _: _branches(text),
    "waits for barriers in a loop": lambda text, _: explain_waits(text),
    "arrivals at barriers": explain_counts,
    "what one thread executes": explain_elected,
    "numbers in the code": explain_constants,
    "the elements of tensor maps": explain_elements,
    "the order of what the code does": explain_order,
    "what threads of a block share": explain_hazards,
    "what no thread writes": explain_unwritten,
    "the lanes of a warp": explain_lanes,
    "what is done to tensor memory": explain_tensor_memory,
}
_ONLY_WHERE_FOUND = {*READERS, _STAGES}


def with_code(base: Explanation | None, followed: Followed, pasted: Pasted, *, failed: bool) -> Explanation | None:
    """Return what a text says together with what its code breaks; None if neither says anything.

    A cause that the text names comes first, then what the code breaks, then what prose seems to name or a program asks
    of its own accord, then results of calls, each cause once and in the words that have numbers. That code breaks
    nothing never makes it legal.

    Args:
        base: what the rest of the text says; None if nothing in it is understood.
        followed: the code.
        pasted: the text.
        failed: whether the text says that something failed.
    """
    target = pasted.target
    judged = list(judged_uses(followed.calls, target, failed=failed))
    judged += [Judged(said, tuple(reader(pasted.text, target))) for said, reader in READERS.items()]
    if failed:
        judged += [Judged(_STAGES, tuple(explain_stages(followed.calls, target)))]
        judged += [
            of_map(one, "make_tma_copy", target) for one in tensors_of_maps(pasted.text) if target.tma is not None
        ]
    judged += launched(pasted.text, target, failed=failed)
    judged = [one for one in judged if one.found or one.said not in _ONLY_WHERE_FOUND]
    broken = {found.code: found for one in reversed(judged) for found in reversed(one.found)}
    told = pasted.said if base is None else base.diagnostics
    extents = Judged("what the report names", tuple(explain_extents(pasted.text, followed, told, target)))
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
    # That a kernel never ends, and that a program asks for more than the hardware does, say less than why it fails.
    seen = (effects(told) | {OWN_LIMIT}) - set(broken)
    seen |= {one.code for one in causes if is_doubtful(one) and one.code not in broken}
    causes.sort(key=lambda one: one.code in seen)
    at = sum(one.code not in seen for one in causes)
    found = (*causes[:at], *more, *causes[at:], *(one for one in told if one.code in OF_ILLEGAL_MAPS))
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
