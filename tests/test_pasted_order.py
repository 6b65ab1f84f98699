"""What pasted kernels do in the wrong order or leave out, each beside the same kernel as it is right."""

from __future__ import annotations

import time
from typing import NamedTuple

import pytest

import legalsat as ls
from legalsat.pasted.code.order import MOST_LINES, events_of, explain_order
from legalsat.pasted.sentences import RULE_OF
from legalsat.targets import target


class Kernel(NamedTuple):
    """The rule that a kernel breaks, the kernel, and what is put for what to make it right."""

    code: str
    wrong: str
    puts: tuple[tuple[str, str], ...]

    @property
    def right(self) -> str:
        right = self.wrong
        for old, new in self.puts:
            assert old in right
            right = right.replace(old, new, 1)
        return right


def _kernel(code: str, wrong: str, *puts: tuple[str, str]) -> Kernel:
    return Kernel(code, wrong, puts)


SAID = "the kernel hangs or gives wrong results\n"
KERNELS = {
    "a barrier initialised in the loop that waits for it": _kernel(
        "PIPE024",
        "int phase = 0;\nfor (int t = 0; t < tiles; ++t) {\n  if (lane == 0) mbarrier_init(&bar, 1);\n"
        "  mbarrier_arrive_expect_tx(&bar, 4096);\n  tma_load_2d(smem, &map, &bar, t, 0);\n"
        "  mbarrier_wait(&bar, phase);\n"
        "  phase ^= 1;\n}\n",
        ("int phase = 0;\n", "int phase = 0;\nif (lane == 0) mbarrier_init(&bar, 1);\n"),
        ("  if (lane == 0) mbarrier_init(&bar, 1);\n", ""),
    ),
    "copies whose bytes nobody expects": _kernel(
        "PIPE006",
        "mbarrier_init(&bar, 1);\nfence_barrier_init();\n__syncthreads();\nif (threadIdx.x == 0) {\n"
        "  cp_async_bulk_tensor_2d(smem, &map, x, y, &bar);\n  mbarrier_arrive(&bar);\n}\nmbarrier_wait(&bar, 0);\n",
        ("  cp_async", "  mbarrier_expect_tx(&bar, 8192);\n  cp_async"),
    ),
    "a product before the wait of its operand": _kernel(
        "PIPE009",
        "barrier_wait(full_b)\nasync_dot(data_a, data_b)\nbarrier_wait(full_a)\n",
        (
            "barrier_wait(full_b)\nasync_dot(data_a, data_b)\nbarrier_wait(full_a)\n",
            "barrier_wait(full_a)\nbarrier_wait(full_b)\nasync_dot(data_a, data_b)\n",
        ),
    ),
    "a product of an operand that is not waited for": _kernel(
        "PIPE009",
        "barrier_wait(full_a)\nasync_dot(data_a, data_b)\n",
        ("async_dot", "barrier_wait(full_b)\nasync_dot"),
    ),
    "copies committed behind the wait": _kernel(
        "PIPE009",
        "for i in range(stage - 1):\n  cp_async(tile[i])\n  cp_async_commit()\nfor i in range(size):\n"
        "  cp_async(tile[i + stage])\n  compute()\n  cp_async_wait(stage - 2)\n  cp_async_commit()\n",
        ("  compute()\n", "  cp_async_commit()\n  compute()\n"),
        ("  cp_async_wait(stage - 2)\n  cp_async_commit()\n", "  cp_async_wait(stage - 2)\n"),
    ),
    "stores that are waited for after the loop alone": _kernel(
        "PIPE013",
        "for (int t = blockIdx.x; t < tiles; t += gridDim.x) {\n  write_tile(smem_c);\n"
        "  tma_store_2d(&map, smem_c, t);\n}\n"
        "cpAsyncBulkCommitGroup();\ncpAsyncBulkWaitGroup<0>();\n",
        ("smem_c, t);\n", "smem_c, t);\n  cpAsyncBulkCommitGroup();\n  cpAsyncBulkWaitGroup<0>();\n"),
    ),
    "ordinary stores that a bulk store reads unfenced": _kernel(
        "PIPE010",
        "smem_c[threadIdx.x] = value;\n__syncthreads();\nif (threadIdx.x == 0) {\n"
        "  tma_store_1d(out, smem_c, 1024);\n}\n",
        ("__syncthreads();", "fence_proxy_async();\n__syncthreads();"),
    ),
    "operands that other warps still read": _kernel(
        "PIPE008",
        "for (int k = 0; k < n; ++k) {\n  if (electSync()) {\n    mbarrier_arrive_expect_tx(bar, 8192);\n"
        "    tma_load_2d(smem, &map, bar, k, 0);\n  }\n  mbarrier_wait(bar, k & 1);\n  wgmma(acc, smem);\n"
        "  warpgroup_commit();\n  warpgroup_wait<0>();\n}\n",
        ("  warpgroup_wait<0>();\n", "  warpgroup_wait<0>();\n  __syncthreads();\n"),
    ),
}


