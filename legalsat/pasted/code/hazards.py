"""Shared memory in a pasted kernel that threads read or overwrite with nothing between that lets them meet.

Statements of CUDA C++ are read in their order, bodies of loops twice, as the next round follows the last. An array of
shared memory is written by each thread where its index says: another index, or another choice of threads, is another
thread's, and between the two a barrier must stand. What a snippet leaves out ("...") or hands to a function may hold
one. Nothing is executed: what is found is a warning, and only where the text says that something fails.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice

from legalsat.diagnostics import Diagnostic
from legalsat.pasted.sentences import RULE_OF
from legalsat.pasted.wording.likely import hints_at_failure
from legalsat.rule import require
from legalsat.targets import Target

MOST_CHARACTERS, MOST_ARRAYS, MOST_STATEMENTS, LONGEST_STATEMENT, DEEPEST, MOST_OPEN = 20_000, 8, 600, 400, 3, 32
MOST_BLOCKS = 48  # one in another
_DECLARED = re.compile(
    r"__shared__\s+(?:volatile\s+)?(?:(?:unsigned|const|typename)\s+)?[\w:]+(?:<[^;<>]{0,40}>)?\s+(?P<name>[A-Za-z_]\w*)"
)
_NAMED = re.compile(
    r"\b(?P<name>s(?:m(?:em)?|h(?:ared|mem|m)?)?_\w+|sdata|smem|shmem|red|\w+_(?:sh|slm|smem|shared))\s?\["
)
_MEETS = re.compile(
    r"__sync|\bbar(?:rier)?[._]\w*sync|\bsync(?:_?threads|warp)?\(|[.:]sync\(|barrier\w*\(|Barrier\(|\bwait\w*\(|^\s*\.\.\."
)
# Lanes of a warp meet where they exchange values: what one warp alone has done before, its lanes have done.
_LANES_MEET = re.compile(
    r"\b_{0,2}(?:shfl|reduce)\w{0,12}_sync|\b\w{0,20}warp_?(?:\w{1,20}_)?(?:reduce|sum|max|min)\w{0,12}\(",
    re.IGNORECASE,
)
_ONE_WARP = re.compile(
    r"warp\w{0,12}==\d|(?:tid|threadIdx\.x)<(?:32\b|\w{0,12}warp_?size|\w{0,12}warps\w{0,12})|"
    r"(?:lane|tid|threadIdx\.x)\w{0,8}\s?<\s?\w{0,12}warps\w{0,12}\s{0,20}\?",
    re.IGNORECASE,
)
_THREAD = r"(?:tid|threadIdx\.[xyz]|lane(?:_?id)?|tx|ty|lid|ltid|local_?id)"
_BY_THREAD = re.compile(rf"(?<![\w.])(?P<name>[A-Za-z_]\w*)\s?\[\s*{_THREAD}\s*\]\s*=(?!=)")
_INITIAL = re.compile(r"\{\s*\}|=\s*\{[^{};]{0,200}\}")  # braces of values
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_OF_THREADS = re.compile(
    r"thread(?:Idx|_rank|_id)|\btid\w*|\blane\w*|warp\w*id|\bwid\b|meta_group_rank|\bt[xy]\b|\blid\b|\bltid\b"
)
_CHOOSES = re.compile(rf"(?:==|!|<(?!<))|^\s*(?:{_OF_THREADS.pattern})\s*$")
_HEADER = re.compile(r"(?P<word>\bfor|\bwhile|\bif|\belse if|\belse|\bdo)\b\s*(?=[({\w]|$)")
_NO_CODE = re.compile(r"^\s*(?:template|typename|struct|class|using|#)\b|<<<")
_LOOPS = ("for", "while", "do")
_ANEW = "..."  # as if threads met: what was done before is not followed
_SHOWN = 97


@dataclass(slots=True)
class _Block:
    """Statements in their order, of a loop's body or not, and by which choice of threads they are executed."""

    loops: bool = False
    chosen: str = ""
    inside: list[str | _Block] = field(default_factory=list)


