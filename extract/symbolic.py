"""Plans for tensors with symbolic extents: one structure, and the exact set of extents for which it is legal."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import reduce
from itertools import pairwise

from legalsat.analyses.isl_logic import IslNumber, IslTruth, parameters
from legalsat.dims import Dim, Extent, bind, dims_of, times
from legalsat.errors import InvalidInput
from legalsat.extract.planner import ONE_AT_A_TIME, NoLegalLayout, plan
from legalsat.logic import Truth, Value, all_of, multiple_of, within
from legalsat.operators import Operator, Transpose, dense_like
from legalsat.plan import Plan
from legalsat.rules import COPY_RULES
from legalsat.rules.movement import store_overlaps
from legalsat.sites import TmaCopy
from legalsat.targets import Target
from legalsat.tensor import row_major

# A value that no accident makes special: a prime times what alignments ask for.
_PRIME, _ALIGNED = 37, 128


def symbolic_plan(operator: Operator, target: Target) -> Plan:
    """Return a plan at representative extents whose `guard` is the set of extents for which its maps are legal.

    Axes are taken as they are: laws that hold for one value of a dim and not for another play no part.

    Raises:
        InvalidInput: a stride multiplies dims in a way whose alignment is not stated.
        NoLegalLayout: no values in range are legal.
    """
    with ONE_AT_A_TIME:
        return _symbolic_plan(operator, target)


def _symbolic_plan(operator: Operator, target: Target) -> Plan:
    dims = dims_of(*operator.source.shape, *operator.source.strides, *operator.target.strides)
    values = {dim.name: _representative(dim) for dim in dims}
    try:
        try:
            found = plan(operator.bind(values), target, rewrite=False)
        except NoLegalLayout:
            values = {dim.name: _smallest_aligned(dim) for dim in dims}
            found = plan(operator.bind(values), target, rewrite=False)
    except NoLegalLayout as refusal:
        sample = ", ".join(f"{name} = {value}" for name, value in values.items())
        raise NoLegalLayout(
            f"no legal {operator} on {target}, as the sample {sample} shows", refusal.diagnostics
        ) from None
    numbers = parameters([dim.name for dim in dims])
    legal = _domain(dims, numbers)
    for view in found.views:
        legal = legal & _legal(operator, _site(operator, found, view.side, values, numbers), target)
    if legal.holds.is_empty():
        raise NoLegalLayout(f"no legal {operator} on {target} for any value of {', '.join(values)}", ())
    return replace(found, operator=operator, guard=str(legal.holds))


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


def _domain(dims: tuple[Dim, ...], numbers: dict[str, IslNumber]) -> IslTruth:
    conditions = []
    for dim in dims:
        number = numbers[dim.name]
        conditions += [within(dim.min, number, dim.max), multiple_of(number, dim.multiple_of)]
    domain: IslTruth = all_of(*conditions)
    return domain


def _site(operator: Operator, found: Plan, side: str, values: dict[str, int], numbers: dict[str, IslNumber]) -> TmaCopy:
    """Return the site of one map with extents and strides open."""
    shape, ends = operator.source.shape, _strides(operator)
    bits = operator.source.dtype.bits
    at = [view.side for view in found.views].index(side)
    view = found.views[at]
    # Without rewriting, modes are axes; each is the axis with its extent and strides at the sample.
    free = list(range(len(shape)))
    axis_of = []
    for mode in found.access.modes:
        key = (mode.extent, mode.source, mode.target)
        axis = next(a for a in free if (bind(shape[a], values), *(bind(e[a], values) * bits for e in ends)) == key)
        free.remove(axis)
        axis_of.append(axis)
    strides = ends[side == "target"]
    extents, steps = [], []
    for group in view.groups:
        axes = [axis_of[mode] for mode in group]
        for inner, outer in pairwise(axes):
            if times(strides[inner], shape[inner]) != strides[outer]:
                raise InvalidInput(
                    f"axes {outer} and {inner} merge at the sample {values}, but not always; bind some of the dims"
                )
        extents.append(_number(reduce(times, (shape[a] for a in axes)), numbers, 1))
        steps.append(_number(strides[axes[0]], numbers, bits))
    return replace(
        TmaCopy.of(found.tensor_maps[at], stores=side == "target"),
        global_dim=tuple(extents),
        global_stride=tuple(step // 8 for step in steps[1:]),
        inner_stride_bits=steps[0],
        tile=view.tile,
        side=side,
    )


def _strides(operator: Operator) -> tuple[tuple[Extent, ...], tuple[Extent, ...]]:
    """Return the strides of both ends along the source's axes."""
    target = operator.target.strides
    if isinstance(operator, Transpose):
        target = tuple(target[operator.order.index(axis)] for axis in range(len(target)))
    return operator.source.strides, target


def _number(extent: Extent, numbers: dict[str, IslNumber], scale: int) -> Value:
    """Return an extent times `scale` as an isl number; a product of dims must be aligned whatever their values."""
    if isinstance(extent, int):
        return extent * scale
    if isinstance(extent, Dim):
        return numbers[extent.name] * scale
    if len(extent.dims) == 1:
        return numbers[extent.dims[0].name] * (extent.coefficient * scale)
    step = extent.coefficient * scale * math.prod(d.multiple_of for d in extent.dims)
    largest = extent.coefficient * scale * math.prod(d.max for d in extent.dims)
    if step % 256 or largest >= 2**43:
        raise InvalidInput(
            f"product {extent} multiplies dims, and may be misaligned or too large; state what its dims "
            "are multiples of and their largest values, or bind one of them"
        )
    return largest


def _legal(operator: Operator, site: TmaCopy, target: Target) -> IslTruth | bool:
    """Return the set of extents at which every rule holds at `site`."""
    strides = operator.target.strides
    dense = strides in (row_major(operator.target.shape), dense_like(operator.source).strides)
    if not dense and any(len(getattr(stride, "dims", ())) > 1 for stride in strides):
        raise InvalidInput("target's strides multiply dims, and only dense ones surely do not overlap; bind some dims")
    conditions = []
    for rule in COPY_RULES:
        # Dense memory does not overlap, whatever the extents; in strides alone isl could not see it.
        if rule.level == "error" and not (dense and rule is store_overlaps):
            conditions += [r.condition for r in rule(site, target)]
    legal: IslTruth | bool = all_of(*(c for c in conditions if isinstance(c, Truth) or not c))
    return legal
