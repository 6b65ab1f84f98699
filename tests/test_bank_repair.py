"""Repairs of bank conflicts: no swizzle and no padding that everyone can express does better."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import legalsat as ls
from legalsat.layout.int_tuple import Basis

BITS = {"b32": 32, "b64": 64, "b128": 128}
DTYPES = {16: "bf16", 32: "fp32"}
SPANS = {"none": 16, "32B": 32, "64B": 64, "128B": 128}


def registers(lanes: tuple[int, int], warps: int, vector: int, values: int) -> ls.Layout:
    """Lanes over rows and vectors of a row, warps down the rows, values along them."""
    down, along = Basis(1, (0,)), Basis(1, (1,))
    return ls.Layout(
        ((*lanes, warps), (vector, values)),
        ((down, along * vector, down * lanes[0]), (along, along * (lanes[1] * vector))),
    )


Case = tuple[str, tuple[int, int], int, int, int, int]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Return op, lanes, warps, values, vector, element bits."""
    element = draw(st.sampled_from(sorted(DTYPES)))
    name = draw(st.sampled_from(sorted(BITS)))
    lanes = draw(st.sampled_from(((32, 1), (16, 2), (8, 4), (4, 8), (2, 16))))
    way = draw(st.sampled_from(("ld", "st")))
    return f"{way}.{name}", lanes, draw(st.integers(1, 2)), draw(st.integers(1, 3)), BITS[name] // element, element


