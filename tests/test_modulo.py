"""Modulo schedules against a search of all starts."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import legalsat as ls
from legalsat.extract.blocks.async_plan import async_plan, turn_of
from legalsat.extract.blocks.modulo import After, ModuloSchedule, Step, modulo_schedule

LONGEST = 12  # nanoseconds; the search below tries every start up to there


def holds(steps: list[Step], waits: list[After], starts: dict[str, int], interval: int) -> bool:
    """Whether these starts, repeated every interval, keep all waits and give each resource to one step at a time."""
    by_name = {step.name: step for step in steps}
    for wait in waits:
        first = by_name[wait.first]
        if starts[wait.then] + wait.turns * interval < starts[wait.first] + first.latency:
            return False
    taken: set[tuple[str, int]] = set()
    for step in steps:
        for moment in range(step.busy if step.resource else 0):
            slot = (step.resource, (starts[step.name] + moment) % interval)
            if slot in taken:
                return False
            taken.add(slot)
    return True


def shortest(steps: list[Step], waits: list[After]) -> int:
    for interval in range(1, 40):
        for moments in product(range(LONGEST), repeat=len(steps)):
            starts = {step.name: at for step, at in zip(steps, moments, strict=True)}
            if holds(steps, waits, starts, interval):
                return interval
    raise AssertionError("no interval is long enough")


@st.composite
def loops(draw: st.DrawFn) -> tuple[list[Step], list[After]]:
    count = draw(st.integers(1, 3))
    resources = st.sampled_from(("", "x", "y"))
    steps = [Step(f"s{i}", draw(resources), draw(st.integers(0, 3)), draw(st.integers(0, 3))) for i in range(count)]
    waits = []
    for first, then in product(range(count), repeat=2):
        if draw(st.booleans()):
            turns = draw(st.integers(0 if first < then else 1, 2))
            waits.append(After(f"s{first}", f"s{then}", turns))
    return steps, waits


@settings(deadline=None, max_examples=60)
@given(loops())
def test_no_interval_is_shorter(loop: tuple[list[Step], list[After]]) -> None:
    steps, waits = loop
    found = modulo_schedule(steps, waits)
    assert holds(steps, waits, found.starts, found.interval)
    assert found.interval == shortest(steps, waits)


def test_steps_that_wait_for_each_other_in_one_turn_are_refused() -> None:
    steps = [Step("a", "", 0, 1), Step("b", "", 0, 1)]
    with pytest.raises(ls.InvalidInput, match="wait for each other"):
        modulo_schedule(steps, [After("a", "b"), After("b", "a")])
    with pytest.raises(ls.InvalidInput, match="no step is called c"):
        modulo_schedule(steps, [After("a", "c")])
    with pytest.raises(ls.InvalidInput, match="each its own"):
        modulo_schedule([steps[0], steps[0]], [])


def test_stages_are_as_many_as_turns_live_at_once() -> None:
    load, multiply = Step("load", "engine", 10, 80), Step("multiply", "unit", 40, 40)
    found = modulo_schedule([load, multiply], [After("load", "multiply"), After("multiply", "multiply", 1)])
    assert found == ModuloSchedule(40, {"load": 0, "multiply": 80}, ("unit",))
    assert found.stages("load", multiply) == 3  # 120 ns, turns of 40


def test_too_few_stages_make_turns_longer() -> None:
    plan = ls.synthesize(ls.Gemm(4096, 4096, 4096, "bf16"), "b200").tiled
    assert plan is not None
    found = async_plan(plan)
    steps, waits = turn_of(plan)
    assert found.fit == plan.stages
    assert (found.interval == found.schedule.interval) or found.needed > found.fit
    refill = After("multiply", "load A", max(1, found.needed))
    assert modulo_schedule(steps, (*waits, refill)).interval == found.schedule.interval, "needed stages suffice"
    if found.needed > 1:
        refill = After("multiply", "load A", found.needed - 1)
        assert modulo_schedule(steps, (*waits, refill)).interval > found.schedule.interval, "and fewer do not"
    assert all(sentence for sentence in found.reasons)
