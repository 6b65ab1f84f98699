"""Operands whose lines begin anywhere in a granule, in PTX: aligned by threads, on a model of the machine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import islice

import numpy as np
import pytest
from ptx_formats import decode, encode
from ptx_launched import launch, operands_of
from ptx_machine import Stuck

import legalsat as ls
from bench.kernels.conformance import judged
from legalsat.backends import refusal_of
from legalsat.backends.ptx.assemble import assemble
from legalsat.backends.ptx.persistent import emit
from legalsat.backends.ptx.program import program_for
from legalsat.extract.check.check_ptx import check_ptx
from legalsat.extract.kernels.product_kernels import each_kernel
from legalsat.plans.product_kernel import ProductKernel
from legalsat.targets import target
from legalsat.tensor import plain

T = ls.Tensor
PRODUCTS = {
    "odd rows": ls.Gemm(70, 72, 137, "bf16"),
    "odd columns": ls.Gemm(71, 73, 140, "fp16", a=T((71, 140), "fp16", (1, 71)), b=T((73, 140), "fp16", (1, 73))),
    "bytes": ls.Gemm(65, 72, 262, "e4m3"),
    "one of them": ls.Gemm(140, 96, 200, "bf16", a=T((140, 200), "bf16", (207, 1), offset=6)),
    "members anywhere": ls.Gemm(77, 72, 77, "bf16", batch=3),
    "two axes of members": ls.Gemm(40, 72, 77, "bf16", batch=(2, 2)),
    "groups of rows": ls.GroupedGemm(300, 72, 139, "bf16", groups=5),
}


def aligned(name: str, gpu: str) -> Iterator[ProductKernel]:
    """Yield those that PTX prints, cheapest first."""
    gemm, refusal = PRODUCTS[name], refusal_of("ptx")
    for _, kernel in each_kernel(gemm, target(gpu)):
        fits = -(-gemm.k // kernel.tile[2]) >= kernel.least_k_tiles
        if any(kernel.aligned) and fits and not refusal(gemm, kernel):
            yield kernel


@cache
def chosen(name: str, gpu: str) -> list[ProductKernel]:
    """Return the first kernels of some ways to lie, to align and to share."""
    found: dict[object, ProductKernel] = {}
    for kernel in islice(aligned(name, gpu), 400):
        shares = kernel.cluster[0] > 1, kernel.cluster[1] > 1
        if kernel.cluster_blocks < 4:
            found.setdefault((kernel.aligned, shares if all(kernel.aligned) else any(shares)), kernel)
    return list(found.values())[:3]


def run(name: str, gpu: str, kernel: ProductKernel, seed: int, text: str = "") -> None:
    """Run a kernel on whole numbers, and compare every byte with what the product means."""
    gemm, r = PRODUCTS[name], np.random.default_rng(seed)
    ends = [[70, 71, 199, 250, 300], [40, 30, 200, 190, 260]][seed % 2] if gemm.members.ragged else []
    a, b = (r.integers(-2, 3, plain(one.shape)).astype(float) for one in (gemm.a, gemm.b))
    made = program_for(gemm, kernel, target(gpu))
    memories = operands_of(made, {"a": a, "b": b, "ends": np.array(ends)})
    launch(made, text or made.text, memories, 0 if kernel.store == "sums" else 1 + seed % 2, seed)
    c, last = memories["c"], max(ends) if ends else gemm.m
    meant = encode(gemm.meaning(a, b, *([np.array(ends)] if ends else [])), gemm.out_dtype.name)
    wanted = decode(meant, gemm.out_dtype.name)
    np.testing.assert_array_equal(c.values[..., :last, :], wanted[..., :last, :])
    assert c.untouched()


@pytest.mark.parametrize("gpu", ["h200", "b200"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_kernels_multiply_right(name: str, gpu: str) -> None:
    kernels = chosen(name, gpu)
    assert kernels
    for seed, kernel in enumerate(kernels):
        run(name, gpu, kernel, seed)


@pytest.mark.parametrize("gpu", ["h200", "b200"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_the_text_does_what_the_program_says(name: str, gpu: str) -> None:
    for kernel in chosen(name, gpu)[:1]:
        found = judged(PRODUCTS[name], kernel, few=True, backend="ptx")
        assert not found["differences"] and found["events"] > 100


@pytest.mark.parametrize("gpu", ["h200", "b200"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_texts_assemble_and_have_no_finding(name: str, gpu: str) -> None:
    kernel, architecture = chosen(name, gpu)[0], target(gpu).architecture
    text = emit(PRODUCTS[name], kernel, architecture)
    assert assemble(text, architecture)[:4] == b"\x7fELF"
    (checked,) = check_ptx(text).kernels
    assert not checked.findings


@pytest.mark.parametrize(
    ("found", "instead"),
    [
        (r"shf\.r\.wrap\.b32 (%r\d+), (%r\d+), %r\d+, %r\d+;", r"mov.b32 \1, \2;"),
        (r"fence\.proxy\.async\.shared::cta;", "bar.warp.sync 0xffffffff;"),
    ],
)
def test_a_text_that_is_spoilt_is_noticed(found: str, instead: str) -> None:
    kernel = chosen("odd rows", "h200")[0]
    text, count = re.subn(found, instead, emit(PRODUCTS["odd rows"], kernel))
    assert count
    with pytest.raises((Stuck, AssertionError)):
        run("odd rows", "h200", kernel, 0, text)
