"""Launches that are asked for next, run together, so that what they share is followed once.

Nothing is taken over from a run before it is asked for: a sweep goes the same way as if it made each run by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from legalsat.analyses.ptx_machine.launches.together import go_on, run_leader, run_together
from legalsat.analyses.ptx_machine.machine import Run
from legalsat.analyses.ptx_machine.periods import Periods
from legalsat.extract.check.ptx_failure import Values
from legalsat.extract.check.ptx_known import key_of
from legalsat.extract.check.ptx_sweep import RUN_WORK

if TYPE_CHECKING:
    from legalsat.extract.check.ptx_sweep import Sweep


def run_ahead(sweep: Sweep, listed: Iterable[Values], limit: int = RUN_WORK) -> None:
    """Run launches with these values, of which most are asked for next in this order, each up to a limit."""
    if sweep.late or sweep.alike:
        return
    way, runs, program = sweep.way(long=False), sweep.runs, sweep.program
    asked: dict[bool, dict[tuple[tuple[str, int], ...], Values]] = {False: {}, True: {}}
    for values in listed:
        key, held = key_of(values), sweep.launch({**values, **sweep.fixed})
        if held is None or sweep.has_shown(values) or any(key in one for one in asked.values()):
            continue
        backwards, told = sweep.turned_round(runs), program.alike.of(held)
        runs += 1
        name = key, backwards, *way
        if name in sweep.ahead or name in sweep.later:
            continue
        if told is not None and sweep.known_run(told, backwards, way) is None:
            asked[backwards][key] = held
    for backwards, launches in asked.items():
        if len(launches) > 1:
            first = sweep.begun(next(iter(launches.values())), limit, backwards=backwards)
            found, work = run_together(first, list(launches.values()))
            sweep.work += work
            keys = list(launches)
            sweep.ahead |= {(keys[number], backwards, *way): run for number, run in found.items()}


def run_long_ahead(sweep: Sweep, long: Values, listed: Iterable[Values]) -> None:
    """Run a launch whose loops do not end until their states have repeated; others part from it where they differ.

    Those wait where they have parted, and go on when they are asked for: how many are is known after the long run.
    """
    first = sweep.launch({**long, **sweep.fixed})
    if first is None or sweep.late or sweep.sizing or sweep.alike:
        return
    backwards, program, way = sweep.turned_round(sweep.runs), sweep.program, sweep.way(long=False)

    def is_known(held: Values, way: tuple[object, ...]) -> bool:
        told = program.alike.of(held)
        return told is None or sweep.known_run(told, backwards, way) is not None

    if is_known(first, sweep.way(long=True)):
        return
    launches: dict[tuple[tuple[str, int], ...], Values] = {key_of(long): first}
    for values in listed:
        held = sweep.launch({**values, **sweep.fixed})
        if held is not None and not sweep.has_shown(values) and not is_known(held, way):
            launches.setdefault(key_of(values), held)
    begun = sweep.begun(first, periods=Periods(program.conditions.stages), backwards=backwards)
    leader, waiting, work = run_leader(begun, list(launches.values()))
    sweep.work += work
    if leader is None:
        return
    keys = list(launches)
    sweep.ahead[keys[0], backwards, *sweep.way(long=True)] = leader

    def going_on(run: Run) -> Callable[[], None]:
        names = {number: (keys[number], backwards, *way) for number, _ in run.group.launches}

        def go() -> None:
            for name in names.values():
                sweep.later.pop(name, None)
            found, more = go_on([run])
            sweep.work += more
            sweep.ahead |= {names[number]: one for number, one in found.items()}

        sweep.later |= dict.fromkeys(names.values(), go)
        return go

    for run in waiting:
        going_on(run)
