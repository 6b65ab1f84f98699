"""A symbolic plan's guard is exact: inside it the plan's maps break no rule, outside they break one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import islpy as isl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import legalsat as ls
from legalsat.dims import bind
from legalsat.extract.check.recheck import recheck
from legalsat.operators import Copy, Move, Transpose
from legalsat.plans.codec import InvalidPlan
from legalsat.plans.movement_plan import MovementPlan, from_json
from legalsat.rules import COPY_RULES
from legalsat.targets import target
from legalsat.units.sites import TmaCopy

H200 = target("h200")
D, T = ls.Dim, ls.Tensor
M, K = D("M", max=2**34), D("K", max=2**20)

PROBLEMS: dict[str, Move] = {
    "matrix": Copy(T((M, K), "bf16"), tile=(64, 64)),
    "matrix of bytes": Copy(T((M, K), "u8"), tile=(64, 64)),
    "padded matrix": Copy(T((M, K), "bf16", (1024, 1)), T((M, K), "bf16", (1024, 1)), tile=(64, 64)),
    "rows of a known pitch": Copy(T((M, 96), "fp32"), tile=(64, 32)),
    "two dims of one name": Copy(T((K, K), "fp32"), tile=(32, 32)),
    "scaled pitch": Copy(T((M, K), "bf16", (3 * K, 1)), T((M, K), "bf16", (3 * K, 1)), tile=(64, 64)),
    "three axes": Copy(T((M, 12, K), "bf16"), tile=(1, 4, 64)),
    "multiples": Copy(T((M, D("K", multiple_of=4, max=4096)), "bf16"), tile=(64, 64)),
    "transpose": Transpose(T((D("M", max=10**6), K), "bf16"), tile=(64, 64)),
    "transpose of words": Transpose(T((D("M", max=10**6), K), "fp32"), tile=(32, 32)),
    "tile chosen": Copy(T((M, K), "bf16")),
    "vector": Copy(T((M,), "bf16"), tile=(64,)),
}


@cache
def planned(name: str) -> MovementPlan:
    return ls.synthesize(PROBLEMS[name], H200)


def inside(found: MovementPlan, values: Mapping[str, int]) -> bool:
    """Whether the values lie in the guard's set, read from its text."""
    region = isl.Set(found.guard)
    for i in range(region.dim(isl.dim_type.param)):
        name = region.get_dim_name(isl.dim_type.param, i)
        value = isl.Val.read_from_str(isl.DEFAULT_CONTEXT, str(values[name or ""]))
        region = region.fix_val(isl.dim_type.param, i, value)
    return not region.is_empty()


