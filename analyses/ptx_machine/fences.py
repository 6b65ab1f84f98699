"""Fences: of what threads did, of barriers' inits, for asynchronous units, and of tcgen05 (FACTS FN-01 to FN-13).

A barrier orders threads, and not what they have issued to tensor cores (FACTS TC-31 to TC-36): what another thread
issued, or what a phase of an mbarrier ended, is before what follows tcgen05.fence::after_thread_sync; and loads and
stores of tensor memory are before what others do if tcgen05.fence::before_thread_sync stands between them and the
barrier. tcgen05.commit contains the latter. Work of one thread that is done in its order needs none.
"""

from __future__ import annotations

from typing import Any

from legalsat.analyses.ptx.contract import Access
from legalsat.analyses.ptx.instruction import Instruction
from legalsat.analyses.ptx_machine.guards import active, guard_of
from legalsat.analyses.ptx_machine.machine import Operation, Part, Run, Warp
from legalsat.analyses.ptx_machine.shadow import Cells

OF_WARPS = ("ld.tensor", "st.tensor")  # which end for the warp that issued them when it waits for them
MULTIPLIED = "tcgen05"
FREED = "free"  # which is no asynchronous operation, and so needs no fence before it in its own thread
AFTER, BEFORE = "tcgen05.fence::after_thread_sync", "tcgen05.fence::before_thread_sync"


def releases(i: Instruction) -> bool:
    """Is it a fence that releases what a thread has done to other CTAs, so that arrivals without release pass it on?"""
    if i.base == "membar":
        return i.parts[1] in {"gl", "sys"}
    return i.base == "fence" and i.parts[1] in {"sc", "acq_rel", "release"} and i.parts[-1] in {"cluster", "gpu", "sys"}


def make(program: Any, i: Instruction) -> Operation:
    """Return a fence of ordinary memory, of inits of barriers, or between ordinary writes and asynchronous units."""
    return _release(program, i) if releases(i) else _fence(program, i)


def _release(program: Any, i: Instruction) -> Operation:
    guard, line = guard_of(program, i), i.line

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        lanes = active(part, guard, line)
        if lanes:
            run.order.release(warp.worker, lanes)
        return None

    return operation


def _fence(program: Any, i: Instruction) -> Operation:
    guard, line = guard_of(program, i), i.line
    of_writes = i.parts[1] == "proxy"

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        lanes = active(part, guard, line)
        if lanes:
            run.barriers.fence_starts(warp.worker, releases=not of_writes)
            if of_writes:
                run.order.fence(warp.worker, lanes)
        return None

    return operation


def make_tensor_fence(program: Any, i: Instruction) -> Operation:
    """Return a fence: before, of all that a warp has issued so far; after, of all that it knows of."""
    guard, line, before = guard_of(program, i), i.line, "before_thread_sync" in i.parts[1]

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        if not active(part, guard, line):
            return None
        if not before:
            warp.fenced_tensor = warp.worker.clock.copy()
            return None
        for kind in OF_WARPS:
            if kind in warp.counts:
                # A line of work of its own, so that who learns of the barrier learns of the fence.
                fenced = run.fences_before[run.agent(kind, warp.index)] = run.agent(f"{kind} fenced", warp.index)
                warp.worker.known[fenced] = warp.counts[kind]
        return None

    return operation


def check_fences(  # noqa: PLR0917
    run: Run, warp: Warp, cells: Cells, agent: int, kind: str, line: int
) -> None:
    """Check that fences stand between what a warp does to tensor memory now and what others did to it before."""
    order, memory, clock = run.order, run.tensor, warp.worker.known
    regions = memory.of(cells)
    numbers = memory.writers_of(regions) + (memory.readers_of(regions) if kind != OF_WARPS[0] else [])
    units = run.unit_agents
    for access in map(order.accesses.__getitem__, numbers):
        others = access.kind in OF_WARPS and access.agent != units.get((access.kind, warp.index))
        multiplied = access.kind == MULTIPLIED and access.agent != agent
        if not (others or multiplied) or not order.ordered(access, warp.worker):
            continue  # of one thread, or an error of its own
        missing = ""
        fenced = run.fences_before.get(access.agent)
        if others and (fenced is None or clock[fenced] <= access.epoch):
            missing = BEFORE
        elif kind != FREED and (warp.fenced_tensor is None or warp.fenced_tensor[access.agent] <= access.epoch):
            missing = AFTER
        if missing and order.new("tensor_memory_not_fenced", line):
            use = order.use_of(Access(agent, 0, line, kind))
            message = f"{use} follows {order.use_of(access)} of before a barrier, without {missing}"
            order.find("tensor_memory_not_fenced", line, message, f"used at line {access.line}")
