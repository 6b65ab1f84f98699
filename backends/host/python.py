"""Python: a module with one function per tensor map, which calls the driver through cuda.bindings."""

from __future__ import annotations

import keyword
from collections.abc import Iterable

from legalsat.backends.host.guards import Guard, guard_of, python_set_lines
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
from legalsat.dims import Extent
from legalsat.plans.movement_plan import MovementPlan
from legalsat.units.tensor_map import TensorMap

_USE = """
Written by LegalSAT, which it needs no more. Needs cuda.bindings (package cuda-bindings, 12.8 or later) and a driver.

A function takes the tensor's device address, an int, and returns a `CUtensorMap`. It needs a current CUDA context. It
raises ValueError where the address misses the alignment that the call wants, and RuntimeError, naming the CUresult,
where the driver refuses.
""".splitlines()

_CLOSED = Guard()
_OPEN_USE = """
The extents {names} are the caller's, ints: each function takes them behind the address, and raises ValueError where the
maps are not for them. `refusal` says why, and is None where they are.
""".splitlines()

# What the functions call their own, besides the language's words.
_OWN = """address driver result tensor_map version words word n int takes refusal encode_source_map encode_target_map
    ValueError RuntimeError"""
_TAKEN = frozenset([*keyword.kwlist, *_OWN.split()])

_CHECK = '''\
def _check(result, call):
    """Raise RuntimeError unless `result`, the driver's answer to `call`, is success."""
    if result != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"{call} returned {result.name}")
'''


def emit_python(plan: MovementPlan) -> str:
    """Return a Python module with `encode_source_map` and, where the plan stores by one, `encode_target_map`.

    Each takes the tensor's device address, an int, and returns a `cuda.bindings.driver.CUtensorMap`. It raises
    ValueError where the address misses the alignment that the call wants, and RuntimeError naming the CUresult where
    the driver refuses. Where the plan is open they take its dims behind the address, by name, and raise ValueError,
    too, where it is not for these values; `refusal(...)` says why.

    Raises:
        LegalSatError: the plan has no map a side, or a dim bears a name that the module gives to something else.
    """
    maps = list(named_maps(plan))
    guard = guard_of(plan, _TAKEN)
    functions = [_function(tm, name, guard) for tm, name in maps]
    return _module(plan_lines(plan), [*_guard(guard), *functions], guard)


def encode_python(tm: TensorMap, name: str) -> str:
    """Return a Python module with `encode_<name>_map(address)` for one tensor map, tiled or im2col.

    The map's own address plays no part.

    Raises:
        InvalidInput: the map has a rank or an enum value that no call can carry, or is open in dims, or `name` is no
            part of a name.
    """
    require_closed(tm)
    return _module([f"Tensor map {name}"], [_function(tm, name)])


def _module(about: list[str], functions: list[str], guard: Guard = _CLOSED) -> str:
    use = [*_USE, *(line.format(names=guard.names) for line in _OPEN_USE if guard.dims)]
    docstring = "\n".join(['"""' + about[0], *about[1:], *use, '"""'])
    return "\n\n".join([f"{docstring}\n\nfrom cuda.bindings import driver\n", _CHECK, *functions])


def _guard(guard: Guard) -> list[str]:
    """Return the functions that say which extents a plan is for; nothing of a closed plan."""
    if not guard.dims:
        return []
    takes = [f"    {line}" for line in python_set_lines(guard.dims, guard.set)]
    refusal = [
        f"def refusal({guard.names}):",
        '    """Return why the maps are not for these extents; None where they are."""',
        f'    return None if takes({guard.names}) else "{guard.sentence}"',
    ]
    title = '    """Whether the maps are for these extents."""'
    return ["\n".join([f"def takes({guard.names}):", title, *takes, ""]), "\n".join([*refusal, ""])]


def _function(tm: TensorMap, name: str, guard: Guard = _CLOSED) -> str:
    require_encodable(tm, name)
    sizes = f", {guard.names}" if guard.dims else ""
    call, arguments = _tiled(tm) if tm.mode == "tiled" else _im2col(tm)
    multiple = alignment(tm)
    return "\n".join(
        [
            f"def encode_{name}_map(address{sizes}):",
            f'    """Return the {name} map: {tm}.',
            "",
            *(f"    {line}" for line in map_lines(tm)),
            f"    `address` is a multiple of {multiple} bytes.",
            '    """',
            *([f"    if not takes({guard.names}):", f"        raise ValueError(refusal({guard.names}))"] * bool(sizes)),
            f"    if address % {multiple}:",
            f'        raise ValueError(f"{name} address {{address:#x}} is no multiple of {multiple} bytes; align it")',
            f"    result, tensor_map = driver.{call}(",
            f"        driver.CUtensorMapDataType.{enumerator(tm, 'dtype')},",
            f"        {tm.rank},",
            "        address,",
            *(f"        {argument}," for argument in arguments),
            f"        driver.CUtensorMapInterleave.{enumerator(tm, 'interleave')},",
            f"        driver.CUtensorMapSwizzle.{enumerator(tm, 'swizzle')},",
            f"        driver.CUtensorMapL2promotion.{enumerator(tm, 'l2_promotion')},",
            f"        driver.CUtensorMapFloatOOBfill.{enumerator(tm, 'oob_fill')},",
            "    )",
            f'    _check(result, "{call} for the {name} map")',
            *(_clear_bit(tm) if may_be_small(tm) else []),
            "    return tensor_map",
            "",
        ]
    )


def _tiled(tm: TensorMap) -> tuple[str, list[str]]:
    """Return the driver's function and its arguments between the address and the interleave."""
    return "cuTensorMapEncodeTiled", [*_global_arrays(tm), _array("cuuint32_t", tm.box), _element_stride(tm)]


def _im2col(tm: TensorMap) -> tuple[str, list[str]]:
    corners = [f"[{_numbers(corner)}]" for corner in (tm.lower_corner, tm.upper_corner)]
    column = [str(tm.channels), str(tm.pixels)]
    return "cuTensorMapEncodeIm2col", [*_global_arrays(tm), *corners, *column, _element_stride(tm)]


def _global_arrays(tm: TensorMap) -> list[str]:
    return [_array("cuuint64_t", tm.global_dim), _array("cuuint64_t", tm.global_stride or (0,))]


def _element_stride(tm: TensorMap) -> str:
    return _array("cuuint32_t", tm.element_stride)


def _array(kind: str, values: Iterable[Extent]) -> str:
    # cuda.bindings takes its own integer types here and no plain ints.
    return f"[driver.{kind}(n) for n in [{_numbers(values)}]]"


def _numbers(values: Iterable[Extent]) -> str:
    return ", ".join(map(str, values))


def _clear_bit(tm: TensorMap) -> list[str]:
    span = span_bytes(tm)
    small = "" if isinstance(span, int) else f" and {span} < {SMALL_SPAN}"
    return [
        *(f"    # {line}" for line in quirk_lines(tm)),
        "    result, version = driver.cuDriverGetVersion()",
        '    _check(result, "cuDriverGetVersion")',
        f"    if version <= {LAST_QUIRKY_DRIVER}{small}:",
        "        words = [int(word) for word in tensor_map.opaque]",
        f"        words[1] &= ~(1 << {QUIRK_BIT})",
        "        tensor_map.opaque = words",
    ]
