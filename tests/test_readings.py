"""A rule's condition says the same of ints, of numpy arrays, of Z3 variables and of isl parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import islpy as isl
import numpy as np
import pytest
import z3
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.driver_agreement import DRIVER_RULES, tensor_map
from legalsat.analyses.sets.isl_logic import IslNumber, IslTruth, NotAffine, parameters
from legalsat.extract.solve.z3_logic import Z3Number, formula, variable
from legalsat.logic import (
    UnknownTruth,
    all_of,
    among,
    any_of,
    ceil_div,
    choose,
    implies,
    multiple_of,
    negate,
    pick,
    product,
    round_up,
    within,
)
from legalsat.operators.batch import failing
from legalsat.rules import COPY_RULES, SHARED_RULES, TENSOR_MAP_RULES
from legalsat.targets import target
from legalsat.units.sites import SharedStages, TmaCopy

TARGETS = [target(name) for name in ("h200", "b200")]
RECORD = np.dtype(
    [
        *((name, "u1") for name in ("kind", "dtype", "rank", "interleave", "swizzle", "l2_promotion", "oob_fill")),
        ("map_offset", "u1"),
        ("address", "<u8"),
        ("global_dim", "<u8", (6,)),
        ("global_stride", "<u8", (5,)),
        ("box", "<u4", (6,)),
        ("lower", "<i4", (3,)),
        ("upper", "<i4", (3,)),
        ("element_stride", "<u4", (6,)),
    ]
)


def some(*numbers: int, upto: int) -> st.SearchStrategy[int]:
    """Draw an edge of legality or any number up to a limit."""
    return st.sampled_from(numbers) | st.integers(0, upto)


EXTENT = some(0, 1, 2, 8, 16, 64, 128, 2**31, 2**31 - 1, 2**32, 2**32 + 1, upto=2**33)
STRIDE = some(0, 16, 32, 48, 96, 128, 2**39, 2**40 - 16, 2**40, upto=2**41)
BOX = some(0, 1, 8, 16, 32, 64, 128, 255, 256, 257, 1024, upto=1500)
STEP = some(0, 1, 1, 1, 2, 8, 9, upto=20)
CORNER = st.sampled_from((-16, -17, 0, 15, 16, -128, 127, 128, -32768, 32767, 2**31 - 1, -(2**31))) | st.integers(
    -40, 40
)
# What saturates in a batch: no rule accepts it, but which rule refuses it may differ from the exact numbers'.
HUGE = some(2**62, 2**62 + 8, 2**63, 2**64 - 1, upto=2**64 - 1)


@st.composite
def requests(draw: st.DrawFn, extent: st.SearchStrategy[int] = EXTENT, stride: st.SearchStrategy[int] = STRIDE) -> Any:
    """Draw the arguments of one encode call as the driver's record; entries past the rank are noise."""
    record = np.zeros((), dtype=RECORD)
    record["kind"], record["rank"] = draw(st.integers(0, 1)), draw(st.integers(0, 6))
    for name, count in (("dtype", 17), ("interleave", 3), ("swizzle", 8), ("l2_promotion", 4), ("oob_fill", 2)):
        record[name] = draw(st.integers(0, count))
    record["map_offset"] = draw(st.sampled_from((0, 8, 32, 64)))
    record["address"] = draw(some(0, 8, 16, 32, 2**63 + 16, upto=2**64 - 1))
    for name, numbers in (
        ("global_dim", extent),
        ("global_stride", stride),
        ("box", BOX),
        ("lower", CORNER),
        ("upper", CORNER),
        ("element_stride", STEP),
    ):
        length = RECORD[name].shape[0]
        record[name] = draw(st.lists(numbers, min_size=length, max_size=length))
    return record


def site_of(record: Any) -> TmaCopy:
    """Return the record as a site of ints."""
    return TmaCopy.of(tensor_map(record))


@st.composite
def sites(draw: st.DrawFn) -> TmaCopy:
    """Draw a site of ints: loads and stores, with and without a stride of the innermost dimension."""
    site = site_of(draw(requests()))
    inner = draw(st.none() | st.sampled_from((8, 16, 32, 64)))
    return replace(site, stores=draw(st.booleans()), inner_stride_bits=inner)


def opened(site: TmaCopy, make: Any, chosen: Any = None) -> tuple[TmaCopy, dict[str, int]]:
    """Return the site with a variable for each number (or each of the `chosen`), and the numbers by variable name."""
    values: dict[str, int] = {}

    def open_(name: str, number: int) -> Any:
        if chosen is not None and name not in chosen:
            return number
        values[name] = number
        return make(name)

    fields: dict[str, Any] = {}
    for name in site.__slots__:
        value = getattr(site, name)
        if isinstance(value, tuple):
            fields[name] = tuple(open_(f"{name}{i}", number) for i, number in enumerate(value))
        elif name != "rank" and isinstance(value, int) and not isinstance(value, bool):
            fields[name] = open_(name, value)
    return replace(site, **fields), values


