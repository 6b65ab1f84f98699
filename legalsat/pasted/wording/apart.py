"""How two causes that look alike are told apart: what to try and what it shows of each, which a text may say."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from legalsat.diagnostics import Diagnostic
from legalsat.pasted.wording.kinds import is_by_line

_BARRIER = (
    "a debugger shows where threads stand: all at one barrier, of which an arrival is missing ({0}), or some at it and "
    "others elsewhere or gone ({1}), which synccheck calls divergent"
)
_MISSED = (
    "print the phase: where an arrival or bytes are missing ({0}) it never flips, and where it was missed ({1}) it has "
    "flipped already"
)
_MET = "synccheck tells of a barrier that not all threads reach ({1}), and racecheck where there is none ({0})"
# Of each pair, by code, what tells the first from the second.
APART = {
    ("PIPE008", "PIPE009"): "racecheck calls an overwritten stage ({0}) a WAR hazard, and one that is read too early "
    "({1}) RAW; a barrier at the end of the loop cures the one, a barrier between store and read the other",
    ("PIPE004", "PIPE018"): _BARRIER,
    ("PIPE004", "PIPE007"): _MISSED,
    ("PIPE008", "PIPE018"): _MET,
    ("PIPE009", "PIPE018"): _MET,
    ("PIPE009", "TOOL017"): "CUDA_LAUNCH_BLOCKING=1 cures an order of streams ({1}), and nothing within a kernel ({0})",
    ("PIPE009", "TOOL016"): "racecheck names a read that comes too early ({0}), initcheck one of what nobody wrote "
    "({1})",
    ("CUDA700", "TOOL013"): "with half of the data an overflow ({1}) is gone, an index out of bounds ({0}) as a rule "
    "is not; compute-sanitizer prints how far from an allocation the address is, gigabytes for an overflow",
    ("CUDA700", "VEC002"): "compute-sanitizer calls an address misaligned ({1}) or out of bounds ({0})",
    ("TOOL011", "TOOL013"): "a launch outside of the limits ({0}) returns an error at once and computes nothing; where "
    "offsets overflow ({1}) a part of the result is right",
    ("SMEM001", "TOOL011"): "print the bytes of shared memory beside the grid and the block: more than the GPU gives a "
    "block ({0}), or an axis outside of the limits ({1})",
    ("SMEM001", "TOOL003"): "ptxas -v prints the shared memory ({0}) and the registers ({1}) of the kernel; half of "
    "the threads cure the latter",
    ("TOOL003", "TOOL011"): "too many registers ({0}) is error 701, and half of the threads cure it; an axis outside "
    "of the limits ({1}) is error 9 or 1",
    ("TOOL004", "TOOL010"): "the same shapes on a newer GPU run where code for this one is missing ({0}), and are "
    "refused there too where the program has no such kernel ({1})",
}
# What the trials above show of a cause, as a text says it that has their outcome.
_OUTCOMES = {
    code: re.compile(pattern)
    for code, pattern in {
        "PIPE004": r"(?i:(?:phase|parity|barrier)\b[^.\n]{0,40}\bnever (?:flip|complete)\w*)",
        "PIPE007": r"(?i:(?:phase|parity)\b[^.\n]{0,40}\b(?:has|had|is|was) (?:already )?flipped)",
        "PIPE008": r"\bWAR\b|(?i:write[- ]after[- ]read)",
        "PIPE009": r"\bRAW\b|(?i:read[- ]after[- ]write)",
        "PIPE018": r"(?i:divergent threads?|synccheck\b[^.\n]{0,60}\bdivergent)",
        "TOOL016": r"(?i:initcheck\b[^.\n]{0,60}\buninitiali[sz]ed|uninitiali[sz]ed (?:__\w+__|memory|read))",
        "TOOL017": r"(?i:launch_blocking\b[^.\n]{0,60}\b(?:cure|fix|right|work|gone|disappear|help|correct)\w*)",
        "VEC002": r"(?i:misaligned)",
    }.items()
}


def told_apart(told: Sequence[Diagnostic], likely: str, text: str) -> tuple[Diagnostic, ...]:
    """Return what is told, with how to tell causes apart in the help of those that are no more than likely.

    Args:
        told: what is told of a text, in its order. Of two causes, both likely or named by a line, the one that a
            trial in the text speaks for comes first: what a tool has shown outweighs what words weigh.
        likely: where a cause that is no more than likely says that it is from.
        text: the whole text.
    """
    at = [place for place, one in enumerate(told) if one.where == likely or is_by_line(one)][:2]
    codes = tuple(told[place].code for place in at)
    if len(at) == 2 and tuple(sorted(codes)) in APART:
        first, second = (code in _OUTCOMES and _OUTCOMES[code].search(text) is not None for code in codes)
        if second and not first:
            turned = {at[0]: told[at[1]], at[1]: told[at[0]]}
            told = [turned.get(place, one) for place, one in enumerate(told)]
    return _with_ways(told, likely)


def _with_ways(told: Sequence[Diagnostic], likely: str) -> tuple[Diagnostic, ...]:
    codes = {one.code for one in told}
    return tuple(
        replace(one, help="; ".join([one.help, *_ways(one.code, codes)])) if one.where == likely else one
        for one in told
    )


def _ways(code: str, codes: set[str]) -> list[str]:
    """Return how a cause is told apart from others of some."""
    return [how.format(*pair) for pair, how in APART.items() if code in pair and codes.issuperset(pair)]
