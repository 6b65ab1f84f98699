"""Kernels by threads: they move every word to its place, in vectors just as wide as planned, on GPUs of both makers."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gluon_on_numpy import run_threads_on_numpy
from hypothesis import HealthCheck, given, settings
from problems import operators

import legalsat as ls
from bench.kernels.moved import memory_of, moved
from legalsat.backends.triton import VectorKernel, compile_vectors, emit_threads, load_module
from legalsat.backends.triton.adapter import vector_kernel_of
from legalsat.extract.search.planner import cached_plan
from legalsat.operators import Copy, Move, Transpose
from legalsat.plans.movement_plan import MovementPlan
from legalsat.targets import target

T = ls.Tensor
DRAWN = 80
HUGE = 70_000
NAMED: dict[str, Move] = {
    "aligned": Copy(T((300, 1000), "bf16")),
    "rows of 8 bytes": Copy(T((300, 1000), "bf16", (1004, 1))),
    "rows of 4 bytes": Copy(T((300, 1000), "bf16", (1002, 1))),
    "odd rows": Copy(T((300, 1001), "bf16"), T((300, 1001), "bf16", (1003, 1))),
    "odd bytes": Copy(T((300, 999), "u8"), T((300, 999), "u8", (1001, 1))),
    "base at 4 bytes": Copy(T((300, 1000), "bf16", align=4)),
    "target at 8 bytes": Copy(T((300, 1000), "bf16"), T((300, 1000), "bf16", align=8)),
    "transpose": Transpose(T((512, 1024), "bf16")),
    "transpose of odd rows": Transpose(T((512, 1023), "bf16")),
    "transpose into odd rows": Transpose(T((511, 1024), "bf16")),
    "transpose of bytes": Transpose(T((512, 1024), "u8")),
    "transpose of 64 bits": Transpose(T((300, 1000), "fp64")),
    "rotation": Transpose(T((64, 3, 5, 128), "fp32"), (3, 0, 1, 2)),
    "rotation of a tile of three modes": Transpose(T((24, 16, 40), "bf16"), (1, 2, 0), tile=(8, 16, 32)),
    "short rows that merge": Copy(T((500, 16, 4), "bf16", (72, 4, 1)), tile=(32, 16, 4)),
    "packed": Copy(T((300, 1024), "e2m1")),
    "far apart": Copy(T((3, 100, 256), "fp32", (HUGE * HUGE, 256, 1))),
}
WIDTHS = {"b8": 1, "b16": 2, "b32": 4, "b64": 8, "b128": 16}
AMD_WIDTHS = {"byte": 1, "ubyte": 1, "short": 2, "ushort": 2, "dword": 4, "dwordx2": 8, "dwordx4": 16}


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        yield


def planned(operator: Move, gpu: str = "h200") -> MovementPlan:
    return cached_plan(operator, target(gpu), ("threads",))


def runs(found: MovementPlan, folder: Path) -> bool:
    """Whether the emitted kernel, run on random words, does what the movement's definition says."""
    module = load_module(found.emit("triton"), folder)
    source, result = memory_of(found.operator.source, 1), memory_of(found.operator.target)
    want = moved(found.operator, source, result)
    word = f"i{found.access.word // 8}"
    run_threads_on_numpy(module, source.view(word), result.view(word))
    return np.array_equal(result, want)


