"""Every error that LegalSAT raises on purpose.

One class per thing that a caller may want to tell apart. All derive from `LegalSatError`, so that one `except`
is enough; those that a plain Python mistake would raise as `ValueError` or `TypeError` derive from that too.
"""

from __future__ import annotations


class LegalSatError(Exception):
    """Something that LegalSAT was asked cannot be done; the message says what and what to do."""


class InvalidInput(LegalSatError, ValueError):
    """An argument has no meaning: a negative extent, an unknown name, a stride that overflows."""


class NoSuchLayout(LegalSatError, ValueError):
    """An operation's result exists as a function, if at all, but no layout or swizzle of CuTe's describes it."""


class NotLinear(LegalSatError, ValueError):
    """A layout is no linear map of bits: an extent that is no power of two, strides whose bits carry, an offset."""
