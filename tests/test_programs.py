"""Programs of several operators: planned as cheaply as trying every way finds, and computed to the last element."""

from __future__ import annotations

import ast
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from execute import execute

import legalsat as ls
from bench.kernels.moved import memory_of, moved
from bench.search import program_exhaustive
from bench.search.program_exhaustive import cheapest
from bench.search.programs import SLOW, computes, drawn, given, numbers, one_by_one, programs, small
from legalsat.errors import InvalidInput
from legalsat.extract.composed.classes import matrices_of, terms_of
from legalsat.extract.composed.derivations import NO_LAW
from legalsat.extract.composed.extraction import extract
from legalsat.extract.composed.options import Options
from legalsat.extract.composed.planner import scheduled
from legalsat.extract.composed.recheck import recheck_program
from legalsat.extract.composed.run import rounded
from legalsat.operators.program import Made, program_of
from legalsat.plans.codec import InvalidPlan
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.plans.movement_plan import MovementPlan
from legalsat.plans.program_plan import ProgramPlan, from_json
from legalsat.rules.rewrites import VALUE_LAWS
from legalsat.targets import target
from legalsat.tensor import Tensor, plain
from legalsat.terms.trees import Term, TermEquation, TermLaw, Variable, steps_of
from legalsat.terms.values import concat, slice_, transpose

H200 = target("h200")
QUICK = [name for name in programs() if name not in SLOW]


def planned(name: str) -> ProgramPlan:
    return ls.synthesize(programs()[name], "h200")


@pytest.mark.parametrize("name", QUICK)
def test_a_plan_costs_what_trying_every_way_finds(name: str) -> None:
    plan = planned(name)
    assert plan.exact
    assert plan.cost.nanoseconds == cheapest(plan.operator, "h200") > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_so_does_one_of_more_products(name: str) -> None:
    assert planned(name).cost.nanoseconds == cheapest(programs()[name], "h200")


@pytest.mark.parametrize("name", list(programs()))
def test_steps_compute_every_element(name: str) -> None:
    """Products by their programs, descriptors and maps; passes, besides, by their own maps and threads on bytes."""
    plan = ls.synthesize(programs(small)[name], "h200")
    assert computes(plan, 1) and computes(plan, 2)
    for step in plan.steps:
        if isinstance(step.plan, MovementPlan):
            source, result = (
                memory_of(one, seed) for one, seed in ((step.reads[0].tensor, 3), (step.writes.tensor, 4))
            )
            assert np.array_equal(execute(step.plan, source, result), moved(step.plan.operator, source, result))


def test_an_odd_k_between_products_lies_in_whole_granules() -> None:
    plan = planned("an odd k between two products")
    (between,) = (one for one in plan.buffers if one.kind == "scratch")
    assert between.tensor.shape == (500, 4095) and between.tensor.strides == (4096, 1)
    assert [type(step.plan) for step in plan.steps] == [GemmPlan, GemmPlan]
    assert "rows of 4096 elements, 8192 bytes" in str(plan)
    assert plan.cost.nanoseconds < one_by_one(plan.operator)


def test_views_are_read_where_they_lie() -> None:
    (turned,) = planned("a transposed tensor").steps
    assert turned.reads[0].tensor.strides == (1, 512) and turned.plan.kernel.majors[0] == "MN"  # type: ignore[union-attr]
    (sliced,) = planned("columns that begin at a granule").steps
    assert [(place.start, place.tensor.offset) for place in sliced.reads] == [(128, 128)] * 2
    padded = planned("zeros along k")
    (one,) = padded.steps
    assert one.reads[1].tensor.shape == (512, 1000) and one.reads[1].tensor.strides == (1024, 1)
    assert [step.law for step in padded.derivation] == ["product_of_padded_k"]


def test_weights_are_joined_once_and_tensors_are_not() -> None:
    weights = planned("two weights, one after another")
    assert (weights.cost.steps, weights.cost.once) == (1, 2)
    tensors = planned("two tensors, one after another")
    assert [step.writes.buffer for step in tensors.steps] == ["y", "y"]
    assert sorted(step.writes.start for step in tensors.steps) == [0, 1024]  # columns of one result
    assert {step.law for step in tensors.derivation} == {"product_of_concat"}


def test_products_that_share_an_operand_are_one() -> None:
    plan = planned("two products of one tensor")
    wide, narrow = (step for step in plan.steps if not step.once)
    assert wide.writes.tensor.shape == (500, 1024) and [place.start for place in narrow.reads] == [0, 1024]
    odd = planned("an odd tensor of two products")
    assert [isinstance(step.plan, MovementPlan) for step in odd.steps] == [
        True,
        False,
        False,
    ]  # laid out once, read twice


