"""Copies on the machine: cp.async, bulk and tensor copies, and their groups."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from legalsat.analyses.ptx.contract import Order
from legalsat.analyses.ptx.findings import Undecided
from legalsat.analyses.ptx.instruction import Instruction
from legalsat.analyses.ptx.loads import Stores
from legalsat.analyses.ptx_machine import units
from legalsat.analyses.ptx_machine.guards import active, guard_of
from legalsat.analyses.ptx_machine.machine import BLOCK, LaneStores, Operation, Part, Run, Warp
from legalsat.analyses.ptx_machine.memory import SHARED_BYTES, in_words
from legalsat.analyses.ptx_machine.places import Places

TOGETHER = -1  # instead of a lane: all of them
UNKNOWN_BOX = 16  # bytes that every box has at least


def steering(i: Instruction) -> tuple[str, ...]:
    """Return the operands of a copy that must be known: no coordinates, no cache policies, no global addresses."""
    if "bulk" not in i.parts:
        return i.operands[:1] + i.operands[2:3] if "shared" in i.name and "global" in i.name else i.operands
    found = []
    for operand in i.operands:
        inside = re.match(r"\[\s*([^,\]]+)\s*,\s*\{", operand)
        if inside is not None:
            found.append(inside[1])
        elif operand.startswith("["):
            # The global end of a copy without a map says nothing about shared memory.
            if (
                "tensor" in i.parts
                or operand
                is not i.operands[1 if "shared::cluster" in i.parts[3:4] or "shared::cta" in i.parts[3:4] else 0]
            ):
                found.append(operand)
        elif not operand.startswith("{"):
            found.append(operand)
    if "L2::cache_hint" in i.parts:
        found = found[:-1]
    return tuple(found)


def make(program: Any, i: Instruction) -> Operation:
    """Return what a copy does."""
    parts, maker = i.parts, _copy
    if "bulk" in parts:
        if "commit_group" in parts:
            maker = _commit_bulk
        elif "wait_group" in parts:
            maker = _wait_bulk
        else:
            maker = _load if any(p.startswith("mbarrier::complete_tx") for p in parts) else _store
    elif "commit_group" in parts:
        maker = _commit
    elif "wait_group" in parts or "wait_all" in parts:
        maker = _wait
    elif "mbarrier" in parts:
        maker = _arrive
    return maker(program, i)


# The copy engine.


def _map_and_rest(operand: str) -> tuple[str, str]:
    found = re.match(r"\[\s*([^,\]]+?)\s*,\s*(\{[^}]*\})\s*\]", operand)
    return (found[1], found[2]) if found else (operand, "")


def _load(program: Any, i: Instruction) -> Operation:
    line, guard = i.line, guard_of(program, i)
    tensor = "tensor" in i.parts
    to: tuple[int, int] = program.address(i.operands[0], line)
    name, _ = _map_and_rest(i.operands[1])
    source: tuple[int, int] = program.address(name, line) if tensor else (0, 0)
    barrier: tuple[int, int] = program.address(i.operands[2 if tensor else 3], line)
    size = -1 if tensor else program.source(i.operands[2], 32, line)
    rows = 4 if any("gather4" in p for p in i.parts) else 1
    pairs = "cta_group::2" in i.parts
    sends = "multicast::cluster" in i.parts
    mask = program.source(_mask_of(i, 3 if tensor else 4), 16, line) if sends else -1
    shared_source = not tensor and "shared::cta" in i.parts[4:5]
    begins: tuple[int, int] = program.address(i.operands[1], line) if shared_source else (0, 0)

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        lanes = active(part, guard, line)
        if not lanes:
            return None
        targets = units.shared_places(part, *to, lanes, line)
        at = units.shared_place(part, *barrier, lanes, line)
        ranks = _receivers(run, warp, units.one_address(part, mask, 0, lanes, line), line) if sends else []
        map_, known = "", None
        at_map = -1
        if tensor:
            at_map = units.one_address(part, *source, lanes, line)
            map_ = _name_of(run, program, at_map)
            known = run.barriers.boxes.get(map_)
            if known is not None:
                known *= rows
        else:
            known = units.one_address(part, size, 0, lanes, line)
            if not known:
                return None
        for one in [targets] * lanes.bit_count() if isinstance(targets, int) else targets.tolist():
            _aligned(run, one, known if not tensor else 0, tensor=tensor, line=line)
            for target, signalled in _sent(one, at, ranks, pairs=pairs):
                if run.measures:
                    _bound(run, map_, target, rows)
                begun = run.barriers.load(warp.worker, lanes, signalled, known, map_, rows, line)
                run.sized &= known is not None
                if begun is not None:
                    order = run.order
                    count = min(known if known is not None else UNKNOWN_BOX, SHARED_BYTES - target % SHARED_BYTES)
                    epoch = begun.base + begun.phase
                    _uses(run, warp, lanes, at_map, (begun.agent, epoch), line)
                    if shared_source:
                        source_ = units.shared_place(part, *begins, lanes, line)
                        order.read(
                            order.shared, order.cells(source_, count), warp.worker, begun.agent, epoch, "store", line
                        )
                    cells = order.cells(int(target), max(count, 1))
                    number = order.write(order.shared, cells, warp.worker, begun.agent, epoch, "load", line)
                    _note_place(run, number, map_, target, rows, line)
                    run.forget(slice(target, target + count))
                    run.reaches(warp, target, (begun.agent, epoch), line, "this load")
                    run.reaches(warp, signalled, (begun.agent, epoch), line, "this load")
        return None

    return operation


def _note_place(run: Run, number: int, map_: str, target: int, rows: int, line: int) -> None:  # noqa: PLR0917
    run.order.maps[number] = map_
    run.program.load_places.setdefault(map_, {})[target] = rows, line


def arrive_with(run: Run, warp: Warp, lanes: int, to: int, barrier: int, count: int, line: int) -> None:  # noqa: PLR0917
    """Let some bytes come into shared memory, as a bulk copy does."""
    begun = run.barriers.load(warp.worker, lanes, barrier, count, "", 1, line)
    _aligned(run, to, count, tensor=False, line=line)
    if begun is not None:
        epoch = begun.base + begun.phase
        run.order.write(run.order.shared, run.order.cells(to, count), warp.worker, begun.agent, epoch, "load", line)
        run.reaches(warp, to, (begun.agent, epoch), line, "this load")
        run.reaches(warp, barrier, (begun.agent, epoch), line, "this load")


def _uses(run: Run, warp: Warp, lanes: int, map_: int, done: tuple[int, int], line: int) -> None:  # noqa: PLR0917
    """Note what a load that completes at a time reads a tensor map for, if the kernel edits any.

    A group that its thread closes afterwards covers the reading of the map too: on that CUTLASS relies.
    """
    if map_ >= 0 and run.program.edits_maps:
        held = _groups_of(run, warp, (lanes & -lanes).bit_length() - 1)
        run.maps.use(warp.worker, warp.rank, map_, (done, (held.agent, held.closed)), line)


def _mask_of(i: Instruction, first: int) -> str:
    """Return the operand that says to which CTAs a copy goes: after the barrier, and what an im2col copy has there."""
    return next(one for one in i.operands[first:] if not one.startswith("{"))


def _receivers(run: Run, warp: Warp, mask: int, line: int) -> list[int]:
    """Return the CTAs to which a copy goes, and note them where the first one sends it."""
    if not warp.rank:
        run.masks.add(mask & 0xFFFF)
    return ranks_of(run, mask, line)


def ranks_of(run: Run, mask: int, line: int) -> list[int]:
    """Return the CTAs of a mask, which has 16 bits."""
    mask &= 0xFFFF
    found = [rank for rank in range(len(run.living)) if mask >> rank & 1]
    if not found or mask >> len(run.living):
        run.order.find(
            "multicast_outside_cluster", line, f"a multicast to CTAs {mask:#b} in a cluster of {len(run.living)}"
        )
    return found


def _sent(target: int, barrier: int, ranks: list[int], *, pairs: bool) -> list[tuple[int, int]]:
    """Return where a copy writes and which barriers it completes on, for one CTA after the other.

    A multicast goes to the same offset in each CTA and completes on the barrier at the same offset there. With
    cta_group::2 the barrier is in that CTA of the receiver's pair which has the parity of the barrier's rank.
    """
    if not ranks:
        return [(target, barrier)]
    at, (parity, offset) = target % SHARED_BYTES, divmod(barrier, SHARED_BYTES)
    signalled = [rank & ~1 | parity & 1 if pairs else rank for rank in ranks]
    return [(r * SHARED_BYTES + at, s * SHARED_BYTES + offset) for r, s in zip(ranks, signalled, strict=True)]


def _aligned(run: Run, address: int, size: int | None, *, tensor: bool, line: int) -> None:
    """Check where the shared end of a copy lies, and how many bytes it has (FACTS M-11, BK-02)."""
    multiple = 128 if tensor else 16
    if address % multiple:
        run.order.find(
            "pipeline_address_misaligned",
            line,
            f"a copy at shared byte {in_words(address)}, no multiple of {multiple}",
        )
    if size is not None and size % 16:
        run.order.find("pipeline_address_misaligned", line, f"a bulk copy of {size} bytes, no multiple of 16")


def _name_of(run: Run, program: Any, address: int) -> str:
    name: str = program.map_name(address)
    run.used.add(name)
    made = run.maps.box(address)
    if made is not None:
        run.barriers.boxes.setdefault(name, made)
    return name


def _bound(run: Run, map_: str, target: int, rows: int) -> None:
    """Note how large a box of a map can be: what it belongs to ends before the next load under way and barrier."""
    run.places.setdefault(map_, set()).add(target)
    others = [b for b in run.barriers.live if b > target]
    if others:
        _limit(run, map_, (min(others) - target) // rows)
    if (map_, target, rows) in run.flying:
        return  # the same loads again, as in a loop: the pairs are compared
    for other_map, other, other_rows in run.flying:
        if other > target:
            _limit(run, map_, (other - target) // rows)
        elif other < target:
            _limit(run, other_map, (target - other) // other_rows)
    run.flying[map_, target, rows] = None


def _limit(run: Run, map_: str, count: int) -> None:
    run.bounds[map_] = min(run.bounds.get(map_, SHARED_BYTES), count)


def _store(program: Any, i: Instruction) -> Operation:
    line, guard = i.line, guard_of(program, i)
    tensor = "tensor" in i.parts
    name, _ = _map_and_rest(i.operands[0])
    target: tuple[int, int] = program.address(name, line) if tensor else (0, 0)
    source: tuple[int, int] = program.address(i.operands[1], line)
    size = -1 if tensor else program.source(i.operands[2], 32, line)
    rows = 4 if any("scatter4" in p for p in i.parts) else 1
    if "bulk_group" not in i.parts:
        return units.refused(program, i)

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        lanes = active(part, guard, line)
        if not lanes:
            return None
        order = run.order
        begins = units.shared_places(part, *source, lanes, line)
        together = isinstance(begins, int) and lanes == warp.live
        chosen = [TOGETHER] if together else [lane for lane in range(32) if lanes >> lane & 1]
        listed = [begins] * len(chosen) if isinstance(begins, int) else begins.tolist()
        at_map, map_ = -1, ""
        if tensor:
            at_map = units.one_address(part, *target, lanes, line)
            map_ = _name_of(run, program, at_map)
            known = run.barriers.boxes.get(map_)
            if known is None and run.let_others_go(warp, part):
                return BLOCK
        else:
            known = units.one_address(part, size, 0, lanes, line)
        counts = {begin: known * rows if known is not None else _written_run(run, map_, begin) for begin in set(listed)}
        for lane, begin in zip(chosen, listed, strict=True):
            held = _groups_of(run, warp, lane)
            if tensor and program.edits_maps:
                run.maps.use(warp.worker, warp.rank, at_map, ((held.agent, held.closed),), line)
            count = counts[begin]
            _aligned(run, begin, known if not tensor else 0, tensor=tensor, line=line)
            count = max(1, min(count, SHARED_BYTES - begin % SHARED_BYTES))
            sure = count if known is not None else UNKNOWN_BOX
            cells = order.cells(int(begin), sure)
            writers = order.read(order.shared, cells, warp.worker, held.agent, held.closed, "store", line)
            if known is None:  # how much of loads it takes is not known
                order.written.brought.taken -= {order.accesses[one].line for one in writers}
            if tensor and run.sized and writers != [0]:
                loaded = any(order.accesses[one].kind == "load" for one in writers)
                run.program.store_sources.setdefault((map_, loaded), line)
            if count > sure:
                rest = order.cells(int(begin) + sure, count - sure)
                order.read(order.shared, rest, warp.worker, held.agent, held.closed, "guess", line)
            held.open_lines.append(line)
            if tensor and known is None:
                _note_beside(order, int(begin) + count, writers, line)
            run.program.stores.add(map_, begin)
        return None

    return operation


def _groups_of(run: Run, warp: Warp, lane: int) -> LaneStores:
    """Return the bulk groups of a thread, or those that all lanes of a warp fill and close together."""
    held = warp.stores.get(lane)
    if held is None:
        held = warp.stores[lane] = LaneStores(run.agent("stores", 33 * warp.index + lane + 1))
    return held


def _written_run(run: Run, map_: str, begin: int) -> int:
    """Return how many bytes from here threads have written, up to where another store begins.

    All boxes of a map are as large, so that none is larger than what the next store leaves to any of them.
    """
    granule, accesses = run.order.granule, run.order.accesses
    stores: Stores = run.program.stores
    most = min(stores.room(map_, begin), granule << 15)
    cells = run.order.shared.length(begin // granule, -(-most // granule), lambda number: accesses[number].kind == "st")
    return max(min(cells * granule, most), UNKNOWN_BOX)


def _note_beside(order: Order, end: int, writers: Iterable[int], line: int) -> None:
    """Note what threads have written right behind what a store takes, by some writers, when they wrote that."""
    written, times = order.accesses[order.shared.writer(end // order.granule)], map(order.accesses.__getitem__, writers)
    if written.kind == "st" and any(one[:2] == written[:2] for one in times):
        order.written.beside.setdefault(written.line, line)


def _closes(warp: Warp, lanes: int, lane: int) -> bool:
    """Does what some lanes do concern a thread's groups, or those of all together?"""
    return lanes == warp.live if lane == TOGETHER else bool(lanes >> lane & 1)


