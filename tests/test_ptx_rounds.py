"""Parts of rounds that a kernel looks at only after rounds that are unrolled, and where rows begin within a tile."""

from __future__ import annotations

import pytest
from test_ptx_branches import only, ring, wait

TILE, STEP, UNROLLED = 64, 16, 6
GUARD = "@%p1 bra END;"


def parted(steps: int, waits: bool) -> str:
    """A ring over tiles of 64 that counts steps of 16 in a tile after the sixth; with so many it reads in another way.

    `waits`: that way waits for the tile too.
    """
    count = f"""ld.param.u32 %r2, [n];
add.s32 %r30, %r2, -1;
and.b32 %r30, %r30, {TILE - 1};
shr.u32 %r30, %r30, 4;
add.s32 %r30, %r30, 1;
add.s32 %r2, %r2, {TILE - 1};
shr.u32 %r2, %r2, 6;"""
    full = wait("%r8+65536", "%r5", "PART") if waits else ""
    fewer = "".join(f"setp.le.s32 %p5, %r30, {few};\n@%p5 bra USUAL;\n" for few in range(1, steps))
    fault = f"""setp.lt.s32 %p5, %r11, {UNROLLED};
@%p5 bra USUAL;
{fewer}setp.gt.s32 %p6, %r30, {steps};
@%p6 bra USUAL;
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
