"""A pipeline made ready to be run: flat programs of every process, and numbers for its parts.

A process is one instance of a role in one CTA. Its *parts* are those whose progress others can learn of one by one:
what it does itself, and each family of asynchronous operations. Every barrier is a part too, for the copies that it
counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from legalsat.errors import InvalidInput
from legalsat.program.pipeline import (
    MEETINGS,
    Advance,
    Allocate,
    Arrive,
    At,
    BarrierRing,
    CommitTo,
    CopyArrive,
    CopyIn,
    Expect,
    Guard,
    Load,
    Loop,
    Multiply,
    Operation,
    Pipeline,
    Read,
    Role,
    Start,
    Store,
    Sync,
    Trips,
    UseSums,
    Wait,
    WaitGroup,
    Write,
    walk,
)

FAMILIES = ("cp.async", "wgmma", "tcgen05", "bulk")


class InvalidPipeline(InvalidInput):
    """A pipeline names what it does not declare, or has no stages; the message says what."""


@dataclass(frozen=True, slots=True)
class Head:
    """The place where a loop decides whether to go on; `end` is the first place after it."""

    loop: int
    trips: Trips
    end: int


@dataclass(frozen=True, slots=True)
class Enter:
    """The place before a loop's head, where its counter becomes 0."""

    loop: int


@dataclass(frozen=True, slots=True)
class Back:
    """The end of a loop's body."""

    loop: int
    head: int


@dataclass(frozen=True, slots=True)
class Skip:
    """A guard: go on if the trips or the cursor allow it, else go to `end`."""

    trips: Trips
    cursor: str
    end: int


Step: TypeAlias = Operation | Head | Enter | Back | Skip


@dataclass(slots=True)
class Program:
    """What a role does, flat.

    `nests` has the loops around each place, `decides` the places that ask for a symbol, `ordinals` which of the loops
    of a symbol a head is of, `watched` the cursors that guards look at and the most they compare with, `keeps` how many
    groups of a family waits can tell apart, `waits` the barriers that it waits for, `cursors` those that move.
    `live` has for each place, the end included, the cursors that count: those used before they are taken over.
    """

    role: Role
    steps: list[Step] = field(default_factory=list)
    nests: list[tuple[int, ...]] = field(default_factory=list)
    trips: dict[int, Trips] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    starts: dict[int, int] = field(default_factory=dict)
    decides: dict[str, list[int]] = field(default_factory=dict)
    watched: dict[str, int] = field(default_factory=dict)
    ordinals: dict[int, int] = field(default_factory=dict)
    keeps: dict[str, int] = field(default_factory=dict)
    waits: set[str] = field(default_factory=set)
    cursors: tuple[str, ...] = ()
    live: list[frozenset[str]] = field(default_factory=list)

    def put(self, step: Step, nest: tuple[int, ...]) -> int:
        """Append a step; return its place."""
        self.steps.append(step)
        self.nests.append(nest)
        return len(self.steps) - 1

    def loop_at(self, at: int) -> int:
        """Return the loop whose head is at a place, -1 for none."""
        step = self.steps[at]
        return step.loop if isinstance(step, Head) else -1


def flat(role: Role) -> Program:
    """Return the role's program with jumps for loops and guards."""
    program = Program(role)
    _flatten(program, role.body, ())
    program.cursors = tuple(sorted({op.cursor for op in walk(role.body) if isinstance(op, Advance)}))
    for op in walk(role.body):
        if isinstance(op, Wait):
            program.waits.add(op.barrier)
        if isinstance(op, WaitGroup):
            program.keeps[op.family] = max(program.keeps.get(op.family, 1), op.pending + 1)
    program.live = _live(program)
    return program


def _live(program: Program) -> list[frozenset[str]]:
    """Return for each place the cursors that are used from there on, before they are taken over at a meeting."""
    steps = program.steps
    live: list[frozenset[str]] = [frozenset()] * (len(steps) + 1)
    changed = True
    while changed:
        changed = False
        for at in reversed(range(len(steps))):
            step = steps[at]
            after = live[step.head if isinstance(step, Back) else at + 1]
            used: set[str] = set()
            if isinstance(step, Head | Skip):
                after |= live[step.end]
                used |= {step.cursor} if isinstance(step, Skip) else set()
            elif isinstance(step, Advance):
                used.add(step.cursor)
            elif isinstance(step, Sync):
                after -= {step.cursor} if step.waits else set()
                used |= set() if step.waits else {step.cursor}
            elif not isinstance(step, Enter | Back):
                used |= {at.cursor for _, _, at in uses(step)}
            found = after | used
            changed |= found != live[at]
            live[at] = found
    return live


