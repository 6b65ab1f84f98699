"""The recorded reading of rule conditions: what was computed, as a value that can be kept, compared and read again.

A record costs a tuple an operation. It is evaluated on ints, or on another reading's numbers, such as Z3's: so
conditions on one variable are decided over its few values at once, and only what is left goes to the solver.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from legalsat.logic import Condition, Number, Truth, Value, all_of, any_of, choose, negate

# An int, a bool, ("open", name), or an operator and its operands.
Record: TypeAlias = Any


def record(value: Value) -> Record:
    """Return the record of a number or condition; what is known stands for itself."""
    return value.record if type(value) in _RECORDED else value  # isinstance asks the abstract classes, which is slow


class RecordedTruth(Truth):
    """A condition on open numbers."""

    __slots__ = ("record",)

    def __init__(self, record: Record) -> None:
        self.record = record

    def __and__(self, other: Condition) -> Condition:
        other = record(other)
        return (self if other else False) if _is_bool(other) else RecordedTruth(("and", self.record, other))

    def __or__(self, other: Condition) -> Condition:
        other = record(other)
        return (True if other else self) if _is_bool(other) else RecordedTruth(("or", self.record, other))

    __rand__ = __and__
    __ror__ = __or__

    def __invert__(self) -> Condition:
        return RecordedTruth(("not", self.record))

    def choose(self, then: Value, otherwise: Value) -> Value:
        """Return a number that is `then` where this holds and `otherwise` elsewhere."""
        then, otherwise = record(then), record(otherwise)
        return Recorded(("choose", self.record, then, otherwise)) if then != otherwise else then


def _is_bool(value: Any) -> bool:
    return value is True or value is False


class Recorded(Number):  # noqa: PLW1641 - equality is a condition
    """An open number, or what was computed from one."""

    __slots__ = ("record",)

    def __init__(self, record: Record) -> None:
        self.record = record

    def __add__(self, other: Value) -> Recorded:
        return Recorded(("+", self.record, record(other)))

    def __radd__(self, other: Value) -> Recorded:
        return Recorded(("+", other, self.record))

    def __sub__(self, other: Value) -> Recorded:
        return Recorded(("-", self.record, record(other)))

    def __rsub__(self, other: Value) -> Recorded:
        return Recorded(("-", other, self.record))

    def __mul__(self, other: Value) -> Recorded:
        return Recorded(("*", self.record, record(other))) if not _is_one(other) else self

    def __rmul__(self, other: Value) -> Recorded:
        return Recorded(("*", other, self.record)) if not _is_one(other) else self

    def __floordiv__(self, other: Value) -> Recorded:
        return Recorded(("//", self.record, record(other))) if not _is_one(other) else self

    def __rfloordiv__(self, other: Value) -> Recorded:
        return Recorded(("//", other, self.record))

    def __mod__(self, other: Value) -> Recorded:
        return Recorded(("%", self.record, record(other)))

    def __rmod__(self, other: Value) -> Recorded:
        return Recorded(("%", other, self.record))

    def __eq__(self, other: object) -> RecordedTruth:  # type: ignore[override]
        return RecordedTruth(("==", self.record, record(other)))

    def __ne__(self, other: object) -> RecordedTruth:  # type: ignore[override]
        return RecordedTruth(("!=", self.record, record(other)))

    def __lt__(self, other: Value) -> RecordedTruth:
        return RecordedTruth(("<", self.record, record(other)))

    def __le__(self, other: Value) -> RecordedTruth:
        return RecordedTruth(("<=", self.record, record(other)))

    def __gt__(self, other: Value) -> RecordedTruth:
        return RecordedTruth((">", self.record, record(other)))

    def __ge__(self, other: Value) -> RecordedTruth:
        return RecordedTruth((">=", self.record, record(other)))


_RECORDED = (Recorded, RecordedTruth)


def _is_one(value: Value) -> bool:
    return isinstance(value, int) and value == 1


def open_number(name: str) -> Recorded:
    """Return a number of that name that is not known yet."""
    return Recorded(("open", name))


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "and": all_of,
    "or": any_of,
    "not": negate,
    "choose": choose,
}


def evaluated(value: Value, known: Mapping[str, Value]) -> Value:
    """Return a recorded number or condition at the given values of its open numbers: ints, or another reading's."""
    return at(record(value), known)


def at(record: Record, known: Mapping[str, Value]) -> Value:
    """Return what a record comes to."""
    if not isinstance(record, tuple):
        return record
    if record[0] == "open":
        return known[record[1]]
    if len(record) == 3:
        return _OPERATIONS[record[0]](at(record[1], known), at(record[2], known))
    return _OPERATIONS[record[0]](*(at(operand, known) for operand in record[1:]))


def reach(record: Record, largest: Mapping[str, int]) -> int:
    """Return a magnitude that no number in a record exceeds, nor any on the way to it.

    Args:
        record: of a number or a condition.
        largest: the largest magnitude of each open number.
    """
    if not isinstance(record, tuple):
        known: float = abs(record)
        return math.ceil(known)
    if record[0] == "open":
        return largest[record[1]]
    reached = [reach(operand, largest) for operand in record[1:]]
    if record[0] in {"+", "-"}:
        return sum(reached)
    return math.prod(max(1, one) for one in reached) if record[0] == "*" else max(reached)


@lru_cache(maxsize=8192)
def names(record: Record) -> frozenset[str]:
    """Return the names of the open numbers in a record."""
    if not isinstance(record, tuple):
        return frozenset()
    if record[0] == "open":
        return frozenset(record[1:])
    return frozenset().union(*map(names, record[1:]))
