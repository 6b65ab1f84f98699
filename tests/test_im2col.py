"""The windows of convolutions: plans of them make the textbook's matrix, and none that was changed passes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from execute import execute
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from in_windows import execute_columns, execute_masked, windows_by_definition

import legalsat as ls
from bench.kernels.moved import memory_of, moved
from legalsat.extract.check.recheck import recheck
from legalsat.extract.cost.cost import order
from legalsat.extract.search.planner import Limits, cached_plan, plan
from legalsat.operators import Im2col, access_of
from legalsat.plans.codec import InvalidPlan
from legalsat.plans.movement_plan import MovementPlan, from_json
from legalsat.rules.rewrites import LAWS
from legalsat.rules.windows import FILLING
from legalsat.targets import target
from legalsat.tensor import plain
from legalsat.units.means import MEANS

H200 = target("h200")
T = ls.Tensor
MOST_BYTES = 150_000
EVERY = tuple(MEANS)


@st.composite
def images(draw: st.DrawFn, axes: int) -> ls.Tensor:
    """Draw a batch of small images of one to three axes: dense, with padded pixels or rows, or channels not last."""
    dtype = draw(st.sampled_from(("u8", "bf16", "fp32")))
    longest = {1: 40, 2: 12, 3: 6}[axes]
    extents = [draw(st.integers(1, longest)) for _ in range(axes)]
    shape = (draw(st.integers(1, 3)), *extents, draw(st.sampled_from((1, 3, 4, 8, 16, 16, 32, 64))))
    kind = draw(st.sampled_from(("dense", "dense", "padded pixels", "odd rows", "channels first")))
    order = [*range(1, axes + 2)]
    if kind == "channels first":
        order = [axes + 1, *range(1, axes + 1)]
    strides, step = [0] * len(shape), 1
    for axis in reversed([0, *order]):
        strides[axis] = step
        step *= shape[axis]
        if kind == "padded pixels" and axis == axes + 1:
            step = -(-step // 16) * 16
        if kind == "odd rows" and axis == axes:
            step += 1
    return T(shape, dtype, strides, draw(st.sampled_from((256, 256, 16, 4))))


@st.composite
def windows(draw: st.DrawFn) -> Im2col:
    """Draw a filter over images: steps, dilations and uneven paddings, with or without a tile and a target."""
    axes = draw(st.sampled_from((1, 2, 2, 2, 3)))
    source = draw(images(axes))
    each = st.lists(st.integers(1, 3), min_size=axes, max_size=axes)
    pads = st.tuples(st.integers(0, 3), st.integers(0, 3)) | st.just((0, 0))
    options: dict[str, Any] = {
        "stride": draw(each),
        "dilation": draw(each | st.just([1] * axes)),
        "padding": draw(st.lists(pads, min_size=axes, max_size=axes) | st.just(0)),
        "consumer": draw(st.sampled_from((None, None, "threads"))),
    }
    taps = draw(st.lists(st.integers(1, 4), min_size=axes, max_size=axes))
    try:
        found = Im2col(source, taps, **options)
    except ls.InvalidInput:
        assume(False)  # the filter fits into no image
    assume(found.target.size * found.target.dtype.bits // 8 <= MOST_BYTES)
    if draw(st.booleans()):
        channels = found.filter[-1] * plain(source.shape)[-1]
        columns = draw(st.sampled_from((8, 16, 32, 64, channels)))
        pixels = draw(st.sampled_from((1, 8, 14, 32, 64, 128)))
        try:
            found = Im2col(source, taps, tile=(pixels, columns), **options)
        except ls.InvalidInput:  # columns end inside a row of the filter
            found = Im2col(source, taps, tile=(pixels, min(columns, plain(source.shape)[-1])), **options)
    if draw(st.integers(0, 3)) == 0:  # pixels that are no run, for the padding between images or rows of them
        shape, at = plain(found.target.shape), draw(st.sampled_from((0, 1)))
        steps, step = [1] * len(shape), 1
        for axis in reversed(range(len(shape))):
            steps[axis] = step = step + 64 * (axis == at)
            step *= shape[axis]
        found = replace(found, target=T(shape, found.target.dtype, steps))
    return found


def planned(operator: Im2col, means: str) -> MovementPlan | None:
    """Return the plan by one means, or None for a refusal, which must give reasons."""
    try:
        return cached_plan(operator, H200, (means,))
    except ls.NoLegalLayout as refusal:
        if means not in {"tma", "tma.phases"}:  # their tiles may suit nobody, without a rule against it
            assert refusal.diagnostics, "a refusal names its rules"
        assert all(d.level == "error" and d.help for d in refusal.diagnostics)
        return None


def run(found: MovementPlan) -> None:
    """Execute the plan on random bytes, and compare with im2col's definition."""
    operator = found.operator
    assert isinstance(operator, Im2col)
    source, result = memory_of(operator.source, 1), memory_of(operator.target)
    if found.access.by == "im2col":
        after = execute_columns(found, source, result)
    else:
        after = (execute if found.window is None else execute_masked)(found, source, result)
    assert np.array_equal(after, windows_by_definition(operator, source, result))


