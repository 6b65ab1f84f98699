"""Legality classes: what is said of the smallest operand of a class holds for every operand of it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import legalsat as ls
from legalsat.extract.explain.explain import explain_tensor
from legalsat.extract.kernels.product_kernels import best_kernels, product_kernels
from legalsat.operators import Copy
from legalsat.operators.attention import Attention
from legalsat.sweeps.classes import judged, smallest_equal
from legalsat.targets import target

H200 = target("h200")
T = ls.Tensor
EXTENTS = st.one_of(st.integers(1, 20), st.integers(1, 300), st.integers(1, 9000).map(lambda n: 8 * n))
TYPES = st.sampled_from(("bf16", "fp16", "e4m3", "fp32", "i8"))


@st.composite
def operands(draw: st.DrawFn) -> Copy:
    dtype = draw(TYPES)
    kind = draw(st.sampled_from(("gemm", "attention", "copy")))
    if kind == "gemm":
        gemm = ls.Gemm(draw(EXTENTS), draw(EXTENTS), draw(EXTENTS), dtype)
        found = gemm.travels(H200)
    elif kind == "attention":
        head = draw(st.sampled_from((33, 40, 64, 72, 80, 96, 100, 128)))
        layout = draw(st.sampled_from(("bhsd", "bshd")))
        attention = Attention(draw(st.integers(1, 3)), 4, draw(EXTENTS), draw(EXTENTS), head, dtype, layout=layout)  # type: ignore[arg-type]
        found = attention.travels(H200)
    else:
        rows, columns, more = draw(EXTENTS), draw(EXTENTS), draw(st.sampled_from((0, 1, 2, 4, 8)))
        align = draw(st.sampled_from((1, 2, 4, 8, 16, 256)))
        by_rows = draw(st.booleans())
        strides = (columns + more, 1) if by_rows else (1, rows + more)
        tile = (draw(st.sampled_from((64, 128))), draw(st.sampled_from((32, 64, 128))))
        source = T((rows, columns), dtype, strides, align=align)
        return Copy(source, tile=tile, consumer=draw(st.sampled_from((None, "threads"))))
    name = draw(st.sampled_from(sorted(found)))
    one = found[name]
    assert isinstance(one, Copy)
    return one


@settings(deadline=None, max_examples=60)
@given(operands())
def test_a_class_says_what_explain_says(operand: Copy) -> None:
    found = explain_tensor(operand, H200)
    of_class = judged(smallest_equal(operand), H200)
    assert of_class.legal == found.legal
    assert set(of_class.codes) == {d.code for d in found.diagnostics if d.level == "error"}
    mended = any(repair.kind not in ("fall back", "consumer") for repair in found.repairs)
    assert bool(of_class.repairs) == (mended and not found.legal)


@given(operands())
def test_the_smallest_of_a_class_is_in_it(operand: Copy) -> None:
    least = smallest_equal(operand)
    assert smallest_equal(least) == least
    assert least.source.size <= max(operand.source.size, 600**2)


def test_classes_saturate() -> None:
    """Ten times as many products of all residues have hardly more classes."""

    def classes(extents: range) -> int:
        gemms = (ls.Gemm(m, 4096 + m, 8192 + 3 * m, "bf16") for m in extents)
        sides = [one for gemm in gemms for one in gemm.travels(H200).values()]
        return len({smallest_equal(one) for one in sides if isinstance(one, Copy)})

    few, many = classes(range(300, 400)), classes(range(300, 1300))
    assert few == many < 40


@settings(deadline=None, max_examples=25)
@given(st.lists(st.tuples(EXTENTS, EXTENTS, EXTENTS, st.booleans()), min_size=1, max_size=6), TYPES)
def test_products_are_timed_together_as_alone(extents: list[tuple[int, int, int, bool]], dtype: str) -> None:
    gemms = [ls.Gemm(m, n, k, dtype, constant_b=constant) for m, n, k, constant in extents]
    alone = [product_kernels(gemm, H200, 1) for gemm in gemms]
    assert best_kernels(gemms, H200) == [found[0] if found else None for found in alone]


@pytest.mark.parametrize("stride", [2**31, 2**36])
def test_near_a_limit_an_operand_is_its_own_class(stride: int) -> None:
    operand = Copy(T((8, 64), "bf16", (stride, 1)), tile=(8, 64))
    assert smallest_equal(operand) == operand
