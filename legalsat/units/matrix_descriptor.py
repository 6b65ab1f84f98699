"""Matrix descriptors: how wgmma and tcgen05 are told where a tile lies in shared memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from legalsat.checks import instance, integer, integers, one_of, sequence
from legalsat.errors import InvalidInput
from legalsat.options import MAJORS, Major
from legalsat.printable import shown

UNITS = ("wgmma", "tcgen05")
CHUNK_BYTES = 16  # what matrix units read at once; offsets count in it
REACH = 2**18  # bytes of shared memory that a word can name

# Bytes of the widest run that stays in one row of the swizzle's pattern, and bytes after which the pattern repeats.
SPANS = {"none": 16, "32B": 32, "64B": 64, "128B": 128, "128B_atom_32B": 128}
PERIODS = {"none": 16, "32B": 256, "64B": 512, "128B": 1024, "128B_atom_32B": 512}

# The swizzle's code, its lowest bit in the word, and bits that are always set (WG-08, TC-09).
_CODES = {
    "wgmma": {"none": 0, "128B": 1, "64B": 2, "32B": 3},
    "tcgen05": {"none": 0, "128B_atom_32B": 1, "128B": 2, "64B": 4, "32B": 6},
}
SWIZZLE_BIT = {"wgmma": 62, "tcgen05": 61}
_FIELDS = 0x000E_3FFF_3FFF_3FFF  # base offset, SBO, LBO, start
_VERSION_BIT, _VERSIONS = 46, {"wgmma": 0, "tcgen05": 1}  # three bits, which tell the units' words apart
_VERSION_BITS = 7 << _VERSION_BIT
_FIXED = {unit: version << _VERSION_BIT for unit, version in _VERSIONS.items()}
_ABSOLUTE = 1 << 52  # LBO is an address (TC-12)


@dataclass(frozen=True, slots=True)
class MatrixDescriptor:
    """The 64-bit word that describes a tile in shared memory (FACTS WG-08, TC-09).

    Attributes:
        unit: "wgmma" or "tcgen05", which lay the word out differently.
        leading, stride: the leading and the stride dimension byte offset, LBO and SBO: multiples of 16 below 2^18.
            FACTS WG-12 says what they mean, and `legalsat.analyses.matrix_layout.read_addresses` computes it.
        swizzle: "none", "32B", "64B", "128B", or (tcgen05) "128B_atom_32B".
        start: byte address of the tile in shared memory, a multiple of 16 below 2^18.
        base_offset: 0 to 7, where the swizzle's pattern begins, for patterns that do not start at their own multiple.

    Raises:
        InvalidInput: no word holds these numbers.
    """

    unit: str
    leading: int
    stride: int
    swizzle: str
    start: int = 0
    base_offset: int = 0

    def __post_init__(self) -> None:
        one_of(self.unit, "unit", UNITS)
        one_of(self.swizzle, f"swizzle of {self.unit}", _CODES[self.unit])
        for name in ("leading", "stride", "start"):
            value = integer(getattr(self, name), f"{name} of a matrix descriptor", low=0, high=REACH - CHUNK_BYTES)
            object.__setattr__(self, name, value)
            if value % CHUNK_BYTES:
                raise InvalidInput(f"{name} of a matrix descriptor is {value} bytes; give a multiple of {CHUNK_BYTES}")
        object.__setattr__(self, "base_offset", integer(self.base_offset, "base_offset", low=0, high=7))

    @property
    def word(self) -> int:
        """The word, a 64-bit unsigned integer."""
        return (
            _FIXED[self.unit]
            | self.start >> 4
            | self.leading >> 4 << 16
            | self.stride >> 4 << 32
            | self.base_offset << 49
            | _CODES[self.unit][self.swizzle] << SWIZZLE_BIT[self.unit]
        )

    @classmethod
    def from_word(cls, unit: str, word: int) -> MatrixDescriptor:
        """Return the descriptor that `word` is to `unit`.

        Raises:
            InvalidInput: bits outside the fields are set, tcgen05's version is not 1, or its code names no swizzle.
                The absolute mode of LBO (bit 52, sm_103a) is not read.
        """
        codes = _CODES[one_of(unit, "unit", UNITS)]
        bits = integer(word, "word of a matrix descriptor", low=0, high=2**64 - 1)
        code = bits >> SWIZZLE_BIT[unit]
        rest = bits & ~_FIELDS & (1 << SWIZZLE_BIT[unit]) - 1
        if rest != _FIXED[unit]:
            raise InvalidInput(
                f"word {bits:#018x} has bits {rest:#x} outside its fields, where {unit} wants {_FIXED[unit]:#x}; "
                "name the other unit, or clear them"
            )
        names = [name for name, value in codes.items() if value == code]
        if not names:
            raise InvalidInput(f"word {bits:#018x} has swizzle code {code}, which {unit} lacks; give one of {codes}")
        start, leading, stride = (16 * (bits >> low & 0x3FFF) for low in (0, 16, 32))
        return cls(unit, leading, stride, names[0], start, bits >> 49 & 7)

    def ignored(self, major: Major, *, block: int = 0, element_bits: int = 0) -> tuple[str, ...]:
        """Return the names of the fields that hardware does not look at.

        The leading offset of a swizzled K-major tile is one (FACTS WG-12), and the base offset without a swizzle.
        An offset is not looked at either where one instruction takes no step of it.

        Args:
            major: "K" or "MN".
            block: rows of A or columns of C that one instruction reads; 0 to leave its steps out of account.
            element_bits: bits of an element in shared memory, needed with `block`.

        Raises:
            InvalidInput: an argument has no meaning, or `element_bits` is missing.
        """
        one_of(major, "major", MAJORS)
        if integer(block, "block", low=0, high=REACH):
            integer(element_bits, "element_bits", low=1, high=128)
        names = set()
        if self.swizzle == "none":
            names.add("base_offset")
        elif major == "K":
            names.add("leading")
        if block and major == "K" and block <= 8:
            names.add("stride")
        if block and major == "MN" and block * element_bits <= 8 * SPANS[self.swizzle]:
            names.add("stride" if self.swizzle == "none" else "leading")
        # One instruction reads 32 bytes of K, which elements of 32 bits fill with the 8 rows of one group.
        if block and major == "MN" and self.swizzle != "128B_atom_32B" and element_bits >= 32:
            names.add("leading" if self.swizzle == "none" else "stride")
        return tuple(sorted(names))

    def reads_like(self, other: MatrixDescriptor, major: Major, *, block: int = 0, element_bits: int = 0) -> bool:
        """Whether hardware reads the same with both: they differ in nothing but `ignored` fields.

        Raises:
            InvalidInput: an argument has no meaning; they are those of `ignored`.
        """
        if not isinstance(other, MatrixDescriptor):
            raise InvalidInput(f"other is {shown(other)}; give a MatrixDescriptor")
        if (self.unit, self.swizzle) != (other.unit, other.swizzle):
            return False
        unread: dict[str, Any] = dict.fromkeys(self.ignored(major, block=block, element_bits=element_bits), 0)
        return replace(self, **unread) == replace(other, **unread)


@dataclass(frozen=True, slots=True)
class MatrixWord:
    """Any 64 bits as a matrix unit takes them, a descriptor of it or not (FACTS WG-08, TC-09).

    Attributes:
        unit: "wgmma" or "tcgen05".
        word: the 64 bits.

    Raises:
        InvalidInput: no such unit, or more than 64 bits.
    """

    unit: str
    word: int

    def __post_init__(self) -> None:
        one_of(self.unit, "unit", UNITS)
        object.__setattr__(self, "word", integer(self.word, "word of a matrix descriptor", low=0, high=2**64 - 1))

    @property
    def version(self) -> int:
        """Bits 46 to 48: 0 in descriptors of wgmma, 1 in those of tcgen05."""
        return self.word >> _VERSION_BIT & 7

    @property
    def wanted_version(self) -> int:
        """What the unit wants there."""
        return _VERSIONS[self.unit]

    @property
    def swizzle_code(self) -> int:
        """The swizzle's field: bits 62 and 63 of wgmma, 61 to 63 of tcgen05."""
        return self.word >> SWIZZLE_BIT[self.unit]

    @property
    def swizzle(self) -> str:
        """The swizzle's name; "" where the code names none."""
        return next((name for name, code in _CODES[self.unit].items() if code == self.swizzle_code), "")

    @property
    def swizzle_codes(self) -> dict[str, int]:
        """The unit's swizzles and their codes."""
        return dict(_CODES[self.unit])

    @property
    def absolute(self) -> bool:
        """Whether the leading offset is an address (bit 52 of tcgen05, sm_103a)."""
        return self.unit == "tcgen05" and bool(self.word & _ABSOLUTE)

    @property
    def reserved(self) -> tuple[int, ...]:
        """The bits that are set and that the unit keeps 0, lowest first."""
        known = _FIELDS | _VERSION_BITS | (_ABSOLUTE if self.unit == "tcgen05" else 0)
        rest = self.word & ~known & (1 << SWIZZLE_BIT[self.unit]) - 1
        return tuple(bit for bit in range(64) if rest >> bit & 1)

    @property
    def descriptor(self) -> MatrixDescriptor | None:
        """What its fields say, other bits left out of account; None where the swizzle's code names none."""
        if not self.swizzle:
            return None
        high = self.swizzle_code << SWIZZLE_BIT[self.unit]
        return MatrixDescriptor.from_word(self.unit, self.word & _FIELDS | _FIXED[self.unit] | high)

    def __str__(self) -> str:
        return f"{self.unit} matrix descriptor {self.word:#018x}"


