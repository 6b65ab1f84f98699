"""What persistent kernels of products are predicted to take, relayouts in front included.

Rates were fitted to 3,085 times of 112 products on an H200. How far predictions are off, and how much of the fastest
kernel's speed the first choice has: `python -m bench.gpu.gemm judge`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from legalsat.extract.cost.cost import NOMINAL
from legalsat.extract.cost.kernel_columns import KernelColumns, Numbers
from legalsat.extract.kernels.product_maps import laid, sides
from legalsat.operators.gemm import Gemm
from legalsat.plans.product_cost import ProductCost
from legalsat.plans.product_kernel import ProductKernel
from legalsat.targets import Target

LAUNCH = 4180.0  # nanoseconds of a launch, its first loads and its last stores
FEW_STAGES, HELD = 4, 0.8  # with fewer a stage is held so long besides: bench/gpu/results/firsts.json
STEP_CYCLES = 12.0  # besides the multiplication, of each turn along k
CLOCK = 1.747  # cycles a nanosecond under load
FLOPS = 989e12 / 132  # of bf16 a second and processor, of the GPU that the rates were fitted on
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
ROUNDING = 0.1  # of predicted nanoseconds


@dataclass(frozen=True, slots=True)
class Products:
    """Products that differ in extents alone: arrays of m, n, k; bytes of elements; whether B is constant."""

    m: Numbers
    n: Numbers
    k: Numbers
    size: int
    result_size: int
    constant_b: bool

    @staticmethod
    def like(gemm: Gemm, m: ArrayLike, n: ArrayLike, k: ArrayLike) -> Products:
        """Return products of `gemm`'s types, of these extents."""
        rows, columns, depth = (np.atleast_1d(np.asarray(extent, dtype=np.float64)) for extent in (m, n, k))
        return Products(rows, columns, depth, gemm.dtype.bytes, gemm.out_dtype.bytes, gemm.constant_b)

    def taken(self, some: list[int]) -> Products:
        """Return some of the products."""
        return replace(self, m=self.m[some], n=self.n[some], k=self.k[some])


def kernel_cost(gemm: Gemm, kernel: ProductKernel, target: Target) -> ProductCost:
    """Return what a kernel is predicted to take, and of what that consists."""
    parts = _parts(Products.like(gemm, gemm.m, gemm.n, gemm.k), KernelColumns.of((kernel,)), target)
    numbers = {name: round(float(part.flat[0]), 1) for name, part in parts._asdict().items()}
    return ProductCost(**numbers, padding_bytes=_relaid(gemm, kernel), shared_bytes=kernel.shared_bytes)


def _relaid(gemm: Gemm, kernel: ProductKernel) -> int:
    """Return the bytes that operands take which are laid out anew."""
    pairs = zip(sides(gemm, kernel), kernel.relayouts, strict=True)
    copies = (laid(tensor, first) for tensor, first in pairs if first != "none")
    return sum(one.lines * one.pitch for one in copies)


class Parts(NamedTuple):
    """Nanoseconds of kernels, as `ProductCost` has them: in all, and by what takes them."""

    nanoseconds: Numbers
    compute: Numbers
    memory: Numbers
    load: Numbers
    issue: Numbers
    latency: Numbers
    epilogue: Numbers
    relayouts: Numbers


def kernel_times(products: Products, kernels: KernelColumns, target: Target) -> NDArray[np.float64]:
    """Return nanoseconds, one row for each product and one column for each kernel."""
    rounded: NDArray[np.float64] = np.asarray(np.round(_parts(products, kernels, target).nanoseconds, 1), np.float64)
    return rounded


def least_times(products: Products, passes: tuple[bool, bool], target: Target) -> NDArray[np.float64]:
    """Return nanoseconds that no kernel is below, for each product: all processors multiply, and each byte moves once.

    Args:
        products: of one class.
        passes: whether A is laid out anew first, and B.
        target: the GPU.
    """
    device = target.device or NOMINAL
    bandwidth, size = device.memory_bandwidth / 1e9, products.size
    m, n, k = products.m, products.n, products.k
    compute = m * n * k * size / 4096 * _slower(target) / device.processors / CLOCK
    moved = ((m + n) * k * size + m * n * products.result_size) / (bandwidth * DRAM_SHARE)
    relayouts = sum(
        2 * extent * k * size / (bandwidth * RELAYOUT_SHARE) + RELAYOUT_LAUNCH
        for extent, one, spared in ((m, passes[0], False), (n, passes[1], products.constant_b))
        if one and not spared
    )
    return np.asarray((compute**OVERLAP + moved**OVERLAP) ** (1 / OVERLAP) + LAUNCH + relayouts - ROUNDING, np.float64)


