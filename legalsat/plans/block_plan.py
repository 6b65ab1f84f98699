"""`BlockPlan`: a product planned operand by operand, one tile and one ring of stages for all of them.

Targets and types that no kernel of `legalsat.plans.product_kernel` is for are planned so, and what backends ptx and
triton print is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_type_hints

from legalsat.operators.gemm import Gemm
from legalsat.plans.plan import Launch, Plan, plain_value, value_of
from legalsat.plans.plan import from_json as plan_from_json
from legalsat.plans.product_cost import ProductCost
from legalsat.program.pipeline import Pipeline
from legalsat.targets import Target
from legalsat.units.mma import Epilogue, Mma

# Measured on an H200, one block alone (bench/gpu/results/latencies.json): 95 of 100 loads of a box are there by then.
LOAD_NANOSECONDS = 780
LOADERS = 2  # warps besides those that fetch sums: one loads, one issues


@dataclass(frozen=True, slots=True)
class TileCandidate:
    """A tile along m, n and k, stages of the ring, blocks on a processor, and what they are predicted to cost."""

    tile: tuple[int, int, int]
    stages: int
    blocks: int
    cost: ProductCost


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """A product with every field of a block solved: one tile and one ring of stages for all operands.

    Attributes:
        operator: what was asked. target: the GPU.
        tile: elements along m, n and k. stages: stages of the ring that A and B share.
        blocks: blocks that fit on a processor. launch: warps of a block, those that keep sums first.
        a, b: the operands' movements to the matrix unit. c: the result's, from shared memory to global.
        mma: how tiles are multiplied; None where no matrix unit reads shared memory by itself.
        epilogue: how sums become C; None without `mma`.
        cost: what is predicted. candidates: the best tiles, this one first.
    """

    operator: Gemm
    target: Target
    tile: tuple[int, int, int]
    stages: int
    blocks: int
    launch: Launch
    a: Plan
    b: Plan
    c: Plan
    mma: Mma | None
    epilogue: Epilogue | None
    cost: ProductCost
    candidates: tuple[TileCandidate, ...]

    @property
    def pipeline(self) -> Pipeline:
        """What a block does: roles, barriers, and the operations of each role in order.

        Raises:
            LegalSatError: operands that do not arrive by boxes, or no matrix unit that reads them.
        """
        from legalsat.extract.blocks.pipelines import product_pipeline  # noqa: PLC0415 - what builds pipelines needs plans

        return product_pipeline(self)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain values, its operator and target aside."""
        operands = {name: getattr(self, name).to_json() for name in "abc"}
        return {**{name: plain_value(getattr(self, name)) for name in SOLVED}, **operands}


SOLVED = ("tile", "stages", "blocks", "launch", "mma", "epilogue", "cost", "candidates")


def block_from_json(data: Any, operator: Gemm, target: Target) -> BlockPlan:
    """Return the plan that `BlockPlan.to_json` wrote; it is not checked against the rules here."""
    hints = get_type_hints(BlockPlan)
    a, b, c = (plan_from_json(data[name]) for name in "abc")
    rest: dict[str, Any] = {name: value_of(hints[name], data[name], name) for name in SOLVED}
    return BlockPlan(operator=operator, target=target, a=a, b=b, c=c, **rest)
