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
from legalsat.extract.check import ptx_least, ptx_values
from legalsat.extract.check.check_ptx import KernelCheck, check_ptx
from legalsat.extract.check.ptx_ahead import run_ahead
from legalsat.extract.check.ptx_known import NOT_NOTED, KnownRuns
from legalsat.extract.check.ptx_steps import step_of
from legalsat.extract.check.ptx_sweep import SLACK, Sweep
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


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, int]]:
    """The launches of which runs have begun."""
    found: list[dict[str, int]] = []
    begin = Sweep.begun

    def counted(self: Sweep, held: dict[str, int], *a: object, **k: object) -> Run:
        found.append(held)
        return begin(self, held, *a, **k)  # type: ignore[arg-type]

    monkeypatch.setattr(Sweep, "begun", counted)
    return found


def test_what_is_too_long_forwards_is_not_run_backwards(begun: list[dict[str, int]]) -> None:
    sweep = Sweep(tiles(), {}, {}, probing=False)
    few, many = {"n": 64, "switch": 0, "data": 0}, {"n": 1 << 20, "switch": 0, "data": 0}
    assert sweep.shown(many, 200) is None and sweep.shown(many, 200) is None
    assert len(begun) == 1
    assert sweep.shown(many, 400) is None and len(begun) == 2  # there was more room
    begun.clear()
    for _ in range(2):  # what ends is run in both ways
        assert sweep.run(few) is not None
    assert len(begun) == 2


def test_of_launches_that_shared_a_run_one_is_run_by_itself(
    begun: list[dict[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KnownRuns, "find", lambda *_: None)
    sweep, ones = Sweep(tiles(), {}, {}), {"n": 1, "switch": 0, "data": 0}
    first = sweep.shown(ones)
    assert first is not None and not first.beside
    others = [{**ones, "switch": value} for value in (4096, 4095, 64, 8, 2, 3)]
    run_ahead(sweep, others)
    assert len(begun) == 2 and all((one := sweep.shown(values)) is not None and one.beside for values in others)
    for values in others:  # as if lanes had waited elsewhere
        shown = sweep.shown(values)
        assert shown is not None
        sweep.put_right(values, replace(shown, accesses=first.accesses + 1))
    begun.clear()
    assert step_of(sweep, "switch", ones, first.work + SLACK) == 0
    assert len([one for one in begun if one["switch"] in {values["switch"] for values in others}]) == 1


def test_launches_of_nothing_along_one_of_many_axes_share_what_they_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"axis{n}" for n in range(ptx_values.MANY)]
    looks = "".join(f"""ld.param.u32 %r4, [{name}];
    setp.eq.u32 %p3, %r4, 0;
    @%p3 bra NO_{name};
    bar.sync 1;
NO_{name}:
""" for name in names)  # fmt: skip
    text = TILES.replace(".param .u32 n, ", "".join(f".param .u32 {name}, " for name in ("n", *names)))
    text = text.replace("    setp.lt.u32 %p2", f"{looks}    setp.lt.u32 %p2")
    quick = check_ptx(text, seconds=60).kernels[0]
    monkeypatch.setattr(ptx_least, "MANY", 1 << 10)
    slow = check_ptx(text, seconds=60).kernels[0]
    assert said(quick) == said(slow) and quick.work < slow.work
