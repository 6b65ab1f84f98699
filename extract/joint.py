"""Products: operands that share a tile and a ring of stages are planned together.

Every tile in the table is bounded first, as if all operands travelled by boxes; then tiles are planned, the most
promising first, until no bound is below the best plan.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

from legalsat.errors import LegalSatError
from legalsat.extract.cost import (
    L2_FACTOR,
    LAUNCH_NANOSECONDS,
    NANOSECONDS_PER_BOX,
    NANOSECONDS_PER_INSTRUCTION,
    NOMINAL_BANDWIDTH,
    NOMINAL_PROCESSORS,
)
from legalsat.extract.planner import NoLegalLayout, cached_plan
from legalsat.extract.schedule import MAX_STAGES
from legalsat.gemm import ROW_BITS, Gemm, readers_on
from legalsat.operators import Copy
from legalsat.plan import Plan
from legalsat.rules import SHARED_RULES
from legalsat.rules.movement import COPY_ENGINE
from legalsat.sites import SharedStages
from legalsat.targets import GRANULE_BYTES, Target

ROWS = (64, 128, 256)
COLUMNS = (64, 128, 192, 256)
MOST_ACCUMULATORS = 128 * 256  # 32-bit sums of a tile; two warpgroups hold them in half of the registers
LEAST_STAGES = 2  # one to work on while the other one loads
NOMINAL_FLOPS = 500e12
TOP = 4


@dataclass(frozen=True, slots=True)
class GemmCost:
    """What a product is predicted to cost.

    Attributes:
        nanoseconds: of the whole, relayouts too: the longest of the next four, and what runs before.
        compute: nanoseconds of the matrix unit, with tiles that overhang and waves that are not full.
        memory: of DRAM and L2. engine: of the copy engine. issue: of memory instructions.
        relayouts: nanoseconds of kernels that run before.
        padding_bytes: bytes of global memory for relayouts.
        shared_bytes: shared memory of a block.
    """

    nanoseconds: float
    compute: float
    memory: float
    engine: float
    issue: float
    relayouts: float
    padding_bytes: int
    shared_bytes: int


@dataclass(frozen=True, slots=True)
class GemmCandidate:
    """A tile along m, n and k, the stages that fit, and what they are predicted to cost."""

    tile: tuple[int, int, int]
    stages: int
    cost: GemmCost


@dataclass(frozen=True, slots=True)
class GemmPlan:
    """How the operands of a product travel: one tile and one ring of stages for all.

    Attributes:
        operator: what was asked. target: the GPU.
        tile: elements along m, n and k. stages: stages of the ring that A and B share.
        a, b: the operands' movements to the matrix unit. c: the result's, from shared memory to global.
        cost: what is predicted. candidates: the best tiles, this one first.
    """

    operator: Gemm
    target: Target
    tile: tuple[int, int, int]
    stages: int
    a: Plan
    b: Plan
    c: Plan
    cost: GemmCost
    candidates: tuple[GemmCandidate, ...]

    def emit(self, backend: str) -> str:
        """Raise: products are planned, and no backend prints them yet."""
        raise LegalSatError(f"no backend prints products yet, not {backend}; emit the operands a, b and c")

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain values."""
        operands = {name: getattr(self, name).to_json() for name in "abc"}
        cost = {name: getattr(self.cost, name) for name in GemmCost.__slots__}
        return {"subject": str(self.operator), "tile": list(self.tile), "stages": self.stages, "cost": cost, **operands}

    def __str__(self) -> str:
        tile = " x ".join(map(str, self.tile))
        lines = [f"{self.operator} on {self.target}: tiles of {tile}, {self.stages} stages"]
        for name, plan in (("A", self.a), ("B", self.b), ("C", self.c)):
            laws = ", ".join(step.law for step in plan.derivation)
            lines.append(f"  {name} by {plan.access.by}, stored by {plan.store}; {laws}")
        return "\n".join([*lines, f"  predicted: {self.cost.nanoseconds:.0f} ns"])


def gemm_plan(operator: Gemm, target: Target) -> GemmPlan:
    """Return the cheapest plan of a product among the tiles of the table.

    Raises:
        NoLegalLayout: no tile has a legal plan for all three operands.
    """
    best: list[tuple[GemmCandidate, dict[str, Plan]]] = []
    refusal: LegalSatError | None = None
    for bound, tile in sorted((_bound(operator, tile, target), tile) for tile in _tiles(operator)):
        if best and bound >= best[0][0].cost.nanoseconds:
            break
        try:
            found = _planned(operator, tile, target)
        except NoLegalLayout as error:
            refusal = refusal or error
            continue
        if found is not None:
            best = sorted([*best, found], key=lambda one: (one[0].cost.nanoseconds, one[0].cost.shared_bytes))
    if not best:
        raise refusal or NoLegalLayout(f"no tile of {operator} fits {target}", ())
    chosen, plans = best[0]
    return GemmPlan(
        operator,
        target,
        chosen.tile,
        chosen.stages,
        plans["A"],
        plans["B"],
        plans["C"],
        chosen.cost,
        tuple(candidate for candidate, _ in best[:TOP]),
    )


