"""What a pasted kernel does in the wrong order, or leaves out: the events of its lines, one after the other.

A line of a kernel, whatever its language, initialises a barrier, expects bytes, issues a copy, waits, arrives,
multiplies, stores, fences. Their order is read as it stands; what loops repeat is known by indentation or by braces,
and where neither says it, by the word of the loop. Nothing is executed: what is found is a warning, and only where the
text says that something fails. That nothing is found says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from legalsat.diagnostics import Diagnostic
from legalsat.pasted.sentences import RULE_OF
from legalsat.pasted.wording.likely import hints_at_failure
from legalsat.rule import require
from legalsat.targets import Target

MOST_LINES, LONGEST_LINE, LEAST_EVENTS = 2000, 400, 2
_COMMENT = re.compile(r"//.*$|(?<![\"'\w])#(?!pragma|include).*$|/\*.*?\*/")
_LOOP = re.compile(r"^\s*(?:for|while)\b|^\s*(?:for|while) ?\(|\bouter-most for\b|\bfor each\b", re.IGNORECASE)
_NO_CODE = re.compile(r"^\s*(?:template|using|#include|import|from|def|class|static_assert|return [\w.]+;?$)")
# Each event, the first that a statement matches; a statement may be several calls on one line.
_EVENTS = tuple(
    (name, re.compile(pattern, re.IGNORECASE))
    for name, pattern in (
        (
            "init",
            r"\bm?bar(?:rier)?s?_?\w{0,12}[._:]+init\(|mbarrier[._]?init(?!\w*fence)\w{0,4}\b(?=.*\()|\binit_barrier\(",
        ),
        ("init_fence", r"fence_?barrier_?init|mbarrier_init_fence|fence\.mbarrier_init"),
        ("proxy", r"fence[._ ]?(?:view_)?(?:proxy[._ ]?)?async|fence_proxy|fence_async_shared|tma_store_fence"),
        ("expect", r"expect_?(?:tx|bytes|transaction)|arrive_and_expect|arriveExpectTX|set_barrier_transaction"),
        (
            "store_wait",
            r"(?:bulk[._]?)?wait_?group(?:[._]?read)?\b(?=.*bulk)|cp\.async\.bulk\.wait_group|store_wait|"
            r"cpAsyncBulkWaitGroup|bulk_wait_group",
        ),
        (
            "store_commit",
            r"cp\.async\.bulk\.commit_group|cpAsyncBulkCommitGroup|store_arrive|bulk_commit_group|"
            r"tma_commit_group",
        ),
        (
            "tma_store",
            r"tma_?store\w*\(|shared_to_global\(|bulk_?tensor\w{0,12}s2g|\bTMA\b.{0,40}\bsmem to gmem|"
            r"tma store$|desc\w*\.store\(|cp\.(?:reduce\.)?async\.bulk\.(?:tensor\.\dd\.)?global\b",
        ),
        ("copy_commit", r"cp[._]?async[._]?commit\w*|__pipeline_commit|^\s*commit\b"),
        ("copy_wait", r"cp[._]?async[._]?wait\w*|__pipeline_wait_prior|^\s*wait (?:stage|\d)"),
        (
            "tma_load",
            r"tma_?load\w*\(|cp_?async_?bulk_?tensor\w*\(|cp\.async\.bulk\.tensor|async_copy_global_to_shared\(|"
            r"tma\.async_copy\w*\(|cpAsyncBulkTensorTileG2S\(|\btma_bar_ptr\b|^\s*(?:issue )?tma(?: load)?;?\s*$",
        ),
        ("copy", r"\bcp[._]?async(?![._]?bulk)\w*\b"),
        ("mma_wait", r"warpgroup_wait|wgmma[._]wait_group|warp_group_dot_wait|\bwgmma wait\b"),
        ("mma_commit", r"warpgroup_commit|wgmma[._]commit_group|\bwgmma commit\b"),
        (
            "mma",
            r"\bwgmma\b(?![._](?:fence|commit|wait))|tcgen05[._]mma|\basync_dot\(|warpgroup_mma\(|\btl\.dot\(|"
            r"warp_group_dot\(|\bgemm\(",
        ),
        (
            "wait",
            r"\b\w{0,24}(?:mbar|barrier|bar|full|empty)\w{0,24}(?:\[[^\]]{0,40}\])?[._]+(?:try_)?wait\w{0,16}\(|"
            r"\bm?bar(?:rier)?_?\w{0,8}_?wait\w{0,16}\(|^\s*wait\(|try_wait|waitParity\(|consumer_wait\(|producer_acquire\(",
        ),
        (
            "arrive",
            r"\b\w{0,24}(?:bar|full|empty)\w{0,24}(?:\[[^\]]{0,40}\])?[._]+arrive\w{0,16}\(|"
            r"\bm?bar(?:rier)?_?arrive\w{0,16}\(|^\s*arrive\(|consumer_release\(",
        ),
        (
            "sync",
            r"__syncthreads\(|__syncwarp\(|bar\.sync|barrier\.sync|sync_threads\(|debug_barrier\(|block\.sync\(|"
            r"cuda\.syncthreads|\bnamed_bar\w{0,20}\(|NamedBarrier\w{0,12}::sync\(",
        ),
    )
)


# How threads write shared memory, and what the matrix units of Hopper and Blackwell are called in code.
_WRITES = re.compile(
    r"st\.shared|stmatrix|st_shared|\b(?:s(?:m|mem|hared|hmem|h)_?\w{0,40}|\w{1,40}_smem|sm?[A-Z]\w{0,8})(?:\[[^\n;]{1,80}\])?\[[^\n;]{1,80}\]\s?=[^=]|"
    r"local_store|r2s"
)
# Pipelines that expect the bytes themselves, and barriers that are handed a number of them under any other name.
_PIPELINES = re.compile(
    r"producer_acquire|\bPipelineTma\w*|\btx_count\b|acquire_and_advance|\bnum_bytes ?=|\b\w{0,12}bar\w{0,12}_tx\(|"
    r"full\w{0,16}(?:\[[^\]]{0,40}\])?\.arrive\(\s{0,80}[^\s)]"
)
_FUNCTION = re.compile(r"^\s*(?:async )?def \w|__(?:device|global|host)__|\bfn \w+[(<]")
_BARRIER = re.compile(  # that is initialised
    r"init\w{0,24}\(\s?&?\s?(?P<given>[A-Za-z_]\w*)|(?P<own>[A-Za-z_]\w*)(?:\[[^\]]{0,24}\])?(?:\.|->)init\("
)
_FIRST_PHASE = re.compile(r",\s?0\s?\)\s?;?\s*$")
# Barriers that say that a tile is there, and those of them that say so of accumulators, which are waited for behind.
_OF_OPERANDS = re.compile(r"full\w*_?[ab]?\b", re.IGNORECASE)
_OF_SUMS = re.compile(r"tmem|acc(?:um\w*)?_|accum|mma_|epi", re.IGNORECASE)
_MATRIX_UNIT = re.compile(r"\bwgmma\b|tcgen05[._]mma|warpgroup_mma\(")


class Event(NamedTuple):
    """One event: its kind, the line that it stands in, its words, the loops around it by their lines, its function."""

    kind: str
    line: int
    words: str
    loops: tuple[int, ...]
    function: int = 0


def explain_order(text: str, target: Target) -> Iterator[Diagnostic]:
    """Yield what the code of a text does in the wrong order or leaves out, where the text says that it fails.

    Args:
        text: the report, code among it.
        target: the GPU.
    """
    if not hints_at_failure(text):
        return
    events = list(events_of(text))
    if len(events) < LEAST_EVENTS:
        return
    for code, message, help_, at in _found(events, text):
        rule = RULE_OF[code]
        if rule.unit.limits(target) is not None:
            refused = require(False, message, help=help_)
            where = f'text "{" ".join(at.words.split())[:97]}"'.replace("{", "(").replace("}", ")")
            yield replace(rule.diagnostic(refused, where), level="warning")


def events_of(text: str) -> Iterator[Event]:
    """Yield the events of a text's lines in their order, each with the loops that it stands in."""
    loops: list[tuple[int, int, int]] = []  # line, indentation, depth of braces inside
    depth = functions = 0
    for number, raw in enumerate(text.split("\n")[:MOST_LINES]):
        line = _COMMENT.sub("", raw[:LONGEST_LINE])
        functions += _FUNCTION.search(line) is not None
        if not line.strip() or _NO_CODE.match(line):
            continue
        margin = len(line) - len(line.lstrip())
        closes = line.strip().startswith("}")
        if loops and loops[-1][0] == number - 1 and line.strip().startswith("{"):  # a brace in a line of its own
            loops[-1] = (number, loops[-1][1], depth + 1)
            depth += line.count("{") - line.count("}")
            continue
        loops = [one for one in loops if margin > one[1] or (one[2] and depth >= one[2] and not closes)]
        for statement in _statements(line):
            if _LOOP.match(statement):
                loops.append((number, margin, depth + 1 if "{" in line else 0))
            kind = next((name for name, pattern in _EVENTS if pattern.search(statement)), None)
            if kind is not None:
                yield Event(kind, number, statement, tuple(one[0] for one in loops), functions)
        depth += line.count("{") - line.count("}")


