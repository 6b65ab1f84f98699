"""Launches that a kernel cannot tell apart: one run stands for all, and nothing that is said changes by it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from test_ptx_least import needs

from legalsat.analyses.ptx.text import parse
from legalsat.analyses.ptx_machine.launches.conditions import FALSE, TRUE, Condition
from legalsat.analyses.ptx_machine.machine import Run
from legalsat.analyses.ptx_machine.program import Program, compile_kernel
from legalsat.extract.check import ptx_values
from legalsat.extract.check.check_ptx import KernelCheck, check_ptx
from legalsat.extract.check.ptx_known import NOT_NOTED, KnownRuns
from legalsat.extract.check.ptx_sweep import Sweep
from legalsat.extract.check.ptx_turns import turn

TEXTS = sorted((Path(__file__).parent / "data" / "ptx").glob("*.ptx"))
# One warp goes through ceil(n / 64) rounds, and looks at `switch` in the last branch alone.
TILES = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry tiles(.param .u32 n, .param .u32 switch, .param .u64 .ptr data)
.reqntid 32
{
    .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<3>;
    .shared .align 8 .b8 bar[8];
    ld.param.u32 %r1, [n];
    add.u32 %r2, %r1, 63;
    shr.u32 %r3, %r2, 6;
    ld.param.u32 %r4, [switch];
    mov.u32 %r5, 0;
    mbarrier.init.shared::cta.b64 [bar], 32;
ROUND:
    setp.ge.u32 %p1, %r5, %r3;
    @%p1 bra AFTER;
    bar.sync 0;
    add.u32 %r5, %r5, 1;
    bra ROUND;
AFTER:
    setp.lt.u32 %p2, %r3, 3;
    @%p2 bra END;
    setp.eq.u32 %p3, %r4, 7;
    @%p3 bra END;
    bar.sync 1;
END:
    ret;
}
"""


def tiles() -> Program:
    text = parse(TILES)
    return compile_kernel(text, text.kernels[0])


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ({"n": 1, "switch": 0}, {"n": 64, "switch": 0}, True),
        ({"n": 64, "switch": 0}, {"n": 65, "switch": 0}, False),
        ({"n": 128, "switch": 7}, {"n": 65, "switch": 5}, True),  # too few rounds to look at the switch
        ({"n": 129, "switch": 7}, {"n": 129, "switch": 5}, False),
        ({"n": 129, "switch": 4}, {"n": 190, "switch": 5}, True),
    ],
)
def test_launches_are_alike_in_what_a_run_has_looked_at(
    one: dict[str, int], other: dict[str, int], alike: bool
) -> None:
    program = tiles()
    run = Run(program, one, {})
    run.run()
    first, second = program.alike.of(one), program.alike.of(other)
    assert first is not None and second is not None
    columns = program.alike.looked_at(run.ways)
    assert all(first.columns[n] == second.columns[n] for n in columns) is alike


def test_a_division_by_zero_on_the_way_tells_a_launch_apart() -> None:
    text = TILES.replace(
        "shr.u32 %r3, %r2, 6;", "shr.u32 %r3, %r2, 6; ld.param.u32 %r6, [switch]; div.u32 %r7, 9, %r6;"
    )
    found = parse(text.replace("setp.lt.u32 %p2, %r3, 3;", "add.u32 %r8, %r3, %r7; setp.lt.u32 %p2, %r8, 3;"))
    program = compile_kernel(found, found.kernels[0])
    told = program.alike.of({"n": 1, "switch": 0})
    assert told is not None and len(told.divides) == 1


def said(found: KernelCheck) -> KernelCheck:
    return replace(found, seconds=0.0, work=0, runs=0)  # what is known and made anew all the same counts twice


def test_a_sweep_from_greater_sizes_makes_no_run_of_the_one_before_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[object, ...]] = []
    begin = Run.__init__

    def counted(
        self: Run, program: Program, parameters: dict[str, int], boxes: dict[str, int], *a: int, **k: object
    ) -> None:
        made.append((*sorted(parameters.items()), *sorted(boxes.items()), *a, k["backwards"], k["periods"] is None))
        begin(self, program, parameters, boxes, *a, **k)  # type: ignore[arg-type]

    monkeypatch.setattr(Run, "__init__", counted)
    monkeypatch.setattr(ptx_values, "run_ahead", lambda *_: None)  # what goes wrong together is run again
    text = needs(3)
    quick = check_ptx(text, seconds=60).kernels[0]
    assert quick.proven and quick.conditions and len(set(made)) == len(made)
    monkeypatch.setattr(KnownRuns, "find", lambda *_: None)
    made.clear()
    slow = check_ptx(text, seconds=60).kernels[0]
    assert said(quick) == said(slow) and len(set(made)) < len(made) and quick.work < slow.work


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_what_is_said_is_the_same_with_all_runs_made(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = path.read_text()
    quick = check_ptx(text, seconds=60)
    monkeypatch.setattr(KnownRuns, "find", lambda *_: None)
    slow = check_ptx(text, seconds=60)
    assert list(map(said, quick.kernels)) == list(map(said, slow.kernels))
    assert sum(k.work for k in quick.kernels) <= sum(k.work for k in slow.kernels)


def test_a_run_that_noted_less_than_is_asked_now_is_made_again() -> None:
    program = tiles()
    first = Sweep(program, {}, {})
    for watch in program.watches:
        watch.seen = TRUE | FALSE  # no run notes any longer how near its comparison is to turning round
    for at in program.watches_at:
        program.watch(at)
    values = {"n": 129, "switch": 5, "data": 0}
    assert first.run(values) is not None
    program.forget()
    later = Sweep(program, {}, {}, known=first.known, number=1)
    shown = later.shown(values)
    assert shown is not None and shown.closest and NOT_NOTED not in shown.closest.values()


@pytest.mark.parametrize("most", [0, 1 << 20])
def test_no_values_are_looked_for_once_enough_instructions_are_followed(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, asked = tiles(), list[str]()

    def flips(condition: Condition, *_: object) -> Iterator[dict[str, int]]:
        asked.append(condition.name)
        return iter(())

    monkeypatch.setattr(program.conditions, "flips", flips)
    sweep = Sweep(program, {}, {}, most=most)
    sweep.shown({"n": 1, "switch": 5})
    turn(sweep, [{"n": 1, "switch": 5}], {})
    assert bool(asked) is bool(most)