def _slower(target: Target) -> float:
    """Return how many times as long a processor multiplies as those that the rates were fitted on."""
    return FLOPS * target.device.processors / target.device.bf16_flops if target.device else 1.0


def _parts(products: Products, kernels: KernelColumns, target: Target) -> Parts:
    """Return nanoseconds, rows for products and columns for kernels."""
    device = target.device or NOMINAL
    processors, bandwidth = device.processors, device.memory_bandwidth / 1e9
    size, result_size, swapped = products.size, products.result_size, kernels.swapped
    m, n, k = (extent[:, None] for extent in (products.m, products.n, products.k))
    m, n = np.where(swapped, n, m), np.where(swapped, m, n)
    rows, columns, depth, own, phases = kernels.rows, kernels.columns, kernels.depth, kernels.blocks, kernels.phases
    down, across, split, in_registers = kernels.down, kernels.across, kernels.split, kernels.in_registers
    together = down * across * split
    fitting = np.array([0, *(device.clusters_at_once(count) * count for count in range(1, together.max() + 1))])
    at_once = fitting[together] * own

    clusters = phases * _ceil(_ceil(m, phases), rows * down) * _ceil(n, columns * across)
    tiles = clusters * together
    steps = _ceil(k, depth * split) + in_registers
    rounds = _ceil(tiles, at_once)
    resident = np.minimum(own, _ceil(tiles, processors))
    busy = np.minimum(tiles, processors)
    cycles = rows * columns * depth * size / 4096 * _slower(target)
    cycles = cycles * np.where(in_registers, REALIGNED + REALIGNED_COLUMNS / columns, 1.0)
    shares = ((rows / across, m), (columns / down, n))  # lines that a block loads, and of how many
    loaded = sum(share for share, _ in shares) * depth * size
    turn = np.maximum(cycles * resident, loaded * resident / LOAD_BYTES * (0.5 + 0.5 * busy / processors)) + STEP_CYCLES
    # Of a stage, from released to full. It is released when the next one's group is under way, which tells with few.
    latency = 1100.0 * CLOCK / np.where(kernels.stages < FEW_STAGES, kernels.stages - HELD, kernels.stages)
    hidden = np.where(rounds > 1, 0.8, 1.0)
    hidden = np.where(kernels.overlapped, 0.1 + 0.9 / rounds, hidden)
    hidden = np.where(kernels.ping_pong, 0.15, hidden)
    store = rows * columns * result_size / STORED_BYTES * hidden
    # Processors that read the same little get it sooner than the cache could give each something else.
    weighed = sum(share * np.where(extent * k * size < LITTLE_BYTES, LITTLE_SHARE, 1.0) for share, extent in shares)
    from_cache = tiles * steps * weighed * depth * size / CACHE_BYTES
    compute = rounds * (steps * np.maximum(turn, latency) + store * resident) / CLOCK
    moved = ((m + n) * k * size + m * n * result_size) / (bandwidth * DRAM_SHARE)
    total = (compute**OVERLAP + moved**OVERLAP + from_cache**OVERLAP) ** (1 / OVERLAP) + LAUNCH
    joined = np.where(split > 1, rounds * (SPLIT + rows * columns * 4 * SPLIT_BYTES), 0.0)
    again = np.where(kernels.by_sums, (rounds - 1) * ROUND, 0.0)
    relayouts = np.zeros_like(total)
    for side, extent in enumerate((m, n)):
        # A weight is B, which a kernel that computes C^T takes for its A.
        spared = (swapped if side == 0 else ~swapped) & products.constant_b
        passes = (kernels.relaid_b if side else kernels.relaid_a) & ~spared
        relayouts = relayouts + passes * (2 * extent * k * size / (bandwidth * RELAYOUT_SHARE) + RELAYOUT_LAUNCH)
    return Parts(
        total + joined + again + relayouts,
        rounds * steps * turn / CLOCK,
        moved,
        from_cache,
        np.zeros_like(total),
        rounds * steps * latency / CLOCK,
        rounds * store * resident / CLOCK + joined,
        relayouts,
    )


def _ceil(value: Numbers, by: Any) -> Numbers:
    return np.asarray(np.ceil(value / by))
