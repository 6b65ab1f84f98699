"""Compiles the kernel of an emitted module for a GPU that need not be there: PTX, cubin, what Triton decided."""

from __future__ import annotations

import importlib.util
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from legalsat import files
from legalsat.backends.triton.body import kernel_name
from legalsat.backends.triton.kernel import CopyKernel
from legalsat.backends.triton.text import emit
from legalsat.backends.triton.threads import KERNEL, VectorKernel, emit_threads
from legalsat.checks import integer
from legalsat.errors import InvalidInput
from legalsat.extras import extra
from legalsat.targets import Target


@dataclass(frozen=True)
class CompiledKernel:
    """What Triton made of a kernel.

    Attributes:
        ptx: its PTX text.
        cubin: its binary, for one compute capability.
        shared_bytes: shared memory of one CTA.
        boxes: the box of the load's tensor map and, where there is one, of the store's, slowest dimension first.
        metadata: everything else that Triton reports.
    """

    ptx: str
    cubin: bytes
    shared_bytes: int
    boxes: tuple[tuple[int, ...], ...]
    metadata: dict[str, Any]


def load_module(text: str, folder: Path, name: str = "legalsat_kernel") -> ModuleType:
    """Write an emitted module to `folder` and import it; Triton reads a kernel's source back from its file."""
    path = folder / f"{name}.py"
    files.write(path, text)
    # Python takes the bytecode of a text of the same length, written in the same second, for this one's.
    Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class CompiledVectors:
    """What Triton made of a kernel by threads.

    Attributes:
        assembly: its PTX, or an AMD chip's assembly.
        binary: its binary, for one architecture.
        shared_bytes: shared memory of one program.
    """

    assembly: str
    binary: bytes
    shared_bytes: int


def compile_vectors(kernel: VectorKernel, target: Target) -> CompiledVectors:
    """Emit `kernel` and compile it with Triton for a GPU of either maker; needs no GPU.

    The tensors' addresses are taken for any: what is known of them stands in the kernel's text.
    """
    triton = extra("triton", "triton")
    from triton.backends.compiler import GPUTarget  # noqa: PLC0415
    from triton.compiler import ASTSource  # noqa: PLC0415

    number = re.fullmatch(r"sm_(\d+)\D?", target.architecture)
    gpu = GPUTarget("cuda", int(number[1]), 32) if number else GPUTarget("hip", target.architecture, target.lanes)
    with tempfile.TemporaryDirectory() as folder:
        module = load_module(emit_threads(kernel), Path(folder))
        word = f"*i{kernel.word_bits}"
        source = ASTSource(getattr(module, KERNEL), {"source": word, "target": word}, {}, {})
        compiled = triton.compile(source, target=gpu, options={"num_warps": kernel.warps, "enable_fp_fusion": False})
    text, binary = ("ptx", "cubin") if number else ("amdgcn", "hsaco")
    return CompiledVectors(compiled.asm[text], compiled.asm[binary], compiled.metadata.shared)


def compile_kernel(kernel: CopyKernel, capability: int = 90) -> CompiledKernel:
    """Emit `kernel` and compile it with Triton; needs no GPU.

    Args:
        kernel: what to compile.
        capability: compute capability times ten: 90 for an H100 or H200, 100 for a B200.

    Raises:
        InvalidInput: the capability has no tensor copy engine.
    """
    triton = extra("triton", "triton")
    from triton.backends.compiler import GPUTarget  # noqa: PLC0415
    from triton.experimental.gluon._runtime import GluonASTSource  # noqa: PLC0415

    if integer(capability, "capability") < 90:
        raise InvalidInput(f"capability {capability} has no tensor copy engine; give 90 or more")
    with tempfile.TemporaryDirectory() as folder:
        module = load_module(emit(kernel), Path(folder))
        word = f"i{kernel.word_bits}"
        signature = {"source": f"tensordesc<{word}{module.LOAD_BLOCK},{module.LOAD_LAYOUT!r}>"}
        attributes = {}
        if kernel.store_map:
            signature["target"] = f"tensordesc<{word}{module.STORE_BLOCK},{module.STORE_LAYOUT!r}>"
        else:
            signature["target"] = f"*{word}"
            attributes[1,] = [["tt.divisibility", 16]]
        source = GluonASTSource(getattr(module, kernel_name(kernel)), signature, {}, attributes)
        # The kernels compute nothing in floating point; Triton 3.9 warns unless told whether to fuse it.
        options = {"num_warps": kernel.warps, "enable_fp_fusion": False}
        compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    metadata = compiled.metadata._asdict()
    return CompiledKernel(
        ptx=compiled.asm["ptx"],
        cubin=compiled.asm["cubin"],
        shared_bytes=metadata["shared"],
        boxes=tuple(tuple(m["block_size"]) for m in metadata["tensordesc_meta"]),
        metadata=metadata,
    )
