"""How a block multiplies a tile by tcgen05: the instruction, how it reads A and B, and where sums live."""

from __future__ import annotations

from legalsat.analyses.matrix_layout import matrix_operand, tile_layout
from legalsat.extract.kernels.tensor_memory import Want, choose_instruction, place
from legalsat.extract.search.planner import NoLegalLayout
from legalsat.extract.solve.fields import Conflict
from legalsat.operators import Copy, k_major
from legalsat.operators.gemm import Gemm, sums_of
from legalsat.options import Major
from legalsat.plans.plan import Plan
from legalsat.targets import Target
from legalsat.units.matrix_descriptor import MatrixOperand
from legalsat.units.mma import Mma
from legalsat.units.tcgen05 import operand_type


def multiplied(
    operator: Gemm, tile: tuple[int, int, int], plans: dict[str, Plan], operands: dict[str, Copy], target: Target
) -> Mma:
    """Return how tcgen05 multiplies tiles that arrive by `plans`.

    Args:
        operator: the product.
        tile: elements along m, n and k.
        plans: of "A" and "B".
        operands: what they were asked.
        target: a GPU with tcgen05.

    Raises:
        NoSuchDescriptor: no descriptor reads a tile as it lies in shared memory.
        NoLegalLayout: no instruction multiplies such tiles, or their sums do not fit.
    """
    rows, columns, _ = tile
    element = operand_type(operator.dtype.name)
    types = (element, element, sums_of(operator.dtype).name)
    majors = (_major(plans["A"]), _major(plans["B"]))
    chosen = choose_instruction(types, tile, target, majors=majors)
    if isinstance(chosen, Conflict):
        raise NoLegalLayout(f"no instruction of {target} multiplies tiles of {tile}", chosen.diagnostics)
    m, n, _ = chosen.shape
    a, b = (_operand(plans[name], operands[name], block) for name, block in (("A", m), ("B", n)))
    placed = place([Want("accumulator", n, copies=rows // m * (columns // n))], target)
    if isinstance(placed, Conflict):
        raise NoLegalLayout(f"sums of tiles of {tile} do not fit into tensor memory", placed.diagnostics)
    return Mma("tcgen05", chosen.shape, types, 1, a, b, chosen.descriptor.word, placed.columns, placed.allocated)


def _major(plan: Plan) -> Major:
    return "K" if k_major(plan.source) else "MN"


def _operand(plan: Plan, operand: Copy, block: int) -> MatrixOperand:
    """Return how the unit reads an operand's tile."""
    assert operand.tile is not None
    bits, (rows, depth) = operand.source.dtype.bits, operand.tile
    major, swizzle = _major(plan), plan.shared[0].swizzle
    layout = tile_layout(rows, depth, bits, swizzle, major)
    return matrix_operand(layout, swizzle, bits, unit="tcgen05", major=major, block=block)
