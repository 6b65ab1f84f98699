"""What a launch must keep to, since the kernel breaks for less, for more or for other bytes: one parameter each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from legalsat.extract.check.ptx_relations import Relation

if TYPE_CHECKING:
    from legalsat.extract.check.ptx_sweep import Sweep


@dataclass(frozen=True, slots=True)
class Precondition:
    """What a launch must keep to.

    Attributes:
        name: of a parameter. least: its least value. multiple: what it is a multiple of. exactly: what it is.
        most: its greatest value, if not 0. relation: what else it is at most, which other parameters decide.
        pointer: whether it points somewhere.
        line, below: what breaks otherwise, and where.
    """

    name: str
    least: int
    line: int
    below: str
    multiple: int = 1
    exactly: int | None = None
    pointer: bool = False
    most: int = 0
    relation: Relation | None = None

    def __str__(self) -> str:
        if self.exactly is not None:
            return f"{self.name} is {self.exactly} (else: {self.below}, at line {self.line})"
        if self.most or self.relation is not None:
            most = self.most or self.relation
            return f"{self.name} is at most {most} (above: {self.below}, at line {self.line})"
        if self.pointer:
            return f"{self.name} is not null (else: {self.below}, at line {self.line})"
        if self.multiple > 1:
            return f"{self.name} is a multiple of {self.multiple} (else: {self.below}, at line {self.line})"
        return f"{self.name} is at least {self.least} (below: {self.below}, at line {self.line})"


def counts_of(sweep: Sweep) -> tuple[Precondition, ...]:
    """Return what parameters must be that say how many bytes come, for the boxes that are assumed."""
    lines = {min(keys): line for line, keys in sweep.program.conditions.expected.items() if len(keys) == 1}
    below = "the bytes expected are not those of the boxes"
    return tuple(Precondition(k, 0, lines.get(k, 0), below, exactly=n) for k, n in sweep.counts_of.items())


def most_blocks_of(sweep: Sweep) -> tuple[Precondition, ...]:
    """Return up to which blocks comparisons are as runs have seen them."""
    below = "a comparison turns round to which no run comes so late"
    return tuple(Precondition(key, 0, line, below, most=last) for key, (last, line) in sweep.most_blocks.items())
