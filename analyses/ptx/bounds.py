"""What reading one PTX text may take: seconds and memory, so that no text hangs or fills the machine.

Counts of instructions (`extract.ptx_sweep.WORK`) end the check of what compilers print, always at the same place. These
bounds are for what they do not see, such as control flow that nobody would write.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from legalsat.analyses.ptx.findings import Undecided

SECONDS = 9.0  # of the thread's processor time for a kernel: who else is at work changes no answer
LEAST_SECONDS = 0.3  # for one of many kernels
MOST_BYTES = 1 << 30  # by which the process may grow
CLEARED = 1.2e-9  # seconds a byte that it grew by, in which what is left of a check is found: its time too
SELDOM = 1_000_000  # objects made and not given up between two looks for garbage
_EVERY = 256  # questions between two looks at the memory
_PAGE = 4096
_STATM = Path("/proc/self/statm")


class Bounds:
    """The bounds of one text, from now on.

    Args:
        seconds: after which nothing more is tried.
        whole: those of which these are a part.
    """

    def __init__(self, seconds: float = SECONDS, whole: Bounds | None = None) -> None:
        self.seconds = seconds
        self._end = _spent() + seconds
        self._look = time.perf_counter() + seconds / 2
        self._late = False
        self._asked = 0
        self._most: int = _resident() + MOST_BYTES if whole is None else whole._most
        self._full = False

    @property
    def left(self) -> float:
        """Seconds until nothing more is tried."""
        return max(0.0, self._end - _spent())

    def part(self, count: int, most: float = SECONDS) -> Bounds:
        """Return the bounds of the next of so many parts: nearly twice its share, since most parts take little."""
        return Bounds(min(self.left, most, max(2 * self.left / (count + 1), LEAST_SECONDS)), self)

    @property
    def reason(self) -> str:
        """Which bound is met, in words; "" for none."""
        self._asked += 1
        if not self._asked % _EVERY and not self._full and _resident() > self._most:
            gc.collect()
            self._full = _resident() > self._most
        if self._full:
            return f"not decided within {MOST_BYTES >> 20} MiB of memory"
        now = time.perf_counter()
        if now > self._look:  # a thread gets no more processor time than passes, and to ask for it is slow
            grown = max(0, _resident() + MOST_BYTES - self._most)
            left = self._end - _spent() - CLEARED * grown
            self._late, self._look = left < 0, now + max(left / 2, 0.01)  # it may grow
        return f"not decided within {self.seconds:.2g} s" if self._late else ""

    def check(self) -> None:
        """Go on only within the bounds.

        Raises:
            Undecided: one is met.
        """
        reason = self.reason
        if reason:
            raise Undecided(0, reason)


def _spent() -> float:
    """Return the seconds of a processor that the thread took so far."""
    return time.thread_time()


def _resident() -> int:
    """Return the bytes of memory that the process holds; 0 where the system does not tell."""
    try:
        return int(_STATM.read_bytes().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Let cyclic garbage be looked for seldom meanwhile: runs make many objects, next to none of them in cycles.

    What the interpreter was told before holds again afterwards; a collector that is switched off stays so.
    """
    before = gc.get_threshold()
    if before[0]:
        gc.set_threshold(max(before[0], SELDOM), *before[1:])
    try:
        yield
    finally:
        if not gc.get_freeze_count():  # what was made is as good as looked at: else it is, all of it, right now
            gc.freeze()
            gc.unfreeze()
        gc.set_threshold(*before)
