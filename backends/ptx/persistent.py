"""The text of a product's persistent kernel: its program, row by row.

Extents are parameters: one text serves all products of a class, so that it is compiled once.
"""

from __future__ import annotations

from legalsat.backends.kernel_numbers import kernel_numbers
from legalsat.backends.lacking import require_rows
from legalsat.backends.ptx.cta import Cta, parameters
from legalsat.backends.ptx.rows import entry
from legalsat.backends.ptx.text import ENTRY, INDENT, MAP_ALIGNMENT, MAP_BYTES, VERSION, Text
from legalsat.extract.kernels.kernel_program import printed_program
from legalsat.extract.kernels.product_maps import stored_type
from legalsat.operators.gemm import Gemm
from legalsat.plans.product_kernel import ProductKernel

FIRST = {"wgmma": "sm_90a", "tcgen05": "sm_100a"}  # architectures with a matrix unit
VERSIONS = {"sm_103a": "8.8", "sm_110a": "9.0"}  # of PTX, where that is later than for both of these
ALIGNMENT = 1024  # of shared memory: where swizzles' patterns begin


def emit(gemm: Gemm, kernel: ProductKernel, architecture: str = "") -> str:
    """Return the text of a kernel.

    Args:
        gemm: the product, of which the types alone matter here, and which way C lies.
        kernel: how it is computed.
        architecture: of the GPU, such as "sm_90a"; the first one that has the kernel's matrix unit when left out.

    Raises:
        LegalSatError: an operation of its program has no row.
    """
    require_rows("ptx", gemm, kernel)
    text, plan, program = Text(), kernel_numbers(gemm, kernel), printed_program(kernel, stored_type(gemm, kernel).bytes)
    types = parameters(plan, apart=kernel.store == "elements")
    cta = Cta(text, plan, program, types)
    entry(cta, kernel, gemm)
    text.do("ret")
    maps = (cta.maps_a + cta.maps_b + (cta.maps if plan.phase_tiles else 1)) * MAP_BYTES
    rows, columns, _ = kernel.tile
    entries = [f".param .align {MAP_ALIGNMENT} .b8 maps[{maps}]"]
    entries += [f".param .{kind} {name}" for name, kind in types.items()]
    cluster = [".explicitcluster", f".reqnctapercluster {program.ctas}, 1, 1"] if program.ctas > 1 else []
    return "\n".join(
        [
            f"// Products of {gemm.dtype} to {gemm.out_dtype} in tiles of {rows} x {columns}.",
            "// Written by LegalSAT, which it needs no more.",
            f".version {VERSIONS.get(architecture, VERSION)}",
            f".target {architecture or FIRST[kernel.unit]}",
            ".address_size 64",
            "",
            f".extern .shared .align {ALIGNMENT} .b8 memory[];",
            "",
            f".visible .entry {ENTRY}(",
            ",\n".join(INDENT + one for one in entries),
            ")",
            f".reqntid {kernel.threads}, 1, 1",
            f".minnctapersm {kernel.blocks}",
            *cluster,
            "{",
            *text.declarations(),
            *text.lines(),
            "}",
            "",
        ]
    )
