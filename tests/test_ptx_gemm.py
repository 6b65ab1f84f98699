"""PTX of products planned operand by operand: run thread by thread on a model of the machine, assembled, or refused."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from ptx_formats import decode, encode
from ptx_machine import Global, Stuck, run
from small_products import MORE, PRODUCTS, Case

import legalsat as ls
from legalsat.backends.ptx import emit_ptx, launch_of
from legalsat.backends.ptx.adapter import product_of
from legalsat.backends.ptx.assemble import assemble
from legalsat.backends.ptx.kernel import emit
from legalsat.backends.ptx.product import Product, shared_map
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.tensor import plain

WORDS: dict[int, Any] = {8: np.uint8, 16: np.uint16, 32: np.uint32}
UNTOUCHED = 0xA5


@lru_cache
def planned(case: Case) -> GemmPlan:
    plan = ls.synthesize(case.gemm(), case.target)
    assert isinstance(plan, GemmPlan)
    return plan


class Matrix:
    """A tensor in memory of its own."""

    def __init__(self, tensor: ls.Tensor, kind: str) -> None:
        (rows, columns), (down, across) = plain(tensor.shape), plain(tensor.strides)
        self.kind, bits = kind, tensor.dtype.bits
        self._at = np.arange(rows)[:, None] * down + np.arange(columns)[None, :] * across
        self.memory = np.full((int(self._at.max()) + 1) * bits // 8, UNTOUCHED, dtype=np.uint8)
        self._words = self.memory.view(WORDS[bits])

    def put(self, values: Any) -> None:
        self._words[self._at] = encode(values, self.kind)

    def raw(self) -> Any:
        return self._words[self._at]

    def gaps(self) -> Any:
        """Return the words that are no elements."""
        return np.delete(self._words, self._at.reshape(-1))


def multiply(plan: GemmPlan, product: Product, text: str, blocks: list[int], seed: int = 0) -> tuple[Any, Any, Any]:
    """Run some blocks; return C as it is, as it should be there, and which elements these blocks own."""
    rng = np.random.default_rng(seed)
    launch = launch_of(plan.block)
    sides = [Matrix(plan.block.a.source, product.types[0]), Matrix(plan.block.b.source, product.types[1])]
    values = [rng.integers(-2, 3, side.raw().shape).astype(float) for side in sides]
    for side, one in zip(sides, values, strict=True):
        side.put(one)
    c = Matrix(plan.operator.c, product.c.type)
    memories = [*(side.memory for side in sides), c.memory]
    tensors = {
        name: Global(memory, tm)
        for name, memory, tm in zip(launch.parameters, memories, (*launch.maps, None), strict=False)
    }
    run(text, blocks, shared_map(product).bytes, tensors, seed)
    (m, n, k), down = product.tile, product.tiles[0]
    depth = product.tiles[2] * k
    expected = encode(values[0][:, :depth] @ values[1][:, :depth].T, product.c.type)
    owned = np.zeros(expected.shape, dtype=bool)
    for block in blocks:
        owned[block % down * m :, block // down * n :][:m, :n] = True
    assert np.all(c.gaps() == c.gaps().dtype.type(UNTOUCHED * (2 ** (8 * c.gaps().itemsize) - 1) // 255))
    return c.raw(), np.where(owned, expected, UNTOUCHED * 0x01010101 & (2 ** (8 * product.c.size) - 1)), owned


@pytest.mark.parametrize("case", [*PRODUCTS, *(pytest.param(c, marks=pytest.mark.slow) for c in MORE)], ids=str)
def test_kernels_multiply_right(case: Case) -> None:
    """The first tile, and the last one, which overhangs; nothing else is written."""
    plan = planned(case)
    last = launch_of(plan.block).grid - 1
    found, expected, owned = multiply(
        plan, product_of(plan.block), emit_ptx(plan.block), sorted({0, last}), seed=len(str(case))
    )
    assert owned.any()
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("tiles", "stages"), [(1, 2), (2, 3), (3, 2), (5, 3)])
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_the_ring_turns_right(target: str, tiles: int, stages: int) -> None:
    """Whatever the number of tiles along K and of stages."""
    plan = planned(Case(target, (24, 16, 7 * 64), "bf16"))
    product = product_of(plan.block)
    product = replace(product, stages=stages, extent=(24, 16, tiles * product.tile[2]))
    found, expected, _ = multiply(plan, product, emit(product), [0], seed=tiles + 10 * stages)
    np.testing.assert_array_equal(found, expected)


SPOILT = {
    "no proxy fence": ("sm_90a", r"fence\.proxy\.async\.shared::cta;", "bar.warp.sync 0xffffffff;"),
    "too many bytes expected": ("sm_90a", r"(expect_tx\S* _, \S+ )(\d+);", r"\g<1>1\g<2>;"),
    "stage freed too early": ("sm_90a", r"wgmma\.wait_group\.sync\.aligned 1;", "wgmma.fence.sync.aligned;"),
    "sums read too early": ("sm_90a", r"wgmma\.wait_group\.sync\.aligned 0;", "wgmma.fence.sync.aligned;"),
    "wrong parity": ("sm_90a", r"xor\.b32 (%r\d+), (%r\d+), 1;\nWAIT", r"mov.b32 \1, \2;\nWAIT"),
    "step along K too long": ("sm_90a", r"add\.u64 (%d\d+), (%d\d+), 2;", r"add.u64 \1, \2, 4;"),
    "tensor memory kept": ("sm_100a", r"tcgen05\.dealloc.*;", "bar.warp.sync 0xffffffff;"),
}


@pytest.mark.parametrize("what", sorted(SPOILT))
def test_the_machine_notices(what: str) -> None:
    """A kernel that is spoilt hangs, faults or is wrong; so the tests above can fail."""
    target, found, instead = SPOILT[what]
    plan = planned(Case(target, (24, 16, 7 * 64), "bf16"))
    product = replace(product_of(plan.block), stages=2)
    text, count = re.subn(found, instead, emit(product))
    assert count
    try:
        got, expected, _ = multiply(plan, product, text, [0], seed=1)
    except Stuck:
        return
    assert np.any(got != expected)


@pytest.mark.parametrize("case", PRODUCTS, ids=str)
def test_numbers_are_those_of_the_plan(case: Case) -> None:
    """The barrier counts what the maps bring, and every descriptor is one that the plan names."""
    plan = planned(case).block
    text, launch = emit_ptx(plan), launch_of(plan)
    assert plan.mma is not None and plan.mma.a is not None and plan.mma.b is not None
    boxes = [shared.boxes for shared in (plan.a.shared[0], plan.b.shared[0])]
    # How bytes are swizzled, which the model of the copy engine knows of sm_90 alone, does not change their number.
    maps = [replace(tm, swizzle="none") for tm in launch.maps]
    brought = sum(count * ls.tx_bytes(tm) for count, tm in zip(boxes, maps, strict=False))
    assert re.findall(r"expect_tx\S* _, \S+ (\d+);", text) == [str(brought)]
    assert text.count("complete_tx::bytes") == sum(boxes)
    words = {int(word) for word in re.findall(r"add\.u64 %d\d+, %d\d+, (\d{6,});", text)}
    assert words == {plan.mma.a.word(0, 0), plan.mma.b.word(0, 0)}
    assert len(re.findall(r"mbarrier\.init", text)) == 2 * plan.stages + (plan.mma.unit == "tcgen05")
    assert launch.shared <= plan.target.shared_bytes_per_block
    assert launch.grid == -(-case.extent[0] // plan.tile[0]) * -(-case.extent[1] // plan.tile[1])
    assert launch.threads == 32 * plan.launch.warps


LARGE = [
    Case("sm_90a", (4096, 4096, 4096), "bf16"),
    Case("sm_100a", (4096, 4095, 4096), "fp16", majors="MM"),
    Case("h200", (8192, 8192, 136), "e5m2"),
]


@pytest.mark.parametrize("case", [*LARGE, *PRODUCTS], ids=str)
def test_kernels_assemble(case: Case) -> None:
    plan = planned(case)
    assert assemble(emit_ptx(plan.block), plan.target.architecture)[:4] == b"\x7fELF"


@pytest.mark.parametrize(
    ("gemm", "target", "says"),
    [
        (ls.Gemm(64, 64, 64, "bf16"), "a100", "neither wgmma"),
        (ls.Gemm(64, 64, 63, "bf16", a=ls.Tensor((64, 63), "bf16", (64, 1))), "b200", "no matrix unit|travels by"),
        (ls.Gemm(64, 64, 64, "bf16", c=ls.Tensor((64, 64), "bf16", (1, 64))), "b200", "runs along m"),
    ],
)
def test_what_cannot_be_printed_is_refused(gemm: Any, target: str, says: str) -> None:
    plan = ls.synthesize(gemm, target)
    with pytest.raises(ls.LegalSatError, match=says):
        plan.emit("ptx")


def test_backends_print_their_own_kind() -> None:
    with pytest.raises(ls.LegalSatError, match="give one of cute, ptx, triton, host"):
        planned(Case("sm_90a", (24, 16, 7 * 64), "bf16")).emit("host-python")  # type: ignore[arg-type]
    with pytest.raises(ls.LegalSatError, match="backend is 'ptx'"):
        ls.synthesize(ls.Copy(ls.Tensor((64, 64), "bf16")), "h200").emit("ptx")  # type: ignore[arg-type]


def test_formats_agree_with_numpy() -> None:
    """Where numpy has the format; the others by what their every code means."""
    values = np.random.default_rng(0).normal(size=100).astype(np.float32)
    assert np.array_equal(encode(values, "fp16"), values.astype(np.float16).view(np.uint16))
    for name in ("e4m3", "e5m2", "bf16", "i8"):
        codes = np.arange(256, dtype=np.uint32) << (8 if name == "bf16" else 0)
        known = codes[np.isfinite(decode(codes, name))]
        assert np.array_equal(encode(decode(known, name), name), known)
