"""Where a product's kernel keeps its rings in shared memory: a place of memory as a stage of a buffer, or a barrier."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from legalsat.logic import round_up
from legalsat.plans.product_kernel import WARPS, ProductKernel
from legalsat.program.pipeline import BufferRing, Load, Pipeline, walk
from legalsat.targets import GRANULE_BYTES

BARRIER_BYTES = 8
COLUMNS_BYTES = 8  # that say where tensor memory is
RESULT = "C"  # which the names of buffers begin with through which C leaves
ROWS_AT_A_TIME = 8  # of C that a warp lays down where it stores by rows


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of a stage of a buffer that lie together; `warp` of the CTA has them for its own, or -1."""

    start: int
    end: int
    name: str
    stage: int
    warp: int = -1

    def __str__(self) -> str:
        return f"{self.name}[{self.stage}]"


@dataclass(frozen=True)
class KernelMemory:
    """The shared memory of a CTA: stages of A and B side by side, then what C leaves through, then the barriers.

    Attributes:
        program, kernel: whose memory it is. along_rows: whether elements that lie together in C are of a column of the
            tile, so that sums lie along rows too.
    """

    program: Pipeline
    kernel: ProductKernel
    along_rows: bool

    @cached_property
    def pieces(self) -> list[Piece]:
        """All buffers, in the order in which they lie."""
        loaded = [ring for ring in self.program.buffers if not ring.name.startswith(RESULT)]
        found, at = [], 0
        for stage in range(self.kernel.stages):
            for ring in loaded:
                found.append(Piece(at, at + ring.bytes, ring.name, stage))
                at += ring.bytes
        for group, ring in enumerate(ring for ring in self.program.buffers if ring.name.startswith(RESULT)):
            if self.kernel.store == "sums":
                return [*found, Piece(at, at + self.sums_bytes, ring.name, 0)]
            if self.kernel.turns:  # of all warps of a consumer
                found += [
                    Piece(at + n * ring.bytes, at + (n + 1) * ring.bytes, ring.name, n) for n in range(ring.stages)
                ]
                at = found[-1].end
                continue
            for warp in range(WARPS):
                for stage in range(ring.stages):
                    found.append(Piece(at, at + self.part_bytes(ring), ring.name, stage, group * WARPS + warp))
                    at = found[-1].end
        return found

    def loaded(self, stage: int) -> list[Piece]:
        """Return where the loads of a stage lie, in order."""
        return [piece for piece in self.pieces if piece.stage == stage and not piece.name.startswith(RESULT)]

    def counted(self, barrier: str, stage: int) -> list[Piece]:
        """Return where the loads of a stage lie that a barrier counts, in order."""
        ops = (op for role in self.program.roles for op in walk(role.body) if isinstance(op, Load))
        names = {op.buffer for op in ops if op.barrier == barrier}
        return [piece for piece in self.loaded(stage) if piece.name in names]

    @property
    def stage_bytes(self) -> int:
        """Bytes of a stage of A and B."""
        return sum(ring.bytes for ring in self.program.buffers if not ring.name.startswith(RESULT))

    @property
    def sums_bytes(self) -> int:
        """Bytes of the accumulators of a tile, in lines whose pitch spreads them over the banks."""
        lines, length = self.kernel.tile[1::-1] if self.along_rows else self.kernel.tile[:2]
        return 4 * lines * (length + 4)

    def part_bytes(self, ring: BufferRing) -> int:
        """Return the bytes of a warp's part of a stage through which C leaves."""
        return ring.bytes // WARPS

    @cached_property
    def barriers_at(self) -> int:
        """Where the barriers begin, behind all else."""
        return int(round_up(self.pieces[-1].end, BARRIER_BYTES))

    def of_none(self, offset: int) -> bool:
        """Whether a place, behind the barriers, is where it is said where groups begin, or where tensor memory is."""
        behind = self.barriers_at + BARRIER_BYTES * sum(ring.stages for ring in self.program.barriers)
        return behind <= offset < behind + self.kernel.group_bytes + COLUMNS_BYTES * self.kernel.issues

    def accumulator(self, column: int) -> str:
        """Return the accumulator that a column of tensor memory is of; a CTA's begin with the first."""
        (name,) = self.program.sums_stages
        return f"{name}[{column // self.kernel.summed_columns}]"

    @cached_property
    def _starts(self) -> list[int]:
        return [piece.start for piece in self.pieces]

    def barrier(self, offset: int) -> str:
        """Return the barrier at a place, as ring and stage."""
        number, late = divmod(offset - self.barriers_at, BARRIER_BYTES)
        for ring in self.program.barriers:
            if 0 <= number < ring.stages and not late:
                return f"{ring.name}[{number}]"
            number -= ring.stages
        return f"byte {offset}, which is no barrier"

    def held(self, first: int, last: int, warp: int) -> list[tuple[str, int]]:
        """Return the stages in which bytes lie that a warp of the CTA uses, with how many bytes of each.

        What belongs to no buffer, or to another warp, is named so.
        """
        found: list[tuple[str, int]] = []
        at = first
        while at < last:
            number = bisect_right(self._starts, at) - 1
            piece = self.pieces[number] if number >= 0 else None
            if piece is None or at >= piece.end:
                return [*found, (f"byte {at}, which is in no buffer", last - at)]
            end = min(last, piece.end)
            other = "" if piece.warp in {-1, warp} else f" of warp {piece.warp}"
            found.append((f"{piece}{other}", end - at))
            at = end
        return found


