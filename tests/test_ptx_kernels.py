"""PTX of products' kernels, printed of their programs: run on a model of the machine, compared, assembled, launched."""

from __future__ import annotations

import random
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ptx_launched import multiplied
from ptx_machine import MAP_BYTES, Stuck
from small_products import MORE, PRODUCTS, Case

import legalsat as ls
from bench.kernels.conformance import classes, judged
from legalsat.backends import program, refusal_of
from legalsat.backends.ptx.assemble import tool_for
from legalsat.backends.ptx.persistent import emit
from legalsat.backends.ptx.program import program_for
from legalsat.backends.ptx.rows import ROWS
from legalsat.extract.check.check_ptx import check_ptx
from legalsat.extract.kernels.product_kernels import product_kernels
from legalsat.plans.product_kernel import ProductKernel
from legalsat.program.kernel import Release
from legalsat.runtime.program import MapsArgument
from legalsat.targets import target

H200 = target("h200")
REFUSED = refusal_of("ptx")
PRINTED = {name: one for name, one in classes().items() if not REFUSED(*one)}
# Slices of k have a second kernel behind, and tests of their own.
CLASSES = {name: one for name, one in PRINTED.items() if not one[1].batch + one[1].groups and one[1].slices == 1}
UNIT = 64  # elements, of which all rows start alike in a granule


def small(name: str, seed: int = 0) -> tuple[ls.Gemm, ProductKernel]:
    """Return the kernel of a class, and a small product of the class: rows start alike in granules of 16 bytes."""
    gemm, kernel = CLASSES[name]
    rng = random.Random(f"{name} {seed}")
    m, n, k = (extent % UNIT + UNIT * rng.randint(1, 3) for extent in (gemm.m, gemm.n, gemm.k))
    k = max(k, gemm.k % UNIT + kernel.tile[2] * kernel.least_k_tiles)
    return ls.Gemm(m, n, k, gemm.dtype, out_dtype=gemm.out_dtype), kernel


QUICK = (
    "C by tma, 2 consumers",
    "C by tma, ping-pong, cluster 2x1",
    "C by tma, ping-pong, cluster 1x2",
    "C by tma, 2 consumers, overlapped epilogue, cluster 2x1",
    "C by rows, ping-pong",
    "C by sums, 2 consumers, split 2",
    "C by sums, 1 consumer",
    "C by rows, 2 consumers, A realigned in registers",
)


def marked(names: Any) -> list[Any]:
    """Return all classes, those that are not among the names marked as slow."""
    return [*names, *(pytest.param(name, marks=pytest.mark.slow) for name in CLASSES if name not in names)]


@pytest.mark.parametrize("name", marked(QUICK))
def test_kernels_multiply_right(name: str) -> None:
    """One cluster computes all tiles, some of which overhang; nothing but C is written."""
    gemm, kernel = small(name)
    multiplied(gemm, kernel, clusters=0 if kernel.store == "sums" else 1, seed=len(name))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", CLASSES)
def test_clusters_share_tiles(name: str, seed: int) -> None:
    """As the launch says, and with two clusters."""
    gemm, kernel = small(name, seed + 1)
    multiplied(gemm, kernel, clusters=0 if seed % 2 or kernel.store == "sums" else 2, seed=seed)


@pytest.mark.parametrize("case", [case for case in (*PRODUCTS, *MORE[:7]) if case.target == "sm_90a"], ids=str)
def test_chosen_kernels_multiply_right(case: Case) -> None:
    """Of all types and majors, with a C whose rows lie apart."""
    plan = ls.synthesize(case.gemm(), H200)
    assert plan.kernel is not None
    multiplied(plan.operator, plan.kernel, clusters=0 if plan.kernel.store == "sums" else 1, seed=len(str(case)))


