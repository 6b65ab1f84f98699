"""Runs the CTAs of a cluster of a PTX kernel warp by warp, to find out what they do with shared memory and barriers.

Lanes run together under masks; where a branch parts them, each part goes on by itself with registers of its own until
they come to the same place again. Whatever is asynchronous happens only when nothing else can move. Only what steers
branches, addresses and barriers is computed (`ptx_machine_program` leaves the rest out).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from legalsat.analyses.ptx.clocks import Clock, Clocks, Worker
from legalsat.analyses.ptx.contract import Order
from legalsat.analyses.ptx.contract_barriers import Barriers
from legalsat.analyses.ptx.contract_maps import Maps
from legalsat.analyses.ptx.findings import ARRIVAL, Undecided
from legalsat.analyses.ptx_machine.alu import LANES, Value
from legalsat.analyses.ptx_machine.launches.fan import joined, of_first
from legalsat.analyses.ptx_machine.memory import NOWHERE, SHARED_BASE, SHARED_BYTES
from legalsat.analyses.ptx_machine.periods import Periods
from legalsat.analyses.ptx_machine.shadow import Shadow
from legalsat.analyses.ptx_machine.waits import Meeting, Wait
from legalsat.analyses.ptx_machine.words import Words

# Fake addresses: what the n-th parameter points to, or the m-th byte of it; and the parameters themselves, for maps.
POINTER, POINTED, MAP_BASE, PARAMETER = 1 << 40, 1 << 24, 1 << 50, 1 << 16
TENSOR_COLUMNS = 512
TENSOR_STRIPS = 8  # of 16 lanes, which is what the narrow shapes of tcgen05.ld and st reach
JUMP, BLOCK, PARK, EXIT, PASS, APART = 1, 2, 3, 4, 5, 6
TURN = 64  # rounds of loops that a warp makes at a time, where nothing that it waits for stops it
_SELDOM = 16  # jumps between two looks at the bounds
_OF_TENSOR_MEMORY = ("tcgen05", "ld.tensor", "st.tensor")  # lines of work that fences of tcgen05 order
_CLUSTER = -1  # instead of a CTA's rank: where all CTAs of a cluster meet
Operation: TypeAlias = Callable[["Run", "Warp", "Part"], int | None]


@dataclass(slots=True)
class Part:
    """Lanes of a warp that are at one place.

    Attributes:
        blocked: what it waits for, None if it may go on. parked: it waits for the warp's other lanes.
        seen: it has looked for others at the label where it is.
        in_vain: it has looked whether a phase has ended, and it has not while others could go on.
        looks: how many looks at phases have failed one after the other.
    """

    pc: int
    mask: int
    registers: list[Value]
    blocked: Wait | None = None
    parked: bool = False
    seen: bool = False
    gathers: bool | None = None
    in_vain: bool = False
    looks: int = 0


@dataclass(slots=True)
class Warp:
    """A warp, and what it has under way.

    Attributes:
        index: in the cluster. rank: of its CTA. local: its number in the CTA.
        live: lanes that have not ended. groups: how many groups of a family it has closed, `open` whether one is begun.
        retired: groups waited for. sums: group in which registers were last used as sums of wgmma.
        closed: what the warp knew when it closed each group of wgmma.
        fenced_tensor: what it knew at its last fence of tcgen05 after a barrier. rested: turns and trail when it has
            last let others go on.
        group: the number of its warpgroup in the cluster, that no other has.
        results: by the first register of sums, what became of them, see `matrix.results`.
        fetches: which tcgen05.ld wrote registers last, and how many are `fetched`, waited for.
        fragments: by stretch of ldmatrix, the number of what it has read there last.
        stores: of each lane, accesses of stores in closed groups, those of the open one, and how many are waited for.
    """

    index: int
    rank: int
    local: int
    worker: Worker
    parts: list[Part]
    live: int
    groups: dict[str, int] = field(default_factory=lambda: {"wgmma": 0, "cp.async": 0})
    open: dict[str, bool] = field(default_factory=lambda: {"wgmma": False, "cp.async": False})
    retired: dict[str, int] = field(default_factory=lambda: {"wgmma": 0, "cp.async": 0})
    sums: dict[str, int] = field(default_factory=dict)
    results: dict[str, int] = field(default_factory=dict)
    fetches: dict[str, int] = field(default_factory=dict)
    fetched: int = 0
    wgmma_fenced: bool = False
    stores: dict[int, LaneStores] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    failed_waits: dict[int, tuple[int, int]] = field(default_factory=dict)
    fragments: dict[int, int] = field(default_factory=dict)
    cluster: Meeting | None = None
    patience: int = -1
    closed: list[Clocks] = field(default_factory=list)
    fenced_tensor: Clock | None = None
    rested: tuple[int, int] = (-1, -1)
    group: int = field(init=False)

    def __post_init__(self) -> None:
        """Number its warpgroup."""
        self.group = self.rank << 8 | self.local >> 2


@dataclass(slots=True)
class LaneStores:
    """Bulk groups of one thread: closed so far, lines of the stores in the open one, and how many are waited for."""

    agent: int
    closed: int = 0
    open_lines: list[int] = field(default_factory=list)
    retired: int = 0
    lines: dict[int, int] = field(default_factory=dict)


def warpgroups(warps: list[Warp]) -> dict[int, list[Warp]]:
    """Return the warps of each warpgroup by its number; they do not know each other, as cycles are dear to find."""
    found: dict[int, list[Warp]] = {}
    for warp in warps:
        found.setdefault(warp.group, []).append(warp)
    return found


class Run(Words):
    """One execution of a cluster, which is one CTA if the kernel says nothing else.

    `code` is followed, that of the program unless it is for a `group` of launches (`launches.together`); `apart` are
    lanes that wait until these part. `left`: what warps that have ended knew of tensor memory.
    `beside`: it was followed for others, too, so that lanes may have waited where they do not by themselves.

    Args:
        program: what `ptx_machine_program.compile_kernel` made.
        parameters: values by name; `%ctaid.x` and the like too.
        boxes: bytes of the boxes of maps, by the parameter's name, where known.
        steps: after how many instructions it is given up.
        periods: what compares states at the heads of loops; the run ends when all have been seen to repeat.
        backwards: the last warp goes first, and each first look at a phase fails, so that who does not look again has
            not waited; else some see it ended if it may have been. What a store of unknown size reads is what has been
            written by then.
        measures: it notes how large boxes can be.
    """

    group: Any = None
    beside = False

    def __init__(
        self,
        program: Any,
        parameters: Mapping[str, int],
        boxes: dict[str, int],
        steps: int = 300_000,
        *,
        periods: Periods | None = None,
        backwards: bool = False,
        measures: bool = True,
    ) -> None:
        self.program, self.code, self.parameters, self.measures = program, program.code, parameters, measures
        self.steps = self.allowed = steps
        threads, ranks = program.threads, program.ranks
        warps = -(-threads // LANES)
        self.shared_bytes = ranks * SHARED_BYTES
        most, regions = program.most_agents, program.shared_regions
        self.order = Order(warps * ranks, self.shared_bytes, program.granule, regions, ranks, most=most)
        self.order.written = program.written_by_line
        # By access, the columns that are summed up there; which have put such sums back; and what is multiplied with
        # what, see `matrix.pairs`.
        self.tensor, self.summed = Shadow(program.tensor_regions), dict[int, tuple[int, int]]()
        self.first, self.at_once, self.cancelled, self.put_back = 0, 0, 0, set[int]()
        self.paired: dict[tuple[tuple[object, int], object], Any] = {}
        self.barriers = Barriers(self.order, boxes)
        super().__init__(self.shared_bytes)
        self.meetings: dict[tuple[int, int], Meeting] = {}
        self.allocated: dict[tuple[int, int], tuple[int, int]] = {}
        self.remote: dict[tuple[int, int, int, int], tuple[tuple[tuple[int, int], ...], str]] = {}
        self.unit_agents: dict[tuple[str, int], int] = {}
        self.fences_before: dict[int, int] = {}
        self.maps = Maps(self.order)
        self.notes: dict[tuple[int, str], None] = {}
        self.bounds: dict[str, int] = {}
        self.places: dict[str, set[int]] = {}
        self.outcomes = bytearray(len(program.watches))
        self.closest: dict[tuple[int, tuple[int, int, int]], int] = {}
        self.cases: set[tuple[int, int]] = set()
        self.ways: set[tuple[int, int]] = set()
        self.masks: set[int] = set()  # of CTAs to which the first one has sent copies
        self.used: set[str] = set()
        self.visits: dict[tuple[int, int], int] = {}
        self.flying: dict[tuple[str, int, int], None] = {}  # loads under way, in order
        self.drawn: dict[int, tuple[tuple[int, int], int]] = {}  # by counter, who has drawn tickets, and how many
        self.stores_known, self.touched = len(program.stores.places), np.zeros(program.shared_regions.cells, dtype=bool)
        self.periods = periods
        self.order.traced = periods is not None
        self.cut = self.endless = self.tired = self.spinning = False
        self.idle: set[int] = set()
        self.warps = []
        for index in range(warps * ranks):
            rank, local = divmod(index, warps)
            lanes = min(LANES, threads - LANES * local)
            mask = (1 << lanes) - 1
            part = Part(0, mask, program.initial(self, rank, local))
            worker = self.order.workers[index]
            self.warps.append(Warp(index, rank, local, worker, [part], mask))
            worker.live = mask
        self.warpgroups = warpgroups(self.warps)
        self.living, self.left = [threads] * ranks, self.order.clocks()
        self.backwards, self.turns = backwards, self.warps[::-1] if backwards else self.warps
        self.sized = True
        self.current: Part | None = None
        self.patient, self.gathering, self.apart = set[int](), list[Part](), list[Part]()

    # What is under way.

    def reaches(self, warp: Warp, place: int, unit: tuple[int, int], line: int, what: str) -> None:
        """Note what must have reached shared memory of another CTA before that one ends.

        `unit`: the line of work of which that CTA learns it, and the time; the warp's own is another.
        """
        rank = place // SHARED_BYTES
        if rank != warp.rank and place < NOWHERE:
            time = warp.worker.time
            own = (warp.worker.index, time), (warp.worker.single, time), (warp.worker.passed, time)
            self.remote[rank, unit[0], warp.index, line] = (unit, *own), what

    def agent(self, family: str, number: int) -> int:
        """Return the line of work of a unit."""
        found = self.unit_agents.get((family, number))
        if found is None:
            found = self.unit_agents[family, number] = self.order.agent()
            if family.startswith(_OF_TENSOR_MEMORY):
                self.order.tensor.append(found)
        return found

    def note(self, line: int, text: str) -> None:
        """Say what this run could not decide."""
        self.notes[line, text] = None

    def remember(self, warp: Warp, part: Part, at: int) -> None:
        """Note the state in which a warp comes to the head of a loop."""
        key = (warp.index, at)
        self.visits[key] = self.visits.get(key, 0) + 1
        if self.periods is not None:
            self.at_once += 1
            self.tired = self.at_once == TURN  # who waits for nobody lets others go on
            if self.tired:
                done = warp.worker.turns.now, sum(warp.worker.trail.values())
                if done == warp.rested:  # who does nothing either goes on where all others wait
                    self.idle.add(warp.index)
                warp.rested = done
            held = part.registers
            held = [of_first(held[p]) for p in self.program.alive(at)]
            state = held, warp.worker.clock, warp.worker.trail
            repeats = self.periods.visit(at, warp.rank, warp.index, state)
            self.cut |= repeats and not self.apart  # else others wait for what is no part of the loops

    @property
    def reached(self) -> frozenset[int]:
        """The places of barriers and asynchronous operations that it has come to."""
        found: frozenset[int] = self.program.covered_in(self.ways)
        return found

    @property
    def work(self) -> int:
        """How many instructions were followed that matter."""
        return self.allowed - self.steps

    @property
    def line(self) -> int:
        """The line that the run has come to."""
        return int(self.program.lines[self.current.pc]) if self.current is not None else 0

    # Running.

    def run(self) -> None:
        """Run to the end, or until nothing moves, or until the launches that are run together must part.

        Raises:
            Undecided: it depends on what is not known, or takes too long.
        """
        if self.cut or not any(warp.live for warp in self.warps):
            return  # it has ended before
        try:
            self._run()
        finally:
            if self.current is not None:
                self.ways.add((self.first, self.current.pc))

    def _run(self) -> None:
        while True:
            moved = False
            self.program.bounds.check()
            if self.periods is not None:
                self.periods.next_turn()
            for warp in self.turns:
                if warp.live and warp.index not in self.idle:
                    moved |= self._advance(warp)
                if self.cut:
                    return
            if not any(warp.live for warp in self.warps):
                break
            if moved:
                continue
            if self.patient:
                self.patient.clear()
                continue
            self.flying.clear()
            if self.barriers.settle():
                continue
            if self.apart:
                return
            if not self.idle and not self.spinning and not self._part_ways() and not self._look_in_vain():
                self._stuck()
                return
            self.idle.clear()
            self.spinning = False
        self.barriers.settle()
        self._check_end()

    def _part_ways(self) -> bool:
        """Let lanes go on that wait where the ways of their warp meet; return whether there were such."""
        found = self.gathering
        self.gathering = []
        for part in found:
            part.gathers = False
        return bool(found)

    def _look_in_vain(self) -> bool:
        """Let lanes go on that only look whether a phase has ended, and that it has not; return whether some do."""
        looking = [
            part for warp in self.warps for part in warp.parts if part.blocked is not None and part.blocked.looks
        ]
        for part in looking:
            part.blocked, part.in_vain = None, True
        return bool(looking)

    def _advance(self, warp: Warp) -> bool:  # noqa: PLR0912 - one frame, since it is what takes the time
        code, moved, ways, jumps = self.code, False, self.ways, 0
        self.at_once = 0
        while True:
            parts, chosen = warp.parts, None
            if len(parts) > 1:
                chosen = self._pick(warp)
            elif parts and ((blocked := parts[0].blocked) is None or blocked.over(self)):
                chosen = parts[0]
                chosen.blocked, chosen.parked = None, False
            self.current = part = chosen
            if part is None:
                return moved
            moved = True
            self.first = begin = part.pc
            pc = begin
            while True:
                signal = code[pc](self, warp, part)
                if signal is None:
                    part.pc = pc = pc + 1
                    continue
                if signal == PASS:
                    passed = part.pc - pc
                    part.pc = pc = pc + passed + 1
                    begin += passed
                    continue
                ways.add((self.first, pc))
                if signal == JUMP:
                    self.current = None  # nothing has been followed from where it is now
                    self.steps -= pc - begin + 1
                    if self.steps < 0:
                        self.endless = True
                        raise Undecided(self.program.lines[pc], f"no end within {self.allowed} instructions")
                    jumps += 1
                    if not jumps % _SELDOM:
                        self.program.bounds.check()
                    if self.cut:
                        return moved
                    if self.tired:
                        self.tired, self.spinning = False, True
                        return False
                    if len(parts) > 1:
                        break
                    self.current, self.first = part, part.pc
                    begin = pc = part.pc
                else:
                    self._rest(warp, part, signal)
                    break

    def _rest(self, warp: Warp, part: Part, signal: int) -> None:
        """Let lanes go on no further for now."""
        part.parked = signal == PARK
        if signal == APART:
            part.blocked = Wait(apart=True)
            self.apart.append(part)
        elif signal == EXIT:
            self._left(warp, part)

    def _pick(self, warp: Warp) -> Part | None:
        """Return lanes that can go on: those that come first in the kernel's order, joined with all at their place."""
        parts, ready = warp.parts, []
        for part in parts:
            if part.blocked is None or part.blocked.over(self):
                part.blocked = None
                ready.append(part)
        if not ready:
            return None
        rank = self.program.rank
        moving = [p for p in ready if not p.parked]
        if moving:
            first = min(moving, key=lambda p: rank[p.pc])
            if len(ready) < len(parts) and self._gathers(first, [p for p in parts if p.blocked is not None]):
                return None
        else:
            # All wait for others of the warp: those at the same place go on if all are there.
            together = [p for p in ready if sum(q.mask for q in ready if q.pc == p.pc) == warp.live]
            if not together:
                if len(ready) < len(parts):
                    return None
                raise Undecided(self.program.lines[ready[0].pc], "lanes of a warp are apart where all must meet")
            first = together[0]
        for other in [p for p in ready if p is not first and p.pc == first.pc]:
            predicates, ours, theirs = self.program.predicates, first.registers, other.registers
            for place in self.program.alive(first.pc):
                a, b = ours[place], theirs[place]
                if not (a is b or (type(a) is int and type(b) is int and a == b)):
                    ours[place] = joined(a, b, first.mask, lanewise=place in predicates)
            first.mask |= other.mask
            parts.remove(other)
        first.parked = False
        return first

    def _gathers(self, first: Part, blocked: list[Part]) -> bool:
        """Do lanes wait where ways meet for others of their warp, which come there once what they wait for has come?"""
        if first.gathers is None and self.program.texts[first.pc] == "label":
            rank = self.program.rank
            if all(rank[p.pc] < rank[first.pc] for p in blocked):
                first.gathers = True
                self.gathering.append(first)
        return bool(first.gathers)

    def _left(self, warp: Warp, part: Part) -> None:
        """Let lanes end: who waits for all others does so no more for them."""
        warp.parts.remove(part)
        warp.live &= ~part.mask
        ended = part.mask.bit_count()
        self.living[warp.rank] -= ended
        warp.worker.live = warp.live
        if not warp.live:
            self.left = np.maximum(self.left, self.order.of_tensor_memory(warp.worker))
        for name, meeting in list(self.meetings.items()):
            if not meeting.wanted:
                if any(other is warp for other, _ in meeting.arrivals):
                    meeting.threads -= ended  # of those that are waited for it is none any more
                self._close(name, meeting)

    def meet(self, number: int, warp: Warp, part: Part, threads: int, line: int, *, waits: bool = True) -> int | None:
        """Let a warp come to a barrier of its CTA; `threads` 0 for all."""
        name = (warp.rank, number)
        meeting = self.meetings.setdefault(name, Meeting(wanted=threads, line=line))
        meeting.arrivals.append((warp, warp.worker.passed_on(warp.live)))
        meeting.threads += part.mask.bit_count()
        if not waits:
            self._close(name, meeting)
            return None
        part.pc += 1
        if self._close(name, meeting):
            return JUMP
        part.blocked = Wait(meeting=meeting)
        return BLOCK

    def _close(self, name: tuple[int, int], meeting: Meeting) -> bool:
        wanted = meeting.wanted or (sum(self.living) if name[0] == _CLUSTER else self.living[name[0]])
        if meeting.threads < wanted or not meeting.arrivals:
            return False
        meeting.over = True
        del self.meetings[name]
        of_all = not meeting.wanted or meeting.wanted >= self.program.threads
        self.order.meet([(w.worker, clocks) for w, clocks in meeting.arrivals], of_all=of_all)
        if name[0] == _CLUSTER:  # who has ended counts as if it had come
            for warp, _ in meeting.arrivals:
                warp.worker.learn(self.left)
        for warp, _ in meeting.arrivals:
            warp.worker.meet()
            known = [clock for rank, clock in meeting.relaxed if rank == warp.rank]
            if known:
                warp.worker.likely = np.maximum.reduce(known)
        meeting.arrivals = []
        return True

    def let_others_go(self, warp: Warp, part: Part) -> bool:
        """Let a warp wait until no other one can move, once at each place; return whether it does."""
        if not self.backwards or warp.patience == part.pc:
            warp.patience = -1
            return False
        warp.patience = part.pc
        self.patient.add(warp.index)
        part.blocked = Wait(warp.index)
        return True

    def cluster_arrive(self, number: int, warp: Warp, part: Part, line: int, *, relaxed: bool) -> None:
        """Let a warp arrive at the cluster's barrier for the n-th time; `relaxed`: without a release."""
        meeting = self.meetings.setdefault((_CLUSTER, number), Meeting(line=line))
        order, worker = self.order, warp.worker
        if relaxed:
            self.barriers.pass_on_starts(worker)
        clocks = order.relaxed(worker) if relaxed else worker.passed_on(warp.live)
        if relaxed:
            meeting.relaxed.append((warp.rank, worker.clock.copy()))
        meeting.arrivals.append((warp, clocks))
        meeting.threads += part.mask.bit_count()
        warp.cluster = meeting
        self._close((_CLUSTER, number), meeting)

    def cluster_wait(self, number: int, warp: Warp, part: Part) -> int | None:
        """Let a warp wait for the cluster's barrier that it arrived at last."""
        meeting = warp.cluster
        if meeting is None or meeting.over:
            return None
        part.blocked = Wait(meeting=meeting)
        return BLOCK

    # The end.

    def _stuck(self) -> None:
        waited: dict[int, int] = {}
        others: list[tuple[int, str]] = []
        for warp in self.warps:
            for part in warp.parts:
                line = self.program.lines[part.pc]
                address = self.program.waits_at(part)
                if address is not None:
                    waited.setdefault(address, line)
                else:
                    others.append((line, self.program.texts[part.pc]))
        before = len(self.order.findings)
        self.barriers.explain(set(waited), waited)
        if len(self.order.findings) == before:
            line, what = others[0] if others else (0, "")
            self.order.find("roles_disagree", line, f"warps wait for ever at {what}" if what else "warps wait for ever")

    def _note_beyond(self, rank: int) -> None:
        """Say what was written in a CTA past all variables in shared memory, where the text gives the sizes of all."""
        end, order = self.program.shared_end, self.order
        if end < SHARED_BYTES:
            cells = order.cells(rank * SHARED_BYTES + end + order.granule - 1, SHARED_BYTES - end - order.granule)
            for number in order.shared.writers_of(order.shared.of(cells)):
                if number:
                    size, access = end - SHARED_BASE, order.accesses[number]
                    self.note(access.line, f"this writes past the {size} bytes of shared memory that the text declares")

    def _check_end(self) -> None:
        for rank in range(self.program.ranks):
            known = np.maximum.reduce([w.worker.clock for w in self.warps if w.rank == rank])
            self.barriers.check_end(known, rank * SHARED_BYTES, (rank + 1) * SHARED_BYTES)
            for (at, _, _, line), (times, what) in self.remote.items():
                if at == rank and all(known[agent] <= epoch for agent, epoch in times):
                    message = f"CTA {rank} of the cluster may end before {what} reaches it"
                    if what == ARRIVAL:  # at a barrier that nobody waits for any more: released kernels do so, and run
                        self.note(line, f"{message}, which documents forbid; let its CTAs meet before they end")
                    else:
                        self.order.find("remote_block_gone", line, message)
            self._note_beyond(rank)
        for warp in self.warps:
            for lane in warp.stores.values():
                if lane.open_lines:
                    self.order.find(
                        "group_not_committed", lane.open_lines[-1], "this store is in no group that is closed"
                    )
                elif lane.retired < lane.closed and lane.lines:
                    last = lane.lines.get(max(lane.lines))
                    if max(lane.lines) >= lane.retired and last is not None:
                        message = "the block may end before this store has read its source"
                        self.order.find("store_not_awaited", last, message)
            if warp.open["wgmma"]:
                self.order.find("group_not_committed", self.program.last_of("wgmma"), "wgmma that no group closes")
        for (_, column), (_, line) in self.allocated.items():
            self.order.find("tensor_memory_misused", line, f"tensor memory at column {column} is not freed")
