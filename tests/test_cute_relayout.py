"""Relayout kernels in CUDA C++: the same text on a host, byte by byte against numpy; and nvcc takes it."""

from __future__ import annotations

import ctypes
import math
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from relayout_on_host import Side, compiled, faults

import legalsat as ls
from legalsat.backends.cute import compile as cute_compile
from legalsat.backends.cute import granules as printer
from legalsat.extract.kernels.movement_pipeline import granules_pipeline
from legalsat.extract.kernels.product_maps import laid_out
from legalsat.extract.search.by_granules import Axis, Moved, Tuning, divisor, turned_apart, way_of
from legalsat.plans.movement_plan import Granules
from legalsat.program.leaves import Leaf, ShiftRows, TurnTile
from legalsat.tensor import plain

needs_gcc = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")
DTYPES = {1: "e4m3", 2: "bf16", 4: "fp32", 8: "fp64"}

# Bytes of an element, shape, strides and offset in bytes of the source, the same of the target, and whether tiles are
# as usual.
Problem = tuple[int, tuple[int, ...], tuple[int, ...], int, tuple[int, ...], int, bool]
SMALL = {1: (16, 128), 2: (16, 64), 4: (16, 32), 8: (32, 16)}  # tiles, so that there are many
LONG = {1: (32, 128), 2: (64, 64), 4: (64, 32), 8: (64, 16)}  # of which fewer rows are loaded at once than are a group
PROBLEMS: list[Problem] = [
    (1, (1300, 33), (33, 1), 0, (1, 1301), 3, False),
    (1, (1153, 20), (37, 1), 5, (1, 1153), 0, False),
    (1, (256, 256), (256, 1), 0, (1, 256), 0, True),
    (2, (700, 40), (41, 1), 2, (1, 701), 6, False),
    (2, (700, 131), (136, 1), 0, (1, 704), 0, False),
    (2, (257, 300), (300, 1), 14, (1, 257), 0, True),
    (2, (3, 65, 129), (65 * 129, 129, 1), 0, (65 * 129, 1, 65), 2, True),
    (4, (650, 37), (37, 1), 4, (1, 653), 12, False),
    (4, (5, 3, 70, 66), (3 * 70 * 66, 70 * 66, 66, 1), 0, (70, 350, 1, 1050), 8, True),
    (8, (520, 33), (33, 1), 8, (1, 521), 0, False),
    (1, (2, 19, 301), (19 * 301, 301, 1), 1, (19 * 301, 1, 19), 2, True),
    (2, (2, 51, 350), (51 * 350, 350, 1), 6, (51 * 350, 1, 51), 2, True),
    (2, (130, 290), (290, 1), 2, (1, 130), 14, True),
    (4, (37, 301), (301, 1), 4, (1, 37), 0, True),
    (8, (3, 5, 70), (350, 70, 1), 0, (350, 1, 5), 8, True),
    (2, (128, 2, 127), (254, 127, 1), 2, (127, 127 * 128, 1), 6, True),
    (2, (3, 40, 2, 127), (40 * 254, 254, 127, 1), 0, (80 * 127, 127, 40 * 127, 1), 2, True),
    (8, (2, 3, 5, 9, 33), (4455, 1485, 297, 33, 1), 0, (27, 9, 1782, 1, 54), 0, True),
    (2, (2, 64, 63), (4500, 70, 1), 2, (4100, 63, 1), 6, True),
]


