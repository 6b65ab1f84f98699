"""The contract of a pipeline: barriers, stages, groups, fences and what must be over before a block ends.

The conditions hold for every speed of every role, and are judged by `legalsat.analyses.protocol.typestate` for every
trip count.
"""

from __future__ import annotations

from legalsat.program.pipeline_sites import (
    Aligned,
    BarrierEnd,
    BarrierPhase,
    BarrierRange,
    BarrierUse,
    Exit,
    Grouped,
    Meeting,
    Multicast,
    NamedBarrier,
    PhaseWait,
    StageRead,
    StageWrite,
    SumsUse,
    TensorMemoryLife,
    UnitUse,
)
from legalsat.rule import Requirements, Source, require
from legalsat.rules.movement import CHIP
from legalsat.targets import Target

_FENCE = Source("PTX ISA 9.1, 9.7.13.4", "fence").saying(
    "synchronizing effect of the fence only applies to the prior mbarrier.init operations executed by the same thread"
)
_MBARRIER = "PTX ISA 9.1, 9.7.13.15"
_BULK = "PTX ISA 9.1, 9.7.9.25"
_WGMMA = "PTX ISA 9.1, 9.7.15"
_TCGEN05 = "PTX ISA 9.1, 9.7.16"
MAX_NAMED, WARP = 15, 32  # FACTS HW-14
MAX_COUNT = 2**20 - 1  # of arrivals and of bytes (FACTS MB-02)


@CHIP.rule(
    "PIPE001",
    Source(_MBARRIER, "barrier").saying(
        "any mbarrier operation except mbarrier.init on an uninitialized mbarrier object"
    ),
    refused_by="hardware",
)
def barrier_not_initialised(use: BarrierUse, target: Target) -> Requirements:
    """A barrier is initialised, and the threads of the block (or cluster) meet, before anybody uses it."""
    yield require(
        use.met,
        "barrier {barrier} is used before it is initialised and all have met",
        help="start {barrier} in the set-up and let every role meet the set-up before its first use",
        barrier=use.barrier,
    )
    yield require(
        not use.again,
        "barrier {barrier} is initialised a second time",
        help="start {barrier} once",
        barrier=use.barrier,
    )


@CHIP.rule(
    "PIPE002",
    _FENCE,
    refused_by="document",
    level="warning",
)
def initialisation_not_fenced(use: BarrierUse, target: Target) -> Requirements:
    """Between a barrier's initialisation and its use by the copy engine or the matrix unit stands a fence."""
    if use.proxy and not use.remote:
        yield require(
            use.fenced,
            "barrier {barrier} counts asynchronous operations, but no fence follows its initialisation",
            help="give fence.mbarrier_init after the initialisation and before the block meets",
            barrier=use.barrier,
        )


@CHIP.rule(
    "PIPE003",
    _FENCE,
    refused_by="hardware",
)
def initialisation_unseen_in_cluster(use: BarrierUse, target: Target) -> Requirements:
    """Between a barrier's initialisation and its use by another block of the cluster stands a fence."""
    if use.remote:
        yield require(
            use.fenced,
            "barrier {barrier} is used by another block of the cluster, but no fence follows its initialisation",
            help="give fence.mbarrier_init after the initialisation and before the cluster meets",
            barrier=use.barrier,
        )


@CHIP.rule(
    "PIPE004",
    Source(f"{_MBARRIER}.6", "arrivals").saying("The count of the pending arrivals has reached zero"),
    refused_by="hardware",
)
def arrivals_missing(phase: BarrierPhase, target: Target) -> Requirements:
    """A phase that somebody waits for gets all its arrivals; else the wait never ends."""
    yield require(
        phase.arrived >= phase.arrivals,
        "barrier {barrier} gets {arrived} of {arrivals} arrivals",
        help="let the {missing} missing ones arrive, or lower the barrier's arrivals where nobody relies on them",
        barrier=phase.barrier,
        arrived=phase.arrived,
        arrivals=phase.arrivals,
        missing=phase.arrivals - phase.arrived,
    )


