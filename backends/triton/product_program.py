"""Products in Triton that run: the program of a plan, and its image by Triton's compiler, launched without Triton.

Extents are arguments, so products of one class have one text, which is compiled once a process, and found again in
Triton's own cache by others.
"""

from __future__ import annotations

import re
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from legalsat.backends.kernel_launch import dependent, launched, reads
from legalsat.backends.triton.compile import load_module
from legalsat.backends.triton.joined import joined
from legalsat.backends.triton.product import KERNEL, LANES, emit, operand_block, result_block
from legalsat.backends.triton.program import launched as as_compiled
from legalsat.backends.triton.program import tools_of
from legalsat.backends.triton.types import TYPES
from legalsat.errors import LegalSatError
from legalsat.extract.kernels.product_maps import (
    extents,
    grid_of,
    result_lies,
    result_map,
    source_maps,
)
from legalsat.extras import extra
from legalsat.operators.gemm import SCALES, Gemm
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.plans.product_kernel import WARPS, ProductKernel
from legalsat.runtime.program import (
    AddressArgument,
    Argument,
    Image,
    MapArgument,
    NumberArgument,
    Program,
    Recipe,
)
from legalsat.targets import Target
from legalsat.units.tensor_map import TensorMap

__all__ = ["emit_product", "image_of", "program_for", "program_of", "tools_of"]

_CLASSES = 64  # compiled and kept; a few hundred kilobytes each


def emit_product(plan: GemmPlan) -> str:
    """Return a standalone Triton module whose `run(a, b, c=None)` multiplies torch tensors of the plan's class.

    The class: element types, majors of A and B, how C lies. Extents are the kernel's arguments. Where the plan lays an
    operand out anew first, so does `run` with the one that it was made for; any other must lie as the kernel reads it.

    Raises:
        LegalSatError: an operation of the plan's program has no row here.
    """
    return joined(program_of(plan))


def program_of(plan: GemmPlan) -> Program:
    """Return the program of a plan, relayouts of its operands in front.

    Raises:
        LegalSatError: an operation of its program has no row here.
    """
    return program_for(plan.operator, plan.kernel, plan.target)


def described(operand: str, tm: TensorMap, size: int) -> list[Argument]:
    """Return what Triton passes of a tensor map: the map, its extents and its strides, slowest dimension first."""
    extents = [NumberArgument(extent, "i32") for extent in reversed(tm.global_dim)]
    strides = [*(stride // size for stride in reversed(tm.global_stride)), 1]
    return [MapArgument(operand, tm), *extents, *(NumberArgument(stride, "i64") for stride in strides)]


def program_for(gemm: Gemm, kernel: ProductKernel, target: Target) -> Program:
    """Return the program of a product computed by a kernel, relayouts of its operands in front.

    Raises:
        LegalSatError: an operation of the kernel's program has no row here, or as `launched`.
    """
    text, by_boxes, (a, b) = emit(gemm, kernel), kernel.store == "tma", reads(kernel)
    (m, n), size = extents(gemm, kernel), gemm.dtype.bytes
    arguments: list[Argument] = []
    for name, (placed,) in zip((a, b), source_maps(gemm, kernel), strict=True):
        arguments += described(name, placed.map, size)
    if by_boxes:
        (placed,) = result_map(gemm, kernel)
        arguments += described("c", placed.map, gemm.out_dtype.bytes)
    else:
        arguments.append(AddressArgument("c"))
    numbers = (m, n, gemm.k, *kernel.clusters(m, n), kernel.group)
    arguments += [NumberArgument(number, "i32") for number in numbers]
    arguments += [] if by_boxes else [NumberArgument(result_lies(gemm, kernel)[1], "i64")]
    arguments += [AddressArgument(name) for name in SCALES * bool(gemm.scaled)]
    # Triton says at the end how many threads there are, and what shared memory they take.
    grid, threads = (grid_of(gemm, kernel, target), 1, 1), LANES * WARPS
    recipe = Recipe(KERNEL, grid, threads, 0, tuple(arguments), dependent=dependent(gemm, kernel))
    signature = _signature(gemm, kernel)
    return launched(gemm, kernel, target, text, __name__, recipe, signature)


def _signature(gemm: Gemm, kernel: ProductKernel) -> tuple[str, ...]:
    """Return the types of the kernel's parameters; layouts are named as the module names them."""
    element, out = TYPES[gemm.dtype.name][0], TYPES[gemm.out_dtype.name][0]
    kinds = [f"tensordesc<{element}{operand_block(kernel, which)},{'AB'[which]}_LAYOUT>" for which in range(2)]
    by_boxes = kernel.store == "tma"
    kinds.append(f"tensordesc<{out}{result_block(gemm, kernel)},C_LAYOUT>" if by_boxes else f"*{out}")
    return (*kinds, *["i32"] * 6, *["i64"] * (not by_boxes), *["*fp32"] * (2 * bool(gemm.scaled)))


class _Compiled(NamedTuple):
    """PTX, cubin and metadata of a kernel."""

    ptx: str
    cubin: bytes
    metadata: dict[str, Any]


def image_of(program: Program) -> Image:
    """Compile a program with Triton; needs no GPU.

    Raises:
        LegalSatError: Triton's interpreter takes its compiler's place, or this Triton passes other parameters or
            expects other boxes than the plan has.
    """
    (recipe,) = program.recipes
    made = compiled(program.text, program.signature, program.architecture, recipe.threads // LANES)
    return Image(made.cubin, (as_compiled(recipe, made.ptx, made.metadata),))


@lru_cache(maxsize=_CLASSES)
def compiled(text: str, signature: tuple[str, ...], architecture: str, warps: int) -> _Compiled:
    """Return what Triton makes of the kernel of a module.

    Args:
        text: of the module.
        signature: as a program has it.
        architecture: such as "sm_90a".
        warps: that multiply.
    """
    triton = extra("triton", "triton")
    from triton.backends.compiler import GPUTarget  # noqa: PLC0415
    from triton.experimental.gluon._runtime import GluonASTSource  # noqa: PLC0415

    number = re.fullmatch(r"sm_(\d+)\D?", architecture)
    if number is None:
        raise LegalSatError(f"program is for {architecture}, which is no NVIDIA GPU; plan for another target")
    with tempfile.TemporaryDirectory() as folder:
        module = load_module(text, Path(folder))
        function = getattr(module, KERNEL)
        if not isinstance(function, triton.JITFunction):
            raise LegalSatError("TRITON_INTERPRET was 1 when Triton was imported, so it compiles nothing; unset it")
        kinds, known = {}, {}
        for place, (name, said) in enumerate(zip(function.arg_names, signature, strict=True)):
            kind, _, multiple = said.partition(":")
            kinds[name] = re.sub("[ABC]_LAYOUT", lambda found: repr(getattr(module, found[0])), kind)
            if multiple:
                known[place,] = [["tt.divisibility", int(multiple)]]
        source = GluonASTSource(function, kinds, {}, known)
        options = {"num_warps": warps, "enable_fp_fusion": False}
        made = triton.compile(source, target=GPUTarget("cuda", int(number[1]), LANES), options=options)
    return _Compiled(made.asm["ptx"], made.asm["cubin"], made.metadata._asdict())
