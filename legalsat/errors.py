"""Every error that LegalSAT raises on purpose.

One class per thing that a caller may want to tell apart. All derive from `LegalSatError`, so that one `except`
is enough; those that a plain Python mistake would raise as `ValueError` or `TypeError` derive from that too.
"""

from __future__ import annotations

from typing import Any

from legalsat.printable import printable


class LegalSatError(Exception):
    """Something that LegalSAT was asked cannot be done; the message says what and what to do.

    Every one can be copied and pickled, so that it reaches who waits for a worker process.
    """

    def __str__(self) -> str:
        return printable(super().__str__())

    def __reduce__(self) -> tuple[Any, ...]:
        # Python would call the class with the message alone, which is not what every class takes.
        return _restored, (type(self), self.args), self.__dict__


def _restored(kind: type[LegalSatError], args: tuple[Any, ...]) -> LegalSatError:
    return kind.__new__(kind, *args)


class InvalidInput(LegalSatError, ValueError):
    """An argument has no meaning: a negative extent, an unknown name, a stride that overflows."""


class MissingExtra(LegalSatError, ImportError):
    """A package is not installed that only some need; the message names the extra of legalsat that brings it."""


class NoSuchLayout(LegalSatError, ValueError):
    """An operation's result exists as a function, if at all, but no layout or swizzle of CuTe's describes it."""


class NotLinear(LegalSatError, ValueError):
    """A layout is no linear map of bits: an extent that is no power of two, strides whose bits carry, an offset."""


class SolverGaveUp(LegalSatError):
    """The solver ran out of time, so neither a plan nor a refusal is known; give it longer or a smaller tile."""
