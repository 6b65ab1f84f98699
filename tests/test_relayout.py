"""Plans that copy the source to a legal pitch first: both kernels together move what was asked for."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from execute import execute
from hypothesis import given, settings
from hypothesis import strategies as st

import legalsat as ls
from bench.kernels.moved import memory_of, moved
from legalsat.extract.check.recheck import RELAID, recheck
from legalsat.extract.search.planner import BOXES, EVERY_MEANS
from legalsat.operators import padded
from legalsat.plans.codec import InvalidPlan
from legalsat.plans.movement_plan import from_json
from legalsat.tensor import plain

T = ls.Tensor
WITHOUT = tuple(means for means in EVERY_MEANS if means != "relayout")


def run(found: ls.MovementPlan) -> None:
    """Execute the relayout, then the plan on what it wrote, and compare with the movement's definition."""
    operator = found.operator
    source, result = memory_of(operator.source, 1), memory_of(operator.target)
    (first,) = found.before
    scratch = execute(first, source, memory_of(found.source))
    after = execute(replace(found, operator=operator.but(source=found.source), before=()), scratch, result)
    assert np.array_equal(after, moved(operator, source, result))


ODD = ls.Copy(T((128, 123), "bf16"), tile=(64, 64), consumer="wgmma.b", passes=40_000)


def test_an_operand_that_is_read_often_is_padded_first() -> None:
    found = ls.synthesize(ODD, "h200")
    assert found.derivation[0].law == RELAID
    assert found.source.strides == (128, 1) and found.access.by == "tma"
    assert found.cost.launches == 2 and found.cost.padding_bytes == 128 * 128 * 2 - 2 * 5
    run(found)
    direct = ls.synthesize(ODD, "h200", means=WITHOUT)  # type: ignore[arg-type]
    assert not direct.before and direct.cost.nanoseconds > found.cost.nanoseconds


def test_constant_sources_are_copied_once_for_all() -> None:
    once = ls.synthesize(replace(ODD, constant=True), "h200")
    assert once.cost.nanoseconds < ls.synthesize(ODD, "h200").cost.nanoseconds
    assert once.cost.launches == 1 and once.before


def test_what_boxes_reach_as_it_is_is_not_copied() -> None:
    legal = replace(ODD, source=T((128, 123), "bf16", (128, 1)))
    assert not ls.synthesize(legal, "h200").before


def test_bytes_along_the_wrong_axis_are_turned_on_their_way() -> None:
    """wgmma reads 8-bit operands along K alone, so one stored along N is transposed first."""
    turned = ls.Copy(T((64, 96), "e4m3", (1, 64)), tile=(64, 32), consumer="wgmma.b")
    with pytest.raises(ls.NoLegalLayout, match="WGMMA003"):
        ls.synthesize(turned, "h200", means=WITHOUT)  # type: ignore[arg-type]
    found = ls.synthesize(turned, "h200")
    assert found.source.strides == (96, 1)
    run(found)


def test_a_changed_relayout_is_refused() -> None:
    found = ls.synthesize(ODD, "h200")
    assert from_json(json.loads(json.dumps(found.to_json()))) == found
    recheck(found)
    (first,) = found.before
    other = ls.synthesize(ls.Copy(T((128, 123), "bf16"), T((128, 123), "bf16", (136, 1))), "h200")
    for wrong in ((first, first), (other,), ()):
        with pytest.raises(InvalidPlan):
            recheck(replace(found, before=wrong))


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
    st.sampled_from(("u8", "bf16", "fp32", "fp64", "e2m3")),
    st.randoms(use_true_random=False),
)
def test_padded_tensors_are_legal_and_keep_their_axes_order(shape: list[int], name: str, random: object) -> None:
    axes = list(range(len(shape)))
    random.shuffle(axes)  # type: ignore[attr-defined]
    steps, step = [0] * len(shape), 1
    for axis in axes:
        steps[axis] = step
        step *= shape[axis]
    found = padded(T(shape, name, steps))
    strides = plain(found.strides)
    spanned = 0
    for axis in sorted((a for a in axes if shape[a] > 1), key=lambda a: strides[a]):
        assert strides[axis] > spanned, "elements have memory of their own"
        assert strides[axis] == 1 or strides[axis] * found.dtype.bits % 128 == 0
        spanned += (shape[axis] - 1) * strides[axis]
    order = [a for a in axes if shape[a] > 1]
    assert sorted(order, key=lambda a: strides[a]) == order


def test_a_padded_tensor_has_a_plan_by_boxes() -> None:
    for shape, name in (((37, 123), "bf16"), ((5, 7, 11), "u8"), ((3, 3), "fp32")):
        assert ls.synthesize(padded(T(shape, name)), "h200", means=BOXES).access.by == "tma"  # type: ignore[arg-type]
