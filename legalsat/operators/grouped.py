"""Products of groups of rows, or of groups along k, where the device alone knows where a group ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from legalsat.checks import integer, one_of
from legalsat.dims import Extent
from legalsat.errors import InvalidInput
from legalsat.operators.gemm import Gemm
from legalsat.operators.members import Members
from legalsat.options import Scaling
from legalsat.tensor import Tensor, plain

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_GROUPS = 4096  # whose beginnings a block keeps in shared memory
ENDS = "ends"


@dataclass(frozen=True, slots=True, init=False)
class GroupedGemm(Gemm):
    """C[r,n] = A[r,k] B[g,n,k]^T, where g is the group of row r: experts' products in a mixture of experts.

    Along k it is C[g,m,n] = A[m,k] B[n,k]^T of the k of group g: what the gradients of experts' weights are.

    What a group has lies together. `ends` are i32 numbers in the GPU's memory, of shape (groups,), that say behind
    which row, or k, each group ends, as `offs` of torch's grouped_mm; they may be others at every launch. A group
    begins where the ones in front of it end. It may be empty, and is where its end is not behind that; an end beyond
    the extent of A counts as that. Rows behind the last end are not written; the product of an empty group along k is
    zeros.

    Attributes:
        m, n, k: extents in elements: of all groups together along the axis that they cut, else of each product.
        dtype, out_dtype: element types of A and B, and of C, as of `Gemm`.
        groups: how many there are.
        along: the axis that groups cut, "m" or "k".
        a, b, c: the tensors, with any strides: of shapes (m, k), (groups, n, k) and (m, n); along k of shapes (m, k),
            (n, k) and (groups, m, n).
        constant_b: whether B never changes, as weights do not, so that a relayout of it runs once for all.
        scaled: as of `Gemm`, scales of rows being of shapes (m,) and (groups, n); and "groups" by one for each group's
            rows of A, and for each B, both of shape (groups,).
        batch: of `Gemm`, and left out here.

    Raises:
        InvalidInput: an extent has no meaning or is open, a tensor has another shape or type, or groups are too many.
    """

    groups: int
    along: Literal["m", "k"]
    scalings: ClassVar[tuple[Scaling, ...]] = ("tensor", "rows", "groups")

    def __init__(
        self,
        m: Extent,
        n: Extent,
        k: Extent,
        dtype: Any,
        *,
        groups: int,
        along: Literal["m", "k"] = "m",
        out_dtype: Any = None,
        a: Any = None,
        b: Any = None,
        c: Any = None,
        constant_b: bool = False,
        scaled: bool | Scaling | Literal[""] = False,
        batch: tuple[int, ...] = (),
    ) -> None:
        object.__setattr__(self, "groups", integer(groups, "groups", low=1, high=MOST_GROUPS))
        object.__setattr__(self, "along", one_of(along, "along", ("m", "k")))
        if batch:
            raise InvalidInput("groups have no batch; leave it out")
        shared: dict[str, Any] = {"constant_b": constant_b, "scaled": scaled}
        Gemm.__init__(self, m, n, k, dtype, out_dtype=out_dtype, a=a, b=b, c=c, **shared)
        if self.scaled and along == "k":
            raise InvalidInput("groups along k have no scales; leave scaled out")
        if self.dims:
            raise InvalidInput(f"{self.dims[0]} is open; give numbers, since groups are open without it")
        if along == "k" and not self.c.strides[0] and self.groups > 1:
            raise InvalidInput(f"c is {self.c}, whose groups lie on each other; give each its own memory")

    def __str__(self) -> str:
        return f"{Gemm.__str__(self)}, {'k' if self.along == 'k' else 'rows'} in {self.groups} groups"

    def _shapes(self) -> dict[str, tuple[Extent, ...]]:
        if self.along == "k":
            return {"a": (self.m, self.k), "b": (self.n, self.k), "c": (self.groups, self.m, self.n)}
        return {"a": (self.m, self.k), "b": (self.groups, self.n, self.k), "c": (self.m, self.n)}

    def bind(self, values: Mapping[str, int]) -> GroupedGemm:
        """Return itself, which has no dims."""
        return self

    @property
    def members(self) -> Members:
        """The groups, each of which has a B of its own, or along k a C."""
        if self.along == "k":
            return Members((self.groups,), ((0,), (0,), (plain(self.c.strides)[0],)), ragged="k")
        return Members((self.groups,), ((0,), (plain(self.b.strides)[0],), (0,)), ragged="m")

    @property
    def indices(self) -> Mapping[str, Tensor]:
        """The ends of groups."""
        return {ENDS: Tensor((self.groups,), "i32", align=4)}

    def _scale_shapes(self) -> tuple[tuple[Extent, ...], tuple[Extent, ...]]:
        if self.scaled == "rows":
            return (self.m,), (self.groups, self.n)
        return (self.groups,), (self.groups,)

    def meaning(self, *operands: NDArray[Any]) -> NDArray[Any]:
        """Return C before it is rounded, zeros in what no group has, given A, B, scales if any, and the ends of groups.

        Raises:
            InvalidInput: the operands are others in number, in shape, or no numbers.
        """
        held = (self.a, self.b, *self.others.values())
        shapes = [*(plain(one.shape) for one in held), (self.groups,)]
        if [getattr(one, "shape", None) for one in operands] != shapes:
            raise InvalidInput(f"operands of {self} are others; give arrays of shapes {', '.join(map(str, shapes))}")
        a, b, *scales = (one.astype("f8") for one in operands[:-1])
        found, begin = np.zeros(plain(self.c.shape)), 0
        for group, end in enumerate(operands[-1].tolist()):
            last = max(begin, min(end, len(a) if self.along == "m" else a.shape[1]))
            own = slice(begin, last)
            if self.along == "m":
                found[own] = a[own] @ b[group].T * self._scale(scales, group, own)
            else:
                found[group] = a[:, own] @ b[:, own].T
            begin = last
        return found

    def _scale(self, scales: list[NDArray[Any]], group: int, own: slice) -> Any:
        """Return what sums of a group's rows are multiplied by."""
        if not scales:
            return 1.0
        of_a, of_b = scales
        if self.scaled == "rows":
            return of_a[own, None] * of_b[group]
        return of_a * of_b if self.scaled == "tensor" else of_a[group] * of_b[group]


def require_ends(ends: Sequence[int], extent: int) -> None:
    """Raise InvalidInput unless these are ends of groups of so many rows, or k, which only the host can say early.

    A kernel reads ends on the GPU, takes what is beyond for the extent, and what decreases for an empty group.
    """
    begin = 0
    for group, end in enumerate(ends):
        if not begin <= end <= extent:
            raise InvalidInput(
                f"group {group} ends at {end}, and it begins at {begin} of {extent}; "
                "give for each group where it ends: sums of sizes, none negative, at most the extent"
            )
        begin = end
