"""The tensor map: the arguments of cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col as a value.

Any arguments that the driver's C types can hold make a `TensorMap`, legal or not, because judging them is the
rules' work (`legalsat.violations`). Names are ours, their order is the driver's enum. Source: FACTS VER-07.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, get_args

import numpy as np

from legalsat.checks import integer, integers, one_of
from legalsat.dims import Dim, Open, bind, dims_of
from legalsat.dtypes import dtype as element_type
from legalsat.errors import InvalidInput
from legalsat.options import Interleave, L2Promotion, Mode, OobFill, SwizzleName

UINT32_MAX = 2**32 - 1
UINT64_MAX = 2**64 - 1
INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1


class MapType(NamedTuple):
    """One CUtensorMapDataType; its place in `MAP_TYPES` is the driver's enum value."""

    name: str
    bits: int
    is_float: bool = False
    is_packed: bool = False


MAP_TYPES = (
    MapType("u8", 8),
    MapType("u16", 16),
    MapType("u32", 32),
    MapType("s32", 32),
    MapType("u64", 64),
    MapType("s64", 64),
    MapType("f16", 16, is_float=True),
    MapType("f32", 32, is_float=True),
    MapType("f64", 64, is_float=True),
    MapType("bf16", 16, is_float=True),
    MapType("f32_ftz", 32, is_float=True),
    MapType("tf32", 32, is_float=True),
    MapType("tf32_ftz", 32, is_float=True),
    MapType("16u4_align8b", 4, is_packed=True),
    MapType("16u4_align16b", 4, is_packed=True),
    MapType("16u6_align16b", 6, is_packed=True),
)
MODES: tuple[Mode, ...] = get_args(Mode)
INTERLEAVES: tuple[Interleave, ...] = get_args(Interleave)
SWIZZLES: tuple[SwizzleName, ...] = get_args(SwizzleName)
L2_PROMOTIONS: tuple[L2Promotion, ...] = get_args(L2Promotion)
OOB_FILLS: tuple[OobFill, ...] = get_args(OobFill)


_NAMES: dict[str, tuple[str, ...]] = {
    "dtype": tuple(t.name for t in MAP_TYPES),
    "mode": MODES,
    "interleave": INTERLEAVES,
    "swizzle": SWIZZLES,
    "l2_promotion": L2_PROMOTIONS,
    "oob_fill": OOB_FILLS,
}


def driver_value(field: str, value: str | int) -> int:
    """Return the driver's enum value for the `TensorMap` field `field`, such as 3 for ("swizzle", "128B")."""
    return value if isinstance(value, int) else _NAMES[field].index(value)


def enum_name(field: str, value: Any) -> str | int:
    """Return the name of `value` in the enum of `field`; an int that the enum lacks stays an int, for the rules.

    Raises:
        InvalidInput: a name that the enum lacks, or no name and no 32-bit unsigned int.
    """
    names = _NAMES[field]
    if isinstance(value, str):
        return one_of(value, field, names)
    number = integer(value, field, low=0, high=UINT32_MAX)
    return names[number] if number < len(names) else number


def _map_type(value: Any) -> str | int:
    """Return the map type's name for a driver enum value, a map type's name or an element type."""
    if isinstance(value, int | np.integer) or (isinstance(value, str) and value in _NAMES["dtype"]):
        return enum_name("dtype", value)
    return element_type(value).map_type


