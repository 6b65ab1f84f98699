"""Host code of open movements: its maps are those of the tensors that are bound, where these are legal.

Shapes and strides of the tensors that are bound, and the rules at these numbers, are the oracle. The driver is the one
of the tests of closed plans, which writes down what it is asked.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from test_host_backend import (
    ALL_ONES,
    BIT_21_CLEARED,
    NEW_DRIVER,
    OLD_DRIVER,
    compile_cpp,
    driver,
    expected,
    run,
    span,
)

import legalsat as ls
from legalsat.backends import emit
from legalsat.backends.host import emit_cpp, emit_python, encode_cpp, encode_python
from legalsat.extract.search.structure import open_dims

__all__ = ["driver"]

T, Dim = ls.Tensor, ls.Dim
M, K = Dim("M"), Dim("K", multiple_of=8)


class Case(NamedTuple):
    """A plan with dims, and values of each to call its host code with, legal or not."""

    plan: ls.MovementPlan
    values: Mapping[str, tuple[int, ...]]


def cases() -> dict[str, Case]:
    plain, any_k = T((M, K), "bf16"), Dim("K", max=20_000)
    between = Dim("B", min=3, max=9)
    rows, columns = (-1, 0, 1, 5, 77, 4096, 2**31 - 1, 2**31), (-8, 0, 8, 12, 16, 64, 1000, 4095, 2**27, 2**31)
    by = {"M": rows, "K": columns}
    loads = ls.Copy(plain, tile=(64, 64), consumer="wgmma.a", into="shared")
    wide = T((between, 128, K), "fp32")
    return {
        "copy": Case(ls.synthesize(plain, "h200"), by),
        "one dim": Case(ls.synthesize(T((M, 4096), "bf16"), "h200"), {"M": rows}),
        "undeclared multiple": Case(
            ls.synthesize(T((M, any_k), "bf16"), "h200"), {**by, "K": (*columns, 8191, 20_000)}
        ),
        "operand that is only loaded": Case(ls.synthesize(loads, "h200"), by),
        "three axes": Case(ls.synthesize(wide, "h200"), {"B": (2, 3, 9, 10), "K": columns}),
        "pitch of its own": Case(ls.synthesize(T((M, K), "bf16", (8192, 1)), "h200"), by),
        "transpose": Case(ls.synthesize(ls.Transpose(T((M, Dim("K", multiple_of=64)), "u8")), "h200"), by),
    }


CASES = cases()
MAIN = r"""
#include <cuda.h>

#include <cstdlib>
#include <iostream>

#include "open.h"

int main(int count, char** given) {
    for (int i = 1; i + @dims@ < count; i += @dims@ + 1) {
        void* const address = reinterpret_cast<void*>(std::strtoull(given[i], nullptr, 10));
        char const* why = refusal(@values@);
        CUtensorMap map = {};
        CUresult const result = @function@(&map, address, @values@);
        std::cout << "{\"result\": " << result << ", \"word\": " << map.opaque[1] << ", \"why\": \"" << (why ? why : "")
                  << "\"}" << std::endl;
    }
}
"""
PYTHON_MAIN = """
import json, runpy, sys
path, function, calls = json.loads(sys.argv[1])
file = runpy.run_path(path)
for address, *values in calls:
    why = file["refusal"](*values) or ""
    try:
        word = int(file[function](address, *values).opaque[1])
        print(json.dumps({"result": 0, "word": word, "why": why}), flush=True)
    except ValueError as error:
        assert str(error) == why or "address" in str(error)
        print(json.dumps({"result": 1, "word": 0, "why": why}), flush=True)
