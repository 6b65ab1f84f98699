"""Pipelines as typed programs: who loads, multiplies and stores which stage of which buffer, in what order.

A *role* is one or more warps that run one list of operations; `instances` of it run side by side, such as two
warpgroups that multiply. Rings have stages, used in turn: the n-th *item* of a ring lies in stage n % stages, and the
barriers of that stage are then in phase n // stages. A role counts items with *cursors*, which start at 0 and move on
by `Advance` alone, so that no operation names a stage or a parity by itself: `At(cursor, offset)` is item
`cursor + offset`.

Loops run a symbolic number of times, `Trips`, which may be 0. Nothing depends on data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from legalsat.checks import instance, integer, sequence
from legalsat.program.leaves import AddSlices, ShiftRows, TurnTile


@dataclass(frozen=True, slots=True)
class Trips:
    """How often a loop runs: `values[name] + plus`, or `plus` alone where there is no name; 0 where that is negative.

    Attributes:
        name: a symbol such as "K tiles", whose value is any integer from 0 on; "" for none.
        plus: what is added.
        most: that it runs at most so often; 0 for no such limit.
    """

    name: str = ""
    plus: int = 0
    most: int = 0

    def value(self, values: Mapping[str, int]) -> int:
        """Return the number for these values of the symbols."""
        found = max(0, (values[self.name] if self.name else 0) + self.plus)
        return min(found, self.most) if self.most else found

    def __str__(self) -> str:
        if not self.name:
            return str(self.plus)
        limit = f", at most {self.most}" if self.most else ""
        return self.name + (f" {'+-'[self.plus < 0]} {abs(self.plus)}" if self.plus else "") + limit


@dataclass(frozen=True, slots=True)
class Affine:
    """A coordinate of what a tile moves: of each of some modes the tile's number along it, times a factor, and `plus`.

    Attributes:
        terms: pairs of a mode and its factor.
        plus: what is added.
    """

    terms: tuple[tuple[int, int], ...] = ()
    plus: int = 0


Corner: TypeAlias = tuple[Affine, ...]
"""Where a tile begins in a tensor map, fastest dimension first. A ring's n-th item holds the n-th tile of the block."""


@dataclass(frozen=True, slots=True)
class At:
    """An item of a ring: what a cursor of the role has counted, plus an offset."""

    cursor: str
    offset: int = 0

    def __str__(self) -> str:
        return self.cursor + (f"{self.offset:+}" if self.offset else "")


FIRST = At("")  # of a ring of one stage that is used once


@dataclass(frozen=True, slots=True)
class BarrierRing:
    """An mbarrier for each stage.

    Attributes:
        name: such as "full".
        stages: how many.
        arrivals: that each is initialised with, and that end a phase together with the bytes expected.
        transaction_bytes: that the copy engine counts down a phase, as the plan has it; 0 for none.
    """

    name: str
    stages: int
    arrivals: int
    transaction_bytes: int = 0


@dataclass(frozen=True, slots=True)
class BufferRing:
    """A buffer in shared memory for each stage.

    Attributes:
        name: such as "A".
        stages: how many.
        bytes: of one stage.
        overlays: a buffer whose memory this one lies on; nobody may use that any more when this one is written.
        together: the cursor of those who use it, if all warps of a role lay down what each of them stores, so that they
            have to meet; "" where each has its own part.
    """

    name: str
    stages: int
    bytes: int
    overlays: tuple[str, ...] = ()
    together: str = ""


@dataclass(frozen=True, slots=True)
class SumsRing:
    """An accumulator for each stage, in tensor memory: its name, such as "sums", and how many."""

    name: str
    stages: int


# Operations. Each is done once by each instance of the role.


@dataclass(frozen=True, slots=True)
class Start:
    """Initialise all stages of a barrier ring; for the set-up."""

    barrier: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait until a phase of the item's barrier is over: the item's own, or with `before` the one before it.

    A fresh barrier counts as one whose phase before 0 is over (FACTS MB-11), so a first lap passes with `before`.
    """

    barrier: str
    at: At = FIRST
    before: bool = False


@dataclass(frozen=True, slots=True)
class Arrive:
    """Arrive `count` times on the item's barrier; `cta` names another CTA of the cluster, by its distance in rank."""

    barrier: str
    at: At = FIRST
    count: int = 1
    cta: int = 0


@dataclass(frozen=True, slots=True)
class Expect:
    """Add bytes to what the item's barrier waits for, and arrive once unless told not to."""

    barrier: str
    at: At = FIRST
    bytes: int = 0
    arrives: bool = True


