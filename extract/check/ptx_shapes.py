"""What parameters say of tcgen05 multiplications: their shapes, and whether the first one of a tile adds.

CUTLASS passes instruction descriptors to some kernels. What a multiplication reads follows from its shape. The usual
ones are tried, the largest first; where all bytes that are expected come, and all sums that are read have been written,
a kernel is proven for launches with that descriptor alone. CuTe DSL passes whether a multiplication adds: that the
first one does not is a condition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from legalsat.analyses.ptx.instruction import Instruction, names_in
from legalsat.analyses.ptx_machine import units
from legalsat.analyses.ptx_machine.launches.loads import keys_of_load
from legalsat.analyses.ptx_machine.matrix.tcgen05 import adding
from legalsat.analyses.ptx_machine.program import Program

_COLUMNS = (256, 128, 64)  # of D
_ROWS = 128  # for each CTA
_F32 = 1 << 4  # the type of D
_ROWS_AT, _COLUMNS_AT = 24, 17  # the first bits of these, in 16 rows and 8 columns
_DESCRIPTOR = 3  # which operand
_BITS = {"and", "cvt", "mov", "setp"}  # what takes a flag out of a word


def shapes_of(program: Program, fixed: Mapping[str, int]) -> tuple[str, int, dict[int, str]]:
    """Return the parameter that says the shape of all multiplications, a line, and its values with shapes in words.

    No values where none says it, several do, or it is given.
    """
    issued = _issued(program)
    scaled = any("block_scale" in i.parts for i in issued)
    keys = {key for i in issued for key in program.conditions.computed_from(i.operands[_DESCRIPTOR])}
    if len(keys) != 1 or scaled or not keys.isdisjoint(fixed) or next(iter(keys)).startswith(("%", "[")):
        return "", 0, {}
    rows = _ROWS * (2 if any("cta_group::2" in i.parts for i in issued) else 1)
    values = {
        _F32 | columns // 8 << _COLUMNS_AT | rows // 16 << _ROWS_AT: f"{rows} x {columns}" for columns in _COLUMNS
    }
    return keys.pop(), issued[0].line, values


def flags_of(program: Program, fixed: Mapping[str, int]) -> dict[str, int]:
    """Return parameters, that are not given, which say alone whether a multiplication adds, with a line of one."""
    said = {i.line: _said_by(program, names_in(adding(i))) for i in _issued(program)}
    return {key: line for line, keys in said.items() for key in keys - fixed.keys()}


def _issued(program: Program) -> list[Instruction]:
    return [i for i in program.chosen if i.base == "tcgen05" and i.parts[1] == "mma" and len(i.operands) > _DESCRIPTOR]


def _said_by(program: Program, names: Iterable[str]) -> set[str]:
    """Return the parameters of which registers are bits; none where anything else is computed for them."""
    found: set[str] = set()
    work = list(names)
    seen = set(work)
    while work:
        for i in program.conditions.definitions.get(work.pop(), ()):
            if i.base == "ld" and units.space_of(i) == "param":
                found |= set(keys_of_load(i))
            elif i.base not in _BITS:
                return set()
            work += {*i.reads} - seen
            seen |= {*i.reads}
    return found
