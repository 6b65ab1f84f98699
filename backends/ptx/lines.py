"""Operands whose lines begin anywhere in a granule: boxes of granules hold them, and threads move each to its place."""

from __future__ import annotations

from legalsat.backends.ptx.consumer import GRANULE, SWIZZLE_ROW
from legalsat.backends.ptx.cta import Cta, Ring, Tile
from legalsat.backends.ptx.shift import WORD, Shift
from legalsat.backends.ptx.text import Text, Value, address, braced, grouped
from legalsat.plans.product_kernel import LINES_ALIKE, WARPGROUP, WIDE_BOX, Lines, ProductKernel

WORDS = GRANULE // WORD  # of a granule


def load_lines(  # noqa: PLR0917 - whose share, of what, and where to
    cta: Cta, kernel: ProductKernel, operand: str, ring: Ring, barrier: str, tile: Tile, k_tile: Value
) -> None:
    """Load the CTA's share of the boxes of lines of A, or of B, to all CTAs that share the tile."""
    text, plan = cta.text, cta.plan
    lines, at = _lines(cta, kernel, operand)
    k = text.mul(text.add(tile.first_k, k_tile), plan.tile_k)
    sharing, mine, first = (
        (plan.cluster_n, cta.rank_n, tile.a_m) if operand == "A" else (plan.cluster_m, cta.rank_m, tile.n)
    )
    stage, bring = cta.stage(ring), cta.bringing(operand, cta.barrier(barrier, ring.stage))
    for i in range(lines.boxes // sharing):
        box = text.mad(mine, lines.boxes // sharing, i)
        if kernel.majors["AB".index(operand)] == "K":
            along, line = k, text.add(first, box)
        else:
            along = text.mad(text.div(box, LINES_ALIKE), lines.spans * WIDE_BOX, first)
            line = text.add(k, text.rem(box, LINES_ALIKE))
        number, member = cta.begins(operand, tile, LINES_ALIKE, text.rem(line, LINES_ALIKE))
        to = text.add(stage, text.mad(box, lines.count * lines.pitch, at))
        bring(to, number, (along, text.div(line, LINES_ALIKE), *member))


def align_lines(  # noqa: PLR0917 - whose, of what, and who does it
    cta: Cta, kernel: ProductKernel, operand: str, ring: Ring, tile: Tile, thread: str
) -> None:
    """Have a warpgroup move lines of A, or of B, to where a box with the 128-byte swizzle would lay whole ones.

    Eight lanes have a line of each phase, and lie on a diagonal, so that they read other banks, and write others.
    """
    text = cta.text
    (lines, at), number = _lines(cta, kernel, operand), "AB".index(operand)
    stage, rows = cta.stage(ring), kernel.loaded[number]
    phase = text.rem(thread, LINES_ALIKE)
    first = tile.a_m if operand == "A" and cta.plan.rows_cut else 0  # else one of the first phase
    shift = Shift(text, cta.late(operand, text.add(phase, first), tile))
    unit = text.held(text.div(thread, LINES_ALIKE))
    with text.loop(unit, rows // LINES_ALIKE, WARPGROUP // LINES_ALIKE):
        turned = text.rem(text.add(phase, unit), LINES_ALIKE)
        line = text.mad(text.div(unit, LINES_ALIKE), LINES_ALIKE, turned)  # of its phase
        span, inside = text.div(line, lines.count), text.rem(line, lines.count)
        box = text.mad(text.div(span, lines.spans), LINES_ALIKE, phase)
        source = text.mad(text.mad(box, lines.count, inside), lines.pitch, text.add(stage, at))
        source = text.mad(text.rem(span, lines.spans), SWIZZLE_ROW, source)
        target = text.add(stage, cta.plan.b_offset if operand == "B" else 0)
        target = text.mad(text.mad(line, LINES_ALIKE, phase), SWIZZLE_ROW, target)
        words = [word for i in range(SWIZZLE_ROW // GRANULE + 1) for word in _granule(text, source, i)]
        for i, some in enumerate(grouped(shift.moved(words), WORDS)):
            to = text.mad(text.xor(phase, i), GRANULE, target)
            text.do(f"st.shared.v4.b32 [{to}], {braced(some)}")


def _lines(cta: Cta, kernel: ProductKernel, operand: str) -> tuple[Lines, int]:
    """Return the boxes of lines of an operand, and where they lie in a stage."""
    lines = kernel.lines["AB".index(operand)]
    assert lines is not None
    return lines, cta.plan.a_lines if operand == "A" else cta.plan.b_lines


def _granule(text: Text, source: Value, number: int) -> list[str]:
    words = [text.new() for _ in range(WORDS)]
    text.do(f"ld.shared.v4.b32 {braced(words)}, {address(str(source), number * GRANULE)}")
    return words
