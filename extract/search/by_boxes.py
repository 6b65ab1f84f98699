"""Delivery by boxes of a tensor map, stored by boxes where a map can describe the target, else by threads.

Columns of pixels are boxes too: of a map that walks the windows of a convolution.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from legalsat.extract.check.fields import check_map, check_same_boxes, check_shared, judge_movement
from legalsat.extract.cost.cost import Work, cost_of, order
from legalsat.extract.search.by_vectors import staged_view
from legalsat.extract.search.delivery import Delivered, Question
from legalsat.extract.search.schedule import block_bytes, box_tiles
from legalsat.extract.search.views import box_of, storable, turned
from legalsat.extract.solve.fields import Conflict, Solution
from legalsat.extract.solve.fields import solve as solve_fields
from legalsat.operators import atom_bytes
from legalsat.plans.codec import InvalidPlan
from legalsat.plans.movement_plan import MovementCost, MovementPlan, View
from legalsat.rules.windows import COLUMNS
from legalsat.targets import GRANULE_BYTES, MAX_BOX_EXTENT, MAX_COLUMN_PIXELS
from legalsat.units.tensor_map import TensorMap

WORST_CONFLICTS = 8


def bound(question: Question) -> MovementCost:
    """Return a cost that no solution is below: as few boxes as their limit allows, no conflicts, the best store."""
    return min((_least(question, views) for views in question.ways), key=order)


def _least_boxes(view: View, most: int) -> int:
    return math.prod(-(-tile // most) for tile in view.tile)


def solve(question: Question) -> Delivered | Conflict:
    """Return the cheapest fields of both maps, or of the load's with a store by threads; or why neither works."""
    broken = question.judged()
    if broken or (question.column is None) == (question.access.by == COLUMNS):
        return Conflict(broken)
    load, store = question.views
    if question.column is None and staged_view(load, question.access.word, question.operator) is not load:
        return Conflict(())  # rows of wgmma's operand lie in one piece, and other candidates have them so
    found: list[Delivered] = []
    refused: list[Conflict] = []
    for views in question.ways:
        if found and order(_least(question, views)) >= min(order(one.cost) for one in found):
            continue
        for outcome in _solutions(question, views):
            if isinstance(outcome, Conflict):
                refused.append(outcome)
            elif (
                len(views) > 1
                or question.operator.loads_only
                or storable(store, question.access.word, question.operator.target.address)
            ):
                found.append(_delivered(question, views, outcome))
    return min(found, key=lambda one: order(one.cost)) if found else refused[-1]


def _least(question: Question, views: tuple[View, ...]) -> MovementCost:
    most = MAX_BOX_EXTENT if question.column is None else MAX_COLUMN_PIXELS
    work = Work(
        times=question.times,
        boxes=sum(_least_boxes(view, most) for view in views),
        instructions=_instructions(question, views),
        store_factor=question.store_factor if len(views) == 1 else 1.0,
        stages=question.most_stages,
    )
    return cost_of(question.walked, question.views, work, question.target)


def _instructions(question: Question, views: tuple[View, ...]) -> int:
    """Return the memory instructions of warps that take the tile in hand: read it, then write it somewhere else."""
    hands = (len(views) == 1 or question.turned) and not question.operator.loads_only
    return 2 * math.ceil(question.tile_bytes / (GRANULE_BYTES * question.target.lanes)) if hands else 0


def _solutions(question: Question, views: tuple[View, ...]) -> Iterator[Solution | Conflict]:
    """Yield the solution with the fewest conflicts; then, where boxes take the time, those with more that save some."""
    operator = question.operator
    ends = (operator.source, operator.target)

    def fields(max_conflicts: int | None) -> Solution | Conflict:
        return solve_fields(
            question.access,
            views,
            operator.source.dtype,
            tuple(end.address for end, _ in zip(ends, views, strict=False)),
            question.target,
            threads_read=len(views) == 1 or question.turned or operator.consumer is not None,
            turned=question.turned and len(views) > 1,
            column=question.column,
            atom_bytes=atom_bytes(operator),
            max_stages=question.most_stages,
            max_conflicts=max_conflicts,
            deadline=question.deadline,
        )

    first = fields(None)
    yield first
    if isinstance(first, Conflict):
        return
    conflicts = first.conflicts
    while 2 * conflicts <= WORST_CONFLICTS and _waits_for_boxes(question, views, first):
        conflicts *= 2
        yield fields(conflicts)


def _waits_for_boxes(question: Question, views: tuple[View, ...], solution: Solution) -> bool:
    """Whether fewer boxes would save time."""
    cost = _delivered(question, views, solution).cost
    return cost.nanoseconds > _least(question, views).nanoseconds


def _delivered(question: Question, views: tuple[View, ...], solution: Solution) -> Delivered:
    store = question.stores_by(views)
    shared = box_tiles(question.access, question.views, store, solution.tensor_maps, solution.stages)
    work = Work(
        times=question.times,
        boxes=sum(_boxes(view, tm) for view, tm in zip(views, solution.tensor_maps, strict=True)),
        instructions=_instructions(question, views),
        conflicts=solution.conflicts,
        store_factor=question.store_factor if store != "tma" else 1.0,
        stages=solution.stages,
        shared_bytes=block_bytes(shared),
    )
    return Delivered(
        access=question.access,
        views=question.views,
        tensor_maps=solution.tensor_maps,
        copies=(),
        phases=(),
        store=store,
        shared=shared,
        stages=solution.stages,
        cost=cost_of(question.walked, question.views, work, question.target),
    )


def _boxes(view: View, tm: TensorMap) -> int:
    return math.prod(-(-tile // box) for tile, box in zip(view.tile, box_of(view, tm), strict=True))


def check(plan: MovementPlan, _question: Question) -> None:
    """Check a plan that loads by boxes of one tensor map."""
    load, store = plan.views
    judge_movement(plan)
    needed = 2 if plan.store == "tma" else 1
    if len(plan.tensor_maps) != needed:
        raise InvalidPlan(f"plan has {len(plan.tensor_maps)} tensor maps; its store needs {needed}")
    if plan.copies or plan.phases:
        raise InvalidPlan("plan has copies or phases that its maps leave no room for; synthesise the plan again")
    if plan.store == "threads" and not storable(store, plan.access.word, plan.operator.target.address):
        raise InvalidPlan("threads cannot store this target, whose words overlap or are misaligned; plan it again")
    for view, end, tm in zip(plan.views, (plan.source, plan.operator.target), plan.tensor_maps, strict=False):
        check_map(plan, view, end, tm)
    threads = plan.store != "tma" or turned(*plan.views)
    if not threads:
        check_same_boxes(plan)
    expected = box_tiles(plan.access, plan.views, plan.store, plan.tensor_maps, plan.pipeline.stages)
    check_shared(plan, expected, plan.views[:needed] if threads else (load,))
