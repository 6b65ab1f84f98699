"""Repairs of tensor maps: they work, describe the same data, and none is larger than what exhaustive search finds.

`python -m bench.maps.map_repairs` asks the same of 5,000 requests.
"""

from __future__ import annotations

import ast
import itertools
import re
import shutil
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import pytest

import legalsat as ls
from bench.maps import map_exhaustive, map_ways
from bench.maps.map_repairs import EQUAL, FAULTS, SMALLER, Report, flat, measure, text
from bench.maps.random_maps import requests
from legalsat.explanation import Repair
from legalsat.extract.explain.map_repair import DATA, MapRepair, map_repairs
from legalsat.logic import ceil_div
from legalsat.targets import target

T = ls.TensorMap
REQUESTS, FEW_BOXES = 30, 300
MANY = 250
SMALL = 4096  # elements of a tensor whose bytes are listed


def found(tm: ls.TensorMap, gpu: str = "h200") -> list[MapRepair]:
    return map_repairs(tm, target(gpu))


def parts(tm: ls.TensorMap, gpu: str = "h200") -> list[set[str]]:
    return [set(repair.parts) for repair in found(tm, gpu)]


def messages(tm: ls.TensorMap, gpu: str = "h200") -> list[str]:
    return [repair.message for repair in ls.explain(tm, gpu).repairs]


def test_no_repair_is_larger_than_what_exhaustive_search_finds() -> None:
    report = measure(REQUESTS, boxes=FEW_BOXES)
    assert report.sound, text(report)
    assert (
        report.verdicts[EQUAL] > REQUESTS // 2 and report.verdicts[EQUAL] + report.verdicts[SMALLER] == report.repairs
    )


def test_a_search_that_knows_better_is_noticed() -> None:
    """The comparison itself: a smaller repair of the same parts, and parts that are not suggested."""
    asked = next(r for r in requests(Random(3)) if found(r.map, r.target))
    own = found(asked.map, asked.target)
    size = flat(own[0])
    report = Report(0)
    lacking = frozenset({"rank", "dtype", "box"})
    better = map_exhaustive.Smallest((*size[:-1], size[-1] - 1), own[0].after)
    report.add(asked, own[:1], {own[0].parts: better, lacking: better})
    assert not report.sound
    assert {fault for fault in FAULTS if report.verdicts[fault]} == {"larger", "missed", "first larger"}


@pytest.mark.parametrize("module", [map_exhaustive, map_ways])
def test_the_search_shares_nothing_with_the_repairs_but_the_rules(module: Any) -> None:
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    assert not any("map_repair" in name or "map_changes" in name or "extract" in name for name in imported)


def bits_of_elements(tm: ls.TensorMap) -> set[int]:
    """Every second bit at which a small tensor has elements, counted from its address; elements have 2 bits or more."""
    bits = {"16B": 128, "32B": 256}.get(str(tm.interleave), tm.map_type.bits)
    outer = itertools.product(*(range(n) for n in tm.global_dim[1:]))
    rows = {sum(c * s for c, s in zip(at, tm.global_stride, strict=True)) for at in outer}
    return {8 * row + bit for row in rows for bit in range(0, tm.global_dim[0] * bits, 2)}


def moved_elements(tm: ls.TensorMap) -> int:
    """Elements that one box moves."""
    count = tm.box[0]
    for extent, step in zip(tm.box[1:], tm.element_stride[1:], strict=True):
        count *= ceil_div(extent, step)
    return count


