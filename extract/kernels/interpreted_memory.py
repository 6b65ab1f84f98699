"""What a kernel's operations do to memory: boxes by the copy engine's model, operands by descriptors, C by stores."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legalsat.analyses.copy_engine import FILLED, UNTOUCHED, smem_image, store_footprint, tx_bytes
from legalsat.analyses.matrix_layout import read_addresses
from legalsat.errors import LegalSatError
from legalsat.extract.kernels.encoded import Bytes, Numbers, decoded, encoded
from legalsat.extract.kernels.interpreted_lines import aligned_places, woven_places
from legalsat.extract.kernels.kernel_memory import KernelMemory
from legalsat.extract.kernels.kernel_program import kernel_program, parts_across
from legalsat.extract.kernels.kernel_tiles import Tile, TileScheduler, own_columns, window_of
from legalsat.extract.kernels.product_maps import (
    ROW_BYTES,
    STORE_ROWS,
    Placed,
    box_columns,
    by_rows,
    extents,
    first_column,
    laid,
    maps_of,
    result_lies,
    result_step,
    sides,
    steps_of,
    stored,
    stored_type,
    turned_box,
)
from legalsat.extract.kernels.slices import added_of, added_up
from legalsat.operators.gemm import Gemm, sums_of
from legalsat.plans.product_kernel import BLOCK_ROWS, ISSUED_ROWS, WARPGROUP, WARPS, ProductKernel
from legalsat.program.kernel import KernelProgram
from legalsat.targets import GRANULE_BYTES
from legalsat.tensor import plain
from legalsat.units.matrix_descriptor import MatrixOperand

GUARD = 256  # bytes around what is in global memory
JUNK = 0x55  # of bytes that nobody wrote


@dataclass(frozen=True)
class Box:
    """A box on its way: where from, by a map, to which bytes of a stage, in which CTAs."""

    memory: Bytes
    placed: Placed
    coordinate: tuple[int, ...]
    to: int
    ctas: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Bytes that its barrier counts down."""
        return tx_bytes(self.placed.map)


