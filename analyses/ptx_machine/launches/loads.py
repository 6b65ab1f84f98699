"""What loads of parameters take: which of them, from which byte on."""

from __future__ import annotations

import re
from functools import lru_cache

from legalsat.analyses.ptx.instruction import Instruction, width_of


def parameter_of(i: Instruction, at: int) -> tuple[str, int]:
    """Return what a load of parameters takes for its n-th result, and of how many bits.

    It is named by the parameter, and from the second byte on by that and the byte.
    """
    name, begin = _place(i.operands[1])
    each = width_of(i) // len(i.results)
    begin += each * at
    return f"{name}+{begin}" if name and begin else name, 8 * each


@lru_cache(maxsize=1 << 12)
def _place(operand: str) -> tuple[str, int]:
    found = re.fullmatch(r"([\w$]+)\s*(?:\+\s*(\d+))?", operand.strip("[] "))
    return (found[1], int(found[2] or 0)) if found else ("", 0)


def keys_of_load(i: Instruction) -> list[str]:
    """Return what a load of parameters takes, by name."""
    return [parameter_of(i, at)[0] for at in range(len(i.results))]