def test_repairs_work_and_describe_the_same_data() -> None:
    seen = 0
    for asked in itertools.islice(requests(Random(17)), MANY):
        before = {d.code for d in ls.violations(asked.map, asked.target)}
        explanation = ls.explain(asked.map, asked.target)
        assert not explanation.legal
        suggested = found(asked.map, asked.target)
        assert [r.after for r in suggested] == [r.after for r in explanation.repairs]
        assert [r.size for r in suggested] == sorted(r.size for r in suggested)
        sets = [r.parts for r in suggested]
        assert not any(one < other for one in sets for other in sets) and len(set(sets)) == len(sets)
        for repair, shown in zip(suggested, explanation.repairs, strict=True):
            after = ls.violations(repair.after, asked.target)
            assert not any(d.level == "error" for d in after) and {d.code for d in after} <= before
            assert bool(repair.parts & DATA or "interleave" in repair.parts) >= bool(shown.once)
            assert not shown.once or repair.size.data
            assert shown.bytes_added >= 0 and not set("{}") & set(shown.message)
            same = not repair.size.data and not repair.parts & {"global_dim", "element_stride", "interleave"}
            if same and ls.Tensor(asked.map.global_dim, "u8").size <= SMALL:
                assert bits_of_elements(repair.after) == bits_of_elements(asked.map)
                seen += 1
            if asked.map.mode == "tiled" and 0 not in asked.map.box and "element_stride" not in repair.parts:
                bits = moved_elements(repair.after) * repair.after.map_type.bits * repair.size.copies
                assert bits >= moved_elements(asked.map) * asked.map.map_type.bits
    assert seen > MANY // 20


def test_a_row_is_padded_and_nothing_else_moves() -> None:
    tm = T("bf16", (60, 64, 8), (120, 7680), (64, 8, 1), swizzle="128B")
    (repair,) = found(tm)
    assert repair.parts == {"pad"} and repair.after.global_dim == tm.global_dim
    assert repair.after.global_stride == (128, 128 * 64), "the outer stride steps over longer rows"
    assert repair.size.added == 8 * 64 * 8 - 8
    assert messages(tm) == [
        "pad dimensions 1 and 2 to strides of 128 and 8192 bytes (now 120 and 7680), adding 4088 bytes"
    ]


def test_a_stride_of_one_element_moves_no_data() -> None:
    (repair,) = found(T("bf16", (64, 1, 8), (130, 128), (64, 1, 8)))
    assert repair.parts == {"global_stride"} and not repair.size.data
    assert repair.after.global_stride == (128, 128)


def test_sliding_windows_that_are_padded_lie_apart() -> None:
    """A stride of 2 bytes overlaps; rows that are laid anew hold all of their elements each."""
    (repair,) = found(T("bf16", (64, 100), (2,), (64, 4)))
    assert repair.parts == {"pad"} and repair.after.global_stride == (128,)


def test_a_stride_that_is_too_long_finds_its_place_between_the_others() -> None:
    """Rows of 16 bytes, 28 of them, then 8 that lie 25,088 bytes apart: the 56 of the long stride fit in between."""
    (repair,) = found(T("u8", (8, 28, 56, 8), (16, 2**40 + 448, 25088), (8, 1, 1, 1)))[-1:]
    assert "pad" in repair.parts and repair.size.shorter == 1 and repair.size.added < 0
    assert repair.after.global_stride == (16, 16 * 28, 25088)


def test_images_of_im2col_are_cut_and_rows_are_not() -> None:
    corners = {"lower_corner": (0, 0), "upper_corner": (0, 0)}
    common: dict[str, Any] = {"mode": "im2col", **corners, "channels": 64, "pixels": 8}
    (repair,) = found(T("bf16", (64, 8, 8, 2**32 + 2), (128, 1024, 8192), **common))
    assert repair.parts == {"global_dim"} and repair.after.global_dim == (64, 8, 8, 2**31 + 1)
    assert repair.size.copies == 2
    assert not found(T("bf16", (64, 2**33, 8, 2), (128, 0, 0), **common))


def test_a_broadcast_stays_one() -> None:
    (repair,) = found(T("bf16", (60, 4, 64), (0, 120), (64, 1, 8)))
    assert repair.after.global_stride == (0, 128)


def test_rows_too_wide_for_a_swizzle_are_split_before_the_swizzle_is_given_up() -> None:
    tm = T("bf16", (4096, 4096), (8192,), (256, 64), swizzle="128B")
    assert parts(tm) == [{"box"}, {"swizzle"}]
    assert messages(tm) == [
        "split dimension 0 of the box into 4 boxes of 64 elements (now 256)",
        "use no swizzle (now 128B)",
    ]


