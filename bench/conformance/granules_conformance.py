"""Conformance of movements by granules: what a block of a printed kernel did, against its program and what that means.

The order of what each warp does is the program's. What all warps copy, read and write together is worked out by the
interpreter: every granule that is copied with its place in the tile, every byte of the target, once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from legalsat.analyses.ptx_machine.events import Event
from legalsat.extract.moved.granules import Block, Ends, run_block
from legalsat.plans.movement_plan import Granules, MovementPlan
from legalsat.program.leaves import GRANULE, ShiftRows, TurnTile
from legalsat.program.pipeline import Commit, CopyIn, Operation, Pipeline, Read, Sync, WaitGroup, Write

SOURCE, TARGET = 1 << 44, 1 << 46  # addresses of the tensors
NOWHERE = -1  # in memory that says where a byte is from: nobody has written it


def granules_conformance(
    plan: MovementPlan,
    granules: Granules,
    block: int,
    events: Mapping[int, Sequence[Event]],
    program: Pipeline | None = None,
) -> list[str]:
    """Return in words where a block of a printed kernel did something else than its program.

    Args:
        plan: that is printed.
        granules: its kernel.
        block: whose events these are.
        events: of each of its warps.
        program: another one than the plan's.
    """
    program = program or plan.pipeline
    (role,) = program.roles
    warps = role.warps * role.instances
    found = [f"the program has {warps} warps, the text {len(events)}"] if len(events) != warps else []
    size = -(-plan.operator.target.span_bits // 8)
    memory = Ends(np.arange(-(-plan.operator.source.span_bits // 8)), np.full(size, NOWHERE))
    done = run_block(program, granules, block, memory)
    everything = [event for stream in events.values() for event in stream]
    spans = list(_spans(program, done, everything))
    for warp, stream in events.items():
        found += [f"warp {warp}: {said}" for said in _order(role.body, stream, spans)][:1]
    short = [op for op in role.body if isinstance(op, CopyIn) and op.bytes != program.buffers[0].bytes]
    found += [f"the program copies {op.bytes} bytes into {op.buffer}, which are not all" for op in short]
    return [*found, *_moved(done, memory, everything, spans)]


def _spans(program: Pipeline, done: Block, events: Iterable[Event]) -> Iterator[tuple[str, int, int]]:
    """Yield where a text keeps each buffer: its first byte and the one behind its last. The first is copied into."""
    begins = [first for event in events if event.what == "copy" for first, _ in event.spans]
    at = min(begins, default=0) - min((int(at[0]) for at, _ in done.copied), default=0)
    for ring in program.buffers:
        yield ring.name, at, at + ring.bytes
        at += ring.bytes


def _seen(op: Operation) -> set[str]:
    """Return what an operation that is not done just once looks like in a text."""
    match op:
        case CopyIn():
            return {f"copy {op.buffer} by {op.each} bytes"}
        case Read() | Write():
            return {f"{type(op).__name__.lower()} {op.buffer}"}
        case TurnTile():
            return {"global write"}
        case ShiftRows():
            return {"global read", "global write"}
    return set()


def _looks(event: Event, spans: Iterable[tuple[str, int, int]]) -> set[str]:
    """Return the words of `_seen` for an event."""
    if event.what not in {"copy", "read", "write"}:
        return {event.what}
    by = f" by {event.numbers[0]} bytes" if event.what == "copy" else ""
    names = [[name for name, low, high in spans if low <= first < last <= high] for first, last in event.spans]
    return {f"{event.what} {name[0] if name else 'what is no buffer'}{by}" for name in names}


def _order(body: Iterable[Operation], stream: Iterable[Event], spans: list[tuple[str, int, int]]) -> Iterator[str]:
    """Yield where a warp's events do not follow the program: what all do once, and what may be done between."""
    todo, may = list(body), set[str]()
    for event in stream:
        if event.what == "lanes":
            continue
        looks = _looks(event, spans)
        while todo and not looks <= may:
            op = todo.pop(0)
            if isinstance(op, Commit | WaitGroup | Sync):
                if _once(op) != (event.what, event.name, event.numbers[:1]):
                    yield f"line {event.line}: {', '.join(looks)} stands where the program says {_once(op)[0]}"
                    return
                may = set()
                break
            may |= _seen(op)
        else:
            if not looks <= may:
                yield f"line {event.line}: the program does not {', '.join(looks - may)} there"
                return
    left = [op for op in todo if isinstance(op, Commit | WaitGroup | Sync)]
    if left:
        yield f"the program says {_once(left[0])[0]}, and the text does not"


def _once(op: Commit | WaitGroup | Sync) -> tuple[str, str, tuple[int, ...]]:
    """Return the event that a warp must have for an operation: what, name, and the first number."""
    if isinstance(op, Sync):
        return "meet", "sync", (0,)
    return ("wait group", op.family, (op.pending,)) if isinstance(op, WaitGroup) else ("commit", op.family, ())


def _moved(done: Block, memory: Ends, events: Sequence[Event], spans: Sequence[tuple[str, int, int]]) -> Iterator[str]:
    """Yield what was not copied, read or written as the program means it."""
    base = spans[0][1] if spans else 0
    copies = [
        (first, at - SOURCE, last - first)
        for event in events
        if event.what == "copy"
        for (first, last), at in zip(event.spans, event.at, strict=True)
    ]
    copied = Counter((first - base, at, size) for first, at, size in copies)
    wanted = Counter(
        (int(at[n]), int(taken[n]), GRANULE) for at, taken in done.copied for n in range(0, len(at), GRANULE)
    )
    yield from _told("copies", copied, wanted)
    read = Counter(dict.fromkeys(_bytes(events, "global read", SOURCE, GRANULE), 1))
    from_ = memory.target[memory.target >= 0] if not done.copied else np.array([], int)
    yield from _told("granules read", read, Counter(dict.fromkeys((from_ // GRANULE * GRANULE).tolist(), 1)))
    written = Counter(_bytes(events, "global write", TARGET, 1))
    yield from _told("bytes written", written, Counter(np.flatnonzero(memory.target != NOWHERE).tolist()))


def _bytes(events: Iterable[Event], what: str, base: int, step: int) -> Iterator[int]:
    """Yield bytes of a tensor that events of a kind touch, every so many."""
    for event in events:
        for first, last in event.spans if event.what == what else ():
            yield from range(first - base, last - base, step)


def _told(what: str, found: Counter[Any], wanted: Counter[Any]) -> Iterator[str]:
    """Yield how many of something are too many, and how many are missing."""
    for words, some in (("too many", found - wanted), ("missing", wanted - found)):
        if some:
            yield f"{some.total()} {what} {words}, the first {min(some, key=str)}"
