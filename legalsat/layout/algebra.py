"""CuTe's operations on layouts, under CuTe's names: coalesce, composition, complement, inverses and their kin.

The reference is CuTe C++ 4.2 (`cute/layout.hpp`) with every integer static. Results agree with it in structure. Where
CuTe would build a composition that is not the composition as a function, since it checks divisibility only in part,
`NoSuchLayout` is raised instead.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeAlias, cast, overload

from legalsat.checks import integer
from legalsat.errors import InvalidInput, NoSuchLayout
from legalsat.layout import Layout, flat_modes, from_modes, make_layout
from legalsat.layout.composition import compose
from legalsat.layout.int_tuple import MAX_DEPTH, Basis, IntTuple, as_shape, extents, product
from legalsat.layout.swizzle import AnyLayout, ComposedLayout, Swizzle
from legalsat.printable import shown

Tiler: TypeAlias = "Layout | int | tuple[Tiler, ...] | None"
Profile: TypeAlias = "int | tuple[Profile, ...] | None"

MAX_CHECKED_SIZE = 1 << 22

_P = ParamSpec("_P")


class OnLayouts(Protocol[_P]):
    """An operation on a layout, or on the inner layout of a composed one."""

    @overload
    def __call__(self, layout: Layout, /, *args: _P.args, **kwargs: _P.kwargs) -> Layout: ...
    @overload
    def __call__(self, layout: ComposedLayout, /, *args: _P.args, **kwargs: _P.kwargs) -> ComposedLayout: ...


def on_domain(operation: Callable[Concatenate[Layout, _P], Layout]) -> OnLayouts[_P]:
    """Return the operation for composed layouts too: they change as their inner layout does, as in CuTe."""

    @wraps(operation)
    def lifted(layout: Any, *args: _P.args, **kwargs: _P.kwargs) -> Any:
        if isinstance(layout, ComposedLayout):
            return ComposedLayout(layout.outer, layout.offset, lifted(layout.domain, *args, **kwargs))
        return operation(checked_layout(layout, "layout"), *args, **kwargs)

    return cast("OnLayouts[_P]", lifted)


def size(layout: AnyLayout | IntTuple) -> int:
    """Return the number of coordinates of a layout or shape.

    Args:
        layout: a `Layout`, a `ComposedLayout`, or a shape: an integer or a nested tuple of them.

    Raises:
        InvalidInput: it is neither.
    """
    if isinstance(layout, Layout | ComposedLayout):
        return layout.size
    return integer(product(as_shape(layout)), "size")


def cosize(layout: AnyLayout) -> int:
    """Return the number of offsets that a layout spans; see `Layout.cosize`.

    Args:
        layout: a `Layout` or a `ComposedLayout`.

    Raises:
        InvalidInput: `layout` is no layout.
    """
    return _any_layout(layout).cosize


def rank(layout: AnyLayout) -> int:
    """Return the number of modes at the top.

    Args:
        layout: a `Layout` or a `ComposedLayout`.

    Raises:
        InvalidInput: `layout` is no layout.
    """
    return _any_layout(layout).rank


def depth(layout: AnyLayout) -> int:
    """Return how deep the shape is nested, 0 for an integer.

    Args:
        layout: a `Layout` or a `ComposedLayout`.

    Raises:
        InvalidInput: `layout` is no layout.
    """
    return _any_layout(layout).depth


@on_domain
def flatten(layout: Layout) -> Layout:
    """Return the layout with all leaves as modes; an integral one stays integral.

    Args:
        layout: a `Layout`, or a `ComposedLayout`, which changes as its inner layout does.

    Raises:
        InvalidInput: `layout` is no layout.
    """
    return make_layout(*(Layout(n, d) for n, d in flat_modes(layout))) if layout.depth else layout


@on_domain
def append(layout: Layout, mode: Layout) -> Layout:
    """Return the layout with one more mode at the end.

    Args:
        layout: a `Layout`, or a `ComposedLayout`, which changes as its inner layout does.
        mode: the `Layout` to add.

    Raises:
        InvalidInput: one of them is no layout.
    """
    return make_layout(*layout, checked_layout(mode, "mode"))


@on_domain
def group(layout: Layout, begin: int, end: int) -> Layout:
    """Return the layout with modes begin to end-1 grouped into one.

    Args:
        layout: a `Layout`, or a `ComposedLayout`, which changes as its inner layout does.
        begin: first mode of the group, from 0.
        end: the mode behind the group.

    Raises:
        InvalidInput: `layout` is no layout, or has no such modes.
    """
    begin = integer(begin, "begin", low=0, high=layout.rank - 1)
    end = integer(end, "end", low=begin + 1, high=layout.rank)
    modes = tuple(layout)
    return make_layout(*modes[:begin], make_layout(*modes[begin:end]), *modes[end:])


@on_domain
def coalesce(layout: Layout, profile: Profile = None) -> Layout:
    """Return the simplest flat layout that is the same function of a flat index below the size.

    Args:
        layout: the layout.
        profile: nested tuple; the modes at its leaves are coalesced one by one and stay apart.

    Raises:
        InvalidInput: `layout` is no layout, or has no such profile.
    """
    return by_mode(layout, profile, lambda mode, _: from_modes(coalesced(flat_modes(mode))))


@on_domain
def filter_zeros(layout: Layout) -> Layout:
    """Return the layout with extent 1 wherever the stride is 0.

    Args:
        layout: a `Layout`, or a `ComposedLayout`, which changes as its inner layout does.

    Raises:
        InvalidInput: `layout` is no layout.
    """

    def filtered(shape: IntTuple, stride: Any) -> IntTuple:
        if isinstance(shape, tuple):
            return tuple(map(filtered, shape, stride))
        return 1 if stride == 0 else shape

    return Layout(filtered(layout.shape, layout.stride), layout.stride)


@on_domain
def filter(layout: Layout, profile: Profile = None) -> Layout:
    """Return the layout without modes of stride 0 or extent 1, coalesced.

    Args:
        layout: a `Layout`, or a `ComposedLayout`, which changes as its inner layout does.
        profile: nested tuple; the modes at its leaves are filtered one by one and stay apart.

    Raises:
        InvalidInput: `layout` is no layout, or has no such profile.
    """
    return by_mode(layout, profile, lambda mode, _: coalesce(filter_zeros(mode)))


def coalesced(modes: list[tuple[int, Any]], *, endless: bool = False) -> list[tuple[int, Any]]:
    """Return flat modes with neighbours merged where the right one continues the left one.

    Args:
        modes: (extent, stride) pairs, left to right.
        endless: keep the function also past the size, where a layout goes on along its last mode.
    """
    *front, (n, d) = modes
    done = [(2 if endless and n == 1 else n, d)]
    for extent, stride in reversed(front):
        last_extent, last_stride = done[-1]
        if extent == 1:
            continue
        if last_extent == 1:
            done[-1] = (extent, stride)
        elif extent * stride == last_stride:
            done[-1] = (extent * last_extent, stride)
        else:
            done.append((extent, stride))
    return [(1, 0)] if done == [(1, done[0][1])] else done[::-1]


def by_mode(
    layout: Layout, profile: Any, operation: Callable[[Layout, Any], Layout], *, rest: bool = True, level: int = 0
) -> Layout:
    """Return the layout with `operation(mode, leaf)` done at the leaves of `profile`.

    Args:
        layout: the layout.
        profile: nested tuple whose leaves are no tuples, at most as many modes as the layout.
        operation: what to do with a mode and the leaf that stands for it.
        rest: keep the modes that the profile has no entry for.
        level: of nesting, from the outermost.
    """
    if not isinstance(profile, tuple):
        return operation(layout, profile)
    if level >= MAX_DEPTH:
        raise InvalidInput(f"tiler is nested more than {MAX_DEPTH} deep; flatten it")
    modes = tuple(layout)
    if not 0 < len(profile) <= len(modes):
        raise InvalidInput(f"tiler has {len(profile)} modes for layout {layout}; give 1 to {len(modes)}")
    changed = (by_mode(m, p, operation, rest=rest, level=level + 1) for m, p in zip(modes, profile, strict=False))
    return make_layout(*changed, *(modes[len(profile) :] if rest else ()))


@overload
def composition(lhs: Layout, rhs: Tiler) -> Layout: ...
@overload
def composition(lhs: ComposedLayout, rhs: Tiler | ComposedLayout | Swizzle) -> ComposedLayout: ...
@overload
def composition(lhs: Swizzle, rhs: Swizzle) -> Swizzle: ...
@overload
def composition(lhs: Swizzle, rhs: AnyLayout | int) -> AnyLayout: ...
@overload
def composition(lhs: Layout, rhs: ComposedLayout | Swizzle) -> AnyLayout: ...
def composition(lhs: Any, rhs: Any) -> Swizzle | AnyLayout:
    """Return lhs o rhs, the layout of rhs's shape with `result(c) == lhs(rhs(c))` for every coordinate c of rhs.

    Where rhs leaves lhs's domain, lhs goes on along its last mode.

    Args:
        lhs: a layout or a swizzle.
        rhs: a layout or a swizzle; an extent n for n:1; or a tuple of those, which compose with lhs mode by mode (None
            keeps a mode, modes beyond the tuple are dropped).

    Raises:
        NoSuchLayout: the function is no layout, mostly because an extent or stride does not divide another.
    """
    if isinstance(rhs, ComposedLayout | Swizzle):
        return _compose_function(lhs, rhs)
    if isinstance(lhs, Swizzle):
        rhs = _as_layout(rhs)
        return ComposedLayout(lhs, 0, rhs) if lhs.bits else rhs
    if isinstance(lhs, ComposedLayout):
        return ComposedLayout(lhs.outer, lhs.offset, composition(lhs.domain, rhs))
    return by_mode(checked_layout(lhs, "left operand"), rhs, _compose_mode, rest=False)


def _compose_mode(mode: Layout, leaf: Any) -> Layout:
    if leaf is None:
        return mode
    return compose(mode, _as_layout(leaf), lambda part: coalesced(flat_modes(part), endless=True))


def _compose_function(lhs: Any, rhs: ComposedLayout | Swizzle) -> Swizzle | AnyLayout:
    """Compose with a function that has a swizzle in it, which must pass to the left through a layout."""
    if isinstance(lhs, Swizzle):
        return _merged(lhs, rhs) if isinstance(rhs, Swizzle) else ComposedLayout(lhs, 0, rhs)
    if isinstance(lhs, ComposedLayout):
        return ComposedLayout(lhs.outer, lhs.offset, _compose_function(lhs.domain, rhs))
    layout = checked_layout(lhs, "left operand")
    domain: AnyLayout = Layout(layout.size) if isinstance(rhs, Swizzle) else rhs.domain
    if isinstance(rhs, ComposedLayout) and rhs.offset:
        raise NoSuchLayout(f"{rhs} adds {rhs.offset} in between; compose with offset 0 and add it afterwards")
    if domain.size > MAX_CHECKED_SIZE:
        raise NoSuchLayout(f"{rhs} has {domain.size} elements, too many to check; compose at most {MAX_CHECKED_SIZE}")
    try:
        if isinstance(rhs, Swizzle):
            found = _passed(layout, rhs)
        else:
            outer: Any = (
                _passed(layout, rhs.outer) if isinstance(rhs.outer, Swizzle) else composition(layout, rhs.outer)
            )
            found = composition(outer, rhs.domain)
        index = Layout(domain.size).offsets()
        same = bool((found(index) == layout(rhs(index))).all())
    except NoSuchLayout:
        same = False
    if not same:
        raise NoSuchLayout(f"{layout} o {rhs} is no swizzled layout; keep it as ComposedLayout({layout}, 0, {rhs})")
    return found


def _passed(layout: Layout, swizzle: Swizzle) -> AnyLayout:
    """Return swizzle' o layout, which equals layout o swizzle if any swizzle' makes it so."""
    source = target = 0
    for bit in range(swizzle.bits):
        to = layout((swizzle.target_mask & -swizzle.target_mask) << bit)
        if to:  # what the swizzle changes may be what the layout drops
            source += layout((swizzle.source_mask & -swizzle.source_mask) << bit)
            target += to
    if source < 0 or target < 0:
        raise NoSuchLayout(f"layout {layout} steps back, so that a swizzle of it is none of bits; reverse that mode")
    return composition(Swizzle.from_masks(source, target), layout)


def _merged(lhs: Swizzle, rhs: Swizzle) -> Swizzle:
    try:
        found = Swizzle.from_masks(lhs.source_mask ^ rhs.source_mask, lhs.target_mask ^ rhs.target_mask)
        # All three are linear over bits, so that they agree everywhere if they agree on every bit.
        same = all(found(1 << bit) == lhs(rhs(1 << bit)) for bit in range(63))
    except NoSuchLayout:
        same = False
    if not same:
        raise NoSuchLayout(f"{lhs} o {rhs} is no single swizzle; apply one after the other")
    return found


@overload
def complement(layout: Layout, cotarget: AnyLayout | IntTuple | None = None) -> Layout: ...
@overload
def complement(layout: ComposedLayout, cotarget: AnyLayout | IntTuple | None = None) -> Layout: ...
def complement(layout: AnyLayout, cotarget: AnyLayout | IntTuple | None = None) -> Layout:
    """Return the ordered layout of the offsets that repeat `layout` without overlap up to `cotarget`.

    All offsets below `cotarget` are covered where each stride, from the smallest on, is a multiple of what the modes
    before it span. Elsewhere, as in CuTe, as many repeats fit as leave none overlapping, and gaps remain: that of
    (3,4):(3,16) in 64 is 3:1, which covers 36.

    Args:
        layout: the layout; no negative strides.
        cotarget: offsets to cover, as a number, a shape or a layout whose shape is meant; the cosize when left out.

    Raises:
        NoSuchLayout: modes of the layout interleave or overlap.
    """
    if isinstance(layout, ComposedLayout):
        return complement(layout.domain, layout.cosize if cotarget is None else cotarget)
    if isinstance(cotarget, Layout | ComposedLayout):
        cotarget = cotarget.shape
    filtered = filter(layout)
    target = filtered.cosize if cotarget is None else as_shape(cotarget, "cotarget")
    if filtered.stride == 0:
        return Layout(product(target))
    found, current = [], 1
    for n, d in sorted(forward_modes(filtered, "complement"), key=stride_of):
        if d < current:
            raise NoSuchLayout(
                f"layout {layout} has no complement: its mode {n}:{d} starts before the smaller strides end "
                f"at {current}; use a stride of at least {current}"
            )
        found.append((d // current, current))
        current = n * d
    rest, covered = 1, current
    for n in extents(target):
        rest, covered = rest * -(-n // covered), -(-covered // n)
    return from_modes(coalesced([*found, (rest, 0 if rest == 1 else current)]))


def stride_of(mode: tuple[int, Any]) -> int:
    """Return the stride of a flat mode, or raise `NoSuchLayout` where it is a `Basis`."""
    if isinstance(mode[1], Basis):
        raise NoSuchLayout(f"stride {mode[1]} steps along a coordinate; give a layout of offsets")
    return int(mode[1])


def forward_modes(layout: Layout, what: str) -> list[tuple[int, Any]]:
    """Return the flat modes, or raise `NoSuchLayout` where one steps back, so that there is no `what`."""
    modes = flat_modes(layout)
    back = [m for m in modes if stride_of(m) < 0]
    if back:
        raise NoSuchLayout(
            f"layout {layout} has no {what}: its stride {back[0][1]} steps back; reverse that mode and offset the base"
        )
    return modes


def checked_layout(value: Any, what: str) -> Layout:
    """Return `value` if it is a `Layout`, else raise `InvalidInput`."""
    if not isinstance(value, Layout):
        raise InvalidInput(f"{what} is {shown(value)}; give a Layout")
    return value


def _any_layout(value: Any) -> AnyLayout:
    return value if isinstance(value, ComposedLayout) else checked_layout(value, "layout")


def _as_layout(value: Any) -> Layout:
    return value if isinstance(value, Layout) else Layout(integer(value, "tiler", low=1))
