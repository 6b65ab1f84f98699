"""Texts that give a part of what failed: a box alone, a shape without strides, a product that is rounded up."""

from __future__ import annotations

import pytest

import legalsat as ls
from legalsat.pasted.maps import lone_boxes
from legalsat.pasted.sizes import named_numbers, rounded_products


def told(text: str, target: str = "h100", *bases: str) -> list[str]:
    try:
        found = ls.explain(text, target).diagnostics
        return [one.code for one in found if not bases or one.basis in bases]
    except ls.InvalidInput:
        return []


@pytest.mark.parametrize("of", ["box shape: ({})", "window_shape=[{}]", "box = {{{}}}", "smem_box_size: [{}]"])
def test_a_box_alone_is_judged_by_what_every_box_must_keep(of: str) -> None:
    says = "cuTensorMapEncodeTiled failed: CUDA_ERROR_INVALID_VALUE\n"
    assert told(says + of.format("300, 64"))[0] == "TMA003"
    assert "TMA003" not in told(says + of.format("256, 64"), "h100", "known")


def test_a_box_alone_is_never_called_legal() -> None:
    for text in ("box shape: (64, 64) bf16", "the copy fails, window_shape=[64, 64] of float16"):
        try:
            assert not ls.explain(text, "h100").legal
        except ls.InvalidInput:
            continue


def test_a_box_with_other_fields_is_no_lone_one() -> None:
    assert lone_boxes("box dim: [64, 64]")
    assert not lone_boxes("dtype: float16\nglobal dim: [128, 128]\nglobal strides: [256]\nbox dim: [64, 64]")
    assert not lone_boxes("box dim: small")


def test_labels_say_whose_field_they_are_and_addresses_may_be_signed() -> None:
    text = (
        "cuTensorMapEncodeTiled returned CUDA_ERROR_INVALID_VALUE\ntma_type=float16 tma_address={} tma_sizes=4096,4096 "
        "tma_strides={} tma_box=64,64 tma_swizzle=128B"
    )
    assert told(text.format(1 << 40, 8190))[0] == "TMA005"
    assert told(text.format(-4096 + 8, 8192))[0] == "TMA004"
    assert not {"TMA004", "TMA005"} & set(told(text.format(-4096, 8192)))


def test_a_shape_without_strides_is_judged_where_a_map_fails() -> None:
    shape = "x: torch.bfloat16, shape (4096, {})"
    assert "TMA005" in told(f"creating the TMA descriptor fails with an error\n{shape.format(1001)}")
    assert "TMA005" not in told(f"creating the TMA descriptor fails with an error\n{shape.format(1000)}")
    assert "TMA005" not in told(shape.format(1001))
    assert "TMA005" not in told(f"the job fails with an error\n{shape.format(1001)}")


def test_an_empty_tensor_is_named_where_a_map_fails() -> None:
    shape = "x: torch.bfloat16, shape ({}, 1024)"
    assert "TMA002" in told(f"creating the TMA descriptor fails with an error\n{shape.format(0)}")
    assert "TMA002" not in told(f"creating the TMA descriptor fails with an error\n{shape.format(16)}")


@pytest.mark.parametrize(
    ("call", "result"),
    [
        ("ceil(n / 128)", 40),
        ("ceil_div(n, 128)", 40),
        ("cute::ceil_div(n, 128)", 40),
        ("triton.cdiv(n, 128)", 40),
        ("floor(n / 128)", 39),
        ("align_up(n, 128)", 5120),
        ("round_up(n, 128)", 5120),
        ("next_multiple_of(n, 128)", 5120),
    ],
)
def test_factors_that_are_rounded_are_worked_out(call: str, result: int) -> None:
    text = f"n = 5000, heads = 96\nsize = heads * {call} * 1000000"
    (product,) = rounded_products(text, named_numbers(text))
    assert product.value == 96 * result * 1000000
    assert call in product.written
    assert not list(rounded_products(f"heads * {call}", {"heads": 96}))  # nobody knows n
    assert not list(rounded_products("heads * ceil_div(n, 0)", {"heads": 96, "n": 5}))


@pytest.mark.parametrize(
    ("text", "code", "target"),
    [
        ("Shape Divisibility Condition in cute::logical_divide of the tile", "WGMMA004", "h100"),
        ("error: static assertion failed with 'Static shape_div failure' in cute layout", "WGMMA004", "h100"),
        ("ptxas crashes on the tcgen05 kernel with a segmentation fault", "TOOL014", "b200"),
        ("the results are wrong: the kernel exits without waiting for its bulk stores", "PIPE014", "h100"),
        ("tensor memory exhausted: the TMEM allocation of the kernel fails", "TMEM002", "b200"),
        ("CUDA error: IllegalInstruction in the wgmma kernel", "CUDA715", "h100"),
    ],
)
def test_lines_that_name_a_cause(text: str, code: str, target: str) -> None:
    assert code in told(text, target)[:2]


@pytest.mark.parametrize(
    "check", ["DG_DEVICE_ASSERT((values[j] & 0x807fffffu) == 0)", "AssertionError: assert tiles_ok in the TMA kernel"]
)
def test_a_programs_own_check_does_not_hide_what_the_rest_names(check: str) -> None:
    rest = "the scales' buffer comes from torch.empty_strided with more rows than the GPU kernel writes"
    assert "TOOL016" in told(f"{check}\n\n{rest}", "b200")[:2]
    assert "TOOL016" not in told(check, "b200")


def test_a_type_that_follows_a_shape_is_the_tensors() -> None:
    for text in ("torch.Size([4096, 4095]) bfloat16 stride=(4095, 1)", "shape (4096, 4095), bf16, strides (4095, 1)"):
        (only,) = ls.explain(text, "h100").diagnostics
        assert only.code == "TMA005" and f"{2 * 4095} bytes" in only.message


def test_bytes_of_a_tensor_whose_type_is_not_known_are_said_to_be_of_one_type() -> None:
    (only,) = ls.explain("shape (4096, 4095), strides (4095, 1)", "h100").diagnostics
    assert only.code == "TMA005" and "whatever its type, as here of u8" in only.message
