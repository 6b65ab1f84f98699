"""Launches that the PTX check must think of to reach what a kernel does: later blocks, long rings, packed counts.

Each kernel writes a ring of slots of 8 bytes, behind which a barrier lies; the wrong ones write one slot more, which
is the barrier, after some rounds that only some launches run.
"""

from __future__ import annotations

import pytest

from legalsat.extract.check.check_ptx import KernelCheck, check_ptx

STAGES, UNROLLED = 13, 4


def checked(parameters: str, *body: str, slots: int) -> KernelCheck:
    """Check a kernel whose body goes on to END, where the barrier behind so many slots is waited for."""
    steps, barrier = "\n".join(body), 8 * slots
    (found,) = check_ptx(f"""
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k({parameters})
.reqntid 32
{{
.reg .pred %p<20>; .reg .b32 %r<60>; .reg .b64 %rd<9>;
.shared .align 8 .b8 memory[1024];
mov.u32 %r1, memory;
mbarrier.init.shared::cta.b64 [%r1+{barrier}], 32;
bar.sync 0;
{steps}
END:
mbarrier.arrive.shared::cta.b64 _, [%r1+{barrier}];
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1+{barrier}], 0;
@!%p1 bra WAIT;
ret;
}}
""").kernels
    return found


def wrong(found: KernelCheck) -> bool:
    """Is a barrier said to be overwritten?"""
    return {one.kind for one in found.findings} == {"barrier_destroyed"}


def unrolled(wraps: int) -> KernelCheck:
    """Check rounds of a ring of 13 slots, of which a compiler has put four into one; the last ones are alone."""
    one = (
        "shl.b32 %r3, %r2, 3;", "add.u32 %r4, %r1, %r3;", "st.shared.b32 [%r4], %r2;", "add.u32 %r2, %r2, 1;",
        f"setp.eq.u32 %p2, %r2, {wraps};", "selp.b32 %r2, 0, %r2, %p2;",
    )  # fmt: skip
    return checked(
        ".param .u32 n",
        "ld.param.u32 %r5, [n];", "add.s32 %r5, %r5, 63;", "shr.s32 %r5, %r5, 6;", "mov.u32 %r2, 0;",
        f"setp.lt.s32 %p3, %r5, {UNROLLED};", "@%p3 bra REST;",
        "FOUR:", *(one * UNROLLED), f"sub.s32 %r5, %r5, {UNROLLED};", f"setp.ge.s32 %p4, %r5, {UNROLLED};",
        "@%p4 bra FOUR;",
        "REST:", "setp.lt.s32 %p5, %r5, 1;", "@%p5 bra END;",
        "ONE:", *one, "sub.s32 %r5, %r5, 1;", "setp.gt.s32 %p6, %r5, 0;", "@%p6 bra ONE;",
        slots=STAGES,
    )  # fmt: skip


def test_rounds_that_a_compiler_has_unrolled_are_run_until_the_ring_has_begun_anew_at_each() -> None:
    found = unrolled(STAGES)
    assert found.proven, (found.findings, found.unproven)
    assert wrong(unrolled(STAGES + 1))


def of_rows(mask: int) -> KernelCheck:
    """Check a kernel whose blocks leave where rows end, 16 to each, and go through all blocks of rows before theirs."""
    return checked(
        ".param .u32 rows",
        "ld.param.u32 %r2, [rows];", "mov.u32 %r3, %ctaid.y;", "shl.b32 %r4, %r3, 4;",
        "setp.ge.s32 %p2, %r4, %r2;", "@%p2 bra END;", "mov.u32 %r5, 0;", "setp.eq.u32 %p3, %r3, 0;", "@%p3 bra END;",
        "EARLIER:", f"and.b32 %r6, %r5, {mask};", "shl.b32 %r6, %r6, 3;", "add.u32 %r6, %r1, %r6;",
        "st.shared.b32 [%r6], %r5;", "add.u32 %r5, %r5, 1;", "setp.ne.u32 %p4, %r5, %r3;", "@%p4 bra EARLIER;",
        slots=2,
    )  # fmt: skip


def test_blocks_that_leave_where_there_are_no_rows_are_tried_with_rows() -> None:
    found = of_rows(1)
    assert found.proven, (found.findings, found.unproven)
    assert wrong(of_rows(3))


