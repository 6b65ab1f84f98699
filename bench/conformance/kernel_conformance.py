"""Conformance: what each warp of a printed kernel does, event for event, against what its program says.

The program is unrolled for a launch's trip counts, the text has been run for the same launch, and both become steps.
Where they may differ is listed in `ALLOWED`, and nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from legalsat.analyses.protocol.pipeline_unroll import Value
from legalsat.analyses.ptx_machine.alu import FULL, LANES
from legalsat.analyses.ptx_machine.events import Event
from legalsat.analyses.ptx_machine.memory import SHARED_BASE, SHARED_BYTES
from legalsat.extract.kernels.kernel_memory import RESULT, KernelMemory
from legalsat.extract.kernels.kernel_steps import NO_ARRIVAL, SHARED_OUT, Items, Step, Steps, by_one, loaded, steps
from legalsat.plans.product_kernel import ProductKernel
from legalsat.program.pipeline import Pipeline, Role

# What a text may do that its program does not say, and the reason.
ALLOWED = {
    "joined": "starts, arrivals, loads, stores, multiplications, copies, reads or writes that follow each other are "
    "one step, in any order: boxes, instructions along k and rows, and lanes are how a text spells one operation",
    "set-up": "the first thread of the block sets barriers up ahead of its own role, and meets the others once",
    "one thread": "of the role that loads one thread acts; its warp, and the other warps, meet others and no more",
    "reads": "a warp may read less than its role: rows that C has not, or that start at a granule's beginning",
    "before": "where a tile is stored during the next, nothing is read ahead of the first: C has no such rows, and "
    "boxes of groups of rows, which end where these do, are not stored",
    "mending": "warps of a role share the rows that it mends in a stage, and may read what they write there",
    "rounds": "a warp may read and write in turns what it moves from one buffer to another, before lanes meet",
    "groups": "where they begin is said and read in shared memory of no buffer, which is part of the tile scheduler",
    "tensor memory": "where it is is said and read in shared memory of no buffer, too",
    "no events": "cursors and uses of accumulators: parities say the first, the machine follows registers itself",
}
_BY_ONE = frozenset({"start", "expect", "load", "store"})
_ISSUED = frozenset({"multiply", "commit to", "fence"})  # by one thread that acts for a role
_ALIGNED = frozenset({"multiply", "meet", "registers"})  # done by all lanes of a warp, which so have met


def conformance(
    program: Pipeline,
    values: Mapping[str, Value],
    kernel: ProductKernel,
    events: Mapping[int, Sequence[Event]],
    *,
    memory: KernelMemory,
    base: int = SHARED_BASE,
) -> list[str]:
    """Return in words where a printed kernel does something else than its program: of each warp the first place.

    Args:
        program: `kernel_program` of the kernel.
        values: of its symbols.
        kernel: that was printed.
        events: of each warp of the cluster, what a run of the text for these values has recorded.
        memory: where its text keeps what.
        base: where the kernel's shared memory begins, in the machine's.

    Raises:
        InvalidInput: a symbol has no value, or one that is no number of turns.
    """
    text = _Text(memory, base, kernel.threads // LANES)
    found: list[str] = []
    first = dict.fromkeys(range(kernel.cluster_blocks), 0)
    tiles = values.get("tiles", 0)
    # Ahead of each tile, and behind the last, one is stored.
    unstored = 1 + tiles if kernel.overlapped and kernel.ragged == "m" and isinstance(tiles, int) else 0
    for cta, role, said in steps(program, values):
        where = role.name + (f" of CTA {cta}" if kernel.cluster_blocks > 1 else "")
        matched = Matched(where, late=bool(kernel.overlapped), unstored=unstored)
        for warp, ours in enumerate(said):
            done = text.steps(cta, first[cta] + warp, events.get(cta * text.warps + first[cta] + warp, ()))
            found += matched.differences(warp, ours, done) or list(_lanes(f"{where}, warp {warp}", role, done))
        found += matched.left_out()
        first[cta] += role.warps
    for cta, warps in first.items():
        if warps != text.warps:
            found.append(f"CTA {cta}: the program has roles for {warps} warps, the text has {text.warps}")
    return found or list(text.shares(events, kernel.stages))


def done_to(event: Event, barriers: Sequence[str]) -> Items:
    """Return what an event is done to that is about barriers, given in words, groups, fences or registers."""
    numbers = event.numbers
    if event.what == "meet":
        return [(f"{event.name} barrier {numbers[0]}" if numbers else event.name, numbers[1] if numbers else 0)]
    if event.what == "wait":
        return [(f"{barriers[0]} parity {numbers[0]}", 0)]
    if barriers:
        alone = NO_ARRIVAL if event.name == "alone" else ""
        return [(barrier + alone, numbers[0]) for barrier in barriers]
    return [(event.name, numbers[0] if numbers else 0)]


class _Text:
    """What has been run, as steps.

    Args:
        memory: of each CTA. base: where it begins, in the machine's. warps: of a CTA.
    """

    def __init__(self, memory: KernelMemory, base: int, warps: int) -> None:
        self.memory, self.base, self.warps = memory, base, warps

    def steps(self, own: int, warp: int, events: Iterable[Event]) -> list[Step]:
        """Return the steps of a warp of a CTA."""
        found = Steps()
        for event in events:
            if event.what == "lanes":
                found.end()
            if event.what in {"lanes", "global read", "global write"}:
                continue
            items = list(self.items(own, warp, event))
            if event.what in {"read", "write"} and not items:
                continue
            if event.what in {"read", "write"} and not any(name.startswith(RESULT) for name, _ in items):
                last, names = found.open, {name for name, _ in items}
                if last is not None and event.what == "read" and last.what == "write":
                    again = found.before
                    if names <= last.names or (again is not None and again.what == "read" and names <= again.names):
                        continue
                if last is not None and event.what == "write" and last.what == "read" and last.names <= names:
                    found.drop()
            found.add(event.what, items, event.line, event.lanes)
        return found.found

    def items(self, own: int, warp: int, event: Event) -> Items:
        """Return what an event is done to."""
        numbers, places = event.numbers, [self.place(first) for first, _ in event.spans]
        if event.what == "fetch":
            return [(self.memory.accumulator(numbers[0]), 0)]
        if event.what in {"read", "write", "multiply"}:
            summed = (self.memory.accumulator(column) for column in numbers)
            return dict.fromkeys((*self.held(own, warp, event), *summed), 0).items()
        if event.what in {"load", "store"}:
            held = self.memory.held(places[0][1], places[0][1] + numbers[0], warp)
            return held if event.what == "store" else self.load(places[0][0], held, numbers)
        return done_to(event, [self.barrier(own, place) for place in places])

    def place(self, at: int) -> tuple[int, int]:
        """Return the CTA and the byte of the kernel's memory that a place of the machine's is."""
        cta, offset = divmod(at, SHARED_BYTES)
        return cta, offset - self.base

    def barrier(self, own: int, place: tuple[int, int]) -> str:
        return self.memory.barrier(place[1]) + ("" if place[0] == own else f" of CTA {place[0]}")

    def ring(self, at: int) -> str:
        """Return the barriers of which one lies at a place of the machine's."""
        return self.memory.barrier(self.place(at)[1]).partition("[")[0]

    def held(self, own: int, warp: int, event: Event) -> Iterator[str]:
        for first, last in event.spans:
            cta, offset = self.place(first)
            if cta == own and self.memory.of_none(offset):
                continue
            for name, _ in self.memory.held(offset, offset + last - first, warp):
                yield name if cta == own else f"{name} of CTA {cta}"

    def load(self, to: int, held: Items, numbers: tuple[int, ...]) -> Items:
        _, barrier, mask = numbers
        name = self.barrier(to, self.place(barrier))
        return [(loaded(buffer, name, _ctas(to, mask)), count) for buffer, count in held]

    def shares(self, events: Mapping[int, Sequence[Event]], stages: int) -> Iterator[str]:
        """Yield where the loads of a stage that a barrier counts do not lie side by side.

        All CTAs that load for each other are looked at together.
        """
        filled: dict[tuple[int, str, int], list[tuple[int, int]]] = {}
        expected: dict[tuple[int, str, int], int] = {}
        for index, stream in sorted(events.items()):
            items: dict[str, int] = {}
            for event in stream:
                if event.what == "expect":
                    ring = self.ring(event.spans[0][0])
                    items[ring] = items.get(ring, -1) + 1
                    expected[index // self.warps, ring, items[ring]] = event.numbers[0]
                elif event.what == "load":
                    cta, offset = self.place(event.spans[0][0])
                    ring = self.ring(event.numbers[1])
                    for to in _ctas(cta, event.numbers[2]):
                        filled.setdefault((to, ring, items.get(ring, -1)), []).append(
                            (offset, offset + event.numbers[0])
                        )
        for (cta, ring, item), count in expected.items():
            pieces, brought = iter(self.memory.counted(ring, item % stages)), 0
            piece = next(pieces)
            begin = at = piece.start
            for first, last in sorted(filled.get((cta, ring, item), [])):
                if at == piece.end:
                    piece = next(pieces, piece)
                    at = piece.start
                if first != at:
                    yield f"CTA {cta}, loads of k-tile {item}: one begins at byte {first}, where {at} is the next"
                at, brought = last, brought + last - first
            if brought != count:
                yield f"CTA {cta}, loads of k-tile {item}: {brought} bytes from byte {begin} on, of {count}"


def _ctas(own: int, mask: int) -> list[int]:
    """Return the CTAs that a load goes to; without a mask its own."""
    return [n for n in range(mask.bit_length()) if mask >> n & 1] or [own]


def _lanes(where: str, role: Role, done: Sequence[Step]) -> Iterator[str]:
    """Yield steps that other lanes do than must, and those that rely on lanes that they have not met.

    A wait by one lane tells the others nothing, and an arrival or a store by one says nothing of what others did.
    """
    one = by_one(role)
    alone: set[int] = set()
    unknown = unsaid = False  # what one lane has waited for, and what others have done, since lanes met
    for step in done:
        line = f"{where}, line {step.at}"
        issued = one and step.what in _ISSUED and step.lanes != FULL
        aligned = (step.what in _ALIGNED and not issued) or "wgmma" in step.names
        if step.met or aligned:
            unknown = unsaid = False
        single = issued or step.what in _BY_ONE or "mbarrier_init" in step.names or step.names & {"bulk", "bulk.read"}
        if single or (one and step.what == "wait"):
            alone.add(step.lanes)
            if step.lanes.bit_count() != 1 or len(alone) > 1:
                yield f"{line}: {step} is done by lanes {step.lanes:#x}, not by the one that does such"
        elif step.what not in {"arrive", "read", "write"} and step.lanes != FULL:
            yield f"{line}: {step} is done by lanes {step.lanes:#x}, not by all"
        if unknown and step.lanes.bit_count() > 1 and not aligned:
            yield f"{line}: {step} follows a wait by one lane that the others have not met"
        if unsaid and step.what in {"arrive", "store"}:
            yield f"{line}: {step} speaks for lanes that have not met"
        unknown |= bool(single) and step.what == "wait group"
        unsaid |= step.lanes.bit_count() > 1 and not aligned and step.what != "arrive"


class Matched:
    """The warps of a role, against what the program says of each.

    Args:
        where: whose, in words.
        late: whether C is stored during the next tile.
        unstored: how often a tile is stored, if it is not the first time, when there is none yet; else 0.
        shared: what warps share out among them.
        added: what a text may do beyond its program.
    """

    def __init__(
        self,
        where: str,
        *,
        late: bool = False,
        unstored: int = 0,
        shared: frozenset[str] = SHARED_OUT,
        added: Callable[[Step], bool] = lambda step: False,
    ) -> None:
        self.where, self.late, self.shared, self.added = where, late, shared, added
        self.unstored = unstored
        self.wanted: dict[int, Step] = {}
        self.used: dict[int, set[str]] = {}

    def differences(self, warp: int, said: Sequence[Step], done: Sequence[Step]) -> list[str]:
        """Return the first difference of a warp."""
        at = 0
        unstored = sum(step.what == "store" for step in said) // self.unstored if self.unstored else 0
        for number, step in enumerate(said):
            while at < len(done) and done[at].what != step.what and self.added(done[at]):
                at += 1
            found = done[at] if at < len(done) else None
            if step.what in self.shared and not (step.what == "write" and _of_result(step)):
                self.wanted.setdefault(step.at, step)
                if found is not None and found.what == step.what and set(found.items) <= set(step.items):
                    self.used.setdefault(step.at, set()).update(found.names)
                    at += 1
                continue
            if step.what == "store" and unstored and (found is None or found.what != "store"):
                unstored -= 1
                continue
            if found is None or found.done != step.done:
                return [self.told(warp, number, step, found)]
            unstored = 0 if step.what == "store" else unstored
            at += 1
        rest = [step for step in done[at:] if not self.added(step)]
        return [self.told(warp, len(said), None, rest[0])] if rest else []

    def told(self, warp: int, number: int, said: Step | None, done: Step | None) -> str:
        """Return a difference in words."""
        ours = f"the program says {said}" if said is not None else "the program has ended"
        theirs = f"the text does {done} (line {done.at})" if done is not None else "the text has ended"
        return f"{self.where}, warp {warp}, step {number}: {ours}, {theirs}"

    def left_out(self) -> list[str]:
        """Return what no warp of the role has done."""
        found = []
        first = min((at for at in self.used if _of_result(self.wanted[at])), default=math.inf)
        for at, step in sorted(self.wanted.items()):
            lacking = step.names - self.used.get(at, set())
            if lacking and not (self.late and _of_result(step) and at < first):
                found.append(f"{self.where}: the program says {step}, no warp does {' and '.join(sorted(lacking))}")
        return found


def _of_result(step: Step) -> bool:
    return any(name.startswith(RESULT) for name in step.names)
