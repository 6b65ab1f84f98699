"""The tile scheduler of a product's kernel, and the boxes that a CTA loads for each k-tile of each tile."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from legalsat.extract.kernels.product_maps import ROW_BYTES, STORE_ROWS, WRAPS
from legalsat.extract.kernels.shares import Part, Shares
from legalsat.logic import round_up
from legalsat.plans.product_kernel import LINES_ALIKE, WIDE_BOX, ProductKernel
from legalsat.targets import GRANULE_BYTES


@dataclass(frozen=True)
class Tile:
    """A tile of C of a CTA, as the scheduler of the kernel says it; `a_m` is its first row in A, of any slice of k.

    `member` says of which one of a batch it is, along each axis, or of which group, whose rows, or whose k from
    `begin` on, end at `end`. `lines` is the phase of k that is loaded, where sums slide. By stream-K the sums are given
    away by a `place`, which is -1 else, and what others give by the places that it `adds` is added.
    """

    m: int
    a_m: int
    n: int
    phase: int
    shift: int
    k_tiles: int
    first_k: int
    last_steps: int
    member: tuple[int, ...] = ()
    end: int = 0
    begin: int = 0
    lines: int = 0
    place: int = -1
    adds: tuple[int, ...] = ()

    @property
    def starts_late(self) -> bool:
        """Whether something lies before the rows in what is loaded first: of slices of k in the first one alone."""
        return self.shift > 0 and self.first_k == 0


def window_of(tile: Tile, first: int, count: int = STORE_ROWS) -> tuple[int, int] | None:
    """Return where in which window of C a box of rows lies that is a group's; None where the group ends before it.

    Args:
        tile: of a group of rows, or of columns where C^T is computed.
        first: of the box's, in C.
        count: that the box has.
    """
    left = min(count, tile.end - first)
    return (count - left, first + left) if left > 0 else None


@dataclass(frozen=True, slots=True)
class Share:
    """A box of a CTA's share of a tile: of "A" or "B", by which of its maps, from where, to which byte of a stage."""

    operand: str
    map: int
    coordinate: tuple[int, ...]
    to: int

    def __str__(self) -> str:
        return f"{self.operand} by map {self.map} at {', '.join(map(str, self.coordinate))} to byte {self.to}"


