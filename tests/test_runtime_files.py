"""What the runtime keeps on disk, and what it needs: the cache, programs as JSON, no solver, Triton's interpreter."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest

import legalsat as ls
from legalsat.backends import PRODUCT_PROGRAMS, PROGRAMS, backend_of, builder_of, builders, program
from legalsat.backends.triton.program import launched
from legalsat.options import ProductBackend
from legalsat.runtime.cache import Cache, cache_folder, key_of
from legalsat.runtime.choice import Timed, candidates, keep
from legalsat.runtime.planned import program_for, sources, target_of
from legalsat.runtime.program import (
    AddressArgument,
    Image,
    InvalidProgram,
    MapArgument,
    MapsArgument,
    NumberArgument,
    Operand,
    Program,
    Recipe,
    needed,
    program_from_json,
)
from legalsat.targets import target
from legalsat.tensor import plain

ROOT = Path(__file__).parent.parent
MODULES = ("legalsat.runtime", "legalsat.runtime.planned", *sorted(builders()))


def test_what_is_written_is_read_and_nothing_else(tmp_path: Path) -> None:
    cache, key = Cache(tmp_path / "new" / "folder"), key_of("a", b"b")
    assert cache.read(key) is None
    for data in (b"", b"some bytes", bytes(range(256)) * 1000):
        cache.write(key, data)
        assert cache.read(key) == data and cache.read(key_of("ab")) is None
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 1, "no half-written file stays behind"


@pytest.mark.parametrize(
    "damage", [lambda d: d[:-1], lambda d: d + b"x", lambda d: b"", lambda d: d[:60] + b"!" + d[61:]]
)
def test_damaged_entries_are_none(damage: Any, tmp_path: Path) -> None:
    cache, key = Cache(tmp_path), key_of("x")
    cache.write(key, b"a long enough text, so that some of it can be damaged")
    (path,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    path.write_bytes(damage(path.read_bytes()))
    assert cache.read(key) is None
    cache.write(key, b"again")
    assert cache.read(key) == b"again"


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")  # no folder can be made here, not even by root
    for cache in (Cache(blocked), Cache(None)):
        cache.write(key_of("x"), b"data")
        assert cache.read(key_of("x")) is None


def test_keys_tell_parts_apart() -> None:
    parts = [("ab",), ("a", "b"), ("", "ab"), ("ab", ""), (b"2:ab",), ("a", "b", "")]
    assert len({key_of(*one) for one in parts}) == len(parts)
    assert key_of("ab", "c") == key_of(b"ab", b"c")


def test_writers_at_once_leave_one_whole_entry(tmp_path: Path) -> None:
    cache, key = Cache(tmp_path), key_of("x")
    texts = [bytes([n]) * 200_000 for n in range(4)]
    seen: list[bytes | None] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.append(cache.read(key))

    reader = threading.Thread(target=read)

    def write(data: bytes) -> None:
        for _ in range(10):
            cache.write(key, data)

    writers = [threading.Thread(target=write, args=(text,)) for text in texts]
    cache.write(key, texts[0])
    for one in (reader, *writers):
        one.start()
    for one in writers:
        one.join()
    done.set()
    reader.join()
    assert seen and set(seen) <= set(texts), "half of an entry is never seen"


def test_the_environment_names_the_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("LEGALSAT_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "legalsat"
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    assert cache_folder() == tmp_path / ".cache" / "legalsat"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "legalsat"
    monkeypatch.setenv("LEGALSAT_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    for off in ("off", ""):
        monkeypatch.setenv("LEGALSAT_CACHE", off)
        assert cache_folder() is None


def programs() -> list[Program]:
    product = ls.synthesize(ls.Gemm(4096, 4096, 4095, "bf16", constant_b=True), "h200")
    plans: list[Any] = [
        ls.synthesize(ls.Transpose(ls.Tensor((256, 128), "bf16")), "h200", means=("tma",)),
        ls.synthesize(ls.Copy(ls.Tensor((30, 101), "u8", align=2, offset=1)), "h200"),
    ]
    return [program(product, "cute"), program(product, "ptx"), *(program(plan) for plan in plans)]


def test_programs_go_to_json_and_back(tmp_path: Path) -> None:
    made = programs()
    assert [(one.operand, one.constant) for one in made[1].before] == [("b", True)]
    (struct,) = (one for one in made[0].recipes[0].arguments if isinstance(one, MapsArgument))
    assert len({one.map for one in struct.maps}) > 1 and any(one.offset for one in struct.maps)
    for number, one in enumerate(made):
        one.save(tmp_path / f"{number}.json")
        assert Program.load(tmp_path / f"{number}.json") == one
        image = Image(b"\x7fELF\n\nbinary", one.recipes)
        assert Image.from_bytes(image.to_bytes()) == image


@pytest.mark.parametrize("backend", PRODUCT_PROGRAMS)
def test_programs_of_products_take_operands_as_they_were_given(backend: ProductBackend) -> None:
    plan = ls.synthesize(ls.Gemm(4096, 4096, 4095, "fp16"), "h200", backend=backend)
    made = program(plan, backend)
    assert backend_of(made) == backend
    for operand, given in zip(made.operands, (plan.operator.a, plan.operator.b, plan.operator.c), strict=True):
        assert (operand.tensor.shape, operand.tensor.strides) == (given.shape, given.strides)
    relaid = {first.operand: first.program for first in made.before}
    assert relaid, "k is odd"
    for name, first in relaid.items():
        given = plan.operator.a if name == "a" else plan.operator.b
        source, target = (one.tensor for one in first.operands)
        assert source.strides == given.strides and source.shape == target.shape == given.shape
        assert max(plain(target.strides)) * 2 % 16 == 0, "a pitch that tensor maps take"
        assert first.builder in builders()


def test_programs_of_movements_say_who_compiles_them() -> None:
    plan = ls.synthesize(ls.Transpose(ls.Tensor((256, 128), "bf16")), "h200", means=("tma",))
    for backend, module in PROGRAMS.items():
        assert program(plan, backend).builder == module
    foreign = Program("s", "sm_90a", "", (Operand("x", ls.Tensor((4,), "u8")),), (Recipe("k", (1, 1, 1), 32, 0, ()),))
    assert backend_of(foreign) == "", "none of ours made it"


def test_triton_is_asked_for_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("legalsat.backends.triton.program.version", missing)
    plan = ls.synthesize(ls.Tensor((64, 64), "bf16"), "h200")
    with pytest.raises(ls.LegalSatError, match=r"triton is missing; install legalsat\[triton\]"):
        plan.compile("triton")


def test_garbled_programs_are_refused(tmp_path: Path) -> None:
    data = json.loads(json.dumps(programs()[0].to_json()))
    path = tmp_path / "program.json"
    texts = {"subject", "architecture", "text", "builder"}
    for name in data:
        for other in (None, 7, {}, [1], *(() if name in texts else ("?",))):
            path.write_text(json.dumps({**data, name: other}))
            with pytest.raises(ls.LegalSatError):
                Program.load(path)
        with pytest.raises(InvalidProgram):
            program_from_json({key: value for key, value in data.items() if key != name})
    (recipe,) = data["recipes"]
    at, struct = next((i, one) for i, one in enumerate(recipe["arguments"]) if "maps" in one)
    for maps in (
        None,
        struct,
        [None],
        [*struct["maps"], {"operand": "a", "offset": 0}],
        [{**struct["maps"][0], "map": {}}],
    ):
        arguments = [*recipe["arguments"][:at], {"maps": maps}, *recipe["arguments"][at + 1 :]]
        with pytest.raises(InvalidProgram):
            program_from_json({**data, "recipes": [{**recipe, "arguments": arguments}]})
    path.write_text("no json")
    with pytest.raises(InvalidProgram, match="is no program"):
        Program.load(path)
    foreign = program_from_json({**data, "builder": "os"})
    with pytest.raises(ls.LegalSatError, match="program is built by os"):
        builder_of(foreign)


def test_programs_name_what_they_have() -> None:
    tensor = ls.Tensor((4,), "u8")
    recipe = Recipe("k", (1, 1, 1), 32, 0, (AddressArgument("y"),))
    with pytest.raises(ls.InvalidInput, match="arguments name y; name x"):
        Program("s", "sm_90a", "", (Operand("x", tensor),), (recipe,))
    with pytest.raises(ls.InvalidInput, match="give each its own name"):
        Program("s", "sm_90a", "", (Operand("y", tensor), Operand("y", tensor)), (recipe,))


@pytest.mark.parametrize(
    ("align", "offset", "need", "left"),
    [(256, 0, 16, (16, 0)), (256, 66, 16, (16, 2)), (4, 2, 16, (4, 2)), (16, 6, 4, (4, 2)), (16, 6, 1, (1, 0))],
)
def test_no_more_alignment_is_asked_than_is_needed(align: int, offset: int, need: int, left: tuple[int, int]) -> None:
    found = needed(ls.Tensor((4, 4), "bf16", align=align, offset=offset), need)
    assert (found.align, found.offset) == left


def test_programs_of_products_are_kept_and_depend_on_the_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of chips whose kernels are in no list of backend cute, whose products are planned."""
    cache, product, gpu = Cache(tmp_path), ls.Gemm(64, 64, 64, "bf16"), target("b200")
    assert not candidates(product, gpu)
    made = program_for(product, gpu, cache, "ptx")
    assert made.architecture == gpu.architecture and backend_of(made) == "ptx"
    with pytest.raises(ls.LegalSatError, match="cute has no row for FindColumns"):
        program_for(product, gpu, cache, "cute")
    monkeypatch.setattr("legalsat.api.synthesize", None)  # so that another plan would be an error
    assert program_for(product, gpu, cache, "ptx") == made
    with pytest.raises(TypeError):  # what is kept is one backend's
        program_for(product, gpu, cache, "triton")
    monkeypatch.setattr("legalsat.runtime.planned.sources", lambda: "another version")
    with pytest.raises(TypeError):
        program_for(product, gpu, cache, "ptx")
    assert re.fullmatch("[0-9a-f]{64}", sources())


