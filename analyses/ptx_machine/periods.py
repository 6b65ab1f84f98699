"""Loops whose state repeats: after which rounds, and with which period.

Every register and every clock at a loop's head, and what each line has touched so far, must be the same a period later,
or have grown by the same step each period. Then more rounds bring nothing new, and what follows the loop depends only
on where in a period it ends.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

# Visits of a head after which its state is compared. A period must then have passed three times since the first third
# of them, or fifth where it is long: differences of differences are taken over two, so each place in it is looked at.
CHECKS = frozenset((9, 12, 15, 18, 21, 24, 27, 30, 34, 38, 42, 46, 50, 54, 60, 66, 72, 84, 96, 120, 144, 180, 240))
LONGEST, _FIRST, _EARLIEST = 240, 3, 5
_WORD = np.uint64(2**32 - 1)


@dataclass(frozen=True, slots=True)
class Period:
    """When a loop's state repeats: rounds before it does, and rounds after which it is the same again."""

    before: int
    rounds: int

    def also(self, other: Period) -> Period:
        """Return when this state and another one both repeat."""
        return Period(max(self.before, other.before), math.lcm(self.rounds, other.rounds))


_State: TypeAlias = tuple[Sequence[Any], Any, Mapping[int, int]]  # registers, clock, and what was touched by line
_Loop: TypeAlias = tuple[int, int]  # its head, and 0 in the CTA of rank 0, 1 in the others


@dataclass
class Periods:
    """The states of a run at the heads of its loops.

    Attributes:
        least: rounds before which nothing is taken to repeat: a ring of so many stages has not begun anew.
        found: of heads, when their state repeats: in the CTA of rank 0 and in another one, which may do other work.
    """

    least: int = 0
    found: dict[int, Period] = field(default_factory=dict)
    _each: dict[_Loop, Period] = field(default_factory=dict)
    _trails: dict[_Loop, list[_State]] = field(default_factory=dict)
    _whose: dict[_Loop, int] = field(default_factory=dict)
    _ticks: dict[_Loop, list[int]] = field(default_factory=dict)
    _tick: int = 0
    _turns: tuple[int, int] = (0, 0)

    def next_turn(self) -> None:
        """Note that all warps go on in turn once more."""
        self._turns = self._turns[1], self._tick

    def visit(self, head: int, rank: int, warp: int, state: _State) -> bool:
        """Note a state; return whether all loops that still run have been seen to repeat."""
        self._tick += 1
        loop = head, min(rank, 1)
        if self._whose.setdefault(loop, warp) != warp:
            return False
        ticks = self._ticks.setdefault(loop, [])
        ticks.append(self._tick)
        count = len(ticks)
        if loop not in self._each:
            trail = self._trails.setdefault(loop, [])
            registers, clock, touched = state
            trail.append((registers, clock.copy(), dict(touched)))
            if count not in CHECKS or count <= self.least:
                return count > LONGEST
            period = period_of(trail)
            if period is None:
                return False
            self._each[loop] = period
            self.found[head] = period.also(self.found.get(head, period))
            del self._trails[loop]
        elif count not in CHECKS:
            return False
        since = min(ticks[-1 - count // 3], self._turns[0])
        if ticks[0] > self._turns[0]:  # who waits for nobody makes many rounds in a turn, before others have begun
            return False
        return all(one in self._each for one, held in self._ticks.items() if held[-1] > since)


def period_of(trail: Sequence[_State]) -> Period | None:
    """Return when a state repeats, from those at each round; None where it is not seen to.

    Each column must have a period that has passed three times since the first third or fifth of the rounds.
    """
    count = len(trail)
    begin, earliest = count // _FIRST, count // _EARLIEST
    clocks = np.array([clock for _, clock, _ in trail]).astype(np.uint64)
    # By line: rings of 13 and of 4 stages have periods of 26 and 8 rounds, and one sum over both has one of 104.
    touched = np.array([[one.get(line, 0) for line in trail[-1][2]] for _, _, one in trail]).astype(np.uint64)
    table = np.concatenate([_columns([registers for registers, _, _ in trail]), clocks, touched], axis=1)
    table = table[:, (table[begin:] != table[begin]).any(axis=0) | (table[:begin] != table[begin]).any(axis=0)]
    before, rounds = 0, 1
    for step in range(1, (count - earliest) // 3 + 1):
        if not table.shape[1]:
            break
        bent = (table[2 * step :] - 2 * table[step:-step] + table[: -2 * step]) & _WORD != 0
        good = ~bent[begin if 3 * step <= count - begin else earliest :].any(axis=0)
        if good.any():
            late = np.flatnonzero(bent[:, good].any(axis=1))
            before, rounds = max(before, int(late[-1]) + 1 if late.size else 0), math.lcm(rounds, step)
            table = table[:, ~good]
    return None if table.shape[1] else Period(before, rounds)


def _columns(rows: list[Sequence[Any]]) -> NDArray[np.uint64]:
    """Return the rows as numbers, lanes side by side, without columns that never change."""
    count = len(rows)
    found: list[NDArray[np.uint64]] = []
    for column in zip(*rows, strict=True):
        first = column[-1]
        if all(v is first for v in column):
            continue
        if all(type(v) is int for v in column):
            found.append(np.array([v & (2**64 - 1) for v in column], dtype=np.uint64).reshape(count, 1))
            continue
        known = np.array([v is not None for v in column], dtype=np.uint64)
        width = max((v.size for v in column if isinstance(v, np.ndarray)), default=1)
        lanes = np.zeros((count, width + 1), dtype=np.uint64)
        for n, v in enumerate(column):
            if v is not None:
                lanes[n, :width] = v if isinstance(v, np.ndarray) else np.uint64(v & (2**64 - 1))
        lanes[:, width] = known
        found.append(lanes)
    return np.concatenate(found, axis=1) if found else np.zeros((count, 0), dtype=np.uint64)
