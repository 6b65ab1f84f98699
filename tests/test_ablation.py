"""Every family of laws in the table of `bench.ablation` is needed by the problem beside it."""

from __future__ import annotations

import pytest

from bench.ablation import PROBLEMS, Problem, measure, without
from bench.search.programs import programs
from bench.search.saturation import compared_products, compared_programs, needed, needed_by_programs, products
from legalsat.errors import LegalSatError


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_a_problem_fails_or_costs_more_without_its_family_of_laws(problem: Problem) -> None:
    row = measure(problem)
    assert row.loses
    assert row.before.nanoseconds > 0
    assert row.after.codes or row.after.nanoseconds > row.before.nanoseconds


def test_a_family_that_a_problem_does_not_need_is_told() -> None:
    """Boxes up to 256 need no split, so that a table with this row would be wrong."""
    problem = next(p for p in PROBLEMS if p.name == "transposed views")
    assert not measure(Problem("nothing", problem.operator, ("split_long_tile",))).loses
    with pytest.raises(LegalSatError, match="no law is called"):
        without(("split_nothing",))


def test_some_product_needs_each_law_and_saturation_finds_what_search_finds() -> None:
    gemms = products(40)
    rows = needed(gemms)
    assert all(row.refused or (row.dearer and row.worst >= row.mean > 1) for row in rows), rows
    both = compared_products(gemms[:2])
    assert both.found >= 12 and not both.saturated and not both.searched


def test_programs_are_dearer_without_the_laws_that_they_are_derived_by() -> None:
    names = ("two tensors, one after another", "zeros along k", "rows of two tensors")
    rows = {row.law: row.programs for row in needed_by_programs({name: programs()[name] for name in names})}
    for law, name in zip(("product_of_concat", "product_of_padded_k", "slice_of_concat"), names, strict=True):
        assert rows[law][name] > 1.05
    assert not rows["transpose_of_product"]
    both = compared_programs()
    assert both.found > 1000 and not both.saturated and not both.searched
