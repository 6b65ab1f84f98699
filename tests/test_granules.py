"""Movements by granules: plans that are rechecked, and programs that an interpreter runs, against numpy."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from relayout_on_host import Side, compiled, faults

import legalsat as ls
from bench.kernels.moved import memory_of, moved
from legalsat.backends import program
from legalsat.extract.check.recheck import recheck
from legalsat.extract.cost.cost import among_others
from legalsat.extract.kernels.movement_pipeline import granules_pipeline
from legalsat.extract.kernels.product_maps import source_maps
from legalsat.extract.moved.granules import run_plan
from legalsat.operators import Move
from legalsat.plans.movement_plan import from_json
from legalsat.program.leaves import ShiftRows, TurnTile
from legalsat.program.pipeline import Commit, WaitGroup, Write
from legalsat.tensor import plain

SEED, COUNT = 20261124, 120
EXTENTS = (1, 2, 3, 5, 8, 9, 16, 17, 33, 64, 65, 100, 129, 257)


def drawn(r: random.Random) -> Move:
    """Return a movement of a few thousand elements: any axes, pitches and addresses, perhaps padded."""
    name, rank = r.choice(("u8", "bf16", "fp32", "fp64", "e4m3")), r.randint(1, 4)
    shape = [r.choice(EXTENTS) for _ in range(rank)]
    while np.prod(shape) > 5000:
        at = shape.index(max(shape))
        shape[at] = max(1, shape[at] // 2)
    source = _tensor(r, shape, name, r.sample(range(rank), rank))
    if r.random() < 0.25:
        padding = [(r.choice((0, 0, 1, 3)), r.choice((0, 0, 1, 9))) for _ in shape]
        return ls.Pad(source, padding, 0 if name == "e4m3" else r.choice((0, 1)))
    if r.random() < 0.3:
        order = r.sample(range(rank), rank)
        return ls.Transpose(source, order, _tensor(r, [shape[axis] for axis in order], name, range(rank)))
    return ls.Copy(source, _tensor(r, shape, name, r.sample(range(rank), rank)))


def _tensor(r: random.Random, shape: list[int], name: str, order: Any) -> ls.Tensor:
    strides, step = [0] * len(shape), 1
    for axis in reversed(list(order)):
        strides[axis] = step
        step = step * shape[axis] + r.choice((0, 0, 0, 1, 4))
    size = ls.Tensor((1,), name).dtype.bytes
    align = r.choice((size, 16, 16, 256))
    offset = r.choice((0, 0, size * r.randrange(max(1, align // size)))) % align
    return ls.Tensor(shape, name, strides, align=align, offset=offset)


def by_granules(operator: Move) -> ls.MovementPlan:
    return ls.synthesize(operator, "h200", means=("granules",))


def test_programs_move_every_byte_to_its_place_and_no_other() -> None:
    r, kinds = random.Random(SEED), set[tuple[object, ...]]()
    ran = 0
    while ran < COUNT:
        operator = drawn(r)
        try:
            plan = by_granules(operator)
        except ls.NoLegalLayout as refused:  # of what it pads, a movement may not make another axis the fastest
            assert {one.code for one in refused.diagnostics} <= {"GRAN002", "VEC002"}, refused
            continue
        ran += 1
        assert plan.granules is not None
        kernel = plan.granules.kernel
        kinds.add((type(kernel), *(getattr(kernel, name, None) for name in ("fills", "joins", "straddles", "skewed"))))
        source, target = memory_of(operator.source, ran), memory_of(operator.target)
        assert np.array_equal(run_plan(plan, source, target), moved(operator, source, target)), operator
        assert ls.check_pipeline(plan).proven
        assert from_json(json.loads(json.dumps(plan.to_json()))) == plan
    assert len(kinds) >= 8, "rows and tiles, of every kind"


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")
def test_texts_move_what_programs_do(tmp_path: Path) -> None:
    """On a host, thread by thread, at the addresses that plans take and at others that their kernels take."""
    r, rng, plans = random.Random(SEED + 1), np.random.default_rng(SEED), list[ls.MovementPlan]()
    while len(plans) < 30:
        try:
            plans.append(by_granules(drawn(r)))
        except ls.NoLegalLayout:
            continue
    bound = [plan.granules for plan in plans if plan.granules is not None]
    library = compiled((one.kernel for one in bound), tmp_path)
    for plan, granules in zip(plans, bound, strict=True):
        ends = (plan.operator.source, plan.operator.target)
        size = ends[0].dtype.bytes
        late = [r.randrange(256 // align) * align for align in (granules.source_align, granules.target_align)]
        source, target = (
            Side(size, plain(end.shape), plain(end.strides), offset, rng)
            for end, offset in zip(ends, r.choice((late, [end.address % 256 for end in ends])), strict=True)
        )
        bits = source.bytes_of(source.memory).copy().view(f"u{size}")[..., 0]
        expected = np.ascontiguousarray(plan.operator.meaning(bits))[..., None].view(np.uint8)
        assert not faults(library, granules, source, target, expected), plan.operator


def _without(plan: ls.MovementPlan, gone: type) -> ls.MovementPlan:
    (role,) = plan.pipeline.roles
    body = tuple(op for op in role.body if not isinstance(op, gone))
    return replace(plan, pipeline=replace(plan.pipeline, roles=(replace(role, body=body),)))


ODD = ls.Transpose(ls.Tensor((70, 131), "bf16"))
TABLED = ls.Transpose(ls.Tensor((3, 40, 65), "bf16"), (2, 1, 0))


@pytest.mark.parametrize("gone", [WaitGroup, Commit])
def test_a_program_that_does_not_wait_moves_junk_and_is_not_proven(gone: type) -> None:
    plan = _without(by_granules(ODD), gone)
    source, target = memory_of(ODD.source, 1), memory_of(ODD.target)
    assert not np.array_equal(run_plan(plan, source, target), moved(ODD, source, target))
    assert not ls.check_pipeline(plan.pipeline, "h200").proven
    with pytest.raises(ls.LegalSatError, match="steps"):
        recheck(plan)


def test_a_table_is_written_where_rows_begin_at_no_pattern() -> None:
    plan = by_granules(TABLED)
    assert plan.granules is not None and isinstance(plan.granules.kernel, TurnTile)
    assert plan.granules.kernel.tabled and any(isinstance(op, Write) for op in plan.pipeline.roles[0].body)
    assert [ring.bytes for ring in plan.pipeline.buffers] == [tile.bytes for tile in plan.shared]


def test_a_changed_kernel_is_refused() -> None:
    plan = by_granules(ODD)
    granules = plan.granules
    assert granules is not None and isinstance(granules.kernel, TurnTile)
    recheck(plan)
    wider = replace(granules.kernel, tile_j=2 * granules.kernel.tile_j)
    first, *rest = granules.numbers
    for other in (
        replace(granules, blocks=granules.blocks - 1),
        replace(granules, numbers=(first + 1, *rest)),
        replace(granules, source_align=1),
        replace(granules, kernel=wider),
    ):
        with pytest.raises(ls.LegalSatError, match="kernel or its numbers"):
            recheck(replace(plan, granules=other))
    with pytest.raises(ls.LegalSatError, match="steps"):
        recheck(replace(plan, pipeline=granules_pipeline(wider)))
    with pytest.raises(ls.LegalSatError, match="launch"):
        recheck(replace(plan, launch=replace(plan.launch, programs=plan.launch.programs + 1)))
    threads = ls.synthesize(ODD, "h200", means=("threads",))
    with pytest.raises(ls.LegalSatError, match="kernel for granules"):
        recheck(replace(threads, granules=granules))


AXES = [4**n for n in (7, 5, 3, 1, 6, 4, 2, 0)]  # none of which goes on on both sides


@pytest.mark.parametrize(
    ("operator", "target", "code"),
    [
        (ls.Copy(ls.Tensor((64, 63), "bf16"), tile=(8, 63)), "h200", "GRAN001"),
        (ls.Copy(ls.Tensor((64, 63), "bf16"), consumer="threads"), "h200", "GRAN001"),
        (ls.Im2col(ls.Tensor((1, 9, 7, 8), "bf16"), 3), "h200", "GRAN001"),
        (ls.Copy(ls.Tensor((3,) * 8, "u8"), ls.Tensor((3,) * 8, "u8", AXES)), "h200", "GRAN002"),
        (ls.Copy(ls.Tensor((2**23, 2**20), "u8", (2**20 + 1, 1))), "h200", "GRAN002"),
        (ls.Copy(ls.Tensor((64, 63), "bf16")), "mi300x", "UNIT003"),
        (ls.Copy(ls.Tensor((64, 64), "bf16"), ls.Tensor((64, 64), "bf16", (1, 1))), "h200", "VEC005"),
        (ls.Transpose(ls.Tensor((64, 64), "i4")), "h200", "WORD001"),
        (ls.Copy(ls.Tensor((64, 64), "fp32", offset=2)), "h200", "VEC002"),
    ],
)  # fmt: skip
def test_what_no_kernel_moves_is_refused_by_a_rule(operator: Move, target: str, code: str) -> None:
    with pytest.raises(ls.NoLegalLayout) as refused:
        ls.synthesize(operator, target, means=("granules",))
    assert code in {one.code for one in refused.value.diagnostics}


def test_granules_are_considered_where_they_are_named_alone() -> None:
    """Of movements at large the cheapest other means is taken: one backend prints granules."""
    assert ls.synthesize(ODD, "h200").access.by != "granules"
    wide = ls.Transpose(ls.Tensor((8191, 8193), "bf16"))
    assert ls.synthesize(wide, "h200", means=("threads", "granules")).access.by == "granules"


def test_backends_without_a_row_say_so() -> None:
    plan = by_granules(ODD)
    with pytest.raises(ls.LegalSatError, match="no row for AwaitGrid in a movement's program, and cute has one"):
        plan.emit("triton")
    rows = by_granules(ls.Copy(ls.Tensor((70, 131), "bf16"), ls.Tensor((70, 131), "bf16", (136, 1))))
    assert rows.granules is not None and isinstance(rows.granules.kernel, ShiftRows)
    with pytest.raises(ls.LegalSatError, match="and cute has one"):
        program(rows, "triton")
    for one in (plan, rows):
        text = one.emit("cute")
        assert one.granules is not None and one.granules.kernel.entry in text and "nvcc" in text
        assert program(one).builder.endswith("movement_program")


PRODUCTS = {
    "one operand": ls.Gemm(512, 384, 1023, "bf16"),
    "a weight": ls.Gemm(72, 384, 1023, "bf16", constant_b=True),
    "single bytes": ls.Gemm(256, 384, 1001, "e4m3", out_dtype="bf16"),
    "b along n": ls.Gemm(300, 385, 640, "bf16", b=ls.Tensor((385, 640), "bf16", (1, 385))),
    "a late operand": ls.Gemm(128, 384, 1023, "fp16", b=ls.Tensor((384, 1023), "fp16", align=16, offset=6)),
}


def behind_relayouts(gemm: ls.Gemm) -> ls.GemmPlan:
    """The plan of a product's cheapest kernel that has something in front."""
    plan = ls.synthesize(gemm, "h200")
    kernel = next(one.kernel for one in plan.candidates if one.kernel and set(one.kernel.relayouts) != {"none"})
    return replace(plan, kernel=kernel)


