"""Exact sets of the values that dims may have, as isl sets of parameters, and the same sets as plain constraints.

Sets here live in the space of `legalsat.analyses.sets.isl_logic.parameters`: one parameter a dim, no other dimensions.
Plain constraints (`Piece`) can be read with ints, isl numbers and Z3 numbers alike, so membership needs no isl.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import islpy as isl

from legalsat.analyses.sets.isl_logic import IslTruth, parameters
from legalsat.checks import INT64_MAX
from legalsat.dims import Dim
from legalsat.errors import InvalidInput
from legalsat.logic import Condition, Value, all_of, any_of, multiple_of, within

IslSet: TypeAlias = Any
MODERATE = 8192  # values up to here are preferred as samples, since tensors of them have plans
ALIGNMENTS = (128, 64, 32, 16, 8, 4, 2)


@dataclass(frozen=True, slots=True)
class Linear:
    """A constant plus coefficients times numbers: the dims, then the quotients of a piece."""

    coefficients: tuple[int, ...]
    constant: int

    def at(self, numbers: Sequence[Value]) -> Value:
        """Return the sum at these numbers."""
        terms = [number * c for c, number in zip(self.coefficients, numbers, strict=False) if c]
        return sum(terms, start=self.constant)


@dataclass(frozen=True, slots=True)
class Piece:
    """A convex part of a set, but for quotients.

    Attributes:
        quotients: numerator and positive divisor of each; it is rounded down, and may use those before it.
        zero: what is 0 in the piece.
        natural: what is 0 or more in the piece.
    """

    quotients: tuple[tuple[Linear, int], ...]
    zero: tuple[Linear, ...]
    natural: tuple[Linear, ...]

    def holds(self, numbers: Sequence[Value]) -> Condition:
        """States that the numbers lie in the piece."""
        known = list(numbers)
        for numerator, divisor in self.quotients:
            known.append(numerator.at(known) // divisor)
        return all_of(*(f.at(known) == 0 for f in self.zero), *(f.at(known) >= 0 for f in self.natural))


class Span(NamedTuple):
    """What one dim may be in a set: values from `low` to `high`, all `offset` plus a multiple of `step`."""

    low: int
    high: int
    step: int
    offset: int


def holds(pieces: Sequence[Piece], numbers: Sequence[Value]) -> Condition:
    """States that the numbers, one a dim in the order of their names, lie in the set made of the pieces."""
    return any_of(*(piece.holds(numbers) for piece in pieces))


def declared(dims: Sequence[Dim], numbers: Mapping[str, Value]) -> Condition:
    """States that numbers lie in the ranges of the dims of their names, and are such multiples."""
    return all_of(
        *(within(dim.min, numbers[dim.name], dim.max) for dim in dims),
        *(multiple_of(numbers[dim.name], dim.multiple_of) for dim in dims),
    )


def domain(dims: Sequence[Dim]) -> IslSet:
    """Return the values that the dims declare."""
    names = [dim.name for dim in dims]
    return set_where(declared(dims, parameters(names)), names)


def check_names(names: Iterable[str]) -> None:
    """Raise `InvalidInput` where isl's notation has no place for a name."""
    for name in names:
        try:
            read_back = isl.Set(f"[{name}] -> {{ [] : {name} > 0 }}").get_dim_name(isl.dim_type.param, 0)
        except isl.Error:
            read_back = None
        if read_back != name:
            raise InvalidInput(f"dim {name} has a name that isl's notation does not allow; call it K or the like")


def set_where(condition: Condition, names: Sequence[str]) -> IslSet:
    """Return the values of the parameters of these names at which a condition on them holds."""
    space = next(iter(parameters(names).values())).expression.get_domain_space()
    found = IslTruth(isl.Set.universe(space)) & condition
    return found.holds


def read(text: str) -> IslSet:
    """Return the set that `str` of one wrote."""
    return isl.Set(text)


@lru_cache(maxsize=256)
def pieces_of(text: str) -> tuple[Piece, ...]:
    """Return the set with this text as plain constraints; none for the empty set."""
    return pieces(read(text))


def pieces(region: IslSet) -> tuple[Piece, ...]:
    """Return a set as plain constraints; none for the empty set."""
    return tuple(_piece(part) for part in region.compute_divs().coalesce().get_basic_sets() if not part.is_empty())


