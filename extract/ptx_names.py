"""Names of kernels and of their parameters as messages tell them: without what compilers add."""

from __future__ import annotations

import re

_LONGEST = 60


def title_of(name: str) -> str:
    """Return the name of a kernel without namespaces, template arguments and types, as its source has it.

    Names of C++ are those of the Itanium ABI: a length and so many letters, one after the other.
    """
    found, at = "", re.match(r"_ZN?[rVK]*", name)
    begin = at.end() if at is not None else len(name)
    while part := re.compile(r"L?(\d+)").match(name, begin):
        begin = part.end() + int(part[1])
        found = name[part.end() : begin]
    title = found or name
    return title if len(title) <= _LONGEST else title[:_LONGEST] + "..."


def told(name: str, message: str) -> str:
    """Return a message about a kernel with the numbers of its parameters in place of names that begin with its own."""
    return message.replace(f"{name}_param_", "param_")
