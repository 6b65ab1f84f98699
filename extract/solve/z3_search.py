"""Z3's part of the solver: the best values, or a minimal set of conditions at odds, where tables would be too large.

Effort is counted in Z3's own units, so that an answer does not depend on the machine.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import z3

from legalsat.errors import LegalSatError, SolverGaveUp
from legalsat.extract.explain.recorded import Record, at
from legalsat.extract.solve.solver import SATISFIED, Domains, Values
from legalsat.extract.solve.z3_logic import Z3Number, formula, variable
from legalsat.logic import among

MOST_SECONDS = 1_000_000  # what Z3's 32 bits of milliseconds hold
EFFORT = 20_000_000  # Z3's resource units; the hardest problems seen take a hundredth


def descend(
    domains: Domains, conditions: Sequence[Record], objective: Record, deadline: float | None
) -> tuple[tuple[str, int], ...] | None:
    """Ask for ever better values of the open numbers until there are none; None where no values satisfy all."""
    known: dict[str, Any] = {
        name: values[0] if len(values) == 1 else variable(name) for name, values in domains.items()
    }
    solver = z3.SimpleSolver()
    for name, values in domains.items():
        solver.add(formula(among(known[name], values)))
    for condition in conditions:
        solver.add(formula(at(condition, known)))
    wanted = at(objective, known)
    best: Values | None = None
    while _check(solver, deadline) == z3.sat:
        model = solver.model()
        best = {name: _number(model, known[name]) for name in domains}
        if not isinstance(wanted, Z3Number):
            break
        solver.add(formula(wanted < at(objective, best)))
    return None if best is None else tuple(best.items())


def core(
    domains: Domains,
    given: Sequence[Record],
    tracked: Sequence[tuple[str, Record]],
    deadline: float | None,
) -> set[str]:
    """Return the names of a minimal set of tracked conditions that no values satisfy together with the given ones."""
    known: dict[str, Any] = {name: variable(name) for name in domains}
    solver = z3.SimpleSolver()
    for name, values in domains.items():
        solver.add(formula(among(known[name], values)))
    for condition in given:
        solver.add(formula(at(condition, known)))
    markers = {}
    for i, (name, condition) in enumerate(tracked):
        marker = z3.Bool(f"{name}.{i}")
        solver.add(z3.Implies(marker, formula(at(condition, known))))
        markers[marker] = name
    if _check(solver, deadline, *markers) == z3.sat:
        raise LegalSatError(SATISFIED)
    needed = list(solver.unsat_core())
    for marker in list(needed):
        rest = [m for m in needed if m is not marker]
        if _check(solver, deadline, *rest) == z3.unsat:
            needed = rest
    return {markers[m] for m in needed}


def _number(model: Any, number: Any) -> int:
    if not isinstance(number, Z3Number):
        return int(number)
    return int(model.eval(number.expression, model_completion=True).as_long())


def _check(solver: Any, deadline: float | None, *assumptions: Any) -> Any:
    solver.set(rlimit=EFFORT)
    if deadline is not None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise SolverGaveUp("time was up before the solver was asked; give more of it")
        solver.set(timeout=max(1, int(1000 * min(left, MOST_SECONDS))))
    answer = solver.check(*assumptions)
    if answer == z3.unknown:
        raise SolverGaveUp("solver found no answer within its limits; give a smaller tile or more time")
    return answer
