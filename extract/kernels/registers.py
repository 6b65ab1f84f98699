"""Registers a thread of a kernel's consumers and producer, predicted before it is compiled, and setmaxnreg solved.

What a program keeps in registers is counted: accumulators, what is held of the tile before, fragments of A, words
that are read at once. What the compiler adds for addresses, loop state and coordinates was fitted
(`python -m bench.kernels.registers --fit`). Compared with machine code: `python -m bench.kernels.registers`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from legalsat.extract.cost.kernel_columns import Numbers
from legalsat.extract.kernels.kernel_program import NARROW_COLUMNS
from legalsat.extract.kernels.product_maps import ROW_BYTES
from legalsat.logic import round_up
from legalsat.plans.product_kernel import (
    ALIGNER_REGISTERS,
    BLOCK_ROWS,
    ISSUER_REGISTERS,
    LINES_ALIKE,
    WARPGROUP,
    ProductKernel,
)
from legalsat.targets import GRANULE_BYTES, Target

STEP = 8  # setmaxnreg counts in these, and gives 24 at least (PTX ISA 9.0, 9.7.19.5 setmaxnreg)
LEAST = 24
MOST_TAKEN = 232  # by consumers
MOST_KEPT = 40  # by a producer that needs no more, alone on its SM: so kernels were measured
UNUSED = 2  # of what is given: ptxas spills before it uses the last two, in every role that is short of registers
INSTRUCTION = 26  # that ptxas asks for beside the accumulators of one wgmma, before any setmaxnreg (C7602)
MARGIN = 8  # that a producer of odd lines has beyond its prediction, where consumers have as many to spare
SPREAD = 8  # what the compiler may use beyond a prediction: asked where nothing forces a kernel to use so many
WOVEN_STARTS = 4  # words that say where a lane's four lines of a step start, of all blocks and steps
SETS = 2  # of fragments, which take turns
FRAGMENT = 4  # words of A of an instruction, a thread
STEPS = ROW_BYTES // 32  # instructions along k of a k-tile
TOGETHER = 24  # that consumers have to spare where granules of all eight rows of a part are on their way at once
MORE = 15  # that they use then
ROW_LANES, FEW_SPANS = 8, 3  # lanes that share a row's granules, and so many of each find registers of sums
THREE = 3  # consumers, which store at the same time: with all rows at once slower, 1.01 to 1.09 of the time (an H200)
WIDE_ROW = 384  # bytes of a tile's row of C of which each of eight lanes has four granules at once


@dataclass(frozen=True, slots=True)
class Beside:
    """What the compiler needs beside what a program keeps, in registers a thread; fitted.

    Attributes:
        accumulator: below it: addresses, ring state and coordinates. The compiler puts it at R24.
        boxes, turned, columns, rows: beside an accumulator and what is held of the tile before, by how that leaves.
        lay: beside sums that leave by rows: addresses in C and in shared memory, both ends of a row. turn: by columns.
        peers: beside sums that are read of all CTAs that split k.
        realigned: beside fragments and where rows of A start.
        wide: more of a producer for lines that are woven in two boxes of a phase, which it shares with others.
            wide_rows: more for their sums that leave by rows. stored: more for sums of any lines that are woven and
            threads store. uniform: fewer that such a producer uses than it may need.
        apart: more for sums that threads store then, as rows of a phase are no neighbours in C.
        sliding: more for sums that slide by what members that begin anywhere say. phased: more for what is held where
            tiles of one phase leave by wide rows.
        freely: what the compiler takes more where it may, since it keeps addresses that it would work out again
            otherwise: of rows of phases that are not turned, of tiles that a lone consumer turns, of wide rows, and
            again where a lone consumer stores those. member: likewise, for boxes and rows of a batch.
        scales: of rows and columns, or fewer of narrow tiles.
        producer: the tile scheduler, ring state, coordinates, most of them in uniform registers.
        shares: more, where others load or share the tile, or a warpgroup mends it: what depends on the rank is in no
            uniform register. both: more, where they do along m and n.
        batch: more for a member's coordinates. across: more for boxes of A that lie across k and are shared out along
            n alone.
        cleared: more for groups along k that are cleared.
        slides: more, where CTAs with a rank load phases of k.
        phases: more, where CTAs with a rank load rows of A of all phases. alone: more, where each loads all by itself.
        slices: more, where these are cut into slices of k. starts: more, where their members begin anywhere, of which
            are those of both clusters' axes. weights: more, where each group's do.
        lines: at least, for lines along k that are aligned, of which each has a map. operands: more for both operands'.
        spans: more for lines across k. anywhere: more for lines of members that begin anywhere.
        shared_out: more of a producer by stream-K: where the share begins and ends. idle: fewer that it uses than it
            has, with which kernels took 0.996 of the time (25 products, an H200). given: beside sums that are given
            away, or added to: addresses, the share, and what is read at once at least. at_once: beside as many words
            as there are sums, since the compiler reads all that another CTA has given at once where it may.
            given_rows: more then, where C leaves by rows.
    """

    accumulator: int = 24
    boxes: int = 23
    turned: int = 14
    columns: int = 22
    rows: int = 26
    lay: int = 36
    turn: int = 25
    peers: int = 23
    realigned: int = 20
    wide: int = 32
    wide_rows: int = 12
    stored: int = 8
    uniform: int = 15
    apart: int = 12
    sliding: int = 22
    phased: int = 7
    freely: int = 12
    member: int = 5
    scales: int = 16
    producer: int = 13
    shares: int = 15
    both: int = 7
    batch: int = 3
    across: int = 4
    cleared: int = 4
    slides: int = 13
    phases: int = 6
    alone: int = 10
    slices: int = 4
    starts: int = 16
    weights: int = 28
    lines: int = 40
    operands: int = 23
    spans: int = 8
    anywhere: int = 24
    shared_out: int = 26
    idle: int = 22
    given: int = 44
    at_once: int = 14
    given_rows: int = 31


BESIDE = Beside()


@dataclass(frozen=True, slots=True)
class Work:
    """What decides the registers of a kernel's roles: numbers, or columns of them, of which each row is a kernel.

    Attributes:
        blocks: of 64 rows that a consumer multiplies. columns: of an accumulator.
        starts: words that say where rows of A start, of all blocks; 0 where A does not go through registers.
        woven: boxes of each phase of lines of A that are woven; 0 where none are.
        split: CTAs that split k. down, across: CTAs that share B, and A. sliced: whether k is cut into slices.
        sums, rows, turned, by_columns: whether C leaves through sums in shared memory, by threads row by row, by
            boxes of turned tiles, or by threads of these; else by boxes.
        phased: whether tiles have rows of one phase.
        slides: whether sums slide between phases of k. lies_across: whether A lies across k.
        lines: operands whose lines along k are aligned in shared memory. spans: likewise, across k.
        loose: whether members of what is aligned, or realigned in registers, begin anywhere in a granule.
        batch: whether there are members of a batch. grouped: whether there are groups of rows.
        clipped: whether others' k are cleared. scaled: whether rows and columns of C are. stream_k: whether clusters
            have as many k-tiles each.
    """

    blocks: Any
    columns: Any
    starts: Any
    woven: Any
    split: Any
    down: Any
    across: Any
    sliced: Any
    sums: Any
    rows: Any
    turned: Any
    by_columns: Any
    phased: Any
    slides: Any
    lies_across: Any
    lines: Any
    spans: Any
    loose: Any
    batch: Any
    grouped: Any
    clipped: Any
    scaled: Any
    stream_k: Any

    @staticmethod
    def of(kernel: ProductKernel, *, scaled: bool = False) -> Work:
        """Return what decides the registers of a kernel, which may scale rows and columns of C."""
        aligned = [major for major, one in zip(kernel.majors, kernel.aligned, strict=True) if one]
        return Work(
            blocks=kernel.tile[0] // BLOCK_ROWS // (1 if kernel.ping_pong else kernel.warpgroups),
            columns=kernel.summed,
            starts=WOVEN_STARTS if kernel.woven else int(starts_of_rows(kernel.phases)) * kernel.through_registers,
            woven=kernel.boxes[0] // LINES_ALIKE * kernel.woven,
            split=kernel.split,
            down=kernel.cluster[0],
            across=kernel.cluster[1],
            sliced=kernel.slices > 1,
            sums=kernel.store == "sums",
            rows=kernel.in_rows,
            turned=kernel.store == "turned",
            by_columns=kernel.store == "columns",
            phased=kernel.tile_phases > 1,
            slides=kernel.slides > 0,
            lies_across=kernel.majors[0] == "MN",
            lines=aligned.count("K"),
            spans=aligned.count("MN"),
            loose=any(kernel.loose),
            batch=kernel.batch > 0 and not kernel.groups,
            grouped=kernel.ragged == "m",
            clipped=kernel.clipped,
            scaled=scaled,
            stream_k=kernel.stream_k,
        )


def fetching(  # noqa: PLR0917 - columns of a table
    columns: Any, by_threads: Any, warpgroups: Any, target: Target, producer: Any, mending: Any
) -> tuple[Numbers, Numbers]:
    """Return registers a thread of consumers that fetch accumulators from tensor memory, and of the producer.

    0 where they are too few for a part of C: 64 rows of a box, or 8 rows and 8 rows of all columns.

    Args:
        columns: of a tile.
        by_threads: whether threads store C.
        warpgroups: of consumers, one CTA on an SM; one more loads, and one issues.
        target: the GPU.
        producer: registers that it is predicted to use, where one more warpgroup, `mending`, mends what boxes brought.
        mending: whether there is one.
    """
    each = launched_registers(warpgroups + 1 + mending, 1, target)
    kept = np.where(mending, np.maximum(MOST_KEPT, round_up(producer + UNUSED, STEP)), MOST_KEPT)
    whole = each * (warpgroups + 2 + mending) - ISSUER_REGISTERS - ALIGNER_REGISTERS * mending
    taken = np.minimum((whole - kept) // warpgroups // STEP * STEP, MOST_TAKEN)
    # A warp's 16 rows of two columns are one of each of 32 threads. What comes at once, ptxas spills of where a launch
    # gives no more (256 columns of 128).
    fetched = np.where(by_threads, columns, np.minimum(columns, ROW_BYTES)) // 2
    enough = (taken >= fetched + BESIDE.accumulator + BESIDE.lay + UNUSED) & (fetched < each)
    return np.where(enough, taken, 0), np.where(enough, kept, 0)


def starts_of_rows(phases: Any) -> Numbers:
    """Return the words that say where a lane's rows of A start, where A goes through registers.

    Of rows g and g + 8 six places each, and how far to shift, for all blocks of 64 rows that have these phases there.
    """
    return np.asarray((6 + 1) * 2 * (phases // 8))


def predicted(
    kernel: ProductKernel, result_bytes: int, *, scaled: bool = False, beside: Beside = BESIDE
) -> tuple[int, int]:
    """Return the registers a thread that consumers and the producer are predicted to use, of those that they have.

    Args:
        kernel: how a product is computed, and what registers its roles are given.
        result_bytes: of an element of C.
        scaled: whether rows and columns of C are scaled.
        beside: what the compiler needs.
    """
    work = Work.of(kernel, scaled=scaled)
    consumer = _of_kernel(kernel, work, result_bytes, beside) + MORE * rows_together(kernel, result_bytes)
    if kernel.stream_k:
        consumer = max(consumer, work.blocks * work.columns + beside.at_once + beside.given_rows * kernel.in_rows)
    taken, kept = (given - UNUSED for given in kernel.registers)
    # Where lines that are woven go to CTAs along m alone, ptxas mostly finds uniform registers for what it may need.
    uniform = beside.uniform * (work.woven > 0 and work.down > 1 and work.across == 1 and not kernel.stream_k)
    uniform += beside.idle * kernel.stream_k
    return min(consumer, taken), min(int(of_producer(work, beside)) - uniform, kept)


def rows_together(kernel: ProductKernel, result_bytes: int) -> bool:
    """Are granules of all eight rows of a part of C on their way at once, where threads store rows?

    Few of them find registers among those of sums that were stored before, where no other tile's are held.

    Args:
        kernel: how a product is computed, and what registers its roles are given.
        result_bytes: of an element of C.
    """
    granules = kernel.tile[1] * result_bytes // GRANULE_BYTES + (not kernel.lap)
    few = granules <= FEW_SPANS * ROW_LANES and not kernel.overlapped
    used = _of_kernel(kernel, Work.of(kernel), result_bytes, BESIDE)
    spare = used + TOGETHER <= kernel.registers[0] - UNUSED
    return kernel.in_rows and kernel.warpgroups < THREE and (few or spare)


def _of_kernel(kernel: ProductKernel, work: Work, result_bytes: int, beside: Beside) -> int:
    """Return the registers a thread that a kernel's consumers use for this work where they may."""
    return _used(work, result_bytes, kernel.overlapped > 0, kernel.warpgroups == 1, beside)


