"""Arrays that code makes, and the views of them: shape, strides and offset as far as they are known.

An extent or a stride that is not known is None and stays so; what follows from it is None too. Views are those of
torch and numpy: transpositions, slices, reshapings. An array whose views are copies, as jax has them, is dense always.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

from legalsat.dtypes import DTYPES

Extent = int | None
MOST_AXES, MOST_PARTS = 12, 16
LARGEST = 1 << 48


@dataclass(frozen=True, slots=True)
class Array:
    """An array: extents and strides in elements, slowest axis first, its type, and where it begins, in elements.

    Attributes:
        shape, strides: of each axis; None where they are not known.
        dtype: name of the element type; None if it is not known.
        offset: elements from the start of an allocation; None if it is not known.
        library: whose it is, "torch", "numpy" or "jax", which name some views differently.
    """

    shape: tuple[Extent, ...]
    strides: tuple[Extent, ...]
    dtype: str | None = None
    offset: Extent = 0
    library: str = "torch"

    @property
    def copies(self) -> bool:
        """Whether its views are copies, as those of jax are."""
        return self.library == "jax"

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def contiguous(self) -> bool:
        """Whether it is known to lie in rows one after the other; strides of axes of one element do not matter."""
        known = dense_strides(self.shape)
        return all(
            extent == 1 or (stride is not None and stride == wanted)
            for extent, stride, wanted in zip(self.shape, self.strides, known, strict=True)
        )


class Slice(NamedTuple):
    """A slice of an axis; None is the default, and a step is positive."""

    begin: int | None
    end: int | None
    step: int
    known: bool = True


class NewAxis:
    """None or newaxis in an index."""


class Rest:
    """The ellipsis in an index."""


Index = int | Slice | NewAxis | Rest | None  # None is an integer that is not known


def dense_strides(shape: Sequence[Extent]) -> tuple[Extent, ...]:
    """Return the strides of rows one after the other."""
    strides: list[Extent] = []
    step: Extent = 1
    for extent in reversed(shape):
        strides.append(step)
        step = None if step is None or extent is None else step * max(extent, 1)
    return tuple(reversed(strides))


def dense(shape: Sequence[Extent], dtype: str | None, library: str = "torch") -> Array | None:
    """Return a fresh array of rows one after the other; None if it has too many axes or is too large."""
    known = [extent for extent in shape if extent is not None]
    if len(shape) > MOST_AXES or any(extent < 0 for extent in known) or prod(known) >= LARGEST:
        return None
    return Array(tuple(shape), dense_strides(shape), dtype, 0, library)


def fresh(array: Array) -> Array:
    """Return a copy that keeps the order of a dense array's axes, as elementwise operations and casts give."""
    if array.copies or None in array.shape or None in array.strides:
        known = array.contiguous or array.copies
        strides = dense_strides(array.shape) if known else (None,) * array.rank
        return replace(array, strides=strides, offset=0)
    packed = _packed(array)
    return replace(array, strides=packed if packed is not None else dense_strides(array.shape), offset=0)


def _packed(array: Array) -> tuple[int, ...] | None:
    """Return the strides if the array fills its span without gaps or overlaps; None if it does not."""
    step = 1
    for extent, stride in sorted(_known(array), key=lambda axis: axis[1]):
        if extent != 1 and stride != step:
            return None
        step *= extent if extent != 1 else 1
    return tuple(stride for _, stride in _known(array))


def _known(array: Array) -> list[tuple[int, int]]:
    return [(n or 0, s or 0) for n, s in zip(array.shape, array.strides, strict=True)]


def _settle(array: Array) -> Array:
    return replace(array, strides=dense_strides(array.shape), offset=0) if array.copies else array


def permuted(array: Array, order: Sequence[int | None]) -> Array | None:
    """Return the view with its axes in another order; negative numbers count from the end."""
    axes = [_axis(array, axis) for axis in order]
    if None in axes or sorted(axis for axis in axes if axis is not None) != list(range(array.rank)):
        return None
    chosen = [axis for axis in axes if axis is not None]
    shape = tuple(array.shape[axis] for axis in chosen)
    return _settle(replace(array, shape=shape, strides=tuple(array.strides[axis] for axis in chosen)))


