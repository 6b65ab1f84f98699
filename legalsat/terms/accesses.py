"""The e-graph's view of accesses, laws and facts, as programs in egglog's own language, and the way back.

A list of modes is a chain of `link`s, so that a law about neighbours applies in every context by congruence. A movement
is `move`: its means, its word, its modes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from legalsat.law import Equation, Law, Slot
from legalsat.operators.access import Access, Mode
from legalsat.terms.graph import Nodes, Saturated

SORTS = """
(sort Modes) (sort Movement) (sort Root)
(constructor nil () Modes)
(constructor link (i64 i64 i64 i64 Modes) Modes)
(constructor move (String i64 Modes) Movement)
(constructor root (i64 Movement) Root)
(ruleset laws) (ruleset facts)
"""


def term(access: Access) -> str:
    """Return the access as a term."""
    return f'(move "{access.by}" {access.word} {links(access.modes)})'


def links(modes: Iterable[Mode]) -> str:
    """Return a list of modes as a term."""
    chain = "(nil)"
    for mode in reversed(tuple(modes)):
        chain = f"(link {' '.join(map(str, mode))} {chain})"
    return chain


def program(laws: Iterable[Law]) -> str:
    """Return the laws, left to right, as rewrites of the ruleset `laws`."""
    return "\n".join(text for law in laws for equation in law.equations for text in _rewrites(equation))


def _rewrites(equation: Equation) -> Iterator[str]:
    left, right = (_chain(slots) for slots in (equation.left, equation.right))
    if equation.anchored:
        before, after = equation.words or ("word", "word")
        means, then = (f'"{name}"' for name in equation.means) if equation.means else ("means", "means")
        left, right = f"(move {means} {before} {left})", f"(move {then} {after} {right})"
    guards = " ".join(guard.text for guard in equation.guards)
    yield f"(rewrite {left} {right}{f' :when ({guards})' if guards else ''} :ruleset laws)"


def _chain(slots: Iterable[Slot]) -> str:
    chain = "rest"
    for slot in reversed(tuple(slots)):
        chain = f"(link {' '.join(number.text for number in slot)} {chain})"
    return chain


class Graph(Saturated):
    """An e-graph for some laws and facts; use as a context manager, one at a time.

    Args:
        laws: the laws, left to right.
        facts: rules of the ruleset `facts` in egglog's language, with the functions that they set.
    """

    def __init__(self, laws: Iterable[Law], facts: str = "") -> None:
        super().__init__(SORTS + program(laws) + facts)

    def add(self, number: int, access: Access) -> None:
        """Put an access in, as the root of that number."""
        self.run(f"(root {number} {term(access)})")

    def union(self, one: Access, other: Access) -> None:
        """State that two accesses are equal."""
        self.run(f"(union {term(one)} {term(other)})")

    def equal(self, one: Access, other: Access) -> bool:
        """Whether both are in the graph and in one class."""
        return self.holds(f"(= {term(one)} {term(other)})")

    def learn(self) -> None:
        """Derive every fact."""
        self.run("(run-schedule (saturate (run facts)))")

    def read(self) -> Classes:
        """Return what the graph holds."""
        return Classes.of(self.nodes())


@dataclass(frozen=True, slots=True)
class Classes:
    """A graph's contents: for each class of modes its links, for each class of movements its terms, and all facts.

    Attributes:
        links: (mode, class of the modes after it) for each link of a class; None for the empty list.
        moves: (means, word, class of the modes) for each term of a class of movements.
        roots: the class of each root.
        facts: name of a fact -> class -> value.
    """

    links: Mapping[str, list[tuple[Mode, str] | None]]
    moves: Mapping[str, list[tuple[str, int, str]]]
    roots: Mapping[int, str]
    facts: Mapping[str, Mapping[str, int]]

    @staticmethod
    def of(nodes: Nodes) -> Classes:
        """Return the contents from nodes: name -> (function, arguments, class)."""
        links: dict[str, list[tuple[Mode, str] | None]] = {}
        moves: dict[str, list[tuple[str, int, str]]] = {}
        roots: dict[int, str] = {}
        facts: dict[str, dict[str, int]] = {}
        for function, children, eclass in nodes.values():
            at = [nodes[child] for child in children]
            if function == "nil":
                links.setdefault(eclass, []).append(None)
            elif function == "link":
                *numbers, (_, _, rest) = at
                links.setdefault(eclass, []).append((Mode(*(int(n[0]) for n in numbers)), rest))
            elif function == "move":
                (means, _, _), (word, _, _), (_, _, modes) = at
                moves.setdefault(eclass, []).append((means.strip('"'), int(word), modes))
            elif function == "root":
                roots[int(at[0][0])] = at[1][2]
            elif at:
                facts.setdefault(function, {})[at[0][2]] = int(eclass.rpartition("i64-")[2])
        return Classes(links, moves, roots, facts)
