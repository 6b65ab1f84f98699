"""Terms that are trees: how they are built, laws about them, and which way leads from one to another.

A law is a generator whose parameters stand for any part of a term and whose docstring is the equation. It is written
once and read twice: as rewrites of the e-graph, and by `TermLaw.steps` on a plain term, which is how derivations are
found and laws are tested.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from legalsat.errors import LegalSatError
from legalsat.law import Guard, Int

MOST_TERMS = 4000  # of a derivation; products need 800


@dataclass(frozen=True, slots=True)
class Variable:
    """What stands for any part of a term in a law: another term, a number or a word."""

    name: str

    @property
    def number(self) -> Int:
        """The variable as an integer, which expressions and guards are made of."""
        return Int("name", name=self.name)

    def __add__(self, other: Variable | Int | int) -> Int:
        return self.number + _number(other)

    def __sub__(self, other: Variable | Int | int) -> Int:
        return self.number - _number(other)

    def __lt__(self, other: Variable | Int | int) -> Guard:
        return self.number < _number(other)


def _number(value: Variable | Int | int) -> Int | int:
    return value.number if isinstance(value, Variable) else value


@dataclass(frozen=True, slots=True)
class Term:
    """A constructor and its parts: terms, numbers and words. In laws, variables and numbers made of them too."""

    name: str
    parts: tuple[Part, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.parts))})" if self.parts else self.name


Part: TypeAlias = "Term | Variable | Int | int | str"
Bound: TypeAlias = dict[str, Part]


@dataclass(frozen=True, slots=True)
class Constructor:
    """A kind of term: its name, and what its parts are: "Term", "i64" or "String".

    `kernel` says whether it can be a part of a kernel; others are what a law has still to replace.
    """

    name: str
    kinds: tuple[str, ...]
    kernel: bool = True

    def __call__(self, *parts: Part) -> Term:
        """Return the term of these parts."""
        if len(parts) != len(self.kinds):
            raise LegalSatError(f"{self.name} has {len(self.kinds)} parts, not {len(parts)}")
        return Term(self.name, parts)


@dataclass(frozen=True, slots=True)
class TermEquation:
    """Two terms with variables that are equal whatever these stand for; read left to right.

    Attributes:
        left, right: the terms.
        when: what numbers must satisfy.
        beside: a term that must be somewhere in the whole, if there is one: the right side may use its variables.
    """

    left: Term
    right: Part
    when: tuple[Guard, ...] = ()
    beside: Term | None = None

    def at_root(self, term: Part, whole: Iterable[Term] = ()) -> Part | None:
        """Return what a term becomes, None where it is not the left side."""
        return next(self.each_at_root(term, whole), None)

    def each_at_root(self, term: Part, whole: Iterable[Term] = ()) -> Iterator[Part]:
        """Yield what a term becomes, for each of the terms of the `whole` that may stand beside it."""
        bound: Bound = {}
        if not _matches(self.left, term, bound):
            return
        for other in whole if self.beside is not None else (term,):
            found = dict(bound)
            if self.beside is not None and not _matches(self.beside, other, found):
                continue
            numbers = {name: value for name, value in found.items() if isinstance(value, int)}
            if all(guard.holds(numbers) for guard in self.when):
                yield _filled(self.right, found)

    @property
    def text(self) -> str:
        """The equation as a rewrite in egglog's language."""
        guards = " ".join(guard.text for guard in self.when)
        if self.beside is None:
            return (
                f"(rewrite {text(self.left)} {text(self.right)}{f' :when ({guards})' if guards else ''} :ruleset laws)"
            )
        both = f"(= this {text(self.left)}) (= other {text(self.beside)})"
        return f"(rule ({both} {guards}) ((union this {text(self.right)})) :ruleset laws)"


def _matches(pattern: Part, part: Part, bound: Bound) -> bool:
    if isinstance(pattern, Variable):
        return bound.setdefault(pattern.name, part) == part
    if not isinstance(pattern, Term) or not isinstance(part, Term):
        return pattern == part
    return pattern.name == part.name and all(
        _matches(one, other, bound) for one, other in zip(pattern.parts, part.parts, strict=True)
    )


def _filled(pattern: Part, bound: Bound) -> Part:
    if isinstance(pattern, Variable):
        return bound[pattern.name]
    if isinstance(pattern, Term):
        return Term(pattern.name, tuple(_filled(part, bound) for part in pattern.parts))
    if isinstance(pattern, Int):
        return pattern.value({name: value for name, value in bound.items() if isinstance(value, int)})
    return pattern


