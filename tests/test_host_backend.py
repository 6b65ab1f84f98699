"""Emitted host code, run against a driver that writes down what it is asked.

The driver here is a small library with the names of libcuda. It is compiled against the real cuda.h, so that a call
with the wrong types does not build, and prints every argument that it gets.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import random
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import legalsat as ls
from legalsat.backends import emit
from legalsat.backends.host import emit_cpp, emit_python, encode_cpp, encode_python
from legalsat.dtypes import DTYPES
from legalsat.extract.search.planner import BOXES
from legalsat.units.tensor_map import MAP_TYPES, SWIZZLES, driver_value

ENUMS = ("dtype", "interleave", "swizzle", "l2_promotion", "oob_fill")
ALL_ONES = 2**64 - 1
BIT_21_CLEARED = ALL_ONES - 2**21
OLD_DRIVER, NEW_DRIVER = 13000, 13020

STUB = r"""
#include <cuda.h>
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <iostream>

template <class T>
static void list(const char* key, const T* values, cuuint32_t count) {
    std::cout << "\"" << key << "\": [";
    for (cuuint32_t i = 0; i < count; ++i) std::cout << (i ? ", " : "") << values[i];
    std::cout << "], ";
}

static int setting(const char* name) {
    const char* text = std::getenv(name);
    return text ? std::atoi(text) : 0;
}

static CUresult finish(CUtensorMap* map, CUtensorMapDataType dtype, void* address, CUtensorMapInterleave interleave,
                       CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2, CUtensorMapFloatOOBfill fill) {
    std::cout << "\"dtype\": " << dtype << ", \"address\": " << reinterpret_cast<cuuint64_t>(address)
              << ", \"interleave\": " << interleave << ", \"swizzle\": " << swizzle << ", \"l2_promotion\": " << l2
              << ", \"oob_fill\": " << fill << "}" << std::endl;
    std::memset(map, 0xff, sizeof *map);
    return static_cast<CUresult>(setting("STUB_RESULT"));
}

extern "C" {
CUresult CUDAAPI cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType dtype, cuuint32_t rank, void* address,
                                        const cuuint64_t* dim, const cuuint64_t* stride, const cuuint32_t* box,
                                        const cuuint32_t* element_stride, CUtensorMapInterleave interleave,
                                        CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2,
                                        CUtensorMapFloatOOBfill fill) {
    std::cout << "{\"mode\": \"tiled\", ";
    list("global_dim", dim, rank);
    list("global_stride", stride, rank - 1);
    list("box", box, rank);
    list("element_stride", element_stride, rank);
    return finish(map, dtype, address, interleave, swizzle, l2, fill);
}

CUresult CUDAAPI cuTensorMapEncodeIm2col(CUtensorMap* map, CUtensorMapDataType dtype, cuuint32_t rank, void* address,
                                         const cuuint64_t* dim, const cuuint64_t* stride, const int* lower,
                                         const int* upper, cuuint32_t channels, cuuint32_t pixels,
                                         const cuuint32_t* element_stride, CUtensorMapInterleave interleave,
                                         CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2,
                                         CUtensorMapFloatOOBfill fill) {
    std::cout << "{\"mode\": \"im2col\", ";
    list("global_dim", dim, rank);
    list("global_stride", stride, rank - 1);
    list("lower_corner", lower, rank - 2);
    list("upper_corner", upper, rank - 2);
    list("element_stride", element_stride, rank);
    std::cout << "\"channels\": " << channels << ", \"pixels\": " << pixels << ", ";
    return finish(map, dtype, address, interleave, swizzle, l2, fill);
}

CUresult CUDAAPI cuDriverGetVersion(int* version) {
    *version = setting("STUB_VERSION");
    return CUDA_SUCCESS;
}

// How cuda.bindings finds the driver's functions.
CUresult CUDAAPI cuGetProcAddress(const char* symbol, void** function, int, cuuint64_t,
                                  CUdriverProcAddressQueryResult* status) {
    const bool itself = !std::strcmp(symbol, "cuGetProcAddress");
    *function = dlsym(dlopen("libcuda.so.1", RTLD_NOW), itself ? "cuGetProcAddress_v2" : symbol);
    if (status) *status = *function ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
}
"""

MAIN = r"""
#include <cuda.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>

using Encode = CUresult (*)(CUtensorMap*, void*);

@headers@

