"""Products on GPUs without wgmma: operands that share a tile and a ring of stages are planned together.

Every tile in the table is bounded first, as if all operands travelled by boxes; then tiles are planned, the most
promising first, until no bound is below the best plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from legalsat.analyses.matrix_layout import NoSuchDescriptor
from legalsat.errors import LegalSatError
from legalsat.extract.blocks.cost import least, product_cost
from legalsat.extract.blocks.epilogue import Staged, epilogue_of
from legalsat.extract.blocks.multiply import multiplied
from legalsat.extract.blocks.pipelines import has_pipeline
from legalsat.extract.cost.cost import NANOSECONDS_PER_BOX
from legalsat.extract.kernels.contract import require_contract
from legalsat.extract.search.planner import USUAL_MEANS, NoLegalLayout, cached_plan, plan_swizzled
from legalsat.operators import Copy
from legalsat.operators.gemm import ROW_BITS, Gemm, matrix_unit, readers_on
from legalsat.plans.block_plan import LOADERS, BlockPlan, TileCandidate
from legalsat.plans.plan import Launch, Plan
from legalsat.plans.product_cost import ProductCost
from legalsat.plans.product_kernel import WARPS
from legalsat.rules import SHARED_RULES
from legalsat.rules.movement import COPY_ENGINE
from legalsat.targets import GRANULE_BYTES, KIB, Target
from legalsat.units.mma import Mma
from legalsat.units.sites import SharedStages
from legalsat.units.tensor_map import SWIZZLES

ROWS = {"tcgen05": (128, 256), "": (64, 128, 256)}
COLUMNS = (16, 32, 64, 128, 192, 256)
WIDE = 64
MOST_ACCUMULATORS = 128 * 256  # 32-bit sums of a tile
LEAST_STAGES = 2  # one to work on while the other one loads
MOST_STAGES = 8
MOST_BLOCKS = 2  # on a processor; more of them leave each too few stages
BLOCK_BYTES = KIB  # of shared memory that the system keeps for each block (FACTS HW-01)
RESULT_MEANS = ("tma", "threads")
OPERAND_MEANS = tuple(means for means in USUAL_MEANS if means != "fragments")  # which share no ring
NANOSECONDS_PER_WAVEFRONT = 0.57  # one a clock
TOP = 4


@dataclass(frozen=True, slots=True)
class TilePlan:
    """What is planned of a tile before its stages are chosen."""

    extents: tuple[int, int, int]
    plans: dict[str, Plan]
    operands: dict[str, Copy]
    mma: Mma | None
    staged: Staged | None

    @property
    def ring(self) -> int:
        """Bytes of a stage."""
        return sum(self.plans[name].shared[0].bytes for name in "AB" if self.plans[name].shared)

    @property
    def result(self) -> int:
        """Bytes of C's tile in shared memory."""
        if self.staged is not None:
            return self.staged.bytes
        return sum(shared.bytes for shared in self.plans["C"].shared if not shared.overlays)

    def single(self, stages: int) -> int:
        """Bytes besides the ring: of a second barrier a stage, and what of C's tile does not lie on the ring."""
        overlays = self.staged is not None and self.staged.epilogue.overlays
        return 8 * stages + (max(0, self.result - stages * self.ring) if overlays else self.result)

    @property
    def columns(self) -> int:
        """Columns of tensor memory that a block allocates."""
        return self.mma.allocated if self.mma else 0


@dataclass(frozen=True, slots=True)
class Solved:
    """A tile with its stages and blocks."""

    tile: TilePlan
    candidate: TileCandidate