"""


def map_at(plan: ls.MovementPlan, number: int, values: Mapping[str, int]) -> ls.TensorMap | None:
    """A map of the plan at these values, or None where a dim has no such, or a rule forbids one of its maps."""
    found = []
    for view, tm in zip(plan.views, plan.tensor_maps, strict=False):
        try:
            end = (plan.operator.source if view.side == "source" else plan.operator.target).bind(values)
        except ls.LegalSatError:
            return None
        strides = tuple(stride * end.dtype.bits // 8 for stride in reversed(end.strides[:-1]))
        found.append(replace(tm, global_dim=end.shape[::-1], global_stride=strides))
    wrong = [d for tm in found for d in ls.violations(tm, plan.target) if d.level == "error"]
    far = any(n >= 2**31 for tm in found for n in tm.global_dim)  # beyond what coordinates reach, which are int32
    return None if wrong or far else found[number]


def combinations(case: Case) -> list[dict[str, int]]:
    return [dict(zip(case.values, one, strict=True)) for one in itertools.product(*case.values.values())]


def judge(case: Case, number: int, lines: list[Any], version: int) -> None:
    """Compare the lines of all combinations with what the tensors that are bound ask the driver for."""
    answers, asked = iter(lines), 0
    for values in combinations(case):
        tm = map_at(case.plan, number, values)
        if tm is not None:
            asked += 1
            assert next(answers) == expected(tm, 4096), values
            word = BIT_21_CLEARED if version == OLD_DRIVER and span(tm) < 2**17 else ALL_ONES
            assert next(answers) == {"result": 0, "word": word, "why": ""}, values
        else:
            answer = next(answers)
            assert (answer["result"], answer["word"]) == (1, 0), values
            for name, value in values.items():  # the words name the dim that is out of its range
                dim = next(dim for dim in open_dims(case.plan.operator) if dim.name == name)
                outside = not dim.min <= value <= dim.max or value % dim.multiple_of
                assert not outside or f"{name} must" in answer["why"]
            assert answer["why"]
    assert next(answers, None) is None
    assert 0 < asked < len(combinations(case))


@pytest.mark.parametrize("version", [OLD_DRIVER, NEW_DRIVER])
@pytest.mark.parametrize("name", CASES)
def test_cpp_encodes_the_maps_of_the_extents_that_it_is_given(name: str, version: int, driver: Path) -> None:
    case = CASES[name]
    folder = driver / name.replace(" ", "_")
    folder.mkdir(exist_ok=True)
    (folder / "open.h").write_text(emit_cpp(case.plan))
    order = [dim.name for dim in open_dims(case.plan.operator)]
    calls = [str(n) for values in combinations(case) for n in (4096, *(values[dim] for dim in order))]
    for number, view in list(enumerate(case.plan.views))[: len(case.plan.tensor_maps)]:
        values = ", ".join(f"std::atoll(given[i + {at + 1}])" for at in range(len(order)))
        main = MAIN.replace("@dims@", str(len(order))).replace("@values@", values)
        main = main.replace("@function@", f"encode_{view.side}_map")
        flags = (
            "-Wno-unused-function",
            "-fsanitize=undefined",
            "-fno-sanitize-recover",
            f"-I{folder}",
            str(driver / "libcuda.so.1"),
        )
        built = compile_cpp(folder, f"open_{view.side}_{version}", main, *flags)
        judge(case, number, run([str(built), *calls], driver, version), version)


@pytest.mark.parametrize("name", CASES)
def test_python_encodes_the_maps_of_the_extents_that_it_is_given(name: str, driver: Path) -> None:
    pytest.importorskip("cuda.bindings", reason="cuda-bindings is not installed")
    case = CASES[name]
    path = driver / f"{name.replace(' ', '_')}.py"
    path.write_text(emit_python(case.plan))
    order = [dim.name for dim in open_dims(case.plan.operator)]
    calls = [(4096, *(values[dim] for dim in order)) for values in combinations(case)]
    for number, view in list(enumerate(case.plan.views))[: len(case.plan.tensor_maps)]:
        given = json.dumps([str(path), f"encode_{view.side}_map", calls])
        lines = run([sys.executable, "-c", PYTHON_MAIN, given], driver, OLD_DRIVER)
        judge(case, number, lines, OLD_DRIVER)


def test_texts_of_open_plans_speak_of_the_dims() -> None:
    plan = CASES["copy"].plan
    for text in (plan.emit("host"), emit(plan, "host-python")):
        assert "extents K, M are the caller's" in text
        assert "n0 < (M + 15) // 16" in text or "(M + " in text  # how many tiles there are
        assert "K must be a multiple of 8 and below 2^31; M must be below 2^31" in text
    assert "refusal" not in plan.bind(M=128, K=192).emit("host")


def test_names_that_the_files_give_to_something_else_are_refused() -> None:
    for name, refuses in (("box", emit_cpp), ("struct", emit_cpp), ("lambda", emit_python), ("driver", emit_python)):
        plan = ls.synthesize(T((Dim(name), 4096), "bf16"), "h200")
        with pytest.raises(ls.LegalSatError, match=f"dim {name} bears a name.*; call it M or the like"):
            refuses(plan)


def test_an_open_map_alone_is_refused() -> None:
    """It has no guard: what its extents may be, a plan says."""
    tm = CASES["copy"].plan.tensor_maps[0]
    for encode in (encode_cpp, encode_python):
        with pytest.raises(ls.InvalidInput, match="tensor map is open in K, M; emit its plan"):
            encode(tm, "x")
