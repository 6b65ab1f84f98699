"""Code of kernels in pasted texts: launches, the parities of waits, layouts of CuTe, and pipelined tiles."""

from __future__ import annotations

import ast

import pytest

import legalsat as ls
from legalsat.pasted.code.host_code import constants
from legalsat.pasted.code.operators import of_two
from legalsat.pasted.wording.likely import WHERE as LIKELY

FAILED = "\nCUDA error: invalid argument at launch.cu:31\n"


def codes(text: str, target: str = "sm_90a") -> list[str]:
    """Return the codes of what a text breaks; none of one that is not understood, and nothing that is only likely."""
    try:
        explanation = ls.explain(text, target)
    except ls.InvalidInput:
        return []
    assert not explanation.legal
    return [found.code for found in explanation.diagnostics if found.where != LIKELY]


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
        ("kernel<float> <<<(1,70000,1),(256,1,1)>>> as a debugger prints it", "70000 blocks along y"),
        ("<<<dim3(1, 70000, 1), dim3(256, 1, 1), 4096>>>", "70000 blocks along y"),
        ("dim3 block = dim3(1, 1, 128);\nkernel<<<1, block>>>(a);", "128 threads along z"),
    ],
)
def test_a_launch_is_followed_with_the_constants_of_its_text(launch: str, said: str) -> None:
    text = f"#define WARPS 36\nconstexpr int M = 70000;\n{launch}{FAILED}"
    assert said in message(text, "TOOL011")


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ("grid (0, 1, 1), block (256, 1, 1)", "0 blocks or threads"),
        ("gridDim=(8, 0), blockDim=(32, 4)", "0 blocks or threads"),
        ("gridDim=(8, 1, 1) blockDim=(64, 0, 1)", "0 blocks or threads"),
        ("grid = [8, 65536, 1]", "65536 blocks"),
        ("gridDim=(8, 1, 65537), blockDim=(32, 1, 1)", "65537 blocks"),
        ("gridDim=(8, 1, 1), blockDim=(64, 17, 1)", "1088 threads"),
    ],
)
def test_a_refused_configuration_is_judged_by_the_grid_and_the_block_that_a_text_prints(sizes: str, said: str) -> None:
    for failure in ("CUDA error: invalid configuration argument", "kernel launch failed with cudaError 9"):
        text = f"{failure}\n{sizes}\n"
        assert said in message(text, "TOOL011")
        assert codes(text).count("TOOL011") == 1


@pytest.mark.parametrize(
    "sizes", ["grid (65536, 1, 1), block (1024, 1, 1)", "gridDim=(1, 65535, 65535), blockDim=(32, 32, 1)"]
)
def test_a_refused_configuration_whose_numbers_are_in_range_is_told_without_them(sizes: str) -> None:
    text = f"CUDA error: invalid configuration argument\n{sizes}\n"
    assert "outside the limits" in message(text, "TOOL011")


def test_where_a_kernel_failed_is_no_empty_launch() -> None:
    text = "CUDA error: an illegal memory access was encountered\ngrid (0, 0, 0), block (0, 0, 0)\n"
    assert "TOOL011" not in codes(text)
    assert codes("the batch job ended with error code 9, blockDim (0, 0)") == []


