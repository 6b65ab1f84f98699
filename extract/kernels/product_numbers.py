"""The open numbers of a product's forms: tiles, clusters, slices of k, stages, overlap and registers, as one table.

What decides them is a column of numbers for all kernels at once; a kernel itself is made of its row when it is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from legalsat.analyses.matrix_layout import matrix_operand, tile_layout
from legalsat.extract.cost.cost import SECTOR_BYTES
from legalsat.extract.cost.kernel_columns import KernelColumns, Numbers
from legalsat.extract.kernels.for_extents import GROUP
from legalsat.extract.kernels.product_class import MOST_STAGES, ProductClass
from legalsat.extract.kernels.product_cuts import cuts_of, realigned
from legalsat.extract.kernels.product_forms import Form
from legalsat.extract.kernels.product_maps import ROW_BYTES, SPANS, STORE_ROWS, turned_columns
from legalsat.extract.kernels.reads import columns_of, swizzle_of
from legalsat.extract.kernels.registers import (
    FRAGMENT,
    INSTRUCTION,
    SPREAD,
    WOVEN_STARTS,
    Work,
    fetching,
    launched_registers,
    of_consumers,
    of_producer,
    solved,
    spare_of_producer,
    starts_of_rows,
)
from legalsat.operators.gemm import matrix_unit
from legalsat.operators.members import Ragged
from legalsat.options import MAJORS, Major
from legalsat.plans.product_kernel import (
    BLOCK_ROWS,
    GROUP_ENTRY_BYTES,
    ISSUED_ROWS,
    LEAST_BOX,
    SLID,
    SUM_BYTES,
    THROUGH_REGISTERS,
    WARPS,
    WIDE_BOX,
    WOVEN_BESIDE,
    ProductKernel,
    boxes_of_phase,
    row_pitch,
    spans_of,
    tensor_bytes,
)
from legalsat.targets import GRANULE_BYTES, KIB, Target
from legalsat.units.matrix_descriptor import MatrixOperand

# Of B's columns where the matrix unit turns them: others took 1.12 times as long as predicted (46 kernels, an H100).
TURNED_COLUMNS = 16
SYSTEM_BYTES = KIB  # of shared memory that the system keeps for each block (FACTS HW-01)
OVERLAPPED_STAGES = 4
# Of kernels with an end of each tile in a stage of its own: with ten and more no state of theirs repeats soon enough
# to be proven, with six where a cluster shares them, and eight hide all that loads take.
REALIGNED_STAGES, REALIGNED_SHARED_STAGES = 8, 5
WOVEN_STAGES, WOVEN_SHARED_STAGES = 5, 4  # likewise, of what is woven
FEW_STAGES, BUFFERS = 5, 2  # fewer gain by one more; through which C leaves by boxes otherwise
SHARED = 4  # where a table's rest has bytes of shared memory
SLICE_TURNS = 8  # k-tiles of a slice at least: a tile is stored during the first of the next one's
SLID_TURNS = OVERLAPPED_STAGES + 1  # likewise, of a slice's part of each phase of k
MOST_CUTS = 10000  # of a form
MOST_COLUMNS = 256  # of a box, and of an instruction
TENSOR_ACCUMULATORS = 2  # tiles' in tensor memory: one is fetched while the next one is summed up
LOADED_MORE = 3  # columns of a tile are as many times those that are loaded beyond it, or more


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
            if form.realign in THROUGH_REGISTERS
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
            stream_k=bool(columns.stream_k[row]),
        )


class Asked(NamedTuple):
    """What the form and the cut of each row say: what the form does, 0 or 1, and the numbers of the cut."""

    swapped: Numbers
    registers: Numbers
    woven: Numbers
    tiles: Numbers
    slid: Numbers
    sums: Numbers
    boxed: Numbers
    turned: Numbers
    by_columns: Numbers
    lapped: Numbers
    mn_a: Numbers
    mn_b: Numbers
    alike: Numbers
    relaid_a: Numbers
    relaid_b: Numbers
    transposed_a: Numbers
    transposed_b: Numbers
    aligned_a: Numbers
    aligned_b: Numbers
    clipped: Numbers
    loose: Numbers
    rows: Numbers
    columns: Numbers
    warpgroups: Numbers
    ping_pong: Numbers
    down: Numbers
    across: Numbers
    split: Numbers
    slices: Numbers
    blocks: Numbers
    stream_k: Numbers

    @property
    def summed(self) -> Numbers:
        """Columns of an accumulator."""
        return np.asarray(self.columns + SLID * self.slid)


class Solved(NamedTuple):
    """What follows of each row: elements that it loads along n, phases, registers, stages, and bytes.

    A row `fits` by all but its stages, which are `least` and more. Where `more`, it may have one more with one buffer.
    """

    loaded: Numbers
    phases: Numbers
    accumulators: Numbers
    consumers: Numbers
    producer: Numbers
    overlapped: Numbers
    fits: Numbers
    stages: Numbers
    least: Numbers
    more: Numbers
    stage_bytes: Numbers
    output_bytes: Numbers
    fixed_bytes: Numbers


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
        (number, MOST_CUTS * place + index, *cut.numbers)
        for number, (place, form) in enumerate(forms)
        for index, cut in enumerate(cuts_of(form, one, matrix_unit(target)))
    ]
    if not cuts:
        return None
    of, order, *numbers = np.array(cuts).T
    asked = Asked(*np.array([_facts(form, one) for _, form in forms])[of].T, *numbers)
    solved = _solved(asked, one, target)
    usual = np.flatnonzero(solved.fits & (solved.stages >= solved.least))
    single = np.flatnonzero(solved.fits & solved.more & (solved.stages + 1 >= solved.least))
    every = np.concatenate([usual, single])
    if not every.size:
        return None
    late, columns = np.arange(len(usual), len(every)), _columns(asked, solved, one).taken(every)
    columns.stages[late] += 1
    columns.buffers[late] = 1
    shared = solved.stages * solved.stage_bytes + solved.output_bytes + solved.fixed_bytes
    rest = np.stack(
        [
            *(asked.warpgroups, solved.overlapped, solved.consumers, solved.producer, shared),
            *(solved.phases, solved.accumulators),
        ]
    )[:, every]
    rest[SHARED, late] += (solved.stage_bytes - solved.output_bytes // 2)[single]
    told = (of[every], columns, order[every], rest, one.batch, one.groups, one.ragged)
    return Table(tuple(form for _, form in forms), *told)


def _columns(asked: Asked, solved: Solved, one: ProductClass) -> KernelColumns:
    """Return what decides how long kernels take."""
    rows = asked.rows
    return KernelColumns(
        swapped=asked.swapped > 0,
        rows=rows,
        columns=asked.columns,
        depth=np.full_like(rows, ROW_BYTES // one.dtype.bytes),
        loaded=solved.loaded,
        stages=solved.stages,
        down=asked.down,
        across=asked.across,
        split=asked.split,
        slices=asked.slices,
        blocks=asked.blocks,
        ping_pong=asked.ping_pong > 0,
        group=np.full_like(rows, GROUP),
        phases=np.where(asked.tiles, asked.alike, 1),
        in_registers=asked.registers + asked.woven > 0,
        overlapped=solved.overlapped + solved.accumulators > 1,
        by_sums=asked.sums > 0,
        by_rows=_by_rows(asked),
        turned=asked.turned > 0,
        by_columns=asked.by_columns > 0,
        relaid_a=asked.relaid_a > 0,
        relaid_b=asked.relaid_b > 0,
        transposed_a=asked.transposed_a > 0,
        transposed_b=asked.transposed_b > 0,
        aligned_a=asked.aligned_a > 0,
        aligned_b=asked.aligned_b > 0,
        spans_a=np.where((asked.aligned_a | asked.woven) & asked.mn_a, spans_of(rows), 1),
        spans_b=np.where(asked.aligned_b & asked.mn_b, spans_of(solved.loaded), 1),
        buffers=np.full_like(rows, BUFFERS),
        slides=np.where(asked.slid, solved.phases, 0),
        clipped=asked.clipped > 0,
        lap=asked.lapped * (SECTOR_BYTES // _result_bytes(asked, one)),
        woven=asked.woven > 0,
        stream_k=asked.stream_k > 0,
    )


def _by_rows(asked: Asked) -> Numbers:
    found: Numbers = asked.boxed + asked.turned + asked.by_columns + asked.sums == 0
    return found


def _result_bytes(asked: Asked, one: ProductClass) -> Numbers:
    """Return the bytes of an element of what is stored."""
    return np.where(asked.slices > 1, SUM_BYTES, one.result.bytes)


def _solved(asked: Asked, one: ProductClass, target: Target) -> Solved:
    """Return what follows of forms and cuts of a class."""
    rows, columns, warpgroups, blocks, summed = asked.rows, asked.columns, asked.warpgroups, asked.blocks, asked.summed
    aligning, turned = asked.aligned_a | asked.aligned_b, asked.turned + asked.by_columns
    span, result_size = ROW_BYTES // one.dtype.bytes, _result_bytes(asked, one)

    phases = np.where(asked.registers, np.maximum(8, asked.alike), np.where(asked.tiles | asked.slid, asked.alike, 1))
    turns = np.where(asked.slid, -(-one.turns // phases), one.turns)
    starts = np.where(asked.registers, starts_of_rows(phases), WOVEN_STARTS * asked.woven)
    alone = asked.down * asked.across * asked.split == 1
    work = Work(
        blocks=rows // BLOCK_ROWS // np.where(asked.ping_pong, 1, warpgroups),
        columns=summed,
        starts=starts,
        woven=asked.woven * boxes_of_phase(rows),
        split=asked.split,
        down=asked.down,
        across=asked.across,
        sliced=asked.slices > 1,
        sums=asked.sums,
        rows=_by_rows(asked),
        turned=asked.turned,
        by_columns=asked.by_columns,
        phased=asked.tiles * (asked.alike > 1),
        slides=asked.slid,
        lies_across=asked.mn_a,
        lines=asked.aligned_a * (1 - asked.mn_a) + asked.aligned_b * (1 - asked.mn_b),
        spans=asked.aligned_a * asked.mn_a + asked.aligned_b * asked.mn_b,
        loose=asked.loose,
        batch=one.batch > 0 and not one.groups,
        grouped=one.ragged == "m",
        clipped=asked.clipped,
        scaled=one.by_rows,
        stream_k=asked.stream_k,
    )
    accumulators, consumers, producer = _on_unit(asked, work, result_size, target)
    # Of lines that are aligned a cluster shares out boxes of their own, and of those across k parts along k.
    whole_a = asked.mn_a | asked.aligned_a
    unit = np.where(asked.mn_a, span, np.where(asked.aligned_a, WIDE_BOX, LEAST_BOX))
    unit_b = np.where(asked.mn_b, span, np.where(asked.aligned_b, WIDE_BOX, LEAST_BOX * asked.down))
    loaded = -(-summed // unit_b) * unit_b
    fits = (
        (rows % unit + np.where(whole_a, 0, rows // unit) % asked.across == 0)
        & (loaded <= MOST_COLUMNS)
        & (LOADED_MORE * (loaded - summed) <= summed)
        & ((asked.mn_b == 0) | (summed % TURNED_COLUMNS == 0))
        & _issued(asked, one, target)
        # Of elements of a byte, rows are whole granules, and nobody turns them.
        & ((result_size > 1) | ((columns % GRANULE_BYTES == 0) & (turned == 0)))
        & (asked.split <= turns)
        & (consumers > 0)
        & ((asked.registers == 0) | (rows % (8 * phases) == 0))
        & (asked.woven * asked.ping_pong == 0)  # of which none could be proven
        # Boxes of C have a swizzle: as wide as the widest, or as the tile.
        & ((asked.boxed == 0) | (columns * result_size % SPANS[-1] == 0) | (columns * result_size > SPANS[0]))
    )
    lines = asked.aligned_a * _line_bytes(rows, asked.mn_a) + asked.aligned_b * _line_bytes(loaded, asked.mn_b)
    lines += asked.woven * rows * WOVEN_BESIDE // spans_of(rows)
    stage = (rows + loaded) * ROW_BYTES + lines + 16 + 16 * aligning + 8 * asked.clipped  # with its barriers
    output = _output_bytes(asked, result_size)
    groups = (GROUP_ENTRY_BYTES * (one.groups + 1) if one.groups else 0) + tensor_bytes(accumulators)
    room = np.minimum(target.shared_bytes_per_block, target.shared_bytes_per_processor // blocks - SYSTEM_BYTES)
    stages = np.minimum(MOST_STAGES, (room - groups - output) // stage)
    stages = np.where(asked.sums, np.minimum(stages, np.maximum(3, turns + 1)), stages)
    ending = asked.registers & (asked.sums == 0)
    provable = np.where(ending, np.where(alone, REALIGNED_STAGES, REALIGNED_SHARED_STAGES), MOST_STAGES)
    weaving = asked.woven & (asked.sums == 0)
    provable = np.where(weaving, np.where(alone, WOVEN_STAGES, WOVEN_SHARED_STAGES), provable)
    # Each stage of those waits for the next one: with three all but short products took 1.5 times as long.
    stages, least = np.minimum(stages, provable), np.where(asked.registers, 3 if one.ragged else 3 + ending, 2)
    # Boxes of C may leave through one buffer where that makes room for one stage more of few.
    fewer = (room - groups - output // 2) // stage > stages
    more = (asked.boxed + asked.turned > 0) & (stages < np.minimum(provable, FEW_STAGES)) & fewer

    kept = of_consumers(work, result_size, overlapped=True) + SPREAD <= consumers
    busy = asked.stream_k + asked.ping_pong + asked.sums + asked.registers + asked.woven + accumulators
    overlapped = kept * (busy == 0) * _overlapped(turns, asked.slid > 0)
    of_row = (loaded, phases, accumulators, consumers, producer, overlapped)
    return Solved(*of_row, fits, stages, least, more, stage, output, groups)


def _issued(asked: Asked, one: ProductClass, target: Target) -> Numbers:
    """Return whether an instruction has such columns, of operands that lie so."""
    lie, legal = 2 * asked.mn_a + asked.mn_b, np.zeros_like(asked.rows, bool)
    for way in np.unique(lie).tolist():
        majors = MAJORS[way // 2], MAJORS[way % 2]
        legal |= (lie == way) & np.isin(asked.summed, columns_of(one.dtype.name, target, majors))
    return legal


def _on_unit(asked: Asked, work: Work, result_size: Numbers, target: Target) -> tuple[Numbers, Numbers, Numbers]:
    """Return accumulators in tensor memory, and registers of consumers and of the producer: 0 where there are too few.

    Args:
        asked: of forms and cuts.
        work: what decides registers where consumers keep accumulators.
        result_size: bytes of an element that is stored.
        target: the GPU.
    """
    rows, summed, warpgroups = asked.rows, asked.summed, asked.warpgroups
    aligning = (asked.aligned_a | asked.aligned_b) > 0
    if target.tcgen05 is not None:
        accumulators = np.minimum(TENSOR_ACCUMULATORS, target.tcgen05.columns // (rows // ISSUED_ROWS * summed))
        by_threads = asked.boxed == 0
        return accumulators, *fetching(summed, by_threads, warpgroups, target, of_producer(work), aligning)
    mending = aligning | asked.clipped
    wanted = of_consumers(work, result_size, overlapped=False)
    spare = spare_of_producer(work)
    consumers, producer = solved(wanted, of_producer(work), warpgroups, asked.blocks, target, mending, spare)
    of_a = FRAGMENT * (asked.registers | asked.woven)  # which the instruction takes from registers
    fits = summed // 2 + INSTRUCTION + of_a <= launched_registers(warpgroups + mending, asked.blocks, target)
    return np.zeros_like(rows), consumers * fits, producer


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


def _facts(form: Form, one: ProductClass) -> tuple[int, ...]:
    return (
        form.swapped,
        form.realign == "registers",
        form.realign == "woven",
        form.realign == "tiles",
        form.realign == "sums",
        form.store == "sums",
        form.store == "tma",
        form.store == "turned",
        form.store == "columns",
        form.store == "lapped",
        *(major == "MN" for major in form.majors),
        realigned(form, one).alike,
        *(first != "none" for first in form.relayouts),
        *(first == "transpose" for first in form.relayouts),
        *form.aligned,
        form.clipped,
        any(form.loose),
    )


def _output_bytes(asked: Asked, result_size: Numbers) -> Numbers:
    """Return the bytes of shared memory through which C leaves, in whole words of 8 bytes."""
    rows, columns, warpgroups = asked.rows, asked.columns, asked.warpgroups
    boxed, turned, sums = asked.boxed, asked.turned + asked.by_columns, asked.sums
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
    """Return how a matrix unit reads so many rows, of those that boxes brought."""
    swizzle = swizzle_of(bits, major)
    layout = tile_layout(rows[1], depth, bits, swizzle, major)
    return matrix_operand(layout, swizzle, bits, unit=unit, major=major, block=block, mn=rows[0])
