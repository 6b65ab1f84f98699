"""Work of benches in several processes: what is done, what is late, and what is kept of a run that ends early."""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import pytest

from bench.pool import Late, Limits, NotBegun, done, noted, sampled


def worked(piece: int) -> tuple[int, int]:
    if piece < 0:
        raise ValueError(piece)
    if piece > 100:
        time.sleep(60)
    return piece * piece, os.getpid()


@pytest.mark.parametrize("planning", [False, True])
def test_each_piece_has_its_result_whatever_others_do(planning: bool) -> None:
    found = dict(done(worked, [1, -1, 2, 101, 3], Limits(1, seconds=5.0), planning=planning))
    assert {piece: found[piece][0] for piece in (1, 2, 3)} == {1: 1, 2: 4, 3: 9}
    assert isinstance(found[-1], RuntimeError) and "ValueError" in str(found[-1])
    assert isinstance(found[101], Late)
    # Processes that begin anew are kept, until one of them is late.
    assert (found[1][1] == found[2][1]) == planning and found[3][1] not in {os.getpid(), found[1][1]}


def test_what_is_done_is_written_when_time_is_over(tmp_path: Path) -> None:
    file = tmp_path / "rows" / "found.jsonl"
    limits = Limits(1, whole=2.0)
    rows = dict(noted(done(worked, [1, 2, 101, 3], limits), file, lambda piece, one: {"piece": piece, "found": one}))
    assert isinstance(rows[101], Late) and isinstance(rows[3], NotBegun)
    assert [json.loads(line)["piece"] for line in file.read_text().splitlines()] == [1, 2, 101]


def test_a_sample_is_the_seeds() -> None:
    options = argparse.Namespace(sample=5, seed=1)
    assert sampled(range(100), options) == sampled(range(100), options)
    assert len(sampled(range(3), options)) == 3
    assert sampled(range(100), argparse.Namespace(sample=None, seed=1)) == [*range(100)]