def _tiles(operator: Gemm) -> list[tuple[int, int, int]]:
    depth = ROW_BITS // operator.dtype.bits
    return [(rows, columns, depth) for rows, columns in product(ROWS, COLUMNS) if rows * columns <= MOST_ACCUMULATORS]


def _compute(operator: Gemm, tile: tuple[int, int, int], target: Target) -> float:
    """Return nanoseconds of the matrix unit, all waves counted as full."""
    device = target.device
    processors = device.processors if device else NOMINAL_PROCESSORS
    flops = (device.bf16_flops if device else NOMINAL_FLOPS) * 16 / operator.dtype.bits
    tiles = -(-operator.m // tile[0]) * -(-operator.n // tile[1])
    waves = -(-tiles // processors)
    depth = -(-operator.k // tile[2]) * tile[2]
    return waves * processors * 2 * tile[0] * tile[1] * depth / flops * 1e9


def _memory(operator: Gemm, tile: tuple[int, int, int], target: Target) -> float:
    """Return nanoseconds of DRAM and L2: every operand once from DRAM, and again from L2 for every further tile."""
    bandwidth = target.device.memory_bandwidth if target.device else NOMINAL_BANDWIDTH
    size = operator.dtype.bits / 8
    passes = {"a": -(-operator.n // tile[1]), "b": -(-operator.m // tile[0])}
    read = sum(
        (operator.m if name == "a" else operator.n) * operator.k * size * (1 + (times - 1) / L2_FACTOR)
        for name, times in passes.items()
    )
    return (read + operator.m * operator.n * size) / bandwidth * 1e9


def _bound(operator: Gemm, tile: tuple[int, int, int], target: Target) -> float:
    return round(LAUNCH_NANOSECONDS + max(_compute(operator, tile, target), _memory(operator, tile, target)), 1)


def _planned(
    operator: Gemm, tile: tuple[int, int, int], target: Target
) -> tuple[GemmCandidate, dict[str, Plan]] | None:
    """Return a tile's plan, None where fewer than two stages fit beside the result."""
    operands = operator.operands(tile, readers_on(target))
    plans = {name: cached_plan(copy, target) for name, copy in operands.items()}
    ring = sum(plans[name].shared[0].bytes for name in "AB" if plans[name].shared)
    single = sum(shared.bytes for shared in plans["C"].shared if not shared.overlays)
    stages = _stages(ring, single, target)
    if stages is None:
        return None
    processors = target.device.processors if target.device else NOMINAL_PROCESSORS
    boxes, instructions = map(sum, zip(*(_load(plans[name], operands[name], target) for name in "AB"), strict=True))
    engine, issue = boxes * NANOSECONDS_PER_BOX / processors, instructions * NANOSECONDS_PER_INSTRUCTION / processors
    once = [first.cost.nanoseconds for name in "AB" if not operands[name].constant for first in plans[name].before]
    compute, memory = _compute(operator, tile, target), _memory(operator, tile, target)
    cost = GemmCost(
        nanoseconds=round(LAUNCH_NANOSECONDS + max(compute, memory, engine, issue) + sum(once), 1),
        compute=round(compute, 1),
        memory=round(memory, 1),
        engine=round(engine, 1),
        issue=round(issue, 1),
        relayouts=round(sum(once), 1),
        padding_bytes=sum(plans[name].cost.padding_bytes for name in "AB"),
        shared_bytes=stages * ring + single,
    )
    return GemmCandidate(tile, stages, cost), plans


def _stages(ring: int, single: int, target: Target) -> int | None:
    """Return how many stages of `ring` bytes fit beside `single` bytes, by the rules; None for fewer than two."""
    for stages in range(MAX_STAGES, LEAST_STAGES - 1, -1):
        site = SharedStages(stages, ring, single)
        if not any(d for rule in SHARED_RULES for d in rule.check(site, target)):
            return stages
    return None


def _load(plan: Plan, operand: Copy, target: Target) -> tuple[int, int]:
    """Return the boxes and the memory instructions of all loads of an operand, its store left aside."""
    modes = plan.access.modes
    tiles = math.prod(-(-m.extent // m.tile) for m in modes) * operand.passes
    size = math.prod(m.tile for m in modes) * plan.access.word // 8
    boxes = plan.shared[0].boxes if plan.access.by in COPY_ENGINE and plan.shared else 0
    issued = [c.bytes for c in plan.copies if c.side == "source" and plan.access.by not in COPY_ENGINE]
    if plan.access.by == "threads" and plan.shared:
        issued.append(GRANULE_BYTES)
    return tiles * boxes, tiles * sum(-(-size // (b * target.lanes)) for b in issued)


@lru_cache(maxsize=4096)
def cached_gemm_plan(operator: Gemm, target: Target) -> GemmPlan:
    """Return `gemm_plan(operator, target)`, remembered."""
    return gemm_plan(operator, target)
