"""Which columns of tensor memory hold something: what is added to, or read, must have been written.

A multiplication writes its columns anew, or adds to what they hold. So the order of accesses is not enough: those who
come first must have begun the sums, by a multiplication that does not add or by tcgen05.st, in the same columns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from legalsat.analyses.ptx.findings import UNWRITTEN
from legalsat.analyses.ptx_machine import fences
from legalsat.analyses.ptx_machine.machine import TENSOR_COLUMNS, Run
from legalsat.analyses.ptx_machine.memory import distinct
from legalsat.analyses.ptx_machine.shadow import Cells

Accumulator = tuple[int, int]  # its first column, and how many


@dataclass
class TensorUse:
    """Which cells of tensor memory the runs of a kernel have written, and read: sets of them by identity.

    Attributes:
        summed: those that multiplications have written, with a line. stored: those that tcgen05.st has.
        read: those that tcgen05.ld or multiplications have read. added: those to which multiplications have added what
            they sum up, and that tcgen05.st had written.
    """

    summed: dict[int, tuple[Cells, int]] = field(default_factory=dict)
    stored: dict[int, tuple[Cells, int]] = field(default_factory=dict)
    read: dict[int, Cells] = field(default_factory=dict)
    added: dict[int, Cells] = field(default_factory=dict)

    def unread(self) -> dict[tuple[int, str], None]:
        """Return by line what is written and never read."""
        read, added = self.read.values(), self.added.values()
        return _without(self.summed, read) | _without(self.stored, [*read, *added])


def _without(written: Mapping[int, tuple[Cells, int]], read: Collection[Cells]) -> dict[tuple[int, str], None]:
    if not written or not read:
        return {}
    known = np.concatenate([*read])
    found: dict[tuple[int, str], None] = {}
    for cells, line in written.values():
        left = cells[np.isin(cells, known, invert=True)]
        if left.size:
            found[line, f"nobody reads {in_columns(left)} that this writes, as if another place were read instead"] = (
                None
            )
    return found


def in_columns(cells: Cells) -> str:
    """Return in words in which columns of tensor memory cells lie."""
    columns = cells % TENSOR_COLUMNS
    first, last = int(columns.min()), int(columns.max())
    return f"column {first} of tensor memory" if first == last else f"columns {first} to {last} of tensor memory"


def check_read(run: Run, cells: Cells, writers: Iterable[int], line: int, what: str) -> None:
    """Check that something has been written to columns that are read.

    What some lanes of a column hold may be dropped, as where a multiplication of 64 rows writes half of them, and so
    may some of the columns.
    """
    run.program.tensor_use.read.setdefault(id(cells), cells)
    empty = _empty(run, writers)
    if not empty:
        return
    without = run.tensor.written_by(cells, empty)
    columns = np.setdiff1d(without % TENSOR_COLUMNS, np.setdiff1d(cells, without) % TENSOR_COLUMNS)
    if columns.size == distinct(cells % TENSOR_COLUMNS).size:
        run.order.find("read_before_full", line, f"{what} reads {in_columns(without)}, {UNWRITTEN}")
    elif columns.size:
        run.order.doubts[line, f"{what} reads {in_columns(columns)}, {UNWRITTEN}"] = None


def check_added(run: Run, cells: Cells, to: Accumulator, adds: int | None, line: int) -> None:
    """Check what a multiplication adds to: the sums of the same columns, which nobody has fetched so far.

    `adds`: whether it does, None where that depends on data.
    """
    order, regions = run.order, run.tensor.of(cells)
    writers = run.tensor.writers_of(regions)
    empty = _empty(run, writers)
    if empty:
        where = in_columns(run.tensor.written_by(cells, empty))
        if adds is None:
            order.doubts[line, f"whether this adds to {where} depends on data, {UNWRITTEN}"] = None
        else:
            order.find("read_before_full", line, f"a multiplication adds to {where}, {UNWRITTEN}")
    if any(order.accesses[one].kind == "st.tensor" for one in writers):
        run.program.tensor_use.added.setdefault(id(cells), cells)
    for access in (order.accesses[one] for one in run.tensor.readers_of(regions)):
        if access.kind == "ld.tensor" and any(one in run.summed for one in writers):
            reason = f"this adds to sums that line {access.line} has fetched, as if it did not begin anew"
            order.doubts[line, reason] = None
    for first, count in {run.summed[one] for one in writers if one in run.summed} - {to}:
        reason = f"this adds to columns {to[0]} to {to[0] + to[1] - 1} of tensor memory"
        order.doubts[line, f"{reason}, of which others were summed up as {first} to {first + count - 1}"] = None


def _holds_sums(run: Run, access: int) -> bool:
    """Has an access left sums where it wrote, as they were added up or computed from such?"""
    return access in run.summed or access in run.put_back


def put_back(run: Run, number: int, writers: Iterable[int]) -> None:
    """Note a tcgen05.st of what was computed from sums in whose place it writes: it holds these, scaled as a rule.

    Of what else was there, as of zeros that threads have stored to begin with, it holds nothing that is wanted.
    """
    if any(_holds_sums(run, one) for one in writers):
        run.put_back.add(number)


def check_begun(run: Run, cells: Cells, line: int) -> None:
    """Check that nobody still wants the sums in whose place others begin, be they scaled by now."""
    lost = {one for one in run.tensor.unread(run.tensor.of(cells)) if _holds_sums(run, one)}
    for access in (run.order.accesses[one] for one in lost):
        reason = f"nobody has read the sums of line {access.line} in whose place this writes"
        run.order.doubts[line, f"{reason}, as if it added nothing to them"] = None


def _empty(run: Run, writers: Iterable[int]) -> set[int]:
    """Return those of the writers that have left nothing: nobody, and who has given columns back."""
    accesses: list[Any] = run.order.accesses
    return {one for one in writers if not one or accesses[one].kind == fences.FREED}