// Arguments: function, address, function, address, ... Prints the result and the map after what the driver printed.
int main(int count, char** arguments) {
    const Encode functions[] = {@functions@};
    for (int i = 1; i + 1 < count; i += 2) {
        alignas(128) CUtensorMap map = {};
        const auto address = reinterpret_cast<void*>(std::strtoull(arguments[i + 1], nullptr, 10));
        const CUresult result = functions[std::atoi(arguments[i])](&map, address);
        std::cout << "{\"result\": " << result << ", \"map\": [";
        for (int word = 0; word < 16; ++word) std::cout << (word ? ", " : "") << map.opaque[word];
        std::cout << "]}" << std::endl;
    }
}
"""

# Argument: JSON of [file, function, address] entries. Prints as MAIN does.
PYTHON_MAIN = """
import json, runpy, sys
for path, function, address in json.loads(sys.argv[1]):
    try:
        words = [int(word) for word in runpy.run_path(path)[function](address).opaque]
        print(json.dumps({"map": words}), flush=True)
    except (RuntimeError, ValueError) as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)
"""


class Case(NamedTuple):
    """A function of one emitted text, and what it must do."""

    label: str
    cpp: str
    python: str
    function: str
    tm: ls.TensorMap
    alignment: int


def random_map(rng: random.Random, rank: int, mode: str) -> ls.TensorMap:
    """A tensor map near the edges of legality, legal or not."""
    kind = rng.choice(MAP_TYPES)
    slack = rng.choice([0, 16, 48])
    dims = [rng.choice([1, 2, 7, 16, 64, 128, 256]) for _ in range(rank)]
    dims[0] = rng.choice([64, 128, 256, 4096])
    strides = []
    step = dims[0] * kind.bits // 8
    for extent in dims[1:]:
        step = -(-step // 32) * 32 + slack
        strides.append(step)
        step *= extent
    interleave = rng.choice(["none", "none", "16B", "32B"])
    common: dict[str, Any] = {
        "dtype": kind.name,
        "global_dim": dims,
        "global_stride": strides,
        "element_stride": [1] + [rng.choice([1, 1, 2, 8]) for _ in dims[1:]],
        "interleave": interleave,
        "swizzle": "32B" if interleave == "32B" else rng.choice(SWIZZLES),
        "l2_promotion": rng.randrange(4),
        "oob_fill": rng.randrange(2),
        "address": rng.choice([16, 32, 64, 128, 256]) * rng.choice([1, 3, 77]),
    }
    inner = rng.choice([8, 16, 32, 64, 128])
    if mode == "tiled":
        common["box"] = [inner] + [rng.choice([1, 2, 3, 8]) for _ in dims[1:]]
    else:
        common |= {"mode": mode, "channels": inner, "pixels": rng.choice([1, 33, 256, 1024])}
        for corner in ("lower_corner", "upper_corner"):
            common[corner] = [rng.randint(-3, 3) for _ in range(rank - 2)]
    return ls.TensorMap(**common)


def legal_maps() -> list[ls.TensorMap]:
    """Five maps that a driver for sm_100 accepts, of each rank and mode."""
    rng = random.Random(19)
    maps = []
    for rank, mode in [*((rank, "tiled") for rank in range(1, 6)), *((rank, "im2col") for rank in range(3, 6))]:
        found = 0
        while found < 5:
            tm = random_map(rng, rank, mode)
            if not any(d.refused_by == "driver" for d in ls.violations(tm, "sm_100a")):
                maps.append(tm)
                found += 1
    return maps


def plans() -> list[ls.MovementPlan]:
    wide = ls.Tensor((4096, 2048), "bf16")
    return [
        ls.synthesize(ls.Transpose(wide), "sm_90a", means=BOXES),  # type: ignore[arg-type]
        ls.synthesize(wide, "h200", tile=(128, 64), consumer="wgmma.a", means=BOXES),  # type: ignore[call-overload]
        ls.synthesize(ls.Tensor((24, 40), "fp32", align=16), "sm_90a", means=BOXES),  # type: ignore[arg-type]
        ls.synthesize(ls.Transpose(ls.Tensor((4095, 4096), "u8", align=64)), "sm_90a", means=BOXES),  # type: ignore[arg-type]
    ]


@cache
def cases() -> list[Case]:
    found = []
    for i, tm in enumerate(legal_maps()):
        wanted = 32 if tm.interleave == "32B" else 16
        texts = encode_cpp(tm, f"m{i}"), encode_python(tm, f"m{i}")
        found.append(Case(str(tm), *texts, f"encode_m{i}_map", tm, wanted))
    for plan in plans():
        texts = emit_cpp(plan), emit_python(plan)
        for view, tm in zip(plan.views, plan.tensor_maps, strict=False):
            function = f"encode_{view.side}_map"
            found.append(Case(f"{view.side} of {plan.operator}", *texts, function, tm, 16))
    return found


def cuda_include() -> Path:
    """The folder of cuda.h in Triton's wheel."""
    spec = importlib.util.find_spec("triton")
    if spec is None or spec.origin is None:
        pytest.skip("triton, whose wheel has cuda.h, is for Linux alone")
    return Path(spec.origin).parent / "backends" / "nvidia" / "include"


