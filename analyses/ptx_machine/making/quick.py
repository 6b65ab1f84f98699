"""Arithmetic where all lanes of a warp agree on each source: on plain numbers, with the fewest steps there are."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

from legalsat.analyses.ptx_machine.alu import COMPARED, FULL, MOST_BITS, WHOLE, whole_type

Quick: TypeAlias = Callable[..., int]


@lru_cache(maxsize=1 << 12)
def quick(parts: tuple[str, ...]) -> Quick | None:
    """Return what an instruction computes from numbers that are no wider than its type; None for rarer ones."""
    kind = whole_type(parts)
    if kind is None or "sat" in parts or "cc" in parts or not 1 < kind[1] <= MOST_BITS:
        return None
    base, (letter, bits) = parts[0], kind
    if base in _OTHERS:
        return _OTHERS[base](parts, letter == "s", bits)
    limit = (1 << bits) - 1
    found: dict[str, Quick] = {
        "add": lambda a, b: a + b & limit,
        "sub": lambda a, b: a - b & limit,
        "and": lambda a, b: a & b & limit,
        "or": lambda a, b: (a | b) & limit,
        "xor": lambda a, b: (a ^ b) & limit,
        "shl": lambda a, b: a << b & limit if b < bits else 0,
    }
    return found.get(base)


def _comparison(parts: tuple[str, ...], has_sign: bool, bits: int) -> Quick | None:
    if len(parts) != 3 or parts[1] not in COMPARED:
        return None
    test, limit, half = COMPARED[parts[1]], (1 << bits) - 1, 1 << bits - 1
    if has_sign and parts[1] not in {"eq", "ne"}:
        return lambda a, b: FULL if test((a & limit) ^ half, (b & limit) ^ half) else 0
    return lambda a, b: FULL if test(a, b) else 0


def _least(parts: tuple[str, ...], has_sign: bool, bits: int) -> Quick | None:
    half = 1 << bits - 1 if has_sign else 0
    return lambda a, b: a if (a ^ half) < (b ^ half) else b


def _most(parts: tuple[str, ...], has_sign: bool, bits: int) -> Quick | None:
    half = 1 << bits - 1 if has_sign else 0
    return lambda a, b: a if (a ^ half) > (b ^ half) else b


def _right(parts: tuple[str, ...], has_sign: bool, bits: int) -> Quick | None:
    limit, half = (1 << bits) - 1, 1 << bits - 1
    if has_sign:
        return lambda a, b: ((a ^ half) - half >> min(b, bits)) & limit
    return lambda a, b: a >> b


def _product(parts: tuple[str, ...], has_sign: bool, bits: int) -> Quick | None:
    if "hi" in parts:
        return None
    wide = "wide" in parts
    limit, half = (1 << (2 * bits if wide else bits)) - 1, 1 << bits - 1
    if wide and has_sign:
        return lambda a, b, c=0: ((a ^ half) - half) * ((b ^ half) - half) + c & limit
    return lambda a, b, c=0: a * b + c & limit


def _cast(parts: tuple[str, ...], has_sign: bool, bits: int) -> Quick | None:
    to = WHOLE.fullmatch(parts[1])
    if len(parts) != 3 or to is None:
        return None
    limit, half = (1 << bits) - 1, 1 << bits - 1
    target = (1 << int(to[2])) - 1
    if has_sign:
        return lambda a: ((a & limit) ^ half) - half & target
    return lambda a: a & limit & target


_OTHERS: dict[str, Callable[[tuple[str, ...], bool, int], Quick | None]] = {
    "setp": _comparison,
    "min": _least,
    "max": _most,
    "shr": _right,
    "mul": _product,
    "mad": _product,
    "cvt": _cast,
}
