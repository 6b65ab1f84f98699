"""What is in order and lies elsewhere: columns that nobody has written, operands, rows and sums that nobody reads."""

from __future__ import annotations

import random

import pytest
from test_check_ptx_fences import (
    ADD,
    BEFORE,
    BLOCK,
    COMMIT,
    FETCH,
    FETCHED,
    MULTIPLY,
    PUT,
    multiplied,
    multiplying,
    wait,
)

import legalsat as ls
from bench.foreign_mutants.places import drawn
from legalsat.extract.check.check_ptx import check_ptx

AFTER = "tcgen05.fence::after_thread_sync;"
DONE = COMMIT, wait(0), AFTER
LATER = BEFORE, BLOCK, AFTER
NOTHING = "which nothing has written"
ZEROS = PUT.replace(FETCHED, ", ".join(["0"] * 8))
SCALED = "\n".join(f"mul.f32 %g{n}, %f{n}, 0f3F000000;" for n in range(8))
SCALED_BACK = PUT.replace("%f", "%g")


def at(instruction: str, columns: int) -> str:
    """Return an instruction that reaches tensor memory so many columns on."""
    return instruction.replace("[%r9]", f"[%r9+{columns}]")


@pytest.mark.parametrize(
    "steps",
    [
        (MULTIPLY, ADD, *DONE, FETCH),
        (PUT, *LATER, ADD, *DONE, FETCH),
        (MULTIPLY, *DONE, FETCH, *LATER, MULTIPLY, COMMIT, wait(1), AFTER, FETCH),
        (MULTIPLY, at(MULTIPLY, 8), ADD, *DONE, FETCH, at(FETCH, 8)),
    ],
)
def test_sums_that_are_begun_and_fetched_are_proven(steps: tuple[str, ...]) -> None:
    (found,) = multiplied(*steps).kernels
    assert found.proven, (found.findings, found.unproven)


PUT_BACK = FETCH, SCALED, SCALED_BACK, *LATER
AGAIN = COMMIT, wait(1), AFTER, FETCH


@pytest.mark.parametrize("steps", [
    (MULTIPLY, *DONE, *PUT_BACK, ADD, *AGAIN),
    (MULTIPLY, *DONE, *PUT_BACK, FETCH, *LATER, MULTIPLY, *AGAIN),  # somebody has fetched them
    (ZEROS, *LATER, FETCH, SCALED, SCALED_BACK, *LATER, MULTIPLY, *DONE, FETCH),  # there were no sums yet
    (MULTIPLY, *DONE, FETCH, ZEROS, *LATER, MULTIPLY, *AGAIN),  # zeros hold none
])  # fmt: skip
def test_sums_that_are_scaled_and_put_back_are_added_to(steps: tuple[str, ...]) -> None:
    (found,) = multiplied(*steps).kernels
    assert found.proven, (found.findings, found.unproven)


@pytest.mark.parametrize("again", [(), (FETCH, SCALED, SCALED_BACK, *LATER)])
def test_sums_that_are_scaled_and_put_back_are_not_lost(again: tuple[str, ...]) -> None:
    (found,) = multiplied(MULTIPLY, *DONE, *PUT_BACK, *again, MULTIPLY, *AGAIN).kernels
    assert not found.findings and not found.proven
    assert any("nobody has read the sums of line" in one.reason for one in found.unproven), found.unproven


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ((ADD, *DONE, FETCH), f"a multiplication adds to columns 0 to 7 of tensor memory, {NOTHING}"),
        ((MULTIPLY, at(ADD, 4), *DONE, FETCH), f"a multiplication adds to columns 8 to 11 of tensor memory, {NOTHING}"),
        ((MULTIPLY, *DONE, at(FETCH, 8)), f"tcgen05.ld reads columns 8 to 15 of tensor memory, {NOTHING}"),
        ((FETCH,), f"tcgen05.ld reads columns 0 to 7 of tensor memory, {NOTHING}"),
    ],
)
def test_columns_that_nobody_has_written_hold_no_sums(steps: tuple[str, ...], message: str) -> None:
    (found,) = multiplied(*steps).kernels
    assert message in {one.message for one in found.findings}


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ((MULTIPLY, *DONE, at(FETCH, 4)), f"tcgen05.ld reads columns 8 to 11 of tensor memory, {NOTHING}"),
        ((MULTIPLY, *DONE, FETCH.replace("x8", "x4").replace(FETCHED, FETCHED[:18])), "nobody reads columns 4 to 7"),
        (
            (MULTIPLY, at(MULTIPLY, 8), at(ADD, 4), *DONE, FETCH, at(FETCH, 8)),
            "of which others were summed up as 0 to 7",
        ),
        ((MULTIPLY, MULTIPLY, *DONE, FETCH), "nobody has read the sums of line"),
        ((MULTIPLY, *DONE, FETCH, *LATER, ADD, COMMIT, wait(1), AFTER, FETCH), "adds to sums that line"),
        ((MULTIPLY, "add.s64 %d1, %d0, 1;", ADD.replace("%d0, %d0", "%d0, %d1"), *DONE, FETCH), "with two parts"),
    ],
)
def test_sums_in_other_columns_are_not_proven(steps: tuple[str, ...], reason: str) -> None:
    (found,) = multiplied(*steps).kernels
    assert not found.proven
    assert any(reason in one.reason for one in found.unproven), found.unproven


