"""Words of matrix descriptors: every bit, what each offset counts, and words beside the tiles that they describe."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import legalsat as ls
from legalsat.analyses.matrix_layout import matrix_operand, read_addresses, tile_layout
from legalsat.checks import one_of
from legalsat.cli import main
from legalsat.layout.swizzle import Swizzle
from legalsat.options import MAJORS
from legalsat.pasted.layouts import shared_tile
from legalsat.units.matrix_descriptor import MatrixDescriptor, MatrixWord
from legalsat.units.shared_tile import SharedTile

DATA = Path(__file__).parent / "data"
TARGETS = {"wgmma": "h200", "tcgen05": "b200"}
BITS = {"float16": 16, "int8": 8, "tfloat32": 32, "fp16": 16, "fp8e4nv": 8}
NAME = {(0, 4, 3): "none", (1, 4, 3): "32B", (2, 4, 3): "64B", (3, 4, 3): "128B", (2, 5, 2): "128B_atom_32B"}
TMA_SWIZZLES = ("none", "32B", "64B", "128B")
K_WORD, B_WORD = 0x4000004000010000, 0x4000404000010000  # 128B, LBO 16, SBO 1024, of wgmma and of tcgen05


def codes(found: ls.Explanation) -> list[str]:
    return [d.code for d in found.diagnostics]


# Bits


# By PTX's two tables: first bit, bits, and what the unit wants there; None is a field.
FIELDS: dict[str, tuple[tuple[int, int, int | None], ...]] = {
    "wgmma": (
        *((0, 14, None), (14, 2, 0), (16, 14, None), (30, 2, 0), (32, 14, None)),
        *((46, 3, 0), (49, 3, None), (52, 10, 0), (62, 2, None)),
    ),
    "tcgen05": (
        *((0, 14, None), (14, 2, 0), (16, 14, None), (30, 2, 0), (32, 14, None)),
        *((46, 3, 1), (49, 3, None), (52, 1, 0), (53, 8, 0), (61, 3, None)),
    ),
}
SWIZZLES: dict[str, dict[int, str]] = {
    "wgmma": {0: "none", 1: "128B", 2: "64B", 3: "32B"},
    "tcgen05": {0: "none", 1: "128B_atom_32B", 2: "128B", 4: "64B", 6: "32B"},
}


def field(word: int, first: int, count: int) -> int:
    return word >> first & (1 << count) - 1


@pytest.mark.parametrize("unit", TARGETS)
def test_every_bit_of_random_words_is_accounted_for(unit: str) -> None:
    """A word is read back as it was or an error names what is in its way, and it is read field by field."""
    draw, seen = random.Random(16), set()
    for _ in range(3000):
        word = 0
        for first, count, wanted in FIELDS[unit]:
            value = draw.getrandbits(count) if wanted is None or draw.random() < 0.05 else wanted
            word |= value << first
        wrong = any(field(word, first, count) != wanted for first, count, wanted in FIELDS[unit] if wanted is not None)
        swizzle = SWIZZLES[unit].get(field(word, *FIELDS[unit][-1][:2]))
        found = ls.explain(word if word >= 1 << 32 else f"{word:#018x}", TARGETS[unit])
        of_bits = {"MDESC007", "MDESC008", "MDESC009", "MDESC010"} & set(codes(found))
        assert bool(of_bits) == (wrong or swizzle is None)
        seen |= of_bits
        told = found.of
        assert (told is None) == (swizzle is None)
        if told is not None:
            assert (told.word == word) == (not wrong)
            assert (told.start, told.leading, told.stride) == tuple(16 * field(word, low, 14) for low in (0, 16, 32))
            assert (told.base_offset, told.swizzle) == (field(word, 49, 3), swizzle)
        for repair in found.repairs:
            assert ls.explain(repair.after, TARGETS[unit]).legal
            assert repair.after == told
    assert seen == ({"MDESC007", "MDESC008"} | ({"MDESC009", "MDESC010"} if unit == "tcgen05" else set()))


@pytest.mark.parametrize("unit", TARGETS)
def test_each_bit_that_must_be_0_is_named(unit: str) -> None:
    legal = MatrixDescriptor(unit, 16, 1024, "128B").word
    for first, count, wanted in FIELDS[unit]:
        for bit in range(first, first + count) if wanted is not None else ():
            found = ls.explain(legal ^ 1 << bit, TARGETS[unit])
            (said,) = found.diagnostics
            assert said.code == {46: "MDESC007", 47: "MDESC007", 48: "MDESC007"}.get(
                bit, "MDESC010" if (unit, bit) == ("tcgen05", 52) else "MDESC008"
            )
            assert f"bit {bit}" in said.message or said.code == "MDESC007"
            if said.code != "MDESC010":  # whether an offset or an address was meant, nobody knows
                assert [repair.after.word for repair in found.repairs] == [legal]


def test_the_targets_unit_reads_a_word() -> None:
    for word, own, other in ((K_WORD, "h200", "b200"), (B_WORD, "b200", "h200")):
        assert ls.explain(word, own).legal
        found = ls.explain(word, other)
        assert codes(found) == ["MDESC007"]
        assert f"write {K_WORD ^ B_WORD ^ word:#018x}" in found.repairs[0].message
        assert codes(ls.explain(word, "a100")) == [{"h200": "UNIT002", "b200": "UNIT004"}[own]]
    assert codes(ls.explain(MatrixDescriptor("wgmma", 16, 1024, "128B"), "b200")) == ["UNIT002"], "it says its unit"


@pytest.mark.parametrize("target", ["sm_103a", "b300"])
def test_an_absolute_leading_offset_is_for_one_chip(target: str) -> None:
    absolute = B_WORD | 1 << 52
    assert codes(ls.explain(absolute, "b200")) == ["MDESC010"]
    found = ls.explain(absolute, target)
    assert found.legal and "leading address 16" in found.subject
    for other in (MatrixDescriptor("tcgen05", 16, 512, "64B"), MatrixDescriptor("tcgen05", 16, 1024, "128B", 0, 3)):
        assert codes(ls.explain(other.word | 1 << 52, target)) == ["MDESC010"]


@pytest.mark.parametrize(
    "text",
    [
        "0x4000_0040_0001_0000",
        "0x40000040'00010000",
        "0x4000004000010000ULL;",
        "wgmma desc: 0x4000004000010000",
        "UMMA::SmemDescriptor 0X4000004000010000",
        "desc_a = 4611686293305360384",
        # As CuTe prints one.
        "GmmaDescriptor: 0x4000004000010000\n  start_addr :  0x0000\n  leading_off:  0x0001 (1)\n"
        "  stride_off :  0x0040 (64)\n  base_offset:  0x0\n  layout_type:  0x1 (B128)\n",
        "matrix descriptor 0x4000004000010000",
        "smem desc of operand B is 0x4000004000010000",
        "0x4000004000010000 for the wgmma operand",
    ],
)
def test_forms_in_which_people_have_a_word(text: str) -> None:
    assert ls.explain(text, "h200") == ls.explain(K_WORD, "h200")


def test_an_instruction_descriptor_in_the_upper_half_is_told() -> None:
    """CUTLASS hands out instruction descriptors of 64 bits, whose lower half is 0."""
    found = ls.explain(0x08200010 << 32, "b200")
    assert not found.legal and found.repairs == ()
    assert "0x08200010, is an instruction descriptor" in found.values[0]


# What the offsets count


@pytest.mark.parametrize("unit", TARGETS)
@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B", "128B_atom_32B"])
def test_the_offset_that_is_said_to_be_ignored_is(unit: str, swizzle: str) -> None:
    """Against `read_addresses`: what is ignored changes no address, what counts does, and where it is said to."""
    if (unit, swizzle) == ("wgmma", "128B_atom_32B"):
        return
    told = MatrixDescriptor(unit, 2048, 4096, swizzle, start=8192)
    for sentence in ls.explain(told, TARGETS[unit]).values:
        if "has no meaning" in sentence:
            assert swizzle == "128B_atom_32B" and "K-major" in sentence
            continue
        major = one_of(sentence.partition("-major tile: ")[0], "major", MAJORS)
        mn, k = 256, 64  # of one byte: longer than any step
        there = read_addresses(told, major, mn, k, 8)
        leading, _, stride = sentence.partition("; ")
        for part, name, value in ((leading, "leading", 2048), (stride, "stride", 4096)):
            assert f"{value} bytes," in part
            changed: dict[str, Any] = {name: 3 * value}
            other = read_addresses(replace(told, **changed), major, mn, k, 8)
            moved = other != there
            assert ("is ignored" in part.partition(", and ")[0]) == (not moved.any())
            if moved.any():
                step = re.search(r"one (?:group|run|chunk) of (\d+)", part)  # of rows or bytes: of one byte each
                assert step is not None
                axis = 1 if re.search(r"(?:of|along) K", part) else 0
                assert np.array_equal(np.flatnonzero(moved.any(axis=1 - axis)), np.arange(int(step[1]), (mn, k)[axis]))


def test_a_base_offset_is_told_where_it_counts() -> None:
    assert (
        "384 bytes after a multiple" in ls.explain(MatrixDescriptor("wgmma", 16, 1024, "128B", 0, 3), "h200").values[-1]
    )
    assert "is ignored" in ls.explain(MatrixDescriptor("wgmma", 256, 1024, "none", 0, 3), "h200").values[-1]


# Beside a layout


def golden(file: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((DATA / file).read_text(encoding="utf-8"))["entries"]
    return found


@pytest.mark.parametrize(
    ("unit", "file"), [("wgmma", "cutlass_wgmma_smem_desc.json"), ("tcgen05", "cutlass_tcgen05_smem_desc.json")]
)
def test_the_words_of_cutlass_read_their_layouts(unit: str, file: str) -> None:
    for entry in golden(file):
        swizzle, word = entry["smem"]["swizzle"], int(entry["desc_addr0"], 16)
        layout = ls.Layout.from_json(entry["smem"]["layout"])
        text = f"Sw<{','.join(map(str, swizzle))}> o smem_ptr[{BITS[entry['dtype']]}b](unset) o {layout}"
        operand = "a" if entry["mma_mn"] == {"wgmma": 64, "tcgen05": 128}[unit] else "b"
        found = ls.explain(f"{word:#018x}", TARGETS[unit], layout=text, consumer=cast("Any", f"{unit}.{operand}"))
        assert found.legal and not found.diagnostics, (text, str(found))
        assert found.of.word == word


def test_the_words_of_triton_read_their_layouts() -> None:
    for entry in golden("triton_wgmma_desc_from_ptx.json"):
        for operand, extent in (("a", entry["M"]), ("b", entry["N"])):
            swizzle = f"{entry[f'swizzle_{operand}']}B" if entry[f"swizzle_{operand}"] else "none"
            text = f"{extent}x{entry['K']} u{BITS[entry['dtype']]} {entry[f'{operand}_major']}-major {swizzle}"
            for step in entry[operand]:
                found = ls.explain(step["raw"], "h200", layout=text, consumer=cast("Any", f"wgmma.{operand}"))
                assert found.legal and not found.diagnostics, (text, str(found))


def reads(told: MatrixDescriptor, tile: SharedTile, block: int) -> bool:
    """Whether some instruction's elements lie where the unit looks, the tile being aligned as its swizzle wants."""
    step = 8 * 32 // tile.bits
    places = tile.layout.offsets().reshape(tile.layout[0].size, -1, order="F") * tile.bits // 8
    looked = read_addresses(told, tile.major, block, step, tile.bits)
    for first in range(0, places.shape[0], block):
        for column in range(0, places.shape[1], step):
            part = places[first : first + block, column : column + step]
            base = told.start - int(part[0, 0])
            there = base + part
            if tile.swizzle != "none":
                there = Swizzle.tma(tile.swizzle)(there)
            if base >= 0 and base % 1024 == 0 and np.array_equal(there, looked):
                return True
    return False


