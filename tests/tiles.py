"""One tile of a plan: its words by coordinate, which of them lie in the tensor, and where on either side."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from legalsat.operators.access import Access
from legalsat.plans.movement_plan import MovementPlan, View

Numbers = NDArray[np.int64]


def coordinates(extents: list[int]) -> Numbers:
    """Return every coordinate below the extents: one row a mode, one column a coordinate."""
    return np.indices(extents, dtype=np.int64).reshape(len(extents), -1)


def offsets(access: Access, at: Numbers, side: str) -> Numbers:
    """Return the bit offset of each coordinate on one side."""
    strides = np.array([getattr(mode, side) for mode in access.modes], dtype=np.int64)
    found: Numbers = strides @ at
    return found


def dimension_of(access: Access, group: tuple[int, ...], at: Numbers) -> Numbers:
    """Return the coordinate along one dimension of a view, made of modes, fastest first."""
    found, step = np.zeros(at.shape[1:], dtype=np.int64), 1
    for i in group:
        found = found + at[i] * step
        step *= access.modes[i].extent
    return found


class Rows(NamedTuple):
    """A tile cut along the fastest dimension of a view: words of each row, and where the rows begin and lie inside.

    `words` holds indices of words, one row of it a row of the tile; `along` the words' coordinates in the tensor.
    """

    words: Numbers
    along: Numbers


class Tile:
    """The tile of a plan that begins at `start`, one number a mode; its words are numbered as coordinates run."""

    def __init__(self, plan: MovementPlan, start: tuple[int, ...]) -> None:
        self.plan, self.start = plan, start
        self.within = coordinates([mode.tile for mode in plan.access.modes])
        self.at = self.within + np.array(start, dtype=np.int64)[:, None]

    @cached_property
    def inside(self) -> NDArray[np.bool_]:
        """Which words lie in the tensor."""
        extents = np.array([mode.extent for mode in self.plan.access.modes], dtype=np.int64)
        found: NDArray[np.bool_] = np.all(self.at < extents[:, None], axis=0)
        return found

    @cached_property
    def there(self) -> NDArray[np.bool_]:
        """Which words the source has: those in the tensor, but of a padding just some."""
        found, view = self.inside.copy(), self.plan.views[0]
        for group, extent, before in zip(view.groups, view.extent, view.before, strict=False):
            along = dimension_of(self.plan.access, group, self.at) - before
            found &= (along >= 0) & (along < extent)
        return found

    def address(self, side: str) -> Numbers:
        """Return the byte address of each word from a tensor's base; words are whole bytes."""
        bits = offsets(self.plan.access, self.at, side)
        if side == "source":
            view = self.plan.views[0]
            bits = bits - sum(b * d for b, d in zip(view.before, view.stride, strict=False))
        assert not np.any(bits % 8), "words begin at bytes"
        return bits // 8

    def rows(self, view: View) -> Rows:
        """Return the tile's rows as a view lists them, slowest dimension first."""
        along = [dimension_of(self.plan.access, group, self.at) for group in view.groups]
        order = np.lexsort(along).reshape(-1, view.tile[0])
        return Rows(order, along[0][order])
