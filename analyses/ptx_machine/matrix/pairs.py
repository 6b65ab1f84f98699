"""Which part of A is multiplied with which of B: a descriptor that is off by a step reads what another one reads, too.

All of an operand may be read all the same, where several accumulators share it. But into one accumulator each part of A
goes with one part of B of those that came in the same phase, or were written at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from legalsat.analyses.ptx_machine.machine import Run
from legalsat.analyses.ptx_machine.shadow import Cells

Came = frozenset[tuple[int, int]]  # lines of work, and when
Read = tuple[Cells, list[int]]  # what a descriptor reads, and who wrote it


def check_pair(run: Run, sums: object, words: Sequence[int], read: Sequence[Read | None], line: int) -> None:
    """Check the descriptors of A and B of a multiplication into an accumulator, with what they read."""
    came = [_came(run.order.accesses, one[1]) for one in read if one is not None]
    if len(came) < 2 or not all(came):
        return
    for n in (0, 1):
        word, (own, other) = words[1 - n], (came[n], came[1 - n])
        before = run.paired.get((sums, n, words[n]))
        if before is not None and before[0] != word and before[1] & own and before[2] & other:
            reason = "a part of an operand is multiplied with two parts of another that came together"
            run.order.doubts[line, f"{reason}, as if a descriptor were another one"] = None
        run.paired[sums, n, words[n]] = word, own, other


def _came(accesses: Sequence[Any], writers: Sequence[int]) -> Came:
    """Return when an operand was written, and by whom; of cp.async in which groups, which warps number alike."""
    listed = [accesses[one] for one in writers if one]
    return frozenset((-1 if one.kind == "cp.async" else one.agent, one.epoch) for one in listed)
