"""What runs in front of a product: plans of movements that lay its operands out as its kernel reads them."""

from __future__ import annotations

from collections.abc import Iterator

from legalsat.extract.kernels.product_maps import laid_out
from legalsat.operators import Copy
from legalsat.operators.gemm import Gemm
from legalsat.plans.gemm_plan import InFront
from legalsat.plans.product_kernel import ProductKernel
from legalsat.rules.granules import GRANULES
from legalsat.targets import Target

MEANS = (GRANULES,)  # which products' kernels were fitted and measured with


def relayouts_of(
    gemm: Gemm, kernel: ProductKernel, target: Target, means: tuple[str, ...] = MEANS
) -> Iterator[InFront]:
    """Yield what runs in front of a product's kernel, in the order of its operands.

    Args:
        gemm: the product.
        kernel: how it is computed.
        target: the GPU.
        means: by which operands may travel, for a backend that does not print every one.

    Raises:
        NoLegalLayout: an operand is larger than what a relayout counts.
    """
    from legalsat.extract.search.planner import cached_plan  # noqa: PLC0415 - what runs where no solver is needs none

    for name, first in zip(kernel.operands, kernel.relayouts, strict=True):
        if first != "none":
            tensor = gemm.tensors[name]
            plan = cached_plan(Copy(tensor, laid_out(tensor, first)), target, means)
            yield InFront(name.lower(), plan, constant=name == "B" and gemm.constant_b, exchanged=first == "transpose")