def parts_of(region: IslSet) -> list[IslSet]:
    """Return the convex parts of a set, each as a set."""
    return [isl.Set.from_basic_set(part) for part in region.get_basic_sets()]


def _piece(part: Any) -> Piece:
    dims, divs = part.dim(isl.dim_type.param), part.dim(isl.dim_type.div)

    def linear(form: Any, scale: int, quotients: int) -> Linear:
        kinds = [(isl.dim_type.param, i) for i in range(dims)] + [(isl.dim_type.div, i) for i in range(quotients)]
        coefficients = (form.get_coefficient_val(kind, i).mul(scale).to_python() for kind, i in kinds)
        return Linear(tuple(map(int, coefficients)), int(form.get_constant_val().mul(scale).to_python()))

    space = part.get_local_space()
    quotients = []
    for i in range(divs):
        quotient = space.get_div(i)
        divisor = int(quotient.get_denominator_val().to_python())
        quotients.append((linear(quotient, divisor, i), divisor))
    found: dict[bool, list[Linear]] = {True: [], False: []}
    for constraint in part.get_constraints():
        found[constraint.is_equality()].append(linear(constraint, 1, divs))
    return Piece(tuple(quotients), tuple(found[True]), tuple(found[False]))


def one_dim(region: IslSet, position: int) -> IslSet:
    """Return what the dim at a position may be, as a set of one set dimension."""
    count = region.dim(isl.dim_type.param)
    moved = region.move_dims(isl.dim_type.set, 0, isl.dim_type.param, 0, count)
    moved = moved.project_out(isl.dim_type.set, position + 1, count - position - 1)
    return moved.project_out(isl.dim_type.set, 0, position).coalesce()


def span(values: IslSet) -> Span:
    """Return bounds and congruence of a set of one set dimension that is neither empty nor unbounded."""
    low, high = (int(bound.to_python()) for bound in (values.dim_min_val(0), values.dim_max_val(0)))
    if low == high:
        return Span(low, high, 1, 0)
    step = int(values.get_stride(0).to_python())
    return Span(low, high, step, low % step)


def spans(region: IslSet) -> tuple[Span, ...]:
    """Return the span of each dim in a set that is not empty."""
    return tuple(span(one_dim(region, i)) for i in range(region.dim(isl.dim_type.param)))


def corners(region: IslSet) -> list[tuple[int, ...]]:
    """Return the first and the last values of a set in the order of the dims; none for the empty set."""
    count = region.dim(isl.dim_type.param)
    moved = region.move_dims(isl.dim_type.set, 0, isl.dim_type.param, 0, count)
    points = [end.sample_point() for end in (moved.lexmin(), moved.lexmax()) if not end.is_empty()]
    return [
        tuple(int(point.get_coordinate_val(isl.dim_type.set, i).to_python()) for i in range(count)) for point in points
    ]


def most_aligned(region: IslSet) -> tuple[int, ...]:
    """Return values of a set that is not empty: each dim as aligned as can be, and moderate if any such value is."""
    names = [region.get_dim_name(isl.dim_type.param, i) for i in range(region.dim(isl.dim_type.param))]
    numbers = parameters(names)
    wishes = [(MODERATE, 1), *((INT64_MAX, step) for step in ALIGNMENTS)]
    for number in numbers.values():
        for most, step in wishes:
            narrowed = region.intersect(set_where(all_of(number <= most, multiple_of(number, step)), names))
            if not narrowed.is_empty():
                region = narrowed
                if step > 1:
                    break
    return corners(region)[-1]


def disjoint(whole: IslSet, parts: Sequence[IslSet]) -> tuple[list[IslSet], IslSet]:
    """Return each part less those before it, within the whole, and what of the whole is left over.

    The pieces stay as cutting made them: merged ones are fewer, but harder to say.
    """
    found, rest = [], whole
    for part in parts:
        found.append(rest.intersect(part))
        rest = rest.subtract(part)
    return found, rest


def modulus(values: IslSet) -> int:
    """Return a number such that a set of one set dimension is, between its bounds, periodic in it."""
    found = 1
    for part in values.compute_divs().get_basic_sets():
        space = part.get_local_space()
        for i in range(part.dim(isl.dim_type.div)):
            found = math.lcm(found, int(space.get_div(i).get_denominator_val().to_python()))
    return found
