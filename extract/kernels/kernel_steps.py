"""What each warp of a kernel does, step by step, as the kernel's program says.

A step is an operation with every name resolved: what is done to which stage of which ring, in which CTA.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Protocol, TypeAlias

from legalsat.analyses.protocol.pipeline_tables import Instruction, Unrolled
from legalsat.analyses.protocol.pipeline_unroll import Value, unroll
from legalsat.analyses.ptx_machine.alu import FULL, LANES
from legalsat.program.pipeline import (
    MEETINGS,
    Allocate,
    Arrive,
    Commit,
    CommitTo,
    CopyIn,
    Expect,
    Fence,
    Free,
    Load,
    Multiply,
    Operation,
    Pipeline,
    Read,
    Registers,
    Relinquish,
    Role,
    Start,
    Store,
    Sync,
    UseSums,
    Vectors,
    Wait,
    WaitGroup,
    Write,
    walk,
)

# Barriers of the block by number; behind that of all the first eight are CUTLASS's own. Each consumer that changes what
# was loaded, or turns what it stores, meets at a barrier of its own: there may be as many as the block has left (FACTS
# HW-14); none does both.
BARRIERS, ROWS = 16, 11
NUMBERS = {"block": 0, "turn 0": 9, "turn 1": 10, "consumers": 9}
NUMBERS |= {f"{what} {number - ROWS}": number for number in range(ROWS, BARRIERS) for what in ("rows", "turned")}
MOST_SHOWN = 6  # of what a step is done to
NO_ARRIVAL = ", without an arrival"  # of bytes that are expected
SUMMED = frozenset({"start", "arrive", "load"})
SHARED_OUT = frozenset({"read", "write", "copy", "global read", "global write"})  # among a role's warps, as they like
JOINED = SUMMED | SHARED_OUT | {"multiply", "store", "fetch"}
OF_ALL_WARPS = frozenset({"meet", "registers"})  # also where one thread acts for its role

Items: TypeAlias = Iterable[tuple[str, int]]


class Moved(Protocol):
    """Says where in global memory an operation of a movement finds what it moves."""

    def items(self, todo: Instruction, stage: str, barrier: str) -> Items:
        """Return what a load, store, copy or vectors are done to, given the stage and the barrier in words."""

    def by_one(self, op: Operation) -> bool:
        """Does one thread of the block do an operation?"""


@dataclass(frozen=True, slots=True)
class Step:
    """What a warp does at a time.

    Attributes:
        what: such as "wait". items: what it is done to, and how often, or with how many bytes.
        at: the number in the program, or the line of the text.
        lanes: that do it, as bits. met: whether the lanes of the warp have met since the step before.
    """

    what: str
    items: tuple[tuple[str, int], ...]
    at: int = 0
    lanes: int = FULL
    met: bool = True

    @property
    def done(self) -> tuple[str, tuple[tuple[str, int], ...]]:
        """What must agree."""
        return self.what, self.items

    @property
    def names(self) -> set[str]:
        """What it is done to."""
        return {name for name, _ in self.items}

    @property
    def rings(self) -> set[str]:
        """Names of the rings that it is done to."""
        return {name.partition("[")[0] for name in self.names}

    def __str__(self) -> str:
        shown = [name + (f" ({n})" if n else "") for name, n in self.items]
        more = [f"{len(shown) - MOST_SHOWN} more"] if len(shown) > MOST_SHOWN + 1 else []
        return f"{self.what} " + " and ".join(shown[:MOST_SHOWN] + more if more else shown)


class Steps:
    """Steps of a warp, in order; those of one kind that follow each other become one where that says the same."""

    def __init__(self) -> None:
        self.found: list[Step] = []
        self._ended = True

    def add(self, what: str, items: Items, at: int, lanes: int = FULL) -> None:
        """Add what is done next."""
        last, met = self.open, self._ended
        listed = list(items)
        if last is not None and what in JOINED and last.what == what:
            listed, at, lanes, met = [*last.items, *listed], last.at, lanes | last.lanes, last.met
            self.found.pop()
        counts: dict[str, int] = {}
        for name, n in listed:
            counts[name] = counts.get(name, 0) + n
        self.found.append(Step(what, tuple(sorted(counts.items())), at, lanes, met))
        self._ended = False

    def end(self) -> None:
        """Let what follows be another step: lanes have met."""
        self._ended = True

    @property
    def open(self) -> Step | None:
        """The step that what follows may still belong to."""
        return self.found[-1] if self.found and not self._ended else None

    @property
    def before(self) -> Step | None:
        """The step before the open one, which follows it without a meeting of lanes between."""
        return self.found[-2] if self.open is not None and len(self.found) > 1 and not self.found[-1].met else None

    def drop(self) -> None:
        """Take the last step back."""
        self._ended = self.found.pop().met


def steps(
    program: Pipeline, values: Mapping[str, Value], moved: Moved | None = None
) -> Iterator[tuple[int, Role, list[list[Step]]]]:
    """Yield each role of each CTA, with the steps of its warps.

    The set-up, which is no warp's own, stands ahead of what the first warp does, whose first meeting is its last. Of a
    role that loads, one thread of the first warp acts; the other warps meet others, and no more. Of a movement's role
    that thread does what one thread does, and all warps the rest.

    Args:
        program: that is unrolled.
        values: of its symbols.
        moved: of a movement, where in global memory it finds what it moves.

    Raises:
        InvalidInput: as `unroll` does.
    """
    unrolled = unroll(program, values)
    ahead: dict[int, list[Step]] = {}
    for process, instructions, end in zip(unrolled.processes, unrolled.programs, unrolled.ends, strict=True):
        role = process.role
        numbered = list(enumerate(instructions[:end]))
        first = _steps_of(unrolled, numbered, max(1, role.warps), moved)
        if not role.warps:
            ahead.setdefault(process.cta, []).extend(first)
            continue
        others = [step for step in first if step.what in OF_ALL_WARPS] if by_one(role) else first
        if moved is not None:
            shared = [(at, todo) for at, todo in numbered if not moved.by_one(todo.op)]
            others = _steps_of(unrolled, shared, role.warps, moved)
        yield process.cta, role, [_behind(ahead.pop(process.cta, []), first), *[others] * (role.warps - 1)]


def _behind(ahead: list[Step], first: list[Step]) -> list[Step]:
    """Return steps behind those of the set-up, with the meeting at its end and their beginning once."""
    if not ahead:
        return first
    meeting = list(takewhile(lambda step: step.what == "meet", first))
    own = ahead[: len(ahead) - len(meeting)]
    agrees = [step.done for step in ahead[len(own) :]] == [step.done for step in meeting]
    return [*own, *first] if agrees and meeting else [*ahead, Step("meet", (("nobody", 0),)), *first]


def by_one(role: Role) -> bool:
    """Does one thread of a role load, or issue multiplications?"""
    return any(isinstance(op, Load | CommitTo) for op in walk(role.body))


def named(name: str, stage: int, cta: int, own: int) -> str:
    """Return a stage in words, with the CTA where it is not one's own."""
    return f"{name}[{stage}]" + ("" if cta == own else f" of CTA {cta}")


