"""Problems whose plans are timed: tiles of tensors, copies, transposes, and products, as users ask for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from legalsat.demo import shapes
from legalsat.operators import Copy, Move, Transpose
from legalsat.operators.gemm import Gemm
from legalsat.tensor import Tensor

DTYPES = ("bf16", "fp32", "e4m3", "u8", "int4", "fp64")
ROW_BITS = 1024  # a row that fills the widest swizzle
# By rank: what it stands for, its shape, the tile without the last axis, and the axes exchanged for a transpose.
RANKS = {
    1: ("vector", (1 << 20,), (), (0,)),
    2: ("matrix", (4096, 4096), (128,), (1, 0)),
    3: ("batch of matrices", (32, 2048, 128), (1, 128), (0, 2, 1)),
    4: ("B, S, H, D", (8, 1024, 32, 128), (1, 128, 1), (0, 2, 1, 3)),
    5: ("B, S, QKV, H, D", (8, 1024, 3, 16, 64), (1, 128, 1, 1), (2, 0, 3, 1, 4)),
    6: ("B, T, H, W, heads, D", (2, 16, 32, 64, 12, 64), (1, 1, 8, 16, 1), (0, 4, 1, 2, 3, 5)),
}
DEPTHS = tuple(1 << k for k in range(6, 17))  # K of a product, and the odd number below each
TOKENS = 4096


@dataclass(frozen=True, slots=True)
class Problem:
    """An operator, and what it is: its kind, its rank and the bits from row to row."""

    kind: str
    rank: int
    operator: Move

    def __str__(self) -> str:
        reader = f", for {self.operator.consumer}" if self.operator.consumer else ""
        return f"{self.operator}{reader}"


def tiles(scale: int = 1) -> list[Problem]:
    """Return the problems; the slowest axis of each tensor is `scale` times as long."""
    return [problem for dtype in DTYPES for rank in RANKS for problem in _of(dtype, rank, scale)]


def _of(dtype: str, rank: int, scale: int) -> Iterator[Problem]:
    _, (first, *rest), rows, exchanged = RANKS[rank]
    shape = (scale * first, *rest)
    for gap in (0, 1):  # rows one after another, or an element apart
        tensor = Tensor(shape, dtype, _strides(shape, gap))
        columns = min(shape[-1], ROW_BITS // tensor.dtype.bits if rank > 1 else 4096)
        yield Problem("chosen tile", rank, Copy(tensor))
        if rank > 1:
            yield Problem("transpose", rank, Transpose(tensor, exchanged))
        for consumer in (None, "threads"):
            yield Problem("tile", rank, Copy(tensor, tile=(*rows, columns), consumer=consumer))
        if rank > 1:
            yield Problem("tile", rank, _operand(tensor, (*rows, columns)))


def _operand(tensor: Tensor, tile: tuple[int, ...]) -> Copy:
    """Return a tile for wgmma, whose rows run along the last axis but one: the axis of the longest tile goes there."""
    axes = list(range(tensor.rank))
    longest = max(axes[:-1], key=lambda axis: tile[axis])
    axes.insert(tensor.rank - 2, axes.pop(longest))
    rows = 128 if tensor.rank < 6 else 64
    wanted = [1] * tensor.rank
    wanted[-2:] = rows, tile[-1]
    return Copy(tensor.transposed(axes), tile=tuple(wanted), consumer="wgmma.a")


def _strides(shape: tuple[int, ...], gap: int) -> tuple[int, ...]:
    strides, step = [1], shape[-1] + gap
    for extent in reversed(shape[1:-1]):
        strides.append(step)
        step *= extent
    return tuple(reversed([*strides, step][: len(shape)]))


def products(scale: int = 1) -> list[Gemm]:
    """Return the shipped catalogue of products, and those of it that leave the fast path; `scale` times the rows."""
    catalogue = shapes()
    entries = [*catalogue["entries"], *catalogue["cliff"]["entries"]]
    return [Gemm(scale * m, n, k, "bf16") for m, n, k in entries]


def depths() -> list[int]:
    """Return K of growing products: powers of two, and the odd number below each."""
    return sorted({k - odd for k in DEPTHS for odd in (0, 1)})


def tile_of_depth(depth: int) -> Move:
    """Return an operand's tile whose rows are `depth` long."""
    return Copy(Tensor((TOKENS, depth), "bf16"), tile=(128, 64), consumer="wgmma.a")
