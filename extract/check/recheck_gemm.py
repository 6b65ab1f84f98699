"""Checks the plan of a product again: its kernel, or its operands by rules and laws and all else as they imply."""

from __future__ import annotations

from dataclasses import fields

from legalsat.errors import LegalSatError
from legalsat.extract.blocks.pipelines import has_pipeline
from legalsat.extract.blocks.planner import finished, solved
from legalsat.extract.check.recheck import recheck
from legalsat.extract.kernels.contract import require_contract
from legalsat.extract.kernels.product_kernels import is_kernel
from legalsat.operators.gemm import readers_on
from legalsat.plans.block_plan import BlockPlan
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.plans.plan import InvalidPlan

FREE = ("candidates",)  # what else was considered says nothing about this plan


def recheck_gemm(plan: GemmPlan) -> None:
    """Raise `InvalidPlan` unless the plan's kernel is one of the product's, which any may be, as by measurement."""
    if plan.tiled is not None:
        if plan.target.wgmma is not None:
            raise InvalidPlan(f"{plan.target} has wgmma, whose products have kernels; synthesise the plan again")
        _recheck_block(plan.tiled)
    elif plan.kernel is None or not is_kernel(plan.operator, plan.kernel, plan.target):
        raise InvalidPlan(f"kernel {plan.kernel} is none that computes {plan.operator}; synthesise the plan again")
    else:
        require_contract(plan.pipeline, plan.target)


def _recheck_block(plan: BlockPlan) -> None:
    """Raise `InvalidPlan` unless every field of the plan is what its operands, its tile and its blocks imply."""
    operands = plan.operator.operands(plan.tile, readers_on(plan.target))
    plans = {"A": plan.a, "B": plan.b, "C": plan.c}
    for name, one in plans.items():
        if one.operator != operands[name] or one.target != plan.target:
            raise InvalidPlan(f"operand {name} is not that of {plan.operator} in such tiles; synthesise the plan again")
        recheck(one)
    try:
        found = [
            one for one in solved(plan.operator, plan.tile, plans, plan.target) if one.candidate.blocks == plan.blocks
        ]
    except LegalSatError as error:
        raise InvalidPlan(f"{error}; synthesise the plan again") from None
    if not found:
        raise InvalidPlan(f"{plan.blocks} blocks of this plan do not fit on a processor; synthesise the plan again")
    implied = finished(plan.operator, plan.target, found)
    for field in fields(BlockPlan):
        if field.name not in FREE and getattr(plan, field.name) != getattr(implied, field.name):
            raise InvalidPlan(f"{field.name} is not what the operands imply; synthesise the plan again")
    if has_pipeline(plan):
        require_contract(plan.pipeline, plan.target)
