"""By how much a parameter must grow for a loop to run once more, found by runs that are told apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from legalsat.extract.check.ptx_failure import Values
from legalsat.extract.check.ptx_known import Shown, last_same
from legalsat.extract.check.ptx_sweep import GREATEST_POWER, RUN_WORK, SLACK, Sweep


def step_of(sweep: Sweep, name: str, others: Values, limit: int = RUN_WORK) -> int:
    """Return by how much a parameter must grow for a loop to run once more; 0 if it steers none."""
    by, begin = sweep.program.multiple(name), others[name]
    first = sweep.shown(others, limit)
    if first is None:
        return 0

    def differs(value: int) -> bool:
        tried = {**others, name: begin + (value - 1) * by}
        shown = sweep.shown(tried, first.work + SLACK)
        beside = shown is not None and shown.beside and shown.visits == first.visits
        if shown is not None and beside and shown.accesses != first.accesses:
            shown = _shown_alone(sweep, tried, shown, first.work + SLACK)
        return shown is None or (shown.visits, shown.accesses) != (first.visits, first.accesses)

    # The power of two up to which nothing differs, and one from which it does.
    low, high, guess = 0, GREATEST_POWER + 1, _power(sweep, name, others, by)
    if differs((1 << guess) + 1):
        high = guess
        if not differs(1 << guess):
            return by << guess
    else:
        low = guess + 1
    while low < high:
        probe = (low + high) // 2
        if differs((1 << probe) + 1):
            high = probe
        else:
            low = probe + 1
    if low > GREATEST_POWER:
        return 0
    last = last_same((1 << low) // 2 + 1, 1 << low, differs)
    # Where only whole tiles count, the last that makes no difference is one less than a tile.
    return by * (last + 1 if last > 1 and not last & (last + 1) else last)


def _shown_alone(sweep: Sweep, values: Values, beside: Shown, limit: int) -> Shown | None:
    """Return what a run shows that is made beside no others, beside which lanes may have waited elsewhere.

    Launches that have shared a run to its end do the same each by itself, too, so that one of them is run for all.
    """
    _, alone = sweep.alone.get(id(beside.visits), (beside, None))
    if alone is None:
        sweep.runs -= 1  # it was made before, and counts once
        sweep.run(values, limit, anew=True)
        alone = sweep.shown(values, limit)
        if alone is not None:
            sweep.alone[id(beside.visits)] = beside, alone
        return alone
    found = replace(beside, visits=alone.visits, accesses=alone.accesses, work=alone.work, beside=False)
    sweep.put_right(values, found)
    return found


def probes(sweep: Sweep, name: str, others: Values) -> list[Values]:
    """Return the launches with which a step of a parameter is looked for first."""
    by = sweep.program.multiple(name)
    guess = _power(sweep, name, others, by)
    counts = [1 << guess] if guess == GREATEST_POWER else [1 << guess, (1 << guess) - 1]
    return [{**others, name: others[name] + count * by} for count in counts]


def _power(sweep: Sweep, name: str, others: Values, by: int) -> int:
    """Return the power of two after which a condition that can be computed turns round, or the greatest one."""
    conditions = sweep.program.conditions
    listed = {w.condition.name for w in sweep.program.watches if name in w.condition.keys}
    first = conditions.outcomes(listed, others)
    for power in range(GREATEST_POWER + 1):
        found = conditions.outcomes(listed, {**others, name: others[name] + (by << power)})
        if not all(map(np.array_equal, found, first)):
            return power
    return GREATEST_POWER
