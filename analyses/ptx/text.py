"""PTX text as kernels of instructions, each with its line; nothing is interpreted here.

Scopes in braces, such as a loop in inline assembly, get names of their own for their registers and labels.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace

from legalsat.analyses.ptx.instruction import (
    MOST_STATEMENT,
    Instruction,
    NotPtx,
    number_of,
    require_whole,
    shortened,
)

DEFAULT_THREADS = 128


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a kernel.

    Attributes:
        name: as declared. type: such as "u32".
        bytes: if it is an array (a tensor map has 128), else 0.
        pointer: whether it is declared as one.
    """

    name: str
    type: str
    bytes: int
    pointer: bool = False


@dataclass(frozen=True, slots=True)
class Symbol:
    """A variable in shared or local memory; `bytes` is 0 where the launch decides."""

    name: str
    bytes: int
    alignment: int


@dataclass(slots=True)
class Kernel:
    """One entry point.

    Attributes:
        cluster: CTAs of a cluster along x, y and z; zeros where the launch decides. cluster_known: the text says it.
        threads: of a block, x, y and z; what `.reqntid` or `.maxntid` says, else 128. `threads_known` where `.reqntid`
            or the caller says it, `threads_at_most` where `.maxntid` does.
        labels: index of the instruction that each label stands before.
        tables: branch targets of `brx.idx`, by the table's name.
        shared: variables declared inside. local: those of each thread.
    """

    name: str
    line: int
    parameters: tuple[Parameter, ...]
    threads: tuple[int, int, int]
    threads_known: bool
    cluster: tuple[int, int, int]
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    shared: list[Symbol] = field(default_factory=list)
    local: list[Symbol] = field(default_factory=list)
    threads_at_most: bool = False
    cluster_known: bool = False

    def expanded(self, each: Callable[[Instruction], Iterable[Instruction]], most: int | None = None) -> Kernel:
        """Return a kernel in which others stand in the place of each instruction, and labels where they stood.

        Args:
            each: what takes the place of one.
            most: instructions that there may be; of more the kernel itself is returned.
        """
        code: list[Instruction] = []
        moved: list[int] = []
        for i in self.instructions:
            moved.append(len(code))
            code += each(i)
            if most is not None and len(code) > most:
                return self
        moved.append(len(code))
        return replace(self, instructions=code, labels={name: moved[n] for name, n in self.labels.items()})


@dataclass(frozen=True, slots=True)
class Function:
    """A function that kernels call: the names of what it returns and of what it takes, and its body."""

    results: tuple[str, ...]
    parameters: tuple[str, ...]
    body: Kernel


@dataclass(slots=True)
class PtxText:
    """A module.

    Attributes:
        target: such as "sm_90a". version: of PTX, such as "8.7".
        shared: variables in shared memory that all kernels see.
        functions: with a body, by name.
    """

    target: str
    version: str
    kernels: list[Kernel]
    shared: list[Symbol]
    functions: dict[str, Function] = field(default_factory=dict)


MOST_CHARACTERS = 16 << 20  # of a text
MOST_KERNELS = 10_000
MOST_INSTRUCTIONS = 100_000  # of a kernel
MOST_DEPTH = 64  # of braces in braces
MOST_THREADS, MOST_BLOCKS = 1024, 32  # of a block (FACTS HW-04); of a cluster (HW-05: what ptxas takes)
MOST_SHARED = 1 << 32  # bytes of a variable

_COMMENT = re.compile(r"//[^\n]*|/\*")
_LINE_DIRECTIVE = re.compile(r"^[ \t]*\.(?:loc|file)\b[^\n]*$", re.M)
_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*", re.A)
_FUNCTION = re.compile(r"\.func\s*(?:\(([^()]*)\)\s*)?([\w$]+)\s*(?:\(([^()]*)\))?", re.A)
_BRACE_OR_END = re.compile(r"[{;]")
_VARIABLE = r"\s+(?:\.align\s+([0-9]+)\s+)?\.(\w+)\s+([\w$]+)\s*((?:\[\s*[0-9]*\s*\]\s*)*)[=;]"
_SHARED, _LOCAL = (re.compile(rf"\.{space}{_VARIABLE}", re.A) for space in ("shared", "local"))
_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+[0-9]+\s+)?\.(\w+)\s+(\.ptr\b[^,]*?\s)?([\w$%]+)(?:\[([0-9]+)\])?\s*", re.A
)
_THREADS = [re.compile(rf"\.{name}\s+([0-9]+(?:\s*,\s*[0-9]+){{0,2}})") for name in ("reqntid", "maxntid")]
_CLUSTER = re.compile(r"\.reqnctapercluster\s+([0-9]+(?:\s*,\s*[0-9]+){0,2})")
_SPACE = re.compile(r"\s*")
_LABEL = re.compile(r"([\w$]+)\s*:(?!:)", re.A)
MOST_TARGET = 32  # characters of a chip's name
_TABLE = re.compile(r"\s*\.branchtargets\s", re.A)
_DECLARED = re.compile(r"\.reg\s+\.\w+\s+", re.A)
_RANGE = re.compile(r"([%\w$]*[%A-Za-z_$])<([0-9]+)>", re.A)
_NUMBERED = re.compile(r"(.*?)(0|[1-9][0-9]{0,9})", re.A)
_GUARD = re.compile(r"@\s*(!?)\s*([%\w$]+)\s+", re.A)
_OPERATION = re.compile(r"[^\s{\[(]+(?:\s+\.[^\s{\[(]+)*")  # with modifiers that stand apart
_NAME = re.compile(r"[%\w$]+", re.A)


