"""Matrix descriptors equal those of CUTLASS and Triton, and read tiles as the copy engine lays them out."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import z3
from hypothesis import given
from hypothesis import strategies as st

import legalsat as ls
from legalsat.analyses.matrix_layout import NoSuchDescriptor, matrix_operand, read_addresses, tile_layout
from legalsat.errors import InvalidInput
from legalsat.extract.solve.z3_logic import formula, variable
from legalsat.layout import Layout
from legalsat.layout.swizzle import Swizzle
from legalsat.options import MAJORS, Major
from legalsat.rules import MATRIX_RULES
from legalsat.targets import target
from legalsat.units.matrix_descriptor import PERIODS, SPANS, MatrixDescriptor, MatrixOperand
from legalsat.units.sites import MatrixRead

H200 = target("h200")
DATA = Path(__file__).parent / "data"
BITS = {"float16": 16, "int8": 8, "tfloat32": 32, "fp16": 16, "fp8e4nv": 8}
NAME = {(0, 4, 3): "none", (1, 4, 3): "32B", (2, 4, 3): "64B", (3, 4, 3): "128B", (2, 5, 2): "128B_atom_32B"}
TMA_SWIZZLES = ("none", "32B", "64B", "128B")


def entries(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((DATA / name).read_text())["entries"]
    return found


@pytest.mark.parametrize(
    ("unit", "file", "unread"),
    [
        ("wgmma", "cutlass_wgmma_smem_desc.json", {"leading": 38, "base_offset": 16}),
        ("tcgen05", "cutlass_tcgen05_smem_desc.json", {"leading": 20, "base_offset": 10}),
    ],
)
def test_words_and_steps_equal_cutlass(unit: str, file: str, unread: dict[str, int]) -> None:
    counted: Counter[str] = Counter()
    for entry in entries(file):
        layout = Layout.from_json(entry["smem"]["layout"])
        swizzle, bits = NAME[tuple(entry["smem"]["swizzle"])], BITS[entry["dtype"]]
        block = entry["mma_mn"]
        ours = matrix_operand(layout, swizzle, bits, unit=unit, major=entry["major"], block=block)
        theirs = MatrixDescriptor.from_word(unit, int(entry["desc_addr0"], 16))
        assert theirs.word == int(entry["desc_addr0"], 16)
        assert ours.descriptor.reads_like(theirs, entry["major"], block=block, element_bits=bits)
        steps = Layout.from_json(entry["fragment_layout_u128"])
        table = np.array([16 * steps(i) for i in range(steps.size)]).reshape([m.size for m in steps], order="F")[0]
        assert np.array_equal(table, ours.offsets)
        counted.update(ours.descriptor.ignored(entry["major"], block=block, element_bits=bits))
    # Fields that hardware ignores compare as ignored, so that they are counted here.
    assert counted == unread


def test_words_and_steps_equal_triton() -> None:
    counted: Counter[str] = Counter()
    file = "triton_wgmma_desc_from_ptx.json"
    for entry in entries(file):
        bits = BITS[entry["dtype"]]
        for operand, extent, block in (("a", entry["M"], 64), ("b", entry["N"], entry["N"])):
            major, span = entry[f"{operand}_major"], entry[f"swizzle_{operand}"]
            swizzle = f"{span}B" if span else "none"
            tile = tile_layout(extent, entry["K"], bits, swizzle, major)
            ours = matrix_operand(tile, swizzle, bits, unit="wgmma", major=major, block=block)
            # The file has the first warpgroup's descriptors, one a step.
            for step, theirs in enumerate(entry[operand]):
                word = MatrixDescriptor.from_word("wgmma", int(theirs["raw"], 16))
                mine = MatrixDescriptor.from_word("wgmma", ours.word(0, step))
                assert mine.start == word.start == 16 * theirs["start_delta"]
                assert mine.reads_like(word, major, block=block, element_bits=bits)
                counted.update(mine.ignored(major, block=block, element_bits=bits))
            assert len(entry[operand]) == len(ours.offsets[0])
    zeros = sum(step["lbo"] == 0 for entry in entries(file) for operand in "ab" for step in entry[operand])
    assert counted == {"leading": zeros}, "Triton writes 0 just where hardware does not look"


def descriptors() -> st.SearchStrategy[MatrixDescriptor]:
    offset = st.integers(0, 2**14 - 1).map(lambda n: 16 * n)
    return st.sampled_from(["wgmma", "tcgen05"]).flatmap(
        lambda unit: st.builds(
            MatrixDescriptor,
            st.just(unit),
            offset,
            offset,
            st.sampled_from(TMA_SWIZZLES if unit == "wgmma" else (*TMA_SWIZZLES, "128B_atom_32B")),
            offset,
            st.integers(0, 7),
        )
    )


@given(descriptors())
def test_a_word_says_all_of_its_descriptor(descriptor: MatrixDescriptor) -> None:
    assert MatrixDescriptor.from_word(descriptor.unit, descriptor.word) == descriptor


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (("sparse", 0, 0, "none"), "unit"),
        (("wgmma", 8, 0, "none"), "leading .* multiple of 16"),
        (("wgmma", 0, 2**18, "none"), "stride .* at most"),
        (("wgmma", 0, 0, "128B_atom_32B"), "swizzle of wgmma"),
        (("wgmma", 0, 0, "none", 24), "start .* multiple of 16"),
        (("wgmma", 0, 0, "128B", 0, 8), "base_offset"),
    ],
)
def test_numbers_that_no_word_holds_are_refused(fields: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        MatrixDescriptor(*fields)


@pytest.mark.parametrize(
    ("unit", "word", "said"),
    [
        ("wgmma", 0x4000404000010000, "outside its fields"),  # a tcgen05 word
        ("tcgen05", 0x4000004000010000, "outside its fields"),
        ("wgmma", 1 << 14, "outside its fields"),
        ("tcgen05", 1 << 52 | 1 << 46, "outside its fields"),
        ("tcgen05", 3 << 61 | 1 << 46, "swizzle code 3"),
        ("wgmma", 2**64, "at most"),
    ],
)
def test_words_that_are_none_are_refused(unit: str, word: int, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        MatrixDescriptor.from_word(unit, word)


def image_of(mn: int, k: int, bits: int, swizzle: str, major: Major) -> np.ndarray[Any, Any]:
    """Return, per shared byte, the byte of the tile that the copy engine puts there; the tile is major axis fastest."""
    along, across = (k, mn) if major == "K" else (mn, k)
    wide = min(8 * SPANS[swizzle] // bits, along)
    tall = next(n for n in range(min(across, 256), 0, -1) if across % n == 0)
    tm = ls.TensorMap(
        dtype=f"u{bits}",
        global_dim=(along, across),
        global_stride=(along * bits // 8,),
        box=(wide, tall),
        swizzle=swizzle,  # type: ignore[arg-type]
    )
    assert not [d for d in ls.violations(tm, "h200") if d.level == "error"]
    boxes: list[np.ndarray[Any, Any]] = []
    for column in range(0, along, wide):
        for row in range(0, across, tall):
            base = sum(box.size for box in boxes) % 1024  # the pattern follows the absolute address
            boxes.append(ls.smem_image(tm, (column, row), base=base)[base:])
    return np.concatenate(boxes)


@pytest.mark.parametrize("major", ["K", "MN"])
@pytest.mark.parametrize("swizzle", TMA_SWIZZLES)
@pytest.mark.parametrize("bits", [8, 16, 32])
def test_a_product_on_tiles_that_the_copy_engine_brought(major: Major, swizzle: str, bits: int) -> None:
    """Executes the descriptors: every instruction's elements, looked up where hardware would, are the matrix's."""
    for mn, block in ((128, 64), (384, 128), (256, 256)):
        k = 8 * 128 // bits
        image = image_of(mn, k, bits, swizzle, major)
        matrix = np.arange(mn * k).reshape((mn, k), order="C" if major == "K" else "F") * (bits // 8)
        tile = tile_layout(mn, k, bits, swizzle, major)
        operand = matrix_operand(tile, swizzle, bits, unit="wgmma", major=major, block=block)
        step = 8 * 32 // bits
        assert len(operand.offsets) == mn // block
        for b, row in enumerate(operand.offsets):
            assert len(row) == k // step
            for s in range(len(row)):
                word = MatrixDescriptor.from_word("wgmma", operand.word(b, s))
                read = image[read_addresses(word, major, block, step, bits)]
                assert np.array_equal(read, matrix[b * block :, s * step :][:block, :step])


@pytest.mark.parametrize("swizzle", TMA_SWIZZLES)
def test_rows_of_one_warpgroup_may_lie_together(swizzle: str) -> None:
    tile = tile_layout(128, 128, 16, swizzle, "K", box_mn=64)
    assert sorted(tile.offsets()) == list(range(128 * 128))
    assert tile(64, 0) == 64 * 128
    operand = matrix_operand(tile, swizzle, 16, unit="wgmma", major="K", block=64)
    assert operand.offsets[1] == tuple(offset + 64 * 128 * 2 for offset in operand.offsets[0])


def test_elements_of_four_bits_are_read_two_to_a_byte() -> None:
    tile = tile_layout(128, 256, 4, "128B", "K")
    operand = matrix_operand(tile, "128B", 4, unit="tcgen05", major="K", block=128)
    assert operand.offsets == ((0, 32, 64, 96),)
    assert operand.descriptor.stride == 1024
    read = read_addresses(operand.descriptor, "K", 128, 64, 4)
    assert np.array_equal(read[:, ::2], read[:, 1::2])
    assert len(set(read[:, ::2].flat)) == 128 * 32


def test_a_tile_narrower_than_the_span_keeps_the_span_between_rows() -> None:
    tile = tile_layout(64, 32, 16, "128B", "K")
    assert tile(1, 0) == 64
    operand = matrix_operand(tile, "128B", 16, unit="wgmma", major="K", block=64)
    assert operand.offsets == ((0, 32),)


@given(
    st.sampled_from([(m, s) for m in MAJORS for s in TMA_SWIZZLES]),
    st.sampled_from([8, 16, 32]),
    st.permutations(range(3)),
    st.sampled_from([0, 1, 3]),
)
def test_atoms_may_lie_in_any_order_and_apart(way: tuple[Major, str], bits: int, order: list[int], gap: int) -> None:
    """Tiles of 2 x 2 blocks of atoms, atoms along MN inside a block, along K, or across, with gaps between them."""
    major, swizzle = way
    span, period = SPANS[swizzle], PERIODS[swizzle] if swizzle != "none" else 128
    wide = 8 * span // bits
    counts = {0: 8, 1: 2, 2: 2}  # groups of eight across, spans along, twice
    strides, reach = {}, period + gap * period
    for mode in order:
        strides[mode] = reach * 8 // bits
        reach *= counts[mode]
    across = Layout((8, 8), (wide, strides[0]))
    along = Layout((wide, 2, 2), (1, strides[1], strides[2]))
    axes = (across, along) if major == "K" else (along, across)
    layout = Layout(tuple(m.shape for m in axes), tuple(m.stride for m in axes))
    block = 64 if major == "K" else min(2 * wide, layout[0].size)
    if layout[1].size % (8 * 32 // bits):
        return
    operand = matrix_operand(layout, swizzle, bits, unit="wgmma", major=major, block=block)
    step = 8 * 32 // bits
    swizzled = Swizzle.tma(swizzle)(layout.offsets() * bits // 8).reshape((layout[0].size, -1), order="F")
    for b, s in product(range(len(operand.offsets)), range(len(operand.offsets[0]))):
        word = MatrixDescriptor.from_word("wgmma", operand.word(b, s))
        read = read_addresses(word, major, block, step, bits)
        assert np.array_equal(read, swizzled[b * block :, s * step :][:block, :step])


@pytest.mark.parametrize(
    ("layout", "swizzle", "major", "said"),
    [
        ("(64,64):(64,1)", "128B", "MN", "chunk of 16 bytes"),
        ("(64,64):(72,1)", "128B", "K", "inside the pattern"),
        ("(64,64):(66,1)", "none", "K", "no multiple of 16"),
        ("(64,64):(64,1)", "none", "K", "looks for it"),
        ("(64,32):(64,1)", "64B", "K", "looks for it"),
        ("((8,2,4),64):((64,1024,512),1)", "128B", "K", "looks for it"),  # groups of rows at unequal distances
        ("(64,64):(1,64)", "none", "MN", "looks for it"),
        ("((8,8),64):((64,-512),1)", "128B", "K", "between 0 and"),
        ("((8,8),64):((64,131072),1)", "128B", "K", "between 0 and"),
    ],
)
def test_layouts_that_no_descriptor_reads_are_refused(layout: str, swizzle: str, major: Major, said: str) -> None:
    with pytest.raises(NoSuchDescriptor, match=said):
        matrix_operand(Layout(layout), swizzle, 16, unit="wgmma", major=major, block=64)


def test_arguments_without_meaning_are_refused() -> None:
    tile = tile_layout(128, 64, 16, "128B", "K")
    with pytest.raises(InvalidInput, match="mn has 128 elements"):
        matrix_operand(tile, "128B", 16, unit="wgmma", major="K", block=96)
    with pytest.raises(InvalidInput, match="k has 8 elements"):
        matrix_operand(Layout("(64,8):(8,1)"), "none", 16, unit="wgmma", major="K", block=64)
    named: Any = "M"
    with pytest.raises(InvalidInput, match="major"):
        matrix_operand(tile, "128B", 16, unit="wgmma", major=named, block=64)
    with pytest.raises(InvalidInput, match="two modes"):
        matrix_operand(Layout(64), "128B", 16, unit="wgmma", major="K", block=64)
    with pytest.raises(InvalidInput, match="element_bits"):
        tile_layout(64, 64, 12, "128B", "K")
    with pytest.raises(InvalidInput, match="major axis has 96"):
        tile_layout(64, 96, 16, "128B", "K")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"descriptor": None}, "give a MatrixDescriptor"),
        ({"major": "M"}, "give one of K, MN"),
        ({"mn": 64.0}, "mn is 64.0; give an integer"),
        ({"mn": 0}, "at least 1"),
        ({"mn": -1}, "at least 1"),
        ({"mn": True}, "give an integer"),
        ({"k": None}, "give an integer"),
        ({"k": 2**70}, "at most"),
        ({"mn": 2**20, "k": 2**20}, "give at most 1048576"),
        ({"element_bits": 7}, "give 4, 8, 16 or 32"),
        ({"element_bits": "16"}, "give an integer"),
        ({"element_bits": 16.0}, "give an integer"),
        ({"element_bits": True}, "give an integer"),
    ],
)
def test_addresses_without_meaning_are_refused(changed: dict[str, Any], said: str) -> None:
    descriptor = MatrixDescriptor("wgmma", 16, 1024, "128B")
    legal: dict[str, Any] = {"descriptor": descriptor, "major": "K", "mn": 64, "k": 16, "element_bits": 16}
    assert read_addresses(**legal).shape == (64, 16)
    with pytest.raises(InvalidInput, match=said):
        read_addresses(**{**legal, **changed})


@pytest.mark.parametrize(
    ("layout", "bits", "error", "said"),
    [
        (Layout((2**20, 2**12), (2**12, 1)), 16, InvalidInput, "give at most 131072"),
        (Layout((2**20, 64), (0, 1)), 16, InvalidInput, "give at most"),
        (Layout((64, 64), (2**50, 1)), 16, NoSuchDescriptor, "spans"),
        (Layout((64, 64), (-(2**50), 1)), 16, NoSuchDescriptor, "spans"),
        (Layout((64, 64), (64, 1)), 16.0, InvalidInput, "give an integer"),
        (Layout((64, 64), (64, 1)), True, InvalidInput, "give an integer"),
        (None, 16, InvalidInput, "two modes"),
        ("(64,64):(64,1)", 16, InvalidInput, "two modes"),
    ],
)
def test_tiles_that_no_shared_memory_holds_are_refused(layout: Any, bits: Any, error: Any, said: str) -> None:
    with pytest.raises(error, match=said):
        matrix_operand(layout, "128B", bits, unit="wgmma", major="K", block=64)


def test_ignored_fields_of_no_block_are_refused() -> None:
    descriptor = MatrixDescriptor("wgmma", 16, 1024, "128B")
    wrong: list[dict[str, Any]] = [{"block": -5}, {"block": 64}, {"block": 64, "element_bits": -3}, {"block": 64.0}]
    for options in wrong:
        with pytest.raises(InvalidInput):
            descriptor.ignored("MN", **options)
    with pytest.raises(InvalidInput, match="give a MatrixDescriptor"):
        descriptor.reads_like(descriptor.word, "K")  # type: ignore[arg-type]


def test_a_tile_inside_the_pattern_is_refused() -> None:
    operand = matrix_operand(tile_layout(64, 64, 16, "64B", "K"), "64B", 16, unit="wgmma", major="K", block=64)
    assert isinstance(operand, MatrixOperand)
    assert operand.alignment == 512
    assert operand.word(0, 1, start=1536) == MatrixDescriptor("wgmma", 16, 512, "64B", start=1536 + 32).word
    with pytest.raises(InvalidInput, match="multiple of 512"):
        operand.word(0, 0, start=256)
    with pytest.raises(InvalidInput, match="step"):
        operand.word(0, 4)


def test_a_base_offset_moves_the_pattern() -> None:
    """A tile written as if the pattern began at byte 384 of its own period (FACTS WG-14)."""
    start = 1024 + 384
    descriptor = MatrixDescriptor("wgmma", 16, 1024, "128B", start=start, base_offset=start // 128 % 8)
    tile = tile_layout(64, 64, 16, "128B", "K")
    held = start + Swizzle.tma("128B")(2 * tile.offsets()).reshape((64, 64), order="F")
    assert np.array_equal(read_addresses(descriptor, "K", 64, 16, 16), held[:, :16])


def test_fields_that_hardware_ignores() -> None:
    def of(swizzle: str, leading: int = 16, stride: int = 1024, base_offset: int = 0) -> MatrixDescriptor:
        return MatrixDescriptor("wgmma", leading, stride, swizzle, base_offset=base_offset)

    assert of("128B").ignored("K") == ("leading",)
    assert of("128B").ignored("MN") == ()
    assert of("128B").ignored("MN", block=64, element_bits=16) == ("leading",)
    assert of("128B").ignored("MN", block=128, element_bits=16) == ()
    assert of("none").ignored("K", block=8, element_bits=16) == ("base_offset", "stride")
    assert of("none").ignored("MN", block=8, element_bits=16) == ("base_offset", "stride")
    assert of("128B").reads_like(of("128B", leading=4096), "K")
    assert not of("128B").reads_like(of("128B", leading=4096), "MN")
    assert not of("128B").reads_like(of("64B"), "K")
    assert not of("128B").reads_like(of("128B", base_offset=1), "K")
    assert of("none").reads_like(of("none", base_offset=1), "K")


@st.composite
def reads(draw: st.DrawFn) -> MatrixRead:
    """A descriptor and a tile of fp16, often equal, now and then off in a field or two."""
    period = PERIODS[TMA_SWIZZLES[draw(st.integers(0, 3))]]
    swizzle, steps = draw(st.integers(0, 3)), st.integers(1, 12).map(lambda n: n * period)
    leading, stride, line = draw(steps), draw(steps), draw(st.integers(0, 7))
    off = draw(st.sets(st.sampled_from(["leading", "stride", "swizzle", "base_offset"]), max_size=2))
    major = draw(st.sampled_from(MAJORS))
    return MatrixRead(
        start=16384 + 128 * line,
        leading=draw(steps) if "leading" in off else leading,
        stride=draw(steps) if "stride" in off else stride,
        swizzle=draw(st.integers(0, 3)) if "swizzle" in off else swizzle,
        base_offset=draw(st.integers(0, 7)) if "base_offset" in off else line,
        tile_leading=leading,
        tile_stride=stride,
        tile_swizzle=swizzle,
        block=draw(st.sampled_from([8, 16, 64, 96])),
        element_bits=16,
        pattern=16384 + 128 * line,
        major=major,
        tile_major=major,
    )


@given(reads())
def test_rules_refuse_exactly_what_the_address_function_finds_wrong(read: MatrixRead) -> None:
    told = MatrixDescriptor(
        "wgmma", read.leading, read.stride, TMA_SWIZZLES[read.swizzle], read.start, read.base_offset
    )
    real = MatrixDescriptor(
        "wgmma",
        read.tile_leading,
        read.tile_stride,
        TMA_SWIZZLES[read.tile_swizzle],
        read.start,
        read.pattern // 128 % 8,
    )
    there, looked_at = (read_addresses(d, read.major, read.block, 16, 16) for d in (real, told))
    codes = {rule.code for rule in MATRIX_RULES for _ in rule.check(read, H200)}
    assert bool(codes) == (not np.array_equal(there, looked_at)), codes


def test_rules_of_descriptors_read_arrays_and_variables() -> None:
    """The condition of each rule, on the fields that may be open, says of arrays and variables what it says of ints."""
    values = np.array([0, 8, 16, 128, 1024, 2**18])
    for major, swizzle in product(MAJORS, range(4)):
        fixed = MatrixRead(
            start=0,
            leading=0,
            stride=0,
            swizzle=swizzle,
            tile_leading=1024,
            tile_stride=128,
            tile_swizzle=3,
            block=64,
            element_bits=16,
            major=major,
            tile_major="K",
        )
        batch = replace(fixed, start=values, leading=values, stride=values, pattern=values)
        open_: dict[str, Any] = {name: variable(name) for name in ("start", "leading", "stride", "pattern")}
        for rule in MATRIX_RULES:
            arrays = list(rule(batch, H200))
            symbols = list(rule(replace(fixed, **open_), H200))
            for i, value in enumerate(map(int, values)):
                site = replace(fixed, start=value, leading=value, stride=value, pattern=value)
                pinned = [number == value for number in open_.values()]
                for plain, array, symbol in zip(rule(site, H200), arrays, symbols, strict=True):
                    assert bool(np.broadcast_to(array.condition, values.shape)[i]) == bool(plain.condition)
                    solver = z3.Solver()
                    solver.add(*map(formula, pinned), formula(symbol.condition))
                    assert (solver.check() == z3.sat) == bool(plain.condition)
