"""What operators give of numbers, lists and arrays that are known; None of everything else."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

from legalsat.dtypes import DType
from legalsat.pasted.code.calls import call_of
from legalsat.pasted.code.methods import method_of
from legalsat.pasted.code.views import LARGEST, Array

MOST_REPEATS, MOST_SHIFT = 32, 48
_ORDERS: Mapping[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def is_number(value: Any) -> TypeGuard[int]:
    """Whether a value is a whole number, and not a huge one."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < LARGEST


def of_one(op: ast.unaryop, value: Any) -> Any:
    """Return what an operator gives of one value."""
    if isinstance(op, ast.Not):
        return not value if isinstance(value, bool | int) else None
    if isinstance(value, Array):
        return method_of(value, "clone", [], {})
    return -value if isinstance(op, ast.USub) and (is_number(value) or isinstance(value, float)) else None


def compared(one: Any, op: ast.cmpop, other: Any) -> bool | None:
    """Return what a comparison gives."""
    if not isinstance(one, int | str | DType) or not isinstance(other, int | str | DType):
        return None
    if isinstance(op, ast.Eq | ast.NotEq):
        return (one == other) is isinstance(op, ast.Eq)
    order = _ORDERS.get(type(op))
    return order(one, other) if order is not None and is_number(one) and is_number(other) else None


def of_two(one: Any, op: ast.operator, other: Any) -> Any:
    """Return what an operator gives of two values."""
    if isinstance(one, Array) or isinstance(other, Array):
        return call_of("operator", [one, other], {"op": type(op).__name__})
    if isinstance(one, list) and isinstance(other, list) and isinstance(op, ast.Add):
        return one + other
    if isinstance(one, tuple) and isinstance(other, tuple) and isinstance(op, ast.Add):
        return one + other
    if isinstance(one, list | tuple) and is_number(other) and isinstance(op, ast.Mult):
        return one * other if other * len(one) <= MOST_REPEATS else None
    if isinstance(one, float) or isinstance(other, float):
        both = isinstance(one, int | float) and isinstance(other, int | float)
        return math.nan if both else None  # a number, which nothing here rests on
    return _of_numbers(one, op, other) if is_number(one) and is_number(other) else None


def _of_numbers(one: int, op: ast.operator, other: int) -> int | None:
    found: int | None = None
    match op:
        case ast.Add():
            found = one + other
        case ast.Sub():
            found = one - other
        case ast.Mult():
            found = one * other
        case ast.FloorDiv() if other:
            found = one // other
        case ast.Div() if other and one % other == 0:
            found = one // other
        case ast.BitAnd():
            found = one & other
        case ast.BitOr():
            found = one | other
        case ast.BitXor():
            found = one ^ other
        case ast.Mod() if other:
            found = one % other
        case ast.Pow() if 0 <= other <= MOST_SHIFT and abs(one) <= 1 << 16:
            found = one**other
        case ast.LShift() if 0 <= other <= MOST_SHIFT:
            found = one << other
        case ast.RShift() if 0 <= other <= MOST_SHIFT:
            found = one >> other
    return found if found is not None and abs(found) < LARGEST else None
