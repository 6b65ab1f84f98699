"""Argument checks that every noun shares: what is not a plain number is refused by name, early."""

from __future__ import annotations

import difflib
import math
import numbers
import operator
from collections.abc import Iterable, Mapping, Set
from itertools import islice
from typing import Any, TypeVar

from legalsat.errors import InvalidInput
from legalsat.printable import shown

INT64_MAX = 2**63 - 1
Name = TypeVar("Name", bound=str)
# What others call what is here.
_OTHERWISE = {
    **dict.fromkeys(("matmul", "mm", "product"), "gemm"),
    **dict.fromkeys(("permute", "transposed"), "transpose"),
    **dict.fromkeys(("cutlass", "cuda", "cu", "c++"), "cute"),
    **dict.fromkeys(("gluon", "python"), "triton"),
    **dict.fromkeys(("plan", "compile", "emit"), "synthesize"),
    **dict.fromkeys(("verify", "lint"), "check"),
    **dict.fromkeys(("why", "repair"), "explain"),
    "gpus": "targets",
    "rules": "rule",
    "version": "--version",
    "help": "--help",
}
MOST_MEANT = 4
MOST_ENTRIES = 2**16  # of a sequence, which may not end


def integer(value: Any, what: str, *, low: int | None = None, high: int | None = INT64_MAX) -> int:
    """Return `value` as an int between `low` and `high` inclusive, or raise `InvalidInput` naming `what`.

    Numpy integers pass; bools, floats (NaN too) and strings do not.
    """
    if isinstance(value, bool):
        raise InvalidInput(f"{what} is {value}; give an integer")
    try:
        number = operator.index(value)
    except Exception:
        raise InvalidInput(f"{what} is {shown(value)}; give an integer") from None
    if low is not None and number < low:
        raise InvalidInput(f"{what} is {shown(number)}; give at least {low}")
    if high is not None and number > high:
        raise InvalidInput(f"{what} is {shown(number)}; give at most {high}")
    return number


def flag(value: Any, what: str) -> bool:
    """Return `value` if it is True or False, or raise `InvalidInput` naming `what`."""
    if not isinstance(value, bool):
        raise InvalidInput(f"{what} is {shown(value)}; give True or False")
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
    """Return `value` as a finite float that is not negative, or raise `InvalidInput` naming `what`."""
    try:
        found = float(value) if isinstance(value, numbers.Real) and not isinstance(value, bool) else math.nan
    except (OverflowError, TypeError, ValueError):
        found = math.inf
    if not 0 <= found < math.inf:
        raise InvalidInput(f"{what} is {shown(value)}; give a finite number that is not negative")
    return found


def sequence(values: Any, what: str, of: str) -> tuple[Any, ...]:
    """Return `values` as a tuple, or raise `InvalidInput` naming `what` and what it is a sequence `of`.

    Texts are none, nor is what has no order, no entries to go over (numpy's arrays of no axis), or no end.
    """
    if isinstance(values, list | tuple):
        return tuple(values)
    if isinstance(values, str | bytes | bytearray | Mapping | Set) or not isinstance(values, Iterable):
        raise InvalidInput(f"{what} is {shown(values)}; give a sequence of {of}")
    try:
        found = tuple(islice(values, MOST_ENTRIES + 1))
    except TypeError:
        raise InvalidInput(f"{what} is {shown(values)}; give a sequence of {of}") from None
    if len(found) > MOST_ENTRIES:
        raise InvalidInput(f"{what} has more than {MOST_ENTRIES} entries; give fewer {of}")
    return found


def counted(entries: int) -> str:
    """Return "1 entry", "2 entries" and so on."""
    return f"{entries} {'entry' if entries == 1 else 'entries'}"


def integers(
    values: Any, what: str, *, low: int | None = None, high: int | None = INT64_MAX, length: int | None = None
) -> tuple[int, ...]:
    """Return `values` as a tuple of ints, each checked by `integer`; a single int is not a sequence."""
    given = sequence(values, what, "integers, such as (128, 64)")
    numbers = tuple(integer(v, f"{what}[{i}]", low=low, high=high) for i, v in enumerate(given))
    if length is not None and len(numbers) != length:
        raise InvalidInput(f"{what} has {counted(len(numbers))}; give {length}")
    return numbers


def one_of(value: Any, what: str, names: Iterable[Name]) -> Name:
    """Return `value` if it is one of `names`, else raise `InvalidInput` that lists them."""
    known = tuple(names)
    if not isinstance(value, str) or value not in known:
        raise InvalidInput(f"{what} is {shown(value)}; give one of {', '.join(known)}{meant(value, known)}")
    return known[known.index(value)]  # the plain name, where the value is of a class of its own


def meant(value: Any, names: Iterable[str]) -> str:
    """Return "; did you mean ...?" with the name that is nearest to a wrong one, "" where none is near.

    Of how a few names begin, as wgmma.a does with wgmma, these are meant.
    """
    if not isinstance(value, str) or len(value) > 100:
        return ""
    lower = {name.lower(): name for name in names}
    word = value.lower()
    same = [lower[one] for one in (word, _OTHERWISE.get(word, "")) if one in lower]
    begun = [name for one, name in lower.items() if len(word) > 1 and one.startswith(word)]
    near = (
        same[:1]
        or (begun if len(begun) <= MOST_MEANT else [])
        or [lower[one] for one in difflib.get_close_matches(word, lower, n=1)]
    )
    return f"; did you mean {' or '.join(near)}?" if near else ""


def instance(value: Any, what: str, kind: type[Any] | tuple[type[Any], ...]) -> Any:
    """Return `value` if it is of a kind, or of one of several, else raise `InvalidInput` that names them."""
    if not isinstance(value, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        raise InvalidInput(f"{what} is {shown(value)}; give a {' or '.join(one.__name__ for one in kinds)}")
    return value
