"""Emitted Gluon kernels: they compile to the copies that were asked for, and move every word to its place."""

from __future__ import annotations

import ast
import functools
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import triton
from gluon_on_numpy import run_on_numpy
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from triton._C.libtriton import gluon_ir, ir
from triton.backends.compiler import GPUTarget
from triton.compiler import make_backend
from triton.experimental.gluon import language as gl

from legalsat.analyses.protocol.typestate import check
from legalsat.backends.triton import (
    CompiledKernel,
    CopyKernel,
    Operand,
    compile_kernel,
    emit,
    kernel_name,
    load_module,
)
from legalsat.backends.triton.registers import (
    Bit,
    bits_by_address,
    exchanges_bytes,
    plain_layouts,
    shared_addresses,
    staged_layout,
    wavefronts,
)
from legalsat.errors import InvalidInput, LegalSatError
from legalsat.extract.check.check_ptx import check_ptx
from legalsat.extract.kernels.movement_pipeline import movement_pipeline
from legalsat.extract.search.schedule import launch as launch_of
from legalsat.operators.access import Access, Mode
from legalsat.plans.movement_plan import SharedTile, View
from legalsat.plans.plan import Launch
from legalsat.targets import target

LANES = 32


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a compact tensor in elements."""
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def permute(
    shape: tuple[int, ...],
    order: tuple[int, ...],
    element_bytes: int,
    tile: tuple[int, ...],
    *,
    pitch: tuple[int, ...] | None = None,
    target_pitch: tuple[int, ...] | None = None,
    way: str = "staged",
    stages: int = 1,
    warps: int = 4,
    programs: int = 0,
    staging: int = 1,
    **fields: Any,
) -> CopyKernel:
    """The kernel for `target = source.permute(order)`; `tile` in elements, in the source's order."""
    rank = len(shape)
    stride = pitch or row_major(shape)
    target_shape = tuple(shape[m] for m in order)
    target_stride = target_pitch or row_major(target_shape)
    word_bytes = min(element_bytes, 4)
    words = element_bytes // word_bytes
    back = [target_stride[order.index(m)] * words for m in range(rank)]
    # An element of several words is one more mode, merged into the innermost dimension.
    more = (words,) if words > 1 else ()
    last = (rank,) if words > 1 else ()
    source_groups = (*((m,) for m in range(rank - 1)), (rank - 1, *last))
    target_groups = (*((m,) for m in order[:-1]), (order[-1], *last))
    numbers: dict[str, Any] = {
        "source": Operand(shape, stride, element_bytes),
        "target": Operand(target_shape, target_stride, element_bytes),
        "word_bits": 8 * word_bytes,
        "extent": shape + more,
        "tile": tile + more,
        "source_stride": tuple(d * words for d in stride) + (1,) * len(more),
        "target_stride": tuple(back) + (1,) * len(more),
        "source_groups": source_groups,
        "target_groups": {"staged": target_groups, "direct": source_groups, "plain": None}[way],
        "swizzle_source": 128,
    } | fields
    numbers.setdefault("swizzle_target", 0 if way == "plain" else numbers["swizzle_source"])
    return CopyKernel(**numbers, **planned(numbers, stages, warps, programs, staging))


