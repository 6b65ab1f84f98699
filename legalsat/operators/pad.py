"""Padding: a tensor in the middle of a larger one, and a value around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from legalsat.checks import integer
from legalsat.dtypes import pattern_of
from legalsat.errors import InvalidInput
from legalsat.operators.access import Access
from legalsat.operators.moves import alike, as_tensor
from legalsat.operators.operator import Move, fastest_first
from legalsat.printable import shown
from legalsat.tensor import Tensor, plain
from legalsat.units.windows import MAX_PIXELS, paddings, sides
from legalsat.view.margins import Margin, Padded, padded_modes

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, init=False)
class Pad(Move):
    """Copy a tensor into the middle of a larger one, and write a value around it.

    Zeros may travel by boxes of tensor maps, as the copy engine fills in what lies outside a tensor: where both tensors
    have a map, and the padding in front of the fastest axis is a multiple of 16 bytes. All else goes by threads.

    Attributes:
        source: the tensor to read.
        padding: elements before and after it along each axis. An argument may give one number for both sides or for
            all axes.
        value: what is written there. Of floats of 8 bits or fewer only 0 is known.
        target: the tensor to write; dense and row-major when left out.

    Raises:
        InvalidInput: the source has dims, a padded axis more than 2^31 - 1 elements, or a number no meaning.
    """

    source: Tensor
    padding: tuple[tuple[int, int], ...]
    value: float
    target: Tensor

    def __init__(self, source: Any, padding: Any, value: float = 0, target: Tensor | None = None) -> None:
        source = as_tensor(source)
        if source.dims:
            raise InvalidInput(f"source is {source}; bind its dims first")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidInput(
                f"value is {shown(value)}; give a plain int or float, as 1 for True or value.item() of an array"
            )
        put = object.__setattr__
        put(self, "source", source)
        put(self, "padding", paddings(padding, source.rank))
        put(self, "value", value)
        shape = [n + sum(beside) for n, beside in zip(plain(source.shape), self.padding, strict=True)]
        for axis, (n, beside) in enumerate(zip(shape, self.padding, strict=True)):
            if any(beside) and n > MAX_PIXELS:
                raise InvalidInput(f"axis {axis} has {n} elements with its padding; give at most {MAX_PIXELS}")
        result = Tensor(shape, source.dtype)
        put(self, "target", alike(result, result if target is None else target))

    @property
    def order(self) -> tuple[int, ...]:
        """The source's."""
        return tuple(range(self.source.rank))

    @property
    def around(self) -> tuple[tuple[int, int], ...]:
        """The padding."""
        return self.padding

    def fronted(self, axis: int, before: int) -> Pad:
        """Return the padding with so many elements in front of an axis, into dense memory."""
        axis = integer(axis, "axis", low=0, high=self.source.rank - 1)
        sides_of = [(before if at == axis else pair[0], pair[1]) for at, pair in enumerate(self.padding)]
        return Pad(self.source, sides_of, self.value)

    @property
    def fills(self) -> bool:
        """Whatever the padding, which may be none."""
        return True

    @property
    def pattern(self) -> int:
        """The bits of an element of the value; raises `InvalidInput` where the type has no such number."""
        return pattern_of(self.value, self.source.dtype)

    def _meaning(self, *operands: NDArray[Any]) -> NDArray[Any]:
        """Return numpy's padding; of numbers that are no floats, with the value's bits."""
        import numpy as np  # noqa: PLC0415 - only what a user computes needs it

        (source,) = operands
        value = self.value if source.dtype.kind == "f" else np.array(self.pattern, np.uint64).astype(source.dtype)
        return np.pad(source, self.padding, constant_values=value) if self.padding else source

    def access(self, tile: tuple[int, ...] | None = None) -> Access:
        """Return the modes of the whole padding, those merged that go on on both sides."""
        word, modes = self._padded()
        return Access(word, tuple(mode.mode for mode in modes))

    def margins(self, access: Access) -> tuple[Margin, ...] | None:
        """Return which words of each mode the source has."""
        if not isinstance(access, Access):
            raise InvalidInput(f"access is {shown(access)}; give an Access, as access() returns")
        word, modes = self._padded()
        if (word, [mode[:3] for mode in modes]) != (access.word, [mode[:3] for mode in access.modes]):
            return None
        return tuple(mode.margin for mode in modes)

    def _padded(self) -> tuple[int, list[Padded]]:
        source, bits = self.source, self.source.dtype.bits
        axes = zip(*map(plain, (self.target.shape, source.strides, self.target.strides)), strict=True)
        held = zip(axes, self.padding, plain(source.shape), strict=True)
        rows = [(n, s, t, before, count) for (n, s, t), (before, _), count in held]
        word, modes = padded_modes(rows, bits, zero=self.pattern == 0)
        return word, sorted(modes, key=lambda padded: fastest_first(padded.mode))

    def __str__(self) -> str:
        around = " x ".join(sides(pair) for pair in self.padding) or "nothing"
        return f"padding of {self.source} by {around} with {self.value}"
