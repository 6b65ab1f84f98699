"""A consumer warpgroup of a persistent kernel: its accumulators, and what its lanes do by hand within an operation."""

from __future__ import annotations

from dataclasses import replace

from legalsat.backends.ptx.cta import Cta, Ring, Tile
from legalsat.backends.ptx.descriptors import descriptor, moved
from legalsat.backends.ptx.text import Value, braced
from legalsat.dtypes import dtype
from legalsat.operators.gemm import sums_of
from legalsat.plans.product_kernel import BLOCK_ROWS, WARPGROUP, WARPS, ProductKernel
from legalsat.units.tcgen05 import operand_type
from legalsat.units.wgmma import Wgmma

LANES, WARP_ROWS = 32, 16
SWIZZLE_ROW, SWIZZLE_ROWS, GRANULE = 128, 8, 16  # bytes and rows of the 128-byte swizzle's pattern; bytes of a granule
GRANULE_BITS = 64  # of half a granule
BY_ROWS, BY_GROUPS = 1, 2  # of `KernelNumbers.scaled_by`
BEYOND = 1 << 30  # a row that no slices of k have


class Warps:
    """Warps of a role, and what lanes of them say to CTAs that share what is loaded.

    Args:
        cta: theirs. thread: its number in the warpgroup.
    """

    def __init__(self, cta: Cta, thread: str) -> None:
        text = cta.text
        self.text, self.cta, self.plan, self.thread = text, cta, cta.plan, thread
        self.warp, self.lane = text.div(thread, LANES), text.rem(thread, LANES)
        self.leader = text.when("eq.s32", self.lane, 0)
        self._speaks, self._peer = self.leader, ""

    def speak(self, operands: str) -> None:
        """Find which lanes tell CTAs that a stage of "A", "B" or "AB" is free: those along m, then those along n."""
        text, cta, (down, across) = self.text, self.cta, (self.plan.cluster_m, self.plan.cluster_n)
        along_m = down if "B" in operands else 1
        sharing = along_m + (across if "A" in operands else 1) - 1
        if sharing == 1:
            return
        below = text.when("lt.s32", self.lane, along_m)
        m = text.put("selp.b32", self.lane, cta.rank_m, below) if along_m > 1 else cta.rank_m
        further = text.rem(text.add(text.add(cta.rank_n, self.lane), across + 1 - along_m), across)
        n = text.put("selp.b32", cta.rank_n, further, below)
        self._speaks, peer = text.when("lt.s32", self.lane, sharing), text.mad(n, down, m)
        self._peer = str(peer)

    def release(self, barrier: str, stage: Value) -> None:
        """Say to all CTAs whose loads come here that the warp is done with a stage."""
        text, at = self.text, self.cta.barrier(barrier, stage)
        if not self._peer:
            text.do(f"@{self._speaks} mbarrier.arrive.shared::cta.b64 _, {at}")
            return
        with text.only(self._speaks):
            register, _, offset = at.strip("[]").partition("+")
            there = text.put("mapa.shared::cluster.u32", text.add(register, int(offset)), self._peer)
            text.do(f"mbarrier.arrive.shared::cluster.b64 _, [{there}]")


class OfTile(Warps):
    """Where a consumer's threads are in a tile.

    Args:
        cta: theirs. element: type of A and B.
        group, thread: the number of the warpgroup, and of the thread in it.
        rows: of the tile, from a warp's first ones to those of the next warp.

    Attributes:
        atom_rows: from rows of a warp to its next ones.
    """

    atom_rows = BLOCK_ROWS

    def __init__(self, cta: Cta, element: str, group: str, thread: str, rows: int) -> None:
        super().__init__(cta, thread)
        text, plan, self.group = cta.text, cta.plan, group
        # Of the tile: all rows of the warpgroup, and of its first atom those of the warp.
        self.group_row = 0 if plan.ping_pong else text.mul(group, plan.atoms * BLOCK_ROWS)
        self.row = text.mad(self.warp, rows, self.group_row)
        self.number = text.mad(group, WARPS, self.warp)  # of the warp among all consumers'
        self.sums = sums_of(dtype(element)).name

    def scales(self, tile: Tile | None = None) -> str:
        """Return a register with the product of scales, of a tile's group where each has its own; "" where none are."""
        plan = self.plan
        if not plan.scaled or plan.scaled_by == BY_ROWS or (plan.scaled_by == BY_GROUPS) == (tile is None):
            return ""
        text, scales = self.text, []
        for name in ("scale_a", "scale_b"):
            at = text.put("cvta.to.global.u64", self.cta.parameter(name), kind="d")
            if tile is not None:
                at = text.put("mad.wide.s32", self.cta.member_of(tile), 4, at, kind="d")
            scales.append(text.put("ld.global.b32", f"[{at}]"))
        return text.put("mul.f32", *scales)

    def held(self, words: int) -> tuple[list[list[str]], Tile]:
        """Return registers of C's type, of each atom, and whose tile they are of: at first none, outside of C."""
        text, plan = self.text, self.plan
        kept = [[text.held(0) for _ in range(words)] for _ in range(plan.atoms)]
        phase: Value = text.held(0) if plan.phase_tiles else 0
        member = tuple(text.held(0) for _ in range(plan.batch))
        outside: Value = BEYOND if plan.sliced else self.cta.parameter("m")
        tile = Tile(text.held(outside), text.held(0), phase, member=member)
        return kept, replace(tile, end=text.held(0)) if plan.rows_cut else tile


