"""What a report has beside its text: it never makes an answer less, and its code and sizes are judged with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import legalsat as ls
from legalsat.pasted.wording.likely import WHERE as LIKELY

DATA = Path(__file__).parent / "data"
FILES = ("gathered", "with_code", "unseen", "developed", "held", "fresh")
RESULTS = {"CUDA001", "CUDA700", "CUDA715", "CUDA716", "CUDA719"}
# What the rest of these reports says is not enough to tell the cause: the numbers are of another kernel, or of nobody.
GENERIC = {"arrus-359", "dace-1266", "mlx-2267", "mlxcel-648", "mobilevlm-40", "vllm-45251"}


def reports(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / f"reported_{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def codes(text: str, target: str, *, likely: bool = True, **options: Any) -> list[str] | None:
    """Return the codes that explain a text, `likely` ones too; None where nothing in it is understood."""
    try:
        return [one.code for one in ls.explain(text, target, **options).diagnostics if one.where != LIKELY or likely]
    except ls.InvalidInput:
        return None


@pytest.mark.parametrize("name", FILES)
def test_what_is_beside_a_text_takes_nothing_from_its_answer(name: str) -> None:
    for report in reports(name):
        # What is likely is ranked by the words of the whole report.
        alone = codes(report["text"], report["target"], likely=False)
        beside = alone
        if report["had"]:
            beside = codes(report["text"], report["target"], beside=report["had"], likely=False)
        if alone is not None:
            # A program's own limit gives way to the operand that breaks a rule of the hardware.
            assert beside is not None and set(beside) >= set(alone) - {"TOOL010"}, report["id"]


def test_the_cause_of_the_gathered_reports_comes_first_or_second() -> None:
    gathered = reports("gathered")
    missed = set()
    for report in gathered:
        found = codes(report["text"], report["target"], beside=report["had"]) or []
        if not report["codes"] or set(found[:2]).isdisjoint(report["codes"]):
            missed.add(report["id"])
    assert missed == GENERIC
    first = [sum(one["score_with"] == "right" for one in gathered if one["batch"] == batch) for batch in range(1, 6)]
    assert first == [5, 5, 1, 4, 3], "docs/pasted.md tells these"


def test_no_report_is_called_legal() -> None:
    for report in reports("gathered"):
        for options in ({}, {"beside": report["had"]}):
            try:
                found = ls.explain(report["text"], report["target"], **options)
            except ls.InvalidInput:
                continue
            assert not found.legal, report["id"]


KERNEL = """
import torch, triton
@triton.jit
def kernel(x, n, BLOCK: tl.constexpr):
    pass
