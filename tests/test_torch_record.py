"""`legalsat.torch.record`: rows say what ran, and tensors made anew from them are the ones that were there."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own

import torch.nn.functional as F  # noqa: E402, N812

import legalsat as ls  # noqa: E402
import legalsat.torch as ours  # noqa: E402
from legalsat.operators import Copy, Im2col, Operator, Pad, Transpose  # noqa: E402
from legalsat.operators.attention import Attention  # noqa: E402
from legalsat.operators.gemm import Gemm  # noqa: E402
from legalsat.sweeps.problem import problem_of  # noqa: E402
from legalsat.sweeps.products import Products  # noqa: E402
from legalsat.sweeps.reading import read  # noqa: E402
from legalsat.sweeps.rows import Row  # noqa: E402
from legalsat.tensor import Tensor, plain  # noqa: E402

Module: Any = torch.nn.Module
NAMES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32, "i8": torch.int8, "i32": torch.int32}


def recorded(run: Callable[[], Any]) -> list[dict[str, Any]]:
    with ours.record() as shapes:
        run()
    return list(shapes)


def the(rows: list[dict[str, Any]], operator: str) -> Operator:
    """Return the only operator of a kind, as its row says it."""
    found = [row for row in rows if row["operator"] == operator]
    assert len(found) == 1 and found[0]["count"] == 1, rows
    return problem_of(found[0], 1).operator


def made(tensor: Tensor, like: Any) -> Any:
    """Return a tensor in fresh memory that lies as a layout says, with the numbers of another; both must lie alike."""
    assert NAMES[tensor.dtype.name] == like.dtype
    shape, strides = plain(tensor.shape), plain(tensor.strides)
    assert (shape, strides) == (tuple(like.shape), tuple(like.stride()))
    memory = torch.zeros(1024 + tensor.span_bits // 8, dtype=torch.uint8)
    start = -memory.data_ptr() % 256 + tensor.offset
    typed = memory[start : start + tensor.span_bits // 8].view(like.dtype)
    anew = typed.as_strided(shape, strides)
    if like.device.type != "meta":
        assert anew.data_ptr() % 16 == like.data_ptr() % 16
        for at in torch.cartesian_prod(*(torch.arange(n) for n in shape)).reshape(-1, len(shape)).tolist():
            anew[tuple(at)] = like[tuple(at)]
    return anew


def numbers(*shape: int, dtype: Any = torch.float32) -> Any:
    return torch.randint(-3, 4, shape).to(dtype)


def linear(bias: bool) -> tuple[Callable[[], Any], Any, Any]:
    x, weight = numbers(5, 7), numbers(3, 7)
    return lambda: F.linear(x, weight, torch.ones(3) if bias else None), x, weight.t()


def operands() -> dict[str, tuple[Any, Any]]:
    """Matrices (M, K) and (K, N) that lie in memory in all sorts of ways."""
    return {
        "dense": (numbers(5, 7), numbers(7, 3)),
        "weight": (numbers(5, 7), numbers(3, 7).t()),
        "both turned": (numbers(7, 5).t(), numbers(3, 7).t()),
        "pitch": (numbers(5, 9)[:, :7], numbers(7, 11)[:, :3]),
        "odd offset": (numbers(5, 9)[:, 1:8], numbers(8, 3)[1:]),
        "half": (numbers(5, 9, dtype=torch.bfloat16)[:, 1:8], numbers(3, 8, dtype=torch.bfloat16).t()[1:]),
        "steps": (numbers(10, 14)[::2, ::2], numbers(7, 6)[:, ::2]),
        "one row": (numbers(1, 7), numbers(7, 3)),
        "one column": (numbers(5, 1), numbers(1, 3)),
        "repeated": (numbers(1, 7).expand(5, 7), numbers(7, 1).expand(7, 3)),
    }


@pytest.mark.parametrize("case", operands())
def test_products_of_matrices_lie_as_they_were(case: str) -> None:
    a, b = operands()[case]
    product = the(recorded(lambda: torch.mm(a, b)), "gemm")
    assert isinstance(product, Gemm)
    anew = made(product.a, a), made(product.b, b.t())
    assert torch.equal(anew[0] @ anew[1].t(), a @ b)
    made(product.c, a @ b)


@pytest.mark.parametrize("bias", [False, True])
def test_linear_layers_are_products_by_their_turned_weights(bias: bool) -> None:
    layer, x = torch.nn.Linear(7, 3, bias=bias), numbers(2, 5, 7)
    rows = recorded(lambda: layer(x))
    assert rows == [{"operator": "gemm", "m": 10, "n": 3, "k": 7, "dtype": "fp32", "name": "", "count": 1}]
    with torch.no_grad():
        assert recorded(lambda: layer(x)) == [{**rows[0], "constant_b": True}]
    with torch.inference_mode():  # where operators come whole
        assert recorded(lambda: layer(x)) == [{**rows[0], "constant_b": True}]


def batches() -> dict[str, tuple[Any, Any]]:
    x = numbers(2, 4, 3, 5)
    return {
        "dense": (numbers(4, 3, 5), numbers(4, 5, 2)),
        "heads": (x.transpose(1, 2)[0], x.transpose(1, 2)[1].transpose(1, 2)),
        "one for all": (numbers(4, 3, 5), numbers(1, 5, 2).expand(4, 5, 2)),
        "single": (numbers(1, 3, 5), numbers(1, 5, 2)),
        "odd offset": (numbers(4, 3, 6)[:, :, 1:], numbers(5, 5, 2)[1:]),
    }


@pytest.mark.parametrize("case", batches())
def test_batched_products_lie_as_they_were(case: str) -> None:
    a, b = batches()[case]
    product = the(recorded(lambda: torch.bmm(a, b)), "gemm")
    if case == "single":
        a, b = a[0], b[0]
        assert isinstance(product, Gemm)
    else:
        assert isinstance(product, Products)
    anew = made(product.a, a), made(product.b, b.mT)
    assert torch.equal(anew[0] @ anew[1].mT, a @ b)
    made(product.c, a @ b)


def test_einsum_is_a_batched_product() -> None:
    a, b = numbers(2, 3, 4, 5), numbers(2, 3, 5, 6)
    product = the(recorded(lambda: torch.einsum("xyij,xyjk->xyik", a, b)), "gemm")
    assert isinstance(product, Products)
    assert (product.batch, product.m, product.n, product.k) == (6, 4, 6, 5)


def test_other_products() -> None:
    a, b, c = numbers(4, 7), numbers(7, 3), numbers(4, 3)
    kept = (numbers(2, 4, 7), numbers(2, 7, 3), numbers(2, 4, 3))
    for run, said in [
        (lambda: torch.addmm(c, a, b), (4, 3, 7, "fp32")),
        (lambda: c.addmm_(a, b), (4, 3, 7, "fp32")),
        (lambda: torch.mv(a, b[:, 0]), (4, 1, 7, "fp32")),
        (lambda: a[0] @ b, (1, 3, 7, "fp32")),
        (lambda: torch.mm(a, b, out=c), (4, 3, 7, "fp32")),
    ]:
        product = the(recorded(run), "gemm")
        assert isinstance(product, Gemm)
        assert (product.m, product.n, product.k, product.dtype.name) == said
    product = the(recorded(lambda: torch.baddbmm(kept[2], kept[0], kept[1])), "gemm")
    assert isinstance(product, Products) and product.batch == 2
    eights = torch.zeros(32, 32, dtype=torch.int8)
    product = the(recorded(lambda: torch._int_mm(eights, eights)), "gemm")
    assert isinstance(product, Gemm) and (product.dtype.name, product.out_dtype.name) == ("i8", "i32")


def attended() -> dict[str, tuple[Any, Any, Any]]:
    """Queries, keys and values (batch, heads, tokens, head)."""
    qkv = numbers(2, 9, 8, 3 * 16)  # of one product, as (batch, tokens, heads, ...)
    return {
        "bhsd": (numbers(2, 4, 9, 16), numbers(2, 4, 11, 16), numbers(2, 4, 11, 16)),
        "bshd": tuple(numbers(2, 9, 4, 16).transpose(1, 2) for _ in range(3)),
        "grouped": (numbers(2, 8, 9, 16), numbers(2, 2, 9, 16), numbers(2, 2, 9, 16)),
        "slices": tuple(part.transpose(1, 2) for part in qkv.split(16, -1)),
        "odd": tuple(numbers(2, 4, 9, 19)[..., 3:] for _ in range(3)),
    }


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("case", attended())
def test_attention_is_one_operator(case: str, device: str) -> None:
    q, k, v = attended()[case]
    if device == "meta":  # keeps the storage that views share, and where they begin there
        q, k, v = (torch.empty(one.untyped_storage().nbytes() // 4, device="meta").as_strided(
            one.shape, one.stride(), one.storage_offset()) for one in (q, k, v))  # fmt: skip
    results = []
    rows = recorded(lambda: results.append(F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)))
    assert len(rows) == 1, "and not the products inside it"
    found = the(rows, "attention")
    assert isinstance(found, Attention) and found.causal
    assert (found.heads, found.kv_heads) == (q.shape[1], k.shape[1])
    for tensor, real in ((found.q, q), (found.k, k), (found.v, v), (found.out, results[0])):
        made(tensor, real)
    if device == "meta":
        assert [tensor.offset for tensor in (found.q, found.k, found.v)] == [
            one.storage_offset() * 4 % 16 for one in (q, k, v)
        ]


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_attention_in_modules_is_one_operator(device: str, inference: bool) -> None:
    layer = torch.nn.MultiheadAttention(32, 4, batch_first=True, device=device)
    x = torch.ones(2, 5, 32, device=device)
    with torch.inference_mode(inference):
        rows = recorded(lambda: layer(x, x, x, need_weights=False))
    found = the(rows, "attention")
    assert isinstance(found, Attention) and (found.batch, found.heads, found.queries, found.head) == (2, 4, 5, 8)
    assert sorted(row["n"] for row in rows if row["operator"] == "gemm") == [32, 96]


def test_flexible_attention_is_one_operator() -> None:
    flexible = pytest.importorskip("torch.nn.attention.flex_attention").flex_attention
    q = torch.ones(1, 2, 128, 16)
    found = the(recorded(lambda: flexible(q, q, q)), "attention")
    assert isinstance(found, Attention) and (found.heads, found.queries, found.head) == (2, 128, 16)


def test_fused_kernels_say_how_they_come_apart() -> None:
    layer, x = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval(), torch.ones(2, 5, 32)
    with torch.no_grad(), ours.record() as fused:
        layer(x)
    assert any("set_fastpath_enabled(False)" in what for what in fused.passed_over), fused.passed_over
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.no_grad():
            kinds = [row["operator"] for row in recorded(lambda: layer(x))]
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    assert kinds.count("gemm") == 4 and kinds.count("attention") == 1


def convolved() -> dict[str, Any]:
    images = numbers(2, 6, 9, 8)
    return {
        "nchw": images,
        "nhwc": images.contiguous(memory_format=torch.channels_last),
        "cropped": numbers(2, 6, 11, 13)[:, :, 1:10, 3:11],
        "some channels": numbers(2, 9, 8, 8).permute(0, 3, 1, 2)[:, 1:7],
    }


@pytest.mark.parametrize("case", convolved())
def test_convolutions_see_images_as_they_lie(case: str) -> None:
    images, weight = convolved()[case], numbers(4, 3, 3, 2)
    options: dict[str, Any] = {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2), "groups": 2}
    rows = recorded(lambda: F.conv2d(images, weight, **options))
    found = the(rows, "conv")
    assert isinstance(found, Im2col)
    made(found.source, images.permute(0, 2, 3, 1))
    result = F.conv2d(images, weight, **options)
    assert found.target.shape == (2, result.shape[2], result.shape[3], 3, 2, 6)
    assert (rows[0]["filters"], rows[0]["groups"]) == (4, 2)


def test_convolutions_of_lines_are_of_images_of_one_line() -> None:
    found = the(recorded(lambda: F.conv1d(numbers(2, 6, 9), numbers(4, 6, 3), stride=2, padding=1)), "conv")
    assert isinstance(found, Im2col)
    assert plain(found.target.shape) == (2, 1, 5, 1, 3, 6)


def test_padding_says_which_side() -> None:
    x = numbers(2, 3, 8)[..., 1:]
    found = the(recorded(lambda: F.pad(x, (1, 2, 0, 3), value=1.5)), "pad")
    assert isinstance(found, Pad) and found.value == 1.5
    made(found.source, x)
    made(found.target, F.pad(x, (1, 2, 0, 3)))
    assert found.padding == ((0, 0), (0, 3), (1, 2))


def moved() -> dict[str, Callable[[Any], tuple[Any, Any]]]:
    """What makes a source of numbers, and what copies it."""
    return {
        "matrix": lambda x: (x[0], x[0].t().contiguous()),
        "heads": lambda x: (x, x.transpose(0, 1).contiguous()),
        "turned all round": lambda x: (x, x.permute(2, 0, 1).contiguous()),
        "part": lambda x: (x[:, 1:, 1:], x[:, 1:, 1:].transpose(1, 2).contiguous()),
    }


@pytest.mark.parametrize("case", moved())
def test_transposes_keep_their_order_of_axes(case: str) -> None:
    x = numbers(3, 5, 7)
    kept: list[Any] = []
    found = the(recorded(lambda: kept.extend(moved()[case](x))), "transpose")
    assert isinstance(found, Transpose)
    source = made(found.source, kept[0])
    assert torch.equal(source.permute(found.order).contiguous(), kept[1])
    assert found.target.strides == tuple(kept[1].stride())


def test_copies_keep_both_sides() -> None:
    source, target = numbers(5, 9)[:, 1:8], numbers(5, 12)[:, 3:10]
    found = the(recorded(lambda: target.copy_(source)), "copy")
    assert isinstance(found, Copy)
    made(found.source, source)
    made(found.target, target)
    spread = the(recorded(lambda: target.copy_(source[:1])), "copy")
    assert isinstance(spread, Copy) and plain(spread.source.strides) == (0, 1)


class Block(Module):  # type: ignore[misc]
    """A layer of a language model, with heads that share keys."""

    def __init__(self, width: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head = heads, kv_heads, width // heads
        self.qkv = torch.nn.Linear(width, (heads + 2 * kv_heads) * self.head, bias=False)
        self.out = torch.nn.Linear(width, width, bias=False)
        self.mlp = torch.nn.Sequential(torch.nn.Linear(width, 2 * width - 1), torch.nn.GELU())
        self.down = torch.nn.Linear(2 * width - 1, width)

    def forward(self, x: Any) -> Any:
        parts = self.qkv(x).split([n * self.head for n in (self.heads, self.kv_heads, self.kv_heads)], -1)
        q, k, v = (part.unflatten(-1, (-1, self.head)).transpose(1, 2) for part in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.down(self.mlp(x))


def model(device: str = "cpu") -> Any:
    torch.manual_seed(1)
    return torch.nn.ModuleDict({"layers": torch.nn.ModuleList([Block(64, 4, 2) for _ in range(2)])}).to(device)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_model_says_which_module_runs_what(device: str) -> None:
    net, x = model(device), torch.ones(3, 8, 64, device=device)

    class Whole(Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, x: Any) -> Any:
            for layer in self.net["layers"]:
                x = layer(x)
            return x

    with torch.no_grad():
        rows = recorded(lambda: Whole()(x))
    products = {row["name"]: (row["m"], row["n"], row["k"]) for row in rows if row["operator"] == "gemm"}
    expected = {"qkv": (24, 128, 64), "out": (24, 64, 64), "mlp.0": (24, 127, 64), "down": (24, 64, 127)}
    assert products == {f"net.layers.{i}.{name}": size for i in range(2) for name, size in expected.items()}
    assert all(row["constant_b"] for row in rows if row["operator"] == "gemm")
    assert [row["name"] for row in rows if row["operator"] == "attention"] == ["net.layers.0", "net.layers.1"]


def test_a_module_that_runs_twice_counts_twice() -> None:
    layer, x = torch.nn.Sequential(torch.nn.Linear(8, 8)), torch.ones(2, 8)
    rows = recorded(lambda: layer(layer(x)))
    assert [(row["name"], row["count"]) for row in rows] == [("0", 2)]


def test_backward_passes_are_recorded() -> None:
    layer, x = torch.nn.Linear(7, 3), torch.ones(5, 7, requires_grad=True)
    rows = recorded(lambda: layer(x).sum().backward())
    sizes = [(row["name"], row["m"], row["n"], row["k"]) for row in rows if row["operator"] == "gemm"]
    assert sizes == [("", 5, 3, 7), ("backward", 5, 7, 3), ("backward", 3, 7, 5)]


def test_nothing_changes() -> None:
    net, x = model()["layers"], torch.randn(3, 8, 64)

    def run() -> list[Any]:
        net.zero_grad()
        y = net[1](net[0](x))
        y.square().sum().backward()
        return [y.detach(), *(one.grad.clone() for one in net.parameters())]

    plainly, attend = run(), F.scaled_dot_product_attention
    with ours.record() as shapes:
        watched = run()
    assert len(shapes) and F.scaled_dot_product_attention is attend
    assert all(torch.equal(a, b) for a, b in zip(plainly, watched, strict=True))
    assert not torch.nn.modules.module._global_forward_hooks
    assert not torch.nn.modules.module._global_forward_pre_hooks


def test_errors_leave_nothing_behind() -> None:
    layer, x = torch.nn.Sequential(torch.nn.Linear(8, 8)), torch.ones(2, 9)
    attend = F.scaled_dot_product_attention
    with ours.record() as shapes:
        with pytest.raises(RuntimeError):
            layer(x)
        layer(x[:, 1:])
    assert [row["name"] for row in shapes] == ["0"]
    with pytest.raises(ZeroDivisionError), ours.record():
        raise ZeroDivisionError
    assert F.scaled_dot_product_attention is attend


def test_no_tensor_is_kept() -> None:
    layer, x = torch.nn.Linear(8, 8), torch.ones(2, 8)
    with ours.record() as shapes:
        y = layer(x)
    gone = [weakref.ref(one) for one in (x, y, layer.weight)]
    del x, y, layer
    gc.collect()
    assert len(shapes) == 1 and [one() for one in gone] == [None] * 3


def test_compiled_functions_are_recorded_as_they_are() -> None:
    def twice(x: Any) -> Any:
        return x @ x

    compiled = torch.compile(twice, backend="eager", fullgraph=True)
    x = torch.ones(4, 4)
    compiled(x)
    assert recorded(lambda: compiled(x)) == recorded(lambda: twice(x)) != []


def test_what_rows_cannot_say_is_passed_over_with_the_reason() -> None:
    x = torch.ones(4, 4)
    with ours.record() as shapes:
        (x + 0j) @ (x + 0j)
        F.conv_transpose2d(x[None, None], x[None, None])
        x[:0] @ x
        torch.softmax(x, 0)
        x.to(torch.bfloat16)
        x.to_sparse() @ x
        x.view(2, 8).t()
    assert len(shapes) == 0
    said = "\n".join(shapes.passed_over)
    for words in ("complex64", "it is transposed", "a tensor is empty", "_softmax", "to torch.bfloat16"):
        assert words in said
    assert "view" not in said and "aten.t" not in said.split(), "views move nothing"
    assert "passed over: 1 x aten._softmax" in str(shapes)


def test_rows_are_saved_and_swept(tmp_path: Path) -> None:
    net = model()["layers"]
    with ours.record() as shapes, torch.no_grad():
        net[0](torch.ones(1, 4, 64))
    shapes.save(tmp_path / "shapes.json")
    assert json.loads((tmp_path / "shapes.json").read_text()) == list(shapes)
    lines = [row for row in read(tmp_path / "shapes.json") if isinstance(row, Row)]
    assert [problem_of(row.values, row.line).operator for row in lines] == [
        problem_of(row, 1).operator for row in shapes
    ]
    assert "gemm of fp32, 4 x 127 x 64" in str(shapes) and "mlp.0" in str(shapes)
    with pytest.raises(ls.InvalidInput, match=r"does not end in \.json"):
        shapes.save(tmp_path / "shapes.txt")
    with pytest.raises(ls.InvalidInput, match="cannot write"):
        shapes.save(tmp_path / "none" / "shapes.json")


def test_recordings_may_be_nested() -> None:
    q = torch.ones(1, 2, 3, 8, device="meta")
    with ours.record() as outer:
        F.scaled_dot_product_attention(q, q, q)
        with ours.record() as inner:
            F.scaled_dot_product_attention(q, q, q)
    assert [row["count"] for row in outer] == [2] and [row["count"] for row in inner] == [1]
