"""Plans do what was asked, byte by byte; and no plan that was changed passes for one that was made."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from execute import execute
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import operators

import legalsat as ls
from bench.kernels.moved import memory_of, moved
from legalsat.errors import SolverGaveUp
from legalsat.extract.check.recheck import recheck
from legalsat.extract.search import planner
from legalsat.extract.search.planner import BOXES, Limits, plan
from legalsat.operators import Copy, Move, Transpose, access_of
from legalsat.operators.access import Access
from legalsat.plans.codec import InvalidPlan
from legalsat.plans.movement_plan import MovementPlan, Step, from_json
from legalsat.program.pipeline import BarrierRing
from legalsat.rules.rewrites import LAWS
from legalsat.targets import Target, target

H200 = target("h200")
T = ls.Tensor


def cached_plan(operator: Move, gpu: Target) -> MovementPlan:
    """Return the plan by boxes of tensor maps; tests/test_means.py has the other means."""
    return planner.cached_plan(operator, gpu, BOXES)


def planned(operator: Move) -> MovementPlan | None:
    """Return the plan, or None for a refusal, which must give reasons."""
    try:
        return cached_plan(operator, H200)
    except ls.NoLegalLayout as refusal:
        assert refusal.diagnostics, "a refusal names its rules"
        assert all(d.level == "error" and d.help for d in refusal.diagnostics)
        return None


def run(found: MovementPlan, seed: int = 1) -> None:
    """Execute the plan on random bytes, and compare with the movement's definition."""
    source, result = memory_of(found.operator.source, seed), memory_of(found.operator.target)
    assert np.array_equal(execute(found, source, result), moved(found.operator, source, result))


@settings(deadline=None, max_examples=120)
@given(operators())
def test_a_plan_moves_exactly_the_bytes_that_were_asked_for(operator: Move) -> None:
    found = planned(operator)
    if found is not None:
        run(found)


NAMED: dict[str, Move] = {
    "one box": Copy(T((64, 64), "bf16")),
    "into odd rows": Copy(T((37, 1021), "bf16", (1024, 1)), T((37, 1021), "bf16")),
    "odd rows of padded memory": Copy(T((37, 123), "bf16", (128, 1)), T((37, 123), "bf16", (128, 1))),
    "scalar": Copy(T((), "fp32")),
    "one element": Copy(T((1,), "u8")),
    "unit modes with bad strides": Copy(T((1, 24, 1, 64), "bf16", (7, 64, 3, 1))),
    "more than five modes": Copy(T((3, 2, 3, 2, 3, 2, 16), "u8")),
    "modes that do not merge": Copy(T((4, 4, 16, 16), "u8", (4096, 1024, 32, 1))),
    "fp64 as 32-bit words": Copy(T((33, 34), "fp64"), tile=(16, 16)),
    "fp4 as bytes": Copy(T((32, 96), "e2m1")),
    "fp6 as bytes": Copy(T((32, 128), "e2m3")),
    "broadcast": Copy(T((16, 64), "bf16", (0, 1))),
    "transpose": Transpose(T((96, 160), "bf16")),
    "transpose of rows that do not fill tiles": Transpose(T((72, 104), "bf16")),
    "transpose into odd rows": Transpose(T((73, 104), "bf16")),
    "transpose of words": Transpose(T((40, 36), "fp32")),
    "permutation": Transpose(T((6, 10, 24), "bf16"), (2, 0, 1)),
    "swizzled tile for threads": Copy(T((64, 128), "bf16"), tile=(64, 128), consumer="threads"),
    "tile for wgmma": Copy(T((128, 256), "bf16"), tile=(128, 64), consumer="wgmma.a"),
    "more rows than a box has, as one of another shape": Copy(T((512, 24), "bf16"), tile=(512, 24)),
    "tile larger than the tensor": Copy(T((5, 24), "bf16"), tile=(64, 64)),
}


