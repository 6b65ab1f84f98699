"""What of a plan stays when its dims take other values, and what the rules ask of those values then."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from typing import Any

from legalsat.analyses.sets.isl_logic import IslNumber, parameters
from legalsat.analyses.sets.isl_products import IslProduct
from legalsat.analyses.sets.regions import IslSet, declared, set_where
from legalsat.dims import Dim, Extent, at, bind, dims_of, least_of, times
from legalsat.errors import InvalidInput
from legalsat.extract.cost.cost import NOMINAL
from legalsat.logic import Condition, Truth, Value, all_of, any_of, ceil_div, choose, multiple_of
from legalsat.operators import Move, atom_bytes, back, dense_like, distance
from legalsat.operators.access import Access
from legalsat.plans.movement_plan import MovementPlan, VectorCopy, View
from legalsat.plans.plan import Launch
from legalsat.rules import COPY_RULES, VECTOR_RULES
from legalsat.rules.movement import store_overlaps
from legalsat.rules.vectors import BULK
from legalsat.targets import GRANULE_BYTES, Target
from legalsat.tensor import row_major
from legalsat.units.sites import TmaCopy, VectorAccess
from legalsat.units.tensor_map import TensorMap

THREADS_STORE = "threads' store"  # stands for a rule's code where threads store, which rules of tensor maps say not of


@dataclass(frozen=True, slots=True)
class OpenView:
    """A view whose dims are open: extents in elements and strides in bits, fastest first."""

    view: View
    extents: tuple[Extent, ...]
    strides: tuple[Extent, ...]


@dataclass(frozen=True, slots=True)
class Structure:
    """How a plan sees its tensors, and its solved fields.

    Attributes:
        operator: the movement with its dims.
        views: one for each tensor map.
        tensor_maps: the maps at a sample; their boxes, swizzles and the like stay.
        stored: how threads store the target where no map does.
        copies: the vectors in which a plan without maps loads and stores.
        modes: of the access: the extent, and the strides in bits on both sides.
    """

    operator: Move
    views: tuple[OpenView, ...]
    tensor_maps: tuple[TensorMap, ...]
    stored: OpenView | None
    copies: tuple[VectorCopy, ...] = ()
    modes: tuple[tuple[Extent, Extent, Extent], ...] = ()

    @property
    def dims(self) -> tuple[Dim, ...]:
        """The dims, by name."""
        return open_dims(self.operator)


def open_dims(operator: Move) -> tuple[Dim, ...]:
    """Return the dims of an operator, by name; raise `InvalidInput` where it does more than permute axes."""
    if not operator.permutes:
        raise InvalidInput(f"{operator} does more than permute axes; bind its dims first")
    return dims_of(*operator.source.shape, *operator.source.strides, *operator.target.strides)


def structure_of(
    operator: Move,
    values: Mapping[str, int],
    access: Access,
    maps: Sequence[TensorMap],
    store: str,
    *,
    views: tuple[View, View],
    copies: tuple[VectorCopy, ...] = (),
) -> Structure:
    """Return the structure of a plan.

    Args:
        operator: the movement with its dims.
        values: the sample that was planned.
        access: the plan's access, whose modes are the axes at the sample.
        maps: its tensor maps: the source's, then the target's unless threads store.
        store: "tma", "threads" or "none".
        views: how both sides see the access.
        copies: its vectors, where it has no maps.

    Raises:
        InvalidInput: a view merges axes that follow each other in memory at the sample, but not always.
    """
    shape, ends, bits = operator.source.shape, _strides(operator), operator.source.dtype.bits
    free = list(range(len(shape)))
    axis_of = []
    for mode in access.modes:
        key = (mode.extent, mode.source, mode.target)
        axis = next(a for a in free if key == _key(bind(shape[a], values), (bind(e[a], values) * bits for e in ends)))
        free.remove(axis)
        axis_of.append(axis)

    def opened(view: View) -> OpenView:
        strides = ends[view.side == "target"]
        groups = [[axis_of[mode] for mode in group] for group in view.groups]
        for inner, outer in (pair for axes in groups for pair in pairwise(axes)):
            if times(strides[inner], shape[inner]) != strides[outer]:
                raise InvalidInput(
                    f"axes {outer} and {inner} merge at the sample {dict(values)}, but not always; bind some dims"
                )
        extents = tuple(reduce(times, (shape[a] for a in axes)) for axes in groups)
        return OpenView(view, extents, tuple(times(strides[axes[0]], bits) for axes in groups))

    load, target = map(opened, views)
    modes = tuple((shape[a], times(ends[0][a], bits), times(ends[1][a], bits)) for a in axis_of)
    if copies:
        return Structure(operator, (load, target)[: len(copies)], (), None, copies, modes)
    if store != "tma":
        return Structure(operator, (load,), tuple(maps), target if store == "threads" else None, modes=modes)
    return Structure(operator, (load, target), tuple(maps), None, modes=modes)


def opened(plan: MovementPlan, structure: Structure, guard: str, target: Target) -> MovementPlan:
    """Return a plan at a sample as the plan of all values in a set: its maps and its launch hold the dims."""
    maps = tuple(
        replace(tm, global_dim=view.extents, global_stride=tuple(one // 8 for one in view.strides[1:]))
        for tm, view in zip(plan.tensor_maps, structure.views, strict=False)
    )
    tiles = [mode.tile for mode in plan.access.modes]
    grid: Any = tuple((mode, ceil_div(structure.modes[mode][0], tiles[mode])) for mode, _ in plan.launch.grid)
    launch = Launch(plan.launch.warps, 0, grid)
    if plan.launch.programs:
        programs: Any = least_of((target.device or NOMINAL).processors, launch.tiles)
        launch = replace(launch, programs=programs)
    return replace(
        plan, operator=structure.operator, guard=guard, tensor_maps=maps, launch=launch, opened=structure.modes
    )


def require_counted(plan: MovementPlan) -> None:
    """Raise `InvalidInput` where the program of an open plan counts one tile along an axis that may have more."""
    counted = dict(plan.launch.grid)
    for number, (mode, (extent, _, _)) in enumerate(zip(plan.access.modes, plan.opened, strict=True)):
        most: int = at(extent, {dim.name: dim.max for dim in dims_of(extent)})
        if number not in counted and most > mode.tile:
            raise InvalidInput(
                f"axis of {extent} is one tile of {mode.tile} at the sample that was planned, and may have {most} "
                "elements; give a smaller tile, or a range that ends at a multiple of 128"
            )


def _key(extent: int, strides: Iterable[int]) -> tuple[int, ...]:
    """Return an axis as a mode has it: extent, and strides in bits on both sides."""
    return (extent, *(distance(extent, stride) for stride in strides))


def requirements(structure: Structure, numbers: Mapping[str, Value], target: Target) -> Iterator[tuple[str, Condition]]:
    """Yield what must hold where the dims are `numbers`: the rule's code and its condition.

    The numbers are ints, or open ones of a reading; Z3's names products of dims too, such as "K*M".
    """
    operator = structure.operator
    dense = _dense(operator)
    if structure.copies:
        yield from _of_vectors(structure, numbers, target, dense=dense)
        return
    for opened, tm in zip(structure.views, structure.tensor_maps, strict=True):
        extents, strides = _numbers(opened, numbers)
        site = replace(
            TmaCopy.of(tm, stores=opened.view.side == "target"),
            global_dim=extents,
            global_stride=tuple(stride // 8 for stride in strides[1:]),
            inner_stride_bits=strides[0],
            tile=opened.view.tile,
            side=opened.view.side,
            by_stride=opened.view.by_stride,
            atom_bytes=atom_bytes(operator),
        )
        for rule in COPY_RULES:
            # Dense memory does not overlap, whatever the extents; in strides alone isl could not see it.
            if rule.level == "error" and not (dense and rule is store_overlaps):
                yield from ((rule.code, requirement.condition) for requirement in rule(site, target))
    if structure.stored is not None and not dense:
        extents, strides = _numbers(structure.stored, numbers)
        yield from ((THREADS_STORE, c) for c in _apart(extents, strides, word=operator.source.dtype.bits))


def _of_vectors(
    structure: Structure, numbers: Mapping[str, Value], target: Target, *, dense: bool
) -> Iterator[tuple[str, Condition]]:
    """Yield what rules ask of rows that are moved in vectors; a stride that nothing is away asks for nothing."""
    ends = (structure.operator.source, structure.operator.target)
    for opened, copy, end in zip(structure.views, structure.copies, ends, strict=False):
        extents, strides = _numbers(opened, numbers)
        word = structure.operator.source.dtype.bits
        outer, over = [], []
        for i in range(1, len(extents)):
            if isinstance(
                strides[i], IslProduct
            ):  # has no sets of its own; so it is asked for where nothing is away too
                outer.append(strides[i] // 8)
                over.append(0)
                continue
            alone = extents[i] == 1
            outer.append(choose(alone, 0, strides[i] // 8))
            over.append(0 if dense else choose(alone, 0, ceil_div(strides[i - 1] * extents[i - 1], 8)))
        site = VectorAccess(
            instruction=copy.instruction,
            side=copy.side,
            bytes=GRANULE_BYTES if copy.instruction == BULK else copy.bytes,
            word=word,
            address=end.address,
            strides=tuple(outer),
            stepped_over=tuple(over),
            inner_stride_bits=strides[0],
            row_bits=extents[0] * word,
            tile_bits=opened.view.tile[0] * word,
        )
        for rule in VECTOR_RULES:
            yield from ((rule.code, requirement.condition) for requirement in rule(site, target))


def legal_values(structure: Structure, target: Target, *, only_open: bool = False) -> IslSet:
    """Return the values, of those that the dims declare, for which a structure is legal.

    Args:
        structure: what was planned at a sample.
        target: the GPU.
        only_open: leave out what rules say of the solved fields alone.

    Raises:
        InvalidInput: a product of dims passes a limit for some values and not for others.
        NotAffine: a rule multiplies open numbers.
    """
    names = [dim.name for dim in structure.dims]
    numbers = parameters(names)
    conditions = [declared(structure.dims, numbers)]
    for _, condition in requirements(structure, numbers, target):
        if isinstance(condition, Truth) or not (condition or only_open):
            conditions.append(condition)
    return set_where(all_of(*conditions), names)


def products_of(structure: Structure) -> tuple[tuple[Dim, ...], ...]:
    """Return the products of several dims that extents and strides hold, each after the shorter ones it begins with."""
    opened = [*structure.views, *([structure.stored] if structure.stored else [])]
    held = {getattr(n, "dims", ()) for view in opened for n in (*view.extents, *view.strides)}
    return tuple(sorted({dims[:count] for dims in held for count in range(2, len(dims) + 1)}, key=len))


def name_of(product: Sequence[Dim]) -> str:
    """Return what a product of dims is called among numbers."""
    return "*".join(dim.name for dim in product)


def _strides(operator: Move) -> tuple[tuple[Extent, ...], tuple[Extent, ...]]:
    """Return the strides of both ends along the source's axes."""
    target = operator.target.strides
    return operator.source.strides, tuple(target[axis] for axis in back(operator))


