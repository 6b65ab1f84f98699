"""The open numbers of a product's forms: tiles, clusters, slices of k, stages, overlap and registers, as one table.

What decides them is a column of numbers for all kernels at once; a kernel itself is made of its row when it is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legalsat.analyses.matrix_layout import matrix_operand, tile_layout
from legalsat.extract.cost.cost import SECTOR_BYTES
from legalsat.extract.cost.kernel_columns import KernelColumns, Numbers
from legalsat.extract.cost.kernel_cost import SUM_BYTES
from legalsat.extract.kernels.for_extents import GROUP
from legalsat.extract.kernels.product_class import MOST_STAGES, NARROW, ProductClass, Side
from legalsat.extract.kernels.product_forms import Form
from legalsat.extract.kernels.product_maps import ROW_BYTES, SPANS, STORE_ROWS, turned_columns
from legalsat.extract.kernels.registers import (
    INSTRUCTION,
    SPREAD,
    Work,
    fetching,
    launched_registers,
    of_consumers,
    of_producer,
    solved,
    starts_of_rows,
)
from legalsat.operators.gemm import matrix_unit
from legalsat.operators.members import Ragged
from legalsat.options import Major
from legalsat.plans.product_kernel import (
    BLOCK_ROWS,
    GROUP_ENTRY_BYTES,
    ISSUED_ROWS,
    LEAST_BOX,
    LINES_ALIKE,
    SLID,
    TURNED,
    WARPS,
    WIDE_BOX,
    ProductKernel,
    row_pitch,
    spans_of,
    tensor_bytes,
)
from legalsat.rules import MULTIPLY_RULES
from legalsat.targets import GRANULE_BYTES, KIB, Target
from legalsat.units.matrix_descriptor import MatrixOperand
from legalsat.units.mma import instruction_of
from legalsat.units.tcgen05 import kind_of, legal_n, operand_type
from legalsat.units.tcgen05_sites import Tcgen05Mma
from legalsat.units.wgmma import columns as legal_columns

# Of B's columns where the matrix unit turns them: others took 1.12 times as long as predicted (46 kernels, an H100).
TURNED_COLUMNS = 16
SYSTEM_BYTES = KIB  # of shared memory that the system keeps for each block (FACTS HW-01)
OVERLAPPED_STAGES = 4
# Of kernels with an end of each tile in a stage of its own: with ten and more no state of theirs repeats soon enough
# to be proven, with six where a cluster shares them, and eight hide all that loads take.
REALIGNED_STAGES, REALIGNED_SHARED_STAGES = 8, 5
FEW_STAGES, BUFFERS = 5, 2  # fewer gain by one more; through which C leaves by boxes otherwise
SHARED = 4  # where a table's rest has bytes of shared memory
SPLITS = (1, 2, 3, 4, 5, 6, 8)
SLICES = (2, 3, 4, 5, 6, 8, 10, 12, 16)
SCALES_OF_ROWS = 16  # registers a thread
SLICE_TURNS = 8  # k-tiles of a slice at least: a tile is stored during the first of the next one's
MOST_CUTS = 10000  # of a form
MOST_COLUMNS = 256  # of a box, and of an instruction
TENSOR_ACCUMULATORS = 2  # tiles' in tensor memory: one is fetched while the next one is summed up
LOADED_MORE = 3  # columns of a tile are as many times those that are loaded beyond it, or more


@dataclass(frozen=True, slots=True)
class Cut:
    """How C is cut, and who computes a tile; the fields are `ProductKernel`'s."""

    rows: int
    columns: int
    warpgroups: int = 2
    ping_pong: bool = False
    cluster: tuple[int, int] = (1, 1)
    split: int = 1
    slices: int = 1
    blocks: int = 1


