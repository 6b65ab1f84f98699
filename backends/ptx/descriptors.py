"""Matrix descriptors in registers: the word of a tile at an address, and of what lies further on in it."""

from __future__ import annotations

from legalsat.backends.ptx.text import Text, Value

UNIT_BYTES = 16  # in which descriptors count
ADDRESS_BITS = 18


def descriptor(text: Text, word: int, tile: Value) -> str:
    """Return a register with a matrix descriptor for a tile at an address, given that of one at address 0.

    In a cluster, bits above the 18 that a descriptor holds say which CTA an address is in.
    """
    start = text.put("bfe.u32", tile, 4, ADDRESS_BITS - 4)
    return text.put("add.u64", text.put("cvt.u64.u32", start, kind="d"), word, kind="d")


def moved(text: Text, word: str, offset: int) -> str:
    """Return a register with a descriptor whose tile begins `offset` bytes further on; the low half alone changes."""
    return text.put("add.u64", word, offset // UNIT_BYTES, kind="d") if offset else word
