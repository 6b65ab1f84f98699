"""The isl reading of a product of dims: what of it can be said exactly as a set of the dims' values.

A product is not affine. But what divides it is a union of what divides its factors, and a bound is exact where all
values that the dims declare lie on one side of it. Nothing else is said.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from legalsat.analyses.sets.isl_logic import IslNumber, NotAffine
from legalsat.dims import Dim
from legalsat.errors import InvalidInput
from legalsat.logic import Condition, Number, Value, all_of, any_of, multiple_of


@dataclass(frozen=True, slots=True, eq=False)
class IslProduct(Number):
    """A positive coefficient times dims, each with its open number."""

    coefficient: int
    dims: tuple[Dim, ...]
    numbers: tuple[IslNumber, ...]

    def __str__(self) -> str:
        return "*".join(dim.name for dim in self.dims)

    def __mul__(self, other: Value) -> IslProduct:
        if not isinstance(other, int):
            self._unsaid()
        return IslProduct(self.coefficient * other, self.dims, self.numbers)

    __rmul__ = __mul__

    def __floordiv__(self, other: Value) -> IslProduct:
        if not isinstance(other, int) or self.coefficient % other:
            self._unsaid()
        return IslProduct(self.coefficient // other, self.dims, self.numbers)

    def __mod__(self, other: Value) -> _Remainder:
        if not isinstance(other, int):
            self._unsaid()
        return _Remainder(self, other)

    def _side(self, other: Value, *, below: bool) -> bool:
        """Whether all values are below a number (else none is); or at most as large, where the bound itself counts."""
        least = self.coefficient * math.prod(d.smallest for d in self.dims)
        most = self.coefficient * math.prod(d.max // d.multiple_of * d.multiple_of for d in self.dims)
        if not isinstance(other, int):
            self._unsaid()
        limit = other if below else other + 1
        if least < limit <= most:
            raise InvalidInput(
                f"product {self} multiplies dims, and no isl set says where {self.coefficient}*{self} passes {other}; "
                f"state smaller largest values of {', '.join(d.name for d in self.dims)}, or bind all but one"
            )
        return most < limit

    def __lt__(self, other: Value) -> bool:
        return self._side(other, below=True)

    def __le__(self, other: Value) -> bool:
        return self._side(other, below=False)

    def __gt__(self, other: Value) -> bool:
        return not self <= other

    def __ge__(self, other: Value) -> bool:
        return not self < other

    def _unsaid(self, *_: object) -> NoReturn:
        raise NotAffine(
            f"a rule computes with the product {self}, which isl cannot express; bind all but one dim of it"
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __rfloordiv__ = __rmod__ = __eq__ = __ne__ = _unsaid


class _Remainder:
    """What a product leaves when divided; it can be compared with 0 alone."""

    def __init__(self, product: IslProduct, divisor: int) -> None:
        self.product, self.divisor = product, divisor

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> Condition:
        if other != 0:
            self.product._unsaid()
        wanted = self.divisor // math.gcd(self.divisor, self.product.coefficient)
        return all_of(*(self._divided(prime, times) for prime, times in _factors(wanted)))

    def _divided(self, prime: int, times: int) -> Condition:
        """States that a power of a prime divides the product: so many times, shared out among the factors."""
        shares = _shares(times, len(self.product.numbers))
        return any_of(
            *(
                all_of(*(multiple_of(n, prime**share) for n, share in zip(self.product.numbers, some, strict=True)))
                for some in shares
            )
        )


def _factors(number: int) -> Iterator[tuple[int, int]]:
    """Yield the primes that divide a number, which is small, and how often."""
    prime = 2
    while number > 1:
        times = 0
        while number % prime == 0:
            number, times = number // prime, times + 1
        if times:
            yield prime, times
        prime += 1


def _shares(total: int, count: int) -> Iterator[tuple[int, ...]]:
    """Yield the ways to write `total` as a sum of `count` numbers that are not negative, in order."""
    if count == 1:
        yield (total,)
        return
    for first in range(total + 1):
        yield from ((first, *rest) for rest in _shares(total - first, count - 1))
