"""What prose names is likely and not known; what a program printed comes before what words make possible."""

from __future__ import annotations

import pytest

import legalsat as ls
from legalsat.diagnostics import Diagnostic


def told(text: str, name: str = "h200") -> tuple[Diagnostic, ...]:
    try:
        return ls.explain(text, name).diagnostics
    except ls.InvalidInput:
        return ()


@pytest.mark.parametrize(
    ("text", "code", "basis"),
    [
        ("the consumer warps deadlock in the second tile of our GEMM kernel on Hopper", "PIPE007", "likely"),
        ("We see bank conflicts when the attention kernel reads its tile of shared memory", "TOOL012", "likely"),
        ("RuntimeError: bank conflicts exceed the limit of the attention kernel", "TOOL012", "known"),
        ("Unsupported tile (128, 32, 64) and cluster (2, 1, 1) shape for arch 90.", "TOOL010", "known"),
        ("Invalid cluster shape: must be at most 8 CTAs, given 16", "TOOL008", "known"),
    ],
)
def test_a_cause_is_known_by_what_was_printed_alone(text: str, code: str, basis: str) -> None:
    assert [one.basis for one in told(text) if one.code == code] == [basis]


@pytest.mark.parametrize(
    "text",
    [
        "The TMA descriptor is rebuilt for each group, and the kernel fails with wrong values in the last group",
        "Since the epilogue stores through a tensor map the attention kernel fails its accuracy check on Hopper",
        "We changed the tensor map of B, and an error of 0.3 remains in the GEMM",
    ],
)
def test_a_kernel_that_fails_and_has_a_map_is_no_refused_map(text: str) -> None:
    assert "CUDA001" not in [one.code for one in told(text)]


@pytest.mark.parametrize(
    "text",
    [
        "gemm: cannot create the tensor map of A",
        "Failed to encode TMA descriptor for operand B",
        "TMA descriptor creation failed in the launcher",
        "cuTensorMapEncodeTiled failed",
        "error: invalid tensor map passed to the attention kernel",
    ],
)
def test_a_map_that_could_not_be_made_is_refused(text: str) -> None:
    assert [one.code for one in told(text)][:1] == ["CUDA001"]


def test_a_pass_that_fails_is_told_before_what_is_only_possible() -> None:
    text = (
        "error: Failures have been detected while processing an MLIR pass pipeline\n"
        "note: Pipeline failed while executing [`SomePassOfWarps` on 'builtin.module' operation]\n"
        "%3 = ttng.inval_barrier %7 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>\n"
        "pass-with-fence-insertion{compute-capability=120}"
    )
    found = told(text, "rtx5090")
    assert [one.basis for one in found[1:]] == ["possible"] * len(found[1:])
    assert (found[0].code, found[0].basis) == ("TOOL014", "known")


@pytest.mark.parametrize(
    "text",
    [
        "tileiras SIGSEGV at -O2 for a kernel that has a loop of products",
        "ptxas gets killed by SIGABRT on this kernel",
        "nvcc exits with code 139 when the tile is 256 wide",
    ],
)
def test_a_compiler_that_ends_by_a_signal_crashed(text: str) -> None:
    assert [one.code for one in told(text)][:1] == ["TOOL014"]


def test_a_program_that_a_compiler_made_and_that_crashes_is_no_compiler_that_does() -> None:
    found = told("the kernel compiled by ptxas ends with SIGSEGV in the host code")
    assert all(one.basis != "known" for one in found if one.code == "TOOL014")


def test_a_grid_barrier_that_times_out_waits_for_blocks_that_are_not_resident() -> None:
    text = "RuntimeError: grid sync timeout in the fused kernel, barrier.cuh, beside a copy on another stream"
    assert told(text)[0].code == "CUDA720"
    assert "CUDA720" not in [one.code for one in told("the grid barrier of the gemm kernel is passed too early")]
