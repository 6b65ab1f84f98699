"""Which copies a plan says that its kernel issues: together they bring every byte once, as the copy engine does."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path

import numpy as np
import pytest

import legalsat as ls
from bench.gpu.copies import random_pad
from bench.moved import places
from bench.random_problems import problem
from legalsat.extract.kernels.issued import Issued, issued, operand_of
from legalsat.plans.plan import Plan

T = ls.Tensor
MOST = 2**15  # bytes of a tensor whose copies are all made here


def plans() -> list[Plan]:
    rng, found = random.Random(5), list[Plan]()
    named = [
        ls.synthesize(T((128, 200), "bf16"), "h200", tile=(64, 128), consumer="wgmma.a"),
        ls.synthesize(ls.Copy(T((24, 131), "bf16"), tile=(16, 64)), "h200", means=("tma.phases",)),
        ls.synthesize(T((2, 3, 40, 64), "bf16"), "h200", tile=(1, 1, 16, 64)),
    ]
    for _ in range(250):
        operator = random_pad(rng) if rng.random() < 0.3 else problem(rng).operator
        if operator.source.span_bits > 8 * MOST:
            continue
        try:
            plan = ls.synthesize(operator, "h200", means=(rng.choice(("tma", "tma.phases")),))
        except ls.LegalSatError:
            continue
        found.append(plan)
    assert len(found) > 20
    return named + found


def every(one: Issued) -> list[dict[str, int]]:
    """All values of the names of a copy."""
    names = [*one.tiles, *one.boxes]
    return [
        dict(zip((name for name, _ in names), values, strict=True))
        for values in itertools.product(*(range(count) for _, count in names))
    ]


def brought(plan: Plan, one: Issued) -> tuple[np.ndarray, int]:
    """How often each byte of global memory is copied, by the model of the copy engine, and the shared bytes used."""
    side = plan.operator.source if one.kind == "load" else plan.operator.target
    tm = plan.tensor_maps[one.map]
    offset = plan.phases[one.map].offset if plan.phases and one.kind == "load" else 0
    found = np.zeros(-(-side.span_bits // 8) + 2**12, np.int64)
    end = 0
    for numbers in every(one):
        image = ls.smem_image(tm, tuple(c.value(numbers) for c in one.coordinates))
        seen = np.unique(image[image >= 0]) + offset
        seen = seen[(seen >= 0) & (seen < len(found))]
        found[seen] += 1
        end = max(end, one.place.value(numbers) + one.bytes)
    return found, end


def test_all_copies_together_bring_every_byte_once() -> None:
    for plan in plans():
        copies = issued(plan)
        assert copies, plan.operator
        for kind, side in (("load", plan.operator.source), ("store", plan.operator.target)):
            ours = [one for one in copies if one.kind == kind]
            if not ours:
                continue
            counts = [brought(plan, one) for one in ours]
            total = np.sum([found for found, _ in counts], axis=0)
            if side.dtype.bits % 8:
                continue
            at = np.unique(places(side)) * (side.dtype.bits // 8)
            if not plan.phases:
                assert (total[at] == 1).all(), (plan.operator, kind)
            else:  # maps of phases see the ends of their neighbours' rows too
                assert (total[at] >= 1).all(), (plan.operator, kind)
            rings = {ring.name: ring.bytes for ring in plan.pipeline.buffers}
            assert all(end <= rings[one.buffer] for one, (_, end) in zip(ours, counts, strict=True))


def test_boxes_of_a_tile_lie_side_by_side() -> None:
    plan = ls.synthesize(T((2, 8, 4096, 128), "bf16"), "h200", tile=(1, 1, 128, 128), consumer="wgmma.a")
    load = issued(plan)[0]
    assert [str(one) for one in load.coordinates] == ["64 i", "128 n1"]
    assert str(load.place) == "16384 i"
    assert load.tiles == (("n1", 512),)
    line = "load by map 0 for n1 < 512, i < 2: 16384 bytes at {64 i, 128 n1}, source + 16384 i"
    assert line in str(plan)
    for backend in ("host", "host-python", "cute"):
        assert line in plan.emit(backend)
    assert plan.to_json()["issued"][0] == load.to_json()


@pytest.mark.parametrize(
    ("tile", "consumer"), [((128, 64), "wgmma.a"), ((256, 64), "wgmma.b"), ((128, 128), "wgmma.a")]
)
def test_steps_of_a_descriptor_are_those_of_the_instruction(tile: tuple[int, int], consumer: str) -> None:
    """32 bytes along K a step, in the next box after each 128 bytes; 64 rows of A a block, of 128 bytes each."""
    plan = ls.synthesize(T((4096, 4096), "bf16"), "h200", tile=tile, consumer=consumer)  # type: ignore[call-overload]
    operand = operand_of(plan)
    assert operand is not None
    boxes = tile[0] * 128
    steps = [step % 4 * 32 + step // 4 * boxes for step in range(tile[1] // 16)]
    rows = 64 if consumer == "wgmma.a" else tile[0]
    assert operand.offsets == tuple(tuple(block * rows * 128 + s for s in steps) for block in range(tile[0] // rows))
    assert f"descriptor: {operand.descriptor.word:#018x} + (address >> 4)" in str(plan)


def test_plans_without_boxes_say_nothing(tmp_path: Path) -> None:
    plan = ls.synthesize(T((4096, 4095), "bf16"), "h200", tile=(128, 64))
    assert plan.access.by == "threads"
    assert issued(plan) == []
    assert "coordinates" not in str(plan)
    plan.save(tmp_path / "plan.json")
    assert json.loads((tmp_path / "plan.json").read_text())["issued"] == []
    assert ls.Plan.load(tmp_path / "plan.json") == plan
