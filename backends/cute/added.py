"""Prints the kernel behind a product of slices of k in CUDA C++: a table with one row an operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from legalsat.backends.cute.granules import TYPES, part
from legalsat.backends.lacking import row_of
from legalsat.extract.kernels.slices import Added
from legalsat.program.leaves import THREADS, AddSlices
from legalsat.program.pipeline import AwaitGrid

RESULTS = {"bf16": "__nv_bfloat16", "fp16": "__half", "fp32": "float", "tf32": "float", "i32": "int"}


def emit(added: Added) -> str:
    """Return the text of a kernel: CUDA C++ that includes CUDA's types alone.

    Raises:
        LegalSatError: an operation has no row here.
    """
    (role,) = added.pipeline.roles
    parameters = [f"{TYPES[kind]} {name}" for kind, name in added.kernel.parameters]
    lines = [
        part("add_slices"),
        f'extern "C" __global__ void __launch_bounds__({THREADS}) {added.kernel.entry}(',
        f"    {', '.join(parameters[:4])},",
        f"    {', '.join(parameters[4:])}) {{",
    ]
    lines += [f"    {row_of('cute', ROWS, op)(op)}" for op in role.body]
    return "\n".join([*lines, "}\n"])


def _add(op: AddSlices) -> str:
    names = ", ".join(name for _, name in op.parameters)
    result = RESULTS.get(op.result, f"add_slices::{op.result}")
    return f"add_slices::store<{result}, {RESULTS[op.sums]}, {str(op.turned).lower()}>({names});"


ROWS: dict[type, Callable[[Any], str]] = {
    AwaitGrid: lambda op: 'asm volatile("griddepcontrol.wait;" ::: "memory");',
    AddSlices: _add,
}
