"""Which parts of what the copy engine's loads bring are read by anybody, in all runs of a kernel."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from legalsat.analyses.ptx_machine.shadow import Cells, key_of

Open = dict[tuple[int, str], None]  # lines and reasons
MISPLACED = "as if it or its reader were at a wrong place"


@dataclass
class Brought:
    """Which parts of what each line loads anybody has read in any run: in one, the end of a tensor leaves some out.

    Attributes:
        parts: of lines, and how many cells they load, which of these were read.
        taken: lines of which asynchronous units, or ldmatrix, have read some. known: reads that are noted.
    """

    parts: dict[tuple[int, int], NDArray[np.bool_]] = field(default_factory=dict)
    taken: set[int] = field(default_factory=set)
    known: dict[tuple[int, int, int, object], Cells] = field(default_factory=dict)

    def note_read(self, line: int, begin: int, end: int, cells: Cells) -> None:
        """Note a read of what a line has brought to cells from one on, to before another one."""
        name = line, begin, end, key_of(cells)
        if name in self.known:
            return
        self.known[name] = cells
        part = self.parts.setdefault((line, end - begin), np.zeros(end - begin, dtype=bool))
        if isinstance(cells, slice):
            part[max(cells.start - begin, 0) : max(cells.stop - begin, 0)] = True
        else:
            part[cells[(cells >= begin) & (cells < end)] - begin] = True

    def add(self, other: Brought) -> None:
        """Add what another run has noted by itself."""
        for name, part in other.parts.items():
            self.parts[name] = self.parts[name] | part if name in self.parts else part.copy()
        self.taken |= other.taken
        self.known |= other.known

    def unread(self, granule: int) -> Open:
        """Return what speaks against lines of which units read some, and nobody ever the rest."""
        found: Open = {}
        for (line, _), part in self.parts.items():
            if line in self.taken and not part.all():
                first = int(np.argmin(part)) * granule
                found[line, f"nobody reads byte {first} of what this brings, {MISPLACED}"] = None
        return found
