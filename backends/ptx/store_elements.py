"""C of a persistent kernel of which no elements lie side by side: each warp stores those of its rows one by one."""

from __future__ import annotations

from legalsat.backends.ptx.consumer import LANES
from legalsat.backends.ptx.cta import STEP
from legalsat.backends.ptx.store_warps import CORE, ByRows


class ByElements(ByRows):
    """C by threads, element by element: lanes have columns of a row."""

    def read(self, part: int, buffer: int) -> None:
        """Write 8 rows to C."""
        text, size, cta = self.text, self.plan.result_bytes, self.cta
        start, first = self.buffer(buffer), text.add(self.row(part), part % self.plan.parts * CORE)
        further = text.put("mul.lo.s64", cta.parameter(STEP), size, kind="d")  # bytes from column to column
        # Where rows begin is said as if elements lay side by side.
        beside = text.put("sub.s64", further, size, kind="d")
        text.meet_lanes()
        row = text.held(0)
        with text.loop(row, CORE, 1):
            to, count = self._run(text.add(first, row))
            begin = text.put("mad.lo.s64", beside, text.wide(self.tile.n), to, kind="d")
            staged = text.mad(row, self._pitch, start)
            at = text.held(text.mul(self.consumer.lane, size))
            with text.loop(at, count, LANES * size):
                element, kind = text.new("h" if size < 4 else "r"), "u8" if size == 1 else f"b{8 * size}"
                text.do(f"ld.shared.{kind} {element}, [{text.add(staged, at)}]")
                column = text.wide(text.div(at, size))
                there = text.put("mad.lo.s64", further, column, begin, kind="d")
                text.do(f"st.global.{kind} [{there}], {element}")
