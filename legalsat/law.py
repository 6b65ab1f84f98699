"""How a law of rewriting is declared, and the plain reading of one: matching it against an `Access`.

A law is a generator whose parameters are its variables and whose docstring is the equation. It is written once and
read twice: `legalsat.terms.accesses` compiles it for the e-graph, and `Law.steps` applies it to a plain value, which is
how derivations are found and laws are tested.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Any, TypeAlias

from legalsat.errors import LegalSatError
from legalsat.operators.access import Access, Mode

Bindings: TypeAlias = Mapping[str, int]
_OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
}


@dataclass(frozen=True, slots=True)
class Int:
    """An integer expression over a law's variables: a name, a constant, or an operator and its operands."""

    operator: str
    operands: tuple[Int, ...] = ()
    name: str = ""
    constant: int = 0

    def __mul__(self, other: Int | int) -> Int:
        return Int("*", (self, as_int(other)))

    def __floordiv__(self, other: Int | int) -> Int:
        return Int("//", (self, as_int(other)))

    def __mod__(self, other: Int | int) -> Int:
        return Int("%", (self, as_int(other)))

    def __add__(self, other: Int | int) -> Int:
        return Int("+", (self, as_int(other)))

    def __sub__(self, other: Int | int) -> Int:
        return Int("-", (self, as_int(other)))

    def __lt__(self, other: Int | int) -> Guard:
        return Guard("<", self, as_int(other))

    def value(self, bound: Bindings) -> int:
        """Return the number at `bound`."""
        if self.operator == "name":
            return bound[self.name]
        if self.operator == "constant":
            return self.constant
        return _OPERATORS[self.operator](*(operand.value(bound) for operand in self.operands))

    @property
    def text(self) -> str:
        """The expression in egglog's language."""
        if self.operator in {"name", "constant"}:
            return self.name or str(self.constant)
        return f"({self.operator.replace('//', '/')} {' '.join(operand.text for operand in self.operands)})"


def as_int(value: Int | int) -> Int:
    """Return a constant for an int; an expression passes through."""
    return value if isinstance(value, Int) else Int("constant", constant=value)


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition on a law's variables: `left` "==" or "<" `right`."""

    relation: str
    left: Int
    right: Int

    def holds(self, bound: Bindings) -> bool:
        """Whether the condition holds at `bound`."""
        left, right = self.left.value(bound), self.right.value(bound)
        return left == right if self.relation == "==" else left < right

    @property
    def text(self) -> str:
        """The condition in egglog's language."""
        return f"({self.relation.replace('==', '=')} {self.left.text} {self.right.text})"


def divides(divisor: Int | int, number: Int) -> Guard:
    """States that `divisor` divides `number`."""
    return Guard("==", number % divisor, as_int(0))


def less(left: Int | int, right: Int | int) -> Guard:
    """States that left < right."""
    return Guard("<", as_int(left), as_int(right))


Slot: TypeAlias = tuple[Int, Int, Int, Int]


def mode(extent: Int | int, source: Int | int, target: Int | int, tile: Int | int) -> Slot:
    """Return the pattern of one mode; see `legalsat.operators.access.Mode`."""
    return as_int(extent), as_int(source), as_int(target), as_int(tile)


