"""Turns a plan into the numbers of a `CopyKernel` or a `VectorKernel`; every decision is already in the plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from legalsat.backends.triton.body import ROWS
from legalsat.backends.triton.kernel import CopyKernel, Operand
from legalsat.backends.triton.text import emit
from legalsat.backends.triton.threads import VECTOR_ROWS, Side, VectorKernel, emit_threads
from legalsat.errors import InvalidInput, LegalSatError
from legalsat.extract.moved.issued import issued_lines
from legalsat.extract.search.by_vectors import IN_REGISTERS
from legalsat.plans.movement_plan import MovementPlan, View
from legalsat.program.pipeline import Load, Operation, Vectors, Write, walk
from legalsat.rules.windows import COLUMNS
from legalsat.tensor import Tensor, plain
from legalsat.units.sites import SWIZZLE_SPANS
from legalsat.units.tensor_map import driver_value
from legalsat.view.margins import Margin

Kernel = TypeVar("Kernel", CopyKernel, VectorKernel)


def emit_triton(plan: MovementPlan) -> str:
    """Return a standalone Triton module whose `run(source, target=None)` executes the plan on torch tensors.

    Raises:
        LegalSatError: the plan's means of delivery have no kernel here.
        InvalidInput: as `kernel_of` and `vector_kernel_of`.
    """
    return emit_threads(vector_kernel_of(plan)) if plan.access.by in IN_REGISTERS else emit(kernel_of(plan))


def kernel_of(plan: MovementPlan) -> CopyKernel:
    """Return the kernel of a plan by boxes of one tensor map.

    Raises:
        LegalSatError: an operation of the plan's program has no row here.
        InvalidInput: the plan has a tile that is no power of two or has fewer words than a warp has lanes, words of 64
            bits, or memory that torch cannot describe.
    """
    _require_rows(plan)
    return _said_of(plan, _kernel)


def vector_kernel_of(plan: MovementPlan) -> VectorKernel:
    """Return the kernel of a plan by threads.

    Raises:
        LegalSatError: an operation of the plan's program has no row here.
        InvalidInput: the plan has a tile that is no power of two, or memory that torch cannot describe.
    """
    _require_rows(plan)
    return _said_of(plan, _vector_kernel)


def _require_rows(plan: MovementPlan) -> None:
    """Raise unless every operation of a plan's program has a row, here or where threads move all."""
    if plan.before:
        raise LegalSatError(
            "plan begins with a relayout of its source, and a kernel is one movement; emit plan.before[0], then what "
            "synthesize gives for its target"
        )
    lacking = next(filter(None, (_lacking(plan, op) for op in walk(plan.pipeline.roles[0].body))), "")
    if lacking:
        raise LegalSatError(f"triton has no row for {lacking} in a movement's program, and cute has one; emit that")


def _lacking(plan: MovementPlan, op: Operation) -> str:
    """Return an operation in words if it has no row."""
    name = type(op).__name__
    if isinstance(op, Load):
        several = "of columns by im2col" * (plan.access.by == COLUMNS) or "by several tensor maps" * bool(plan.phases)
        return f"{name} {several or 'of runs'}" if several or op.each else ""
    if isinstance(op, Vectors) and (plan.window is not None or plan.access.by == "fragments"):
        return f"{name} of {'fragments' if plan.window is None else 'windows that leave images'}"
    if isinstance(op, Write) and plan.access.by in IN_REGISTERS and plan.operator.reader is not None:
        return f"{name} of what {plan.operator.reader} reads"
    return "" if type(op) in (VECTOR_ROWS if plan.access.by in IN_REGISTERS else ROWS) else name


def _said_of(plan: MovementPlan, make: Callable[[MovementPlan], Kernel]) -> Kernel:
    """Return what `make` makes of a plan; what it refuses is said of the plan's operator."""
    try:
        return make(plan)
    except InvalidInput as error:
        raise InvalidInput(
            f"Triton cannot carry out the {plan.operator}: {error} (modes as in the plan's access, {plan.access})"
        ) from None


def _kernel(plan: MovementPlan) -> CopyKernel:
    access, word = plan.access, plan.access.word
    load, store = plan.views
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
        source_groups=_slowest_first(load),
        target_groups=_slowest_first(store) if plan.store == "tma" else None,
        swizzle_source=swizzles[0],
        swizzle_target=swizzles[-1] if plan.store == "tma" else 0,
        program=plan.pipeline,
        launch=plan.launch,
        margins=_margins(plan),
        notes=tuple(issued_lines(plan)),
    )


def _vector_kernel(plan: MovementPlan) -> VectorKernel:
    access, word = plan.access, plan.access.word
    load, store = (
        Side(
            groups=_slowest_first(view),
            stride=tuple(getattr(mode, view.side) // word for mode in access.modes),
            bytes=copy.bytes,
        )
        for view, copy in zip(plan.views, plan.copies, strict=True)
    )
    return VectorKernel(
        source=_operand(plan.operator.source),
        target=_operand(plan.operator.target),
        word_bits=word,
        extent=tuple(mode.extent for mode in access.modes),
        tile=tuple(mode.tile for mode in access.modes),
        load=load,
        store=store,
        warps=plan.launch.warps,
        fill=plan.operator.pattern,
        margins=_margins(plan),
    )


def _margins(plan: MovementPlan) -> tuple[Margin, ...]:
    return plan.operator.margins(plan.access) or ()


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
