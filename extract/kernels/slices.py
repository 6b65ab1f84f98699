"""What runs behind a kernel of slices of k, products of their own: they are added up, and C is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legalsat.analyses.ptx_machine.alu import LANES
from legalsat.extract.kernels.product_maps import extents, stored
from legalsat.logic import ceil_div
from legalsat.operators.gemm import Gemm
from legalsat.plans.product_kernel import ProductKernel
from legalsat.program.leaves import THREADS, AddSlices
from legalsat.program.pipeline import AwaitGrid, Pipeline, Role
from legalsat.tensor import plain

SUMS = {"fp32": np.float32, "i32": np.int32}
WORKSPACE = "slices"  # where products of slices lie
ROW = 128  # elements of a row that a warp stores
SQUARE = 32  # rows of the slices, and columns, that a block turns


@dataclass(frozen=True, slots=True)
class Added:
    """The kernel behind.

    Attributes:
        kernel: the leaf that it is made around. numbers: its parameters behind the addresses.
        blocks: of the grid. bytes: of the workspace.
    """

    kernel: AddSlices
    numbers: tuple[int, ...]
    blocks: int
    bytes: int

    @property
    def pipeline(self) -> Pipeline:
        """What a block does."""
        return Pipeline((), (), (Role("block", THREADS // LANES, (AwaitGrid(), self.kernel)),))

    @property
    def named(self) -> dict[str, int]:
        """The numbers by the names of parameters."""
        names = (name for _, name in self.kernel.parameters[2:])
        return dict(zip(names, self.numbers, strict=True))


def added_of(gemm: Gemm, kernel: ProductKernel) -> Added | None:
    """Return what runs behind a kernel; None where it stores C itself."""
    if kernel.slices == 1:
        return None
    (rows, columns), parts = extents(gemm, kernel), stored(gemm, kernel)
    strides = plain(gemm.matrices["C"].strides)
    down, across = strides[::-1] if kernel.swapped else strides
    turned = across != 1
    slice_rows, (pitch, _) = kernel.slice_rows(rows), plain(parts.strides)
    return Added(
        AddSlices(gemm.out_dtype.name, turned, parts.dtype.name),
        (kernel.slices, slice_rows * pitch, pitch, across if turned else down, rows, columns),
        added_blocks(rows, columns, turned=turned),
        kernel.slices * slice_rows * pitch * parts.dtype.bytes,
    )


def added_blocks(rows: Any, columns: Any, *, turned: bool) -> Any:
    """Return the blocks of the kernel behind, by rows and columns of a slice."""
    if turned:
        return ceil_div(rows, SQUARE) * ceil_div(columns, SQUARE)
    return ceil_div(rows * ceil_div(columns, ROW), THREADS // LANES)


def added_up(added: Added, parts: NDArray[Any]) -> NDArray[np.float64]:
    """Return what the kernel behind makes of products of slices, one below the other: their sum in their order.

    Args:
        added: the kernel.
        parts: what lies in the workspace, of shape (slices x rows of one, columns).
    """
    numbers = added.named
    rows, columns = numbers["rows"], numbers["columns"]
    kind = SUMS[added.kernel.sums]
    found = np.zeros((rows, columns), kind)
    for one in np.split(parts.astype(kind), numbers["slices"]):
        found += one[:rows, :columns]
    return found.astype(np.float64)
