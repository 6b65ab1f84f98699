"""Linear layouts over F2: exactly which layouts are linear, algebra by enumeration, and Triton's own layouts."""

from __future__ import annotations

import json
import math
import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_layouts import POWERS, by_definition, divisible, flat, layouts
from test_swizzle import swizzles

from legalsat.errors import InvalidInput, NoSuchLayout, NotLinear
from legalsat.layout import Layout
from legalsat.layout.linear_layout import LinearLayout, blocked
from legalsat.layout.swizzle import ComposedLayout, Swizzle

GOLDEN = json.loads((Path(__file__).parent / "data" / "triton_linear_layout_conversions.json").read_text())["entries"]


@st.composite
def linear_layouts(draw: st.DrawFn, most: int = 3) -> LinearLayout:
    """At most six input and six output bits."""
    outs = {name: 1 << draw(st.integers(0, most)) for name in draw(st.sampled_from(["u", "uv"]))}
    vector = st.tuples(*(st.integers(0, size - 1) for size in outs.values()))
    return LinearLayout(
        {name: draw(st.lists(vector, max_size=most)) for name in draw(st.sampled_from(["a", "ab"]))}, outs
    )


def inputs(layout: LinearLayout) -> list[dict[str, int]]:
    """Input coordinates, first dimension fastest."""
    names, sizes = layout.in_sizes.keys(), layout.in_sizes.values()
    every = product(*(range(n) for n in reversed(sizes)))
    return [dict(zip(names, reversed(at), strict=True)) for at in every]


def flattened(coordinate: dict[str, int], sizes: dict[str, int]) -> int:
    index = 0
    for name in reversed(sizes):
        index = index * sizes[name] + coordinate[name]
    return index


def is_linear(function: list[int]) -> bool:
    """The definition, over all pairs; offsets below 0 have no finite number of bits."""
    every = range(len(function))
    return min(function) >= 0 and all(function[x ^ y] == function[x] ^ function[y] for x in every for y in every)


@given(layouts(extents=POWERS, strides=st.integers(-2, 12), most=32))
def test_the_criterion_is_the_definition(layout: Layout) -> None:
    offsets = by_definition(layout)
    try:
        found = LinearLayout.from_layout(layout)
    except NotLinear:
        assert not is_linear(offsets)
    else:
        assert is_linear(offsets)
        assert found.table().tolist() == offsets


@given(swizzles(), layouts(extents=POWERS, strides=st.integers(0, 12), most=32))
def test_a_swizzle_keeps_linearity(swizzle: Swizzle, layout: Layout) -> None:
    swizzled = ComposedLayout(swizzle, 0, layout)
    try:
        found = LinearLayout.from_layout(swizzled)
    except NotLinear:
        assert not is_linear(swizzled.offsets().tolist())
    else:
        assert found.table().tolist() == swizzled.offsets().tolist()


@given(swizzles(most=2))
def test_a_swizzle_is_its_own_inverse_as_a_linear_layout(swizzle: Swizzle) -> None:
    found = LinearLayout.from_layout(swizzle)
    assert found.table().tolist() == [swizzle(i) for i in range(swizzle.period)]
    assert found.inverse().table().tolist() == found.table().tolist()


@given(divisible(extents=POWERS, gaps=(1, 2)))
def test_strided_layouts_go_there_and_back(layout: Layout) -> None:
    assert by_definition(LinearLayout.from_layout(layout).to_layout()) == by_definition(layout)
    if layout.depth:
        names = [f"mode{i}" for i in range(layout.rank)]
        found = LinearLayout.from_layout(layout, names).to_layout()
        assert [by_definition(m) for m in (found if layout.rank > 1 else [found])] == [by_definition(m) for m in layout]


@given(linear_layouts())
def test_a_strided_layout_exists_exactly_if_bits_add(layout: LinearLayout) -> None:
    columns = layout.columns
    sums = [sum(c for i, c in enumerate(columns) if x >> i & 1) for x in range(1 << len(columns))]
    try:
        found = layout.to_layout()
    except NotLinear:
        assert sums != layout.table().tolist()
    else:
        assert by_definition(found) == layout.table().tolist()
        assert [m.size for m in found] == [*layout.in_sizes.values()] or len(layout.ins) == 1


