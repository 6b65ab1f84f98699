"""What ldmatrix reads of tiles, stretch by stretch of a kernel: no matrix twice while another one is left out.

A warp reads each matrix of a tile once between two meetings. An address that is some bytes off reads a part of what
another ldmatrix beside it reads, and nobody there reads what it was to bring, though others may somewhere else. One
that is off by a whole matrix reads all that a line has written, and nothing of another line's: of lines that are read
together elsewhere, or that write together, each is read where one of them is read twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from legalsat.analyses.ptx.brought import MISPLACED, Brought, Open
from legalsat.analyses.ptx.instruction import Instruction
from legalsat.analyses.ptx.text import Kernel
from legalsat.analyses.ptx_machine.memory import in_words
from legalsat.analyses.ptx_machine.shadow import Cells, Indices, key_of

# What another stretch begins after: it goes elsewhere, meets others, or changes shared memory.
_LEAVES = frozenset({"bra", "brx", "ret", "exit", "bar", "barrier", "mbarrier"})
_WRITES = frozenset({"st", "stmatrix", "cp"})
Source: TypeAlias = "tuple[int, tuple[int, int] | None]"  # the line that wrote, and first and last cells of a load


def stretches_of(kernel: Kernel) -> dict[int, int]:
    """Return the stretch of each ldmatrix of a kernel, by identity; those that transpose have their own."""
    numbered = _numbered(kernel, _LEAVES | _WRITES)
    return {id(i): 2 * number + ("trans" in i.parts) for number, i in numbered if i.base == "ldmatrix"}


def written_together(kernel: Kernel) -> dict[int, int]:
    """Return the lines that may write shared memory, and for each the stretch of code that it is in."""
    return {i.line: number for number, i in _numbered(kernel, _LEAVES) if i.base in _WRITES}


def copied_together(kernel: Kernel) -> dict[int, tuple[int, int]]:
    """Return the lines of cp.async, and for each the group of copies that it is in: those up to a commit."""
    found, group = dict[int, tuple[int, int]](), 0
    for number, i in _numbered(kernel, _LEAVES):
        group += "commit_group" in i.parts
        if i.base == "cp" and "async" in i.parts:
            found[i.line] = number, group
    return found


def _numbered(kernel: Kernel, ends: Collection[str]) -> Iterator[tuple[int, Instruction]]:
    """Yield the instructions of a kernel with the number of their stretch, which labels and some of them begin."""
    labels, number = set(kernel.labels.values()), 0
    for at, i in enumerate(kernel.instructions):
        number += at in labels or i.base in ends
        yield number, i


@dataclass
class Fragments:
    """What ldmatrix has read in all runs.

    Attributes:
        reads: what a warp has read one after the other in a stretch, each by the number of the one before, its line and
            cells; `held` by number.
        again: by stretch, the lines of two that have read the same, and by what they are known by which cells any have.
        made: by stretch and line that wrote it by threads, cells that were read. brought: the same of loads.
    """

    reads: dict[tuple[int, int, object], int] = field(default_factory=dict)
    held: list[tuple[int, int, Cells]] = field(default_factory=lambda: [(0, 0, None)])
    again: dict[int, tuple[tuple[int, int], dict[object, Indices]]] = field(default_factory=dict)
    made: dict[int, dict[int, dict[object, Cells]]] = field(default_factory=dict)
    brought: dict[int, Brought] = field(default_factory=dict)

    def note(self, stretch: int, before: int, line: int, cells: Cells) -> int:
        """Note what a warp reads in a stretch after what it has read there, 0 for nothing; return its number."""
        if self.held[before][1] >= line:
            before = 0  # it has come there anew
        name = before, line, key_of(cells)
        number = self.reads.get(name)
        if number is None:
            number = self.reads[name] = len(self.held)
            self.held.append((before, line, cells))
            while before:
                before, other, read = self.held[before]
                twice = np.intersect1d(listed(read), listed(cells))
                if twice.size:
                    self.again.setdefault(stretch, ((other, line), {}))[1][twice.tobytes()] = twice
        return number

    def note_sources(self, stretch: int, sources: Iterable[Source], cells: Cells) -> None:
        """Note who has written what is read."""
        for line, span in sources:
            if span is None:
                self.made.setdefault(stretch, {}).setdefault(line, {}).setdefault(key_of(cells), cells)
            else:
                self.brought.setdefault(stretch, Brought()).note_read(line, *span, cells)

    def add(self, other: Fragments) -> None:
        """Add what another run has noted by itself."""
        for stretch, (lines_of, twice) in other.again.items():
            self.again.setdefault(stretch, (lines_of, {}))[1].update(twice)
        for stretch, lines in other.made.items():
            for line, held in lines.items():
                self.made.setdefault(stretch, {}).setdefault(line, {}).update(held)
        for stretch, brought in other.brought.items():
            self.brought.setdefault(stretch, Brought()).add(brought)

    def left_out(
        self,
        made: Mapping[int, Mapping[object, Cells]],
        ever: Collection[int],
        together: Mapping[int, int],
        cells: int,
        granule: int,
    ) -> Open:
        """Return what speaks against stretches that read something twice, and not all that a line has written.

        Args:
            made: what threads have written, by line.
            ever: lines of which anybody has read something.
            together: by line, the stretch of code that it writes in.
            cells: how many there are.
            granule: bytes of each.
        """
        found: Open = {}
        for stretch, ((first, second), _) in self.again.items():
            left = next(self._left_out_of(stretch, made, cells, granule), "")
            left = left or next(self._left_beside(stretch, made, ever, together), "")
            if left:
                found[second, f"this reads what line {first} does, and none beside them {left}, {MISPLACED}"] = None
        return found

    def _left_out_of(
        self, stretch: int, made: Mapping[int, Mapping[object, Cells]], cells: int, granule: int
    ) -> Iterator[str]:
        for line, read in self.made.get(stretch, {}).items():
            first = unread(made.get(line, {}), read, cells)
            if first >= 0:
                yield f"shared byte {in_words(first * granule)} that line {line} writes"
        for (line, _), part in self.brought.get(stretch, Brought()).parts.items():
            if not part.all():
                yield f"byte {int(np.argmin(part)) * granule} of what line {line} brings"

    def _left_beside(
        self,
        stretch: int,
        made: Mapping[int, Mapping[object, Cells]],
        ever: Collection[int],
        together: Mapping[int, int],
    ) -> Iterator[str]:
        """Yield lines of which a stretch reads nothing, that belong to one of which it reads something twice."""
        here, twice = self._lines_of(stretch), self._read_twice(stretch, made)
        for other in self.made.keys() | self.brought.keys():
            there = self._lines_of(other)
            if twice & there:
                yield from (f"anything that line {line} writes" for line in sorted(there - here))
        stretches = {together[line] for line in twice if line in together}
        for line in sorted(made.keys() - set(ever) - here):
            if together.get(line) in stretches:
                yield f"anything that line {line} writes"

    def _lines_of(self, stretch: int) -> set[int]:
        """Return the lines of which a stretch reads what they have written."""
        return {*self.made.get(stretch, {}), *(line for line, _ in self.brought.get(stretch, Brought()).parts)}

    def _read_twice(self, stretch: int, made: Mapping[int, Mapping[object, Cells]]) -> set[int]:
        """Return those of these lines of which some is read twice."""
        cells = np.concatenate([*self.again[stretch][1].values()])
        found = {
            line
            for line in self.made.get(stretch, {})
            if any(np.isin(listed(one), cells).any() for one in made.get(line, {}).values())
        }
        known = self.brought.get(stretch, Brought()).known
        return found | {line for line, begin, end, _ in known if ((cells >= begin) & (cells < end)).any()}


def listed(cells: Cells) -> Indices:
    """Return cells as indices, one after the other."""
    return np.arange(cells.start, cells.stop) if isinstance(cells, slice) else cells


def unread(made: Mapping[object, Cells], read: Mapping[object, Cells], cells: int) -> int:
    """Return the first of some cells that are written and not read; -1 for none.

    Args:
        made: those that are written.
        read: those that are read.
        cells: how many there are.
    """
    left = np.zeros(cells, dtype=bool)
    for one in made.values():
        left[one] = True
    for one in read.values():
        left[one] = False
    return int(np.argmax(left)) if left.any() else -1
