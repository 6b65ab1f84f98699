"""The kernel that adds slices up, on a host: the same C++ by g++, thread by thread, with guards around C."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from relayout_on_host import C_TYPES, GUARD

from legalsat.backends.cute.added import emit
from legalsat.backends.cute.granules import TYPES
from legalsat.extract.kernels.slices import Added, added_blocks
from legalsat.program.leaves import AddSlices

HOST = Path(__file__).with_name("added_host.h")
KINDS = {"fp32": np.float32, "i32": np.int32}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("added")
    texts = [f'#include "{HOST}"']
    for result in KINDS:
        for turned in (False, True):
            leaf = AddSlices(result, turned, result)
            text = re.sub(r"#include <.*>|asm volatile\(\"griddepcontrol.*", "", emit(Added(leaf, (), 1, 0)))
            names = ", ".join(name for _, name in leaf.parameters)
            parameters = ", ".join(f"{TYPES[kind]} {name}" for kind, name in leaf.parameters)
            space = f"{result}_{turned}"  # texts name the same functions
            texts += [
                f"namespace {space} {{\n{text}\n}}",
                f'extern "C" void run_{leaf.entry}(unsigned blocks, {parameters}) {{\n'
                f"    run_kernel(blocks, 0, {space}::{leaf.entry}, {names});\n}}",
            ]
    source, made = folder / "added.cpp", folder / "added.so"
    source.write_text("\n".join(texts))
    flags = ["-std=c++17", "-O0", "-w", "-shared", "-fPIC", "-U_FORTIFY_SOURCE"]
    subprocess.run(["g++", *flags, "-o", str(made), str(source)], check=True)
    return ctypes.CDLL(str(made))


@pytest.mark.parametrize("result", KINDS)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    "extents",  # slices, and rows and columns of one
    [(2, 1, 1), (3, 33, 31), (10, 64, 130), (5, 7, 129), (16, 65, 64), (4, 100, 257), (9, 31, 3)],
)
def test_slices_are_added_in_their_order_and_nothing_else_is_written(
    library: ctypes.CDLL, result: str, turned: bool, extents: tuple[int, int, int]
) -> None:
    """What lies beside a slice's elements is poison: NaN, or the largest integer."""
    kind, (slices, rows, columns) = KINDS[result], extents
    rng = np.random.default_rng(slices * rows + columns)
    pitch, slice_rows, gap = -(-columns // 4) * 4 + 4, rows + 5, 3
    poison = np.nan if kind == np.float32 else np.iinfo(np.int32).max
    parts = np.full((slices, slice_rows, pitch), poison, kind)
    values = rng.standard_normal((slices, rows, columns)) * 1000
    parts[:, :rows, :columns] = values.astype(kind)
    across, along = (columns, rows) if turned else (rows, columns)  # of C
    memory = np.full(2 * GUARD + across * (along + gap), 77, kind)
    leaf = AddSlices(result, turned, result)
    numbers = (slices, slice_rows * pitch, pitch, along + gap, rows, columns)
    addresses = parts.ctypes.data, memory[GUARD:].ctypes.data
    arguments = [C_TYPES[k](v) for (k, _), v in zip(leaf.parameters, (*addresses, *numbers), strict=True)]
    getattr(library, f"run_{leaf.entry}")(ctypes.c_uint32(added_blocks(rows, columns, turned=turned)), *arguments)
    expected = np.zeros((rows, columns), kind)
    for one in parts:
        expected += one[:rows, :columns]
    whole = np.full_like(memory, 77)
    inside = whole[GUARD : GUARD + across * (along + gap)].reshape(across, along + gap)
    inside[:, :along] = expected.T if turned else expected
    assert np.array_equal(memory, whole)
