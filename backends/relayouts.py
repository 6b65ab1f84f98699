"""Relayouts in front of a product, as its plan or its kernel has them, in Triton."""

from __future__ import annotations

from dataclasses import replace

from legalsat.backends.triton.program import program_of
from legalsat.errors import LegalSatError
from legalsat.extract.kernels.product_maps import laid_out
from legalsat.operators import Copy
from legalsat.operators.operator import Move
from legalsat.plans.block_plan import BlockPlan
from legalsat.plans.plan import Plan
from legalsat.runtime.program import Program, Relayout, with_operand
from legalsat.targets import Target
from legalsat.tensor import Tensor

PRINTED_MEANS = ("tma", "threads")  # by which triton's movements travel


def with_relayouts(program: Program, plan: BlockPlan) -> Program:
    """Return a product's program with the movements in front that lay its operands out anew.

    Args:
        program: reads A and B where the plan's relayouts put them; what is returned reads them as they were given.
        plan: the product's.

    Raises:
        LegalSatError: triton prints no plan of a relayout.
    """
    before: list[Relayout] = []
    for name, one in (("a", plan.a), ("b", plan.b)):
        constant = getattr(one.operator, "constant", False)
        if one.before:
            (first,) = one.before  # plans have one at most, as a copy that is kept goes by what it was made from
            movement = movement_of(first.operator, first.target, first)
            program = with_operand(program, name, movement.operands[0].tensor)
            before.append(Relayout(name, movement, constant))
    return replace(program, before=(*program.before, *before))


def movement_of(operator: Move, target: Target, plan: Plan | None = None) -> Program:
    """Return the program of a relayout, which may go by any means, so by those that are printed if need be.

    It is Triton's, which is installed with what compiles it.
    """
    from legalsat.extract.search.planner import EVERY_MEANS, cached_plan  # noqa: PLC0415 - needs the solvers

    try:
        return program_of(plan or cached_plan(operator, target, EVERY_MEANS))
    except LegalSatError:
        return program_of(cached_plan(operator, target, PRINTED_MEANS))


def relaid(target: Target, tensor: Tensor, first: str) -> Program:
    """Return the program that pads ("pad") or turns ("transpose") a product's operand, as its kernel has it."""
    return movement_of(Copy(tensor, laid_out(tensor, first)), target)
