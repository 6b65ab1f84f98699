"""Every law of products keeps C: what is stored is the same before and after, by brute force on whole numbers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from product_meaning import Matrix, Meaning, Stored, Unreadable, laid

from legalsat.errors import LegalSatError
from legalsat.rules.rewrites import PRODUCT_LAWS
from legalsat.terms.products import (
    CONSTRUCTORS,
    LOOSE,
    SCATTERED,
    align,
    at,
    boxes,
    flip,
    multiply,
    operand,
    pad,
    product,
    rows,
    shift,
    store,
)
from legalsat.terms.tree_graph import TermGraph
from legalsat.terms.trees import (
    Part,
    Term,
    TermEquation,
    TermLaw,
    Variable,
    derivation,
    reached,
    term_law,
)

MATRICES = ("operand", "at", "uncut", "pad", "transpose", "align")
PRODUCTS = ("product", "flip", "multiply", "clip", "shift", "realign", "slide")
OF_PRODUCTS = (
    "flip",
    "store",
    "boxes",
    "windows",
    "turned",
    "columns",
    "elements",
    "rows",
    "lapped",
    "accumulators",
    "joined",
)  # what has a product for a part


def lying(values: np.ndarray, leaf: Term, size: int, seed: int = 0) -> Matrix:
    """Return values in memory as an operand's term says that they lie."""
    _, major, how = leaf.parts
    assert isinstance(how, int)
    return laid(values, str(major), size, whole=how % 2 == 1, step=3 if how & SCATTERED else 1, seed=seed)


@st.composite
def operands(draw: st.DrawFn, name: str) -> Term:
    return operand(name, draw(st.sampled_from(("K", "MN"))), draw(st.sampled_from((0, 1))))


@st.composite
def filled(draw: st.DrawFn, pattern: Term, bound: dict[str, Part], axes: int) -> Term:
    """Draw what a pattern's variables stand for, each as its place in the pattern asks."""
    parts: list[Part] = []
    for place, part in enumerate(pattern.parts):
        if isinstance(part, Term):
            parts.append(draw(filled(part, bound, axes)))
        elif not isinstance(part, Variable):
            parts.append(part)
        else:
            if part.name not in bound:
                kind = next(one for one in CONSTRUCTORS if one.name == pattern.name).kinds[place]
                if kind == "String":
                    bound[part.name] = "A"
                elif kind == "i64":
                    numbers = {"product": (axes,), "operand": (0, 1)}.get(pattern.name, (0, 1, 2))
                    bound[part.name] = draw(st.sampled_from(numbers))
                elif pattern.name in OF_PRODUCTS:
                    bound[part.name] = product(axes, draw(operands("A")), draw(operands("B")))
                else:
                    bound[part.name] = draw(operands("B" if part.name == "b" else "A"))
            parts.append(bound[part.name])
    return Term(pattern.name, tuple(parts))


def leaves(term: Part) -> Iterator[Term]:
    if isinstance(term, Term):
        if term.name == "operand":
            yield term
        for part in term.parts:
            yield from leaves(part)


def lines_of(term: Term) -> tuple[int, int]:
    """Return how C's columns and rows lie, as a term says that."""
    down, across = term.parts[:2] if term.name in ("store", "accumulators", "joined", "sliced") else (0, 1)
    assert isinstance(down, int) and isinstance(across, int)
    return down, across


def axes_in(equation: TermEquation) -> int | None:
    first = equation.left.parts[0]
    return first if equation.left.name == "product" and isinstance(first, int) else None


@st.composite
def instances(draw: st.DrawFn, equation: TermEquation) -> tuple[Term, Meaning]:
    """Draw a term that is the left side, and matrices for its operands."""
    axes, size = axes_in(equation) or draw(st.sampled_from((1, 2))), draw(st.sampled_from((1, 2, 4)))
    term = draw(filled(equation.left, {}, axes))
    m, n, k = (draw(st.integers(1, 20)) for _ in range(3))
    if all(lines_of(term)):
        m = 1
    seed = draw(st.integers(0, 1 << 30))
    numbers = np.random.default_rng(seed)
    named = {str(leaf.parts[0]): leaf for leaf in (operand("A", "K", 1), operand("B", "K", 1), *leaves(term))}
    matrices: dict[str, Matrix] = {}
    for name, extent in (("A", m), ("B", n)):
        matrices[name] = lying(numbers.integers(-9, 10, (extent, k)), named[name], size, seed)
    return term, Meaning(matrices, axes, {"ways": draw(st.integers(1, 8))})


def differs(equation: TermEquation, term: Term, meaning: Meaning) -> str:
    """Return in what the two sides differ, "" where they are equal."""
    after = equation.at_root(term)
    assert isinstance(after, Term)
    try:
        if term.name in MATRICES:
            one, other = meaning.matrix(term), meaning.matrix(after)
            if not np.array_equal(one.values, other.values):
                return "values"
            return "" if (one.major, one.whole) == (other.major, other.whole) else "how it lies"
        if term.name in PRODUCTS:
            return "" if np.array_equal(meaning.product(term), meaning.product(after)) else "values"
        before: Stored = meaning.stored(term)
        return "" if before.agrees(meaning.stored(after)) else "what is stored"
    except Unreadable as error:
        return str(error)


EQUATIONS = [(law, equation) for law in PRODUCT_LAWS for equation in law.equations]


