"""What a contract forbids in a state of a pipeline: tells the first thing that is wrong, or that could be next.

Two uses of a stage that could happen now, one of them a write, are a race whichever comes first, and even where the
data happen to come out right. A flight uses its stages from its start until it lands. As a model checker visits every
order, uses that no barrier keeps apart meet in some state.
"""

from __future__ import annotations

from collections.abc import Iterator

from legalsat.analyses.protocol.pipeline_machine import OVERLAID, Barrier, Machine, Mark, PipelineError, State
from legalsat.analyses.protocol.pipeline_tables import Access, Flight, Instruction
from legalsat.analyses.protocol.pipeline_words import barrier_name, cell_name, instruction
from legalsat.program.pipeline import Allocate, Arrive, CommitTo, Expect, Free, Load, Operation, Start, Wait

_FAULTS: dict[type, str] = {
    **dict.fromkeys((Load, CommitTo), "mask outside cluster"),
    Free: "tensor memory not allocated",
}


def fault(machine: Machine, state: State) -> PipelineError | None:
    """Return what is wrong in a state, None if nothing is."""
    for process in range(machine.first_flight):
        todo = machine.next(state, process)
        found = _ended(machine, process) if todo is None else _of_instruction(machine, state, todo)
        if found:
            return found
    for cta, gone in enumerate(state.gone):
        if not gone and (found := _at_exit(machine, state, cta)):
            return found
    return _of_signals(machine, state) or _race(machine, state)


def deadlock(machine: Machine, state: State) -> PipelineError:
    """Return what is wrong in a state that nothing can leave."""
    waits, stuck = [], []
    kind = "deadlock"
    where: tuple[str, Operation | None] = ("", None)
    for process in range(machine.first_flight):
        todo = machine.next(state, process)
        if todo is None:
            continue
        label = machine.processes[process].label
        where = where if where[0] else (label, todo.op)
        text = f"{label} waits for ever: {instruction(machine.tables, todo)}"
        if isinstance(todo.op, Wait) and (barrier := state.barriers[todo.barriers[0]]):
            text += f", where {_count(barrier.pending, 'arrival')} and {_count(max(0, barrier.tx), 'byte')} are missing"
            text += f", and {_count(-barrier.tx, 'byte')} came that nobody expected" * (barrier.tx < 0)
            if barrier.tx < 0 or (barrier.tx and not barrier.pending):
                kind, where = "bytes differ", (label, todo.op)
        waits.append(text)
        stuck.append(process)
    return PipelineError(kind, where, "; ".join(waits), tuple(stuck))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _error(machine: Machine, kind: str, todo: Instruction, message: str, *also: int) -> PipelineError:
    return PipelineError(kind, (machine.processes[todo.process].label, todo.op), message, (todo.process, *also))


def _ended(machine: Machine, process: int) -> PipelineError | None:
    left = machine.tables.left[process]
    if not left:
        return None
    label = machine.processes[process].label
    return PipelineError("groups not balanced", (label, None), f"{label} ends with {left} in no group", (process,))


def _of_instruction(machine: Machine, state: State, todo: Instruction) -> PipelineError | None:
    if todo.fault:
        return _error(machine, _FAULTS.get(type(todo.op), "unfenced"), todo, todo.fault)
    if todo.barriers and (found := _of_barriers(machine, state, todo)):
        return found
    for access in todo.accesses:
        if state.gone[machine.tables.cells[access.cell].cta]:
            return _error(machine, "remote not alive", todo, f"the CTA of {_name(machine, access)} may have ended")
        if not access.writes and access.through != "sums" and (found := _of_read(machine, state, todo, access)):
            return found
    if todo.sums and todo.accesses and (found := _of_sums(machine, state, todo)):
        return found
    return _of_allocation(machine, state, todo)


def _of_barriers(machine: Machine, state: State, todo: Instruction) -> PipelineError | None:
    for cell in todo.barriers:
        cta, name, barrier = machine.tables.barriers[cell][0], barrier_name(machine.tables, cell), state.barriers[cell]
        starts = isinstance(todo.op, Start)
        kind, text = "use before init", ""
        if state.gone[cta]:
            kind, text = "remote not alive", f"cta {cta}, which {name} is of, may have ended"
        elif starts and barrier:
            text = f"{name} is started twice"
        elif not starts and barrier is None:
            text = f"{name} may not have been started"
        elif barrier and barrier.unfenced_by >= 0 and (who := _stranger(machine, todo, cta)):
            kind, text = "unfenced", f"no mbarrier_init fence lets {who} see the start of {name}"
        if text:
            return _error(machine, kind, todo, text)
        if barrier and (found := _of_phase(machine, state, todo, cell, barrier)):
            return found
    return None


def _stranger(machine: Machine, todo: Instruction, cta: int) -> str:
    """Return who uses a barrier and sees its start only after an mbarrier_init fence."""
    if cta != todo.cta:
        return f"cta {todo.cta}"
    engines = isinstance(todo.op, Load | CommitTo) and machine.strict
    return "the copy engine or matrix unit" if engines else ""


