"""A tile of a matrix operand as it lies in shared memory."""

from __future__ import annotations

from dataclasses import dataclass

from legalsat.checks import integer, one_of
from legalsat.errors import InvalidInput
from legalsat.layout import Layout
from legalsat.matrix_descriptor import SPANS


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
        if not self.major:
            raise InvalidInput(f"no axis of layout {self.layout} runs fastest; give one with a stride of 1")

    @property
    def major(self) -> str:
        """The axis whose elements lie side by side, "K" or "MN"; "" if none does."""
        mn, k = self.layout[0], self.layout[1]
        if k.size > 1 and self.layout(0, 1) - self.layout(0, 0) == 1:
            return "K"
        return "MN" if mn.size > 1 and self.layout(1, 0) - self.layout(0, 0) == 1 else ""

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
