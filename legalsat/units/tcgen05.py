"""Fifth-generation tensor cores (tcgen05): kinds of multiply, their shapes, and the 32-bit instruction descriptor.

Element types go by any name that `legalsat.dtypes` knows: "fp16", "f16" and "float16" are one.

Nothing here refuses an illegal shape: a descriptor is a word, and `legalsat.rules.tcgen05` says which words are legal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from legalsat.checks import choice, flag, instance, integer, one_of
from legalsat.dtypes import dtype
from legalsat.errors import InvalidInput
from legalsat.options import MAJORS, Major

SUM_CODES = {"fp16": 0, "fp32": 1, "i32": 2}
SCALE_CODES = {"e4m3": 0, "e8m0": 1}  # as scales both are unsigned
MAX_SHIFTS = (0, 8, 16, 32)
GROUPS = (1, 2)  # CTAs that multiply together
WIDE_K = 96  # elements; only where the target's table says so
_FLOATS = {"e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5}


@dataclass(frozen=True, slots=True)
class Scales:
    """One scale for every `block` elements along K, of type "e8m0" or "e4m3" (whose sign is never set).

    Raises:
        InvalidInput: scales have no such type, or a block is no number of elements.
    """

    dtype: str
    block: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", one_of(dtype(self.dtype).name, "type of scales", SCALE_CODES))
        object.__setattr__(self, "block", integer(self.block, "elements of a scale's block", low=1))

    def __str__(self) -> str:
        return f"{self.dtype} scales of {self.block} elements"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of multiply: one row of PTX's table of shapes (FACTS 10.2).

    Attributes:
        name: as PTX writes it after `.kind::`.
        codes: bits 7 to 9 (A) and 10 to 12 (B) of the descriptor, by element type.
        sums: element types of D.
        k: elements along K of one dense instruction; a sparse one spans twice as many.
        scales: of block-scaled kinds, what scales may be; empty for the others.
        element_bits: that an element takes in tensor memory, and in shared memory on average.
    """

    name: str
    codes: Mapping[str, int]
    sums: tuple[str, ...]
    k: int
    element_bits: int
    scales: tuple[Scales, ...] = ()

    @property
    def operands(self) -> tuple[str, ...]:
        """Element types of A and B."""
        return tuple(self.codes)

    def __str__(self) -> str:
        return f"kind::{self.name}"


def _kind(name: str, codes: dict[str, int], sums: tuple[str, ...], k: int, element_bits: int, *scales: Scales) -> Kind:
    return Kind(name, MappingProxyType(codes), sums, k, element_bits, scales)


_E8M0_BY_32 = Scales("e8m0", 32)
# FACTS 10.2, TC-15, TC-16, TC-19. Elements of 4 and 6 bits take a byte each, but in kinds that take nothing else.
KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        _kind("f16", {"fp16": 0, "bf16": 1}, ("fp16", "fp32"), 16, 16),
        _kind("tf32", {"tf32": 2}, ("fp32",), 8, 32),
        _kind("f8f6f4", _FLOATS, ("fp16", "fp32"), 32, 8),
        _kind("i8", {"u8": 0, "i8": 1}, ("i32",), 32, 8),
        _kind("mxf8f6f4", _FLOATS, ("fp32",), 32, 8, _E8M0_BY_32),
        _kind("mxf4", {"e2m1": 1}, ("fp32",), 64, 4, _E8M0_BY_32),
        _kind("mxf4nvf4", {"e2m1": 1}, ("fp32",), 64, 4, _E8M0_BY_32, Scales("e8m0", 16), Scales("e4m3", 16)),
    )
}
# Where scales say no more than mxf4's, that is what they are; fp32 stands for tf32, whose bits it holds.
_PREFERENCE = ("f16", "tf32", "i8", "f8f6f4", "mxf4", "mxf4nvf4", "mxf8f6f4")
_STANDS_FOR = {"fp32": "tf32"}