def _of_phase(machine: Machine, state: State, todo: Instruction, cell: int, barrier: Barrier) -> PipelineError | None:
    label, name = machine.processes[todo.process].label, barrier_name(machine.tables, cell)
    if isinstance(todo.op, Wait) and barrier.phase - todo.phase not in (0, 1):
        over = _count(barrier.phase, "phase")
        text = f"{label} waits for phase {todo.phase} of {name} when {over} may be over, which parity cannot tell"
        return _error(machine, "two phases back", todo, text, *_arrivers(machine, state, cell))
    arrives = todo.op.count if isinstance(todo.op, Arrive) else int(isinstance(todo.op, Expect) and todo.op.arrives)
    if arrives > barrier.pending:
        text = f"{name} gets {_count(arrives, 'arrival')} when it misses {barrier.pending}"
        return _error(machine, "too many arrivals", todo, text, *_arrivers(machine, state, cell))
    return None


def _arrivers(machine: Machine, state: State, cell: int) -> Iterator[int]:
    """Yield processes that have used a barrier, which a timeline shows."""
    for process, program in enumerate(machine.programs):
        if any(cell in todo.barriers for todo in program[: state.at[process]]):
            yield process


def _of_read(machine: Machine, state: State, todo: Instruction, access: Access) -> PipelineError | None:
    held, name = state.items[access.cell], cell_name(machine.tables, access.cell)
    edited = access.cell in machine.maps
    if edited and machine.tables.cells[access.cell].name not in machine.tables.pipeline.edited_maps:
        return None
    if held == OVERLAID:
        return _error(machine, "overwrite", todo, f"item {access.item} of {name} is read after a buffer on its memory")
    racing = any(a.cell == access.cell and a.writes for f in state.flying for a in machine.flights[f].accesses)
    if held != access.item and not racing:
        if held is not None and held > access.item:
            text = f"item {access.item} of {name} is read when item {held} lies there"
            return _error(machine, "overwrite", todo, text)
        there = "nothing" if held is None else f"item {held}"
        return _error(machine, "early read", todo, f"item {access.item} of {name} is read when {there} lies there")
    marks = [mark for mark in state.unfenced if mark[0] == access.cell]
    if access.through == "async" and marks:
        label = machine.processes[marks[0][1]].label
        text = f"{label} wrote {name}, and no async proxy fence of it lies between that and this read"
        if edited:
            text = f"{label} edited {name}, and no acquire lies between that and this copy by it"
        return _error(machine, "unfenced", todo, text, marks[0][1])
    return None


def _of_sums(machine: Machine, state: State, todo: Instruction) -> PipelineError | None:
    (access,) = (a for a in todo.accesses if a.through == "sums")
    name, process = cell_name(machine.tables, access.cell), todo.process
    live = (machine.programs[a >> 20][a & 0xFFFFF] for a in state.allocated)
    if not any(access.cell == a.cell for made in live for a in made.accesses):
        return _error(machine, "tensor memory not allocated", todo, f"nobody holds columns for {name}")
    marks = state.marks[access.cell]
    if access.writes:
        return _of_readers(machine, todo, name, marks)
    held = state.items[access.cell]
    if held != access.item:
        kind = "overwrite" if held is not None and held > access.item else "early read"
        there = "nothing has been added" if held is None else f"item {held} lies there"
        return _error(machine, kind, todo, f"item {access.item} of {name} is read when {there}")
    if any(m.wrote and process not in m.seen for m in marks) and not _flying(machine, state, access.cell):
        return _error(machine, "unfenced", todo, f"no tcgen05.after fence since the wait for the products in {name}")
    return None


def _of_readers(machine: Machine, todo: Instruction, name: str, marks: frozenset[Mark]) -> PipelineError | None:
    """Return what is wrong if sums are added to that others have read."""
    for mark in marks:
        if mark.process == todo.process or mark.wrote:
            continue
        who = machine.processes[mark.process].label
        if not mark.released:
            text = f"{who} has no tcgen05.before fence since it used {name}"
            return _error(machine, "unfenced", todo, text, mark.process)
        if todo.process not in mark.seen:
            text = f"no tcgen05.after fence since the wait for {who}, who used {name}"
            return _error(machine, "unfenced", todo, text, mark.process)
    return None


def _flying(machine: Machine, state: State, cell: int) -> bool:
    return any(a.cell == cell for f in state.flying for a in machine.flights[f].accesses)


def _of_allocation(machine: Machine, state: State, todo: Instruction) -> PipelineError | None:
    if isinstance(todo.op, Free) and todo.allocation not in state.allocated:
        text = f"{todo.op.columns} columns may not be allocated"
        return _error(machine, "tensor memory not allocated", todo, text, todo.allocation >> 20)
    if isinstance(todo.op, Allocate) and todo.cta in state.relinquished:
        return _error(machine, "tensor memory not allocated", todo, "the block has promised to allocate no more")
    return None