def of_both(mask: int) -> KernelCheck:
    """Check as many rounds as the columns of its rows that a block sees, of lengths that lie in memory."""
    return checked(
        ".param .u64 lengths",
        "ld.param.u64 %rd1, [lengths];", "cvta.to.global.u64 %rd1, %rd1;", "ld.global.u32 %r2, [%rd1];",
        "mov.u32 %r3, %ctaid.x;", "shl.b32 %r4, %r3, 4;", "setp.ge.s32 %p2, %r4, %r2;", "@%p2 bra END;",
        "add.s32 %r4, %r4, 16;", "min.s32 %r4, %r4, %r2;", "mov.u32 %r5, 0;", "mov.u32 %r7, 0;",
        "COLUMNS:", f"and.b32 %r6, %r7, {mask};", "shl.b32 %r6, %r6, 3;", "add.u32 %r6, %r1, %r6;",
        "st.shared.b32 [%r6], %r5;", "add.u32 %r7, %r7, 1;", "add.s32 %r5, %r5, 16;", "setp.lt.s32 %p4, %r5, %r4;",
        "@%p4 bra COLUMNS;",
        slots=8,
    )  # fmt: skip


def test_rounds_that_the_block_and_a_length_bound_together_are_many() -> None:
    found = of_both(7)
    assert found.proven, (found.findings, found.unproven)
    assert {value // 16 for value in found.parameters["[lengths]"]} & set(range(9, 64))
    assert wrong(of_both(15))


def halves(*unpacked: str) -> KernelCheck:
    """Check a loop whose count is packed beside a word of data, and taken out again so."""
    return checked(
        ".param .u32 n, .param .u64 .ptr data",
        "ld.param.u32 %r2, [n];", "ld.param.u64 %rd1, [data];", "mov.u32 %r10, %tid.x;", "mul.wide.u32 %rd2, %r10, 4;",
        "add.s64 %rd1, %rd1, %rd2;", "ld.global.u32 %r3, [%rd1];", "mov.b64 %rd3, {%r3, %r2};", *unpacked,
        "setp.lt.s32 %p2, %r4, 1;", "@%p2 bra END;",
        "ROUND:", "bar.sync 0;", "sub.s32 %r4, %r4, 1;", "setp.gt.s32 %p3, %r4, 0;", "@%p3 bra ROUND;",
        slots=1,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("unpacked", "proven"),
    [
        (("mov.b64 {_, %r4}, %rd3;",), True),
        (("mov.b64 {%r4, _}, %rd3;",), False),  # the other half is data
        (("mov.u32 %r2, %r3;", "mov.b64 {_, %r4}, %rd3;"), True),  # it was packed before
        (("mov.b64 %rd3, {%r3, %r3};", "mov.b64 {_, %r4}, %rd3;"), False),
    ],
)
def test_a_count_that_was_packed_beside_data_is_known(unpacked: tuple[str, ...], proven: bool) -> None:
    found = halves(*unpacked)
    assert found.proven == proven, (found.findings, found.unproven)
    assert proven or any("by what each has read in memory" in one.reason for one in found.unproven)


def tiles_of_rounds(before: str, tiles: str) -> str:
    """Return a kernel of such tiles with k / 64 rounds each, in which threads read what others have written.

    Where m and n are large there are too many tiles for a run that looks on what k steers; where one is 1, none.
    """
    ahead = "add.u32 %r3, %r3, 0;\n" * 100
    return f""".version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 m, .param .u32 n, .param .u32 k)
.reqntid 64
{{
.reg .pred %p<9>; .reg .b32 %r<30>;
.shared .align 128 .b8 memory[2048];
mov.u32 %r0, %tid.x;
shl.b32 %r1, %r0, 2;
mov.u32 %r2, memory;
add.u32 %r3, %r2, %r1;
xor.b32 %r4, %r1, 128;
add.u32 %r4, %r2, %r4;
ld.param.u32 %r5, [m];
ld.param.u32 %r6, [n];
ld.param.u32 %r7, [k];
shr.u32 %r5, %r5, 5;
shr.u32 %r6, %r6, 5;
{tiles}
shr.u32 %r7, %r7, 6;
mov.u32 %r9, 0;
TILES:
setp.ge.u32 %p0, %r9, %r8;
@%p0 bra END;
setp.eq.s32 %p1, %r7, 0;
@%p1 bra NEXT;
mov.u32 %r10, %r7;
{ahead}
ROUND:
st.shared.b32 [%r3], %r10;
bar.sync 0;
ld.shared.b32 %r11, [%r4];
{before}
add.u32 %r10, %r10, -1;
setp.ne.u32 %p2, %r10, 0;
@%p2 bra ROUND;
NEXT:
bar.sync 0;
add.u32 %r9, %r9, 1;
bra TILES;
END:
ret;
}}
"""


@pytest.mark.parametrize("tiles", ["mul.lo.u32 %r8, %r5, %r6;", "mov.u32 %r8, %r5;"])
def test_rounds_of_one_tile_are_run_where_there_are_none_or_too_many_else(tiles: str) -> None:
    """A comparison that loops of other parameters never turn round is not seen in one way for good."""
    (found,) = check_ptx(tiles_of_rounds("bar.sync 0;", tiles)).kernels
    assert found.proven and found.reached == (3, 3) and {64, 128, 192} <= set(found.parameters["k"])
    kinds = {f.kind for f in check_ptx(tiles_of_rounds("", tiles)).findings}
    assert kinds == {"stage_overwritten", "read_before_full"}


def causal(rows: int, last_row: int) -> KernelCheck:
    """Check a block that goes through all blocks of rows before its own, and then reads its own, unless they wrap."""
    return checked(
        "",
        "mov.u32 %r3, %ctaid.x;", f"shl.b32 %r4, %r3, {rows.bit_length() - 1};", "mov.u32 %r5, 0;",
        "setp.eq.u32 %p3, %r3, 0;", "@%p3 bra OWN;",
        "EARLIER:", "and.b32 %r6, %r5, 1;", "shl.b32 %r6, %r6, 3;", "add.u32 %r6, %r1, %r6;",
        "st.shared.b32 [%r6], %r5;", "add.u32 %r5, %r5, 1;", "setp.ne.u32 %p4, %r5, %r3;", "@%p4 bra EARLIER;",
        "OWN:", f"setp.ne.b32 %p5, %r4, {last_row};", "@%p5 bra END;", "st.shared.b32 [%r1+16], %r5;",
        slots=2,
    )  # fmt: skip


def test_a_branch_that_turns_for_more_blocks_than_launches_have_is_a_condition_of_the_proof() -> None:
    found = causal(128, 2**31 - 128)
    assert found.proven, (found.findings, found.unproven)
    ((name, most, text),) = [(one.name, one.most, str(one)) for one in found.conditions]
    assert (name, most) == ("%ctaid.x", (2**31 - 128) // 128 - 1) and f"at most {most}" in text
    assert wrong(causal(128, 3 * 128))
    assert not causal(2**16, 2**31 - 2**16).proven  # so many rows that launches may have them


def of_pages(mask: int, *, pages: bool = True, apart: bool = False) -> KernelCheck:
    """Check rounds of 512 rows, which lie in pages of so many; `apart`: as many rounds more as there are pages."""
    listed = ".param .u32 rows" + ", .param .u32 pages" * pages
    rounds = ("COLUMNS:", f"and.b32 %r6, %r5, {mask};", "shl.b32 %r6, %r6, 3;", "add.u32 %r6, %r1, %r6;",
              "st.shared.b32 [%r6], %r5;", "add.s32 %r5, %r5, 1;")  # fmt: skip
    return checked(
        listed,
        "ld.param.u32 %r8, [rows];", "ld.param.u32 %r9, [pages];" if pages else "mov.u32 %r9, 1;",
        "mul.lo.s32 %r10, %r8, %r9;", "add.s32 %r11, %r10, 511;", "shr.s32 %r12, %r11, 9;",
        "add.s32 %r2, %r12, %r9;" if apart else "mov.u32 %r2, %r12;",
        "mov.u32 %r5, 0;", "setp.ge.s32 %p2, %r5, %r2;", "@%p2 bra END;",
        *rounds, "setp.lt.s32 %p4, %r5, %r2;", "@%p4 bra COLUMNS;",
        slots=4,
    )  # fmt: skip


def test_numbers_of_which_only_the_product_counts_are_tried_as_one() -> None:
    one, two = of_pages(3, pages=False), of_pages(3)
    assert one.proven and two.proven, (two.findings, two.unproven)
    assert two.work < 2 * one.work
    assert wrong(of_pages(7)) and wrong(of_pages(7, apart=True))
    assert of_pages(3, apart=True).proven
