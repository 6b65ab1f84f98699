"""Every error that LegalSAT raises on purpose.

One class per thing that a caller may want to tell apart. All derive from `LegalSatError`, so that one `except`
is enough; those that a plain Python mistake would raise as `ValueError` or `TypeError` derive from that too.
"""

from __future__ import annotations


class LegalSatError(Exception):
    """Something that LegalSAT was asked cannot be done; the message says what and what to do."""


class InvalidInput(LegalSatError, ValueError):
    """An argument has no meaning: a negative extent, an unknown name, a stride that overflows."""
