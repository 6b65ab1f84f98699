"""Explanations: the verdict is the planner's, and every repair that is offered works."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from problems import operators

import legalsat as ls
from legalsat.extract.recheck import recheck
from legalsat.operators import Copy, Operator, Transpose

T = ls.Tensor


def with_source(operator: Operator, tensor: ls.Tensor) -> Operator:
    if isinstance(operator, Transpose):
        return Transpose(tensor, operator.order, operator.target, tile=operator.tile)
    return Copy(tensor, operator.target, tile=operator.tile, consumer=operator.consumer)


@settings(deadline=None, max_examples=25)
@given(operators())
def test_the_verdict_is_the_planners_and_repairs_work(operator: Operator) -> None:
    found = ls.explain(operator, "h200")
    try:
        plan = ls.synthesize(operator, "h200", means=("tma",))
    except ls.NoLegalLayout as refusal:
        assert not found.legal
        assert found.plan is None or found.plan == ls.synthesize(operator, "h200")
        assert found.diagnostics == refusal.diagnostics
    else:
        assert found.legal and found.plan == plan
        assert not found.diagnostics and not found.repairs
    assert [r.bytes_added for r in found.repairs] == sorted(r.bytes_added for r in found.repairs)
    for repair in found.repairs:
        assert repair.kind in ("align", "pad", "dense")
        assert repair.after.shape == operator.source.shape
        assert repair.bytes_added == max(repair.after.span_bits - operator.source.span_bits, 0) // 8
        assert not set("{}") & set(repair.message)
        made = ls.synthesize(with_source(operator, repair.after), "h200", means=("tma",))
        assert made.cost.nanoseconds == repair.nanoseconds
        recheck(made)
    text = str(found)
    assert text.splitlines()[0].endswith("legal" if found.legal else "refused")
    assert json.loads(json.dumps(found.to_json()))["legal"] == found.legal


def test_an_odd_matrix_is_told_to_pad_its_rows() -> None:
    """The cliff of the design: 4095 columns of bf16 make rows of 8190 bytes."""
    found = ls.explain(Copy(T((4096, 4095), "bf16"), tile=(128, 64)), "sm_90a")
    assert [d.code for d in found.diagnostics] == ["TMA005"]
    pad = next(r for r in found.repairs if r.kind == "pad")
    assert pad.after.strides == (4096, 1)
    assert pad.bytes_added == (4096 - 4095) * 2 * 4095
    assert "8192 bytes (now 8190)" in pad.message


def test_a_misaligned_slice_is_told_to_move() -> None:
    array = np.zeros((64, 128), dtype=np.float16)
    found = ls.explain(T((64, 120), "fp16", (128, 1), align=2), "h200", tile=(64, 64))
    assert [d.code for d in found.diagnostics] == ["TMA004"]
    assert found.repairs[0].kind == "align" and found.repairs[0].bytes_added == 0
    assert ls.explain(array, "h200").target == "h200"


def test_strides_that_skip_elements_are_told_to_become_dense() -> None:
    found = ls.explain(Copy(T((64, 64), "bf16", (128, 2)), tile=(64, 64)), "h200")
    assert {d.code for d in found.diagnostics} == {"TMA024"}
    assert [r.kind for r in found.repairs] == ["dense"]


def test_tensor_maps_are_explained_by_their_violations() -> None:
    tm = ls.TensorMap("bf16", (64, 64), (130,), (64, 8), map_offset=32)
    found = ls.explain(tm, "h200")
    assert list(found.diagnostics) == ls.violations(tm, "h200")
    assert not found.legal and "TMA005" in str(found)
    warned = ls.explain(ls.TensorMap("bf16", (64, 64), (128,), (64, 8), map_offset=32), "h200")
    assert warned.legal and [d.level for d in warned.diagnostics] == ["warning"]


def test_a_plan_is_explained_on_another_target() -> None:
    plan = ls.synthesize(T((64, 64), "bf16"), "h200")
    assert ls.explain(plan, "b200").legal
    refused = ls.explain(plan, "mi300x")
    assert not refused.legal and refused.diagnostics[0].code == "UNIT001"
    assert not refused.repairs, "no layout gives a chip a unit"
    assert re.search(r"derivation|legal", str(ls.explain(plan, "h200")))


def test_symbolic_tensors_are_explained() -> None:
    rows, columns = ls.Dim("M"), ls.Dim("K", max=4096)
    assert ls.explain(Copy(T((rows, columns), "bf16"), tile=(64, 64)), "h200").legal
    assert not ls.explain(Copy(T((rows, columns), "bf16", (columns, 2)), tile=(64, 64)), "h200").legal


@pytest.mark.parametrize("subject", [None, 3, b"x", [1], object()])
def test_what_cannot_be_explained_is_refused(subject: object) -> None:
    with pytest.raises(ls.InvalidInput, match="give a numpy array"):
        ls.explain(subject, "h200")


def test_violations_judges_tensor_maps_alone() -> None:
    with pytest.raises(ls.InvalidInput, match="use explain"):
        ls.violations(T((4,), "u8"), "h200")  # type: ignore[arg-type]


def test_outer_dimensions_in_any_order_overlap_only_where_memory_does() -> None:
    """Batch, heads and rows as FlashAttention lists them: a head's rows lie 8 heads apart, in any order of the map."""
    head, row, batch = 128 * 2, 8 * 128 * 2, 1024 * 8 * 128 * 2
    box = (64, 64, 1, 1)
    apart = ls.TensorMap("bf16", (128, 1024, 8, 2), (row, head, batch), box, swizzle="128B")
    assert not [d for d in ls.violations(apart, "h200") if d.code == "TMA023"]
    shared = ls.TensorMap("bf16", (128, 1024, 8, 2), (row, head // 2, batch), box, swizzle="128B")
    assert [d for d in ls.violations(shared, "h200") if d.code == "TMA023"]