@given(linear_layouts())
def test_application_is_xor_of_bases(layout: LinearLayout) -> None:
    table = layout.table().tolist()
    assert [flattened(layout(**at), layout.out_sizes) for at in inputs(layout)] == table
    assert is_linear(table)
    assert layout.is_injective() == (len(set(table)) == len(table))
    assert layout.is_surjective() == (len(set(table)) == math.prod(layout.out_sizes.values()))
    assert 1 << layout.rank == len(set(table))


@given(linear_layouts())
def test_the_kernel_spans_what_maps_to_zero(layout: LinearLayout) -> None:
    kernel = [flattened(at, layout.in_sizes) for at in layout.kernel()]
    spanned = {0}
    for mask in kernel:
        spanned |= {x ^ mask for x in spanned}
    assert spanned == {x for x, y in enumerate(layout.table()) if y == 0}


@given(linear_layouts())
def test_inverses(layout: LinearLayout) -> None:
    table = layout.table().tolist()
    for invert, exists in (
        (layout.left_inverse, layout.is_injective()),
        (layout.right_inverse, layout.is_surjective()),
    ):
        if not exists:
            with pytest.raises(NoSuchLayout):
                invert()
            continue
        back = invert()
        assert (back.in_sizes, back.out_sizes) == (layout.out_sizes, layout.in_sizes)
        there = back.table().tolist()
        if layout.is_injective():
            assert [there[y] for y in table] == list(range(len(table)))
        else:
            assert [table[x] for x in there] == list(range(len(there)))


@given(linear_layouts(), st.data())
def test_composition(inner: LinearLayout, data: st.DataObject) -> None:
    sizes = inner.out_sizes
    bases = {
        n: data.draw(st.lists(st.tuples(st.integers(0, 7)), min_size=k, max_size=k)) for n, k in bits(sizes).items()
    }
    outer = LinearLayout(dict(reversed(bases.items())), {"w": 8})
    found = inner.compose(outer)
    assert found.in_sizes == inner.in_sizes
    for at in inputs(inner):
        assert found(**at) == outer(**inner(**at))


def bits(sizes: dict[str, int]) -> dict[str, int]:
    return {name: size.bit_length() - 1 for name, size in sizes.items()}


@given(linear_layouts(), linear_layouts(most=2))
def test_a_product_repeats_its_left_factor(one: LinearLayout, other: LinearLayout) -> None:
    found = one * other
    assert found.out_sizes == {
        name: one.out_sizes.get(name, 1) * other.out_sizes.get(name, 1) for name in one.out_sizes | other.out_sizes
    }
    for low, high in product(inputs(one)[:16], inputs(other)[:16]):
        at = {n: low.get(n, 0) + one.in_sizes.get(n, 1) * high.get(n, 0) for n in found.in_sizes}
        a, b = one(**low), other(**high)
        assert found(**at) == {n: a.get(n, 0) + one.out_sizes.get(n, 1) * b.get(n, 0) for n in found.out_sizes}


def test_products_of_strided_layouts_are_products() -> None:
    block, tiler = LinearLayout.identity(4, "i", "o"), LinearLayout.identity(8, "i", "o")
    assert block * tiler == LinearLayout.identity(32, "i", "o")
    assert (LinearLayout.identity(4, "i", "o") * LinearLayout.zeros(2, "i", "o")).bases == {"i": [[1], [2], [0]]}


def golden(entry: dict[str, Any]) -> LinearLayout:
    expected = entry["expected"]
    return LinearLayout(expected["bases"], expected["out_dims"])


@pytest.mark.parametrize("entry", GOLDEN, ids=[f"{i}-{e['test']}" for i, e in enumerate(GOLDEN)])
def test_triton_layouts_cover_their_tensor(entry: dict[str, Any]) -> None:
    """Whatever the encoding, every element is held by somebody, and copies are the kernel."""
    layout = golden(entry)
    assert list(layout.out_sizes.values()) == entry["shape"]
    assert layout.is_surjective()
    holders = layout.right_inverse()
    assert holders.compose(layout).table().tolist() == list(range(math.prod(entry["shape"])))
    assert len(layout.kernel()) == len(layout.columns) - layout.rank
    assert all(not any(layout(**at).values()) for at in layout.kernel())


