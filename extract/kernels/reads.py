"""What the matrix unit of a target reads of tiles in shared memory: along which axes, and by which instructions."""

from __future__ import annotations

from functools import lru_cache

from legalsat.operators.gemm import matrix_unit
from legalsat.options import MAJORS, Major, SwizzleName
from legalsat.plans.product_kernel import ISSUED_ROWS
from legalsat.rules import MULTIPLY_RULES
from legalsat.targets import Target
from legalsat.units.mma import instruction_of
from legalsat.units.tcgen05 import KINDS, kind_of, legal_n, operand_type
from legalsat.units.tcgen05_sites import Tcgen05Mma
from legalsat.units.wgmma import PAIRS, TURNED
from legalsat.units.wgmma import columns as legal_columns

K_MAJOR: tuple[Major, Major] = ("K", "K")
WORD_BITS = 32  # of elements that a unit turns by atoms of 32 bytes


def swizzle_of(bits: int, major: Major) -> SwizzleName:
    """Return the widest swizzle by which an operand's tile lies: its atoms are the unit's (FACTS TC-11)."""
    return "128B_atom_32B" if bits == WORD_BITS and major == "MN" else "128B"


@lru_cache
def columns_of(element: str, target: Target, majors: tuple[Major, Major] = K_MAJOR) -> tuple[int, ...]:
    """Return the columns that an instruction may have by the rules, none where the unit does not read such operands.

    Args:
        element: type of both operands.
        target: the GPU, whose unit is wgmma or tcgen05.
        majors: of A and of B.
    """
    name = operand_type(element)
    if matrix_unit(target) == "wgmma":
        return legal_columns(name) if name in (TURNED if majors != K_MAJOR else PAIRS) else ()
    if not any(name in kind.operands for kind in KINDS.values()):
        return ()
    kind = kind_of(element, element)
    words = (instruction_of(element, (ISSUED_ROWS, n), majors) for n in legal_n(kind, 1))
    swizzles = [swizzle_of(kind.element_bits, major) for major in majors]
    sites = (Tcgen05Mma(word, a_swizzle=swizzles[0], b_swizzle=swizzles[1]) for word in words)
    return tuple(
        site.descriptor.n
        for site in sites
        if not any(d.level == "error" for rule in MULTIPLY_RULES for d in rule.check(site, target))
    )


def axes_read(element: str, target: Target) -> int:
    """Return along how many axes tiles of operands may lie for the unit: 1, which is K, or both."""
    return sum(bool(columns_of(element, target, (major, major))) for major in MAJORS)
