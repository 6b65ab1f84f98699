"""The plan of a product: the cheapest kernel on wgmma, or a block planned operand by operand on GPUs without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TypeAlias

from legalsat.errors import LegalSatError
from legalsat.extract.blocks.planner import cached_block_plan
from legalsat.extract.cost.kernel_cost import kernel_cost
from legalsat.extract.kernels.contract import require_contract
from legalsat.extract.kernels.product_class import types_of
from legalsat.extract.kernels.product_kernels import best_kernel, each_kernel
from legalsat.extract.search.planner import BOXES, NoLegalLayout, cached_plan
from legalsat.operators.gemm import Gemm, judged_operands
from legalsat.plans.gemm_plan import GemmCandidate, GemmPlan
from legalsat.plans.product_kernel import ProductKernel
from legalsat.rules import PRODUCT_RULES
from legalsat.targets import Target

Refusal: TypeAlias = Callable[[Gemm, ProductKernel], str]


def gemm_plan(operator: Gemm, target: Target, refusal: Refusal | None = None) -> GemmPlan:
    """Return the plan of a product: the kernel that is predicted to be fastest, or a block's where there is no wgmma.

    Args:
        operator: the product.
        target: the GPU.
        refusal: says why a kernel may not be taken, "" where it may; every kernel may be when left out.

    Raises:
        NoLegalLayout: the target multiplies no such types, no kernel reads such operands, or no tile has a legal plan
            for all three.
        LegalSatError: there are kernels, and none may be taken.
    """
    broken = tuple(d for rule in PRODUCT_RULES for d in rule.check(types_of(operator), target))
    if broken:
        raise NoLegalLayout(f"no legal {operator} on {target}", broken)
    if target.wgmma is None:
        if operator.members.extents:
            raise LegalSatError(f"{target} has kernels of single products alone; plan one of {operator}, or for h200")
        return GemmPlan(operator, target, None, cached_block_plan(operator, target))
    kernel = best_kernel(operator, target) if refusal is None else _first(operator, target, refusal)
    if kernel is None:
        raise _without_kernels(operator, target)
    plan = GemmPlan(operator, target, kernel)
    require_contract(plan.pipeline, target)
    return plan


def _without_kernels(operator: Gemm, target: Target) -> LegalSatError:
    """Return why a product has no kernel on wgmma."""
    if operator.members.extents:
        return LegalSatError(
            f"{operator} on {target} has no kernel: each element of a matrix must lie at a multiple of its size, and "
            "those of C side by side along some axis unless the batch is of two axes; plan one product at a time"
        )
    for name, copy in judged_operands(operator, target).items():
        try:
            cached_plan(copy, target, BOXES)
        except NoLegalLayout as error:
            return NoLegalLayout(f"no legal {operator} on {target}: operand {name}, {error.title}", error.diagnostics)
    return NoLegalLayout(f"no kernel of {operator} fits {target}", ())


def _first(operator: Gemm, target: Target, refusal: Refusal) -> ProductKernel | None:
    """Return the cheapest kernel that may be taken; None where there are no kernels."""
    said: dict[str, None] = {}
    for _, kernel in each_kernel(operator, target):
        why = refusal(operator, kernel)
        if not why:
            return kernel
        said[why] = None
    if said:
        raise LegalSatError(
            f"none of {len(said)} kernels of {operator} may be taken, the cheapest since {next(iter(said))}"
        )
    return None


def candidates_of(plan: GemmPlan) -> Iterator[GemmCandidate]:
    """Yield all kernels of a plan's product, or its best tiles where there are none, cheapest first."""
    if plan.tiled is not None:
        for one in plan.tiled.candidates:
            name = f"{'x'.join(map(str, one.tile))}, {one.stages} stages"
            yield GemmCandidate(name, one.tile, one.stages, one.blocks, None, one.cost)
    else:
        for _, kernel in each_kernel(plan.typical, plan.target):
            cost = kernel_cost(plan.typical, kernel, plan.target)
            yield GemmCandidate(str(kernel), kernel.tile, kernel.stages, kernel.blocks, kernel, cost)


@lru_cache(maxsize=256)
def cached_gemm_plan(operator: Gemm, target: Target, refusal: Refusal | None = None) -> GemmPlan:
    """Return `gemm_plan(operator, target, refusal)`, remembered."""
    return gemm_plan(operator, target, refusal)
