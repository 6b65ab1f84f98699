"""Repairs beside a text: none is offered that does not cure what the text says failed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from legalsat.diagnostics import Diagnostic
from legalsat.explanation import Explanation
from legalsat.pasted.grammar import FAILED

# What a call or a kernel returns that was given an illegal map.
OF_ILLEGAL_MAPS = frozenset({"CUDA001", "CUDA700", "CUDA715", "CUDA716", "CUDA719"})
# Constants of a program, which no other layout of a tensor changes.
_AT_COMPILE_TIME = re.compile(r"static[ _]assert", re.IGNORECASE)
_WITHHELD = "no repair is offered: what the text says failed is not known to be cured by one"


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
