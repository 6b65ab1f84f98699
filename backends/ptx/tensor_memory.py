"""Tensor memory: what warps do by hand to allocate it, to have tcgen05 multiply into it, and to fetch accumulators."""

from __future__ import annotations

from legalsat.backends.ptx.consumer import LANES, WARP_ROWS, OfTile
from legalsat.backends.ptx.cta import Cta, Ring, Tile
from legalsat.backends.ptx.descriptors import descriptor, moved
from legalsat.backends.ptx.text import Value, braced
from legalsat.plans.product_kernel import ISSUED_ROWS, WARPS, ProductKernel
from legalsat.units.mma import instruction_of

LANE_BITS = 16  # tensor memory's lane stands in the upper half of an address
CORE = 8  # columns that a load has for each repetition, of which a lane gets two of rows g and g + 8
MOST_REPEATED = 16  # of 32: what one instruction needs must be there before setmaxnreg (ptxas C7602)


class Issuer:
    """The thread that has tcgen05 multiply.

    Args:
        cta: its. kernel, element: what is multiplied, and how. columns: where the tensor memory is.
    """

    def __init__(self, cta: Cta, kernel: ProductKernel, element: str, columns: str) -> None:
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

    def commit(self, barrier: str) -> None:
        """Arrive on a barrier when all that was issued is done."""
        self._text.do(f"tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 {barrier}")


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

    def fetch(self, accumulator: Value, atom: int, first: int, count: int) -> list[str]:
        """Return registers with so many columns, from one on, of 16 rows of each warp."""
        text, found = self.text, list[str]()
        start = text.mad(accumulator, self._kernel.summed_columns, self.columns)
        while count:
            repeated = min(MOST_REPEATED, 1 << (count // CORE).bit_length() - 1)
            some = [text.new() for _ in range(4 * repeated)]
            at = text.add(start, (atom * self.atom_rows << LANE_BITS) + first)
            text.do(f"tcgen05.ld.sync.aligned.16x256b.x{repeated}.b32 {braced(some)}, [{at}]")
            found, first, count = found + some, first + repeated * CORE, count - repeated * CORE
        text.do("tcgen05.wait::ld.sync.aligned")
        for one in found if self._scale else ():
            text.do(f"mul.f32 {one}, {one}, {self._scale}")
        return found


def allocate(cta: Cta, columns: int) -> None:
    """Have a whole warp allocate tensor memory, and say in shared memory where it is."""
    at = cta.text.add(cta.base, cta.plan.columns_at)
    cta.text.do(f"tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [{at}], {columns}")


def free(cta: Cta, columns: int) -> None:
    """Have a whole warp free the tensor memory."""
    cta.text.do(f"tcgen05.dealloc.cta_group::1.sync.aligned.b32 {cta.columns()}, {columns}")
