"""What the check of PTX finds: kinds of breaks of the contract, with their words, and what cannot be decided."""

from __future__ import annotations

from dataclasses import dataclass

from legalsat.diagnostics import Level

# What a finding is about, by the name of a rule of `legalsat.rules.pipeline`.
KINDS = {
    "barrier_not_initialised": "a barrier is used before its init, or where the init is not known",
    "barrier_destroyed": "a barrier is overwritten or invalidated while it is in use",
    "arrivals_missing": "a phase gets fewer arrivals than its barrier expects",
    "arrivals_in_excess": "a phase gets more arrivals than its barrier expects, or those of another phase",
    "arrival_count_out_of_range": "a barrier expects a number of arrivals that none can expect",
    "bytes_differ": "bytes expected of a phase are not those that come",
    "phase_missed": "a barrier can be two phases ahead of a wait",
    "stage_overwritten": "memory is overwritten before those who use it are done",
    "read_before_full": "memory is read before it is known to be written",
    "write_not_fenced": "ordinary writes are read by an asynchronous unit without a proxy fence",
    "operands_released_early": "operands of a multiplication are overwritten before it is waited for",
    "sums_not_ready": "sums are used before the multiplication is waited for",
    "sums_not_fenced": "a multiplication begins without its fence",
    "group_not_committed": "asynchronous work is waited for that belongs to no group",
    "store_source_reused": "the source of a store is overwritten before the store has read it",
    "not_drained": "a block ends while asynchronous work on its memory is under way",
    "tensor_memory_misused": "tensor memory is not freed, or in use when it is",
    "roles_disagree": "warps wait for what never comes",
    "pipeline_address_misaligned": "an address or a size is no multiple of what its unit takes",
    "pipeline_unit_lacking": "the chip that the text is for lacks a unit",
    "initialisation_not_fenced": "no fence follows the init of a barrier that asynchronous units complete on",
    "overwrite_not_fenced": "the copy engine overwrites ordinary writes without a proxy fence",
    "reads_not_fenced": "the copy engine overwrites what threads have read without a proxy fence",
    "copies_not_fenced": "what cp.async wrote is read by an asynchronous unit without a proxy fence",
    "named_barrier_out_of_range": "a barrier of the block has another number than 0 to 15, or waits for parts of warps",
    "remote_block_gone": "a block of a cluster ends while others still reach its memory",
    "multicast_outside_cluster": "a multicast goes to blocks that the cluster has not",
    "map_edit_not_ordered": "a tensor map is edited while copies use it, or used before its edit is acquired",
    "fetched_not_waited": "registers of tcgen05.ld are used before tcgen05.wait::ld",
    "bystander_overtaken": "a warp that only looks on may be two phases late, and then hangs",
    "store_not_awaited": "a block ends before its last store is known to have read its source",
    "tensor_memory_not_fenced": "tensor memory passes through a barrier without the fences of tcgen05",
    "barrier_not_invalidated": "a barrier is initialised again without mbarrier.inval",
    "rows_not_met": "warps of a warpgroup multiply rows that each has written, without a meeting",
    "arrival_without_release": "warps of a block rely on an arrival at the cluster's barrier that releases nothing",
}
ARRIVAL = "this arrival"  # of those that may reach a block of a cluster too late
# What may break where there is nothing to do, such as no round of a loop, and something is waited for all the same; or
# too little, such as fewer tiles than stages, so that others are done with all of it before a wait is come to.
OF_NOTHING = frozenset(
    {
        "arrivals_missing",
        "barrier_not_initialised",
        "not_drained",
        "phase_missed",
        "remote_block_gone",
        "roles_disagree",
    }
)
HANGS = frozenset({"arrivals_missing", "bytes_differ", "roles_disagree"})
# What documents ask for, but neither hardware nor the compilers at large (FACTS FN-02, FN-04, FN-05): no error.
WARNINGS = frozenset(
    {
        "initialisation_not_fenced",
        "overwrite_not_fenced",
        "reads_not_fenced",
        "copies_not_fenced",
        "fetched_not_waited",
        "bystander_overtaken",
        "store_not_awaited",
        "tensor_memory_not_fenced",
        "arrival_without_release",
        "barrier_not_invalidated",
        "rows_not_met",
    }
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One break of the contract.

    Attributes:
        kind: one of `KINDS`.
        line: of the text, from 1.
        message: what is wrong, with numbers.
        note: the other place involved, or the source of the rule.
        help: what to change.
        launch: values of parameters of a launch that shows it, such as "n = 1"; "" where any does.
        also: other lines at which the same is wrong.
    """

    kind: str
    line: int
    message: str
    note: str
    help: str
    launch: str = ""
    also: tuple[int, ...] = ()

    @property
    def of_nothing(self) -> bool:
        """May it be so because there was nothing to do, so that something was left out that is always waited for?"""
        return self.kind in OF_NOTHING or self.message.endswith(UNWRITTEN)

    @property
    def hangs(self) -> bool:
        """Does somebody wait in vain, for arrivals, bytes or others?"""
        return self.kind in HANGS

    @property
    def of_any_size(self) -> bool:
        """Is it wrong whatever a size, even zero? A missing fence is: what it is for happens all the same."""
        return self.kind.endswith("_not_fenced")

    @property
    def level(self) -> Level:
        """How grave it is, as its rule says."""
        return "warning" if self.kind in WARNINGS else "error"


UNWRITTEN = "which nothing has written"  # what is read, as messages say it


class Undecided(Exception):
    """Something that the machine cannot decide: a line and why."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line, self.reason = line, reason


HELP = {
    "barrier_not_initialised": "initialise the barrier before, and let a block barrier stand between",
    "barrier_destroyed": "wait for all users of the barrier first",
    "arrivals_missing": "let the initial count equal the arrivals of a phase",
    "arrivals_in_excess": "let the initial count equal the arrivals of a phase, and wait between those of two phases",
    "arrival_count_out_of_range": "expect 1 to 1048575 arrivals",
    "bytes_differ": "expect the bytes of the boxes that complete on the barrier in this phase",
    "phase_missed": "let an arrival of the next phase follow this wait, and count its parity by this barrier's turns",
    "stage_overwritten": "wait until the readers have released the memory",
    "read_before_full": "wait for the write first",
    "write_not_fenced": "put fence.proxy.async after the writes, before the barrier that the reader waits at",
    "operands_released_early": "wait for the group of the multiplication before the stage is released",
    "sums_not_ready": "wait for the multiplication's group first",
    "sums_not_fenced": "put wgmma.fence before the first multiplication after the sums were touched",
    "group_not_committed": "commit the group before waiting for it",
    "store_source_reused": "wait for the group of the store (.read) and meet the others before writing again",
    "not_drained": "wait for all groups and phases before the end",
    "tensor_memory_misused": "wait for all its users, then free it",
    "roles_disagree": "let all warps meet equally often, and compare parities of the barriers that are waited for",
    "pipeline_address_misaligned": "move it to the next multiple",
    "pipeline_unit_lacking": "compile for a chip that has it, or use other means",
    "initialisation_not_fenced": "give fence.mbarrier_init.release.cluster after the init, before the block meets",
    "overwrite_not_fenced": "give fence.proxy.async after the writes, before what the load's issuer waits for",
    "reads_not_fenced": "give fence.proxy.async.shared::cta between the wait for the readers and the load",
    "copies_not_fenced": "give fence.proxy.async after the wait for the copies, before what reads them is issued",
    "named_barrier_out_of_range": "use the numbers 0 to 15, and give the threads of all warps that meet",
    "remote_block_gone": "let the cluster meet before the end, or wait for what the others do",
    "multicast_outside_cluster": "set a bit for each destination among the CTAs of the cluster",
    "map_edit_not_ordered": "wait for the copies by the old map before it is edited, then release and acquire the edit",
    "fetched_not_waited": "give tcgen05.wait::ld before the use",
    "bystander_overtaken": "let only those wait that go on to use what the phase protects",
    "store_not_awaited": "give cp.async.bulk.wait_group.read 0 before the end",
    "tensor_memory_not_fenced": "put tcgen05.fence::before_thread_sync before the barrier, after_thread_sync behind it",
    "barrier_not_invalidated": "give mbarrier.inval, and let all meet, before the barrier is initialised again",
    "rows_not_met": "let the warps of the warpgroup meet between the writes and the multiplication",
    "arrival_without_release": "give fence.acq_rel.cluster before the arrival, or let it release",
}
