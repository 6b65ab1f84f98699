"""How arguments go wrong: values of any kind, and changes that leave a value nearly what it was."""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import legalsat as ls

Draw = Callable[[Random], Any]
# Nouns that check their own fields, so that a field of theirs may be changed. Others are made by functions alone.
CHECKED = (
    *(ls.TensorMap, ls.TensorCopy, ls.BulkCopy, ls.MatrixDescriptor, ls.InstructionDescriptor, ls.Dim, ls.Swizzle),
    *(ls.Layout, ls.WgmmaMultiply),
)


class Word(str):
    """A subclass of str, as enums of strings are."""

    __slots__ = ()


class Seven(enum.IntEnum):
    """A subclass of int."""

    SEVEN = 7


class Nameless:
    """An object of nobody's."""


def nested(depth: int, kind: type = tuple) -> Any:
    """Return a 1 within so many sequences of one element."""
    value: Any = 1
    for _ in range(depth):
        value = kind((value,))
    return value


def endless() -> list[Any]:
    """Return a list that holds itself."""
    value: list[Any] = [1]
    value.append(value)
    return value


INTEGERS = (
    *(-1, 0, 1, 2, 3, 7, 8, 15, 16, 17, 64, 127, 128, 255, 256, 257, 1000, 4095, 4096, 65535, 65536, 2**20, 2**24),
    *(2**31 - 1, 2**31, 2**32, 2**32 + 1, 2**40, 2**53 + 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**200),
    *(-2, -16, -(2**31), -(2**63), -(2**64), 10**400, -(10**400), 10**5000),
)
FLOATS = (0.0, -0.0, 0.5, 1.0, 1.5, 16.0, -1.0, 1e9, 1e308, -1e308, 5e-324, float("nan"), float("inf"), -float("inf"))
TEXTS = (
    *(
        "",
        " ",
        "x",
        "8",
        "-1",
        "0x10",
        "1e400",
        "none",
        "None",
        "nan",
        "bf16",
        "u8",
        "h200",
        "sm_90a",
        "128B",
        "K",
        "MN",
    ),
    *(
        "\0",
        "\n",
        "\x1b[31m",
        "\ud800",
        "é",
        "٣",
        "a" * 100_000,
        "1" * 5000,
        "(" * 3000,
        "[" * 100_000,
        "9,9",
        "\u202e",
    ),
    *("%s%d{}{0!r}", "tma", "threads", "M", "((8,16),64):((64,512),1)", "(4,8):(8,1)", ":", "4:"),
)
SCALARS = (
    *(np.int64(4), np.int8(-1), np.uint8(255), np.uint64(2**63), np.float32(2), np.float64("nan"), np.bool_(True)),
    *(np.array(8), np.array(1.5), np.array("x"), np.str_("bf16"), np.bytes_(b"8"), np.datetime64("2026-01-01")),
    *(Fraction(1, 2), Fraction(8), Decimal(8), Decimal("NaN"), 1j, Seven.SEVEN, Word("bf16"), Word("8")),
)
OBJECTS: tuple[Callable[[], Any], ...] = (
    *(lambda: None, lambda: True, lambda: False, lambda: Ellipsis, lambda: NotImplemented, Nameless, lambda: int),
    *(
        lambda: print,
        lambda: sys,
        lambda: Nameless,
        lambda: b"",
        lambda: b"8",
        lambda: bytearray(128),
        lambda: b"\xff" * 128,
    ),
    *(
        lambda: memoryview(bytes(64)),
        list,
        dict,
        tuple,
        set,
        lambda: [1],
        lambda: (1, 2),
        lambda: (8, 8),
        lambda: {8, 16},
    ),
    *(lambda: frozenset((1,)), lambda: {"M": 1}, lambda: {1: 2}, lambda: {"shape": [4], "stride": [1]}, lambda: [None]),
    *(
        lambda: (None,),
        lambda: ("8",),
        lambda: (True, 8),
        lambda: (1.5, 2),
        lambda: ((), ()),
        lambda: [[]],
        lambda: [(), 1],
    ),
    *(
        lambda: range(0),
        lambda: range(4),
        lambda: iter((4, 8)),
        lambda: (n for n in (4, 8)),
        lambda: zip((1,), (2,), strict=True),
    ),
    *(lambda: nested(50), lambda: nested(3000), lambda: nested(100_000), lambda: nested(3000, list), endless),
    *(lambda: (8,) * 300, lambda: [1] * 100_000, lambda: (2,) * 70, lambda: (2**40, 2**40), lambda: (10**400, 1)),
    *(lambda: np.zeros(0), lambda: np.zeros((2, 2)), lambda: np.ones(4, int), lambda: np.array([4, 8])),
    *(lambda: np.array(["a", None], object), lambda: np.zeros(3, "u1"), lambda: np.zeros((2**40, 0))),
    *(lambda: ls.Dim("M"), lambda: ls.Tensor((16, 16), "u8"), lambda: ls.TensorMap("u8", (16,), (), (16,))),
    *(
        lambda: ls.Layout((4, 8)),
        lambda: ls.Layout(1),
        lambda: ls.Swizzle(3, 4, 3),
        lambda: ls.Gemm(64, 64, 64, "bf16"),
    ),
    *(lambda: ls.LinearLayout.identity(8, "a", "b"), lambda: ls.InvalidInput("x"), lambda: ValueError("715")),
)


