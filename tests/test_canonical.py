"""Canonical accesses and equal movements; `Access.tiles`, which counts what is moved, is the oracle."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legalsat.analyses.sets import canonical as movements
from legalsat.analyses.sets import relations
from legalsat.analyses.sets.canonical import canonical, fingerprint, same_movement
from legalsat.analyses.sets.relations import TooHard
from legalsat.errors import InvalidInput
from legalsat.operators.access import Access, Mode
from legalsat.rules.rewrites import LAWS


def drawn_movement(draw: random.Random) -> Access:
    """A small movement; many are equal, overlap, stand still or have tiles that overhang."""
    word, found = draw.choice((1, 1, 2, 3)), []
    for _ in range(draw.randint(0, 4)):
        step = draw.choice((0, 1, 1, 2, 3, 4, 6, 8, 12))
        kinds = ((step, step), (step, step), (step, 0), (draw.choice((0, 1, 2, 4, 8)), draw.choice((0, 1, 2, 4, 8))))
        found.append(Mode(draw.randint(1, 6), *draw.choice(kinds), draw.randint(1, 6)))
    return Access(word, tuple(found))


def no_element_twice(access: Access) -> bool:
    """Whether no tile holds an element twice and no two tiles begin at the same place, by brute force."""
    anchors, sizes = [], []
    for tile in itertools.product(*(range(-(-m.extent // m.tile)) for m in access.modes)):
        inside = [range(t * m.tile, min(m.extent, (t + 1) * m.tile)) for t, m in zip(tile, access.modes, strict=True)]
        moved = [
            tuple(sum(c * m[side] for c, m in zip(at, access.modes, strict=True)) + bit for side in (1, 2))
            for at in itertools.product(*inside)
            for bit in range(access.word)
        ]
        anchors.append(min(moved))
        sizes.append(len(moved) == len(set(moved)))
    return all(sizes) and len(anchors) == len(set(anchors))


@pytest.fixture(scope="module")
def classes() -> dict[Any, list[Access]]:
    """Small movements by what they move."""
    draw, found = random.Random(0), defaultdict(set)
    for _ in range(6000):
        access = drawn_movement(draw)
        found[access.tiles()].add(access)
    return {tiles: sorted(accesses, key=str) for tiles, accesses in found.items()}


def test_the_canonical_access_moves_the_same(classes: dict[Any, list[Access]]) -> None:
    for tiles, accesses in classes.items():
        for access in accesses:
            found = canonical(access)
            assert found.tiles() == tiles, f"{access} is not {found}"
            assert canonical(found) == found


def test_a_canonical_access_is_its_own() -> None:
    """Modes that overlap are joined, and what they make may join another, so that this one takes two rounds."""
    access = Access(3, (Mode(3, 4, 4, 5), Mode(6, 2, 2, 4)))
    found = canonical(access)
    assert canonical(found) == found
    assert found.tiles() == access.tiles()


def test_equal_movements_are_seen_to_be_equal(classes: dict[Any, list[Access]]) -> None:
    left_to_isl = 0
    for accesses in classes.values():
        assert len({fingerprint(access) for access in accesses}) == 1, accesses
        forms = {canonical(access): access for access in accesses}
        left_to_isl += len(forms) > 1
        for one, other in itertools.combinations(forms.values(), 2):
            assert same_movement(one, other), f"{one} is {other}"
            assert not (no_element_twice(one) and no_element_twice(other)), f"{one} and {other} have one form"
    assert left_to_isl


def test_different_movements_are_seen_to_differ(classes: dict[Any, list[Access]]) -> None:
    alike = defaultdict(list)
    for accesses in classes.values():
        alike[fingerprint(accesses[0])].append(accesses[0])
    asked = 0
    for accesses in alike.values():
        for one, other in itertools.islice(itertools.combinations(accesses, 2), 20):
            assert not same_movement(one, other), f"{one} is not {other}"
            asked += 1
    assert asked > 100
    assert len(alike) > len(classes) // 2


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_modes_taken_apart_are_the_same_movement(data: st.DataObject) -> None:
    """Splitting, reordering, idle modes and other words change no movement; a longer or a shifted mode does."""
    draw = data.draw(st.randoms(use_true_random=False))
    word = draw.choice((4, 8, 16, 64))
    whole, source, target = [], word, word
    for _ in range(draw.randint(1, 4)):
        extent, tile = draw.choice((2, 4, 6, 8)), draw.choice((1, 2, 3, 4, 8))
        whole.append(Mode(extent, source, target, tile))
        source, target = source * extent, target * extent * draw.choice((1, 3))
    one = Access(word, tuple(whole))
    parts: list[Mode] = []
    for mode in whole:
        extent, source, target, tile = mode
        factor = draw.choice([k for k in range(1, extent + 1) if extent % k == 0 and tile % k == 0])
        inner = Mode(factor, source, target, draw.choice((factor, factor + 1)))
        parts += [inner, Mode(extent // factor, factor * source, factor * target, tile // factor), Mode(1, 7, 5, 2)]
    draw.shuffle(parts)
    half = word // 2
    other = Access(half, (Mode(2, half, half, 2), *parts))
    assert one.tiles() == other.tiles()
    assert same_movement(one, other)
    assert canonical(one) == canonical(other)
    assert fingerprint(one) == fingerprint(other)
    at = draw.randrange(len(parts))
    column = draw.choice(("extent", "source", "target", "tile"))
    changed = [*parts[:at], parts[at]._replace(**{column: getattr(parts[at], column) + 1}), *parts[at + 1 :]]
    altered = replace(other, modes=(Mode(2, half, half, 2), *changed))
    assert same_movement(one, altered) is (one.tiles() == altered.tiles())


def test_large_movements() -> None:
    """4096 to the power of five elements: nothing here can be counted."""
    modes, step = [], 16
    for i in range(5):
        modes.append(Mode(4096, step, 16 * 4096 ** (4 - i), 64))
        step *= 4096
    one = Access(16, tuple(modes))
    parts = [
        part
        for mode in reversed(modes)
        for part in (Mode(64, 64 * mode.source, 64 * mode.target, 1), mode._replace(extent=64))
    ]
    assert same_movement(one, Access(16, tuple(parts)))
    assert canonical(one) == canonical(Access(16, tuple(parts)))
    assert not same_movement(one, Access(16, (modes[0]._replace(tile=32), *modes[1:])))
    assert not same_movement(one, Access(16, (modes[0]._replace(source=17), *modes[1:])))


def test_how_a_movement_is_delivered_is_kept_and_not_compared() -> None:
    access = Access(16, (Mode(4, 16, 16, 4), Mode(4, 64, 64, 4)))
    by_threads = replace(access, by="threads")
    assert canonical(by_threads).by == "threads"
    assert same_movement(access, by_threads)


# Each pair is one movement. No sequence of laws leads from both to one access; why is said beside each.
UNCONNECTED = {
    # {0, 2, 4} + {0, 3, 6, 9} = {0, 2, ..., 10} + {0, 3}; neither pair of modes is adjacent to anything.
    "runs that interleave": (
        Access(16, (Mode(3, 32, 32, 3), Mode(4, 48, 48, 4))),
        Access(16, (Mode(6, 32, 32, 6), Mode(2, 48, 48, 2))),
    ),
    # Neighbours that overlap: windows of four rows that step by two.
    "windows that overlap": (
        Access(16, (Mode(64, 16, 16, 64), Mode(4, 1024, 2048, 4), Mode(5, 2048, 4096, 5))),
        Access(16, (Mode(64, 16, 16, 64), Mode(12, 1024, 2048, 12))),
    ),
    # A mode that goes nowhere on either side moves the same again.
    "a mode that stands still": (
        Access(16, (Mode(3, 0, 0, 1), Mode(64, 16, 16, 64))),
        Access(16, (Mode(64, 16, 16, 64),)),
    ),
    # Each tile of six is two of three, one step apart; the modes continue each other in steps that no law joins.
    "tiles that interleave": (
        Access(16, (Mode(3, 32, 1024, 1), Mode(4, 48, 1536, 1))),
        Access(16, (Mode(6, 32, 1024, 1), Mode(2, 48, 1536, 1))),
    ),
}


# {0, 2, 4, 6} + {0, 3, 6, 9} holds some sums twice, and is {0, 2, ..., 12} + {0, 3}, which holds none twice.
OVERLAPPING = (
    Access(1, (Mode(4, 2, 2, 4), Mode(4, 3, 3, 4))),
    Access(1, (Mode(7, 2, 2, 7), Mode(2, 3, 3, 2))),
)


def reachable(start: Access, most: int = 3000) -> set[Access]:
    """All accesses that sequences of laws make of `start`."""
    found, queue = {start}, [start]
    while queue:
        access = queue.pop()
        for law in LAWS:
            for after in law.steps(access):
                if after not in found:
                    found.add(after)
                    queue.append(after)
        assert len(found) <= most
    return found


@pytest.mark.parametrize("name", UNCONNECTED)
def test_equal_movements_that_no_law_connects(name: str) -> None:
    one, other = UNCONNECTED[name]
    assert one.tiles() == other.tiles()
    assert same_movement(one, other)
    assert canonical(one) == canonical(other)
    assert not reachable(one) & reachable(other)


def test_what_overlaps_is_compared_by_isl() -> None:
    one, other = OVERLAPPING
    assert one.tiles() == other.tiles()
    assert canonical(one) != canonical(other)
    assert same_movement(one, other)
    assert not reachable(one) & reachable(other)


def test_equality_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = OVERLAPPING
    ragged = tuple(Mode(3, 4**i, 4**i, 2) for i in range(3, 6))
    long, longer = (Access(1, (*access.modes, *ragged)) for access in (one, other))
    assert long.tiles() == longer.tiles()
    assert same_movement(long, longer)
    monkeypatch.setattr(movements, "MAX_RAGGED", 2)
    with pytest.raises(TooHard, match="more than 2 modes"):
        same_movement(long, longer)
    monkeypatch.setattr(relations, "MAX_OPERATIONS", 10)
    with pytest.raises(TooHard, match="takes isl more than 10 operations"):
        same_movement(one, other)
    monkeypatch.setattr(movements, "MAX_MODES", 2)
    with pytest.raises(TooHard, match="at most 2 are made canonical"):
        canonical(long)


@dataclass(frozen=True)
class Continued(Access):
    """An access that goes on from another."""

    before: Access | None = None


def test_accesses_that_are_not_compared() -> None:
    plain = Access(16, (Mode(4, 16, 16, 4),))
    with pytest.raises(InvalidInput, match="follows another"):
        same_movement(plain, Continued(16, plain.modes, before=plain))
    with pytest.raises(InvalidInput, match="stride of a mode is -16"):
        canonical(Access(16, (Mode(4, -16, 16, 4),)))
    with pytest.raises(InvalidInput, match="extent or tile of a mode is 0"):
        canonical(Access(16, (Mode(4, 16, 16, 0),)))