@dataclass(frozen=True, slots=True)
class Load:
    """Have the copy engine write `bytes` of the item's buffer, and count them down on the item's barrier when done.

    `mask` has a bit for each CTA of the cluster that gets the data, whose barrier at the same place counts too. `map`
    names the ring of tensor maps that the block edits, of which item `map_at` is used; "" where nobody edits the map.
    `number` is that of the kernel's tensor map, and `corner` where the tile begins in it; a copy without a map moves
    `each` bytes at a time from addresses.
    """

    buffer: str
    at: At
    barrier: str
    bytes: int
    mask: int = 1
    map: str = ""
    map_at: At = FIRST
    number: int = 0
    corner: Corner = ()
    each: int = 0


@dataclass(frozen=True, slots=True)
class CopyIn:
    """Write `bytes` of the item's buffer by cp.async, `each` at a time; a commit closes a group of these."""

    buffer: str
    at: At
    bytes: int
    each: int = 0


@dataclass(frozen=True, slots=True)
class CopyArrive:
    """Arrive on the item's barrier once all earlier cp.async of the thread are done (.noinc)."""

    barrier: str
    at: At = FIRST


@dataclass(frozen=True, slots=True)
class Store:
    """Have the copy engine read `bytes` of the item's buffer and write (or add) them to global memory.

    `map`, `map_at`, `number` and `corner` as of a `Load`.
    """

    buffer: str
    at: At
    bytes: int
    reduces: bool = False
    map: str = ""
    map_at: At = FIRST
    number: int = 0
    corner: Corner = ()


@dataclass(frozen=True, slots=True)
class Read:
    """Read the item's buffer with ordinary instructions; done when it returns.

    `cta` names another CTA of the cluster whose buffer is read, by its distance in rank.
    """

    buffer: str
    at: At = FIRST
    cta: int = 0


@dataclass(frozen=True, slots=True)
class Write:
    """Write the item's buffer with ordinary instructions; done when it returns, but not yet seen by the async proxy.

    Of a ring of tensor maps it is an edit with its release, not yet seen by copies (FACTS TR-08).
    """

    buffer: str
    at: At = FIRST


@dataclass(frozen=True, slots=True)
class Vectors:
    """Have threads move a tile between global memory and registers, `bytes` an instruction.

    `side` is "source" for loads and "target" for stores, `at` says of which of the block's tiles.
    """

    side: str
    bytes: int
    at: At = FIRST


@dataclass(frozen=True, slots=True)
class Multiply:
    """Have the matrix unit read items of buffers, and add to sums.

    Attributes:
        unit: "wgmma" or "tcgen05".
        reads: buffers and items.
        sums: the accumulator: registers of the role, or columns of tensor memory, by name. at: which of a ring.
    """

    unit: str
    reads: tuple[tuple[str, At], ...]
    sums: str
    at: At = FIRST


@dataclass(frozen=True, slots=True)
class Commit:
    """Close a group of what this role has issued: of "wgmma", "cp.async" or "bulk" stores."""

    family: str


@dataclass(frozen=True, slots=True)
class WaitGroup:
    """Wait until at most `pending` groups of a family are under way; with `read`, until they have read their source."""

    family: str
    pending: int
    read: bool = False


@dataclass(frozen=True, slots=True)
class CommitTo:
    """Have tcgen05 arrive once on the item's barrier when all that this role has issued to it is done.

    `mask` has a bit for each CTA of the cluster at whose barrier it arrives, by its distance in rank.
    """

    barrier: str
    at: At = FIRST
    mask: int = 1


@dataclass(frozen=True, slots=True)
class UseSums:
    """Read sums: registers after wgmma, or tensor memory by tcgen05.ld and its wait."""

    sums: str
    at: At = FIRST


@dataclass(frozen=True, slots=True)
class Fence:
    """A fence: "proxy.async", "mbarrier_init", "wgmma", "tcgen05.before", "tcgen05.after", or "tensormap".

    The last acquires the tensor maps that the block has edited, so far as the role knows, for all who learn of it.
    """

    kind: str


MEETINGS = frozenset({"block", "cluster"})  # barriers of all who are there


@dataclass(frozen=True, slots=True)
class Sync:
    """Meet others: all of the block ("block") or of the cluster ("cluster"), or all roles that name the same barrier.

    The barriers of the block and of the cluster wait for every role there that has not ended, whether it comes or not.
    A role that does not wait (bar.arrive) is counted as there and goes on; it may come again once all have met. With a
    cursor named, those who wait go on from where those who do not have got to: whoever takes its turn takes the ring
    over.
    """

    name: str
    waits: bool = True
    cursor: str = ""


@dataclass(frozen=True, slots=True)
class LaunchDependents:
    """Let a kernel behind this one that waits by itself be brought in from here on (programmatic dependent launch)."""


@dataclass(frozen=True, slots=True)
class AwaitGrid:
    """Wait until what kernels in front have written is there (programmatic dependent launch)."""