def codes_at(found: MovementPlan, values: Mapping[str, int]) -> set[str]:
    """Return the rules that the plan's maps break with extents and strides of these values."""
    broken = set()
    for view, tm in zip(found.views, found.tensor_maps, strict=False):
        end = getattr(found.operator, view.side)
        extents = [bind(n, values) for n in reversed(end.shape)]
        strides = [bind(s, values) * end.dtype.bits for s in reversed(end.strides)]
        site = replace(
            TmaCopy.of(tm, stores=view.side == "target"),
            global_dim=tuple(extents),
            global_stride=tuple(s // 8 for s in strides[1:]),
            inner_stride_bits=strides[0],
            tile=view.tile,
        )
        broken |= {d.code for rule in COPY_RULES for d in rule.check(site, H200) if d.level == "error"}
    return broken


@st.composite
def values_of(draw: st.DrawFn, operator: Move) -> dict[str, int]:
    """Draw values of the dims, near multiples of what alignments ask for and near limits."""
    found = {}
    for dim in {d.name: d for d in (*operator.source.dims, *operator.target.dims)}.values():
        steps = draw(st.integers(0, 200)) * draw(st.sampled_from((1, 4, 8, 16, 64, 4096)))
        number = draw(st.sampled_from((steps, steps + 1, dim.max, dim.max - steps, 2**31 - 1, 2**31, 2**32)))
        number = min(max(number, dim.min), dim.max)
        found[dim.name] = max(number // dim.multiple_of * dim.multiple_of, dim.smallest)
    return found


@pytest.mark.parametrize("name", PROBLEMS)
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_the_guard_is_exact(name: str, data: Any) -> None:
    found = planned(name)
    values = data.draw(values_of(found.operator))
    assert inside(found, values) == (not codes_at(found, values)), (values, codes_at(found, values), found.guard)


@pytest.mark.parametrize("name", PROBLEMS)
def test_guards_hold_somewhere_and_not_everywhere(name: str) -> None:
    found = planned(name)
    region = isl.Set(found.guard)
    assert not region.is_empty()
    names = {region.get_dim_name(isl.dim_type.param, i) for i in range(region.dim(isl.dim_type.param))}
    assert names == {d.name for d in found.operator.source.dims}
    assert found.operator == PROBLEMS[name]
    assert from_symbolic_is_refused(found)


def from_symbolic_is_refused(found: MovementPlan) -> bool:
    """A plan with open extents is no plan to run, so it cannot be saved and loaded."""
    with pytest.raises(InvalidPlan, match="bind its dims"):
        from_json(found.to_json())
    return True


@pytest.mark.parametrize("name", PROBLEMS)
@settings(deadline=None, max_examples=8)
@given(data=st.data())
def test_inside_the_guard_a_plan_binds(name: str, data: Any) -> None:
    found = planned(name)
    values = data.draw(values_of(found.operator))
    if inside(found, values):
        bound = found.bind(**values)
        recheck(bound)
        assert not bound.guard
        assert bound.operator == found.operator.bind(values)
        assert bound.operator.tile == found.operator.tile


def test_a_guard_in_words() -> None:
    """K of bf16 with 16-byte rows: multiples of 8, and a map's limits on the extents and the stride."""
    found = planned("matrix")
    assert all(word in found.guard for word in ("M", "K", "8"))
    assert inside(found, {"M": 5, "K": 4096}) and inside(found, {"M": 2**31 - 1, "K": 8})
    assert not inside(found, {"M": 5, "K": 4095})
    assert not inside(found, {"M": 2**31, "K": 8})


def test_values_outside_a_dim_are_refused() -> None:
    found = planned("multiples")
    for values, reason in (
        ({"M": 4, "K": 6}, "multiple of 4"),
        ({"M": 4, "K": 8192}, "at most 4096"),
        ({"M": 0, "K": 8}, "at least 1"),
        ({"M": 4}, "dim K has no value"),
        ({"M": 4, "K": "8"}, "give an integer"),
    ):
        with pytest.raises(ls.InvalidInput, match=reason):
            found.bind(**values)


def test_what_no_value_makes_legal_is_refused() -> None:
    with pytest.raises(ls.NoLegalLayout) as refusal:
        ls.synthesize(Copy(T((M, K), "bf16", (K, 2)), tile=(64, 64)), H200, means=("tma",))
    assert refusal.value.diagnostics
    with pytest.raises(ls.InvalidInput, match="multiplies dims"):
        ls.synthesize(Copy(T((D("B"), M, K), "bf16"), tile=(1, 64, 64)), H200)


@pytest.mark.parametrize(("pitch", "least"), [(65, 2), (66, 4), (68, 8)])
def test_what_no_boxes_move_goes_by_vectors(pitch: int, least: int) -> None:
    """As the closed tensor does; vectors are as wide as every row's start allows."""
    found = ls.synthesize(T((M, 64), "bf16", (pitch, 1)), H200)
    assert found.access.by == "threads" and found.copies[0].bytes == least
    assert all(inside(found, {"M": rows}) for rows in (1, 2, 77, 4096))
    assert ls.synthesize(T((77, 64), "bf16", (pitch, 1)), H200, means=("threads",)).copies[0].bytes == least
    assert f"vectors of {least} bytes" in str(found) and "run(" in found.emit("cute")
    with pytest.raises(ls.LegalSatError, match="plan by threads needs no tensor maps"):
        found.emit("host")


def test_a_plan_is_found_where_no_aligned_sample_has_one() -> None:
    """The rules themselves say where to look: a pitch no less than rows are long, or a single row."""
    rows, columns, pitch = D("M", max=4096), D("K", min=150, max=300), D("N", min=100, max=200)
    found = ls.synthesize(Copy(T((rows, columns), "bf16"), T((rows, columns), "bf16", (pitch, 1)), tile=(64, 64)), H200)
    assert inside(found, {"K": 152, "M": 9, "N": 152}) and not inside(found, {"K": 160, "M": 9, "N": 152})
    found = ls.synthesize(Copy(T((rows, 64), "bf16"), T((rows, 64), "bf16", (0, 1)), tile=(64, 64)), H200)
    assert [inside(found, {"M": n}) for n in (1, 2, 3)] == [True, False, False]


def test_products_of_dims_with_stated_alignment_are_planned() -> None:
    dims = (D("B", max=64), D("M", multiple_of=16, max=4096), D("K", multiple_of=16, max=4096))
    found = ls.synthesize(Copy(T(dims, "bf16"), tile=(1, 64, 64)), H200)
    for values in ({"B": 1, "M": 16, "K": 16}, {"B": 64, "M": 4096, "K": 4096}, {"B": 3, "M": 48, "K": 80}):
        assert inside(found, values) and not codes_at(found, values)
        recheck(found.bind(**values))


def test_axes_that_merge_for_every_value_do() -> None:
    dim = ls.Dim("M", max=64)
    found = ls.synthesize(ls.Tensor((1, 1, 1, 1, 2, dim), "u8"), "h200")
    assert len(found.views[0].extent) <= 5
    # Rows of 2M bytes are the innermost dimension, which a store wants to end at a multiple of 16 bytes.
    assert isl.Set(found.guard).is_equal(isl.Set("[M] -> { [] : 0 < M <= 64 and M mod 8 = 0 }"))
    assert found.bind(M=24).operator.source.shape == (1, 1, 1, 1, 2, 24)


def test_a_target_whose_strides_may_overlap_is_refused() -> None:
    n, p, k = (ls.Dim(name, multiple_of=64, max=4096) for name in "NPK")
    source, target = ls.Tensor((4, 64, k), "bf16"), ls.Tensor((4, 64, k), "bf16", (n * p, k, 1))
    with pytest.raises(ls.InvalidInput, match="only dense ones surely do not overlap"):
        ls.synthesize(ls.Copy(source, target), "h200")


def test_names_that_are_no_dims_are_refused() -> None:
    found = ls.synthesize(ls.Tensor((ls.Dim("M"), 64), "bf16"), "h200")
    with pytest.raises(ls.InvalidInput, match="no dim Z"):
        found.bind(M=64, Z=3)
