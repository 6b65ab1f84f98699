"""mbarriers of one execution: arrivals, bytes, phases, and what a wait may conclude (FACTS MB-01 to MB-23).

A wait names a phase by its parity alone. What it may conclude follows from what the warp knows before: the barrier has
completed at least `known` phases, so the wait is for phase `known - 1` or `known`, whichever has the parity. That the
barrier is not further than that must follow from the order of events; see `_check_waits`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from legalsat.analyses.ptx.clocks import Clock, Clocks, Worker
from legalsat.analyses.ptx.contract import Order, access_of
from legalsat.analyses.ptx_machine.memory import in_words

MAX_COUNT = 2**20 - 1  # FACTS MB-02


@dataclass(slots=True)
class Arriving:
    """A load under way: bytes it brings or, where these are not known, the map that says it."""

    bytes: int | None
    map: str
    clocks: Clocks
    line: int
    boxes: int = 1


class PassedWait(NamedTuple):
    """A wait that concluded that a phase was over: by which warp, in which line of work, at which time and turn."""

    worker: int
    agent: int
    time: int
    line: int
    turn: int


@dataclass
class Barrier:
    """One barrier, from its init on.

    Attributes:
        base: what clocks say of it is its phase plus this, so that they grow over several lives at one address.
        expected: arrivals of a phase. pending: those that the current phase lacks.
        phase: how many are over. tx: bytes that it lacks, as far as known.
        expects: bytes expected in this phase. brought: how many loads of each map came in it.
        under_way: loads. owed: arrivals that tcgen05 or cp.async still owe.
        arrived: of the last phase, if nothing but arrivals of threads ended it, by which warps and with which clocks.
        starter: the warp that initialised it. fenced_start: a fence of that warp has followed.
        cells: where it lies in shared memory.
        released: the time of its fence.mbarrier_init, which has released the init to the cluster; -1 without one.
        passed_on: the time of an arrival at the cluster's barrier that released nothing, but after such a fence.
    """

    address: int
    expected: int
    agent: int
    line: int
    clocks: Clocks
    cells: slice
    base: int = 0
    pending: int = 0
    phase: int = 0
    tx: int = 0
    expects: int = 0
    brought: Counter[str] = field(default_factory=Counter)
    under_way: list[Arriving] = field(default_factory=list)
    owed: list[tuple[Clocks, int]] = field(default_factory=list)
    past: list[Clocks] = field(default_factory=list)
    contributions: list[tuple[int, Clocks]] = field(default_factory=list)
    waits: dict[int, list[PassedWait]] = field(default_factory=dict)
    expect_line: int = 0
    expects_alone: list[tuple[int, int, int]] = field(default_factory=list)
    load_phases: list[tuple[int, int]] = field(default_factory=list)
    starter: int = 0
    arrived: dict[int, list[tuple[int, Clocks]]] = field(default_factory=dict)
    fenced_start: bool = False
    released: int = -1
    passed_on: int = -1


@dataclass(frozen=True, slots=True)
class Bytes:
    """What one phase says of boxes: so many bytes were expected, and so many loads of each map came."""

    expected: int
    known: int
    loads: tuple[tuple[str, int], ...]
    line: int


class Barriers:
    """All barriers of one execution.

    Args:
        boxes: bytes that a load of each map brings, where known.

    Attributes:
        starters: warps that have initialised some.
    """

    def __init__(self, order: Order, boxes: dict[str, int]) -> None:
        self.order, self.boxes = order, boxes
        self.live: dict[int, Barrier] = {}
        self.last: dict[int, Barrier] = {}
        self.ended: list[Barrier] = []
        self.equations: list[Bytes] = []
        self.late: dict[int, int] = {}
        self.overtaken: list[tuple[PassedWait, int, int]] = []
        self.starters: set[int] = set()

    def start(self, worker: Worker, lanes: int, address: int, count: int, line: int) -> None:
        """Initialise a barrier."""
        order = self.order
        old = self.live.get(address)
        if old is not None:
            self._check_idle(old, worker, line)
            self.ended.append(old)
            message = f"the barrier at shared byte {in_words(address)} is initialised again without mbarrier.inval"
            order.find("barrier_not_invalidated", line, message, f"started at line {old.line}")
        if address % 8:
            order.find("pipeline_address_misaligned", line, f"a barrier lies at byte {address}, no multiple of 8")
        if not 1 <= count <= MAX_COUNT:
            order.find(
                "arrival_count_out_of_range", line, f"a barrier that expects {count} arrivals, outside 1 to {MAX_COUNT}"
            )
        cells, agent = order.cells(address, 8), order.actor(worker, lanes)
        order.write(order.shared, cells, worker, agent, worker.time, "init", line)
        last = self.last.get(address)
        agent, base = (last.agent, last.base + last.phase + 2) if last is not None else (order.agent(), 0)
        started = Barrier(address, count, agent, line, order.clocks(), cells, base, pending=count, starter=worker.index)
        self.live[address] = self.last[address] = started
        order.loads.begun[agent] = base
        self.starters.add(worker.index)

    def fence_starts(self, worker: Worker, *, releases: bool) -> None:
        """Let asynchronous units see the barriers that a warp has initialised (FACTS FN-05); `releases`: others too."""
        if worker.index not in self.starters:
            return
        for barrier in self.live.values():
            if barrier.starter == worker.index:
                barrier.fenced_start = True
                if releases and barrier.released < 0:
                    barrier.released = worker.time

    def pass_on_starts(self, worker: Worker) -> None:
        """Let a warp arrive at the cluster's barrier without a release, as CUTLASS does (FACTS FN-05).

        Of several inits only those before the last fence are released; what has no fence at all is not passed on.
        """
        own = [barrier for barrier in self.live.values() if barrier.starter == worker.index]
        if any(barrier.released >= 0 for barrier in own):
            for barrier in own:
                if barrier.released < 0 and barrier.passed_on < 0:
                    barrier.passed_on = worker.time

    def _sees_start(self, worker: Worker, barrier: Barrier) -> bool:
        """Does a warp know that another one has gone on from a fence by which it released the init?"""
        known = worker.known[self.order.workers[barrier.starter].passed]
        if barrier.released < 0 <= barrier.passed_on < known and worker.index != barrier.starter:
            message = "mbarrier.init is passed on by an arrival at the cluster's barrier that releases nothing"
            self.order.find("arrival_without_release", barrier.line, message)
            return True
        return 0 <= barrier.released < known

    def _used_by_unit(self, barrier: Barrier) -> None:
        """Note that a barrier counts what an asynchronous unit does."""
        if not barrier.fenced_start:
            self.order.find(
                "initialisation_not_fenced",
                barrier.line,
                "no fence follows the init of this barrier, which counts what asynchronous units do",
            )
            barrier.fenced_start = True

    def _known(self, worker: Worker, barrier: Barrier) -> int:
        """Return how many phases a warp knows to be over."""
        return max(0, worker.known[barrier.agent] - barrier.base)

    def stop(self, worker: Worker, lanes: int, address: int, line: int) -> None:
        """Invalidate a barrier."""
        barrier = self._used(worker, lanes, address, line)
        if barrier is None:
            return
        self._check_idle(barrier, worker, line)
        order = self.order
        cells, agent = order.cells(address, 8), order.actor(worker, lanes)
        order.write(order.shared, cells, worker, agent, worker.time, "inval", line)
        self.ended.append(self.live.pop(address))

    def _check_idle(self, barrier: Barrier, worker: Worker, line: int) -> None:
        known = self._known(worker, barrier)
        if barrier.owed:
            self.late[line] = barrier.line
        if barrier.under_way or any(phase >= known for phase, _ in barrier.load_phases):
            self.order.find(
                "barrier_destroyed", line, "a barrier ends whose loads are not known to have arrived",
                f"started at line {barrier.line}",
            )  # fmt: skip

    def _used(self, worker: Worker, lanes: int, address: int, line: int) -> Barrier | None:
        order = self.order
        barrier = self.live.get(address)
        if barrier is None:
            order.find(
                "barrier_not_initialised", line, f"no barrier has been initialised at shared byte {in_words(address)}"
            )
            return None
        agent = worker.index if lanes & lanes - 1 or lanes == worker.live else worker.single
        cells, shared, accesses = barrier.cells, order.shared, order.accesses
        regions = shared.of(cells)
        writers = shared.writers_of(regions)
        over = [access for access in map(accesses.__getitem__, writers) if access.kind != "init"]
        if over:
            message = f"a barrier is used that {order.use_of(over[0])} has overwritten"
            order.find("barrier_destroyed", line, message, f"overwritten at line {over[0].line}")
        if not over and (self._sees_start(worker, barrier) or worker.behind.issuperset(writers)):
            accesses.append(access_of(agent, worker.time, line, "barrier"))
            shared.has_read(regions, agent, len(accesses) - 1)
        else:
            order.read(shared, cells, worker, agent, worker.time, "barrier", line)
        return barrier

    def reaches(self, run: Any, warp: Any, address: int, line: int, what: str) -> None:
        """Note that something completes on a barrier, which may be another CTA's: that one learns it by the phase."""
        barrier = self.live.get(address)
        if barrier is not None:
            run.reaches(warp, address, (barrier.agent, barrier.base + barrier.phase), line, what)

    def arrive(  # noqa: PLR0917
        self, worker: Worker, lanes: int, address: int, count: int, line: int, expects: int = 0,
        clocks: Clocks | None = None,
    ) -> None:  # fmt: skip
        """Arrive with each lane `count` times, after expecting bytes; `clocks` are what the warp passes on."""
        barrier = self._used(worker, lanes, address, line)
        if barrier is None:
            return
        self._check_phase(barrier, worker, line)
        if expects:
            barrier.tx += expects
            barrier.expects += expects
            barrier.expect_line = line
        self._arrived(barrier, worker.passed_on(lanes) if clocks is None else clocks, worker.index, count, line)

    def expect(self, worker: Worker, lanes: int, address: int, count: int, line: int) -> None:
        """Expect bytes without arriving."""
        barrier = self._used(worker, lanes, address, line)
        if barrier is None:
            return
        self._check_phase(barrier, worker, line)
        barrier.tx += count
        barrier.expects += count
        barrier.expect_line = line
        barrier.expects_alone.append((worker.index, worker.time, line))

    def _knows_arrivals(self, worker: Worker, barrier: Barrier) -> bool:
        """Does a warp know of all arrivals of the phases that are over, so that they are over?

        Who has not waited for a phase may still have learned from others that they had arrived.
        """
        for phase in range(self._known(worker, barrier), barrier.phase):
            arrived = barrier.arrived.get(phase)
            if arrived is None or not all(
                worker.known[one] >= clocks[0, one] for by, clocks in arrived for one in (by, self.order.warps + by)
            ):
                return False
        worker.known[barrier.agent] = barrier.base + barrier.phase
        return True

    def _check_phase(self, barrier: Barrier, worker: Worker, line: int) -> None:
        if self._known(worker, barrier) < barrier.phase and not self._knows_arrivals(worker, barrier):
            self.order.find(
                "arrivals_in_excess",
                line,
                f"an arrival or load of phase {barrier.phase} is not known to follow the end of phase"
                f" {barrier.phase - 1}, so that it may count there",
                f"barrier started at line {barrier.line}",
            )

    def _arrived(self, barrier: Barrier, clocks: Clocks, worker: int, count: int, line: int) -> None:
        np.maximum(barrier.clocks, clocks, out=barrier.clocks)
        barrier.contributions.append((worker, clocks))
        if worker >= 0:
            self.order.workers[worker].turns.work()
        if count > barrier.pending:
            more = count - barrier.pending
            self.order.find(
                "arrivals_in_excess",
                line,
                f"phase {barrier.phase} gets {more} more arrivals than the {barrier.expected} expected",
                f"barrier started at line {barrier.line}",
            )
        barrier.pending = max(0, barrier.pending - count)
        if not barrier.pending and not barrier.under_way and (not barrier.tx or self._unknown(barrier)):
            self._finish(barrier)

    def load(  # noqa: PLR0917
        self, worker: Worker, lanes: int, address: int, bytes_: int | None, map_: str, boxes: int, line: int
    ) -> Barrier | None:
        """Let a load of so many bytes, where known, and boxes of a map complete on a barrier some time later."""
        barrier = self._used(worker, lanes, address, line)
        if barrier is None:
            return None
        self._check_phase(barrier, worker, line)
        self._used_by_unit(barrier)
        clocks = worker.passed_on(lanes)
        barrier.under_way.append(Arriving(bytes_, map_, clocks, line, boxes))
        barrier.contributions.append((worker.index, clocks))
        barrier.load_phases.append((barrier.phase, line))
        return barrier

    def owe(  # noqa: PLR0917
        self,
        worker: Worker,
        clocks: Clocks,
        address: int,
        lanes: int,
        line: int,
        count: int,
        by_unit: bool = False,
    ) -> None:
        """Let an arrival come when something asynchronous is done, whose completion the clocks contain.

        `by_unit`: it is made through the async proxy, as by tcgen05.commit.
        """
        barrier = self._used(worker, lanes, address, line)
        if barrier is not None:
            if by_unit:
                self._used_by_unit(barrier)
            self._check_phase(barrier, worker, line)
            for _ in range(count):
                barrier.owed.append((clocks, line))

    def extend(self, worker: Worker, clocks: Clocks, address: int, lanes: int, line: int) -> None:
        """Expect an arrival more from each lane, which comes when its copies are done (FACTS MB-19)."""
        barrier = self._used(worker, lanes, address, line)
        if barrier is not None:
            barrier.pending += lanes.bit_count()
            barrier.owed += [(clocks, line)] * lanes.bit_count()

    def settle(self) -> bool:
        """Let all that is under way happen; return whether a phase ended by it or anything arrived."""
        moved = False
        for barrier in list(self.live.values()):
            for clocks, line in barrier.owed:
                self._arrived(barrier, clocks, -1, 1, line)
                moved = True
            barrier.owed = []
            if barrier.under_way:
                moved = True
                for load in barrier.under_way:
                    np.maximum(barrier.clocks, load.clocks, out=barrier.clocks)
                    barrier.brought[load.map] += load.boxes
                    barrier.tx -= load.bytes or 0
                barrier.under_way = []
                if not barrier.pending and (not barrier.tx or self._unknown(barrier)):
                    self._finish(barrier)
        return moved

    def _unknown(self, barrier: Barrier) -> bool:
        """Did boxes come whose bytes are not known? Then what was under way is taken for all that comes."""
        return any(one not in self.boxes and one for one in barrier.brought)

    def _finish(self, barrier: Barrier) -> None:
        phase = barrier.phase
        if barrier.brought or barrier.expects:
            loads = tuple(sorted((m, n) for m, n in barrier.brought.items() if m))
            known = barrier.expects - barrier.tx - sum(self.boxes.get(m, 0) * n for m, n in loads)
            self.equations.append(Bytes(barrier.expects, known, loads, barrier.expect_line))
        barrier.clocks[0, barrier.agent] = barrier.base + phase + 1
        barrier.past.append(barrier.clocks)
        self._check_waits(barrier, phase)
        for worker, time, line in barrier.expects_alone:
            if not any(c[0, worker] > time or w == worker for w, c in barrier.contributions):
                self.order.find("bytes_differ", line, "the phase may end before these bytes are expected")
        barrier.clocks = barrier.clocks.copy()
        if not barrier.brought and not barrier.expects and all(by >= 0 for by, _ in barrier.contributions):
            barrier.arrived = {phase: barrier.contributions}
        barrier.contributions, barrier.expects_alone = [], []
        barrier.phase, barrier.pending = phase + 1, barrier.expected
        barrier.tx, barrier.expects = 0, 0
        barrier.brought.clear()

    def _check_waits(self, barrier: Barrier, phase: int) -> None:
        """Check that this phase could not end before those who waited for the one before had passed."""
        for wait in barrier.waits.pop(phase - 1, []):
            if not any(w == wait.worker or c[0, wait.agent] > wait.time for w, c in barrier.contributions):
                self._too_late(barrier, wait, phase)

    def _too_late(self, barrier: Barrier, wait: PassedWait, phase: int) -> None:
        self.overtaken.append((wait, phase, barrier.line))

    def judge_overtaken(self) -> None:
        """Add findings on waits that may be two phases late: of warps that look on, or go on to do what others need."""
        for wait, phase, line in self.overtaken:
            needed = self.order.workers[wait.worker].turns.is_needed(wait.turn)
            kind = "phase_missed" if needed else "bystander_overtaken"
            waited = f"phase {phase - 1}" if phase else "the phase before its first"
            message = f"phase {phase} of the barrier can end before this wait for {waited} is passed"
            self.order.find(kind, wait.line, message, f"barrier started at line {line}")
        self.overtaken.clear()

    def target(
        self, worker: Worker, lanes: int, address: int, parity: int, line: int, *, by_parity: bool = True
    ) -> tuple[Barrier, int] | None:
        """Return the barrier and the phase that a wait is for: by its parity, or by the state of an arrival."""
        barrier = self._used(worker, lanes, address, line)
        if barrier is None:
            return None
        if not by_parity:
            return barrier, parity
        known = self._known(worker, barrier)
        return barrier, known - 1 if (known - 1) & 1 == parity & 1 else known

    def passed(self, worker: Worker, lanes: int, barrier: Barrier, phase: int, line: int) -> None:
        """Note that a warp has seen the end of a phase."""
        if phase >= 0:
            worker.learn(barrier.past[phase])
        alone = lanes.bit_count() == 1 and lanes != worker.live
        turn = worker.turns.wait(barrier.agent, phase)
        wait = PassedWait(worker.index, worker.single if alone else worker.index, worker.time, line, turn)
        if barrier.phase > phase + 1:
            self._too_late(barrier, wait, phase + 1)
        else:
            barrier.waits.setdefault(phase, []).append(wait)

    def explain(self, waited: set[int], lines: dict[int, int]) -> None:
        """Say of barriers that are waited for in vain what they lack."""
        for address in sorted(waited):
            barrier = self.live.get(address)
            if barrier is None:
                continue
            line, phase = lines[address], barrier.phase
            note = f"barrier started at line {barrier.line}"
            if barrier.pending:
                self.order.find(
                    "arrivals_missing", line,
                    f"phase {phase} gets {barrier.expected - barrier.pending} of {barrier.expected} arrivals", note,
                )  # fmt: skip
            elif barrier.tx:
                self._wrong_bytes(barrier, line)
            else:
                self.order.find("roles_disagree", line, f"phase {phase} never ends", note)

    def _wrong_bytes(self, barrier: Barrier, line: int) -> None:
        self.order.find(
            "bytes_differ",
            barrier.expect_line or line,
            f"phase {barrier.phase} expects {barrier.expects} bytes and gets {barrier.expects - barrier.tx}",
            f"waited for at line {line}",
            # To expect what comes would end the wait before data that are missing.
            f"let the copies of the other {barrier.tx} bytes come, on which somebody relies" if barrier.tx > 0 else "",
        )

    def check_end(self, known: Clock, begin: int, end: int) -> None:
        """Check at the end of a CTA that no load is under way; `known` is what all its warps know together.

        `begin`, `end`: its bytes of shared memory.
        """
        for barrier in [*self.live.values(), *self.ended]:
            if not begin <= barrier.address < end:
                continue
            late = [line for phase, line in barrier.load_phases if phase + barrier.base >= known[barrier.agent]]
            if late:
                self.order.find(
                    "not_drained", late[-1], "the block may end before this load has arrived",
                    f"on the barrier started at line {barrier.line}",
                )  # fmt: skip
            elif barrier.tx and not barrier.pending:
                self._wrong_bytes(barrier, barrier.expect_line)
