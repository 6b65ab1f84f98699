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

from legalsat.backends.relayouts import with_relayouts
from legalsat.backends.triton.compile import load_module
from legalsat.backends.triton.product import LANES, TYPES, ProductKernel, product_kernel_of
from legalsat.backends.triton.product_text import KERNEL, emit
from legalsat.backends.triton.program import launched, tools_of
from legalsat.errors import LegalSatError
from legalsat.extras import extra
from legalsat.plans.block_plan import BlockPlan
from legalsat.runtime.program import (
    AddressArgument,
    Argument,
    Image,
    MapArgument,
    NumberArgument,
    Operand,
    Program,
    Recipe,
    needed,
)
from legalsat.targets import GRANULE_BYTES
from legalsat.units.tensor_map import TensorMap

__all__ = ["image_of", "program_of", "tools_of"]

_CLASSES = 64  # compiled and kept; a few hundred kilobytes each


def program_of(plan: BlockPlan) -> Program:
    """Return the program of a plan, relayouts of its operands in front.

    Raises:
        LegalSatError: triton does not print this plan.
    """
    kernel, gemm = product_kernel_of(plan), plan.operator
    c = kernel.c
    arguments = [*_described("a", kernel.a.map, kernel.a.size), *_described("b", kernel.b.map, kernel.b.size)]
    arguments += _described("c", c.map, c.size) if c.map else [AddressArgument("c")]
    arguments += [NumberArgument(extent, "i32") for extent in (gemm.m, gemm.n, gemm.k)]
    if c.map is None:
        arguments.append(NumberArgument(c.pitch // c.vector, "i64"))
    made = Program(
        subject=str(gemm),
        architecture=plan.target.architecture,
        text=emit(kernel),
        operands=(
            Operand("a", needed(plan.a.source, GRANULE_BYTES)),
            Operand("b", needed(plan.b.source, GRANULE_BYTES)),
            Operand("c", needed(gemm.c, GRANULE_BYTES if c.map else c.size * c.vector)),
        ),
        # Triton says at the end how many threads there are, and what shared memory they take.
        recipes=(Recipe(KERNEL, (kernel.programs, 1, 1), LANES * kernel.warps, 0, tuple(arguments)),),
        signature=_signature(kernel),
        builder=__name__,
    )
    return with_relayouts(made, plan)


def _described(operand: str, tm: TensorMap, size: int) -> list[Argument]:
    """Return what Triton passes of a tensor map: the map, its extents and its strides, slowest dimension first."""
    extents = [NumberArgument(extent, "i32") for extent in reversed(tm.global_dim)]
    strides = [*(stride // size for stride in reversed(tm.global_stride)), 1]
    return [MapArgument(operand, tm), *extents, *(NumberArgument(stride, "i64") for stride in strides)]


def _signature(kernel: ProductKernel) -> tuple[str, ...]:
    """Return the types of the kernel's parameters; layouts are named as the module names them."""
    kinds = [
        f"tensordesc<{TYPES[one.type][0]}{list(one.block)},{side}_LAYOUT>"
        for side, one in (("A", kernel.a), ("B", kernel.b))
    ]
    c, name = kernel.c, TYPES[kernel.c.type][0]
    if c.map:
        return (*kinds, f"tensordesc<{name}{[kernel.tile[0], c.slice]},C_LAYOUT>", "i32", "i32", "i32")
    return (*kinds, f"*{name}:{c.size * c.vector}", "i32", "i32", "i32", "i64")


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
    return Image(made.cubin, (launched(recipe, made.ptx, made.metadata),))


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
