"""Launches that are run together: each goes as it would by itself, and what is said of a kernel is the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_ptx_branches import persistent
from test_ptx_known import tiles

from legalsat.analyses.ptx.text import parse
from legalsat.analyses.ptx_machine.launches.fan import Fan, fanned, in_lane, joined
from legalsat.analyses.ptx_machine.launches.fork import fork
from legalsat.analyses.ptx_machine.launches.together import go_on, going_alike, run_leader, run_together
from legalsat.analyses.ptx_machine.machine import Run
from legalsat.analyses.ptx_machine.periods import Periods
from legalsat.analyses.ptx_machine.program import Program, compile_kernel
from legalsat.extract.check import ptx_turns, ptx_values
from legalsat.extract.check.check_ptx import KernelCheck, check_ptx
from legalsat.extract.check.ptx_sweep import RUN_WORK, Sweep

TEXTS = sorted((Path(__file__).parent / "data" / "ptx").glob("*.ptx"))


def shown(run: Run) -> tuple[object, ...]:
    """Return what a run shows, whatever the order in which its warps went on."""
    run.barriers.judge_overtaken()
    order, live = run.order, [warp.live for warp in run.warps]
    noted = bytes(run.outcomes), run.closest, run.cases, run.visits
    return noted, live, run.sized, sorted(order.findings), order.unwritten, order.mixed, run.notes


def alone(program: Program, values: dict[str, int], *, backwards: bool) -> Run:
    run = Run(program, values, {}, backwards=backwards)
    run.run()
    return run


@pytest.mark.parametrize("backwards", [False, True])
def test_each_launch_shows_what_it_shows_by_itself(backwards: bool) -> None:
    launches = [{"n": n, "switch": s} for n in (0, 1, 63, 64, 65, 130, 300) for s in (5, 7)]
    program = tiles()
    found, work = run_together(Run(program, launches[0], {}, backwards=backwards), launches)
    single = [alone(program, one, backwards=backwards) for one in launches]
    assert sorted(found) == list(range(len(launches)))
    assert [shown(found[n]) for n in sorted(found)] == list(map(shown, single))
    assert [run.parameters for run in found.values()] == [launches[n] for n in found]
    assert work < sum(run.work for run in single) / 2


@pytest.mark.parametrize("backwards", [False, True])
def test_launches_that_part_from_one_without_end_go_on_as_by_themselves(backwards: bool) -> None:
    program = tiles()
    launches = [{"n": n, "switch": 7} for n in (1 << 20, 0, 1, 63, 64, 130, 300)]
    first = Run(program, launches[0], {}, periods=Periods(program.conditions.stages), backwards=backwards)
    leader, waiting, work = run_leader(first, launches)
    assert leader is not None and leader.cut and leader.periods is not None and leader.periods.found
    single = Run(program, launches[0], {}, periods=Periods(program.conditions.stages), backwards=backwards)
    single.run()
    assert single.periods is not None and leader.periods.found == single.periods.found
    assert sorted(n for run in waiting for n, _ in run.group.launches) == list(range(1, len(launches)))
    found, more = go_on(waiting)
    each = [alone(program, one, backwards=backwards) for one in launches[1:]]
    assert [shown(found[n]) for n in range(1, len(launches))] == list(map(shown, each))
    assert work + more < single.work + sum(run.work for run in each)
    leader.run()  # which has been cut, and does not go on
    assert leader.work == work


def test_launches_that_take_over_work_part_where_one_of_them_gets_no_more() -> None:
    text = parse(persistent())
    program = compile_kernel(text, text.kernels[0])
    launches = [{"%cancelled": count} for count in (0, 1, 2, 5, 9, 14)]
    found, work = run_together(Run(program, launches[0], {}), launches)
    single = [alone(program, one, backwards=False) for one in launches]
    assert [shown(found[n]) for n in range(len(launches))] == list(map(shown, single))
    assert work < single[-1].work + single[0].work * len(launches)  # what the last one does, and an end for each


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_a_text_is_told_the_same_with_every_run_made_by_itself(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def said(one: KernelCheck) -> KernelCheck:
        return replace(one, seconds=0.0, work=0)

    text = path.read_text()
    together = check_ptx(text, seconds=60).kernels
    for module in (ptx_values, ptx_turns):
        monkeypatch.setattr(module, "run_ahead", lambda *_: None)
    single = check_ptx(text, seconds=60).kernels
    assert list(map(said, together)) == list(map(said, single))
    assert sum(one.work for one in together) <= 1.05 * sum(one.work for one in single)


def waits_in_vain() -> Program:
    """Of more than one round the second barrier of the block is never met by the other warp."""
    text = parse("""
