"""Pipelines in words: one line an operation, loops and guards indented."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from legalsat.program.pipeline import (
    Advance,
    Allocate,
    Arrive,
    At,
    Commit,
    CommitTo,
    CopyArrive,
    CopyIn,
    Expect,
    Fence,
    Free,
    Guard,
    Load,
    Loop,
    Multiply,
    Operation,
    Pipeline,
    Read,
    Registers,
    Relinquish,
    Role,
    Start,
    Store,
    Sync,
    UseSums,
    Wait,
    WaitGroup,
    Write,
)

INDENT = "  "


def role_lines(pipeline: Pipeline) -> Iterator[tuple[str, list[str]]]:
    """Yield for each role who it is, and what it does; roles that differ in their number alone once."""
    found: dict[tuple[str, ...], list[Role]] = {}
    for role in pipeline.roles:
        found.setdefault((_kind(role), str(role.warps), *_numbered(role)), []).append(role)
    for (kind, _, *steps), roles in found.items():
        first = roles[0]
        warps = f"{first.warps} warp{'s' * (first.warps != 1)}" if first.warps else "one thread"
        several = f", {first.instances} times" if first.instances > 1 else ""
        names = list(dict.fromkeys(role.name for role in roles))
        numbers = ", ".join(name.removeprefix(kind).strip() for name in names)
        name = f"{kind}s i = {numbers}" if names[1:] else first.name
        ctas = sorted({cta for role in roles for cta in role.ctas})
        where = f", in CTA {', '.join(map(str, ctas))} alone" if ctas and len(roles) == len(names) else ""
        each = f", in each CTA of rank r = {', '.join(map(str, ctas))}" if ctas and not where else ""
        lines = steps if names[1:] or each else list(_lines(first.body, ""))
        yield f"{name}, {warps}{several}{where}{each}", lines


_NUMBER = re.compile(r".* (\d+)")


def _kind(role: Role) -> str:
    """Return a role's name without its number."""
    return role.name.rpartition(" ")[0] if _NUMBER.fullmatch(role.name) else role.name


def _numbered(role: Role) -> Iterator[str]:
    """Yield what a role does, with i for its number and r for the rank of its CTA."""
    number = _NUMBER.fullmatch(role.name)
    for line in _lines(role.body, ""):
        named = re.sub(rf"\b(accumulator |turn |rows |[A-Z]){number[1]}\b", r"\1i", line) if number else line
        ranked = f"left over is {role.ctas[0] + 1} or more" if len(role.ctas) == 1 else ""
        yield named.replace(ranked, "left over is r + 1 or more") if ranked else named


def _lines(body: tuple[Operation, ...], indent: str) -> Iterator[str]:
    for op in body:
        yield indent + words(op)
        if isinstance(op, Loop | Guard):
            yield from _lines(op.body, indent + INDENT)


def _of(ring: str, at: At) -> str:
    return f"{ring}[{at}]" if at.cursor else ring


def _by(op: Load | Store) -> str:
    return f" by {_of(op.map, op.map_at)}" if op.map else ""


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


_WORDS: dict[type, Callable[[Any], str]] = {
    Start: lambda op: f"start {op.barrier}",
    Wait: lambda op: f"wait for {_of(op.barrier, op.at)}" + ", the turn before" * op.before,
    Arrive: lambda op: (
        f"arrive on {_of(op.barrier, op.at)}"
        + f", {op.count} times" * (op.count > 1)
        + f" of CTA {op.cta:+}" * bool(op.cta)
    ),
    Expect: lambda op: f"expect {op.bytes} bytes on {_of(op.barrier, op.at)}" + " without arriving" * (not op.arrives),
    Load: lambda op: (
        f"load {op.bytes} bytes into {_of(op.buffer, op.at)}"
        + f" for CTAs {op.mask:#b}" * (op.mask != 1)
        + _by(op)
        + f", counted on {op.barrier}"
    ),
    CopyIn: lambda op: f"copy {op.bytes} bytes into {_of(op.buffer, op.at)} asynchronously",
    CopyArrive: lambda op: f"arrive on {_of(op.barrier, op.at)} when the copies are done",
    Store: lambda op: f"{'add' if op.reduces else 'store'} {op.bytes} bytes of {_of(op.buffer, op.at)}" + _by(op),
    Read: lambda op: f"read {_of(op.buffer, op.at)}" + f" of CTA {op.cta:+}" * bool(op.cta),
    Write: lambda op: f"write {_of(op.buffer, op.at)}",
    Multiply: lambda op: f"multiply {' by '.join(_of(*one) for one in op.reads)} into {op.sums}, by {op.unit}",
    Commit: lambda op: f"commit the {op.family} group",
    WaitGroup: _wait_group,
    CommitTo: lambda op: f"have tcgen05 arrive on {_of(op.barrier, op.at)} when it is done",
    UseSums: lambda op: f"take {op.sums}",
    Fence: lambda op: f"fence {op.kind}",
    Sync: lambda op: f"{'meet' if op.waits else 'arrive'} at {op.name}" + f" with {op.cursor}" * bool(op.cursor),
    Registers: lambda op: f"{'take up to' if op.more else 'give registers back down to'} {op.count} registers a thread",
    Allocate: lambda op: f"allocate {op.columns} columns of tensor memory for {', '.join(op.holds)}",
    Relinquish: lambda op: "promise to allocate no more tensor memory",
    Free: lambda op: f"free {op.columns} columns of tensor memory",
    Advance: lambda op: f"{op.cursor} moves on" + f" by {op.by}" * (op.by != 1),
    Loop: lambda op: f"as often as {op.trips}:" if op.trips.name else f"{op.trips} times:",
    Guard: _guard,
}
