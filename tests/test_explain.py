"""Explanations: the verdict is the planner's, and every repair that is offered works."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import operators

import legalsat as ls
from bench.maps.tensor_repairs import cases as tensor_cases
from bench.maps.tensor_repairs import outcome
from legalsat.explanation import FALL_BACK
from legalsat.extract.check.recheck import recheck
from legalsat.extract.explain.tensor_repair import mended, ranked
from legalsat.extract.explain.tensor_values import OF_LAYOUTS, resized, tensor_works
from legalsat.extract.explain.values import works
from legalsat.operators import Copy, Move, Transpose
from legalsat.targets import target
from legalsat.tensor import plain

T = ls.Tensor


def legal_by_rows(copy: Copy) -> bool:
    """Whether the encode call takes a copy's source with the user's axes, from the driver's rules alone.

    Of a tensor that has a dense axis, without a tile; of elements of whole bytes.
    """
    source, size = copy.source, copy.source.dtype.bytes
    shape, strides = plain(source.shape), plain(source.strides)
    axes = [a for a in range(source.rank) if shape[a] > 1]
    inner = next((a for a in axes if strides[a] == 1), None)
    units = [a for a in range(source.rank) if shape[a] == 1]
    if inner is None and not units:
        return False
    outer = [a for a in axes if a != inner]
    return (
        source.rank <= 5
        and source.address % 16 == 0
        and all(n < 2**31 for n in shape)
        and all(strides[a] * size % 16 == 0 and strides[a] * size < 2**40 for a in outer)
    )


@settings(deadline=None, max_examples=25)
@given(operators())
def test_verdicts_are_the_drivers_or_the_planners_and_repairs_work(operator: Move) -> None:
    found = ls.explain(operator, "h200")
    try:
        plan = ls.synthesize(operator, "h200", means=("tma",))
    except ls.NoLegalLayout as refusal:
        plan = None
        if not isinstance(operator, Copy):
            assert [d.code for d in found.diagnostics] == list(dict.fromkeys(d.code for d in refusal.diagnostics))
    if isinstance(operator, Copy):
        free = operator.target == Copy(operator.source).target
        untiled = operator.tile is None and operator.consumer in (None, "threads") and operator.source.rank
        if untiled and free and operator.source.dtype.bits >= 8:
            assert found.legal == legal_by_rows(operator)
        if found.legal and plan is not None:
            assert found.plan == plan
    else:
        assert found.legal == (plan is not None)
    codes = [d.code for d in found.diagnostics if d.level == "error"]
    assert found.legal == (not codes) and len(codes) == len(set(codes)), "one cause is told once"
    if found.legal:
        assert {r.kind for r in found.repairs} <= {"stride"}
    totals = [repair.total or 0.0 for repair in found.repairs]
    assert totals == sorted(totals), "what takes the least comes first"
    unchanged = [repair for repair in found.repairs if not repair.mends]
    assert len(unchanged) == (found.plan is not None and not found.legal and bool(found.repairs))
    for repair in found.repairs:
        assert not set("{}") & set(repair.message)
        assert type(repair.after) is type(operator), "a repair is of the subject's kind"
        assert repair.nanoseconds is not None and repair.once >= 0.0
        assert repair.total == pytest.approx(repair.once + found.uses * repair.nanoseconds, abs=0.1)
        if repair.kind == FALL_BACK:
            # A matrix unit's tile is chosen where none is named.
            chosen = isinstance(operator, Copy) and operator.tile is None and operator.consumer is not None
            asked: Any = operator
            assert repair.after == (replace(asked, tile=repair.after.tile) if chosen else operator)
            assert found.plan is not None and found.plan.cost.nanoseconds == repair.nanoseconds
            continue
        after = repair.after.source
        if repair.kind not in ("relayout", "split"):
            assert repair.bytes_added == max(after.span_bits - operator.source.span_bits, 0) // 8
        assert ls.explain(repair.after, "h200").legal
        made = mended(repair.after, target("h200"))
        assert made is not None
        recheck(made)
        if repair.kind == "relayout":
            assert made.cost.nanoseconds < repair.nanoseconds, "the copy is paid for each time"
        elif repair.kind != "split":
            assert made.cost.nanoseconds == repair.nanoseconds
    text = str(found)
    assert text.splitlines()[0].endswith(found.verdict)
    answer = json.loads(json.dumps(found.to_json()))
    assert answer["legal"] == found.legal and answer["verdict"] == found.verdict


def test_random_tensors_have_repairs_that_work_and_are_as_small_as_can_be() -> None:
    """What adds fewer bytes is searched for by trying everything, with rules that are written down anew."""
    found = [one for case in islice(tensor_cases(11), 40) if (one := outcome(case)) is not None]
    assert [miss for one in found for miss in one.misses] == []
    kinds = {kind for one in found for kind in one.kinds}
    assert {"align", "pad", "dense", "view", "relayout", FALL_BACK} <= kinds
    assert sum(one.tried for one in found) > 20, "there are layouts to try"


def test_repairs_are_in_the_order_of_their_totals_and_of_what_they_change() -> None:
    def repair(kind: str, nanoseconds: float, once: float = 0.0) -> ls.Repair:
        return ls.Repair(kind, "", T((4,), "u8"), 0, nanoseconds, once)

    slow, order, nothing = repair("pad", 200.0), repair("order", 100.0, 500.0), repair(FALL_BACK, 110.0)
    few, many = (ranked([slow, order, nothing], uses, 110.0) for uses in (10, 1000))
    assert [one.kind for one in few] == [FALL_BACK, "order", "pad"]
    assert [one.kind for one in many] == ["order", FALL_BACK, "pad"]
    assert [one.pays_from for one in many] == [51, None, None], "after 50 uses both have taken 5500 ns"
    assert [one.total for one in few] == [1100.0, 1500.0, 2000.0]
    align, pad = repair("align", 100.0), repair("pad", 100.0)
    assert [one.kind for one in ranked([pad, align], 1, None)] == ["align", "pad"]


def test_an_odd_matrix_is_told_to_pad_its_rows() -> None:
    """The cliff of the design: 4095 columns of bf16 make rows of 8190 bytes."""
    found = ls.explain(T((4096, 4095), "bf16"), "sm_90a", tile=(128, 64))
    assert [d.code for d in found.diagnostics] == ["TMA005"]
    by_kind = {repair.kind: repair for repair in found.repairs}
    pad = by_kind["pad"]
    assert pad.after == T((4096, 4095), "bf16", (4096, 1))
    assert pad.bytes_added == (4096 - 4095) * 2 * 4095
    assert "8192 bytes (now 8190)" in pad.message
    copied = ls.synthesize(Copy(T((4096, 4095), "bf16"), pad.after), "sm_90a")
    assert pad.once >= copied.cost.nanoseconds, "by threads, which are never faster than the best means"
    best = next(r for r in found.repairs if r.mends)
    assert by_kind["relayout"].nanoseconds == pytest.approx((best.nanoseconds or 0.0) + best.once)
    assert found.values[0] == "works for shape[1] % 8 == 0: 1 of 8 values; the nearest to 4095 are 4088 and 4096"
    assert found.values[1] == "shape[0] does not matter"


def test_a_tensor_is_judged_by_its_rows_and_another_view_of_it_is_said_besides() -> None:
    for shape, gpu in (((4096, 4095), "h200"), ((1024, 511), "b200")):
        found = ls.explain(T(shape, "bf16"), gpu)
        assert not found.legal and [d.code for d in found.diagnostics] == ["TMA005"]
        assert found.verdict == "refused by its rows; another view of it is legal"
        assert found.plan is not None and found.plan.access.by == "tma", "what synthesize does stays"
        assert str(found.plan.tensor_maps[0]) in found.values[0]
        assert "stride of axis 0" in found.diagnostics[0].message, "axes are the user's"


def test_another_view_is_the_verdict_also_where_threads_are_as_fast() -> None:
    found = ls.explain(T((63, 63), "bf16"), "h200")
    assert found.plan is not None and found.plan.access.by == "threads" and not found.legal
    assert found.verdict == "refused by its rows; another view of it is legal" and "another view" in found.values[0]
    assert ls.explain(T((63, 63), "bf16", (65, 1)), "h200").verdict == "no TMA path; goes by threads"


def test_a_stride_of_an_axis_of_one_element_is_a_warning_with_a_stride_that_is_safe() -> None:
    x = T((1024, 16, 1, 128), "bf16", (2048, 128, 1, 1))
    found = ls.explain(x, "h200")
    assert found.legal and [(d.code, d.level) for d in found.diagnostics] == [("TMA037", "warning")]
    (repair,) = found.repairs
    assert repair.kind == "stride" and repair.after == T(x.shape, "bf16") and repair.bytes_added == 0 == repair.once
    assert not ls.explain(repair.after, "h200").diagnostics
    assert not ls.explain(T((1024, 16, 1, 128), "bf16"), "h200").diagnostics
    assert not ls.explain(T((1, 4095), "bf16", (4096, 1)), "h200").diagnostics, "8192 bytes may be handed on"


def test_axes_of_one_element_are_told_in_one_warning_and_settled_in_words_as_in_layouts() -> None:
    # Axis 1 repeats, axes 0, 2 and 4 have one element; what a stride of 0 repeats is stored once.
    odd = T((1, 7, 1, 3, 1), "bf16", (10, 0, 47, 13, 50))
    for tile in (None, (1, 1, 1, 3, 4)):
        found = ls.explain(odd, "h200", tile=tile)
        (warning,) = [d for d in found.diagnostics if d.code == "TMA037"]
        assert "axis 0" in warning.message and "axes 2 and 4" in warning.message
        (dense,) = [one for one in found.repairs if one.kind == "dense"]
        after = dense.after if isinstance(dense.after, T) else dense.after.source
        assert f"strides {after.strides}" in dense.message and after.strides[1] == 0
        assert (
            after.span_bits <= odd.span_bits
            and not ls.explain(after, "h200", tile=tile and (1, 1, 1, 3, 8)).diagnostics
        )


def test_an_image_is_padded_by_its_outer_pitch_and_not_by_its_channels() -> None:
    image = T((1080, 1920, 3), "u8", (5761, 3, 1))
    found = ls.explain(image, "h200")
    assert len(found.diagnostics) == 1 and "axis 1" in found.diagnostics[0].message, "one cause is told once"
    kinds = [repair.kind for repair in found.repairs]
    view = found.repairs[kinds.index("view")]
    assert view.after == T((1080, 5760), "u8", (5776, 1)) and view.bytes_added == 1079 * 15
    assert kinds.index("view") < kinds.index("pad") and kinds.index(FALL_BACK) < kinds.index("pad")


def test_a_head_of_65_gets_rows_of_72_and_a_box_that_is_rounded_up() -> None:
    found = ls.explain(T((4, 1024, 8, 65), "bf16"), "h200", tile=(1, 64, 1, 65))
    assert [d.code for d in found.diagnostics] == ["TMA005", "TMA008"]
    pad = next(repair for repair in found.repairs if repair.kind == "pad")
    assert isinstance(pad.after, Copy) and pad.after.tile == (1, 64, 1, 72)
    assert pad.after.source == T((4, 1024, 8, 65), "bf16", (1024 * 8 * 72, 8 * 72, 72, 1))
    assert "zeros past its end" in pad.message


def test_what_a_repair_makes_of_a_subject_is_a_value_in_json_too() -> None:
    subjects: tuple[Any, ...] = (
        T((64, 60), "bf16"),
        Copy(T((64, 60), "bf16"), tile=(8, 32)),
        ls.Gemm(256, 256, 255, "bf16"),
        ls.TensorMap("bf16", (64, 64), (130,), (64, 8)),
    )
    for subject in subjects:
        repair = next(one for one in ls.explain(subject, "h200").repairs if one.mends)
        after = json.loads(json.dumps(repair.to_json()))["after"]
        assert type(repair.after) is type(subject) and after["kind"] == type(subject).__name__
        if isinstance(subject, ls.TensorMap):
            assert ls.TensorMap(**{k: v for k, v in after.items() if k != "kind"}) == repair.after
        elif isinstance(subject, T):
            assert T(*(after[k] for k in ("shape", "dtype", "strides", "align", "offset"))) == repair.after
        elif isinstance(subject, Copy):
            assert after["source"]["strides"] == list(repair.after.source.strides) and after["tile"] == [8, 32]
        else:
            assert after["dtype"] == "bf16" and after["a"]["strides"] == list(repair.after.a.strides)


def test_where_no_map_is_the_verdict_says_how_it_goes() -> None:
    assert ls.explain(T((64, 60), "bf16"), "a100").verdict.startswith("no TMA path; goes by ")
    assert ls.explain(T((64, 60), "bf16"), "h200", tile=(8, 32)).verdict == "no TMA path; goes by threads"


def test_one_element_with_a_margin_lies_side_by_side_with_it() -> None:
    """Its stride of 32 bits was told to be 128."""
    for gpu in ("h200", "b200"):
        found = ls.explain(ls.Pad(T((1,), "fp32"), ((0, 1),)), gpu)
        assert found.legal and found.plan is not None and found.plan.tensor_maps[0].global_dim == (1,)


def test_a_misaligned_slice_is_told_to_move() -> None:
    array = np.zeros((64, 128), dtype=np.float16)
    found = ls.explain(T((64, 120), "fp16", (128, 1), align=2), "h200", tile=(64, 64))
    assert [d.code for d in found.diagnostics] == ["TMA004"]
    align = next(r for r in found.repairs if r.mends)
    assert align.kind == "align" and align.bytes_added == 0
    assert isinstance(align.after, T) and align.after.align == 16, "no more than the copy engine asks for"
    assert {r.kind for r in found.repairs} == {"align", "relayout", FALL_BACK}, "strides are not at fault"
    assert "1 of 8 elements" in found.values[0]
    assert ls.explain(array, "h200").target == "h200"


def test_a_tile_at_fault_is_told_to_change() -> None:
    found = ls.explain(T((4096, 4096), "bf16"), "h200", tile=(128, 60))
    tile = next(r for r in found.repairs if r.mends)
    assert isinstance(tile.after, Copy)
    assert (tile.kind, tile.after.tile, tile.bytes_added, tile.once) == ("tile", (128, 64), 0, 0.0)
    assert ls.explain(tile.after, "h200").legal
    rows = ls.explain(T((4096, 4095), "bf16"), "h200", tile=(128, 60)).repairs
    both = next(r for r in rows if r.kind == "pad")
    assert isinstance(both.after, Copy) and both.after.tile == (128, 64)
    assert both.after.source.strides == (4096, 1) and both.once > 0


def test_an_operand_of_a_type_that_is_not_multiplied_is_left_to_threads() -> None:
    found = ls.explain(T((64, 64), "fp64"), "h200", tile=(64, 64), consumer="wgmma.a")
    after = found.repairs[0].after
    assert [r.kind for r in found.repairs] == ["consumer"] and isinstance(after, Copy) and after.consumer == "threads"


def test_too_many_axes_are_taken_apart() -> None:
    apart = T((3, 4, 5, 6, 7, 16), "bf16", (30720, 7168, 1664, 256, 32, 1))
    found = ls.explain(apart, "h200")
    assert "TMA001" in {d.code for d in found.diagnostics}
    split = next(r for r in found.repairs if r.kind == "split")
    assert (
        isinstance(split.after, T) and split.after.shape == apart.shape[1:] and split.after.strides == apart.strides[1:]
    )
    one = ls.explain(split.after, "h200")
    assert one.legal and one.plan is not None
    assert split.nanoseconds == pytest.approx(3 * one.plan.cost.nanoseconds), "a map and a launch for each slice"


def test_a_padding_in_front_is_rounded_up() -> None:
    found = ls.explain(ls.Pad(T((64, 64), "bf16"), ((0, 0), (1, 1))), "h200")
    wider = found.repairs[0]
    assert wider.kind == "padding" and wider.after.padding == ((0, 0), (8, 1))


def reason_codes(found: ls.Explanation) -> set[str]:
    return {d.code for d in found.diagnostics}


@pytest.mark.parametrize("seed", range(3))
def test_sentences_about_extents_and_strides_are_what_explain_says(seed: int) -> None:
    """Every extent in a range is planned anew."""
    draw, gpu, spoken = random.Random(seed), target("h200"), 0
    while spoken < 4:
        rank = draw.choice((2, 2, 3))
        shape = tuple(draw.choice((2, 3, 5, 7, 8, 12, 16, 33, 40)) for _ in range(rank))
        order = draw.sample(range(rank), rank) if draw.random() < 0.3 else range(rank)
        dense = T(shape, draw.choice(("u8", "bf16", "fp32", "fp64"))).transposed(order)
        tile = tuple(draw.choice((1, 2, 4, 8, 16, 32)) for _ in shape)
        operator = Copy(dense, tile=tile) if rank > 2 or draw.random() < 0.7 else Transpose(dense)
        found = ls.explain(operator, gpu)
        if not found.legal and not reason_codes(found) <= OF_LAYOUTS:
            assert not any("works for" in sentence for sentence in found.values)
            continue
        claims = tensor_works(operator, gpu, legal=found.legal) if found.values else []
        for claim in claims:
            spoken += claim.matters
            axis = int(claim.name.removeprefix("shape[").removesuffix("]"))
            for extent in range(claim.low, claim.low + 2 * claim.period + 2):
                other = resized(operator, axis, extent)
                assert other is not None
                says = claim.holds(extent) if claim.matters else found.legal
                assert (mended(other, gpu) is not None) == says, f"{operator}: {claim}, at {extent}"


def test_the_stride_at_fault_is_named() -> None:
    gpu, tile = target("h200"), (8, 32)
    found = ls.explain(T((64, 60), "bf16", (65, 1)), gpu, tile=tile)
    assert found.values == ("works for strides[0] % 8 == 0: 1 of 8 values; the nearest to 65 are 64 and 72",)
    for stride in range(61, 90):
        assert ls.explain(T((64, 60), "bf16", (stride, 1)), gpu, tile=tile).legal == (stride % 8 == 0)


@given(st.integers(1, 12), st.sets(st.integers(0, 11)), st.integers(1, 60), st.integers(1, 20))
def test_periods_are_told_by_their_remainders(period: int, some: set[int], value: int, low: int) -> None:
    there = {r % period for r in some}
    found = works("K", value, period, lambda v: v % period in there, low)
    assert all(found.holds(v) == (v % period in there) for v in range(1, 100))
    near = [v for v in range(low, 200) if v % period in there and v != value]
    below, above = [v for v in near if v < value], [v for v in near if v > value]
    assert found.nearest == (*below[-1:], *above[:1])
    for smaller in range(1, found.period):
        if found.period % smaller == 0:
            shifted = [found.holds(v) == found.holds(v + smaller) for v in range(found.period)]
            assert not all(shifted), "the period is the least"


def test_strides_that_skip_elements_are_told_to_become_dense() -> None:
    found = ls.explain(Copy(T((64, 64), "bf16", (128, 2)), tile=(64, 64)), "h200")
    assert {d.code for d in found.diagnostics} == {"TMA024"}
    dense = next(r for r in found.repairs if r.mends)
    assert dense.kind == "dense" and dense.after.source.strides == (64, 1)
    assert "pad" not in {r.kind for r in found.repairs}, "no pitch makes neighbours of elements"


def test_tensor_maps_are_explained_by_their_violations() -> None:
    tm = ls.TensorMap("bf16", (64, 64), (130,), (64, 8), map_offset=32)
    found = ls.explain(tm, "h200")
    assert list(found.diagnostics) == ls.violations(tm, "h200")
    assert not found.legal and "TMA005" in str(found)
    warned = ls.explain(ls.TensorMap("bf16", (64, 2**32), (128,), (64, 8)), "h200")
    assert warned.legal and [d.level for d in warned.diagnostics] == ["warning"]


@pytest.mark.parametrize("offset", [0, 8, 16, 32, 64, 72, 120])
def test_a_map_that_lies_where_the_hardware_faults_is_an_error(offset: int) -> None:
    """The encode call takes it (FACTS M-03), which `bench.driver_agreement` counts; the first copy by it faults."""
    found = ls.explain(ls.TensorMap("bf16", (64, 64), (128,), (64, 8), map_offset=offset), "h200")
    assert found.legal == (offset % 64 == 0)
    assert {(d.code, d.refused_by) for d in found.diagnostics} == (set() if found.legal else {("TMA019", "hardware")})


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


@pytest.mark.parametrize("subject", [None, 1.5, {1}, [1], object()])
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


def test_windows_are_refused_in_axes_of_their_images_a_cause_once() -> None:
    # Pixels 136 bytes apart and rows of 57 of them: neither is a multiple of 16, whatever the windows.
    images = ls.Tensor((8, 56, 57, 64), "bf16", strides=(56 * 57 * 68, 57 * 68, 68, 1))
    (found,) = ls.explain(ls.Im2col(images, (3, 3)), "h200").diagnostics
    assert found.code == "TMA005"
    assert found.message == "stride of axis 2 is 136 bytes, no multiple of 16; likewise axis 1"