def loaded(buffer: str, barrier: str, ctas: Iterable[int]) -> str:
    """Return what a load is done to in words."""
    return f"{buffer} on {barrier} for CTA {', '.join(map(str, sorted(set(ctas))))}"


def _steps_of(
    unrolled: Unrolled, instructions: Iterable[tuple[int, Instruction]], warps: int, moved: Moved | None = None
) -> list[Step]:
    """Return the steps of one of the warps that do a role together."""
    found = Steps()
    for at, todo in instructions:
        if isinstance(todo.op, Sync):
            items = _met(unrolled, todo, todo.op)
        elif moved is not None and isinstance(todo.op, Load | Store | CopyIn | Vectors):
            at_ = _Resolved(unrolled, todo)
            items = moved.items(todo, *(one[0] if one else "" for one in (at_.used, at_.barriers)))
        else:
            done = _DONE.get(type(todo.op))
            items = done(_Resolved(unrolled, todo), todo.op, warps) if done is not None else []
        if items:
            what = _WHAT[type(todo.op)]
            found.add(what[todo.op.side] if isinstance(todo.op, Vectors) else what, items, at)
    return found.found


class _Resolved:
    """The stages that an instruction names, in words."""

    def __init__(self, unrolled: Unrolled, todo: Instruction) -> None:
        self.phase, self.fault = todo.phase, todo.fault
        self.arrivals = [unrolled.arrivals[one] for one in todo.barriers]
        places = [unrolled.barriers[one] for one in todo.barriers]
        self.ctas = [cta for cta, _, _ in places]
        self.barriers = [named(name, stage, cta, todo.cta) for cta, name, stage in places]
        cells = [unrolled.cells[one.cell] for one in todo.accesses]
        self.used = [named(one.name, one.stage, one.cta, todo.cta) for one in cells if not one.sums]
        # Accumulators in tensor memory, which one thread has multiplied into and others read.
        self.summed = [f"{one.name}[{one.stage}]" for one in cells if one.tensor]
        self.first = (self.used + self.barriers)[0] if self.used or self.barriers else ""


