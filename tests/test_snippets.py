"""Snippets: texts to paste that give the layouts they name."""

from __future__ import annotations

import ast
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import legalsat as ls
from legalsat.tensor import plain
from legalsat.view.snippets import (
    cute_tensor,
    layout_snippets,
    matmul_snippets,
    plan_text,
    product_snippets,
    relayout_snippets,
    slice_snippets,
    tensor_text,
    tile_snippets,
    torch_allocation,
    torch_copy,
    triton_descriptor,
)

T = ls.Tensor


@st.composite
def layouts(draw: st.DrawFn, most_rank: int = 5) -> ls.Tensor:
    """Draw a tensor each of whose elements has memory of its own: axes in any order, pitches dense, padded or odd."""
    shape = draw(st.lists(st.integers(1, 5), min_size=1, max_size=most_rank))
    strides, step = [0] * len(shape), draw(st.sampled_from((1, 1, 1, 2)))
    for axis in draw(st.permutations(range(len(shape)))):
        strides[axis] = step
        step = step * shape[axis] + draw(st.sampled_from((0, 0, 1, 3)))
        if draw(st.booleans()):
            step = -(-step // 8) * 8
    return T(shape, draw(st.sampled_from(("bf16", "fp32", "u8", "e4m3", "fp64", "bool"))), strides)


def strides_of(text: str) -> tuple[int, ...]:
    """Return the strides of an allocation's text: of the memory, in the order of its axes."""
    if text.startswith("torch.empty_strided"):
        call = ast.parse(text, mode="eval").body
        assert isinstance(call, ast.Call)
        return tuple(ast.literal_eval(call.args[1]))
    found = re.fullmatch(r"x\.new_empty\((.*?)\)(\[.*?\])?(\.t\(\)|\.permute\((.*)\))?", text)
    assert found is not None, text
    held = [int(n) for n in found[1].split(",")]
    steps = [1]
    for extent in reversed(held[1:]):
        steps.append(steps[-1] * extent)
    steps.reverse()
    order = [1, 0] if found[3] == ".t()" else ast.literal_eval(f"[{found[4]}]") if found[4] else range(len(held))
    return tuple(steps[a] for a in order)


@given(layouts())
def test_allocations_have_the_strides_that_are_asked_for(tensor: ls.Tensor) -> None:
    """As far as anything is a stride away."""
    wanted, got = plain(tensor.strides), strides_of(torch_allocation(tensor))
    assert got == wanted


@settings(deadline=None)
@given(layouts())
def test_torch_makes_the_strides_that_are_claimed(tensor: ls.Tensor) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    kinds = {"bf16": torch.bfloat16, "fp32": torch.float32, "u8": torch.uint8, "e4m3": torch.float8_e4m3fn,
             "fp64": torch.float64, "bool": torch.bool}  # fmt: skip
    count = tensor.size
    values = (torch.arange(count) % 2).reshape(plain(tensor.shape)).to(kinds[tensor.dtype.name])
    names: dict[str, Any] = {"torch": torch, "x": values}
    exec(torch_copy(tensor, "y"), names)
    made = names["y"]
    assert (tuple(made.stride()), tuple(made.shape)) == (plain(tensor.strides), plain(tensor.shape))
    assert made.dtype == values.dtype and torch.equal(made.float(), values.float())


def test_rows_are_allocated_with_their_padding() -> None:
    assert torch_allocation(T((4096, 4095), "bf16", (4096, 1))) == "x.new_empty(4096, 4096)[:, :4095]"
    assert torch_allocation(T((4095, 4096), "bf16", (1, 4096))) == "x.new_empty(4096, 4096)[:, :4095].t()"
    assert torch_allocation(T((3, 5, 7), "bf16", (48, 8, 1))) == "x.new_empty(3, 6, 8)[:, :5, :7]"
    assert torch_allocation(T((3, 5), "bf16", (9, 2))).startswith("torch.empty_strided((3, 5), (9, 2)")


def test_packed_and_repeated_elements_have_no_text_in_torch() -> None:
    assert [s.terms for s in layout_snippets(T((64, 64), "e2m1"), "y", None)] == []
    repeated = layout_snippets(T((64, 64), "bf16", (0, 1)), "y", None)
    assert "torch" not in {s.terms for s in repeated}


@given(layouts(), st.data())
def test_descriptors_list_axes_slowest_first(tensor: ls.Tensor, data: st.DataObject) -> None:
    tile = data.draw(st.tuples(*[st.integers(1, 300)] * tensor.rank))
    text = triton_descriptor(tensor, tile)
    if text is None:
        assert min(plain(tensor.strides)) > 1
        return
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call)
    shape, strides, block = (ast.literal_eval(word.value) for word in call.keywords)
    assert strides == sorted(strides, reverse=True) and strides[-1] == 1
    assert sorted(zip(shape, strides, strict=True)) == sorted(zip(tensor.shape, tensor.strides, strict=True))
    assert sorted(block) == sorted(1 << (t - 1).bit_length() for t in tile), "blocks are powers of two"