def _used(work: Work, result_bytes: int, overlapped: bool, lone: bool, beside: Beside) -> int:
    """Return the registers a thread that consumers, or a lone one, use where they may: the compiler takes more."""
    needed, sums = int(of_consumers(work, result_bytes, overlapped, beside)), work.blocks * work.columns // 2
    if overlapped and work.rows:  # less than all of a tile is held when most is needed to store it
        wide = work.columns * result_bytes >= WIDE_ROW
        stored = sums + sums * result_bytes // 8 + beside.accumulator + beside.lay
        return int(max(needed, stored + beside.freely * wide * (1 + lone)))
    if overlapped and work.turned:
        return needed + beside.freely * lone
    woven = work.woven > 0 and work.columns > NARROW_COLUMNS
    apart = work.starts > 0 and not (woven or work.turned or work.sums)
    member = beside.member * work.batch * (work.rows or (overlapped and not work.by_columns))
    scales = max(0, work.columns // 4 - beside.scales) * work.scaled * (not work.rows)  # of all columns of a thread
    return int(needed + beside.freely * apart + member + scales)


def of_consumers(work: Work, result_bytes: Any, overlapped: Any, beside: Beside = BESIDE) -> Numbers:
    """Return the registers a thread that consumers need, in the mainloop or in the epilogue.

    Args:
        work: what decides them.
        result_bytes: of an element of C.
        overlapped: whether a tile is stored while the next is multiplied.
        beside: what the compiler needs.
    """
    sums = work.blocks * work.columns // 2  # of 32 bits: 64 rows of two columns are one of each of 128 threads
    starts = work.starts
    # Two words are read for each that is multiplied, since it may begin in any byte of the first; of what is woven one
    # half goes into the other one's word, unless all steps are read at once.
    narrow = np.asarray(work.columns <= NARROW_COLUMNS)
    steps, words = np.where(narrow, STEPS, 1), np.where(np.asarray(work.woven) * ~narrow, 1, 2)
    realigned = starts + words * FRAGMENT * SETS * steps * work.blocks + beside.realigned
    by_rows = beside.rows + beside.phased * work.phased * (work.columns * result_bytes >= WIDE_ROW)
    ways = (work.rows, by_rows), (work.turned, beside.turned), (work.by_columns, beside.columns)
    held = sums * result_bytes // 4 + np.select(
        [np.asarray(so) > 0 for so, _ in ways], [n for _, n in ways], beside.boxes
    )
    mainloop = np.where(work.starts, realigned, np.where(overlapped, held, beside.accumulator))
    # Where k is split, a granule of C of every CTA; starts of rows are the same for every tile, and stay.
    reduced = np.where(work.sums, work.split * (GRANULE_BYTES // result_bytes) + beside.peers, 0)
    by_threads = np.where(work.rows, beside.lay, np.where(work.by_columns, beside.turn, 0))
    apart = np.where(starts, beside.apart, beside.sliding * work.slides * work.loose)
    apart = np.where(work.woven, beside.stored, apart) + beside.wide_rows * (np.asarray(work.woven) > 1) * work.rows
    stored = (by_threads + starts + apart) * np.logical_not(overlapped)
    given = beside.given * np.asarray(work.stream_k)
    most = np.maximum(sums + np.maximum(np.maximum(mainloop, given), np.where(by_threads, stored, 0)), reduced)
    return np.asarray(most + np.minimum(beside.scales, work.columns // 4) * work.scaled)


def of_producer(work: Work, beside: Beside = BESIDE) -> Numbers:
    """Return the registers a thread that the producer needs; arguments as of `of_consumers`."""
    ranked = work.down * work.across * work.split > 1
    along_m, along_n = np.asarray(work.down > 1), np.asarray(work.across > 1)
    of_a = beside.phases + np.where(along_n, 0, beside.alone) + beside.slices * work.sliced
    many = np.where(work.starts, of_a, beside.slides * work.slides) + beside.wide * (along_n & (work.woven > 1))
    many = many + beside.across * (along_n & ~along_m & (work.slides == 0)) * work.lies_across
    shares = np.where(ranked | (work.clipped > 0), beside.shares, 0)
    shares = shares + beside.both * (along_m & along_n & np.logical_not((work.starts > 0) & (work.loose > 0)))
    shares = shares + beside.shared_out * np.asarray(work.stream_k)
    found = beside.producer + shares + beside.batch * work.batch + beside.cleared * work.clipped + ranked * many
    lines = np.maximum(found, beside.lines) + beside.operands * (work.lines > 1)
    aligned = np.where(work.lines, lines, found + beside.spans * work.spans)
    anywhere = np.where(work.starts, beside.starts + beside.weights * work.grouped, beside.anywhere * (aligned > found))
    return np.asarray(aligned + work.loose * anywhere)


def spare_of_producer(work: Work) -> Numbers:
    """Return the registers that a producer should have beyond what it is predicted to need; as `of_consumers`.

    Lines that begin anywhere have maps of their own, of which the compiler spills addresses at once where it is short.
    """
    odd = np.asarray(work.phased) | (work.starts > 0) | work.slides | (work.lines > 0) | (work.spans > 0)
    return np.asarray(MARGIN * odd)


def launched_registers(warpgroups: Any, blocks: Any, target: Target) -> Any:
    """Return the registers that a launch gives each thread, of which the compiler must find any one instruction's.

    One warpgroup more than those that are given loads.
    """
    return target.registers_per_processor // blocks // (WARPGROUP * (warpgroups + 1)) // STEP * STEP


def solved(  # noqa: PLR0917 - columns of a table
    consumer: Any, producer: Any, warpgroups: Any, blocks: Any, target: Target, mending: Any = 0, spare: Any = 0
) -> tuple[Numbers, Numbers]:
    """Return registers a thread of consumers and of the producer (setmaxnreg), 0 where no split gives them enough.

    As many go to consumers as setmaxnreg lets them have beside a producer that has enough, and what it should have to
    spare where consumers keep as much.

    Args:
        consumer: registers that each of the consumers is predicted to use.
        producer: registers that it is predicted to use.
        warpgroups: of consumers; one more is the producer's.
        blocks: CTAs on an SM.
        target: the GPU.
        mending: whether one more warpgroup mends what boxes brought.
        spare: registers that the producer should have beyond those.
    """
    each = launched_registers(warpgroups + mending, blocks, target)
    whole = each * (warpgroups + 1 + mending) - ALIGNER_REGISTERS * mending  # what a launch gives is all there is
    least = np.maximum(LEAST, round_up(producer + UNUSED, STEP))
    needed = np.maximum(consumer + UNUSED, LEAST)
    fewest, sparing = (
        np.minimum((whole - one) // warpgroups // STEP * STEP, MOST_TAKEN) for one in (least, least + spare)
    )
    spares = (sparing >= needed + spare) & (least + spare <= each)
    taken = np.where(spares, sparing, fewest)
    kept = np.minimum(
        np.maximum(least + spare * spares, np.where(blocks == 1, MOST_KEPT, LEAST)),
        np.minimum(each, (whole - warpgroups * taken) // STEP * STEP),  # it gives some back, and gets none (C7406)
    )
    enough = (taken >= needed) & (kept >= least) & (each >= ALIGNER_REGISTERS * mending)
    return np.where(enough, taken, 0), np.where(enough, kept, 0)
