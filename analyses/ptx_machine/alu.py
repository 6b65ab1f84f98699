"""Whole-number arithmetic of PTX on the lanes of a warp.

A value is a Python int where all lanes agree, a uint64 array of 32 where they may not, and `None` where nothing is
known: what comes from global memory or from floating point. Predicates are ints with a bit for each lane.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from legalsat.analyses.ptx.bits import of_bits
from legalsat.analyses.ptx_machine.memory import RANK_BIT

LANES = 32
FULL = 2**LANES - 1
MOST_BITS = 64  # of values that are followed
LEAST_HELD = 64  # results of an instruction that are kept: two CTAs have as many warps
Value: TypeAlias = Any  # int | NDArray[np.uint64] | None
Lanes: TypeAlias = NDArray[np.bool_]
WHOLE = re.compile(r"([usb])(8|16|32|64|128)")


@lru_cache(maxsize=4096)
def lanes_of(mask: int) -> Lanes:
    """Return a mask's bits as 32 booleans."""
    return np.array([bool(mask >> i & 1) for i in range(LANES)])


def mask_of(lanes: Lanes) -> int:
    """Return 32 booleans as a mask."""
    return int.from_bytes(np.packbits(lanes, bitorder="little").tobytes(), "little")


def of_lanes(addresses: Value, mask: int, found: list[int]) -> Value:
    """Return what lanes of a mask have found, in the order of the lanes; one number where they asked for one."""
    if isinstance(addresses, int):
        return found[0]
    value = np.zeros(LANES, dtype=np.uint64)
    value[[i for i in range(LANES) if mask >> i & 1]] = found
    return even(value) if mask == FULL else value


def lane_values(value: Value, mask: int) -> list[int]:
    """Return the value in each lane of a mask, in order."""
    if isinstance(value, int):
        return [value] * mask.bit_count()
    return [int(v) for v in value[lanes_of(mask)]]


def blend(new: Value, old: Value, mask: int, *, lanewise: bool = False) -> Value:
    """Return `new` in the lanes of a mask and `old` in the others; unknown where the two differ and one is unknown.

    `lanewise`: they are predicates, which hold a bit a lane.
    """
    if new is None or old is None:
        return None
    if lanewise and isinstance(new, int) and isinstance(old, int):
        return (new & mask) | (old & ~mask)
    if isinstance(new, int) and isinstance(old, int):
        return new if new == old else _blended(new, old, mask)
    new_lanes = new if not isinstance(new, int) else np.uint64(new)
    old_lanes = old if not isinstance(old, int) else np.uint64(old)
    return np.where(lanes_of(mask), new_lanes, old_lanes)


@lru_cache(maxsize=1 << 12)
def _blended(new: int, old: int, mask: int) -> NDArray[np.uint64]:
    """Return two numbers in the lanes of a mask and in the others; the same array each time, which is remembered."""
    found = np.where(lanes_of(mask), np.uint64(new), np.uint64(old))
    found.flags.writeable = False
    return found


def even(value: Value) -> Value:
    """Return an array that is the same in all lanes as an int."""
    if isinstance(value, np.ndarray) and all_same(value):
        return int(value[0])
    return value


def all_same(numbers: NDArray[Any]) -> bool:
    """Are numbers of 64 bits all the same? Of so few, to compare bytes is several times quicker."""
    held = numbers.tobytes()
    return held == held[:8] * numbers.size


def signed(value: Value, bits: int) -> Value:
    """Return bits of two's complement as numbers with a sign."""
    half = 1 << bits - 1
    if isinstance(value, int):
        return value - (half << 1) if value & half else value
    if bits == 64:
        return value.view(np.int64)
    return ((value ^ np.uint64(half)).astype(np.int64)) - half


def _wrapped(value: Any, bits: int) -> Value:
    if isinstance(value, np.ndarray):
        value = value.view(np.uint64) if value.dtype == np.int64 else value.astype(np.uint64)
        return value if bits == 64 else value & np.uint64((1 << bits) - 1)
    return int(value) & ((1 << bits) - 1)


class NoLaunch(Exception):
    """The kernel is not meant to be launched with these parameters: the message says what it does with them."""


class DividesByZero(NoLaunch):
    """The kernel divides by zero with these parameters."""

    def __init__(self) -> None:
        super().__init__("divide by zero")