def test_any_plan_by_threads_becomes_a_kernel_that_moves_every_word(tmp_path: Path) -> None:
    made = Counter[str]()

    @settings(deadline=None, max_examples=DRAWN, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(operators())
    def check(operator: Move) -> None:
        try:
            found = planned(operator)
            found.emit("triton")
        except ls.LegalSatError as refusal:
            made[type(refusal).__name__] += 1
            return
        made["kernel"] += 1
        assert runs(found, tmp_path)

    check()
    assert made["kernel"] >= DRAWN // 5, made


@pytest.mark.parametrize("name", [n for n in NAMED if n != "far apart"])
def test_named_movements_reach_their_places(name: str, tmp_path: Path) -> None:
    assert runs(planned(NAMED[name]), tmp_path)


def vector_bytes(assembly: str, direction: str) -> set[int]:
    """Return how many bytes the accesses of global memory move, each thread, in PTX or in AMD's assembly."""
    short = {"load": "ld", "store": "st"}[direction]
    found = {
        int(count or 1) * WIDTHS[width]
        for count, width in re.findall(rf"{short}\.global\.(?:v(\d)\.)?(b\d+)", assembly)
    }
    return found | {AMD_WIDTHS[w] for w in re.findall(rf"global_{direction}_(\w+?)(?:_d16_hi)?\b", assembly)}


@pytest.mark.parametrize("gpu", ["h200", "a100"])
@pytest.mark.parametrize("name", NAMED)
def test_instructions_are_as_wide_as_planned(name: str, gpu: str) -> None:
    found = planned(NAMED[name], gpu)
    compiled = compile_vectors(vector_kernel_of(found), target(gpu))
    assert compiled.binary[:4] == b"\x7fELF"
    load, store = found.copies
    assert vector_bytes(compiled.assembly, "load") == {load.bytes}
    assert vector_bytes(compiled.assembly, "store") == {store.bytes}


def test_the_named_movements_need_vectors_of_every_width() -> None:
    widths = {copy.bytes for operator in NAMED.values() for copy in planned(operator).copies}
    assert widths == {1, 2, 4, 8, 16}


@pytest.mark.parametrize("gpu", ["mi300x", "mi355x"])
@pytest.mark.parametrize("name", ["aligned", "rows of 8 bytes", "odd bytes", "transpose of odd rows", "far apart"])
def test_amd_gpus_run_them_too(name: str, gpu: str) -> None:
    """LLVM may join neighbouring accesses of a thread, since these GPUs take wide ones at multiples of 4 bytes."""
    found = planned(NAMED[name], gpu)
    compiled = compile_vectors(vector_kernel_of(found), target(gpu))
    assert compiled.binary[:4] == b"\x7fELF" and target(gpu).architecture in compiled.assembly
    load, store = found.copies
    assert min(vector_bytes(compiled.assembly, "load")) == load.bytes
    assert min(vector_bytes(compiled.assembly, "store")) == store.bytes


@pytest.mark.parametrize("gpu", ["h200", "a100", "mi300x", "mi355x"])
def test_one_text_compiles_for_every_gpu(gpu: str) -> None:
    compiled = compile_vectors(vector_kernel_of(planned(NAMED["transpose"])), target(gpu))
    assert vector_bytes(compiled.assembly, "load") == vector_bytes(compiled.assembly, "store") == {16}


class Far:
    """Memory of 16-bit words too large to have: what is read depends on where, what is written is kept."""

    itemsize, dtype = 2, np.dtype(np.int16)

    def __init__(self) -> None:
        self.written: dict[int, int] = {}

    def __getitem__(self, at: Any) -> Any:
        assert np.all((at >= 0) & (at < HUGE * HUGE))
        return (at * 40503 >> 8).astype(np.int16)

    def __setitem__(self, at: Any, words: Any) -> None:
        assert np.all((at >= 0) & (at < HUGE * HUGE))
        self.written.update(zip(at.tolist(), words.tolist(), strict=True))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_words_beyond_two_to_the_31_are_reached(order: tuple[int, int], tmp_path: Path) -> None:
    found = planned(Transpose(T((HUGE, HUGE), "bf16"), order, tile=(64, 64)))
    module = load_module(found.emit("triton"), tmp_path)
    source, result = Far(), Far()
    run_threads_on_numpy(module, source, result, range(module.TILES - 1, module.TILES))
    assert len(result.written) == (HUGE % 64 or 64) ** 2
    for at, word in result.written.items():
        row, column = divmod(at, HUGE)
        assert max(row, column) >= HUGE - 64
        came = row * HUGE + column if order == (0, 1) else column * HUGE + row
        assert word == source[np.array([came])][0]


def test_module_imports_triton_alone_and_has_no_long_lines() -> None:
    for operator in NAMED.values():
        text = planned(operator).emit("triton")
        roots = {
            str(node.module if isinstance(node, ast.ImportFrom) else node.names[0].name).partition(".")[0]
            for node in ast.parse(text).body
            if isinstance(node, ast.Import | ast.ImportFrom)
        }
        assert roots == {"__future__", "triton"}
        assert max(map(len, text.splitlines())) <= 140


def test_what_has_no_kernel_is_refused_by_name() -> None:
    with pytest.raises(ls.InvalidInput, match="give a power of two"):
        planned(Copy(T((960, 960), "bf16"), tile=(96, 64))).emit("triton")
    with pytest.raises(ls.LegalSatError, match="no row for Loop"):
        planned(Copy(T((128, 128), "bf16"), tile=(64, 64), consumer="wgmma.a")).emit("triton")
    rows = T((64, 96), "bf16", (104, 1))
    odd = Transpose(T((64, 96), "bf16", (101, 1)), tile=(32, 32))
    tile = Copy(rows, tile=(64, 32), consumer="wgmma.a")
    for means, operator, lacking in (
        ("bulk", Copy(rows), "Load of runs"),
        ("cp.async", Copy(rows), "CopyIn"),
        ("tma.phases", odd, "Load by several tensor maps"),
        ("fragments", tile, "Vectors of fragments"),
    ):
        found = cached_plan(operator, target("h200"), (means,))
        with pytest.raises(ls.LegalSatError, match=rf"no row for {lacking} .*cute has one"):
            found.emit("triton")


def test_bad_numbers_are_refused() -> None:
    good = vector_kernel_of(planned(NAMED["transpose"]))
    fields = {name: getattr(good, name) for name in good.__dataclass_fields__}
    for change, message in (
        ({"word_bits": 4}, "word_bits is 4; give 8, 16, 32 or 64"),
        ({"tile": (64, 48)}, r"tile\[1\] is 48; give a power of two"),
        ({"extent": (2**40, 2**40)}, "tiles overflow 32 bits; widen the tile"),
    ):
        with pytest.raises(ls.InvalidInput, match=message):
            VectorKernel(**{**fields, **change})
    assert emit_threads(VectorKernel(**fields)) == emit_threads(good)


@pytest.mark.gpu
@pytest.mark.parametrize("name", [n for n in NAMED if n not in {"far apart", "packed"}])
def test_agrees_with_torch(name: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    operator = NAMED[name]
    module = load_module(planned(operator).emit("triton"), tmp_path)
    source, result = memory_of(operator.source, 2), memory_of(operator.target)
    want = moved(operator, source, result)
    element = {1: torch.uint8, 2: torch.bfloat16, 4: torch.float32, 8: torch.float64}[operator.source.dtype.bits // 8]
    ends = [torch.from_numpy(memory).cuda().view(element) for memory in (source, result)]
    module.run(
        *(m.as_strided(t.shape, t.strides) for m, t in zip(ends, (operator.source, operator.target), strict=True))
    )
    assert np.array_equal(ends[1].view(torch.uint8).cpu().numpy(), want)
