"""The products of `bench.gpu.gemm`: how they are called, and how their operands lie.

A form says how torch holds A and B of C = A B: "NT" is a linear layer, x (m, k) and w (n, k); "NN" is a @ b, (m, k) and
(k, n); "TN" has A transposed as well, (k, m) and (k, n). A slice begins some elements into longer rows.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

BYTES = {"e4m3": 1, "i8": 1, "u8": 1, "bf16": 2, "fp16": 2, "tf32": 4}  # of an element of A and B
RESULTS = {"e4m3": "bf16", "i8": "i32", "u8": "i32"}  # types of C that are not those of A and B


@dataclass(frozen=True)
class Shape:
    """A product.

    Attributes:
        m, n, k: extents. form: "NT", "NN" or "TN".
        dtype: of A and B; e4m3 has a scale for each, and C in bf16; i8 and u8 have C in i32.
        slices: elements that rows of A and of B begin late, in rows of 8 elements more.
    """

    m: int
    n: int
    k: int
    form: str = "NT"
    dtype: str = "bf16"
    slices: tuple[int, int] = (0, 0)

    def plain(self) -> dict[str, Any]:
        """Return the shape as plain values."""
        return asdict(self)

    @property
    def unit(self) -> int:
        """Elements of a granule, of which rows that a tensor map describes are whole ones."""
        return 16 // BYTES[self.dtype]

    def __str__(self) -> str:
        late = f" sliced {self.slices}" if any(self.slices) else ""
        return f"{self.m}x{self.n}x{self.k} {self.form} {self.dtype}{late}"


def storage(shape: Shape) -> dict[str, tuple[tuple[int, int], int, bool]]:
    """Return how A and B are stored.

    For each: rows and columns, elements that rows begin late, whether the operand (rows, k) is the transpose of that.
    """
    a = (shape.k, shape.m) if shape.form == "TN" else (shape.m, shape.k)
    b = (shape.n, shape.k) if shape.form == "NT" else (shape.k, shape.n)
    return {"a": (a, shape.slices[0], shape.form == "TN"), "b": (b, shape.slices[1], shape.form != "NT")}


def legal() -> list[Shape]:
    """Return products of language models, every second one of the list, and two of many rows."""
    entries = json.loads((Path(__file__).parents[2] / "legalsat" / "llm_gemm_shapes.json").read_text())["entries"]
    chosen = [Shape(*one) for one in entries[::2]]
    return [*chosen, Shape(16384, 4096, 4096), Shape(16384, 8192, 1024)]


def narrow() -> list[Shape]:
    """Return products in e4m3 that torch multiplies too."""
    return [
        Shape(m, n, k, dtype="e4m3")
        for m, n, k in (
            (4096, 4096, 4096), (8192, 8192, 8192), (16, 7168, 16384), (64, 4096, 7168), (128, 7168, 2048),
            (512, 4096, 4096), (2048, 7168, 2048), (4096, 7168, 16384), (4096, 24576, 1536), (8192, 1280, 8192),
        )
    ]  # fmt: skip


def illegal() -> list[Shape]:
    """Return products of which some operand has rows that no tensor map describes."""
    both = ("NN", "NT")
    found = [
        Shape(m, n, k, form)
        for m, n, k in (
            (4096, 4096, 4095), (8192, 8192, 8191), (2048, 2048, 2047), (4096, 4096, 4092), (9477, 1152, 588),
            (4095, 4095, 4095), (1111, 3333, 777), (16384, 1024, 1023),
        )
        for form in both
    ]  # fmt: skip
    found += [Shape(m, n, k) for m, n, k in ((16, 4096, 4095), (128, 4096, 4095), (512, 4096, 4095))]
    found += [
        Shape(m, n, k, form)
        for m, n, k in (
            (4096, 4095, 4096), (4096, 50257, 768), (1024, 50257, 1024), (8192, 8191, 8192), (4096, 4100, 4096),
            (2048, 2047, 2048),
        )
        for form in both
    ]  # fmt: skip
    found += [Shape(m, n, k) for m, n, k in ((16, 50257, 768), (128, 32003, 4096), (512, 50257, 1600))]
    found += [Shape(4095, 4096, 4096, "TN"), Shape(8191, 4096, 4096, "TN"), Shape(4094, 4096, 4096, "TN")]
    found += [Shape(4096, 4096, 4096, "NT", slices=(1, 0)), Shape(4096, 4096, 4096, "NN", slices=(1, 0))]
    found += [Shape(4096, 4096, 4096, "NT", slices=(0, 3)), Shape(16384, 4096, 1024, "NN", slices=(2, 0))]
    found += [Shape(4096, 4096, 4095, "NN", "fp16"), Shape(4096, 50257, 1024, "NT", "fp16")]
    found += [Shape(2048, 4096, 1025, "NT", "fp16"), Shape(4095, 4096, 4096, "TN", "fp16")]
    return [*found, Shape(4096, 4096, 4095, dtype="e4m3"), Shape(4096, 4096, 4088, dtype="e4m3")]


def product_of(shape: Shape) -> Any:
    """Return the `Gemm` of a shape; needs LegalSAT."""
    import legalsat as ls  # noqa: PLC0415 - the GPU's machine has no LegalSAT

    size = BYTES[shape.dtype]
    tensors = {}
    for name, ((rows, columns), late, turned) in storage(shape).items():
        pitch = columns + (8 if late else 0)
        extents, strides = ((columns, rows), (1, pitch)) if turned else ((rows, columns), (pitch, 1))
        tensors[name] = ls.Tensor(extents, shape.dtype, strides, offset=late * size)
    scaled = shape.dtype == "e4m3"
    out = RESULTS.get(shape.dtype, shape.dtype)
    a, b = tensors["a"], tensors["b"]
    return ls.Gemm(shape.m, shape.n, shape.k, shape.dtype, out_dtype=out, a=a, b=b, scaled=scaled)