def test_a_measured_winner_comes_before_the_cheapest_candidate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, product, gpu = Cache(tmp_path), ls.Gemm(64, 64, 64, "bf16"), target("h200")
    monkeypatch.setattr("legalsat.api.synthesize", None)  # neither way needs a solver
    (first, _, cheapest), (second, name, other) = candidates(product, gpu, 2)
    assert first <= second and cheapest != other
    assert program_for(product, gpu, cache, "cute") == cheapest
    keep(product, gpu, cache, [Timed(1.0, second, name, other)])
    assert program_for(product, gpu, cache, "cute") == other
    assert program_for(ls.Gemm(64, 64, 128, "bf16"), gpu, cache, "cute") != other, "it won for its own product"
    monkeypatch.setattr("legalsat.runtime.planned.sources", lambda: "another version")
    assert program_for(product, gpu, cache, "cute") == cheapest


@pytest.mark.parametrize(
    ("name", "capability", "found"),
    [
        ("NVIDIA H200", (9, 0), "h200"),
        ("NVIDIA H100 80GB HBM3", (9, 0), "h100"),
        ("NVIDIA GH200 480GB", (9, 0), "gh200"),
        ("NVIDIA H100 PCIe", (9, 0), "h100-pcie"),
        ("NVIDIA H300", (9, 0), "sm_90a"),
        ("NVIDIA A100-SXM4-40GB", (8, 0), "a100"),
        ("NVIDIA B200", (10, 0), "b200"),
        ("NVIDIA GeForce RTX 5090", (12, 0), "rtx5090"),
        ("NVIDIA H200", (10, 0), "sm_100a"),
    ],
)
def test_gpus_are_known_by_name_and_capability(name: str, capability: tuple[int, int], found: str) -> None:
    assert target_of(name, capability).name == found


