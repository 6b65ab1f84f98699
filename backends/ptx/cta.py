"""A CTA of a persistent kernel: its place, the tile scheduler, items of the ring, and how it loads its share."""

from __future__ import annotations

from dataclasses import dataclass, replace

from legalsat.backends.kernel_numbers import KernelNumbers
from legalsat.backends.ptx.text import MAP_BYTES, Text, Value, address, braced
from legalsat.extract.kernels.kernel_memory import BARRIER_BYTES
from legalsat.extract.kernels.product_maps import ROW_BYTES
from legalsat.program.kernel import KernelProgram
from legalsat.targets import GRANULE_BYTES

# The kernel's parameters behind the tensor maps, in their order, and their types.
PARAMETERS = {
    **dict.fromkeys(("m", "n", "k", "tiles_m", "tiles_n", "group"), "u32"),
    **dict.fromkeys(("a", "a_pitch", "c", "c_pitch", "scale_a", "scale_b"), "u64"),
}
STEP = "c_step"  # one more behind these, where elements of C lie apart: elements from column to column


class Ring:
    """An item of the ring: its stage, the parity of its barriers' phase, and the stage of the item before."""

    def __init__(self, text: Text, stages: int) -> None:
        self._text, self._stages = text, stages
        self.stage, self.before, self.parity = (text.held(0) for _ in range(3))

    def advance(self) -> None:
        """Move on to the next item."""
        text = self._text
        text.do(f"mov.b32 {self.before}, {self.stage}")
        text.do(f"add.s32 {self.stage}, {self.stage}, 1")
        around = text.when("eq.s32", self.stage, self._stages)
        text.do(f"@{around} mov.b32 {self.stage}, 0")
        text.do(f"@{around} xor.b32 {self.parity}, {self.parity}, 1")

    def next(self) -> Ring:
        """Return the next item."""
        found = object.__new__(Ring)
        found._text, found._stages = self._text, self._stages
        found.stage, found.before, found.parity = map(self._text.held, (self.stage, self.before, self.parity))
        found.advance()
        return found

    def skip(self, items: Value) -> None:
        """Move on by so many items."""
        text = self._text
        reached = text.add(self.stage, items)
        laps = text.div(reached, self._stages)
        text.do(f"mov.b32 {self.stage}, {text.rem(reached, self._stages)}")
        text.do(f"xor.b32 {self.parity}, {self.parity}, {text.rem(laps, 2)}")


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile of C.

    Attributes:
        m, n: its first row (of its phase) and column. phase: of its rows.
        shift: elements before A's rows in their granule. k_tiles, first_k: how many along k, and the first.
        last_steps: of the last k-tile that hold elements.
    """

    m: Value
    n: Value
    phase: Value
    shift: Value = 0
    k_tiles: Value = 0
    first_k: Value = 0
    last_steps: Value = 0


class Cta:
    """Registers that are the same for all threads of a CTA."""

    def __init__(self, text: Text, plan: KernelNumbers, program: KernelProgram) -> None:
        self.text, self.plan, self.program = text, plan, program
        self.maps = 1 if not plan.phases else plan.phases  # of A
        along_m, along_n, _ = program.cluster
        ctas = program.ctas
        self.base = text.put("mov.u32", "memory")
        self.rank: Value = text.put("mov.u32", "%cluster_ctarank") if ctas > 1 else 0
        self.rank_m = text.rem(self.rank, along_m)
        self.rank_n = text.rem(text.div(self.rank, along_m), along_n)
        self.first_tile = text.div(text.put("mov.u32", "%ctaid.x"), ctas)
        self.tile_step = text.div(text.put("mov.u32", "%nctaid.x"), ctas)
        self.tiles = text.put("mul.lo.s32", self.parameter("tiles_m"), self.parameter("tiles_n"))

    def parameter(self, name: str) -> str:
        """Return a register with a parameter."""
        kind = "u64" if name == STEP else PARAMETERS[name]
        return self.text.put(f"ld.param.{kind}", f"[{name}]", kind="r" if kind == "u32" else "d")

    def map(self, number: Value) -> str:
        """Return a register with the address of a tensor map: A's come first, then B's, then C's."""
        text = self.text
        at = text.put("cvta.param.u64", text.put("mov.b64", "maps", kind="d"), kind="d")
        if isinstance(number, int):
            return text.put("add.s64", at, number * MAP_BYTES, kind="d") if number else at
        return text.put("add.s64", at, text.put("mul.wide.s32", number, MAP_BYTES, kind="d"), kind="d")

    def barrier(self, name: str, stage: Value) -> str:
        """Return the operand of a stage's barrier."""
        first = 0
        for ring in self.program.barriers:
            if ring.name == name:
                break
            first += ring.stages
        at = self.text.mad(stage, BARRIER_BYTES, self.base)
        return address(str(at), self.plan.barriers_at + first * BARRIER_BYTES)

    def columns(self) -> str:
        """Return a register with the address of the tensor memory that was allocated."""
        return self.text.put("ld.shared.b32", address(self.base, self.plan.columns_at))

    def stage(self, ring: Ring) -> Value:
        """Return the address of a stage."""
        return self.text.mad(ring.stage, self.plan.stage_bytes, self.base)

    # The tile scheduler.

    def tile(self, number: Value) -> Tile:
        """Return the tile of a number: `group` along m, then along n, so that neighbours in time share operands."""
        text, plan = self.text, self.plan
        tiles_n, group = self.parameter("tiles_n"), self.parameter("group")
        strip = text.put("mul.lo.s32", group, tiles_n)
        first = text.put("mul.lo.s32", text.div(number, strip), group)
        rows = text.least(text.sub(self.parameter("tiles_m"), first), group)
        within = text.rem(number, strip)
        along_m, along_n = text.add(first, text.rem(within, rows)), text.div(within, rows)
        phase, shift = self._phase(along_m)
        if plan.phase_tiles:
            along_m = text.div(along_m, self.maps)
        found = Tile(
            m=text.mul(text.mad(along_m, plan.cluster_m, self.rank_m), plan.tile_m),
            n=text.mul(text.mad(along_n, plan.cluster_n, self.rank_n), plan.tile_n),
            phase=phase,
            shift=shift,
        )
        elements, all_, k_tiles, first_k = self._along_k(shift)
        step = plan.tile_k // plan.steps
        within = text.rem(text.sub(elements, 1), plan.tile_k)
        last_steps = text.held(text.add(text.div(within, step), 1))
        if plan.split > 1:
            inner = text.when("ne.s32", text.add(first_k, k_tiles), all_)
            text.do(f"@{inner} mov.b32 {last_steps}, {plan.steps}")
        return replace(found, k_tiles=k_tiles, first_k=first_k, last_steps=last_steps)

    def stages(self, number: Value) -> Value:
        """Return the stages that a tile takes, 0 where there is no such tile; rows in registers end one stage later."""
        text, plan = self.text, self.plan
        found = text.held(0)
        with text.only(text.when("lt.s32", number, self.tiles)):
            shift = self.tile(number).shift if plan.phase_tiles else 0
            text.do(f"mov.b32 {found}, {text.add(self._along_k(shift)[2], int(plan.realign))}")
        return found

    def _phase(self, along_m: Value) -> tuple[Value, Value]:
        """Return the phase of a tile's rows, and the elements that lie before them in their granule."""
        text = self.text
        if not self.plan.phase_tiles:
            return 0, 0
        phase = text.rem(along_m, self.maps)
        late = self.late(phase)
        return phase, text.div(late, self.plan.element_bytes)

    def late(self, row: Value) -> Value:
        """Return the bytes that lie before a row of A in its granule."""
        text = self.text
        pitch = text.put("mul.lo.s32", text.narrow(self.parameter("a_pitch")), row)
        return text.rem(text.add(pitch, text.narrow(self.parameter("a"))), GRANULE_BYTES)

    def _along_k(self, shift: Value) -> tuple[Value, Value, Value, Value]:
        """Return the elements of a tile along k, all k-tiles, and how many of them the CTA has, from which one on."""
        text, plan = self.text, self.plan
        elements = text.add(self.parameter("k"), shift)
        every = text.div(text.add(elements, plan.tile_k - 1), plan.tile_k)
        if plan.split == 1:
            return elements, every, every, 0
        each, left_over = text.div(every, plan.split), text.rem(every, plan.split)  # which the first CTAs have
        more = text.put("selp.s32", 1, 0, text.when("lt.s32", self.rank, left_over))
        first = text.put("mad.lo.s32", each, self.rank, text.least(self.rank, left_over))
        return elements, every, text.add(each, more), first

    # Loads: a CTA's share of what its cluster shares goes to all that share it.

    def load(self, operand: str, ring: Ring, barrier: str, tile: Tile, k_tile: Value) -> None:
        """Load the CTA's share of A or B."""
        text, plan = self.text, self.plan
        k = text.mul(text.add(tile.first_k, k_tile), plan.tile_k)
        full, stage = self.barrier(barrier, ring.stage), self.stage(ring)
        if operand == "A":
            sharing, mine, first_bit = plan.cluster_n, self.rank_n, self.rank_m
            mask = sum(1 << i * plan.cluster_m for i in range(plan.cluster_n))
            boxes, parts, rows, size, at = plan.a_boxes, plan.a_parts, plan.a_box_rows, plan.a_box_bytes, 0
            along_k, start = plan.a_k_major, tile.m
        else:
            sharing, mine, mask = plan.cluster_m, self.rank_m, (1 << plan.cluster_m) - 1
            boxes, parts, rows, size, at = plan.b_boxes, plan.b_parts, plan.b_box_rows, plan.b_box_bytes, plan.b_offset
            first_bit = text.mul(self.rank_n, plan.cluster_m)
            along_k, start, k = plan.b_k_major, tile.n, text.sub(k, tile.shift)
        share = boxes // sharing
        cast, ranks = "", ""
        if sharing > 1:
            ranks = ", " + text.put("cvt.u16.u32", text.put("shl.b32", mask, first_bit), kind="h")
            cast = ".multicast::cluster"
        for i in range(share):
            box = text.mad(mine, share, i)
            part, block = (text.div(box, boxes // parts), text.rem(box, boxes // parts)) if parts > 1 else (0, box)
            to = text.add(stage, text.mad(block, rows * ROW_BYTES, text.mad(part, size, at)))
            row, late = text.mad(block, rows, start), text.mad(part, plan.tile_k // parts, k)
            number: Value = self.maps if operand == "B" else tile.phase
            if operand == "A" and plan.realign:  # a box for each phase
                number, row = box, text.div(start, self.maps)
            corner = (k, row) if along_k else (row, late)
            text.do(
                f"cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes{cast} "
                f"[{to}], [{self.map(number)}, {braced(map(self._register, corner))}], {full}{ranks}"
            )

    def _register(self, value: Value) -> str:
        return value if isinstance(value, str) else self.text.held(value)
