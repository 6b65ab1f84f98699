"""Checks a finished plan by the plain rules and laws, without the e-graph and the solver that made it."""

from __future__ import annotations

from dataclasses import replace

from legalsat.extract.check.fields import judge
from legalsat.extract.kernels.contract import require_contract
from legalsat.extract.kernels.movement_pipeline import movement_pipeline
from legalsat.extract.moved.tile_operand import operand_of, row_axes
from legalsat.extract.search.delivery import Question, solver_of
from legalsat.extract.search.schedule import launch
from legalsat.extract.search.search import EQUAL_AS_FUNCTIONS, function_form
from legalsat.operators import MATRIX_CONSUMERS, Copy, access_of
from legalsat.plans.codec import InvalidPlan
from legalsat.plans.movement_plan import MovementPlan
from legalsat.rules import SHARED_RULES
from legalsat.rules.windows import COLUMNS
from legalsat.units.means import MEANS
from legalsat.units.sites import SharedStages

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
    if plan.access.by not in MEANS:
        raise InvalidPlan(f"{plan.access} is brought by no means; synthesise the plan again")
    question = Question(plan.operator, plan.access, plan.target)
    _check_windows(plan, question)
    if plan.views not in question.sights:
        raise InvalidPlan("views are not those of the access; synthesise the plan again")
    asked = replace(question, seen=question.sights.index(plan.views))
    if plan.store not in {asked.stores_by(maps) for maps in asked.ways}:
        raise InvalidPlan(f"store {plan.store!r} is none of the access; synthesise the plan again")
    solver_of(plan.access.by).check(plan, question)
    if not MEANS[plan.access.by].tiled:
        return
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
        judge(rule, SharedStages(plan.pipeline.stages, ring, single), plan)