def test_unknown_gpus_are_refused() -> None:
    with pytest.raises(ls.LegalSatError, match="Tesla T4 is sm_75, which no table describes"):
        target_of("Tesla T4", (7, 5))


def test_triton_kernels_with_other_parameters_are_refused() -> None:
    tm = ls.TensorMap("u16", (64, 64), (128,), (64, 8), swizzle="128B")
    recipe = Recipe("k", (4, 1, 1), 128, 0, (MapArgument("x", tm), NumberArgument(64, "i32"), AddressArgument("y")))
    ptx = (
        ".visible .entry k(\n\t.param .align 64 .b8 k_param_0[128],\n\t.param .u32 k_param_1,\n"
        "\t.param .u64 .ptr .global .align 1 k_param_2,\n\t.param .u64 .ptr .global .align 1 k_param_3\n)\n"
        ".reqntid 256\n"
    )
    described = {"block_size": [8, 64], "swizzle": 3}
    metadata = {"shared": 1000, "num_ctas": 2, "tensordesc_meta": [described], "global_scratch_size": 0}
    found = launched(recipe, ptx, metadata)
    assert (found.grid, found.cluster, found.threads, found.shared) == ((8, 1, 1), (2, 1, 1), 256, 1000)
    assert found.arguments == (*recipe.arguments, NumberArgument(0, "u64"))
    for other, text in (
        ({**metadata, "global_scratch_size": 8}, ptx),
        ({**metadata, "tensordesc_meta": [{**described, "swizzle": 2}]}, ptx),
        ({**metadata, "tensordesc_meta": [{**described, "block_size": [16, 64]}]}, ptx),
        (metadata, ptx.replace(".u32", ".u64")),
        (metadata, ptx.replace(".param .u64 .ptr .global .align 1 k_param_3", ".param .u32 k_param_3")),
    ):
        with pytest.raises(ls.LegalSatError, match="install triton"):
            launched(recipe, text, other)


