"""Instructions of a whole warp in pasted branches that one thread takes.

`tcgen05.ld`, `.st`, `.alloc`, `.dealloc` and their waits, votes and shuffles of a full mask, and `setmaxnreg` (of a
whole warpgroup) are executed by all threads of a warp: under `if (tid == 0)` or `elect_one_sync()` one thread does, and
the warp waits for ever or reads what nobody defines. The copies and pipelines of CuTe's Python elect a thread
themselves (CUTLASS, `cute.copy`: "thread election is managed automatically"), which takes the whole warp too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from legalsat.diagnostics import Diagnostic
from legalsat.pasted.sentences import RULE_OF
from legalsat.pasted.wording.likely import hints_at_failure
from legalsat.rule import require
from legalsat.targets import Target

MOST_BRANCHES, LONGEST_BRANCH = 64, 4000
_THREAD = r"(?:\w{0,16}tid\w?|threadIdx\.x|thread_idx|thread_id|lane|lane_?id\w{0,2}|laneid)"
_ELECTS = r"\belect(?:_one)?(?:_sync|_pred)?\w{0,12}\s?\([^(){}]{0,40}\)"
_CONDITION = rf"[^{{}};\n]{{0,120}}?(?:\b{_THREAD}\s?==\s?\d{{1,4}}\b|{_ELECTS})[^{{}};\n]{{0,80}}"
_ONE_THREAD = re.compile(rf"\bif ?\((?P<condition>{_CONDITION})\)\s{{0,9}}\{{")
_ONE_THREAD_OF_PYTHON = re.compile(
    rf"^(?P<margin>[ \t]{{0,60}})(?:if|with)\b[ \t(](?P<condition>{_CONDITION}):[ \t]*(?:#[^\n]*)?$", re.MULTILINE
)


class _Collective(NamedTuple):
    """Instructions that all threads of a warp or a warpgroup execute, and the rule that says so."""

    code: str
    of: str
    words: re.Pattern[str]
    of_python: bool = False  # what C++ leaves to the caller


_COLLECTIVES = (
    _Collective(
        "TMEM014",
        "warps",
        re.compile(
            r"\btcgen05(?:\.|_|::)(?:ld|st|alloc|dealloc|relinquish\w*|wait(?:::|_)(?:ld|st))\b[\w.:]{0,60}|"
            r"\btmem_(?:ld|st|load|store|alloc\w{0,8}|dealloc\w{0,6})\b|\bTmem\w{0,20}(?:allocate|free)\b"
        ),
    ),
    _Collective("TOOL007", "warpgroups", re.compile(r"\bsetmaxnreg\.[\w.]{3,40}|\bsetmaxregister_\w{3,12}\(")),
    _Collective(
        "PIPE018",
        "warps",
        re.compile(
            r"\b__(?:shfl|ballot|any|all|match|reduce)\w{0,10}_sync\(\s?(?:0x[fF]{8}[uU]?|-1|~0[uU]?|\w{0,8}FULL\w{0,8})\b"
        ),
    ),
    _Collective(
        "PIPE018",
        "warps",
        re.compile(
            r"\bcute\.copy\((?=(?:[^()]|\([^()]{0,80}\)){0,400}\btma_bar_ptr\s?=)|"
            r"\bproducer_acquire\(|\bcute\.arch\.elect_one\("
        ),
        of_python=True,
    ),
)


def explain_elected(text: str, target: Target) -> Iterator[Diagnostic]:
    """Yield the first instruction of a whole warp that a branch leaves to one thread, where the text says it fails.

    Args:
        text: the report, code among it.
        target: the GPU.
    """
    if not hints_at_failure(text):
        return
    asked = [one for one in _COLLECTIVES if RULE_OF[one.code].unit.limits(target) and one.words.search(text)]
    for branch, begin, end in _branches(text) if asked else ():
        for one in asked:
            found = one.words.search(text, begin, end)
            if found is not None and (branch.re is _ONE_THREAD_OF_PYTHON or not one.of_python):
                message = "{instruction} is executed by whole {of}, and stands in a branch that one thread takes"
                help_ = "let all threads of the {of} reach it, and choose by the warp's number alone"
                named = found[0].partition("(")[0]
                refused = require(False, message, help=help_.replace("{of}", one.of[:-1]), instruction=named, of=one.of)
                told = RULE_OF[one.code].diagnostic(refused, f'text "{" ".join(branch[0].split())[:97]}"')
                yield replace(told, level="warning") if one.of_python else told
                return


def _branches(text: str) -> Iterator[tuple[re.Match[str], int, int]]:
    """Yield the branches that one thread takes, of C++ and of Python, each with where its body begins and ends."""
    for branch in islice(_ONE_THREAD.finditer(text), MOST_BRANCHES):
        if not _leaves_others_in(branch):
            depth, at = 1, branch.end()
            while depth and at < min(len(text), branch.end() + LONGEST_BRANCH):
                depth += (text[at] == "{") - (text[at] == "}")
                at += 1
            yield branch, branch.end(), at
    for branch in islice(_ONE_THREAD_OF_PYTHON.finditer(text), MOST_BRANCHES):
        if not _leaves_others_in(branch):
            outside = re.compile(rf"\n(?=[ \t]{{0,{len(branch['margin'])}}}\S)")
            last = outside.search(text, branch.end(), branch.end() + LONGEST_BRANCH)
            yield branch, branch.end(), last.start() if last else min(len(text), branch.end() + LONGEST_BRANCH)


def _leaves_others_in(branch: re.Match[str]) -> bool:
    return any(word in branch["condition"] for word in ("||", "!", " or ", "not "))