FURTHER = {
    "scaled": ls.Gemm(100, 72, 400, "e4m3", out_dtype="bf16", scaled=True),
    "C by columns": ls.Gemm(72, 50, 136, "bf16", c=ls.Tensor((72, 50), "bf16", (1, 80))),
    "C by elements": ls.Gemm(72, 50, 136, "bf16", c=ls.Tensor((72, 50), "bf16", (151, 3))),
    "C by elements of other sizes": ls.Gemm(
        72, 50, 144, "e4m3", out_dtype="fp32", c=ls.Tensor((72, 50), "fp32", (2, 151))
    ),
    "late": ls.Gemm(70, 72, 136, "bf16", a=ls.Tensor((70, 136), "bf16", (144, 1), offset=6)),
    "odd rows": ls.Gemm(71, 73, 137, "fp16"),
    "transposed": ls.Gemm(75, 66, 137, "fp16", a=ls.Tensor((75, 137), "fp16", (1, 75))),
    "odd bytes": ls.Gemm(65, 71, 259, "e5m2", out_dtype="fp32"),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in {"scaled", "C by columns", "C by elements"} else pytest.mark.slow)
        for name in FURTHER
    ],
)
def test_odd_operands_are_mended(name: str) -> None:
    """By the first kernel of each way to read A and to store C."""
    gemm, seen = FURTHER[name], set()
    for _, kernel in product_kernels(gemm, H200):
        way = kernel.realign, kernel.store, kernel.swapped, kernel.majors
        if way not in seen and kernel.cluster_blocks < 4 and -(-gemm.k // kernel.tile[2]) >= kernel.least_k_tiles:
            seen.add(way)
            multiplied(gemm, kernel, clusters=0 if kernel.store == "sums" else 1, seed=len(seen))
    assert seen


SPOILT = {
    "no proxy fence": (1, r"fence\.proxy\.async\.shared::cta;", "bar.warp.sync 0xffffffff;"),
    "too many bytes expected": (1, r"(expect_tx\S* _, \S+ )(\d+);", r"\g<1>1\g<2>;"),
    "accumulators read too early": (1, r"wgmma\.wait_group\.sync\.aligned 0;", "wgmma.wait_group.sync.aligned 9;"),
    "step along k too long": (1, r"add\.u64 (%d\d+), (%d\d+), 2;", r"add.u64 \1, \2, 4;"),
    "sent to one CTA": (1, r"(shl\.b32 %r\d+), 3,", r"\1, 1,"),
    "no remote arrival": (1, r"mbarrier\.arrive\.shared::cluster\.b64 _, \S+;", ""),
    "buffers not waited for": (1, r"cp\.async\.bulk\.wait_group\.read 1;", "cp.async.bulk.wait_group.read 9;"),
    "no turn given": (1, r"bar\.arrive", "bar.sync"),
    "accumulators of others read too early": (5, r"barrier\.cluster\.wait\.aligned;\n(    ld\.param)", r"\1"),
    "fragments not shifted": (7, r"shf\.r\.wrap\.b32 (%r\d+), (%r\d+), %r\d+, %r\d+;", r"mov.b32 \1, \2;"),
}


@pytest.mark.parametrize("what", SPOILT)
def test_the_machine_notices(what: str) -> None:
    """A kernel that is spoilt hangs, faults or is wrong; so the tests above can fail."""
    number, found, instead = SPOILT[what]
    gemm, kernel = small(QUICK[number])
    text, count = re.subn(found, instead, emit(gemm, kernel))
    assert count
    with pytest.raises((Stuck, AssertionError)):
        multiplied(gemm, kernel, clusters=0 if kernel.store == "sums" else 1, seed=len(what), text=text)


@pytest.mark.parametrize("name", marked(QUICK[1::2]))
def test_the_text_does_what_the_program_says(name: str) -> None:
    found = judged(*CLASSES[name], few=True, backend="ptx")
    assert not found["differences"]
    assert found["events"] > 100


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSES)
def test_every_class_does_what_its_program_says_in_all_launches(name: str) -> None:
    found = judged(*CLASSES[name], few=False, backend="ptx")
    assert not found["differences"]
    assert found["launches"] > 1


@pytest.mark.parametrize("name", marked(QUICK))
def test_the_assembler_neither_spills_nor_makes_multiplications_wait_for_each_other(name: str, tmp_path: Path) -> None:
    source = tmp_path / "kernel.ptx"
    source.write_text(emit(*CLASSES[name]), encoding="utf-8")
    command = [tool_for("sm_90a"), "-v", "-arch=sm_90a", "-o", str(tmp_path / "kernel.cubin"), str(source)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert "0 bytes spill stores, 0 bytes spill loads" in said
    assert "erializ" not in said


@pytest.mark.slow
def test_texts_are_proven() -> None:
    """Of classes that the check decides in its time."""
    (kernel,) = check_ptx(emit(*CLASSES["C by sums, 2 consumers, split 2"])).kernels
    assert kernel.proven, (kernel.findings, kernel.unproven)


@pytest.mark.parametrize("extents", [(4096, 4096, 4095), (512, 512, 8192), (4096, 4096, 4096)])
def test_plans_are_launched_as_by_cute(extents: tuple[int, int, int]) -> None:
    """With the same parameters, and relayouts in front of the same operands to the same layouts."""
    plan = ls.synthesize(ls.Gemm(*extents, "bf16"), "h200", backend="ptx")
    ours, theirs = program(plan, "ptx"), program(plan, "cute")
    assert replace(ours, text=theirs.text, builder=theirs.builder, before=theirs.before) == theirs
    relaid = [[(one.operand, one.program.operands[-1].tensor) for one in each.before] for each in (ours, theirs)]
    assert [(name, t.shape, t.strides) for name, t in relaid[0]] == [
        (name, t.shape, t.strides) for name, t in relaid[1]
    ]
    assert ours.recipes[0].grid[0] == (plan.launch.programs or ours.recipes[0].grid[0])
    text = plan.emit("ptx")
    assert text.endswith(ours.text) and str(plan.kernel) in text
    assert text.count("must have been copied first") == len(ours.before)
    sizes = [int(size) for size in re.findall(r"\.b8 \w+\[(\d+)\]", ours.text)]
    (maps, *_) = ours.recipes[0].arguments
    assert isinstance(maps, MapsArgument) and sizes == [MAP_BYTES * len(maps.maps)]


def test_one_text_serves_all_products_of_a_class() -> None:
    _, kernel = small(QUICK[0])
    texts = {program_for(ls.Gemm(m, 512, 256, "fp32"), kernel, H200).text for m in (128, 640, 1000)}
    assert len(texts) == 1


def test_an_operation_without_a_row_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(ROWS, Release)
    with pytest.raises(ls.LegalSatError, match="ptx has no row for Release in the program of"):
        emit(*small(QUICK[0]))
