"""`legalsat.torch`: the operator on tensors of the host and without data, where torch is installed."""

from __future__ import annotations

import ctypes
import logging
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own

import legalsat.torch as ours  # noqa: E402
from legalsat.runtime.kept import Kept  # noqa: E402


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
    assert "flatten them" in ours.way(a[None], w.t()).reason


@pytest.mark.parametrize(
    "shapes", [((2, 5, 7), (7, 9)), ((7,), (7, 9)), ((3, 5, 7), (3, 7, 9)), ((0, 7), (7, 9)), ((2, 0, 7), (7, 9))]
)
def test_other_ranks_are_as_torchs(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = (torch.randn(shape) for shape in shapes)
    assert torch.allclose(ours.matmul(a, b), torch.matmul(a, b))


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
    assert kept.find(0, weight) is None
    kept.keep(0, weight, 1234, "memory")
    assert kept.find(0, weight) == kept.find(0, weight.t()) == (1234, True)
    assert kept.find(1, weight) is None and kept.find(0, weight[1:]) is None
    weight.t()[0] += 1
    assert kept.find(0, weight) == (1234, False), "changed in place, through a view"
    kept.renew(0, weight)
    assert kept.find(0, weight) == (1234, True)
    address = weight.data_ptr()
    same = torch.frombuffer((ctypes.c_float * 16).from_address(address), dtype=torch.float32)
    assert same.data_ptr() == address and kept.find(0, same) is None, "another storage at the same address"
    del weight
    other = torch.zeros(2)
    kept.keep(0, other, 5, "memory")
    assert len(kept._entries) == 1, "the first tensor's memory went with it"
    kept.forget()
    assert kept.find(0, other) is None
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
