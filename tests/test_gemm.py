"""Products: a plan speaks of the kernel that is launched, whatever the matrix unit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import legalsat as ls
from legalsat.backends import program
from legalsat.extract.kernels.product_kernels import product_kernels
from legalsat.runtime.program import MapsArgument
from legalsat.targets import target
from legalsat.terms.products import words

T = ls.Tensor


def test_an_odd_depth_costs_relayouts_and_a_constant_operand_none() -> None:
    legal, odd = (ls.synthesize(ls.Gemm(4096, 4096, k, "bf16"), "h200") for k in (4096, 4095))
    weights = ls.synthesize(ls.Gemm(4096, 4096, 4095, "bf16", constant_b=True), "h200")
    assert not legal.cost.relayouts
    # The kernel shifts A, so that only B is laid out anew, rows of 4095 in a pitch of 8192 bytes or columns of 4096.
    assert odd.kernel is not None and sum(one != "none" for one in odd.kernel.relayouts) == 1
    assert odd.cost.padding_bytes in {4096 * 4096 * 2, 4095 * 4096 * 2}
    assert 0 == weights.cost.relayouts < odd.cost.relayouts
    assert weights.cost.nanoseconds < odd.cost.nanoseconds and legal.cost.nanoseconds < odd.cost.nanoseconds


def test_an_odd_depth_costs_relayouts_on_tcgen05_too() -> None:
    legal, odd = (ls.synthesize(ls.Gemm(4096, 4096, k, "bf16"), "b200") for k in (4096, 4095))
    weights = ls.synthesize(ls.Gemm(4096, 4096, 4095, "bf16", constant_b=True), "b200")
    assert not legal.cost.relayouts and not legal.before
    assert [one.operand for one in odd.before] == ["a", "b"] and odd.cost.relayouts > 0
    assert odd.cost.padding_bytes == 2 * 4096 * 4096 * 2
    assert 0 < weights.cost.relayouts < odd.cost.relayouts
    assert legal.cost.nanoseconds < weights.cost.nanoseconds < odd.cost.nanoseconds


@pytest.mark.parametrize("gpu", ["h200", "b200"])
@pytest.mark.parametrize(
    "extent", [(4096, 4096, 4096), (777, 4096, 4095), (64, 64, 8192), (100, 60, 40), (4095, 4095, 128)]
)
def test_a_plan_speaks_of_the_kernel_that_is_launched(extent: tuple[int, int, int], gpu: str) -> None:
    """Its maps, grid and costs are the launch's and the search's, and its program has the kernel's stages and bytes."""
    product = ls.Gemm(*extent, "bf16")
    plan = ls.synthesize(product, gpu)
    (time, kernel), launched = product_kernels(product, target(gpu), 1)[0], program(plan).recipes[0]
    assert plan.kernel == kernel and plan.cost.nanoseconds == time == plan.candidates[0].cost.nanoseconds
    assert plan.launch.warps * 32 == launched.threads and plan.launch.programs in {0, launched.grid[0]}
    maps = [one.map for argument in launched.arguments if isinstance(argument, MapsArgument) for one in argument.maps]
    assert list(plan.tensor_maps) == maps[: len(plan.tensor_maps)]
    rings = {ring.name: ring for ring in plan.pipeline.barriers}
    assert rings["full"].stages == rings["empty"].stages == plan.stages == kernel.stages
    assert rings["full"].transaction_bytes == sum(kernel.loaded) * plan.tile[2] * 2
    shared = sum(ring.stages * ring.bytes for ring in plan.pipeline.buffers) + 16 * plan.stages
    shared += 16 * kernel.accumulators + 8 * kernel.issues  # two barriers each, and where tensor memory is
    assert shared <= plan.cost.shared_bytes <= 227 * 1024
    assert shared == plan.cost.shared_bytes or plan.tile[1] * 2 < 128, "narrow boxes of C have room for wide ones"
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
    for gpu in ("h200", "b200"):
        plan = ls.synthesize(ls.Gemm(512, 256, 500, "bf16", a=pitched), gpu)
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
        ("kernel.accumulators", 1),
        ("kernel", None),
        ("operator.k", 72),
        ("version", 1),
    ),
)
@pytest.mark.parametrize("gpu", ["h200", "b200"])
def test_a_plan_that_was_changed_is_refused(field: str, wrong: Any, gpu: str, tmp_path: Path) -> None:
    plan = ls.synthesize(ls.Gemm(64, 64, 64, "bf16"), gpu)
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
