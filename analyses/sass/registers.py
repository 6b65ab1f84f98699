"""Which general registers an instruction of sm_90 reads and writes, and how many of them an operand stands for.

An operand names the first of its registers; how many follow is told by the operation: `.64` and `.128` of memory
accesses, 64-bit arithmetic, and the shape of a matrix operation: N / 2 accumulators a thread for 64 x N of 32 bits,
N / 4 where two of 16 bits share one (PTX ISA 9.0, "Register Fragments and Shared Memory Matrix Layouts" of wgmma).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from legalsat.analyses.sass.text import Instruction

ZERO = 255  # RZ: reads as zero, and takes no value
MATRIX = frozenset({"HGMMA", "QGMMA", "IGMMA", "BGMMA"})
FRAGMENT = 4  # registers of a thread that hold A of a wgmma
_NAMED = re.compile(r"(?<![\w.$])R(\d+)(\.64)?(?![\w$])")
_WHOLE = re.compile(r"[-~|!+]*R(\d+|Z)(\.64)?(?![\w$])")
_PREDICATE = re.compile(r"!?U?P(\d|T|R)\b")
_SHAPE = re.compile(r"^(\d+)x(\d+)x(\d+)$")
_BITS = {"64": 2, "96": 3, "128": 4}
_WIDE_TYPES = frozenset({"F64", "S64", "U64"})
# What writes no general register; all that it names is read.
_STORES = frozenset({"ST", "STG", "STS", "STL", "STAS", "RED", "REDG", "REDAS"})
_BULK = frozenset(
    {"UTMALDG", "UTMASTG", "UTMAREDG", "UTMAPF", "UTMACCTL", "UTMACMDFLUSH", "UBLKCP", "UBLKRED", "UBLKPF"}
)
_WAITS = frozenset(
    {"BAR", "MEMBAR", "FENCE", "ERRBAR", "WARPSYNC", "NANOSLEEP", "DEPBAR", "LDGDEPBAR", "ARRIVES", "WARPGROUP"}
)
_JUMPS = frozenset({"BRA", "BRX", "JMP", "JMX", "RET", "CALL", "EXIT", "BSSY", "BSYNC", "BREAK", "KILL", "YIELD"})
_PREDICATES = frozenset({"R2P", "FCHK", "PLOP3", "ELECT"})
_OTHERS = frozenset({"STSM", "LDGSTS", "CCTL", "CCTLL", "USETMAXREG", "R2UR", "NOP"})
_SINKS = _STORES | _BULK | _WAITS | _JUMPS | _PREDICATES | _OTHERS
_LOADS = frozenset({"LD", "LDG", "LDS", "LDL", "LDC", "ATOM", "ATOMG", "ATOMS"})
_DOUBLES = frozenset({"DADD", "DMUL", "DFMA", "DSETP", "DMNMX"})
_CONVERSIONS = frozenset({"F2F", "F2I", "I2F", "FRND"})
_TEXTURES = frozenset({"TEX", "TLD", "TLD4", "TXD", "SULD"})


@dataclass(frozen=True, slots=True)
class Touched:
    """The registers that an instruction reads, and those that it writes, as ranges of numbers."""

    reads: tuple[range, ...]
    writes: tuple[range, ...]


@dataclass(frozen=True, slots=True)
class Matrix:
    """A multiplication of a warpgroup, which runs on after its instruction.

    Attributes:
        shape: such as "64x128x16.F32.BF16".
        accumulators: registers that it writes. sources: those that it reads while it runs, A and metadata.
        commits: whether it ends a group, which WARPGROUP.DEPBAR counts.
    """

    shape: str
    accumulators: range
    sources: tuple[range, ...]
    commits: bool


@lru_cache(maxsize=8192)
def matrix_of(one: Instruction) -> Matrix:
    """Return what a matrix instruction works on.

    Raises:
        ValueError: its operands are not understood.
    """
    sizes = [found for part in one.parts if (found := _SHAPE.match(part))]
    described = [n for n, operand in enumerate(one.operands) if operand.startswith("gdesc")]
    if len(sizes) != 1 or not described:
        raise ValueError(str(one))
    place = one.parts.index(sizes[0][0])
    halves = one.parts[place + 1 : place + 2] == ("F16",)
    count = int(sizes[0][2]) // (4 if halves else 2)
    after = [operand for operand in one.operands[described[0] + 1 :] if _WHOLE.match(operand)]
    sources = [_span(operand, FRAGMENT) for operand in one.operands[1 : described[0]]]
    if "SP" in one.parts:  # which of each four values of A are kept
        sources += [_span(operand, 1) for operand in after[1:]]
    return Matrix(
        ".".join(one.parts[place:]),
        _span(one.operands[0], count),
        tuple(span for span in sources if span),
        "gsb0" in one.operands,
    )


@lru_cache(maxsize=8192)
def touched(one: Instruction) -> Touched:
    """Return what an instruction other than a matrix instruction reads and writes."""
    if one.never:
        return Touched((), ())
    result = _result(one)
    reads: list[range] = []
    for n, operand in enumerate(one.operands):
        if n == result:
            continue
        if "[" in operand or not _WHOLE.match(operand):
            reads += [_span_of(int(found[1]), 2 if found[2] else 1) for found in _NAMED.finditer(operand)]
        else:
            reads.append(_span(operand, _width_read(one, n)))
    writes = [_span(one.operands[result], _width_written(one))] if result is not None else []
    return Touched(tuple(r for r in reads if r), tuple(w for w in writes if w))


def _result(one: Instruction) -> int | None:
    """Return which operand is the register that is written."""
    if one.base in _SINKS or any("SETP" in part for part in one.parts) or "PHASECHK" in one.parts:
        return None
    for n, operand in enumerate(one.operands):
        if _WHOLE.match(operand):
            return n
        if not _PREDICATE.match(operand):  # predicates that it writes stand before
            return None
    return None


def _span(operand: str, count: int) -> range:
    found = _WHOLE.match(operand)
    if found is None or found[1] == "Z":
        return range(0)
    return _span_of(int(found[1]), max(count, 2 if found[2] else 1))


def _span_of(first: int, count: int) -> range:
    return range(first, min(first + count, ZERO))


def _bits(one: Instruction) -> int:
    return next((_BITS[part] for part in one.parts[1:] if part in _BITS), 1)


def _tiles(one: Instruction) -> int:
    """Return how many 8x8 tiles ldmatrix and stmatrix move: the number at the end."""
    return int(one.parts[-1]) if one.parts[-1] in {"2", "4"} else 1


def _wide_types(one: Instruction) -> tuple[bool, bool]:
    """Return whether a conversion's result has 64 bits, and whether its operand has."""
    wide = [part in _WIDE_TYPES for part in one.parts[1:]]
    if one.base == "F2F":
        return (*wide, False, False)[0], (*wide, False, False)[1]
    results = {"F2I": {"S64", "U64"}, "I2F": {"F64"}}.get(one.base, {"F64"})
    return any(p in results for p in one.parts), any(p in _WIDE_TYPES - results for p in one.parts)


