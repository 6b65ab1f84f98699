"""PTX that runs: the program of a product's plan, and its image by ptxas, or by the driver where there is no ptxas.

Kernels are launched as those of backend cute are, and so is what lays operands out anew in front.
"""

from __future__ import annotations

import subprocess
from functools import lru_cache

from legalsat.backends.kernel_launch import launch_lines, launched
from legalsat.backends.ptx.added import emit as emit_added
from legalsat.backends.ptx.assemble import AssemblyFailed, assemble, tool_for
from legalsat.backends.ptx.persistent import emit
from legalsat.extract.kernels.slices import added_of
from legalsat.operators.gemm import Gemm
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.plans.product_kernel import ProductKernel
from legalsat.runtime.program import Image, Program
from legalsat.targets import Target

BY_THE_DRIVER = "the driver"


def program_of(plan: GemmPlan) -> Program:
    """Return the program of a plan, relayouts of its operands in front.

    Raises:
        LegalSatError: ptx does not print this plan.
    """
    return program_for(plan.operator, plan.kernel, plan.target)


def program_for(gemm: Gemm, kernel: ProductKernel, target: Target) -> Program:
    """Return the program of a product computed by a kernel, relayouts of its operands in front.

    Raises:
        LegalSatError: as `launched`, or an operation of its program has no row.
    """
    added = added_of(gemm, kernel)
    text = emit(gemm, kernel, target.architecture) + ("" if added is None else emit_added(added))
    return launched(gemm, kernel, target, text, __name__)


def emit_product(plan: GemmPlan) -> str:
    """Return the text of a plan's kernel, with how it is launched.

    Raises:
        LegalSatError: ptx does not print this plan.
    """
    program = program_of(plan)
    lines = [f"{program.subject}, on {plan.target}: {plan.kernel}", "", *launch_lines(program)]
    for one in program.before:
        strides = one.program.operands[-1].tensor.strides
        lines += ["", f"{one.operand} must have been copied first, to strides of {strides} elements."]
    return "\n".join([*(f"// {line}".rstrip() for line in lines), program.text])


def tools_of(program: Program) -> str:
    """Return what makes the image: ptxas with its version, or the driver."""
    return _said_by(program.architecture)


def image_of(program: Program) -> Image:
    """Return the cubin; where no ptxas is installed the text, which the driver then assembles.

    Raises:
        AssemblyFailed: ptxas refuses the text.
    """
    if tools_of(program) == BY_THE_DRIVER:
        return Image(program.text.encode(), program.recipes)
    return Image(assemble(program.text, program.architecture), program.recipes)


@lru_cache
def _said_by(architecture: str) -> str:
    try:
        tool = tool_for(architecture)
    except AssemblyFailed:
        return BY_THE_DRIVER
    return subprocess.run([tool, "--version"], capture_output=True, text=True, check=False).stdout.strip()
