"""Explanations of products: operands as the planner judges them, repairs that work, letters that are told truly."""

from __future__ import annotations

import random

import pytest

import legalsat as ls
from legalsat.explanation import FALL_BACK
from legalsat.extract.explain.explain_gemm import computed, explain_gemm, product_works
from legalsat.extract.explain.tensor_repair import boxed
from legalsat.operators.gemm import judged_operands
from legalsat.targets import target

T = ls.Tensor
ODD = ls.Gemm(512, 256, 255, "bf16")


def gemm(extents: dict[str, int], dtype: str, majors: str) -> ls.Gemm:
    """Return a product of dense operands, the majors of A and B as "K" or "M", "N"."""
    m, n, k = (extents[letter] for letter in "MNK")
    a = T((m, k), dtype, (k, 1) if majors[0] == "K" else (1, m))
    b = T((n, k), dtype, (k, 1) if majors[1] == "K" else (1, n))
    return ls.Gemm(m, n, k, dtype, a=a, b=b)


def drawn(draw: random.Random) -> ls.Gemm:
    extents = {letter: draw.choice((1, 2, 5, 8, 16, 33, 64, 100, 129, 1000)) for letter in "MNK"}
    dtype = draw.choice(("bf16", "bf16", "fp16", "e4m3", "fp32"))
    product = gemm(extents, dtype, draw.choice(("KK", "KK", "KN", "MK", "MN")))
    if draw.random() < 0.2:
        off = T(product.a.shape, dtype, product.a.strides, 256, draw.choice((4, 8, 16)))
        return ls.Gemm(product.m, product.n, product.k, dtype, a=off, b=product.b)
    return product


@pytest.mark.parametrize("seed", range(4))
def test_verdicts_are_the_operands_and_repairs_make_them_legal(seed: int) -> None:
    draw, gpu, refused = random.Random(seed), target("h200"), 0
    while refused < 3:
        product = drawn(draw)
        found = ls.explain(product, gpu)
        operands = judged_operands(product, gpu)
        legal = {name: boxed(copy, gpu) is not None for name, copy in operands.items()}
        assert [part.legal for part in found.parts] == list(legal.values())
        assert found.legal == all(legal.values())
        codes = [d.code for d in found.diagnostics]
        assert sorted(codes) == sorted(set(codes)), "each rule once"
        if found.legal:
            assert not found.repairs and not found.diagnostics
            continue
        refused += 1
        for name in (name for name, one in legal.items() if not one):
            assert any(name in d.where.partition(":")[0] for d in found.diagnostics)
        [unchanged] = [repair for repair in found.repairs if not repair.mends]
        assert unchanged.after == product and len(found.repairs) > 1
        totals = [repair.once + found.uses * (repair.nanoseconds or 0.0) for repair in found.repairs]
        assert totals == sorted(totals)
        for repair in found.repairs:
            if repair is unchanged:
                continue
            assert isinstance(repair.after, ls.Gemm)
            after = ls.explain(repair.after, gpu)
            assert after.legal, f"{product}: {repair.message}"
            assert (repair.after.m, repair.after.n, repair.after.k) == (product.m, product.n, product.k)
            if repair.kind in ("pad", "major", "dense", "align"):
                now = computed(repair.after, gpu)
                assert now is not None and now.nanoseconds == repair.nanoseconds


@pytest.mark.parametrize("seed", range(3))
def test_letters_are_told_as_explain_judges(seed: int) -> None:
    """Every value of a letter in a range is planned anew."""
    draw, spoken = random.Random(seed), 0
    while spoken < 3:
        gpu = target(draw.choice(("h200", "h200", "b200", "thor")))
        dtype, majors = draw.choice(("bf16", "e4m3", "i8", "fp32")), draw.choice(("KK", "KN", "MK", "MN"))
        extents = {letter: draw.choice((1, 2, 5, 16, 33, 64, 100, 128)) for letter in "MNK"}
        product = gemm(extents, dtype, majors)
        found = explain_gemm(product, gpu)
        for claim in product_works(product, gpu, dict(zip("ABC", found.parts, strict=True))):
            spoken += claim.matters
            for value in range(claim.low, claim.low + claim.period + 3):
                other = gemm({**extents, claim.name: value}, dtype, majors)
                real = all(boxed(copy, gpu) is not None for copy in judged_operands(other, gpu).values())
                assert real == (claim.holds(value) if claim.matters else found.legal), f"{product}: {claim}, at {value}"


