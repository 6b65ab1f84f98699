"""What a tile of a movement is in both tensors: boxes by coordinates, runs, vectors and words by their bytes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from legalsat.analyses.copy_engine import smem_bytes
from legalsat.extract.search.schedule import span_of
from legalsat.extract.search.views import box_of
from legalsat.layout.swizzle import Swizzle
from legalsat.plans.movement_plan import MovementPlan
from legalsat.program.pipeline import Load, Store
from legalsat.rules.windows import COLUMNS

NOTHING = -1  # instead of an address: zeros are brought
Numbers: TypeAlias = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Box:
    """One copy by a tensor map: its bytes, where in a stage they lie, its coordinates, and what im2col adds to them."""

    offset: int
    bytes: int
    at: tuple[int, ...]


class MovedTiles:
    """The tiles of a plan."""

    def __init__(self, plan: MovementPlan) -> None:
        self.plan, self.access = plan, plan.access
        self.columns = plan.access.by == COLUMNS
        self.load, store = plan.views
        # Threads store columns in the order in which they came.
        self.store = self.load if self.columns and plan.store == "threads" else store
        self.margins = plan.operator.margins(plan.access) or ()

    @cached_property
    def tile(self) -> tuple[int, ...]:
        """Words of a tile along each mode; by columns the first mode of pixels counts them all."""
        found = [mode.tile for mode in self.access.modes]
        for mode in self.load.groups[-1] if self.columns else ():
            found[mode] = self.load.tile[-1] if mode == self.load.groups[-1][0] else 1
        return tuple(found)

    def order(self, side: str) -> tuple[int, ...]:
        """Return the modes of several words of a tile as a side counts them, fastest first."""
        view = self.load if side == "source" else self.store
        return tuple(mode for group in view.groups for mode in group if self.tile[mode] > 1)

    def numbers(self, tile: int) -> dict[int, int]:
        """Return where a tile stands among the tiles along each mode that has several."""
        found = {}
        for mode, count in self.plan.launch.grid:
            tile, found[mode] = divmod(tile, count)
        return found

    def boxes(self, op: Load | Store, tile: int) -> Iterator[Box]:
        """Yield the copies by tensor map of an operation, for a tile: fastest dimension first."""
        plan, numbers = self.plan, self.numbers(tile)
        view, tm = plan.views[isinstance(op, Store)], plan.tensor_maps[op.number]
        extents = tuple(reversed(plan.shared[0].shape[1:])) if plan.phases and isinstance(op, Load) else view.tile
        box, each = box_of(view, tm), smem_bytes(tm)
        corner = [along.plus + sum(factor * numbers[mode] for mode, factor in along.terms) for along in op.corner]
        begins = [range(0, extent, step) for extent, step in zip(extents, box, strict=True)]
        offset = op.number * op.bytes if isinstance(op, Load) else 0
        for place in itertools.product(*reversed(begins)):
            at = tuple(first + more for first, more in zip(corner, reversed(place), strict=True))
            yield Box(offset, each, self.column(at) if self.columns and isinstance(op, Load) else at)
            offset += each

    def column(self, at: tuple[int, ...]) -> tuple[int, ...]:
        """Return the coordinates of a column by im2col, and the offsets of its tap."""
        window = self.plan.window
        assert window is not None
        channel, *taps, pixel = at
        place = []
        for sweep in window.sweeps:
            pixel, along = divmod(pixel, sweep.windows)
            place.append(along * sweep.step - sweep.before)
        return (channel, *place, pixel, *(s.dilation * t for s, t in zip(window.sweeps, taps, strict=True)))

    def words(self, side: str, tile: int) -> tuple[Mapping[int, Numbers], Numbers]:
        """Return the place of each word of a tile along each mode, in a side's order, and which lie in the target."""
        order, numbers, modes = self.order(side), self.numbers(tile), self.access.modes
        count = math.prod(self.tile)
        found: dict[int, Numbers] = {m: np.full(count, numbers.get(m, 0) * tile_) for m, tile_ in enumerate(self.tile)}
        rest = np.arange(count)
        for mode in order:
            found[mode] = found[mode] + rest % self.tile[mode]
            rest //= self.tile[mode]
        if self.columns:  # which go on from row to row, and from image to image
            *inner, last = self.load.groups[-1]
            pixel = found[self.load.groups[-1][0]]
            for mode in inner:
                found[mode] = pixel % modes[mode].extent
                pixel = pixel // modes[mode].extent
            found[last] = pixel
        lies = np.ones(count, dtype=bool)
        for m, mode_ in enumerate(modes):
            lies &= found[m] < mode_.extent
        return found, lies

    def seen(self, words: Mapping[int, Numbers]) -> Numbers:
        """Return which words the source has."""
        found: Numbers = np.ones(len(words[0]), dtype=bool)
        for m, margin in enumerate(self.margins):
            found &= (words[m] >= margin.before) & (words[m] < margin.before + margin.held)
        window = self.plan.window
        for sweep, tap, pixel in zip(window.sweeps, window.taps, window.pixels, strict=False) if window else ():
            met = sweep.step * words[pixel] + sweep.dilation * words[tap] - sweep.before
            found &= (met >= 0) & (met < sweep.extent)
        return found

    def bytes_at(self, side: str, words: Mapping[int, Numbers]) -> Numbers:
        """Return the byte of a side's tensor at which each word begins; of words that it has not, that it would."""
        lead = 0
        if side == "source":
            lead += sum(m.before * mode.source for m, mode in zip(self.margins, self.access.modes, strict=False))
            lead += self.plan.window.lead if self.plan.window is not None else 0
        found: Numbers = sum((getattr(mode, side) * words[m] for m, mode in enumerate(self.access.modes)), np.array(0))
        return (found - lead) // 8

    def vectors(self, side: str, size: int, tile: int) -> list[int]:
        """Return the byte at which each vector of so many bytes of a tile begins, `NOTHING` where there is none."""
        words, lies = self.words(side, tile)
        there = lies & self.seen(words) if side == "source" else lies
        return [int(n) for n in np.where(there, self.bytes_at(side, words), NOTHING)[:: 8 * size // self.access.word]]

    def places(self, size: int) -> list[int]:
        """Return where in a stage each vector of so many bytes goes that threads copy: rows of spans, swizzled."""
        shared = self.plan.shared[0]
        row, rows = shared.shape[-1] * self.access.word // 8, math.prod(shared.shape[:-1])
        at: Numbers = np.arange(0, math.prod(self.tile) * self.access.word // 8, size)
        span = span_of(shared.swizzle)
        if not span:
            return [int(n) for n in at]
        column = at % row
        at = column // span * span * rows + at // row * span + column % span
        return [Swizzle.tma(shared.swizzle)(int(n)) for n in at]

    def runs(self, tile: int) -> Iterator[tuple[int, int]]:
        """Yield of each row of a tile at which byte of the source it begins, and how many of its bytes lie there."""
        words, lies = self.words("source", tile)
        length, begins = self.load.tile[0], self.bytes_at("source", words)
        for first in range(0, len(lies), length):
            yield int(begins[first]), int(lies[first : first + length].sum()) * self.access.word // 8
