"""Margins: modes of a movement of which the source has only some words, as a padding has them on either side."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from legalsat.logic import round_up
from legalsat.operators.access import Mode
from legalsat.targets import GRANULE_BYTES

MAX_EXTENT = 2**31 - 1  # of merged modes, as coordinates of the copy engine
BYTE, NARROW = 8, 32


class Margin(NamedTuple):
    """Which words of a mode the source has: it holds so many, behind `before` others."""

    before: int
    held: int


class Padded(NamedTuple):
    """A mode of a padding: extent in words, strides in bits, and which of the words the source has.

    The source's stride counts from the corner of the padding, where nothing of the source lies.
    """

    extent: int
    source: int
    target: int
    margin: Margin

    @property
    def mode(self) -> Mode:
        """As a mode of an access, in one tile."""
        return Mode(self.extent, self.source, self.target, self.extent)

    @property
    def whole(self) -> bool:
        """Whether the source has every word."""
        return self.margin == (0, self.extent)


def padded_modes(
    axes: Iterable[tuple[int, int, int, int, int]], bits: int, *, zero: bool
) -> tuple[int, tuple[Padded, ...]]:
    """Return a padding as words: how many bits they have, and its modes, fastest in the target first.

    Axes that are not padded merge with the next one where memory goes on on both sides. What is padded with zeros
    travels in words that every backend moves: packed elements in bytes, if they fill these, 64 bits as two words.

    Args:
        axes: for each axis its extent in the target, strides of source and target, elements before the source's, and
            the source's; in elements.
        bits: of an element.
        zero: whether it is padded with zeros.
    """
    modes = [Padded(n, s * bits, t * bits, Margin(first, held)) for n, s, t, first, held in axes if n > 1]
    word = bits
    if zero and bits == 2 * NARROW:
        word = NARROW
        modes.append(Padded(2, word, word, Margin(0, 2)))
    merged: list[Padded] = []
    for mode in sorted(modes, key=lambda m: (m.target, m.source)):
        joined = _joined(merged[-1], mode) if merged else None
        if joined is None:
            merged.append(mode)
        else:
            merged[-1] = joined
    dense = any(mode.source == word for mode in merged if mode.margin.held > 1)
    merged = [_with_stride(mode, None if dense else word) for mode in merged] or [Padded(1, bits, bits, Margin(0, 1))]
    if zero and bits % BYTE and (recast := _in_bytes(merged, bits)) is not None:
        word, merged = BYTE, recast
    return word, tuple(merged)


def _joined(inner: Padded, outer: Padded) -> Padded | None:
    """Return two modes as one; None where the inner one is padded, or memory does not go on."""
    goes_on = outer.target == inner.extent * inner.target
    # One element of the source has no neighbour, so that its stride may be what suits.
    goes_on &= outer.margin.held == 1 or outer.source == inner.extent * inner.source
    if not inner.whole or not goes_on or inner.extent * outer.extent > MAX_EXTENT:
        return None
    margin = Margin(*(inner.extent * n for n in outer.margin))
    return Padded(inner.extent * outer.extent, inner.source, inner.target, margin)


def _in_bytes(modes: list[Padded], bits: int) -> list[Padded] | None:
    """Return packed elements as the bytes that they fill; None where some of these are shared."""
    fastest, *others = modes
    counts = [n * bits for n in (fastest.extent, *fastest.margin)]
    strides = [stride for mode in others for stride in (mode.source, mode.target)]
    if (fastest.source, fastest.target) != (bits, bits) or any(n % BYTE for n in (*counts, *strides)):
        return None
    extent, *margin = (n // BYTE for n in counts)
    return [Padded(extent, BYTE, BYTE, Margin(*margin)), *others]


def _with_stride(mode: Padded, word: int | None) -> Padded:
    """Return a mode with a stride of the source even where that has one element, so that vectors and maps suit it.

    That is the one of words side by side, if the target has these so and the source no others (`word` is theirs then).
    """
    if mode.margin.held > 1:
        return mode
    return mode._replace(source=word if mode.target == word else round_up(mode.target, 8 * GRANULE_BYTES))
