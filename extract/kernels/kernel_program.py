"""The program of a product's kernel: what its roles do, tile after tile.

One warpgroup loads, and consumer warpgroups multiply and store, all tiles of a CTA, whatever their number and that of
their k-tiles. `legalsat.backends.cute` prints it operation by operation; what is proven is what each role of each CTA
does by it.
"""

from __future__ import annotations

from functools import lru_cache

from legalsat.extract.kernels.for_extents import for_any_extents
from legalsat.extract.kernels.product_maps import STORE_ROWS, box_columns, turned_columns
from legalsat.extract.kernels.unfolded import unfolded
from legalsat.plans.product_kernel import (
    ALIGNER_REGISTERS,
    BLOCK_ROWS,
    ISSUER_REGISTERS,
    WARPS,
    ProductKernel,
    row_pitch,
)
from legalsat.program.kernel import (
    AlignLines,
    Body,
    Clear,
    ClearOthers,
    FetchSums,
    FindColumns,
    FindGroups,
    FindRows,
    IfLate,
    IfWhole,
    KernelOperation,
    KernelProgram,
    KernelRole,
    KTiles,
    LoadShare,
    MeetSetup,
    MultiplyRows,
    Only,
    Parts,
    Phases,
    ReadPeers,
    ReadRows,
    Release,
    ReleaseDone,
    SlideSums,
    StoreColumns,
    StoreElements,
    StoreSectors,
    Tiles,
)
from legalsat.program.pipeline import (
    Advance,
    Allocate,
    Arrive,
    At,
    AwaitGrid,
    BarrierRing,
    BufferRing,
    Commit,
    CommitTo,
    Expect,
    Fence,
    Free,
    LaunchDependents,
    Loop,
    Multiply,
    Pipeline,
    Read,
    Registers,
    Relinquish,
    Start,
    Store,
    SumsRing,
    Sync,
    Trips,
    UseSums,
    Wait,
    WaitGroup,
    Write,
)
from legalsat.program.stream_k import AddGiven, GiveSums

NARROW_COLUMNS = 64  # of a tile whose accumulators leave registers for the fragments of two stages of A
LOADED, ALIGNED, MULTIPLIED, STORED = At("loaded"), At("aligned"), At("multiplied"), At("stored")
CLEARED = At("cleared")
SUMMED = At("summed")  # of the accumulators in tensor memory
BEFORE, NEXT = At("multiplied", -1), At("multiplied", 1)  # stages of the k-tiles before and after
SUMS, OWN_C = "accumulator {i}", "C{i}"
IN_TENSOR_MEMORY = "accumulators"
FETCH, MET = Fence("tcgen05.after"), Fence("tcgen05.before")  # what orders tensor memory with waits, and with arrivals
ALLOCATED = Sync("block")  # where all meet when tensor memory is allocated, and before it is freed
BY_THREADS = {"rows": Read, "lapped": StoreSectors, "elements": StoreElements}  # how rows leave that a warp laid down


def kernel_program(kernel: ProductKernel, result_bytes: int) -> Pipeline:
    """Return what each role of each CTA of a cluster does in a kernel, which is what is proven.

    Args:
        kernel: how the product is computed.
        result_bytes: of an element of C.
    """
    return _unfolded(for_any_extents(kernel), result_bytes)


def printed_program(kernel: ProductKernel, result_bytes: int) -> KernelProgram:
    """Return the program of a kernel as it is printed; arguments as of `kernel_program`."""
    return _printed(for_any_extents(kernel), result_bytes)


@lru_cache(maxsize=1024)
def _unfolded(kernel: ProductKernel, result_bytes: int) -> Pipeline:
    return unfolded(_printed(kernel, result_bytes))


@lru_cache(maxsize=1024)
def _printed(kernel: ProductKernel, result_bytes: int) -> KernelProgram:
    return _Program(kernel, result_bytes).whole()


