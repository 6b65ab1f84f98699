"""Products that one kernel computes together: how many there are, and what changes from one to the next."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from legalsat.errors import InvalidInput
from legalsat.tensor import Tensor, plain

MOST_AXES = 3  # of a tensor map, besides the two of a matrix
OPERANDS = ("A", "B", "C")
Ragged: TypeAlias = Literal["", "m", "k"]


@dataclass(frozen=True, slots=True)
class Members:
    """Products of a batch, or of groups of rows, or of groups along k.

    Attributes:
        extents: of the batch's axes, outermost first; axes that all operands walk through as one are one. Of groups
            their number; () of a single product.
        steps: for A, B and C, elements from one member to the next along each axis; 0 where they share what they read.
        ragged: the axis that groups cut, whose ends are known on the device alone: "m" of rows of A and of C, "k" of
            both operands, and "" where there are no groups.
    """

    extents: tuple[int, ...] = ()
    steps: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]] = ((), (), ())
    ragged: Ragged = ""

    @property
    def count(self) -> int:
        """How many products there are."""
        return math.prod(self.extents)

    @property
    def batch(self) -> tuple[int, ...]:
        """The extents of a batch, whose members' tiles are alike; groups along k are one; () of groups of rows."""
        return () if self.ragged == "m" else self.extents

    @property
    def groups(self) -> int:
        """How many groups there are; 0 of a batch or a single product."""
        return self.extents[0] if self.ragged else 0

    def of(self, operand: str) -> tuple[int, ...]:
        """Return the steps of "A", "B" or "C"."""
        return self.steps[OPERANDS.index(operand)]


def members_of(batch: Sequence[int], tensors: Mapping[str, Tensor]) -> Members:
    """Return the members of a batch, axes of which that every operand walks through alike being one.

    Args:
        batch: extents, outermost first.
        tensors: A, B and C, with as many axes in front of the two of a matrix.

    Raises:
        InvalidInput: more than three axes are left, which no tensor map holds.
    """
    axes: list[tuple[int, list[int]]] = []  # extents, and the steps of A, B and C
    for number, extent in enumerate(batch):
        steps = [plain(tensors[name].strides)[number] for name in OPERANDS]
        if extent == 1:
            continue
        if axes and axes[-1][1] == [step * extent for step in steps]:
            axes[-1] = axes[-1][0] * extent, steps
        else:
            axes.append((extent, steps))
    if len(axes) > MOST_AXES:
        raise InvalidInput(
            f"batch {' x '.join(map(str, batch))} has {len(axes)} axes that do not merge, and maps hold {MOST_AXES}; "
            "copy an operand so that they do"
        )
    a, b, c = (tuple(steps[i] for _, steps in axes) for i in range(3))
    return Members(tuple(extent for extent, _ in axes), (a, b, c))
