"""What the e-graph says of a class of modes holds for the movement, by brute force; what it bars no map can load."""

from __future__ import annotations

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from problems import operators

from legalsat.extract.search import by_boxes
from legalsat.extract.search.delivery import Question
from legalsat.extract.search.facts import barred
from legalsat.extract.search.search import candidates, function_form
from legalsat.extract.solve.fields import Conflict
from legalsat.operators import Move, access_of
from legalsat.operators.access import Access, Mode
from legalsat.targets import target

H200 = target("h200")


@st.composite
def accesses(draw: st.DrawFn) -> Access:
    """Draw a small movement whose strides may continue, overlap, stand still, or be misaligned."""
    word = draw(st.sampled_from((8, 16)))
    modes: list[Mode] = []
    source = target = word
    for _ in range(draw(st.integers(1, 4))):
        extent = draw(st.sampled_from((1, 2, 3, 4, 5)))
        tile = draw(st.sampled_from((extent, 1, 2)))
        modes.append(Mode(extent, draw(st.sampled_from((source, source, 0, word))), target, tile))
        source = source * extent * draw(st.sampled_from((1, 1, 2, 3)))
        target = target * extent * draw(st.sampled_from((1, 1, 5)))
    return Access(word, tuple(draw(st.permutations(modes))))


GRANULE = 128  # bits


def misaligned(mode: Mode) -> bool:
    return mode.extent > 1 and mode.source > GRANULE and mode.source % GRANULE != 0


def absorbing(mode: Mode) -> bool:
    return 1 < mode.extent <= mode.tile and mode.source < GRANULE


@settings(deadline=None, max_examples=120)
@given(accesses())
def test_facts_hold_for_the_movement(start: Access) -> None:
    """They are the best of all lists of a class, and the same for each of them."""
    assume(function_form(start) is None)  # which is a class of its own
    (found,) = candidates([start])
    same_word = [one for one in found if one.access.word == start.word]
    facts = same_word[0].facts
    assert all(one.facts == facts for one in same_word), "a class has one set of facts"
    lists = [one.access.modes for one in same_word]
    assert facts["misaligned"] == min(sum(map(misaligned, modes)) for modes in lists)
    assert facts["absorbing"] == max(any(map(absorbing, modes)) for modes in lists)


def test_every_fact_takes_more_than_one_value_and_is_read() -> None:
    dense = Access(16, (Mode(4, 16, 16, 4), Mode(4, 64, 64, 4)))
    loose = Access(16, (Mode(20, 16, 16, 1), Mode(5, 1032, 1032, 5)))
    one, other = (candidates([start])[0][0].facts for start in (dense, loose))
    assert one.keys() == other.keys() and all(one[name] != other[name] for name in one)
    for name in one:
        facts = dict(other, **{name: one[name]})
        assert barred("tma", other) and not barred("tma", facts)


@settings(deadline=None, max_examples=150)
@given(operators())
def test_what_is_barred_no_tensor_map_can_load(operator: Move) -> None:
    if operator.tile is None:
        return
    (found,) = candidates([access_of(operator, operator.tile)])
    for one in found:
        if barred(one.access.by, one.facts):
            assert isinstance(by_boxes.solve(Question(operator, one.access, H200)), Conflict)


def test_rows_of_an_odd_pitch_are_barred_and_others_are_not() -> None:
    def bars(pitch: int) -> bool:
        start = Access(16, (Mode(4095, 16, 16, 64), Mode(4096, pitch, pitch, 128)))
        (boxed,) = (one for one in candidates([start])[0] if one.access.by == "tma")
        return barred("tma", boxed.facts)

    assert bars(4095 * 16) and not bars(4096 * 16)
