"""What a persistent kernel of a product is predicted to take, relayouts in front included.

Rates were fitted to 3,085 times of 112 products on an H200. How far predictions are off, and how much of the fastest
kernel's speed the first choice has: `python -m bench.gpu.gemm judge`.
"""

from __future__ import annotations

import math

from legalsat.extract.cost import NOMINAL
from legalsat.extract.product_maps import extents
from legalsat.gemm import Gemm
from legalsat.product_kernel import ProductKernel
from legalsat.targets import Target

LAUNCH = 4180.0  # nanoseconds of a launch, its first loads and its last stores
STEP_CYCLES = 12.0  # besides the multiplication, of each turn along k
CLOCK = 1.747  # cycles a nanosecond under load
REALIGNED = 0.78  # A through registers: shared memory is busier, the more so the narrower the tile
REALIGNED_COLUMNS = 108.7
LITTLE_BYTES = 4 << 20  # of an operand that all processors read at about the same time
LITTLE_SHARE = 0.627  # of what loads cost otherwise, of such an operand
CACHE_BYTES = 12760.0  # a nanosecond from L2, of all processors
STORED_BYTES = 36.7  # of C a cycle and processor, while its warps do not multiply
LOAD_BYTES = 75.0  # a cycle and processor, from L2
DRAM_SHARE = 0.94  # of the datasheet's bandwidth
RELAYOUT_SHARE = 0.856
RELAYOUT_LAUNCH = 5730.0
SPLIT = 827.0  # nanoseconds in which a cluster meets twice
ROUND = 2828.0  # nanoseconds until blocks that compute one tile each have made room for the next
SPLIT_BYTES = 0.0511  # nanoseconds a byte of sums, to write them and to add up what others wrote
OVERLAP = 2.26  # the norm in which what happens at once adds up


def kernel_nanoseconds(gemm: Gemm, kernel: ProductKernel, target: Target) -> float:
    """Return nanoseconds."""
    device = target.device or NOMINAL
    processors, bandwidth = device.processors, device.memory_bandwidth / 1e9
    (m, n), k, size = extents(gemm, kernel), gemm.k, gemm.dtype.bytes
    rows, columns, depth = kernel.tile
    blocks = kernel.cluster_blocks
    tiles = math.prod(kernel.clusters(m, n)) * blocks
    steps = -(-k // (depth * kernel.split)) + (1 if kernel.realign == "registers" else 0)
    at_once = device.clusters_at_once(blocks) * blocks * kernel.blocks
    rounds = -(-tiles // at_once)
    resident = min(kernel.blocks, -(-tiles // processors))
    busy = min(tiles, processors)
    cycles = rows * columns * depth * size / 4096
    if kernel.realign == "registers":
        cycles *= REALIGNED + REALIGNED_COLUMNS / columns
    shares = (
        (rows / kernel.cluster[1], m),
        (columns / kernel.cluster[0], n),
    )  # lines that a block loads, and of how many
    loaded = sum(share for share, _ in shares) * depth * size
    turn = max(cycles * resident, loaded * resident / LOAD_BYTES * (0.5 + 0.5 * busy / processors)) + STEP_CYCLES
    latency = 1100.0 * CLOCK / kernel.stages  # of a stage, from released to full
    store = rows * columns * (gemm.out_dtype.bits // 8) / STORED_BYTES
    if kernel.alternate:
        store *= 0.15
    elif kernel.deferred:
        store *= 0.1 + 0.9 / rounds
    elif rounds > 1:
        store *= 0.8
    # Processors that read the same little get it sooner than the cache could give each something else.
    weighed = sum(share * (LITTLE_SHARE if extent * k * size < LITTLE_BYTES else 1) for share, extent in shares)
    from_cache = tiles * steps * weighed * depth * size / CACHE_BYTES
    compute = rounds * (steps * max(turn, latency) + store * resident) / CLOCK
    moved = ((m + n) * k * size + m * n * gemm.out_dtype.bits / 8) / (bandwidth * DRAM_SHARE)
    total = math.pow(compute**OVERLAP + moved**OVERLAP + from_cache**OVERLAP, 1 / OVERLAP) + LAUNCH
    if kernel.split > 1:
        total += rounds * (SPLIT + rows * columns * 4 * SPLIT_BYTES)
    if kernel.store == "sums":
        total += (rounds - 1) * ROUND
    for extent, first, constant in (
        (m, kernel.relayouts[0], kernel.swapped),
        (n, kernel.relayouts[1], not kernel.swapped),
    ):
        if first != "none" and not (constant and gemm.constant_b):
            total += 2 * extent * k * size / (bandwidth * RELAYOUT_SHARE) + RELAYOUT_LAUNCH
    return round(total, 1)
