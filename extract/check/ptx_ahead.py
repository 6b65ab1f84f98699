"""Launches that are asked for next, run together, so that what they share is followed once.

Nothing is taken over from a run before it is asked for: a sweep goes the same way as if it made each run by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from legalsat.analyses.ptx_machine.launches.together import run_together
from legalsat.extract.check.ptx_failure import Values
from legalsat.extract.check.ptx_known import key_of

if TYPE_CHECKING:
    from legalsat.extract.check.ptx_sweep import Sweep


def run_ahead(sweep: Sweep, listed: Iterable[Values]) -> None:
    """Run launches with these values, of which most are asked for next in this order."""
    if sweep.late or sweep.sizing or sweep.alike:
        return
    way, runs, program = sweep.way(long=False), sweep.runs, sweep.program
    asked: dict[bool, dict[tuple[tuple[str, int], ...], Values]] = {False: {}, True: {}}
    for values in listed:
        key, held = key_of(values), sweep.launch({**values, **sweep.fixed})
        if held is None or sweep.has_shown(values) or any(key in one for one in asked.values()):
            continue
        backwards, told = not sweep.probing and runs % 2 == 1, program.alike.of(held)
        runs += 1
        if told is not None and sweep.known_run(told, backwards, way) is None:
            asked[backwards][key] = held
    for backwards, launches in asked.items():
        if len(launches) > 1:
            first = sweep.begun(next(iter(launches.values())), backwards=backwards)
            found, work = run_together(first, list(launches.values()))
            sweep.work += work
            keys = list(launches)
            sweep.ahead |= {(keys[number], run.allowed, backwards, *way): run for number, run in found.items()}
