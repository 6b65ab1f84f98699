"""Copies of a run as it stands, which go on by themselves: what launches share is run once.

What is never changed once it is made, such as accesses, clocks that were passed on and what registers hold, is shared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from copy import copy
from typing import TypeVar

import numpy as np

from legalsat.analyses.ptx.contract_barriers import Barrier, Barriers
from legalsat.analyses.ptx.loads import Loads
from legalsat.analyses.ptx_machine.machine import Part, Run, Warp, warpgroups
from legalsat.analyses.ptx_machine.waits import Meeting, Wait

_T = TypeVar("_T")
_HOLDERS = frozenset({dict, list, set, bytearray, np.ndarray, Counter})


def fork(run: Run) -> Run:
    """Return a copy of a run."""
    found = _apart(run)
    found.order = order = _apart(run.order)
    order.workers = [worker.copy() for worker in order.workers]
    order.loads = Loads(*(held.copy() for held in vars(run.order.loads).values()))
    order.shared, found.tensor = run.order.shared.copy(), run.tensor.copy()
    found.maps = run.maps.copy(order)
    found.barriers = _barriers(run.barriers, found)
    barriers = {id(one): new for one, new in zip(_all(run.barriers), _all(found.barriers), strict=True)}
    meetings: dict[int, Meeting] = {}
    warps = [_apart(warp) for warp in run.warps]
    for warp in warps:
        warp.worker = order.workers[warp.index]
        warp.stores = {lane: _apart(held) for lane, held in warp.stores.items()}
        warp.parts = [_apart(part) for part in warp.parts]
        if warp.cluster is not None:
            warp.cluster = _meeting(warp.cluster, warps, meetings)
        for part in warp.parts:
            if part.blocked is not None:
                part.blocked = _wait(part.blocked, barriers, warps, meetings)
    found.meetings = {name: _meeting(one, warps, meetings) for name, one in run.meetings.items()}
    found.warps, found.warpgroups = warps, warpgroups(warps)
    found.turns = warps[::-1] if run.backwards else warps
    parts = {id(old): new for was, now in zip(run.warps, warps, strict=True)
             for old, new in zip(was.parts, now.parts, strict=True)}  # fmt: skip
    found.gathering = _same(run.gathering, parts)
    found.apart = _same(run.apart, parts)
    found.places = {name: set(held) for name, held in run.places.items()}
    found.current = None
    return found


def _apart(one: _T) -> _T:
    """Return a copy of an object with containers of its own, which hold the same."""
    found = object.__new__(type(one))
    slots = getattr(one, "__slots__", None)
    if slots is None:
        held = vars(one)
        vars(found).update({name: value.copy() if type(value) in _HOLDERS else value for name, value in held.items()})
        return found
    for name in slots:
        value = getattr(one, name)
        setattr(found, name, value.copy() if type(value) in _HOLDERS else value)
    return found


def _same(parts: list[Part], new: dict[int, Part]) -> list[Part]:
    """Return the copies of lanes that still are there."""
    return [new[id(part)] for part in parts if id(part) in new]


def _all(barriers: Barriers) -> Iterator[Barrier]:
    yield from barriers.last.values()
    yield from barriers.live.values()
    yield from barriers.ended


def _barriers(old: Barriers, run: Run) -> Barriers:
    found = _apart(old)
    found.order = run.order
    new: dict[int, Barrier] = {}
    for one in _all(old):
        if id(one) not in new:
            new[id(one)] = made = _apart(one)
            made.waits = {phase: list(waits) for phase, waits in one.waits.items()}
    found.live = {address: new[id(one)] for address, one in old.live.items()}
    found.last = {address: new[id(one)] for address, one in old.last.items()}
    found.ended = [new[id(one)] for one in old.ended]
    return found


def _meeting(old: Meeting, warps: list[Warp], new: dict[int, Meeting]) -> Meeting:
    found = new.get(id(old))
    if found is None:
        found = new[id(old)] = _apart(old)
        found.arrivals = [(warps[warp.index], clocks) for warp, clocks in old.arrivals]
    return found


def _wait(old: Wait, barriers: dict[int, Barrier], warps: list[Warp], meetings: dict[int, Meeting]) -> Wait:
    found = copy(old)
    if old.barrier is not None:
        found.barrier = barriers[id(old.barrier)]
    if old.warps is not None:
        found.warps = [warps[other.index] for other in old.warps]
    if old.meeting is not None:
        found.meeting = _meeting(old.meeting, warps, meetings)
    return found
