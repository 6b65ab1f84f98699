"""Which of the clusters that a kernel may be launched in are worth a sweep: one launch with some work tells most.

In a cluster that it is not made for a kernel hangs at once, or reaches for CTAs that are not there, whatever the sizes.
A sweep would find that again in each of its launches. What such a launch shows all the same, to which CTAs it sends and
how many arrivals its barriers expect, says which clusters are likely (`ptx_clusters.likelier`).
"""

from __future__ import annotations

from dataclasses import dataclass

from legalsat.analyses.ptx.findings import Finding, Undecided
from legalsat.analyses.ptx_machine.alu import NoLaunch
from legalsat.analyses.ptx_machine.program import Program
from legalsat.extract.check.ptx_failure import Values
from legalsat.extract.check.ptx_sweep import MISREAD, Sweep
from legalsat.extract.check.ptx_values import one_of, steering
from legalsat.logic import round_up

WORK = 60_000  # instructions of the launch
AGAINST = {"arrivals_missing", "arrivals_in_excess", "multicast_outside_cluster", "outside_shared_memory"}


@dataclass(frozen=True, slots=True)
class Shown:
    """What a launch with some work for each CTA shows of its cluster.

    Attributes:
        against: what goes wrong between CTAs; None where nothing does.
        masks: of CTAs to which the first one sends copies. counts: of arrivals that barriers expect.
    """

    against: Finding | None = None
    masks: frozenset[int] = frozenset()
    counts: frozenset[int] = frozenset()


def shown_by_one(program: Program, fixed: Values, boxes: dict[str, int]) -> Shown:
    """Return what a launch with some work for each CTA shows of the cluster that a program is compiled for."""
    sweep = Sweep(program, fixed, dict(boxes))
    dividing = program.roles.dividing
    values = {
        name: dividing[name] if name in dividing
        else 0 if name.startswith("%") else round_up(max(program.ranks, one_of(program, name)), program.multiple(name))
        for name in steering(program, fixed)
    }  # fmt: skip
    held = sweep.launch({**values, **fixed})
    if held is None:
        return Shown()
    # It is asked what happens between CTAs, and not again once it is known how far stores reach.
    run = sweep.begun(held, WORK, backwards=False)
    try:
        run.run()
    except NoLaunch:
        return Shown()
    except (Undecided, *MISREAD):
        pass  # what has happened so far tells as much
    finally:
        program.agents = max(program.agents, run.order.agents)
        program.forget()
    wrong = [one for one in run.order.findings.values() if one.level == "error" and one.kind in AGAINST]
    counts = frozenset(one.expected for one in run.barriers.last.values())
    return Shown(min(wrong, key=lambda one: one.line, default=None), frozenset(run.masks), counts)