def instructions(case: Case) -> Iterator[list[tuple[int, int]]]:
    """Yield the (row, byte in the row) of every lane of each instruction."""
    op, (high, wide), warps, values, _, _ = case
    size = BITS[op[3:]] // 8
    for warp in range(warps):
        for value in range(values):
            yield [(lane % high + high * warp, size * (lane // high + wide * value)) for lane in range(32)]


def counted(case: Case, pitch: int, swizzle: Any) -> int:
    return sum(
        ls.bank_wavefronts(case[0], [swizzle(row * pitch + byte) for row, byte in lanes], "sm_90a")
        for lanes in instructions(case)
    )


def tile_of(case: Case) -> tuple[int, int]:
    _, (high, wide), warps, values, vector, _ = case
    return high * warps, wide * values * vector


def xor(bits: int, base: int, shift: int) -> Any:
    return lambda address: address ^ ((address >> base + shift & (1 << bits) - 1) << base)


@settings(deadline=None, max_examples=25)
@given(cases())
def test_threads_get_the_best_of_all_swizzles_and_pitches(case: Case) -> None:
    op, lanes, warps, values, vector, element = case
    rows, columns = tile_of(case)
    size, line, width = columns * element // 8, 128, BITS[op[3:]] // 8
    found = ls.repair_banks([(op, registers(lanes, warps, vector, values))], (rows, columns), DTYPES[element], "sm_90a")
    ways = [(counted(case, pitch, lambda x: x), rows * (pitch - size)) for pitch in range(size, size + 129, width)]
    rounded = -(-rows * size // line) * line - rows * size
    for base in range(width.bit_length() - 1, 7):
        for bits in range(1, 8 - base):
            # Below bit 7 an XOR would read what it changes, and above the tile all bits are 0.
            for shift in range(max(bits, 7 - base), (rows * size).bit_length() - base + 1):
                ways.append((counted(case, size, xor(bits, base, shift)), rounded))
    assert (found.after, found.bytes_added) == min(ways)
    assert found.before == counted(case, size, lambda x: x)
    assert counted(case, found.pitch, found.swizzle) == found.after >= found.least
    assert found.kind in {"none", "swizzle", "padding"}
    assert found.kind != "padding" or not found.swizzle.bits


@settings(deadline=None, max_examples=40)
@given(cases(), st.sampled_from(("threads", "tma")), st.sampled_from(("threads", "tma", "wgmma.a", "wgmma.b")))
def test_engines_get_the_best_of_their_modes(case: Case, filled_by: str, read_by: str) -> None:
    op, lanes, warps, values, vector, element = case
    rows, columns = tile_of(case)
    size = columns * element // 8
    matrix = read_by.startswith("wgmma")
    if "threads" not in {filled_by, read_by} or filled_by == read_by == "threads":
        return
    if size % 16 or (matrix and rows % 8):
        with pytest.raises(ls.InvalidInput, match="pad the"):
            ls.repair_banks(
                [(op, registers(lanes, warps, vector, values))],
                (rows, columns),
                DTYPES[element],
                "sm_90a",
                filled_by=filled_by,
                read_by=read_by,
            )
        return
    found = ls.repair_banks(
        [(op, registers(lanes, warps, vector, values))],
        (rows, columns),
        DTYPES[element],
        "sm_90a",
        filled_by=filled_by,
        read_by=read_by,
    )
    ways = {}
    for mode, (name, span) in enumerate(SPANS.items()):
        if matrix and size % span:
            continue
        width = min(span, size) if mode or matrix else size
        pitch = span if mode else width
        boxes = -(-size // width)
        apart = -(-rows * pitch // 128) * 128 if boxes > 1 or mode else rows * pitch

        def address(x: int, width: int = width, pitch: int = pitch, apart: int = apart, mode: int = mode) -> int:
            row, byte = divmod(x, 1 << 20)
            return (
                xor(mode, 4, 3)(byte // width * apart + row * pitch + byte % width)
                if mode
                else (byte // width * apart + row * pitch + byte % width)
            )

        try:
            ways[name] = counted(case, 1 << 20, address), boxes * apart - rows * size, boxes, mode
        except ls.InvalidInput:
            continue
    after, added, _, bits = ways[found.name]
    assert (after, added, bits) == (found.after, found.bytes_added, found.swizzle.bits)
    assert ways[found.name] == min(ways.values())
    assert found.kind != "padding"


def test_a_transposing_read_behind_the_copy_engine() -> None:
    """The usual case: ldmatrix of 8 rows of 128 bytes meets one bank group; the widest swizzle frees it."""
    across, along = Basis(1, (0,)), Basis(1, (1,))
    fragments = ls.Layout(
        ((4, 8, 4), (2, 2, 2, 4)), ((along * 2, across, across * 16), (along, across * 8, along * 8, along * 16))
    )
    found = ls.repair_banks([("ldmatrix.x4", fragments)], (64, 64), "bf16", "h200", filled_by="tma")
    assert (found.kind, found.name, found.bytes_added, found.alignment) == ("swizzle", "128B", 0, 1024)
    assert (found.before, found.after, found.least) == (512, 64, 64)
    assert str(found).startswith("swizzle 128B, rows 128 bytes apart: 64 wavefronts instead of")
    threads = ls.repair_banks([("ldmatrix.x4", fragments)], (64, 64), "bf16", "sm_80")
    assert (threads.name, threads.after, threads.bytes_added) == ("128B", 64, 0)


def test_threads_swizzle_finer_than_the_copy_engine() -> None:
    """A column of words, rows of a line and a half: only an XOR of single words parts all lanes."""
    column = ls.Layout(((32,), (48,)), ((Basis(1, (0,)),), (Basis(1, (1,)),)))
    found = ls.repair_banks([("ld.b32", column)], (32, 48), "fp32", "sm_90a")
    assert (found.kind, found.name, found.swizzle.base, found.bytes_added) == ("swizzle", "", 2, 0)
    assert (found.before, found.after, found.least) == (48 * 16, 48, 48)
    behind = ls.repair_banks([("ld.b32", column)], (32, 48), "fp32", "sm_90a", filled_by="tma")
    assert behind.name in SPANS
    assert behind.after > 48


def test_misaligned_rows_are_padded() -> None:
    whole = registers((32, 1), 1, 4, 1)
    found = ls.repair_banks([("st.b128", whole)], (32, 5), "fp32", "sm_90a")
    assert found.before is None
    assert (found.kind, found.pitch % 16, found.after) == ("padding", 0, found.least)
    assert "misaligns" in str(found)


def test_rows_on_amd() -> None:
    rows = ls.Layout(((64,), (8, 2)), ((Basis(1, (0,)),), (Basis(1, (1,)), Basis(8, (1,)))))
    found = ls.repair_banks([("ds_read_b128", rows)], (64, 16), "bf16", "mi355x")
    assert found.after == found.least < (found.before or 0)


ROWS = registers((32, 1), 1, 8, 1)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"accesses": []}, "at least one"),
        ({"accesses": ["ld.b128"]}, "a register layout"),
        ({"accesses": [("ld.b16", ROWS)]}, "give one of"),
        ({"accesses": [("ld.b128", registers((32, 1), 1, 4, 1))]}, "fill no whole number"),
        ({"tile": (32,)}, "give 2"),
        ({"tile": (16, 8)}, "stay inside"),
        ({"dtype": "bf17"}, "unknown"),
        ({"target": "sm_80", "filled_by": "tma"}, "has no tma"),
        ({"target": "sm_100a", "read_by": "wgmma.a"}, "has no wgmma"),
        ({"target": "sm_90a", "read_by": "tcgen05.b"}, "has no tcgen05"),
        ({"filled_by": "tma", "read_by": "wgmma.a"}, "threads access no tile"),
        ({"filled_by": "cp.async"}, "give one of"),
        ({"read_by": 3}, "give one of"),
        ({"tile": (32, 12), "filled_by": "tma"}, "pad the columns"),
        ({"tile": (33, 8), "read_by": "wgmma.b"}, "pad the rows"),
        ({"tile": (4096, 64)}, "fits nowhere"),
        ({"tile": (2**31, 2**31)}, "fits nowhere"),
    ],
)
def test_bad_input(options: dict[str, Any], says: str) -> None:
    given = {"accesses": [("ld.b128", ROWS)], "tile": (32, 8), "dtype": "bf16", "target": "sm_90a"} | options
    with pytest.raises(ls.InvalidInput, match=says):
        ls.repair_banks(**given)