@dataclass(frozen=True)
class FoundMemory(KernelMemory):
    """The shared memory of a CTA in which a compiler put each ring where it liked, its stages side by side.

    Attributes:
        starts: of rings, by name, where the first thing that is done to each shows that they begin.
    """

    starts: Mapping[str, int]

    @cached_property
    def pieces(self) -> list[Piece]:
        """All buffers, in the order in which they lie."""
        found = []
        for ring in self.program.buffers:
            of_result = ring.name.startswith(RESULT)
            if ring.name not in self.starts:
                continue
            parts = WARPS if of_result and self.kernel.store != "sums" else 1
            size = self.part_bytes(ring) if parts > 1 else self.sums_bytes if of_result else ring.bytes
            at, first = self.starts[ring.name], WARPS * int(ring.name[1:] or 0) if parts > 1 else -1
            for number in range(ring.stages * parts):
                warp = first + number % parts if parts > 1 else -1
                found.append(Piece(at + number * size, at + (number + 1) * size, ring.name, number // parts, warp))
        return sorted(found, key=lambda piece: piece.start)

    @property
    def sums_bytes(self) -> int:
        """Bytes of the accumulators of a tile, side by side."""
        rows, columns, _ = self.kernel.tile
        return 4 * rows * columns

    def part_bytes(self, ring: BufferRing) -> int:
        """Return the bytes of a warp's part of a stage through which C leaves; rows lie side by side."""
        if self.kernel.store == "tma":
            return ring.bytes // WARPS
        return ring.bytes // WARPS - ROWS_AT_A_TIME * GRANULE_BYTES

    def barrier(self, offset: int) -> str:
        """Return the barrier at a place, as ring and stage."""
        for ring in self.program.barriers:
            number, late = divmod(offset - self.starts.get(ring.name, 1 << 30), BARRIER_BYTES)
            if 0 <= number < ring.stages and not late:
                return f"{ring.name}[{number}]"
        return f"byte {offset}, which is no barrier"

    @property
    def overlap(self) -> str:
        """Two things of which one begins before the other one ends, in words; "" if there are none."""
        barriers = [
            Piece(self.starts[ring.name], self.starts[ring.name] + BARRIER_BYTES * ring.stages, ring.name, 0)
            for ring in self.program.barriers
            if ring.name in self.starts
        ]
        listed = sorted([*self.pieces, *barriers], key=lambda piece: piece.start)
        return next((f"{one} lies on {two}" for one, two in pairwise(listed) if one.end > two.start), "")
