"""Every plan's pipeline must keep its contract before anybody sees the plan."""

from __future__ import annotations

from functools import lru_cache

from legalsat.analyses.protocol.typestate import TypestateResult, check
from legalsat.plans.codec import InvalidPlan
from legalsat.program.pipeline import Pipeline
from legalsat.targets import Target


def require_contract(pipeline: Pipeline, target: Target) -> None:
    """Raise `InvalidPlan` unless the pipeline is proven for all trip counts."""
    found = _checked(pipeline, target)
    if not found.proven:
        reasons = "\n".join([*map(str, found.diagnostics), *found.unproven])
        raise InvalidPlan(f"pipeline does not keep its contract; synthesise the plan again\n{reasons}")


@lru_cache(maxsize=1024)
def _checked(pipeline: Pipeline, target: Target) -> TypestateResult:
    return check(pipeline, target)
