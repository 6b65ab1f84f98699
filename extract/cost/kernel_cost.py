"""What persistent kernels of products are predicted to take, relayouts in front included.

Rates were fitted to 6,700 times of 1,070 products on an H200, most of them random shapes by random kernels
(`bench.gpu.dense`, `bench.gpu.gemm`), and to 1,186 of 127 products; those that all kernels share then again to 2,475
times of 227 random products on an H100, since launches overlap and L2 fetches 128 bytes. How far predictions are off:
the judgements of these two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from legalsat.extract.cost import shared_out
from legalsat.extract.cost.cost import NOMINAL, RELAID_BESIDE, SECTOR_BYTES, relayout_nanoseconds
from legalsat.extract.cost.kernel_columns import KernelColumns, Numbers
from legalsat.extract.cost.matrices import LINE, count_of, crossed, is_granular, moved_for_each, steps_apart
from legalsat.extract.kernels.product_maps import laid, sides
from legalsat.extract.kernels.reads import axes_read
from legalsat.extract.moved.relayouts import MEANS, relayout_times
from legalsat.operators.gemm import Gemm
from legalsat.operators.members import OPERANDS
from legalsat.plans.product_cost import ProductCost
from legalsat.plans.product_kernel import BLOCK_ROWS, SUM_BYTES, WOVEN_BESIDE, ProductKernel
from legalsat.targets import GRANULE_BYTES, Target

LAUNCH = 3164.0  # nanoseconds of a launch, its first loads and its last stores
CLOCK = 1.66  # cycles a nanosecond under load
SPARED = 0.165  # more of them, where no processor has work: clocks fall less
WARM = 0.168  # of the time, for each e-fold of work beyond that much: clocks fall as the power limit is met
WARM_FLOPS = 1.5e12
FLOPS = 989e12 / 132  # of bf16 a second and processor, of the GPU that the rates were fitted on
# A through registers: shared memory is busier, the more so the narrower the tile; of what loads take such kernels wait
# for a part, and for some cycles more a turn where CTAs share B alone (144 kernels of 56 products, both GPUs).
REALIGNED, REALIGNED_COLUMNS = 0.66, 93.0
REALIGNED_LOAD, REALIGNED_SHARED_B = 0.91, 78.6
# Likewise of lines that are woven, of which lanes read halves of words, all of what loads take (55 kernels of 14
# products, an H200): what shared memory serves, in multiples of what is multiplied.
WOVEN, WOVEN_COLUMNS, WOVEN_ROWS = 0.2, 140.0, 32.0
# More where each consumer has two blocks of 64 rows, as tiles of more rows have, and so many times as long to store
# them (101 kernels of 34 products, an H200): off by 1.03 then, predicted 0.92 of the time without.
WOVEN_TWICE, WOVEN_ONCE, STORED_TWICE = 0.12, 192, 1.4
# Likewise of groups, whose rows are columns of C^T (31 kernels of 5 products, an H200).
REALIGNED_GROUPED, REALIGNED_GROUPED_COLUMNS = 0.45, 95.0
CROSSED = 0.23  # of a row's requests, for one that lies in two lines
CROSSED_SECTOR = 0.305  # more, where rows begin at any granule: every second one has a sector of 32 bytes more
STORED_CROSSED = 0.82  # of C's bytes, likewise: lines that are written in parts are read first
STORED_SECTOR = 0.747  # more, where rows begin at any granule: sectors of 32 bytes are written in parts
LAPPED_SHARE = 1.55  # of that, what tiles save that lap by a sector: lines of whole sectors are not all read first
# Less of C's bytes, where tiles one after the other write parts of the same lines, as L2 still has them: kernels of 128
# random products are predicted to take 0.984 of the time so, and 16 held-out ones took 0.984 of it on an H100.
STORED_BESIDE, BESIDE = 0.15, 2  # and tiles along m that neighbours in time share then, or fewer
LOAD_BYTES = 47.0  # a cycle and processor, from L2, while all load
ALONE = 0.716  # of what a load takes then, while few do
# A cycle and processor that arrive, of its own requests and of what others send it: small tiles in large clusters wait
# for that (3,063 kernels of 1,200 products, both GPUs, half of the products kept apart).
ARRIVED_BYTES = 86.0
# Likewise, of groups of rows (121 kernels of 16 products, an H100). Less would fit a little better, but narrower tiles
# win then that were not timed.
LOAD_GROUPED = 0.82
CACHE_BYTES = 19586.0  # a nanosecond from L2, of all processors
EMPTY_BYTES = 1862.0  # likewise, of zeros beyond an operand that go to several CTAs
# Lines of 128 bytes that shared memory serves in a cycle where a warpgroup aligns operands in it: then boxes, what is
# aligned, twice, and what instructions read, of A once for 64 columns and of B once for 64 rows, wait for each other.
# Fewer beside tiles of 64 rows, for each of which more is aligned than multiplied (12 kernels of 12 products, an H200).
SHARED_LINES, SHARED_LINES_HALF = 1.1, 0.75
SHARED_LOAD = (
    0.213  # more, of what loads take, which then wait for what is aligned (49 kernels of 40 products, an H100)
)
# A cycle, by boxes without a swizzle, which bring lines that are aligned (36 kernels of 24 batches on an H100).
ENGINE_BYTES = 18.0
LATENCY, REMOTE = 969.0, 63.0  # nanoseconds from a stage's release until it is full; more where a cluster shares it
FILLING = 0.745  # of what its load takes, besides
# Cycles in which sums slide to the columns of another phase of k, of a tile and of its columns of 64 rows each (85
# kernels of 27 products on an H100).
SLIDE, SLIDE_SUMS = 230.0, 2.03
SHARED_CYCLES = 33.3  # a turn along k, of CTAs that share loads
STORED_BYTES = {"once": 24.8, "overlapped": 47.0, "in turns": 38.8, "apart": 24.9}  # of C a cycle and processor
STORED_TURNED = 1.15  # times as long, by boxes of turned tiles
STORED_ALONE_BUFFER = 1.1  # likewise, through one buffer
# Times as long, without boxes: behind the next tile's first turns, which wait for the consumers' instructions; where
# nothing is multiplied meanwhile; and where another consumer multiplies (490 kernels of 180 illegal products and
# batches, the best predicted of each way among them, an H200: `ways_h200.json`).
STORED_BY_THREADS = 1.75
STORED_BY_THREADS_APART = 1.25
STORED_BY_THREADS_IN_TURNS = 0.75
STORED_BY_THREADS_HALF = 0.81  # likewise, of tiles of 64 rows
ALONE_IN_TURNS = 9.5  # bytes of C a cycle and processor that a consumer stores so, where it is waited for
STORED_BY_THREADS_OF_GROUPS = 1.5  # likewise, of groups of rows (`bench.gpu.members`)
# Likewise by threads of turned tiles, whose columns of 64 rows have ends, and where nothing is multiplied meanwhile.
STORED_BY_COLUMNS, STORED_BY_COLUMNS_APART = 2.6, 2.2
# Sectors a nanosecond, of all processors, that L2 is written in parts: of turned tiles whose rows are of one phase, in
# which every eighth element, fourth or second is a tile's (49 kernels of 13 products on an H100).
APART_SECTORS = 97.5
STORED_AS_SUMS = 2.83  # times as long, through all accumulators where C has whole granules
STORED_ALONE = 17.0  # likewise where it has none: element by element
BEGUN_ANEW = 2300.0  # nanoseconds from one tile to the next then, as a CTA has one alone (4 kernels, an H200)
# Boxes of C whose rows are no whole lines, by bytes of a row: longer from shared memory, and more of C's bytes.
NARROW_BOXES = {128: (0.0, 0.0), 64: (0.131, 0.87), 32: (0.919, 2.01)}
DRAM_SHARE = 0.819  # of the datasheet's bandwidth
WRITTEN_SHARE = 1.56  # of that, since what is written waits in L2
# Likewise, of groups along k, each of which writes a C: more than waits there (91 kernels of 28 products, both GPUs).
WRITTEN_CUT = 1.0
KEPT_SHARE = 0.185  # of L2 that keeps an operand for the next wave of tiles
SPLIT = 1204.0  # nanoseconds in which a cluster meets twice
SPLIT_BYTES = 0.0531  # nanoseconds a byte of sums, to write them and to add up what others wrote
# Likewise, where A is realigned in registers, and times as long where rows of phases are added up along rows (37
# kernels of 25 products, both GPUs).
SPLIT_REALIGNED, SPLIT_SCATTERED = 3000.0, 1.5
# Of the kernel behind that adds slices up (180 kernels of 110 products, an H200).
SUMMED_LAUNCH = 2600.0
SUMMED_SHARE = 0.729  # of the datasheet's bandwidth, for what it reads and writes
TURN, OVERLAP = 10.2, 3.39  # the norms in which what happens at once adds up: in a turn along k, and in all
UNFILLED = 0.6  # of a tile, of each group of rows, on the average of routings (340 kernels of 49 products, both GPUs)
ROUNDING = 0.1  # of predicted nanoseconds


@dataclass(frozen=True, slots=True)
class Products:
    """Products that differ in extents alone.

    Attributes:
        m, n, k: extents; those of k that groups cut are a group's, on the average.
        crossed: what is requested of A, of B and of C beyond their bytes, of those, since rows of boxes cross lines.
        parted: what is of that since sectors of C are written in parts.
        granular: whether rows of C begin at whole granules.
        matrices: how many of A, of B and of C there are: members of a batch share what they read alike.
        scattered: bytes that DRAM moves for each one of A and of B that is read to be laid out anew, and of C.
        apart: bytes from row to row of C, and from column to column, where no elements lie side by side; else 0.
        groups: of rows, each with a B of its own; 0 where rows are not grouped.
        cut: groups along k, each with a C of its own; 0 where k is not cut.
        size, result_size: bytes of elements. constant_b: whether B is.
    """

    m: Numbers
    n: Numbers
    k: Numbers
    crossed: tuple[Numbers, Numbers, Numbers]
    parted: Numbers
    granular: Numbers
    matrices: tuple[Numbers, Numbers, Numbers]
    scattered: tuple[Numbers, Numbers, Numbers]
    apart: tuple[Numbers, Numbers]
    groups: Numbers
    cut: Numbers
    size: int
    result_size: int
    constant_b: bool

    @staticmethod
    def of(gemms: Sequence[Gemm], target: Target) -> Products:
        """Return products of one class."""
        m, n, k = (np.array([getattr(gemm, axis) for gemm in gemms], np.float64) for axis in "mnk")
        held = [(gemm.matrices, gemm.members) for gemm in gemms]
        a, b, c = (np.array([crossed(one[name]) for one, _ in held], np.float64).T for name in "ABC")
        loaded = (CROSSED * a[0] + CROSSED_SECTOR * a[1], CROSSED * b[0] + CROSSED_SECTOR * b[1])
        one, granular = gemms[0], np.array([is_granular(one["C"]) for one, _ in held])
        shared = (one.dtype.bytes, one.out_dtype.bytes, one.constant_b)
        counts = [[count_of(members, name) for _, members in held] for name in OPERANDS]
        of_a, of_b, of_c = np.array(counts, np.float64)
        cut = np.array([members.groups if members.ragged == "k" else 0 for _, members in held], np.float64)
        k, of_a, of_b = k / np.maximum(cut, 1), np.maximum(of_a, cut), np.maximum(of_b, cut)
        groups = np.array([members.groups if members.ragged == "m" else 0 for _, members in held], np.float64)
        crossing = (*loaded, STORED_CROSSED * c[0] + STORED_SECTOR * c[1])
        axes = axes_read(gemms[0].dtype.name, target)
        waste = [[moved_for_each(one[name], members, name, axes) for one, members in held] for name in OPERANDS]
        of_all = np.array(waste[0]), np.array(waste[1]), np.array(waste[2])
        steps = np.array([steps_apart(one["C"]) for one, _ in held], np.float64).T
        matrices = of_a, of_b, of_c
        apart, parted = (steps[0], steps[1]), STORED_SECTOR * c[1]
        return Products(m, n, k, crossing, parted, granular, matrices, of_all, apart, groups, cut, *shared)

    def taken(self, some: list[int]) -> Products:
        """Return some of the products."""
        taken = {name: getattr(self, name)[some] for name in ("m", "n", "k", "parted", "granular", "groups", "cut")}
        (a, b, c), (of_a, of_b, of_c) = ([one[some] for one in many] for many in (self.crossed, self.matrices))
        wasted_a, wasted_b, wasted_c = (one[some] for one in self.scattered)
        down, across = (one[some] for one in self.apart)
        return replace(
            self,
            **taken,
            crossed=(a, b, c),
            matrices=(of_a, of_b, of_c),
            scattered=(wasted_a, wasted_b, wasted_c),
            apart=(down, across),
        )


def kernel_cost(gemm: Gemm, kernel: ProductKernel, target: Target) -> ProductCost:
    """Return what a kernel is predicted to take, and of what that consists."""
    parts = _parts(Products.of([gemm], target), KernelColumns.of((kernel,)), target)
    numbers = {name: round(float(part.flat[0]), 1) for name, part in parts._asdict().items()}
    if kernel.means != MEANS:
        more = relayout_times(gemm, kernel, target) - numbers["relayouts"]
        numbers |= {name: round(numbers[name] + more, 1) for name in ("nanoseconds", "relayouts")}
    return ProductCost(**numbers, padding_bytes=_relaid(gemm, kernel), shared_bytes=kernel.shared_bytes)


def _relaid(gemm: Gemm, kernel: ProductKernel) -> int:
    """Return the bytes that operands take which are laid out anew."""
    pairs = zip(sides(gemm, kernel), kernel.relayouts, strict=True)
    copies = (laid(tensor, first) for tensor, first in pairs if first != "none")
    count = 1 if gemm.members.ragged == "k" else gemm.members.count
    found: int = count * sum(one.lines * one.pitch for one in copies)
    return found


class Parts(NamedTuple):
    """Nanoseconds of kernels, as `ProductCost` has them: in all, and by what takes them."""

    nanoseconds: Numbers
    compute: Numbers
    memory: Numbers
    load: Numbers
    issue: Numbers
    latency: Numbers
    epilogue: Numbers
    relayouts: Numbers


def kernel_times(products: Products, kernels: KernelColumns, target: Target) -> NDArray[np.float64]:
    """Return nanoseconds, one row for each product and one column for each kernel."""
    rounded: NDArray[np.float64] = np.asarray(np.round(_parts(products, kernels, target).nanoseconds, 1), np.float64)
    return rounded


def least_times(products: Products, passes: tuple[bool, bool], target: Target) -> NDArray[np.float64]:
    """Return nanoseconds that no kernel is below, for each product: all processors multiply, and each byte moves once.

    Args:
        products: of one class.
        passes: whether A is laid out anew first, and B.
        target: the GPU.
    """
    device = target.device or NOMINAL
    bandwidth, size = device.memory_bandwidth / 1e9, products.size
    m, n, k = products.m, products.n, products.k
    of_a, of_b, of_c = products.matrices
    compute = of_c * m * n * k * size / 4096 * _slower(target) / device.processors / CLOCK
    written = of_c * m * n * products.result_size / _written_share(products)  # wherever lines begin
    moved = ((of_a * m + of_b * n) * k * size + written * products.scattered[2]) / (bandwidth * DRAM_SHARE)
    each = [
        relayout_nanoseconds((1 + waste) * extent * k * size, bandwidth)  # which no transpose is faster than
        for extent, waste, one, spared in zip(
            (of_a * m, of_b * n), products.scattered[:2], passes, (False, products.constant_b), strict=True
        )
        if one and not spared
    ]
    relayouts = sum(each) - RELAID_BESIDE * (len(each) > 1)
    return np.asarray((compute**OVERLAP + moved**OVERLAP) ** (1 / OVERLAP) + LAUNCH + relayouts - ROUNDING, np.float64)


def _clock(busy: Numbers) -> Numbers:
    """Return cycles a nanosecond, by the share of processors that have work."""
    return CLOCK * (1 + SPARED * (1 - busy))


def _warm(work: Numbers) -> Numbers:
    """Return how many times as long operations take by which a GPU gets warm."""
    return np.asarray(1 + WARM * np.log1p(work / WARM_FLOPS), np.float64)


def _k_tiles(products: Products, kernels: KernelColumns) -> Numbers:
    """Return the k-tiles of a CTA's tile, of groups along k on the average: they end anywhere, and may begin so."""
    k = products.k[:, None]
    turns = np.maximum(1, kernels.slides)  # phases of k, whose last k-tiles are short each
    found = turns * _ceil(_ceil(k, turns), kernels.depth * kernels.split * kernels.slices)
    found = found + kernels.realigned  # whose rows end in a stage more
    cut = np.maximum(1 + kernels.clipped, k / kernels.depth + 0.5 + 0.5 * kernels.clipped)
    return np.where(products.cut[:, None] > 0, cut, found)