@pytest.mark.parametrize(("blocks", "threads", "most"), [(265, 1024, 264), (529, 512, 528), (4225, 32, 4224)])
def test_a_cooperative_grid_is_compared_with_what_the_sms_hold(blocks: int, threads: int, most: int) -> None:
    said = "cudaErrorCooperativeLaunchTooLarge: a cooperative kernel of {} blocks of {} threads"
    assert most == 132 * min(2048 // threads, 32)  # the SMs of an H200, and CUDA's table of what each holds
    for count, numbers in ((blocks, True), (most, False)):
        (found,) = [one for one in ls.explain(said.format(count, threads), "h200").diagnostics if one.where != LIKELY]
        assert found.code == "CUDA720"
        assert (f"{count} blocks of a cooperative grid" in found.message) == numbers
    assert "blocks of a cooperative grid" not in message(said.format(blocks, threads), "CUDA720")  # sm_90a has no SMs


def test_a_grid_barrier_that_waits_for_blocks_that_never_start_may_be_that() -> None:
    text = (
        "An ordinary launch with cooperative_groups::this_grid().sync() hangs when there are more blocks than the SMs "
        "hold at once; with fewer blocks the kernel finishes."
    )
    assert "CUDA720" in [found.code for found in ls.explain(text, "h200").diagnostics[:2]]
    missing = (
        "The consumer warps of my kernel hang at an mbarrier in shared memory: the producer's expect_tx counts fewer "
        "bytes than the TMA copy writes, and the phase never completes."
    )
    assert "CUDA720" not in [found.code for found in ls.explain(missing, "h200").diagnostics]


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


CUTE = """
import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack
"""


@pytest.mark.parametrize(
    ("made", "broken"),
    [
        ("cute.make_tensor(cute.make_ptr(cutlass.Float16, 0), cute.make_layout((64, 36), stride=(36, 1)))", True),
        ("cute.make_tensor(cute.make_ptr(cutlass.Float16, 0), cute.make_layout((64, 40), stride=(40, 1)))", False),
        (
            "cute.make_tensor(cute.make_ptr(cutlass.Float16, 0), cute.make_layout((36, 64)))",
            True,
        ),  # the first is fastest
        ("cute.make_tensor(cute.make_ptr(cutlass.Float16, 0), cute.make_layout((64, 36)))", False),
        ("cute.make_tensor(cute.make_ptr(cutlass.Int8, 0), cute.make_layout((64, 40), stride=(40, 1)))", True),
        ("cute.make_tensor(p, cute.make_layout((64, 40), stride=(40, 1)))", False),  # of what type is not known
        ("cute.make_tensor(cute.make_ptr(cutlass.Float16, 0), cute.make_ordered_layout((64, 36), order=(1, 0)))", True),
        (
            "cute.make_tensor(cute.make_ptr(cutlass.Float16, 0), cute.make_ordered_layout((64, 36), order=(0, 1)))",
            False,
        ),
        ("cute.make_tensor(cute.make_ptr(cutlass.Float16, 0), cute.make_layout(((4, 16), 36)))", False),
        ("from_dlpack(torch.empty(64, 36, dtype=torch.float16)).mark_layout_dynamic()", True),
        ("from_dlpack(torch.empty(36, 64, dtype=torch.float16).t(), assumed_align=16)", False),
    ],
)
def test_tensors_of_cutes_python_are_followed_to_their_tensor_maps(made: str, broken: bool) -> None:
    text = f"{CUTE}a = {made}\natom, t = cute.nvgpu.make_tiled_tma_atom_A(op, a, layout, tiler, mma)\n" + FAILED
    assert ("TMA005" in codes(text)) == broken


@pytest.mark.parametrize(
    ("made", "broken"),
    [
        ("make_tensor(make_gmem_ptr(A), make_layout(make_shape(M, K), make_stride(K, _1{})));", True),
        ("make_tensor(make_gmem_ptr(A), make_shape(M, K), make_stride(K, Int<1>{}));", True),
        ("make_tensor(make_gmem_ptr(A), make_shape(K, M));", True),
        ("make_tensor(make_gmem_ptr(A), make_shape(M, K), LayoutRight{});", True),
        ("make_tensor(make_gmem_ptr(A), make_shape(M, K), GenColMajor{});", False),
        ("make_tensor(make_gmem_ptr(A), named);", True),
        ("make_tensor(make_gmem_ptr<float>(A), make_shape(M, K), make_stride(K, _1{}));", False),
        ("make_tensor(static_cast<half_t*>(p), make_shape(M, K), make_stride(K, _1{}));", True),
        ("make_tensor(make_smem_ptr(A), make_shape(M, K), make_stride(K, _1{}));", False),
        ("make_tensor(make_gmem_ptr(A), make_shape(M, n), make_stride(n, _1{}));", False),
        ("make_tensor(make_gmem_ptr(A), sized);", False),
    ],
)
def test_tensors_of_cutes_cpp_are_followed_with_their_constants(made: str, broken: bool) -> None:
    text = (
        "constexpr int M = 64, K = 36;\nauto named = make_layout(make_shape(M, K), make_stride(K, _1{}));\n"
        f"void run(half_t const* A) {{\n  Tensor mA = {made}\n"
        "  auto tma = make_tma_copy(SM90_TMA_LOAD{}, mA, sA);\n}\n" + FAILED
    )
    assert ("TMA005" in codes(text)) == broken
    assert "TMA005" not in codes(text.replace("make_tma_copy(SM90_TMA_LOAD{}", "make_copy(Copy{}"))


TILES = """
import tilelang.language as T
def kernel(A, B):
    with T.Kernel(8, 8, threads=128) as (bx, by):
        a = T.alloc_shared((256, 128), "float16")
        b = T.alloc_shared((128, 256), T.float16)
        c = T.alloc_fragment((256, 256), "float")
        for k in T.Pipelined(8, num_stages={stages}):
            T.copy(A[by * 256, k * 128], a)
            T.copy(B[k * 128, bx * 256], b)
            T.gemm(a, b, c)
kernel(1, 2)
RuntimeError: {said}
"""


def test_tiles_of_a_pipelined_loop_are_counted_once_for_each_stage() -> None:
    said = "CUDA error: invalid argument"
    assert "393216 bytes of shared memory with 3 stages, 160768 more" in message(
        TILES.format(stages=3, said=said), "SMEM001"
    )
    assert "SMEM001" not in codes(TILES.format(stages=1, said=said))
    assert "SMEM001" not in codes(TILES.format(stages="n", said=said))
