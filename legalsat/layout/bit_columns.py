"""Linear maps over F2 as lists of integers: one column per input bit, whose bits are the output bits that it feeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import TypeAlias

from legalsat.errors import NotLinear
from legalsat.layout import flat_modes
from legalsat.layout.int_tuple import Basis
from legalsat.layout.swizzle import AnyLayout, ComposedLayout, Swizzle

Vector: TypeAlias = tuple[int, ...]


def power_extents(layout: AnyLayout) -> int:
    """Return the size, or raise `NotLinear` where an extent is no power of two."""
    while isinstance(layout, ComposedLayout):
        layout = layout.domain
    for n, d in flat_modes(layout):
        if n.bit_count() != 1:
            raise NotLinear(f"extent {n} of mode {n}:{d} is no power of two; pad it to {1 << n.bit_length()}")
    return layout.size


def strided_columns(layout: AnyLayout, sizes: Mapping[str, int]) -> list[int]:
    """Return the offset of every bit of the flat index, checked to determine all other offsets."""
    if isinstance(layout, ComposedLayout):
        if not isinstance(layout.outer, Swizzle):
            raise NotLinear(f"{layout} has a function other than a swizzle on top; compose the layouts first")
        if layout.offset:
            raise NotLinear(f"{layout} adds {layout.offset}, so index 0 is not at 0; move the offset into the base")
        swizzle = layout.outer
        return [swizzle(column) for column in strided_columns(layout.domain, sizes)]
    columns = []
    for n, d in flat_modes(layout):
        if n > 1 and (isinstance(d, Basis) or d < 0):
            raise NotLinear(f"stride {d} of mode {n}:{d} is no forward step; use a stride of at least 0")
        columns += [d << bit for bit in range(n.bit_length() - 1)]
    check_disjoint(columns, sizes, "so that sums carry; use strides whose bits are apart, such as powers of two")
    return columns


def check_disjoint(columns: Sequence[int], sizes: Mapping[str, int], why: str) -> None:
    """Raise `NotLinear` where two input bits feed one output bit; `sizes` are of the inputs, `why` ends the message."""
    seen = list(accumulate(columns, int.__or__, initial=0))
    for place, (column, before) in enumerate(zip(columns, seen, strict=False)):
        if column & before:
            bit = (column & before & -(column & before)).bit_length() - 1
            first = next(i for i, c in enumerate(columns) if c >> bit & 1)
            both = " and ".join(_bit_name(i, sizes) for i in (first, place))
            raise NotLinear(f"{both} both feed output bit {bit}, {why}")


def _bit_name(place: int, sizes: Mapping[str, int]) -> str:
    for name, size in sizes.items():
        bits = size.bit_length() - 1
        if place < bits:
            return f"bit {place} of {name}"
        place -= bits
    return f"bit {place}"


def flat(vector: Iterable[int], sizes: Iterable[tuple[str, int]]) -> int:
    """Return the index of a coordinate, first dimension fastest."""
    index, scale = 0, 1
    for value, (_, size) in zip(vector, sizes, strict=True):
        index, scale = index + value * scale, scale * size
    return index


def split(index: int, sizes: Iterable[tuple[str, int]]) -> Vector:
    """Return the coordinate of an index, first dimension fastest."""
    found = []
    for _, size in sizes:
        index, part = divmod(index, size)
        found.append(part)
    return tuple(found)


def pivots(columns: Iterable[int]) -> tuple[dict[int, tuple[int, int]], list[int]]:
    """Eliminate: return (vector, inputs that make it) by leading bit, and the masks of inputs that make 0."""
    leads: dict[int, tuple[int, int]] = {}
    kernel = []
    for place, column in enumerate(columns):
        rest, mask = column, 1 << place
        while rest:
            lead = rest.bit_length() - 1
            if lead not in leads:
                leads[lead] = (rest, mask)
                break
            rest, mask = rest ^ leads[lead][0], mask ^ leads[lead][1]
        else:
            kernel.append(mask)
    return leads, kernel
