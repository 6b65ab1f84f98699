"""What a movement does to bytes, by what its operator means: the oracle of tests and benches that run plans."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from legalsat.operators import Move
from legalsat.tensor import Tensor, plain

Bytes = NDArray[np.uint8]
POISON = 0xA5


def memory_of(tensor: Tensor, seed: int | None = None) -> Bytes:
    """Return memory that just holds the tensor: random bytes, or `POISON` without a seed.

    Numbers of tf32 have no lower 13 bits: the copy engine rounds these away.
    """
    size = -(-tensor.span_bits // 8)
    if seed is None:
        return np.full(size, POISON, dtype=np.uint8)
    found = np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)
    if tensor.dtype.name == "tf32":
        found.view(np.uint32)[:] &= np.uint32(0xFFFFE000)
    return found


def moved(operator: Move, source: Bytes, target: Bytes) -> Bytes:
    """Return the target's bytes after the movement, by what its operator means: numpy on the bits of elements."""
    width = np.arange(operator.source.dtype.bits, dtype=np.uint64)
    inside, after = (np.unpackbits(memory, bitorder="little") for memory in (source, target))
    bits = inside[width.size * places(operator.source)[..., None] + width.astype(np.int64)].astype(np.uint64)
    result = operator.meaning((bits << width).sum(axis=-1, dtype=np.uint64))
    after[width.size * places(operator.target)[..., None] + width.astype(np.int64)] = result[..., None] >> width & 1
    return np.packbits(after, bitorder="little")


def places(tensor: Tensor) -> Any:
    """Return the offset of each element, in the tensor's shape, in elements."""
    at = np.indices(plain(tensor.shape), dtype=np.int64)
    return np.tensordot(np.array(plain(tensor.strides), dtype=np.int64), at, axes=1)
