"""C of a tile whose k is split among the CTAs of a cluster: each CTA adds up its share of all accumulators.

They lie in shared memory along C's rows or columns, whichever are together in global memory.
"""

from __future__ import annotations

from legalsat.backends.ptx.consumer import GRANULE, Consumer, OfTile
from legalsat.backends.ptx.cta import Tile
from legalsat.backends.ptx.store import Store
from legalsat.backends.ptx.store_warps import CORE
from legalsat.backends.ptx.sums import packed
from legalsat.backends.ptx.text import Value, braced, grouped
from legalsat.plans.product_kernel import BLOCK_ROWS, WARPGROUP

SUM_BYTES, SPREAD = 4, 4  # of an accumulator; elements of a line's pitch that spread lanes over the banks


class BySums(Store):
    """C through the accumulators of all CTAs that split k, this one's own among them."""

    def __init__(self, consumer: OfTile, result: str) -> None:
        super().__init__(consumer, result)
        text, plan = self.text, self.plan
        self.tile = Tile(0, 0, 0)
        self._inner, self._outer = plan.tile_n, plan.tile_m
        if plan.c_along_rows:
            self._inner, self._outer = plan.tile_m, plan.tile_n
        self._pitch = (self._inner + SPREAD) * SUM_BYTES
        self._start = text.add(self.cta.base, plan.result_at)

    def take(self, tile: Tile) -> None:
        """Take the accumulators of the CTA's only tile."""
        self.tile = tile

    def write(self, part: int, buffer: int) -> None:
        """Lay the accumulators down."""
        assert isinstance(self.consumer, Consumer)
        text, lane = self.text, self.consumer.lane
        row = text.add(self.consumer.row, text.div(lane, 4))
        column = text.mul(text.rem(lane, 4), 2)
        down, right = (SUM_BYTES, self._pitch) if self.plan.c_along_rows else (self._pitch, SUM_BYTES)
        start = text.mad(row, down, text.mad(column, right, self._start))
        for atom, accumulators in enumerate(self.consumer.accumulators):
            for i, (one, other) in enumerate(grouped(accumulators, 2)):
                at = (atom * BLOCK_ROWS + i % 2 * 8) * down + i // 2 * 8 * right
                if self.plan.c_along_rows:
                    text.do(f"st.shared.b32 [{start}+{at}], {one}")
                    text.do(f"st.shared.b32 [{start}+{at + right}], {other}")
                else:
                    text.do(f"st.shared.v2.b32 [{start}+{at}], {braced((one, other))}")

    def read(self, part: int, buffer: int) -> None:
        """Add up the CTA's share, and write it to C, granule by granule where C has such."""
        text, plan, tile = self.text, self.plan, self.tile
        outers, inners = (text.sub(self.cta.parameter(name), begin) for name, begin in (("m", tile.m), ("n", tile.n)))
        across, along = tile.m, tile.n
        if plan.c_along_rows:
            outers, inners, across, along = inners, outers, along, across
        vector = GRANULE // plan.result_bytes
        row = self._inner // vector  # items of a line
        items = self._outer * row
        share = -(-items // plan.split)
        pitch = self.cta.parameter("c_pitch")
        corner = text.put("mad.lo.s64", pitch, text.wide(across), text.wide(along), kind="d")
        corner = text.put("mad.lo.s64", corner, plan.result_bytes, self.cta.c_of(tile), kind="d")
        line_bytes = text.put("mul.lo.s64", pitch, plan.result_bytes, kind="d")
        odd = text.put("or.b32", text.narrow(corner), text.narrow(line_bytes))
        whole = text.when("eq.s32", text.rem(odd, GRANULE), 0)
        last = text.least(text.mul(text.add(self.cta.rank, 1), share), items)
        thread = text.mad(self.consumer.group, WARPGROUP, self.consumer.thread)
        item = text.held(text.mad(self.cta.rank, share, thread))
        with text.loop(item, last, plan.warpgroups * WARPGROUP):
            across, along = text.div(item, row), text.mul(text.rem(item, row), vector)
            inside = text.when("lt.s32", across, outers)
            with text.only(text.put("setp.lt.and.s32", along, inners, inside, kind="p")):
                words = packed(text, self._totals(across, along, vector), (self.consumer.sums, self.result))
                to = text.put("mad.lo.s64", line_bytes, text.wide(across), corner, kind="d")
                to = text.put("mad.lo.s64", text.wide(along), plan.result_bytes, to, kind="d")
                count = text.sub(inners, along)
                full = text.put("setp.ge.and.s32", count, vector, whole, kind="p")
                with text.only(full):
                    text.do(f"st.global.v4.b32 [{to}], {braced(words)}")
                with text.only(full, holds=False):
                    self._one_by_one(to, words, count)

    def _totals(self, across: Value, along: Value, vector: int) -> list[str]:
        """Return sums of all CTAs' accumulators, all of which are asked for before the first has come."""
        text, plan = self.text, self.plan
        if plan.realign and plan.c_along_rows:  # rows that are neighbours in C are not here
            line = text.mad(across, self._pitch, self._start)
            places = [text.mad(self._kept_row(text.add(along, j)), SUM_BYTES, line) for j in range(vector)]
        else:
            line = across if plan.c_along_rows else self._kept_row(across)
            start = text.mad(line, self._pitch, text.mad(along, SUM_BYTES, self._start))
            places = [text.add(start, j * SUM_BYTES) for j in range(0, vector, 4)]
        parts = [[one for place in places for one in self._read(place, rank, vector // len(places))]
                 for rank in range(plan.split)]  # fmt: skip
        whole = self.consumer.sums == "i32"
        totals = []
        for several in zip(*parts, strict=True):
            total = several[0] if whole else text.put("add.f32", several[0], "0f00000000")
            for one in several[1:]:
                total = text.put("add.s32" if whole else "add.f32", total, one)
            totals.append(total)
        return totals

    def _read(self, place: Value, rank: int, count: int) -> list[str]:
        """Read neighbouring accumulators of a CTA of the cluster."""
        text = self.text
        found, vector = [text.new() for _ in range(count)], ".v4" if count == 4 else ""
        names = braced(found) if vector else found[0]
        if self.plan.split > 1:
            there = text.put("mapa.shared::cluster.u32", place, rank)
            text.do(f"ld.shared::cluster{vector}.b32 {names}, [{there}]")
        else:
            text.do(f"ld.shared{vector}.b32 {names}, [{place}]")
        return found

    def _kept_row(self, row: Value) -> Value:
        """Return where a row of C lies: eight of a phase side by side, as they were multiplied."""
        text, maps = self.text, self.cta.maps
        if not self.plan.realign:
            return row
        some = text.sub(row, text.rem(row, CORE * maps))
        within = text.div(text.rem(row, CORE * maps), maps)
        return text.add(some, text.mad(text.rem(row, maps), CORE, within))

    def _one_by_one(self, to: str, words: list[str], count: Value) -> None:
        """Write so many elements."""
        text, size = self.text, self.plan.result_bytes
        elements = words
        if size == 2:
            elements = [text.new("h") for _ in range(2 * len(words))]
            for word, pair in zip(words, grouped(elements, 2), strict=True):
                text.do(f"mov.b32 {braced(pair)}, {word}")
        if size == 1:
            shifted = (text.put("shr.b32", word, 8 * byte) for word in words for byte in range(4))
            elements = [text.put("cvt.u16.u32", one, kind="h") for one in shifted]
        for j, one in enumerate(elements):
            kind = "u8" if size == 1 else f"b{8 * size}"
            text.do(f"@{text.when('gt.s32', count, j)} st.global.{kind} [{to}+{j * size}], {one}")
