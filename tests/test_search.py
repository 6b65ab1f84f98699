"""The search finds equal movements only, and how it came to each; brute force compares what is moved."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import random
import signal
import subprocess
import sys

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bench.search.functions import Joined, every_class, nothing, saturated
from legalsat.extract.search import search
from legalsat.extract.search.search import (
    EQUAL_AS_FUNCTIONS,
    SearchGaveUp,
    candidates,
    canonical,
    coalesced,
    derivation,
    function_form,
)
from legalsat.extract.search.tiles import proposals
from legalsat.law import Equations, Int, Law, law, mode, rewrite
from legalsat.operators.access import Access, Mode
from legalsat.rules.rewrites import LAWS
from legalsat.terms.accesses import Graph
from legalsat.units.means import ANY, MEANS

BY_NAME = {law.name: law for law in LAWS}


@st.composite
def accesses(draw: st.DrawFn) -> Access:
    """Draw a small movement with modes that often continue each other, on one side or both."""
    word = draw(st.sampled_from((4, 6, 8, 16, 64)))
    modes: list[Mode] = []
    source = target = word
    for _ in range(draw(st.integers(1, 4))):
        extent = draw(st.sampled_from((1, 2, 3, 4, 8, 16)))
        tile = draw(st.sampled_from((extent, extent, 1, 2, 2 * extent)))
        modes.append(Mode(extent, source, target, tile))
        gap = draw(st.sampled_from((1, 1, 1, 2)))
        source, target = source * extent * gap, target * extent * draw(st.sampled_from((1, 1, gap, 3)))
    found = Access(word, tuple(draw(st.permutations(modes))))
    return found if math.prod(m.extent for m in modes) <= 600 else Access(word, found.modes[:2])


def found_from(start: Access, laws: tuple[Law, ...] = LAWS) -> list[Access]:
    """Return the candidates of one start."""
    return [found.access for found in candidates([start], laws)[0]]


def check_derivation(start: Access, goal: Access) -> None:
    """Replay a derivation by the plain laws; each may be read either way."""
    access = start
    for step in derivation(start, goal):
        if step.law == EQUAL_AS_FUNCTIONS:
            assert canonical(step.access) != canonical(access)
            assert step.access.tiles() == access.tiles()
        else:
            law = BY_NAME[step.law]
            assert law.leads(access, step.access) or law.leads(step.access, access)
        access = step.access
    assert access == goal


@pytest.mark.parametrize(
    "modes",
    [
        # Six of two and two of six, every third word of which is another's: no neighbours continue each other.
        (Mode(6, 32, 64, 6), Mode(2, 48, 96, 2), Mode(8, 1024, 1024, 8)),
        (Mode(6, 32, 64, 1), Mode(2, 48, 96, 1), Mode(8, 1024, 1024, 8)),
    ],
)
def test_accesses_that_no_law_connects_meet_as_functions(modes: tuple[Mode, ...]) -> None:
    start = Access(16, modes)
    form = function_form(start)
    assert form is not None and form.tiles() == start.tiles()
    with Graph(LAWS) as graph:
        graph.add(0, start)
        graph.add(1, form)
        while graph.step():
            pass
        assert not graph.equal(start, form)
    assert form in found_from(start)
    assert EQUAL_AS_FUNCTIONS in [step.law for step in derivation(start, form)]
    check_derivation(start, form)


@pytest.mark.parametrize("seed", range(40))
def test_where_words_of_the_target_lie_apart_laws_find_what_functions_show(seed: int) -> None:
    r, modes, source, target = random.Random(seed), [], 16, 16
    for _ in range(r.randint(2, 4)):
        extent = r.choice((2, 3, 4, 6, 8, 12))
        tile = r.choice((1, extent, r.randint(1, extent)))
        modes.append(Mode(extent, r.choice((source, source, 0, 16)), target, tile))
        source, target = source * extent * r.choice((1, 1, 2)), target * extent * r.choice((1, 1, 2))
    start = Access(16, tuple(r.sample(modes, len(modes))))
    form = function_form(start)
    if form is not None:
        by_laws = {one.access for one in saturated([start], nothing, Joined(""))[0]}
        assert form in by_laws


def test_functions_joined_each_round_find_what_laws_do_not() -> None:
    """So that a table in which they find nothing (`bench.search.functions`) says something of its movements."""
    start = Access(16, (Mode(6, 32, 64, 6), Mode(2, 48, 96, 2), Mode(8, 1024, 1024, 8)))
    by_laws, by_functions = (
        {one.access for one in saturated([start], between, Joined(""))[0]} for between in (nothing, every_class)
    )
    assert by_laws < by_functions and function_form(start) in by_functions - by_laws
    assert all(one.tiles() == start.tiles() for one in by_functions)


@settings(deadline=None, max_examples=40)
@given(accesses())
def test_candidates_are_equal_movements_with_derivations(start: Access) -> None:
    found = found_from(start)
    assert len(set(found)) == len(found)
    assert {access.by for access in found} == {ANY, *MEANS}
    for candidate in found:
        assert candidate.tiles() == start.tiles()
        check_derivation(start, candidate)


@settings(deadline=None, max_examples=30)
@given(accesses())
def test_every_step_of_a_law_is_among_the_candidates(start: Access) -> None:
    """Brute force: what the laws make of an access in up to three steps, in any order of its modes."""
    assume(any(m.extent > 1 for m in start.modes))
    found = set(found_from(start))
    states = {canonical(start)}
    for _ in range(3):
        states |= {canonical(after) for s in states for law in LAWS for _, after in law.unordered_steps(s)}
    stripped = {without_units(state) for state in states if any(m.extent > 1 for m in state.modes)}
    assert stripped <= found


def without_units(access: Access) -> Access:
    """Drop modes of one element and a tile of one, which say nothing, unless nothing else is left."""
    kept = tuple(m for m in access.modes if not m.extent == m.tile == 1) or access.modes[-1:]
    return Access(access.word, kept, access.by)


@settings(deadline=None, max_examples=20)
@given(accesses())
def test_search_is_deterministic(start: Access) -> None:
    assert candidates([start]) == candidates([start])


def test_starts_in_one_graph_are_found_as_if_alone() -> None:
    starts = [Access(16, (Mode(64, 16, 16, t), Mode(8, 1024, 1024, t))) for t in (8, 64)]
    together = candidates(starts)
    for start, found in zip(starts, together, strict=True):
        assert {one.access for one in found} == set(found_from(start))


@settings(deadline=None, max_examples=60)
@given(accesses())
def test_coalescing_keeps_the_movement_and_ends_where_nothing_merges(start: Access) -> None:
    whole = Access(start.word, tuple(sorted(m._replace(tile=m.extent) for m in start.modes)))
    access, steps = coalesced(whole)
    assert access.tiles() == whole.tiles()
    at = whole
    for step in steps:
        assert step.access in BY_NAME[step.law].steps(at)
        at = step.access
    assert at == access
    if len(access.modes) > 1:
        assert all(m.extent > 1 for m in access.modes)
        for one, other in itertools.pairwise(access.modes):
            assert (other.source, other.target) != (one.extent * one.source, one.extent * one.target)


def test_candidates_find_what_each_law_is_for() -> None:
    rows = Access(16, (Mode(64, 16, 16, 64), Mode(8, 1024, 1024, 8)))
    assert Access(16, (Mode(512, 16, 16, 512),)) in found_from(rows)
    long = Access(8, (Mode(4096, 8, 8, 1024),))
    assert any(max(m.tile for m in c.modes) <= 256 for c in found_from(long))
    packed = Access(4, (Mode(64, 4, 4, 64), Mode(8, 256, 512, 8)))
    assert {c.word for c in found_from(packed)} >= {4, 8}
    double = Access(64, (Mode(64, 64, 64, 64), Mode(8, 8192, 8192, 8)))
    assert any(c.word == 32 for c in found_from(double))
    unit = Access(16, (Mode(1, 3, 5, 1), Mode(64, 16, 16, 64)))
    assert Access(16, (Mode(64, 16, 16, 64),)) in found_from(unit)


def test_derivations_are_shortest() -> None:
    start = Access(16, (Mode(4, 16, 16, 4), Mode(4, 64, 64, 4), Mode(4, 256, 256, 4)))
    steps = derivation(start, Access(16, (Mode(64, 16, 16, 64),)))
    assert [step.law for step in steps] == ["merge_adjacent_modes"] * 2
    assert derivation(start, start) == ()


def test_a_goal_that_laws_do_not_reach_is_said_to_be_out_of_reach() -> None:
    start = Access(16, (Mode(4, 16, 16, 4),))
    with pytest.raises(SearchGaveUp, match="no derivation"):
        derivation(start, Access(16, (Mode(5, 16, 16, 5),)))


def test_saturation_stops_within_its_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """A law that grows for ever is cut off; what was found until then is equal all the same."""

    @law
    def grow(n: Int, s: Int, d: Int, t: Int) -> Equations:
        """n:s->d/t  =  1:s->d/1, n:s->d/t"""
        yield rewrite(mode(n, s, d, t)).to(mode(1, s, d, 1), mode(n, s, d, t))

    monkeypatch.setattr(search, "MAX_NODES", 50)
    start = Access(8, (Mode(4, 8, 8, 4), Mode(2, 64, 64, 2)))
    assert all(candidate.tiles() == start.tiles() for candidate in found_from(start, (grow,)))


@settings(deadline=None, max_examples=80)
@given(accesses())
def test_proposed_tiles_keep_everything_but_tiles(start: Access) -> None:
    found = proposals(start)
    assert found and len(set(found)) == len(found)
    for tiled in found:
        assert tiled.word == start.word
        assert [m._replace(tile=1) for m in tiled.modes] == [m._replace(tile=1) for m in start.modes]
        assert all(m.tile > 0 and m.tile & (m.tile - 1) == 0 for m in tiled.modes)
        fastest = min((m for m in tiled.modes), key=lambda m: (m.source == 0, m.source))
        # Words of 6 bits are recast to bytes before they are tiled.
        assert fastest.tile * tiled.word >= 128 or fastest.extent == 1 or fastest.source == 0 or tiled.word == 6


FORKED = """
import os
import legalsat as ls
def plan(rows):
    return ls.synthesize(ls.Copy(ls.Tensor((rows, 72), "bf16"), tile=(64, 64)), "h200")
child = os.fork()
if child == 0:
    plan(100)  # before the first plan nothing is lost
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
plan(200)
child = os.fork()
if child == 0:
    try:
        plan(300)
    except ls.LegalSatError as error:
        os._exit(8 if "spawn" in str(error) else 9)
    os._exit(10)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 8
plan(400)  # the parent goes on
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_is_told_why_it_cannot_plan() -> None:
    """It waited for ever: egglog's threads are not there."""
    process = subprocess.Popen([sys.executable, "-c", FORKED], start_new_session=True)
    try:
        assert process.wait(timeout=120) == 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # children that wait too
