"""Barriers of shared memory in pasted code: the arrivals that they are made for, beside those that the code has.

`mbarrier_init(&bar, 2)` asks two arrivals of each phase. Where every use of `bar` in a text is a call that is known by
its name, and each one that arrives stands in a branch of one thread, the calls are all the arrivals that there are, and
fewer than two never complete a phase. The other way round a barrier that is made for one arrival gets too many where
all threads of a kernel arrive. Barriers that are handed on, that other blocks reach, and loops that arrive without
waiting say nothing. Both are facts of the text's own code; that they are the cause is likely where the text says that
something fails, so they are warnings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from legalsat.diagnostics import Diagnostic
from legalsat.pasted.code.host_code import arguments_of, constants, whole_number, without_comments
from legalsat.pasted.sentences import RULE_OF
from legalsat.pasted.wording.likely import hints_at_failure
from legalsat.rule import require
from legalsat.targets import Target

MOST_CALLS, MOST_BARRIERS, LONGEST_CALL = 256, 16, 400
MOST_BLOCKS, FURTHEST = 24, 20_000  # around a call, and characters before it
_NAME = r"[A-Za-z_]\w{0,40}"
_CALL = re.compile(
    rf"(?:\b(?P<bar>{_NAME})(?:\[[^\[\]\n;]{{1,60}}\])?(?:\.|->))?\b(?P<function>{_NAME})(?:<[^<>;\n]{{0,40}}>)?\("
)
_INITS = re.compile(r"init$|(?:mbarrier|m?bar)_?init|init(?:ialize)?_?m?bar", re.IGNORECASE)
_ARRIVES = re.compile(r"arrive|commit", re.IGNORECASE)
_USES = re.compile(r"expect|wait|load|copy|tma|bulk|inval|fence|prefetch", re.IGNORECASE)
# What reaches barriers from elsewhere, or hides how often: other blocks, copies that arrive themselves, macros.
_FROM_ELSEWHERE = re.compile(
    r"mapa|map_shared_rank|multicast|cluster|remote|noinc|cta_group::2|arrive_and_wait|arrive_and_drop|2sm|2cta",
    re.IGNORECASE,
)
_ARGUMENT = r"[^,;\n]{0,60}?(?<![\w.>]){name}\b[^,;\n]{0,60}"
_IS_THREAD = re.compile(
    rf"\b(?:int|unsigned|uint32_t|auto|size_t)(?: int)? (?P<name>{_NAME}) ?= ?(?:\(int\) ?)?threadIdx\.x ?;"
)
_LOOP = re.compile(r"\b(?:for|while|do)\b")
_HEADER = re.compile(r"[^;{}]{0,400}\Z")


class _Call(NamedTuple):
    """A call by its name, where it begins, and its arguments."""

    function: str
    begin: int
    given: Sequence[str]


def explain_counts(text: str, target: Target) -> Iterator[Diagnostic]:
    """Yield a barrier that waits for more arrivals than the code has, and one that gets more than it is made for.

    Args:
        text: the report, code among it.
        target: the GPU; nothing of one without such barriers.
    """
    if not target.mbarrier or "init" not in text or not hints_at_failure(text):
        return
    code = without_comments(text)
    names = constants(code)
    threads = {"threadIdx.x", *(match["name"] for match in islice(_IS_THREAD.finditer(code), MOST_CALLS))}
    told: set[str] = set()
    for bar, count, where in islice(_made(code, names), MOST_BARRIERS):
        found = _judged(code, bar, count, threads)
        if found is not None and found[0] not in told:
            told.add(found[0])
            refused = require(False, found[1], help=found[2], bar=bar, count=count, arrivals=found[3])
            yield replace(RULE_OF[found[0]].diagnostic(refused, f'text "{where}"'), level="warning")


def _made(code: str, names: Mapping[str, int]) -> Iterator[tuple[str, int, str]]:
    """Yield the barriers that are made once, each with its count and the call that makes it."""
    made: dict[str, list[tuple[int | None, str]]] = {}
    for match in islice(_CALL.finditer(code), MOST_CALLS):
        if not _INITS.search(match["function"]):
            continue
        given = arguments_of(code[match.end() : match.end() + LONGEST_CALL])
        bar = match["bar"] if len(given) == 1 else _named(given[0]) if len(given) == 2 else ""
        if bar:
            shown = " ".join(f"{match[0]}{', '.join(given)})".split())[:97]
            made.setdefault(bar, []).append((whole_number(given[-1], names), shown))
    for bar, calls in made.items():
        if len(calls) == 1 and calls[0][0] is not None and calls[0][0] > 0:
            yield bar, calls[0][0], calls[0][1]


def _named(argument: str) -> str:
    """Return the one name in an argument such as `&bar`, `bar + 1` or `smem_u32(&bar[i])`; "" of a declaration."""
    bare = re.sub(r"\[[^\[\]]*\]|\b(?:static|reinterpret)_cast<[^<>]*>|\b\w+\(|\(\w+ ?\*\)", " ", argument)
    found = re.findall(_NAME, bare)
    return found[0] if len(found) == 1 else ""


def _judged(code: str, bar: str, count: int, threads: set[str]) -> tuple[str, str, str, int] | None:
    """Return the rule that a barrier's arrivals break, with a message, a help and how many there are."""
    calls = _calls_of(code, bar)
    if calls is None or not any(re.search("wait", one.function, re.IGNORECASE) for one in calls):
        return None
    arrivals = [one for one in calls if _ARRIVES.search(one.function)]
    if not arrivals or any(_FROM_ELSEWHERE.search(f"{one.function} {' '.join(one.given)}") for one in calls):
        return None
    blocks = [_around(code, one.begin) for one in arrivals]
    if any("__global__" not in around[0] for around in blocks):
        return None
    if count == 1 and any(_by_all(code, one, around) for one, around in zip(arrivals, blocks, strict=True)):
        message = "{bar} is made for {count} arrival, and every thread of the block arrives"
        return "PIPE005", message, "let one thread arrive, or make the barrier for all that do", count + 1
    # Of a block with rows of threads one thread of each has the same number.
    alone = "threadIdx.y" not in code and all(
        _by_one(around, threads) and _awaited(code, bar, around) for around in blocks
    )
    if alone and len(arrivals) < count and not any(_counted(one) for one in arrivals):
        message = "{bar} is made for {count} arrivals, and the code has {arrivals}, by one thread each"
        return "PIPE004", message, "make it for the arrivals of a phase, or let each of them arrive", len(arrivals)
    return None