def _statements(line: str) -> Sequence[str]:
    """Return the statements of a line: "for each tile: init(bar); issue TMA; wait(phase);" has four."""
    if line.count(";") < 2 or re.match(r"\s*for ?\(", line):
        return (line,)
    head, colon, tail = line.partition(":")
    parts = [f"{head}:", *tail.split(";")] if colon and _LOOP.match(head) else line.split(";")
    return [part for part in parts if part.strip()]


_Found = tuple[str, str, str, Event]


def _found(events: Sequence[Event], text: str) -> Iterator[_Found]:
    of = {kind: [one for one in events if one.kind == kind] for kind, _ in _EVENTS}
    yield from _initialised_again(of)
    yield from _bytes_not_expected(of, text)
    yield from _waited_late(events)
    yield from _committed_late(events)
    yield from _store_reused(events, of)
    yield from _not_fenced(of, text)
    yield from _not_met(events, of)


def _initialised_again(of: dict[str, list[Event]]) -> Iterator[_Found]:
    """A barrier is initialised in a loop in which it is waited for, and the parity goes on."""
    for init in of["init"]:
        name = _BARRIER.search(init.words)
        waits = [
            one
            for one in of["wait"]
            if init.loops
            and init.loops[-1] in one.loops
            and one.line >= init.line
            and not _FIRST_PHASE.search(one.words)
        ]
        stages = re.search(r"\[\s*(?:i|s|st\w*|stage\w*)\s*\]", init.words)
        if any(name is None or (name["given"] or name["own"]) in one.words for one in waits) and not stages:
            message = (
                "the barrier is initialised anew in each round of the loop that waits for it, which resets its phase"
            )
            yield (
                "PIPE024",
                message,
                "initialise it once before the loop, and flip the parity of the wait each round",
                init,
            )
            return


