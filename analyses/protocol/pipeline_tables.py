"""The tables that an unrolled pipeline consists of: cells, instructions, flights.

An asynchronous effect that an instruction starts is a *flight*, which lands at any later time; what must land before it
is listed with it. A *cell* is one stage of a buffer or of sums in one CTA.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from legalsat.program.pipeline import Operation, Pipeline, Role

FlightKind: TypeAlias = Literal["load", "copy", "multiply", "fetch", "put", "signal"]
"""A load by the copy engine, a cp.async, a product; a store's reading of its source and its writing; an arrival."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One stage of a buffer or of sums: of a process if in registers (`owner`, else -1), or in tensor memory."""

    cta: int
    name: str
    stage: int
    sums: bool = False
    tensor: bool = False
    owner: int = -1


@dataclass(frozen=True, slots=True)
class Access:
    """A use of a cell as one item of it. `through`: "generic", "async", "sums", or "alloc" for (de)allocation."""

    cell: int
    item: int
    writes: bool
    through: str


@dataclass(frozen=True, slots=True)
class Flight:
    """An asynchronous effect: under way from the instruction that starts it until it lands.

    Attributes:
        number: its place in `Unrolled.flights`. process, index: the instruction that starts it. cta: where it lands.
        accesses: what it uses all the while. fills: of these, what holds its item from the landing on.
        barrier: whose bytes or arrivals it counts down when it lands, or -1. bytes, arrivals: how many.
        offset: of the bytes within the stage. after: flights that land before.
    """

    number: int
    kind: FlightKind
    process: int
    index: int
    cta: int
    accesses: tuple[Access, ...] = ()
    fills: Access | None = None
    barrier: int = -1
    bytes: int = 0
    arrivals: int = 0
    offset: int = 0
    after: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Instruction:
    """One operation of one process, with every name resolved.

    Attributes:
        op: what it comes from. cta: of the process. item: that the operation names.
        barriers: barrier cells. phase: that a wait waits for. accesses: that it does, or starts.
        flights: that it starts. after: flights that must have landed.
        meeting: a counter of a `Sync`, or -1; there are two instructions for each, the first arrives (`need` 0), the
            second waits until `need` have arrived.
        sums: cells of tensor memory that it uses.
        guards: of a tcgen05.after fence, the cells used before the next such fence; true where these are read, which
            products must come before, false where products follow, which readers must come before.
        covers: of a proxy.async fence, the copies by cp.async that it is for if they have landed.
        allocation: number of the `Allocate` that is meant, or -1.
        fault: what is wrong whatever the others do, or "".
    """

    op: Operation
    process: int
    index: int
    cta: int
    item: int = 0
    barriers: tuple[int, ...] = ()
    phase: int = 0
    accesses: tuple[Access, ...] = ()
    flights: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    meeting: int = -1
    need: int = 0
    sums: tuple[int, ...] = ()
    guards: tuple[tuple[int, bool], ...] = ()
    covers: tuple[int, ...] = ()
    allocation: int = -1
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Process:
    """One instance of a role in one CTA."""

    role: Role
    instance: int
    cta: int
    label: str


@dataclass(slots=True)
class Unrolled:
    """A pipeline unrolled: processes with their programs, and tables of what these name.

    `left` has, for each process, what it has started but in no group that it could wait for, and `ends` how long its
    own program is: what follows is meetings that wait for it no more.
    """

    pipeline: Pipeline
    processes: tuple[Process, ...]
    cells: tuple[Cell, ...]
    aliases: tuple[tuple[int, ...], ...]
    barriers: tuple[tuple[int, str, int], ...]
    arrivals: tuple[int, ...]
    meetings: tuple[tuple[int, str], ...]
    programs: list[tuple[Instruction, ...]] = field(default_factory=list)
    flights: list[Flight] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
