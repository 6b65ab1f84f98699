"""The Z3 reading of rule conditions: integers and truths that become formulas. The only module that builds them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import z3

from legalsat.logic import Condition, Number, Truth, Value


def _raw(value: Value) -> Any:
    return value.expression if isinstance(value, Z3Number) else z3.IntVal(int(value))


def _raw_truth(condition: Condition) -> Any:
    return condition.expression if isinstance(condition, Z3Truth) else z3.BoolVal(bool(condition))


class Z3Truth(Truth):
    """A Z3 Boolean."""

    __slots__ = ("expression",)

    def __init__(self, expression: Any) -> None:
        self.expression = expression

    def __and__(self, other: Condition) -> Z3Truth:
        return Z3Truth(z3.And(self.expression, _raw_truth(other)))

    def __or__(self, other: Condition) -> Z3Truth:
        return Z3Truth(z3.Or(self.expression, _raw_truth(other)))

    __rand__ = __and__
    __ror__ = __or__

    def __invert__(self) -> Z3Truth:
        return Z3Truth(z3.Not(self.expression))

    def choose(self, then: Value, otherwise: Value) -> Z3Number:
        """Return a number that is `then` where this holds and `otherwise` elsewhere."""
        return Z3Number(z3.If(self.expression, _raw(then), _raw(otherwise)))


class Z3Number(Number):  # noqa: PLW1641 - equality is a condition
    """A Z3 integer. `//` and `%` need a positive divisor, where Z3 and Python agree."""

    __slots__ = ("expression",)

    def __init__(self, expression: Any) -> None:
        self.expression = expression

    def __add__(self, other: Value) -> Z3Number:
        return Z3Number(self.expression + _raw(other))

    __radd__ = __add__

    def __sub__(self, other: Value) -> Z3Number:
        return Z3Number(self.expression - _raw(other))

    def __rsub__(self, other: Value) -> Z3Number:
        return Z3Number(_raw(other) - self.expression)

    def __mul__(self, other: Value) -> Z3Number:
        return Z3Number(self.expression * _raw(other))

    __rmul__ = __mul__

    def __floordiv__(self, other: Value) -> Z3Number:
        return Z3Number(self.expression / _raw(other))

    def __rfloordiv__(self, other: Value) -> Z3Number:
        return Z3Number(_raw(other) / self.expression)

    def __mod__(self, other: Value) -> Z3Number:
        return Z3Number(self.expression % _raw(other))

    def __rmod__(self, other: Value) -> Z3Number:
        return Z3Number(_raw(other) % self.expression)

    def __eq__(self, other: object) -> Z3Truth:  # type: ignore[override]
        return Z3Truth(self.expression == _raw(other))

    def __ne__(self, other: object) -> Z3Truth:  # type: ignore[override]
        return Z3Truth(self.expression != _raw(other))

    def __lt__(self, other: Value) -> Z3Truth:
        return Z3Truth(self.expression < _raw(other))

    def __le__(self, other: Value) -> Z3Truth:
        return Z3Truth(self.expression <= _raw(other))

    def __gt__(self, other: Value) -> Z3Truth:
        return Z3Truth(self.expression > _raw(other))

    def __ge__(self, other: Value) -> Z3Truth:
        return Z3Truth(self.expression >= _raw(other))


def variable(name: str) -> Z3Number:
    """Return a fresh integer variable."""
    return Z3Number(z3.Int(name))


def formula(condition: Condition) -> Any:
    """Return a condition as a Z3 formula; plain bools become constants."""
    return _raw_truth(condition)


def counterexample(claim: Condition, numbers: Mapping[str, Z3Number], *, timeout_ms: int) -> dict[str, int] | None:
    """Return values of the variables at which `claim` does not hold; None where it holds for all integers.

    Raises:
        TimeoutError: Z3 found neither within the time.
    """
    solver = z3.Solver()
    solver.set(timeout=timeout_ms)
    solver.add(z3.Not(formula(claim)))
    answer = solver.check()
    if answer == z3.unsat:
        return None
    if answer == z3.unknown:
        raise TimeoutError
    model = solver.model()
    return {name: model.eval(n.expression, model_completion=True).as_long() for name, n in numbers.items()}
