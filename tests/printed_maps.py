"""Tensor maps as programs print them when the encode call fails, written from the programs' formats.

CUTLASS and old TileLang: columns, arrays of five (TileLang: of the rank) that begin with the innermost stride. TileLang
since March 2026: names beside the numbers, the strides twice. TensorRT-LLM: five entries, four strides, whatever the
rank, so the last ones are what lay behind the arrays. Triton: the rank's entries, and a stride past the last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import legalsat as ls
from legalsat.units.tensor_map import MAP_TYPES, driver_value

RESULT_WORDS = {1: "invalid argument", 700: "an illegal memory access was encountered"}


def _filled(numbers: Sequence[int], length: int, filler: int) -> list[int]:
    return [*numbers, *[filler] * (length - len(numbers))]


def _raw_strides(tm: ls.TensorMap) -> list[int]:
    return [MAP_TYPES[driver_value("dtype", tm.dtype)].bits // 8, *tm.global_stride]


def _round(numbers: Sequence[int]) -> str:
    return f"({','.join(map(str, numbers))})"


def _square(numbers: Sequence[int]) -> str:
    return f"[{', '.join(map(str, numbers))}]"


def _columns(rows: Sequence[tuple[str, object]]) -> str:
    return "".join(f"{label:<14} {value}\n" for label, value in rows)


def _enums(tm: ls.TensorMap) -> list[tuple[str, object]]:
    return [
        ("interleave", driver_value("interleave", tm.interleave)),
        ("swizzle", driver_value("swizzle", tm.swizzle)),
        ("l2Promotion", driver_value("l2_promotion", tm.l2_promotion)),
        ("oobFill", driver_value("oob_fill", tm.oob_fill)),
    ]


def by_cutlass(tm: ls.TensorMap, result: int) -> str:
    """Print as CUTLASS does."""
    return (
        f"TMA Desc Addr:   {0x7FFD7D280000 + tm.map_offset:#x}\n"
        + _columns(
            [
                ("format", driver_value("dtype", tm.dtype)),
                ("dim", tm.rank),
                ("gmem_address", f"{tm.address:#x}" if tm.address else "0"),
                ("globalDim", _round(_filled(tm.global_dim, 5, 1))),
                ("globalStrides", _round(_filled(_raw_strides(tm), 5, 0))),
                ("boxDim", _round(_filled(tm.box, 5, 1))),
                ("elementStrides", _round(_filled(tm.element_stride, 5, 1))),
                *_enums(tm),
            ]
        )
        + f"Error: Failed to initialize the TMA descriptor {result}\n"
    )


def by_tilelang(tm: ls.TensorMap, result: int) -> str:
    """Print as TileLang does since it validates maps; the word in parentheses is cut short here."""
    named = [(label, f"{number} (CU_TENSOR_MAP_{label.upper()})") for label, number in _enums(tm)]
    return (
        f"Failed to initialize the TMA descriptor {result} (CUDA_ERROR: {RESULT_WORDS[result]})\n"
        "No local tiled-TMA constraint violation was detected before calling cuTensorMapEncodeTiled.\n"
        f"TMA Desc Addr:   {0x55D0_0000_0000 + tm.map_offset:#x} (mod64={tm.map_offset % 64})\n"
    ) + _columns(
        [
            ("format", f"{driver_value('dtype', tm.dtype)} (CU_TENSOR_MAP_DATA_TYPE)"),
            ("dim", tm.rank),
            ("gmem_address", f"{tm.address:#x} (mod16={tm.address % 16}, mod32={tm.address % 32})"),
            ("globalDim", _square(tm.global_dim)),
            ("globalStridesRaw", _square(_raw_strides(tm))),
            ("cudaGlobalStrides", _square(tm.global_stride)),
            ("boxDim", _square(tm.box)),
            ("elementStrides", _square(tm.element_stride)),
            *named,
        ]
    )


def by_tensorrt_llm(tm: ls.TensorMap, result: int) -> str:
    """Print as TensorRT-LLM does, with what lies behind its arrays."""

    def spaced(numbers: Sequence[int], length: int) -> str:
        return " ".join(map(str, _filled(numbers, length, 3806834432)))

    return (
        f"Error: Failed to initialize the TMA descriptor due to {RESULT_WORDS[result]}\n"
        f"tmaFormat: {driver_value('dtype', tm.dtype)} dim: {tm.rank} gmem: {tm.address:#x}\n"
        f"Shape: {spaced(tm.global_dim, 5)}\nStride: {spaced(tm.global_stride, 4)}\n"
        f"tileShapes: {spaced(tm.box, 5)}\ntileStrides: {spaced(tm.element_stride, 5)}\n"
        f"swizzleType: {driver_value('swizzle', tm.swizzle)}\n"
    )


def by_triton(tm: ls.TensorMap, result: int) -> str:
    """Print as Triton 3.6 does."""
    strides = [*tm.global_stride, tm.global_dim[-1] * (tm.global_stride or (2,))[-1] % 2**64]
    return (
        f"RuntimeError: Triton Error [CUDA]: Failed to create tensor map descriptor: {RESULT_WORDS[result]}\n"
        f"elemType={driver_value('dtype', tm.dtype)} rank={tm.rank} global_address={tm.address:#x} elemSize=2 "
        f"swizzle={driver_value('swizzle', tm.swizzle)} padding={driver_value('oob_fill', tm.oob_fill)}\n"
        f"shape={_square(tm.global_dim)}\nstrides={_square(strides)}\n"
        f"blockSize={_square(tm.box)} elementStrides={_square(tm.element_stride)}\n"
    )


PRINTERS: tuple[Callable[[ls.TensorMap, int], str], ...] = (by_cutlass, by_tilelang, by_tensorrt_llm, by_triton)
