"""The plan of a product: the kernel that is predicted to be fastest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TypeAlias

from legalsat.errors import LegalSatError
from legalsat.extract.cost.kernel_cost import kernel_cost
from legalsat.extract.kernels.contract import require_contract
from legalsat.extract.kernels.product_class import class_of, refusals_of
from legalsat.extract.kernels.product_kernels import best_kernel, each_kernel
from legalsat.extract.moved.relayouts import uncounted, ways_of
from legalsat.extract.search.planner import BOXES, NoLegalLayout, cached_plan
from legalsat.operators.gemm import Gemm, judged_operands
from legalsat.plans.gemm_plan import GemmCandidate, GemmPlan
from legalsat.plans.product_kernel import ProductKernel
from legalsat.targets import Target

Refusal: TypeAlias = Callable[[Gemm, ProductKernel], str]


def gemm_plan(operator: Gemm, target: Target, refusal: Refusal | None = None) -> GemmPlan:
    """Return the plan of a product: the kernel that is predicted to be fastest.

    Args:
        operator: the product.
        target: the GPU.
        refusal: says why a kernel may not be taken, "" where it may; every kernel may be when left out.

    Raises:
        NoLegalLayout: the target multiplies no such types, or by no unit that kernels are for, or no kernel reads such
            operands.
        LegalSatError: there are kernels, and none may be taken.
    """
    broken = refusals_of(operator, target)
    if broken:
        raise NoLegalLayout(f"no legal {operator} on {target}", broken)
    kernel = best_kernel(operator, target) if refusal is None else _first(operator, target, refusal)
    if kernel is None:
        raise _without_kernels(operator, target)
    plan = GemmPlan(operator, target, kernel)
    require_contract(plan.pipeline, target)
    return plan


def _without_kernels(operator: Gemm, target: Target) -> LegalSatError:
    """Return why a product has no kernel."""
    for name in "AB" if class_of(operator, target) is not None else "":
        if said := [d for found in uncounted(operator.tensors[name], target).values() for d in found]:
            title = f"no legal {operator} on {target}: operand {name} is too large to be laid out anew"
            return NoLegalLayout(title, tuple(said[:1]))
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
    """Return the cheapest kernel that may be taken; None where there are no kernels.

    Relayouts in front travel by granules, or by words where a kernel may not be taken so, which takes longer.
    """
    said: dict[str, None] = {}
    best: tuple[float, ProductKernel] | None = None
    for time, kernel in each_kernel(operator, target):
        if best is not None and best[0] <= time:
            break
        for one in ways_of(kernel):
            if why := refusal(operator, one):
                said[why] = None
                continue
            own = time if one is kernel else kernel_cost(operator, one, target).nanoseconds
            best = (own, one) if best is None or own < best[0] else best
            break
    if best is not None:
        return best[1]
    if said:
        raise LegalSatError(
            f"none of {len(said)} kernels of {operator} may be taken, the cheapest since {next(iter(said))}"
        )
    return None


def candidates_of(plan: GemmPlan) -> Iterator[GemmCandidate]:
    """Yield all kernels of a plan's product, cheapest first."""
    for _, kernel in each_kernel(plan.typical, plan.target):
        cost = kernel_cost(plan.typical, kernel, plan.target)
        yield GemmCandidate(str(kernel), kernel.tile, kernel.stages, kernel.blocks, kernel, cost)


@lru_cache(maxsize=256)
def cached_gemm_plan(operator: Gemm, target: Target, refusal: Refusal | None = None) -> GemmPlan:
    """Return `gemm_plan(operator, target, refusal)`, remembered."""
    return gemm_plan(operator, target, refusal)
