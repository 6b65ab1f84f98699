"""Swizzles bit by bit, and layouts with a swizzle on top."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_layouts import POWERS, divisible, layouts

from legalsat.errors import InvalidInput, NoSuchLayout
from legalsat.layout import Layout
from legalsat.layout.algebra import composition
from legalsat.layout.inverse import left_inverse, right_inverse
from legalsat.layout.swizzle import ComposedLayout, Swizzle


@st.composite
def swizzles(draw: st.DrawFn, most: int = 3) -> Swizzle:
    bits = draw(st.integers(0, most))
    return Swizzle(bits, draw(st.integers(0, most)), draw(st.integers(bits, most + 1)) * draw(st.sampled_from([1, -1])))


def bit_by_bit(swizzle: Swizzle, offset: int) -> int:
    """FACTS CV-01: bits [M, M+B) ^= bits [M+S, M+S+B); a negative shift takes them from below."""
    found = offset
    for i in range(swizzle.bits):
        low, high = swizzle.base + i, swizzle.base + i + abs(swizzle.shift)
        source, target = (high, low) if swizzle.shift >= 0 else (low, high)
        found ^= (offset >> source & 1) << target
    return found


@given(swizzles())
def test_a_swizzle_xors_bits_and_undoes_itself(swizzle: Swizzle) -> None:
    offsets = range(2 * swizzle.period)
    found = [swizzle(i) for i in offsets]
    assert found == [bit_by_bit(swizzle, i) for i in offsets]
    assert [swizzle(i) for i in found] == list(offsets)
    assert swizzle(np.arange(2 * swizzle.period)).tolist() == found
    assert all(swizzle(i + swizzle.period) == swizzle(i) + swizzle.period for i in range(swizzle.period))


@given(swizzles())
def test_masks_make_the_swizzle(swizzle: Swizzle) -> None:
    made = Swizzle.from_masks(swizzle.source_mask, swizzle.target_mask)
    assert made == (swizzle if swizzle.bits else Swizzle(0, 0, 0))


@pytest.mark.parametrize(
    ("span", "chunk"),
    [
        ("none", lambda x, y: x),
        ("32B", lambda x, y: x ^ y % 2),
        ("64B", lambda x, y: x ^ y % 4),
        ("128B", lambda x, y: x ^ y % 8),
        ("128B_atom_32B", lambda x, y: x ^ 2 * (y % 4)),
        ("128B_atom_64B", lambda x, y: x ^ 4 * (y % 2)),
    ],
)
def test_tma_spans(span: str, chunk: Any) -> None:
    """FACTS SW-14: 16-byte chunk x of 128-byte line y goes to chunk x'."""
    swizzle = Swizzle.tma(span)
    for address in range(4096):
        line, x, byte = address // 128, address // 16 % 8, address % 16
        assert swizzle(address) == 128 * line + 16 * chunk(x, line) + byte


@given(swizzles(), st.integers(0, 3))
def test_recast_counts_elements(swizzle: Swizzle, log: int) -> None:
    width = 8 << log
    try:
        recast = swizzle.recast(8, width)
    except NoSuchLayout:
        assert swizzle.base < log and swizzle.bits
        return
    for element in range(2 * swizzle.period):
        assert swizzle(element << log) == recast(element) << log
    assert recast.recast(width, 8)(12345) == swizzle(12345)
    assert swizzle.recast(8, 4)(24690) == swizzle(12345) * 2


@given(swizzles(), swizzles())
def test_swizzles_merge_or_are_refused(lhs: Swizzle, rhs: Swizzle) -> None:
    try:
        found = composition(lhs, rhs)
    except NoSuchLayout:
        return
    assert all(found(i) == lhs(rhs(i)) for i in range(4096))


def test_swizzles_of_one_shift_merge() -> None:
    assert composition(Swizzle(1, 0, 3), Swizzle(1, 1, 3)) == Swizzle(2, 0, 3)
    assert composition(Swizzle(2, 0, 3), Swizzle(2, 0, 3)) == Swizzle(0, 0, 0)


@given(swizzles(), divisible())
def test_a_swizzled_layout_swizzles_offsets(swizzle: Swizzle, layout: Layout) -> None:
    found = composition(swizzle, layout)
    assert [found(i) for i in range(found.size)] == [swizzle(layout(i)) for i in range(layout.size)]
    assert found.offsets().tolist() == [found(found.coordinate(i)) for i in range(found.size)]
    assert (found.shape, found.rank, found.depth) == (layout.shape, layout.rank, layout.depth)
    assert ComposedLayout.from_json(found.to_json()) == found
    assert [found[i](0) for i in range(found.rank)] == [0] * found.rank


@given(swizzles(), divisible(), st.integers(0, 16))
def test_an_offset_is_added_before_the_swizzle(swizzle: Swizzle, layout: Layout, offset: int) -> None:
    found = ComposedLayout(swizzle, offset, layout)
    assert found.offsets().tolist() == [swizzle(offset + layout(i)) for i in range(layout.size)]


