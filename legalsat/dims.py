"""Extents that are known only later: `Dim`, products of dims, which row-major strides are made of, and formulas.

Arithmetic on them gives what is worked out when the dims are known: `at` does so in Python, `in_cpp` prints it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

from legalsat.checks import INT64_MAX, integer
from legalsat.errors import InvalidInput
from legalsat.logic import Value, choose
from legalsat.printable import shown


class Open:
    """Arithmetic of what is known only later; nothing here compares sizes, since none is known."""

    __slots__ = ()

    def __add__(self, other: Any) -> Any:
        return worked_out("+", self, other)

    def __radd__(self, other: Any) -> Any:
        return worked_out("+", other, self)

    def __sub__(self, other: Any) -> Any:
        return worked_out("-", self, other)

    def __rsub__(self, other: Any) -> Any:
        return worked_out("-", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return worked_out("//", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return worked_out("//", other, self)

    def __mod__(self, other: Any) -> Any:
        return worked_out("%", self, other)

    def __rmod__(self, other: Any) -> Any:
        return worked_out("%", other, self)

    def __mul__(self, other: Any) -> Any:
        return times(self, other)

    def __rmul__(self, other: Any) -> Any:
        return times(self, other)

    def __lt__(self, other: Any) -> bool:
        if not isinstance(self, Dim) or not isinstance(other, Dim):
            self._unknown()
        return _key(self) < _key(other)  # by name, for sorting

    def __le__(self, other: Any) -> bool:
        self._unknown()

    def __gt__(self, other: Any) -> bool:
        self._unknown()

    def __ge__(self, other: Any) -> bool:
        self._unknown()

    def _unknown(self) -> NoReturn:
        raise InvalidInput(f"extent {self} is symbolic; bind its dims first")


@dataclass(frozen=True, slots=True, repr=False)
class Dim(Open):
    """A symbolic extent.

    Attributes:
        name: what it is called in guards, an identifier.
        multiple_of: every value is a multiple of this.
        min, max: smallest and largest value, inclusive.
        typical: the value that kernels are chosen for; 0 where none is stated.
    """

    name: str
    multiple_of: int = 1
    min: int = 1
    max: int = 2**32
    typical: int = 0

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
        object.__setattr__(self, "typical", integer(self.typical, f"typical of dim {self.name}", low=0))
        if self.typical:
            try:
                self.check(self.typical)
            except InvalidInput as error:
                raise InvalidInput(f"typical value: {error}") from None

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

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        usual = {"multiple_of": 1, "min": 1, "max": 2**32, "typical": 0}
        said = [f"{name}={getattr(self, name)}" for name, value in usual.items() if getattr(self, name) != value]
        return f"Dim({', '.join([repr(self.name), *said])})"


@dataclass(frozen=True, slots=True)
class Scaled(Open):
    """A coefficient times a product of dims, such as 2*K or M*K."""

    coefficient: int
    dims: tuple[Dim, ...]

    def __str__(self) -> str:
        factors = [str(self.coefficient)] * (self.coefficient != 1) + [d.name for d in self.dims]
        return "*".join(factors)


@dataclass(frozen=True, slots=True, repr=False)
class Formula(Open):
    """What an operation makes of two extents: "+", "-", "*", "//", "%", or "min". Nothing in one is ever below 0."""

    operation: str
    one: Amount
    other: Amount

    def __str__(self) -> str:
        if self.operation == "min":
            return f"min({self.one}, {self.other})"
        inside = [f"({one})" if _binds_less(one, self, first) else str(one) for first, one in _ends(self)]
        return f" {self.operation} ".join(inside)

    def __repr__(self) -> str:
        return str(self)


MOST_FACTOR = 2**4096  # of products of extents; what is bound is below 2^63
Extent: TypeAlias = int | Dim | Scaled
Amount: TypeAlias = int | Open
TYPICAL = 4096  # of dims that state nothing
_FOLDS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "min": lambda one, other: one if one is other else choose(one < other, one, other),
}
_NEUTRAL = {"+": 0, "-": 0, "*": 1, "//": 1}
_SUMS = ("+", "-")


def _key(dim: Dim) -> tuple[Any, ...]:
    return (dim.name, dim.multiple_of, dim.min, dim.max, dim.typical)


def _ends(formula: Formula) -> tuple[tuple[bool, Amount], tuple[bool, Amount]]:
    return (True, formula.one), (False, formula.other)


def _binds_less(one: Amount, outer: Formula, first: bool) -> bool:
    """Whether an operand needs parentheses."""
    if isinstance(one, Scaled):
        return not first and outer.operation in {"//", "%"}
    if not isinstance(one, Formula) or one.operation == "min":
        return False
    if outer.operation in _SUMS:
        return not first and one.operation in _SUMS
    return not first or one.operation in _SUMS


def worked_out(operation: str, one: Amount, other: Amount) -> Any:
    """Return what an operation makes of two extents, a formula where one of them is open."""
    if isinstance(one, int) and isinstance(other, int):
        return _FOLDS[operation](one, other)
    if operation == "+" and isinstance(one, int):
        one, other = other, one
    if isinstance(other, int):
        if other == _NEUTRAL.get(operation):
            return one
        inner = one.one if isinstance(one, Formula) else 0
        if operation in _SUMS and isinstance(one, Formula) and one.operation in _SUMS and isinstance(one.other, int):
            known = (one.other if one.operation == "+" else -one.other) + (other if operation == "+" else -other)
            return worked_out("+" if known >= 0 else "-", inner, abs(known))
    if operation == "//" and isinstance(one, Scaled) and isinstance(other, int) and one.coefficient % other == 0:
        return times(one.coefficient // other, Scaled(1, one.dims))
    if not isinstance(one, int | Open) or not isinstance(other, int | Open):
        raise InvalidInput(f"extents are {shown(one)} and {shown(other)}; give integers or dims")
    return Formula(operation, one, other)


def least_of(one: Amount, other: Amount) -> Any:
    """Return the smaller of two extents."""
    return worked_out("min", one, other)


def at(extent: Any, numbers: Mapping[str, Value]) -> Value:
    """Return an extent where the dims are these numbers: ints, or open ones of a reading of `legalsat.logic`."""
    if isinstance(extent, int):
        return extent
    if isinstance(extent, Dim):
        return numbers[extent.name]
    if isinstance(extent, Scaled):
        found: Value = extent.coefficient
        for dim in extent.dims:
            found = numbers[dim.name] * found
        return found
    return _FOLDS[extent.operation](at(extent.one, numbers), at(extent.other, numbers))


def in_cpp(extent: Any, prefix: str = "") -> str:
    """Return an extent as an expression of C++, of 64 bits with a sign, whose dims are variables behind a prefix."""
    if isinstance(extent, int):
        return f"{extent}u" if extent >= 2**63 else f"{extent}ll" if abs(extent) >= 2**31 else str(extent)
    if isinstance(extent, Dim):
        return f"{prefix}{extent.name}"
    if isinstance(extent, Scaled):
        known = [in_cpp(extent.coefficient)] * (extent.coefficient != 1)
        return " * ".join([*(f"{prefix}{dim.name}" for dim in extent.dims), *known])
    one, other = (in_cpp(end, prefix) for end in (extent.one, extent.other))
    if extent.operation == "min":
        return f"({one} < {other} ? {one} : {other})"
    ends = [
        f"({text})" if isinstance(end, Scaled | Formula) else text
        for end, text in ((extent.one, one), (extent.other, other))
    ]
    return f" {'/' if extent.operation == '//' else extent.operation} ".join(ends)


def _parts(extent: Extent) -> tuple[int, tuple[Dim, ...]]:
    if isinstance(extent, Dim):
        return 1, (extent,)
    if isinstance(extent, Scaled):
        return extent.coefficient, extent.dims
    return integer(extent, "factor of an extent", low=0, high=MOST_FACTOR), ()


def times(one: Any, other: Any) -> Any:
    """Return the product of two extents in canonical form."""
    if isinstance(one, int) and isinstance(other, int):
        return one * other
    if isinstance(one, Formula) or isinstance(other, Formula):
        if isinstance(one, int):
            one, other = other, one
        return 0 if other == 0 else worked_out("*", one, other)
    (a, some), (b, more) = _parts(one), _parts(other)
    dims = tuple(sorted(some + more))
    if not dims or a * b == 0:
        return a * b
    return dims[0] if a * b == 1 and len(dims) == 1 else Scaled(a * b, dims)


def _dims(extent: Any) -> tuple[Dim, ...]:
    if isinstance(extent, Formula):
        return (*_dims(extent.one), *_dims(extent.other))
    return _parts(extent)[1]


def dims_of(*extents: Any) -> tuple[Dim, ...]:
    """Return the dims that occur, each once, by name.

    Raises:
        InvalidInput: two different dims share a name.
    """
    found: dict[str, Dim] = {}
    for extent in extents:
        for dim in _dims(extent):
            if found.setdefault(dim.name, dim) != dim:
                raise InvalidInput(f"two different dims are called {dim.name}; rename one or make them equal")
    return tuple(found[name] for name in sorted(found))


def bind(extent: Any, values: Mapping[str, int]) -> int:
    """Return the extent's value at `values`, which must name every dim in it."""
    dims = _dims(extent)
    if not isinstance(values, Mapping):
        raise InvalidInput(f"values of dims are {shown(values)}; give a mapping from names to integers")
    missing = [d.name for d in dims if d.name not in values]
    if missing:
        raise InvalidInput(f"dim {missing[0]} has no value; bind {missing[0]}=...")
    value: int = at(extent, {d.name: d.check(values[d.name]) for d in dims})
    if value > INT64_MAX:
        raise InvalidInput(f"{extent} is {value}, beyond 2^63 - 1; bind smaller dims")
    return value


def typical_of(dims: Iterable[Dim]) -> dict[str, int]:
    """Return the value of each dim that kernels are chosen for: what it states, or about 4096 where it states none."""
    return {dim.name: dim.typical or near(dim, TYPICAL) for dim in dims}


def near(dim: Dim, value: int) -> int:
    """Return a value of a dim near to one: a multiple of 8 if it has any."""
    for step in (math.lcm(dim.multiple_of, 8), dim.multiple_of):
        low, high = -(-dim.min // step) * step, dim.max // step * step
        if low <= high:
            return min(max(value // step * step, low), high)
    return dim.smallest


def as_extent(value: Any, what: str, *, low: int) -> Extent:
    """Return `value` as an extent, or raise `InvalidInput` naming `what`."""
    if isinstance(value, Dim | Scaled):
        return value
    return integer(value, what, low=low)
