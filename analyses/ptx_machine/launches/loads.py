"""What loads of parameters take: which of them, from which byte on."""

from __future__ import annotations

import re

from legalsat.analyses.ptx.instruction import Instruction, vector
from legalsat.analyses.ptx_machine import units


def parameter_of(i: Instruction, at: int) -> tuple[str, int, int]:
    """Return the parameter, the byte in it and the bits that a load of parameters takes for its n-th result."""
    found = re.fullmatch(r"([\w$]+)\s*(?:\+\s*(\d+))?", i.operands[1].strip("[] "))
    names = vector(i.operands[0])
    each = units.width_of(i) // len(names)
    return (found[1], int(found[2] or 0) + each * at, 8 * each) if found else ("", 0, 8 * each)


def keys_of_load(i: Instruction) -> list[str]:
    """Return what a load of parameters takes, by name, and from the second byte on by name and byte."""
    found = [parameter_of(i, at) for at in range(len(vector(i.operands[0])))]
    return [f"{name}+{offset}" if offset else name for name, offset, _ in found]
