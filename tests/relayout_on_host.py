"""Kernels of relayouts on a host: the same C++ by g++, thread by thread, on numpy memory with guards around it."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legalsat.backends.cute.granules import TYPES, emit
from legalsat.extract.kernels.movement_pipeline import granules_pipeline
from legalsat.plans.movement_plan import Granules
from legalsat.program.leaves import Leaf

GUARD = 64
UNTOUCHED = 0xA5
C_TYPES = {"u64": ctypes.c_uint64, "i64": ctypes.c_int64, "u32": ctypes.c_uint32}
HOST = Path(__file__).with_name("relayout_host.h")

Bytes = NDArray[np.uint8]


def compiled(kernels: Iterable[Leaf], folder: Path) -> ctypes.CDLL:
    """Return a library in which each kernel has a function that runs its whole grid."""
    texts = [f'#include "{HOST}"']
    for kernel in dict.fromkeys(kernels):
        names = ", ".join(name for _, name in kernel.parameters)
        parameters = ", ".join(f"{TYPES[kind]} {name}" for kind, name in kernel.parameters)
        texts += [
            emit(granules_pipeline(kernel), kernel),
            f'extern "C" unsigned long long run_{kernel.entry}(unsigned blocks, unsigned shared, {parameters}) {{\n'
            f"    return run_kernel(blocks, shared, {kernel.entry}, {names});\n}}",
        ]
    source, library = folder / "kernels.cpp", folder / "kernels.so"
    source.write_text("\n".join(texts))
    flags = ["-std=c++17", "-O0", "-w", "-shared", "-fPIC", "-fno-strict-aliasing", "-U_FORTIFY_SOURCE"]
    subprocess.run(["g++", *flags, "-o", str(library), str(source)], check=True)
    return ctypes.CDLL(str(library))


class Side:
    """A tensor of elements at some place in memory, which `guards` surround."""

    def __init__(
        self,
        element: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        offset: int,
        rng: np.random.Generator | None,
    ) -> None:
        """Take its strides in elements, the bytes from a multiple of 256 to its address, and what fills it."""
        span = (sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1) * element
        self.memory: Bytes = np.full(span + 2 * GUARD + 512, UNTOUCHED, np.uint8)
        if rng is not None:
            self.memory[:] = rng.integers(0, 256, self.memory.size, dtype=np.uint8)
        start = -self.memory.ctypes.data % 256
        self.at = start + (256 if offset < GUARD else 0) + offset
        self.address = self.memory.ctypes.data + self.at
        self.shape, self.strides, self.element = shape, strides, element
        self.belongs: Bytes = np.zeros_like(self.memory)
        self.bytes_of(self.belongs)[...] = 1
        self.written: Bytes = np.zeros_like(self.memory)

    def bytes_of(self, memory: Bytes) -> Bytes:
        """Return a view of an array of this size: the tensor's axes, then the bytes of an element."""
        strides = (*(s * self.element for s in self.strides), 1)
        shape = (*self.shape, self.element)
        return np.lib.stride_tricks.as_strided(memory[self.at :], shape, strides, writeable=True)

    def watch(self, library: ctypes.CDLL, which: int) -> None:
        """Let the library judge accesses to it: 0 for the source, 1 for the target."""
        pointers = (ctypes.c_void_p(one.ctypes.data) for one in (self.belongs, self.written))
        size = ctypes.c_uint64(self.memory.size)
        library.watch(which, ctypes.c_uint64(self.memory.ctypes.data), size, *pointers)


def faults(library: ctypes.CDLL, launch: Granules, source: Side, target: Side, expected: Any) -> str:
    """Run a launch; return what is wrong, "" if the target holds what is expected and all accesses were lawful.

    Args:
        library: of `compiled`.
        launch: which kernel, and with what.
        source, target: what it reads and writes.
        expected: the target's bytes: its axes, then the bytes of an element.
    """
    target.memory[:] = UNTOUCHED
    target.written[:] = 0
    source.watch(library, 0)
    target.watch(library, 1)
    whole = target.memory.copy()
    target.bytes_of(whole)[...] = expected
    run = getattr(library, f"run_{launch.kernel.entry}")
    run.restype = ctypes.c_uint64
    values = (source.address, target.address, *launch.numbers)
    arguments = (C_TYPES[kind](value) for (kind, _), value in zip(launch.kernel.parameters, values, strict=True))
    strays = run(ctypes.c_uint32(launch.blocks), ctypes.c_uint32(sum(launch.kernel.buffers)), *arguments)
    if strays:
        return f"{strays} accesses that belong nowhere"
    if not np.array_equal(target.memory, whole):
        wrong = np.flatnonzero(target.memory != whole)
        return f"{wrong.size} bytes wrong, first at {wrong[0] - target.at}"
    again = np.flatnonzero(target.written != target.belongs)
    return f"{again.size} bytes written more or less than once" if again.size else ""