@pytest.mark.parametrize("name", NAMED)
def test_named_movements_have_plans_that_move_the_right_bytes(name: str) -> None:
    found = cached_plan(NAMED[name], H200)
    run(found)
    for tm in found.tensor_maps:
        assert not [d for d in ls.violations(tm, H200) if d.level == "error"]
    boxes = math.prod(-(-n // b) for n, b in zip(found.views[0].tile, found.tensor_maps[0].box, strict=True))
    assert found.pipeline.barriers[0].transaction_bytes == boxes * ls.tx_bytes(found.tensor_maps[0])


@pytest.mark.parametrize("name", NAMED)
def test_predictions_count_what_the_plan_does(name: str) -> None:
    found = cached_plan(NAMED[name], H200)
    tiles = math.prod(-(-mode.extent // mode.tile) for mode in found.access.modes)
    per_tile = sum(
        math.prod(n // b for n, b in zip(view.tile, tm.box, strict=True))
        for view, tm in zip(found.views, found.tensor_maps, strict=False)
    )
    payload = -(-math.prod(mode.extent for mode in found.access.modes) * found.access.word // 8)
    assert found.cost.boxes == tiles * per_tile
    assert found.cost.global_bytes == 2 * payload
    assert found.cost.overhang_bytes == tiles * found.shared[0].bytes - payload >= 0
    assert found.cost.shared_bytes == sum(s.bytes * s.stages for s in found.shared if not s.overlays)
    assert 4800 * found.cost.nanoseconds > 2 * payload, "nothing is faster than the memory of an H200"


def test_the_named_movements_reach_every_way_of_storing() -> None:
    ways = Counter((p.store, len(p.shared)) for p in (cached_plan(o, H200) for o in NAMED.values()))
    assert set(ways) == {("tma", 1), ("tma", 2), ("threads", 1)}


@settings(deadline=None, max_examples=25)
@given(operators())
def test_derivations_replay_by_laws_that_keep_the_movement(operator: Move) -> None:
    found = planned(operator)
    if found is None:
        return
    laws = {law.name: law for law in LAWS}
    access = access_of(operator, operator.tile)
    small = math.prod(m.extent for m in access.modes) * access.word < 20_000
    for step in found.derivation:
        if step.law == "choose_tile":
            assert operator.tile is None
            whole = Access(step.access.word, tuple(m._replace(tile=m.extent) for m in step.access.modes))
            assert whole == access
        else:
            law = laws[step.law]
            assert law.leads(access, step.access) or law.leads(step.access, access)
            if small:
                assert step.access.tiles() == access.tiles()
        access = step.access
    assert access == found.access


# Targets in which elements overlap or words are misaligned: neither the copy engine nor threads can store them.
UNSTORABLE: dict[str, Move] = {
    "two rows in the same bytes": Copy(T((4, 16), "u8"), T((4, 16), "u8", (1, 1))),
    "rows that reach into the next": Copy(T((4, 64), "bf16"), T((4, 64), "bf16", (48, 1))),
    "broadcast": Copy(T((4, 64), "bf16"), T((4, 64), "bf16", (0, 1))),
    "four-bit rows half a byte apart": Copy(T((2, 64), "e2m1"), T((2, 64), "e2m1", (1, 1))),
    "four-bit rows that start inside a byte": Copy(T((2, 64), "e2m1"), T((2, 64), "e2m1", (65, 1))),
    "base address inside a word": Copy(T((64, 64), "bf16"), T((64, 64), "bf16", align=1)),
}


@pytest.mark.parametrize("name", UNSTORABLE)
def test_what_nobody_can_store_is_refused(name: str) -> None:
    assert planned(UNSTORABLE[name]) is None


def test_boxes_side_by_side_start_where_the_copy_engine_can_write() -> None:
    """307 rows of 48 bytes are as many boxes, since 307 is prime, and the second would start at no multiple of 128."""
    assert planned(Copy(T((307, 24), "bf16"), tile=(307, 24))) is None
    found = cached_plan(NAMED["more rows than a box has, as one of another shape"], H200)
    assert {tm.box for tm in found.tensor_maps} == {(256, 48)}
    odd = replace(found, tensor_maps=tuple(replace(tm, box=(8, 1)) for tm in found.tensor_maps))
    with pytest.raises(InvalidPlan, match="TMA027"):
        recheck(odd)


def changed(found: MovementPlan, path: str, value: Any) -> MovementPlan:
    """Return the plan with one field, such as "tensor_maps.0.box", replaced; it goes through JSON as a file would."""
    data = json.loads(json.dumps(found.to_json()))
    at: Any = data
    *way, last = [int(key) if key.isdigit() else key for key in path.split(".")]
    for key in way:
        at = at[key]
    assert at[last] != value, "the change must change something"
    at[last] = value
    return from_json(data)


STRAIGHT = NAMED["swizzled tile for threads"]
CHANGES: dict[str, Any] = {
    "tensor_maps.0.box": [32, 64],
    "tensor_maps.0.swizzle": "none",
    "tensor_maps.0.global_dim": [128, 65],
    "tensor_maps.0.global_stride": [512],
    "tensor_maps.0.element_stride": [1, 2],
    "tensor_maps.0.dtype": "f16",
    "tensor_maps.0.address": 16,
    "tensor_maps.0.interleave": "16B",
    "tensor_maps.0.oob_fill": "nan",
    "tensor_maps.0.map_offset": 64,
    "tensor_maps.1.box": [64, 32],
    "views.0.tile": [128, 32],
    "views.0.stride": [16, 4096],
    "views.1.groups": [[1], [0]],
    "store": "threads",
    "shared.0.bytes": 8192,
    "shared.0.alignment": 128,
    "shared.0.boxes": 1,
    "shared.0.shape": [128, 64],
    "shared.0.swizzle": "64B",
    "shared.0.stages": 3,
    "shared.0.word": 8,
    "shared.0.name": "target",
    "shared.0.overlays": True,
    "shared": [],
    "pipeline.buffers.0.stages": 16,
    "pipeline.roles.0.warps": 3,
    "pipeline.roles.0.body": [],
    "pipeline.roles.0.body.0.op": "Nothing",
    "pipeline.barriers.0.transaction_bytes": 8192,
    "pipeline.barriers.0.arrivals": 2,
    "pipeline.barriers": [],
    "access.word": 8,
    "access.modes": [[128, 16, 16, 128], [64, 2048, 2048, 32]],
    "derivation": [{"law": "permute_modes", "access": {"word": 16, "modes": [[128, 16, 16, 128]]}}],
    "operator.source.strides": [256, 1],
    "operator.source.dtype": "fp16",
    "operator.source.align": 8,
    "operator.target.strides": [136, 1],
    "operator.tile": [32, 128],
    "target": "a100",
}


@pytest.mark.parametrize("path", CHANGES)
def test_a_plan_that_was_changed_does_not_pass(path: str) -> None:
    found = cached_plan(STRAIGHT, H200)
    recheck(from_json(json.loads(json.dumps(found.to_json()))))
    with pytest.raises(InvalidPlan, match=r"\w+ \w+"):
        recheck(changed(found, path, CHANGES[path]))


def test_other_ways_of_storing_are_checked_too() -> None:
    through = cached_plan(Copy(T((128, 128), "bf16"), tile=(64, 128)), H200)
    assert (through.store, len(through.shared)) == ("tma", 1)
    with pytest.raises(InvalidPlan, match="share a buffer"):
        recheck(changed(through, "tensor_maps.1.box", [128, 32]))
    threads = cached_plan(Copy(T((64, 64), "bf16"), T((64, 64), "bf16", (67, 1))), H200)
    assert threads.store == "threads"
    with pytest.raises(InvalidPlan):
        recheck(changed(threads, "operator.target.align", 1))
    late = replace(threads, pipeline=replace(threads.pipeline, barriers=(BarrierRing("full", 1, 1, 16),)))
    with pytest.raises(InvalidPlan, match="steps or barriers"):
        recheck(late)


def test_a_chosen_tile_must_keep_the_access() -> None:
    found = cached_plan(NAMED["one box"], H200)
    access = found.derivation[-1].access
    other = Access(access.word, (access.modes[0]._replace(extent=access.modes[0].extent + 1), *access.modes[1:]))
    with pytest.raises(InvalidPlan, match="does not lead"):
        recheck(replace(found, access=other, derivation=(*found.derivation[:-1], Step("choose_tile", other))))
    with pytest.raises(InvalidPlan, match="derivation ends"):
        recheck(replace(found, derivation=()))


@pytest.mark.parametrize("name", NAMED)
def test_a_plan_goes_to_a_file_and_back(name: str, tmp_path: Path) -> None:
    found = cached_plan(NAMED[name], H200)
    found.save(tmp_path / "plan.json")
    assert MovementPlan.load(tmp_path / "plan.json") == found


JUNK: st.SearchStrategy[Any] = st.sampled_from(
    (None, True, -1, 0, 1, 7, 2**64, 1.5, float("nan"), "", "none", "128B", [], [1], {}, [[]])
)


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_a_garbled_file_is_an_invalid_plan_or_one_that_still_works(data: Any) -> None:
    found = cached_plan(STRAIGHT, H200)
    garbled = json.loads(json.dumps(found.to_json()))
    at = garbled
    while True:
        keys = sorted(at) if isinstance(at, dict) else list(range(len(at)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(at[key], dict | list) or not at[key] or data.draw(st.integers(0, 4)) == 0:
            break
        at = at[key]
    if data.draw(st.booleans()) and isinstance(at, dict):
        del at[key]
    else:
        at[key] = data.draw(JUNK)
    try:
        loaded = from_json(garbled)
        recheck(loaded)
    except InvalidPlan as refusal:
        assert str(refusal)
    else:
        run(loaded)


def test_what_is_no_plan_file_is_said_to_be_none(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    with pytest.raises(InvalidPlan, match="is no plan"):
        MovementPlan.load(path)
    for text in ("", "[]", "{}", "null", '{"version": 99}', "\0"):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(InvalidPlan):
            MovementPlan.load(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidPlan):
        MovementPlan.load(path)


PRINTER = """
import json, legalsat as ls
for x in (ls.Tensor((96, 4095), "bf16", (4096, 1)), ls.Transpose(ls.Tensor((96, 160), "fp32"))):
    print(json.dumps(ls.synthesize(x, "h200").to_json()))
"""


def test_plans_do_not_depend_on_the_process() -> None:
    texts = set()
    for seed in ("1", "4242"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-c", PRINTER], env=environment, capture_output=True, text=True, check=True
        )
        texts.add(done.stdout)
    assert len(texts) == 1


def test_best_candidate_comes_first() -> None:
    for operator in NAMED.values():
        found = cached_plan(operator, H200)
        costs = [one.cost.nanoseconds for one in found.candidates]
        assert costs == sorted(costs)
        assert found.candidates[0].cost == found.cost and found.candidates[0].access == found.access


def test_a_solver_out_of_time_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """If every candidate runs out of time that is no refusal; if some do, the others still make a plan."""
    from legalsat.extract.search import by_boxes  # noqa: PLC0415 - patched here alone

    solve, calls = by_boxes.solve, iter(range(1000))

    def slow(late: Callable[[int], bool]) -> Callable[..., Any]:
        def attempt(*arguments: Any, **options: Any) -> Any:
            if late(next(calls)):
                raise SolverGaveUp("no answer within 0 ms; give it longer")
            return solve(*arguments, **options)

        return attempt

    operator = Copy(T((128, 256), "bf16"))
    monkeypatch.setattr(by_boxes, "solve", slow(lambda call: True))
    with pytest.raises(SolverGaveUp):
        plan(operator, H200, Limits(means=BOXES))
    monkeypatch.setattr(by_boxes, "solve", slow(lambda call: call % 2 == 0))
    assert plan(operator, H200, Limits(means=BOXES)).candidates