def block_plan(operator: Gemm, target: Target) -> BlockPlan:
    """Return the cheapest plan of a product among the tiles of the table, operand by operand.

    Raises:
        NoLegalLayout: no tile has a legal plan for all three operands.
    """
    best: list[Solved] = []
    refusal: LegalSatError | None = None
    for bound, extents in sorted((_bound(operator, tile, target), tile) for tile in _tiles(operator, target)):
        if best and bound >= best[0].candidate.cost.nanoseconds:
            break
        try:
            found = _planned(operator, extents, target)
        except (NoLegalLayout, NoSuchDescriptor) as error:
            refusal = refusal or error
            continue
        best = sorted(
            [*best, *found], key=lambda one: (one.candidate.cost.nanoseconds, one.candidate.cost.shared_bytes)
        )
    if not best:
        if isinstance(refusal, NoLegalLayout):
            raise NoLegalLayout(f"no legal {operator} on {target}: {refusal.title}", refusal.diagnostics) from None
        raise NoLegalLayout(f"no tile of {operator} fits {target}{f': {refusal}' if refusal else ''}", ())
    plan = finished(operator, target, best)
    if has_pipeline(plan):
        require_contract(plan.pipeline, target)
    return plan


def finished(operator: Gemm, target: Target, best: list[Solved]) -> BlockPlan:
    """Return the plan of the first of these."""
    tile, chosen = best[0].tile, best[0].candidate
    warps = tile.plans["A"].launch.warps if tile.mma is None else WARPS * tile.mma.warpgroups + LOADERS
    return BlockPlan(
        operator,
        target,
        chosen.tile,
        chosen.stages,
        chosen.blocks,
        Launch(warps, 0),
        tile.plans["A"],
        tile.plans["B"],
        tile.plans["C"],
        tile.mma,
        tile.staged.epilogue if tile.staged else None,
        chosen.cost,
        tuple(one.candidate for one in best[:TOP]),
    )


def _tiles(operator: Gemm, target: Target) -> list[tuple[int, int, int]]:
    depth = ROW_BITS // operator.dtype.bits
    rows = ROWS[matrix_unit(target)]
    granule = 8 * GRANULE_BYTES // operator.out_dtype.bits  # columns of C that fill one
    # Narrow tiles serve narrow products; of wide ones they read every row of A too often.
    columns = [n for n in COLUMNS if n >= granule and (n >= WIDE or operator.n <= n)]
    return [(m, n, depth) for m, n in product(rows, columns) if m * n <= MOST_ACCUMULATORS]


def _bound(operator: Gemm, tile: tuple[int, int, int], target: Target) -> float:
    """Return nanoseconds that no plan in this tile is below: what it would take if all operands came by boxes."""
    if not matrix_unit(target):
        return least(operator, tile, target)
    ring = (tile[0] + tile[1]) * tile[2] * operator.dtype.bits // 8
    found: list[float] = []
    for blocks in range(1, MOST_BLOCKS + 1):
        stages = _fitting(ring, lambda _: 0, blocks, target)
        if stages is not None:
            cost = product_cost(
                operator,
                tile,
                target,
                stages=stages,
                blocks=blocks,
                stage_bytes=ring,
                instructions=0,
                relayouts=0.0,
                padding_bytes=0,
                shared_bytes=0,
            )
            found.append(cost.nanoseconds)
    return min(found, default=least(operator, tile, target))


def _planned(operator: Gemm, extents: tuple[int, int, int], target: Target) -> list[Solved]:
    """Return a tile's plans, one for each number of blocks that fit on a processor; none without two stages.

    Raises:
        NoLegalLayout: an operand has no legal plan.
        NoSuchDescriptor: the matrix unit cannot read a tile as it arrives.
    """
    operands = operator.operands(extents, readers_on(target))
    plans = {}
    for name, copy in operands.items():
        try:  # C leaves from shared memory, so that no other means could bring it
            plans[name] = cached_plan(copy, target, RESULT_MEANS if name == "C" else OPERAND_MEANS)
        except NoLegalLayout as error:
            raise NoLegalLayout(f"operand {name}, {error.title}", error.diagnostics) from None
    unit = matrix_unit(target)
    if unit:
        plans["C"] = _result(extents[:2], operands["C"], plans["C"], target)
    return solved(operator, extents, plans, target)


