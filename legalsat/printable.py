"""Text of foreign origin, made fit for messages and terminals: the one place where it is."""

from __future__ import annotations

import re
from typing import Any

MOST_SHOWN = 120  # characters of a foreign value in a message
MOST_BITS = 512  # of an integer that a message writes in digits

# Controls but for newline and tab, what changes the direction of writing, and halves of characters.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Return `text` with what would command a terminal, or not be what is seen, written as its escape."""
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def shown(value: Any) -> str:
    """Return a foreign value for a message: its repr in one short line, whatever its type, size and content."""
    if isinstance(value, int) and value.bit_length() > MOST_BITS:  # Python refuses to write the longest
        return f"an integer of {value.bit_length()} bits"
    try:
        text = repr(value)
    except Exception as error:
        return f"a {type(value).__name__} that has no repr ({type(error).__name__})"
    text = printable(text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}...")
    return text.replace("\n", "\\n").replace("\t", "\\t")
