"""What of a product's program a backend has no row for, and who has one: a look at each operation in its table.

A backend's module of rows has `ROWS`, by the operation, and may have `LACKS`: for some of these why the row is not for
one as it stands, "" where it is. What adds slices of k up behind a kernel is an operation too.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from legalsat.errors import LegalSatError
from legalsat.extract.kernels.kernel_program import printed_program
from legalsat.extract.kernels.product_maps import stored_type
from legalsat.extract.kernels.slices import added_of
from legalsat.operators.gemm import Gemm
from legalsat.plans.product_kernel import ProductKernel
from legalsat.program.kernel import KernelProgram, every

TABLES = {
    "cute": ("legalsat.backends.cute.rows", "legalsat.backends.cute.added"),
    "ptx": ("legalsat.backends.ptx.rows", "legalsat.backends.ptx.added"),
    "triton": ("legalsat.backends.triton.product_rows",),
}


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be printed, as functions of `LACKS` look at it."""

    gemm: Gemm
    kernel: ProductKernel
    program: KernelProgram


def lacking_in(backend: str, gemm: Gemm, kernel: ProductKernel) -> str:
    """Return in words the first operation of a kernel's program that a backend has no row for; "" if all have one."""
    asked = Asked(gemm, kernel, printed_program(kernel, stored_type(gemm, kernel).bytes))
    tables = [importlib.import_module(name) for name in TABLES[backend]]
    rows, lacks = {one for table in tables for one in table.ROWS}, getattr(tables[0], "LACKS", {})
    for op in _operations(asked):
        name, why = type(op).__name__, lacks[type(op)](op, asked) if type(op) in lacks else ""
        if why or type(op) not in rows:
            return f"{name} {why}".strip()
    apart = set(kernel.means) - set(getattr(tables[0], "IN_FRONT", kernel.means))
    return f"relayouts by {', '.join(sorted(apart))}" if apart and {*kernel.relayouts} != {"none"} else ""


def _operations(asked: Asked) -> Iterator[Any]:
    program, added = asked.program, added_of(asked.gemm, asked.kernel)
    yield from [added.kernel] if added is not None else []
    for body in (program.setup, program.everybody, *(role.body for role in program.roles)):
        yield from every(body)


def require_rows(backend: str, gemm: Gemm, kernel: ProductKernel) -> None:
    """Raise unless a backend has a row for every operation of a kernel's program.

    Raises:
        LegalSatError: it has none for one; the message names it, and who prints the kernel.
    """
    lacking = lacking_in(backend, gemm, kernel)
    if not lacking:
        return
    others = [name for name in TABLES if name != backend and not lacking_in(name, gemm, kernel)]
    # Of kernels on tcgen05 ptx prints all that there are, and others none.
    asks = (
        "" if kernel.issues else f'ask synthesize for backend="{backend}", which takes a kernel that {backend} prints'
    )
    emits = f'emit "{others[0]}"' if others else ""
    does = ", or ".join(one for one in (asks, emits) if one)
    has = f", and {others[0]} has one; " if others else "; "
    raise LegalSatError(f"{backend} has no row for {lacking} in the program of {kernel}{has}{does}")


def row_of(backend: str, rows: dict[type, Any], op: Any) -> Any:
    """Return the row of an operation.

    Raises:
        LegalSatError: it has none.
    """
    if type(op) not in rows:
        raise LegalSatError(f"{backend} has no row for {type(op).__name__}; name another backend")
    return rows[type(op)]
