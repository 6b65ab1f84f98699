"""Products in Triton: what Triton makes of the emitted text is what the plan says, on a machine without a GPU."""

from __future__ import annotations

import ast
import builtins
import dis
import inspect
import re
import subprocess
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gluon_on_numpy import run_threads_on_numpy
from numpy.lib.stride_tricks import as_strided
from small_products import MORE, PRODUCTS, Case

import legalsat as ls
from bench.kernels.conformance import name_of
from legalsat.backends import program
from legalsat.backends.ptx.assemble import tool_for
from legalsat.backends.triton.compile import load_module
from legalsat.backends.triton.product_program import compiled, image_of
from legalsat.extract.cost.kernel_cost import kernel_cost
from legalsat.extract.kernels.product_kernels import each_kernel
from legalsat.extract.moved.relayouts import relaid_by_words
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.plans.product_kernel import ProductKernel
from legalsat.runtime.program import MapArgument, Program, program_from_json
from legalsat.tensor import plain
from legalsat.units.tensor_map import driver_value
from legalsat.units.wgmma import Wgmma

LARGE = Case("sm_90a", (4096, 4096, 4096), "bf16")
ODD = Case("sm_90a", (512, 4095, 264), "bf16")
BYTES = Case("sm_90a", (70, 32, 80), "i8", out="i8")
WGMMA = [case for case in (*PRODUCTS, *MORE) if case.target == "sm_90a"]
TABLE = [
    *WGMMA,
    ODD,
    *(Case("sm_90a", (4096, 4096, 4096), kind) for kind in ("fp16", "fp32", "e4m3", "i8")),
    *(Case("sm_90a", (4096, 4096, 4096), "bf16", majors=majors) for majors in ("MK", "KM", "MM")),
    Case("sm_90a", (4096, 4096, 4096), "bf16", out="fp32"),
    Case("sm_90a", (4096, 4096, 4096), "e4m3", out="e4m3"),
    Case("sm_90a", (4096, 4098, 4096), "bf16"),
    Case("sm_90a", (512, 4096, 7168), "bf16"),
    Case("sm_90a", (512, 512, 8192), "bf16"),
]


@lru_cache
def planned(case: Case) -> GemmPlan:
    return ls.synthesize(case.gemm(), case.target, backend="triton")


