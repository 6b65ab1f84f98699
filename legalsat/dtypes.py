"""Element types: what an array holds, and which tensor-map data type moves it.

Two vocabularies meet here. A *dtype* is what the user's tensor holds ("e4m3", "int8"). A *map type* is one of the
sixteen CUtensorMapDataType values, to which the copy engine is told to cut the bytes (fp8 travels as "u8").
Sizes are in bits because four-bit and six-bit elements share bytes. Source: FACTS VER-07, VER-08, CV-03.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any

from legalsat.checks import meant
from legalsat.errors import InvalidInput
from legalsat.printable import shown


@dataclass(frozen=True, slots=True)
class DType:
    """An element type.

    Attributes:
        name: canonical name, such as "bf16" or "e4m3".
        bits: bits that one element takes in global memory.
        kind: "float", "int", "uint" or "bool".
        map_type: the tensor-map data type that carries it unchanged; packed types need compute capability 10.0.
    """

    name: str
    bits: int
    kind: str
    map_type: str

    @property
    def bytes(self) -> int:
        """Bytes of one element; raises `InvalidInput` for types that share a byte."""
        if self.bits % 8:
            raise InvalidInput(f"dtype {self.name} takes {self.bits} bits, not whole bytes; recast it to u8 first")
        return self.bits // 8

    def __str__(self) -> str:
        return self.name


_TABLE = (
    DType("bool", 8, "bool", "u8"),
    DType("u8", 8, "uint", "u8"),
    DType("i8", 8, "int", "u8"),
    DType("u16", 16, "uint", "u16"),
    DType("i16", 16, "int", "u16"),
    DType("u32", 32, "uint", "u32"),
    DType("i32", 32, "int", "s32"),
    DType("u64", 64, "uint", "u64"),
    DType("i64", 64, "int", "s64"),
    DType("fp16", 16, "float", "f16"),
    DType("bf16", 16, "float", "bf16"),
    # A tf32 map rounds the mantissa to 10 bits as it loads (measured on an H200), so exact copies travel as f32.
    DType("tf32", 32, "float", "f32"),
    DType("fp32", 32, "float", "f32"),
    DType("fp64", 64, "float", "f64"),
    DType("e4m3", 8, "float", "u8"),
    DType("e5m2", 8, "float", "u8"),
    DType("e8m0", 8, "float", "u8"),
    DType("e2m1", 4, "float", "16u4_align8b"),
    DType("i4", 4, "int", "16u4_align8b"),
    DType("u4", 4, "uint", "16u4_align8b"),
    DType("e2m3", 6, "float", "16u6_align16b"),
    DType("e3m2", 6, "float", "16u6_align16b"),
)

_ALIASES = {
    "uint8": "u8",
    "int8": "i8",
    "s8": "i8",
    "uint16": "u16",
    "int16": "i16",
    "s16": "i16",
    "uint32": "u32",
    "int32": "i32",
    "s32": "i32",
    "uint64": "u64",
    "int64": "i64",
    "s64": "i64",
    "f16": "fp16",
    "float16": "fp16",
    "half": "fp16",
    "bfloat16": "bf16",
    "f32": "fp32",
    "float32": "fp32",
    "float": "fp32",
    "f64": "fp64",
    "float64": "fp64",
    "double": "fp64",
    "fp8": "e4m3",
    "fp8_e4m3": "e4m3",
    "float8_e4m3": "e4m3",
    "float8_e4m3fn": "e4m3",
    "float8_e4m3fnuz": "e4m3",
    "fp8_e5m2": "e5m2",
    "float8_e5m2": "e5m2",
    "float8_e5m2fnuz": "e5m2",
    "float8_e8m0fnu": "e8m0",
    "fp4": "e2m1",
    "fp4_e2m1": "e2m1",
    "float4_e2m1": "e2m1",
    "float4_e2m1fn": "e2m1",
    "int4": "i4",
    "uint4": "u4",
    "fp6": "e2m3",
    "fp6_e2m3": "e2m3",
    "float6_e2m3fn": "e2m3",
    "fp6_e3m2": "e3m2",
    "float6_e3m2fn": "e3m2",
}

DTYPES: dict[str, DType] = {t.name: t for t in _TABLE}


def dtype(name: Any) -> DType:
    """Return the `DType` called `name`.

    Args:
        name: a `DType`, a name ("bf16"), or a numpy, torch or ml_dtypes dtype, which are read by their name.

    Raises:
        InvalidInput: no such element type.
    """
    if isinstance(name, DType):
        return name
    # str() of torch's is "torch.bfloat16", of numpy's "float32"; a numpy scalar class has __name__ only.
    try:
        text = name if isinstance(name, str) else getattr(name, "__name__", None) or str(name)
    except Exception:
        text = ""
    key = text.removeprefix("torch.").lower() if isinstance(text, str) else ""
    found = DTYPES.get(_ALIASES.get(key, key))
    if found is None:
        if key[:1] == ">":
            raise InvalidInput(f"dtype {shown(name)} is big-endian; convert the array to native byte order")
        near = meant(key, [*DTYPES, *_ALIASES])
        raise InvalidInput(f"dtype {shown(name)} is unknown; give one of {', '.join(DTYPES)}{near}")
    return found


_STRUCTS = {"fp16": "<e", "fp32": "<f", "tf32": "<f", "fp64": "<d"}


def pattern_of(value: float, element: DType) -> int:
    """Return the bits of an element of this value, rounded to nearest; to bf16 by way of fp32, as torch does.

    Raises:
        InvalidInput: the type holds no such number, or it is a float of 8 bits or fewer, of which only 0 is known.
    """
    if element.kind != "float":
        low = -(2 ** (element.bits - 1)) if element.kind == "int" else 0
        high = 1 if element.kind == "bool" else low + 2**element.bits - 1
        whole = isinstance(value, int) or value.is_integer()
        if not whole or not low <= value <= high:
            raise InvalidInput(f"padding of {element} is {value}; give a whole number from {low} to {high}")
        return int(value) & ((1 << element.bits) - 1)
    try:
        if element.name in _STRUCTS:
            return int.from_bytes(struct.pack(_STRUCTS[element.name], value), "little")
        if element.name == "bf16":
            word = int.from_bytes(struct.pack("<f", value), "little")
            return (word + 0x7FFF + (word >> 16 & 1)) >> 16 & 0xFFFF
    except OverflowError:
        raise InvalidInput(f"padding of {element} is {value}, beyond its largest number; give an infinity") from None
    if value == 0 and math.copysign(1, value) > 0:
        return 0
    raise InvalidInput(f"padding of {element} with {value} has no bits known; pad with 0")
