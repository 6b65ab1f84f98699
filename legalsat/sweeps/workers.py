"""Who answers chunks: this process, processes of this machine, or a Ray cluster. All give the same answers."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.spawn import get_executable
from queue import Empty, SimpleQueue
from typing import IO, Any

from legalsat.errors import LegalSatError
from legalsat.extras import extra

Task = Callable[[Any], bytes]
SECONDS_TO_REACH = 10.0  # a node of a cluster
_ANSWER, _ERROR, _UNKNOWN = "answer", "error", "unknown"


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
    """Yield that many processes; one task after the other in this process if it is one.

    They import this package alone and not the script that asks, which so needs no `__main__` guard.
    """
    if count == 1:
        yield Workers(1, lambda task, asked: Answering(lambda: task(asked), lambda: False))
        return
    started: list[_Process] = []
    idle: SimpleQueue[_Process] = SimpleQueue()

    def ask(task: Task, asked: Any) -> Any:
        try:
            process = idle.get_nowait()
        except Empty:
            process = _Process()
            started.append(process)
        answer = process.ask(task, asked)
        idle.put(process)
        return answer

    def submit(task: Task, asked: Any) -> Answering:
        future = waiting.submit(ask, task, asked)

        def result() -> bytes:
            kind, answer = future.result()
            if kind == _ERROR:
                raise answer
            return bytes(answer) if kind == _ANSWER else task(asked)

        return Answering(result, lambda: future.done() and future.exception() is None and future.result()[0] == _ANSWER)

    waiting = ThreadPoolExecutor(count)  # each thread waits for one process
    try:
        yield Workers(count, submit)
    except BaseException:
        for process in started:  # waiting for long tasks would hold Ctrl-C up
            process.kill()
        raise
    finally:
        waiting.shutdown(wait=True, cancel_futures=True)
        for process in started:
            process.end()


class _Process:
    """A Python process that answers tasks: pickled, each after its length, through its standard input and output."""

    def __init__(self) -> None:
        path = [entry for entry in sys.path if isinstance(entry, str)]
        code = f"import sys; sys.path[:] = {path!a}; from {__name__} import serve; serve({os.getpid()})"
        command = [os.fsdecode(get_executable()), "-c", code]
        # Its own group leaves Ctrl-C to the parent.
        group: dict[str, Any] = {"process_group": 0} if os.name == "posix" else {}
        try:
            self._popen = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **group)
        except OSError as error:
            raise WorkerDied(f"no worker process can be started: {error}; give workers=1") from error

    def ask(self, task: Task, asked: Any) -> tuple[str, Any]:
        """Return what came of a task: its answer, an error, or that the process does not know what it is about."""
        assert self._popen.stdin is not None and self._popen.stdout is not None
        try:
            _send(self._popen.stdin, pickle.dumps((task, asked)))
            answer: tuple[str, Any] = pickle.loads(_received(self._popen.stdout))
        except (EOFError, OSError) as error:
            raise WorkerDied(
                "a worker process ended, perhaps for lack of memory; run the sweep again, it goes on where it "
                "stopped, or give fewer workers"
            ) from error
        return answer

    def kill(self) -> None:
        self._popen.kill()

    def end(self) -> None:
        with suppress(OSError):
            self._popen.communicate()  # the end of its input ends it


def _send(stream: IO[bytes], data: bytes) -> None:
    stream.write(len(data).to_bytes(8, "little") + data)
    stream.flush()


def _received(stream: IO[bytes]) -> bytes:
    length = stream.read(8)
    data = stream.read(int.from_bytes(length, "little"))
    if len(length) < 8 or len(data) < int.from_bytes(length, "little"):
        raise EOFError
    return data


def serve(parent: int) -> None:
    """Answer the tasks that come through standard input until it ends, or the parent does."""
    if os.name == "posix":
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a task prints is no answer
    with suppress(EOFError), answers:
        while True:
            _send(answers, _answer(_received(sys.stdin.buffer)))


def _answer(message: bytes) -> bytes:
    try:
        task, asked = pickle.loads(message)
    except Exception:
        return pickle.dumps((_UNKNOWN, None))
    try:
        return pickle.dumps((_ANSWER, task(asked)))
    except Exception as error:
        try:
            return pickle.dumps((_ERROR, error))
        except Exception:
            return pickle.dumps((_ERROR, LegalSatError(f"a worker failed: {type(error).__name__}: {error}")))


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


@contextmanager
def ray_cluster(address: str | bool) -> Iterator[Workers]:
    """Yield the cores of a Ray cluster: at an address, or the one that Ray finds or starts if True.

    Raises:
        MissingExtra: ray is not installed.
        LegalSatError: there is no such cluster.
    """
    ray = extra("ray", "ray")
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
