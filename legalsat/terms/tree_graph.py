"""The e-graph of terms that are trees."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from typing import TypeAlias

from legalsat.errors import LegalSatError
from legalsat.terms.graph import Nodes, Saturated
from legalsat.terms.trees import Constructor, Part, Term, TermLaw, text

MOST_ROUNDS = 32  # of all laws; products need six
MOST_NODES = 20_000  # past which some terms are missing; products need 200
SORTS = "(sort Term) (sort Root) (constructor root (Term) Root) (ruleset laws)"
Classes: TypeAlias = dict[str, list[tuple[str, list[str]]]]  # functions, and the classes of their arguments


class TermGraph(Saturated):
    """An e-graph of terms; use as a context manager, one at a time."""

    def __init__(self, constructors: tuple[Constructor, ...], laws: tuple[TermLaw, ...]) -> None:
        super().__init__(_declared(constructors, laws))
        self._kernels = {one.name for one in constructors if one.kernel}

    def equal_to(self, start: Term) -> list[Term]:
        """Return every term of a kernel that the laws make of `start`, in the order of their texts.

        Terms that hold themselves, as a copy of a copy would, are left out.

        Raises:
            LegalSatError: laws still find new terms after 32 rounds.
        """
        classes, first = self.classes_of(start)
        return sorted(self._of_class(first, classes, frozenset()), key=str)

    def classes_of(self, start: Term, most_nodes: int = MOST_NODES) -> tuple[Classes, str]:
        """Return what the laws make of `start`: all classes, and that of the start.

        Raises:
            LegalSatError: laws still find new terms after 32 rounds.
        """
        named: dict[int, str] = {}  # terms that occur more than once are written once
        self.run("\n".join([*_lets(start, named), f"(root {named[id(start)]})"]))
        for _ in range(MOST_ROUNDS):
            if not self.step() or self.size > most_nodes:
                break
        else:
            raise LegalSatError(f"laws make ever more of {start}; a law must not put its left side into its right side")
        classes, (first,) = _classes(self.nodes())
        return classes, first

    def _of_class(self, eclass: str, classes: Classes, within: frozenset[str]) -> list[Term]:
        if eclass in within:
            return []
        found = []
        for function, children in classes[eclass]:
            if function in self._kernels:
                below = [self._of_part(child, classes, within | {eclass}) for child in children]
                found += [Term(function, parts) for parts in product(*below)]
        return found

    def _of_part(self, eclass: str, classes: Classes, within: frozenset[str]) -> list[Part]:
        function, children = classes[eclass][0]
        if not children and function.startswith('"'):
            return [function.strip('"')]
        if not children and function.lstrip("-").isdigit():
            return [int(function)]
        return list(self._of_class(eclass, classes, within))


def _classes(nodes: Nodes) -> tuple[Classes, list[str]]:
    """Return what is in each class, and the classes of the roots."""
    found: Classes = {}
    for function, children, eclass in nodes.values():
        found.setdefault(eclass, []).append((function, [nodes[child][2] for child in children]))
    return found, [children[0] for some in found.values() for function, children in some if function == "root"]


def _lets(term: Term, named: dict[int, str]) -> Iterator[str]:
    """Yield what names a term and its parts, each once."""
    if id(term) in named:
        return
    for part in term.parts:
        if isinstance(part, Term):
            yield from _lets(part, named)
    named[id(term)] = f"$t{len(named)}"
    parts = (named[id(part)] if isinstance(part, Term) else text(part) for part in term.parts)
    yield f"(let {named[id(term)]} ({' '.join((term.name, *parts))}))"


@lru_cache
def _declared(constructors: tuple[Constructor, ...], laws: tuple[TermLaw, ...]) -> str:
    lines = [f"(constructor {one.name} ({' '.join(one.kinds)}) Term)" for one in constructors]
    return "\n".join([SORTS, *lines, *(equation.text for law in laws for equation in law.equations)])
