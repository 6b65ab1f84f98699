"""Which branches of a kernel matter: control dependence, and branches that nothing depends on.

An instruction depends on a branch if one way of the branch always comes to it and the other need not. What has no
effect on the contract, such as stores to global memory under a mask, leaves its branches without dependants: they are
replaced by jumps to where their ways meet again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

from legalsat.analyses.ptx.bounds import Bounds
from legalsat.analyses.ptx.instruction import Instruction
from legalsat.analyses.ptx.text import Kernel
from legalsat.analyses.ptx_machine.order import BRANCHES

# What a loop may spin on: another block or the host lets it go on, which no dependence shows.
_SPINNING = ("acquire", "volatile", "relaxed", "mmio")


@dataclass(frozen=True)
class Control:
    """Control flow between the instructions of a kernel.

    Attributes:
        branches: of each instruction, the branches on which it depends directly. taken: which of these are so when
            they are taken.
        joins: of each branch, the instruction at which its ways meet again; their number for the end.
        spins: branches back to a place from which memory that others write is read.
        begins: of each instruction, the first one of its block, all of which go the same way.
    """

    branches: list[tuple[int, ...]]
    taken: list[frozenset[int]]
    joins: dict[int, int]
    spins: frozenset[int]
    begins: list[int]


def control_of(kernel: Kernel, bounds: Bounds) -> Control:
    """Return the control flow of a kernel.

    Raises:
        Undecided: it takes longer than the bounds allow.
    """
    instructions, size = kernel.instructions, len(kernel.instructions)
    starts = {0, size, *(to for i in instructions for to in _targets(kernel, i) or ())}  # not at labels for debuggers
    starts.update(n + 1 for n, i in enumerate(instructions) if i.base in BRANCHES)
    begins = sorted(s for s in starts if s < size)
    number = {begin: n for n, begin in enumerate(begins)}
    end = len(begins)
    number[size] = end
    follow = []
    spins = set()
    spinning = [0, *accumulate(map(_may_spin, instructions))]  # how many before each instruction
    for n, begin in enumerate(begins):
        last = (begins[n + 1] if n + 1 < end else size) - 1
        targets = _targets(kernel, instructions[last])
        through = targets is None or bool(instructions[last].guard)
        follow.append([number[t] for t in targets or ()] + [number[last + 1]] * through)
        for target in targets or ():
            if target <= begin and spinning[last + 1] > spinning[target]:
                spins.add(last)
    after = _postdominators(follow, end, bounds)
    depends: list[set[int]] = [set() for _ in begins]
    when: list[set[int]] = [set() for _ in begins]
    lasts = [(begins[n + 1] if n + 1 < end else size) - 1 for n in range(end)]
    joins = {}
    for n, targets_ in enumerate(follow):
        joins[lasts[n]] = begins[after[n]] if after[n] < end else size
        if len(set(targets_)) < 2:
            continue
        for which, target in enumerate(targets_):
            at = target
            bounds.check()
            while at not in {after[n], end}:
                depends[at].add(lasts[n])
                if not which:
                    when[at].add(lasts[n])
                at = after[at]
    branches: list[tuple[int, ...]] = []
    taken: list[frozenset[int]] = []
    firsts: list[int] = []
    for n, begin in enumerate(begins):
        firsts += [begin] * (lasts[n] + 1 - begin)
        branches += [tuple(sorted(depends[n]))] * (lasts[n] + 1 - begin)
        taken += [frozenset(when[n])] * (lasts[n] + 1 - begin)
    return Control(branches, taken, joins, frozenset(spins), firsts)


def _targets(kernel: Kernel, i: Instruction) -> list[int] | None:
    """Return where a branch goes; None where an instruction is no branch."""
    end = len(kernel.instructions)
    if i.base == "bra":
        return [kernel.labels.get(i.operands[0], end)]
    if i.base == "brx":
        return [kernel.labels.get(t, end) for t in kernel.tables.get(i.operands[1], ())] or [end]
    return [end] if i.base in {"ret", "exit"} else None


def _may_spin(i: Instruction) -> bool:
    return i.base in {"atom", "nanosleep"} or (i.base == "ld" and any(p in _SPINNING for p in i.parts))


def _postdominators(follow: list[list[int]], end: int, bounds: Bounds) -> list[int]:
    """Return of each block the next one that all its ways to the end go through (Cooper, Harvey and Kennedy)."""
    follow = [[*targets] for targets in follow]
    before: list[list[int]] = [[] for _ in range(end + 1)]
    for n, targets in enumerate(follow):
        for t in targets or (end,):
            before[t].append(n)
    seen = {end}
    _order(before, end, seen)
    for n in reversed(range(end)):
        if n not in seen:  # a loop that never ends is taken to end
            follow[n].append(end)
            before[end].append(n)
            _order(before, n, seen)
    order = _order(before, end, set())
    place = {n: p for p, n in enumerate(order)}
    found: dict[int, int] = {end: end}
    moved = True
    while moved:
        moved = False
        for count, n in enumerate(order[1:]):
            if not count % 256:
                bounds.check()
            known = [t for t in (follow[n] or [end]) if t in found]
            best = known[0]
            for one in known[1:]:
                best = _meeting(best, one, found, place)
            if found.get(n) != best:
                found[n], moved = best, True
    return [found[n] for n in range(end)]


def _meeting(first: int, second: int, found: dict[int, int], place: dict[int, int]) -> int:
    """Return the first block after both of two."""
    while first != second:
        if place[first] > place[second]:
            first = found[first]
        else:
            second = found[second]
    return first


def _order(before: list[list[int]], end: int, seen: set[int]) -> list[int]:
    """Return blocks in reverse postorder of the reversed graph, from the end, and add them to those that are seen."""
    seen.add(end)
    found = []
    work = [(end, iter(before[end]))]
    while work:
        node, rest = work[-1]
        for n in rest:
            if n not in seen:
                seen.add(n)
                work.append((n, iter(before[n])))
                break
        else:
            work.pop()
            found.append(node)
    return found[::-1]


def is_choice(i: Instruction) -> bool:
    """May an instruction go on in more than one place?"""
    return (i.base in {"bra", "ret", "exit"} and bool(i.guard)) or i.base == "brx"


def without(kernel: Kernel, dropped: Iterable[int], joins: dict[int, int]) -> tuple[list[Instruction], dict[str, int]]:
    """Return a kernel's instructions with some branches replaced by jumps to their joins, and its labels."""
    instructions, labels = list(kernel.instructions), dict(kernel.labels)
    for n in dropped:
        line, join = instructions[n].line, joins[n]
        name = f"@{join}"
        labels[name] = join
        instructions[n] = Instruction("bra.uni", (name,), "", False, line, ("bra", "uni"))
    return instructions, labels
