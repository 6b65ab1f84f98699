"""Numbers as the bytes of an element type, and back, as the interpreter of kernels has them in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.float64]
_PLAIN: dict[str, Any] = {"fp16": np.float16, "fp32": np.float32, "tf32": np.float32}
_PLAIN |= {"i8": np.int8, "u8": np.uint8, "i32": np.int32}
NO_NUMBER = np.uint8(0x7F)  # e4m3


def decoded(raw: Bytes, name: str) -> Numbers:
    """Return the numbers that bytes hold, the last axis being those of one element."""
    flat = np.ascontiguousarray(raw)
    if name == "bf16":
        return (flat.view(np.uint16).astype(np.uint32) << 16).view(np.float32)[..., 0].astype(np.float64)
    if name in _PLAIN:
        plain_numbers: Numbers = flat.view(_PLAIN[name])[..., 0].astype(np.float64)
        return plain_numbers
    if name == "e5m2":
        return (flat[..., 0].astype(np.uint16) << 8).view(np.float16).astype(np.float64)
    sign, exponent, fraction = (flat[..., 0] >> at & mask for at, mask in ((7, 1), (3, 15), (0, 7)))
    scale = np.where(exponent > 0, np.exp2(exponent.astype(np.float64) - 7), 2.0**-6)
    found = np.where(sign > 0, -1.0, 1.0) * scale * (fraction / 8 + (exponent > 0))
    return np.where((exponent == 15) & (fraction == 7), np.nan, found)


def encoded(numbers: Any, name: str) -> Bytes:
    """Return numbers as bytes, rounded to nearest even or saturated; the last axis is the bytes of one element."""
    values = np.asarray(numbers, dtype=np.float64)
    if name == "bf16":
        bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
        words = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    elif name in _PLAIN:
        kind = np.dtype(_PLAIN[name])
        if kind.kind in "iu":
            values = np.clip(values, np.iinfo(kind).min, np.iinfo(kind).max)
        words = values.astype(kind)
    else:  # all numbers of 8 bits are few; of two that are as near the even one comes first
        codes = np.concatenate([np.arange(0, 256, 2, dtype=np.uint8), np.arange(1, 256, 2, dtype=np.uint8)])
        known = decoded(codes[:, None], name)
        known[~np.isfinite(known)] = np.nan  # what is beyond saturates
        different, place = np.unique(values, return_inverse=True)
        nearest = codes[np.nanargmin(np.abs(known - np.nan_to_num(different)[:, None]), axis=-1)]
        words = np.where(np.isnan(different), NO_NUMBER, nearest)[place].reshape(values.shape)
    return words[..., None].view(np.uint8)