@CHIP.rule(
    "PIPE005",
    Source(f"{_MBARRIER}.4", "arrivals").saying("which returns True for waitComplete before an arrive-on operation"),
    refused_by="hardware",
)
def arrivals_in_excess(phase: BarrierPhase, target: Target) -> Requirements:
    """A phase gets no more than its arrivals, and none that may come while the phase before is still open."""
    yield require(
        phase.arrived <= phase.arrivals,
        "barrier {barrier} gets {arrived} arrivals, {arrivals} end a phase",
        help="set the barrier's arrivals to {arrived}, or let fewer arrive",
        barrier=phase.barrier,
        arrived=phase.arrived,
        arrivals=phase.arrivals,
    )
    yield require(
        phase.ordered,
        "an arrival at {barrier} may count for the phase before",
        help="let each arrive once a phase, after it has seen that the phase before is over",
        barrier=phase.barrier,
    )


@CHIP.rule(
    "PIPE006",
    Source(f"{_MBARRIER}.5", "bytes").saying("set to the total amount of asynchronous memory operations"),
    refused_by="hardware",
)
def bytes_differ(phase: BarrierPhase, target: Target) -> Requirements:
    """In every phase the bytes expected are those that copies complete, and are expected before the last arrival."""
    yield require(
        phase.expected <= phase.completed,
        "barrier {barrier} expects {expected} bytes and gets {completed}",
        help="let the copies of the other {missing} bytes come, on which somebody relies",
        barrier=phase.barrier,
        expected=phase.expected,
        completed=phase.completed,
        missing=phase.expected - phase.completed,
    )
    yield require(
        phase.expected >= phase.completed,
        "barrier {barrier} expects {expected} bytes and gets {completed}",
        help="set the bytes expected to those of all copies that come",
        barrier=phase.barrier,
        expected=phase.expected,
        completed=phase.completed,
    )
    yield require(
        phase.timely,
        "a copy to {barrier} may complete on a phase that does not expect its bytes",
        help="set the bytes expected to those of all copies, before the last arrival",
        barrier=phase.barrier,
    )
    yield require(
        phase.armed,
        "barrier {barrier} may end its phase before its bytes are expected",
        help="move the expectation before the last arrival",
        barrier=phase.barrier,
    )


@CHIP.rule(
    "PIPE007",
    Source(f"{_MBARRIER}.16", "phase").saying("either the current phase or the immediately preceding phase"),
    refused_by="hardware",
)
def phase_missed(wait: PhaseWait, target: Target) -> Requirements:
    """A wait by parity tells the current phase from the one before, and no others.

    Nobody may wait for a phase before the one ahead of it is surely over, and a phase may not end while somebody may
    still wait for the one before: every role that waits gates the next turn of the stage.
    """
    yield require(
        0 <= wait.current - wait.waited <= 1,
        "a wait for phase {waited} of {barrier} may meet phase {current}",
        help="let every role that waits for a stage release it too, and wait once a turn",
        waited=wait.waited,
        current=wait.current,
        barrier=wait.barrier,
    )


@CHIP.rule(
    "PIPE008",
    Source("PTX ISA 9.1, 8, memory consistency model", "stage").saying("data race"),
    refused_by="hardware",
)
def stage_overwritten(write: StageWrite, target: Target) -> Requirements:
    """A stage is written once all who use it have released it."""
    if write.user in {"threads", "copies"}:
        yield require(
            write.done,
            "stage {stage} is written while {user} may still use it",
            help="let the writer wait until the stage is released, and its users release it when they are done",
            stage=write.stage,
            user=write.user,
        )


@CHIP.rule(
    "PIPE009",
    Source(f"{_MBARRIER}.5", "stage").saying("used for tracking the completion of asynchronous memory operations"),
    refused_by="hardware",
)
def read_before_full(read: StageRead, target: Target) -> Requirements:
    """A stage is read once it holds the reader's item, and the reader has seen that it is complete."""
    yield require(
        read.holds,
        "stage {stage} does not hold that item when it is read",
        help="load the item that is read, and let the reader wait for it",
        stage=read.stage,
    )
    yield require(
        read.full,
        "stage {stage} may be read before it is full",
        help="let the reader wait for the barrier of the stage",
        stage=read.stage,
    )


