"""Prints programs around a leaf in CUDA C++: kernels that move granules, compiled once for all extents and pitches."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from importlib.resources import files
from typing import Any

from legalsat.errors import LegalSatError
from legalsat.plans.movement_plan import Granules, MovementPlan
from legalsat.program.leaves import THREADS, Leaf, ShiftRows, TurnTile
from legalsat.program.pipeline import (
    AwaitGrid,
    Commit,
    CopyIn,
    LaunchDependents,
    Operation,
    Pipeline,
    Read,
    Sync,
    WaitGroup,
    Write,
)
from legalsat.runtime.program import AddressArgument, Argument, NumberArgument

TYPES = {"u64": "unsigned long long", "i64": "long long", "u32": "unsigned"}
_PARTS = {ShiftRows: "relayout_rows", TurnTile: "relayout_transpose"}


class GranulesText:
    """The kernel of a plan by granules as text, and how it is launched."""

    threads = THREADS

    def __init__(self, plan: MovementPlan, granules: Granules) -> None:
        self._plan, self._granules = plan, granules
        self.entry, self.blocks = granules.entry, granules.blocks
        self.shared_bytes = sum(granules.kernel.buffers)

    def text(self) -> str:
        """Return the kernel with what it needs; as `emit`."""
        return emit(self._plan.pipeline, self._granules.kernel, self.entry)

    def arguments(self) -> Iterator[Argument]:
        """Yield what the kernel is launched with."""
        yield from (AddressArgument("source"), AddressArgument("target"))
        numbers = zip(self._granules.kernel.parameters[2:], self._granules.numbers, strict=True)
        yield from (NumberArgument(number, kind) for (kind, _), number in numbers)

    def aligned(self, side: str) -> int:
        """Return the bytes that a side's address must be a multiple of."""
        return self._granules.source_align if side == "source" else self._granules.target_align


def emit(program: Pipeline, kernel: Leaf, entry: str = "") -> str:
    """Return the text of a kernel: CUDA C++ that includes nothing. Texts of several may stand in one file.

    Args:
        program: around a leaf.
        kernel: the leaf.
        entry: the kernel's name, the leaf's where none is given.

    Raises:
        LegalSatError: an operation has no row here.
    """
    (role,) = program.roles
    parameters = ", ".join(f"{TYPES[kind]} {name}" for kind, name in kernel.parameters)
    return "\n".join(
        [
            *(part(name) for name in ("relayout_device", "relayout", _PARTS[type(kernel)])),
            f'extern "C" __global__ void __launch_bounds__({THREADS}) {entry or kernel.entry}(',
            *_folded(parameters),
            *(line for op in role.body if (line := _row(op, kernel))),
            "}\n",
        ]
    )


@lru_cache
def part(name: str) -> str:
    """Return the text of a part, a file beside this one."""
    return (files("legalsat.backends.cute") / f"{name}.cuh").read_text(encoding="utf-8")


def _row(op: Operation, kernel: Leaf) -> str:
    """Return the lines of an operation."""
    if type(op) not in ROWS:
        raise LegalSatError(f"cute has no row for {type(op).__name__} beside granules")
    return ROWS[type(op)](op, kernel)


def _turn_tile(op: TurnTile) -> str:
    """Return the lines in front of what is done once its copies are issued."""
    axes = f"{op.axes_i}, {op.axes_j}, {op.axes}"
    flags = _flags(op.straddles, op.skewed, op.joins, op.turns)
    counts = (("i", op.axes_i), ("j", op.axes_j), ("axis", op.axes))
    values = ", ".join(f"{{{_axis_values(name, count)}}}" for name, count in counts)
    return (
        f"    relayout::turn_tile<{op.element}, {op.granules}, {op.tile_j}, {axes}, {flags}>(\n"
        f"        relayout::Transpose<{axes}>{{source, target, along_i, along_j,\n"
        f"        {_divided('tiles_j')}, {_divided('tiles_i')},\n        {values}}}, [] {{"
    )


def _shift_rows(op: ShiftRows) -> str:
    rows = (
        f"relayout::Rows<{op.axes}>{{source, target, bytes, units, {_divided('parts')}, "
        f"{{{_axis_values('axis', op.axes)}}}}}"
    )
    if op.joins:
        name, flags, also = "move_joined", _flags(op.alone), f"Joining{{{_divided('joined')}, gap}}"
    else:
        first, lines = (", ".join(f"{what}{i}" for i in range(op.axes)) or "0" for what in ("first", "lines"))
        filling = f"head, filled_bytes, {{{first}}}, {{{lines}}}, pattern" if op.fills else ""
        name, flags, also = "move_rows", _flags(op.alone, op.fills), f"Filling<{op.axes}>{{{filling}}}"
    return f"    relayout::{name}<{op.element}, {op.axes}, {flags}>(\n        {rows},\n        relayout::{also});"


def _of_copies(op: Commit | WaitGroup) -> str:
    if op.family != "cp.async":
        raise LegalSatError(f"cute has no row for groups of {op.family} beside granules")
    does = f"wait_copies<{op.pending}>" if isinstance(op, WaitGroup) else "commit_copies"
    return f"        relayout::{does}();"


def _meet(op: Sync) -> str:
    if op.name != "block":
        raise LegalSatError(f"cute has no row for a meeting at {op.name} beside granules")
    return "        relayout::barrier();"


# The leaf that turns a tile begins with its copies, and calls back for what is done between these and the rest of it.
ROWS: dict[type, Callable[[Any, Any], str]] = {
    AwaitGrid: lambda op, kernel: "    relayout::await_grid();",
    LaunchDependents: lambda op, kernel: "    relayout::launch_dependents();",
    ShiftRows: lambda op, kernel: _shift_rows(op),
    CopyIn: lambda op, kernel: _turn_tile(kernel),
    Write: lambda op, kernel: "",
    Commit: lambda op, kernel: _of_copies(op),
    WaitGroup: lambda op, kernel: _of_copies(op),
    Sync: lambda op, kernel: _meet(op),
    Read: lambda op, kernel: "",
    TurnTile: lambda op, kernel: "    });",
}


def _folded(parameters: str) -> list[str]:
    lines = [line.strip() for line in re.findall(r".{1,108}(?:, |$)", parameters)]
    return [f"    {line}" for line in lines[:-1]] + [f"    {lines[-1]}) {{"]


def _divided(name: str) -> str:
    return f"{{{name}_number, {name}_multiplier, {name}_shift}}"


def _axis_values(name: str, count: int) -> str:
    values = [f"{{{_divided(f'{name}{n}')}, {name}{n}_source, {name}{n}_target}}" for n in range(count)]
    return ", ".join(values) or "{{1, 0, 0}, 0, 0}"


def _flags(*flags: bool) -> str:
    return ", ".join(str(flag).lower() for flag in flags)
