"""Products of groups of rows, each by a matrix of its own, where the device alone knows which rows are whose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from legalsat.checks import integer
from legalsat.dims import Extent
from legalsat.errors import InvalidInput
from legalsat.operators.gemm import Gemm
from legalsat.operators.members import Members
from legalsat.tensor import Tensor, plain

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_GROUPS = 4096  # whose beginnings a block keeps in shared memory
ENDS = "ends"


@dataclass(frozen=True, slots=True, init=False)
class GroupedGemm(Gemm):
    """C[r,n] = A[r,k] B[g,n,k]^T, where g is the group of row r: experts' products in a mixture of experts.

    Rows of a group lie together. `ends` are i32 numbers in the GPU's memory, of shape (groups,), that say behind which
    row each group ends, as `offs` of torch's grouped_mm; they may be others at every launch. A group begins where the
    ones in front of it end. It may be empty, and is where its end is not behind that; an end beyond the rows of A
    counts as their number. Rows behind the last end are not written.

    Attributes:
        m: rows of A and of C, of all groups together.
        n, k: extents of each product, in elements.
        dtype, out_dtype: element types of A and B, and of C, as of `Gemm`.
        groups: how many there are.
        a, b, c: the tensors, of shapes (m, k), (groups, n, k) and (m, n), with any strides.
        constant_b: whether B never changes, as weights do not, so that a relayout of it runs once for all.
        scaled, batch: of `Gemm`, and left out here.

    Raises:
        InvalidInput: an extent has no meaning or is open, a tensor has another shape or type, or groups are too many.
    """

    groups: int

    def __init__(
        self,
        m: Extent,
        n: Extent,
        k: Extent,
        dtype: Any,
        *,
        groups: int,
        out_dtype: Any = None,
        a: Any = None,
        b: Any = None,
        c: Any = None,
        constant_b: bool = False,
        scaled: bool = False,
        batch: tuple[int, ...] = (),
    ) -> None:
        object.__setattr__(self, "groups", integer(groups, "groups", low=1, high=MOST_GROUPS))
        if batch or scaled:
            raise InvalidInput("groups of rows have neither a batch nor scales; leave those out")
        Gemm.__init__(self, m, n, k, dtype, out_dtype=out_dtype, a=a, b=b, c=c, constant_b=constant_b)
        if self.dims:
            raise InvalidInput(f"{self.dims[0]} is open; give numbers, since groups are open without it")

    def __str__(self) -> str:
        return f"{Gemm.__str__(self)}, rows in {self.groups} groups"

    def _shapes(self) -> dict[str, tuple[Extent, ...]]:
        return {"a": (self.m, self.k), "b": (self.groups, self.n, self.k), "c": (self.m, self.n)}

    def bind(self, values: Mapping[str, int]) -> GroupedGemm:
        """Return itself, which has no dims."""
        return self

    @property
    def members(self) -> Members:
        """The groups, each of which has a B of its own."""
        return Members((self.groups,), ((0,), (plain(self.b.strides)[0],), (0,)), ragged=True)

    @property
    def indices(self) -> Mapping[str, Tensor]:
        """The ends of groups."""
        return {ENDS: Tensor((self.groups,), "i32", align=4)}

    def meaning(self, *operands: NDArray[Any]) -> NDArray[Any]:
        """Return C before it is rounded, zeros in rows of no group, given A, B and the ends of groups.

        Raises:
            InvalidInput: the operands are others in number, in shape, or no numbers.
        """
        shapes = [self.a.shape, self.b.shape, (self.groups,)]
        if [getattr(one, "shape", None) for one in operands] != shapes:
            raise InvalidInput(f"operands of {self} are others; give arrays of shapes {', '.join(map(str, shapes))}")
        a, b, ends = operands
        found, row = np.zeros((len(a), b.shape[1])), 0
        for matrix, end in zip(b, ends.tolist(), strict=True):
            last = max(row, min(end, len(a)))
            found[row:last] = a[row:last].astype("f8") @ matrix.astype("f8").T
            row = last
        return found
