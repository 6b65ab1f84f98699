"""Checks the plan of a product again: its kernel is one of the product's, and its program keeps the contract."""

from __future__ import annotations

from legalsat.extract.kernels.contract import require_contract
from legalsat.extract.kernels.product_kernels import is_kernel
from legalsat.plans.codec import InvalidPlan
from legalsat.plans.gemm_plan import GemmPlan


def recheck_gemm(plan: GemmPlan) -> None:
    """Raise `InvalidPlan` unless the plan's kernel is one of the product's, which any may be, as by measurement."""
    if not is_kernel(plan.operator, plan.kernel, plan.target):
        raise InvalidPlan(f"kernel {plan.kernel} is none that computes {plan.operator}; synthesise the plan again")
    require_contract(plan.pipeline, plan.target)
