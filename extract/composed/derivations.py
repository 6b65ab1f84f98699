"""By which laws what is computed for each value of a program follows from what was asked.

The e-graph gives no proofs, so each way is found again on plain terms with the same laws: value by value, where what
other values hold stands as a name.
"""

from __future__ import annotations

from collections.abc import Iterator

from legalsat.errors import LegalSatError
from legalsat.extract.composed.classes import terms_of
from legalsat.extract.composed.options import Option, Options
from legalsat.extract.composed.places import State
from legalsat.operators import program as composed
from legalsat.operators.program import Program, expression
from legalsat.plans.program_plan import Derived
from legalsat.terms import values
from legalsat.terms.trees import Part, Term, derivation, subterms

NO_LAW = "equal_in_the_e_graph"  # of a way that was not found again within its budget
MOST_TERMS = 2000


def derived(options: Options, chosen: dict[State, Option]) -> tuple[Derived, ...]:
    """Return the laws applied, value after value."""
    terms = _Terms(options, chosen)
    found: list[Derived] = []
    laws = options.program.laws()
    met: dict[Term, None] = {}  # what values before were on their way, and are asked for to be
    for number in range(len(options.program.inputs), len(options.matrices.values)):
        for goal in dict.fromkeys(terms.computed(number)):
            start = terms.asked(number, goal)
            if _bare(start) == goal:
                continue
            try:
                steps = derivation(start, goal, laws, MOST_TERMS, (*terms.beside(number), *met))
                met |= dict.fromkeys(part for one in steps for part in subterms(one.term) if part.name == "asked")
                found += [
                    Derived(options.program.called(number), one.law, words(one.term))
                    for one in steps
                    if one.law != "asked_for"
                ]
            except LegalSatError:
                found.append(Derived(options.program.called(number), NO_LAW, words(goal)))
    return tuple(found)


class _Terms:
    """Terms of values in which others stand as names."""

    def __init__(self, options: Options, chosen: dict[State, Option]) -> None:
        self._program: Program = options.program
        self._classes, self._chosen = options.matrices.values, chosen
        self._first: dict[int, int] = {}  # class -> the first value of it
        for number, value in enumerate(self._classes):
            self._first.setdefault(value, number)
        names = [self._program.called(number) for number in range(len(self._classes))]
        self._leaves = [values.source(name) for name in names]
        self._whole = terms_of(self._program)

    def computed(self, number: int) -> Iterator[Term]:
        """Yield what is chosen for a value that lies somewhere, by names of values that are others."""
        own = self._classes[number]
        if self._first[own] != number:  # it is what another value is
            yield self._leaves[self._first[own]]
            return
        for state, option in self._chosen.items():
            if state.value == own and option.node is not None and option.node.operator != "source":
                yield self._made(state, own)

    def _made(self, state: State, own: int) -> Term:
        option = self._chosen[state]
        if option.node is None:
            return self._part(option.operands[0], own)
        node = option.node
        operands = [self._part(operand, own) for operand in option.operands]
        if node.operator == "source":
            return values.source(node.name)
        return Term(node.operator, (*((node.name,) if node.name else ()), *node.numbers, *operands))

    def _part(self, state: State, own: int) -> Term:
        if state.value != own and state.value in self._first:
            return self._leaves[self._first[state.value]]
        return self._made(state, own)

    def asked(self, number: int, goal: Term) -> Term:
        """Return a value as it is asked for, by names that the goal has where it has them."""
        known = {one.parts[0] for one in subterms(goal) if one.name == "source"}
        return self._unfolded(number, known, first=True)

    def _unfolded(self, number: int, known: set[Part], *, first: bool = False) -> Term:
        leaf = self._leaves[number if first else self._first[self._classes[number]]]
        if number < len(self._program.inputs) or (not first and leaf.parts[0] in known):
            return leaf
        operands = self._operands(number)
        return self._with(number, [self._unfolded(operand, known) for operand in operands])

    def _operands(self, number: int) -> tuple[int, ...]:
        return self._program.steps[number - len(self._program.inputs)].operands

    def _with(self, number: int, operands: list[Term]) -> Term:
        """Return the term of a value, of these operands."""
        term = self._whole[number]
        inner = term.parts[-1] if term.name == "asked" else term
        assert isinstance(inner, Term)
        made = Term(inner.name, (*(part for part in inner.parts if not isinstance(part, Term)), *operands))
        return Term("asked", (*term.parts[:-1], made)) if term.name == "asked" else made

    def beside(self, number: int) -> Iterator[Term]:
        """Yield what else is asked for: products, and concatenations of them."""
        inputs = len(self._program.inputs)
        for other in range(inputs, len(self._classes)):
            kind = self._program.steps[other - inputs].operator
            if other != number and kind in {composed.PRODUCT, composed.CONCAT}:
                names = [self._leaves[self._first[self._classes[operand]]] for operand in self._operands(other)]
                yield self._with(other, names)
                if kind == composed.CONCAT:
                    yield self._with(other, [_bare(self._unfolded(one, set())) for one in self._operands(other)])


def _bare(term: Term) -> Term:
    """Return a term without what says that parts are asked for."""
    if term.name == "asked":
        inner = term.parts[-1]
        assert isinstance(inner, Term)
        return _bare(inner)
    return Term(term.name, tuple(_bare(part) if isinstance(part, Term) else part for part in term.parts))


def words(term: Term) -> str:
    """Return a term for a person, as an expression."""
    if term.name == "source":
        return str(term.parts[0])
    operands = [words(part) for part in term.parts if isinstance(part, Term)]
    if term.name == "asked":
        return operands[0]
    numbers = [part for part in term.parts if isinstance(part, int)]
    if term.name == "pad":
        axis, before, extent, whole = numbers
        numbers = [axis, before, whole - extent - before]
    return expression(term.name, operands, numbers[:3] if term.name == "slice" else numbers)