def _written_share(products: Products) -> Numbers:
    """Return how many times as fast as it is read memory is written."""
    return np.where(products.cut > 0, WRITTEN_CUT, WRITTEN_SHARE)


def _slower(target: Target) -> float:
    """Return how many times as long a processor multiplies as those that the rates were fitted on."""
    return FLOPS * target.device.processors / target.device.bf16_flops if target.device else 1.0


def _parts(products: Products, kernels: KernelColumns, target: Target) -> Parts:
    """Return nanoseconds, rows for products and columns for kernels."""
    device = target.device or NOMINAL
    processors, bandwidth = device.processors, device.memory_bandwidth / 1e9
    size, swapped, slices = products.size, kernels.swapped, kernels.slices
    result_size = np.where(slices > 1, SUM_BYTES, products.result_size)
    m, n, k, *crossed = (one[:, None] for one in (products.m, products.n, products.k, *products.crossed))
    m, n = np.where(swapped, n, m), np.where(swapped, m, n)
    of_a, of_b, count = (one[:, None] for one in products.matrices)
    of_a, of_b = np.where(swapped, of_b, of_a), np.where(swapped, of_a, of_b)
    groups = products.groups[:, None]
    first, second = np.where(swapped, crossed[1], crossed[0]), np.where(swapped, crossed[0], crossed[1])
    rows, depth, own = kernels.rows, kernels.depth, kernels.blocks
    down, across, split = kernels.down, kernels.across, kernels.split
    together = down * across * split
    fitting = np.array([0, *(device.clusters_at_once(count) for count in range(1, together.max() + 1))])
    at_once = fitting[together] * own

    along = _along((m, n), kernels, groups)
    clusters = along[0] * along[1] * count
    tiles = clusters * together
    steps = _k_tiles(products, kernels)
    rounds = _ceil(clusters, at_once)
    resident = np.minimum(own, _ceil(tiles, processors))
    busy = np.minimum(1.0, tiles / (rounds * resident * processors))  # of processors, on the average of rounds

    cycles = rows * kernels.summed * depth * size / 4096 * _slower(target) * _through_registers(kernels, groups)
    requested = _requested(kernels, m, (first, second)) * depth * size
    waited = np.where(groups > 0, LOAD_GROUPED, np.where(kernels.realigned, REALIGNED_LOAD, 1.0))
    load = requested * resident / LOAD_BYTES * (ALONE + (1 - ALONE) * busy) * waited
    shared, b_alone = down * across > 1, kernels.realigned & (down > 1) & (across == 1)
    # A stage is released when the next one is being multiplied, so that one less than there are is on its way.
    served = _served(kernels) * depth * size / LINE * resident
    latency = ((LATENCY + REMOTE * shared) * CLOCK + FILLING * load) / (kernels.stages - 1)
    brought = _lines_brought(kernels) * depth * size / ENGINE_BYTES * resident
    turn = (
        _norm(
            TURN,
            cycles * resident,
            load,
            (rows + kernels.loaded) * depth * size * resident / ARRIVED_BYTES,
            latency,
            served + (served > 0) * SHARED_LOAD * load,
            brought,
        )
        + SHARED_CYCLES * shared
        + REALIGNED_SHARED_B * b_alone
    )
    longer, more = _narrow_boxes(kernels, result_size)
    store = _stored(products, kernels, result_size, rounds) * (1 + longer)
    store = np.where(groups > 0, store, np.maximum(store, _waited_for(kernels, result_size, steps * turn)))
    slide = np.maximum(0, kernels.slides - 1) * (SLIDE + SLIDE_SUMS * rows / BLOCK_ROWS * kernels.summed)
    compute = rounds * (steps * turn + (store + slide) * resident) / _clock(busy)
    cut = shared_out.cycles_of(kernels, clusters, at_once, steps * turn, store)
    compute = np.where(kernels.stream_k, cut / CLOCK, compute)
    turns = np.where(kernels.stream_k, clusters / at_once, rounds) * steps
    empty = count * _empty((m, n), kernels, along) * depth * size
    from_cache = steps * (tiles * requested / CACHE_BYTES + empty / EMPTY_BYTES)

    read = _read(products, kernels, along, at_once, device.l2_bytes)
    written = count * slices * m * n * result_size * (1 + _parted(products, kernels, along[0]) + more)
    written = written * products.scattered[2][:, None]
    read = read + shared_out.given_bytes(kernels, at_once * together)
    moved = (read + written / _written_share(products)[:, None]) / (bandwidth * DRAM_SHARE)
    total = _norm(OVERLAP, compute, moved, from_cache) * _warm(2 * count * m * n * k) + LAUNCH
    joined = _joined(products, kernels, (m, n), rounds, result_size, bandwidth)
    relayouts = _relayouts(products, kernels, (of_a * m * k, of_b * n * k), bandwidth)
    return Parts(
        total + joined + relayouts,
        turns * turn / CLOCK,
        moved,
        from_cache,
        np.zeros_like(total),
        turns * latency / CLOCK,
        rounds * store * resident / CLOCK + joined,
        relayouts,
    )


