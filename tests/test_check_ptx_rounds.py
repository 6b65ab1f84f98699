"""Loops in the PTX check: rounds that touch other places are not alike, and tiles that blocks take in turn."""

from __future__ import annotations

import pytest
from test_check_ptx import SET_UP, kernel, wait

from bench.kernels.conformance import classes
from legalsat import Gemm
from legalsat.analyses.ptx.text import parse
from legalsat.analyses.ptx_machine.machine import Run
from legalsat.analyses.ptx_machine.periods import LONGEST, Periods
from legalsat.analyses.ptx_machine.program import compile_kernel
from legalsat.backends.ptx.persistent import emit
from legalsat.extract.check.check_ptx import check_ptx

SLOTS = 64  # byte at which slots begin; the barriers lie at 0 and 8
MOST_SLOTS = LONGEST * 4 // 5 // 3  # of which three turns are seen in four fifths of the rounds that are followed


def in_turn(
    blocks: int, slots: int, *, empty: bool = True, idle: int = 0, last: int | None = None, times: int = 1
) -> str:
    """Warp 0 writes what warp 1 reads, for every `blocks`-th tile from its own on, in slots of a counter's remainder.

    `last`: byte of the last slot, behind which the others lie. `idle`: warps that go through the tiles and do nothing.
    `times`: that each tile is written.
    """
    start = "\n".join(SET_UP[:-2]).replace("mov.b32 %r4, 0;", "mov.u32 %r4, %ctaid.x;\nmov.b32 %r8, 0;")
    step = (f"add.u32 %r4, %r4, {blocks};", "add.u32 %r8, %r8, 1;", "setp.lt.u32 %p4, %r4, %r3;")
    begin = SLOTS if last is None else last + 4 * (slots - 1)
    turn = (
        "and.b32 %r5, %r8, 1;", "xor.b32 %r6, %r5, 1;", f"rem.u32 %r9, %r8, {slots};", "shl.b32 %r9, %r9, 2;",
        f"{'add' if last is None else 'sub'}.u32 %r9, %r2, %r9;",
    )  # fmt: skip
    inner = (
        ("mov.u32 %r10, 0;", "INNER:"),
        ("add.u32 %r10, %r10, 1;", f"setp.lt.u32 %p6, %r10, {times};", "@%p6 bra INNER;"),
    )
    before, after = inner if times > 1 else ((), ())
    return kernel(
        start.replace("setp.eq.u32 %p3, %r3, 0;", "setp.ge.u32 %p3, %r4, %r3;"),
        "setp.gt.u32 %p5, %r1, 1;", "@%p5 bra IDLE;", *SET_UP[-2:],
        "WRITE:", *turn, *(wait("%r2+8", "%r6", "EMPTY") if empty else ()),
        *before, f"st.shared.u32 [%r9+{begin}], %r4;", *after,
        "mbarrier.arrive.shared::cta.b64 _, [%r2];", *step, "@%p4 bra WRITE;", "bra END;",
        "OTHER:", *turn, *wait("%r2", "%r5", "FULL"), f"ld.shared.u32 %r7, [%r9+{begin}];",
        "mbarrier.arrive.shared::cta.b64 _, [%r2+8];", *step, "@%p4 bra OTHER;", "bra END;",
        "IDLE:", *step, "@%p4 bra IDLE;", "END:", threads=64 + 32 * idle,
    )  # fmt: skip


@pytest.mark.parametrize(("blocks", "slots", "idle"), [(1, 7, 0), (128, 7, 0), (132, 2, 1), (1, 23, 4)])
def test_tiles_that_blocks_take_in_turn_are_proven(blocks: int, slots: int, idle: int) -> None:
    assert check_ptx(in_turn(blocks, slots, idle=idle)).proven
    assert check_ptx(in_turn(blocks, slots, idle=idle, empty=False)).findings


@pytest.mark.parametrize("times", [3, 16])
def test_rounds_within_rounds_are_followed(times: int) -> None:
    assert check_ptx(in_turn(1, 7, times=times)).proven
    assert check_ptx(in_turn(1, 7, times=times, empty=False)).findings


def test_many_rounds_within_tiles_are_seen_to_repeat() -> None:
    """Who goes through many rounds in all, and waits in between, is interrupted nowhere: each tile is like others."""
    gemm, kernel_ = classes((Gemm(4096, 4097, 4099, "fp16"),), "ptx")["C by rows, ping-pong"]
    module = parse(emit(gemm, kernel_))
    program = compile_kernel(module, module.kernels[0])
    sizes = {"m": 128, "n": 128, "k": 64, "tiles_m": 1 << 20, "tiles_n": 1, "group": 1, "c_pitch": 1}
    periods = Periods(program.conditions.stages)
    run = Run(program, {**sizes, "%ctaid.x": 0, "%nctaid.x": 1}, {}, steps=600_000, periods=periods)
    run.run()
    often = {at for (_, at), visits in run.visits.items() if visits > 64}
    assert run.cut and often and often <= periods.found.keys()


@pytest.mark.parametrize("slots", [2, 3, 11, 23, 64, 80])
def test_a_slot_that_only_later_rounds_come_to_is_seen(slots: int) -> None:
    """The last slot is a barrier, which the write destroys: after `slots` rounds, though registers only count."""
    found = check_ptx(in_turn(1, slots, last=8))
    assert not found.proven
    assert {one.kind for one in found.findings} == {"barrier_destroyed"}
    assert check_ptx(in_turn(1, slots, last=SLOTS)).proven == (slots <= MOST_SLOTS)  # else no state is seen to repeat
