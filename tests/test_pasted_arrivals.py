"""Counts that barriers are made with in pasted code, as PTX and libraries write them."""

from __future__ import annotations

import time

import pytest

import legalsat as ls

MOST = (1 << 20) - 1  # PTX, "Contents of the mbarrier object"
MADE = {
    "ptx": "mbarrier.init.shared::cta.b64 [%r1], {};",
    "old ptx": "mbarrier.init.shared.b64 [smem_bar+8], {};",
    "function": "mbarrier_init(&full[0], {});",
    "pallas": "plgpu.init_barrier(bar, {})",
    "method": "bar[0].init({})",
    "keyword": "bars = gl.alloc_barrier(count={})",
    "keyword with another name": "mbarrier_init(bar, arrive_count = {})",
}
EXPECTED = {
    "ptx": "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1], {};",
    "arrive": "mbarrier.arrive.expect_tx.shared.b64 _, [%r1], {};",
    "function": "tl.mbarrier_expect_tx(bar, {})",
    "short": "barrier_expect(full[k % 2], {})",
    "in words": "the producer's expect_tx of {} bytes",
    "as a value": "expect_transaction = {}",
}


def told(text: str, target: str = "h100") -> list[str]:
    try:
        return [one.code for one in ls.explain(f"the kernel fails with an error\n{text}", target).diagnostics]
    except ls.InvalidInput:
        return []


@pytest.mark.parametrize("form", MADE)
def test_a_barrier_of_no_arrivals_or_too_many_is_refused(form: str) -> None:
    for count, wrong in ((0, True), (1, False), (384, False), (MOST, False), (MOST + 1, True)):
        assert ("PIPE021" in told(MADE[form].format(count))) == wrong, count


@pytest.mark.parametrize("form", EXPECTED)
def test_bytes_beyond_what_a_barrier_counts_are_refused(form: str) -> None:
    for count, wrong in ((0, False), (32768, False), (MOST - 15, False), (MOST + 1, True)):
        assert ("PIPE022" in told(EXPECTED[form].format(count))) == wrong, count


@pytest.mark.parametrize(
    "text",
    [
        "mbarrier.arrive.expect_tx with 1048575 bytes: tx-count must not exceed 1048575",
        "mbarrier expect_tx(1048575): the transaction count's limit is 2^20 - 1",
        "error: the mbarrier transaction count 1048575 must be less than 1048576",
    ],
)
def test_the_most_bytes_that_a_barrier_counts_are_in_order(text: str) -> None:
    assert "PIPE022" not in told(text)


@pytest.mark.parametrize(
    "text",
    [
        "the mbarrier's tx-count must not exceed 1048575",
        "RuntimeError: mbarrier transaction bytes 2097152 must not exceed the limit of 1048575",
    ],
)
def test_a_limit_of_bytes_that_is_told_is_no_count(text: str) -> None:
    assert told(text)[0] == "PIPE022"


@pytest.mark.parametrize(
    "text",
    [
        "mbarrier_init(&bar, 0, threads)",  # of three, nobody knows which is the count
        "mbarrier_init(&bar, threads)",
        "mbarrier_init(&bar, 0 + n)",
        "init_barriers(stages)",
        "bar.init(0x80)",
        "sidebar.init(0)",
    ],
)
def test_what_may_be_no_count_says_nothing(text: str) -> None:
    assert "PIPE021" not in told(text)


def test_a_gpu_without_such_barriers_is_told_nothing() -> None:
    assert "PIPE021" in told(MADE["ptx"].format(0), "h100")
    assert "PIPE021" not in told(MADE["ptx"].format(0), "mi300x")


def test_long_calls_are_read_in_time() -> None:
    start = time.perf_counter()
    told("mbarrier_init(" + "(a" * 20000 + "\n" + "bar.init(" * 5000 + "expect_tx(" + "x, " * 20000)
    assert time.perf_counter() - start < 30