def is_ptx(text: str) -> bool:
    """Whether a text is PTX, by its `.version`, its `.target` and a kernel; reports quote pieces without one."""
    return ".entry" in text and bool(chip_of(text)) and re.search(r"^[ \t]*\.version[ \t]+\d", text, re.M) is not None


def chip_of(text: str) -> str:
    """Return the chip that a PTX text is for, such as "sm_90a"; "" where it names none."""
    found = re.search(r"^[ \t]*\.target[ \t]+(sm_\w+)", text, re.M | re.A)
    return "" if found is None else found[1]


def parse(text: str) -> PtxText:
    """Return the kernels of a PTX text, in time that is linear in its length.

    Raises:
        NotPtx: there is no kernel in it, a brace does not close, an instruction is garbled, or it exceeds a bound: in
            characters, kernels, instructions of one, depth of braces, or threads of a block.
    """
    if len(text) > MOST_CHARACTERS:
        raise NotPtx(f"a text of {len(text)} characters, of at most {MOST_CHARACTERS}; give fewer kernels in one text")
    # The same length and lines, so that positions stay true.
    bare = _LINE_DIRECTIVE.sub(_blank, _without_comments(text))
    target, version = re.search(r"\.target\s+(\w+)", bare, re.A), re.search(r"\.version\s+([\d.]+)", bare, re.A)
    if target is None or len(target[1]) > MOST_TARGET:
        raise NotPtx("no .target line that names a chip; give the text of a PTX file")
    source = _Source(bare)
    kernels, outside, end = [], [], 0
    for entry in _entries(bare):
        if entry.start() < end:
            raise NotPtx(f"line {source.line(entry.start())}: a kernel inside a kernel")
        outside.append(bare[end : entry.start()])
        kernel, end = _kernel(source, entry)
        kernels.append(kernel)
        if len(kernels) > MOST_KERNELS:
            raise NotPtx(f"more than {MOST_KERNELS} kernels; give fewer in one text")
    if not kernels:
        raise NotPtx("no .entry; give PTX with a kernel in it")
    outside.append(bare[end:])
    shared = _variables(_SHARED, "\n".join(outside), 0)
    called = any(i.base == "call" for kernel in kernels for i in kernel.instructions)
    functions = dict(_functions(source)) if called else {}
    return PtxText(target[1], version[1] if version else "", kernels, shared, functions)


