"""Why a program has no plan, or that each of its steps is legal."""

from __future__ import annotations

from dataclasses import replace

from legalsat.explanation import Explanation, way_and_time
from legalsat.extract.composed.planner import cached_program_plan
from legalsat.extract.composed.recheck import recheck_program
from legalsat.extract.search.planner import NoLegalLayout
from legalsat.operators.program import Program
from legalsat.plans.program_plan import ProgramPlan
from legalsat.targets import Target


def explain_program(program: Program, target: Target) -> Explanation:
    """Return whether a program has a plan on a target, and if not which rules forbid its operators."""
    try:
        cached_program_plan(program, target)
    except NoLegalLayout as refusal:
        return Explanation(str(program), str(target), False, refusal.diagnostics, of=program)
    return Explanation(str(program), str(target), True, (), of=program)


def explain_program_plan(plan: ProgramPlan, target: Target) -> Explanation:
    """Return whether a plan's program has one on `target`; the plan itself must hold where it was made for."""
    recheck_program(plan)
    found = replace(explain_program(plan.operator, target), of=plan)
    steps = f"{len(plan.steps)} step{'s' * (len(plan.steps) != 1)}"
    way = way_and_time(steps, plan.cost.nanoseconds) if target == plan.target else ""
    return replace(found, way=way)