def compile_cpp(folder: Path, name: str, text: str, *flags: str) -> Path:
    """Compile with every warning an error; `name` is the result's."""
    if shutil.which("g++") is None:
        pytest.skip("g++ is missing")
    source = folder / f"{name}.cpp"
    source.write_text(text)
    strict = ("-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", f"-isystem{cuda_include()}")
    command = ["g++", *strict, str(source), "-o", str(folder / name), *flags]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not built.returncode, built.stderr
    return folder / name


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the recording driver."""
    folder = tmp_path_factory.mktemp("driver")
    compile_cpp(folder, "libcuda.so.1", STUB, "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-ldl")
    return folder


@pytest.fixture(scope="module")
def program(driver: Path) -> Path:
    """A program with every case's function, each header in a namespace of its own."""
    texts = list(dict.fromkeys(case.cpp for case in cases()))
    for i, text in enumerate(texts):
        (driver / f"header{i}.h").write_text(text)
    headers = "\n".join(f'namespace n{i} {{\n#include "header{i}.h"\n}}' for i in range(len(texts)))
    functions = ", ".join(f"n{texts.index(case.cpp)}::{case.function}" for case in cases())
    main = MAIN.replace("@headers@", headers).replace("@functions@", functions)
    return compile_cpp(driver, "program", main, str(driver / "libcuda.so.1"))


def run(command: list[str], driver: Path, version: int, result: int = 0) -> list[Any]:
    """Run with the recording driver and return its lines of JSON."""
    settings = {"STUB_VERSION": str(version), "STUB_RESULT": str(result), "LD_LIBRARY_PATH": str(driver)}
    done = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def run_cpp(program: Path, calls: list[tuple[int, int]], version: int, result: int = 0) -> list[Any]:
    return run([str(program), *(str(n) for call in calls for n in call)], program.parent, version, result)


def run_python(driver: Path, calls: list[tuple[int, int]], version: int, result: int = 0) -> list[Any]:
    pytest.importorskip("cuda.bindings", reason="cuda-bindings is not installed")
    entries = []
    for i, address in calls:
        path = driver / f"case{i}.py"
        path.write_text(cases()[i].python)
        entries.append((str(path), cases()[i].function, address))
    return run([sys.executable, "-c", PYTHON_MAIN, json.dumps(entries)], driver, version, result)


def expected(tm: ls.TensorMap, address: int) -> dict[str, Any]:
    """What the driver must be asked for `tm`."""
    lists = ["global_dim", "global_stride", "element_stride"]
    lists += ["box"] if tm.mode == "tiled" else ["lower_corner", "upper_corner"]
    numbers = [] if tm.mode == "tiled" else ["channels", "pixels"]
    return {
        "mode": tm.mode,
        "address": address,
        **{field: list(getattr(tm, field)) for field in lists},
        **{field: getattr(tm, field) for field in numbers},
        **{field: driver_value(field, getattr(tm, field)) for field in ENUMS},
    }