@pytest.mark.parametrize(
    ("law", "equation"), EQUATIONS, ids=[f"{law.name}-{law.equations.index(one)}" for law, one in EQUATIONS]
)
def test_both_sides_of_a_law_are_equal(law: TermLaw, equation: TermEquation) -> None:
    @settings(max_examples=12, deadline=None)
    @given(instances(equation))
    def equal(instance: tuple[Term, Meaning]) -> None:
        assert not differs(equation, *instance), law.name

    equal()


A, B = Variable("a"), Variable("b")
UNSOUND = {
    "C is not C^T": TermEquation(product(2, A, B), product(2, B, A)),
    "rows begin anywhere": TermEquation(at("K", operand("A", "K", 0)), operand("A", "K", 0)),
    "the other axis": TermEquation(at("K", operand("A", "MN", 1)), operand("A", "MN", 1)),
    "granules of what lies apart": TermEquation(
        at("K", operand("A", "K", SCATTERED)), align(operand("A", "K", SCATTERED))
    ),
    "a copy along the axis that lies nearer, when the other one is asked for": TermEquation(
        at("MN", operand("A", "K", SCATTERED)), pad(operand("A", "K", SCATTERED))
    ),
    "along MN where the unit reads K": TermEquation(product(1, A, B), multiply(at("MN", A), at("K", B))),
    "no zeros before B": TermEquation(product(2, operand("A", "K", 0), B), multiply(operand("A", "K", 0), at("K", B))),
    "B along k cannot be shifted": TermEquation(product(2, operand("A", "K", 0), B), shift(operand("A", "K", 0), B)),
    "boxes of rows that are not whole": TermEquation(store(0, 1, B), boxes(B)),
    "columns as rows": TermEquation(store(1, 0, B), rows(B)),
    "flipped twice over": TermEquation(store(0, 1, flip(B)), store(0, 1, B)),
}


@pytest.mark.parametrize("equation", UNSOUND.values(), ids=UNSOUND)
def test_an_unsound_law_is_found_out(equation: TermEquation) -> None:
    found = []

    @settings(max_examples=60, deadline=None, database=None)
    @given(instances(equation))
    def look(instance: tuple[Term, Meaning]) -> None:
        found.append(differs(equation, *instance))

    look()
    assert any(found)


STARTS = [
    store(*lines, product(axes, operand("A", major, whole), operand("B", other, also)))
    for axes in (1, 2)
    for major, whole in (("K", 0), ("K", 1), ("MN", 0), ("MN", 1), ("K", LOOSE), ("MN", SCATTERED))
    for other, also in (("K", 0), ("MN", 1))
    for lines in ((0, 1), (2, 0))
]


@pytest.mark.parametrize("start", STARTS, ids=str)
def test_terms_that_the_e_graph_finds_are_the_product_and_search_finds_them_too(start: Term) -> None:
    """Saturation is compared with breadth-first search over the same laws, and both with numbers."""
    r = np.random.default_rng(3)
    matrices = {}
    for leaf in leaves(start):
        name = str(leaf.parts[0])
        values = r.integers(-9, 10, ({"A": 5, "B": 7}[name], 19))
        axes = int(start.parts[2].parts[0])  # type: ignore[arg-type, union-attr]
        matrices[name] = lying(values, leaf, axes)
    meaning = Meaning(matrices, axes, {"ways": 3})
    with TermGraph(CONSTRUCTORS, PRODUCT_LAWS) as graph:
        found = graph.equal_to(start)
    assert len(found) == len(set(found)) >= 4
    kernels = {one.name for one in CONSTRUCTORS if one.kernel}
    by_search = {one for one in reached(start, found, PRODUCT_LAWS) if _names(one) <= kernels}
    assert set(found) == by_search
    for one in found:
        assert meaning.stored(start).agrees(meaning.stored(one))
    for one in found[::9]:
        term = start
        for step in derivation(start, one, PRODUCT_LAWS):
            law = next(law for law in PRODUCT_LAWS if law.name == step.law)
            assert step.term in law.steps(term)
            term = step.term
        assert term == one


def _names(term: Term) -> set[str]:
    return {term.name}.union(*(_names(part) for part in term.parts if isinstance(part, Term)))


def test_laws_are_named_once_and_documented_by_their_equation() -> None:
    assert len({law.name for law in PRODUCT_LAWS}) == len(PRODUCT_LAWS) >= 12
    for law in PRODUCT_LAWS:
        assert "  =  " in law.docs
        assert law.equations


def test_a_law_without_its_equation_and_one_without_an_end_are_refused() -> None:
    a_row = operand("A", "K", 1)

    def silent(a: Variable) -> Iterator[TermEquation]:
        yield TermEquation(boxes(a), rows(a))

    with pytest.raises(LegalSatError, match="docstring"):
        term_law(silent)

    @term_law
    def endless(a: Variable) -> Iterator[TermEquation]:
        """X whole  =  a copy of X, whole"""
        yield TermEquation(at("K", a), at("K", pad(a)))

    start = at("K", a_row)
    with TermGraph(CONSTRUCTORS, (endless,)) as graph, pytest.raises(LegalSatError, match="ever more"):
        graph.equal_to(start)

    @term_law
    def around() -> Iterator[TermEquation]:
        """X  =  a copy of X"""
        yield TermEquation(a_row, pad(a_row))

    with TermGraph(CONSTRUCTORS, (around,)) as graph:
        assert graph.equal_to(pad(a_row)) == [a_row]

    with pytest.raises(LegalSatError, match="no derivation"):
        derivation(start, operand("B", "K", 1), (endless,), most=50)
    with pytest.raises(LegalSatError, match="3 parts"):
        operand("A", "K")
