"""Runs of a kernel that went wrong, of which conditions on a launch may leave some out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from legalsat.analyses.ptx.instruction import shortened

Values: TypeAlias = dict[str, int]


@dataclass(frozen=True, slots=True)
class Failure:
    """A run that went wrong.

    Attributes:
        values: of the launch. line, reason: where, and what went wrong.
        of_nothing: whether it may be for want of work. of_any_size: whether no size excuses it, not even zero.
        hangs: somebody waits in vain.
    """

    values: Values
    line: int
    reason: str
    of_nothing: bool
    of_any_size: bool = False
    hangs: bool = False


def not_understood(error: Exception) -> str:
    """Return the reason why text that went wrong where it was looked into is not proven."""
    return f"this is not understood ({type(error).__name__}: {shortened(str(error))})"
