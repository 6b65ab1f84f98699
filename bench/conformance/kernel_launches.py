"""Launches of a product's kernel: what its parameters are, and what trip counts its program has in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate

from legalsat.extract.kernels.kernel_tiles import Tile, TileScheduler
from legalsat.extract.kernels.unfolded import GIVEN as GIVEN_TILE
from legalsat.extract.kernels.unfolded import LATER, OF_GIVEN, OF_LAST, OF_PAIR
from legalsat.plans.product_kernel import LEAST_SHARE, WARPS, ProductKernel
from legalsat.targets import GRANULE_BYTES

Values = dict[str, int | tuple[int, ...]]
PITCH = 1 << 20  # bytes from row to row; a multiple of a granule
RESULT, RESULT_PITCH = 1 << 41, 1 << 20  # address of C, and elements from line to line
RESULT_STEP = 3  # elements of C from column to column, where none lie side by side
MEMBER = 1 << 30  # elements of C from member to member
LOOSE = 1 << 30  # bytes from member to member of operands that begin anywhere, and a step of a phase more
ENDS = 1 << 42  # address of the numbers that say where groups end
GIVEN, FLAGS = 1 << 43, 1 << 44  # addresses of what others give by stream-K, and of what says that it is there
SHORT = 3  # rows by which a group's last tile is not full: boxes of 16 rows that have none of it are not stored


@dataclass(frozen=True, slots=True)
class Launch:
    """What a launch decides, as one of its clusters sees it; clusters' tiles lie one below the other.

    Of a kernel of slices of k each tile is one, or those of all phases are. Of a batch each is a member's one tile, or
    those of all phases are. Of groups of rows some have two tiles, one one, and some are empty; groups along k have one
    each, of which every other one has half of the k.

    Attributes:
        kernel: that is launched. size: bytes of an element of A.
        tiles: of all clusters. k: elements along k. first, pitch: bytes at which A, and each row of it, starts later.
        clusters: of the grid. cluster: the number of the one that is looked at.
    """

    kernel: ProductKernel
    size: int
    tiles: int
    k: int
    first: int = 0
    pitch: int = 0
    clusters: int = 1
    cluster: int = 0

    def __str__(self) -> str:
        others = f", cluster {self.cluster} of {self.clusters}" if self.clusters > 1 else ""
        late = f", rows {self.first} and {self.pitch} bytes late" if self.first or self.pitch else ""
        return f"{self.tiles} tile{'s' * (self.tiles != 1)}, k = {self.k}{late}{others}"

    @property
    def own(self) -> range:
        """Numbers of the cluster's tiles."""
        end = self.scheduler.end(self.cluster) if self.kernel.stream_k else self.tiles
        return range(self.cluster, end, self.clusters)

    def shared_out(self, number: int) -> Tile:
        """Return a tile by stream-K, or the part of one."""
        return self.scheduler.tile(number, 0)

    def shift(self, tile: int) -> int:
        """Return the elements in front of a tile's rows that share a granule with their beginning."""
        if self.kernel.realign != "tiles":
            return 0
        phase, member = tile % self.kernel.tile_phases, tile // self.kernel.tile_phases * self.loose_step
        late = self.first + phase * self.pitch + self.kernel.loose[0] * member
        return late % GRANULE_BYTES // self.size

    @property
    def loose_step(self) -> int:
        """Bytes from member to member that begin anywhere, or as lines of a phase may."""
        slides = self.kernel.slides
        return LOOSE + (GRANULE_BYTES // slides if slides else self.size)

    @property
    def steps(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The bytes from member to member along each axis of A and of B, where those begin anywhere."""
        axes = len(self.members) or bool(self.kernel.groups)
        a, b = ((self.loose_step,) * axes if loose else () for loose in self.kernel.loose)
        return a, b

    def starts_late(self, tile: int) -> bool:
        """Return whether a tile's rows start late in what is loaded first, which a first slice of k alone has."""
        if self.kernel.stream_k:
            return self.shared_out(tile).starts_late
        return self.shift(tile) > 0 and (self.kernel.slices == 1 or tile < self.kernel.tile_phases)

    def k_tiles(self, tile: int) -> int:
        """Return the k-tiles of a tile, of all CTAs that share its k together."""
        if self.kernel.stream_k:
            return self.shared_out(tile).k_tiles
        if self.kernel.ragged == "k":
            begin = self.ends[tile - 1] if tile and self.kernel.clipped else 0
            late = begin % self.kernel.tile[2]
            return max(self.kernel.fewest_k_tiles, -(-(self.k_of(tile) + late) // self.kernel.tile[2]))
        every: int = (
            self.kernel.k_tiles(self.k)
            if self.kernel.slides
            else -(-(self.k + self.shift(tile)) // self.kernel.tile[2])
        )
        if self.kernel.slices == 1:
            return every
        count, left = divmod(every, self.slices)
        return count + (tile // self.kernel.tile_phases < left)

    def k_of(self, group: int) -> int:
        """Return the elements along k of a group that cuts it."""
        return self.k // (1 + group % 2)

    @property
    def ends(self) -> tuple[int, ...]:
        """Where groups end; the last one of rows is said to end in front of where it begins, which is an empty one."""
        if self.kernel.ragged == "k":
            return tuple(accumulate(self.k_of(tile) for tile in range(self.tiles)))
        axis = int(self.kernel.cuts == "n")
        rows = self.kernel.tile[axis] * self.kernel.cluster[axis]
        extents = [0, *[rows - SHORT] * (self.tiles % 2), *[2 * rows - SHORT] * (self.tiles // 2)]
        return (*accumulate(extents), 0)

    @property
    def told(self) -> dict[int, bytes]:
        """What the kernel finds in global memory and its tiles, or what it waits for, hang on, by address."""
        if self.kernel.stream_k:  # whatever others give is there
            warps = self.clusters * self.kernel.cluster_blocks * self.kernel.warpgroups * WARPS
            return {FLAGS: (1).to_bytes(4, "little") * warps}
        return {ENDS: b"".join(end.to_bytes(4, "little") for end in self.ends)} if self.kernel.groups else {}

    @property
    def members(self) -> tuple[int, ...]:
        """The extents of a batch, whose last axis has all members; () of one product."""
        kernel = self.kernel
        return (*(1 for _ in range(kernel.batch - 1)), self.tiles // kernel.tile_phases) if kernel.batch else ()

    @property
    def slices(self) -> int:
        """Of k."""
        return self.tiles // self.kernel.tile_phases if self.kernel.slices > 1 else 1

    @property
    def legal(self) -> bool:
        """Whether each CTA has as many k-tiles as the kernel takes at least, and no more tiles than it takes."""
        least = max(self.kernel.split, self.kernel.fewest_k_tiles)
        return all(self.k_tiles(tile) >= least for tile in self.own) and (
            self.kernel.store != "sums" or len(self.own) == 1
        )

    @property
    def numbers(self) -> tuple[int, ...]:
        """The parameters behind the tensor maps, in their order; scales and hints are none."""
        kernel = self.kernel
        m, n, k = self.extents
        down = kernel.tile_phases if self.members else self.tiles
        along_m = 1 if kernel.cuts == "n" else down
        tiles = (along_m, 1, down)  # along m, along n, and those that neighbours in time share
        steps = (MEMBER for _ in self.members)
        of_b = (self.first, PITCH + self.pitch) if any(kernel.aligned) or kernel.slides else ()
        loose = (step for steps in self.steps for step in steps)
        found = (m, n, k, *tiles, self.first, PITCH + self.pitch, RESULT, RESULT_PITCH, *(0,) * 4)
        groups = (ENDS, len(self.ends)) if kernel.groups else ()
        apart = (RESULT_STEP,) if kernel.store == "elements" else ()
        shared = (GIVEN, FLAGS) if kernel.stream_k else ()
        return (*found, *self.members, *steps, *apart, *groups, *of_b, *loose, *shared)

    @property
    def extents(self) -> tuple[int, int, int]:
        """How many rows, columns and elements along k there are, of a slice or a member."""
        kernel = self.kernel
        along_m = 1 if kernel.slices > 1 or self.members else self.tiles
        m = along_m * kernel.tile[0] * kernel.cluster[0] * kernel.tile_phases
        k = max(self.ends, default=0) if kernel.ragged == "k" else self.k
        n = kernel.tile[1] * kernel.cluster[1]
        if kernel.cuts == "n":
            return kernel.tile[0] * kernel.cluster[0], max(self.ends), k
        return max(self.ends) if kernel.cuts == "m" else m, n, k

    @property
    def scheduler(self) -> TileScheduler:
        """How it gives tiles out."""
        down = self.kernel.tile_phases if self.members else self.tiles
        along_m = 1 if self.kernel.cuts == "n" else down
        found = TileScheduler(
            self.kernel, self.k, self.size, along_m, 1, down, self.first, PITCH + self.pitch, self.slices
        )
        m, n, k = self.extents
        a, b = (k if major == "MN" else own for major, own in zip(self.kernel.majors, (m, n), strict=True))
        found = replace(found, members=self.members, b_address=self.first, b_pitch=PITCH + self.pitch)
        found = replace(found, steps=self.steps, lines=(a, b), clusters=self.clusters)
        return replace(found, rows=max(self.ends, default=0), ends=self.ends) if self.kernel.groups else found

    @property
    def blocks(self) -> dict[str, int]:
        """The grid, and the first CTA of the cluster."""
        each = self.kernel.cluster_blocks
        return {"%nctaid.x": self.clusters * each, "%ctaid.x": self.cluster * each}

    @property
    def values(self) -> Values:
        """Of the program's symbols: one for each turn of the loop over tiles where tiles differ."""
        own, kernel = self.own, self.kernel
        if kernel.ping_pong:
            pairs = len(own) // 2
            found: Values = {"tiles of each consumer": pairs, "last tile": len(own) % 2}
            of_each = {of: own[i : 2 * pairs : 2] for i, of in enumerate(OF_PAIR)}
            of_each[OF_LAST] = own[-1:] if len(own) % 2 else range(1)
        elif kernel.stream_k:
            given = sum(self.shared_out(number).place >= 0 for number in own)
            found = {GIVEN_TILE.name: given, "tiles": len(own) - given}
            of_each = {OF_GIVEN: own[:given], OF_PAIR[0]: own[given:]}
        else:
            found, of_each = {"tiles": len(own)}, {OF_PAIR[0]: own}
        for of, tiles in of_each.items():
            counts = tuple(self.k_tiles(tile) // kernel.split - kernel.fewest_k_tiles for tile in tiles)
            late = tuple(int(self.starts_late(tile)) for tile in tiles)
            found[f"further k-tiles{of}"] = _one_or_all(counts)
            if kernel.slides:
                found[f"later phases{of}"] = kernel.slides - 1
                found[f"further k-tiles{LATER}{of}"] = _one_or_all(counts)
            found[f"rows that start late{of}"] = _one_or_all(late)
        found["k-tiles left over"] = self.k_tiles(own[0]) % kernel.split if own else 0
        return found


def _one_or_all(numbers: tuple[int, ...]) -> int | tuple[int, ...]:
    return max(0, *numbers, 0) if len(set(numbers)) < 2 else numbers


def launches(kernel: ProductKernel, size: int, *, few: bool = False) -> Iterator[Launch]:
    """Yield launches of a kernel: 0 to 3 tiles of a cluster, each with as few k-tiles as it takes and more.

    With one tile there are all counts of k-tiles of a CTA up to twice the stages and one more, or, where `few` are
    asked for, the least and one in which the ring comes round; with more tiles a few that differ in where the ring
    ends. CTAs that split k take turns in how many of them have one more.

    Args:
        kernel: that is launched.
        size: bytes of an element of A.
        few: whether one of a kind is enough.
    """
    depth, least, stages = kernel.tile[2], kernel.fewest_k_tiles, kernel.stages
    in_phases = kernel.tile_phases if kernel.slices > 1 or kernel.batch else 1

    def of_all(count: int, tiles: int) -> int:
        """Return k-tiles of a split's CTAs, or of all slices, together: each has so many, and some one more."""
        parts = tiles if kernel.slices > 1 else kernel.split
        return parts * count + count % parts

    most, round_ = 2 * stages + 1, max(least, stages + 1)
    counts = sorted({least, round_}) if few else [*range(least, max(most, least) + 1)]
    tried = [(1, 1, 0, count) for count in counts]
    if kernel.store != "sums":
        some = sorted({max(least, one) for one in ([round_] if few else [least, stages, round_, most])})
        many = (2,) if in_phases > 1 else (2, 3)  # each is as many as there are phases
        tried += [(tiles, 1, 0, count) for tiles in many for count in some]
        tried += [] if few else [(1, 2, 1, least), (3, 2, 0, round_), (3, 2, 1, round_)]  # no tile, two, and one
    if kernel.stream_k:  # a tile of two clusters, of three, and two tiles of three
        cut = 3 * LEAST_SHARE + 1
        tried += [(1, 2, 0, cut), (1, 2, 1, cut), *([] if few else [(1, 3, 1, cut), (1, 3, 2, cut), (2, 3, 1, cut)])]
    starts = _starts(kernel, size)
    cuts = depth // 2, 2 if kernel.realign == "tiles" else 0  # by which the last k-tile is short
    for number, (tiles, clusters, cluster, count) in enumerate(tried):
        for first, pitch in starts[-1:] if few else starts:
            k = max(1, kernel.slides) * of_all(count, tiles) * depth - cuts[number % 2]
            one = Launch(kernel, size, tiles * in_phases, k, first, pitch, clusters, cluster)
            if one.legal:
                yield one


def _starts(kernel: ProductKernel, size: int) -> list[tuple[int, int]]:
    """Return bytes at which A starts later than a granule, and each row than the one before.

    With the last of those of tiles, rows of the first tile start latest, which may take a k-tile more, those of the
    second begin their granules, and those of the third start an element late.
    """
    if kernel.realign == "tiles":
        return [(0, 0), (size, 0), (GRANULE_BYTES - size, size)]
    if kernel.slides:  # as late as phases leave it
        step = GRANULE_BYTES // kernel.slides
        return [(0, step), (GRANULE_BYTES - step, 3 * step)]
    return [(size, size)] if kernel.realign == "registers" else [(0, 0)]
