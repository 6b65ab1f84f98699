"""What cannot show itself as a text says that the failure did: causes that no words make likely, whatever they weigh.

Weights are learned, and move with every report; that a missing fence moves no address does not. What a call returned,
and that a kernel was compiled before it hung, rule causes out before the others are ranked, so that the odds are of
those that are left.
"""

from __future__ import annotations

import re

from legalsat.pasted.results import returned_results
from legalsat.pasted.sentences import RULE_OF
from legalsat.pasted.tables.evidence import CONCEPTS

# What stages and barriers promise one another, of which only where they lie is an address.
_OF_ORDER = r"PIPE(?!025)\d"
# Rules that are never the cause of what was returned. An invalid value (1) is a parameter of the call itself, which
# ran nothing; an illegal instruction (715) and a misaligned address (716: "a load or store instruction on a memory
# address which is not aligned") are no address that is invalid (700). Source: cuda.h, CUresult.
_NEVER = {
    "CUDA001": re.compile("PIPE"),
    "CUDA715": re.compile("CUDA700"),
    "CUDA716": re.compile(f"CUDA700|{_OF_ORDER}"),
}
_COMPILER = frozenset({"TOOL014"})
# That the compiler was done before the hang was seen.
_COMPILED = re.compile(
    r"\bcompil(?:es|ed)(?: (?:fine|ok|cleanly|successfully|correctly|without (?:any )?(?:errors?|warnings?)))?[,;:]? "
    rf"(?:and|but|then|yet)(?: (?:then|it|the kernel|still|just)){{0,2}} (?:{CONCEPTS['hang']})",
    re.IGNORECASE,
)


def excluded(text: str) -> set[str]:
    """Return the codes of the rules that cannot have shown themselves as a text says, by what calls in it returned."""
    returned = {f"CUDA{one.number:03d}" for one in returned_results(text)}
    never = [_NEVER[code] for code in returned if code in _NEVER]
    found = {code for code in RULE_OF if any(one.match(code) for one in never)}
    return found | _COMPILER if _COMPILED.search(text) else found
