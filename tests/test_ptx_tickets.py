"""The check of PTX on kernels whose blocks draw tickets from a counter: what it proves, and what it must not."""

from __future__ import annotations

import pytest
from test_ptx_branches import BARRIERS, LOAD, kernel, only, wait

from legalsat.analyses.ptx.text import parse
from legalsat.analyses.ptx_machine.machine import Run
from legalsat.analyses.ptx_machine.program import compile_kernel
from legalsat.analyses.ptx_machine.tickets import TICKETS
from legalsat.extract.check.check_words import assumptions_of

COUNT = ".param .u64 x, .param .u64 counter, .param .u32 n"
DRAW = "@%p0 atom.global.add.u32 %r5, [%d1], 1;\n"
FULL = wait("%r20", "%r9", "FULL")


def drawing(slot: str = "and.b32 %r7, %r8, 1;\nshr.u32 %r9, %r8, 1;", full: str = FULL, draw: str = DRAW) -> str:
    """A persistent kernel: thread 0 draws a tile and tells the others, and a load into one of two slots is waited for.

    `slot`: what gives the slot and the parity, by the count of tiles (%r8) or by the tile (%r4).
    """
    return kernel(
        f"""@%p0 mbarrier.init.shared::cta.b64 [%r1+{BARRIERS}], 1;
@%p0 mbarrier.init.shared::cta.b64 [%r1+{BARRIERS + 8}], 1;
@%p0 fence.mbarrier_init.release.cluster;
bar.sync 0;
ld.param.u64 %d0, [x];
ld.param.u64 %d1, [counter];
cvta.to.global.u64 %d1, %d1;
ld.param.u32 %r2, [n];
mov.u32 %r8, 0;
mov.u32 %r6, 0;
TILE:
{draw}@%p0 st.shared.u32 [%r1+{BARRIERS + 16}], %r5;
bar.sync 0;
ld.shared.u32 %r4, [%r1+{BARRIERS + 16}];
bar.sync 0;
setp.ge.u32 %p1, %r4, %r2;
@%p1 bra END;
{slot}
and.b32 %r9, %r9, 1;
{LOAD}{full}ld.shared.u32 %r21, [%r1];
add.u32 %r8, %r8, 1;
mov.u32 %r6, %r4;
bar.sync 0;
bra TILE;
END:
""",
        COUNT,
    )


def test_tiles_that_one_thread_draws_are_as_good_as_those_that_a_launch_numbers() -> None:
    found = only(drawing())
    assert found.proven, (found.findings, found.unproven)
    assert {1, 2} <= set(found.parameters[TICKETS])
    assert "counters from which blocks draw begin at 0, and nobody sets them back meanwhile" in assumptions_of(found)
    assert only(drawing(full="")).findings


def test_slots_by_the_ticket_are_wrong_since_other_blocks_draw_between() -> None:
    found = only(drawing("and.b32 %r7, %r4, 1;\nshr.u32 %r9, %r4, 1;"))
    assert not found.proven and found.findings
    assert all(TICKETS in one.launch for one in found.findings)


@pytest.mark.parametrize("apart", [1, 3, 7, 1000])
def test_who_goes_another_way_for_some_tickets_is_not_proven(apart: int) -> None:
    """Nobody waits for a load of which the tile is so many after the one before."""
    skips = f"sub.u32 %r22, %r4, %r6;\nsetp.eq.u32 %p5, %r22, {apart};\n@%p5 bra OVER;\n{FULL}OVER:\n"
    assert not only(drawing(full=skips)).proven


@pytest.mark.parametrize(
    "draw",
    [
        "atom.global.add.u32 %r5, [%d1], 1;\n",  # each thread one
        "@%p0 atom.global.add.u32 %r5, [%d1], %r2;\n",  # not one by one
        "@%p0 atom.global.exch.b32 %r5, [%d1], 1;\n",
        "@%p0 ld.global.u32 %r5, [%d1];\n@%p0 red.global.add.u32 [%d1], 1;\n",  # others may draw between
    ],
)
def test_what_is_no_ticket_of_one_thread_is_not_known(draw: str) -> None:
    assert not only(drawing(draw=draw)).proven


def test_a_second_thread_that_draws_does_not_know_what_it_gets() -> None:
    """Which of two threads draws first is open, so that neither may go by what a run happens to show."""
    other = "mov.u32 %r23, %tid.x;\nsetp.eq.u32 %p6, %r23, 32;\n@%p6 atom.global.add.u32 %r5, [%d1], 1;\n"
    decides = "@%p6 setp.eq.u32 %p7, %r5, 1;\n@%p7 bra END;\n"
    found = only(drawing(draw=DRAW + other + decides))
    assert not found.proven


@pytest.mark.parametrize("gap", [0, 1, 2, 5])
def test_tickets_grow_and_leave_gaps(gap: int) -> None:
    module = parse(drawing())
    run = Run(compile_kernel(module, module.kernels[0]), {"n": 100, TICKETS: gap}, {})
    run.run()
    ((_, count),) = run.drawn.values()
    assert count - 1 == sum(n + gap * n * n < 100 for n in range(100))
