"""Assembles PTX with the ptxas that Triton bundles, or the one of a CUDA toolkit."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from legalsat import files
from legalsat.errors import LegalSatError

SECONDS = 120  # for one text; a kernel takes a few tenths


class AssemblyFailed(LegalSatError):
    """ptxas refused a text, or there is no ptxas; the message holds what it said."""


def assemble(ptx: str, architecture: str) -> bytes:
    """Return the cubin of a PTX text.

    Args:
        ptx: the text.
        architecture: what to assemble for, such as "sm_90a".

    Raises:
        AssemblyFailed: no ptxas knows the architecture, or it refuses the text.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, binary = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        files.write(source, ptx)
        command = [tool_for(architecture), f"-arch={architecture}", "-o", str(binary), str(source)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            raise AssemblyFailed(f"ptxas took more than {SECONDS} s; give it less unrolled code") from None
        if done.returncode:
            raise AssemblyFailed(f"ptxas refuses the text: {done.stderr.strip().splitlines()[:8]}; mend the kernel")
        return binary.read_bytes()


@lru_cache
def tool_for(architecture: str) -> str:
    """Return a ptxas that knows the architecture."""
    for tool in _tools():
        told = subprocess.run([tool, "--help"], capture_output=True, text=True, check=False).stdout
        if re.search(rf"\b{architecture}\b", told):
            return tool
    raise AssemblyFailed(f"no ptxas for {architecture} is installed; install legalsat[triton] or a CUDA 13 toolkit")


def _tools() -> Iterator[str]:
    spec = find_spec("triton")
    if spec and spec.origin:
        yield from map(str, sorted(Path(spec.origin).parent.glob("backends/nvidia/bin/ptxas*")))
    if found := shutil.which("ptxas"):
        yield found