def _load(at: _Resolved, op: Load, warps: int) -> Items:
    # All CTAs have the data at the same place, so that the first one's names say it without its number.
    buffer, barrier = (one.partition(" of CTA")[0] for one in (at.used[0], at.barriers[0]))
    return [(loaded(buffer, barrier, at.ctas) + (f", {at.fault}" if at.fault else ""), op.bytes)]


def _shared(at: _Resolved, count: int, warps: int) -> Items:
    """Return what each of a role's warps does of what they do together."""
    each, rest = divmod(count, warps)
    return [(at.first, each), ("what is no warp's", rest)] if rest else [(at.first, each)]


_DONE: dict[type[Operation], Callable[[_Resolved, Any, int], Items]] = {
    Start: lambda at, op, warps: list(zip(at.barriers, at.arrivals, strict=True)),
    Wait: lambda at, op, warps: [(f"{at.first} parity {at.phase & 1}", 0)],
    Arrive: lambda at, op, warps: _shared(at, op.count, warps),
    Expect: lambda at, op, warps: [(at.first + ("" if op.arrives else NO_ARRIVAL), op.bytes)],
    Load: _load,
    Store: lambda at, op, warps: _shared(at, op.bytes, warps),
    Read: lambda at, op, warps: [(at.first, 0)],
    Write: lambda at, op, warps: [(at.first, 0)],
    Multiply: lambda at, op, warps: [(name, 0) for name in (*at.used, *at.summed)],
    CommitTo: lambda at, op, warps: [(barrier, 1) for barrier in at.barriers],
    UseSums: lambda at, op, warps: [(name, 0) for name in at.summed],
    Allocate: lambda at, op, warps: [("", op.columns)],
    Relinquish: lambda at, op, warps: [("", 0)],
    Free: lambda at, op, warps: [("", op.columns)],
    Commit: lambda at, op, warps: [(op.family, 0)],
    WaitGroup: lambda at, op, warps: [(op.family + (".read" if op.read else ""), op.pending)],
    Fence: lambda at, op, warps: [(op.kind, 0)],
    Registers: lambda at, op, warps: [("inc" if op.more else "dec", op.count)],
}
_WHAT: dict[type[Operation], Any] = {kind: kind.__name__.lower() for kind in _DONE}
_WHAT |= {WaitGroup: "wait group", Sync: "meet", CopyIn: "copy", CommitTo: "commit to", UseSums: "fetch"}
_WHAT[Vectors] = {"source": "global read", "target": "global write"}


def _met(unrolled: Unrolled, todo: Instruction, op: Sync) -> Items:
    """Return half a meeting: the cluster's barrier is two instructions of a text, one of the block's is one."""
    arrives = not todo.need
    if op.name == "cluster":
        return [(f"cluster {'arrive' if arrives else 'wait'}", 0)]
    if op.waits and arrives:
        return []
    number, what = NUMBERS[op.name], "sync" if op.waits else "arrive"
    return [(f"{what} barrier {number}", 0 if op.name in MEETINGS else _threads(unrolled, todo.cta, op.name))]


def _threads(unrolled: Unrolled, cta: int, name: str) -> int:
    """Return the threads that meet at a barrier of the block."""
    there = [one.role for one in unrolled.processes if one.cta == cta]
    return sum(
        LANES * role.warps for role in there if any(isinstance(o, Sync) and o.name == name for o in walk(role.body))
    )
