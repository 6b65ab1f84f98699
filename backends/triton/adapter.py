"""Turns a plan into the numbers of a `CopyKernel`; every decision is already in the plan."""

from __future__ import annotations

from legalsat.backends.triton.kernel import CopyKernel, Operand
from legalsat.backends.triton.text import emit
from legalsat.errors import InvalidInput
from legalsat.plan import Plan, View
from legalsat.sites import SWIZZLE_SPANS
from legalsat.tensor import Tensor, plain
from legalsat.tensor_map import driver_value


def emit_triton(plan: Plan) -> str:
    """Return a standalone Gluon module whose `run(source, target=None)` executes the plan on torch tensors."""
    return emit(kernel_of(plan))


def kernel_of(plan: Plan) -> CopyKernel:
    """Return the kernel of a plan.

    Raises:
        InvalidInput: the plan has a tile that is no power of two or has fewer words than a warp has lanes, words of 64
            bits, or memory that torch cannot describe.
    """
    try:
        return _kernel(plan)
    except InvalidInput as error:
        raise InvalidInput(
            f"Triton cannot carry out the {plan.operator}: {error} (modes as in the plan's access, {plan.access})"
        ) from None


def _kernel(plan: Plan) -> CopyKernel:
    access, word = plan.access, plan.access.word
    views = {view.side: view for view in plan.views}
    swizzles = [
        SWIZZLE_SPANS[driver_value("swizzle", m.swizzle)] if m.swizzle != "none" else 0 for m in plan.tensor_maps
    ]
    return CopyKernel(
        source=_operand(plan.operator.source),
        target=_operand(plan.operator.target),
        word_bits=word,
        extent=tuple(mode.extent for mode in access.modes),
        tile=tuple(mode.tile for mode in access.modes),
        source_stride=tuple(mode.source // word for mode in access.modes),
        target_stride=tuple(mode.target // word for mode in access.modes),
        source_groups=_slowest_first(views["source"]),
        target_groups=_slowest_first(views["target"]) if "target" in views else None,
        swizzle_source=swizzles[0],
        swizzle_target=swizzles[-1] if plan.store == "tma" else 0,
        stages=plan.pipeline.stages,
        warps=plan.launch.warps,
        programs=plan.launch.programs,
    )


def _slowest_first(view: View) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(reversed(group)) for group in reversed(view.groups))


def _operand(tensor: Tensor) -> Operand:
    """Return the tensor as torch holds it: elements of whole bytes, or packed ones as bytes."""
    shape, strides, bits = plain(tensor.shape), plain(tensor.strides), tensor.dtype.bits
    if bits % 8 == 0:
        return Operand(shape, strides, bits // 8)
    fastest = next((axis for axis in range(len(shape)) if strides[axis] == 1 and shape[axis] > 1), None)
    others = [axis for axis in range(len(shape)) if axis != fastest and shape[axis] > 1]
    if fastest is None or shape[fastest] * bits % 8 or any(strides[a] * bits % 8 for a in others):
        raise InvalidInput(f"{tensor} has rows of {bits}-bit elements that do not fill whole bytes; pad its rows")
    return Operand(
        tuple(n * bits // 8 if a == fastest else n for a, n in enumerate(shape)),
        tuple(1 if a == fastest else s * bits // 8 for a, s in enumerate(strides)),
        1,
    )
