"""Who answers chunks: this process, processes of this machine, or a Ray cluster. All give the same answers."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from legalsat.errors import LegalSatError

Task = Callable[[Any], bytes]
SECONDS_TO_REACH = 10.0  # a node of a cluster


class WorkerDied(LegalSatError):
    """A worker ended before it answered."""


@dataclass(frozen=True, slots=True)
class Answering:
    """A task that somebody has: `result` waits for its answer, `done` says whether there is one."""

    result: Callable[[], bytes]
    done: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Workers:
    """How many work at once, and how a task reaches one."""

    count: int
    submit: Callable[[Task, Any], Answering]


@contextmanager
def processes(count: int) -> Iterator[Workers]:
    """Yield that many processes; one task after the other in this process if it is one."""
    if count == 1:
        yield Workers(1, lambda task, asked: Answering(lambda: task(asked), lambda: False))
        return
    context = multiprocessing.get_context("spawn")  # forked threads of solvers may hang
    pool = ProcessPoolExecutor(count, mp_context=context, initializer=_ignore_interrupts, initargs=(os.getpid(),))

    def submit(task: Task, asked: Any) -> Answering:
        future = pool.submit(task, asked)

        def result() -> bytes:
            try:
                return future.result()
            except BrokenProcessPool as error:
                raise WorkerDied(
                    "a worker process ended, perhaps for lack of memory; run the sweep again, it goes on where it "
                    "stopped, or give fewer workers"
                ) from error

        return Answering(result, lambda: future.done() and future.exception() is None)

    try:
        yield Workers(count, submit)
    except BaseException:
        for process in list(pool._processes.values()):  # waiting for long tasks would hold Ctrl-C up
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _ignore_interrupts(parent: int) -> None:
    """Leave Ctrl-C to the parent, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.name == "posix":
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


@contextmanager
def ray_cluster(address: str | bool) -> Iterator[Workers]:
    """Yield the cores of a Ray cluster: at an address, or the one that Ray finds or starts if True.

    Raises:
        LegalSatError: ray is not installed, or there is no such cluster.
    """
    try:
        ray = importlib.import_module("ray")
    except ImportError as error:
        raise LegalSatError(f"ray is missing ({error}); install legalsat[ray]") from error
    own = not ray.is_initialized()
    if own:
        try:
            _reach(address)
            ray.init(address=None if address is True else address, logging_level="ERROR", log_to_driver=False)
        except (OSError, ValueError, RuntimeError) as error:
            raise LegalSatError(f"no Ray cluster at {address}: {error}; start one with `ray start --head`") from error
    try:
        remote = ray.remote(_remote)
        count = max(1, int(ray.cluster_resources().get("CPU", 1)))

        def submit(task: Task, asked: Any) -> Answering:
            reference = remote.remote(task, asked)
            return Answering(lambda: bytes(ray.get(reference)), lambda: bool(ray.wait([reference], timeout=0)[0]))

        yield Workers(count, submit)
    finally:
        if own:
            ray.shutdown()


def _reach(address: str | bool) -> None:
    """Raise `OSError` where nobody answers at an address; Ray itself tries for minutes."""
    host, _, port = str(address).removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=SECONDS_TO_REACH).close()


def _remote(task: Task, asked: Any) -> bytes:
    return task(asked)
