"""How sums of tcgen05 become C: what writes them to shared memory, and where, so that banks serve it best."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from legalsat.analyses.banks.bank_wavefronts import least_wavefronts, shared_access, wavefronts
from legalsat.layout.swizzle import Swizzle
from legalsat.plans.plan import Plan
from legalsat.targets import GRANULE_BYTES, Target
from legalsat.units.matrix_descriptor import SPANS
from legalsat.units.mma import Epilogue

COPY, WRITTEN_BITS = "st.b128", (8, 16, 32)  # what a thread writes at once, which has a row; and of which elements
LANES = 32
_NEXT_BOX = 1 << 20  # bytes; any multiple of the banks and of a swizzle's pattern


@dataclass(frozen=True, slots=True)
class Staged:
    """An epilogue, and the bytes of C's tile in shared memory and the wavefronts that writing all of it takes."""

    epilogue: Epilogue
    bytes: int
    wavefronts: int


def epilogue_of(tile: tuple[int, int], plan: Plan, target: Target) -> Staged | None:
    """Return how sums reach C by way of shared memory; None where threads write no elements of this size.

    Boxes dictate the swizzle; threads that store alone have rows as far apart as banks like it best.

    Args:
        tile: rows and columns of C.
        plan: of C, from shared memory to global.
        target: the GPU.
    """
    bits = plan.operator.target.dtype.bits
    row = tile[1] * bits // 8
    if bits not in WRITTEN_BITS or row % GRANULE_BYTES:
        return None
    if plan.store == "tma":
        tm = plan.tensor_maps[-1]
        swizzle, pitch = str(tm.swizzle), tm.box[0] * bits // 8
        count, least = _wavefronts(swizzle, pitch, target)
    else:
        swizzle = "none"
        pitches = range(row, row + 128 + 1, GRANULE_BYTES)
        count, pitch, least = min((w, p, best) for p in pitches for w, best in (_wavefronts(swizzle, p, target),))
    access = shared_access(COPY, target)
    size = tile[0] * max(row, pitch)
    written = math.ceil(tile[0] * row / (access.bytes * access.addresses)) * count
    return Staged(Epilogue(COPY, swizzle, pitch, count, least, plan.store, overlays=True), size, written)


@lru_cache(maxsize=1024)  # asked again for every tile, and for many pitches of each
def _wavefronts(swizzle: str, pitch: int, target: Target) -> tuple[int, int]:
    """Return the wavefronts of one warp-wide write, the worst along a row, and the least that any layout takes."""
    access = shared_access(COPY, target)
    places = write_addresses(swizzle, pitch)[:, : access.addresses]
    return int(wavefronts(access, places).max()), int(least_wavefronts(access, places).max())


def write_addresses(swizzle: str, pitch: int) -> NDArray[np.int64]:
    """Return the byte addresses of a warp's writes along its first rows: int64, (writes along a row, lanes).

    Args:
        swizzle: of the tile, by name.
        pitch: bytes between rows of a box.
    """
    writes = max(1, (SPANS[swizzle] if swizzle != "none" else pitch) // GRANULE_BYTES)
    columns = GRANULE_BYTES * np.arange(writes)[:, None]
    # A box narrower than a write goes on in the next box, which starts at a multiple of all banks.
    linear = np.arange(LANES) * pitch + columns % pitch + columns // pitch * _NEXT_BOX
    placed: NDArray[np.int64] = Swizzle.tma(swizzle)(linear) if swizzle != "none" else linear
    return placed
