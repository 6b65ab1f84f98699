"""Products that run: the program of a kernel in CUDA C++, and its image by nvcc."""

from __future__ import annotations

from legalsat.backends import program
from legalsat.backends.cute.added import emit as emit_added
from legalsat.backends.cute.compile import APART, at_hand, image_of, tools_of
from legalsat.backends.cute.cuda_file import cuda_file
from legalsat.backends.cute.product import emit
from legalsat.backends.cute.self_test import self_test
from legalsat.backends.kernel_launch import launched
from legalsat.extract.kernels.slices import added_of
from legalsat.operators.gemm import Gemm
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.plans.product_kernel import ProductKernel
from legalsat.runtime.program import Program
from legalsat.targets import Target

__all__ = ["APART", "at_hand", "emit_product", "image_of", "program_for", "program_of", "tools_of"]


def program_of(plan: GemmPlan) -> Program:
    """Return the program of a plan's persistent kernel.

    Raises:
        LegalSatError: an operation of its program has no row here.
    """
    return program_for(plan.operator, plan.kernel, plan.target)


def program_for(gemm: Gemm, kernel: ProductKernel, target: Target) -> Program:
    """Return the program of a product computed by a kernel, relayouts of its operands in front.

    Raises:
        LegalSatError: as `launched`, or an operation of its program has no row here.
    """
    added = added_of(gemm, kernel)
    text = emit(gemm, kernel) + ("" if added is None else emit_added(added))
    return launched(gemm, kernel, target, text, __name__)


def emit_product(plan: GemmPlan) -> str:
    """Return the file of a plan's persistent kernel, with relayouts in front and what launches it.

    Raises:
        LegalSatError: an operation of its program has no row here.
    """
    made = program(plan, "cute")
    test = self_test(plan.operator, made)
    return cuda_file(made, f"{made.subject}, on {plan.target}: {plan.kernel}", "product", test)
