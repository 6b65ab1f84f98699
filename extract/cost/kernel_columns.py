"""Kernels of products as a table: a column for each number that decides how long one takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from legalsat.plans.product_kernel import SLID, ProductKernel

Numbers: TypeAlias = NDArray[Any]


@dataclass(frozen=True, slots=True)
class KernelColumns:
    """Numbers of many kernels, as `ProductKernel` has them, one entry for each.

    Attributes:
        swapped: as there, and so are stages, split, slices, blocks, ping_pong.
        rows, columns, depth: of a tile. loaded: columns of a stage, of which the tile has as many or fewer.
        down, across: CTAs of a cluster along m and n.
        group: tiles along m that neighbours in time share.
        phases: rows after which starts lie alike, of tiles that have one phase; else 1.
        in_registers: whether A goes through them. overlapped: whether the epilogue is overlapped, in tensor
            memory too.
        by_sums: whether C leaves through all accumulators. by_rows: whether by threads. turned: whether as C^T.
        by_columns: whether by threads as C^T.
        relaid_a, relaid_b: whether its operands are laid out first, and transposed_a, transposed_b: with their axes
            exchanged. aligned_a, aligned_b: whether they are aligned in shared memory.
        spans_a, spans_b: of a k-tile's bytes that lie side by side in a line that is loaded.
        buffers: through which C leaves by boxes.
        slides: phases of k between which sums slide; 0 where they do not.
        clipped: whether others' k are cleared of tiles of groups along k.
        lap: columns of a tile that the next one has too.
        woven: whether A is lines across k that are woven in registers.
        stream_k: whether clusters have as many k-tiles each.
    """

    swapped: Numbers
    rows: Numbers
    columns: Numbers
    depth: Numbers
    loaded: Numbers
    stages: Numbers
    down: Numbers
    across: Numbers
    split: Numbers
    slices: Numbers
    blocks: Numbers
    ping_pong: Numbers
    group: Numbers
    phases: Numbers
    in_registers: Numbers
    overlapped: Numbers
    by_sums: Numbers
    by_rows: Numbers
    turned: Numbers
    by_columns: Numbers
    relaid_a: Numbers
    relaid_b: Numbers
    transposed_a: Numbers
    transposed_b: Numbers
    aligned_a: Numbers
    aligned_b: Numbers
    spans_a: Numbers
    spans_b: Numbers
    buffers: Numbers
    slides: Numbers
    clipped: Numbers
    lap: Numbers
    woven: Numbers
    stream_k: Numbers

    @staticmethod
    def of(kernels: Sequence[ProductKernel]) -> KernelColumns:
        """Return the table of some kernels."""
        numbers = [
            (
                one.swapped,
                *one.tile,
                one.loaded[1],
                one.stages,
                *one.cluster,
                one.split,
                one.slices,
                one.blocks,
                one.ping_pong,
                one.group,
                one.phases if one.realign == "tiles" else 1,
                one.through_registers,
                one.overlapped > 0 or one.accumulators > 1,
                one.store == "sums",
                one.in_rows,
                one.store == "turned",
                one.store == "columns",
                *(first != "none" for first in one.relayouts),
                *(first == "transpose" for first in one.relayouts),
                *one.aligned,
                *(1 if lines is None else lines.spans for lines in one.lines),
                one.buffers,
                one.slides,
                one.clipped,
                one.lap,
                one.woven,
                one.stream_k,
            )
            for one in kernels
        ]
        return KernelColumns(*(np.array(column) for column in zip(*numbers, strict=True)))

    @property
    def summed(self) -> Numbers:
        """Columns of an accumulator, of which those of sums that slide have more than the tile."""
        return np.asarray(self.columns + SLID * (self.slides > 0))

    @property
    def realigned(self) -> Numbers:
        """Whether rows of A are realigned in registers: what goes through them otherwise is woven."""
        return np.asarray(self.in_registers & ~self.woven)

    @property
    def step(self) -> Numbers:
        """Columns from a tile to the next one along n."""
        return np.asarray(self.columns - self.lap)

    def tiles_down(self, m: Numbers) -> Numbers:
        """Return how many clusters' tiles cover so many rows, each phase's by itself."""
        return np.asarray(self.phases * np.ceil(np.ceil(m / self.phases) / (self.rows * self.down)))

    def filled(self, m: Numbers) -> Numbers:
        """Return which share of the rows of tiles that have one phase there is: nothing is fetched of the others.

        The fewer rows a phase has the less, as of small members of a batch. It is 1 of tiles that have all phases,
        whose last rows alone may be beyond.
        """
        rows = self.tiles_down(m) * self.rows * self.down
        return np.asarray(np.where(self.phases > 1, m / rows, 1.0))

    def waves(
        self, extents: tuple[Numbers, Numbers], along: tuple[Numbers, Numbers], at_once: Numbers
    ) -> tuple[Numbers, Numbers]:
        """Return of how many rows of A and of B tiles are, wave after wave: clusters that run at once share some.

        Args:
            extents: of what is computed.
            along: clusters' tiles.
            at_once: clusters.
        """
        clusters, slices = along[0] * along[1], self.slices
        active, waves = np.minimum(clusters, at_once), np.maximum(1.0, clusters / at_once)
        strip = np.minimum(self.group, along[0])
        strips = np.maximum(1.0, active / (strip * along[1]))
        rows = np.minimum(slices * extents[0], strips * strip * self.rows * self.down)
        columns = np.minimum(along[1], np.ceil(active / strip)) * self.step * self.across
        of_slices = np.clip(strips * strip / (along[0] / slices), 1, slices)  # whose columns are read at once
        return waves * rows / slices, waves * np.minimum(extents[1], columns) * of_slices / slices

    def tiles_along(self, n: Numbers) -> Numbers:
        """Return how many clusters' tiles cover so many columns."""
        return np.asarray(np.ceil(np.maximum(1, n - self.lap) / (self.step * self.across)))

    def __len__(self) -> int:
        return len(self.rows)

    def taken(self, some: Numbers) -> KernelColumns:
        """Return the table of some of the kernels, by number or by truth."""
        return KernelColumns(*(getattr(self, field.name)[some] for field in fields(self)))
