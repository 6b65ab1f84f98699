"""CUDA C++ to a cubin: finds nvcc and CuTe's headers, and keeps what it compiled."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

from legalsat import files
from legalsat.errors import LegalSatError
from legalsat.runtime.cache import Cache, key_of
from legalsat.runtime.packs import packed
from legalsat.runtime.program import Image, Program

APART = True  # nvcc is a process of its own, so that several texts may be compiled at once
SECONDS = 300  # for one text; a product takes about three
OPTIONS = ("-std=c++17", "-O3", "--expt-relaxed-constexpr", "-diag-suppress=177")


class CompilationFailed(LegalSatError, RuntimeError):
    """A tool is missing, or refuses a text; the message says which, and what it said."""


def cubin_of(text: str, architecture: str, *, cache: Cache | None = None) -> bytes:
    """Return the cubin of a text: of a pack, or compiled once; all products of a class share one.

    Args:
        text: CUDA C++.
        architecture: such as "sm_90a".
        cache: where cubins are kept; the environment's when left out.

    Raises:
        CompilationFailed: nvcc or CuTe's headers are missing, or nvcc refuses the text.
    """
    found = packed(text, architecture)
    if found is not None:
        return found
    kept, key = cache or Cache.default(), _key(text, architecture)
    found = kept.read(key)
    if found is None:
        found = _compiled(text, architecture)
        kept.write(key, found)
    return found


def at_hand(program: Program, cache: Cache) -> bool:
    """Return whether the cubin of a program needs no compiler: a pack has it, or it was compiled here."""
    text, architecture = program.text, program.architecture
    if packed(text, architecture) is not None:
        return True
    try:
        return cache.read(_key(text, architecture)) is not None
    except CompilationFailed:  # without nvcc nobody can say whose cubin would do
        return False


def _key(text: str, architecture: str) -> str:
    return key_of("cubin", nvcc_version(), architecture, " ".join(OPTIONS), text)


def image_of(program: Program) -> Image:
    """Return the cubin of a program.

    Raises:
        CompilationFailed: as `cubin_of`.
    """
    return Image(cubin_of(program.text, program.architecture), program.recipes)


def tools_of(program: Program) -> str:
    """Return what makes the image of a program: a pack that has it, or nvcc with its version."""
    return "a pack" if packed(program.text, program.architecture) is not None else nvcc_version()


def _compiled(text: str, architecture: str) -> bytes:
    number = architecture.removeprefix("sm_")
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "kernel.cu"), Path(folder, "kernel.cubin")
        files.write(source, text)
        command = [
            nvcc(), *OPTIONS, "-cubin", f"-gencode=arch=compute_{number},code=sm_{number}",
            *(["-I", str(headers())] if "<cute/" in text else []), "-o", str(target), str(source),
        ]  # fmt: skip
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            raise CompilationFailed(f"nvcc did not end within {SECONDS} s; see whether the machine is busy") from None
        if done.returncode:
            raise CompilationFailed(f"nvcc refuses the text: {_first_error(done.stderr)}; see what CUDA it belongs to")
        return target.read_bytes()


def _first_error(said: str) -> str:
    lines = [line for line in said.splitlines() if "error" in line]
    return (lines or said.splitlines() or ["it says nothing"])[0].strip()


@lru_cache
def nvcc() -> str:
    """Return the path of nvcc: of CUDA_HOME, of the PATH, or of the package nvidia-cuda-nvcc.

    Raises:
        CompilationFailed: there is none.
    """
    places = [Path(home, "bin", "nvcc") for name in ("CUDA_HOME", "CUDA_PATH") if (home := os.environ.get(name))]
    if (found := shutil.which("nvcc")) is not None:
        places.append(Path(found))
    places.append(Path("/usr/local/cuda/bin/nvcc"))
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations or [] if spec else []:
        places += sorted(Path(folder).glob("*/bin/nvcc"))
    for place in places:
        if os.access(place, os.X_OK):
            return str(place)
    raise CompilationFailed(
        "no nvcc was found; install CUDA's compiler, set CUDA_HOME, or `pip install legalsat[cute]`"
    )


@lru_cache
def nvcc_version() -> str:
    """Return what nvcc says of itself in its last line, such as "Build cuda_13.0.r13.0/compiler.36424714_0"."""
    done = subprocess.run([nvcc(), "--version"], capture_output=True, text=True, check=False)
    return done.stdout.strip().splitlines()[-1] if done.stdout.strip() else "unknown"


@lru_cache
def headers() -> Path:
    """Return the folder of CuTe's headers: CUTLASS_PATH's, or the package nvidia-cutlass's.

    Raises:
        CompilationFailed: there is none.
    """
    places = [Path(home, "include") for name in ("CUTLASS_PATH",) if (home := os.environ.get(name))]
    spec = importlib.util.find_spec("cutlass_library")
    places += [Path(one, "source", "include") for one in (spec.submodule_search_locations or [] if spec else [])]
    for place in places:
        if (place / "cute" / "arch" / "mma_sm90_gmma.hpp").is_file():
            return place
    raise CompilationFailed("CuTe's headers were not found; `pip install nvidia-cutlass`, or set CUTLASS_PATH")
