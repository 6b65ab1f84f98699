"""Instructions of PTX as written, what stands in them, and which are none: forms that no assembler would take.

Only that is asked of which the machine makes use: types and vectors of memory operations, numbers of operands, targets
of branches, and numbers of 64 bits. Everything behind this can take these for granted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import takewhile

from legalsat.errors import LegalSatError

MOST_STATEMENT = 16_384  # characters
MOST_DIGITS = 22  # of a number: 64 bits are 22 in octal
MOST_BITS = 64
_SHOWN = 60  # characters of garbled text that a message repeats


class NotPtx(LegalSatError, ValueError):
    """The text is no PTX that this parser knows, or exceeds a bound; the message names the line."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One statement.

    Attributes:
        name: the operation with its modifiers, such as "mbarrier.init.shared::cta.b64".
        operands: as written, vectors and addresses as one; two results joined by "|" are one too.
        guard: the predicate that must hold, "" for none; `negated` if it must not.
        line: in the text, from 1.
        base: the operation without modifiers. results: the registers that it writes.
        reads: registers and symbols that stand behind the first operand.
    """

    name: str
    operands: tuple[str, ...]
    guard: str
    negated: bool
    line: int
    parts: tuple[str, ...] = ()
    base: str = field(init=False, repr=False, compare=False)  # no property: it is asked for all the time
    results: tuple[str, ...] = field(init=False, repr=False, compare=False)  # nor these
    reads: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Note the operation, and the registers that it writes."""
        base = self.parts[0] if self.parts else ""
        object.__setattr__(self, "base", base)
        written = self.operands and base not in _WITHOUT_RESULT
        object.__setattr__(self, "results", _written(self.operands[0]) if written else ())
        object.__setattr__(self, "reads", tuple(name for one in self.operands[1:] for name in names_in(one)))


def made(i: Instruction, parts: tuple[str, ...], operands: tuple[str, ...], *, guarded: bool = False) -> Instruction:
    """Return an instruction that stands where another one does, and under its predicate if it is `guarded`."""
    guard, negated = (i.guard, i.negated) if guarded else ("", False)
    return Instruction(".".join(parts), operands, guard, negated, i.line, parts)


# Modifiers say how, where or on what an operation works; what stands before the first of them says what it does.
_MODIFIERS = frozenset(
    {"sync", "aligned", "parity", "acquire", "release", "relaxed", "shared", "global", "cta", "ca", "cg", "tile"}
    | {"im2col", "noinc", "trans", "b32", "b64", "b128", "u32", "u64"}
)


def operation_of(name: str) -> str:
    """Return an operation without its modifiers, such as "mbarrier.try_wait" or "cp.async.bulk.tensor"."""
    parts = name.split(".")
    kept = takewhile(lambda part: part not in _MODIFIERS and "::" not in part and part.isidentifier(), parts[2:])
    return ".".join([*parts[:2], *kept])


_OPERAND_NAME = re.compile(r"[%A-Za-z_$][\w$@]*(?:\.[xyzw]\b)?", re.A)
_NAME = re.compile(r"[a-z]\w*(?:(?:\.|::)\w+)*", re.A)
_NUMBER = re.compile(r"(?<![\w$%@.])[0-9]\w*", re.A)
_WHOLE = re.compile(r"(-?)(0[xX][0-9a-fA-F]+|0[bB][01]+|0[0-7]*|[1-9][0-9]*)U?")
_FLOAT = re.compile(r"0[fFdD]([0-9a-fA-F]+)")
_TYPE = re.compile(r"[busf](?:8|16|32|64|128)|bf16|b?f16x2|[bsu]8x[48]|[us]16x2|f32x2|e[45]m[23](?:x[24])?")
_VECTORS = {"v2": 2, "v4": 4, "v8": 8}
_MOVED = {"ld", "ldu", "st"}
# The fewest operands of what is looked into, where fewer would be garbled text.
_LEAST = {
    **dict.fromkeys(("bra", "activemask", "setmaxnreg"), 1),
    **dict.fromkeys(("ld", "ldu", "st", "mov", "cvta", "cvt", "not", "neg", "abs", "popc", "clz", "brx", "red"), 2),
    **dict.fromkeys(("ldmatrix", "stmatrix", "vote", "elect"), 2),
    **dict.fromkeys(("add", "sub", "mul", "div", "rem", "min", "max", "and", "or", "xor", "shl", "shr", "setp"), 3),
    **dict.fromkeys(("atom", "match", "redux", "mapa"), 3),
    **dict.fromkeys(("selp", "mad", "fma", "bfe", "prmt", "shf", "shfl"), 4),
    **dict.fromkeys(("bfi", "lop3"), 5),
    **dict.fromkeys(("mbarrier.inval", "mbarrier.arrive", "mbarrier.expect_tx", "tcgen05.commit"), 1),
    **dict.fromkeys(("mbarrier.init", "mbarrier.test_wait", "mbarrier.try_wait"), 2),
    **dict.fromkeys(("tcgen05.alloc", "tcgen05.dealloc", "tcgen05.ld", "tcgen05.st", "tcgen05.cp"), 2),
    **dict.fromkeys(("tensormap.replace", "tensormap.cp_fenceproxy"), 2),
    **dict.fromkeys(("wgmma.mma_async", "tcgen05.mma"), 3),
}
# Of these that is the number.
_EXACT = {
    *("add", "sub", "mul", "div", "rem", "and", "or", "xor", "shl", "shr", "selp", "mad", "bfe", "bfi", "mov", "not"),
    *("neg", "abs", "popc", "clz", "cvta", "mbarrier.init"),
}


