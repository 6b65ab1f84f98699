"""From a product to its kernel: a program that was chosen or kept, or a new plan's, by the first backend that can."""

from __future__ import annotations

import hashlib
import os
import threading
from functools import lru_cache
from pathlib import Path
from typing import cast

import legalsat
from legalsat.errors import LegalSatError
from legalsat.operators.gemm import Gemm
from legalsat.options import ProductBackend
from legalsat.runtime.cache import Cache, key_of
from legalsat.runtime.choice import BACKEND, candidates, kept
from legalsat.runtime.kernel import Kernel, at_hand
from legalsat.runtime.program import Program, read_program, write_program
from legalsat.target_names import table_named
from legalsat.targets import TARGETS, Target

MOST_AT_HAND, SERVES = 64, 1.25  # kernels that may serve while the best is compiled, and how long one may take
_PLANNING = threading.Lock()


def target_of(name: str, capability: tuple[int, ...]) -> Target:
    """Return the target that a GPU is.

    Args:
        name: as the driver calls it, such as "NVIDIA H200".
        capability: compute capability, such as (9, 0).

    Raises:
        LegalSatError: no table describes such a GPU.
    """
    architecture = "sm_" + "".join(map(str, capability))
    named = table_named(name, TARGETS)
    if named is not None and TARGETS[named].architecture in {architecture, f"{architecture}a"}:
        return TARGETS[named]
    found = TARGETS.get(f"{architecture}a") or TARGETS.get(architecture)
    if found is None:
        raise LegalSatError(f"{name} is {architecture}, which no table describes; use one of {', '.join(TARGETS)}")
    return found


def program_for(product: Gemm, target: Target, cache: Cache, backend: str) -> Program:
    """Return a backend's program of a product.

    It is that of the kernel that won a measurement, or is the cheapest of the list, of the backend that prints those:
    they need no solver. Else it is the plan's, and kept in the cache.

    Args:
        product: what to compute.
        target: the GPU.
        cache: of winners and programs.
        backend: one of `legalsat.backends.PRODUCT_PROGRAMS`.

    Raises:
        LegalSatError: nothing is legal for it, or the backend does not print its plan.
    """
    from legalsat.backends import program  # noqa: PLC0415 - backends import plans

    if backend == BACKEND:
        chosen = kept(product, target, cache) or next((made for _, _, made in candidates(product, target, 1)), None)
        if chosen is not None:
            return chosen
    key = key_of("program", legalsat.__version__, sources(), target.name, backend, repr(product))
    if (found := read_program(cache, key)) is not None:
        return found
    try:
        from legalsat.api import synthesize  # noqa: PLC0415 - what plans stands above, and needs the solvers
    except ImportError as error:
        raise LegalSatError(f"no plan of {product} is kept, and planning needs {error.name}; install it") from None
    planned: Program = program(synthesize(product, target, backend=cast("ProductBackend", backend)), backend)
    write_program(cache, key, planned)
    return planned


def kernel_for(product: Gemm, target: Target, device: int) -> tuple[Kernel, str]:
    """Return a product's kernel, loaded, and why no better backend's is there, "" where there is no better one.

    Args:
        product: what to compute.
        target: the GPU.
        device: its number.

    Raises:
        LegalSatError: of no backend is there a program, what compiles it, and a driver that takes that.
    """
    from legalsat.backends import PRODUCT_PROGRAMS, first_of  # noqa: PLC0415 - backends import plans

    cache = Cache.default()

    def loaded(backend: str) -> Kernel:
        with _PLANNING:  # while other threads wait for compilers
            made = program_for(product, target, cache, backend)
        return Kernel(made, cache=cache).load(device)

    return first_of(PRODUCT_PROGRAMS, loaded, "runs")


def kernel_at_hand(product: Gemm, target: Target, device: int) -> Kernel | None:
    """Return a kernel of a product whose images need no compiler, loaded: the best of those that may serve.

    Args:
        product: what to compute.
        target: the GPU.
        device: its number.
    """
    cache = Cache.default()
    with _PLANNING:
        listed = candidates(product, target, MOST_AT_HAND)
    for microseconds, _, program in listed:
        if microseconds <= SERVES * listed[0][0] and at_hand(program, cache):
            try:
                return Kernel(program, cache=cache).load(device)
            except LegalSatError:  # such as a cubin of a younger nvcc than the driver
                continue
    return None


@lru_cache(maxsize=1)
def sources() -> str:
    """Return a hash of LegalSAT's own source, on which every plan depends."""
    root = Path(legalsat.__file__).parent
    digest = hashlib.sha256()
    for folder, folders, files in os.walk(root, followlinks=True):
        folders.sort()
        for name in sorted(files):
            if name.endswith((".py", ".json", ".cuh")):
                path = Path(folder, name)
                digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
