"""What host code of any language says about tensor maps: enumerators, alignment, span and the words around them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from legalsat.backends import require_plan
from legalsat.dims import Open
from legalsat.errors import InvalidInput, LegalSatError
from legalsat.extract.moved.issued import issued_lines
from legalsat.logic import ceil_div
from legalsat.plans.movement_plan import MovementPlan
from legalsat.printable import shown
from legalsat.units.driver_arguments import ENUMERATORS
from legalsat.units.tensor_map import TensorMap, driver_value

# FACTS M-19, as in CUTLASS: drivers up to this version (13.1) may leave the bit set in maps of smaller tensors.
LAST_QUIRKY_DRIVER = 13010
SMALL_SPAN = 128 * 1024
QUIRK_BIT = 21
"""Of the second 64-bit word of an encoded map."""

_SLICE_BYTES = {"16B": 16, "32B": 32}


def enumerator(tm: TensorMap, field: str) -> str:
    """Return cuda.h's name for the value of an enum field of `tm`; raises `InvalidInput` if cuda.h has none."""
    known = ENUMERATORS[field]
    value = driver_value(field, getattr(tm, field))
    if value >= len(known):
        raise InvalidInput(f"{field} {value} has no name in cuda.h; give 0 to {len(known) - 1}")
    return known[value]


def alignment(tm: TensorMap) -> int:
    """Return the bytes that the encode call wants the tensor's address to be a multiple of (rules TMA004, TMA031)."""
    wide = tm.interleave == "32B" or tm.dtype in {"16u4_align16b", "16u6_align16b"}
    return 32 if wide else 16


def span_bytes(tm: TensorMap) -> Any:
    """Return the bytes from the tensor's first to its last, both included; a formula in a map of an open plan."""
    # With interleave, dimension 0 counts slices (measured; see legalsat.analyses.copy_engine).
    bits = 8 * _SLICE_BYTES[str(tm.interleave)] if tm.interleave in _SLICE_BYTES else tm.map_type.bits
    last = sum((n - 1) * 8 * s for n, s in zip(tm.global_dim[1:], tm.global_stride, strict=True))
    return ceil_div(tm.global_dim[0] * bits + last, 8)


def require_encodable(tm: TensorMap, name: str) -> None:
    """Raise `InvalidInput` unless the call for `tm` can be written down and `name` can be part of an identifier.

    Whether the driver accepts the call is for `legalsat.violations` to say.
    """
    if not isinstance(tm, TensorMap):
        raise InvalidInput(f"tensor map is {type(tm).__name__}; give a TensorMap")
    least = 1 if tm.mode == "tiled" else 3
    if not least <= tm.rank <= 5:
        raise InvalidInput(f"{tm.mode} map has {tm.rank} dimensions; give {least} to 5")
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9]+(_[A-Za-z0-9]+)*", name):
        raise InvalidInput(f"name is {shown(name)}; give ASCII letters, digits and single underscores between them")


def named_maps(plan: MovementPlan) -> Iterator[tuple[TensorMap, str]]:
    """Yield the plan's tensor maps with their names, "source" and "target".

    Raises:
        LegalSatError: the plan has no tensor maps or one for each of several phases.
    """
    require_plan(plan, MovementPlan)
    if not plan.tensor_maps:
        raise LegalSatError(
            f"plan by {plan.access.by} needs no tensor maps, so there is nothing for the host to encode"
        )
    if plan.phases:
        raise LegalSatError(
            f"plan by {plan.access.by} has a tensor map for each of {len(plan.phases)} phases, and the host backends "
            "encode one a side; ask synthesize for means=('tma',)"
        )
    for view, tm in zip(plan.views, plan.tensor_maps, strict=False):
        yield tm, view.side


def plan_lines(plan: MovementPlan) -> list[str]:
    """Return what the host code of a plan begins with: what it is for, and what the kernel beside it must agree on."""
    lines = [f"Tensor maps for: {plan.operator}, on {plan.target}", ""]
    for buffer in plan.shared:
        shape = " x ".join(map(str, buffer.shape))
        boxes, stages = _count(buffer.boxes, "box", "boxes"), _count(buffer.stages, "stage", "stages")
        lines += [
            f"{buffer.name} buffer: {shape} words of {buffer.word} bits, {boxes}, swizzle {buffer.swizzle}",
            f"    {stages} of {buffer.bytes} bytes, at multiples of {buffer.alignment} bytes",
        ]
    for barrier in plan.pipeline.barriers:
        arrivals = _count(barrier.arrivals, "arrival", "arrivals")
        lines.append(f"{barrier.name} barrier: {arrivals} and {barrier.transaction_bytes} bytes a phase")
    lines.append(f"shared memory of a block: {plan.cost.shared_bytes} bytes")
    lines += issued_lines(plan)
    if plan.store == "threads":
        lines.append("target: stored by threads, since no tensor map describes it")
    return lines


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def map_lines(tm: TensorMap) -> list[str]:
    """Return what a tensor map is, as a table of its dimensions and a line of its options."""
    rows = [
        ("dimension", range(tm.rank)),
        ("extent, elements", tm.global_dim),
        ("stride, bytes", (f"{tm.map_type.bits / 8:g}", *tm.global_stride)),
        *([("box, elements", tm.box)] if tm.mode == "tiled" else []),
        ("step, elements", tm.element_stride),
    ]
    cells = [[label, *map(str, values)] for label, values in rows]
    label, *widths = (max(map(len, column)) for column in zip(*cells, strict=True))
    lines = [
        f"    {row[0]:<{label}}" + "".join(f"  {cell:>{width}}" for cell, width in zip(row[1:], widths, strict=True))
        for row in cells
    ]
    lines[0] += "    (fastest first)"
    if tm.mode == "im2col":
        corners = f"{_tuple(tm.lower_corner)} to {_tuple(tm.upper_corner)}, fastest first"
        lines.append(f"    {tm.channels} channels of {tm.pixels} pixels, pixel box corners {corners}")
    lines.append(
        f"    swizzle {tm.swizzle}, interleave {tm.interleave}, L2 promotion {tm.l2_promotion}, "
        f"elements outside {tm.oob_fill}"
    )
    return lines


def _tuple(numbers: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, numbers))})"


def may_be_small(tm: TensorMap) -> bool:
    """Whether the driver may set the bit that is to be cleared, which only those do who span little."""
    span = span_bytes(tm)
    return isinstance(span, Open) or bool(span < SMALL_SPAN)


def quirk_lines(tm: TensorMap) -> list[str]:
    """Return why a map's bit is cleared, for a comment."""
    span = span_bytes(tm)
    of = "Such a tensor spans" if isinstance(span, Open) else f"The tensor spans {span} bytes,"
    return [
        f"{of} less than 128 KiB. Drivers up to 13.1 may set a bit of such a",
        "map on which Blackwell faults if the tensor is not dense; CUTLASS and Triton clear it too.",
    ]


def require_closed(tm: TensorMap) -> None:
    """Raise `InvalidInput` where a map's extents are open: what they may be is for a plan to say."""
    if isinstance(tm, TensorMap) and tm.dims:
        names = ", ".join(dim.name for dim in tm.dims)
        raise InvalidInput(f"tensor map is open in {names}; emit its plan, or give a map whose extents are numbers")