def _commit_bulk(program: Any, i: Instruction) -> Operation:
    guard, line = guard_of(program, i), i.line

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        lanes = active(part, guard, line)
        for lane, held in warp.stores.items():
            if _closes(warp, lanes, lane):
                if held.open_lines:
                    held.lines[held.closed] = held.open_lines[-1]
                held.closed += 1
                held.open_lines = []
        return None

    return operation


def _wait_bulk(program: Any, i: Instruction) -> Operation:
    guard, line = guard_of(program, i), i.line
    pending = program.source(i.operands[0], 32, line)

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        lanes = active(part, guard, line)
        left = units.one_address(part, pending, 0, part.mask, line) if lanes else 0
        for lane, held in warp.stores.items():
            if _closes(warp, lanes, lane):
                held.retired = max(held.retired, held.closed - left)
                clock = warp.worker.known
                clock[held.agent] = max(clock[held.agent], held.retired)
        return None

    return operation


# cp.async.


def _copy(program: Any, i: Instruction) -> Operation:
    line, guard = i.line, guard_of(program, i)
    to: tuple[int, int] = program.address(i.operands[0], line)
    size = program.source(i.operands[2], 32, line)
    places = Places(program.granule, to[1], line)

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        lanes = active(part, guard, line)
        if not lanes:
            return None
        count = units.one_address(part, size, 0, lanes, line)
        reached = places.at(part.registers[to[0]], lanes, count)
        if units.check_inside(run, reached, line):
            order = run.order
            if not reached.aligned:
                order.find(
                    "pipeline_address_misaligned", line, f"a cp.async of {count} bytes to no multiple of {count}"
                )
            agent = run.agent("cp.async", warp.index)
            order.write(order.shared, reached.cells, warp.worker, agent, warp.groups["cp.async"], "cp.async", line)
            warp.open["cp.async"] = True
            run.forget(reached.bytes)
        return None

    return operation


