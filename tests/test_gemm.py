"""Products: a plan speaks of its kernel; operands of a block share a tile and a ring, and no tile is cheaper."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from legalsat.extract.blocks import planner
from legalsat.extract.blocks.epilogue import write_addresses
from legalsat.plans.block_plan import BlockPlan

import legalsat as ls
from legalsat.analyses.copy_engine import FILLED, UNTOUCHED, smem_image
from legalsat.analyses.matrix_layout import read_addresses
from legalsat.backends import program
from legalsat.extract.check.recheck import recheck
from legalsat.extract.kernels.product_kernels import product_kernels
from legalsat.rules import SHARED_RULES
from legalsat.runtime.program import MapsArgument
from legalsat.targets import target
from legalsat.tensor import plain
from legalsat.terms.products import words
from legalsat.units.matrix_descriptor import MatrixDescriptor, MatrixOperand
from legalsat.units.sites import SharedStages

T = ls.Tensor
EXTENTS = st.sampled_from((1, 8, 64, 100, 129, 512, 588, 1000, 4095, 4096))


@settings(deadline=None, max_examples=3)
@given(EXTENTS, EXTENTS, EXTENTS, st.sampled_from(("bf16", "i8")), st.sampled_from(("b200", "a100")))
def test_no_tile_of_the_table_is_cheaper(m: int, n: int, k: int, dtype: str, name: str) -> None:
    product, gpu = ls.Gemm(m, n, k, dtype), target(name)
    costs = []
    for tile in planner._tiles(product, gpu):
        try:
            found = planner._planned(product, tile, gpu)
        except ls.NoLegalLayout:
            continue
        for solved in found:
            assert planner._bound(product, tile, gpu) <= solved.candidate.cost.nanoseconds
            costs.append(solved.candidate.cost.nanoseconds)
    if not costs:
        with pytest.raises(ls.NoLegalLayout):
            ls.synthesize(product, name)
        return
    plan = block_of(product, name)
    assert plan.cost.nanoseconds == min(costs)
    check(plan)


def block_of(product: ls.Gemm, name: str) -> BlockPlan:
    plan = ls.synthesize(product, name)
    assert plan.kernel is None and plan.tiled is not None
    return plan.tiled


def check(plan: BlockPlan) -> None:
    """Check that the operands fit together: tiles, stages, shared memory."""
    rows, columns, depth = plan.tile
    assert plan.a.operator.tile == (rows, depth)
    assert plan.b.operator.tile == (columns, depth)
    assert plan.c.operator.tile == (rows, columns)
    ring = sum(one.shared[0].bytes for one in (plan.a, plan.b) if one.shared)
    assert plan.stages >= 2
    barriers = 8 * plan.stages
    if plan.epilogue is None:
        result = plan.stages * ring + plan.c.shared[0].bytes if plan.c.shared else 0
    else:
        row = columns * plan.operator.out_dtype.bits // 8
        padded = rows * (max(row, plan.epilogue.pitch) if plan.epilogue.store == "threads" else row)
        result = max(plan.stages * ring, padded) if plan.epilogue.overlays else plan.stages * ring + padded
    assert plan.cost.shared_bytes == result + barriers
    site = SharedStages(plan.stages, ring, plan.cost.shared_bytes - plan.stages * ring)
    assert not [d for rule in SHARED_RULES for d in rule.check(site, plan.target)]
    assert plan.blocks * (plan.cost.shared_bytes + 2 * 1024) <= plan.target.shared_bytes_per_processor
    if plan.mma is not None:
        assert plan.blocks * plan.mma.allocated <= 512
    for one in (plan.a, plan.b, plan.c):
        recheck(one)
    assert json.loads(json.dumps(plan.to_json()))["tile"] == list(plan.tile)


def test_an_odd_depth_costs_relayouts_and_a_constant_operand_none() -> None:
    legal, odd = (ls.synthesize(ls.Gemm(4096, 4096, k, "bf16"), "h200") for k in (4096, 4095))
    weights = ls.synthesize(ls.Gemm(4096, 4096, 4095, "bf16", constant_b=True), "h200")
    assert not legal.cost.relayouts
    # The kernel shifts A, so that only B is laid out anew, rows of 4095 in a pitch of 8192 bytes or columns of 4096.
    assert odd.kernel is not None and sum(one != "none" for one in odd.kernel.relayouts) == 1
    assert odd.cost.padding_bytes in {4096 * 4096 * 2, 4095 * 4096 * 2}
    assert 0 == weights.cost.relayouts < odd.cost.relayouts
    assert weights.cost.nanoseconds < odd.cost.nanoseconds and legal.cost.nanoseconds < odd.cost.nanoseconds


def test_a_block_of_an_odd_depth_costs_relayouts_and_a_constant_operand_none() -> None:
    legal, odd = (block_of(ls.Gemm(4096, 4096, k, "bf16"), "b200") for k in (4096, 4095))
    weights = block_of(ls.Gemm(4096, 4096, 4095, "bf16", constant_b=True), "b200")
    assert not legal.cost.relayouts and not legal.a.before
    assert odd.a.before and odd.b.before and odd.cost.relayouts > 0
    assert odd.cost.padding_bytes == 2 * (4096 * 4096 - 1) * 2
    assert 0 < weights.cost.relayouts < odd.cost.relayouts
    assert legal.cost.nanoseconds < weights.cost.nanoseconds < odd.cost.nanoseconds


@pytest.mark.parametrize("extent", [(4096, 4096, 4096), (777, 4096, 4095), (64, 64, 8192), (100, 60, 40)])
def test_a_plan_speaks_of_the_kernel_that_is_launched(extent: tuple[int, int, int]) -> None:
    """Its maps, grid and costs are the launch's and the search's, and its program has the kernel's stages and bytes."""
    product = ls.Gemm(*extent, "bf16")
    plan = ls.synthesize(product, "h200")
    (time, kernel), launched = product_kernels(product, target("h200"), 1)[0], program(plan).recipes[0]
    assert plan.kernel == kernel and plan.cost.nanoseconds == time == plan.candidates[0].cost.nanoseconds
    assert plan.launch.warps * 32 == launched.threads and plan.launch.programs in {0, launched.grid[0]}
    maps = [one.map for argument in launched.arguments if isinstance(argument, MapsArgument) for one in argument.maps]
    assert list(plan.tensor_maps) == maps[: len(plan.tensor_maps)]
    rings = {ring.name: ring for ring in plan.pipeline.barriers}
    assert rings["full"].stages == rings["empty"].stages == plan.stages == kernel.stages
    assert rings["full"].transaction_bytes == sum(kernel.loaded) * plan.tile[2] * 2
    shared = sum(ring.stages * ring.bytes for ring in plan.pipeline.buffers) + 16 * plan.stages
    assert shared == plan.cost.shared_bytes <= 227 * 1024
    assert str(kernel.stages) in str(plan) and ls.check_pipeline(plan).proven