def test_a_wider_swizzle_comes_before_more_boxes() -> None:
    tm = T("bf16", (4096, 4096), (8192,), (64, 8), swizzle="64B")
    assert messages(tm) == [
        "use swizzle 128B (now 64B), whose span is 128 bytes",
        "split dimension 0 of the box into 2 boxes of 32 elements (now 64)",
    ]


def test_channels_of_pixels_are_merged_rather_than_padded() -> None:
    """Pixels of three bf16 channels take 6 bytes; rows of 64 of them are 384."""
    tm = T("bf16", (3, 64, 64, 8), (6, 384, 24576), (3, 64, 1, 1))
    first = found(tm)[0]
    assert first.parts == {"rank"} and first.after.global_dim == (192, 64, 8) and first.after.box == (192, 1, 1)


def test_a_step_beyond_eight_is_folded() -> None:
    (repair,) = found(T("f32", (64, 1024), (256,), (32, 128), (1, 16)))
    after = repair.after
    assert (after.global_dim, after.global_stride, after.box) == ((64, 64), (4096,), (32, 8))
    assert after.element_stride == (1, 1)


@pytest.mark.parametrize(
    ("tm", "gpu"),
    [
        (T("bf16", (64, 64), (130,), (64, 8)), "a100"),  # no copy engine
        (T("bf16", (0, 64), (128,), (64, 8)), "h200"),  # empty
        (T(99, (64, 64), (128,), (64, 8)), "h200"),  # a type of no known size
        # Six dimensions that are all needed.
        (T("bf16", (64, *(2,) * 5), tuple(256 * 3**i for i in range(5)), (64, *(2,) * 5)), "h200"),
        (
            T("bf16", (64, 8, 8, 2), (128, 1024, 8192), mode="im2col", lower_corner=(0, 0), upper_corner=(200, 0),
              channels=64, pixels=8),
            "h200",
        ),  # which windows there are is the user's
    ],
    ids=["no tma", "empty", "unknown type", "rank", "corner"],
)  # fmt: skip
def test_what_no_map_can_say_has_no_repair(tm: ls.TensorMap, gpu: str) -> None:
    explanation = ls.explain(tm, gpu)
    assert not explanation.legal and explanation.diagnostics and explanation.repairs == ()
    assert map_exhaustive.Search(tm, target(gpu)).run() == {}


def test_legal_maps_have_no_repairs() -> None:
    assert ls.explain(T("bf16", (64, 64), (128,), (64, 8), map_offset=64), "h200").repairs == ()


def snippets(terms: str, count: int, seed: int) -> list[tuple[ls.TensorMap, Repair, str]]:
    """Snippets of one kind, of random requests."""
    pairs = ((r.map, repair) for r in requests(Random(seed)) for repair in ls.explain(r.map, r.target).repairs)
    kind = ((tm, repair, s.text) for tm, repair in pairs for s in repair.snippets if s.terms == terms)
    return list(itertools.islice(kind, count))


def test_the_drivers_call_compiles_and_marks_what_changed(tmp_path: Path) -> None:
    cases = snippets("cuda", 40, 5)
    for tm, repair, source in cases:
        marked = {name for line in source.splitlines() if "  // " in line for name in re.findall(r"\w+", line)}
        changed = [f for f in ("box", "global_dim", "global_stride", "element_stride", "swizzle", "pixels")
                   if getattr(tm, f) != getattr(repair.after, f)]  # fmt: skip
        assert marked >= set(changed), source
        unchanged = len(tm.global_dim) == len(repair.after.global_dim) and tm.box == repair.after.box
        assert not unchanged or not re.search(r" box\[\] = .*  // ", source)
    if shutil.which("g++") is None:
        pytest.skip("g++ is missing")
    triton = pytest.importorskip("triton", reason="its wheel has cuda.h")
    include = Path(triton.__file__).parent / "backends" / "nvidia" / "include"
    bodies = [re.sub(r"#include <\w+(\.h)?>", "", source) for _, _, source in cases]
    spaces = [f"namespace n{i} {{\n{body}\n}}" for i, body in enumerate(bodies)]
    program = tmp_path / "maps.cpp"
    program.write_text("\n".join(["#include <cuda.h>", "#include <cstdint>", *spaces]))
    strict = ("-std=c++17", "-Wall", "-Wextra", "-Wconversion", "-Wno-unused-function", "-Werror", f"-isystem{include}")
    command = ["g++", "-c", *strict, str(program), "-o", str(tmp_path / "o")]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not built.returncode, built.stderr


