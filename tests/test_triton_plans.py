"""Plans become kernels: they compile for sm_90 without a GPU, and Triton cuts the very boxes that the plan solved."""

from __future__ import annotations

import random
import re

import pytest

import legalsat as ls
from bench.gpu.copies import random_operator
from legalsat.backends.triton import compile_kernel, kernel_name
from legalsat.backends.triton.adapter import kernel_of
from legalsat.tensor_map import driver_value

SEED, COUNT = 7, 40


def plans() -> list[ls.Plan]:
    """The first plans of the benchmark's random movements, and some that must be there."""
    bf16 = ls.Tensor((4096, 4096), "bf16")
    found = [
        ls.synthesize(bf16, "h200", tile=(128, 64), consumer="wgmma.a"),
        ls.synthesize(ls.Transpose(bf16), "h200"),
        ls.synthesize(ls.Transpose(ls.Tensor((101, 72), "fp64")), "h200"),
        ls.synthesize(ls.Copy(ls.Tensor((8, 128, 256), "e2m1")), "h200"),
    ]
    rng = random.Random(SEED)
    while len(found) < COUNT:
        operator, values = random_operator(rng)
        try:
            plan = ls.synthesize(operator, "h200")
            plan = plan.bind(**values) if values else plan
            plan.emit("triton")
        except ls.LegalSatError:
            continue
        found.append(plan)
    return found


@pytest.mark.parametrize("plan", plans(), ids=lambda plan: re.sub(r"[^a-z0-9]+", "-", str(plan.operator)))
def test_plans_compile_with_the_boxes_that_were_solved(plan: ls.Plan) -> None:
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
    plan = ls.synthesize(ls.Tensor((960, 960), "bf16"), "h200", tile=(96, 64))
    with pytest.raises(ls.InvalidInput, match="give a power of two"):
        plan.emit("triton")
