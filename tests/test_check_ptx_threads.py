"""What threads store and threads read: by whom which bytes were written, and since when."""

from __future__ import annotations

import pytest
from test_ptx_branches import kernel, line_of, only

from legalsat.extract.check.check_ptx import KernelCheck

MEET = "bar.sync 0;\n"
WARPS = "shr.u32 %r2, %r0, 5;\nshl.b32 %r3, %r2, 2;\nadd.u32 %r3, %r1, %r3;\nand.b32 %r4, %r0, 31;\n"
OUT = "ld.param.u64 %d0, [x];\n"


def kept(register: str) -> str:
    return f"st.global.u32 [%d0], {register};\n"


def open_at(found: KernelCheck, text: str, part: str) -> set[str]:
    assert not found.findings, found.findings
    return {one.reason for one in found.unproven if one.line == line_of(text, part)}


def rows(by: int, *, pitch: int = 16) -> str:
    """A buffer of a row of 16 bytes a thread that is used twice, the second time stored so many bytes on."""
    own = f"mul.lo.u32 %r3, %r0, {pitch};\nadd.u32 %r3, %r1, %r3;\n"
    first = "st.shared.v4.u32 [%r3], {%r5, %r5, %r5, %r5};\n"
    second = f"st.shared.v4.u32 [%r3+{by}], {{%r6, %r6, %r6, %r6}};\n"
    read = "ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r3];\n" + "".join(kept(f"%r{n}") for n in range(10, 14))
    given = "ld.param.u32 %r5, [n];\nld.global.u32 %r6, [%d0];\n"
    return kernel(OUT + own + given + first + MEET + read + MEET + second + MEET + read)


def test_rows_that_each_thread_stores_and_reads_are_in_order() -> None:
    assert only(rows(0)).proven


@pytest.mark.parametrize(("by", "pitch"), [(16, 32), (4096, 16)])
def test_a_store_that_nobody_reads_is_left_open(by: int, pitch: int) -> None:
    text = rows(by, pitch=pitch)
    assert any("nobody reads anything" in one for one in open_at(only(text), text, "%r6, %r6"))


def test_a_store_of_which_a_part_is_read_is_left_open() -> None:
    text = rows(4)
    found = only(text)
    assert not found.proven


def halves(by: int) -> str:
    """Each warp stores two halves of 512 bytes and reads rows of both, twice; the second time the first lies on."""
    own = "shl.b32 %r3, %r2, 10;\nadd.u32 %r3, %r1, %r3;\nshl.b32 %r7, %r4, 5;\nadd.u32 %r7, %r3, %r7;\n"
    own += "shl.b32 %r8, %r4, 4;\nadd.u32 %r3, %r3, %r8;\nld.global.u32 %r6, [%d0];\n"

    def stored(at: int) -> str:
        return "".join(f"st.shared.v4.u32 [%r3+{n}], {{%r6, %r6, %r6, %r6}};\n" for n in (at, 512))

    read = "".join(
        f"ld.shared.v4.u32 {{%r10, %r11, %r12, %r13}}, [%r7+{n}];\n" + kept("%r10") + kept("%r13") for n in (0, 16)
    )
    return kernel(OUT + WARPS + own + stored(0) + MEET + read + MEET + stored(by) + MEET + read)


def test_a_row_that_is_overwritten_before_anybody_reads_it_is_left_open() -> None:
    """The last lane's row, which the warp's own next store overwrites: a race with nobody."""
    assert only(halves(0)).proven
    text = halves(16)
    assert any("overwrites it" in one for one in open_at(only(text), text, "[%r3+16]"))


def sums(by: int, *, last: bool = True) -> str:
    """Each warp stores a word and reads all of them, or those before its own; again with others, so far on."""
    stored = "setp.eq.u32 %p1, %r4, 0;\n@%p1 st.shared.u32 [%r3+{}], {};\n"
    lane = "and.b32 %r8, %r4, 1;\n" if last else "mov.u32 %r8, 0;\n"
    place = "shl.b32 %r8, %r8, 2;\nadd.u32 %r8, %r1, %r8;\n"
    read = "ld.shared.u32 %r9, [%r8];\n" + kept("%r9")
    given = "ld.global.u32 %r6, [%d0];\n"
    twice = stored.format(0, "%r6") + MEET + read + MEET + stored.format(by, "%r6") + MEET
    return kernel(OUT + WARPS + lane + place + given + twice + read.replace("%r9", "%r10"))


def test_words_of_warps_of_which_the_last_is_not_needed_are_in_order() -> None:
    assert only(sums(0)).proven and only(sums(0, last=False)).proven


def test_a_read_of_old_words_beside_new_ones_is_left_open() -> None:
    """The second word is the first warp's new one; the first one is still what was read before."""
    text = sums(4)
    assert any("written since" in one for one in open_at(only(text), text, "ld.shared.u32 %r10"))


def copied(by: int, *, ahead: bool = False) -> str:
    """Two rows a thread that a group of cp.async copies; `ahead`: another group that nobody reads."""
    own = "mul.lo.u32 %r3, %r0, 32;\nadd.u32 %r3, %r1, %r3;\n"

    def group(*places: int) -> str:
        listed = "".join(f"cp.async.cg.shared.global [%r3+{n}], [%d0], 16;\n" for n in places)
        return listed + "cp.async.commit_group;\n"

    wait = "cp.async.wait_group 0;\n" + MEET
    read = "".join(f"ld.shared.v4.u32 {{%r10, %r11, %r12, %r13}}, [%r3+{n}];\n" + kept("%r10") for n in (0, 16))
    more = group(8192, 8208) if ahead else ""
    return kernel(OUT + own + group(0, 16) + wait + read + MEET + group(0 + by, 16) + more + wait + read)


def test_copies_of_a_group_that_nobody_reads_are_in_order() -> None:
    assert only(copied(0)).proven and only(copied(0, ahead=True)).proven


def test_a_copy_that_nobody_reads_beside_one_of_its_group_is_left_open() -> None:
    text = copied(4096)
    assert any("nobody reads anything" in one for one in open_at(only(text), text, "[%r3+4096]"))


def tail(guard: str, *, few: int = 6) -> str:
    """Rows of 16 bytes a thread, of which the first lanes of each warp alone read words, or all do so many."""
    own = "shl.b32 %r3, %r0, 4;\nadd.u32 %r3, %r1, %r3;\nld.global.u32 %r6, [%d0];\n"
    stored = "st.shared.v4.u32 [%r3], {%r6, %r6, %r6, %r6};\n"
    inside = f"setp.lt.u32 %p1, %r4, {few};\n"
    read = f"{guard} ld.shared.u32 %r10, [%r3];\n" + kept("%r10")
    return kernel(OUT + WARPS + own + inside + stored + MEET + read + MEET + stored + MEET + read)


def test_what_lies_beyond_a_guard_may_be_left() -> None:
    """As a tile's columns beyond a matrix, whose rows are laid down whole, and stored as far as there are any."""
    assert only(tail("@%p1")).proven
    text = tail("")
    assert any("nobody reads shared byte" in one for one in open_at(only(text), text, "st.shared.v4"))
