"""Comparisons that are joined with a predicate at once, as two instructions.

`setp.eq.or.u32 %p1|%p2, %r1, 0, %p3` compares, and joins the outcome with `%p3`, and its opposite likewise. By `%p1`
alone nobody could tell whether the comparison has turned out both ways.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from legalsat.analyses.ptx.instruction import Instruction, results_of
from legalsat.analyses.ptx.text import Kernel

JOINED = {"and", "or", "xor"}
_UNUSED = "_"


def with_plain_comparisons(kernel: Kernel) -> Kernel:
    """Return a kernel whose comparisons give nothing but their outcome, which other instructions join."""
    if not any(map(_joins, kernel.instructions)):
        return kernel
    code: list[Instruction] = []
    moved: list[int] = []
    for i in kernel.instructions:
        moved.append(len(code))
        code += _apart(i, len(code)) if _joins(i) else [i]
    moved.append(len(code))
    return replace(kernel, instructions=code, labels={name: moved[n] for name, n in kernel.labels.items()})


def _joins(i: Instruction) -> bool:
    return i.base == "setp" and len(i.operands) > 3 and not JOINED.isdisjoint(i.parts)


def _apart(i: Instruction, number: int) -> Iterator[Instruction]:
    """Yield a comparison, and what joins its outcome, and the opposite one, with a predicate."""
    (join,) = JOINED.intersection(i.parts)
    outcome, opposite, other = (f"%{what}@{number}" for what in ("compared", "opposite", "other"))
    yield _made(i, tuple(part for part in i.parts if part != join), (outcome, *i.operands[1:3]))
    if i.operands[3].startswith("!"):
        yield _made(i, ("not", "pred"), (other, i.operands[3][1:].strip()))
    else:
        yield _made(i, ("mov", "pred"), (other, i.operands[3]))
    first, *second = results_of(i)
    if second and second[0] != _UNUSED:
        yield _made(i, ("not", "pred"), (opposite, outcome))
        yield replace(_made(i, (join, "pred"), (second[0], opposite, other)), guard=i.guard, negated=i.negated)
    if first != _UNUSED:
        yield replace(_made(i, (join, "pred"), (first, outcome, other)), guard=i.guard, negated=i.negated)


def _made(i: Instruction, parts: tuple[str, ...], operands: tuple[str, ...]) -> Instruction:
    return Instruction(".".join(parts), operands, "", False, i.line, parts)
