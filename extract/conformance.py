"""Conformance: what each warp of a printed kernel does, event for event, against what its program says.

The program is unrolled for given trip counts, the text has been run for the same ones, and both become steps: what is
done to which stage of which ring. Where they may differ is listed in `ALLOWED`, and nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from legalsat.analyses.pipeline_tables import Instruction, Unrolled
from legalsat.analyses.pipeline_unroll import Value, unroll
from legalsat.analyses.ptx_machine_alu import FULL, LANES
from legalsat.analyses.ptx_machine_events import Event
from legalsat.analyses.ptx_machine_memory import SHARED_BASE, SHARED_BYTES
from legalsat.extract.kernel_memory import KernelMemory
from legalsat.pipeline import (
    MEETINGS,
    Arrive,
    Commit,
    Expect,
    Fence,
    Load,
    Multiply,
    Pipeline,
    Read,
    Registers,
    Role,
    Start,
    Store,
    Sync,
    Wait,
    WaitGroup,
    Write,
    walk,
)
from legalsat.product_kernel import ProductKernel

ALLOWED = {
    "one": "starts, arrivals, loads, multiplications, reads and writes that follow each other count as one step, in any "
    "order: boxes, boxes of 64 rows, steps along k and lanes are how a text spells one operation",
    "setup": "the set-up is done by the first thread of the block ahead of its own role, and meets the others once",
    "thread": "one thread of the producer's first warp acts for the role, so that the other warps meet and no more",
    "reads": "a warp may read less than its role: rows that C has not, or that start at their granule's beginning",
    "before": "where a tile is stored during the next one, nothing is read of that before the first: no row of it is in C",
    "writes": "a warp may leave out a write to what was loaded, where other warps of its role make it: each mends rows",
    "mending": "a write to what was loaded may read it first: a word's other bytes stay",
    "sums": "uses of sums are no events: registers are followed by the machine itself",
    "advance": "cursors are no events: stages and parities are",
}
# Barriers of the block by number; behind that of all the first eight are CUTLASS's own.
NUMBERS = {"block": 0, "turn 0": 9, "turn 1": 10, "consumers": 9, "rows 0": 11, "rows 1": 12}
_SUMMED = frozenset({"start", "arrive", "load"})
_JOINED = _SUMMED | {"multiply", "read", "write"}
_BY_ONE = frozenset({"start", "expect", "load", "store"})
_OF_ALL_WARPS = frozenset({"meet", "registers"})


@dataclass(frozen=True, slots=True)
class Step:
    """What a warp does at a time: `items` with what they are done to, and how often or with how many bytes."""

    what: str
    items: tuple[tuple[str, int], ...]
    line: int = field(default=0, compare=False)
    lanes: int = field(default=FULL, compare=False)

    def __str__(self) -> str:
        return f"{self.what} " + " and ".join(name + (f" x {n}" if n else "") for name, n in self.items)


Items = Iterable[tuple[str, int]]


class _Steps:
    """Steps of a warp, of which those that are one operation become one."""

    def __init__(self) -> None:
        self.found: list[Step] = []
        self._ended = True

    def add(self, what: str, items: Items, line: int = 0, lanes: int = FULL) -> None:
        listed = [(name, n if what not in _JOINED or what in _SUMMED else 0) for name, n in items]
        last = self.open
        if last is not None and what in _JOINED and last.what == what:
            listed, line, lanes = [*last.items, *listed], last.line, lanes | last.lanes
            self.found.pop()
        counts: dict[str, int] = {}
        for name, n in listed:
            counts[name] = counts.get(name, 0) + n
        self.found.append(Step(what, tuple(sorted(counts.items())), line, lanes))
        self._ended = False

    def end(self) -> None:
        """Let what follows be another operation."""
        self._ended = True

    @property
    def open(self) -> Step | None:
        """The step that what follows may still belong to."""
        return self.found[-1] if self.found and not self._ended else None

    def drop(self) -> None:
        """Take the last step back."""
        self.found.pop()


# What the program says.


def _said(program: Pipeline, values: Mapping[str, Value]) -> Iterator[tuple[int, Role, list[list[Step]]]]:
    """Yield each role of each CTA, with the steps of its warps; the set-up stands ahead of the first role's."""
    unrolled = unroll(program, values)
    ahead: dict[int, list[Step]] = {}
    for process, instructions in zip(unrolled.processes, unrolled.programs, strict=True):
        role, first = process.role, _steps_of(unrolled, instructions, max(1, process.role.warps))
        if not role.warps:
            ahead[process.cta] = [step for step in first if step.what != "meet"]
            continue
        others = first
        if _is_producer(role):
            others = [step for step in first if step.what in _OF_ALL_WARPS]
        yield process.cta, role, [ahead.pop(process.cta, []) + first, *[others] * (role.warps - 1)]


def _is_producer(role: Role) -> bool:
    return any(isinstance(op, Load) for op in walk(role.body))