def _joined(  # noqa: PLR0917 - columns of a table
    products: Products,
    kernels: KernelColumns,
    extents: tuple[Numbers, Numbers],
    rounds: Numbers,
    result_size: Numbers,
    bandwidth: float,
) -> Numbers:
    """Return nanoseconds beside what all tiles take: of sums of several CTAs or slices, and of what is stored apart."""
    (m, n), slices, in_registers = extents, kernels.slices, kernels.in_registers
    scattered = np.where(in_registers & kernels.swapped, SPLIT_SCATTERED, 1.0)
    sums = kernels.rows * kernels.columns * SUM_BYTES
    split = rounds * (np.where(in_registers, SPLIT_REALIGNED, SPLIT) + sums * SPLIT_BYTES * scattered)
    again = m * n * (slices * SUM_BYTES + products.result_size) / (bandwidth * SUMMED_SHARE)
    found = np.where(kernels.split > 1, split, kernels.by_sums * (rounds - 1) * BEGUN_ANEW)
    found = found + np.where(slices > 1, SUMMED_LAUNCH + again, 0.0) + kernels.stream_k * shared_out.CLEARED
    apart = products.matrices[2][:, None] * m * n * _sectors(products, kernels, result_size)
    return np.asarray(found + apart / APART_SECTORS, np.float64)