def exchanged(array: Array, first: int | None, second: int | None) -> Array | None:
    """Return the view with two axes exchanged."""
    one, other = _axis(array, first), _axis(array, second)
    if one is None or other is None:
        return None
    order = list(range(array.rank))
    order[one], order[other] = other, one
    return permuted(array, order)


def _axis(array: Array, axis: int | None, more: int = 0) -> int | None:
    rank = array.rank + more
    return None if axis is None or not -rank <= axis < rank else axis % rank


def indexed(array: Array, index: Sequence[Index]) -> Array | None:
    """Return what an index of integers, slices, new axes and an ellipsis takes of an array."""
    used = sum(not isinstance(one, NewAxis | Rest) for one in index)
    if used > array.rank or sum(isinstance(one, Rest) for one in index) > 1:
        return None
    whole = [Slice(None, None, 1)] * (array.rank - used)
    at = next((place for place, one in enumerate(index) if isinstance(one, Rest)), len(index))
    spread = [*index[:at], *whole, *index[at + 1 :]]
    shape: list[Extent] = []
    strides: list[Extent] = []
    offset, axis = array.offset, 0
    for one in spread:
        if isinstance(one, NewAxis):
            shape.append(1)
            strides.append(0)
            continue
        extent, stride = array.shape[axis], array.strides[axis]
        axis += 1
        begin: Extent
        if isinstance(one, Slice):
            begin, length = _taken(one, extent)
            shape.append(length)
            strides.append(None if stride is None else stride * one.step)
        else:
            assert not isinstance(one, Rest), "it was spread"
            begin = one if one is None or one >= 0 else None if extent is None else one + extent
            if begin is not None and extent is not None and not 0 <= begin < extent:
                return None
        step = 0 if begin == 0 else None if begin is None or stride is None else begin * stride
        offset = None if offset is None or step is None else offset + step
    return _settle(replace(array, shape=tuple(shape), strides=tuple(strides), offset=offset))


