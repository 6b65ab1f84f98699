"""Generic loads that cannot reach shared memory, since nothing of it is in their addresses.

nvcc prints `ld.f32 [%rd15]` where a pointer was read from memory. Shared memory is reached by what follows from a
symbol in it, from a conversion of its addresses, or from what was read there. That the words a kernel finds in global
memory are no addresses of its own shared memory is taken for granted of loads. Stores are left as they are: they may
have written what nobody else has.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from legalsat.analyses.ptx.instruction import Instruction, names_in, results_of
from legalsat.analyses.ptx.text import Kernel
from legalsat.analyses.ptx_machine.units import space_of

_FROM_GLOBAL = frozenset({"global", "param", "const"})
_ADDRESSED = frozenset({"shared", "shared::cta", "shared::cluster", "local"})  # what is kept in local memory, too
_NUMBERS = frozenset({"setp", "popc", "clz", "elect", "vote", "activemask"})  # of which no address is made


def with_global_loads(kernel: Kernel, symbols: Set[str]) -> Kernel:
    """Return a kernel whose generic loads name global memory where they can reach no shared memory.

    Args:
        kernel: of which parameters are loaded by name.
        symbols: that lie in shared memory.
    """
    generic = [n for n, i in enumerate(kernel.instructions) if i.base == "ld" and space_of(i) == ""]
    if not generic:
        return kernel
    shared = _of_shared(kernel, symbols)
    instructions = list(kernel.instructions)
    for n in generic:
        i = instructions[n]
        if not (shared | symbols).intersection(_address(i)):
            parts = (i.base, "global", *i.parts[1:])
            instructions[n] = replace(i, name=".".join(parts), parts=parts)
    return replace(kernel, instructions=instructions)


def _of_shared(kernel: Kernel, symbols: Set[str]) -> set[str]:
    """Return registers in which something of shared memory may be: its addresses, or what lies in it."""
    readers: dict[str, list[Instruction]] = {}
    work: list[str] = []
    for i in kernel.instructions:
        if _begins(i, symbols):
            work += results_of(i)
        elif i.base not in _NUMBERS and not (i.base == "ld" and space_of(i) in _FROM_GLOBAL):
            for name in {*i.reads}:
                readers.setdefault(name, []).append(i)
    found: set[str] = set()
    while work:
        name = work.pop()
        if name not in found:
            found.add(name)
            work += [to for i in readers.get(name, ()) for to in results_of(i)]
    return found


def _begins(i: Instruction, symbols: Set[str]) -> bool:
    if i.base == "ld" and space_of(i) in _FROM_GLOBAL:
        return False
    if i.base in {"call", "mapa", "ldmatrix"} or (i.base == "cvta" and i.parts[1] in _ADDRESSED):
        return True
    if i.base in {"ld", "atom"} and space_of(i) not in {"", "global"}:
        return True
    return any(name in symbols for one in i.operands[1:] for name in names_in(one))


def _address(i: Instruction) -> list[str]:
    return [name for one in i.operands if one.startswith("[") for name in names_in(one)]
