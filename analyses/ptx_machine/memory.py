"""Addresses of shared memory in a cluster: the CTAs' memories lie one behind the other in the machine.

An address holds the rank of its CTA from bit 24 on, as on hardware: kernels clear that bit to reach the other CTA of a
pair. The machine keeps the bytes of all CTAs in one array; a *place* is where a byte lies in it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

SHARED_BASE = 1024  # as on hardware, where the system keeps the first 1024 bytes
SHARED_BYTES = SHARED_BASE + 227 * 1024  # of a CTA
RANK_BIT = 24
MOST_RANKS = 16  # CTAs of a cluster
_BITS = 32  # of an address
_WRAPPED = 1 << _BITS
NOWHERE = 1 << 40  # is added to addresses that lie in no CTA's shared memory


def place_of(address: Any) -> Any:
    """Return the place of an address, or of those of lanes; what lies in no CTA keeps its value, above `NOWHERE`.

    A register of 32 bits and an offset are added in 32 bits: compilers give negative ones that an offset makes up for.
    """
    if isinstance(address, int):
        if 0 <= address < SHARED_BYTES:
            return address
        address -= _WRAPPED if address >> _BITS == 1 else 0
        rank, offset = address >> RANK_BIT, address & (1 << RANK_BIT) - 1
        return rank * SHARED_BYTES + offset if offset < SHARED_BYTES and 0 <= rank < MOST_RANKS else NOWHERE + address
    address = np.where(address >> _BITS == 1, address - _WRAPPED, address)
    ranks, offsets = address >> RANK_BIT, address & (1 << RANK_BIT) - 1
    good = (offsets < SHARED_BYTES) & (ranks >= 0) & (ranks < MOST_RANKS)
    return np.where(good, ranks * SHARED_BYTES + offsets, NOWHERE + address)


def inside(place: Any, size: int) -> Any:
    """Whether bytes from a place on lie in what one CTA may use of its shared memory."""
    offset = place % SHARED_BYTES
    return (offset >= SHARED_BASE) & (offset + size <= SHARED_BYTES)


def distinct(numbers: Any) -> Any:
    """Return numbers of an array in order, each once: of so few np.unique takes longer, and it loads masked arrays."""
    found = np.sort(numbers, axis=None)
    return found[np.concatenate(([True], found[1:] != found[:-1]))[: found.size]]


def in_words(place: int) -> str:
    """Return a place in words: from the first byte that a kernel may use, with the CTA if it is not the first."""
    if place >= NOWHERE:
        return f"{place - NOWHERE - SHARED_BASE}"
    rank, offset = divmod(place, SHARED_BYTES)
    return f"{offset - SHARED_BASE}" + (f" of CTA {rank}" if rank else "")