def _numbers(opened: OpenView, numbers: Mapping[str, Value]) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
    extents, strides = (tuple(_number(n, numbers) for n in column) for column in (opened.extents, opened.strides))
    return extents, strides


def _number(extent: Extent, numbers: Mapping[str, Value]) -> Value:
    """Return an extent as a number; a reading that multiplies no open numbers has its own way with products."""
    if isinstance(extent, int):
        return extent
    if isinstance(extent, Dim):
        return numbers[extent.name]
    if (name := name_of(extent.dims)) in numbers:
        return numbers[name] * extent.coefficient
    factors = tuple(numbers[dim.name] for dim in extent.dims)
    if isinstance(factors[0], IslNumber):
        return IslProduct(extent.coefficient, extent.dims, factors)
    return math.prod(factors) * extent.coefficient


def _dense(operator: Move) -> bool:
    """Whether the target's elements lie side by side whatever the dims are."""
    strides = operator.target.strides
    dense = strides in (row_major(operator.target.shape), dense_like(operator.source).strides)
    if not dense and any(len(getattr(stride, "dims", ())) > 1 for stride in strides):
        raise InvalidInput("target's strides multiply dims, and only dense ones surely do not overlap; bind some dims")
    return dense


def _apart(extents: Sequence[Value], strides: Sequence[Value], *, word: int) -> Iterator[Condition]:
    """States that threads can store: words lie at multiples of their size and share no memory (see `storable`)."""
    spanned: Value = word
    for axis, (extent, stride) in enumerate(zip(extents, strides, strict=True)):
        yield any_of(extent == 1, all_of(stride >= spanned, multiple_of(stride, word)))
        if axis + 1 < len(extents):  # what the last one spans nobody asks, and it may be no affine number
            spanned = spanned + (extent - 1) * stride
