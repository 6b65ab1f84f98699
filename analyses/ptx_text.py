"""PTX text as kernels of instructions, each with its line; nothing is interpreted here.

Scopes in braces, such as a loop in inline assembly, get names of their own for their registers and labels.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from legalsat.errors import LegalSatError

DEFAULT_THREADS = 128


class NotPtx(LegalSatError, ValueError):
    """The text is no PTX that this parser knows; the message names the line."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One statement.

    Attributes:
        name: the operation with its modifiers, such as "mbarrier.init.shared::cta.b64".
        operands: as written, vectors and addresses as one; two results joined by "|" are one too.
        guard: the predicate that must hold, "" for none; `negated` if it must not.
        line: in the text, from 1.
    """

    name: str
    operands: tuple[str, ...]
    guard: str
    negated: bool
    line: int
    parts: tuple[str, ...] = ()

    @property
    def base(self) -> str:
        """The operation without modifiers."""
        return self.parts[0]


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
    """A variable in shared memory; `bytes` is 0 where the launch decides."""

    name: str
    bytes: int
    alignment: int


@dataclass(slots=True)
class Kernel:
    """One entry point.

    Attributes:
        cluster: CTAs of a cluster along x, y and z; zeros where the launch decides. cluster_known: the text says it.
        threads: of a block, x, y and z; what `.reqntid` or `.maxntid` says, else 128.
        labels: index of the instruction that each label stands before.
        tables: branch targets of `brx.idx`, by the table's name.
        shared: variables declared inside.
        types: of registers, by name or, where they are numbered, by their prefix.
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
    cluster_known: bool = False


@dataclass(slots=True)
class PtxText:
    """A module.

    Attributes:
        target: such as "sm_90a". version: of PTX, such as "8.7".
        shared: variables in shared memory that all kernels see.
    """

    target: str
    version: str
    kernels: list[Kernel]
    shared: list[Symbol]