@pytest.mark.parametrize(
    ("product", "laws", "term"),
    [
        (
            ls.Gemm(2048, 2048, 2048, "bf16"),
            "store_by_boxes multiply_whole as_it_lies as_it_lies",
            "boxes(multiply(A, B))",
        ),
        (
            ls.Gemm(777, 4096, 4096, "bf16"),
            "transpose_product store_transposed store_turned multiply_whole",
            "turned(multiply(B, A))",
        ),
        (
            ls.Gemm(4096, 4096, 512, "bf16", c=T((4096, 4096), "bf16", (1, 4096))),
            "transpose_product store_transposed",
            "(multiply(B, A))",
        ),
        (
            ls.Gemm(512, 512, 512, "e4m3", b=T((512, 512), "e4m3", (1, 512)), out_dtype="bf16"),
            "multiply_whole transpose_first",
            "transpose(B)",
        ),
        (ls.Gemm(4096, 4096, 4095, "bf16"), "shift_k", "boxes(shift(A, transpose(B)))"),
        (ls.Gemm(64, 64, 4096, "bf16"), "store_by_accumulators split_k", "joined(ways, multiply("),
        (ls.Gemm(512, 512, 16384, "bf16"), "slice_k multiply_whole", "sliced(ways, multiply("),
    ],
    ids=str,
)
def test_the_derivation_of_a_product_leads_to_its_kernel(product: ls.Gemm, laws: str, term: str) -> None:
    plan = ls.synthesize(product, "h200")
    said = [step.law for step in plan.derivation]
    assert set(laws.split()) <= set(said)
    assert term in words(plan.derivation[-1].term)
    text, data = str(plan), plan.to_json()["derivation"]
    assert [step["law"] for step in data] == said and all(step["term"] in text for step in data)
    explained = ls.explain(product, "h200")
    assert explained.to_json()["derivation"] == said
    assert f"derivation: {', '.join(said)}" in " ".join(str(explained).split())
    kernel = plan.kernel
    assert kernel is not None
    assert ("transpose_product" in said) == kernel.swapped and ("split_k" in said) == (kernel.split > 1)
    assert ("slice_k" in said) == (kernel.slices > 1)
    in_front = ("pad_first", "transpose_first", "collect_first")
    assert sum(map(said.count, in_front)) == sum(one != "none" for one in kernel.relayouts)


