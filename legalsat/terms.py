"""The e-graph's view of accesses and laws: sorts, translation both ways, and laws as egglog rewrites.

A list of modes is a chain of `link`s, so that a law about neighbours applies in every context by congruence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import egglog
from egglog import Expr, eq, i64, i64Like, ruleset, var

from legalsat.access import Access, Mode
from legalsat.law import Equation, Guard, Int, Law, Slot


class Modes(Expr):
    """A list of modes."""

    def __init__(self) -> None: ...


class Movement(Expr):
    """A list of modes in words of some bits."""

    def __init__(self, word: i64Like, modes: Modes) -> None: ...


@egglog.function
def link(  # type: ignore[empty-body]
    extent: i64Like, source: i64Like, target: i64Like, tile: i64Like, rest: Modes
) -> Modes:
    """One mode, and the modes after it."""


def to_term(access: Access) -> Movement:
    """Return the access as a term."""
    modes = Modes()
    for found in reversed(access.modes):
        modes = link(found.extent, found.source, found.target, found.tile, modes)
    return Movement(access.word, modes)


def from_term(term: Movement) -> Access:
    """Return the term as a plain access; the term must be free of variables."""
    word, chain = arguments(term, Movement)
    modes = []
    while found := arguments(chain, link):
        *numbers, chain = found
        modes.append(Mode(*(int(number.value) for number in numbers)))
    return Access(int(word.value), tuple(modes))


def arguments(term: Any, function: Any) -> tuple[Any, ...]:
    """Return the arguments of a term made by `function`, none where something else made it."""
    return egglog.get_callable_args(term, function) or ()


@cache
def compiled(laws: tuple[Law, ...]) -> Any:
    """Return one egglog ruleset that holds the laws, left to right."""
    return ruleset(*(rewrite for law in laws for equation in law.equations for rewrite in _rewrites(equation)))


def _rewrites(equation: Equation) -> Iterator[Any]:
    rest = var("rest", Modes)
    left, right = _chain(equation.left, rest), _chain(equation.right, rest)
    guards = [_guard(g) for g in equation.guards]
    if equation.words:
        before, after = equation.words
        yield egglog.rewrite(Movement(before, left)).to(Movement(after, right), *guards)
    else:
        yield egglog.rewrite(left).to(right, *guards)


def _chain(slots: Iterable[Slot], rest: Modes) -> Modes:
    for extent, source, target, tile in reversed(tuple(slots)):
        rest = link(_number(extent), _number(source), _number(target), _number(tile), rest)
    return rest


def _number(number: Int) -> i64:
    if number.operator == "name":
        return var(number.name, i64)
    if number.operator == "constant":
        return i64(number.constant)
    left, right = (_number(operand) for operand in number.operands)
    if number.operator == "*":
        return left * right
    return left / right if number.operator == "//" else left % right


def _guard(guard: Guard) -> Any:
    left, right = _number(guard.left), _number(guard.right)
    return eq(left).to(right) if guard.relation == "==" else left < right