@given(layouts(extents=POWERS), swizzles(), layouts(extents=POWERS, most=32))
def test_a_swizzle_passes_through_a_layout_or_is_refused(lhs: Layout, swizzle: Swizzle, rhs: Layout) -> None:
    inner = ComposedLayout(swizzle, 0, rhs)
    try:
        found = composition(lhs, inner)
    except NoSuchLayout:
        return
    assert found.offsets().tolist() == [lhs(swizzle(rhs(i))) for i in range(rhs.size)]


def test_a_swizzle_passes_through_a_transpose() -> None:
    found = composition(Layout("(8,8):(8,1)"), Swizzle(3, 0, 3))
    assert str(found) == "Sw<3,0,-3> o 0 o (8,8):(8,1)"
    assert [found(i) for i in range(64)] == [8 * (j % 8) + j // 8 for j in map(Swizzle(3, 0, 3), range(64))]


@given(swizzles(most=2), divisible(extents=POWERS, gaps=(1, 2)))
def test_inverses_of_swizzled_layouts_or_refused(swizzle: Swizzle, layout: Layout) -> None:
    swizzled = ComposedLayout(swizzle, 0, layout)
    try:
        left = left_inverse(swizzled)
        right = right_inverse(swizzled)
    except NoSuchLayout:
        return
    # A swizzle may leave the domain that its layout was inverted on; within it both must hold.
    inside = swizzled.offsets() < left_inverse(layout).size
    assert (left(swizzled.offsets()) == np.arange(swizzled.size))[inside].all()
    if layout.cosize % swizzle.period == 0 and right.size % swizzle.period == 0:
        assert swizzled(right.offsets()).tolist() == list(range(right.size))


@given(swizzles(), st.integers(1, 64), divisible(gaps=(1,)))
def test_an_offset_inverts_too(swizzle: Swizzle, offset: int, layout: Layout) -> None:
    composed = ComposedLayout(swizzle, offset, layout)
    inverse = left_inverse(composed)
    assert isinstance(inverse, ComposedLayout)
    assert [inverse(composed(i)) for i in range(layout.size)] == list(range(layout.size))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Swizzle(-1, 4, 3), "swizzle bits is -1"),
        (lambda: Swizzle(3, 4, 2), "shift is 2 over 3 bits"),
        (lambda: Swizzle(3, 4, True), "swizzle shift is True"),
        (lambda: Swizzle(3.0, 4, 3), "swizzle bits is 3.0"),  # type: ignore[arg-type]
        (lambda: Swizzle(3, 60, 3), "swizzle reaches bit 65"),
        (lambda: Swizzle(3, 2**70, 3), "swizzle base is"),
        (lambda: Swizzle.tma("96B"), "swizzle span is '96B'; give one of none, 32B"),
        (lambda: Swizzle.tma("128B_atom_32B_flip_8B"), "give one of"),
        (lambda: Swizzle(3, 4, 3)(1.5), "offset is 1.5"),  # type: ignore[call-overload]
        (lambda: Swizzle(3, 4, 3)(np.array([0.5])), "offsets are of type float64"),
        (lambda: Swizzle(3, 4, 3).recast(8, 6), "new_bits is 6; give a power of two"),
        (lambda: ComposedLayout(3, 0, Layout(4)), "outer is 3"),  # type: ignore[arg-type]
        (lambda: ComposedLayout(Swizzle(1, 0), 0.5, Layout(4)), "offset is 0.5"),  # type: ignore[arg-type]
        (lambda: ComposedLayout(Layout(4), 0, Swizzle(1, 0)).size, "has no shape"),
        (lambda: ComposedLayout.from_json({"outer": {"swizzle": [1, 2]}, "offset": 0, "inner": {}}), "swizzle has 2"),
        (lambda: composition(Swizzle(1, 0), "4"), "tiler is '4'"),  # type: ignore[call-overload]
    ],
)
def test_refused(make: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        make()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Swizzle.from_masks(0b101, 0b1010), "no swizzle XORs bits 0b101 into bits 0b1010"),
        (lambda: Swizzle.from_masks(0b11, 0b110), "no swizzle"),
        (
            lambda: Swizzle.tma("128B").recast(8, 256),
            "would tear elements of 256 bits; use elements of at most 128 bits",
        ),
        (lambda: composition(Swizzle(2, 0, 2), Swizzle(2, 2, 2)), "is no single swizzle; apply one after"),
        (lambda: composition(Layout("(3,8):(8,1)"), Swizzle(1, 0, 2)), "is no swizzled layout; keep it as Composed"),
        (lambda: composition(Layout(4, -1), Swizzle(1, 0)), "is no swizzled layout"),
        (lambda: composition(Layout(8, 3), ComposedLayout(Swizzle(1, 0), 5, Layout(4))), "adds 5 in between"),
        (lambda: composition(Layout(2**30), Swizzle(1, 0)), "too many to check"),
    ],
)
def test_no_such_layout(make: Any, says: str) -> None:
    with pytest.raises(NoSuchLayout, match=says):
        make()
