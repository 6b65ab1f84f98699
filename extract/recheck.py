"""Checks a finished plan by the plain rules and laws, without the e-graph and the solver that made it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from legalsat.diagnostics import Diagnostic
from legalsat.extract.schedule import launch, pipeline
from legalsat.extract.views import map_type, storable, turned, views_of
from legalsat.operators import WGMMA_CONSUMERS, Operator, access_of
from legalsat.plan import Barrier, InvalidPlan, Plan, SharedTile, View
from legalsat.rule import Rule
from legalsat.rules import COPY_RULES, MOVEMENT_RULES, SHARED_RULES
from legalsat.rules.rewrites import LAWS
from legalsat.sites import SWIZZLE_SPANS, Movement, SharedStages, TmaCopy
from legalsat.targets import Target
from legalsat.tensor import Tensor
from legalsat.tensor_map import TensorMap, driver_value

_BY_NAME = {law.name: law for law in LAWS}


def recheck(plan: Plan) -> None:
    """Raise `InvalidPlan` unless every field of the plan holds; predictions of cost are taken as they are."""
    _check_derivation(plan)
    if any(mode.tile < 1 for mode in plan.access.modes):
        raise InvalidPlan(f"tile of {plan.access} is empty; synthesise the plan again")
    for diagnostic in judge_movement(plan.operator, plan.access.word, plan.target):
        raise InvalidPlan(f"plan breaks a rule; synthesise it again\n{diagnostic}")
    load, store = views_of(plan.access)
    if plan.views != {"tma": (load, store), "threads": (load,)}.get(plan.store):
        raise InvalidPlan(f"views are not those of the access with store {plan.store!r}; synthesise the plan again")
    if len(plan.tensor_maps) != len(plan.views):
        raise InvalidPlan(f"plan has {len(plan.tensor_maps)} tensor maps; its store needs {len(plan.views)}")
    if plan.store == "threads" and not storable(store, plan.access.word, plan.operator.target.align):
        raise InvalidPlan("threads cannot store this target, whose words overlap or are misaligned; plan it again")
    for view, end, tm in zip(plan.views, (plan.operator.source, plan.operator.target), plan.tensor_maps, strict=False):
        _check_map(plan, view, end, tm)
    threads = plan.store == "threads" or turned(load, store)
    if not threads:
        _check_same_boxes(plan)
    _check_shared(plan, plan.views if threads else (load,))
    stages = plan.pipeline.stages
    if plan.launch != launch(plan.access, plan.views, stages, plan.target):
        raise InvalidPlan(f"launch {plan.launch} is not that of the plan's tiles and stages; synthesise the plan again")
    if plan.pipeline != pipeline(plan.views, plan.shared, stages):
        raise InvalidPlan("steps or barriers are not those of the plan's buffers and maps; synthesise the plan again")


def judge_movement(operator: Operator, word: int, target: Target) -> tuple[Diagnostic, ...]:
    """Return what the rules say of a movement as a whole, in words of `word` bits."""
    strides = operator.source.strides
    movement = Movement(
        word=word,
        consumer=operator.consumer,
        element=operator.source.dtype.name,
        tile=operator.tile or (),
        k_major=not strides or strides[-1] == 1,
    )
    return tuple(diagnostic for rule in MOVEMENT_RULES for diagnostic in rule.check(movement, target))


def _check_derivation(plan: Plan) -> None:
    """Replay the derivation from the operator to the access, law by law."""
    operator = plan.operator
    access = access_of(operator, operator.tile)
    for step in plan.derivation:
        if step.law == "choose_tile" and operator.tile is None:
            untiled = tuple(m._replace(tile=m.extent) for m in step.access.modes)
            holds = untiled == access.modes and step.access.word == access.word
        else:
            holds = step.law in _BY_NAME and step.access in _BY_NAME[step.law].steps(access)
        if not holds:
            raise InvalidPlan(f"{step.law} does not lead from {access} to {step.access}; synthesise the plan again")
        access = step.access
    if access != plan.access:
        raise InvalidPlan(f"derivation ends at {access}, not at the plan's access {plan.access}")


def _check_map(plan: Plan, view: View, end: Tensor, tm: TensorMap) -> None:
    """Compare a map with its view and with the tensor at that end, and judge it by every rule."""
    described = TensorMap(
        dtype=map_type(plan.access.word, end.dtype) or "u8",
        global_dim=view.extent,
        global_stride=tuple(stride // 8 for stride in view.stride[1:]),
        box=tm.box,
        address=end.align,
        swizzle=tm.swizzle,
        l2_promotion=tm.l2_promotion,
    )
    if tm != described or any(stride % 8 for stride in view.stride[1:]):
        raise InvalidPlan(f"{view.side} tensor map does not describe the {view.side}; synthesise the plan again")
    if any(box < 1 or tile % box for tile, box in zip(view.tile, tm.box, strict=True)):
        raise InvalidPlan(f"{view.side} boxes do not fill the tile; synthesise the plan again")
    site = replace(
        TmaCopy.of(tm, stores=view.side == "target"),
        inner_stride_bits=view.stride[0],
        tile=view.tile,
        side=view.side,
        feeds_wgmma=plan.operator.consumer in WGMMA_CONSUMERS,
    )
    for rule in COPY_RULES:
        _judge(rule, site, plan)
    if tm.swizzle != "none" and tm.box[0] * plan.access.word != 8 * _span(tm):
        raise InvalidPlan(f"rows of a {view.side} box do not fill the swizzle's span, so they leave holes")


def _check_same_boxes(plan: Plan) -> None:
    """A tile that goes out as it came in is cut into the same boxes on both sides."""
    load, store = plan.tensor_maps
    if (load.swizzle, load.box) != (store.swizzle, store.box):
        raise InvalidPlan("source and target boxes differ, though they share a buffer; synthesise the plan again")


def _check_shared(plan: Plan, views: tuple[View, ...]) -> None:
    """Work out again what the boxes take in shared memory and what the barrier counts."""
    stages = plan.pipeline.stages
    buffers = []
    for view, tm in zip(views, plan.tensor_maps, strict=False):
        boxes = math.prod(tile // box for tile, box in zip(view.tile, tm.box, strict=True))
        size = boxes * math.prod(tm.box) * plan.access.word // 8
        # The pattern of a swizzle repeats every eight spans.
        alignment = 128 if tm.swizzle == "none" else max(128, 8 * _span(tm))
        copies = stages if view.side == "source" else 1
        shape, over = tuple(reversed(view.tile)), view.side == "target" and stages == 1
        buffers.append(
            SharedTile(view.side, plan.access.word, shape, str(tm.swizzle), boxes, size, alignment, copies, over)
        )
    if plan.shared != tuple(buffers):
        raise InvalidPlan("shared buffers are not those that the boxes fill; synthesise the plan again")
    ring = buffers[0].bytes
    if plan.pipeline.barriers != (Barrier("full", 1, ring),):
        raise InvalidPlan(f"barriers do not wait for the {ring} bytes that arrive; synthesise the plan again")
    if stages < 1:
        raise InvalidPlan(f"ring has {stages} stages; synthesise the plan again")
    for rule in SHARED_RULES:
        _judge(rule, SharedStages(stages, ring, sum(b.bytes for b in buffers[1:] if not b.overlays)), plan)


def _judge(rule: Rule, site: Any, plan: Plan) -> None:
    for diagnostic in rule.check(site, plan.target):
        if diagnostic.level == "error":
            raise InvalidPlan(f"plan breaks a rule; synthesise it again\n{diagnostic}")


def _span(tm: TensorMap) -> int:
    return SWIZZLE_SPANS[driver_value("swizzle", tm.swizzle)]
