"""Parts of rounds that a kernel looks at only after rounds that are unrolled, and where rows begin within a tile."""

from __future__ import annotations

import pytest
from test_ptx_branches import only, ring, wait

from legalsat.extract.check.ptx_turns import neighbours

TILE, STEP, UNROLLED = 64, 16, 6
GUARD = "@%p1 bra END;"


def parted(steps: int, waits: bool, unrolled: int = UNROLLED) -> str:
    """A ring over tiles of 64 that counts steps of 16 in a tile after some; with so many it reads in another way.

    `waits`: that way waits for the tile too.
    """
    fewer = "".join(f"setp.le.s32 %p5, %r30, {few};\n@%p5 bra USUAL;\n" for few in range(1, steps))
    return tiled(f"{fewer}setp.gt.s32 %p6, %r30, {steps};\n@%p6 bra USUAL;", waits, unrolled)


def tiled(usual: str, waits: bool, unrolled: int) -> str:
    """A ring over tiles of 64 of n, whose reader looks after some tiles whether it goes on as usual; r30: of 16."""
    count = f"""ld.param.u32 %r2, [n];
mov.b32 %r32, %r2;
add.s32 %r30, %r2, -1;
and.b32 %r30, %r30, {TILE - 1};
shr.u32 %r30, %r30, 4;
add.s32 %r30, %r30, 1;
add.s32 %r2, %r2, {TILE - 1};
shr.u32 %r2, %r2, 6;"""
    full = wait("%r8+65536", "%r5", "PART") if waits else ""
    fault = f"""setp.lt.s32 %p5, %r11, {unrolled};
@%p5 bra USUAL;
{usual}
{full}bra PASSED;
USUAL:
"""
    text = ring(2, fault=fault)
    assert "ld.param.u32 %r2, [n];" in text
    return text.replace("ld.param.u32 %r2, [n];", count)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_parts_of_a_tile_are_tried_where_only_later_rounds_count_them(steps: int) -> None:
    found = only(parted(steps, waits=True))
    assert found.proven, (found.findings, found.unproven)
    (finding, *_) = only(parted(steps, waits=False)).findings
    n = int(finding.launch.removeprefix("n = "))
    assert n > UNROLLED * TILE and ((n - 1) % TILE) // STEP + 1 == steps


@pytest.mark.parametrize("unrolled", [1, 2, 3, 5, 7])
def test_what_is_left_of_a_tile_is_no_count_of_rounds_that_keeps_off(unrolled: int) -> None:
    """With whole tiles alone the comparison turns out in one way in each round that comes to it."""
    assert only(parted(2, waits=True, unrolled=unrolled)).proven
    assert only(parted(2, waits=False, unrolled=unrolled)).findings


@pytest.mark.parametrize("unrolled", [1, 2, 3, 5, 7])
@pytest.mark.parametrize("left", [0, 1, 40])
def test_a_tile_that_is_not_whole_is_tried_in_later_rounds(unrolled: int, left: int) -> None:
    """In the last round all but `left` of a tile may have to be there for it to go on as usual."""
    usual = f"mad.lo.s32 %r31, %r11, {TILE}, {TILE - left};\nsetp.le.s32 %p6, %r31, %r32;\n@%p6 bra USUAL;"
    assert only(tiled(usual, True, unrolled)).proven
    assert only(tiled(usual, False, unrolled)).findings


def begun(missing: int = 0) -> str:
    """A ring over tiles of 16 of which the first begins at `a`; its loader leaves where there are fewer than three.

    It leaves for `missing` tiles too.
    """
    count = """ld.param.u32 %r2, [n];
ld.param.u32 %r30, [a];
and.b32 %r30, %r30, 7;
add.u32 %r2, %r2, %r30;
add.u32 %r2, %r2, 15;
shr.u32 %r2, %r2, 4;"""
    text = ring(2).replace("ld.param.u32 %r2, [n];", count).replace("u64 x", "u64 x, .param .u32 a")
    few = f"setp.lt.s32 %p1, %r2, 3;\nsetp.eq.or.s32 %p1, %r2, {missing}, %p1;"
    return text.replace("setp.lt.s32 %p1, %r2, 1;", few).replace(GUARD, f"@!%p0 bra OTHERS;\n{GUARD}\nOTHERS:")


@pytest.mark.parametrize(("missing", "least"), [(0, 33), (3, 49)])
def test_where_a_row_begins_may_decide_how_little_is_enough(missing: int, least: int) -> None:
    """With a = 1 a row of 32 has a third tile, with a = 0 one of 33: for both, 33 is enough."""
    found = only(begun(missing))
    assert found.proven, (found.findings, found.unproven)
    assert [(one.name, one.least) for one in found.conditions] == [("n", least)]
    assert len(found.parameters["a"]) > 1


@pytest.mark.parametrize("missing", [4, 5, 9])
def test_what_breaks_between_rows_that_are_right_is_an_error(missing: int) -> None:
    found = only(begun(missing))
    assert found.findings and not found.conditions


def halved(least: int) -> str:
    """A ring for each of two CTAs, of every other tile; each waits for one, and loads for no fewer than `least`."""
    count = "ld.param.u32 %r2, [n];\nmov.u32 %r30, %cluster_ctarank;\nadd.u32 %r2, %r2, 1;\n"
    count += "sub.u32 %r2, %r2, %r30;\nshr.u32 %r2, %r2, 1;"
    text = (
        ring(2)
        .replace("ld.param.u32 %r2, [n];", count)
        .replace("setp.lt.s32 %p1, %r2, 1;", f"setp.lt.s32 %p1, %r2, {least};")
    )
    text = text.replace(".reqntid", ".explicitcluster\n.reqnctapercluster 2\n.reqntid")
    return text.replace(GUARD, f"@!%p0 bra OTHERS;\n{GUARD}\nOTHERS:")


@pytest.mark.parametrize("least", [1, 2])
def test_ctas_that_need_some_tiles_need_not_have_as_many(least: int) -> None:
    found = only(halved(least))
    assert found.proven, (found.findings, found.unproven)
    assert [(one.name, one.least, one.multiple) for one in found.conditions] == [("n", 2 * least, 1)]
    assert {n % 2 for n in found.parameters["n"]} == {0, 1}


def test_launches_beside_those_that_come_to_a_condition_have_a_round_more_or_less() -> None:
    coming = [{"n": 32, "m": 1}, {"n": 64, "m": 5}, {"n": 512, "m": 512}, {"n": 64, "m": 1, "%ctaid.x": 1 << 24}]
    listed = [*neighbours(coming, {"n": 64, "%ctaid.x": 1})]
    assert listed == [{"n": 96, "m": 1}, {"n": 576, "m": 512}, {"n": 448, "m": 512}] and not [
        *neighbours([], {"n": 64})
    ]
