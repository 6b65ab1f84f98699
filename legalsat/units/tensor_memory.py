"""Programs of tensor memory: what a CTA allocates, multiplies, moves and frees, in order.

A program is one order in which things happen, of both CTAs where two multiply together. It says who does them, so that
`legalsat.tensor_memory_violations` can say which rules of the hardware they break. Whether one thing has ended before
the next begins is the pipeline's business, and not told here.

Events check that their fields have a meaning, so that rules judge numbers: those that no instruction can even say, such
as a third CTA of a pair, are `InvalidInput`; those that it can and must not, such as 48 columns, break a rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias, get_args

from legalsat.checks import choice, flag, integer, one_of, sequence
from legalsat.errors import InvalidInput
from legalsat.printable import shown
from legalsat.units.tcgen05 import GROUPS, InstructionDescriptor, Scales

ADDRESSES = 1 << 16  # lanes, and columns, that an address of 32 bits can name
MOST_THREADS = 1024  # of a CTA
MOST_CTAS = 16  # of a cluster, which no chip exceeds
CTAS = (0, 1)
SPLIT_SHAPE = "16x32bx2"  # the one shape whose second half lies `split` columns further on

# Of tcgen05.cp, by shape: lanes that one copy reaches and columns; and the warps that .warpx2 and .warpx4 reach.
COPIES = {"128x256b": (128, 8), "4x256b": (4, 8), "128x128b": (128, 4), "64x128b": (64, 4), "32x128b": (32, 4)}
MULTICASTS = {"128x256b": ("",), "4x256b": ("",), "128x128b": ("",)} | {
    "64x128b": ("warpx2::02_13", "warpx2::01_23"),
    "32x128b": ("warpx4",),
}


def _name(value: Any, what: str) -> None:
    if not isinstance(value, str) or not value:
        raise InvalidInput(f"{what} is {shown(value)}; give a name")


def _number(event: Any, name: str, most: int, *, of: str) -> None:
    """Check a field, and keep it as an int."""
    object.__setattr__(event, name, integer(getattr(event, name), f"{name} of {of}", low=0, high=most))


def _flags(event: Any, *names: str) -> None:
    for name in names:
        flag(getattr(event, name), name)


def _who(event: Any) -> None:
    """Check the fields that say who does it: the CTA's rank in its pair, and CTAs that do it together."""
    if hasattr(event, "cta_group"):
        choice(event.cta_group, "cta_group", GROUPS)
    choice(event.cta, "CTA of an event, its rank in the pair,", CTAS)


@dataclass(frozen=True, slots=True)
class Region:
    """Columns of an allocation, by its name, counted from its first; and the first lane."""

    allocation: str
    column: int
    columns: int
    lane: int = 0

    def __post_init__(self) -> None:
        _name(self.allocation, "allocation of a region")
        _number(self, "columns", ADDRESSES, of="a region")
        for name in ("column", "lane"):
            _number(self, name, ADDRESSES - 1, of="a region")


@dataclass(frozen=True, slots=True)
class Allocate:
    """tcgen05.alloc of columns, which the program calls `name`."""

    name: str
    columns: int
    cta_group: int = 1
    cta: int = 0
    converged: bool = True

    def __post_init__(self) -> None:
        _who(self)
        _name(self.name, "name of an allocation")
        _number(self, "columns", ADDRESSES, of="an allocation")
        _flags(self, "converged")


@dataclass(frozen=True, slots=True)
class Free:
    """tcgen05.dealloc of an allocation; `columns` as the instruction says, those allocated when left out."""

    name: str
    columns: int | None = None
    cta_group: int = 1
    cta: int = 0
    converged: bool = True

    def __post_init__(self) -> None:
        _who(self)
        _name(self.name, "name of what is freed")
        if self.columns is not None:
            _number(self, "columns", ADDRESSES, of="what is freed")
        _flags(self, "converged")


@dataclass(frozen=True, slots=True)
class Relinquish:
    """tcgen05.relinquish_alloc_permit."""

    cta_group: int = 1
    cta: int = 0
    converged: bool = True

    def __post_init__(self) -> None:
        _who(self)
        _flags(self, "converged")


