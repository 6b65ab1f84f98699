"""Programs of kernels as they are printed: each role once, whatever its number, its CTA's rank and its tiles.

Operations of `legalsat.program.pipeline` say what is waited for, loaded, multiplied and released. Those here say what
they are part of: the tile scheduler's tiles, a tile's k-tiles, what CTAs of a cluster share, parts of a tile that leave
one by one. A kernel class is one such program. Printers print it, and `legalsat.extract.kernels.unfolded` says what
each role of each CTA does by it, which is what is proven.

`{i}` in the name of a ring, an accumulator or a barrier is the number of the consumer, and `{other}` that of the one
that it takes turns with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from legalsat.errors import LegalSatError
from legalsat.program.pipeline import At, BarrierRing, BufferRing, Guard, Loop, Operation, SumsRing


@dataclass(frozen=True, slots=True)
class Tiles:
    """Run the body for tiles of C that the tile scheduler gives this CTA.

    Attributes:
        body: what is done for one. turns: consumers that take turns with whole tiles, of which each has its own; 1 for
            every tile. once: whether a CTA has exactly one.
    """

    body: tuple[KernelOperation, ...]
    turns: int = 1
    once: bool = False


@dataclass(frozen=True, slots=True)
class KTiles:
    """Run the body for the k-tiles of the tile that lie behind the first `after`, and in front of the last `before`.

    Attributes:
        body: what is done for one. after: how many were done before. before: how many operations behind this one do.
        short: whether of the last one only those steps are multiplied that hold elements.
        sets: of registers for fragments, which turns take one after the other.
    """

    body: tuple[KernelOperation, ...]
    after: int = 0
    short: bool = False
    sets: int = 1
    before: int = 0


@dataclass(frozen=True, slots=True)
class Phases:
    """Run the body for each phase of k behind the first, of `count`, in the order in which sums slide on.

    A phase has every `count`-th k, and the k-tiles of operations in the body are its own; of those before, the first's.
    """

    count: int
    body: tuple[KernelOperation, ...]


@dataclass(frozen=True, slots=True)
class IfLate:
    """Run the body if rows of A start in the tile, later than the granules of 16 bytes that they are loaded by."""

    body: tuple[KernelOperation, ...]


@dataclass(frozen=True, slots=True)
class IfWhole:
    """Run the body if the CTA stores the tile, with all sums; or, unless `whole`, if another one does."""

    body: tuple[KernelOperation, ...]
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Only:
    """Run the body in one consumer alone."""

    consumer: int
    body: tuple[KernelOperation, ...]


@dataclass(frozen=True, slots=True)
class Parts:
    """Run the body for `count` parts of the tile of C, from part `first` on."""

    first: int
    count: int
    body: tuple[KernelOperation, ...]


@dataclass(frozen=True, slots=True)
class LoadShare:
    """Load the CTA's share of a tile of "A" or "B" at the k-tile, and send it to all CTAs that share the tile.

    CTAs along n share A, those along m share B. Into `lines`, where that is a buffer, go granules that hold its lines.
    """

    operand: str
    at: At
    barrier: str
    lines: str = ""


@dataclass(frozen=True, slots=True)
class Release:
    """Arrive, once a warp, on the item's barrier of every CTA whose loads of some operands come here, and one's own.

    Attributes:
        barrier: such as "empty". at: the stage. operands: "A" and "B", or those of them whose stage it is.
    """

    barrier: str
    at: At
    operands: str = "AB"


@dataclass(frozen=True, slots=True)
class ReleaseDone:
    """Have tcgen05 arrive, once all that was issued is done, on the item's barrier of every CTA that `Release` names.

    Attributes:
        barrier: such as "empty". at: the stage. operands: "A" and "B", or those of them whose stage it is.
    """

    barrier: str
    at: At
    operands: str = "AB"


@dataclass(frozen=True, slots=True)
class Clear:
    """Set the accumulator to 0."""


@dataclass(frozen=True, slots=True)
class SlideSums:
    """Move the columns of the accumulator to where the next phase of k has them, all by as many towards the first."""

    sums: str


@dataclass(frozen=True, slots=True)
class AlignLines:
    """Move lines of a tile of "A" or "B" from the granules in which they lie to where whole ones would, bytes shifted.

    Attributes:
        operand: "A" or "B". lines: the buffer in which granules lie that hold the lines. at: the stage of both.
    """

    operand: str
    lines: str
    at: At


@dataclass(frozen=True, slots=True)
class ClearOthers:
    """Set to 0, in a stage of A and B that lie along k, what of the tile's first or last k-tile is not of its group.

    Whatever that is, each row's first granule is written. Of the last k-tile the steps that hold nothing of the group
    are not multiplied, and keep what they have.

    Attributes:
        at: the stage. last: whether it is the last k-tile's.
    """

    at: At
    last: bool


@dataclass(frozen=True, slots=True)
class FindRows:
    """Find out where the rows of A start within their granules, for `ReadRows`."""


@dataclass(frozen=True, slots=True)
class ReadRows:
    """Read rows of A for steps of a k-tile as fragments in registers, from where each row starts.

    Attributes:
        at: the stage; the last step's ends of rows lie in the one behind it.
        steps: of the k-tile, and whether the last is among them. set: of registers; that of the turn where it is -1.
    """

    at: At
    steps: tuple[int, ...]
    last: bool
    set: int = -1


@dataclass(frozen=True, slots=True)
class MultiplyRows:
    """Multiply fragments in registers by steps of the stage of B; attributes as of `ReadRows`."""

    at: At
    steps: tuple[int, ...]
    set: int = -1


@dataclass(frozen=True, slots=True)
class ReadPeers:
    """Read a buffer of all CTAs that split k, this one's own among them."""

    buffer: str


