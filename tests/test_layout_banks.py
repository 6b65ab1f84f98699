"""Wavefronts of whole layouts: against every address one by one, and against Triton's bank conflicts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import legalsat as ls
from legalsat.analyses.banks.bank_sets import residues
from legalsat.analyses.banks.layout_banks import layout_wavefronts
from legalsat.layout.int_tuple import Basis
from legalsat.layout.linear_layout import blocked

GOLDENS = json.loads((Path(__file__).parent / "data" / "triton_bank_conflicts.json").read_text())["entries"]
BITS = {"u8": 8, "u16": 16, "b32": 32, "b64": 64, "b128": 128}
SPANS = ("none", "32B", "64B", "128B")

Place = Callable[[int, int], int]
"""The byte address of a value of a thread."""


def one_by_one(op: str, place: Place, threads: int, values: int, per_lane: int) -> int:
    """The wavefronts of every instruction of every warp; vectors start at their first value."""
    return sum(
        ls.bank_wavefronts(op, [place(warp + lane, value) for lane in range(32)], "sm_90a")
        for warp in range(0, threads, 32)
        for value in range(0, values, per_lane)
    )


def swizzled(span: str, address: int) -> int:
    """FACTS SW-02 to SW-04."""
    mask = {"none": 0, "32B": 1, "64B": 3, "128B": 7}[span]
    return address ^ ((address >> 7 & mask) << 4)


@st.composite
def threads_over_rows(draw: st.DrawFn) -> tuple[Any, ...]:
    """Threads and values that step through a tile of rows of any width and pitch, along an axis or across rows."""
    element = draw(st.sampled_from((8, 16, 32)))
    op = draw(st.sampled_from([name for name in BITS if BITS[name] >= element]))
    vector = BITS[op] // element
    lanes = [(n, draw(st.integers(0, 5))) for n in draw(st.sampled_from(((32,), (4, 8), (8, 4), (2, 16), (32, 3))))]
    values = [(n, draw(st.integers(0, 40))) for n in draw(st.sampled_from(((), (3,), (2, 2), (7,))))]
    need = 1 + sum((n - 1) * step for n, step in (*lanes, *values))
    columns = vector * draw(st.integers(1, 24))
    rows = -(-need * vector // columns) + draw(st.integers(0, 3))
    pitch = columns + vector * draw(st.integers(0, 5))
    return op, element, vector, lanes, values, columns, rows, pitch


@settings(deadline=None, max_examples=120)
@given(threads_over_rows(), st.sampled_from(SPANS), st.integers(0, 9))
def test_vectors_along_an_index(case: Any, span: str, start: int) -> None:
    """Rows of any width, with padding: vectors go on from one row to the next."""
    op, element, vector, lanes, values, columns, rows, pitch = case
    registers = ls.Layout(
        (tuple(n for n, _ in lanes), (vector, *(n for n, _ in values))),
        (tuple(d * vector for _, d in lanes), (1, *(d * vector for _, d in values))),
    )
    shared = ls.Layout((columns, rows), (1, pitch))
    base = 16 * start
    way = "ld." if start % 2 else "st."
    found = layout_wavefronts(way + op, registers, shared, "sm_90a", element_bits=element, swizzle=span, base=base)

    def place(thread: int, value: int) -> int:
        row, column = divmod(registers(thread, value), columns)
        return swizzled(span, base + (row * pitch + column) * element // 8)

    threads, held = registers[0].size, registers[1].size
    assert found.total == one_by_one(way + op, place, threads, held, vector)
    assert found.instructions == threads * held // 32 // vector
    assert found.examined <= found.instructions
    assert found.least <= found.total


@settings(deadline=None, max_examples=120)
@given(st.data())
def test_coordinates_of_a_tile(data: st.DataObject) -> None:
    """Lanes 4 x 8 and warps along either axis, rows or columns fastest, any pitch."""
    element = data.draw(st.sampled_from((16, 32)))
    op = data.draw(st.sampled_from([name for name in BITS if BITS[name] >= element]))
    vector = BITS[op] // element
    lanes = data.draw(st.sampled_from(((4, 8), (8, 4), (1, 32), (32, 1), (2, 16))))
    warps, values = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 5))
    rows, columns = lanes[0] * warps, lanes[1] * vector * values
    registers = ls.Layout(
        ((*lanes, warps), (vector, values)),
        (
            (Basis(1, (0,)), Basis(vector, (1,)), Basis(lanes[0], (0,))),
            (Basis(1, (1,)), Basis(lanes[1] * vector, (1,))),
        ),
    )
    pitch = columns + vector * data.draw(st.integers(0, 6))
    shared = ls.Layout((rows, columns), (pitch, 1))
    span = data.draw(st.sampled_from(SPANS))
    way = data.draw(st.sampled_from(("ld.", "st.")))
    found = layout_wavefronts(way + op, registers, shared, "sm_90a", element_bits=element, swizzle=span)

    def place(thread: int, value: int) -> int:
        row = thread % lanes[0] + lanes[0] * (thread // 32)
        column = value % vector + vector * (thread // lanes[0] % lanes[1]) + lanes[1] * vector * (value // vector)
        return swizzled(span, (row * pitch + column) * element // 8)

    assert found.total == one_by_one(way + op, place, 32 * warps, vector * values, vector)


@pytest.mark.parametrize(("op", "element"), [("ld.b32", 32), ("st.b32", 8), ("ld.u16", 16), ("st.u8", 8)])
@pytest.mark.parametrize("row", [-37, -32, 1, 12, 33])
def test_lanes_of_one_phase_run_back_and_start_anywhere(op: str, element: int, row: int) -> None:
    """Counted by the modes of lanes alone, without an address."""
    vector = BITS[op[3:]] // element
    registers = ls.Layout(((8, 4, 2), (vector, 3)), ((vector, 24 * vector, 8 * vector), (1, 96 * vector)))
    plain = ls.Layout((24 * vector, 12), (1, row * vector))
    shared = ls.ComposedLayout(ls.Swizzle(0, 0, 0), 12 * 37 * vector, plain)
    found = layout_wavefronts(op, registers, shared, "sm_90a", element_bits=element, base=48)

    def place(thread: int, value: int) -> int:
        at = registers(thread, value)
        return 48 + (12 * 37 * vector + at % (24 * vector) + at // (24 * vector) * row * vector) * element // 8

    assert found.total == one_by_one(op, place, 64, 3 * vector, vector)
    assert (found.instructions, found.least) == (6, 6)


# Lane t holds two elements of row t / 4 of every matrix; matrices lie 2 x 2, 8 rows and 16 bytes apart.
def fragments(matrices: int, *, transposed: bool) -> ls.Layout:
    across, along = Basis(1, (0,)), Basis(1, (1,))
    lane = (along * 2, across)
    pair: Any = along
    if transposed:
        lane, pair = (across * 2, along), across
    apart = {1: (), 2: (across * 8,), 4: (across * 8, along * 8)}[matrices]
    return ls.Layout(
        ((4, 8), (2, *(2 for _ in apart), 3)), (lane, (pair, *apart, along * 16 if matrices == 4 else along * 8))
    )


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("matrices", [1, 2, 4])
@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("pitch", [48, 56, 64, 72])
def test_matrices(matrices: int, transposed: bool, span: str, pitch: int) -> None:
    name = f".x{matrices}" + ".trans" * transposed
    shared = ls.Layout((16, 48), (pitch, 1))
    registers = fragments(matrices, transposed=transposed)
    expected = 0
    for start in range(3):
        rows = []
        for matrix in range(matrices):
            down, right = 8 * (matrix % 2), 8 * (matrix // 2) + start * (16 if matrices == 4 else 8)
            rows += [swizzled(span, 2 * ((down + row) * pitch + right)) for row in range(8)]
        expected += ls.bank_wavefronts("ldmatrix" + name, rows, "sm_90a")
    for op in ("ldmatrix", "stmatrix"):
        found = layout_wavefronts(op + name, registers, shared, "h200", element_bits=16, swizzle=span)
        assert (found.total, found.least, found.instructions) == (expected, 3 * matrices, 3)


def test_time_does_not_grow_with_the_tile() -> None:
    down, along = Basis(1, (0,)), Basis(1, (1,))
    nowhere = Basis(0, (0,))
    registers = ls.Layout(((4, 8, 12, 2**20), (2, 128)), ((along * 2, down, down * 8, nowhere), (along, along * 8)))
    shared = ls.Layout((96, 1024), (1032, 1))
    with pytest.raises(ls.InvalidInput, match="stay inside"):
        layout_wavefronts("ld.b32", registers, ls.Layout((8, 16)), "sm_90a", element_bits=16)
    found = layout_wavefronts("ld.b32", registers, shared, "sm_90a", element_bits=16, swizzle="128B")
    assert found.instructions == 12 * 128 * 2**20
    assert found.examined <= 64


def test_linear_layouts() -> None:
    """Triton's swizzled layouts as linear maps, against the same as strided ones with a swizzle on top."""
    registers = blocked((64, 64), (1, 8), (32, 1), (2, 2), (1, 0))
    plain = ls.Layout((64, 64), (64, 1))
    linear = ls.LinearLayout(
        {"offset": [*((0, 1 << i) for i in range(6)), *((1 << i, (8 << i) % 64 if i < 3 else 0) for i in range(6))]},
        {"dim0": 64, "dim1": 64},
    )
    for op in ("ld.b128", "st.b64", "st.u16"):
        swizzle = ls.Swizzle.tma("128B")
        one = layout_wavefronts(op, registers, linear, "sm_90a", element_bits=16)
        other = layout_wavefronts(op, registers, plain, "sm_90a", element_bits=16, swizzle=swizzle)
        third = ls.ComposedLayout(swizzle.recast(8, 16), 0, plain)
        assert one == other == layout_wavefronts(op, registers, third, "sm_90a", element_bits=16)
        # Eight lanes take the same 16 bytes of eight rows.
        bare = layout_wavefronts(op, registers, plain, "sm_90a", element_bits=16)
        assert (one.total, bare.total) == (one.least, 8 * one.least) or op != "ld.b128"


