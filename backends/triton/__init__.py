"""Triton: standalone Gluon kernels that copy or permute a tensor through tensor maps and barriers."""

from legalsat.backends.triton.body import kernel_name
from legalsat.backends.triton.compile import CompiledKernel, compile_kernel, load_module
from legalsat.backends.triton.kernel import CopyKernel, Operand, TensorMapShape
from legalsat.backends.triton.text import emit

__all__ = [
    "CompiledKernel",
    "CopyKernel",
    "Operand",
    "TensorMapShape",
    "compile_kernel",
    "emit",
    "kernel_name",
    "load_module",
]
