"""Dumps of maps in any spelling, parts of dumps, and tensors of which something is not printed."""

from __future__ import annotations

import math
import random
import re
import time
from contextlib import suppress
from dataclasses import replace
from typing import Literal

import pytest
from printed_maps import by_cutlass, by_triton

import legalsat as ls
from legalsat.pasted.maps import printed_maps
from legalsat.pasted.tensors import printed_tensors

MAP = ls.TensorMap("bf16", (64, 96), (128,), (64, 8), swizzle="128B", address=0x7000)


def codes(text: str, target: str = "h200") -> list[str]:
    return [d.code for d in ls.explain(text, target).diagnostics]


# One map, as programs may print it.
SPELLINGS = [
    "dtype: bf16\nsize: [64, 96]\nstrides: [1, 64]\nbox_size: [64, 8]\nswizzle: 128B\naddress: 0x7000",
    "dtype=torch.bfloat16 global_shape=(64,96) global_strides_bytes=(128,) box_dims=(64,8) swizzle=3 "
    "global_address=0x7000",
    "data_type: CU_TENSOR_MAP_DATA_TYPE_BFLOAT16\nglobal_dim: {64, 96}\nglobal_stride: {2, 128}\nbox_dim: {64, 8}\n"
    "swizzle_mode: CU_TENSOR_MAP_SWIZZLE_128B\ngmem_address: 28672",
    "shape: torch.Size([96, 64])\nstride: (64, 1)\nelement_type: bfloat16\nsmem_box_shape: [8, 64]\n"
    "swizzle: SWIZZLE_128B\nbase_ptr = 0x7000",
    "gmem_prob_shape[0] = 64\ngmem_prob_shape[1] = 96\ngmem_prob_stride = (1, 64)\nsmem_box_shape[0] = 64\n"
    "smem_box_shape[1] = 8\nformat: 9\nswizzle: 3\ngmem_address: 0x7000",
]


@pytest.mark.parametrize("text", SPELLINGS)
def test_a_map_is_read_whatever_its_labels_are_called(text: str) -> None:
    (printed,) = printed_maps(text)
    assert MAP in printed.readings and printed.missing == ()
    logged = "".join(f"[rank0]: {line}\n" for line in text.splitlines())
    assert printed_maps(logged)[0].readings == printed.readings


def test_a_line_of_deepgemm_is_read() -> None:
    text = (
        "Making TMA desc: global memory: {} 4096, shared memory: 128 64, outer stride: {}, swizzle: 128 (base: 0), "
        "elem size: 1"
    )
    assert codes(text.format(7168, 7168)) == []
    found = ls.explain(text.format(7170, 7170), "h200")
    assert [d.code for d in found.diagnostics] == ["TMA005"]
    assert ls.explain(text.format(7168, 7168), "h200").verdict == "undecided", "no address is printed"


def test_part_of_a_dump_is_judged_by_what_is_there_and_never_legal() -> None:
    whole = by_cutlass(replace(MAP, global_stride=(130,)), 1)
    for dropped, left in (("boxDim", ["TMA005"]), ("format", ["TMA005"]), ("globalStrides", ["CUDA001"])):
        text = "".join(line for line in whole.splitlines(keepends=True) if not line.startswith(dropped))
        found = ls.explain(text, "h200")
        assert [d.code for d in found.diagnostics] == left, dropped
        assert found.verdict == "refused"
    text = "globalDim (64,96,1,1,1)\nboxDim (64,8,1,1,1)\n"
    found = ls.explain(text, "h200")
    assert (found.verdict, found.legal, found.diagnostics) == ("undecided", False, ())
    assert "the strides" in found.undecided and "the box" not in found.undecided
    assert codes(text.replace("(64,8", "(64,512")) == ["TMA003"]
    assert codes(text.replace("(64,96", "(64,0")) == ["TMA002"]


def test_every_field_left_out_of_a_random_dump_leaves_only_certain_findings() -> None:
    """What is found in part of a map's fields is found in all of them, and a part alone is never legal."""
    draw = random.Random(20261122)
    for _ in range(150):
        rank = draw.randint(1, 4)
        tm = ls.TensorMap(
            draw.choice(["u8", "bf16", "f32"]),
            tuple(draw.choice([0, 1, 64, 100, 4096]) for _ in range(rank)),
            tuple(draw.choice([16, 130, 4096, 2**40]) for _ in range(rank - 1)),
            tuple(draw.choice([1, 8, 64, 300]) for _ in range(rank)),
            swizzle=draw.choice(["none", "64B", "128B"]),
            address=draw.choice([0x7000, 0x7008]),
        )
        every = {d.code for d in ls.violations(tm, "h200")}
        lines = by_cutlass(tm, 0).rsplit("Error", 1)[0].splitlines(keepends=True)
        for left_out in draw.sample(lines, 4):
            text = "".join(line for line in lines if line != left_out and not line.startswith("TMA"))
            if "globalDim" not in text and "boxDim" not in text:
                continue
            found = ls.explain(text, "h200")
            errors = {d.code for d in found.diagnostics if d.level == "error"}
            assert errors <= every, (text, errors, every)
            if re.match("format|gmem|globalDim|globalStrides|boxDim|swizzle", left_out) and not (
                rank == 1 and left_out.startswith("globalStrides")
            ):
                assert not found.legal, text


def test_the_names_of_enums_are_read_as_their_numbers() -> None:
    text = by_triton(MAP, 1).replace("elemType=9", "elemType=CU_TENSOR_MAP_DATA_TYPE_BFLOAT16")
    assert printed_maps(text)[0].tensor_map == printed_maps(by_triton(MAP, 1))[0].tensor_map


# Tensors