def names_of(site: TmaCopy) -> list[str]:
    """Return the names of the site's numbers, as `opened` calls them."""
    return list(opened(site, lambda name: 0)[1])


@settings(deadline=None, max_examples=25)
@given(st.lists(requests(), min_size=1, max_size=12), st.sampled_from(TARGETS))
def test_numpy_agrees_with_ints(records: list[Any], on: Any) -> None:
    by_rule = failing(np.stack(records), on, TENSOR_MAP_RULES)
    for i, record in enumerate(records):
        site = site_of(record)
        for rule in TENSOR_MAP_RULES:
            assert by_rule[rule.code][i] == any(rule.check(site, on)), (rule.code, record)


@settings(deadline=None, max_examples=25)
@given(st.lists(requests(EXTENT | HUGE, STRIDE | HUGE), min_size=1, max_size=8), st.sampled_from(TARGETS))
def test_numpy_refuses_what_ints_refuse_even_where_it_saturates(records: list[Any], on: Any) -> None:
    by_rule = failing(np.stack(records), on, DRIVER_RULES)
    for i, record in enumerate(records):
        site = site_of(record)
        refused = any(said for rule in DRIVER_RULES for said in rule.check(site, on))
        assert refused == any(fails[i] for fails in by_rule.values()), record


@settings(deadline=None, max_examples=60)
@given(sites(), st.sampled_from(TARGETS))
def test_z3_agrees_with_ints(site: TmaCopy, on: Any) -> None:
    symbols, values = opened(site, variable)
    solver = z3.Solver()
    solver.add(*(z3.Int(name) == number for name, number in values.items()))
    agreements = []
    for rule in COPY_RULES:
        for known, unknown in zip(rule(site, on), rule(symbols, on), strict=True):
            assert isinstance(known.condition, bool), rule.code
            agreements.append(formula(unknown.condition) == known.condition)
    assert solver.check(*agreements) == z3.sat
    solver.add(z3.Not(z3.And(*agreements)))
    assert solver.check() == z3.unsat


@settings(deadline=None, max_examples=60)
@given(st.data(), sites(), st.sampled_from(TARGETS))
def test_isl_agrees_with_ints(data: Any, site: TmaCopy, on: Any) -> None:
    chosen = data.draw(st.lists(st.sampled_from(names_of(site)), min_size=1, max_size=4, unique=True))
    symbols, values = opened(site, parameters(chosen).__getitem__, chosen)
    for rule in COPY_RULES:
        try:
            pairs = list(zip(rule(site, on), rule(symbols, on), strict=True))
        except NotAffine:
            continue
        for known, unknown in pairs:
            assert holds_at(unknown.condition, chosen, values) == known.condition, rule.code


@pytest.mark.parametrize("kind", (0, 1))
def test_isl_reads_every_rule_with_one_number_open(kind: int) -> None:
    record = np.zeros((), dtype=RECORD)
    record["kind"], record["rank"] = kind, 4
    for name, number in (("global_dim", 64), ("global_stride", 1024), ("box", 16), ("element_stride", 1)):
        record[name] = number
    site = replace(site_of(record), stores=True, inner_stride_bits=8)
    read = set()
    for on in TARGETS:
        for name in names_of(site):
            symbols, _ = opened(site, parameters([name]).__getitem__, [name])
            for rule in COPY_RULES:
                try:
                    found = [r.condition for r in rule(symbols, on)]
                except NotAffine:
                    assert name.startswith(("element_stride", "interleave")), "they are divisors; all else is affine"
                    continue
                read |= {rule.code for condition in found if isinstance(condition, IslTruth)}
    judged = {rule.code for on in TARGETS for rule in COPY_RULES for _ in rule(site, on)}
    assert read == judged - {"TMA001"}, "the rank is never open"


def holds_at(condition: Any, names: list[str], values: dict[str, int]) -> bool:
    """Whether the values lie in the set of a condition; plain conditions are the same everywhere."""
    if not isinstance(condition, IslTruth):
        return bool(condition)
    points = condition.holds
    for i, name in enumerate(names):
        value = isl.Val.read_from_str(isl.DEFAULT_CONTEXT, str(values[name]))
        points = points.fix_val(isl.dim_type.param, i, value)
    return not points.is_empty()


