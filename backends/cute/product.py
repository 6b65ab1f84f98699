"""The text of a product's kernel: the plan's constants, parts that its operations need, then its program, row by row.

Extents are arguments: one text serves all products of a class, so that it is compiled once.
"""

from __future__ import annotations

from dataclasses import fields
from functools import lru_cache
from importlib.resources import files

from legalsat.backends.cute.rows import functions
from legalsat.backends.kernel_numbers import kernel_numbers
from legalsat.backends.lacking import require_rows
from legalsat.extract.kernels.kernel_program import printed_program
from legalsat.extract.kernels.product_maps import stored_type
from legalsat.operators.gemm import Gemm, sums_of
from legalsat.plans.product_kernel import ProductKernel

TYPES = {"bf16": "BF16", "fp16": "F16", "e4m3": "E4M3", "e5m2": "E5M2", "fp32": "TF32", "tf32": "TF32"}
TYPES |= {"i8": "S8", "u8": "U8"}
RESULTS = {"bf16": "__nv_bfloat16", "fp16": "__half", "fp32": "float", "tf32": "float", "e4m3": "e4m3", "e5m2": "e5m2"}
RESULTS |= {"i8": "signed char", "i32": "int"}
SUMS = {"fp32": ("F32", "float"), "i32": ("S32", "unsigned")}  # as instructions name them, and as registers hold them
STORES = {
    "tma": ("store_warps", "store_by_map"),
    "turned": ("turn_tiles", "store_turned"),
    "columns": ("turn_tiles", "granule", "store_by_columns"),
    "rows": ("store_warps", "granule", "lay_rows", "store_by_rows"),
    "lapped": ("store_warps", "granule", "lay_rows", "store_by_rows"),
    "elements": ("store_warps", "granule", "lay_rows", "store_by_elements"),
    "sums": ("store_split",),
}
USUAL_COLUMNS = (8, 16, 32, 64, 96, 128, 192, 256)  # of instructions that CuTe names without being asked


def emit(gemm: Gemm, kernel: ProductKernel) -> str:
    """Return the text of a kernel: CUDA C++ that needs CuTe's headers and nothing else.

    Args:
        gemm: the product, of which the types alone matter here.
        kernel: how it is computed.

    Raises:
        LegalSatError: an operation of its program has no row here.
    """
    require_rows("cute", gemm, kernel)
    program = printed_program(kernel, stored_type(gemm, kernel).bytes)
    multiply = {"registers": "realign", "woven": "weave"}.get(kernel.realign, "multiply")
    more = [*(["groups"] if kernel.groups else []), *(["granule", "align"] if any(kernel.aligned) else [])]
    more += ["slide"] if kernel.slides else []
    more += ["granule", "clear"] if kernel.clipped else []
    more += ["stream_k"] if kernel.stream_k else []
    fragments = ["fragments"] if kernel.through_registers else []
    parts = dict.fromkeys(("parts", "cta", *more, *fragments, multiply, *STORES[kernel.store]))
    return "\n".join([*_head(gemm, kernel), *(part(name) for name in parts), functions(program)])


@lru_cache
def part(name: str) -> str:
    """Return the text of a part, a file beside this one."""
    return (files("legalsat.backends.cute") / f"{name}.cuh").read_text(encoding="utf-8")


def _head(gemm: Gemm, kernel: ProductKernel) -> list[str]:
    rows, columns, _ = kernel.tile
    wide = kernel.summed not in USUAL_COLUMNS
    plan = kernel_numbers(gemm, kernel)
    found = {one.name: getattr(plan, one.name) for one in fields(plan)}
    words = {name: found.pop(name) for name in ("a_word", "b_word")}
    flags = {name: one for name, one in found.items() if isinstance(one, bool)}
    numbers = {name: one for name, one in found.items() if isinstance(one, int) and name not in flags}
    return [
        f"// Products of {gemm.dtype} to {stored_type(gemm, kernel)} in tiles of {rows} x {columns}.",
        "// Written by LegalSAT, which it needs no more. Compile for sm_90a with CuTe's headers.",
        *(["#define CUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED"] if wide else []),
        "#include <cuda_bf16.h>",
        "#include <cuda_fp16.h>",
        "#include <cute/arch/mma_sm90_gmma.hpp>",
        "",
        "namespace plan {",
        *(f"constexpr int {name} = {value};" for name, value in numbers.items()),
        *(f"constexpr bool {name} = {str(value).lower()};" for name, value in flags.items()),
        *(f"constexpr unsigned long long {name} = {value:#x}ull;" for name, value in words.items()),
        f"__device__ constexpr int a_offsets[{plan.atoms}][steps] = {{{', '.join(map(_list, plan.a_offsets))}}};",
        f"__device__ constexpr int b_offsets[steps] = {_list(plan.b_offsets)};",
        f"using Multiply = {_atom(gemm, kernel)};",
        "enum class e4m3 : unsigned char {};",
        "enum class e5m2 : unsigned char {};",
        f"using Result = {RESULTS[stored_type(gemm, kernel).name]};",
        f"using Sum = {SUMS[sums_of(gemm.dtype).name][1]};",
        "}  // namespace plan",
        "",
    ]


def _atom(gemm: Gemm, kernel: ProductKernel) -> str:
    name, size = TYPES[gemm.dtype.name], gemm.dtype.bits // 8
    source = "RS" if kernel.through_registers else "SS"
    types = f"{SUMS[sums_of(gemm.dtype).name][0]}{name}{name}"
    atom = f"cute::SM90::GMMA::MMA_64x{kernel.summed}x{32 // size}_{types}_{source}"
    if size != 2:
        return f"{atom}_TN" + "<>" * (gemm.dtype.kind == "float")  # signs, which integers have not
    lie = ("K", kernel.majors[1]) if kernel.through_registers else kernel.majors  # fragments lie along k
    majors = ", ".join(f"cute::SM90::GMMA::Major::{one}" for one in lie)
    return f"{atom}<{majors}>"


def _list(numbers: tuple[int, ...]) -> str:
    return f"{{{', '.join(map(str, numbers))}}}"
