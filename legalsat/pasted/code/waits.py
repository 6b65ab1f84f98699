"""Waits for the phases of barriers in pasted loops: the parity that a wait names, beside the phase that it waits for.

A barrier that a loop waits for again and again completes phase 0, 1, 0, ... The n-th wait for one barrier names the
parity of n, or the other one where the first wait is for a buffer that is free from the beginning. `bar[i % S]` with
`(i / S) & 1` does so, `bar[i]` with `i & 1` does not: both are evaluated for the first rounds. Constants are the text's
own; a name that it gives no number is tried as several.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice

from legalsat.diagnostics import Diagnostic
from legalsat.pasted.code.host_code import constants
from legalsat.pasted.code.operators import is_number, of_two
from legalsat.pasted.sentences import RULE_OF
from legalsat.pasted.wording.likely import hints_at_failure, tells_of_hang
from legalsat.rule import require

MOST_WAITS, ROUNDS, TRIED = 32, 24, (3, 4)
_INDEX = r"\[(?P<{0}>[^\[\]\n;]{{1,60}})\]"
_WAIT = re.compile(
    rf"\b(?P<bar>\w{{0,40}}bar\w{{0,40}}|full\w{{0,40}}|empty\w{{0,40}}){_INDEX.format('index')}\.(?:try_)?wait\w{{0,40}}\((?P<parity>[^;\n,]{{1,60}}?)\)"
    r"(?=\s*(?:;|\n|$|//))"
    rf"|\b\w{{0,40}}wait\w{{0,40}}\(\s?&?(?P<bar1>\w{{0,40}}bar\w{{0,40}}|full\w{{0,40}}|empty\w{{0,40}}){_INDEX.format('index1')}\s?,\s?"
    r"(?P<parity1>[^;\n,]{1,60}?)\)(?=\s*(?:;|\n|$|//))"
)
# What reads the next round's tile of shared memory: the stage of "k + 1" where "k" is what the loop waits for.
_READ_AHEAD = re.compile(
    r"\b(?:ldmatrix|ldsm|ld_?shared|load_?frag)\w{0,24}\(\s?[^;\n]{0,120}?"
    r"\b\w{0,24}(?:stage|tile|buf|smem|s[AB])\w{0,12}\s?[\[(]\(?(?P<name>[A-Za-z_]\w{0,20}) ?\+ ?1\b[^;\n]{0,120};"
)
# CuTe's pipelines count as many arrivals as their groups have threads, one if nobody says how many.
_GROUP_OF_ONE = re.compile(
    r"\b(?P<role>consumer|producer)\w{0,20} ?= ?[\w.]{0,40}CooperativeGroup\( ?[\w.]{0,40}Agent\.Thread ?\)"
)
_WAITED_ASYNC = re.compile(r"Pipeline\w{0,20}\.create\(|\bPipeline(?:Tma|Umma|Async)\w{0,20}\(")


def explain_waits(text: str) -> Iterator[Diagnostic]:
    """Yield what a text's code does wrong at its barriers, where the text says that it fails: counts, then parities."""
    if _WAITED_ASYNC.search(text) and tells_of_hang(text):
        for match in islice((one for one in _GROUP_OF_ONE.finditer(text) if one["role"] == "consumer"), 1):
            message = "the consumers' group has one thread, so the barrier of a free stage counts one arrival"
            help_ = "give CooperativeGroup the number of those that arrive: a warp's or a thread's arrival each"
            found = require(False, message, help=help_)
            yield replace(RULE_OF["PIPE005"].diagnostic(found, f'text "{match[0][:97]}"'), level="warning")
    if not hints_at_failure(text) or not _WAIT.search(text):
        return
    yield from _read_ahead(text)
    names = constants(text)
    for match in islice(_WAIT.finditer(text), MOST_WAITS):
        words = match.groupdict()
        bar = words["bar"] or words["bar1"]
        index, parity = words["index"] or words["index1"], words["parity"] or words["parity1"]
        missed = _missed(index, parity, names)
        if missed is not None:
            round_, at, turn, asked = missed
            again = "for the first time" if turn == 0 else f"after {turn} of its phases"
            message = (
                "round {round} waits for {bar}[{at}] {again}, by parity {asked}; the rounds agree with no order of "
                "phases 0, 1, 0, ... of each barrier"
            )
            help_ = "count the waits for each barrier: with S barriers in a ring, parity (i / S) & 1 of round i"
            numbers = {"round": round_, "bar": bar, "at": at, "again": again, "asked": asked}
            found = require(False, message, help=help_, **numbers)
            yield RULE_OF["PIPE007"].diagnostic(found, f'text "{" ".join(match[0].split())[:97]}"')
            return