def _steps_of(unrolled: Unrolled, instructions: Sequence[Instruction], warps: int) -> list[Step]:
    """Return the steps of one warp of as many that do a role together."""
    found = _Steps()
    for at, todo in enumerate(instructions):
        if isinstance(todo.op, Sync):
            following = instructions[at + 1] if at + 1 < len(instructions) else todo
            step = _met(unrolled, todo, following)
        else:
            step = _done(unrolled, todo, warps)
        if step is not None:
            found.add(*step, at)
    return found.found


def _done(unrolled: Unrolled, todo: Instruction, warps: int) -> tuple[str, Items] | None:
    """Return what an operation is as a step, None for one that is no event."""
    op, own = todo.op, todo.cta
    barriers = [_named(own, *unrolled.barriers[one]) for one in todo.barriers]
    cells = [unrolled.cells[one.cell] for one in todo.accesses]
    used = [_named(own, cell.cta, cell.name, cell.stage) for cell in cells if not cell.sums]
    match op:
        case Start():
            return "start", zip(barriers, [unrolled.arrivals[one] for one in todo.barriers], strict=True)
        case Wait():
            return "wait", [(f"{barriers[0]} parity {todo.phase & 1}", 0)]
        case Arrive():
            return "arrive", [(barriers[0], op.count // warps)]
        case Expect():
            return "expect", [(barriers[0], op.bytes)]
        case Load():
            ctas = [unrolled.barriers[one][0] for one in todo.barriers]
            buffer, barrier = f"{op.buffer}[{cells[0].stage}]", barriers[0].partition(" ")[0]
            return "load", [(_loaded(buffer, barrier, ctas), op.bytes)]
        case Store():
            return "store", [(used[0], op.bytes // warps)]
        case Read() | Write() | Multiply():
            return type(op).__name__.lower(), [(name, 0) for name in used]
        case Commit():
            return "commit", [(op.family, 0)]
        case WaitGroup():
            return "wait group", [(op.family + (".read" if op.read else ""), op.pending)]
        case Fence():
            return "fence", [(op.kind, 0)]
        case Registers():
            return "registers", [("inc" if op.more else "dec", op.count)]
    return None


def _met(unrolled: Unrolled, todo: Instruction, following: Instruction) -> tuple[str, Items] | None:
    """Return a half of a meeting as a step: that of the cluster has two, a barrier of the block is one instruction."""
    op, arrives = todo.op, not todo.need
    assert isinstance(op, Sync)
    if op.waits and arrives and following.meeting != todo.meeting:
        return None  # who has ended, whom nobody waits for
    if op.name == "cluster":
        return "meet", [(f"cluster {'arrive' if arrives else 'wait'}", 0)]
    if op.waits and arrives:
        return None
    threads = sum(
        LANES * one.role.warps
        for one in unrolled.processes
        if one.cta == todo.cta and any(isinstance(o, Sync) and o.name == op.name for o in walk(one.role.body))
    )
    name = f"{'sync' if op.waits else 'arrive'} barrier {NUMBERS[op.name]}"
    return "meet", [(name, threads if op.name not in MEETINGS else 0)]


def _named(own: int, cta: int, name: str, stage: int) -> str:
    return f"{name}[{stage}]" + ("" if cta == own else f" of CTA {cta}")


def _loaded(buffer: str, barrier: str, ctas: Iterable[int]) -> str:
    return f"{buffer} on {barrier} for CTA {', '.join(map(str, sorted(set(ctas))))}"


# What the text does.


class _Text:
    """Steps of what has been run."""

    def __init__(self, memory: KernelMemory, base: int, warps: int) -> None:
        self.memory, self.base, self.warps = memory, base, warps
        self.loaded = {ring.name for ring in memory.program.buffers if not ring.name.startswith("C")}

    def steps(self, index: int, events: Iterable[Event]) -> list[Step]:
        """Return the steps of a warp of the cluster."""
        own, warp = divmod(index, self.warps)
        found = _Steps()
        for event in events:
            if event.what == "lanes":
                found.end()
                continue
            items = list(self.items(own, warp, event))
            if event.what in {"read", "write"} and all(name.partition("[")[0] in self.loaded for name, _ in items):
                last = found.open
                if event.what == "read" and last is not None and last.what == "write" and _within(items, last.items):
                    continue
                if event.what == "write" and last is not None and last.what == "read" and _within(last.items, items):
                    found.drop()
            found.add(event.what, items, event.line, event.lanes)
        return found.found

    def items(self, own: int, warp: int, event: Event) -> Items:
        """Yield what an event is done to."""
        numbers = event.numbers
        places = [self.place(own, first) for first, _ in event.spans]
        match event.what:
            case "start" | "arrive" | "expect":
                return [(self.barrier(own, *place), numbers[0]) for place in places]
            case "wait":
                return [(f"{self.barrier(own, *places[0])} parity {numbers[0]}", 0)]
            case "load":
                count, at, mask = numbers
                cta, barrier = self.place(own, at)
                ctas = [n for n in range(16) if mask >> n & 1] or [places[0][0]]
                other = "" if cta == places[0][0] else f" of CTA {cta}"
                name = self.memory.barrier(barrier) + other
                return [(_loaded(held, name, ctas), n) for held, n in self.held(warp, *places[0], count)]
            case "store":
                return self.held(warp, *places[0], numbers[0])
            case "read" | "write" | "multiply":
                found = {}
                for (cta, offset), (first, last) in zip(places, event.spans, strict=True):
                    for held, _ in self.held(warp, cta, offset, last - first):
                        found[held + ("" if cta == own else f" of CTA {cta}")] = 0
                return found.items()
            case "meet":
                if event.name.startswith("cluster"):
                    return [(event.name, 0)]
                return [(f"{event.name} barrier {numbers[0]}", numbers[1])]
        return [(event.name, numbers[0] if numbers else 0)]

    def place(self, own: int, at: int) -> tuple[int, int]:
        """Return the CTA and the byte of the kernel's memory of a place of the machine's."""
        cta, offset = divmod(at, SHARED_BYTES)
        return cta, offset - self.base

    def barrier(self, own: int, cta: int, offset: int) -> str:
        return self.memory.barrier(offset) + ("" if cta == own else f" of CTA {cta}")

    def held(self, warp: int, cta: int, offset: int, count: int) -> list[tuple[str, int]]:
        return self.memory.held(offset, offset + count, warp)


def _within(some: Items, others: Items) -> bool:
    return {name for name, _ in some} <= {name for name, _ in others}


# Both.


def conformance(
    program: Pipeline,
    values: Mapping[str, Value],
    kernel: ProductKernel,
    events: Mapping[int, Sequence[Event]],
    *,
    along_rows: bool = False,
    base: int = SHARED_BASE,
) -> list[str]:
    """Return in words where a printed kernel does something else than its program, for each warp the first place.

    Args:
        program: `kernel_program` of the kernel.
        values: of its symbols.
        kernel: that was printed.
        events: of each warp of the cluster, what a run of the text for these values has recorded.
        along_rows: whether neighbours in C are neighbours in a column of the tile.
        base: where the kernel's shared memory begins, in the machine's.
    """
    text = _Text(KernelMemory(program, kernel, along_rows), base, kernel.threads // LANES)
    found: list[str] = []
    first = dict.fromkeys(range(kernel.cluster_blocks), 0)
    for cta, role, said in _said(program, values):
        indices = [cta * text.warps + first[cta] + n for n in range(role.warps)]
        first[cta] += role.warps
        done = [text.steps(index, events.get(index, ())) for index in indices]
        where = f"{role.name}" + (f" of CTA {cta}" if kernel.cluster_blocks > 1 else "")
        matched = _Matched(where, text.loaded, late=bool(kernel.deferred))
        for warp, (ours, theirs) in enumerate(zip(said, done, strict=True)):
            found += matched.differences(warp, ours, theirs)
        found += matched.left_out()
    return found


class _Matched:
    """The warps of a role, against what the program says of each."""

    def __init__(self, where: str, loaded: set[str], *, late: bool) -> None:
        self.where, self.loaded, self.late = where, loaded, late
        self.wanted: dict[int, Step] = {}
        self.used: dict[int, set[str]] = {}

    def may_lack(self, step: Step) -> bool:
        """May a warp leave a step out, or a part of it?"""
        return step.what == "read" or (step.what == "write" and self.of_loads(step))

    def of_loads(self, step: Step) -> bool:
        return all(name.partition("[")[0] in self.loaded for name, _ in step.items)

    def differences(self, warp: int, said: Sequence[Step], done: Sequence[Step]) -> list[str]:
        """Return the first difference of a warp."""
        at = 0
        for number, step in enumerate(said):
            found = done[at] if at < len(done) else None
            if self.may_lack(step):
                self.wanted.setdefault(step.line, step)
                if found is not None and found.what == step.what and _within(found.items, step.items):
                    self.used.setdefault(step.line, set()).update(name for name, _ in found.items)
                    at += 1
                continue
            if found != step:
                return [self.told(warp, number, step, found)]
            at += 1
        return [self.told(warp, len(said), None, done[at])] if at < len(done) else []

    def told(self, warp: int, number: int, said: Step | None, done: Step | None) -> str:
        """Return a difference in words."""
        here = f"{self.where}, warp {warp}, step {number}"
        ours = f"the program does {said}" if said is not None else "the program has ended"
        theirs = f"the text does {done} (line {done.line})" if done is not None else "the text has ended"
        return f"{here}: {ours}, {theirs}"

    def left_out(self) -> list[str]:
        """Return what no warp of the role has done."""
        found = []
        first = min((line for line in self.used if not self.of_loads(self.wanted[line])), default=math.inf)
        for line, step in sorted(self.wanted.items()):
            lacking = {name for name, _ in step.items} - self.used.get(line, set())
            nothing = self.late and not self.of_loads(step) and line < first
            if lacking and not nothing:
                found.append(
                    f"{self.where}: the program does {step.what} {' and '.join(sorted(lacking))}, no warp does"
                )
        return found
