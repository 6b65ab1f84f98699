"""Preconditions that relate parameters: no more rows of tiles than there are rows, no more parts of k than tiles of k.

A host computes some parameters of others, so that launches in which they do not fit occur nowhere. No least value says
that. A relation is one of a launch that went wrong and of none that is right: it is broken by all those that hang for
want of work, and by no other one that was run to its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from legalsat.extract.check.ptx_failure import Values


@dataclass(frozen=True, slots=True)
class Relation:
    """So many tiles as there are parts, each of all of them, are at most those that another parameter has.

    Attributes:
        parts: a parameter that counts them.
        tiled: a parameter of which each tile has so many, `tile`; "" for one tile.
        most: a parameter of which a part has `each` at least.
    """

    parts: str
    tiled: str
    tile: int
    most: str
    each: int

    def needed(self, values: Mapping[str, int]) -> int:
        """Return the least value of `most` with which a launch keeps to this."""
        tiles = -(-values[self.tiled] // self.tile) if self.tiled else 1
        return self.each * (values[self.parts] // tiles - 1) + 1 if tiles and values[self.parts] >= tiles else 0

    def holds(self, values: Mapping[str, int]) -> bool:
        """Does a launch keep to this?"""
        return values[self.most] >= self.needed(values)

    @property
    def counted(self) -> str:
        """What is bounded, in words."""
        return f"{self.parts} / {_rounded_up(self.tiled, self.tile)}" if self.tiled else self.parts

    def __str__(self) -> str:
        return _rounded_up(self.most, self.each)


def _rounded_up(name: str, step: int) -> str:
    return f"ceil({name} / {step})" if step > 1 else name


def relation_of(steps: Values, wrong: Sequence[Values], right: Sequence[Values]) -> Relation | None:
    """Return the relation that tells launches that went wrong from those that are right; None if there is none.

    Args:
        steps: by how much parameters grow for a loop to run once more.
        wrong: values of launches that hang.
        right: values of others.
    """
    for found in _all(steps):
        named = {found.parts, found.most, *filter(None, [found.tiled])}
        if not all(named <= one.keys() for one in (*wrong, *right)):
            continue
        few = min((one[found.parts] for one in wrong), default=0)
        if any(map(found.holds, wrong)) or not all(map(found.holds, right)):
            continue
        if any(one[found.parts] > max(few, 1) for one in right):  # else it is that of a greatest value
            return found
    return None


def _all(steps: Values) -> Iterator[Relation]:
    """Yield relations of two parameters, then of three."""
    names = [name for name, step in steps.items() if step and not name.startswith(("%", "["))]
    counts = [name for name in names if steps[name] == 1]
    for parts in counts:
        rest = [name for name in names if name != parts and name not in counts]
        yield from (Relation(parts, "", 1, most, steps[most]) for most in rest)
        yield from (Relation(parts, a, steps[a], b, steps[b]) for a, b in permutations(rest, 2))
