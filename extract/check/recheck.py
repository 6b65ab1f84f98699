"""Checks a finished plan by the plain rules and laws, without the e-graph and the solver that made it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from legalsat.diagnostics import Diagnostic
from legalsat.extract.kernels.contract import require_contract
from legalsat.extract.kernels.movement_pipeline import granules_pipeline, movement_pipeline
from legalsat.extract.moved.tile_operand import operand_of, row_axes
from legalsat.extract.search import by_granules
from legalsat.extract.search.by_phases import phase_maps, phase_tile, phase_view, split_of
from legalsat.extract.search.by_vectors import (
    IN_REGISTERS,
    LOADS,
    STORE,
    access_site,
    judged_bytes,
    judged_rows,
    load_site,
    needs_staging,
    staged_view,
)
from legalsat.extract.search.columns import column_of
from legalsat.extract.search.delivery import Question
from legalsat.extract.search.schedule import box_tiles, granules_launch, launch, row_tile, span_of
from legalsat.extract.search.search import EQUAL_AS_FUNCTIONS, function_form
from legalsat.extract.search.views import box_of, map_type, storable, turned
from legalsat.extract.solve.fields import Conflict
from legalsat.operators import MATRIX_CONSUMERS, Copy, access_of, atom_bytes
from legalsat.plans.codec import InvalidPlan
from legalsat.plans.movement_plan import MovementPlan, SharedTile, VectorCopy, View
from legalsat.rule import Rule
from legalsat.rules import COPY_RULES, REGISTER_RULES, SHARED_RULES, VECTOR_RULES
from legalsat.rules.granules import GRANULES
from legalsat.rules.vectors import BULK
from legalsat.rules.windows import COLUMNS
from legalsat.targets import GRANULE_BYTES
from legalsat.tensor import Tensor
from legalsat.units.sites import RegisterTile, SharedStages, TmaCopy
from legalsat.units.tensor_map import TensorMap

CHOSEN_TILE = "choose_tile"
RELAID = "relayout_to_legal_pitch"  # the step that a relayout of the source is


def recheck(plan: MovementPlan) -> None:
    """Raise `InvalidPlan` unless every field of the plan holds; predictions of cost are taken as they are."""
    for first in plan.before:
        recheck(first)
        if first.operator != Copy(plan.operator.source, plan.source):
            raise InvalidPlan("relayout is not one of the operator's source; synthesise the plan again")
    if not plan.candidates:
        raise InvalidPlan("plan lacks its candidates, of which it is the first; synthesise it again")
    if len(plan.before) > 1:
        raise InvalidPlan("plan has more than one relayout; synthesise it again")
    _check_derivation(plan)
    plan = plan.alone
    if any(mode.tile < 1 for mode in plan.access.modes):
        raise InvalidPlan(f"tile of {plan.access} is empty; synthesise the plan again")
    question = Question(plan.operator, plan.access, plan.target)
    _check_windows(plan, question)
    if plan.views not in question.sights:
        raise InvalidPlan("views are not those of the access; synthesise the plan again")
    load, store = plan.views
    asked = replace(question, seen=question.sights.index(plan.views))
    if plan.store not in {asked.stores_by(maps) for maps in asked.ways}:
        raise InvalidPlan(f"store {plan.store!r} is none of the access; synthesise the plan again")
    if plan.access.by == GRANULES:
        _check_granules(plan, question)
        return
    check = {"tma": _check_boxes, "im2col": _check_boxes, "tma.phases": _check_phases}.get(
        plan.access.by, _check_vectors
    )
    check(plan, load, store)
    if plan.granules is not None:
        raise InvalidPlan(f"plan by {plan.access.by} has a kernel for granules; synthesise it again")
    _check_reader(plan)
    _check_budget(plan)
    stages = plan.pipeline.stages
    if plan.launch != launch(plan.access, plan.views, plan.store, stages, plan.target):
        raise InvalidPlan(f"launch {plan.launch} is not that of the plan's tiles and stages; synthesise the plan again")
    if stages < 1 or plan.pipeline != movement_pipeline(
        plan.access, plan.views, plan.shared, plan.copies, plan.phases, store=plan.store, launch=plan.launch
    ):
        raise InvalidPlan("steps or barriers are not those of the plan's buffers and maps; synthesise the plan again")
    require_contract(plan.pipeline, plan.target)


def _check_granules(plan: MovementPlan, question: Question) -> None:
    """Choose the kernel of a movement by granules again, and bind it: nothing about it is solved."""
    found = by_granules.solve(question)
    if isinstance(found, Conflict):
        _refuse(found.diagnostics)
    elif found.granules is None or (
        replace(found.granules, beside=plan.beside),
        found.copies,
        found.shared,
        found.tensor_maps,
        found.phases,
    ) != (plan.granules, plan.copies, plan.shared, plan.tensor_maps, plan.phases):
        raise InvalidPlan("kernel or its numbers are not those of the movement; synthesise the plan again")
    elif plan.launch != granules_launch(found.granules) or plan.pipeline != granules_pipeline(
        found.granules.kernel, beside=plan.beside
    ):
        raise InvalidPlan("launch or steps are not those of the kernel; synthesise the plan again")
    require_contract(plan.pipeline, plan.target)


def _check_windows(plan: MovementPlan, question: Question) -> None:
    """Windows and paddings keep their modes where these say what is filled in, and columns are runs of pixels."""
    operator = plan.operator
    if plan.window != question.window:
        raise InvalidPlan("window is not the operator's over the plan's access; synthesise the plan again")
    if operator.sweeps and operator.fills and plan.window is None:
        raise InvalidPlan(f"{plan.access} lost the modes of windows that leave their images; synthesise the plan again")
    if question.margins is None:
        raise InvalidPlan(f"{plan.access} lost the modes of its padding; synthesise the plan again")
    if plan.access.by == COLUMNS and question.column is None:
        raise InvalidPlan(f"tiles of {plan.access} are no columns of pixels; synthesise the plan again")


def _judge_movement(plan: MovementPlan, *, row_bytes: int = 0, shifted: bool = False) -> None:
    _refuse(Question(plan.operator, plan.access, plan.target).judged(row_bytes=row_bytes, shifted=shifted))


def _check_boxes(plan: MovementPlan, load: View, store: View) -> None:
    """Check a plan that loads by boxes of one tensor map."""
    _judge_movement(plan)
    needed = 2 if plan.store == "tma" else 1
    if len(plan.tensor_maps) != needed:
        raise InvalidPlan(f"plan has {len(plan.tensor_maps)} tensor maps; its store needs {needed}")
    if plan.copies or plan.phases:
        raise InvalidPlan("plan has copies or phases that its maps leave no room for; synthesise the plan again")
    if plan.store == "threads" and not storable(store, plan.access.word, plan.operator.target.address):
        raise InvalidPlan("threads cannot store this target, whose words overlap or are misaligned; plan it again")
    for view, end, tm in zip(plan.views, (plan.source, plan.operator.target), plan.tensor_maps, strict=False):
        _check_map(plan, view, end, tm)
    threads = plan.store != "tma" or turned(*plan.views)
    if not threads:
        _check_same_boxes(plan)
    expected = box_tiles(plan.access, plan.views, plan.store, plan.tensor_maps, plan.pipeline.stages)
    _check_shared(plan, expected, plan.views[:needed] if threads else (load,))


def _check_phases(plan: MovementPlan, load: View, store: View) -> None:
    """Check a plan whose maps bring every few rows each."""
    _judge_movement(plan, row_bytes=1, shifted=True)
    split = split_of(load, plan.access.word, plan.source)
    if split is None or not plan.tensor_maps:
        raise InvalidPlan("rows cannot be shared out to phases; synthesise the plan again")
    seen = phase_view(load, split, plan.access.word)
    first = replace(plan.tensor_maps[0], global_dim=seen.extent)
    if (plan.phases, plan.tensor_maps) != phase_maps(load, split, plan.access.word, first):
        raise InvalidPlan("phases are not those of the rows' pitch; synthesise the plan again")
    for tm in plan.tensor_maps:
        _check_map(plan, replace(seen, extent=tm.global_dim), replace(plan.source, offset=0), tm)
    _check_vector(plan, store, plan.copies, STORE)
    if plan.shared != (phase_tile(plan.access, load, split, first),):
        raise InvalidPlan("shared buffers are not those that the boxes fill; synthesise the plan again")


def _check_vectors(plan: MovementPlan, load: View, store: View) -> None:
    """Check a plan that loads and stores in vectors."""
    instruction = LOADS.get(plan.access.by)
    sides = 1 if plan.operator.loads_only else 2
    if instruction is None or plan.tensor_maps or plan.phases or len(plan.copies) != sides:
        raise InvalidPlan(f"plan by {plan.access.by} needs a copy on each side, and no tensor maps; plan it again")
    atom = atom_bytes(plan.operator)
    staged = needs_staging(plan.access.by, plan.operator.consumer, turns=turned(load, store))
    seen = staged_view(load, plan.access.word, plan.operator) if staged else load
    if seen is None:
        raise InvalidPlan("rows of the tile are not those that wgmma reads; synthesise the plan again")
    row, run = (view.tile[0] * plan.access.word // 8 for view in (seen, load))
    runs = 0
    if instruction == BULK:
        runs = math.prod(load.tile[1:])
        if plan.copies[0].bytes != run:
            raise InvalidPlan(f"runs have {run} bytes, not {plan.copies[0].bytes}; synthesise the plan again")
    _judge_movement(plan, row_bytes=row if atom and staged else 0)
    _refuse(judged_rows(plan.access.by, row, plan.operator, plan.target))
    _check_vector(plan, load, plan.copies[:1], instruction)
    if sides > 1:
        _check_vector(plan, store, plan.copies[1:], STORE)
    expected = (
        row_tile(seen, plan.access.word, atom_bytes=0 if runs else atom, runs=runs, stages=plan.pipeline.stages),
    )
    if plan.shared != (expected if staged else ()):
        raise InvalidPlan("shared buffers are not those of the tile's rows; synthesise the plan again")
    size = math.prod(mode.tile for mode in plan.access.modes) * plan.access.word // 8
    for rule in REGISTER_RULES if plan.access.by in IN_REGISTERS else ():
        _judge(rule, RegisterTile(size), plan)


def _check_vector(plan: MovementPlan, view: View, copies: tuple[VectorCopy, ...], instruction: str) -> None:
    if [(c.side, c.instruction) for c in copies] != [(view.side, instruction)]:
        raise InvalidPlan(f"{view.side} is not moved by {instruction}; synthesise the plan again")
    _refuse(judged_bytes(plan.operator, plan.target, view))
    size, word = GRANULE_BYTES if instruction == BULK else copies[0].bytes, plan.access.word
    if view.side == "source":
        site = load_site(view, word, plan.access.by, size, plan.operator)
    else:
        site = access_site(view, word, STORE, size, plan.operator.target.address)
    for rule in VECTOR_RULES:
        _judge(rule, site, plan)


def _check_derivation(plan: MovementPlan) -> None:
    """Replay the derivation from the operator to the access, law by law, either way round."""
    operator = plan.operator
    access, laws = access_of(operator, operator.tile), operator.laws()
    for step in plan.derivation:
        if step.law == RELAID and plan.before:
            holds = step.access == access_of(operator.but(source=plan.source), operator.tile)
        elif step.law == CHOSEN_TILE and operator.tile is None:
            untiled = tuple(m._replace(tile=m.extent) for m in step.access.modes)
            holds = untiled == access.modes and step.access.word == access.word
        elif step.law == EQUAL_AS_FUNCTIONS:
            holds = step.access == function_form(access)
        else:
            law = next((one for one in laws if one.name == step.law), None)
            holds = law is not None and (law.leads(access, step.access) or law.leads(step.access, access))
        if not holds:
            raise InvalidPlan(f"{step.law} does not lead from {access} to {step.access}; synthesise the plan again")
        access = step.access
    if access != plan.access:
        raise InvalidPlan(f"derivation ends at {access}, not at the plan's access {plan.access}")


def _check_map(plan: MovementPlan, view: View, end: Tensor, tm: TensorMap) -> None:
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
        _judge(rule, site, plan)
    if tm.swizzle != "none" and box[0] * plan.access.word != 8 * span_of(str(tm.swizzle)):
        raise InvalidPlan(f"rows of a {view.side} box do not fill the swizzle's span, so they leave holes")


def _check_same_boxes(plan: MovementPlan) -> None:
    """A tile that goes out as it came in is cut into the same boxes on both sides."""
    load, store = plan.tensor_maps
    if (load.swizzle, box_of(plan.views[0], load)) != (store.swizzle, store.box):
        raise InvalidPlan("source and target boxes differ, though they share a buffer; synthesise the plan again")


def _check_shared(plan: MovementPlan, expected: tuple[SharedTile, ...], views: tuple[View, ...]) -> None:
    """Work out again what the boxes take in shared memory."""
    if plan.shared != expected or len(expected) != len(views):
        raise InvalidPlan("shared buffers are not those that the boxes fill; synthesise the plan again")
    for tile, view, tm in zip(expected, views, plan.tensor_maps, strict=False):
        box = box_of(view, tm)
        boxes = math.prod(n // extent for n, extent in zip(view.tile, box, strict=True))
        if (tile.boxes, 8 * tile.bytes) != (boxes, boxes * math.prod(box) * plan.access.word):
            raise InvalidPlan("boxes do not take the bytes of their buffer; synthesise the plan again")


def _check_reader(plan: MovementPlan) -> None:
    """Compare every element of rows along several axes with what a descriptor reads, where a matrix unit does."""
    several = len(row_axes(plan.operator)) > 1 and plan.operator.consumer in MATRIX_CONSUMERS
    if several and plan.shared and operand_of(plan) is None:
        raise InvalidPlan("no descriptor reads the tile as it lies in shared memory; synthesise the plan again")


def _check_budget(plan: MovementPlan) -> None:
    """Judge the block's shared memory as a whole, and what its barrier waits for."""
    ring = plan.shared[0].bytes if plan.shared else 0
    for rule in SHARED_RULES if plan.shared else ():
        single = sum(b.bytes for b in plan.shared[1:] if not b.overlays)
        _judge(rule, SharedStages(plan.pipeline.stages, ring, single), plan)


def _judge(rule: Rule, site: Any, plan: MovementPlan) -> None:
    _refuse(d for d in rule.check(site, plan.target) if d.level == "error")


def _refuse(diagnostics: Iterable[Diagnostic]) -> None:
    for diagnostic in diagnostics:
        raise InvalidPlan(f"plan breaks a rule; synthesise it again\n{diagnostic}")
