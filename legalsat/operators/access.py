"""`Access`: a movement of one tensor to another, as modes that carry a stride on either side and a tile.

Mode i runs over `extent` words; its neighbours lie `source` bits apart where they come from and `target` bits apart
where they go; a tile spans `tile` of them (the last tile may overhang). Strides count bits, so that four-bit elements,
bytes and words of any size mix, and changing the word touches one mode only.

`by` names the means of delivery, "any" until a law has chosen one: how tiles travel is a term like the modes are.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import NamedTuple

from legalsat.units.means import ANY, MEANS

NAMES = (ANY, *MEANS)


class Mode(NamedTuple):
    """One mode: extent and tile in words, strides in bits."""

    extent: int
    source: int
    target: int
    tile: int

    def __str__(self) -> str:
        return f"{self.extent}:{self.source}->{self.target}/{self.tile}"


@dataclass(frozen=True, slots=True)
class Access:
    """A movement in words of `word` bits; `modes` in any order, delivered `by` one of `NAMES`.

    By im2col, a tile that is longer than a row of pixels goes on in the next row (`legalsat.units.windows.Window`).
    """

    word: int
    modes: tuple[Mode, ...]
    by: str = ANY

    def __str__(self) -> str:
        means = "" if self.by == ANY else f" by {self.by}"
        return f"{self.word} bits x ({', '.join(map(str, self.modes))}){means}"

    def tiles(self) -> frozenset[frozenset[tuple[int, int]]]:
        """Return what is moved, by brute force: per tile the set of (source bit, target bit).

        Two accesses are equal movements exactly when this is equal. For tests and re-verification of small cases.
        """
        blocks: dict[tuple[int, ...], set[tuple[int, int]]] = {}
        for coordinate in itertools.product(*(range(m.extent) for m in self.modes)):
            tile = tuple(c // m.tile for c, m in zip(coordinate, self.modes, strict=True))
            source = sum(c * m.source for c, m in zip(coordinate, self.modes, strict=True))
            target = sum(c * m.target for c, m in zip(coordinate, self.modes, strict=True))
            blocks.setdefault(tile, set()).update((source + bit, target + bit) for bit in range(self.word))
        return frozenset(frozenset(moved) for moved in blocks.values())