def require_right(plan: GemmPlan, made: Program) -> None:
    """Compile and compare with the plan; `image_of` compares boxes, swizzles and parameters as well."""
    (recipe,) = image_of(made).recipes
    found = compiled(made.text, made.signature, made.architecture, made.recipes[0].threads // 32)
    assert found.cubin[:4] == b"\x7fELF"
    maps = [one.map for one in recipe.arguments if isinstance(one, MapArgument)]
    theirs = [(tuple(reversed(one["block_size"])), one["swizzle"]) for one in found.metadata["tensordesc_meta"]]
    assert theirs == [(tm.box, driver_value("swizzle", tm.swizzle)) for tm in maps]
    # One instruction a box: the copy engine's boxes fill the tiles.
    loads = re.findall(r"cp\.async\.bulk\.tensor\.2d\.shared::(?:cluster|cta)\.global", found.ptx)
    if plan.kernel is not None:
        assert [tm.box for tm in maps] == [tm.box for tm in plan.tensor_maps]
        assert 2 <= len(loads) <= sum(plan.kernel.boxes)
    assert ("cp.async.bulk.tensor.2d.global.shared::cta" in found.ptx) == (len(maps) == 3)
    assert plan.mma is not None
    assert plan.kernel is not None
    most = 128 if plan.operator.dtype.kind == "int" else 256  # Triton halves a wider tile of integers
    columns = min(plan.kernel.tile[1], most)
    instruction = str(Wgmma(columns, plan.mma.types[0]))
    assert set(re.findall(r"wgmma\.mma_async\.[\w.]+", found.ptx)) == {instruction}
    assert not re.search(r"\bst\.local|\bld\.local", found.ptx)
    # Addresses of rows beside accumulators and what is held of the tile before: Triton 3.9 spills a few of these.
    by_rows = plan.kernel is not None and plan.kernel.overlapped and plan.kernel.store == "rows"
    assert spilled(found.cubin) <= (64 if by_rows else 0)
    ring = plan.kernel.stages * sum(ls.tx_bytes(tm) for tm in maps[:2])
    assert ring < recipe.shared <= plan.target.shared_bytes_per_block, "the ring is the plan's, and C lies beside it"
    assert recipe.threads == 32 * plan.launch.warps


def spilled(cubin: bytes) -> int:
    """Return the bytes of local memory that a kernel takes: its frame, of the attributes in .nv.info."""
    frames = [
        cubin[at + 8 : at + 12] for at in range(0, len(cubin) - 12, 4) if cubin[at : at + 4] == b"\x04\x11\x08\x00"
    ]
    assert frames, "every cubin says how large its frames are"  # EIATTR_FRAME_SIZE: 04 11, 8 bytes, symbol, size
    return sum(int.from_bytes(frame, "little") for frame in frames)


@pytest.mark.parametrize("case", [LARGE, ODD, BYTES], ids=str)
def test_triton_compiles_what_the_plan_says(case: Case) -> None:
    require_right(planned(case), program(planned(case), "triton"))


@pytest.mark.slow
@pytest.mark.parametrize("case", TABLE, ids=str)
def test_triton_compiles_all_types_and_majors(case: Case) -> None:
    require_right(planned(case), program(planned(case), "triton"))


@pytest.mark.parametrize("case", [LARGE, pytest.param(ODD, marks=pytest.mark.slow)], ids=str)
def test_pipelines_keep_their_contract(case: Case) -> None:
    made = program(planned(case), "triton")
    found = compiled(made.text, made.signature, made.architecture, made.recipes[0].threads // 32)
    assert not ls.check_pipeline(found.ptx, "sm_90a").diagnostics


@pytest.mark.parametrize("case", [LARGE, *(pytest.param(case, marks=pytest.mark.slow) for case in TABLE)], ids=str)
def test_the_assembler_does_not_make_multiplications_wait_for_each_other(case: Case, tmp_path: Path) -> None:
    made = program(planned(case), "triton")
    source = tmp_path / "kernel.ptx"
    source.write_text(compiled(made.text, made.signature, made.architecture, made.recipes[0].threads // 32).ptx)
    said = []  # Triton brings several assemblers, not all of which know its PTX
    for tool in Path(tool_for("sm_90a")).parent.glob("ptxas*"):
        command = [str(tool), "-v", "-arch=sm_90a", "-o", str(tmp_path / "kernel.cubin"), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        said += [done.stderr] * (not done.returncode)
    assert said
    assert not any("serializ" in one for one in said)


@pytest.mark.parametrize("case", WGMMA, ids=str)
def test_texts_stand_alone(case: Case) -> None:
    """A text is Python, imports triton and torch alone, and becomes a program that survives a file."""
    made = program(planned(case), "triton")
    emitted = planned(case).emit("triton")
    assert (made.text == emitted) == (not made.before)
    modules = set()
    for node in ast.walk(ast.parse(emitted)):
        modules |= {node.module} if isinstance(node, ast.ImportFrom) else set()
        modules |= {name.name for name in node.names} if isinstance(node, ast.Import) else set()
    assert {str(name).split(".", maxsplit=1)[0] for name in modules} == {"__future__", "triton", "torch"}
    assert max(map(len, emitted.splitlines())) <= 120
    assert program_from_json(made.to_json()) == made


def test_one_text_serves_all_extents_of_a_class() -> None:
    """Extents, and how far rows are apart, are arguments; so texts of a class differ in nothing."""
    for first, second in (((4096, 4096, 4096), (8192, 6144, 4104)), ((4096, 4095, 4096), (4096, 8191, 2056))):
        one, other = (program(planned(Case("sm_90a", extent, "bf16")), "triton") for extent in (first, second))
        assert one.text == other.text
        assert one.recipes[0].arguments != other.recipes[0].arguments


def test_scales_multiply_accumulators() -> None:
    made = program(ls.synthesize(ls.Gemm(4096, 4096, 4096, "e4m3", scaled=True), "h200", backend="triton"), "triton")
    assert [one.name for one in made.operands] == ["a", "b", "scale_a", "scale_b", "c"]
    assert len(image_of(made).recipes[0].arguments) == len(made.recipes[0].arguments) + 2  # scratch memory, of none


def test_operands_are_laid_out_in_front() -> None:
    """By kernels in Triton too, so that nothing else compiles them; the pitch is of whole granules."""
    made = program(planned(Case("sm_90a", (300, 1000, 4090), "fp16")), "triton")
    assert {one.operand for one in made.before} == {"a", "b"}
    for one in made.before:
        assert max(plain(one.program.operands[1].tensor.strides)) * 2 % 16 == 0
        assert one.program.architecture == "sm_90a" and "import triton" in one.program.text
    assert made.recipes[0].dependent and "await_grid()" in made.text


class Matrix:
    """As much of a tensor as a module's `run` asks of one before it launches anything."""

    def __init__(self, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
        self.shape, self.strides = shape, strides

    def stride(self) -> tuple[int, ...]:
        return self.strides


@pytest.mark.parametrize(
    "gemm",
    [
        ls.Gemm(96, 64, 511, "bf16"),
        ls.Gemm(64, 96, 77, "e4m3", scaled=True),
        ls.Gemm(64, 96, 129, "fp16", constant_b=True),
        ls.Gemm(64, 60, 80, "fp16", b=ls.Tensor((60, 80), "fp16", (1, 60))),
        ls.Gemm(256, 512, 256, "e4m3", b=ls.Tensor((512, 256), "e4m3", (1, 512))),  # by boxes
    ],
    ids=str,
)
def test_an_emitted_module_takes_the_very_problem(gemm: ls.Gemm, tmp_path: Path) -> None:
    """Its `run` lays out what the plan says, by kernels that write each element where the product's looks for it."""
    plan = ls.synthesize(gemm, "h200", backend="triton")
    made = program(plan, "triton")
    assert made.before
    module: Any = load_module(plan.emit("triton"), tmp_path)
    for one in vars(module).values():
        function = getattr(one, "fn", one)
        if getattr(function, "__module__", "") == module.__name__:
            used = {step.argval for step in dis.get_instructions(function) if step.opname == "LOAD_GLOBAL"}
            assert not [name for name in used if not hasattr(module, name) and not hasattr(builtins, name)]
    inputs = [one.name for one in made.operands[:-1]]
    assert list(inspect.signature(module.run).parameters) == [*inputs, "c"]
    tensors = {"a": gemm.a, "b": gemm.b}
    ends = {name: (plain(one.shape), plain(one.strides)) for name, one in tensors.items()}
    given = {name: Matrix(*ends.get(name, ((), ()))) for name in inputs}
    passed: list[Any] = []
    module.multiply = lambda *operands: passed.append(operands)
    for one in made.before:
        source, target = (end.tensor for end in one.program.operands)
        assert (getattr(module, f"{one.operand.upper()}_TARGET_SHAPE"), source.shape) == (target.shape, target.shape)
        name = f"{one.operand}_move_tiles"
        if not hasattr(module, name):
            continue  # by boxes, which have a machine of their own
        size = source.dtype.bits // 8
        memory = np.random.default_rng(0).integers(0, 256, source.span_bits // 8, np.uint8).view(f"i{size}")
        result = np.full(target.span_bits // target.dtype.bits, -1, memory.dtype)
        tiles = getattr(module, f"{one.operand.upper()}_TILES")
        scope = SimpleNamespace(move_tiles=getattr(module, name), TILES=tiles)
        run_threads_on_numpy(scope, memory, result)  # type: ignore[arg-type]
        seen, wrote = (
            as_strided(data, shape=plain(end.shape), strides=[size * s for s in plain(end.strides)])
            for data, end in ((memory, source), (result, target))
        )
        assert (seen == wrote).all()
    for one in made.before:
        setattr(module, f"{one.operand}_run", lambda given, number=one.operand: (number, given))
    module.run(*given.values())
    relaid = {one.operand for one in made.before}
    want = [(name, tensor) if name in relaid else tensor for name, tensor in given.items()]
    assert list(passed[0]) == [*want, None]
    others = {name: Matrix((64, 512), (512, 1)) for name in given}
    module.run(*others.values(), "c")
    assert list(passed[1]) == [*others.values(), "c"]
    if gemm.constant_b:
        assert "`laid_out_b`" in str(module.run.__doc__)


# Kernels that have no row here, and the words of the operation that lacks one.
LACKING = {
    "cluster": "Release to several CTAs",
    "ping-pong": "Sync of consumers in turn",
    "split": "Sync of a cluster",
    "turned": "Write of turned tiles",
    "realigned in tiles": "IfLate",
    "realigned in registers": "FindRows",
    "slices of k": "AddSlices",
    "stream-K": "IfWhole",
}


def printable(kernel: ProductKernel) -> bool:
    """Whether Gluon of Triton 3.6 can say a kernel, told by its numbers."""
    plain = (
        kernel.cluster == (1, 1)
        and kernel.split == kernel.slices == 1
        and not (kernel.ping_pong or kernel.stream_k)
        and kernel.realign == "none"
        and not any(kernel.aligned)
    )
    squares = all(bin(extent).count("1") == 1 for extent in kernel.tile)
    alone = kernel.store != "sums" or kernel.warpgroups == 1
    return plain and squares and alone and kernel.blocks == 1 and kernel.store != "turned"


GEMMS = (
    ls.Gemm(4096, 4096, 4096, "bf16"),
    ls.Gemm(512, 512, 8192, "bf16"),
    ls.Gemm(300, 1000, 4090, "e4m3"),
    ls.Gemm(777, 4096, 4095, "fp16"),
    ls.Gemm(1, 8, 16, "bf16"),
)


@pytest.mark.parametrize("gemm", GEMMS, ids=str)
def test_the_cheapest_kernel_that_triton_prints_is_taken(gemm: ls.Gemm, tmp_path: Path) -> None:
    plan = ls.synthesize(gemm, "h200", backend="triton")
    able = [relaid_by_words(kernel) for _, kernel in each_kernel(gemm, plan.target) if printable(kernel)]
    assert plan.kernel in able
    assert plan.cost.nanoseconds == min(kernel_cost(gemm, kernel, plan.target).nanoseconds for kernel in able)
    assert plan.cost.nanoseconds >= ls.synthesize(gemm, "h200").cost.nanoseconds
    plan.save(tmp_path / "plan.json")
    assert GemmPlan.load(tmp_path / "plan.json").emit("triton") == plan.emit("triton")


@pytest.mark.parametrize("gemm", GEMMS, ids=str)
def test_an_operation_that_has_no_row_is_named(gemm: ls.Gemm) -> None:
    plan = ls.synthesize(gemm, "h200")
    seen: set[str] = set()
    for _, kernel in each_kernel(gemm, plan.target):
        name = name_of(kernel)
        if printable(kernel) or (name in seen and kernel.tile[1] != 192):
            continue
        seen.add(name)
        with pytest.raises(ls.LegalSatError, match=r"has no row for .*, and cute has one; ask synthesize for") as found:
            replace(plan, kernel=kernel).emit("triton")
        words = [said for part, said in LACKING.items() if part in name]
        words += [f"Registers of {kernel.blocks} CTAs on an SM"] * (kernel.blocks > 1)
        assert not words or any(f"row for {said} " in str(found.value) for said in words), (name, str(found.value))
    assert seen


def test_what_backends_do_not_print_is_said() -> None:
    for backend in ("cute", "triton"):
        with pytest.raises(ls.LegalSatError, match=f"may be taken.* {backend} has no row for .*"):
            ls.synthesize(ls.Gemm(200, 24, 200, "bf16"), "b200", backend=backend)
    with pytest.raises(ls.LegalSatError, match="may be taken, the cheapest since triton has no row for Multiply of u8"):
        ls.synthesize(ls.Gemm(64, 64, 64, "u8"), "h200", backend="triton")
    with pytest.raises(ls.LegalSatError, match="backend is 'gluon'; give one of"):
        ls.synthesize(ls.Gemm(64, 64, 64, "bf16"), "h200", backend="gluon")  # type: ignore[call-overload]
    with pytest.raises(ls.LegalSatError, match="backend chooses among kernels of a product"):
        ls.synthesize(ls.Tensor((64, 64), "bf16"), "h200", backend="triton")  # type: ignore[call-overload]
