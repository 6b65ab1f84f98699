"""Work of benches in processes: all pieces have a result, whatever becomes of them."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

from bench import pool


def piece(n: int) -> Any:
    if n == 3:
        raise ValueError("three")
    if n == 4:
        os._exit(7)
    if n == 5:
        time.sleep(60)
    return n * n, "x" * 100_000  # more than a pipe holds at once


@pytest.mark.parametrize("processes", [1, 3])
def test_every_piece_has_a_result(processes: int) -> None:
    begin = time.monotonic()
    found = dict(pool.done(piece, [5, 0, 1, 3, 2, 4], pool.Limits(processes, 2)))
    assert time.monotonic() - begin < 30
    assert {n: found[n][0] for n in (0, 1, 2)} == {0: 0, 1: 1, 2: 4}
    assert "ValueError: three" in str(found[3]) and isinstance(found[3], RuntimeError)
    assert isinstance(found[4], pool.Late) and "died" in str(found[4])
    assert isinstance(found[5], pool.Late) and "2 s" in str(found[5])


def test_when_time_is_over_nothing_more_is_begun() -> None:
    begin = time.monotonic()
    found = list(pool.done(piece, [5, 5, 5, 5], pool.Limits(2, 50, whole=1)))
    assert time.monotonic() - begin < 20
    assert [n for n, _ in found] == [5] * 4 and all(isinstance(one, pool.Late) for _, one in found)


def test_nothing_is_done_of_nothing() -> None:
    assert list(pool.done(piece, [], pool.Limits(4))) == []


def test_who_stops_listening_leaves_nothing_behind() -> None:
    listened = pool.done(piece, [0, 5, 5], pool.Limits(2, 50))
    next(listened)
    begin = time.monotonic()
    listened.close()  # type: ignore[attr-defined]
    assert time.monotonic() - begin < 10