def test_a_word_beside_a_layout_is_legal_just_where_it_reads_it() -> None:
    draw, legal = random.Random(7), 0
    for _ in range(600):
        unit, block = draw.choice(list(TARGETS)), draw.choice([64, 128])
        bits, swizzle, major = draw.choice([8, 16, 32]), draw.choice(TMA_SWIZZLES), draw.choice(MAJORS)
        if bits != 16 and unit == "wgmma":
            major = "K"  # what types forbid is another matter
        tile = SharedTile(tile_layout(block, 1024 // bits, bits, swizzle, major), swizzle, bits)
        operand = matrix_operand(tile.layout, swizzle, bits, unit=unit, major=major, block=block)
        told = replace(operand.descriptor, start=16384 + draw.choice(operand.offsets[0]))
        for name in draw.sample(["leading", "stride", "swizzle", "base_offset"], draw.randrange(3)):
            values: dict[str, list[Any]] = {
                "leading": [0, 16, 128, 1024, 8192],
                "stride": [0, 128, 256, 512, 1024],
                "swizzle": list(TMA_SWIZZLES),
                "base_offset": [0, 4],
            }
            told = replace(told, **{name: draw.choice(values[name])})
        consumer = f"{unit}.{draw.choice('ab') if block == {'wgmma': 64, 'tcgen05': 128}[unit] else 'b'}"
        found = ls.explain(told.word, TARGETS[unit], layout=tile, consumer=cast("Any", consumer))
        # A swizzle of one period for another may read the same bytes where the tile is a row wide; rules ask for names.
        if found.legal or told.swizzle == tile.swizzle:
            assert found.legal == reads(told, tile, block), (told, tile, str(found))
        legal += found.legal
        for repair in found.repairs:
            after = ls.explain(repair.after, TARGETS[unit], layout=tile, consumer=cast("Any", consumer))
            assert after.legal and reads(repair.after, tile, block)
        assert bool(found.repairs) == (not found.legal)
    assert 150 < legal < 450


def test_a_mismatch_is_told_with_the_word_that_is_right() -> None:
    found = ls.explain(0x4000002000010000, "h200", layout="128x64 bf16 K-major 128B", consumer="wgmma.a")
    assert codes(found) == ["MDESC004"]
    assert "stride offset of 512 bytes for a tile whose own is 1024" in found.diagnostics[0].message
    assert found.repairs[0].after.word == K_WORD
    assert codes(ls.explain(0x8000002000010000, "h200", layout="128x64 bf16 128B")) == ["MDESC003", "MDESC004"]


def test_whether_a_or_b_is_read_decides_what_counts() -> None:
    """One instruction reads 64 rows of A, one span of bf16, and all 128 columns of B, two."""
    layout, word = "128x64 bf16 MN-major 128B", MatrixDescriptor("wgmma", 16, 1024, "128B").word
    assert ls.explain(word, "h200", layout=layout, consumer="wgmma.a").legal
    assert codes(ls.explain(word, "h200", layout=layout, consumer="wgmma.b")) == ["MDESC004"]
    unsaid = ls.explain(word, "h200", layout=layout)
    assert not unsaid.legal and "wgmma.a" in unsaid.values[-1]


def test_a_layout_that_nothing_reads_says_why() -> None:
    found = ls.explain(K_WORD, "h200", layout="Sw<3,4,3> o (64,64):(72,1)", dtype="bf16")
    assert codes(found) == ["MDESC011"] and "1152" in found.diagnostics[0].message
    plain = ls.explain(K_WORD, "h200", layout=ls.Layout("(64,64):(64,1)"), dtype="bf16")
    assert codes(plain) == ["MDESC003"] and "Sw<3,4,3> o (64,64):(64,1)" in plain.diagnostics[0].help


def test_types_that_a_unit_reads_k_major_alone_are_told() -> None:
    word = MatrixDescriptor("wgmma", 4096, 1024, "128B").word
    assert "WGMMA003" in codes(ls.explain(word, "h200", layout="128x64 e4m3 MN-major 128B"))
    tf32 = MatrixDescriptor("tcgen05", 4096, 1024, "128B").word
    assert "TCGEN008" in codes(ls.explain(tf32, "b200", layout="64x32 tf32 MN-major 128B"))
    assert "TCGEN007" in codes(ls.explain(tf32, "b200", layout="128x64 e2m1 MN-major 64B"))


@pytest.mark.parametrize(
    ("text", "dtype", "same"),
    [
        ("Sw<3,4,3> o smem_ptr[16b](unset) o (_128,_64):(_64,_1)", None, "128x64 u16 128B"),
        ("Sw<3,4,3> o _0 o (_128,_64):(_64,_1)", "bf16", "128x64 bf16 K-major 128B"),
        ("S<3,4,3> o 0 o (128,64):(64,1)", "bf16", "bf16 128x64 swizzle 128B K-major"),
        ("Sw<3,3,3> o (128,64):(64,1)", "fp16", "128x64, fp16, k-major, 128B"),
        ("Sw<2,4,3> o smem_ptr[8b](0x7f0000000400) o (_64,_64,_4):(_64,_1,_4096)", "e4m3", "64x64 e4m3 64B"),
        ("(64,(8,8)):(8,(1,512))", "bf16", "64x64 bf16 K-major none"),
        ("Sw<3,4,3> o smem_ptr[16b] o ((64,2),64):((1,4096),64)", None, "128x64 u16 M-major 128B"),
    ],
)
def test_two_notations_of_one_tile(text: str, dtype: str | None, same: str) -> None:
    one, other = shared_tile(text, dtype), shared_tile(same)
    assert (one.swizzle, one.bits, one.major) == (other.swizzle, other.bits, other.major)
    assert np.array_equal(one.layout.offsets(), other.layout.offsets())


@pytest.mark.parametrize(
    ("layout", "dtype", "says"),
    [
        ("(64,64):(64,1)", None, "element type is missing"),
        ("Sw<3,4,3> o smem_ptr[16b] o (64,64):(64,1)", "e4m3", "the layout's elements 16"),
        ("Sw<3,2,5> o (64,64):(64,1)", "bf16", "no swizzle of matrix units"),
        ("64x64 bf16 e4m3", None, "give one"),
        ("64x64 bf16 sideways", None, "sideways"),
        ("bf16 K-major", None, "write it as"),
        ("(64,64):(2,128)", "bf16", "runs fastest"),
        ("(64):(1)", "bf16", "two modes"),
        ("64x60 bf16 128B", None, "k has 60"),
        ("100x64 bf16 128B", None, "multiple"),
        ("64x64 bf16 256B", None, "256B"),
        (7, "bf16", "give a Layout"),
        (None, "bf16", "give layout too"),
        ("64x64 fp64", None, "is 64; give 4"),
    ],
)
def test_layouts_without_meaning_are_refused(layout: Any, dtype: Any, says: str) -> None:
    with pytest.raises(ls.InvalidInput, match=says):
        ls.explain(K_WORD, "h200", layout=layout, dtype=dtype, consumer="wgmma.a")


def test_a_layout_belongs_to_a_matrix_descriptor() -> None:
    for subject in (715, "715", ls.Tensor((64, 64), "bf16"), True, "0x08200010", b"1" * 128):
        with pytest.raises(ls.InvalidInput, match="matrix descriptor"):
            ls.explain(subject, "b200", layout="64x64 bf16 128B")
    with pytest.raises(ls.InvalidInput, match=r"wgmma\.a or wgmma\.b"):
        ls.explain(K_WORD, "h200", layout="64x64 bf16 128B", consumer="tcgen05.a")
    with pytest.raises(ls.InvalidInput, match="tile and into belong"):
        ls.explain(K_WORD, "h200", layout="64x64 bf16 128B", tile=(64, 64))


def test_the_command_line_takes_a_word_and_a_layout(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["explain", "--target", "h200", "--layout", "128x64 K-major 128B", "--dtype", "bf16"]
    assert main([*words, "--text", f"{K_WORD:#x}", "--consumer", "wgmma.a"]) == 0
    assert "one instruction reads 64 rows of A" in capsys.readouterr().out
    assert main([*words, "--text", "0x4000002000010000"]) == 1
    assert "error[MDESC004]" in capsys.readouterr().out
    assert main(words) == 2
    assert "give its word as --text" in capsys.readouterr().err


def test_a_word_is_at_most_64_bits() -> None:
    with pytest.raises(ls.InvalidInput, match="at most"):
        MatrixWord("wgmma", 2**64)