def _bytes_not_expected(of: dict[str, list[Event]], text: str) -> Iterator[_Found]:
    if _PIPELINES.search(text):  # which expect the bytes themselves
        return
    if of["tma_load"] and of["wait"] and not of["expect"] and (of["init"] or of["arrive"]):
        message = "copies complete bytes at a barrier that is told to expect none"
        help_ = "let the thread that issues the copies arrive with expect_tx of the bytes of all of them, before them"
        yield "PIPE006", message, help_, of["tma_load"][0]


def _waited_late(events: Sequence[Event]) -> Iterator[_Found]:
    """A product stands before the wait of its operand, or between waits for fewer barriers than operands it names."""
    for at, product in enumerate(events):
        if product.kind != "mma":
            continue
        before, following = (
            [one for one in some if one.kind == "wait" and one.function == product.function]
            for some in (events[:at], events[at + 1 :])
        )
        after = [one for one in following if one.loops == product.loops]
        names = set(re.findall(r"(?:data|s|smem|tile|buf)_?([ab])\b", product.words, re.IGNORECASE))
        waited = {name.lower() for one in before for name in re.findall(r"_([ab])\b", one.words, re.IGNORECASE)}
        late = [one for one in after if _OF_OPERANDS.search(one.words) and not _OF_SUMS.search(one.words)]
        if before and late and not product.loops:
            message = "the product is issued before the barrier of one of its operands is waited for"
            yield "PIPE009", message, "wait for the barrier of every operand before the product", late[0]
            return
        if waited and {name.lower() for name in names} > waited:
            message = "the product reads an operand whose barrier is not waited for"
            yield "PIPE009", message, "wait for the barrier of every operand before the product", product
            return