TEAMS = ((64, 1), (128, 2), (192, 3), (256, 2))  # rows of a tile, and the warpgroups that multiply them
CLUSTERS = ((1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (1, 4), (4, 2), (2, 4))
PAIRS = CLUSTERS[:3]
WIDTHS = range(16, 257, 16)
BETWEEN = range(72, 257, 16)  # columns: of narrower tiles eight more are much, and of larger clusters
# Of any number of columns, since tiles that fill the last round of processors win, and shared by any cluster.
PLAIN_CUTS = (
    *(
        Cut(rows, columns, warpgroups, cluster=cluster)
        for (rows, warpgroups), columns, cluster in product(TEAMS, WIDTHS, CLUSTERS)
    ),
    *(
        Cut(rows, columns, warpgroups, cluster=cluster)
        for (rows, warpgroups), columns, cluster in product(TEAMS, BETWEEN, PAIRS)
    ),
    *(
        Cut(128, columns, ping_pong=True, cluster=cluster)
        for columns, cluster in product((*range(64, 193, 16), *range(72, 193, 16)), PAIRS)
    ),
)
WIDE_CUTS = (*(Cut(128, columns) for columns in WIDTHS[2:]), *(Cut(256, columns) for columns in (64, 96, 112, 128)))
# Of C^T through accumulators in shared memory; narrower ones lost to other kernels where they were predicted to win.
TURNED_CUTS = tuple(one for one in WIDE_CUTS if one.columns >= 96)
# Of groups of rows: clusters gained 1% at most, and lost up to 40% (`bench.gpu.members`).
GROUPED_CUTS = (
    *(Cut(rows, columns, warpgroups) for (rows, warpgroups), columns in product(TEAMS, range(32, 257, 32))),
    *(
        Cut(rows, columns, ping_pong=True)
        for rows, columns in (*product((64,), range(64, 257, 32)), *product((128,), range(64, 193, 32)))
    ),
)
# Of C^T, whose columns are rows of groups. Narrower tiles, and consumers that take turns, were first of no product, and
# took up to 1.7 times as long where few groups have most rows (43 kernels of 4 products, an H200).
TURNED_GROUPED_CUTS = tuple(
    Cut(rows, columns, warpgroups) for (rows, warpgroups), columns in product(TEAMS, range(160, 257, 32))
)
SLICED_CUTS = tuple(
    Cut(rows, columns, warpgroups, cluster=cluster, slices=slices)
    for (rows, warpgroups), columns, cluster, slices in product(
        TEAMS, range(32, 257, 32), ((1, 1), (2, 1), (1, 2), (4, 1), (1, 4)), SLICES
    )
)
# Of lines that are aligned in shared memory, which is what limits them: clusters of eight were no better.
ALIGNED_CUTS = tuple(one for one in PLAIN_CUTS if one.columns % 16 == 0 and one.cluster not in {(4, 2), (2, 4)})
# Of tiles that lap, whose lap narrower ones have too much of. It is computed twice: with more k-tiles that loses more
# than whole sectors gain.
LAPPED_CUTS = tuple(one for one in ALIGNED_CUTS if one.columns >= 128 and one.cluster in PAIRS)
# Narrower ones took longer, and so did those of one phase of rows.
HALF_CUTS = tuple(Cut(64, 256, ping_pong=True, cluster=cluster) for cluster in PAIRS[:2])
LAPPED_TURNS = 8
# Of sums that slide: accumulators have eight columns more.
SLID_CUTS = (
    *(
        Cut(rows, columns, warpgroups, cluster=cluster)
        for (rows, warpgroups), columns, cluster in product(TEAMS, (24, 40, 56, *BETWEEN), PAIRS)
    ),
    *(
        Cut(rows, columns, warpgroups, cluster=cluster)
        for (rows, warpgroups), columns, cluster in product(TEAMS, (56, 120, 184, 248), CLUSTERS[3:])
    ),
    *(Cut(128, columns, ping_pong=True, cluster=cluster) for columns, cluster in product(range(72, 185, 16), PAIRS)),
)
# Of C^T, whose rows no box stores, through accumulators.
SLID_TURNED_CUTS = tuple(
    Cut(rows, columns, cluster=(down, 1)) for rows, columns, down in product((128, 256), BETWEEN, (1, 2, 4))
)
# What shared memory pays for, the less the wider the tile; where C leaves as sums, alone.
REALIGNED_SUMS_CUTS = tuple(one for one in WIDE_CUTS if one.columns >= 192)
# Clusters of more gained no more than of two along each axis (117 kernels of 22 products, an H200).
REALIGNED_CUTS = tuple(
    Cut(rows, columns, warpgroups, cluster=cluster)
    for (rows, warpgroups), columns, cluster in product(TEAMS[1:3], (*WIDTHS[5:], *BETWEEN[2:]), CLUSTERS[:4])
    if cluster != (1, 1) or columns >= 192
)
# Of accumulators in tensor memory, whose instructions have 128 rows each.
TENSOR_CUTS = tuple(
    Cut(warpgroups * ISSUED_ROWS, columns, warpgroups) for warpgroups, columns in product((1, 2), WIDTHS)
)
TENSOR_STORES = frozenset({"tma", "rows", "elements"})  # ways out of C of which each warp has parts of its own


def cuts_of(form: Form, one: ProductClass, unit: str = "wgmma") -> tuple[Cut, ...]:
    """Return the cuts that are open to a form on a matrix unit."""
    if unit == "tcgen05":
        mended = any((*form.aligned, *form.loose, form.clipped, form.splits, form.slices, one.batch, one.groups))
        return TENSOR_CUTS if form.store in TENSOR_STORES and form.realign == "none" and not mended else ()
    wraps = one.ragged == "k" and not form.clipped
    if (any(form.aligned) and not _alignable(form, one)) or ((any(form.loose) or wraps) and one.far):
        return ()
    moved = _realigned(form, one)
    if one.batch and form.splits:
        return ()
    if form.realign == "sums" and (not moved.even or moved.alike == 1):
        return ()  # sums slide by whole phases until the first column is a granule's
    if one.ragged == "m":
        return _cuts_of_groups(form)
    return _single_cuts(form, one)


def _cuts_of_groups(form: Form) -> tuple[Cut, ...]:
    """Return the cuts of a form of groups of rows, which are columns of C^T.

    They begin anywhere, and a box along them begins at whole granules alone (TI-06): so they lie along k. Rows that are
    realigned in registers would each begin a tile in another phase.
    """
    if form.store in {"sums", "lapped"} or form.slices or form.majors[int(form.swapped)] != "K":
        return ()
    if form.swapped:
        return TURNED_GROUPED_CUTS if form.realign == "registers" and form.store in TURNED else ()
    return GROUPED_CUTS if form.realign == "none" else ()


def _realigned(form: Form, one: ProductClass) -> Side:
    """Return the operand that a form realigns, if it realigns one."""
    return one.b if form.swapped == (form.realign != "sums") else one.a


def _alignable(form: Form, one: ProductClass) -> bool:
    """Whether lines of what a form aligns start alike often enough."""
    sides = (one.b, one.a) if form.swapped else (one.a, one.b)
    moved = [side for side, aligned in zip(sides, form.aligned, strict=True) if aligned]
    return one.ragged != "k" and all(side.alike <= LINES_ALIKE for side in moved)


def _single_cuts(form: Form, one: ProductClass) -> tuple[Cut, ...]:
    """Return the cuts of a form of a product whose rows are not grouped."""
    if form.slices:
        return SLICED_CUTS if one.few else ()
    if form.store == "lapped":
        extent = one.m if form.swapped else one.n
        suits = one.result.bytes > 1 and one.turns <= LAPPED_TURNS and extent > NARROW[-1] and not one.ragged
        return (*LAPPED_CUTS, *(HALF_CUTS if form.realign == "none" else ())) if suits else ()
    if form.store != "sums":
        usual = ALIGNED_CUTS if any(form.aligned) else SLID_CUTS if form.realign == "sums" else PLAIN_CUTS
        return REALIGNED_CUTS if form.realign == "registers" else usual
    return _cuts_by_sums(form, one)


def _cuts_by_sums(form: Form, one: ProductClass) -> tuple[Cut, ...]:
    """Return the cuts of a form whose C leaves through all accumulators of a tile."""
    if one.much:
        return ()
    if form.realign == "sums":
        return SLID_TURNED_CUTS
    narrow = _narrow_cuts(one.m if form.swapped else one.n, splits=form.splits)
    if form.splits or (one.down if form.swapped else one.across):
        return narrow
    # Where no box stores rows or columns of C, accumulators are the one way out for tiles of every shape.
    if form.realign == "none" and (one.across if form.swapped else one.down) == 2:
        return narrow
    wide = REALIGNED_SUMS_CUTS if form.realign == "registers" else TURNED_CUTS
    return (*narrow, *(cut for cut in wide if cut not in narrow))


@lru_cache
def _narrow_cuts(extent: int, *, splits: bool) -> tuple[Cut, ...]:
    fitting = min(extent, NARROW[-1])
    widths = {fitting, min(fitting, 64), *((96, 160, 192) if extent > NARROW[-1] else ())}
    ways = SPLITS[1:] if splits else SPLITS[:1]
    return tuple(
        Cut(rows, columns, warpgroups, split=split, blocks=blocks)
        for columns, (rows, warpgroups), split, blocks in product(sorted(widths), ((128, 2), (64, 1)), ways, (1, 2))
    )


@dataclass(frozen=True, slots=True)
class Table:
    """Kernels of a class: forms and, for each row, the number of its form and all that is solved.

    Attributes:
        forms: what rows are kernels of. of: the form of a row.
        columns: what decides how long a kernel takes.
        order: of rows among those that take as long.
        rest: warpgroups, overlapped stages, registers of consumers and of the producer, bytes of shared memory, phases,
            accumulators in tensor memory.
        batch, groups, ragged: as of `ProductKernel`.
    """

    forms: tuple[Form, ...]
    of: Numbers
    columns: KernelColumns
    order: Numbers
    rest: Numbers
    batch: int
    groups: int
    ragged: Ragged

    def __len__(self) -> int:
        return len(self.of)

    def rows_like(self, kernel: ProductKernel) -> list[int]:
        """Return the rows whose tiles are a kernel's."""
        rows, columns, _ = kernel.tile
        found: list[int] = np.flatnonzero((self.columns.rows == rows) & (self.columns.columns == columns)).tolist()
        return found

    def kernel(self, row: int) -> ProductKernel:
        """Return the kernel of a row."""
        form, columns = self.forms[self.of[row]], self.columns
        warpgroups, overlapped, consumers, producer, shared, phases, accumulators = self.rest[:, row].tolist()
        unit, block = ("tcgen05", ISSUED_ROWS) if accumulators else ("wgmma", BLOCK_ROWS)
        tile = (int(columns.rows[row]), int(columns.columns[row]), int(columns.depth[row]))
        bits = 8 * ROW_BYTES // tile[2]
        b_rows, summed = int(columns.loaded[row]), int(columns.summed[row])
        return ProductKernel(
            swapped=form.swapped,
            tile=tile,
            stages=int(columns.stages[row]),
            cluster=(int(columns.down[row]), int(columns.across[row])),
            split=int(columns.split[row]),
            slices=int(columns.slices[row]),
            warpgroups=warpgroups,
            ping_pong=bool(columns.ping_pong[row]),
            blocks=int(columns.blocks[row]),
            group=GROUP,
            majors=form.majors,
            relayouts=form.relayouts,
            realign=form.realign,
            phases=phases,
            store=form.store,
            overlapped=overlapped,
            registers=(consumers, producer),
            a=None
            if form.realign == "registers"
            else _operand((tile[0],) * 2, tile[2], bits, form.majors[0], block, unit),
            b=_operand((summed, b_rows), tile[2], bits, form.majors[1], summed, unit),
            shared_bytes=shared,
            buffers=int(columns.buffers[row]),
            batch=self.batch,
            groups=self.groups,
            ragged=self.ragged,
            aligned=form.aligned,
            loose=form.loose,
            clipped=form.clipped,
            lap=int(columns.lap[row]),
            accumulators=accumulators,
        )


def table_of(forms: Sequence[tuple[int, Form]], one: ProductClass, target: Target) -> Table | None:
    """Return every kernel of some forms, with as many stages as fit; None if there is none.

    Left out is what has uneven boxes, more slices than k-tiles, more registers than there are, or fewer than two
    stages.

    Args:
        forms: with their place in the order of all.
        one: the class of products.
        target: the GPU.
    """
    cuts = [
        (number, MOST_CUTS * place + index, *_numbers(cut))
        for number, (place, form) in enumerate(forms)
        for index, cut in enumerate(cuts_of(form, one, matrix_unit(target)))
    ]
    if not cuts:
        return None
    of, order, *numbers = np.array(cuts).T
    rows, columns, warpgroups, ping_pong, down, across, split, slices, blocks = numbers
    told = np.array([_facts(form, one) for _, form in forms])[of].T
    swapped, registers, tiles, slid, sums, boxed, turned, by_columns, lapped, mn_a, mn_b, alike, *done = told
    relaid_a, relaid_b, transposed_a, transposed_b, aligned_a, aligned_b, clipped = done
    summed, aligning = columns + SLID * slid, aligned_a | aligned_b
    size, result_size = one.dtype.bytes, np.where(slices > 1, SUM_BYTES, one.result.bytes)

    phases = np.where(registers, np.maximum(8, alike), np.where(tiles | slid, alike, 1))
    turns = np.where(slid, -(-one.turns // phases), one.turns)
    starts = np.where(registers, starts_of_rows(phases), 0)
    own = rows // BLOCK_ROWS // np.where(ping_pong, 1, warpgroups)  # blocks of a consumer
    alone, by_rows = down * across * split == 1, boxed + turned + by_columns + sums == 0
    work = Work(own, summed, starts, split, alone, sums, by_rows | (by_columns > 0), aligning)
    scales = SCALES_OF_ROWS * one.by_rows
    needed = of_consumers(work, result_size, overlapped=False) + scales
    cut, wants, how = (rows, summed, warpgroups, blocks), (needed, of_producer(work)), (aligning | clipped, boxed == 0)
    accumulators, consumers, producer, legal = _on_unit(one, target, cut, wants, how)
    # Of lines that are aligned a cluster shares out boxes of their own, and of those across k parts along k.
    wide_a, wide_b = mn_a | aligned_a, mn_b | aligned_b
    unit, unit_b = np.where(wide_a, WIDE_BOX, LEAST_BOX), np.where(wide_b, WIDE_BOX, LEAST_BOX * down)
    loaded = -(-summed // unit_b) * unit_b
    fits = (
        (rows % unit + np.where(wide_a, 0, rows // unit) % across == 0)
        & (loaded <= MOST_COLUMNS)
        & (LOADED_MORE * (loaded - summed) <= summed)
        & ((mn_b == 0) | (summed % TURNED_COLUMNS == 0))
        & legal
        # Of elements of a byte, rows are whole granules, and nobody turns them.
        & ((result_size > 1) | ((columns % GRANULE_BYTES == 0) & (turned + by_columns == 0)))
        & (split <= turns)
        & (consumers > 0)
        & ((registers == 0) | (rows % (8 * phases) == 0))
        # Boxes of C have a swizzle: as wide as the widest, or as the tile.
        & ((boxed == 0) | (columns * result_size % SPANS[-1] == 0) | (columns * result_size > SPANS[0]))
    )
    barriers = 16 + 16 * aligning + 8 * clipped  # bytes a stage
    stage = (rows + loaded) * ROW_BYTES + aligned_a * _line_bytes(rows, mn_a) + aligned_b * _line_bytes(loaded, mn_b)
    output = _output_bytes(rows, columns, warpgroups, result_size, boxed=boxed, turned=turned + by_columns, sums=sums)
    groups = (GROUP_ENTRY_BYTES * (one.groups + 1) if one.groups else 0) + tensor_bytes(accumulators)
    room = np.minimum(target.shared_bytes_per_block, target.shared_bytes_per_processor // blocks - SYSTEM_BYTES)
    stages = np.minimum(MOST_STAGES, (room - groups - output) // (stage + barriers))
    stages = np.where(sums, np.minimum(stages, np.maximum(3, turns + 1)), stages)
    ending = registers & (sums == 0)
    provable = np.where(ending, np.where(alone, REALIGNED_STAGES, REALIGNED_SHARED_STAGES), MOST_STAGES)
    # Each stage of those waits for the next one: with three all but short products took 1.5 times as long.
    stages, least = np.minimum(stages, provable), np.where(registers, 3 if one.ragged else 3 + ending, 2)
    # Boxes of C may leave through one buffer where that makes room for one stage more of few.
    halved = output // 2
    fewer = (room - groups - halved) // (stage + barriers) > stages
    more = (boxed + turned > 0) & (stages < np.minimum(provable, FEW_STAGES)) & fewer

    kept = of_consumers(work, result_size, overlapped=True) + scales + SPREAD <= consumers
    overlapped = kept * (ping_pong + sums + registers + accumulators == 0) * _overlapped(turns, slid > 0)
    depth, group = np.full_like(rows, ROW_BYTES // size), np.full_like(rows, GROUP)
    found = KernelColumns(
        *(swapped > 0, rows, columns, depth, loaded, stages, down, across, split, slices, blocks, ping_pong > 0, group),
        *(
            np.where(tiles, alike, 1),
            registers > 0,
            overlapped + accumulators > 1,
            sums > 0,
            by_rows,
            turned > 0,
            by_columns > 0,
            relaid_a > 0,
            relaid_b > 0,
            transposed_a > 0,
            transposed_b > 0,
            aligned_a > 0,
            aligned_b > 0,
            np.where(aligned_a & mn_a, spans_of(rows), 1),
            np.where(aligned_b & mn_b, spans_of(loaded), 1),
            np.full_like(rows, BUFFERS),
            np.where(slid, phases, 0),
            clipped > 0,
            lapped * (SECTOR_BYTES // result_size),
        ),
    )
    shared = stages * (stage + barriers) + output + groups
    rest = np.stack([warpgroups, overlapped, consumers, producer, shared, phases, accumulators])
    usual, single = np.flatnonzero(fits & (stages >= least)), np.flatnonzero(fits & more & (stages + 1 >= least))
    every = np.concatenate([usual, single])
    if not every.size:
        return None
    late, columns_of, rest = np.arange(len(usual), len(every)), found.taken(every), rest[:, every]
    columns_of.stages[late] += 1
    columns_of.buffers[late] = 1
    rest[SHARED, late] += (stage + barriers - halved)[single]
    return Table(
        tuple(form for _, form in forms),
        of[every],
        columns_of,
        order[every],
        rest,
        one.batch,
        one.groups,
        one.ragged,
    )


def _on_unit(
    one: ProductClass,
    target: Target,
    cut: tuple[Numbers, Numbers, Numbers, Numbers],
    wants: tuple[Numbers, Numbers],
    how: tuple[Numbers, Numbers],
) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Return accumulators in tensor memory, registers of consumers and of the producer, and if an instruction is legal.

    Args:
        one: the class of products.
        target: the GPU.
        cut: rows, columns of an accumulator, warpgroups of consumers, and CTAs on an SM.
        wants: registers that consumers of wgmma, and the producer, are predicted to use.
        how: whether a warpgroup of its own mends what boxes bring, and whether threads store C.
    """
    (rows, summed, warpgroups, blocks), (mending, by_threads) = cut, how
    if target.tcgen05 is not None:
        accumulators = np.minimum(TENSOR_ACCUMULATORS, target.tcgen05.columns // (rows // ISSUED_ROWS * summed))
        consumers, producer = fetching(summed, by_threads, warpgroups, target)
        return accumulators, consumers, producer, np.isin(summed, issued_columns(one.dtype.name, target))
    consumers, producer = solved(*wants, warpgroups, blocks, target, mending)
    legal = np.isin(summed, legal_columns(operand_type(one.dtype.name)))
    legal &= summed // 2 + INSTRUCTION <= launched_registers(warpgroups + mending, blocks, target)
    return np.zeros_like(rows), consumers, producer, legal


def _overlapped(turns: Numbers, slid: Numbers) -> Numbers:
    """Return the stages during which tiles may be stored, of sums that slide those of the first phase."""
    found: Numbers = np.where(
        slid, np.minimum(OVERLAPPED_STAGES, turns - 1), OVERLAPPED_STAGES * (turns > OVERLAPPED_STAGES)
    )
    return found


def _line_bytes(extent: Numbers, across: Numbers) -> Numbers:
    """Return the bytes of granules that hold the lines of tiles, which lie along k or across."""
    found: Numbers = extent * ROW_BYTES + extent * GRANULE_BYTES // np.where(across, spans_of(extent), 1)
    return found


@lru_cache
def _numbers(cut: Cut) -> tuple[int, ...]:
    return (cut.rows, cut.columns, cut.warpgroups, int(cut.ping_pong), *cut.cluster, cut.split, cut.slices, cut.blocks)


def _facts(form: Form, one: ProductClass) -> tuple[int, ...]:
    return (
        form.swapped,
        form.realign == "registers",
        form.realign == "tiles",
        form.realign == "sums",
        form.store == "sums",
        form.store == "tma",
        form.store == "turned",
        form.store == "columns",
        form.store == "lapped",
        *(major == "MN" for major in form.majors),
        _realigned(form, one).alike,
        *(first != "none" for first in form.relayouts),
        *(first == "transpose" for first in form.relayouts),
        *form.aligned,
        form.clipped,
    )


def _output_bytes(
    rows: Numbers,
    columns: Numbers,
    warpgroups: Numbers,
    result_size: Numbers,
    *,
    boxed: Numbers,
    turned: Numbers,
    sums: Numbers,
) -> Numbers:
    """Return the bytes of shared memory through which C leaves, in whole words of 8 bytes."""
    # Sums lie along either axis, in a pitch that spreads them over the banks.
    through_sums = 4 * np.maximum(rows * (columns + 4), columns * (rows + 4))
    warps = warpgroups * WARPS
    by_threads = warps * 8 * row_pitch(columns, result_size)
    by_boxes = warps * 2 * STORE_ROWS * ROW_BYTES
    by_columns = warpgroups * 2 * BLOCK_ROWS * result_size * _turned_columns()[columns // 8, result_size]
    found: NDArray[Any] = np.select([boxed > 0, turned > 0, sums > 0], [by_boxes, by_columns, through_sums], by_threads)
    return -(-found // 8) * 8


@lru_cache
def _turned_columns() -> Numbers:
    """Return `turned_columns` by eighths of the columns of a tile, and by bytes of an element of C."""
    return np.array([[0] * 5, *([0, *(turned_columns(8 * n, size) for size in range(1, 5))] for n in range(1, 33))])


@lru_cache
def _operand(  # noqa: PLR0917 - what is remembered of an operand
    rows: tuple[int, int], depth: int, bits: int, major: Major, block: int, unit: str
) -> MatrixOperand:
    """Return how a matrix unit reads so many rows, of those that boxes with the 128-byte swizzle brought."""
    layout = tile_layout(rows[1], depth, bits, "128B", major)
    return matrix_operand(layout, "128B", bits, unit=unit, major=major, block=block, mn=rows[0])


@lru_cache
def issued_columns(element: str, target: Target) -> tuple[int, ...]:
    """Return the columns that an instruction of tcgen05 with 128 rows may have by the rules, for operands of a type."""
    words = (instruction_of(element, (ISSUED_ROWS, n)) for n in legal_n(kind_of(element, element), 1))
    return tuple(
        word.n
        for word in words
        if not any(d.level == "error" for rule in MULTIPLY_RULES for d in rule.check(Tcgen05Mma(word), target))
    )
