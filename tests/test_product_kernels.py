"""Persistent kernels of products: what their boxes bring, read as the kernels read it, must be the operands."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import legalsat as ls
from legalsat.extract.cost.kernel_cost import kernel_cost
from legalsat.extract.kernels.product_class import side_of
from legalsat.extract.kernels.product_kernels import product_kernels
from legalsat.extract.kernels.product_maps import Placed, laid, result_map, sides, source_maps
from legalsat.operators.gemm import Gemm
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.plans.product_kernel import ProductKernel
from legalsat.targets import target
from legalsat.tensor import plain
from legalsat.units.sites import WgmmaMultiply

H200 = target("h200")
ROW, GRANULE = 128, 16


def filled(tensor: ls.Tensor, first: str) -> tuple[np.ndarray, int, np.ndarray]:
    """Return memory in which every element of a matrix, as it lies after `first`, is a number of its own, the address
    of its first byte in there, and the numbers (rows, k)."""
    size, matrix = tensor.dtype.bits // 8, laid(tensor, first)
    rows, depth = plain(tensor.shape)
    numbers = np.arange(1, rows * depth + 1, dtype=np.uint64).reshape(rows, depth) % (1 << 8 * size)
    by_lines = numbers if (matrix.lines, matrix.length) == (rows, depth) else numbers.T
    start = 64 + matrix.address % 64
    memory = np.full(start + matrix.lines * matrix.pitch + 256, 0xEE, np.uint8)
    for line in range(matrix.lines):
        at = start + line * matrix.pitch
        data = by_lines[line].astype(f"u{size}").tobytes()
        memory[at : at + len(data)] = np.frombuffer(data, np.uint8)
    return memory, start, numbers


def loaded(memory: np.ndarray, start: int, placed: Placed, corner: tuple[int, int]) -> np.ndarray:
    """Return the bytes of a box in shared memory, what lies outside the tensor being zero."""
    image = ls.smem_image(placed.map, corner)
    found = np.zeros(image.size, np.uint8)
    inside = image >= 0
    found[inside] = memory[start + placed.offset + image[inside]]
    return found


def gemm(extents: tuple[int, int, int], dtype: str, form: str, late: int = 0) -> Gemm:
    m, n, k = extents
    a = ls.Tensor(
        (m, k), dtype, (1, m) if form == "TN" else (k + late, 1), offset=late * ls.Tensor((1,), dtype).dtype.bytes
    )
    b = ls.Tensor((n, k), dtype, (k, 1) if form == "NT" else (1, n))
    return Gemm(m, n, k, dtype, a=a, b=b, out_dtype=None if dtype != "e4m3" else "bf16")


# `filled` tells which way a matrix lies by its extents, so that none is square.
PRODUCTS = st.builds(
    gemm,
    st.tuples(st.integers(1, 500), st.integers(1, 400), st.integers(1, 150)).filter(lambda e: e[2] not in e[:2]),
    st.sampled_from(("bf16", "fp16", "e4m3", "fp32")),
    st.sampled_from(("NT", "NN", "TN")),
    st.integers(0, 3),
)


@settings(max_examples=12, deadline=None)
@given(PRODUCTS, st.data())
def test_rows_realigned_in_registers_are_the_operands_rows(product: Gemm, data: st.DataObject) -> None:
    """As `Realigner` reads them: words of a stage, and of the next one behind its end, shifted."""
    found = [k for _, k in product_kernels(product, H200) if k.realign == "registers" and k.store == "sums"]
    if not found:
        return
    kernel = data.draw(st.sampled_from(found))
    tensor, size = sides(product, kernel)[0], product.dtype.bits // 8
    memory, start, numbers = filled(tensor, "none")
    rows, depth = kernel.tile[0], kernel.tile[2]
    each, pitch, address = rows // kernel.phases, laid(tensor, "none").pitch, tensor.address
    m0 = rows * data.draw(st.integers(0, (numbers.shape[0] - 1) // rows))
    k0 = depth * data.draw(st.integers(0, (numbers.shape[1] - 1) // depth))
    stages = [
        np.concatenate(
            [loaded(memory, start, one, (k, m0 // kernel.phases)) for one in source_maps(product, kernel)[0]]
        )
        for k in (k0, k0 + depth)
    ]
    for row in range(rows):
        phase, number = row // each, m0 + row % each * kernel.phases + row // each
        shift = (address + phase * pitch) % GRANULE
        line = b"".join(
            stage[row * ROW + (chunk ^ row % 8) * GRANULE :][:GRANULE].tobytes()
            for stage in stages
            for chunk in range(8)
        )
        got = np.frombuffer(line[shift : shift + ROW], f"u{size}")
        want = np.zeros(depth, np.uint64)
        if number < numbers.shape[0]:
            inside = numbers[number, k0 : k0 + depth]
            want[: inside.size] = inside
            assert (got == want).all(), (row, kernel)


@settings(max_examples=12, deadline=None)
@given(PRODUCTS, st.data())
def test_tiles_of_one_phase_meet_the_rows_of_b_that_belong_to_them(product: Gemm, data: st.DataObject) -> None:
    """A row of such a tile begins `shift` elements late, and B is loaded as many rows further up."""
    found = [k for _, k in product_kernels(product, H200) if k.realign == "tiles"]
    if not found:
        return
    kernel = data.draw(st.sampled_from(found))
    (a, b), size = sides(product, kernel), product.dtype.bits // 8
    memory, start, numbers = filled(a, "none")
    other, origin, columns = filled(b, kernel.relayouts[1])
    rows, depth = kernel.tile[0], kernel.tile[2]
    phase = data.draw(st.integers(0, min(kernel.phases, numbers.shape[0]) - 1))
    shift = (a.address + phase * laid(a, "none").pitch) % GRANULE // size
    turn = data.draw(st.integers(0, (numbers.shape[1] + shift - 1) // depth))
    of_a, of_b = source_maps(product, kernel)
    boxes = [
        loaded(memory, start, of_a[phase], (turn * depth, j * rows // kernel.cluster[1]))
        for j in range(kernel.cluster[1])
    ]
    tile = np.concatenate(boxes)
    parts = kernel.k_parts[1]
    first = np.concatenate(
        [loaded(other, origin, of_b[0], (0, turn * depth - shift + part * depth // parts)) for part in range(parts)]
    )
    for row in range(min(rows, 24)):
        number = row * kernel.phases + phase
        if number >= numbers.shape[0]:
            continue
        line = b"".join(tile[row * ROW + (chunk ^ row % 8) * GRANULE :][:GRANULE].tobytes() for chunk in range(8))
        got = np.frombuffer(line, f"u{size}").astype(np.uint64)
        for i in range(depth):
            k = turn * depth + i - shift
            above = np.frombuffer(first[i * ROW + (0 ^ i % 8) * GRANULE :][:size].tobytes(), f"u{size}")[0]
            if 0 <= k < numbers.shape[1]:
                assert got[i] == numbers[number, k]
                assert above == columns[0, k]
            else:  # whatever came of A, it meets zeros of B, or was dropped
                assert above == 0
                assert got[i] == 0 or k < 0


@settings(max_examples=25, deadline=None)
@given(PRODUCTS)
def test_every_map_is_legal_and_every_block_fits(product: Gemm) -> None:
    for _, kernel in product_kernels(product, H200, 12):
        maps = [one for found in source_maps(product, kernel) for one in found]
        maps += result_map(product, kernel) if kernel.by_boxes else []
        assert not any(d.level == "error" for one in maps for d in ls.violations(one.map, "h200"))
        assert kernel.shared_bytes <= H200.shared_bytes_per_block
        assert kernel.blocks * (kernel.shared_bytes + 1024) <= H200.shared_bytes_per_processor
        held = kernel.registers[0] * kernel.warpgroups + kernel.registers[1] + 88 * any(kernel.aligned)
        assert held * 128 * kernel.blocks <= H200.registers_per_processor
        assert kernel.stages >= 2


def test_kernels_come_cheapest_first_and_mend_what_must_be() -> None:
    odd = gemm((4096, 4096, 4095), "bf16", "NN")
    times, kernels = zip(*product_kernels(odd, H200), strict=True)
    assert list(times) == sorted(times)
    sides = [0 if not k.swapped else 1 for k in kernels]
    mended = (
        k.realign != "none" or k.relayouts[i] != "none" or k.aligned[i] for k, i in zip(kernels, sides, strict=True)
    )
    assert all(mended)
    legal = gemm((4096, 4096, 4096), "bf16", "NT")
    assert all(
        k.relayouts == ("none", "none") and k.realign == "none" and not any(k.aligned)
        for _, k in product_kernels(legal, H200)
    )


def test_sides_say_what_no_map_describes() -> None:
    for tensor, legal in (
        (ls.Tensor((64, 64), "bf16"), True),
        (ls.Tensor((64, 63), "bf16"), False),
        (ls.Tensor((1, 63), "bf16"), True),  # a single row has any pitch
        (ls.Tensor((64, 64), "bf16", offset=2), False),
    ):
        assert side_of(tensor).legal == legal
    for strides, major in {(128, 2): "K", (2, 128): "MN", (3, 3): "K"}.items():
        one = side_of(ls.Tensor((64, 64), "bf16", strides))
        assert (one.major, one.legal, one.scattered) == (major, False, True)
    assert not any(side_of(ls.Tensor((64, 64), "bf16", strides)).scattered for strides in ((128, 1), (1, 128)))
    assert not side_of(ls.Tensor((1, 64), "bf16", (128, 2))).scattered  # lines of one element each


def test_types_that_these_kernels_do_not_multiply_have_none() -> None:
    assert product_kernels(Gemm(64, 64, 64, "fp64"), H200) == []


@pytest.mark.parametrize("dtype", ["tf32", "i8", "u8"])
def test_types_that_wgmma_does_not_transpose_are_read_along_k(dtype: str) -> None:
    """An operand that lies across k is transposed first, and nothing else is done to it."""
    across = ls.Tensor((640, 1024), dtype, (1, 640))
    for turned in ("", "B", "AB"):
        a, b = (across if name in turned else None for name in "AB")
        found = [one for _, one in product_kernels(Gemm(640, 640, 1024, dtype, a=a, b=b), H200)]
        assert found
        for kernel in found:
            assert kernel.majors == ("K", "K")
            first = dict(zip(kernel.operands, kernel.relayouts, strict=True))
            assert first == {name: "transpose" if name in turned else "none" for name in "AB"}


@pytest.mark.parametrize("dtype", ["tf32", "i8", "u8"])
def test_every_kernel_is_of_an_instruction_that_there_is(dtype: str) -> None:
    """Types, columns, elements of k and majors by the rules of wgmma, whose sums of integers are i32."""
    gemm, widths = Gemm(1000, 777, 1023, dtype), set()
    for _, kernel in product_kernels(gemm, H200):
        plan = GemmPlan(gemm, H200, kernel)
        assert plan.mma is not None
        (m, n, k), types, registers = plan.mma.shape, plan.mma.types, kernel.realign == "registers"
        site = WgmmaMultiply(m, n, k, *types, *kernel.majors, a_in_registers=registers)
        assert not ls.violations(site, "h200") and types == (dtype, dtype, "fp32" if dtype == "tf32" else "i32")
        widths.add(n)
    assert (72 in widths) == (dtype == "tf32"), "integers have no odd eighths above 32"


@pytest.mark.parametrize("side", ["a", "b", "c"])
def test_elements_that_begin_inside_others_have_no_kernel(side: str) -> None:
    """Nothing loads or stores them, and no relayout does: what a plan of movements refuses, kernels do not assume."""
    shape = {"a": (512, 4095), "b": (640, 4095), "c": (512, 640)}[side]
    torn, whole = (ls.Tensor(shape, "bf16", align=2, offset=offset) for offset in (1, 0))
    product = Gemm(512, 640, 4095, "bf16")
    assert product_kernels(product.but(**{side: whole}), H200, 1)
    assert not product_kernels(product.but(**{side: torn}), H200, 1)
    with pytest.raises(ls.NoLegalLayout):
        ls.synthesize(product.but(**{side: torn}), "h200")


def test_each_unit_has_kernels_of_its_own_and_other_targets_have_none() -> None:
    units = {
        gpu: {one.unit for _, one in product_kernels(Gemm(64, 64, 64, "bf16"), target(gpu))}
        for gpu in ("h200", "sm_100a", "a100", "rtx5090", "mi300x")
    }
    assert units == {"h200": {"wgmma"}, "sm_100a": {"tcgen05"}, "a100": set(), "rtx5090": set(), "mi300x": set()}


def test_kernels_are_plain_values() -> None:
    one: ProductKernel = product_kernels(Gemm(64, 64, 64, "bf16"), H200)[0][1]
    assert one == product_kernels(Gemm(64, 64, 64, "bf16"), H200)[0][1]
    assert "stages" in str(one)


def test_a_cluster_too_many_takes_another_round() -> None:
    assert H200.device is not None
    product = ls.Gemm(128, 4096, 7168, "bf16")  # 32 tiles of 128 x 128
    for split in (3, 4):
        kernel = next(
            one for _, one in product_kernels(product, H200) if one.split == split and one.tile[:2] == (128, 128)
        )
        fitting = H200.device.clusters[split - 1] * 128
        times = [
            kernel_cost(ls.Gemm(128, n, 7168, "bf16"), kernel, H200).nanoseconds
            for n in (fitting - 128, fitting, fitting + 128)
        ]
        assert times[1] < 1.1 * times[0] < 0.9 * times[2]


def test_clusters_of_gpus_that_nobody_asked_stay_within_gpcs() -> None:
    h100 = target("h100").device
    assert h100 is not None and not h100.clusters
    assert [h100.clusters_at_once(blocks) for blocks in (1, 2, 3, 4, 8)] == [132, 66, 37, 30, 15]
    assert replace(h100, processors=3).clusters_at_once(8) == 1
