"""Bits of a number that all lanes agree on: counted, found, and turned round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

NONE = (1 << 32) - 1  # what bfind says of zero


def of_bits(base: str, letter: str, bits: int, *, shift: bool) -> Callable[[Any], Any] | None:
    """Return what popc, clz, brev or bfind computes; None of others, and of a bfind that looks for a sign.

    `shift`: bfind says by how much to shift for the highest bit that is set to be the highest of all.
    """

    def found(a: int) -> int:
        return NONE if not a else bits - a.bit_length() if shift else a.bit_length() - 1

    known: dict[str, Callable[[int], int]] = {
        "popc": int.bit_count,
        "clz": lambda a: bits - a.bit_length(),
        "brev": lambda a: int(f"{a:0{bits}b}"[::-1], 2),
        "bfind": found,
    }
    if base not in known or (base == "bfind" and letter == "s"):
        return None
    work = known[base]
    return lambda a: work(a) if isinstance(a, int) else None
