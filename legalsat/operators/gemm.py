"""A product of matrices, or a batch of them, and operands as movements: A and B to the matrix unit, C out of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from legalsat.checks import flag, integer, integers, one_of
from legalsat.dims import Dim, Extent, bind, dims_of
from legalsat.dtypes import DType
from legalsat.dtypes import dtype as as_dtype
from legalsat.errors import InvalidInput
from legalsat.operators import PRODUCT, TCGEN05_CONSUMERS, WGMMA_CONSUMERS, Copy, Move, Operator, as_tensor
from legalsat.operators.members import Members, members_of
from legalsat.options import Consumer, Scaling
from legalsat.targets import Target
from legalsat.targets import target as as_target
from legalsat.tensor import Tensor, plain

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from legalsat.terms.trees import TermLaw

MOST_EXTENT = 2**31 - 2**13  # coordinates have 32 bits and a sign, and a cluster's tile may reach beyond the last row
TILE_ROWS = 128
ROW_BITS = 1024  # a row that fills the widest swizzle
SCALED = ("e4m3", "e5m2")  # whose range needs it
SCALES = ("scale_a", "scale_b")


@dataclass(frozen=True, slots=True, init=False)
class Gemm(Operator):
    """C[m,n] = A[m,k] B[n,k]^T, or scale_a scale_b A B^T; with a batch one such product for each of its members.

    Attributes:
        m, n, k: extents in elements; ints or `Dim`s.
        dtype: element type of A and B. NVIDIA's matrix units multiply fp32 as tf32, of whose mantissa ten bits count.
        out_dtype: element type of C; that of A and B when left out, but of 8 bits and fewer bf16, or i32 of integers.
            Sums are fp32, or i32 of integers; what does not fit a narrower C is rounded, and saturates at e4m3, e5m2
            and i8.
        a, b, c: the tensors, of shapes (*batch, m, k), (*batch, n, k) and (*batch, m, n), with any strides, 0 where A
            or B are the same for all members; dense and row-major when left out.
        constant_b: whether B never changes, as weights do not, so that a relayout of it runs once for all.
        scaled: what sums are multiplied by: "tensor", also said as True, by two fp32 numbers in the GPU's memory that
            belong to A and to B as a whole; "rows" by one for each row of A and of B, of shapes (*batch, m) and
            (*batch, n); "" by nothing. For operands in e4m3 and e5m2. Scales are multiplied with each other first.
        batch: extents of axes in front of the two of a matrix, an int being one of them; () for one product.

    Raises:
        InvalidInput: an extent has no meaning, a tensor has another shape or type, such a type is not scaled, or a
            batch's extents or strides are open.
    """

    m: Any
    n: Any
    k: Any
    dtype: DType
    out_dtype: DType
    a: Tensor
    b: Tensor
    c: Tensor
    constant_b: bool
    scaled: Scaling | Literal[""]
    batch: tuple[int, ...]
    term = PRODUCT
    scalings: ClassVar[tuple[Scaling, ...]] = ("tensor", "rows")

    def __init__(
        self,
        m: Extent,
        n: Extent,
        k: Extent,
        dtype: Any,
        *,
        out_dtype: Any = None,
        a: Any = None,
        b: Any = None,
        c: Any = None,
        constant_b: bool = False,
        scaled: bool | Scaling | Literal[""] = False,
        batch: int | Sequence[int] = (),
    ) -> None:
        put = object.__setattr__
        for name, extent in (("m", m), ("n", n), ("k", k)):
            put(self, name, extent if isinstance(extent, Dim) else integer(extent, name, low=1, high=MOST_EXTENT))
        put(self, "batch", integers((batch,) if isinstance(batch, int) else batch, "batch", low=1))
        put(self, "dtype", as_dtype(dtype))
        put(self, "out_dtype", result_of(self.dtype) if out_dtype is None else as_dtype(out_dtype))
        shapes = self._shapes()
        for name, given in (("a", a), ("b", b), ("c", c)):
            element = self.out_dtype if name == "c" else self.dtype
            tensor = Tensor(shapes[name], element) if given is None else as_tensor(given)
            if tensor.shape != shapes[name] or tensor.dtype != element:
                raise InvalidInput(f"{name} is {tensor}; give a tensor of {element} {shapes[name]}")
            put(self, name, tensor)
        if any(extent > 1 and not step for extent, step in zip(self.batch, self.c.strides, strict=False)):
            raise InvalidInput(f"c is {self.c}, whose members lie on each other; give each its own memory")
        if self.batch and self.dims:
            raise InvalidInput(f"{self.dims[0]} is open in a batch; give numbers")
        put(self, "constant_b", flag(constant_b, "constant_b"))
        put(self, "scaled", scaling_of(scaled, self.scalings))
        if self.scaled and self.dtype.name not in SCALED:
            raise InvalidInput(f"operands of {self.dtype} are scaled; scale {' or '.join(SCALED)} alone")

    def __str__(self) -> str:
        wider = f" to {self.out_dtype}" if self.out_dtype != self.dtype else ""
        many = f"{' x '.join(map(str, self.batch))} times " if self.batch else ""
        scales = {"": "", "tensor": "scaled "}.get(self.scaled, f"{self.scaled} scaled, ")
        return f"{scales}gemm of {self.dtype}{wider}, {many}{self.m} x {self.n} x {self.k}"

    def _shapes(self) -> dict[str, tuple[Extent, ...]]:
        """Return the shapes of its tensors."""
        matrices = {"a": (self.m, self.k), "b": (self.n, self.k), "c": (self.m, self.n)}
        return {name: (*self.batch, *shape) for name, shape in matrices.items()}

    @property
    def members(self) -> Members:
        """The products of a batch, and what changes from one to the next.

        Raises:
            InvalidInput: the batch has more axes than tensor maps hold.
        """
        return members_of(self.batch, self.tensors)

    @property
    def indices(self) -> Mapping[str, Tensor]:
        """Arrays of whole numbers that say which elements belong together; none of a batch."""
        return {}

    @property
    def matrices(self) -> Mapping[str, Tensor]:
        """A, B and C of the first member."""
        return {name: matrix_of(tensor) for name, tensor in self.tensors.items()}

    @property
    def dims(self) -> tuple[Dim, ...]:
        """The dims of its extents and strides, by name."""
        return dims_of(*(one for tensor in (self.a, self.b, self.c) for one in (*tensor.shape, *tensor.strides)))

    def bind(self, values: Mapping[str, int]) -> Gemm:
        """Return the product with every dim replaced by its value."""
        a, b, c = (tensor.bind(values) for tensor in (self.a, self.b, self.c))
        m, n, k = (bind(extent, values) for extent in (self.m, self.n, self.k))
        fixed: dict[str, Any] = {"constant_b": self.constant_b, "scaled": self.scaled}
        return Gemm(m, n, k, self.dtype, out_dtype=self.out_dtype, a=a, b=b, c=c, batch=self.batch, **fixed)

    @property
    def flops(self) -> float:
        """Operations of the product, or of all of the batch."""
        m, n, k = plain((self.m, self.n, self.k))
        return 2.0 * m * n * k * math.prod(self.batch)

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """A, B and C."""
        return {"A": self.a, "B": self.b, "C": self.c}

    def laws(self) -> tuple[TermLaw, ...]:
        """Return the laws of products."""
        from legalsat.rules.rewrites import PRODUCT_LAWS  # noqa: PLC0415 - rules know nouns

        return PRODUCT_LAWS

    @property
    def others(self) -> Mapping[str, Tensor]:
        """The scales of A and of B."""
        if not self.scaled:
            return {}
        shapes = ((), ()) if self.scaled == "tensor" else self._scale_shapes()
        return {name: Tensor(shape, "fp32", align=4) for name, shape in zip(SCALES, shapes, strict=True)}

    def _scale_shapes(self) -> tuple[tuple[Extent, ...], tuple[Extent, ...]]:
        """Return the shapes of scales that belong to parts of A and of B."""
        return (*self.batch, self.m), (*self.batch, self.n)

    def _meaning(self, *operands: NDArray[Any]) -> NDArray[Any]:
        """Return the product, times the scales of A and of B if it has these."""
        a, b, *scales = operands
        wide = "i8" if self.dtype.kind != "float" else "f8"
        product: NDArray[Any] = a.astype(wide) @ b.astype(wide).swapaxes(-1, -2)
        if not scales:
            return product
        of_a, of_b = (scales[0][..., :, None], scales[1][..., None, :]) if self.scaled == "rows" else scales
        product *= of_a * of_b
        return product

    def travels(self, target: str | Target) -> Mapping[str, Move]:
        """Return A, B and C in tiles of 128 rows, as wide as the widest swizzle."""
        width, across = ROW_BITS // self.dtype.bits, ROW_BITS // self.out_dtype.bits
        first, second = readers_on(as_target(target))

        def tile(tensor: Tensor, columns: int) -> tuple[int, ...]:
            return (*(1 for _ in tensor.shape[:-2]), TILE_ROWS, columns)

        return {
            "A": Copy(self.a, tile=tile(self.a, width), consumer=first),
            "B": Copy(self.b, tile=tile(self.b, width), consumer=second, constant=self.constant_b),
            "C": Copy(self.c, tile=tile(self.c, across), consumer="threads"),
        }

    def operands(self, tile: tuple[int, int, int], readers: tuple[Consumer, Consumer]) -> dict[str, Copy]:
        """Return A, B and C as movements in tiles of m, n and k elements.

        Args:
            tile: elements of a tile along m, n and k.
            readers: who reads the tiles of A and of B in shared memory.

        Raises:
            InvalidInput: a tile of other than three positive integers, readers of other than two operands, or a batch.
        """
        if self.members.count > 1:
            raise InvalidInput(f"{self} is many products; give one of them")
        rows, columns, depth = integers(tile, "tile", low=1, length=3)
        if not isinstance(readers, tuple | list) or len(readers) != 2:
            raise InvalidInput("readers are not two; give who reads A and who reads B, as in WGMMA_CONSUMERS")
        # C only leaves shared memory, so it is judged as the target of a copy whose source no rule refuses.
        pitch = -(-self.n // columns) * columns
        staged = Tensor((self.m, self.n), self.out_dtype, (pitch, 1))
        return {
            "A": Copy(matrix_of(self.a), tile=(rows, depth), consumer=readers[0], passes=-(-self.n // columns)),
            "B": Copy(
                matrix_of(self.b),
                tile=(columns, depth),
                consumer=readers[1],
                passes=-(-self.m // rows),
                constant=self.constant_b,
            ),
            "C": Copy(staged, matrix_of(self.c), tile=(rows, columns), consumer="threads"),
        }


def scaling_of(scaled: Any, known: tuple[Scaling, ...]) -> Scaling | Literal[""]:
    """Return what scales belong to, "" where there are none."""
    if isinstance(scaled, bool) or (isinstance(scaled, str) and not scaled):
        return "tensor" if scaled else ""
    return one_of(scaled, "scaled", known)


def matrix_of(tensor: Tensor) -> Tensor:
    """Return the first matrix of a batch."""
    if tensor.rank == 2:
        return tensor
    return Tensor(tensor.shape[-2:], tensor.dtype, tensor.strides[-2:], tensor.align, tensor.offset)


def readers_on(target: Target) -> tuple[Consumer, Consumer]:
    """Return who reads A and B on a target: its matrix unit where that reads shared memory, else threads."""
    unit = matrix_unit(target)
    found: dict[str, tuple[Consumer, Consumer]] = {"wgmma": WGMMA_CONSUMERS, "tcgen05": TCGEN05_CONSUMERS}
    return found.get(unit, ("threads", "threads"))


def matrix_unit(target: Target) -> str:
    """Return "wgmma" or "tcgen05", the matrix unit that reads shared memory by itself; "" where there is none."""
    return "wgmma" if target.wgmma else "tcgen05" if target.tcgen05 else ""


def sums_of(element: DType) -> DType:
    """Return the type in which products of `element` are summed: i32 for integers, fp64 for fp64, else fp32."""
    if element.kind != "float":
        return as_dtype("i32")
    return element if element.bits > 32 else as_dtype("fp32")


def result_of(element: DType) -> DType:
    """Return the type of C where none is named: the narrow types keep little of a sum."""
    if element.bits > 8:
        return element
    return as_dtype("bf16") if element.kind == "float" else sums_of(element)


def gemm_operands(m: int, n: int, k: int, dtype: Any, target: Target) -> dict[str, Copy]:
    """Return the operands of C[m,n] = A[m,k] B[n,k]^T, row-major and dense as frameworks allocate them.

    Args:
        m: rows of A and C.
        n: rows of B and columns of C.
        k: columns of A and B.
        dtype: element type of A and B.
        target: the GPU, which decides who reads A and B: wgmma where it has it, else threads.
    """
    return judged_operands(Gemm(m, n, k, dtype), target)


def judged_operands(product: Gemm, target: Target) -> dict[str, Copy]:
    """Return the operands of a product in the tiles that they are judged in: 128 rows, or 128 bytes, along each axis.

    Args:
        product: with A, B and C in any strides.
        target: the GPU, which decides who reads A and B.
    """
    columns = ROW_BITS // product.dtype.bits
    operands = product.operands((TILE_ROWS, TILE_ROWS, columns), readers_on(target))
    return {**operands, "C": product.operands((TILE_ROWS, columns, columns), readers_on(target))["C"]}