@pytest.mark.parametrize("means", EVERY)
def test_a_plan_makes_exactly_the_matrix_of_the_definition(means: str) -> None:
    @settings(deadline=None, max_examples=80 if means == "im2col" else 40)
    @given(windows())
    def holds(operator: Im2col) -> None:
        found = planned(operator, means)
        if found is not None:
            assert not operator.fills or means in FILLING
            run(found)

    holds()


# Windows that stay inside their images, and the means that plan them among others.
PLAIN: dict[str, tuple[Im2col, set[str]]] = {
    "3x3": (Im2col(T((2, 9, 9, 16), "bf16"), (3, 3)), {"tma", "im2col", "bulk", "cp.async", "threads"}),
    "atrous, by steps": (
        Im2col(T((1, 15, 13, 32), "u8"), (2, 3), stride=(2, 3), dilation=(3, 2)),
        {"tma", "im2col", "bulk", "cp.async", "threads"},
    ),
    "volume": (Im2col(T((1, 4, 5, 6, 16), "bf16"), (2, 2, 2)), {"im2col", "bulk", "cp.async", "threads"}),
    "odd pixels": (Im2col(T((3, 64, 4), "bf16"), 4, stride=3), {"tma.phases", "threads"}),
    "padding that no window reaches": (
        Im2col(T((1, 7, 7, 16), "bf16"), 3, stride=3, padding=((0, 1), (0, 1))),
        {"tma", "im2col", "threads"},
    ),
    "channels first": (Im2col(T((2, 8, 8, 16), "fp32", (1024, 8, 1, 64)), 3), {"cp.async", "threads"}),
}


@pytest.mark.parametrize("name", PLAIN)
def test_windows_inside_their_images_travel_by_any_means(name: str) -> None:
    operator, expected = PLAIN[name]
    assert not operator.fills
    found = {means: planned(operator, means) for means in EVERY}
    assert {means for means, plan_ in found.items() if plan_ is not None} >= expected
    for plan_ in found.values():
        if plan_ is not None:
            run(plan_)


@settings(deadline=None, max_examples=60)
@given(windows())
def test_windows_inside_their_images_are_a_plain_movement(operator: Im2col) -> None:
    if operator.fills:
        return
    source, result = memory_of(operator.source, 1), memory_of(operator.target)
    assert np.array_equal(moved(operator, source, result), windows_by_definition(operator, source, result))


