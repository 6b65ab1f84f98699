"""What stream-K takes: of each tile that is cut, sums are given away, by memory, and added where the tile is stored.

Rates were fitted to 292 times of 73 products on an H200 (`stream_k_h200.json`, `stream_k_first_h200.json`), which are
off by 1.056 then, and those of 63 others (`stream_k_held_out_h200.json`) by 1.042.
"""

from __future__ import annotations

import numpy as np

from legalsat.extract.cost.kernel_columns import KernelColumns, Numbers
from legalsat.plans.product_kernel import SUM_BYTES

GIVEN_BYTES = 21.8  # of sums that a processor gives away in a cycle
ADDED_BYTES, ADDED = 62.9, 344.0  # likewise that it adds, and cycles that it waits besides for each that gives
GIVEN_MOVED = 3.4  # bytes that DRAM moves for each that is given
APART_SHARE = 0.33  # of what tiles of the same rows of A, or columns of B, read again, as they are at other k-tiles
LONGER = 1.01  # times as long as a tile that one CTA has: 63 first choices of before gained nothing by less (an H200)
CLEARED = 1900.0  # nanoseconds until what says that sums are there is zero, in front of the launch
CUT_ROUNDS = 2  # rounds of tiles of which some are cut, at most


def cycles_of(kernels: KernelColumns, tiles: Numbers, clusters: Numbers, tile: Numbers, store: Numbers) -> Numbers:
    """Return the cycles of a CTA.

    Args:
        kernels: of one class.
        tiles: of clusters.
        clusters: that run at once.
        tile: cycles in which one is multiplied.
        store: cycles in which it leaves.
    """
    each, sums = tiles / clusters, kernels.rows * kernels.columns * SUM_BYTES
    others = np.ceil(1 / np.minimum(each, 1))  # by which a tile is cut
    given = sums / GIVEN_BYTES + others * (sums / ADDED_BYTES + ADDED)
    return np.asarray(each * tile * LONGER + np.ceil(each) * store + given, np.float64)


def given_bytes(kernels: KernelColumns, ctas: Numbers) -> Numbers:
    """Return the bytes that DRAM moves of what so many CTAs give away; 0 where k-tiles are not shared out."""
    return np.asarray(GIVEN_MOVED * kernels.stream_k * ctas * kernels.rows * kernels.columns * SUM_BYTES)


def read_by_all(kernels: KernelColumns, waves: Numbers, whole: Numbers, rounds: Numbers) -> Numbers:
    """Return of how many rows of A, or of B, tiles are, wave after wave.

    Args:
        kernels: of one class.
        waves: of how many they are where tiles that run at once are at the same k-tiles.
        whole: of how many where each tile reads its own.
        rounds: tiles for each cluster.
    """
    apart = APART_SHARE * np.minimum(1, CUT_ROUNDS / rounds) * kernels.stream_k
    return np.asarray(waves + apart * np.maximum(0.0, whole - waves))
