"""How surely a text names a cause: what is only seen of a failure, what prose seems to say, what a program printed."""

from __future__ import annotations

import re
from collections.abc import Iterable

from legalsat.diagnostics import Diagnostic
from legalsat.pasted.beside import OF_ILLEGAL_MAPS
from legalsat.pasted.tables.program_causes import COMPILER_CHECK, LIBRARY_FAILED, ON_DEVICE, OWN_CHECKS

# What is seen of a failure, and says little of its cause: results, and that a kernel never ends.
EFFECTS = OF_ILLEGAL_MAPS | {"CUDA002", "CUDA720", "CUDA999", "PIPE007", "TOOL008"}
_ADVICE = frozenset({"TOOL015", "TOOL019"})  # of ptxas, of any kernel
LAUNCH, _REFUSED = "TOOL011", "text of the runtime"  # that a launch is outside of some limit, and not which
_RESULT = "CUDA"  # codes of what calls return
_ENCODES, _EARLIER = "the encode call", "an earlier kernel"  # who returned a result, and who is to blame for it
LINE, _CODE = 'line "', 'text "'  # how what names a cause is quoted
# Where a cause is named by what a line of prose seems to say, and not by what a program printed.
_BY_PROSE = re.compile(
    r"line \"(?![^\n]*(?:\b\w*(?:[Ee]rror|Exception)\b|LLVM ERROR|[Aa]ssert|\bmust\b|\bexpect|"
    r"\brequire|\bneeds?\b|\bshould be \d|\bexhaust|\bout of (?:resource|(?:shared|tensor) memory|tmem|smem)))"
)
# How a program begins what it prints of a refusal, where nothing says that it is an error.
_REFUSES = re.compile(rf"{LINE}(?:\[?\w+\]?: )?(?:Unsupported|Unrecognized|Invalid|Illegal|Unknown|Failed to|Cannot) ")
# That some check of a program's own failed, of no known rule, or a library's kernel with nothing said of why.
_CHECKS = tuple(one.message.partition("{")[0] for one in OWN_CHECKS if one not in (COMPILER_CHECK, ON_DEVICE))
_UNKNOWN_CHECKS = (*_CHECKS, LIBRARY_FAILED)
# By how much a line raises the score of the cause that it names, as a logarithm: a check of its own, prose, what was
# printed, and an effect that may be a cause itself. What a call returned is as likely a cause as words say.
_CHECKED, _IN_PROSE, _PRINTED, _AN_EFFECT = 0.25, 3.0, 3.0, 1.5


def is_by_line(one: Diagnostic) -> bool:
    """Whether a cause is named by a line of an unknown program."""
    return one.where.startswith(LINE)


def is_by_code(one: Diagnostic) -> bool:
    """Whether a cause is one that a text's code may have."""
    return one.where.startswith(_CODE)


def is_prose(one: Diagnostic) -> bool:
    """Whether a cause is named by what a line of prose seems to say."""
    return _BY_PROSE.match(one.where) is not None


def is_no_more_than_prose(one: Diagnostic) -> bool:
    """Whether a cause is named by what prose seems to say, in a line that does not read as a program's refusal."""
    return is_prose(one) and _REFUSES.match(one.where) is None


def is_doubtful(one: Diagnostic) -> bool:
    """Whether a cause is named by what prose seems to say, or is a check that nobody knows."""
    return is_prose(one) or is_unknown_check(one)


def is_result(one: Diagnostic) -> bool:
    """Whether what is told is what a call returned."""
    return one.code.startswith(_RESULT) or (one.where == _REFUSED and one.code != LAUNCH)


def names(one: Diagnostic) -> bool:
    """Whether what a call returned has one cause alone, or was left to an encode call, which says whose it is not."""
    return not one.code.startswith(_RESULT) or (one.where.startswith(_ENCODES) and _EARLIER in one.message)


def is_unknown_check(one: Diagnostic) -> bool:
    """Whether all that is said is that some check of a program's own failed."""
    return one.message.startswith(_UNKNOWN_CHECKS)


def is_refused_launch(one: Diagnostic) -> bool:
    """Whether all that is said is that a launch was refused."""
    return one.code == LAUNCH and one.where == _REFUSED


def effects(told: Iterable[Diagnostic]) -> set[str]:
    """Return the codes of what is only seen of a failure."""
    return {one.code for one in told if _is_effect(one)}


def weight_of(one: Diagnostic) -> float:
    """Return by how much what is told of a text raises the score of its cause, as a logarithm."""
    if is_result(one):
        return 0.0
    if _is_effect(one):
        return _AN_EFFECT
    if is_unknown_check(one):
        return _CHECKED
    return _IN_PROSE if is_prose(one) else _PRINTED


def _is_effect(one: Diagnostic) -> bool:
    advises = one.level == "warning" and one.code in _ADVICE
    return one.code in EFFECTS or advises or is_refused_launch(one)