def _committed_late(events: Sequence[Event]) -> Iterator[_Found]:
    """In a loop, a group of copies is waited for before it is committed, though it was issued before the wait."""
    for at, commit in enumerate(events):
        if commit.kind != "copy_commit" or not commit.loops:
            continue
        before = [one for one in events[:at] if one.loops == commit.loops]
        kinds = [one.kind for one in before]
        if "copy_wait" not in kinds or "copy" not in kinds:
            continue
        issued, waited = kinds.index("copy"), len(kinds) - 1 - kinds[::-1].index("copy_wait")
        if issued < waited and "copy_commit" not in kinds[issued:]:
            message = "the round's copies are committed after the wait, which so waits for a group too few"
            yield "PIPE009", message, "commit each round's copies right after them, before the wait", commit
            return


def _store_reused(events: Sequence[Event], of: dict[str, list[Event]]) -> Iterator[_Found]:
    """A bulk store in a loop is committed or waited for after the loop alone, or not at all."""
    for store in of["tma_store"]:
        if not store.loops:
            continue
        inside = [one for one in events if store.loops[-1] in one.loops]
        if not any(one.kind == "store_wait" for one in inside) and (of["store_wait"] or of["store_commit"]):
            message = "the loop stores from the same shared memory each round, and waits for no store in it"
            help_ = "commit each round's stores, and wait for their reading before the buffer is written again"
            yield "PIPE013", message, help_, store
            return


def _not_fenced(of: dict[str, list[Event]], text: str) -> Iterator[_Found]:
    """Threads write what a bulk store or a product reads, meet at a barrier, and no proxy fence stands between.

    Of products only where nothing is loaded by the copy engine, whose operands need no fence.
    """
    writes = _WRITES.search(text)
    readers = [*of["tma_store"], *(one for one in of["mma"] if _MATRIX_UNIT.search(one.words) and not of["tma_load"])]
    if not writes or of["proxy"]:
        return
    written = text.count("\n", 0, writes.start())
    for reader in readers:
        if any(written <= met.line <= reader.line for met in of["sync"]):
            by = "a bulk store" if reader.kind == "tma_store" else "the matrix unit"
            message = f"threads write shared memory that {by} reads, with no proxy fence between"
            help_ = f"let every writing thread execute fence.proxy.async before the barrier in front of {by}"
            yield "PIPE010", message, help_, reader
            return


def _not_met(events: Sequence[Event], of: dict[str, list[Event]]) -> Iterator[_Found]:
    """The whole loop of a block loads by one thread and multiplies by all, and nothing lets the others catch up."""
    for load in of["tma_load"]:
        if not load.loops or of["sync"] or of["arrive"]:
            continue
        inside = [one for one in events if load.loops[-1] in one.loops]
        if any(one.kind == "mma_wait" for one in inside) and any(one.kind == "wait" for one in inside):
            message = "one thread issues the next round's copy while other warps may still read the round's operands"
            help_ = "let every warp arrive at a barrier of the free stage, or meet at the loop's end, before the copy"
            yield "PIPE008", message, help_, load
            return
