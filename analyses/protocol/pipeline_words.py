"""Steps of an unrolled pipeline in words, for timelines and messages."""

from __future__ import annotations

from legalsat.analyses.protocol.pipeline_tables import Flight, Instruction, Unrolled
from legalsat.program.pipeline import (
    Allocate,
    Arrive,
    Commit,
    CommitTo,
    CopyArrive,
    CopyIn,
    Expect,
    Fence,
    Free,
    Load,
    Multiply,
    Read,
    Registers,
    Start,
    Store,
    Sync,
    UseSums,
    Wait,
    WaitGroup,
    Write,
)

_ENGINES = {"multiply": "matrix unit", "signal": "signals"}
_LANDS = {"load": "fills", "copy": "fills", "multiply": "has read", "fetch": "has fetched", "put": "has stored"}
_VERBS: dict[type, str] = {Load: "load", CopyIn: "copy in", Store: "store", Read: "read", Write: "write"}


def barrier_name(tables: Unrolled, cell: int) -> str:
    """Return a barrier's name with its stage."""
    _, name, stage = tables.barriers[cell]
    return f"{name}[{stage}]"


def cell_name(tables: Unrolled, cell: int) -> str:
    """Return a buffer's or sums' name with its stage."""
    found = tables.cells[cell]
    return f"{found.name}[{found.stage}]"


def engine(tables: Unrolled, flight: Flight) -> str:
    """Return the name of the unit that a flight keeps busy."""
    name = _ENGINES.get(flight.kind, "copy engine")
    return f"cta {flight.cta} {name}" if tables.pipeline.cluster > 1 else name


def landing(tables: Unrolled, flight: Flight) -> str:
    """Return what the landing of a flight is."""
    if flight.kind == "signal":
        return f"arrives at {barrier_name(tables, flight.barrier)}"
    source = tables.programs[flight.process][flight.index]
    used = flight.accesses or source.accesses
    names = [f"{cell_name(tables, a.cell)}" for a in used if a.through != "sums"] or ["nothing"]
    return f"{_LANDS[flight.kind]} {', '.join(names)}: item {source.item}"


def instruction(tables: Unrolled, todo: Instruction) -> str:
    """Return what an instruction is."""
    op = todo.op
    if todo.barriers:
        return _of_barrier(tables, todo, barrier_name(tables, todo.barriers[0]))
    if verb := _VERBS.get(type(op)):
        return f"{verb} {cell_name(tables, todo.accesses[0].cell)}: item {todo.item}"
    match op:
        case Sync():
            text = f"{'leave' if todo.need else 'reach'} sync {op.name}"
        case Multiply():
            text = f"multiply {', '.join(cell_name(tables, a.cell) for a in todo.accesses[:-1])}: item {todo.item}"
        case UseSums():
            text = f"use {cell_name(tables, todo.accesses[0].cell)}"
        case Commit():
            text = f"commit {op.family}"
        case WaitGroup():
            text = f"wait {op.family} <= {op.pending}{' read' * op.read}"
        case Fence():
            text = f"fence {op.kind}"
        case Allocate() | Free():
            text = f"{type(op).__name__.lower()} {op.columns} columns"
        case Registers():
            text = f"registers {op.count}"
        case _:
            text = type(op).__name__.lower()
    return text


def _of_barrier(tables: Unrolled, todo: Instruction, name: str) -> str:
    text = name
    match todo.op:
        case Start():
            text = f"start {todo.op.barrier}"
        case Wait():
            text = f"wait {name} phase {todo.phase}" if todo.phase >= 0 else f"wait {name} before phase 0"
        case Arrive():
            far = f" of cta {tables.barriers[todo.barriers[0]][0]}" if todo.op.cta else ""
            text = f"arrive {name}{far}" + f" x{todo.op.count}" * (todo.op.count > 1)
        case Expect():
            text = f"expect {name} {todo.op.bytes} B" + " only" * (not todo.op.arrives)
        case Load():
            text = f"load {cell_name(tables, todo.accesses[0].cell)}: item {todo.item}"
        case CommitTo():
            text = f"commit to {name}" + f" of CTAs {todo.op.mask:#b}" * (todo.op.mask != 1)
        case CopyArrive():
            text = f"copies arrive {name}"
    return text