def operand_type(name: str) -> str:
    """Return the element type by which an operand is known here: fp32 is multiplied as tf32.

    Raises:
        InvalidInput: no such element type.
    """
    known = dtype(name).name
    return _STANDS_FOR.get(known, known)


def kind_of(a: str, b: str, scales: Scales | None = None) -> Kind:
    """Return the kind that multiplies elements of these types, with scales of this kind or without.

    Raises:
        InvalidInput: no kind does.
    """
    types = {operand_type(a), operand_type(b)}
    if scales is not None:
        instance(scales, "scales", Scales)
    for kind in (KINDS[name] for name in _PREFERENCE):
        if types <= set(kind.operands) and (scales in kind.scales if scales else not kind.scales):
            return kind
    said = f" with {scales}" if scales else ""
    raise InvalidInput(f"tcgen05 multiplies no {a} by {b}{said}; give types of one of {', '.join(KINDS)}")


def legal_m(
    kind: Kind, cta_group: int, *, ws: bool = False, sparse: bool = False, wide: bool = False
) -> tuple[int, ...]:
    """Return the rows of D that an instruction may have (FACTS TC-04).

    Args:
        kind: the kind.
        cta_group: CTAs that multiply together, 1 or 2.
        ws: whether it is weight-stationary, `.ws`.
        sparse: whether A is.
        wide: whether K is 96.

    Raises:
        InvalidInput: `cta_group` is neither 1 nor 2.
    """
    instance(kind, "kind", Kind)
    choice(cta_group, "cta_group", GROUPS)
    for name, value in (("ws", ws), ("sparse", sparse), ("wide", wide)):
        flag(value, name)
    if ws:
        return () if kind.scales else (32, 64, 128)
    if cta_group == 1:
        return (128,) if kind.scales else (64, 128)
    return (256,) if kind.scales and (sparse or wide) else (128, 256)


def legal_n(kind: Kind, cta_group: int, *, ws: bool = False, sparse: bool = False) -> tuple[int, ...]:
    """Return the columns of D that an instruction may have (FACTS TC-04); arguments and errors are `legal_m`'s."""
    instance(kind, "kind", Kind)
    choice(cta_group, "cta_group", GROUPS)
    for name, value in (("ws", ws), ("sparse", sparse)):
        flag(value, name)
    if ws:
        return () if kind.scales else (64, 128) if sparse else (64, 128, 256)
    if kind.name == "i8":
        return (8, 16, 24, *range(32, 257, 16)) if cta_group == 1 else tuple(range(32, 257, 32))
    step = 8 * cta_group
    return tuple(range(step, 257, step))


def legal_transposed_n(cta_group: int) -> tuple[int, ...]:
    """Return the columns of D that an instruction may have whose B is MN-major and of 8-bit elements (FACTS TC-06)."""
    step = 16 * choice(cta_group, "cta_group", GROUPS)
    return tuple(range(step, 257, step))


def scale_ids(factors: int) -> tuple[int, ...]:
    """Return the ids by which an instruction may pick its scale factors out of 32 bits (FACTS TC-18, TC-30).

    Of K = 96 with 3 factors PTX ISA 9.1 says 0 or 2 in table 44 and 0 to 3 in 9.7.16.10.7.2; these are what both allow.

    Args:
        factors: scale factors of a row that one instruction reads: 1 (`scale_vec::1X`), 2 or 4; for K = 96, 3 or 6.
    """
    return {1: (0, 1, 2, 3), 2: (0, 2), 3: (0, 2), 6: (0, 2)}.get(integer(factors, "factors"), (0,))


