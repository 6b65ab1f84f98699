"""Preconditions that relate parameters: no more rows of tiles than there are rows, no more parts of k than tiles of k.

A host computes some parameters of others, so that launches in which they do not fit occur nowhere. No least value says
that. A relation is one of a launch that went wrong and of none that is right: it is broken by all those that hang for
want of work, and by no other one that was run to its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import TYPE_CHECKING

from legalsat.extract.check.ptx_failure import Failure, Values

if TYPE_CHECKING:
    from legalsat.extract.check.ptx_sweep import Sweep

MOST_SHARE = 8  # rounds that each part may need


@dataclass(frozen=True, slots=True)
class Relation:
    """So many tiles as there are parts, each of all of them, are at most those that another parameter has.

    Attributes:
        parts: a parameter that counts them.
        tiled: a parameter of which each tile has so many, `tile`; "" for one tile.
        most: a parameter of which a round of a part takes `each`.
        share: rounds that a part has at least.
    """

    parts: str
    tiled: str
    tile: int
    most: str
    each: int
    share: int = 1

    def needed(self, values: Mapping[str, int]) -> int:
        """Return the least value of `most` with which a launch keeps to this."""
        parts = self.parts_of(values)
        return self.each * (parts * self.share - 1) + 1 if parts else 0

    def parts_of(self, values: Mapping[str, int]) -> int:
        """Return how many parts each tile has in a launch."""
        tiles = -(-values[self.tiled] // self.tile) if self.tiled else 1
        return values[self.parts] // tiles if tiles else 0

    def holds(self, values: Mapping[str, int]) -> bool:
        """Does a launch keep to this?"""
        return values[self.most] >= self.needed(values)

    def doubled(self, values: Values) -> Values | None:
        """Return a launch that keeps to this, with twice as many parts, so that it does not; None if that is not so."""
        parts = self.parts_of(values)
        more = {**values, self.parts: 2 * values[self.parts]}
        return more if parts and self.holds(values) and not self.holds(more) else None

    @property
    def counted(self) -> str:
        """What is bounded, in words."""
        return f"{self.parts} / {_rounded_up(self.tiled, self.tile)}" if self.tiled else self.parts

    def __str__(self) -> str:
        return _rounded_up(self.most, self.each) + (f" / {self.share}" if self.share > 1 else "")


def _rounded_up(name: str, step: int) -> str:
    return f"ceil({name} / {step})" if step > 1 else name


@dataclass
class Tried:
    """Launches of all sweeps so far that the kernel does not drop: those that went wrong, and those that are right."""

    wrong: list[Failure] = field(default_factory=list)
    right: list[Values] = field(default_factory=list)

    def add(self, sweep: Sweep) -> None:
        """Add those of a sweep."""
        failed = [one.values for one in sweep.failing]
        self.wrong += [one for one in sweep.failing if not sweep.dropped(one.values)]
        self.right += [one for one in sweep.ran if one not in failed and not sweep.dropped(one)]


def relation_of(steps: Values, wrong: Sequence[Values], right: Sequence[Values]) -> Relation | None:
    """Return the relation that tells launches that went wrong from those that are right; None if there is none.

    Args:
        steps: by how much parameters grow for a loop to run once more.
        wrong: values of launches that hang.
        right: values of others. One with nothing to do for want of something else may break the relation.
    """
    counts = [name for name, step in steps.items() if step and not name.startswith(("%", "["))]
    for each_once in _all(steps):
        named = {each_once.parts, each_once.most, *filter(None, [each_once.tiled])}
        if not all(named <= one.keys() for one in (*wrong, *right)):
            continue
        found = replace(each_once, share=_least_share(each_once, wrong))
        if found.share > MOST_SHARE:
            continue
        few = min((one[found.parts] for one in wrong), default=0)
        others = [name for name in counts if name not in named]
        if any(map(found.holds, wrong)) or not all(found.holds(one) or _idle(one, others) for one in right):
            continue
        if any(one[found.parts] >= max(few, 2) for one in right):  # else it is that of a greatest value
            return found
    return None


def _idle(values: Values, counts: Sequence[str]) -> bool:
    """Has a launch none of something, so that it is right whatever else it has?"""
    return any(values.get(name) == 0 for name in counts)


def _least_share(relation: Relation, wrong: Sequence[Values]) -> int:
    """Return the fewest rounds of a part that all launches that went wrong are short of; more than any for none."""
    parts = [relation.parts_of(one) for one in wrong]
    if not all(parts):
        return MOST_SHARE + 1
    rounds = [-(-one[relation.most] // relation.each) for one in wrong]
    return 1 + max((have // among for have, among in zip(rounds, parts, strict=True)), default=0)


def _all(steps: Values) -> Iterator[Relation]:
    """Yield relations of two parameters, then of three."""
    names = [name for name, step in steps.items() if step and not name.startswith(("%", "["))]
    counts = [name for name in names if steps[name] == 1]
    for parts in counts:
        rest = [name for name in names if name != parts and name not in counts]
        yield from (Relation(parts, "", 1, most, steps[most]) for most in rest)
        yield from (Relation(parts, a, steps[a], b, steps[b]) for a, b in permutations(rest, 2))