@dataclass(frozen=True, slots=True)
class Equation:
    """Modes that stand side by side equal other modes.

    With words given, they are the first modes of the access; with means given, it is the whole access that changes.
    """

    left: tuple[Slot, ...]
    right: tuple[Slot, ...]
    guards: tuple[Guard, ...]
    words: tuple[int, int] | None
    means: tuple[str, str] | None

    @property
    def anchored(self) -> bool:
        """Whether the modes must be the first of the access."""
        return self.words is not None or self.means is not None

    def speaks_of(self, access: Access) -> bool:
        """Whether the words and means of `access` are those that the left side asks for, if it asks."""
        return (self.words is None or access.word == self.words[0]) and (
            self.means is None or access.by == self.means[0]
        )

    def bound(self, window: tuple[Mode, ...]) -> dict[str, int] | None:
        """Return the variables' values where these modes are the left side, None where they are not."""
        bound: dict[str, int] = {}
        for slot, found in zip(self.left, window, strict=True):
            for pattern, number in zip(slot, found, strict=True):
                if pattern.operator == "name" and pattern.name not in bound:
                    bound[pattern.name] = number
                elif pattern.value(bound) != number:
                    return None
        return bound if all(guard.holds(bound) for guard in self.guards) else None

    def match(self, access: Access, at: int) -> Access | None:
        """Return `access` with the modes at position `at` rewritten, or None where the left side does not match."""
        window = access.modes[at : at + len(self.left)]
        if (self.anchored and at) or not self.speaks_of(access) or len(window) < len(self.left):
            return None
        bound = self.bound(window)
        return None if bound is None else self.rewritten(access, at, bound)

    def rewritten(self, access: Access, at: int, bound: dict[str, int]) -> Access:
        """Return `access` with the right side in place of the left one, which is at `at`."""
        rewritten = tuple(Mode(*(number.value(bound) for number in slot)) for slot in self.right)
        modes = access.modes[:at] + rewritten + access.modes[at + len(self.left) :]
        word = self.words[1] if self.words else access.word
        return Access(word, modes, self.means[1] if self.means else access.by)


class _Left:
    """The left side of an equation, waiting for `.to`."""

    def __init__(self, slots: tuple[Slot, ...], words: tuple[int, int] | None, means: tuple[str, str] | None) -> None:
        self._slots = slots
        self._words = words
        self._means = means

    def to(self, *slots: Slot, when: tuple[Guard, ...] = ()) -> Equation:
        """Return the equation with this right side, valid where every guard in `when` holds."""
        return Equation(self._slots, slots, when, self._words, self._means)


def rewrite(*slots: Slot, words: tuple[int, int] | None = None, means: tuple[str, str] | None = None) -> _Left:
    """Return the left side: modes side by side; `words` or `means` change what is before the modes and anchor them."""
    return _Left(slots, words, means)


Equations: TypeAlias = Iterator[Equation]


@dataclass(frozen=True, slots=True)
class Law:
    """A named set of equations."""

    name: str
    docs: str
    variables: tuple[str, ...]
    equations: tuple[Equation, ...]

    @property
    def reorders(self) -> bool:
        """Whether the law changes nothing but the order of modes; any reordering is then one step of it."""
        return all(sorted(map(str, e.left)) == sorted(map(str, e.right)) and e.left for e in self.equations)

    def steps(self, access: Access) -> Iterator[Access]:
        """Yield every access that one application of this law, left to right, makes of `access`."""
        for equation in self.equations:
            for at in range(len(access.modes) - len(equation.left) + 1):
                found = equation.match(access, at)
                if found is not None:
                    yield found

    def unordered_steps(self, access: Access) -> Iterator[tuple[Access, Access]]:
        """Yield every (access, what a step makes of it), the access with its modes in whatever order that step needs.

        Modes commute, so this reaches in one step what `steps` reaches after some reordering.
        """
        for equation in self.equations:
            if not equation.speaks_of(access):
                continue
            for chosen in permutations(range(len(access.modes)), len(equation.left)):
                window = tuple(access.modes[i] for i in chosen)
                bound = equation.bound(window)
                if bound is None:
                    continue
                at = 0 if equation.anchored or not chosen else min(chosen)
                rest = [m for i, m in enumerate(access.modes) if i not in chosen]
                ordered = Access(access.word, (*rest[:at], *window, *rest[at:]), access.by)
                yield ordered, equation.rewritten(ordered, at, bound)

    def leads(self, access: Access, after: Access) -> bool:
        """Whether one step of this law leads from `access` to `after`."""
        if self.reorders:
            same = (access.word, access.by) == (after.word, after.by)
            return same and sorted(access.modes) == sorted(after.modes)
        return after in self.steps(access)


def law(equations: Callable[..., Equations]) -> Law:
    """Return the law that a generator of equations declares; its parameters are the variables."""
    docs = inspect.getdoc(equations)
    if not docs:
        raise LegalSatError(f"law {equations.__name__} lacks a docstring; write its equation there")
    names = tuple(inspect.signature(equations).parameters)
    arguments: list[Any] = [Int("name", name=name) for name in names]
    return Law(equations.__name__, docs, names, tuple(equations(*arguments)))
