"""For which values of one number something works: a period, the remainders that do, and the nearest such values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

MOST_LISTED = 4


@dataclass(frozen=True, slots=True)
class Works:
    """For which values of a number something works.

    Attributes:
        name: what the number is called, such as "K" or "shape[1]".
        value: what it is now.
        period: the least number that remainders repeat with.
        remainders: those for which it works, smallest first.
        low: the smallest value that this says anything of.
    """

    name: str
    value: int
    period: int
    remainders: tuple[int, ...]
    low: int = 1

    def holds(self, value: int) -> bool:
        """Return whether it works for a value of at least `low`."""
        return value % self.period in self.remainders

    @property
    def matters(self) -> bool:
        """Whether it works for some values and not for others."""
        return 0 < len(self.remainders) < self.period

    @property
    def nearest(self) -> tuple[int, ...]:
        """The nearest value below `value` and the nearest above for which it works, if there are such."""
        if not self.remainders:
            return ()
        below = (v for v in range(self.value - 1, max(self.low, self.value - self.period) - 1, -1) if self.holds(v))
        first = max(self.value + 1, self.low)
        above = (v for v in range(first, first + self.period) if self.holds(v))
        return tuple(v for v in (next(below, None), next(above, None)) if v is not None)

    def __str__(self) -> str:
        if not self.matters:
            return f"{self.name} does not matter" if self.remainders else f"no value of {self.name} alone makes it work"
        there = self.remainders
        if len(there) == 1:
            which = f"{self.name} % {self.period} == {there[0]}"
        elif len(there) == self.period - 1:
            which = f"{self.name} % {self.period} != {next(r for r in range(self.period) if r not in there)}"
        else:
            some = ", ".join(map(str, there[:MOST_LISTED])) + ", ..." * (len(there) > MOST_LISTED)
            which = f"{self.name} % {self.period} in ({some})"
        said = f"works for {which}: {len(there)} of {self.period} values"
        if self.holds(self.value) and self.value >= self.low:
            return f"{said}, {self.value} among them"
        near = self.nearest
        verb = "are" if len(near) > 1 else "is"
        return f"{said}; the nearest to {self.value} {verb} {' and '.join(map(str, near))}"


def works(name: str, value: int, period: int, legal: Callable[[int], bool], low: int = 1) -> Works:
    """Return for which values something works that repeats with a period, by trying all values of one.

    Args:
        name: of the number.
        value: what it is now.
        period: such that `legal(v) == legal(v + period)` for every v from `low` on.
        legal: whether it works for a value.
        low: the smallest value to speak of.
    """
    first = -(-low // period) * period
    there = [legal(first + r) for r in range(period)]
    least = next(p for p in range(1, period + 1) if period % p == 0 and there == there[:p] * (period // p))
    return Works(name, value, least, tuple(r for r in range(least) if there[r]), low)


def in_words(found: Sequence[Works]) -> tuple[str, ...]:
    """Return a sentence for each number that matters, and one for all that do not."""
    said = [str(one) for one in found if one.matters]
    idle = [one.name for one in found if one.remainders and not one.matters]
    if idle and said:
        *first, last = idle
        said.append(f"{', '.join(first)} and {last} do not matter" if first else f"{last} does not matter")
    return tuple(said)
