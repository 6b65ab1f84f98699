"""Values that launches do not agree on, where several launches are run together: one for each of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from legalsat.analyses.ptx_machine.alu import Value, blend


class Fan:
    """What each of several launches holds in a register.

    Args:
        values: in the order of the launches.
    """

    __slots__ = ("values",)

    def __init__(self, values: Sequence[Value]) -> None:
        self.values = values


def fanned(values: Sequence[Value]) -> Any:
    """Return values of launches as one: plain where all agree."""
    first = values[0]
    for one in values:
        if one is not first and not same(one, first):
            return Fan(values)
    return first


def same(a: Value, b: Value) -> bool:
    """Are two plain values the same?"""
    if a is b:
        return True
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return bool(np.array_equal(a, b))
    return type(a) is type(b) is int and a == b


def joined(a: Any, b: Any, mask: int, *, lanewise: bool) -> Any:
    """Return `a` in the lanes of a mask and `b` in the others, launch by launch where they do not agree."""
    if type(a) is not Fan and type(b) is not Fan:
        return blend(a, b, mask, lanewise=lanewise)
    count = len(a.values if type(a) is Fan else b.values)
    pairs = zip(each(a, count), each(b, count), strict=True)
    return fanned([blend(x, y, mask, lanewise=lanewise) for x, y in pairs])


def each(value: Any, count: int) -> Sequence[Value]:
    """Return the values of so many launches."""
    return value.values if type(value) is Fan else [value] * count


def of_first(value: Any) -> Value:
    """Return what the first launch holds."""
    return value.values[0] if type(value) is Fan else value


def in_lane(value: Any, lane: int) -> Any:
    """Return what one lane holds."""
    if isinstance(value, np.ndarray):
        return int(value[lane])
    return fanned([in_lane(one, lane) for one in value.values]) if type(value) is Fan else value