def test_random_programs_are_computed_and_none_is_dearer() -> None:
    """Those that have few ways are tried in every one of them."""
    r, equal = random.Random(5), 0
    for _ in range(12):
        program = drawn(r)
        plan = ls.synthesize(program, "h200")
        assert computes(plan), program
        recheck_program(plan)
        if len(program.steps) <= 3 and len(program.inputs) <= 2:
            try:
                assert plan.cost.nanoseconds == cheapest(program, "h200"), program
                equal += 1
            except program_exhaustive.TooManyWays:
                continue
    assert equal >= 3


def test_any_choice_of_options_computes_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """With weights that chance draws, plans are others, and none of them is wrong."""
    seen = set()
    for seed in range(3):
        r = random.Random(seed)
        monkeypatch.setattr(Options, "_weight", lambda *_, r=r: 1 + r.randrange(1000))
        monkeypatch.setattr("legalsat.extract.composed.options.cost_of", lambda *_: 0.0)
        for name in ("two products of one tensor", "two tensors, one after another", "columns of a product"):
            options = Options(programs(small)[name], H200)
            plan = scheduled(options, extract(options))
            assert computes(plan, seed)
            seen.add((name, tuple(step.what for step in plan.steps)))
    assert len(seen) > 4


@pytest.mark.parametrize("name", ["an odd k that is a result too", "columns of a product", "zeros below"])
def test_bounds_as_tight_as_weights_rule_nothing_out(name: str) -> None:
    """What is being decided may be what the rest is made of, so that a tight bound of the rest must not count it."""
    known, options = Options(programs()[name], H200), Options(programs()[name], H200)
    waiting = list(known.goals)
    while waiting:
        if (state := waiting.pop()) not in options._found:
            ways = [(one, known.weight(state, one)) for one in known.of(state)]
            options._found[state] = tuple(replace(one, least=weight) for one, weight in ways if weight is not None)
            waiting += [operand for one, _ in ways for operand in one.operands]
    found = extract(options)
    assert found.exact and found.nanoseconds == cheapest(known.program, "h200")


def test_plans_are_written_and_read_and_checked(tmp_path: Path) -> None:
    for name in ("two products of one tensor", "zeros along k", "an odd k that is a result too"):
        plan = planned(name)
        plan.save(tmp_path / "p.json")
        assert ProgramPlan.load(tmp_path / "p.json") == plan
        assert ls.explain(plan, "h200").legal and ls.explain(plan.operator, "h200").legal


def _changed(data: Any, change: str) -> None:
    """Change a plan's plain values, so that its cost is still what its steps imply."""
    first, last = data["steps"][0], data["steps"][-1]
    if change == "a step less":
        data["steps"] = data["steps"][1:]
    elif change == "another place":
        last["reads"][0]["start"] += 256
    elif change == "operands exchanged":
        last["reads"].reverse()
    elif change == "once":
        last["once"], last["nanoseconds"] = True, 0.0
    elif change == "order":
        data["steps"].reverse()
    elif change == "twice":
        data["steps"].append(first)
    else:
        data["operator"]["steps"][0]["numbers"] = [7]
    total = round(sum(step["nanoseconds"] for step in data["steps"]), 1)
    once = sum(step["once"] for step in data["steps"])
    data["cost"] |= {"nanoseconds": total, "once": once, "steps": len(data["steps"]) - once}


CHANGES = ("a step less", "another place", "operands exchanged", "once", "order", "twice", "no program")


@pytest.mark.parametrize("change", CHANGES)
def test_a_plan_that_does_not_compute_its_program_is_refused(change: str, tmp_path: Path) -> None:
    plan = planned("two products of one tensor")
    path = tmp_path / "p.json"
    plan.save(path)
    data = json.loads(path.read_text())
    _changed(data, change)
    path.write_text(json.dumps(data))
    with pytest.raises((InvalidPlan, InvalidInput)):
        ProgramPlan.load(path)
    assert from_json(plan.to_json() | {}) == plan


def values_of(term: Term, known: dict[str, Any]) -> Any:
    """Return the matrix that a term is, by definition."""
    operands = [values_of(part, known) for part in term.parts if isinstance(part, Term)]
    numbers_ = [part for part in term.parts if isinstance(part, int)]
    if term.name in {"source", "asked", "transpose"}:
        return known[str(term.parts[0])] if term.name == "source" else operands[0].T if numbers_ == [] else operands[0]
    if term.name == "product":
        found = rounded(operands[0] @ operands[1].T, str(term.parts[0]))
        assert found.shape == tuple(numbers_)
        return found
    axis, *rest = numbers_
    if term.name == "concat":
        assert [one.shape[axis] for one in operands] == rest
        return np.concatenate(operands, axis=axis)
    first, count, extent = rest
    if term.name == "slice":
        assert operands[0].shape[axis] == extent and first + count <= extent
        return np.take(operands[0], range(first, first + count), axis=axis)
    assert operands[0].shape[axis] == count
    return np.pad(operands[0], [(first, extent - count - first) if i == axis else (0, 0) for i in (0, 1)])


