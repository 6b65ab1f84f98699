"""`ProductCost`: what a product is predicted to take, and of what that consists."""

from __future__ import annotations

from dataclasses import dataclass

from legalsat.plans.plan import Cost


@dataclass(frozen=True, slots=True)
class ProductCost(Cost):
    """What a product is predicted to cost.

    Attributes:
        nanoseconds: of the next five, which run at once, the epilogues, the launch, and what runs before.
        compute: nanoseconds of the matrix unit, with tiles that overhang and waves that are not full.
        memory: of DRAM. load: of loads into shared memory. issue: of memory instructions.
        latency: of stages, none of which is full again sooner than a load takes.
        epilogue: of sums on their way to C, while nothing is multiplied.
        relayouts: nanoseconds of kernels that run before.
        padding_bytes: bytes of global memory for relayouts.
        shared_bytes: shared memory of a block.
    """

    compute: float
    memory: float
    load: float
    issue: float
    latency: float
    epilogue: float
    relayouts: float
    padding_bytes: int
    shared_bytes: int