def triton_registers(entry: dict[str, Any]) -> ls.LinearLayout:
    """The register layouts of the five entries, by their documented formulas, cut to the shape."""
    reg, shape = entry["reg"], entry["shape"]
    if reg["class"] == "BlockedLayout":
        return blocked(shape, *(reg[key] for key in ("size_per_thread", "threads_per_warp", "warps_per_cta", "order")))
    outs = {f"dim{i}": n for i, n in enumerate(shape)}
    if reg["class"] == "DotOperandLayout":  # operand B of mma: k by n, k_width elements of k side by side
        width, warps = reg["k_width"], reg["parent"]["warps_per_cta"]
        one = ls.LinearLayout.identity(width, "register", "dim0") * ls.LinearLayout.identity(4, "lane", "dim0")
        one *= ls.LinearLayout.identity(8, "lane", "dim1") * ls.LinearLayout.identity(2, "register", "dim0")
        one *= ls.LinearLayout.identity(warps[1], "warp", "dim1")
    else:
        warps, (_, columns, *_) = reg["warps_per_cta"], reg["instr_shape"]
        one = ls.LinearLayout.identity(2, "register", "dim1") * ls.LinearLayout.identity(4, "lane", "dim1")
        one *= ls.LinearLayout.identity(8, "lane", "dim0") * ls.LinearLayout.identity(2, "register", "dim0")
        one *= ls.LinearLayout.identity(columns // 8, "register", "dim1")
        for axis in (0, 1) if reg["version"][0] == 3 else (1, 0):
            one *= ls.LinearLayout.identity(warps[axis], "warp", f"dim{axis}")
    for name, size in outs.items():
        one *= ls.LinearLayout.identity(max(1, size // one.out_sizes[name]), "register", name)
    order = {name: i for i, (name, _) in enumerate(one.outs)}
    bases = {
        name: [[vector[order[out]] % outs[out] for out in outs] for vector in vectors] for name, vectors in one.ins
    }
    # Registers that repeat others hold nothing of their own.
    bases["register"] = [vector for vector in bases["register"] if any(vector)]
    return ls.LinearLayout(bases, outs)


@pytest.mark.parametrize("entry", GOLDENS, ids=lambda entry: f"{entry['reg']['class']}-{entry['bitwidth']}")
def test_triton_bank_conflicts(entry: dict[str, Any]) -> None:
    """Triton counts, for its widest vector, the wavefronts of a phase beyond one."""
    bits, shape = entry["bitwidth"], entry["shape"]
    shared = ls.Layout(tuple(shape), tuple([*shape[1:], 1][: len(shape)]))
    span = entry["shared"].get("swizzle_byte_width", 0)
    swizzle = f"{span}B" if span else "none"
    registers = triton_registers(entry)
    if span:  # rows of a span each, so that the swizzle sees 128-byte lines of several rows
        assert shape[1] * bits // 8 == span
    for name, width in reversed(BITS.items()):
        if width < bits:
            continue
        try:
            found = layout_wavefronts(f"ld.{name}", registers, shared, "sm_90a", element_bits=bits, swizzle=swizzle)
        except ls.InvalidInput:
            continue
        break
    assert found.total == found.least * (1 + entry["expected_conflicts"])


def test_residues_by_brute_force() -> None:
    for modes in ([(7, 3), (5, -4)], [(40, 6)], [(3, 0), (4, 10)], []):
        for modulus in (1, 4, 6, 35):
            sums = [0]
            for n, d in modes:
                sums = [s + i * d for s in sums for i in range(n)]
            left = [s % modulus for s in sums]
            assert residues(modes, modulus) == {r: left.count(r) for r in set(left)}


REGISTERS = ls.Layout("(32,4):(4,1)")


@pytest.mark.parametrize(
    ("op", "registers", "shared", "options", "says"),
    [
        ("ld.b64", ls.Layout("(32,4):(1,32)"), ls.Layout(128), {}, "beside the 8 bytes"),
        ("ldmatrix.x1", REGISTERS, ls.Layout(128), {"element_bits": 16}, "beside the rows"),
        ("ldmatrix.x1.trans", REGISTERS, ls.Layout(128), {"element_bits": 8}, "16 bits, not 8"),
        ("ld.b16", REGISTERS, ls.Layout(128), {}, "give one of"),
        ("ld.u16", REGISTERS, ls.Layout(128), {}, "no multiple of elements of 32 bits"),
        ("ld.b32", ls.Layout("(48,1):(1,1)"), ls.Layout(128), {}, "48 threads"),
        ("ld.b64", ls.Layout("(32,3):(3,1)"), ls.Layout(128), {}, "3 values"),
        ("ld.b32", REGISTERS, ls.Layout(127), {}, "of a tile of 127"),
        ("ld.b32", ls.Layout(128), ls.Layout(128), {}, "give two"),
        ("ld.b64", REGISTERS, ls.Layout(128), {"base": 4}, "give a multiple of 8"),
        ("ld.b64", REGISTERS, ls.Layout(128), {"base": -8}, "at least 0"),
        ("ld.b64", REGISTERS, ls.Layout(128), {"swizzle": "96B"}, "give one of"),
        ("ld.b64", REGISTERS, ls.Layout(128), {"element_bits": 12}, "power of two"),
        ("ld.b32", REGISTERS, ls.Layout(128, -1), {}, "below its base"),
        ("ld.b32", REGISTERS, 128, {}, "give a Layout"),
        ("ld.b32", 128, ls.Layout(128), {}, "give a Layout"),
        ("ld.b32", ls.LinearLayout({"thread": [(1,)]}, ["dim0"]), ls.Layout(2), {}, "register, lane and warp"),
        ("ld.b32", REGISTERS, ls.Layout(128), {"element_bits": True}, "give an integer"),
        ("ld.b32", REGISTERS, ls.Layout(128), {"base": 2**60}, "base is .* give at most 233471"),
        ("ld.b32", REGISTERS, ls.Layout(128), {"base": 228 * 1024 - 508}, "within the 233472 bytes"),
        ("ld.b32", REGISTERS, ls.Layout(128, 2**55), {}, "within the 233472 bytes"),
        ("ld.b32", REGISTERS, ls.Layout(128, -(2**55)), {}, "within the 233472 bytes"),
        ("ld.b32", REGISTERS, ls.Layout(2**40), {}, "within the 233472 bytes"),
        ("ld.b32", REGISTERS, ls.Layout(2**50, 0), {}, "give at most"),
        ("ld.b32", REGISTERS, ls.Layout(128), {"swizzle": "128B_atom_32B_flip_8B"}, "at two distances"),
        ("ld.b32", REGISTERS, ls.Layout(128), {"swizzle": ls.Swizzle(3, 4, 40)}, "repeats after"),
        ("ld.b32", REGISTERS, ls.Layout(128), {"swizzle": ls.Swizzle(3, 4, -11), "base": 2**14}, "leads to byte"),
        ("ld.b32", REGISTERS, ls.ComposedLayout(ls.Layout(128, 2**55), 0, ls.Layout(128)), {}, "steps over"),
        ("ld.b32", REGISTERS, ls.ComposedLayout(ls.Layout(128), 2**61, ls.Layout(128)), {}, "steps over"),
        (
            "ld.b32",
            ls.Layout(((3, 2**16 * 32), 2**3), ((5, 16), 160)),
            ls.Layout((3, 2**30), (1, 0)),
            {},
            "listed one by one",
        ),
        (
            "ld.b32",
            ls.LinearLayout({"register": [(0,)] * 20, "lane": [(0,)] * 5}, {"dim0": 1}),
            ls.Layout(1),
            {},
            "listed one by one",
        ),
    ],
)
def test_bad_input(op: str, registers: Any, shared: Any, options: dict[str, Any], says: str) -> None:
    with pytest.raises(ls.InvalidInput, match=says):
        layout_wavefronts(op, registers, shared, "sm_90a", **({"element_bits": 32} | options))
