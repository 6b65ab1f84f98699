"""Which of the clusters that a kernel may be launched in are worth a sweep: one launch with some work tells most.

In a cluster that it is not made for a kernel hangs at once, or reaches for CTAs that are not there, whatever the sizes.
A sweep would find that again in each of its launches.
"""

from __future__ import annotations

from legalsat.analyses.ptx.contract import Finding, Undecided
from legalsat.analyses.ptx_machine.program import Program
from legalsat.extract.check.ptx_failure import Values
from legalsat.extract.check.ptx_sweep import Sweep
from legalsat.extract.check.ptx_values import one_of, steering
from legalsat.logic import round_up

WORK = 60_000  # instructions of the launch
AGAINST = {"arrivals_missing", "arrivals_in_excess", "multicast_outside_cluster", "outside_shared_memory"}


def speaks_against(program: Program, fixed: Values, boxes: dict[str, int]) -> Finding | None:
    """Return what goes wrong between CTAs in a launch with some work for each; None where nothing does."""
    sweep = Sweep(program, fixed, dict(boxes))
    values = {
        name: 0 if name.startswith("%") else round_up(max(program.ranks, one_of(program, name)), program.multiple(name))
        for name in steering(program, fixed)
    }
    try:
        known = sweep.run(values, WORK)
    except Undecided:
        return None
    finally:
        program.forget()
    if known is None or known.run is None:
        return None
    wrong = [one for one in known.run.order.findings.values() if one.level == "error" and one.kind in AGAINST]
    return min(wrong, key=lambda one: one.line, default=None)
