"""Tensor memory: what warps do by hand to allocate it, to have tcgen05 multiply into it, and to fetch accumulators."""

from __future__ import annotations

from legalsat.backends.ptx.consumer import BY_ROWS, LANES, WARP_ROWS, OfTile
from legalsat.backends.ptx.cta import Cta, Ring, Tile
from legalsat.backends.ptx.descriptors import descriptor, moved
from legalsat.backends.ptx.text import Value, braced, grouped
from legalsat.plans.product_kernel import ISSUED_ROWS, WARPS, ProductKernel
from legalsat.units.mma import instruction_of

LANE_BITS = 16  # tensor memory's lane stands in the upper half of an address
CORE = 8  # columns that a load has for each repetition, of which a lane gets two of rows g and g + 8
MOST_REPEATED = 16  # of 32: what one instruction needs must be there before setmaxnreg (ptxas C7602)


class Issuer:
    """The thread that has tcgen05 multiply.

    Args:
        cta: its. kernel, element: what is multiplied, and how. columns: where the tensor memory is.
        sharers: the mask of the CTAs whose loads come here, "" where only its own do.
    """

    def __init__(self, cta: Cta, kernel: ProductKernel, element: str, columns: str, sharers: str) -> None:
        self._sharers = sharers
        self._text, self._cta, self._kernel, self._columns = cta.text, cta, kernel, columns
        instruction = instruction_of(element, (ISSUED_ROWS, kernel.summed), kernel.majors)
        self._kind, self._word = instruction.kind, cta.text.held(instruction.word)
        self._always = cta.text.when("eq.s32", 0, 0)

    def multiply(self, ring: Ring, accumulator: Value, k_tile: Value) -> None:
        """Multiply a stage into an accumulator, which the tile's first instruction of all begins."""
        text, kernel, plan = self._text, self._kernel, self._cta.plan
        assert kernel.a is not None
        stage = self._cta.stage(ring)
        a = descriptor(text, plan.a_word, stage)
        b = descriptor(text, plan.b_word, text.add(stage, plan.b_offset))
        to = text.mad(accumulator, kernel.summed_columns, self._columns)
        later = text.when("ne.s32", k_tile, 0)
        for step, offset in enumerate(plan.b_offsets):
            for number, offsets in enumerate(kernel.a.offsets):
                ends = moved(text, a, offsets[step]), moved(text, b, offset)
                text.do(
                    f"tcgen05.mma.cta_group::1.kind::{self._kind} [{text.add(to, number * kernel.summed)}], "
                    f"{', '.join(ends)}, {self._word}, {self._always if step else later}"
                )

    def commit(self, barrier: str, *, to_all: bool = False) -> None:
        """Arrive on a barrier when all that was issued is done, perhaps on that of all CTAs whose loads come here."""
        cast, ranks = (".multicast::cluster", f", {self._sharers}") if to_all and self._sharers else ("", "")
        self._text.do(f"tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster{cast}.b64 {barrier}{ranks}")


class Fetcher(OfTile):
    """A consumer warpgroup whose accumulators are in tensor memory: each warp has 32 lanes of it, one a row.

    Args:
        cta, kernel, element, group, thread: as of a `Consumer`.
    """

    atom_rows = WARP_ROWS  # a warp's rows lie together

    def __init__(self, cta: Cta, kernel: ProductKernel, element: str, group: str, thread: str) -> None:
        super().__init__(cta, element, group, thread, ISSUED_ROWS // WARPS)
        self._kernel, self._scale = kernel, self.scales()
        self.columns: Value = 0

    def find(self) -> None:
        """Find where the tensor memory of the warp's rows is, as the first column of the first accumulator."""
        text = self.text
        lanes = text.mul(self.warp, LANES << LANE_BITS)
        self.columns = text.add(text.add(self.cta.columns(), lanes), text.mul(self.group, self._kernel.summed))

    def held(self, words: int) -> tuple[list[list[str]], Tile]:
        """Return registers of C's type, and whose tile they are of, before any was fetched: none."""
        return [[""] * words for _ in range(self.plan.atoms)], Tile(0, 0, 0)

    def fetch(self, tile: Tile, accumulator: Value, atom: int, columns: tuple[int, int]) -> list[str]:
        """Return registers with columns of a tile's accumulator, from one on so many, of 16 rows of each warp."""
        first, count = columns
        text, found = self.text, list[str]()
        start = text.mad(accumulator, self._kernel.summed_columns, self.columns)
        while count:
            repeated = min(MOST_REPEATED, 1 << (count // CORE).bit_length() - 1)
            some = [text.new() for _ in range(4 * repeated)]
            at = text.add(start, (atom * self.atom_rows << LANE_BITS) + first)
            text.do(f"tcgen05.ld.sync.aligned.16x256b.x{repeated}.b32 {braced(some)}, [{at}]")
            found, first, count = found + some, first + repeated * CORE, count - repeated * CORE
        text.do("tcgen05.wait::ld.sync.aligned")
        if self.plan.scaled_by == BY_ROWS:
            self._scale_rows(tile, found, atom, columns[0])
            return found
        scale = self._scale or self.scales(tile)
        for one in found if scale else ():
            text.do(f"mul.f32 {one}, {one}, {scale}")
        return found

    def _scale_rows(self, tile: Tile, found: list[str], atom: int, first: int) -> None:
        """Multiply what was fetched by the scales of its rows and columns; beyond C by what its last ones are."""
        text, plan, member = self.text, self.plan, self.cta.member_of(tile) if tile.member else 0

        def scale(operand: str, at: Value, end: Value, extent: str, *, of_all: bool) -> str:
            number = text.least(at, text.sub(end, 1))
            if not of_all and isinstance(member, str):
                number = text.put("mad.lo.s32", member, self.cta.parameter(extent), number)
            base = text.put("cvta.to.global.u64", self.cta.parameter(f"scale_{operand}"), kind="d")
            return text.put("ld.global.b32", f"[{text.put('mad.wide.s32', number, 4, base, kind='d')}]")

        rows, n = tile.end if plan.rows_cut else self.cta.parameter("m"), self.cta.parameter("n")
        row = text.add(text.add(tile.a_m, self.row), text.add(text.div(self.lane, 4), atom * self.atom_rows))
        of_rows = [scale("a", text.add(row, half), rows, "m", of_all=plan.rows_cut) for half in (0, CORE)]
        column = text.add(text.mul(text.rem(self.lane, 4), 2), text.add(tile.n, first))
        for number, four in enumerate(grouped(found, 4)):
            for side in range(2):
                beside = scale("b", text.add(column, CORE * number + side), n, "n", of_all=False)
                for half, of_row in enumerate(of_rows):
                    one, factor = four[2 * half + side], text.put("mul.f32", of_row, beside)
                    text.do(f"mul.f32 {one}, {one}, {factor}")


def allocate(cta: Cta, columns: int) -> None:
    """Have a whole warp allocate tensor memory, and say in shared memory where it is."""
    at = cta.text.add(cta.base, cta.plan.columns_at)
    cta.text.do(f"tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [{at}], {columns}")


def free(cta: Cta, columns: int) -> None:
    """Have a whole warp free the tensor memory."""
    cta.text.do(f"tcgen05.dealloc.cta_group::1.sync.aligned.b32 {cta.columns()}, {columns}")
