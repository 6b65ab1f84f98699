"""Relations of strided modes, on numbers and on parameters; brute force over small modes is the oracle."""

from __future__ import annotations

import itertools
import math
import random
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, TypeAlias

import islpy as isl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legalsat.analyses.banks.bank_sets import worst_bank
from legalsat.analyses.sets import progressions, relations
from legalsat.analyses.sets.isl_logic import IslTruth, NotAffine
from legalsat.analyses.sets.progressions import count, ends, merged, same_set
from legalsat.analyses.sets.relations import (
    TooHard,
    footprint,
    injective,
    offsets,
)
from legalsat.dims import Dim, Extent, bind
from legalsat.errors import InvalidInput, LegalSatError
from legalsat.targets import BankModel

Vector: TypeAlias = tuple[int, ...]
Progressions: TypeAlias = list[tuple[int, Vector]]

VALUES = range(1, 41)
N = Dim("N", max=40)
# A dim's name may be a word of isl's, or one that a coordinate has.
ODD_NAMES = (N, Dim("mod", max=40), Dim("c0", multiple_of=3, max=40), Dim("p1", min=4, max=30))
STRIDES = st.sampled_from((0, 1, 2, 3, 4, 5, 6, 8, 12, -1, -2, -3))


def modes(sides: int, most: int = 4) -> st.SearchStrategy[Progressions]:
    return st.lists(st.tuples(st.integers(1, 5), st.tuples(*[STRIDES] * sides)), max_size=most)


@st.composite
def open_modes(draw: st.DrawFn, sides: int) -> tuple[list[tuple[Extent, Vector]], Dim]:
    """Modes of which one has an open extent, a dim or a number times it; and the dim."""
    found: list[tuple[Extent, Vector]] = [*draw(modes(sides, 2))]
    dim = draw(st.sampled_from(ODD_NAMES))
    mode = (draw(st.sampled_from((1, 1, 2))) * dim, draw(st.tuples(*[STRIDES] * sides)))
    found.insert(draw(st.integers(0, len(found))), mode)
    return found, dim


def values_of(dim: Dim) -> list[int]:
    return [v for v in VALUES if dim.min <= v <= dim.max and v % dim.multiple_of == 0]


def bound(steps: Sequence[tuple[Extent, Vector]], dim: Dim, value: int) -> Progressions:
    return [(bind(extent, {dim.name: value}), stride) for extent, stride in steps]


def sums(steps: Sequence[tuple[int, Vector]]) -> list[Vector]:
    """The offsets of all coordinates in the order of the flat index, by the definition."""
    width = len(steps[0][1]) if steps else 1
    return [
        tuple(sum(c * v[side] for c, (_, v) in zip(reversed(at), steps, strict=True)) for side in range(width))
        for at in itertools.product(*(range(n) for n, _ in reversed(steps)))
    ]


def fixed(found: Any, dim: Dim, value: int) -> Any:
    """The set or map at a value of the dim; what it does not name is open to every value."""
    place = found.find_dim_by_name(isl.dim_type.param, dim.name)
    assert place >= 0, "an open extent is named"
    number = isl.Val.read_from_str(isl.DEFAULT_CONTEXT, str(value))
    return found.fix_val(isl.dim_type.param, place, number).project_out(isl.dim_type.param, place, 1)


def points(found: Any) -> set[Vector]:
    """The points of a bounded set without parameters, counted by isl."""
    assert not found.dim(isl.dim_type.param)
    listed: list[Vector] = []
    width = found.dim(isl.dim_type.set)
    found.foreach_point(
        lambda point: listed.append(
            tuple(int(point.get_coordinate_val(isl.dim_type.set, i).to_python()) for i in range(width))
        )
    )
    return set(listed)


def holds(truth: Any, dim: Dim, value: int) -> bool:
    assert isinstance(truth, IslTruth)
    return not fixed(truth.holds, dim, value).is_empty()


def no_point_twice(steps: Sequence[tuple[int, Vector]]) -> bool:
    return len(set(sums(steps))) == math.prod(n for n, _ in steps)


# Relations.


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 2).flatmap(modes))
def test_relations_of_numbers(steps: Progressions) -> None:
    expected = sums(steps)
    assert points(footprint(steps)) == set(expected)
    coordinates = list(itertools.product(*(range(n) for n, _ in reversed(steps))))
    graph = {(*reversed(at), *offset) for at, offset in zip(coordinates, expected, strict=True)}
    assert points(offsets(steps).wrap()) == graph
    assert injective(steps) is no_point_twice(steps)


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 2).flatmap(open_modes))
def test_relations_of_open_extents_at_every_value(drawn: tuple[list[tuple[Extent, Vector]], Dim]) -> None:
    steps, dim = drawn
    touched, truth = footprint(steps), injective(steps)
    for value in VALUES:
        if value not in values_of(dim):
            assert fixed(touched, dim, value).is_empty()
            assert not holds(truth, dim, value)
            continue
        closed = bound(steps, dim, value)
        expected = sums(closed)
        assert points(fixed(touched, dim, value)) == set(expected)
        assert holds(truth, dim, value) is no_point_twice(closed)


def test_injectivity_of_two_open_extents() -> None:
    rows, columns = Dim("R", max=40), Dim("C", max=40)
    truth = injective([(rows, 3), (columns, 5)])
    assert isinstance(truth, IslTruth)
    for r, c in itertools.product(VALUES, VALUES):
        assert (not fixed(fixed(truth.holds, rows, r), columns, c).is_empty()) is no_point_twice([(r, (3,)), (c, (5,))])


