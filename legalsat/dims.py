"""Extents that are known only later: `Dim`, and products of dims, which row-major strides are made of."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from legalsat.checks import INT64_MAX, integer
from legalsat.errors import InvalidInput
from legalsat.printable import shown


@dataclass(frozen=True, slots=True, order=True)
class Dim:
    """A symbolic extent.

    Attributes:
        name: what it is called in guards, an identifier.
        multiple_of: every value is a multiple of this.
        min, max: smallest and largest value, inclusive.
    """

    name: str
    multiple_of: int = 1
    min: int = 1
    max: int = 2**32

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise InvalidInput(f"dim name is {shown(self.name)}; give an identifier such as M")
        for field, low in (("multiple_of", 1), ("min", 1), ("max", 1)):
            object.__setattr__(self, field, integer(getattr(self, field), f"{field} of dim {self.name}", low=low))
        if self.smallest > self.max:
            raise InvalidInput(
                f"dim {self.name} has no value: no multiple of {self.multiple_of} lies in {self.min} to {self.max}; "
                "widen the range"
            )

    @property
    def smallest(self) -> int:
        """The smallest value in range."""
        return -(-self.min // self.multiple_of) * self.multiple_of

    def check(self, value: Any) -> int:
        """Return `value` if it is one of this dim's, else raise `InvalidInput`."""
        number = integer(value, f"dim {self.name}", low=self.min, high=self.max)
        if number % self.multiple_of:
            raise InvalidInput(f"dim {self.name} is {number}; give a multiple of {self.multiple_of}")
        return number

    def __mul__(self, other: Extent) -> Extent:
        return times(self, other)

    __rmul__ = __mul__

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Scaled:
    """A coefficient times a product of dims, such as 2*K or M*K."""

    coefficient: int
    dims: tuple[Dim, ...]

    def __mul__(self, other: Extent) -> Extent:
        return times(self, other)

    __rmul__ = __mul__

    def __str__(self) -> str:
        factors = [str(self.coefficient)] * (self.coefficient != 1) + [d.name for d in self.dims]
        return "*".join(factors)


MOST_FACTOR = 2**4096  # of products of extents; what is bound is below 2^63
Extent: TypeAlias = int | Dim | Scaled


def _parts(extent: Extent) -> tuple[int, tuple[Dim, ...]]:
    if isinstance(extent, Dim):
        return 1, (extent,)
    if isinstance(extent, Scaled):
        return extent.coefficient, extent.dims
    return integer(extent, "factor of an extent", low=0, high=MOST_FACTOR), ()


def times(one: Extent, other: Extent) -> Extent:
    """Return the product of two extents in canonical form."""
    if isinstance(one, int) and isinstance(other, int):
        return one * other
    (a, some), (b, more) = _parts(one), _parts(other)
    dims = tuple(sorted(some + more))
    if not dims or a * b == 0:
        return a * b
    return dims[0] if a * b == 1 and len(dims) == 1 else Scaled(a * b, dims)


def dims_of(*extents: Extent) -> tuple[Dim, ...]:
    """Return the dims that occur, each once, by name.

    Raises:
        InvalidInput: two different dims share a name.
    """
    found: dict[str, Dim] = {}
    for extent in extents:
        for dim in _parts(extent)[1]:
            if found.setdefault(dim.name, dim) != dim:
                raise InvalidInput(f"two different dims are called {dim.name}; rename one or make them equal")
    return tuple(found[name] for name in sorted(found))


def bind(extent: Extent, values: Mapping[str, int]) -> int:
    """Return the extent's value at `values`, which must name every dim in it."""
    coefficient, dims = _parts(extent)
    if not isinstance(values, Mapping):
        raise InvalidInput(f"values of dims are {shown(values)}; give a mapping from names to integers")
    missing = [d.name for d in dims if d.name not in values]
    if missing:
        raise InvalidInput(f"dim {missing[0]} has no value; bind {missing[0]}=...")
    value = coefficient * math.prod(d.check(values[d.name]) for d in dims)
    if value > INT64_MAX:
        raise InvalidInput(f"{extent} is {value}, beyond 2^63 - 1; bind smaller dims")
    return value


def as_extent(value: Any, what: str, *, low: int) -> Extent:
    """Return `value` as an extent, or raise `InvalidInput` naming `what`."""
    if isinstance(value, Dim | Scaled):
        return value
    return integer(value, what, low=low)
