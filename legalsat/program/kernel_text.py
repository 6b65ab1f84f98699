"""Kernel programs in words: one line an operation; i is the number of a consumer, and j that of the other one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from legalsat.program.kernel import (
    NESTS,
    AlignLines,
    Body,
    Clear,
    ClearOthers,
    FetchSums,
    FindColumns,
    FindGroups,
    FindRows,
    IfLate,
    IfWhole,
    KernelOperation,
    KernelProgram,
    KTiles,
    LoadShare,
    MeetSetup,
    MultiplyRows,
    Only,
    Own,
    Parts,
    Phases,
    ReadPeers,
    ReadRows,
    Release,
    ReleaseDone,
    SlideSums,
    StoreColumns,
    StoreElements,
    StoreSectors,
    Tiles,
)
from legalsat.program.pipeline_text import INDENT, of_item
from legalsat.program.pipeline_text import words as words_of


def program_lines(program: KernelProgram) -> Iterator[tuple[str, list[str]]]:
    """Yield for each role who it is, and what it does."""
    yield "one thread", list(_lines(program.setup, ""))
    yield "all warps", list(_lines(program.everybody, ""))
    for role in program.roles:
        which = f"s i = {', '.join(map(str, range(role.count)))}, 4 warps each" if role.count > 1 else ", 4 warps"
        yield f"{role.name}{', one thread' if role.one_thread else which}", list(_lines(role.body, ""))


def _lines(body: Body, indent: str) -> Iterator[str]:
    for op in body:
        yield indent + words(op)
        if isinstance(op, NESTS):
            yield from _lines(op.body, indent + INDENT)


def words(op: KernelOperation) -> str:
    """Return what an operation does."""
    if isinstance(op, Own):
        return op.words()
    own = _WORDS.get(type(op))
    text: str = own(op) if own is not None else words_of(op)  # type: ignore[arg-type]
    return text.replace("{i}", "i").replace("{other}", "j")


def _of(operands: str) -> str:
    return "" if operands == "AB" else f" of {operands}" if operands else " of nothing"


def _parts(op: Parts) -> str:
    return f"for parts {op.first} to {op.first + op.count - 1} of C:" if op.count > 1 else f"for part {op.first} of C:"


_WORDS: dict[type, Callable[[Any], str]] = {
    Tiles: lambda op: (
        "for the tile:" if op.once else f"for every tile i of {op.turns}:" if op.turns > 1 else "for every tile:"
    ),
    KTiles: lambda op: (
        "for every k-tile"
        + (f" behind the first {op.after}" if op.after else "")
        + (f" but the last {op.before}" if op.before else "")
        + ":"
    ),
    Phases: lambda op: f"for each phase of k but the first of {op.count}:",
    IfLate: lambda op: "if rows of A start late in their granules:",
    IfWhole: lambda op: f"if {'this' if op.whole else 'another'} CTA stores the tile:",
    Only: lambda op: f"if i is {op.consumer}:",
    Parts: _parts,
    LoadShare: lambda op: (
        f"load the CTA's share of {op.operand} into {of_item(op.lines or op.operand, op.at)} of all that share it, "
        f"counted on {op.barrier}"
    ),
    AlignLines: lambda op: (
        f"align lines of {op.operand} from {of_item(op.lines, op.at)} in {of_item(op.operand, op.at)}"
    ),
    ClearOthers: lambda op: (
        f"clear in {of_item('A', op.at)} and {of_item('B', op.at)} what other groups have of the "
        f"{'last' if op.last else 'first'} k-tile"
    ),
    Release: lambda op: (
        f"arrive on {of_item(op.barrier, op.at)} of all CTAs whose loads{_of(op.operands)} come here, once a warp"
    ),
    ReleaseDone: lambda op: (
        f"have tcgen05 arrive on {of_item(op.barrier, op.at)} of all CTAs whose loads{_of(op.operands)} come here "
        "when it is done"
    ),
    Clear: lambda op: "clear accumulator i",
    StoreColumns: lambda op: f"store columns of C that lie in {of_item(op.buffer, op.at)} by threads",
    StoreSectors: lambda op: f"store whole sectors of C that lie in {of_item(op.buffer, op.at)} by threads",
    StoreElements: lambda op: f"store elements of C that lie in {of_item(op.buffer, op.at)} by threads, one by one",
    SlideSums: lambda op: f"slide the columns of {op.sums} to where the phase has them",
    FindRows: lambda op: "find where rows of A start in their granules",
    ReadRows: lambda op: f"read rows of A from where they start in {of_item('A', op.at)}, steps {_listed(op.steps)}",
    MultiplyRows: lambda op: f"multiply them by {of_item('B', op.at)}, steps {_listed(op.steps)}, into accumulator i",
    ReadPeers: lambda op: f"add up {op.buffer} of all CTAs that split k, and write the CTA's share of C",
    FindColumns: lambda op: "find where the tensor memory is",
    FetchSums: lambda op: f"fetch of {of_item(op.sums, op.at)} what becomes the part of C",
    FindGroups: lambda op: "find where groups begin, and which tiles are whose, and meet all of the CTA",
    MeetSetup: lambda op: "meet all behind the set-up",
}


def _listed(steps: tuple[int, ...]) -> str:
    return f"{steps[0]} to {steps[-1]}" if len(steps) > 1 else str(steps[0])
