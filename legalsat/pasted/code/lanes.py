"""Code that counts on 32 lanes of a warp, where the GPU has another number.

NVIDIA's warps have 32 lanes, wavefronts of AMD's CDNA 64 (its instruction set's documents, and `lanes` of a target).
Indices that are split by 32, masks of 32 bits and constants of that name are facts of a text's own code; that they are
what fails is likely where the text says that something does, so it is a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from legalsat.diagnostics import Diagnostic
from legalsat.pasted.sentences import RULE_OF
from legalsat.pasted.wording.likely import hints_at_failure
from legalsat.rule import require
from legalsat.targets import Target

OF_NVIDIA = 32
_THREAD = r"(?:\b(?:hip)?[tT]hreadIdx(?:\.x|_x)|\b\w{0,12}tid\w?|\blane_?(?:id)?|\bthread_?(?:id|idx))"
_COUNTS = re.compile(
    rf"{_THREAD} ?(?:& ?(?:31|0x1[fF])|% ?32|>> ?5|/ ?32)\b(?![.\d])"
    r"|\b(?:k?warp_?size|warp_?width|num_?lanes|lanes_?per_?warp|WS)\b ?(?:=|\() ?32\b(?![.\d])"
    r"|\b__(?:shfl|ballot|any|all)\w{0,12}_sync\( ?0x[fF]{8}[uU]?\b"
    r"|\b32[ -]lanes?\b|\b32[ -]threads? (?:per|of a|in a) (?:warp|wave)"
    r"|\bwarps? of 32\b",
    re.IGNORECASE,
)


def explain_lanes(text: str, target: Target) -> Iterator[Diagnostic]:
    """Yield the first place where a text's code counts on 32 lanes, for a GPU that has others, where something fails.

    Args:
        text: the report, code among it.
        target: the GPU.
    """
    if target.lanes == OF_NVIDIA or not hints_at_failure(text):
        return
    found = _COUNTS.search(text)
    if found is not None:
        message = "the code counts on {counted} lanes of a warp, and {target} has {lanes}"
        help_ = "take warpSize of the device for indices, strides and tiles, and masks and votes of 64 bits"
        refused = require(False, message, help=help_, counted=OF_NVIDIA, target=str(target), lanes=target.lanes)
        where = f'text "{" ".join(found[0].split())[:97]}"'
        yield replace(RULE_OF["TOOL018"].diagnostic(refused, where), level="warning")
