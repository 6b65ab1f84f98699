"""Words of shared memory, moved to where a granule begins that lies some bytes late among them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from legalsat.backends.ptx.text import Text, Value

WORD = 4  # bytes


class Shift:
    """By how much words are moved to the front, found once.

    Args:
        text: to which instructions go. late: bytes, less than a granule. whole: whether they are whole words.
    """

    def __init__(self, text: Text, late: Value, *, whole: bool = False) -> None:
        self._text = text
        self._further = [
            (skipped, text.when("ne.s32", text.put("and.b32", late, WORD * skipped), 0)) for skipped in (2, 1)
        ]
        self._bits = "" if whole else text.mul(text.rem(late, WORD), 8)

    def moved(self, words: Sequence[str]) -> list[str]:
        """Return the words that begin so late, four fewer."""
        text, found = self._text, list(words)
        for skipped, further in self._further:
            beside = zip(found, found[skipped:], strict=False)
            found = [text.put("selp.b32", later, word, further) for word, later in beside]
        if not self._bits:
            return found[:-1]
        return [text.put("shf.r.wrap.b32", word, later, self._bits) for word, later in pairwise(found)]