@CHIP.rule(
    "PIPE010",
    Source(_WGMMA, "fence").saying("to make the generic proxy operations visible to the async proxy"),
    refused_by="hardware",
)
def write_not_fenced(read: StageRead, target: Target) -> Requirements:
    """What threads wrote is fenced by them before the copy engine or the matrix unit reads it."""
    yield require(
        read.fenced,
        "stage {stage} was written by threads and is read by the async proxy without a fence",
        help="give fence.proxy.async after the writes and before the writers arrive or meet",
        stage=read.stage,
    )
    yield require(
        read.met,
        "stage {stage} is stored by warps that have not met those that wrote parts of it",
        help="let all warps that write the stage meet between their fences and the store",
        stage=read.stage,
    )


@CHIP.rule(
    "PIPE011",
    Source(_WGMMA, "operands").saying("Wait for the completion of the required wgmma-group"),
    refused_by="hardware",
)
def operands_released_early(write: StageWrite, target: Target) -> Requirements:
    """Operands in shared memory stay as they are until the multiplication that reads them is waited for."""
    if write.user in {"wgmma", "tcgen05"}:
        yield require(
            write.done,
            "stage {stage} is written while {user} may still read it",
            help="move the release of the stage after the wait for the multiplication that reads it",
            stage=write.stage,
            user=write.user,
        )


@CHIP.rule(
    "PIPE012",
    Source(f"{_BULK}.6.2", "group").saying("all the prior bulk async-groups committed by the executing threads"),
    refused_by="hardware",
)
def group_not_committed(grouped: Grouped, target: Target) -> Requirements:
    """Waiting for groups covers what was closed into a group alone."""
    yield require(
        grouped.committed,
        "operations of {family} are waited for that no group was closed over",
        help="give a commit before the wait",
        family=grouped.family,
    )


@CHIP.rule(
    "PIPE013",
    Source(f"{_BULK}.6.2", "group").saying("Reading from the source locations"),
    refused_by="hardware",
)
def store_source_reused(write: StageWrite, target: Target) -> Requirements:
    """The source of a store stays as it is until its group has been waited for, at least until it has read."""
    if write.user == "stores":
        yield require(
            write.done,
            "stage {stage} is written while a store may still read it",
            help="move the write after a wait for the group of the store",
            stage=write.stage,
        )
        yield require(
            write.met,
            "stage {stage} is written while another warp's store may still read it",
            help="let all warps meet between their waits for the stores' groups and the write",
            stage=write.stage,
        )


@CHIP.rule(
    "PIPE014",
    Source(f"{_BULK}.6.2", "exit").saying("wait until completion of all the bulk async operations"),
    refused_by="hardware",
)
def not_drained(exit: Exit, target: Target) -> Requirements:
    """Before a block ends somebody waits for all loads, copies and multiplications, and stores have read."""
    if not exit.remote:
        yield require(
            not exit.under_way,
            "the block may end while {what} are under way",
            help="take a wait for all of them before the end",
            what=exit.under_way,
        )


@CHIP.rule(
    "PIPE015",
    Source("CUDA programming guide 13.0, distributed shared memory", "exit").saying(
        "all distributed shared memory operations happen before the exit of a thread block"
    ),
    refused_by="hardware",
)
def remote_block_gone(exit: Exit, target: Target) -> Requirements:
    """A block of a cluster stays until no other one can arrive at its barriers or write its memory any more."""
    if exit.remote:
        yield require(
            not exit.under_way,
            "the block may end before {what}",
            help="let the cluster meet before the end",
            what=exit.under_way,
        )


@CHIP.rule(
    "PIPE016",
    Source(f"{_TCGEN05}.1.2", "tensor memory").saying("must be explicitly deallocated before the kernel exits"),
    refused_by="hardware",
)
def tensor_memory_misused(life: TensorMemoryLife, target: Target) -> Requirements:
    """Tensor memory is allocated before its use, and freed once, after its last use and before the end."""
    yield require(
        not life.fault,
        "a role {action}, but {fault}",
        help="take tensor memory in the set-up and free it once, after all who use it have met",
        action=life.action,
        fault=life.fault,
    )


