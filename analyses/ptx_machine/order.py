"""The order in which parts of a warp go on: as the kernel flows, loops before what follows them."""

from __future__ import annotations

from typing import Any

from legalsat.analyses.ptx.bounds import Bounds
from legalsat.analyses.ptx.findings import Undecided
from legalsat.analyses.ptx.instruction import Instruction, names_in, results_of

BRANCHES = {"bra", "brx", "ret", "exit", "trap", "call"}
MOST_NESTED = 100  # loops in loops
MOST_ALIVE = 1 << 30  # registers at instructions, for which it is said whether they may still be read


def ranks(program: Any, chosen: list[tuple[str, Instruction | None]], places: dict[str, int]) -> list[int]:
    """Return a number for each place so that loops come before what follows them."""
    size = len(chosen)
    starts = {0, *places.values()}
    for at, (_, i) in enumerate(chosen):
        if i is not None and i.base in BRANCHES and at + 1 < size:
            starts.add(at + 1)
    begins = sorted(starts)
    block_of = {b: n for n, b in enumerate(begins)}
    follow: list[list[int]] = []
    for n in range(len(begins)):
        end = begins[n + 1] if n + 1 < len(begins) else size
        last = chosen[end - 1][1]
        targets: list[int] = []
        through = True
        if last is not None and last.base == "bra":
            if last.operands[0] in places:
                targets.append(block_of[places[last.operands[0]]])
            through = bool(last.guard)
        elif last is not None and last.base == "brx":
            targets += [block_of[places[t]] for t in program.kernel.tables[last.operands[1]]]
            through = bool(last.guard)
        elif last is not None and last.base in {"ret", "exit", "trap"}:
            through = bool(last.guard)
        if through and n + 1 < len(begins):
            targets.append(n + 1)
        follow.append(targets)
    order = _loops_first(list(range(len(begins))), follow, program.bounds)
    position = {b: p for p, b in enumerate(order)}
    for n, targets in enumerate(follow):
        for t in targets:
            if position[t] <= position[n] and chosen[begins[t]][0] == "label" and not _spins(chosen, begins[t]):
                program.headers.add(begins[t])
    ranks, current = [], 0
    for at in range(size):
        current = position[block_of[at]] if at in block_of else current
        ranks.append(current * size + at)
    return ranks


def _spins(chosen: list[tuple[str, Instruction | None]], at: int) -> bool:
    """Does nothing but a wait on a barrier follow a label? How often that fails says nothing."""
    after = chosen[at + 1][1] if at + 1 < len(chosen) else None
    return after is not None and after.base == "mbarrier" and after.parts[1] in {"try_wait", "test_wait"}


def _loops_first(nodes: list[int], follow: list[list[int]], bounds: Bounds, depth: int = 0) -> list[int]:
    """Order blocks: components in topological order, and inside a loop the same without its entry."""
    if len(nodes) <= 1:
        return nodes
    bounds.check()
    if depth > MOST_NESTED:
        raise Undecided(0, f"loops are nested deeper than {MOST_NESTED}")
    components = _components(nodes, follow, set(nodes))
    of = {n: number for number, component in enumerate(components) for n in component}
    entries: dict[int, int] = {}
    for n in nodes:
        for t in follow[n]:
            if of.get(t, of[n]) != of[n]:
                entries.setdefault(of[t], t)
    found: list[int] = []
    for number, component in enumerate(components):
        entry = entries.get(number, min(component))
        found.append(entry)
        found += _loops_first([n for n in component if n != entry], follow, bounds, depth + 1)
    return found


def _components(nodes: list[int], follow: list[list[int]], inside: set[int]) -> list[list[int]]:
    """Return strongly connected components in topological order (Tarjan, without recursion)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on: set[int] = set()
    found: list[list[int]] = []
    for root in nodes:
        if root in index:
            continue
        work = [(root, iter([t for t in follow[root] if t in inside]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on.add(root)
        while work:
            node, targets = work[-1]
            for t in targets:
                if t not in index:
                    index[t] = low[t] = len(index)
                    stack.append(t)
                    on.add(t)
                    work.append((t, iter([u for u in follow[t] if u in inside])))
                    break
                if t in on:
                    low[node] = min(low[node], index[t])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = []
                    while True:
                        one = stack.pop()
                        on.discard(one)
                        component.append(one)
                        if one == node:
                            break
                    found.append(component)
    return found[::-1]


def alive(program: Any, chosen: list[tuple[str, Instruction | None]], places: dict[str, int]) -> list[int]:
    """Return of each place the registers that something may still read from there on, as bits."""
    size = len(chosen)
    if size * len(program.slots) > MOST_ALIVE:
        raise Undecided(0, f"more than {MOST_ALIVE} registers at instructions")
    reads, writes, follow = zip(
        *(_effect(program, i, places, at, size) for at, (_, i) in enumerate(chosen)), strict=True
    )
    live = [0] * (size + 1)
    moved = True
    while moved:
        moved = False
        for at in range(size - 1, -1, -1):
            if not at % 256:
                program.bounds.check()
            after = 0
            for to in follow[at]:
                after |= live[to]
            now = reads[at] | (after & ~writes[at])
            if now != live[at]:
                live[at], moved = now, True
    constants = sum(1 << place for place in program.constants)
    return [bits & ~constants for bits in live]


def _effect(
    program: Any, i: Instruction | None, places: dict[str, int], at: int, size: int
) -> tuple[int, int, tuple[int, ...]]:
    """Return the registers that an instruction reads and writes, as bits by place, and what may follow it."""
    if i is None:
        return 0, 0, (at + 1,)
    slots: dict[str, int] = program.slots
    results = [name for name in results_of(i) if name in slots]
    names = [name for one in i.operands[1 if results_of(i) else 0 :] for name in names_in(one)]
    if i.guard:
        names += [i.guard, *results]  # where the predicate does not hold, the old value stays
    reads = writes = 0
    for name in names:
        if name in slots:
            reads |= 1 << slots[name]
    for name in results if not i.guard else ():
        writes |= 1 << slots[name]
    through = (at + 1,) if i.guard or i.base not in {"bra", "ret", "exit"} else ()
    if i.base == "bra":
        return reads, writes, (places.get(i.operands[0], size), *through)
    if i.base == "brx":
        return reads, writes, (*(places.get(t, size) for t in program.kernel.tables[i.operands[1]]), *through)
    return reads, writes, through
