"""What the checks of finished plans share: fields worked out again, by the plain rules, without the solver."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from legalsat.diagnostics import Diagnostic
from legalsat.extract.search.columns import column_of
from legalsat.extract.search.delivery import Question
from legalsat.extract.search.schedule import span_of
from legalsat.extract.search.views import box_of, map_type
from legalsat.operators import atom_bytes
from legalsat.plans.codec import InvalidPlan
from legalsat.plans.movement_plan import MovementPlan, SharedTile, View
from legalsat.rule import Rule
from legalsat.rules import COPY_RULES
from legalsat.tensor import Tensor
from legalsat.units.sites import TmaCopy
from legalsat.units.tensor_map import TensorMap


def judge_movement(plan: MovementPlan, *, row_bytes: int = 0, shifted: bool = False) -> None:
    """Judge the movement as a whole by every rule."""
    refuse(Question(plan.operator, plan.access, plan.target).judged(row_bytes=row_bytes, shifted=shifted))


def check_map(plan: MovementPlan, view: View, end: Tensor, tm: TensorMap) -> None:
    """Compare a map with its view and with the tensor at that end, and judge it by every rule."""
    box, column = box_of(view, tm), column_of(plan.operator, plan.access) if view.side == "source" else None
    options: dict[str, Any] = {
        "dtype": map_type(plan.access.word, end.dtype) or "u8",
        "address": end.address,
        "swizzle": tm.swizzle,
        "l2_promotion": tm.l2_promotion,
    }
    if column is None:
        strides = tuple(stride // 8 for stride in view.stride[1:])
        described = TensorMap(global_dim=view.extent, global_stride=strides, box=box, **options)
    else:
        described = TensorMap(
            global_dim=column.global_dim,
            global_stride=column.global_stride,
            element_stride=column.element_stride,
            mode="im2col",
            lower_corner=column.lower_corner,
            upper_corner=column.upper_corner,
            channels=box[0],
            pixels=box[-1],
            **options,
        )
    if tm != described or any(stride % 8 for stride in view.stride[1:]):
        raise InvalidPlan(f"{view.side} tensor map does not describe the {view.side}; synthesise the plan again")
    if any(extent < 1 or tile % extent for tile, extent in zip(view.tile, box, strict=True)):
        raise InvalidPlan(f"{view.side} boxes do not fill the tile; synthesise the plan again")
    site = replace(
        TmaCopy.of(tm, stores=view.side == "target"),
        inner_stride_bits=view.stride[0],
        tile=view.tile if column is None else (math.prod(view.tile[:-1]), view.tile[-1]),
        side=view.side,
        by_stride=view.by_stride if column is None else (),
        before=view.before,
        atom_bytes=atom_bytes(plan.operator),
        offsets=() if column is None else column.offsets,
    )
    for rule in COPY_RULES:
        judge(rule, site, plan)
    if tm.swizzle != "none" and box[0] * plan.access.word != 8 * span_of(str(tm.swizzle)):
        raise InvalidPlan(f"rows of a {view.side} box do not fill the swizzle's span, so they leave holes")


def check_same_boxes(plan: MovementPlan) -> None:
    """A tile that goes out as it came in is cut into the same boxes on both sides."""
    load, store = plan.tensor_maps
    if (load.swizzle, box_of(plan.views[0], load)) != (store.swizzle, store.box):
        raise InvalidPlan("source and target boxes differ, though they share a buffer; synthesise the plan again")


def check_shared(plan: MovementPlan, expected: tuple[SharedTile, ...], views: tuple[View, ...]) -> None:
    """Work out again what the boxes take in shared memory."""
    if plan.shared != expected or len(expected) != len(views):
        raise InvalidPlan("shared buffers are not those that the boxes fill; synthesise the plan again")
    for tile, view, tm in zip(expected, views, plan.tensor_maps, strict=False):
        box = box_of(view, tm)
        boxes = math.prod(n // extent for n, extent in zip(view.tile, box, strict=True))
        if (tile.boxes, 8 * tile.bytes) != (boxes, boxes * math.prod(box) * plan.access.word):
            raise InvalidPlan("boxes do not take the bytes of their buffer; synthesise the plan again")


def judge(rule: Rule, site: Any, plan: MovementPlan) -> None:
    """Raise `InvalidPlan` where a rule finds an error at a site of the plan."""
    refuse(d for d in rule.check(site, plan.target) if d.level == "error")


def refuse(diagnostics: Iterable[Diagnostic]) -> None:
    """Raise `InvalidPlan` for the first of these."""
    for diagnostic in diagnostics:
        raise InvalidPlan(f"plan breaks a rule; synthesise it again\n{diagnostic}")