@dataclass(frozen=True, slots=True)
class Multiply:
    """tcgen05.mma into the region `d`, with A from `a` (None: from shared memory) and the scale factors' regions.

    `threads` issue it. Into a region that holds sums already it adds to them.
    """

    instruction: InstructionDescriptor
    d: Region
    a: Region | None = None
    a_scales: Region | None = None
    b_scales: Region | None = None
    scales: Scales | None = None
    cta_group: int = 1
    ws: bool = False
    cta: int = 0
    threads: int = 1

    def __post_init__(self) -> None:
        _who(self)
        if not isinstance(self.instruction, InstructionDescriptor):
            raise InvalidInput(f"instruction of a multiply is {shown(self.instruction)}; give an InstructionDescriptor")
        for name in ("d", "a", "a_scales", "b_scales"):
            region = getattr(self, name)
            if not isinstance(region, Region) and (name == "d" or region is not None):
                raise InvalidInput(f"{name} of a multiply is {shown(region)}; give a Region")
        if not isinstance(self.scales, Scales | None):
            raise InvalidInput(f"scales of a multiply are {shown(self.scales)}; give Scales")
        _flags(self, "ws")
        _number(self, "threads", MOST_THREADS, of="a multiply")


@dataclass(frozen=True, slots=True)
class Transfer:
    """tcgen05.ld or .st by one warp; `registers` of a thread, as many as needed when left out.

    `instruction` is "ld" or "st", `shape` and `num` are as PTX writes them, `warp` counts in the CTA; `split` is of
    "16x32bx2" alone, columns from its first half to its second.
    """

    instruction: str
    allocation: str
    shape: str
    num: int
    warp: int
    lane: int
    column: int
    registers: int | None = None
    split: int = 0
    cta: int = 0
    converged: bool = True
    same_address: bool = True

    def __post_init__(self) -> None:
        _who(self)
        one_of(self.instruction, "instruction of a transfer", ("ld", "st"))
        _name(self.allocation, "allocation of a transfer")
        _name(self.shape, "shape of a transfer")
        _number(self, "num", MOST_THREADS, of="a transfer")
        _number(self, "warp", MOST_THREADS // 32 - 1, of="a transfer")
        for name, most in (("lane", ADDRESSES - 1), ("column", ADDRESSES - 1), ("split", ADDRESSES // 2)):
            _number(self, name, most, of="a transfer")
        if self.split and self.shape != SPLIT_SHAPE:
            raise InvalidInput(f"split is {self.split}, and {self.shape} has none; leave it out, or use {SPLIT_SHAPE}")
        if self.registers is not None:
            _number(self, "registers", MOST_THREADS, of="a transfer")
        _flags(self, "converged", "same_address")


@dataclass(frozen=True, slots=True)
class CopyIn:
    """tcgen05.cp from shared memory; `multicast` is "", "warpx4", "warpx2::02_13" or "warpx2::01_23"."""

    shape: str
    multicast: str
    allocation: str
    column: int
    lane: int = 0
    cta_group: int = 1
    cta: int = 0
    threads: int = 1

    def __post_init__(self) -> None:
        _who(self)
        _name(self.shape, "shape of a copy")
        if not isinstance(self.multicast, str):
            raise InvalidInput(f"multicast of a copy is {shown(self.multicast)}; give a name, or '' for none")
        _name(self.allocation, "allocation of a copy")
        for name in ("column", "lane"):
            _number(self, name, ADDRESSES - 1, of="a copy")
        _number(self, "threads", MOST_THREADS, of="a copy")


@dataclass(frozen=True, slots=True)
class Commit:
    """tcgen05.commit."""

    cta_group: int = 1
    cta: int = 0
    threads: int = 1

    def __post_init__(self) -> None:
        _who(self)
        _number(self, "threads", MOST_THREADS, of="a commit")


@dataclass(frozen=True, slots=True)
class Meet:
    """A barrier of both CTAs of a pair."""

    cta: int = 0

    def __post_init__(self) -> None:
        _who(self)


@dataclass(frozen=True, slots=True)
class Exit:
    """The end of a CTA."""

    cta: int = 0

    def __post_init__(self) -> None:
        _who(self)


Event: TypeAlias = Allocate | Free | Relinquish | Multiply | Transfer | CopyIn | Commit | Meet | Exit


@dataclass(frozen=True, slots=True)
class Program:
    """Events of one CTA, or of the two of a pair, in an order in which they may happen; and the cluster's CTAs.

    Raises:
        InvalidInput: events are no sequence of events, a CTA exits twice, or no cluster has so many CTAs.
    """

    events: tuple[Event, ...]
    cluster: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "events", sequence(self.events, "events of a program", "them"))
        for i, event in enumerate(self.events):
            if not isinstance(event, get_args(Event)):
                known = ", ".join(kind.__name__ for kind in get_args(Event))
                raise InvalidInput(f"event {i} is {shown(event)}; give one of {known}")
        for cta in CTAS:
            if sum(event == Exit(cta) for event in self.events) > 1:
                raise InvalidInput(f"CTA {cta} exits twice; give one Exit a CTA")
        object.__setattr__(self, "cluster", integer(self.cluster, "CTAs of a cluster", low=1, high=MOST_CTAS))