def _of_signals(machine: Machine, state: State) -> PipelineError | None:
    for number in state.flying:
        flight = machine.flights[number]
        barrier = state.barriers[flight.barrier] if flight.kind == "signal" else None
        if barrier and barrier.pending < flight.arrivals and not set(flight.after) & set(state.flying):
            todo = machine.programs[flight.process][flight.index]
            name = barrier_name(machine.tables, flight.barrier)
            text = f"{name} gets {_count(flight.arrivals, 'arrival')} when it misses {barrier.pending}"
            return _error(machine, "too many arrivals", todo, text, machine.first_flight + number)
    return None


def _at_exit(machine: Machine, state: State, cta: int) -> PipelineError | None:
    """Return what a CTA leaves behind if it can end now."""
    own = [i for i, p in enumerate(machine.processes) if p.cta == cta]
    if any(machine.next(state, process) for process in own):
        return None
    for flight in (machine.flights[f] for f in state.flying):
        if flight.cta == cta and flight.kind not in ("signal", "put"):
            todo = machine.programs[flight.process][flight.index]
            text = f"the block may end before this is done: {instruction(machine.tables, todo)}"
            return _error(machine, "not drained", todo, text, *own, machine.first_flight + flight.number)
    for cell, barrier in enumerate(state.barriers):
        if barrier and barrier.tx and machine.tables.barriers[cell][0] == cta:
            text = f"the block ends while {barrier_name(machine.tables, cell)} awaits {barrier.tx} bytes"
            return PipelineError("not drained", (machine.processes[own[0]].label, None), text, tuple(own))
    for allocation in state.allocated:
        todo = machine.programs[allocation >> 20][allocation & 0xFFFFF]
        if todo.cta == cta:
            text = f"the block ends with {machine.columns(state, cta)} columns allocated"
            return _error(machine, "tensor memory not freed", todo, text, *own)
    return None


def clash(machine: Machine, one: tuple[int, Access], other: tuple[int, Access]) -> bool:
    """Tell whether two uses, each of a process, race if nothing keeps them apart.

    Several writes of one item do not: boxes that fill a stage together, instances that write a part each.
    """
    (first, a), (second, b) = one, other
    if not (a.writes or b.writes):
        return False
    if a.cell != b.cell:
        return b.cell in machine.tables.aliases[a.cell]
    if not (a.writes and b.writes) or "alloc" in (a.through, b.through):
        return True
    return first != second if a.through == "sums" else a.item != b.item


def _uses(machine: Machine, state: State) -> Iterator[tuple[int, Instruction, Flight | None, Access]]:
    """Yield what may be used right now: by flights, and by what processes do next."""
    for number in state.flying:
        flight = machine.flights[number]
        source = machine.programs[flight.process][flight.index]
        for access in flight.accesses:
            yield machine.first_flight + number, source, flight, access
    for process in range(machine.first_flight):
        todo = machine.next(state, process)
        if todo is not None:
            for access in todo.accesses:
                yield process, todo, None, access


def _race(machine: Machine, state: State) -> PipelineError | None:
    """Return two uses that may happen at once, one of which writes."""
    uses = list(_uses(machine, state))
    for place, (key, todo, flight, access) in enumerate(uses):
        for other in uses[:place]:
            if other[0] == key or not clash(machine, (todo.process, access), (other[1].process, other[3])):
                continue
            mine, theirs = (key, todo, flight, access), other
            writer, reader = (mine, theirs) if access.writes else (theirs, mine)
            return _told(machine, state, writer, reader)
    return None


def _told(
    machine: Machine,
    state: State,
    writer: tuple[int, Instruction, Flight | None, Access],
    reader: tuple[int, Instruction, Flight | None, Access],
) -> PipelineError:
    writing, reading = writer[3], reader[3]
    if "alloc" in (writing.through, reading.through):
        kind = "tensor memory not allocated"
    elif reading.writes or writing.cell != reading.cell:
        kind = "overwrite"
    elif writer[2] is None:
        kind = "overwrite" if state.items[reading.cell] == reading.item else "early read"
    else:
        kind = "overwrite" if writing.item > reading.item else "early read"
    todo = reader[1] if kind == "early read" else writer[1]
    text = f"{_doing(machine, writer)} while {_doing(machine, reader)}"
    return _error(machine, kind, todo, text, writer[0], reader[0])


def _doing(machine: Machine, use: tuple[int, Instruction, Flight | None, Access]) -> str:
    _, todo, flight, access = use
    label = machine.processes[todo.process].label
    what = f"item {access.item} of {_name(machine, access)}"
    if access.through == "alloc":
        return f"{label} does {instruction(machine.tables, todo)}"
    if flight is None:
        return f"{label} {'writes' if access.writes else 'reads'} {what}"
    names = {"load": "load", "copy": "copy", "multiply": "product", "fetch": "store"}
    return f"a {names[flight.kind]} of {label} still {'writes' if access.writes else 'reads'} {what}"


def _name(machine: Machine, access: Access) -> str:
    return cell_name(machine.tables, access.cell)


def remote(machine: Machine, todo: Instruction) -> Iterator[int]:
    """Yield the other CTAs that an instruction reaches into."""
    tables = machine.tables
    found = {tables.barriers[b][0] for b in todo.barriers} | {tables.cells[a.cell].cta for a in todo.accesses}
    yield from found - {todo.cta}
