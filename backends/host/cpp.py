"""C++17: a header with one function per tensor map, which calls the driver with exactly the solved fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from legalsat.backends.host.maps import (
    LAST_QUIRKY_DRIVER,
    QUIRK_BIT,
    SMALL_SPAN,
    alignment,
    enumerator,
    map_lines,
    named_maps,
    plan_lines,
    quirk_lines,
    require_encodable,
    span_bytes,
)
from legalsat.plans.plan import Plan
from legalsat.units.tensor_map import TensorMap

_USE = """
Written by LegalSAT, which it needs no more. Needs cuda.h of CUDA 12.8 or later, and libcuda: link with -lcuda.
The functions have internal linkage, so that the headers of several plans may meet in one program. To use several in
one source file, include <cuda.h> and <cstdint> first and wrap each header in a namespace of its own.

A function needs a current CUDA context. It returns the driver's CUresult, and CUDA_ERROR_INVALID_VALUE without
asking the driver where the address misses the alignment that the call wants. A CUtensorMap aligns itself (64 bytes,
from CUDA 13 on 128); give raw memory for one alignas(128). Kernels take it by value, as
`const __grid_constant__ CUtensorMap`.
""".splitlines()


def emit_cpp(plan: Plan) -> str:
    """Return a C++17 header with `encode_source_map` and, where the plan stores by one, `encode_target_map`.

    Each is `CUresult encode_..._map(CUtensorMap* map, void* address)`, `address` being the tensor's device address.

    Raises:
        LegalSatError: the plan's dims are not bound.
    """
    functions = [_function(tm, name) for tm, name in named_maps(plan)]
    return _header(plan_lines(plan), functions)


def encode_cpp(tm: TensorMap, name: str) -> str:
    """Return a C++17 header with `CUresult encode_<name>_map(CUtensorMap* map, void* address)` for one tensor map.

    Tiled or im2col. The map's own address plays no part.

    Raises:
        InvalidInput: the map has a rank or an enum value that no call can carry, or `name` is no part of a name.
    """
    return _header([f"Tensor map {name}"], [_function(tm, name)])


def encode_cpp_in_place_of(tm: TensorMap, before: TensorMap, name: str) -> str:
    """Return the includes and the function of `encode_cpp` alone; lines that differ from `before`'s say what they were.

    Raises:
        InvalidInput: `tm` has a rank or an enum value that no call can carry, or `name` is no part of a name.
    """
    fields = ("dtype", "rank", "interleave", "swizzle", "l2_promotion", "oob_fill", "channels", "pixels")
    arrays = ("global_dim", "global_stride", "box", "element_stride", "lower_corner", "upper_corner")
    was = {field: str(getattr(before, field)) for field in fields}
    was |= {field: f"{{{', '.join(map(str, getattr(before, field)))}}}" for field in arrays}
    changed = {field: text for field, text in was.items() if getattr(tm, field) != getattr(before, field)}
    return "\n".join(["#include <cuda.h>", "", "#include <cstdint>", "", _function(tm, name, changed)])


def _header(about: list[str], functions: list[str]) -> str:
    start = [_comment([*about, *_USE]), "#pragma once", "", "#include <cuda.h>", "", "#include <cstdint>", ""]
    return "\n".join([*start, *functions])


def _comment(lines: Iterable[str], indent: str = "") -> str:
    return "\n".join(f"{indent}// {line}".rstrip() for line in lines)


def _function(tm: TensorMap, name: str, was: Mapping[str, str] | None = None) -> str:
    """Return the function for one map; `was` holds old values of changed fields, for remarks where they stand."""
    require_encodable(tm, name)
    old = was or {}
    call, arrays, arguments = _tiled(tm, old) if tm.mode == "tiled" else _im2col(tm, old)
    about = [f"{name}: {tm}", *([] if old else map_lines(tm)), f"`address` is a multiple of {alignment(tm)} bytes."]
    return "\n".join(
        [
            _comment(about),
            f"static inline CUresult encode_{name}_map(CUtensorMap* map, void* address) {{",
            f"    if (reinterpret_cast<std::uintptr_t>(address) % {alignment(tm)} != 0) {{",
            "        return CUDA_ERROR_INVALID_VALUE;",
            "    }",
            *arrays,
            f"    const CUresult encoded = {call}(",
            _remarked(f"        map, {enumerator(tm, 'dtype')}, {tm.rank}, address,", old, "dtype", "rank"),
            _remarked(f"        {arguments},", old, "channels", "pixels"),
            _remarked(
                f"        {enumerator(tm, 'interleave')}, {enumerator(tm, 'swizzle')},", old, "interleave", "swizzle"
            ),
            _remarked(
                f"        {enumerator(tm, 'l2_promotion')}, {enumerator(tm, 'oob_fill')});",
                old,
                "l2_promotion",
                "oob_fill",
            ),
            *(_clear_bit(tm) if span_bytes(tm) < SMALL_SPAN else ["    return encoded;"]),
            "}",
            "",
        ]
    )


def _remarked(line: str, was: Mapping[str, str], *fields: str) -> str:
    """Return the line, with what its fields were where they changed."""
    remarks = [f"{field} was {was[field]}" for field in fields if field in was]
    return f"{line}  // {', '.join(remarks)}" if remarks else line


def _tiled(tm: TensorMap, was: Mapping[str, str]) -> tuple[str, list[str], str]:
    """Return the driver's function, the arrays that it is given, and the arguments between address and interleave."""
    arrays = [*_global_arrays(tm, was), _array("cuuint32_t", "box", tm.box, was), _element_stride(tm, was)]
    return "cuTensorMapEncodeTiled", arrays, "global_dim, global_stride, box, element_stride"


def _im2col(tm: TensorMap, was: Mapping[str, str]) -> tuple[str, list[str], str]:
    corners = [_array("int", name, getattr(tm, name), was) for name in ("lower_corner", "upper_corner")]
    arrays = [*_global_arrays(tm, was), *corners, _element_stride(tm, was)]
    column = f"{tm.channels}, {tm.pixels}"
    arguments = f"global_dim, global_stride, lower_corner, upper_corner, {column}, element_stride"
    return "cuTensorMapEncodeIm2col", arrays, arguments


def _global_arrays(tm: TensorMap, was: Mapping[str, str]) -> list[str]:
    # An array needs an element; the driver reads no stride of a map of rank 1.
    strides = tm.global_stride or (0,)
    return [_array("cuuint64_t", "global_dim", tm.global_dim, was), _array("cuuint64_t", "global_stride", strides, was)]


def _element_stride(tm: TensorMap, was: Mapping[str, str]) -> str:
    return _array("cuuint32_t", "element_stride", tm.element_stride, was)


def _array(kind: str, name: str, values: tuple[int, ...], was: Mapping[str, str]) -> str:
    # No signed type holds a decimal literal of 2^63 or more.
    literals = (f"{value}u" if value >= 2**63 else str(value) for value in values)
    return _remarked(f"    constexpr {kind} {name}[] = {{{', '.join(literals)}}};", was, name)


def _clear_bit(tm: TensorMap) -> list[str]:
    return [
        "    if (encoded != CUDA_SUCCESS) {",
        "        return encoded;",
        "    }",
        _comment(quirk_lines(tm), "    "),
        "    int version = 0;",
        "    const CUresult asked = cuDriverGetVersion(&version);",
        f"    if (asked == CUDA_SUCCESS && version <= {LAST_QUIRKY_DRIVER}) {{",
        f"        map->opaque[1] &= ~(cuuint64_t{{1}} << {QUIRK_BIT});",
        "    }",
        "    return asked;",
    ]
