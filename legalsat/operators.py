"""What a user asks for: operators on tensors, and the `Access` that each one is.

An operator here moves elements without changing them. It names both ends, so that a plan can be legal on both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args

from legalsat.access import Access, Mode
from legalsat.checks import flag, integer, integers, one_of
from legalsat.dims import Extent
from legalsat.dtypes import pattern_of
from legalsat.errors import InvalidInput
from legalsat.logic import round_up
from legalsat.options import Consumer
from legalsat.printable import shown
from legalsat.targets import GRANULE_BYTES
from legalsat.tensor import ALLOCATOR_ALIGNMENT, Tensor, permutation, plain, row_major
from legalsat.units.windows import MAX_PIXELS, Sweep, paddings, per_axis, sides, spread_over
from legalsat.view.margins import Margin, Padded, padded_modes

WGMMA_CONSUMERS: tuple[Consumer, Consumer] = ("wgmma.a", "wgmma.b")
TCGEN05_CONSUMERS: tuple[Consumer, Consumer] = ("tcgen05.a", "tcgen05.b")
MATRIX_CONSUMERS = (*WGMMA_CONSUMERS, *TCGEN05_CONSUMERS)
CONSUMERS: tuple[Consumer, ...] = get_args(Consumer)
# Bits from the first to the last element; the e-graph multiplies extents and strides in 64-bit integers.
MAX_SPAN_BITS = 2**61
SPATIAL_RANKS = (3, 4, 5)  # of batches of images with 1, 2 or 3 spatial axes


def k_major(operand: Tensor) -> bool:
    """Return whether the last axis of an operand, which is K, runs fastest in memory."""
    return not operand.strides or operand.strides[-1] == 1


def atom_bytes(operator: Operator) -> int:
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


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy a tensor, tile by tile.

    Attributes:
        source: the tensor to read.
        target: the tensor to write, of the same shape and dtype; dense in the source's axis order when left out.
        tile: elements of a tile along each axis of the source; chosen when left out.
        consumer: who reads the tile in shared memory: None for nobody, "threads", "wgmma.a", "wgmma.b",
            "tcgen05.a", "tcgen05.b".
        passes: how often every tile is delivered, as an operand's is that many tiles of a product need.
        constant: whether the source never changes, as weights do not, so that a relayout of it runs once for all.
    """

    source: Tensor
    target: Tensor
    tile: tuple[int, ...] | None
    consumer: Consumer | None
    passes: int
    constant: bool

    def __init__(
        self,
        source: Any,
        target: Tensor | None = None,
        *,
        tile: Iterable[int] | None = None,
        consumer: Consumer | None = None,
        passes: int = 1,
        constant: bool = False,
    ) -> None:
        source = as_tensor(source)
        put = object.__setattr__
        put(self, "passes", integer(passes, "passes", low=1, high=2**31))
        put(self, "constant", flag(constant, "constant"))
        put(self, "source", source)
        put(self, "target", _same(source, dense_like(source) if target is None else target))
        put(self, "tile", _tile(tile, source))
        put(self, "consumer", None if consumer is None else one_of(consumer, "consumer", CONSUMERS))

    def bind(self, values: Mapping[str, int]) -> Copy:
        """Return the copy with every dim replaced by its value."""
        return replace(self, source=self.source.bind(values), target=self.target.bind(values))

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