def test_an_odd_k_is_told_what_to_do_in_one_answer() -> None:
    found = ls.explain(ODD, "h200")
    (rule,) = found.diagnostics
    assert rule.code == "TMA005" and rule.where.startswith("A and B: ") and "510 bytes" in rule.message
    assert found.values[0] == "works for K % 8 == 0: 1 of 8 values; the nearest to 255 are 248 and 256"
    assert found.values[1] == "M and N do not matter"
    by_kind = {r.kind: r for r in found.repairs}
    pad = by_kind["pad"]
    assert pad.after.a.strides == pad.after.b.strides == (256, 1) and "512 bytes apart (now 510)" in pad.message
    assert pad.bytes_added == 2 * (511 + 255), "an element for each row but the last, of A and of B"
    assert by_kind["repack"].after.constant_b and by_kind["repack"].once < pad.once
    best = next(r for r in found.repairs if r.kind in ("pad", "major"))
    assert by_kind["relayout"].nanoseconds == pytest.approx((best.nanoseconds or 0.0) + best.once)
    assert by_kind["major"].after.a.strides == (1, 512)
    now, unchanged = computed(ODD, target("h200")), by_kind[FALL_BACK]
    assert now is not None and unchanged.nanoseconds == now.nanoseconds
    for repair in found.repairs:
        if repair.pays_from is not None and repair.pays_from > 1:
            saved = now.nanoseconds - (repair.nanoseconds or 0.0)
            assert (repair.pays_from - 1) * saved <= repair.once < repair.pays_from * saved


def test_one_operand_alone_is_mended() -> None:
    b = T((256, 255), "bf16", (1, 256))
    found = ls.explain(ls.Gemm(512, 256, 255, "bf16", b=b), "h200")
    assert [part.legal for part in found.parts] == [False, True, True]
    assert found.diagnostics[0].where.startswith("A: ")
    assert all(repair.after.b == b for repair in found.repairs)
    assert "repack" not in {r.kind for r in found.repairs}, "a weight that is legal stays"


def test_operands_of_eight_bits_are_not_turned() -> None:
    found = ls.explain(ls.Gemm(512, 256, 248, "e4m3"), "h200")
    assert {"pad"} <= {r.kind for r in found.repairs} and "major" not in {r.kind for r in found.repairs}
    assert "K % 16 == 0" in found.values[0]


def test_a_result_without_a_map_is_no_error() -> None:
    found = ls.explain(ls.Gemm(256, 255, 256, "bf16"), "h200")
    assert found.legal and not found.repairs
    assert any("N % 8 == 0" in sentence and "registers" in sentence for sentence in found.values)
    (cliff,) = found.obligations
    assert cliff.consequence == "slow" and "to 103 at 4096 x 4095 x 4096" in cliff.message and "M-17" in cliff.note


def test_the_cliff_is_cited_where_it_was_measured() -> None:
    assert "to 130 at 4096 x 4096 x 4095" in ls.explain(ODD, "h200").obligations[0].message
    assert not ls.explain(ls.Gemm(512, 256, 255, "fp16"), "h200").obligations
    assert not ls.explain(ls.Gemm(512, 256, 256, "bf16"), "h200").obligations
    assert not ls.explain(ls.Gemm(256, 256, 255, "bf16"), "a100").obligations


def test_types_that_are_not_multiplied_are_said_so() -> None:
    found = ls.explain(ls.Gemm(64, 64, 64, "fp64"), "h200")
    assert not found.legal and [d.code for d in found.diagnostics] == ["PROD001"] and not found.parts


def test_a_gpu_without_a_unit_that_reads_shared_memory_is_told_and_has_no_repair() -> None:
    for dtype in ("fp16", "e4m3"):  # which its tensor cores do not know either
        found = ls.explain(ls.Gemm(128, 128, 64, dtype), "a100")
        assert [one.code for one in found.diagnostics] == ["PROD004"]
        assert not found.legal and not found.repairs and not found.way


def test_options_of_tensors_are_refused() -> None:
    with pytest.raises(ls.InvalidInput, match="leave them out"):
        ls.explain(ODD, "h200", tile=(64, 64))


def test_the_text_has_a_table_of_operands_and_the_first_repairs_text() -> None:
    found = ls.explain(ODD, "h200")
    text = str(found)
    assert (
        text.splitlines()[0] == "gemm of bf16, 512 x 256 x 255 on h200: no TMA path for A and B; computed all the same"
    )
    assert "A         bf16 512 x 255   refused   TMA005" in text
    first = next(repair for repair in found.repairs if repair.mends)
    assert all(line in text for line in first.snippets[0].text.splitlines())
    pad = next(repair for repair in found.repairs if repair.kind == "pad")
    assert "a_laid_out = a.new_empty(512, 256)[:, :255]" in pad.snippets[0].text
    assert str(ls.explain(ls.Gemm(256, 256, 256, "bf16"), "h200")).count("as it is: ") == 1


@pytest.mark.parametrize("batch", [1, (1,), (1, 1), (3,), (1, 2)])
@pytest.mark.parametrize("k", [256, 255])
def test_a_batch_is_explained_however_many_products_it_has(batch: int | tuple[int, ...], k: int) -> None:
    product = ls.Gemm(64, 128, k, "bf16", batch=batch)
    for gpu in ("h200", "b200") if product.members.count == 1 else ("h200",):
        found = ls.explain(product, gpu)
        assert found.legal == (k % 8 == 0)
        assert [d.code for d in found.diagnostics] == ([] if found.legal else ["TMA005"])
