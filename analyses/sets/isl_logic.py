"""The isl reading of rule conditions: affine expressions in parameters, and the sets of parameters where they hold.

Every operation stays exact or raises `NotAffine`. Products of two parameters are not affine, so a rule that
multiplies two open numbers has no isl reading; with one of them known it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import islpy as isl

from legalsat.errors import LegalSatError
from legalsat.logic import Condition, Number, Truth, Value


class NotAffine(LegalSatError):
    """A condition multiplies or divides two open numbers, which no isl set can express; give one of them a value."""


class IslTruth(Truth):
    """The set of parameter values for which a condition holds."""

    __slots__ = ("holds",)

    def __init__(self, holds: Any) -> None:
        self.holds = holds

    def _lift(self, condition: Condition) -> Any:
        if isinstance(condition, IslTruth):
            return condition.holds
        space = self.holds.get_space()
        return isl.Set.universe(space) if condition else isl.Set.empty(space)

    def __and__(self, other: Condition) -> IslTruth:
        return IslTruth(self.holds.intersect(self._lift(other)).coalesce())

    def __or__(self, other: Condition) -> IslTruth:
        return IslTruth(self.holds.union(self._lift(other)).coalesce())

    __rand__ = __and__
    __ror__ = __or__

    def __invert__(self) -> IslTruth:
        return IslTruth(self.holds.complement())

    def choose(self, then: Value, otherwise: Value) -> IslNumber:
        """Return a number that is `then` where this holds and `otherwise` elsewhere."""
        space = self.holds.get_space()
        yes, no = _lift(then, space), _lift(otherwise, space)
        return IslNumber(yes.intersect_domain(self.holds).union_add(no.intersect_domain(self.holds.complement())))


def _lift(value: Value, space: Any) -> Any:
    if isinstance(value, IslNumber):
        return value.expression
    local = isl.LocalSpace.from_space(space)
    return isl.PwAff.from_aff(isl.Aff.zero_on_domain(local).set_constant_val(_val(int(value))))


def _val(number: int) -> Any:
    return isl.Val.read_from_str(isl.DEFAULT_CONTEXT, str(number))


def _constant(value: Value) -> int | None:
    """Return the number that `value` is everywhere, or None."""
    if not isinstance(value, IslNumber):
        return int(value)
    pieces = value.expression.get_pieces()
    if len(pieces) == 1 and pieces[0][1].is_cst():
        return int(pieces[0][1].get_constant_val().to_python())
    return None


class IslNumber(Number):  # noqa: PLW1641 - equality is a condition
    """A piecewise quasi-affine expression in parameters."""

    __slots__ = ("expression",)

    def __init__(self, expression: Any) -> None:
        self.expression = expression

    def _other(self, value: Value) -> Any:
        return _lift(value, self.expression.get_domain_space())

    def __add__(self, other: Value) -> IslNumber:
        return IslNumber(self.expression.add(self._other(other)))

    __radd__ = __add__

    def __sub__(self, other: Value) -> IslNumber:
        return IslNumber(self.expression.sub(self._other(other)))

    def __rsub__(self, other: Value) -> IslNumber:
        return IslNumber(self._other(other).sub(self.expression))

    def __mul__(self, other: Value) -> IslNumber:
        if _constant(self) is None and _constant(other) is None:
            raise NotAffine("a rule multiplies two open extents, which isl cannot express; bind one of them")
        return IslNumber(self.expression.mul(self._other(other)))

    __rmul__ = __mul__

    def _divisor(self, other: Value) -> Any:
        divisor = _constant(other)
        if divisor is None or divisor < 1:
            raise NotAffine("a rule divides by an open extent, which isl cannot express; bind it")
        return _val(divisor)

    def __floordiv__(self, other: Value) -> IslNumber:
        return IslNumber(self.expression.scale_down_val(self._divisor(other)).floor())

    def __rfloordiv__(self, other: Value) -> IslNumber:
        return IslNumber(self._other(other)) // self

    def __mod__(self, other: Value) -> IslNumber:
        return IslNumber(self.expression.mod_val(self._divisor(other)))

    def __rmod__(self, other: Value) -> IslNumber:
        return IslNumber(self._other(other)) % self

    def __eq__(self, other: object) -> IslTruth:  # type: ignore[override]
        return IslTruth(self.expression.eq_set(self._other(other)))

    def __ne__(self, other: object) -> IslTruth:  # type: ignore[override]
        return IslTruth(self.expression.ne_set(self._other(other)))

    def __lt__(self, other: Value) -> IslTruth:
        return IslTruth(self.expression.lt_set(self._other(other)))

    def __le__(self, other: Value) -> IslTruth:
        return IslTruth(self.expression.le_set(self._other(other)))

    def __gt__(self, other: Value) -> IslTruth:
        return IslTruth(self.expression.gt_set(self._other(other)))

    def __ge__(self, other: Value) -> IslTruth:
        return IslTruth(self.expression.ge_set(self._other(other)))


def parameters(names: Sequence[str]) -> dict[str, IslNumber]:
    """Return one open number for each name, all on the same space of parameters."""
    # A set space of no dimensions: isl's expressions live on sets, and a set of no dimensions is one of parameters.
    space = isl.Space.set_alloc(isl.DEFAULT_CONTEXT, len(names), 0)
    for position, name in enumerate(names):
        space = space.set_dim_name(isl.dim_type.param, position, name)
    local = isl.LocalSpace.from_space(space)
    return {
        name: IslNumber(isl.PwAff.from_aff(isl.Aff.var_on_domain(local, isl.dim_type.param, i)))
        for i, name in enumerate(names)
    }