def test_tensors_of_a_product_may_have_layouts_of_their_own() -> None:
    pitched = T((512, 500), "bf16", (512, 1))
    product = ls.Gemm(512, 256, 500, "bf16", a=pitched)
    block = block_of(product, "b200")
    assert block.a.access.by == "tma" and block.a.operator.source == pitched
    assert block.b.operator.source.strides == (500, 1)
    plan = ls.synthesize(product, "h200")
    assert plan.kernel is not None
    assert (1024,) in {one.global_stride for one in plan.tensor_maps}, "A is read as it lies, in C or in C^T"


def test_rows_further_apart_than_maps_reach_are_copied_first_and_stored_by_threads() -> None:
    far = 2**40  # bytes, of which strides of maps are less (TMA006)
    a, c = T((64, 72), "bf16", (far // 2, 1)), T((64, 64), "bf16", (far // 2, 1))
    plan = ls.synthesize(ls.Gemm(64, 64, 72, "bf16", a=a, c=c), "h200")
    assert plan.kernel is not None and not plan.kernel.by_boxes and [one.operand for one in plan.before] == ["a"]
    assert not any(ls.violations(one, "h200") for one in plan.tensor_maps)


def test_elements_at_no_multiple_of_their_size_are_refused_with_the_rule() -> None:
    with pytest.raises(ls.NoLegalLayout, match="operand A") as refused:
        ls.synthesize(ls.Gemm(64, 64, 64, "bf16", a=T((64, 64), "bf16", offset=1)), "h200")
    assert "TMA004" in {d.code for d in refused.value.diagnostics}


def test_what_is_no_product_is_refused() -> None:
    with pytest.raises(ls.InvalidInput, match="give at least 1"):
        ls.Gemm(0, 1, 1, "bf16")
    with pytest.raises(ls.InvalidInput, match="give a tensor of bf16"):
        ls.Gemm(4, 4, 4, "bf16", a=T((4, 5), "bf16"))
    with pytest.raises(ls.InvalidInput, match="chooses its tiles itself"):
        ls.synthesize(ls.Gemm(4, 4, 4, "bf16"), "h200", tile=(64, 64))
    with pytest.raises(ls.NoLegalLayout, match="PROD001"):
        ls.synthesize(ls.Gemm(64, 64, 64, "fp64"), "h200")
    assert "tiles of" in str(ls.synthesize(ls.Gemm(64, 64, 64, "bf16"), "h200"))


# What the matrix unit reads, byte by byte

SPANS = ("none", "32B", "64B", "128B")
MAJORS = st.sampled_from(("K", "MN"))


def stored(rows: int, depth: int, dtype: str, major: str) -> ls.Tensor:
    """Return an operand whose pitch no copy engine refuses."""
    per = 128 // ls.Tensor((1,), dtype).dtype.bits
    pitch = -(-(depth if major == "K" else rows) // per) * per
    return T((rows, depth), dtype, (pitch, 1) if major == "K" else (1, pitch))


def image(plan: ls.Plan, tile: tuple[int, int]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return for each shared byte of an operand's stage which byte of the tensor the boxes of a tile put there."""
    assert plan.access.by == "tma" and not plan.before
    tm, shared, operand = plan.tensor_maps[0], plan.shared[0], plan.operator
    assert operand.tile is not None
    fastest = 1 if operand.source.strides[1] == 1 else 0
    first = [tile[axis] * operand.tile[axis] for axis in (fastest, 1 - fastest)]
    assert tm.box[1] == operand.tile[1 - fastest], "boxes lie side by side along the fastest axis"
    found = np.full(shared.bytes, UNTOUCHED, dtype=np.int64)
    for box in range(shared.boxes):
        at, size = box * shared.bytes // shared.boxes, shared.bytes // shared.boxes
        # The model of the copy engine is Hopper's, which lacks Blackwell's atoms: these permute a plain tile here.
        own = tm.swizzle in SPANS
        put = smem_image(
            tm if own else replace(tm, swizzle="none"),
            (first[0] + box * tm.box[0], first[1]),
            base=at,
            shared_bytes=shared.bytes,
        )
        place = np.arange(at, at + size)
        found[place if own else ls.Swizzle.tma(str(tm.swizzle))(place)] = put[place]
    return found


def check_operand(plan: ls.Plan, operand: MatrixOperand, tile: tuple[int, int], k: int) -> None:
    """Check that every instruction reads the elements that it is to multiply, zeros where the tensor ends."""
    source, size = plan.operator.source, plan.operator.source.dtype.bytes
    assert plan.operator.tile is not None and plan.operator.consumer is not None
    shape, strides = plain(source.shape), plain(source.strides)
    rows, depth = plan.operator.tile
    brought = image(plan, tile)
    assert len(operand.offsets) * operand.block == rows and len(operand.offsets[0]) * k == depth
    for block, steps in enumerate(operand.offsets):
        for step, offset in enumerate(steps):
            word = MatrixDescriptor.from_word(plan.operator.consumer.split(".")[0], operand.word(block, step))
            assert word.start == offset
            read = read_addresses(word, operand.major, operand.block, k, source.dtype.bits)
            m = tile[0] * rows + block * operand.block + np.arange(operand.block)[:, None]
            along = tile[1] * depth + step * k + np.arange(k)[None, :]
            inside = (m < shape[0]) & (along < shape[1])
            wanted = np.where(inside, (m * strides[0] + along * strides[1]) * size, FILLED)
            for byte in range(size):
                assert np.array_equal(brought[read + byte], np.where(inside, wanted + byte, FILLED))


@settings(deadline=None, max_examples=12)
@given(
    st.sampled_from((40, 64, 130, 256, 300)),
    st.sampled_from((24, 64, 200, 512)),
    st.sampled_from((16, 64, 72, 136)),
    st.sampled_from(("bf16", "fp16", "tf32", "e4m3", "i8")),
    MAJORS,
    MAJORS,
)
def test_every_instruction_reads_what_it_is_to_multiply(  # noqa: PLR0917
    m: int, n: int, k: int, dtype: str, a: str, b: str
) -> None:
    """By tcgen05; what wgmma reads is what the interpreter multiplies (`test_interpreter`)."""
    product = ls.Gemm(m, n, k, dtype, a=stored(m, k, dtype, a), b=stored(n, k, dtype, b))
    block = block_of(product, "b200")
    assert block.mma is not None
    step = block.mma.shape[2]
    assert step * product.dtype.bits == 256
    for one, operand in ((block.a, block.mma.a), (block.b, block.mma.b)):
        assert operand is not None and not one.before and one.operator.tile is not None
        tiles = [-(-extent // t) for extent, t in zip(plain(one.operator.source.shape), one.operator.tile, strict=True)]
        for tile in ((0, 0), (tiles[0] - 1, tiles[1] - 1)):
            check_operand(one, operand, tile, step)


# How sums reach C


@settings(deadline=None, max_examples=12)
@given(
    st.sampled_from((64, 100, 200)),
    st.sampled_from((32, 63, 136, 256)),
    st.sampled_from(("bf16", "fp32", "e4m3", "i32")),
)
def test_sums_reach_c_with_as_few_wavefronts_as_said(m: int, n: int, out: str) -> None:
    plan = block_of(ls.Gemm(m, n, 64, "i8" if out == "i32" else "bf16", out_dtype=out), "b200")
    found = plan.epilogue
    assert found is not None and found.store == plan.c.store
    assert found.store == ("tma" if n * plan.operator.out_dtype.bytes % 16 == 0 else "threads")
    writes = write_addresses(found.swizzle, found.pitch)
    assert max(ls.bank_wavefronts(found.copy, [int(x) for x in w], "b200") for w in writes) == found.wavefronts
    assert found.least <= found.wavefronts
    if found.store == "threads":
        assert found.pitch % 16 == 0 and found.pitch >= plan.tile[1] * plan.operator.out_dtype.bytes
        assert found.wavefronts == found.least


def test_writes_of_sums_are_those_of_the_unit_s_fragments() -> None:
    """Lane l of tcgen05 holds row l."""
    whole = write_addresses("128B", 128)
    assert [int(x) for x in whole[3]] == [lane * 128 + (3 ^ lane % 8) * 16 for lane in range(32)]


# Saved and loaded


def test_a_plan_is_loaded_as_it_was_saved(tmp_path: Path) -> None:
    for name, product in (("h200", ls.Gemm(96, 72, 200, "bf16")), ("b200", ls.Gemm(256, 63, 64, "e4m3"))):
        plan = ls.synthesize(product, name)
        plan.save(tmp_path / "p.json")
        assert ls.GemmPlan.load(tmp_path / "p.json") == plan


@pytest.mark.parametrize(
    ("field", "wrong"),
    (
        ("stages", 99),
        ("blocks", 7),
        ("registers", [255, 24]),
        ("derivation", []),
        ("tile", [64, 32, 64]),
        ("cost.nanoseconds", 1.0),
        ("launch.warps", 4),
        ("kernel.stages", 2),
        ("kernel.registers", [255, 24]),
        ("kernel.b.descriptor.stride", 512),
        ("kernel.a.offsets", [[0, 32, 64, 0]]),
        ("kernel.store", "nowhere"),
        ("kernel.majors", ["K", "L"]),
        ("kernel", None),
        ("tiled.stages", 99),
        ("tiled.blocks", 7),
        ("tiled.tile", [64, 32, 64]),
        ("tiled.mma.b.descriptor.stride", 512),
        ("tiled.mma.a.offsets", [[0, 32, 64, 0]]),
        ("tiled.epilogue.pitch", 64),
        ("tiled.c.store", "threads"),
        ("tiled.cost.nanoseconds", 1.0),
        ("tiled.launch.warps", 4),
        ("tiled.mma.shape", [64, 64]),
        ("tiled", None),
        ("operator.k", 72),
        ("version", 1),
    ),
)
def test_a_plan_that_was_changed_is_refused(field: str, wrong: Any, tmp_path: Path) -> None:
    plan = ls.synthesize(ls.Gemm(64, 64, 64, "bf16"), "b200" if field.startswith("tiled") else "h200")
    data = json.loads(json.dumps(plan.to_json()))
    *path, last = field.split(".")
    place = data
    for step in path:
        place = place[step]
    assert place[last] != wrong
    place[last] = wrong
    (tmp_path / "p.json").write_text(json.dumps(data))
    with pytest.raises(ls.InvalidPlan):
        ls.GemmPlan.load(tmp_path / "p.json")
