"""Sums of wgmma begin, are added to, and are read before others begin in their place; A stays A."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from test_check_ptx_staging import MET, SUMS, by_registers, checked, stored

from legalsat.extract.check.check_ptx import KernelCheck, check_ptx

BEGIN, ADD = "0", "1"
READ = "add.f32 %f4, %f0, %f0;\n"
KEPT = "st.shared.b32 [%r3+4096], %f0;\nst.shared.b32 [%r3+4100], %f1;\n"
SCALED = "".join(f"mul.f32 %f{n}, %f{n}, 0f40000000;\n" for n in range(4))
ZEROS = "".join(f"mov.b32 %f{n}, 0;\n" for n in range(4))
STOPPED = "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n"


def multiplied(*steps: str) -> KernelCheck:
    """Check a kernel whose every multiplication takes the next 256 bytes of B, and that reads the sums in the end."""
    body, count = "", sum(one in {BEGIN, ADD} for one in steps)
    body += f"setp.lt.u32 %p1, %r0, {16 * count};\n@%p1 {stored('%r3')}fence.proxy.async.shared::cta;\n{MET}"
    body += "cvt.u64.u32 %d2, %r2; shr.b64 %d2, %d2, 4; or.b64 %d3, %d2, 0x0000000800080000;\n"
    for one in steps:
        if one in {BEGIN, ADD}:
            registers = "{%r20, %r21, %r22, %r23}"
            body += f"wgmma.fence.sync.aligned;\n{by_registers(registers, '%d3', one)}{STOPPED}add.s64 %d3, %d3, 16;\n"
        else:
            body += one
    return checked(f"setp.ne.u32 %p7, %r9, 0;\n{body}{READ}", 128)


@pytest.mark.parametrize("steps", [
    (BEGIN, ADD, ADD),
    (ZEROS, ADD, ADD),
    (BEGIN, READ, BEGIN),
    (BEGIN, KEPT, BEGIN),
    (BEGIN, SCALED, ADD),
    (BEGIN, READ, ZEROS, ADD),
    (BEGIN, SCALED, SCALED, ADD),
    (BEGIN, SCALED, READ, ADD),
    (BEGIN, SCALED, READ, BEGIN),
    (ZEROS, SCALED, BEGIN),
    (BEGIN, READ, SCALED, BEGIN),
])  # fmt: skip
def test_sums_that_begin_and_are_read_are_proven(steps: tuple[str, ...]) -> None:
    found = multiplied(*steps)
    assert found.proven, (found.findings, found.unproven)


@pytest.mark.parametrize(("steps", "reason"), [
    ((ADD, ADD), "adds to registers that nothing has written"),
    ((BEGIN, BEGIN), "nobody has read the sums of line"),
    ((BEGIN, ADD, BEGIN, ADD), "nobody has read the sums of line"),
    ((BEGIN, READ, ADD), "that have been read, as if it did not begin anew"),
    ((BEGIN, SCALED, BEGIN), "nobody has read the sums of line"),
    ((BEGIN, ADD, SCALED, SCALED, BEGIN), "nobody has read the sums of line"),
    ((BEGIN, KEPT, ADD), "that have been read, as if it did not begin anew"),
])  # fmt: skip
def test_sums_that_are_lost_or_left_are_not_proven(steps: tuple[str, ...], reason: str) -> None:
    found = multiplied(*steps)
    assert not found.findings and not found.proven
    assert any(reason in one.reason for one in found.unproven), found.unproven


def twice(*, exchanged: bool = False, across: str = "0") -> KernelCheck:
    """Check a kernel that multiplies A and B, each of two granules a row, the second time in the order given.

    `across`: whether the second one takes A to lie across k.
    """
    body = f"{stored('%r3')}{stored('%r3+2048')}fence.proxy.async.shared::cta;\n{MET}"
    body += "cvt.u64.u32 %d2, %r2; shr.b64 %d2, %d2, 4; or.b64 %d3, %d2, 0x0000001000080000; add.s64 %d4, %d3, 128;\n"
    one, other = ("%d4", "%d3") if exchanged else ("%d3", "%d4")
    product = "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16"
    sums = SUMS.replace("%f3", ", ".join(f"%f{n}" for n in range(3, 32)))
    second = f"{product} {sums}, {one}, {other}, 1, 1, 1, {across}, 0;\n"
    body += f"wgmma.fence.sync.aligned;\n{product} {sums}, %d3, %d4, 0, 1, 1, 0, 0;\n{second}{STOPPED}{READ}"
    return checked(body, 128)


@pytest.mark.parametrize("exchanged", [False, True])
def test_what_is_a_for_some_is_not_b_for_others(exchanged: bool) -> None:
    found = twice(exchanged=exchanged)
    said = [one.reason for one in found.unproven if "into the same sums read as" in one.reason]
    assert not found.findings and bool(said) is exchanged, (found.findings, found.unproven)


@pytest.mark.parametrize("across", ["0", "1"])
def test_what_lies_along_k_for_some_does_not_lie_across_for_others(across: str) -> None:
    said = [one.reason for one in twice(across=across).unproven if "swizzle or order of axes" in one.reason]
    assert bool(said) is (across == "1")


@pytest.mark.parametrize("name", ["triton_bias_sm_100", "triton_attention_of_8_warps_sm_100"])
def test_one_thread_issues_a_multiplication_of_tcgen05(name: str) -> None:
    """By all of a warp it is done as often as there are threads, and one thread's commit knows its own alone."""
    text = (Path(__file__).parent / "data" / "ptx" / f"{name}.ptx").read_text()
    *_, last = re.finditer(r"@%p\d+ (?=tcgen05\.mma)", text)
    assert check_ptx(text).proven
    by_all = check_ptx(text[: last.start()] + text[last.end() :])
    assert not by_all.proven
    assert any("32 threads issue this multiplication" in one.reason for one in by_all.unproven), by_all.unproven