def planned(numbers: dict[str, Any], stages: int, warps: int, programs: int, staging: int) -> dict[str, Any]:
    """The program and the launch of a kernel of these numbers."""
    bits, extent, tile = numbers["word_bits"], numbers["extent"], numbers["tile"]
    strides = {side: tuple(d * bits for d in numbers[f"{side}_stride"]) for side in ("source", "target")}
    access = Access(bits, tuple(map(Mode, extent, strides["source"], strides["target"], tile)), "tma")
    views = []
    store = "threads" if numbers["target_groups"] is None else "tma"
    for side in ("source", "target"):
        slowest_first = numbers[f"{side}_groups"] or numbers["source_groups"]
        groups = tuple(tuple(reversed(group)) for group in reversed(slowest_first))
        spans = (tuple(math.prod(words[m] for m in group) for group in groups) for words in (extent, tile))
        views.append(View(side, groups, next(spans), tuple(strides[side][group[0]] for group in groups), next(spans)))
    size = math.prod(tile) * bits // 8
    shared = [SharedTile("source", bits, (), "none", 1, size, 128, stages, overlays=False)]
    if views[0].groups != views[1].groups:
        shared.append(SharedTile("target", bits, (), "none", 1, size, 128, staging, overlays=not programs))
    load, other = views
    launch = Launch(warps, programs, launch_of(access, (load, other), store, 1, target("h200")).grid)
    program = movement_pipeline(access, (load, other), tuple(shared), (), (), store=store, launch=launch)
    return {"launch": launch, "program": program}


SPECS = {
    # The copy engine alone.
    "copy 1d": permute((1000,), (0,), 4, (128,), way="direct", swizzle_source=0),
    "copy 1d long block": permute((10000,), (0,), 1, (2048,), way="direct", swizzle_source=0, stages=3, programs=2),
    "copy 2d": permute((100, 72), (0, 1), 2, (16, 64), way="direct"),
    "copy 2d pitch": permute(
        (61, 56),
        (0, 1),
        2,
        (16, 32),
        pitch=(64, 1),
        target_pitch=(72, 1),
        way="direct",
        swizzle_source=64,
        stages=4,
        programs=2,
        warps=1,
    ),
    "copy one stage": permute((40, 100), (0, 1), 4, (8, 32), way="direct", stages=1, programs=3),
    "copy wide": permute((20, 608), (0, 1), 1, (8, 512), way="direct", stages=2, programs=1),
    "copy 64 bit": permute((33, 50), (0, 1), 8, (16, 16), way="direct", stages=5, programs=2),
    "outer modes 5d": permute((2, 3, 4, 5, 48), (3, 1, 0, 2, 4), 1, (1, 2, 2, 8, 32), way="direct", swizzle_source=32),
    # Through registers, 16 bits.
    "transpose": permute((136, 200), (1, 0), 2, (64, 64)),
    "transpose ring": permute((200, 264), (1, 0), 2, (64, 64), stages=3, programs=2),
    "transpose two stagings": permute((136, 328), (1, 0), 2, (128, 64), stages=2, programs=3, staging=2, warps=8),
    "transpose few tiles": permute((72, 72), (1, 0), 2, (64, 64), stages=4, programs=6),
    "transpose pitch": permute((72, 40), (1, 0), 2, (16, 64), pitch=(48, 1), target_pitch=(88, 1), swizzle_target=32),
    "transpose no swizzle": permute((72, 40), (1, 0), 2, (32, 32), swizzle_source=0, warps=1),
    "reverse 3d": permute((40, 5, 48), (2, 1, 0), 2, (32, 4, 32), swizzle_source=64, stages=2, programs=3),
    "rotate 4d": permute((2, 40, 3, 72), (0, 2, 3, 1), 2, (1, 64, 2, 64)),
    "reverse 5d": permute((24, 3, 2, 5, 40), (4, 3, 2, 1, 0), 2, (32, 1, 2, 1, 32), swizzle_source=64),
    # 8 bits.
    "bytes": permute((80, 144), (1, 0), 1, (64, 64), swizzle_source=64),
    "bytes odd": permute(
        (80, 131), (1, 0), 1, (64, 64), pitch=(144, 1), swizzle_source=64, stages=2, programs=2, staging=2
    ),
    "bytes 3d": permute((48, 3, 144), (2, 1, 0), 1, (128, 1, 128), warps=8),
    # 32 bits and wider elements.
    "words": permute((68, 100), (1, 0), 4, (32, 32)),
    "words 5d": permute((2, 12, 3, 2, 36), (0, 4, 3, 2, 1), 4, (1, 32, 1, 1, 32), stages=2, programs=2),
    "double words": permute((34, 50), (1, 0), 8, (16, 16)),
    "double words 5d": permute((10, 3, 2, 5, 18), (4, 3, 2, 1, 0), 8, (16, 1, 1, 1, 16), stages=2, programs=4),
    "quadruple words": permute((17, 23), (1, 0), 16, (8, 8), warps=1),
    # Plain stores.
    "plain transpose": permute((72, 136), (1, 0), 2, (64, 64), target_pitch=(73, 1), way="plain"),
    "plain copy": permute((50, 72), (0, 1), 2, (32, 64), target_pitch=(73, 1), way="plain", stages=3, programs=2),
    "plain words": permute((96, 64), (1, 0), 4, (32, 32), target_pitch=(97, 1), way="plain"),
    "plain bytes": permute((45, 80), (1, 0), 1, (32, 64), swizzle_source=64, way="plain", stages=2, programs=2),
    "plain 3d": permute((31, 5, 40), (2, 1, 0), 2, (32, 4, 32), swizzle_source=64, way="plain"),
    "plain double words": permute((33, 20), (1, 0), 8, (16, 16), way="plain"),
    "plain spread": permute((300,), (0,), 1, (128,), swizzle_source=0, target_pitch=(3,), way="plain"),
}
every_spec = pytest.mark.parametrize("name", SPECS)
LARGE = permute((16384, 16384), (1, 0), 2, (64, 64), stages=3, programs=528)


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        yield


