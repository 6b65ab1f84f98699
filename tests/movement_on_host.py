"""Kernels of movements on a host: the C++ that cute prints, by g++, thread by thread, on numpy memory."""

from __future__ import annotations

import ctypes
import math
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legalsat.backends.cute.movement import ENTRY, MovementText
from legalsat.backends.cute.movement_program import program_of
from legalsat.extract.search.schedule import span_of
from legalsat.plans.movement_plan import MovementPlan
from legalsat.runtime.open_program import bound
from legalsat.runtime.program import MapArgument, NumberArgument
from legalsat.units.tensor_map import TensorMap

HOST = Path(__file__).with_name("movement_host.h")
CONTROL = 256  # bytes around memory that nobody may touch

Bytes = NDArray[np.uint8]


class HostMap(ctypes.Structure):
    """The header's `CUtensorMap`."""

    _fields_ = [
        ("address", ctypes.c_void_p),
        *((name, ctypes.c_int) for name in ("bits", "rank", "span", "columns")),
        *((name, ctypes.c_longlong * 5) for name in ("dim", "stride")),
        *((name, ctypes.c_int * n) for name, n in (("box", 5), ("step", 5), ("lower", 3), ("upper", 3))),
        *((name, ctypes.c_int) for name in ("channels", "pixels")),
    ]


def host_map(tm: TensorMap, address: int) -> HostMap:
    """Return a tensor map over memory of the host."""

    def five(numbers: Sequence[Any]) -> tuple[int, ...]:
        return (*map(int, numbers), *(1,) * 5)[:5]

    columns = tm.mode == "im2col"
    found = HostMap(address, tm.map_type.bits, tm.rank, span_of(str(tm.swizzle)), columns)
    found.dim[:], found.stride[:] = five(tm.global_dim), five((0, *tm.global_stride))
    found.box[:], found.step[:] = five(() if columns else tm.box), five(tm.element_stride)
    if columns:
        found.lower[:], found.upper[:] = five(tm.lower_corner)[:3], five(tm.upper_corner)[:3]
        found.channels, found.pixels = int(tm.channels), int(tm.pixels)
    return found


def compiled(plans: Sequence[MovementPlan], folder: Path) -> ctypes.CDLL:
    """Return a library with a function for each plan's kernel, which runs its whole grid."""
    texts = [f'#include "{HOST}"']
    for number, plan in enumerate(plans):
        text = MovementText(plan)
        kernel = text.kernel().replace('extern "C" ', "")
        maps = [f"maps[{n}]" for n, _ in enumerate(plan.tensor_maps)]
        numbers = (f"numbers[{n}]" for n, _ in enumerate(text.words.parameters))
        given = ", ".join((*maps, "source", "target", *numbers))
        texts.append(
            f"namespace k{number} {{\n{kernel}}}\n"
            f'extern "C" long long run{number}(CUtensorMap const *maps, movement::Memory const *memory, '
            "unsigned long long source, unsigned long long target, int blocks, long long const *numbers) {\n"
            f"    return movement::run_kernel(blocks, {text.threads}, [=] {{ k{number}::{ENTRY}({given}); }}, "
            "memory[0], memory[1]);\n}\n"
        )
    source, library = folder / "kernels.cpp", folder / "kernels.so"
    source.write_text("\n".join(texts))
    flags = ["-std=c++17", "-O1", "-w", "-shared", "-fPIC", "-fno-strict-aliasing", "-U_FORTIFY_SOURCE"]
    subprocess.run(["g++", *flags, "-o", str(library), str(source)], check=True)
    return ctypes.CDLL(str(library))


class _Memory(ctypes.Structure):
    _fields_ = [
        ("start", ctypes.c_void_p),
        ("size", ctypes.c_longlong),
        ("written", ctypes.c_void_p),
    ]


def placed(size: int, offset: int) -> tuple[Bytes, int]:
    """Return memory with room around so many bytes, and where these begin: `offset` bytes behind a multiple of 256."""
    memory: Bytes = np.full(size + 4 * CONTROL, 0x5A, np.uint8)
    return memory, -memory.ctypes.data % 256 + CONTROL + offset


def run(  # noqa: PLR0917 - what is run, on what
    library: ctypes.CDLL,
    number: int,
    plan: MovementPlan,
    source: Bytes,
    target: Bytes,
    values: Mapping[str, int] | None = None,
) -> Bytes:
    """Return the target's bytes after a plan's kernel has run; every access outside, or misaligned, is an error.

    Of boxes that begin in the granule in which the tensor does, that granule may be read. `values` are of open dims.
    """
    operator = plan.operator if values is None else plan.operator.bind(values)
    made = program_of(plan) if values is None else bound(program_of(plan), values)
    ends = (operator.source, operator.target)
    inner, outer = (placed(given.size, end.address % 256) for given, end in zip((source, target), ends, strict=True))
    for (memory, at), given in ((inner, source), (outer, target)):
        memory[at : at + given.size] = given
    before = outer[0].copy()
    written = np.zeros(target.size, np.uint8)
    lead = ends[0].address % 16 if plan.phases else 0
    addresses = [memory.ctypes.data + at for memory, at in (inner, outer)]
    spans = (_Memory * 2)(
        _Memory(addresses[0] - lead, source.size + lead, 0), _Memory(addresses[1], target.size, written.ctypes.data)
    )
    (recipe,) = made.recipes
    arguments = [one for one in recipe.arguments if isinstance(one, MapArgument)]
    numbers = [one.value for one in recipe.arguments if isinstance(one, NumberArgument)]
    maps = (HostMap * max(1, len(arguments)))(
        *(host_map(one.map, addresses[one.operand == "target"] + one.offset) for one in arguments)
    )
    function = getattr(library, f"run{number}")
    function.restype = ctypes.c_longlong
    numbers_of = (ctypes.c_longlong * max(1, len(numbers)))(*numbers)
    faults = function(maps, spans, *map(ctypes.c_ulonglong, addresses), recipe.grid[0], numbers_of)
    assert faults == 0, f"{faults} faults"
    moved = math.prod(n for n in ends[1].shape if isinstance(n, int)) * ends[1].dtype.bits
    assert written.max(initial=0) == 1, "a byte is written twice"
    assert int(written.sum()) * 8 == moved, "not every byte is written"
    at = outer[1]
    after = outer[0][at : at + target.size].copy()
    outer[0][at : at + target.size] = before[at : at + target.size]
    assert np.array_equal(outer[0], before), "nothing is written around the target"
    return after