@settings(deadline=None, max_examples=60)
@given(windows())
def test_all_means_together_do_what_was_asked(operator: Im2col) -> None:
    found = cached_plan(operator, H200)
    run(found)
    assert from_json(json.loads(json.dumps(found.to_json()))) == found
    assert str(found)
    tiles = math.prod(-(-n // t) for n, t in zip(found.views[0].extent, found.views[0].tile, strict=True))
    if found.access.by == "im2col":
        copies = sum(
            math.prod(
                tile // n
                for tile, n in zip(
                    view.tile, tm.box or (tm.channels, *(1 for _ in view.tile[1:-1]), tm.pixels), strict=True
                )
            )
            for view, tm in zip(found.views, found.tensor_maps, strict=False)
        )
        assert found.cost.boxes == tiles * copies


# Convolutions that everybody knows: extent, taps, step, padding, dilation, and the extent of the result.
KNOWN = {
    "a 3-tap filter keeps its extent": (14, 3, 1, 1, 1, 14),
    "first layer of a ResNet": (224, 7, 2, 3, 1, 112),
    "first layer of LeNet": (32, 5, 1, 0, 1, 28),
    "patches of a vision transformer": (224, 16, 16, 0, 1, 14),
    "downsampling": (56, 3, 2, 1, 1, 28),
    "atrous": (33, 3, 1, 6, 6, 33),
    "a window that fills the image": (7, 7, 1, 0, 1, 1),
}


@pytest.mark.parametrize("name", KNOWN)
def test_extents_of_known_convolutions(name: str) -> None:
    extent, taps, step, padding, dilation, expected = KNOWN[name]
    found = Im2col(T((1, extent, 5), "u8"), taps, stride=step, padding=padding, dilation=dilation)
    assert found.target.shape == (1, expected, taps, 5)
    assert (extent + 2 * padding - dilation * (taps - 1) - 1) // step + 1 == expected


NAMED: dict[str, Im2col] = {
    "3x3": Im2col(T((2, 14, 14, 64), "bf16"), (3, 3), padding=1),
    "3x3 for threads": Im2col(T((2, 14, 14, 64), "bf16"), (3, 3), padding=1, consumer="threads"),
    "for wgmma": Im2col(T((2, 14, 14, 64), "bf16"), (3, 3), padding=1, tile=(128, 64), consumer="wgmma.a"),
    "halves": Im2col(T((2, 15, 17, 32), "bf16"), (3, 3), stride=2, padding=((0, 1), (1, 0)), tile=(32, 32)),
    "atrous": Im2col(T((1, 20, 20, 16), "fp32"), (3, 3), padding=4, dilation=4, tile=(64, 16)),
    "taps side by side": Im2col(T((2, 30, 16), "bf16"), 3, padding=1, tile=(32, 48)),
    "volume": Im2col(T((2, 4, 5, 6, 16), "u8"), (2, 3, 2), padding=(0, 1, 1), tile=(32, 16)),
    "channels that overhang": Im2col(T((2, 9, 9, 48), "bf16"), (3, 3), padding=1, tile=(64, 64)),
    "padding wider than the filter": Im2col(T((1, 5, 5, 16), "bf16"), (2, 2), padding=3, tile=(16, 16)),
    "one pixel": Im2col(T((1, 1, 1, 16), "bf16"), (3, 3), padding=1),
}


@pytest.mark.parametrize("name", NAMED)
def test_named_windows_travel_in_columns(name: str) -> None:
    found = cached_plan(NAMED[name], H200, ("im2col",))
    run(found)
    load = found.tensor_maps[0]
    assert load.mode == "im2col" and not [d for d in ls.violations(load, H200) if d.level == "error"]
    assert "deliver_by_windows" in [step.law for step in found.derivation]


def test_a_column_goes_on_from_row_to_row() -> None:
    found = cached_plan(NAMED["for wgmma"], H200)
    assert found.access.by == "im2col" and found.tensor_maps[0].pixels == 128
    assert found.launch.programs == 9 * 4  # 392 pixels make 4 columns under each of 9 taps, whatever a row is


@pytest.mark.parametrize("means", ["tma", "tma.phases", "bulk", "fragments"])
def test_means_that_fill_nothing_in_are_refused_by_rule(means: str) -> None:
    with pytest.raises(ls.NoLegalLayout) as refusal:
        ls.synthesize(NAMED["3x3"], "h200", means=(means,))  # type: ignore[arg-type]
    assert "WIN001" in {d.code for d in refusal.value.diagnostics}


@pytest.mark.parametrize("operator", [ls.Copy(T((64, 64), "bf16")), ls.Transpose(T((64, 64), "bf16"))], ids=str)
def test_columns_of_no_window_are_refused_by_rule(operator: Any) -> None:
    with pytest.raises(ls.NoLegalLayout) as refusal:
        ls.synthesize(operator, "h200", means=("im2col",))
    assert {d.code for d in refusal.value.diagnostics} == {"WIN003"}


REFUSED: dict[str, tuple[Im2col, str]] = {
    "corner": (Im2col(T((1, 8, 8, 16), "bf16"), (2, 2), padding=129), "TMA043"),
    "offset": (Im2col(T((1, 300, 4, 16), "bf16"), (2, 1), dilation=256), "TMA046"),
    "step": (Im2col(T((1, 40, 4, 16), "bf16"), (2, 1), stride=9), "TMA007"),
    "pixel pitch": (Im2col(T((1, 9, 9, 4), "bf16"), (3, 3), padding=1), "TMA005"),
    "channels apart": (Im2col(T((1, 9, 9, 16), "bf16", (1296, 9, 1, 81)), (3, 3), padding=1), "TMA024"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_im2col_map_holds_is_refused_by_rule_and_travels_otherwise(name: str) -> None:
    operator, code = REFUSED[name]
    with pytest.raises(ls.NoLegalLayout) as refusal:
        ls.synthesize(operator, "h200", means=("im2col",))
    assert code in {d.code for d in refusal.value.diagnostics}
    found = ls.synthesize(operator, "h200")
    assert found.access.by != "im2col"
    run(found)


def test_vectors_keep_to_one_pixel_where_windows_leave_the_image() -> None:
    """Four pixels of 4 bytes lie side by side under a window's taps, but the last window's are not all in the image."""
    inside, leaving = (
        Im2col(T((1, n, 2), "bf16"), 4, stride=4, padding=((0, 3 * (n - 16)),), tile=(8, 8)) for n in (16, 17)
    )
    assert leaving.fills and not inside.fills
    for operator, expected in ((inside, 16), (leaving, 4)):
        found = cached_plan(operator, H200, ("threads",))
        assert found.copies[0].bytes == expected
        run(found)


def test_vectors_are_aligned_though_the_first_window_is_padding() -> None:
    """Every fourth pixel is 80 bytes from the last one, but the image begins 20 bytes behind the first window."""
    source = T((1, 16, 16), "u8", (320, 20, 1))
    inside, leaving = Im2col(source, 1, stride=4), Im2col(source, 1, stride=4, padding=1)
    assert leaving.fills and not inside.fills
    for operator, expected in ((inside, 16), (leaving, 4)):
        found = cached_plan(operator, H200, ("threads",))
        assert found.copies[0].bytes == expected
        run(found)


def mutated(found: MovementPlan) -> dict[str, MovementPlan]:
    """Return the plan with one field changed at a time."""
    load, *rest = found.tensor_maps
    window = found.window
    assert window is not None
    sweep, *others = window.sweeps

    def with_map(**fields: Any) -> MovementPlan:
        return replace(found, tensor_maps=(replace(load, **fields), *rest))

    def with_sweep(**fields: Any) -> MovementPlan:
        return replace(found, window=replace(window, sweeps=(replace(sweep, **fields), *others)))

    wide = tuple(m._replace(tile=2 * m.tile) if m.extent == 14 else m for m in found.access.modes)
    return {
        "lower corner": with_map(lower_corner=(0, *load.lower_corner[1:])),
        "upper corner": with_map(upper_corner=(load.upper_corner[0] + 1, *load.upper_corner[1:])),
        "pixels": with_map(pixels=load.pixels // 2),
        "channels": with_map(channels=load.channels // 2),
        "step": with_map(element_stride=(1, 2, 1, 1)),
        "stride": with_map(global_stride=(load.global_stride[0] * 2, *load.global_stride[1:])),
        "swizzle": with_map(swizzle="64B"),
        "fill": with_map(oob_fill="nan"),
        "offset": with_sweep(dilation=2),
        "step of the window": with_sweep(step=2),
        "padding": with_sweep(before=0),
        "lead": replace(found, window=replace(window, lead=0)),
        "modes of the window": replace(found, window=replace(window, pixels=window.pixels[::-1])),
        "no window": replace(found, window=None),
        "tile": replace(found, access=replace(found.access, modes=wide)),
        "view": replace(found, views=(replace(found.views[0], tile=found.views[0].tile[::-1]), *found.views[1:])),
        "means": replace(found, access=replace(found.access, by="tma")),
        "launch": replace(found, launch=replace(found.launch, programs=1)),
        "filter": replace(found, operator=Im2col(found.operator.source, (3, 2), padding=1)),
    }


@pytest.mark.parametrize("name", ["3x3 for threads", "3x3"])
def test_no_changed_plan_passes(name: str) -> None:
    found = cached_plan(NAMED[name], H200)
    assert found.access.by == "im2col"
    recheck(found)
    for what, changed in mutated(found).items():
        with pytest.raises(InvalidPlan):
            recheck(changed)
            pytest.fail(f"a changed {what} passes")


def test_no_changed_masked_plan_passes() -> None:
    found = cached_plan(NAMED["3x3"], H200, ("threads",))
    window = found.window
    assert window is not None
    recheck(found)
    merged = plan(replace(NAMED["3x3"], padding=((0, 0), (0, 0)), target=T((2, 12, 12, 3, 3, 64), "bf16")), H200)
    for changed in (
        replace(found, window=None),
        replace(found, window=replace(window, lead=0)),
        replace(found, window=replace(window, taps=window.taps[::-1])),
        replace(found, copies=(replace(found.copies[0], bytes=32), *found.copies[1:])),
        replace(found, access=merged.access),
    ):
        with pytest.raises(InvalidPlan):
            recheck(changed)


def test_without_the_law_of_windows_the_same_problem_costs_more() -> None:
    others = tuple(law for law in LAWS if law.name != "deliver_by_windows")
    assert len(others) == len(LAWS) - 1
    for name in ("3x3", "3x3 for threads", "for wgmma"):
        found, without = plan(NAMED[name], H200), plan(NAMED[name], H200, Limits(laws=others))
        assert found.access.by == "im2col" and without.access.by in {"threads", "cp.async"}
        assert order(without.cost) > order(found.cost)
        run(without)
    alone = Limits(laws=others, means=("tma", "im2col"))
    with pytest.raises(ls.NoLegalLayout):
        plan(NAMED["3x3"], H200, alone)


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "symbolic images": (lambda: Im2col(T((ls.Dim("N"), 8, 8, 16), "bf16"), 3), "bind"),
    "matrix": (lambda: Im2col(T((8, 8), "bf16"), 3), "N, H, W, C"),
    "filter too large": (lambda: Im2col(T((1, 4, 4, 8), "u8"), 6, padding=0), "spans 6 pixels"),
    "taps for one axis": (lambda: Im2col(T((1, 4, 4, 8), "u8"), (3,)), "give 2"),
    "no taps": (lambda: Im2col(T((1, 4, 4, 8), "u8"), (3, 0)), "at least 1"),
    "negative padding": (lambda: Im2col(T((1, 4, 4, 8), "u8"), 3, padding=-1), "at least 0"),
    "padding for one axis": (lambda: Im2col(T((1, 4, 4, 8), "u8"), 3, padding=((1, 1),)), "one for each"),
    "step of nothing": (lambda: Im2col(T((1, 4, 4, 8), "u8"), 3, stride=0), "at least 1"),
    "words for numbers": (lambda: Im2col(T((1, 4, 4, 8), "u8"), 3, padding="same"), "padding"),
    "target of another shape": (lambda: Im2col(T((1, 4, 4, 8), "u8"), 3, target=T((1, 4, 4, 8), "u8")), "give one of"),
    "tile inside a row of taps": (lambda: Im2col(T((1, 4, 4, 8), "u8"), 3, tile=(16, 16)), "end inside a row"),
    "tile of taps for wgmma": (
        lambda: Im2col(T((1, 4, 4, 8), "u8"), 3, tile=(16, 24), consumer="wgmma.a"),
        "one tap at once",
    ),
    "tile of one number": (lambda: Im2col(T((1, 4, 4, 8), "u8"), 3, tile=(16,)), "give 2"),
    "unknown consumer": (lambda: Im2col(T((1, 4, 4, 8), "u8"), 3, consumer="me"), "consumer"),  # type: ignore[arg-type]
    "padding beyond all memory": (
        lambda: access_of(Im2col(T((1, 4, 4, 8), "u8"), 3, padding=2**31 - 2)),
        "span|spans|windows",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_windows_are_refused_by_name(name: str) -> None:
    call, says = BAD[name]
    with pytest.raises(ls.InvalidInput, match=says):
        call()


def test_a_backend_without_im2col_says_so() -> None:
    with pytest.raises(ls.LegalSatError, match="im2col"):
        cached_plan(NAMED["3x3"], H200).emit("triton")
    with pytest.raises(ls.LegalSatError, match="triton"):
        cached_plan(NAMED["3x3"], H200, ("threads",)).emit("triton")