def _through_registers(kernels: KernelColumns, groups: Numbers) -> Numbers:
    """Return how many times as long a turn's multiplications take where A goes through registers; else 1."""
    rows, columns = kernels.rows, kernels.columns
    of_groups = REALIGNED_GROUPED + REALIGNED_GROUPED_COLUMNS / columns
    realigned = np.where(groups > 0, of_groups, REALIGNED + REALIGNED_COLUMNS / columns)
    woven = WOVEN + WOVEN_COLUMNS / columns + WOVEN_ROWS / rows + WOVEN_TWICE * (rows > WOVEN_ONCE)
    return np.where(kernels.in_registers, np.where(kernels.woven, woven, realigned), 1.0)


def _along(extents: tuple[Numbers, Numbers], kernels: KernelColumns, groups: Numbers) -> tuple[Numbers, Numbers]:
    """Return how many clusters' tiles lie along both axes of what is computed, those of slices of k below each other.

    Groups end anywhere, so that a part of a tile of each is beyond its end: of rows, which are columns of C^T. As such
    tiles are wide, each group is thought to have one at least.
    """
    (m, n), swapped = extents, kernels.swapped
    rows, columns = kernels.rows * kernels.down, kernels.columns * kernels.across
    down = kernels.slices * kernels.tiles_down(m)
    own_m, own_n = np.minimum(groups, m), np.minimum(groups, n)
    cut_m, cut_n = m / rows + UNFILLED * own_m, np.maximum(n / columns + UNFILLED * own_n, own_n)
    of_rows = groups > 0
    return np.where(of_rows & ~swapped, cut_m, down), np.where(of_rows & swapped, cut_n, kernels.tiles_along(n))