@given(layouts())
def test_cutes_tensor_has_the_same_numbers(tensor: ls.Tensor) -> None:
    text = cute_tensor(tensor)
    shape, strides = (re.search(rf"make_{what}\((.*?)\)[,;)]", text) for what in ("shape", "stride"))
    assert shape is not None and strides is not None
    assert tuple(int(n) for n in shape[1].split(",")) == tensor.shape
    numbers = strides[1].replace("Int<1>{}", "1")
    assert tuple(int(n) for n in numbers.split(",")) == tensor.strides


@given(layouts(), st.sampled_from((256, 16, 4)), st.integers(0, 3))
def test_a_tensors_text_gives_it_back(tensor: ls.Tensor, align: int, offset: int) -> None:
    other = T(tensor.shape, tensor.dtype, tensor.strides, align, offset)
    assert eval(tensor_text(other), {"ls": ls}) == other


def test_relayouts_are_asked_for_as_python_reads_it() -> None:
    before, after = T((64, 63), "bf16", offset=2), T((64, 63), "bf16", (64, 1))
    (snippet,) = relayout_snippets(before, after, "h200")
    assert snippet.text.count(".compile()") == 1
    names: dict[str, Any] = {"x": None}
    lines = snippet.text.replace(".compile()", "").splitlines()
    exec("\n".join(lines[:-1]), names)  # all but the call of the kernel
    plan = names["lay_out"]
    assert (plan.operator.source, plan.operator.target) == (before, after)


@pytest.mark.parametrize(
    "operator",
    [
        ls.Copy(T((64, 64), "bf16"), tile=(64, 32), consumer="wgmma.a"),
        ls.Copy(T((64, 64), "bf16")),
        ls.Transpose(T((8, 64, 32), "bf16"), (1, 0, 2), tile=(1, 8, 32)),
    ],
)
def test_plans_are_asked_for_as_python_reads_it(operator: ls.Copy | ls.Transpose) -> None:
    names: dict[str, Any] = {"x": operator.source}
    exec(plan_text(operator, "h200"), names)
    assert names["plan"].operator == operator
    assert tile_snippets(operator, "h200")[-1].text == plan_text(operator, "h200")


@pytest.mark.parametrize(("axis", "count", "extent"), [(0, 6, 1), (1, 3, 2), (1, 2, 3)])
def test_slices_cover_all(axis: int, count: int, extent: int) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x = torch.arange(30).reshape(6, 5)
    (snippet,) = slice_snippets(axis, count, extent)
    names: dict[str, Any] = {"x": x, "parts": []}
    exec(f"{snippet.text}\n    parts.append(part)", names)
    join = torch.stack if extent == 1 else torch.cat
    assert len(names["parts"]) == count and torch.equal(join(names["parts"], dim=axis), x)


def test_products_are_computed_from_what_was_laid_out() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    a, b = torch.randn(6, 5), torch.randn(4, 5)
    (snippet,) = product_snippets(T((6, 5), "fp32", (8, 1)), T((4, 5), "fp32", (1, 4)))
    names: dict[str, Any] = {"torch": torch, "a": a, "b": b}
    exec(snippet.text, names)
    assert torch.allclose(names["c"], a @ b.t(), atol=1e-5)
    assert names["a_laid_out"].stride() == (8, 1) and names["b_laid_out"].stride() == (1, 4)
    (kept,) = product_snippets(None, T((4, 5), "fp32", (8, 1)))
    assert "c = a @ b_laid_out.t()" in kept.text
    (ours,) = matmul_snippets(constant_b=True, scaled=False)
    assert ours.text.endswith("c = legalsat.torch.matmul(a, b.t(), constant_b=True)")