@settings(deadline=None, max_examples=150)
@given(modes(1, 5))
def test_count(steps: Progressions) -> None:
    assert count(steps) == len(set(sums(steps)))


def test_count_needs_no_counting_where_modes_join_or_stand_apart() -> None:
    assert count([(2**40, 1), (2**20, 2**39)]) == 2**40 + (2**20 - 1) * 2**39
    assert count([(2**20, 2), (2**20, -(2**30))]) == 2**40


# Banks.

BANKS = st.builds(BankModel, st.sampled_from((1, 2, 3, 4, 8)), st.sampled_from((1, 2, 4)))
LANES = st.lists(st.tuples(st.integers(1, 5), st.tuples(st.integers(-9, 20))), max_size=3)


def touched_words(lanes: Progressions, width: int, banks: BankModel, base: int) -> list[set[int]]:
    """The words of every lane."""
    return [{(base + start + byte) // banks.bytes for byte in range(width)} for (start,) in sums(lanes)]


@settings(deadline=None, max_examples=300)
@given(LANES, st.integers(1, 9), BANKS, st.integers(-5, 40))
def test_worst_bank(lanes: Progressions, width: int, banks: BankModel, base: int) -> None:
    served: dict[int, set[int]] = defaultdict(set)
    for word in set().union(*touched_words(lanes, width, banks, base)):
        served[word % banks.count].add(word)
    assert worst_bank(lanes, width, banks, base) == max(map(len, served.values()))


def test_bank_conflicts_as_they_are_known() -> None:
    banks = BankModel(32)
    assert worst_bank([(32, 4)], 4, banks) == 1
    assert worst_bank([(32, 128)], 4, banks) == 32
    assert worst_bank([(32, 132)], 4, banks) == 1
    assert worst_bank([(32, 8)], 4, banks) == 2
    assert worst_bank([(32, 0)], 4, banks) == 1
    assert worst_bank([(32, 2)], 2, banks) == 1
    assert worst_bank([(4096, 128), (4096, 2**20)], 4, banks) == 2**24


# Sets.


@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(st.integers(1, 5), st.tuples(*[st.sampled_from((0, 1, 2, 3, 4, 6))] * 2)), max_size=4))
def test_merged_modes_touch_the_same(steps: Progressions) -> None:
    fewer = merged(steps)
    assert len(fewer) <= len(steps)
    assert {at[:2] for at in sums(fewer)} == set(sums(steps)) or not fewer
    assert set(sums(steps)) == {(0, 0)} or fewer or not steps


def test_same_set_and_ends_against_brute_force() -> None:
    draw = random.Random(1)
    asked: dict[bool, int] = defaultdict(int)
    kept: dict[Any, Progressions] = {}
    for _ in range(1500):
        steps: Progressions = [
            (draw.randint(2, 5), (d := draw.choice((1, 2, 3, 4, 6)), d)) for _ in range(draw.randint(1, 3))
        ]
        touched = frozenset(sums(steps))
        other = kept.setdefault(touched, steps)
        assert same_set(steps, other), f"{steps} is {other}"
        if no_point_twice(steps) and no_point_twice(other):
            assert ends(steps) == ends(other)
        asked[ends(steps) == ends(other)] += 1
    assert asked[True] and asked[False]
    for (some, one), (more, other) in itertools.islice(itertools.pairwise(kept.items()), 200):
        assert same_set(one, other) is (some == more)


# Limits and refusals.


def test_isl_is_stopped_and_goes_on_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    hard = [(50, (7, 5)), (60, (12, 31)), (70, (23, 17)), (40, (31, 9))]
    monkeypatch.setattr(relations, "MAX_OPERATIONS", 10)
    with pytest.raises(TooHard, match="injectivity of modes takes isl more than 10 operations"):
        injective(hard)
    monkeypatch.undo()
    assert isl.DEFAULT_CONTEXT.get_max_operations() == 0
    assert isinstance(injective(hard), bool)


def test_counting_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progressions, "MAX_SPAN", 20)
    assert count([(4, 2), (4, 3)]) == len({2 * a + 3 * b for a in range(4) for b in range(4)})
    with pytest.raises(TooHard, match="modes span 34 offsets"):
        count([(7, 3), (4, 5)])


@pytest.mark.parametrize(
    ("steps", "error", "said"),
    [
        ([(4, N)], NotAffine, "stride N is open"),
        ([(N * Dim("K"), 1)], NotAffine, "multiplies open extents"),
        ([(0, 1)], InvalidInput, "extent of a mode is 0"),
        ([(4, "1")], InvalidInput, "stride of a mode"),
        ([(4, (1, 2)), (3, 1)], InvalidInput, "1 strides"),
        ([(4, ())], InvalidInput, "0 strides"),
        ([(N, 1), (Dim("N", max=41), 2)], InvalidInput, "two different dims"),
    ],
)
def test_modes_that_are_none(steps: Any, error: type[LegalSatError], said: str) -> None:
    for ask in (footprint, offsets, injective):
        with pytest.raises(error, match=said):
            ask(steps)


def test_open_extents_where_none_can_be() -> None:
    with pytest.raises(NotAffine, match="bind"):
        count([(N, 1)])
    with pytest.raises(NotAffine, match="bind"):
        worst_bank([(N, 4)], 4, BankModel(32))
    with pytest.raises(InvalidInput, match="give 1"):
        worst_bank([(4, (1, 1))], 4, BankModel(32))