def _relayouts(
    products: Products, kernels: KernelColumns, elements: tuple[Numbers, Numbers], bandwidth: float
) -> Numbers:
    """Return the nanoseconds of kernels in front that lay operands of so many elements out anew."""
    found: Any = np.zeros_like(elements[0] * kernels.rows)
    several = found
    waste_a, waste_b = (one[:, None] for one in products.scattered[:2])
    waste = np.where(kernels.swapped, waste_b, waste_a), np.where(kernels.swapped, waste_a, waste_b)
    for side, count in enumerate(elements):
        # A weight is B, which a kernel that computes C^T takes for its A.
        spared = (kernels.swapped if side == 0 else ~kernels.swapped) & products.constant_b
        passes = (kernels.relaid_b if side else kernels.relaid_a) & ~spared
        exchanged = kernels.transposed_b if side else kernels.transposed_a
        moved = (1 + waste[side]) * count * products.size
        found = found + passes * relayout_nanoseconds(moved, bandwidth, exchanged)
        several = several + passes
    return np.asarray(found - RELAID_BESIDE * (several > 1), np.float64)


def _requested(kernels: KernelColumns, m: Numbers, crossed: tuple[Numbers, Numbers]) -> Numbers:
    """Return what a CTA requests in a turn on the average, in lines of a k-tile's bytes.

    Lines of several spans cross fewer of the cache's for each of them.

    Args:
        kernels: of one class.
        m: rows of what is computed.
        crossed: what is requested of A and of B beyond their bytes, of those, where they are not laid out anew.
    """
    rows = kernels.rows * (1 + kernels.woven * WOVEN_BESIDE / LINE / kernels.spans_a)
    of_a = rows * kernels.filled(m) / kernels.across, kernels.relaid_a, kernels.spans_a, crossed[0]
    of_b = kernels.loaded / kernels.down, kernels.relaid_b, kernels.spans_b, crossed[1]
    found: Any = sum(own * (1 + more * ~relaid / spans) for own, relaid, spans, more in (of_a, of_b))
    return np.asarray(found, np.float64)


