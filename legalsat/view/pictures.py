"""Which pictures fit a subject: a tensor map's box and shared memory, a tensor's rows, a layout's grid."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from legalsat.dims import typical_of
from legalsat.errors import InvalidInput
from legalsat.explanation import Explanation
from legalsat.layout import Layout
from legalsat.layout.linear_layout import LinearLayout
from legalsat.layout.swizzle import ComposedLayout
from legalsat.operators import Move
from legalsat.options import SwizzleName
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.plans.movement_plan import MovementPlan
from legalsat.plans.program_plan import ProgramPlan
from legalsat.targets import Target
from legalsat.targets import target as as_target
from legalsat.tensor import Tensor, plain
from legalsat.units.tensor_copy import TensorCopy
from legalsat.units.tensor_map import TensorMap
from legalsat.view.pictures_box import draw_box, draw_pixels, draw_rows, granule_bytes
from legalsat.view.pictures_grid import draw_layout, draw_owners
from legalsat.view.pictures_shared import column_read, draw_shared, shared_places
from legalsat.view.show import map_sides

_SPANS: dict[int, SwizzleName] = {32: "32B", 64: "64B", 128: "128B"}  # bytes of a row that a swizzle is made for
_BOX_BYTES, _BOX_ROWS = 128, 64  # of the box that stands for any, where a tensor alone is drawn
_MOST_RANK = 5
_ROWS = "where rows start"


class Picture(NamedTuple):
    """A picture as SVG, and what it shows."""

    caption: str
    svg: str


def pictures_of(subject: Any, target: str | Target = "h200") -> list[Picture]:
    """Return the pictures that fit a subject; none where nothing about it can be drawn.

    Args:
        subject: a tensor map, a copy by one, a tensor, an operator, a plan, a layout, or an explanation of these.
        target: the GPU whose banks of shared memory count.
    """
    gpu = as_target(target)
    for types, drawn in _KINDS:
        if isinstance(subject, types):
            return drawn(subject, gpu)
    return []


def _of_explanation(found: Explanation, gpu: Target) -> list[Picture]:
    """Return the subject's pictures, and where the rows start after the first repair that moves them."""
    if found.parts:
        named = [(part.subject.partition(":")[0], _of_part(part, gpu)) for part in found.parts]
        return _alike((name, picture) for name, drawn in named for picture in drawn)
    if found.plan is not None and found.plan.tensor_maps and found.legal:
        return pictures_of(found.plan, gpu)
    drawn = pictures_of(found.of, gpu)
    before = _map_of(found.of)
    if before is None or not drawn or drawn[0].caption != _ROWS:
        return drawn
    repaired = [(number, _map_of(repair.after)) for number, repair in enumerate(found.repairs, start=1)]
    for number, tm in repaired:
        # Rows that run along another axis are no longer those of the first picture.
        if tm is not None and tm.rank > 1 and tm.global_dim == before.global_dim and _misaligned(tm) is None:
            return [drawn[0], Picture(f"{_ROWS} after repair {number}", draw_rows(tm)), *drawn[1:]]
    return drawn


def _of_map(tm: TensorMap, coordinate: tuple[int, ...] | None, gpu: Target, *, compared: bool = True) -> list[Picture]:
    """Return the pictures of a map; `compared` with another swizzle where that says what this one is for."""
    found = []
    dimension = _misaligned(tm)
    if dimension is not None:
        found += _drawn(_ROWS, lambda: draw_rows(tm, dimension=dimension))
    if tm.mode == "im2col":
        found += _drawn("the pixels of one load", lambda: draw_pixels(tm, coordinate))
        coordinate = coordinate or (0,) * tm.rank  # a pixel of the image, where the walk begins outside it
    else:
        found += _drawn("the box in the tensor", lambda: draw_box(tm, coordinate))
    found += _drawn("the box in shared memory", lambda: draw_shared(tm, coordinate, target=gpu))
    other = _otherwise(tm, gpu) if compared else None
    if other is not None:
        swizzle = "without a swizzle" if other.swizzle == "none" else f"with swizzle {other.swizzle}"
        found += _drawn(f"the same {swizzle}", lambda: draw_shared(other, coordinate, target=gpu))
    return found


def _of_plan(plan: MovementPlan, gpu: Target) -> list[Picture]:
    return _of_maps(map_sides(plan), gpu)


def _of_product(plan: GemmPlan, gpu: Target) -> list[Picture]:
    """Return the pictures of the maps by which operands come and sums go."""
    from legalsat.extract.kernels.product_maps import maps_of  # noqa: PLC0415 - needs plans

    return _of_maps([(n, one.map) for n, some in maps_of(plan.typical, plan.kernel).items() for one in some], gpu)


def _of_program(plan: ProgramPlan, gpu: Target) -> list[Picture]:
    drawn = ((number, pictures_of(step.plan, gpu)) for number, step in enumerate(plan.steps, start=1))
    return _alike((f"step {number}", picture) for number, pictures in drawn for picture in pictures)


