"""Lazy sequences: as a tuple of the same entries is, and read no further than somebody looks."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from legalsat.plans.lazily import Lazily

INDEX = st.none() | st.integers(-7, 7)


@given(st.integers(0, 6), INDEX, INDEX, st.none() | st.sampled_from((-2, -1, 1, 2)))
def test_entries_are_those_of_a_tuple(count: int, start: int | None, stop: int | None, step: int | None) -> None:
    entries = tuple(range(count))
    assert Lazily(iter(entries))[start:stop:step] == entries[start:stop:step]
    assert tuple(Lazily(iter(entries))) == entries and len(Lazily(iter(entries))) == count
    for index in range(-count, count):
        assert Lazily(iter(entries))[index] == entries[index]


def test_nothing_is_found_before_somebody_looks() -> None:
    read: list[int] = []

    def each() -> Iterator[int]:
        for entry in range(9):
            read.append(entry)
            yield entry

    found = Lazily(each())
    assert (read, found[:3], read) == ([0, 1, 2], (0, 1, 2), [0, 1, 2])
    assert (found[1], next(iter(found)), read) == (1, 0, [0, 1, 2])
    assert (len(found), read) == (9, list(range(9)))
