"""`legalsat.torch`: the operator on tensors of the host and without data, where torch is installed."""

from __future__ import annotations

import ctypes
import logging
import re
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own

import legalsat as ls  # noqa: E402
import legalsat.torch as ours  # noqa: E402
from legalsat.runtime import Kernel  # noqa: E402
from legalsat.runtime.kept import KEPT, Kept  # noqa: E402
from legalsat.runtime.kernel import _Call  # noqa: E402
from legalsat.runtime.memory import TorchMemory  # noqa: E402
from legalsat.runtime.program import AddressArgument, Operand, Program, Recipe, Relayout  # noqa: E402
from legalsat.targets import target  # noqa: E402


def operands(grad: bool = False) -> tuple[Any, Any]:
    torch.manual_seed(1)
    return torch.randn(5, 7, requires_grad=grad), torch.randn(9, 7, requires_grad=grad)


def test_what_has_no_plan_is_torchs_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    a, w = operands()
    ours.forget()
    with caplog.at_level(logging.INFO, logger="legalsat.torch"):
        assert torch.equal(ours.matmul(a, w.t()), a @ w.t())
    assert "operands are on cpu and cpu; move both to one GPU" in caplog.text
    found = ours.way(a, w.t())
    assert found.kernel is None and str(found).startswith("torch.matmul, since operands are on cpu")
    assert "give matrices, or batches that agree" in ours.way(a[None], w.t()).reason


RANKS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((2, 5, 7), (7, 9)),
    ((2, 3, 5, 7), (7, 9)),
    ((7,), (7, 9)),
    ((5, 7), (7,)),
    ((7,), (7,)),
    ((3, 5, 7), (3, 7, 9)),
]
EMPTY: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((0, 7), (7, 9)),
    ((5, 7), (7, 0)),
    ((5, 0), (0, 9)),
    ((0, 0), (0, 0)),
    ((2, 0, 7), (7, 9)),
    ((2, 5, 0), (0, 9)),
    ((0, 5, 0), (0, 9)),
    ((2, 5, 7), (7, 0)),
]


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("shapes", [*RANKS, *EMPTY], ids=str)
def test_other_ranks_and_empty_operands_are_as_torchs(shapes: Any, grad: bool) -> None:
    ends = []
    for product in (ours.matmul, torch.matmul):
        torch.manual_seed(1)
        a, b = (torch.randn(shape, requires_grad=grad) for shape in shapes)
        found = product(a, b)
        if grad:
            found.sum().backward()
        ends.append((found, a.grad, b.grad))
    for one, other in zip(*ends, strict=True):
        assert (one is None) == (other is None)
        assert one is None or (one.shape == other.shape and torch.allclose(one, other))


def on_gpus(*shapes: tuple[int, ...], kinds: Any = (), devices: tuple[str, str] = ("cuda:0", "cuda:0")) -> Any:
    """Return tensors without data that say they are on GPUs."""
    kinds = kinds or (torch.bfloat16,) * 2
    with torch._subclasses.FakeTensorMode():
        return [
            torch.empty(shape, dtype=kind, device=device)
            for shape, kind, device in zip(shapes, kinds, devices, strict=True)
        ]


@pytest.mark.parametrize("shapes", [one for one in EMPTY if len(one[0]) == 2], ids=str)
def test_no_kernel_is_planned_for_empty_operands(shapes: Any) -> None:
    assert "which leave nothing to multiply" in ours._unsuitable(*on_gpus(*shapes))


def test_what_is_not_planned_for_is_said() -> None:
    shapes, byte, float32 = ((5, 7), (7, 9)), torch.int8, torch.float32
    reasons = {
        "operands have shapes (2, 5, 7) and (7, 9); give matrices, or batches that agree": on_gpus((2, 5, 7), (7, 9)),
        "operands are on cuda:0 and cpu; move both": on_gpus(*shapes, devices=("cuda:0", "cpu")),
        "operands are of torch.int8 and torch.int8; cast both": on_gpus(*shapes, kinds=(byte, byte)),
        "operands are of torch.bfloat16 and torch.int8; cast both": on_gpus(*shapes, kinds=(torch.bfloat16, byte)),
        "fp32 would go by tf32; allow that": on_gpus(*shapes, kinds=(float32, float32)),
        "a has 7 columns and b 8 rows; give as many": on_gpus((5, 7), (8, 9)),
        "b repeats elements; copy it": [on_gpus(*shapes)[0], on_gpus((7, 1), (7, 1))[1].expand(7, 9)],
    }
    for reason, (a, b) in reasons.items():
        assert ours._unsuitable(a, b).startswith(reason)
        with pytest.raises(ls.LegalSatError, match=re.escape(f"nothing can be timed: {reason}")):
            ours.tune(a, b)
    assert not ours._unsuitable(*on_gpus(*shapes))


