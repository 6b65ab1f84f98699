"""Programs that lack an operation, for tests of whatever is to tell them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from legalsat.analyses.protocol.typestate import check
from legalsat.extract.kernels.unfolded import unfolded
from legalsat.program.kernel import NESTS, KernelProgram, every
from legalsat.targets import Target


def without(body: tuple[Any, ...], number: int) -> tuple[Any, ...]:
    """Return operations without one of them, counted through those that hold others."""
    left = [number]

    def rest(some: tuple[Any, ...]) -> Iterator[Any]:
        for op in some:
            if isinstance(op, NESTS):
                holder: Any = op
                yield replace(holder, body=tuple(rest(op.body)))
                continue
            left[0] -= 1
            if left[0] != -1:
                yield op

    return tuple(rest(body))


def proven_without(
    program: KernelProgram, target: Target, chosen: Callable[[int, tuple[Any, ...], int], bool], first: int = 0
) -> tuple[set[type], list[str]]:
    """Return the kinds of operations that were left out one by one, and those without which the contract still holds.

    Args:
        program: whose roles from `first` on are looked at.
        target: the GPU.
        chosen: of a role, of its operations that hold no others, and of one of their numbers: whether it is left out.
        first: the first role.
    """
    kinds, kept = set[type](), list[str]()
    for index, role in enumerate(program.roles[first:], start=first):
        plain = tuple(op for op in every(role.body) if not isinstance(op, NESTS))
        for number, op in enumerate(plain):
            if not chosen(index, plain, number):
                continue
            roles = list(program.roles)
            roles[index] = replace(role, body=without(role.body, number))
            kinds.add(type(op))
            if check(unfolded(replace(program, roles=tuple(roles))), target).proven:
                kept.append(f"{role.name}: {op}")
    return kinds, kept
