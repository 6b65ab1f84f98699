"""Builds the pipeline of a block on tcgen05: roles, barriers, and what each role does, in order."""

from __future__ import annotations

from legalsat.errors import LegalSatError
from legalsat.plans.block_plan import BlockPlan
from legalsat.plans.plan import Plan
from legalsat.plans.product_kernel import WARPS
from legalsat.program.pipeline import (
    Advance,
    Allocate,
    At,
    BarrierRing,
    BufferRing,
    Commit,
    CommitTo,
    Expect,
    Fence,
    Free,
    Load,
    Loop,
    Multiply,
    Operation,
    Pipeline,
    Read,
    Relinquish,
    Role,
    Start,
    Store,
    Sync,
    Trips,
    UseSums,
    Wait,
    WaitGroup,
    Write,
)

TILES = Trips("further tiles along K", 1)
SUMS = "sums"
KEEPERS = "warps that keep sums"
_OPERANDS = ("A", "B")


def has_pipeline(plan: BlockPlan) -> bool:
    """Whether both operands arrive by boxes for a matrix unit, which is what pipelines of products are made for."""
    arrive = all(one.access.by == "tma" for one in (plan.a, plan.b))
    return plan.mma is not None and plan.epilogue is not None and arrive


def product_pipeline(plan: BlockPlan) -> Pipeline:
    """Return what a block of a product does: one warp loads, another multiplies, and what sums become is stored.

    Raises:
        LegalSatError: operands that do not arrive by boxes, or no matrix unit that reads them.
    """
    mma, epilogue = plan.mma, plan.epilogue
    if mma is None or epilogue is None or not has_pipeline(plan):
        raise LegalSatError("operands do not all arrive by boxes for a matrix unit, so no pipeline is made yet")
    c = plan.c.shared[0] if plan.c.shared else None
    row = plan.tile[1] * plan.operator.out_dtype.bits // 8
    size = c.bytes if c is not None and epilogue.store == "tma" else plan.tile[0] * max(row, epilogue.pitch)
    buffers = [BufferRing(name, plan.stages, one.shared[0].bytes) for name, one in _operands(plan)]
    buffers.append(BufferRing("C", 1, size, _OPERANDS if epilogue.overlays else ()))
    barriers = [BarrierRing("full", plan.stages, 1, _bytes(plan)), BarrierRing("empty", plan.stages, 1)]
    barriers.append(BarrierRing(SUMS, 1, 1))
    start: tuple[Operation, ...] = (*(Start(barrier.name) for barrier in barriers), Fence("mbarrier_init"))
    setup = Role("setup", 0, (*start, *(Sync("block"),) * 3))
    return Pipeline(tuple(barriers), tuple(buffers), (setup, *_roles(plan, size)), (SUMS,))


def _operands(plan: BlockPlan) -> tuple[tuple[str, Plan], ...]:
    return (("A", plan.a), ("B", plan.b))


def _bytes(plan: BlockPlan) -> int:
    """Return the bytes of a stage: one tile of each operand."""
    return sum(one.shared[0].bytes for _, one in _operands(plan))


def _fill(plan: BlockPlan) -> Loop:
    """Load A's and B's tiles, stage by stage."""
    at = At("loaded")
    loads = tuple(Load(name, at, "full", one.shared[0].bytes) for name, one in _operands(plan))
    return Loop(TILES, (Wait("empty", at, before=True), Expect("full", at, _bytes(plan)), *loads, Advance("loaded")))


def _store(plan: BlockPlan, size: int) -> tuple[tuple[Operation, ...], tuple[Role, ...]]:
    """Return what the warps that keep sums do once C's tile is written, and who stores it."""
    meet = Sync(KEEPERS)
    if plan.c.store != "tma":
        return (meet, Read("C")), ()
    stores = (Store("C", At(""), size), Commit("bulk"), WaitGroup("bulk", 0, read=True))
    return (Fence("proxy.async"), meet), (Role("storer", 0, (meet, *stores)),)


def _roles(plan: BlockPlan, size: int) -> tuple[Role, ...]:
    assert plan.mma is not None and plan.epilogue is not None
    at, mma = At("multiplied"), plan.mma
    turn = (
        Wait("full", at),
        Fence("tcgen05.after"),
        Multiply("tcgen05", tuple((name, at) for name in _OPERANDS), SUMS),
        CommitTo("empty", at),
        Advance("multiplied"),
    )
    begin = (Sync("block"), Fence("tcgen05.before"), Sync("block"), Fence("tcgen05.after"))
    issue = (
        Sync("block"),
        Allocate(mma.allocated, (SUMS,)),
        Relinquish(),
        *begin[1:],
        Loop(TILES, turn),
        CommitTo(SUMS),
        Sync("block"),
        Free(mma.allocated),
    )
    stored, storers = _store(plan, size)
    fetch = (*begin, Wait(SUMS), Fence("tcgen05.after"), UseSums(SUMS), Write("C"), Fence("tcgen05.before"), *stored)
    return (
        Role("epilogue", WARPS, (*fetch, Sync("block")), mma.warpgroups),
        *(Role(s.name, s.warps, (Sync("block"), Sync("block"), *s.body, Sync("block"))) for s in storers),
        Role("producer", 1, (*begin, _fill(plan), Sync("block"))),
        Role("issuer", 1, issue),
    )