def test_no_kernel_is_launched_by_rocm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "hip", "6.4")
    assert ours._unsuitable(*on_gpus((5, 7), (7, 9))).startswith("torch is built for ROCm")


def test_tf32_is_allowed_by_either_of_torchs_ways() -> None:
    matmul = torch.backends.cuda.matmul
    before = torch.get_float32_matmul_precision()
    try:
        assert not ours._tf32_allowed()
        torch.set_float32_matmul_precision("high")
        assert ours._tf32_allowed()
        torch.set_float32_matmul_precision("highest")
        assert not ours._tf32_allowed()
        if hasattr(matmul, "fp32_precision"):
            matmul.fp32_precision = "tf32"
            assert ours._tf32_allowed(), "where torch refuses to answer in its older way"
            matmul.fp32_precision = "ieee"
            assert not ours._tf32_allowed()
    finally:
        torch.set_float32_matmul_precision(before)


def test_products_of_8_bits_are_wider_without_a_kernel_too() -> None:
    # Whole numbers, whose sums are exact.
    a, w = (torch.randint(-2, 3, shape).to(torch.float8_e4m3fn) for shape in ((5, 7), (9, 7)))
    want = (a.double() @ w.double().t()).bfloat16()
    found = ours.matmul(a, w.t())
    assert found.dtype == torch.bfloat16 and torch.equal(found, want)
    assert torch.equal(ours.matmul(a[0], w.t()), want[0]), "of another rank"
    a.requires_grad_()
    ours.matmul(a, w.t()).sum().backward()
    assert torch.equal(a.grad.float(), w.float().sum(0).expand(5, 7).to(torch.float8_e4m3fn).float())


def test_sparse_operands_are_torchs() -> None:
    a, w = operands()
    for sparse in (a.to_sparse(), a.to_sparse_csr()):
        assert torch.allclose(ours.matmul(sparse, w.t()), a @ w.t())


def test_negated_views_are_planned_as_the_operator_gets_them() -> None:
    _, w = operands()
    lazy = torch.view_as_complex(torch.randn(5, 7, 2)).conj().imag
    assert lazy.is_neg() and lazy.stride() != (7, 1)
    assert torch.allclose(ours.matmul(lazy, w.t()), lazy @ w.t())
    ours.forget()
    ours.way(lazy, w.t())
    (key,) = ours._ways.found
    assert key == ours._class_of(lazy.resolve_neg(), w.t(), False)


def test_transforms_and_tangents_are_torchs() -> None:
    a, w = operands()
    tangent = torch.randn(5, 7)
    want = tangent @ w.t()
    assert torch.allclose(torch.func.jvp(lambda x: ours.matmul(x, w.t()), (a,), (tangent,))[1], want)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(a, tangent)
        assert ours._watched(), "a kernel would lose the tangent"
        found = torch.autograd.forward_ad.unpack_dual(ours.matmul(dual, w.t())).tangent
    assert torch.allclose(found, want)
    slope = torch.func.grad(lambda x: ours.matmul(x, w.t()).sum())(a)
    assert torch.allclose(slope, w.sum(0).expand(5, 7))
    three = torch.randn(3, 5, 7)
    assert torch.allclose(torch.vmap(lambda x: ours.matmul(x, w.t()))(three), three @ w.t(), atol=1e-6)


def test_way_says_which_backend_and_why_no_better_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """As on an H200 whose machine has no nvcc; the operands are the host's, which nothing here looks into."""

    def missing() -> str:
        raise ls.LegalSatError("no nvcc was found; install it")

    monkeypatch.setenv("LEGALSAT_CACHE", str(tmp_path))
    monkeypatch.setattr("legalsat.backends.cute.compile.nvcc_version", missing)
    monkeypatch.setattr(ours, "_unsuitable", lambda *_: "")
    monkeypatch.setattr(ours, "_target", lambda _: target("h200"))
    monkeypatch.setattr(Kernel, "load", lambda kernel, _: kernel.build())
    a, w = torch.zeros(64, 128, dtype=torch.bfloat16), torch.zeros(64, 128, dtype=torch.bfloat16)
    ours.forget()
    with caplog.at_level(logging.INFO, logger="legalsat.torch"):
        found = ours.way(a, w.t())
    assert found.kernel is not None and found.kernel.backend == "ptx"
    said = "<Kernel: gemm of bf16, 64 x 64 x 128, for sm_90a, by ptx>, since cute: no nvcc was found; install it"
    assert str(found) == said and said in caplog.text
    assert ours.way(a, w.t()) is found
    monkeypatch.setattr("legalsat.backends.first_of", lambda *_: (found.kernel, ""))
    ours.forget()
    assert str(ours.way(a, w.t())) == repr(found.kernel), "nothing was passed over"
    ours.forget()


