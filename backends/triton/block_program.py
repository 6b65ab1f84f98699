"""Products in Triton that are planned operand by operand: the program of a `BlockPlan`.

Extents are arguments, so products of one class have one text, which is compiled once a process, and found again in
Triton's own cache by others.
"""

from __future__ import annotations

from legalsat.backends.relayouts import with_relayouts
from legalsat.backends.triton.block import LANES, ProductKernel, product_kernel_of
from legalsat.backends.triton.block_text import KERNEL, emit
from legalsat.backends.triton.types import TYPES
from legalsat.extract.moved.relayouts import relayouts_of_block
from legalsat.plans.block_plan import BlockPlan
from legalsat.runtime.program import (
    AddressArgument,
    Argument,
    MapArgument,
    NumberArgument,
    Operand,
    Program,
    Recipe,
    needed,
)
from legalsat.targets import GRANULE_BYTES
from legalsat.units.tensor_map import TensorMap


def block_program(plan: BlockPlan, builder: str) -> Program:
    """Return the program of a plan, relayouts of its operands in front.

    Args:
        plan: the product's.
        builder: the module that makes images of it.

    Raises:
        LegalSatError: triton does not print this plan.
    """
    kernel, gemm = product_kernel_of(plan), plan.operator
    c = kernel.c
    arguments = [*described("a", kernel.a.map, kernel.a.size), *described("b", kernel.b.map, kernel.b.size)]
    arguments += described("c", c.map, c.size) if c.map else [AddressArgument("c")]
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
        builder=builder,
    )
    return with_relayouts(made, relayouts_of_block(plan))


def described(operand: str, tm: TensorMap, size: int) -> list[Argument]:
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