class _Source:
    """A text and the lines of its positions."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._ends = [found.start() for found in re.finditer("\n", text)]

    def line(self, position: int) -> int:
        return bisect_left(self._ends, position) + 1


def _blank(found: re.Match[str]) -> str:
    return " " * len(found[0])


def _without_comments(text: str) -> str:
    kept: list[str] = []
    at = 0
    while True:
        found = _COMMENT.search(text, at)
        if found is None:
            return "".join([*kept, text[at:]])
        kept.append(text[at : found.start()])
        at = found.end()
        if found[0] == "/*":
            end = text.find("*/", at)
            at = end + 2 if end >= 0 else len(text)
        kept.append(re.sub(r"[^\n]", " ", text[found.start() : at]))


def _entries(text: str) -> Iterator[re.Match[str]]:
    """Yield the beginnings of kernels: those of declarations, which have no body, are left out."""
    for entry in _ENTRY.finditer(text):
        begins = _BRACE_OR_END.search(text, entry.end())
        if begins is None:
            return
        if begins[0] == "{":
            yield entry


def _variables(kind: re.Pattern[str], text: str, line: int) -> list[Symbol]:
    widths = {"b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "f16": 2, "b64": 8, "u64": 8, "s64": 8, "f64": 8}
    found = []
    for align, type_, name, extents in kind.findall(text):
        size = width = widths.get(type_, 4)
        for extent in re.findall(r"\[\s*(\d*)", extents, re.A):
            size *= number_of(extent or "0", line)
        alignment = number_of(align or str(width), line)
        if size > MOST_SHARED or not 0 < alignment <= MOST_SHARED or alignment & alignment - 1:
            raise NotPtx(f"the variable {name} has {size} bytes, aligned to {alignment}")
        found.append(Symbol(name, size, alignment))
    return found


def _functions(source: _Source) -> Iterator[tuple[str, Function]]:
    """Yield functions with a body by their names; what is garbled in one that nobody may call is not said."""
    for found in _FUNCTION.finditer(source.text):
        begins = _BRACE_OR_END.search(source.text, found.end())
        if begins is None or begins[0] == ";":
            continue
        body = Kernel(found[2], source.line(found.start()), (), (1, 1, 1), False, (1, 1, 1))
        listed = [
            [one.split()[-1].partition("[")[0] for one in (found[n] or "").split(",") if one.strip()] for n in (1, 3)
        ]
        with suppress(NotPtx):
            _body(source, begins.end(), body)
            yield found[2], Function(tuple(listed[0]), tuple(listed[1]), body)


def _kernel(source: _Source, entry: re.Match[str]) -> tuple[Kernel, int]:
    text, name, line = source.text, entry[1], source.line(entry.start())
    at, parameters = entry.end(), []
    if text[at : at + 1] == "(":
        close = text.find(")", at)
        if close < 0:
            raise NotPtx(f"line {line}: the parameters of {name} do not end")
        for one in text[at + 1 : close].split(","):
            found = _PARAMETER.fullmatch(one.strip())
            if found is None:
                if one.strip():
                    raise NotPtx(f"line {line}: the parameter {shortened(one.strip())} of {name} is not understood")
                continue
            parameters.append(Parameter(found[3], found[1], number_of(found[4] or "0", line), bool(found[2])))
        at = close + 1
    body = text.find("{", at)
    if body < 0:
        raise NotPtx(f"line {line}: the kernel {name} has no body")
    directives = text[at:body]
    (required, most), blocks = (one.search(directives) for one in _THREADS), _CLUSTER.search(directives)
    shape = required or most
    x, y, z = _three(shape[1], line) if shape else (DEFAULT_THREADS, 1, 1)
    if not 0 < x * y * z <= MOST_THREADS:
        raise NotPtx(f"line {line}: a block of {x * y * z} threads; it has 1 to {MOST_THREADS}")
    cluster = (0, 0, 0) if ".explicitcluster" in directives else (1, 1, 1)
    if blocks is not None:
        cluster = _three(blocks[1], line)
        if not 0 < math.prod(cluster) <= MOST_BLOCKS:
            raise NotPtx(f"line {line}: a cluster of {math.prod(cluster)} blocks; it has 1 to {MOST_BLOCKS}")
    kernel = Kernel(name, line, tuple(parameters), (x, y, z), required is not None, cluster)
    kernel.threads_at_most = required is None and most is not None
    kernel.cluster_known = blocks is not None
    return kernel, _body(source, body + 1, kernel)


def _three(listed: str, line: int) -> tuple[int, int, int]:
    x, y, z = [*(number_of(one.strip(), line) for one in listed.split(",")), 1, 1][:3]
    return x, y, z


@dataclass(slots=True)
class _Scope:
    """Names that braces declare: labels and registers, and of numbered registers how many there are."""

    number: int
    outer: _Scope | None
    names: set[str] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)

    def declare(self, listed: str, line: int) -> None:
        for one in listed.split(","):
            ranged = _RANGE.fullmatch(one.strip())
            if ranged is not None:
                self.counts[ranged[1]] = number_of(ranged[2], line)
            else:
                self.names.add(one.strip())

    def renamed(self, name: str) -> str:
        """Return what a name of these braces is called among all of the kernel's: the outermost ones keep theirs."""
        scope, numbered = self, _NUMBERED.fullmatch(name)
        while scope.outer is not None:
            count = scope.counts.get(numbered[1], 0) if numbered is not None else 0
            if name in scope.names or (numbered is not None and int(numbered[2]) < count):
                return f"{name}@{scope.number}"
            scope = scope.outer
        return name