@dataclass(slots=True, frozen=True)
class _Access:
    """An access of an array: at which index, by which choice of threads, in which statement."""

    index: str
    chosen: str
    statement: str

    def meets(self, other: _Access) -> bool:
        """Whether it may be another thread's access of the same word."""
        if self.statement == other.statement:
            return False
        mine, others = set(_OF_THREADS.findall(self.index)), set(_OF_THREADS.findall(other.index))
        if self.index == other.index:  # each thread's own word, or one word of all
            return not mine and self.chosen != other.chosen
        return bool(mine | others)

    def is_of_one_warp(self) -> bool:
        """Whether only threads of one warp do it."""
        return _ONE_WARP.search(self.chosen) is not None or _ONE_WARP.search(self.statement) is not None

    def is_apart(self, other: _Access) -> bool:
        """Whether its index is another function of the thread, not one with other numbers."""
        return set(_OF_THREADS.findall(self.index)) != set(_OF_THREADS.findall(other.index))


def explain_hazards(text: str, target: Target) -> Iterator[Diagnostic]:
    """Yield what threads of a kernel's code read or overwrite too early, each rule once.

    Args:
        text: the report, code among it.
        target: the GPU.
    """
    if not (_MEETS.search(text) or "__shared__" in text) or not hints_at_failure(text):
        return
    code = _COMMENT.sub(lambda found: "\n" * found[0].count("\n"), text[:MOST_CHARACTERS])
    code = _INITIAL.sub(lambda found: "= 0" if found[0][0] == "=" else "", code)
    names = dict.fromkeys(
        found["name"] for pattern in (_DECLARED, _NAMED, _BY_THREAD) for found in pattern.finditer(code)
    )
    blocks, told = _blocks(code), set[str]()
    for name in islice(names, MOST_ARRAYS):
        for rule, message, help_, statement in _hazards(name, blocks):
            if rule not in told and RULE_OF[rule].unit.limits(target) is not None:
                told.add(rule)
                words = " ".join(statement.split())[:_SHOWN].replace("{", "(").replace("}", ")")
                refused = require(False, message, help=help_, name=name)
                yield replace(RULE_OF[rule].diagnostic(refused, f'text "{words}"'), level="warning")


def _blocks(code: str) -> _Block:
    """Return the statements of a text, by braces and semicolons outside of brackets."""
    stack = [_Block()]
    begin = depth = count = 0
    for at, char in enumerate(code):
        depth = max(depth + (char in "([") - (char in ")]"), 0)
        if char == "\n" and at - begin > LONGEST_STATEMENT:  # prose
            begin, depth = at + 1, 0
        if char not in "{};" or (char == ";" and depth):
            continue
        words, begin, depth = code[begin:at], at + 1, 0
        if char == "{" and len(stack) < MOST_BLOCKS:
            stack.append(_opened(words, stack[-1]))
        else:
            count += 1
            if words.strip() and count < MOST_STATEMENTS:
                stack[-1].inside.append(_single(words, stack[-1]))
        if char == "}" and len(stack) > 1:
            closed = stack.pop()
            stack[-1].inside.append(closed)
    for outer, inner in zip(reversed(stack[:-1]), reversed(stack[1:]), strict=True):
        outer.inside.append(inner)  # what the text does not close
    return stack[0]


def _opened(words: str, around: _Block) -> _Block:
    """Return the block that a header opens, and what stands before the header in the block around it."""
    header = _HEADER.search(words)
    if header is None:  # a function begins anew, a bare block goes on
        return _Block(chosen=around.chosen, inside=[_ANEW] if words.strip() else [])
    inside: list[str | _Block] = [_ANEW] if header["word"].startswith("else") else []
    return _Block(header["word"] in _LOOPS, _chosen(words[header.start() :], around.chosen), inside)


def _single(words: str, around: _Block) -> str | _Block:
    """Return a statement, or the block of one that stands after a header without braces."""
    header = _HEADER.search(words)
    if header is None or header["word"] == "do" or len(words) > LONGEST_STATEMENT:
        return words
    condition, end = _condition(words[header.start() :])
    found = _Block(header["word"] in _LOOPS, _chosen(f"({condition})", around.chosen))
    found.inside += [_ANEW] if header["word"].startswith("else") else []
    found.inside.append(_single(words[header.start() + end :], found))
    return found