def _flatten(program: Program, body: tuple[Operation, ...], nest: tuple[int, ...]) -> None:
    for op in body:
        if isinstance(op, Loop):
            number = len(program.trips)
            program.trips[number] = op.trips
            program.starts[number] = program.put(Enter(number), nest)
            head = program.put(Head(number, op.trips, 0), nest)
            _flatten(program, op.body, (*nest, number))
            program.put(Back(number, head), (*nest, number))
            program.ends[number] = len(program.steps)
            program.steps[head] = Head(number, op.trips, len(program.steps))
            if op.trips.name:
                asked = program.decides.setdefault(op.trips.name, [])
                program.ordinals[head] = sum(at in program.ordinals for at in asked)
                asked.append(head)
        elif isinstance(op, Guard):
            at = program.put(Skip(op.trips, op.cursor, 0), nest)
            _flatten(program, op.body, nest)
            program.steps[at] = Skip(op.trips, op.cursor, len(program.steps))
            if op.trips.name:
                program.decides.setdefault(op.trips.name, []).append(at)
            if op.cursor:
                program.watched[op.cursor] = max(program.watched.get(op.cursor, 0), op.trips.plus)
        else:
            program.put(op, nest)


@dataclass(frozen=True, slots=True)
class Actor:
    """One process, as far as it never changes: its number, CTA, role, which instance, and its parts."""

    number: int
    cta: int
    program: Program
    instance: int
    parts: dict[str, int]

    def __str__(self) -> str:
        role = self.program.role
        which = f" {self.instance}" if role.instances > 1 else ""
        return f"role {role.name}{which}" + (f" of CTA {self.cta}" if self.cta else "")


