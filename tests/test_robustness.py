"""Whatever is thrown at the public functions: a plan that holds, or a LegalSatError that says what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import legalsat as ls
from legalsat.dtypes import DTYPES
from legalsat.extract.check.recheck import recheck
from legalsat.targets import TARGETS

TARGET_NAMES = tuple(TARGETS)
JUNK: st.SearchStrategy[Any] = st.sampled_from(
    (
        *(None, True, False, -1, 0, 2**31, 2**32, 2**40, 2**62, 2**63, 2**64, 2**200, -(2**63)),
        *(0.0, 1.5, float("nan"), float("inf"), 1j, "", "8", "none", "h200", "bf16", "\0", b"8", [], {}, ()),
        *([1], {"M": 1}, (None,), object, np.int64(4), np.float32(2), np.zeros((2, 2)), range(3), ls.Dim("M")),
        *(ls.Tensor((16, 16), "u8"), ls.TensorMap("u8", (16,), (), (16,)), Ellipsis, NotImplemented, print),
    )
)


def sometimes(strategy: st.SearchStrategy[Any], chance: int = 12) -> st.SearchStrategy[Any]:
    """Draw from the strategy, and one time in `chance` anything at all."""
    return st.integers(1, chance).flatmap(lambda n: JUNK if n == chance else strategy)


EXTENT = sometimes(
    st.sampled_from((1, 1, 2, 3, 7, 8, 16, 31, 64, 100, 128, 256, 257, 4095, 4096, 2**20, 2**31, 2**33, 2**40))
    | st.integers(1, 5000),
    40,
)
STRIDE = sometimes(
    st.sampled_from((0, 1, 1, 2, 8, 16, 64, 128, 4096, 2**30, 2**40, 2**56, 2**60, 2**62)) | st.integers(0, 5000), 40
)
DIM = st.builds(
    ls.Dim, st.sampled_from(("M", "K", "N")), st.sampled_from((1, 8, 64, 3)), st.just(1), st.sampled_from((64, 4096))
)


@st.composite
def tensors(draw: st.DrawFn) -> ls.Tensor:
    """Draw a tensor that may be huge, open, overlapping or of odd unit modes; or raise as its maker does."""
    rank = draw(st.sampled_from((0, 1, 2, 2, 2, 3, 3, 4, 5, 6, 9, 70)))
    extents = EXTENT | DIM if draw(st.integers(0, 3)) == 0 else EXTENT
    shape = draw(sometimes(st.lists(extents, min_size=rank, max_size=rank), 30))
    strides = draw(sometimes(st.none() | st.lists(STRIDE, min_size=rank, max_size=rank), 30))
    if draw(st.integers(0, 4)) == 0 and isinstance(shape, list) and isinstance(strides, list):
        shape = [1 if draw(st.booleans()) else n for n in shape]  # a unit mode's stride means nothing
    name = draw(sometimes(st.sampled_from(tuple(DTYPES)), 30))
    return ls.Tensor(shape, name, strides, draw(sometimes(st.sampled_from((1, 2, 16, 128, 256)), 30)))


@st.composite
def calls(draw: st.DrawFn) -> Callable[[], Any]:
    """Draw a call of a public function; arguments that are no tensors raise when the call is made."""
    data = draw(st.data())
    gpu = data.draw(sometimes(st.sampled_from(("h200", "h200", "sm_90a", *TARGET_NAMES)), 30))
    tile = sometimes(
        st.none() | st.lists(sometimes(st.sampled_from((1, 2, 8, 64, 65, 300, 2**31)), 30), max_size=5), 20
    )
    consumer = sometimes(st.sampled_from((None, None, "threads", "wgmma.a", "wgmma.b")), 30)

    def tensor() -> ls.Tensor:
        return data.draw(tensors())

    def result() -> Any:
        return data.draw(sometimes(st.none(), 5))

    def transposed() -> Any:
        found = tensor()
        order = data.draw(sometimes(st.none() | st.permutations(range(found.rank)), 10))
        return ls.Transpose(found, order, result(), tile=data.draw(tile))

    def bound() -> Any:
        values = data.draw(st.dictionaries(st.sampled_from(("M", "K", "N")), EXTENT, max_size=3))
        return ls.synthesize(tensor(), gpu).bind(**values)

    def junk() -> Any:
        function = data.draw(st.sampled_from((ls.synthesize, ls.explain, ls.violations, ls.Copy, ls.Transpose)))
        return function(data.draw(JUNK), data.draw(JUNK))

    table: dict[str, Callable[[], Any]] = {
        "tensor": lambda: ls.synthesize(tensor(), gpu, tile=data.draw(tile), consumer=data.draw(consumer)),
        "copy": lambda: ls.synthesize(
            ls.Copy(tensor(), result(), tile=data.draw(tile), consumer=data.draw(consumer)), gpu
        ),
        "transpose": lambda: ls.synthesize(transposed(), gpu),
        "explain": lambda: ls.explain(tensor(), gpu, tile=data.draw(tile)),
        "map": lambda: ls.violations(data.draw(maps()), gpu),
        "image": lambda: image(data),
        "junk": junk,
        "bind": bound,
    }
    return table[data.draw(st.sampled_from(sorted(table)))]


@st.composite
def maps(draw: st.DrawFn) -> ls.TensorMap:
    """Draw a tensor map, or raise as its maker does."""
    rank = draw(st.integers(0, 6))

    def numbers(*some: int, count: int = rank) -> Any:
        return draw(sometimes(st.lists(sometimes(st.sampled_from(some), 40), min_size=count, max_size=count), 40))

    names = {
        "dtype": ("bf16", "u8", "f32", "f64", "tf32", 13, 15, 99),
        "interleave": ("none", "none", "none", "16B", "32B", 7),
        "swizzle": ("none", "none", "32B", "64B", "128B", 5, 9),
        "oob_fill": ("zero", "nan", 3),
        "l2_promotion": ("none", "256B", 9),
    }
    fields: dict[str, Any] = {name: draw(sometimes(st.sampled_from(values), 30)) for name, values in names.items()}
    fields["address"] = draw(sometimes(st.sampled_from((0, 16, 24, 2**63)), 30))
    fields["global_dim"] = numbers(1, 8, 64, 100, 2**32, 2**32 + 1, 2**64 - 1)
    fields["global_stride"] = numbers(0, 16, 64, 100, 2**40, 2**64 - 1, count=max(rank - 1, 0))
    fields["element_stride"] = numbers(1, 1, 2, 8, 9, 0)
    if draw(st.booleans()):
        return ls.TensorMap(**fields, box=numbers(1, 8, 16, 32, 64, 256, 257, 0))
    corners = {name: numbers(-1, 0, 1, -200, 2**31 - 1, count=max(rank - 2, 0)) for name in ("lower", "upper")}
    return ls.TensorMap(
        **fields,
        mode="im2col",
        lower_corner=corners["lower"],
        upper_corner=corners["upper"],
        channels=draw(sometimes(st.sampled_from((8, 16, 64, 300, 0)))),
        pixels=draw(sometimes(st.sampled_from((1, 8, 64, 2000, 0)))),
    )


def image(data: Any) -> Any:
    """Call a function on the copy engine with a drawn map."""
    tm = data.draw(maps())
    start = data.draw(sometimes(st.lists(st.sampled_from((0, 8, 16, -16, 3, 2**31 - 1)), min_size=tm.rank, max_size=6)))
    base = data.draw(sometimes(st.sampled_from((0, 128, 1024, 64))))
    function = data.draw(st.sampled_from((ls.smem_image, ls.store_footprint, ls.tx_bytes, ls.smem_bytes)))
    return function(tm) if function in (ls.tx_bytes, ls.smem_bytes) else function(tm, start, base)


def check(call: Callable[[], Any]) -> None:
    """Make the call: it gives a value that holds, or raises a LegalSatError with something to read."""
    try:
        result = call()
    except ls.LegalSatError as refusal:
        text = str(refusal)
        assert len(text) > 20 and " " in text, text
        assert not text.split("\n", maxsplit=1)[0].removesuffix("...").endswith("."), text
        if isinstance(refusal, ls.NoLegalLayout):
            assert refusal.diagnostics, text
            assert all(d.message and d.help and d.note for d in refusal.diagnostics)
        return
    if isinstance(result, ls.MovementPlan) and not result.guard:
        recheck(result)
    if isinstance(result, ls.Explanation):
        assert result.legal == (not any(d.level == "error" for d in result.diagnostics))
        assert result.legal or result.diagnostics
        assert str(result)


@settings(deadline=None, max_examples=250, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(calls())
def test_anything_ends_in_a_plan_or_a_reason(call: Callable[[], Any]) -> None:
    check(call)


@pytest.mark.slow
@settings(deadline=None, max_examples=20_000, suppress_health_check=list(HealthCheck))
@given(calls())
def test_anything_ends_in_a_plan_or_a_reason_20000_times(call: Callable[[], Any]) -> None:
    check(call)


DEGENERATE: dict[str, Callable[[], Any]] = {
    "unit mode with the largest stride": lambda: ls.Tensor((1, 64), "bf16", (2**62, 1)),
    "unit modes with equal strides": lambda: ls.Tensor((1, 1, 64), "bf16", (7, 7, 1)),
    "unit innermost mode": lambda: ls.Tensor((64, 1), "bf16", (8, 3)),
    "all unit modes": lambda: ls.Tensor((1,) * 8, "u8", (0,) * 8),
    "scalar": lambda: ls.Tensor((), "u8"),
    "three bits of a byte": lambda: ls.Tensor((3,), "e2m1"),
    "one six-bit element": lambda: ls.Tensor((1,), "e2m3"),
    "broadcast of everything": lambda: ls.Tensor((64, 64), "bf16", (0, 0)),
    "two to the twenty": lambda: ls.Tensor((2,) * 20, "u8"),
    "long and thin": lambda: ls.Tensor((2**31, 1), "bf16"),
    "a terabyte": lambda: ls.Tensor((2**40,), "u8"),
    "overlapping windows": lambda: ls.Tensor((100, 64), "bf16", (8, 1)),
    "whole tiles beyond 64 bits": lambda: ls.Tensor((4, 2**28, 2**28), "u8"),
    "sixty-four axes": lambda: ls.Tensor((1, 2) * 32, "u8", (0, 1) * 32),
}


@pytest.mark.parametrize("name", DEGENERATE)
@pytest.mark.parametrize("gpu", ["h200", "b200", "mi300x"])
def test_degenerate_tensors_end_in_a_plan_or_a_reason(name: str, gpu: str) -> None:
    tensor = DEGENERATE[name]()
    check(lambda: ls.synthesize(tensor, gpu))
    check(lambda: ls.explain(tensor, gpu))
    whole = tuple(int(n) for n in tensor.shape if isinstance(n, int))
    for tile in ((1,) * tensor.rank, whole, (2**31, *whole[1:])[: tensor.rank]):
        check(lambda tile=tile: ls.synthesize(tensor, gpu, tile=tile))  # type: ignore[misc]
    check(lambda: ls.synthesize(tensor, gpu, consumer="wgmma.a"))
    if tensor.rank > 1:
        check(lambda: ls.synthesize(ls.Transpose(tensor), gpu))