def test_writing_into_a_tensor_counts_as_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = ls.Tensor((4,), "fp32")
    recipe = Recipe("k", (1, 1, 1), 32, 0, (AddressArgument("x"),))
    kernel = Kernel(Program("s", "sm_90a", "", (Operand("x", tensor), Operand("y", tensor)), (recipe,)))
    monkeypatch.setattr(kernel, "_call", lambda _, out, stream: out)
    x, y = torch.zeros(4), torch.zeros(4)
    x_before, y_before = x._version, y._version
    assert kernel(x, out=y) is y
    assert x._version == x_before and y._version > y_before
    with torch.inference_mode():
        assert kernel(x, out=torch.zeros(4)) is not None, "which counts nothing"


def test_the_operator_keeps_torchs_contracts() -> None:
    for grad in (False, True):
        a, w = operands(grad)
        torch.library.opcheck(torch.ops.legalsat.matmul.default, (a, w.t(), not grad))


def test_gradients_are_those_of_matmul() -> None:
    for needs in ((True, True), (True, False), (False, True)):
        ends = []
        for way in (ours.matmul, torch.matmul):
            a, w = operands()
            a.requires_grad_(needs[0]), w.requires_grad_(needs[1])
            (way(a, w.t()).sum() * 3).backward()
            ends.append((a.grad, w.grad))
        for one, other in zip(*ends, strict=True):
            assert (one is None) == (other is None)
            assert one is None or torch.allclose(one, other)


