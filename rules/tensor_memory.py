"""Rules of tensor memory: how it is allocated and freed, what lies where, and which warp reaches which lanes."""

from __future__ import annotations

from legalsat.logic import all_of, among, any_of
from legalsat.rule import Requirements, Source, require
from legalsat.rules.tcgen05_tiles import TCGEN05
from legalsat.targets import Tcgen05Limits
from legalsat.units.tcgen05_sites import (
    Accumulator,
    Executed,
    KernelGroups,
    PeerUse,
    ScaleFactors,
    TensorMemoryAllocation,
    TensorMemoryCopy,
    TensorMemoryExit,
    TensorMemoryFree,
    TensorMemoryPair,
    TensorMemoryTransfer,
    TensorMemoryUse,
    WarpWide,
)
from legalsat.units.tensor_memory import MULTICASTS
from legalsat.units.tensor_memory_layouts import PARTITION, TRANSFERS, repetitions

_ALLOCATE = "PTX ISA 9.1, 9.7.16.7, tcgen05.alloc"
_MOVE = "PTX ISA 9.1, 9.7.16.8, tcgen05.ld and tcgen05.st"
_MULTIPLY = "PTX ISA 9.1, 9.7.16.10, tcgen05.mma"
_PAIR = "PTX ISA 9.1, 9.7.16.5, CTA pair"
_DATAPATH = "PTX ISA 9.1, 9.7.16.10.5"