@dataclass(frozen=True, slots=True)
class Im2col:
    """Copy what the windows of a convolution see of a batch of images: the matrix that its product reads.

    Images of shape (N, H, W, C) and a filter of R x S taps give (N, P, Q, R, S, C), N*P*Q pixels by R*S*C columns.
    P = floor((H + before + after - dilation * (R - 1) - 1) / stride) + 1, and Q likewise. Outside an image lie zeros.

    Attributes:
        source: images of shape (N, W, C), (N, H, W, C) or (N, D, H, W, C), in any strides.
        filter: taps along each spatial axis. An argument may be one number for all axes, here and below.
        stride: pixels from one window to the next along each spatial axis.
        padding: pixels of zeros before and after the image along each spatial axis; one number stands for both sides.
        dilation: pixels from one tap to the next along each spatial axis.
        target: the tensor to write; dense and row-major when left out.
        tile: pixels and columns of a tile: pixels in the order of the result, and columns of one tap or of whole ones.
            Chosen when left out.
        consumer: who reads the tile in shared memory: None for nobody, "threads", "wgmma.a", "wgmma.b",
            "tcgen05.a", "tcgen05.b".

    Raises:
        InvalidInput: the images have symbolic extents or another rank, the filter fits into no image, or a number has
            no meaning.
    """

    source: Tensor
    filter: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    target: Tensor
    tile: tuple[int, ...] | None
    consumer: Consumer | None

    def __init__(
        self,
        source: Any,
        filter: Any,
        *,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        target: Tensor | None = None,
        tile: Iterable[int] | None = None,
        consumer: Consumer | None = None,
    ) -> None:
        source = as_tensor(source)
        if source.dims:
            raise InvalidInput(f"images are {source}; bind their dims first")
        if source.rank not in SPATIAL_RANKS:
            raise InvalidInput(f"images have {source.rank} axes; give N, W, C or N, H, W, C or N, D, H, W, C")
        axes = source.rank - 2
        put = object.__setattr__
        put(self, "source", source)
        put(self, "filter", per_axis(filter, "filter", axes))
        put(self, "stride", per_axis(stride, "stride", axes))
        put(self, "padding", paddings(padding, axes))
        put(self, "dilation", per_axis(dilation, "dilation", axes))
        for axis, sweep in enumerate(self.sweeps):
            if sweep.windows < 1:
                room = sweep.extent + sweep.before + sweep.after
                raise InvalidInput(
                    f"filter spans {sweep.reach + 1} pixels of spatial axis {axis}, which has {room} with its padding; "
                    "give a smaller filter, or more padding"
                )
            if sweep.windows > MAX_PIXELS:
                raise InvalidInput(f"spatial axis {axis} has {sweep.windows} windows; give at most {MAX_PIXELS}")
        shape = (source.shape[0], *(s.windows for s in self.sweeps), *self.filter, source.shape[-1])
        result = Tensor(shape, source.dtype)
        put(self, "target", _same(result, result if target is None else target))
        put(self, "consumer", None if consumer is None else one_of(consumer, "consumer", CONSUMERS))
        put(self, "tile", None if tile is None else self._tile(tile))

    def _tile(self, tile: Any) -> tuple[int, ...]:
        pixels, columns = integers(tile, "tile", low=1, high=2**31, length=2)
        channels, *filter_ = plain((self.source.shape[-1], *reversed(self.filter)))
        _, *taps = spread_over(columns, (channels, *filter_))
        if any(n % tap for n, tap in zip(filter_, taps, strict=True)):
            raise InvalidInput(
                f"tile has {columns} columns, which end inside a row of the filter; give at most {channels}, those of "
                "a tap, or those of a number of taps that divides a row"
            )
        if math.prod(taps) > 1 and self.consumer in MATRIX_CONSUMERS:
            raise InvalidInput(
                f"tile has {columns} columns, but {self.consumer} reads one tap at once; give at most {channels}"
            )
        return pixels, columns

    @property
    def sweeps(self) -> tuple[Sweep, ...]:
        """How the window moves along each spatial axis, slowest first."""
        extents = plain(self.source.shape[1:-1])
        columns = zip(extents, self.filter, self.stride, self.dilation, self.padding, strict=True)
        return tuple(Sweep(n, taps, step, apart, *pads) for n, taps, step, apart, pads in columns)

    @property
    def leaves(self) -> bool:
        """Whether some window leaves its image, so that zeros are to be filled in."""
        return any(sweep.leaves for sweep in self.sweeps)

    def bind(self, values: Mapping[str, int]) -> Im2col:
        """Return the operator, whose images have no dims."""
        return replace(self, source=self.source.bind(values), target=self.target.bind(values))

    def __str__(self) -> str:
        taps = " x ".join(map(str, self.filter))
        parts = [f"im2col of {self.source}, filter {taps}"]
        for what, numbers, usual in (
            ("stride", self.stride, 1),
            ("padding", self.padding, (0, 0)),
            ("dilation", self.dilation, 1),
        ):
            said = [sides(number) for number in numbers]
            if any(number != usual for number in numbers):
                parts.append(f"{what} {' x '.join(said) if len(set(said)) > 1 else said[0]}")
        return ", ".join(parts) + ("" if self.tile is None else f", tile {self.tile[0]} x {self.tile[1]}")


