"""A tile of a matrix operand as it lies in shared memory."""

from __future__ import annotations

from dataclasses import dataclass

from legalsat.checks import integer, one_of
from legalsat.errors import InvalidInput
from legalsat.layout import Layout
from legalsat.options import MAJORS, Major
from legalsat.units.matrix_descriptor import SPANS


@dataclass(frozen=True, slots=True)
class SharedTile:
    """A tile in shared memory: element (mn, k) lies at `layout(mn, k)`, and the swizzle exchanges chunks of addresses.

    Attributes:
        layout: offsets in elements; of two modes, rows of A or columns of B first, then K.
        swizzle: "none", "32B", "64B", "128B" or "128B_atom_32B", of byte addresses, as the copy engine swizzles.
        bits: of an element in shared memory: 4, 8, 16 or 32.
        element: the element type's name; "" where only its bits are known.

    Raises:
        InvalidInput: the layout has other modes, or no axis of it runs fastest.
    """

    layout: Layout
    swizzle: str
    bits: int
    element: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.layout, Layout) or self.layout.rank != 2:
            raise InvalidInput(f"layout is {self.layout}; give one of two modes: rows of A or columns of B, and K")
        one_of(self.swizzle, "swizzle", SPANS)
        if integer(self.bits, "bits of an element", low=1, high=128) not in (4, 8, 16, 32):
            raise InvalidInput(f"an element has {self.bits} bits; give a type of 4, 8, 16 or 32")
        if not any(map(self._contiguous, MAJORS)):
            raise InvalidInput(f"no axis of layout {self.layout} runs fastest; give one with a stride of 1")

    def _contiguous(self, axis: Major) -> bool:
        mode, at = (1, (0, 1)) if axis == "K" else (0, (1, 0))
        return self.layout[mode].size > 1 and self.layout(*at) - self.layout(0, 0) == 1

    @property
    def major(self) -> Major:
        """The axis whose elements lie side by side, "K" or "MN"; "K" where both do."""
        return "K" if self._contiguous("K") else "MN"

    def __str__(self) -> str:
        name = self.element or f"{self.bits}-bit elements"
        return f"{self.layout} of {name}, {self.major}-major, swizzle {self.swizzle}"


@dataclass(frozen=True, slots=True)
class UnreadTile:
    """A layout beside which no descriptor of a unit could be made, and why; "" where one could."""

    unit: str
    layout: str
    reason: str = ""

    def __str__(self) -> str:
        return f"layout {self.layout}"