def found(text: str) -> list[str]:
    return [one.code for one in explain_order(text, target("h200"))]


@pytest.mark.parametrize("name", KERNELS)
def test_a_wrong_order_is_told_and_the_right_one_is_not(name: str) -> None:
    kernel = KERNELS[name]
    code = kernel.code
    assert found(SAID + kernel.wrong) == [code] and code not in found(SAID + kernel.right)
    told = ls.explain(SAID + kernel.wrong, "h200")
    assert code in [one.code for one in told.diagnostics[:2]] and not told.legal and told.repairs == ()
    assert next(one for one in told.diagnostics if one.code == code).level == "warning"


@pytest.mark.parametrize("name", KERNELS)
def test_code_is_not_judged_where_nothing_is_said_to_fail(name: str) -> None:
    assert found(f"the kernel is fast\n{KERNELS[name].wrong}") == []


def test_comments_have_no_events_and_loops_are_known_by_braces_and_margins() -> None:
    code = "for (int i = 0; i < 4; ++i)\n{\nmbarrier_wait(&bar, 0); // tma_load(x)\n}\n__syncthreads();\n"
    assert [(one.kind, len(one.loops)) for one in events_of(code)] == [("wait", 1), ("sync", 0)]
    indented = "while x:\n    barrier_wait(full)\n    for y in z:\n        async_dot(a, b)\nbarrier_wait(empty)\n"
    assert [len(one.loops) for one in events_of(indented)] == [1, 2, 0]


def test_rules_of_units_that_a_gpu_lacks_are_not_told() -> None:
    text = SAID + KERNELS["ordinary stores that a bulk store reads unfenced"].wrong
    told = {one.code for one in explain_order(text, target("mi300x"))}
    assert all(RULE_OF[code].unit.limits(target("mi300x")) is not None for code in told)


@pytest.mark.parametrize("text", ["for (", "{" * 5000, "mbarrier_init(" * 3000, "x\n" * 60_000, "bar.wait(\n" * 20_000])
def test_garbled_code_is_read_in_bounded_time(text: str) -> None:
    begin = time.process_time()
    assert len(list(events_of(SAID + text))) <= 4 * MOST_LINES
    assert time.process_time() - begin < 2


@pytest.mark.parametrize(
    "right",
    [
        "pipe = PipelineTmaAsync.create(barrier_storage=bars, tx_count=4096)\nbars.init(1)\npipe.producer_acquire(st)\n"
        "cute.copy(atom, g, s, tma_bar_ptr=pipe.producer_get_barrier(st))\npipe.consumer_wait(st)\n",
        "for (int t = 0; t < n; ++t) {\n  mbarrier_init(&done, 1);\n  commit(&done);\n  mbarrier_wait(&done, 0);\n}\n",
    ],
)
def test_what_libraries_expect_and_barriers_that_begin_anew_are_in_order(right: str) -> None:
    assert not found(f"{SAID}{right}")


@pytest.mark.parametrize(("between", "codes"), [("", ["PIPE009"]), ("def store(full_a):\n", [])])
def test_a_product_is_late_for_waits_of_its_own_function_alone(between: str, codes: list[str]) -> None:
    lines = f"def load(full_b):\n  barrier_wait(full_b)\n  async_dot(one, other)\n{between}  barrier_wait(full_a)\n"
    assert [one.code for one in explain_order(SAID + lines, target("h200"))] == codes


@pytest.mark.parametrize(("barrier", "codes"), [("b_full", ["PIPE009"]), ("tmem_full", []), ("accum_full", [])])
def test_the_barrier_of_accumulators_is_waited_for_behind_the_product(barrier: str, codes: list[str]) -> None:
    lines = f"barrier_wait(a_full, 0)\nasync_dot(sA, sB, acc)\nbarrier_wait({barrier}, 0)\n"
    assert [one.code for one in explain_order(SAID + lines, target("h200"))] == codes


@pytest.mark.parametrize(
    ("arrives", "codes"),
    [
        ("mbarrier_arrive(&bar)", ["PIPE006"]),
        ("full_bar.arrive()", ["PIPE006"]),
        ("full_bar[0].arrive(8192)", []),
        ("arrive_bar_tx(&bar, 8192)", []),
        ("arrive(&bar, num_bytes=8192)", []),
    ],
)
def test_bytes_are_expected_under_other_names(arrives: str, codes: list[str]) -> None:
    kernel = KERNELS["copies whose bytes nobody expects"].wrong.replace("mbarrier_arrive(&bar)", arrives)
    assert [one.code for one in explain_order(SAID + kernel, target("h200"))] == codes
