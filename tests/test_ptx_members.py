"""Batches and groups of products on tcgen05: interpreted, run as PTX on a model of the machine, compared, assembled."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from ptx_formats import decode, encode
from ptx_launched import UNTOUCHED, launch, operands_of

import legalsat as ls
from bench.kernels.conformance import judged
from bench.kernels.interpreted import drawn_numbers
from legalsat.backends.ptx.assemble import assemble
from legalsat.backends.ptx.program import program_for
from legalsat.extract.check.check_ptx import check_ptx
from legalsat.extract.kernels.contract import require_contract
from legalsat.extract.kernels.interpreter import interpret
from legalsat.extract.kernels.product_kernels import product_kernels
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.plans.product_kernel import ProductKernel
from legalsat.targets import target
from legalsat.tensor import plain

B200 = target("b200")
T = ls.Tensor
BATCHES = {
    "a batch": ls.Gemm(150, 72, 200, "bf16", batch=3),
    "two axes, B shared along one": ls.Gemm(
        70, 72, 72, "bf16", batch=(3, 2), b=T((3, 2, 72, 72), "bf16", (0, 5184, 72, 1))
    ),
    "rows anywhere": ls.Gemm(70, 45, 64, "fp16", batch=3),
    "elements apart": ls.Gemm(72, 50, 136, "bf16", batch=2, c=T((2, 72, 50), "bf16", (20000, 151, 3))),
    "padded first": ls.Gemm(40, 48, 37, "bf16", batch=2),
    "members anywhere": ls.Gemm(40, 48, 64, "bf16", batch=2, a=T((2, 40, 64), "bf16", (40 * 64 + 3, 64, 1))),
}
ROWS = {
    "groups of rows": ls.GroupedGemm(300, 72, 136, "bf16", groups=5),
    "groups of rows anywhere": ls.GroupedGemm(300, 45, 128, "e4m3", groups=5),
    "groups of rows, scaled": ls.GroupedGemm(300, 64, 128, "e4m3", groups=5, scaled="groups"),
}
ALONG_K = {
    "groups along k": ls.GroupedGemm(
        140, 72, 300, "bf16", groups=5, along="k", a=T((140, 300), "bf16", (1, 144)), b=T((72, 300), "bf16", (1, 72))
    ),
    "groups along k, transposed": ls.GroupedGemm(144, 96, 300, "e4m3", groups=5, along="k"),
}
SCALED = {
    "rows scaled": ls.Gemm(150, 72, 200, "e4m3", scaled="rows"),
    "rows scaled, C^T": ls.Gemm(72, 96, 200, "e4m3", scaled="rows", c=T((72, 96), "bf16", (1, 80))),
    "rows of a batch scaled": ls.Gemm(150, 45, 128, "e4m3", scaled="rows", batch=3),
}
ROWS |= {"groups of rows, A across": ls.GroupedGemm(300, 64, 136, "bf16", groups=5, a=T((300, 136), "bf16", (1, 304)))}
ROWS |= {"rows of groups scaled": ls.GroupedGemm(300, 64, 128, "e4m3", groups=5, scaled="rows")}
BATCHES |= SCALED
EVERY = BATCHES | ROWS | ALONG_K
ENDS = ([70, 71, 199, 250, 300], [0, 0, 128, 128, 300], [40, 30, 200, 190, 260], [0, 0, 0, 0, 0])


def some(gemm: ls.Gemm, count: int) -> list[ProductKernel]:
    first, *others = (kernel for _, kernel in product_kernels(gemm, B200))
    assert first.issues and ls.synthesize(gemm, "b200").kernel == first
    return [first, *random.Random(str(gemm)).sample(others, min(count, len(others)))]


def meaning(gemm: ls.Gemm, a: Any, b: Any, scales: list[Any], ends: list[int]) -> Any:
    """Return C, as its type has it."""
    found = gemm.meaning(a, b, *scales, *([np.array(ends)] if ends else []))
    return decode(encode(found, gemm.out_dtype.name), gemm.out_dtype.name)


def scales_of(gemm: ls.Gemm) -> list[Any]:
    r = np.random.default_rng(7)
    return [2.0 ** r.integers(-2, 3, plain(one.shape)) for one in gemm.others.values()]


@pytest.mark.parametrize("name", EVERY)
def test_programs_multiply_right(name: str) -> None:
    """On numpy, wherever groups end; each keeps the contract."""
    gemm, (a, b), scales = EVERY[name], drawn_numbers(EVERY[name], 5), scales_of(EVERY[name])
    b = np.broadcast_to(b[:1], b.shape) if name.endswith("one") else b  # which all of that axis read
    for seed, (kernel, ends) in enumerate(zip(some(gemm, 3), ENDS, strict=True)):
        plan, said = GemmPlan(gemm, B200, kernel), [] if name in BATCHES else ends
        require_contract(plan.pipeline, B200)
        found = interpret(plan, a, b, scales=tuple(scales), ends=said, clusters=seed, seed=seed)
        assert np.array_equal(found, meaning(gemm, a, b, scales, said)[: len(found)])
        assert name not in ROWS or len(found) == max(said)


@pytest.mark.parametrize("name", [*BATCHES, *ROWS])
def test_texts_multiply_right(name: str) -> None:
    """As PTX, byte for byte; rows behind the last group's end are as they were."""
    gemm, scales = EVERY[name], scales_of(EVERY[name])
    shapes = plain(gemm.a.shape), plain(gemm.b.shape)
    for seed, kernel in enumerate(some(gemm, name in {"a batch", "groups of rows"})):
        r, ends = np.random.default_rng(seed), ENDS[2 * seed] if name in ROWS else []
        a, b = (r.integers(-1, 2, one).astype(float) for one in shapes)
        b = np.broadcast_to(b[:1], b.shape) if name.endswith("one") else b
        made = program_for(gemm, kernel, B200)
        named = zip(("scale_a", "scale_b"), scales, strict=False)
        memories = operands_of(made, {"a": a, "b": b, **dict(named), "ends": np.array(ends)})
        launch(made, made.text, memories, 1 + seed, seed)
        c, wanted = memories["c"], meaning(gemm, a, b, scales, ends)
        last = max(ends) if ends else gemm.m
        assert np.array_equal(c.values[..., :last, :], wanted[..., :last, :])
        assert all(value == UNTOUCHED * 0x0101 for value in np.unique(c.words[..., last:, :]))
        assert c.untouched()


@pytest.mark.parametrize("chip", ["b200", "h200"])
@pytest.mark.parametrize("name", EVERY)
def test_the_text_does_what_the_program_says(name: str, chip: str) -> None:
    gemm = EVERY[name]
    if chip == "h200" and (gemm.scaled == "rows" or name.endswith("transposed")):  # or as wgmma does not read bytes
        with pytest.raises(ls.LegalSatError, match="ptx has no row for"):
            ls.synthesize(gemm, chip, backend="ptx")
        return
    found = judged(gemm, ls.synthesize(gemm, chip, backend="ptx").kernel, few=True, backend="ptx")
    assert not found["differences"] and found["events"] > 100


@pytest.mark.parametrize("name", EVERY)
def test_kernels_assemble_and_are_proven(name: str) -> None:
    text = ls.synthesize(EVERY[name], "b200").emit("ptx")
    assert assemble(text, "sm_100a")[:4] == b"\x7fELF"
    (checked,) = check_ptx(text).kernels
    assert not checked.findings
