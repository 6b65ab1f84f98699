"""Shapes of tcgen05 multiplications that a parameter says: CUTLASS passes instruction descriptors to some kernels.

What a multiplication reads follows from its shape. The usual ones are tried, the largest first; where all bytes that
are expected come, and all sums that are read have been written, a kernel is proven for launches with that descriptor
alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from legalsat.analyses.ptx_machine.program import Program

_COLUMNS = (256, 128, 64)  # of D
_ROWS = 128  # for each CTA
_F32 = 1 << 4  # the type of D
_ROWS_AT, _COLUMNS_AT = 24, 17  # the first bits of these, in 16 rows and 8 columns
_DESCRIPTOR = 3  # which operand


def shapes_of(program: Program, fixed: Mapping[str, int]) -> tuple[str, int, dict[int, str]]:
    """Return the parameter that says the shape of all multiplications, a line, and its values with shapes in words.

    No values where none says it, several do, or it is given.
    """
    issued = [
        i for i in program.chosen if i.base == "tcgen05" and i.parts[1] == "mma" and len(i.operands) > _DESCRIPTOR
    ]
    scaled = any("block_scale" in i.parts for i in issued)
    keys = {key for i in issued for key in program.conditions.computed_from(i.operands[_DESCRIPTOR])}
    if len(keys) != 1 or scaled or not keys.isdisjoint(fixed) or next(iter(keys)).startswith(("%", "[")):
        return "", 0, {}
    rows = _ROWS * (2 if any("cta_group::2" in i.parts for i in issued) else 1)
    values = {
        _F32 | columns // 8 << _COLUMNS_AT | rows // 16 << _ROWS_AT: f"{rows} x {columns}" for columns in _COLUMNS
    }
    return keys.pop(), issued[0].line, values


def reads_its_sums(program: Program) -> bool:
    """Have multiplications written all columns of tensor memory that runs have read?"""
    written = {column for first, count in program.summed for column in range(first, first + count)}
    return all(written.issuperset(range(first, first + count)) for first, count in program.read_sums)
