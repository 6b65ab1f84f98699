"""Comparisons of a block's number that turn round only for more blocks than launches have.

A loop from one tile to the next one ends at once where the next one's first row passes the greatest number, which
compilers make a comparison of: with 128 rows a tile, that is block 16,777,215. No run comes so far. What such a
comparison is for fewer blocks follows from its arithmetic, and how few these are is a condition of the proof.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from legalsat.analyses.ptx.instruction import Instruction, immediate, width_of
from legalsat.analyses.ptx_machine.launches.conditions import FALSE, TRUE, Conditions
from legalsat.analyses.ptx_machine.launches.tried import most
from legalsat.analyses.ptx_machine.launches.watch import Watch
from legalsat.extract.check.ptx_known import last_same

if TYPE_CHECKING:
    from legalsat.extract.check.ptx_sweep import Sweep

MANY = 1 << 20  # blocks along an axis, that a launch may be asked to have no more than
_MOST_DEPTH = 16
_ORDERED = {"lt": (0, False), "ge": (0, True), "le": (1, False), "gt": (1, True)}


@dataclass(frozen=True, slots=True)
class _Grown:
    """What is computed of a block's number: so many times it and so much more, as long as it is at most `last`."""

    key: str
    times: int
    more: int
    last: int

    def by(self, times: int, more: int, bits: int) -> _Grown | None:
        """Return what so many times this and so much more is, in so many bits; None where it may wrap at once."""
        times, more = self.times * times, self.more * times + more
        if times <= 0 or more < 0 or more >> bits - 1:
            return None
        return _Grown(self.key, times, more, min(self.last, ((1 << bits - 1) - 1 - more) // times))


def left_to_few_blocks(sweep: Sweep, watch: Watch) -> bool:
    """Does a condition turn round only for more blocks than any launch has, or than are spoken of from now on?"""
    found = last_block(sweep.program.conditions, watch)
    if found is None:
        return False
    key, last = found
    if last < most(key):
        here = last, watch.condition.line
        sweep.most_blocks[key] = min(here, sweep.most_blocks.get(key, here))
    return True


def last_block(conditions: Conditions, watch: Watch) -> tuple[str, int] | None:
    """Return a block's number, and the greatest for which a condition turns out as it has; None where it has not many.

    The numbers are those of a launch along one axis, and nothing that is computed of them up to there wraps.
    """
    listed = conditions.definitions.get(watch.condition.name, ())
    if len(listed) != 1 or watch.seen not in {TRUE, FALSE}:
        return None
    i = listed[0]
    other = immediate(i.operands[2]) if i.base == "setp" and len(i.operands) == 3 and len(i.parts) == 3 else None
    grown = _grown(i.operands[1], conditions.definitions) if other is not None and not i.guard else None
    if other is None or grown is None or "|" in i.operands[0] or i.parts[2][0] not in "sub":
        return None
    bits = 8 * width_of(i)
    grown = grown.by(1, 0, bits)
    other = other & (1 << bits) - 1 if i.parts[2][0] != "s" else other
    last = None if grown is None else _last_same(grown, i.parts[1], other, watch.seen == TRUE)
    if grown is None or last is None or last < min(MANY, most(grown.key)):
        return None
    return grown.key, last


def _last_same(grown: _Grown, compared: str, other: int, held: bool) -> int | None:
    """Return the greatest number of a block for which a comparison is what it has been; None for none."""
    if compared in {"eq", "ne"}:
        met, rest = divmod(other - grown.more, grown.times)
        if held is (compared == "eq"):
            return None  # it is so for one block alone
        return min(grown.last, met - 1) if not rest and met >= 0 else grown.last
    if compared not in _ORDERED:
        return None
    more, turned = _ORDERED[compared]

    def differs(number: int) -> bool:
        below = grown.times * number + grown.more < other + more
        return (below is not turned) is not held

    return None if differs(0) else last_same(0, grown.last, differs)


def _grown(name: str, definitions: Mapping[str, list[Instruction]], depth: int = 0) -> _Grown | None:
    """Return what a register is computed from, if that is a block's number and constants."""
    if name.startswith("%ctaid."):
        return _Grown(name, 1, 0, most(name))
    listed = definitions.get(name, ())
    if len(listed) != 1 or listed[0].guard or depth == _MOST_DEPTH:
        return None
    i = listed[0]
    before = _grown(i.operands[1], definitions, depth + 1) if len(i.operands) > 1 else None
    numbers = [immediate(one) for one in i.operands[2:]]
    if before is None or None in numbers or i.parts[-1][0] not in "sub" or {"hi", "sat", "cc"} & {*i.parts}:
        return None
    first, *others = [number for number in numbers if number is not None] or [0]
    bits = 8 * width_of(i) * (1 + ("wide" in i.parts))
    if i.base == "cvt":
        bits = min(bits, int(i.parts[-2][1:])) if i.parts[-2][0] in "sub" else 0
    made = {
        "mov": (1, 0),
        "cvt": (1, 0),
        "shl": (1 << first if 0 <= first < bits else 0, 0),
        "mul": (first, 0),
        "mad": (first, sum(others)),
        "add": (1, first),
    }
    return before.by(*made[i.base], bits) if i.base in made and bits else None