def _served(kernels: KernelColumns) -> Numbers:
    """Return the cycles in which shared memory serves a turn of operands that are aligned in it, for a line of k."""
    rows, loaded = kernels.rows, kernels.loaded
    more_a, more_b = (GRANULE_BYTES / LINE / spans for spans in (kernels.spans_a, kernels.spans_b))
    raw = rows * kernels.aligned_a * (1 + more_a) + loaded * kernels.aligned_b * (1 + more_b)
    written = rows * ~kernels.aligned_a + loaded * ~kernels.aligned_b + raw  # by boxes
    moved = raw + rows * kernels.aligned_a + loaded * kernels.aligned_b
    multiplied = rows + rows * kernels.summed / BLOCK_ROWS
    lines = (kernels.aligned_a | kernels.aligned_b) * (written + moved + multiplied)
    return np.asarray(lines / np.where(rows == BLOCK_ROWS, SHARED_LINES_HALF, SHARED_LINES), np.float64)


def _lines_brought(kernels: KernelColumns) -> Numbers:
    """Return what a CTA brings in a turn of operands that are aligned, in lines of a k-tile's bytes."""
    more_a, more_b = (1 + GRANULE_BYTES / LINE / spans for spans in (kernels.spans_a, kernels.spans_b))
    of_a, of_b = kernels.rows * kernels.aligned_a / kernels.across, kernels.loaded * kernels.aligned_b / kernels.down
    return np.asarray(of_a * more_a + of_b * more_b, np.float64)


