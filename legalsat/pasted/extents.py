"""Extents of products that a text names beside a failure: of library calls, command lines, layers and configurations.

cuBLAS and CUTLASS read operands in pieces of 16 bytes, so an extent that becomes a stride is a multiple of 16 bytes: 16
elements of 8 bits, 8 of 16 bits. An extent that is not is told only where the text says that a product failed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from legalsat.diagnostics import Diagnostic
from legalsat.pasted.expressions import Called
from legalsat.pasted.grammar import FAILED
from legalsat.pasted.operators import is_number
from legalsat.pasted.sentences import RULE_OF
from legalsat.rule import require
from legalsat.targets import Target

MOST_EXTENTS = 64
_EIGHT_BITS = re.compile(r"fp8|float8|e[45]m[23]|scaled_mm|\bmxfp|w8a8|transformer_engine", re.IGNORECASE)
_LIBRARY = re.compile(r"CUBLAS_STATUS_(?:NOT_SUPPORTED|INVALID_VALUE)")
_CALL = re.compile(r"\bm (?P<m>\d{1,9}) n (?P<n>\d{1,9}) k (?P<k>\d{1,9})\b")
_KERNELS = re.compile(
    r"cutlass[^\n]{0,200}(?:Invalid status|Misaligned|not supported|failed)|misaligned|can_implement", re.IGNORECASE
)
_SHAPE = re.compile(r"(?<![\w.])(?P<rows>\d{1,6}) ?x ?(?P<columns>\d{1,6})\b(?![.x])")
_OPTION = re.compile(
    r"(?<![\w-])(?:--(?P<name>[mnk])[= ]|(?P<symbol>[mnkMNK])\s?=\s?)(?P<extent>\d{1,9})\b(?!\.)"
    r"|(?:GemmCoord|problem_size)\w*(?: \w+)?\s?[({]\s?(?P<m>\d{1,9})\s?,\s?(?P<n>\d{1,9})\s?,\s?(?P<k>\d{1,9})\b"
)
_WIDE = re.compile(r"fp32|float32|tf32|sgemm|\bfloat\b")
_NARROW = re.compile(r"half|fp16|float16|bf16|bfloat16|hgemm|h?16816|s8|int8")
_CONFIGURED = re.compile(
    r"\b(?P<name>n_inner|n_embd|d_model|ffn_dim|(?:moe_)?intermediate_size|hidden_size|in_features|out_features|"
    r"vocab_size)[\"']?\s{0,4}[:=]\s{0,4}(?P<extent>\d{1,9})\b"
)
_LAYER = re.compile(r"(?:^|\.)Linear$")
_HELP = "pad the extent to a multiple of 16 bytes: 16 elements of 8 bits, 8 of 16 bits"


class _Extent(NamedTuple):
    name: str
    size: int


def explain_extents(text: str, calls: Sequence[Called], target: Target) -> Iterator[Diagnostic]:
    """Yield one finding of the extents of a failed product that are no multiples of 16 bytes, if any are.

    Args:
        text: the text.
        calls: what code in it calls.
        target: the GPU.
    """
    wide = _WIDE.search(text) and not _NARROW.search(text)
    granule = 16 if _EIGHT_BITS.search(text) else 4 if wide else 8
    ragged = [one for one in _extents(text, calls) if one.size % granule]
    if ragged:
        shown = ", ".join(f"{one.name} of {one.size}" for one in dict.fromkeys(ragged[:4]))
        requirement = require(
            False,
            "{shown}: no multiple of {granule} elements, 16 bytes",
            help=_HELP,
            shown=shown,
            granule=granule,
        )
        rule = RULE_OF["TMA005" if target.tma is not None else "VEC002"]
        yield rule.diagnostic(requirement, "the extents of a product that the text names")


def _extents(text: str, calls: Sequence[Called]) -> list[_Extent]:
    """Return the extents of products that a text says failed."""
    found: list[_Extent] = []
    if _LIBRARY.search(text):
        for match in _CALL.finditer(text):
            found += [_Extent(name, int(match[name])) for name in "mnk"]
    if _LIBRARY.search(text) and _EIGHT_BITS.search(text):
        for match in _SHAPE.finditer(text):
            found += [_Extent(f"{match['rows']}x{match['columns']}", int(match[name])) for name in ("rows", "columns")]
    if _KERNELS.search(text):
        for match in _OPTION.finditer(text):
            if match["extent"]:
                found.append(_Extent(match["name"] or match["symbol"], int(match["extent"])))
            else:
                found += [_Extent(name, int(match[name])) for name in "mnk"]
    if _EIGHT_BITS.search(text) and FAILED.search(text):
        found += [_Extent(match["name"], int(match["extent"])) for match in _CONFIGURED.finditer(text)]
        for called in calls:
            if _LAYER.search(called.name) and all(is_number(one) for one in called.arguments[:2]):
                names = ("in_features", "out_features")
                found += [_Extent(name, one) for name, one in zip(names, called.arguments, strict=False)]
    return found[:MOST_EXTENTS]
