"""Small products of all types, majors and ways to store."""

from __future__ import annotations

from dataclasses import dataclass

import legalsat as ls


@dataclass(frozen=True)
class Case:
    """A product: majors of A and B, "K" or "M" for the other axis; `pitch` elements between rows of C, 0 for dense."""

    target: str
    extent: tuple[int, int, int]
    dtype: str
    out: str | None = None
    majors: str = "KK"
    pitch: int = 0

    def gemm(self) -> ls.Gemm:
        m, n, k = self.extent
        a, b = (
            ls.Tensor((rows, k), self.dtype, (k, 1) if major == "K" else (1, rows))
            for rows, major in zip((m, n), self.majors, strict=True)
        )
        given = ls.Gemm(m, n, k, self.dtype, out_dtype=self.out, a=a, b=b)
        if not self.pitch:
            return given
        c = ls.Tensor((m, n), given.out_dtype, (self.pitch, 1))
        return ls.Gemm(m, n, k, self.dtype, out_dtype=self.out, a=a, b=b, c=c)

    def __str__(self) -> str:
        by = "x".join(map(str, self.extent))
        return f"{self.target} {self.dtype} {self.out or ''} {by} {self.majors} {self.pitch or ''}".replace("  ", " ")


PRODUCTS = [
    Case("sm_90a", (72, 24, 200), "bf16"),
    Case("sm_90a", (50, 37, 72), "fp16", pitch=39),
    Case("sm_90a", (50, 24, 40), "fp32"),
    Case("sm_90a", (70, 16, 144), "e4m3", out="e4m3"),
    Case("sm_90a", (136, 72, 72), "bf16", majors="MM"),
    Case("sm_100a", (200, 24, 200), "bf16"),
    Case("sm_100a", (50, 37, 72), "fp16", pitch=39),
    Case("sm_100a", (80, 40, 80), "i8", majors="MK"),
    Case("sm_100a", (136, 72, 40), "fp32", majors="MM"),
]
MORE = [
    Case("sm_90a", (50, 24, 72), "fp32", out="bf16"),
    Case("sm_90a", (70, 250, 144), "e5m2"),
    Case("sm_90a", (70, 40, 80), "i8"),
    Case("sm_90a", (70, 32, 80), "i8", out="i8"),
    Case("sm_90a", (128, 64, 72), "bf16", out="fp32", majors="KM"),
    Case("sm_90a", (128, 64, 72), "fp16", majors="MK"),
    Case("sm_90a", (1, 8, 16), "bf16"),
    Case("sm_90a", (2000, 1832, 200), "bf16"),
    Case("sm_90a", (2000, 1833, 208), "e4m3"),
    Case("sm_100a", (50, 24, 72), "fp32"),
    Case("sm_100a", (70, 48, 144), "e4m3", out="e4m3"),
    Case("sm_100a", (70, 250, 144), "e5m2"),
    Case("sm_100a", (1, 8, 16), "fp16"),
    Case("sm_100a", (2000, 1832, 72), "bf16", out="fp32", majors="MM"),
    Case("sm_100a", (2000, 1833, 80), "i8"),
]
