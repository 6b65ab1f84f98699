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
from legalsat.plans.product_kernel import ALIGNER_REGISTERS, BLOCK_ROWS, ISSUER_REGISTERS, WARPGROUP, ProductKernel
from legalsat.targets import GRANULE_BYTES, Target

STEP = 8  # setmaxnreg counts in these, and gives 24 at least (PTX ISA 9.0, 9.7.19.5 setmaxnreg)
LEAST = 24
MOST_TAKEN = 232  # by consumers
MOST_KEPT = 40  # by a producer that needs no more, alone on its SM: so kernels were measured
UNUSED = 2  # of what is given: ptxas spills before it uses the last two, in every role that is short of registers
INSTRUCTION = 26  # that ptxas asks for beside the accumulators of one wgmma, before any setmaxnreg (C7602)
SPREAD = 8  # what the compiler may use beyond a prediction: asked where nothing forces a kernel to use so many
SETS = 2  # of fragments, which take turns
FRAGMENT = 4  # words of A of an instruction, a thread
STEPS = ROW_BYTES // 32  # instructions along k of a k-tile


@dataclass(frozen=True, slots=True)
class Beside:
    """What the compiler needs beside what a program keeps, in registers a thread; fitted.

    Attributes:
        accumulator: below it: addresses, ring state and coordinates. The compiler puts it at R24.
        held: beside an accumulator and what is held of the tile before. rank: more, for other CTAs' barriers.
        block: more for each block of 64 rows but the first, whose rows of C lie elsewhere.
        rows: beside sums that leave by rows: addresses in C and in shared memory, both ends of a row.
        peers: beside sums that are read of all CTAs that split k.
        realigned: beside fragments and where rows of A start.
        producer: the tile scheduler, ring state, coordinates, most of them in uniform registers.
        shares: more, where others load or share the tile: what depends on the rank is in no uniform register.
        phases: more, where a CTA with a rank loads rows of A by many maps.
        lines: more, where lines that are aligned are loaded by many maps.
    """

    accumulator: int = 24
    held: int = 20
    rank: int = 2
    block: int = 5
    rows: int = 32
    peers: int = 23
    realigned: int = 16
    producer: int = 12
    shares: int = 16
    phases: int = 12
    lines: int = 36


BESIDE = Beside()


