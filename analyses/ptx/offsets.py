"""Addresses of shared memory that are a register and a number, where compilers add the number in an instruction before.

`add.s32 %r2, %r1, 1024; st.shared.u8 [%r2+8], %r3` stores to `[%r1+1032]`. Epilogues have an addition for every other
store; read as this, they are stores from one register that follow each other (`ptx_machine.making.series`).
"""

from __future__ import annotations

import re
from dataclasses import replace

from legalsat.analyses.ptx.instruction import Instruction, immediate, results_of
from legalsat.analyses.ptx.parameters import address_of
from legalsat.analyses.ptx.text import Kernel

_ADDED = re.compile(r"add\.[su]32")
_Sums = dict[str, tuple[str, int]]  # registers that are another one and a number


def with_direct_offsets(kernel: Kernel) -> Kernel:
    """Return a kernel that adds in addresses what the same straight stretch of code has added before.

    Until one of the two registers is written, or others may come from elsewhere, the one is the other and the number;
    the machine adds offsets in 32 bits, as the instruction does.
    """
    instructions = list(kernel.instructions)
    meetings = set(kernel.labels.values())
    sums: _Sums = {}
    for n, i in enumerate(kernel.instructions):
        if n in meetings:
            sums = {}
        if sums and i.base in {"st", "ld"} and any(part.startswith("shared") for part in i.parts):
            instructions[n] = _direct(i, sums)
        written = set(results_of(i))
        found = _sum(i, sums)
        if sums and written:
            sums = {name: one for name, one in sums.items() if written.isdisjoint((name, one[0]))}
        if found is not None and found[0] not in written:
            sums[i.operands[0]] = found
    return replace(kernel, instructions=instructions) if instructions != kernel.instructions else kernel


def _sum(i: Instruction, sums: _Sums) -> tuple[str, int] | None:
    """Return the register and the number of which an instruction makes a sum; None if it does something else."""
    if i.guard or _ADDED.fullmatch(i.name) is None or not i.operands[1].startswith("%"):
        return None
    number = immediate(i.operands[2])
    if number is None:
        return None
    base, more = sums.get(i.operands[1], (i.operands[1], 0))
    return base, number + more


def _direct(i: Instruction, sums: _Sums) -> Instruction:
    """Return an instruction with the sum in its address."""
    at = 0 if i.base == "st" else 1
    place = address_of(i.operands[at])
    if place is None or place[0] not in sums:
        return i
    base, number = sums[place[0]]
    number += place[1]
    address = f"[{base}{'-' if number < 0 else '+'}{abs(number)}]"
    return replace(i, operands=(*i.operands[:at], address, *i.operands[at + 1 :]))
