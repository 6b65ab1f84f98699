"""Why something is refused, and the repairs that were tried and found to work, cheapest first."""

from __future__ import annotations

from dataclasses import replace

from legalsat.diagnostics import Diagnostic
from legalsat.errors import LegalSatError
from legalsat.explanation import Explanation, Repair
from legalsat.extract.map_repair import as_repair, map_repairs
from legalsat.extract.obligations import obligations
from legalsat.extract.planner import NoLegalLayout, cached_plan
from legalsat.extract.recheck import recheck
from legalsat.extract.symbolic import symbolic_plan
from legalsat.extract.tensor_repair import boxes_of, repairs
from legalsat.extract.tensor_values import tensor_values
from legalsat.operators import Copy, Operator
from legalsat.plan import Plan
from legalsat.targets import Target
from legalsat.tensor_map import TensorMap


def explain_tensor_map(tm: TensorMap, target: Target, found: list[Diagnostic]) -> Explanation:
    """Return the explanation of a tensor map from its violations."""
    legal = not any(d.level == "error" for d in found)
    more = obligations(tm, target) if legal else ()
    tried = () if legal else tuple(as_repair(one, tm, target) for one in map_repairs(tm, target))
    return Explanation(str(tm), str(target), legal, tuple(found), repairs=tried, obligations=more, of=tm)


def explain_plan(plan: Plan, target: Target) -> Explanation:
    """Return whether a plan's operator is legal on `target`; the plan itself must hold where it was made for."""
    if not plan.guard:
        recheck(plan)
    return explain_tensor(plan.operator, target)


def explain_tensor(operator: Operator, target: Target, *, alone: bool = False) -> Explanation:
    """Return whether boxes of a tensor map do an operator, and if not why and what would make them.

    Args:
        operator: a movement.
        target: the GPU.
        alone: whether its source was asked about and the rest of it was added, so that repairs are tensors as well,
            but for those that change the tile.
    """
    of = operator.source if alone else operator
    if operator.source.dims or operator.target.dims:  # a repair is planned, which takes plain numbers
        try:
            plan = symbolic_plan(operator, target)
        except NoLegalLayout as refusal:
            return Explanation(str(operator), str(target), False, refusal.diagnostics, of=of)
        values = _by_means(operator, target)
        return Explanation(str(operator), str(target), True, (), (), plan, values=values, of=of)
    try:
        plan = cached_plan(operator, target, boxes_of(operator))
    except NoLegalLayout as refusal:
        slow, why = _without_boxes(operator, target), reasons(operator, target, refusal)
        found = repairs(operator, target, slow, why)
        offered = tuple(_of_tensor(repair, operator) for repair in found) if alone else found
        values = tensor_values(operator, target, why, found)
        return Explanation(str(operator), str(target), False, why, offered, slow, (), values, of)
    return Explanation(str(operator), str(target), True, (), (), plan, (), tensor_values(operator, target), of)


def reasons(operator: Operator, target: Target, refusal: NoLegalLayout) -> tuple[Diagnostic, ...]:
    """Return why boxes do not do an operator: where no rule says it for its reader, what speaks against any."""
    if refusal.diagnostics or not isinstance(operator, Copy) or operator.consumer is None:
        return refusal.diagnostics
    try:
        cached_plan(replace(operator, consumer="threads"), target, boxes_of(operator))
    except NoLegalLayout as other:
        return other.diagnostics
    return ()


def _by_means(operator: Operator, target: Target) -> tuple[str, ...]:
    """Return for which values of its dims an operator goes by which means, a sentence each, boxes first."""
    from legalsat.extract.region import legal_region  # noqa: PLC0415 - isl is not needed without dims

    try:
        region = legal_region(operator, target)
    except LegalSatError:
        return ()
    return tuple(f"{'else ' if place else ''}{one}" for place, one in enumerate(region.family))


def _of_tensor(repair: Repair, operator: Operator) -> Repair:
    """Return a repair of an operator as one of its source; other options are the operator's, which then stays."""
    after = repair.after
    asked = isinstance(operator, Copy) and (after.tile, after.consumer) == (operator.tile, operator.consumer)
    return replace(repair, after=after.source) if asked else repair


def _without_boxes(operator: Operator, target: Target) -> Plan | None:
    """Return how the operator is done as it is, without a tensor map; None where no means will do."""
    try:
        return cached_plan(operator, target)
    except LegalSatError:
        return None
