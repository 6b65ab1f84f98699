"""Memory as values on the machine: what threads have stored in shared memory, and what is told of global memory."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from legalsat.analyses.ptx_machine.alu import Value, lane_values, lanes_of, of_lanes


class Words:
    """The bytes of shared memory, and which of them are known.

    Args:
        count: of bytes.

    Attributes:
        valued: something has been stored.
    """

    told: Mapping[int, bytes] = MappingProxyType({})  # bytes in global memory that are known, by their first address

    def __init__(self, count: int) -> None:
        self.memory = np.zeros(count, dtype=np.uint8)
        self.known = np.zeros(count, dtype=bool)
        self.valued = False

    def forget(self, places: Any) -> None:
        """Note that bytes hold what is not known."""
        if self.valued:
            self.known[places] = False

    def store_values(self, addresses: Any, size: int, value: Value, mask: int) -> None:
        """Write lanes of a register to their addresses, or all to one."""
        self.valued = True
        if isinstance(addresses, int):
            low = value if isinstance(value, int) else lane_values(value, mask)[-1]
            held = (low & (1 << 8 * size) - 1).to_bytes(size, "little")
            self.memory[addresses : addresses + size] = list(held)
            self.known[addresses : addresses + size] = True
            return
        words = np.full(len(addresses), value, dtype=np.uint64) if isinstance(value, int) else value[lanes_of(mask)]
        places = addresses[:, None] + np.arange(size)
        self.memory[places] = words.view(np.uint8).reshape(-1, 8)[:, :size]
        self.known[places] = True

    def told_value(self, addresses: Value, mask: int, size: int) -> Value:
        """Return what lanes read in global memory; None where they have not all been told."""
        listed = [addresses] if isinstance(addresses, int) else lane_values(addresses, mask)
        found = []
        for address in listed:
            begin = max((first for first in self.told if first <= address), default=address)
            word = self.told.get(begin, b"")[address - begin :][:size]
            if len(word) < size:
                return None
            found.append(int.from_bytes(word, "little"))
        return of_lanes(addresses, mask, found)

    def load_value(self, addresses: Value, mask: int, size: int) -> Value:
        """Read into a register; None where not all lanes' values are known."""
        listed = [addresses] if isinstance(addresses, int) else lane_values(addresses, mask)
        found = []
        for address in listed:
            if not self.known[address : address + size].all():
                return None
            found.append(int.from_bytes(self.memory[address : address + size].tobytes(), "little"))
        return of_lanes(addresses, mask, found)
