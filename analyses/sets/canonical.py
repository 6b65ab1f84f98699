"""Canonical forms of movements, and whether two accesses are the same one.

A word is one more mode, of single bits. Where tiles divide extents every tile is one shape, moved to the anchors: steps
within a tile make the shape, steps from tile to tile the anchors, and no finite shape equals itself moved. So two
movements are equal exactly when both sets are, whether tiles overlap or not; `legalsat.analyses.sets.progressions`
compares them. A mode whose last tile overhangs is *ragged*: it has a second shape at anchors of its own, and r ragged
modes make 2^r shapes.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import islpy as isl

from legalsat.analyses.sets.progressions import ends, in_order, merged, points, ratio, reach, same_set, times
from legalsat.analyses.sets.relations import Progression, TooHard, Vector, injective, limited
from legalsat.checks import integer
from legalsat.errors import InvalidInput
from legalsat.operators.access import Access, Mode

MAX_RAGGED = 6
MAX_MODES = 16
WIDEST_WORD = 32  # bits; the copy engine moves wider elements as several

_Stop: TypeAlias = tuple[Vector, Vector]
"""Where a whole tile and where a mode ends; the two are one place unless the last tile overhangs."""
_Anchors: TypeAlias = tuple[list[Progression], Vector]
"""The places of tiles: the modes that step through them, and how far all are moved."""


@dataclass(frozen=True, slots=True, order=True)
class _Ragged:
    """A mode whose last tile overhangs: the stride on both sides, steps of a whole tile, and steps in all."""

    stride: Vector
    tile: int
    extent: int

    @property
    def stop(self) -> _Stop:
        return times(self.tile, self.stride), times(self.extent, self.stride)

    @property
    def tiles(self) -> Progression:
        """The anchors, that of the last tile too."""
        return -(-self.extent // self.tile), self.stop[0]


@dataclass(frozen=True, slots=True)
class _Parts:
    """A movement taken apart: steps within a tile, steps from tile to tile, and ragged modes."""

    within: list[Progression]
    between: list[Progression]
    ragged: list[_Ragged]

    @property
    def shape(self) -> list[Progression]:
        """The steps of a whole tile."""
        return [*self.within, *((r.tile, r.stride) for r in self.ragged)]

    @property
    def anchors(self) -> list[Progression]:
        """The steps between all tiles, whole or not."""
        return [*self.between, *(r.tiles for r in self.ragged)]

    def families(self) -> Iterator[tuple[list[Progression], _Anchors]]:
        """Yield each shape that tiles have, with the anchors of those tiles."""
        for cut in itertools.product((False, True), repeat=len(self.ragged)):
            shape, anchors, moved = list(self.within), list(self.between), (0, 0)
            for ragged, last in zip(self.ragged, cut, strict=True):
                whole, rest = divmod(ragged.extent, ragged.tile)
                source, target = times(whole, ragged.stop[0])
                shape.append((rest if last else ragged.tile, ragged.stride))
                anchors.append((1 if last else whole, ragged.stop[0]))
                moved = (moved[0] + source, moved[1] + target) if last else moved
            yield merged(shape), (merged(anchors), moved)


def _parts(access: Access) -> _Parts:
    if getattr(access, "before", None) is not None:
        raise InvalidInput(f"access {access} follows another movement; compare the two one by one")
    within: list[Progression] = [(integer(access.word, "word", low=1), (1, 1))]
    between: list[Progression] = []
    ragged: list[_Ragged] = []
    for mode in access.modes:
        extent, tile = (integer(n, "extent or tile of a mode", low=1) for n in (mode.extent, mode.tile))
        stride = tuple(integer(d, "stride of a mode", low=0) for d in (mode.source, mode.target))
        if extent <= tile or not extent % tile:
            within.append((min(extent, tile), stride))
            between.append((extent // min(extent, tile), times(tile, stride)))
        elif any(stride):
            ragged.append(_Ragged(stride, tile, extent))
    return _Parts(merged(within), merged(between), sorted(ragged))


def canonical(access: Access) -> Access:
    """Return the same movement in canonical modes, sorted, in the widest word of up to 32 bits that they allow.

    Where no tile holds an element twice and no two tiles begin at the same place, two accesses have the same canonical
    access exactly when they are the same movement (`by` aside, which is kept). So have others once `merged` has joined
    what overlaps; those that overlap still may differ though they are the same: `same_movement` decides.
    """
    parts = _parts(access)
    within, ragged = _decoded(parts.within, parts.ragged)
    between, _ = _decoded(parts.between, [])
    modes = [Mode(r.extent, *_pair(r.stride), r.tile) for r in ragged]
    for n, stride in within:
        outer = next((mode for mode in between if mode[1] == times(n, stride)), None)
        if outer is not None:
            between.remove(outer)
        modes.append(Mode(n * (outer[0] if outer else 1), *_pair(stride), n))
    modes += [Mode(n, *_pair(stride), 1) for n, stride in between]
    found = _in_words(access, modes)
    # Where modes overlap, what stands together now may be joined further.
    return found if found == access else canonical(found)


def _pair(vector: Vector) -> tuple[int, int]:
    source, target = vector
    return source, target


def _in_words(access: Access, modes: list[Mode]) -> Access:
    """Return the access with these modes of bits, the bits of a word taken from the one that steps bit by bit."""
    bitwise = [mode for mode in modes if mode.source == mode.target == 1]
    word = 1
    if len(bitwise) == 1:
        extent, _, _, tile = bitwise[0]
        word = math.gcd(WIDEST_WORD, extent, tile)
        modes.remove(bitwise[0])
        if extent > word:
            modes.append(Mode(extent // word, word, word, tile // word))
    return replace(access, word=word, modes=tuple(sorted(modes, key=lambda m: (m.source, m.target, m.extent, m.tile))))


def _decoded(modes: list[Progression], ragged: list[_Ragged]) -> tuple[list[Progression], list[_Ragged]]:
    """Return modes and ragged modes with the same `ends` and stops, whichever with these were given.

    Each stride, from the shortest, takes the shortest stop that leaves the others theirs.
    """
    total = Counter(ends(modes))
    total.subtract(r.stride for r in ragged)
    strides = sorted(at for at, number in total.items() for _ in range(-number))
    stops = sorted((at, at) for at, number in total.items() for _ in range(number)) + sorted(r.stop for r in ragged)
    pairs = _matched(strides, stops)
    return (
        in_order((ratio(tile, v), v) for v, (tile, whole) in pairs if tile == whole),
        sorted(_Ragged(v, ratio(tile, v), ratio(whole, v)) for v, (tile, whole) in pairs if tile != whole),
    )


def _matched(strides: list[Vector], stops: list[_Stop]) -> list[tuple[Vector, _Stop]]:
    """Return strides, each with a stop of its own that is a multiple of it.

    There is a way: where a mode continued another, follow them on from the one's stride to the other's stop.
    """
    if len(strides) > MAX_MODES:
        raise TooHard(
            f"an access has {len(strides)} modes, and at most {MAX_MODES} are made canonical; merge modes first"
        )

    @functools.cache
    def chosen(at: int, free: int) -> tuple[int, ...] | None:
        """Return which stops strides from `at` on take of those that are free, a set as the bits of an int."""
        if at == len(strides):
            return ()
        for i, stop in enumerate(stops):
            if free >> i & 1 and all(ratio(end, strides[at]) for end in stop):
                rest = chosen(at + 1, free & ~(1 << i))
                if rest is not None:
                    return (i, *rest)
        return None

    found = chosen(0, (1 << len(stops)) - 1)
    assert found is not None, "modes have stops that are no multiples of their strides"
    return [(stride, stops[i]) for stride, i in zip(strides, found, strict=True)]


def fingerprint(access: Access) -> tuple[int, ...]:
    """Return numbers that equal movements share and few others do, without isl.

    On either side: the last bit moved, the last bit of a whole tile, the last anchor, and the anchors' common divisor.
    """
    parts = _parts(access)
    everything = [*parts.within, *parts.between, *((r.extent, r.stride) for r in parts.ragged)]
    divisors = (math.gcd(*(stride[side] for _, stride in parts.anchors)) for side in (0, 1))
    return (*reach(everything), *reach(parts.shape), *reach(parts.anchors), *divisors)


def same_movement(one: Access, other: Access) -> bool:
    """Whether both move the same bits in the same tiles, as `Access.tiles` says, without counting any.

    How they are delivered (`by`) is not compared.

    Raises:
        TooHard: tiles hold elements twice, or coincide, in a way that isl does not decide within its limit.
        InvalidInput: an access goes on from another, or has a negative stride.
    """
    if fingerprint(one) != fingerprint(other):
        return False
    first, second = canonical(one), canonical(other)
    if (first.word, first.modes) == (second.word, second.modes):
        return True
    a, b = _parts(first), _parts(second)
    if all(injective(modes) is True for parts in (a, b) for modes in (parts.shape, parts.anchors)):
        return False
    if max(len(a.ragged), len(b.ragged)) > MAX_RAGGED:
        raise TooHard(f"more than {MAX_RAGGED} modes have a last tile that overhangs; give tiles that divide extents")
    ours, theirs = _by_shape(a), _by_shape(b)
    return len(ours) == len(theirs) and all(
        any(same_set(shape, like) and _same_anchors(anchors, same) for like, same in theirs) for shape, anchors in ours
    )


def _by_shape(parts: _Parts) -> list[tuple[list[Progression], list[_Anchors]]]:
    """Return every shape of tile once, with all anchors that it has."""
    found: list[tuple[list[Progression], list[_Anchors]]] = []
    for shape, anchors in parts.families():
        known = next((there for like, there in found if same_set(shape, like)), None)
        if known is None:
            found.append((shape, [anchors]))
        else:
            known.append(anchors)
    return found


def _same_anchors(one: list[_Anchors], other: list[_Anchors]) -> bool:
    """Whether two unions of moved sets are the same."""
    if len(one) == len(other) == 1:
        (modes, moved), (others, there) = one[0], other[0]
        return moved == there and same_set(modes, others)
    with limited("the equality of the anchors of tiles"):
        some, more = (functools.reduce(isl.Set.union, (points(*each) for each in sets)) for sets in (one, other))
        return bool(some.is_equal(more))
