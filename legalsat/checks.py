"""Argument checks that every noun shares: what is not a plain number is refused by name, early."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

from legalsat.errors import InvalidInput

INT64_MAX = 2**63 - 1


def integer(value: Any, what: str, *, low: int | None = None, high: int | None = INT64_MAX) -> int:
    """Return `value` as an int between `low` and `high` inclusive, or raise `InvalidInput` naming `what`.

    Numpy integers pass; bools, floats (NaN too) and strings do not.
    """
    if isinstance(value, bool):
        raise InvalidInput(f"{what} is {value}; give an integer")
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidInput(f"{what} is {value!r}; give an integer") from None
    if low is not None and number < low:
        raise InvalidInput(f"{what} is {number}; give at least {low}")
    if high is not None and number > high:
        raise InvalidInput(f"{what} is {number}; give at most {high}")
    return number


def flag(value: Any, what: str) -> bool:
    """Return `value` if it is True or False, or raise `InvalidInput` naming `what`."""
    if not isinstance(value, bool):
        raise InvalidInput(f"{what} is {value!r}; give True or False")
    return value


def choice(value: Any, what: str, numbers: Iterable[int]) -> int:
    """Return `value` as an int if it is one of `numbers`, else raise `InvalidInput` that lists them."""
    known = tuple(numbers)
    found = integer(value, what)
    if found not in known:
        *most, last = map(str, known)
        raise InvalidInput(f"{what} is {found}; give {', '.join(most)} or {last}")
    return found


def number(value: Any, what: str) -> float:
    """Return `value` as a float that is not negative, or raise `InvalidInput` naming `what`."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise InvalidInput(f"{what} is {value!r}; give a number that is not negative")
    return float(value)


def integers(
    values: Any, what: str, *, low: int | None = None, high: int | None = INT64_MAX, length: int | None = None
) -> tuple[int, ...]:
    """Return `values` as a tuple of ints, each checked by `integer`; a single int is not a sequence."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InvalidInput(f"{what} is {values!r}; give a sequence of integers")
    numbers = tuple(integer(v, f"{what}[{i}]", low=low, high=high) for i, v in enumerate(values))
    if length is not None and len(numbers) != length:
        raise InvalidInput(f"{what} has {len(numbers)} entries; give {length}")
    return numbers


def one_of(value: Any, what: str, names: Iterable[str]) -> str:
    """Return `value` if it is one of `names`, else raise `InvalidInput` that lists them."""
    known = tuple(names)
    if not isinstance(value, str) or value not in known:
        raise InvalidInput(f"{what} is {value!r}; give one of {', '.join(known)}")
    return value
