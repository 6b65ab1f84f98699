"""C of a persistent kernel where each warp stores its own rows, in parts: by boxes, or by rows at any address."""

from __future__ import annotations

from legalsat.backends.ptx.consumer import GRANULE, LANES, SWIZZLE_ROW, Consumer, OfTile
from legalsat.backends.ptx.cta import Tile
from legalsat.backends.ptx.shift import WORD, Shift
from legalsat.backends.ptx.store import Store
from legalsat.backends.ptx.sums import packed
from legalsat.backends.ptx.tensor_memory import Fetcher
from legalsat.backends.ptx.text import Value, braced, grouped
from legalsat.plans.product_kernel import BLOCK_ROWS, WARPS

CORE = 8  # rows and columns of the matrices that stmatrix writes, and of those that accumulators come in


class Held(Store):
    """A tile of C on its way out, as C's type in registers; at first none, outside of C."""

    def __init__(self, consumer: OfTile, result: str) -> None:
        super().__init__(consumer, result)
        text, plan = self.text, self.plan
        self.kept, self.tile = consumer.held(plan.tile_n * plan.result_bytes // CORE)
        warp = text.mul(consumer.number, plan.buffers * plan.buffer_bytes)
        self.buffers = text.add(text.add(self.cta.base, plan.result_at), warp)

    def take(self, tile: Tile) -> None:
        """Take the accumulators of a tile; pairs of two bytes, or four of one, lie in a register, the first one low."""
        assert isinstance(self.consumer, Consumer)
        text, kind = self.text, (self.consumer.sums, self.result)
        for kept, accumulators in zip(self.kept, self.consumer.accumulators, strict=True):
            for to, several in zip(kept, grouped(accumulators, len(accumulators) // len(kept)), strict=True):
                (word,) = packed(text, several, kind)
                text.do(f"mov.b32 {to}, {word}")
        for mine, one in zip(self.tile.kept, tile.kept, strict=False):
            if isinstance(mine, str):
                text.do(f"mov.b32 {mine}, {one}")

    def fetch(self, tile: Tile, accumulator: Value, part: int) -> None:
        """Fetch a part of a tile's accumulator, as C's type."""
        assert isinstance(self.consumer, Fetcher)
        self.tile, atom = tile, part // self.plan.parts
        first, count = self.columns(part)
        sums, size = self.consumer.fetch(tile, accumulator, atom, (first, count)), self.plan.result_bytes
        words = [packed(self.text, some, (self.consumer.sums, self.result))[0] for some in grouped(sums, 4 // size)]
        begin = first * size // CORE
        self.kept[atom][begin : begin + len(words)] = words

    def columns(self, part: int) -> tuple[int, int]:
        """Return the first column of a part, and how many it has."""
        return self.first_column(part), self.plan.store_columns

    def _half(self, word: str) -> str:
        """Return a register with the lower half of a word."""
        return self.text.put("cvt.u16.u32", word, kind="h")

    def buffer(self, number: int) -> Value:
        """Return the address of the warp's buffer."""
        return self.text.add(self.buffers, number * self.plan.buffer_bytes)

    def first_column(self, part: int) -> int:
        """Return where a part begins in the tile, with which the last one ends."""
        return min(part % self.plan.parts * self.plan.store_columns, self.plan.tile_n - self.plan.store_columns)

    def send_box(self, map_: str, corner: tuple[Value, ...], source: Value) -> None:
        """Store a box of the tile's member by a map."""
        places = (*corner, *self.tile.member[::-1][: self.plan.c_axes])
        self.text.do(
            f"cp.async.bulk.tensor.{len(places)}d.global.shared::cta.bulk_group "
            f"[{map_}, {braced(map(str, places))}], [{source}]"
        )

    def words(self, part: int) -> list[str]:
        """Return the registers of a part."""
        first, count = (
            columns * self.plan.result_bytes // CORE for columns in (self.first_column(part), self.plan.store_columns)
        )
        return self.kept[part // self.plan.parts][first : first + count]

    def row(self, part: int) -> Value:
        """Return the first of the warp's 16 rows of a part, within the tile."""
        return self.text.add(self.consumer.row, part // self.plan.parts * self.consumer.atom_rows)


class ByBoxes(Held):
    """C by the copy engine, which unswizzles what lies in shared memory."""

    def __init__(self, consumer: OfTile, result: str) -> None:
        super().__init__(consumer, result)
        text, plan, lane = self.text, self.plan, consumer.lane
        self._span = span = plan.store_columns * plan.result_bytes  # bytes of a box's rows, and of its swizzle
        # Of stmatrix a lane has the address of a row of 8 or of 16 bytes further on, else that of its own pair.
        row, granule = text.rem(lane, 16), text.div(lane, 16)
        pair: Value = 0
        if plan.result_bytes != 2:
            at = text.mul(text.rem(lane, 4), 2 * plan.result_bytes)
            row, granule, pair = text.div(lane, 4), text.div(at, GRANULE), text.rem(at, GRANULE)
        # Swizzles move a granule by the number of its line of 128 bytes.
        line = text.rem(text.div(row, SWIZZLE_ROW // span), span // GRANULE)
        self._start = text.mad(row, span, pair)
        self._late = text.mul(text.xor(granule, line), GRANULE)

    def write(self, part: int, buffer: int) -> None:
        """Lay a part of the warp's rows down as a box."""
        text, columns = self.text, self.plan.store_columns
        start = text.add(self.buffer(buffer), self._start)
        if self.plan.result_bytes == 1:  # 8 columns, rows 0 to 7 in the lower half of a word
            for i, word in enumerate(self.words(part)):
                at = text.add(start, text.xor(self._late, i // 2 * GRANULE))
                for half, one in enumerate((word, text.put("shr.b32", word, 16))):
                    text.do(f"st.shared.b16 [{at}+{half * CORE * columns + i % 2 * CORE}], {self._half(one)}")
            return
        for i, words in enumerate(grouped(self.words(part), 4)):
            at = text.add(start, text.xor(self._late, i * 2 * GRANULE))
            if self.plan.result_bytes == 2:  # 16 columns
                text.do(f"stmatrix.sync.aligned.m8n8.x4.shared.b16 [{at}], {braced(words)}")
            else:  # 8 columns, rows 0 to 7 and 8 to 15
                for half, pair in enumerate(grouped(words, 2)):
                    text.do(f"st.shared.v2.b32 [{at}+{half * CORE * columns * 4}], {braced(pair)}")

    def send(self, part: int, buffer: int) -> None:
        """Store a box, by one lane."""
        text = self.text
        with text.only(self.consumer.leader):
            number = text.add(self.tile.phase, self.cta.maps_a + self.cta.maps_b)
            column = text.add(self.tile.n, self.first_column(part))
            row = text.add(self.tile.m, self.row(part))
            if not self.plan.rows_cut:
                self.send_box(self.cta.map(number), (column, row), self.buffer(buffer))
                return
            # Of the window that ends where the box does, or its group.
            left = text.least(text.sub(self.tile.end, row), self.plan.store_rows)
            with text.only(text.when("gt.s32", left, 0)):
                within = text.sub(self.plan.store_rows, left)
                corner = column, within, text.add(row, left)
                self.send_box(self.cta.map(number), corner, self.buffer(buffer))


class ByColumns(Held):
    """C^T by the copy engine: the warps of a consumer turn blocks of 64 rows together, of which each stores a box."""

    def __init__(self, consumer: OfTile, result: str) -> None:
        super().__init__(consumer, result)
        text, plan, lane, warp = self.text, self.plan, consumer.lane, consumer.warp
        whole = text.mul(consumer.group, plan.buffers * plan.buffer_bytes)
        self.buffers = text.add(text.add(self.cta.base, plan.result_at), whole)
        down = BLOCK_ROWS // plan.store_rows  # boxes of a block along its rows
        across = WARPS // down
        self._box = plan.store_columns // across  # columns of one
        self._row = text.mul(text.div(warp, across), plan.store_rows)
        self._column = text.mul(text.rem(warp, across), self._box)
        # Where columns lie, whose granules the swizzle moves by their numbers.
        if plan.realign:
            self._lanes = self._apart()
            return
        if plan.result_bytes == 2:
            column, number = text.rem(lane, CORE), text.mad(warp, 2, text.rem(text.div(lane, CORE), 2))
            late = text.mul(text.xor(number, column), GRANULE)
            column = text.mad(text.div(lane, 2 * CORE), CORE, column)
            self._lanes = [text.mad(column, SWIZZLE_ROW, late)]
            return
        row, pair = text.div(lane, 4), text.mul(text.rem(lane, 4), 2)
        number = text.mad(text.rem(warp, across), CORE // 2, text.div(row, 4))
        start = text.mad(text.div(warp, across), plan.store_columns * SWIZZLE_ROW, text.mul(text.rem(row, 4), 4))
        self._lanes = []
        for half in range(2):  # of 16 rows
            for column in (pair, text.add(pair, 1)):
                late = text.mul(text.xor(text.add(number, 2 * half), column), GRANULE)
                self._lanes.append(text.add(text.mad(column, SWIZZLE_ROW, late), start))

    def _apart(self) -> list[Value]:
        """Return where a lane's first two columns lie of rows that are realigned, in words of its warp's."""
        text, size = self.text, self.plan.result_bytes
        row, pair = text.div(self.consumer.lane, 4), text.mul(text.rem(self.consumer.lane, 4), 2)
        bytes_ = text.mad(row, CORE * size, text.mul(self.consumer.warp, 2 * size))
        late = text.rem(bytes_, SWIZZLE_ROW)
        begin = text.mad(text.div(bytes_, SWIZZLE_ROW), self.plan.store_columns * SWIZZLE_ROW, text.rem(late, GRANULE))
        found: list[Value] = []
        for column in (pair, text.add(pair, 1)):
            granule = text.mul(text.xor(text.div(late, GRANULE), column), GRANULE)
            found.append(text.add(text.mad(column, SWIZZLE_ROW, granule), begin))
        return found

    def write(self, part: int, buffer: int) -> None:
        """Lay the warp's rows of a part down as columns."""
        text, start = self.text, self.buffer(buffer)
        starts = [text.add(start, one) for one in self._lanes]
        if self.plan.realign:  # rows of both halves are neighbours in C
            for i, words in enumerate(grouped(self.words(part), self.plan.result_bytes)):
                for column, at in enumerate(starts):
                    to = f"{at}+{i * CORE * SWIZZLE_ROW}"
                    if self.plan.result_bytes == 2:
                        both = text.put("prmt.b32", *words, ("0x5410", "0x7632")[column])
                        text.do(f"st.shared.b32 [{to}], {both}")
                    else:
                        text.do(f"st.shared.v2.b32 [{to}], {braced((words[column], words[2 + column]))}")
            return
        for i, words in enumerate(grouped(self.words(part), 4)):
            if self.plan.result_bytes == 2:  # 16 columns, or the last 8
                to, shape = f"[{starts[0]}+{i * 2 * CORE * SWIZZLE_ROW}]", f"m8n8.x{len(words)}.trans"
                text.do(f"stmatrix.sync.aligned.{shape}.shared.b16 {to}, {braced(words)}")
            else:  # 8 columns
                for at, word in zip(starts, words, strict=True):
                    text.do(f"st.shared.b32 [{at}+{i * CORE * SWIZZLE_ROW}], {word}")

    def send(self, part: int, buffer: int) -> None:
        """Store the warp's box of a part, by one lane."""
        text, plan, group_row = self.text, self.plan, self.consumer.group_row
        with text.only(self.consumer.leader):
            row = text.add(text.add(self.tile.m, group_row), text.add(self._row, part // plan.parts * BLOCK_ROWS))
            column = text.add(self.tile.n, text.add(self._column, self.first_column(part)))
            at = text.mad(self.consumer.warp, self._box * SWIZZLE_ROW, self.buffer(buffer))
            self.send_box(self.cta.map(self.cta.maps_a + self.cta.maps_b), (row, column), at)


class ByRows(Held):
    """C by threads, rows at any address: whole granules, and both ends of each row element by element."""

    def __init__(self, consumer: OfTile, result: str) -> None:
        super().__init__(consumer, result)
        plan = self.plan
        self._granules = plan.tile_n * plan.result_bytes // GRANULE
        self._pitch = (self._granules | 1) * GRANULE  # from row to row: an odd number of granules spreads banks

    def columns(self, part: int) -> tuple[int, int]:
        """Return all columns."""
        return 0, self.plan.tile_n

    def write(self, part: int, buffer: int) -> None:
        """Lay 8 rows side by side in shared memory, each from the beginning of a granule."""
        text, lane, half = self.text, self.consumer.lane, part % self.plan.parts
        kept, granules, start = self.kept[part // self.plan.parts], self._granules, self.buffer(buffer)
        text.meet_lanes()
        if self.plan.result_bytes == 2:
            at = text.mad(text.rem(lane, CORE), self._pitch, text.mad(text.div(lane, CORE), GRANULE, start))
            whole = granules // 4 * 4
            for i, count in [*((i, 4) for i in range(0, whole, 4)), *((i, 1) for i in range(whole, granules))]:
                matrices = braced(kept[2 * (i + j) + half] for j in range(count))
                text.do(f"stmatrix.sync.aligned.m8n8.x{count}.shared.b16 [{at}+{i * GRANULE}], {matrices}")
        elif self.plan.result_bytes == 1:
            at = text.mad(text.div(lane, 4), self._pitch, text.mad(text.rem(lane, 4), 2, start))
            for eight, word in enumerate(kept):
                text.do(f"st.shared.b16 [{at}+{eight * CORE}], {self._half(text.put('shr.b32', word, 16 * half))}")
        else:
            at = text.mad(text.div(lane, 4), self._pitch, text.mad(text.rem(lane, 4), CORE, start))
            for eight, words in enumerate(grouped(kept, 4)):
                pair = words[2 * half : 2 * half + 2]
                text.do(f"st.shared.v2.b32 [{at}+{eight * CORE * 4}], {braced(pair)}")

    def read(self, part: int, buffer: int) -> None:
        """Write 8 rows to C; granules at the ends of rows belong to neighbours as well."""
        text, lane = self.text, self.consumer.lane
        start, first = self.buffer(buffer), text.add(self.row(part), part % self.plan.parts * CORE)
        text.meet_lanes()
        lanes = 32 if self._granules > 16 else 16 if self._granules > 8 else 8  # that share a row
        row = text.held(text.div(lane, lanes))
        with text.loop(row, CORE, LANES // lanes):
            to, size = self._run(text.add(first, row))
            head = self._head(to)
            staged = text.mad(row, self._pitch, start)
            for i in range(0, self._granules, lanes):
                at = text.sub(text.mul(text.add(text.rem(lane, lanes), i), GRANULE), head)
                inside = text.when("ge.s32", at, 0)
                inside = text.put("setp.le.and.s32", text.add(at, GRANULE), size, inside, kind="p")
                with text.only(inside):
                    words = self._bytes(staged, at)
                    text.do(f"st.global.v4.b32 [{text.put('add.s64', to, text.wide(at), kind='d')}], {braced(words)}")
        self._ends(start, first)

    def _run(self, row: Value) -> tuple[str, Value]:
        """Return the address in C of a row of the tile, and its bytes, 0 where C has no such row."""
        text, plan, tile = self.text, self.plan, self.tile
        phases = self.cta.maps
        target = text.add(tile.m, row)
        if plan.phase_tiles:
            target = text.mad(target, phases, tile.phase)
        elif plan.realign:  # eight rows of a phase are neighbours
            within = text.rem(row, CORE * phases)
            own = text.mad(text.rem(row, CORE), phases, text.div(within, CORE))
            target = text.add(tile.m, text.add(text.sub(row, within), own))
        count = text.least(text.sub(self.cta.parameter("n"), tile.n), plan.tile_n)
        inside = text.when("lt.s32", target, tile.end if plan.rows_cut else self.cta.parameter("m"))
        size = text.put("selp.b32", text.mul(text.most(count, 0), plan.result_bytes), 0, inside)
        element = text.put("mad.lo.s64", self.cta.parameter("c_pitch"), text.wide(target), text.wide(tile.n), kind="d")
        return text.put("mad.lo.s64", element, plan.result_bytes, self.cta.c_of(tile), kind="d"), size

    def _head(self, to: str) -> Value:
        """Return the bytes of a row's first granule that are not its own."""
        return self.text.rem(self.text.narrow(to), GRANULE)

    def _bytes(self, row: Value, at: Value) -> list[str]:
        """Return 16 bytes of a staged row from one on; as many follow them."""
        text = self.text
        late = text.rem(at, GRANULE)
        begin = text.add(row, text.sub(at, late))
        words = [text.new() for _ in range(8)]
        text.do(f"ld.shared.v4.b32 {braced(words[:4])}, [{begin}]")
        for low, high in zip(words, words[4:], strict=False):
            text.do(f"mov.b32 {high}, {low}")
        with text.only(text.when("ne.s32", late, 0)):
            text.do(f"ld.shared.v4.b32 {braced(words[4:])}, [{begin}+{GRANULE}]")
        return Shift(text, late, whole=self.plan.result_bytes == WORD).moved(words)

    def _ends(self, start: Value, first: Value) -> None:
        text, size = self.text, self.plan.result_bytes
        elements = GRANULE // size
        for begin in range(0, CORE * 2 * elements, LANES):
            number = text.add(self.consumer.lane, begin)
            row = text.div(number, 2 * elements)
            late = text.when("ne.s32", text.rem(text.div(number, elements), 2), 0)
            to, count = self._run(text.add(first, row))
            head = self._head(to)
            starts = text.when("ne.s32", head, 0)
            front = text.put("selp.b32", text.least(text.sub(GRANULE, head), count), 0, starts)
            whole = text.mul(text.div(text.add(head, count), GRANULE), GRANULE)
            back = text.most(text.sub(whole, head), front)
            side = text.put("selp.b32", back, 0, late)
            at = text.mad(text.rem(number, elements), size, side)
            with text.only(text.when("lt.s32", at, text.put("selp.b32", count, front, late))):
                element, kind = text.new("h" if size < 4 else "r"), "u8" if size == 1 else f"b{8 * size}"
                text.do(f"ld.shared.{kind} {element}, [{text.add(text.mad(row, self._pitch, start), at)}]")
                there = text.put("add.s64", to, text.wide(at), kind="d")
                text.do(f"st.global.{kind} [{there}], {element}")
