"""How a kernel is launched: the words of `recipes.py`, and the bytes that they come to on a GPU."""

from __future__ import annotations

import ctypes
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

MIB = 1 << 20
GUARD = MIB  # bytes before and behind each buffer that nothing may touch
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}  # CUtensorMapSwizzle
DTYPES = {"u8": (0, 1), "f16": (6, 2), "f32": (7, 4), "bf16": (9, 2)}  # CUtensorMapDataType, bytes
L2_256 = 3  # CU_TENSOR_MAP_L2_PROMOTION_L2_256B
_TILE = 3_000_016  # bytes of random data that repeat; no multiple of any tile's


@dataclass(frozen=True, slots=True)
class Pointer:
    """The address of a buffer, `at` bytes on."""

    buffer: str
    at: int = 0


@dataclass(frozen=True, slots=True)
class Number:
    """A number by value: a format of `struct`."""

    value: float
    format: str = "I"


@dataclass(frozen=True, slots=True)
class Map:
    """A tiled tensor map by value, its axes innermost first; `strides` in bytes, without the innermost one's."""

    buffer: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    dtype: str = "bf16"
    swizzle: int = 128


@dataclass(frozen=True, slots=True)
class MapInMemory:
    """The address of a tensor map that lies in global memory."""

    map: Map


@dataclass(frozen=True, slots=True)
class Structure:
    """So many bytes by value, with parts at offsets."""

    size: int
    parts: dict[int, Argument]


Argument: TypeAlias = "Pointer | Number | Map | MapInMemory | Structure"


@dataclass(frozen=True, slots=True)
class Recipe:
    """A launch that a kernel is meant for.

    Attributes:
        source: name of the kernel, see `texts.Source`. arguments: in their order.
        grids: each is run. shared: bytes of dynamic shared memory. block: threads, where the text does not fix them.
        fills: what a buffer holds at first, by its name: "bf16" (of which halves and floats can be made too),
            "e4m3", "zero", or whole numbers of 4 bytes. sizes: MiB of buffers; `most` of others.
        origin: where the parameters are known from.
    """

    source: str
    arguments: tuple[Argument, ...]
    grids: tuple[tuple[int, ...], ...]
    origin: str
    shared: int = 0
    block: int = 0
    fills: dict[str, Any] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    most: int = 16

    @property
    def buffers(self) -> dict[str, int]:
        """Bytes of each buffer by its name."""
        names = dict.fromkeys(name for argument in self.arguments for name in _buffers(argument))
        return {name: self.sizes.get(name, self.most) * MIB for name in names}

    def fill(self, name: str) -> bytes:
        """Return what a buffer holds at first, which repeats."""
        how = self.fills.get(name, "bf16")
        draw = random.Random(f"{self.source} {name}")
        if how == "zero":
            return bytes(4096)
        if isinstance(how, str):
            return _FILLS[how](draw)
        return struct.pack(f"<{len(how)}i", *how)


def two_bytes(draw: random.Random) -> bytes:
    """Return bf16 from -0.5 to 0.5, which as halves are between 1 and 2, and as floats about as large."""
    high = bytes(0x3C + (i % 3) | (0x80 if i & 4 else 0) for i in range(256))
    found = bytearray(_TILE)
    found[0::2] = draw.randbytes(_TILE // 2)
    found[1::2] = draw.randbytes(_TILE // 2).translate(high)
    return bytes(found)


def one_byte(draw: random.Random) -> bytes:
    """Return e4m3 from -2 to 2."""
    return draw.randbytes(_TILE).translate(bytes((i & 0x3F) | (i & 0x80) for i in range(256)))


_FILLS: dict[str, Callable[[random.Random], bytes]] = {"bf16": two_bytes, "e4m3": one_byte}


def _buffers(argument: Argument) -> list[str]:
    if isinstance(argument, Pointer | Map):
        return [argument.buffer]
    if isinstance(argument, MapInMemory):
        return [argument.map.buffer]
    if isinstance(argument, Structure):
        return [name for part in argument.parts.values() for name in _buffers(part)]
    return []


def encoded(map_: Map, address: int) -> dict[str, Any]:
    """Return a map as `Device.encode` takes it."""
    return {
        "dtype": DTYPES[map_.dtype][0],
        "interleave": 0,
        "swizzle": SWIZZLES[map_.swizzle],
        "l2_promotion": L2_256,
        "oob_fill": 0,
        "global_dim": list(map_.dims),
        "global_stride": list(map_.strides),
        "box": list(map_.box),
        "element_stride": [1] * len(map_.dims),
        "address": address,
    }


def value(argument: Argument, addresses: dict[str, int], device: Any) -> bytes:
    """Return the bytes of an argument, for buffers at these addresses."""
    if isinstance(argument, Pointer):
        return struct.pack("<Q", addresses[argument.buffer] + argument.at)
    if isinstance(argument, Number):
        whole = argument.format not in "fde"
        return struct.pack(f"<{argument.format}", int(argument.value) if whole else argument.value)
    if isinstance(argument, Map):
        encoded_bytes: bytes = device.encode(encoded(argument, addresses[argument.buffer]))
        return encoded_bytes
    if isinstance(argument, MapInMemory):
        place = device.allocate(4096)
        device.write(place, value(argument.map, addresses, device))
        return struct.pack("<Q", place)
    found = bytearray(argument.size)
    for offset, part in argument.parts.items():
        data = value(part, addresses, device)
        found[offset : offset + len(data)] = data
    return bytes(found)


def kept(data: bytes, alignment: int = 128) -> tuple[int, Any]:
    """Return an aligned address at which these bytes lie, and what keeps them there."""
    buffer = ctypes.create_string_buffer(len(data) + alignment)
    place = -(-ctypes.addressof(buffer) // alignment) * alignment
    ctypes.memmove(place, data, len(data))
    return place, buffer
