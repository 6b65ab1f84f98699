"""Nested tuples of integers: shapes, strides and coordinates, in CuTe's sense.

A shape is an extent or a tuple of shapes; a stride has the same nesting. Extents are CuTe's static integers. A stride
leaf may also be a `Basis`, which steps along one axis of a coordinate instead of along memory.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from legalsat.checks import INT64_MAX, integer, integers
from legalsat.errors import InvalidInput
from legalsat.printable import shown

IntTuple: TypeAlias = "int | tuple[IntTuple, ...]"
StrideTuple: TypeAlias = "int | Basis | tuple[StrideTuple, ...]"

MAX_DEPTH = 32
MAX_MODES = 1024  # side by side: operations on layouts compare each mode with each other
_TOKEN = re.compile(r"\s*(_?-?\d+(?:@\d+)*|[(),])")


@dataclass(frozen=True, slots=True)
class Basis:
    """A stride of `scale` along the axis at `path` of a coordinate; CuTe's ScaledBasis, printed as "2@1@0".

    Attributes:
        scale: step, an int64.
        path: mode to step in, outermost first: (0, 1) is mode 1 of mode 0.
    """

    scale: int
    path: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", integer(self.scale, "basis scale", low=-INT64_MAX))
        object.__setattr__(self, "path", integers(self.path, "basis path", low=0))

    def __mul__(self, factor: int) -> Basis:
        return Basis(self.scale * factor, self.path)

    __rmul__ = __mul__

    def __str__(self) -> str:
        return f"{self.scale}" + "".join(f"@{axis}" for axis in reversed(self.path))


def parse(text: str, what: str) -> StrideTuple:
    """Return the nested tuple that `text` writes, such as "((8,16),64)"; a leading "_" on a number is CuTe's static."""
    tokens = _TOKEN.findall(text)
    if "".join(tokens) != re.sub(r"\s", "", text) or not tokens:
        raise InvalidInput(f"{what} is {shown(text)}; write integers, commas and parentheses such as (4,(2,8))")
    tokens.append("")
    value, end = _parse(tokens, 0, what, 0)
    if tokens[end]:
        raise InvalidInput(f"{what} {shown(text)} goes on after its end; write one number or one parenthesised tuple")
    return value


def _parse(tokens: list[str], at: int, what: str, depth: int) -> tuple[StrideTuple, int]:
    token = tokens[at]
    if depth > MAX_DEPTH:
        raise InvalidInput(f"{what} is nested more than {MAX_DEPTH} deep; flatten it")
    if token and token not in "(),":
        if len(token) > 200:
            raise InvalidInput(f"{what} has a number of {len(token)} digits; give at most {INT64_MAX}")
        scale, *axes = token.lstrip("_").split("@")
        return (Basis(int(scale), tuple(map(int, reversed(axes)))) if axes else int(scale)), at + 1
    if token != "(":
        raise InvalidInput(f"{what} has {token or 'its end'!r} where a number belongs; write a tuple such as (4,(2,8))")
    items: list[StrideTuple] = []
    while True:
        item, at = _parse(tokens, at + 1, what, depth + 1)
        items.append(item)
        if tokens[at] == ")":
            return tuple(items), at + 1
        if tokens[at] != ",":
            raise InvalidInput(f"{what} has an open parenthesis; close it")


def show(value: StrideTuple) -> str:
    """Return the tuple in CuTe's notation."""
    return f"({','.join(map(show, value))})" if isinstance(value, tuple) else str(value)


def as_shape(value: Any, what: str = "shape", depth: int = 0) -> IntTuple:
    """Return `value`, an extent or nested sequence of extents, as a shape; extents are at least 1."""
    if isinstance(value, list | tuple):
        return tuple(as_shape(v, f"{what}[{i}]", depth + 1) for i, v in enumerate(_checked(value, what, depth)))
    return integer(value, what, low=1)


def as_stride(value: Any, what: str = "stride", depth: int = 0) -> StrideTuple:
    """Return `value`, an int, `Basis` or nested sequence of them, as a stride; strides may be zero or negative."""
    if isinstance(value, list | tuple):
        return tuple(as_stride(v, f"{what}[{i}]", depth + 1) for i, v in enumerate(_checked(value, what, depth)))
    return value if isinstance(value, Basis) else integer(value, what, low=-INT64_MAX)


def _checked(value: list[Any] | tuple[Any, ...], what: str, depth: int) -> list[Any] | tuple[Any, ...]:
    if not value:
        raise InvalidInput(f"{what} is empty; give at least one mode")
    if len(value) > MAX_MODES:
        raise InvalidInput(f"{what} has {len(value)} modes; give at most {MAX_MODES}")
    if depth >= MAX_DEPTH:
        raise InvalidInput(f"{what.partition('[')[0]} is nested more than {MAX_DEPTH} deep; flatten it")
    return value


def as_tuple(value: StrideTuple) -> tuple[StrideTuple, ...]:
    """Return the modes of `value`; an integer is its own only mode."""
    return value if isinstance(value, tuple) else (value,)


def leaves(value: StrideTuple) -> Iterator[int | Basis]:
    """Yield the leaves from left to right."""
    if isinstance(value, tuple):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def extents(shape: IntTuple) -> Iterator[int]:
    """Yield the extents from left to right."""
    if isinstance(shape, tuple):
        for item in shape:
            yield from extents(item)
    else:
        yield shape


def product(shape: IntTuple) -> int:
    """Return the number of coordinates of a shape."""
    return math.prod(extents(shape))


def depth(value: StrideTuple) -> int:
    """Return how deep the tuple is nested; 0 for an integer."""
    return 1 + max(map(depth, value)) if isinstance(value, tuple) else 0


def congruent(one: StrideTuple, other: StrideTuple) -> bool:
    """Return whether two tuples are nested in the same way."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(congruent, one, other))
    return not isinstance(one, tuple) and not isinstance(other, tuple)


def compact_strides(shape: IntTuple, start: int = 1) -> IntTuple:
    """Return column-major strides from `start` on; extents of 1 get stride 0, as for CuTe's static integers."""
    if not isinstance(shape, tuple):
        return 0 if shape == 1 else start
    strides = []
    for item in shape:
        strides.append(compact_strides(item, start))
        start *= product(item)
    return tuple(strides)


def unwrapped(value: tuple[Any, ...]) -> Any:
    """Return the only item of a one-item tuple, else the tuple."""
    return value[0] if len(value) == 1 else value