def _of_maps(maps: list[tuple[str, TensorMap]], gpu: Target) -> list[Picture]:
    """Return the pictures of named maps, those that look alike once."""
    known = ((name, tm.bind(typical_of(tm.dims)) if tm.dims else tm) for name, tm in maps)
    return _alike((name, picture) for name, tm in known for picture in _of_map(tm, None, gpu, compared=False))


def _of_part(part: Explanation, gpu: Target) -> list[Picture]:
    """Return the pictures of a product's operand: of the map that it comes or goes by, if it has one."""
    if part.plan is None or not part.legal:
        return _of_explanation(part, gpu)
    used = "target" if part.plan.operator.consumer == "threads" else "source"
    return [
        picture
        for side, tm in map_sides(part.plan)
        if side == used
        for picture in _of_map(tm, None, gpu, compared=False)
    ]


def _alike(drawn: Iterable[tuple[str, Picture]]) -> list[Picture]:
    """Return pictures with the names of what they show, those that look alike once."""
    names: dict[Picture, list[str]] = {}
    for name, picture in drawn:
        names.setdefault(picture, []).append(name)
    return [Picture(f"{', '.join(named)}: {picture.caption}", picture.svg) for picture, named in names.items()]


def _of_tensor(tensor: Tensor, tile: Any) -> list[Picture]:
    tm = _map_of(tensor, tile)
    if tm is None:
        return []
    dimension = _misaligned(tm)
    rows = [] if dimension is None else _drawn(_ROWS, lambda: draw_rows(tm, dimension=dimension))
    return rows + _drawn("boxes of the tensor" if rows else "a box of the tensor", lambda: draw_box(tm))


def _map_of(subject: Any, tile: Any = None) -> TensorMap | None:
    """Return the map that describes a tensor as it lies, with the tile or an example as its box; None if none does."""
    if isinstance(subject, Move):
        subject, tile = subject.source, subject.axis_tile
    if isinstance(subject, TensorCopy):
        subject = subject.tensor_map
    if not isinstance(subject, Tensor) or subject.dims or not 1 <= subject.rank <= _MOST_RANK:
        return subject if isinstance(subject, TensorMap) else None
    shape, strides, bits = plain(subject.shape), plain(subject.strides), subject.dtype.bits
    order = sorted(range(subject.rank), key=lambda axis: (strides[axis], -axis))
    outer = order[1:]
    if strides[order[0]] != 1 or any(strides[axis] * bits % 8 for axis in outer):
        return None
    limits = (_BOX_BYTES * 8 // bits, _BOX_ROWS, 1, 1, 1)
    box = [min(shape[axis], tile[axis] if tile else limit) for axis, limit in zip(order, limits, strict=False)]
    try:
        return TensorMap(
            subject.dtype.map_type,
            tuple(shape[axis] for axis in order),
            tuple(strides[axis] * bits // 8 for axis in outer),
            tuple(box),
            address=subject.address,
        )
    except InvalidInput:
        return None


def _misaligned(tm: TensorMap) -> int | None:
    """Return the first dimension whose neighbours start off granules, None where all start at one."""
    granule = granule_bytes(tm)
    strides = [stride % granule or tm.address % granule for stride in tm.global_stride]
    return next((dimension for dimension, off in enumerate(strides, start=1) if off), None)


def _otherwise(tm: TensorMap, gpu: Target) -> TensorMap | None:
    """Return the map to compare with: without its swizzle, or with the one for its rows where that conflicts less."""
    try:
        read = column_read(tm, target=gpu)
        if tm.swizzle != "none":
            return replace(tm, swizzle="none")
        row = shared_places(tm).shape[1]
        span = next((span for span in _SPANS if row <= span), None)
        if span is None:
            return None
        other = replace(tm, swizzle=_SPANS[span])
        return other if column_read(other, target=gpu).wavefronts < read.wavefronts else None
    except InvalidInput:
        return None


def _drawn(caption: str, draw: Callable[[], str]) -> list[Picture]:
    """Return a picture, or nothing where what it shows has no meaning, which the reasons say already."""
    try:
        return [Picture(caption, draw())]
    except InvalidInput:
        return []


_KINDS: tuple[tuple[Any, Callable[[Any, Target], list[Picture]]], ...] = (
    (Explanation, _of_explanation),
    (GemmPlan, _of_product),
    (MovementPlan, _of_plan),
    (ProgramPlan, _of_program),
    (TensorCopy, lambda copy, gpu: _of_map(copy.tensor_map, copy.coordinate, gpu)),
    (TensorMap, lambda tm, gpu: _of_map(tm, None, gpu)),
    (Move, lambda operator, _: _of_tensor(operator.source, operator.axis_tile)),
    (Tensor, lambda tensor, _: _of_tensor(tensor, None)),
    (Layout | ComposedLayout, lambda layout, _: _drawn("offsets, coloured by bank", lambda: draw_layout(layout))),
    (LinearLayout, lambda layout, _: _drawn("who holds which element", lambda: draw_owners(layout))),
)
