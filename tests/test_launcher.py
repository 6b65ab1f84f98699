"""Emitted files: what their `run` asks the driver is what `Kernel` asks it, and they compile by the line in them."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import recording_driver
import recording_runtime

import legalsat as ls
from legalsat.backends import program
from legalsat.backends.cute.compile import CompilationFailed, headers, nvcc
from legalsat.backends.host.launcher import Launcher, parameter_names
from legalsat.runtime.loaded import Loaded
from legalsat.runtime.program import Image, Program, span_bytes
from legalsat.runtime.schedule import schedule_of

T, Gemm = ls.Tensor, ls.Gemm
ASKED = ("cuLaunchKernelEx", "cuTensorMapEncodeTiled", "cuTensorMapEncodeIm2col", "cuMemsetD8Async")
ODD_B = T((640, 4095), "bf16", (1, 640))
PRODUCTS: dict[str, ls.Gemm] = {
    "legal": Gemm(512, 640, 768, "bf16"),
    "odd k": Gemm(4096, 1024, 4095, "bf16"),
    "odd n": Gemm(384, 1001, 512, "fp16"),
    "odd extents": Gemm(1111, 333, 777, "bf16"),
    "few rows": Gemm(16, 4096, 4096, "bf16"),
    "split": Gemm(16, 4096, 4095, "bf16"),
    "e4m3": Gemm(512, 768, 1024, "e4m3"),
    "e5m2, scaled": Gemm(512, 768, 1040, "e5m2", out_dtype="fp32", scaled=True),
    "a along m": Gemm(512, 640, 768, "bf16", a=T((512, 768), "bf16", (1, 512))),
    "b along n": Gemm(512, 640, 4095, "bf16", b=ODD_B),
    "scaled by rows": Gemm(300, 208, 512, "e4m3", scaled="rows", batch=2),
    "groups": ls.GroupedGemm(512, 640, 768, "bf16", groups=9),
    "groups along k": ls.GroupedGemm(256, 264, 1000, "bf16", groups=7, along="k"),
    "fp32": Gemm(300, 200, 100, "fp32"),
    "constant b": Gemm(512, 1023, 4095, "bf16", constant_b=True),
    "offset": Gemm(512, 640, 768, "bf16", a=T((512, 768), "bf16", (1024, 1), offset=4)),
}
MOVEMENTS: dict[str, tuple[Any, Any]] = {
    "boxes": (ls.Copy(T((300, 256), "bf16"), tile=(64, 64), consumer="wgmma.a"), None),
    "transpose": (ls.Transpose(T((384, 513), "bf16")), None),
    "columns": (ls.Im2col(T((2, 9, 7, 16), "bf16"), 3, padding=1), ("im2col",)),
    "phases": (ls.Copy(T((70, 131), "bf16"), tile=(16, 64)), ("tma.phases",)),
    "relaid": (ls.Copy(T((4096, 4095), "bf16"), tile=(128, 64), consumer="wgmma.a", constant=True), None),
    "padded": (ls.Pad(T((4, 14, 14, 64), "bf16"), (0, 1, 1, 0)), None),
}


def planned(name: str) -> ls.MovementPlan | ls.GemmPlan:
    if name in PRODUCTS:
        return ls.synthesize(PRODUCTS[name], "h200")
    operator, means = MOVEMENTS[name]
    return ls.synthesize(operator, "h200", means=means)


def addresses(made: Program, workspace: int) -> tuple[list[int], int]:
    """Addresses as far apart as the operands are long, each where it must begin, and one of a workspace."""
    found, end = [], 0x700000000000
    for one in made.operands:
        found.append(end + one.tensor.offset)
        end += -(-(one.tensor.offset + span_bytes(one.tensor)) // 4096) * 4096
    return found, end if workspace else 0


@pytest.mark.parametrize("name", [*PRODUCTS, *MOVEMENTS])
def test_a_file_asks_the_driver_what_the_kernel_asks_it(name: str, tmp_path: Path) -> None:
    """Launches with every parameter and attribute, encode calls, memory that is cleared, in the same order."""
    made = program(planned(name), "cute")
    driver = recording_driver.build(tmp_path)
    recording_runtime.learn(driver, made)
    library = recording_runtime.build(made, tmp_path)
    given, workspace = addresses(made, library.workspace_bytes())
    driver.calls()
    pointers = [ctypes.c_void_p(one) for one in (*given, workspace)]
    names = [one.name for one in made.operands]
    constant = [given[names.index(one.operand)] for one in made.before if one.constant]
    if constant:
        code = library.prepare(*map(ctypes.c_void_p, constant), ctypes.c_void_p(workspace), ctypes.c_void_p(77))
        assert code == 0, library.message(code)
    code = library.run(*pointers, ctypes.c_void_p(77))
    assert code == 0, library.message(code)
    ours = [{k: v for k, v in one.items() if k != "context"} for one in driver.calls(*ASKED)]
    assert ours == by_hand(made, driver, dict(zip(names, given, strict=True)), workspace)


def test_a_host_file_asks_what_the_kernel_in_ptx_asks(tmp_path: Path) -> None:
    """Its kernel is that of backend ptx, character by character; nvcc takes the whole file."""
    plan = planned("legal")
    made, text = program(plan, "ptx"), plan.emit("host")
    begin = text.index("static char const ptx[]")
    assert "".join(re.findall(r'R"ptx\((.*?)\)ptx"', text[begin:], re.DOTALL)) == made.text
    driver = recording_driver.build(tmp_path)
    recording_runtime.learn(driver, made)
    library = recording_runtime.build(made, tmp_path)
    given, workspace = addresses(made, library.workspace_bytes())
    driver.calls()
    assert library.run(*map(ctypes.c_void_p, (*given, workspace)), ctypes.c_void_p(77)) == 0
    ours = [{k: v for k, v in one.items() if k != "context"} for one in driver.calls(*ASKED)]
    names = [one.name for one in made.operands]
    assert ours == by_hand(made, driver, dict(zip(names, given, strict=True)), workspace)
    built(text, tmp_path, which=1)


@pytest.mark.parametrize("target", ["h200", "b200"])
def test_a_host_file_lays_operands_out_as_the_plan_says(target: str) -> None:
    """In CUDA C++, whichever backend prints the kernel behind them: by granules, as cute alone moves."""
    plan = ls.synthesize(PRODUCTS["odd k"], target)
    text = plan.emit("host")
    assert plan.before and {one.plan.access.by for one in plan.before} == {"granules"}
    for one in plan.before:
        made = program(one.plan, "cute")
        kernel = made.text.partition('extern "C"')[2]
        assert kernel in text
        assert {"source", "target"} == {given.operand for given in made.recipes[0].arguments[:2]}


def by_hand(made: Program, driver: Any, at: dict[str, int], workspace: int) -> list[dict[str, Any]]:
    """What the runtime asks for the same addresses, its own memory standing where the workspace has it."""
    found: list[tuple[Program, dict[str, int]]] = []
    constants, end = 0, workspace
    for one in made.before:
        ends = {one.program.operands[0].name: at[one.operand], one.program.result.name: end}
        at = {**at, one.operand: end}
        end += -(-span_bytes(one.program.result.tensor) // 256) * 256
        found.insert(constants if one.constant else len(found), (one.program, ends))  # which are prepared first
        constants += one.constant
    for space in made.workspaces:
        at[space.name] = end
        end += -(-space.bytes // 256) * 256
    asked = []
    for one_program, ends in [*found, (made, at)]:
        loaded = Loaded(driver.device(0), Image(b"\x7fELF", one_program.recipes), one_program.architecture)
        loaded.launch(tuple(ends), (*ends.values(), 77))
        asked += driver.calls(*ASKED)
    return [{name: value for name, value in one.items() if name != "context"} for one in asked]


def test_what_is_amiss_has_a_code_and_a_sentence(tmp_path: Path) -> None:
    made = program(planned("odd n"), "cute")
    driver = recording_driver.build(tmp_path)
    recording_runtime.learn(driver, made)
    library = recording_runtime.build(made, tmp_path)
    (a, b, c), workspace = addresses(made, library.workspace_bytes())

    def said(*given: int) -> str:
        code = library.run(*map(ctypes.c_void_p, given), ctypes.c_void_p(0))
        return str(library.message(code).decode()) if code else ""

    assert said(a, b, c, workspace) == ""
    assert said(a + 2, b, c, workspace) == "a does not start at a multiple of 16 bytes"
    assert said(a, b, c + 1, workspace) == "c does not start at a multiple of 2 bytes"
    assert said(a, b, a + 16, workspace) == "c overlaps a"
    if library.workspace_bytes():
        assert said(a, b, c, 0).startswith("workspace is null")
    driver.become(refusal=1)
    assert said(a, b, c, workspace) == "an error of the runtime"
    driver.become()
    assert library.message(-1000) == b"no such code"


def test_offsets_are_part_of_where_an_operand_begins(tmp_path: Path) -> None:
    made = program(planned("offset"), "cute")
    assert made.operands[0].tensor.offset == 4
    assert "a does not start 4 bytes behind a multiple of 16 bytes" in Launcher(schedule_of(made)).sentences


@pytest.mark.parametrize("name", ["legal", "odd k", "relaid", "columns"])
def test_the_kernels_in_a_file_are_what_is_compiled(name: str) -> None:
    plan = planned(name)
    text, made = plan.emit("cute"), program(plan, "cute")
    for one in (made, *(before.program for before in made.before)):
        assert one.text in text


def test_parameters_bear_the_names_of_the_text() -> None:
    made = program(planned("legal"), "cute")
    names = parameter_names(made.text, "product", 15)
    assert names[:4] == ["maps", "m", "n", "k"]
    assert names[-1] == "b_hint"
    ptx = ".visible .entry gemm(\n .param .align 64 .b8 a_map[128],\n .param .u64 c\n)\n{"
    assert parameter_names(ptx, "gemm", 2) == ["a_map", "c"]
    assert parameter_names(ptx, "other", 2) == ["argument0", "argument1"]


def commands(text: str) -> list[str]:
    """The nvcc lines in a file, in order."""
    head = text[: text.index("*/")]
    return [one.replace("\\\n", " ").strip() for one in re.findall(r"^    (nvcc (?:.*\\\n)*.*)$", head, re.MULTILINE)]


def built(text: str, folder: Path, *, which: int) -> None:
    try:
        nvcc()
        environment = {**os.environ, "CUTLASS_PATH": str(headers().parent)}
    except CompilationFailed as error:
        pytest.skip(str(error))
    line = commands(text)[which]
    saved = re.search(r"Save it as (\w+\.cu)", text)
    assert saved
    (folder / saved[1]).write_text(text)
    environment["PATH"] = f"{Path(nvcc()).parent}:{environment['PATH']}"
    done = subprocess.run(line, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    assert "warning" not in done.stderr, done.stderr


@pytest.mark.parametrize(("name", "which"), [("odd n", 2), ("transpose", 0)])
def test_a_file_compiles_by_the_line_in_it(name: str, which: int, tmp_path: Path) -> None:
    text = planned(name).emit("cute")
    built(text, tmp_path, which=which)
    if which == 0:
        library = ctypes.CDLL(str(tmp_path / "libmovement.so"))
        library.message.restype = ctypes.c_char_p
        assert library.workspace_bytes() == 0
        assert library.message(-3) == b"target overlaps source"


@pytest.mark.slow
@pytest.mark.parametrize("name", [*PRODUCTS, *MOVEMENTS])
def test_every_kind_of_file_compiles(name: str, tmp_path: Path) -> None:
    text = planned(name).emit("cute")
    for which in range(len(commands(text)) if name in ("odd k", "relaid") else 1):
        built(text, tmp_path, which=which)
