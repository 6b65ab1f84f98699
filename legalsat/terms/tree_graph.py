"""The e-graph of terms that are trees."""

from __future__ import annotations

from functools import lru_cache
from itertools import product

from legalsat.errors import LegalSatError
from legalsat.terms.graph import Nodes, Saturated
from legalsat.terms.trees import Constructor, Part, Term, TermLaw, text

MOST_ROUNDS = 32  # of all laws; products need six


class TermGraph(Saturated):
    """An e-graph of terms; use as a context manager, one at a time."""

    def __init__(self, constructors: tuple[Constructor, ...], laws: tuple[TermLaw, ...]) -> None:
        super().__init__(_declared(constructors, laws))
        self._kernels = {one.name for one in constructors if one.kernel}

    def equal_to(self, start: Term) -> list[Term]:
        """Return every term of a kernel that the laws make of `start`, in the order of their texts.

        Raises:
            LegalSatError: laws still find new terms after 32 rounds.
        """
        self.run(text(start))
        for _ in range(MOST_ROUNDS):
            if not self.step():
                break
        else:
            raise LegalSatError(f"laws make ever more of {start}; a law must not put its left side into its right side")
        return self._terms(self.nodes(), start)

    def _terms(self, nodes: Nodes, start: Term) -> list[Term]:
        classes: dict[str, list[tuple[str, list[str]]]] = {}
        for function, children, eclass in nodes.values():
            classes.setdefault(eclass, []).append((function, [nodes[child][2] for child in children]))
        root = next(
            eclass
            for function, children, eclass in nodes.values()
            if function == start.name and _same(start.parts, [nodes[child][0] for child in children])
        )
        return sorted(self._of_class(root, classes), key=str)

    def _of_class(self, eclass: str, classes: dict[str, list[tuple[str, list[str]]]]) -> list[Term]:
        found = []
        for function, children in classes[eclass]:
            if function in self._kernels:
                below = [self._of_part(child, classes) for child in children]
                found += [Term(function, parts) for parts in product(*below)]
        return found

    def _of_part(self, eclass: str, classes: dict[str, list[tuple[str, list[str]]]]) -> list[Part]:
        function, children = classes[eclass][0]
        if not children and function.startswith('"'):
            return [function.strip('"')]
        if not children and function.lstrip("-").isdigit():
            return [int(function)]
        return list(self._of_class(eclass, classes))


def _same(parts: tuple[Part, ...], functions: list[str]) -> bool:
    """Whether the numbers and words of a term are those; terms below are not compared."""
    pairs = zip(parts, functions, strict=True)
    return all(isinstance(part, Term) or text(part) == function for part, function in pairs)


@lru_cache
def _declared(constructors: tuple[Constructor, ...], laws: tuple[TermLaw, ...]) -> str:
    lines = ["(sort Term)", *(f"(constructor {one.name} ({' '.join(one.kinds)}) Term)" for one in constructors)]
    lines += ["(ruleset laws)", *(equation.text for law in laws for equation in law.equations)]
    return "\n".join(lines)