@dataclass(frozen=True, slots=True)
class Pad:
    """Copy a tensor into the middle of a larger one, and write a value around it.

    Zeros may travel by boxes of tensor maps, as the copy engine fills in what lies outside a tensor: where both tensors
    have a map, and the padding in front of the fastest axis is a multiple of 16 bytes. All else goes by threads.

    Attributes:
        source: the tensor to read.
        padding: elements before and after it along each axis. An argument may give one number for both sides or for
            all axes.
        value: what is written there. Of floats of 8 bits or fewer only 0 is known.
        target: the tensor to write; dense and row-major when left out.

    Raises:
        InvalidInput: the source has dims, a padded axis more than 2^31 - 1 elements, or a number no meaning.
    """

    source: Tensor
    padding: tuple[tuple[int, int], ...]
    value: float
    target: Tensor

    def __init__(self, source: Any, padding: Any, value: float = 0, target: Tensor | None = None) -> None:
        source = as_tensor(source)
        if source.dims:
            raise InvalidInput(f"source is {source}; bind its dims first")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidInput(
                f"value is {shown(value)}; give a plain int or float, as 1 for True or value.item() of an array"
            )
        put = object.__setattr__
        put(self, "source", source)
        put(self, "padding", paddings(padding, source.rank))
        put(self, "value", value)
        shape = [n + sum(beside) for n, beside in zip(plain(source.shape), self.padding, strict=True)]
        for axis, (n, beside) in enumerate(zip(shape, self.padding, strict=True)):
            if any(beside) and n > MAX_PIXELS:
                raise InvalidInput(f"axis {axis} has {n} elements with its padding; give at most {MAX_PIXELS}")
        result = Tensor(shape, source.dtype)
        put(self, "target", _same(result, result if target is None else target))

    @property
    def tile(self) -> None:
        """Tiles are chosen."""
        return None

    @property
    def consumer(self) -> None:
        """Nobody reads a tile on its way."""
        return None

    @property
    def pattern(self) -> int:
        """The bits of an element of the value; raises `InvalidInput` where the type has no such number."""
        return pattern_of(self.value, self.source.dtype)

    def bind(self, values: Mapping[str, int]) -> Pad:
        """Return the operator, whose source has no dims."""
        return replace(self, source=self.source.bind(values), target=self.target.bind(values))

    def __str__(self) -> str:
        around = " x ".join(sides(pair) for pair in self.padding) or "nothing"
        return f"padding of {self.source} by {around} with {self.value}"


Operator = Copy | Transpose | Im2col | Pad


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


def window_modes(operator: Im2col, tile: tuple[int, ...] | None = None) -> tuple[Mode, ...]:
    """Return the modes of the windows, fastest first: channels, taps of each axis, windows of each axis, images."""
    source, target, bits = operator.source, operator.target, operator.source.dtype.bits
    axes = range(source.rank - 3, -1, -1)
    strides, steps = plain(source.strides), plain(target.strides)
    sweeps, rank = operator.sweeps, len(operator.sweeps)
    rows = [
        (plain(source.shape)[-1], strides[-1] if source.shape[-1] != 1 else 1, steps[-1]),
        *((sweeps[a].taps, sweeps[a].dilation * strides[1 + a], steps[1 + rank + a]) for a in axes),
        *((sweeps[a].windows, sweeps[a].step * strides[1 + a], steps[1 + a]) for a in axes),
        (plain(source.shape)[0], strides[0], steps[0]),
    ]
    extents = [row[0] for row in rows]
    if tile is None:
        spans: tuple[int, ...] = tuple(extents)
    else:
        spans = (*spread_over(tile[1], extents[: rank + 1]), *spread_over(tile[0], extents[rank + 1 :]))
    modes = tuple(
        Mode(n, distance(n, s * bits), distance(n, d * bits), t) for (n, s, d), t in zip(rows, spans, strict=True)
    )
    if (reach := sum((mode.extent - 1) * mode.source for mode in modes)) > MAX_SPAN_BITS:
        raise InvalidInput(f"windows of {operator} span {reach} bits; give images and padding of at most 2^61")
    return modes


