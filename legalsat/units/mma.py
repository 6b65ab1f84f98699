"""How a matrix unit multiplies tiles: its instruction, how it reads A and B, and where sums live."""

from __future__ import annotations

from dataclasses import dataclass

from legalsat.options import Major
from legalsat.units.matrix_descriptor import MatrixOperand
from legalsat.units.tcgen05 import InstructionDescriptor, kind_of


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of tensor memory, 32 bits wide, that hold one thing for every lane.

    Attributes:
        name: what lies there, such as "accumulator 0" or "scales of A".
        first, count: columns.
    """

    name: str
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class Mma:
    """How a block multiplies the tiles of one stage.

    Attributes:
        unit: "wgmma" or "tcgen05".
        shape: m, n and k elements of one instruction; 0 for what a plan of one operand leaves to the other.
        types: element types of A, of B and of the sums, such as ("bf16", "bf16", "fp32").
        warpgroups: warpgroups that multiply (wgmma), each `tile m / warpgroups` rows, or that fetch sums (tcgen05).
        a, b: how the unit reads the tiles in shared memory; None for one that it takes from registers, or that is no
            part of the plan.
        instruction: the instruction descriptor, 32 bits (tcgen05; 0 for wgmma, whose instruction names its types).
        tensor_memory: columns of tensor memory, and how many are allocated, a power of two (tcgen05).
        allocated: columns of tensor memory to allocate, 0 for wgmma.
    """

    unit: str
    shape: tuple[int, int, int]
    types: tuple[str, str, str]
    warpgroups: int
    a: MatrixOperand | None
    b: MatrixOperand | None
    instruction: int = 0
    tensor_memory: tuple[Columns, ...] = ()
    allocated: int = 0


def instruction_of(
    element: str, shape: tuple[int, int], majors: tuple[Major, Major] = ("K", "K")
) -> InstructionDescriptor:
    """Return the instruction that multiplies elements of a type, of so many rows and columns, with the widest sums."""
    kind = kind_of(element, element)
    return InstructionDescriptor(kind.name, element, element, *shape, a_major=majors[0], b_major=majors[1])