@pytest.mark.parametrize("name", PRODUCTS)
def test_what_runs_in_front_of_a_product_is_a_plan(name: str) -> None:
    """It moves the operand to where the kernel's map has it, is counted in the cost, and is what is launched."""
    plan = behind_relayouts(PRODUCTS[name])
    made = program(plan, "cute")
    assert plan.before and plan.kernel is not None
    assert [one.operand for one in plan.before] == [
        side.lower() for side, first in zip(plan.kernel.operands, plan.kernel.relayouts, strict=True) if first != "none"
    ]
    for one, launched in zip(plan.before, made.before, strict=True):
        recheck(one.plan)
        operator = one.plan.operator
        assert operator.source == getattr(PRODUCTS[name], one.operand)
        source, target = memory_of(operator.source, 3), memory_of(operator.target)
        assert np.array_equal(run_plan(one.plan, source, target), moved(operator, source, target))
        assert (launched.operand, launched.constant) == (one.operand, one.constant)
        alone = program(one.plan, "cute")
        assert replace(alone, recipes=launched.program.recipes) == launched.program
        (placed,) = source_maps(plan.operator, plan.kernel)[plan.kernel.operands.index(one.operand.upper())]
        pitch = max(plain(operator.target.strides)) * operator.target.dtype.bytes
        assert placed.map.global_stride == (pitch,) and placed.map.address % operator.target.align == 0
    each = [
        among_others(one.plan.cost.nanoseconds, exchanged=one.exchanged, beside=number > 0)
        for number, one in enumerate(one for one in plan.before if not one.constant)
    ]
    # Each is rounded twice.
    assert plan.cost.relayouts == pytest.approx(sum(each), abs=0.2 * len(each))
    assert "in front" in str(plan) and all(one.plan.granules.entry in str(plan) for one in plan.before)  # type: ignore[union-attr]


def test_plans_of_products_are_saved_with_what_runs_in_front(tmp_path: Path) -> None:
    plan = behind_relayouts(PRODUCTS["a weight"])
    file = tmp_path / "plan.json"
    plan.save(file)
    assert ls.GemmPlan.load(file) == plan
    data = json.loads(file.read_text())
    (first,) = data["before"]
    first["plan"]["granules"]["blocks"] += 1
    file.write_text(json.dumps(data))
    with pytest.raises(ls.LegalSatError, match="before is not what the kernel implies"):
        ls.GemmPlan.load(file)
