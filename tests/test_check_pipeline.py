"""Every plan's pipeline keeps the contract: for all trip counts by the checker, for a few by all interleavings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import legalsat as ls
from legalsat.analyses.protocol.model_check import explore
from legalsat.errors import LegalSatError
from legalsat.extract.kernels.contract import require_contract
from legalsat.program.pipeline import BarrierRing, Expect, Load, Loop, Pipeline, Role, walk
from legalsat.targets import target

T = ls.Tensor
MOVEMENTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "copy": (T((300, 200), "bf16"), {}),
    "transpose": (ls.Transpose(T((300, 256), "bf16")), {}),
    "odd pitch": (T((300, 201), "bf16"), {}),
    "by threads": (T((300, 201), "bf16"), {"means": ("threads",)}),
    "tile for wgmma": (T((4096, 4096), "bf16"), {"tile": (128, 64), "consumer": "wgmma.a"}),
    "odd tile for wgmma": (
        T((4096, 4095), "bf16"),
        {"tile": (128, 64), "consumer": "wgmma.a", "means": ("cp.async", "threads")},
    ),
    "bulk": (T((64, 4096), "bf16", (4104, 1)), {"means": ("bulk", "cp.async")}),
}


def harmless(pipeline: Pipeline, most: int) -> bool:
    """Whether no interleaving of up to `most` turns breaks anything."""
    return all(explore(pipeline, dict.fromkeys(pipeline.symbols, turns)).proven for turns in range(most + 1))


@pytest.mark.parametrize("name", MOVEMENTS)
def test_movements_keep_the_contract(name: str) -> None:
    problem, wishes = MOVEMENTS[name]
    plan = ls.synthesize(problem, "h200", **wishes)
    found = ls.check_pipeline(plan)
    assert found.proven and not found.diagnostics, str(found)
    assert harmless(plan.pipeline, 5)


@settings(deadline=None, max_examples=8)
@given(
    st.integers(1, 600),
    st.integers(1, 600),
    st.sampled_from((8, 64, 1000)),
    st.sampled_from(("bf16", "e4m3", "tf32")),
    st.sampled_from(("h200", "b200")),
)
def test_products_keep_the_contract(m: int, n: int, k: int, dtype: str, name: str) -> None:
    k = -(-k // 16) * 16
    plan = ls.synthesize(ls.Gemm(m, n, k, dtype), name)
    found = ls.check_pipeline(plan)
    assert found.proven, str(found)
    assert harmless(plan.pipeline, 3)


def pipeline_alone(name: str) -> Pipeline:
    """Return the pipeline of a product whose CTAs share nothing."""
    plan = ls.synthesize(ls.Gemm(128, 128, 1000, "bf16"), name)
    alone = next(one.kernel for one in plan.candidates if one.kernel.cluster_blocks == 1)
    return ls.GemmPlan(plan.operator, plan.target, alone).pipeline


@pytest.mark.parametrize("name", ["h200", "b200"])
def test_barriers_say_the_bytes_that_their_loads_bring(name: str) -> None:
    pipeline = pipeline_alone(name)
    loads = [op for role in pipeline.roles for op in walk(role.body) if isinstance(op, Load)]
    brought = {ring.name: sum(load.bytes for load in loads if load.barrier == ring.name) for ring in pipeline.barriers}
    assert {ring.name: ring.transaction_bytes for ring in pipeline.barriers} == brought
    assert brought["full"] > 0


def test_the_printed_kernel_keeps_it_too() -> None:
    plan = ls.synthesize(ls.Gemm(300, 136, 1000, "bf16"), "b200")
    text = plan.emit("ptx")
    assert ls.check_pipeline(text, "b200").proven
    broken = text.replace("mbarrier.arrive.expect_tx.shared::cta.b64 _, ", "mbarrier.arrive.shared::cta.b64 _, ")
    broken = "\n".join(
        line.rpartition(",")[0] + ";"
        if "mbarrier.arrive.shared::cta.b64 _, [" in line and line.count(",") > 1
        else line
        for line in broken.splitlines()
    )
    found = ls.check_pipeline(broken, "b200")
    assert not found.proven and "PIPE009" in {d.code for d in found.diagnostics}
    assert all(d.where.startswith("line ") for d in found.diagnostics)


def test_a_broken_program_is_said_to_be() -> None:
    good = pipeline_alone("h200")

    def spoilt(op: Any) -> Any:
        if isinstance(op, Expect):
            return Expect(op.barrier, op.at, op.bytes - 16)
        return Loop(op.trips, tuple(map(spoilt, op.body))) if isinstance(op, Loop) else op

    roles = tuple(Role(r.name, r.warps, tuple(map(spoilt, r.body)), r.instances) for r in good.roles)
    found = ls.check_pipeline(Pipeline(good.barriers, good.buffers, roles, good.sums), "h200")
    assert [d.code for d in found.diagnostics if d.level == "error"] and not found.proven
    assert "bytes" in str(found)
    verdict = explore(Pipeline(good.barriers, good.buffers, roles, good.sums), dict.fromkeys(good.symbols, 1))
    assert verdict.error is not None


def test_what_is_no_pipeline_is_refused() -> None:
    program = ls.synthesize(ls.Gemm(64, 64, 64, "bf16"), "h200").pipeline
    wishes: tuple[Callable[[], object], ...] = (
        lambda: ls.check_pipeline(program),
        lambda: ls.check_pipeline(3, "h200"),  # type: ignore[arg-type]
        lambda: ls.check_pipeline(program, "h200", parameters={"n": 1}),
        lambda: ls.check_pipeline("no text of a kernel", "h200"),
    )
    for wrong in wishes:
        with pytest.raises(LegalSatError, match=r"\w"):
            wrong()


def test_no_plan_leaves_with_a_pipeline_that_breaks_its_contract() -> None:
    good = pipeline_alone("h200")
    require_contract(good, target("h200"))
    empty = tuple(BarrierRing(b.name, b.stages, b.arrivals + 1) for b in good.barriers)
    with pytest.raises(ls.InvalidPlan, match="PIPE004"):
        require_contract(Pipeline(empty, good.buffers, good.roles, good.sums), target("h200"))
