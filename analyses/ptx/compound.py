"""Comparisons that are joined with a predicate at once, as two instructions.

`setp.eq.or.u32 %p1|%p2, %r1, 0, %p3` compares, and joins the outcome with `%p3`, and its opposite likewise. By `%p1`
alone nobody could tell whether the comparison has turned out both ways.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from legalsat.analyses.ptx.instruction import Instruction, made, results_of
from legalsat.analyses.ptx.text import Kernel

_JOINS = {"and", "or", "xor"}
_UNUSED = "_"


def with_plain_comparisons(kernel: Kernel) -> Kernel:
    """Return a kernel whose comparisons give nothing but their outcome, which other instructions join."""
    if not any(map(_joins, kernel.instructions)):
        return kernel
    numbers = count()
    return kernel.expanded(lambda i: _apart(i, next(numbers)) if _joins(i) else [i])


def _joins(i: Instruction) -> bool:
    return i.base == "setp" and len(i.operands) > 3 and not _JOINS.isdisjoint(i.parts)


def _apart(i: Instruction, number: int) -> Iterator[Instruction]:
    """Yield a comparison, and what joins its outcome, and the opposite one, with a predicate."""
    (join,) = _JOINS.intersection(i.parts)
    outcome, opposite, other = (f"%{what}@{number}" for what in ("compared", "opposite", "other"))
    yield made(i, tuple(part for part in i.parts if part != join), (outcome, *i.operands[1:3]))
    given = i.operands[3]  # which may be a result, too, so that both are joined with a copy
    yield made(i, ("not" if given.startswith("!") else "mov", "pred"), (other, given.removeprefix("!").strip()))
    first, *second = results_of(i)
    if second and second[0] != _UNUSED:
        yield made(i, ("not", "pred"), (opposite, outcome))
        yield made(i, (join, "pred"), (second[0], opposite, other), guarded=True)
    if first != _UNUSED:
        yield made(i, (join, "pred"), (first, outcome, other), guarded=True)
