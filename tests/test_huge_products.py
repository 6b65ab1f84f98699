"""Products of huge extents: what is planned can be shown, with what runs in front, and what is refused has a rule."""

from __future__ import annotations

import random

import pytest

import legalsat as ls


def drawn(draw: random.Random) -> ls.Gemm:
    """Return a product one of whose operands has 2^29 elements and more, in lines, columns or scattered."""
    long, wide = 2 ** draw.randint(9, 30) - draw.randint(0, 9), 2 ** draw.randint(9, 30) + draw.randint(0, 9)
    while not 2**29 <= long * wide <= 2**40:
        long, wide = 2 ** draw.randint(9, 30) - draw.randint(0, 9), 2 ** draw.randint(9, 30) + draw.randint(0, 9)
    rows, depth, dtype = draw.choice((1, 3, 128, 4095)), wide, draw.choice(("u8", "bf16", "e4m3", "tf32"))
    step, beyond = draw.choice((1, 1, 2, 3)), draw.choice((0, 1, 16))
    strides = draw.choice((((depth + beyond) * step, step), (step, (long + beyond) * step)))
    huge = ls.Tensor((long, depth), dtype, strides=strides)
    if draw.random() < 0.5:
        return ls.Gemm(long, rows, depth, dtype, a=huge)
    return ls.Gemm(rows, long, depth, dtype, b=huge)


@pytest.mark.parametrize("chip", ["h200", "b200"])
def test_plans_of_huge_products_can_be_shown(chip: str) -> None:
    draw, found = random.Random(2029), {"planned": 0, "laid out anew": 0, "refused": 0}
    while min(found.values()) < 8:
        product = drawn(draw)
        try:
            plan = ls.synthesize(product, chip)
        except ls.NoLegalLayout as refusal:
            assert {d.code for d in refusal.diagnostics} == {"GRAN002"}, product
            said = ls.explain(product, chip)
            assert not said.legal and "GRAN002" in {d.code for d in said.diagnostics} and not said.way
            found["refused"] += 1
            continue
        assert str(product) in str(plan)
        assert len(plan.before) == sum(first != "none" for first in plan.kernel.relayouts)
        found["laid out anew" if plan.before else "planned"] += 1


def test_an_operand_is_refused_at_the_extent_from_which_its_relayout_counts_too_far() -> None:
    def product(rows: int) -> ls.Gemm:
        return ls.Gemm(1, rows, 2**20, "u8", b=ls.Tensor((rows, 2**20), "u8", strides=(2**21, 2)))

    plan = ls.synthesize(product(2047), "h200")  # an element is a unit, and a block's threads are 256 more
    assert plan.before and plan.emit("cute")
    with pytest.raises(ls.NoLegalLayout, match="operand B is too large to be laid out anew"):
        ls.synthesize(product(2048), "h200")
    batch = ls.Gemm(1, 1024, 2**20, "u8", batch=2, b=ls.Tensor((2, 1024, 2**20), "u8", strides=(2**31, 2**21, 2)))
    with pytest.raises(ls.NoLegalLayout, match="GRAN002"):
        ls.synthesize(batch, "h200")  # members are laid out together
