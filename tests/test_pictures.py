"""Pictures: what they draw is compared with what brute force says, cell by cell."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import legalsat as ls
from legalsat.layout.linear_layout import blocked
from legalsat.units.tensor_copy import TensorCopy
from legalsat.view.pictures import pictures_of
from legalsat.view.pictures_box import corner, filled_elements
from legalsat.view.svg import HUES, Canvas

SVG = "{http://www.w3.org/2000/svg}"
PHONE = 390 - 2 * 8  # units, with the margins of a page
T = ls.TensorMap
ODD = T("bf16", (4095, 4096), (8190,), (64, 64), swizzle="128B")
EVEN = T("bf16", (4096, 4096), (8192,), (64, 64), swizzle="128B")
COLUMNS = T(
    "bf16",
    (64, 14, 10, 8),
    (128, 128 * 14, 128 * 140),
    mode="im2col",
    lower_corner=(-1, -1),
    upper_corner=(-1, -1),
    channels=64,
    pixels=64,
    swizzle="128B",
)


def drawn(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def rects(svg: str, kind: str) -> list[dict[str, str]]:
    """Return the attributes of the rectangles that stand for a kind of thing: those whose name begins with it."""
    found = (dict(rect.attrib) for rect in drawn(svg).iter(f"{SVG}rect"))
    return [rect for rect in found if re.match(rf"{kind}\b", rect.get("data-is", ""))]


def words(svg: str) -> list[str]:
    return [str(text.text) for text in drawn(svg).iter(f"{SVG}text")]


def area(rect: dict[str, str]) -> float:
    return float(rect["width"]) * float(rect["height"])


def grid(found: list[dict[str, str]]) -> Iterator[tuple[int, int, dict[str, str]]]:
    """Yield row, column and rectangle, of cells that lie in a grid of which each row and column has one."""
    rows, columns = (sorted({float(rect[side]) for rect in found}) for side in "yx")
    for rect in found:
        yield rows.index(float(rect["y"])), columns.index(float(rect["x"])), rect


EVERY = {
    "layout": ls.draw_layout(ls.Layout("((8,16),64):((64,512),1)"), element_bits=16),
    "flat layout": ls.draw_layout(ls.Layout("40:3")),
    "owners": ls.draw_owners(ls.Wgmma(32, "bf16").d_fragment, (64, 32)),
    "box": ls.draw_box(ODD),
    "row": ls.draw_box(T("u8", (100,), (), (32,))),
    "rows": ls.draw_rows(ODD),
    "pixels": ls.draw_pixels(COLUMNS),
    "shared": ls.draw_shared(EVEN),
    "shared by words": ls.draw_shared(EVEN, op="ld.b32"),
}


@pytest.mark.parametrize("name", EVERY)
def test_a_picture_is_well_formed_and_says_what_it_shows(name: str) -> None:
    root = drawn(EVERY[name])
    assert root.tag == f"{SVG}svg" and root.get("role") == "img"
    for tag in ("title", "desc"):
        (said,) = root.findall(f"{SVG}{tag}")
        assert said.text and len(said.text) > 10
    _, _, width, height = map(float, str(root.get("viewBox")).split())
    assert width <= PHONE, "a phone shows it at its own size"
    for element in root.iter():
        assert not [name for name in element.attrib if "href" in name or name.startswith("on")]
        assert element.tag != f"{SVG}script"
        if element.tag == f"{SVG}rect":
            x, y, wide, tall = (float(element.attrib[a]) for a in ("x", "y", "width", "height"))
            assert x >= -0.01 and x + wide <= width + 0.01 and y >= -0.01 and y + tall <= height + 0.01
        if element.tag == f"{SVG}text":
            assert 0 <= float(element.attrib["x"]) <= width and 0 <= float(element.attrib["y"]) <= height
            assert float(element.get("font-size", "10")) >= 5


def test_colours_are_told_apart_without_seeing_them() -> None:
    """Every coloured cell says in words what its colour does."""
    for name in ("layout", "owners", "shared"):
        cells = rects(EVERY[name], "(bank|thread|row)")
        assert len(words(EVERY[name])) > len(cells) > 0
    assert len({hue.fill for hue in HUES}) == len(HUES)


# Grids


@st.composite
def layouts(draw: st.DrawFn) -> ls.Layout:
    modes = draw(st.lists(st.tuples(st.integers(1, 20), st.integers(-3, 70)), min_size=1, max_size=3))
    if len(modes) == 1 and draw(st.booleans()):
        return ls.Layout(*modes[0])
    return ls.Layout(tuple(n for n, _ in modes), tuple(d for _, d in modes))


@settings(deadline=None, max_examples=60)
@given(layouts(), st.sampled_from([4, 8, 16, 32, 64, 128]), st.booleans())
def test_a_cell_has_its_offset_and_the_colour_of_its_bank(layout: ls.Layout, bits: int, swizzled: bool) -> None:
    asked: Any = ls.composition(ls.Swizzle(2, 1, 3), layout) if swizzled else layout
    svg = ls.draw_layout(asked, element_bits=bits, rows=6, columns=9)
    if asked.rank == 1:
        across = min(asked.size, 9)
        want = {divmod(i, across): asked(i) for i in range(min(asked.size, 54))}
    else:
        rest = (0,) * (asked.rank - 2)
        want = {(i, j): asked(i, j, *rest) for i in range(min(asked[0].size, 6)) for j in range(min(asked[1].size, 9))}
    cells = {(row, column): rect for row, column, rect in grid(rects(svg, "bank"))}
    banks = {at: offset * bits // 8 // 4 % 32 for at, offset in want.items()}
    assert {at: int(rect["data-is"].split()[1]) for at, rect in cells.items()} == banks
    colours: dict[tuple[str, str], int] = {}
    for at, rect in cells.items():
        assert colours.setdefault((rect["fill"], rect["fill-opacity"]), banks[at]) == banks[at]
    assert len(colours) == len(set(banks.values())), "a colour for each bank"
    said = Counter(words(svg))
    assert not Counter(map(str, want.values())) - said
    assert not Counter(f"b{bank}" for bank in banks.values()) - said
    every = asked.size if asked.rank == 1 else asked[0].size * asked[1].size
    assert any(text.startswith("cut: ") for text in words(svg)) == (len(want) < every)
    assert ("the first index" in " ".join(words(svg))) == (asked.rank > 2)


def named(svg: str) -> dict[tuple[int, int], int]:
    return {(row, column): int(rect["data-is"].split()[1]) for row, column, rect in grid(rects(svg, "thread"))}


def test_owners_are_those_that_the_fragments_name() -> None:
    fragment = ls.Wgmma(16, "bf16").d_fragment
    want = {}
    for thread, value in product(range(128), range(fragment[1].size)):
        column, row = divmod(fragment(thread, value), 64)
        want[row, column] = thread, value
    svg = ls.draw_owners(fragment, (64, 16), rows=64)
    assert named(svg) == {at: thread for at, (thread, _) in want.items()}
    assert not Counter(f"V{value}" for _, value in want.values()) - Counter(words(svg))
    colours: dict[int, set[str]] = {thread: set() for thread in range(8)}
    for rect in rects(svg, "thread"):
        colours[int(rect["data-is"].split()[1]) % 8].add(rect["fill"])
    assert len({fill for fills in colours.values() for fill in fills}) == sum(map(len, colours.values())) == 8


@pytest.mark.parametrize(
    "layout",
    [
        ls.LinearLayout({"register": [(0, 1), (8, 0)], "lane": [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)]}, ["m", "n"]),
        blocked((16, 16), (1, 2), (4, 8), (2, 2), (1, 0)),
        blocked((4, 8), (1, 2), (8, 4), (2, 1), (1, 0)),  # with several owners of an element
        ls.LinearLayout({"register": [(16,)], "lane": [(1,), (2,), (4,), (8,), (32,)]}, ["n"]),
    ],
)
def test_owners_are_those_of_the_linear_layout(layout: ls.LinearLayout) -> None:
    sizes = layout.in_sizes
    held: dict[tuple[int, int], list[int]] = {}
    for at in product(*map(range, sizes.values())):
        inputs = dict(zip(sizes, at, strict=True))
        place = tuple(layout(**inputs).values())
        where = (place[0], place[1]) if len(place) > 1 else divmod(place[0], 16)
        held.setdefault(where, []).append(inputs["lane"] + sizes["lane"] * inputs.get("warp", 0))
    svg = ls.draw_owners(layout)
    assert named(svg) == {at: min(threads) for at, threads in held.items()}
    several = max(map(len, held.values()))
    assert any(f"up to {several} owners" in text for text in words(svg)) == (several > 1)


def test_what_has_no_owners_or_offsets_is_refused() -> None:
    with pytest.raises(ls.InvalidInput, match="one with input lane"):
        ls.draw_owners(ls.LinearLayout({"offset": [(1,)]}, ["n"]))
    with pytest.raises(ls.InvalidInput, match="beyond a tile"):
        ls.draw_owners(ls.Layout("(32,2):(1,32)"), (8, 7))
    with pytest.raises(ls.InvalidInput, match="give a Layout"):
        ls.draw_layout("(4,4):(1,4)")  # type: ignore[arg-type]


# The box in the tensor


@st.composite
def boxes(draw: st.DrawFn) -> tuple[ls.TensorMap, tuple[int, ...]]:
    rank = draw(st.integers(1, 3))
    extents = tuple(draw(st.integers(1, 90)) for _ in range(rank))
    box = (8 * draw(st.integers(1, 4)), *(draw(st.integers(1, 12)) for _ in range(rank - 1)))
    pitch = extents[0] * 2 + draw(st.sampled_from([0, 2, 14, 500]))
    strides = (pitch, pitch * extents[1])[: rank - 1] if rank > 1 else ()
    steps = (1, *(draw(st.integers(1, 3)) for _ in range(rank - 1)))
    start = (8 * draw(st.integers(-3, 12)), *(draw(st.integers(-8, 95)) for _ in range(rank - 1)))
    return T("bf16", extents, strides, box, element_stride=steps), start


@settings(deadline=None, max_examples=80)
@given(boxes())
def test_what_overhangs_is_what_the_engine_fills(case: tuple[ls.TensorMap, tuple[int, ...]]) -> None:
    tm, start = case
    filled = int((ls.smem_image(tm, start) == -1).sum()) // 2
    assert filled_elements(tm, start) == filled
    svg = ls.draw_box(tm, start)
    said = " ".join(words(svg))
    assert (f"{filled} of {ls.tx_bytes(tm) // 2} elements lie outside" in said) == (filled > 0)
    (edge,) = rects(svg, "edge")
    inside, outside = (sum(map(area, rects(svg, kind))) for kind in ("box", "filled"))
    assert inside + outside == pytest.approx(area(edge), rel=0.02), "its parts make the whole box"
    ends = [(0 if tm.rank == 1 and d else start[d]) + (tm.box[d] if d < tm.rank else 1) for d in range(min(tm.rank, 2))]
    plane = list(zip(start[:2], ends, tm.global_dim[:2], strict=True))
    assert (outside > 0) == any(low < 0 or high > extent for low, high, extent in plane)
    assert (inside > 0) == all(high > 0 and low < extent for low, high, extent in plane)
    assert bool(rects(svg, "padding")) == (tm.rank > 1 and tm.global_stride[0] > 2 * tm.global_dim[0])


def test_a_small_box_is_drawn_to_scale() -> None:
    tm, start = T("bf16", (100, 100), (256,), (64, 64)), (-16, -8)
    svg = ls.draw_box(tm, start)
    (edge,), (box,) = rects(svg, "edge"), rects(svg, "box")
    wide, tall = float(edge["width"]) / 64, float(edge["height"]) / 64
    assert float(box["width"]) == pytest.approx(48 * wide, abs=0.1)
    assert float(box["height"]) == pytest.approx(56 * tall, abs=0.1)
    (padding,) = rects(svg, "padding")
    assert float(padding["width"]) == pytest.approx(28 * wide, abs=0.1)
    assert float(padding["height"]) == pytest.approx(100 * tall, abs=0.1)


def test_the_last_column_is_seen_though_it_is_thin() -> None:
    svg = ls.draw_box(ODD)
    (filled,) = rects(svg, "filled")
    assert float(filled["width"]) >= 5
    assert corner(ODD) == (4032, 0)
    assert "64 of 4096 elements lie outside" in " ".join(words(svg))
    assert "⋯" in words(svg) and "⋮" in words(svg)


@pytest.mark.parametrize("address", [0, 4])
@pytest.mark.parametrize("stride", [8190, 8192, 24, 6])
def test_rows_start_where_their_addresses_say(stride: int, address: int) -> None:
    svg = ls.draw_rows(T("bf16", (12, 9), (stride,), (8, 8), address=address))
    starts = [(address + row * stride) % 16 for row in range(8)]
    marks = rects(svg, "start")
    assert [int(mark["data-is"].split()[1]) for mark in marks] == starts
    places = np.array([float(mark["x"]) for mark in marks])
    bodies = np.array([float(row["x"]) for row in rects(svg, "row")])
    assert np.ptp(places - bodies) < 0.1
    unit = [(a - bodies[0]) / (b - starts[0]) for a, b in zip(bodies, starts, strict=True) if b != starts[0]]
    assert not unit or (np.ptp(unit) < 0.02 and min(unit) > 0), "bytes are drawn to one scale"
    aligned = sum((address + row * stride) % 16 == 0 for row in range(16))
    said = " ".join(words(svg))
    if aligned == 16:
        assert "all start at granules" in said
    elif aligned == 0:
        assert "none starts" in said
    else:
        assert f"one in {16 // aligned} starts at a granule" in said


@pytest.mark.parametrize("start", [(0, -1, -1, 0), (0, 0, 0, 0), (0, 3, 8, 2), (0, 12, -1, 7)])
def test_pixels_are_those_that_the_engine_takes(start: tuple[int, ...]) -> None:
    """All pixels of the pixel boxes of all images in order, from the first one on; the engine fills those outside."""
    walk = [(w, h, n) for n, h, w in product(range(9), range(-1, 9), range(-1, 13))]
    taken = walk[walk.index((start[1], start[2], start[3])) :][:64]
    image = ls.smem_image(COLUMNS, start)
    for row, (w, h, n) in enumerate(taken):
        outside = w < 0 or h < 0 or n > 7
        assert image[128 * row ^ (row % 8 << 4)] == (-1 if outside else 128 * (w + 14 * (h + 10 * n)))
    svg = ls.draw_pixels(COLUMNS, start)
    image_cells = rects(svg, "pixel$")
    assert len(image_cells) == 140
    left, top = (min(float(rect[side]) for rect in image_cells) for side in "xy")
    cell = sorted({float(rect["x"]) for rect in image_cells})[1] - left
    found = {}
    for text in drawn(svg).iter(f"{SVG}text"):
        if str(text.text).isdigit():
            x, y = (float(text.attrib[side]) for side in "xy")
            found[int(str(text.text))] = round((x - left) / cell - 0.5), round((y - 3 - top) / cell - 0.5)
    here = {number: (w, h) for number, (w, h, n) in enumerate(taken) if n == start[3]}
    assert found == here
    assert len(rects(svg, "filled")) == sum(w < 0 or h < 0 for w, h in here.values())
    assert any(f"{64 - len(here)} more pixels" in text for text in words(svg)) == (len(here) < 64)


def test_what_is_no_box_is_refused() -> None:
    with pytest.raises(ls.InvalidInput, match="draw its pixels"):
        ls.draw_box(COLUMNS)
    with pytest.raises(ls.InvalidInput, match="draw the box"):
        ls.draw_pixels(EVEN)
    with pytest.raises(ls.InvalidInput, match="dimension is 2"):
        ls.draw_rows(EVEN, dimension=2)
    huge = T("bf16", (2**40, 2**40), (2**41,), (2**32 - 1, 2**32 - 1), element_stride=(1, 7))
    assert rects(ls.draw_box(huge), "box"), "what the driver refuses is drawn too"


# Shared memory

SPANS = {"none": 0, "32B": 32, "64B": 64, "128B": 128}


def placed(tm: ls.TensorMap, row_bytes: int, rows: int, base: int) -> dict[tuple[int, int], int]:
    """Return the shared address of each chunk of 16 bytes, as FACTS M-08 and M-09 tell it."""
    span = SPANS[str(tm.swizzle)]
    pitch = span or row_bytes
    found = {}
    for row, chunk in product(range(rows), range(row_bytes // 16)):
        address = base + row * pitch + 16 * chunk
        found[row, chunk] = address ^ ((address >> 7) % max(span // 16, 1) << 4)
    return found


def held(tm: ls.TensorMap, coordinate: tuple[int, ...], base: int = 0, lines: int = 8) -> None:
    """Compare every chunk of a picture, what it marks and what it counts with brute force."""
    row_bytes = tm.box[0] * tm.map_type.bits // 8
    rows = int(np.prod([-(-b // s) for b, s in zip(tm.box[1:], tm.element_stride[1:], strict=True)]))
    where = placed(tm, row_bytes, rows, base)
    svg = ls.draw_shared(tm, coordinate, base=base, lines=lines)
    chunks = {}
    boxes = [*rects(svg, "row"), *rects(svg, "untouched")]
    for line, column, rect in grid(boxes):
        found = re.match(r"row (\d+) chunk (\d+)", rect["data-is"])
        if found:
            chunks[int(found[1]), int(found[2])] = base + 128 * line + 16 * column, "filled" in rect["data-is"]
    count = max(line for line, _, _ in grid(boxes)) + 1
    want = {at: address for at, address in where.items() if address < base + 128 * count}
    assert {at: address for at, (address, _) in chunks.items()} == want
    image = ls.smem_image(tm, coordinate, base)
    assert {at for at, (_, filled) in chunks.items() if filled} == {
        at for at, address in want.items() if (image[address : address + 16] == -1).any()
    }
    marks = rects(svg, "read")
    if rows < 8:
        assert not marks
        return
    read = [where[row, 0] for row in range(8)]
    lefts = sorted({float(rect["x"]) for rect in boxes})
    tops = sorted({float(rect["y"]) for rect in boxes})
    assert sorted(
        base + 128 * tops.index(float(rect["y"])) + 16 * lefts.index(float(rect["x"])) for rect in marks
    ) == sorted(read)
    wavefronts = ls.bank_wavefronts("ldmatrix.x1", read, "h200")
    assert any(text.endswith(f" {wavefronts} wavefront{'s' * (wavefronts > 1)}") for text in words(svg))
    asked = [int(rect["data-is"].split()[3]) for rect in rects(svg, "bank")]
    assert max(asked) == wavefronts and sum(asked) == 8


@settings(deadline=None, max_examples=50)
@given(st.data())
def test_shared_memory_holds_what_the_picture_says(data: st.DataObject) -> None:
    dtype, bits = data.draw(st.sampled_from([("u8", 8), ("bf16", 16), ("f32", 32)]))
    swizzle = data.draw(st.sampled_from(sorted(SPANS)))
    wide = SPANS[swizzle] or 256
    inner = 16 * data.draw(st.integers(1, min(wide, 128 * bits // 8) // 16)) * 8 // bits
    rank = data.draw(st.integers(1, 3))
    box = (inner, *(data.draw(st.integers(1, 12)) for _ in range(rank - 1)))
    steps = (1, *(data.draw(st.integers(1, 2)) for _ in range(rank - 1)))
    extents = tuple(data.draw(st.integers(1, 30)) for _ in range(rank))
    pitch = 512
    tm = T(dtype, extents, (pitch, pitch * 64)[: rank - 1], box, element_stride=steps, swizzle=swizzle)  # type: ignore[arg-type]
    start = (0, *(data.draw(st.integers(-4, 20)) for _ in range(rank - 1)))
    held(tm, start, 128 * data.draw(st.integers(0, 9)), data.draw(st.integers(1, 20)))


@pytest.mark.parametrize(
    ("swizzle", "words", "eight", "all_lanes"),
    [("128B", 32, 1, 4), ("none", 32, 8, 32), ("64B", 16, 1, 4), ("32B", 8, 1, 4)],
)
def test_a_column_is_read_at_once_only_if_swizzled(swizzle: str, words: int, eight: int, all_lanes: int) -> None:
    tm = T("f32", (4096, 4096), (16384,), (words, 64), swizzle=swizzle)  # type: ignore[arg-type]
    by_rows, by_words = ls.column_read(tm), ls.column_read(tm, "ld.b32", column=8)
    assert (by_rows.wavefronts, by_words.wavefronts) == (eight, all_lanes)
    for read in (by_rows, by_words):
        assert read.wavefronts == ls.bank_wavefronts(read.op, read.addresses, "h200")
    counted = [int(rect["data-is"].split()[3]) for rect in rects(ls.draw_shared(tm, op="ld.b32", column=8), "bank")]
    assert len(counted) == 32 and max(counted) == all_lanes and sum(counted) == 32


def test_what_cannot_be_read_or_held_is_refused() -> None:
    few = T("bf16", (64, 64), (128,), (64, 4), swizzle="128B")
    with pytest.raises(ls.InvalidInput, match="has 4 rows"):
        ls.column_read(few)
    assert "too few rows" in ls.draw_shared(few)
    with pytest.raises(ls.InvalidInput, match="no multiple of the 16 bytes"):
        ls.draw_shared(EVEN, column=8)
    with pytest.raises(ls.InvalidInput, match="interleave"):
        ls.draw_shared(T("u8", (8, 4, 16), (32, 1024), (8, 1, 8), interleave="16B"))


# Which pictures fit


def captions(subject: Any) -> list[str]:
    return [picture.caption for picture in pictures_of(subject)]


def test_a_subject_gets_the_pictures_that_fit_it() -> None:
    assert captions(EVEN) == ["the box in the tensor", "the box in shared memory", "the same without a swizzle"]
    bare = T("bf16", (4096, 4096), (8192,), (64, 64))
    assert captions(bare)[-1] == "the same with swizzle 128B"
    assert captions(ODD)[0] == "where rows start"
    assert captions(COLUMNS)[0] == "the pixels of one load"
    assert captions(T("16u4_align8b", (1000, 64), (512,), (256, 16))) == ["the box in the tensor"]
    assert captions(TensorCopy(EVEN, coordinate=(64, 128)))[0] == "the box in the tensor"
    assert "(64, 128)" in pictures_of(TensorCopy(EVEN, coordinate=(64, 128)))[0].svg
    assert captions(ls.Tensor((64, 63), "bf16")) == ["where rows start", "boxes of the tensor"]
    assert captions(ls.Tensor((64, 64), "bf16", (130, 2))) == []
    assert captions(ls.Layout("(4,4):(1,4)")) == ["offsets, coloured by bank"]
    assert captions(object()) == [] and captions(None) == []


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_whatever_a_map_holds_its_pictures_are_well_formed(data: st.DataObject) -> None:
    rank, tiled = data.draw(st.integers(0, 6)), data.draw(st.booleans())
    count = st.sampled_from([0, 1, 3, 16, 64, 100, 256, 257, 2**20, 2**32 - 1])
    extent = count | st.sampled_from([2**40, 2**64 - 1])

    def several(of: st.SearchStrategy[int], length: int) -> tuple[int, ...]:
        return tuple(data.draw(of) for _ in range(max(length, 0)))

    shape: dict[str, Any] = {"box": several(count, rank)}
    if not tiled:
        corners = {f"{which}_corner": several(st.integers(-70, 70), rank - 2) for which in ("lower", "upper")}
        shape = {**corners, "channels": data.draw(count), "pixels": data.draw(count), "mode": "im2col"}
    tm = T(
        data.draw(st.integers(0, 16)),
        several(extent, rank),
        several(extent | st.sampled_from([8190, 8192]), rank - 1),
        element_stride=several(st.sampled_from([0, 1, 2, 9, 2**32 - 1]), rank),
        interleave=data.draw(st.integers(0, 3)),
        swizzle=data.draw(st.integers(0, 7)),
        address=data.draw(extent),
        **shape,
    )
    for picture in pictures_of(tm):
        assert drawn(picture.svg).tag == f"{SVG}svg"


def test_a_refused_tensor_is_drawn_beside_its_repair() -> None:
    found = ls.explain(ls.Copy(ls.Tensor((4096, 4095), "bf16"), tile=(128, 64)), "h200")
    before, after, *_ = pictures_of(found)
    assert re.fullmatch(r"where rows start after repair \d", after.caption)
    assert [rect["data-is"] for rect in rects(before.svg, "start")] != ["start 0"] * 8
    assert [rect["data-is"] for rect in rects(after.svg, "start")] == ["start 0"] * 8


def test_hatching_stays_within_its_rectangle() -> None:
    canvas = Canvas(100, "title", "description")
    canvas.hatch(10, 20, 33, 7, "red")
    (path,) = drawn(canvas.svg(50)).iter(f"{SVG}path")
    points = [tuple(map(float, pair.split())) for pair in re.findall(r"[ML]([\d. ]+)", path.attrib["d"])]
    assert len(points) > 6
    assert all(10 <= x <= 43 and 20 <= y <= 27 for x, y in points)


@pytest.mark.parametrize("tile", [(64, 16), (8, 48), None])
def test_a_refused_convolution_is_drawn_by_its_images(tile: tuple[int, ...] | None) -> None:
    """Its tile has pixels and columns, which are no axes of the images."""
    windows = ls.Im2col(ls.Tensor((2, 9, 9, 16), "bf16"), 3, padding=1, tile=tile)
    found = ls.explain(windows, "a100")
    assert not found.legal and pictures_of(found) == pictures_of(windows) != []
    assert "<svg" in found._repr_html_()
