"""What edits tensor maps on the machine: tensormap.replace, the copy that releases a map, its fences, plain stores."""

from __future__ import annotations

from typing import Any

from legalsat.analyses.ptx.contract_maps import KEPT, MAP_BYTES
from legalsat.analyses.ptx.instruction import Instruction
from legalsat.analyses.ptx_machine import units
from legalsat.analyses.ptx_machine.guards import active, guard_of
from legalsat.analyses.ptx_machine.machine import PARK, Operation, Part, Run, Warp
from legalsat.analyses.ptx_machine.memory import place_of


def make_edit(program: Any, i: Instruction) -> Operation:
    """Return tensormap.replace, or the copy of a map from shared to global memory that releases it."""
    return _publish(program, i) if i.parts[1] == "cp_fenceproxy" else _replace(program, i)


def _publish(program: Any, i: Instruction) -> Operation:
    line, guard = i.line, guard_of(program, i)
    target: tuple[int, int] = program.address(i.operands[0], line)
    source: tuple[int, int] = program.address(i.operands[1], line)

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        lanes = active(part, guard, line)
        if not lanes:
            return None
        if part.mask != warp.live:
            return PARK
        order, worker, maps = run.order, warp.worker, run.maps
        worker.meet()
        begin = place_of(units.one_address(part, *source, lanes, line))
        if 0 <= begin < run.shared_bytes:
            order.read(order.shared, order.cells(begin, MAP_BYTES), worker, worker.index, worker.time, "ld", line)
        if part.registers[target[0]] is None:
            run.note(line, "which tensor map this edits depends on data")
            return None
        address = units.one_address(part, *target, lanes, line)
        maps.fields[address] = dict(maps.fields.get(begin, {}))
        maps.edit(worker, lanes, address, line, released=True)
        return None

    return operation


def _replace(program: Any, i: Instruction) -> Operation:
    line, guard, kind = i.line, guard_of(program, i), i.parts[3]
    place: tuple[int, int] = program.address(i.operands[0], line)
    values = [program.source(one, 64, line) for one in i.operands[1:]] if kind in KEPT else []

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        lanes = active(part, guard, line)
        if not lanes:
            return None
        address = units.one_address(part, *place, lanes, line)
        begin, order, worker = place_of(address), run.order, warp.worker
        shared = 0 <= begin < run.shared_bytes
        if values:
            last = part.registers[values[-1]]
            key = kind if len(values) == 1 else f"{kind} {part.registers[values[0]]}"
            held = run.maps.fields.setdefault(begin if shared else address, {})
            held.pop(key, None)
            if isinstance(last, int):
                held[key] = last
        if shared:
            agent, cells = order.actor(worker, lanes), order.cells(begin, MAP_BYTES)
            before = order.shared.writers_of(order.shared.of(cells))  # of which the rest stays
            order.written.note_read(cells, before, order, by_unit=False)
            order.write(order.shared, cells, worker, agent, worker.time, "st", line)
        else:
            run.maps.edit(worker, lanes, address, line, released=False)
        return None

    return operation


def make_fence(program: Any, i: Instruction) -> Operation:
    """Return a fence of the proxy through which copies read maps."""
    line, guard, acquires = i.line, guard_of(program, i), "acquire" in i.name
    place: tuple[int, int] = program.address(i.operands[0], line) if acquires and i.operands else (-1, 0)

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        lanes = active(part, guard, line)
        if not lanes:
            return None
        if not acquires:
            run.maps.release(warp.worker, lanes, line)
            return None
        if place[0] < 0 or part.registers[place[0]] is None:
            run.note(line, "which tensor map this acquires depends on data")
            run.maps.acquire(warp.worker, warp.rank, lanes, None, line)
            return None
        found = units.known_lanes(part, *place, lanes, line)
        for address in [found] if isinstance(found, int) else found.tolist():
            run.maps.acquire(warp.worker, warp.rank, lanes, address, line)
        return None

    return operation


def make_store(program: Any, i: Instruction) -> Operation:
    """Return a store to global memory at a pointer by which copies find maps."""
    line, guard = i.line, guard_of(program, i)
    place: tuple[int, int] = program.address(i.operands[0], line)

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        lanes = active(part, guard, line)
        if lanes and part.registers[place[0]] is None:
            run.note(line, "this store may edit a tensor map; where it goes depends on data")
        elif lanes:
            run.maps.stored(warp.worker, lanes, units.known_lanes(part, *place, lanes, line), line)
        return None

    return operation