# What is no path that is read or written well; those that are lie in the worker's own folder.
STRANGE_PATHS = (
    "",
    ".",
    "no/such",
    "\0",
    "a" * 300,
    "\ud800.json",
    None,
    8,
    True,
    1.5,
    b"x",
    Path("none.json"),
    ("p",),
)


def hostile(r: Random) -> Any:
    """Return a value of any kind at all."""
    kind = r.randrange(5)
    if kind == 4:
        return r.choice(OBJECTS)()
    return r.choice((INTEGERS, FLOATS, TEXTS, SCALARS)[kind])


def nearly(value: Any, r: Random) -> Any:  # noqa: PLR0911 - one for each kind
    """Return a value with one thing about it changed; a hostile one where nobody knows what to change."""
    if isinstance(value, bool):
        return r.choice((not value, int(value), np.bool_(value), None, str(value)))
    if isinstance(value, int):
        return _integer(value, r)
    if isinstance(value, str):
        return text(value, r) if r.random() < 0.9 else Word(value)
    if isinstance(value, bytes):
        return data(value, r)
    if isinstance(value, tuple | list):
        return _sequence(value, r)
    if isinstance(value, Mapping):
        return _mapping(value, r)
    if is_dataclass(value) and isinstance(value, CHECKED):
        name = r.choice([one.name for one in fields(value) if one.init])
        field = getattr(value, name)
        changed = nearly(field, r) if r.random() < 0.7 else hostile(r)
        try:
            return replace(value, **{name: changed})
        except ls.LegalSatError:  # no such value can be made
            return changed
    return hostile(r)