def test_a_tensor_without_a_type_is_judged_by_what_every_type_breaks() -> None:
    found = ls.explain("x.shape = torch.Size([4096, 4095]), x.stride() = (4095, 1)", "h200")
    assert [d.code for d in found.diagnostics] == ["TMA005"] and not found.legal
    with pytest.raises(ls.InvalidInput, match="nothing in the text is understood"):
        ls.explain("shape=(4096, 4094) stride=(4094, 1)", "h200")  # 8-byte elements keep 16 bytes


def test_a_tensor_without_strides_is_dense_where_the_text_complains_of_them() -> None:
    text = "AssertionError: strides must be 16-byte aligned\nx: torch.Size([4096, 4095]) torch.bfloat16"
    found = ls.explain(text, "h200")
    assert [d.code for d in found.diagnostics] == ["TMA005"]
    assert any("4095" in d.message or "8190" in d.message for d in found.diagnostics)
    assert not ls.explain(text.replace("4095", "4096"), "h200").legal


def test_of_several_tensors_the_one_that_is_refused_is_told() -> None:
    text = (
        "a: shape=(4096, 4096), stride=(4096, 1), dtype=torch.bfloat16\n"
        "b: shape=(4096, 4095), stride=(4095, 1), dtype=torch.bfloat16\n"
    )
    assert len(list(printed_tensors(text))) == 2
    assert codes(text) == ["TMA005"] and "4095" in ls.explain(text, "h200").subject


def test_a_legal_tensor_beside_a_failure_is_not_called_legal() -> None:
    text = "x: shape=(4096, 4096), stride=(4096, 1), dtype=torch.bfloat16\n"
    assert ls.explain(text, "h200").legal
    found = ls.explain(text + "CUDA error: an illegal instruction was encountered", "h200")
    assert (found.legal, [d.code for d in found.diagnostics]) == (False, ["CUDA715"])


@pytest.mark.parametrize(
    "piece",
    [
        "\n", " \n", "invalid argument ", "box_dim: [\n", "torch.Size([1, 2]) ", "0x", "1 ", "error code: 1\n",
        "global_dim=[1, 2] box_dim=[3, 4] ", "globalDim (1,2)\nboxDim (1,2)\n", "(", "\x1b[", "stride must be 16 tma ",
        "size_k is not divisible by ", "tma_load(&A[1], ", "((uint4*)(x + ", "tensor<ptr<i8, smem, align<",
        "misaligned address [1, 2] must be >= 16 ",
        "wgmma.mma_async instructions are serialized due to x\n", "size: [4, 4] ", "(((shape=(1,",
    ],
)  # fmt: skip
def test_reading_takes_time_in_proportion_to_the_text(piece: str) -> None:
    def seconds(length: int) -> float:
        text = piece * (length // len(piece))
        started = time.process_time()
        with suppress(ls.LegalSatError):
            ls.explain(text, "h200")
        return time.process_time() - started

    seconds(1000)
    short, long = seconds(100_000), seconds(400_000)
    assert long < 10 * short + 0.5


@pytest.mark.parametrize(
    ("text", "code", "says", "not_said"),
    [
        ("tile_k // scale_block must be one of [2, 4, 8]", "TOOL010", "tile_k // scale_block", "scales"),
        ("rows = 3000 exceeds the maximum blocksize = 4096 of the kernel", "TOOL010", "which meets it", "hang"),
        ("rows = 5000 exceeds the maximum blocksize = 4096 of the kernel", "TOOL010", "given 5000", "meets"),
        ("RuntimeError: CUDA: Error- invalid value", "CUDA001", "out of range", "no rule of the hardware"),
        ("RuntimeError: CUDA: Error- illegal address", "CUDA700", "invalid address", "no rule of the hardware"),
    ],
)
def test_a_condition_is_told_as_it_stands(text: str, code: str, says: str, not_said: str) -> None:
    """No rule of an expression for its parts; that a number meets what is asked, where it does; results by words."""
    (found, *_) = ls.explain(text, "h200").diagnostics
    assert found.code == code and says in found.message and not_said not in found.message


def test_no_dump_of_an_illegal_map_is_legal_however_its_lists_run() -> None:
    draw = random.Random(20261129)
    seen = set()
    for _ in range(400):
        rank, kind = draw.choice((1, 2, 2, 3)), draw.choice(("u8", "bf16", "f32"))
        extents = [draw.choice((1, 8, 16, 100, 104, 128, 4096)) for _ in range(rank)]
        box = [draw.choice((1, 8, 16, 64, 256, 300)) for _ in range(rank)]
        strides = [extents[0] * {"u8": 1, "bf16": 2, "f32": 4}[kind] + draw.choice((0, 0, 8, 16))]
        strides = [strides[0] * math.prod(extents[1:at]) for at in range(1, rank)]
        address = draw.choice((0x7000, 0x7000, 0x7008))
        swizzle: Literal["none", "32B", "64B", "128B"] = draw.choice(("none", "32B", "64B", "128B"))
        of = ls.TensorMap(kind, tuple(extents), tuple(strides), tuple(box), swizzle=swizzle, address=address)
        illegal = any(one.level == "error" for one in ls.explain(of, "h200").diagnostics)
        turn = draw.choice((1, -1))
        said, stepped, boxed = (",".join(map(str, one[::turn])) for one in (extents, strides, box))
        text = f"dims: ({said}) box: ({boxed}) swizzle={swizzle} dtype={kind} "
        text += f"strides: ({stepped}) gaddr={address:#x}" if strides else f"gaddr={address:#x}"
        found = ls.explain(text, "h200")
        seen.add((found.verdict, illegal))
        assert (found.verdict, illegal) not in (("legal", True), ("refused", False)), text
    assert {("legal", False), ("refused", True), ("undecided", False), ("undecided", True)} <= seen