.version 8.0
.target sm_90a
.address_size 64
.visible .entry parted(.param .u32 n)
.reqntid 64
{
    .reg .pred %p<4>; .reg .b32 %r<4>;
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    setp.lt.u32 %p1, %r1, 2;
    @%p1 bra END;
    setp.ge.u32 %p2, %r2, 32;
    @%p2 bra END;
    bar.sync 1, 64;
END:
    ret;
}
""")
    return compile_kernel(text, text.kernels[0])


def test_a_launch_that_goes_wrong_is_left_to_be_run_by_itself() -> None:
    program = waits_in_vain()
    launches = [{"n": n} for n in range(5)]
    found, _ = run_together(Run(program, launches[0], {}), launches)
    assert sorted(found) == [0, 1]
    assert [bool(alone(program, one, backwards=False).order.findings) for one in launches] == [False] * 2 + [True] * 3


def test_launches_that_go_the_way_of_one_to_its_end_are_told_by_one_run() -> None:
    program = waits_in_vain()
    for first, expected in ((0, {0, 1}), (3, {2, 3, 4, 9})):
        listed = [first, *(n for n in (0, 1, 2, 3, 4, 9) if n != first)]
        run = Run(program, {"n": first}, {})
        alike, work = going_alike(run, [{"n": n} for n in listed])
        assert {listed[number] for number in alike} == expected
        assert 0 < work <= alone(program, {"n": first}, backwards=False).work
        assert bool(run.order.findings) is (first > 1)
    several = [{"n": n, "switch": switch} for n in (64, 1, 63, 65, 130) for switch in (5, 7)]
    alike, _ = going_alike(Run(tiles(), several[0], {}), several)
    single = [shown(alone(tiles(), one, backwards=False)) for one in several]
    assert alike > {0}
    assert all(single[number] == single[0] for number in alike)


def test_a_run_that_shares_its_beginning_may_be_longer_than_one_by_itself() -> None:
    sweep = Sweep(tiles(), {}, {})
    long: Any = SimpleNamespace(work=RUN_WORK + 1)
    for limit, expected in ((RUN_WORK, long), (RUN_WORK - 1, None)):
        sweep.ahead["long",] = long
        assert sweep._made_ahead(("long",), limit) is expected
        assert not sweep.ahead


def test_a_fork_goes_on_without_the_run_it_was_made_of() -> None:
    program = tiles()
    run = Run(program, {"n": 200, "switch": 7}, {})
    for _ in range(2):
        run._advance(run.warps[0])  # so that some of it is done
    twin = fork(run)
    run.run()
    assert twin.visits.keys() <= run.visits.keys() and not twin.order.findings
    twin.run()
    assert shown(twin) == shown(run) and twin.order is not run.order
    assert twin.barriers.order is twin.order and twin.warps[0].worker is twin.order.workers[0]


def test_values_on_which_launches_agree_are_plain() -> None:
    assert fanned([3, 3]) == 3 and type(fanned([3, 4])) is Fan and fanned([None, None]) is None
    assert type(fanned([3, None])) is Fan
    half = (1 << 16) - 1
    found = joined(Fan([1, 2]), 1, half, lanewise=False)
    assert found.values[0] == 1 and found.values[1].tolist() == [2] * 16 + [1] * 16
    assert in_lane(found, 20) == 1 and in_lane(found, 3).values == [1, 2]
