"""Checks a finished plan by the plain rules and laws, independent of the e-graph and the solver that made it."""

from __future__ import annotations

import math

from legalsat.extract.views import view_of
from legalsat.operators import access_of
from legalsat.plan import InvalidPlan, Plan
from legalsat.rules import COPY_RULES, SHARED_RULES
from legalsat.rules.rewrites import LAWS
from legalsat.sites import SharedStages, TmaCopy
from legalsat.tensor_map import MAP_TYPES, TensorMap

_BY_NAME = {law.name: law for law in LAWS}


def recheck(plan: Plan) -> None:
    """Raise `InvalidPlan` unless every field of the plan holds."""
    _check_derivation(plan)
    sides = ("source", "target") if plan.store == "tma" else ("source",)
    if tuple(view.side for view in plan.views) != sides or len(plan.tensor_maps) != len(sides):
        raise InvalidPlan(f"plan has {len(plan.tensor_maps)} tensor maps, its store needs {len(sides)}")
    for view, tm in zip(plan.views, plan.tensor_maps, strict=True):
        if view != view_of(plan.access, view.side):
            raise InvalidPlan(f"{view.side} view is not what the access implies; synthesise the plan again")
        _check_map(plan, view.side, tm)
    ring = plan.shared[0].bytes
    site = SharedStages(plan.pipeline.stages, ring, sum(s.bytes for s in plan.shared[1:]))
    for rule in SHARED_RULES:
        for diagnostic in rule.check(site, plan.target):
            raise InvalidPlan(f"plan breaks a rule; synthesise it again\n{diagnostic}")
    for barrier in plan.pipeline.barriers:
        if barrier.transaction_bytes != ring:
            raise InvalidPlan(f"barrier {barrier.name} expects {barrier.transaction_bytes} bytes, {ring} arrive")


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


def _check_map(plan: Plan, side: str, tm: TensorMap) -> None:
    """Compare a map with its view, and judge it by every rule."""
    view = view_of(plan.access, side)
    word = MAP_TYPES[[t.name for t in MAP_TYPES].index(str(tm.dtype))].bits
    strides = tuple(8 * s for s in tm.global_stride)
    if word != plan.access.word or tm.global_dim != view.extent or strides != view.stride[1:]:
        raise InvalidPlan(f"{side} tensor map does not describe the {side}; synthesise the plan again")
    if any(tile % box for tile, box in zip(view.tile, tm.box, strict=True)) or math.prod(tm.element_stride) != 1:
        raise InvalidPlan(f"{side} boxes do not fill the tile; synthesise the plan again")
    site = TmaCopy.of(tm, stores=side == "target")
    for rule in COPY_RULES:
        for diagnostic in rule.check(site, plan.target):
            if diagnostic.level == "error":
                raise InvalidPlan(f"plan breaks a rule; synthesise it again\n{diagnostic}")