def _taken(one: Slice, extent: Extent) -> tuple[Extent, Extent]:
    """Return where a slice begins and how many elements it has."""
    if not one.known:
        return None, None
    begin, end = one.begin or 0, one.end
    if extent is None:
        if begin < 0 or end is None or end < 0:
            return (begin if begin >= 0 else None), None
        return begin, None  # the axis may be shorter than the slice
    begin = min(begin if begin >= 0 else max(begin + extent, 0), extent)
    last = extent if end is None else min(end if end >= 0 else max(end + extent, 0), extent)
    return begin, max(0, -(-(last - begin) // one.step))


def reshaped(array: Array, sizes: Sequence[Extent], *, may_copy: bool) -> Array | None:
    """Return the array with other extents, one of which may be -1; a copy where no view has them, if it may be one."""
    sizes = _filled(array, sizes)
    if len(sizes) > MOST_AXES:
        return None
    if array.contiguous or array.copies:
        return replace(
            array, shape=tuple(sizes), strides=dense_strides(sizes), offset=0 if array.copies else array.offset
        )
    if None in sizes or None in array.shape or None in array.strides:
        return replace(array, shape=tuple(sizes), strides=(None,) * len(sizes), offset=None)
    strides = _viewed(_known(array), [size or 0 for size in sizes])
    if strides is not None:
        return replace(array, shape=tuple(sizes), strides=strides)
    return dense(sizes, array.dtype, array.library) if may_copy else None


def _filled(array: Array, sizes: Sequence[Extent]) -> list[Extent]:
    """Return the extents with the number that -1 stands for, if everything else is known."""
    if -1 not in sizes:
        return list(sizes)
    others = [size for size in sizes if size != -1]
    whole = None if None in others or None in array.shape else prod(size or 0 for size in array.shape)
    rest = prod(size or 1 for size in others)
    return [size if size != -1 else None if whole is None or not rest else whole // rest for size in sizes]


def _viewed(axes: Sequence[tuple[int, int]], sizes: Sequence[int]) -> tuple[int, ...] | None:
    """Return strides of a view of other extents: each must lie in axes that follow one another without gaps."""
    if prod(extent for extent, _ in axes) != prod(sizes) or not prod(sizes):
        return None
    runs: list[list[int]] = []  # extent and innermost stride, innermost run first
    for extent, stride in reversed([axis for axis in axes if axis[0] != 1]):
        if runs and stride == runs[-1][0] * runs[-1][1]:
            runs[-1][0] *= extent
        else:
            runs.append([extent, stride])
    strides: list[int] = []
    left, step = 1, 1
    for size in reversed(sizes):
        if left == 1 and size != 1:
            if not runs:
                return None
            left, step = runs.pop(0)
        strides.append(step)
        if left % size:
            return None
        left, step = left // size, step * size
    return tuple(reversed(strides))


def unsqueezed(array: Array, axis: int | None) -> Array | None:
    """Return the view with a new axis of one element before `axis`."""
    at = _axis(array, axis, more=1)
    if at is None:
        return None
    following = at < array.rank
    step = _product(array.shape[at], array.strides[at]) if following else 1
    shape, strides = list(array.shape), list(array.strides)
    shape.insert(at, 1)
    strides.insert(at, step)
    return _settle(replace(array, shape=tuple(shape), strides=tuple(strides)))


def _product(one: Extent, other: Extent) -> Extent:
    return None if one is None or other is None else one * other


def squeezed(array: Array, axis: int | None, *, every: bool) -> Array | None:
    """Return the view without an axis, or without every axis, of one element; None where extents are not known."""
    if every:
        if None in array.shape:
            return None
        kept = [at for at in range(array.rank) if array.shape[at] != 1]
    else:
        at = _axis(array, axis)
        if at is None or array.shape[at] is None:
            return None
        kept = [other for other in range(array.rank) if other != at or array.shape[at] != 1]
    shape = tuple(array.shape[at] for at in kept)
    return _settle(replace(array, shape=shape, strides=tuple(array.strides[at] for at in kept)))


def expanded(array: Array, sizes: Sequence[Extent]) -> Array | None:
    """Return the view whose axes of one element are repeated, and with new axes in front."""
    more = len(sizes) - array.rank
    if more < 0 or len(sizes) > MOST_AXES:
        return None
    shape: list[Extent] = []
    strides: list[Extent] = []
    for at, size in enumerate(sizes):
        old = array.shape[at - more] if at >= more else 1
        stride: Extent = array.strides[at - more] if at >= more else 0
        shape.append(old if size == -1 else size)
        # Whether an axis of unknown extent is repeated is not known.
        strides.append(0 if old == 1 and size not in (1, -1) else stride if old is not None else None)
    return _settle(replace(array, shape=tuple(shape), strides=tuple(strides)))


def pieces(array: Array, axis: int | None, lengths: Sequence[int]) -> Iterator[Array | None]:
    """Yield parts of given lengths along an axis, one after the other."""
    at, begin = _axis(array, axis), 0
    for length in lengths[:MOST_PARTS]:
        if at is None:
            yield None
        else:
            cut: list[Index] = [Slice(None, None, 1)] * at
            yield indexed(array, [*cut, Slice(begin, begin + length, 1)])
        begin += length


def chunk_lengths(extent: Extent, chunks: int | None) -> list[int]:
    """Return the lengths of the parts that `chunk` makes; none if they are not known."""
    if extent is None or not chunks or chunks < 0 or not extent:
        return []
    length = -(-extent // chunks)
    return split_lengths(extent, length)


def split_lengths(extent: Extent, length: int | None) -> list[int]:
    """Return the lengths of the parts that `split` makes; none if they are not known, or are too many."""
    if extent is None or not length or length < 0 or extent > length * MOST_PARTS:
        return []
    return [min(length, extent - begin) for begin in range(0, extent, length)]


def retyped(array: Array, dtype: str) -> Array | None:
    """Return the same bytes as elements of another type; None if the widths do not divide."""
    if array.dtype is None:
        return None
    old, new = DTYPES[array.dtype].bits, DTYPES[dtype].bits
    if old == new:
        return replace(array, dtype=dtype)
    if not array.rank or array.strides[-1] != 1:
        return None
    wide, narrow = max(old, new), min(old, new)
    if wide % narrow:
        return None
    ratio = wide // narrow

    def scaled(number: Extent) -> Extent:
        if number is None or new < old:
            return None if number is None else number * ratio
        return number // ratio if number % ratio == 0 else None

    *outer, _ = array.strides
    shape = (*array.shape[:-1], scaled(array.shape[-1]))
    return replace(array, shape=shape, strides=(*map(scaled, outer), 1), dtype=dtype, offset=scaled(array.offset))