def parts_across(kernel: ProductKernel, result_bytes: int) -> int:
    """Return in how many parts 64 rows leave: boxes side by side, or each warp's 8 rows and 8 rows."""
    if kernel.turns:
        return -(-kernel.tile[1] // turned_columns(kernel.tile[1], result_bytes))
    return -(-kernel.tile[1] // box_columns(kernel, result_bytes)) if kernel.store == "tma" else 2


class _Program:
    def __init__(self, kernel: ProductKernel, result_bytes: int) -> None:
        self.kernel, self.result_bytes = kernel, result_bytes
        self.readers = 1 if kernel.ping_pong else kernel.warpgroups  # of a stage
        rows, _, _ = kernel.tile
        self.a_bytes, self.b_bytes = kernel.tile_bytes
        # Operands that are aligned, with the bytes of granules that hold their lines; and bytes of those that are not.
        sides = zip("AB", kernel.lines, kernel.aligned, strict=True)
        self.lines = {name: one.bytes for name, one, aligned in sides if aligned and one is not None}
        self.boxed = {name: size for name, size in (("A", self.a_bytes), ("B", self.b_bytes)) if name not in self.lines}
        self.by_boxes, self.by_lines = "".join(self.boxed), "".join(self.lines)
        self.blocks = rows // BLOCK_ROWS // self.readers  # of 64 rows, of a consumer
        # Consumers that change what was loaded change their own rows.
        self.own_rows = kernel.realign == "tiles" and self.readers > 1
        self.meet = Sync("cluster" if kernel.cluster_blocks > 1 else "block")

    def whole(self) -> KernelProgram:
        kernel, stages = self.kernel, self.kernel.stages
        parts = [f"A{i}" for i in range(self.readers)] if kernel.realign == "tiles" else ["A"]
        arrivals = self.sharing(self.by_boxes) * (1 if kernel.issues else self.readers * WARPS)
        brought = bool(self.boxed) and not kernel.clipped  # by boxes, which nobody changes before it is multiplied
        return KernelProgram(
            barriers=(
                BarrierRing("full", stages, brought + WARPS * kernel.mends, brought * sum(self.boxed.values())),
                BarrierRing("empty", stages, arrivals),
                *self.mended(),
                *self.accumulated(),
            ),
            buffers=(
                *(BufferRing(name, stages, self.a_bytes // len(parts)) for name in parts),
                BufferRing("B", stages, self.b_bytes),
                *(BufferRing(f"lines of {name}", stages, size) for name, size in self.lines.items()),
                *self.results(),
            ),
            setup=(
                *map(Start, ("full", "empty", *(one.name for one in (*self.mended(), *self.accumulated())))),
                Fence("mbarrier_init"),
            ),
            everybody=(MeetSetup(), AwaitGrid(), *([FindGroups()] if kernel.groups else [])),
            roles=(
                KernelRole("consumer", self.consumer(), kernel.warpgroups),
                KernelRole("producer", self.producer(), one_thread=True),
                *([KernelRole("issuer", self.issuer(), one_thread=True)] if kernel.issues else []),
                *([KernelRole("aligner", self.aligner())] if self.lines else []),
                *([KernelRole("clearer", self.clearer())] if kernel.clipped else []),
            ),
            cluster=(*kernel.cluster, kernel.split),
            least_k_tiles=kernel.fewest_k_tiles,
            batch=kernel.batch,
            loose=kernel.loose,
            sums=(SumsRing(IN_TENSOR_MEMORY, kernel.accumulators),) if kernel.issues else (),
            stream_k=kernel.stream_k,
        )

    def sharing(self, operands: str) -> int:
        """Return how many CTAs loads of some operands go to or come from, itself among them."""
        along_m, along_n = self.kernel.cluster
        return 1 + (along_n - 1) * ("A" in operands) + (along_m - 1) * ("B" in operands)

    def mended(self) -> tuple[BarrierRing, ...]:
        """Return the barriers of what is mended: when it has come, and when lines that are aligned have been read."""
        stages = self.kernel.stages
        if self.kernel.clipped:
            return (BarrierRing("brought", stages, 1, sum(self.boxed.values())),)
        if not self.lines:
            return ()
        return BarrierRing("lines", stages, 1, sum(self.lines.values())), BarrierRing(
            "read", stages, self.sharing(self.by_lines) * WARPS
        )

    def accumulated(self) -> tuple[BarrierRing, ...]:
        """Return the barriers of accumulators in tensor memory: when one is summed up, and when it was fetched."""
        kernel, count = self.kernel, self.kernel.accumulators
        if not kernel.issues:
            return ()
        return BarrierRing("summed", count, 1), BarrierRing("fetched", count, kernel.warpgroups * WARPS)

    def results(self) -> list[BufferRing]:
        """Return the buffers through which C leaves: of each consumer, or of all where they share it."""
        kernel = self.kernel
        if kernel.store == "sums":
            return [BufferRing("C", 1, kernel.shared_bytes - self.ring_bytes)]
        stages = kernel.buffers if kernel.by_boxes or kernel.turns else 1
        together = STORED.cursor if kernel.turns else ""
        return [BufferRing(f"C{i}", stages, self.chunk_bytes, (), together) for i in range(kernel.warpgroups)]

    @property
    def ring_bytes(self) -> int:
        """Bytes of the stages and their barriers."""
        barriers = 8 * (2 + len(self.mended()))
        return self.kernel.stages * (self.a_bytes + self.b_bytes + sum(self.lines.values()) + barriers)

    @property
    def chunk_bytes(self) -> int:
        """Bytes that a consumer's warps lay down at a time on C's way out."""
        if self.kernel.in_rows:  # in a pitch that spreads rows over the banks
            return WARPS * 8 * int(row_pitch(self.kernel.tile[1], self.result_bytes))
        if self.kernel.turns:
            return BLOCK_ROWS * turned_columns(self.kernel.tile[1], self.result_bytes) * self.result_bytes
        return WARPS * STORE_ROWS * box_columns(self.kernel, self.result_bytes) * self.result_bytes

    # Producer.

    def producer(self) -> Body:
        kernel = self.kernel
        free, load_a = Wait("empty", LOADED, before=True), LoadShare("A", LOADED, "full")
        whole: Body = ()
        if self.lines:
            loads = (LoadShare(name, LOADED, "lines", f"lines of {name}") for name in self.lines)
            whole += (Wait("read", LOADED, before=True), Expect("lines", LOADED, sum(self.lines.values())), *loads)
        if self.boxed:
            barrier = "brought" if kernel.clipped else "full"
            loads = (LoadShare(name, LOADED, barrier) for name in self.boxed)
            whole += (free, Expect(barrier, LOADED, sum(self.boxed.values())), *loads)
        whole += (Advance("loaded"),)
        # Rows that are read from where they start end in a stage more, which has B, beyond its end, where others share
        # it: consumers may not be done with a stage before all who share it have seen that it was free.
        ends: Body = (free, Expect("full", LOADED, self.a_bytes), load_a, Advance("loaded"))
        ends = whole if self.sharing("B") > 1 else ends
        tile: Body = (KTiles(whole), *(ends if kernel.realign == "registers" else ()))
        if kernel.slides:
            tile = (*tile, Phases(kernel.slides, tile))
        tiles = Tiles(tile, once=kernel.store == "sums")
        # Kernels behind come in once all loads are on their way: sooner they gained no more, and some lost by it.
        body: Body = (Registers(kernel.registers[1], more=False), tiles, LaunchDependents())
        # Others may still have to say that they are done with what was sent to them.
        sent = [("read", self.by_lines), ("empty", self.by_boxes)]
        waits = [Wait(barrier, LOADED, before=True) for barrier, operands in sent if self.sharing(operands) > 1]
        if waits:
            body += (Loop(Trips("", kernel.stages), (*waits, Advance("loaded"))),)
        if kernel.issues:
            return (ALLOCATED, *body, ALLOCATED)
        return (*body, self.meet, self.meet) if kernel.split > 1 else body

    # Issuer.

    def issuer(self) -> Body:
        """Return how one thread has tcgen05 multiply all k-tiles of a tile, and who allocates tensor memory for it."""
        multiply: Body = (
            Wait("full", MULTIPLIED),
            FETCH,
            Multiply("tcgen05", (("A", MULTIPLIED), ("B", MULTIPLIED)), IN_TENSOR_MEMORY, SUMMED),
            ReleaseDone("empty", MULTIPLIED, self.by_boxes),
            Advance("multiplied"),
        )
        tile: Body = (
            Wait("fetched", SUMMED, before=True),
            FETCH,
            KTiles(multiply),
            CommitTo("summed", SUMMED),
            Advance("summed"),
        )
        columns = self.kernel.tensor_columns
        return (
            Allocate(columns, (IN_TENSOR_MEMORY,)),
            Relinquish(),
            MET,
            ALLOCATED,
            FETCH,
            Registers(ISSUER_REGISTERS, more=False),
            FindColumns(),
            Tiles(tile),
            ALLOCATED,
            FETCH,
            Free(columns),
        )

    # Aligner.

    def aligner(self) -> Body:
        """Return how lines get to where whole ones would lie, once those have come and the stage is free."""
        kernel = self.kernel
        turn: Body = (
            Wait("lines", ALIGNED),
            Wait("empty", ALIGNED, before=True),
            *(AlignLines(name, f"lines of {name}", ALIGNED) for name in self.lines),
            Fence("proxy.async"),
            Release("read", ALIGNED, self.by_lines),
            Arrive("full", ALIGNED, WARPS),
            Advance("aligned"),
        )
        hand = Registers(ALIGNER_REGISTERS, more=False)
        body: Body = (hand, Tiles((KTiles(turn),), once=kernel.store == "sums"))
        if kernel.issues:
            return (ALLOCATED, *body, ALLOCATED)
        return (*body, self.meet, self.meet) if kernel.split > 1 else body

    # Clearer.

    def clearer(self) -> Body:
        """Return how the first and the last k-tile of a group lose what is others', before either is multiplied."""

        def turn(*mend: KernelOperation) -> Body:
            done = (Fence("proxy.async"), Arrive("full", CLEARED, WARPS), Advance("cleared"))
            return (Wait("brought", CLEARED), *mend, *done)

        first, last = (turn(ClearOthers(CLEARED, last)) for last in (False, True))
        tile = (*first, KTiles(turn(), after=1, before=1), *last)
        return (Registers(ALIGNER_REGISTERS, more=False), Tiles(tile, once=self.kernel.store == "sums"))

    # Consumers.

    def consumer(self) -> Body:
        kernel = self.kernel
        if kernel.issues:
            return self.fetcher()
        hand = Registers(kernel.registers[0], more=True)
        drain: Body = (WaitGroup("bulk", 0, read=True),) if kernel.by_boxes else ()
        tile = (*self.mainloop(), *self.epilogue())
        if kernel.ping_pong:
            # Each turn is of one consumer, which goes on in the ring where the other one got to.
            mine = Sync("turn {i}", cursor="multiplied")
            other = Sync("turn {other}", waits=False, cursor="multiplied")
            turn = (mine, *self.mainloop(), other, *self.epilogue())
            return (hand, Only(1, (other,)), Tiles(turn, turns=2), *drain)
        if kernel.store == "sums":
            return (hand, Tiles(tile, once=True))
        kept = self.store(0, self.chunks) if kernel.overlapped else ()
        return (hand, Tiles(tile), *kept, *drain)

    def fetcher(self) -> Body:
        """Return how a consumer fetches accumulators from tensor memory, part by part, and stores them."""
        kernel = self.kernel
        drain: Body = (WaitGroup("bulk", 0, read=True),) if kernel.by_boxes else ()
        fetched = (MET, Arrive("fetched", SUMMED, WARPS), Advance("summed"))
        tile: Body = (Wait("summed", SUMMED), FETCH, *self.store(0, self.chunks), *fetched)
        begin: Body = (Registers(kernel.registers[0], more=True), ALLOCATED, FETCH, FindColumns())
        return (*begin, Tiles(tile), *drain, MET, ALLOCATED)

    def mainloop(self) -> Body:
        """Return the multiplications of a tile; a stage is released once the next one's group is under way."""
        kernel = self.kernel
        if kernel.through_registers:
            return self.from_registers()
        part = "A" if kernel.realign != "tiles" else "A{i}" if self.own_rows else "A0"
        multiply: Body = (
            Wait("full", MULTIPLIED),
            Fence("wgmma"),
            Multiply("wgmma", ((part, MULTIPLIED), ("B", MULTIPLIED)), SUMS),
            Commit("wgmma"),
        )
        release = Release("empty", BEFORE, self.by_boxes)
        following: Body = (*multiply, WaitGroup("wgmma", 1), release, Advance("multiplied"))
        heads: Body = ()
        if kernel.realign == "tiles":
            rows = Sync("rows {i}")
            heads = (IfLate((Wait("full", MULTIPLIED), Write(part, MULTIPLIED), Fence("proxy.async"), rows)),)
        aside: Body = ()
        for stage in range(kernel.overlapped):
            aside += (*self.aside(stage), *following)

        def all_k(begin: Body, done: int) -> Body:
            """Return the multiplications of all k-tiles, or of those of a phase."""
            rest = KTiles(following, after=done, short=True)
            return (*multiply, Advance("multiplied"), *begin, rest, WaitGroup("wgmma", 0), release)

        slid: Body = ()
        if kernel.slides:
            slid = (Phases(kernel.slides, (SlideSums(SUMS), *all_k((), 1))),)
        return (Clear(), *heads, *all_k(aside, 1 + kernel.overlapped), *slid)

    def from_registers(self) -> Body:
        """Return the mainloop whose A goes through registers: of rows a stage's last step reads into the next one.

        With few columns a stage's fragments are read while the one before is multiplied, and two sets of registers take
        turns; with more they are a step's.
        """
        steps = len(self.kernel.b.offsets[0])
        narrow = self.kernel.tile[1] <= NARROW_COLUMNS
        release, ends = Release("empty", BEFORE), not self.kernel.woven  # of rows, which lie in the next stage

        def groups(first: int) -> list[Body]:
            chosen = [tuple(range(steps))] if narrow else [(step,) for step in range(steps)]
            sets = [first] if narrow else [step % 2 for step in range(steps)]
            return [
                (
                    ReadRows(MULTIPLIED, some, ends and steps - 1 in some, kept),
                    Fence("wgmma"),
                    MultiplyRows(MULTIPLIED, some, kept),
                    Commit("wgmma"),
                    WaitGroup("wgmma", 1),
                )
                for some, kept in zip(chosen, sets, strict=True)
            ]

        # The stage behind the last k-tile brought the ends of rows alone.
        last: Body = (Release("empty", MULTIPLIED), Advance("multiplied")) if ends else ()
        (first, *others), (again, *rest) = groups(0), groups(-1)
        turn = (
            Wait("full", NEXT if ends else MULTIPLIED),
            *again,
            release,
            *(op for one in rest for op in one),
            Advance("multiplied"),
        )
        return (
            Clear(),
            FindRows(),
            Wait("full", MULTIPLIED),
            *([Wait("full", NEXT)] if ends else []),
            *first,
            *(op for one in others for op in one),
            Advance("multiplied"),
            KTiles(turn, after=1, sets=2 if narrow else 1),
            WaitGroup("wgmma", 0),
            release,
            *last,
        )

    # C.

    @property
    def chunks(self) -> int:
        """In how many parts a consumer stores a tile."""
        return self.blocks * parts_across(self.kernel, self.result_bytes)

    def aside(self, stage: int) -> Body:
        """Return the parts of the tile before that are stored while a stage is multiplied."""
        first, last = (i * self.chunks // self.kernel.overlapped for i in (stage, stage + 1))
        return self.store(first, last - first)

    def epilogue(self) -> Body:
        """Return how a tile's accumulator becomes C."""
        take = UseSums(SUMS)
        if self.kernel.store == "sums":
            return (take, *self.reduce())
        stored: Body = (take,) if self.kernel.overlapped else (take, *self.store(0, self.chunks))
        if self.kernel.stream_k:
            return (IfWhole((GiveSums(SUMS),), whole=False), IfWhole((AddGiven(SUMS), *stored)))
        return stored

    def store(self, first: int, count: int) -> Body:
        """Return the store of some parts of a tile, through a consumer's own buffers."""
        if not count:
            return ()
        if self.kernel.in_rows:
            leave = BY_THREADS[self.kernel.store](OWN_C, STORED)
            return (Parts(first, count, (*self.fetch(), Write(OWN_C, STORED), leave, Advance("stored"))),)
        if self.kernel.store == "columns":
            return self.store_columns(first, count)
        if self.kernel.store == "turned":
            return self.store_turned(first, count)
        lay_down: Body = (*self.fetch(), Write(OWN_C, STORED), Fence("proxy.async"))
        lay_down += (Store(OWN_C, STORED, self.chunk_bytes), Commit("bulk"))
        across, buffers = self.chunks // self.blocks, self.kernel.buffers
        if across % buffers == 0:
            return (Parts(first, count, (WaitGroup("bulk", buffers - 1, read=True), *lay_down, Advance("stored"))),)
        found: Body = ()
        for chunk in range(first, first + count):
            free = WaitGroup("bulk", 0 if chunk % across == 0 else 1, read=True)  # 0: in the buffer of the chunk before
            after = Advance("stored", 2 if chunk % across == across - 1 else 1)
            found += (Parts(chunk, 1, (free, *lay_down, after)),)
        return found

    def fetch(self) -> Body:
        """Return how accumulators of a part get into registers, where they are not there yet."""
        return (FetchSums(IN_TENSOR_MEMORY, SUMMED),) if self.kernel.issues else ()

    def store_turned(self, first: int, count: int) -> Body:
        """Return the store of some parts of a tile whose rows the warps of a consumer turn together.

        They meet between what all lay down and the boxes that each stores of it. Each has waited before that for what
        it stored of the part before, so that behind it the other buffer is free. A buffer that is alone is so once all
        have met behind that wait.
        """
        free, meet = WaitGroup("bulk", 0, read=True), Sync("turned {i}")
        if self.kernel.buffers == 1:
            alone = (Write(OWN_C, STORED), Fence("proxy.async"), meet, Store(OWN_C, STORED, self.chunk_bytes))
            return (Parts(first, count, (free, meet, *alone, Commit("bulk"), Advance("stored"))),)
        body: Body = (
            Write(OWN_C, STORED),
            Fence("proxy.async"),
            free,
            meet,
            Store(OWN_C, STORED, self.chunk_bytes),
            Commit("bulk"),
        )
        return self.in_turns(first, count, body, (free, meet))

    def store_columns(self, first: int, count: int) -> Body:
        """Return the store of some parts of a tile by threads, each of which reads what all warps have turned.

        Behind the meeting before that all have read the part before, so that its buffer is free.
        """
        meet = Sync("turned {i}")
        return self.in_turns(first, count, (Write(OWN_C, STORED), meet, StoreColumns(OWN_C, STORED)), (meet,))

    def in_turns(self, first: int, count: int, body: Body, free: Body) -> Body:
        """Return what is done to parts of a tile through two buffers; a tile begins with the first of them.

        Args:
            first: part.
            count: parts.
            body: for one.
            free: what frees the buffer of the last part of the tile before, where that is the first.
        """
        odd, found = self.chunks % 2, list[KernelOperation]()
        last = bool(odd) and first + count == self.chunks
        if odd and not first:
            found += free
        if count > last:
            found.append(Parts(first, count - last, (*body, Advance("stored"))))
        if last:
            found.append(Parts(self.chunks - 1, 1, (*body, Advance("stored", 2))))
        return tuple(found)

    def reduce(self) -> Body:
        """Return how accumulators of all CTAs of a split, or of this one alone, are added up and written."""
        if self.kernel.split == 1:
            return (Write("C"), Sync("consumers"), ReadPeers("C"))
        return (Write("C"), self.meet, ReadPeers("C"), self.meet)