@dataclass(frozen=True)
class TileScheduler:
    """What a launch decides of tiles.

    Attributes:
        kernel: that is launched. k: elements along k. size: bytes of one of A.
        tiles_m, tiles_n: tiles of clusters along m, of all slices of k, and along n; of one member.
        group: along m that neighbours in time share.
        address, pitch: of A, in bytes. slices: of k, one below the other along m.
        members: extents of a batch, or of groups of rows their number. axes: of the maps of A and B, one for each.
        rows: that there are, columns or k where groups cut these, and ends: where groups end, as the device is told.
        b_address, b_pitch: of B, in bytes.
        steps: from member to member along each axis, of A and of B, in bytes. lines: of one of them.
        clusters: that are launched, among which stream-K shares k-tiles out; a cluster's n-th tile has n times as many
            added to its own number.
    """

    kernel: ProductKernel
    k: int
    size: int
    tiles_m: int
    tiles_n: int
    group: int
    address: int
    pitch: int
    slices: int
    members: tuple[int, ...] = ()
    axes: tuple[bool, bool] = (False, False)
    rows: int = 0
    ends: tuple[int, ...] = ()
    b_address: int = 0
    b_pitch: int = GRANULE_BYTES
    steps: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    lines: tuple[int, int] = (1, 1)
    clusters: int = 0

    @cached_property
    def shared_out(self) -> list[list[Part]]:
        """What each cluster has of tiles, by stream-K."""
        shares = Shares(self.clusters, self.tiles, self.shared_k_tiles)
        return [shares.parts(cluster) for cluster in range(self.clusters)]

    @property
    def shared_k_tiles(self) -> int:
        """K-tiles of a tile that stream-K shares out: as many as any has, wherever its rows start in a granule."""
        late = GRANULE_BYTES // self.size - 1 if self.kernel.realign == "tiles" else 0
        return int(self.kernel.k_tiles(self.k + late))

    def end(self, cluster: int) -> int:
        """Return the number behind those of a cluster's tiles, which are as many apart as there are clusters."""
        return len(self.shared_out[cluster]) * self.clusters if self.kernel.stream_k else self.tiles

    @cached_property
    def groups(self) -> list[tuple[int, int]]:
        """For each group its first row, or k, and its first tile, then where the last ends; none begins in another."""
        axis = int(self.kernel.cuts == "n")
        found, rows = [(0, 0)], self.kernel.tile[axis] * self.kernel.cluster[axis]
        for said in self.ends:
            row, tile = found[-1]
            end = max(row, min(said, self.rows))
            found.append((end, tile - (row - end) // rows))
        return found

    @property
    def tiles(self) -> int:
        """Tiles of clusters in all."""
        if self.kernel.ragged == "m":
            return self.groups[-1][1] * self.beside
        return self.tiles_m * math.prod(self.members) * self.tiles_n

    @property
    def beside(self) -> int:
        """Tiles along the axis that groups of rows do not cut."""
        return self.tiles_m if self.kernel.cuts == "n" else self.tiles_n

    @property
    def a_maps(self) -> int:
        """Maps that share the rows of A out."""
        return max(1, self.kernel.phases) if self.kernel.realign in {"tiles", "registers"} else 1

    def phase(self, turn: int, member: tuple[int, ...] = ()) -> int:
        """Return which phase of k is the one of a number: the lines of the first one begin latest in their granules.

        Line p begins p * `b_pitch` bytes behind the member's first, and each phase as many less than that before.
        """
        count = self.kernel.slides
        step = GRANULE_BYTES // count
        first = self.begin(1, member) // step
        return (count - 1 - turn - first) * (self.b_pitch // step) % count  # an odd one's own inverse

    def begin(self, number: int, member: tuple[int, ...]) -> int:
        """Return where a member of A (0) or B (1) begins, in bytes."""
        steps = self.steps[number] if self.kernel.loose[number] else ()
        within = sum(i * step for i, step in zip(member, steps, strict=True)) if steps else 0
        return (self.address, self.b_address)[number] + within

    def placed(self, number: int, phase: int, member: tuple[int, ...]) -> tuple[int, int]:
        """Return by which map lines of a phase of a member come that begins anywhere, and in which granule they begin.

        That is counted from the one in which A, or B, begins.
        """
        alike, first = self.kernel.alike[number], (self.address, self.b_address)[number]
        bytes_ = self.begin(number, member) - first + first % GRANULE_BYTES
        bytes_ += phase * (self.pitch, self.b_pitch)[number]
        fewer = phase >= self.lines[number] % alike
        return (bytes_ % GRANULE_BYTES + GRANULE_BYTES * fewer) // self.size, bytes_ // GRANULE_BYTES

    def place(self, rank: int) -> tuple[int, int]:
        """Return where a CTA stands in its cluster, along m and n."""
        along_m, along_n = self.kernel.cluster
        return rank % along_m, rank // along_m % along_n

    def tile(self, number: int, rank: int) -> Tile:
        """Return a CTA's tile of a number: neighbours in time are along m, in strips, so that they share operands."""
        kernel, (rank_m, rank_n) = self.kernel, self.place(rank)
        some = None
        if kernel.stream_k:
            turn, cluster = divmod(number, self.clusters)
            some = self.shared_out[cluster][turn]
            number = some.tile
        tiles_m, tiles_n, end, member, first = self.tiles_m, self.tiles_n, 0, list[int](), [0, 0]
        if kernel.ragged == "m":
            group = bisect_right([tile * self.beside for _, tile in self.groups], number) - 1
            (first_row, first_tile), (end, last_tile) = self.groups[group : group + 2]
            member, number = [group], number - first_tile * self.beside
            first[kernel.cuts == "n"] = first_row
            tiles_m, tiles_n = (
                (tiles_m, last_tile - first_tile) if kernel.cuts == "n" else (last_tile - first_tile, tiles_n)
            )
        elif self.members:
            index, number = divmod(number, tiles_m * self.tiles_n)
            for extent in reversed(self.members):
                index, along = divmod(index, extent)
                member.insert(0, along)
        strip = self.group * tiles_n
        begin = number // strip * self.group
        rows = min(tiles_m - begin, self.group)
        along_m, along_n = begin + number % strip % rows, number % strip // rows
        if kernel.ragged == "k":
            return self._cut(member, (along_m, along_n), rank)
        phase = shift = 0
        if kernel.realign == "tiles":
            along_m, phase = divmod(along_m, self.a_maps)
            shift = (self.begin(0, tuple(member)) + phase * self.pitch) % GRANULE_BYTES // self.size
        elements, depth = -(-self.k // max(1, kernel.slides)) + shift, kernel.tile[2]
        every = -(-elements // depth)
        part, parts, of_a = 0, 1, along_m
        if kernel.split > 1:
            part, parts = rank, kernel.split
        elif kernel.slices > 1:
            part, of_a = divmod(along_m, self.tiles_m // self.slices // kernel.tile_phases)
            parts = self.slices
        count, left = divmod(every, parts)
        first_k = count * part + min(part, left)
        k_tiles = count + (part < left)
        place, adds = -1, tuple[int, ...]()
        if some is not None:
            first_k, place, adds = some.first, some.place, some.adds
            k_tiles = min(some.end, every) - first_k
        steps = len(kernel.b.offsets[0])
        step = depth // steps
        last = -(-(elements - (every - 1) * depth) // step) if first_k + k_tiles == every else steps
        m, a_m = (first[0] + (along * kernel.cluster[0] + rank_m) * kernel.tile[0] for along in (along_m, of_a))
        n = first[1] + (along_n * kernel.cluster[1] + rank_n) * kernel.step
        lines = self.phase(0, tuple(member)) if kernel.slides else 0
        return Tile(
            m, a_m, n, phase, shift, k_tiles, first_k, last, tuple(member), end, lines=lines, place=place, adds=adds
        )

    def _cut(self, member: list[int], along: tuple[int, int], rank: int) -> Tile:
        """Return a tile of a group along k, which has as many k-tiles as a kernel needs though they be empty."""
        kernel = self.kernel
        (begin, _), (end, _) = self.groups[member[0] : member[0] + 2]
        depth, steps = kernel.tile[2], len(kernel.b.offsets[0])
        elements = end - begin + (begin % depth if kernel.clipped else 0)
        own = max(1, -(-elements // depth))
        k_tiles, last = max(kernel.fewest_k_tiles, own), steps
        if kernel.clipped and k_tiles > 1 + kernel.overlapped:  # or the last one is multiplied while a tile is stored
            last = max(1, -(-(elements - (own - 1) * depth) // (depth // steps)))
        places = zip(along, kernel.cluster, self.place(rank), kernel.tile, strict=False)
        m, n = ((number * ctas + own) * extent for number, ctas, own, extent in places)
        return Tile(m, m, n, 0, 0, k_tiles, 0, last, tuple(member), end, begin)

    def clipped_k(self, tile: Tile, k_tile: int) -> int:
        """Return where along k a k-tile's boxes begin: where those of no groups do, or they would cross lines of L2.

        The group's own last k-tile is the last of all, and what it has too few lie behind everything, in front of that.
        """
        depth = self.kernel.tile[2]
        first = tile.begin - tile.begin % depth
        own = max(1, -(-(tile.end - first) // depth))
        last = k_tile + 1 == tile.k_tiles
        if k_tile >= own - 1 and not last:
            return int(round_up(self.rows, depth))
        return first + (own - 1 if last else k_tile) * depth

    def shares(self, operand: str, tile: Tile, k_tile: int, rank: int) -> Iterator[Share]:
        """Yield the boxes of a CTA's share of a tile of A or B."""
        if self.kernel.lines["AB".index(operand)] is not None:
            yield from self._of_lines(operand, tile, k_tile, rank)
            return
        kernel, (rank_m, rank_n) = self.kernel, self.place(rank)
        along_m, along_n = kernel.cluster
        k = (tile.first_k + k_tile) * kernel.tile[2]
        if kernel.clipped:
            k = self.clipped_k(tile, k_tile)
        number = "AB".index(operand)
        extent, count, major = kernel.loaded[number], kernel.boxes[number], kernel.majors[number]
        share = count // (along_n if operand == "A" else along_m)
        mine = rank_n if operand == "A" else rank_m
        parts = kernel.k_parts[number]
        rows = extent * parts // count
        for box in range(mine * share, (mine + 1) * share):
            part, block = divmod(box, count // parts)
            at, late = (tile.a_m if operand == "A" else tile.n) + block * rows, part * kernel.tile[2] // parts
            map_, along = 0, (k if operand == "A" else k - tile.shift) + late
            if operand == "A" and kernel.realign == "registers":
                map_, at = box, tile.a_m // self.a_maps
            elif kernel.slides:
                map_ = tile.lines
            elif operand == "A":
                map_ = tile.phase
            matrix = (along, at) if major == "K" else (at, along)
            coordinate = (*matrix, *(tile.member[::-1] if self.axes[number] else ()))
            if kernel.loose[number]:
                map_, granule = self.placed(number, map_, tile.member)
                coordinate = (*matrix, granule)
            if kernel.ragged == "k" and not kernel.clipped:
                coordinate = (at, WRAPS - (tile.end - tile.begin) + k + late, tile.end, WRAPS)
            to = number * kernel.tile_bytes[0] + block * rows * ROW_BYTES
            to += part * rows * ROW_BYTES // parts
            yield Share(operand, map_, coordinate, to)

    def _of_lines(self, operand: str, tile: Tile, k_tile: int, rank: int) -> Iterator[Share]:
        """Yield the boxes of a CTA's share of lines that are aligned, or woven: each has every eighth one of some."""
        kernel, number, depth = self.kernel, "AB".index(operand), self.kernel.tile[2]
        first, k = (tile.a_m, tile.n)[number], (tile.first_k + k_tile) * depth
        lines, before = kernel.lines[number], kernel.lines[0] if number else None
        assert lines is not None
        begin = 0 if kernel.woven else sum(kernel.tile_bytes) + (before.bytes if before is not None else 0)
        share, mine = lines.boxes // kernel.cluster[1 - number], self.place(rank)[1 - number]
        for box in range(mine * share, (mine + 1) * share):
            some, number_of = divmod(box, LINES_ALIKE)
            along, line = (k, first) if kernel.majors[number] == "K" else (first + some * lines.spans * WIDE_BOX, k)
            along -= lines.early(number_of) // self.size
            line, phase = divmod(line + number_of, LINES_ALIKE)
            to = begin + box * lines.count * lines.pitch
            map_, member = phase, tile.member[::-1] if self.axes[number] else ()
            if kernel.loose[number]:
                map_, granule = self.placed(number, phase, tile.member)
                member = (granule,)
            yield Share(operand, map_, (along, line, *member), to)


def own_columns(kernel: ProductKernel, tile: Tile, n: int, row: int) -> range:
    """Return the columns of a tile that it stores of a row of C: whole sectors where tiles lap over each other.

    Args:
        kernel: that computes C.
        tile: of it.
        n: columns of C.
        row: where it begins, in elements, of which a sector has as many as tiles lap.
    """
    count, lap, step = max(0, min(kernel.tile[1], n - tile.n)), kernel.lap, kernel.step
    if not lap:
        return range(count)
    if tile.n and tile.n + lap >= n:
        return range(0)  # which the tile before has
    begin, last = row + tile.n, tile.n + kernel.tile[1] >= n
    return range(-begin % lap if tile.n else 0, count if last else step + -(begin + step) % lap)