def _integer(value: int, r: Random) -> Any:
    changes: tuple[Callable[[int], Any], ...] = (
        *(lambda n: n + 1, lambda n: n - 1, lambda n: -n, lambda n: 2 * n, lambda n: n // 2, lambda n: n * 3),
        *(lambda n: n ^ 1 << r.randrange(20), lambda n: n + 2**32, lambda n: 0, lambda n: 1, lambda n: n * 1000),
        *(str, float, lambda n: (n,), lambda n: [n], np.array, lambda n: np.int64(n & 2**62 - 1)),
        *(lambda n: float(n) + 0.5, Fraction, lambda n: None, lambda n: r.choice(INTEGERS)),
    )
    try:
        return r.choice(changes)(value)
    except OverflowError:
        return None


def _sequence(value: Any, r: Random) -> Any:
    if not value:
        return r.choice(([], (), None, (1,), (0,), np.zeros(0, int), ((),)))
    at = r.randrange(len(value))
    changed = list(value)
    changes: tuple[Callable[[], Any], ...] = (
        *(
            lambda: changed[:at] + changed[at + 1 :],
            lambda: [*changed, changed[at]],
            lambda: changed[::-1],
            lambda: changed,
        ),
        *(lambda: [*changed[:at], nearly(changed[at], r), *changed[at + 1 :]],) * 4,
        *(lambda: [*changed[:at], hostile(r), *changed[at + 1 :]], lambda: changed * 8, lambda: changed[at]),
        *(lambda: [*changed[:at], changed[at:]], lambda: iter(changed), lambda: dict.fromkeys(map(str, changed))),
    )
    try:
        found = r.choice(changes)()
    except RecursionError:  # of the text of a value nested deeply
        return changed
    return type(value)(found) if isinstance(found, list) and r.random() < 0.7 else found


def _mapping(value: Mapping[Any, Any], r: Random) -> Any:
    changed = dict(value)
    if not changed:
        return r.choice(([], None, {"": 1}, {"x": 0}, {1: 1}))
    name = r.choice(list(changed))
    how = r.randrange(6)
    if how == 0:
        del changed[name]
    elif how == 1:
        changed[text(name, r) if isinstance(name, str) else hostile_name(r)] = changed.pop(name)
    elif how == 2:
        changed[name] = hostile(r)
    elif how == 3:
        changed[hostile_name(r)] = changed[name]
    elif how == 4:
        return list(changed.items())
    else:
        changed[name] = nearly(changed[name], r)
    return changed


def hostile_name(r: Random) -> Any:
    """Return what may be a key."""
    return r.choice((*TEXTS[:40], 1, None, 1.5, (1, 2), True, b"x"))


PIECES = (
    *(
        "\0",
        "\n",
        "\r\n",
        "\t",
        " ",
        "-",
        "+",
        "0",
        "9" * 30,
        "0x",
        "1e999",
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        ",",
        ":",
        ";",
    ),
    *(
        '"',
        "'",
        "\\",
        "\\n",
        "\x1b[2J",
        "\ud800",
        "é",
        "٣",
        "\ufeff",
        "\u2028",
        "=",
        "%",
        "/*",
        "*/",
        "//",
        ".",
        "@",
        "$",
    ),
    *(
        "null",
        "true",
        "NaN",
        "Infinity",
        "{}",
        "[[]]",
        "((1,2),(3,4))",
        "M",
        "K%8",
        "..",
        "x",
        "a" * 300,
        "<b>",
        "&amp;",
    ),
)


def text(value: str, r: Random, most: int = 3) -> str:
    """Return a text with a few places changed."""
    for _ in range(r.randint(1, most)):
        at = r.randrange(len(value) + 1)
        end = min(len(value), at + r.choice((0, 0, 1, 1, 2, 5, 20)))
        how = r.randrange(8)
        if how < 3:
            new = r.choice(PIECES)
        elif how == 3:
            new = ""
        elif how == 4:
            new = value[at:end] * r.choice((2, 3, 50))
        elif how == 5:
            new = value[at:end].swapcase() or r.choice(PIECES)
        elif how == 6:
            new = str(r.choice(INTEGERS[:-4]))
        else:
            new = value[r.randrange(len(value) + 1) :][: r.randrange(30)]
        value = value[:at] + new + value[end:]
    return value


def data(value: bytes, r: Random) -> bytes:
    """Return bytes with a bit turned, cut short, or with something between."""
    at = r.randrange(len(value) + 1)
    how = r.randrange(5)
    if how < 2 and value:
        at %= len(value)
        return value[:at] + bytes([value[at] ^ 1 << r.randrange(8)]) + value[at + 1 :]
    if how == 2:
        return value[:at]
    if how == 3:
        return value[:at] + r.randbytes(r.choice((1, 4, 64))) + value[at:]
    return value[:at] + r.choice((b"\0" * 8, b"\xff" * 8, b"\xed\xa0\x80", b"\n" * 100)) + value[at + 8 :]