@dataclass(frozen=True, slots=True)
class MatrixOperand:
    """A tile in shared memory as a matrix unit reads it, one instruction after the other.

    Attributes:
        major: "K" or "MN", the axis whose elements lie side by side.
        block: rows of A (64) or columns of C (n of the instruction) that one instruction reads.
        descriptor: the word for a tile at address 0.
        offsets: bytes to add to the start address: `offsets[b][s]` for block b and step s along K.
    """

    major: Major
    block: int
    descriptor: MatrixDescriptor
    offsets: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        one_of(self.major, "major", MAJORS)
        integer(self.block, "block", low=1)
        instance(self.descriptor, "descriptor", MatrixDescriptor)
        rows = sequence(self.offsets, "offsets", "rows of offsets")
        steps = tuple(integers(row, f"offsets[{i}]") for i, row in enumerate(rows))
        object.__setattr__(self, "offsets", steps)

    @property
    def alignment(self) -> int:
        """Bytes that the tile's address must be a multiple of, for the swizzle's pattern to start with it."""
        return PERIODS[self.descriptor.swizzle]

    def word(self, block: int, step: int, start: int = 0) -> int:
        """Return the word of one instruction: block `block`, step `step` along K, of a tile at address `start`.

        Only the low 14 bits depend on these three, so a kernel adds `offsets[block][step] // 16` to the word of a tile.

        Raises:
            InvalidInput: no such block or step, or the swizzle's pattern does not start with the tile.
        """
        integer(block, "block", low=0, high=len(self.offsets) - 1)
        integer(step, "step", low=0, high=len(self.offsets[block]) - 1)
        if integer(start, "start", low=0) % self.alignment:
            raise InvalidInput(
                f"the tile starts at {start}, inside the pattern of swizzle {self.descriptor.swizzle}; "
                f"give a multiple of {self.alignment}"
            )
        return replace(self.descriptor, start=start + self.offsets[block][step]).word