def scale_steps(kind: Kind, scales: Scales, steps: int) -> tuple[tuple[int, int], ...]:
    """Return, for each instruction along K, the group of 4 scale factors that it reads from, and the id within it.

    Each group is one column of tensor memory a row's 32 lanes;
    `legalsat.units.tensor_memory_layouts.scale_memory_layout` says where it lies. The id goes into the descriptor as
    `a_scale_id` and `b_scale_id`.

    Args:
        kind: a block-scaled kind.
        scales: what it is given, one of `kind.scales`.
        steps: instructions along K.

    Raises:
        InvalidInput: the kind takes no such scales.
    """
    instance(kind, "kind", Kind)
    if instance(scales, "scales", Scales) not in kind.scales:
        known = " or ".join(map(str, kind.scales))
        raise InvalidInput(f"{kind} takes no {scales}; give {known or 'a block-scaled kind'}")
    integer(steps, "steps", low=0, high=2**20)
    factors = kind.k // scales.block
    return tuple(divmod(step * factors, 4) for step in range(steps))


def _named(name: Any) -> str:
    """Return the name of an element type that may be left out, as None or ""."""
    return "" if name is None or (isinstance(name, str) and not name) else dtype(name).name


@dataclass(frozen=True, slots=True)
class InstructionDescriptor:
    """The 32-bit word that says what an instruction multiplies (FACTS TC-16, TC-17, TC-18).

    Attributes:
        kind: name of the kind, a key of `KINDS`. The word does not hold it.
        a, b: element types of A and B.
        d: that of the accumulator, the widest that the kind has when left out.
        m, n: rows and columns of D: of both CTAs together where two multiply together.
        a_major, b_major: "K" or "MN", the axis whose elements lie side by side.
        negate_a, negate_b: whether to negate the elements.
        sparse: whether A is.
        selector: which of a sparse A's metadata apply.
        saturate: whether integer sums saturate.
        max_shift: columns that a weight-stationary multiply may shift: 0, 8, 16 or 32.
        scale: of block-scaled kinds, the scales' type; e4m3 where the kind takes it, else e8m0, when left out.
        a_scale_id, b_scale_id: which of the 4 bytes in tensor memory hold the scales.
        wide: whether K is 96 (mxf4 and mxf4nvf4).
        table: the row of `KINDS`.

    Raises:
        InvalidInput: a name has no meaning, or a number does not fit its field.
    """

    kind: str
    a: str
    b: str
    m: int
    n: int
    d: str = ""
    a_major: Major = "K"
    b_major: Major = "K"
    negate_a: bool = False
    negate_b: bool = False
    sparse: bool = False
    selector: int = 0
    saturate: bool = False
    max_shift: int = 0
    scale: str = ""
    a_scale_id: int = 0
    b_scale_id: int = 0
    wide: bool = False
    table: Kind = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Fill in what the kind gives, and check that every field fits."""
        put = object.__setattr__
        kind = KINDS[one_of(self.kind, "kind", KINDS)]
        put(self, "table", kind)
        for name in ("a", "b"):
            put(self, name, one_of(operand_type(getattr(self, name)), f"type of {name.upper()}", kind.operands))
            one_of(getattr(self, f"{name}_major"), f"{name}_major", MAJORS)
        put(self, "d", one_of(_named(self.d) or kind.sums[-1], "type of D", kind.sums))
        for name, step, high in (("m", 128 if kind.scales else 16, 384 if kind.scales else 496), ("n", 8, 504)):
            put(self, name, integer(getattr(self, name), name, low=step, high=high))
            if getattr(self, name) % step:
                raise InvalidInput(f"{name} is {getattr(self, name)}; give a multiple of {step}")
        for name in ("negate_a", "negate_b", "sparse", "saturate", "wide"):
            flag(getattr(self, name), name)
        for name in ("selector", "a_scale_id", "b_scale_id"):
            put(self, name, integer(getattr(self, name), name, low=0, high=3))
        put(self, "max_shift", choice(self.max_shift, "max_shift", MAX_SHIFTS))
        types = tuple(dict.fromkeys(s.dtype for s in kind.scales))
        put(self, "scale", _named(self.scale))
        if kind.scales:
            put(self, "scale", one_of(self.scale or types[-1], "scale", types))
        foreign = ("saturate", "selector", "max_shift") if kind.scales else ("scale", "a_scale_id", "b_scale_id")
        for name in (*foreign, *(() if kind.k == 64 else ("wide",))):
            if getattr(self, name):
                raise InvalidInput(f"{name} is {getattr(self, name)!r}, which {kind} has no field for; leave it out")
        if kind.k == 64 and "MN" in (self.a_major, self.b_major):
            raise InvalidInput(f"{kind} has no field for MN-major operands; give K-major ones")

    @property
    def k(self) -> int:
        """Elements along K of one instruction, those that a sparse A leaves out too."""
        return (WIDE_K if self.wide else self.table.k) * (2 if self.sparse else 1)

    @property
    def word(self) -> int:
        """The 32 bits."""
        kind = self.table
        word = self.sparse << 2 | self.negate_a << 13 | self.negate_b << 14
        word |= kind.codes[self.a] << 7 | kind.codes[self.b] << 10 | self.n >> 3 << 17 | self.m >> 4 << 24
        word |= (self.a_major == "MN") << 15 | (self.b_major == "MN") << 16
        if kind.scales:
            word |= self.b_scale_id << 4 | SCALE_CODES[self.scale] << 23 | self.a_scale_id << 29 | self.wide << 31
        else:
            word |= self.selector | self.saturate << 3 | SUM_CODES[self.d] << 4
            word |= MAX_SHIFTS.index(self.max_shift) << 30
        return word

    @classmethod
    def from_word(cls, kind: str, word: int) -> InstructionDescriptor:
        """Return the descriptor that `word` is to an instruction of a kind.

        Args:
            kind: the instruction's kind, which the word does not hold.
            word: the 32 bits.

        Raises:
            InvalidInput: a code has no meaning for the kind, or a bit is set that must be 0.
        """
        table = KINDS[one_of(kind, "kind", KINDS)]
        word = integer(word, "word of an instruction descriptor", low=0, high=2**32 - 1)

        def bits(first: int, count: int) -> int:
            return word >> first & (1 << count) - 1

        def named(codes: Mapping[str, int], code: int, what: str) -> str:
            for name, known in codes.items():
                if known == code:
                    return name
            raise InvalidInput(f"word {word:#010x} has {what} {code}, which {table} lacks; give one of its codes")

        scaled = bool(table.scales)
        sums = {name: SUM_CODES[name] for name in table.sums}
        scales = {s.dtype: SCALE_CODES[s.dtype] for s in table.scales}
        found = cls(
            kind=kind,
            a=named(table.codes, bits(7, 3), "type of A"),
            b=named(table.codes, bits(10, 3), "type of B"),
            d=table.sums[-1] if scaled else named(sums, bits(4, 2), "type of D"),
            m=bits(24, 5) << 4,
            n=bits(17, 6) << 3,
            a_major=MAJORS[bits(15, 1)],
            b_major=MAJORS[bits(16, 1)],
            negate_a=bool(bits(13, 1)),
            negate_b=bool(bits(14, 1)),
            sparse=bool(bits(2, 1)),
            selector=0 if scaled else bits(0, 2),
            saturate=not scaled and bool(bits(3, 1)),
            max_shift=0 if scaled else MAX_SHIFTS[bits(30, 2)],
            scale=named(scales, bits(23, 1), "type of scales") if scaled else "",
            a_scale_id=bits(29, 2) if scaled else 0,
            b_scale_id=bits(4, 2) if scaled else 0,
            wide=table.k == 64 and bool(bits(31, 1)),
        )
        if found.word != word:
            raise InvalidInput(
                f"word {word:#010x} sets bits {found.word ^ word:#010x} that {table} keeps 0; clear them"
            )
        return found

    def __str__(self) -> str:
        return f"{self.table} {self.a} x {self.b} -> {self.d}, {self.m} x {self.n} x {self.k}"
