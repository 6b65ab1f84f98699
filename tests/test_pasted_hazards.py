"""Shared memory that pasted code reads or overwrites too early, and what says nothing of it."""

from __future__ import annotations

import re
import time

import pytest

import legalsat as ls
from legalsat.pasted.code.hazards import explain_hazards
from legalsat.targets import target

RIGHT = """
__global__ void total(const float* in, float* out, int n) {
  __shared__ float part[256];
  int tid = threadIdx.x;
  for (int row = blockIdx.x; row < n; row += gridDim.x) {
    part[tid] = in[row * 256 + tid];
    __syncthreads();
    for (int step = 128; step > 0; step /= 2) {
      if (tid < step) part[tid] += part[tid + step];
      __syncthreads();
    }
    if (tid == 0) out[row] = part[0];
    __syncthreads();
  }
}
"""


def without(text: str, number: int) -> str:
    """Return a text without one of its barriers."""
    at = [found.start() for found in re.finditer(r"__syncthreads\(\);", text)][number]
    return text[:at] + text[at:].replace("__syncthreads();", "", 1)


def found_in(code: str, said: str = "the sums are wrong now and then") -> list[str]:
    return [one.code for one in explain_hazards(f"{said}\n{code}", target("h200"))]


def test_a_reduction_with_all_its_barriers_is_in_order() -> None:
    assert found_in(RIGHT) == []


@pytest.mark.parametrize(("barrier", "code"), [(0, "PIPE009"), (1, "PIPE009"), (2, "PIPE008")])
def test_each_barrier_of_a_reduction_is_missed(barrier: int, code: str) -> None:
    assert found_in(without(RIGHT, barrier))[0] == code


def test_what_one_thread_writes_is_read_by_others_after_a_barrier_alone() -> None:
    code = (
        "__shared__ int first;\nif (threadIdx.x == 0) first = atomicAdd(count, 32);\n{}\nint at = first + threadIdx.x;"
    )
    assert found_in(code.replace("{}", "")) == ["PIPE009"]
    assert found_in(code.replace("{}", "__syncthreads();")) == []


def test_words_of_two_functions_of_the_thread_are_written_in_no_order() -> None:
    code = "__shared__ float sums[32];\nif (wid == 0) sums[lane] = 0;\n{}\nsums[wid] = total;\n"
    assert found_in(code.replace("{}", "")) == ["PIPE009"] and found_in(code.replace("{}", "__syncthreads();")) == []


def test_nothing_is_found_where_nothing_fails_or_where_code_is_left_out() -> None:
    assert found_in(without(RIGHT, 0), "what does this kernel compute?") == []
    assert found_in(without(RIGHT, 0).replace("    for (int step", "    ...;\n    for (int step")) == []
    assert found_in("part[tid] = 1;\n} else {\nx = part[tid + 1]; __syncthreads();") == []


def test_a_thread_may_read_its_own_word_and_functions_begin_anew() -> None:
    assert found_in("__shared__ int own[64];\nown[tid] = 1;\nif (tid < 8) own[tid] = 2;\nint x = own[tid];") == []
    one = "__device__ void {0}(int tid) {{\n  {1}\n}}\n"
    two = "__shared__ int w[64];\n" + one.format("f", "w[tid] = 1;") + one.format("g", "int x = w[tid + 1];")
    assert found_in(two) == []


@pytest.mark.parametrize(
    ("said", "beside"),
    [
        ("Sums of a row are wrong now and then, and racecheck reports hazards in the kernel's shared memory.", False),
        ("Sums of a row are stale now and then unless CUDA_LAUNCH_BLOCKING=1; a stream still copies the row.", True),
    ],
)
def test_what_is_found_is_a_warning_that_words_of_another_cause_stand_beside(said: str, beside: bool) -> None:
    found = ls.explain(f"{said}\n{without(RIGHT, 2)}", "a100")
    assert found.diagnostics[0].code == "PIPE008" and not found.legal and found.repairs == ()
    assert all(one.level == "warning" for one in found.diagnostics)
    words = [one.odds for one in found.diagnostics if one.where == "the words of the text"]
    assert len(words) == 1 and words[0] is not None and words[0] >= 3 if beside else len(words) <= 1


@pytest.mark.parametrize(
    "garbled", ["{" * 5_000, "if (a) " * 2_000 + ";", "for (;;) {" * 500, "(" * 9_000, "x = 1;\n" * 9_000]
)
def test_garbled_and_endless_code_is_read_in_bounded_time(garbled: str) -> None:
    begin = time.perf_counter()
    assert found_in(f"s_a[tid] = 0; {garbled} s_a[tid] = s_a[tid + 1];" * 3) is not None
    assert time.perf_counter() - begin < 5


@pytest.mark.parametrize(
    ("between", "threads", "codes"),
    [
        ("", 32, ["PIPE009"]),
        ("value = other(value);", 32, ["PIPE009"]),
        ("value = __shfl_xor_sync(full, value, 1);", 32, []),
        ("value = __shfl_xor_sync(full, value, 1);", 64, ["PIPE009"]),
    ],
)
def test_lanes_of_one_warp_meet_where_they_exchange_values(between: str, threads: int, codes: list[str]) -> None:
    code = (
        f"__shared__ float part[64];\nif (threadIdx.x < {threads}) part[threadIdx.x] = value;\n{between}\n"
        f"if (threadIdx.x < {threads}) total = part[31 - threadIdx.x];\n"
    )
    assert found_in(code) == codes


def test_a_pointer_that_is_declared_is_no_write() -> None:
    code = "__shared__ float part[64];\n{}float *part = base + 64;\nx = part[tid + 1];\n"
    assert found_in(code.replace("{}", "")) == []
