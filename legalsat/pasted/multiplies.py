"""Instructions of tcgen05 that a text names by kind, CTAs and shape, judged by the tables of the instruction.

PTX spells them `tcgen05.mma.cta_group::2.kind::f8f6f4`, CuTe `SM100_MMA_F8F6F4_2x1SM_SS`, its DSL `MmaMXF4NVF4Op` with
`CtaGroup.TWO`; their shape is no part of the name, so `M=256, N=48` or `shape_mnk=(256, 48, 32)` near it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from legalsat.diagnostics import Diagnostic
from legalsat.rule import Rule, require
from legalsat.rules.tcgen05 import columns_illegal, kind_absent, listed, rows_illegal
from legalsat.targets import Target
from legalsat.units.tcgen05 import GROUPS, KINDS, legal_m, legal_n

MOST_INSTRUCTIONS = 32
_NEAR = 300  # characters of a line around a name, in which its shape and its CTAs stand
_LARGEST = 512  # rows or columns; what is larger is of a problem, not of an instruction
_CUTE_KINDS = {"F16BF16": "f16", "TF32": "tf32", "F8F6F4": "f8f6f4", "FP8": "f8f6f4", "S8": "i8", "I8": "i8"} | {
    name.upper(): name for name in ("mxf8f6f4", "mxf4", "mxf4nvf4")
}  # fmt: skip
_CUTE_NAME = "|".join(sorted(_CUTE_KINDS, key=len, reverse=True))
_NAMED = re.compile(
    rf"kind::(?P<kind>{'|'.join(sorted(KINDS, key=len, reverse=True))})\b"
    rf"|\bSM100_MMA_(?P<cute>{_CUTE_NAME})_|\b(?:Mma|tcgen05\.)(?P<dsl>{_CUTE_NAME})Op\b"
    rf"|tcgen05_mma_kind<(?P<mlir>{'|'.join(sorted(KINDS, key=len, reverse=True))})>"
)
_PAIR = re.compile(
    r"cta_group::2|cta_group\W{1,4}2\b|CtaGroup\.TWO|2x1SM|two_?ctas?\W{1,3}(?:true|1)|\b2[- ]?(?:sm|cta)\b", re.I
)
_ONE = re.compile(r"cta_group::1|CtaGroup\.ONE|\b1[- ]?(?:sm|cta)\b|cta_group\W{1,4}1\b", re.I)
_EXTENT = re.compile(r"\b(?:umma_|mma_|inst_)?(?P<axis>[mn])\s?(?:=|:|==)\s?(?P<extent>\d{1,4})\b", re.I)
_SHAPE = re.compile(
    r"\b(?:shape|shape_mnk?|instr\w*shape|tiler_mnk?|mma_tiler\w*)\s?[=:]?\s?[(\[]"
    r"(?P<m>\d{1,4}), ?(?P<n>\d{1,4})(?:, ?\d{1,4})?[)\]]"
    r"|\bm(?P<m1>\d{1,4})n(?P<n1>\d{1,4})k\d{1,4}\b",
    re.I,
)


@dataclass(frozen=True, slots=True)
class _Multiply:
    """One that a text names: kind, CTAs if they are said, whether it is weight-stationary, rows and columns if said."""

    kind: str
    group: int | None
    ws: bool
    m: int | None
    n: int | None


def explain_multiplies(text: str, target: Target) -> Iterator[Diagnostic]:
    """Yield what the multiplies that a text names break on `target`, each finding once; nothing without tcgen05.

    Where the text does not say how many CTAs multiply together, only what both one and two refuse is told.
    """
    if target.tcgen05 is None:
        return
    told = set()
    for multiply in dict.fromkeys(_named(text)):
        groups = GROUPS if multiply.group is None else (multiply.group,)
        found = [list(_judged(multiply, group, target)) for group in groups]
        for diagnostic in found[0]:
            everywhere = all(diagnostic.code in {other.code for other in others} for others in found)
            if everywhere and (diagnostic.code, diagnostic.message) not in told:
                told.add((diagnostic.code, diagnostic.message))
                yield diagnostic


def legal_multiplies(text: str, target: Target) -> list[str]:
    """Return the multiplies that a text names by kind, CTAs and whole shape, in words, if all exist on `target`."""
    named = list(dict.fromkeys(_named(text))) if target.tcgen05 is not None else []
    if any(None in (one.group, one.m, one.n) for one in named) or list(explain_multiplies(text, target)):
        return []
    return [f"{KINDS[one.kind]} in {one.group} CTAs has {one.m} rows and {one.n} columns on {target}" for one in named]


def _named(text: str) -> Iterator[_Multiply]:
    for match in islice(_NAMED.finditer(text), MOST_INSTRUCTIONS):
        kind = match["kind"] or match["mlir"] or _CUTE_KINDS[match["cute"] or match["dsl"]]
        before, after = text[max(match.start() - _NEAR, 0) : match.end()], text[match.end() : match.end() + _NEAR]
        line = before.rpartition("\n")[2] + after.partition("\n")[0]
        extents = {one["axis"].lower(): int(one["extent"]) for one in _EXTENT.finditer(line)}
        shape = _SHAPE.search(line)
        if shape is not None:
            extents = {"m": int(shape["m"] or shape["m1"]), "n": int(shape["n"] or shape["n1"])} | extents
        known = {axis: extent for axis, extent in extents.items() if extent <= _LARGEST}
        group = 2 if _PAIR.search(line) else 1 if _ONE.search(line) else None
        yield _Multiply(kind, group, ".ws" in line, known.get("m"), known.get("n"))


def _judged(multiply: _Multiply, group: int, target: Target) -> Iterator[Diagnostic]:
    kind = KINDS[multiply.kind]
    where = f"tcgen05.mma{'.ws' * multiply.ws} of {kind}, cta_group::{group}"
    if target.tcgen05 is not None and kind.name not in target.tcgen05.kinds:
        kinds = ", ".join(target.tcgen05.kinds)
        yield _refused(kind_absent, f"{kind} does not exist on {target}", f"use one of {kinds}", where)
    for rule, extent, what, legal in (
        (rows_illegal, multiply.m, "rows", legal_m(kind, group, ws=multiply.ws)),
        (columns_illegal, multiply.n, "columns", legal_n(kind, group, ws=multiply.ws)),
    ):
        if extent is not None and legal and extent not in legal:
            yield _refused(
                rule, f"{kind} in {group} CTAs has no {extent} {what}", f"take {listed(legal)} {what}", where
            )


def _refused(rule: Rule, message: str, help_: str, where: str) -> Diagnostic:
    return rule.diagnostic(require(False, message, help=help_), where)
