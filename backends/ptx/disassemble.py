"""Disassembles cubins with the nvdisasm that Triton bundles, or the one of a CUDA toolkit.

nvdisasm rather than cuobjdump: it alone says where computed jumps lead.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

from legalsat import files
from legalsat.analyses.sass.text import CUBIN_MAGIC
from legalsat.errors import LegalSatError

SECONDS = 120  # for one cubin; a kernel takes a few hundredths
MOST_TOLD = 200  # characters of what nvdisasm says


class DisassemblyFailed(LegalSatError):
    """nvdisasm refused a cubin, or there is no nvdisasm; the message holds what it said."""


def disassemble(cubin: bytes) -> str:
    """Return the machine code of a cubin in text.

    Raises:
        DisassemblyFailed: these bytes are no cubin, or no nvdisasm is installed.
    """
    if not cubin.startswith(CUBIN_MAGIC):
        raise DisassemblyFailed("these bytes are no cubin: they do not begin as an ELF file does; give a cubin")
    tool = disassembler()
    if tool is None:
        raise DisassemblyFailed("no nvdisasm is installed; install triton or a CUDA toolkit, or give the text itself")
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder, "kernel.cubin")
        files.write(binary, cubin)
        try:
            done = subprocess.run([tool, "-c", str(binary)], capture_output=True, check=False, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            raise DisassemblyFailed(f"nvdisasm took more than {SECONDS} s; give the text itself") from None
    if done.returncode:
        said = " ".join(done.stderr.decode(errors="replace").replace(str(binary), "it").split())[:MOST_TOLD]
        raise DisassemblyFailed(f"no cubin of an NVIDIA GPU ({said}); give one, or what cuobjdump prints of this")
    return done.stdout.decode(errors="replace")


def disassembler() -> str | None:
    """Return an nvdisasm, None if none is installed. Triton is not imported for it."""
    spec = find_spec("triton")
    if spec and spec.origin:
        bundled = Path(spec.origin).parent / "backends" / "nvidia" / "bin" / "nvdisasm"
        if bundled.exists():
            return str(bundled)
    return shutil.which("nvdisasm")
