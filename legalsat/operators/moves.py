"""Copies and transposes; and the `Access` of a movement, which names both ends, so that plans are legal on both."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from legalsat.checks import flag, integer, integers, one_of, sequence
from legalsat.dims import Extent
from legalsat.errors import InvalidInput
from legalsat.logic import round_up
from legalsat.operators.access import Access
from legalsat.operators.operator import MAX_SPAN_BITS, Move, back
from legalsat.options import Consumer, Into
from legalsat.printable import shown
from legalsat.targets import GRANULE_BYTES, Target
from legalsat.tensor import ALLOCATOR_ALIGNMENT, Tensor, permutation, plain, row_major

if TYPE_CHECKING:
    from numpy.typing import NDArray

WGMMA_CONSUMERS: tuple[Consumer, Consumer] = ("wgmma.a", "wgmma.b")
TCGEN05_CONSUMERS: tuple[Consumer, Consumer] = ("tcgen05.a", "tcgen05.b")
MATRIX_CONSUMERS = (*WGMMA_CONSUMERS, *TCGEN05_CONSUMERS)
CONSUMERS: tuple[Consumer, ...] = get_args(Consumer)
INTO: tuple[Into, ...] = get_args(Into)
_LONGEST_NAME = 32  # of an axis


def k_major(operand: Tensor) -> bool:
    """Return whether the last axis of an operand, which is K, runs fastest in memory."""
    return not operand.strides or operand.strides[-1] == 1


def atom_bytes(operator: Move) -> int:
    """Return how many bytes the matrix unit that reads an operator's tiles has a swizzle keep together; 0 for none.

    These are 16, but 32 for 32-bit elements that do not run along K (FACTS TC-11).
    """
    if operator.consumer not in MATRIX_CONSUMERS:
        return 0
    wide = operator.consumer in TCGEN05_CONSUMERS and operator.source.dtype.bits == 32 and not k_major(operator.source)
    return 2 * GRANULE_BYTES if wide else GRANULE_BYTES


def dense_like(tensor: Tensor) -> Tensor:
    """Return a dense tensor of the same shape whose axes are stored in the same order (torch: preserve_format)."""
    order = sorted(range(tensor.rank), key=lambda a: (isinstance(s := tensor.strides[a], int) and s == 0, _key(s), -a))
    steps: list[Extent] = [1] * tensor.rank
    for axis, step in zip(reversed(order), row_major(tensor.shape[a] for a in reversed(order)), strict=True):
        steps[axis] = step
    plainly = tensor.align == ALLOCATOR_ALIGNMENT and not tensor.offset
    return tensor if plainly and tuple(steps) == tensor.strides else Tensor(tensor.shape, tensor.dtype, steps)


def padded(tensor: Tensor) -> Tensor:
    """Return a tensor of the same shape, its axes stored in the same order, that any copy engine takes boxes of.

    The fastest axis is dense, rows of it start at multiples of a granule of 16 bytes, and elements do not overlap.
    """
    order = sorted((a for a in range(tensor.rank)), key=lambda a: (tensor.strides[a] == 0, _key(tensor.strides[a]), -a))
    granule = math.lcm(8 * GRANULE_BYTES, tensor.dtype.bits) // tensor.dtype.bits
    steps, step = [1] * tensor.rank, 1
    for position, axis in enumerate(order):
        steps[axis] = step
        step *= plain(tensor.shape)[axis]
        if position == 0:
            step = round_up(step, granule)
    return Tensor(tensor.shape, tensor.dtype, steps)


def _key(stride: Extent) -> tuple[int, int]:
    """Return a sort key: plain strides first, then by number of dims, so that K comes before M*K."""
    return (0, stride) if isinstance(stride, int) else (len(getattr(stride, "dims", (stride,))), 0)


@dataclass(frozen=True, slots=True, init=False)
class Copy(Move):
    """Copy a tensor, tile by tile.

    Attributes:
        source: the tensor to read.
        target: the tensor to write, of the same shape and dtype; dense in the source's axis order when left out.
        tile: elements of a tile along each axis of the source; chosen when left out.
        consumer: who reads the tile in shared memory: None for nobody, "threads", "wgmma.a", "wgmma.b",
            "tcgen05.a", "tcgen05.b".
        passes: how often every tile is delivered, as an operand's is that many tiles of a product need.
        constant: whether the source never changes, as weights do not, so that a relayout of it runs once for all.
        into: "global", or "shared" for tiles that are loaded and read there, by threads where no consumer is named, and
            stored by nobody. There is no target to name then.
        axes: a name for each axis of the source, such as ("batch", "row", "k"), in which coordinates are printed.
    """

    source: Tensor
    target: Tensor
    tile: tuple[int, ...] | None
    consumer: Consumer | None
    passes: int
    constant: bool
    into: Into
    axes: tuple[str, ...]
    by_rows = True

    def __init__(
        self,
        source: Any,
        target: Tensor | None = None,
        *,
        tile: Iterable[int] | None = None,
        consumer: Consumer | None = None,
        passes: int = 1,
        constant: bool = False,
        into: Into = "global",
        axes: Iterable[str] = (),
    ) -> None:
        source = as_tensor(source)
        put = object.__setattr__
        put(self, "axes", axis_names(axes, source.rank))
        put(self, "into", one_of(into, "into", INTO))
        put(self, "passes", integer(passes, "passes", low=1, high=2**31))
        put(self, "constant", flag(constant, "constant"))
        put(self, "source", source)
        put(self, "target", alike(source, dense_like(source) if target is None or self.loads_only else target))
        if self.loads_only and target is not None and as_tensor(target) != self.target:
            raise InvalidInput("a copy into shared memory stores nothing; leave out the target, or into")
        put(self, "tile", _tile(tile, source))
        put(self, "consumer", reader_of(consumer, self.into))

    def _meaning(self, *operands: NDArray[Any]) -> NDArray[Any]:
        """Return the source as it is."""
        return operands[0]

    @property
    def order(self) -> tuple[int, ...]:
        """The source's."""
        return tuple(range(self.source.rank))

    def __str__(self) -> str:
        tile = "" if self.tile is None else f", tile {' x '.join(map(str, self.tile))}"
        return f"copy of {self.source}{tile}{', into shared memory' * self.loads_only}"


