"""Operands whose lines are aligned in shared memory: right in any order of roles, proven, without bank conflicts."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from interpreted_kernels import assert_exact
from lacking import proven_without
from lying import product_of

import legalsat as ls
from legalsat.analyses.protocol.typestate import check
from legalsat.backends.lacking import require_rows
from legalsat.errors import LegalSatError
from legalsat.extract.kernels.kernel_program import kernel_program, printed_program
from legalsat.extract.kernels.product_kernels import product_kernels
from legalsat.plans.product_kernel import Lines, ProductKernel
from legalsat.program.kernel import AlignLines, Release
from legalsat.program.pipeline import Arrive, Fence, Wait
from legalsat.targets import target

H200 = target("h200")


def aligned(gemm: ls.Gemm) -> list[ProductKernel]:
    return [kernel for _, kernel in product_kernels(gemm, H200) if any(kernel.aligned)]


@lru_cache
def one_of_each() -> list[tuple[ls.Gemm, ProductKernel]]:
    """Return a kernel for each way to lie and to be aligned, and for each to share and to store, with a product."""
    r, found = random.Random(3), dict[object, tuple[ls.Gemm, ProductKernel]]()
    for lies, extents in (
        ("KM", (133, 201, 1095)),
        ("MM", (77, 131, 181)),
        ("KK", (133, 77, 597)),
        ("MK", (69, 135, 531)),
    ):
        gemm = product_of(*extents, lies)
        kernels = [one for one in aligned(gemm) if -(-gemm.k // 64) >= one.least_k_tiles]
        for one in r.sample(kernels, len(kernels)):
            found.setdefault((one.majors, one.aligned), (gemm, one))
            shared = one.cluster != (1, 1), one.split > 1, one.slices > 1, one.ping_pong, one.store
            found.setdefault((sum(one.aligned), *shared), (gemm, one))
    return list(found.values())


def test_products_are_exact_whatever_lies_beside_their_elements() -> None:
    """What ends a line is infinite in some, which must not reach the sums of others, whose granules it shares."""
    kinds = one_of_each()
    assert len({one.aligned for _, one in kinds}) == 3 and len({one.majors for _, one in kinds}) == 4
    assert any(one.cluster != (1, 1) and all(one.aligned) for _, one in kinds)
    assert_exact(kinds)


def test_every_kernel_keeps_its_contract() -> None:
    for _, kernel in one_of_each():
        assert check(kernel_program(kernel, 2), H200).proven, str(kernel)


@pytest.mark.parametrize("shares", [False, True])
def test_a_program_that_lacks_an_operation_is_not_proven(shares: bool) -> None:
    """Of what the aligner does, and of what others do for it, each wait, fence, arrival and release is needed."""
    kernel = next(one for _, one in one_of_each() if all(one.aligned) and (one.cluster != (1, 1)) == shares)
    program = printed_program(replace(kernel, ping_pong=False), 2)
    asked = Wait | Fence | Arrive | Release | AlignLines
    kinds, lacking = proven_without(program, H200, lambda _, ops, number: isinstance(ops[number], asked), first=1)
    assert kinds == {Wait, Fence, Arrive, Release, AlignLines}
    assert not lacking


def wavefronts(lines: Lines, rows: int, *, diagonal: bool) -> set[int]:
    """Return how many wavefronts loads and stores of all warps take, of every granule of a line."""
    found = set()
    for warp in range(4):
        thread = 32 * warp + np.arange(32)
        phase = thread % 8
        for first in range(0, rows // 8, 16):
            unit = first + thread // 8
            if unit.max() >= rows // 8:
                continue
            line = unit // 8 * 8 + (phase + unit if diagonal else unit) % 8
            span, inside = line // lines.count, line % lines.count
            box = span // lines.spans * 8 + phase
            source = (box * lines.count + inside) * lines.pitch + span % lines.spans * 128
            target_ = (line * 8 + phase) * 128
            for granule in range(8):
                found.add(ls.bank_wavefronts("ld.b128", (source + 16 * granule).tolist(), "h200"))
                found.add(ls.bank_wavefronts("st.b128", (target_ + 16 * (granule ^ phase)).tolist(), "h200"))
    return found


@pytest.mark.parametrize("rows", [128, 256])
@pytest.mark.parametrize("major", ["K", "MN"])
def test_lanes_on_a_diagonal_read_and_write_without_conflicts(rows: int, major: str) -> None:
    lines = Lines.of(rows, "K" if major == "K" else "MN")
    assert wavefronts(lines, rows, diagonal=True) == {4}  # of 128 bytes each
    assert 32 in wavefronts(lines, rows, diagonal=False)


def test_boxes_hold_every_line_and_a_granule_more() -> None:
    for rows in (64, 128, 192, 256):
        for major in ("K", "MN"):
            lines = Lines.of(rows, "K" if major == "K" else "MN")
            assert lines.boxes * lines.count * lines.spans == rows
            assert lines.pitch // 2 <= 256 and lines.pitch // 16 % 2 and lines.count * lines.pitch % 128 == 0


def test_what_is_not_aligned() -> None:
    """Lines that repeat their starts after sixteen, and operands that are legal; members that begin anywhere are."""
    assert not aligned(product_of(200, 200, 4095, "KK", "e4m3"))
    assert aligned(product_of(200, 200, 4094, "KK", "e4m3"))
    assert not aligned(product_of(256, 256, 512, "KM"))
    assert not aligned(product_of(200, 300, 7, "KK"))  # some phase would have no line along the other axis
    members = ls.Tensor((3, 77, 77), "bf16")
    kernels = aligned(ls.Gemm(77, 77, 77, "bf16", batch=3, a=members, b=members))
    assert kernels and all(one.loose == one.aligned for one in kernels if one.relayouts == ("none", "none"))
    whole = ls.Tensor((3, 80, 77), "bf16")
    assert aligned(ls.Gemm(80, 80, 77, "bf16", batch=3, a=whole, b=whole))


def test_other_backends_name_what_they_lack() -> None:
    gemm, kernel = next(one for one in one_of_each() if one[1].slices == 1 and one[1].store in {"tma", "rows"})
    with pytest.raises(LegalSatError, match=r"triton has no row for .*, and cute has one"):
        require_rows("triton", gemm, kernel)
    assert not any(ls.synthesize(gemm, "h200", backend="triton").kernel.aligned)
