"""Executions of copies: judged as an H200 did, and against what the copy engine's model moves byte by byte."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from measured_copies import request_numbers, tensor_map

import legalsat as ls
from bench.driver_agreement import SAMPLE
from bench.driver_agreement import tensor_map as requested_map
from legalsat.analyses.described_memory import unlike
from legalsat.cli import main
from legalsat.diagnostics import CONSEQUENCES
from legalsat.rules import RULES, TENSOR_MAP_RULES
from legalsat.rules.causes import FOLLOWS
from legalsat.targets import target
from legalsat.tensor import plain
from legalsat.units.driver_arguments import ARGUMENTS, ENUMERATORS
from legalsat.units.sites import TmaCopy
from legalsat.units.tensor_copy import REDUCTIONS

DATA = Path(__file__).parent / "data"
H200 = "h200"
MAP = ls.TensorMap("bf16", (64, 128), (128,), (64, 8), swizzle="128B")
SPEAKERS = list(CONSEQUENCES)


def codes(subject: Any, target: str = H200) -> list[str]:
    return [d.code for d in ls.violations(subject, target)]


def shape_of(store: int, coordinate: list[int], tm: ls.TensorMap, **more: Any) -> ls.TensorCopy:
    return ls.TensorCopy(tm, stores=bool(store), coordinate=tuple(coordinate[: tm.rank]), **more)


# Against the hardware


def test_copies_that_an_h200_did_and_those_that_it_faulted_on() -> None:
    """Of 658 random loads and stores: faults are errors of the coordinate; byte counts are the barrier's."""
    with np.load(DATA / "copy_engine_h200.npz") as data:
        requests, offset, at = data["requests"].tolist(), data["offset"], data["at"]
    seen: Counter[str] = Counter()
    for row, request in enumerate(requests):
        store, fault, dtype, rank, interleave, swizzle, oob, mode, base, tx = request[:10]
        numbers = request_numbers(request[10:])
        kinds = {"interleave": interleave, "swizzle": swizzle, "oob_fill": oob, "mode": mode}
        tm = tensor_map(dtype, rank, kinds, numbers)
        copy = shape_of(store, numbers["coordinate"], tm, shared_address=base, by_address=True)
        found = codes(copy)
        assert bool(fault) == bool({"COPY001", "COPY002", "COPY003"} & set(found)), request
        assert "COPY004" not in found
        seen["fault" if fault else "done"] += 1
        if store and not fault:
            inside = ls.smem_image(tm, copy.coordinate, base)
            written = (at[offset[row] : offset[row + 1], None] * 4 + np.arange(4)).ravel()
            past = len(np.setdiff1d(written, inside))
            rows = -(-tm.global_dim[0] * tm.map_type.bits // 128) * 16
            if past or all(stride >= rows for stride in tm.global_stride):  # else another row's elements hide it
                assert (past > 0) == ("COPY008" in found), request
                seen["past the end" if past else "within"] += 1
        elif not fault:
            assert "COPY006" not in codes(replace(copy, transaction_bytes=tx))
            for wrong, outcome in ((tx + 16, "never ends"), (tx - 16, "ends before")):
                (said,) = (
                    d for d in ls.violations(replace(copy, transaction_bytes=wrong), H200) if d.code == "COPY006"
                )
                assert outcome in said.message and f"to {tx} a phase" in said.help
            seen["counted"] += 1
    assert min(seen[what] for what in ("fault", "past the end", "within", "counted")) >= 10, seen


# Against the model of the copy engine


@st.composite
def small_maps(draw: st.DrawFn) -> ls.TensorMap:
    """Draw a legal map of two or three dimensions, with rows that may end inside 16 bytes."""
    dtype = draw(st.sampled_from(["u8", "bf16", "u32"]))
    size = {"u8": 1, "bf16": 2, "u32": 4}[dtype]
    swizzle = draw(st.sampled_from(["none", "32B", "64B", "128B"]))
    most = {"none": 128, "32B": 32, "64B": 64, "128B": 128}[swizzle]
    row = draw(st.integers(1, most // 16)) * 16
    extents = [draw(st.integers(1, 160 // size)), draw(st.integers(1, 12)), draw(st.integers(1, 3))]
    pitch = -(-extents[0] * size // 16) * 16 + 16 * draw(st.integers(0, 2))
    box = (row // size, draw(st.integers(1, 9)), draw(st.integers(1, 2)))
    return ls.TensorMap(dtype, tuple(extents), (pitch, pitch * 16), box, swizzle=swizzle)  # type: ignore[arg-type]


@settings(deadline=None, max_examples=150)
@given(small_maps(), st.integers(0, 6), st.integers(0, 14), st.integers(0, 4), st.sampled_from([None, "add"]))
def test_stores_overwrite_as_many_elements_as_the_rule_says(
    tm: ls.TensorMap, granules: int, row: int, plane: int, reduces: str | None
) -> None:
    size = tm.map_type.bits // 8
    coordinate = (granules * 16 // size, row, plane)
    copy = ls.TensorCopy(replace(tm, dtype="u32") if reduces and size == 4 else tm, True, None, coordinate)
    written = ls.store_footprint(tm, coordinate)[:, 0]
    behind = written[written % tm.global_stride[0] >= tm.global_dim[0] * size]
    rows = {int(byte) // tm.global_stride[0] for byte in behind}
    said = [d for d in ls.violations(copy, H200) if d.code == "COPY008"]
    assert bool(said) == bool(len(behind))
    if said:
        elements, count = map(int, re.findall(r"the (\d+) elements \((\d+) bytes\)", said[0].message)[0])
        assert len(behind) == count * len(rows) and elements * size == count


@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B"])
def test_a_tile_inside_the_pattern_is_one_that_readers_from_its_start_get_wrong(swizzle: str) -> None:
    span = {"none": 32}.get(swizzle) or int(swizzle.removesuffix("B"))
    tm = ls.TensorMap("u8", (span, 40), (span,), (span, 40), swizzle=swizzle)  # type: ignore[arg-type]
    reader, offsets = ls.Swizzle.tma(swizzle), np.arange(40 * span, dtype=np.int64)
    for base in range(0, 4096, 128):
        image = ls.smem_image(tm, (0, 0), base)
        right = np.array_equal(image[base + reader(offsets)], offsets)
        assert codes(ls.TensorCopy(tm, shared_address=base)) == ([] if right else ["COPY005"])
        assert np.array_equal(image[reader(base + offsets)], offsets), "absolute addresses are always right"
        assert not codes(ls.TensorCopy(tm, shared_address=base, by_address=True))


@settings(deadline=None, max_examples=60)
@given(small_maps(), st.integers(0, 4096))
def test_buffers_that_are_too_small_are_those_that_a_box_leaves(tm: ls.TensorMap, held: int) -> None:
    image = ls.smem_image(tm, (0, 0, 0), 0, shared_bytes=2**15)
    touched = np.flatnonzero(image != -2)
    if touched[-1] >= held:
        assert "COPY007" in codes(ls.TensorCopy(tm, shared_bytes=held))
    assert not codes(ls.TensorCopy(tm, shared_bytes=ls.smem_bytes(tm)))
    assert codes(ls.TensorCopy(tm, shared_bytes=ls.smem_bytes(tm) - 1)) == ["COPY007"]


# What the map describes

_EXTENTS = st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4)


@st.composite
def tensors(draw: st.DrawFn) -> ls.Tensor:
    """Draw a small tensor whose axes are in any order, dense or with gaps; its element type has 1, 2 or 4 bytes."""
    extents = draw(_EXTENTS)
    strides, step = [0] * len(extents), 1
    for axis in draw(st.permutations(range(len(extents)))):
        strides[axis] = step
        step *= extents[axis] * draw(st.sampled_from([1, 1, 2]))
    return ls.Tensor(extents, draw(st.sampled_from(["u8", "bf16", "fp32"])), strides)


def modes_of(tensor: ls.Tensor) -> list[tuple[int, int]]:
    """Return extents and strides, in elements."""
    return list(zip(plain(tensor.shape), plain(tensor.strides), strict=True))


def addresses(tensor: ls.Tensor) -> Counter[int]:
    """Return every byte of a tensor, and how many of its elements have it."""
    size, modes = tensor.dtype.bits // 8, modes_of(tensor)
    places = itertools.product(*(range(n) for n, _ in modes))
    starts = (sum(i * s for i, (_, s) in zip(place, modes, strict=True)) * size for place in places)
    return Counter(start + byte for start in starts for byte in range(size))


def map_of(shape: list[int], strides: list[int], tensor: ls.Tensor) -> ls.TensorMap:
    """Return the map of modes in elements, fastest first."""
    order = sorted(range(len(shape)), key=lambda a: ((strides[a], shape[a] > 1) != (1, True), strides[a]))
    if not order or strides[order[0]] != 1:
        shape, strides, order = [1, *shape], [1, *strides], [0, *(a + 1 for a in order)]
    size = tensor.dtype.bits // 8
    outer = tuple(strides[a] * size for a in order[1:])
    return ls.TensorMap(tensor.dtype.map_type, tuple(shape[a] for a in order), outer, (1,) * len(order))


@settings(deadline=None, max_examples=200)
@given(tensors(), st.data())
def test_a_map_of_the_tensor_is_one_in_any_order_merged_split_and_recast(
    tensor: ls.Tensor, data: st.DataObject
) -> None:
    modes = [mode for mode in modes_of(tensor) if mode[0] > 1 or data.draw(st.booleans())]
    for at in range(len(modes)):  # split
        n, s = modes[at]
        if n in (4, 6) and data.draw(st.booleans()):
            modes[at : at + 1] = [(2, s), (n // 2, 2 * s)]
    modes.sort(key=lambda m: m[1])
    for at in reversed(range(len(modes) - 1)):  # merge
        (n, s), (m, t) = modes[at : at + 2]
        if t == n * s and data.draw(st.booleans()):
            modes[at : at + 2] = [(n * m, s)]
    if not _pairs_off(modes, tensor):
        return
    tm = map_of([n for n, _ in modes], [s for _, s in modes], tensor)
    assert unlike(tm, tensor) == ""
    half = data.draw(st.booleans()) and tensor.dtype.bits > 8
    if half:  # the same bytes as elements of one byte
        size = tensor.dtype.bits // 8
        tm = replace(tm, dtype="u8", global_dim=(tm.global_dim[0] * size, *tm.global_dim[1:]))
        assert unlike(tm, tensor) == ""


def _pairs_off(modes: list[tuple[int, int]], tensor: ls.Tensor) -> bool:
    """Whether modes group with the tensor's: by trying all ways to cut both, in order of strides, into equal runs."""
    ours = sorted((m for m in modes if m[0] > 1), key=lambda m: m[1])
    theirs = sorted((m for m in modes_of(tensor) if m[0] > 1), key=lambda m: m[1])
    return _runs(ours, theirs)


def _runs(ours: Any, theirs: Any) -> bool:
    if not ours or not theirs:
        return not ours and not theirs
    for i, j in itertools.product(range(1, len(ours) + 1), range(1, len(theirs) + 1)):
        if min(i, j) > 1:
            continue
        one, other = ours[:i], theirs[:j]
        alike = _in_a_row(one) and _in_a_row(other) and (one[0][1], _count(one)) == (other[0][1], _count(other))
        if alike and _runs(ours[i:], theirs[j:]):
            return True
    return False


def _in_a_row(modes: Any) -> bool:
    return all(t == n * s for (n, s), (_, t) in itertools.pairwise(modes))


def _count(modes: Any) -> int:
    return int(np.prod([n for n, _ in modes]))


@settings(deadline=None, max_examples=300)
@given(tensors(), tensors())
def test_a_map_of_another_tensor_is_one_that_groups_otherwise(tensor: ls.Tensor, other: ls.Tensor) -> None:
    """What passes covers the same bytes as often; what covers them in another grouping is refused."""
    tm = map_of(list(plain(other.shape)), list(plain(other.strides)), other)
    same = unlike(tm, tensor) == ""
    assert not same or addresses(other) == addresses(tensor)
    if tensor.dtype == other.dtype:
        assert same == _pairs_off(modes_of(other), tensor)


def test_strides_made_up_from_the_shape_of_a_transposed_view_are_other_memory() -> None:
    """As of FlashAttention's (batch, rows, heads, columns) seen as (batch, heads, rows, columns)."""
    stored = ls.Tensor((2, 6, 4, 64), "bf16")
    view = stored.transposed((0, 2, 1, 3))
    made_up = ls.TensorMap("bf16", (64, 6, 4, 2), (128, 768, 3072), (64, 1, 1, 1))
    real = ls.TensorMap("bf16", (64, 6, 4, 2), (512, 128, 3072), (64, 1, 1, 1))
    assert codes(ls.TensorCopy(made_up, tensor=view)) == ["COPY010"]
    assert not codes(ls.TensorCopy(real, tensor=view))
    assert not codes(ls.TensorCopy(real, tensor=stored)), "the same memory, in another order of dimensions"
    said = str(ls.violations(ls.TensorCopy(made_up, tensor=view), H200)[0])
    assert "dimension 1 of 6 steps of 128 bytes" in said and "axis 1 of 4 steps of 128 bytes" in said


def test_a_map_begins_where_the_tensor_may() -> None:
    tensor = ls.Tensor((128, 64), "bf16", align=64, offset=16)
    for address, told in ((0, []), (16, []), (80, []), (32, ["COPY010"])):
        tm = ls.TensorMap("bf16", (64, 128), (128,), (64, 8), address=address)
        assert codes(ls.TensorCopy(tm, tensor=tensor)) == told


# One cause, one error


def test_the_worst_comes_first_and_consequences_do_not_come() -> None:
    """On the driver's answered requests: order, verdict and the driver's verdict are those of all rules together."""
    requests = np.load(SAMPLE)["requests"]
    rng = np.random.default_rng(7)
    dropped: Counter[tuple[str, str]] = Counter()
    for row in rng.choice(len(requests), 700, replace=False):
        tm = requested_map(requests[row])
        found = ls.violations(tm, H200)
        outer = sorted(range(1, tm.rank), key=lambda axis: tm.global_stride[axis - 1])
        site = replace(TmaCopy.of(tm), by_stride=(0, *outer))
        every = [d for rule in TENSOR_MAP_RULES for d in rule.check(site, target(H200))]
        weights = [(d.level, SPEAKERS.index(d.refused_by)) for d in found]
        assert weights == sorted(weights)
        assert any(d.refused_by == "driver" for d in found) == any(d.refused_by == "driver" for d in every)
        assert {d.code for d in found} <= {d.code for d in every}
        present = {d.code for d in every}
        for code in present - {d.code for d in found}:
            causes = [cause for cause in FOLLOWS[code] if cause in present]
            assert causes
            dropped[code, causes[0]] += 1
    assert sum(dropped.values()) > 50
    assert {code for code, _ in dropped} >= {"TMA021", "TMA033"}


def test_causes_speak_no_later_than_what_follows_from_them() -> None:
    by_code = {rule.code: rule for rule in RULES}
    for code, causes in FOLLOWS.items():
        for cause in causes:
            assert by_code[cause].level == "error"
            order = SPEAKERS.index(by_code[cause].refused_by), SPEAKERS.index(by_code[code].refused_by)
            assert order[0] <= order[1] or by_code[code].level == "warning"


@pytest.mark.parametrize(
    ("tm", "only"),
    [
        (ls.TensorMap("bf16", (64, 8192), (128,), (64, 4096)), ["TMA003"]),  # not also 512 KiB twice
        (ls.TensorMap("fp32", (64, 512), (256,), (256, 256)), ["TMA017"]),
        (ls.TensorMap("bf16", (64, 64), (128,), (64, 8), interleave=3), ["TMA012"]),
        (ls.TensorMap("16u4_align16b", (64, 64), (128,), (64, 8)), ["TMA010"]),
    ],
)
def test_one_cause_is_one_error(tm: ls.TensorMap, only: list[str]) -> None:
    assert codes(tm) == only


def test_a_misaligned_buffer_is_told_once_and_moved_to_where_the_pattern_begins() -> None:
    (said,) = ls.violations(ls.TensorCopy(MAP, shared_address=64), H200)
    assert said.code == "COPY004" and "multiple of 1024 bytes" in said.help


def test_a_store_that_overlaps_is_an_error_and_a_load_a_warning() -> None:
    rows = replace(MAP, global_stride=(64,))
    assert [(d.code, d.level) for d in ls.violations(ls.TensorCopy(rows), H200)] == [("TMA023", "warning")]
    assert codes(ls.TensorCopy(rows, stores=True)) == ["COPY009"]


# The nouns


def test_what_is_not_known_is_not_judged() -> None:
    assert not codes(ls.TensorCopy(MAP)) and not codes(ls.BulkCopy())
    assert not codes(ls.TensorCopy(MAP, coordinate=(-8, -3))), "loads may begin before the tensor"


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_reductions_store_and_take_no_small_integers(reduction: str) -> None:
    copy = ls.TensorCopy(replace(MAP, dtype="u16"), reduces=reduction)
    assert copy.stores and codes(copy) == ["COPY013"]
    assert not codes(ls.TensorCopy(ls.TensorMap("u32", (64, 128), (256,), (32, 8)), reduces=reduction))


def test_a_store_signals_no_barrier() -> None:
    (said,) = ls.violations(ls.TensorCopy(MAP, stores=True, transaction_bytes=1024), H200)
    assert said.code == "COPY006" and "bulk group" in said.help


def test_bytes_of_several_copies_in_a_phase_add_up() -> None:
    assert not codes(ls.TensorCopy(MAP, transaction_bytes=4096, copies=4))
    assert codes(ls.TensorCopy(MAP, transaction_bytes=2048, copies=4)) == ["COPY006"]


def test_an_illegal_map_is_told_with_its_copy() -> None:
    assert codes(ls.TensorCopy(replace(MAP, global_stride=(130,)), coordinate=(4, 0))) == ["TMA005", "COPY001"]
    assert codes(ls.TensorCopy(replace(MAP, dtype=77), stores=True, coordinate=(0, 0)))[:1] == ["TMA010"]


@pytest.mark.parametrize("subject", [ls.TensorCopy(MAP, shared_address=1), ls.BulkCopy(bytes=3)])
def test_a_chip_without_a_copy_engine_says_so_alone(subject: Any) -> None:
    assert codes(subject, "a100") == ["UNIT001"]
    assert not ls.explain(subject, "a100").obligations


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"tensor_map": 3}, "give a TensorMap"),
        ({"coordinate": (0,)}, "coordinate has 1 entry; give 2"),
        ({"coordinate": (0, 2**31)}, "give at most"),
        ({"shared_address": -1}, "shared_address is -1"),
        ({"copies": 0}, "copies is 0"),
        ({"reduces": "mul"}, "reduces is 'mul'; give one of add"),
        ({"stores": 1}, "stores is 1"),
        ({"read_as": "256B"}, "swizzle is '256B'"),
        ({"tensor": ls.Tensor((ls.Dim("M"), 64), "bf16")}, "has dims"),
    ],
)
def test_copies_of_no_meaning_are_refused(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ls.InvalidInput, match=re.escape(says)):
        ls.TensorCopy(**{"tensor_map": MAP, **fields})


# Fields in a mapping


def test_a_mapping_of_fields_is_what_it_describes() -> None:
    ours: dict[str, Any] = {"dtype": "bf16", "global_dim": (64, 128), "global_stride": (130,), "box": (64, 8)}
    said = [d.code for d in ls.explain(ours, H200).diagnostics]
    assert said == codes(ls.TensorMap(**ours)) == ["TMA005"]
    tensor = {"shape": (64, 63), "dtype": "bf16"}
    assert ls.explain(tensor, H200, tile=(64, 64)).of == ls.Tensor((64, 63), "bf16")
    assert ls.explain({**ours, "global_stride": (128,), "coordinate": (4, 0)}, H200).diagnostics[0].code == "COPY001"
    beside = {"tensor_map": MAP, "tensor": {"shape": (128, 64), "dtype": "bf16"}}
    assert ls.explain(beside, H200).legal
    assert ls.explain({"bytes": 24}, H200).diagnostics[0].code == "BULK002"


def test_the_drivers_own_names_are_understood() -> None:
    given = {
        "tensorDataType": "CU_TENSOR_MAP_DATA_TYPE_BFLOAT16",
        "tensorRank": 2,
        "globalAddress": 4096,
        "globalDim": [64, 128, 0, 0, 0],
        "globalStrides": [128, 0, 0, 0],
        "boxDim": [64, 8, 0],
        "elementStrides": [1, 1, 0],
        "interleave": "CU_TENSOR_MAP_INTERLEAVE_NONE",
        "swizzle": "CU_TENSOR_MAP_SWIZZLE_128B",
        "l2Promotion": "CU_TENSOR_MAP_L2_PROMOTION_L2_128B",
        "oobFill": "CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA",
    }
    assert ls.explain(given, H200).of == replace(MAP, address=4096, l2_promotion="128B", oob_fill="nan")
    image = {
        **{"tensorDataType": 9, "globalDim": (64, 16, 16, 2), "globalStrides": (128, 2048, 32768)},
        **{"pixelBoxLowerCorner": (-1, -1), "pixelBoxUpperCorner": (-1, -1), "channelsPerPixel": 64},
        "pixelsPerColumn": 32,
    }
    assert ls.explain(image, H200).of.mode == "im2col"


def test_names_of_the_driver_are_those_of_its_header() -> None:
    """Spelled out: the parameters of the two calls in cuda.h 13.0."""
    assert len(ARGUMENTS) == 15
    assert [len(names) for names in ENUMERATORS.values()] == [16, 3, 7, 4, 2]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "shape is missing"),
        ({"global_dim": (64,), "dtype": "bf16", "frob": 1}, "fields name frob"),
        ({"dtype": "bf16", "box": (64,)}, "global_dim is missing"),
        ({"global_dim": (64,), "globalDim": (64,), "dtype": "bf16"}, "global_dim is given twice"),
        ({"shape": (64,), "dtype": "bf16", "box": (64,)}, "belong to no one thing"),
        ({"tensor_map": MAP, "box": (64, 8)}, "tensor_map is given, and its field box too"),
        ({3: 4}, "fields name 3"),
        ({"dtype": "bf16", "global_dim": (64,), "box": (64,), "tensorRank": 2}, "tensorRank is 2; give at most 1"),
    ],
)
def test_mappings_of_no_meaning_are_refused(given: dict[Any, Any], says: str) -> None:
    with pytest.raises(ls.InvalidInput, match=re.escape(says)):
        ls.explain(given, H200)


# The command line

WORDS = ["explain", "--target", "h200", "--tensor-map", "dtype=u8", "globalDim=466,32", "global_stride=512"]


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    code = main([*words, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_an_execution_is_explained_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    tm = ls.TensorMap("u8", (466, 32), (512,), (128, 32))
    words = [*WORDS, "boxDim=128,32", "--copy", "stores=true", "coordinate=384,0", "shared_address=0x80"]
    copy = ls.TensorCopy(tm, True, coordinate=(384, 0), shared_address=128)
    assert run(capsys, *words) == (1, json.loads(json.dumps(ls.explain(copy, H200).to_json())))
    assert run(capsys, *words, "coordinate=0,0")[1]["error"].startswith("--copy gives coordinate twice")
    assert run(capsys, *words[:-3], "stores=false", "coordinate=-16,-1")[0] == 0
    tensor = ("--shape", "32x466", "--dtype", "u8")
    assert run(capsys, *words[:-3], "stores=false", *tensor)[1]["diagnostics"][0]["code"] == "COPY010"
    assert run(capsys, *words[:-3], "stores=false", *tensor, "--strides", "512,1")[0] == 0


def test_a_bulk_copy_is_explained_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    code, found = run(capsys, "explain", "--target", "h200", "--copy", "bytes=4096", "global_address=4")
    assert code == 1 and [d["code"] for d in found["diagnostics"]] == ["BULK001"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--copy", "stores=yes"], "stores is 'yes'; give true or false"),
        (["--copy", "coordinate=0,0"], "--copy has 'coordinate=0,0'; write FIELD=VALUE with FIELD one of bytes"),
        (["--copy", "bytes=16", "--text", "715"], "--copy goes with --tensor-map alone"),
        ([*WORDS[3:], "box=16,1", "--copy", "stores=true", "--strides", "1"], "--shape is missing"),
        ([*WORDS[3:], "box=16,1", "--copy", "stores=true", "--tile", "4"], "--tensor-map and --tile are given"),
    ],
)
def test_wrong_usage_of_copies_says_what_to_do(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = run(capsys, "explain", "--target", "h200", *words)
    assert code == 2 and says in found["error"]