@pytest.mark.parametrize("stages", range(1, 6))
def test_shared_memory_reads_alike(stages: int) -> None:
    for ring in (0, 1024, 58_000, 77_000, 116_000):
        known = SharedStages(stages, ring, 1024)
        (requirement,) = SHARED_RULES[0](known, TARGETS[0])
        (unknown,) = SHARED_RULES[0](replace(known, stages=variable("stages")), TARGETS[0])
        solver = z3.Solver()
        solver.add(z3.Int("stages") == stages, formula(unknown.condition))
        assert (solver.check() == z3.sat) == requirement.condition
        (affine,) = SHARED_RULES[0](replace(known, stages=parameters(["stages"])["stages"]), TARGETS[0])
        assert holds_at(affine.condition, ["stages"], {"stages": stages}) == requirement.condition


# The vocabulary of conditions itself, over small numbers; divisors are positive.
EXPRESSIONS: dict[str, Callable[..., Any]] = {
    "negate": lambda a, b: negate(a == b),
    "implies": lambda a, b: implies(a > 3, b <= a),
    "all_of": lambda a, b: all_of(a >= 1, a != b, b < 9),
    "any_of": lambda a, b: any_of(a == 2, b == 3),
    "within": lambda a, b: within(2, a + b, 7),
    "multiple_of": lambda a, b: multiple_of(3 * a - b, 4),
    "among": lambda a, b: among(a, (1, 4, 6)) | (b == 0),
    "ceil_div": lambda a, b: ceil_div(a, 3) == b,
    "round_up": lambda a, b: round_up(a, 4) - b >= 4,
    "choose": lambda a, b: choose(a > b, a - b, 2 * b) == 2,
    "nested choose": lambda a, b: choose(a > 4, choose(b > 4, 1, 2), choose(b > 4, 3, 4)) >= 3,
    "pick": lambda a, b: pick((5, 3, 1), a) > b,
    "reflected": lambda a, b: (9 - a) % 5 <= 1 + b,
}
NUMBERS = st.integers(0, 9)


@pytest.mark.parametrize("name", EXPRESSIONS)
@settings(deadline=None, max_examples=15)
@given(a=NUMBERS, b=NUMBERS)
def test_vocabulary_reads_alike(name: str, a: int, b: int) -> None:
    expression = EXPRESSIONS[name]
    known = expression(a, b)
    assert isinstance(known, bool)
    assert np.array_equal(expression(np.array([a, 0]), np.array([b, 0])), [known, expression(0, 0)])
    symbols = {"a": variable("a"), "b": variable("b")}
    solver = z3.Solver()
    solver.add(z3.Int("a") == a, z3.Int("b") == b, formula(expression(**symbols)))
    assert (solver.check() == z3.sat) == known
    assert holds_at(expression(**parameters(["a", "b"])), ["a", "b"], {"a": a, "b": b}) == known


@settings(deadline=None, max_examples=15)
@given(a=NUMBERS, b=NUMBERS, divisor=st.integers(1, 5))
def test_divisions_by_open_numbers_read_alike_or_say_that_they_cannot(a: int, b: int, divisor: int) -> None:
    solver = z3.Solver()
    solver.add(z3.Int("d") == divisor)
    d = variable("d")
    solver.add(formula((a // d == a // divisor) & (b % d == b % divisor) & (d * d == divisor * divisor)))
    assert solver.check() == z3.sat
    open_ = parameters(["d", "e"])
    undefined: list[Callable[[], Any]] = [
        lambda: a // open_["d"],
        lambda: a % open_["d"],
        lambda: open_["e"] // open_["d"],
        lambda: open_["d"] * open_["e"],
        lambda: open_["d"] % 0,
    ]
    for undefine in undefined:
        with pytest.raises(NotAffine):
            undefine()


def test_products_of_arrays_saturate_instead_of_wrapping() -> None:
    wide = np.array([2**40, 3, 0])
    assert product([wide, wide]).tolist() == [2**62, 9, 0]
    assert product([wide, 2**33, 2**33])[0] == 2**62
    assert product([]) == 1
    assert product([2**40, 2**40]) == 2**80


@pytest.mark.parametrize("number", [variable("n"), parameters(["n"])["n"]], ids=["z3", "isl"])
def test_an_unknown_has_no_truth_value(number: Z3Number | IslNumber) -> None:
    with pytest.raises(UnknownTruth, match="open"):
        bool(number)
    with pytest.raises(UnknownTruth, match="neither true nor false"):
        bool(number == 3)
    with pytest.raises(UnknownTruth):
        assert number < 3 and number > 1
    with pytest.raises(UnknownTruth):
        max(number, 3)
    with pytest.raises(TypeError):
        hash(number)