def _calls_of(code: str, bar: str) -> list[_Call] | None:
    """Return the calls that a barrier is used in; None where it is used in any other way, or in calls nobody knows."""
    found: list[_Call] = []
    argument = re.compile(_ARGUMENT.replace("{name}", re.escape(bar)))
    for match in islice(_CALL.finditer(code), MOST_CALLS):
        given = arguments_of(code[match.end() : match.end() + LONGEST_CALL])
        # A cast or an address stands between a call and what it is given.
        if match["bar"] == bar or (_known(match["function"]) and any(argument.fullmatch(one) for one in given)):
            found.append(_Call(match["function"], match.start(), given))
    uses = sum(1 for _ in re.finditer(rf"(?<![\w.>]){re.escape(bar)}\b", code))
    declared = len(re.findall(rf"__shared__[^;\n]{{0,80}}(?<![\w.>]){re.escape(bar)}\b", code))
    whole = uses == len(found) + declared and all(_known(one.function) for one in found)
    return found if whole else None


def _known(function: str) -> bool:
    return any(kind.search(function) for kind in (_INITS, _ARRIVES, _USES))


def _counted(call: _Call) -> bool:
    """Whether an arrival may be for several: it is given a number, and announces no bytes."""
    return len(call.given) > 1 and not re.search(r"expect|tx", call.function, re.IGNORECASE)


def _around(code: str, at: int) -> list[str]:
    """Return what heads the blocks around a place, the outermost first, and what stands before it in its statement."""
    heads: list[str] = []
    depth, end = 0, at
    while end > max(0, at - FURTHEST) and len(heads) < MOST_BLOCKS:
        end -= 1
        if code[end] == "}":
            depth += 1
        elif code[end] == "{" and depth:
            depth -= 1
        elif code[end] == "{":
            head = _HEADER.search(code, max(0, end - 400), end)
            heads.append("" if head is None else head[0])
    before = _HEADER.search(code, max(0, at - 400), at)
    return [*reversed(heads), "" if before is None else before[0]]


def _by_one(around: Sequence[str], threads: set[str]) -> bool:
    """Whether one thread of a block comes here: a branch compares the thread's own number with one."""
    names = "|".join(map(re.escape, threads))
    one = re.compile(rf"\bif ?\([^|]*(?<![\w.])(?:{names}) ?== ?\d{{1,4}}\b[^|]*\)\s*\Z")
    return any(one.search(head) for head in around)


def _by_all(code: str, call: _Call, around: Sequence[str]) -> bool:
    """Whether every thread comes here: no branch stands around, and none has left before."""
    begin = code.rfind("__global__", 0, call.begin)
    left = re.search(r"\b(?:return|goto|asm|break|continue)\b|\?", code[begin : call.begin])
    branches = any(re.search(r"\b(?:if|else|switch|case|while|elect\w*)\b", head) for head in around[1:])
    return "threadIdx" in code and left is None and not branches


def _awaited(code: str, bar: str, around: Sequence[str]) -> bool:
    """Whether no loop repeats an arrival but one that waits for the barrier as well."""
    if not any(_LOOP.search(head) for head in around):
        return True
    loops = [head for head in around if _LOOP.search(head)]
    at = code.find(loops[0])
    return len(loops) == 1 and re.search(rf"wait\w*\([^;\n]*\b{re.escape(bar)}\b", code[at:]) is not None
