"""Number formats as a PTX machine reads and writes them, by their definition."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
BITS = {"bf16": 16, "fp16": 16, "tf32": 32, "fp32": 32, "e4m3": 8, "e5m2": 8, "i8": 8, "i32": 32}


def _eight_bits(exponent_bits: int) -> Numbers:
    """Return the value of every byte: sign, exponent, mantissa; e4m3 has no infinities and two NaNs."""
    mantissa_bits = 7 - exponent_bits
    bias = 2 ** (exponent_bits - 1) - 1
    code = np.arange(128)
    exponent, mantissa = code >> mantissa_bits, code & (1 << mantissa_bits) - 1
    fraction = mantissa / 2.0**mantissa_bits
    value = np.where(exponent > 0, (1 + fraction) * 2.0 ** (exponent - bias), fraction * 2.0 ** (1 - bias))
    if exponent_bits == 5:
        value[exponent == 31] = np.inf
        value[(exponent == 31) & (mantissa > 0)] = np.nan
    else:
        value[127] = np.nan
    return np.concatenate([value, -value])


EIGHT_BITS = {"e4m3": _eight_bits(4), "e5m2": _eight_bits(5)}


# How numpy sees the elements that it knows: the unsigned word and what that is a view of.
_VIEWS: dict[str, tuple[Any, Any]] = {
    "fp16": (np.uint16, np.float16),
    "i8": (np.uint8, np.int8),
    "i32": (np.uint32, np.int32),
    "fp32": (np.uint32, np.float32),
    "tf32": (np.uint32, np.float32),
}


def decode(raw: NDArray[Any], name: str) -> Numbers:
    """Return the values of elements given as unsigned integers."""
    if name in EIGHT_BITS:
        return EIGHT_BITS[name][raw.astype(np.uint8)]
    if name == "bf16":
        raw, name = raw.astype(np.uint32) << 16, "fp32"
    word, kind = _VIEWS[name]
    # tf32: the low 13 bits of the mantissa are not looked at.
    seen = raw.astype(word) & ~word(0x1FFF) if name == "tf32" else raw.astype(word)
    values: Numbers = np.asarray(seen).view(kind).astype(np.float64)
    return values


def encode(values: Any, name: str) -> NDArray[np.uint32]:
    """Return values as elements, to nearest even, saturated where the conversion of a kernel is."""
    values = np.asarray(values, dtype=np.float64)
    if name == "bf16":
        bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
        return np.asarray((bits + 0x7FFF + (bits >> 16 & 1)) >> 16, dtype=np.uint32)
    if name in EIGHT_BITS:
        table = EIGHT_BITS[name][:128]
        finite = np.flatnonzero(np.isfinite(table))
        distance = np.abs(np.abs(values)[..., None] - table[finite])
        # Of two that are as near the even code wins.
        nearest = (distance + (finite & 1) * 1e-12).argmin(axis=-1)
        code = np.where(np.isnan(values), 0x7F, finite[nearest])
        return np.asarray(code | np.where(np.signbit(values), 0x80, 0), dtype=np.uint32)
    word, kind = _VIEWS[name]
    if name == "i8":
        values = np.clip(values, -128, 127)
    whole = values.astype(np.int64) if name in {"i8", "i32"} else values
    return np.asarray(whole.astype(kind).view(word), dtype=np.uint32)