x = torch.empty({m}, {n})
kernel[{grid}](x, {n}, BLOCK={block})
"""
FAILED = "RuntimeError: Triton Error [CUDA]: invalid argument"


def test_grids_are_counted_as_a_launch_counts_them() -> None:
    """Against the limits of the CUDA C++ Programming Guide, 2147483647 x 65535 x 65535, over random shapes."""
    random = np.random.default_rng(7)
    grids = (
        ("(triton.cdiv({m}, {block}), triton.cdiv({n}, {block}))", lambda m, n, b: (-(-m // b), -(-n // b), 1)),
        ("lambda meta: (1, triton.cdiv({m}, meta['BLOCK']), {n})", lambda m, n, b: (1, -(-m // b), n)),
        ("({m}, x.shape[1] // {block})", lambda m, n, b: (m, n // b, 1)),
        ("({m} * {n},)", lambda m, n, b: (m * n, 1, 1)),
    )
    refused = 0
    for _ in range(120):
        m, n, block = (
            int(2 ** random.uniform(10, 20)),
            int(2 ** random.uniform(14, 20)),
            int(2 ** random.integers(0, 5)),
        )
        text, blocks = grids[random.integers(len(grids))]
        values = {"m": m, "n": n, "block": block}
        code = KERNEL.format(grid=text.format(**values), **values)
        found = ls.explain(FAILED, "h200", beside=code).diagnostics
        x, y, z = blocks(m, n, block)
        large = [axis for axis in (y, z) if axis > 65535] or ([x] if x > 2**31 - 1 else [])
        told = [one for one in found if one.code == "TOOL011" and one.level == "error"]
        assert bool(told) == bool(large), code
        assert all(str(large[0]) in one.message for one in told[:1])
        refused += bool(large)
    assert 20 < refused < 100


@pytest.mark.parametrize(
    ("said", "rest", "code", "words"),
    [
        # The largest size that works and the least that fails lie on both sides of a limit.
        ("invalid configuration argument", "N=65530 works\nN=65540 fails", "TOOL011", "65535"),
        ("CUDA error: invalid argument", "with 1000 points it is fine; with 1100 points it crashes", "TOOL011", "1024"),
        (FAILED, "x = torch.randn([40960, 2, 20])\nbatch 1024 or 256 runs fine, but 40960 fails", "TOOL011", "81920"),
        (FAILED, "x = torch.randn([703, 2, 20])\nbatch 700 or 256 runs fine, but 703 fails", None, ""),
        ("invalid configuration argument", "it happens when the number of boxes is 0", "TOOL011", "no blocks"),
        # Offsets of 2^31 elements, by shape, by the point where it begins to fail, by a stride and an index.
        ("an illegal memory access was encountered", "x = torch.empty(70000, 40000)", "TOOL013", "2800000000"),
        ("an illegal memory access was encountered", "x = torch.empty(70000, 30000)", None, ""),
        ("an illegal memory access was encountered", "tensors of (32768, 65536) are fine", None, ""),
        ("an illegal memory access was encountered", "seq >= 512K at 32 heads x 128", "TOOL013", "2147483648"),
        ("the result is wrong", "the stride is 16777216 and the index is up to 255", "TOOL013", "4278190080"),
        # Sizes of products that failed.
        ("Error Misaligned Operand", "./gemm --m=128 --n=300 --k=64 half", "VEC002", "n of 300"),
        ("CUDA error: misaligned address", "int4b_t, (1, 48) fails\n(1, 64) runs fine", "VEC002", "48"),
        ("CUDA error: misaligned address", "the workaround is to call .contiguous() first", "VEC002", "a copy"),
        ("misaligned address", "replacing the float4 load by two float2 loads solves it", "VEC002", "narrower"),
        ("tensor cores are not used", "channels are 333 in fp16", "VEC002", "333"),
        # Shared memory that code asks for by name.
        (
            "invalid argument, CUDA error",
            "constexpr int stages = 6;\nint bytes = stages * 2 * 128 * 128;\n"
            "cudaFuncSetAttribute(f, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);",
            "SMEM001",
            "196608",
        ),
        # Barriers of a block in branches.
        (
            "the kernel hangs",
            "if (threadIdx.x < 32) {\n  load();\n  __syncthreads();\n}",
            "PIPE018",
            "only some take",
        ),
        ("the kernel hangs", "if (threadIdx.x < 32) {\n  load();\n}\n__syncthreads();", None, ""),
        (
            "the kernel hangs",
            "if (tid >= n) return;\nsum(x);\n__syncthreads();",
            "PIPE018",
            "some return before it",
        ),
        ("the kernel hangs", "if (threadIdx.x >= n) return;\nsum(x);\n__syncwarp();", None, ""),
        ("too large launch parameter: Pool[70000,2], [256,1]", "it fails", "TOOL011", "70000"),
        ("cudaLaunchKernel: invalid argument", "batch_size=90000", "TOOL011", "90000"),
        ("cuTensorMapEncodeTiled: invalid argument", "batch_size=90000", None, ""),
        ("the kernel hangs", "if (n > 0) {\n  __syncthreads();\n}", None, ""),
        ("cudaErrorInvalidConfiguration", "it makes blocks of 33x32 = 1056 threads", "TOOL011", "1056"),
        ("launch failed", "SIDE = 48 and a block has SIDE * SIDE threads, more than it takes", "TOOL011", "2304"),
        ("the tile is wrong: columns stay unwritten", "gemm with M=16, N=104, threads=384", "TOOL007", "12 warps"),
        ("the tile is wrong: columns stay unwritten", "gemm with M=16, N=96, threads=384", None, ""),
    ],
)  # fmt: skip
def test_the_rest_of_a_report_names_its_cause(said: str, rest: str, code: str | None, words: str) -> None:
    try:
        found = ls.explain(said, "a100", beside=rest).diagnostics
    except ls.InvalidInput:
        found = ()
    first = next((one for one in found[:2] if one.code not in RESULTS | {"TOOL008", "PIPE007"}), None)
    if code is None:
        guessed = first is not None and first.where == LIKELY  # which claims nothing
        assert first is None or guessed or first.code not in {"TOOL011", "TOOL013", "PIPE018", "TOOL007"}, first
    else:
        assert first is not None and first.code == code and words in first.message, found


@pytest.mark.parametrize(
    ("call", "number", "what"),  # by the order of arguments in the headers of cuBLAS
    [
        ("SGEMM", 8, "leading dimension of A"),
        ("DGEMM", 10, "leading dimension of B"),
        ("GEMM_EX", 9, "leading dimension of A"),
        ("GEMM_EX", 16, "leading dimension of C"),
        ("SGEMM_STRIDED_BATCHED", 15, "leading dimension of C"),
        ("HGEMM", 3, "extent m"),
    ],
)
def test_cublas_names_an_argument_by_its_number(call: str, number: int, what: str) -> None:
    (found,) = ls.explain(f" ** On entry to {call}  parameter number {number} had an illegal value", "h200").diagnostics
    assert found.code == "TOOL010" and what in found.message


def test_a_programs_own_limit_is_that_of_the_program_that_speaks() -> None:
    (own,) = ls.explain("AssertionError: Paged KV cache block size must be divisible by 256", "h200").diagnostics
    assert own.code == "TOOL010" and "CUTLASS" not in own.note
    (cutlass,) = ls.explain("Got cutlass error: Error Misaligned Operand at: 261", "a100").diagnostics
    assert cutlass.code == "TOOL010" and "CUTLASS" in cutlass.note


def test_a_chip_without_a_table_is_explained_with_what_is_beside() -> None:
    for beside in ("M, N, K = 5, 6, 7", ls.Tensor((64, 64), "fp16")):
        found = ls.explain("CUDA error: misaligned address", "rtx2080ti", beside=beside)
        assert "CUDA716" in {one.code for one in found.diagnostics} and not found.legal
    with pytest.raises(ls.UnknownTarget):
        ls.explain("CUDA error: misaligned address", "rtx12345", beside="x")


def test_what_only_the_rest_says_is_a_warning() -> None:
    found = ls.explain(
        "CUDA error: misaligned address", "h200", beside="The shared memory must be 128-byte aligned for TMA"
    )
    assert [one.level for one in found.diagnostics] == ["warning", "error"]


@pytest.mark.parametrize(
    "rest",
    [
        "the exit status was 0 and the device is 0",
        "it works with CUDA 12 and fails with CUDA 11",
        "step 3: loss 128, tokens 4096, lr 2, grad 65536, seed 8, rank 4096, took 128 ms",
        "x = torch.randn(4096, 4096)\ny = torch.randn(64, 4096)",
    ],
)
@pytest.mark.parametrize("said", ["invalid argument, CUDA error", "an illegal memory access was encountered"])
def test_numbers_that_tell_nothing_of_a_failure_add_nothing(said: str, rest: str) -> None:
    alone, beside = ls.explain(said, "h200"), ls.explain(said, "h200", beside=rest)
    judged = [one.code for one in beside.diagnostics if one.where != LIKELY]
    assert judged == [one.code for one in alone.diagnostics]
