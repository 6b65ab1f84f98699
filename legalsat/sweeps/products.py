"""Many products of matrices of one shape, and products whose operands differ in type, as tensors with three axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from legalsat.checks import flag, integer
from legalsat.dtypes import DType
from legalsat.dtypes import dtype as as_dtype
from legalsat.errors import InvalidInput
from legalsat.operators import Copy, Move, Operator, as_tensor
from legalsat.operators.gemm import ROW_BITS, SCALED, TILE_ROWS, Gemm, readers_on
from legalsat.targets import Target
from legalsat.targets import target as as_target
from legalsat.tensor import Tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, init=False)
class Products(Operator):
    """C[i,m,n] = A[i,m,k] B[i,n,k]^T for every i, all by one tensor map for each operand.

    What a kernel of them takes is not predicted, since its tiles are not those of one product.

    Attributes:
        batch: how many products. m, n, k: extents of each, in elements.
        dtype, b_dtype: element types of A and of B; B's is A's when left out. Where no matrix unit takes the two
            together, threads read B.
        out_dtype: element type of C, as of `Gemm`.
        a, b, c: the tensors, of shapes (batch, m, k), (batch, n, k) and (batch, m, n), with any strides; dense when
            left out.
        constant_b: whether B never changes, as weights do not.

    Raises:
        InvalidInput: an extent has no meaning, or a tensor has another shape or type.
    """

    batch: int
    m: int
    n: int
    k: int
    dtype: DType
    b_dtype: DType
    out_dtype: DType
    a: Tensor
    b: Tensor
    c: Tensor
    constant_b: bool
    term = "products"

    def __init__(
        self,
        batch: int,
        m: int,
        n: int,
        k: int,
        dtype: Any,
        *,
        b_dtype: Any = None,
        out_dtype: Any = None,
        a: Any = None,
        b: Any = None,
        c: Any = None,
        constant_b: bool = False,
    ) -> None:
        put = object.__setattr__
        for name, extent in (("batch", batch), ("m", m), ("n", n), ("k", k)):
            put(self, name, integer(extent, name, low=1, high=2**31 - 1))
        put(self, "dtype", as_dtype(dtype))
        put(self, "b_dtype", self.dtype if b_dtype is None else as_dtype(b_dtype))
        put(self, "out_dtype", Gemm(1, 1, 1, self.dtype, out_dtype=out_dtype).out_dtype)
        put(self, "constant_b", flag(constant_b, "constant_b"))
        for name, given, matrix, element in (
            ("a", a, (self.m, self.k), self.dtype),
            ("b", b, (self.n, self.k), self.b_dtype),
            ("c", c, (self.m, self.n), self.out_dtype),
        ):
            shape = (self.batch, *matrix)
            tensor = Tensor(shape, element) if given is None else as_tensor(given)
            if tensor.shape != shape or tensor.dtype != element:
                raise InvalidInput(f"{name} is {tensor}; give a tensor of {element} {shape}")
            put(self, name, tensor)

    def operands(self, target: Target) -> dict[str, Copy]:
        """Return A, B and C as movements in tiles of one product, 128 lines high and as wide as the widest swizzle.

        C is judged as if it were read: what a map can write it can read.
        """
        first, second = readers_on(target)
        together = self.dtype == self.b_dtype or {self.dtype.name, self.b_dtype.name} <= set(SCALED)
        across = ROW_BITS // self.out_dtype.bits
        return {
            "A": Copy(self.a, tile=_tile(self.dtype), consumer=first),
            "B": Copy(
                self.b,
                tile=_tile(self.b_dtype),
                consumer=second if together else "threads",
                constant=self.constant_b,
            ),
            "C": Copy(self.c, tile=(1, TILE_ROWS, across), consumer="threads"),
        }

    @property
    def name(self) -> str:
        """A product's."""
        return "gemm"

    @property
    def as_product(self) -> Gemm | None:
        """The batch; None where operands are of two types."""
        if self.dtype != self.b_dtype:
            return None
        tensors: dict[str, Any] = {"a": self.a, "b": self.b, "c": self.c, "constant_b": self.constant_b}
        return Gemm(self.m, self.n, self.k, self.dtype, out_dtype=self.out_dtype, batch=self.batch, **tensors)

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """A, B and C."""
        return {"A": self.a, "B": self.b, "C": self.c}

    def _meaning(self, *operands: NDArray[Any]) -> NDArray[Any]:
        """Return the products."""
        a, b = operands
        product: NDArray[Any] = a.astype("f8") @ b.astype("f8").swapaxes(-1, -2)
        return product

    def travels(self, target: str | Target) -> Mapping[str, Move]:
        """Return the operands, of which none is special."""
        return self.operands(as_target(target))

    @property
    def flops(self) -> float:
        """Operations of all products."""
        return 2.0 * self.batch * self.m * self.n * self.k

    def __str__(self) -> str:
        types = str(self.dtype) if self.b_dtype == self.dtype else f"{self.dtype} by {self.b_dtype}"
        wider = f" to {self.out_dtype}" if self.out_dtype != self.dtype else ""
        times = f"{self.batch} times " if self.batch > 1 else ""
        return f"gemm of {types}{wider}, {times}{self.m} x {self.n} x {self.k}"


def _tile(element: DType) -> tuple[int, int, int]:
    return (1, TILE_ROWS, ROW_BITS // element.bits)
