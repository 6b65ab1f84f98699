"""The check of PTX on what persistent kernels do: words read by tile, pointers in memory, lanes apart, calls, grids."""

from __future__ import annotations

import pytest
from test_ptx_branches import BARRIERS, BYTES, START, kernel, line_of, only, wait

from legalsat.extract.check.check_words import assumptions_of

TWO = ".param .u64 x, .param .u64 y, .param .u32 n"

# Words that all threads read alike.


def by_tile(read: str, waits: bool = True, count: str = "%r8") -> str:
    """For n tiles, a load that is made and waited for where the tile's word is not 0; `count` gives its parity."""
    parity = f"and.b32 %r9, {count}, 1;\n"
    make = f"""mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1+{BARRIERS}], {BYTES};
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d0], {BYTES}, [%r1+{BARRIERS}];
"""
    held = wait(f"%r1+{BARRIERS}", "%r9", "FULL") if waits else ""
    return kernel(
        f"""@%p0 mbarrier.init.shared::cta.b64 [%r1+{BARRIERS}], 1;
@%p0 fence.mbarrier_init.release.cluster;
bar.sync 0;
ld.param.u64 %d0, [x];
ld.param.u64 %d1, [y];
ld.param.u32 %r2, [n];
mov.u32 %r4, 0;
mov.u32 %r8, 0;
elect.sync %r30|%p8, -1;
mov.u32 %r31, %r30;
TILE:
setp.ge.u32 %p1, %r4, %r2;
@%p1 bra END;
and.b32 %r32, %r31, 0;
add.u32 %r33, %r4, %r32;
mul.wide.u32 %d2, %r33, 4;
add.u64 %d3, %d1, %d2;
{read}
setp.eq.u32 %p2, %r5, 0;
@%p2 bra NEXT;
@!%p0 bra MADE;
{make}MADE:
{parity}{held}ld.shared.u32 %r20, [%r1];
add.u32 %r8, %r8, 1;
bar.sync 0;
NEXT:
add.u32 %r4, %r4, 1;
bra TILE;
END:
""",
        TWO,
    )


def test_a_word_that_is_read_by_tile_is_as_good_as_a_parameter() -> None:
    found = only(by_tile("ld.global.u32 %r5, [%d3];"))
    assert found.proven, (found.findings, found.unproven)
    assert "the words at y stay as they are while the kernel runs" in assumptions_of(found)
    assert only(by_tile("ld.global.u32 %r5, [%d3];", waits=False)).findings


def test_words_of_which_some_are_0_are_tried() -> None:
    """Who counts tiles instead of loads is right where all tiles have one, or none."""
    found = only(by_tile("ld.global.u32 %r5, [%d3];", count="%r4"))
    assert not found.proven and any("y] = 0 and 1 by turns" in u.reason for u in found.unproven), found.unproven


def test_a_word_that_a_lane_chooses_is_none() -> None:
    lane = "@%p0 add.u64 %d3, %d3, 4;\nld.global.u32 %r5, [%d3];"
    found = only(by_tile(lane))
    said = "lanes of a warp go different ways by what each has read in memory"
    assert not found.proven and said in {u.reason for u in found.unproven}


# Pointers in memory.


def test_a_pointer_in_memory_leads_to_a_word() -> None:
    read = "ld.u32 %r3, [%d2];"
    after = wait(f"%r1+{BARRIERS}", "0", "FULL") + "ld.shared.u32 %r20, [%r1];\n"
    pointed = "ld.param.u64 %d1, [y];\nld.global.u64 %d2, [%d1];\nsetp.eq.s64 %p1, %d2, 0;\n@%p1 bra NONE;\n"
    text = kernel(f"{START}{pointed}{read}\nsetp.eq.u32 %p2, %r3, 0;\n@%p2 bra NONE;\nNONE:\n{after}", TWO)
    found = only(text)
    assert found.proven, (found.findings, found.unproven)
    late = kernel(f"{START}{pointed}{read}\nsetp.eq.u32 %p2, %r3, 77;\n@%p2 bra LATE;\nNONE:\n{after}LATE:\n", TWO)
    assert only(late).findings  # where the word is 77 the load is not waited for


def test_a_generic_load_of_shared_memory_is_still_one() -> None:
    generic = "cvt.u64.u32 %d5, %r1;\ncvta.shared.u64 %d6, %d5;\nld.u32 %r3, [%d6];\n"
    held = wait(f"%r1+{BARRIERS}", "0", "FULL")
    assert only(kernel(START + held + generic, TWO)).proven
    assert {f.kind for f in only(kernel(START + generic + held, TWO)).findings} >= {"read_before_full"}
    kept = "st.shared.u64 [%r1+70000], %d6;\nbar.sync 0;\nld.shared.u64 %d7, [%r1+70000];\nld.u32 %r3, [%d7];\n"
    stored = generic.replace("ld.u32 %r3, [%d6];\n", kept)
    assert {f.kind for f in only(kernel(START + stored + held, TWO)).findings} >= {"read_before_full"}


# Lanes that are apart.


@pytest.mark.parametrize("stages", [2, 5, 7])
def test_a_lane_that_waits_to_load_keeps_no_time_of_its_own(stages: int) -> None:
    """Warps read a stage and release it, and one of their lanes then waits to fill the stage before it again."""
    found = only(refilled(stages))
    assert found.proven, (found.findings, found.unproven)
    assert {f.kind for f in only(refilled(stages, waits=False)).findings} & {"stage_overwritten", "arrivals_in_excess"}


