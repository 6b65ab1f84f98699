"""A CTA of a persistent kernel: its place, the tile scheduler, items of the ring, and how it loads its share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from legalsat.backends.kernel_numbers import KernelNumbers
from legalsat.backends.ptx.groups import TILE, group_of, told
from legalsat.backends.ptx.text import MAP_BYTES, Text, Value, address, braced
from legalsat.extract.kernels.kernel_memory import BARRIER_BYTES
from legalsat.extract.kernels.product_maps import ROW_BYTES, WRAPS
from legalsat.plans.product_kernel import LINES_ALIKE
from legalsat.program.kernel import KernelProgram
from legalsat.targets import GRANULE_BYTES

# Parameters of every kernel behind the tensor maps, in their order, and their types.
COMMON = {
    **dict.fromkeys(("m", "n", "k", "tiles_m", "tiles_n", "group"), "u32"),
    **dict.fromkeys(("a", "a_pitch", "c", "c_pitch", "scale_a", "scale_b", "a_hint", "b_hint"), "u64"),
}
STEP = "c_step"  # where elements of C lie apart: elements from column to column
# Bytes: maps of members that begin anywhere are one for each start in a granule, and as many more.
MOST_STARTS = 2 * GRANULE_BYTES


def parameters(plan: KernelNumbers, *, apart: bool) -> dict[str, str]:
    """Return the parameters of a kernel, in their order, and their types: further ones of a batch, and of groups.

    Args:
        plan: of the kernel.
        apart: whether elements of C lie apart.
    """
    axes = range(plan.batch)
    found = COMMON | {f"batch_{i}": "u32" for i in axes} | {f"c_step_{i}": "u64" for i in axes}
    found |= {STEP: "u64"} if apart else {}
    found |= {"ends": "u64", "groups": "u32"} if plan.groups else {}
    found |= {"b": "u64", "b_pitch": "u64"} if plan.aligned_a or plan.aligned_b else {}
    loose = [name for name, one in (("a", plan.loose_a), ("b", plan.loose_b)) if one]
    return found | {f"{name}_step_{i}": "u64" for name in loose for i in range(plan.batch or 1)}


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
        m, n: its first row (of its phase) and column. a_m: its first row in A, of any slice of k. phase: of its rows.
        shift: elements before A's rows in their granule. k_tiles, first_k: how many along k, and the first.
        last_steps: of the last k-tile that hold elements.
        member: along each axis of a batch, or the group. begin, end: of the group's k, or the end of its rows.
    """

    m: Value
    n: Value
    phase: Value
    shift: Value = 0
    k_tiles: Value = 0
    first_k: Value = 0
    last_steps: Value = 0
    member: tuple[Value, ...] = ()
    begin: Value = 0
    end: Value = 0
    a_m: Value = 0

    @property
    def kept(self) -> tuple[Value, ...]:
        """What is kept of it while it is stored."""
        return self.m, self.n, self.phase, self.end, *self.member


