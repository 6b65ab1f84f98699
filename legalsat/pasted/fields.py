"""Numbers as programs print them: lists in any brackets, indexed one by one, hexadecimal, and the names of enums."""

from __future__ import annotations

import re

from legalsat.dtypes import dtype as element_type
from legalsat.errors import InvalidInput
from legalsat.units.tensor_map import L2_PROMOTIONS, MAP_TYPES, SWIZZLES

NULL = ("(nil)", "nullptr", "None", "NULL")
LISTS = frozenset(
    {"global_dim", "global_stride", "strides_from_0", "box", "element_stride", "lower_corner", "upper_corner"}
)
_ADDRESSES = ("address", "object")
_DRIVER_TYPES = {
    "UINT8": "u8", "UINT16": "u16", "UINT32": "u32", "INT32": "s32", "UINT64": "u64", "INT64": "s64", "FLOAT16": "f16",
    "FLOAT32": "f32", "FLOAT64": "f64", "BFLOAT16": "bf16", "FLOAT32_FTZ": "f32_ftz", "TFLOAT32": "tf32",
    "TFLOAT32_FTZ": "tf32_ftz", "16U4_ALIGN8B": "16u4_align8b", "16U4_ALIGN16B": "16u4_align16b",
    "16U6_ALIGN16B": "16u6_align16b",
}  # fmt: skip
# Sizes in bytes by which enums are printed too, as the end of their names. No value of the driver's is so large.
_BYTES = {"swizzle": (32, 64, 128), "interleave": (16, 32), "l2_promotion": (64, 128, 256)}
_ENUM = re.compile(r"CU_TENSOR_MAP_(?:DATA_TYPE|INTERLEAVE|SWIZZLE|L2_PROMOTION|FLOAT_OOB_FILL)_")


def number(word: str, field: str) -> int:
    """Return a printed number of a field, decimal or hexadecimal; 0 for a null pointer.

    An address that was printed as a signed number counts from the end of 64 bits.

    Raises:
        InvalidInput: it is none.
    """
    if word in NULL:
        return 0
    if field in _ADDRESSES and re.fullmatch(r"-\d{1,19}", word):
        return (1 << 64) + int(word)
    if not re.fullmatch(r"0[xX][0-9a-fA-F]{1,16}|\d{1,20}", word):
        raise InvalidInput(
            f"{field} of the printed map is {word[:60]!r}, no number; paste the dump of one process alone"
        )
    return int(word, 0 if word[1:2] in ("x", "X") else 10)


def numbers(word: str, field: str) -> tuple[int, ...]:
    """Return a printed list of a field.

    Raises:
        InvalidInput: it is none, or the address of an array.
    """
    if re.fullmatch(r"0[xX][0-9a-fA-F]+", word):
        raise InvalidInput(
            f"{field} is printed as {word[:60]}, the address of an array; print its numbers, as newer versions of the "
            "program do"
        )
    inside = word.strip("()[]{}<> \t\n").rstrip(",")
    entries = re.split(r"\s*[,x]\s*|\s+", inside) if inside else []
    if not all(re.fullmatch(r"-?\d{1,20}", entry) for entry in entries):
        raise InvalidInput(f"{field} of the printed map is {word[:60]!r}, no list; paste the dump of one process alone")
    return tuple(map(int, entries))


def enum(word: str, field: str) -> int | str:
    """Return a printed enum's value: the driver's number, or the `TensorMap` name of what is printed by name.

    Raises:
        InvalidInput: the name is unknown.
    """
    if re.fullmatch(r"\d{1,10}", word):
        value = int(word)
        return f"{value}B" if value in _BYTES.get(field, ()) else value
    name = _ENUM.sub("", word.rpartition(".")[2].strip("\"'"))
    bare = re.sub(r"^(?:SWIZZLE|INTERLEAVE|L2|PROMOTION|FILL|OOB)_?|^L2_", "", name, flags=re.IGNORECASE).upper()
    if field == "dtype":
        upper = name.upper()
        return _DRIVER_TYPES[upper] if upper in _DRIVER_TYPES else element_type(name.lower()).name
    if bare in ("NONE", "ZERO", "ZEROS", "NO", "FALSE"):
        return 0
    if field == "oob_fill" and "NAN" in bare:
        return "nan"
    for known in (*SWIZZLES, *L2_PROMOTIONS) if field in ("swizzle", "l2_promotion") else ("16B", "32B"):
        if bare.replace("BYTES", "B").replace("L2_", "") == known.upper():
            return known
    spelled = re.fullmatch(r"(?:K_|MN_)?[SBW]{0,2}_?(32|64|128)B?", bare)  # as s128b, SW128, B64
    if field == "swizzle" and spelled is not None:
        return f"{spelled[1]}B"
    raise InvalidInput(f"{field} of the printed map is {word[:60]!r}, none of its values; give the driver's number")


def element_bytes(name: str | int) -> int:
    """Return the bytes of one element of a map's type, 1 for the types below a byte and for an unknown one."""
    if isinstance(name, int):
        return MAP_TYPES[name].bits // 8 or 1 if name < len(MAP_TYPES) else 1
    known = {one.name: one.bits for one in MAP_TYPES}
    return (known[name] if name in known else element_type(name).bits) // 8 or 1
