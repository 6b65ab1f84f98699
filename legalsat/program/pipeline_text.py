"""Pipelines in words: one line an operation, loops and guards indented."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from legalsat.program.leaves import AddSlices, ShiftRows, TurnTile
from legalsat.program.pipeline import (
    Advance,
    Allocate,
    Arrive,
    At,
    AwaitGrid,
    Commit,
    CommitTo,
    CopyArrive,
    CopyIn,
    Expect,
    Fence,
    Free,
    Guard,
    LaunchDependents,
    Load,
    Loop,
    Multiply,
    Operation,
    Pipeline,
    Read,
    Registers,
    Relinquish,
    Start,
    Store,
    Sync,
    UseSums,
    Vectors,
    Wait,
    WaitGroup,
    Write,
)

INDENT = "  "


def role_lines(pipeline: Pipeline) -> Iterator[tuple[str, list[str]]]:
    """Yield for each role who it is, and what it does."""
    for role in pipeline.roles:
        warps = f"{role.warps} warp{'s' * (role.warps != 1)}" if role.warps else "one thread"
        several = f", {role.instances} times" if role.instances > 1 else ""
        where = f", in CTA {', '.join(map(str, role.ctas))} alone" if role.ctas else ""
        yield f"{role.name}, {warps}{several}{where}", list(_lines(role.body, ""))


def _lines(body: tuple[Operation, ...], indent: str) -> Iterator[str]:
    for op in body:
        yield indent + words(op)
        if isinstance(op, Loop | Guard):
            yield from _lines(op.body, indent + INDENT)


def of_item(ring: str, at: At) -> str:
    """Return an item of a ring in words."""
    return f"{ring}[{at}]" if at.cursor else ring


def _by(op: Load | Store) -> str:
    return f" by {of_item(op.map, op.map_at)}" if op.map else ""


def words(op: Operation) -> str:
    """Return what an operation does."""
    text: str = _WORDS[type(op)](op)
    return text


def _wait_group(op: WaitGroup) -> str:
    left = (
        f"at most {op.pending} {op.family} groups are under way" if op.pending else f"all {op.family} groups are done"
    )
    return f"wait until {left}" + ", at least with their buffers" * op.read


def _guard(op: Guard) -> str:
    if op.cursor:
        return f"if {op.cursor} is {op.trips} or more:"
    return f"if {op.trips.name} is {1 - op.trips.plus} or more:" if op.trips.name else f"if {op.trips} is 1 or more:"


def _shift_rows(op: ShiftRows) -> str:
    how = " joined to longer ones" * op.joins + ", filling in what the source has not" * op.fills
    return f"store granules of rows{how}, each out of two of the source, by elements of {op.element} bytes"


def _turn_tile(op: TurnTile) -> str:
    tile = f"{op.tile_i} x {op.tile_j} elements of {op.element} bytes"
    return f"store granules of the target, picked out of a tile of {tile}"


_MOVES = {"source": "load the source", "target": "store the target"}
_WORDS: dict[type, Callable[[Any], str]] = {
    Start: lambda op: f"start {op.barrier}",
    Wait: lambda op: f"wait for {of_item(op.barrier, op.at)}" + ", the turn before" * op.before,
    Arrive: lambda op: (
        f"arrive on {of_item(op.barrier, op.at)}"
        + f", {op.count} times" * (op.count > 1)
        + f" of CTA {op.cta:+}" * bool(op.cta)
    ),
    Expect: lambda op: (
        f"expect {op.bytes} bytes on {of_item(op.barrier, op.at)}" + " without arriving" * (not op.arrives)
    ),
    Load: lambda op: (
        f"load {op.bytes} bytes into {of_item(op.buffer, op.at)}"
        + f" for CTAs {op.mask:#b}" * (op.mask != 1)
        + _by(op)
        + f", counted on {op.barrier}"
    ),
    CopyIn: lambda op: f"copy {op.bytes} bytes into {of_item(op.buffer, op.at)} asynchronously",
    CopyArrive: lambda op: f"arrive on {of_item(op.barrier, op.at)} when the copies are done",
    Store: lambda op: f"{'add' if op.reduces else 'store'} {op.bytes} bytes of {of_item(op.buffer, op.at)}" + _by(op),
    Read: lambda op: f"read {of_item(op.buffer, op.at)}" + f" of CTA {op.cta:+}" * bool(op.cta),
    Write: lambda op: f"write {of_item(op.buffer, op.at)}",
    Vectors: lambda op: f"{_MOVES[op.side]} in vectors of {op.bytes} bytes by threads",
    Multiply: lambda op: f"multiply {' by '.join(of_item(*one) for one in op.reads)} into {op.sums}, by {op.unit}",
    Commit: lambda op: f"commit the {op.family} group",
    WaitGroup: _wait_group,
    CommitTo: lambda op: (
        f"have tcgen05 arrive on {of_item(op.barrier, op.at)}"
        + f" of CTAs {op.mask:#b}" * (op.mask != 1)
        + " when it is done"
    ),
    UseSums: lambda op: f"take {op.sums}",
    Fence: lambda op: f"fence {op.kind}",
    Sync: lambda op: f"{'meet' if op.waits else 'arrive'} at {op.name}" + f" with {op.cursor}" * bool(op.cursor),
    LaunchDependents: lambda op: "let kernels behind this one be brought in",
    AwaitGrid: lambda op: "wait for what kernels in front have written",
    AddSlices: lambda op: f"add up what slices of k gave, and store {op.result}{', turned' * op.turned}",
    ShiftRows: _shift_rows,
    TurnTile: _turn_tile,
    Registers: lambda op: f"{'take up to' if op.more else 'give registers back down to'} {op.count} registers a thread",
    Allocate: lambda op: f"allocate {op.columns} columns of tensor memory for {', '.join(op.holds)}",
    Relinquish: lambda op: "promise to allocate no more tensor memory",
    Free: lambda op: f"free {op.columns} columns of tensor memory",
    Advance: lambda op: f"{op.cursor} moves on" + f" by {op.by}" * (op.by != 1),
    Loop: lambda op: f"as often as {op.trips}:" if op.trips.name else f"{op.trips} times:",
    Guard: _guard,
}