X, Y, Z, W = given("x", 6, 16), given("y", 9, 16), given("z", 6, 9), given("w", 4, 16)
LAWFUL = (
    ls.Program(r=X.product(Y).T),
    ls.Program(r=X[:, 2:9].T.concat(Z[:, 1:].T.pad(((1, 2), (0, 0)))[:7], 1).T),
    ls.Program(r=X.concat(Y)[2:5].concat(X.concat(Y)[8:], 0)),
    ls.Program(r=X.concat(Y)[:6], s=X.concat(Y)[6:], t=Z.concat(X, 1)[:, 9:]),
    ls.Program(r=X[1:][2:], s=X.pad(((0, 0), (3, 2)))[:, 4:9], t=X.pad(((2, 2), (0, 0)))[2:8]),
    ls.Program(r=X.product(Y)[1:4], s=X.product(Y)[:, 5:]),
    ls.Program(r=X.concat(W).product(Y), s=Y.product(X.concat(W))),
    ls.Program(r=X.product(Y).concat(W.product(Y)), s=Y.product(X).concat(Y.product(W), 1)),
    ls.Program(r=Z.pad(((0, 0), (3, 4))).product(Y), s=Y.product(Z.pad(((0, 0), (3, 4))))),
    ls.Program(r=Y.pad(((2, 1), (0, 0))).product(X), s=X.product(Y.pad(((2, 1), (0, 0))))),
    ls.Program(r=Y.product(X).pad(((2, 1), (0, 0))), s=X.product(Y).pad(((0, 0), (2, 1)))),
    ls.Program(r=X.product(Y), s=X.product(W)),
    ls.Program(r=Y.product(X), s=W.product(X)),
    ls.Program(r=X.product(Y).concat(Z, 1), s=X.product(Y)),
    ls.Program(r=Z.concat(X.product(Y), 1), s=X.product(Y)),
)


def test_both_sides_of_every_law_of_values_are_equal() -> None:
    """Each law applied wherever it applies, to terms that others made too: all that was found is what was asked."""
    used = set()
    for program in LAWFUL:
        known = dict(zip((one.name for one in program.inputs), numbers(program, 3), strict=True))
        terms = terms_of(program)
        start = Term("all", tuple(terms[one.value] for one in program.results))
        wanted = [values_of(terms[one.value], known) for one in program.results]
        seen, waiting = {start}, [start]
        while waiting and len(seen) < 150:
            for found, law in steps_of(waiting.pop(0), VALUE_LAWS):
                used.add(law)
                if found not in seen:
                    seen.add(found)
                    waiting.append(found)
                    results = [values_of(part, known) for part in found.parts if isinstance(part, Term)]
                    assert all(map(np.array_equal, results, wanted)), f"{law}: {found}"
    assert used == {law.name for law in VALUE_LAWS}


def test_classes_of_the_e_graph_are_equal_matrices() -> None:
    """Every node of every class, of programs that chance draws, is worth the same."""
    r = random.Random(9)
    for program in (*LAWFUL, *(drawn(r) for _ in range(20))):
        held = matrices_of(program)
        known = dict(zip((one.name for one in program.inputs), numbers(program, 3), strict=True))
        worth: dict[int, Any] = {}
        changed = True
        while changed:
            changed = False
            for value, nodes in enumerate(held.nodes):
                for node in nodes:
                    if any(operand not in worth for operand in node.operands):
                        continue
                    leaves = [Term("source", (f"operand{i}",)) for i in range(len(node.operands))]
                    name = (node.name,) if node.name else ()
                    term = Term(node.operator, (*name, *node.numbers, *leaves))
                    operands = {f"operand{i}": worth[operand] for i, operand in enumerate(node.operands)}
                    found = values_of(term, known | operands)
                    assert found.shape == held.shapes[value]
                    if value not in worth:
                        worth[value], changed = found, True
                    assert np.array_equal(worth[value], found), (program, node)
        assert len(worth) == len(held.nodes)


UNSOUND = {
    "the other part": lambda a, n, m, s, x, y: TermEquation(slice_(a, 0, n, s, concat(a, n, m, x, y)), y),
    "transposed along the same axis": lambda a, n, m, s, x, y: TermEquation(
        transpose(concat(a, n, m, x, y)), concat(a, n, m, transpose(x), transpose(y))
    ),
    "exchanged": lambda a, n, m, s, x, y: TermEquation(concat(a, n, n, x, y), concat(a, n, n, y, x)),
}


