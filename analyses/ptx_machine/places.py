"""Where lanes reach shared memory: addresses, cells and bytes, kept for each instruction and each set of addresses.

A kernel's instructions come to the same places in every round of a loop and in every run, so these are computed once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from legalsat.analyses.ptx.findings import Undecided
from legalsat.analyses.ptx_machine.alu import Value, lanes_of
from legalsat.analyses.ptx_machine.memory import distinct, inside, place_of

_MOST = 4096  # kept for one instruction


@dataclass(frozen=True, slots=True)
class Place:
    """What some lanes reach.

    Attributes:
        addresses: bytes of the machine's shared memory: an int where all lanes agree, else one for each lane.
        low, high: the first byte, and the one after the last.
        cells: of the order's granule. bytes: as an index of shared memory.
        aligned: whether all addresses are multiples of the size. inside: whether all lie in what a CTA may use.
    """

    addresses: Any
    low: int
    high: int
    cells: Any
    bytes: Any
    aligned: bool
    inside: bool


class Places:
    """The places that one instruction reaches.

    Args:
        granule: bytes of a cell.
        offset: that is added to the address in the register.
        line: of the instruction.
    """

    def __init__(self, granule: int, offset: int, line: int) -> None:
        self.granule, self.offset, self.line = granule, offset, line
        self._held: dict[object, Place] = {}

    def at(self, value: Value, lanes: int, size: int) -> Place:
        """Return what some lanes reach with addresses in a register, `size` bytes each.

        Raises:
            Undecided: the addresses are not known.
        """
        key: object
        if isinstance(value, int):
            key = value, size
        elif value is None:
            raise Undecided(self.line, "an address depends on data")
        else:
            key = value.tobytes(), lanes, size
        found = self._held.get(key)
        if found is None:
            if len(self._held) >= _MOST:
                self._held.clear()
            found = self._held[key] = self._made(value, lanes, size)
        return found

    def _made(self, value: Value, lanes: int, size: int) -> Place:
        granule = self.granule
        if not isinstance(value, int):
            chosen = value[lanes_of(lanes)].astype(np.int64)
            if not (chosen == chosen[0]).all():
                addresses = place_of(chosen + self.offset)
                first, count = addresses // granule, max(1, size // granule)
                cells = first if count == 1 else (first[:, None] + np.arange(count)).ravel()
                cells = distinct(cells)  # lanes may reach the same
                cells.flags.writeable = False
                aligned = not (addresses % max(size, 1)).any()
                low, high = int(addresses.min()), int(addresses.max()) + size
                touched: Any = slice(low, high)
                if len(set(addresses.tolist())) * size != high - low or not aligned:  # there are gaps
                    touched = (addresses[:, None] + np.arange(size)).ravel()
                return Place(addresses, low, high, cells, touched, aligned, bool(inside(addresses, size).all()))
            value = int(chosen[0])
        begin = place_of(value + self.offset)
        cells = slice(begin // granule, -(-(begin + size) // granule))
        touched, aligned = slice(begin, begin + size), begin % max(size, 1) == 0
        return Place(begin, begin, begin + size, cells, touched, aligned, inside(begin, size))
