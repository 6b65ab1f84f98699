"""The solver: the best values of open numbers under recorded conditions, or a minimal set of conditions at odds.

Every open number has few values. Conditions on one of them thin its values out; what is left is few enough, mostly, to
judge every combination at once, in arrays with an axis for each open number. Z3 decides the larger ones, proves that
nothing better exists, and names the conditions that are at odds. Effort is counted in Z3's own units, so that an answer
does not depend on the machine.
"""

from __future__ import annotations

import importlib
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, reduce
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np

from legalsat.errors import LegalSatError
from legalsat.extract.explain.recorded import Record, at, names, reach
from legalsat.recent import Recent

MOST_TABLED = 2**18  # combinations that are judged in arrays, 2 MiB of 64-bit numbers
MOST_REACHED = 2**62  # where numbers beyond this may turn up, 64-bit arrays are not used
SATISFIED = "conditions hold together, so they have no core; ask for the optimum"

Domains: TypeAlias = Mapping[str, Sequence[int]]
Values: TypeAlias = dict[str, int]


def optimum(
    domains: Domains, conditions: Iterable[Record], objective: Record, deadline: float | None = None
) -> Values | None:
    """Return the values that make every condition true and the objective least, None if there are none.

    Args:
        domains: the values that each open number may take.
        conditions: records of what must hold.
        objective: record of the number to minimise.
        deadline: `time.monotonic()` at which to give up; none where only the effort is limited.

    Raises:
        SolverGaveUp: the deadline or the effort ran out.
    """
    thinned: dict[str, tuple[int, ...]] = {name: tuple(values) for name, values in domains.items()}
    joint = []
    for condition in conditions:
        open_names = names(condition)
        if not open_names:
            if not condition:
                return None
        elif len(open_names) == 1:
            (name,) = open_names
            thinned[name] = _allowed(condition, name, thinned[name])
            if not thinned[name]:
                return None
        else:
            joint.append(condition)
    found = _joint_optimum(tuple(sorted(thinned.items())), tuple(dict.fromkeys(joint)), objective, deadline)
    return None if found is None else dict(found)


@lru_cache(maxsize=8192)
def _allowed(condition: Record, name: str, values: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(value for value in values if at(condition, {name: value}))


# Tensors of one legality class leave the same problem, since what is known drops out of it; so they share the answer.
_ANSWERS: Recent[tuple[tuple[str, int], ...] | None] = Recent(1024)


def _joint_optimum(
    domains: tuple[tuple[str, tuple[int, ...]], ...],
    conditions: tuple[Record, ...],
    objective: Record,
    deadline: float | None,
) -> tuple[tuple[str, int], ...] | None:
    # Running out is no answer, so it is not kept.
    return _ANSWERS.answer((domains, conditions, objective), lambda: _descend(domains, conditions, objective, deadline))


def forget() -> None:
    """Forget every answer, as a fresh process knows none."""
    _ANSWERS.clear()
    _allowed.cache_clear()


def _descend(
    domains: tuple[tuple[str, tuple[int, ...]], ...],
    conditions: tuple[Record, ...],
    objective: Record,
    deadline: float | None,
) -> tuple[tuple[str, int], ...] | None:
    """Judge all combinations at once; where they are too many, ask for ever better values until there are none."""
    if _fits(dict(domains), *conditions, objective):
        with suppress(ArithmeticError), np.errstate(all="raise"):  # a divisor may be 0 where no value is allowed
            return _tabled(dict(domains), conditions, objective)
    best: tuple[tuple[str, int], ...] | None = _z3_search().descend(dict(domains), conditions, objective, deadline)
    return best


def _z3_search() -> Any:
    """Return `legalsat.extract.solve.z3_search`, which few questions need and which takes long to load."""
    return importlib.import_module("legalsat.extract.solve.z3_search")


def _fits(domains: Domains, *records: Record) -> bool:
    """Whether arrays of 64-bit numbers hold every combination, and every number on the way to these records."""
    if math.prod(map(len, domains.values())) > MOST_TABLED:
        return False
    largest = {name: max(map(abs, values), default=0) for name, values in domains.items()}
    return all(reach(record, largest) < MOST_REACHED for record in records)


def _axes(domains: Domains) -> tuple[Values, tuple[int, ...]]:
    """Return the values of each open number along an axis of its own, and the shape of all combinations."""
    shape = tuple(map(len, domains.values()))
    known: dict[str, Any] = {}
    for axis, (name, values) in enumerate(domains.items()):
        alone = [1] * len(shape)
        alone[axis] = len(values)
        known[name] = np.asarray(values, dtype=np.int64).reshape(alone) if len(values) > 1 else values[0]
    return known, shape


def _tabled(domains: Domains, conditions: Iterable[Record], objective: Record) -> tuple[tuple[str, int], ...] | None:
    """Return the best of all combinations; the first of equals, where the last name changes fastest."""
    known, shape = _axes(domains)
    holds: Any = np.True_
    for condition in conditions:
        holds = holds & at(condition, known)
        if not np.any(holds):
            return None
    holds, cost = (np.broadcast_to(table, shape) for table in (holds, at(objective, known)))
    best = np.unravel_index(np.where(holds, cost, np.iinfo(np.int64).max).argmin(), shape)
    return tuple((name, values[int(i)]) for (name, values), i in zip(domains.items(), best, strict=True))


def _tabled_core(domains: Domains, given: Iterable[Record], tracked: Sequence[tuple[str, Record]]) -> set[str]:
    """Return what `core` does: one condition that nothing satisfies, else what is left when none can be left out."""
    known, _ = _axes(domains)
    met = reduce(operator.and_, (at(condition, known) for condition in given), np.True_)
    tables = [at(condition, known) for _, condition in tracked]
    for (name, _), table in zip(tracked, tables, strict=True):
        if not np.any(met & table):
            return {name} if np.any(met) else set()
    rest = list(accumulate(reversed(tables), operator.and_, initial=np.True_))[-2::-1]
    needed = set()
    for (name, _), table, others in zip(tracked, tables, rest, strict=True):
        if np.any(met & others):
            needed.add(name)
            met = met & table
    if np.any(met):
        raise LegalSatError(SATISFIED)
    return needed


def core(
    domains: Domains, given: Iterable[Record], tracked: Sequence[tuple[str, Record]], deadline: float | None = None
) -> set[str]:
    """Return the names of a minimal set of tracked conditions that no values satisfy together with the given ones.

    Empty where the given conditions alone have no solution.
    """
    given = tuple(given)
    if _fits(domains, *given, *(condition for _, condition in tracked)):
        with suppress(ArithmeticError), np.errstate(all="raise"):
            return _tabled_core(domains, given, tracked)
    names: set[str] = _z3_search().core(domains, given, tracked, deadline)
    return names