class Descriptors:
    """Stands for triton.language: keeps what a descriptor is made of."""

    def make_tensor_descriptor(self, pointer: str, **fields: list[int]) -> dict[str, list[int]]:
        assert pointer == "x_ptr"
        return fields


def test_tritons_descriptor_is_the_map() -> None:
    for _, repair, source in snippets("triton", 20, 6):
        made: dict[str, Any] = {"tl": Descriptors(), "x_ptr": "x_ptr"}
        exec(source, made)
        after, size = repair.after, repair.after.map_type.bits // 8
        assert tuple(made["x"]["shape"][::-1]) == after.global_dim
        assert tuple(size * s for s in made["x"]["strides"][-2::-1]) == after.global_stride
        assert tuple(made["x"]["block_shape"][::-1]) == after.box
        assert after.swizzle == f"{after.box[0] * size}B"


def test_cutes_layouts_are_the_box() -> None:
    for _, repair, source in snippets("cute", 20, 7):
        columns, rows = repair.after.box
        assert f"make_shape(Int<{rows}>{{}}, Int<{columns}>{{}})" in source
        assert f"make_shape({repair.after.global_dim[1]}, {repair.after.global_dim[0]})" in source
        swizzle = str(repair.after.swizzle)
        assert ("_Atom" in source) == (swizzle != "none")
        assert swizzle == "none" or f"Layout_K_SW{swizzle[:-1]}_Atom" in source


def test_torch_lays_the_data_out_as_the_map_says() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    run = 0
    for tm, repair, source in snippets("torch", 60, 8):
        bits = tm.map_type.bits
        unit = max(1, bits // 8)
        kind = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[unit]
        inner = ceil_div(tm.global_dim[0] * bits, 8) // unit
        shape = (*tm.global_dim[:0:-1], inner)
        if torch.Size(shape).numel() > SMALL or repair.bytes_added > 2**20:
            continue
        x = torch.arange(torch.Size(shape).numel()).reshape(shape).to(kind)
        made: dict[str, Any] = {"torch": torch, "x": x}
        exec(source, made)
        y, after = made["y"], repair.after
        assert torch.equal(y[..., :inner], x) and not y[..., inner:].any()
        assert y.data_ptr() % 32 == 0
        if after.rank == tm.rank and after.element_stride == tm.element_stride:
            lies = zip(y.stride()[-2::-1], after.global_stride, tm.global_dim[1:], strict=True)
            assert all(unit * ours == theirs for ours, theirs, extent in lies if extent > 1)
        run += 1
    assert run > 10


def test_axes_in_the_wrong_order_are_exchanged_and_no_unit_stride_is_padded() -> None:
    """Strides as torch lists those of x.t(), for a box of 64 x 64: x has rows of 1024 bytes."""
    tm = ls.TensorMap("bf16", (4096, 512), (2,), (64, 64))
    found = ls.explain(tm, "h200")
    assert [d.code for d in found.diagnostics if d.level == "error"] == ["TMA005"]
    assert found.repairs[0].after == ls.TensorMap("bf16", (512, 4096), (1024,), (64, 64))
    for repair in found.repairs:
        assert "pad" not in repair.kind and not [d for d in ls.violations(repair.after, "h200") if d.level == "error"]
    odd = ls.explain(ls.TensorMap("bf16", (4096, 511), (2,), (64, 64)), "h200")
    assert not [repair for repair in odd.repairs if repair.kind in ("pad", "order")], "rows of 1022 bytes are not legal"
