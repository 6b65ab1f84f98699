"""The model of the copy engine against an H200, and against a slow reference that follows one unit at a time."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from measured_copies import request_numbers, tensor_map
from numpy.typing import NDArray

from legalsat.analyses.copy_engine import (
    FILLED,
    NAN_FILL_WORD,
    UNTOUCHED,
    smem_bytes,
    smem_image,
    store_footprint,
    tx_bytes,
)
from legalsat.errors import InvalidInput
from legalsat.units.tensor_map import TensorMap

DATA = Path(__file__).parent / "data"
NOTHING = 0xEEEEEEEE
WHOLE_TYPES = ("u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64", "tf32")
SPANS = {"none": 0, "32B": 32, "64B": 64, "128B": 128}

Words = NDArray[np.uint32]


def words_of(image: NDArray[np.int64], fill: int, origin: int, first: int) -> Words:
    """Turn an image into what shared memory holds if the word at byte offset -origin holds `first`, the next one more.

    Every dtype down to a byte keeps its place in the word, so a wrong order of bytes shows.
    """
    padded = np.concatenate([image, np.full(-len(image) % 4, UNTOUCHED)]).reshape(-1, 4)
    at = padded + origin
    data = (at // 4 + first) >> (8 * (at % 4)) & 0xFF
    filled = np.array([fill], dtype=np.uint32).view(np.uint8)
    words: Words = np.where(padded >= 0, data, filled).astype(np.uint8).view(np.uint32).ravel()
    untouched = padded == UNTOUCHED
    assert (untouched.all(axis=1) == untouched.any(axis=1)).all()
    words[untouched.all(axis=1)] = NOTHING
    return words


def rounded_to_tf32(words: Words) -> Words:
    special = (words == NOTHING) | (words == NAN_FILL_WORD)
    return np.where(special, words, (words + 0xFFF + ((words >> 13) & 1)) & np.uint32(0xFFFFE000))


def test_every_measured_image_and_byte_count() -> None:
    with np.load(DATA / "smem_images.npz") as data:
        requests, refused, completed = data["requests"].tolist(), data["encode_result"], data["completed"]
        offset, words = data["offset"], data["words"]
    counts: dict[tuple[int, ...], dict[int, bool]] = defaultdict(dict)
    counted: dict[tuple[int, ...], int] = {}
    for row, request in enumerate(requests):
        if refused[row]:
            continue
        _, dtype, rank, interleave, swizzle, l2, oob, mode, base, tx = request[:10]
        numbers = request_numbers(request[10:])
        codes = {"interleave": interleave, "swizzle": swizzle, "l2_promotion": l2, "oob_fill": oob, "mode": mode}
        tm = tensor_map(dtype, rank, codes, numbers)
        offsets = numbers["offsets"][: rank - 2] if mode else ()
        image = smem_image(tm, numbers["coordinate"][:rank], base, offsets)
        measured = words[offset[row] : offset[row + 1]]
        predicted = words_of(image, NAN_FILL_WORD if oob else 0, origin=0, first=0)
        written = np.flatnonzero(predicted != NOTHING)[-1] + 1
        assert np.array_equal(predicted[:written], measured), request
        load = tuple(request[1:9] + request[10:])
        counts[load][tx] = bool(completed[row])
        counted[load] = tx_bytes(tm)
    assert len(counted) > 300
    exact = 0
    for load, answers in counts.items():
        done = [tx for tx, ended in answers.items() if ended]
        assert max(done, default=0) <= counted[load], load
        assert answers.get(counted[load], True), load
        exact += counted[load] in answers
    assert exact > 290


def test_every_random_load_store_and_fault_of_an_h200() -> None:
    with np.load(DATA / "copy_engine_h200.npz") as data:
        requests, offset, at, value = data["requests"].tolist(), data["offset"], data["at"], data["value"]
    seen: dict[tuple[int, int], int] = defaultdict(int)
    for row, request in enumerate(requests):
        store, fault, dtype, rank, interleave, swizzle, oob, mode, base, tx = request[:10]
        numbers = request_numbers(request[10:])
        tm = tensor_map(
            dtype, rank, {"interleave": interleave, "swizzle": swizzle, "oob_fill": oob, "mode": mode}, numbers
        )
        coordinate = numbers["coordinate"][:rank]
        offsets = numbers["offsets"][: rank - 2] if mode else ()
        seen[store, fault] += 1
        if fault:
            with pytest.raises(InvalidInput, match="illegal instruction"):
                _ = store_footprint(tm, coordinate, base) if store else smem_image(tm, coordinate, base, offsets)
            continue
        where = at[offset[row] : offset[row + 1]]
        if store:
            footprint = store_footprint(tm, coordinate, base)
            memory = np.full(2**21, 0xEE, dtype=np.uint8)
            memory[footprint[:, 0]] = (footprint[:, 1] // 4) >> (8 * (footprint[:, 1] % 4)) & 0xFF
            predicted = memory.view(np.uint32)
        else:
            assert tx_bytes(tm) == tx, request
            image = smem_image(tm, coordinate, base, offsets, shared_bytes=2**16)
            predicted = words_of(image, NAN_FILL_WORD if oob else 0, origin=2**20, first=1)
            if tm.dtype in ("tf32", "tf32_ftz"):
                predicted = rounded_to_tf32(predicted)
        measured = np.full(len(predicted), NOTHING, dtype=np.uint32)
        measured[where] = value[offset[row] : offset[row + 1]]
        assert np.array_equal(predicted, measured), request
    assert set(seen) == {(0, 0), (0, 1), (1, 0), (1, 1)}


def slow_units(tm: TensorMap, start: tuple[int, ...], offsets: tuple[int, ...]) -> list[list[tuple[int, ...]]]:
    """Name the tensor position of every unit of the box, row by row, one at a time."""
    interleaved = tm.interleave != "none"
    if tm.mode == "tiled":
        steps = list(tm.element_stride)
        ranges = []
        for d in range(tm.rank):
            if d == 0 and not interleaved:
                ranges.append(range(start[0], start[0] + tm.box[0]))
            elif interleaved and d == tm.rank - 2:
                ranges.append(range(start[d], start[d] + 1))
            else:
                ranges.append(range(start[d], start[d] + tm.box[d], steps[d]))
        return [[(x, *reversed(rest)) for x in ranges[0]] for rest in product(*reversed(ranges[1:]))]
    first = 0 if interleaved else 1
    spatial = list(range(first, first + tm.rank - 2))
    pixel = {d: start[d] for d in (*spatial, tm.rank - 1)}
    rows = []
    for _ in range(tm.pixels):
        shifted = {d: pixel[d] + offset for d, offset in zip(spatial, offsets, strict=True)} | {
            tm.rank - 1: pixel[tm.rank - 1]
        }
        if interleaved:
            rows.append([tuple((shifted | {tm.rank - 2: start[tm.rank - 2]})[d] for d in range(tm.rank))])
        else:
            rows.append([(start[0] + c, *(shifted[d] for d in range(1, tm.rank))) for c in range(tm.channels)])
        for i, d in enumerate(spatial):
            pixel[d] += tm.element_stride[d]
            if pixel[d] <= tm.global_dim[d] - 1 + tm.upper_corner[i]:
                break
            pixel[d] = tm.lower_corner[i]
        else:
            pixel[tm.rank - 1] += tm.element_stride[-1]
    return rows


def slow_copy(
    tm: TensorMap, start: tuple[int, ...], base: int, offsets: tuple[int, ...], store: bool
) -> dict[int, int]:
    """Map each shared byte of the box to its global byte, or to FILLED."""
    interleaved = tm.interleave != "none"
    unit_bytes = {"16B": 16, "32B": 32}.get(str(tm.interleave), tm.map_type.bits // 8)
    strides = (unit_bytes, *tm.global_stride)
    span = SPANS[str(tm.swizzle)]
    copied = {}
    for r, row in enumerate(slow_units(tm, start, offsets)):
        pitch = span if span and not interleaved else len(row) * unit_bytes
        for u, position in enumerate(row):
            inside = all(0 <= x < n for x, n in zip(position[1:], tm.global_dim[1:], strict=True))
            x, n = position[0] * unit_bytes, tm.global_dim[0] * unit_bytes
            if store and not interleaved:
                x -= x % 16
            inside = inside and 0 <= x < n
            for b in range(unit_bytes):
                address = base + r * pitch + u * unit_bytes + b
                line = address // 128 % {0: 1, 32: 2, 64: 4, 128: 8}[span]
                address ^= line * 16
                assert address not in copied
                copied[address] = sum(x * s for x, s in zip(position, strides, strict=True)) + b if inside else FILLED
    return copied


@st.composite
def copies(draw: st.DrawFn, store: bool = False) -> tuple[TensorMap, tuple[int, ...], int, tuple[int, ...]]:
    """Draw a tensor map, a coordinate, a base and im2col offsets for a copy that does not fault."""
    mode = draw(st.sampled_from(("tiled", "im2col")))
    interleave = draw(st.sampled_from(("none", "none", "16B", "32B")))
    rank = draw(st.integers(1 if mode == "tiled" and interleave == "none" else 3, 5))
    swizzle = draw(st.sampled_from(tuple(SPANS)))
    dtype = draw(st.sampled_from(WHOLE_TYPES))
    sixteen = 16 // (TensorMap(dtype, (1,), box=(1,)).map_type.bits // 8)
    inner = sixteen * draw(st.integers(1, (SPANS[swizzle] or 64) // 16))
    dims = [draw(st.integers(1, 40)), *draw(st.lists(st.integers(1, 7), min_size=rank - 1, max_size=rank - 1))]
    strides = draw(st.lists(st.integers(0, 40).map(lambda n: 32 * n), min_size=rank - 1, max_size=rank - 1))
    steps = draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank))
    low = 0 if store else -4
    # Mostly inside the tensor, so that stores write something.
    start = [draw(st.integers(max(low, -2), n - 1) | st.integers(low, 8)) for n in dims]
    if interleave == "none":
        start[0] = start[0] // sixteen * sixteen
    base = 128 * draw(st.integers(0, 9))
    common: dict[str, Any] = {
        "dtype": dtype,
        "global_dim": dims,
        "global_stride": strides,
        "element_stride": steps,
        "interleave": interleave,
        "swizzle": swizzle,
        "mode": mode,
    }
    if mode == "tiled":
        outer = draw(st.lists(st.integers(1, 4), min_size=rank - 1, max_size=rank - 1))
        return TensorMap(**common, box=(inner, *outer)), tuple(start), base, ()
    lower, upper, offsets = [], [], []
    for d in range(rank - 2) if interleave != "none" else range(1, rank - 1):
        lower.append(draw(st.integers(low, dims[d] - 1)))
        upper.append(draw(st.integers(lower[-1] - dims[d] + 1, 0 if store else 3)))
        start[d] = draw(st.integers(lower[-1], dims[d] - 1 + upper[-1]))
        offsets.append(0 if store else draw(st.integers(0, 5)))
    tm = TensorMap(
        **common, channels=inner, pixels=draw(st.integers(1, 40)), lower_corner=tuple(lower), upper_corner=tuple(upper)
    )
    return tm, tuple(start), base, tuple(offsets)


@settings(max_examples=300, deadline=None)
@given(copies())
def test_load_equals_the_slow_reference(copy: tuple[TensorMap, tuple[int, ...], int, tuple[int, ...]]) -> None:
    tm, start, base, offsets = copy
    copied = slow_copy(tm, start, base, offsets, store=False)
    image = smem_image(tm, start, base, offsets)
    assert {a: s for a, s in enumerate(image.tolist()) if s != UNTOUCHED} == copied
    assert tx_bytes(tm) == len(copied)
    assert base <= min(copied)
    assert max(copied) < base + smem_bytes(tm) == len(image)


@settings(max_examples=200, deadline=None)
@given(copies(store=True))
def test_store_equals_the_slow_reference(copy: tuple[TensorMap, tuple[int, ...], int, tuple[int, ...]]) -> None:
    tm, start, base, offsets = copy
    copied = slow_copy(tm, start, base, offsets, store=True)
    footprint = store_footprint(tm, start, base).tolist()
    assert sorted((g, s) for g, s in footprint) == sorted((g, s) for s, g in copied.items() if g != FILLED)


PLAIN = TensorMap("u32", (62, 16), (256,), box=(16, 8))


def test_store_runs_on_to_the_next_granule_and_drops_rows_past_the_end() -> None:
    """FACTS M-13: with 62 columns of u32, a store also writes columns 62 and 63, and no row past the last."""
    written = set(store_footprint(PLAIN, (48, 12))[:, 0].tolist())
    assert written == {row * 256 + byte for row in range(12, 16) for byte in range(192, 256)}
    loaded = smem_image(PLAIN, (48, 12))
    assert (loaded.reshape(8, 64)[:4, 56:] == FILLED).all()


def test_smem_bytes_holds_whole_spans() -> None:
    """FACTS M-08: 16-byte rows lie 128 bytes apart with the 128B swizzle, while the barrier counts 16."""
    tm = replace(PLAIN, box=(4, 8), swizzle="128B")
    assert (tx_bytes(tm), smem_bytes(tm)) == (128, 1024)


IM2COL = TensorMap(
    "f16",
    (64, 12, 10, 3),
    (256, 3072, 30720),
    mode="im2col",
    channels=8,
    pixels=4,
    lower_corner=(-1, -1),
    upper_corner=(-1, -1),
)


def test_a_swizzle_with_wide_atoms_exchanges_pairs_of_granules_in_four_rows() -> None:
    """By the table of PTX (SW-05): chunk x of line y lies at x ^ 2 (y % 4)."""
    image = smem_image(replace(PLAIN, box=(32, 8), swizzle="128B_atom_32B"), (16, 4), base=128)
    for row in range(8):
        for byte in range(128):
            line, at = 1 + row, byte // 16 ^ 2 * ((1 + row) % 4)
            assert image[128 * line + 16 * at + byte % 16] == 256 * (4 + row) + 64 + byte


@pytest.mark.parametrize(
    ("tm", "arguments", "message"),
    [
        (PLAIN, {"coordinate": (2, 0)}, "illegal instruction"),
        (PLAIN, {"coordinate": (0,)}, "1 entry"),
        (PLAIN, {"coordinate": (0, 2**31)}, "coordinate"),
        (PLAIN, {"coordinate": (0, True)}, "coordinate"),
        (PLAIN, {"coordinate": (0.0, 0)}, "coordinate"),
        (PLAIN, {"coordinate": "00"}, "coordinate"),
        (PLAIN, {"coordinate": 0}, "coordinate"),
        (PLAIN, {"base": 64}, "misaligned address"),
        (PLAIN, {"base": -128}, "base"),
        (PLAIN, {"base": 128.0}, "base"),
        (PLAIN, {"base": 2**40}, "ends at shared byte"),
        (PLAIN, {"offsets": (1,)}, "offsets of a tiled copy"),
        (PLAIN, {"shared_bytes": 511}, "shared_bytes"),
        (PLAIN, {"shared_bytes": 2**60}, "shared_bytes"),
        (replace(PLAIN, box=(15, 8)), {}, "widen it to 64 bytes"),
        (replace(PLAIN, box=(0, 8)), {}, "box"),
        (replace(PLAIN, box=(256, 256)), {}, "ends at shared byte"),
        (replace(PLAIN, box=(2**32 - 4, 2**32 - 1)), {}, "ends at shared byte"),
        (replace(PLAIN, swizzle="32B"), {}, "narrow it to 32 bytes"),
        (replace(PLAIN, swizzle="128B_atom_64B"), {}, "swizzle"),
        (replace(PLAIN, swizzle=17), {}, "swizzle"),
        (replace(PLAIN, interleave="16B"), {}, "rank"),
        (replace(PLAIN, interleave=9), {}, "interleave"),
        (replace(PLAIN, element_stride=(1, 0)), {}, r"element_stride\[1\]"),
        (replace(PLAIN, element_stride=(9, 1)), {}, r"element_stride\[0\]"),
        (replace(PLAIN, global_dim=(0, 16)), {}, "global_dim"),
        (replace(PLAIN, global_stride=(2**63,)), {"coordinate": (0, 1)}, "2\\^63"),
        (replace(PLAIN, dtype="16u4_align8b"), {}, "packs"),
        (replace(PLAIN, dtype=16), {}, "unknown"),
        (TensorMap("u8", ()), {"coordinate": ()}, "rank"),
        (TensorMap("u8", (16,) * 6, (16,) * 5, box=(16,) * 6), {"coordinate": (0,) * 6}, "rank"),
        (IM2COL, {"coordinate": (0, -2, 0, 0)}, "pixel box -1 to 10"),
        (IM2COL, {"coordinate": (0, 0, 9, 0)}, "pixel box -1 to 8"),
        (IM2COL, {"coordinate": (4, 0, 0, 0)}, "illegal instruction"),
        (IM2COL, {"coordinate": (0, 0, 0, 0), "offsets": (1,)}, "offsets"),
        (IM2COL, {"coordinate": (0, 0, 0, 0), "offsets": (0, 256)}, "offsets"),
        (IM2COL, {"coordinate": (0, 0, 0, 0), "offsets": (0, -1)}, "offsets"),
        (replace(IM2COL, channels=0), {"coordinate": (0, 0, 0, 0)}, "channels"),
        (replace(IM2COL, pixels=0), {"coordinate": (0, 0, 0, 0)}, "pixels"),
    ],
)
def test_a_load_without_meaning_is_refused(tm: TensorMap, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        smem_image(tm, **{"coordinate": (0, 0), **arguments})


def test_a_store_without_meaning_is_refused() -> None:
    with pytest.raises(InvalidInput, match="illegal instruction"):
        store_footprint(PLAIN, (0, -1))
    with pytest.raises(InvalidInput, match="corner"):
        store_footprint(IM2COL, (0, 0, 0, 0))


@pytest.mark.parametrize("function", [tx_bytes, smem_bytes])
def test_something_else_than_a_tensor_map_is_refused(function: Any) -> None:
    with pytest.raises(InvalidInput, match="give a TensorMap"):
        function((16, 8))


def test_the_largest_legal_numbers_pass() -> None:
    tm = TensorMap("u8", (2**32, 2**32), (2**40 - 16,), box=(256, 256), element_stride=(8, 8))
    image = smem_image(tm, (2**31 - 16, 2**20))
    assert image.max() == (2**20 + 248) * (2**40 - 16) + 2**31 + 239
    assert (smem_image(replace(tm, global_dim=(16, 2**32)), (-(2**31), -(2**31))) == FILLED).all()