def test_compilation_keeps_one_call() -> None:
    graphs = []

    def look(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    a, w = operands()
    three = torch.randn(2, 5, 7)
    compiled = torch.compile(lambda x, y: ours.matmul(x.relu(), y.t()) + 1, fullgraph=True, backend=look)
    for x in (a, three):
        assert torch.allclose(compiled(x, w), x.relu() @ w.t() + 1)
    for graph in graphs:
        called = [node.target for node in graph.graph.nodes if node.op == "call_function"]
        assert sum("legalsat" in str(one) for one in called) == 1


def test_shapes_without_data_are_those_of_the_result() -> None:
    for kind, result in ((torch.bfloat16, torch.bfloat16), (torch.float8_e4m3fn, torch.bfloat16)):
        a, b = (torch.empty(shape, dtype=kind, device="meta") for shape in ((5, 7), (7, 9)))
        found = torch.ops.legalsat.matmul(a, b, False)
        assert (found.shape, found.stride(), found.dtype) == ((5, 9), (9, 1), result)
    with pytest.raises(RuntimeError, match="a has 7 columns and b 5 rows"):
        torch.ops.legalsat.matmul(a, torch.empty(5, 9, dtype=kind, device="meta"), False)


def test_products_are_planned_as_they_lie() -> None:
    memory = torch.zeros(4096, dtype=torch.bfloat16)
    begin = (-memory.data_ptr() % 16) // 2
    a = memory[begin + 1 : begin + 1 + 15 * 8].view(15, 8)
    b = memory[begin : begin + 8 * 31].view(31, 8).t()
    found = ours.product_of(a, b, constant_b=True)
    assert (found.m, found.n, found.k, found.dtype.name, found.constant_b) == (15, 31, 8, "bf16", True)
    assert (found.a.strides, found.a.align, found.a.offset) == ((8, 1), 16, 2)
    assert (found.b.shape, found.b.strides, found.b.offset) == ((31, 8), (8, 1), 0)


def test_what_is_kept_of_a_constant_goes_by_its_storage_and_version() -> None:
    kept, weight = Kept(), torch.zeros(4, 4)
    assert kept.find("pad", [weight]) is None
    kept.keep("pad", [weight], 1234, "memory")
    assert kept.find("pad", [weight]) == kept.find("pad", [weight.t()]) == (1234, True)
    assert kept.find("transpose", [weight]) is None and kept.find("pad", [weight[1:]]) is None
    weight.t()[0] += 1
    assert kept.find("pad", [weight]) == (1234, False), "changed in place, through a view"
    kept.renew("pad", [weight])
    assert kept.find("pad", [weight]) == (1234, True)
    address = weight.data_ptr()
    same = torch.frombuffer((ctypes.c_float * 16).from_address(address), dtype=torch.float32)
    assert same.data_ptr() == address and kept.find("pad", [same]) is None, "another storage at the same address"
    del weight
    other = torch.zeros(2)
    kept.keep("pad", [other], 5, "memory")
    assert len(kept._entries) == 1, "the first tensor's memory went with it"
    kept.keep("transpose", [other], 6, "memory")
    kept.forget(["pad", "none"])
    assert kept.find("pad", [other]) is None and kept.find("transpose", [other]) == (6, True)
    with torch.inference_mode():
        assert not Kept.trackable(torch.zeros(2))
    assert Kept.trackable(other) and not Kept.trackable(object())


def test_whoever_looks_on_is_noticed() -> None:
    base: Any = torch.overrides.TorchFunctionMode

    class Functions(base):  # type: ignore[misc]
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return function(*args, **(kwargs or {}))

    seen: list[bool] = []
    assert not ours._watched()
    for watcher in (torch._subclasses.FakeTensorMode(), Functions()):
        with watcher:
            seen.append(ours._watched())
    torch.set_autocast_enabled("cuda", True)
    seen.append(ours._watched())
    torch.set_autocast_enabled("cuda", False)

    def look(x: Any) -> Any:
        seen.append(ours._watched())
        return x

    torch.vmap(look)(torch.zeros(2, 2))
    assert seen == [True] * 4 and not ours._watched()


class HostMemory(TorchMemory):
    """Takes memory from the host, and captures when it is told to."""

    def __init__(self) -> None:
        self.waits, self.capturing = 0, False

    def take(self, size: int) -> tuple[int, Any]:
        found = torch.empty(size, dtype=torch.uint8)
        return found.data_ptr(), found

    def captures(self) -> bool:
        return self.capturing

    def wait(self) -> None:
        self.waits += 1


class Launches:
    """What is loaded where nothing is: it writes launches down."""

    def __init__(self, log: list[Any], name: str) -> None:
        self.log, self.name, self.device = log, name, type("Device", (), {"index": 0})

    def launch(self, names: tuple[str, ...], key: tuple[int, ...]) -> None:
        self.log.append((self.name, dict(zip(names, key, strict=False))))


def test_kernels_share_what_they_make_of_a_weight() -> None:
    """As those of one weight's products at several m do; a change in place, and `forget`, count for all of them."""
    weight = ls.Tensor((8, 7), "bf16")
    moves = Recipe("k", (1, 1, 1), 32, 0, (AddressArgument("source"), AddressArgument("target")))
    operands = (Operand("source", weight), Operand("target", ls.Tensor((8, 7), "bf16", (8, 1))))
    mover = Program("pad", "sm_90a", "", operands, (moves,))
    log: list[Any] = []
    kernels = []
    for m in (1, 2):
        ends = Operand("a", ls.Tensor((m, 7), "bf16")), Operand("b", weight), Operand("c", ls.Tensor((m, 8), "bf16"))
        recipe = Recipe("k", (1, 1, 1), 32, 0, tuple(AddressArgument(one.name) for one in ends))
        made = Program(f"m = {m}", "sm_90a", "", ends, (recipe,), before=(Relayout("b", mover, True),))
        kernel = Kernel(made)
        for one, name in ((kernel, made.subject), (kernel._before[0], "pad")):
            loaded: Any = Launches(log, name)
            one._loaded[0] = loaded
        kernels.append(kernel)
    memory, b = HostMemory(), torch.zeros(8, 7, dtype=torch.bfloat16)

    def run(kernel: Kernel) -> tuple[list[str], int]:
        log.clear()
        kernel._run(kernel._loaded[0], _Call((None, b), [1, b.data_ptr(), 3], 0, memory))
        return [name for name, _ in log], log[-1][1]["b"]

    one, other = kernels
    names, address = run(one)
    assert names == ["pad", "m = 1"] and memory.waits == 1
    assert run(other) == (["m = 2"], address) and run(one) == (["m = 1"], address)
    b += 1
    assert run(other) == (["pad", "m = 2"], address), "the same memory again, whose address graphs may hold"
    assert run(one) == (["m = 1"], address)
    b += 1
    memory.capturing = True
    names, captured = run(one)
    assert names == ["pad", "m = 1"] and captured != address, "a graph lays it out at each replay"
    memory.capturing = False
    assert run(one)[0] == ["pad", "m = 1"]
    other.forget()
    assert run(one)[0] == ["pad", "m = 1"]
    one.forget()
    assert not [key for key in KEPT._entries if key[0] in one._relayouts]


def scaled_operands() -> tuple[Any, Any, Any, Any]:
    torch.manual_seed(2)
    a, w = (torch.randn(rows, 32).to(torch.float8_e4m3fn) for rows in (16, 48))
    return a, w.t(), torch.tensor(0.5), torch.tensor([3.0])


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float32])
def test_scaled_products_are_torchs_where_there_is_no_kernel(kind: Any) -> None:
    a, b, scale_a, scale_b = scaled_operands()
    found = ours.scaled_mm(a, b, scale_a, scale_b, out_dtype=kind)
    exact = 1.5 * (a.double() @ b.double())
    assert found.dtype == kind
    assert float((found.double() - exact).norm() / exact.norm()) < 2**-8
    operator = torch.ops.legalsat.scaled_mm.default  # whose schema torch cannot test with such operands
    tests = ("test_autograd_registration", "test_faketensor")
    options = {"out_dtype": kind, "constant_b": False}
    torch.library.opcheck(operator, (a, b, scale_a, scale_b), options, test_utils=tests)