def _empty(extents: tuple[Numbers, Numbers], kernels: KernelColumns, along: tuple[Numbers, Numbers]) -> Numbers:
    """Return how many rows beyond A and B all clusters bring to several of their CTAs, in a turn along k.

    Such zeros take long where many clusters have them at once, as with a narrow C, or a flat one. Those of one CTA, and
    those of the last of many clusters, were not seen to take any time.

    Args:
        extents: of what is computed.
        kernels: of one class.
        along: clusters' tiles.
    """
    slices, down, across = kernels.slices, kernels.down, kernels.across
    rows = np.maximum(0.0, along[0] * kernels.rows * down - slices * extents[0])  # of all slices of k
    columns = np.maximum(0.0, along[1] * kernels.step * across + kernels.lap - extents[1])
    return np.asarray(rows * along[1] * (across > 1) + columns * along[0] * (down > 1), np.float64)


def _read(
    products: Products, kernels: KernelColumns, along: tuple[Numbers, Numbers], at_once: Numbers, cache: float
) -> Numbers:
    """Return the bytes of A and of B that DRAM is read for.

    Args:
        products: of one class.
        kernels: of that class.
        along: clusters' tiles of one member.
        at_once: clusters.
        cache: bytes of L2.
    """
    swapped, groups = kernels.swapped, products.groups[:, None]
    m, n, k, of_a, of_b = (one[:, None] for one in (products.m, products.n, products.k, *products.matrices[:2]))
    of_b = np.where(groups > 0, np.minimum(of_b, m), of_b)  # as many groups have rows at most
    extents, different = (np.where(swapped, n, m), np.where(swapped, m, n)), (of_a, of_b)
    found: Any = 0.0
    rounds = along[0] * along[1] / at_once
    for side, of_waves in enumerate(kernels.waves(extents, along, at_once)):
        many = shared_out.read_by_all(kernels, of_waves, extents[side] * along[1 - side], rounds)
        whole = extents[side] * k * products.size
        lost = 1 / (1 + (KEPT_SHARE * cache / whole) ** 2)  # what L2 does not keep is read for each wave
        again = np.where(groups > 0, 0.0, np.maximum(0.0, many * k * products.size - whole) * lost)
        found = found + np.where(swapped, different[1 - side], different[side]) * (whole + again)
    return np.asarray(found, np.float64)