def refilled(stages: int, *, waits: bool = True) -> str:
    """A ring that one lane of the warps that read it fills, n rounds ahead by all stages but one."""
    full, empty = BARRIERS, BARRIERS + 8 * stages
    setup = "".join(
        f"@%p0 mbarrier.init.shared::cta.b64 [%r1+{full + 8 * s}], 1;\n"
        f"@%p0 mbarrier.init.shared::cta.b64 [%r1+{empty + 8 * s}], 64;\n"
        for s in range(stages)
    )

    def fill(stage: str) -> str:
        return f"""shl.b32 %r17, {stage}, 3;
add.u32 %r18, %r17, %r1;
mul.lo.u32 %r19, {stage}, {BYTES};
add.u32 %r19, %r19, %r1;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r18+{full}], {BYTES};
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r19], [%d0], {BYTES}, [%r18+{full}];
"""

    def step(stage: str, parity: str) -> str:
        return f"""add.u32 {stage}, {stage}, 1;
setp.eq.u32 %p3, {stage}, {stages};
selp.u32 {stage}, 0, {stage}, %p3;
selp.u32 %r6, 1, 0, %p3;
xor.b32 {parity}, {parity}, %r6;
"""

    ahead = f"FIRST:\nsetp.ge.u32 %p5, %r14, %r2;\n@%p5 bra BEGIN;\n{fill('%r14')}add.u32 %r14, %r14, 1;\n"
    ahead += f"setp.lt.u32 %p5, %r14, {stages - 1};\n@%p5 bra FIRST;\n"
    # The stage that is filled next has been read in the round before, save in the first.
    held = wait(f"%r18+{empty}", "%r16", "EMPTY") if waits else ""
    return kernel(
        f"""{setup}@%p0 fence.mbarrier_init.release.cluster;
bar.sync 0;
ld.param.u64 %d0, [x];
ld.param.u32 %r2, [n];
setp.eq.u32 %p1, %r2, 0;
@%p1 bra END;
mov.u32 %r4, 0;
mov.u32 %r5, 0;
mov.u32 %r11, 0;
mov.u32 %r14, 0;
mov.u32 %r15, {stages - 1};
mov.u32 %r16, 1;
@!%p0 bra BEGIN;
{ahead}BEGIN:
ROUND:
shl.b32 %r7, %r4, 3;
add.u32 %r8, %r7, %r1;
mul.lo.u32 %r9, %r4, {BYTES};
add.u32 %r10, %r9, %r1;
{wait(f"%r8+{full}", "%r5", "FULL")}ld.shared.u32 %r20, [%r10];
mbarrier.arrive.shared::cta.b64 _, [%r8+{empty}];
add.u32 %r13, %r11, {stages - 1};
setp.ge.u32 %p6, %r13, %r2;
not.pred %p7, %p0;
or.pred %p6, %p6, %p7;
@%p6 bra NEXT;
shl.b32 %r17, %r15, 3;
add.u32 %r18, %r17, %r1;
{held}{fill("%r15")}{step("%r15", "%r16")}NEXT:
{step("%r4", "%r5")}add.u32 %r11, %r11, 1;
setp.lt.u32 %p4, %r11, %r2;
@%p4 bra ROUND;
END:
bar.sync 0;
""",
        TWO,
    )


# Calls and grids.


HELD = wait(f"%r1+{BARRIERS}", "0", "FULL") + "ld.shared.u32 %r20, [%r1];\n"


def test_what_prints_is_no_matter() -> None:
    printed = "{\n.param .b64 param0;\ncall.uni (retval0), vprintf, (param0, param1);\n}\n"
    assert only(kernel(START + printed + HELD, TWO)).proven
    assert only(kernel(START + printed, TWO)).findings  # nobody waits for the load


def test_a_launch_that_fails_an_assertion_is_none() -> None:
    def asserting(condition: str, after: str = HELD) -> str:
        head, failed = START.split("LOADED:")[0], "call.uni __assertfail, (param0, param1);\n"
        return kernel(
            f"ld.param.u32 %r2, [n];\n{condition}@%p1 bra RIGHT;\n{failed}RIGHT:\n{head}LOADED:\n{after}", TWO
        )

    least = "setp.gt.s32 %p1, %r2, 0;\n"
    assert only(asserting(least)).proven
    for_none = wait(f"%r1+{BARRIERS}", "0", "FULL").join(("setp.eq.u32 %p2, %r2, 0;\n@%p2 bra NONE;\n", "NONE:\n"))
    read = "ld.shared.u32 %r20, [%r1];\n"
    assert only(asserting(least, for_none + read)).proven  # breaks for n = 0 alone, which the assertion keeps out
    assert only(kernel(f"ld.param.u32 %r2, [n];\n{START}{for_none}{read}", TWO)).findings
    every = only(asserting("setp.lt.s32 %p1, %r2, -5000000;\n"))
    assert not every.proven and any("fail an assertion" in u.reason for u in every.unproven)
    assert only(asserting(least, read)).findings


def test_a_function_that_is_not_known_is_not_followed() -> None:
    text = kernel(START + HELD + "call.uni unknown, (param0);\n", TWO)
    assert [(u.line, u.reason) for u in only(text).unproven] == [(line_of(text, "call"), "a call is not followed")]


def test_no_launch_has_a_grid_without_blocks() -> None:
    held = wait(f"%r1+{BARRIERS}", "0", "FULL")
    condition = "mov.u32 %r4, %nctaid.x;\nsetp.lt.u32 %p1, %r4, {};\n@%p1 bra LATE;\n"
    for least, proven in ((1, True), (2, False)):
        found = only(kernel(f"{START}{condition.format(least)}{held}LATE:\nld.shared.u32 %r20, [%r1];\n", TWO))
        assert found.proven is proven and bool(found.findings) is not proven