def allocation_sizes(tcgen05: Tcgen05Limits) -> tuple[int, ...]:
    """Return the columns that one allocation may have: powers of two from the least to all there are."""
    least, most = tcgen05.allocation_columns, tcgen05.columns
    return tuple(least << i for i in range((most // least).bit_length()))


@TCGEN05.rule(
    "TMEM001",
    Source(_ALLOCATE, "columns").saying("nCols must be within the range [32, 512] ... must be power of 2"),
    refused_by="hardware",
)
def allocation_of_no_size(allocation: TensorMemoryAllocation, tcgen05: Tcgen05Limits) -> Requirements:
    """An allocation has a power of two of columns, 32 to 512."""
    yield require(
        among(allocation.columns, allocation_sizes(tcgen05)),
        "{columns} columns are no power of two from {least} to {most}",
        help="round the columns up to a power of two of at least {least}",
        columns=allocation.columns,
        least=tcgen05.allocation_columns,
        most=tcgen05.columns,
    )


@TCGEN05.rule(
    "TMEM002",
    Source(_ALLOCATE, "columns").saying("blocks if the requested amount of Tensor Memory is not available"),
    refused_by="hardware",
)
def tensor_memory_exceeded(allocation: TensorMemoryAllocation, tcgen05: Tcgen05Limits) -> Requirements:
    """A CTA holds 512 columns at most; whoever asks for more while it holds the rest waits for ever."""
    yield require(
        allocation.held + allocation.columns <= tcgen05.columns,
        "{columns} columns beside {held} exceed the {limit} of tensor memory",
        help="take fewer stages of accumulators, or a smaller tile",
        columns=allocation.columns,
        held=allocation.held,
        limit=tcgen05.columns,
    )


@TCGEN05.rule(
    "TMEM003",
    Source(_ALLOCATE, "columns").saying(
        "should not increase between any two allocations in the execution order within the CTA"
    ),
    refused_by="hardware",
)
def allocation_grows(allocation: TensorMemoryAllocation, tcgen05: Tcgen05Limits) -> Requirements:
    """Of several allocations of a CTA none has more columns than the one before."""
    yield require(
        any_of(allocation.previous == 0, allocation.columns <= allocation.previous),
        "{columns} columns follow an allocation of {previous}",
        help="start with the largest allocation, or merge them into one",
        columns=allocation.columns,
        previous=allocation.previous,
    )


@TCGEN05.rule(
    "TMEM004",
    Source(_ALLOCATE, "relinquished").saying(
        "illegal for a CTA to perform tcgen05.alloc after any of its constituent threads"
    ),
    refused_by="hardware",
)
def allocation_without_permit(allocation: TensorMemoryAllocation, tcgen05: Tcgen05Limits) -> Requirements:
    """A CTA that gave its permit away cannot allocate again."""
    yield require(
        not allocation.relinquished,
        "{columns} columns are allocated after tcgen05.relinquish_alloc_permit",
        help="move the allocation before relinquish_alloc_permit",
        columns=allocation.columns,
    )


@TCGEN05.rule(
    "TMEM005",
    Source(_ALLOCATE, "name").saying("taddr must point to a previous Tensor Memory allocation"),
    refused_by="hardware",
)
def freed_without_allocation(free: TensorMemoryFree, tcgen05: Tcgen05Limits) -> Requirements:
    """What is freed was allocated, is not free yet, and is freed whole."""
    yield require(
        free.live,
        "{name} is freed {when}",
        help="keep one tcgen05.dealloc for each tcgen05.alloc",
        name=free.name,
        when="twice" if free.allocated else "and was never allocated",
    )
    if free.allocated:
        yield require(
            free.columns == free.allocated,
            "{columns} columns are freed of {name}, which has {allocated}",
            help="give the {allocated} columns that were allocated",
            columns=free.columns,
            name=free.name,
            allocated=free.allocated,
        )


@TCGEN05.rule(
    "TMEM006",
    Source(_ALLOCATE, "held").saying("must be explicitly deallocated using tcgen05.dealloc before the kernel exits"),
    refused_by="hardware",
)
def exit_without_free(end: TensorMemoryExit, tcgen05: Tcgen05Limits) -> Requirements:
    """A CTA frees its tensor memory before it ends; the next one on the processor waits for it otherwise."""
    yield require(
        not end.held,
        "{held} of CTA {cta} {are} still allocated at its end",
        help="bring tcgen05.dealloc of {held} before the exit",
        held=", ".join(end.held),
        are="is" if len(end.held) == 1 else "are",
        cta=end.cta,
    )


@TCGEN05.rule(
    "TMEM007",
    Source("PTX ISA 9.1, 9.7.16.1.2", "live").saying("The Tensor Memory is dynamically allocated"),
    refused_by="hardware",
)
def used_without_allocation(use: TensorMemoryUse, tcgen05: Tcgen05Limits) -> Requirements:
    """Tensor memory is used after it is allocated and before it is freed."""
    yield require(
        use.live,
        "{what} lies in columns {state}",
        help="move the use between tcgen05.alloc and tcgen05.dealloc",
        what=use.what,
        state="freed before" if _known(use.allocated) else "never allocated",
    )


def _known(allocated: object) -> bool:
    return not isinstance(allocated, int) or allocated > 0


@TCGEN05.rule(
    "TMEM008",
    Source("PTX ISA 9.1, 9.7.16.1.2", "first").saying("all 128 lanes of the column are allocated"),
    refused_by="hardware",
)
def use_outside_allocation(use: TensorMemoryUse, tcgen05: Tcgen05Limits) -> Requirements:
    """Columns lie within their allocation, and lanes within the 128 that there are."""
    if use.live:
        yield require(
            all_of(use.first >= 0, use.first + use.count <= use.allocated),
            "{what} takes columns {first} to {last} of {allocated}",
            help="raise the allocation, or move {what} to the front",
            what=use.what,
            first=use.first,
            last=use.first + use.count - 1,
            allocated=use.allocated,
        )
    yield require(
        all_of(use.lane >= 0, use.lane + use.lanes <= tcgen05.lanes),
        "{what} takes lanes {lane} to {last} of {lanes}",
        help="move {what} to a lower lane",
        what=use.what,
        lane=use.lane,
        last=use.lane + use.lanes - 1,
        lanes=tcgen05.lanes,
    )


@TCGEN05.rule(
    "TMEM009",
    Source(_MULTIPLY, "first").saying("the address of the destination and the accumulation matrix D"),
    refused_by="hardware",
)
def columns_overlap(pair: TensorMemoryPair, tcgen05: Tcgen05Limits) -> Requirements:
    """Two things that exist at once have columns of their own."""
    yield require(
        any_of(pair.first + pair.count <= pair.other_first, pair.other_first + pair.other_count <= pair.first),
        "{one} from column {first} on and {other} from column {other_first} on overlap",
        help="move {other} behind {one}",
        one=pair.one,
        first=pair.first,
        other=pair.other,
        other_first=pair.other_first,
    )


@TCGEN05.rule(
    "TMEM010",
    Source(_MOVE, "lane").saying("A lane of the Tensor Memory can be accessed by a single warp in the warpgroup"),
    refused_by="hardware",
)
def lanes_of_another_warp(transfer: TensorMemoryTransfer, tcgen05: Tcgen05Limits) -> Requirements:
    """A warp reaches the 32 lanes of its number modulo 4; shapes of 16 lanes begin at the first of them or the 17th."""
    own = PARTITION * (transfer.warp % 4)
    shape = TRANSFERS.get(transfer.shape)
    lanes = (own, own + 16) if shape and shape.lanes == 16 else (own,)
    yield require(
        transfer.lane in lanes,
        "warp {warp} begins at lane {lane}",
        help="start at lane {lanes}, or use warp {other}",
        warp=transfer.warp,
        lane=transfer.lane,
        lanes=" or ".join(map(str, lanes)),
        other=transfer.lane // PARTITION,
    )


@TCGEN05.rule(
    "TMEM011",
    Source(_MOVE, "same_address").saying("All the threads in the warp must specify the same value of taddr"),
    refused_by="hardware",
)
def address_differs(instruction: WarpWide, tcgen05: Tcgen05Limits) -> Requirements:
    """The address is the warp's; that of each thread's own lane follows from the shape."""
    yield require(
        instruction.same_address,
        "threads of a warp give {instruction} different addresses",
        help="give every thread the address of the warp's first lane",
        instruction=instruction.instruction,
    )


@TCGEN05.rule(
    "TMEM012",
    Source(_MOVE, "shape").saying("Various-combinations of .num and .shape"),
    refused_by="hardware",
)
def transfer_of_no_shape(transfer: TensorMemoryTransfer, tcgen05: Tcgen05Limits) -> Requirements:
    """A shape repeats a power of two times, as often as 128 registers hold."""
    known = repetitions(transfer.shape)
    yield require(
        transfer.num in known,
        "tcgen05.{instruction} has no {shape}.x{num}",
        help="use {shapes}",
        instruction=transfer.instruction,
        shape=transfer.shape,
        num=transfer.num,
        shapes=f"{transfer.shape} at most .x{known[-1]}" if known else ", ".join(TRANSFERS),
    )


@TCGEN05.rule(
    "TMEM013",
    Source(_MOVE, "registers").saying("one or more 32-bit registers as per the value of .shape and .num"),
    refused_by="hardware",
)
def registers_differ(transfer: TensorMemoryTransfer, tcgen05: Tcgen05Limits) -> Requirements:
    """A thread gives as many registers as the shape moves words for it."""
    shape = TRANSFERS.get(transfer.shape)
    if shape is not None:
        needed = shape.registers * transfer.num
        yield require(
            transfer.registers == needed,
            "{registers} registers are given for {needed} words a thread",
            help="give {needed} registers",
            registers=transfer.registers,
            needed=needed,
        )


@TCGEN05.rule(
    "TMEM014",
    Source(_ALLOCATE, "converged").saying("all threads in the warp must execute the same instruction"),
    refused_by="hardware",
)
def warp_diverged(instruction: WarpWide, tcgen05: Tcgen05Limits) -> Requirements:
    """Allocating, freeing, loading and storing are done by whole warps, not behind a branch of one thread."""
    yield require(
        instruction.converged,
        "{instruction} is executed by part of a warp",
        help="move {instruction} out of the branch that threads of a warp take differently",
        instruction=instruction.instruction,
    )


@TCGEN05.rule(
    "TMEM015",
    Source(_ALLOCATE, "cta_group").saying("must specify the same value for the .cta_group qualifier"),
    refused_by="hardware",
)
def groups_mixed(kernel: KernelGroups, tcgen05: Tcgen05Limits) -> Requirements:
    """A kernel's tcgen05 instructions are all of one CTA, or all of a pair."""
    yield require(
        len(kernel.groups) <= 1,
        "kernel mixes {groups}",
        help="use one .cta_group throughout",
        groups=" and ".join(f".cta_group::{group}" for group in kernel.groups),
    )


@TCGEN05.rule(
    "TMEM016",
    Source(_PAIR, "cluster").saying(
        "Any 2 CTAs within the cluster whose %cluster_ctarank differs by the last bit only"
    ),
    refused_by="hardware",
)
def pair_missing(peer: PeerUse, tcgen05: Tcgen05Limits) -> Requirements:
    """Two CTAs multiply together where the cluster has an even number of them."""
    yield require(
        peer.cluster % 2 == 0,
        "cluster of {cluster} CTAs has no pair for everyone",
        help="set the cluster to 2 CTAs or a multiple, or use .cta_group::1",
        cluster=peer.cluster,
    )


@TCGEN05.rule(
    "TMEM017",
    Source(_PAIR, "peer_exited").saying("the peer CTA should be active and should not have exited"),
    refused_by="hardware",
)
def peer_gone(peer: PeerUse, tcgen05: Tcgen05Limits) -> Requirements:
    """Neither CTA of a pair ends before the last instruction of both."""
    yield require(
        not peer.peer_exited,
        "{instruction} runs after the other CTA of the pair ended",
        help="bring a barrier of the cluster before the exit",
        instruction=peer.instruction,
    )


@TCGEN05.rule(
    "TMEM018",
    Source(_ALLOCATE, "met").saying(
        "must synchronize Tensor Memory accesses before attempting to collectively deallocate"
    ),
    refused_by="hardware",
)
def freed_before_peer_is_done(peer: PeerUse, tcgen05: Tcgen05Limits) -> Requirements:
    """The CTAs of a pair meet at a barrier after they last use tensor memory and before they free it."""
    yield require(
        peer.met,
        "{instruction} follows a use, and the CTAs of the pair have not met since",
        help="bring a barrier of the cluster before tcgen05.dealloc",
        instruction=peer.instruction,
    )


@TCGEN05.rule(
    "TMEM019",
    Source(_ALLOCATE, "owned").saying("one warp from each of the peer CTAs must collectively perform the allocation"),
    refused_by="hardware",
)
def allocated_by_one_of_a_pair(peer: PeerUse, tcgen05: Tcgen05Limits) -> Requirements:
    """Both CTAs of a pair allocate what the pair uses."""
    yield require(
        peer.owned,
        "{instruction} is of an allocation that the other CTA of the pair did not make",
        help="bring tcgen05.alloc with .cta_group::2 to both CTAs",
        instruction=peer.instruction,
    )


@TCGEN05.rule(
    "TMEM020",
    Source(_DATAPATH, "lane").saying(
        "must use the same Tensor Memory lane alignment across matrices A, D and the sparsity"
    ),
    refused_by="hardware",
)
def rows_at_wrong_lane(sums: Accumulator, tcgen05: Tcgen05Limits) -> Requirements:
    """Sums that fill half of the lanes begin at lane 0 or 16, others at lane 0; A in tensor memory begins there too."""
    lanes = (0, 16) if sums.half else (0,)
    yield require(
        sums.lane in lanes,
        "sums begin at lane {lane}",
        help="move them to lane {lanes}",
        lane=sums.lane,
        lanes=" or ".join(map(str, lanes)),
    )
    yield require(
        sums.a_lane is None or sums.a_lane == sums.lane,
        "operand A begins at lane {a_lane}, the sums at lane {lane}",
        help="move A to lane {lane}",
        a_lane=sums.a_lane,
        lane=sums.lane,
    )


@TCGEN05.rule(
    "TMEM021",
    Source("PTX ISA 9.1, 9.7.16.10.4", "columns").saying("sub-word elements of matrix D are expected not to be packed"),
    refused_by="hardware",
)
def sums_too_wide(sums: Accumulator, tcgen05: Tcgen05Limits) -> Requirements:
    """Sums and A have all the columns that the instruction's shape fills; 16-bit sums take as many as 32-bit ones."""
    yield require(
        sums.columns >= sums.needed,
        "sums of {needed} columns are given {columns}",
        help="give the sums {needed} columns",
        needed=sums.needed,
        columns=sums.columns,
    )
    if sums.a_lane is not None:
        yield require(
            sums.a_columns >= sums.a_needed,
            "operand A of {needed} columns is given {columns}",
            help="give A {needed} columns",
            needed=sums.a_needed,
            columns=sums.a_columns,
        )


@TCGEN05.rule(
    "TMEM022",
    Source("PTX ISA 9.1, 9.7.16.10.7", "partitions").saying("need to be duplicated to all 32 lane partitions"),
    refused_by="hardware",
)
def scales_not_everywhere(scales: ScaleFactors, tcgen05: Tcgen05Limits) -> Requirements:
    """Each partition of 32 lanes reads scale factors of its own, so all four must hold all of them."""
    yield require(
        scales.partitions == tcgen05.lanes // PARTITION,
        "scale factors of {operand} are in {partitions} of {all} partitions of {lanes} lanes",
        help="copy them with tcgen05.cp.32x128b.warpx4, or store them with all four warps",
        operand=scales.operand,
        partitions=scales.partitions,
        all=tcgen05.lanes // PARTITION,
        lanes=PARTITION,
    )


@TCGEN05.rule(
    "TMEM023",
    Source("CUTLASS 4.7, cute/atom/mma_traits_sm100_frag.hpp, tmem_sf_frg", "columns").saying(
        "SFA, 2x2 and 4x1 data path"
    ),
    refused_by="hardware",
)
def scales_too_narrow(scales: ScaleFactors, tcgen05: Tcgen05Limits) -> Requirements:
    """The scale factors of all rows of an instruction lie in neighbouring columns, 32 rows in each."""
    yield require(
        scales.columns >= scales.needed,
        "scale factors of {operand} take {needed} columns and are given {columns}",
        help="give them {needed} columns",
        operand=scales.operand,
        needed=scales.needed,
        columns=scales.columns,
    )


@TCGEN05.rule(
    "TMEM024",
    Source("PTX ISA 9.1, 9.7.16.9, tcgen05.cp", "multicast").saying(
        "Some of the .shape qualifiers require certain .multicast qualifiers"
    ),
    refused_by="hardware",
)
def copy_of_no_shape(copy: TensorMemoryCopy, tcgen05: Tcgen05Limits) -> Requirements:
    """Copies of 64 lanes say which two warps share them, of 32 lanes that all four do; others reach every lane."""
    known = MULTICASTS.get(copy.shape, ())
    yield require(
        copy.multicast in known,
        "{copy} does not exist",
        help="use {known}",
        copy=copy,
        known=" or ".join(f"{copy.shape}.{m}".rstrip(".") for m in known) or ", ".join(MULTICASTS),
    )


@TCGEN05.rule(
    "TMEM025",
    Source("PTX ISA 9.1, 9.7.12, exit", "exited").saying("Ends execution of a thread"),
    refused_by="hardware",
)
def executed_after_exit(executed: Executed, tcgen05: Tcgen05Limits) -> Requirements:
    """A CTA that ended executes nothing: whatever it does to tensor memory comes before."""
    yield require(
        not executed.exited,
        "{instruction} of CTA {cta} follows the CTA's exit",
        help="move {instruction} before the exit",
        instruction=executed.instruction,
        cta=executed.cta,
    )


@TCGEN05.rule(
    "TMEM026",
    Source(_PAIR, "begun").saying("the peer CTA should be active and should not have exited"),
    refused_by="document",
)
def allocated_before_the_peer_runs(peer: PeerUse, tcgen05: Tcgen05Limits) -> Requirements:
    """The CTAs of a pair meet at a barrier before they allocate: until then the other one need not have begun.

    That a cluster is launched together says nothing of when its blocks come to their first instruction. CUTLASS lets
    the cluster meet before the allocation of two blocks too.
    """
    yield require(
        peer.begun,
        "{instruction} for a pair comes before any barrier of both CTAs, so the other one may not have begun",
        help="bring a barrier of the cluster before tcgen05.alloc",
        instruction=peer.instruction,
    )