@CHIP.rule(
    "PIPE017",
    Source(_BULK, "mask").saying("each bit position in the 16-bit ctaMask operand corresponds to the %cluster_ctarank"),
    refused_by="hardware",
)
def multicast_outside_cluster(multicast: Multicast, target: Target) -> Requirements:
    """A multicast goes to blocks of the cluster, at least one."""
    yield require(
        0 < multicast.mask < 2**multicast.cluster,
        "mask {mask} names blocks outside of a cluster of {cluster}",
        help="set a bit for each destination among the lowest {cluster}",
        mask=bin(multicast.mask),
        cluster=multicast.cluster,
    )


@CHIP.rule(
    "PIPE018",
    Source("PTX ISA 9.1, 9.7.13.1", "roles").saying("all other warps participating in the barrier to arrive"),
    refused_by="hardware",
)
def roles_disagree(meeting: Meeting, target: Target) -> Requirements:
    """Roles agree on how many items there are and how often they meet; else one waits for ever."""
    yield require(
        meeting.comes,
        "a role waits for {awaited}, which never comes",
        help="give all roles the same trip counts, zero and one included",
        awaited=meeting.awaited,
    )


@CHIP.rule(
    "PIPE019",
    Source(f"{_WGMMA}.7", "sums").saying("without first performing a wgmma.wait_group instruction"),
    refused_by="hardware",
)
def sums_not_ready(use: SumsUse, target: Target) -> Requirements:
    """Sums are read once all multiplications into them are waited for, and written anew once they are read.

    Tensor memory into which nothing was multiplied, as with no tile along K, holds anything.
    """
    yield require(
        use.holds,
        "accumulator {sums} is read when nothing was multiplied into it for that tile",
        help="keep the read for tiles that have a multiplication",
        sums=use.sums,
    )
    yield require(
        use.done,
        "accumulator {sums} may be under way when it is used",
        help="move the use after the wait for what was done to them before",
        sums=use.sums,
    )


@CHIP.rule(
    "PIPE020",
    Source(f"{_WGMMA}.5", "fence").saying("must be used to fence the register accesses of wgmma.mma_async"),
    refused_by="hardware",
)
def sums_not_fenced(use: SumsUse, target: Target) -> Requirements:
    """Fences stand between a use of sums and the multiplication after it, with tcgen05 the other way round too."""
    yield require(
        use.fenced,
        "accumulator {sums} is used without {fence}",
        help="give {fence} between what was done to them and this use",
        sums=use.sums,
        fence=use.fence,
    )


@CHIP.rule(
    "PIPE021",
    Source(f"{_MBARRIER}.9", "arrivals").saying(
        "The valid range of values for the operand count is [1, ..., 2^20 - 1]"
    ),
    refused_by="hardware",
)
def arrival_count_out_of_range(barrier: BarrierRange, target: Target) -> Requirements:
    """A barrier needs 1 to 1,048,575 arrivals."""
    yield require(
        1 <= barrier.arrivals <= MAX_COUNT,
        "{arrivals} arrivals end a phase, outside 1 to {limit}",
        help="set the arrivals to those that one phase gets",
        arrivals=barrier.arrivals,
        limit=MAX_COUNT,
    )


@CHIP.rule(
    "PIPE022",
    Source(f"{_MBARRIER}.2", "bytes").saying("tx-count: -(2^20 - 1), 2^20 - 1"),
    refused_by="hardware",
)
def expected_bytes_out_of_range(barrier: BarrierRange, target: Target) -> Requirements:
    """A barrier counts at most 1,048,575 bytes at a time."""
    yield require(
        -MAX_COUNT <= barrier.bytes <= MAX_COUNT,
        "{bytes} bytes are expected at once, more than {limit}",
        help="split the copies over several barriers",
        bytes=barrier.bytes,
        limit=MAX_COUNT,
    )


@CHIP.rule(
    "PIPE023",
    Source("PTX ISA 9.1, target notes of each instruction", "unit").saying("Target ISA Notes"),
    refused_by="hardware",
)
def pipeline_unit_lacking(use: UnitUse, target: Target) -> Requirements:
    """The chip has every unit that a pipeline uses."""
    yield require(
        use.present,
        "this chip has no {unit}",
        help="plan for a chip that has it, or use other means",
        unit=use.unit,
    )


