"""Composition, complement, inverses and their kin: laws over all coordinates, and CuTe's own results."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from small_layouts import POWERS, SIGNED, by_definition, divisible, flat, layouts

from legalsat.errors import InvalidInput, NoSuchLayout
from legalsat.layout import Layout, make_layout
from legalsat.layout import algebra as layout_algebra
from legalsat.layout import inverse as layout_inverse
from legalsat.layout import tiling as layout_tiling
from legalsat.layout.algebra import (
    append,
    coalesce,
    complement,
    composition,
    cosize,
    depth,
    filter,
    filter_zeros,
    flatten,
    group,
    rank,
    size,
)
from legalsat.layout.int_tuple import Basis
from legalsat.layout.inverse import (
    domain_distribute,
    left_inverse,
    max_common_layout,
    max_common_vector,
    nullspace,
    right_inverse,
)
from legalsat.layout.swizzle import ComposedLayout

GOLDEN = json.loads((Path(__file__).parent / "data" / "cutlass_layout_algebra.json").read_text())["entries"]
IDS = [f"{i}-{entry['op']}" for i, entry in enumerate(GOLDEN)]
OPERATIONS = vars(layout_algebra) | vars(layout_inverse) | vars(layout_tiling)


def argument(value: Any) -> Any:
    if isinstance(value, dict):
        return ComposedLayout.from_json(value)
    return tuple(map(argument, value)) if isinstance(value, list) else value


@pytest.mark.parametrize("entry", GOLDEN, ids=IDS)
def test_cute_computes_the_same(entry: dict[str, Any]) -> None:
    """CuTe leaves out what it cannot prove of run-time integers: those results are compared as functions."""
    found = OPERATIONS[entry["op"]](*map(argument, entry["args"]))
    expected = argument(entry["result"])
    if entry["static"]:
        assert found == expected
    elif entry["op"] == "right_inverse":
        # CuTe drops modes with run-time strides, so that its inverse ends where the static one may go on.
        assert found.offsets()[: expected.size].tolist() == expected.offsets().tolist()
    else:
        assert found.offsets().tolist() == expected.offsets().tolist()


@given(layouts(strides=SIGNED))
def test_coalesce_and_flatten_keep_the_function(layout: Layout) -> None:
    flattened, coalesced = flatten(layout), coalesce(layout)
    assert flattened.depth <= 1 >= coalesced.depth
    assert by_definition(flattened) == by_definition(coalesced) == by_definition(layout)
    modes = list(zip(flat(coalesced.shape), flat(coalesced.stride), strict=True))
    assert modes == [(1, 0)] or all(n > 1 for n, _ in modes)
    assert all(n * d != e for (n, d), (_, e) in pairwise(modes))


@given(layouts(strides=SIGNED))
def test_coalesce_by_mode_keeps_modes(layout: Layout) -> None:
    assume(layout.depth)
    kept = coalesce(layout, (None,) * layout.rank)
    assert [by_definition(m) for m in kept] == [by_definition(m) for m in layout]


@given(layouts(strides=SIGNED))
def test_filter_keeps_the_image(layout: Layout) -> None:
    kept = filter(layout)
    assert set(by_definition(kept)) == set(by_definition(layout))
    assert 0 not in flat(kept.stride) or kept == Layout(1, 0)
    assert set(by_definition(filter_zeros(layout))) == set(by_definition(layout))


@given(layouts(strides=SIGNED), layouts(strides=SIGNED, most=48))
def test_composition_is_composition_or_refused(lhs: Layout, rhs: Layout) -> None:
    try:
        found = composition(lhs, rhs)
    except NoSuchLayout:
        return
    assert by_definition(found) == [lhs(i) for i in by_definition(rhs)]
    assert len(flat(found.shape)) >= len(flat(rhs.shape))
    if rhs.depth:
        assert [m.size for m in found] == [m.size for m in rhs]


@given(divisible(extents=POWERS, gaps=(1, 2)), POWERS, POWERS)
def test_powers_of_two_always_compose(lhs: Layout, n: int, r: int) -> None:
    found = composition(lhs, Layout(n, r))
    assert by_definition(found) == [lhs(i * r) for i in range(n)]


@given(layouts(strides=SIGNED))
def test_identities_of_composition(layout: Layout) -> None:
    assert by_definition(composition(layout, Layout(layout.size))) == by_definition(layout)
    assert composition(Layout(1000), layout).shape == layout.shape
    assert by_definition(composition(Layout(1000), layout)) == by_definition(layout)
    assert by_definition(composition(layout, Layout(layout.shape))) == by_definition(layout)


@given(st.lists(divisible(most=12), min_size=2, max_size=3), st.data())
def test_a_tuple_composes_mode_by_mode(parts: list[Layout], data: st.DataObject) -> None:
    layout = make_layout(*parts)
    tiler = tuple(data.draw(st.sampled_from([None, *divisors(m.size)])) for m in parts[:2])
    try:
        found = composition(layout, tiler)
    except NoSuchLayout:
        return
    for mode, part, count in zip(found, parts, tiler, strict=False):
        assert by_definition(mode) == by_definition(part)[:count]
    assert found.rank == 2


def divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]


def test_a_basis_addresses_one_mode() -> None:
    lhs, rhs = Layout("(4,(2,3)):(6,(3,1))"), Layout((3, 2), (Basis(1, (1, 1)), Basis(2, (0,))))
    found = composition(lhs, rhs)
    for i in range(3):
        for j in range(2):
            assert found(i, j) == lhs(2 * j, (0, i))
    with pytest.raises(InvalidInput, match="address a mode and a part of it"):
        composition(lhs, Layout((3, 2), (Basis(1, (1, 1)), Basis(2, (1,)))))


@given(layouts(), st.integers(1, 64))
def test_a_complement_is_ordered_and_apart(layout: Layout, target: int) -> None:
    try:
        found = complement(layout, target)
    except NoSuchLayout:
        return
    offsets = by_definition(found)
    assert offsets == sorted(set(offsets))
    both = by_definition(make_layout(filter(layout), found))
    assert len(set(both)) == len(both)


@given(divisible(), st.integers(1, 96))
def test_a_layout_and_its_complement_cover_the_target(layout: Layout, target: int) -> None:
    both = by_definition(make_layout(layout, complement(layout, target)))
    assert len(set(both)) == len(both)
    assert set(range(target)) <= set(both)
    assert complement(layout) == complement(layout, filter(layout).cosize)


@given(layouts(strides=SIGNED))
def test_right_inverse(layout: Layout) -> None:
    inverse = right_inverse(layout)
    assert [layout(i) for i in by_definition(inverse)] == list(range(inverse.size))


@given(divisible(gaps=(1,)))
def test_both_inverses_of_a_permutation_are_its_inverse(layout: Layout) -> None:
    inverse = right_inverse(layout)
    assert inverse.size == layout.size
    assert by_definition(left_inverse(layout)) == by_definition(inverse)


@given(divisible())
def test_left_inverse(layout: Layout) -> None:
    inverse = left_inverse(layout)
    assert [inverse(i) for i in by_definition(layout)] == list(range(layout.size))


@given(layouts())
def test_left_inverse_of_any_injective_layout_or_refused(layout: Layout) -> None:
    assume(len(set(by_definition(layout))) == layout.size)
    try:
        inverse = left_inverse(layout)
    except NoSuchLayout:
        return
    assert [inverse(i) for i in by_definition(layout)] == list(range(layout.size))


@given(layouts(strides=SIGNED))
def test_nullspace(layout: Layout) -> None:
    found = nullspace(layout)
    assert not any(layout(i) for i in by_definition(found))
    assert found.size == math.prod(n for n, d in zip(flat(layout.shape), flat(layout.stride), strict=True) if d == 0)


@given(divisible(), divisible())
def test_max_common_layout(one: Layout, other: Layout) -> None:
    try:
        found = max_common_layout(one, other)
    except NoSuchLayout:
        return
    counting = list(range(found.size))
    assert [one(i) for i in by_definition(found)] == [other(i) for i in by_definition(found)] == counting
    assert max_common_vector(one, other) == found.size


# What CuTe 4.2 prints for these, compiled by nvcc 13.0: layouts of unequal sizes, and strides that nothing divides.
@pytest.mark.parametrize(
    ("one", "other", "vector"),
    [("2:1", "4:1", 4), ("4:1", "2:1", 2)],
)
def test_the_second_layout_bounds_what_is_common_as_in_cute(one: str, other: str, vector: int) -> None:
    assert max_common_vector(Layout(one), Layout(other)) == vector
    assert max_common_layout(Layout(one), Layout(other)) == Layout(vector)


def test_a_complement_leaves_gaps_where_strides_do_not_divide_as_in_cute() -> None:
    layout = Layout("(3,4):(3,16)")
    assert complement(layout, 64) == Layout("3:1")
    both = by_definition(make_layout(layout, complement(layout, 64)))
    assert len(set(both) & set(range(64))) == 36


@given(divisible(gaps=(1,)))
def test_a_compact_layout_has_all_in_common_with_itself(layout: Layout) -> None:
    assert max_common_vector(layout, layout) == layout.size


@given(st.lists(st.integers(1, 12), min_size=1, max_size=4).map(tuple), st.integers(1, 48))
def test_domain_distribute(shape: tuple[int, ...], count: int) -> None:
    found = domain_distribute(shape, count)
    offsets = by_definition(found)
    assert count % found.size == 0
    assert offsets == sorted(set(offsets))
    assert offsets[-1] < math.prod(shape)


@given(divisible())
def test_composed_layouts_change_in_their_domain(layout: Layout) -> None:
    composed = ComposedLayout(Layout(1000, 7), 3, layout)
    assert coalesce(composed).offsets().tolist() == composed.offsets().tolist()
    assert composition(composed, layout.shape if layout.depth else None).offsets().tolist() == [
        7 * (3 + i) for i in by_definition(layout)
    ]
    assert complement(composed, 96) == complement(layout, 96)


def test_structure() -> None:
    layout = Layout("(2,(3,4),5):(1,(2,6),24)")
    assert (size(layout), cosize(layout), rank(layout), depth(layout)) == (120, 120, 3, 2)
    assert size((2, (3, 4))) == 24
    assert str(append(layout, Layout(7, 120))) == "(2,(3,4),5,7):(1,(2,6),24,120)"
    assert str(group(layout, 1, 3)) == "(2,((3,4),5)):(1,((2,6),24))"
    assert str(flatten(layout)) == "(2,3,4,5):(1,2,6,24)"


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: composition(Layout("(6,3):(3,1)"), Layout(4, 4)), "mode 0 .* 4:4, .* step 4 does not divide extent 6"),
        (lambda: composition(Layout("(4,3):(3,1)"), Layout(2, 6)), "step 6 is no multiple of extent 4"),
        (lambda: composition(Layout("(4,3):(3,1)"), Layout((2, 5), (1, 2))), "mode 1 .*5 steps of 2 are no whole"),
        (lambda: composition(Layout("(4,3):(3,1)"), Layout((2, 2), (1, 3))), "reach 4 in mode 4:3 .* and carry"),
        (lambda: composition(Layout("(4,3):(3,1)"), Layout((2, 2), (1, -4))), "both forward and back"),
        (lambda: complement(Layout("(4,2):(1,2)"), 8), "mode 2:2 starts before the smaller strides end at 4"),
        (lambda: complement(Layout("(4,2):(1,-8)"), 8), "has no complement: its stride -8 steps back"),
        (lambda: complement(Layout("2:1@0"), 8), "steps along a coordinate"),
        (lambda: left_inverse(Layout("(3,2):(2,3)")), "stride 3 of extent 2 is no multiple of 2.*pad stride 3 to 4"),
        (lambda: left_inverse(Layout("4:-1")), "has no left inverse: its stride -1"),
    ],
)
def test_no_such_layout(make: Any, says: str) -> None:
    with pytest.raises(NoSuchLayout, match=says):
        make()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: coalesce(4), "layout is 4; give a Layout"),  # type: ignore[call-overload]
        (lambda: coalesce(Layout((2, 3)), (None, None, None)), "tiler has 3 modes"),
        (lambda: composition(Layout((2, 3)), (1, 1, 1)), "tiler has 3 modes"),
        (lambda: composition(Layout((2, 3)), ()), "tiler has 0 modes"),
        (lambda: composition(Layout(8), 0), "tiler is 0"),
        (lambda: composition(Layout(8), True), "tiler is True"),
        (lambda: composition(Layout(8), 2.0), "tiler is 2.0"),  # type: ignore[call-overload]
        (lambda: composition("8:1", 2), "left operand is '8:1'"),  # type: ignore[call-overload]
        (lambda: complement(Layout(8), 0), "cotarget is 0"),
        (lambda: complement(Layout(8), (4, -1)), r"cotarget\[1\] is -1"),
        (lambda: right_inverse("4:1"), "give a layout or a swizzle"),  # type: ignore[call-overload]
        (lambda: group(Layout((2, 3)), 1, 1), "end is 1; give at least 2"),
        (lambda: append(Layout(2), 3), "mode is 3"),  # type: ignore[call-overload]
        (lambda: domain_distribute((4, 4), 0), "count is 0"),
        (lambda: size((2, 0)), r"shape\[1\] is 0"),
    ],
)
def test_refused(make: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        make()