class Launched:
    """A launch: what lies in global memory, and how tiles are given out."""

    def __init__(
        self,
        gemm: Gemm,
        kernel: ProductKernel,
        a: Any,
        b: Any,
        clusters: int,
        *,
        ends: tuple[int, ...] = (),
        scales: tuple[Any, ...] = (),
    ) -> None:
        self.gemm, self.kernel = gemm, kernel
        self.scales = [np.asarray(one, np.float64) for one in (scales[::-1] if kernel.swapped else scales)]
        self.maps = maps_of(gemm, kernel)
        self.m, self.n = extents(gemm, kernel)
        along_m, along_n = kernel.clusters(self.m, self.n)
        self.size, self.members = gemm.dtype.bits // 8, gemm.members
        steps = steps_of(gemm, kernel)
        self.sources = [
            self._source(tensor, first, {"A": a, "B": b}[name], along)
            for name, tensor, first, along in zip(
                kernel.operands, sides(gemm, kernel), kernel.relayouts, steps, strict=True
            )
        ]
        self.laid = [laid(one, first) for one, first in zip(sides(gemm, kernel), kernel.relayouts, strict=True)]
        self.first = self.laid[0]
        self.scheduler = TileScheduler(
            kernel,
            gemm.k,
            self.size,
            along_m,
            along_n,
            kernel.group,
            self.first.address,
            self.first.pitch,
            kernel.slices,
            self.members.extents,
            (any(steps[0]), any(steps[1])),
            {"k": gemm.k, "n": self.n}.get(kernel.cuts, self.m),
            ends,
            self.laid[1].address,
            self.laid[1].pitch,
            steps,
            (self.laid[0].lines, self.laid[1].lines),
        )
        self.tiles = self.scheduler.tiles
        self.clusters = clusters if clusters and kernel.store != "sums" else self.tiles
        self.scheduler = replace(self.scheduler, clusters=self.clusters)
        self.given: dict[tuple[int, int, int], Numbers] = {}  # by place, rank and consumer, by stream-K
        self.along_rows, self.pitch = result_lies(gemm, kernel)
        self.step = result_step(gemm, kernel)
        self.c_begin = stored(gemm, kernel).address // gemm.out_dtype.bytes  # elements
        self.result_type = stored_type(gemm, kernel)
        self.rows, _ = plain(stored(gemm, kernel).shape)  # of what is stored
        lines, length = (self.n, self.rows) if self.along_rows else (self.rows, self.n)
        last = self.pitch if kernel.slices > 1 else length  # a workspace's lines are whole
        self.c_steps = self.members.of("C")
        beyond = sum((n - 1) * step for n, step in zip(self.members.extents, self.c_steps, strict=True))
        span = (beyond + (lines - 1) * self.pitch + (last - 1) * self.step + 1) * self.result_type.bytes
        self.c = np.full(2 * GUARD + span, JUNK, np.uint8)
        self.written = np.zeros(len(self.c), bool)

    def _source(self, tensor: Any, first: str, values: Any, steps: tuple[int, ...]) -> Bytes:
        """Return an operand's memory, laid out anew where the kernel is behind a relayout; the rest is junk.

        Args:
            tensor: of the first member.
            first: what is done to it before.
            values: of all members.
            steps: bytes from member to member.
        """
        matrix, extents, size = laid(tensor, first), self.members.extents, self.size
        along_k = by_rows(tensor) == (first != "transpose")
        several = np.asarray(values).reshape(*(extents if np.ndim(values) > 2 else ()), *plain(tensor.shape))
        beyond = sum((n - 1) * step for n, step in zip(extents, steps, strict=True))
        memory = np.full(2 * GUARD + beyond + matrix.lines * matrix.pitch + ROW_BYTES, JUNK, np.uint8)
        at = np.arange(matrix.lines)[:, None] * matrix.pitch + np.arange(matrix.length * size)
        for index in np.ndindex(*several.shape[:-2]):
            lines = several[index] if along_k else several[index].T
            begin = GUARD + sum(i * step for i, step in zip(index, steps, strict=True)) if index else GUARD
            memory[begin + at] = encoded(lines, self.gemm.dtype.name).reshape(matrix.lines, -1)
        return memory

    def c_offset(self, tile: Tile) -> int:
        """Return the elements from C to its tile's member."""
        return sum(i * step for i, step in zip(tile.member, self.c_steps, strict=True)) if tile.member else 0

    def put(self, places: Any, data: Bytes) -> None:
        """Write bytes of C."""
        self.c[GUARD + places] = data
        self.written[GUARD + places] = True

    def result(self) -> Numbers:
        """Return C, (m, n), of all members.

        Raises:
            LegalSatError: bytes beside C were written, or bytes of C were not.
        """
        size, kernel = self.result_type.bytes, self.kernel
        rows, columns = np.arange(self.rows)[:, None], np.arange(self.n)[None, :]
        lines, inside = (columns, rows) if self.along_rows else (rows, columns)
        elements = lines * self.pitch + inside * self.step
        if kernel.ragged == "m":
            last = self.scheduler.groups[-1][0]
            elements = elements[:, :last] if kernel.cuts == "n" else elements[:last]
        for extent, step in reversed(list(zip(self.members.extents, self.c_steps, strict=True))):
            if kernel.ragged != "m":
                elements = np.arange(extent).reshape(-1, *(1,) * elements.ndim) * step + elements
        places = GUARD + elements[..., None] * size + np.arange(size)
        own = np.zeros(len(self.c), bool)
        own[places] = True
        if kernel.slices > 1:  # whose memory is the kernel's own, between its rows too
            own[GUARD:-GUARD] = True
        # A box may write on to the end of a row's last granule (FACTS M-13), which is the row's own.
        beside = np.flatnonzero(self.written & ~own & (self.c != JUNK))
        if len(beside) or not self.written[places].all():
            raise LegalSatError(
                f"{len(beside)} bytes beside C are written; {int((~self.written[places]).sum())} are not"
            )
        if self.given:
            raise LegalSatError(f"nobody adds sums of {len(self.given)} parts of tiles")
        found = decoded(self.c[places], self.result_type.name)
        if (added := added_of(self.gemm, kernel)) is not None:
            name = self.gemm.out_dtype.name
            found = decoded(encoded(added_up(added, found), name), name)
        found = found.swapaxes(-1, -2) if kernel.swapped else found
        return found.reshape(*(self.gemm.batch or self.members.batch), *found.shape[-2:])


@lru_cache(maxsize=256)
def _image(placed: Placed, coordinate: tuple[int, ...]) -> NDArray[np.int64]:
    return smem_image(placed.map, coordinate)


