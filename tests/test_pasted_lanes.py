"""Code that counts on lanes or threads that there are not, each beside the same code as it is right."""

from __future__ import annotations

import pytest

from legalsat.pasted.code.lanes import explain_lanes
from legalsat.pasted.code.unwritten import explain_unwritten
from legalsat.targets import target

FAILS = "the result is wrong\n"
COUNTS = ("int lane = threadIdx.x & 31;", "int warp = threadIdx.x / 32;", "constexpr int WARP_SIZE = 32;")
GUARDED = """__global__ void scale(float* out) {
  __shared__ float table[256];
  const int tid = threadIdx.x;
  if (tid < 256) table[tid] = 0.0f;
  __syncthreads();
}
scale<<<blocks, 128>>>(out);
"""


@pytest.mark.parametrize("code", COUNTS)
def test_32_lanes_are_counted_on_where_a_wavefront_has_64(code: str) -> None:
    assert [one.code for one in explain_lanes(FAILS + code, target("mi300x"))] == ["TOOL018"]
    assert not list(explain_lanes(FAILS + code, target("h200")))
    assert not list(explain_lanes("it runs\n" + code, target("mi300x")))


@pytest.mark.parametrize(
    "code", ["int lane = threadIdx.x & 63;", "int x = threadIdx.x / 320;", "x = 32 * y;", "a block of 32 threads"]
)
def test_other_numbers_count_on_no_lanes(code: str) -> None:
    assert not list(explain_lanes(FAILS + code, target("mi300x")))


def test_a_guard_of_more_elements_than_threads_leaves_some_unwritten() -> None:
    found = list(explain_unwritten(FAILS + GUARDED, target("h200")))
    assert [one.code for one in found] == ["TOOL016"]
    assert "256" in found[0].message and "128" in found[0].message


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("128>>>", "256>>>"),  # as many threads
        ("if (tid < 256) table", "for (int i = tid; i < 256; i += 128) table"),  # a loop
        ("  __syncthreads", "  tid += 128;\n  __syncthreads"),  # the index goes on
        ("const int tid = threadIdx.x", "const int tid = lookup(blockIdx.x)"),  # no thread's number
        ("scale<<<", "scale<<<blocks, 256>>>(out);\nscale<<<"),  # blocks of two sizes
    ],
)
def test_a_guard_that_may_be_right_is_not_told(old: str, new: str) -> None:
    assert old in GUARDED
    assert not list(explain_unwritten(FAILS + GUARDED.replace(old, new), target("h200")))


SUMS = """\
the product is NaN for some blocks
    a_tile = T.alloc_shared((64, 64), "float16")
    sums = T.alloc_fragment((64, 64), "float32")
    for k in T.Pipelined(8, num_stages=2):
        T.copy(A[0, k * 64], a_tile)
        T.gemm(a_tile, b_tile, sums)
    T.copy(sums, C[0, 0])
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    for k", "    T.clear(sums)\n    for k"),
        ("    for k", "    T.fill(sums, 0)\n    for k"),
        ("    for k", "    T.copy(C[0, 0], sums)\n    for k"),
        ("b_tile, sums)", "b_tile, sums, clear_accum=True)"),
        ('sums = T.alloc_fragment((64, 64), "float32")', "sums = begin()"),
    ],
)
def test_sums_of_tilelang_begin_somewhere(old: str, new: str) -> None:
    assert old in SUMS
    assert [one.code for one in explain_unwritten(SUMS, target("h200"))] == ["TOOL016"]
    assert not list(explain_unwritten(SUMS.replace(old, new), target("h200")))
    assert not list(explain_unwritten(SUMS.replace("the product is NaN for some blocks", ""), target("h200")))
