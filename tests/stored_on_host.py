"""Parts of kernels that store C, compiled for a host, and memory of C with guards, of which every write is counted."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

HOST = Path(__file__).with_name("stored_rows_host.h")
GUARD = 256  # bytes around C
KINDS: dict[int, tuple[str, Any]] = {1: ("uint8_t", np.uint8), 2: ("uint16_t", np.uint16), 4: ("uint32_t", np.uint32)}


def compiled(folder: Path, texts: Iterable[str]) -> ctypes.CDLL:
    """Return a library of texts that need the host's header."""
    source, made = folder / "stored.cpp", folder / "stored.so"
    source.write_text("\n".join([f'#include "{HOST}"', *texts]))
    subprocess.run(["g++", "-std=c++17", "-O0", "-w", "-shared", "-fPIC", "-o", str(made), str(source)], check=True)
    return ctypes.CDLL(str(made))


class Room:
    """Memory for lines of C, which the library's stores write from now on.

    Args:
        library: of `compiled`.
        count: lines. pitch: bytes from one to the next.
        late: bytes by which the first begins behind a multiple of `unit`.
    """

    def __init__(self, library: ctypes.CDLL, count: int, pitch: int, late: int, unit: int) -> None:
        self._library, self._pitch = library, pitch
        self._memory = np.zeros(4 * GUARD + count * pitch, np.uint8)
        self._first = -self._memory.ctypes.data % unit + GUARD + late
        self._times = np.zeros(len(self._memory), np.int32)
        places = (ctypes.c_void_p(one.ctypes.data) for one in (self._memory, self._times))
        library.begin(*places, ctypes.c_longlong(len(self._memory)))

    @property
    def address(self) -> ctypes.c_ulonglong:
        """The address of C."""
        return ctypes.c_ulonglong(self._memory.ctypes.data + self._first)

    def check(self, lines: Iterable[np.ndarray[Any, Any]], times: Iterable[int], case: object) -> None:
        """Assert that lines were written so many times each, from places that may be read, and nothing else was."""
        assert self._library.found() == 0
        own, whole = np.zeros_like(self._times), np.zeros_like(self._memory)
        for number, (line, count) in enumerate(zip(lines, times, strict=True)):
            place = slice(self._first + number * self._pitch, self._first + number * self._pitch + line.nbytes)
            own[place], whole[place] = count, np.frombuffer(line.tobytes(), np.uint8)
        assert np.array_equal(self._times, own), case
        assert np.array_equal(self._memory, whole), case
