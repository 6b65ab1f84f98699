"""What a user asks for: operators on tensors, and the `Access` that each one is.

An operator here moves elements without changing them. It names both ends, so that a plan can be legal on both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from legalsat.access import Access, Mode
from legalsat.checks import integers, one_of
from legalsat.dims import Extent
from legalsat.errors import InvalidInput
from legalsat.tensor import Tensor, permutation, plain, row_major

WGMMA_CONSUMERS = ("wgmma.a", "wgmma.b")
CONSUMERS = ("threads", *WGMMA_CONSUMERS)
# Bits from the first to the last element; the e-graph multiplies extents and strides in 64-bit integers.
MAX_SPAN_BITS = 2**61


def dense_like(tensor: Tensor) -> Tensor:
    """Return a dense tensor of the same shape whose axes are stored in the same order (torch: preserve_format)."""
    order = sorted(range(tensor.rank), key=lambda a: (isinstance(s := tensor.strides[a], int) and s == 0, _key(s), -a))
    steps: list[Extent] = [1] * tensor.rank
    for axis, step in zip(reversed(order), row_major(tensor.shape[a] for a in reversed(order)), strict=True):
        steps[axis] = step
    return Tensor(tensor.shape, tensor.dtype, steps)


def _key(stride: Extent) -> tuple[int, int]:
    """Return a sort key: plain strides first, then by number of dims, so that K comes before M*K."""
    return (0, stride) if isinstance(stride, int) else (len(getattr(stride, "dims", (stride,))), 0)


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy a tensor, tile by tile.

    Attributes:
        source: the tensor to read.
        target: the tensor to write, of the same shape and dtype; dense in the source's axis order when left out.
        tile: elements of a tile along each axis of the source; chosen when left out.
        consumer: who reads the tile in shared memory: None for the copy engine alone, "threads", "wgmma.a", "wgmma.b".
    """

    source: Tensor
    target: Tensor
    tile: tuple[int, ...] | None
    consumer: str | None

    def __init__(
        self,
        source: Any,
        target: Tensor | None = None,
        *,
        tile: Iterable[int] | None = None,
        consumer: str | None = None,
    ) -> None:
        source = as_tensor(source)
        put = object.__setattr__
        put(self, "source", source)
        put(self, "target", _same(source, dense_like(source) if target is None else target))
        put(self, "tile", _tile(tile, source))
        put(self, "consumer", None if consumer is None else one_of(consumer, "consumer", CONSUMERS))

    def bind(self, values: Mapping[str, int]) -> Copy:
        """Return the copy with every dim replaced by its value."""
        return Copy(self.source.bind(values), self.target.bind(values), tile=self.tile, consumer=self.consumer)

    def __str__(self) -> str:
        tile = "" if self.tile is None else f", tile {' x '.join(map(str, self.tile))}"
        return f"copy of {self.source}{tile}"


@dataclass(frozen=True, slots=True)
class Transpose:
    """Copy a tensor with its axes in another order, into dense row-major memory.

    Attributes:
        source: the tensor to read.
        order: for each axis of the result, the axis of the source; the last two exchanged when left out.
        target: the tensor to write; dense and row-major when left out.
        tile: elements of a tile along each axis of the source; chosen when left out.
    """

    source: Tensor
    order: tuple[int, ...]
    target: Tensor
    tile: tuple[int, ...] | None

    def __init__(
        self,
        source: Any,
        order: Iterable[int] | None = None,
        target: Tensor | None = None,
        *,
        tile: Iterable[int] | None = None,
    ) -> None:
        source = as_tensor(source)
        rank = source.rank
        if order is None:
            if rank < 2:
                raise InvalidInput(f"transpose of a tensor with {rank} axes; give at least 2 axes, or an order")
            order = (*range(rank - 2), rank - 1, rank - 2)
        axes = permutation(order, rank)
        shape = tuple(source.shape[a] for a in axes)
        put = object.__setattr__
        put(self, "source", source)
        put(self, "order", axes)
        result = source.transposed(axes)
        put(self, "target", _same(result, Tensor(shape, source.dtype) if target is None else target))
        put(self, "tile", _tile(tile, source))

    @property
    def consumer(self) -> str:
        """Threads read the tile, to turn it."""
        return "threads"

    def bind(self, values: Mapping[str, int]) -> Transpose:
        """Return the transpose with every dim replaced by its value."""
        return Transpose(self.source.bind(values), self.order, self.target.bind(values), tile=self.tile)

    def __str__(self) -> str:
        return f"transpose of {self.source} to axes {self.order}"


Operator = Copy | Transpose


def as_tensor(value: Any) -> Tensor:
    """Return `value` if it is a `Tensor`, else the layout of the array that it is."""
    return value if isinstance(value, Tensor) else Tensor.from_array(value)


def _same(source: Tensor, target: Tensor) -> Tensor:
    target = as_tensor(target)
    if target.shape != source.shape or target.dtype != source.dtype:
        raise InvalidInput(f"target is {target}; give one of shape and dtype {source.dtype} {source.shape}")
    return target


def _tile(tile: Any, source: Tensor) -> tuple[int, ...] | None:
    return None if tile is None else integers(tile, "tile", low=1, high=2**31, length=source.rank)


def access_of(operator: Operator, tile: tuple[int, ...] | None = None) -> Access:
    """Return the operator as an access; `tile` for each axis of the source, whole axes when left out.

    Raises:
        InvalidInput: an extent is symbolic, or a tensor or tile takes more than 2^61 bits.
    """
    source, target = operator.source, operator.target
    for end in (source, target):
        if end.span_bits > MAX_SPAN_BITS:
            raise InvalidInput(f"tensor {end} spans {end.span_bits} bits; give one of at most 2^61")
    if isinstance(operator, Transpose):
        back = [operator.order.index(axis) for axis in range(source.rank)]
        target = target.transposed(back)
    bits = source.dtype.bits
    spans = source.shape if tile is None else tile
    for what, extents in (("tensor", source.shape), ("tile", spans)):
        if (size := math.prod(plain(extents)) * bits) > MAX_SPAN_BITS:
            raise InvalidInput(f"{what} has {size} bits; give one of at most 2^61")
    modes = [
        Mode(n, _distance(n, s * bits), _distance(n, d * bits), t)
        for n, s, d, t in zip(*map(plain, (source.shape, source.strides, target.strides, spans)), strict=True)
    ] or [Mode(1, bits, bits, 1)]  # a scalar is one element of one mode
    return Access(bits, tuple(sorted(modes, key=lambda m: (m.source == 0, m.source, m.target))))


def _distance(extent: int, stride: int) -> int:
    """Return a mode's stride in bits. A unit mode's may be anything, so that one too large for the e-graph is none."""
    return stride if extent > 1 or stride <= MAX_SPAN_BITS else 0
