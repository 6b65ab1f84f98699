"""What lanes of a warp may find different at each place of a kernel, followed along its branches.

A register may hold what differs between lanes here, and later, written anew, what a shuffle has given to all. Only
where both may come is it taken to differ. That lanes differ since they have gone different ways is not followed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from legalsat.analyses.ptx.bounds import Bounds
from legalsat.analyses.ptx.instruction import Instruction, names_in, results_of
from legalsat.analyses.ptx.text import Kernel

LANES = frozenset({"%tid.x", "%tid.y", "%tid.z", "%laneid"})
_OF_WARP = frozenset({"vote", "elect", "redux", "activemask", "match"})  # what all lanes get
_ENDS = frozenset({"bra", "brx", "ret", "exit", "trap"})
_Step = tuple[Instruction, tuple[str, ...], tuple[str, ...]]


def differing(
    kernel: Kernel, begins: Iterable[str], gives: Callable[[Instruction], bool], bounds: Bounds
) -> dict[int, frozenset[str]]:
    """Return which of the registers that instructions read lanes may find different, by identity, where there are such.

    Args:
        kernel: of which all instructions are followed.
        begins: special registers in which lanes differ.
        gives: whether an instruction by itself gives each lane something else.
        bounds: of what that may take.
    """
    code = kernel.instructions
    starts = sorted({0, *kernel.labels.values(), *(n + 1 for n, i in enumerate(code) if i.base in _ENDS)} - {len(code)})
    steps = [_step(i) for i in code]
    names = {name for _, reads, results in steps for name in (*reads, *results)} | set(begins)
    bit = {name: 1 << n for n, name in enumerate(sorted(names))}
    # What an instruction reads, what it writes, whether that differs anyhow, and whether the rest keeps its value.
    rows = [(_bits(bit, reads), _bits(bit, results), gives(i), bool(i.guard)) for i, reads, results in steps]
    always = _bits(bit, begins)
    number = {at: n for n, at in enumerate(starts)}
    coming = [0] * len(starts)
    work = set(range(len(starts)))
    while work:
        bounds.check()
        n = min(work)
        work.remove(n)
        begin, end = starts[n], starts[n + 1] if n + 1 < len(starts) else len(code)
        now = coming[n] | always
        for reads, results, anyhow, keeps in rows[begin:end]:
            now = now | results if anyhow or reads & now else now if keeps else now & ~results
        for to in _following(kernel, code[end - 1], end):
            place = number.get(to)
            if place is not None and now & ~coming[place]:
                coming[place] |= now
                work.add(place)
    found: dict[int, frozenset[str]] = {}
    for n, begin in enumerate(starts):
        end, now = starts[n + 1] if n + 1 < len(starts) else len(code), coming[n] | always
        for at in range(begin, end):
            reads, results, anyhow, keeps = rows[at]
            if reads & now:
                found[id(code[at])] = frozenset(name for name in steps[at][1] if bit[name] & now)
            now = now | results if anyhow or reads & now else now if keeps else now & ~results
    return found


def _step(i: Instruction) -> _Step:
    """Return an instruction with the registers by which its results differ, and these."""
    if i.base in _OF_WARP or (i.base == "shfl" and "idx" in i.parts):
        return i, (), results_of(i)
    first = names_in(i.operands[0]) if i.operands and not results_of(i) else []
    return i, (*first, *i.reads, *([i.guard] if i.guard else ())), results_of(i)


def _bits(bit: dict[str, int], names: Iterable[str]) -> int:
    found = 0
    for name in names:
        found |= bit[name]
    return found


def _following(kernel: Kernel, last: Instruction, end: int) -> list[int]:
    """Return where it goes on after the last instruction of a block."""
    to = last.operands[:1] if last.base == "bra" else ()
    to = kernel.tables.get(last.operands[-1], ()) if last.base == "brx" else to
    found = [kernel.labels[name] for name in to if name in kernel.labels]
    return [*found, end] if last.base not in _ENDS or last.guard else found