def _condition(words: str) -> tuple[str, int]:
    """Return what stands in the first brackets, and where they end."""
    begin = words.find("(")
    depth = 0
    for at in range(max(begin, 0), len(words)):
        depth += (words[at] == "(") - (words[at] == ")")
        if depth == 0 and begin >= 0:
            return words[begin + 1 : at], at + 1
    return "", len(words) if begin >= 0 else max(words.find("else") + 4, 1)


def _chosen(header: str, around: str) -> str:
    """Return by which threads what a header opens is executed: those around it, or fewer."""
    condition, _ = _condition(header)
    if ";" in condition or not _OF_THREADS.search(condition) or not _CHOOSES.search(condition):
        return around
    return f"{around}&{''.join(condition.split())}"


def _hazards(name: str, blocks: _Block) -> Iterator[tuple[str, str, str, str]]:
    """Yield the rule, the message, the help and the statement of what is read or overwritten too early."""
    access = re.compile(
        rf"(?P<atomic>\batomic\w+\(\s*&?\s*)?(?<![\w.]){re.escape(name)}\b(?P<index>(?:\s?\[[^\[\]]*(?:\[[^\]]*\])?[^\[\]]*\])*)"
        r"\s*(?P<sets>(?P<both>[-+*/|&^]|<<|>>)?=(?!=)|\+\+|--)?(?P<call>\s*(?:,|\)))?"
    )
    declared = re.compile(rf"__shared__[^;]*\b{re.escape(name)}\b|\w ?\*(?: ?const)? ?{re.escape(name)} ?=")
    reads: list[_Access] = []
    writes: list[_Access] = []
    for words, chosen in _flat(blocks, 0):
        if _MEETS.search(words):
            reads, writes = [], []
            continue
        if _LANES_MEET.search(words):
            reads = [one for one in reads if not one.is_of_one_warp()]
            writes = [one for one in writes if not one.is_of_one_warp()]
        if name not in words or declared.search(words) or _NO_CODE.search(words):
            continue
        new_reads: list[_Access] = []
        new_writes: list[_Access] = []
        for found in access.finditer(words):
            index = "".join(found["index"].split())
            if found["call"] and not index and not found["atomic"]:  # what a function does with it is not known
                reads, writes, new_reads, new_writes = [], [], [], []
                break
            one = _Access(index, chosen, words)
            sets = found["sets"] or found["atomic"]
            new_writes += [one] if sets else []
            new_reads += [one] if not sets or found["both"] or found["sets"] in ("++", "--") else []
        if any(old.meets(new) for old in writes for new in new_reads):
            message = "threads read {name} where others write it, and no barrier stands between the write and the read"
            help_ = "let the threads that write it and those that read it meet between (__syncthreads, or __syncwarp)"
            yield "PIPE009", message, help_, words
        elif any(old.meets(new) and old.is_apart(new) for old in writes for new in new_writes):
            message = "threads write {name} where others have written it, and no barrier stands between the two"
            yield "PIPE009", message, "let all threads meet (__syncthreads) between the two writes", words
        if any(old.meets(new) for old in reads for new in new_writes):
            message = "threads write {name} while others may still read it: no barrier stands after the read"
            help_ = "let all threads meet (__syncthreads) after the read, before it is written again"
            yield "PIPE008", message, help_, words
        reads, writes = [*reads, *new_reads][-MOST_OPEN:], [*writes, *new_writes][-MOST_OPEN:]


def _flat(block: _Block, depth: int) -> Iterator[tuple[str, str]]:
    """Yield the statements of a block in the order of two rounds of its loops, with the choice of their threads."""
    for _ in range(2 if block.loops and depth < DEEPEST else 1):
        for one in block.inside:
            if isinstance(one, _Block):
                yield from _flat(one, depth + block.loops)
            else:
                yield one, block.chosen
