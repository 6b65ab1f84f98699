"""The solver against trying everything: tables and Z3 find equally good values, or both none."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legalsat.errors import LegalSatError
from legalsat.extract.explain.recorded import Record, at, names, reach
from legalsat.extract.solve import solver

NAMES = ("a", "b", "c")
NUMBERS = st.integers(-3, 40)
COMPARISONS = st.sampled_from(("==", "!=", "<", "<=", ">", ">="))
DIVISORS = st.integers(1, 9)


def numbers() -> st.SearchStrategy[Record]:
    """Draw records of numbers; divisors are plain and positive, as those of rules are."""
    leaves = NUMBERS | st.sampled_from([("open", name) for name in NAMES])

    def grown(inner: st.SearchStrategy[Record]) -> st.SearchStrategy[Record]:
        two = st.tuples(st.sampled_from(("+", "-", "*")), inner, inner)
        divided = st.tuples(st.sampled_from(("//", "%")), inner, DIVISORS)
        # What rules record has an open number in every condition, so that it is no plain bool.
        chosen = st.tuples(st.just("choose"), st.tuples(COMPARISONS, st.just(("open", "a")), inner), inner, inner)
        return two | divided | chosen

    return st.recursive(leaves, grown, max_leaves=6)


def conditions() -> st.SearchStrategy[Record]:
    """Draw records of conditions."""
    simple = st.tuples(COMPARISONS, numbers(), numbers())
    joined = st.tuples(st.sampled_from(("and", "or")), simple, simple)
    drawn = simple | joined | st.tuples(st.just("not"), simple)
    return drawn.filter(names)  # what hangs on no open number is a plain bool


DOMAINS = st.fixed_dictionaries({n: st.lists(NUMBERS, min_size=1, max_size=5, unique=True) for n in NAMES})


def best(domains: Mapping[str, list[int]], wanted: list[Record], objective: Record) -> int | None:
    """Return the least objective over every combination that the conditions allow."""
    found = []
    for values in itertools.product(*domains.values()):
        known = dict(zip(domains, values, strict=True))
        if all(at(condition, known) for condition in wanted):
            found.append(int(at(objective, known)))
    return min(found, default=None)


@settings(deadline=None, max_examples=300)
@given(DOMAINS, st.lists(conditions(), max_size=4), numbers(), st.booleans())
def test_tables_and_z3_find_what_trying_everything_finds(
    domains: dict[str, list[int]], wanted: list[Record], objective: Record, tabled: bool
) -> None:
    solver.forget()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solver, "MOST_TABLED", solver.MOST_TABLED if tabled else 0)
        found = solver.optimum(domains, wanted, objective)
    least = best(domains, wanted, objective)
    assert (found is None) == (least is None)
    if found is not None:
        assert all(found[name] in values for name, values in domains.items())
        assert all(at(condition, found) for condition in wanted)
        assert at(objective, found) == least


@settings(deadline=None, max_examples=300)
@given(DOMAINS, st.lists(conditions(), max_size=2), st.lists(conditions(), min_size=1, max_size=5), st.booleans())
def test_a_core_is_at_odds_and_nothing_of_it_can_be_left_out(
    domains: dict[str, list[int]], given_: list[Record], wanted: list[Record], tabled: bool
) -> None:
    tracked = [(str(i), condition) for i, condition in enumerate(wanted)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solver, "MOST_TABLED", solver.MOST_TABLED if tabled else 0)
        if best(domains, given_ + wanted, 0) is not None:
            with pytest.raises(LegalSatError, match="hold together"):
                solver.core(domains, given_, tracked)
            return
        found = solver.core(domains, given_, tracked)
    needed = [condition for name, condition in tracked if name in found]
    assert best(domains, given_ + needed, 0) is None
    for i in range(len(needed)):
        assert best(domains, given_ + needed[:i] + needed[i + 1 :], 0) is not None


@settings(deadline=None, max_examples=300)
@given(DOMAINS, numbers())
def test_no_number_on_the_way_reaches_further_than_is_said(domains: dict[str, list[int]], one: Record) -> None:
    most = reach(one, {name: max(map(abs, values)) for name, values in domains.items()})
    for values in itertools.product(*domains.values()):
        known = dict(zip(domains, values, strict=True))
        assert all(abs(int(at(part, known))) <= most for part in parts(one))


def parts(record: Any) -> list[Any]:
    """Return every number within a record."""
    if not isinstance(record, tuple) or record[0] == "open":
        return [record]
    inner = [part for operand in record[1:] for part in parts(operand)]
    return inner if record[0] in {"==", "!=", "<", "<=", ">", ">="} else [record, *inner]


def test_numbers_beyond_64_bits_do_not_wrap() -> None:
    """2^40 x 2^40 is 0 in 64 bits."""
    square = ("*", ("open", "a"), ("open", "b"))
    domains = {"a": [1, 2**40], "b": [3, 2**40]}
    assert solver.optimum(domains, [(">", square, 2**70)], square) == {"a": 2**40, "b": 2**40}
    assert solver.optimum(domains, [("<", square, 3)], square) is None


def test_a_divisor_that_may_be_zero_is_left_to_z3() -> None:
    shared = ("%", ("open", "a"), ("open", "b"))
    domains = {"a": [6, 7], "b": [0, 3]}
    found = solver.optimum(domains, [("!=", ("open", "b"), 0), ("==", shared, 0)], shared)
    assert found == {"a": 6, "b": 3}
    joint = ("and", ("!=", ("+", ("open", "b"), ("-", ("open", "a"), ("open", "a"))), 0), ("==", shared, 0))
    assert solver.optimum(domains, [joint], shared) == {"a": 6, "b": 3}


def test_the_first_of_equals_is_taken() -> None:
    total = ("+", ("open", "a"), ("open", "b"))
    assert solver.optimum({"b": [1, 2], "a": [1, 2]}, [("==", total, 3)], total) == {"a": 1, "b": 2}
    with pytest.raises(KeyError):
        solver.optimum({"a": [1]}, [], total)