def _width_written(one: Instruction) -> int:
    if one.base in _LOADS:
        return _bits(one)
    if one.base in _DOUBLES or one.base == "SYNCS" or "WIDE" in one.parts:
        return 2
    widths = {"LDSM": _tiles(one), "CS2R": 1 if "32" in one.parts else 2}
    if one.base in widths:
        return widths[one.base]
    if one.base in _CONVERSIONS:
        return 1 + _wide_types(one)[0]
    if one.base in _TEXTURES:
        return 4
    return _fragments(one)[2] if one.base.endswith("MMA") else 1


def _width_read(one: Instruction, place: int) -> int:
    if one.base in _STORES or one.base.startswith("ATOM"):
        return _bits(one)
    if "WIDE" in one.parts:  # only what is added has 64 bits
        values = [n for n, operand in enumerate(one.operands) if not _PREDICATE.match(operand)]
        return 1 + (values[3:4] == [place])
    if one.base.endswith("MMA") and one.base not in _DOUBLES:
        return (*_fragments(one), 1)[min(place - 1, 3)]
    width = {"STSM": _tiles(one)} | dict.fromkeys(_DOUBLES, 2) | dict.fromkeys(_CONVERSIONS, 1 + _wide_types(one)[1])
    return width.get(one.base, 1)


def _fragments(one: Instruction) -> tuple[int, int, int]:
    """Return the registers of A, B and C of an mma of one warp."""
    shape = next((part for part in one.parts if part.isdigit()), "")
    c = 2 if one.parts[2:3] == ("F16",) or one.base == "DMMA" else 4
    if shape in {"1688", "1684", "8816", "8832"} or (one.base != "HMMA" and shape == "16816"):
        wide = "TF32" in one.parts and shape == "1688"
        return (4, 2, c) if wide else (2, 1, c)
    return 4, 2, c
