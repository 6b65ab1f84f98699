"""What runs in a program's plan, and what it costs: a product by its kernel, a pass over a matrix as one before it.

A pass between products takes what relayouts in front of products were measured to take, at least: its launch and its
share of the bandwidth stand in for what its own plan says of it alone.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, TypeAlias

from legalsat.extract.cost.cost import NOMINAL, among_others, exchanges, relayout_nanoseconds
from legalsat.extract.cost.kernel_cost import Products, least_times
from legalsat.extract.cost.matrices import crossed
from legalsat.extract.kernels.joint import cached_gemm_plan
from legalsat.extract.kernels.product_kernels import best_kernels, multiplied
from legalsat.extract.search.planner import NoLegalLayout, cached_plan
from legalsat.operators import PRODUCT
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.plans.movement_plan import MovementPlan
from legalsat.recent import Recent
from legalsat.targets import Target

Work: TypeAlias = Any  # a Gemm, a Copy or a Pad, of which `term` says what plans it
StepPlan: TypeAlias = GemmPlan | MovementPlan


def planned(work: Work, target: Target) -> StepPlan:
    """Return the plan of what runs; raises `NoLegalLayout` where there is none."""
    return cached_gemm_plan(work, target) if work.term == PRODUCT else cached_plan(work, target)


def nanoseconds_of(plan: StepPlan) -> float:
    """Return what a step is predicted to take among others."""
    if isinstance(plan, GemmPlan):
        return plan.cost.nanoseconds
    return among_others(plan.cost.nanoseconds, exchanged=exchanges(plan.operator))


_COSTS: Recent[float | None] = Recent(16384)


def cost_of(work: Work, target: Target) -> float | None:
    """Return what `nanoseconds_of` says of a work's plan, None where there is none; no program is built or proven."""
    return _COSTS.answer(_key(work, target), lambda: _cost_of(work, target))


def _key(work: Work, target: Target) -> Hashable:
    """Return what a cost hangs on: of a product its class and extents, and how rows lie in lines."""
    if work.term == PRODUCT and (one := multiplied(work, target)) is not None:
        lines = tuple(crossed(tensor) for tensor in work.tensors.values())
        return one, lines, work.m, work.n, work.k, work.constant_b, target
    return work, target


def _cost_of(work: Work, target: Target) -> float | None:
    try:
        if work.term == PRODUCT and multiplied(work, target) is not None:
            (found,) = best_kernels([work], target)
            if found is not None:
                return round(found[0], 1)
        return nanoseconds_of(planned(work, target))
    except NoLegalLayout:
        return None


def least_of(work: Work, target: Target) -> float:
    """Return nanoseconds that no plan of a work is below."""
    moved: int = sum(one.size * one.dtype.bytes for one in work.tensors.values())
    if work.term == PRODUCT:
        if multiplied(work, target) is None:
            return 0.0  # which no kernel computes, and rules say so
        return max(0.0, float(least_times(Products.of([work], target), (False, False), target)[0]))
    return float(relayout_nanoseconds(moved, (target.device or NOMINAL).memory_bandwidth / 1e9)) - 1.0
