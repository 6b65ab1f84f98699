"""Plans cost what exhaustive enumeration finds; `python -m bench.search.optimality` asks this of 5,000 problems."""

from __future__ import annotations

import ast
import itertools
import math
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from execute import execute
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.kernels.moved import memory_of, moved
from bench.search import equal_accesses as equal
from bench.search import exhaustive
from bench.search.equal_accesses import TooManyWays, equal_accesses
from bench.search.exhaustive import MEANS, Way, cheapest
from bench.search.optimality import ALONE, CHEAPER, DEARER, EQUAL, REFUSED, Tally, best_way, measure, text, verdict
from bench.search.random_problems import TARGETS, problem
from legalsat.extract.check.recheck import recheck
from legalsat.extract.search.planner import Limits, plan
from legalsat.extract.search.views import views_of
from legalsat.operators import Copy, access_of
from legalsat.operators.access import Access, Mode
from legalsat.plans.codec import InvalidPlan
from legalsat.rules.rewrites import LAWS
from legalsat.rules.rewrites.modes import split_long_tile
from legalsat.targets import target
from legalsat.tensor import Tensor

H200 = target("h200")
PROBLEMS = 60
# What would share the planner's way of finding plans, and so its faults.
FORBIDDEN = {"search", "solver", "recorded", "requirements", "fields", "planner", "by_boxes", "by_vectors", "by_phases"}


def test_plans_cost_what_trying_every_way_finds() -> None:
    report = measure(PROBLEMS)
    assert report.every_way.verdicts.total() == PROBLEMS
    assert report.sound, text(report)
    assert report.every_way.verdicts[EQUAL] > PROBLEMS // 3
    assert len(report.by_means) > 4 and set(report.by_target) == set(TARGETS)


def best_of(operator: Copy) -> Way:
    found = best_way(operator, "h200", cuts=False)
    assert found is not None
    return found


def test_a_planner_that_lacks_a_law_is_seen_to_be_dearer() -> None:
    """A tile of 1,024 bytes takes a box of 256 x 4, which a planner that splits no long tiles does not know."""
    operator = Copy(Tensor((1024,), "u8"), tile=(1024,))
    best = best_of(operator).cost
    complete = plan(operator, H200, Limits(means=MEANS))
    lacking = plan(operator, H200, Limits(means=MEANS, laws=tuple(law for law in LAWS if law != split_long_tile)))
    assert verdict(best, complete.cost) == EQUAL
    assert verdict(best, lacking.cost) == DEARER
    assert verdict(lacking.cost, best) == CHEAPER
    assert verdict(None, best) == verdict(best, None) == ALONE
    assert verdict(None, None) == REFUSED


def test_axes_of_one_element_have_the_strides_of_each_other() -> None:
    """Both equal the axis without strides, so a list with one's strides twice is a way too, with fewer instructions."""
    source = Tensor((3, 4, 1, 1, 2, 1), "bf16", (0, 9, 9, 8, 2, 1), align=16)
    operator = Copy(source, replace(source, strides=(8, 2, 2, 2, 1, 1), align=256), tile=(2, 1, 3, 1, 4, 3))
    found, best = plan(operator, target("a100"), Limits(means=MEANS)), best_way(operator, "a100", cuts=False)
    assert best is not None and verdict(best.cost, found.cost) == EQUAL
    units = [mode for mode in found.access.modes if mode.extent == 1]
    assert len(units) == 2 and units[0] == units[1]
    memory, result = memory_of(operator.source, 1), memory_of(operator.target)
    assert np.array_equal(execute(found, memory, result), moved(operator, memory, result))


def test_rows_of_a_dense_target_go_on_where_those_of_a_pitched_source_end() -> None:
    """Threads that turn the tile store 16 rows of 66 bytes in vectors of 16; a view of rows alone has vectors of 2."""
    rows = Tensor((64, 33), "bf16", (40, 1), align=16), Tensor((64, 33), "bf16")
    operator = Copy(*rows, tile=(16, 33))
    found, best = plan(operator, target("b200"), Limits(means=MEANS)), best_way(operator, "b200", cuts=True)
    assert best is not None and verdict(best.cost, found.cost) == EQUAL
    assert found.copies[-1].bytes == 16 and found.views[0].groups != found.views[1].groups
    source, result = memory_of(operator.source, 1), memory_of(operator.target)
    assert np.array_equal(execute(found, source, result), moved(operator, source, result))
    with pytest.raises(InvalidPlan):
        recheck(replace(found, views=views_of(found.access)[0]))


