"""Plans become kernels: they compile for sm_90 without a GPU, to the very boxes and vectors that the plan solved."""

from __future__ import annotations

import math
import random
import re
import sys
from functools import cache
from pathlib import Path

import pytest

import legalsat as ls
from bench.gpu.copies import random_operator
from legalsat.backends.triton import compile_kernel, compile_vectors, kernel_name, load_module
from legalsat.backends.triton.adapter import kernel_of, vector_kernel_of
from legalsat.units.tensor_map import driver_value

SEED, COUNT = 7, 40


@cache
def plans(means: str) -> list[ls.MovementPlan]:
    """The first plans by these means of the benchmark's random movements, and some that must be there."""
    bf16 = ls.Tensor((4096, 4096), "bf16")
    found = [
        ls.synthesize(ls.Transpose(bf16), "h200", means=(means,)),  # type: ignore[arg-type]
        ls.synthesize(ls.Transpose(ls.Tensor((101, 72), "fp64")), "h200", means=(means,)),  # type: ignore[arg-type]
        ls.synthesize(ls.Copy(ls.Tensor((8, 128, 256), "e2m1")), "h200", means=(means,)),  # type: ignore[arg-type]
    ]
    if means == "tma":
        found.append(ls.synthesize(bf16, "h200", tile=(128, 64), consumer="wgmma.a"))
    rng = random.Random(SEED)
    while len(found) < COUNT:
        operator, values = random_operator(rng)
        try:
            plan = ls.synthesize(operator.bind(values), "h200", means=(means,))  # type: ignore[arg-type]
            plan.emit("triton")
        except ls.LegalSatError:
            continue
        found.append(plan)
    return found


def name_of(plan: ls.MovementPlan) -> str:
    return re.sub(r"[^a-z0-9]+", "-", str(plan.operator))


@pytest.mark.parametrize("plan", plans("threads"), ids=name_of)
def test_plans_by_threads_compile_with_the_vectors_that_were_solved(plan: ls.MovementPlan) -> None:
    """A tile with less than a vector for each thread is moved in narrower ones, never in wider ones."""
    kernel = vector_kernel_of(plan)
    compiled = compile_vectors(kernel, plan.target)
    tile_bytes = math.prod(kernel.tile) * kernel.word_bits // 8
    for short, copy in zip(("ld", "st"), plan.copies, strict=True):
        widths = {
            int(count or 1) * int(bits) // 8
            for count, bits in re.findall(rf"{short}\.global\.(?:v(\d)\.)?b(\d+)", compiled.assembly)
        }
        assert widths == {min(copy.bytes, max(kernel.word_bits // 8, tile_bytes // (32 * kernel.warps)))}


@pytest.mark.parametrize("plan", plans("tma"), ids=name_of)
def test_plans_compile_with_the_boxes_that_were_solved(plan: ls.MovementPlan) -> None:
    kernel = kernel_of(plan)
    compiled = compile_kernel(kernel, 90)
    assert compiled.cubin
    assert kernel_name(kernel) in compiled.ptx
    assert compiled.boxes == tuple(tuple(reversed(tm.box)) for tm in plan.tensor_maps)
    # Triton names data types and swizzles as the driver does.
    for meta, tm in zip(compiled.metadata["tensordesc_meta"], plan.tensor_maps, strict=True):
        assert meta["swizzle"] == driver_value("swizzle", tm.swizzle)
    rank = len(plan.tensor_maps[0].box)
    assert f"cp.async.bulk.tensor.{rank}d.shared" in compiled.ptx
    assert ("bulk_group" in compiled.ptx) == (plan.store == "tma")
    expected = plan.pipeline.barriers[0].transaction_bytes
    assert re.search(rf"mbarrier\.arrive\.expect_tx\S*\s[^;]*, {expected};", compiled.ptx)


def test_a_tile_that_is_no_power_of_two_is_refused_by_name() -> None:
    plan = ls.synthesize(ls.Tensor((960, 960), "bf16"), "h200", tile=(96, 64), means=("tma",))
    with pytest.raises(ls.InvalidInput, match="give a power of two"):
        plan.emit("triton")


def test_a_module_is_loaded_anew_however_soon_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytecode is told apart by seconds and lengths, so two texts of one length within a second look alike."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    for value in range(10):
        module = load_module(f"number = {value}\n", tmp_path)
        assert module.number == value