@dataclass(frozen=True, slots=True)
class Work:
    """What decides the registers of a kernel's roles: numbers, or columns of them, of which each row is a kernel.

    Attributes:
        blocks: of 64 rows that a consumer multiplies. columns: of an accumulator.
        starts: words that say where rows of A start, of all blocks; 0 where A does not go through registers.
        split: CTAs that split k. alone: whether a CTA has no cluster.
        sums, rows: whether C leaves through sums in shared memory, and by threads otherwise.
        aligning: whether operands are aligned in shared memory.
    """

    blocks: Any
    columns: Any
    starts: Any
    split: Any
    alone: Any
    sums: Any
    rows: Any
    aligning: Any = False

    @staticmethod
    def of(kernel: ProductKernel) -> Work:
        """Return what decides the registers of a kernel."""
        rows = kernel.tile[0]
        return Work(
            rows // BLOCK_ROWS // (1 if kernel.ping_pong else kernel.warpgroups),
            kernel.summed,
            int(starts_of_rows(kernel.phases)) if kernel.realign == "registers" else 0,
            kernel.split,
            kernel.cluster_blocks == 1,
            kernel.store == "sums",
            kernel.in_rows or kernel.store == "columns",
            any(kernel.aligned),
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
    kept = np.where(mending, np.maximum(MOST_KEPT, -(-(producer + UNUSED) // STEP) * STEP), MOST_KEPT)
    whole = each * (warpgroups + 2 + mending) - ISSUER_REGISTERS - ALIGNER_REGISTERS * mending
    taken = np.minimum((whole - kept) // warpgroups // STEP * STEP, MOST_TAKEN)
    # A warp's 16 rows of two columns are one of each of 32 threads. What comes at once, ptxas spills of where a launch
    # gives no more (256 columns of 128).
    fetched = np.where(by_threads, columns, np.minimum(columns, ROW_BYTES)) // 2
    enough = (taken >= fetched + BESIDE.accumulator + BESIDE.rows + UNUSED) & (fetched < each)
    return np.where(enough, taken, 0), np.where(enough, kept, 0)


def starts_of_rows(phases: Any) -> Numbers:
    """Return the words that say where a lane's rows of A start, where A goes through registers.

    Of rows g and g + 8 six places each, and how far to shift, for all blocks of 64 rows that have these phases there.
    """
    return np.asarray((6 + 1) * 2 * (phases // 8))


def predicted(kernel: ProductKernel, result_bytes: int, beside: Beside = BESIDE) -> tuple[int, int]:
    """Return the registers a thread that consumers and the producer are predicted to use.

    Args:
        kernel: how a product is computed; `kernel.registers` is not read.
        result_bytes: of an element of C.
        beside: what the compiler needs.
    """
    work = Work.of(kernel)
    consumer = of_consumers(work, result_bytes, kernel.overlapped > 0, beside)
    return int(consumer), int(of_producer(work, beside))


def of_consumers(work: Work, result_bytes: Any, overlapped: Any, beside: Beside = BESIDE) -> Numbers:
    """Return the registers a thread that consumers are predicted to use, in the mainloop or in the epilogue.

    Args:
        work: what decides them.
        result_bytes: of an element of C.
        overlapped: whether a tile is stored while the next is multiplied.
        beside: what the compiler needs.
    """
    sums = work.blocks * work.columns // 2  # of 32 bits: 64 rows of two columns are one of each of 128 threads
    starts = work.starts
    # Two words are read for each that is multiplied, since it may begin in any byte of the first.
    steps = np.where(work.columns <= NARROW_COLUMNS, STEPS, 1)
    realigned = starts + 2 * FRAGMENT * SETS * steps * work.blocks + beside.realigned
    held = sums * result_bytes // 4 + beside.held
    held = held + beside.block * (work.blocks - 1) + np.where(work.alone, 0, beside.rank)
    mainloop = np.where(work.starts, realigned, np.where(overlapped, held, beside.accumulator))
    # Where k is split, a granule of C of every CTA; starts of rows are the same for every tile, and stay.
    reduced = np.where(work.sums, work.split * (GRANULE_BYTES // result_bytes) + beside.peers, 0)
    by_rows = np.where(work.rows & np.logical_not(overlapped), starts + beside.rows, 0)
    found: Numbers = np.maximum(sums + np.maximum(mainloop, by_rows), reduced)
    return found


def of_producer(work: Work, beside: Beside = BESIDE) -> Numbers:
    """Return the registers a thread that the producer is predicted to use; arguments as of `of_consumers`."""
    shares = beside.shares + np.where(work.starts, beside.phases, 0)
    return beside.producer + np.where(work.alone, 0, shares) + np.where(work.aligning, beside.lines, 0)


def launched_registers(warpgroups: Any, blocks: Any, target: Target) -> Any:
    """Return the registers that a launch gives each thread, of which the compiler must find any one instruction's.

    One warpgroup more than those that are given loads.
    """
    return target.registers_per_processor // blocks // (WARPGROUP * (warpgroups + 1)) // STEP * STEP


def solved(  # noqa: PLR0917 - columns of a table
    consumer: Any, producer: Any, warpgroups: Any, blocks: Any, target: Target, mending: Any = 0
) -> tuple[Numbers, Numbers]:
    """Return registers a thread of consumers and of the producer (setmaxnreg), 0 where no split gives them enough.

    As many go to consumers as setmaxnreg lets them have beside a producer that has enough.

    Args:
        consumer: registers that each of the consumers is predicted to use.
        producer: registers that it is predicted to use.
        warpgroups: of consumers; one more is the producer's.
        blocks: CTAs on an SM.
        target: the GPU.
        mending: whether one more warpgroup mends what boxes brought.
    """
    each = launched_registers(warpgroups + mending, blocks, target)
    whole = each * (warpgroups + 1 + mending) - ALIGNER_REGISTERS * mending  # what a launch gives is all there is
    least = np.maximum(LEAST, -(-(producer + UNUSED) // STEP) * STEP)
    taken = np.minimum((whole - least) // warpgroups // STEP * STEP, MOST_TAKEN)
    kept = np.minimum(
        np.maximum(least, np.where(blocks == 1, MOST_KEPT, LEAST)), (whole - warpgroups * taken) // STEP * STEP
    )
    enough = (taken >= np.maximum(consumer + UNUSED, LEAST)) & (each >= ALIGNER_REGISTERS * mending)
    return np.where(enough, taken, 0), np.where(enough, kept, 0)