def test_that_the_first_multiplication_adds_nothing_is_a_condition_where_the_launch_says_so() -> None:
    text = multiplying(MULTIPLY, *DONE, FETCH).replace("k()", "k(.param .u32 adds)")
    text = text.replace("setp.eq.u32 %p1, 0, 1;", "ld.param.u32 %r11, [adds]; setp.ne.u32 %p1, %r11, 0;")
    (found,) = check_ptx(text).kernels
    (said,) = found.conditions
    assert found.proven and str(said).startswith("adds is 0 (else: the first multiplication adds")
    assert not check_ptx(text, parameters={"adds": 1}).proven


ROWS = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 from)
.reqntid 32
{{
.reg .b32 %r<20>; .reg .b64 %d<9>;
.shared .align 128 .b8 rows[1024];
mov.u32 %r0, %tid.x; shl.b32 %r1, %r0, 4; mov.u32 %r2, rows; add.u32 %r3, %r1, %r2;
ld.param.u64 %d0, [from]; cvt.u64.u32 %d1, %r1; add.u64 %d2, %d0, %d1;
{writes}
bar.sync 0;
{bits}
ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r7, %r8, %r9, %r10}}, [%r4];
ret;
}}
"""
STORES = "st.shared.v4.b32 [%r3], {%r0, %r0, %r0, %r0};"
COPIES = "cp.async.cg.shared.global [%r3], [%d2], 16; cp.async.commit_group; cp.async.wait_group 0;"


@pytest.mark.parametrize("writes", [STORES, COPIES])
@pytest.mark.parametrize(("bits", "right"), [("add.u32 %r4, %r3, 0;", True), ("and.b32 %r4, %r3, -257;", False)])
def test_rows_that_threads_write_are_read(writes: str, bits: str, right: bool) -> None:
    """The lower half of the rows twice, the upper half never."""
    assert check_ptx(ROWS.format(writes=writes, bits=bits)).proven is right


SMALL, BATCH = ls.Gemm(64, 72, 96, "bf16"), ls.Gemm(512, 512, 512, "bf16", batch=8)


@pytest.mark.parametrize(
    ("gemm", "gpu", "k", "kinds"),
    [
        (SMALL, "b200", 96, ("sums in other columns", "other columns fetched")),
        pytest.param(SMALL, "b200", 96, (), marks=pytest.mark.slow),
        pytest.param(BATCH, "h200", 1024, (), marks=pytest.mark.slow),
    ],
)
def test_no_fault_of_a_place_is_proven_in_what_this_library_prints(
    gemm: ls.Gemm, gpu: str, k: int, kinds: tuple[str, ...]
) -> None:
    """For one size alone, which takes a fraction of the time; without kinds, one fault of each."""
    text = ls.synthesize(gemm, gpu).emit("ptx")
    assert check_ptx(text, parameters={"k": k}).proven
    faults = {one.kind: one for one in drawn(text, range(1, text.count("\n") + 2), random.Random(1), 100)}
    assert len(faults) >= 5
    for kind in kinds or faults:
        assert not check_ptx(faults[kind].text, parameters={"k": k}).proven, (kind, faults[kind].line)
