"""What rules judge of a pipeline: a barrier's phase, a wait, a stage that is written or read, a group, the end.

`where` says which role does what, and for which trip counts.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class BarrierRange:
    """A barrier's initial count of arrivals, and the most bytes that it has to wait for at a time."""

    where: str
    arrivals: int = 1
    bytes: int = 0

    def __str__(self) -> str:
        return self.where


@dataclass(frozen=True, slots=True, eq=False)
class BarrierUse:
    """Somebody uses a barrier.

    Whether it has been initialised and its user has met the initialiser since, whether a fence followed the
    initialisation, whether the user is the copy engine or the matrix unit (`proxy`) or in another CTA (`remote`), and
    whether the use is to initialise it `again`.
    """

    where: str
    barrier: str
    met: bool = True
    fenced: bool = True
    proxy: bool = False
    remote: bool = False
    again: bool = False

    def __str__(self) -> str:
        return self.where


@dataclass(frozen=True, slots=True, eq=False)
class BarrierPhase:
    """A phase of a barrier: arrivals that it needs and gets, bytes that it expects and gets.

    `ordered`: each arrival comes after the phase before is over, whatever the roles' speeds; `armed`: each expectation
    comes before the last arrival; `timely`: each copy completes on the phase that expects its bytes.
    """

    where: str
    barrier: str
    arrivals: int = 1
    arrived: int = 1
    expected: int = 0
    completed: int = 0
    ordered: bool = True
    armed: bool = True
    timely: bool = True

    def __str__(self) -> str:
        return self.where


@dataclass(frozen=True, slots=True, eq=False)
class BarrierEnd:
    """A barrier is invalidated, initialised anew or overwritten; whether nobody can use it any more.

    `invalidated`: an inval stands before what its memory is used for next.
    """

    where: str
    barrier: str
    idle: bool
    invalidated: bool = True

    def __str__(self) -> str:
        return self.where


@dataclass(frozen=True, slots=True, eq=False)
class Aligned:
    """Something that must be a multiple, such as "the size of a bulk copy": its value and of what, in bytes."""

    where: str
    what: str
    value: int
    multiple: int

    def __str__(self) -> str:
        return self.where


@dataclass(frozen=True, slots=True, eq=False)
class NamedBarrier:
    """A barrier of the block is used by its number; of how many threads it is to wait, 0 for all."""

    where: str
    number: int
    threads: int = 0

    def __str__(self) -> str:
        return self.where


@dataclass(frozen=True, slots=True, eq=False)
class PhaseWait:
    """A wait for a phase while the barrier may be in the phase `current`.

    `looks_on`: who waits uses nothing of what the phase protects, and nothing holds the next phases back for it.
    """

    where: str
    barrier: str
    waited: int
    current: int
    looks_on: bool = False

    def __str__(self) -> str:
        return self.where


@dataclass(frozen=True, slots=True, eq=False)
class StageWrite:
    """A stage is written; whether its `user` (threads, copies, wgmma, tcgen05 or stores) is done with it before.

    `fenced`: what ordinary instructions have written there is fenced before an asynchronous unit writes;
    `reads_fenced`: so is what they have read. `met`: whether the warps that write it together have met since each has
    waited for its own store of what was there.
    """

    where: str
    stage: str
    user: str
    done: bool
    fenced: bool = True
    reads_fenced: bool = True
    met: bool = True

    def __str__(self) -> str:
        return self.where


@dataclass(frozen=True, slots=True, eq=False)
class Grouped:
    """Something relies on operations of a family that are over once their group is; whether they are in any."""

    where: str
    family: str
    committed: bool

    def __str__(self) -> str:
        return self.where


@dataclass(frozen=True, slots=True, eq=False)
class StageRead:
    """A stage is read: whether it holds the reader's item, all of it, and fenced if need be.

    `copies_fenced`: whether a fence follows what cp.async wrote, where the async proxy reads it. `met`: whether the
    warps that wrote it together have met since; `rows_met`: or else each of them multiplies its own rows.
    """

    where: str
    stage: str
    holds: bool = True
    full: bool = True
    fenced: bool = True
    copies_fenced: bool = True
    met: bool = True
    rows_met: bool = True

    def __str__(self) -> str:
        return self.where


@dataclass(frozen=True, slots=True, eq=False)
class SumsUse:
    """Sums are read or written.

    Whether they hold what the reader wants, whether what was done to them before is over, and whether fences say so;
    `waited`: whether tcgen05.wait stands between tcgen05.ld and a use of its registers. `barrier_fenced`: whether the
    fences of tcgen05 stand around the barrier by which threads hand them over.
    """

    where: str
    sums: str
    holds: bool = True
    done: bool = True
    fenced: bool = True
    fence: str = ""
    waited: bool = True
    barrier_fenced: bool = True

    def __str__(self) -> str:
        return self.where


@dataclass(frozen=True, slots=True, eq=False)
class Exit:
    """A block ends: what is still under way ("" or such as "loads on full"), and whether another CTA does it.

    `unread`: a store that may not have read its source yet.
    """

    where: str
    under_way: str = ""
    remote: bool = False
    unread: str = ""

    def __str__(self) -> str:
        return self.where


@dataclass(frozen=True, slots=True, eq=False)
class TensorMemoryLife:
    """What a program does to tensor memory ("multiplies into sums"), and why it may not (""; "it was freed before")."""

    where: str
    action: str
    fault: str = ""

    def __str__(self) -> str:
        return self.where


@dataclass(frozen=True, slots=True, eq=False)
class Multicast:
    """CTAs that a copy goes to: a bit each, in a cluster of so many."""

    where: str
    mask: int
    cluster: int

    def __str__(self) -> str:
        return self.where


@dataclass(frozen=True, slots=True, eq=False)
class Meeting:
    """A role waits for others: whether they ever come, for what it waits, and whether they release what they did."""

    where: str
    awaited: str
    comes: bool
    released: bool = True

    def __str__(self) -> str:
        return self.where


@dataclass(frozen=True, slots=True, eq=False)
class UnitUse:
    """An operation needs a unit of the chip; whether that is there."""

    where: str
    unit: str
    present: bool

    def __str__(self) -> str:
        return self.where


@dataclass(frozen=True, slots=True, eq=False)
class MapEdit:
    """A kernel edits a tensor map: whether all copies by the old one are done, and the new one's are after an acquire.

    `idle`: no copy by the old map is under way. `acquired`: each copy by the new one follows the edit, its release and
    an acquire in the block that copies.
    """

    where: str
    map: str
    idle: bool = True
    acquired: bool = True

    def __str__(self) -> str:
        return self.where
