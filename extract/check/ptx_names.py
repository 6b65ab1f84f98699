"""What messages about kernels say: names without what compilers add, and one finding a cause."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from legalsat.analyses.ptx.findings import Finding

_LONGEST = 60
_PART = re.compile(r"L?(\d+)")
# CuTe DSL: "kernel_cutlass_", the function, its arguments and their types, and a number.
_CUTE = re.compile(
    r"kernel_cutlass_(?P<function>\w+?)_(?:_+main__(?P<owner>\w+?)_object_at|TiledMMA|TiledCopy|CopyAtom|tensor)"
)


def title_of(name: str) -> str:
    """Return the name of a kernel without namespaces, template arguments and types, as its source has it.

    Names of C++ are those of the Itanium ABI: a length and so many letters, in a namespace one after the other.
    """
    found, at = "", re.match(r"_Z(N[rVK]*)?", name)
    begin = at.end() if at is not None else len(name)
    while part := _PART.match(name, begin):
        begin = part.end() + int(part[1])
        found = name[part.end() : begin]
        if at is not None and not at[1]:
            break  # what follows are its parameters
    by_cute = _CUTE.match(name)
    if by_cute is not None:
        found = f"{by_cute['owner']}.{by_cute['function']}" if by_cute["owner"] else by_cute["function"]
    title = found or name
    return title if len(title) <= _LONGEST else title[:_LONGEST] + "..."


def told(name: str, message: str) -> str:
    """Return a message about a kernel with the numbers of its parameters in place of names that begin with its own."""
    return message.replace(f"{name}_param_", "param_")


def one_a_cause(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings with one in place of all that say the same about the same other place, at lines of their own.

    Args:
        findings: in the order in which they are told.
    """
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.kind, finding.message, finding.note), []).append(finding)
    return [replace(first, also=tuple(one.line for one in rest)) for first, *rest in groups.values()]


def by_reason(open_: Iterable[tuple[int, str]]) -> dict[str, list[int]]:
    """Return lines of what is not proven or not judged by the reason, in order; 0 is the whole kernel."""
    groups: dict[str, list[int]] = {}
    for line, reason in open_:
        groups.setdefault(reason, []).append(line)
    return groups


def lines_told(lines: Iterable[int], most: int = 6) -> str:
    """Return lines of a text in words, such as "lines 3, 5 and 9"; the first ones and how many more, if many."""
    listed = list(lines)
    first = listed if len(listed) <= most + 1 else listed[:most]
    words = [*map(str, first), *([f"{len(listed) - most} more"] if len(listed) > len(first) else [])]
    if len(listed) == 1:
        return f"line {words[0]}"
    return f"lines {', '.join(words[:-1])} and {words[-1]}"