def _padded(operator: Pad) -> tuple[int, list[Padded]]:
    source, bits = operator.source, operator.source.dtype.bits
    axes = zip(*map(plain, (operator.target.shape, source.strides, operator.target.strides)), strict=True)
    held = zip(axes, operator.padding, plain(source.shape), strict=True)
    rows = [(n, s, t, before, count) for (n, s, t), (before, _), count in held]
    word, modes = padded_modes(rows, bits, zero=operator.pattern == 0)
    return word, sorted(modes, key=lambda padded_: _fastest_first(padded_.mode))


def margins_of(operator: Operator, access: Access) -> tuple[Margin, ...] | None:
    """Return for each mode of an access which words the source of a padding has; none for other operators.

    None if the access lost the modes of the padding.
    """
    if not isinstance(operator, Pad):
        return ()
    word, modes = _padded(operator)
    if (word, [mode[:3] for mode in modes]) != (access.word, [mode[:3] for mode in access.modes]):
        return None
    return tuple(mode.margin for mode in modes)


def access_of(operator: Operator, tile: tuple[int, ...] | None = None) -> Access:
    """Return the operator as an access; `tile` for each axis of the source, whole axes when left out.

    The tile of `Im2col` are pixels and columns. Its source strides count from the corner of the padded images, and
    those of `Pad` from the corner of the padding; the modes of that are merged where they may be.

    Raises:
        InvalidInput: an extent is symbolic, or a tensor or tile takes more than 2^61 bits.
    """
    source, target = operator.source, operator.target
    for end in (source, target):
        if end.span_bits > MAX_SPAN_BITS:
            raise InvalidInput(f"tensor {end} spans {end.span_bits} bits; give one of at most 2^61")
    if isinstance(operator, Im2col):
        modes = list(window_modes(operator, tile))
        size = math.prod(mode.tile for mode in modes) * source.dtype.bits
        if size > MAX_SPAN_BITS:
            raise InvalidInput(f"tile has {size} bits; give one of at most 2^61")
        return Access(source.dtype.bits, tuple(sorted(modes, key=_fastest_first)))
    if isinstance(operator, Pad):
        word, padded_ = _padded(operator)
        if (reach := sum((mode.extent - 1) * mode.source for mode in padded_)) > MAX_SPAN_BITS:
            raise InvalidInput(f"{operator} spans {reach} bits of its source; give a padding of at most 2^61")
        return Access(word, tuple(mode.mode for mode in padded_))
    if isinstance(operator, Transpose):
        back = [operator.order.index(axis) for axis in range(source.rank)]
        target = target.transposed(back)
    bits = source.dtype.bits
    spans = source.shape if tile is None else tile
    for what, extents in (("tensor", source.shape), ("tile", spans)):
        if (size := math.prod(plain(extents)) * bits) > MAX_SPAN_BITS:
            raise InvalidInput(f"{what} has {size} bits; give one of at most 2^61")
    modes = [
        Mode(n, distance(n, s * bits), distance(n, d * bits), t)
        for n, s, d, t in zip(*map(plain, (source.shape, source.strides, target.strides, spans)), strict=True)
    ] or [Mode(1, bits, bits, 1)]  # a scalar is one element of one mode
    return Access(bits, tuple(sorted(modes, key=_fastest_first)))


def _fastest_first(mode: Mode) -> tuple[bool, int, int]:
    return mode.source == 0, mode.source, mode.target


def distance(extent: int, stride: int) -> int:
    """Return a mode's stride in bits. A unit mode's may be anything, so that one too large for the e-graph is none."""
    return stride if extent > 1 or stride <= MAX_SPAN_BITS else 0