def _stored(products: Products, kernels: KernelColumns, result_size: Numbers, rounds: Numbers) -> Numbers:
    """Return the cycles in which a tile leaves, beyond what is hidden behind the next one."""
    rate = np.where(kernels.overlapped, STORED_BYTES["overlapped"], STORED_BYTES["apart"])
    rate = np.where(kernels.ping_pong, STORED_BYTES["in turns"], rate)
    store = kernels.rows * kernels.columns * result_size / np.where(rounds == 1, STORED_BYTES["once"], rate)
    by_threads = np.where(kernels.overlapped, STORED_BY_THREADS, STORED_BY_THREADS_APART)
    in_turns = np.where(kernels.rows == BLOCK_ROWS, STORED_BY_THREADS_HALF, STORED_BY_THREADS_IN_TURNS)
    in_turns = np.where(products.groups[:, None] > 0, STORED_BY_THREADS_OF_GROUPS, in_turns)
    by_threads = np.where(kernels.ping_pong, in_turns, by_threads)
    # A part of a turned tile that ends with it has columns of the one before, too.
    eights = kernels.columns // 8
    parts = _ceil(eights * result_size, LINE // 8)
    turned = STORED_TURNED * parts * _ceil(eights, parts) / eights
    beside = kernels.overlapped | kernels.ping_pong
    by_columns = np.where(beside, STORED_BY_COLUMNS, STORED_BY_COLUMNS_APART)
    ways = (kernels.by_rows, by_threads), (kernels.turned, turned), (kernels.by_columns, by_columns)
    store = store * np.select([by for by, _ in ways], [longer for _, longer in ways], 1.0)
    store = store * np.where(kernels.buffers == 1, STORED_ALONE_BUFFER, 1.0)
    store = store * np.where(kernels.woven & (kernels.rows > WOVEN_ONCE), STORED_TWICE, 1.0)
    as_sums = np.where(products.granular[:, None], STORED_AS_SUMS, STORED_ALONE)
    return np.asarray(store * np.where(kernels.by_sums & (kernels.split == 1), as_sums, 1.0), np.float64)


def _waited_for(kernels: KernelColumns, result_size: Numbers, multiplied: Numbers) -> Numbers:
    """Return the cycles in which a consumer is waited for that stores rows for longer than the other one multiplies.

    Two tiles take then as long as one of them is stored and multiplied.
    """
    alone = kernels.rows * kernels.columns * result_size / ALONE_IN_TURNS
    return np.asarray((alone - multiplied) / 2 * (kernels.ping_pong & kernels.by_rows), np.float64)


def _parted(products: Products, kernels: KernelColumns, along: Numbers) -> Numbers:
    """Return what is moved beyond C's bytes, of those, as lines of it are written in parts; none are of slices'.

    Args:
        products: of one class, which say what is moved where parts of a line are written long after each other.
        kernels: of that class; tiles that lap write no sector in parts.
        along: clusters' tiles along m: of few all orders are alike.
    """
    crossed = products.crossed[2][:, None] - np.where(kernels.lap > 0, LAPPED_SHARE * products.parted[:, None], 0.0)
    beside = (crossed > 0) & (kernels.group <= BESIDE) & (along > BESIDE)
    return np.asarray(np.where(kernels.slices > 1, 0.0, crossed - STORED_BESIDE * beside), np.float64)


def _sectors(products: Products, kernels: KernelColumns, result_size: Numbers) -> Numbers:
    """Return the sectors of C that are written for each of its elements, where these are written apart.

    Lanes have neighbours in a row of what is computed, which may be C^T.
    """
    apart = kernels.by_columns & (kernels.phases > 1)
    down, across = (np.minimum(one[:, None], SECTOR_BYTES) for one in products.apart)
    steps = apart * kernels.phases * result_size + np.where(kernels.swapped, down, across)
    return np.asarray(steps / SECTOR_BYTES, np.float64)


def _narrow_boxes(kernels: KernelColumns, result_size: Numbers) -> tuple[Numbers, Numbers]:
    """Return how much longer boxes of C take than those of whole lines, and what is written more.

    Where narrow boxes alone would divide a tile, wide ones store some columns twice, and begin anywhere in lines.
    """
    width = kernels.columns * result_size
    row = np.gcd(width, LINE)
    by_boxes = ~(kernels.by_rows | kernels.by_sums | kernels.turned | kernels.by_columns)
    twice = by_boxes & (width > LINE) & (width % (LINE // 2) != 0)
    narrow = by_boxes & ~twice
    longer, more = (sum(narrow * (row == span) * one[i] for span, one in NARROW_BOXES.items()) for i in range(2))
    longer = longer + twice * (LINE * _ceil(width, LINE) / width - 1)
    more = more + twice * NARROW_BOXES[LINE // 2][1]
    return np.asarray(longer, np.float64), np.asarray(more, np.float64)


def _norm(power: float, *parts: Numbers) -> Numbers:
    """Return how long parts take that run at once, as one waits for another now and then."""
    return np.asarray(sum(part**power for part in parts) ** (1 / power), np.float64)


def _ceil(value: Numbers, by: Any) -> Numbers:
    return np.asarray(np.ceil(value / by))
