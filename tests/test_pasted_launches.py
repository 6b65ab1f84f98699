"""C++ in pasted texts: launches with their constants, and the parities of waits in loops."""

from __future__ import annotations

import ast

import pytest

import legalsat as ls
from legalsat.pasted.code.host_code import constants
from legalsat.pasted.code.operators import of_two

FAILED = "\nCUDA error: invalid argument at launch.cu:31\n"


def codes(text: str, target: str = "sm_90a") -> list[str]:
    """Return the codes of what a text breaks; none of one that is not understood."""
    try:
        explanation = ls.explain(text, target)
    except ls.InvalidInput:
        return []
    assert not explanation.legal
    return [found.code for found in explanation.diagnostics]


def message(text: str, code: str) -> str:
    return next(found.message for found in ls.explain(text, "sm_90a").diagnostics if found.code == code)


@pytest.mark.parametrize(
    ("launch", "said"),
    [
        ("dim3 grid(4, M);\nkernel<<<grid, 256>>>(a);", "70000 blocks along y"),
        ("dim3 block(128), grid(M / 2, M);\nkernel<<<grid, block>>>(a);", "70000 blocks along y"),
        ("dim3 grid;\ngrid.x = 4;\ngrid.z = M - 1;\nkernel<float, 4><<<grid, 128>>>(a);", "69999 blocks along z"),
        ("kernel<<<dim3(1, 1, ceil_div(2 * M, 2)), 128>>>(a);", "70000 blocks along z"),
        ("kernel<<<M / 100000, 128>>>(a);", "0 blocks along x"),
        ("kernel<<<1, WARPS * 32>>>(a);", "1152 threads"),
        ("dim3 block = dim3(1, 1, 128);\nkernel<<<1, block>>>(a);", "128 threads along z"),
    ],
)
def test_a_launch_is_followed_with_the_constants_of_its_text(launch: str, said: str) -> None:
    text = f"#define WARPS 36\nconstexpr int M = 70000;\n{launch}{FAILED}"
    assert said in message(text, "TOOL011")


def test_a_launch_that_asks_for_more_memory_than_the_gpu_has_says_how_much() -> None:
    text = "constexpr int STAGES = 5;\nkernel<<<1, 128, STAGES * 48 * 1024, stream>>>(a);" + FAILED
    assert "245760 bytes" in message(text, "SMEM001")
    assert "13312 more than the 232448 of sm_90a" in message(text, "SMEM001")


def test_a_launch_of_more_than_48_kib_is_allowed_first() -> None:
    text = "constexpr int STAGES = 3;\nkernel<<<1, 128, STAGES * 32 * 1024, stream>>>(a);"
    assert "98304 bytes" in message(text + FAILED, "SMEM001")
    allows = "cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);\n"
    assert "SMEM001" not in codes(allows + text + FAILED)
    assert "SMEM001" not in codes(text)  # nothing says that it failed: the rest may stand elsewhere


@pytest.mark.parametrize(
    "launch",
    [
        "dim3 grid(4, N);\nkernel<<<grid, 256>>>(a);",  # nobody knows N
        "kernel<<<4, 256, bytes>>>(a);",
        "dim3 grid(65535, 65535);\nkernel<<<grid, 1024, 49152>>>(a);",
        "dim3 grid(M * 30000);\nkernel<<<grid, dim3(32, 32)>>>(a);",
        "a <<<< b; c >>> d;",
    ],
)
def test_launches_that_are_legal_or_not_known_are_no_cause(launch: str) -> None:
    assert not {"TOOL011", "SMEM001"} & set(codes(f"constexpr int M = 70000;\n{launch}{FAILED}"))


@pytest.mark.parametrize(
    ("code", "given"),
    [
        ("constexpr int M = 128, N = 2 * M;", {"M": 128, "N": 256}),
        ("static constexpr uint32_t kStages{4};", {"kStages": 4}),
        ("#define BM 64\n#define BYTES (BM * 128 * 2)", {"BM": 64, "BYTES": 16384}),
        ("enum { kM = 64, kN = kM * 2 };", {"kM": 64, "kN": 128}),
        ("template <int BM, int BN = 32>\nvoid launch() {}\nlaunch<128>();", {"BM": 128, "BN": 32}),
        ("template <int BM, int BN = 32>\n__global__ void f(int* a) {}\nf<64, 16><<<1, 1>>>(a);", {"BM": 64, "BN": 16}),
        ("template <int BM>\nvoid launch() {}\nlaunch<128>(); launch<64>();", {}),
        ("constexpr int M = 1;\nconstexpr int M = 2;", {}),
        ("int n = 4;\nn += 2;\nfor (int k = 0; k < 3; ++k) {}\nint m = 1;\nm = 2;\nint l = 3;", {"l": 3}),
    ],
)
def test_constants_of_a_text(code: str, given: dict[str, int]) -> None:
    assert constants(code) == given


HANGS = "\nThe kernel hangs after a few rounds; sometimes the output is wrong.\n"


@pytest.mark.parametrize(
    "waits",
    [
        "for (int s = 0; s < 4; ++s) {\n  bar[s].wait(s & 1);\n}",
        "for s in range(4):\n    bar[s].wait(s % 2)",
        "for (int k = 0; k < n; ++k) {\n  mbarrier_wait(&full_bar[k % STAGES], k & 1);\n}",
        "for (int k = 0; k < n; ++k) {\n  mbarrier_wait(full[k % 4], (k / 3) & 1);\n}",
    ],
)
def test_a_parity_that_is_not_its_barriers_phase_is_named(waits: str) -> None:
    text = f"constexpr int STAGES = 4;\n{waits}{HANGS}"
    assert "PIPE007" in codes(text)
    assert "the rounds agree with no order" in message(text, "PIPE007")


@pytest.mark.parametrize(
    "waits",
    [
        "for (int k = 0; k < n; ++k) {\n  mbarrier_wait(&full_bar[k % STAGES], (k / STAGES) & 1);\n}",
        "for (int k = 0; k < n; ++k) {\n  mbarrier_wait(&empty_bar[k % STAGES], ((k / STAGES) & 1) ^ 1);\n}",
        "for (int k = 0; k < n; ++k) {\n  mbarrier_wait(&full_bar[k % kStages], (k / kStages) & 1);\n}",
        "full[stage].wait(phase);",
        "full[stage].wait(stage & 1);",
        "full[k % 4].wait((mask >> (k % 4)) & 1);",
        "full[k % 1].wait(k & 1);",
        "full[k].wait(0);",
    ],
)
def test_right_parities_and_unknown_ones_are_no_cause(waits: str) -> None:
    found = codes(f"constexpr int STAGES = 4;\n{waits}\nThe output is wrong, error 700 of cudaDeviceSynchronize.\n")
    assert "PIPE007" not in found


def test_no_parity_is_named_where_nothing_failed() -> None:
    assert "PIPE007" not in codes("for (int s = 0; s < 4; ++s) bar[s].wait(s & 1);\n")


def test_bits_of_numbers() -> None:
    assert [of_two(6, op, 3) for op in (ast.BitAnd(), ast.BitOr(), ast.BitXor())] == [2, 7, 5]
