"""What a product is predicted to take: the busiest processor's tiles, one turn along K after the other.

The rates were fitted to 221 kernels of 13 bf16 products on an H200, with L2 cold (bench/gpu/results/tiles.json), when
such blocks were planned for wgmma too; fitted without one product, they predicted that one as well. Other chips scale
with their datasheets; no chip with tcgen05 has been measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from legalsat.extract.cost.cost import NANOSECONDS_PER_INSTRUCTION, NOMINAL
from legalsat.operators.gemm import Gemm
from legalsat.plans.product_cost import ProductCost
from legalsat.targets import Target

LAUNCH_NANOSECONDS = 3150.0
MATRIX_EFFICIENCY = 0.93  # of the datasheet's rate
DRAM_EFFICIENCY = 0.53
L2_FACTOR = 3.5  # times the datasheet's DRAM bandwidth, of all processors together
LOAD_BANDWIDTH = 127e9  # bytes a second that one processor's loads reach
STAGE_NANOSECONDS = 1820.0  # from releasing a stage until it is full again, under load
STORE_NANOSECONDS = 0.037  # a byte of C, from sums to global memory
OVERLAP = 4.7  # what takes about as long as the longest slows that down: the norm in which times add up


@dataclass(frozen=True, slots=True)
class Rates:
    """What a chip does: processors, operations a second of one, bytes a second of DRAM and of all loads together."""

    processors: int
    flops: float
    memory: float
    loads: float


def rates(operator: Gemm, target: Target) -> Rates:
    """Return the rates of a target for a product's type."""
    device = target.device or NOMINAL
    processors, bandwidth = device.processors, device.memory_bandwidth
    flops = device.bf16_flops * dict(target.multiplies)[operator.dtype.name]
    return Rates(processors, flops * MATRIX_EFFICIENCY / processors, bandwidth * DRAM_EFFICIENCY, bandwidth * L2_FACTOR)


@dataclass(frozen=True, slots=True)
class Course:
    """How tiles share the processors out.

    Attributes:
        steps: turns along K of a tile. rounds: one after the other on the busiest processor.
        resident: tiles that it works on at once. active: processors that have any.
    """

    steps: int
    rounds: int
    resident: int
    active: int


def course(operator: Gemm, tile: tuple[int, int, int], blocks: int, target: Target) -> Course:
    """Return how the tiles of a product run with so many blocks on a processor."""
    processors = rates(operator, target).processors
    tiles = -(-operator.m // tile[0]) * -(-operator.n // tile[1])
    own = -(-tiles // processors)
    resident = min(blocks, own)
    return Course(-(-operator.k // tile[2]), -(-own // resident), resident, min(tiles, processors))


def multiply_nanoseconds(operator: Gemm, tile: tuple[int, int, int], target: Target) -> float:
    """Return how long one turn of a tile keeps the matrix unit."""
    return 2 * tile[0] * tile[1] * tile[2] / rates(operator, target).flops * 1e9


def load_nanoseconds(operator: Gemm, stage_bytes: int, active: int, target: Target) -> float:
    """Return how long the loads of one stage take where so many processors load at once."""
    return stage_bytes / min(LOAD_BANDWIDTH, rates(operator, target).loads / active) * 1e9


def least(operator: Gemm, tile: tuple[int, int, int], target: Target) -> float:
    """Return nanoseconds that no plan in this tile is below."""
    alone = course(operator, tile, 1, target)
    compute = alone.rounds * alone.steps * multiply_nanoseconds(operator, tile, target)
    return round(LAUNCH_NANOSECONDS + max(compute, _memory(operator, target)), 1)


def _memory(operator: Gemm, target: Target) -> float:
    """Return nanoseconds of DRAM: every operand once."""
    size: float = (operator.m + operator.n) * operator.k * operator.dtype.bits / 8
    stored: float = operator.m * operator.n * operator.out_dtype.bits / 8
    return (size + stored) / rates(operator, target).memory * 1e9


def _together(*times: float) -> float:
    """Return how long things take that run at once, more than the longest of them."""
    longest = max(times)
    total: float = sum((time / longest) ** OVERLAP for time in times)
    return longest * math.pow(total, 1 / OVERLAP)


def product_cost(
    operator: Gemm,
    tile: tuple[int, int, int],
    target: Target,
    *,
    stages: int,
    blocks: int,
    stage_bytes: int,
    instructions: int,
    relayouts: float,
    padding_bytes: int,
    shared_bytes: int,
) -> ProductCost:
    """Return what a product is predicted to take.

    Args:
        operator: the product.
        tile: elements along m, n and k.
        target: the GPU.
        stages: of the ring.
        blocks: on a processor.
        stage_bytes: bytes of a stage.
        instructions: memory instructions of warps for all loads.
        relayouts: nanoseconds of what runs before.
        padding_bytes: bytes of global memory for that.
        shared_bytes: shared memory of a block.
    """
    run = course(operator, tile, blocks, target)
    turns = run.rounds * run.steps
    compute = turns * run.resident * multiply_nanoseconds(operator, tile, target)
    load = turns * run.resident * load_nanoseconds(operator, stage_bytes, run.active, target)
    latency = turns * STAGE_NANOSECONDS / stages
    issue = instructions * NANOSECONDS_PER_INSTRUCTION / rates(operator, target).processors
    memory = _memory(operator, target)
    written = tile[0] * tile[1] * operator.out_dtype.bits / 8
    epilogue = run.rounds * run.resident * written * STORE_NANOSECONDS
    return ProductCost(
        nanoseconds=round(
            LAUNCH_NANOSECONDS + _together(compute, memory, load, issue, latency) + epilogue + relayouts, 1
        ),
        compute=round(compute, 1),
        memory=round(memory, 1),
        load=round(load, 1),
        issue=round(issue, 1),
        latency=round(latency, 1),
        epilogue=round(epilogue, 1),
        relayouts=round(relayouts, 1),
        padding_bytes=padding_bytes,
        shared_bytes=shared_bytes,
    )
