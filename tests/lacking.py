"""Programs that lack an operation, for tests of whatever is to tell them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from legalsat.program.kernel import NESTS


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