@pytest.fixture(scope="module")
def builder() -> Iterator[Any]:
    """Triton's own view of layouts; its context must outlive it."""
    context = ir.context()
    ir.load_dialects(context)
    make_backend(GPUTarget("cuda", 90, 32)).load_dialects(context)
    yield gluon_ir.GluonOpBuilder(context)


@functools.cache
def compiled(kernel: CopyKernel) -> CompiledKernel:
    return compile_kernel(kernel)


def copies(ptx: str, direction: str) -> list[int]:
    """Ranks of the tensor copies in a PTX text."""
    ends = r"global\.shared::cta" if direction == "store" else r"shared::(?:cta|cluster)\.global"
    return [int(rank) for rank in re.findall(rf"cp\.async\.bulk\.tensor\.(\d)d\.{ends}", ptx)]


@every_spec
def test_compiles_to_the_copies_asked_for(name: str) -> None:
    kernel = SPECS[name]
    result = compiled(kernel)
    maps = [m for m in (kernel.load_map, kernel.store_map) if m]
    assert result.boxes == tuple(m.box for m in maps)
    starts = 2  # in the loop that loads ahead, and in the one that also stores
    for direction, tensor_map in zip(("load", "store"), maps, strict=False):
        # Triton deals the boxes of one tile out to the warps.
        boxes = math.prod(b // x for b, x in zip(tensor_map.block, tensor_map.box, strict=True))
        boxes = max(1, boxes // kernel.warps)
        ranks = copies(result.ptx, direction)
        assert set(ranks) == {len(tensor_map.box)}
        assert len(ranks) % boxes == 0
        assert len(ranks) <= boxes * (starts if kernel.programs else 1)
    assert bool(copies(result.ptx, "store")) == (kernel.store_map is not None)
    assert set(re.findall(r"expect_tx\S* _, \[\S+\], (\d+);", result.ptx)) == {str(kernel.tile_bytes)}
    assert result.cubin[:4] == b"\x7fELF"
    assert result.shared_bytes <= kernel.shared_bytes


@every_spec
def test_what_is_printed_keeps_the_contract(name: str) -> None:
    """The program for all numbers of tiles, and what Triton makes of its text."""
    kernel = SPECS[name]
    assert check(kernel.program, target("h200")).proven
    assert check_ptx(compiled(kernel).ptx).proven


@every_spec
def test_uses_no_local_memory_and_few_registers(name: str, tmp_path: Path) -> None:
    cubin = tmp_path / "kernel.cubin"
    cubin.write_bytes(compiled(SPECS[name]).cubin)
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    usage = subprocess.run([tool, "-res-usage", cubin], capture_output=True, text=True, check=True).stdout
    numbers = re.search(r"REG:(\d+) STACK:(\d+) .*LOCAL:(\d+)", usage)
    assert numbers, usage
    registers, stack, local = map(int, numbers.groups())
    assert (stack, local) == (0, 0)
    assert registers <= 96


@pytest.mark.parametrize("name", [n for n, k in SPECS.items() if kernel_name(k) == "permute_tiles"])
def test_permutes_with_matrix_or_vector_accesses(name: str) -> None:
    kernel = SPECS[name]
    ptx = compiled(kernel).ptx
    if kernel.word_bits == 32:
        assert re.search(r"ld\.shared\.v[24]\.b32", ptx)
        assert re.search(r"st\.shared\.v[24]\.b32", ptx)
        assert not re.search(r"(ld|st)\.shared\.b32", ptx)
    else:
        assert re.search(r"ldmatrix\.sync\.aligned\.m8n8\.x[24]\.shared", ptx)
        assert re.search(r"stmatrix\.sync\.aligned\.m8n8\.x[24]\.trans\.shared", ptx)
        assert not re.search(r"(ld|st)\.shared\.(b|u|v)", ptx)


def in_words(kernel: CopyKernel, seed: int) -> tuple[Any, Any, Any]:
    """Source and target memory as words, and what the target must become, padding untouched."""
    word = np.dtype(f"i{kernel.word_bytes}")
    spans = (kernel.source.span // kernel.word_bytes, kernel.target.span // kernel.word_bytes)
    source = np.random.default_rng(seed).integers(-(2**7), 2**7, spans[0] * word.itemsize, np.int8).view(word)
    target = np.full(spans[1] * word.itemsize, 0x5A, np.int8).view(word)
    want = target.copy()
    index = np.indices(kernel.extent).reshape(len(kernel.extent), -1)
    want[np.array(kernel.target_stride) @ index] = source[np.array(kernel.source_stride) @ index]
    return source, target, want


def moves_every_word(kernel: CopyKernel, folder: Path) -> None:
    module = load_module(emit(kernel), folder)
    for late_loads, late_stores in ((True, True), (False, True), (True, False)):
        source, target, want = in_words(kernel, 1)
        run_on_numpy(module, kernel_name(kernel), source, target, late_loads=late_loads, late_stores=late_stores)
        np.testing.assert_array_equal(target, want)


@every_spec
def test_moves_every_word_to_its_place(name: str, tmp_path: Path) -> None:
    moves_every_word(SPECS[name], tmp_path)


@st.composite
def kernels(draw: st.DrawFn) -> CopyKernel:
    """Small permutes of any rank, word size and ring."""
    rank = draw(st.integers(2, 4))
    order = tuple(draw(st.permutations(range(rank))))
    element_bytes = draw(st.sampled_from([1, 2, 4, 8]))
    row = 16 // element_bytes
    edges = {rank - 1, order[-1]}
    shape = tuple(draw(st.integers(1, 3)) * row if m in edges else draw(st.integers(1, 5)) for m in range(rank))
    tile = tuple(draw(st.sampled_from([1, 2])) * (row if m in edges else 1) for m in range(rank))
    programs = draw(st.integers(0, 4))
    ways = ["staged", "plain"] + ["direct"] * (len(edges) == 1)
    assume(math.prod(tile) * max(1, element_bytes // 4) >= LANES)
    return permute(
        shape,
        order,
        element_bytes,
        tile,
        way=draw(st.sampled_from(ways)),
        swizzle_source=0,
        warps=1,
        programs=programs,
        stages=draw(st.integers(1, 4)) if programs else 1,
        staging=draw(st.integers(1, 2)) if programs else 1,
    )


@settings(deadline=None, max_examples=40)
@given(kernel=kernels())
def test_any_permute_moves_every_word(kernel: CopyKernel, tmp_path_factory: pytest.TempPathFactory) -> None:
    moves_every_word(kernel, tmp_path_factory.mktemp("kernel"))


@st.composite
def warp_accesses(draw: st.DrawFn) -> tuple[CopyKernel, tuple[Bit, ...], tuple[Bit, ...]]:
    """A tile in shared memory, and which of its bits one thread and one warp access."""
    swizzle, word_bytes = draw(st.sampled_from([0, 32, 64, 128])), draw(st.sampled_from([1, 2, 4]))
    row = max(16, swizzle) // word_bytes * draw(st.sampled_from([1, 2]))
    outer = tuple(2**n for n in draw(st.lists(st.integers(0, 4), min_size=1, max_size=3)))
    assume(math.prod(outer) >= 8 and row * math.prod(outer) <= 2**11)
    shape = (*outer, row)
    kernel = permute(shape, tuple(range(len(shape))), word_bytes, shape, way="direct", swizzle_source=swizzle)
    bits = bits_by_address(kernel, kernel.source_order)
    width = draw(st.integers(0, (16 // word_bytes).bit_length() - 1))
    assume(len(bits) >= width + 5)
    # The bit behind the vector is a lane's, so that Triton finds no longer vector.
    others = draw(st.permutations(bits[width + 1 :]))
    lanes = draw(st.permutations([bits[width], *others[:4]]))
    return kernel, (*bits[:width], *others[4:]), tuple(lanes)


@pytest.mark.skipif(not triton.__version__.startswith("3.6."), reason="a private function, which crashes in 3.9")
@given(access=warp_accesses())
def test_wavefronts_and_addresses_agree_with_triton(
    access: tuple[CopyKernel, tuple[Bit, ...], tuple[Bit, ...]], builder: Any
) -> None:
    kernel, registers, lanes = access
    rank = len(kernel.extent)
    width = next(i for i, bit in enumerate(bits_by_address(kernel, kernel.source_order)) if bit in lanes)

    def coordinates(bits: tuple[Bit, ...]) -> list[list[int]]:
        return [[2**bit.power if m == bit.mode else 0 for m in range(rank)] for bit in bits]

    layout = gl.DistributedLinearLayout(coordinates(registers), coordinates(lanes), [], [], list(kernel.tile))
    shared = gl.NVMMASharedLayout(kernel.swizzle_source, kernel.word_bits, rank)
    conflicts = builder.get_shared_bank_conflicts(
        layout._to_ir(builder), shared._to_ir(builder), list(kernel.tile), kernel.word_bits
    )
    vector_bytes = kernel.word_bytes << width
    addresses = shared_addresses(kernel, kernel.source_order, kernel.load_map, kernel.swizzle_source)
    phases = max(1, vector_bytes // 4)
    assert wavefronts(lanes, addresses, vector_bytes) == phases * (1 + conflicts)


@pytest.mark.parametrize("name", [n for n, k in SPECS.items() if not k.direct])
def test_every_word_has_one_thread(name: str) -> None:
    kernel = SPECS[name]
    bits = set(bits_by_address(kernel, kernel.source_order))
    if exchanges_bytes(kernel):
        bits.remove(Bit(kernel.source_order[-1], 0))
    layouts = [staged_layout(kernel)] if kernel.store_map else plain_layouts(kernel)
    for layout in layouts:
        dealt = [*layout.registers, *layout.lanes, *layout.warps]
        assert len(layout.lanes) == 5
        assert 2 ** len(layout.warps) == kernel.warps
        assert len(dealt) == len(bits)
        assert set(dealt) == bits


def test_32_bit_transpose_has_no_bank_conflicts() -> None:
    kernel = SPECS["words"]
    assert kernel.store_map
    layout = staged_layout(kernel)
    for order, shape in ((kernel.source_order, kernel.load_map), (kernel.target_order, kernel.store_map)):
        addresses = shared_addresses(kernel, order, shape, 128)
        # Eight bytes a lane are 256 bytes a warp, two wavefronts of 128.
        assert wavefronts(layout.lanes, addresses, 8) == 2


@given(
    addresses=st.lists(st.integers(0, 255).map(lambda n: 16 * n), min_size=5, max_size=5),
    vector_bytes=st.sampled_from([4, 8, 16]),
)
def test_wavefronts_count_the_words_of_the_busiest_bank(addresses: list[int], vector_bytes: int) -> None:
    lanes = [Bit(0, power) for power in range(5)]
    phases = vector_bytes // 4
    total = 0
    for phase in range(phases):
        words = set()
        for lane in range(phase * LANES // phases, (phase + 1) * LANES // phases):
            first = functools.reduce(lambda a, b: a ^ b, (addresses[i] for i in range(5) if lane >> i & 1), 0)
            words |= {first // 4 + i for i in range(phases)}
        total += max(sum(w % 32 == bank for w in words) for bank in range(32))
    assert wavefronts(lanes, dict(zip(lanes, addresses, strict=True)), vector_bytes) == total


def test_text_depends_on_the_kernel_alone() -> None:
    script = (
        "import sys, hashlib; sys.path.insert(0, sys.argv[1]); from test_triton_kernels import SPECS, emit;"
        "print(hashlib.sha256(''.join(map(emit, SPECS.values())).encode()).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", script, str(Path(__file__).parent)],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1
    assert digests != {""}


@every_spec
def test_module_imports_triton_alone(name: str) -> None:
    tree = ast.parse(emit(SPECS[name]))
    roots = [
        node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert {str(root).partition(".")[0] for root in roots} == {"__future__", "triton"}
    assert max(map(len, emit(SPECS[name]).splitlines())) <= 140


def test_one_module_serves_hopper_and_blackwell() -> None:
    assert ".target sm_90a" in compiled(LARGE).ptx
    assert ".target sm_100a" in compile_kernel(LARGE, 100).ptx
    with pytest.raises(InvalidInput, match="capability 80 has no tensor copy engine"):
        compile_kernel(LARGE, 80)


GOOD = permute((128, 128), (1, 0), 2, (64, 64))
LONG = SimpleNamespace(**planned({**vars(GOOD)}, 30, 4, 132, 1))
DIRECT = permute((128, 128), (0, 1), 2, (64, 64), way="direct")
SMALL = permute((128, 128), (1, 0), 2, (16, 16), swizzle_source=32)
WIDE = permute((128, 128), (1, 0), 8, (16, 16))
REFUSED = [
    (GOOD, {"word_bits": 64}, "word_bits is 64; give 8, 16 or 32"),
    (GOOD, {"word_bits": True}, "word_bits is True"),
    (GOOD, {"tile": (64, 48)}, r"tile\[1\] is 48; give a power of two"),
    (GOOD, {"tile": (64, 64.0)}, r"tile\[1\] is 64.0; give an integer"),
    (GOOD, {"tile": (64,)}, "tile has 1 entry; give 2"),
    (GOOD, {"extent": ()}, "extent is empty"),
    (GOOD, {"extent": (128, 0)}, r"extent\[1\] is 0"),
    (GOOD, {"extent": (128, 64)}, "the modes hold 16384 bytes over 16384, the target tensor 32768 over 32768"),
    (GOOD, {"target_stride": (0, 128)}, r"target_stride\[0\] is 0 over 128 words"),
    (GOOD, {"source": None}, "source is None; give an Operand"),
    (GOOD, {"source": Operand((128, 32), (32, 1), 8)}, "source elements have 8 bytes, target elements 2"),
    (WIDE, {"source": Operand((128, 512), (512, 1), 2)}, "source has elements of 2 bytes, no multiple of the word's 4"),
    (GOOD, {"swizzle_source": 48}, "swizzle_source is 48 bytes; give 0, 32, 64 or 128"),
    (GOOD, {"launch": Launch(3, 0)}, "warps is 3; give 1, 2, 4, 8 or 16"),
    (GOOD, {"program": LONG.program}, "need 254192 bytes of shared memory with their staging, more than 232448"),
    (GOOD, {"source_groups": ((0,), (0,))}, r"source_groups lists the modes \(0, 0\); list each of 0 to 1 once"),
    (GOOD, {"source_groups": [[0], [1]]}, "give a tuple of non-empty tuples"),
    (GOOD, {"source_groups": ((1,), (0,))}, r"source_stride\[0\] is 128 words; the innermost mode of a map has 1"),
    (GOOD, {"source_groups": ((0, 1),)}, "source_groups merges mode 1 behind mode 0, but its tile is 64 of 128 words"),
    (GOOD, {"target_groups": ((0, 1),)}, r"target_groups merges modes 0 and 1, but target_stride\[0\] is 1 words"),
    (GOOD, {"tile": (64, 4), "swizzle_source": 0}, "source tile has inner rows of 8 bytes; give at least 16"),
    (GOOD, {"tile": (64, 32)}, "source tile has inner rows of 64 bytes; give at least 128"),
    (GOOD, {"tile": (4, 64)}, "source tile has 4 inner rows; a swizzle of 128 bytes needs 8"),
    (SMALL, {"launch": Launch(16, 0)}, "tile has 256 words for 512"),
    (GOOD, {"tile": (512, 64)}, r"source tile spans \(512, 64\) words; give at most 256"),
    (DIRECT, {"swizzle_target": 64}, "both maps share one buffer, but swizzle 128 and 64 bytes"),
]  # fmt: skip


@pytest.mark.parametrize(("good", "change", "message"), REFUSED)
def test_bad_specs_are_refused(good: CopyKernel, change: dict[str, Any], message: str) -> None:
    with pytest.raises(LegalSatError, match=message):
        replace(good, **change)


def test_maps_that_no_engine_takes_are_refused() -> None:
    with pytest.raises(InvalidInput, match="source map has a stride of 258 bytes; give a multiple of 16"):
        permute((128, 129), (1, 0), 2, (64, 64))
    with pytest.raises(InvalidInput, match="inner rows of 200 bytes, and a tensor store would write up to"):
        permute((100, 128), (1, 0), 2, (64, 64), target_pitch=(104, 1))
    with pytest.raises(InvalidInput, match="source_groups has 6 dimensions, a tensor map at most 5; merge some"):
        permute((2, 2, 2, 2, 8, 8), (5, 4, 3, 2, 1, 0), 2, (1, 1, 1, 1, 8, 8), swizzle_source=0)
    with pytest.raises(InvalidInput, match=r"operand shape\[1\] is 0"):
        Operand((4, 0), (1, 1), 2)
    with pytest.raises(InvalidInput, match="overflow 32 bits; widen the tile"):
        permute((2**20, 2**20), (1, 0), 2, (8, 8), swizzle_source=0, warps=1)
    with pytest.raises(InvalidInput, match="Triton passes at most 2147483647"):
        permute((2**31,), (0,), 1, (4096,), way="direct", swizzle_source=0)


@pytest.mark.gpu
@every_spec
def test_agrees_with_torch(name: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("needs compute capability 9.0 or later")
    kernel = SPECS[name]
    module: ModuleType = load_module(emit(kernel), tmp_path)
    words, _, want = in_words(kernel, 2)
    dtype = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.complex128}
    element = dtype[kernel.source.element_bytes]
    source = torch.from_numpy(words).cuda().view(element).as_strided(kernel.source.shape, kernel.source.stride)
    memory = torch.full((kernel.target.span,), 0x5A, dtype=torch.int8, device="cuda")
    module.run(source, memory.view(element).as_strided(kernel.target.shape, kernel.target.stride))
    np.testing.assert_array_equal(memory.cpu().numpy(), want.view(np.int8))
    with pytest.raises(ValueError, match="this kernel is for"):
        module.run(source[1:])
