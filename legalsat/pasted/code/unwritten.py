"""Elements that no thread of a block writes, by the numbers that stand in a text's code, and sums that begin nowhere.

A guard such as `if (tid < 256)` in front of one store for each thread covers no more than the block has threads: with
128 of them the elements from 128 on keep what was there. Loops over threads' strides are left alone.
TileLang's `T.gemm` adds to its third operand, and a fragment that nothing has cleared holds what registers held.
It is a fact of the text's own numbers; that it is the cause is likely where the text says that something is wrong, so
it is a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice

from legalsat.diagnostics import Diagnostic
from legalsat.pasted.code.host_code import constants, whole_number
from legalsat.pasted.sentences import RULE_OF
from legalsat.pasted.wording.likely import hints_at_failure
from legalsat.rule import require
from legalsat.targets import Target

MOST_FOUND, MOST_THREADS = 64, 1024
_NAME = r"[A-Za-z_]\w{0,40}"
_NUMBER = rf"(?:\d{{1,7}}|{_NAME}(?: ?\* ?{_NAME}){{0,2}})"
# One store of each thread behind a guard, by the thread's own number or a variable that is it.
_GUARDED = re.compile(
    rf"(?<!else )\bif ?\( ?(?P<index>threadIdx\.x|{_NAME}) ?< ?(?P<bound>{_NUMBER}) ?\) ?\{{?\s{{0,40}}"
    rf"(?P<array>{_NAME}) ?\[ ?(?P=index) ?\] ?=[^=]"
)
_IS_THREAD = re.compile(
    rf"\b(?:int|unsigned|uint32_t|auto|size_t)(?: int)? (?P<name>{_NAME}) ?= ?(?:\(int\) ?)?threadIdx\.x ?;"
)
_THREADS = re.compile(
    rf"<<< ?[^<>;\n]{{1,80}}?, ?(?P<launch>{_NUMBER}) ?(?:,[^<>;\n]{{0,80}})?>>>"
    rf"|__launch_bounds__\( ?(?P<bounds>{_NUMBER}) ?[,)]"
    rf"|\bdim3 \w{{0,10}}(?:block|threads)\w{{0,10}}\( ?(?P<dim>{_NUMBER}) ?\)",
    re.IGNORECASE,
)
_FRAGMENT = re.compile(rf"\b(?P<name>{_NAME}) ?= ?T\.alloc_(?:fragment|local)\(")
_ADDS = re.compile(
    rf"\bT\.gemm\((?P<operands>[^()\n]{{1,80}},[^()\n]{{1,80}}), ?(?P<sum>{_NAME})(?P<rest>[^()\n]{{0,200}})\)"
)


def explain_unwritten(text: str, target: Target) -> Iterator[Diagnostic]:
    """Yield the first guard that covers more than a block's threads, and the first sum that begins nowhere.

    Nothing where the text does not say that something is wrong.

    Args:
        text: the report, code among it.
        target: the GPU.
    """
    if RULE_OF["TOOL016"].unit.limits(target) is None or not hints_at_failure(text):
        return
    yield from _uncleared(text)
    for elements, threads, where in _of_code(text):
        if threads < elements:
            message = "the guard lets {elements} elements be written, one by each thread, and a block has {threads}"
            help_ = "let each thread write every {threads}th element in a loop, up to the guard's bound"
            refused = require(
                False, message, help=help_.replace("{threads}", str(threads)), elements=elements, threads=threads
            )
            yield replace(RULE_OF["TOOL016"].diagnostic(refused, f'text "{where}"'), level="warning")
            return


def _uncleared(text: str) -> Iterator[Diagnostic]:
    """Yield the first product that is added to a fragment which nothing in the text has written before."""
    made = {match["name"] for match in islice(_FRAGMENT.finditer(text), MOST_FOUND)}
    for match in islice(_ADDS.finditer(text) if made else (), MOST_FOUND):
        name = re.escape(match["sum"])
        # A use of any other kind may write it: a call that is given it, or a store to its elements.
        used = re.compile(rf"[(,] ?{name}\b|\b{name}\[[^\]\n]{{1,60}}\] ?=[^=]")
        first = used.search(text)
        if match["sum"] in made and "clear" not in match["rest"] and first and first.start() > match.start():
            message = "T.gemm adds to {name}, which nothing has cleared"
            help_ = "clear it with T.clear before the loop, or give the first product clear_accum=True"
            refused = require(False, message, help=help_, name=match["sum"])
            where = f'text "{" ".join(match[0].split())[:97]}"'
            yield replace(RULE_OF["TOOL016"].diagnostic(refused, where), level="warning")
            return


def _of_code(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield elements and threads of the guards in front of one store by each thread, where blocks have one size."""
    names = constants(text)
    sizes = {_value(match.lastgroup, match, names) for match in islice(_THREADS.finditer(text), MOST_FOUND)} - {None}
    if len(sizes) != 1:
        return
    threads = sizes.pop()
    numbers = {"threadIdx.x", *(match["name"] for match in islice(_IS_THREAD.finditer(text), MOST_FOUND))}
    for guard in islice(_GUARDED.finditer(text), MOST_FOUND):
        elements = whole_number(guard["bound"], names)
        stepped = re.search(rf"\b{re.escape(guard['index'])} ?\+= ?", text)
        if guard["index"] in numbers and elements is not None and threads is not None and not stepped:
            yield elements, threads, " ".join(guard[0].split())[:97].replace("{", "(")


def _value(group: str | None, match: re.Match[str], names: Mapping[str, int]) -> int | None:
    value = whole_number(match[group], names) if group else None
    return value if value is not None and 0 < value <= MOST_THREADS else None
