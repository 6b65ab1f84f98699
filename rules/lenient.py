"""What documents ask of a pipeline and released compilers do without: warnings, judged in PTX texts alone."""

from __future__ import annotations

from legalsat.program.pipeline_sites import BarrierEnd, Exit, Meeting, PhaseWait, StageRead, SumsUse
from legalsat.rule import Requirements, Source, require
from legalsat.rules.movement import CHIP
from legalsat.targets import Target


@CHIP.rule(
    "PIPE030",
    Source("PTX ISA 9.1, 9.7.16.8.5", "tcgen05.wait").saying("wait for completion of all prior tcgen05.ld operations"),
    refused_by="document",
    level="warning",
)
def fetched_not_waited(use: SumsUse, target: Target) -> Requirements:
    """Registers that tcgen05.ld writes are used after tcgen05.wait::ld.

    Released compilers leave the wait out, or put conversions and stores before it (CuTe DSL 4.8, Triton 3.9): the
    registers are tracked like those of any load.
    """
    yield require(
        use.waited,
        "registers of {sums} are used before tcgen05.wait::ld",
        help="give tcgen05.wait::ld before the use",
        sums=use.sums,
    )


@CHIP.rule(
    "PIPE031",
    Source("PTX ISA 9.1, 9.7.13.15.16", "phase").saying("either the current phase or the immediately preceding phase"),
    refused_by="document",
    level="warning",
)
def bystander_overtaken(wait: PhaseWait, target: Target) -> Requirements:
    """Who waits for a phase and then uses nothing of what it protects may still be two phases late, and then hangs.

    A wait names a phase by its parity alone. Nothing holds the next phases back for a warp that only looks on: public
    kernels let whole warps wait of which one thread works, and rely on their never being two phases late.
    """
    yield require(
        not wait.looks_on,
        "{barrier} may be two phases ahead of a wait that only looks on",
        help="let only those wait that go on to use what the phase protects",
        barrier=wait.barrier,
    )


@CHIP.rule(
    "PIPE032",
    Source("PTX ISA 9.1, 9.7.9.25.6.2", "exit").saying("wait until completion of all the bulk async operations"),
    refused_by="document",
    level="warning",
)
def store_not_awaited(exit: Exit, target: Target) -> Requirements:
    """A block waits until its bulk stores have read their source before it ends.

    DeepGEMM leaves the wait for its last store out: shared memory is not given to another block before the copy engine
    is done with it. On an H200 kernels without the wait wrote the right bytes.
    """
    yield require(
        not exit.unread,
        "the block may end before {what} has read its source",
        help="give cp.async.bulk.wait_group.read 0 before the end",
        what=exit.unread,
    )


@CHIP.rule(
    "PIPE034",
    Source("PTX ISA 9.1, 9.7.15", "fence").saying("to make the generic proxy operations visible to the async proxy"),
    refused_by="document",
    level="warning",
)
def copies_not_fenced(read: StageRead, target: Target) -> Requirements:
    """What cp.async wrote is fenced, after it was waited for, before a matrix unit or the copy engine reads it.

    cp.async without bulk writes through the generic proxy, as stores do (FACTS FN-02). Triton 3.6 multiplies by wgmma
    behind its wait and a barrier of the block alone, and such kernels run; Triton 3.9 and tilelang give the fence.
    """
    yield require(
        read.copies_fenced,
        "stage {stage} was written by cp.async and is read by the async proxy without a fence",
        help="give fence.proxy.async after the wait for the copies, before what reads them is issued",
        stage=read.stage,
    )


@CHIP.rule(
    "PIPE035",
    Source("PTX ISA 9.1, 9.7.16.6.3", "tcgen05.fence").saying(
        "orders all the subsequent asynchronous tcgen05 operations with respect to the prior tcgen05"
    ),
    refused_by="document",
    level="warning",
)
def tensor_memory_not_fenced(use: SumsUse, target: Target) -> Requirements:
    """Threads that hand tensor memory on through a barrier fence tcgen05 before it and after it.

    What other threads, or multiplications that a barrier waits for, did to tensor memory is before what follows
    tcgen05.fence::after_thread_sync; loads and stores of tensor memory need tcgen05.fence::before_thread_sync before
    the barrier too. Triton 3.6 to 3.9 prints neither for sm_100a, and its kernels run.
    """
    yield require(
        use.barrier_fenced,
        "{sums} pass from one thread to another through a barrier without the fences of tcgen05",
        help="give tcgen05.fence::before_thread_sync before the barrier and tcgen05.fence::after_thread_sync after it",
        sums=use.sums,
    )


@CHIP.rule(
    "PIPE036",
    Source("PTX ISA 9.1, 9.7.13.5", "barrier.cluster").saying(
        "no memory ordering and visibility guarantees provided for the memory accesses performed prior"
    ),
    refused_by="document",
    level="warning",
)
def arrival_without_release(meeting: Meeting, target: Target) -> Requirements:
    """Warps release what they did to shared memory when they arrive at the cluster's barrier.

    An arrival with .relaxed releases nothing; fence.mbarrier_init before it releases inits of barriers alone. DeepGEMM
    lets the address that tcgen05.alloc has stored pass by such an arrival between warps of one block, where accesses to
    shared memory keep their order. CUTLASS initialises the barrier at which a pair's other block arrives behind its
    last fence.mbarrier_init. What other blocks rely on is an error else.
    """
    yield require(
        meeting.released,
        "warps rely on what is done before {awaited} meets, and an arrival releases nothing",
        help="give fence.acq_rel.cluster before the arrival, or let it release",
        awaited=meeting.awaited,
    )


@CHIP.rule(
    "PIPE037",
    Source("PTX ISA 9.1, 9.7.13.15.10", "barrier").saying(
        "An mbarrier object must be invalidated before using its memory location for any other purpose"
    ),
    refused_by="document",
    level="warning",
)
def barrier_not_invalidated(end: BarrierEnd, target: Target) -> Requirements:
    """Between two initialisations of a barrier stands mbarrier.inval.

    An init of a live barrier is undefined by the document. It writes the same eight bytes, and where all
    are done with the first life (PIPE024) no GPU is known to mind.
    """
    yield require(
        end.invalidated,
        "barrier {barrier} is initialised again without mbarrier.inval",
        help="give mbarrier.inval, and let all who use {barrier} meet, before it is initialised again",
        barrier=end.barrier,
    )


@CHIP.rule(
    "PIPE038",
    Source("PTX ISA 9.1, 9.7.15.1", "warpgroup").saying("set of four contiguous warps"),
    refused_by="document",
    level="warning",
)
def rows_not_met(read: StageRead, target: Target) -> Requirements:
    """The warps of a warpgroup meet between their stores to A and the multiplication that reads it.

    A multiplication is one of the whole warpgroup, and no document says which warp reads which rows of A. The sums of
    a warp are those of 16 of the 64 rows, and FlashAttention-3 lets each warp store these rows of P itself and multiply
    behind a meeting of its lanes alone. What another warp has stored to a warp's own rows is an error else.
    """
    yield require(
        read.rows_met,
        "rows of stage {stage} are multiplied that each warp has stored, without a meeting of the warpgroup",
        help="let the warps of the warpgroup meet between the stores and the multiplication",
        stage=read.stage,
    )
