"""One condition text, four readings.

A rule's condition is written once with ordinary operators and the functions below. What it means depends on the
values that go in: ints give a bool, numpy arrays give an array of bools (a batch of requests at once), Z3 variables
a formula (`legalsat.extract.solve.z3_logic`), isl expressions a set of parameters (`legalsat.analyses.sets.isl_logic`).

A symbolic reading derives `Number` and `Truth`. `bool()` of a `Truth` raises, so no rule can compare a variable in
silence: a condition holds, fails, or is unknown.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from legalsat.errors import LegalSatError

# What rules compute with. They are written once for all readings, so the static type stays open.
Value: TypeAlias = Any
Condition: TypeAlias = Any
ARRAY_CEILING = 2**62


class UnknownTruth(LegalSatError):
    """Python asked a condition on variables whether it is true; combine it with `legalsat.logic` instead."""


class Number(ABC):
    """A number that is not known yet. A reading implements the operators; ints may stand on either side."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # equality makes a condition, so a number is no dictionary key

    @abstractmethod
    def __add__(self, other: Value) -> Value: ...
    @abstractmethod
    def __radd__(self, other: Value) -> Value: ...
    @abstractmethod
    def __sub__(self, other: Value) -> Value: ...
    @abstractmethod
    def __rsub__(self, other: Value) -> Value: ...
    @abstractmethod
    def __mul__(self, other: Value) -> Value: ...
    @abstractmethod
    def __rmul__(self, other: Value) -> Value: ...
    @abstractmethod
    def __floordiv__(self, other: Value) -> Value: ...
    @abstractmethod
    def __rfloordiv__(self, other: Value) -> Value: ...
    @abstractmethod
    def __mod__(self, other: Value) -> Value: ...
    @abstractmethod
    def __rmod__(self, other: Value) -> Value: ...
    @abstractmethod
    def __eq__(self, other: object) -> Any: ...
    @abstractmethod
    def __ne__(self, other: object) -> Any: ...
    @abstractmethod
    def __lt__(self, other: Value) -> Condition: ...
    @abstractmethod
    def __le__(self, other: Value) -> Condition: ...
    @abstractmethod
    def __gt__(self, other: Value) -> Condition: ...
    @abstractmethod
    def __ge__(self, other: Value) -> Condition: ...

    def __bool__(self) -> bool:
        raise UnknownTruth("a number that is still open has no truth value; compare it and combine with legalsat.logic")


class Truth(ABC):
    """A condition on numbers that are not known yet."""

    __slots__ = ()

    @abstractmethod
    def __and__(self, other: Condition) -> Condition: ...
    @abstractmethod
    def __rand__(self, other: Condition) -> Condition: ...
    @abstractmethod
    def __or__(self, other: Condition) -> Condition: ...
    @abstractmethod
    def __ror__(self, other: Condition) -> Condition: ...
    @abstractmethod
    def __invert__(self) -> Condition: ...

    @abstractmethod
    def choose(self, then: Value, otherwise: Value) -> Value:
        """Return a number that is `then` where this holds and `otherwise` elsewhere."""

    def __bool__(self) -> bool:
        raise UnknownTruth("a condition on open numbers is neither true nor false yet; combine with legalsat.logic")


def negate(condition: Condition) -> Condition:
    """States that `condition` does not hold. Python reads `~True` as -2, so rules never write `~`."""
    return not condition if isinstance(condition, bool) else ~condition


def implies(premise: Condition, conclusion: Condition) -> Condition:
    """States that where `premise` holds, `conclusion` does."""
    return negate(premise) | conclusion


def all_of(*conditions: Condition) -> Condition:
    """States that every condition holds; true for none."""
    result: Condition = True
    for condition in conditions:
        result = condition if result is True else result & condition
    return result


def any_of(*conditions: Condition) -> Condition:
    """States that at least one condition holds; false for none."""
    result: Condition = False
    for condition in conditions:
        result = condition if result is False else result | condition
    return result


def within(low: Value, number: Value, high: Value) -> Condition:
    """States that low <= number <= high."""
    return (number >= low) & (number <= high)


def multiple_of(number: Value, divisor: Value) -> Condition:
    """States that `divisor` divides `number`."""
    return number % divisor == 0


def among(number: Value, options: Sequence[int]) -> Condition:
    """States that `number` is one of `options`."""
    return any_of(*(number == option for option in options))


def ceil_div(number: Value, divisor: Value) -> Value:
    """Return number / divisor rounded up; both positive."""
    return (number + (divisor - 1)) // divisor


def round_up(number: Value, step: Value) -> Value:
    """Return the smallest multiple of `step` that is at least `number`."""
    return ceil_div(number, step) * step


def choose(condition: Condition, then: Value, otherwise: Value) -> Value:
    """Return `then` where `condition` holds and `otherwise` elsewhere."""
    if isinstance(condition, bool | np.bool_):
        return then if condition else otherwise
    if isinstance(condition, Truth):
        return condition.choose(then, otherwise)
    return np.where(condition, then, otherwise)


def pick(table: Sequence[int], index: Value) -> Value:
    """Return table[index]; an index outside the table gives the last entry, so that no reading can fault."""
    if isinstance(index, int):
        return table[index] if 0 <= index < len(table) else table[-1]
    if isinstance(index, np.ndarray):
        inside = (index >= 0) & (index < len(table))
        return np.asarray(table, dtype=np.int64)[np.where(inside, index, len(table) - 1)]
    result: Value = table[-1]
    for i, entry in enumerate(table[:-1]):
        result = choose(index == i, entry, result)
    return result


def product(numbers: Sequence[Value]) -> Value:
    """Return the product of numbers that are not negative; 1 for none. In arrays it saturates at 2^62, not to wrap."""
    result: Value = 1
    for number in numbers:
        arrays = isinstance(result, np.ndarray) or isinstance(number, np.ndarray)
        result = _saturating(result, number) if arrays else result * number
    return result


def _saturating(one: Value, other: Value) -> NDArray[np.int64]:
    beyond = np.multiply(one, other, dtype=np.float64) >= ARRAY_CEILING
    return np.where(beyond, ARRAY_CEILING, np.multiply(one, other))
