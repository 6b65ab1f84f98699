"""Every means of delivery alone: its plans move the right bytes, and none that was changed passes."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from execute import LOADS, execute
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from problems import operators, targets

import legalsat as ls
from bench.kernels.moved import memory_of, moved
from legalsat.extract.check.recheck import recheck
from legalsat.extract.search.planner import cached_plan
from legalsat.operators import Copy, Move, Transpose
from legalsat.plans.codec import InvalidPlan
from legalsat.plans.movement_plan import MovementPlan
from legalsat.targets import target

H200 = target("h200")
ROOT = Path(__file__).parent.parent
T = ls.Tensor
EVERY = tuple(LOADS)
DRAWN = 100


@st.composite
def pitched(draw: st.DrawFn) -> Move:
    """Draw a movement of rows whose pitch is mostly no multiple of 16 bytes, one after another or in batches."""
    dtype = draw(st.sampled_from(("u8", "bf16", "fp32")))
    rows, columns = draw(st.integers(1, 70)), draw(st.integers(1, 70))
    pitch = columns + draw(st.integers(0, 3))
    shape, strides = (rows, columns), (pitch, 1)
    if draw(st.booleans()):
        granule = 128 // T((1,), dtype).dtype.bits
        shape, strides = (3, *shape), (-(-rows * pitch // granule) * granule, *strides)  # type: ignore[assignment]
    source = T(shape, dtype, strides, draw(st.sampled_from((256, 16, 4))))
    sizes = st.sampled_from((1, 8, 16, 32, 48, 64))
    tile = draw(st.none() | st.tuples(*[sizes] * source.rank))
    if draw(st.booleans()):
        order = tuple(draw(st.permutations(range(source.rank))))
        return Transpose(source, order, draw(targets(source.transposed(order))), tile=tile)
    return Copy(source, draw(targets(source)), tile=tile)


@st.composite
def operands(draw: st.DrawFn) -> Move:
    """Draw tiles for wgmma: either axis fastest, dense or padded, tiles that overhang or not."""
    dtype = draw(st.sampled_from(("bf16", "fp16", "fp32", "e4m3")))
    shape = (draw(st.integers(1, 150)), draw(st.integers(1, 150)))
    if draw(st.booleans()):
        shape = (shape[0] // 16 * 16 + 16, shape[1] // 16 * 16 + 16)
    pad = draw(st.sampled_from((0, 0, 1, 16)))
    strides = (1, shape[0] + pad) if draw(st.integers(0, 3)) == 0 else (shape[1] + pad, 1)
    tile = (draw(st.sampled_from((64, 128))), draw(st.sampled_from((4, 8, 16, 32, 64, 128))))
    return Copy(T(shape, dtype, strides), tile=tile, consumer=draw(st.sampled_from(("wgmma.a", "wgmma.a", "wgmma.b"))))


@st.composite
def granular(draw: st.DrawFn) -> Move:
    """Draw a movement of rows of whole granules, whose pitch may be padded."""
    dtype = draw(st.sampled_from(("u8", "bf16", "fp32", "fp64")))
    granule = 128 // T((1,), dtype).dtype.bits
    rows, columns = draw(st.integers(1, 40)), draw(st.integers(1, 12)) * granule
    source = T((rows, columns), dtype, (columns + draw(st.sampled_from((0, granule))), 1))
    tile = draw(st.none() | st.tuples(st.sampled_from((1, 8, 24)), st.sampled_from((1, 4, 7)).map(granule.__mul__)))
    if draw(st.booleans()):
        return Transpose(source, target=draw(targets(source.transposed((1, 0)))), tile=tile)
    return Copy(source, draw(targets(source)), tile=tile)


@st.composite
def sliced(draw: st.DrawFn) -> Move:
    """Draw a movement of rows whose first one lies inside a granule."""
    source = draw(pitched()).source
    bits = source.dtype.bits
    places = [n for n in range(0, 16, max(1, bits // 8)) if bits <= 128]
    offset = draw(st.sampled_from(places))
    found = T(source.shape, source.dtype, source.strides, 256, offset)
    return Transpose(found) if draw(st.booleans()) else Copy(found)


PROBLEMS = operators() | pitched() | operands() | granular() | sliced()
DRAW = {"tma.phases": pitched() | sliced(), "fragments": operands()}


def planned(operator: Move, means: str) -> MovementPlan | None:
    """Return the plan by one means alone, or None for a refusal, which names errors if it names anything."""
    try:
        return cached_plan(operator, H200, (means,))
    except ls.NoLegalLayout as refusal:
        assert all(d.level == "error" and d.help for d in refusal.diagnostics)
        return None


def runs(found: MovementPlan) -> bool:
    """Whether the plan, executed on random bytes, does what the movement's definition says."""
    source, result = memory_of(found.operator.source, 1), memory_of(found.operator.target)
    return np.array_equal(execute(found, source, result), moved(found.operator, source, result))


