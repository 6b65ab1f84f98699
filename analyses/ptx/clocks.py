"""Clocks of lines of work: how far each one knows all others to have come, and what it passes on of that.

A clock has two rows: what is known to have happened, and the same for what a proxy fence follows. Both are always
passed on, learned and copied together, so they are one array. Single entries are read and set far more often; a view
of the memory is quicker there than an array.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

EVERY_LANE = 2**32 - 1
Clock: TypeAlias = NDArray[np.int32]  # of shape (lines of work,)
Clocks: TypeAlias = NDArray[np.int32]  # of shape (2, lines of work): what is known, and what is fenced


_SEVERAL = 2  # phases for which a warp waits in succession, so that each is none that others hold it to


@dataclass(slots=True, eq=False)
class Turns:
    """What a warp does from one wait or meeting to the next: of which waits do others need that they are over?

    Who waits for phase after phase, does nothing else, and meets some others when all is over, is needed by none of
    these phases, unless it ever works. Who meets them after each wait holds them up.

    Attributes:
        now: how many turns are over.
        needed: turns with work that others may need, or with a meeting that holds others up.
        late: turns with a meeting of some after several waits in succession.
        works: whether it ever does what others may need: uses shared memory, or arrives.
        waited: barriers and phases for which it has waited since it met others last, the first few.
    """

    now: int = 0
    needed: set[int] = field(default_factory=set)
    late: set[int] = field(default_factory=set)
    works: bool = False
    waited: set[tuple[int, int]] = field(default_factory=set)

    def copy(self) -> Turns:
        """Return a copy that goes on by itself."""
        return Turns(self.now, set(self.needed), set(self.late), self.works, set(self.waited))

    def work(self) -> None:
        """Note that the warp does what others may need."""
        self.needed.add(self.now)
        self.works = True

    def wait(self, barrier: int, phase: int) -> int:
        """Begin a turn by a wait that is over; return its number."""
        self.now += 1
        if len(self.waited) < _SEVERAL:
            self.waited.add((barrier, phase))
        return self.now

    def meet(self, *, of_all: bool) -> None:
        """Begin a turn by a meeting, of all warps or of some."""
        (self.needed if of_all or len(self.waited) < _SEVERAL else self.late).add(self.now)
        self.now += 1
        self.waited.clear()

    def is_needed(self, turn: int) -> bool:
        """Do others need that the wait with which a turn began is over?"""
        return turn in self.needed or (self.works and turn in self.late)


@dataclass(slots=True, eq=False)
class Worker:
    """A warp's clocks.

    Attributes:
        clocks: how far it knows each line of work to be, and the same for what a proxy fence follows; changed in place.
        known, fenced: views of the memory of these two rows.
        time: its own time. met: its time when its lanes last met. alone: lanes that touched memory since, together.
        single: the line of work of what one lane does by itself. passed: that of where it has been, whatever it did
            there: barriers tell it that release nothing.
        released: what the last fence released of it. likely: what other warps of its block knew when they arrived at
            the cluster's barrier without a release, None before.
        trail: by line, below 0 for tensor memory, a sum over all it has read and written there, if that is traced.
        turns: between what it waits for.
        behind: accesses that are known to be before what it does. fenced_behind: behind its fences too, where these
            are asked for. Access 0, which stands for none, is in both.
    """

    index: int
    single: int
    passed: int
    clocks: Clocks
    released: Clocks
    time: int = 1
    met: int = 1
    alone: int = 0
    live: int = EVERY_LANE
    trail: Counter[int] = field(default_factory=Counter)
    likely: Clock | None = None
    turns: Turns = field(default_factory=Turns)
    behind: set[int] = field(default_factory=lambda: {0})
    fenced_behind: set[int] = field(default_factory=lambda: {0})
    known: memoryview[int] = field(init=False)
    fenced: memoryview[int] = field(init=False)

    def __post_init__(self) -> None:
        self._view()

    def _view(self) -> None:
        self.known, self.fenced = memoryview(self.clocks[0]), memoryview(self.clocks[1])

    @property
    def clock(self) -> Clock:
        """How far it knows each line of work to be."""
        found: Clock = self.clocks[0]
        return found

    def copy(self) -> Worker:
        """Return a copy that goes on by itself."""
        return Worker(
            self.index, self.single, self.passed, self.clocks.copy(), self.released, self.time, self.met, self.alone,
            self.live, Counter(self.trail), self.likely, self.turns.copy(), set(self.behind), set(self.fenced_behind),
        )  # fmt: skip

    def meet(self) -> None:
        """Let its lanes meet: what each has done so far, all have."""
        self.time = self.met = time = self.time + 1
        known = self.known
        known[self.index] = known[self.single] = known[self.passed] = time
        self.alone = 0

    def passed_on(self, lanes: int) -> Clocks:
        """Return the clocks that some lanes pass on now: without what other lanes did since they last met."""
        if self.alone & ~lanes:
            self.time += 1
            self.known[self.single] = self.time
            found = self.clocks.copy()
            found[0, self.index] = self.met
            return found
        self.meet()
        return self.clocks.copy()

    def learn(self, clocks: Clocks) -> None:
        """Learn what another one passed on."""
        np.maximum(self.clocks, clocks, out=self.clocks)
