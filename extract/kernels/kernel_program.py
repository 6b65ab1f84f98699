"""The program of a product's kernel: what each role of each CTA of a cluster does, tile after tile.

It is what `legalsat.backends.cute` prints: one warpgroup loads, and consumer warpgroups multiply and store, all tiles
of a CTA, whatever their number and that of their k-tiles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from legalsat.extract.kernels.product_maps import ROW_BYTES, STORE_ROWS, box_columns
from legalsat.product_kernel import ProductKernel
from legalsat.program.pipeline import (
    Advance,
    Arrive,
    At,
    BarrierRing,
    BufferRing,
    Commit,
    Expect,
    Fence,
    Guard,
    Load,
    Loop,
    Multiply,
    Operation,
    Pipeline,
    Read,
    Registers,
    Role,
    Start,
    Store,
    Sync,
    Trips,
    UseSums,
    Wait,
    WaitGroup,
    Write,
)
from legalsat.targets import GRANULE_BYTES

WARPS = 4  # of a warpgroup
BLOCK_ROWS = 64  # of one instruction
NARROW_COLUMNS = 64  # of a tile whose accumulators leave registers for the fragments of two stages of A
LOADED, MULTIPLIED, STORED = At("loaded"), At("multiplied"), At("stored")
BEFORE = At("multiplied", -1)  # the stage that was multiplied before
TILES, PAIRS, ODD = Trips("tiles"), Trips("tiles of each consumer"), Trips("last tile")
OF_PAIR, OF_LAST = ("", " of the second tile"), " of the last tile"  # tiles of consumers that take turns

Body = tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """CTAs of a cluster that do the same.

    Attributes:
        ranks: of the CTAs. a_mask, b_mask: whom their loads go to, as masks of distances. sharing: who shares, by
            distance. share: which of the shares of A they load, where shares differ in the buffer that they lie in.
    """

    ranks: tuple[int, ...]
    a_mask: int
    b_mask: int
    sharing: tuple[int, ...]
    share: int = 0


@lru_cache(maxsize=1024)
def kernel_program(kernel: ProductKernel, result_bytes: int) -> Pipeline:
    """Return the program of a kernel.

    Args:
        kernel: how the product is computed.
        result_bytes: of an element of C.
    """
    return _Program(kernel, result_bytes).pipeline()


class _Program:
    def __init__(self, kernel: ProductKernel, result_bytes: int) -> None:
        self.kernel, self.result_bytes = kernel, result_bytes
        self.readers = 1 if kernel.alternate else kernel.warpgroups  # of a stage
        rows, columns, _ = kernel.tile
        self.a_bytes, self.b_bytes = rows * ROW_BYTES, columns * ROW_BYTES
        self.blocks = rows // BLOCK_ROWS // self.readers  # of 64 rows, of a consumer
        # Consumers that change what was loaded change their own rows.
        self.a_parts = [f"A{i}" for i in range(self.readers)] if kernel.realign == "tiles" else ["A"]
        self.meet = Sync("cluster" if kernel.cluster_blocks > 1 else "block")

    def pipeline(self) -> Pipeline:
        kernel, stages = self.kernel, self.kernel.stages
        places = _places(kernel, shares_differ=len(self.a_parts) > 1)
        arrivals = len(places[0].sharing) * self.readers * WARPS
        full = BarrierRing("full", stages, 1, self.a_bytes + self.b_bytes)
        start: Body = (Start("full"), Start("empty"), Fence("mbarrier_init"), self.meet)
        consumers = [(i, place) for place in places for i in range(kernel.warpgroups)]
        return Pipeline(
            barriers=(full, BarrierRing("empty", stages, arrivals)),
            buffers=(
                *(BufferRing(name, stages, self.a_bytes // len(self.a_parts)) for name in self.a_parts),
                BufferRing("B", stages, self.b_bytes),
                *self.results(),
            ),
            roles=(
                Role("setup", 0, start),
                *(self.role(f"consumer {i}", place, self.consumer(i, place)) for i, place in consumers),
                *(self.role("producer", place, self.producer(place)) for place in places),
            ),
            sums=tuple(f"accumulator {i}" for i in range(kernel.warpgroups)),
            cluster=kernel.cluster_blocks,
        )

    def role(self, name: str, place: Place, body: Body) -> Role:
        """Return a role, of the CTAs of a place alone where CTAs differ."""
        every = len(place.ranks) == self.kernel.cluster_blocks
        return Role(name, WARPS, (self.meet, *body), ctas=() if every else place.ranks)

    def results(self) -> list[BufferRing]:
        """Return the buffers through which C leaves: of each consumer, or of all where they share it."""
        kernel = self.kernel
        if kernel.store == "sums":
            return [BufferRing("C", 1, kernel.shared_bytes - self.ring_bytes)]
        stages = 2 if kernel.store == "tma" else 1
        return [BufferRing(f"C{i}", stages, self.chunk_bytes) for i in range(kernel.warpgroups)]

    @property
    def ring_bytes(self) -> int:
        """Bytes of the stages and their barriers."""
        return self.kernel.stages * (self.a_bytes + self.b_bytes + 16)

    @property
    def chunk_bytes(self) -> int:
        """Bytes that a consumer's warps lay down at a time on C's way out."""
        if self.kernel.store == "rows":  # in a pitch that spreads rows over the banks
            return WARPS * 8 * (self.kernel.tile[1] * self.result_bytes + GRANULE_BYTES)
        return WARPS * STORE_ROWS * box_columns(self.kernel, self.result_bytes) * self.result_bytes

    # Producer.

    def producer(self, place: Place) -> Body:
        kernel = self.kernel
        body: Body
        if kernel.alternate:
            pair = tuple(op for of in OF_PAIR for op in self.fill(place, of))
            body = (Loop(PAIRS, pair), Guard(ODD, self.fill(place, OF_LAST)))
        else:
            tile = self.fill(place)
            body = (Loop(TILES, tile),) if kernel.store != "sums" else tile
        if len(place.sharing) > 1:  # others may still have to say that they are done with what was sent to them
            body += tuple(Wait("empty", At("loaded", i), before=True) for i in range(kernel.stages))
        if kernel.split > 1:
            body += (self.meet, self.meet)
        return (Registers(kernel.registers[1], more=False), *body)

    def fill(self, place: Place, of: str = "") -> Body:
        """Return the loads of a tile, stage by stage; `of` says which tile's k-tiles they are."""
        kernel = self.kernel
        a = tuple(Load(name, LOADED, "full", count, place.a_mask) for name, count in self.share_of_a(place))
        b = Load("B", LOADED, "full", self.b_bytes // kernel.cluster[0], place.b_mask)
        free = Wait("empty", LOADED, before=True)
        whole: Body = (free, Expect("full", LOADED, self.a_bytes + self.b_bytes), *a, b, Advance("loaded"))
        ends: Body = (free, Expect("full", LOADED, self.a_bytes), *a, Advance("loaded"))
        return (*self.turns(place, 1 + kernel.deferred, whole, of), *(ends if kernel.realign == "registers" else ()))

    def share_of_a(self, place: Place) -> Iterator[tuple[str, int]]:
        """Yield the buffers in which a CTA's share of A's rows lies, with its bytes in each."""
        share, part = self.a_bytes // self.kernel.cluster[1], self.a_bytes // len(self.a_parts)
        for i, name in enumerate(self.a_parts):
            count = min((place.share + 1) * share, (i + 1) * part) - max(place.share * share, i * part)
            if count > 0:
                yield name, count

    def turns(self, place: Place, least: int, body: Body, of: str) -> Body:
        """Return the loop over a tile's k-tiles, `least` at least; of CTAs that split k, the first have one more."""
        more = (Guard(Trips("k-tiles left over", -place.ranks[0]), body),) if self.kernel.split > 1 else ()
        return (Loop(Trips(f"further k-tiles{of}", least), body), *more)

    # Consumers.

    def consumer(self, number: int, place: Place) -> Body:
        kernel = self.kernel
        hand = Registers(kernel.registers[0], more=True)
        drain: Body = (WaitGroup("bulk", 0, read=True),) if kernel.store == "tma" else ()
        if kernel.alternate:
            # Each turn is of one consumer, which goes on in the ring where the other one got to.
            mine = Sync(f"turn {number}", cursor="multiplied")
            other = Sync(f"turn {1 - number}", waits=False, cursor="multiplied")
            turn, last = (
                (mine, *self.mainloop(number, place, of), other, *self.epilogue(number))
                for of in (OF_PAIR[number], OF_LAST)
            )
            body: Body = (Loop(PAIRS, turn), Guard(ODD, last)) if number == 0 else (other, Loop(PAIRS, turn))
            return (hand, *body, *drain)
        tile = (*self.mainloop(number, place), *self.epilogue(number))
        if kernel.store == "sums":
            return (hand, *tile)
        kept = self.store(number, range(self.chunks)) if kernel.deferred else ()
        return (hand, Loop(TILES, tile), *kept, *drain)

    def mainloop(self, number: int, place: Place, of: str = "") -> Body:
        """Return the multiplications of a tile; a stage is released once the next one's group is under way."""
        kernel = self.kernel
        if kernel.realign == "registers":
            return self.from_registers(number, place, of)
        part = self.a_parts[number % len(self.a_parts)]
        multiply = self.multiply(number, (part, "B"))
        release = self.release(BEFORE, place)
        following: Body = (*multiply, WaitGroup("wgmma", 1), *release, Advance("multiplied"))
        heads: Body = ()
        if kernel.realign == "tiles":
            mend = (Wait("full", MULTIPLIED), Write(part, MULTIPLIED), Fence("proxy.async"), Sync(f"rows {number}"))
            heads = (Guard(Trips(f"rows that start late{of}"), mend),)
        parts = [(*self.aside(number, i), *following) for i in range(kernel.deferred)]
        alike = len(set(parts)) == 1
        aside = _times(len(parts), parts[0]) if alike else tuple(op for part in parts for op in part)
        rest = self.turns(place, 0, following, of)
        return (*heads, *multiply, Advance("multiplied"), *aside, *rest, WaitGroup("wgmma", 0), *release)

    def multiply(self, number: int, reads: Iterable[str]) -> Body:
        """Return the multiplications of a stage, as a group of their own."""
        return (Wait("full", MULTIPLIED), *self.group(number, reads))

    def group(self, number: int, reads: Iterable[str]) -> Body:
        operands = tuple((name, MULTIPLIED) for name in reads)
        return (Fence("wgmma"), Multiply("wgmma", operands, f"accumulator {number}"), Commit("wgmma"))

    def from_registers(self, number: int, place: Place, of: str) -> Body:
        """Return the mainloop whose A goes through registers: a stage's last step reads into the next one."""
        release = self.release(BEFORE, place)
        group = (*self.group(number, ("B",)), WaitGroup("wgmma", 1))
        here, further = Read("A", MULTIPLIED), Read("A", At("multiplied", 1))
        steps = len(self.kernel.b.offsets[0]) if self.kernel.tile[1] > NARROW_COLUMNS else 1
        first: Body = (here, *(() if steps > 1 else (further,)), *group)
        others = tuple(op for i in range(1, steps) for op in (here, *((further,) if i == steps - 1 else ()), *group))
        wait = Wait("full", At("multiplied", 1))
        turn: Body = (wait, *first, *release, *others, Advance("multiplied"))
        return (
            Wait("full", MULTIPLIED),
            wait,
            *first,
            *others,
            Advance("multiplied"),
            *self.turns(place, 0, turn, of),
            WaitGroup("wgmma", 0),
            *release,
            WaitGroup("wgmma", 0),
            *self.release(MULTIPLIED, place),
            Advance("multiplied"),
        )

    def release(self, at: At, place: Place) -> Body:
        """Return the arrivals of a consumer's warps at all CTAs whose loads come here."""
        return tuple(Arrive("empty", at, WARPS, cta=cta) for cta in place.sharing)

    # C.

    @property
    def chunks(self) -> int:
        """In how many parts a consumer stores a tile."""
        by_map = self.kernel.store == "tma"
        return self.blocks * (self.kernel.tile[1] // box_columns(self.kernel, self.result_bytes) if by_map else 2)

    def aside(self, number: int, stage: int) -> Body:
        """Return the parts of the tile before that are stored while a stage is multiplied."""
        stages, chunks = self.kernel.deferred, self.chunks
        return self.store(number, range(stage * chunks // stages, (stage + 1) * chunks // stages))

    def epilogue(self, number: int) -> Body:
        """Return how a tile's accumulator becomes C."""
        take = UseSums(f"accumulator {number}")
        if self.kernel.store == "sums":
            return (take, *self.reduce())
        return (take,) if self.kernel.deferred else (take, *self.store(number, range(self.chunks)))

    def store(self, number: int, chunks: range) -> Body:
        """Return the store of some parts of a tile, through a consumer's own buffers."""
        name = f"C{number}"
        if self.kernel.store == "rows":
            return _times(len(chunks), (Write(name, STORED), Read(name, STORED), Advance("stored")))
        across = self.chunks // self.blocks
        if across % 2 == 0:
            free = WaitGroup("bulk", 1, read=True)
            store = (Store(name, STORED, self.chunk_bytes), Commit("bulk"), Advance("stored"))
            return _times(len(chunks), (free, Write(name, STORED), Fence("proxy.async"), *store))
        found: list[Operation] = []
        for chunk in chunks:
            again = chunk % across == 0  # in the buffer of the chunk before
            found += [WaitGroup("bulk", 0 if again else 1, read=True), Write(name, STORED), Fence("proxy.async")]
            found += [Store(name, STORED, self.chunk_bytes), Commit("bulk")]
            found.append(Advance("stored", 2 if chunk % across == across - 1 else 1))
        return tuple(found)

    def reduce(self) -> Body:
        """Return how accumulators of all CTAs of a split, or of this one alone, are added up and written."""
        split = self.kernel.split
        if split == 1:
            return (Write("C"), Sync("consumers"), Read("C"))
        return (Write("C"), self.meet, *(Read("C", cta=cta) for cta in range(split)), self.meet)


def _times(count: int, body: Body) -> Body:
    """Return operations that are done so many times."""
    return (Loop(Trips("", count), body),) if count > 1 else body * count


def _places(kernel: ProductKernel, *, shares_differ: bool) -> list[Place]:
    """Return what the CTAs of a cluster do, those together that do the same; CTAs of a split have their own k-tiles."""
    if kernel.split > 1:
        return [Place((rank,), 1, 1, (0,)) for rank in range(kernel.split)]
    along_m, along_n = kernel.cluster
    count = along_m * along_n
    found: dict[tuple[int, int, tuple[int, ...], int], list[int]] = {}
    for rank in range(count):
        m, n = rank % along_m, rank // along_m
        share_a = [(m + i * along_m - rank) % count for i in range(along_n)]
        share_b = [(i + n * along_m - rank) % count for i in range(along_m)]
        a_mask, b_mask = (sum(1 << distance for distance in group) for group in (share_a, share_b))
        key = a_mask, b_mask, tuple(sorted({*share_a, *share_b})), n if shares_differ else 0
        found.setdefault(key, []).append(rank)
    return [Place(tuple(ranks), *key) for key, ranks in found.items()]
