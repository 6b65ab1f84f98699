"""Slices of k in PTX: the kernel behind on a model of the machine, and whole products on wgmma and tcgen05."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from ptx_formats import decode, encode
from ptx_launched import Memory, launch, operands_of
from ptx_machine import Given, parse, run_cluster

import legalsat as ls
from bench.kernels.conformance import judged
from bench.kernels.interpreted import drawn_numbers, exact
from legalsat.backends import program
from legalsat.backends.ptx.added import emit as emit_added
from legalsat.backends.ptx.assemble import assemble
from legalsat.backends.ptx.persistent import emit
from legalsat.backends.ptx.program import program_for
from legalsat.extract.check.check_ptx import check_ptx
from legalsat.extract.kernels.contract import require_contract
from legalsat.extract.kernels.interpreter import interpret
from legalsat.extract.kernels.kernel_program import kernel_program
from legalsat.extract.kernels.product_kernels import each_kernel, is_kernel
from legalsat.extract.kernels.slices import WORKSPACE, Added, added_blocks, added_of
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.plans.product_kernel import ProductKernel
from legalsat.program.leaves import AddSlices
from legalsat.targets import target

T = ls.Tensor
RESULTS = ("fp32", "bf16", "fp16", "e4m3", "e5m2", "i8", "i32")
SQUARE_BYTES = 33 * 32 * 4  # that a text declares itself
LONG = ls.Gemm(512, 512, 8192, "bf16")
SMALL = {
    "bf16": ls.Gemm(130, 72, 1100, "bf16"),
    "scales of rows": ls.Gemm(130, 72, 2100, "e4m3", out_dtype="bf16", scaled="rows"),
    "C of bytes along columns": ls.Gemm(130, 72, 2100, "e4m3", out_dtype="e4m3", c=T((130, 72), "e4m3", (1, 144))),
}


@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("extents", [(2, 1, 1), (3, 33, 31), (10, 20, 130), (5, 7, 129)])
def test_slices_are_added_in_their_order_and_nothing_else_is_written(
    result: str, turned: bool, extents: tuple[int, int, int]
) -> None:
    """What lies beside a slice's elements is poison: NaN, or the largest integer."""
    slices, rows, columns = extents
    sums = "i32" if result in {"i8", "i32"} else "fp32"
    kind = np.int32 if sums == "i32" else np.float32
    pitch, slice_rows, gap = -(-columns // 4) * 4 + 4, rows + 5, 3
    parts = np.full((slices, slice_rows, pitch), np.iinfo(np.int32).max if sums == "i32" else np.nan, kind)
    values = np.random.default_rng(rows).integers(-40, 41, (slices, rows, columns)) * (1 if sums == "i32" else 0.375)
    parts[:, :rows, :columns] = values.astype(kind)
    lies = (1, rows + gap) if turned else (columns + gap, 1)
    c = Memory(T((rows, columns), result, lies), 5 << 33)
    leaf, source = AddSlices(result, turned, sums), 4 << 33
    numbers = (slices, slice_rows * pitch, pitch, max(lies), rows, columns)
    names = [name for _, name in leaf.parameters]
    given = Given(dict(zip(names, (source, c.address, *numbers), strict=True)), [], {})
    given.memories |= {source: parts.reshape(-1).view(np.uint8), c.begin: c.memory}
    parsed = parse(emit_added(Added(leaf, numbers, 1, 0)))
    blocks = added_blocks(rows, columns, turned=turned)
    for block in range(blocks):
        run_cluster(parsed, (block, 1, blocks), SQUARE_BYTES, given, block)
    expected = np.zeros((rows, columns), kind)
    for one in values.astype(kind):
        expected += one
    np.testing.assert_array_equal(c.values, decode(encode(expected.astype(np.float64), result), result))
    assert c.untouched()


@lru_cache
def kernels(gpu: str) -> list[ProductKernel]:
    return [kernel for _, kernel in each_kernel(LONG, target(gpu)) if kernel.slices > 1]


@pytest.mark.parametrize("gpu", ["h200", "b200"])
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("cluster", [(1, 1), (2, 1)])
def test_products_of_slices_are_multiplied_right(gpu: str, name: str, cluster: tuple[int, int]) -> None:
    """By both kernels in turn, on the machine and as programs; slices have unlike numbers of k-tiles."""
    gemm = SMALL[name]
    if gpu == "h200" and gemm.scaled:
        pytest.skip("ptx scales no rows on wgmma")
    long = ls.Gemm(gemm.m, gemm.n, 8 * gemm.k, gemm.dtype, out_dtype=gemm.out_dtype, c=gemm.c, scaled=gemm.scaled)
    listed = [k for _, k in each_kernel(long, target(gpu)) if k.slices > 1]
    some = (k for k in listed if k.cluster == cluster and not k.swapped and k.tile[1] <= 64)
    kernel = replace(min(some, key=lambda k: k.tile[0] * k.tile[1]), slices=3)
    made, added = program_for(gemm, kernel, target(gpu)), added_of(gemm, kernel)
    assert added is not None and made.text == emit(gemm, kernel, target(gpu).architecture) + emit_added(added)
    a, b = drawn_numbers(gemm, 3)
    rows = {
        name: 2.0 ** np.arange(-2, 2)[np.arange(size) % 4] for name, size in (("scale_a", gemm.m), ("scale_b", gemm.n))
    }
    scales = rows if gemm.scaled else {}
    memories = operands_of(made, {"a": a, "b": b, **scales})
    (space,) = made.workspaces
    memories[WORKSPACE] = Memory(T((space.bytes // 4,), "fp32"), 40 << 33)
    main, behind = made.recipes
    launch(replace(made, recipes=(main,)), emit(gemm, kernel), memories, 0, 1)
    launch(replace(made, recipes=(replace(behind, shared=SQUARE_BYTES),)), emit_added(added), memories, 0, 2)
    of_a, of_b = (scales[name][:, None] if scales else 1 for name in ("scale_a", "scale_b"))
    np.testing.assert_array_equal(memories["c"].values, exact(gemm, of_a * a, of_b * b))
    assert memories["c"].untouched()
    if not scales:
        found = interpret(GemmPlan(gemm, target(gpu), kernel), a, b, clusters=2)
        np.testing.assert_array_equal(found, exact(gemm, a, b))


@pytest.mark.parametrize("gpu", ["h200", "b200"])
def test_texts_with_slices_do_what_programs_say(gpu: str, tmp_path: Path) -> None:
    plan = ls.synthesize(LONG, gpu, backend="ptx")
    assert plan.kernel.slices > 1 and plan.behind is not None and is_kernel(LONG, plan.kernel, plan.target)
    kernel = next(one for one in kernels(gpu) if one.cluster == (1, 1) and one.tile[:2] == (128, 64))
    kernel = replace(kernel, slices=3)
    found = judged(LONG, kernel, few=True, backend="ptx")
    assert not found["differences"] and found["events"] > 1000
    require_contract(kernel_program(kernel, 4), plan.target)
    text = program(plan, "ptx").text
    assert assemble(text, plan.target.architecture)[:4] == b"\x7fELF" and text.count(".visible .entry") == 2
    added = added_of(LONG, kernel)
    assert added is not None
    both = check_ptx(program_for(LONG, kernel, plan.target).text).kernels
    assert [one.name for one in both] == ["product", added.kernel.entry]
    some = both[1:] if kernel.overlapped else both  # which needs more k-tiles than the check tries at least
    assert all(one.proven for one in some), [(one.findings, one.unproven) for one in some]
    plan.save(tmp_path / "plan.json")
    assert ls.GemmPlan.load(tmp_path / "plan.json") == plan
    assert "add_slices" in plan.emit("host")
