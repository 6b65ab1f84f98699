"""Layouts as values and as functions, against sums of coordinate times stride."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_layouts import SIGNED, by_definition, flat, layouts

from legalsat.errors import InvalidInput
from legalsat.layout import Layout, make_layout
from legalsat.layout.int_tuple import Basis


@given(layouts(strides=SIGNED))
def test_a_flat_index_enumerates_coordinates_leftmost_fastest(layout: Layout) -> None:
    expected = by_definition(layout)
    assert [layout(i) for i in range(layout.size)] == expected
    assert layout.offsets().tolist() == expected
    assert [layout(layout.coordinate(i)) for i in range(layout.size)] == expected


@given(layouts(strides=SIGNED))
def test_modes_add_up(layout: Layout) -> None:
    modes = list(layout)
    assert len(modes) == len(layout) == layout.rank
    assert math.prod(m.size for m in modes) == layout.size
    if layout.depth:
        for at in product(*(range(m.size) for m in modes)):
            assert layout(*at) == layout(at) == sum(m(c) for m, c in zip(modes, at, strict=True))


@given(layouts(strides=SIGNED))
def test_text_and_json_round_trip(layout: Layout) -> None:
    assert Layout(str(layout)) == layout
    assert eval(repr(layout)) == layout
    assert Layout.from_json(layout.to_json()) == layout
    assert hash(Layout(layout.shape, layout.stride)) == hash(layout)


@given(layouts())
def test_cosize_is_one_past_the_largest_offset(layout: Layout) -> None:
    assert layout.cosize == max(by_definition(layout)) + 1


@given(layouts(strides=SIGNED, depth=1), st.integers(-300, 300))
def test_past_its_size_a_layout_goes_on_along_its_last_mode(layout: Layout, index: int) -> None:
    *front, last = flat(layout.shape)
    longer = Layout((*front, last + 300), tuple(flat(layout.stride)))
    expected = longer(abs(index)) * (1 if index >= 0 else -1)
    assert layout(index) == expected
    assert layout(np.array([index]))[0] == expected


@pytest.mark.parametrize(
    ("text", "shape", "stride"),
    [
        ("((8,16),64):((64,512),1)", ((8, 16), 64), ((64, 512), 1)),
        ("4:2", 4, 2),
        ("(4):(2)", (4,), (2,)),
        (" ( 4 , 8 ) : ( -1 , 0 ) ", (4, 8), (-1, 0)),
        ("(_4,8):(_1,4)", (4, 8), (1, 4)),
        ("(2,(1,3),4)", (2, (1, 3), 4), (1, (0, 2), 6)),
        ("1", 1, 0),
        ("(2,4):(1@1@0,3@1)", (2, 4), (Basis(1, (0, 1)), Basis(3, (1,)))),
    ],
)
def test_notation(text: str, shape: Any, stride: Any) -> None:
    layout = Layout(text)
    assert (layout.shape, layout.stride) == (shape, stride)
    assert Layout(str(layout)) == layout


def test_the_default_is_compact_and_leftmost_fastest() -> None:
    assert Layout((2, (3, 4))).offsets().tolist() == list(range(24))
    assert Layout([2, [3, 4]]) == Layout((np.int64(2), (3, 4)))


def test_coordinates_of_every_coarseness_agree() -> None:
    layout = Layout("((2,3),(4,5)):((60,20),(5,1))")
    for a, b, c, d in product(range(2), range(3), range(4), range(5)):
        offset = 60 * a + 20 * b + 5 * c + d
        left, right = a + 2 * b, c + 4 * d
        assert layout((a, b), (c, d)) == layout((a, b), right) == layout(left, (c, d)) == offset
        assert layout(left, right) == layout(left + 6 * right) == offset


def test_access_to_modes() -> None:
    layout = Layout("((8,16),64):((64,512),1)")
    assert layout[0] == Layout((8, 16), (64, 512))
    assert layout[0, 1] == Layout(16, 512)
    assert layout[-1] == Layout(64, 1)
    assert (layout.rank, layout.depth, layout.size) == (2, 2, 8192)
    assert list(Layout(4, 2)) == [Layout(4, 2)]
    assert Layout(4, 2) != make_layout(Layout(4, 2)) == Layout((4,), (2,))


def test_a_layout_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        Layout(4).shape = 5  # type: ignore[misc]


def test_a_basis_scales_and_prints() -> None:
    assert 3 * Basis(2, (1, 0)) == Basis(6, (1, 0))
    assert str(Basis(2, (1, 0))) == "2@0@1"
    fields = {"shape": [2], "stride": [{"basis": [1, 0], "scale": 2}]}
    assert Layout.from_json(fields) == Layout((2,), (Basis(2, (1, 0)),))
    assert Layout.from_json(fields).to_json() == fields


LAYOUT = Layout("((2,3),4):((1,2),6)")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Layout(0), "shape is 0; give at least 1"),
        (lambda: Layout((4, -1)), r"shape\[1\] is -1"),
        (lambda: Layout(True), "shape is True; give an integer"),
        (lambda: Layout(4.0), "shape is 4.0; give an integer"),
        (lambda: Layout((4, float("nan"))), r"shape\[1\] is nan; give an integer"),
        (lambda: Layout(None), "shape is None; give an integer"),
        (lambda: Layout(2**63), "give at most"),
        (lambda: Layout((2**40, 2**40)), "elements; give at most"),
        (lambda: Layout((2**40, 2), (2**30, 1)), "offsets; give at most"),
        (lambda: Layout(4, 2**63), "stride is 9223372036854775808; give at most"),
        (lambda: Layout(4, -(2**63)), "give at least"),
        (lambda: Layout(4, "1"), "stride is '1'"),
        (lambda: Layout((4, 8), 1), "stride 1 is not nested like shape"),
        (lambda: Layout((4, 8), (1, (4, 8))), "not nested like shape"),
        (lambda: Layout(()), "shape is empty"),
        (lambda: Layout("(4,8"), "open parenthesis"),
        (lambda: Layout("(4,8))"), "goes on after its end"),
        (lambda: Layout("4,8"), "goes on after its end"),
        (lambda: Layout("(4;8)"), "write integers, commas and parentheses"),
        (lambda: Layout("()"), "where a number belongs"),
        (lambda: Layout(""), "write integers"),
        (lambda: Layout("4:"), "stride is ''"),
        (lambda: Layout("(" * 5000 + "4"), "nested more than"),
        (lambda: Layout("9" * 5000), "a number of 5000 digits"),
        (lambda: Layout("4:1", 2), "a stride is given too"),
        (lambda: Layout.from_json({"shape": 4}), "give an object with shape and stride"),
        (lambda: Layout.from_json({"shape": 4, "stride": {"basis": [0]}}), "with basis and scale"),
        (LAYOUT, "called on nothing"),
        (lambda: LAYOUT(1.5), "coordinate is 1.5"),  # type: ignore[call-overload]
        (lambda: LAYOUT(True, 0), r"coordinate\[0\] is True"),
        (lambda: LAYOUT(1, 2, 3), "does not fit shape"),
        (lambda: LAYOUT((1, 2), (3, 4)), r"coordinate\[1\] \(3, 4\) does not fit shape 4"),
        (lambda: LAYOUT(np.array([0.5])), "indices are of type float64"),
        (lambda: LAYOUT.coordinate(24), "index is 24; give at most 23"),
        (lambda: LAYOUT[2], "give at most 1"),
        (lambda: LAYOUT[0, 0, 1], "give at most 0"),
        (lambda: Layout("4:1@0")(1), "yields coordinates, not offsets"),
        (lambda: Basis(1.0, (0,)), "basis scale is 1.0"),  # type: ignore[arg-type]
        (lambda: make_layout(4), "mode is 4; give layouts"),  # type: ignore[arg-type]
    ],
)
def test_refused(make: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        make()


def test_a_deeply_nested_tuple_is_refused() -> None:
    shape: Any = 4
    for _ in range(2000):
        shape = (shape,)
    with pytest.raises(InvalidInput, match="nested more than"):
        Layout(shape)
