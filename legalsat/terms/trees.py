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

MOST_TERMS = 4000  # of a derivation; products need 800


@dataclass(frozen=True, slots=True)
class Variable:
    """What stands for any part of a term in a law: another term, a number or a word."""

    name: str


@dataclass(frozen=True, slots=True)
class Term:
    """A constructor and its parts: terms, numbers and words. In laws, variables too."""

    name: str
    parts: tuple[Part, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.parts))})" if self.parts else self.name


Part: TypeAlias = "Term | Variable | int | str"
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
    """Two terms with variables that are equal whatever these stand for; read left to right."""

    left: Term
    right: Term

    def at_root(self, term: Part) -> Part | None:
        """Return what a term becomes, None where it is not the left side."""
        bound: Bound = {}
        return _filled(self.right, bound) if _matches(self.left, term, bound) else None

    @property
    def text(self) -> str:
        """The equation as a rewrite in egglog's language."""
        return f"(rewrite {text(self.left)} {text(self.right)} :ruleset laws)"


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
    return pattern


def text(part: Part) -> str:
    """Return a term, or a part of one, in egglog's language."""
    if isinstance(part, Term):
        return f"({' '.join([part.name, *map(text, part.parts)])})"
    if isinstance(part, Variable):
        return part.name
    return f'"{part}"' if isinstance(part, str) else str(part)


@dataclass(frozen=True, slots=True)
class TermLaw:
    """A named set of equations of terms."""

    name: str
    docs: str
    equations: tuple[TermEquation, ...]

    def steps(self, term: Term) -> Iterator[Term]:
        """Yield every term that one application of this law makes of a term, at its root or inside."""
        return (found for found, _ in _steps(term, _by_name((self,))))


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


def derivation(start: Term, goal: Term, laws: tuple[TermLaw, ...], most: int = MOST_TERMS) -> tuple[TermStep, ...]:
    """Return a shortest way from `start` to `goal`.

    Raises:
        LegalSatError: the goal was not met among `most` terms.
    """
    before = reached(start, (goal,), laws, most)
    steps: list[TermStep] = []
    while goal != start:
        there, law = before[goal]
        steps.append(TermStep(law, goal))
        goal = there
    return tuple(reversed(steps))


def reached(
    start: Term, goals: Iterable[Term], laws: tuple[TermLaw, ...], most: int = MOST_TERMS
) -> dict[Term, tuple[Term, str]]:
    """Return terms that laws make of `start`, breadth first until all goals are met: the term before each, and the law.

    Raises:
        LegalSatError: a goal was not met among `most` terms.
    """
    by_name = _by_name(laws)
    before: dict[Term, tuple[Term, str]] = {}
    missing, waiting = set(goals) - {start}, deque([start])
    while missing and waiting and len(before) < most:
        term = waiting.popleft()
        for found, law in _steps(term, by_name):
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


def _steps(term: Term, by_name: _ByName) -> Iterator[tuple[Term, str]]:
    for equation, law in by_name.get(term.name, ()):
        found = equation.at_root(term)
        if isinstance(found, Term):
            yield found, law
    for place, part in enumerate(term.parts):
        if isinstance(part, Term):
            for inside, law in _steps(part, by_name):
                yield Term(term.name, (*term.parts[:place], inside, *term.parts[place + 1 :])), law
