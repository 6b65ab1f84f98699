"""From a product to its kernel: the program that was made for it before, from disk, or a new plan."""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache
from pathlib import Path

import legalsat
from legalsat.errors import LegalSatError
from legalsat.gemm import Gemm
from legalsat.runtime.cache import Cache, key_of
from legalsat.runtime.choice import candidates, kept
from legalsat.runtime.kernel import Kernel
from legalsat.runtime.program import Program, read_program, write_program
from legalsat.targets import TARGETS, Target


def target_of(name: str, capability: tuple[int, ...]) -> Target:
    """Return the target that a GPU is.

    Args:
        name: as the driver calls it, such as "NVIDIA H200".
        capability: compute capability, such as (9, 0).

    Raises:
        LegalSatError: no table describes such a GPU.
    """
    architecture = "sm_" + "".join(map(str, capability))
    words = name.lower().replace("-", " ").replace("geforce rtx ", "rtx").split()
    for target in TARGETS.values():
        same = target.architecture in {architecture, f"{architecture}a"}
        if same and target.device is not None and target.name in words:
            return target
    found = TARGETS.get(f"{architecture}a") or TARGETS.get(architecture)
    if found is None:
        raise LegalSatError(f"{name} is {architecture}, which no table describes; use one of {', '.join(TARGETS)}")
    return found


def program_for(product: Gemm, target: Target, cache: Cache) -> Program:
    """Return the program of a product: of the kernel that won a measurement, else of its plan, kept in the cache.

    Raises:
        LegalSatError: nothing is legal for it, or no backend prints its plan.
    """
    if (winner := kept(product, target, cache)) is not None:
        return winner
    if cheapest := candidates(product, target, 1):  # which needs no solver
        return cheapest[0][2]
    key = key_of("program", legalsat.__version__, sources(), target.name, repr(product))
    if (found := read_program(cache, key)) is not None:
        return found
    try:
        from legalsat.api import synthesize  # noqa: PLC0415 - what plans stands above, and needs the solvers
    except ImportError as error:
        raise LegalSatError(f"no plan of {product} is kept, and planning needs {error.name}; install it") from None
    from legalsat.backends import program  # noqa: PLC0415

    planned = program(synthesize(product, target))
    write_program(cache, key, planned)
    return planned


def kernel_for(product: Gemm, target: Target) -> Kernel:
    """Return a product's kernel, built.

    Raises:
        LegalSatError: as `program_for`, or what compiles the text is missing.
    """
    cache = Cache.default()
    return Kernel(program_for(product, target, cache), cache=cache).build()


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
