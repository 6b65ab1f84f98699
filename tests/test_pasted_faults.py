"""Faults that no plan has: compilers that crash, spills, stacks, streams, lanes, and arrays of another device."""

from __future__ import annotations

import pytest

import legalsat as ls
from legalsat.diagnostics import Diagnostic
from legalsat.pasted.wording.likely import WHERE as LIKELY

FAULTS = [
    ("nvcc error   : 'cicc' died due to signal 11 (Invalid memory reference)", "TOOL014", "cicc crashed"),
    ("nvcc error   : 'ptxas' died due to signal 11 (Invalid memory reference)", "TOOL014", "ptxas crashed"),
    ("clang-18: error: ptxas command failed due to signal (use -v to see invocation)", "TOOL014", "ptxas crashed"),
    ("RuntimeError: `ptxas` failed with error code -11", "TOOL014", "crashed"),
    ("x.py:7:4: error: operand #0 does not dominate this use", "TOOL014", "verifier"),
    ("PLEASE ATTACH THE FOLLOWING FILES TO THE BUG REPORT:", "TOOL014", "crashed"),
    (
        "ptxas info    : 8 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads",
        "TOOL015",
        "12 and loads 20",
    ),
    ("autotuned kernel: n_regs=255, n_spills=34", "TOOL015", "spills 34 values"),
    ("========= Uninitialized __shared__ memory read of size 2 bytes", "TOOL016", "2 bytes of shared memory"),
    ("the result is read on another stream, which is not synchronized with the kernel's", "TOOL017", "stream"),
    ("the reduction assumes a warp size of 32 and the GPU has wavefronts of 64", "TOOL018", "lanes"),
    ("ptxas warning : Stack size for entry function 'f' cannot be statically determined", "TOOL019", "stack of f"),
    ("CUDA Exception: Lane User Stack Overflow", "TOOL019", "deeper"),
    ("ValueError: Pointer argument (at 3) cannot be accessed from Triton (cpu tensor?)", "TOOL020", "argument 3"),
    (
        "This kernel has uncoalesced global accesses resulting in a total of 81 excessive sectors (8% of the total)",
        "TOOL021",
        "81 sectors",
    ),
    ("On average, only 4.0 of the 32 bytes transmitted per sector are utilized.", "TOOL021", "4.0 bytes are used"),
]


def printed(text: str, target: str = "h200") -> list[Diagnostic]:
    """Return what a text says is wrong, without what is only likely; nothing of one that is not understood."""
    try:
        found = ls.explain(text, target)
    except ls.InvalidInput:
        return []
    assert not found.legal
    return [one for one in found.diagnostics if one.where != LIKELY]


@pytest.mark.parametrize(("text", "code", "says"), FAULTS)
def test_a_fault_is_named_with_what_is_printed_of_it(text: str, code: str, says: str) -> None:
    (found,) = printed(text)
    assert found.code == code
    assert says in found.message


@pytest.mark.parametrize(
    "text",
    [
        "ptxas info    : 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads",
        "n_regs=40, n_spills=0",
        "nvcc error: the test died of boredom",
        "the video stream is not synchronized with the audio",
        "the warp size is 32 on this GPU",
        "This kernel has no uncoalesced accesses",
    ],
)
def test_what_is_in_order_is_no_fault(text: str) -> None:
    assert not {one.code for one in printed(text)} & {f"TOOL0{number}" for number in range(14, 22)}


def test_what_ptxas_advises_of_every_kernel_hides_no_failure() -> None:
    advice = "ptxas info    : 8 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads\n"
    failure = (
        "The consumer warps of my kernel hang at an mbarrier in shared memory: the producer's expect_tx counts fewer "
        "bytes than the TMA copy writes, and the phase never completes."
    )
    alone = [one.code for one in ls.explain(failure, "h200").diagnostics]
    beside = [one.code for one in ls.explain(advice + failure, "h200").diagnostics]
    assert beside[:1] == alone[:1]
    assert "TOOL015" in beside or len(beside) == len(alone)


def test_what_a_cluster_lacks_has_ended_or_never_was() -> None:
    assert [one.code for one in printed("CUDA_EXCEPTION_17, Cluster target block not present.")] == [
        "PIPE015",
        "PIPE017",
    ]


def test_an_exception_of_hsa_is_a_failed_launch() -> None:
    text = "HSA_STATUS_ERROR_EXCEPTION: An HSAIL operation resulted in a hardware exception. code: 0x1016"
    assert [one.code for one in printed(text, "mi300x")] == ["CUDA719"]


@pytest.mark.parametrize("so", ["the addresses are all 16-byte aligned", "all pointers are aligned to 16 bytes"])
def test_what_is_said_to_be_aligned_is_no_cause(so: str) -> None:
    assert [one.code for one in printed(f"CUDA error: an illegal memory access was encountered, {so}")] == ["CUDA700"]


def test_what_must_be_aligned_is_a_cause() -> None:
    assert [one.code for one in printed("ValueError: data pointer must be 16-byte aligned")] == ["TMA004"]


def test_no_spills_are_no_cause() -> None:
    text = "ptxas info : 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\nresults are wrong since tile 2"
    assert "TOOL015" not in {one.code for one in ls.explain(text, "h200").diagnostics}


def test_a_kernel_that_fails_on_later_gpus_has_memory_of_another() -> None:
    text = (
        "CUDA error: an illegal memory access was encountered, only on GPUs other than cuda:0, where it fails at once"
    )
    assert [one.code for one in printed(text)] == ["TOOL020", "CUDA700"]


def test_a_need_below_the_printed_limit_is_not_the_first_cause() -> None:
    text = (
        "Status::kErrorInternal in initialize(), cudaFuncSetAttribute returns an error\n"
        "kernel SharedStorage {} bytes, GPU maximum 101376"
    )
    first = {need: ls.explain(text.format(need), "rtxpro6000").diagnostics[0].code for need in (87040, 107040)}
    assert first == {87040: "TOOL004", 107040: "SMEM001"}


def test_a_kernel_that_fails_by_the_compilers_version_fails_by_the_compiler() -> None:
    text = "the kernel fails with illegal memory access when built with CUDA Toolkit 13.1, not with 13.0"
    assert ls.explain(text, "h200").diagnostics[0].code == "TOOL014"
    of_driver = "the kernel fails when built with CUDA Toolkit 13.1, which requires another driver version"
    assert "TOOL014" not in {one.code for one in printed(of_driver)}
