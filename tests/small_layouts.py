"""Hypothesis strategies for layouts that are small enough to enumerate, and an evaluation of them by the definition."""

from __future__ import annotations

from itertools import product
from typing import Any

from hypothesis import strategies as st

from legalsat.layout import Layout

EXTENTS = st.integers(1, 6)
POWERS = st.sampled_from([1, 2, 4, 8])
STRIDES = st.sampled_from([0, 1, 2, 3, 4, 5, 6, 8, 12, 24])
SIGNED = STRIDES | st.sampled_from([-1, -2, -4])


def trees(leaf: st.SearchStrategy[Any], depth: int = 2) -> st.SearchStrategy[Any]:
    """Nested tuples of at most two or three modes a level; some are integers, some rank-1 tuples."""
    if depth == 0:
        return leaf
    return leaf | st.lists(trees(leaf, depth - 1), min_size=1, max_size=3).map(tuple)


def size(shape: Any) -> int:
    found = 1
    for item in flat(shape):
        found *= item
    return found


def flat(tree: Any) -> list[Any]:
    return [leaf for item in tree for leaf in flat(item)] if isinstance(tree, tuple) else [tree]


def filled(tree: Any, values: Any) -> Any:
    """The tree with its leaves taken from the iterator `values`."""
    return tuple(filled(item, values) for item in tree) if isinstance(tree, tuple) else next(values)


@st.composite
def layouts(
    draw: st.DrawFn,
    extents: st.SearchStrategy[int] = EXTENTS,
    strides: st.SearchStrategy[int] = STRIDES,
    most: int = 96,
    depth: int = 2,
) -> Layout:
    """Layouts of at most `most` elements with strides of any kind."""
    shape = draw(trees(extents, depth).filter(lambda s: size(s) <= most))
    return Layout(shape, filled(shape, iter([draw(strides) for _ in flat(shape)])))


@st.composite
def divisible(
    draw: st.DrawFn, extents: st.SearchStrategy[int] = EXTENTS, gaps: tuple[int, ...] = (1, 1, 2, 3), most: int = 96
) -> Layout:
    """Injective layouts in which every stride is a multiple of the next smaller mode's end."""
    shape = draw(trees(extents).filter(lambda s: size(s) <= most))
    leaves = flat(shape)
    strides, current = [0] * len(leaves), 1
    for place in draw(st.permutations(range(len(leaves)))):
        current *= draw(st.sampled_from(gaps))
        strides[place] = current
        current *= leaves[place]
    return Layout(shape, filled(shape, iter(strides)))


def by_definition(layout: Layout) -> list[int]:
    """Offsets in the order of the flat index, as sums of coordinate times stride."""
    strides = flat(layout.stride)
    ranges = [range(n) for n in flat(layout.shape)]
    return [sum(c * d for c, d in zip(reversed(at), strides, strict=True)) for at in product(*reversed(ranges))]