def cases() -> Iterator[tuple[Granules, Side, Side, Any]]:
    """Yield launches with both sides in memory and what the target must hold."""
    rng = np.random.default_rng(6)
    problems = [*PROBLEMS, *(random_problem(rng) for _ in range(20))]
    for number, (element, shape, strides, offset, steps, shift, usual) in enumerate(problems):
        source = Side(element, shape, strides, offset, rng)
        aligns = (math.gcd(256, start or 256) for start in (offset, shift))
        source_align, target_align = aligns
        moved = movement(element, shape, strides, steps, source_align=source_align, target_align=target_align)
        tile = None if usual else (LONG if number % 3 == 0 else SMALL)[element]
        tuning = Tuning(tile, joins=(None, None, True, False)[number % 4])
        launch = way_of(moved, tuning).granules
        late = int(rng.integers(0, 256 // launch.target_align)) if number % 2 else 0  # at any address that it takes
        to = Side(element, shape, steps, shift + late * launch.target_align, None)
        yield launch, source, to, source.bytes_of(source.memory).copy()


def random_problem(rng: np.random.Generator) -> Problem:
    """Return a problem of a few thousand elements: any axes, pitches and offsets."""
    element, rank = int(rng.choice([1, 2, 4, 8])), int(rng.integers(1, 5))
    shape = [int(rng.choice([1, 2, 3, 5, 8, 9, 17, 32, 33, 64, 100, 129, 257])) for _ in range(rank)]
    while math.prod(shape) > 5000:
        at = int(np.argmax(shape))
        shape[at] //= 2
    sides = []
    for _ in range(2):
        stored, step, strides = rng.permutation(rank), 1, [0] * rank
        gap = int(rng.choice([0, 0, 1, 20]))
        for axis in stored:
            strides[axis] = step
            step = step * shape[axis] + int(rng.integers(0, gap + 1))
        sides.append(tuple(strides))
    offsets = [int(rng.integers(0, 2) * rng.integers(0, 256 // element) * element) for _ in range(2)]
    return element, tuple(shape), sides[0], offsets[0], sides[1], offsets[1], bool(rng.integers(0, 2))


def paddings() -> Iterator[tuple[Granules, Side, Side, Any]]:
    """Yield launches that pad, as `cases`."""
    rng = np.random.default_rng(7)
    for dtype, element, shape, strides, padding, value, bits in (
        ("bf16", 2, (33, 255), (255, 1), ((0, 0), (0, 1)), 0, 0),
        ("bf16", 2, (5, 7, 41), (300, 41, 1), ((1, 2), (0, 3), (9, 30)), 1.0, 0x3F80),
        ("e4m3", 1, (19, 300), (301, 1), ((0, 4), (5, 11)), 0, 0),
        ("i8", 1, (3, 70), (70, 1), ((0, 0), (1, 0)), -2, 0xFE),
        ("fp32", 4, (20, 31), (33, 1), ((2, 0), (1, 32)), -1.5, 0xBFC00000),
        ("fp64", 8, (1, 9), (9, 1), ((1, 1), (3, 3)), 2.0, 0x4000000000000000),
        ("fp16", 2, (64, 64), (64, 1), ((0, 0), (0, 64)), 0.5, 0x3800),
        ("bf16", 2, (4, 8, 2), (64, 4, 1), ((0, 0), (1, 1), (0, 0)), 1.0, 0x3F80),
        ("bf16", 2, (4, 8, 8), (256, 16, 1), ((0, 0), (1, 1), (0, 0)), 1.0, 0x3F80),
        ("bf16", 2, (33, 11), (11, 1), ((0, 0), (0, 1)), 1.0, 0x3F80),
        ("e4m3", 1, (257, 8), (9, 1), ((0, 0), (0, 1)), 0, 0),
    ):
        operator = ls.Pad(ls.Tensor(shape, dtype, strides), padding, value)
        source = Side(element, shape, strides, 0, rng)
        result = plain(operator.target.shape)
        steps = zip(shape, strides, plain(operator.target.strides), padding, strict=True)
        axes = (Axis(b + n + a, s * element, t * element, b, n) for n, s, t, (b, a) in steps)
        launch = way_of(Moved(element, tuple(axes), 256, 256, pattern=bits)).granules
        shift = int(rng.integers(0, 256 // launch.target_align)) * launch.target_align  # any address that it takes
        to = Side(element, result, plain(operator.target.strides), shift, None)
        expected = np.empty((*result, element), np.uint8)
        expected[...] = np.frombuffer(bits.to_bytes(element, "little"), np.uint8)
        inside = tuple(slice(before, before + n) for (before, _), n in zip(padding, shape, strict=True))
        expected[inside] = source.bytes_of(source.memory)
        yield launch, source, to, expected


def within_lines(span: int, pitch: int) -> bool:
    """Return whether boxes of 128 bytes of lines so far apart have no row in two lines of the cache."""
    rows = ((i * pitch + first, i * pitch + min(span, first + 128)) for i in range(8) for first in range(0, span, 128))
    return all(begin // 128 == (end - 1) // 128 for begin, end in rows)


def relaid_matrices() -> Iterator[tuple[Granules, Side, Side, Any]]:
    """Yield what a product's kernel has in front, by the plan that says it."""
    rng = np.random.default_rng(8)
    for element, shape, strides, offset, first in (
        (2, (70, 131), (131, 1), 2, "pad"),
        (2, (131, 70), (1, 131), 0, "transpose"),
        (1, (129, 37), (37, 1), 1, "transpose"),
        (4, (9, 50), (1, 9), 4, "pad"),
    ):
        tensor = ls.Tensor(shape, DTYPES[element], strides, offset=offset)
        by_rows = (strides[1] == 1) == (first == "pad")
        lines, length = shape if by_rows else shape[::-1]
        span = length * element
        pitch = next(pitch for pitch in range(-(-span // 16) * 16, 4096, 16) if within_lines(span, pitch))
        steps = (pitch // element, 1) if by_rows else (1, pitch // element)
        after = laid_out(tensor, first)
        assert after.strides == steps and lines * pitch >= -(-after.span_bits // 8)
        launch = ls.synthesize(ls.Copy(tensor, after), "h200", means=("granules",)).granules
        assert launch is not None
        source, to = Side(element, shape, strides, offset, rng), Side(element, shape, steps, 0, None)
        yield launch, source, to, source.bytes_of(source.memory).copy()


def movement(
    element: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    steps: tuple[int, ...],
    *,
    source_align: int = 0,
    target_align: int = 0,
) -> Moved:
    """Return a movement whose strides are in elements, at addresses that are multiples of these, or of an element."""
    axes = (Axis(n, s * element, t * element) for n, s, t in zip(shape, strides, steps, strict=True))
    return Moved(element, tuple(axes), source_align or element, target_align or element)


def text_of(kernel: Leaf) -> str:
    return printer.emit(granules_pipeline(kernel), kernel)


@pytest.fixture(scope="module")
def everything() -> list[tuple[Granules, Side, Side, Any]]:
    return [*cases(), *paddings(), *relaid_matrices()]


@pytest.fixture(scope="module")
def library(everything: Any, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return compiled((launch.kernel for launch, *_ in everything), tmp_path_factory.mktemp("relayout"))


@needs_gcc
def test_every_byte_is_moved_once_and_nothing_else_is_touched(everything: Any, library: ctypes.CDLL) -> None:
    for launch, source, to, expected in everything:
        assert not faults(library, launch, source, to, expected), (launch, source.shape, source.strides, to.strides)


@needs_gcc
@pytest.mark.parametrize(
    ("kind", "text", "broken"),
    [
        ("transpose.*straddling", "relayout::barrier();", ""),
        ("transpose.*straddling", "relayout::commit_copies();", ""),
        ("transpose.*straddling_skewed", "end + shift > 0", "end > 0"),
        ("transpose.*skewed", ">= along_j ? Shape::more_steps : 0", ">= along_j ? 0 : 0"),
        ("transpose.*turning", "turned(found, turn * element / 4)", "found"),
        ("transpose.*1_2_", "read_place(wanted - before_j)", "read_place((wanted - before_j) / 2 * 2)"),
        ("transpose.*joined", "place + element);", "place);"),
        ("rows.*joined", "cut < granule && inside", "cut < 8 && inside"),
        ("rows.*joined_alone", "shift + cut > granule", "shift + cut > granule + 2"),
        ("rows.*filled", "clipped(start), found", "0, found"),
    ],
)
def test_the_host_sees_races_and_lost_bytes(
    everything: Any, *, kind: str, text: str, broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = printer.emit
    concerned = [one for one in everything if re.search(kind, one[0].kernel.entry)]
    assert text in text_of(concerned[0][0].kernel)
    monkeypatch.setattr("relayout_on_host.emit", lambda *given: whole(*given).replace(text, broken))
    library = compiled((launch.kernel for launch, *_ in concerned), tmp_path)
    assert any(faults(library, *one) for one in concerned)


@pytest.mark.parametrize("element", [1, 2, 4, 8])
def test_lines_begin_at_other_elements_where_that_hits_fewer_banks(element: int) -> None:
    per_granule, reach = 16 // element, 32 // element
    pitch = 16 * 16 * per_granule + 16  # from one group of rows to the next; rows of a group lie in the same banks

    def wavefronts(rows: int, lines: int, turns: bool) -> int:
        """Return how often the warp's lanes need the banks for their first element, half a warp at once if wide."""
        found = 0
        for part in range(2 if element == 8 else 1):
            banks: dict[int, set[int]] = {}
            for line in range(2 * part, 2 * part + 2) if element == 8 else range(4):
                turn = (line % 2 if element == 8 else line * max(1, 4 // element)) if turns else 0
                for column in range(8):
                    row = reach - line * lines % reach + column * per_granule + turn % per_granule
                    address = row // per_granule * pitch + row % per_granule * 256
                    address += row * rows * element % 16 + line * element
                    for word in range(address // 4, (address + element - 1) // 4 + 1):
                        banks.setdefault(word % 32, set()).add(word)
            found += max(map(len, banks.values()))
        return found

    for rows in range(1, 16, 2):
        for lines in range(1, 16, 2):
            turns = turned_apart(element, rows * element, lines * element)
            assert wavefronts(rows, lines, turns) == min(wavefronts(rows, lines, way) for way in (False, True))


def test_division_by_a_product_is_exact() -> None:
    rng = np.random.default_rng(9)
    for number in [1, 2, 3, 5, 7, 641, 2**16 + 1, 2**30 - 1, 2**30 + 1, 2**31 - 1, *rng.integers(1, 2**31, 200)]:
        _, multiplier, shift = divisor(int(number))
        whole = np.concatenate([np.arange(1, 40), [(2**31 - 1) // number]]).astype(np.uint64) * np.uint64(number)
        values = np.concatenate([whole, whole - np.uint64(1), [0, 2**31 - 1], rng.integers(0, 2**31, 50)]).astype(
            np.uint64
        )
        values = values[values < 2**31]
        found = (values * np.uint64(multiplier) >> np.uint64(32)) >> np.uint64(shift) if multiplier else values
        assert (found == values // np.uint64(number)).all()


@pytest.mark.parametrize("kernel", [ShiftRows(1, 1), ShiftRows(2, 3, True), TurnTile(2, 1, 16, 64)])
def test_a_text_serves_all_extents(kernel: Leaf) -> None:
    launches = [way_of(movement(2, (n, 97), (97, 1), (1, n))).granules for n in (3001, 4001, 16381)]
    assert len({text_of(launch.kernel) for launch in launches}) == 1
    assert kernel.entry in text_of(kernel)


def test_axes_merge_and_elements_widen() -> None:
    assert way_of(movement(2, (4, 5, 6), (30, 6, 1), (30, 6, 1))).granules.kernel.axes == 0
    pairs = way_of(movement(2, (65, 33, 2), (66, 2, 1), (2, 130, 1), source_align=256, target_align=256)).granules
    assert isinstance(pairs.kernel, TurnTile)
    assert pairs.kernel.element == 4
    aligned = way_of(movement(1, (64, 128), (256, 1), (512, 1), source_align=256, target_align=256)).granules
    assert isinstance(aligned.kernel, ShiftRows)
    assert aligned.kernel.element == 16
    six = (1, 1, 1, 1, 1, 1)
    assert way_of(movement(1, six, six, six)).granules.blocks == 1


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on this machine")
def test_nvcc_takes_every_kind() -> None:
    kernels: list[Leaf] = [ShiftRows(2, 3, joins=True), TurnTile(2, 1, 16, 64)]
    text = "\n".join(map(text_of, kernels))
    cubin = cute_compile._compiled(text, "sm_90a")
    assert all(kernel.entry.encode() in cubin for kernel in kernels)
    with pytest.raises(cute_compile.CompilationFailed, match="nvcc refuses"):
        cute_compile._compiled(text + "#error no", "sm_90a")
