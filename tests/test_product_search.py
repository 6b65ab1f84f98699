"""The search of a product's kernels against trying every kernel."""

from __future__ import annotations

import random
from typing import Any

import pytest
from every_kernel import COOPERATIVE, fastest

import legalsat as ls
from legalsat.extract.kernels.product_class import class_of
from legalsat.extract.kernels.product_forms import Facts, Form, forms_of
from legalsat.extract.kernels.product_kernels import product_kernels
from legalsat.targets import target
from legalsat.terms.trees import TermLaw

H200 = target("h200")
FEW, MANY, AT_ONCE = 300, 3000, 50


def drawn(r: random.Random) -> ls.Gemm:
    """Return a product: usual and odd extents, any type, either axis the fast one, longer pitches, late addresses."""
    m, n, k = (r.choice((1, r.randint(1, 300), 64 * r.randint(1, 70), r.randint(1, 9000))) for _ in range(3))
    dtype = r.choice(("bf16", "bf16", "fp16", "e4m3", "e5m2", "fp32"))
    out = r.choice((None, "bf16", "fp32"))

    def operand(rows: int, columns: int, element: str) -> ls.Tensor:
        pitch = r.choice((0, 0, 1, 2, 4, 8))
        strides = r.choice(((columns + pitch, 1), (columns + pitch, 1), (1, rows + pitch)))
        size = ls.Tensor((1,), element).dtype.bytes
        return ls.Tensor((rows, columns), element, strides, offset=r.choice((0, 0, 0, 0, size, 16)))

    product = ls.Gemm(m, n, k, dtype, out_dtype=out if dtype != "fp32" else None)
    a, b, c = operand(m, k, dtype), operand(n, k, dtype), operand(m, n, product.out_dtype.name)
    if r.random() < 0.5:
        c = ls.Tensor((m, n), product.out_dtype.name)
    return ls.Gemm(m, n, k, dtype, a=a, b=b, c=c, out_dtype=product.out_dtype.name, constant_b=r.random() < 0.3)


def check(seed: int) -> None:
    gemm = drawn(random.Random(seed))
    found = product_kernels(gemm, H200, 1)
    assert (found[0][0] if found else None) == fastest(gemm, H200), f"seed {seed}: {gemm}"


@pytest.mark.parametrize("first", range(0, FEW, AT_ONCE))
def test_the_first_kernel_takes_as_long_as_the_fastest_of_all(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        check(seed)


@pytest.mark.parametrize("extents", [(4001, 8003, 72), (3001, 5001, 71), (1540, 9213, 99)])
def test_so_it_does_where_tiles_lap(extents: tuple[int, int, int]) -> None:
    gemm = ls.Gemm(*extents, "bf16")
    ((time, kernel),) = product_kernels(gemm, H200, 1)
    assert kernel.store == "lapped" and time == fastest(gemm, H200)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(FEW, MANY, AT_ONCE))
def test_the_first_kernel_of_many_products_takes_as_long_as_the_fastest_of_all(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        check(seed)


@pytest.mark.parametrize("m", [777, 4096])
def test_tiles_of_every_shape_are_listed_in_both_orientations(m: int) -> None:
    """C^T of a C by rows too, with tiles as wide as shared memory has room for beside all accumulators."""
    kernels = [kernel for _, kernel in product_kernels(ls.Gemm(m, m + 8, 1024, "bf16"), H200)]
    for swapped in (False, True):
        shapes = {one.tile[:2] for one in kernels if one.swapped == swapped and not one.ping_pong}
        room = 227 * 1024 - 2 * 16  # two stages beside the way that C leaves
        for rows, columns, *_ in (one for one in COOPERATIVE if one[1] >= 96 or not swapped):
            sums = 4 * max(rows * (columns + 4), columns * (rows + 4)) if swapped else 0
            if (rows + columns) * 256 + sums <= room and (m < 4000 or not swapped):
                assert (rows, columns) in shapes, (swapped, rows, columns)


def test_kernels_are_listed_once() -> None:
    for gemm in (ls.Gemm(777, 4096, 4096, "bf16"), ls.Gemm(100, 300, 4095, "fp16"), ls.Gemm(99, 99, 1000, "e4m3")):
        kernels = [kernel for _, kernel in product_kernels(gemm, H200)]
        assert len(kernels) == len(set(kernels))


def test_what_boxes_bring_as_it_lies_is_not_copied_first_unless_the_other_operand_is_realigned() -> None:
    def forms(gemm: ls.Gemm) -> tuple[Form, ...]:
        one = class_of(gemm, H200)
        assert one is not None
        return forms_of(Facts.of(one), one.laws)

    along_n = ls.Tensor((512, 512), "bf16", (1, 512))
    for b in (None, along_n):
        found = forms(ls.Gemm(512, 512, 512, "bf16", b=b, constant_b=True))
        assert {form.relayouts for form in found} == {("none", "none")}
    assert {
        form.passes for form in forms(ls.Gemm(512, 512, 512, "fp32", b=ls.Tensor((512, 512), "fp32", (1, 512))))
    } == {(False, True)}
    odd = forms(ls.Gemm(512, 512, 511, "bf16"))
    assert {form.realign for form in odd} == {"none", "registers", "tiles"}
    mended = [sum(form.passes) + sum(form.aligned) + (form.realign != "none") for form in odd]  # B's rows are odd too
    assert set(mended) == {2} and any(all(form.aligned) for form in odd)
    assert not any(any(form.aligned) for form in odd if form.realign != "none")
    half = forms(ls.Gemm(512, 512, 511, "bf16", b=ls.Tensor((512, 511), "bf16", (512, 1))))
    assert {form.relayouts[1] for form in half if not form.swapped and form.realign == "tiles"} == {"transpose"}
    assert {form.relayouts[1] for form in half if not form.swapped and form.realign == "none"} == {"none"}
    assert not any(form.aligned[not form.swapped] for form in half)


class AsItLies(ls.Gemm):
    """A product whose operands are never copied first: an operator of somebody, with laws of its own."""

    def laws(self) -> tuple[TermLaw, ...]:
        return tuple(law for law in super().laws() if law.name not in {"pad_first", "transpose_first"})


class Unchanged(ls.Gemm):
    """One that equals nothing else, as far as is known."""

    def laws(self) -> tuple[TermLaw, ...]:
        return ()


def test_laws_of_products_are_those_of_their_operator() -> None:
    arguments: dict[str, Any] = {"a": ls.Tensor((300, 511), "bf16"), "b": ls.Tensor((200, 511), "bf16", (1, 200))}
    usual, own = (kind(300, 200, 511, "bf16", **arguments) for kind in (ls.Gemm, AsItLies))
    found = [one for _, one in product_kernels(own, H200)]
    assert found and {one.relayouts for one in found} == {("none", "none")}
    others = [one for _, one in product_kernels(usual, H200)]
    assert set(found) < set(others) and any("pad" in one.relayouts for one in others)
    plan = ls.synthesize(own, H200)
    assert {step.law for step in plan.derivation} <= {law.name for law in own.laws()}
    assert not product_kernels(Unchanged(300, 200, 511, "bf16", **arguments), H200)
