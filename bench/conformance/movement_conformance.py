"""Conformance of movements: a printed kernel's events against its plan's program, with what each moves and from where.

Tiles, coordinates and addresses are worked out anew from the plan's views and modes, for the tiles of one block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from bench.conformance.kernel_conformance import Matched, done_to
from legalsat.analyses.protocol.pipeline_tables import Instruction
from legalsat.analyses.ptx_machine.alu import FULL
from legalsat.analyses.ptx_machine.events import Event
from legalsat.extract.kernels.kernel_steps import SHARED_OUT, Items, Step, Steps, steps
from legalsat.extract.moved.movement_tiles import NOTHING, MovedTiles
from legalsat.logic import round_up
from legalsat.plans.movement_plan import MovementPlan
from legalsat.program.pipeline import (
    BufferRing,
    CopyIn,
    Expect,
    Load,
    Operation,
    Pipeline,
    Start,
    Store,
    Vectors,
)

BARRIER_BYTES = 8
_BY_ONE = frozenset({"start", "expect", "load", "store"})
SOURCE, TARGET = 1 << 44, 1 << 46  # addresses of the tensors
ADDRESSES = {"source": SOURCE, "target": TARGET}
# What a text may do that its program does not say, and the reason.
ALLOWED = {
    "meetings": "Gluon lets the block meet wherever its own analysis sees one thread's work before another's",
    "fences": "Gluon makes new barriers known to the copy engine by fence.proxy.async, and may fence more often",
    "all lanes": "Gluon has every thread close bulk groups and wait for them, of which all but one have none",
    "elected": "Gluon has one thread start barriers and expect bytes, and others issue the copies of a tile",
    "vectors": "Triton chooses how many bytes threads move at a time; their bytes are compared one by one",
    "turns": "Triton turns what threads hold as it likes, between lanes or through shared memory of its own",
}
_TURNS = frozenset({"read", "write", "meet"})


@dataclass(frozen=True)
class Printer:
    """What a printer's compiler may do otherwise, as `ALLOWED` says.

    Attributes:
        gluon: meetings, fences, all lanes and elected. splits: vectors. turns: that too.
    """

    gluon: bool = False
    splits: bool = False
    turns: bool = False

    @property
    def shared(self) -> frozenset[str]:
        """What warps share out among them."""
        return SHARED_OUT | {"load", "store"} if self.gluon else SHARED_OUT

    def adds(self, step: Step) -> bool:
        """May a text do this beyond its program?"""
        added = {"meet", "fence"} | (_TURNS if self.turns else set())
        return self.gluon and (step.what in added or bool(step.names & _BULK))

    def compared(self, steps_: Sequence[Step]) -> list[Step]:
        """Return the steps that must agree, as they must; a meeting behind which nothing is done orders nothing."""
        if not self.gluon:
            return [step for step in steps_ if not (self.turns and step.what in _TURNS)]
        found = [replace(step, items=_PROXIES) if step.items == _STARTED else step for step in steps_]
        while found and found[-1].what == "meet":
            found.pop()
        return found


_BULK = frozenset({"bulk", "bulk.read"})
_STARTED, _PROXIES = (("mbarrier_init", 0),), (("proxy.async", 0),)


def printer_of(name: str, plan: MovementPlan) -> Printer:
    """Return what the compiler of a backend may do otherwise in a plan's text."""
    gluon = bool(plan.tensor_maps)
    return Printer() if name == "cute" else Printer(gluon, splits=True, turns=not gluon or plan.store == "threads")