def text(part: Part) -> str:
    """Return a term, or a part of one, in egglog's language."""
    if isinstance(part, Term):
        return f"({' '.join([part.name, *map(text, part.parts)])})"
    if isinstance(part, Variable):
        return part.name
    if isinstance(part, Int):
        return part.text
    return f'"{part}"' if isinstance(part, str) else str(part)


@dataclass(frozen=True, slots=True, eq=False)  # a law is itself alone, so that what hangs on laws is found quickly
class TermLaw:
    """A named set of equations of terms."""

    name: str
    docs: str
    equations: tuple[TermEquation, ...]

    def steps(self, term: Term) -> Iterator[Term]:
        """Yield every term that one application of this law makes of a term, at its root or inside."""
        return (found for found, _ in steps_of(term, (self,)))


def term_law(equations: Callable[..., Iterator[TermEquation]]) -> TermLaw:
    """Return the law that a generator of equations declares; its parameters are the variables."""
    docs = inspect.getdoc(equations)
    if not docs:
        raise LegalSatError(f"law {equations.__name__} lacks a docstring; write its equation there")
    variables: list[Any] = [Variable(name) for name in inspect.signature(equations).parameters]
    return TermLaw(equations.__name__, docs, tuple(equations(*variables)))


@dataclass(frozen=True, slots=True)
class TermStep:
    """One step of a derivation: the law applied, and the term that it gave."""

    law: str
    term: Term

    def __str__(self) -> str:
        return f"{self.law}: {self.term}"


def derivation(
    start: Term, goal: Term, laws: tuple[TermLaw, ...], most: int = MOST_TERMS, beside: tuple[Term, ...] = ()
) -> tuple[TermStep, ...]:
    """Return a shortest way from `start` to `goal`; what stands `beside` is there for laws that ask for it.

    Raises:
        LegalSatError: the goal was not met among `most` terms.
    """
    before = reached(start, (goal,), laws, most, beside)
    steps: list[TermStep] = []
    while goal != start:
        there, law = before[goal]
        steps.append(TermStep(law, goal))
        goal = there
    return tuple(reversed(steps))


def reached(
    start: Term,
    goals: Iterable[Term],
    laws: tuple[TermLaw, ...],
    most: int = MOST_TERMS,
    beside: tuple[Term, ...] = (),
) -> dict[Term, tuple[Term, str]]:
    """Return terms that laws make of `start`, breadth first until all goals are met: the term before each, and the law.

    Raises:
        LegalSatError: a goal was not met among `most` terms.
    """
    before: dict[Term, tuple[Term, str]] = {}
    missing, waiting = set(goals) - {start}, deque([start])
    while missing and waiting and len(before) < most:
        term = waiting.popleft()
        for found, law in steps_of(term, laws, beside):
            if found != start and found not in before:
                before[found] = term, law
                waiting.append(found)
                missing.discard(found)
    if missing:
        raise LegalSatError(f"no derivation of {min(missing, key=str)} from {start} among {len(before)} terms")
    return before


_ByName: TypeAlias = dict[str, list[tuple[TermEquation, str]]]


@lru_cache
def _by_name(laws: tuple[TermLaw, ...]) -> _ByName:
    """Return equations by the constructor that their left sides begin with, with their laws' names."""
    found: _ByName = {}
    for law in laws:
        for equation in law.equations:
            found.setdefault(equation.left.name, []).append((equation, law.name))
    return found


def steps_of(term: Term, laws: tuple[TermLaw, ...], beside: tuple[Term, ...] = ()) -> Iterator[tuple[Term, str]]:
    """Yield every term that one application of a law makes of a term, at its root or inside, and the law's name."""
    asked = any(equation.beside is not None for law in laws for equation in law.equations)
    return _steps(term, _by_name(laws), (*dict.fromkeys(subterms(term)), *beside) if asked else ())


def subterms(term: Term) -> Iterator[Term]:
    """Yield a term and all that it is made of."""
    yield term
    for part in term.parts:
        if isinstance(part, Term):
            yield from subterms(part)


def _steps(term: Term, by_name: _ByName, whole: tuple[Term, ...]) -> Iterator[tuple[Term, str]]:
    for equation, law in by_name.get(term.name, ()):
        for found in equation.each_at_root(term, whole):
            if isinstance(found, Term):
                yield found, law
    for place, part in enumerate(term.parts):
        if isinstance(part, Term):
            for inside, law in _steps(part, by_name, whole):
                yield Term(term.name, (*term.parts[:place], inside, *term.parts[place + 1 :])), law