class Machine:
    """What stays the same while a pipeline runs: actors, rings, numbers of barriers, of stages and of parts."""

    def __init__(self, pipeline: Pipeline, at_least: Mapping[str, int]) -> None:
        self.pipeline, self.at_least = pipeline, at_least
        self.programs = [flat(role) for role in pipeline.roles]
        self.barriers = {ring.name: ring for ring in pipeline.barriers}
        self.buffers = {ring.name: ring for ring in pipeline.buffers}
        ops = [op for role in pipeline.roles for op in walk(role.body)]
        self.sums = {op.sums: 1 for op in ops if isinstance(op, Multiply | UseSums)} | pipeline.sums_stages
        _validate(self)
        self.users: list[str] = []  # who each part is
        self.actors: list[Actor] = []
        for cta in range(pipeline.cluster):
            for program in self.programs:
                for instance in range(program.role.instances if program.role.runs_in(cta) else 0):
                    self.actors.append(Actor(len(self.actors), cta, program, instance, self._parts_of(program)))
        self.families = [tuple(name for name in a.parts if name in FAMILIES) for a in self.actors]
        self.first_part = len(self.users)  # of barriers; barrier i has the part first_part + i
        self._numbers()
        # By CTA and name: the first of its barriers, or of its stages of a buffer or of sums.
        held = {name for op in ops if isinstance(op, Allocate) for name in op.holds}
        tensor = {op.sums for op in ops if isinstance(op, Multiply) and op.unit == "tcgen05"}
        self.tensor_sums = frozenset(tensor | (held & self.sums.keys()))
        self.overlaps = {
            name: tuple(
                other for other in self.buffers if other in ring.overlays or name in self.buffers[other].overlays
            )
            for name, ring in self.buffers.items()
        }
        self.map_stages = frozenset(n for n, (name, _) in enumerate(self.stage_names) if name in pipeline.maps)
        self.meetings = self._meetings()
        self.used_barriers = self._used_barriers()
        self.users_of = self._users_of()
        self.waiters = {
            name: frozenset(a.number for a in self.actors if name in a.program.waits) for name in self.barriers
        }
        self.tensor_actors = frozenset(
            a.number
            for a in self.actors
            for op in walk(a.program.role.body)
            if isinstance(op, Multiply | UseSums) and op.sums in self.tensor_sums
        )
        self.shared_nests = {symbol: self._nest_of(symbol) for symbol in pipeline.symbols}
        self.in_turn = {symbol: self._loops_agree(symbol) for symbol in pipeline.symbols}
        self.ceilings = {symbol: self._ceiling(symbol) for symbol in pipeline.symbols}
        self.classes = _cursor_classes(pipeline)
        # The cursor that a process hands over where it comes to a meeting and goes on.
        self.handed = {
            (a.number, meeting(a.cta, op.name)): op.cursor
            for a in self.actors
            for op in walk(a.program.role.body)
            if isinstance(op, Sync) and not op.waits
        }

    def _parts_of(self, program: Program) -> dict[str, int]:
        ops = list(walk(program.role.body))
        uses = {
            "threads": True,
            "cp.async": any(isinstance(op, CopyIn) for op in ops),
            "wgmma": any(isinstance(op, Multiply) and op.unit == "wgmma" for op in ops),
            "tcgen05": any(isinstance(op, Multiply) and op.unit == "tcgen05" for op in ops),
            "bulk": any(isinstance(op, Store) for op in ops),
        }
        parts = {}
        for name, used in uses.items():
            if used:
                parts[name] = len(self.users)
                self.users.append(name)
        return parts

    def _numbers(self) -> None:
        """Number all barriers and all stages of buffers and of sums, CTA by CTA, each ring's side by side."""
        self.barrier_at: dict[tuple[int, str], int] = {}
        self.barrier_rings: list[tuple[BarrierRing, int]] = []
        self.barrier_cta: list[int] = []
        self.stage_at: dict[tuple[int, str], int] = {}
        self.stage_names: list[tuple[str, int]] = []
        self.tensor_at: dict[tuple[int, str], int] = {}
        self.tensor_names: list[tuple[str, int]] = []
        for cta in range(self.pipeline.cluster):
            for ring in self.pipeline.barriers:
                self.barrier_at[cta, ring.name] = len(self.barrier_rings)
                self.barrier_rings += [(ring, stage) for stage in range(ring.stages)]
                self.barrier_cta += [cta] * ring.stages
            for buffer in self.pipeline.buffers:
                self.stage_at[cta, buffer.name] = len(self.stage_names)
                self.stage_names += [(buffer.name, stage) for stage in range(buffer.stages)]
            for name, stages in self.sums.items():
                self.tensor_at[cta, name] = len(self.tensor_names)
                self.tensor_names += [(name, stage) for stage in range(stages)]

    def _meetings(self) -> dict[tuple[int, str], frozenset[int]]:
        """Return who meets at a barrier, by CTA (-1: the whole cluster) and name: all, or those who name it."""
        found: dict[tuple[int, str], set[int]] = {}
        for actor in self.actors:
            for op in walk(actor.program.role.body):
                if isinstance(op, Sync):
                    key = meeting(actor.cta, op.name)
                    all_there = (a.number for a in self.actors if key[0] in {-1, a.cta})
                    found.setdefault(key, set()).update(all_there if op.name in MEETINGS else (actor.number,))
        return {key: frozenset(members) for key, members in found.items()}

    def _used_barriers(self) -> frozenset[tuple[int, str]]:
        """Return the barriers that anybody uses, by CTA and name: a block may leave those of another one alone."""
        cluster = self.pipeline.cluster
        found = set()
        for actor in self.actors:
            for op in walk(actor.program.role.body):
                if isinstance(op, Load | CommitTo):
                    found |= {((actor.cta + far) % cluster, op.barrier) for far in range(cluster) if op.mask >> far & 1}
                elif isinstance(op, Arrive):
                    found.add(((actor.cta + op.cta) % cluster, op.barrier))
                elif isinstance(op, Wait | Expect | CopyArrive):
                    found.add((actor.cta, op.barrier))
        return frozenset(found)

    def _users_of(self) -> dict[tuple[int, str, str], list[tuple[int, str, int]]]:
        """Return who uses a ring (by CTA, kind and name): the actor, its cursor, and the least offset."""
        found: dict[tuple[int, str, str], dict[tuple[int, str], int]] = {}
        for actor in self.actors:
            for op in walk(actor.program.role.body):
                for kind, name, at in uses(op):
                    far = isinstance(op, Load) or (isinstance(op, Read) and op.cta)
                    for cta in range(self.pipeline.cluster) if far else (actor.cta,):
                        least = found.setdefault((cta, kind, name), {})
                        key = actor.number, at.cursor
                        least[key] = min(least.get(key, at.offset), at.offset)
        return {key: [(*who, offset) for who, offset in least.items()] for key, least in found.items()}

    def _nest_of(self, symbol: str) -> bool:
        """Return whether all who ask for the symbol do so within the same loops around them.

        It may then have another value in each turn of those, which is more than the pipeline says, and what a grouped
        product wants.
        """
        around = {
            tuple(program.trips[loop] for loop in program.nests[at])
            for program in self.programs
            for at in program.decides.get(symbol, ())
        }
        return len(around) == 1

    def _loops_agree(self, symbol: str) -> bool:
        """Return whether all who have loops of a symbol have the same ones in the same order, each around no other.

        From some number of turns on these may then have different numbers of them, one after the other: that is more
        than can happen, and spares the count.
        """
        found = set()
        for program in self.programs:
            heads = [at for at in program.decides.get(symbol, ()) if at in program.ordinals]
            if heads:
                found.add(tuple(program.trips[program.loop_at(at)] for at in heads))
        return len(found) <= 1 and self.shared_nests[symbol]

    def _ceiling(self, symbol: str) -> int:
        """Return a number from which on all comparisons with the symbol that begin anew are true."""
        steps = (program.steps[at] for program in self.programs for at in program.decides.get(symbol, ()))
        return max((max(1, s.trips.most) - s.trips.plus for s in steps if isinstance(s, Head | Skip)), default=0)