_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_LINE_DIRECTIVE = re.compile(r"^[ \t]*\.(?:loc|file)\b[^\n]*$", re.M)
_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*(\([^)]*\))?([^{;]*)\{", re.S)
_SHARED = re.compile(r"\.shared\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$]+)(?:\[(\d*)\])?\s*(?:=[^;]*)?;")
_PARAMETER = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+(\.ptr\b[^,]*?\s)?([\w$%]+)(?:\[(\d+)\])?\s*$")
_LABEL = re.compile(r"\s*([\w$]+)\s*:(?!:)")
_BRACE = re.compile(r"\s*([{}])")
_STATEMENT = re.compile(r"\s*([^;]+);")
_GUARD = re.compile(r"@(!?)\s*([%\w$]+)\s+")
_OPERATION = re.compile(r"[\w.:]+(?:\s+\.[\w.:]+)*")  # with modifiers that stand apart; operands may follow at once
_NAME = re.compile(r"[%\w$]+")
_OPERAND_NAME = re.compile(r"[%A-Za-z_$][\w$@]*(?:\.[xyzw]\b)?")


def is_ptx(text: str) -> bool:
    """Whether a text is PTX, by its `.version` and `.target`."""
    return bool(chip_of(text)) and re.search(r"^\s*\.version\s+\d", text, re.M) is not None


def chip_of(text: str) -> str:
    """Return the chip that a PTX text is for, such as "sm_90a"; "" where it names none."""
    found = re.search(r"^\s*\.target\s+(sm_\w+)", text, re.M)
    return "" if found is None else found[1]


def parse(text: str) -> PtxText:
    """Return the kernels of a PTX text.

    Raises:
        NotPtx: there is no kernel in it, or a brace does not close.
    """
    # The same length and lines, so that positions stay true.
    bare = _COMMENT.sub(_blank, text)
    bare = _LINE_DIRECTIVE.sub(_blank, bare)
    target, version = re.search(r"\.target\s+(\w+)", bare), re.search(r"\.version\s+([\d.]+)", bare)
    if target is None:
        raise NotPtx("no .target line; give the text of a PTX file")
    kernels, outside, end = [], [], 0
    while True:
        entry = _ENTRY.search(bare, end)
        if entry is None:
            break
        outside.append(bare[end : entry.start()])
        kernel, end = _kernel(bare, entry)
        kernels.append(kernel)
    if not kernels:
        raise NotPtx("no .entry; give PTX with a kernel in it")
    outside.append(bare[end:])
    return PtxText(target[1], version[1] if version else "", kernels, _shared("\n".join(outside)))


def _blank(found: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", found[0])


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _shared(text: str) -> list[Symbol]:
    widths = {"b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "f16": 2, "b64": 8, "u64": 8, "s64": 8, "f64": 8}
    found = []
    for align, kind, name, count in _SHARED.findall(text):
        width = widths.get(kind, 4)
        array = re.search(re.escape(name) + r"\s*\[", text) is not None
        found.append(Symbol(name, (int(count or 0) if array else 1) * width, int(align or width)))
    return found


def _kernel(text: str, entry: re.Match[str]) -> tuple[Kernel, int]:
    name, listed, directives = entry[1], entry[2] or "()", entry[3]
    parameters = []
    for one in listed[1:-1].split(","):
        found = _PARAMETER.search(one.strip())
        if found is not None:
            parameters.append(Parameter(found[3], found[1], int(found[4] or 0), bool(found[2])))
    shape = re.search(r"\.(?:reqntid|maxntid)\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?", directives)
    threads = (int(shape[1]), int(shape[2] or 1), int(shape[3] or 1)) if shape else (DEFAULT_THREADS, 1, 1)
    required = re.search(r"\.reqnctapercluster\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?", directives)
    cluster = (1, 1, 1) if ".explicitcluster" not in directives else (0, 0, 0)
    if required is not None:
        cluster = (int(required[1]), int(required[2] or 1), int(required[3] or 1))
    line = _line(text, entry.start())
    kernel = Kernel(name, line, tuple(parameters), threads, ".reqntid" in directives, cluster)
    kernel.cluster_known = required is not None
    return kernel, _body(text, entry.end(), kernel)


def _body(text: str, at: int, kernel: Kernel) -> int:
    scopes: list[dict[str, str]] = [{}]
    number = 0
    counted, line = at, _line(text, at)
    # Labels and registers of an inner scope may be used before they are declared: rename when the scope is opened.
    while True:
        brace = _BRACE.match(text, at)
        if brace is not None:
            at = brace.end()
            if brace[1] == "{":
                number += 1
                scopes.append(_declared(text, at, number))
                continue
            scopes.pop()
            if not scopes:
                return at
            continue
        label = _LABEL.match(text, at)
        if label is not None:
            kernel.labels[_renamed(label[1], scopes)] = len(kernel.instructions)
            at = label.end()
            table = re.compile(r"\s*\.branchtargets\s+([^;]+);").match(text, at)
            if table is not None:
                kernel.tables[label[1]] = tuple(t.strip() for t in table[1].split(","))
                at = table.end()
            continue
        statement = _STATEMENT.match(text, at)
        if statement is None:
            raise NotPtx(f"line {_line(text, at)}: the kernel {kernel.name} does not end")
        start = statement.start(1)
        line, counted = line + text.count("\n", counted, start), start
        _statement(statement[1], line, kernel, scopes)
        at = statement.end()


def _declared(text: str, at: int, number: int) -> dict[str, str]:
    """Return new names for what the scope that begins here declares."""
    depth, end = 1, at
    while depth and end < len(text):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        end += 1
    inside = text[at : end - 1]
    names = []
    for declared in re.findall(r"\.reg\s+\.\w+\s+([^;]+);", inside):
        for name in declared.split(","):
            ranged = re.fullmatch(r"\s*([%\w$]+)<(\d+)>\s*", name)
            names += [f"{ranged[1]}{i}" for i in range(int(ranged[2]))] if ranged else [name.strip()]
    names += re.findall(r"(?:^|[;{}]|\n)\s*([A-Za-z_$][\w$]*)\s*:(?!:)", inside)
    return {name: f"{name}@{number}" for name in names}


def _renamed(name: str, scopes: list[dict[str, str]]) -> str:
    for scope in reversed(scopes):
        if name in scope:
            return scope[name]
    return name


def _statement(text: str, line: int, kernel: Kernel, scopes: list[dict[str, str]]) -> None:
    if text.startswith("."):
        if text.startswith(".shared"):
            kernel.shared += _shared(text + ";")
        return
    guard = _GUARD.match(text)
    rest = text[guard.end() :] if guard else text
    cut = _OPERATION.match(rest)
    if cut is None:
        return
    name, listed = "".join(cut[0].split()), rest[cut.end() :]
    operands = _operands(listed)
    if len(scopes) > 1:
        operands = [_NAME.sub(lambda m: _renamed(m[0], scopes), one) for one in operands]
    kernel.instructions.append(
        Instruction(
            name,
            tuple(operands),
            _renamed(guard[2], scopes) if guard else "",
            bool(guard and guard[1]),
            line,
            tuple(name.split(".")),
        )
    )


def _operands(text: str) -> list[str]:
    """Split at commas that are not in brackets."""
    if "[" not in text and "{" not in text:
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


@lru_cache(maxsize=1 << 16)
def names_in(operand: str) -> tuple[str, ...]:
    """Return the registers and symbols that stand in an operand."""
    return tuple(_OPERAND_NAME.findall(operand))


def vector(operand: str) -> list[str]:
    """Return the elements of a vector operand, or the operand itself as the only one."""
    return [one.strip() for one in operand[1:-1].split(",")] if operand.startswith("{") else [operand]


def results_of(instruction: Instruction) -> list[str]:
    """Return the registers that an instruction writes."""
    if not instruction.operands:
        return []
    first = instruction.operands[0]
    if instruction.base in {"st", "bra", "brx", "ret", "bar", "barrier", "fence", "cp", "red", "stmatrix"}:
        return []
    return [one.strip() for part in vector(first) for one in part.split("|")]
