"""A run of a pipeline, and how what it violates is recorded.

The run is one of many: roles may be as slow or as fast as they like. So nothing is judged by the order in which the run
happens to do things, but by knowledge: an operation may rely on what its process knows to be over, and on nothing else.
If every pair of conflicting operations is ordered so, all runs do the same, and what holds for one holds for all.
"""

from __future__ import annotations

from typing import Any

from legalsat.analyses.protocol.typestate_program import Actor, Machine
from legalsat.analyses.protocol.typestate_state import State
from legalsat.diagnostics import Diagnostic
from legalsat.program.pipeline_sites import Grouped
from legalsat.rules import PIPELINE_RULES
from legalsat.targets import Target

GROUPED = ("cp.async", "wgmma", "bulk")
RULES_OF: dict[str, tuple[Any, ...]] = {}
for _rule in PIPELINE_RULES:
    RULES_OF[_rule.site] = (*RULES_OF.get(_rule.site, ()), _rule)


class Stuck(Exception):
    """The run cannot go on in a way that means anything; its violation is recorded."""


class Run:
    """One state and what has been found on the way to it."""

    def __init__(self, machine: Machine, target: Target, state: State) -> None:
        self.machine, self.target, self.state = machine, target, state
        self.found: dict[tuple[str, str], Diagnostic] = {}

    def violate(self, site: Any, *, stop: bool = True) -> None:
        """Record what the rules say about a site; they say something, else nobody would have asked."""
        for rule in RULES_OF[type(site).__name__]:
            for said in rule.check(site, self.target):
                self.found.setdefault((said.code, said.message), said)
        if stop:
            raise Stuck

    def ungrouped(self, where: str, bit: int) -> None:
        """Record if an event is waited for in vain, since no group was closed over what it ends."""
        for family in GROUPED:
            if any(bit & p.loose.get(family, 0) & ~p.known for p in self.state.processes):
                self.violate(Grouped(where, family, committed=False))

    def where(self, actor: Actor, what: str) -> str:
        """Return which process does what, and what is known of trip counts."""
        known = ", ".join(
            f"{name}{f' of turn {turns[-1]}' if turns else ''} {value}"
            for (name, turns, ordinal), value in self.state.values.items()
            if not ordinal
        )
        return f"{actor}: {what}" + (f" ({known})" if known else "")
