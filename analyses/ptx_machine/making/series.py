"""Stores to shared memory, or loads from it, that follow each other and are recorded at once.

An epilogue stores or loads a tile by hundreds of instructions, between which nothing else happens. The warp knows the
same at each of them, and they belong to one line of work at one time. So whether all that they touch is behind the warp
is asked once for all; each is still an access of its own, by its own line. Where the answer is no, or anything else
would have to be said of one of them, each is followed by itself, as if there were no series.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from legalsat.analyses.ptx.clocks import Worker
from legalsat.analyses.ptx.contract import Order, access_of, trail_of
from legalsat.analyses.ptx.findings import Undecided
from legalsat.analyses.ptx.instruction import Instruction, results_of, vector, width_of
from legalsat.analyses.ptx.loads import BY_THREADS, Written
from legalsat.analyses.ptx_machine import units
from legalsat.analyses.ptx_machine.machine import PASS, Operation, Part, Run, Warp
from legalsat.analyses.ptx_machine.matrix.results import have_read
from legalsat.analyses.ptx_machine.memory import SHARED_BYTES
from legalsat.analyses.ptx_machine.places import Place, Places
from legalsat.analyses.ptx_machine.slice import touches

_MOST = 4096  # places of one series that are kept
_Chosen: TypeAlias = Sequence[tuple[str, Instruction | None]]


class _One(NamedTuple):
    """An access: the place of the register that holds its address, what it reaches from there, its bytes and line.

    `sums`, `fetched`: registers of these that it stores.
    """

    base: int
    reach: Places
    size: int
    line: int
    sums: frozenset[str] = frozenset()
    fetched: frozenset[str] = frozenset()


class _Reached:
    """What a series reaches from some addresses.

    Attributes:
        places: of each access. low, high: the first byte, and the one after the last; `inside` if a CTA may use all.
        regions: of each access, in a list that grows when one of them is split; `flat` are all of them.
        trail: by line, what a warp's trail grows by. noted: what has been noted of it in all runs, and where.
    """

    def __init__(self, places: list[Place], listed: Sequence[_One], order: Order) -> None:
        self.places = places
        self.low, self.high = min(one.low for one in places), max(one.high for one in places)
        self.inside = all(one.inside for one in places)
        self.regions = [order.shared.of(one.cells) for one in places] if self.inside else []
        self.flat: list[int] = []
        self.alone = True
        self.trail = [(one.line, trail_of(place.cells, one.line)) for one, place in zip(listed, places, strict=True)]
        self.noted: tuple[Written | None, set[object]] = None, set()
        self._parents = 0

    def settle(self, order: Order) -> None:
        """Find the regions anew if some may have been split; `alone`: no two accesses reach the same."""
        count = order.shared.up_to_date()
        if count != self._parents:
            self._parents, self.flat = count, [one for several in self.regions for one in several]
            self.alone = len(set(self.flat)) == len(self.flat)

    def noted_in(self, written: Written) -> set[object]:
        """Return what has been noted there."""
        if self.noted[0] is not written:
            self.noted = written, set()
        return self.noted[1]


class Series:
    """The operation in front of a series, which goes past all of it where that is plain.

    Args:
        listed: the accesses.
        inner: what the first one does by itself, which recorders of events want of each.
        firsts: the first registers of sums of wgmma.
        stores: whether they are stores.
    """

    def __init__(self, listed: Sequence[_One], inner: Operation, firsts: frozenset[str], *, stores: bool) -> None:
        self._listed, self.inner, self._stores = listed, inner, stores
        self._bases = sorted({one.base for one in listed})
        self._sums = sorted(frozenset[str]().union(*(one.sums for one in listed)))
        self._firsts = sorted(firsts.intersection(self._sums))
        self._fetched = sorted(frozenset[str]().union(*(one.fetched for one in listed)))
        self._held: dict[object, _Reached] = {}

    def __call__(self, run: Run, warp: Warp, part: Part) -> int | None:
        """Record all accesses and go past them, or make the first one."""
        if (warp.sums or warp.fetches) and not self._are_ready(warp):
            return self.inner(run, warp, part)
        reached = self._reached(run, part)
        if reached is None or not self._in_own_memory(run, warp, reached):
            return self.inner(run, warp, part)
        reached.settle(run.order)
        if not (self._stored if self._stores else self._loaded)(run, warp, part, reached):
            return self.inner(run, warp, part)
        have_read(warp, self._firsts)
        worker = warp.worker
        worker.turns.work()
        if run.order.traced:
            for line, grown in reached.trail:
                worker.trail[line] += grown
        part.pc += len(self._listed) - 1
        return PASS

    def _are_ready(self, warp: Warp) -> bool:
        """Has a warp waited for what matrix units write to the registers that are stored?"""
        sums, retired = warp.sums, warp.retired["wgmma"]
        if any(sums.get(name, -1) >= retired for name in self._sums):
            return False
        return all(warp.fetches.get(name, -1) < warp.fetched for name in self._fetched)

    def _reached(self, run: Run, part: Part) -> _Reached | None:
        registers = part.registers
        held = tuple([registers[one] for one in self._bases])
        kinds = {type(one) for one in held}
        if not kinds <= {int, np.ndarray}:
            return None
        key = part.mask, *[one if type(one) is int else one.tobytes() for one in held]
        found = self._held.get(key)
        if found is None:
            if len(self._held) >= _MOST:
                self._held.clear()
            try:
                places = [one.reach.at(registers[one.base], part.mask, one.size) for one in self._listed]
            except Undecided:
                return None
            found = self._held[key] = _Reached(places, self._listed, run.order)
        return found

    @staticmethod
    def _in_own_memory(run: Run, warp: Warp, reached: _Reached) -> bool:
        first, last = reached.low // SHARED_BYTES, (reached.high - 1) // SHARED_BYTES
        inside = reached.inside and reached.high <= run.shared_bytes
        return inside and (len(run.living) == 1 or first == last == warp.rank)

    def _stored(self, run: Run, warp: Warp, part: Part, reached: _Reached) -> bool:
        """Record stores of what is not followed; False if something must be said of one by itself."""
        order, worker = run.order, warp.worker
        shared, accesses, read = order.shared, order.accesses, order.loads.read
        writers = shared.all_writers(reached.flat)
        if not reached.alone or not _behind(order, worker, writers):
            return False
        readers = shared.all_readers(reached.flat)
        if readers is None or not _behind(order, worker, readers):
            return False
        if any(accesses[one].kind == "load" and one not in read for one in writers):
            return False
        agent, epoch = order.actor(worker, part.mask), worker.time
        noted = reached.noted_in(order.written)
        staged = any(accesses[one].kind in BY_THREADS for one in writers)
        for one, place, regions in zip(self._listed, reached.places, reached.regions, strict=True):
            accesses.append(access_of(agent, epoch, one.line, "st"))
            if staged:  # all of it is read, or there would be no readers
                order.loads.note_lost(shared.writers_of(regions), (), accesses, one.line)
            shared.wrote(regions, len(accesses) - 1)
            order.loads.turns[len(accesses) - 1] = worker.turns.now
            if not noted:
                order.written.note(place.cells, one.line, stored=True)
            run.forget(place.bytes)
        noted.add("")
        return True

    def _loaded(self, run: Run, warp: Warp, part: Part, reached: _Reached) -> bool:
        """Record loads of what is not followed; False if something must be said of one by itself."""
        order, worker = run.order, warp.worker
        shared, accesses, loads = order.shared, order.accesses, order.loads
        writers = shared.all_writers(reached.flat)
        if 0 in writers or not _behind(order, worker, writers):
            return False
        for number in writers:
            by, epoch, _, kind = accesses[number]
            if kind == "load" and worker.known[by] > epoch + 1 and epoch >= loads.begun.get(by, 0):
                return False  # it is what was loaded before
        of_loads = [one for one in writers if one in loads.spans]
        loads.read.update(one for one in writers if accesses[one].kind == "load" or accesses[one].kind in BY_THREADS)
        name = (accesses[of_loads[0]].line, *loads.spans[of_loads[0]]) if len(writers) == len(of_loads) == 1 else None
        noted = reached.noted_in(order.written)
        agent, epoch = order.actor(worker, part.mask), worker.time
        if part.mask != worker.live:
            order.written.guarded.update(accesses[number].line for number in writers)
        for one, place, regions in zip(self._listed, reached.places, reached.regions, strict=True):
            if name is None or name not in noted:
                wrote = shared.writers_of(regions)
                order.written.note_read(place.cells, wrote, order, by_unit=False)
                if len(wrote) > 1:
                    loads.note_mixed(regions, wrote, shared, order, one.line)
            order.filled.add(one.line)
            accesses.append(access_of(agent, epoch, one.line, "ld"))
            shared.has_read(regions, agent, len(accesses) - 1)
        if name is not None:
            noted.add(name)
        return True


def _behind(order: Order, worker: Worker, numbers: set[int]) -> bool:
    """Are accesses behind what a warp does now, by what it knows itself? Those that are, it will not look at again."""
    known, accesses, own = worker.known, order.accesses, (worker.index, worker.single)
    for number in numbers - worker.behind:
        agent, epoch, _, _ = accesses[number]
        if known[agent] <= epoch and agent not in own:
            return False
        worker.behind.add(number)
    return True


def join_series(program: Any, chosen: _Chosen) -> None:
    """Let the first of accesses that follow each other record all of them."""
    at, code = 0, program.code
    while at < len(chosen):
        begin, listed = at, list[_One]()
        first = chosen[begin][1]
        while at < len(chosen) and (i := chosen[at][1]) is not None and first is not None and i.base == first.base:
            one = _access(program, i)
            if one is None or at in program.watches_at:
                break
            listed.append(one)
            at += 1
        if len(listed) > 1 and first is not None:
            series = Series(listed, code[begin], program.firsts, stores=first.base == "st")
            code[begin] = program.bare[begin] = series
        at = max(at, begin + 1)


def _access(program: Any, i: Instruction) -> _One | None:
    """Return a store of what nobody follows, or a load of it, by all lanes to shared memory; None for anything else."""
    if i.base not in {"st", "ld"} or i.guard or units.space_of(i) != "shared" or "async" in i.parts:
        return None
    stores = i.base == "st"
    if not stores and touches(i, program.sums | program.fetched):
        return None
    names = vector(i.operands[1]) if stores else []
    if stores:
        followed = all(n in program.needed or not n.startswith("%") for n in names)
    else:
        followed = not program.needed.isdisjoint(results_of(i)) or id(i) in program.roles.words
    if followed:
        return None
    base, offset = program.address(i.operands[0 if stores else 1], i.line)
    sums, fetched = program.sums.intersection(names), program.fetched.intersection(names)
    return _One(base, Places(program.granule, offset, i.line), width_of(i), i.line, sums, fetched)
