"""Products: the operands share one tile and one ring, and no tile of the table is cheaper, by trying all of them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import legalsat as ls
from legalsat.extract import joint
from legalsat.extract.recheck import recheck
from legalsat.rules import SHARED_RULES
from legalsat.sites import SharedStages
from legalsat.targets import target

T = ls.Tensor
EXTENTS = st.sampled_from((1, 8, 64, 100, 129, 512, 588, 1000, 4095, 4096))


@settings(deadline=None, max_examples=6)
@given(EXTENTS, EXTENTS, EXTENTS, st.sampled_from(("bf16", "e4m3")), st.sampled_from(("h200", "a100")))
def test_no_tile_of_the_table_is_cheaper(m: int, n: int, k: int, dtype: str, name: str) -> None:
    product, gpu = ls.Gemm(m, n, k, dtype), target(name)
    costs = []
    for tile in joint._tiles(product):
        try:
            found = joint._planned(product, tile, gpu)
        except ls.NoLegalLayout:
            continue
        if found is not None:
            assert joint._bound(product, tile, gpu) <= found[0].cost.nanoseconds
            costs.append(found[0].cost.nanoseconds)
    if not costs:
        with pytest.raises(ls.NoLegalLayout):
            ls.synthesize(product, name)
        return
    plan = ls.synthesize(product, name)
    assert plan.cost.nanoseconds == min(costs)
    check(plan)


def check(plan: ls.GemmPlan) -> None:
    """Check that the operands fit together: tiles, stages, shared memory."""
    rows, columns, depth = plan.tile
    assert plan.a.operator.tile == (rows, depth)
    assert plan.b.operator.tile == (columns, depth)
    assert plan.c.operator.tile == (rows, columns)
    ring = sum(one.shared[0].bytes for one in (plan.a, plan.b) if one.shared)
    single = sum(buffer.bytes for buffer in plan.c.shared if not buffer.overlays)
    site = SharedStages(plan.stages, ring, single)
    assert not [d for rule in SHARED_RULES for d in rule.check(site, plan.target)]
    assert plan.cost.shared_bytes == plan.stages * ring + single
    assert plan.stages >= 2
    for one in (plan.a, plan.b, plan.c):
        recheck(one)
    assert json.loads(json.dumps(plan.to_json()))["tile"] == list(plan.tile)


def test_an_odd_depth_costs_relayouts_and_a_constant_operand_none() -> None:
    legal, odd = (ls.synthesize(ls.Gemm(4096, 4096, k, "bf16"), "h200") for k in (4096, 4095))
    assert not legal.cost.relayouts and not legal.a.before
    assert odd.a.before and odd.b.before and odd.cost.relayouts > 0
    assert odd.cost.padding_bytes == 2 * (4096 * 4096 - 1) * 2
    weights = ls.synthesize(ls.Gemm(4096, 4096, 4095, "bf16", constant_b=True), "h200")
    assert 0 < weights.cost.relayouts < odd.cost.relayouts
    assert legal.cost.nanoseconds < weights.cost.nanoseconds < odd.cost.nanoseconds


def test_tensors_of_a_product_may_have_layouts_of_their_own() -> None:
    pitched = T((512, 500), "bf16", (512, 1))
    plan = ls.synthesize(ls.Gemm(512, 256, 500, "bf16", a=pitched), "h200")
    assert plan.a.access.by == "tma" and plan.a.operator.source == pitched
    assert plan.b.operator.source.strides == (500, 1)


def test_what_is_no_product_is_refused() -> None:
    with pytest.raises(ls.InvalidInput, match="give at least 1"):
        ls.Gemm(0, 1, 1, "bf16")
    with pytest.raises(ls.InvalidInput, match="give a tensor of bf16"):
        ls.Gemm(4, 4, 4, "bf16", a=T((4, 5), "bf16"))
    with pytest.raises(ls.InvalidInput, match="chooses its tiles itself"):
        ls.synthesize(ls.Gemm(4, 4, 4, "bf16"), "h200", tile=(64, 64))
    with pytest.raises(ls.NoLegalLayout, match="WGMMA001"):
        ls.synthesize(ls.Gemm(64, 64, 64, "fp64"), "h200")
    with pytest.raises(ls.LegalSatError, match="no backend prints products"):
        ls.synthesize(ls.Gemm(64, 64, 64, "bf16"), "h200").emit("triton")
    assert "tiles of" in str(ls.synthesize(ls.Gemm(64, 64, 64, "bf16"), "h200"))
