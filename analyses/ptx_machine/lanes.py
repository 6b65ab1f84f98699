"""Lanes of a warp that talk to each other: shfl, vote, elect and the like."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legalsat.analyses.ptx.instruction import Instruction
from legalsat.analyses.ptx_machine.alu import FULL, LANES, Value, even, lane_values, mask_of
from legalsat.analyses.ptx_machine.guards import active, assign, guard_of
from legalsat.analyses.ptx_machine.machine import PARK, Operation, Part, Run, Warp


def make_lanes(program: Any, i: Instruction) -> Operation:
    """Return shfl, vote, elect and the like."""
    base, parts, line, guard = i.base, i.parts, i.line, guard_of(program, i)
    results = [r.strip() for r in i.operands[0].split("|")]
    places = [program.slot(r, line) if r in program.needed else -1 for r in results]
    wanted = any(p >= 0 for p in places)
    sources: list[int] = []
    if wanted and base == "shfl":
        sources = [program.source(one, 32, line) for one in i.operands[1:4]]
    elif wanted and base == "vote":
        sources = [program.source(i.operands[1].lstrip("!"), 1, line)]
    elif wanted and base == "redux":
        sources = [program.source(i.operands[1], 32, line)]
    inverted = base == "vote" and i.operands[1].startswith("!")

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        lanes = active(part, guard, line)
        if not lanes:
            return None
        if base != "activemask":
            if part.mask != warp.live:
                return PARK
            warp.worker.meet()
        if not wanted:
            return None
        values = _lane_results(base, parts, part, sources, lanes, inverted)
        for to, value in zip(places, values, strict=False):
            if to >= 0:
                assign(part, to, value, guard, line)
        return None

    return operation


def _lane_results(  # noqa: PLR0917
    base: str, parts: tuple[str, ...], part: Part, sources: list[int], lanes: int, inverted: bool
) -> list[Value]:
    if base == "activemask":
        return [lanes]
    if base == "elect":
        leader = (lanes & -lanes).bit_length() - 1
        return [leader, 1 << leader]
    values = [part.registers[s] for s in sources]
    if any(v is None for v in values):
        return [None, None]
    if base == "vote":
        held = (values[0] ^ (FULL if inverted else 0)) & lanes
        return [{"ballot": held, "any": FULL * bool(held), "all": FULL * (held == lanes)}.get(parts[2])]
    if base == "redux":
        listed = lane_values(values[0], lanes)
        known = {"add": sum(listed) & FULL, "min": min(listed), "max": max(listed)}
        return [known.get(parts[2]) if parts[-1] != "s32" or parts[2] == "add" else None]
    return _shuffled(parts[2], *values) if base == "shfl" else [None, None]


def _shuffled(mode: str, value: Value, by: Value, clamp: Value) -> list[Value]:
    if isinstance(value, int):
        return [value, FULL]
    if not isinstance(by, int) or not isinstance(clamp, int):
        return [None, None]
    source, good = _sources(mode, by, clamp)
    return [even(value[source]), good]


@lru_cache(maxsize=512)
def _sources(mode: str, by: int, clamp: int) -> tuple[NDArray[np.int64], int]:
    """Return the lane from which each lane takes its value, and the mask of those that find one."""
    lane = np.arange(LANES)
    segment = clamp >> 8 & 31
    first, last = lane & segment, (lane & segment) | (clamp & 31 & ~segment)
    source = {"up": lane - by, "down": lane + by, "bfly": lane ^ by}.get(mode, first | (by & ~segment & 31))
    good = source >= last if mode == "up" else source <= last
    return np.where(good, source, lane), mask_of(good)
