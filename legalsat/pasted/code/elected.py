"""Instructions of a whole warp in pasted branches that one thread takes, and barriers that a loop sets up again.

`tcgen05.ld`, `.st`, `.alloc`, `.dealloc` and their waits are executed by all 32 threads of a warp: under
`if (tid == 0)` or `elect_one_sync()` one thread does, and the warp waits for ever or reads what nobody defines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from legalsat.diagnostics import Diagnostic
from legalsat.pasted.sentences import RULE_OF
from legalsat.rule import require
from legalsat.targets import Target

MOST_BRANCHES, LONGEST_BRANCH = 64, 4000
_FAILS = re.compile(r"hang|hung|dead-?lock|stuck|fail|error|wrong|incorrect|garbage|corrupt|illegal|crash|trap", re.I)
_ONE_THREAD = re.compile(
    r"\bif ?\((?P<condition>[^{};\n]{0,120}?(?:\b(?:tid|tidx|threadIdx\.x|thread_idx|thread_id|lane|lane_?id\w{0,2}|"
    r"laneid)\s?==\s?\d{1,4}\b|\belect(?:_one)?(?:_sync|_pred)?\w{0,12}\s?\([^(){}]{0,40}\))[^{};\n]{0,80})\)\s{0,9}\{"
)
_OF_WARPS = re.compile(
    r"\btcgen05(?:\.|_|::)(?:ld|st|alloc|dealloc|relinquish\w*|wait(?:::|_)(?:ld|st))\b[\w.:]{0,60}|"
    r"\btmem_(?:ld|st|load|store|alloc\w{0,8}|dealloc\w{0,6})\b|\bTmem\w{0,20}(?:allocate|free)\b"
)


def explain_elected(text: str, target: Target) -> Iterator[Diagnostic]:
    """Yield the first instruction of a whole warp that a branch leaves to one thread, where the text says it fails.

    Args:
        text: the report, code among it.
        target: the GPU.
    """
    if target.tcgen05 is None or not _OF_WARPS.search(text) or not _FAILS.search(text):
        return
    for branch in islice(_ONE_THREAD.finditer(text), MOST_BRANCHES):
        if "||" in branch["condition"] or "!" in branch["condition"]:
            continue
        depth, at = 1, branch.end()
        while depth and at < min(len(text), branch.end() + LONGEST_BRANCH):
            depth += (text[at] == "{") - (text[at] == "}")
            at += 1
        found = _OF_WARPS.search(text, branch.end(), at)
        if found is not None:
            message = "{instruction} is executed by whole warps, and stands in a branch that one thread takes"
            help_ = "let the 32 threads of the warp reach it, and choose by the warp's number alone"
            refused = require(False, message, help=help_, instruction=found[0])
            yield RULE_OF["TMEM014"].diagnostic(refused, f'text "{" ".join(branch[0].split())[:97]}"')
            return
