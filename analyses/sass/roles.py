"""What registers the roles of a kernel use: from where one sets its share of them (setmaxnreg) to the exit.

A role's code begins at its USETMAXREG: DEALLOC gives registers of the CTA back, TRY_ALLOC takes them. Everything that
may run from there on is of the role, functions that it calls too.
"""

from __future__ import annotations

from dataclasses import dataclass

from legalsat.analyses.sass.flow import Block, blocks_of
from legalsat.analyses.sass.registers import MATRIX, matrix_of, touched
from legalsat.analyses.sass.text import Instruction, Kernel

_SETS = "USETMAXREG"
_LOCAL = frozenset({"LDL", "STL"})  # accesses of memory that registers are spilled to


@dataclass(frozen=True, slots=True)
class RoleRegisters:
    """What one role uses.

    Attributes:
        takes: whether it takes registers; it gives some back otherwise.
        given: registers a thread that it has then.
        used: the highest that it uses and one more, as R0 is one.
        spills: instructions that access local memory.
    """

    takes: bool
    given: int
    used: int
    spills: int


def role_registers(kernel: Kernel) -> tuple[RoleRegisters, ...]:
    """Return what each role of a kernel uses, in the order in which their code lies.

    Raises:
        Unknown: a jump leads to where the text does not say. ValueError: operands of a matrix instruction are unknown.
    """
    blocks = blocks_of(kernel)
    found = []
    for place, one in enumerate(kernel.instructions):
        if one.base == _SETS and not one.never:
            mine = _code_of(kernel, blocks, place)
            found.append(
                RoleRegisters(
                    takes="DEALLOC" not in one.parts,
                    given=int(one.operands[-1], 0),
                    used=max((highest(other) for other in mine), default=-1) + 1,
                    spills=sum(other.base in _LOCAL for other in mine),
                )
            )
    return tuple(found)


def _code_of(kernel: Kernel, blocks: list[Block], begins: int) -> list[Instruction]:
    """Return what may run behind a place, up to where a role begins: none sets its registers twice."""
    code = kernel.instructions
    home = next(n for n, block in enumerate(blocks) if block.start <= begins < block.end)
    mine: list[Instruction] = []
    open_, seen = [(home, begins + 1)], set[int]()
    while open_:
        n, place = open_.pop()
        while place < blocks[n].end and code[place].base != _SETS:
            if not code[place].never:
                mine.append(code[place])
            place += 1
        if place == blocks[n].end:
            following = {*blocks[n].follows, *([blocks[n].calls] if blocks[n].calls >= 0 else [])} - seen
            seen |= following
            open_ += [(follower, blocks[follower].start) for follower in following]
    return mine


def highest(one: Instruction) -> int:
    """Return the highest register that an instruction reads or writes, -1 for none."""
    if one.base in MATRIX:
        matrix = matrix_of(one)
        spans = (matrix.accumulators, *matrix.sources)
    else:
        use = touched(one)
        spans = (*use.reads, *use.writes)
    return max((span[-1] for span in spans if span), default=-1)
