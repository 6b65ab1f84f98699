"""What extents decide of a kernel though no text, proof or register does: the order of tiles, and what L2 fetches.

A table's kernels have what suits any extents. One that is chosen gets what suits its product's, in fields of its own:
so the same kernel asks for the same maps and takes tiles in the same order whether extents are open or numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from legalsat.extract.cost.kernel_columns import KernelColumns
from legalsat.extract.cost.kernel_cost import BESIDE
from legalsat.extract.cost.matrices import LINE
from legalsat.extract.kernels.product_maps import extents
from legalsat.extract.moved.relayouts import MEANS, ways_of
from legalsat.operators.gemm import Gemm
from legalsat.plans.product_kernel import ProductKernel
from legalsat.tensor import plain

GROUP = 8  # tiles along m that neighbours in time share
# Of A and B together, for which L2 has room beside what more columns at once need. Where tiles beside each other write
# parts of the same lines of C, `BESIDE` of them along m take 0.984 of the time then (16 products held out, an H100;
# 1.014 at worst), 0.995 of 29 batches, 0.77 at best of others.
KEPT_BYTES = 2**24


def for_extents(kernel: ProductKernel, gemm: Gemm) -> ProductKernel:
    """Return a kernel with the order of tiles and the maps that suit a product's extents, which are numbers."""
    group, streamed = BESIDE if _beside(gemm, kernel.swapped, kernel.slices) else GROUP, _streamed(gemm, kernel)
    if (group, streamed) == (kernel.group, kernel.streamed):
        return kernel
    return replace(kernel, group=group, streamed=streamed)


def for_any_extents(kernel: ProductKernel) -> ProductKernel:
    """Return a kernel as its table has it: those that are equal so have the same program."""
    if kernel.group == GROUP and not any(kernel.streamed) and kernel.means == MEANS:
        return kernel
    return replace(kernel, group=GROUP, streamed=(False, False), means=MEANS)


def is_for_some_extents(kernel: ProductKernel) -> bool:
    """Return whether some extents have a kernel's order of tiles, and its relayouts a way; any maps are right."""
    return kernel.group in {GROUP, BESIDE} and kernel in ways_of(replace(kernel, means=MEANS))


def ordered(kernels: KernelColumns, gemms: Sequence[Gemm]) -> KernelColumns:
    """Return a table's kernels in the order of tiles that `for_extents` gives them, a row for each product."""
    beside = np.array([[_beside(gemm, swapped) for swapped in (False, True)] for gemm in gemms])
    if not beside.any():
        return kernels
    beside = np.where(kernels.swapped, beside[:, 1:], beside[:, :1]) & (kernels.slices == 1)
    return replace(kernels, group=np.where(beside, BESIDE, kernels.group))


def _beside(gemm: Gemm, swapped: bool, slices: int = 1) -> bool:
    """Whether tiles beside each other write parts of the same lines of C, and operands are small.

    Where groups are cut their products are, on the average, others than extents say. Slices lie in whole lines.
    """
    strides = plain(gemm.matrices["C"].strides)
    pitch, step = strides[::-1] if swapped else strides
    small = (gemm.m + gemm.n) * gemm.k * gemm.dtype.bytes <= KEPT_BYTES
    parted = step == 1 and pitch * gemm.out_dtype.bytes % LINE != 0
    return bool(parted and small and slices == 1 and not gemm.members.ragged)


def _streamed(gemm: Gemm, kernel: ProductKernel) -> tuple[bool, bool]:
    """Return whether A, and B, are read by one row or column of clusters alone.

    Of batches none is said to be: they took longer so (1.02 of the time of 30, an H200). Of groups of rows each has a
    B, which few clusters read.
    """
    along_m, along_n = kernel.clusters(*extents(gemm, kernel))
    alone = not gemm.members.extents
    return (
        kernel.cuts == "n" or (alone and along_n == 1),
        kernel.cuts == "m" or (alone and along_m == kernel.slices),
    )
