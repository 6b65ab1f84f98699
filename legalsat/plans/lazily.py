"""A sequence whose entries are found when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TypeVar, overload

Entry = TypeVar("Entry")


class Lazily(Sequence[Entry]):
    """The entries of an iterator, which is read as far as somebody looks; its length needs all of them."""

    def __init__(self, entries: Iterator[Entry]) -> None:
        self._rest, self._found = entries, list[Entry]()

    def _read(self, count: int | None) -> list[Entry]:
        """Return the first entries, so many or all."""
        if count is None or count > len(self._found):
            self._found += islice(self._rest, None if count is None else count - len(self._found))
        return self._found

    @overload
    def __getitem__(self, index: int) -> Entry: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Entry]: ...
    def __getitem__(self, index: int | slice) -> Entry | Sequence[Entry]:
        """Return an entry, or those of a slice."""
        if isinstance(index, slice):
            ends = (index.start or 0, index.stop)
            backwards = ends[1] is None or min(ends[0], ends[1], index.step or 1) < 0
            return tuple(self._read(None if backwards else ends[1])[index])
        return self._read(None if index < 0 else index + 1)[index]

    def __iter__(self) -> Iterator[Entry]:
        """Yield the entries in order."""
        place = 0
        while place < len(self._read(place + 1)):
            yield self._found[place]
            place += 1

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._read(None))

    def __repr__(self) -> str:
        return f"<{len(self._found)} entries found so far>"
