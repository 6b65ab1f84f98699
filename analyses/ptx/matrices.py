"""What ldmatrix reads: a warp reads a tile matrix by matrix, and none that is made of parts of others.

What several lines have written is read together, or each by itself: what the first two wrote, and what the second two
did, are no matrices of one tile.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass
class Matrices:
    """Who has written what ldmatrix reads, in all runs of a kernel.

    Attributes:
        sources: lines that have written what one ldmatrix has read, with its line.
    """

    sources: dict[frozenset[int], int] = field(default_factory=dict)

    def note(self, writers: Iterable[int], line: int) -> None:
        """Note a read of what stores at some lines have written."""
        self.sources.setdefault(frozenset(writers), line)

    def mixed(self) -> dict[tuple[int, str], None]:
        """Return what speaks against lines that read some of what another one reads, each with something else.

        Two orders in which a tile is read may differ in how many lines have written a matrix.
        """
        found: dict[tuple[int, str], None] = {}
        for one, line in self.sources.items():
            if any(one & other and one - other and other - one for other in self.sources):
                found[line, "ldmatrix reads rows of several tiles, as if it were at a wrong place"] = None
        return found
