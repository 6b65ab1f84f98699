"""Swizzles, which XOR some bits of an offset into others, and layouts with a function on top of them.

The reference is CuTe C++ 4.2 (`cute/swizzle.hpp`, `cute/layout_composed.hpp`); facts CV-01, CV-02, SW-01 to SW-10.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, overload

import numpy as np

from legalsat.checks import INT64_MAX, integer, integers, one_of
from legalsat.errors import InvalidInput, NoSuchLayout
from legalsat.layout import Layout, Offsets, flat_indices
from legalsat.layout.int_tuple import IntTuple, as_tuple
from legalsat.printable import shown

MAX_BIT = 62

# Byte-address swizzles of the copy engine: SW-01 to SW-05, SW-07.
_TMA = {
    "none": (0, 4, 3),
    "32B": (1, 4, 3),
    "64B": (2, 4, 3),
    "128B": (3, 4, 3),
    "128B_atom_32B": (2, 5, 2),
    "128B_atom_64B": (1, 6, 1),
}


@dataclass(frozen=True, slots=True, init=False)
class Swizzle:
    """CuTe's Swizzle<B, M, S>: `x ^ ((x >> S) & mask)` on bits [M, M+B), its own inverse.

    A negative shift takes the low bits into the high ones: bits [M+|S|, M+|S|+B) ^= bits [M, M+B).

    Attributes:
        bits: B, how many bits change.
        base: M, how many low bits stay out of it.
        shift: S, the distance between the two bit fields, |S| >= B so that they do not overlap.

    Raises:
        InvalidInput: no integers, a field below bit 0 or above bit 62, or fields that overlap.
    """

    bits: int
    base: int
    shift: int

    def __init__(self, bits: int, base: int, shift: int | None = None) -> None:
        """Make a swizzle; `shift` is `bits` when left out, as in CuTe."""
        bits = integer(bits, "swizzle bits", low=0, high=MAX_BIT)
        base = integer(base, "swizzle base", low=0, high=MAX_BIT)
        shift = bits if shift is None else integer(shift, "swizzle shift", low=-MAX_BIT, high=MAX_BIT)
        if abs(shift) < bits:
            raise InvalidInput(
                f"swizzle shift is {shift} over {bits} bits, so its fields overlap; give at least {bits}"
            )
        if bits + base + abs(shift) > MAX_BIT + 1:
            raise InvalidInput(f"swizzle reaches bit {bits + base + abs(shift) - 1}; stay at or below bit {MAX_BIT}")
        object.__setattr__(self, "bits", bits)
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "shift", shift)

    @classmethod
    def tma(cls, span: str) -> Swizzle:
        """Return the swizzle of shared-memory byte addresses that a `TensorMap` swizzle mode applies.

        Args:
            span: "none", "32B", "64B", "128B", "128B_atom_32B" or "128B_atom_64B". The 8-byte flip of
                "128B_atom_32B_flip_8B" XORs at two distances (SW-06), which no single swizzle does.
        """
        return cls(*_TMA[one_of(span, "swizzle span", _TMA)])

    @classmethod
    def from_masks(cls, source: int, target: int) -> Swizzle:
        """Return the swizzle that XORs the bits of mask `source` into those of mask `target`; CuTe's make_swizzle.

        Raises:
            NoSuchLayout: the masks are no runs of bits of one length, or they overlap.
        """
        source = integer(source, "source mask", low=0)
        target = integer(target, "target mask", low=0)
        if not source and not target:
            return cls(0, 0, 0)
        bits = source.bit_count()
        low_source, low_target = (m & -m for m in (source, target))
        runs = all(m and m == low * ((1 << bits) - 1) for m, low in ((source, low_source), (target, low_target)))
        if not runs or bits != target.bit_count() or source & target:
            raise NoSuchLayout(
                f"no swizzle XORs bits {source:#b} into bits {target:#b}; "
                "give two runs of bits that are of one length and apart"
            )
        shift = low_source.bit_length() - low_target.bit_length()
        return cls(bits, min(low_source, low_target).bit_length() - 1, shift)

    @property
    def source_mask(self) -> int:
        """The bits that are read."""
        return (1 << self.bits) - 1 << self.base + max(0, self.shift)

    @property
    def target_mask(self) -> int:
        """The bits that change."""
        return (1 << self.bits) - 1 << self.base - min(0, self.shift)

    @property
    def period(self) -> int:
        """Offsets after which the pattern repeats: `self(x + period) == self(x) + period`."""
        return 1 << self.base + self.bits + abs(self.shift) if self.bits else 1

    def recast(self, old_bits: int, new_bits: int) -> Swizzle:
        """Return the swizzle on offsets counted in elements of `new_bits` bits instead of `old_bits`.

        `Swizzle.tma("128B").recast(8, 16)` swizzles offsets of bf16 elements.

        Raises:
            InvalidInput: widths that are no powers of two.
            NoSuchLayout: the swizzle moves parts of a new element.
        """
        old_bits, new_bits = (
            integer(width, what, low=1, high=1 << 20)
            for what, width in (("old_bits", old_bits), ("new_bits", new_bits))
        )
        for what, width in (("old_bits", old_bits), ("new_bits", new_bits)):
            if width.bit_count() != 1:
                raise InvalidInput(f"{what} is {width}; give a power of two")
        base = self.base + old_bits.bit_length() - new_bits.bit_length()
        if base < 0 and self.bits:
            raise NoSuchLayout(
                f"swizzle {self} keeps {old_bits << self.base} bits together and would tear elements "
                f"of {new_bits} bits; use elements of at most {old_bits << self.base} bits"
            )
        return Swizzle(self.bits, max(base, 0), self.shift)

    @overload
    def __call__(self, offset: int, /) -> int: ...
    @overload
    def __call__(self, offset: Offsets, /) -> Offsets: ...
    def __call__(self, offset: Any, /) -> Any:
        """Return where `offset` lands; numpy arrays of integers go elementwise."""
        if not isinstance(offset, np.ndarray) or not offset.ndim:
            offset = integer(offset, "offset", low=-INT64_MAX)
        elif offset.dtype.kind not in "iu":
            raise InvalidInput(f"offsets are of type {offset.dtype}; give integers")
        else:
            offset = offset.astype(np.int64)
        read = offset & self.source_mask
        return offset ^ (read >> self.shift if self.shift >= 0 else read << -self.shift)

    def __str__(self) -> str:
        return f"Sw<{self.bits},{self.base},{self.shift}>"


@dataclass(frozen=True, slots=True)
class ComposedLayout:
    """A function over a layout: coordinate c goes to `outer(offset + inner(c))`; CuTe's ComposedLayout.

    Shape, size and modes are those of `inner`. There are no strides.

    Attributes:
        outer: a swizzle, a layout, or again a composed layout.
        offset: added in between, in the units of `inner`.
        inner: a layout or a composed layout; a bare swizzle makes a plain function of an index, without a shape.
    """

    outer: Swizzle | Layout | ComposedLayout
    offset: int
    inner: Layout | ComposedLayout | Swizzle

    def __post_init__(self) -> None:
        object.__setattr__(self, "offset", integer(self.offset, "offset", low=-INT64_MAX))
        for what, value in (("outer", self.outer), ("inner", self.inner)):
            if not isinstance(value, Swizzle | Layout | ComposedLayout):
                raise InvalidInput(f"{what} is {shown(value)}; give a layout or a swizzle")

    @classmethod
    def from_json(cls, fields: Any) -> AnyLayout:
        """Return the layout of `{"outer": ..., "offset": ..., "inner": ...}`, or a plain `Layout` of its fields.

        A swizzle is written `{"swizzle": [bits, base, shift]}`.
        """
        if isinstance(fields, Mapping) and {"outer", "offset", "inner"} <= fields.keys():
            return cls(_part(fields["outer"]), fields["offset"], _part(fields["inner"]))
        return Layout.from_json(fields)

    def to_json(self) -> dict[str, Any]:
        """Return the layout as plain values, which `from_json` reads."""
        parts = {"outer": self.outer, "inner": self.inner}
        written = {
            name: {"swizzle": [part.bits, part.base, part.shift]} if isinstance(part, Swizzle) else part.to_json()
            for name, part in parts.items()
        }
        return {"outer": written["outer"], "offset": self.offset, "inner": written["inner"]}

    @property
    def domain(self) -> AnyLayout:
        """The inner layout; raises `InvalidInput` where it is a bare swizzle, which has no shape."""
        if isinstance(self.inner, Swizzle):
            raise InvalidInput(f"{self} has no shape, because {self.inner} has none; compose it with a layout")
        return self.inner

    @property
    def shape(self) -> IntTuple:
        """Shape of the inner layout."""
        return self.domain.shape

    @property
    def rank(self) -> int:
        """Number of modes at the top."""
        return len(as_tuple(self.shape))

    @property
    def depth(self) -> int:
        """How deep the shape is nested."""
        return self.domain.depth

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return self.domain.size

    @property
    def cosize(self) -> int:
        """Offsets that the inner layout spans, as in CuTe."""
        return self.domain.cosize

    def __len__(self) -> int:
        return self.rank

    def __iter__(self) -> Iterator[ComposedLayout]:
        for mode in self.domain:
            yield ComposedLayout(self.outer, self.offset, mode)

    def __getitem__(self, index: int | tuple[int, ...]) -> ComposedLayout:
        return ComposedLayout(self.outer, self.offset, self.domain[index])

    @overload
    def __call__(self, index: Offsets, /) -> Offsets: ...
    @overload
    def __call__(self, *coordinate: IntTuple) -> int: ...
    def __call__(self, *coordinate: Any) -> int | Offsets:
        """Return the offset of an index, a coordinate or an array of indices; see `Layout`."""
        found: int | Offsets = self.outer(self.offset + self.inner(*coordinate))
        return found

    def offsets(self) -> Offsets:
        """Return the offset of every flat index in order, shape (size,)."""
        return self(flat_indices(self.size))

    def coordinate(self, index: int) -> IntTuple:
        """Return the natural coordinate of a flat index within the size."""
        return self.domain.coordinate(index)

    def __str__(self) -> str:
        return f"{self.outer} o {self.offset} o {self.inner}"

    def _repr_html_(self) -> str | None:
        """Return the layout as a grid of offsets, coloured by bank, for a notebook; None where it cannot be drawn."""
        from legalsat.view.show_html import pictures_html  # noqa: PLC0415 - showing needs layouts and maps

        return pictures_html(self)


AnyLayout: TypeAlias = Layout | ComposedLayout


def _part(fields: Any) -> Any:
    if isinstance(fields, Mapping) and "swizzle" in fields:
        return Swizzle(*integers(fields["swizzle"], "swizzle", low=-MAX_BIT, length=3))
    return ComposedLayout.from_json(fields)
