"""Work of a bench in several processes: each piece in one of its own, which ends when its time is over."""

from __future__ import annotations

import argparse
import math
import multiprocessing
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
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


def options_of(parser: argparse.ArgumentParser, seconds: float = SECONDS) -> None:
    """Add what benches with a pool take."""
    parser.add_argument("--processes", type=int, default=1, help="that work at the same time; 1 when left out")
    parser.add_argument("--seconds", type=float, default=seconds, help="that one piece may take by the clock")
    parser.add_argument("--whole", type=float, default=math.inf, help="seconds that all pieces may take by the clock")
    parser.add_argument("--out", type=Path, help="folder for the JSON")


def limits_of(options: argparse.Namespace) -> Limits:
    """Return what was given of them."""
    return Limits(options.processes, options.seconds, options.whole)


def done(work: Callable[[_T], Any], pieces: Sequence[_T], limits: Limits = ALONE) -> Iterator[tuple[_T, Any]]:
    """Yield each piece with its result as they are done, begun in order: the largest first is quickest.

    The result is an exception where the work raised one, and `Late` where it took too long, or all together did.
    """
    context = multiprocessing.get_context("fork")  # what is imported need not be imported again
    over = time.monotonic() + limits.whole
    waiting = list(pieces)[::-1]
    running: dict[Any, tuple[_T, Any, float]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < limits.processes:
                piece = waiting.pop()
                if time.monotonic() > over:
                    yield piece, Late(f"not begun in {limits.whole:g} s")
                    continue
                here, there = context.Pipe(duplex=False)
                process = context.Process(target=_run, args=(there, work, piece), daemon=True)
                process.start()
                there.close()
                running[here] = piece, process, min(time.monotonic() + limits.seconds, over)
            left = min((end for _, _, end in running.values()), default=0.0) - time.monotonic()
            ready = wait(list(running), max(left, 0.0))
            late = [one for one, (_, _, end) in running.items() if one not in ready and end <= time.monotonic()]
            for connection in [*ready, *late]:
                piece, process, _ = running.pop(connection)
                yield piece, _result(connection, process, late=connection in late, seconds=limits.seconds)
    finally:
        for _, process, _ in running.values():
            process.kill()


def _run(to: Connection, work: Callable[[_T], Any], piece: _T) -> None:
    try:
        found = work(piece)
    except Exception as error:  # whatever a bench raises is told where it is waited for
        found = RuntimeError(f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-3)}")
    to.send(found)


def _result(connection: Any, process: Any, *, late: bool, seconds: float) -> Any:
    try:
        if late:
            process.kill()
            return Late(f"not done in {seconds:g} s, or when time was over")
        return connection.recv()
    except EOFError:
        return Late("its process died")
    finally:
        process.join()
        connection.close()