def test_a_tally_holds_the_widest_gap() -> None:
    one, other = best_of(Copy(Tensor((64, 64), "bf16"))), best_of(Copy(Tensor((512, 64), "bf16")))
    tally = Tally()
    assert [tally.add(one, other.cost), tally.add(one, one.cost), tally.add(None, None)] == [DEARER, EQUAL, REFUSED]
    assert tally.widest_time_gap == other.cost.nanoseconds / one.cost.nanoseconds - 1 > 0


@st.composite
def accesses(draw: st.DrawFn) -> Access:
    """Draw a small movement whose modes often continue each other."""
    modes, step = [], 8
    for _ in range(draw(st.integers(1, 3))):
        extent = draw(st.sampled_from((1, 2, 3, 4, 6)))
        modes.append(Mode(extent, step, step, draw(st.sampled_from((extent, 1, 2, 2 * extent)))))
        step *= extent * draw(st.sampled_from((1, 1, 2)))
    return Access(8, tuple(modes))


@settings(deadline=None, max_examples=40)
@given(accesses())
def test_all_lists_of_modes_are_equal_movements(start: Access) -> None:
    found = equal_accesses(start)
    assert all(access.tiles() == start.tiles() for access in found)
    assert sum(found.values()) == len(equal_accesses(start, cuts=False))


@settings(deadline=None, max_examples=40)
@given(st.sampled_from((2, 6, 8, 12, 30, 32, 60)))
def test_a_whole_mode_is_cut_in_every_way(extent: int) -> None:
    """Brute force: a list of modes for each way to write the extent as an ordered product."""

    def products(number: int) -> list[tuple[int, ...]]:
        whole = [(number,)] if number > 1 else [()]
        return whole + [(k, *rest) for k in range(2, number) if number % k == 0 for rest in products(number // k)]

    expected = set()
    for factors in products(extent):
        steps = itertools.accumulate((8, *factors[:-1]), lambda step, factor: step * factor)
        expected.add(tuple(Mode(k, s, s, k) for k, s in zip(factors, steps, strict=True)))
    found = equal_accesses(Access(8, (Mode(extent, 8, 8, extent),)))
    assert {access.modes for access in found} == expected


def test_too_many_ways_are_said_to_be_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = Copy(Tensor((64, 64), "bf16"), tile=(64, 64))
    start = access_of(operator, operator.tile)
    monkeypatch.setattr(exhaustive, "MOST_BOXES", 10)
    with pytest.raises(TooManyWays, match="more than 10 boxes"):
        cheapest([start], operator, H200, cuts=False)
    monkeypatch.setattr(equal, "MOST_LISTS", 5)
    with pytest.raises(TooManyWays, match="more than 5 lists of modes"):
        equal_accesses(start)


@pytest.mark.parametrize("module", [exhaustive, equal])
def test_the_oracle_shares_no_search_with_the_planner(module: object) -> None:
    tree = ast.parse(Path(str(getattr(module, "__file__", ""))).read_text(encoding="utf-8"))
    names = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    assert names and not any(name.split(".")[-1] in FORBIDDEN for name in names)
    assert not any(isinstance(node, ast.Import) and node.names[0].name in {"z3", "egglog"} for node in ast.walk(tree))


def test_problems_come_from_the_seed_alone() -> None:
    one, other = Random(3), Random(3)
    drawn = [str(problem(one)) for _ in range(50)]
    assert drawn == [str(problem(other)) for _ in range(50)]
    assert len(set(drawn)) > 45


def test_problems_are_of_every_kind() -> None:
    random = Random(1)
    drawn = [problem(random) for _ in range(400)]
    sources = [p.operator.source for p in drawn]
    assert {p.rank for p in drawn} == set(range(1, 7)) and {p.target for p in drawn} == set(TARGETS)
    assert {p.operator.consumer for p in drawn} == {None, "threads", "wgmma.a", "wgmma.b"}
    assert (
        any(0 in s.strides for s in sources) and any(1 in s.shape for s in sources) and any(s.offset for s in sources)
    )
    assert {type(p.operator).__name__ for p in drawn} == {"Copy", "Transpose"}
    assert {p.operator.tile is None for p in drawn} == {True, False}
    assert all(math.prod(int(str(n)) for n in s.shape) <= 100_000 for s in sources)
