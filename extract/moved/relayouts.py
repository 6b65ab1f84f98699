"""What runs in front of a product: plans of movements that lay its operands out as its kernel reads them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from legalsat.diagnostics import Diagnostic
from legalsat.extract.cost.cost import among_others
from legalsat.extract.kernels.movement_pipeline import granules_pipeline
from legalsat.extract.kernels.product_maps import laid_out
from legalsat.operators import Copy
from legalsat.operators.gemm import Gemm
from legalsat.plans.gemm_plan import InFront
from legalsat.plans.movement_plan import MovementPlan
from legalsat.plans.product_kernel import ProductKernel
from legalsat.rules.granules import GRANULES, SPAN_LIMIT
from legalsat.targets import Target
from legalsat.tensor import Tensor, plain

MEANS = (GRANULES,)  # which products' kernels were fitted and measured with, and the cheapest
BY_WORDS = ("tma", "threads")  # for backends without rows for the leaves that move granules
RELAYOUTS = ("pad", "transpose")
COUNTED = SPAN_LIMIT // 4  # elements, of which there is a granule each at most, and as many more at a tile's ends


def relayouts_of(gemm: Gemm, kernel: ProductKernel, target: Target) -> Iterator[InFront]:
    """Yield what runs in front of a product's kernel, in the order of its operands.

    Args:
        gemm: the product.
        kernel: how it is computed.
        target: the GPU.

    Raises:
        NoLegalLayout: an operand is larger than what a relayout counts.
    """
    from legalsat.extract.search.planner import cached_plan  # noqa: PLC0415 - what runs where no solver is needs none

    others = False  # run in front at every call
    for name, first in zip(kernel.operands, kernel.relayouts, strict=True):
        if first != "none":
            tensor, constant = gemm.tensors[name], name == "B" and gemm.constant_b
            plan = cached_plan(Copy(tensor, laid_out(tensor, first)), target, kernel.means)
            plan = beside(plan) if others and not constant else plan
            yield InFront(name.lower(), plan, constant=constant, exchanged=first == "transpose")
            others = not constant


def beside(plan: MovementPlan) -> MovementPlan:
    """Return a movement that runs beside the one in front of it; itself where it does not move granules."""
    if plan.granules is None or not plan.target.dependent_launch:
        return plan
    granules = replace(plan.granules, beside=True)
    return replace(plan, granules=granules, pipeline=granules_pipeline(granules.kernel, beside=True))


def relaid_by_words(kernel: ProductKernel) -> ProductKernel:
    """Return a kernel whose relayouts travel by means that every backend of movements prints; itself without any."""
    return replace(kernel, means=BY_WORDS) if set(kernel.relayouts) & set(RELAYOUTS) else kernel


def ways_of(kernel: ProductKernel) -> tuple[ProductKernel, ...]:
    """Return a kernel by each way in which its relayouts may travel, the cheapest first; itself without any."""
    return tuple(dict.fromkeys((kernel, relaid_by_words(kernel))))


def relayout_times(gemm: Gemm, kernel: ProductKernel, target: Target) -> float:
    """Return the nanoseconds that relayouts in front of a kernel take at each call, as their plans say."""
    before = relayouts_of(gemm, kernel, target)
    return sum(nanoseconds_of(one) for one in before if not one.constant)


def nanoseconds_of(one: InFront) -> float:
    """Return what a relayout takes among other kernels, as its plan says."""
    return among_others(one.plan.cost.nanoseconds, exchanged=one.exchanged, beside=one.plan.beside)


def uncounted(tensor: Tensor, target: Target) -> dict[str, tuple[Diagnostic, ...]]:
    """Return what no kernel in front does to an operand, since it would count too far, and the rules that say so."""
    from legalsat.extract.search.planner import NoLegalLayout, cached_plan  # noqa: PLC0415 - as above

    found: dict[str, tuple[Diagnostic, ...]] = {}
    if math.prod(plain(tensor.shape)) < COUNTED:
        return found
    for first in RELAYOUTS:
        try:
            cached_plan(Copy(tensor, laid_out(tensor, first)), target, MEANS)
        except NoLegalLayout as error:
            found[first] = error.diagnostics
    return found