def test_scaled_products_are_planned_with_scales_in_the_gpus_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[Any] = []

    class Stub:
        def run(self, _: Any, arrays: tuple[Any, ...]) -> Any:
            return arrays

    def kernel_for(product: Any, *_: Any) -> tuple[Any, str]:
        planned.append(product)
        return Stub(), ""

    monkeypatch.setattr("legalsat.runtime.ways.kernel_for", kernel_for)
    monkeypatch.setattr(ours, "_unsuitable", lambda a, b: "")
    monkeypatch.setattr(ours, "_target", lambda a: None)
    ours.forget()
    a, b, scale_a, scale_b = operands = scaled_operands()
    for _ in range(2):
        run: Any = ours._compute_scaled(*operands, out_dtype=torch.float16, constant_b=True)
        assert all(one is other for one, other in zip(run, operands, strict=True))
    (product,) = planned
    assert (product.scaled, product.out_dtype.name, product.c.dtype.name, product.constant_b) == (
        "tensor", "fp16", "fp16", True,
    )  # fmt: skip
    assert (product.m, product.n, product.k, product.b.strides) == (16, 48, 32, (32, 1))
    refused = ours._asked_scaled(a, b, (scale_a.expand(16, 1), scale_b), torch.float16, True)
    assert isinstance(refused, ours.Way) and "for each row and column" in refused.reason
    assert str(refused).startswith("torch._scaled_mm, since")
    rows = (torch.rand(16, 1), torch.rand(1, 48))
    given: Any = ours._compute_scaled(a, b, *rows, out_dtype=torch.float16, constant_b=True)
    assert given[2] is rows[0] and given[3] is rows[1]
    assert planned[-1].scaled == "rows" and planned[-1].others["scale_b"].shape == (48,)
    ours._ways.found.clear()


def test_what_torch_refuses_too_says_why_there_is_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise RuntimeError("Expected trailing dimension of mat1 to be divisible by 16")

    monkeypatch.setattr(torch, "_scaled_mm", refuse)
    ours.forget()
    with pytest.raises(ls.LegalSatError, match="no kernel is there: operands are on cpu"):
        ours.scaled_mm(*scaled_operands())


