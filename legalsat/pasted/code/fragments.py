"""Python in a text, as statements: whole scripts, functions, or lines between prose and logs.

A statement is parsed with what stands under it; where that is no Python, what stands under it is read by itself, and of
a line the calls in it. Work is bounded by the characters that are handed to the parser, whatever the text.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Sequence
from textwrap import dedent

MOST_CHARACTERS = 200_000  # handed to the parser
LONGEST_LINE, MOST_LINES, MOST_BRACKETS = 2_000, 600, 60  # of one statement
MOST_CALLS, LONGEST_CALL = 64, 300  # in lines that are no Python
CALL = re.compile(
    r"\b(?:[A-Za-z_]\w*\.)*(?:randn|rand|empty|zeros|ones|full|randint|empty_strided|empty_strided_cuda|rand_strided|"
    r"as_strided)(?=\()"
)
_SIGN = re.compile(
    r"\b(?:randn|rand|empty|zeros|ones|full|randint|normal|\w*_strided\w*|arange|ShapeDtypeStruct|Tensor|randn_like|"
    r"TensorDescriptor|from_tensor|\w*make_tensor_descriptor|create_[12]d_tma_descriptor|alloc_shared|BlockSpec|GPUSpec|"
    r"SMEM|make_tiled_tma_atom\w*|Linear|_?scaled_mm|_?\w*grouped_mm)\b\s*\("
)
_PROMPT = re.compile(r"^[ \t]*(?:>>>|\.\.\.|In \[\d+\]:|\d+ \|)[ ]?")
_STATEMENT = re.compile(
    r"(?:@|def |async def |class |for |while |if |with |try:|return\b|assert |import |from )"
    r"|[\w.\[\]'\", *]+(?::[ \t]*[\w.\[\]]+[ \t]*)?[ \t]*(?:[-+*/%]|//)?=(?!=)|[\w.]+(?:\[[^\n]*\])?[ \t]*\("
)
_CONTINUES = re.compile(r"(?:else|elif\b.*|except\b.*|finally)[ \t]*:|[)\]}]")
_MAY_SAY, _MAY_FAIL = re.compile(r"[ \t]*raise\b"), re.compile(r"[ \t]*(?:raise|assert)\b")
_QUOTED = re.compile(r"\"\"\"|'''|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|#[^\n]*")


def statements(text: str) -> list[ast.stmt]:
    """Return the statements of Python in a text, in its order; none if nothing in it makes or uses arrays."""
    if not _SIGN.search(text):
        return []
    lines = [_PROMPT.sub("", line) for line in text.split("\n")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of strings that the text escapes otherwise
        return list(_Fragments().read(lines, 0))


def without_asides(text: str) -> str:
    """Return a text without what functions and loops in it only may say: comments, messages to raise, and assertions.

    An assertion stays where the text says that one failed.
    """
    if not _SIGN.search(text):
        return text
    lines = text.split("\n")
    reader = _Fragments()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in reader.read([_PROMPT.sub("", line) for line in lines], 0):
            pass
    aside = _MAY_SAY if "AssertionError" in text else _MAY_FAIL
    for begin, end in reader.blocks:
        for at in range(begin, end):
            lines[at] = "" if aside.match(lines[at]) else _QUOTED.sub(_uncommented, lines[at])
    for at in range(1, len(lines)):  # of a script whose line before it is no assertion either
        if aside.match(lines[at]) and _STATEMENT.match(lines[at - 1].lstrip()) and not _MAY_FAIL.match(lines[at - 1]):
            lines[at] = ""
    return "\n".join(lines)


def _uncommented(found: re.Match[str]) -> str:
    return "" if found[0].startswith("#") else found[0]


class _Fragments:
    """Reads lines, and counts what it has read; `blocks` are the lines of functions, loops and the like."""

    def __init__(self) -> None:
        self.left, self.calls = MOST_CHARACTERS, MOST_CALLS
        self.blocks: list[tuple[int, int]] = []

    def read(self, lines: Sequence[str], depth: int) -> Iterator[ast.stmt]:
        """Yield the statements of lines."""
        at = 0
        while at < len(lines) and self.left > 0:
            line = lines[at]
            bare = line.lstrip()
            if not bare or bare[0] == "#":
                at += 1
                continue
            if not _STATEMENT.match(bare):
                yield from self._called(line)
                at += 1
                continue
            end = _end(lines, at)
            found = self._parsed(lines[at:end])
            if found is None and end > at + 1 and _opens(lines[at:end]) and depth < 8:
                yield from self.read([*lines[at + 1 : end]], depth + 1)
            elif found is None:
                yield from self._called(line)
                end = at + 1
            else:
                if depth == 0 and end > at + 1 and _opens(lines[at:end]):
                    self.blocks.append((at, end))
                yield from found
            at = end

    def _parsed(self, lines: Sequence[str]) -> list[ast.stmt] | None:
        source = dedent("\n".join(lines))
        self.left -= len(source)
        if self.left < 0 or any(len(line) > LONGEST_LINE for line in lines) or _depth(source) > MOST_BRACKETS:
            return None
        try:
            return ast.parse(source).body
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            return None

    def _called(self, line: str) -> Iterator[ast.stmt]:
        """Yield the calls in a line that is no Python, such as one of a log."""
        end = 0
        for match in CALL.finditer(line):
            if match.start() < end or self.calls <= 0:
                continue
            self.calls -= 1
            end = _closes(line, match.end())
            found = self._parsed([line[match.start() : end]]) if end else None
            yield from found or []


def _closes(line: str, begin: int) -> int:
    """Return where the bracket that opens at `begin` is closed, and what is called on it; 0 if it is not."""
    depth = 0
    for at in range(begin, min(begin + LONGEST_CALL, len(line))):
        depth += (line[at] in "([{") - (line[at] in ")]}")
        if depth == 0:
            after = re.compile(r"(?:\.(?:to|type|half|bfloat16|float|double|t)\([\w.=]*\)|\.[TH]\b)*").match(
                line, at + 1
            )
            return after.end() if after else at + 1
    return 0


def _depth(source: str) -> int:
    depth = most = 0
    for char in source:
        depth += (char in "([{") - (char in ")]}")
        most = max(most, depth)
    return most


def _end(lines: Sequence[str], begin: int) -> int:
    """Return the line after the statement that begins at a line: its brackets, its block, and what continues it."""
    margin = _margin(lines[begin])
    open_brackets, quote, at = 0, "", begin
    decorated = lines[begin].lstrip().startswith("@")
    last = begin
    while at < min(len(lines), begin + MOST_LINES):
        line = lines[at]
        bare = line.strip()
        if at > begin and not quote and open_brackets <= 0 and bare:
            outside = _margin(line) <= margin
            if outside and not decorated and not (_margin(line) == margin and _CONTINUES.match(bare)):
                break
            decorated = decorated and bare.startswith("@") and outside
        if bare or quote:
            last = at
        open_brackets, quote = _balance(line, max(open_brackets, 0), quote)
        at += 1
    return last + 1


def _balance(line: str, depth: int, quote: str) -> tuple[int, str]:
    """Return how many brackets are open after a line, and the long string that is."""
    at = 0
    if quote:
        end = line.find(quote)
        if end < 0:
            return depth, quote
        at, quote = end + 3, ""
    while at < len(line):
        match = _QUOTED.search(line, at)
        plain = line[at : match.start() if match else len(line)]
        depth += sum((char in "([{") - (char in ")]}") for char in plain)
        if match is None:
            break
        at = match.end()
        if match[0] in ('"""', "'''"):
            end = line.find(match[0], at)
            if end < 0:
                return depth, match[0]
            at = end + 3
    return depth, ""


def _margin(line: str) -> int:
    return len(line) - len(line.lstrip())


def _opens(lines: Sequence[str]) -> bool:
    """Whether lines are a statement and what stands under it, not one call over several lines."""
    return any(line.rstrip().endswith(":") for line in lines[:8]) or lines[0].lstrip().startswith("@")
