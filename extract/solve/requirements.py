"""What rules want of the sites of one candidate, gathered for the solver, and what they say where it cannot be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from legalsat.diagnostics import Diagnostic
from legalsat.extract.explain.recorded import Record, RecordedTruth, record
from legalsat.extract.solve.solver import Domains, Values, core, optimum
from legalsat.logic import Condition, Value
from legalsat.rule import Rule
from legalsat.targets import Target


class Wanted:
    """The conditions on a candidate's open numbers: those of rules, tracked by code, and those that are given."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._rules: list[Rule] = []
        self._tracked: list[tuple[str, Record]] = []
        self._given: list[Record] = []
        self.broken: set[str] = set()

    def judge(self, rules: Sequence[Rule], *sites: Any) -> None:
        """Gather what the rules want of the sites; warnings want nothing."""
        for rule in rules:
            if rule.level != "error":
                continue
            self._rules.append(rule)
            for site in sites:
                for requirement in rule(site, self._target):
                    condition = requirement.condition
                    if isinstance(condition, RecordedTruth):
                        self._tracked.append((rule.code, condition.record))
                    elif not condition:
                        self.broken.add(rule.code)

    def give(self, conditions: Iterable[Condition]) -> None:
        """Add conditions that are no rule's, but part of the question."""
        self._given += [record(c) for c in conditions if isinstance(c, RecordedTruth) or not c]

    def optimum(self, choices: Domains, objective: Value, deadline: float | None) -> Values | None:
        """Return the best values of the open numbers, None if there are none.

        Raises:
            SolverGaveUp: effort or time ran out.
        """
        if self.broken:
            return None
        conditions = [*self._given, *(condition for _, condition in self._tracked)]
        return optimum(choices, conditions, record(objective), deadline)

    def codes(self, choices: Domains, deadline: float | None) -> set[str]:
        """Return the codes of a minimal set of rules that forbid every value; none where what is given does.

        Raises:
            SolverGaveUp: effort or time ran out.
        """
        return self.broken or core(choices, self._given, self._tracked, deadline)

    def said_of(self, codes: set[str], *sites: Any) -> tuple[Diagnostic, ...]:
        """Return what the rules of these codes say of sites of plain numbers, each thing once, of axes a cause once."""
        found: dict[tuple[str, str], Diagnostic] = {}
        for rule in self._rules:
            for site in sites if rule.code in codes else ():
                if rule.site == type(site).__name__:
                    once = bool(getattr(site, "axes", ()))
                    for said in (rule.told(site, self._target),) if once else rule.check(site, self._target):
                        if said is not None:
                            found.setdefault((said.code, said.message), said)
        return tuple(found.values())