def meeting(cta: int, name: str) -> tuple[int, str]:
    """Return the key of a barrier that roles meet at."""
    return (-1 if name == "cluster" else cta), name


def uses(op: Operation) -> Iterator[tuple[str, str, At]]:
    """Yield what an operation names: the kind of ring, the ring, and the item."""
    if isinstance(op, Wait | Arrive | Expect | CopyArrive | CommitTo | Load):
        yield "barrier", op.barrier, op.at
    if isinstance(op, Load | CopyIn | Store | Read | Write):
        yield "buffer", op.buffer, op.at
    if isinstance(op, Load | Store) and op.map:
        yield "buffer", op.map, op.map_at
    if isinstance(op, Multiply):
        for name, at in op.reads:
            yield "buffer", name, at
    if isinstance(op, Multiply | UseSums):
        yield "sums", op.sums, op.at


def _cursor_classes(pipeline: Pipeline) -> dict[tuple[str, str], int]:
    """Return a class for each cursor (of a role) and each ring (by kind and name): those that count the same items."""
    parent: dict[tuple[str, str], tuple[str, str]] = {}

    def find(key: tuple[str, str]) -> tuple[str, str]:
        parent.setdefault(key, key)
        while parent[key] != key:
            key = parent[key]
        return key

    for role in pipeline.roles:
        for op in walk(role.body):
            for kind, ring, at in uses(op):
                cursor = (f"cursor {role.name}", at.cursor) if at.cursor else ("fixed", "")
                one, other = find((kind, ring)), find(cursor)
                parent[one] = other
    roots = {find(key): None for key in parent}
    numbers = {root: number for number, root in enumerate(roots)}
    return {key: numbers[find(key)] for key in parent}


def _validate(machine: Machine) -> None:
    """Refuse names that nothing declares, and rings without stages."""
    pipeline = machine.pipeline
    known: dict[str, set[str]] = {
        "barrier": set(machine.barriers),
        "buffer": set(machine.buffers),
        "sums": set(machine.sums),  # which need no declaration
    }
    stages = [(ring.name, ring.stages) for ring in pipeline.barriers]
    for name, count in (*stages, *((ring.name, ring.stages) for ring in pipeline.buffers), *machine.sums.items()):
        if count < 1:
            raise InvalidPipeline(f"{name} has {count} stages; give at least 1")
    if pipeline.cluster < 1:
        raise InvalidPipeline(f"a cluster of {pipeline.cluster} blocks; give at least 1")
    held = {n for role in pipeline.roles for op in walk(role.body) if isinstance(op, Allocate) for n in op.holds}
    for role in pipeline.roles:
        for cta in role.ctas:
            if not 0 <= cta < pipeline.cluster:
                raise InvalidPipeline(
                    f"role {role.name} runs in CTA {cta}; the cluster has 0 to {pipeline.cluster - 1}"
                )
        for op in walk(role.body):
            for kind, name, _ in uses(op):
                if name not in known[kind] and not (kind == "buffer" and name in held):
                    raise InvalidPipeline(f"role {role.name} names the {kind} {name!r}; declare it in the pipeline")
            if isinstance(op, Advance) and op.by < 0:
                raise InvalidPipeline(f"role {role.name} moves the cursor {op.cursor!r} by {op.by}; give at least 0")
            if isinstance(op, Start) and op.barrier not in machine.barriers:
                raise InvalidPipeline(f"role {role.name} starts {op.barrier!r}; declare it in the pipeline")