def movement_conformance(
    plan: MovementPlan,
    block: int,
    events: Mapping[int, Sequence[Event]],
    maps: Mapping[str, int],
    *,
    printer: str,
    program: Pipeline | None = None,
) -> list[str]:
    """Return in words where a printed kernel does something else than its program: of each warp the first place.

    Args:
        plan: that is printed.
        block: whose events these are.
        events: of each of its warps, also of those that do nothing, with coordinates and addresses.
        maps: numbers of tensor maps, by the names of parameters.
        printer: the backend's name.
        program: another one than the plan's.

    Raises:
        InvalidInput: the program names a ring that it has not.
    """
    program = program or plan.pipeline
    tiles, allowed = MovedTiles(plan), printer_of(printer, plan)
    said = _Said(tiles, block, allowed)
    text = _Text(Places(program, plan, events, together=allowed.gluon), plan.access.word // 8, maps, allowed)
    found: list[str] = []
    first = 0
    for _, role, ours in steps(program, {name: trips(plan, block) for name in program.symbols}, said):
        matched = Matched(role.name, shared=allowed.shared, added=allowed.adds)
        for warp, one in enumerate(ours):
            done = allowed.compared(text.steps(events.get(first + warp, ())))
            found += matched.differences(warp, allowed.compared(one), done) or list(
                _lanes(f"{role.name}, warp {warp}", done, allowed)
            )
        found += matched.left_out()
        first += role.warps
    if first != len(events):
        found.append(f"the program has roles for {first} warps, the text has {len(events)}")
    return found or [*text.places.faults]


def trips(plan: MovementPlan, block: int) -> int:
    """Return how many tiles a block has."""
    return max(0, -(-(plan.launch.tiles - block) // plan.launch.programs)) if plan.launch.programs else 1


@dataclass(frozen=True)
class _Said:
    """What operations of a program are done to, for one block."""

    tiles: MovedTiles
    block: int
    printer: Printer

    def items(self, todo: Instruction, stage: str, barrier: str) -> Items:
        """Return what a load, store, copy or vectors are done to."""
        op, tile = todo.op, self.block + todo.item * self.tiles.plan.launch.programs
        if isinstance(op, Vectors):
            each = self.tiles.access.word // 8 if self.printer.splits else op.bytes
            return [(_vector(op.side, at, each), 0) for at in self.tiles.vectors(op.side, each, tile) if at != NOTHING]
        if isinstance(op, CopyIn):
            vectors = zip(self.tiles.places(op.each), self.tiles.vectors("source", op.each, tile), strict=True)
            return [(_copy(stage, offset, at), op.each) for offset, at in vectors]
        assert isinstance(op, Load | Store)
        if isinstance(op, Load) and op.each:
            found = list(self.runs(op, tile, stage, barrier))
        else:
            boxes = self.tiles.boxes(op, tile)
            found = [(_boxed(stage, one.offset, op.number, one.at, barrier), one.bytes) for one in boxes]
        lacking = op.bytes - sum(count for _, count in found)
        found += [("what the plan's copies have not", lacking)] if lacking else []
        return found + ([(todo.fault, 0)] if todo.fault else [])

    def by_one(self, op: Operation) -> bool:
        """Does one thread of the block do an operation?"""
        if isinstance(op, Load | Store):
            return not self.printer.gluon
        return isinstance(op, Start | Expect) or getattr(op, "family", "") == "bulk"

    def runs(self, op: Load, tile: int, stage: str, barrier: str) -> Iterator[tuple[str, int]]:
        """Yield the copies of rows, and what of them nothing brings."""
        for row, (begin, held) in enumerate(self.tiles.runs(tile)):
            if held:
                yield _run(stage, row * op.each, begin, barrier), held
            if held < op.each:
                yield _missing(barrier), op.each - held


def _vector(side: str, at: int, size: int) -> str:
    return f"{size} bytes of {side} from byte {at}"


def _copy(stage: str, offset: int, at: int) -> str:
    return f"{stage} byte {offset} from " + ("nothing" if at == NOTHING else f"byte {at}")


def _boxed(stage: str, offset: int, number: int, at: Sequence[int], barrier: str = "") -> str:
    on = f" on {barrier}" if barrier else ""
    return f"{stage} byte {offset}{on} by map {number} at {', '.join(map(str, at))}"


def _run(stage: str, offset: int, begin: int, barrier: str) -> str:
    return f"{stage} byte {offset} on {barrier} from byte {begin}"


def _missing(barrier: str) -> str:
    return f"nothing on {barrier}"


class Places:
    """Where a text keeps its rings in shared memory, which is its compiler's to choose: where they are used first.

    Args:
        program: that has the rings. plan: with their alignment. events: of all warps.
        together: whether stages lie side by side, whatever their alignment.

    Attributes:
        faults: rings that lie on others which they may not.
    """

    def __init__(
        self, program: Pipeline, plan: MovementPlan, events: Mapping[int, Sequence[Event]], *, together: bool
    ) -> None:
        self.program = program
        self.pitch = {
            ring.name: ring.bytes if together else round_up(ring.bytes, tile.alignment)
            for ring, tile in zip(program.buffers, plan.shared, strict=True)
        }
        self.bases: dict[str, int] = {}
        first, *others = program.buffers or (BufferRing("", 0, 0),)
        used = {what: [at for stream in events.values() for at in _begins(stream, what)] for what in _FIRST}
        filled = used["load"] + used["copy"] or used["write"]
        self.bases |= {first.name: min(filled)} if filled else {}
        for ring in others:
            self.bases |= {ring.name: min(used["store"])} if used["store"] else {}
        at = min(used["start"], default=0)
        for barrier in program.barriers:
            self.bases[barrier.name] = at
            at += barrier.stages * BARRIER_BYTES

    @property
    def faults(self) -> Iterator[str]:
        """Yield the rings that lie on others."""
        spans = {
            ring.name: (self.bases[ring.name], (ring.stages - 1) * self.pitch[ring.name] + ring.bytes)
            for ring in self.program.buffers
            if ring.name in self.bases
        }
        spans |= {r.name: (self.bases[r.name], r.stages * BARRIER_BYTES) for r in self.program.barriers}
        over = {frozenset((ring.name, one)) for ring in self.program.buffers for one in ring.overlays}
        for a, (first, count) in spans.items():
            for b, (other, _) in spans.items():
                if a != b and first <= other < first + count and frozenset((a, b)) not in over:
                    yield f"{b} begins at byte {other}, within {a}"

    def barrier(self, at: int) -> str:
        """Return the barrier at a place, as ring and stage."""
        for ring in self.program.barriers:
            stage, late = divmod(at - self.bases[ring.name], BARRIER_BYTES)
            if 0 <= stage < ring.stages and not late:
                return f"{ring.name}[{stage}]"
        return f"byte {at}, which is no barrier"

    def stage(self, first: int, last: int, *, leaves: bool) -> tuple[str, int]:
        """Return the stage of the ring in which bytes lie, and where in it they begin.

        Of two rings in one place, what `leaves` does so through the second.
        """
        for ring in self.program.buffers[::-1] if leaves else self.program.buffers:
            if ring.name in self.bases:
                stage, offset = divmod(first - self.bases[ring.name], self.pitch[ring.name])
                if 0 <= stage < ring.stages and offset + last - first <= ring.bytes:
                    return f"{ring.name}[{stage}]", offset
        return f"byte {first}, which is in no buffer", 0


_FIRST = ("start", "load", "copy", "write", "store")


def _begins(stream: Sequence[Event], what: str) -> Iterator[int]:
    return (span[0] for event in stream if event.what == what for span in event.spans)


class _Text:
    """What has been run, as steps.

    Args:
        places: of rings. word: bytes of one. maps: numbers of tensor maps by name. printer: of the text.
    """

    def __init__(self, places: Places, word: int, maps: Mapping[str, int], printer: Printer) -> None:
        self.places, self.word, self.maps, self.printer = places, word, maps, printer

    def steps(self, events: Iterable[Event]) -> list[Step]:
        """Return the steps of a warp."""
        found = Steps()
        for event in events:
            if event.what != "lanes":  # which meet without any consequence: what one thread does says nothing of others
                what = "load" if event.what == "complete" else event.what
                found.add(what, self.items(event), event.line, event.lanes)
        return found.found

    def items(self, event: Event) -> Items:
        """Return what an event is done to."""
        if event.what in {"global read", "global write"}:
            return [(name, 0) for span in event.spans for name in self.vectors(*span)]
        if event.what in {"load", "store"}:
            return [self.copied(event)]
        stages = event.what in {"read", "write", "copy"}
        if not stages:
            barriers = [self.places.barrier(first) for first, _ in event.spans]
            return [(_missing(barriers[0]), event.numbers[0])] if event.what == "complete" else done_to(event, barriers)
        found = [self.places.stage(*span, leaves=event.what == "write") for span in event.spans]
        if event.what != "copy":
            return dict.fromkeys((stage for stage, _ in found), 0).items()
        begins = [NOTHING if at == NOTHING else at - SOURCE for at in event.at]
        return [(_copy(*place, at), event.numbers[0]) for place, at in zip(found, begins, strict=True)]

    def vectors(self, first: int, last: int) -> Iterator[str]:
        """Yield what threads move of a tensor, as vectors or, where a compiler splits these, as words."""
        side = "target" if first >= TARGET else "source"
        each = self.word if self.printer.splits else last - first
        for at in range(first, last, each):
            yield _vector(side, at - ADDRESSES[side], each)

    def copied(self, event: Event) -> tuple[str, int]:
        """Return what the copy engine does."""
        ((first, last),), loads = event.spans, event.what == "load"
        stage, offset = self.places.stage(first, last, leaves=not loads)
        barrier = self.places.barrier(event.numbers[1]) if loads else ""
        if not event.name:
            return _run(stage, offset, event.at[0] - SOURCE, barrier), event.numbers[0]
        return _boxed(stage, offset, self.maps.get(event.name, -1), event.at, barrier), event.numbers[0]


def _lanes(where: str, done: Sequence[Step], printer: Printer) -> Iterator[str]:
    """Yield steps that other lanes do than must: one and the same starts what one thread does, and all do the rest."""
    alone = set[int]()
    for step in done:
        bulk = bool(step.names & _BULK)
        if step.what in _BY_ONE or (bulk and not printer.gluon):
            alone.add(step.lanes)
            if step.lanes.bit_count() != 1 or (len(alone) > 1 and not printer.gluon):
                yield f"{where}, line {step.at}: {step} is done by lanes {step.lanes:#x}, not by the one that does such"
        elif step.what not in SHARED_OUT and not bulk and step.lanes != FULL:
            yield f"{where}, line {step.at}: {step} is done by lanes {step.lanes:#x}, not by all"
