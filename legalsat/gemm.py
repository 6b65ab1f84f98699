"""The operands of a product as movements of their own: A and B into shared memory for the matrix unit, C out of it."""

from __future__ import annotations

from typing import Any

from legalsat.operators import Copy
from legalsat.targets import Target
from legalsat.tensor import Tensor

TILE_ROWS = 128
ROW_BITS = 1024  # a row that fills the widest swizzle


def gemm_operands(m: int, n: int, k: int, dtype: Any, target: Target) -> dict[str, Copy]:
    """Return the operands of C[m,n] = A[m,k] B[n,k]^T, row-major and dense as frameworks allocate them.

    Args:
        m: rows of A and C.
        n: rows of B and columns of C.
        k: columns of A and B.
        dtype: element type of all three.
        target: the GPU, which decides who reads A and B: wgmma where it has it, else threads.
    """
    a, b, c = Tensor((m, k), dtype), Tensor((n, k), dtype), Tensor((m, n), dtype)
    tile = (TILE_ROWS, ROW_BITS // a.dtype.bits)
    readers = ("wgmma.a", "wgmma.b") if target.wgmma else ("threads", "threads")
    # C only leaves shared memory, so it is judged as the target of a copy whose source no rule refuses.
    pitch = -(-n // tile[1]) * tile[1]
    staged = Tensor((m, n), dtype, (pitch, 1))
    return {
        "A": Copy(a, tile=tile, consumer=readers[0]),
        "B": Copy(b, tile=tile, consumer=readers[1]),
        "C": Copy(staged, c, tile=tile, consumer="threads"),
    }