def solved(operator: Gemm, extents: tuple[int, int, int], plans: dict[str, Plan], target: Target) -> list[Solved]:
    """Return what is left to choose of a tile whose operands have plans, for each number of blocks that fit.

    Raises:
        NoSuchDescriptor: the matrix unit cannot read a tile as it arrives.
    """
    unit, operands = matrix_unit(target), operator.operands(extents, readers_on(target))
    how = multiplied(operator, extents, plans, operands, target) if unit else None
    staged = epilogue_of(extents[:2], plans["C"], target) if unit else None
    tile = TilePlan(extents, plans, operands, how, staged)
    found = []
    for blocks in range(1, MOST_BLOCKS + 1):
        stages = _fitting(tile.ring, tile.single, blocks, target)
        if stages is not None and tile.columns * blocks <= _columns(target):
            cost = _cost(operator, tile, stages, blocks, target)
            found.append(Solved(tile, TileCandidate(extents, stages, blocks, cost)))
    return found


def _columns(target: Target) -> int:
    return target.tcgen05.columns if target.tcgen05 else 0


def _result(tile: tuple[int, int], copy: Copy, plan: Plan, target: Target) -> Plan:
    """Return the plan of C.

    Where banks have to serve the swizzle of the fewest boxes more often than another one, either may take less time.
    """
    staged = epilogue_of(tile, plan, target)
    if staged is None or plan.store != "tma" or staged.epilogue.wavefronts == staged.epilogue.least:
        return plan
    best = (plan, staged)
    for swizzle in SWIZZLES[:4]:  # those of 16-byte atoms, which every copy engine has
        try:
            other = plan_swizzled(copy, target, swizzle)
        except NoLegalLayout:
            continue
        found = epilogue_of(tile, other, target)
        if found is not None and other.store == "tma" and _stored(other, found) < _stored(*best):
            best = (other, found)
    return best[0]


def _stored(plan: Plan, staged: Staged) -> float:
    """Return the nanoseconds in which a tile of C is written to shared memory and handed to the copy engine."""
    return staged.wavefronts * NANOSECONDS_PER_WAVEFRONT + plan.shared[0].boxes * NANOSECONDS_PER_BOX


def _fitting(ring: int, single: Callable[[int], int], blocks: int, target: Target) -> int | None:
    """Return how many stages fit where `blocks` share a processor, by the rules; None for fewer than two.

    A stage takes `ring` bytes, and what else there is takes `single(stages)`.
    """
    for stages in range(MOST_STAGES, LEAST_STAGES - 1, -1):
        site = SharedStages(stages, ring, single(stages))
        together = blocks * (site.bytes + BLOCK_BYTES) <= target.shared_bytes_per_processor
        if together and not any(d for rule in SHARED_RULES for d in rule.check(site, target)):
            return stages
    return None


def _cost(operator: Gemm, tile: TilePlan, stages: int, blocks: int, target: Target) -> ProductCost:
    plans, operands = tile.plans, tile.operands
    once = [first.cost.nanoseconds for name in "AB" if not operands[name].constant for first in plans[name].before]
    return product_cost(
        operator,
        tile.extents,
        target,
        stages=stages,
        blocks=blocks,
        stage_bytes=tile.ring,
        instructions=sum(_instructions(plans[name], operands[name], target) for name in "AB"),
        relayouts=sum(once),
        padding_bytes=sum(plans[name].cost.padding_bytes for name in "AB"),
        shared_bytes=stages * tile.ring + tile.single(stages),
    )


def _instructions(plan: Plan, operand: Copy, target: Target) -> int:
    """Return the memory instructions of all loads of an operand, its store left aside."""
    modes = plan.access.modes
    tiles = math.prod(-(-m.extent // m.tile) for m in modes) * operand.passes
    size = math.prod(m.tile for m in modes) * plan.access.word // 8
    issued = [c.bytes for c in plan.copies if c.side == "source" and plan.access.by not in COPY_ENGINE]
    if plan.access.by == "threads" and plan.shared:
        issued.append(GRANULE_BYTES)
    return tiles * sum(-(-size // (b * target.lanes)) for b in issued)


@lru_cache(maxsize=256)
def cached_block_plan(operator: Gemm, target: Target) -> BlockPlan:
    """Return `block_plan(operator, target)`, remembered."""
    return block_plan(operator, target)