def numbers(text: str) -> list[list[int]]:
    return [[int(n) for n in group.split(",")] for group in re.findall(r"\{([\d, ]+)\}", text)]


@pytest.mark.parametrize(
    "entry", [e for e in GOLDEN if e["encoding_cpp"].startswith("blocked(")], ids=lambda e: e["test"]
)
def test_triton_blocked_layouts_are_products_of_identities(entry: dict[str, Any]) -> None:
    """CTAs of a cluster split the tensor first, by the fifth list; each then holds a blocked layout of its part."""
    size_per_thread, threads, warps, _, split, order, _ = numbers(entry["encoding_cpp"])
    shape = [max(1, n // s) for n, s in zip(entry["shape"], split, strict=True)]
    found = blocked(shape, size_per_thread, threads, warps, order)
    expected = entry["expected"]["bases"]
    assert found.bases == {name: expected[name] for name in ("register", "lane", "warp")}


def tensor_from_offset(layout: Any, dims: list[str]) -> dict[str, list[list[int]]]:
    """Bases of (offset -> coordinate) of a layout (coordinate -> offset), coordinates in the order dim0, dim1, ..."""
    found = LinearLayout.from_layout(layout, dims).inverse()
    names, order = list(found.out_sizes), sorted(dims)
    return {"offset": [[v[names.index(d)] for d in order] for v in found.bases["offset"]]}


@pytest.mark.parametrize(
    "entry", [e for e in GOLDEN if e["encoding_cpp"].startswith("shared(")], ids=lambda e: e["test"]
)
def test_triton_swizzled_shared_layouts_are_cute_swizzles(entry: dict[str, Any]) -> None:
    """Vectors of `vec` are XORed with row / per_phase modulo max_phase: a swizzle of the row-major layout."""
    vec, per_phase, max_phase = (int(n) for n in re.findall(r"\d+", entry["encoding_cpp"])[:3])
    order = numbers(entry["encoding_cpp"])[2]
    inner, outer = (entry["shape"][axis] for axis in order)
    base, row = (n.bit_length() - 1 for n in (vec, inner * per_phase))
    swizzle = Swizzle(max_phase.bit_length() - 1, base, row - base)
    layout = ComposedLayout(swizzle, 0, Layout((inner, outer), (1, inner)))
    found = tensor_from_offset(layout, [f"dim{axis}" for axis in order])
    assert found["offset"] == entry["expected"]["bases"]["offset"]


NVMMA = [e for e in GOLDEN if e["encoding_cpp"].startswith("nvmmaShared(") and len(e["shape"]) == 2]


@pytest.mark.parametrize("entry", NVMMA, ids=lambda e: e["test"])
def test_triton_nvmma_layouts_are_tma_swizzles(entry: dict[str, Any]) -> None:
    """Rows of one swizzle span, `Swizzle.tma` on their bytes; a longer inner extent makes further columns of rows."""
    span, transposed, width = re.findall(r"\((\d+), (\w+), (\d+)", entry["encoding_cpp"])[0]
    swizzle = Swizzle.tma(f"{span}B").recast(8, int(width))
    row = int(span) * 8 // int(width)
    axes = (0, 1) if transposed == "true" else (1, 0)
    inner, outer = (entry["shape"][axis] for axis in axes)
    layout = Layout(((row, inner // row), outer), ((1, row * outer), row))
    found = tensor_from_offset(ComposedLayout(swizzle, 0, layout), [f"dim{axis}" for axis in axes])
    assert found["offset"] == entry["expected"]["bases"]["offset"]


IDENTITY = LinearLayout.identity(4, "lane", "offset")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: LinearLayout.from_layout(Layout((3, 4))), "extent 3 of mode 3:1 is no power of two; pad it to 4"),
        (lambda: LinearLayout.from_layout(Layout(4, -1)), "stride -1 of mode 4:-1 is no forward step"),
        (lambda: LinearLayout.from_layout(Layout(4, 3)), "bit 0 of index and bit 1 of index both feed output bit 1"),
        (
            lambda: LinearLayout.from_layout(Layout((4, 4), (1, 2)), ["lane", "warp"]),
            "bit 1 of lane and bit 0 of warp both feed output bit 1, so that sums carry",
        ),
        (
            lambda: LinearLayout.from_layout(ComposedLayout(Swizzle(1, 0), 2, Layout(4))),
            "adds 2, so index 0 is not at 0",
        ),
        (lambda: LinearLayout.from_layout(ComposedLayout(Layout(4), 0, Layout(4))), "other than a swizzle on top"),
        (lambda: LinearLayout.from_layout(Layout("2:1@0")), "stride 1@0 of mode 2:1@0"),
        (lambda: LinearLayout.from_layout(Swizzle(1, 0, 2)).to_layout(), "bit 0 of index and bit 2 of index both feed"),
    ],
)
def test_not_linear(make: Any, says: str) -> None:
    with pytest.raises(NotLinear, match=says):
        make()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: LinearLayout({"a": [(4,)]}, {"o": 4}), "reaches 4 in o of size 4"),
        (lambda: LinearLayout({"a": [(1, 0)]}, {"o": 4}), "basis 0 of a has 2 entries; give 1"),
        (lambda: LinearLayout({"a": [(True,)]}, {"o": 4}), "is True"),
        (lambda: LinearLayout({"a": [(-1,)]}, {"o": 4}), "is -1; give at least 0"),
        (lambda: LinearLayout({"a": [(0.5,)]}, {"o": 4}), "is 0.5"),  # type: ignore[list-item]
        (lambda: LinearLayout({"a": [1]}, {"o": 4}), "give a sequence"),  # type: ignore[list-item]
        (lambda: LinearLayout({"a": []}, {"o": 3}), "size of o is 3; give a power of two"),
        (lambda: LinearLayout({"a": []}, ["o", "o"]), "called alike"),
        (lambda: LinearLayout({"a": []}, "o"), "outs are 'o'"),
        (lambda: LinearLayout({"": []}, ["o"]), "give a word"),
        (lambda: LinearLayout([], ["o"]), "bases are"),  # type: ignore[arg-type]
        (lambda: LinearLayout({"a": [(0,)] * 63}, ["o"]), "more than 62 bits"),
        (lambda: LinearLayout.identity(6, "a", "o"), "size is 6"),
        (lambda: LinearLayout.from_layout(4), "layout is 4"),  # type: ignore[arg-type]
        (lambda: LinearLayout.from_layout(Layout((2, 2)), ["a", "b", "c"]), "3 names for the 2 modes"),
        (lambda: LinearLayout.from_layout(Layout(4), "lane"), "give a list of names"),
        (lambda: IDENTITY.compose(4), "outer is 4"),  # type: ignore[arg-type]
        (lambda: IDENTITY(lane=4), "lane is 4; give at most 3"),
        (lambda: IDENTITY(lane=False), "lane is False"),
        (lambda: IDENTITY(warp=0), "give each of lane"),
        (lambda: IDENTITY.compose(IDENTITY), "outputs offset feed inputs lane"),
        (lambda: IDENTITY.compose(LinearLayout.identity(2, "offset", "o")), "size 4, the input only 2"),
        (lambda: blocked([6], [1], [4], [1], [0]), r"shape\[0\] is 6"),
        (lambda: blocked([8, 8], [1, 1], [4, 8], [1, 1], [0, 0]), "name each of the 2 dimensions once"),
        (lambda: blocked([8, 8], [1], [4, 8], [1, 1], [0, 1]), "register has 1 entry"),
    ],
)
def test_refused(make: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        make()


def test_values_are_immutable_and_comparable() -> None:
    one = LinearLayout({"lane": [(1,), (2,)]}, {"offset": 4})
    assert one == IDENTITY
    assert hash(one) == hash(IDENTITY)
    assert str(one) == "lane: (1,) (2,)\n-> offset:4"
    assert flat(one.to_layout().shape) == [4]