@lru_cache(maxsize=1 << 13)
def immediate(text: str) -> int | None:
    """Return a number as written in PTX, as bits; None if it is none. Floats come as 0f and 0d with their bits."""
    if len(text) > MOST_BITS + len("-0bU"):
        return None
    floats = _FLOAT.fullmatch(text)
    if floats is not None:
        return int(floats[1], 16)
    whole = _WHOLE.fullmatch(text)
    if whole is None:
        return None
    digits = whole[2]
    octal = len(digits) > 1 and digits.isdigit() and digits[0] == "0"
    value = int(digits, 8 if octal else 0)
    return -value if whole[1] else value


def number_of(digits: str, line: int) -> int:
    """Return a whole number as written in decimal, in a directive.

    Raises:
        NotPtx: it has more than 64 bits.
    """
    if len(digits) > MOST_DIGITS or int(digits) >> MOST_BITS:  # longer ones take time to read
        raise NotPtx(f"line {line}: a number of {len(digits)} digits; the numbers of PTX have {MOST_BITS} bits")
    return int(digits)


@lru_cache(maxsize=1 << 13)
def names_in(operand: str) -> tuple[str, ...]:
    """Return the registers and symbols that stand in an operand."""
    return tuple(_OPERAND_NAME.findall(operand))


def vector(operand: str) -> list[str]:
    """Return the elements of a vector operand, or the operand itself as the only one."""
    return [one.strip() for one in operand[1:-1].split(",")] if operand.startswith("{") else [operand]


def results_of(instruction: Instruction) -> tuple[str, ...]:
    """Return the registers that an instruction writes."""
    return instruction.results


_WITHOUT_RESULT = frozenset({"st", "bra", "brx", "ret", "bar", "barrier", "fence", "cp", "red", "stmatrix"})


@lru_cache(maxsize=1 << 13)
def _written(operand: str) -> tuple[str, ...]:
    return tuple(one.strip() for part in vector(operand) for one in part.split("|"))


def width_of(i: Instruction) -> int:
    """Return the bytes that a load or store moves for each lane."""
    return _width(i.parts)


@lru_cache(maxsize=1 << 10)
def _width(parts: tuple[str, ...]) -> int:
    found = re.fullmatch(r"[busf](\d+)", parts[-1]) or re.fullmatch(r"(?:bf|f|b)(\d+)x?\d*", parts[-1])
    size = int(found[1]) // 8 if found else 4
    counts = [int(p[1:]) for p in parts if re.fullmatch(r"v[248]", p)]
    return size * (counts[0] if counts else 1)


def require_whole(i: Instruction) -> None:
    """Refuse an instruction that no assembler would take, as far as anything looks into it.

    Raises:
        NotPtx: it is garbled; the message says what.
    """
    fault = _fault_of_name(i.name, len(i.operands))
    if fault:
        raise _garbled(i, fault)
    for one in i.operands:
        fault = _fault(one)
        if fault:
            raise _garbled(i, fault)
    if i.base in _MOVED:
        _require_type(i)


@lru_cache(maxsize=1 << 10)
def _fault_of_name(name: str, count: int) -> str:
    """Return what is wrong with an operation of so many operands, "" for nothing."""
    if _NAME.fullmatch(name) is None:
        return "is no instruction"
    parts = name.split(".")
    for begin in (parts[0], ".".join(parts[:2])):
        least = _LEAST.get(begin, 0)
        if count < least or (count > least and begin in _EXACT):
            return f"has {count} operands; {begin} takes {least}{' or more' * (begin not in _EXACT)}"
    return ""


@lru_cache(maxsize=1 << 13)
def _fault(operand: str) -> str:
    """Return what is wrong with an operand, "" for nothing."""
    opening = operand[:1]
    if opening in {"{", "["} and not operand.endswith("}" if opening == "{" else "]"):
        return f"has an operand that does not close: {shortened(operand)}"
    if not operand or (opening == "{" and not all(vector(operand))):
        return "lacks an operand between two commas"
    for digits in _NUMBER.findall(operand):
        number = immediate(digits)
        if (number is None and len(digits) > MOST_BITS) or (number or 0) >> MOST_BITS:
            return f"has a number of {len(digits)} digits; those of PTX have {MOST_BITS} bits"
    return ""


def _require_type(i: Instruction) -> None:
    if _TYPE.fullmatch(i.parts[-1]) is None:
        raise _garbled(i, f"moves elements of type {shortened(i.parts[-1])}, which is none")
    wanted = next((_VECTORS[part] for part in i.parts if part in _VECTORS), 1)
    held = vector(i.operands[1 if i.base == "st" else 0])
    if len(held) != wanted:
        raise _garbled(i, f"moves {len(held)} registers as a vector of {wanted}")


def _garbled(i: Instruction, what: str) -> NotPtx:
    return NotPtx(f"line {i.line}: {shortened(i.name)} {what}")


def shortened(text: str) -> str:
    """Return garbled text as a message repeats it: printable, and not all of it if it is long."""
    shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
    return shown.encode("ascii", "backslashreplace").decode() if shown.isprintable() else ascii(shown)
