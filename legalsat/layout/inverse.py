"""Inverses of layouts and what follows from them; the reference is CuTe C++ 4.2 (`cute/layout.hpp`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, overload

from legalsat.checks import integer
from legalsat.errors import InvalidInput, NoSuchLayout
from legalsat.layout import Layout, flat_modes, from_modes
from legalsat.layout.algebra import checked_layout, coalesce, coalesced, composition, forward_modes, stride_of
from legalsat.layout.int_tuple import IntTuple, as_shape, as_tuple, compact_strides, extents
from legalsat.layout.swizzle import AnyLayout, ComposedLayout, Swizzle
from legalsat.printable import shown


@overload
def right_inverse(layout: Layout) -> Layout: ...
@overload
def right_inverse(layout: Swizzle) -> Swizzle: ...
@overload
def right_inverse(layout: AnyLayout) -> AnyLayout: ...
def right_inverse(layout: Swizzle | AnyLayout) -> Swizzle | AnyLayout:
    """Return R with `layout(R(i)) == i` for all i below R's size, as far as modes of the layout continue each other.

    Args:
        layout: a `Layout`, a `ComposedLayout` or a `Swizzle`, which is its own inverse.

    Raises:
        InvalidInput: it is neither.
    """
    if not isinstance(layout, Layout):
        return _inverse(layout, right_inverse)
    found, current = [(1, 0)], 1
    for n, d, before in sorted(_with_prefix(layout), key=lambda m: stride_of(m[:2])):
        if d == current:
            found.append((n, before))
            current = n * d
    return from_modes(coalesced(found))


@overload
def left_inverse(layout: Layout) -> Layout: ...
@overload
def left_inverse(layout: Swizzle) -> Swizzle: ...
@overload
def left_inverse(layout: AnyLayout) -> AnyLayout: ...
def left_inverse(layout: Swizzle | AnyLayout) -> Swizzle | AnyLayout:
    """Return L with `L(layout(i)) == i` for all i below the size, if the layout is injective.

    Modes of stride 0 are taken at coordinate 0. Where other modes overlap, L is CuTe's quasi-inverse.

    Args:
        layout: a `Layout`, a `ComposedLayout` or a `Swizzle`, which is its own inverse.

    Raises:
        NoSuchLayout: a stride is negative or no multiple of the next smaller one.
    """
    if not isinstance(layout, Layout):
        return _inverse(layout, left_inverse)
    shape, stride, current = [], [0], 1
    forward_modes(coalesce(layout), "left inverse")
    modes = sorted(_with_prefix(layout), key=lambda m: stride_of(m[:2]))
    for n, d, before in modes:
        if d == 0:
            continue
        if d % current:
            raise NoSuchLayout(
                f"layout {layout} has no left inverse: stride {d} of extent {n} is no multiple of {current}, "
                f"the next smaller stride; pad stride {d} to {-(-d // current) * current}"
            )
        shape.append(d // current)
        stride.append(before)
        current = d
    return from_modes(coalesced(list(zip([*shape, modes[-1][0]], stride, strict=True))))


def _inverse(layout: Swizzle | ComposedLayout, invert: Callable[[Any], Any]) -> Swizzle | AnyLayout:
    if isinstance(layout, Swizzle):
        return layout
    if not isinstance(layout, ComposedLayout):
        raise InvalidInput(f"layout is {shown(layout)}; give a layout or a swizzle")
    inner, outer = invert(layout.inner), invert(layout.outer)
    if layout.offset == 0 and isinstance(outer, Swizzle):
        found: Swizzle | AnyLayout = composition(inner, outer)
        return found
    return ComposedLayout(inner, -layout.offset, outer)


def nullspace(layout: Layout) -> Layout:
    """Return the layout of the coordinates of all modes with stride 0, on which `layout` is 0.

    Args:
        layout: a `Layout`.

    Raises:
        InvalidInput: it is none.
    """
    shape = tuple(extents(checked_layout(layout, "layout").shape))
    strides = as_tuple(compact_strides(shape))
    zero = [(n, step) for (n, d), step in zip(flat_modes(layout), strides, strict=True) if d == 0]
    return from_modes(zero)


def max_common_layout(one: Layout, other: Layout) -> Layout:
    """Return the longest layout R with `one(R(i)) == i == other(R(i))`: elements that lie together in both.

    As in CuTe, `other` bounds R; where `one` has fewer elements it goes on along its last mode, as a call does.

    Args:
        one: a `Layout`.
        other: a `Layout`, which bounds the result.

    Raises:
        InvalidInput: one of them is none.
        NoSuchLayout: no layout says where their elements lie together.
    """
    inverse = right_inverse(checked_layout(other, "other"))
    extent, stride = flat_modes(coalesce(composition(checked_layout(one, "one"), inverse)))[0]
    return composition(inverse, extent) if stride == 1 else Layout(1, 0)


def max_common_vector(one: Layout, other: Layout) -> int:
    """Return how many elements, from the first, lie together in memory in both layouts: `max_common_layout`'s size.

    As in CuTe, `other` bounds it, since `one` goes on along its last mode: of 2:1 and 4:1 it is 4, exchanged 2. Give
    layouts of one size where the count is to be of elements of both.

    Args:
        one: a `Layout`.
        other: a `Layout`, which bounds the result.

    Raises:
        InvalidInput: one of them is none.
        NoSuchLayout: no layout says where their elements lie together.
    """
    inverse = right_inverse(checked_layout(other, "other"))
    extent, stride = flat_modes(coalesce(composition(checked_layout(one, "one"), inverse)))[0]
    return extent if stride == 1 else 1


def domain_distribute(shape: AnyLayout | IntTuple, count: int) -> Layout:
    """Return a layout of `count` coordinates of `shape`, or as many as divide it, leftmost modes first."""
    extent_list = tuple(extents(shape.shape if isinstance(shape, Layout | ComposedLayout) else as_shape(shape)))
    rest, modes = integer(count, "count", low=1), []
    for n, step in zip(extent_list, as_tuple(compact_strides(extent_list)), strict=True):
        taken = math.gcd(n, rest)
        modes.append((taken, step))
        rest //= taken
    return from_modes(coalesced(modes))


def _with_prefix(layout: Layout) -> list[tuple[int, Any, int]]:
    """Return (extent, stride, elements before) of every coalesced mode."""
    found, before = [], 1
    for n, d in coalesced(flat_modes(layout)):
        found.append((n, d, before))
        before *= n
    return found