def span(tm: ls.TensorMap) -> int:
    """The tensor's bytes, from the noun that plans start from."""
    element = next(t for t in DTYPES.values() if t.bits == tm.map_type.bits)
    strides = [1, *(8 * s // element.bits for s in tm.global_stride)]
    return -(-ls.Tensor(tm.global_dim, element, strides).span_bits // 8)


def test_cases_cover_what_matters() -> None:
    maps = [case.tm for case in cases()]
    assert {tm.rank for tm in maps} == {1, 2, 3, 4, 5}
    assert {tm.interleave for tm in maps} == {"none", "16B", "32B"}
    assert len({tm.swizzle for tm in maps}) >= 6
    assert len({tm.dtype for tm in maps}) >= 10
    plain = [tm for tm in maps if tm.interleave == "none"]
    assert min(sum(span(tm) < 2**17 for tm in plain), sum(span(tm) >= 2**17 for tm in plain)) >= 5


@pytest.mark.parametrize("version", [OLD_DRIVER, NEW_DRIVER])
def test_cpp_asks_the_driver_for_the_solved_fields(program: Path, version: int) -> None:
    calls = [(i, 3 * case.alignment) for i, case in enumerate(cases())]
    lines = run_cpp(program, calls, version)
    asked, answered = lines[::2], lines[1::2]
    assert len(asked) == len(answered) == len(calls)
    for case, (_, address), request, answer in zip(cases(), calls, asked, answered, strict=True):
        assert request == expected(case.tm, address), case.label
        assert answer["result"] == 0
        check_map(case, answer["map"], version)


@pytest.mark.parametrize("version", [OLD_DRIVER, NEW_DRIVER])
def test_python_asks_the_driver_for_the_solved_fields(driver: Path, version: int) -> None:
    calls = [(i, 3 * case.alignment) for i, case in enumerate(cases())]
    lines = run_python(driver, calls, version)
    asked, answered = lines[::2], lines[1::2]
    assert len(asked) == len(answered) == len(calls)
    for case, (_, address), request, answer in zip(cases(), calls, asked, answered, strict=True):
        assert request == expected(case.tm, address), case.label
        check_map(case, answer["map"], version)


def check_map(case: Case, words: list[int], version: int) -> None:
    """The driver set every bit; bit 21 of word 1 alone may be cleared, for small tensors on old drivers."""
    assert words[0] == ALL_ONES and set(words[2:]) == {ALL_ONES}
    if case.tm.interleave == "none":  # `span` knows no slices
        cleared = version == OLD_DRIVER and span(case.tm) < 2**17
        assert words[1] == (BIT_21_CLEARED if cleared else ALL_ONES), case.label


@pytest.mark.parametrize(
    ("dtype", "dims", "stride", "interleave", "cleared"),
    [
        ("u8", (2**17 - 1,), (), "none", True),
        ("u8", (2**17,), (), "none", False),
        ("bf16", (2**16,), (), "none", False),
        ("bf16", (2**16 - 1,), (), "none", True),
        ("16u4_align8b", (2**18,), (), "none", False),
        ("16u4_align8b", (2**18 - 2,), (), "none", True),
        ("bf16", (8, 2), (2**17 - 16,), "none", False),
        ("bf16", (8, 2), (2**17 - 32,), "none", True),
        ("u8", (1, 1, 5), (16, 2**15 - 4), "16B", False),
        ("u8", (1, 1, 5), (16, 2**15 - 5), "16B", True),
        ("f64", (2**32,) * 5, (2**39,) * 4, "none", False),
    ],
)
def test_small_tensors_end_below_128_kib(
    dtype: str, dims: tuple[int, ...], stride: tuple[int, ...], interleave: str, cleared: bool
) -> None:
    tm = ls.TensorMap(dtype=dtype, global_dim=dims, global_stride=stride, box=(1,) * len(dims), interleave=interleave)  # type: ignore[arg-type]
    assert ("cuDriverGetVersion" in encode_cpp(tm, "x")) == cleared
    assert ("cuDriverGetVersion" in encode_python(tm, "x")) == cleared


def test_last_driver_with_the_quirk(program: Path) -> None:
    small = next(i for i, case in enumerate(cases()) if case.tm.interleave == "none" and span(case.tm) < 2**17)
    for version, word in ((13010, BIT_21_CLEARED), (13011, ALL_ONES)):
        assert run_cpp(program, [(small, 256)], version)[-1]["map"][1] == word


def test_headers_of_several_plans_share_a_program(driver: Path) -> None:
    """Two source files each have their own function of one name; neither may run the other's."""
    text = '#include "{0}.h"\nCUresult call_{0}(CUtensorMap* map) {{ return encode_source_map(map, nullptr); }}\n'
    for name, extent in (("one", 64), ("two", 128)):
        tm = ls.TensorMap(dtype="u8", global_dim=(extent,), box=(64,))
        (driver / f"{name}.h").write_text(encode_cpp(tm, "source"))
        (driver / f"{name}.cpp").write_text(text.format(name))
    main = """
        #include <cuda.h>
        CUresult call_one(CUtensorMap* map);
        CUresult call_two(CUtensorMap* map);
        int main() {
            CUtensorMap map;
            return call_one(&map) + call_two(&map);
        }
    """
    sources = [str(driver / "one.cpp"), str(driver / "two.cpp"), str(driver / "libcuda.so.1")]
    asked = run([str(compile_cpp(driver, "linked", main, *sources))], driver, OLD_DRIVER)
    assert [request["global_dim"] for request in asked] == [[64], [128]]


def test_cpp_refuses_misaligned_addresses_without_asking(program: Path) -> None:
    calls = [(i, 3 * case.alignment + case.alignment // 2) for i, case in enumerate(cases())]
    invalid_value = {"result": 1, "map": [0] * 16}
    assert run_cpp(program, calls, OLD_DRIVER) == [invalid_value] * len(calls)


def test_python_refuses_misaligned_addresses_without_asking(driver: Path) -> None:
    calls = [(i, 3 * case.alignment + case.alignment // 2) for i, case in enumerate(cases())]
    lines = run_python(driver, calls, OLD_DRIVER)
    assert len(lines) == len(calls)
    for case, line in zip(cases(), lines, strict=True):
        assert re.match(rf"ValueError: \w+ address 0x\w+ is no multiple of {case.alignment} bytes", line["error"])


def test_cpp_returns_what_the_driver_says(program: Path) -> None:
    answers = run_cpp(program, [(i, 256) for i in range(len(cases()))], OLD_DRIVER, result=801)[1::2]
    assert [answer["result"] for answer in answers] == [801] * len(cases())


def test_python_names_what_the_driver_says(driver: Path) -> None:
    answer = run_python(driver, [(0, 256)], OLD_DRIVER, result=1)[-1]
    assert answer["error"] == "RuntimeError: cuTensorMapEncodeTiled for the m0 map returned CUDA_ERROR_INVALID_VALUE"


def enumerators() -> dict[str, int]:
    """The values that cuda.h gives to the enumerators of tensor maps."""
    header = re.sub(r"//.*", "", (cuda_include() / "cuda.h").read_text())
    values: dict[str, int] = {}
    for body in re.findall(r"^typedef enum CUtensorMap\w+ \{(.*?)\}", header, flags=re.DOTALL | re.MULTILINE):
        for value, name in enumerate(re.findall(r"CU_TENSOR_MAP_\w+", body)):
            values[name] = value
    return values


def argument(node: ast.expr, names: dict[str, int]) -> Any:
    """The value of an argument of the emitted call; lists of driver integers as lists."""
    if isinstance(node, ast.Attribute):
        return names[node.attr]
    if isinstance(node, ast.ListComp):
        return ast.literal_eval(node.generators[0].iter)
    return node.id if isinstance(node, ast.Name) else ast.literal_eval(node)


def test_python_text_holds_the_solved_fields() -> None:
    """As the test against the recording driver, for machines without cuda-bindings."""
    names = enumerators()
    order = {
        "tiled": "dtype rank address global_dim global_stride box element_stride",
        "im2col": "dtype rank address global_dim global_stride lower_corner upper_corner channels pixels "
        "element_stride",
    }
    for case in cases():
        function = next(n for n in ast.parse(case.python).body if getattr(n, "name", "") == case.function)
        call = next(n for n in ast.walk(function) if isinstance(n, ast.Call) and "Encode" in ast.unparse(n.func))
        fields = [*order[case.tm.mode].split(), "interleave", "swizzle", "l2_promotion", "oob_fill"]
        found = dict(zip(fields, (argument(a, names) for a in call.args), strict=True))
        assert ast.unparse(call.func).lower() == f"driver.cutensormapencode{case.tm.mode}"
        wanted: dict[str, Any] = {**expected(case.tm, 0), "address": "address", "rank": case.tm.rank}
        del wanted["mode"]
        if case.tm.rank == 1:
            del wanted["global_stride"], found["global_stride"]  # the driver reads none
        assert found == wanted, case.label


def test_texts_say_what_they_are() -> None:
    plan = ls.synthesize(ls.Transpose(ls.Tensor((4096, 2048), "bf16")), "sm_90a")
    buffer, barrier = plan.shared[0], plan.pipeline.barriers[0]
    for text in (emit_cpp(plan), emit_python(plan)):
        head = text[: text.index("def _check") if "def _check" in text else text.index("#pragma")]
        for number in (str(plan.operator), plan.target.name, buffer.bytes, buffer.stages, barrier.transaction_bytes):
            assert str(number) in head
        assert "encode_source_map" in text and "encode_target_map" in text
    threads = ls.synthesize(ls.Transpose(ls.Tensor((4095, 4096), "u8")), "sm_90a", means=BOXES)  # type: ignore[arg-type]
    assert threads.store == "threads"
    assert "encode_target_map" not in emit_cpp(threads) and "stored by threads" in emit_cpp(threads)


def test_texts_depend_on_the_plan_alone() -> None:
    tm = cases()[-1].tm
    script = (
        "import legalsat as ls; from legalsat.backends.host import *; "
        f"tm = ls.{tm!r}; print(encode_cpp(tm, 'x') + encode_python(tm, 'x'), end='')"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    run = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout == encode_cpp(tm, "x") + encode_python(tm, "x")


def test_backends_by_name() -> None:
    plan = ls.synthesize(ls.Tensor((64, 64), "bf16"), "sm_90a")
    assert plan.emit("host") == emit_cpp(plan)
    assert emit(plan, "host-python") == emit_python(plan)
    with pytest.raises(ls.InvalidInput, match="'cuda'; give one of triton, cute, host, host-python"):
        emit(plan, "cuda")
    with pytest.raises(ls.InvalidInput, match="backend is None"):
        emit(plan, None)  # type: ignore[arg-type]
    with pytest.raises(ls.InvalidInput, match="plan is str"):
        emit("plan", "host")  # type: ignore[arg-type]


def test_kernels_of_triton_want_dims_bound() -> None:
    plan = ls.synthesize(ls.Tensor((ls.Dim("M"), ls.Dim("K", multiple_of=64, max=8192)), "bf16"), "sm_90a")
    with pytest.raises(ls.LegalSatError, match=r"open in K, M; bind its dims first, with plan.bind\(K=..., M=...\)"):
        emit(plan, "triton")
    assert "copy of bf16 128 x 192" in emit_cpp(plan.bind(M=128, K=192))


@pytest.mark.parametrize("refused", [emit_cpp, emit_python])
def test_plans_without_one_map_a_side_are_refused(refused: Any) -> None:
    rows = ls.Tensor((64, 96), "bf16", (104, 1))
    for means in ("bulk", "cp.async", "threads"):
        plan = ls.synthesize(rows, "h200", means=(means,))
        with pytest.raises(ls.LegalSatError, match=f"plan by {means} needs no tensor maps"):
            refused(plan)
    odd = ls.Transpose(ls.Tensor((64, 96), "bf16", (101, 1)), tile=(32, 32))
    with pytest.raises(ls.LegalSatError, match=r"a tensor map for each of 8 phases.*means=\('tma',\)"):
        refused(ls.synthesize(odd, "h200", means=("tma.phases",)))


@pytest.mark.parametrize(
    ("changes", "name", "message"),
    [
        ({"swizzle": 9}, "x", "swizzle 9 has no name in cuda.h; give 0 to 6"),
        ({"dtype": 16}, "x", "16"),
        ({"global_dim": (), "box": ()}, "x", "tiled map has 0 dimensions; give 1 to 5"),
        ({"global_dim": (1,) * 6, "global_stride": (16,) * 5, "box": (1,) * 6}, "x", "6 dimensions; give 1 to 5"),
        ({"mode": "im2col", "box": ()}, "x", "im2col map has 1 dimensions; give 3 to 5"),
        ({}, "", "name is ''"),
        ({}, "a b", "name is 'a b'"),
        ({}, "a__b", "single underscores"),
        ({}, "é", "ASCII"),
        ({}, "x\n", "name is"),
        ({}, None, "name is None"),
    ],
)
def test_meaningless_maps_and_names_are_refused(changes: dict[str, Any], name: Any, message: str) -> None:
    tm = ls.TensorMap(**{"dtype": "u8", "global_dim": (64,), "box": (64,), **changes})
    for refused in (encode_cpp, encode_python):
        with pytest.raises(ls.InvalidInput, match=re.escape(message)):
            refused(tm, name)
        with pytest.raises(ls.InvalidInput, match="tensor map is dict"):
            refused({}, "x")  # type: ignore[arg-type]
