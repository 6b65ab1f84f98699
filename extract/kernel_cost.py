"""What a persistent kernel of a product is predicted to take, relayouts in front included.

Rates were fitted to kernels measured on an H200 (bench/gpu/results/gemm.json, `python -m bench.gpu.gemm judge`).
"""

from __future__ import annotations

import math

from legalsat.extract.cost import NOMINAL_BANDWIDTH, NOMINAL_PROCESSORS
from legalsat.gemm import Gemm
from legalsat.product_kernel import ProductKernel
from legalsat.targets import Target

LAUNCH = 4200.0  # nanoseconds of a launch, its first loads and its last stores
STEP_CYCLES = 8.0  # besides the multiplication, of each turn along k
CLOCK = 1.6  # cycles a nanosecond under load
CLUSTERED = 1.01  # blocks that wait for each other
REALIGNED = 1.10  # A through registers: shared memory is busier
STORED_BYTES = 40.0  # of C a cycle and processor, while its warps do not multiply
LOAD_BYTES = 62.0  # a cycle and processor, from L2
DRAM_SHARE = 0.80  # of the datasheet's bandwidth
RELAYOUT_SHARE = 0.80
RELAYOUT_LAUNCH = 2500.0
GPC_PROCESSORS = 16  # which a cluster cannot leave
SPLIT = 900.0  # nanoseconds in which a cluster meets twice
SPLIT_BYTES = 0.045  # nanoseconds a byte of sums, to write them and to add up what others wrote
OVERLAP = 6.0  # the norm in which what happens at once adds up


def kernel_nanoseconds(gemm: Gemm, kernel: ProductKernel, target: Target) -> float:
    """Return nanoseconds."""
    device = target.device
    processors = device.processors if device else NOMINAL_PROCESSORS
    bandwidth = (device.memory_bandwidth if device else NOMINAL_BANDWIDTH) / 1e9
    m, n, k, size = _extents(gemm, kernel)
    rows, columns, depth = kernel.tile
    if kernel.realign == "tiles":
        of_phase = -(-m // kernel.phases)  # rows
        tiles_m = kernel.phases * -(-of_phase // (rows * kernel.cluster[0])) * kernel.cluster[0]
    else:
        tiles_m = -(-m // (rows * kernel.cluster[0])) * kernel.cluster[0]
    tiles_n = -(-n // (columns * kernel.cluster[1])) * kernel.cluster[1]
    blocks = kernel.cluster[0] * kernel.cluster[1] * kernel.split
    tiles = tiles_m * tiles_n * kernel.split
    steps = -(-k // (depth * kernel.split)) + (1 if kernel.realign == "registers" else 0)
    groups = processors // GPC_PROCESSORS * (GPC_PROCESSORS // blocks) if blocks > 2 else processors // blocks
    at_once = groups * blocks * kernel.blocks
    rounds = -(-tiles // at_once)
    resident = min(kernel.blocks, -(-tiles // processors))
    busy = min(tiles, processors)
    cycles = rows * columns * depth * size / 4096 * (REALIGNED if kernel.realign == "registers" else 1.0)
    loaded = (rows / kernel.cluster[1] + columns / kernel.cluster[0]) * depth * size
    turn = max(cycles * resident, loaded * resident / LOAD_BYTES * (0.5 + 0.5 * busy / processors)) + STEP_CYCLES
    latency = 1100.0 * CLOCK / kernel.stages  # of a stage, from released to full
    store = rows * columns * (gemm.out_dtype.bits // 8) / STORED_BYTES
    if kernel.alternate:
        store *= 0.15
    elif rounds > 1:
        store *= 0.8
    compute = rounds * (steps * max(turn, latency) + store * resident) / CLOCK
    moved = ((m + n) * k * size + m * n * gemm.out_dtype.bits / 8) / (bandwidth * DRAM_SHARE)
    total = math.pow(compute**OVERLAP + moved**OVERLAP, 1 / OVERLAP) + LAUNCH
    if kernel.split > 1:
        total += SPLIT + rows * columns * 4 * SPLIT_BYTES
    for extent, first, constant in (
        (m, kernel.relayouts[0], kernel.swapped),
        (n, kernel.relayouts[1], not kernel.swapped),
    ):
        if first != "none" and not (constant and gemm.constant_b):
            total += 2 * extent * k * size / (bandwidth * RELAYOUT_SHARE) + RELAYOUT_LAUNCH
    if kernel.cluster != (1, 1):
        total *= CLUSTERED
    return round(total, 1)


def _extents(gemm: Gemm, kernel: ProductKernel) -> tuple[int, int, int, int]:
    m, n = (gemm.n, gemm.m) if kernel.swapped else (gemm.m, gemm.n)
    return m, n, gemm.k, gemm.dtype.bits // 8