@dataclass(frozen=True, slots=True)
class Registers:
    """Set the registers of each thread (setmaxnreg)."""

    count: int
    more: bool


@dataclass(frozen=True, slots=True)
class Allocate:
    """Allocate columns of tensor memory for the sums and operands named; blocks until there are as many."""

    columns: int
    holds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Relinquish:
    """Promise to allocate no more tensor memory."""


@dataclass(frozen=True, slots=True)
class Free:
    """Free columns of tensor memory."""

    columns: int


@dataclass(frozen=True, slots=True)
class Advance:
    """Move a cursor on."""

    cursor: str
    by: int = 1


@dataclass(frozen=True, slots=True)
class Loop:
    """Run the body so many times."""

    trips: Trips
    body: tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class Guard:
    """Run the body once if the trips are 1 or more; or if the `cursor`, where one is named, has counted so many."""

    trips: Trips
    body: tuple[Operation, ...]
    cursor: str = ""


Operation: TypeAlias = (
    Start
    | Wait
    | Arrive
    | Expect
    | Load
    | CopyIn
    | CopyArrive
    | Store
    | Read
    | Write
    | Vectors
    | Multiply
    | Commit
    | WaitGroup
    | CommitTo
    | UseSums
    | Fence
    | Sync
    | LaunchDependents
    | AwaitGrid
    | ShiftRows
    | TurnTile
    | AddSlices
    | Registers
    | Allocate
    | Relinquish
    | Free
    | Advance
    | Loop
    | Guard
)


@dataclass(frozen=True, slots=True)
class Role:
    """Warps that run one program.

    Attributes:
        name: such as "producer". warps: of one instance. instances: that run it side by side.
        body: what each instance does, in order. Roles start together and have not met before their first `Sync`.
        ctas: blocks of the cluster that have it, by rank, as where the first one alone issues; all where none is named.
    """

    name: str
    warps: int
    body: tuple[Operation, ...]
    instances: int = 1
    ctas: tuple[int, ...] = ()

    def runs_in(self, cta: int) -> bool:
        """Whether the block of this rank has the role."""
        return not self.ctas or cta in self.ctas


@dataclass(frozen=True, slots=True)
class Pipeline:
    """What a block does, or each block of a cluster.

    Attributes:
        barriers, buffers: the rings.
        roles: who does what.
        sums: accumulators in registers or tensor memory: names, or rings of them.
        cluster: blocks of a cluster, 1 for none.
    """

    barriers: tuple[BarrierRing, ...]
    buffers: tuple[BufferRing, ...]
    roles: tuple[Role, ...]
    sums: tuple[str | SumsRing, ...] = ()
    cluster: int = 1

    def __post_init__(self) -> None:
        for name, kinds in (
            ("barriers", BarrierRing),
            ("buffers", BufferRing),
            ("roles", Role),
            ("sums", (str, SumsRing)),
        ):
            parts = sequence(getattr(self, name), name, "what a pipeline is made of")
            for i, part in enumerate(parts):
                instance(part, f"{name}[{i}]", kinds)
            object.__setattr__(self, name, parts)
        integer(self.cluster, "cluster", low=1)

    def _repr_html_(self) -> str:
        """Return the pipeline with a chart for a notebook."""
        from legalsat.view.show_html import pipeline_html  # noqa: PLC0415 - showing needs pipelines

        return pipeline_html(self)

    @property
    def sums_stages(self) -> dict[str, int]:
        """How many of each accumulator there are."""
        return dict((s, 1) if isinstance(s, str) else (s.name, s.stages) for s in self.sums)

    @property
    def stages(self) -> int:
        """Stages of the deepest ring of buffers, 1 where there is none."""
        return max((buffer.stages for buffer in self.buffers), default=1)

    @property
    def maps(self) -> frozenset[str]:
        """Names of buffers that are tensor maps, by which others are copied."""
        ops = (op for role in self.roles for op in walk(role.body))
        return frozenset(op.map for op in ops if isinstance(op, Load | Store) and op.map)

    @property
    def edited_maps(self) -> frozenset[str]:
        """Those of them that roles edit; the others are made before the launch."""
        ops = (op for role in self.roles for op in walk(role.body))
        return self.maps & {op.buffer for op in ops if isinstance(op, Write | Load | CopyIn)}

    @property
    def symbols(self) -> tuple[str, ...]:
        """Names of trip counts, in the order of their first use."""
        trips = (op.trips.name for role in self.roles for op in walk(role.body) if isinstance(op, Loop | Guard))
        return tuple(dict.fromkeys(name for name in trips if name))


def walk(body: tuple[Operation, ...]) -> Iterator[Operation]:
    """Yield every operation, loops before their bodies."""
    for op in body:
        yield op
        if isinstance(op, Loop | Guard):
            yield from walk(op.body)
