"""Registers that are packed into one and unpacked again, as LLVM does where it computes two at a time.

`mov.b64 %rd1, {%r1, %r2}; mov.b64 {_, %r3}, %rd1` gives `%r3` what `%r2` holds. Where `%r1` comes from data, the pair
is not known, and yet its other half is: so the unpacking is read as a copy of that half.
"""

from __future__ import annotations

import re
from dataclasses import replace

from legalsat.analyses.ptx.instruction import Instruction, results_of, vector
from legalsat.analyses.ptx.text import Kernel

_UNUSED = "_"


def with_direct_halves(kernel: Kernel) -> Kernel:
    """Return a kernel that copies halves of pairs which the same straight stretch of code has packed."""
    instructions = list(kernel.instructions)
    meetings = set(kernel.labels.values())
    packed: dict[str, list[str]] = {}
    for n, one in enumerate(kernel.instructions):
        if n in meetings:  # who comes from elsewhere has another pair
            packed = {}
        i = instructions[n] = _direct(one, packed) or one
        if packed:
            written = set(results_of(i))
            packed = {name: parts for name, parts in packed.items() if written.isdisjoint((name, *parts))}
        if i.base == "mov" and not i.guard and len(i.operands) == 2 and i.operands[1].startswith("{"):
            parts = vector(i.operands[1])
            if i.operands[0] not in parts:
                packed[i.operands[0]] = parts
    return replace(kernel, instructions=instructions) if instructions != kernel.instructions else kernel


def _direct(i: Instruction, packed: dict[str, list[str]]) -> Instruction | None:
    """Return the copy that an unpacking of one part is; None where it is none."""
    if i.base != "mov" or len(i.operands) != 2 or not i.operands[0].startswith("{"):
        return None
    to, parts = vector(i.operands[0]), packed.get(i.operands[1], [])
    wanted = [number for number, name in enumerate(to) if name != _UNUSED]
    bits = re.fullmatch(r"b(\d+)", i.parts[-1])
    if bits is None or len(to) != len(parts) or len(wanted) != 1:
        return None
    names = (i.base, f"b{int(bits[1]) // len(to)}")
    return replace(i, name=".".join(names), parts=names, operands=(to[wanted[0]], parts[wanted[0]]))
