"""How a block multiplies a tile: the instruction, how it reads A and B, where sums live, the registers they take."""

from __future__ import annotations

from dataclasses import dataclass

from legalsat.analyses.matrix_layout import matrix_operand, tile_layout
from legalsat.extract.kernels.tensor_memory import Want, choose_instruction, place
from legalsat.extract.search.planner import NoLegalLayout
from legalsat.extract.solve.fields import Conflict
from legalsat.operators import Copy, k_major
from legalsat.operators.gemm import Gemm, matrix_unit, sums_of
from legalsat.options import Major
from legalsat.plans.plan import Plan
from legalsat.rules import WGMMA_RULES
from legalsat.targets import Target
from legalsat.units.matrix_descriptor import MatrixOperand
from legalsat.units.mma import Mma
from legalsat.units.sites import WgmmaMultiply
from legalsat.units.tcgen05 import operand_type

WARPGROUP = 128  # threads
MOST_WARPGROUPS = 2  # that multiply; a third one would leave each fewer registers than its sums take
REGISTER_STEP = 8
MOST_REGISTERS = 240  # a thread; of 255, what leaves loads 24 where two warpgroups keep sums
LOADING_REGISTERS = 24  # the least that setmaxnreg accepts (FACTS HW-08)
# ptxas refuses wgmma over n columns in a kernel that starts with fewer than n / 2 and these, whatever is set later.
ENTRY_REGISTERS = 32
OTHER_REGISTERS = 40  # a thread besides sums: addresses, counters, what is converted


@dataclass(frozen=True, slots=True)
class Multiplied:
    """How a tile is multiplied, the warps that keep sums, and the registers that a thread needs to keep them."""

    mma: Mma
    registers: int


def multiplied(
    operator: Gemm, tile: tuple[int, int, int], plans: dict[str, Plan], operands: dict[str, Copy], target: Target
) -> Multiplied:
    """Return how the matrix unit of a target multiplies tiles that arrive by `plans`.

    Args:
        operator: the product.
        tile: elements along m, n and k.
        plans: of "A" and "B".
        operands: what they were asked.
        target: a GPU with wgmma or tcgen05.

    Raises:
        NoSuchDescriptor: no descriptor reads a tile as it lies in shared memory.
        NoLegalLayout: no instruction multiplies such tiles, or their sums do not fit.
    """
    unit, rows, columns = matrix_unit(target), tile[0], tile[1]
    sums = sums_of(operator.dtype).name
    element = operand_type(operator.dtype.name)
    types = (element, element, sums)
    if unit == "wgmma":
        assert target.wgmma is not None
        shape = (target.wgmma.m, columns, 8 * target.wgmma.k_bytes // operator.dtype.bits)
        warpgroups = min(MOST_WARPGROUPS, rows // shape[0])
        a, b = (_operand(plans[name], operands[name], unit, block) for name, block in (("A", shape[0]), ("B", columns)))
        majors = (_major(plans["A"]), _major(plans["B"]))
        site = WgmmaMultiply(*shape, *types, *majors, a_in_registers=a is None)
        broken = tuple(d for rule in WGMMA_RULES for d in rule.check(site, target))
        if broken:
            raise NoLegalLayout(f"no wgmma multiplies tiles of {tile}", broken)
        kept = rows // warpgroups * columns // WARPGROUP
        return Multiplied(Mma(unit, shape, types, warpgroups, a, b), kept + OTHER_REGISTERS)
    majors = (_major(plans["A"]), _major(plans["B"]))
    chosen = choose_instruction(types, tile, target, majors=majors)
    if isinstance(chosen, Conflict):
        raise NoLegalLayout(f"no instruction of {target} multiplies tiles of {tile}", chosen.diagnostics)
    m, n, _ = chosen.shape
    a, b = (_operand(plans[name], operands[name], unit, block) for name, block in (("A", m), ("B", n)))
    placed = place([Want("accumulator", n, copies=rows // m * (columns // n))], target)
    if isinstance(placed, Conflict):
        raise NoLegalLayout(f"sums of tiles of {tile} do not fit into tensor memory", placed.diagnostics)
    mma = Mma(unit, chosen.shape, types, 1, a, b, chosen.descriptor.word, placed.columns, placed.allocated)
    return Multiplied(mma, OTHER_REGISTERS)


def _major(plan: Plan) -> Major:
    return "K" if k_major(plan.source) else "MN"


def _operand(plan: Plan, operand: Copy, unit: str, block: int) -> MatrixOperand | None:
    """Return how the unit reads an operand's tile, None where it takes it from registers."""
    if not plan.shared:
        return None
    assert operand.tile is not None
    bits, (rows, depth) = operand.source.dtype.bits, operand.tile
    major = _major(plan)
    swizzle = plan.shared[0].swizzle
    layout = tile_layout(rows, depth, bits, swizzle, major)
    return matrix_operand(layout, swizzle, bits, unit=unit, major=major, block=block)


def registers(kept: int, columns: int, warpgroups: int, blocks: int, target: Target) -> tuple[int, ...] | None:
    """Return registers a thread of warps that keep sums and of those that load; None where they do not suffice.

    A block starts with as many for every thread as `blocks` of them leave; then its warpgroups hand them over. Where
    the assembler wants more at the start, a single warp loads and nothing is handed over: ().

    Args:
        kept: registers that a thread which keeps sums needs.
        columns: of C that one instruction multiplies.
        warpgroups: that keep sums; one more loads.
        blocks: on a processor.
        target: the GPU.
    """
    each = _each(blocks, (warpgroups + 1) * WARPGROUP, target)
    left = (each * (warpgroups + 1) - LOADING_REGISTERS) // warpgroups // REGISTER_STEP * REGISTER_STEP
    if each >= columns // 2 + ENTRY_REGISTERS and left >= kept:
        return min(left, MOST_REGISTERS), LOADING_REGISTERS
    return () if _each(blocks, warpgroups * WARPGROUP + target.lanes, target) >= kept else None


def _each(blocks: int, threads: int, target: Target) -> int:
    """Return registers a thread where every thread of so many blocks has as many."""
    each = target.registers_per_processor // (blocks * threads) // REGISTER_STEP * REGISTER_STEP
    return min(each, MOST_REGISTERS)
