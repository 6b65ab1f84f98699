"""`Tensor`: the shape, strides, element type and alignment of an array, without its data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from legalsat.arrays import describe
from legalsat.checks import INT64_MAX, counted, integer, integers, sequence
from legalsat.dims import Dim, Extent, as_extent, bind, dims_of, times
from legalsat.dtypes import DType
from legalsat.dtypes import dtype as as_dtype
from legalsat.errors import InvalidInput

MAX_RANK = 64
# cudaMalloc and torch's allocator give at least this; views and slices may not, so `from_array` looks.
ALLOCATOR_ALIGNMENT = 256


def row_major(shape: Iterable[Extent]) -> tuple[Extent, ...]:
    """Return the strides, in elements, of a dense tensor whose last axis is contiguous."""
    strides: list[Extent] = []
    step: Extent = 1
    for extent in reversed(tuple(shape)):
        strides.append(step)
        step = times(step, extent)
    return tuple(reversed(strides))


@dataclass(frozen=True, slots=True)
class Tensor:
    """An array's layout in global memory.

    Attributes:
        shape: extents in elements, slowest axis first; ints or `Dim`s.
        dtype: element type by name, such as "bf16", "e4m3" or "e2m1" (packed, two to a byte).
        strides: elements between neighbours along each axis; row-major and dense when left out.
        align: bytes that the base address is a multiple of, but for `offset`; a power of two.
        offset: bytes from such a multiple to the base, as of a slice `x[:, 1:]`; less than `align`.

    Raises:
        InvalidInput: a number has no meaning, the tensor is empty, or its span does not fit 63 bits.
    """

    shape: tuple[Extent, ...]
    dtype: DType
    strides: tuple[Extent, ...]
    align: int
    offset: int

    def __init__(
        self,
        shape: Iterable[Any],
        dtype: Any,
        strides: Iterable[Any] | None = None,
        align: int = ALLOCATOR_ALIGNMENT,
        offset: int = 0,
    ) -> None:
        extents = _extents(shape, "shape", low=1)
        if len(extents) > MAX_RANK:
            raise InvalidInput(f"tensor has {len(extents)} axes; give at most {MAX_RANK}")
        steps = row_major(extents) if strides is None else _extents(strides, "strides", low=0)
        if len(steps) != len(extents):
            raise InvalidInput(f"strides has {counted(len(steps))}; give {len(extents)}, one for each axis")
        alignment = integer(align, "align", low=1)
        if alignment & (alignment - 1):
            raise InvalidInput(f"align is {alignment}; give a power of two in bytes")
        put = object.__setattr__
        put(self, "shape", extents)
        put(self, "dtype", as_dtype(dtype))
        put(self, "strides", steps)
        put(self, "align", alignment)
        put(self, "offset", integer(offset, "offset", low=0, high=alignment - 1))
        symbolic = not all(isinstance(n, int) for n in (*extents, *steps)) and dims_of(*extents, *steps)
        if not symbolic and self.span_bits > INT64_MAX:
            raise InvalidInput(f"tensor spans {self.span_bits} bits, beyond 2^63 - 1; give smaller extents or strides")

    @staticmethod
    def from_array(array: Any) -> Tensor:
        """Return the layout of an array; its data are not touched.

        Args:
            array: a numpy array, a torch tensor, or anything with `__cuda_array_interface__` or `__dlpack__`.

        Raises:
            InvalidInput: the object is none of these, its element type is unknown, or a stride is negative.
        """
        found = describe(array)
        return Tensor(found.shape, found.dtype, found.strides, found.align)

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def dims(self) -> tuple[Dim, ...]:
        """The symbolic extents that occur, by name."""
        return dims_of(*self.shape, *self.strides)

    @property
    def span_bits(self) -> int:
        """Bits from the first element's start to the last element's end; needs plain extents."""
        last = sum((n - 1) * s for n, s in zip(plain(self.shape), plain(self.strides), strict=True))
        return (last + 1) * self.dtype.bits

    @property
    def address(self) -> int:
        """An address that the base may have, in bytes; every other one is as far from multiples of `align`."""
        return self.align + self.offset

    @property
    def size(self) -> int:
        """Number of elements; needs plain extents."""
        return math.prod(plain(self.shape))

    def bind(self, values: Mapping[str, int]) -> Tensor:
        """Return the tensor with every dim replaced by its value."""
        return Tensor(
            (bind(n, values) for n in self.shape),
            self.dtype,
            (bind(s, values) for s in self.strides),
            self.align,
            self.offset,
        )

    def transposed(self, order: Iterable[int]) -> Tensor:
        """Return the view with its axes in `order`, a permutation; the memory stays as it is."""
        axes = permutation(order, self.rank)
        return Tensor(
            (self.shape[a] for a in axes), self.dtype, (self.strides[a] for a in axes), self.align, self.offset
        )

    def __str__(self) -> str:
        shape = " x ".join(map(str, self.shape)) or "scalar"
        dense = self.strides == row_major(self.shape)
        strides = "" if dense else f" strides ({', '.join(map(str, self.strides))})"
        return f"{self.dtype} {shape}{strides}" + (f" offset {self.offset} bytes" if self.offset else "")


def permutation(order: Any, rank: int) -> tuple[int, ...]:
    """Return `order` if it names each of `rank` axes once, else raise `InvalidInput`."""
    axes = integers(order, "order", low=0, high=max(rank - 1, 0), length=rank)
    if len(set(axes)) != rank:
        raise InvalidInput(f"order {axes} names an axis twice; give a permutation of 0 to {rank - 1}")
    return axes


def plain(extents: Iterable[Extent]) -> tuple[int, ...]:
    """Return the extents as ints; raises `InvalidInput` where one is symbolic."""
    numbers = tuple(extents)
    symbolic = next((extent for extent in numbers if not isinstance(extent, int)), None)
    if symbolic is not None:
        raise InvalidInput(f"extent {symbolic} is symbolic; bind its dims first")
    return cast("tuple[int, ...]", numbers)


def _extents(values: Any, what: str, *, low: int) -> tuple[Extent, ...]:
    given = sequence(values, what, "integers or dims, such as (4096, 64)")
    if all(type(v) is int and low <= v <= INT64_MAX for v in given):  # as most are
        return given
    return tuple(as_extent(v, f"{what}[{i}]", low=low) for i, v in enumerate(given))