@pytest.mark.parametrize("equation", UNSOUND.values(), ids=UNSOUND)
def test_an_unsound_law_is_found_out(equation: Any) -> None:
    law = TermLaw("wrong", "", (equation(*map(Variable, "anmsxy")),))
    square = given("u", 6, 6)
    programs_ = (
        ls.Program(r=X.concat(W)[:6]),
        ls.Program(r=square.concat(square.T).T),
        ls.Program(r=square.concat(square.T)),
    )
    wrong = False
    for program in programs_:
        known = dict(zip((one.name for one in program.inputs), numbers(program, 3), strict=True))
        term = terms_of(program)[program.results[0].value]
        for found in law.steps(term):
            try:
                wrong |= not np.array_equal(values_of(found, known), values_of(term, known))
            except (AssertionError, ValueError):
                wrong = True
    assert wrong


def test_ways_are_found_again_by_the_laws() -> None:
    laws = {law.name for law in VALUE_LAWS}
    for name in programs():
        plan = planned(name)
        assert {step.law for step in plan.derivation} <= laws - {NO_LAW}


def test_programs_are_values_and_equal_values_are_one() -> None:
    x, w = given("x", 8, 16), given("w", 24, 16)
    program = ls.Program(a=x @ w.T, b=(x @ w.T)[:, 8:])
    assert len(program.steps) == 2 and program == ls.Program(a=x @ w.T, b=(x @ w.T)[:, 8:])
    assert hash(program) == hash(ls.Program(a=x @ w.T, b=(x @ w.T)[:, 8:]))
    assert str(program) == "program of a = x @ w.T, b = a[:, 8:24]"
    assert program_of(program.inputs, program.steps, program.results) == program
    assert program.flops == 2 * 8 * 24 * 16
    deep = x.product(x)
    for _ in range(60):  # as many names as 2^60 operands
        deep = deep.product(deep)
    assert len(ls.Program(y=deep).steps) == 61 and len(str(ls.Program(y=deep))) < 2000
    assert not ls.Program(y=deep).constant(61)
    with pytest.raises(InvalidInput, match="at most 64"):
        ls.Program(y=deep.product(deep).product(deep).product(deep).product(deep.T))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda x, w: ls.Program(), "no result"),
        (lambda x, w: ls.Program(y=x), "the input x itself"),
        (lambda x, w: ls.Program(x=x @ w.T), "names an input and a result"),
        (lambda x, w: ls.Program(y=(x @ w.T, Tensor((8, 23), "bf16"))), "y is bf16 8 x 23"),
        (lambda x, w: ls.Program(y=x @ w), "as many columns"),
        (lambda x, w: ls.Program(y=x @ ls.Value("x", Tensor((16, 16), "bf16"))), "two inputs are called x"),
        (lambda x, w: x @ 3, "give a Value"),
        (lambda x, w: x[::2], "slices without steps"),
        (lambda x, w: x[3:3], "0 x 16"),
        (lambda x, w: x[0], "slices without steps"),
        (lambda x, w: x.pad(1), "pairs"),
        (lambda x, w: x.pad(((0, -1), (0, 0))), "at least 0"),
        (lambda x, w: x.concat(w, 1), "matrices that fit"),
        (lambda x, w: x.concat(w, 2), "at most 1"),
        (lambda x, w: ls.Value("1", Tensor((8, 8), "bf16")), "identifier"),
        (lambda x, w: ls.Value("v", Tensor((8,), "bf16")), "matrix"),
        (lambda x, w: ls.Program(y=x @ w.T).meaning(np.zeros((3, 3))), "shapes"),
    ],
)
def test_what_has_no_meaning_is_refused(make: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        make(given("x", 8, 16), given("w", 24, 16))


def test_types_that_no_unit_multiplies_are_refused_with_their_rules() -> None:
    wide = ls.Value("x", Tensor((64, 64), "i64"))
    with pytest.raises(ls.NoLegalLayout) as refused:
        ls.synthesize(ls.Program(y=wide @ wide.T), "h200")
    assert refused.value.diagnostics
    found = ls.explain(ls.Program(y=wide @ wide.T), "h200")
    assert not found.legal and found.diagnostics
    with pytest.raises(InvalidInput, match="a program chooses its tiles itself"):
        ls.synthesize(ls.Program(y=wide @ wide.T), "h200", tile=(8, 8))


def test_the_oracle_shares_no_search_with_the_planner() -> None:
    tree = ast.parse(Path(str(program_exhaustive.__file__)).read_text(encoding="utf-8"))
    names = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    assert not {name.split(".")[-1] for name in names} & {"options", "extraction", "planner", "places", "tree_graph"}


def test_what_lies_elsewhere_than_a_slice_says_is_no_place() -> None:
    made = Made("slice", (0,), (0, 5, 90), (90, 16), X.dtype)
    with pytest.raises(InvalidInput):
        program_of(ls.Program(r=X.T).inputs, (made,), ())
    assert plain(X[1:3].shape) == (2, 16)
