"""Products by how their operands lie, for tests of those that no map describes."""

from __future__ import annotations

import legalsat as ls


def product_of(m: int, n: int, k: int, lies: str, dtype: str = "bf16", **others: object) -> ls.Gemm:
    """Return a product of operands that lie along k ("K") or across it ("M"), in lines without padding."""
    a, b = (
        ls.Tensor((rows, k), dtype, (k, 1) if axis == "K" else (1, rows))
        for rows, axis in zip((m, n), lies, strict=True)
    )
    return ls.Gemm(m, n, k, dtype, **({"a": a, "b": b} | others))  # type: ignore[arg-type]