@dataclass(frozen=True, slots=True, init=False)
class Transpose(Move):
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
    consumer = "threads"  # read the tile, to turn it

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
                raise InvalidInput(f"transpose of a tensor of rank {rank}; give at least 2 axes, or an order")
            order = (*range(rank - 2), rank - 1, rank - 2)
        axes = permutation(order, rank)
        shape = tuple(source.shape[a] for a in axes)
        put = object.__setattr__
        put(self, "source", source)
        put(self, "order", axes)
        result = source.transposed(axes)
        put(self, "target", alike(result, Tensor(shape, source.dtype) if target is None else target))
        put(self, "tile", _tile(tile, source))

    def _meaning(self, *operands: NDArray[Any]) -> NDArray[Any]:
        """Return numpy's transpose."""
        return operands[0].transpose(self.order)

    @property
    def reader(self) -> None:
        """Nobody but the threads that turn it."""
        return None

    def travels(self, target: str | Target) -> Mapping[str, Move]:
        """Return the copy into what the target is in the source's axes: boxes know no order."""
        return {"x": Copy(self.source, self.target.transposed(back(self)))}

    def __str__(self) -> str:
        return f"transpose of {self.source} to axes {self.order}"


def as_tensor(value: Any) -> Tensor:
    """Return `value` if it is a `Tensor`, else the layout of the array that it is."""
    return value if isinstance(value, Tensor) else Tensor.from_array(value)


def alike(source: Tensor, target: Any) -> Tensor:
    """Return a target as a tensor; raise `InvalidInput` unless it has the source's shape and dtype."""
    found = as_tensor(target)
    if found.shape != source.shape or found.dtype != source.dtype:
        raise InvalidInput(f"target is {found}; give one of shape and dtype {source.dtype} {source.shape}")
    return found


def axis_names(axes: Any, rank: int) -> tuple[str, ...]:
    """Return the names of all axes, or of none; raise `InvalidInput` unless they are different identifiers."""
    names = tuple(sequence(axes, "axes", "a name for each axis, such as ('batch', 'row', 'k')"))
    for name in names:
        if not isinstance(name, str) or not (name.isascii() and name.isidentifier()) or len(name) > _LONGEST_NAME:
            raise InvalidInput(f"axis is called {shown(name)}; give ASCII letters, digits and underscores")
    if names and (len(names) != rank or len(set(names)) != rank):
        raise InvalidInput(f"axes are {shown(axes)}; give {rank} different names, one for each axis")
    return names


def reader_of(consumer: Any, into: Into) -> Consumer | None:
    """Return who reads a tile in shared memory: threads, where it ends there and nobody is named."""
    if consumer is None:
        return "threads" if into == "shared" else None
    return one_of(consumer, "consumer", CONSUMERS)


def _tile(tile: Any, source: Tensor) -> tuple[int, ...] | None:
    return None if tile is None else integers(tile, "tile", low=1, high=2**31, length=source.rank)


def access_of(operator: Move, tile: tuple[int, ...] | None = None) -> Access:
    """Return a movement as an access; `tile` for each axis of the source, whole axes when left out.

    The tile of `Im2col` are pixels and columns. Its source strides count from the corner of the padded images, and
    those of `Pad` from the corner of the padding; the modes of that are merged where they may be.

    Raises:
        InvalidInput: an extent is symbolic, or a tensor, a tile or what lies around it takes more than 2^61 bits.
    """
    for end in (operator.source, operator.target):
        if end.span_bits > MAX_SPAN_BITS:
            raise InvalidInput(f"tensor {end} spans {end.span_bits} bits; give one of at most 2^61")
    access = operator.access(tile)
    if (reach := sum((mode.extent - 1) * mode.source for mode in access.modes)) > MAX_SPAN_BITS:
        raise InvalidInput(f"{operator} spans {reach} bits of its source; give a source and padding of at most 2^61")
    for what, extents in (("tensor", [m.extent for m in access.modes]), ("tile", [m.tile for m in access.modes])):
        if (size := math.prod(extents) * access.word) > MAX_SPAN_BITS:
            raise InvalidInput(f"{what} has {size} bits; give one of at most 2^61")
    return access
