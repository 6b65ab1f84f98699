"""Triton: standalone kernels that copy or permute a tensor, through tensor maps and barriers or by threads."""

from legalsat.backends.triton.body import kernel_name
from legalsat.backends.triton.compile import (
    CompiledKernel,
    CompiledVectors,
    compile_kernel,
    compile_vectors,
    load_module,
)
from legalsat.backends.triton.kernel import CopyKernel, Operand, TensorMapShape
from legalsat.backends.triton.text import emit
from legalsat.backends.triton.threads import Side, VectorKernel, emit_threads

__all__ = [
    "CompiledKernel",
    "CompiledVectors",
    "CopyKernel",
    "Operand",
    "Side",
    "TensorMapShape",
    "VectorKernel",
    "compile_kernel",
    "compile_vectors",
    "emit",
    "emit_threads",
    "kernel_name",
    "load_module",
]
