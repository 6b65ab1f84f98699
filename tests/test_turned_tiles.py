"""Kernels that compute C^T and store C by boxes of turned tiles, and tiles that boxes do not divide."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import groupby

import numpy as np
import pytest

import legalsat as ls
from bench.conformance.kernel_launches import Launch
from bench.kernels.conformance import printed
from bench.kernels.interpreted import drawn_numbers, exact, small
from legalsat.extract.kernels.interpreter import interpret
from legalsat.extract.kernels.product_kernels import product_kernels
from legalsat.extract.kernels.product_maps import extents, result_map
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.plans.product_kernel import ProductKernel
from legalsat.targets import target

H200 = target("h200")
WHOLE, WIDE = ls.Gemm(784, 4096, 4096, "bf16"), ls.Gemm(784, 4096, 4096, "bf16", out_dtype="fp32")
MN_MAJOR = ls.Gemm(784, 4096, 4096, "bf16", b=ls.Tensor((4096, 4096), "bf16", (1, 4096)))


def turned(gemm: ls.Gemm, columns: int) -> ProductKernel:
    """Return the first kernel of turned tiles of so many columns whose consumers share each tile."""
    return next(
        kernel
        for _, kernel in product_kernels(gemm, H200)
        if kernel.store == "turned" and kernel.tile[1] == columns and not kernel.ping_pong
    )


@pytest.mark.parametrize("columns", [136, 208, 256])
@pytest.mark.parametrize("gemm", [WHOLE, WIDE], ids=["2 bytes", "4 bytes"])
def test_lanes_write_their_elements_where_boxes_take_them_from(gemm: ls.Gemm, columns: int) -> None:
    """Each byte of a part once, in the place that the map's image has for it, and without bank conflicts."""
    kernel, size = turned(gemm, columns), gemm.out_dtype.bytes
    kernel = replace(kernel, cluster=(1, 1), overlapped=0)
    whole = result_map(gemm, kernel)[0].map
    lines, length = whole.box[::-1]
    pitch = whole.global_stride[0]
    across = 4 * length // 64  # boxes of a part side by side along its columns
    recorded = printed(gemm, kernel, "ptx").run(Launch(kernel, 2, 1, 64))
    assert not recorded.findings
    streams = [
        [
            list(some)
            for what, some in groupby(recorded.streams[warp], lambda one: one.what)
            if what in {"write", "store"}
        ]
        for warp in range(4)
    ]
    parts = len(streams[0]) // 2
    assert parts == kernel.tile[0] // 64 // kernel.warpgroups * -(-columns * size // 128)
    for part in range(parts):
        stores = [streams[warp][2 * part + 1][0] for warp in range(4)]
        where: dict[int, tuple[int, int]] = {}  # of a byte of shared memory the row of 64, and the column of the part
        for warp, store in enumerate(stores):
            start, _ = store.spans[0]
            base = start % 1024
            image = ls.smem_image(whole, (0, 0), base=base)
            for at in np.flatnonzero(image >= 0):
                line, byte = divmod(int(image[at]), pitch)
                row = warp // across * length + byte // size
                where[start - base + int(at)] = row, warp % across * lines + line
        assert len({one.spans[0][0] for one in stores}) == 4
        written: list[int] = []
        for warp in range(4):
            for number, event in enumerate(streams[warp][2 * part]):
                starts = [first for first, _ in event.spans]
                copy = "st.b32" if size == 4 else f"stmatrix.x{len(starts) // 8}.trans"
                least = 1 if size == 4 else len(starts) // 8
                assert ls.bank_wavefronts(copy, (starts * 2)[:32], "sm_90a") == least
                for lane, (first, last) in enumerate(event.spans):
                    if size == 4:  # FACTS WG-15: registers of 8 columns are two of a row, and two 8 rows below
                        row, column = lane // 4 + number // 2 % 2 * 8, number // 4 * 8 + lane % 4 * 2 + number % 2
                    else:  # a lane has the address of a column of its matrix: two below each other, then the next two
                        row, column = lane // 8 % 2 * 8, number * 16 + lane // 16 * 8 + lane % 8
                    assert where[first] == (16 * warp + row, column)
                    written.extend(range(first, last))
        assert sorted(written) == sorted(where)


@pytest.mark.parametrize("gemm", [WHOLE, WIDE, MN_MAJOR], ids=["2 bytes", "4 bytes", "MN-major"])
def test_tiles_that_boxes_do_not_divide_are_right(gemm: ls.Gemm) -> None:
    listed = [kernel for _, kernel in product_kernels(gemm, H200)]
    odd = [one for one in listed if one.tile[1] % 16]
    more = [one for one in listed if one.loaded[1] > one.tile[1]]
    assert odd and more and {"tma", "turned"} <= {one.store for one in odd + more}
    assert all(one.majors[1] == "K" for one in odd), "the matrix unit turns multiples of 16 columns faster"
    r = random.Random(9)
    for seed, kernel in enumerate([*r.sample(odd, 4), *r.sample(more, 3)]):
        one = small(gemm, kernel, random.Random(seed))
        a, b = drawn_numbers(one, seed)
        found = interpret(GemmPlan(one, H200, kernel), a, b, clusters=2, seed=seed)
        assert (found == exact(one, a, b)).all(), f"{one}: {kernel}"


def test_stages_hold_whole_boxes_of_all_blocks_that_share_them() -> None:
    for gemm in (WHOLE, MN_MAJOR):
        for _, kernel in product_kernels(gemm, H200):
            # Rows along k are shared as whole boxes of 8, those across k as parts along k of boxes of 64.
            columns, unit = kernel.tile[1], 64 if kernel.majors[1] == "MN" else 8 * kernel.cluster[0]
            assert columns <= kernel.loaded[1] < columns + unit
            assert kernel.loaded[1] % unit == kernel.boxes[1] % kernel.cluster[0] == 0
            assert kernel.majors[1] == "MN" or kernel.k_parts[1] == 1


def test_the_law_asks_for_whole_columns() -> None:
    """Rows of C of 4097 elements are no whole granules, so that no box stores C, turned or not."""
    assert any(kernel.store == "turned" for _, kernel in product_kernels(WHOLE, H200))
    odd = ls.Gemm(784, 4097, 4096, "bf16", c=ls.Tensor((784, 4097), "bf16", (4097, 1)))
    assert not any(kernel.by_boxes and kernel.slices == 1 for _, kernel in product_kernels(odd, H200))
    kernel = turned(WHOLE, 128)
    steps = [step.law for step in GemmPlan(WHOLE, H200, kernel).derivation]
    assert "store_turned" in steps and extents(WHOLE, kernel) == (4096, 784)
