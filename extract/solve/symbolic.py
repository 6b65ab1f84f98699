"""Plans for tensors with symbolic extents: one structure, and the exact set of extents for which it is legal."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import chain

from legalsat.analyses.sets.regions import check_names, corners
from legalsat.dims import Dim, Scaled, bind
from legalsat.errors import InvalidInput, LegalSatError
from legalsat.extract.search.planner import AS_IT_IS, ONE_AT_A_TIME, NoLegalLayout, plan
from legalsat.extract.search.structure import Structure, legal_values, open_dims, opened, structure_of
from legalsat.extract.search.views import map_type, views_of
from legalsat.operators import Move, access_of
from legalsat.operators.access import Access
from legalsat.plans.movement_plan import MovementPlan
from legalsat.targets import Target
from legalsat.units.tensor_map import TensorMap

# A value that no accident makes special: a prime times what alignments ask for.
_PRIME, _ALIGNED = 37, 128


def symbolic_plan(operator: Move, target: Target) -> MovementPlan:
    """Return a plan at representative extents whose `guard` is the set of extents for which its maps are legal.

    Axes are taken as they are: laws that hold for one value of a dim and not for another play no part.

    Raises:
        InvalidInput: no isl set says for which extents it is legal, or a dim's name is none of isl's.
        NoLegalLayout: no values in range are legal. Where that was seen at a sample alone, its cause says why.
    """
    return structured_plan(operator, target)[0]


@lru_cache(maxsize=256)
def structured_plan(operator: Move, target: Target) -> tuple[MovementPlan, Structure]:
    """Return the plan of `symbolic_plan`, and what of it stays when the dims take other values."""
    check_names(dim.name for dim in open_dims(operator))
    refusal: NoLegalLayout | None = None
    with ONE_AT_A_TIME:
        try:
            for values in _samples(operator, target):
                try:
                    found = plan(operator.bind(values), target, AS_IT_IS)
                except NoLegalLayout as error:
                    sample = ", ".join(f"{name} = {value}" for name, value in values.items())
                    message = f"no legal {operator} on {target}, as the sample {sample} shows"
                    refusal = refusal or NoLegalLayout(message, error.diagnostics)
                    continue
                structure = structure_of(
                    operator, values, found.access, found.tensor_maps, found.store, views=found.views
                )
                guard = str(legal_values(structure, target))
                return opened(found, structure, guard, target), structure
        except LegalSatError as error:
            if refusal is None:
                raise
            raise refusal from error
    raise refusal or InvalidInput(f"{operator} takes too many bits at every sample; give its dims smaller values")


def sample_of(plan: MovementPlan) -> MovementPlan:
    """Return a plan of open dims as one of the sample that its numbers are of; any other plan as it is.

    Raises:
        InvalidInput: no sample has them.
    """
    operator = plan.operator
    if not plan.guard:
        return plan
    known = _seen(plan)
    for values in chain([known] if known else [], _samples(operator, plan.target)):
        bound = operator.bind(values)
        if [mode[:3] for mode in access_of(bound).modes] == [mode[:3] for mode in plan.access.modes]:
            maps = tuple(tm.bind(values) for tm in plan.tensor_maps)
            grid = tuple((mode, bind(count, values)) for mode, count in plan.launch.grid)
            launch = replace(plan.launch, programs=bind(plan.launch.programs, values), grid=grid)
            return replace(plan, operator=bound, guard="", opened=(), tensor_maps=maps, launch=launch)
    raise InvalidInput("plan has numbers of no sample; synthesise it again")


def _seen(plan: MovementPlan) -> dict[str, int]:
    """Return the values of dims at which a plan was made, read off its access; nothing where that does not say all."""
    found: dict[str, int] = {}
    for formulas, mode in zip(plan.opened, plan.access.modes, strict=True):
        for formula, number in zip(formulas, (mode.extent, mode.source, mode.target), strict=True):
            if isinstance(formula, Dim):
                found.setdefault(formula.name, number)
            elif isinstance(formula, Scaled) and len(formula.dims) == 1 and mode.extent > 1:
                found.setdefault(formula.dims[0].name, number // formula.coefficient)
    return found if len(found) == len(open_dims(plan.operator)) else {}


def _samples(operator: Move, target: Target) -> Iterator[dict[str, int]]:
    """Yield values to plan at: the most aligned, the smallest aligned, then those that the rules themselves leave.

    What rules ask of the dims hangs on the order of the axes alone, and what they ask of boxes and swizzles not on the
    dims. So where nothing is legal at values that those rules leave, nothing is with the axes in this order.
    """
    dims = open_dims(operator)
    tried: list[tuple[dict[str, int], Access]] = []
    for choice in (_representative, _smallest_aligned):
        values = {dim.name: choice(dim) for dim in dims}
        try:
            tried.append((values, access_of(operator.bind(values), operator.tile)))
        except InvalidInput:  # these values make more bits than an access has
            continue
        yield values
    for values, access in tried[-1:]:
        for structure in _unsolved(operator, values, access):
            for corner in corners(legal_values(structure, target, only_open=True))[:1]:
                yield dict(zip(values, corner, strict=True))


def _unsolved(operator: Move, values: dict[str, int], access: Access) -> Iterator[Structure]:
    """Yield the structures that plans of an access may have, with placeholders for what would be solved."""
    type_name = map_type(access.word, operator.source.dtype)
    if type_name is not None:
        views = views_of(access, stores=not operator.loads_only)[0]
        maps = [TensorMap(type_name, v.extent, (0,) * (len(v.extent) - 1), (1,) * len(v.extent)) for v in views]
        if operator.loads_only:
            yield structure_of(operator, values, access, maps[:1], "none", views=views)
            return
        yield structure_of(operator, values, access, maps, "tma", views=views)
        yield structure_of(operator, values, access, maps[:1], "threads", views=views)


def _representative(dim: Dim) -> int:
    best = math.lcm(dim.multiple_of, _ALIGNED) * _PRIME
    if dim.min <= best <= dim.max:
        return best
    alignment = _ALIGNED
    while True:  # the most aligned value in range; at the latest with alignment 1 there is one
        step = math.lcm(dim.multiple_of, alignment)
        if (largest := dim.max // step * step) >= dim.min:
            return largest
        alignment //= 2


def _smallest_aligned(dim: Dim) -> int:
    step = math.lcm(dim.multiple_of, _ALIGNED)
    smallest = -(-dim.min // step) * step
    return smallest if smallest <= dim.max else dim.smallest
