"""Sizes, rows, pieces and branches of reports: what numbers and code that a text gives make likely, and what not."""

from __future__ import annotations

import pytest

import legalsat as ls
from legalsat.pasted.sizes import named_numbers, plain_lists, products, stated_products
from legalsat.pasted.wording import likely


def codes(text: str, target: str = "h200") -> list[str]:
    try:
        found = ls.explain(text, target)
    except ls.InvalidInput:
        return []
    assert not found.legal
    return [one.code for one in found.diagnostics if one.where != likely.WHERE and not one.where.startswith("line ")]


def test_a_text_gives_numbers_names_and_none_to_a_name_with_two() -> None:
    named = named_numbers("batch = 128, steps: 512, seq_len is 4k, rows 1,048,576; N=8 fails and N=16 works; CUDA 12.4")
    assert named == {"batch": 128, "steps": 512, "seq_len": 4096, "rows": 1048576}


def test_products_of_names_are_worked_out_where_every_factor_is_known() -> None:
    text = "grid (1, batch * steps), offset blk * stride, with batch 128, steps 512"
    assert [(one.value, one.written) for one in products(text, named_numbers(text))] == [(65536, "batch * steps")]


def test_products_that_a_text_works_out_itself_are_read_with_separators() -> None:
    (one,) = stated_products("token_idx * num_heads * 128 = 1,048,576 * 32 * 128 = 4,294,967,296 in uint")
    assert one.value == 1 << 32
    assert list(stated_products("a * b = 12 and c = 4,294,967,296")) == []


def test_separators_of_thousands_are_told_from_those_of_lists() -> None:
    assert plain_lists("[1,048,580, 32, 128]") == "[1048580, 32, 128]"
    assert plain_lists("(128,256,512) (64, 128, 256)") == "(128,256,512) (64, 128, 256)"


@pytest.mark.parametrize(
    ("says", "within"),
    [
        ("num_tokens = 524,289 and hidden_size = 4096", "num_tokens = 524,287 and hidden_size = 4096"),
        ("output.shape: [1,048,580, 32, 128]", "output.shape: [1,048, 32, 128]"),
        ("row * stride = 4,294,967,296", "row * stride = 1,294,967,296"),
    ],
)
def test_offsets_beyond_32_bits_are_told_of_accesses_out_of_bounds(says: str, within: str) -> None:
    text = "out-of-bounds access in layernorm_kernels.cu\n"
    assert "TOOL013" in codes(text + says) and "TOOL013" not in codes(text + within)
    assert "TOOL013" not in codes(f"layernorm_kernels.cu takes 4 us\n{says}")


@pytest.mark.parametrize(
    ("says", "within"),
    [
        ("tma_store_cluster(dst, src, static_cast<uint32_t>(508), bar);", "508->512"),
        ("a cp.async.bulk copy of 33 float32 elements", "33->32"),
        ("a bulk copy of 100 bytes", "100->112"),
    ],
)
def test_bytes_of_a_bulk_copy_that_fails_are_a_multiple_of_16(says: str, within: str) -> None:
    old, new = within.split("->")
    assert "BULK002" in codes(f"RuntimeError: the copy fails\n{says}")
    assert "BULK002" not in codes(f"RuntimeError: the copy fails\n{says.replace(old, new)}")
    assert "BULK002" not in codes(f"RuntimeError: the copy fails\n{says}", "a100"), "which has no bulk copies"


def test_extents_that_whole_blocks_of_scales_do_not_fill_are_told() -> None:
    text = "wrong values of the FP8 gemm\nb: torch.Size([1, 2688, {0}])\nScaleGranularityN = 128"
    assert codes(text.format(10304), "b200")[:1] == ["TCGEN010"]
    assert "TCGEN010" not in codes(text.format(10240), "b200")
    works = "block FP8 128x128: Invalid status with N = 576\nN = 512 works"
    assert "TCGEN010" in codes(works, "b200") and "TCGEN010" not in codes(works.replace("576", "640"), "b200")


def test_views_and_rows_that_begin_at_no_multiple_of_16_bytes_are_told_of_misaligned_accesses() -> None:
    text = "CUDA error: misaligned address\nx = torch.randn(1025, device='cuda', dtype=torch.bfloat16)\nf(x[{0}:])"
    assert "VEC002" in codes(text.format(1)) and "VEC002" not in codes(text.format(8))
    rows = "CUDA error: misaligned address in a kernel of bf16, head_size={0}"
    assert "VEC002" in codes(rows.format(46)) and "VEC002" not in codes(rows.format(64))


ELECTED = "the epilogue hangs\nif ({0}) {{\n  tcgen05.ld.sync.aligned.32x32b.x8.b32 {{r0}}, [taddr];\n}}"


@pytest.mark.parametrize("condition", ["tid == 0", "threadIdx.x == 0", "warp == 1 && elect_one_sync()", "lane_id == 3"])
def test_an_instruction_of_a_warp_that_one_thread_executes_is_told(condition: str) -> None:
    assert "TMEM014" in codes(ELECTED.format(condition), "b200")
    assert "TMEM014" not in codes(ELECTED.format(condition))  # no tensor memory


@pytest.mark.parametrize("condition", ["warp_id == 0", "tid < 128", "tid == 0 || warp == 1"])
def test_an_instruction_of_a_warp_that_whole_warps_execute_is_none_of_one_thread(condition: str) -> None:
    assert "TMEM014" not in codes(ELECTED.format(condition), "b200")


def test_a_multiply_that_one_thread_issues_is_as_it_should_be() -> None:
    text = ELECTED.format("tid == 0").replace("tcgen05.ld.sync.aligned.32x32b.x8.b32", "tcgen05.mma.cta_group::1")
    assert "TMEM014" not in codes(text, "b200")


def test_register_budgets_of_warpgroups_are_no_more_than_a_block_has() -> None:
    text = "the launch fails with setmaxnreg {0} in three warpgroups of 128 threads"
    assert "TOOL003" in codes(text.format("232/232/96")) and "TOOL003" not in codes(text.format("232/232/40"))


def test_stages_of_a_threadblock_of_floats_are_counted_by_4_bytes() -> None:
    text = "the GEMM fails to run: float, ThreadblockShape {0} x 64 x 32, 4 stages"
    assert "SMEM001" in codes(text.format(256), "a6000") and "SMEM001" not in codes(text.format(128), "a6000")


def test_a_size_that_16_bytes_do_not_fill_is_why_an_access_is_misaligned() -> None:
    text = "cudaErrorMisalignedAddress in an allreduce\nthe buffer size is {0} a multiple of 16"
    assert "VEC002" in codes(text.format("not")) and "VEC002" not in codes(text.format("always"))