def run_python(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr
    return done.stdout


def test_kernels_run_where_no_solver_is_installed() -> None:
    code = f"""
import importlib, sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("egglog", "islpy", "z3"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
for name in {MODULES}: importlib.import_module(name)
print("loaded")
"""
    assert run_python(code) == "loaded\n"


INTERPRETED = """
import numpy as np
import legalsat as ls

def arrays(shape, pitch):
    x = np.arange(shape[0] * pitch, dtype=np.uint16).view(np.float16)
    return np.lib.stride_tricks.as_strided(x, shape, (2 * pitch, 2))

x = arrays((37, 51), 53)
plan = ls.synthesize(ls.Transpose(ls.Tensor((37, 51), "fp16", (53, 1))), "h200", means=("threads",))
kernel = plan.compile()
y = kernel(x)
assert y.shape == (51, 37) and np.array_equal(y.view(np.uint16), np.ascontiguousarray(x.T).view(np.uint16))
z = np.full((51, 37), 7, np.float16)
assert kernel(x, out=z) is z and np.array_equal(z.view(np.uint16), y.view(np.uint16))
for wrong in (x[:, ::2], x.astype(np.float32), np.ascontiguousarray(x)):
    try:
        kernel(wrong)
    except ls.InvalidInput as error:
        print(error)
try:
    ls.synthesize(ls.Tensor((64, 64), "fp16"), "h200", means=("tma",)).compile("triton")
except ls.LegalSatError as error:
    print(error)
"""


def test_movements_by_threads_run_in_tritons_interpreter(tmp_path: Path) -> None:
    said = run_python(INTERPRETED, TRITON_INTERPRET="1", LEGALSAT_CACHE=str(tmp_path)).splitlines()
    beginnings = (
        "source has shape (37, 26), this kernel is for (37, 51)",
        "source holds fp32, this kernel is for fp16",
        "source has strides (51, 1), this kernel is for (53, 1)",
        "Triton's interpreter has no tensor maps",
    )
    assert len(said) == len(beginnings)
    for line, begins in zip(said, beginnings, strict=True):
        assert line.startswith(begins)
