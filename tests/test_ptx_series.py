"""Stores and loads that follow each other are recorded at once, and told as if each were by itself."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ptx_series import ROW, staged
from test_check_ptx_staging import HEAD, MET, by_registers, stored
from test_ptx_branches import kernel, only

from legalsat.analyses.ptx.offsets import with_direct_offsets
from legalsat.analyses.ptx.text import parse
from legalsat.analyses.ptx_machine.making import series
from legalsat.analyses.ptx_machine.program import compile_kernel
from legalsat.extract.check.check_ptx import KernelCheck

FAULTS = (
    "",
    "bar.sync 0; // filled\n",
    "bar.sync 0; // read\n",
    "fence.proxy.async.shared::cta;\n",
    "@%p0 cp.async.bulk.wait_group.read 0;\n",
)


def said(found: KernelCheck) -> KernelCheck:
    return replace(found, seconds=0.0, work=0, runs=0)  # shorter runs are told apart by fewer of them


def each_by_itself(text: str) -> tuple[KernelCheck, KernelCheck]:
    """Return what is told of a kernel, and what is told with every access by itself."""
    together = only(text)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(series, "join_series", lambda *_: None)
        return said(together), said(only(text))


@pytest.mark.parametrize("dropped", FAULTS)
@pytest.mark.parametrize("moved", [{}, {2: ROW}, {3: 16 * ROW}], ids=["", "onto the next", "away"])
def test_series_are_told_as_each_access_by_itself(dropped: str, moved: dict[int, int]) -> None:
    text = staged(moved=moved)
    assert dropped in text
    together, single = each_by_itself(text.replace(dropped, "", 1) if dropped else text)
    assert together == single
    assert together.proven is (not dropped and not moved), (together.findings, together.unproven)


@given(
    st.integers(2, 5),
    st.dictionaries(st.integers(0, 4), st.integers(-2, 6).map(lambda n: n * ROW // 2), max_size=2),
    st.sampled_from(sorted(FAULTS)),
    st.booleans(),
)
@settings(deadline=None, max_examples=10)
def test_any_series_are_told_as_each_access_by_itself(
    count: int, moved: dict[int, int], dropped: str, added: bool
) -> None:
    text = staged(count, moved=moved, added=added)
    together, single = each_by_itself(text.replace(dropped, "", 1) if dropped else text)
    assert together == single


def test_series_are_followed_in_fewer_steps() -> None:
    """Of each round all stores but one, and all loads."""
    together = only(staged(5))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(series, "join_series", lambda *_: None)
        single = only(staged(5))
    assert together.work < single.work


@pytest.mark.parametrize("waited", [True, False])
def test_sums_are_stored_at_once_where_they_are_ready(waited: bool) -> None:
    wait = "wgmma.wait_group.sync.aligned 0;\n" if waited else ""
    words = "cvt.u64.u32 %d2, %r2; shr.b64 %d2, %d2, 4; or.b64 %d3, %d2, 0x0000000800080000;\n"
    begin = f"{stored('%r3')}fence.proxy.async.shared::cta;\n{MET}{words}wgmma.fence.sync.aligned;\n"
    multiplied = by_registers("{%r20, %r21, %r22, %r23}", "%d3", "0") + "wgmma.commit_group.sync.aligned;\n"
    stores = "".join(f"st.shared.b32 [%r3+{2048 * (n + 1)}], %f{n};\n" for n in range(3))
    text = HEAD.format(threads=128) + begin + multiplied + wait + stores + "ret;\n}\n"
    module = parse(text)
    program = compile_kernel(module, module.kernels[0])
    assert [len(one._listed) for one in program.code if isinstance(one, series.Series)] == [3]
    together, single = each_by_itself(text)
    assert together == single
    assert ("sums_not_ready" in {one.kind for one in together.findings}) is not waited


def joined(body: str) -> list[int]:
    """Return how many accesses follow each other, of each series of a kernel."""
    module = parse(kernel(body))
    program = compile_kernel(module, module.kernels[0])
    return [len(one._listed) for one in program.code if isinstance(one, series.Series)]


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        ("", [3]),
        ("add.s32 %r5, %r3, 64;\n", [3]),
        ("bar.sync 0;\n", [2]),
        ("HERE:\n", [2]),
        ("st.shared.u32 [%r3+64], %r0;\n", [2]),
        ("ld.shared.u32 %r6, [%r3];\n", [2]),
        ("@%p0 st.shared.u32 [%r3+64], %r39;\n", [2]),
    ],
)
def test_nothing_may_happen_between_accesses_of_a_series(between: str, expected: list[int]) -> None:
    one = "st.shared.u32 [%r3+{}], %r39;\n"
    begin = "ld.param.u64 %d0, [x];\nld.global.u32 %r39, [%d0];\nshl.b32 %r3, %r0, 2;\nadd.u32 %r3, %r3, %r1;\n"
    body = f"{begin}{one.format(0)}{between}{one.format(512)}{one.format(1024)}"
    assert joined(body) == expected


def direct(body: str) -> list[str]:
    """Return the addresses of stores of a kernel as they are read."""
    found = with_direct_offsets(parse(kernel(body)).kernels[0])
    return [one.operands[0] for one in found.instructions if one.base == "st"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("add.s32 %r5, %r3, 64;\nst.shared.u32 [%r5+4], %r0;\n", "[%r3+68]"),
        ("add.s32 %r5, %r3, -64;\nst.shared.u32 [%r5+4], %r0;\n", "[%r3-60]"),
        ("add.s32 %r5, %r3, 64;\nadd.s32 %r6, %r5, 8;\nst.shared.u32 [%r6-4], %r0;\n", "[%r3+68]"),
        ("add.s32 %r5, %r3, 64;\nmov.u32 %r3, 0;\nst.shared.u32 [%r5+4], %r0;\n", "[%r5+4]"),
        ("add.s32 %r5, %r3, 64;\nmov.u32 %r5, 0;\nst.shared.u32 [%r5+4], %r0;\n", "[%r5+4]"),
        ("add.s32 %r5, %r3, 64;\nHERE:\nst.shared.u32 [%r5+4], %r0;\n", "[%r5+4]"),
        ("@%p0 add.s32 %r5, %r3, 64;\nst.shared.u32 [%r5+4], %r0;\n", "[%r5+4]"),
        ("add.s32 %r5, %r5, 64;\nst.shared.u32 [%r5+4], %r0;\n", "[%r5+4]"),
        ("add.s32 %r5, %r3, %r4;\nst.shared.u32 [%r5+4], %r0;\n", "[%r5+4]"),
        ("add.s32 %r5, %r3, 64;\nst.u32 [%r5+4], %r0;\n", "[%r5+4]"),
    ],
)
def test_a_number_that_was_added_is_added_in_the_address(body: str, expected: str) -> None:
    assert direct(body) == [expected]
