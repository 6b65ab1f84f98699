"""C++17: a header with one function per tensor map, which calls the driver with exactly the solved fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from legalsat.backends.host.guards import KEYWORDS, Guard, down, guard_of, set_lines
from legalsat.backends.host.maps import (
    LAST_QUIRKY_DRIVER,
    QUIRK_BIT,
    SMALL_SPAN,
    alignment,
    enumerator,
    map_lines,
    may_be_small,
    named_maps,
    plan_lines,
    quirk_lines,
    require_closed,
    require_encodable,
    span_bytes,
)
from legalsat.dims import Extent, in_cpp
from legalsat.plans.movement_plan import MovementPlan
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
_CLOSED = Guard()
_INVALID = ["        return CUDA_ERROR_INVALID_VALUE;", "    }"]
_OPEN_USE = """
The extents {names} are the caller's: each function takes them behind the address. `refusal` says why the maps are not
for some extents, and a function returns CUDA_ERROR_INVALID_VALUE for these without asking the driver.
""".splitlines()

# What the functions call their own, besides the language's words.
_OWN = """map address encoded version asked global_dim global_stride box element_stride lower_corner upper_corner
    down takes refusal number divisor encode_source_map encode_target_map"""
_TAKEN = KEYWORDS | set(_OWN.split())


def emit_cpp(plan: MovementPlan) -> str:
    """Return a C++17 header with `encode_source_map` and, where the plan stores by one, `encode_target_map`.

    Each is `CUresult encode_..._map(CUtensorMap* map, void* address)`, `address` being the tensor's device address.
    Where the plan is open they take its dims behind that, by name, as `std::int64_t`; `char const* refusal(...)` says
    why the plan is not for some values, and is null where it is.

    Raises:
        LegalSatError: the plan has no map a side, or a dim bears a name that the header gives to something else.
    """
    maps = list(named_maps(plan))
    guard = guard_of(plan, _TAKEN)
    functions = [_function(tm, name, guard=guard) for tm, name in maps]
    return _header(plan_lines(plan), [*_guard(guard), *functions], guard)


def encode_cpp(tm: TensorMap, name: str) -> str:
    """Return a C++17 header with `CUresult encode_<name>_map(CUtensorMap* map, void* address)` for one tensor map.

    Tiled or im2col. The map's own address plays no part.

    Raises:
        InvalidInput: the map has a rank or an enum value that no call can carry, or is open in dims, or `name` is no
            part of a name.
    """
    require_closed(tm)
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


def _header(about: list[str], functions: list[str], guard: Guard = _CLOSED) -> str:
    use = [*_USE, *(line.format(names=guard.names) for line in _OPEN_USE if guard.dims)]
    start = [_comment([*about, *use]), "#pragma once", "", "#include <cuda.h>", "", "#include <cstdint>", ""]
    return "\n".join([*start, *functions])


def _comment(lines: Iterable[str], indent: str = "") -> str:
    return "\n".join(f"{indent}// {line}".rstrip() for line in lines)


def _guard(guard: Guard) -> list[str]:
    """Return the function that says which extents a plan is for; nothing of a closed plan."""
    if not guard.dims:
        return []
    body, sizes = set_lines(guard.dims, guard.set), _sizes(guard)
    return [
        *(down("static inline") if any("= down(" in line for line in body) else []),
        f"static inline bool takes({sizes}) {{",
        *(f"    {line}" for line in body),
        "}",
        "",
        "// Why the maps are not for these extents; null where they are.",
        f"static inline char const* refusal({sizes}) {{",
        f'    return takes({guard.names}) ? nullptr : "{guard.sentence}";',
        "}",
        "",
    ]


def _sizes(guard: Guard) -> str:
    return ", ".join(f"std::int64_t {dim}" for dim in guard.dims)


def _function(tm: TensorMap, name: str, was: Mapping[str, str] | None = None, guard: Guard = _CLOSED) -> str:
    """Return the function for one map; `was` holds old values of changed fields, for remarks where they stand."""
    require_encodable(tm, name)
    old = was or {}
    sizes = f", {_sizes(guard)}" if guard.dims else ""
    call, arrays, arguments = _tiled(tm, old) if tm.mode == "tiled" else _im2col(tm, old)
    about = [f"{name}: {tm}", *([] if old else map_lines(tm)), f"`address` is a multiple of {alignment(tm)} bytes."]
    return "\n".join(
        [
            _comment(about),
            f"static inline CUresult encode_{name}_map(CUtensorMap* map, void* address{sizes}) {{",
            *([f"    if (!takes({guard.names})) {{", *_INVALID] if guard.dims else []),
            f"    if (reinterpret_cast<std::uintptr_t>(address) % {alignment(tm)} != 0) {{",
            *_INVALID,
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
            *(_clear_bit(tm) if may_be_small(tm) else ["    return encoded;"]),
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


def _array(kind: str, name: str, values: tuple[Extent, ...], was: Mapping[str, str]) -> str:
    known = all(isinstance(value, int) for value in values)
    literals = ", ".join(_element(kind, value) for value in values)
    return _remarked(f"    {'constexpr' if known else 'const'} {kind} {name}[] = {{{literals}}};", was, name)


def _element(kind: str, value: Extent) -> str:
    if isinstance(value, int):
        return f"{value}u" if value >= 2**63 else str(value)  # no signed type holds a decimal literal of 2^63 or more
    return f"static_cast<{kind}>({in_cpp(value)})"


def _clear_bit(tm: TensorMap) -> list[str]:
    span = span_bytes(tm)
    large = "" if isinstance(span, int) else f" || {in_cpp(span)} >= {SMALL_SPAN}"
    return [
        f"    if (encoded != CUDA_SUCCESS{large}) {{",
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