def _body(source: _Source, begin: int, kernel: Kernel) -> int:
    # Labels and registers of a scope may be used before they are declared: names are looked up at the end.
    text, at, depth = source.text, begin, 0
    scope = _Scope(0, None)
    scopes = 1
    found: list[tuple[str, str, int, _Scope]] = []
    while True:
        at = _skip(text, at)
        if text.startswith("{", at):
            depth, at = depth + 1, at + 1
            if depth > MOST_DEPTH:
                raise NotPtx(f"line {source.line(at)}: braces are nested deeper than {MOST_DEPTH}")
            scope = _Scope(scopes, scope)
            scopes += 1
            continue
        if text.startswith("}", at):
            depth, at = depth - 1, at + 1
            if scope.outer is None:
                break
            scope = scope.outer
            continue
        label = _LABEL.match(text, at)
        if label is not None:
            at = label.end()
            scope.names.add(label[1])
            table = _TABLE.match(text, at)
            if table is None:
                found.append(("label", label[1], 0, scope))
                continue
            end = _end(source, table.end(), kernel)
            listed = text[table.end() : end].strip()
            found.append((label[1], listed, source.line(at), scope))
            at = end + 1
            continue
        end, line = _end(source, at, kernel), source.line(at)
        statement = text[at:end].strip()
        at = end + 1
        if len(statement) > MOST_STATEMENT:
            raise NotPtx(f"line {line}: a statement of {len(statement)} characters; they have {MOST_STATEMENT} at most")
        declared = _DECLARED.match(statement)
        if declared is not None:
            scope.declare(statement[declared.end() :], line)
        elif statement.startswith((".shared", ".local")):
            kernel.shared += _variables(_SHARED, statement + ";", line)
            kernel.local += _variables(_LOCAL, statement + ";", line)
        elif statement and not statement.startswith("."):
            found.append(("", statement, line, scope))
            if len(found) > 2 * MOST_INSTRUCTIONS:
                raise NotPtx(f"the kernel {kernel.name} has more than {MOST_INSTRUCTIONS} instructions")
    _take(kernel, found)
    return at


def _skip(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space is not None else at


def _end(source: _Source, at: int, kernel: Kernel) -> int:
    end = source.text.find(";", at)
    if end < 0:
        raise NotPtx(f"line {source.line(at)}: the kernel {kernel.name} does not end")
    return end


def _take(kernel: Kernel, found: Iterable[tuple[str, str, int, _Scope]]) -> None:
    """Add labels, tables and instructions to a kernel, and see that branches lead to what there is."""
    tables: list[tuple[int, tuple[str, ...]]] = []
    for what, text, line, scope in found:
        if not what:
            kernel.instructions.append(_statement(text, line, scope))
            require_whole(kernel.instructions[-1])
        elif what == "label":
            kernel.labels[scope.renamed(text)] = len(kernel.instructions)
        else:
            targets = tuple(scope.renamed(one.strip()) for one in text.split(","))
            kernel.tables[scope.renamed(what)] = targets
            tables.append((line, targets))
    for i in kernel.instructions:
        if i.base == "bra":
            tables.append((i.line, i.operands[:1]))
        elif i.base == "brx" and i.operands[1] not in kernel.tables:
            raise NotPtx(f"line {i.line}: no .branchtargets are called {shortened(i.operands[1])}")
    for line, targets in tables:
        for target in targets:
            if target not in kernel.labels:
                raise NotPtx(f"line {line}: no label is called {shortened(target)}")


def _statement(text: str, line: int, scope: _Scope) -> Instruction:
    guard = _GUARD.match(text)
    rest = text[guard.end() :] if guard else text
    found = _OPERATION.match(rest)
    name = "".join(found[0].split()) if found is not None else ""
    operands = _operands(rest[found.end() :] if found is not None else rest)
    if scope.outer is not None:
        operands = [_NAME.sub(lambda m: scope.renamed(m[0]), one) for one in operands]
    predicate = scope.renamed(guard[2]) if guard else ""
    parts = tuple(name.split("."))
    return Instruction(name, tuple(operands), predicate, bool(guard and guard[1]), line, parts)


def _operands(text: str) -> list[str]:
    """Split at commas that are not in brackets."""
    if "[" not in text and "{" not in text and "(" not in text:
        return [one.strip() for one in text.split(",")] if text.strip() else []
    found, depth, begin = [], 0, 0
    for i, character in enumerate(text):
        if character in "[{(":
            depth += 1
        elif character in "]})":
            depth -= 1
        elif character == "," and not depth:
            found.append(text[begin:i].strip())
            begin = i + 1
    return [*found, text[begin:].strip()]