def _commit(program: Any, i: Instruction) -> Operation:
    guard, line = guard_of(program, i), i.line

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        if active(part, guard, line):
            warp.groups["cp.async"] += 1
            warp.open["cp.async"] = False
        return None

    return operation


def _wait(program: Any, i: Instruction) -> Operation:
    guard, line = guard_of(program, i), i.line
    all_of_them = "wait_all" in i.parts
    pending = -1 if all_of_them else program.source(i.operands[0], 32, line)

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        if not active(part, guard, line):
            return None
        if all_of_them and warp.open["cp.async"]:
            warp.groups["cp.async"] += 1
            warp.open["cp.async"] = False
        left = 0 if all_of_them else units.one_address(part, pending, 0, part.mask, line)
        agent, clock = run.agent("cp.async", warp.index), warp.worker.known
        done = warp.groups["cp.async"] - left
        clock[agent] = max(clock[agent], done)
        return None

    return operation


def _arrive(program: Any, i: Instruction) -> Operation:
    """cp.async.mbarrier.arrive: arrives when all earlier copies of the thread are done (FACTS MB-19)."""
    guard, line = guard_of(program, i), i.line
    place: tuple[int, int] = program.address(i.operands[0], line)
    counted = "noinc" in i.parts

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        lanes = active(part, guard, line)
        if not lanes:
            return None
        address = units.shared_place(part, *place, lanes, line)
        if warp.open["cp.async"]:
            # Groups are only how the machine counts: what comes later is another one.
            warp.groups["cp.async"] += 1
            warp.open["cp.async"] = False
        clocks = warp.worker.passed_on(lanes)
        clocks[0, run.agent("cp.async", warp.index)] = warp.groups["cp.async"]
        if counted:
            run.barriers.owe(warp.worker, clocks, address, lanes, line, lanes.bit_count())
        else:
            run.barriers.extend(warp.worker, clocks, address, lanes, line)
        return None

    return operation


__all__ = ["Undecided", "make", "steering"]
