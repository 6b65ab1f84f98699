"""Work of a bench in several processes: each ends when the time of its piece is over."""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import random
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

_T = TypeVar("_T")
SECONDS = 300.0  # of one piece


class Limits(NamedTuple):
    """How many processes work at the same time, and the seconds by the clock of one piece, and of all of them."""

    processes: int = 1
    seconds: float = SECONDS
    whole: float = math.inf


ALONE = Limits()


class Late(Exception):
    """A piece of work that was not done in time, or not begun, or whose process died."""


class NotBegun(Late):
    """A piece of work that was not begun, since the time of all was over."""


def options_of(parser: argparse.ArgumentParser, seconds: float = SECONDS) -> None:
    """Add what benches with a pool take."""
    parser.add_argument("--processes", type=int, default=1, help="that work at the same time; 1 when left out")
    parser.add_argument("--seconds", type=float, default=seconds, help="that one piece may take by the clock")
    parser.add_argument("--whole", type=float, default=math.inf, help="seconds that all pieces may take by the clock")
    parser.add_argument("--out", type=Path, help="folder for the JSON")


def sample_options_of(parser: argparse.ArgumentParser) -> None:
    """Add what benches take whose pieces are too many for one run."""
    parser.add_argument("--sample", type=int, help="that so many pieces are drawn of all; all when left out")
    parser.add_argument("--seed", type=int, default=0, help="of the sample and its order")


def sampled(pieces: Sequence[_T], options: argparse.Namespace) -> list[_T]:
    """Return all pieces as they come, or a sample in random order: a run that ends early has seen some of all."""
    if options.sample is None:
        return list(pieces)
    return random.Random(options.seed).sample(list(pieces), min(options.sample, len(pieces)))


def limits_of(options: argparse.Namespace) -> Limits:
    """Return what was given of them."""
    return Limits(options.processes, options.seconds, options.whole)


def done(
    work: Callable[[_T], Any], pieces: Sequence[_T], limits: Limits = ALONE, *, planning: bool = False
) -> Iterator[tuple[_T, Any]]:
    """Yield each piece with its result as they are done, begun in order: the largest first is quickest.

    The result is an exception where the work raised one, and `Late` where it took too long, or all together did. Work
    that plans is done by processes that begin anew, since an e-graph's threads outlive no fork, piece by piece.
    """
    # By a fork what is imported need not be imported again.
    context: Any = multiprocessing.get_context("spawn" if planning else "fork")
    over = time.monotonic() + limits.whole
    waiting = list(pieces)[::-1]
    running: dict[Any, tuple[_T, Any, float]] = {}
    idle: list[tuple[Any, Any]] = []
    try:
        while waiting or running:
            while waiting and len(running) < limits.processes:
                piece = waiting.pop()
                if time.monotonic() > over:
                    yield piece, NotBegun(f"not begun in {limits.whole:g} s")
                    continue
                if idle:
                    here, process = idle.pop()
                    here.send(piece)
                else:
                    here, there = context.Pipe()
                    process = context.Process(target=_run, args=(there, work, piece, planning), daemon=True)
                    process.start()
                    there.close()
                running[here] = piece, process, min(time.monotonic() + limits.seconds, over)
            left = min((end for _, _, end in running.values()), default=0.0) - time.monotonic()
            ready = wait(list(running), max(left, 0.0))
            late = [one for one, (_, _, end) in running.items() if one not in ready and end <= time.monotonic()]
            for connection in [*ready, *late]:
                piece, process, _ = running.pop(connection)
                found = _result(connection, process, late=connection in late, seconds=limits.seconds)
                if planning and not isinstance(found, Late):
                    idle.append((connection, process))
                else:
                    process.join()
                    connection.close()
                yield piece, found
    finally:
        for process in [*(one for _, one, _ in running.values()), *(one for _, one in idle)]:
            process.kill()


def noted(
    results: Iterable[tuple[_T, Any]], file: Path | None, row: Callable[[_T, Any], dict[str, Any]]
) -> Iterator[tuple[_T, Any]]:
    """Yield results as they come, each a line of JSON in a file at once: what is done is kept if a run is ended."""
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("", encoding="utf-8")
    for piece, found in results:
        if file is not None and not isinstance(found, NotBegun):
            with file.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(row(piece, found), default=str) + "\n")
        yield piece, found


def _run(to: Any, work: Callable[[_T], Any], piece: _T, more: bool) -> None:
    while True:
        try:
            found = work(piece)
        except Exception as error:  # whatever a bench raises is told where it is waited for
            found = RuntimeError(f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-3)}")
        to.send(found)
        if not more:
            return
        piece = to.recv()


def _result(connection: Any, process: Any, *, late: bool, seconds: float) -> Any:
    try:
        if late:
            process.kill()
            return Late(f"not done in {seconds:g} s, or when time was over")
        return connection.recv()
    except EOFError:
        return Late("its process died")
