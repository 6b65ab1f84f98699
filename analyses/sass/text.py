"""Machine code in text, as `cuobjdump -sass` and `nvdisasm` print it: functions of instructions, uninterpreted.

Both print an offset in bytes before each instruction. cuobjdump names what is jumped to by its offset, nvdisasm by a
label that stands before it; the encodings that cuobjdump prints behind instructions are left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property

from legalsat.errors import LegalSatError

CUBIN_MAGIC = b"\x7fELF"  # which a cubin begins with
TRUE_PREDICATES = frozenset({"PT", "UPT"})


class NotSass(LegalSatError, ValueError):
    """The text is no machine code that this parser knows; the message says what is missing."""


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    Attributes:
        offset: in the kernel, in bytes. line: in the text, from 1.
        name: the operation with its modifiers, such as "WARPGROUP.DEPBAR.LE".
        operands: as written, without `.reuse`.
        guard: the predicate that must hold, "" where nothing need; `negated` if it must not.
        comment: what nvdisasm says behind it, such as the targets of a computed jump.
    """

    offset: int
    line: int
    name: str
    operands: tuple[str, ...]
    guard: str
    negated: bool
    comment: str = ""

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """The operation and its modifiers."""
        return tuple(self.name.split("."))

    @property
    def base(self) -> str:
        """The operation without modifiers."""
        return self.parts[0]

    @property
    def conditional(self) -> bool:
        """Whether a predicate decides if it runs."""
        return bool(self.guard) and (self.guard not in TRUE_PREDICATES or self.negated)

    @property
    def never(self) -> bool:
        """Whether its predicate never holds."""
        return self.guard in TRUE_PREDICATES and self.negated

    def __str__(self) -> str:
        guard = f"@{'!' * self.negated}{self.guard} " if self.guard else ""
        return f"{guard}{self.name} {', '.join(self.operands)}".rstrip()


@dataclass
class Kernel:
    """A function.

    Attributes:
        name: of it. line: where it begins. target: its architecture, such as "sm_90a", "" where nothing says so.
        instructions: in order. labels: the place in them before which each label stands.
    """

    name: str
    line: int
    target: str = ""
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)

    @cached_property
    def places(self) -> dict[int, int]:
        """The place of the instruction at each offset."""
        return {one.offset: place for place, one in enumerate(self.instructions)}

    @cached_property
    def meetings(self) -> dict[str, list[Instruction]]:
        """The instructions that open a meeting of lanes (BSSY), by its barrier, such as "B0"."""
        found: dict[str, list[Instruction]] = {}
        for one in self.instructions:
            if one.base == "BSSY" and one.operands:
                found.setdefault(one.operands[0], []).append(one)
        return found


@dataclass
class SassText:
    """A text: its functions, which can be for several architectures."""

    kernels: list[Kernel]

    @property
    def target(self) -> str:
        """The architectures that it names, "" where it names none."""
        return ", ".join(dict.fromkeys(kernel.target for kernel in self.kernels if kernel.target))


_FUNCTION = re.compile(r"^\s*(?:Function\s*:\s*(\S+)\s*$|\.section\s+\.text\.([^\s,\"]+)|//-+\s*\.text\.(\S+)\s+-+)")
_LABEL = re.compile(r"^\s*([\w.$]+)\s*:\s*$")
_INSTRUCTION = re.compile(r"^\s*/\*([0-9a-fA-F]{4,})\*/\s*(.*)$")
_GUARD = re.compile(r"@(!?)(U?P(?:\d+|T))\s+")
_HEX_COMMENT = re.compile(r"/\*\s*0x[0-9a-fA-F]+\s*\*/")
_COMMENT = re.compile(r"\(\*\"(.*?)\"\*\)")
_TARGET = re.compile(r"^\s*(?:code for|\.target)\s+(sm_\w+)")
_FLAGS = re.compile(r"^\s*\.headerflags.*EF_CUDA_SM(\d+)")


def is_sass(text: str) -> bool:
    """Whether a text looks like disassembled machine code: instructions behind offsets."""
    # Blanks of one line: else a text of empty lines would be looked through from each of them.
    return re.search(r"^[^\S\n]*/\*0{4,}\*/[^\S\n]+\S", text, re.M) is not None


def parse(text: str) -> SassText:
    """Return the functions of a disassembly.

    Raises:
        NotSass: there are no instructions behind offsets in it.
    """
    kernels: dict[tuple[str, str], Kernel] = {}
    current: Kernel | None = None
    target = ""
    for number, line in enumerate(text.splitlines(), 1):
        target = _target(line) or target
        named = _FUNCTION.match(line)
        if named is not None:
            name = next(one for one in named.groups() if one)
            current = kernels.setdefault((target, name), Kernel(name, number, target))
            continue
        found = _INSTRUCTION.match(line)
        if found is not None:
            if current is None:
                current = kernels.setdefault((target, ""), Kernel("kernel", number, target))
            one = _instruction(int(found[1], 16), number, found[2])
            if one is not None:
                if current.instructions and one.offset <= current.instructions[-1].offset:
                    raise NotSass(f"line {number}: offset {one.offset:#x} follows {current.instructions[-1].offset:#x}")
                current.instructions.append(one)
            continue
        label = _LABEL.match(line)
        if label is not None and current is not None:
            current.labels[label[1]] = len(current.instructions)
    filled = [kernel for kernel in kernels.values() if kernel.instructions]
    if not filled:
        raise NotSass("no instructions behind offsets; give what cuobjdump -sass or nvdisasm print")
    return SassText(filled)


def _target(line: str) -> str:
    """Return the architecture that a line names, "" for none."""
    named, flags = _TARGET.match(line), _FLAGS.match(line)
    if named is not None:
        return named[1]
    return f"sm_{flags[1]}{'a' * ('EF_CUDA_ACCELERATORS' in line)}" if flags is not None else ""


def _instruction(offset: int, line: int, text: str) -> Instruction | None:
    said = _COMMENT.search(text)
    bare = _COMMENT.sub("", _HEX_COMMENT.sub("", text)).strip().strip("{}").strip().rstrip(";").strip()
    if not bare:
        return None
    guard = _GUARD.match(bare)
    rest = bare[guard.end() :] if guard else bare
    name, _, listed = rest.partition(" ")
    operands = tuple(one.strip().replace(".reuse", "") for one in _split(listed)) if listed.strip() else ()
    return Instruction(
        offset,
        line,
        name,
        operands,
        guard[2] if guard else "",
        bool(guard and guard[1]),
        said[1] if said else "",
    )


def _split(text: str) -> list[str]:
    """Split at commas that stand in no brackets."""
    found, depth, begin = [], 0, 0
    for place, letter in enumerate(text):
        if letter in "[({":
            depth += 1
        elif letter in "])}":
            depth -= 1
        elif letter == "," and not depth:
            found.append(text[begin:place])
            begin = place + 1
    return [*found, text[begin:]]
