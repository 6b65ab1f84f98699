"""Products in Triton: what Triton makes of the emitted text is what the plan says, on a machine without a GPU."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from functools import lru_cache

import pytest
from small_products import MORE, PRODUCTS, Case

import legalsat as ls
from legalsat.backends import program
from legalsat.backends.triton.product import product_kernel_of, triton_box
from legalsat.backends.triton.product_program import compiled, image_of, program_of
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.runtime.program import MapArgument, Program, program_from_json
from legalsat.units.tensor_map import driver_value

LARGE = Case("sm_90a", (4096, 4096, 4096), "bf16")
ODD = Case("sm_90a", (512, 4095, 264), "bf16")
WGMMA = [case for case in (*PRODUCTS, *MORE) if case.target == "sm_90a"]
TABLE = [
    *WGMMA,
    ODD,
    *(Case("sm_90a", (4096, 4096, 4096), kind) for kind in ("fp16", "fp32", "e4m3", "i8")),
    *(Case("sm_90a", (4096, 4096, 4096), "bf16", majors=majors) for majors in ("MK", "KM", "MM")),
    Case("sm_90a", (4096, 4096, 4096), "bf16", out="fp32"),
    Case("sm_90a", (4096, 4096, 4096), "e4m3", out="e4m3"),
    Case("sm_90a", (4096, 4098, 4096), "bf16"),
    Case("sm_90a", (512, 4096, 7168), "bf16"),
]


@lru_cache
def planned(case: Case) -> GemmPlan:
    plan = ls.synthesize(case.gemm(), case.target)
    assert isinstance(plan, GemmPlan)
    return plan


def require_right(plan: GemmPlan, made: Program) -> None:
    """Compile and compare with the plan; `image_of` compares boxes, swizzles and parameters as well."""
    (recipe,) = image_of(made).recipes
    found = compiled(made.text, made.signature, made.architecture, made.recipes[0].threads // 32)
    assert found.cubin[:4] == b"\x7fELF"
    maps = [one.map for one in recipe.arguments if isinstance(one, MapArgument)]
    theirs = [(tuple(reversed(one["block_size"])), one["swizzle"]) for one in found.metadata["tensordesc_meta"]]
    assert theirs == [(tm.box, driver_value("swizzle", tm.swizzle)) for tm in maps]
    assert len(maps) == (3 if plan.block.epilogue and plan.block.epilogue.store == "tma" else 2)
    assert plan.block.mma is not None
    shape = product_kernel_of(plan.block)
    assert f"wgmma.mma_async.sync.aligned.m64n{shape.instruction}k{plan.block.mma.shape[2]}." in found.ptx
    # One instruction a box: the copy engine's boxes fill the blocks.
    boxes = [-(-a // b) for one in (shape.a, shape.b) for a, b in zip(one.block, reversed(one.map.box), strict=True)]
    loads = re.findall(r"cp\.async\.bulk\.tensor\.2d\.shared::(?:cluster|cta)\.global", found.ptx)
    assert 2 <= len(loads) <= boxes[0] * boxes[1] + boxes[2] * boxes[3]
    assert ("cp.async.bulk.tensor.2d.global.shared::cta" in found.ptx) == (len(maps) == 3)
    assert not re.search(r"\bst\.local|\bld\.local", found.ptx)
    assert spilled(found.cubin) == 0
    assert recipe.shared <= plan.target.shared_bytes_per_block
    assert recipe.threads == 32 * plan.block.launch.warps


def spilled(cubin: bytes) -> int:
    """Return the bytes of local memory that a kernel takes: its frame, of the attributes in .nv.info."""
    frames = [
        cubin[at + 8 : at + 12] for at in range(0, len(cubin) - 12, 4) if cubin[at : at + 4] == b"\x04\x11\x08\x00"
    ]
    assert frames, "every cubin says how large its frames are"  # EIATTR_FRAME_SIZE: 04 11, 8 bytes, symbol, size
    return sum(int.from_bytes(frame, "little") for frame in frames)


@pytest.mark.parametrize("case", [LARGE, ODD], ids=str)
def test_triton_compiles_what_the_plan_says(case: Case) -> None:
    require_right(planned(case), program(planned(case), "triton"))


@pytest.mark.slow
@pytest.mark.parametrize("case", TABLE, ids=str)
def test_triton_compiles_all_types_and_majors(case: Case) -> None:
    require_right(planned(case), program(planned(case), "triton"))


@pytest.mark.slow
@pytest.mark.parametrize("case", [LARGE, ODD, *WGMMA[:4]], ids=str)
def test_pipelines_keep_their_contract(case: Case) -> None:
    made = program(planned(case), "triton")
    found = compiled(made.text, made.signature, made.architecture, made.recipes[0].threads // 32)
    assert not ls.check_pipeline(found.ptx, "sm_90a").diagnostics


@pytest.mark.parametrize("case", WGMMA, ids=str)
def test_texts_stand_alone(case: Case) -> None:
    """A text is Python, imports triton and torch alone, and becomes a program that survives a file."""
    made = program(planned(case), "triton")
    assert made.text == planned(case).emit("triton")
    modules = set()
    for node in ast.walk(ast.parse(made.text)):
        modules |= {node.module} if isinstance(node, ast.ImportFrom) else set()
        modules |= {name.name for name in node.names} if isinstance(node, ast.Import) else set()
    assert {str(name).split(".", maxsplit=1)[0] for name in modules} == {"__future__", "triton", "torch"}
    assert max(map(len, made.text.splitlines())) <= 120
    assert program_from_json(made.to_json()) == made


def test_one_text_serves_all_extents_of_a_class() -> None:
    """Extents, and how far rows are apart, are arguments; so texts of a class differ in nothing."""
    for first, second in (((4096, 4096, 4096), (8192, 6144, 4104)), ((4096, 4095, 4096), (4096, 8191, 2056))):
        one, other = (program(planned(Case("sm_90a", extent, "bf16")), "triton") for extent in (first, second))
        assert one.text == other.text
        assert one.recipes[0].arguments != other.recipes[0].arguments


@pytest.mark.parametrize("case", TABLE, ids=str)
def test_shared_memory_holds_ring_and_result(case: Case) -> None:
    """The ring is the plan's, or as much of it as fits beside C's boxes."""
    plan = planned(case)
    kernel = product_kernel_of(plan.block)
    assert 2 <= kernel.stages <= plan.block.stages
    c = kernel.c.buffers * plan.block.tile[0] * kernel.c.slice * kernel.c.size
    assert kernel.stages * kernel.stage_bytes + c < plan.target.shared_bytes_per_block
    assert plan.block.tile[1] % kernel.c.slice == 0
    assert kernel.programs <= -(-plan.operator.m // plan.block.tile[0]) * -(-plan.operator.n // plan.block.tile[1])


def test_plans_that_triton_cannot_print_are_refused() -> None:
    plan = planned(LARGE).block
    tm = plan.a.tensor_maps[0]
    other = replace(plan.a, tensor_maps=(replace(tm, box=(64, 64)), *plan.a.tensor_maps[1:]))
    with pytest.raises(ls.LegalSatError, match="boxes of 64 x 64, triton in boxes of 64 x 128"):
        program_of(replace(plan, a=other))
    with pytest.raises(ls.LegalSatError, match="powers of two"):
        program_of(replace(plan, tile=(192, 256, 64)))
    with pytest.raises(ls.LegalSatError, match="not on sm_100a"):
        program(planned(Case("sm_100a", (200, 24, 200), "bf16")), "triton")


def test_boxes_are_cut_as_triton_cuts_them() -> None:
    """A row fills the swizzle's span, no extent is above 256; so does the kernels' compiled metadata say."""
    assert triton_box((128, 64), 128, 2) == (128, 64)
    assert triton_box((64, 256), 128, 2) == (64, 64)
    assert triton_box((512, 32), 32, 4) == (256, 8)
    assert triton_box((64, 512), 0, 1) == (64, 256)