def _divide(a: Any, b: Any, *, rest: bool) -> Any:
    """Divide towards zero, as C does."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        b = np.asarray(b)
        if (b == 0).any():
            return None
        if np.asarray(a).dtype == np.uint64 or b.dtype == np.uint64:
            quotient = np.asarray(a, dtype=np.uint64) // b.astype(np.uint64)
            return np.asarray(a, dtype=np.uint64) - quotient * b.astype(np.uint64) if rest else quotient
        quotient = np.abs(a) // np.abs(b) * np.sign(a) * np.sign(b)
        return a - quotient * b if rest else quotient
    if b == 0:
        raise DividesByZero
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return a - quotient * b if rest else quotient


def _shift_left(a: Any, by: Any, bits: int) -> Any:
    if isinstance(by, int):
        return a << (np.uint64(by) if isinstance(a, np.ndarray) else by) if by < bits else 0 * a
    return np.where(by < bits, np.asarray(a, dtype=np.uint64) << np.minimum(by, np.uint64(63)), np.uint64(0))


def _shift_right(a: Any, by: Any, bits: int) -> Any:
    """Shift numbers: what has a sign keeps it."""
    if isinstance(by, int):
        by = min(by, bits - 1) if _is_signed(a) else by
        return a >> by if by < bits else 0 * a
    a = np.asarray(a)
    by = by.astype(a.dtype)
    if a.dtype == np.int64:
        return a >> np.minimum(by, bits - 1)
    return np.where(by < bits, a.astype(np.uint64) >> np.minimum(by, np.uint64(63)).astype(np.uint64), np.uint64(0))


def _is_signed(a: Any) -> bool:
    return isinstance(a, int) or a.dtype == np.int64


COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "lo": lambda a, b: a < b,
    "ls": lambda a, b: a <= b,
    "hi": lambda a, b: a > b,
    "hs": lambda a, b: a >= b,
}
_LOGIC: dict[str, Callable[[Any, Any], Any]] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}


def whole_type(parts: tuple[str, ...]) -> tuple[str, int] | None:
    """Return the sign letter and bits of the last whole-number type in a name, or None for other types."""
    for part in reversed(parts):
        found = WHOLE.fullmatch(part)
        if found is not None:
            return found[1], int(found[2])
        if part == "pred":
            return "p", 1
        if re.fullmatch(r"(bf16|f16|tf32|f32|f64|e\dm\d)(x\d)?", part):
            return None
    return None


Work: TypeAlias = Callable[..., Value]


def remembered(work: Work, most: int = LEAST_HELD) -> Work:
    """Return work that is done once for the same arrays, which nobody writes to: a warp's lanes are the same ones.

    What all lanes turn out to agree on is a number from then on, with which all else is quicker. `most`: that is kept.
    """
    held: dict[tuple[object, ...], tuple[tuple[Value, ...], Value]] = {}

    def again(*values: Value) -> Value:
        key = tuple([("", id(one)) if type(one) is np.ndarray else one for one in values])
        found = held.get(key)
        if found is None:
            if len(held) >= most:
                held.clear()
            found = held[key] = values, even(work(*values))  # with the arrays, so that none other gets their identity
        return found[1]

    return again


@lru_cache(maxsize=1 << 10)
def compare(parts: tuple[str, ...]) -> Work | None:
    """Return the comparison of a `setp` as a function to a predicate, or None where it is of floats."""
    kind = whole_type(parts)
    if kind is None:
        return _compare_floats(parts)
    if parts[1] not in COMPARED:
        return None
    letter, bits = kind
    test = COMPARED[parts[1]]
    combine = _LOGIC.get(parts[2]) if len(parts) > 3 else None

    def work(a: Value, b: Value, third: Value = FULL) -> Value:
        if a is None or b is None or third is None:
            return None
        if letter == "s":
            a, b = signed(a, bits), signed(b, bits)
        held = test(a, b)
        mask = mask_of(held) if isinstance(held, np.ndarray) else FULL * int(held)
        return combine(mask, third) if combine is not None else mask

    return work


def _compare_floats(parts: tuple[str, ...]) -> Work | None:
    """Return the comparison of two floats of 32 bits that all lanes agree on."""
    name = parts[1]
    unordered = name[:-1] if name.endswith("u") and name[:-1] in COMPARED else ""
    if parts[-1] != "f32" or len(parts) > 4 - ("ftz" not in parts) or (not unordered and name not in COMPARED):
        return None
    test = COMPARED[unordered or name]

    def work(a: Value, b: Value) -> Value:
        if not isinstance(a, int) or not isinstance(b, int):
            return None
        x, y = struct.unpack("<ff", struct.pack("<II", a & FULL, b & FULL))
        if math.isnan(x) or math.isnan(y):
            return FULL * bool(unordered)
        return FULL * bool(test(x, y))

    return work


def _two(function: Callable[[Any, Any], Any], letter: str, bits: int) -> Work:
    def work(a: Value, b: Value) -> Value:
        if a is None or b is None:
            return None
        if letter == "s":
            a, b = signed(a, bits), signed(b, bits)
        found = function(a, b)
        return None if found is None else _wrapped(found, bits)

    return work


def _bits_two(function: Callable[[Any, Any], Any], bits: int) -> Work:
    """Return work for which the sign does not matter, which is quicker."""
    limit = (1 << bits) - 1
    array_limit = np.uint64(limit)

    def work(a: Value, b: Value) -> Value:
        if a is None or b is None:
            return None
        found = function(a, b)
        return found & limit if isinstance(found, int) else found & array_limit

    return work


def remembered_of_two(work: Work, most: int = LEAST_HELD) -> Work:
    """Return the same of work with two sources, which is what there is most of."""
    held: dict[tuple[object, ...], tuple[Value, Value, Value]] = {}

    def again(a: Value, b: Value) -> Value:
        lanes = type(a) is np.ndarray, type(b) is np.ndarray
        key = id(a) if lanes[0] else a, id(b) if lanes[1] else b, lanes
        found = held.get(key)
        if found is None:
            if len(held) >= most:
                held.clear()
            found = held[key] = a, b, even(work(a, b))
        return found[2]

    return again


def _high(a: Any, b: Any, bits: int) -> Any:
    if isinstance(a, int) and isinstance(b, int):
        return a * b >> bits
    if bits < 64:
        product = a * b
        return product >> (bits if product.dtype == np.int64 else np.uint64(bits))
    left = a.tolist() if isinstance(a, np.ndarray) else [a] * LANES
    right = b.tolist() if isinstance(b, np.ndarray) else [b] * LANES
    return np.array([(x * y >> bits) & (2**64 - 1) for x, y in zip(left, right, strict=True)], dtype=np.uint64)


def _least(a: Any, b: Any) -> Any:
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else np.minimum(a, b)


def _most(a: Any, b: Any) -> Any:
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else np.maximum(a, b)


def _extract(letter: str, bits: int) -> Work:
    def work(a: Value, at: Value, count: Value) -> Value:
        if a is None or not isinstance(at, int) or not isinstance(count, int):
            return None
        at, count = at & 255, count & 255
        if count == 0 or at >= bits:
            return 0
        field = (a >> (at if isinstance(a, int) else np.uint64(at))) & (
            (1 << count) - 1 if isinstance(a, int) else np.uint64((1 << min(count, 63)) - 1)
        )
        return _wrapped(signed(field, min(count, bits - at)), bits) if letter == "s" else field

    return work


def _insert(bits: int) -> Work:
    def work(a: Value, b: Value, at: Value, count: Value) -> Value:
        if a is None or b is None or not isinstance(at, int) or not isinstance(count, int):
            return None
        limit = (1 << bits) - 1
        at, count = at & 255, count & 255
        field = ((1 << count) - 1 << at) & limit
        kept, inserted = b & (limit ^ field), _shift_left(a, at, bits) & field
        return (kept | inserted) & limit

    return work


def _permuted(parts: tuple[str, ...]) -> Work | None:
    """Return how bytes of two words are chosen by a number that is known; None for the modes with a name."""
    if parts[1:] != ("b32",):
        return None

    def work(a: Value, b: Value, chosen: Value) -> Value:
        if a is None or b is None or not isinstance(chosen, int):
            return None
        result: Any = 0
        for i in range(4):
            choice = chosen >> 4 * i & 15
            word = b if choice & 4 else a
            byte = (word >> _shift(word, 8 * (choice & 3))) & _shift(word, 255)
            if choice & 8:  # its sign, eight times
                byte = (byte >> _shift(word, 7)) * _shift(word, 255)
            result = result | byte << _shift(byte, 8 * i)
        return _wrapped(result, 32)

    return work


def _funnel(parts: tuple[str, ...]) -> Work | None:
    """Return the shift of two words side by side by a number that is known."""
    left, wraps = "l" in parts, "wrap" in parts
    if parts[-1] != "b32" or not (wraps or "clamp" in parts) or left == ("r" in parts):
        return None

    def work(low: Value, high: Value, by: Value) -> Value:
        if low is None or high is None or not isinstance(by, int):
            return None
        by = by & 31 if wraps else min(by, 32)
        right = 32 - by if left else by
        below = low >> _shift(low, right) if right < 32 else _shift(low, 0)
        above = high << _shift(high, 32 - right) if right else _shift(high, 0)
        return _wrapped(below | above, 32)

    return work


def _logic_of_three(table: int) -> Work:
    def work(a: Value, b: Value, c: Value, _: Value = 0) -> Value:
        if a is None or b is None or c is None:
            return None
        result: Any = 0
        for row in range(8):
            if table >> row & 1:
                terms = [v if row >> (2 - i) & 1 else v ^ FULL for i, v in enumerate((a, b, c))]
                result = result | (terms[0] & terms[1] & terms[2])
        return _wrapped(result, 32)

    return work


def arithmetic(parts: tuple[str, ...], operands: tuple[str, ...]) -> Work | None:
    """Return what an instruction computes from its sources, or None where that is no whole-number arithmetic."""
    return _arithmetic(parts, operands[4] if parts[0] == "lop3" else "")


@lru_cache(maxsize=1 << 12)
def _arithmetic(parts: tuple[str, ...], table: str) -> Work | None:
    """Return the same, of `lop3` with its table of truth."""
    base, kind = parts[0], whole_type(parts)
    if parts in _WIDENED:
        return _widened(parts[2])
    if base == "mul" and parts[-1] == "f32" and _PLAIN_PRODUCT.issuperset(parts):
        return _float_product
    if kind is None:
        return (lambda a: a) if base == "mov" and parts[-1] in {"f32", "f64"} else None
    letter, bits = kind
    if letter == "p":
        return _of_predicates(base)
    if "sat" in parts or "cc" in parts or bits > MOST_BITS:
        return None
    others: dict[str, Callable[[], Work | None]] = {
        "add": lambda: _bits_two(_add, bits),
        "sub": lambda: _bits_two(_subtract, bits),
        "and": lambda: _bits_two(_LOGIC["and"], bits),
        "or": lambda: _bits_two(_LOGIC["or"], bits),
        "xor": lambda: _bits_two(_LOGIC["xor"], bits),
        "mul": lambda: _products(parts, letter, bits),
        "mad": lambda: _products(parts, letter, bits),
        "div": lambda: _two(lambda a, b: _divide(a, b, rest=False), letter, bits),
        "rem": lambda: _two(lambda a, b: _divide(a, b, rest=True), letter, bits),
        "min": lambda: _two(_least, letter, bits),
        "max": lambda: _two(_most, letter, bits),
        "shl": lambda: _bits_two(lambda a, by: _shift_left(a, by, bits), bits),
        "shr": lambda: _right(letter, bits),
        "lop3": lambda: _logic_of_three(int(table, 0)),
        "bfe": lambda: _extract(letter, bits),
        "bfi": lambda: _insert(bits),
        "prmt": lambda: _permuted(parts),
        "shf": lambda: _funnel(parts),
        "mov": lambda: lambda a: a,
        "cvta": lambda: lambda a: a,
        "not": lambda: lambda a: None if a is None else a ^ ((1 << bits) - 1 if isinstance(a, int) else _ones(bits)),
        "neg": lambda: lambda a: None if a is None else _wrapped(0 - signed(a, bits), bits),
        "abs": lambda: lambda a: None if a is None else _wrapped(abs(signed(a, bits)), bits),
        "cvt": lambda: _converted(parts),
        "mapa": lambda: _mapped,
        "getctarank": lambda: lambda a: None if a is None else a >> _shift(a, RANK_BIT),
    }
    return others[base]() if base in others else of_bits(base, letter, bits, shift="shiftamt" in parts)


_WIDENED = {("cvt", "f32", "f16"), ("cvt", "f32", "bf16")}

_PLAIN_PRODUCT = frozenset({"mul", "rn", "f32"})


def _float_product(a: Value, b: Value) -> Value:
    """Return the product of two floats as bits: factors of sums are scaled before they are compared with zero."""
    if a is None or b is None:
        return None
    with np.errstate(all="ignore"):
        floats = [np.asarray(one, dtype=np.uint32).view(np.float32) for one in (a, b)]
        found = (floats[0] * floats[1]).astype(np.float32).view(np.uint32).astype(np.uint64)
    return found if found.ndim else int(found)


def _widened(source: str) -> Work:
    """Return the conversion of a half, as bits, which factors of sums come as, to a float."""

    def work(a: Value) -> Value:
        if a is None:
            return None
        if source == "bf16":
            return _wrapped(a, 16) << _shift(a, 16)
        halves = np.asarray(_wrapped(a, 16), dtype=np.uint16).view(np.float16)
        found = halves.astype(np.float32).view(np.uint32).astype(np.uint64)
        return found if isinstance(a, np.ndarray) else int(found)

    return work


def _mapped(a: Value, rank: Value) -> Value:
    """Return the address in another CTA of the cluster."""
    if a is None or rank is None:
        return None
    inside = (1 << RANK_BIT) - 1
    low = a & (inside if isinstance(a, int) else np.uint64(inside))
    return low | rank << _shift(rank, RANK_BIT)


def _shift(value: Value, by: int) -> Any:
    return by if isinstance(value, int) else np.uint64(by)


def _add(a: Any, b: Any) -> Any:
    return a + b


def _subtract(a: Any, b: Any) -> Any:
    # A Python int less an array would have to fit uint64 first.
    return a - b if not isinstance(b, np.ndarray) else np.asarray(a, dtype=np.uint64) - b


def _right(letter: str, bits: int) -> Work:
    def work(a: Value, by: Value) -> Value:
        if a is None or by is None:
            return None
        if letter == "s":
            return _wrapped(_shift_right(signed(a, bits), by, bits), bits)
        if isinstance(a, int) and isinstance(by, int):
            return a >> by
        return _wrapped(_shift_right(np.asarray(a, dtype=np.uint64), by, bits), bits)

    return work


def _products(parts: tuple[str, ...], letter: str, bits: int) -> Work:
    wide, high = "wide" in parts, "hi" in parts
    result = 2 * bits if wide else bits

    def work(a: Value, b: Value, c: Value = 0) -> Value:
        if a is None or b is None or c is None:
            return None
        if letter == "s" and (wide or high):
            a, b = signed(a, bits), signed(b, bits)
        product = _wrapped(_high(a, b, bits) if high else a * b, result)
        return _wrapped(product + c, result) if not isinstance(c, int) or c else product

    return work


def _converted(parts: tuple[str, ...]) -> Work | None:
    kinds = [WHOLE.fullmatch(p) for p in parts[1:]]
    whole = [k for k in kinds if k is not None]
    if len(whole) != 2 or "sat" in parts:
        return None
    to, source = int(whole[0][2]), (whole[1][1], int(whole[1][2]))

    def work(a: Value) -> Value:
        if a is None:
            return None
        low = _wrapped(a, source[1])
        return _wrapped(signed(low, source[1]), to) if source[0] == "s" else _wrapped(low, to)

    return work


def _of_predicates(base: str) -> Work | None:
    if base in _LOGIC:
        test = _LOGIC[base]

        def work(a: Value, b: Value) -> Value:
            if a is None or b is None:
                # One false is enough for `and`, one true for `or`.
                known = a if b is None else b
                if (base == "and" and known == 0) or (base == "or" and known == FULL):
                    return known
                return None
            return test(a, b)

        return work
    if base == "not":
        return lambda a: None if a is None else a ^ FULL
    return (lambda a: a) if base == "mov" else None


def _ones(bits: int) -> Any:
    return np.uint64((1 << bits) - 1)
