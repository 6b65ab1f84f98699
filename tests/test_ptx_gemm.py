"""PTX of products planned operand by operand: run thread by thread on a model of the machine, assembled, or refused."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from legalsat.backends.ptx.blocks.adapter import product_of
from legalsat.backends.ptx.blocks.kernel import emit
from legalsat.backends.ptx.blocks.product import Product, shared_map
from legalsat.plans.block_plan import BlockPlan
from ptx_formats import decode, encode
from ptx_machine import Global, Stuck, run
from small_products import MORE, PRODUCTS, Case

import legalsat as ls
from legalsat.backends.ptx import emit_ptx, launch_of
from legalsat.backends.ptx.assemble import assemble
from legalsat.tensor import plain

WORDS: dict[int, Any] = {8: np.uint8, 16: np.uint16, 32: np.uint32}
UNTOUCHED = 0xA5


@lru_cache
def planned(case: Case) -> BlockPlan:
    plan = ls.synthesize(case.gemm(), case.target).tiled
    assert plan is not None
    return plan


def on_blackwell(cases: list[Case]) -> list[Case]:
    return [case for case in cases if case.target == "sm_100a"]


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


@dataclass(frozen=True)
class Printed:
    """What a text of one tile a block computes: C = A B^T of these tensors, of elements encoded so, and its launch."""

    matrices: tuple[ls.Tensor, ls.Tensor, ls.Tensor]
    kinds: tuple[str, str, str]
    tile: tuple[int, int, int]
    down: int  # tiles along m
    depth: int  # elements along k that it multiplies
    shared: int
    parameters: tuple[str, ...]
    maps: tuple[ls.TensorMap, ...]


def printed(plan: BlockPlan, product: Product) -> Printed:
    launch = launch_of(plan)
    return Printed(
        (plan.a.source, plan.b.source, plan.operator.c),
        (*product.types[:2], product.c.type),
        product.tile,
        product.tiles[0],
        product.tiles[2] * product.tile[2],
        shared_map(product).bytes,
        launch.parameters,
        launch.maps,
    )


def multiply(one: Printed, text: str, blocks: list[int], seed: int = 0) -> tuple[Any, Any, Any]:
    """Run some blocks; return C as it is, as it should be there, and which elements these blocks own."""
    rng = np.random.default_rng(seed)
    *sides, c = (Matrix(tensor, kind) for tensor, kind in zip(one.matrices, one.kinds, strict=True))
    values = [rng.integers(-2, 3, side.raw().shape).astype(float) for side in sides]
    for side, drawn in zip(sides, values, strict=True):
        side.put(drawn)
    memories = [*(side.memory for side in sides), c.memory]
    tensors = {
        name: Global(memory, tm) for name, memory, tm in zip(one.parameters, memories, (*one.maps, None), strict=False)
    }
    run(text, blocks, one.shared, tensors, seed)
    m, n, _ = one.tile
    expected = encode(values[0][:, : one.depth] @ values[1][:, : one.depth].T, one.kinds[2])
    owned = np.zeros(expected.shape, dtype=bool)
    for block in blocks:
        owned[block % one.down * m :, block // one.down * n :][:m, :n] = True
    assert np.all(c.gaps() == c.gaps().dtype.type(UNTOUCHED * (2 ** (8 * c.gaps().itemsize) - 1) // 255))
    bits = one.matrices[2].dtype.bits
    return c.raw(), np.where(owned, expected, UNTOUCHED * 0x01010101 & (2**bits - 1)), owned


@pytest.mark.parametrize(
    "case",
    [*on_blackwell(PRODUCTS), *(pytest.param(c, marks=pytest.mark.slow) for c in on_blackwell(MORE))],
    ids=str,
)
def test_kernels_multiply_right(case: Case) -> None:
    """The first tile, and the last one, which overhangs; nothing else is written."""
    plan = planned(case)
    last = launch_of(plan).grid - 1
    found, expected, owned = multiply(
        printed(plan, product_of(plan)), emit_ptx(plan), sorted({0, last}), seed=len(str(case))
    )
    assert owned.any()
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("tiles", "stages"), [(1, 2), (2, 3), (3, 2), (5, 3)])
def test_the_ring_turns_right(tiles: int, stages: int) -> None:
    """Whatever the number of tiles along K and of stages."""
    plan = planned(Case("sm_100a", (24, 16, 7 * 64), "bf16"))
    product = product_of(plan)
    product = replace(product, stages=stages, extent=(24, 16, tiles * product.tile[2]))
    found, expected, _ = multiply(printed(plan, product), emit(product), [0], seed=tiles + 10 * stages)
    np.testing.assert_array_equal(found, expected)


SPOILT = {
    "no proxy fence": (r"fence\.proxy\.async\.shared::cta;", "bar.warp.sync 0xffffffff;"),
    "too many bytes expected": (r"(expect_tx\S* _, \S+ )(\d+);", r"\g<1>1\g<2>;"),
    "wrong parity": (r"xor\.b32 (%r\d+), (%r\d+), 1;\nWAIT", r"mov.b32 \1, \2;\nWAIT"),
    "step along K too long": (r"add\.u64 (%d\d+), (%d\d+), 2;", r"add.u64 \1, \2, 4;"),
    "tensor memory kept": (r"tcgen05\.dealloc.*;", "bar.warp.sync 0xffffffff;"),
}


@pytest.mark.parametrize("what", sorted(SPOILT))
def test_the_machine_notices(what: str) -> None:
    """A kernel that is spoilt hangs, faults or is wrong; so the tests above can fail."""
    found, instead = SPOILT[what]
    plan = planned(Case("sm_100a", (24, 16, 7 * 64), "bf16"))
    product = replace(product_of(plan), stages=2)
    text, count = re.subn(found, instead, emit(product))
    assert count
    try:
        got, expected, _ = multiply(printed(plan, product), text, [0], seed=1)
    except Stuck:
        return
    assert np.any(got != expected)


@pytest.mark.parametrize("case", on_blackwell(PRODUCTS), ids=str)
def test_numbers_are_those_of_the_plan(case: Case) -> None:
    """The barrier counts what the maps bring, and every descriptor is one that the plan names."""
    plan = planned(case)
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
    assert len(re.findall(r"mbarrier\.init", text)) == 2 * plan.stages + 1
    assert launch.shared <= plan.target.shared_bytes_per_block
    assert launch.grid == -(-case.extent[0] // plan.tile[0]) * -(-case.extent[1] // plan.tile[1])
    assert launch.threads == 32 * plan.launch.warps


LARGE = [
    Case("sm_100a", (4096, 4096, 4096), "bf16"),
    Case("sm_100a", (4096, 4095, 4096), "fp16", majors="MM"),
    Case("b200", (8192, 8192, 136), "e5m2"),
]


@pytest.mark.parametrize("case", [*LARGE, *on_blackwell(PRODUCTS)], ids=str)
def test_kernels_assemble(case: Case) -> None:
    plan = planned(case)
    assert assemble(emit_ptx(plan), plan.target.architecture)[:4] == b"\x7fELF"


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
        ls.synthesize(ls.Gemm(24, 16, 7 * 64, "bf16"), "h200").emit("host-python")  # type: ignore[arg-type]
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