def _read_ahead(text: str) -> Iterator[Diagnostic]:
    """Yield the first read of the next round's tile in a loop that waits for this round's barrier alone."""
    waits = [(match["index"] or match["index1"]) for match in islice(_WAIT.finditer(text), MOST_WAITS)]
    for read in islice(_READ_AHEAD.finditer(text), MOST_WAITS):
        name = re.escape(read["name"])
        if any(re.search(rf"\b{name}\b", one) for one in waits) and not any(
            re.search(rf"\b{name}\b[^,;]{{0,20}}\+ ?1|next", one) for one in waits
        ):
            message = "the tile of round {name} + 1 is read, and the loop waits for the barrier of round {name} alone"
            help_ = "wait for the next round's barrier before anything of its tile is read"
            found = require(False, message, help=help_, name=read["name"])
            where = f'text "{" ".join(read[0].split())[:97]}"'
            yield replace(RULE_OF["PIPE009"].diagnostic(found, where), level="warning")
            return


def _missed(index: str, parity: str, names: Mapping[str, int]) -> tuple[int, int, int, int] | None:
    """Return the round, barrier, number of waits before and parity of a wait that fits no order; None if all do."""
    read = [_read(words) for words in (index, parity)]
    if None in read:
        return None
    nodes = [node for node in read if node is not None]
    used = {one.id for node in nodes for one in ast.walk(node) if isinstance(one, ast.Name)}
    index_names = {one.id for one in ast.walk(nodes[0]) if isinstance(one, ast.Name)}
    unknown = sorted(used - set(names))
    loops = [name for name in unknown if name in index_names and not name.isupper() and "stage" not in name.lower()]
    # One name is the loop's, and the parity is made of it.
    if len(loops) != 1 or loops[0] not in {one.id for one in ast.walk(nodes[1]) if isinstance(one, ast.Name)}:
        return None
    others = [name for name in unknown if name != loops[0]]
    # What only the parity is made of, as a mask of phases, changes from round to round.
    if len(others) > 1 or not set(others) <= index_names:
        return None
    found = None
    for value in TRIED if others else (0,):
        found = _round(nodes, loops[0], {**names, **dict.fromkeys(others, value)})
        if found is None:
            return None
    return found


def _round(nodes: list[ast.expr], loop: str, names: Mapping[str, int]) -> tuple[int, int, int, int] | None:
    waits: Counter[int] = Counter()
    flips: set[int] = set()
    first: tuple[int, int, int, int] | None = None
    for round_ in range(ROUNDS):
        at, asked = (_value(node, {**names, loop: round_}) for node in nodes)
        if at is None or asked is None:
            return None
        turn = waits[at]
        flips.add((turn + asked) & 1)
        if len(flips) == 2 and first is None:
            first = (round_, at, turn, asked & 1)
        waits[at] += 1
    return first


def _read(words: str) -> ast.expr | None:
    plain = re.sub(r"\b(\d+)[uUlL]+\b", r"\1", words).replace("//", "/").replace("/", "//").strip()
    try:
        return ast.parse(plain, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def _value(node: ast.expr, names: Mapping[str, int]) -> int | None:
    match node:
        case ast.Constant(value=value) if is_number(value):
            return int(value)
        case ast.Name(id=name):
            return names.get(name)
        case ast.BinOp(left=left, op=op, right=right):
            one, other = _value(left, names), _value(right, names)
            found = None if one is None or other is None else of_two(one, op, other)
            return int(found) if is_number(found) else None
    return None
