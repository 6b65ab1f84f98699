"""The search finds equal movements only, and how it came to each; brute force compares what is moved."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legalsat.access import Access, Mode
from legalsat.extract import search
from legalsat.extract.search import SearchGaveUp, candidates, coalesced, derivation
from legalsat.extract.tiles import proposals
from legalsat.law import Equations, Int, law, mode, rewrite
from legalsat.rules.rewrites import LAWS

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


@settings(deadline=None, max_examples=40)
@given(accesses())
def test_candidates_are_equal_movements_with_derivations(start: Access) -> None:
    found = candidates(start)
    assert found[0] == start
    assert len(set(found)) == len(found)
    for candidate in found:
        assert candidate.tiles() == start.tiles()
        access = start
        for step in derivation(start, candidate):
            assert step.access in BY_NAME[step.law].steps(access)
            access = step.access
        assert access == candidate


@settings(deadline=None, max_examples=20)
@given(accesses())
def test_search_is_deterministic(start: Access) -> None:
    assert candidates(start) == candidates(start)


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
    assert Access(16, (Mode(512, 16, 16, 512),)) in candidates(rows)
    long = Access(8, (Mode(4096, 8, 8, 1024),))
    assert any(max(m.tile for m in c.modes) <= 256 for c in candidates(long))
    packed = Access(4, (Mode(64, 4, 4, 64), Mode(8, 256, 512, 8)))
    assert {c.word for c in candidates(packed)} >= {4, 8, 16, 32}
    double = Access(64, (Mode(64, 64, 64, 64), Mode(8, 8192, 8192, 8)))
    assert any(c.word == 32 for c in candidates(double))
    unit = Access(16, (Mode(1, 3, 5, 1), Mode(64, 16, 16, 64)))
    assert Access(16, (Mode(64, 16, 16, 64),)) in candidates(unit)


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
    assert all(candidate.tiles() == start.tiles() for candidate in candidates(start, (grow,)))


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
