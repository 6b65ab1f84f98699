"""Why something is refused, and the repairs that were tried and found to work, those with the least total first."""

from __future__ import annotations

from dataclasses import replace

from legalsat.diagnostics import Diagnostic
from legalsat.errors import LegalSatError
from legalsat.explanation import USES, Explanation, Repair
from legalsat.extract.check.recheck import recheck
from legalsat.extract.explain.map_exchange import dense_dimension, exchanged
from legalsat.extract.explain.map_repair import as_repair, map_repairs
from legalsat.extract.explain.tensor_repair import as_it_is, boxed, boxes_of, repairs, unit_repair
from legalsat.extract.explain.tensor_values import tensor_values
from legalsat.extract.region.obligations import obligations
from legalsat.extract.search.planner import NoLegalLayout, cached_plan
from legalsat.extract.search.rows import in_axes, of_rows, row_errors, warnings_of
from legalsat.extract.solve.symbolic import symbolic_plan
from legalsat.operators import Move
from legalsat.plans.movement_plan import MovementPlan
from legalsat.targets import Target
from legalsat.units.tensor_map import TensorMap


def explain_tensor_map(tm: TensorMap, target: Target, found: list[Diagnostic]) -> Explanation:
    """Return the explanation of a tensor map from its violations."""
    legal = not any(d.level == "error" for d in found)
    more = obligations(tm, target) if legal else ()
    tried = () if legal else _of_map(tm, target)
    return Explanation(str(tm), str(target), legal, tuple(found), repairs=tried, obligations=more, of=tm)


def _of_map(tm: TensorMap, target: Target) -> tuple[Repair, ...]:
    """Return the repairs of a refused map. Where its axes are in the wrong order no longer stride is one of them."""
    found = map_repairs(tm, target)
    if dense_dimension(tm) is None:
        return tuple(as_repair(one, tm, target) for one in found)
    turned = exchanged(tm, target) if target.tma is not None else None
    kept = tuple(as_repair(one, tm, target) for one in found if "pad" not in one.parts)
    return kept if turned is None else (turned, *kept)


def explain_plan(plan: MovementPlan, target: Target, uses: int = USES) -> Explanation:
    """Return whether a plan's operator is legal on `target`; the plan itself must hold where it was made for."""
    if not plan.guard:
        recheck(plan)
    return explain_tensor(plan.operator, target, uses=uses)


def explain_tensor(operator: Move, target: Target, *, alone: bool = False, uses: int = USES) -> Explanation:
    """Return whether boxes of a tensor map do an operator, and if not why and what would make them.

    A copy is judged by the rows of its source (`legalsat.extract.search.rows`): what a plan makes of it by another view
    of the same elements is said besides. Other operators are judged by the best view of their tensors.

    Args:
        operator: a movement.
        target: the GPU.
        alone: whether its source was asked about and the rest of it was added, so that repairs are tensors as well,
            but for those that change the tile.
        uses: how often what was repaired is used, for the totals of repairs.
    """
    of = operator.source if alone else operator
    if operator.source.dims or operator.target.dims:  # a repair is planned, which takes plain numbers
        try:
            plan = symbolic_plan(operator, target)
        except NoLegalLayout as refusal:
            values = _by_means(operator, target)
            return Explanation(str(operator), str(target), False, refusal.diagnostics, values=values, of=of)
        values = _by_means(operator, target)
        return Explanation(str(operator), str(target), True, (), (), plan, values=values, of=of)
    why, said = refused(operator, target)
    legal = why is None
    best = (boxed(operator, target) if legal else None) or as_it_is(operator, target)
    if legal:
        found = unit_repair(operator, target, best, uses) if operator.by_rows else ()
    else:
        found = repairs(operator, target, best, why or (), uses)
    offered = tuple(_of_tensor(repair, operator) for repair in found) if alone else found
    values = (*said, *tensor_values(operator, target, why or (), () if legal else found))
    warned = warnings_of(operator.source, target) if operator.by_rows else ()
    shown = (*(why or ()), *warned)
    return Explanation(
        str(operator), str(target), legal, shown, offered, best, (), values, of, uses=uses, viewed=bool(said)
    )


def refused(operator: Move, target: Target) -> tuple[tuple[Diagnostic, ...] | None, tuple[str, ...]]:
    """Return why an operator is refused, None if it is legal; and what is to be said of another view that is legal."""
    errors = row_errors(operator, target) if operator.by_rows else ()
    try:
        plan = cached_plan(operator, target, boxes_of(operator))
    except NoLegalLayout as refusal:
        if operator.by_rows and (errors or of_rows(operator)):
            return errors or None, ()
        return _in_axes(operator, reasons(operator, target, refusal), target), ()
    except LegalSatError:
        if not operator.by_rows:
            raise
        return errors or None, ()
    if not errors:
        return None, ()
    return errors, (f"legal through another view of the same elements: {plan.tensor_maps[0]}",)


def reasons(operator: Move, target: Target, refusal: NoLegalLayout) -> tuple[Diagnostic, ...]:
    """Return why boxes do not do an operator: where no rule says it for its reader, what speaks against any."""
    if refusal.diagnostics or not operator.by_rows or operator.consumer is None:
        return refusal.diagnostics
    try:
        cached_plan(operator.but(consumer="threads"), target, boxes_of(operator))
    except NoLegalLayout as other:
        return other.diagnostics
    return ()


def _in_axes(operator: Move, found: tuple[Diagnostic, ...], target: Target) -> tuple[Diagnostic, ...]:
    """Return diagnostics that number axes as the operator's tensors do."""
    if operator.order is None:
        return found  # already in axes of the source
    tile = operator.axis_tile
    turned = None if tile is None else tuple(tile[axis] for axis in operator.order)
    found = in_axes(found, operator.source, tile, target)
    return in_axes(found, operator.target, turned, target, "target")


def _by_means(operator: Move, target: Target) -> tuple[str, ...]:
    """Return for which values of its dims an operator goes by which means, a sentence each, boxes first."""
    from legalsat.extract.region.region import legal_region  # noqa: PLC0415 - isl is not needed without dims

    try:
        region = legal_region(operator, target)
    except LegalSatError:
        return ()
    return tuple(f"{'else ' if place else ''}{one}" for place, one in enumerate(region.family))


def _of_tensor(repair: Repair, operator: Move) -> Repair:
    """Return a repair of an operator as one of its source; other options are the operator's, which then stays."""
    after = repair.after
    asked = (after.tile, after.consumer) == (operator.tile, operator.consumer)
    return replace(repair, after=after.source) if asked else repair
