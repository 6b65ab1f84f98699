"""Plans that end in shared memory, where somebody else's kernel reads the tiles; and tiles that are chosen for one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from execute import execute

import legalsat as ls
from bench.kernels.moved import memory_of, moved
from legalsat.extract.check.recheck import recheck
from legalsat.operators.operator import Move
from legalsat.plans.codec import InvalidPlan
from legalsat.program.pipeline import Read, Store, Vectors, Write, walk

T = ls.Tensor
BF16 = T((4096, 4096), "bf16")
MEANS = ("tma", "bulk", "cp.async", "threads")


@pytest.mark.parametrize("means", MEANS)
@pytest.mark.parametrize("consumer", [None, "threads", "wgmma.a", "wgmma.b"])
def test_nothing_is_stored(means: Any, consumer: Any, tmp_path: Path) -> None:
    tile = (64, 8) if means == "bulk" and consumer not in (None, "threads") else (64, 64)
    stored = ls.synthesize(BF16, "h200", tile=tile, consumer=consumer, means=(means,))
    plan = ls.synthesize(BF16, "h200", tile=tile, consumer=consumer, into="shared", means=(means,))
    assert plan.operator.consumer == (consumer or "threads")
    assert plan.store == "none"
    assert len(plan.tensor_maps) == (means == "tma")
    assert [copy.side for copy in plan.copies] == ([] if means == "tma" else ["source"])
    operations = [op for role in plan.pipeline.roles for op in walk(role.body)]
    assert sum(isinstance(op, Read) for op in operations) >= 1
    assert not [op for op in operations if isinstance(op, Store) or (isinstance(op, Vectors) and op.side == "target")]
    assert (means == "threads") == any(isinstance(op, Write) for op in operations)
    assert plan.cost.global_bytes == 4096 * 4096 * 2 == stored.cost.global_bytes // 2
    assert plan.cost.nanoseconds <= stored.cost.nanoseconds
    assert ls.check_pipeline(plan).proven
    assert "target stride" not in str(plan)
    assert " written" not in str(plan)
    plan.save(tmp_path / "plan.json")
    assert ls.Plan.load(tmp_path / "plan.json") == plan
    for changed in (replace(plan, store="threads"), replace(plan, operator=stored.operator)):
        with pytest.raises(InvalidPlan):
            recheck(changed)


def test_hosts_print_them_and_kernels_do_not() -> None:
    plan = ls.synthesize(BF16, "h200", tile=(128, 64), consumer="wgmma.b", into="shared")
    for host in ("host", "host-python"):
        text = plan.emit(host)
        assert "encode_source_map" in text
        assert "encode_target_map" not in text
        assert "at {64 n1, 128 n0}" in text
    for kernel in ("cute", "triton"):
        with pytest.raises(ls.LegalSatError, match="ends in shared memory"):
            plan.emit(kernel)
        with pytest.raises(ls.LegalSatError, match="ends in shared memory"):
            plan.compile(kernel)


def test_rules_of_stores_say_nothing() -> None:
    """Rows of 4095 in a pitch of 4096: loads stop at the end, a store would write the element behind it."""
    rows = T((4096, 4095), "bf16", (4096, 1))
    assert ls.synthesize(ls.Copy(rows, rows, tile=(128, 64)), "h200").store == "threads"
    assert ls.synthesize(rows, "h200", tile=(128, 64), into="shared").tensor_maps[0].global_dim == (4095, 4096)
    width = T((4096, ls.Dim("K", max=4096)), "bf16", (4096, 1))
    for into, legal in (("shared", True), ("global", False)):
        copy = ls.Copy(width, None if into == "shared" else width, tile=(128, 64), into=into)  # type: ignore[arg-type]
        region = ls.legal_region(copy, "h200")
        assert region.holds(K=4096)
        # A store by map wants whole granules; what threads store the plan of the region does not ask.
        assert region.holds(K=4095) in (legal, region.plan is not None and region.plan.store == "threads")


def test_what_has_no_meaning_is_refused() -> None:
    other = T((4096, 4096), "bf16", (1, 4096))
    with pytest.raises(ls.InvalidInput, match="leave out the target"):
        ls.Copy(BF16, other, into="shared")
    with pytest.raises(ls.InvalidInput, match="into"):
        ls.Copy(BF16, into="registers")  # type: ignore[arg-type]
    with pytest.raises(ls.InvalidInput, match="belong to the operator"):
        ls.synthesize(ls.Transpose(BF16), "h200", into="shared")
    with pytest.raises(ls.InvalidInput, match="leave out tile"):
        ls.synthesize(ls.Gemm(64, 64, 64, "bf16"), "h200", into="shared")
    with pytest.raises(ls.InvalidInput, match="2 different names"):
        ls.Copy(BF16, axes=("m", "m"))
    with pytest.raises(ls.InvalidInput, match="letters"):
        ls.Copy(BF16, axes=("m", "k; drop"))
    with pytest.raises(ls.NoLegalLayout):
        ls.synthesize(BF16, "h200", tile=(64, 64), consumer="wgmma.a", into="shared", means=("fragments",))


@pytest.mark.parametrize("consumer", ["wgmma.a", "wgmma.b", "tcgen05.a", "tcgen05.b"])
@pytest.mark.parametrize(
    "source",
    [
        BF16,
        T((4096, 4096), "bf16", (1, 4096)),
        T((4096, 4095), "bf16"),
        T((8, 56, 56, 64), "bf16"),
        T((2, 16, 512, 96), "fp16"),
        T((300, 48), "e4m3"),
        T((ls.Dim("M"), ls.Dim("K")), "bf16"),
    ],
    ids=str,
)
def test_a_matrix_unit_has_a_tile_chosen(source: ls.Tensor, consumer: Any) -> None:
    gpu = "h200" if consumer.startswith("wgmma") else "b200"
    plan = ls.synthesize(source, gpu, consumer=consumer, into="shared")
    assert plan.operator.tile is not None
    *rows, depth = plan.operator.tile
    count = 1
    for row in rows:
        count *= row
    assert count % (64 if consumer.endswith("a") else 8) == 0
    assert depth * source.dtype.bits % 256 == 0  # whole instructions
    assert plan.mma is not None
    assert plan.mma.unit == consumer.partition(".")[0]
    operand = plan.mma.a if consumer.endswith("a") else plan.mma.b
    assert operand is not None
    assert len(operand.offsets) * operand.block == count
    assert len(operand.offsets[0]) == depth * source.dtype.bits // 256
    assert ls.explain(source, gpu, consumer=consumer, into="shared").plan is not None


def test_tiles_that_nothing_reads_are_refused() -> None:
    """8 x 8 rows of a tensor whose last axis is not the fastest: two distances between groups of 8 rows."""
    images = T((8, 64, 56, 56), "bf16").transposed((0, 2, 3, 1))
    with pytest.raises(ls.NoLegalLayout) as refusal:
        ls.synthesize(images, "h200", tile=(1, 8, 8, 64), consumer="wgmma.a", into="shared", means=("tma",))
    assert "WGMMA012" in {one.code for one in refusal.value.diagnostics}
    plan: Any = ls.synthesize(images, "h200", tile=(1, 8, 8, 64), consumer="wgmma.a", into="shared")
    assert plan.before  # laid out anew, it is read
    assert plan.mma.a.major == "K"


def test_nobody_but_a_matrix_unit_has_an_mma() -> None:
    assert ls.synthesize(BF16, "h200", tile=(64, 64), into="shared").mma is None
    assert ls.synthesize(BF16, "h200").mma is None
    assert Move.into == "global"


@pytest.mark.parametrize("means", ["tma", "cp.async", "threads"])
@pytest.mark.parametrize(
    ("shape", "tile", "consumer"),
    [
        ((3, 16, 24, 64), (1, 8, 8, 64), "wgmma.a"),
        ((2, 10, 12, 64), (2, 4, 8, 64), "wgmma.b"),
        ((2, 12, 20, 32), (1, 4, 16, 32), "wgmma.a"),
    ],
)
def test_rows_of_several_axes_are_stored_where_they_belong(shape: Any, tile: Any, consumer: Any, means: Any) -> None:
    plan = ls.synthesize(ls.Copy(T(shape, "bf16"), tile=tile, consumer=consumer), "h200", means=(means,))
    source, target = memory_of(plan.operator.source, 1), memory_of(plan.operator.target)
    assert (execute(plan, source, target) == moved(plan.operator, source, target)).all()
    assert plan.mma is not None