@CHIP.rule(
    "PIPE024",
    Source(f"{_MBARRIER}.10", "barrier").saying(
        "An mbarrier object must be invalidated before using its memory location for any other purpose"
    ),
    refused_by="hardware",
)
def barrier_destroyed(end: BarrierEnd, target: Target) -> Requirements:
    """A barrier stays as it is until nobody arrives at it, waits for it or has bytes under way to it any more.

    Its memory is shared memory like any other: a store to it, a copy over it, a second initialisation or
    mbarrier.inval ends it. What still comes then counts elsewhere or nowhere.
    """
    yield require(
        end.idle,
        "barrier {barrier} ends while it may still be in use",
        help="let all who use {barrier} meet before its memory is used anew",
        barrier=end.barrier,
    )


@CHIP.rule(
    "PIPE025",
    Source("libcu++ PTX documentation, cp.async.bulk", "alignment").saying(
        "Both srcMem and dstMem must be 16-byte aligned, and size must be a multiple of 16"
    ),
    refused_by="hardware",
)
def pipeline_address_misaligned(aligned: Aligned, target: Target) -> Requirements:
    """Addresses and sizes are multiples of what their unit takes.

    A bulk copy moves 16 bytes or a multiple between addresses that are multiples of 16; a copy by a tensor map needs a
    multiple of 128 in shared memory, a barrier one of 8, and cp.async one of its own size.
    """
    yield require(
        aligned.value % aligned.multiple == 0,
        "{what} is {value}, no multiple of {multiple}",
        help="move or round it to a multiple of {multiple}",
        what=aligned.what,
        value=aligned.value,
        multiple=aligned.multiple,
    )


@CHIP.rule(
    "PIPE026",
    Source("PTX ISA 9.1, 8.6", "fence").saying(
        "A proxy fence is required to synchronize memory operations across different proxies"
    ),
    refused_by="document",
    level="warning",
)
def overwrite_not_fenced(write: StageWrite, target: Target) -> Requirements:
    """What threads wrote is fenced by them before the copy engine writes over it.

    The ordinary write might land last otherwise. No GPU is known to let it.
    """
    yield require(
        write.fenced,
        "stage {stage} was written by threads and is written by the async proxy without a fence",
        help="give fence.proxy.async after the writes and before the writers arrive or meet",
        stage=write.stage,
    )


@CHIP.rule(
    "PIPE027",
    Source("PTX ISA 9.1, 8.6", "fence").saying(
        "A proxy fence is required to synchronize memory operations across different proxies"
    ),
    refused_by="document",
    level="warning",
)
def reads_not_fenced(write: StageWrite, target: Target) -> Requirements:
    """What threads read with ordinary instructions is fenced before the copy engine writes over it.

    The copy might overtake the read otherwise. CUTLASS and DeepGEMM leave it to the arrival on a barrier and the wait
    for it (FACTS FN-04), and mostly nothing happens; a public report has wrong data on an NVL72 without the fence
    (deepseek-ai/DeepEP 642), and Triton gives it since 2025 (triton-lang/triton 7262). Reads by the matrix units need
    none.
    """
    yield require(
        write.reads_fenced,
        "stage {stage} was read by threads and is written by the async proxy without a fence",
        help="give fence.proxy.async.shared::cta between the wait for the readers and the load",
        stage=write.stage,
    )


@CHIP.rule(
    "PIPE028",
    Source("PTX ISA 9.1, 9.7.13.1", "barrier").saying(
        "specifies a logical barrier resource as an immediate constant or register with value 0 through 15"
    ),
    refused_by="hardware",
)
def named_barrier_out_of_range(barrier: NamedBarrier, target: Target) -> Requirements:
    """A block has 16 barriers by number, and each waits for whole warps (FACTS HW-14)."""
    yield require(
        0 <= barrier.number <= MAX_NAMED,
        "barrier {number} of the block is used, outside 0 to {limit}",
        help="use the numbers 0 to {limit}, one for each group of warps that meets at a time",
        number=barrier.number,
        limit=MAX_NAMED,
    )
    yield require(
        barrier.threads % WARP == 0,
        "barrier {number} of the block waits for {threads} threads, no multiple of {warp}",
        help="give the threads of all warps that meet there, {warp} each",
        number=barrier.number,
        threads=barrier.threads,
        warp=WARP,
    )