@dataclass(frozen=True, slots=True)
class StoreColumns:
    """Store columns of C that all warps of the role laid down in a buffer, wherever they begin, each warp some.

    Attributes:
        buffer: through which they leave. at: its stage.
    """

    buffer: str
    at: At


@dataclass(frozen=True, slots=True)
class StoreSectors:
    """Store whole sectors of rows of C, which the warp laid down in a buffer, and those that C's rows begin and end in.

    What a tile has of a sector that it does not have whole the one beside it has too, as tiles lap over each other.

    Attributes:
        buffer: through which they leave. at: its stage.
    """

    buffer: str
    at: At


@dataclass(frozen=True, slots=True)
class StoreElements:
    """Store each element of rows of C, which the warp laid down in a buffer, where it belongs: none lie side by side.

    Attributes:
        buffer: through which they leave. at: its stage.
    """

    buffer: str
    at: At


@dataclass(frozen=True, slots=True)
class FindColumns:
    """Read where the tensor memory is that has been allocated, which shared memory says."""


@dataclass(frozen=True, slots=True)
class FetchSums:
    """Fetch what of the accumulator in tensor memory becomes the part of C that is next.

    Attributes:
        sums: the ring of accumulators. at: which of them.
    """

    sums: str
    at: At


@dataclass(frozen=True, slots=True)
class FindGroups:
    """Read where groups end, and say in shared memory where they begin, and of groups of rows which tiles are theirs.

    A group begins where the ones before it end, and is empty where its own end is not behind that. What is said beyond
    the extent that there is counts as its end. All of the CTA meet behind it.
    """


@dataclass(frozen=True, slots=True)
class MeetSetup:
    """Meet all of the CTA or the cluster behind the set-up, whose fence has released its barriers; no more is."""


class Own:
    """An operation that says all of itself, and stands in a module of its own; printers have a row of it each.

    It is a frozen dataclass. Those above say the same in tables, beside what is like them.
    """

    __slots__ = ()

    def words(self) -> str:
        """Return what it does, in words."""
        return type(self).__name__

    def effects(self, number: int) -> Iterable[Operation]:
        """Return what the contract has to know of it, in the role of a number: what it reads, writes or uses."""
        del number
        return ()

    def run(self, warps: Any) -> Iterator[Callable[[], bool]] | None:
        """Do it in the interpreter: `warps` has its CTA, its number in it, the tile, and the part of C.

        Where it waits, yield what says when it may go on.
        """
        raise LegalSatError(f"{type(self).__name__} does not say what it does; give it run")


KernelOperation: TypeAlias = (
    Operation
    | Own
    | Tiles
    | KTiles
    | Phases
    | IfLate
    | IfWhole
    | Only
    | Parts
    | LoadShare
    | Release
    | ReleaseDone
    | Clear
    | SlideSums
    | AlignLines
    | ClearOthers
    | FindRows
    | ReadRows
    | MultiplyRows
    | ReadPeers
    | StoreColumns
    | StoreSectors
    | StoreElements
    | FindColumns
    | FetchSums
    | FindGroups
    | MeetSetup
)
Body: TypeAlias = tuple[KernelOperation, ...]


@dataclass(frozen=True, slots=True)
class KernelRole:
    """A warpgroup's program.

    Attributes:
        name: "consumer", "producer", "issuer", "aligner" or "clearer". body: what it does, in order.
        count: warpgroups that do it. one_thread: whether one thread does it all but where the CTA or the cluster meets.
    """

    name: str
    body: Body
    count: int = 1
    one_thread: bool = False


@dataclass(frozen=True, slots=True)
class KernelProgram:
    """What all CTAs of a kernel do.

    Attributes:
        barriers, buffers: rings in shared memory. setup: what one thread does first.
        everybody: what all roles do behind it. roles: what each does then.
        cluster: CTAs along m and along n, and those that split k. least_k_tiles: that every tile has for each CTA.
        batch: axes of the batch whose members' tiles the scheduler gives.
        loose: whether members of A, and of B, begin anywhere, so that loads and `AlignLines` look where a tile's does.
        sums: accumulators in tensor memory; where there are none each consumer has one in registers.
        stream_k: whether the first of a CTA's tiles may be one that another CTA stores.
    """

    barriers: tuple[BarrierRing, ...]
    buffers: tuple[BufferRing, ...]
    setup: Body
    everybody: Body
    roles: tuple[KernelRole, ...]
    cluster: tuple[int, int, int]
    least_k_tiles: int
    batch: int = 0
    loose: tuple[bool, bool] = (False, False)
    sums: tuple[SumsRing, ...] = ()
    stream_k: bool = False

    @property
    def ctas(self) -> int:
        """CTAs of a cluster."""
        along_m, along_n, split = self.cluster
        return along_m * along_n * split

    def stages(self, buffer: str) -> int:
        """Return the stages of a buffer; all consumers' own ones are alike."""
        return next(ring.stages for ring in self.buffers if ring.name == buffer.format(i=0))

    def sharing(self, rank: int) -> tuple[list[int], list[int]]:
        """Return the CTAs of a cluster that share A with one, itself among them, and those that share B."""
        along_m, along_n, split = self.cluster
        if split > 1:
            return [rank], [rank]
        m, n = rank % along_m, rank // along_m
        return [m + i * along_m for i in range(along_n)], [i + n * along_m for i in range(along_m)]


NESTS = (Tiles, KTiles, Phases, IfLate, IfWhole, Only, Parts, Loop, Guard)


def every(body: Body) -> Iterator[KernelOperation]:
    """Yield every operation, those that hold others before what they hold."""
    for op in body:
        yield op
        if isinstance(op, NESTS):
            yield from every(op.body)
