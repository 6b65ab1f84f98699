"""Groups, whose ends are known on the device alone: where each begins, and which tiles are whose, in shared memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from legalsat.backends.ptx.text import EVERY_LANE, Text, Value, address
from legalsat.plans.product_kernel import GROUP_ENTRY_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from legalsat.backends.ptx.cta import Cta

LANES, LAST_LANE = 32, 31
TILE = 4  # where an entry says which is a group's first tile, behind its first row or k


def find_groups(cta: Cta) -> None:
    """Have the first warp find where groups begin, as `ends` say, and all meet; it says how many tiles there are."""
    text, plan = cta.text, cta.plan
    rows = plan.tile_m * plan.cluster_m
    extent, count = cta.parameter("k" if plan.k_cut else "m"), cta.parameter("groups")
    lane = text.put("mov.u32", "%tid.x")
    with text.only(text.when("lt.s32", lane, LANES)):
        row, tile = text.held(0), text.held(0)  # where the next group begins
        leads = text.when("eq.s32", lane, 0)
        text.do(f"@{leads} st.shared.v2.b32 {_entry(cta, 0)}, {{{row}, {tile}}}")
        ends = text.put("cvta.to.global.u64", cta.parameter("ends"), kind="d")
        first = text.held(0)
        with text.loop(first, count, LANES):
            number, end = text.add(first, lane), text.held(row)
            there = text.when("lt.s32", number, count)
            at = text.put("mad.wide.s32", number, 4, ends, kind="d")
            text.do(f"@{there} ld.global.b32 {end}, [{at}]")
            text.do(f"min.s32 {end}, {end}, {extent}")
            text.do(f"max.s32 {end}, {end}, {row}")
            _scan(text, end, lane, "max.s32")  # no group ends before the one in front of it
            begin = text.put("shfl.sync.up.b32", end, 1, 0, EVERY_LANE)
            text.do(f"@{leads} mov.b32 {begin}, {row}")
            tiles = text.held(text.div(text.add(text.sub(end, begin), rows - 1), rows))
            _scan(text, tiles, lane, "add.s32")
            text.do(f"add.s32 {tiles}, {tiles}, {tile}")
            with text.only(there):
                text.do(f"st.shared.v2.b32 {_entry(cta, text.add(number, 1))}, {{{end}, {tiles}}}")
            for held, last in ((row, end), (tile, tiles)):
                text.do(f"shfl.sync.idx.b32 {held}, {last}, {LAST_LANE}, {LAST_LANE}, {EVERY_LANE}")
    text.do("bar.sync 0")
    if not plan.k_cut:
        all_ = text.put("ld.shared.b32", _entry(cta, count, TILE))
        cta.tiles = text.put("mul.lo.s32", all_, cta.parameter("tiles_n"))


def _scan(text: Text, value: str, lane: str, operation: str) -> None:
    """Combine a lane's value with those of all lanes in front of it."""
    for distance in (1, 2, 4, 8, 16):
        other = text.put("shfl.sync.up.b32", value, distance, 0, EVERY_LANE)
        text.do(f"@{text.when('ge.s32', lane, distance)} {operation} {value}, {value}, {other}")


def group_of(cta: Cta, number: Value, beside: Value) -> Value:
    """Return the group that a tile is of: the last one that begins at it or before it, with `beside` tiles a row."""
    text = cta.text
    low, high = text.held(0), text.held(cta.parameter("groups"))
    again, done = text.label("FIND"), text.label("FOUND")
    text.place(again)
    text.do(f"@{text.when('le.s32', text.sub(high, low), 1)} bra {done}")
    middle = text.div(text.add(low, high), 2)
    first = text.put("mul.lo.s32", text.put("ld.shared.b32", _entry(cta, middle, TILE)), beside)
    before = text.when("le.s32", first, number)
    text.do(f"@{before} mov.b32 {low}, {middle}")
    text.do(f"@!{before} mov.b32 {high}, {middle}")
    text.do(f"bra {again}")
    text.place(done)
    return low


def told(cta: Cta, group: Value) -> Callable[[int, int], str]:
    """Return what reads of a group, or of one further on, where it begins (0), or its first tile (`TILE`)."""
    return lambda further, late: cta.text.put("ld.shared.b32", _entry(cta, cta.text.add(group, further), late))


def _entry(cta: Cta, group: Value, late: int = 0) -> str:
    at = cta.text.mad(group, GROUP_ENTRY_BYTES, cta.base)
    return address(str(at), cta.plan.groups_at + late)