class Consumer(OfTile):
    """The registers of a consumer's threads.

    Args:
        cta: theirs. kernel, element: what is multiplied, and how.
        group, thread: the number of the warpgroup, and of the thread in it.
    """

    def __init__(self, cta: Cta, kernel: ProductKernel, element: str, group: str, thread: str) -> None:
        super().__init__(cta, element, group, thread, WARP_ROWS)
        text, plan = cta.text, cta.plan
        self.accumulators = [[text.new() for _ in range(plan.tile_n // 2)] for _ in range(plan.atoms)]
        self._instruction = Wgmma(plan.tile_n, operand_type(element))
        self._constants = self._instruction.immediates(*kernel.majors, from_registers=plan.realign)
        self._adds = text.when("eq.s32", 0, 0)
        self._scale = self.scales()

    # Accumulators.

    def clear(self) -> None:
        """Set all accumulators to 0."""
        for registers in self.accumulators:
            for one in registers:
                self.text.do(f"mov.b32 {one}, 0")

    def scale(self, tile: Tile) -> None:
        """Round accumulators once more, where operands have scales; where k is split, each CTA's share of them."""
        scale = self._scale or self.scales(tile)
        for registers in self.accumulators if scale else ():
            for one in registers:
                self.text.do(f"mul.f32 {one}, {one}, {scale}")

    def multiply(self, ring: Ring, steps: Value) -> None:
        """Multiply so many steps of a stage, with A and B from shared memory."""
        text, plan = self.text, self.plan
        stage = self.cta.stage(ring)
        rows = 0 if plan.ping_pong else text.mul(self.group, plan.atoms * plan.a_atom_bytes)
        a = descriptor(text, plan.a_word, text.add(stage, rows))
        b = self.descriptor_of_b(stage)
        end = text.label("MULTIPLIED")
        for step, offset in enumerate(plan.b_offsets):
            if step and isinstance(steps, str):
                text.do(f"@{text.when('le.s32', steps, step)} bra {end}")
            for atom, offsets in enumerate(plan.a_offsets):
                self.multiply_add(atom, moved(text, a, offsets[step]), moved(text, b, offset))
        text.place(end)

    def descriptor_of_b(self, stage: Value) -> str:
        """Return a register with the descriptor of B in a stage."""
        return descriptor(self.text, self.plan.b_word, self.text.add(stage, self.plan.b_offset))

    def multiply_add(self, atom: int, *operands: str) -> None:
        """Multiply 64 rows of A, in shared memory or registers, by B."""
        rest = ", ".join(map(str, (*operands, self._adds, *self._constants)))
        self.text.do(f"{self._instruction} {braced(self.accumulators[atom])}, {rest}")

    # Rows of A.

    def drop_heads(self, ring: Ring, tile: Tile) -> None:
        """Clear what lies before rows in their first granules: ends of other rows, which may be no numbers."""
        text, plan = self.text, self.plan
        bits = text.mul(tile.shift, plan.element_bytes * 8)
        beyond = text.when("gt.s32", bits, GRANULE_BITS)
        rest = text.sub(bits, GRANULE_BITS)
        rows = plan.atoms * BLOCK_ROWS
        mine = text.held(self.thread)
        with text.loop(mine, rows, WARPGROUP):
            row = text.add(mine, self.group_row)
            late = text.mul(text.rem(row, SWIZZLE_ROWS), GRANULE)
            at = text.add(self.cta.stage(ring), text.mad(row, SWIZZLE_ROW, late))
            self._drop(f"[{at}]", bits)
            with text.only(beyond):
                self._drop(f"[{at}+{GRANULE_BITS // 8}]", rest)

    def _drop(self, at: str, bits: Value) -> None:
        """Clear the first bits of 64, all where they are more."""
        text = self.text
        word = text.put("shr.u64", text.put("ld.shared.b64", at, kind="d"), bits, kind="d")
        text.do(f"st.shared.b64 {at}, {text.put('shl.b64', word, bits, kind='d')}")
