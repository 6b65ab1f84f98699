"""Sets that strided modes touch, in plain numbers: joined, compared and counted.

Modes n:v touch the sums of progressions {0, v, ..., (n-1)v}. As a polynomial that is the product of the
(1 - x^nv) / (1 - x^v). The 1 - x^w are multiplicatively independent: along a line, the longest w brings a cyclotomic
factor that no shorter one has, and different lines share none. So modes that touch nothing twice touch the same set
exactly when they have the same `ends`, which count +1 at each nv and -1 at each v. Where modes overlap, isl compares.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import islpy as isl

from legalsat.analyses.sets.isl_logic import NotAffine
from legalsat.analyses.sets.relations import Modes, Progression, TooHard, Vector, checked, footprint, injective, limited

MAX_SPAN = 2**26  # offsets that are counted one by one; as the bits of one int they take eight megabytes


def merged(modes: Iterable[Progression]) -> list[Progression]:
    """Return modes that touch the same set: idle ones dropped, and those that overlap or continue one another joined.

    Steps of kv, 1 <= k <= n, leave no gap between n steps of v: n:v and m:kv are (n + k(m-1)):v.
    """
    found = in_order((n, v) for n, v in modes if n > 1 and any(v))
    while joined := next(
        ((a, b, k) for a, b in itertools.permutations(found, 2) if 1 <= (k := ratio(b[1], a[1])) <= a[0]), None
    ):
        (n, v), (m, _), k = joined
        found.remove(joined[0])
        found.remove(joined[1])
        found = in_order([*found, (n + k * (m - 1), v)])
    return found


def in_order(modes: Iterable[Progression]) -> list[Progression]:
    """Return the modes sorted by stride, then extent."""
    return sorted(modes, key=lambda mode: (mode[1], mode[0]))


def times(k: int, vector: Vector) -> Vector:
    """Return k * vector."""
    return tuple(k * step for step in vector)


def ratio(whole: Vector, part: Vector) -> int:
    """Return the k >= 1 with whole = k * part, or 0 if there is none."""
    at = next((i for i, step in enumerate(part) if step), None)
    k = whole[at] // part[at] if at is not None else 0
    return k if k > 0 and whole == times(k, part) else 0


def ends(modes: Iterable[Progression]) -> dict[Vector, int]:
    """Return +1 at nv and -1 at v, summed over the modes n:v, without zeros."""
    total: Counter[Vector] = Counter()
    for n, v in modes:
        total[times(n, v)] += 1
        total[v] -= 1
    return {at: number for at, number in total.items() if number}


def numbers(modes: Modes) -> list[Progression]:
    """Return modes of one side in plain numbers, or raise `NotAffine`."""
    found = []
    for extent, strides in checked(modes, 1):
        if not isinstance(extent, int):
            raise NotAffine(f"extent {extent} is open, and what is counted depends on it; bind it")
        found.append((extent, strides))
    return found


def unsigned(modes: Iterable[Progression]) -> list[Progression]:
    """Return the modes of one side with strides made positive.

    A step back from the last is a step on from the first, so the same set is touched, moved by the sum of what signs
    reach below 0.
    """
    return [(n, times(-1, v) if v[0] < 0 else v) for n, v in modes]


def count(modes: Modes) -> int:
    """Return how many offsets modes of one side touch.

    Raises:
        NotAffine: an extent is open.
        TooHard: they touch offsets twice in a way that joining modes does not undo, across more than `MAX_SPAN`.
    """
    found = merged(unsigned(numbers(modes)))
    if injective(found) is True:
        return math.prod(n for n, _ in found)
    unit = math.gcd(*(d for _, (d,) in found))
    return bits((n, (d // unit,)) for n, (d,) in found).bit_count()


def bits(modes: Iterable[Progression]) -> int:
    """Return the set that modes of one side touch, without negative strides, as the bits of one int.

    Raises:
        TooHard: the set spans more than `MAX_SPAN`.
    """
    steps = list(modes)
    if (span := 1 + reach(steps)[0]) > MAX_SPAN:
        raise TooHard(f"modes span {span} offsets, and at most {MAX_SPAN} are counted one by one; merge modes first")
    found = 1
    for n, (d,) in steps:
        done = 1
        while done < n:
            more = min(done, n - done)
            found |= found << more * d
            done += more
    return found


def reach(modes: Sequence[Progression]) -> Vector:
    """Return the greatest offset on each side; no modes have two sides."""
    width = range(len(modes[0][1]) if modes else 2)
    return tuple(sum((n - 1) * v[side] for n, v in modes) for side in width)


def same_set(one: Iterable[Progression], other: Iterable[Progression]) -> bool:
    """Whether modes of two sides, without negative strides, touch the same set."""
    some, others = merged(one), merged(other)
    if ends(some) == ends(others):
        return True
    if reach(some) != reach(others) or (injective(some) is True and injective(others) is True):
        return False
    with limited("the equality of two sets of offsets"):
        return bool(points(some).is_equal(points(others)))


def points(modes: Sequence[Progression], moved: Vector = (0, 0)) -> Any:
    """Return the isl set that modes of two sides touch, moved so far."""
    return footprint([*modes, (1, (0, 0))]).apply(isl.Map(f"{{ [s, t] -> [s + {moved[0]}, t + {moved[1]}] }}"))