def test_compilation_keeps_one_call_of_a_scaled_product() -> None:
    graphs = []

    def look(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    operands = scaled_operands()
    compiled = torch.compile(lambda *x: ours.scaled_mm(*x) + 1, fullgraph=True, backend=look)
    assert torch.equal(compiled(*operands), ours.scaled_mm(*operands) + 1)
    (graph,) = graphs
    called = [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]
    assert sum("legalsat.scaled_mm" in one for one in called) == 1


ENDS = (3, 3, 10, 25, 25)  # of groups, of 30 in all


def ends_of(*ends: int) -> Any:
    return torch.tensor(ends, dtype=torch.int32)


def of_groups(a: Any, b: Any) -> Any:
    """Products of groups, one after the other: rows of a, or along a's columns where b has no groups of its own."""
    found, begin = [], 0
    for group, end in enumerate(ENDS):
        found.append(a[begin:end] @ b[group] if b.dim() == 3 else a[:, begin:end] @ b[begin:end])
        begin = end
    return torch.cat(found) if b.dim() == 3 else torch.stack(found)


@pytest.mark.parametrize("shapes", [((30, 8), (5, 8, 16)), ((12, 30), (30, 16))], ids=("rows", "along k"))
def test_groups_and_their_gradients_are_products_of_each(shapes: Any) -> None:
    torch.manual_seed(4)
    ends = torch.tensor(ENDS, dtype=torch.int32)
    a, b = (torch.randn(shape, requires_grad=True) for shape in shapes)
    found = ours.grouped_mm(a, b, ends)
    expected = of_groups(a, b)
    weights = torch.randn(expected.shape)
    (found[: len(expected)] * weights).sum().backward()
    gradients = a.grad, b.grad
    a.grad = b.grad = None
    (expected * weights).sum().backward()
    assert torch.allclose(found[: len(expected)], expected, atol=1e-5)
    for one, other in zip(gradients, (a.grad, b.grad), strict=True):
        assert torch.allclose(one, other, atol=1e-5)


def test_groups_of_columns_are_those_of_rows_of_the_transposed() -> None:
    a, b, ends = torch.randn(5, 12, 8), torch.randn(8, 30), torch.tensor(ENDS, dtype=torch.int32)
    found = ours.grouped_mm(a, b, ends)
    assert found.shape == (12, 30)
    assert torch.allclose(found[:, :25], of_groups(b.t(), a.mT).t(), atol=1e-5)
    assert ours.grouped_mm(a, a.mT).shape == (5, 12, 12)


def test_scales_of_groups_are_multiplied_where_sums_leave() -> None:
    torch.manual_seed(5)
    kind, ends = torch.float8_e4m3fn, torch.tensor(ENDS, dtype=torch.int32)
    a, b = torch.randn(30, 32).to(kind), torch.randn(5, 16, 32).to(kind).mT
    exact = of_groups(a.double(), b.double())
    whose = torch.bucketize(torch.arange(25), torch.tensor(ENDS), right=True)
    for scale_a, scale_b in (
        (torch.rand(30), torch.rand(5, 16)),
        (torch.rand(5), torch.rand(5)),
        (torch.rand(()),) * 2,
    ):
        found = ours.scaled_grouped_mm(a, b, scale_a, scale_b, ends, out_dtype=torch.float32)
        of_a = scale_a if scale_a.dim() == 0 else scale_a[:25, None] if len(scale_a) == 30 else scale_a[whose, None]
        of_b = scale_b if scale_b.dim() == 0 else scale_b[whose].reshape(25, -1)
        assert torch.allclose(found[:25].double(), exact * of_a * of_b, rtol=1e-5)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (lambda: ours.grouped_mm(torch.zeros(3, 4), torch.zeros(4, 5)), "give"),
        (
            lambda: ours.grouped_mm(torch.zeros(3, 4), torch.zeros(2, 4, 5), torch.zeros(3, dtype=torch.int32)),
            "as many",
        ),
        (lambda: ours.grouped_mm(torch.zeros(3, 4), torch.zeros(2, 4, 5), torch.zeros(2)), "int32"),
        (lambda: ours.scaled_grouped_mm(*[torch.zeros(3, 4)] * 5), "give"),
        (lambda: ours.grouped_mm(torch.zeros(3, 4), torch.zeros(2, 4, 5), ends_of(1, 4)), "ends at 4"),
        (lambda: ours.grouped_mm(torch.zeros(3, 4), torch.zeros(4, 5), ends_of(3, 1)), "ends at 1, and it begins at 3"),
    ],
)
def test_groups_that_do_not_fit_are_refused(given: Any, says: str) -> None:
    with pytest.raises(ls.InvalidInput, match=says):
        given()


def test_grouped_operators_are_registered_as_torch_asks() -> None:
    ends, kind = torch.tensor(ENDS, dtype=torch.int32), torch.float8_e4m3fn
    usual = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(
        torch.ops.legalsat.grouped_mm.default, (torch.randn(12, 30), torch.randn(30, 16), ends, False), test_utils=usual
    )
    operands = (torch.randn(30, 32).to(kind), torch.randn(5, 16, 32).to(kind).mT, torch.rand(5), torch.rand(5), ends)
    options = {"out_dtype": torch.bfloat16, "constant_b": False}
    torch.library.opcheck(torch.ops.legalsat.scaled_grouped_mm.default, operands, options, test_utils=usual[1:])