def _extents(values: Any, name: str, length: int | None = None) -> tuple[Any, ...]:
    """Return extents, of which some may be open."""
    if isinstance(values, tuple | list) and any(isinstance(one, Open) for one in values):
        known = integers([0 if isinstance(one, Open) else one for one in values], name, high=UINT64_MAX, length=length)
        return tuple(given if isinstance(given, Open) else one for given, one in zip(values, known, strict=True))
    return integers(values, name, low=0, high=UINT64_MAX, length=length)


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A tensor map as the driver is asked for it.

    Extents and coordinates run fastest dimension first, as in the driver call (row-major shapes read backwards).

    Attributes:
        dtype: map type by name ("bf16", "u8"), element type or driver enum value.
        global_dim: elements per dimension, rank entries; extents of open dims in a map of an open plan.
        global_stride: bytes between neighbours in dimensions 1 to rank-1, so rank-1 entries.
        box: tiled only: elements per dimension that one copy spans, rank entries.
        element_stride: step in elements per dimension, rank entries; all 1 when left out.
        address: global address in bytes.
        interleave, swizzle, l2_promotion, oob_fill, mode: names or driver enum values.
        lower_corner, upper_corner: im2col only: pixel box corners, rank-2 entries, fastest spatial dimension first.
        channels, pixels: im2col only: channels per pixel and pixels per column.
        map_offset: bytes by which the 128-byte CUtensorMap object itself misses 128-byte alignment.

    Raises:
        InvalidInput: a name is unknown, a number does not fit the driver's C type, or lengths do not match.
    """

    dtype: str | int
    global_dim: tuple[Any, ...]
    global_stride: tuple[Any, ...] = ()
    box: tuple[int, ...] = ()
    element_stride: tuple[int, ...] = ()
    address: Any = 0
    interleave: Interleave | int = "none"
    swizzle: SwizzleName | int = "none"
    l2_promotion: L2Promotion | int = "none"
    oob_fill: OobFill | int = "zero"
    mode: Mode = "tiled"
    lower_corner: tuple[int, ...] = ()
    upper_corner: tuple[int, ...] = ()
    channels: int = 0
    pixels: int = 0
    map_offset: int = 0

    def __post_init__(self) -> None:
        """Canonicalise names and check that every number fits its C type."""
        rank = len(_extents(self.global_dim, "global_dim"))
        tiled = enum_name("mode", self.mode) == "tiled"
        corners = 0 if tiled else max(rank - 2, 0)
        canonical: dict[str, Any] = {
            "dtype": _map_type(self.dtype),
            "mode": one_of(enum_name("mode", self.mode), "mode", MODES),
            **{f: enum_name(f, getattr(self, f)) for f in ("interleave", "swizzle", "l2_promotion", "oob_fill")},
        }
        for name, length, low, high in (
            ("box", rank if tiled else 0, 0, UINT32_MAX),
            ("element_stride", rank, 0, UINT32_MAX),
            ("lower_corner", corners, INT32_MIN, INT32_MAX),
            ("upper_corner", corners, INT32_MIN, INT32_MAX),
        ):
            value = getattr(self, name)
            if name == "element_stride" and isinstance(value, list | tuple) and not value:
                value = (1,) * rank
            canonical[name] = integers(value, name, low=low, high=high, length=length)
        for name, length in (("global_dim", rank), ("global_stride", max(rank - 1, 0))):
            canonical[name] = _extents(getattr(self, name), name, length)
        for name, high in (
            ("map_offset", 127),
            ("channels", UINT32_MAX),
            ("pixels", UINT32_MAX),
        ):
            canonical[name] = integer(getattr(self, name), name, low=0, high=high)
        if not isinstance(self.address, Open):
            canonical["address"] = integer(self.address, "address", low=0, high=UINT64_MAX)
        if tiled and (canonical["channels"] or canonical["pixels"]):
            raise InvalidInput('channels and pixels belong to im2col; pass mode="im2col" or leave them out')
        for name, value in canonical.items():
            object.__setattr__(self, name, value)

    @property
    def dims(self) -> tuple[Dim, ...]:
        """The dims that are open in it, by name; none in a map that the driver can be asked for."""
        return dims_of(*(one for one in (*self.global_dim, *self.global_stride, self.address) if isinstance(one, Open)))

    def bind(self, values: Mapping[str, int]) -> TensorMap:
        """Return the map with every dim replaced by its value."""
        return replace(
            self,
            global_dim=tuple(bind(one, values) for one in self.global_dim),
            global_stride=tuple(bind(one, values) for one in self.global_stride),
            address=bind(self.address, values),
        )

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.global_dim)

    @property
    def map_type(self) -> MapType:
        """The data type's size and kind; raises `InvalidInput` where the driver knows no such type."""
        code = driver_value("dtype", self.dtype)
        if code >= len(MAP_TYPES):
            raise InvalidInput(f"data type {code} is unknown to the driver; give 0 to {len(MAP_TYPES) - 1}")
        return MAP_TYPES[code]

    def __str__(self) -> str:
        def by(numbers: tuple[int, ...]) -> str:
            return " x ".join(map(str, numbers))

        shape = f"box {by(self.box)}" if self.mode == "tiled" else f"{self.pixels} pixels of {self.channels} channels"
        return f"{self.mode} {self.dtype} map of {by(self.global_dim)}, {shape}, swizzle {self.swizzle}"

    def _repr_html_(self) -> str | None:
        """Return pictures of the map's box for a notebook; None where it cannot be drawn."""
        from legalsat.view.show_html import pictures_html  # noqa: PLC0415 - showing needs layouts and maps

        return pictures_html(self)