@lru_cache(maxsize=256)
def _read(operand: MatrixOperand, block: int, step: int, depth: int, bits: int) -> NDArray[np.int64]:
    start = operand.offsets[block][step]
    descriptor = replace(operand.descriptor, start=start)
    return read_addresses(descriptor, operand.major, operand.block, depth, bits)


class Cta:
    """A CTA's memory and registers, and what operations do to them.

    Args:
        launched: of which it is. program: that it runs. rank: in its cluster.
    """

    def __init__(self, launched: Launched, program: KernelProgram, rank: int) -> None:
        kernel = launched.kernel
        self.launched, self.kernel, self.rank = launched, kernel, rank
        self.memory = KernelMemory(kernel_program(kernel, launched.result_type.bytes), kernel, launched.along_rows)
        self.shared = np.full(kernel.shared_bytes, JUNK, np.uint8)
        self.a_maps = launched.scheduler.a_maps
        readers = 1 if kernel.ping_pong else kernel.warpgroups
        self.own = kernel.tile[0] // BLOCK_ROWS // readers
        self.depth = kernel.tile[2] // len(kernel.b.offsets[0])  # of a step
        self.sums = {i: np.zeros((self.own, BLOCK_ROWS, kernel.summed)) for i in range(kernel.warpgroups)}
        self.summed = np.zeros((kernel.accumulators, *kernel.tile[:2]))  # in tensor memory
        self.taken: dict[int, tuple[Tile, Numbers] | None] = dict.fromkeys(range(kernel.warpgroups))
        self.fragments: dict[int, Numbers] = {}
        self.parts = parts_across(kernel, launched.result_type.bytes)
        self.result_at = kernel.stages * self.memory.stage_bytes
        self.peers = dict(zip("AB", program.sharing(rank), strict=True))  # to whom what it loads goes

    def shares(self, operands: str) -> list[int]:
        """Return the CTAs that share some operands with this one, itself among them."""
        return sorted({self.rank, *(cta for name in operands for cta in self.peers[name])})

    def first_block(self, consumer: int) -> int:
        """Return the first of the tile's blocks of 64 rows that a consumer multiplies."""
        return 0 if self.kernel.ping_pong else consumer * self.own

    def tile(self, number: int) -> Tile:
        """Return its tile of a number."""
        return self.launched.scheduler.tile(number, self.rank)

    # Loads.

    def boxes(self, operand: str, tile: Tile, k_tile: int) -> Iterator[Box]:
        """Yield the boxes of a CTA's share of a tile of A or B."""
        of = self.launched
        memory, maps = of.sources["AB".index(operand)], of.maps[operand]
        for one in of.scheduler.shares(operand, tile, k_tile, self.rank):
            yield Box(memory, maps[one.map], one.coordinate, one.to, tuple(self.peers[operand]))

    def put(self, box: Box, stage: int) -> None:
        """Let a box arrive in a stage."""
        if box.coordinate[0] * self.launched.size % GRANULE_BYTES:
            raise LegalSatError(f"a box begins at {box.coordinate}, inside a granule (M-12); take another map")
        image = _image(box.placed, box.coordinate)
        touched = np.flatnonzero(image != UNTOUCHED)
        source = image[touched]
        data = np.where(
            source == FILLED, 0, box.memory[np.where(source == FILLED, 0, GUARD + box.placed.offset + source)]
        )
        self.shared[stage * self.memory.stage_bytes + box.to + touched] = data

    def drop_heads(self, consumer: int, stage: int, shift: int) -> None:
        """Clear what lies in front of each row of A of a consumer, in the row's first granule."""
        first = self.first_block(consumer) * BLOCK_ROWS
        for row in range(first, first + self.own * BLOCK_ROWS):
            at = stage * self.memory.stage_bytes + row * ROW_BYTES + row % 8 * GRANULE_BYTES
            self.shared[at : at + shift * self.launched.size] = 0

    def align(self, operand: str, tile: Tile, stage: int) -> None:
        """Move lines of a tile from the granules in which they lie to where boxes with the swizzle would lay them."""
        source, target = aligned_places(self.launched.scheduler, "AB".index(operand), tile)
        (begin,) = (one.start for one in self.memory.loaded(stage) if one.name == f"lines of {operand}")
        (to,) = (one.start for one in self.memory.loaded(stage) if one.name == operand)
        self.shared[to + target] = self.shared[begin + source]

    def clear_others(self, tile: Tile, k_tile: int, stage: int) -> None:
        """Clear what of a k-tile of A and B is not of the tile's group, of the last one in its steps."""
        size = self.launched.size
        byte = np.arange(ROW_BYTES)
        k = self.launched.scheduler.clipped_k(tile, k_tile) + byte // size
        steps = len(self.kernel.b.offsets[0])
        multiplied = tile.last_steps if k_tile + 1 == tile.k_tiles else steps
        others = byte[((k < tile.begin) | (k >= tile.end)) & (byte < ROW_BYTES * multiplied // steps)]
        for name, rows in zip("AB", self.kernel.loaded, strict=True):
            (begin,) = (one.start for one in self.memory.loaded(stage) if one.name == name)
            row = np.arange(rows)[:, None]
            chunk = others // GRANULE_BYTES ^ row % 8
            self.shared[begin + row * ROW_BYTES + chunk * GRANULE_BYTES + others % GRANULE_BYTES] = 0

    # Multiplications.

    def clear(self, consumer: int) -> None:
        """Set a consumer's accumulator to 0."""
        self.sums[consumer][:] = 0

    def slide(self, consumer: int) -> None:
        """Move a consumer's columns to where the next phase of k has them; those at the end keep what they had."""
        step = GRANULE_BYTES // self.launched.size // self.kernel.slides
        sums = self.sums[consumer]
        sums[..., :-step] = sums[..., step:].copy()

    def numbers(self, places: Any) -> Numbers:
        """Return elements of A or B in shared memory."""
        return decoded(self.shared[places[..., None] + np.arange(self.launched.size)], self.launched.gemm.dtype.name)

    def columns(self, stage: int, step: int) -> Numbers:
        """Return a step's part of the tile of B, (columns, elements along k)."""
        at = stage * self.memory.stage_bytes + self.kernel.tile_bytes[0]
        return self.numbers(at + _read(self.kernel.b, 0, step, self.depth, self.launched.gemm.dtype.bits))

    def multiply(self, consumer: int, stage: int, steps: int) -> None:
        """Multiply so many steps of a stage, both operands from shared memory."""
        operand = self.kernel.a
        assert operand is not None
        at = stage * self.memory.stage_bytes
        first = self.first_block(consumer)
        for step in range(steps):
            columns = self.columns(stage, step)
            for block in range(self.own):
                places = _read(operand, first + block, step, self.depth, self.launched.gemm.dtype.bits)
                self.sums[consumer][block] += self.numbers(at + places) @ columns.T

    def sum_up(self, accumulator: int, stage: int, *, begins: bool) -> None:
        """Multiply a stage into an accumulator in tensor memory, or to the first of its sums."""
        operand, bits = self.kernel.a, self.launched.gemm.dtype.bits
        assert operand is not None
        sums = self.summed[accumulator]
        if begins:
            sums[:] = 0
        for step in range(len(operand.offsets[0])):
            columns = self.columns(stage, step)
            for block in range(len(operand.offsets)):
                places = stage * self.memory.stage_bytes + _read(operand, block, step, self.depth, bits)
                rows = slice(block * operand.block, (block + 1) * operand.block)
                sums[rows] += self.numbers(places) @ columns.T

    def fetch(self, consumer: int, accumulator: int, tile: Tile) -> None:
        """Hold what a consumer has of an accumulator in tensor memory."""
        rows = self.own * BLOCK_ROWS
        own = self.summed[accumulator, consumer * rows : (consumer + 1) * rows]
        self.sums[consumer][:] = own.reshape(self.sums[consumer].shape)
        self.take(consumer, tile)

    def read_rows(
        self, consumer: int, stages: tuple[int, int], steps: tuple[int, ...], member: tuple[int, ...]
    ) -> None:
        """Read steps of a consumer's rows from where each starts in its granule.

        Args:
            consumer: whose rows.
            stages: the stage, and the next one, in which ends of rows are.
            steps: of the k-tile.
            member: of a batch, or a group, whose rows they are.
        """
        stage, after = stages
        of, rows = self.launched, self.kernel.tile[0] // self.a_maps
        first = self.first_block(consumer) * BLOCK_ROWS
        elements = np.concatenate([np.arange(step * self.depth, (step + 1) * self.depth) for step in steps])
        if self.kernel.woven:
            own = first + np.arange(self.own * BLOCK_ROWS)[:, None]
            places = woven_places(of.scheduler, own, elements[None, :], member)
            self.fragments[consumer] = self.numbers(stage * self.memory.stage_bytes + places)
            return
        some, phase = np.divmod(np.arange(first, first + self.own * BLOCK_ROWS)[:, None, None] // 8, self.a_maps)
        mine = phase * rows + some * 8 + np.arange(self.own * BLOCK_ROWS)[:, None, None] % 8  # where boxes lay them
        late = (of.scheduler.begin(0, member) + phase * of.first.pitch) % GRANULE_BYTES
        byte = late + elements[None, :, None] * of.size + np.arange(of.size)
        base = np.where(byte < ROW_BYTES, stage, after) * self.memory.stage_bytes
        inside = byte % ROW_BYTES
        chunk = inside // GRANULE_BYTES ^ mine % 8
        found = base + mine * ROW_BYTES + chunk * GRANULE_BYTES + inside % GRANULE_BYTES
        self.fragments[consumer] = decoded(self.shared[found], of.gemm.dtype.name)

    def multiply_rows(self, consumer: int, fragments: Numbers, stage: int, steps: tuple[int, ...]) -> None:
        """Multiply fragments in registers by steps of a stage of B."""
        columns = np.concatenate([self.columns(stage, step) for step in steps], axis=1)
        sums = self.sums[consumer]
        sums += (fragments @ columns.T).reshape(sums.shape)

    def take(self, consumer: int, tile: Tile) -> None:
        """Hold a tile's accumulator, times its scales, while the next tile is multiplied."""
        sums = self.sums[consumer][..., : self.kernel.tile[1]]
        if self.launched.scales:
            sums *= self.scale(consumer, tile)
        self.taken[consumer] = tile, sums.copy()

    def scale(self, consumer: int, tile: Tile) -> Any:
        """Return what the sums of a consumer's rows, (blocks, rows, columns), are multiplied by."""
        of, kernel = self.launched, self.kernel
        of_a, of_b = of.scales
        if of.gemm.scaled == "tensor":
            return of_a * of_b
        member = int(np.ravel_multi_index(tile.member, of.members.extents)) if tile.member else 0
        if of.gemm.scaled == "groups":
            return of_a[member] * of_b[member]
        within = self.first_block(consumer) * BLOCK_ROWS + np.arange(self.own * BLOCK_ROWS)
        rows = tile.a_m + np.array([self.row(int(one)) for one in within])
        if kernel.realign == "tiles":
            rows = (tile.a_m + within) * self.a_maps + tile.phase
        columns = np.minimum(tile.n + np.arange(kernel.tile[1]), of.n - 1)
        last = (tile.end if kernel.ragged == "m" else of.m) - 1
        rows = np.minimum(rows, last) + (0 if kernel.ragged == "m" else member * of.m)
        found = of_a.reshape(-1)[rows][:, None] * of_b.reshape(-1)[member * of.n + columns]
        return found.reshape(self.own, BLOCK_ROWS, -1)

    # C.

    def row(self, row: int) -> int:
        """Return which row of its tile of C a row of the tile of A is.

        Of rows that are realigned in registers eight of a phase are neighbours.
        """
        if self.kernel.realign != "registers":
            return row
        some, within = divmod(row, 8 * self.a_maps)
        return some * 8 * self.a_maps + within % 8 * self.a_maps + within // 8

    def part(self, consumer: int, part: int, warp: int) -> tuple[int, int, slice]:
        """Return the block, the first row in it, and the columns of a warp's part of C."""
        block, chunk = divmod(part, self.parts)
        if self.kernel.issues:  # a warp has 32 lanes of tensor memory, of which it fetches 16 at a time
            block, first = divmod((warp * (ISSUED_ROWS // BLOCK_ROWS) + block) * STORE_ROWS, BLOCK_ROWS)
        else:
            first = warp * STORE_ROWS
        if self.kernel.in_rows:
            return block, first + chunk * 8, slice(None)
        if self.kernel.turns:  # boxes of the block, those that go on along its columns side by side
            rows, count = turned_box(self.kernel, self.launched.result_type.bytes)
            columns = WARPS * rows // BLOCK_ROWS * count
            first = first_column(self.kernel, chunk, columns) + warp * count % columns
            return block, warp * count // columns * rows, slice(first, first + count)
        columns = box_columns(self.kernel, self.launched.result_type.bytes)
        left = first_column(self.kernel, chunk, columns)
        return block, first, slice(left, left + columns)

    def buffer(self, consumer: int, warp: int, stage: int) -> tuple[int, int]:
        """Return where a warp's buffer lies, and its bytes."""
        ring = self.memory.program.buffers[-1]
        size = self.memory.part_bytes(ring)
        if self.kernel.turns:  # of all warps
            return self.result_at + (consumer * ring.stages + stage) * ring.bytes + warp * size, size
        return self.result_at + ((consumer * WARPS + warp) * ring.stages + stage) * size, size

    def write_c(self, consumer: int, part: int, stage: int) -> None:
        """Lay a part of C down in shared memory, or all accumulators of the tile."""
        if self.kernel.store == "sums":
            rows = (consumer * self.own * BLOCK_ROWS + np.arange(self.own * BLOCK_ROWS))[:, None]
            places = self.result_at + 4 * self.sums_place(rows, np.arange(self.kernel.tile[1])[None, :])
            self.shared[places[..., None] + np.arange(4)] = encoded(
                self.sums[consumer][..., : self.kernel.tile[1]].reshape(places.shape),
                sums_of(self.launched.gemm.dtype).name,
            )
            return
        held = self.taken[consumer]
        if held is None:
            return  # no tile was multiplied before: what is laid down lies outside of C
        name = self.launched.result_type.name
        for warp in range(WARPS):
            block, first, columns = self.part(consumer, part, warp)
            at, length = self.buffer(consumer, warp, stage)
            count = 8 if self.kernel.in_rows else STORE_ROWS
            if self.kernel.turns:
                side_by_side, _ = turned_box(self.kernel, self.launched.result_type.bytes)
                rows = first + np.arange(side_by_side)
                if self.kernel.realign == "registers":  # eight rows of a phase are neighbours
                    rows = rows % self.a_maps * 8 + rows // self.a_maps
                turned = encoded(held[1][block, rows, columns].T, name)
                if self.kernel.by_boxes:
                    self.lay_down(turned, at)
                else:
                    self.shared[at : at + length] = turned.reshape(-1)
                continue
            data = encoded(held[1][block, first : first + count, columns], name)
            data = data.reshape(count, -1)
            if self.kernel.in_rows:
                self.shared[at + np.arange(count)[:, None] * (length // count) + np.arange(data.shape[1])] = data
            else:
                self.lay_down(data, at)

    def lay_down(self, data: Bytes, at: int) -> None:
        """Lay the rows of a box down as the image of C's map has it, for a box inside of C."""
        one = self.launched.maps["C"][0].map
        box = one.box[0], math.prod(one.box[1:])
        wide = replace(
            one, global_dim=box, global_stride=(data.size // box[1],), box=box, element_stride=one.element_stride[:2]
        )
        image = store_footprint(wide, (0, 0), at)
        self.shared[image[:, 1]] = data.reshape(-1)[image[:, 0]]

    def store_c(self, consumer: int, part: int, stage: int, held: tuple[Tile, Numbers] | None) -> None:
        """Store a part of C by boxes."""
        if held is None:
            return
        tile = held[0]
        for warp in range(WARPS):
            block, first, columns = self.part(consumer, part, warp)
            at, _ = self.buffer(consumer, warp, stage)
            row = (self.first_block(consumer) + block) * BLOCK_ROWS + first
            placed = self.launched.maps["C"][tile.phase]
            inner, outer, count = tile.n + columns.start, tile.m + row, STORE_ROWS
            if self.kernel.store == "turned":
                inner, outer, count = outer, inner, columns.stop - columns.start
            coordinate: tuple[int, ...] = inner, outer, *tile.member[::-1]
            if self.kernel.realign == "registers" and self.kernel.store == "tma":  # of a slice, rows of two phases
                coordinate = inner, outer // BLOCK_ROWS * 8, outer % BLOCK_ROWS // 8
            if self.kernel.ragged == "m":
                window = window_of(tile, outer, count)
                if window is None:
                    continue
                coordinate = inner, *window
            footprint = store_footprint(placed.map, coordinate, at)
            self.launched.put(placed.offset + footprint[:, 0], self.shared[footprint[:, 1]])

    def read_c(self, consumer: int, part: int, stage: int) -> None:
        """Copy a part of C to where its rows lie, by threads."""
        held, of = self.taken[consumer], self.launched
        if held is None:
            return
        tile, size = held[0], of.result_type.bytes
        for warp in range(WARPS):
            block, first, _ = self.part(consumer, part, warp)
            at, length = self.buffer(consumer, warp, stage)
            for row in range(8):
                within = (self.first_block(consumer) + block) * BLOCK_ROWS + first + row
                target = tile.m + self.row(within)
                if self.kernel.realign == "tiles":
                    target = (tile.m + within) * self.a_maps + tile.phase
                own = own_columns(self.kernel, tile, of.n, of.c_begin + of.c_offset(tile) + of.pitch * target)
                if target < (tile.end if self.kernel.cuts == "m" else of.m) and own:
                    begin = at + row * (length // 8)
                    elements = of.c_offset(tile) + of.pitch * target + (tile.n + np.array(own)) * of.step
                    places = elements[:, None] * size + np.arange(size)
                    data = self.shared[begin + own.start * size : begin + own.stop * size]
                    of.put(places, data.reshape(len(own), size))

    def store_columns(self, consumer: int, part: int, stage: int) -> None:
        """Copy a part of C that is turned to where its columns lie, by threads."""
        held, of = self.taken[consumer], self.launched
        if held is None:
            return
        tile, size = held[0], of.result_type.bytes
        step, late = (self.a_maps, tile.phase) if self.kernel.realign == "tiles" else (1, 0)
        for warp in range(WARPS):
            block, first, columns = self.part(consumer, part, warp)
            at, length = self.buffer(consumer, warp, stage)
            n = tile.n + np.arange(columns.start, columns.stop)[:, None]
            within = (self.first_block(consumer) + block) * BLOCK_ROWS + first
            rows = tile.m + within + np.arange(length // size // len(n))
            m = np.broadcast_to(rows * step + late, (len(n), len(rows)))
            inside = (m < of.m) & (n < (tile.end if self.kernel.cuts == "n" else of.n))
            places = (of.c_offset(tile) + n * of.pitch + m)[inside][:, None] * size + np.arange(size)
            of.put(places, self.shared[at : at + length].reshape(*m.shape, size)[inside])

    def sums_place(self, rows: Any, columns: Any) -> Any:
        """Return where accumulators lie, in elements."""
        pitch = (self.kernel.tile[0] if self.launched.along_rows else self.kernel.tile[1]) + 4
        return columns * pitch + rows if self.launched.along_rows else rows * pitch + columns

    def add_up(self, consumer: int, ctas: list[Cta]) -> None:
        """Add the accumulators of all CTAs up, and write this consumer's share of this CTA's share of C."""
        of, kernel = self.launched, self.kernel
        held = self.taken[consumer]
        if held is None:
            raise LegalSatError("C is written before its accumulators are taken")
        tile, size = held[0], of.result_type.bytes
        inner, outer = kernel.tile[:2] if of.along_rows else kernel.tile[1::-1]
        inners, outers = (of.m - tile.m, of.n - tile.n) if of.along_rows else (of.n - tile.n, of.m - tile.m)
        vector = GRANULE_BYTES // size
        items = outer * (inner // vector)
        share = -(-items // kernel.split)
        own, ctas = (self.rank, ctas) if kernel.split > 1 else (0, [self])
        item = np.arange(own * share, min(items, (own + 1) * share))
        item = item[(item - own * share) // WARPGROUP % kernel.warpgroups == consumer]
        along = (item % (inner // vector) * vector)[:, None] + np.arange(vector)
        across = np.broadcast_to((item // (inner // vector))[:, None], along.shape)
        chosen = (along < inners) & (across < outers)
        along, across = along[chosen], across[chosen]
        down, over = (along, across) if of.along_rows else (across, along)
        m, n = tile.m + down, tile.n + over
        elements = of.c_offset(tile) + (n * of.pitch + m if of.along_rows else m * of.pitch + n)
        if kernel.realign == "registers":  # eight rows of a phase lie side by side
            some = 8 * self.a_maps
            down = down // some * some + down % self.a_maps * 8 + down % some // self.a_maps
        places = self.result_at + 4 * self.sums_place(down, over)
        kind = sums_of(of.gemm.dtype).name
        whole = sum(decoded(one.shared[places[:, None] + np.arange(4)], kind) for one in ctas)
        of.put(elements[:, None] * size + np.arange(size), encoded(whole, of.result_type.name))