@pytest.mark.parametrize("means", EVERY)
def test_plans_by_one_means_move_exactly_the_bytes_that_were_asked_for(means: str) -> None:
    made = Counter[bool]()

    @settings(deadline=None, max_examples=DRAWN, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(DRAW.get(means, PROBLEMS))
    def check(operator: Move) -> None:
        found = planned(operator, means)
        made[found is not None] += 1
        if found is not None:
            assert found.access.by == means
            assert runs(found)

    check()
    assert made[True] >= DRAWN // 10, f"too few of the drawn movements have a plan by {means}"


ODD = T((64, 96), "bf16", (101, 1))
NAMED: dict[str, Move] = {
    "tma": Copy(T((64, 96), "bf16"), tile=(32, 32)),
    "tma.phases": Transpose(ODD, tile=(32, 32)),
    "bulk": Copy(T((64, 96), "bf16", (104, 1)), tile=(32, 32)),
    "cp.async": Copy(T((64, 96), "bf16", (102, 1)), tile=(32, 32)),
    "threads": Copy(T((64, 96), "bf16", (100, 1)), tile=(32, 32)),
    "fragments": Copy(T((64, 96), "bf16", (100, 1)), tile=(64, 32), consumer="wgmma.a"),
}


def changes(found: MovementPlan) -> Iterator[tuple[str, MovementPlan]]:
    """Yield the plan with one field changed, each named, so that it would fault or move something else."""
    for i, copy in enumerate(found.copies):
        others: dict[str, dict[str, Any]] = {
            "twice the bytes": {"bytes": 2 * copy.bytes},
            "no bytes": {"bytes": 0},
            "three bytes": {"bytes": 3},
            "another side": {"side": "none"},
            "another instruction": {"instruction": "ld.shared"},
        }
        for name, fields in others.items():
            yield f"copy {i}: {name}", replace(found, copies=_with(found.copies, i, **fields))
        yield f"copy {i} missing", replace(found, copies=found.copies[:i] + found.copies[i + 1 :])
        yield f"copy {i} twice", replace(found, copies=(copy, *found.copies))
    for i, phase in enumerate(found.phases):
        for field in ("offset", "shift"):
            for step in (-16, -2, 2, 16):
                moved_on = {field: getattr(phase, field) + step}
                yield f"phase {i}: {field} {step:+}", replace(found, phases=_with(found.phases, i, **moved_on))
    if found.phases:
        yield "a phase less", replace(found, phases=found.phases[:-1])
        yield "a map less", replace(found, tensor_maps=found.tensor_maps[:-1])
        yield "maps the other way round", replace(found, tensor_maps=found.tensor_maps[::-1])
    for i, buffer in enumerate(found.shared):
        for field in ("bytes", "boxes", "alignment", "stages", "word"):
            more = {field: 2 * getattr(buffer, field) + 1}
            yield f"buffer {i}: {field}", replace(found, shared=_with(found.shared, i, **more))
        wider = (*buffer.shape[:-1], buffer.shape[-1] + 1)
        yield f"buffer {i}: shape", replace(found, shared=_with(found.shared, i, shape=wider))
    yield (
        "another buffer",
        replace(found, shared=(*found.shared, *cached_plan(NAMED["cp.async"], H200, ("cp.async",)).shared)),
    )
    for barrier in found.pipeline.barriers:
        late = replace(barrier, transaction_bytes=barrier.transaction_bytes + 16)
        yield "barrier", replace(found, pipeline=replace(found.pipeline, barriers=(late,)))
    for means in EVERY:
        if means != found.access.by:
            access, last = replace(found.access, by=means), found.derivation[-1]
            yield f"by {means}", replace(found, access=access)
            other = replace(last, access=replace(last.access, by=means))
            yield f"derived by {means}", replace(found, access=access, derivation=(*found.derivation[:-1], other))


def _with(values: tuple[Any, ...], at: int, **fields: Any) -> tuple[Any, ...]:
    """Return a tuple of dataclasses with fields of one of them changed."""
    return (*values[:at], replace(values[at], **fields), *values[at + 1 :])


@pytest.mark.parametrize("means", EVERY)
def test_a_plan_by_any_means_that_was_changed_does_not_pass(means: str) -> None:
    found = planned(NAMED[means], means)
    assert found is not None and runs(found)
    recheck(found)
    for name, changed in changes(found):
        with pytest.raises(InvalidPlan, match=r"\w+ \w+"):
            recheck(changed)
            pytest.fail(f"passes with {name}")


def test_targets_in_which_elements_share_memory_are_refused() -> None:
    """A dimension of one element between two others must not hide that these overlap, nor a stride of 0 alone."""
    for operator in (
        Copy(T((4, 1, 16), "u8"), T((4, 1, 16), "u8", (8, 2, 1))),
        Copy(T((4,), "u8"), T((4,), "u8", (0,))),
        Copy(T((8, 4), "u8"), T((8, 4), "u8", (2, 1))),
    ):
        for means in EVERY:
            assert planned(operator, means) is None


def test_elements_that_begin_inside_bytes_are_refused() -> None:
    """Rows of 16 six-bit elements are whole bytes, but 65 elements from row to row are not."""
    for means in EVERY:
        assert planned(Copy(T((4, 16), "e2m3", (65, 1))), means) is None
        assert planned(Copy(T((4, 16), "e2m3"), T((4, 16), "e2m3", (65, 1))), means) is None


def test_bulk_copies_swizzle_nothing() -> None:
    assert planned(Copy(T((128, 64), "bf16"), tile=(64, 64), consumer="wgmma.a"), "bulk") is None
    found = planned(Copy(T((128, 8), "bf16"), tile=(64, 8), consumer="wgmma.a"), "bulk")
    assert found is not None and found.shared[0].swizzle == "none" and found.shared[0].shape == (64, 8)


def test_phases_take_tiles_that_begin_at_granules() -> None:
    assert planned(Transpose(ODD, tile=(32, 4)), "tma.phases") is None
    assert planned(Transpose(T((64, 4), "bf16", (101, 1)), tile=(32, 4)), "tma.phases") is not None


def test_phases_must_fit_into_shared_memory_together() -> None:
    """Eight phases of 8 x 1032 words fill more than a block has, though one phase would fit."""
    wide = Transpose(T((64, 2048), "bf16", (2049, 1)), tile=(64, 2048))
    assert planned(wide, "tma.phases") is None


def test_a_tile_that_fits_nowhere_is_refused_by_rule() -> None:
    huge = Copy(T((2**31,), "fp64"), tile=(2**31,))
    with pytest.raises(ls.NoLegalLayout) as refused:
        ls.synthesize(huge, "h200", means=("threads",))
    assert any("registers" in str(diagnostic) for diagnostic in refused.value.diagnostics)


def test_a_means_is_a_row_and_a_solver() -> None:
    found = subprocess.run([sys.executable, "tests/own_means.py"], capture_output=True, text=True, check=True, cwd=ROOT)
    assert set(found.stdout.splitlines()) == {"threads.again deliver_by_loads_again"}
