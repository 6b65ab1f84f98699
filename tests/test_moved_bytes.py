"""What DRAM is said to move is what a copy touches, counted unit by unit."""

from __future__ import annotations

import numpy as np
import pytest

import legalsat as ls
from legalsat.extract.cost.cost import DRAM_BYTES, SECTOR_BYTES

# Every other element, one of so many bytes, three channels of four, rows with gaps, a slice, repeated rows, dense.
CASES = [
    ((256, 256), (512, 2)),
    ((256, 256), (2048, 8)),
    ((256, 256), (256 * 64, 64)),
    ((256, 256, 3), (1024, 4, 1)),
    ((128, 128, 7), (1024, 8, 1)),
    ((1000, 20), (24, 1)),
    ((1000, 20), (240, 1)),
    ((500, 64), (1000, 2)),
    ((256, 256), (1, 256)),
    ((255, 257), (257, 1)),
]


@pytest.mark.parametrize("dtype", ["bf16", "u8", "fp32"])
@pytest.mark.parametrize(("shape", "strides"), CASES, ids=str)
def test_bytes_between_elements_are_moved_with_them(
    shape: tuple[int, ...], strides: tuple[int, ...], dtype: ls.DType
) -> None:
    source = ls.Tensor(shape, dtype, strides)
    size = source.dtype.bits // 8
    offsets = sum(np.ix_(*(np.arange(n) * s * size for n, s in zip(shape, strides, strict=True))))
    touched = DRAM_BYTES * len(np.unique(np.asarray(offsets) // DRAM_BYTES))
    said = SECTOR_BYTES * ls.synthesize(ls.Copy(source), "h200").cost.transactions
    stored = size * int(np.prod(shape))
    # Units that two runs share are counted for each.
    assert 0.99 * (touched + stored) <= said <= 1.35 * (touched + stored)
