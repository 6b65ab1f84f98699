"""What of a kernel matters: what steers branches, guards, shared addresses and barriers.

The rest, nearly all of the arithmetic, is left out, and so is what can never be known because it comes from data.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Any

from legalsat.analyses.ptx.contract_values import plain_numbers
from legalsat.analyses.ptx.instruction import Instruction, names_in, results_of, vector
from legalsat.analyses.ptx_machine import registers, units
from legalsat.analyses.ptx_machine.alu import arithmetic, compare
from legalsat.analyses.ptx_machine.branches import fails, is_harmless
from legalsat.analyses.ptx_machine.flow import Control, is_choice
from legalsat.analyses.ptx_machine.launches.conditions import FALSE, TRUE
from legalsat.analyses.ptx_machine.order import BRANCHES
from legalsat.analyses.ptx_machine.tickets import draws

LANE_OPERATIONS = {"shfl", "vote", "elect", "activemask", "redux", "match"}
_ANY = {"selp", "and", "or", "shfl", "vote", "redux", "elect", "activemask", "mbarrier", "ld", "ldmatrix"}
_ROOTS = {"bar", "barrier", "trap", "call"}
# These may be known in spite of unknown sources.


def _sources(instruction: Instruction, *, traced: bool) -> list[str]:
    """Return the names that an instruction depends on, if it is kept; where copies go to and come from if `traced`."""
    base, operands = instruction.base, instruction.operands
    chosen: tuple[str, ...]
    if base in BRANCHES or base in {"bar", "barrier"}:
        chosen = operands
    elif base in units.EFFECTS:
        chosen = units.traced_operands(instruction) if traced else units.steering_operands(instruction)
    else:
        chosen = operands[1:]
    names = [name for one in chosen for name in names_in(one)]
    if instruction.guard:
        names.append(instruction.guard)
    return names


def _computed_from(names: Set[str], instructions: list[Instruction]) -> frozenset[str]:
    """Return some registers, and all that are computed from them."""
    found, count = {*names}, -1
    listed = [(i.reads, results) for i in instructions if (results := results_of(i)) and i.base != "ld"]
    while count < len(found):
        count = len(found)
        for reads, results in listed:
            if not found.isdisjoint(reads):
                found.update(results)
    return frozenset(found)


def slice_of(program: Any, instructions: list[Instruction], control: Control) -> list[bool]:
    """Say of each instruction whether it matters: effects, what steers these, and branches on which they depend."""
    sums = [vector(i.operands[0]) for i in instructions if i.base == "wgmma" and i.operands[3:]]
    program.sums, program.firsts = frozenset(name for one in sums for name in one), frozenset(one[0] for one in sums)
    program.fetched = frozenset(
        name for i in instructions if i.base == "tcgen05" and i.parts[1] == "ld" for name in vector(i.operands[0])
    )
    stores = any(i.base == "tcgen05" and i.parts[1] == "st" for i in instructions)
    program.computed = _computed_from(program.fetched, instructions) if stores else frozenset()
    program.sums = _copied(program, instructions, program.sums, registers.COPIES)
    program.fetched = _copied(program, instructions, program.fetched, registers.PACKS)
    written = program.sums | program.fetched
    touching = [touches(i, written) for i in instructions]
    roots = [
        (i.base in _ROOTS or units.is_effect(i) or (i.base in BRANCHES and not is_choice(i))) and not is_harmless(i)
        for i in instructions
    ]
    others = control.spins | program.roles.map_stores
    others |= {n for n, i in enumerate(instructions) if program.traced and units.moves_global(i)}
    roots = [root or n in others for n, root in enumerate(roots)]
    slicer = _Slicer(program, instructions, control)
    stored = [
        v for i in instructions if i.base == "st" and units.space_of(i) == "shared" for v in vector(i.operands[1])
    ]
    kept, program.needed = slicer.live(roots, touching, plain_numbers(stored, instructions, slicer.definitions))
    # Reads, of memory or of what units write, break nothing where they are left out: what they alone depend on needs
    # to be seen in the way that leads to them only.
    firm = [root and i.base != "ld" for root, i in zip(roots, instructions, strict=True)]
    strong, program.firm = slicer.live(firm, [False] * len(firm), [])
    program.deciding = slicer.deciding()
    program.only_after = slicer.only_after()
    program.before_in_block = slicer.before_in_block()
    program.asserted = slicer.asserted()
    effective, _ = slicer.live(roots, [False] * len(roots), [])
    program.effective = {id(i) for i, keep in zip(instructions, effective, strict=True) if keep}
    program.ways = slicer.ways([k or t for k, t in zip(kept, touching, strict=True)], strong) | program.asserted
    return [
        keep or touch or i.base in LANE_OPERATIONS for keep, touch, i in zip(kept, touching, instructions, strict=True)
    ]


class _Slicer:
    """What instructions need, by data and by control."""

    def __init__(self, program: Any, instructions: list[Instruction], control: Control) -> None:
        self.program, self.instructions, self.control = program, instructions, control
        self.definitions: dict[str, list[int]] = {}
        for n, i in enumerate(instructions):
            for name in results_of(i):
                self.definitions.setdefault(name, []).append(n)
        self.unknown = _unknown(program, instructions)

    def sources(self, n: int) -> list[str]:
        """Return the names that an instruction depends on, if it is kept."""
        return _sources(self.instructions[n], traced=self.program.traced)

    def live(self, roots: list[bool], touching: list[bool], names: list[str]) -> tuple[list[bool], set[str]]:
        """Return which instructions the roots and registers need, with themselves, and the registers that are needed.

        Args:
            roots: whether an instruction is needed.
            touching: whether those on which it depends by control are.
            names: registers that are needed.
        """
        instructions, branches_of = self.instructions, self.control.branches
        kept = list(roots)
        work = [*names, *(name for n, keep in enumerate(kept) if keep for name in self.sources(n))]
        branches = [
            b
            for n, keep in enumerate(kept)
            if touching[n] or (keep and instructions[n].base not in {"bra", "ret", "exit"}) or n in self.control.spins
            for b in branches_of[n]
        ]
        seen: set[str] = set()
        loads_words = False
        while work or branches:
            while branches:
                n = branches.pop()
                if not kept[n]:
                    kept[n] = True
                    work += self.sources(n)
                    branches += branches_of[n]
            if not work:
                break
            name = work.pop()
            if name in seen or name in self.unknown:
                continue
            seen.add(name)
            for n in self.definitions.get(name, []):
                i = instructions[n]
                if not kept[n] or i.base in {"ld", "mbarrier", "ldmatrix"}:
                    kept[n] = True
                    work += self.sources(n)
                    branches += branches_of[n]
                if i.base == "ld" and not loads_words and units.space_of(i) == "shared":
                    # What was stored in words of shared memory steers something: stored values matter too.
                    loads_words = self.program.words = True
                    for store in instructions:
                        if store.base == "st" and units.space_of(store) == "shared":
                            work += [v for one in store.operands[1:] for v in names_in(one)]
        return kept, seen

    def deciding(self) -> dict[int, tuple[str, ...]]:
        """Return of instructions the registers that decide the branches on which they depend.

        Left out are those whose result one block alone writes: no branch decides which of its values it has.
        """
        found, begins = {}, self.control.begins
        for i, branches in zip(self.instructions, self.control.branches, strict=True):
            if branches and any(len({begins[n] for n in self.definitions[name]}) > 1 for name in results_of(i)):
                listed = [self.instructions[b] for b in branches]
                found[id(i)] = tuple(one.guard or one.operands[0] for one in listed)
        return found

    def only_after(self) -> dict[int, tuple[Instruction, int]]:
        """Return of instructions to which one branch alone leads: the branch, and the outcome with which it does."""
        found, begins = {}, self.control.begins
        for n, i in enumerate(self.instructions):
            # Who comes again by the branch at the end of the same block has come there before in another way.
            branches = [b for b in self.control.branches[n] if begins[b] != begins[n]]
            if len(branches) == 1 and self.instructions[branches[0]].guard:
                one = self.instructions[branches[0]]
                holds = (branches[0] in self.control.taken[n]) != one.negated
                found[id(i)] = one, TRUE if holds else FALSE
        return found

    def before_in_block(self) -> dict[tuple[int, str], Instruction]:
        """Return which of several instructions gave a register its value that another one of its block takes."""
        found: dict[tuple[int, str], Instruction] = {}
        last: dict[str, Instruction | None] = {}
        for n, i in enumerate(self.instructions):
            if self.control.begins[n] == n:
                last = {}
            for name in _sources(i, traced=self.program.traced) if last else ():
                one = last.get(name)
                if one is not None:
                    found[id(i), name] = one
            for name in results_of(i):
                if len(self.definitions[name]) > 1:
                    last[name] = None if i.guard else i
        return found

    def asserted(self) -> dict[int, int]:
        """Return of branches with a way on which an assertion fails for sure the outcome of the other way."""
        found: dict[int, int] = {}
        for n, i in enumerate(self.instructions):
            for b in self.control.branches[n] if fails(i) else ():
                one = self.instructions[b]
                if one.base == "bra":
                    found[id(one)] = FALSE if (b in self.control.taken[n]) != one.negated else TRUE
        return found

    def ways(self, kept: list[bool], strong: list[bool]) -> dict[int, int]:
        """Return which outcomes of the predicates of branches and guards must be seen, where these are not both."""
        found: dict[int, int] = {}
        for n, i in enumerate(self.instructions):
            if not kept[n] or strong[n]:
                continue
            if i.guard and not is_choice(i):
                found[id(i)] = FALSE if i.negated else TRUE
            for b in self.control.branches[n]:
                one = self.instructions[b]
                if not strong[b] and one.base != "brx":
                    holds = (b in self.control.taken[n]) != one.negated
                    found[id(one)] = found.get(id(one), 0) | (TRUE if holds else FALSE)
        return found


def _copied(
    program: Any, instructions: list[Instruction], names: frozenset[str], bases: frozenset[str]
) -> frozenset[str]:
    """Return registers with those that they are copied to, by instructions of these names."""
    moves = [(results_of(i), registers.sources_of(i)) for i in instructions if i.base in bases]
    found = set(names)
    while True:
        program.bounds.check()
        more = {one for to, sources in moves if found.intersection(sources) for one in to} - found
        if not more:
            return frozenset(found)
        found |= more


def touches(instruction: Instruction, names: frozenset[str]) -> bool:
    """Does one of these registers stand in an instruction?"""
    if not names or not instruction.operands:
        return False
    return not (names.isdisjoint(instruction.reads) and names.isdisjoint(names_in(instruction.operands[0])))


def _unknown(program: Any, instructions: Iterable[Instruction]) -> set[str]:
    """Return the registers that are never known: what comes from data or floating point, and what follows from it."""
    listed = [(i, results_of(i)) for i in instructions]
    written = {name for _, results in listed for name in results}
    known: set[str] = set()
    open_ = [
        (i.base in _ANY, [n for one in i.operands[1:] for n in names_in(one) if n in written], results)
        for i, results in listed
        if _may_be_known(i) or id(i) in program.roles.words or (program.told and i.base == "ld") or draws(i)
    ]
    moved = True
    while moved:
        program.bounds.check()
        moved, left = False, []
        for one in open_:
            anyhow, sources, results = one
            if anyhow or known.issuperset(sources):
                known.update(results)
                moved = True
            else:
                left.append(one)
        open_ = left
    return written - known


def _may_be_known(i: Instruction) -> bool:
    if i.base == "ld":
        return units.space_of(i) in {"param", "shared", ""}
    if i.base in _ANY or i.base in {"mov", "cvta", "clusterlaunchcontrol"}:
        return True
    if i.base == "setp":
        return compare(i.parts) is not None
    return arithmetic(i.parts, i.operands) is not None
