"""Products that run: the program of a kernel in CUDA C++, and its image by nvcc."""

from __future__ import annotations

from legalsat.backends.cute.compile import image_of, tools_of
from legalsat.backends.cute.cuda_file import cuda_file
from legalsat.backends.cute.product import ENTRY, emit
from legalsat.backends.cute.relayout import matrix_relayout
from legalsat.backends.cute.self_test import self_test
from legalsat.errors import LegalSatError
from legalsat.extract.kernels.product_maps import (
    Placed,
    extents,
    grid_of,
    laid,
    laid_out,
    result_lies,
    result_map,
    sides,
    source_maps,
)
from legalsat.operators.gemm import Gemm
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.plans.product_kernel import ProductKernel
from legalsat.runtime.program import (
    AddressArgument,
    Argument,
    MapArgument,
    MapsArgument,
    NumberArgument,
    Operand,
    Program,
    Recipe,
    Relayout,
    needed,
)
from legalsat.targets import GRANULE_BYTES, Target
from legalsat.tensor import Tensor

__all__ = ["emit_product", "image_of", "program_for", "program_of", "tools_of"]

SCALES = ("scale_a", "scale_b")
SCALE = Tensor((), "fp32", align=4)


def program_of(plan: GemmPlan) -> Program:
    """Return the program of a plan's persistent kernel.

    Raises:
        LegalSatError: the plan has none.
    """
    if plan.kernel is None:
        raise LegalSatError(
            f"cute prints products on wgmma; {plan.operator} on {plan.target} has no such kernel: name a target with "
            "wgmma, and types that it multiplies"
        )
    return program_for(plan.operator, plan.kernel, plan.target)


def program_for(gemm: Gemm, kernel: ProductKernel, target: Target) -> Program:
    """Return the program of a product computed by a kernel, relayouts of its operands in front.

    Raises:
        LegalSatError: the kernel stores a tile during more stages of the next than the product's k has, or splits k
            among more blocks.
    """
    least = kernel.least_k_tiles  # with less some block would multiply what nobody loads
    if -(-gemm.k // kernel.tile[2]) < least:
        raise LegalSatError(
            f"{kernel} takes tiles of {least} stages along k at least, which {gemm} has not; take one of "
            "the kernels that legalsat.synthesize finds for it"
        )
    names = kernel.operands[0].lower(), kernel.operands[1].lower()
    before = tuple(
        Relayout(name, _relayout(tensor, first, target), constant=name == "b" and gemm.constant_b)
        for name, tensor, first in zip(names, sides(gemm, kernel), kernel.relayouts, strict=True)
        if first != "none"
    )
    c_by_map = kernel.store == "tma"
    return Program(
        subject=str(gemm),
        architecture=target.architecture,
        text=emit(gemm, kernel),
        operands=(
            Operand("a", needed(gemm.a, GRANULE_BYTES)),
            Operand("b", needed(gemm.b, GRANULE_BYTES)),
            *(Operand(name, SCALE) for name in (SCALES if gemm.scaled else ())),
            Operand("c", needed(gemm.c, GRANULE_BYTES if c_by_map else gemm.c.dtype.bytes)),
        ),
        recipes=(_recipe(gemm, kernel, target, names),),
        before=before,
        builder=__name__,
    )


def emit_product(plan: GemmPlan) -> str:
    """Return the file of a plan's persistent kernel, with relayouts in front and what launches it.

    Raises:
        LegalSatError: the plan has none.
    """
    program = program_of(plan)
    prepares = any(one.constant for one in program.before)
    test = self_test(plan.operator, program, prepares=prepares)
    return cuda_file(program, f"{program.subject}, on {plan.target}: {plan.kernel}", "product", test)


def _relayout(tensor: Tensor, first: str, target: Target) -> Program:
    """Return the program that lays a matrix out with lines in a pitch of whole granules."""
    text, recipe = matrix_relayout(tensor, first, "source", "target", laid(tensor, first).pitch)
    return Program(
        subject=f"{first} of {tensor}",
        architecture=target.architecture,
        text=text,
        operands=(Operand("source", needed(tensor, GRANULE_BYTES)), Operand("target", laid_out(tensor, first))),
        recipes=(recipe,),
        builder=__name__,
    )


def _recipe(gemm: Gemm, kernel: ProductKernel, target: Target, reads: tuple[str, str]) -> Recipe:
    m, n = extents(gemm, kernel)
    tiles_m, tiles_n = kernel.clusters(m, n)
    of_a, of_b = source_maps(gemm, kernel)
    of_c = result_map(gemm, kernel) if kernel.store == "tma" else of_b[:1]  # which is not read
    if kernel.realign == "tiles" and kernel.store != "tma":
        of_c = of_b[:1] * kernel.phases
    first = laid(sides(gemm, kernel)[0], kernel.relayouts[0])
    _, c_pitch = result_lies(gemm, kernel)
    arguments: tuple[Argument, ...] = (
        MapsArgument(
            (*_maps(reads[0], of_a), *_maps(reads[1], of_b), *_maps("c" if kernel.store == "tma" else reads[1], of_c))
        ),
        *(NumberArgument(number, "i32") for number in (m, n, gemm.k, tiles_m, tiles_n, kernel.group)),
        AddressArgument(reads[0]),
        NumberArgument(first.pitch, "i64"),
        AddressArgument("c"),
        NumberArgument(c_pitch, "i64"),
        *(AddressArgument(name) if gemm.scaled else NumberArgument(0, "u64") for name in SCALES),
    )
    return Recipe(
        ENTRY,
        (grid_of(gemm, kernel, target), 1, 1),
        kernel.threads,
        kernel.shared_bytes,
        arguments,
        cluster=(kernel.cluster_blocks, 1, 1),
        dependent=any(first != "none" for first in kernel.relayouts),
    )


def _maps(name: str, placed: list[Placed]) -> tuple[MapArgument, ...]:
    return tuple(MapArgument(name, one.map, one.offset) for one in placed)
