"""CuTe's layouts: a shape and a stride of the same nesting, which map coordinates to offsets.

The reference is CuTe C++ 4.2 (`cute/layout.hpp`, `cute/stride.hpp`) with every integer static. The operations are in
`legalsat.layout.algebra` and `legalsat.layout.tiling`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from legalsat.checks import INT64_MAX, integer
from legalsat.errors import InvalidInput
from legalsat.layout import int_tuple
from legalsat.layout.int_tuple import (
    Basis,
    IntTuple,
    StrideTuple,
    as_shape,
    as_stride,
    as_tuple,
    compact_strides,
    congruent,
    extents,
    leaves,
    product,
    show,
)
from legalsat.printable import shown

MOST_OFFSETS = 2**27
Offsets: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True, init=False)
class Layout:
    """A function from coordinates to offsets, such as `Layout("((8,16),64):((64,512),1)")`.

    Called on a flat index, on a coordinate nested as the shape is, or on anything in between, it returns the offset:
    an integer stands for a whole mode and is taken apart colexicographically (leftmost fastest). As in CuTe, nothing
    stops at the end: an index past the size goes on along the last mode, and a negative one mirrors a positive one
    where there is one mode, its quotients and remainders being rounded towards zero where there are more.

    Attributes:
        shape: extents, each at least 1 (CuTe's empty modes have no use in a plan and are refused).
        stride: offsets per step, congruent to the shape. Zero repeats, negative steps back. `Basis` leaves make a
            layout of coordinates, which serves as right operand of `composition` and is not callable.

    Raises:
        InvalidInput: no integers, extents below 1, different nesting, or a size or offset beyond 2^63 - 1.
    """

    shape: IntTuple
    stride: StrideTuple

    def __init__(self, shape: Any, stride: Any = None) -> None:
        """Make a layout.

        Args:
            shape: an extent, nested tuples of extents, or the text of a whole layout, "shape:stride" or "shape".
            stride: congruent to the shape; when left out, column-major and compact (CuTe's default).
        """
        if isinstance(shape, str):
            shape, stride = _split(shape, stride)
        elif isinstance(stride, str):
            raise InvalidInput(f"stride is {shown(stride)}; give integers, or one text as in Layout('(4,8):(8,1)')")
        checked = as_shape(shape)
        if product(checked) > INT64_MAX:
            raise InvalidInput(
                f"shape {show(checked)} has {shown(product(checked))} elements; give at most {INT64_MAX}"
            )
        strides = compact_strides(checked) if stride is None else as_stride(stride)
        if not congruent(checked, strides):
            raise InvalidInput(f"stride {show(strides)} is not nested like shape {show(checked)}; give one per extent")
        object.__setattr__(self, "shape", checked)
        object.__setattr__(self, "stride", strides)
        if self.cosize > INT64_MAX:
            raise InvalidInput(f"layout {self} spans {shown(self.cosize)} offsets; give at most {INT64_MAX}")

    @classmethod
    def from_json(cls, fields: Any) -> Layout:
        """Return the layout of `{"shape": ..., "stride": ...}`, where lists stand for tuples.

        A `Basis` is written `{"basis": [1, 0], "scale": 2}`.
        """
        if not isinstance(fields, Mapping) or not {"shape", "stride"} <= fields.keys():
            raise InvalidInput(f"layout is {shown(fields)}; give an object with shape and stride")
        return cls(fields["shape"], _stride_from_json(fields["stride"]))

    def to_json(self) -> dict[str, Any]:
        """Return the layout as plain values, which `from_json` reads."""
        return {"shape": _to_json(self.shape), "stride": _to_json(self.stride)}

    @property
    def rank(self) -> int:
        """Number of modes at the top; 1 for an integral shape."""
        return len(as_tuple(self.shape))

    @property
    def depth(self) -> int:
        """How deep the shape is nested; 0 for an integral shape."""
        return int_tuple.depth(self.shape)

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return product(self.shape)

    @property
    def cosize(self) -> int:
        """One more than the sum of (extent - 1) * |stride|: the offsets spanned, as in CuTe 4.

        Where all strides have one sign this is one more than the largest distance from offset 0.
        """
        return 1 + sum(
            (n - 1) * abs(d.scale if isinstance(d, Basis) else d)
            for n, d in zip(extents(self.shape), leaves(self.stride), strict=True)
        )

    def __len__(self) -> int:
        return self.rank

    def __iter__(self) -> Iterator[Layout]:
        for n, d in zip(as_tuple(self.shape), as_tuple(self.stride), strict=True):
            yield Layout(n, d)

    def __getitem__(self, index: int | tuple[int, ...]) -> Layout:
        """Return mode `index`; a tuple goes down: `layout[0, 1]` is mode 1 of mode 0."""
        found = self
        for step in index if isinstance(index, tuple) else (index,):
            modes = tuple(found)
            found = modes[integer(step, f"mode of {found}", low=-len(modes), high=len(modes) - 1)]
        return found

    @overload
    def __call__(self, index: Offsets, /) -> Offsets: ...
    @overload
    def __call__(self, *coordinate: IntTuple) -> int: ...
    def __call__(self, *coordinate: Any) -> int | Offsets:
        """Return the offset of a flat index, of a coordinate, or of every flat index in a numpy array.

        Args:
            coordinate: an index, the modes' coordinates as separate arguments, or one nested tuple.

        Raises:
            InvalidInput: no integers, or a coordinate that is nested deeper than the shape or of another rank.
        """
        if any(isinstance(d, Basis) for d in leaves(self.stride)):
            raise InvalidInput(f"layout {self} yields coordinates, not offsets; compose a strided layout with it")
        if not coordinate:
            raise InvalidInput(f"layout {self} was called on nothing; give an index or a coordinate")
        at = coordinate[0] if len(coordinate) == 1 else coordinate
        if isinstance(at, np.ndarray) and at.ndim:
            if at.dtype.kind not in "iu":
                raise InvalidInput(f"indices are of type {at.dtype}; give integers")
            return _array_offsets(at.astype(np.int64), self)
        return _offset(at, self.shape, self.stride, "coordinate")

    def offsets(self) -> Offsets:
        """Return the offset of every flat index in order, shape (size,).

        Raises:
            InvalidInput: there are more than 2^27, which take a gigabyte.
        """
        return self(flat_indices(self.size))

    def coordinate(self, index: int) -> IntTuple:
        """Return the natural coordinate of a flat index within the size."""
        return _coordinate(integer(index, "index", low=0, high=self.size - 1), self.shape)

    def __str__(self) -> str:
        return f"{show(self.shape)}:{show(self.stride)}"

    def __repr__(self) -> str:
        return f"Layout('{self}')"

    def _repr_html_(self) -> str | None:
        """Return the layout as a grid of offsets, coloured by bank, for a notebook; None where it cannot be drawn."""
        from legalsat.view.show_html import pictures_html  # noqa: PLC0415 - showing needs layouts and maps

        return pictures_html(self)


def make_layout(*modes: Layout) -> Layout:
    """Return the layout whose modes are `modes`; of one layout, the rank-1 tuple around it, as in CuTe.

    Args:
        *modes: layouts.

    Raises:
        InvalidInput: a mode is no layout.
    """
    for mode in modes:
        if not isinstance(mode, Layout):
            raise InvalidInput(f"mode is {shown(mode)}; give layouts")
    return Layout(tuple(m.shape for m in modes), tuple(m.stride for m in modes))


def flat_modes(layout: Layout) -> list[tuple[int, Any]]:
    """Return (extent, stride) of every leaf from left to right."""
    return list(zip(extents(layout.shape), leaves(layout.stride), strict=True))


def from_modes(modes: list[tuple[int, Any]]) -> Layout:
    """Return the flat layout of (extent, stride) pairs: integral for one pair, 1:0 for none."""
    if not modes:
        return Layout(1, 0)
    shape, stride = zip(*modes, strict=True)
    return Layout(int_tuple.unwrapped(shape), int_tuple.unwrapped(stride))


def flat_indices(count: int) -> Offsets:
    """Return the indices below `count`; raise `InvalidInput` beyond 2^27."""
    if count > MOST_OFFSETS:
        raise InvalidInput(f"layout has {count} offsets; list at most {MOST_OFFSETS}, or call it on some indices")
    return np.arange(count, dtype=np.int64)


def _split(text: str, stride: Any) -> tuple[StrideTuple, StrideTuple | None]:
    if stride is not None:
        raise InvalidInput(
            f"shape is the text {shown(text)} and a stride is given too; write both in the text or neither"
        )
    shape, colon, rest = text.partition(":")
    return int_tuple.parse(shape, "shape"), int_tuple.parse(rest, "stride") if colon else None


def _stride_from_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        if value.keys() != {"basis", "scale"}:
            raise InvalidInput(f"stride is {shown(value)}; give an integer, a list or an object with basis and scale")
        return Basis(value["scale"], value["basis"])
    try:
        return [_stride_from_json(v) for v in value] if isinstance(value, list | tuple) else value
    except RecursionError:
        raise InvalidInput("stride is nested too deep, or holds itself; nest it as the shape") from None


def _to_json(value: StrideTuple) -> Any:
    if isinstance(value, Basis):
        return {"basis": list(value.path), "scale": value.scale}
    return [_to_json(v) for v in value] if isinstance(value, tuple) else value


def _offset(at: Any, shape: IntTuple, stride: StrideTuple, what: str) -> int:
    if isinstance(at, tuple | list):
        if not isinstance(shape, tuple) or not isinstance(stride, tuple) or len(at) != len(shape):
            raise InvalidInput(
                f"{what} {shown(tuple(at))} does not fit shape {show(shape)}; give an index or one per mode"
            )
        return sum(_offset(c, n, d, f"{what}[{i}]") for i, (c, n, d) in enumerate(zip(at, shape, stride, strict=True)))
    index = integer(at, what, low=-INT64_MAX)
    sign, rest = (-1, -index) if index < 0 else (1, index)
    modes = list(zip(extents(shape), leaves(stride), strict=True))
    total = 0
    for n, d in modes[:-1]:
        rest, digit = divmod(rest, n)
        total += digit * _plain(d)
    return sign * (total + rest * _plain(modes[-1][1]))


def _plain(stride: int | Basis) -> int:
    assert isinstance(stride, int)
    return stride


def _array_offsets(index: Offsets, layout: Layout) -> Offsets:
    sign, rest = np.sign(index), np.abs(index)
    total = np.zeros_like(rest)
    modes = flat_modes(layout)
    for n, d in modes[:-1]:
        rest, digit = np.divmod(rest, n)
        total += digit * d
    return np.asarray(sign * (total + rest * modes[-1][1]), dtype=np.int64)


def _coordinate(index: int, shape: IntTuple) -> IntTuple:
    if not isinstance(shape, tuple):
        return index
    parts = []
    for item in shape:
        index, part = divmod(index, product(item))
        parts.append(_coordinate(part, item))
    return tuple(parts)