class Cta:
    """Registers that are the same for all threads of a CTA."""

    def __init__(self, text: Text, plan: KernelNumbers, program: KernelProgram, types: dict[str, str]) -> None:
        self.text, self.plan, self.program, self._types = text, plan, program, types
        self.maps = 1 if not plan.phases else plan.phases  # of A, of rows that are realigned
        starts = MOST_STARTS // plan.element_bytes
        self.maps_a, self.maps_b = (
            starts if loose else LINES_ALIKE if aligned else one
            for loose, aligned, one in (
                (plan.loose_a, plan.aligned_a, self.maps),
                (plan.loose_b, plan.aligned_b, 1),
            )
        )
        along_m, along_n, _ = program.cluster
        ctas = program.ctas
        # Of the first CTA: those that share A with it, and B.
        self.masks = sum(1 << i * along_m for i in range(along_n)), (1 << along_m) - 1
        self.base = text.put("mov.u32", "memory")
        self.rank: Value = text.put("mov.u32", "%cluster_ctarank") if ctas > 1 else 0
        self.rank_m = text.rem(self.rank, along_m)
        self.rank_n = text.rem(text.div(self.rank, along_m), along_n)
        self.first_tile = text.div(text.put("mov.u32", "%ctaid.x"), ctas)
        self.tile_step = text.div(text.put("mov.u32", "%nctaid.x"), ctas)
        self.tiles = text.put("mul.lo.s32", self.parameter("tiles_m"), self.parameter("tiles_n"))
        for i in range(plan.batch):
            self.tiles = text.put("mul.lo.s32", self.tiles, self.parameter(f"batch_{i}"))

    def parameter(self, name: str) -> str:
        """Return a register with a parameter."""
        kind = self._types[name]
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
        found, number, tiles_m = self._member(number)
        tiles_n, group = self.parameter("tiles_n"), self.parameter("group")
        strip = text.put("mul.lo.s32", group, tiles_n)
        first = text.put("mul.lo.s32", text.div(number, strip), group)
        rows = text.least(text.sub(tiles_m or self.parameter("tiles_m"), first), group)
        within = text.rem(number, strip)
        along_m, along_n = text.add(first, text.rem(within, rows)), text.div(within, rows)
        phase, shift = self._phase(along_m, found)
        if plan.phase_tiles:
            along_m = text.div(along_m, self.maps)
        m = text.mul(text.mad(along_m, plan.cluster_m, self.rank_m), plan.tile_m)
        n = text.mul(text.mad(along_n, plan.cluster_n, self.rank_n), plan.tile_n)
        m = text.add(m, found.m)
        found = replace(found, m=m, n=n, phase=phase, shift=shift, a_m=m)
        if plan.k_cut:
            return self._cut(found)
        elements, all_, k_tiles, first_k = self._along_k(shift)
        if plan.sliced:
            k_tiles, first_k, of_a = self._slice(along_m, all_)
            a_m = text.mul(text.mad(of_a, plan.cluster_m, self.rank_m), plan.tile_m)
            found = replace(found, a_m=a_m)
        step = plan.tile_k // plan.steps
        within = text.rem(text.sub(elements, 1), plan.tile_k)
        last_steps = text.held(text.add(text.div(within, step), 1))
        if plan.split > 1 or plan.sliced:
            inner = text.when("ne.s32", text.add(first_k, k_tiles), all_)
            text.do(f"@{inner} mov.b32 {last_steps}, {plan.steps}")
        return replace(found, k_tiles=k_tiles, first_k=first_k, last_steps=last_steps)

    def _slice(self, along_m: Value, every: Value) -> tuple[Value, Value, Value]:
        """Return the k-tiles of the slice that a tile is of, the first of them, and the tile's place along A.

        Slices lie one below the other in C, and side by side in A and B.
        """
        text, plan = self.text, self.plan
        tiles = text.div(text.add(self.parameter("m"), plan.tile_m * plan.cluster_m - 1), plan.tile_m * plan.cluster_m)
        number, slices = text.div(along_m, tiles), text.div(self.parameter("tiles_m"), tiles)
        return *self._shared_out(every, slices, number), text.rem(along_m, tiles)

    def _shared_out(self, every: Value, parts: Value, number: Value) -> tuple[Value, Value]:
        """Return how many k-tiles a part of them has, and the first; the first parts have what is left over."""
        text = self.text
        each, left_over = text.div(every, parts), text.rem(every, parts)
        more = text.put("selp.s32", 1, 0, text.when("lt.s32", number, left_over))
        first = text.put("mad.lo.s32", each, number, text.least(number, left_over))
        return text.add(each, more), first

    def _member(self, number: Value) -> tuple[Tile, Value, Value]:
        """Return the member or group of a tile, with the group's first row, the tile's number in it, and tiles along m.

        These are 0 where they are those of every member.
        """
        text, plan, member = self.text, self.plan, list[Value]()
        if plan.rows_cut:
            tiles_n = self.parameter("tiles_n")
            group = group_of(self, number, tiles_n)
            own = told(self, group)
            first, last = own(0, TILE), own(1, TILE)
            number = text.sub(number, text.put("mul.lo.s32", first, tiles_n))
            return Tile(own(0, 0), 0, 0, member=(group,), end=own(1, 0)), number, text.sub(last, first)
        if plan.batch:
            each = text.put("mul.lo.s32", self.parameter("tiles_m"), self.parameter("tiles_n"))
            index = text.div(number, each)
            number = text.rem(number, each)
            for i in reversed(range(plan.batch)):
                extent = self.parameter(f"batch_{i}")
                member.insert(0, text.rem(index, extent))
                index = text.div(index, extent)
        return Tile(0, 0, 0, member=tuple(member)), number, 0

    def _cut(self, tile: Tile) -> Tile:
        """Return a tile of a group along k, which has as many k-tiles as a kernel needs though they be empty."""
        text, plan = self.text, self.plan
        own = told(self, tile.member[0])
        begin, end = own(0, 0), own(1, 0)
        needed = text.div(text.add(text.sub(end, begin), plan.tile_k - 1), plan.tile_k)
        k_tiles = text.most(needed, plan.least_k_tiles)
        return replace(tile, begin=begin, end=end, k_tiles=k_tiles, last_steps=plan.steps)

    def member_of(self, tile: Tile) -> Value:
        """Return the number of a tile's member, or of its group."""
        found, *others = tile.member
        for i, one in enumerate(others, start=1):
            found = self.text.put("mad.lo.s32", found, self.parameter(f"batch_{i}"), one)
        return found

    def c_of(self, tile: Tile) -> str:
        """Return the address of C, or of the C of a tile's member."""
        text, found = self.text, self.parameter("c")
        for i, one in enumerate(tile.member if self.plan.batch else ()):
            step = text.put("mul.lo.s64", self.parameter(f"c_step_{i}"), self.plan.result_bytes, kind="d")
            found = text.put("mad.lo.s64", step, text.wide(one), found, kind="d")
        return found

    def stages(self, number: Value) -> Value:
        """Return the stages that a tile takes, 0 where there is no such tile; rows in registers end one stage later."""
        text, plan = self.text, self.plan
        found = text.held(0)
        with text.only(text.when("lt.s32", number, self.tiles)):
            if plan.k_cut or plan.sliced:
                k_tiles = self.tile(number).k_tiles
            else:
                k_tiles = self._along_k(self.tile(number).shift if plan.phase_tiles else 0)[2]
            text.do(f"mov.b32 {found}, {text.add(k_tiles, int(plan.realign))}")
        return found

    def _phase(self, along_m: Value, tile: Tile) -> tuple[Value, Value]:
        """Return the phase of a tile's rows, and the elements that lie before them in their granule."""
        text = self.text
        if not self.plan.phase_tiles:
            return 0, 0
        phase = text.rem(along_m, self.maps)
        late = self.late("A", phase, tile)
        return phase, text.div(late, self.plan.element_bytes)

    def late(self, operand: str, line: Value, tile: Tile | None = None) -> Value:
        """Return the bytes in front of a line of A, or of B, in its granule, of a tile's member if that is told."""
        text, name = self.text, operand.lower()
        pitch = text.put("mul.lo.s32", text.narrow(self.parameter(f"{name}_pitch")), line)
        late = text.add(pitch, text.narrow(self.parameter(name)))
        front = self._in_front(operand, tile) if tile is not None else ""
        return text.rem(text.add(late, text.narrow(front)) if front else late, GRANULE_BYTES)

    def _in_front(self, operand: str, tile: Tile) -> str:
        """Return a register with the bytes in front of a tile's member, "" where members begin at whole granules."""
        text, found = self.text, ""
        if not (self.plan.loose_a if operand == "A" else self.plan.loose_b):
            return found
        for i, one in enumerate(tile.member):
            step = self.parameter(f"{operand.lower()}_step_{i}")
            found = text.put("mad.lo.s64", step, text.wide(one), found or 0, kind="d")
        return found

    def begins(self, operand: str, tile: Tile, alike: int, phase: Value) -> tuple[Value, tuple[Value, ...]]:
        """Return by which map lines of a phase come, of `alike`, and the coordinates of the tile's member in it.

        Of a member that begins anywhere there is one for each start in a granule, and as many more for phases that have
        a line less; its coordinate is the granule.
        """
        text, plan, name = self.text, self.plan, operand.lower()
        front = self._in_front(operand, tile)
        if not front:
            return phase, tile.member[::-1][: plan.a_axes if operand == "A" else plan.b_axes]
        along_k = plan.a_k_major if operand == "A" else plan.b_k_major
        lines = self.parameter("k" if not along_k else "m" if operand == "A" else "n")
        first = text.wide(text.rem(text.narrow(self.parameter(name)), GRANULE_BYTES))
        at = text.put("mad.lo.s64", self.parameter(f"{name}_pitch"), text.wide(phase), first, kind="d")
        at = text.put("add.s64", at, front, kind="d")
        fewer = text.put("selp.b32", GRANULE_BYTES, 0, text.when("ge.s32", phase, text.rem(lines, alike)))
        start = text.add(text.rem(text.narrow(at), GRANULE_BYTES), fewer)
        granule = text.narrow(text.put("shr.u64", at, GRANULE_BYTES.bit_length() - 1, kind="d"))
        return text.div(start, plan.element_bytes), (granule,)

    def _along_k(self, shift: Value) -> tuple[Value, Value, Value, Value]:
        """Return the elements of a tile along k, all k-tiles, and how many of them the CTA has, from which one on."""
        text, plan = self.text, self.plan
        elements = text.add(self.parameter("k"), shift)
        every = text.div(text.add(elements, plan.tile_k - 1), plan.tile_k)
        if plan.split == 1:
            return elements, every, every, 0
        return elements, every, *self._shared_out(every, plan.split, self.rank)

    # Loads: a CTA's share of what its cluster shares goes to all that share it.

    def load(self, operand: str, ring: Ring, barrier: str, tile: Tile, k_tile: Value) -> None:
        """Load the CTA's share of A or B."""
        text, plan = self.text, self.plan
        k = text.mul(text.add(tile.first_k, k_tile), plan.tile_k)
        wrapped: tuple[Value, ...] = ()
        if plan.k_cut:  # by a map that ends where the group does
            k, wrapped = text.add(text.sub(WRAPS, text.sub(tile.end, tile.begin)), k), (tile.end, WRAPS)
        full, stage = self.barrier(barrier, ring.stage), self.stage(ring)
        if operand == "A":
            sharing, mine = plan.cluster_n, self.rank_n
            boxes, parts, rows, size, at = plan.a_boxes, plan.a_parts, plan.a_box_rows, plan.a_box_bytes, 0
            along_k, start = plan.a_k_major, tile.a_m
        else:
            sharing, mine = plan.cluster_m, self.rank_m
            boxes, parts, rows, size, at = plan.b_boxes, plan.b_parts, plan.b_box_rows, plan.b_box_bytes, plan.b_offset
            along_k, start, k = plan.b_k_major, tile.n, text.sub(k, tile.shift)
        share, bring = boxes // sharing, self.bringing(operand, full)
        for i in range(share):
            box = text.mad(mine, share, i)
            part, block = (text.div(box, boxes // parts), text.rem(box, boxes // parts)) if parts > 1 else (0, box)
            to = text.add(stage, text.mad(block, rows * ROW_BYTES, text.mad(part, size, at)))
            row, late = text.mad(block, rows, start), text.mad(part, plan.tile_k // parts, k)
            phase: Value = 0 if operand == "B" else tile.phase
            if operand == "A" and plan.realign:  # a box for each phase
                phase, row = box, text.div(start, self.maps)
            number, member = self.begins(operand, tile, self.maps, phase)
            bring(to, number, (*((k, row) if along_k else (row, late)), *(wrapped or member)))

    def bringing(self, operand: str, full: str) -> Callable[[Value, Value, tuple[Value, ...]], None]:
        """Return what loads a box of A, or of B, to all CTAs that share it: to where, by which map, from where."""
        text, hint, first = self.text, self.parameter(f"{operand.lower()}_hint"), self.maps_a if operand == "B" else 0
        cast, ranks = "", ""
        if (self.plan.cluster_n if operand == "A" else self.plan.cluster_m) > 1:
            ranks = ", " + text.put("cvt.u16.u32", self._sharing(operand), kind="h")
            cast = ".multicast::cluster"

        def bring(to: Value, number: Value, corner: tuple[Value, ...]) -> None:
            text.do(
                f"cp.async.bulk.tensor.{len(corner)}d.shared::cluster.global.mbarrier::complete_tx::bytes{cast}"
                f".L2::cache_hint [{to}], "
                f"[{self.map(text.add(number, first))}, {braced(map(self._register, corner))}], {full}{ranks}, {hint}"
            )

        return bring

    def sharers(self, operands: str) -> str:
        """Return a register with the mask of the CTAs whose loads of some operands come here, "" if only its own do."""
        sharing = [name for name, size in (("A", self.plan.cluster_n), ("B", self.plan.cluster_m)) if size > 1]
        masks = [self._sharing(name) for name in operands if name in sharing]
        if not masks:
            return ""
        both = masks[0] if len(masks) == 1 else self.text.put("or.b32", *masks)
        return self.text.put("cvt.u16.u32", both, kind="h")

    def _sharing(self, operand: str) -> Value:
        """Return a register with a bit for each CTA that shares A, or B, with this one, and its own."""
        of_a, of_b = self.masks
        if operand == "A":
            return self.text.put("shl.b32", of_a, self.rank_m)
        return self.text.put("shl.b32", of_b, self.text.mul(self.rank_n, self.plan.cluster_m))

    def _register(self, value: Value) -> str:
        return value if isinstance(value, str) else self.text.held(value)
