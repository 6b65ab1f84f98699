"""Arrivals of barriers, columns and lanes of tensor memory in pasted code, each beside the same code as it is right."""

from __future__ import annotations

import time

import pytest

import legalsat as ls
from legalsat.pasted.code.counts import explain_counts
from legalsat.pasted.code.tensor_memory import explain_tensor_memory
from legalsat.targets import target

SAID = "the kernel hangs, or gives wrong results\n"
RING = """\
__global__ void ring(const __grid_constant__ CUtensorMap map, int rounds) {
  __shared__ alignas(128) half tile[4096];
  __shared__ uint64_t full;
  int t = threadIdx.x;
  if (t == 0) { mbarrier_init(&full, 2); }
  __syncthreads();
  for (int i = 0; i < rounds; ++i) {
    if (threadIdx.x == 0) {
      mbarrier_arrive_expect_tx(&full, 8192);  // once a round
      load_tile(tile, &map, smem_u32(&full));
    }
    mbarrier_wait(&full, i & 1);
  }
}
"""
ALONE = RING.replace("if (threadIdx.x == 0) {\n", "{\n")


def _counted(code: str, gpu: str = "h200", said: str = SAID) -> list[str]:
    return [one.code for one in explain_counts(f"{said}{code}", target(gpu))]


def test_a_barrier_of_two_arrivals_that_gets_one_is_told() -> None:
    assert _counted(RING) == ["PIPE004"]
    found = ls.explain(f"{SAID}{RING}", "h200")
    assert found.diagnostics[0].code == "PIPE004" and found.diagnostics[0].message.startswith("full is made for 2")
    assert not found.legal and not found.repairs


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("full, 2", "full, 1"),
        ("full, 2", "full, parties"),  # a number that nobody knows
        ("    mbarrier_wait", "    if (t == 32) mbarrier_arrive(&full);\n    mbarrier_wait"),  # two threads, one each
        ("if (threadIdx.x == 0) {\n", "if (threadIdx.x % 32 == 0) {\n"),
        ("if (threadIdx.x == 0) {\n", "if (threadIdx.x == 0 || last) {\n"),
        ("if (threadIdx.x == 0) {\n", "if (threadIdx.x == 0) for (int j = 0; j < 2; ++j) {\n"),
        ("load_tile(", "hand_on(&full); load_tile("),  # to whom nobody knows
        ("load_tile(", "load_multicast("),  # other blocks' copies arrive
        ("mbarrier_wait(", "while (threadIdx.y) mbarrier_wait("),  # rows of threads
        ("__global__ void", "__device__ void"),  # called nobody knows how often
    ],
)
def test_what_is_right_or_not_known_is_not_told(old: str, new: str) -> None:
    assert old in RING
    assert not _counted(RING.replace(old, new, 1))


def test_arrivals_of_every_thread_are_too_many_for_a_barrier_of_one() -> None:
    assert _counted(ALONE.replace("full, 2", "full, 1")) == ["PIPE005"]
    assert not _counted(ALONE.replace("full, 2", "full, 128"))
    assert not _counted(ALONE.replace("full, 2", "full, 1").replace("  for (", "  if (t) return;\n  for ("))
    assert not _counted(RING.replace("full, 2", "full, 1"))


def test_counts_say_nothing_where_nothing_fails_nor_of_a_gpu_without_such_barriers() -> None:
    assert not _counted(RING, said="")
    assert not _counted(RING, gpu="mi300x")


@pytest.mark.parametrize(
    "code", ["bar.init(", "mbarrier_init()", "init(&bar, )", "mbarrier_init(&bar, 2); arrive(&bar"]
)
def test_what_is_cut_off_is_no_fault(code: str) -> None:
    assert not _counted(f"__global__ void k() {{ {code}")


TENSOR_MEMORY = {
    "TMEM001": ("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 96;", "96;", "128;"),
    "TMEM010": (
        "uint32_t row = base + ((warp_id * 16) << 16);\ntcgen05.ld.sync.aligned.32x32b.x8.b32 {r}, [row];",
        "* 16",
        "* 32",
    ),
    "TMEM012": ("tcgen05.ld.sync.aligned.16x256b.x64.b32 {r}, [row];", ".x64", ".x32"),
}


@pytest.mark.parametrize("code", TENSOR_MEMORY)
def test_numbers_of_tensor_memory_are_judged(code: str) -> None:
    wrong, old, new = TENSOR_MEMORY[code]
    b200 = target("b200")
    assert [one.code for one in explain_tensor_memory(f"{SAID}{wrong}", b200)] == [code]
    assert not list(explain_tensor_memory(f"{SAID}{wrong.replace(old, new)}", b200))
    assert not list(explain_tensor_memory(wrong, b200))
    assert not list(explain_tensor_memory(f"{SAID}{wrong}", target("h200")))
    assert code in [one.code for one in ls.explain(f"{SAID}{wrong}", "b200").diagnostics[:2]]


@pytest.mark.parametrize(
    ("columns", "wrong"), [("48", True), ("kColumns", True), ("64", False), ("kUnknown", False), ("1024", True)]
)
def test_columns_are_read_among_the_operands_of_asm_and_the_arguments_of_a_call(columns: str, wrong: bool) -> None:
    named = "constexpr int kColumns = 3 * 32;\n"
    asm = f'asm("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" :: "r"(to), "r"({columns}));'
    call = f"tmem_alloc(&address, {columns});"
    for code in (asm, call):
        found = [one.code for one in explain_tensor_memory(f"{SAID}{named}{code}", target("b200"))]
        assert found == (["TMEM001"] if wrong else [])


def test_shapes_of_sixteen_lanes_begin_at_either_half() -> None:
    half = "at = base + (warp * 16 << 16);\ntcgen05.ld.sync.aligned.16x64b.x4.b32 {r}, [at];"
    assert not list(explain_tensor_memory(f"{SAID}{half}", target("b200")))


def test_long_code_takes_time_in_proportion() -> None:
    begin = time.monotonic()
    _counted(RING * 3000)
    _counted("__global__ void k() { mbarrier_init(&a, 2); " + "{ arrive(&a); wait(&a);" * 30_000)
    list(explain_tensor_memory(SAID + "".join(one for one, _, _ in TENSOR_MEMORY.values()) * 3000, target("b200")))
    assert time.monotonic() - begin < 8
