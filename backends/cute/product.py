"""The text of a product's kernel: the plan's constants, parts that its operations need, then its program, row by row.

Extents are arguments: one text serves all products of a class, so that it is compiled once.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

from legalsat.backends.cute.rows import functions
from legalsat.extract.kernels.kernel_memory import KernelMemory
from legalsat.extract.kernels.kernel_program import kernel_program, parts_across, printed_program
from legalsat.extract.kernels.product_maps import ROW_BYTES, box_columns, result_lies
from legalsat.operators.gemm import Gemm
from legalsat.plans.product_kernel import ProductKernel
from legalsat.program.kernel import KernelProgram, ReadRows, every

ENTRY = "product"
TYPES = {"bf16": "BF16", "fp16": "F16", "e4m3": "E4M3", "e5m2": "E5M2", "fp32": "TF32"}
RESULTS = {"bf16": "__nv_bfloat16", "fp16": "__half", "fp32": "float"}
STORES = {"tma": ("store_warps", "store_by_map"), "rows": ("store_warps", "store_by_rows"), "sums": ("store_split",)}
USUAL_COLUMNS = (8, 16, 32, 64, 96, 128, 192, 256)  # of instructions that CuTe names without being asked
EVICT_NORMAL = 0x1000000000000000  # CuTe's name for the usual L2 policy


def emit(gemm: Gemm, kernel: ProductKernel) -> str:
    """Return the text of a kernel: CUDA C++ that needs CuTe's headers and nothing else.

    Args:
        gemm: the product, of which the types alone matter here.
        kernel: how it is computed.
    """
    program = printed_program(kernel, gemm.out_dtype.bytes)
    multiply = "realign" if kernel.realign == "registers" else "multiply"
    parts = ["parts", "cta", multiply, *STORES[kernel.store]]
    return "\n".join([*_head(gemm, kernel, program), *(part(name) for name in parts), functions(program)])


@lru_cache
def part(name: str) -> str:
    """Return the text of a part, a file beside this one."""
    return (files("legalsat.backends.cute") / f"{name}.cuh").read_text(encoding="utf-8")


def _head(gemm: Gemm, kernel: ProductKernel, program: KernelProgram) -> list[str]:
    size = gemm.dtype.bits // 8
    rows, columns, depth = kernel.tile
    a_boxes, b_boxes = kernel.boxes
    along_m = rows // 64 // (1 if kernel.ping_pong else kernel.warpgroups)
    a_offsets = [(0,) * len(kernel.b.offsets[0])] * along_m if kernel.a is None else kernel.a.offsets[:along_m]
    a_word = 0 if kernel.a is None else kernel.a.descriptor.word
    a_block = kernel.a.offsets[1][0] - kernel.a.offsets[0][0] if kernel.a and len(kernel.a.offsets) > 1 else 0
    registers = kernel.realign == "registers"
    memory = KernelMemory(kernel_program(kernel, gemm.out_dtype.bytes), kernel, result_lies(gemm, kernel)[0])
    result, ops = program.buffers[-1], program.roles[0].body
    numbers = {
        "tile_m": rows,
        "tile_n": columns,
        "tile_k": depth,
        "stages": kernel.stages,
        "cluster_m": kernel.cluster[0],
        "cluster_n": kernel.cluster[1],
        "split": kernel.split,
        "warpgroups": kernel.warpgroups,
        "ctas_per_sm": kernel.blocks,
        "phases": kernel.phases if kernel.realign != "none" else 0,
        "element_bytes": size,
        "a_boxes": a_boxes,
        "a_box_rows": rows // a_boxes,
        "a_box_bytes": rows * ROW_BYTES // a_boxes,
        "b_boxes": b_boxes,
        "b_box_rows": columns // b_boxes,
        "b_box_bytes": columns * ROW_BYTES // b_boxes,
        "a_bytes": rows * ROW_BYTES,
        "b_bytes": columns * ROW_BYTES,
        "b_offset": rows * ROW_BYTES,
        "stage_bytes": (rows + columns) * ROW_BYTES,
        "steps": len(kernel.b.offsets[0]),
        "a_atom_bytes": a_block,
        "store_columns": box_columns(kernel, gemm.out_dtype.bytes),
        "parts": parts_across(kernel, gemm.out_dtype.bytes),
        "buffers": result.stages,
        "buffer_bytes": memory.part_bytes(result) if kernel.store != "sums" else memory.sums_bytes,
        "result_at": kernel.stages * memory.stage_bytes,
        "barriers_at": memory.barriers_at,
        "fragment_steps": next((len(op.steps) for op in every(ops) if isinstance(op, ReadRows)), 0),
    }
    flags = {
        "ping_pong": kernel.ping_pong,
        "phase_tiles": kernel.realign == "tiles",
        "realign": registers,
        "scaled": gemm.scaled,
        "a_k_major": kernel.majors[0] == "K",
        "b_k_major": kernel.majors[1] == "K",
        "c_along_rows": result_lies(gemm, kernel)[0],
    }
    words = {"a_word": a_word, "b_word": kernel.b.descriptor.word, "a_hint": EVICT_NORMAL, "b_hint": EVICT_NORMAL}
    wide = columns not in USUAL_COLUMNS
    return [
        f"// Products of {gemm.dtype} to {gemm.out_dtype} in tiles of {rows} x {columns}.",
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
        f"__device__ constexpr int a_offsets[{along_m}][steps] = {{{', '.join(map(_list, a_offsets))}}};",
        f"__device__ constexpr int b_offsets[steps] = {_list(kernel.b.offsets[0])};",
        f"using Multiply = {_atom(gemm, kernel)};",
        f"using Result = {RESULTS[gemm.out_dtype.name]};",
        "}  // namespace plan",
        "",
    ]


def _atom(gemm: Gemm, kernel: ProductKernel) -> str:
    name, size = TYPES[gemm.dtype.name], gemm.dtype.bits // 8
    source = "RS" if kernel.realign == "registers" else "SS"
    atom = f"cute::SM90::GMMA::MMA_64x{kernel.tile[1]}x{32 // size}_F32{name}{name}_{source}"
    if size != 2:
        return f"{atom}_TN<>"
    majors = ", ".join(f"cute::SM90::GMMA::Major::{one}" for one in kernel.majors)
    return f"{atom}<{majors}>"


def _list(numbers: tuple[int, ...]) -> str:
    return f"{{{', '.join(map(str, numbers))}}}"
